"""Blocks are exact whole numbers, and no unit moves them by more than is said: by enumeration of units."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from publish.worlds import SIZES, attributes, average, leveled, rounded
from sfumato.errors import InvalidParameter
from sfumato.privacy import Neighbours
from sfumato.publish.marginals import blocks
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Block

WORLDS = [attributes(sizes) for sizes in SIZES] + [leveled()[1:3], leveled()[:2], (rounded(),)]


def matrix(block: Block, own: Attributes, grid: int = 1) -> np.ndarray:
    """What is measured, column by column: of one row in each cell."""
    sizes = [own[place].size for place in blocks.block_attribute_indices(block)]
    found = []
    for cell in np.ndindex(*sizes):
        marginal = np.zeros(sizes, np.int64)
        marginal[cell] = 1
        found.append(blocks.scaled_residual(marginal, block, own, grid).reshape(-1))
    return np.array(found, dtype=object).T


def every_block(own: Attributes) -> list[Block]:
    return list(blocks.blocks_within(tuple(range(len(own))), own))


@pytest.mark.parametrize("sizes", SIZES)
def test_without_levels_a_block_is_the_projection_times_its_scale(sizes: tuple[int, ...]) -> None:
    own = attributes(sizes)
    for block in every_block(own):
        s = blocks.block_scale(block, own)
        assert s == math.prod(sizes[place] for place in blocks.block_attribute_indices(block))
        exact = matrix(block, own)
        assert np.allclose(exact.astype(float), s * average(sizes, blocks.block_attribute_indices(block)), atol=1e-9)
        p = math.prod(
            (1 - Fraction(1, sizes[place]) for place in blocks.block_attribute_indices(block)), start=Fraction(1)
        )
        assert blocks.squared_row_change(block, own) == p
        assert {sum(each**2 for each in column) for column in exact.T} == {p * s**2}


def test_an_attribute_with_one_cell_has_no_block() -> None:
    assert every_block(attributes((5, 1, 4))) == [(), ((2, 1),), ((0, 1),), ((0, 1), (2, 1))]


@pytest.mark.parametrize("own", WORLDS)
@pytest.mark.parametrize("grid", [1, 3])
def test_no_unit_moves_a_block_by_more_than_its_sensitivity(own: Attributes, grid: int) -> None:
    """By convexity units with all their weight in one cell suffice; a mixture beside them shows it."""
    most = 5
    for block in every_block(own):
        columns = matrix(block, own, grid).T * most
        added = blocks.block_sensitivity(block, own, most, grid)
        assert max(sum(map(abs, each)) for each in columns) <= added.total
        assert max(max(map(abs, each)) for each in columns) == added.per_group
        assert max(sum(each**2) for each in columns) == added.squares
        assert added.groups == math.prod(blocks.block_shape(block, own))
        moved = blocks.block_sensitivity(block, own, most, grid, "replace")
        assert moved.neighbours is Neighbours.REPLACE
        pairs = [one - other for one, other in itertools.combinations(columns, 2)] + list(columns)
        mixed = (columns[0] + columns[-1]) / 2 - columns[len(columns) // 2]
        for change in [*pairs, mixed] if block else list(columns):
            assert sum(map(abs, change)) <= moved.total
            assert max(map(abs, change)) <= moved.per_group
            assert sum(change**2) <= moved.squares
        assert moved.squares <= 4 * added.squares


@pytest.mark.parametrize("sizes", SIZES)
def test_the_bound_under_replacement_is_attained_without_levels(sizes: tuple[int, ...]) -> None:
    own = attributes(sizes)
    for block in every_block(own)[1:]:
        columns = matrix(block, own).T
        most = max(sum((one - other) ** 2) for one, other in itertools.combinations(columns, 2))
        assert blocks.block_sensitivity(block, own, 1, 1, "replace").squares == most


def test_the_total_moves_by_a_whole_unit_or_not_at_all() -> None:
    own = attributes((2, 3))
    assert blocks.block_sensitivity((), own, 7, 2, "replace").squares == 14**2
    assert blocks.block_sensitivity((), own, 7, 2, "replace", fixed_total=True).squares == 0
    assert blocks.block_sensitivity((), own, 7, 2, fixed_total=True).squares == 14**2
    assert blocks.block_sensitivity(((0, 1),), own, 7, 1, "replace", fixed_total=True).squares > 0


@pytest.mark.parametrize("own", WORLDS)
def test_the_largest_counts_do_not_wrap(own: Attributes) -> None:
    """Cells at both ends of 64 bits give what whole numbers of any size give for the counts that are cut."""
    for block in every_block(own):
        sizes = [own[place].size for place in blocks.block_attribute_indices(block)]
        parts = blocks.level_differences(block, own)
        if any(each.part_count < each.size for each in parts):
            continue
        for grid in (1, 4097):
            cut = blocks.max_unclipped_count(block, own, grid)
            marginal = np.where(np.asarray(np.indices(sizes)).sum(axis=0) % 2, 0, 2**62)
            found = blocks.scaled_residual(marginal.astype(np.int64), block, own, grid)
            exact = matrix(block, own, grid) @ np.array(
                [min(each, cut) for each in marginal.reshape(-1).tolist()], object
            )
            assert [int(each) for each in found.reshape(-1)] == list(exact)
            assert max(map(abs, exact)) < 2**62
            assert cut * grid * math.prod(2 * s for s in blocks.block_shape(block, own)) >= 2**61 or len(block) == 0


def test_counts_of_real_tables_are_never_cut() -> None:
    own = attributes((215, 215, 216))
    assert blocks.max_unclipped_count(((0, 1), (1, 1), (2, 1)), own) > 2**34


def test_a_block_knows_nothing_of_smaller_marginals() -> None:
    """Whatever is the same for all siblings of an attribute of the block is not in it."""
    own = leveled()
    rng = np.random.default_rng(1)
    for block in every_block(own[:3]):
        sizes = [own[place].size for place in blocks.block_attribute_indices(block)]
        for axis, (place, level) in enumerate(block):
            chain = own[place].hierarchy
            shares = np.rint(chain.shares * 360).astype(np.int64)
            assert np.allclose(shares / 360, chain.shares)
            flat = rng.integers(0, 50, [*sizes[:axis], 1, *sizes[axis + 1 :]])
            smooth = flat * np.expand_dims(shares, tuple(k for k in range(len(sizes)) if k != axis))
            assert not blocks.scaled_residual(smooth.astype(np.int64), block, own).any(), level


def test_marginals_add_up_to_smaller_ones() -> None:
    table = np.arange(24).reshape(2, 3, 4)
    assert (blocks.sum_marginal_to(table, (0, 1, 2), (1,)) == table.sum((0, 2))).all()
    assert blocks.sum_marginal_to(table, (0, 1, 2), (0, 1, 2)) is table


def test_maximal_sets_are_within_no_other() -> None:
    assert blocks.maximal_sets([(0,), (0, 1, 2), (2,), (1, 3), (), (0, 2), (1, 3)]) == ((0, 1, 2), (1, 3))
    assert blocks.maximal_sets([()]) == ((),)


@pytest.mark.parametrize("wrong", [3, ((0, 0),), ((0, 2),), ((1, 1), (0, 1)), ((0, 1), (0, 1)), ((9, 1),), ((0,),)])
def test_what_is_no_block_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidParameter):
        blocks.checked_block(wrong, attributes((2, 3)))


def test_a_marginal_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        blocks.scaled_residual(np.zeros((2, 2), np.int64), ((0, 1),), attributes((2, 3)))
    with pytest.raises(InvalidParameter):
        blocks.scaled_residual(np.zeros(2), ((0, 1),), attributes((2, 3)))


def test_many_different_numbers_of_children_have_a_moderate_scale() -> None:
    """Siblings by 2, 3, 5, 7, 11 and 13: their least common multiple is 30,030; entries stay near 64 · 13."""
    fine = rounded().hierarchy.differences[1]
    assert fine.scale == 64 * 13
    assert int(fine.difference_factors.max()) <= 1.01 * fine.scale
    assert int(fine.difference_factors.min()) >= 0.99 * fine.scale
