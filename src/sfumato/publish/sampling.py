"""Sample rows from a graphical model, clique by clique: given the parents' cells of a row, a clique adds new ones.

*Stratified sampling.* All rows with the same parent cells are stratified over the conditional distribution of the new
cells. With n such rows, row i takes the point (i + u)/n of the distribution function, u uniform in [0, 1) and drawn
anew for each: one row for each of n equal strata. Which row has which stratum is drawn anew for every clique and every
parent. So a single row follows the model's distribution, counts deviate from the model's less than those of
independent rows, and nothing links the strata of one clique to those of another: an order stratified across columns
looks better on marginals, but plants patterns in the rows that no model has.

*No impossible cell is drawn.* Let c be the distribution function within a parent, divided by its last value, so that
it ends in exactly 1. Rows of the parent that lie below the end of cell k are counted: all of the strata below n·c(k),
and the one it falls in if its point is below. A cell of weight 0 has the c of the cell before it, so the same count,
whatever the rounding, and no row. A parent that has rows although the clique's own table gives it no weight has no
conditional distribution: its rows take the marginal distribution of the clique's new cells.

The order of rows is random: every clique assigns its cells to rows in random order. Nothing is charged: sampling is
post-processing of what was released.

*Values.* Cells become rows with the types of the policy: every value lies in its cell, and no row is one that the
policy rules out. A listed cell is its value. In a bin, an integer or a day is uniform over all that the bin holds, a
real over the multiples of its grid, or over doubles if it has none, and a timestamp over whole seconds, or finer steps
if an edge of the column's bins has them. A value with a cell of its own (``spikes``) is never drawn from the bin around
it. The last cell is NULL. Reals are compared with edges as doubles, so a value is drawn where its double lies in the
bin: coding a sampled row again yields the cell it was drawn from.

*Impossible conditions.* Sampled rows meet no condition that the policy calls impossible. The model leaves out the cells
of which every row would meet one. A condition may also cut cells: then values are drawn again within the same cells,
for the offending rows only, a bounded number of times. What is left takes an end of its bins: a comparison of numbers
that excludes part of a bin spares one of its ends. A row with no possible value in its cells becomes a copy of another
row, and if every row meets some condition, the columns that the conditions read become NULL.

Conditions are evaluated as for cells (``cell_values``): a row is a cell of one value. What is uncertain, because no
double equals the value, counts as met: so rounding never lets an impossible row pass.

Repeatable bytes for drawing rows from a released model: a stream cipher keyed by the caller's seed.

*Privacy.* Rows are a function of the released model and of these bytes, neither of which depends on the private rows
once the model is released: post-processing (Dwork & Roth 2014, prop. 2.1), whatever the seed and whoever knows it.
Noise is another matter: whoever knew its seed could subtract it. No function that draws noise takes a source of bytes,
and this one is never installed anywhere: the sampler of rows gets it as an argument.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Collection, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Indices, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits
from sfumato.mechanisms.bits import ByteSource
from sfumato.plan.values.expressions import Expression
from sfumato.policy import Domain, Type
from sfumato.policy.domains import Value
from sfumato.publish.cells.answering import CellCondition, QueryableTable
from sfumato.publish.cells.cell_functions import ConditionColumn, evaluate_on_cells
from sfumato.publish.cells.cell_values import (
    CellOutcomes,
    CellTexts,
    PossibleTruths,
    ValueRanges,
    as_truths,
    level_labels,
)
from sfumato.publish.marginals.attributes import Attribute, GroupCell, ListedCell, OtherCell, RangeCell
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow


Codes = NDArray[np.int32]

MAX_AT_ONCE = 1 << 18
"""The rows that are stratified together: more are sampled in parts, which fit the processor's cache better."""
_MIN_RANDOM_BITS = 24
"""The least number of random bits by which the rows of one parent are ordered."""


class ConditionalDistribution(Protocol):
    """The distribution of some columns given others."""

    @property
    def new(self) -> tuple[int, ...]:
        """The indices of the columns that are drawn."""

    @property
    def given(self) -> tuple[int, ...]:
        """The indices of the columns that were drawn before."""

    @property
    def table(self) -> Floats:
        """The weights of all cells, with an axis for each given column and then for each new one."""


def sample_codes(
    conditionals: Sequence[ConditionalDistribution], rows: int, columns: int, source: ByteSource | None = None
) -> Codes:
    """Sample so many rows: the cell of each in every column, stored column by column."""
    codes = np.zeros((rows, columns), np.int32, order="F")
    extend_codes(conditionals, codes, source)
    return codes


def extend_codes(
    conditionals: Sequence[ConditionalDistribution], codes: Codes, source: ByteSource | None = None
) -> None:
    """Sample the new columns of all rows, in place, given the columns that are set already."""
    for conditional in conditionals:
        function = _cumulative_distribution(conditional)
        cells = _cells_of_new_columns(conditional)
        for start in range(0, len(codes), MAX_AT_ONCE):
            _draw_clique(conditional, function, cells, codes[start : start + MAX_AT_ONCE], source)


def _cells_of_new_columns(conditional: ConditionalDistribution) -> tuple[Codes, ...]:
    """Return the cell of each new column, for every combination of them."""
    sizes = conditional.table.shape[len(conditional.given) :]
    grid = np.unravel_index(np.arange(math.prod(sizes)), sizes) if sizes else ()
    return tuple(axis_cells.astype(np.int32) for axis_cells in grid)


def _draw_clique(
    conditional: ConditionalDistribution,
    function: Floats,
    cells: Sequence[Codes],
    codes: Codes,
    source: ByteSource | None,
) -> None:
    """Draw the new columns of a clique for all rows."""
    parents = _parent_index(codes, conditional.given, conditional.table.shape)
    if len(function) > len(codes):  # most parents have no row
        present_parents, parents = np.unique(parents, return_inverse=True)
        function = function[present_parents]
    order = _shuffle_within_parents(parents, len(function), source)
    counts = _stratified_counts(function, np.bincount(parents, minlength=len(function)), source)
    for attribute_index, column_cells in zip(conditional.new, cells, strict=True):
        codes[order, attribute_index] = np.repeat(np.tile(column_cells, len(function)), counts)


def _cumulative_distribution(conditional: ConditionalDistribution) -> Floats:
    """Return the distribution function of the new cells, one row for each parent."""
    table = np.asarray(conditional.table, np.float64)
    if not table.size or not np.isfinite(table).all() or (table < 0).any() or not (table > 0).any():
        raise InvalidParameter(
            "table", ValueWords("other weights"), "an array of weights ≥ 0, at least one of them above 0"
        )
    flat = table.reshape(math.prod(table.shape[: len(conditional.given)]), -1)
    largest = flat.max(axis=1, keepdims=True)
    scaled = flat / np.where(largest > 0, largest, 1.0)  # sums must neither underflow nor overflow
    if not largest.all():
        scaled[largest[:, 0] == 0] = (flat / largest.max()).sum(axis=0)
    cumulative = np.cumsum(scaled, axis=1)
    return np.asarray(cumulative / cumulative[:, -1:])


def _parent_index(codes: Codes, given: Sequence[int], shape: tuple[int, ...]) -> Integers:
    """Return the index of each row's combination of given cells."""
    parents = np.zeros(len(codes), np.int64)
    for axis, attribute_index in enumerate(given):
        parents *= shape[axis]
        parents += codes[:, attribute_index]
    return parents


def _shuffle_within_parents(parents: Integers, count: int, source: ByteSource | None = None) -> Integers:
    """Order rows by their parents, and those of one parent at random.

    One word holds the parent, random bits and the row, so sorting words sorts rows.
    """
    row_bits, parent_bits = (max(1, (size - 1).bit_length()) for size in (len(parents), count))
    assert row_bits + parent_bits + _MIN_RANDOM_BITS <= 64
    keys = bits.random_uint64(len(parents), source) >> np.uint64(parent_bits)
    keys &= ~np.uint64((1 << row_bits) - 1)
    keys |= np.arange(len(parents), dtype=np.uint64)
    keys |= parents.view(np.uint64) << np.uint64(64 - parent_bits)
    keys.sort()
    keys &= np.uint64((1 << row_bits) - 1)
    return keys.view(np.int64)


def _stratified_counts(function: Floats, sizes: Integers, source: ByteSource | None = None) -> Integers:
    """Return the number of rows of each cell of each parent: one for each stratum."""
    rows = int(sizes.sum())
    ends = function * sizes[:, None]
    whole = np.floor(ends)
    strata = whole.astype(np.int64) + (np.cumsum(sizes) - sizes)[:, None]
    points = bits.random_uint16(2 * rows, source).view(np.uint32)
    # an end that is also the end of a stratum leaves no fraction, so no point is below it
    strata += points[np.minimum(strata, rows - 1)] < (ends - whole) * 2.0**32
    return np.diff(strata.ravel(), prepend=0)


Values = NDArray[Any]

_EPOCH, _DAY_ONE = dt.datetime(1970, 1, 1), dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_RESOLUTIONS = (1_000_000, 1_000, 1)
"""Microseconds between sampled timestamps: the first resolution that all edges are multiples of."""
_MAX_STEP = 2**62
_EXACT_DOUBLES = 2**53


def arrow_schema(attributes: Sequence[Attribute]) -> pyarrow.Schema:
    """Return the Arrow schema of columns, with the types of the policy."""
    import pyarrow

    return pyarrow.schema([pyarrow.field(attribute.name, arrow_type(attribute.type)) for attribute in attributes])


def arrow_type(sql_type: Type) -> pyarrow.DataType:
    import pyarrow

    types = {
        Type.INTEGER: pyarrow.int64(),
        Type.REAL: pyarrow.float64(),
        Type.TEXT: pyarrow.string(),
        Type.BOOLEAN: pyarrow.bool_(),
        Type.DATE: pyarrow.date32(),
        Type.TIMESTAMP: pyarrow.timestamp("us"),
    }
    return types[sql_type]


@dataclass(frozen=True, eq=False)
class ColumnSampler:
    """A sampler for the values of one column: numbers, days or microseconds, and NaN or 0 for missing values.

    Texts, truths and listed values are not drawn: their cells determine them.
    """

    attribute: Attribute
    first_steps: Integers
    """The first step of each cell."""
    step_counts: Integers
    """The number of steps of each cell; 0 if its values are doubles without steps."""
    step: Fraction
    ends: Floats
    """The least and the greatest double of each cell; only for reals."""
    spikes: tuple[tuple[int, int], ...]
    """The cells in which a value is left out, and the step of that value."""

    @property
    def has_bins(self) -> bool:
        """Whether some cell holds more than one value."""
        return any(isinstance(cell, (RangeCell, GroupCell)) for cell in self.attribute.cells)

    @cached_property
    def texts(self) -> NDArray[Any]:
        """The texts of all cells in order, by which the values of a text are numbered; None for the last cell."""
        texts = [text for cell in self.attribute.cells for text in _cell_texts(cell)]
        return np.array(texts, dtype=object)

    @classmethod
    def for_attribute(cls, attribute: Attribute, domain: Domain) -> ColumnSampler:
        """Compute what each cell of a column holds."""
        step = _value_step(attribute, domain)
        step_ranges = (
            _text_ranges(attribute)
            if attribute.type is Type.TEXT
            else [_first_step_and_count(cell, attribute.type, step) for cell in attribute.cells]
        )
        spikes = tuple(_spikes_inside_bins(attribute, step))
        first = np.array([low for low, _ in step_ranges], np.int64)
        counts = np.array([min(count, 2 * _MAX_STEP - 1) for _, count in step_ranges], np.int64)
        for spiked_cell in {spiked_cell for spiked_cell, _ in spikes}:
            counts[spiked_cell] = (
                max(1, counts[spiked_cell] - sum(spike_cell == spiked_cell for spike_cell, _ in spikes))
                if counts[spiked_cell]
                else 0
            )
        ends = (
            np.array([_double_range(cell) for cell in attribute.cells]) if attribute.type is Type.REAL else np.zeros(0)
        )
        return cls(attribute, first, counts, step, ends, spikes)

    def sample(self, codes: Codes, source: ByteSource | None = None) -> Values:
        """Draw a value for each row, within its cell."""
        ranks = bits.random_below_limits(self.step_counts[codes], source)
        return self._values_of_steps(self._steps_of_ranks(ranks, codes), codes, source=source)

    def extremes(self, codes: Codes) -> tuple[Values, Values]:
        """Return the least and the greatest value that each row may have in its cell."""
        last = np.maximum(self.step_counts[codes] - 1, 0)
        first = np.zeros_like(last)
        return self._values_of_steps(self._steps_of_ranks(first, codes), codes, 0.0), self._values_of_steps(
            self._steps_of_ranks(last, codes), codes, 1.0
        )

    def middle_values(self, codes: Codes) -> Values:
        """Return one fixed value of each cell: that in its middle."""
        return self._values_of_steps(
            self._steps_of_ranks(np.maximum(self.step_counts[codes] // 2, 0), codes), codes, 0.5
        )

    def _steps_of_ranks(self, ranks: Integers, codes: Codes) -> Integers:
        """Return the step of each rank in its cell, skipping values with cells of their own."""
        steps = self.first_steps[codes] + ranks
        for cell, left_out in self.spikes:
            steps += (codes == cell) & (steps >= left_out)
        return steps

    def _values_of_steps(
        self, steps: Integers, codes: Codes, position_in_bin: float | None = None, source: ByteSource | None = None
    ) -> Values:
        kind = self.attribute.type
        if kind is Type.REAL:
            return self._reals_from_steps(steps, codes, position_in_bin, source)
        return steps * np.int64(int(self.step)) if kind is Type.TIMESTAMP else steps

    def _reals_from_steps(
        self, steps: Integers, codes: Codes, position_in_bin: float | None, source: ByteSource | None
    ) -> Floats:
        reals = _nearest_multiples(steps, self.step)
        is_continuous = self.step_counts[codes] == 0
        if is_continuous.any():
            low, high = self.ends[codes[is_continuous], 0], self.ends[codes[is_continuous], 1]
            position = (
                (bits.random_uint64(int(is_continuous.sum()), source) >> np.uint64(11)) * 2.0**-53
                if position_in_bin is None
                else position_in_bin
            )
            reals[is_continuous] = low + (high - low) * position
        reals = np.clip(reals, self.ends[codes, 0], self.ends[codes, 1])
        return self._avoid_spikes(reals, codes)

    def _avoid_spikes(self, reals: Floats, codes: Codes) -> Floats:
        """Move a double that happens to be a value with a cell of its own to an adjacent one."""
        is_continuous = (self.step_counts[codes] == 0) & (self.ends[codes, 0] < self.ends[codes, 1])
        for cell in self.attribute.cells[:-1]:
            if isinstance(cell, ListedCell) and self.spikes:
                is_spike = is_continuous & (reals == float(cell.value))  # type: ignore[arg-type]
                above = np.nextafter(reals, np.inf)
                adjacent = np.where(above <= self.ends[codes, 1], above, np.nextafter(reals, -np.inf))
                reals = np.where(is_spike, adjacent, reals)
        return reals


def _value_step(attribute: Attribute, domain: Domain) -> Fraction:
    """Return the distance between sampled values: in numbers, days or microseconds."""
    if attribute.type is Type.REAL:
        return domain.grid or Fraction(0)
    if attribute.type is not Type.TIMESTAMP:
        return Fraction(1)
    edges = [value_number(edge_value) for cell in attribute.cells for edge_value in _cell_edges(cell)]
    return Fraction(next(resolution for resolution in _RESOLUTIONS if not any(edge % resolution for edge in edges)))


def _cell_edges(cell: Any) -> tuple[Value, ...]:
    return (
        (cell.value,) if isinstance(cell, ListedCell) else (cell.low, cell.high) if isinstance(cell, RangeCell) else ()
    )


def value_number(value: Value) -> Any:
    """Convert a value to a number: of the day, or of the microsecond."""
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // _MICROSECOND
    return (value - _DAY_ONE).days if isinstance(value, dt.date) else value


def _first_step_and_count(cell: Any, sql_type: Type, step: Fraction) -> tuple[int, int]:
    """Return the first step of a cell and how many it holds; no steps if its values are not multiples of one."""
    if isinstance(cell, OtherCell) or sql_type is Type.BOOLEAN:
        return 0, 1
    if not step:
        return 0, 0
    if isinstance(cell, ListedCell):
        position = value_number(cell.value) / step
        return (int(position), 1) if position.denominator == 1 and abs(position) <= _MAX_STEP else (0, 0)
    low, high = math.ceil(value_number(cell.low) / step), math.floor(value_number(cell.high) / step)
    if not cell.closed:
        high = math.ceil(value_number(cell.high) / step) - 1
        if sql_type is Type.REAL and float(high * step) >= float(cell.high):
            high = math.floor(Fraction(math.nextafter(float(cell.high), -math.inf)) / step)
    fits = high >= low and max(abs(low), abs(high)) <= _MAX_STEP
    return (low, high - low + 1) if fits else (0, 0)


def _text_ranges(attribute: Attribute) -> list[tuple[int, int]]:
    """Return the number of the first text of each cell, and how many it has."""
    counts = [len(_cell_texts(cell)) for cell in attribute.cells]
    return list(zip(np.cumsum([0, *counts[:-1]]).tolist(), counts, strict=True))


def _cell_texts(cell: Any) -> tuple[Any, ...]:
    if isinstance(cell, GroupCell):
        return cell.values
    return (cell.value,) if isinstance(cell, ListedCell) else (None,)


class SpikeInBin(NamedTuple):
    """A value with a cell of its own, which a bin contains, too."""

    bin_index: int
    step: int


def _spikes_inside_bins(attribute: Attribute, step: Fraction) -> list[SpikeInBin]:
    """Return the values with cells of their own that bins contain, in increasing order."""
    if attribute.type in (Type.TEXT, Type.BOOLEAN):
        return []
    spikes = sorted(value_number(cell.value) for cell in attribute.cells if isinstance(cell, ListedCell))
    bins = [
        (cell_index, indexed_cell)
        for cell_index, indexed_cell in enumerate(attribute.cells)
        if isinstance(indexed_cell, RangeCell)
    ]
    spikes_in_bins = []
    for value in spikes if bins else ():
        for cell_index, cell_bin in bins:
            low, high = value_number(cell_bin.low), value_number(cell_bin.high)
            if low <= value < high or (cell_bin.closed and value == high):
                steps = value / step if step else Fraction(0)
                spikes_in_bins.append(SpikeInBin(cell_index, int(steps) if steps.denominator == 1 else _MAX_STEP * 2))
    return [spike for spike in spikes_in_bins if spike.step < _MAX_STEP * 2]


def _double_range(cell: Any) -> tuple[float, float]:
    """Return the least and the greatest double of a cell of reals."""
    if isinstance(cell, ListedCell):
        return float(cell.value), float(cell.value)  # type: ignore[arg-type]
    if not isinstance(cell, RangeCell):
        return 0.0, 0.0
    low, high = float(cell.low), float(cell.high)  # type: ignore[arg-type]
    return low, high if cell.closed else max(low, math.nextafter(high, -math.inf))


def _nearest_multiples(steps: Integers, step: Fraction) -> Floats:
    """Return the doubles nearest to multiples of a step."""
    numerator, denominator = step.numerator, step.denominator
    largest = int(np.abs(steps).max(initial=0)) * numerator
    if largest < _EXACT_DOUBLES and denominator < _EXACT_DOUBLES:
        return np.asarray((steps * numerator) / np.float64(denominator))
    return np.array([float(int(multiple) * step) for multiple in steps.tolist()], np.float64)


# ── rows ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Sampled rows: the cell of each row in every column, and the values of binned columns."""

    columns: tuple[ColumnSampler, ...]
    codes: Codes
    values: dict[int, Values]

    @classmethod
    def from_codes(
        cls, columns: Sequence[ColumnSampler], codes: Codes, source: ByteSource | None = None
    ) -> SampledRows:
        """Draw a value for every row in every binned column."""
        binned = [attribute_index for attribute_index, column in enumerate(columns) if column.has_bins]
        return cls(
            tuple(columns),
            codes,
            {
                attribute_index: columns[attribute_index].sample(codes[:, attribute_index], source)
                for attribute_index in binned
            },
        )

    def set_to_cell_middles(self, index: int, rows: NDArray[np.bool_]) -> None:
        """Set these rows of a column to the fixed middle value of their cell: another column decides it."""
        self.values[index][rows] = self.columns[index].middle_values(self.codes[rows, index])

    def missing_mask(self, index: int, rows: Any = slice(None)) -> NDArray[np.bool_]:
        """Return which rows have no value in a column."""
        return np.asarray(self.codes[rows, index] == self.columns[index].attribute.size - 1)

    def to_arrow(self) -> pyarrow.Table:
        """Return the rows as an Arrow table with the types of the policy."""
        import pyarrow

        arrays = [self._arrow_array(attribute_index) for attribute_index in range(len(self.columns))]
        return pyarrow.Table.from_arrays(arrays, schema=arrow_schema([column.attribute for column in self.columns]))

    def _text_numbers(self, index: int, rows: Any = slice(None)) -> Integers:
        """Return the number of each row's text; the last is that of missing ones."""
        last = len(self.columns[index].texts) - 1
        return np.where(self.missing_mask(index, rows), last, self.values[index][rows])

    def text_values(self, index: int, rows: Any) -> NDArray[Any]:
        """Return the texts of these rows, None for missing ones."""
        return np.asarray(self.columns[index].texts[self._text_numbers(index, rows)])

    def _arrow_array(self, index: int) -> pyarrow.Array:
        import pyarrow

        attribute = self.columns[index].attribute
        kind = arrow_type(attribute.type)
        if index not in self.values:
            cell_values = pyarrow.array([*map(_cell_value, attribute.cells[:-1]), None], kind)
            return cell_values.take(pyarrow.array(np.ascontiguousarray(self.codes[:, index])))
        values = self.values[index]
        if attribute.type is Type.TEXT:
            return pyarrow.array(self.columns[index].texts, kind).take(pyarrow.array(self._text_numbers(index)))
        if attribute.type is Type.DATE:
            values = values.astype(np.int32)
        return pyarrow.array(values, mask=self.missing_mask(index)).cast(kind)


def _cell_value(cell: Any) -> Any:
    return float(cell.value) if isinstance(cell.value, Fraction) else cell.value


_MAX_REDRAWS = 32
_MAX_END_COLUMNS = 6
"""The most columns of which the ends of bins are tried, in all combinations."""


def remove_impossible_rows(
    rows: SampledRows,
    conditions: Sequence[CellCondition],
    face: QueryableTable,
    fixed_columns: Collection[int] = (),
    source: ByteSource | None = None,
) -> None:
    """Redraw values, and replace whole rows if no value will do, until no row meets a condition; values of
    ``fixed_columns`` change only with whole rows.
    """
    if not conditions:
        return
    read_columns = sorted({attribute_index for condition in conditions for attribute_index in condition.axes})
    binned = [
        attribute_index
        for attribute_index in read_columns
        if attribute_index in rows.values and attribute_index not in fixed_columns
    ]
    offending = possibly_impossible_rows(rows, conditions, face, np.arange(len(rows.codes)))
    for _ in range(_MAX_REDRAWS):
        if not offending.size:
            return
        for attribute_index in binned:
            rows.values[attribute_index][offending] = rows.columns[attribute_index].sample(
                rows.codes[offending, attribute_index], source
            )
        offending = possibly_impossible_rows(rows, conditions, face, offending)
    for ends in product((0, 1), repeat=min(len(binned), _MAX_END_COLUMNS)):
        if not offending.size:
            return
        for attribute_index, end in zip(binned, ends, strict=False):
            rows.values[attribute_index][offending] = rows.columns[attribute_index].extremes(
                rows.codes[offending, attribute_index]
            )[end]
        offending = possibly_impossible_rows(rows, conditions, face, offending)
    if offending.size:
        _replace_rows(rows, offending, read_columns, source)


def _replace_rows(
    rows: SampledRows, offending: Indices, read_columns: Sequence[int], source: ByteSource | None
) -> None:
    """Replace rows by copies of others; if there are none, set the columns that conditions read to NULL."""
    valid = np.setdiff1d(np.arange(len(rows.codes)), offending)
    if not valid.size:
        for attribute_index in read_columns:
            rows.codes[offending, attribute_index] = rows.columns[attribute_index].attribute.size - 1
        return
    donors = valid[bits.random_array_below(valid.size, offending.size, source)]
    rows.codes[offending] = rows.codes[donors]
    for values in rows.values.values():
        values[offending] = values[donors]


def possibly_impossible_rows(
    rows: SampledRows, impossible_conditions: Sequence[CellCondition], table: QueryableTable, row_indices: Indices
) -> Indices:
    """Return the rows, among these, that may meet one of the conditions."""
    meets = np.zeros(row_indices.size, bool)
    for condition in impossible_conditions:
        possible = np.flatnonzero(
            condition.truths.true[tuple(rows.codes[row_indices, attribute_index] for attribute_index in condition.axes)]
        )
        if possible.size:
            meets[possible] |= row_truths(rows, condition, table, row_indices[possible]).true
    return row_indices[meets]


def row_truths(
    rows: SampledRows, condition: CellCondition, table: QueryableTable, row_index: Indices
) -> PossibleTruths:
    """Return what a condition may be in each of these rows; a row whose value no double equals may be several."""
    truths = as_truths(evaluate_rows(rows, condition.expression, condition.columns, table, row_index))
    true, false, null = (
        np.broadcast_to(outcome, (row_index.size,)) for outcome in (truths.true, truths.false, truths.null)
    )
    return PossibleTruths(true, false, null)


def evaluate_rows(
    rows: SampledRows,
    expression: Expression,
    columns: Sequence[ConditionColumn],
    table: QueryableTable,
    row_index: Indices,
) -> CellOutcomes:
    """Evaluate an expression on rows: each is a cell of one value."""
    column_cells = {
        reference: row_outcomes(rows, table, row_index, attribute_index, level)
        for reference, attribute_index, level in columns
    }
    return evaluate_on_cells(expression, column_cells, 1)


def row_outcomes(
    rows: SampledRows, table: QueryableTable, row_index: Indices, attribute_index: int, level: int | None
) -> CellOutcomes:
    """Return what a column is in each row."""
    attribute, codes = table.attributes[attribute_index], rows.codes[row_index, attribute_index]
    if level is not None:
        labels: NDArray[Any] = np.empty(attribute.size, dtype=object)
        labels[:] = level_labels(attribute, level)
        return CellTexts(labels[codes], np.zeros(codes.size, bool))
    cells = table.outcomes_by_attribute[attribute_index]
    if attribute_index not in rows.values:
        fields = (getattr(cells, name)[codes] for name in cells.__dataclass_fields__)
        row_cells = type(cells)(*fields)
        return (
            row_cells
            if isinstance(row_cells, (CellTexts, PossibleTruths))
            else _null_where_missing(row_cells, rows.missing_mask(attribute_index, row_index))
        )
    if attribute.type is Type.TEXT:
        return CellTexts(rows.text_values(attribute_index, row_index), np.zeros(codes.size, bool))
    return _number_spans(
        rows.values[attribute_index][row_index], rows.missing_mask(attribute_index, row_index), attribute.type
    )


def _null_where_missing(numbers: ValueRanges, missing: NDArray[np.bool_]) -> ValueRanges:
    return ValueRanges(
        np.where(missing, np.nan, numbers.low), np.where(missing, np.nan, numbers.high), ~missing, missing
    )


def _number_spans(values: Any, missing: NDArray[np.bool_], sql_type: Type) -> ValueRanges:
    """Return numbers as the doubles around them: both equal the number, unless no double does."""
    low = high = values.astype(np.float64)
    if sql_type is not Type.REAL:
        inexact = low.astype(np.int64) != values
        low = np.where(inexact, np.nextafter(low, -np.inf), low)
        high = np.where(inexact, np.nextafter(high, np.inf), high)
    return _null_where_missing(ValueRanges(low, high, ~missing, missing), missing)


_MAX_SEED = (1 << 64) - 1


def seeded_bytes(seed: object) -> ByteSource:
    """Return a source of bytes that starts anew with each call: AES-256-CTR under a key derived from the seed.

    >>> seeded_bytes(7)(4) == seeded_bytes(7)(4), seeded_bytes(7)(4) == seeded_bytes(8)(4)
    (True, False)
    """
    if type(seed) is not int or not 0 <= seed <= _MAX_SEED:
        fix = "write for example seed=7, or leave out seed for rows that nobody can draw again"
        raise InvalidParameter("seed", seed, "a whole number from 0 to 2^64 − 1", fix=fix)
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = hashlib.sha256(b"sfumato: rows drawn from a released model, seed %d" % seed).digest()
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return lambda count: bytes(encryptor.update(bytes(count)))
