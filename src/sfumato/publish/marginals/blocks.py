"""A block is the part of a marginal that no smaller marginal has, measured in exact whole numbers.

Attribute i has n_i cells and P_i = I − 11ᵀ/n_i takes means away; a block B is a set of attributes, P_B = ⊗P_i, s_B =
Πn_i and p_B = Π(1 − 1/n_i). Under levels (``chains``) a block picks one difference of each of its attributes, with the
matrix M_i; s_B = Πs_i, and p_B is the largest squared length of a column of M_B = ⊗M_i over s_B². Without levels M_B =
s_B·P_B. Measured is y_B = g·M_B·m_B plus discrete Gaussian noise of a deviation d, with g whole.

Theorem (Xiao, He, Zhang & Kifer 2023 for real numbers). Let a unit's rows carry weights ≥ 0 that add up to at most m.
(1) All numbers of M_B are whole, and under add-remove neighbours the release costs ρ = (g·m·s_B)²·p_B/2d².
(2) Under replace neighbours it costs at most 2(1 + c)ρ with c = max_i 1/(n_i − 1) ≤ 1 (levels: the largest ratio, for
one of the differences, of −⟨u, v⟩ for two columns to the largest ‖u‖²), and ρ for B = ∅.
Proof. (1) s_i·P_i = n_i·I − 11ᵀ is whole. What the unit moves is g·M_B·w; ‖M_B·w‖² is convex in w, so it is largest
at m times one cell: m² times the squared length of a column, which for a projection is its diagonal, p_B. Discrete
Gaussian noise on whole shifts: ρ = Δ₂²/2d² (Canonne, Kamath & Steinke 2020). (2) ‖M_B(w − w′)‖² is convex in both, so
it is largest where each is m times one cell or nothing: ‖u‖² + ‖v‖² − 2⟨u, v⟩ for columns u, v of M_B. ⟨u, v⟩ is the
product over attributes, so where it is negative one factor is, at least −c times the largest ‖u‖², and the others are
at most theirs. For ∅ totals move by at most m in size. ∎ The bound of (2) is attained without levels, by two cells
that differ in the attribute with the fewest; 4ρ, from the lengths alone, is attained for n_i = 2.

Noise before projecting would be charged m²/2σ², which is 1/p_B too much.

*64 bits.* Counts of rows, in steps of their weights, are below 2^62. The total of each part is cut at C = (2^62 −
1)/(g·2^|B|·Πak). A row of M_i has sizes that add up to 2a(k−1) < 2ak, so no number on the way reaches 2^62. Cutting
leaves of every unit's weight in a part something between 0 and all of it, so the theorem holds for what is left.

Marginals are made of blocks, and a query over a marginal asks something of each of its blocks.

Let r_B be what block B stands for: the differences that it picks (``chains``), without levels r_B = P_B·m_B. A cell of
the marginal m_A is the sum, over the blocks B within A, of r_B at the parts that the cell is in, times the cell's share
of them and of the whole of every attribute outside B: without levels Σ_B r_B·Π_{A∖B} 1/n_j. A query q over A therefore
has ⟨q, m_A⟩ = Σ_B⟨q_B, r_B⟩, where q_B is q weighed by the same shares and centred among siblings. Noise that is
independent in the entries of each block, of variance v_B, gives it the variance Σ_B v_B‖q_B‖².

All of it is done axis by axis: a marginal is made with few more additions than it has cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact, exact_integer
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.chains import LevelDifference, reshape_along

Block = tuple[tuple[int, int], ...]
"""The index of each attribute of the block, rising, and the level of its difference. Level 1 splits the whole; an
attribute without levels has no other."""
AttributeSet = tuple[int, ...]
"""Indices of attributes, in increasing order."""

_LARGEST = (1 << 62) - 1
_PAIRS = "a list of pairs (column index, level), with levels counted from 1, such as [(0, 1), (2, 1)]"


def checked_block(block: object, attributes: Attributes) -> Block:
    """Parse a block, or raise for what is none of these attributes."""
    try:
        pairs = tuple((attribute_index, level) for attribute_index, level in block)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InvalidParameter("block", block, _PAIRS) from None
    attribute_set = parse_attribute_indices(tuple(attribute_index for attribute_index, _ in pairs), attributes)
    level_counts = [len(attributes[attribute_index].hierarchy.differences) for attribute_index in attribute_set]
    for (attribute_index, level), last in zip(pairs, level_counts, strict=True):
        if type(level) is not int or not 1 <= level <= last:
            levels = "level 1 only" if last == 1 else f"levels 1 to {last}"
            rule = f"a list of pairs (column index, level), where the column with index {attribute_index} has {levels}"
            raise InvalidParameter("block", block, rule)
    return pairs


def parse_attribute_indices(attribute_set: object, attributes: Attributes) -> AttributeSet:
    """Parse a set of attributes, or raise for attributes that are not theirs, that do not rise, or stand twice."""
    valid_indices = range(len(attributes))
    if not isinstance(attribute_set, (tuple, list)) or any(
        type(attribute_index) is not int or attribute_index not in valid_indices for attribute_index in attribute_set
    ):
        raise InvalidParameter(
            "attribute_set", attribute_set, f"a list of column indices, each from 0 to {len(attributes) - 1}"
        )
    if any(first >= second for first, second in itertools.pairwise(attribute_set)):
        raise InvalidParameter("attribute_set", attribute_set, "a list of column indices in increasing order")
    return tuple(attribute_set)


def block_attribute_indices(block: Block) -> AttributeSet:
    """Return the attributes of a block."""
    return tuple(attribute_index for attribute_index, _ in block)


def level_differences(block: Block, attributes: Attributes) -> tuple[LevelDifference, ...]:
    """Return the difference that the block picks of each of its attributes."""
    return tuple(attributes[attribute_index].hierarchy.differences[level - 1] for attribute_index, level in block)


def block_shape(block: Block, attributes: Attributes) -> tuple[int, ...]:
    """Return the shape of what is measured of a block, along each of its attributes."""
    return tuple(difference.part_count for difference in level_differences(block, attributes))


def block_scale(block: Block, attributes: Attributes) -> int:
    """Compute s_B: what is measured is s_B times what it stands for."""
    return math.prod(difference.scale for difference in level_differences(block, attributes))


def squared_row_change(block: Block, attributes: Attributes) -> Fraction:
    """Compute p_B: the squares by which one row moves what is measured, over s_B²."""
    squares = math.prod(difference.max_squared_change for difference in level_differences(block, attributes))
    return Fraction(squares, block_scale(block, attributes) ** 2)


def block_sensitivity(
    block: Block,
    attributes: Attributes,
    max_weight: Number,
    grid: int = 1,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    *,
    fixed_total: bool = False,
) -> Sensitivity:
    """Bound what one unit changes of g·M_B·m_B, if its weights add up to at most ``max_weight`` in steps of the
    marginal.

    ``fixed_total`` says that replacing a unit leaves the number of rows as it is: each is one row, and no condition
    leaves any out. Nothing then moves the total.
    """
    relation = Neighbours.of(neighbours)
    size = math.floor(exact(max_weight, "max_weight", NONNEGATIVE)) * exact_integer(grid, "grid", at_least=1)
    if not block:
        change = 0 if fixed_total and relation is Neighbours.REPLACE else size
        return Sensitivity(1, change, neighbours=relation)
    parts = level_differences(block, attributes)
    squares = math.prod(difference.max_squared_change for difference in parts)
    largest, total = (
        math.prod(difference.max_entry_change for difference in parts),
        math.prod(difference.max_l1_change for difference in parts),
    )
    if relation is Neighbours.REPLACE:
        opposed = max(
            (
                squares // difference.max_squared_change * difference.max_negated_row_product
                for difference in parts
                if difference.max_squared_change
            ),
            default=0,
        )
        lowest = max(
            (
                largest // difference.max_entry_change * int(difference.weights.max())
                for difference in parts
                if difference.max_entry_change
            ),
            default=0,
        )
        squares, largest, total = 2 * (squares + opposed), largest + lowest, 2 * total
    return _integer_sensitivity(
        math.prod(block_shape(block, attributes)), size * largest, size * total, size**2 * squares, relation
    )


def _integer_sensitivity(count: int, largest: int, total: int, squares: int, neighbours: Neighbours) -> Sensitivity:
    """Return bounds on whole numbers: what the squares imply for the others is rounded down, as no change is
    between.
    """
    l1, cap = min(total, math.isqrt(count * squares)), min(largest, math.isqrt(squares))
    return Sensitivity(max(1, count), cap, l1, squares, neighbours)


def scaled_residual(marginal: Integers, block: Block, attributes: Attributes, grid: int = 1) -> Integers:
    """Compute g·M_B·m_B from the marginal over the block's attributes, exactly, axis by axis.

    >>> from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
    >>> sex = Attribute("sex", "text", (ListedCell("f"), ListedCell("m"), OtherCell()))
    >>> scaled_residual(np.array([5, 2, 0]), ((0, 1),), (sex,)).tolist()
    [8, -1, -7]
    """
    expected_shape = tuple(attributes[attribute_index].size for attribute_index in block_attribute_indices(block))
    if marginal.shape != expected_shape or marginal.dtype != np.int64:
        raise InvalidParameter(
            "marginal",
            ValueWords(f"{marginal.dtype} of shape {marginal.shape}"),
            f"an int64 array of shape {expected_shape}",
        )
    parts = level_differences(block, attributes)
    values = marginal
    for axis, difference in enumerate(parts):
        values = difference.sum_parts(values, axis)
    max_count = max_unclipped_count(block, attributes, grid)
    if values.size and not -max_count <= values.min() <= values.max() <= max_count:
        values = np.clip(values, -max_count, max_count)
    for axis, difference in enumerate(parts):
        values = difference.measured_values(values, axis)
    return np.asarray(values * grid if grid > 1 else values)


def max_unclipped_count(block: Block, attributes: Attributes, grid: int = 1) -> int:
    """Return the count at which totals are clipped, so that no number on the way to what is measured reaches 2^62."""
    steps = (
        int((difference.weights * difference.children).max(initial=1))
        for difference in level_differences(block, attributes)
    )
    return _LARGEST // (grid * math.prod(2 * step for step in steps))


def sum_marginal_to(marginal: Integers, having: AttributeSet, wanted: AttributeSet) -> Integers:
    """Sum a marginal to one over fewer of its attributes."""
    summed_axes = tuple(axis for axis, attribute_index in enumerate(having) if attribute_index not in wanted)
    return np.asarray(marginal.sum(summed_axes)) if summed_axes else marginal


def maximal_sets(sets: Iterable[AttributeSet]) -> tuple[AttributeSet, ...]:
    """Leave out sets within others: marginals over those are sums of the rest."""
    distinct_sets = dict.fromkeys(sets)
    subsets = {
        subset
        for attribute_set in distinct_sets
        for k in range(len(attribute_set))
        for subset in itertools.combinations(attribute_set, k)
    }
    return tuple(attribute_set for attribute_set in distinct_sets if attribute_set not in subsets)


def blocks_within(attribute_set: AttributeSet, attributes: Attributes) -> Iterator[Block]:
    """Yield the blocks that a marginal is made of: for each attribute none, or one of its differences."""
    if not attribute_set:
        yield ()
        return
    last = attribute_set[-1]
    levels = [
        level_index
        for level_index, difference in enumerate(attributes[last].hierarchy.differences, 1)
        if difference.part_count
    ]
    for block in blocks_within(attribute_set[:-1], attributes):
        yield block
        for level in levels:
            yield (*block, (last, level))


def marginal_from_blocks(
    parts: Mapping[Block, Floats], attribute_set: AttributeSet, attributes: Attributes, within: Block = ()
) -> Floats:
    """Build a marginal from its blocks; ``within`` are those of earlier axes, which stay as they are."""
    if not attribute_set:
        return parts[within]
    axis, chain = len(within), attributes[attribute_set[0]].hierarchy
    without_axis = marginal_from_blocks(parts, attribute_set[1:], attributes, within)
    marginal = np.expand_dims(without_axis, axis) * reshape_along(chain.shares, axis, without_axis.ndim + 1)
    for level, difference in enumerate(chain.differences, 1):
        if difference.part_count:
            block_part = marginal_from_blocks(
                parts, attribute_set[1:], attributes, (*within, (attribute_set[0], level))
            )
            marginal += difference.distribute_to_cells(block_part, axis)
    return marginal


def cell_variances(variances: Mapping[Block, float], attribute_set: AttributeSet, attributes: Attributes) -> Floats:
    """Return the variance of every cell of a marginal, from those of its blocks; the array is read-only."""
    sizes = tuple(attributes[attribute_index].size for attribute_index in attribute_set)
    return np.broadcast_to(_expand_variances(variances, attribute_set, attributes, ()), sizes)


def _expand_variances(
    variances: Mapping[Block, float], attribute_set: AttributeSet, attributes: Attributes, within: Block
) -> Floats:
    if not attribute_set:
        return np.asarray(variances[within])
    chain = attributes[attribute_set[0]].hierarchy
    variance: Floats = np.zeros(())
    for level, factors in enumerate(
        [chain.shares**2, *(difference.cell_variances for difference in chain.differences)]
    ):
        if level and not chain.differences[level - 1].part_count:
            continue
        block = (*within, (attribute_set[0], level)) if level else within
        inner_variance = _expand_variances(variances, attribute_set[1:], attributes, block)
        constant = factors[:1] if bool((factors == factors[0]).all()) else factors
        variance = variance + reshape_along(constant, 0, inner_variance.ndim + 1) * inner_variance[None]
    return variance


def block_coefficients(query: Floats, attribute_set: AttributeSet, attributes: Attributes) -> dict[Block, Floats]:
    """Compute q_B for each block of the marginal that a query is over."""
    parts: dict[Block, Floats] = {(): np.asarray(query, np.float64)}
    for attribute_index in attribute_set:
        chain, next_parts = attributes[attribute_index].hierarchy, {}
        for block, values in parts.items():
            axis = len(block)
            next_parts[block] = np.asarray(np.tensordot(values, chain.shares, (axis, 0)))
            for level, difference in enumerate(chain.differences, 1):
                if difference.part_count:
                    next_parts[(*block, (attribute_index, level))] = difference.coefficients(values, axis)
        parts = next_parts
    return parts


def weight_by_noise_deviation(values: Floats, block: Block, attributes: Attributes) -> Floats:
    """Multiply entries by the deviation of their noise, which is 1 unless weights of parents were rounded."""
    for axis, (attribute_index, level) in enumerate(block):
        difference = attributes[attribute_index].hierarchy.differences[level - 1]
        if not difference.has_uniform_noise:
            values = values * reshape_along(difference.noise_deviations, axis, values.ndim)
    return values


def squared_norms_by_block(parts: Mapping[Block, Floats], attributes: Attributes) -> dict[Block, float]:
    """Compute ‖q_B‖² for each block that is asked, weighed by the noise of its entries."""
    return {
        block: float((weight_by_noise_deviation(part, block, attributes) ** 2).sum()) for block, part in parts.items()
    }
