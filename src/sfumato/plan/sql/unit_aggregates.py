"""SQL's aggregates over one unit's rows become measures: a subquery that is grouped by the unit may find these of
it.

SQL's window functions over one unit's rows become values of ``windows``.

COUNT(DISTINCT a, b): several values of a row as one text that tells them apart.

*Claim.* Rows have equal texts if and only if they have equal values, so the distinct texts are as many as the distinct
tuples, and whatever is proved of counting the distinct values of one expression holds of tuples: a unit with at most k
rows changes at most k of them. *Proof.* The types of the parts are fixed by the question. A text is written after its
length and a colon; a whole number, boolean, date or time is written with letters that no semicolon is among, and ends
with one; NULL is the letter n, with which nothing else begins. So the parts can be read back one after the other. ∎
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import conjunction, not_null_predicate
from sfumato.plan.aggregates.unit_measures import (
    MAX_ROWS,
    FrameBounds,
    LagLead,
    RankingFunction,
    RowNumbering,
    RunningAggregate,
    UnitAll,
    UnitAny,
    UnitDistinct,
    UnitFirst,
    UnitGreatest,
    UnitLeast,
    UnitMean,
    UnitMeasure,
    UnitRowCount,
    UnitSum,
    WindowEndValue,
    WindowFunction,
)
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.dialect import function_name
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text_positions import node_text, rank_over_units_fix, refusal_at
from sfumato.plan.values.expressions import Column, Expression, Field, Literal, Order, Resolve
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.declaring import AS_NUMBER
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.policy import Domain, Type
from sfumato.quick_dataclass import dataclass

MAX_PARTS = 20


def counted_nodes(argument: exp.Distinct) -> list[exp.Expr]:
    """Return the expressions whose tuples DISTINCT counts: DISTINCT a, b or DISTINCT (a, b)."""
    return (
        list(argument.expressions[0].expressions) if _is_parenthesised_tuple(argument) else list(argument.expressions)
    )


def lower_distinct_tuple(argument: exp.Distinct, read: Callable[[exp.Expr], Expression]) -> Expression:
    """Lower what DISTINCT counts to one expression.

    A row (a, b) is a value even where a part of it is NULL; of DISTINCT a, b only rows without a NULL count.
    """
    nodes = counted_nodes(argument)
    if len(nodes) == 1:
        return read(nodes[0])
    if not 2 <= len(nodes) <= MAX_PARTS:
        rule = f"COUNT(DISTINCT …) takes 1 to {MAX_PARTS} expressions"
        raise refusal_at(argument, "distinct", rule, "name the columns: COUNT(DISTINCT a, b)")
    parts = [_encode_as_text(read(node), node, null_counts=_is_parenthesised_tuple(argument)) for node in nodes]
    if sum(part.domain.max_letters for part in parts) > LONGEST:
        rule = f"the texts counted by COUNT(DISTINCT …) can have at most {LONGEST:,} characters together"
        raise refusal_at(argument, "distinct", rule, f"shorten them: LEFT({node_text(nodes[0])}, 100)")
    return call("||", *parts)


def _is_parenthesised_tuple(argument: exp.Distinct) -> bool:
    return len(argument.expressions) == 1 and isinstance(argument.expressions[0], exp.Tuple)


def _encode_as_text(value: Expression, node: exp.Expr, *, null_counts: bool) -> Expression:
    """Write a value as a text that no other value of its type has, and that shows where it ends."""
    if value.domain.type is Type.REAL:
        rule = f"{node_text(node)} is a real number, and the text of a real number differs between databases"
        raise refusal_at(node, "distinct", rule, f"count whole numbers: CAST({node_text(node)} AS BIGINT)")
    if value.domain.type is Type.TEXT:
        encoded = call("||", _as_text(call("LENGTH", value)), literal(Type.TEXT, ":"), value)
    else:
        encoded = call("||", _as_text(value), literal(Type.TEXT, ";"))
    return call("COALESCE", encoded, literal(Type.TEXT, "n")) if null_counts else encoded


def _as_text(value: Expression) -> Expression:
    return call("CAST", value, literal(Type.TEXT, Type.TEXT.value))


_AGGREGATE_NAMES = (
    "COUNT, SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND, FIRST(x ORDER BY y), LAST(x ORDER BY y), MODE, ARG_MIN or ARG_MAX"
)
_READ_PARTS = {"this", "expression", "big_int"}


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node aggregates several rows."""
    return isinstance(node, (exp.Filter, exp.AggFunc, exp.IgnoreNulls, exp.First, exp.Last))


def lower_unit_measure(node: exp.Expr, resolve: Resolve, max_rows: int) -> UnitMeasure | None:
    """Lower the aggregate that a node of a subquery is, or return None; at most ``max_rows`` rows of a unit count."""
    if isinstance(node, exp.Least):
        return _lower_capped_count(node, resolve)
    if not is_aggregate(node):
        return None
    return _lower_aggregate(node, resolve, max_rows)


def _lower_capped_count(node: exp.Least, resolve: Resolve) -> UnitMeasure | None:
    """Lower LEAST(COUNT(*), 50): a count with a written cap."""
    arguments = [node.this, *node.expressions]
    count_nodes = [
        argument for argument in arguments if isinstance(_without_filter(argument), (exp.Count, exp.CountIf))
    ]
    caps = [
        argument
        for argument in arguments
        if isinstance(argument, exp.Literal) and not argument.is_string and argument.this.isdigit()
    ]
    if len(count_nodes) != 1 or len(caps) != 1 or len(arguments) != 2:
        return None
    cap = int(caps[0].this)
    if not 1 <= cap <= MAX_ROWS:
        rule = f"the cap of a count per unit must be from 1 to {MAX_ROWS:,}"
        raise refusal_at(node, "cap", rule, f"write LEAST({node_text(count_nodes[0])}, 50)")
    return _lower_aggregate(count_nodes[0], resolve, cap)


def _without_filter(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Filter) else node


def _lower_aggregate(node: exp.Expr, resolve: Resolve, max_rows: int) -> UnitMeasure:
    where = None
    aggregate = _without_filter(node)
    if aggregate is not node:
        where = lower_predicate(node.expression.this, resolve)
    reader = _READERS.get(type(aggregate))
    options = [part for part, value in aggregate.args.items() if value and part not in _READ_PARTS]
    if reader is None or options:
        raise _unsupported_aggregate(node, f"use {_AGGREGATE_NAMES}")
    return reader(aggregate, resolve, where, max_rows)


def _unsupported_aggregate(node: exp.Expr, fix: str) -> Unsupported:
    rule = f"{node_text(node)} is not supported in a subquery that is grouped by the unit"
    return refusal_at(node, "aggregate", rule, fix)


def lower_predicate(node: exp.Expr, resolve: Resolve) -> Expression:
    """Lower a condition on one row, which must be boolean."""
    predicate = lower_expression(node, resolve)
    if predicate.domain.type is not Type.BOOLEAN:
        rule = f"a condition must be true or false; {node_text(node)} has the type {predicate.domain.type.value}"
        raise refusal_at(node, "type-mismatch", rule, "compare it with something, such as x > 5")
    return predicate


def _lower_count(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:
    argument = node.this
    if isinstance(argument, exp.Distinct):
        value = lower_distinct_tuple(argument, lambda column: lower_expression(column, resolve))
        return UnitDistinct(value, where, max_rows)
    if argument is None or isinstance(argument, exp.Star):
        return UnitRowCount(where, max_rows)
    value = lower_expression(argument, resolve)
    if isinstance(value, Literal) and value.value is not None:
        return UnitRowCount(where, max_rows)
    return UnitRowCount(conjunction(where, not_null_predicate(value)), max_rows)


def _lower_count_if(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:
    return UnitRowCount(conjunction(where, lower_predicate(node.this, resolve)), max_rows)


def _lower_operand(node: exp.Expr, resolve: Resolve) -> Expression:
    """Lower the operand of an aggregate of one value."""
    if not isinstance(node.this, exp.Expr) or isinstance(node.this, (exp.Distinct, exp.Order, exp.Star)):
        fix = f"write a column or an expression in the parentheses: {function_name(node)}(x)"
        if isinstance(node.this, exp.Distinct) and len(node.this.expressions) == 1:
            fix = "remove DISTINCT, which only COUNT takes here"
        elif isinstance(node.this, exp.Order):
            fix = "remove ORDER BY, which only FIRST and LAST take here"
        raise _unsupported_aggregate(node, fix)
    return lower_expression(node.this, resolve)


def _lower_bounded_number(node: exp.Expr, resolve: Resolve) -> Expression:
    value = _lower_operand(node, resolve)
    if not value.domain.type.numeric:
        rule = f"only numbers can be summed; {node_text(node.this)} is {value.domain.type.value}"
        raise refusal_at(node, "type-mismatch", rule, f"use COUNT, or {AS_NUMBER}")
    if value.domain.range is None:
        rule = f"{node_text(node.this)} has no declared bounds, so one unit's result could be any number"
        fix = f"declare bounds in the policy, or write LEAST(GREATEST({node_text(node.this)}, low), high)"
        raise refusal_at(node, "unbounded", rule, fix)
    return value


def _lower_sum(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:
    return UnitSum(_lower_bounded_number(node, resolve), where, max_rows)


def _lower_mean(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:  # noqa: ARG001
    return UnitMean(_lower_bounded_number(node, resolve), where)


def _operand_reader(measure: Callable[[Expression, Expression | None], UnitMeasure]) -> Reader:
    def reader(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:  # noqa: ARG001
        return measure(_lower_operand(node, resolve), where)

    return reader


def _predicate_reader(measure: Callable[[Expression, Expression | None], UnitMeasure]) -> Reader:
    def reader(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:  # noqa: ARG001
        return measure(lower_predicate(node.this, resolve), where)

    return reader


def _lower_first(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:  # noqa: ARG001
    order_clause = node.this
    if not isinstance(order_clause, exp.Order):
        name = "LAST" if isinstance(node, exp.Last) else "FIRST"
        rule = f"rows have no order, so {name} needs ORDER BY"
        raise refusal_at(node, "no-order", rule, f"write {name}({node_text(order_clause)} ORDER BY <column>)")
    value = lower_expression(order_clause.this, resolve)
    order = lower_order(order_clause, resolve)
    return first_value_measure(value, order, where, last=isinstance(node, exp.Last))


def _lower_arg_extreme(node: exp.Expr, resolve: Resolve, where: Expression | None, max_rows: int) -> UnitMeasure:  # noqa: ARG001
    """Lower ARG_MIN(x, y): x where y is least, of the rows where neither is NULL."""
    value, key = lower_expression(node.this, resolve), lower_expression(node.expression, resolve)
    both_present = conjunction(not_null_predicate(key), not_null_predicate(value))
    is_max = isinstance(node, exp.ArgMax)
    return first_value_measure(
        value, (Order(key, is_max, nulls_first=False),), conjunction(where, both_present), last=False
    )


def first_value_measure(
    value: Expression, written: tuple[Order, ...], where: Expression | None, *, last: bool
) -> UnitFirst:
    """Return the value of the first row, or of the last; the value itself breaks ties."""
    by_value = Order(value, descending=False, nulls_first=False)
    tie_breaker = () if value in {term.expression for term in written} else (by_value,)
    order = (*written, *tie_breaker)
    return UnitFirst(value, where, tuple(map(_reversed_order, order)) if last else order)


def _reversed_order(order: Order) -> Order:
    """Return the reverse order."""
    return replace(order, descending=not order.descending, nulls_first=not order.nulls_first)


def lower_order(node: exp.Order, resolve: Resolve) -> tuple[Order, ...]:
    """Lower an ORDER BY inside an aggregate or a window."""
    order_terms = []
    for term in node.expressions:
        if not isinstance(term, exp.Ordered) or term.args.get("with_fill"):
            raise refusal_at(term, "order", "ORDER BY takes columns, with ASC or DESC", "name a column")
        sort_expression = lower_expression(term.this, resolve)
        if isinstance(sort_expression, Literal):
            raise refusal_at(term, "order", "ORDER BY needs a column, not a constant", "name a column")
        order_terms.append(Order(sort_expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))))
    return tuple(order_terms)


Reader = Callable[[exp.Expr, Resolve, Expression | None, int], UnitMeasure]
_READERS: dict[type, Reader] = {
    exp.Count: _lower_count,
    exp.CountIf: _lower_count_if,
    exp.Sum: _lower_sum,
    exp.Avg: _lower_mean,
    exp.Min: _operand_reader(UnitLeast),
    exp.Max: _operand_reader(UnitGreatest),
    exp.LogicalOr: _predicate_reader(UnitAny),
    exp.LogicalAnd: _predicate_reader(UnitAll),
    exp.First: _lower_first,
    exp.Last: _lower_first,
    exp.ArgMin: _lower_arg_extreme,
    exp.ArgMax: _lower_arg_extreme,
}


FARTHEST = 1_000
"""The most rows that LAG and LEAD reach."""
_NUMBERINGS = {
    exp.RowNumber: RowNumbering.ROW_NUMBER,
    exp.Rank: RowNumbering.RANK,
    exp.DenseRank: RowNumbering.DENSE_RANK,
}
_WINDOW_PARTS = {"this", "partition_by", "order", "spec", "over"}
_WINDOW_FIX = "use ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN or MAX"
_FRAME_FIX = "leave out the frame, or write ROWS UNBOUNDED PRECEDING"


def _rank_over_units_refusal(node: exp.Window) -> Unsupported:
    """Return the refusal of a function that tells where a row is among the rows of others: quantiles answer it."""
    rule = f"{node.this.sql_name()} over private rows would compare a row with rows of other people"
    return refusal_at(node, "window", rule, rank_over_units_fix(node))


@dataclass(frozen=True)
class WindowParser:
    """A lowering of windows over the rows of one relation."""

    resolve: Resolve
    is_unit_id: Callable[[exp.Expr], bool]
    unit: str | None
    """The name of the unit; None where every row is one."""
    rows: int
    """The most rows of a unit that count."""
    period: str | None = None
    """For a unit that is an id in a period: the SQL expression of a row's period."""
    periods: frozenset[Expression] = frozenset()
    """The expressions of the period."""

    def lower(self, node: exp.Window) -> WindowFunction:
        """Lower the window function of a subquery."""
        is_by_unit = any(map(self.is_unit_id, node.args.get("partition_by") or []))
        if not is_by_unit and isinstance(node.this, (exp.Ntile, exp.PercentRank, exp.CumeDist)):
            raise _rank_over_units_refusal(node)
        for part, value in node.args.items():
            if value and part not in _WINDOW_PARTS:
                rule = "window options other than PARTITION BY and ORDER BY are not supported"
                raise refusal_at(
                    node, "window", rule, f"write OVER (PARTITION BY {quoted(self.unit or 'unit')} ORDER BY …)"
                )
        if self.unit is None:
            rule = "in this table every row is its own unit, so a window would hold one row"
            raise refusal_at(node, "rows-are-units", rule, "leave out OVER (…) and use the column directly")
        keys = self._partition_keys(node)
        order_clause = node.args.get("order")
        order = () if order_clause is None else lower_order(order_clause, self.resolve)
        return self._lower_function(node, keys, order, self._lower_frame(node, ordered=bool(order)))

    def _partition_keys(self, node: exp.Window) -> tuple[Expression, ...]:
        partition_nodes = node.args.get("partition_by") or []
        if not any(map(self.is_unit_id, partition_nodes)):
            rule = "a window over private rows must be partitioned by the unit"
            partition_text = ", ".join([quoted(str(self.unit)), *map(node_text, partition_nodes)])
            raise refusal_at(node, "not-by-unit", rule, f"write OVER (PARTITION BY {partition_text} …)")
        partition = [
            lower_expression(partition_node, self.resolve)
            for partition_node in partition_nodes
            if not self.is_unit_id(partition_node)
        ]
        if self.period is not None and self.periods.isdisjoint(partition):
            rule = "in this policy a unit is an id within one period, so a window over the id alone would mix units"
            partition_text = ", ".join([*map(node_text, partition_nodes), self.period])
            raise refusal_at(node, "not-by-period", rule, f"write OVER (PARTITION BY {partition_text} …)")
        return tuple(sorted(dict.fromkeys(partition), key=repr))

    def _lower_frame(self, node: exp.Window, *, ordered: bool) -> FrameBounds:
        spec = node.args.get("spec")
        if spec is None:
            return FrameBounds.PEERS if ordered else FrameBounds.WHOLE
        bounds = {name: value for name, value in spec.args.items() if value}
        end = bounds.pop("end", "CURRENT ROW"), bounds.pop("end_side", "")
        kind = bounds.pop("kind", "")
        if bounds == {"start": "UNBOUNDED", "start_side": "PRECEDING"} and kind in ("ROWS", "RANGE"):
            if end == ("UNBOUNDED", "FOLLOWING"):
                return FrameBounds.WHOLE
            if end == ("CURRENT ROW", ""):
                return (FrameBounds.ROWS if kind == "ROWS" else FrameBounds.PEERS) if ordered else FrameBounds.WHOLE
        rule = "a window frame can only be all rows of the partition, or those from its first row to the current one"
        raise refusal_at(node, "frame", rule, _FRAME_FIX)

    def _lower_function(
        self, node: exp.Window, keys: tuple[Expression, ...], order: tuple[Order, ...], frame: FrameBounds
    ) -> WindowFunction:
        function_node = node.this
        if type(function_node) in _NUMBERINGS:
            if any(function_node.args.values()):
                raise refusal_at(
                    node,
                    "window",
                    f"{function_name(function_node)} takes no argument",
                    f"write {function_name(function_node)}() OVER (…)",
                )
            self._require_order(node, order)
            # the last stands for all later ones
            return RankingFunction(keys, order, _NUMBERINGS[type(function_node)], self.rows + 1)
        if isinstance(function_node, (exp.Lag, exp.Lead)):
            self._require_order(node, order)
            return self._lower_lag_or_lead(function_node, keys, order)
        if isinstance(function_node, (exp.FirstValue, exp.LastValue)):
            self._require_order(node, order)
            return self._lower_end_value(function_node, keys, order, frame)
        measure = lower_unit_measure(function_node, self.resolve, self.rows)
        if measure is None or isinstance(measure, (UnitDistinct, UnitFirst)):
            raise refusal_at(
                node, "window", f"{node_text(function_node)} is not supported as a window function", _WINDOW_FIX
            )
        return RunningAggregate(keys, order if frame is not FrameBounds.WHOLE else (), measure, frame)

    def _require_order(self, node: exp.Window, order: tuple[Order, ...]) -> None:
        if not order:
            rule = "rows have no order, so this function needs ORDER BY"
            raise refusal_at(
                node, "no-order", rule, f"write OVER (PARTITION BY {quoted(str(self.unit))} ORDER BY <column>)"
            )

    def _lower_lag_or_lead(
        self, node: exp.Expr, keys: tuple[Expression, ...], order: tuple[Order, ...]
    ) -> WindowFunction:
        value = lower_expression(node.this, self.resolve)
        offset_node = node.args.get("offset")
        offset = 1
        if offset_node is not None:
            offset_literal = lower_expression(offset_node, self.resolve)
            is_integer = isinstance(offset_literal, Literal) and offset_literal.domain.type is Type.INTEGER
            written = offset_literal.value if is_integer else None  # type: ignore[union-attr]
            if not isinstance(written, int) or not 0 <= written <= FARTHEST:
                rule = f"the offset of LAG and LEAD must be a whole number from 0 to {FARTHEST:,}"
                raise refusal_at(node, "window", rule, "write LAG(x, 1)")
            offset = written
        offset = -offset if isinstance(node, exp.Lag) else offset
        default = node.args.get("default")
        if default is None:
            return LagLead(keys, order, value, offset, None, replace(value.domain, nullable=True))
        unified = call("CASE", _UNKNOWN_CONDITION, value, lower_expression(default, self.resolve))
        _, value, default_value = unified.arguments  # type: ignore[union-attr]
        return LagLead(keys, order, value, offset, default_value, unified.domain)

    def _lower_end_value(
        self, node: exp.Expr, keys: tuple[Expression, ...], order: tuple[Order, ...], frame: FrameBounds
    ) -> WindowFunction:
        last = isinstance(node, exp.LastValue)
        if last and frame is FrameBounds.ROWS:
            rule = "LAST_VALUE over the rows up to the current one is only the value of the current row"
            raise refusal_at(node, "frame", rule, "use the column directly, or leave out the frame")
        return WindowEndValue(
            keys, order, lower_expression(node.this, self.resolve), last, last and frame is FrameBounds.PEERS
        )


_UNKNOWN_CONDITION = Column(Field(0, "", "some"), Domain(Type.BOOLEAN))
"""A predicate of which nothing is known."""
