"""Quantiles of dates and times: ranked by days or seconds at the price of any quantile, and shown as dates."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.policy import Type
from sfumato.privacy import codec

FIRST = dt.date(2024, 1, 1)
DAYS = [FIRST + dt.timedelta(days=k * k % 300) for k in range(400)]
TIMES = [dt.datetime(2024, 3, 1, 6) + dt.timedelta(minutes=37 * k % 5000) for k in range(400)]
COLUMNS = {
    "day": {"type": "date", "bounds": [FIRST, "2024-12-31"]},
    "at": {"type": "timestamp", "bounds": ["2024-03-01 00:00:00.5", "2024-03-31 00:00:00"]},
    "half": {"values": ["a", "b"]},
}


def curator(ledger: Path, **limits: Any) -> sf.Curator:
    rows = pa.table({"who": list(range(400)), "day": DAYS, "at": TIMES, "half": ["a", "b"] * 200})
    table = sf.Table("visits", rows, COLUMNS, id="who", **limits)
    return sf.Curator(sf.Policy(sf.PrivacyUnit("person"), sf.Budget(10_000), {"visits": table}), ledger)


@pytest.fixture
def clinic(tmp_path: Path) -> sf.Curator:
    return curator(tmp_path / "clinic.ledger", max_rows=1)


def near(found: dt.date, values: list[Any], share: float, rows: int = 8) -> bool:
    """Whether a date lies within so many rows of its rank."""
    ranked = sorted(values)
    place = round(share * len(ranked))
    low, high = ranked[max(0, place - rows)], ranked[min(len(ranked) - 1, place + rows)]
    return low <= found <= high


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_dates_and_times_are_near_the_truth(clinic: sf.Curator) -> None:
    """At an ε of 100 a selection misses 8 ranks with a chance far below 1e-6."""
    text = "SELECT MEDIAN(day) AS m, QUANTILE_DISC(day, 0.9) AS q, MIN(day) AS l, MEDIAN(at) AS t FROM visits"
    median, ninth, least, time = clinic.sql(text).release(epsilon=400).rows[0]
    assert type(median) is type(ninth) is type(least) is dt.date
    assert type(time) is dt.datetime
    assert near(median, DAYS, 0.5)
    assert near(ninth, DAYS, 0.9)
    assert near(least, DAYS, 0)
    assert near(time, TIMES, 0.5)


def test_they_cost_what_the_days_cost(clinic: sf.Curator) -> None:
    dates = clinic.sql("SELECT half, MEDIAN(day) AS m FROM visits GROUP BY half")
    days = clinic.sql("SELECT half, MEDIAN(DATE_DIFF('day', DATE '2024-01-01', day)) AS m FROM visits GROUP BY half")
    first, second = (each.other_parts[0].bounded.measures[0] for each in (dates, days))
    assert (first.sensitivity, first.low, first.high) == (second.sensitivity, second.low, second.high)
    assert (first.low, first.high) == (0, 365)
    assert "within" in str(dates.error(epsilon=1))
    assert "DATE_DIFF" not in str(dates.explain())


def test_an_answer_of_dates_is_written_and_read_again(clinic: sf.Curator) -> None:
    answer = clinic.sql("SELECT half, MEDIAN(day) AS m, COUNT(*) AS n FROM visits GROUP BY half").release(epsilon=5)
    assert "m" not in answer.intervals
    assert answer.to_arrow().schema.field("m").type == pa.date32()
    assert sf.Answer.from_json(answer.to_json()).rows == answer.rows
    again = clinic.sql("SELECT half, MEDIAN(day) AS m, COUNT(*) AS n FROM visits GROUP BY half").release(epsilon=5)
    assert again.receipt.free
    assert again.rows == answer.rows


def test_no_interval_is_bought_that_would_not_be_shown(clinic: sf.Curator) -> None:
    """A median of dates has none; the fix, typed as it stands, has one."""
    question = clinic.sql("SELECT MEDIAN(day) AS m FROM visits")
    with pytest.raises(sf.InvalidParameter, match="has no interval") as refused:
        question.release(epsilon=5, range="value")
    days = refused.value.fix.removeprefix("leave out range, or select the quantile of ").removesuffix(
        ", which has an interval"
    )
    answer = clinic.sql(f"SELECT MEDIAN({days}) AS m FROM visits").release(epsilon=5, range="value")
    low, high = answer.intervals["m"][0]  # type: ignore[misc]
    assert 0 <= low <= high < 365


def test_dates_of_an_answer_are_subtracted_outside(clinic: sf.Curator) -> None:
    for text in ("MAX(day) - MIN(day)", "AGE(MAX(day), MIN(day))", "DATE_DIFF('day', MIN(day), MAX(day))"):
        with pytest.raises(sf.Unsupported, match="in pandas, which is free"):
            clinic.sql(f"SELECT {text} AS d FROM visits")
    frame = clinic.sql("SELECT MAX(day) AS last, MIN(day) AS first FROM visits").release(epsilon=5).to_pandas()
    assert (pd.to_datetime(frame["last"]) - pd.to_datetime(frame["first"])).dt.days[0] > 0


def test_a_plan_of_dates_is_stored(clinic: sf.Curator) -> None:
    (request,) = clinic.sql("SELECT MEDIAN(at) AS m FROM visits").query.plan.measures
    assert codec.dumps(codec.loads(codec.dumps(request))) == codec.dumps(request)
    assert request.result.type is Type.TIMESTAMP


def test_ends_of_the_bounds_are_dates_of_the_policy(tmp_path: Path) -> None:
    """A group without rows still has a date within the declared bounds."""
    with curator(tmp_path / "one.ledger", max_rows=1) as clinic:
        text = "SELECT MEDIAN(day) AS m, MEDIAN(at) AS t FROM visits WHERE half = 'a' AND half = 'b'"
        day, time = clinic.sql(text).release(epsilon=1).rows[0]
    assert FIRST <= day <= dt.date(2024, 12, 31)
    assert dt.datetime(2024, 3, 1) <= time <= dt.datetime(2024, 3, 31)
