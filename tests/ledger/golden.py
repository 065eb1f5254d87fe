"""Makes the golden ledger: one of this version, with every kind of line and a charge for every kind of mechanism.

It was made once, by ``python tests/ledger/golden.py``, and is read ever after: a later version that cannot read it, or
that reads something else in it, could not read what people have. Make another only beside it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import sfumato as sf
from sfumato.mechanisms.key_thresholds import LegacyKeyThreshold
from sfumato.mechanisms.quantiles import LegacyQuantiles

GOLDEN = Path(__file__).parent.parent / "data" / "golden.ledger"
UNIT = sf.PrivacyUnit("patient")
BUDGET = sf.Budget(10, "1e-6")
LOCAL_BUDGET = sf.Budget(10, "1e-6", neighbours="replace")
LARGE_BODY = ",".join(str(number) for number in range(15_000))

CENTRAL = (
    sf.Charged(sf.Laplace(20), sf.Sensitivity(groups=3, per_group=2, total=5)),
    sf.Charged(sf.Laplace([20, 30], grid="0.5"), 1),
    sf.Charged(sf.Gaussian(30), sf.Sensitivity(groups=3, per_group=2)),
    sf.Charged(sf.Exponential("0.1", monotone=True)),
    sf.Charged(sf.PermuteAndFlip("0.1", sensitivity=3, grid="0.25")),
    sf.Charged(sf.NoisyMax("0.1", noise="exponential")),
    sf.Charged(sf.TopK("0.1", k=3)),
    sf.Charged(LegacyQuantiles(["0.25", "0.5", "0.75"], "0.1", (0, 100))),
    sf.Charged(LegacyKeyThreshold("0.1", "1e-9", max_groups=4)),
    sf.Curve.laplace(20),
)
LOCAL = (
    sf.Charged(sf.RandomizedResponse.of_odds("1.5", 3)),
    sf.Charged(sf.OptimizedUnaryEncoding("0.1", 3)),
    sf.Charged(sf.OptimalLocalHashing("0.1", 3)),
    sf.Charged(sf.Laplace(20), sf.Sensitivity(per_group=2, neighbours="replace")),
)
WATCH = sf.Charged(sf.AboveThreshold("0.1", 100, positives=2, values_epsilon="0.05"))
TOGETHER = (sf.Charged(sf.Gaussian(40), 1), sf.Charged(sf.Exponential("0.05")), sf.Curve.pure("0.01"))


def fill(ledger: sf.Ledger) -> None:
    """Every kind of line."""
    clinic = ledger.account("clinic", unit=UNIT, budget=BUDGET)
    survey = ledger.account("survey", unit=UNIT, budget=LOCAL_BUDGET)
    clinic.join("postgresql://db/visits", fingerprint="first content")
    clinic.analyst("ana", share="0.5")
    for account, parts in ((clinic, CENTRAL), (survey, LOCAL)):
        for number, part in enumerate(parts):
            account.charge(sf.Entry(part, f"{account.name} {number}", analyst="ana" if number % 2 else None))
    together = sf.Entry(TOGETHER, "together", plan="p1", data="v1", analyst="ana", request_id="r1")
    clinic.answer(clinic.charge(together), '{"n": 12}', {"n": "2.5", "mean": "1/3"})
    large = clinic.ask(sf.Entry(sf.Curve.pure("0.01"), "large", plan="p2", data="v1"), {"n": 1})
    assert large.begin() is None
    clinic.answer(large.line, LARGE_BODY, {"n": 1})
    stopped = clinic.ask(sf.Entry(sf.Curve.pure("0.01"), "stopped", plan="p3", data="v1"), {})
    assert stopped.begin() is None
    stopped.stop()
    clinic.open_tab(sf.Entry(WATCH, "watch", analyst="ana"))
    with clinic.open_tab(sf.Entry(sf.Curve.pure("0.5"), "given back")) as tab:
        clinic.answer(tab.step(sf.Entry(CENTRAL[0], "a step")), "7", {})
    clinic.open_tab(clinic.cost(sf.Curve.gaussian(20)), question="forfeited").forfeit()
    clinic.amend(epsilon=12, reason="more patients agreed")
    clinic.correct(sf.Curve.pure("0.02"), reason="a table was shown at a talk")


if __name__ == "__main__":
    if GOLDEN.exists():
        sys.exit(f"{GOLDEN} is kept as it is")
    with tempfile.TemporaryDirectory() as folder, sf.Ledger.open(Path(folder) / "ledger") as made:
        fill(made)
        GOLDEN.parent.mkdir(exist_ok=True)
        made.backup(GOLDEN)
