"""Candidate sets of columns: all subsets of the workload's sets, weighted by their overlap with the workload; those
that would make the model too large are left out.

Which are left out follows from the policy, the sets measured so far and the share of the price that is spent: all of it
is public or released (McKenna, Mullins, Sheldon & Miklau 2022, "AIM", section 4.2).

Every step of a synthesis measures one marginal, or chooses one set of columns among the candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from sfumato.array_types import Floats, Indices, Integers
from sfumato.plan.readings.cell_rows import MAX_WEIGHT
from sfumato.privacy import codec
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.measuring import decode_integers, encode_integers
from sfumato.publish.tab_steps import ChooseQuantileCellsStep, ChooseStep, ChosenCandidate, MeasureStep, QuantileCells
from sfumato.quick_dataclass import dataclass

BYTES_PER_CELL = 1 << 12
"""The bytes of allowed memory per cell of a model: it is fitted, and yields hundreds of marginals, in every round."""


def weighted_subsets(workload: Mapping[AttributeSet, Fraction]) -> dict[AttributeSet, int]:
    """Return every subset of a workload set with its weight as an integer, the sum over its columns of the weights
    of the workload sets with that column; small sets come first.
    """
    per_column: dict[int, Fraction] = {}
    for workload_set, weight in workload.items():
        for attribute_index in workload_set:
            per_column[attribute_index] = per_column.get(attribute_index, Fraction(0)) + weight
    return integer_weights(
        {
            candidate: sum((per_column[attribute_index] for attribute_index in candidate), start=Fraction(0))
            for candidate in subsets_with_largest_weight(workload)
        }
    )


_MAX_MARKED = 1 << 24
"""The most possible sets that are marked in an array of truths; more are sorted."""


def subset_index_arrays(workload: Iterable[AttributeSet]) -> list[Indices]:
    """Return every subset of these sets as rows of column indices, one array for each number of columns; the same
    sets in the same order as ``weighted_subsets``, without weights.
    """
    sets = list(workload)
    lengths = np.fromiter(map(len, sets), np.intp, len(sets))
    flat = np.fromiter(itertools.chain.from_iterable(sets), np.intp)
    set_lengths = np.repeat(lengths, lengths)
    index_arrays = [flat[set_lengths == size].reshape(-1, size) for size in np.unique(lengths).tolist() if size]
    return [_column_subsets(index_arrays, count) for count in range(1, int(lengths.max(initial=0)) + 1)]


def _column_subsets(index_arrays: Sequence[Indices], count: int) -> Indices:
    """Return the distinct subsets of so many columns, in order."""
    selections = [
        sets[:, picks]
        for sets in index_arrays
        for picks in map(list, itertools.combinations(range(sets.shape[1]), count))
    ]
    rows = np.concatenate(selections)
    columns = int(rows.max()) + 1
    if columns**count >= 1 << 62:
        return np.unique(rows, axis=0)
    radix = columns ** np.arange(count)[::-1]
    keys = rows @ radix
    if columns**count <= _MAX_MARKED:
        is_present = np.zeros(columns**count, bool)
        is_present[keys] = True
        return np.asarray(np.flatnonzero(is_present)[:, None] // radix % columns)
    return np.asarray(np.unique(keys)[:, None] // radix % columns)


def subsets_with_largest_weight(workload: Mapping[AttributeSet, Fraction]) -> dict[AttributeSet, Fraction]:
    """Return every subset of a workload set with the weight of the heaviest set it is in; small sets come first."""
    weights: dict[AttributeSet, Fraction] = {}
    for workload_set, weight in workload.items():
        for count in range(1, len(workload_set) + 1):
            for subset in itertools.combinations(workload_set, count):
                weights[subset] = max(weight, weights.get(subset, weight))
    return {candidate: weights[candidate] for candidate in sorted(weights, key=lambda subset: (len(subset), subset))}


def integer_weights(exact: Mapping[AttributeSet, Fraction]) -> dict[AttributeSet, int]:
    """Scale weights to integers: exactly if these are small, otherwise to a millionth of the largest."""
    common = math.lcm(*(weight.denominator for weight in exact.values()))
    scaled = {candidate: int(weight * common) for candidate, weight in exact.items()}
    divisor = math.gcd(*scaled.values())
    if max(scaled.values()) <= MAX_WEIGHT * divisor:
        return {candidate: weight // divisor for candidate, weight in scaled.items()}
    largest = max(scaled.values())
    return {candidate: max(1, weight * MAX_WEIGHT // largest) for candidate, weight in scaled.items()}


def cell_counts(sets: Indices, sizes: Sequence[int]) -> Floats:
    """Return the number of cells of each set: integers, exact below 2^53, which no model comes near."""
    return np.asarray(np.prod(np.array(sizes, float)[sets], axis=1))


def counted_sets(
    method: str,
    workload: Iterable[AttributeSet],
    sizes: Sequence[int],
    first_pairs: Iterable[AttributeSet],
    max_cells: int,
) -> tuple[AttributeSet, ...]:
    """Return all sets that a step of this method may count, from public numbers alone: no columns, each column, the
    pairs that are measured first, and the candidates that a model of so many cells, beside those of its columns, holds.
    """
    columns, limit = range(len(sizes)), sum(sizes) + max_cells
    subsets: list[Indices] = []
    if method == "mst" and len(sizes) > 1:
        subsets = [np.array([*itertools.combinations(columns, 2)])]
    elif method != "independent":
        subsets = subset_index_arrays(workload)
    candidates = (
        tuple(attribute_set)
        for array in subsets
        for attribute_set in array[cell_counts(array, sizes) <= limit].tolist()
    )
    return tuple(dict.fromkeys([(), *((column,) for column in columns), *first_pairs, *candidates]))


def candidates_within_cells(
    candidates: Iterable[AttributeSet], model: GraphicalModel, measured: Sequence[AttributeSet], most_cells: float
) -> list[AttributeSet]:
    """Return the candidates with which the model has at most so many cells, beside those of its columns; a candidate
    within a clique adds none.
    """
    sizes, cliques = model.sizes, [set(clique) for clique in model.tree.cliques]
    max_cells = sum(sizes) + most_cells
    return [
        candidate
        for candidate in candidates
        if any(clique.issuperset(candidate) for clique in cliques)
        or (
            math.prod(sizes[attribute_index] for attribute_index in candidate) <= max_cells
            and predicted_cells((*measured, candidate), sizes) <= max_cells
        )
    ]


@codec.serialisable("noisy-cells")
@dataclass(frozen=True)
class NoisyCells:
    """The noisy counts of one marginal, in integer steps, as one step released them."""

    values: str
    """64-bit little-endian integers, in base64."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)

    @classmethod
    def from_counts(cls, counts: Integers) -> NoisyCells:
        return cls(encode_integers(counts))

    @property
    def counts(self) -> Integers:
        return decode_integers(self.values)


Step = MeasureStep[NoisyCells] | ChooseStep | ChooseQuantileCellsStep
Outcome = NoisyCells | ChosenCandidate | QuantileCells
