"""Second cells hide a small cell in one table and not in several; private tables hold their ceiling."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import CrossTable, cell_bounds, combine_totals, linked_tables, suppressed_table, suppression
from sfumato.attacks.ceilings import guess_ceiling, max_correct
from sfumato.attacks.differencing import release_tables, round_to_bits, suppress_complementary_cells


def towns(people: int, many: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (people, many))


def test_second_cells_are_the_corners_of_the_rectangle_that_has_least_in_it() -> None:
    cells = np.array([[1.0, 9, 7, 8], [9, 9, 9, 9], [6, 9, 5, 9]])
    hidden = suppress_complementary_cells(cells, cells < 5)
    assert np.argwhere(hidden).tolist() == [[0, 0], [0, 2], [2, 0], [2, 2]]
    assert not suppress_complementary_cells(cells, cells < 1).any()
    line = np.array([[1.0, 9, 7]])
    assert suppress_complementary_cells(line, line < 5).all()


def test_nothing_that_one_table_tells_determines_a_withheld_cell() -> None:
    """For every withheld cell there are other counts with the same totals: no combination of what is told is that cell
    alone. Without second cells there is one.
    """
    table = CrossTable(*np.divmod(np.arange(20), 5))
    groups = table.groups()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        counts = rng.integers(5, 30, 20)
        counts[rng.choice(20, 1 + seed % 2, replace=False)] = rng.integers(0, 5)
        for second in (True, False):
            told = suppressed_table(table, counts, second=second)
            used = groups[~np.isnan(told)].astype(float)
            found = [_reached(used, cell) for cell in np.flatnonzero(np.isnan(told))]
            assert not second or not any(found)
            assert second or sum(counts < 5) != 1 or all(found)


def _reached(groups: np.ndarray, person: int) -> bool:
    alone = np.arange(groups.shape[1]) == person
    weights = np.linalg.lstsq(groups.T, alone.astype(float), rcond=None)[0]
    return bool(np.allclose(weights @ groups, alone, atol=1e-6))


def test_what_is_not_withheld_is_told_exactly_at_the_limit_too() -> None:
    table, counts = CrossTable(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1] * 3)), np.array([4, 9, 9, 9, 5, 9])
    told = suppressed_table(table, counts, 5, second=False)
    assert np.isnan(told).tolist() == [True] + [False] * 11
    assert told[1:].tolist() == [9, 9, 9, 5, 9, 13, 18, 14, 18, 27, 45]
    assert not np.isnan(suppressed_table(table, counts, 4, second=False)).any()


def test_an_interval_is_what_the_totals_leave() -> None:
    """The rectangle has one degree of freedom: Bob's cell is 0 or 1, so that each of the other three is known but for
    one person. With the second table of ages in pairs both are known.
    """
    tables = linked_tables(2, 4, 8)
    secret = np.zeros(len(tables[0].rows), np.int64)
    secret[0] = 1
    for cell, count in enumerate((7, 5, 8, 6, 7, 7, 6)):  # cells 1 to 7
        secret[1 + 8 * cell : 1 + 8 * cell + count] = 1
    told, groups = suppressed_table(tables[0], secret), tables[0].groups()
    assert np.flatnonzero(np.isnan(told)).tolist() == [0, 2, 4, 6]
    assert cell_bounds(told, groups, 0) == (0, 1)
    assert cell_bounds(told, groups, 9) == (5, 6)  # the second cell of Bob's street
    assert cell_bounds(told, groups, 1) == (7, 7)  # what was told
    both = np.concatenate([told, suppressed_table(tables[1], secret)])
    all_groups = np.concatenate([groups, tables[1].groups()])
    assert cell_bounds(both, all_groups, 0) == (1, 1)
    assert cell_bounds(both, all_groups, 9) == (5, 5)
    assert combine_totals(both, all_groups, 0) == pytest.approx(1)


def test_intervals_always_hold_the_truth() -> None:
    tables = linked_tables(3, 4, 6)
    for seed in range(10):
        secret = towns(len(tables[0].rows), 1, seed)[:, 0]
        told = np.concatenate([suppressed_table(each, secret, 3) for each in tables])
        groups = np.concatenate([each.groups() for each in tables])
        for person in range(0, len(secret), 6):
            low, high = cell_bounds(told, groups, person)
            cell = (tables[0].rows == tables[0].rows[person]) & (tables[0].columns == tables[0].columns[person])
            assert low <= secret[cell].sum() <= high


def test_second_cells_help_in_one_table_and_not_in_three() -> None:
    """Of small cells alone Bob's is found, but where another of his street and another of his age are small as well:
    four of 120 towns have a probability below 10⁻⁸. Second cells leave 0.65 of the guesses right in one table, and 0.95
    in three (of 8,000 towns): 104 or more of 120 from one table have a probability of 2·10⁻⁷, and so have 96 or fewer
    from three. The ceiling of private answers is passed once in 10⁶ runs at most.
    """
    found = suppression(120)
    assert found["below 5 withheld"].right > 116
    assert found["second cells too, 1 table"].right < 104
    assert found["second cells too, 3 tables"].right > 96
    private = found["private, ε = 1, 3 tables"]
    assert private.ceiling == guess_ceiling(sf.Guarantee(1))
    assert found.holds


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_tables_with_too_little_noise_pass_the_ceiling() -> None:
    """The broken twin is paid 300 and claims 1: the noise of a cell has scale 0.02 and is half a person with e^−25, so
    that no guess of 80 is wrong.
    """
    tables = linked_tables(4, 4, 6)
    secret = towns(len(tables[0].rows), 80)
    groups = np.concatenate([each.groups()[: np.prod(each.shape)] for each in tables])
    told = release_tables(tables, secret, sf.Budget(300, neighbours="replace"))
    right = round_to_bits(combine_totals(told, groups, 0)) == secret[0]
    assert int(right.sum()) > max_correct(80, guess_ceiling(sf.Guarantee(1)))


def test_bad_input_is_refused() -> None:
    table = linked_tables(2, 2, 1)[0]
    with pytest.raises(sf.InvalidParameter, match="people"):
        suppressed_table(table, [1, 0])
    with pytest.raises(sf.InvalidParameter, match="least"):
        suppressed_table(table, [1, 0, 1, 1], 1)
    with pytest.raises(sf.InvalidParameter, match="target"):
        cell_bounds(np.zeros(9), table.groups(), 4)
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        suppression(2, 0)
    with pytest.raises(sf.InvalidParameter, match="towns"):
        suppression(0)
