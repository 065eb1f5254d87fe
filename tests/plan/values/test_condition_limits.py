"""What a condition limits: every form of comparison, at the ends of types and of the calendar."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from typing import Any

import pytest

from plan.samples import COLUMNS, read, shown
from sfumato.plan.values.expressions import Call
from sfumato.plan.values.narrowing import (
    Limit,
    as_comparison,
    can_hold_together,
    limits_by_expression,
    narrow_domain,
    narrow_expression as narrow,
)
from sfumato.policy import Domain

TENTH, HALF = Fraction(0.1), Fraction(1, 2)
BELOW_HALF, ABOVE_HALF = Fraction(math.nextafter(0.5, 0)), Fraction(math.nextafter(0.5, 1))
FEBRUARY, LEAP_DAY = dt.datetime(2020, 2, 1), dt.datetime(2020, 2, 29, 23, 59, 59, 999999)
YEAR = dt.date(2020, 1, 1), dt.date(2020, 12, 31)
MOMENTS = dt.datetime(2020, 1, 1), dt.datetime(2020, 12, 31, 23, 59, 59, 999999)

LIMITS: dict[str, dict[str, Any]] = {
    "age < 5": {"age": (None, 4)},
    "age <= 5": {"age": (None, 5)},
    "5 > age": {"age": (None, 4)},
    "5 >= age": {"age": (None, 5)},
    "age > 5": {"age": (6, None)},
    "5 < age": {"age": (6, None)},
    "5 <= age": {"age": (5, None)},
    "age >= 5": {"age": (5, None)},
    "age = 5": {"age": (5, 5)},
    "5 = age": {"age": (5, 5)},
    "age <> 5": {"age": (None, None)},
    "age BETWEEN 2 AND 7": {"age": (2, 7)},
    "age IN (9, 3, NULL)": {"age": (3, 9)},
    "age BETWEEN 2 AND NULL": {},
    "age BETWEEN 2 AND count": {},
    "age < NULL": {},
    "age < count": {},
    "age + 1 < 5": {"(+ age integer:1)": (None, 4)},
    "NOT age < 5": {},
    "member": {},
    "member = TRUE": {"member": (None, None)},
    "weight > 1.5": {"weight": (Fraction(math.nextafter(1.5, 2)), None)},
    "weight < -1.5": {"weight": (None, Fraction(math.nextafter(-1.5, -2)))},
    "weight < 0.5": {"weight": (None, BELOW_HALF)},
    "weight > 0.5": {"weight": (ABOVE_HALF, None)},
    "weight <= 0.5": {"weight": (None, HALF)},
    "pay <= 0.1": {"pay": (None, TENTH)},
    "weight IN (0.5, 0.1)": {"weight": (TENTH, HALF)},
    "name = 'x'": {"name": {"x"}},
    "name IN ('x', 'y')": {"name": {"x", "y"}},
    "name < 'x'": {"name": (None, None)},
    "name <> 'x'": {"name": (None, None)},
    "age < 5 AND age > 2": {"age": (3, 4)},
    "age < 3 AND pay > 0.5 AND age < 5": {"age": (None, 2), "pay": (ABOVE_HALF, None)},
    "age > 3 AND age >= 5": {"age": (5, None)},
    "age < 5 OR age > 90": {"age": (None, None)},
    "age < 5 OR pay > 3": {},
    "age < 5 OR member": {},
    "age <= 5 OR age BETWEEN 2 AND 9": {"age": (None, 9)},
    "age BETWEEN 2 AND 9 OR age <= 5": {"age": (None, 9)},
    "age BETWEEN 2 AND 9 OR age >= 5": {"age": (2, None)},
    "age >= 5 OR age BETWEEN 2 AND 9": {"age": (2, None)},
    "age = 5 OR age = 3 OR age = 4": {"age": (3, 5)},
    "name = 'x' OR name = 'y'": {"name": {"x", "y"}},
    "name IN ('x', 'z') AND name IN ('y', 'z')": {"name": {"z"}},
    "name = 'x' AND name <> 'y'": {"name": {"x"}},
    "name <> 'y' AND name = 'x'": {"name": {"x"}},
    "name = 'x' OR name < 'y'": {"name": (None, None)},
    "name < 'y' OR name = 'x'": {"name": (None, None)},
    "born < DATE '2020-03-01'": {"born": (None, dt.date(2020, 2, 29))},
    "born > DATE '2020-03-01'": {"born": (dt.date(2020, 3, 2), None)},
    "seen > DATE '9999-12-31'": {"seen": (None, None)},
    "seen < DATE '0001-01-01'": {"seen": (None, None)},
    "moment < TIMESTAMP '2020-03-01 00:00:00'": {"moment": (None, LEAP_DAY)},
    "moment > TIMESTAMP '2020-02-29 23:59:59.999999'": {"moment": (dt.datetime(2020, 3, 1), None)},
    "EXTRACT(year FROM seen) <= 2020": {"(EXTRACT text:year seen)": (None, 2020), "seen": (None, YEAR[1])},
    "EXTRACT(year FROM seen) >= 2020": {"(EXTRACT text:year seen)": (2020, None), "seen": (YEAR[0], None)},
    "EXTRACT(year FROM moment) = 2020": {"(EXTRACT text:year moment)": (2020, 2020), "moment": MOMENTS},
    "EXTRACT(year FROM seen) BETWEEN 1 AND 9999": {
        "(EXTRACT text:year seen)": (1, 9999),
        "seen": (dt.date.min, dt.date.max),
    },
    "EXTRACT(year FROM seen) BETWEEN 0 AND 10000": {"(EXTRACT text:year seen)": (0, 10000), "seen": (None, None)},
    "EXTRACT(year FROM seen) >= 9999": {
        "(EXTRACT text:year seen)": (9999, None),
        "seen": (dt.date(9999, 1, 1), None),
    },
    "EXTRACT(year FROM seen) <= 1": {"(EXTRACT text:year seen)": (None, 1), "seen": (None, dt.date(1, 12, 31))},
    "EXTRACT(year FROM seen) >= 10000": {"(EXTRACT text:year seen)": (10000, None), "seen": (None, None)},
    "EXTRACT(year FROM seen) <= 0": {"(EXTRACT text:year seen)": (None, 0), "seen": (None, None)},
    "EXTRACT(month FROM seen) = 3": {"(EXTRACT text:month seen)": (3, 3)},
    "EXTRACT(year FROM CAST(moment AS DATE)) = 2020": {
        "(EXTRACT text:year (CAST date moment))": (2020, 2020),
        "(CAST date moment)": YEAR,
        "moment": MOMENTS,
    },
    "DATE_TRUNC('month', seen) <= DATE '2020-02-15'": {
        "(DATE_TRUNC text:month seen)": (None, dt.date(2020, 2, 15)),
        "seen": (None, dt.date(2020, 2, 29)),
    },
    "DATE_TRUNC('month', seen) >= DATE '2020-02-15'": {
        "(DATE_TRUNC text:month seen)": (dt.date(2020, 2, 15), None),
        "seen": (dt.date(2020, 2, 15), None),
    },
    "DATE_TRUNC('month', moment) = TIMESTAMP '2020-02-01 00:00:00'": {
        "(DATE_TRUNC text:month moment)": (FEBRUARY, FEBRUARY),
        "moment": (FEBRUARY, LEAP_DAY),
    },
    "DATE_TRUNC('month', seen) <= DATE '9999-12-01'": {
        "(DATE_TRUNC text:month seen)": (None, dt.date(9999, 12, 1)),
        "seen": (None, None),
    },
    "CAST(moment AS DATE) BETWEEN DATE '2020-01-01' AND DATE '2020-12-31'": {
        "(CAST date moment)": YEAR,
        "moment": MOMENTS,
    },
    "CAST(moment AS DATE) <= DATE '2020-12-31'": {
        "(CAST date moment)": (None, YEAR[1]),
        "moment": (None, MOMENTS[1]),
    },
    "CAST(seen AS TIMESTAMP) <= TIMESTAMP '2020-05-05 10:00:00'": {
        "(CAST timestamp seen)": (None, dt.datetime(2020, 5, 5, 10)),
        "seen": (None, dt.date(2020, 5, 5)),
    },
    "CAST(seen AS TIMESTAMP) >= TIMESTAMP '2020-05-05 10:00:00'": {
        "(CAST timestamp seen)": (dt.datetime(2020, 5, 5, 10), None),
        "seen": (dt.date(2020, 5, 6), None),
    },
    "CAST(seen AS TIMESTAMP) >= TIMESTAMP '2020-05-05 00:00:00'": {
        "(CAST timestamp seen)": (dt.datetime(2020, 5, 5), None),
        "seen": (dt.date(2020, 5, 5), None),
    },
    "CAST(count AS DOUBLE) BETWEEN 1.5 AND 2.5": {
        "(CAST real count)": (Fraction(3, 2), Fraction(5, 2)),
        "count": (2, 2),
    },
    f"CAST(count AS DOUBLE) <= {2**53}": {"(CAST real count)": (None, Fraction(2**53)), "count": (None, None)},
    f"CAST(count AS DOUBLE) <= {2**53 - 1}": {
        "(CAST real count)": (None, Fraction(2**53 - 1)),
        "count": (None, 2**53 - 1),
    },
    f"CAST(count AS DOUBLE) >= -{2**53}": {"(CAST real count)": (Fraction(-(2**53)), None), "count": (None, None)},
    "CAST(weight AS INTEGER) < 3": {"(CAST integer weight)": (None, 2)},
}


@pytest.mark.parametrize("text", LIMITS)
def test_the_limits_of_a_condition(text: str) -> None:
    expected = {
        name: Limit(among=frozenset(limit)) if isinstance(limit, set) else Limit(*limit)
        for name, limit in LIMITS[text].items()
    }
    assert {shown(operand): limit for operand, limit in limits_by_expression([read(text)]).items()} == expected


def test_conditions_meet() -> None:
    assert limits_by_expression([read("age < 5"), read("age > 2"), read("pay = 3")]) == limits_by_expression(
        [read("age < 5 AND age > 2 AND pay = 3")]
    )
    assert limits_by_expression([]) == {}


def test_a_comparison_of_literals_is_none() -> None:
    for text in ("1 = age", "age = 1", "age BETWEEN 1 AND 1", "age IN (1, NULL)"):
        condition = read(text)
        assert isinstance(condition, Call)
        comparison = as_comparison(condition)
        assert comparison is not None
        assert shown(comparison.operand) == "age"
        assert set(comparison.values) == {1}
    for text in ("age = NULL", "age = count", "age BETWEEN 1 AND count", "age + 1"):
        condition = read(text)
        assert isinstance(condition, Call)
        assert as_comparison(condition) is None


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("age < 5", "age > 5", False),
        ("age <= 5", "age >= 5", True),
        ("age < 5", "age > 4", False),
        ("age < 5", "pay > 5", True),
        ("name = 'x'", "name = 'y'", False),
        ("name = 'x'", "name IN ('x', 'y')", True),
        ("age < 5 AND name = 'x'", "name = 'y' AND age < 5", False),
        ("age < 5 AND age > 7", "age = 4", False),
        ("age < 5", "age < 3", True),
        ("age > 5", "age > 3", True),
    ],
)
def test_conditions_that_exclude_each_other(first: str, second: str, together: bool) -> None:
    for one, other in ((first, second), (second, first)):
        assert can_hold_together(limits_by_expression([read(one)]), limits_by_expression([read(other)])) is together


def test_what_lies_in_a_limit() -> None:
    limit = Limit(2, 5)
    assert [value for value in range(8) if limit.contains(value)] == [2, 3, 4, 5]
    assert [value for value in range(4) if Limit(high=1).contains(value)] == [0, 1]
    assert [value for value in range(4) if Limit(low=3).contains(value)] == [3]
    assert [value for value in "abc" if Limit(among=frozenset("ac")).contains(value)] == ["a", "c"]
    assert [each.is_empty for each in (Limit(2, 2), Limit(3, 2), Limit(3), Limit(high=2))] == [
        False,
        True,
        False,
        False,
    ]
    assert Limit(among=frozenset()).is_empty


DOMAINS = [
    (Domain("integer", bounds=(0, 9)), Limit(3, 5), Domain("integer", bounds=(3, 5))),
    (Domain("integer", bounds=(0, 9), nullable=True), Limit(3, 50), Domain("integer", bounds=(3, 9))),
    (Domain("integer", bounds=(0, 9)), Limit(9), Domain("integer", bounds=(9, 9))),
    (Domain("integer", bounds=(0, 9)), Limit(10), None),
    (Domain("integer", nullable=True), Limit(3), Domain("integer")),
    (Domain("integer", nullable=True), Limit(high=3), Domain("integer")),
    (Domain("integer"), Limit(3, 4), Domain("integer", bounds=(3, 4))),
    (Domain("integer"), Limit(0, 2**62), Domain("integer", bounds=(0, 2**62))),
    (Domain("integer"), Limit(0, 2**62 + 1), Domain("integer")),
    (Domain("integer", nullable=True), Limit(-(2**62) - 1, 0), Domain("integer")),
    (
        Domain("date"),
        Limit(dt.date(2020, 1, 1), dt.date(2020, 1, 3)),
        Domain("date", bounds=("2020-01-01", "2020-01-03")),
    ),
    (Domain("integer", values=(1, 3, 5)), Limit(2, 5), Domain("integer", values=(3, 5))),
    (Domain("integer", values=(1, 3, 5)), Limit(6), None),
    (Domain("real", values=("0.1", "0.5")), Limit(high=TENTH), Domain("real", values=("0.1",))),
    (Domain("real", values=("0.1", "0.5")), Limit(TENTH, BELOW_HALF), Domain("real", values=("0.1",))),
    (Domain("real", bounds=(0, 1)), Limit(HALF), Domain("real", bounds=("0.5", 1))),
    (Domain("real", bounds=(0, 1)), Limit(Fraction(2)), None),
    (Domain("real", nullable=True), Limit(HALF), Domain("real")),
    (Domain("text"), Limit(among=frozenset("ba")), Domain("text", values=("a", "b"))),
    (Domain("text"), Limit(among=frozenset()), None),
    (Domain("text", nullable=True), Limit(), Domain("text")),
    (Domain("text", values=("b", "a", "c")), Limit(among=frozenset("ca")), Domain("text", values=("a", "c"))),
    (Domain("text", values=("b", "a")), Limit(among=frozenset("z")), None),
]


@pytest.mark.parametrize(("domain", "limit", "narrowed"), DOMAINS)
def test_the_part_of_a_domain_within_a_limit(domain: Domain, limit: Limit, narrowed: Domain | None) -> None:
    assert narrow_domain(domain, limit) == narrowed


@pytest.mark.parametrize(
    ("text", "where", "domain"),
    [
        ("age", "age < 5", Domain("integer", bounds=(0, 4))),
        ("age", "pay < 5", COLUMNS["age"]),
        ("age", "age > 200", None),
        ("age + 1", "age < 5", Domain("integer", bounds=(1, 5))),
        ("age + 1", "age > 200", None),
        ("age + 1", "age + 1 < 5", Domain("integer", bounds=(1, 4))),
        ("CAST(age AS DOUBLE)", "age < 5", Domain("real", bounds=(0, 4))),
        ("CAST(age AS DOUBLE)", "pay < 5", Domain("real", bounds=(0, 110))),
        ("1", "age < 5", Domain("integer", bounds=(1, 1))),
    ],
)
def test_the_domain_of_an_expression_where_a_condition_holds(text: str, where: str, domain: Domain | None) -> None:
    narrowed = narrow(read(text), limits_by_expression([read(where)]))
    assert (None if narrowed is None else narrowed.domain.range) == (None if domain is None else domain.range)
    if narrowed is not None:
        assert shown(narrowed) == shown(read(text))
