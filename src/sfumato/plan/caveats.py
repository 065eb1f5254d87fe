"""Name, beside each number of an answer, the limits and bounds that can move it and that its ± does not cover.

Everything here follows from the plan and the policy: whether any row, value or cell lies beyond a limit is private, so
the words are the same whatever the data hold. A number is *moved* by a bound if a cell beyond it could change the
number: ``LEAST(cost, 100)`` is not moved by an upper bound of 5000, nor is ``age >= 40`` by bounds of 0 and 110.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field as declared_field
from enum import Flag, auto
from fractions import Fraction

from sfumato.plan.aggregates.measures import AggregateRequest, ReadingKind
from sfumato.plan.aggregates.unit_measures import (
    MAX_ROWS,
    RankingFunction,
    RunningAggregate,
    UnitDistinct,
    UnitGreatest,
    UnitLeast,
    UnitMeasure,
    UnitRowCount,
    UnitSum,
    WindowFunction,
)
from sfumato.plan.bounding import proven_rows_per_unit
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import (
    Aggregate,
    CombinedRows,
    LimitRowsPerUnit,
    PerUnit,
    PublicJoin,
    Query,
    Scan,
    Union,
    Unnest,
    Window,
    relations,
)
from sfumato.plan.noisy_rows import (
    Finish,
    NoisyJoin,
    NoisyRelation,
    NoisySelect,
    NoisySource,
    NoisyUnion,
    OuterSelect,
    WithScalars,
)
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Field,
    Literal,
    NoisyColumn,
    Result,
    WindowResult,
    columns,
)
from sfumato.plan.values.narrowing import as_comparison
from sfumato.plan.warnings import VALUE_READINGS, UndeclaredValueWarnings
from sfumato.policy import Domain, Policy, Value, Via
from sfumato.policy.domains import describe_range
from sfumato.privacy.numbers import format_exact
from sfumato.quick_dataclass import dataclass

NOT_COVERED = "± does not cover these effects"
"""How the line of every column with a ± ends."""


class ClampedEnds(Flag):
    """The ends of a range beyond which a value is moved to the end itself."""

    NONE = 0
    LOW = auto()
    HIGH = auto()
    BOTH = LOW | HIGH


@dataclass(frozen=True)
class RowLimits:
    """What one unit may contribute, in the words of the policy."""

    limits: ContributionLimits
    unit: str
    """What one unit is called, such as "patient"."""
    groups: int | None = None
    """The number of groups of the answer; None where it is not known before the data are read."""
    reweights: bool = False
    """Whether totals are reweighted, which limits the rows of a unit in all groups together."""
    account_period: str = ""
    """The period of one account, such as "month"; empty where one account holds all rows."""
    account_columns: frozenset[tuple[str, str | None]] = frozenset()
    """The table and name of each column that says to which account a row belongs."""
    possible: Mapping[tuple[str, str], tuple[Value, Value]] = declared_field(default_factory=dict)
    """The outer range of each column that declares one, by table and name."""
    missing_ids: Mapping[str, str] = declared_field(default_factory=dict)
    """What names the unit of a row, by table, where the policy does not say that every row has it."""
    matches: bool = False
    """Whether distinct values are matched to units, a few to each."""

    @classmethod
    def from_policy(
        cls, limits: ContributionLimits, policy: Policy, groups: int | None, joined_strategies: str
    ) -> RowLimits:
        """Return the limits of an answer that was bought under these strategies, that of its totals first."""
        unit, reweights = policy.unit, joined_strategies.partition("; ")[0] == Strategy.REWEIGHT.value
        matches = Strategy.MATCH.value in joined_strategies.split("; ")
        account_columns = frozenset((table, policy.period_column(table)) for table in policy.tables if policy.per)
        name = unit.name if unit.period is None else f"{unit.name}-{unit.period}"
        possible = {
            (table, column): rules.possible
            for table, declared in policy.tables.items()
            for column, rules in declared.rules.items()
            if rules.possible is not None
        }
        missing_ids = {table: unit_id for table in policy.tables if (unit_id := _id_that_may_be_missing(policy, table))}
        return cls(limits, name, groups, reweights, policy.per or "", account_columns, possible, missing_ids, matches)

    def limits_groups(self, measure: AggregateRequest) -> bool:
        """Return whether a unit counts in a limited number of groups, and of rows in each."""
        return not (self.reweights and measure.reads is ReadingKind.TOTALS)

    @property
    def max_groups(self) -> int | None:
        """The most groups of one unit that count; None where the answer has no more."""
        return None if self.groups is not None and self.groups <= self.limits.groups else self.limits.groups


def _id_that_may_be_missing(policy: Policy, table: str) -> str:
    """Return what names the unit of a table's rows, unless the policy declares it as a column that is not nullable."""
    declared = policy.tables[table]
    if declared.public or declared.every_row:
        return ""
    is_path = isinstance(declared.id, Via)
    column = str(declared.id.on if is_path else declared.id)
    domain = next((domain for name, domain in declared.columns.items() if name.lower() == column.lower()), None)
    if domain is None or domain.nullable:
        return "an owner" if is_path else column
    return "an owner" if is_path and _id_that_may_be_missing(policy, declared.id.via) else ""


def caveat_by_column(query: Query, row_limits: RowLimits) -> dict[str, str]:
    """Return one line for each column of an answer that limits, bounds or undeclared values can move."""
    return _caveat_line_by_column(_result_indices_by_output(query), list(_phrases_by_result(query, row_limits)))


def published_caveat_by_column(query: Query, limits: str) -> dict[str, str]:
    """Return the lines of an answer from a published object, which knows the limits on a unit's rows in words alone;
    these are empty where all rows count.
    """
    limited = (f"rows beyond the limits ({limits}) count less or not at all",) if limits else ()
    phrases = _phrases_by_result(query, RowLimits(query.plan.limits, "unit"))
    return _caveat_line_by_column(
        _result_indices_by_output(query), [(result_phrases, (*common, *limited)) for result_phrases, common in phrases]
    )


def combined_caveat_by_column(combined: CombinedRows, row_limits: Sequence[RowLimits]) -> dict[str, str]:
    """Return the lines of an answer that combines several queries: a column has those of all that it reads."""
    by_result: list[_ResultPhrases] = []
    sources: list[list[list[int]]] = []
    for query, limits in zip(combined.queries, row_limits, strict=True):
        first = len(by_result)
        sources.append(
            [[first + result for result in results] for results in _result_indices_by_output(query).values()]
        )
        by_result += _phrases_by_result(query, limits)
    names = [output.name for output in combined.rows.select.finish.outputs]
    return _caveat_line_by_column(
        dict(zip(names, _combined_result_indices(combined.rows, sources), strict=True)), by_result
    )


_ResultPhrases = tuple[tuple[str, ...], tuple[str, ...]]
"""What moves one result by itself, and what moves all results of its query."""


def without_coverage_note(line: str) -> str:
    """Return the line of a column that has no ±."""
    return line.removesuffix(f"; {NOT_COVERED}")


def contains_warning(lines: Iterable[str], warning: str) -> bool:
    """Return whether one of these lines says what a warning says."""
    phrase = _as_phrase(warning)
    return any(f"; {phrase}; " in f"; {line}; " for line in lines)


def _phrases_by_result(query: Query, row_limits: RowLimits) -> Iterator[_ResultPhrases]:
    plan = query.plan
    common = (*_tree_limit_phrases(plan, row_limits), *_phrases_for_all_results(query, row_limits))
    for measure in plan.measures:
        yield (
            (*_unit_limit_phrases(plan, measure, row_limits), *_operand_phrases(plan, measure, row_limits)),
            common,
        )


def _caveat_line_by_column(
    result_indices_by_output: Mapping[str, list[int]], by_result: Sequence[_ResultPhrases]
) -> dict[str, str]:
    lines = {}
    for name, indices in result_indices_by_output.items():
        of_results = (phrase for index in indices for phrase in by_result[index][0])
        of_queries = (phrase for index in indices for phrase in by_result[index][1])
        phrases = dict.fromkeys((*of_results, *of_queries))
        if phrases:
            lines[name] = "; ".join((*phrases, NOT_COVERED))
    return lines


def _combined_result_indices(relation: NoisyRelation, sources: Sequence[list[list[int]]]) -> list[list[int]]:
    """Return the results that each column of combined rows is computed from, numbered over all queries."""
    match relation:
        case NoisySource(index):
            return sources[index]
        case NoisySelect(below, select):
            inner = dict(enumerate(_combined_result_indices(below, sources)))
            return list(_outer_result_indices(select, inner).values())
        case NoisyJoin(left, right):
            return [*_combined_result_indices(left, sources), *_combined_result_indices(right, sources)]
        case NoisyUnion(members):
            united = zip(*(_combined_result_indices(member, sources) for member in members), strict=True)
            return [sorted({result for results in column for result in results}) for column in united]
        case WithScalars(below, scalars):
            added = (_combined_result_indices(scalar, sources)[0] for scalar in scalars)
            return [*_combined_result_indices(below, sources), *added]


def _result_indices_by_output(query: Query) -> dict[str, list[int]]:
    """Return the results that each column of the answer is computed from, by their indices."""
    behind = _output_result_indices(query.finish, {})
    below = query.finish
    for outer in query.outer:
        behind = _outer_result_indices(
            outer, {index: behind[output.name] for index, output in enumerate(below.outputs)}
        )
        below = outer.finish
    return behind


def _outer_result_indices(outer: OuterSelect, inner: dict[int, list[int]]) -> dict[str, list[int]]:
    """Return the results behind each column of a SELECT over rows whose columns are computed from these."""
    totals = {
        index: sorted(
            {
                result
                for part in (total.argument, total.where)
                if part is not None
                for result in _result_indices_in(part, inner, {})
            }
            or _all_result_indices(inner)
        )
        for index, total in enumerate(outer.totals)
    }
    return _output_result_indices(outer.finish, inner, totals if outer.grouped else None)


def _all_result_indices(by_column: dict[int, list[int]]) -> set[int]:
    return {result for results in by_column.values() for result in results}


def _output_result_indices(
    finish: Finish, inner: dict[int, list[int]], totals: dict[int, list[int]] | None = None
) -> dict[str, list[int]]:
    windows = {
        index: sorted(
            {
                result
                for part in (window.argument, *window.partition, *(term.expression for term in window.order))
                if part is not None
                for result in _result_indices_in(part, inner, {}, totals)
            }
        )
        for index, window in enumerate(finish.windows)
    }
    return {
        output.name: sorted(_result_indices_in(output.expression, inner, windows, totals)) for output in finish.outputs
    }


def _result_indices_in(
    expression: Expression,
    inner: dict[int, list[int]],
    windows: dict[int, list[int]],
    totals: dict[int, list[int]] | None = None,
) -> set[int]:
    result_indices: set[int] = set()
    for reference in columns(expression):
        if isinstance(reference, Result):
            result_indices |= {reference.index} if totals is None else set(totals[reference.index])
        elif isinstance(reference, NoisyColumn):
            result_indices |= set(inner[reference.index])
        elif isinstance(reference, WindowResult):
            result_indices |= set(windows.get(reference.index, ()))
    return result_indices


def _unit_limit_phrases(plan: Aggregate, measure: AggregateRequest, row_limits: RowLimits) -> Iterator[str]:
    """Name the limits on what one unit adds to a measure; none where all its rows count."""
    limits, unit = row_limits.limits, row_limits.unit
    if proven_rows_per_unit(plan.source) is not None and (
        proven_rows_per_unit(plan.source) == 1 or not measure.once_per_unit
    ):
        return
    max_groups = row_limits.max_groups if plan.keys else None
    if measure.once_per_unit:
        if max_groups is not None:
            yield f"one {unit} counts in at most {count_with_noun(max_groups, 'group')}"
        return
    if row_limits.matches and measure.reads is ReadingKind.DIFFERENT:
        yield f"one {unit} counts for a limited number of values, so values that few units have may be missed"
        return
    if not can_limits_drop_rows(plan, limits):
        return
    rows = limits.rows if plan.keys else min(limits.rows, limits.rows_per_group)
    alternatives = [f"{rows:,} per {unit}"]
    if plan.keys and row_limits.limits_groups(measure):
        if max_groups is not None and max_groups < rows:
            alternatives.append(count_with_noun(max_groups, "group"))
        if limits.rows_per_group < rows:
            alternatives.append(f"{limits.rows_per_group:,} in one group")
    yield f"rows beyond the limit of {_join_with_or(alternatives)} count less or not at all"


def limit_phrases(plan: Aggregate, measure: AggregateRequest, row_limits: RowLimits) -> frozenset[str]:
    """Return the phrases of one result that name a limit on rows, or a bound or outer range of its own value."""
    value = [] if measure.value is None else [measure.value]
    return frozenset(
        (
            *_unit_limit_phrases(plan, measure, row_limits),
            *_tree_limit_phrases(plan, row_limits),
            *_bound_phrases(plan, value, row_limits),
            *_outer_range_phrases(plan, (*plan.expressions, *_row_deciding_expressions(plan)), row_limits),
        )
    )


def caveat_phrases_by_result(query: Query, row_limits: RowLimits) -> list[frozenset[str]]:
    """Return what moves each result of a query, by itself or with all others."""
    return [frozenset((*result_phrases, *common)) for result_phrases, common in _phrases_by_result(query, row_limits)]


def can_value_clipping_change_rows(plan: Aggregate, measure: AggregateRequest) -> bool:
    """Return whether a bound can move which rows a result is computed from, or their group."""
    where = () if measure.where is None else (measure.where,)
    return bool(_clipping_columns(plan, (*_row_deciding_expressions(plan), *plan.keys, *where)))


def can_limits_drop_rows(plan: Aggregate, limits: ContributionLimits) -> bool:
    """Return whether a unit may have rows that do not count: the plan does not prove that it has few."""
    proven_rows = plan.source.max_rows_per_unit
    is_proven = proven_rows is not None and proven_rows <= min(limits.total, limits.rows_per_group, limits.groups)
    return proven_rows_per_unit(plan.source) is None and not is_proven


def _tree_limit_phrases(plan: Aggregate, row_limits: RowLimits) -> Iterator[str]:
    """Name the limits inside the tree: of possible rows, of rows below a join, and of list items; and missing ids."""
    unit = row_limits.unit
    for node in relations(plan.source):
        if isinstance(node, Scan):
            if node.possible_rows is not None:
                yield f"rows beyond the first {node.possible_rows:,} of each {unit} are left out"
            if node.table in row_limits.missing_ids:
                yield f"rows without {row_limits.missing_ids[node.table]} are left out"
        elif isinstance(node, LimitRowsPerUnit):
            yield f"at most {count_with_noun(node.rows, 'row')} per {unit} and table can be joined"
        elif isinstance(node, Unnest):
            yield f"items of {node.items.name} beyond the first {node.most:,} do not count"


def _operand_phrases(plan: Aggregate, measure: AggregateRequest, row_limits: RowLimits) -> Iterator[str]:
    """Name the bounds and undeclared values that a measure's own value and condition are moved by."""
    operands = [operand for operand in (measure.value, measure.where) if operand is not None]
    yield from _bound_phrases(plan, operands, row_limits)
    yield from _outer_range_phrases(plan, operands, row_limits)
    undeclared = _undeclared_value_warnings(plan)
    if measure.where is not None:
        yield from map(_as_phrase, undeclared.left_out_row_warnings(measure.where, positive=True))
    if measure.value is not None and measure.reads not in VALUE_READINGS:
        yield from (
            f"undeclared values of {column} do not count"
            for column in undeclared.columns_without_default(measure.value)
        )
    elif measure.value is not None:
        yield from map(_as_phrase, undeclared.uncounted_row_warnings([measure.value]))


def _phrases_for_all_results(query: Query, row_limits: RowLimits) -> Iterator[str]:
    """Name what moves every number: conditions, joins and keys on columns that are bounded or have declared values."""
    plan = query.plan
    tree = _row_deciding_expressions(plan)
    yield from _bound_phrases(plan, (*tree, *plan.keys), row_limits)
    yield from _outer_range_phrases(plan, (*tree, *plan.keys), row_limits)
    undeclared = _undeclared_value_warnings(plan)
    yield from (
        _as_phrase(sentence)
        for expression in tree
        for sentence in undeclared.left_out_row_warnings(expression, positive=True)
    )
    nullable_keys = [key for key in plan.keys if key.domain.nullable]
    yield from (
        f"undeclared values of {column} count as missing"
        for key in nullable_keys
        for column in undeclared.columns_without_default(_key_over_rows(plan, key))
    )
    if query.finish.sets or query.outer:  # the groups themselves count the right rows
        yield from map(_as_phrase, undeclared.ungrouped_row_warnings(plan.keys))


def _key_over_rows(plan: Aggregate, key: Expression) -> Expression:
    """Return a key that is one value of a unit as that value of its rows: columns of the plan's own have no name."""
    if not isinstance(key, Column):
        return key
    values = {
        Field(node.source, "", name): result.value
        for node in relations(plan.source)
        if isinstance(node, PerUnit)
        for name, result in node.results
    }
    value = values.get(key.reference) if isinstance(key.reference, Field) else None
    return key if value is None else value


def _row_deciding_expressions(plan: Aggregate) -> list[Expression]:
    """Return the expressions that decide which rows there are; those of computed columns move only who reads them."""
    conditions: list[Expression] = []
    for node in relations(plan.source):
        if isinstance(node, PerUnit):
            conditions += [key for _, key in node.keys]
        elif not isinstance(node, (Window, Union)):
            conditions += node.expressions
    return conditions


def _undeclared_value_warnings(plan: Aggregate) -> UndeclaredValueWarnings:
    return UndeclaredValueWarnings(
        frozenset(node.source for node in relations(plan.source) if isinstance(node, PublicJoin))
    )


def _as_phrase(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:].removesuffix(".")


def clipping_columns(plan: Aggregate) -> dict[Field, tuple[Domain, ClampedEnds]]:
    """Return the private columns whose bounds can move some number of a question, and beyond which ends."""
    return _clipping_columns(plan, (*plan.expressions, *_row_deciding_expressions(plan)))


def _clipping_columns(plan: Aggregate, operands: Sequence[Expression]) -> dict[Field, tuple[Domain, ClampedEnds]]:
    """Return the private columns whose bounds can move one of these expressions, and beyond which ends.

    A column that is computed in the tree is moved by what its definition reads. Results over a unit's rows are also
    moved to the ends of the range that the limit on rows implies.
    """
    public = {node.source for node in relations(plan.source) if isinstance(node, PublicJoin)}
    derived = _derived_columns(plan)
    moving: dict[Field, tuple[Domain, ClampedEnds]] = {}
    pending, visited = list(reversed(operands)), set()
    while pending:
        for field, domain, ends in _columns_with_sensitive_ends(pending.pop()):
            definition = derived.get(field)
            if definition is not None:
                if field not in visited and (ends or not definition.keeps_values):
                    visited.add(field)
                    pending.extend(definition.operands)
                ends &= definition.capped
            if ends and field.source not in public:
                moving[field] = domain, ends | moving.get(field, (domain, ClampedEnds.NONE))[1]
    return moving


@dataclass(frozen=True)
class _DerivedColumn:
    """How a column is computed in the tree."""

    operands: tuple[Expression, ...]
    keeps_values: bool = False
    """Whether it is one of its operand's values, so that it is moved only where that is."""
    capped: ClampedEnds = ClampedEnds.NONE
    """The ends of its range that the limit on a unit's rows implies."""


def _derived_columns(plan: Aggregate) -> dict[Field, _DerivedColumn]:
    derived: dict[Field, _DerivedColumn] = {}
    for node in relations(plan.source):
        if isinstance(node, PerUnit):
            derived |= {Field(node.source, "", name): _DerivedColumn((key,), True) for name, key in node.keys}
            derived |= {Field(node.source, "", name): _derivation_of_result(result) for name, result in node.results}
        elif isinstance(node, Window):
            derived |= {
                Field(node.source, "", name): _derivation_of_result(function) for name, function in node.functions
            }
        elif isinstance(node, Union):
            for index, field in enumerate(node.columns):
                members = tuple(member_expressions[index] for _, member_expressions in node.members)
                derived[field] = _DerivedColumn(members, True)
    return derived


def _derivation_of_result(result: UnitMeasure | WindowFunction) -> _DerivedColumn:
    measure = result.measure if isinstance(result, RunningAggregate) else result
    if isinstance(measure, UnitRowCount) and measure is not result and measure.cap >= MAX_ROWS:
        return _DerivedColumn(result.expressions)  # of equal rows, by which a mode is found: only their order matters
    if isinstance(measure, (UnitRowCount, UnitDistinct, RankingFunction)):
        return _DerivedColumn(result.expressions, capped=ClampedEnds.HIGH)
    keeps_values = isinstance(measure, (UnitLeast, UnitGreatest)) and measure.where is None
    return _DerivedColumn(
        result.expressions, keeps_values, ClampedEnds.BOTH if isinstance(measure, UnitSum) else ClampedEnds.NONE
    )


def _bound_phrases(plan: Aggregate, operands: Sequence[Expression], row_limits: RowLimits) -> Iterator[str]:
    for field, (domain, ends) in _clipping_columns(plan, operands).items():
        if (field.table, field.name) in row_limits.account_columns:
            period = row_limits.account_period
            yield f"{beyond_bound_phrase(str(field), domain, ends)} does not count, except in the {period} of the bound"
            continue
        yield _bound_phrase(str(field) if field.table else _derived_name(plan, field), domain, ends)


def _outer_range_phrases(plan: Aggregate, operands: Sequence[Expression], row_limits: RowLimits) -> Iterator[str]:
    """Name the outer ranges of the columns that these expressions are computed from."""
    derived, pending, visited = _derived_columns(plan), list(reversed(operands)), set[Field]()
    while pending:
        for reference in columns(pending.pop()):
            if not isinstance(reference, Field) or reference in visited:
                continue
            visited.add(reference)
            pending.extend(derived[reference].operands if reference in derived else ())
            ends = row_limits.possible.get((reference.table, reference.name))
            if ends is not None:
                yield f"{reference} outside {describe_range(ends)} counts as missing"


def _derived_name(plan: Aggregate, field: Field) -> str:
    """Return the name of a column of the plan's own: what it is computed by, with tuples as they were typed."""
    units = (node for node in relations(plan.source) if isinstance(node, PerUnit) and node.source == field.source)
    result = next((result for node in units for name, result in node.results if name == field.name), None)
    value = result.value if isinstance(result, UnitDistinct) else None
    if isinstance(value, Call) and value.function == "||" and all(isinstance(part, Call) for part in value.arguments):
        return f"COUNT(DISTINCT {', '.join(map(str, columns(value)))}) per unit"
    return field.name


def _columns_with_sensitive_ends(expression: Expression) -> Iterator[tuple[Field, Domain, ClampedEnds]]:
    """Yield the columns of an expression with the ends of their bounds beyond which a cell could change its value."""
    if isinstance(expression, Column) and isinstance(expression.reference, Field):
        ends = ClampedEnds.NONE if expression.domain.bounds is None else ClampedEnds.BOTH
        yield expression.reference, expression.domain, ends
    if not isinstance(expression, Call):
        return
    unmoved = _insensitive_ends(expression)
    for argument in expression.arguments:
        for field, domain, ends in _columns_with_sensitive_ends(argument):
            yield field, domain, ends & ~unmoved if _is_column_or_clamped_column(argument) else ends


def _is_column_or_clamped_column(expression: Expression) -> bool:
    """Return whether it is a column, or the LEAST or GREATEST of one: it never falls where the column rises."""
    if isinstance(expression, Call) and expression.function in ("LEAST", "GREATEST", "CAST"):
        operands = [argument for argument in expression.arguments if not isinstance(argument, Literal)]
        return len(operands) == 1 and _is_column_or_clamped_column(operands[0])
    return isinstance(expression, Column)


def _insensitive_ends(call: Call) -> ClampedEnds:
    """Return the ends of a column's bounds beyond which a call of it and literals has the value that it has there."""
    column = next((argument for argument in call.arguments if _is_column_or_clamped_column(argument)), None)
    if column is None or column.domain.bounds is None:
        return ClampedEnds.NONE
    low, high = column.domain.bounds
    others = [argument.value for argument in call.arguments if isinstance(argument, Literal)]
    if call.function == "IS NULL":
        return ClampedEnds.BOTH
    if len(others) != len(call.arguments) - 1 or not all(_is_comparable(value, low) for value in others):
        return ClampedEnds.NONE
    if call.function == "LEAST":
        return ClampedEnds.HIGH if min(others) <= high else ClampedEnds.NONE  # type: ignore[type-var, operator]
    if call.function == "GREATEST":
        return ClampedEnds.LOW if max(others) >= low else ClampedEnds.NONE  # type: ignore[type-var, operator]
    return _insensitive_comparison_ends(call, low, high)


def _insensitive_comparison_ends(call: Call, low: Value, high: Value) -> ClampedEnds:
    """Return the ends beyond which a comparison holds exactly if it holds at the end.

    ``x >= t`` is the same for x beyond ``high`` if t ≤ high, and for x beyond ``low`` if t > low; ``x > t`` needs
    t < high and t ≥ low. Equality with values strictly inside is false beyond both ends.
    """
    comparison = as_comparison(call)
    if comparison is None:
        return ClampedEnds.NONE
    first, last = min(comparison.values), max(comparison.values)
    closed_high, open_low = last <= high, first > low
    if comparison.operator in (">=", "<"):
        is_high, is_low = closed_high, open_low
    elif comparison.operator in (">", "<="):
        is_high, is_low = last < high, first >= low
    else:
        is_high, is_low = last < high, open_low
    return (ClampedEnds.HIGH if is_high else ClampedEnds.NONE) | (ClampedEnds.LOW if is_low else ClampedEnds.NONE)


def _is_comparable(value: Value | None, end: Value) -> bool:
    is_number = isinstance(end, (int, Fraction))
    return value is not None and (isinstance(value, (int, Fraction)) if is_number else type(value) is type(end))


def _bound_phrase(name: str, domain: Domain, ends: ClampedEnds) -> str:
    assert domain.bounds is not None
    low, high = map(_format_bound, domain.bounds)
    replacement = f"{low} or {high}" if ends is ClampedEnds.BOTH else low if ends is ClampedEnds.LOW else high
    return f"{beyond_bound_phrase(name, domain, ends)} counts as {replacement}"


def beyond_bound_phrase(name: str, domain: Domain, ends: ClampedEnds) -> str:
    """Describe the values of a column that lie beyond these ends of its bounds."""
    assert domain.bounds is not None
    low, high = map(_format_bound, domain.bounds)
    if ends is ClampedEnds.BOTH:
        return f"{name} outside {describe_range(domain.bounds)}"
    return f"{name} below {low}" if ends is ClampedEnds.LOW else f"{name} above {high}"


def _format_bound(bound: Value) -> str:
    return format_exact(Fraction(bound)) if isinstance(bound, (int, Fraction)) else str(bound)


def _join_with_or(alternatives: Sequence[str]) -> str:
    *others, last = alternatives
    return f"{', '.join(others)} or {last}" if others else last
