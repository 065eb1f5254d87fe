"""Cells of a column that are bought: bins by private quantiles, and groups of a text's many values.

Where the policy bounds an ordered column and gives it no bins, it has a public grid of fine cells, and a step of the
synthesis selects which of them are its quantiles. Where it lists more values of a text than a model can hold, a step
measures how often each occurs: values above a threshold of that noise keep cells of their own, and the others share
one, or one for each part of a level of theirs. What is measured afterwards are counts of these parts.

*Price.* Each column is bought for a share of the price that is fixed before, ``CELLS_SHARE`` of an even share of all
columns, whatever its rows are.

*Theorem.* The steps together keep the price. *Proof.* Which parts a column has follows from released numbers and the
policy, so given them a later step is a fixed function of the rows: each row is in one part, and counts of parts move by
what counts of cells do (``plan.readings.cell_rows``). The steps that choose the parts are releases like all others:
quantiles of a unit's T steps (``mechanisms.quantiles``), or noise in all counts of one column. Their costs and those of
later steps add up under full adaptivity (``budget``). ∎

*No failure depends on rows.* Every outcome gives a partition: an edge that is selected several times is a cell by
itself, and a table without rows gets bins at random and one group. If the synthesis is interrupted before, columns have
the parts that were planned: equal bins, or the values that are listed first.

*Rows drawn.* The model tells how many rows are in a part; which value they have in it is drawn evenly from the part's
public values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.mechanisms import Laplace
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, MergedCells, RanksOfCells
from sfumato.policy import Domain, Table, Type
from sfumato.policy.codings import Coding, parse_coding
from sfumato.policy.table_sources import is_on_server
from sfumato.publish.marginals.attributes import (
    Attribute,
    Attributes,
    Cell,
    GroupCell,
    ListedCell,
    OtherCell,
    RangeCell,
)
from sfumato.publish.synthesis.budget import Currency, sigma_or_scale
from sfumato.publish.synthesis.candidates import NoisyCells, Outcome, Step
from sfumato.publish.tab_steps import ChooseQuantileCellsStep, MeasureStep, QuantileCells
from sfumato.quick_dataclass import dataclass

CELLS_SHARE = Fraction(1, 10)
"""The share of an even share of the price that buys the cells of a column."""
MAX_BINS = 16
"""The most bins that are bought."""
MAX_SINGLE_VALUE_CELLS = 250
"""The most values of a text that keep a cell of their own."""
MANY_VALUES = 1_000
"""A text with more values than this is grouped."""
_MAX_GROUPS = 64
_MAX_FINE_CELLS, _MAX_SEARCHED_CELLS = 4096, 512
"""The most cells of a public grid: of whole numbers and days, found by division, and of others, by comparisons."""

Parts = NDArray[np.int32]
"""The part of each fine cell; the last cell, for missing values, is the last part."""


class PrivateCells(Protocol):
    """Fine cells of a column, and how a step joins them."""

    @property
    def fine(self) -> Attribute: ...

    @property
    def worst_case_parts(self) -> Parts:
        """As many parts as there may be, used before anything is released."""
        ...

    @property
    def words(self) -> str: ...

    def step(self, reading: CellRows, index: int, amount: Fraction, currency: Currency) -> tuple[Step, Fraction]:
        """Return the step that chooses the parts, and its cost, at most this amount."""
        ...

    def parts_from(self, step: Step, outcome: Outcome) -> Parts: ...

    def merge(self, parts: Parts) -> Attribute:
        """Return the column with these parts as cells."""
        ...


@dataclass(frozen=True)
class QuantileBins:
    """Bins of an ordered column with about equally many rows each."""

    fine: Attribute

    @property
    def words(self) -> str:
        return f"at most {MAX_BINS} bins by quantiles among {self.fine.size - 1:,} public cells"

    @property
    def worst_case_parts(self) -> Parts:
        cells = self.fine.size - 1
        return np.append(np.arange(cells) * MAX_BINS // cells, MAX_BINS).astype(np.int32)

    def step(
        self, reading: CellRows, attribute_index: int, amount: Fraction, currency: Currency
    ) -> tuple[Step, Fraction]:
        ranks = RanksOfCells(reading, attribute_index)
        quantiles = currency.quantiles(amount, ranks, [Fraction(index, MAX_BINS) for index in range(1, MAX_BINS)])
        return ChooseQuantileCellsStep(ranks, quantiles), currency.quantiles_cost(quantiles)

    def parts_from(self, step: Step, outcome: Outcome) -> Parts:
        """Start a bin at every selected cell, and after one that was selected several times: it holds many rows."""
        del step
        assert isinstance(outcome, QuantileCells)
        is_start = np.zeros(self.fine.size, bool)
        is_start[[0, self.fine.size - 1, *outcome.cells]] = True
        is_start[[cell + 1 for cell in outcome.cells if outcome.cells.count(cell) > 1]] = True
        return (np.cumsum(is_start) - 1).astype(np.int32)

    def merge(self, parts: Parts) -> Attribute:
        ends = [*np.flatnonzero(np.diff(parts))]
        ranges: list[Any] = [self.fine.cells[end] for end in ends]
        starts: list[Any] = [self.fine.cells[start] for start in [0, *(end + 1 for end in ends[:-1])]]
        merged = (RangeCell(low.low, high.high, high.closed) for low, high in zip(starts, ranges, strict=True))
        return replace(self.fine, cells=(*merged, OtherCell()))


@dataclass(frozen=True)
class ValueGroups:
    """A text of which frequent values have cells of their own, and the others share groups."""

    fine: Attribute
    groups: tuple[int, ...]
    """The group of each value, if it has no cell of its own: all in one, or the parts of a level."""

    @property
    def words(self) -> str:
        others = "one group" if max(self.groups) == 0 else f"{max(self.groups) + 1} groups"
        values = f"{self.fine.size - 1:,} values"
        return f"at most {MAX_SINGLE_VALUE_CELLS} of {values} above a noisy threshold, the others in {others}"

    @property
    def worst_case_parts(self) -> Parts:
        return self._parts_with(np.arange(MAX_SINGLE_VALUE_CELLS))

    def step(self, reading: CellRows, index: int, amount: Fraction, currency: Currency) -> tuple[Step, Fraction]:
        counts = CellCounts(reading, (index,))
        noise = currency.noise(amount, counts.sensitivity)
        return MeasureStep(counts, noise, NoisyCells.from_counts), currency.noise_cost(noise, counts.sensitivity)

    def parts_from(self, step: Step, outcome: Outcome) -> Parts:
        """Give cells to the most frequent values above what noise alone reaches in about one of all values."""
        assert isinstance(outcome, NoisyCells)
        assert isinstance(step, MeasureStep)
        counts, scale = outcome.counts[:-1], float(sigma_or_scale(step.noise))
        logarithm = math.log(counts.size)
        threshold = scale * (logarithm if isinstance(step.noise, Laplace) else math.sqrt(2 * logarithm))
        most_frequent = np.argsort(-counts, kind="stable")[:MAX_SINGLE_VALUE_CELLS]
        return self._parts_with(np.sort(most_frequent[counts[most_frequent] > threshold]))

    def _parts_with(self, single_value_cells: NDArray[np.intp]) -> Parts:
        keys = len(single_value_cells) + np.append(np.array(self.groups), max(self.groups) + 1)
        keys[single_value_cells] = np.arange(len(single_value_cells))
        return np.unique(keys, return_inverse=True)[1].astype(np.int32)

    def merge(self, parts: Parts) -> Attribute:
        values: dict[int, list[Any]] = {}
        for part, cell in zip(parts[:-1].tolist(), self.fine.cells[:-1], strict=True):
            assert isinstance(cell, ListedCell)
            values.setdefault(part, []).append(cell.value)
        cells: list[Cell] = [_value_cell(values[part]) for part in range(int(parts[-1]))]
        return replace(self.fine, cells=(*cells, OtherCell()))


def _value_cell(values: Sequence[Any]) -> Cell:
    return ListedCell(values[0]) if len(values) == 1 else GroupCell(tuple(values))


def fine_codings(table: Table) -> dict[str, Coding]:
    """Return the codings of a table, with a public grid for every bounded, ordered column that has no cells."""
    grids = {
        name: _fine_grid(domain)
        for name, domain in table.columns.items()
        if not table.is_coded(name)
        and domain.type not in (Type.TEXT, Type.BOOLEAN)
        and domain.bounds is not None
        and domain.bounds[0] != domain.bounds[1]
    }
    return {**table.codings, **grids}


def _fine_grid(domain: Domain) -> Coding:
    """Divide the bounds: whole numbers and days by one width, so that a division finds the cell."""
    assert domain.bounds is not None
    low, high = domain.bounds
    if domain.type not in (Type.INTEGER, Type.DATE):
        return parse_coding(domain, _MAX_SEARCHED_CELLS, None)
    steps: Any = high - low  # type: ignore[operator]
    span = (steps.days if domain.type is Type.DATE else steps) + 1
    width = -(-span // _MAX_FINE_CELLS)
    starts: list[Any] = [
        low + (timedelta(days=offset) if domain.type is Type.DATE else offset)  # type: ignore[operator]
        for offset in range(0, span, width)
    ]
    return Coding(tuple(starts), high)


def has_many_values(domain: Domain) -> bool:
    """Return whether a text has more values than a model has cells for."""
    return domain.type is Type.TEXT and domain.values is not None and len(domain.values) > MANY_VALUES


def plan_cells(table: Table, attributes: Attributes) -> CellPlan | None:
    """Plan the cells that are bought: of columns that the policy bins nowhere, and of texts with very many values."""
    cells: dict[int, PrivateCells] = {}
    for attribute_index, attribute in enumerate(attributes):
        fine = attribute.without_levels
        if not table.is_coded(attribute.name) and attribute.size - 1 > MAX_BINS:
            cells[attribute_index] = QuantileBins(fine)
        elif has_many_values(table.columns[attribute.name]):
            cells[attribute_index] = ValueGroups(fine, _level_groups(attribute))
    parts = {attribute_index: private.worst_case_parts for attribute_index, private in cells.items()}
    return CellPlan(cells, attributes, parts) if cells else None


def _level_groups(attribute: Attribute) -> tuple[int, ...]:
    """Return the parts of the finest level with few parts, or one for all values."""
    for level in attribute.levels:
        if len(set(level)) - 1 <= _MAX_GROUPS:
            return tuple(np.unique(level[:-1], return_inverse=True)[1].tolist())
    return (0,) * (attribute.size - 1)


def max_bought_cells(table: Table) -> dict[str, int]:
    """Return the columns whose cells are bought, and the most cells that each may have, with that of missing values."""
    if not buys_cells(table):
        return {}
    fine = {name: coding for name, coding in fine_codings(table).items() if not table.is_coded(name)}
    bins = {name: MAX_BINS + 1 for name, coding in fine.items() if len(coding.starts) > MAX_BINS}
    groups = MAX_SINGLE_VALUE_CELLS + _MAX_GROUPS + 1
    return bins | {name: groups for name, domain in table.columns.items() if has_many_values(domain)}


def buys_cells(table: Table) -> bool:
    """Return whether cells of a table are bought: a server would send the pairs of all fine cells, which describe
    nearly one row each.
    """
    return not table.public and not is_on_server(table.source)


def with_fine_cells(table: Table) -> Table:
    """Return a table with the public grids from which bins are bought."""
    return replace(table, codings=fine_codings(table)) if buys_cells(table) else table


@dataclass(frozen=True)
class ColumnOrigin:
    """Where the cells of a column of a SELECT come from; by default they are bought for it."""

    twin: str = ""
    """The column of the SELECT whose cells it has too."""
    is_given: bool = False
    """Whether an earlier release tells its cells."""


def plan_selected_cells(attributes: Attributes, origins: Mapping[str, ColumnOrigin]) -> CellPlan | None:
    """Plan the cells of the columns of a SELECT that are plain columns of tables; each is bought once."""
    index_by_name = {attribute.name: attribute_index for attribute_index, attribute in enumerate(attributes)}
    cells: dict[int, PrivateCells] = {}
    for name in origins:
        attribute = attributes[index_by_name[name]]
        fine, is_text = attribute.without_levels, attribute.type is Type.TEXT
        cells[index_by_name[name]] = ValueGroups(fine, _level_groups(attribute)) if is_text else QuantileBins(fine)
    twins = {index_by_name[name]: index_by_name[origin.twin] for name, origin in origins.items() if origin.twin}
    given = frozenset(index_by_name[name] for name, origin in origins.items() if origin.is_given)
    parts = {attribute_index: private.worst_case_parts for attribute_index, private in cells.items()}
    return CellPlan(cells, attributes, parts, twins, given) if cells else None


@dataclass(frozen=True, eq=False)
class CellPlan:
    """The columns whose cells are bought, and their parts as far as they are known.

    Parts are released once: a column that repeats another one's values, in the same table or in one that is modelled
    later, has the same parts. Which they are is a function of released numbers, so it costs nothing.
    """

    cells: Mapping[int, PrivateCells]
    fine: Attributes
    parts: Mapping[int, Parts]
    twins: Mapping[int, int] = field(default_factory=dict)
    """The columns that have the parts of another one."""
    given: frozenset[int] = frozenset()
    """The columns whose parts an earlier release tells."""

    @property
    def bought(self) -> dict[int, PrivateCells]:
        """The columns whose cells are bought with this model."""
        elsewhere = {*self.twins, *self.given}
        return {
            attribute_index: private
            for attribute_index, private in self.cells.items()
            if attribute_index not in elsewhere
        }

    @cached_property
    def attributes(self) -> Attributes:
        """All columns, with the parts as cells."""
        return tuple(
            self.cells[attribute_index].merge(self.parts[attribute_index])
            if attribute_index in self.cells
            else attribute.without_levels
            for attribute_index, attribute in enumerate(self.fine)
        )

    @cached_property
    def merged_cells(self) -> MergedCells:
        return MergedCells(tuple(self.parts.get(attribute_index) for attribute_index in range(len(self.fine))))

    def replace_parts(self, parts: Mapping[int, Parts]) -> CellPlan:
        """Return the plan with these parts, and the same for columns that repeat these."""
        repeated = {attribute_index: parts[twin] for attribute_index, twin in self.twins.items() if twin in parts}
        return replace(self, parts={**self.parts, **parts, **repeated})
