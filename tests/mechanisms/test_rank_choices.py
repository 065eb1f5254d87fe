"""Selections by rank in many groups, beside the definition applied to every number of every part."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from sfumato.mechanisms import bits, races, rank_choices
from sfumato.mechanisms.rank_choices import QuantileParts, RankedValues, RankRule, ValueRuns, parts_with_all_rows

F = Fraction
MP = mpmath.MPContext()
MP.dps = 40
LOW, HIGH = 3, 14

Groups = list[list[int]]


def ranked(groups: Groups, each: int = 1) -> tuple[RankedValues, Any]:
    """Rank the rows of every group, each of which stands for several."""
    values, before, starts = [], [0], [0]
    for rows in groups:
        for value, count in sorted(Counter(rows).items()):
            values.append(value)
            before.append(before[-1] + count * each)
        starts.append(len(values))
    return RankedValues(np.array(values, np.int64), np.array(before, np.int64)), np.array(starts)


def worlds() -> list[Groups]:
    rng = np.random.default_rng(11)
    return [
        [[], [5, 5, 9], [3, 3, 14, 14], [8], [1, 2, 17, 30]],
        [rng.integers(0, 18, int(rng.integers(0, 9))).tolist() for _ in range(6)],
        [rng.integers(3, 15, 12).tolist() for _ in range(3)],
    ]


RULES = [
    RankRule(F(1, 2), F(1, 3)),
    RankRule(F(3, 10), F(7, 5)),
    RankRule(F(1, 4), F(1), -2),
    RankRule(F(2, 3), F(1, 2), 3),
]


def rows_of(rows: RankedValues, parts: QuantileParts, group: int) -> list[tuple[int, int]]:
    """List the values of a part with their weights in units, its ends too."""
    inside = [
        (int(rows.values[i]), parts.unit * int(rows.rows_before[i + 1] - rows.rows_before[i]))
        for i in range(int(parts.first[group]), int(parts.last[group]))
    ]
    ends = (
        (int(parts.low[group]), int(parts.low_weight[group])),
        (int(parts.high[group]), int(parts.high_weight[group])),
    )
    return [ends[0], *inside, ends[1]]


def distance_by_definition(
    weighted: list[tuple[int, int]], y: int, ends: tuple[int, int], rule: RankRule, unit: int
) -> Fraction:
    """max(B(y) − t, t − U(y), 0) in rows; where the target leans to an end, that end holds every rank beyond."""
    target = rule.share * sum(w for _, w in weighted) + rule.offset * unit
    below = F(sum(w for value, w in weighted if value < y))
    upto = F(sum(w for value, w in weighted if value <= y))
    if y == ends[0] and rule.offset < 0:
        below = min(below, target)
    if y == ends[1] and rule.offset > 0:
        upto = max(upto, target)
    return max(below - target, target - upto, F(0)) / unit


def definition(rows: RankedValues, parts: QuantileParts, rule: RankRule, group: int) -> dict[int, Fraction]:
    weighted, ends = rows_of(rows, parts, group), (int(parts.low[group]), int(parts.high[group]))
    return {y: distance_by_definition(weighted, y, ends, rule, parts.unit) for y in range(ends[0], ends[1] + 1)}


def expanded(runs: ValueRuns, parts: QuantileParts, rule: RankRule, group: int) -> list[tuple[int, Fraction]]:
    scale = parts.unit * rule.share.denominator
    return [
        (int(start) + i, F(int(distance), scale))
        for start, count, distance, each in zip(
            runs.starts, runs.multiplicities, runs.distance, runs.group, strict=True
        )
        if each == group
        for i in range(int(count))
    ]


def check_runs(rows: RankedValues, parts: QuantileParts, rule: RankRule) -> None:
    open_parts = parts[np.flatnonzero(parts.low < parts.high)]
    truths = [definition(rows, open_parts, rule, group) for group in range(open_parts.low.size)]
    everything = (open_parts.first, open_parts.last)
    runs = ValueRuns.around_windows(rows, open_parts, rule, everything, None)
    assert runs.covered.all()
    assert runs.log_weight_per_distance * open_parts.unit * rule.share.denominator == rule.log_weight_per_row
    far = rank_choices._negligible_distance(open_parts, rule)
    window = rank_choices._first_and_last_values_in_reach(rows, open_parts, rule)
    for reach, values in ((0, everything), (2, everything), (far, window)):
        near = ValueRuns.around_windows(rows, open_parts, rule, values, reach)
        for group, truth in enumerate(truths):
            within = {y: d for y, d in truth.items() if d <= reach}
            assert dict(expanded(near, open_parts, rule, group)) == within
            assert near.covered[group] == (within == truth)
    for group, truth in enumerate(truths):
        listed = expanded(runs, open_parts, rule, group)
        assert dict(listed) == truth
        assert len(listed) == len(truth)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_number_is_in_one_run_at_its_distance(rule: RankRule) -> None:
    for groups in worlds():
        rows, starts = ranked(groups)
        parts = parts_with_all_rows(rows, starts, (LOW, HIGH))
        for group, listed in enumerate(groups):
            clamped = Counter(min(HIGH, max(LOW, value)) for value in listed)
            found: Counter[int] = Counter()
            for value, weight in rows_of(rows, parts, group):
                found[value] += weight
            assert +found == clamped
        check_runs(rows, parts, rule)
        _, lower, upper = rank_choices.choose(rows, parts, rule)
        check_runs(rows, lower, RULES[0])
        check_runs(rows, upper, RULES[1])


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_chosen_number_splits_its_part_and_only_its_own_rows(rule: RankRule) -> None:
    """Rows below it are in the lower part and rows above it in the upper one; its own are shared, all in one way."""
    share = rule.share if rule.offset == 0 else F(rule.offset > 0)
    for groups in worlds():
        rows, starts = ranked(groups)
        parts = parts_with_all_rows(rows, starts, (LOW, HIGH))
        for _ in range(2):
            numbers, lower, upper = rank_choices.choose(rows, parts, rule)
            assert lower.unit == upper.unit == parts.unit * rule.share.denominator
            for group, number in enumerate(numbers.tolist()):
                assert parts.low[group] <= number <= parts.high[group]
                assert (lower.low[group], lower.high[group]) == (parts.low[group], number)
                assert (upper.low[group], upper.high[group]) == (number, parts.high[group])
                before, below, above = (Counter[int](), Counter[int](), Counter[int]())
                for counter, part in ((before, parts), (below, lower), (above, upper)):
                    for value, weight in rows_of(rows, part, group):
                        counter[value] += weight
                for value, weight in before.items():
                    scaled = weight * rule.share.denominator
                    kept = F(value < number) if value != number else share
                    assert [below[value], above[value]] == [scaled * kept, scaled * (1 - kept)], (value, number)
                assert set(+below) | set(+above) <= set(before)
            parts = lower if rule.offset >= 0 else upper


def test_weights_beyond_64_bits_are_whole_numbers_of_any_size() -> None:
    groups = worlds()[1]
    rule = RankRule(F(337, 1000), F(1, 3))
    small, starts = ranked(groups)
    parts = parts_with_all_rows(small, starts, (LOW, HIGH))
    assert rank_choices._with_big_integers_if_needed(small, parts, rule).low_weight.dtype == np.int64
    for each in (1 << 44, 1 << 48, 1 << 56):
        rows, starts = ranked(groups, each)
        parts = rank_choices._with_big_integers_if_needed(rows, parts_with_all_rows(rows, starts, (LOW, HIGH)), rule)
        most = max(len(rows) for rows in groups) * each
        assert (parts.low_weight.dtype == object) == (parts.high_weight.dtype == object)
        if most * 1000 >= 1 << 61:
            assert parts.low_weight.dtype == object
        if most * 1000 < 1 << 59:
            assert parts.low_weight.dtype == np.int64
        check_runs(rows, parts, rule)
        _, lower, _ = rank_choices.choose(rows, parts, rule)
        lower = rank_choices._with_big_integers_if_needed(rows, lower, rule)
        check_runs(rows, lower, rule)
    few = parts_with_all_rows(small, ranked(groups)[1], (LOW, HIGH))
    far = rank_choices._with_big_integers_if_needed(small, few, RankRule(F(1, 2), F(1, 3), -(1 << 60)))
    assert far.high_weight.dtype == object
    slow = rank_choices._with_big_integers_if_needed(small, few, RankRule(F(1, 2), F(1, 1 << 60)))
    assert slow.high_weight.dtype == object


def test_what_is_out_of_reach_has_a_negligible_probability_and_no_more_is_left_out() -> None:
    for span in (1, 100, 10**15):
        for rate in (F(1, 1000), F(1), F(40)):
            rows, starts = ranked([[], []])
            parts = parts_with_all_rows(rows, starts, (0, span))
            reach = rank_choices._negligible_distance(parts, RankRule(F(1, 2), rate))
            log_all = math.log(span + 1) - float(rate) * reach
            assert log_all <= -100 * math.log(2)
            assert log_all >= -102 * math.log(2) - 2 * float(rate)


def test_groups_are_held_together_while_their_runs_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_choices, "_MAX_RUNS", 10)
    for sizes in ([], [3], [3, 3, 3, 3], [5, 5, 5], [30, 1, 30, 3, 7, 1], [10, 10], [1] * 25):
        slices = rank_choices._slices_of_groups(np.array(sizes, np.intp))
        assert [i for part in slices for i in range(part.start, part.stop)] == list(range(len(sizes)))
        for part in slices:
            held = sum(sizes[part])
            assert held <= 10 or part.stop == part.start + 1
            assert part.stop == len(sizes) or held + sizes[part.stop] > 10


def test_the_race_is_run_with_the_weights_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every group's candidates, their logarithms below the best one and how often they stand."""
    asked: list[Any] = []
    plain = races.draw_winners_of_groups

    def spy(kind: Any, gaps: Any, rate: Fraction, begin: Any, multiplicities: Any) -> Any:
        asked.append((kind, gaps, rate, begin, multiplicities))
        return plain(kind, gaps, rate, begin, multiplicities)

    monkeypatch.setattr(races, "draw_winners_of_groups", spy)
    rule = RankRule(F(3, 10), F(1, 7))
    rows, starts = ranked(worlds()[1])
    parts = parts_with_all_rows(rows, starts, (LOW, HIGH))
    rank_choices.choose(rows, parts, rule)
    ((kind, gaps, rate, begin, multiplicities),) = asked
    assert kind is races.GUMBEL
    for group, (start, stop) in enumerate(zip(begin, [*begin[1:], len(gaps)], strict=True)):
        truth = definition(rows, parts, rule, group)
        nearest = min(truth.values())
        expected = Counter(rule.log_weight_per_row * (d - nearest) for d in truth.values())
        found: Counter[Fraction] = Counter()
        for gap, count in zip(gaps[start:stop].tolist(), multiplicities[start:stop].tolist(), strict=True):
            found[gap * rate] += count
        assert found == expected


def test_the_chance_of_what_is_far_is_that_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RankRule(F(3, 10), F(2, 7))
    rows, starts = ranked([[5, 5, 9, 12], [4, 11, 11, 13, 13]])
    parts = parts_with_all_rows(rows, starts, (LOW, HIGH))
    for group in range(2):
        part = parts[np.array([group])]
        runs = ValueRuns.around_windows(rows, part, rule, (part.first, part.last), None)
        near = ValueRuns.around_windows(rows, part, rule, (part.first, part.last), 1)
        assert not near.covered.any()
        truth = definition(rows, part, rule, 0)
        weights = {
            y: MP.exp(-MP.mpf((d * rule.log_weight_per_row).numerator) / (d * rule.log_weight_per_row).denominator)
            for y, d in truth.items()
        }
        within = {y for y, _ in expanded(near, part, rule, 0)}
        low, high = min(within), max(within)
        far = {y for y in truth if not low <= y <= high}
        assert far
        chance = MP.fsum(weights[y] for y in far) / MP.fsum(weights.values())
        found = runs.probability_outside(near)(bits.decimal_context(30))
        assert abs(MP.mpf(str(found)) - chance) <= MP.mpf(10) ** -27
        assert {y for y, _ in expanded(runs.outside(near), part, rule, 0)} == far
        everything = ValueRuns.around_windows(rows, parts, rule, (parts.first, parts.last), 1)
        alone = everything.of_group(group)
        assert expanded(alone, part, rule, 0) == expanded(near, part, rule, 0)
        assert alone.covered.shape == (1,)
    monkeypatch.setattr(
        bits,
        "is_uniform_below",
        lambda word, width, chance: (word, width, chance(bits.decimal_context(30)) < 1) == (0, 64, True),
    )
    assert runs.falls_outside(near)


def test_a_choice_beyond_reach_is_examined_once_in_a_word_and_then_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RankRule(F(1, 2), F(1))
    rows, starts = ranked([[4, 8, 8, 8, 13], [4, 8, 8, 8, 13], []])
    parts = parts_with_all_rows(rows, starts, (LOW, HIGH))
    monkeypatch.setattr(rank_choices, "_negligible_distance", lambda *_: 1)
    words: list[int] = []
    monkeypatch.setattr(bits, "random_uint64", lambda count: np.array(words[:count], np.uint64))
    monkeypatch.setattr(races, "draw_winners_of_groups", lambda _kind, _gaps, _rate, begin, _m: begin)
    monkeypatch.setattr(bits, "random_below_limits", lambda limits: np.zeros(len(limits), np.int64))
    outcomes = {"far": True}
    monkeypatch.setattr(bits, "is_uniform_below", lambda *_: outcomes["far"])
    words[:] = [1, 1, 1]
    plain = rank_choices.choose(rows, parts, rule)[0].tolist()
    near = {y for y, d in definition(rows, parts, rule, 0).items() if d <= 1}
    assert plain[:2] == [min(near)] * 2
    words[:] = [1, 0, 0]
    assert rank_choices.choose(rows, parts, rule)[0].tolist() == [plain[0], LOW, plain[2]]  # the first number far below
    outcomes["far"] = False
    assert rank_choices.choose(rows, parts, rule)[0].tolist() == plain


def test_a_window_holds_all_that_is_within_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Low and high too, unless a value between them and the window is left out."""
    rng = np.random.default_rng(4)
    groups = [rng.integers(LOW, HIGH + 1, 40).tolist(), [LOW] * 9 + [8] * 5 + [HIGH] * 9, [5, 6, 7] * 4, []]
    rows, starts = ranked(groups)
    parts = parts_with_all_rows(rows, starts, (LOW, HIGH))
    reach = 0
    monkeypatch.setattr(rank_choices, "_negligible_distance", lambda *_: reach)
    for rule in (*RULES, RankRule(F(1, 50), F(1)), RankRule(F(49, 50), F(1))):
        truths = [definition(rows, parts, rule, group) for group in range(len(groups))]
        for reach in (0, 1, 3):
            window = rank_choices._first_and_last_values_in_reach(rows, parts, rule)
            assert ((parts.first <= window[0]) & (window[0] <= window[1]) & (window[1] <= parts.last)).all()
            near = ValueRuns.around_windows(rows, parts, rule, window, reach)
            widest = ValueRuns.around_windows(rows, parts, rule, window, 10**6)
            for group, truth in enumerate(truths):
                assert dict(expanded(near, parts, rule, group)) == {y: d for y, d in truth.items() if d <= reach}
                wide = dict(expanded(widest, parts, rule, group))
                assert wide.items() <= truth.items()
                assert (LOW in wide) == (window[0][group] == parts.first[group])
                assert (HIGH in wide) == (window[1][group] == parts.last[group])


def test_bounds_that_are_one_number_hold_every_row() -> None:
    groups = [[1, 5, 5, 9], [7, 8], [2], []]
    rows, starts = ranked(groups)
    parts = parts_with_all_rows(rows, starts, (5, 5))
    assert (parts.low_weight + parts.high_weight).tolist() == [4, 2, 1, 0]
    numbers, lower, upper = rank_choices.choose(rows, parts, RankRule(F(1, 4), F(1)))
    assert numbers.tolist() == [5] * 4
    assert (lower.weight(rows) + upper.weight(rows)).tolist() == [16, 8, 4, 0]


def test_units_and_reach_count_for_the_width_of_weights() -> None:
    rows, starts = ranked([[4, 9]])
    parts = parts_with_all_rows(rows, starts, (LOW, HIGH))
    fine = replace(parts, unit=1 << 48)
    rule = RankRule(F(1, 2), F(1, 10))  # out of reach from about 750 rows on
    assert rank_choices._with_big_integers_if_needed(rows, fine, rule).low_weight.dtype == np.int64
    finer = replace(parts, unit=1 << 52)
    assert rank_choices._with_big_integers_if_needed(rows, finer, rule).low_weight.dtype == object
    leaning = replace(rule, log_weight_per_row=F(100), offset=1 << 12)
    assert rank_choices._with_big_integers_if_needed(rows, fine, leaning).low_weight.dtype == object
    assert (
        rank_choices._with_big_integers_if_needed(rows, fine, replace(leaning, offset=5)).low_weight.dtype == np.int64
    )
