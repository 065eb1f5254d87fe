"""Half-widths that are evaluated for one size are those of every size."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.previews import error_forecasts
from sfumato.curator.previews.error_forecasts import SIZES
from sfumato.release.requests import PriceRequest

COLUMNS = {
    "ward": {"values": ["north", "south"]},
    "age": {"type": "integer", "bounds": [0, 100]},
    "cost": {"type": "real", "bounds": [-5, 999.5]},
}
CONSTANT = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY ward",
    "SELECT SUM(cost) AS s FROM visits",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)",
]
BY_SIZE = [
    "SELECT AVG(age) AS m FROM visits",
    "SELECT COUNT(*) AS n, SUM(age) / COUNT(*) AS m FROM visits",
    "SELECT VAR_POP(age) AS v FROM visits",
]


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> sf.Curator:
    rows = pa.table({"who": [1, 2], "ward": ["north", "south"], "age": [30, 40], "cost": [1.5, 2.5]})
    table = sf.Table("visits", rows, COLUMNS, id="who", max_rows=7, max_groups=2)
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(9, "1e-6"), {"visits": table})
    folder: Path = tmp_path_factory.mktemp("forecasts")
    with sf.Curator(policy, folder / "ledger.db") as curator:
        yield curator


def _widths(question: sf.Question, strategy: str, size: int | None, epsilon: str) -> dict[str, object]:
    limited, request = question.limit(strategy=strategy), PriceRequest(epsilon)
    return limited.widths(limited.price_release(request), request, size)


@pytest.mark.parametrize(
    ("text", "strategy"),
    [*product(CONSTANT, ["reweight", "clip-l1", "sample"]), *product(BY_SIZE, ["reweight", "sample"])],
)
@pytest.mark.parametrize("epsilon", ["1/7", "1"])
def test_the_widths_of_one_size_are_those_of_every_size(
    curator: sf.Curator, text: str, epsilon: str, strategy: str
) -> None:
    question = curator.sql(text)
    together = _widths(question, strategy, None, epsilon)
    for size in SIZES:
        for name, width in _widths(question, strategy, size, epsilon).items():
            known = together[name]
            assert (known[size] if isinstance(known, dict) else known) == pytest.approx(width, rel=1e-9)


def test_a_total_of_weighted_counts_may_be_off_by_half_a_row_per_group(curator: sf.Curator) -> None:
    """Weighted counts are shown as integers and a total is the sum of what is shown: each adds up to ½ to its error."""
    widths = [
        _widths(curator.sql(f"SELECT age, COUNT(*) AS n FROM visits GROUP BY {keys}"), "reweight", None, "20000")["n"]
        for keys in ("age", "ROLLUP (age)")
    ]
    assert widths == [pytest.approx(0.5, abs=0.1), pytest.approx(101 / 2, abs=0.6)]


def test_means_differ_by_size_and_totals_are_evaluated_once(
    curator: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    evaluate = error_forecasts._widths_at_size
    monkeypatch.setattr(error_forecasts, "_widths_at_size", lambda *given: sizes.append(given[5]) or evaluate(*given))
    for text in BY_SIZE:
        assert any(isinstance(width, dict) for width in _widths(curator.sql(text), "sample", None, "1").values())
    assert sizes == [*SIZES] * len(BY_SIZE)
    sizes.clear()
    for text in CONSTANT:
        _widths(curator.sql(text), "sample", None, "1")
    assert sizes == [SIZES[0]] * len(CONSTANT)


def test_the_width_of_a_sampled_count_grows_with_the_group(curator: sf.Curator) -> None:
    question, request = curator.sql(CONSTANT[0]), PriceRequest("1", sample="1/10")
    known = question.widths(question.price_release(request), request)["n"]
    assert known[SIZES[0]] < known[SIZES[-1]]
