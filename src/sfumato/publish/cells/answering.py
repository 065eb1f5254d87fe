"""Answer a SQL question from a synopsis: no row is read, and nothing is charged.

The question is parsed by the curator's own parser, so its semantics are the same, and finished by the same functions.
Every condition, value and key is evaluated on cells (``cell_functions``); each measure is then a weighted total over
the cells of the attributes it reads (``bounds``). A number is *measured* if those attributes were measured together
and no cell is cut: it is unbiased, with an exact range. Otherwise it is *bounded*: the range contains the truth, and
the number inside is a model's estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Bools, Floats
from sfumato.caching import cached_property
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Count,
    GroupEstimate,
    Mean,
    MeanEstimate,
    Sum,
    not_null_predicate,
    value_range,
)
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.caveats import published_caveat_by_column
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import Filter, GroupValues, Query, Relation, Scan
from sfumato.plan.quoting import quoted
from sfumato.plan.released_values import require_no_released_values
from sfumato.plan.sql import statements
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.values.expressions import Column, Expression, Field, Reference, Result, columns
from sfumato.policy import Domain, Type
from sfumato.policy.domains import MAX_LETTERS
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact, format_exact as written
from sfumato.publish.cells.cell_functions import ConditionColumn, evaluate_on_cells
from sfumato.publish.cells.cell_values import (
    CellOutcomes,
    CellTexts,
    PossibleTruths,
    ValueRanges,
    as_ranges,
    as_truths,
    column_outcomes,
    describe_cell,
    level_labels,
)
from sfumato.publish.cells.groups import CellGroups, Codes, evaluate_group_key, group_cells
from sfumato.publish.marginals.attributes import MAX_CELLS, Attributes, GroupCell, RangeCell
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.group_totals import AmountBounds, BoundedTotals, SynopsisEstimates, bound_totals
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import BOUGHT, BOUNDED, HYPOTHESIS, MEASURED, UNVERIFIED, Answer, build_answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.noisy_rows.finishing import finish
from sfumato.release.noisy_rows.key_functions import AnswerRows, extract_key_functions

_MAX_CELL_VISITS = 10**8
_MAX_BIN_NAMES = 5
_BASES_BY_STRENGTH = (MEASURED, BOUGHT, HYPOTHESIS, BOUNDED, UNVERIFIED)
"""Bases of numbers, strongest first; a number computed from several has the weakest of their bases."""
DECIDED = -1
"""The level of a column that is decided by another one."""

N = TypeVar("N", np.float64, np.int64)


@dataclass(frozen=True, eq=False)
class QueryableTable:
    """A synopsis as questions see it: a table with coded columns, and the estimates of their marginals."""

    table: str
    attributes: Attributes
    domains: tuple[Domain, ...]
    estimates: SynopsisEstimates
    receipt: Receipt
    where: str = ""
    decider_and_labels: Mapping[str, tuple[int, tuple[str | None, ...]]] = field(default_factory=dict)
    """Columns decided by another one: the index of the deciding attribute, and the text for each of its cells."""

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog of what a question may name: columns, and the levels that join their cells."""
        domains_by_name = {
            attribute.name: domain for attribute, domain in zip(self.attributes, self.domains, strict=True)
        }
        for name, (attribute_index, level) in self.attribute_and_level_by_column.items():
            labels = tuple(dict.fromkeys(filter(None, self._level_labels(attribute_index, level))))
            domains_by_name[name] = Domain(Type.TEXT, values=labels, nullable=self.domains[attribute_index].nullable)
        for name, (attribute_index, texts) in self.decider_and_labels.items():
            values = tuple(dict.fromkeys(filter(None, texts)))
            domains_by_name[name] = Domain(Type.TEXT, values=values, nullable=self.domains[attribute_index].nullable)
        return Catalog({self.table: CatalogTable(self.table, domains_by_name, public=False)}, _refuse_join)

    def _level_labels(self, index: int, level: int) -> list[str | None]:
        return level_labels(self.attributes[index], level)

    @cached_property
    def outcomes_by_attribute(self) -> tuple[CellOutcomes, ...]:
        """What the column of every attribute can be in each of its cells."""
        return tuple(column_outcomes(*pair) for pair in zip(self.attributes, self.domains, strict=True))

    @cached_property
    def attribute_and_level_by_column(self) -> Mapping[str, tuple[int, int]]:
        """The columns that stand for levels, from fine to coarse: code_level_1, code_level_2. Names that are taken and
        levels with very long labels are left out.
        """
        column_names = {attribute.name.lower() for attribute in self.attributes}
        candidates = {
            f"{attribute.name}_level_{level}": (attribute_index, level - 1)
            for attribute_index, attribute in enumerate(self.attributes)
            for level in range(1, len(attribute.levels) + 1)
        }
        longest_labels = {
            name: max(map(len, filter(None, self._level_labels(*attribute_level))), default=0)
            for name, attribute_level in candidates.items()
        }
        return {
            name: attribute_level
            for name, attribute_level in candidates.items()
            if name.lower() not in column_names and longest_labels[name] <= MAX_LETTERS
        }


def _refuse_join(table: str, *_: object) -> int:
    raise Unsupported(
        "join", f"a synopsis covers one table, and {table} is not in it", fix="use only the columns of the synopsis"
    )


def answer_sql(
    face: QueryableTable,
    text: object,
    parameters: Parameters | None = None,
    *,
    confidence: Number = DEFAULT_CONFIDENCE,
    together: bool = False,
    resolve_totals: TotalsResolver | None = None,
) -> Answer:
    """Parse and answer a SQL question; raises ``Unsupported`` with a reason for what cannot be answered."""
    query = statements.parse(text, face.catalog, parameters)
    return answer_query(face, query, str(text), confidence=confidence, together=together, resolve_totals=resolve_totals)


def answer_query(
    face: QueryableTable,
    query: Query,
    text: str,
    *,
    confidence: Number = DEFAULT_CONFIDENCE,
    together: bool = False,
    resolve_totals: TotalsResolver | None = None,
    groups: Callable[[], Sequence[GroupValues]] | None = None,
) -> Answer:
    """Answer a parsed question. It may have been parsed with a curator's catalog, of which a face has some columns.

    ``groups`` returns the groups of the question elsewhere; a question with other groups here is refused.
    """
    confidence_level = exact(confidence, "confidence", CONFIDENCE)
    _require_supported_finish(query)
    evaluator = _QuestionEvaluator(face, query, _where_conditions(query.plan.source), 1 - float(confidence_level))
    if groups is not None:
        evaluator.require_same_groups(groups())
    if resolve_totals is not None:
        evaluator.resolve_bounded_totals(resolve_totals)
    finished = finish(query, evaluator.answer_rows, evaluator.estimates, joint=together)
    receipt = replace(face.receipt, question=text, free=True, confidence=written(confidence_level), joint=together)
    basis = evaluator.basis_by_column(finished.shown.tolist())
    caveats = published_caveat_by_column(query, "" if receipt.strategy == Strategy.WHOLE.value else receipt.limits)
    unlabelled = build_answer(query, finished, receipt, tuple(evaluator.notes()), caveats=caveats)
    return replace(unlabelled, basis={name: bases for name, bases in basis.items() if name in unlabelled.intervals})


def require_answerable_as_published(face: QueryableTable, query: Query) -> None:
    """Refuse a curator's question that would have another meaning here: it reads columns that were not published, or
    groups by one of which only bins were published.

    A level of a published column may have the name of another column of the table.
    """
    plan = query.plan
    if plan.table.lower() != face.table.lower():
        rule = f"this synopsis covers one table, {face.table}; {plan.table} is not in it"
        raise Unsupported("other-table", rule, fix=f"ask about {face.table}")
    require_published_columns({attribute.name for attribute in face.attributes}, referenced_columns(query))
    binned = {attribute.name for attribute in face.attributes if attribute.has_bins}
    for key in plan.keys:
        if isinstance(key, Column) and isinstance(key.reference, Field) and key.reference.name in binned:
            rule = f"only bins of {key.reference.name} were published, and the question groups by its values"
            raise Unsupported("binned-key", rule, fix="query synopsis.sql(…) itself, which groups by bins")


def referenced_columns(query: Query) -> frozenset[str]:
    """Return the columns of the table that a question reads; refuses rows that are not the table's own."""
    plan = query.plan
    values = [measure.value for measure in plan.measures if measure.value is not None]
    filters = [measure.where for measure in plan.measures if measure.where is not None]
    expressions = (*_where_conditions(plan.source), *plan.keys, *values, *filters)
    return frozenset(column.name for expression in expressions for column in columns(expression))  # type: ignore[union-attr]


def require_published_columns(published: Collection[str], requested: Collection[str]) -> None:
    """Refuse a question that reads columns which were not published."""
    if missing := sorted({*requested} - {*published}):
        rule = f"{', '.join(map(repr, missing))} {'was' if len(missing) == 1 else 'were'} not published"
        fix = "ask only about published columns, or publish a new synopsis with all columns of the question"
        raise Unsupported("unpublished-column", rule, fix=fix)


@dataclass(frozen=True, eq=False)
class CellCondition:
    """A condition on one row: the attributes it reads, and its possible truths in each combination of cells."""

    expression: Expression
    axes: AttributeSet
    truths: PossibleTruths
    columns: tuple[ConditionColumn, ...]

    @property
    def certain_cells(self) -> Bools:
        """The cells of which every row meets the condition."""
        return np.asarray(self.truths.true & ~self.truths.false & ~self.truths.null)


def parse_condition(face: QueryableTable, text: str) -> CellCondition:
    """Parse a condition and evaluate it on cells."""
    query = statements.parse(f"SELECT COUNT(*) FILTER (WHERE {text}) FROM {quoted(face.table)}", face.catalog)
    require_no_released_values(query)
    (measure,) = query.plan.measures
    assert measure.where is not None
    evaluator = _QuestionEvaluator(face, replace(query, plan=replace(query.plan, measures=())), (), 0.05)
    axes = evaluator.checked_axes(evaluator.attributes_read([measure.where]))
    sizes = evaluator.axis_sizes(axes)
    possible = as_truths(evaluator.possible_outcomes(measure.where, axes))
    truths_per_cell = PossibleTruths(
        *(np.broadcast_to(truth_cells, sizes) for truth_cells in (possible.true, possible.false, possible.null))
    )
    return CellCondition(measure.where, axes, truths_per_cell, evaluator.condition_columns(measure.where))


def certain_cells(face: QueryableTable, text: str) -> tuple[AttributeSet, Bools]:
    """Return the attributes that a condition reads, and the cells of which every row meets it."""
    parsed = parse_condition(face, text)
    return parsed.axes, parsed.certain_cells


def _require_supported_finish(query: Query) -> None:
    require_no_released_values(query)
    if query.combined is not None:
        rule = "a synopsis answers one SELECT at a time, and this question combines several"
        raise Unsupported(
            "combined", rule, fix="ask each SELECT separately, which is free, and combine the answers in pandas"
        )
    if extract_key_functions(query)[1]:
        rule = "a synopsis cannot compute functions of group keys"
        raise Unsupported("key-functions", rule, fix="write the function in GROUP BY, such as GROUP BY UPPER(region)")


def _where_conditions(relation: Relation) -> tuple[Expression, ...]:
    """Return the conditions on rows; refuses anything but filtered rows of the table."""
    predicates = []
    while isinstance(relation, Filter):
        predicates.append(relation.predicate)
        relation = relation.input
    if not isinstance(relation, Scan):
        rule = "a synopsis cannot join rows, rank them or group them by person, because it holds counts of rows"
        raise Unsupported("rows-only", rule, fix="use WHERE, GROUP BY and FILTER, without joins or windows")
    return tuple(predicates)


@dataclass(frozen=True, eq=False)
class GroupedTotals:
    """Totals of one measure: one for each group on the grid."""

    totals: tuple[BoundedTotals, ...]
    """Bounds for each group of joined cells."""
    axes: AttributeSet
    groups: CellGroups
    weights: tuple[AmountBounds, ...]
    """The cell weights of each of the totals, in the same order."""

    def sum_by_group(self, table: NDArray[N]) -> NDArray[N]:
        """Sum a table over the axes, group by group, by the least weights."""
        summed_axes = tuple(axis for axis, index in enumerate(self.axes) if index not in self.groups.key_axes)
        return self._values_of_groups(
            [
                (table * cell_weights.low.astype(table.dtype)).sum(summed_axes, keepdims=True)
                for cell_weights in self.weights
            ]
        )

    def apply_transpose(self, group_values: Floats) -> Floats:
        """Apply the transpose of ``sum_by_group``: in every cell, the weights times its groups' numbers, summed."""
        grid = np.zeros(self.groups.shape)
        grid.ravel()[self.groups.answer_grid_index] = group_values
        spread_parts = (
            cells.low * grid[..., index].reshape(self._key_axis_sizes) for index, cells in enumerate(self.weights)
        )
        return np.asarray(sum(spread_parts, start=np.zeros((1,) * len(self.axes))))

    @property
    def has_ambiguous_cells(self) -> bool:
        """Whether rows of one cell count differently."""
        return any(bool(cell_weights.ambiguous_cells.any()) for cell_weights in self.weights)

    @property
    def _key_axis_sizes(self) -> tuple[int, ...]:
        """The number of cells along each key axis, and 1 along the others."""
        size_by_axis = dict(zip(self.groups.key_axes, self.groups.key_sizes, strict=True))
        return tuple(size_by_axis.get(attribute_index, 1) for attribute_index in self.axes)

    def _values_of_groups(self, totals: Sequence[NDArray[N]]) -> NDArray[N]:
        """Lay totals out on the grid of groups, and take those that are shown."""
        key_axes = [axis for axis, attribute_index in enumerate(self.axes) if attribute_index in self.groups.key_axes]
        flat = [
            np.broadcast_to(table.reshape([table.shape[axis] for axis in key_axes]), self.groups.key_sizes)
            for table in (
                np.broadcast_to(total, np.broadcast_shapes(total.shape, (1,) * len(self.axes))) for total in totals
            )
        ]
        return np.stack(flat, axis=-1).ravel()[self.groups.answer_grid_index]

    def estimate_with_ends(self, beta: float, cells: int) -> tuple[Floats, Floats, Floats]:
        """Return numbers and their lower and upper ends, which hold for so many totals at once."""
        ends = [total.ends(beta, cells) for total in self.totals]
        values = [total.estimate(*end) for total, end in zip(self.totals, ends, strict=True)]
        lows, highs = ([total_ends[side] for total_ends in ends] for side in (0, 1))
        return self._values_of_groups(values), self._values_of_groups(lows), self._values_of_groups(highs)

    @property
    def measured(self) -> Bools:
        return self._values_of_groups([total.measured.astype(float) for total in self.totals]) > 0

    @property
    def evidence_ranks(self) -> Codes:
        """The basis of each total, as an index into the bases by strength."""
        return np.where(self.measured, _BASES_BY_STRENGTH.index(MEASURED), _BASES_BY_STRENGTH.index(BOUNDED))


@dataclass(frozen=True, eq=False)
class ResolvedTotals:
    """Totals of all groups of a question, from another source than the synopsis."""

    values: Floats
    ends_at: Callable[[float, int], tuple[Floats, Floats]]
    """Returns their ends at a miss probability, for so many noises at once."""
    basis: str
    """The basis of the totals."""

    def estimate_with_ends(self, beta: float, cells: int) -> tuple[Floats, Floats, Floats]:
        """Return the numbers, clipped to their ends, and the ends."""
        low, high = self.ends_at(beta, cells)
        return np.clip(self.values, low, high), low, high

    @property
    def evidence_ranks(self) -> Codes:
        return np.full(len(self.values), _BASES_BY_STRENGTH.index(self.basis))


TotalsResolver = Callable[[tuple[GroupedTotals, ...], float], tuple[ResolvedTotals, ...] | None]
"""Computes the totals of one measure where the synopsis can only bound them; None leaves them as they are.
The number is the measure's share of all totals of the question, and so of the miss probability that all share.
"""


class _QuestionEvaluator:
    """Evaluates one question: its groups, and the totals of each measure in each group."""

    def __init__(self, face: QueryableTable, query: Query, conditions: tuple[Expression, ...], beta: float) -> None:
        self.face, self.query, self.conditions, self.beta = face, query, conditions, beta
        self.index_by_name = {attribute.name.lower(): index for index, attribute in enumerate(face.attributes)}
        self.cuts: dict[int, set[int]] = {}
        self.outside: set[AttributeSet] = set()
        self.decided: set[str] = set()
        self._estimates: dict[int, list[GroupEstimate]] = {}
        sets = query.finish.sets or (tuple(range(len(query.plan.keys))),)
        self.groupings = [self._cell_groups(grouping_set) for grouping_set in sets]
        self.quantities: list[list[tuple[GroupedTotals | ResolvedTotals, ...]]] = [
            [
                self._measure_totals(measure, *grouping)
                for grouping in zip(self.groupings, map(self._key_conditions, sets), strict=True)
            ]
            for measure in query.plan.measures
        ]

    def resolve_bounded_totals(self, settle: TotalsResolver) -> None:
        """Settle measures that the synopsis only bounds, unless rows of one cell count differently."""
        total_count = sum(len(totals) for by_grouping in self.quantities for totals in by_grouping)
        for by_grouping in self.quantities:
            for index, totals in enumerate(by_grouping):
                bounded_totals = tuple(total for total in totals if isinstance(total, GroupedTotals))
                is_ambiguous = any(total.has_ambiguous_cells for total in bounded_totals)
                if is_ambiguous or all(total.measured.all() for total in bounded_totals):
                    continue
                settled = settle(bounded_totals, len(bounded_totals) / total_count)
                by_grouping[index] = totals if settled is None else settled
        remaining = (
            quantity
            for by_grouping in self.quantities
            for totals in by_grouping
            for quantity in totals
            if isinstance(quantity, GroupedTotals)
        )
        self.outside &= {quantity.axes for quantity in remaining}

    # Cells

    def attributes_read(self, expressions: Iterable[Expression]) -> AttributeSet:
        references = {reference for expression in expressions for reference in columns(expression)}
        return tuple(sorted({self._attribute_and_level(reference)[0] for reference in references}))

    def condition_columns(self, expression: Expression) -> tuple[ConditionColumn, ...]:
        """Return the columns that an expression names, each with its attribute and level."""
        return tuple(ConditionColumn(part, *self._attribute_and_level(part)) for part in columns(expression))

    def _attribute_and_level(self, reference: Reference) -> tuple[int, int | None]:
        """Return the attribute of a column, and its level."""
        assert isinstance(reference, Field)
        if reference.name in self.face.decider_and_labels:
            self.decided.add(reference.name)
            return self.face.decider_and_labels[reference.name][0], DECIDED
        levels = self.face.attribute_and_level_by_column
        if reference.name in levels:
            return levels[reference.name]
        return self.index_by_name[reference.name.lower()], None

    def possible_outcomes(self, expression: Expression, axes: AttributeSet) -> CellOutcomes:
        """Return what an expression can be, along these axes."""
        column_cells = {reference: self._column_outcomes(reference, axes) for reference in columns(expression)}
        return evaluate_on_cells(expression, column_cells, len(axes))

    def _column_outcomes(self, reference: Reference, axes: AttributeSet) -> CellOutcomes:
        attribute_index, level = self._attribute_and_level(reference)
        attribute = self.face.attributes[attribute_index]
        if level is None:
            cells = self.face.outcomes_by_attribute[attribute_index]
        else:
            labels = np.empty(attribute.size, dtype=object)
            is_decided = isinstance(reference, Field) and level == DECIDED
            decided = self.face.decider_and_labels
            labels[:] = decided[reference.name][1] if is_decided else level_labels(attribute, level)  # type: ignore[union-attr]
            # missing or unlisted values decide nothing: such rows may have any value of the decided column
            cells = CellTexts(labels, (np.arange(attribute.size) == attribute.size - 1) & is_decided)
        shape = tuple(attribute.size if axis_index == attribute_index else 1 for axis_index in axes)
        return type(cells)(*(getattr(cells, name).reshape(shape) for name in cells.__dataclass_fields__))

    # Groups

    def _cell_groups(self, key_indices: Sequence[int]) -> CellGroups:
        keys = [self.query.plan.keys[index] for index in key_indices]
        group_keys = []
        for key in keys:
            axes = self.attributes_read([key])
            column = isinstance(key, Column) and self._attribute_and_level(key.reference)
            attribute = self.face.attributes[axes[0]] if column and column[1] is None else None
            group_keys.append(evaluate_group_key(key, axes, self.possible_outcomes(key, axes), attribute))
        groups = group_cells(group_keys, self.face.attributes)
        return self._possible_groups(groups)

    def require_same_groups(self, expected_keys: Sequence[GroupValues]) -> None:
        """Refuse a question that has other groups elsewhere."""
        width = len(self.query.plan.keys)
        sets = self.query.finish.sets or (tuple(range(width)),)
        for key_indices, groups in zip(sets, self.groupings, strict=True):
            if len(key_indices) == width and {*groups.answer_keys} != {*expected_keys}:
                rule = "the values and bins of the synopsis do not form the groups of this question"
                raise Unsupported("other-groups", rule, fix="group by columns whose values are listed in the policy")

    def _possible_groups(self, groups: CellGroups) -> CellGroups:
        """Drop groups of which the conditions leave no cell, as the curator does."""
        condition_axes = self.attributes_read(self.conditions)
        if not set(condition_axes) & {*groups.key_axes, *groups.joined_axes}:
            return groups
        axes = self.checked_axes(tuple(sorted({*condition_axes, *groups.key_axes, *groups.joined_axes})))
        possible_cells = np.broadcast_to(self._truths_of_all(self.conditions, axes).true, self.axis_sizes(axes))
        summed_axes = tuple(axis for axis, attribute_index in enumerate(axes) if attribute_index not in groups.key_axes)
        masks = [possible_cells & self._may_be_in_group(groups, axes, index) for index in range(groups.joined_count)]
        grid = np.stack([mask.any(summed_axes) for mask in masks], axis=-1).ravel()
        possible = [index for index, grid_index in enumerate(groups.answer_grid_index.tolist()) if grid[grid_index]]
        if not possible:
            rule = "no row can meet these conditions, so there is no group to show"
            raise Unsupported("no-groups", rule, fix="use a wider WHERE, or declare more values in the policy")
        return replace(
            groups,
            answer_keys=tuple(groups.answer_keys[index] for index in possible),
            answer_grid_index=groups.answer_grid_index[possible],
        )

    def _may_be_in_group(self, groups: CellGroups, axes: AttributeSet, index: int) -> Bools:
        """Return which cells are in a joined group."""
        if not groups.joined_axes:
            return np.ones((1,) * len(axes), bool)
        shape = tuple(self.face.attributes[index].size if index in groups.joined_axes else 1 for index in axes)
        return groups.members_of(index).reshape(shape)

    def axis_sizes(self, axes: AttributeSet) -> tuple[int, ...]:
        return tuple(self.face.attributes[attribute_index].size for attribute_index in axes)

    def checked_axes(self, axes: AttributeSet, times: int = 1) -> AttributeSet:
        """Refuse to read more cells together than can be held."""
        cells = math.prod(self.axis_sizes(axes))
        if cells > MAX_CELLS or cells * times > _MAX_CELL_VISITS:
            largest = sorted(axes, key=lambda attribute_index: -self.face.attributes[attribute_index].size)[:3]
            names = ", ".join(self.face.attributes[attribute_index].name for attribute_index in largest)
            rule = f"a question can read at most {MAX_CELLS:,} counts of a synopsis; this one reads {cells * times:,}"
            raise Unsupported("too-many-cells", rule, fix=f"leave out a column: {names} have the most values")
        return axes

    # Measures

    def _truths_of_all(self, conditions: Iterable[Expression], axes: AttributeSet) -> PossibleTruths:
        """Return which cells may have rows that count, and which may have rows that do not."""
        shape = (1,) * len(axes)
        true, untrue = np.ones(shape, bool), np.zeros(shape, bool)
        for predicate in conditions:
            possible = as_truths(self.possible_outcomes(predicate, axes))
            true, untrue = true & possible.true, untrue | possible.false | possible.null
        return PossibleTruths(true, untrue, np.zeros(shape, bool))

    def _key_conditions(self, key_indices: Sequence[int]) -> list[Expression]:
        """Return the conditions under which subtotals sum shown groups only: keys summed over are present, unless
        nullable.
        """
        keys = self.query.plan.keys
        return [
            not_null_predicate(key)
            for index, key in enumerate(keys)
            if index not in key_indices and not key.domain.nullable
        ]

    def _measure_totals(
        self, measure: AggregateRequest, groups: CellGroups, key_conditions: Sequence[Expression]
    ) -> tuple[GroupedTotals, ...]:
        """Return the totals of a measure: one, or two for a mean."""
        if type(measure) not in (Count, Sum, Mean):
            rule = "a synopsis can answer only COUNT, SUM and AVG, because it holds counts of rows"
            raise Unsupported("aggregate", rule, fix="use COUNT, SUM or AVG, with FILTER (WHERE …) if needed")
        conditions = [*self.conditions, *key_conditions, *([] if measure.where is None else [measure.where])]
        values = [] if measure.value is None else [measure.value]
        axes = tuple(sorted({*self.attributes_read([*conditions, *values]), *groups.key_axes, *groups.joined_axes}))
        self.checked_axes(axes, groups.joined_count)
        counted = self._truths_of_all(conditions, axes)
        weights_of_totals = self._sum_bounds(measure, counted, axes) if values else [_row_count_bounds(counted)]
        self._record_cut_bins(weights_of_totals, axes)
        return tuple(self._grouped_totals(weights, axes, groups) for weights in weights_of_totals)

    def _sum_bounds(self, measure: AggregateRequest, counted: PossibleTruths, axes: AttributeSet) -> list[AmountBounds]:
        assert measure.value is not None
        value = as_ranges(self.possible_outcomes(measure.value, axes))
        if isinstance(measure, Mean):
            low, high = map(float, value_range(measure.value))
            above = ValueRanges(value.low - low, value.high - low, value.may_have_value, value.null)
            below = ValueRanges(high - value.high, high - value.low, value.may_have_value, value.null)
            return [_row_amount_bounds(counted, part, (0.0, high - low)) for part in (above, below)]
        least, greatest = map(float, value_range(measure.value))
        return [_row_amount_bounds(counted, value, (least, greatest))]

    def _grouped_totals(self, weights: AmountBounds, axes: AttributeSet, groups: CellGroups) -> GroupedTotals:
        parts = [weights]
        if groups.joined_axes:
            parts = [weights.masked(self._may_be_in_group(groups, axes, index)) for index in range(groups.joined_count)]
        if groups.undecided is not None:
            undecided = groups.undecided.reshape([-1 if index in groups.joined_axes else 1 for index in axes])
            parts = [part.with_optional_cells(undecided) for part in parts]
        totals = tuple(bound_totals(self.face.estimates, part, axes, groups.key_axes) for part in parts)
        return GroupedTotals(totals, axes, groups, tuple(parts))

    def _record_cut_bins(self, weights_of_totals: Sequence[AmountBounds], axes: AttributeSet) -> None:
        """Record which bins are cut, and which attributes were not published together."""
        if not self.face.estimates.covers(axes):
            self.outside.add(axes)
        for axis, attribute_index in enumerate(axes):
            other_axes = tuple(axis_index for axis_index in range(len(axes)) if axis_index != axis)
            for weights in weights_of_totals:
                is_cut = np.atleast_1d(weights.ambiguous_cells.any(other_axes))
                cells = self.face.attributes[attribute_index].cells
                if len(is_cut) == len(cells) and any(isinstance(cell, (RangeCell, GroupCell)) for cell in cells):
                    self.cuts.setdefault(attribute_index, set()).update(np.flatnonzero(is_cut).tolist())

    # The answer

    @property
    def answer_rows(self) -> AnswerRows:
        """The keys of the answer's rows: those of every grouping set in turn."""
        width = len(self.query.plan.keys)
        sets = self.query.finish.sets or (tuple(range(width)),)
        keys, is_rolled_up = [], []
        for key_indices, groups in zip(sets, self.groupings, strict=True):
            for group_key in groups.answer_keys:
                values_by_key = dict(zip(key_indices, group_key, strict=True))
                keys.append(tuple(values_by_key.get(index) for index in range(width)))
                is_rolled_up.append([index not in values_by_key for index in range(width)])
        row_index = np.arange(len(keys))
        rolled_up = np.array(is_rolled_up, bool).reshape(len(keys), width)
        return AnswerRows(keys, rolled_up, row_index, row_index, has_sums=False, width=width)

    def estimates(self, noises: int) -> list[GroupEstimate]:
        """Return every measure, with ranges that hold for so many noises at once."""
        if noises not in self._estimates:
            measures = zip(self.query.plan.measures, self.quantities, strict=True)
            self._estimates[noises] = [_estimate_measure(*pair, self.beta, noises) for pair in measures]
        return self._estimates[noises]

    def basis_by_column(self, row_indices: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Return the basis of every number: the weakest of all that it is computed from."""
        measure_bases = [
            np.concatenate([_weakest_ranks(totals) for totals in by_grouping]) for by_grouping in self.quantities
        ]
        outputs = self.query.outputs
        if self.query.outer or self.query.finish.windows:  # computed from several rows
            weakest = _BASES_BY_STRENGTH[max((int(codes.max()) for codes in measure_bases), default=0)]
            return {output.name: (weakest,) * len(row_indices) for output in outputs}
        return {output.name: self._output_basis(output.expression, measure_bases, row_indices) for output in outputs}

    def _output_basis(
        self, expression: Expression, measure_bases: Sequence[Codes], row_indices: Sequence[int]
    ) -> tuple[str, ...]:
        operand_bases = [
            measure_bases[reference.index] for reference in columns(expression) if isinstance(reference, Result)
        ]
        return tuple(
            _BASES_BY_STRENGTH[max((int(codes[row]) for codes in operand_bases), default=0)] for row in row_indices
        )

    def notes(self) -> Iterable[str]:
        """Yield notes on which numbers are bounds, and why."""
        if self.face.where:
            yield f"the synopsis covers only the rows where {self.face.where}"
        keys = [key for key in self.query.plan.keys if isinstance(key, Column) and self._has_binned_attribute(key)]
        binned = {key.reference.name for key in keys if isinstance(key.reference, Field)}
        yield from (f"{name}: each key is the start of a bin, and stands for the whole bin" for name in sorted(binned))
        for axes in sorted(self.outside):
            *others, last = (self.face.attributes[attribute_index].name for attribute_index in axes)
            together = f"{', '.join(others)} and {last} were not published together"
            rule, needed = (together, "all of them") if others else (f"{last} was not published", "it")
            yield f"{rule}, so numbers that need {needed} are two-sided bounds with a model's estimate between them"
        for name in sorted(self.decided):
            deciding = self.face.attributes[self.face.decider_and_labels[name][0]].name
            yield f"{name}: rows without a listed {deciding} may have any {name}, so these numbers are two-sided bounds"
        for attribute_index, cells in sorted(self.cuts.items()):
            if cells:
                attribute = self.face.attributes[attribute_index]
                bin_names = ", ".join(describe_cell(attribute.cells[cell]) for cell in sorted(cells)[:_MAX_BIN_NAMES])
                remainder = f" and {len(cells) - _MAX_BIN_NAMES} more" if len(cells) > _MAX_BIN_NAMES else ""
                rule = "the question splits bins, and only whole bins were published"
                yield f"{attribute.name}: {rule}, so these numbers are two-sided bounds ({bin_names}{remainder})"

    def _has_binned_attribute(self, key: Column) -> bool:
        attribute_index, level = self._attribute_and_level(key.reference)
        return level is None and self.face.attributes[attribute_index].has_bins


def _weakest_ranks(totals: tuple[GroupedTotals | ResolvedTotals, ...]) -> Codes:
    return np.asarray(np.maximum.reduce([total.evidence_ranks for total in totals]))


def _row_count_bounds(counted: PossibleTruths) -> AmountBounds:
    return AmountBounds((counted.true & ~counted.false).astype(np.float64), counted.true.astype(np.float64))


def _row_amount_bounds(counted: PossibleTruths, value: ValueRanges, clip_range: tuple[float, float]) -> AmountBounds:
    """Weigh every cell by the least and the greatest amount that one of its rows may add, clipped to ``clip_range``."""
    low, high = (np.clip(end, clip_range[0], clip_range[1]) for end in (value.low, value.high))
    may_count, may_not_count = counted.true & value.may_have_value, counted.false | value.null
    least = np.where(may_count, np.where(may_not_count, np.minimum(low, 0.0), low), 0.0)
    greatest = np.where(may_count, np.where(may_not_count, np.maximum(high, 0.0), high), 0.0)
    return AmountBounds(least, greatest)


def _estimate_measure(
    measure: AggregateRequest,
    by_grouping: Sequence[tuple[GroupedTotals | ResolvedTotals, ...]],
    beta: float,
    noises: int,
) -> GroupEstimate:
    """Concatenate the groupings of a measure, and estimate it."""
    ranges = [[quantity.estimate_with_ends(beta, noises) for quantity in totals] for totals in by_grouping]
    joined = [tuple(map(np.concatenate, zip(*part, strict=True))) for part in zip(*ranges, strict=True)]
    if not isinstance(measure, Mean):
        ((value, low, high),) = joined
        return GroupEstimate(np.round(value) if measure.result.type is Type.INTEGER else value, low, high)
    low_end, high_end = value_range(measure.value)
    if low_end == high_end:
        constant = np.full(len(joined[0][0]), float(low_end))
        return GroupEstimate(constant, constant, constant)
    ratio = MeanEstimate(low_end, high_end)
    zeros = np.zeros(len(joined[0][0]))
    middles = [(low + high) / 2 for _, low, high in joined]
    halves = [(high - low) / 2 for _, low, high in joined]
    bounds = ratio.estimate(middles, halves)
    value = ratio.estimate([value for value, _, _ in joined], [zeros, zeros]).value
    return GroupEstimate(np.clip(value, bounds.low, bounds.high), bounds.low, bounds.high)
