"""Candidate sets of columns: all subsets of the workload's sets, weighted by their overlap with the workload; those
that would make the model too large are left out.

Which are left out follows from the policy, the sets measured so far and the share of the price that is spent: all of it
is public or released (McKenna, Mullins, Sheldon & Miklau 2022, "AIM", section 4.2).

Every step of a synthesis measures one marginal, or chooses one set of columns among the candidates.

Functional dependencies and impossible cells: enforce in the model what the policy declares of columns.

A pair of columns of which the first decides the second (``implies``) is measured first, whatever the method. After all
measurements, the mapping from the cells of the first to those of the second is read from the model, as from noisy
counts (``marginals.implied``), and the model is fitted again with every other pair of cells impossible: no row is drawn
there. If the policy itself gives the mapping (levels), these cells are impossible from the start.

*Privacy.* The mapping is computed from the model, so from released numbers and the policy alone: post-processing, which
costs nothing (Dwork & Roth 2014, prop. 2.1). The measurements of the pairs are charged steps like all others.

A bin of several values, or a missing value, decides nothing: rows in it may have any cell of the second column.

A policy may declare cells impossible: the model has a factor that is zero there.

Some columns need not be measured, as their cells follow from others by the policy: it declares that one column decides
another (``implies``), and the first has levels whose parts have the names of the second's values, such as cities in
lists called north and south, and a region that is north or south. Such a column is left out of the model, and added to
every sampled row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Indices, Integers
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.readings.cell_rows import MAX_WEIGHT
from sfumato.policy import Table, Type
from sfumato.privacy import codec
from sfumato.publish.cells import answering
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.attributes import (
    Attributes,
    PublicTableFacts,
    coded_attribute,
    holds_one_value,
    infer_dependency,
)
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.measuring import decode_integers, encode_integers
from sfumato.publish.synthesis.released import ImpliedColumn
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


Mask = NDArray[np.bool_]
Zeros = tuple[tuple[AttributeSet, Mask], ...]
"""Sets of columns, and the cells of each that no row is in."""
Pairs = tuple[tuple[int, int], ...]
"""Indices of columns: a deciding one, and the one that it decides."""


def deciding_pairs(attributes: Attributes, face: PublicTableFacts) -> Pairs:
    """Return the declared pairs whose columns are both here, and of which some cell of the first decides."""
    index_by_name = {attribute.name: attribute_index for attribute_index, attribute in enumerate(attributes)}
    declared = [
        (index_by_name[deciding], index_by_name[decided])
        for deciding, decided in face.implies
        if deciding in index_by_name and decided in index_by_name
    ]
    return tuple(pair for pair in declared if deciding_cells(attributes, pair[0]).any())


def deciding_cells(attributes: Attributes, index: int) -> Mask:
    """Return which cells of a column hold one value."""
    attribute = attributes[index]
    return np.array([holds_one_value(cell, attribute.type) for cell in attribute.cells])


def non_nullable_attributes(face: PublicTableFacts) -> tuple[int, ...]:
    """Return the columns that the policy does not call nullable; none if only cells are known."""
    return tuple(attribute_index for attribute_index, domain in enumerate(face.domains) if not domain.nullable)


def missing_value_cell(attributes: Attributes, index: int) -> tuple[AttributeSet, Mask]:
    """Return the cell of a column for missing or unlisted values."""
    size = attributes[index].size
    return (index,), np.arange(size) == size - 1


def distinct_sets(pairs: Pairs) -> list[AttributeSet]:
    """Return the distinct sets of columns of the pairs."""
    return list(dict.fromkeys(_sorted_pair(pair) for pair in pairs))


def zeros_of_pair(pair: tuple[int, int], cells: Sequence[int], decides: Mask, size: int) -> tuple[AttributeSet, Mask]:
    """Return the cells of a pair that no row is in: all but the decided one, if the first column decides."""
    others = (np.arange(size) != np.asarray(cells)[:, None]) & decides[:, None]
    return _sorted_pair(pair), others if pair[0] < pair[1] else others.T


def zeros_from_model(
    model: GraphicalModel, attributes: Attributes, pairs: Pairs, zeros: Zeros = (), required: Sequence[int] = ()
) -> Zeros:
    """Read from a model what columns decide, and return the cells that this rules out.

    No row is decided to be in a cell that is known to be empty (``zeros``), or NULL in a required column.
    """
    ruled_out = []
    for deciding, decided in pairs:
        counts = model.marginal((deciding, decided))
        impossible = np.zeros(counts.shape, bool)
        impossible[:, -1] = decided in required
        for attribute_set, cells in zeros:
            if attribute_set == _sorted_pair((deciding, decided)):
                impossible |= cells if deciding < decided else cells.T
        mapping = infer_dependency(counts, attributes[deciding], impossible=impossible)
        ruled_out.append(zeros_of_pair((deciding, decided), mapping.cells.tolist(), mapping.decides, counts.shape[1]))
    return tuple(ruled_out)


def _sorted_pair(pair: tuple[int, int]) -> AttributeSet:
    return (min(pair), max(pair))


def zeros_from_policy(table: str, attributes: Attributes, face: PublicTableFacts) -> Zeros:
    """Return the cells of which every row would meet a condition that the policy calls impossible; conditions on
    columns outside the model are ignored.
    """
    zeros: dict[AttributeSet, NDArray[np.bool_]] = {}
    model_face = answering.QueryableTable(table, attributes, face.domains_for(attributes), None, None)  # type: ignore[arg-type]
    for declared in face.impossible:
        try:
            attribute_set, cells = answering.certain_cells(model_face, declared)
        except Unsupported:
            continue
        if attribute_set and cells.any():
            zeros[attribute_set] = zeros.get(attribute_set, np.zeros(cells.shape, bool)) | cells
    return tuple(zeros.items())


def require_possible_rows(zeros: Zeros, sizes: Sequence[int], max_cells: int) -> None:
    """Refuse zeros that leave no cell for any row, or that the model cannot hold."""
    sets = [attribute_set for attribute_set, _ in zeros]
    if predicted_cells(sets, sizes) > sum(sizes) + max_cells:
        largest = max(
            (math.prod(sizes[attribute_index] for attribute_index in attribute_set) for attribute_set in sets),
            default=1,
        )
        raise Unsupported(
            "too-many-cells",
            "the conditions that the policy lists as impossible need a larger model than the memory limit allows",
            fix=f"allow more memory, use coarser bins, or remove the condition that needs {largest:,} cells",
        )
    logs = [Potential(attribute_set, np.where(cells, -np.inf, 0.0)) for attribute_set, cells in zeros]
    try:
        possible = float(GraphicalModel.from_potentials(sizes, logs, 1.0).beliefs[0].sum()) > 0
    except InvalidParameter:
        possible = False
    if not possible:
        raise Unsupported(
            "contradictory-zeros",
            "every possible row meets a condition that the policy lists as impossible",
            fix="remove or narrow a condition listed under impossible in the policy",
        )


def implied_columns(table: Table, names: Sequence[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the columns that others decide by the policy: the deciding column, and the decided cell for each of its
    cells. A deciding column stays in the model, even if it is decided itself.
    """
    implied_by_name: dict[str, tuple[str, tuple[int, ...]]] = {}
    pairs = [
        (deciding, decided) for deciding, decided in table.implies.items() if deciding in names and decided in names
    ]
    for deciding, decided in pairs:
        if decided not in dict(pairs):
            cells = decided_cells(table, deciding, decided)
            if cells is not None:
                implied_by_name.setdefault(decided, (deciding, cells))
    return implied_by_name


def decided_cells(table: Table, by: str, decided: str) -> tuple[int, ...] | None:
    """Read the decided cells from the labels of a level; missing values are missing in both columns."""
    domain, coding = table.columns[decided], table.codings.get(by)
    if domain.type is not Type.TEXT or domain.values is None or coding is None or coding.starts:
        return None
    cell_by_value = {value: cell for cell, value in enumerate(domain.values)}
    for level in coding.levels:
        if level.labels and set(level.labels) <= set(cell_by_value):
            return (*(cell_by_value[level.labels[part]] for part in level.parts), len(cell_by_value))
    return None


def implied_column(table: Table, decided: str, by: int, cells: tuple[int, ...]) -> ImpliedColumn:
    """Return the implied column whose cell is decided by the column at this index of the model."""
    return ImpliedColumn(
        coded_attribute(decided, table.columns[decided], table.codings.get(decided)).without_levels, by, cells
    )
