"""The exact law of quantiles on every small world: what a level spans, and that the curve covers all levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from mechanisms.executions import Law, law
from sfumato.mechanisms import rank_choices

VALUES = range(3)
Table = tuple[tuple[int, int], ...]
"""Rows (group, value), in order."""


@dataclass(frozen=True)
class Grouped:
    """Rows as an engine gives them."""

    group: Any
    steps: Any
    counts: Any
    groups: int

    @classmethod
    def of(cls, table: Table, groups: int) -> Grouped:
        pairs, counts = np.unique(np.array(table, np.int64).reshape(-1, 2), axis=0, return_counts=True)
        return cls(pairs[:, 0], pairs[:, 1], counts, groups)


@cache
def joint(mechanism: sf.Quantiles, table: Table) -> Law:
    groups = 2 if mechanism.grouped else 1
    return law(lambda: mechanism.choose_groups(Grouped.of(table, groups)).reshape(-1).tolist())


def tables(rows: int, groups: int) -> list[Table]:
    return list(itertools.combinations_with_replacement(itertools.product(range(groups), VALUES), rows))


def neighbours(relation: str, unit: int, groups: int, others: int) -> Iterator[tuple[Table, Table]]:
    """Tables that differ in one unit of up to so many rows, beside up to so many rows of others."""
    mine = [each for rows in range(unit + 1) for each in tables(rows, groups)]
    for rest in (each for rows in range(others + 1) for each in tables(rows, groups)):
        for a, b in itertools.product(mine, mine if relation == "replace" else [()]):
            if relation == "add-remove" or (len(a) == len(b) == unit and a < b):
                yield tuple(sorted(rest + a)), tuple(sorted(rest + b))


def level_spans(mechanism: sf.Quantiles, p: Law, q: Law) -> Iterator[float]:
    """For each level and each history, how far the loss of what the level gives spans."""
    chances, groups = mechanism.probabilities, 2 if mechanism.grouped else 1
    place = {chance: index for index, chance in enumerate(chances)}
    for level in range(mechanism.levels):
        known, fresh = (
            [
                group * len(chances) + place[node.probability]
                for group in range(groups)
                for node in mechanism._nodes
                if wanted(node)
            ]
            for wanted in (lambda node: node.level < level, lambda node: node.level <= level)  # noqa: B023
        )
        losses: dict[tuple[int, ...], list[float]] = {}
        marginals = [_marginal(each, fresh) for each in (p, q)]
        for outcome, chance in marginals[0].items():
            whole = dict(zip(fresh, outcome, strict=True))
            losses.setdefault(tuple(whole[each] for each in known), []).append(math.log(chance / marginals[1][outcome]))
        yield from (max(each) - min(each) for each in losses.values())


def _marginal(found: Law, places: list[int]) -> Law:
    summed: Law = {}
    for outcome, chance in found.items():
        told = tuple(outcome[place] for place in places)
        summed[told] = summed.get(told, 0.0) + chance
    return summed


BOTH = ("add-remove", "replace")
WORLDS = [
    # probabilities, groups, rows of a unit, rows of others, and the relations that are not left to the long run
    (("0.5",), 1, 1, 3, BOTH),
    (("0.3",), 1, 2, 2, BOTH),
    (("0.9",), 2, 2, 1, BOTH[:1]),
    (("0.25", "0.5", "0.75"), 1, 1, 3, BOTH[1:]),
    (("0.1", "0.5"), 1, 1, 3, BOTH[:1]),
    (("0.5", "0.9"), 1, 2, 2, BOTH[1:]),
    (("0.2", "0.5", "0.6", "0.9"), 1, 1, 2, BOTH[:1]),
    (("0.4", "0.7"), 2, 1, 0, BOTH),
]


@pytest.mark.parametrize(
    ("chances", "groups", "unit", "others", "relation"),
    [
        pytest.param(*world, relation, marks=[] if relation in default else [pytest.mark.long])
        for *world, default in WORLDS
        for relation in BOTH
    ],
    ids=str,
)
def test_a_level_has_bounded_range_and_the_curve_covers_all(
    chances: tuple[str, ...], groups: int, unit: int, others: int, relation: str
) -> None:
    mechanism = sf.Quantiles(chances, "1.6", (0, 2), unit, relation, groups > 1)
    curve, level = mechanism.curve(), float(mechanism.level_epsilon)
    claims = {epsilon: curve.delta(epsilon) for epsilon in (0.0, 0.4, 0.9)}
    divergences = {order: curve.renyi(order) for order in (2, 8, 30)}
    widest = 0.0
    for a, b in neighbours(relation, unit, groups, others):
        p, q = joint(mechanism, a), joint(mechanism, b)
        assert p.keys() == q.keys()
        assert sum(p.values()) == pytest.approx(1)
        widest = max(widest, *level_spans(mechanism, p, q))
        for one, two in ((p, q), (q, p)):
            for order, divergence in divergences.items():
                moment = math.fsum(chance * (chance / two[y]) ** (order - 1) for y, chance in one.items())
                assert math.log(moment) / (order - 1) <= divergence + 1e-9
            for epsilon, claim in claims.items():
                leak = math.fsum(max(0.0, chance - math.exp(epsilon) * two[y]) for y, chance in one.items())
                assert leak <= claim + 1e-9
    assert 0.45 * level < widest <= level * (1 + 1e-9)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize(
    "mechanism",
    [
        sf.Quantiles(0, "1.6", (0, 2), offset=2),
        sf.Quantiles(1, "1.6", (0, 2), offset=-1),
        sf.Quantiles(["0.3", "0.6"], "1.6", (0, 2), offset=1),
        sf.Quantiles(["0.3", "0.6"], "1.6", (0, 2), offset=-1),
    ],
    ids=repr,
)
def test_targets_that_lean_cost_no_more(mechanism: sf.Quantiles, relation: str) -> None:
    mechanism = sf.Quantiles(mechanism.probabilities, "1.6", (0, 2), 1, relation, offset=mechanism.offset)
    widest = 0.0
    for a, b in neighbours(relation, 1, 1, 2):
        widest = max(widest, *level_spans(mechanism, joint(mechanism, a), joint(mechanism, b)))
    level = float(mechanism.level_epsilon)
    assert 0.45 * level < widest <= level * (1 + 1e-9)


FULL = tuple((group, value) for group in (0, 1) for value in [0] * 10 + [1] * 10)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_row_that_changes_its_group_reaches_the_price_and_does_not_pass_it(relation: str) -> None:
    """A row far above a high quantile comes into one group, and under replace leaves another."""
    mechanism = sf.Quantiles("0.9", 1, (0, 3), 1, relation, grouped=True)
    a, b = ((*FULL, (0, 3)), (*FULL, (1, 3)) if relation == "replace" else FULL)
    assert max(level_spans(mechanism, joint(mechanism, a), joint(mechanism, b))) == pytest.approx(1)


def test_a_row_that_changes_its_part_reaches_the_price_and_does_not_pass_it() -> None:
    """From far below the twentieth to far above the other: it leaves one part of the second level for another."""
    mechanism = sf.Quantiles(["0.05", "0.5", "0.95"], 1, (0, 7), 1, "replace")
    others = tuple((0, value) for value in [2] * 10 + [3] * 10 + [4] * 10 + [5] * 10)
    spans = list(level_spans(mechanism, joint(mechanism, ((0, 0), *others)), joint(mechanism, (*others, (0, 7)))))
    assert 0.45 < max(spans) <= 0.5 + 1e-9


# ── ties ───────────────────────────────────────────────────────────────────────────────────────


def test_rows_tied_with_a_released_number_are_split_by_the_share() -> None:
    """Of 30 rows 10 at 4, 20 at 7: each part has its own share of those equal to what was released."""
    rows = rank_choices.RankedValues(np.array([4, 7]), np.array([0, 10, 30]))
    whole = rank_choices.parts_with_all_rows(rows, np.array([0, 2]), (0, 9))
    rule = rank_choices.RankRule(Fraction(3, 5), Fraction(1000))
    numbers, lower, upper = rank_choices.choose(rows, whole, rule)
    assert numbers.tolist() == [7]  # rank 18 of 30
    assert (lower.unit, lower.high_weight.tolist(), lower.weight(rows).tolist()) == (5, [60], [110])
    assert (upper.unit, upper.low_weight.tolist(), upper.weight(rows).tolist()) == (5, [40], [40])
    for part in (lower, upper):  # again the same number: what is left of its rows is split again
        numbers, below, above = rank_choices.choose(rows, part, rank_choices.RankRule(Fraction(2, 3), Fraction(1000)))
        assert numbers.tolist() == [7]
        parts = below.weight(rows) + above.weight(rows)
        assert (parts == 3 * part.weight(rows)).all()
    leaning = rank_choices.RankRule(Fraction(3, 5), Fraction(1000), -1)
    _, lower, upper = rank_choices.choose(rows, whole, leaning)
    assert (lower.weight(rows).tolist(), upper.weight(rows).tolist()) == ([50], [100])
    _, lower, upper = rank_choices.choose(rows, whole, rank_choices.RankRule(Fraction(3, 5), Fraction(1000), 1))
    assert (lower.weight(rows).tolist(), upper.weight(rows).tolist()) == ([150], [0])


@pytest.mark.parametrize(
    "data", [[5] * 80, [0] * 80, [10] * 80, [2] * 40 + [5] * 40 + [9] * 40], ids=lambda d: str({*d})
)
def test_every_quantile_within_a_shared_value_is_that_value(data: list[int]) -> None:
    """A regression: rows equal to a released median counted above it, and the lower quartile fell below them."""
    chances = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
    found = sf.Quantiles(chances, 400, (0, 10)).choose(data)
    assert found == [data[int(q * len(data))] for q in chances]


def test_no_rows_are_drawn_like_any_other() -> None:
    mechanism = sf.Quantiles(["0.2", "0.5"], 1, (0, 2), grouped=True)
    empty = joint(mechanism, ())
    assert len(empty) == 36
    assert {y: sum(c for z, c in empty.items() if z[1] == y) for y in VALUES} == pytest.approx(
        dict.fromkeys(VALUES, 1 / 3)
    )


def test_long_decimals_leave_64_bits_and_stay_exact() -> None:
    """Weights of tied rows are products of shares: here their common denominator passes 2⁶³."""
    chances = ["0.123457", "0.234567", "0.345679", "0.456791", "0.567891", "0.678911", "0.791357"]
    mechanism = sf.Quantiles(chances, 3000, (0, 100), rows_per_unit=1)
    assert mechanism.choose([50] * 1000) == [50] * 7
    spread = np.sort(np.arange(100_000) % 101)
    assert np.abs(np.array(mechanism.choose(spread)) - [12, 23, 34, 46, 57, 68, 79]).max() <= 2


# ── ranges and extremes ────────────────────────────────────────────────────────────────────────


def _quantiles(data: list[int], q: Fraction) -> tuple[Fraction, Fraction]:
    """The least and the greatest number that somebody calls the q-quantile: by inverse ranks, or between two rows."""
    place = q * (len(data) - 1)
    held = [Fraction(y) for y in data if sum(x < y for x in data) <= q * len(data) <= sum(x <= y for x in data)]
    between = [Fraction(data[math.floor(place)]), Fraction(data[math.ceil(place)])]
    return min(held + between), max(held + between)


DATA = [
    [3] * 4,
    [0] * 4,
    [1, 1],
    [0, 3, 3, 3, 3, 3, 3, 3],
    [0, 1, 1, 1, 1, 1, 1, 3],
    [0] * 10 + [2] * 50,
    [1] * 30 + [2] * 31,
    [*range(4)] * 12,
    [0] * 29 + [2] * 3 + [3] * 28,
]


@pytest.mark.parametrize("data", DATA, ids=lambda data: f"{len(data)} rows of {len({*data})}")
@pytest.mark.parametrize("chances", [("0.5",), ("0.25",), ("0.4", "0.5")], ids=str)
def test_ends_lie_around_every_definition_of_a_quantile(data: list[int], chances: tuple[str, ...]) -> None:
    """Exactly: the chance that an end lies on the wrong side, many rows tied or few rows at all, is what was said."""
    about = sf.Quantiles(chances, 8, (0, 3))
    for epsilon in (8, 2):
        lower, upper = (law(lambda each=each: each.choose(sorted(data))) for each in about.ends(epsilon, "0.9"))
        truth = [_quantiles(sorted(data), q) for q in about.probabilities]
        missed = [
            sum(chance for y, chance in lower.items() if any(a > t[0] for a, t in zip(y, truth, strict=True))),
            sum(chance for y, chance in upper.items() if any(a < t[1] for a, t in zip(y, truth, strict=True))),
        ]
        assert max(missed) <= 0.05


@pytest.mark.parametrize("data", [*DATA, [2], [0, 3]], ids=lambda data: f"{len(data)} rows of {len({*data})}")
def test_an_extreme_has_a_row_beyond_it_and_few(data: list[int]) -> None:
    least, most = (make(4, (0, 3), confidence="0.9") for make in (sf.Quantiles.minimum, sf.Quantiles.maximum))
    assert least.offset == -most.offset == 1 + math.floor((math.log(4) + math.log(20)) / 2)
    rank = least.offset
    none = sum(chance for (y,), chance in law(lambda: least.choose(sorted(data))).items() if y < min(data))
    many = sum(c for (y,), c in law(lambda: least.choose(sorted(data))).items() if sum(x < y for x in data) >= 2 * rank)
    assert none + many <= 0.1
    none = sum(chance for (y,), chance in law(lambda: most.choose(sorted(data))).items() if y > max(data))
    many = sum(c for (y,), c in law(lambda: most.choose(sorted(data))).items() if sum(x > y for x in data) >= 2 * rank)
    assert none + many <= 0.1


@pytest.mark.parametrize("data", DATA, ids=lambda data: f"{len(data)} rows of {len({*data})}")
@pytest.mark.parametrize("q", ["0.5", "0.2"])
def test_the_rank_error_of_one_quantile_holds_whatever_is_tied(data: list[int], q: str) -> None:
    mechanism = sf.Quantiles(q, 6, (0, 3))
    within, target = mechanism.error("0.9"), float(q) * len(data)
    missed = 0.0
    for (y,), chance in law(lambda: mechanism.choose(sorted(data))).items():
        below, upto = sum(x < y for x in data), sum(x <= y for x in data)
        missed += chance * (max(below - target, target - upto) >= within)
    assert missed <= 0.1


# ── far away ───────────────────────────────────────────────────────────────────────────────────


def test_what_lies_beyond_the_nearest_runs_is_decided_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, data = sf.Quantiles("0.5", 1000, (0, 10**5)), list(range(0, 10**5, 100))
    seen: list[Decimal] = []
    probability_outside = rank_choices.ValueRuns.probability_outside

    def told(runs: rank_choices.ValueRuns, near: rank_choices.ValueRuns) -> Any:
        seen.append(probability_outside(runs, near)(sf.mechanisms.bits.decimal_context(60)))
        far = runs.outside(near)
        assert far.distance.min() > near.distance.max()
        assert far.multiplicities.sum() + near.multiplicities.sum() == 10**5 + 1
        return probability_outside(runs, near)

    monkeypatch.setattr(rank_choices.ValueRuns, "draw_groups_beyond_runs", lambda runs: list(range(runs.covered.size)))
    monkeypatch.setattr(rank_choices.ValueRuns, "probability_outside", told)
    assert abs(mechanism.choose(data)[0] - 50_000) <= 200
    monkeypatch.setattr(rank_choices.ValueRuns, "falls_outside", lambda *_: True)
    assert abs(mechanism.choose(data)[0] - 50_000) > 200
    assert 0 < seen[0] < 2.0**-100


def test_numbers_below_many_limits_are_uniform() -> None:
    limits = np.array([1, 2, 3, 5, 2**61 + 1])
    drawn = np.array([sf.mechanisms.bits.random_below_limits(limits) for _ in range(3000)])
    assert (drawn >= 0).all()
    assert (drawn < limits).all()
    for place, limit in enumerate(limits[:4]):
        seen = np.bincount(drawn[:, place], minlength=limit)
        assert np.abs(seen - 3000 / limit).max() < 6 * math.sqrt(3000 / limit)
    assert drawn[:, 4].max() > 2**60


def test_many_groups_follow_the_law_of_each() -> None:
    """As many draws as groups: all of one law, at once."""
    groups = 4000
    held = Grouped(np.repeat(np.arange(groups), 2), np.tile([2, 3], groups), np.tile([1, 3], groups), groups)
    mechanism = sf.Quantiles("0.5", 2, (0, 4), grouped=True)
    seen = np.bincount(mechanism.choose_groups(held)[:, 0], minlength=5)
    expected = law(lambda: sf.Quantiles("0.5", 2, (0, 4)).choose([2, 3, 3, 3]))
    for y, chance in ((y, expected[y,]) for y in range(5)):
        assert abs(seen[y] - groups * chance) < 6 * math.sqrt(groups * chance)
    with pytest.raises(sf.InvalidParameter, match="grouped=True"):
        sf.Quantiles("0.5", 2, (0, 4)).choose_groups(held)
