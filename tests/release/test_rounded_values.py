"""Sums whose totals, or values, are rounded: ranges hold the exact number although noise is next to none."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from sfumato.plan.bounding import ScaledMeasure
from sfumato.plan.readings.total_readings import GroupTotals

ROWS, DAYS = 100_000, 4
REAL = 2.0**-2 + 3 * 2.0**-27 - 2.0**-50
"""Far from every multiple of 2^-26 and 2^-24, the units of its sums: were values rounded to those, all would be rounded
the same way."""
CENTS = Fraction("1234567.89")
SURE = "0.999999"
"""So that no draw misses by chance."""
COLUMNS: dict[str, Any] = {
    "kind": {"values": ["a", "b"]},
    "day": {"type": "date", "bounds": [dt.date(2024, 1, 1), dt.date(2024, 1, DAYS)]},
    "real": {"type": "real", "bounds": [0, 1]},
    "debt": {"type": "real", "bounds": [-1, 1]},
    "cents": {"type": "real", "bounds": [0, 10_000_000], "grid": "0.01"},
}
TRUTHS = {"real": Fraction(REAL), "debt": -Fraction(REAL), "cents": CENTS}


def opened(folder: Path, *, every_row: bool) -> sf.Curator:
    days = [dt.date(2024, 1, 1 + row % DAYS) for row in range(ROWS)]
    rows = {"who": range(ROWS), "kind": ["a", "b"] * (ROWS // 2), "day": days}
    values = {"real": REAL, "debt": -REAL, "cents": float(CENTS)}
    pd.DataFrame({**rows, **{name: [each] * ROWS for name, each in values.items()}}).to_parquet(folder / "v.parquet")
    limits: dict[str, Any] = {"id": "row"} if every_row else {"id": "who", "max_rows": 3, "max_groups": 2}
    table = sf.Table("v", folder / "v.parquet", COLUMNS, **limits)
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=every_row), sf.Budget(10**9), {"v": table})
    return sf.Curator(policy, folder / "l.ledger")


@pytest.fixture(scope="module", params=["rows", "people"])
def clinic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with opened(tmp_path_factory.mktemp("rounded"), every_row=request.param == "rows") as curator:
        yield curator


def bought(proposal: Any, epsilon: int) -> Any:
    """The ranges of a new release: the price is so high that noise hides no rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.WeakPrivacy)
        return proposal.release(epsilon=epsilon, confidence=SURE, fresh=True).intervals["n"]


QUESTIONS = {
    "SELECT SUM(real) AS n FROM v": [1],
    "SELECT SUM(debt) AS n FROM v": [1],
    "SELECT SUM(cents) AS n FROM v": [1],
    "SELECT SUM(real) AS n, AVG(real) AS m FROM v": [1],
    "SELECT SUM(cents) AS n, AVG(cents) AS m FROM v": [1],
    "SELECT kind, SUM(real) AS n FROM v GROUP BY kind": [Fraction(1, 2)] * 2,
    "SELECT kind, SUM(cents) AS n FROM v GROUP BY ROLLUP (kind)": [Fraction(1, 2)] * 2 + [1],
}
JOINED = "SELECT SUM(a.real) AS n FROM v AS a JOIN v AS b ON a.who = b.who"


def covers(intervals: Any, truths: list[Fraction]) -> bool:
    return all(low <= truth <= high for (low, high), truth in zip(intervals, truths, strict=True))


def _draws(config: pytest.Config) -> int:
    return 20 if config.getoption("--long") else 1


@pytest.mark.parametrize("question", QUESTIONS)
def test_ranges_of_sums_of_equal_values_hold_at_a_high_price(
    clinic: sf.Curator, question: str, pytestconfig: pytest.Config
) -> None:
    (name,) = (each for each in TRUTHS if f"SUM({each})" in question)
    truths = [TRUTHS[name] * ROWS * share for share in QUESTIONS[question]]
    for epsilon in (1000, 10**6) * _draws(pytestconfig):
        assert covers(bought(clinic.sql(question), epsilon), truths)


def test_the_range_of_a_sum_over_a_self_join_holds_at_a_high_price(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    with opened(tmp_path, every_row=False) as clinic:
        for epsilon in (1000, 10**6) * _draws(pytestconfig):
            assert covers(bought(clinic.sql(JOINED), epsilon), [TRUTHS["real"] * ROWS])


@pytest.mark.parametrize("name", ["real", "cents"])
def test_ranges_of_running_sums_hold_at_a_high_price(
    clinic: sf.Curator, name: str, pytestconfig: pytest.Config
) -> None:
    running = clinic.running(f"SELECT day, SUM({name}) AS n FROM v GROUP BY day")
    truths = [TRUTHS[name] * ROWS * days / DAYS for days in range(1, DAYS + 1)]
    for epsilon in (1000, 10**6) * _draws(pytestconfig):
        assert covers(bought(running, epsilon), truths)


def read(clinic: sf.Curator, name: str) -> tuple[ScaledMeasure, Fraction]:
    """The total that noise would be added to, in the measure's own terms."""
    bounded = clinic.sql(f"SELECT SUM({name}) AS n FROM v").bounding_options[0]
    (scaled,) = bounded.measures
    return scaled, int(clinic._context.engine.read(GroupTotals(bounded, ((),)), 0)[0, 0]) * scaled.unit_value


@pytest.mark.parametrize("name", TRUTHS)
def test_without_noise_a_total_is_off_by_its_rounding_alone(clinic: sf.Curator, name: str) -> None:
    """It is rounded once; rounding every value to such units would move it by thousands of them, which is caught."""
    scaled, total = read(clinic, name)
    truth, unit = TRUTHS[name] * ROWS, scaled.unit_value
    assert scaled.bits < 0
    assert abs(total - truth) <= unit / 2 + ROWS * (scaled.rounding - unit / 2) / 2**40 <= scaled.rounding
    each = round(TRUTHS[name] / unit) * unit
    assert abs(each * ROWS - truth) > 1000 * unit > scaled.rounding / 100


def test_rounding_is_a_small_part_of_every_range(clinic: sf.Curator) -> None:
    """At ε = 1 less than a millionth of what one unit changes for each of three; and sums that are whole have none."""
    for name in TRUTHS:
        (scaled,) = clinic.sql(f"SELECT SUM({name}) AS n FROM v").bounding_options[0].measures
        moved = scaled.sensitivity.l1 * scaled.unit_value
        assert 0 < scaled.rounding < moved / 2**18
        if name == "cents":
            assert scaled.rounding == scaled.unit_value / 2
    (days,) = clinic.sql("SELECT SUM(CASE WHEN kind = 'a' THEN 1 ELSE 2 END) AS n FROM v").bounding_options[0].measures
    assert (days.step, days.rounding) == (1, 0)


def test_a_coarse_sum_is_bought_within_a_width_and_compared_in_sessions(clinic: sf.Curator) -> None:
    """One total has one noise: the half-width is that of a scale Δ/ε, and not of two sums together."""
    question = clinic.sql("SELECT SUM(cents) AS n FROM v")
    forecast, (scaled,) = question.error(epsilon=1)["n"], question.bounding_options[0].measures
    assert isinstance(forecast, float)
    moved = scaled.sensitivity.l1
    assert forecast == pytest.approx(float(sf.Laplace(moved).error("0.95") * scaled.unit_value), rel=1e-6)
    assert float(question.price({"n": forecast * (1 + 1e-9)})) == pytest.approx(1, rel=1e-4)
    session = clinic.above(10**14, 1, sensitivity=10**8, questions=["SELECT SUM(cents) AS n FROM v"])
    assert not any(each.above for each in session.release(epsilon=1).answers)
