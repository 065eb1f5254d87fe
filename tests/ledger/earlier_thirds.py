"""Makes a ledger of thirds as it was written before fractions were kept: every amount is rounded up to 1e-30.

It was made once, by ``python tests/ledger/earlier_thirds.py`` in the last version that wrote whole units alone, and is
read ever after. Made by a later version it would hold other amounts: never make it anew.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import sfumato as sf

EARLIER = Path(__file__).parent.parent / "data" / "thirds.ledger"
UNIT = sf.PrivacyUnit("patient")


def fill(ledger: sf.Ledger) -> None:
    """Charges, a share, a tab that was stopped and one that is open, all in thirds, sevenths and ninths."""
    clinic = ledger.account("clinic", unit=UNIT, budget=sf.Budget(2))
    clinic.analyst("ana", share="1/3")
    clinic.charge(sf.Entry(sf.Charged(sf.Laplace(3), 1), "a third", analyst="ana"))
    clinic.charge(sf.Entry(sf.Charged(sf.Laplace(7), 2), "two sevenths", analyst="ana"))
    stopped = clinic.open_tab(sf.Entry(sf.Curve.pure("1/3")))
    stopped.step(sf.Entry(sf.Curve.pure("1/9"), "a ninth"))
    stopped.stop()
    clinic.correct(sf.Curve.pure("1/11"), reason="forgotten")
    clinic.open_tab(sf.Entry(sf.Curve.pure("1/3"), "left open")).step(sf.Entry(sf.Curve.pure("1/9"), "a ninth"))
    keyed = ledger.account("keyed", unit=UNIT, budget=sf.Budget(1, "1e-6"))
    keyed.charge(sf.Entry(sf.Curve.approximate("1/3", "1/30000000"), "a third of the reserve"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "thirds.ledger"
        with sf.Ledger.open(made) as ledger:
            fill(ledger)
            ledger.verify()
            ledger.backup(Path(sys.argv[1]) if len(sys.argv) > 1 else EARLIER)
