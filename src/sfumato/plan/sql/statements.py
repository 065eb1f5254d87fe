"""Lower a SELECT over private tables to a query: the requested aggregates, and the post-processing of their results.

Medians, quantiles, MIN and MAX are lowered here, in every spelling; a list of probabilities becomes several columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Count,
    DistinctUnits,
    Mean,
    ReadingKind,
    Sum,
    conjunction,
    not_null_predicate,
    value_range,
)
from sfumato.plan.aggregates.spread import (
    CorrelationOfPairs,
    CovarianceOfPairs,
    RegressionOfPairs,
    Variance,
    and_not_null,
)
from sfumato.plan.aggregates.value_measures import MOST_FREQUENT, DistinctValues, FrequentValue
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.costs import check_cost
from sfumato.plan.nodes import Aggregate, Query
from sfumato.plan.noisy_rows import Finish, NoisyWindow, Output
from sfumato.plan.quoting import quoted
from sfumato.plan.sharing import with_requests_as_measures
from sfumato.plan.sql.dialect import function_name
from sfumato.plan.sql.grouping import Grouping, expand_pivots, lower_grouping
from sfumato.plan.sql.noisy_relations import combines_noisy_rows, lower_combined
from sfumato.plan.sql.noisy_windows import lower_noisy_window, window_result_column
from sfumato.plan.sql.outer import (
    MAX_COLUMNS,
    check_noisy_functions,
    has_aggregates,
    inner_aggregate_select,
    lower_order_by,
    lower_outer_select,
    parse_row_count,
)
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.sql.public_tables import inline_public_subqueries
from sfumato.plan.sql.quantiles import RANKED, lower_quantile, lower_quantiles, probability_list
from sfumato.plan.sql.released_scalars import lower_with_released_scalars
from sfumato.plan.sql.row_refusals import row_window_refusal, unsupported_aggregate_refusal
from sfumato.plan.sql.row_sources import RowSource
from sfumato.plan.sql.rows import lower_condition, lower_rows
from sfumato.plan.sql.sql_expressions import Read, cached_lowering, lower_expression, lower_with
from sfumato.plan.sql.text import parse_select as parse_text, strip_database
from sfumato.plan.sql.text_positions import default_column_name, node_text, refusal_at
from sfumato.plan.sql.unit_aggregates import counted_nodes, lower_distinct_tuple
from sfumato.plan.sql.unit_joins import period_expressions_of, period_sql
from sfumato.plan.values.expressions import (
    Column,
    Expression,
    GroupingFlag,
    Key,
    Literal,
    Result,
    columns,
)
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.declaring import AS_NUMBER
from sfumato.policy import Domain, Type

_CLAUSES = {
    "expressions",
    "from_",
    "joins",
    "where",
    "with_",
    "group",
    "having",
    "qualify",
    "order",
    "limit",
    "offset",
    "distinct",
}
_VARIANCES: dict[type, Callable[[Expression, Expression | None], AggregateRequest]] = {
    exp.Variance: lambda value, where: Variance(value, True, False, where),
    exp.VariancePop: lambda value, where: Variance(value, False, False, where),
    exp.Stddev: lambda value, where: Variance(value, True, True, where),
    exp.StddevSamp: lambda value, where: Variance(value, True, True, where),
    exp.StddevPop: lambda value, where: Variance(value, False, True, where),
}
_PAIR_AGGREGATES: dict[type, Callable[[Expression, Expression, Expression | None], AggregateRequest]] = {
    exp.CovarPop: lambda y, x, where: CovarianceOfPairs(y, x, where, False),
    exp.CovarSamp: lambda y, x, where: CovarianceOfPairs(y, x, where, True),
    exp.Corr: lambda y, x, where: CorrelationOfPairs(y, x, where, False),
    exp.RegrR2: lambda y, x, where: CorrelationOfPairs(y, x, where, True),
    exp.RegrSlope: lambda y, x, where: RegressionOfPairs(y, x, where, False),
    exp.RegrIntercept: lambda y, x, where: RegressionOfPairs(y, x, where, True),
    exp.RegrCount: lambda y, x, where: Mean(x, and_not_null(where, y)).rows,
    exp.RegrAvgx: lambda y, x, where: Mean(x, and_not_null(where, y)),
    exp.RegrAvgy: lambda y, x, where: Mean(y, and_not_null(where, x)),
}
_ARGUMENTS = {"this", "expression", "expressions", "quantile", "count", "big_int"}
"""The parts of an aggregate that are read: all others are options that mean nothing here."""
_AGGREGATES = (
    exp.Count,
    exp.CountIf,
    exp.Sum,
    exp.Avg,
    exp.Mode,
    exp.ApproxDistinct,
    *_VARIANCES,
    *_PAIR_AGGREGATES,
    *RANKED,
)
_MAX_BITS = 30
_LARGEST_MOMENT = 10**150
"""The largest moment of one row: far below the largest double, so that no function of their sums overflows."""


def parse(text: object, catalog: Catalog, parameters: Parameters | None = None) -> Query:
    """Return the query that a text means, or raise ``Unsupported``: decided from text, parameter values and policy
    alone.
    """
    return lower_query(parse_text(text, parameters, catalog.column_names()), catalog)


def lower_query(statement: exp.Select, catalog: Catalog) -> Query:
    """Return the query that a parsed statement means."""
    strip_database(statement, catalog.databases)
    try:
        inlined = inline_public_subqueries(statement, catalog)
        return lower_with_released_scalars(inlined, catalog, lambda select: _lower_query(select, catalog))
    except RecursionError:
        raise Unsupported(
            "too-deep", "the question is nested too deeply", fix="use fewer nested subqueries, for example with WITH"
        ) from None


def _lower_query(select: exp.Select, catalog: Catalog) -> Query:
    select = expand_pivots(select, catalog, lambda probe: _lower_query(probe, catalog))
    if combines_noisy_rows(select, catalog):
        return lower_combined(select, catalog, lambda leaf: _lower_query(leaf, catalog))
    inner_select = inner_aggregate_select(select, catalog)
    return (
        _lower_select(select, catalog)
        if inner_select is None
        else lower_outer_select(select, _lower_query(inner_select, catalog))
    )


def _lower_select(select: exp.Select, catalog: Catalog) -> Query:
    """Lower a SELECT that reads rows of tables."""
    for part, value in select.args.items():
        if value and part not in _CLAUSES:
            raise refusal_at(
                select,
                "clause",
                f"{part.strip('_').upper()} is not supported here",
                "use SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, QUALIFY, ORDER BY, LIMIT",
            )
    _check_column_count(select, len(select.expressions))
    source = lower_rows(select, catalog, {})
    building = _SelectBuilder(source, lower_grouping(select, source), has_aggregates(select))
    building.aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    columns = [(item, output) for item in select.expressions for output in _lower_outputs(item, building)]
    _check_column_count(select, len(columns))
    outputs = tuple(output for _, output in columns)
    for index, (item, output) in enumerate(columns):
        if output.name.lower() in {other.name.lower() for other in outputs[:index]}:
            raise refusal_at(item, "duplicate-column", f"two columns are named {output.name}", "rename one with AS")
    aliased_outputs = [
        (item.unalias(), output) for item, output in columns if isinstance(item, exp.Alias) or _is_measure_list(item)
    ]
    building.outputs = {output.name.lower(): (node, output.expression) for node, output in aliased_outputs}
    finish = _lower_finish(select, building, outputs)
    if not building.measures and (building.sets or not (building.keys and has_aggregates(select))):
        raise refusal_at(
            select,
            "no-aggregate",
            "a question needs an aggregate: answers are counts, sums and averages, never rows",
            "select COUNT(*), SUM(…) or AVG(…) instead",
        )
    plan = Aggregate(source.relation, building.keys, tuple(building.measures))
    check_cost(with_requests_as_measures(plan))
    _check_subtotals(select, building)
    return Query(plan, finish)


def _check_column_count(select: exp.Select, count: int) -> None:
    if count > MAX_COLUMNS:
        rule = f"an answer can have at most {MAX_COLUMNS} columns"
        raise refusal_at(select, "too-many-columns", rule, "split it into two questions")


class _SelectBuilder:
    """The keys and measures of a SELECT, collected while its columns are lowered."""

    def __init__(self, source: RowSource, grouped: Grouping, aggregated: bool) -> None:
        self.source, self.keys, self.sets = source, grouped.keys, grouped.sets
        self.aggregated = aggregated
        """Whether windows are over groups: else they would be over rows of the table."""
        self.measures: dict[AggregateRequest, Column] = {}
        self.windows: dict[NoisyWindow, Column] = {}
        self.aliases: dict[str, exp.Expr] = {}
        """The definitions of the answer's own names in lower case."""
        self.outputs: dict[str, tuple[exp.Expr, Expression]] = {}
        """The answer's own names in lower case: the tree of each, and what it was lowered to."""
        self._named = {key: Column(Key(index), self._key_output_domain(index)) for index, key in enumerate(self.keys)}
        self.attempt = cached_lowering(source.resolve)

    def _key_output_domain(self, index: int) -> Domain:
        """Return the domain of a key in the answer: nullable if a grouping set lacks it."""
        domain = self.keys[index].domain
        return replace(domain, nullable=domain.nullable or any(index not in grouping_set for grouping_set in self.sets))

    def measure_column(self, request: AggregateRequest) -> Column:
        """Return the column of a measure; equal measures share one."""
        return self.measures.setdefault(
            request, Column(Result(len(self.measures), request.noise_count), request.result)
        )

    def key_column(
        self, node: exp.Expr, attempt: Callable[[exp.Expr], Expression | None] | None = None
    ) -> Column | None:
        """Return the key that this node is, if it is one."""
        if not self.keys or not isinstance(node, (exp.Condition, exp.Func)) or isinstance(node, exp.Literal):
            return None
        lowered = (attempt or self.attempt)(node)
        return None if lowered is None else self._named.get(lowered)

    def alias_definition(self, node: exp.Expr) -> exp.Expr | None:
        """Return what an output is defined as, for its name in another one; a column of a table comes first.

        It must not use such names itself: each would be lowered again and again.
        """
        if not isinstance(node, exp.Column) or node.table or self.attempt(node) is not None:
            return None
        definition = self.aliases.get(node.name.lower(), node)
        names = {column.name.lower() for column in definition.find_all(exp.Column) if self.attempt(column) is None}
        return None if names & self.aliases.keys() else definition

    def lower_grouping_flags(self, node: exp.Expr) -> Expression:
        """Lower GROUPING(a, b): one binary digit for each key, 1 where a row is a subtotal over it."""
        grouped_keys = [self.key_column(argument) for argument in node.expressions]
        if not grouped_keys or None in grouped_keys or len(grouped_keys) > _MAX_BITS:
            rule = f"GROUPING takes at most {_MAX_BITS} columns, all from GROUP BY"
            raise refusal_at(node, "grouping", rule, "write GROUPING(<column of GROUP BY>)")
        bits: Expression = literal(Type.INTEGER, 0)
        for key_column in grouped_keys:
            assert key_column is not None
            assert isinstance(key_column.reference, Key)
            bit = Column(GroupingFlag(key_column.reference.index), Domain(Type.INTEGER, bounds=(0, 1)))
            bits = bit if len(grouped_keys) == 1 else call("+", call("*", bits, literal(Type.INTEGER, 2)), bit)
        return bits

    def alias_lowering(self) -> Callable[[exp.Expr], Expression | None]:
        """Return a lowering of row expressions in which the answer's own names stand for their definitions."""

        def resolve(qualifier: str | None, name: str) -> Expression:
            aliased_output = None if qualifier is not None else self.outputs.get(name.lower())
            if aliased_output is None:
                return self.source.resolve(qualifier, name)
            lowered = self.attempt(aliased_output[0])
            if lowered is None:
                rule = "an aggregate or window function is not allowed here: this clause is evaluated row by row"
                raise Unsupported("part", rule, fix="use it in SELECT, or in HAVING if it is an aggregate")
            return lowered

        return cached_lowering(resolve)


def _lower_outputs(item: exp.Expr, building: _SelectBuilder) -> tuple[Output, ...]:
    """Lower an item of SELECT; a list of measures becomes a column for each, with its suffix in the name."""
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
        raise refusal_at(
            item,
            "star",
            "rows are never shown, so * can only be used in COUNT(*)",
            "select COUNT(*), SUM(…) or AVG(…) instead",
        )
    if _is_measure_list(inner):
        name, measures = _lower_measure_list(inner, building.source)
        name = item.alias if isinstance(item, exp.Alias) else name
        return tuple(Output(f"{name}_{ending}", building.measure_column(measure)) for ending, measure in measures)
    name = item.alias_or_name if isinstance(item, (exp.Alias, exp.Column)) else default_column_name(inner)
    return (Output(name, _lower_finish_expression(inner, building)),)


def _is_measure_list(node: exp.Expr) -> bool:
    """Return whether a node is a list of measures: quantiles at several probabilities, or most frequent values."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.ApproxTopK) or probability_list(inner) is not None


def _lower_measure_list(node: exp.Expr, source: RowSource) -> tuple[str, Iterable[tuple[str, AggregateRequest]]]:
    """Lower a list of measures: its default name, and each measure with the suffix of its column."""
    aggregate, where = node.this if isinstance(node, exp.Filter) else node, _lower_filter(node, source)
    if isinstance(aggregate, exp.ApproxTopK):
        return "top", _lower_top_k(aggregate, where, source)
    _check_aggregate_arguments(aggregate)
    return "quantile", lower_quantiles(aggregate, where, lambda value: lower_expression(value, source.resolve))


def _lower_top_k(
    node: exp.ApproxTopK, where: Expression | None, source: RowSource
) -> Iterable[tuple[str, AggregateRequest]]:
    """Lower APPROX_TOP_K(x, k): the k most frequent values, best first, named by their ranks."""
    count = node.args.get("expression")
    k = int(count.this) if isinstance(count, exp.Literal) and count.is_int and len(count.this) < 4 else 0
    if not 1 <= k <= MOST_FREQUENT or node.args.get("counters"):
        rule = f"APPROX_TOP_K takes a column and a number of values from 1 to {MOST_FREQUENT}"
        raise refusal_at(node, "top-k", rule, f"write APPROX_TOP_K({node_text(node.this)}, 3)")
    value = lower_expression(node.this, source.resolve)
    _check_not_constant(value, node)
    return [(str(rank + 1), FrequentValue(value, k, rank, where)) for rank in range(k)]


def _lower_finish_expression(
    node: exp.Expr, building: _SelectBuilder, *, renamed: bool = False, windows: bool = True
) -> Expression:
    """Lower an expression over keys and measures: each key or aggregate is a column, and the rest is computed from
    them.

    With ``renamed``, the answer's own names stand for their definitions.
    """
    attempt = building.alias_lowering() if renamed else None

    def lower_part(part: exp.Expr, read: Read) -> Expression | None:
        if _is_measure_list(part):
            rule = f"{node_text(part)} returns several columns, so it cannot be part of an expression"
            raise refusal_at(
                part, "list", rule, "select it on its own, and compute with its columns in an outer SELECT"
            )
        if isinstance(part, (exp.Filter, exp.WithinGroup, *_AGGREGATES)):
            return building.measure_column(_lower_aggregate(part, building.source))
        if isinstance(part, (exp.Grouping, exp.GroupingId)):
            return building.lower_grouping_flags(part)
        if isinstance(part, exp.Window) and building.aggregated and windows:
            window, domain = lower_noisy_window(part, read)
            return window_result_column(building.windows, window, domain)
        if isinstance(part, exp.Window) and not windows:
            rule = "HAVING is evaluated before window functions, so it cannot contain one"
            raise refusal_at(part, "window", rule, "use QUALIFY instead of HAVING")
        if isinstance(part, exp.Window):
            raise row_window_refusal(part, building.source)
        if isinstance(part, (exp.AggFunc, exp.First, exp.Last, exp.IgnoreNulls, exp.RespectNulls)):
            raise unsupported_aggregate_refusal(part, building.source)
        if renamed and isinstance(part, exp.Column) and not part.table and part.name.lower() in building.outputs:
            return building.outputs[part.name.lower()][1]
        key = building.key_column(part, attempt)
        definition = None if key is not None else building.alias_definition(part)
        if definition is not None and definition is not part:
            return read(definition)
        return key or (_refuse_ungrouped(part, building) if isinstance(part, exp.Column) else None)

    lowered = lower_with(node, lower_part)
    check_noisy_functions(lowered, node)
    return lowered


def _check_subtotals(select: exp.Select, building: _SelectBuilder) -> None:
    """Refuse subtotals that are not sums of their groups: a unit may be in several groups."""
    if (
        building.sets
        and building.source.relation.max_rows_per_unit != 1
        and any(measure.once_per_unit for measure in building.measures)
    ):
        raise refusal_at(
            select.args["group"],
            "subtotals-of-units",
            "COUNT(DISTINCT …) of units has no subtotals: a unit in several groups counts once in their total",
            "use COUNT(*), or ask one question for each grouping",
        )
    if building.sets and any(measure.reads is not ReadingKind.TOTALS for measure in building.measures):
        raise refusal_at(
            select.args["group"],
            "subtotals-of-ranks",
            "quantiles, distinct values and modes cannot be used with ROLLUP, CUBE or GROUPING SETS: their subtotals "
            "cannot be computed from the groups",
            "ask one question for each grouping",
        )


def _refuse_ungrouped(node: exp.Column, building: _SelectBuilder) -> Expression:
    column = lower_expression(node, building.source.resolve)  # an unknown column says so first
    select = node.find_ancestor(exp.Select)
    windows = [] if select is None or building.aggregated else [*select.find_all(exp.Window)]
    if windows:  # GROUP BY would not help: what shows single rows is the window beside the column
        raise row_window_refusal(windows[0], building.source)
    raise refusal_at(
        node,
        "not-grouped",
        f"{node_text(node)} is neither in GROUP BY nor inside an aggregate",
        f"add GROUP BY {node_text(node)}, or use {'AVG' if column.domain.type.numeric else 'COUNT'}({node_text(node)})",
    )


def _lower_filter(node: exp.Expr, source: RowSource) -> Expression | None:
    """Lower the FILTER of an aggregate; None where it has none."""
    return lower_condition(node.expression.this, source) if isinstance(node, exp.Filter) else None


def _lower_aggregate(node: exp.Expr, source: RowSource) -> AggregateRequest:
    where = _lower_filter(node, source)
    if isinstance(node, exp.Filter):
        node = node.this
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.Mode):
        node = _mode_from_within_group(node)
    if not isinstance(node, _AGGREGATES):
        raise unsupported_aggregate_refusal(node, source)
    _check_aggregate_arguments(node)
    if isinstance(node, RANKED):
        return lower_quantile(node, where, lambda value: lower_expression(value, source.resolve))
    argument = node.this
    if isinstance(node, exp.ApproxDistinct) and argument is not None:  # the noise is far above what it would save
        argument = exp.Distinct(expressions=[argument])
    if node.args.get("expressions"):
        raise refusal_at(
            node, "aggregate", f"{function_name(node)} takes one argument", "write one aggregate for each argument"
        )
    if isinstance(argument, exp.Distinct):
        return _lower_distinct(node, argument, where, source)
    if type(node) in _PAIR_AGGREGATES:
        y, x = (_lower_summable(operand, source) for operand in (argument, node.expression))
        return _require_moderate_moments(_PAIR_AGGREGATES[type(node)](y, x, where), node)
    if isinstance(node, exp.CountIf):
        return Count(conjunction(where, lower_condition(argument, source)))
    if isinstance(node, exp.Count):
        return _lower_count(argument, where, source)
    if argument is None:
        raise refusal_at(
            node, "aggregate", f"{node_text(node)} needs an argument", f"write {function_name(node)}(<column>)"
        )
    value = lower_expression(argument, source.resolve)
    if isinstance(node, exp.Mode):
        _check_not_constant(value, node)
        return FrequentValue(value, where=where)
    _require_bounded_number(value, argument)
    if type(node) in _VARIANCES:
        return _require_moderate_moments(_VARIANCES[type(node)](value, where), node)
    return Sum(value, where) if isinstance(node, exp.Sum) else Mean(value, where)


def _check_not_constant(value: Expression, node: exp.Expr) -> None:
    if not columns(value):
        rule, fix = (
            f"{node_text(node)} reads no column, so its result is a constant",
            "use a column instead of the constant",
        )
        raise refusal_at(node, "constant-value", rule, fix)


_ARGUMENT_FIXES: Mapping[type[exp.Expr], str] = {
    exp.ApproxDistinct: "use COUNT(DISTINCT x) instead",
    exp.ApproxQuantile: "use QUANTILE_CONT(x, 0.9) instead",
    exp.CountIf: "write COUNT_IF(x > 5)",
    exp.Mode: "write MODE(x)",
    exp.Corr: "write CORR(y, x)",
}
"""What is written instead of arguments that are not supported."""


def _check_aggregate_arguments(node: exp.Expr) -> None:
    """Refuse an aggregate with an argument that would be ignored, or without the second of two values."""
    if type(node) in _PAIR_AGGREGATES and node.args.get("expression") is None:
        fix = f"write both, y and x: {function_name(node)}(cost, age)"
        raise refusal_at(node, "arguments", f"{node_text(node)} needs two arguments", fix)
    if any(value and part not in _ARGUMENTS for part, value in node.args.items()):
        fix = _ARGUMENT_FIXES.get(type(node), f"write {function_name(node)}(x), of one column or expression")
        raise refusal_at(node, "arguments", f"{function_name(node)} does not take these arguments", fix)


def _mode_from_within_group(node: exp.WithinGroup) -> exp.Expr:
    """Rewrite MODE() WITHIN GROUP (ORDER BY x) as MODE(x): the value does not depend on the direction."""
    order_terms = node.expression.expressions
    if not isinstance(node.this, exp.Mode) or node.this.this is not None or len(order_terms) != 1:
        rule = "WITHIN GROUP needs exactly one ORDER BY expression, and MODE then takes no argument"
        raise refusal_at(node, "within-group", rule, "write MODE() WITHIN GROUP (ORDER BY x), or MODE(x)")
    return exp.Mode(this=order_terms[0].this)


def _lower_count(argument: exp.Expr | None, where: Expression | None, source: RowSource) -> AggregateRequest:
    if argument is None or isinstance(argument, exp.Star):
        return Count(where)
    value = lower_expression(argument, source.resolve)
    if isinstance(value, Literal) and value.value is not None:
        return Count(where)
    return Count(conjunction(where, not_null_predicate(value)))


def _lower_distinct(
    node: exp.Expr, argument: exp.Distinct, where: Expression | None, source: RowSource
) -> AggregateRequest:
    table, columns_counted = source.table, counted_nodes(argument)
    if not isinstance(node, (exp.Count, exp.ApproxDistinct)):
        rule = "DISTINCT can only be used in COUNT(DISTINCT …)"
        raise refusal_at(node, "distinct", rule, _unit_count_advice(table))
    if _is_unit_count(columns_counted, source):
        return DistinctUnits(where)
    if any(source.is_unit_id(column) or _is_named_like_unknown_id(column, source) for column in columns_counted):
        period = table.period
        rule = "an id can only be counted alone, not together with other values"
        if period is not None:
            rule = f"in this policy a unit is an id within one {period.every}, and only units can be counted"
        raise refusal_at(node, "distinct", rule, _unit_pairs_advice(columns_counted, source))
    return DistinctValues(
        lower_distinct_tuple(argument, lambda column: lower_expression(column, source.resolve)), where
    )


def _is_unit_count(columns_counted: list[exp.Expr], source: RowSource) -> bool:
    """Return whether the counted columns are the id of the unit, with its period where units have one."""
    if not columns_counted or not source.is_unit_id(columns_counted[0]):
        return False
    if source.table.period is None:
        return len(columns_counted) == 1
    period_expressions = period_expressions_of(source.relation, source.catalog)
    return len(columns_counted) == 2 and lower_expression(columns_counted[1], source.resolve) in period_expressions


def _unit_pairs_advice(columns_counted: list[exp.Expr], source: RowSource) -> str:
    """Suggest to count the values of each unit and to add these counts up."""
    others = [node_text(column) for column in columns_counted if not source.is_unit_id(column)]
    if len(columns_counted) == 1 or source.table.id is None or source.table.period is not None or not others:
        return _unit_count_advice(source.table)
    unit, table = quoted(source.table.id), quoted(source.table.name)
    counts = f"SELECT {unit}, COUNT(DISTINCT {', '.join(others)}) AS n FROM {table} GROUP BY {unit}"
    return f"count for each unit, and add the counts up: SELECT SUM(n) FROM ({counts})"


def _is_named_like_unknown_id(node: exp.Expr, source: RowSource) -> bool:
    """Return whether a node is named like an id but is no column here, such as the id of rows that a LEFT JOIN may
    lack.
    """
    id_names = {str(table.id).lower() for table in source.catalog.tables.values() if table.id is not None}
    is_named_like_id = (
        isinstance(node, exp.Column) and node.name.lower() in id_names and node.table.lower() not in source.public
    )
    return is_named_like_id and cached_lowering(source.resolve)(node) is None


def _unit_count_advice(table: CatalogTable) -> str:
    """Suggest how to count units in a table."""
    if table.every_row:
        return "use COUNT(*): in this table every row is its own unit"
    if table.id is None:
        return f"join the table that has the unit's id and count it there: {table.via}"
    unit_text = quoted(table.id) if table.period is None else f"({quoted(table.id)}, {period_sql(table)})"
    return f"use COUNT(DISTINCT {unit_text})"


def _require_moderate_moments(request: AggregateRequest, node: exp.Expr) -> AggregateRequest:
    """Refuse an aggregate of squares or products that doubles could not add up."""
    values = [measure.value for measure in request.measures_for(()) if measure.value is not None]
    are_bounded = all(value.domain.range is not None for value in values)
    if are_bounded and all(abs(end) < _LARGEST_MOMENT for value in values for end in value_range(value)):
        return request
    rule = f"{node_text(node)} sums squares or products, which overflow with these bounds"
    raise refusal_at(node, "unbounded", rule, "declare narrower bounds, or divide the column by a large number")


def _lower_summable(node: exp.Expr, source: RowSource) -> Expression:
    value = lower_expression(node, source.resolve)
    _require_bounded_number(value, node)
    return value


def _require_bounded_number(value: Expression, node: exp.Expr) -> None:
    if not value.domain.type.numeric:
        raise refusal_at(
            node,
            "type-mismatch",
            f"only numbers can be summed; {node_text(node)} is {value.domain.type.value}",
            f"use COUNT, or {AS_NUMBER}",
        )
    if value.domain.range is None:
        raise refusal_at(
            node,
            "unbounded",
            f"{node_text(node)} has no declared bounds, so one row could change the sum without limit",
            f"declare bounds in the policy, or write LEAST(GREATEST({node_text(node)}, low), high)",
        )


def _lower_finish(select: exp.Select, building: _SelectBuilder, outputs: tuple[Output, ...]) -> Finish:
    having_clause = select.args.get("having")
    predicate = None
    if having_clause is not None:
        predicate = _lower_finish_expression(having_clause.this, building, renamed=True, windows=False)
        if predicate.domain.type is not Type.BOOLEAN:
            raise refusal_at(
                having_clause,
                "type-mismatch",
                "HAVING must be a condition",
                "compare an aggregate with a number, such as COUNT(*) > 100",
            )
    qualify = _lower_qualify(select, building)
    order = lower_order_by(select, outputs, lambda node: _lower_finish_expression(node, building, renamed=True))
    windows = tuple(building.windows)
    return Finish(
        outputs,
        predicate,
        order,
        parse_row_count(select, "limit"),
        parse_row_count(select, "offset") or 0,
        building.sets,
        windows,
        qualify,
    )


def _lower_qualify(select: exp.Select, building: _SelectBuilder) -> Expression | None:
    clause = select.args.get("qualify")
    if clause is None:
        return None
    if not building.aggregated:
        rule = "QUALIFY is not supported here: the rows of a table are never shown"
        raise refusal_at(clause, "clause", rule, "use it in a subquery whose result the outer SELECT aggregates")
    predicate = _lower_finish_expression(clause.this, building, renamed=True)
    if predicate.domain.type is not Type.BOOLEAN:
        fix = "compare a window with a number, such as RANK() OVER (ORDER BY n DESC) <= 3"
        raise refusal_at(clause, "type-mismatch", "QUALIFY must be a condition", fix)
    return predicate
