"""Lower the rows that count: the unit, the keys, and a whole number of steps for each coordinate of each measure.

Many counts over the same rows are added up from cells: rows that are equal in every column that a predicate reads. A
predicate has the same result on all rows of a cell, so the number of rows for which it holds is the sum of the sizes
of the cells for which it does: the same whole number, whatever is counted. A table is then read once for all counts.
This is done where declared values allow few cells, which the policy decides and not the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from sfumato.engine.lowering.applications import not_null_test
from sfumato.engine.lowering.proven_values import ProvenValues, shared_factors
from sfumato.engine.lowering.relation_lowering import (
    Columns,
    RelationLowering,
    all_of,
    is_cheap_chain,
    unrenamed_columns,
)
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    Apply,
    Constant,
    GroupTotal,
    Reference,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    Wide,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.lowering.unit_lowering import clamped, to_wide_integer, value_in_steps
from sfumato.plan.aggregates.measures import RowContribution, Sum
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import Strategy
from sfumato.plan.values import expressions
from sfumato.policy import Domain, Type
from sfumato.quick_dataclass import dataclass

MIN_COUNTS = 12
"""For fewer it is not worth the grouping."""
MAX_CELLS = 50_000
_MAX_CODES = 256
"""A key of more texts than these is grouped by as it is: its list would be longer than what it saves."""

Cells = tuple[tuple[Reference, Domain], ...]
"""The columns that tests read, with what is declared of each."""


def columns_read_by_predicates(
    bounded_plan: BoundedPlan, columns: Mapping[expressions.Reference, Scalar], values: Sequence[Scalar]
) -> Cells:
    """List the columns that the predicates of many counts read; none if there are few counts, or may be many cells."""
    measures = [bounded_measure.measure for bounded_measure in bounded_plan.measures]
    if (
        bounded_plan.plan.keys
        or len(measures) < MIN_COUNTS
        or any(measure.value or measure.once_per_unit for measure in measures)
    ):
        return ()
    declared, domains, cell_count = bounded_plan.bounding_node.input.columns, {}, 1
    for reference in dict.fromkeys(
        one for measure in measures if measure.where for one in expressions.columns(measure.where)
    ):
        domain, scalar = declared[reference], columns.get(reference)  # type: ignore[index]
        distinct_values = _distinct_values(domain)
        if not isinstance(scalar, Reference) or distinct_values is None:
            return ()
        cell_count *= distinct_values + 1  # NULL is one more
        domains[scalar] = domain
    references_read = {column_reference for value in values for column_reference in _references(value)}
    return tuple(domains.items()) if cell_count <= MAX_CELLS and references_read <= set(domains) else ()


def group_rows_into_cells(select: Select, totalled: Sequence[str], cells: Cells) -> tuple[Select, dict[str, Scalar]]:
    """Group rows into cells with what one row of each counts; return them with each total over the cells."""
    columns, by_reference = [], {}
    for name, (reference, domain) in zip(_cell_columns(cells), cells, strict=True):
        texts = tuple(sorted(map(str, domain.values or ()))) if domain.type is Type.TEXT else ()
        is_coded = 0 < len(texts) <= _MAX_CODES  # a code is grouped by faster than its text
        columns.append((name, apply(ScalarFunction.GROUP_CODE, reference, detail=texts) if is_coded else reference))
        by_reference[reference] = (
            apply(ScalarFunction.CONVERT, Reference(name), detail=(Type.TEXT,)) if is_coded else Reference(name)
        )
    rows = replace(select, columns=tuple(columns))
    cell_sizes = Select(
        (*unrenamed_columns(_cell_columns(cells)), ("n", GroupTotal(AggregateFunction.COUNT))),
        rows,
        group_by=_cell_columns(cells),
    )
    values = dict(select.columns)
    return cell_sizes, {name: _total_over_cells(_substitute(values[name], by_reference)) for name in totalled}


def without_contributions(select: Select, cells: Cells) -> tuple[Select, tuple[str, ...]]:
    """Select rows with their unit and the columns that predicates read, with no predicate evaluated."""
    columns = zip(_cell_columns(cells), (reference for reference, _ in cells), strict=True)
    return replace(select, columns=(("u", dict(select.columns)["u"]), *columns)), ("u", *_cell_columns(cells))


def with_contributions(rows: Select, select: Select, names: Sequence[str], cells: Cells) -> Select:
    """Evaluate what each of such rows counts, and keep its unit and the number of rows of that unit."""
    values, by_reference = (
        dict(select.columns),
        {reference: Reference(name) for name, (reference, _) in zip(_cell_columns(cells), cells, strict=True)},
    )
    return Select(
        (*unrenamed_columns("un"), *((name, _substitute(values[name], by_reference)) for name in names)), rows
    )


def _cell_columns(cells: Cells) -> tuple[str, ...]:
    return tuple(f"c{number}" for number in range(len(cells)))


def _total_over_cells(value: Scalar) -> Scalar:
    """Add up what each row of a cell counts. Statements of hundreds of counts take longer to plan than to run, so a
    predicate selects the cells whose rows are added up.
    """
    cell_size = Reference("n")
    match value:
        case Apply(ScalarFunction.CASE, (test, Constant(1), Constant(0))):
            total = GroupTotal(AggregateFunction.SUM, cell_size, test)
        case _:
            total = GroupTotal(AggregateFunction.SUM, apply(ScalarFunction.MULTIPLY, value, cell_size))
    return apply(ScalarFunction.COALESCE, total, Constant(0, Type.INTEGER))


def _distinct_values(domain: Domain) -> int | None:
    """Return the number of values that a column may hold; None if its domain does not bound it."""
    if domain.values:
        return len(domain.values)
    if domain.type is Type.BOOLEAN:
        return 2
    low, high = domain.range or (None, None)
    if isinstance(low, dt.date) and isinstance(high, dt.date) and domain.type is Type.DATE:
        return (high - low).days + 1
    return high - low + 1 if isinstance(low, int) and isinstance(high, int) else None


def _references(scalar: Scalar) -> Iterator[Reference]:
    if isinstance(scalar, Reference):
        yield scalar
    elif isinstance(scalar, Apply):
        for argument in scalar.arguments:
            yield from _references(argument)


def _substitute(scalar: Scalar, columns: Mapping[Reference, Scalar]) -> Scalar:
    """Rewrite a scalar over the columns of its cell."""
    if isinstance(scalar, Reference):
        return columns[scalar]
    if isinstance(scalar, Apply):
        return replace(scalar, arguments=tuple(_substitute(argument, columns) for argument in scalar.arguments))
    return scalar


@dataclass(frozen=True)
class CountedRows:
    """The rows that count, as (unit, key…, value…); without the unit where every row is its own unit."""

    select: Select
    keys: tuple[str, ...]
    kinds: tuple[Type, ...]
    """Of the keys."""
    values: tuple[str, ...]
    """One whole number per row for each coordinate of each measure."""
    ones: frozenset[str]
    """The values that are 1 in every row."""
    maximal: frozenset[str]
    """The values that a unit contributes once per group: units are counted, not rows."""
    codes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The texts that each key which is a code may stand for."""
    cells: Cells = ()
    """The columns by which many counts are added up at once."""
    identifying_columns: tuple[tuple[str, Type], ...] = ()
    """A column that tells rows of a group apart as the values do, with its type."""

    @property
    def distinguishing_columns(self) -> list[str]:
        """List the columns that distinguish the rows of a group."""
        return [
            *(name for name, _ in self.identifying_columns),
            *(name for name in self.values if name not in self.ones),
        ]

    @property
    def unclipped_names(self) -> tuple[str, ...]:
        """Name the columns of a unit's unclipped totals, beside the clipped ones, where totals are corrected."""
        return () if not self.keys else tuple(f"w{name[1:]}" for name in self.values)

    @property
    def decoded_keys(self) -> Columns:
        """Return the key columns, with codes converted back to texts."""
        texts = {name: apply(ScalarFunction.CONVERT, Reference(name), detail=(Type.TEXT,)) for name in self.codes}
        return tuple((name, texts.get(name, Reference(name))) for name in self.keys)


def counted_rows(bounded_plan: BoundedPlan, relations: RelationLowering) -> CountedRows:
    """Select the rows of a plan that count, with the contribution of each."""
    plan, unit = bounded_plan.plan, bounded_plan.strategy is not Strategy.WHOLE
    source = relations.lower_flat(plan.source, plan.expressions, unit=unit)
    lowering = source.lowering
    keys = [lowering.lower(key) for key in plan.keys]
    keys = [
        key if declared_key.domain.nullable else lowering.compute_once(key)
        for key, declared_key in zip(keys, plan.keys, strict=True)
    ]
    tests = [
        not_null_test(key)
        for key, declared_key in zip(keys, plan.keys, strict=True)
        if not declared_key.domain.nullable
    ]
    for factor in shared_factors(
        bounded_measure.measure.value
        for bounded_measure in bounded_plan.measures
        if isinstance(bounded_measure.measure, Sum)
    ):
        lowering.share(factor)
    values = [_lower_contributions(measure, lowering, source.proven) for measure in bounded_plan.measures]
    value_columns = [
        (f"v{index}", value) for index, value in enumerate(value for contributions in values for value in contributions)
    ]
    key_columns = tuple((f"k{index}", key) for index, key in enumerate(keys))
    maximal = [
        bounded_measure.measure.once_per_unit
        for bounded_measure in bounded_plan.measures
        for _ in range(bounded_measure.coordinates)
    ]
    select = source.select_columns((*(unrenamed_columns("u") if unit else ()), *key_columns, *value_columns), tests)
    return CountedRows(
        select,
        tuple(name for name, _ in key_columns),
        tuple(declared_key.domain.type for declared_key in plan.keys),
        tuple(name for name, _ in value_columns),
        frozenset(name for name, value in value_columns if value == integer_constant(1)),
        frozenset(name for (name, _), once_per_unit in zip(value_columns, maximal, strict=True) if once_per_unit),
        cells=columns_read_by_predicates(bounded_plan, lowering.columns, [value for _, value in value_columns]),
    )


def materialise_rows(bounded_plan: BoundedPlan, rows: CountedRows, relations: RelationLowering) -> CountedRows:
    """Materialise the rows where computing them costs more than reading a table: bounding reads them several times. The
    columns that predicates read are dropped.
    """
    if is_cheap_chain(bounded_plan.plan.source):
        return rows
    stage = relations.add_stage(rows.select)
    return replace(rows, select=Select(unrenamed_columns(name for name, _ in rows.select.columns), stage), cells=())


def _lower_contributions(scaled: ScaledMeasure, lowering: RowLowering, proven: ProvenValues) -> list[Scalar]:
    """Lower the contribution of one row to each coordinate: a whole number, 0 where the predicate is not true or the
    value is missing.
    """
    where = scaled.measure.where
    tests = [] if where is None else [lowering.lower(where)]
    return [
        _lower_contribution(contribution, [*tests, *_part_tests(contribution, lowering)], lowering, proven)
        for contribution in scaled.contributions
    ]


def _part_tests(contribution: RowContribution, lowering: RowLowering) -> list[Scalar]:
    """Lower the test that a row is in the part that counts: it is in one part at most, whatever the predicates are."""
    if not contribution.parts:
        return []
    branches = [
        (lowering.lower(predicate), integer_constant(index)) for index, predicate in enumerate(contribution.parts)
    ]
    tested = (scalar for branch in branches for scalar in branch)
    first_part = lowering.compute_once(apply(ScalarFunction.CASE, *tested, integer_constant(len(branches))))
    return [apply(ScalarFunction.EQUAL, first_part, integer_constant(contribution.part))]


def _lower_contribution(
    contribution: RowContribution, tests: list[Scalar], lowering: RowLowering, proven: ProvenValues
) -> Scalar:
    if contribution.value is None:
        return (
            apply(ScalarFunction.CASE, all_of(tests), integer_constant(contribution.high), integer_constant(0))
            if tests
            else integer_constant(contribution.high)
        )
    value = lowering.compute_once(lowering.lower(contribution.value))
    steps_of_value = lowering.compute_once(
        value_in_steps(contribution.value, value, contribution, proven)
    )  # of a mean and a sum: the same ones
    mirrored_steps = (
        apply(ScalarFunction.SUBTRACT, integer_constant(contribution.high), steps_of_value)
        if contribution.mirrored
        else steps_of_value
    )
    if not proven.is_never_null(contribution.value):
        tests = [*tests, not_null_test(value)]
    return apply(ScalarFunction.CASE, all_of(tests), mirrored_steps, integer_constant(0)) if tests else mirrored_steps


_BEYOND_TOTALS = 2**104
"""More than 2^62 of the largest units, where totals are clamped anyway; Spark divides numbers up to 10^32 exactly."""


def round_totals(bounded_plan: BoundedPlan, rows: CountedRows, totals: StagedSelect) -> StagedSelect:
    """Round each total released in several steps to the nearest unit, halves up: one that moves by whole units moves by
    as many (``bounding``, rounded totals).
    """
    units = [1 << max(0, -measure.bits) for measure in bounded_plan.measures for _ in range(measure.coordinates)]
    if max(units) == 1:
        return totals
    coordinates = zip(rows.values, units, strict=True)
    rounded = tuple(
        (name, Reference(name) if unit == 1 else _rounded_quotient(Reference(name), unit)) for name, unit in coordinates
    )
    return replace(totals, result=Select((*unrenamed_columns(rows.keys), *rounded), totals.result))


def _rounded_quotient(total: Scalar, unit: int) -> Scalar:
    """Compute ⌊total/unit + 1/2⌋: division rounds down where the dividend is not negative."""
    clamped_total = clamped(
        to_wide_integer(total), Constant(-_BEYOND_TOTALS, Wide.INTEGER), Constant(_BEYOND_TOTALS, Wide.INTEGER)
    )
    shifted = apply(ScalarFunction.ADD, clamped_total, Constant(_BEYOND_TOTALS + unit // 2, Wide.INTEGER))
    quotient = apply(ScalarFunction.DIVIDE_WIDE, shifted, Constant(unit, Wide.INTEGER))
    return apply(ScalarFunction.SUBTRACT, quotient, Constant(_BEYOND_TOTALS // unit, Wide.INTEGER))


def encode_keys(bounded_plan: BoundedPlan, rows: CountedRows) -> CountedRows:
    """Encode the keys that are one of a few public texts: they are hashed and stored several times."""
    codes = {
        name: tuple(sorted(map(str, key.domain.values)))  # so that codes are ordered as their texts are
        for name, key in zip(rows.keys, bounded_plan.plan.keys, strict=True)
        if key.domain.type is Type.TEXT and key.domain.values and len(key.domain.values) <= _MAX_CODES
    }
    columns = tuple(
        (name, apply(ScalarFunction.GROUP_CODE, scalar, detail=codes[name]) if name in codes else scalar)
        for name, scalar in rows.select.columns
    )
    return replace(rows, select=replace(rows.select, columns=columns), codes=codes)


def decode_keys(rows: CountedRows, statement: StagedSelect) -> StagedSelect:
    if not rows.codes:
        return statement
    return replace(statement, result=Select((*rows.decoded_keys, *unrenamed_columns(rows.values)), statement.result))


def add_up_rows(rows: CountedRows) -> tuple[Select, dict[str, Scalar]]:
    """Add up each value in the groups of rows, ignoring units.

    Values that are equal in every row are added up once. The total of high − x is high times the number of rows with x,
    less the total of x: the same whole number, for which nothing needs to be added up again.
    """
    if rows.cells:
        return group_rows_into_cells(rows.select, rows.values, rows.cells)
    scalars = dict(rows.select.columns)
    first_names = {scalars[name]: name for name in reversed(rows.values)}
    columns = {name: scalars[name] for name in rows.keys}
    totals: dict[str, Scalar] = {}
    for name in rows.values:
        mirrored = _split_complement(scalars[name])
        if name in rows.ones:
            totals[name] = to_wide_integer(GroupTotal(AggregateFunction.COUNT))
        elif mirrored is None or mirrored[0] not in first_names:
            columns[first_names[scalars[name]]] = scalars[name]
            totals[name] = or_zero(sum_of_contributions(first_names[scalars[name]]))
        else:
            value, presence, high = mirrored
            columns[f"d{name[1:]}"] = presence
            present_rows = to_wide_integer(GroupTotal(AggregateFunction.COUNT, Reference(f"d{name[1:]}")))
            upper_total = apply(ScalarFunction.MULTIPLY, present_rows, Constant(high, Wide.INTEGER))
            totals[name] = apply(
                ScalarFunction.SUBTRACT, upper_total, or_zero(sum_of_contributions(first_names[value]))
            )
    return replace(rows.select, columns=tuple(columns.items()) or (("c", integer_constant(0)),)), totals


def _split_complement(scalar: Scalar) -> tuple[Scalar, Scalar, int] | None:
    """Split "high − x where a test holds, else 0" into "x where it holds, else 0", a scalar that is present where it
    holds, and high.
    """
    match scalar:
        case Apply(
            ScalarFunction.CASE,
            (test, Apply(ScalarFunction.SUBTRACT, (Constant(int(high)), x)), Constant(0) as zero),
        ):
            value = apply(ScalarFunction.CASE, test, x, zero)
            match test:
                case Apply(ScalarFunction.NOT, (Apply(ScalarFunction.IS_NULL, (tested,)),)):
                    return value, tested, high
            return value, apply(ScalarFunction.CASE, test, integer_constant(1)), high
    return None


def sum_of_contributions(name: str) -> Scalar:
    """Add up single-row contributions, each of which 64 bits hold."""
    return GroupTotal(AggregateFunction.SUM_OF_NARROW, Reference(name))


def or_zero(total: Scalar) -> Scalar:
    return apply(ScalarFunction.COALESCE, total, Constant(0, Wide.INTEGER))
