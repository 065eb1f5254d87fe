"""Values that are rounded to coarser steps: ranges hold the exact number although noise is next to none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import sfumato as sf

ROWS, VALUE, STEP = 4_000, 15, 32
"""Every value is nearest to no step at all, so that all of them are rounded the same way."""


_NOISE = 20_000
"""More than all noise of a sum: its scale is 2e9/1e7 for values from 0 on."""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    folder = tmp_path_factory.mktemp("rounded")
    rows = {"who": range(ROWS), "kind": ["a", "b"] * (ROWS // 2), "cost": [VALUE] * ROWS, "debt": [-VALUE] * ROWS}
    pd.DataFrame(rows).to_parquet(folder / "visits.parquet")
    whole = {"type": "integer", "bounds": [0, 2_000_000]}
    signed = {"type": "integer", "bounds": [-2_000_000, 2_000_000]}
    columns: dict[str, Any] = {"kind": {"values": ["a", "b"]}, "cost": whole, "debt": signed}
    table = sf.Table("visits", folder / "visits.parquet", columns, id="who", max_rows=1_000, max_groups=1)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(10**9), {"visits": table})
    with sf.Curator(policy, folder / "l.ledger") as curator:
        yield curator


def bought(clinic: sf.Curator, question: str) -> sf.Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.WeakPrivacy)
        return clinic.sql(question).release(epsilon=10**7)


@pytest.mark.parametrize(
    ("question", "truths"),
    [
        ("SELECT SUM(cost) AS n FROM visits", [VALUE * ROWS]),
        ("SELECT SUM(debt) AS n FROM visits", [-VALUE * ROWS]),
        ("SELECT AVG(cost) AS n FROM visits", [VALUE]),
        ("SELECT kind, SUM(cost) AS n FROM visits GROUP BY kind", [VALUE * ROWS / 2] * 2),
        ("SELECT kind, SUM(cost) AS n FROM visits GROUP BY ROLLUP (kind)", [VALUE * ROWS / 2] * 2 + [VALUE * ROWS]),
        ("SELECT SUM(cost) AS n, COUNT(*) AS m FROM visits", [VALUE * ROWS]),
    ],
)
def test_ranges_hold_what_rounding_may_have_moved(clinic: sf.Curator, question: str, truths: list[float]) -> None:
    """Noise alone is far below: it would say that the sum is next to nothing."""
    made = bought(clinic, question)
    moved = STEP if "debt" in question else STEP / 2  # twice the range has steps that are twice as coarse
    assert f"in steps of {2 * moved:g}" in str(made.receipt)
    for interval, truth in zip(made.intervals["n"], truths, strict=True):
        assert interval is not None
        assert interval[0] <= truth <= interval[1]
        rows = abs(truth) / VALUE
        assert interval[1] - interval[0] <= 2 * moved * rows + _NOISE, "and not much more"


def test_sums_on_their_own_steps_are_measured_as_before(clinic: sf.Curator) -> None:
    """Rows so few that no step is coarser: one total, and noise alone in its range."""
    asked = clinic.sql("SELECT SUM(cost) AS n FROM visits").limit(rows=1)
    fine, coarse = asked.options[0], clinic.sql("SELECT SUM(cost) AS n FROM visits").options[0]
    assert [each.coordinates for each in fine.measures] == [1]
    assert [each.coordinates for each in coarse.measures] == [2]
    assert coarse.measures[0].added.total == coarse.measures[0].size * 1_000 << coarse.measures[0].bits


def test_a_coarse_sum_is_bought_within_a_width_of_noise_and_compared_in_sessions(clinic: sf.Curator) -> None:
    """A forecast is of the noise; what rounding adds depends on rows that nobody has counted yet."""
    question = clinic.sql("SELECT SUM(cost) AS n FROM visits")
    forecast = question.error(epsilon=1)["n"]
    assert isinstance(forecast, float)
    assert float(question.price({"n": forecast})) == pytest.approx(1, rel=1e-4)
    session = clinic.above(10**12, 1, sensitivity=2 * 10**9, questions=["SELECT SUM(cost) AS n FROM visits"])
    assert not any(each.above for each in session.release(epsilon=1).answers)
