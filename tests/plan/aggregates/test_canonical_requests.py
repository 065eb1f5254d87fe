"""Requests that add the same to every total have one form; others keep theirs."""

from __future__ import annotations

import pytest

from plan.samples import read
from sfumato.plan.aggregates.disjoint import canonical_request
from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean, Sum


def where(text: str) -> AggregateRequest:
    return Count(read(text))


@pytest.mark.parametrize(
    ("predicate", "conditions", "canonical"),
    [
        ("member", [], "member"),
        ("count IS NOT NULL", [], "count IS NOT NULL"),
        ("count IS NOT NULL", ["count > 3"], None),
        ("count IS NOT NULL", ["count IS NOT NULL"], None),
        ("count IS NOT NULL", ["weight > 3"], "count IS NOT NULL"),
        ("count > 3 AND count IS NOT NULL", [], "count > 3"),
        ("count IS NOT NULL AND count > 3", [], "count > 3"),
        ("count IS NOT NULL AND member AND count > 3", [], "member AND count > 3"),
        ("count IS NOT NULL OR count > 3", ["count > 3"], "count IS NOT NULL OR count > 3"),
        ("count IS NULL", ["count > 3"], "count IS NULL"),
        ("NOT member", ["member"], "NOT member"),
        ("NOT count = 3", ["count > 3"], "NOT count = 3"),
        ("NOT (count > 3 OR member)", ["count > 3"], "NOT (count > 3 OR member)"),
        ("ABS(count) IS NOT NULL", ["ABS(count) > 3"], None),
        ("count + 1 > 3", ["count > 3"], "count + 1 > 3"),
        ("age + age IS NOT NULL", ["age > 3"], None),
        ("age + age IS NOT NULL", ["weight > 3"], "age + age IS NOT NULL"),
        ("count + count IS NOT NULL", ["count > 3"], "count + count IS NOT NULL"),
        ("count IS NOT NULL AND weight IS NOT NULL", ["count > 3", "weight > 1"], None),
    ],
)
def test_tests_for_null_that_others_imply_are_left_out(
    predicate: str, conditions: list[str], canonical: str | None
) -> None:
    found = canonical_request(where(predicate), [read(text) for text in conditions])
    assert found == (Count() if canonical is None else where(canonical))


def test_sums_of_cases_are_filtered_sums() -> None:
    assert canonical_request(Sum(read("CASE WHEN member THEN age ELSE 0 END")), []) == Sum(read("age"), read("member"))
    assert canonical_request(Sum(read("CASE WHEN member THEN 1 ELSE 0 END")), []) == where("member")
    assert canonical_request(Mean(read("CASE WHEN member THEN age END")), []) == Mean(read("age"), read("member"))
    ones = canonical_request(Mean(read("CASE WHEN member THEN 1 END")), [])
    assert ones == Mean(read("1"), read("member"))  # not a count
    twos = canonical_request(Sum(read("CASE WHEN member THEN 2 ELSE 0 END")), [])
    assert twos == Sum(read("2"), read("member"))
    plain = Sum(read("CASE WHEN member THEN age ELSE 1 END"))
    assert canonical_request(plain, []) == plain
