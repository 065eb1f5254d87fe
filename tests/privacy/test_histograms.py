"""Distance and neighbours of histograms, against databases written as rows."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

import sfumato as sf
from refusals import assert_refused

UNIVERSE = ("a", "b", "c")
DATABASES = [rows for size in range(4) for rows in combinations_with_replacement(UNIVERSE, size)]


def _edits(first: Any, second: Any) -> int:
    """How many rows to remove and to add: multisets, without vectors."""
    return (Counter(first) - Counter(second)).total() + (Counter(second) - Counter(first)).total()


def test_distance_and_neighbours_are_those_of_the_rows() -> None:
    for first, second in product(DATABASES, repeat=2):
        x, y = sf.as_histogram(first, UNIVERSE), sf.as_histogram(second, UNIVERSE)
        assert sum(x) == len(first)
        assert sf.distance(x, y) == sf.distance(Counter(first), Counter(second)) == _edits(first, second)
        assert sf.neighbours(x, y) == (_edits(first, second) <= 1)
        replaced = first == second or any(
            sorted((*first[:i], new, *first[i + 1 :])) == sorted(second) for i in range(len(first)) for new in UNIVERSE
        )
        assert sf.neighbours(x, y, "replace") == replaced


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: sf.distance([1, 2], [1]), "a list of counts of length 2"),
        (lambda: sf.distance({"a": 1}, [1]), "two mappings"),
        (lambda: sf.distance([1, -1], [1, 1]), "whole number"),
        (lambda: sf.distance([0.5], [1]), "whole number"),
        (lambda: sf.distance("ab", [1, 1]), "a list"),
        (lambda: sf.distance(3, 4), "a list"),
        (lambda: sf.neighbours([1], [2], "bounded"), "add-remove"),
        (lambda: sf.as_histogram(["a", "d"], UNIVERSE), "universe"),
        (lambda: sf.as_histogram(["a"], ["a", "a"]), "distinct"),
        (lambda: sf.as_histogram("aa", UNIVERSE), "a list"),
        (lambda: sf.as_histogram([["a"]], UNIVERSE), "hashable records"),
        (lambda: sf.as_histogram(["a"], [["a"]]), "hashable records"),
    ],
)
def test_what_is_no_histogram_is_refused(call: Any, rule: str) -> None:
    assert_refused(call, rule)
