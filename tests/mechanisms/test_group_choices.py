"""The most frequent values of groups: the law is exact, and what is charged covers all neighbours of small worlds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import sfumato as sf
from mechanisms.test_laws import passes
from sfumato.mechanisms import races

Table = tuple[tuple[int, ...], ...]
"""Counts: a row for each group, a column for each value."""
RELATIONS = ("add-remove", "replace")


def law_of_group(counts: tuple[int, ...], k: int, rate: float) -> dict[tuple[int, ...], float]:
    """The chance of each list of k places: one after the other, each with weight e^{rate·count} among what is left."""
    found = {}
    for places in itertools.permutations(range(len(counts)), k):
        left, chance = list(range(len(counts))), 1.0
        for place in places:
            weights = {each: math.exp(rate * counts[each]) for each in left}
            chance *= weights[place] / sum(weights.values())
            left.remove(place)
        found[places] = chance
    return found


@cache
def law(table: Table, mechanism: sf.FrequentValues) -> np.ndarray:
    """The chance of every outcome of all groups together."""
    groups = [list(law_of_group(row, mechanism.k, float(mechanism.rate)).values()) for row in table]
    return np.array([math.prod(each) for each in itertools.product(*groups)])


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("exactly", [False, True], ids=["in floating point", "in exact arithmetic"])
def test_draws_follow_the_exact_law(k: int, exactly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if exactly:
        plain = races._keys_with_errors

        def blurred(*given: object) -> tuple[np.ndarray, np.ndarray]:
            keys, errors = plain(*given)  # type: ignore[arg-type]
            return keys, errors + 1.0

        monkeypatch.setattr(races, "_keys_with_errors", blurred)
    mechanism = sf.FrequentValues(6 * k, rows_per_unit=4, k=k)
    table, count = ((3, 0, 1), (7, 7, 7), (2**62, 2**62 - 1, 2**62 - 9)), 120 if exactly else 20_000
    drawn = mechanism.choose(np.tile(table, (count, 1))).reshape(count, 3, k)
    assert drawn.shape == (count, 3, k)
    for group, counts in enumerate(table):
        shifted = tuple(max(-200, each - max(counts)) for each in counts)
        expected = law_of_group(shifted, k, float(mechanism.rate))
        value, rare, seen_rare = 0.0, 0.0, 0
        for places, chance in expected.items():
            seen = int((drawn[:, group] == places).all(axis=1).sum())
            assert seen == 0 or chance > 1e-13
            if count * chance >= 5:
                value += (seen - count * chance) ** 2 / (count * chance)
            else:
                rare, seen_rare = rare + count * chance, seen_rare + seen
        assert passes(value, len(expected))
        # Outcomes that come less than five times are seen together, more often with probability below 1e-7 (Bernstein).
        assert seen_rare <= rare + 6 * math.sqrt(rare) + 12


def _worlds() -> Iterator[Table]:
    for counts in itertools.product(range(2), repeat=6):
        yield counts[:3], counts[3:]


def _moves() -> list[np.ndarray]:
    """What one unit of at most two rows adds to two groups of three values."""
    rows = [places for count in range(3) for places in itertools.combinations_with_replacement(range(6), count)]
    return [np.bincount(places, minlength=6).reshape(2, 3) for places in rows]


def _neighbours(relation: str) -> Iterator[tuple[Table, Table]]:
    moves = _moves()
    for world in list(_worlds())[::9]:
        tables = [tuple(map(tuple, (np.array(world) + move).tolist())) for move in moves]
        if relation == "add-remove":
            yield from ((world, table) for table in tables)
        else:
            yield from itertools.combinations(tables[::3], 2)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_curve_covers_all_groups_of_every_small_world(relation: str, k: int) -> None:
    mechanism = sf.FrequentValues("1.2", rows_per_unit=2, k=k, neighbours=relation)
    tighter = sf.FrequentValues("1.2", rows_per_unit=1, k=k, neighbours=relation)
    curve = mechanism.curve()
    claims = {epsilon: curve.delta(epsilon) for epsilon in (0.0, 0.3, 0.7, 1.2)}
    widest, broken = 0.0, False
    for first, second in _neighbours(relation):
        p, q = law(first, mechanism), law(second, mechanism)
        losses = np.log(p / q)
        widest = max(widest, float(losses.max() - losses.min()))
        assert np.abs(losses).max() <= 1.2 + 1e-9
        for epsilon, claim in claims.items():
            for a, b in ((p, q), (q, p)):
                assert np.maximum(0, a - math.exp(epsilon) * b).sum() <= claim + 1e-9
        twin = np.log(law(first, tighter) / law(second, tighter))
        broken |= bool(twin.max() - twin.min() > 1.2 + 1e-9)
    assert widest <= 1.2 + 1e-9
    assert widest > 0.9, "some world comes near the range that is charged"
    assert broken, "a choice that takes the unit for one of one row is caught"


def test_all_rows_of_a_unit_may_be_in_different_groups() -> None:
    """Two rows in two groups move as far as two rows in one."""
    mechanism = sf.FrequentValues(1, rows_per_unit=2)
    base = ((3, 3, 3),) * 2
    apart, together = ((4, 3, 3), (4, 3, 3)), ((5, 3, 3), (3, 3, 3))
    ranges = []
    for other in (apart, together):
        losses = np.log(law(base, mechanism) / law(other, mechanism))
        ranges.append(float(losses.max() - losses.min()))
    assert ranges == pytest.approx([1.0, 1.0])


def test_samples_refute_a_twin_that_charges_half() -> None:
    """An audit: the chance of one outcome, on two neighbours, with bounds that fail with at most 1e-6 each."""
    mechanism = sf.FrequentValues(2)
    count = 40_000
    with_unit, without = np.array([[1, 0]]), np.array([[0, 0]])

    def seen(table: np.ndarray) -> int:
        return int((mechanism.choose(np.repeat(table, count, axis=0))[:, 0] == 0).sum())

    slack = math.sqrt(math.log(2e6) / (2 * count))  # Hoeffding
    least, most = seen(with_unit) / count - slack, seen(without) / count + slack
    other_least, other_most = 1 - seen(without) / count - slack, 1 - seen(with_unit) / count + slack
    lost = max(math.log(least / most), math.log(other_least / other_most))
    assert lost <= 2
    assert lost > 1, "a claim of ε = 1 is refuted"


def test_counts_at_the_ends_of_64_bits() -> None:
    mechanism = sf.FrequentValues(1)
    ends = np.array([[2**63 - 1, -(2**63) + 1, 0], [-(2**63), 2**63 - 1, 2**63 - 1]])
    found = mechanism.choose(ends)
    assert found[0, 0] == 0
    assert found[1, 0] in (1, 2)
    unsigned = np.array([[2**64 - 1, 2**63, 0]], np.uint64)
    assert mechanism.choose(unsigned).tolist() == [[0]]
    assert mechanism.choose(np.array([[1, 5000]], np.int16)).tolist() == [[1]]


def test_no_groups_and_one_value() -> None:
    assert sf.FrequentValues(1).choose(np.empty((0, 3), np.int64)).shape == (0, 1)
    assert sf.FrequentValues(1).choose(np.zeros((4, 1), np.int64)).tolist() == [[0]] * 4
    assert sorted(sf.FrequentValues(1, k=3).choose(np.zeros((1, 3), np.int64))[0].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("counts", [[1, 2], [[1.5, 2.0]], [[1]], [["a", "b"]], [[[1]]]], ids=str)
def test_what_is_no_table_of_counts_is_refused(counts: object) -> None:
    with pytest.raises(sf.InvalidParameter, match="counts"):
        sf.FrequentValues(1, k=2).choose(counts)


@pytest.mark.parametrize(
    "given", [{"epsilon": 0}, {"epsilon": 1, "k": 0}, {"epsilon": 1, "rows_per_unit": 0}, {"epsilon": "1e-12"}], ids=str
)
def test_parameters_are_checked(given: dict[str, object]) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.FrequentValues(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [1, 2])
def test_a_choice_is_within_its_error(k: int) -> None:
    """The bound holds exactly: the chance that any chosen value has fewer rows than it says is at most 5 %."""
    mechanism = sf.FrequentValues("1.5", rows_per_unit=2, k=k)
    fewer = mechanism.error(4, "0.95")
    for counts in ((20, 12, 8, 0), (30, 30, 0, 0), (9, 9, 9, 9), (40, 18, 17, 16)):
        missed = 0.0
        for places, chance in law_of_group(counts, k, float(mechanism.rate)).items():
            left = set(range(4))
            short = 0
            for place in places:
                short = max(short, max(counts[each] for each in left) - counts[place])
                left.remove(place)
            missed += chance * (short > fewer)
        assert missed <= 0.05


def test_it_reads_back_and_says_what_it_is() -> None:
    mechanism = sf.FrequentValues("0.5", 3, 2, "replace")
    assert eval(repr(mechanism), {"FrequentValues": sf.FrequentValues}) == mechanism
    assert "2 most frequent values" in mechanism.words()
