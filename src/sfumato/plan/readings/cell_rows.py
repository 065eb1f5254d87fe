"""Cells of several columns, read once, from which a step counts the marginal that it needs.

Which marginals are needed is known only step by step, but all that may be are public before. In this process one pass
gives for each combination of cells that some row is in its codes and its total. A server adds up those marginals
(``CellRows.blocks``), so that no combination of all columns leaves it. Nothing of either is shown: what a step measures
is a view of it, with a sensitivity that follows from the bounded plan.

A unit's rows have weights ≥ 0 that add up to at most T, and all of them may share a cell: a marginal moves by
Δ₁ = Δ₂ = Δ∞ = T, and by a replaced unit in two cells, as for ``dense_readings.Marginals``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from operator import lt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.dense_readings import Marginals, cells_sensitivity
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.policy import Value
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.quick_dataclass import dataclass

MAX_COLUMN_CELLS = 10**6
"""The most cells of one column."""
MAX_WEIGHT = 10**6
"""The largest weight of a candidate: with it a score of 2^62 steps is still compared exactly, in Python integers."""
MAX_CACHED_CELLS = 12 * 10**6
"""The cells of marginals that are cached; which ones is decided by sizes and order alone."""
_EXACT = 1 << 53
_MAX_NARROW = 1 << 32
_MAX_BLOCK = 1 << 20
"""The most cells that a server adds up in one statement, unless a single marginal has more."""

ColumnSet = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MergedCells:
    """A public partition of the cells of some columns: what one unit changes in counts of parts is what it changes in
    counts of cells, since each of its rows is in one part.
    """

    parts: tuple[NDArray[Any] | None, ...]
    """For each column the part of every cell, numbered from 0 without gaps; None where cells stay as they are."""

    def part_counts(self, cells: Sequence[int]) -> tuple[int, ...]:
        """Return the number of parts of each column, given its number of cells."""
        pairs = zip(self.parts, cells, strict=True)
        return tuple(size if parts is None else int(parts.max()) + 1 for parts, size in pairs)


class CountedCells(Protocol):
    """What an engine returns: it has the marginal of each set of the reading. PRIVATE."""

    def marginal(self, columns: ColumnSet) -> Integers:
        """Return the total of every cell of these columns, as one row."""
        ...


@dataclass(frozen=True, eq=False)
class CountedMarginals:
    """The marginals of all sets of a reading, as a server added them up. PRIVATE."""

    marginals: Mapping[ColumnSet, Integers] = field(repr=False)

    def marginal(self, columns: ColumnSet) -> Integers:
        return self.marginals[columns]


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The combinations of cells that some row is in, with their totals. PRIVATE."""

    sizes: tuple[int, ...]
    codes: tuple[NDArray[Any], ...]
    """For each column the codes of the cells, in the smallest integer type that holds them."""
    totals: Integers
    """The total of each combination."""
    _cached_marginals: dict[ColumnSet, Integers] = field(default_factory=dict, repr=False)
    _cached_merges: dict[MergedCells, CodedRows] = field(default_factory=dict, repr=False)

    def merge(self, merged: MergedCells) -> CodedRows:
        """Return the same rows with the codes of merged cells; cached."""
        if merged not in self._cached_merges:
            codes = [
                column_codes if parts is None else parts.astype(np.min_scalar_type(int(parts.max())))[column_codes]
                for column_codes, parts in zip(self.codes, merged.parts, strict=True)
            ]
            self._cached_merges[merged] = CodedRows(merged.part_counts(self.sizes), tuple(codes), self.totals)
        return self._cached_merges[merged]

    def marginal(self, columns: ColumnSet) -> Integers:
        """Return the total of every cell of these columns, as one row; it is cached while there is room."""
        if columns in self._cached_marginals:
            return self._cached_marginals[columns]
        marginal = self._count_cells(columns)
        if sum(cached.size for cached in self._cached_marginals.values()) + marginal.size <= MAX_CACHED_CELLS:
            self._cached_marginals[columns] = marginal
        return marginal

    def _count_cells(self, columns: ColumnSet) -> Integers:
        cells = math.prod(self.sizes[column] for column in columns)
        # the narrowest integers that hold all indices: most of the time goes into moving them
        index_type = np.min_scalar_type(cells) if cells < _MAX_NARROW else np.dtype(np.intp)
        index = np.zeros(len(self.totals), index_type)
        for column in columns:
            index *= index_type.type(self.sizes[column])
            index += self.codes[column].astype(index_type, copy=False)
        if self._common_total is not None:
            return np.bincount(index, minlength=cells) * np.int64(self._common_total)
        if self._has_exact_double_sums:
            return np.bincount(index, self.totals, cells).astype(np.int64)
        totals = np.zeros(cells, np.int64)
        np.add.at(totals, index, self.totals)
        return totals

    @cached_property
    def _common_total(self) -> int | None:
        """The total of every combination, if all have the same and their sum fits 64 bits."""
        total = int(self.totals[0]) if self.totals.size else 0
        is_common = bool((self.totals == total).all()) and abs(total) * self.totals.size <= LARGEST_INTEGER
        return total if is_common else None

    @cached_property
    def _has_exact_double_sums(self) -> bool:
        """Whether no sum of totals is beyond what a double holds exactly."""
        return sum(map(abs, self.totals.tolist())) < _EXACT


@dataclass(frozen=True)
class CellRows(PlanReading[CountedCells]):
    """The cells of every row, read once, and the sets of columns whose marginals are counted from them."""

    cells: tuple[tuple[Value | None, ...], ...]
    """The cells of each key of the plan in order, without the last one, which holds values that are NULL or not
    listed.
    """
    sets: tuple[ColumnSet, ...]
    """The sets that may be counted, each in ascending order."""

    def __post_init__(self) -> None:
        Marginals(self.bounded, self.cells, ((),))  # the same rows may be read, under the same conditions
        self._require_sets()
        if max(self.sizes) > MAX_COLUMN_CELLS:
            got = ValueWords(f"a column with {max(self.sizes):,} cells")
            raise InvalidParameter("cells", got, f"a list with at most {MAX_COLUMN_CELLS:,} cells per column")

    def _require_sets(self) -> None:
        count = len(self.cells)
        if len(self.distinct_sets) != len(self.sets) or not all(
            not column_set
            or (column_set[0] >= 0 and column_set[-1] < count and all(map(lt, column_set, column_set[1:])))
            for column_set in self.sets
        ):
            raise InvalidParameter(
                "sets",
                self.sets[:3],
                f"different lists of column indices from 0 to {len(self.cells) - 1}, each in ascending order",
            )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return tuple(len(key_cells) + 1 for key_cells in self.cells)

    @cached_property
    def distinct_sets(self) -> frozenset[ColumnSet]:
        return frozenset(self.sets)

    @cached_property
    def cell_count(self) -> int:
        """The number of cells of all sets together: the most rows that leave a server."""
        return sum(map(self.cells_of_set, self.sets))

    def cells_of_set(self, columns: ColumnSet) -> int:
        """Return the number of cells of these columns."""
        return math.prod(self.sizes[column] for column in columns)

    @property
    def blocks(self) -> tuple[Marginals, ...]:
        """The sets in order, as readings that a server answers with one statement each: of at most 2^20 cells, or of a
        single set. Two blocks in a row have more cells than that, so there are at most 1 + 2·(all cells)/2^20.
        """
        blocks: list[list[ColumnSet]] = [[]]
        room = _MAX_BLOCK
        for columns in self.sets:
            if blocks[-1] and self.cells_of_set(columns) > room:
                blocks.append([])
                room = _MAX_BLOCK
            blocks[-1].append(columns)
            room -= self.cells_of_set(columns)
        return tuple(Marginals(self.bounded, self.cells, tuple(block)) for block in blocks)

    def marginals_by_set(self, marginals: Iterable[tuple[Integers, ...]]) -> CountedMarginals:
        """Combine the marginals of all blocks."""
        counted = (marginal.reshape(-1) for block in marginals for marginal in block)
        return CountedMarginals(dict(zip(self.sets, counted, strict=True)))

    @property
    def counts_row_by_row(self) -> bool:
        """Whether rows are stored as they arrive, and not added up first."""
        return Marginals(self.bounded, self.cells, ((),)).counts_row_by_row

    def store_batches(self, row_batches: Iterable[tuple[Sequence[NDArray[Any]], Integers]]) -> CodedRows:
        """Store batches of rows as they arrive: the cell codes of each key, in little memory, and the totals."""
        code_types = [np.min_scalar_type(size - 1) for size in self.sizes]
        code_batches: list[list[NDArray[Any]]] = [[np.empty(0, code_type)] for code_type in code_types]
        totals: list[Integers] = [np.empty(0, np.int64)]
        for codes, batch_totals in row_batches:
            for batches, column_codes, code_type in zip(code_batches, codes, code_types, strict=True):
                batches.append(column_codes.astype(code_type))
            totals.append(np.array(batch_totals))  # a view would hold the whole batch with all its columns
        code_batches.reverse()
        # column by column, and each freed once it is joined: all together would be in memory twice
        codes_of_columns = tuple(np.concatenate(code_batches.pop()) for _ in code_types)
        return CodedRows(self.sizes, codes_of_columns, np.concatenate(totals))


@dataclass(frozen=True)
class CellCounts:
    """The counts of all cells of some columns; of no column, the number of all rows."""

    reading: CellRows
    columns: ColumnSet
    merged: MergedCells | None = None
    """The parts that are counted instead of cells."""

    def __post_init__(self) -> None:
        if self.columns not in self.reading.distinct_sets:
            counted = sorted(self.reading.distinct_sets)
            rule = f"one of the sets of columns that the reading counts, such as {counted[-1]}"
            raise InvalidParameter("columns", self.columns, rule)

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def size(self) -> int:
        """The number of counts."""
        sizes = self.reading.sizes if self.merged is None else self.merged.part_counts(self.reading.sizes)
        return math.prod(sizes[column] for column in self.columns)

    @property
    def sensitivity(self) -> Sensitivity:
        """What one unit changes: each of its rows is in one cell, and all may be in the same."""
        return cells_sensitivity(self.bounded, self.size)

    def extract(self, counted_cells: CountedCells) -> Integers:
        """Return the counts as one row, from the cells of the reading."""
        if self.merged is None:
            return counted_cells.marginal(self.columns)
        assert isinstance(counted_cells, CodedRows)  # of this process: a server has no parts to count
        return counted_cells.merge(self.merged).marginal(self.columns)


@dataclass(frozen=True)
class RanksOfCells:
    """The ranks of the cells of one ordered column, by which quantiles are selected among its cells.

    Rows without a value have no rank. A unit's rows weigh at most T steps together (``CellRows``), and each step counts
    as a row: so selections are made for units of T rows (``mechanisms.quantiles``, theorem). A row that moves between a
    value and NULL comes or goes, which moves a rank distance by less than a row that changes its value may.
    """

    reading: CellRows
    column: int

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def neighbours(self) -> Neighbours:
        return cells_sensitivity(self.bounded, 2).neighbours

    @property
    def rows_per_unit(self) -> int:
        """The most steps of one unit."""
        (scaled,) = self.bounded.measures
        return math.ceil(scaled.add_remove_sensitivity.total)

    @property
    def ends(self) -> tuple[int, int]:
        """The indices of the first and the last cell with values."""
        return 0, self.reading.sizes[self.column] - 2

    def extract(self, exact: Any) -> Integers:
        """Return the counts of all cells with values, in their order."""
        counts: Integers = exact.marginal((self.column,))[:-1]
        return counts


@dataclass(frozen=True, eq=False)
class ColumnSetDistances:
    """Scores of sets of columns: weight · (‖counts − prediction‖₁ − penalty), in whole steps.

    *Theorem.* Predictions, weights and penalties are public. A unit moves ‖c − p‖₁ by at most ‖c − c′‖₁ ≤ Δ₁ (triangle
    inequality; T, and 2T where it is replaced), so no score moves by more than max w·Δ₁. Gaps rise or fall with the
    prediction's side: one score may rise by that and another fall, so the scores are never monotone, and their spread
    is twice the bound. ∎ All of them are whole numbers, so which candidate is chosen depends on no rounding.
    """

    views: tuple[CellCounts, ...]
    predicted: tuple[Integers, ...]
    """The predictions for each view, in whole steps of the totals."""
    weights: tuple[int, ...]
    penalties: tuple[int, ...]

    def __post_init__(self) -> None:
        lengths = {len(candidates) for candidates in (self.views, self.predicted, self.weights, self.penalties)}
        if lengths != {max(1, len(self.views))}:
            given = ", ".join(
                f"{len(values)} {name}"
                for name, values in (
                    ("views", self.views),
                    ("predictions", self.predicted),
                    ("weights", self.weights),
                    ("penalties", self.penalties),
                )
            )
            raise InvalidParameter(
                "views",
                ValueWords(given),
                "a non-empty list, with one prediction, one weight and one penalty for each view",
                fix="give predicted, weights and penalties as many entries as views",
            )
        if [view.size for view in self.views] != [values.size for values in self.predicted]:
            raise InvalidParameter(
                "predicted",
                ValueWords("arrays of other lengths"),
                "a list with one array for each view, of the same length as the view",
            )
        wrong_types = [values.dtype for values in self.predicted if values.dtype != np.int64]
        if wrong_types:
            raise InvalidParameter(
                "predicted",
                ValueWords(f"an array of the type {wrong_types[0]}"),
                "a list of arrays of whole numbers, of the type int64",
                fix="round each array and convert it: numpy.rint(values).astype(numpy.int64)",
            )
        if any(type(weight) is not int or not 1 <= weight <= MAX_WEIGHT for weight in self.weights):
            raise InvalidParameter("weights", self.weights[:3], f"a list of whole numbers from 1 to {MAX_WEIGHT:,}")
        if any(type(penalty) is not int for penalty in self.penalties):
            raise InvalidParameter("penalties", self.penalties[:3], "a list of whole numbers")
        if any(view.reading != self.views[0].reading for view in self.views):
            raise InvalidParameter("views", ValueWords("views of different readings"), "a list of views of one reading")

    @property
    def bounded(self) -> BoundedPlan:
        return self.views[0].bounded

    @property
    def neighbours(self) -> Neighbours:
        return self.views[0].sensitivity.neighbours

    @property
    def sensitivity(self) -> Fraction:
        """The most that one unit moves any score."""
        largest_weights: dict[bool, int] = {}  # the sensitivity depends on whether there is more than one cell
        for view, weight in zip(self.views, self.weights, strict=True):
            largest_weights[view.size > 1] = max(weight, largest_weights.get(view.size > 1, 0))
        return max(
            weight * cells_sensitivity(self.bounded, 1 + has_several_cells).total
            for has_several_cells, weight in largest_weights.items()
        )

    @property
    def score_difference_bound(self) -> Fraction:
        """Bound how much further one unit can move one score up than another."""
        return 2 * self.sensitivity

    def extract(self, exact: Any) -> Integers:
        """Return the scores from the rows of the reading; one beyond ±2^62 is clamped, which moves no two apart."""
        candidates = zip(self.views, self.predicted, self.weights, self.penalties, strict=True)
        scores = [
            weight * (int(np.abs(view.extract(exact) - values).sum()) - penalty)
            for view, values, weight, penalty in candidates
        ]
        return np.array([max(-LARGEST_INTEGER, min(LARGEST_INTEGER, score)) for score in scores], np.int64)
