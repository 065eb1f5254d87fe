"""A question in SQL is answered from a synopsis: no row is read, and nothing is charged.

It is read by the curator's own parser, so it means what it means there, and finished by the same functions. Every
condition, value and key is evaluated on cells (``cell_functions``); each measure is then a total of weights over the
cells of the attributes it reads (``bounds``). A number is *measured* where those attributes are together in what was
measured and no cell is cut: unbiased, with an exact range. It is *bounded* elsewhere: the range holds the truth, and
the number inside is a model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Count,
    GroupEstimate,
    Mean,
    Ratio,
    Sum,
    present,
    value_range,
)
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.nodes import Filter, GroupKey, Query, Relation, Scan
from sfumato.plan.sql import statements
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.values.expressions import Column, Expression, Field, Reference, Result, columns
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type
from sfumato.policy.domains import MOST_LETTERS
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, text as written
from sfumato.publish.cells.cell_functions import evaluate
from sfumato.publish.cells.cell_values import Bools, Cells, PossibleTruths, Spans, Texts, cells_of, spans, truths
from sfumato.publish.cells.groups import Codes, Groups, grouped, key_cells
from sfumato.publish.marginals.attributes import MOST_CELLS, Attribute, Attributes, Cell, ListedCell, RangeCell
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.bounds import BoundedTotals, CellWeights, bounded
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.release.answers.answer import BOUGHT, BOUNDED, HYPOTHESIS, MEASURED, UNVERIFIED, Answer, answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.noisy_rows.finishing import finish
from sfumato.release.noisy_rows.key_functions import AnswerRows, parted

_MOST_WORK = 10**8
_NAMED = 5
_WEAKER = (MEASURED, BOUGHT, HYPOTHESIS, BOUNDED, UNVERIFIED)
"""What numbers rest on; one that is made of several rests on the last of theirs."""
DECIDED = -1
"""The level of a column that another one decides."""

N = TypeVar("N", np.float64, np.int64)


@dataclass(frozen=True, eq=False)
class Face:
    """This is a synopsis as questions see it: a table with coded columns, and what is known of their marginals."""

    table: str
    attributes: Attributes
    domains: tuple[Domain, ...]
    known: SynopsisEstimates
    receipt: Receipt
    where: str = ""
    decided: Mapping[str, tuple[int, tuple[str | None, ...]]] = field(default_factory=dict)
    """Columns that another one decides: its place, and the text that goes with each of its cells."""

    @cached_property
    def catalog(self) -> Catalog:
        """Give what a question may name: columns, and the levels that join their cells."""
        named = {each.name: domain for each, domain in zip(self.attributes, self.domains, strict=True)}
        for name, (place, level) in self.level_columns.items():
            labels = tuple(dict.fromkeys(filter(None, self._labels(place, level))))
            named[name] = Domain(Type.TEXT, values=labels, nullable=self.domains[place].nullable)
        for name, (place, texts) in self.decided.items():
            values = tuple(dict.fromkeys(filter(None, texts)))
            named[name] = Domain(Type.TEXT, values=values, nullable=self.domains[place].nullable)
        return Catalog({self.table: Described(self.table, named, public=False)}, _no_joins)

    def _labels(self, place: int, level: int) -> list[str | None]:
        return part_labels(self.attributes[place], level)

    @cached_property
    def cells(self) -> tuple[Cells, ...]:
        """Say of every attribute what its column can be in each of its cells."""
        return tuple(cells_of(*each) for each in zip(self.attributes, self.domains, strict=True))

    @cached_property
    def level_columns(self) -> Mapping[str, tuple[int, int]]:
        """Give the columns that stand for levels, from fine to coarse: code_level_1, code_level_2; but for names that
        are taken, and parts that have very long ones.
        """
        taken = {each.name.lower() for each in self.attributes}
        found = {
            f"{each.name}_level_{level}": (place, level - 1)
            for place, each in enumerate(self.attributes)
            for level in range(1, len(each.levels) + 1)
        }
        longest = {name: max(map(len, filter(None, self._labels(*at))), default=0) for name, at in found.items()}
        return {name: at for name, at in found.items() if name.lower() not in taken and longest[name] <= MOST_LETTERS}


def _no_joins(table: str, *_: object) -> int:
    raise Unsupported("join", f"a synopsis holds one table, and not {table}", fix="ask about its own columns")


def part_labels(attribute: Attribute, level: int) -> list[str | None]:
    """Name the part of every cell at a level as the policy does, or by its first and its last cell; None for what is
    missing.
    """
    parts = attribute.levels[level]
    if attribute.labels and attribute.labels[level]:
        return [*(attribute.labels[level][part] for part in parts[:-1]), None]
    members: dict[int, list[Cell]] = {}
    for part, cell in zip(parts[:-1], attribute.cells[:-1], strict=True):
        members.setdefault(part, []).append(cell)
    names = {part: _part_name(cells) for part, cells in members.items()}
    return [*(names[part] for part in parts[:-1]), None]


def _part_name(cells: list[Cell]) -> str:
    bins = [each for each in cells if isinstance(each, RangeCell)]
    if bins:  # a value with a cell of its own is joined to the bin that it lies in
        return cell_name(RangeCell(bins[0].low, bins[-1].high, bins[-1].closed))
    first, last = cells[0], cells[-1]
    return cell_name(first) if len(cells) == 1 else f"{cell_name(first)} … {cell_name(last)}"


def cell_name(cell: Cell) -> str:
    """Name a cell in words."""
    if isinstance(cell, ListedCell):
        return _shown(cell.value)
    if isinstance(cell, RangeCell):
        return f"{_shown(cell.low)} to {'' if cell.closed else 'below '}{_shown(cell.high)}"
    return "missing or in no bin"


def _shown(value: object) -> str:
    return written(value) if isinstance(value, Fraction) else str(value)


def ask(
    face: Face,
    text: object,
    parameters: Parameters | None = None,
    *,
    confidence: Number = "0.95",
    together: bool = False,
    settle: Settle | None = None,
) -> Answer:
    """Answer a question in SQL; what it cannot answer is refused, with a reason."""
    query = statements.parse(text, face.catalog, parameters)
    return answered(face, query, str(text), confidence=confidence, together=together, settle=settle)


def answered(
    face: Face,
    query: Query,
    text: str,
    *,
    confidence: Number = "0.95",
    together: bool = False,
    settle: Settle | None = None,
    groups: Callable[[], Sequence[GroupKey]] | None = None,
) -> Answer:
    """Answer a question that was parsed, here or with the catalog of a curator, of which a face has some columns.

    Where ``groups`` says which there are elsewhere, a question that would have others here is refused.
    """
    sure = exact(confidence, "confidence", CONFIDENCE)
    _check_finish(query)
    asking = _Asking(face, query, _conditions(query.plan.source), 1 - float(sure))
    if groups is not None:
        asking.check_groups(groups())
    if settle is not None:
        asking.settle(settle)
    finished = finish(query, asking.rows, asking.estimates, joint=together)
    receipt = replace(face.receipt, question=text, free=True, confidence=written(sure), joint=together)
    basis = asking.basis(finished.shown.tolist())
    made = answer(query, finished, receipt, tuple(asking.notes()))
    return replace(made, basis={name: each for name, each in basis.items() if name in made.intervals})


def check_same_meaning(face: Face, query: Query) -> None:
    """Refuse a curator's question that would mean something else here: it reads columns that were not published, or
    groups by one of which only bins were.

    A level of a published column may be called what another column of the table is.
    """
    plan = query.plan
    if plan.table.lower() != face.table.lower():
        rule = f"a synopsis holds one table, {face.table}, and not {plan.table}"
        raise Unsupported("other-table", rule, fix=f"ask about {face.table}")
    check_columns({each.name for each in face.attributes}, columns_read(query))
    binned = {each.name for each in face.attributes if each.binned}
    for key in plan.keys:
        if isinstance(key, Column) and isinstance(key.reference, Field) and key.reference.name in binned:
            rule = f"it knows bins of {key.reference.name}, and the question groups by its values"
            raise Unsupported("binned-key", rule, fix="ask the synopsis itself, which groups by bins: synopsis.sql")


def columns_read(query: Query) -> frozenset[str]:
    """List the columns of the table that a question reads; refuses rows that are not the table's own."""
    plan = query.plan
    asked = [each.value for each in plan.measures if each.value is not None]
    tests = [each.where for each in plan.measures if each.where is not None]
    read = (*_conditions(plan.source), *plan.keys, *asked, *tests)
    return frozenset(one.name for each in read for one in columns(each))  # type: ignore[union-attr]


def check_columns(known: Collection[str], named: Collection[str]) -> None:
    """Refuse a question that reads columns which were not published."""
    missing = sorted({*named} - {*known})
    if missing:
        rule = f"it knows the columns that were published, and not {', '.join(missing)}"
        raise Unsupported("unpublished-column", rule, fix="publish them together with the others")


@dataclass(frozen=True, eq=False)
class Condition:
    """This is a condition on one row: the attributes it reads, and what it may be in each combination of cells."""

    expression: Expression
    axes: Set
    truths: PossibleTruths
    columns: tuple[tuple[Reference, int, int | None], ...]
    """The columns that it names: the place of each, and its level where it is one."""

    @property
    def surely(self) -> Bools:
        """Tell of which cells every row meets it."""
        return np.asarray(self.truths.true & ~self.truths.false & ~self.truths.null)


def condition(face: Face, text: str) -> Condition:
    """Read a condition and evaluate it on cells."""
    query = statements.parse(f"SELECT COUNT(*) FILTER (WHERE {text}) FROM {quoted(face.table)}", face.catalog)
    (measure,) = query.plan.measures
    assert measure.where is not None
    asking = _Asking(face, replace(query, plan=replace(query.plan, measures=())), (), 0.05)
    axes = asking.checked(asking.used([measure.where]))
    sizes = asking.sizes(axes)
    found = truths(asking.cells(measure.where, axes))
    whole = PossibleTruths(*(np.broadcast_to(each, sizes) for each in (found.true, found.false, found.null)))
    return Condition(measure.where, axes, whole, asking.named(measure.where))


def surely(face: Face, text: str) -> tuple[Set, Bools]:
    """Find the cells of which every row meets a condition, and the attributes it reads."""
    found = condition(face, text)
    return found.axes, found.surely


def _check_finish(query: Query) -> None:
    if parted(query)[1]:
        rule = "functions of keys are not computed in an answer from a synopsis"
        raise Unsupported("key-functions", rule, fix="group by what the function makes")


def _conditions(relation: Relation) -> tuple[Expression, ...]:
    """List the conditions of rows; anything but rows of the table and conditions is refused."""
    found = []
    while isinstance(relation, Filter):
        found.append(relation.predicate)
        relation = relation.input
    if not isinstance(relation, Scan):
        rule = "a synopsis knows how many rows are in each cell, not whose they are or what is beside them"
        raise Unsupported("rows-only", rule, fix="ask about one row at a time: WHERE, GROUP BY and FILTER")
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Quantity:
    """This is a total for each group on the grid."""

    totals: tuple[BoundedTotals, ...]
    """One for each group of joined cells."""
    axes: Set
    groups: Groups
    weights: tuple[CellWeights, ...]
    """What the totals count, in their order."""

    def of(self, table: NDArray[N]) -> NDArray[N]:
        """Add up a table over the axes, group by group, by the least weights."""
        added = tuple(axis for axis, place in enumerate(self.axes) if place not in self.groups.axes)
        return self._grid([(table * each.low.astype(table.dtype)).sum(added, keepdims=True) for each in self.weights])

    def spread(self, each: Floats) -> Floats:
        """Give a table over the axes: in every cell its weights times the numbers of its groups, added up."""
        grid = np.zeros(self.groups.shape)
        grid.ravel()[self.groups.places] = each
        parts = (one.low * grid[..., index].reshape(self._keyed) for index, one in enumerate(self.weights))
        return np.asarray(sum(parts, start=np.zeros((1,) * len(self.axes))))

    @property
    def cut(self) -> bool:
        """Tell whether rows of some cell count differently."""
        return any(bool(each.cut.any()) for each in self.weights)

    @property
    def _keyed(self) -> tuple[int, ...]:
        """Count the cells along each key axis, and 1 along the others."""
        known = dict(zip(self.groups.axes, self.groups.sizes, strict=True))
        return tuple(known.get(place, 1) for place in self.axes)

    def _grid(self, each: Sequence[NDArray[N]]) -> NDArray[N]:
        """Put totals on the grid of groups, and take those that are shown."""
        kept = [axis for axis, place in enumerate(self.axes) if place in self.groups.axes]
        flat = [
            np.broadcast_to(found.reshape([found.shape[axis] for axis in kept]), self.groups.sizes)
            for found in (np.broadcast_to(one, np.broadcast_shapes(one.shape, (1,) * len(self.axes))) for one in each)
        ]
        return np.stack(flat, axis=-1).ravel()[self.groups.places]

    def range(self, beta: float, cells: int) -> tuple[Floats, Floats, Floats]:
        """Give numbers and their ends, which hold for so many totals at once."""
        ends = [each.range(beta, cells) for each in self.totals]
        values = [each.estimate(*end) for each, end in zip(self.totals, ends, strict=True)]
        return self._grid(values), self._grid([low for low, _ in ends]), self._grid([high for _, high in ends])

    @property
    def measured(self) -> Bools:
        return self._grid([each.measured.astype(float) for each in self.totals]) > 0

    @property
    def words(self) -> Codes:
        """Say what each total rests on, by its place among the bases."""
        return np.where(self.measured, _WEAKER.index(MEASURED), _WEAKER.index(BOUNDED))


@dataclass(frozen=True, eq=False)
class SettledTotals:
    """These are the totals of all groups of a question, as something else than the synopsis knows them."""

    values: Floats
    ranged: Callable[[float, int], tuple[Floats, Floats]]
    """Gives their ends at a chance to miss, for so many noises at once,"""
    basis: str
    """and this is what they rest on."""

    def range(self, beta: float, cells: int) -> tuple[Floats, Floats, Floats]:
        """Give the numbers, none outside of its ends."""
        low, high = self.ranged(beta, cells)
        return np.clip(self.values, low, high), low, high

    @property
    def words(self) -> Codes:
        """Say what each total rests on, by its place among the bases."""
        return np.full(len(self.values), _WEAKER.index(self.basis))


Settle = Callable[[tuple[Quantity, ...], float], tuple[SettledTotals, ...] | None]
"""Finds the totals that one measure is made of, where the synopsis can only bound them; None leaves them as they are.
The number is its part of all totals of the question: of a chance to miss that all share, it has no more.
"""


class _Asking:
    """This answers one question: it finds groups, and what is asked of each."""

    def __init__(self, face: Face, query: Query, conditions: tuple[Expression, ...], beta: float) -> None:
        self.face, self.query, self.conditions, self.beta = face, query, conditions, beta
        self.places: dict[str, int] = {each.name.lower(): place for place, each in enumerate(face.attributes)}
        self.cuts: dict[int, set[int]] = {}
        self.outside: set[Set] = set()
        self.decided: set[str] = set()
        self._estimates: dict[int, list[GroupEstimate]] = {}
        sets = query.finish.sets or (tuple(range(len(query.plan.keys))),)
        self.groupings = [self._groups(each) for each in sets]
        self.quantities: list[list[tuple[Quantity | SettledTotals, ...]]] = [
            [self._quantities(measure, *each) for each in zip(self.groupings, map(self._shown, sets), strict=True)]
            for measure in query.plan.measures
        ]

    def settle(self, settle: Settle) -> None:
        """Let measures be settled that the synopsis only bounds, unless rows of one cell count differently."""
        every = sum(len(own) for found in self.quantities for own in found)
        for found in self.quantities:
            for place, own in enumerate(found):
                asked = tuple(each for each in own if isinstance(each, Quantity))
                if all(each.measured.all() for each in asked) or any(each.cut for each in asked):
                    continue
                settled = settle(asked, len(asked) / every)
                found[place] = own if settled is None else settled
        left = (each for found in self.quantities for own in found for each in own if isinstance(each, Quantity))
        self.outside &= {each.axes for each in left}

    # Cells

    def used(self, expressions: Iterable[Expression]) -> Set:
        """List the attributes that expressions read."""
        named = {reference for each in expressions for reference in columns(each)}
        return tuple(sorted({self._place(each)[0] for each in named}))

    def named(self, expression: Expression) -> tuple[tuple[Reference, int, int | None], ...]:
        """List the columns that an expression names, each with its attribute and level."""
        return tuple((each, *self._place(each)) for each in columns(expression))

    def _place(self, reference: Reference) -> tuple[int, int | None]:
        """Find the attribute that a column is, and the level of it."""
        assert isinstance(reference, Field)
        if reference.name in self.face.decided:
            self.decided.add(reference.name)
            return self.face.decided[reference.name][0], DECIDED
        levels = self.face.level_columns
        if reference.name in levels:
            return levels[reference.name]
        return self.places[reference.name.lower()], None

    def cells(self, expression: Expression, axes: Set) -> Cells:
        """Say what an expression can be, along these axes."""
        known = {each: self._column(each, axes) for each in columns(expression)}
        return evaluate(expression, known, len(axes))

    def _column(self, reference: Reference, axes: Set) -> Cells:
        place, level = self._place(reference)
        attribute = self.face.attributes[place]
        if level is None:
            found = self.face.cells[place]
        else:
            labels = np.empty(attribute.size, dtype=object)
            decided = isinstance(reference, Field) and level == DECIDED
            labels[:] = self.face.decided[reference.name][1] if decided else part_labels(attribute, level)  # type: ignore[union-attr]
            # what is missing or not listed decides nothing: such rows may have any value of the decided column
            found = Texts(labels, (np.arange(attribute.size) == attribute.size - 1) & decided)
        shape = tuple(attribute.size if each == place else 1 for each in axes)
        return type(found)(*(getattr(found, name).reshape(shape) for name in found.__dataclass_fields__))

    # Groups

    def _groups(self, members: Sequence[int]) -> Groups:
        keys = [self.query.plan.keys[index] for index in members]
        found = []
        for key in keys:
            axes = self.used([key])
            column = isinstance(key, Column) and self._place(key.reference)
            plain = self.face.attributes[axes[0]] if column and column[1] is None else None
            found.append(key_cells(key, axes, self.cells(key, axes), plain))
        groups = grouped(found, self.face.attributes)
        return self._possible(groups)

    def check_groups(self, wanted: Sequence[GroupKey]) -> None:
        """Refuse a question whose groups are others elsewhere."""
        width = len(self.query.plan.keys)
        sets = self.query.finish.sets or (tuple(range(width)),)
        for members, found in zip(sets, self.groupings, strict=True):
            if len(members) == width and {*found.keys} != {*wanted}:
                rule = "its cells do not make the groups of the question"
                raise Unsupported("other-groups", rule, fix="group by columns whose values are listed")

    def _possible(self, groups: Groups) -> Groups:
        """Leave out groups that the conditions leave no cell of, as the curator does."""
        read = self.used(self.conditions)
        if not set(read) & {*groups.axes, *groups.joined}:
            return groups
        axes = self.checked(tuple(sorted({*read, *groups.axes, *groups.joined})))
        kept = np.broadcast_to(self._condition(self.conditions, axes).true, self.sizes(axes))
        added = tuple(axis for axis, place in enumerate(axes) if place not in groups.axes)
        masks = [kept & self._member(groups, axes, index) for index in range(groups.count)]
        grid = np.stack([each.any(added) for each in masks], axis=-1).ravel()
        shown = [index for index, place in enumerate(groups.places.tolist()) if grid[place]]
        if not shown:
            rule = "the conditions leave no group: no row can meet them"
            raise Unsupported("no-groups", rule, fix="widen WHERE, or what the policy declares")
        return replace(groups, keys=tuple(groups.keys[index] for index in shown), places=groups.places[shown])

    def _member(self, groups: Groups, axes: Set, index: int) -> Bools:
        """Tell which cells are in a group of joined cells."""
        if not groups.joined:
            return np.ones((1,) * len(axes), bool)
        shape = tuple(self.face.attributes[place].size if place in groups.joined else 1 for place in axes)
        return groups.member(index).reshape(shape)

    def sizes(self, axes: Set) -> tuple[int, ...]:
        return tuple(self.face.attributes[place].size for place in axes)

    def checked(self, axes: Set, times: int = 1) -> Set:
        """Refuse to look at more cells together than can be held."""
        cells = math.prod(self.sizes(axes))
        if cells > MOST_CELLS or cells * times > _MOST_WORK:
            largest = sorted(axes, key=lambda place: -self.face.attributes[place].size)[:3]
            names = ", ".join(self.face.attributes[place].name for place in largest)
            rule = f"a question reads at most {MOST_CELLS:,} cells of a synopsis; this reads {cells * times:,}"
            raise Unsupported("too-many-cells", rule, fix=f"leave out a column: {names} have the most cells")
        return axes

    # Measures

    def _condition(self, conditions: Iterable[Expression], axes: Set) -> PossibleTruths:
        """Say which cells may have rows that count, and which may have rows that do not."""
        shape = (1,) * len(axes)
        true, other = np.ones(shape, bool), np.zeros(shape, bool)
        for each in conditions:
            found = truths(self.cells(each, axes))
            true, other = true & found.true, other | found.false | found.null
        return PossibleTruths(true, other, np.zeros(shape, bool))

    def _shown(self, members: Sequence[int]) -> list[Expression]:
        """Subtotals are sums of groups that are shown: a key that is summed over is there, or may be missing."""
        keys = self.query.plan.keys
        return [present(key) for index, key in enumerate(keys) if index not in members and not key.domain.nullable]

    def _quantities(
        self, measure: AggregateRequest, groups: Groups, shown: Sequence[Expression]
    ) -> tuple[Quantity, ...]:
        """Find the totals that a measure is made of: one, or two for a mean."""
        if type(measure) not in (Count, Sum, Mean):
            rule = f"a synopsis knows how many rows are in each cell: {measure.name} cannot be found from that"
            raise Unsupported("aggregate", rule, fix="ask for COUNT, SUM or AVG, with FILTER (WHERE …)")
        conditions = [*self.conditions, *shown, *([] if measure.where is None else [measure.where])]
        values = [] if measure.value is None else [measure.value]
        axes = tuple(sorted({*self.used([*conditions, *values]), *groups.axes, *groups.joined}))
        self.checked(axes, groups.count)
        counted = self._condition(conditions, axes)
        made = [_counting(counted)] if measure.value is None else self._adding(measure, counted, axes)
        self._note(made, axes)
        return tuple(self._quantity(each, axes, groups) for each in made)

    def _adding(self, measure: AggregateRequest, counted: PossibleTruths, axes: Set) -> list[CellWeights]:
        assert measure.value is not None
        value = spans(self.cells(measure.value, axes))
        if isinstance(measure, Mean):
            low, high = map(float, value_range(measure.value))
            above = Spans(value.low - low, value.high - low, value.there, value.null)
            below = Spans(high - value.high, high - value.low, value.there, value.null)
            return [_weights(counted, each, (0.0, high - low)) for each in (above, below)]
        least, most = map(float, value_range(measure.value))
        return [_weights(counted, value, (least, most))]

    def _quantity(self, weights: CellWeights, axes: Set, groups: Groups) -> Quantity:
        parts = [weights]
        if groups.joined:
            parts = [weights.masked(self._member(groups, axes, index)) for index in range(groups.count)]
        if groups.open is not None:
            loose = groups.open.reshape([-1 if place in groups.joined else 1 for place in axes])
            parts = [each.loosened(loose) for each in parts]
        totals = tuple(bounded(self.face.known, each, axes, groups.axes) for each in parts)
        return Quantity(totals, axes, groups, tuple(parts))

    def _note(self, made: Sequence[CellWeights], axes: Set) -> None:
        """Remember which bins are cut, and which attributes were not published together."""
        if not self.face.known.covers(axes):
            self.outside.add(axes)
        for axis, place in enumerate(axes):
            others = tuple(each for each in range(len(axes)) if each != axis)
            for each in made:
                here = np.atleast_1d(each.cut.any(others))
                cells = self.face.attributes[place].cells
                if len(here) == len(cells) and any(isinstance(one, RangeCell) for one in cells):
                    self.cuts.setdefault(place, set()).update(np.flatnonzero(here).tolist())

    # The answer

    @property
    def rows(self) -> AnswerRows:
        """Give the keys of the answer's rows: those of every grouping set in turn."""
        width = len(self.query.plan.keys)
        sets = self.query.finish.sets or (tuple(range(width)),)
        keys, over = [], []
        for members, groups in zip(sets, self.groupings, strict=True):
            for each in groups.keys:
                own = dict(zip(members, each, strict=True))
                keys.append(tuple(own.get(index) for index in range(width)))
                over.append([index not in own for index in range(width)])
        places = np.arange(len(keys))
        return AnswerRows(keys, np.array(over, bool).reshape(len(keys), width), places, places, sums=False, width=width)

    def estimates(self, noises: int) -> list[GroupEstimate]:
        """Give every measure, with ranges that hold for so many noises at once."""
        if noises not in self._estimates:
            measures = zip(self.query.plan.measures, self.quantities, strict=True)
            self._estimates[noises] = [_estimate(each, found, self.beta, noises) for each, found in measures]
        return self._estimates[noises]

    def basis(self, shown: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Say of every number what it rests on: the weakest of all that it is made of."""
        each = [np.concatenate([_weakest(one) for one in found]) for found in self.quantities]
        outputs = self.query.outputs
        if self.query.outer or self.query.finish.windows:  # made of several rows
            word = _WEAKER[max((int(found.max()) for found in each), default=0)]
            return {output.name: (word,) * len(shown) for output in outputs}
        return {output.name: self._output_basis(output.expression, each, shown) for output in outputs}

    def _output_basis(self, made: Expression, each: Sequence[Codes], shown: Sequence[int]) -> tuple[str, ...]:
        own = [each[reference.index] for reference in columns(made) if isinstance(reference, Result)]
        return tuple(_WEAKER[max((int(found[row]) for found in own), default=0)] for row in shown)

    def notes(self) -> Iterable[str]:
        """Say which numbers are bounds, and why."""
        if self.face.where:
            yield f"the synopsis is of the rows where {self.face.where}"
        binned = {key.reference.name for key in self.query.plan.keys if isinstance(key, Column) and self._binned(key)}  # type: ignore[union-attr]
        for name in sorted(binned):
            yield f"{name}: a key is where a bin starts, and stands for all of it"
        for axes in sorted(self.outside):
            names = " and ".join(self.face.attributes[place].name for place in axes)
            told = "were not published together" if len(axes) > 1 else "was not published"
            yield f"{names} {told}: such numbers are bounded, and the one inside is a model's"
        for name in sorted(self.decided):
            by = self.face.attributes[self.face.decided[name][0]].name
            yield f"{name}: rows without a listed {by} may have any value of it, so such numbers are bounded"
        for place, cells in sorted(self.cuts.items()):
            if cells:
                attribute = self.face.attributes[place]
                named = ", ".join(cell_name(attribute.cells[cell]) for cell in sorted(cells)[:_NAMED])
                more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
                rule = "rows of a bin count differently, and only bins were published"
                yield f"{attribute.name}: {rule}, so such numbers are bounded ({named}{more})"

    def _binned(self, key: Column) -> bool:
        place, level = self._place(key.reference)
        return level is None and self.face.attributes[place].binned


def _weakest(found: tuple[Quantity | SettledTotals, ...]) -> Codes:
    return np.asarray(np.maximum.reduce([each.words for each in found]))


def _counting(counted: PossibleTruths) -> CellWeights:
    low = counted.true & ~counted.false
    return CellWeights(low.astype(np.float64), counted.true.astype(np.float64))


def _weights(counted: PossibleTruths, value: Spans, possible: tuple[float, float]) -> CellWeights:
    """Weigh every cell by the least and the greatest that one of its rows may add, held within what is possible."""
    low, high = (np.clip(each, possible[0], possible[1]) for each in (value.low, value.high))
    some, nothing = counted.true & value.there, counted.false | value.null
    least = np.where(some, np.where(nothing, np.minimum(low, 0.0), low), 0.0)
    most = np.where(some, np.where(nothing, np.maximum(high, 0.0), high), 0.0)
    return CellWeights(least, most)


def _estimate(
    measure: AggregateRequest, found: Sequence[tuple[Quantity | SettledTotals, ...]], beta: float, noises: int
) -> GroupEstimate:
    """Put the groupings of a measure one after the other."""
    each = [[quantity.range(beta, noises) for quantity in own] for own in found]
    joined = [tuple(map(np.concatenate, zip(*part, strict=True))) for part in zip(*each, strict=True)]
    if not isinstance(measure, Mean):
        ((value, low, high),) = joined
        whole = measure.result.type is Type.INTEGER
        return GroupEstimate(np.round(value) if whole else value, low, high)
    low_end, high_end = value_range(measure.value)
    if low_end == high_end:
        same = np.full(len(joined[0][0]), float(low_end))
        return GroupEstimate(same, same, same)
    ratio = Ratio(low_end, high_end)
    nothing = np.zeros(len(joined[0][0]))
    middles, halves = ([op(low, high) / 2 for _, low, high in joined] for op in (np.add, _apart))
    held = ratio.estimate(middles, halves)
    value = ratio.estimate([value for value, _, _ in joined], [nothing, nothing]).value
    return GroupEstimate(np.clip(value, held.low, held.high), held.low, held.high)


def _apart(low: Floats, high: Floats) -> Floats:
    return high - low
