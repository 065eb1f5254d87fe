"""What is asked is made from few measures: each is measured once, whatever is made from it."""

from __future__ import annotations

import pytest

from plan.described import CATALOG
from sfumato.plan.descriptions import describe_measure
from sfumato.plan.sharing import share_measures
from sfumato.plan.sql.statements import parse

AVG, SUM, COUNT = "AVG(cost)", "SUM(cost)", "COUNT(cost)"
OLD = "CASE WHEN age > 60 THEN 1 ELSE 0 END"
PAIR = "CORR(age, cost), REGR_SLOPE(age, cost), REGR_INTERCEPT(age, cost), REGR_R2(age, cost), COVAR_POP(age, cost)"
CASES = {
    f"{AVG}, {SUM}, {COUNT}": ["mean of cost"],
    f"{SUM}, {COUNT}": ["mean of cost"],
    f"{AVG}, COUNT(*)": ["mean of cost; rows where IS NULL(cost)"],
    f"{SUM}, COUNT(*)": ["sum of cost", "rows"],
    f"AVG({OLD}), SUM({OLD})": ["mean of CASE((age > 60), 1, 0)"],
    f"{COUNT}, COUNT(*)": ["rows where NOT(IS NULL(cost)); rows where IS NULL(cost)"],
    f"{AVG}, COUNT(age)": ["mean of cost", "rows where NOT(IS NULL(age))"],
    f"{AVG}, {SUM} FILTER (WHERE urgent)": ["mean of cost", "sum of cost where urgent"],
    f"{AVG} FILTER (WHERE urgent), {COUNT} FILTER (WHERE urgent)": ["mean of cost where urgent"],
    f"VARIANCE(cost), STDDEV_POP(cost), {AVG}, {SUM}, {COUNT}": ["mean of cost", "squares"],
    f"VARIANCE(cost), {SUM} FILTER (WHERE urgent)": ["mean of cost", "squares", "sum of cost where urgent"],
    f"{PAIR}, REGR_COUNT(age, cost), REGR_AVGX(age, cost), REGR_AVGY(age, cost), COVAR_SAMP(age, cost)": [
        "mean of cost where NOT(IS NULL(age))",
        "mean of age where NOT(IS NULL(cost))",
        "squares",
        "squares",
        "products",
    ],
    "COVAR_POP(age, cost)": [
        "mean of cost where NOT(IS NULL(age))",
        "mean of age where NOT(IS NULL(cost))",
        "products",
    ],
    f"CORR(age, cost), {AVG}": [
        "mean of cost where NOT(IS NULL(age))",
        "mean of age where NOT(IS NULL(cost))",
        "squares",
        "squares",
        "products",
        "mean of cost",
    ],
    "CORR(COALESCE(age, 0), COALESCE(cost, 0)), AVG(COALESCE(age, 0))": [
        "mean of COALESCE(cost, 0)",
        "mean of COALESCE(age, 0)",
        "squares",
        "squares",
        "products",
    ],
}


@pytest.mark.parametrize("asked", CASES)
def test_equal_measures_are_measured_once(asked: str) -> None:
    (part,) = share_measures(parse(f"SELECT {asked} FROM visits", CATALOG).plan).parts
    found = [describe_measure(each) for each in part.measures]
    assert [each.replace("sum of (ABS", "squares (ABS").replace("sum of ((", "products ((").split(" (")[0]
            if each.startswith("sum of (") else each for each in found] == CASES[asked]  # fmt: skip


def test_rows_are_never_counted_by_a_mean() -> None:
    """A mean counts the rows where its value is there: COUNT(*) counts the others too."""
    found = share_measures(parse("SELECT AVG(cost), COUNT(*), COUNT(cost) FROM visits", CATALOG).plan)
    assert [each.measures for each in found.requests] == [(0,), (0, 1), (0,)]
