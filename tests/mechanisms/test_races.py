"""Races from chosen bits: keys, their errors, who is ranked exactly and in which order, beside 60 digits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from mechanisms.recorded import recorded, words
from sfumato.mechanisms import bits, races
from sfumato.mechanisms.races import EXPONENTIAL, GUMBEL, LAPLACE, RaceKey

F = Fraction
MP = mpmath.MPContext()
MP.dps = 60
KINDS = [GUMBEL, EXPONENTIAL, LAPLACE]


def true_key(kind: RaceKey, word: int, gap: Fraction, multiplicity: int = 1, *, end: Any = 0.5) -> Any:
    """The key of a U within the interval that a word of 64 bits says: at its middle, or at another place of it."""
    u = (MP.mpf(word >> 1) + end) / MP.mpf(2) ** 63
    e = -MP.log(1 - u if kind is GUMBEL else u) if 0 < u < 1 else MP.inf if (u == 1) is (kind is GUMBEL) else MP.mpf(0)
    moved = MP.mpf(gap.numerator) / gap.denominator - MP.log(multiplicity)
    if kind is GUMBEL:
        return moved + (MP.log(e) if e else -MP.inf)
    return moved + e if kind is LAPLACE and word & 1 else moved - e


PLACES = [0, 1, 2, 3, 1000, 2**30 + 7, 2**52, 2**61 + 12345, 2**62, 2**62 + 2**60 + 1, 2**63 - 2**40, 2**63 - 2**15]


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_within_its_error_and_the_error_is_what_is_proved(kind: RaceKey) -> None:
    """2/v, beside it 2¹¹/(2⁶³ − v) where 1 − U cancels, and a part in 2⁴⁶ of all that was added."""
    places = [*PLACES, 2**63 - 2**13 - 2**11, 2**63 - 2**13, 2**63 - 1]
    cases = [(v, sign, gap) for v in places for sign in (0, 1) for gap in (0, 3, 5, 2**40)]
    all_words = np.array([2 * v + sign for v, sign, _ in cases], np.uint64)
    gaps, rate, base = np.array([gap for *_, gap in cases], np.uint64), F(3, 7), 4
    for multiplicities in (None, np.arange(1, len(cases) + 1)):
        keys, errors = races._keys_with_errors(kind, all_words, gaps, np.uint64(base), rate, multiplicities)
        for index, (v, sign, gap) in enumerate(cases):
            m = 1 if multiplicities is None else index + 1
            distance = (gap - base) * rate
            ends = [true_key(kind, 2 * v + sign, distance, m, end=end) for end in (0, 1)]
            near_one = kind is GUMBEL and 2**63 - v <= 2**13
            if v == 0 or near_one:
                assert errors[index] == np.inf
                continue
            assert keys[index] - errors[index] < min(ends) <= max(ends) < keys[index] + errors[index]
            u = (MP.mpf(v) + 0.5) / MP.mpf(2) ** 63
            e = -MP.log(1 - u if kind is GUMBEL else u)
            moved = abs(MP.mpf(distance.numerator) / distance.denominator - MP.log(m))
            error = MP.mpf(2) / v + MP.mpf(2) ** -46 * (moved + abs(true_key(kind, 2 * v + sign, distance, m)) + e + 1)
            if kind is GUMBEL:
                error += MP.mpf(2) ** 11 / (MP.mpf(2) ** 63 - v)
            assert errors[index] == pytest.approx(float(error), rel=1e-9 if 2**63 - v > 2**20 else 0.3, abs=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_are_those_of_the_least_keys(kind: RaceKey) -> None:
    """Chosen words, all numbers of winners, candidates in one place; the middle of each interval decides."""
    rng = np.random.default_rng(3)
    for size, rate in ((1, F(1)), (2, F(1, 3)), (5, F(1, 2)), (7, F(2, 9))):
        chosen = [int(word) for word in rng.integers(0, 2**64 - 1, size, np.uint64)]
        gaps = rng.integers(0, 4, size).astype(np.uint64)
        spread = rng.integers(1, 9, size)
        for multiplicities in (None, spread):
            many = [1] * size if multiplicities is None else multiplicities.tolist()
            keys = [true_key(kind, w, int(g) * rate, m) for w, g, m in zip(chosen, gaps, many, strict=True)]
            order = sorted(range(size), key=lambda index: keys[index])
            for count in range(1, size + 1):
                with recorded(words(*chosen)) as stream:
                    assert races.draw_winners(kind, gaps, rate, count, multiplicities).tolist() == order[:count]
                assert (stream.left, stream.beyond) == (b"", 0)
    table = [[int(word) for word in row] for row in rng.integers(0, 2**64 - 1, (4, 5), np.uint64)]
    gaps = rng.integers(0, 4, (4, 5)).astype(np.uint64)
    orders = [
        sorted(range(5), key=lambda k: true_key(kind, row[k], int(own[k]) * F(1, 2)))
        for row, own in zip(table, gaps, strict=True)
    ]
    for count in range(1, 6):
        with recorded(words(*itertools.chain(*table))):
            found = races.draw_winners_of_rows(kind, gaps, F(1, 2), count)
        assert found.tolist() == [order[:count] for order in orders]


# ── what floating point leaves open ────────────────────────────────────────────────────────────


class Keys:
    """Known keys and errors in place of computed ones, and the least index first in place of exact arithmetic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: Any = None
        self.errors: Any = None
        self.asked: list[list[int]] = []
        self.parts: list[tuple[Any, ...]] = []
        monkeypatch.setattr(races, "_keys_with_errors", self._known)
        monkeypatch.setattr(races, "_rank_exactly", self._ranked)

    def set(self, keys: Any, errors: Any) -> None:
        self.keys, self.errors = np.array(keys, float), np.array(errors, float)
        self.asked, self.parts, self._next = [], [], 0

    def _known(self, _: RaceKey, words: Any, gaps: Any, base: Any, *rest: Any) -> Any:
        self.parts.append((words, gaps, base, rest[-1]))
        start, self._next = self._next, self._next + len(gaps)
        return self.keys[start : self._next], self.errors[start : self._next]

    def _ranked(self, _: RaceKey, order: Any, *__: Any) -> Any:
        self.asked.append(order.tolist())
        return sorted(order.tolist())


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Keys:
    return Keys(monkeypatch)


def separated(order: list[int], low: list[float], high: list[float]) -> bool:
    """Whether each is surely before all that follow it."""
    return all(high[a] < low[b] for i, a in enumerate(order) for b in order[i + 1 :])


def tables(size: int) -> Iterator[tuple[list[float], list[float]]]:
    """Keys on quarters with errors of nothing, a quarter or a half: ends often touch."""
    rng = np.random.default_rng(size)
    for _ in range(150):
        yield (rng.integers(0, 9, size) / 4).tolist(), (rng.integers(0, 3, size) / 4).tolist()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_all_that_may_be_among_the_first_are_ranked_exactly_and_no_others(size: int, known: Keys) -> None:
    gaps = np.zeros(size, np.uint64)
    for keys, errors in tables(size):
        low, high = ([k + side * e for k, e in zip(keys, errors, strict=True)] for side in (-1, 1))
        by_key = sorted(range(size), key=lambda k: keys[k])
        for count in range(1, size + 1):
            possible = [k for k in by_key if low[k] <= sorted(high)[count - 1]]
            known.set(keys, errors)
            found = races.draw_winners(GUMBEL, gaps, F(1), count).tolist()
            if separated(possible, low, high):
                assert (found, known.asked) == (possible[:count], [])
            else:
                assert (found, known.asked) == (sorted(possible)[:count], [possible])
            # the same table as the second of three rows, beside rows that floating point decides
            sure = [float(10 * k) for k in range(size)]
            known.set([sure, keys, sure[::-1]], [[0.0] * size, errors, [0.0] * size])
            rows = races.draw_winners_of_rows(GUMBEL, np.zeros((3, size), np.uint64), F(1), count).tolist()
            decided = all(high[a] < low[b] for rank, a in enumerate(by_key[:count]) for b in by_key[rank + 1 :])
            assert rows[1] == (by_key[:count] if decided else sorted(possible)[:count])
            assert known.asked == ([] if decided else [possible])
            assert [rows[0], rows[2]] == [list(range(count)), list(range(size))[::-1][:count]]


def test_the_last_winner_among_many_decides_who_is_compared(known: Keys) -> None:
    """Fifty candidates: a partition that stops at another rank leaves the wanted one out of its place."""
    rng = np.random.default_rng(8)
    for _ in range(6):
        keys, errors = rng.permutation(50).astype(float), rng.integers(0, 3, 50) / 2
        gaps = rng.permutation(50).astype(np.uint64)
        low, high, by_key = keys - errors, keys + errors, np.argsort(keys)
        for count in (1, 2, 20, 49):
            cutoff = sorted(high.tolist())[count - 1]
            possible = [k for k in by_key.tolist() if low[k] <= cutoff]
            known.set(keys, errors)
            races.draw_winners(GUMBEL, gaps, F(1), count)
            assert known.asked in ([possible], [])
            assert bool(known.asked) is not separated(possible, low.tolist(), high.tolist())
            assert known.parts[0][2] == count - 1
            known.set([keys], [errors])
            races.draw_winners_of_rows(GUMBEL, gaps[None], F(1), count)
            assert known.asked in ([possible], [])
            assert known.parts[0][2].tolist() == [[count - 1]]


def test_the_first_of_each_group_is_found_within_it(known: Keys) -> None:
    for (one, its), (two, their), (three, theirs) in zip(tables(1), tables(3), tables(4), strict=True):
        keys, errors, begin = one + two + three, its + their + theirs, [0, 1, 4]
        low, high = ([k + side * e for k, e in zip(keys, errors, strict=True)] for side in (-1, 1))
        expected, asked = [], []
        for start, end in ((0, 1), (1, 4), (4, 8)):
            possible = [k for k in range(start, end) if low[k] <= min(high[start:end])]
            expected.append(min(possible))
            asked += [possible] if len(possible) > 1 else []
        known.set(keys, errors)
        many = np.arange(1, 9)
        found = races.draw_winners_of_groups(GUMBEL, np.zeros(8, np.uint64), F(1), np.array(begin), many)
        assert found.tolist() == expected
        assert known.asked == asked
        ((_, _, base, multiplicities),) = known.parts
        assert base == 0
        assert multiplicities is many


def test_candidates_run_in_chunks_from_the_last_winner_s_score(known: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "_CHUNK", 4)
    gaps = np.array([9, 3, 7, 1, 8, 2, 6, 0, 5, 4], np.uint64)
    many = np.arange(1, 11)
    drawn: list[int] = []
    monkeypatch.setattr(bits, "random_uint64", lambda size: drawn.append(size) or np.arange(size, dtype=np.uint64))
    for count in (1, 3, 10):
        for multiplicities in (None, many):
            known.set(gaps.astype(float), np.zeros(10))
            drawn.clear()
            order = np.argsort(gaps)[:count].tolist()
            assert races.draw_winners(GUMBEL, gaps, F(1), count, multiplicities).tolist() == order
            assert drawn == [4, 4, 2]
            for start, (chunk, part, base, own) in zip((0, 4, 8), known.parts, strict=True):
                assert chunk.tolist() == [0, 1, 2, 3][: len(part)]
                assert part.tolist() == gaps[start : start + 4].tolist()
                assert base == count - 1
                assert own is multiplicities is None or own.tolist() == many[start : start + 4].tolist()
    table = np.array([[9, 3, 7], [1, 8, 2], [6, 0, 5]], np.uint64)
    for count, bases in ((1, [[3], [1], [0]]), (2, [[7], [2], [5]]), (3, [[9], [8], [6]])):
        known.set(table.astype(float), np.zeros((3, 3)))
        drawn.clear()
        found = races.draw_winners_of_rows(GUMBEL, table, F(1), count)
        assert found.tolist() == np.argsort(table, axis=1)[:, :count].tolist()
        assert drawn == [4, 4, 1]
        ((chunk, _, base, multiplicities),) = known.parts
        assert chunk.tolist() == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]
        assert base.tolist() == bases
        assert multiplicities is None
    known.set(np.arange(9.0), np.zeros(9))
    drawn.clear()
    races.draw_winners_of_groups(GUMBEL, np.zeros(9, np.uint64), F(1), np.array([0, 5]), many[:9])
    assert drawn == [4, 4, 1]


# ── exact ranks ────────────────────────────────────────────────────────────────────────────────


def rank(
    chosen: list[int], gaps: list[int], rate: Fraction, more: list[int], order: list[int]
) -> tuple[list[int], int]:
    """Return the exact order, from these further words, and how many of them were read."""
    given = np.array(chosen, np.uint64), np.array(gaps, np.uint64)
    with recorded(words(*more)) as stream:
        found = races._rank_exactly(GUMBEL, np.array(order), *given, rate, None)
    assert not stream.beyond
    return found, len(more) - len(stream.left) // 8


def test_more_bits_are_drawn_for_those_that_tie_and_only_for_them() -> None:
    middle, tiny = 2**63, F(1, 10**25)  # a step far below what 63 bits tell of a key
    low, high = 5 << 40, 2**64 - (5 << 40)
    assert rank([middle, low, high], [0, 0, 0], tiny, [], [0, 1, 2]) == ([1, 0, 2], 0)
    assert rank([low, high], [0, 0], tiny, [], [1, 0]) == ([0, 1], 0)
    # two of four tie, whoever is listed first; the one with the smaller U wins, however little behind
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        for first, second in ((1, 2**64 - 1), (2**64 - 1, 1)):
            found, read = rank([low, middle, middle, high], [0, 0, 0, 0], tiny, [first, second], order)
            sooner = (first < second) is (order == [0, 1, 2, 3])
            assert (found, read) == ([0, 1, 2, 3] if sooner else [0, 2, 1, 3], 2)
    # a step behind decides only where the bits beyond do not
    assert rank([middle, middle], [0, 1], tiny, [2**64 - 1, 0], [0, 1]) == ([1, 0], 2)
    assert rank([middle, middle], [0, 1], tiny, [0, 2**64 - 1], [0, 1]) == ([0, 1], 2)
    assert rank([middle, middle], [0, 1], F(1, 10**9), [], [0, 1]) == ([0, 1], 0)
    # three tie: all get more bits; then two, which get more again
    assert rank([middle] * 3, [0, 0, 0], tiny, [7, 99, 50], [0, 1, 2]) == ([0, 2, 1], 3)
    assert rank([middle] * 3, [0, 0, 0], tiny, [7, 99, 7, 60, 50], [0, 1, 2]) == ([2, 0, 1], 5)


def test_candidates_are_ranked_by_what_was_drawn_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, ...]] = []
    precisions: list[int] = []

    class Candidate(races._UnrankedCandidate):
        def __init__(self, *fields: Any) -> None:
            made.append(fields)
            super().__init__(*fields)

        def key(self, kind: RaceKey, context: Any) -> Any:
            precisions.append(context.prec)
            return super().key(kind, context)

    monkeypatch.setattr(races, "_UnrankedCandidate", Candidate)
    given = np.array([2**63 + 1, 8, 2**63], np.uint64), np.array([4, 5, 4], np.uint64)
    for multiplicities, many in ((None, [1, 1, 1]), (np.array([2, 3, 2]), [2, 3, 2])):
        made.clear()
        precisions.clear()
        with recorded(words(1, 1, 90, 8)):
            found = races._rank_exactly(GUMBEL, np.array([2, 1, 0]), *given, F(1, 3), multiplicities)
        assert found == [1, 0, 2]
        assert made == [
            (2, 2**62, 63, False, F(4, 3), many[2]),
            (1, 4, 63, False, F(5, 3), many[1]),
            (0, 2**62, 63, True, F(4, 3), many[0]),
        ]
        assert precisions == [60] * 3 + [100] * 3 + [140] * 3
