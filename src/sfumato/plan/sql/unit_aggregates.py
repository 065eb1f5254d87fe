"""SQL's aggregates over one unit's rows become measures: a subquery that is grouped by the unit may find these of
it.

SQL's window functions over one unit's rows become values of ``windows``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.plan.aggregates.measures import both, present
from sfumato.plan.aggregates.unit_measures import (
    Counting,
    End,
    FrameBounds,
    RowPosition,
    RunningAggregate,
    Shifted,
    UnitAll,
    UnitAny,
    UnitCount,
    UnitDistinct,
    UnitFirst,
    UnitGreatest,
    UnitLeast,
    UnitMean,
    UnitMeasure,
    UnitSum,
    WindowFunction,
)
from sfumato.plan.sql.sql_expressions import expression
from sfumato.plan.sql.text_positions import refuse, shown
from sfumato.plan.values.expressions import Column, Expression, Field, Literal, Order, Resolve
from sfumato.plan.values.functions import call
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type

MOST_ROWS = 1_000_000
"""No cap that is written is larger."""
_WANTED = "COUNT, SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND, FIRST(x ORDER BY y), LAST(x ORDER BY y), ARG_MIN or ARG_MAX"
_HARMLESS = {"this", "expression", "big_int"}


def is_aggregate(node: exp.Expr) -> bool:
    """Tell whether a part of the text finds one value from several rows."""
    return isinstance(node, (exp.Filter, exp.AggFunc, exp.IgnoreNulls, exp.First, exp.Last))


def unit_measure(node: exp.Expr, resolve: Resolve, rows: int) -> UnitMeasure | None:
    """Read the measure that a part of a subquery is, or None; at most so many rows of a unit count."""
    if isinstance(node, exp.Least):
        return _capped(node, resolve)
    if not is_aggregate(node):
        return None
    return _measure(node, resolve, rows)


def _capped(node: exp.Least, resolve: Resolve) -> UnitMeasure | None:
    """Read LEAST(COUNT(*), 50): a count with a cap that is written."""
    parts = [node.this, *node.expressions]
    counts = [each for each in parts if isinstance(_inside(each), (exp.Count, exp.CountIf))]
    others = [each for each in parts if isinstance(each, exp.Literal) and not each.is_string and each.this.isdigit()]
    if len(counts) != 1 or len(others) != 1 or len(parts) != 2:
        return None
    cap = int(others[0].this)
    if not 1 <= cap <= MOST_ROWS:
        rule = f"at most {MOST_ROWS:,} rows of one unit are counted, and at least one"
        raise refuse(node, "cap", rule, f"write LEAST({shown(counts[0])}, 50)")
    return _measure(counts[0], resolve, cap)


def _inside(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Filter) else node


def _measure(node: exp.Expr, resolve: Resolve, rows: int) -> UnitMeasure:
    where = None
    inner = _inside(node)
    if inner is not node:
        where = _test(node.expression.this, resolve)
    reader = _READERS.get(type(inner))
    for part, value in inner.args.items():
        if value and part not in _HARMLESS:
            reader = None
    if reader is None:
        raise refuse(node, "aggregate", f"{shown(node)} is not found of one unit's rows", f"use {_WANTED}")
    return reader(inner, resolve, where, rows)


def _test(node: exp.Expr, resolve: Resolve) -> Expression:
    found = expression(node, resolve)
    if found.domain.type is not Type.BOOLEAN:
        rule = f"a condition is true or false; {shown(node)} is {found.domain.type.value}"
        raise refuse(node, "type-mismatch", rule, "compare it with something")
    return found


def _count(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:
    argument = node.this
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1 or argument.args.get("on"):
            raise refuse(node, "aggregate", "COUNT(DISTINCT …) takes one value", "count one value, or join two with ||")
        return UnitDistinct(expression(argument.expressions[0], resolve), where, rows)
    if argument is None or isinstance(argument, exp.Star):
        return UnitCount(where, rows)
    value = expression(argument, resolve)
    if isinstance(value, Literal) and value.value is not None:
        return UnitCount(where, rows)
    return UnitCount(both(where, present(value)), rows)


def _count_if(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:
    return UnitCount(both(where, _test(node.this, resolve)), rows)


def _value(node: exp.Expr, resolve: Resolve) -> Expression:
    """Read what an aggregate of one value is about."""
    if not isinstance(node.this, exp.Expr) or isinstance(node.this, (exp.Distinct, exp.Order, exp.Star)):
        raise refuse(node, "aggregate", f"{shown(node)} is not found of one unit's rows", f"use {_WANTED}")
    return expression(node.this, resolve)


def _number(node: exp.Expr, resolve: Resolve) -> Expression:
    value = _value(node, resolve)
    if not value.domain.type.numeric:
        rule = f"only numbers are added up; {shown(node.this)} is {value.domain.type.value}"
        raise refuse(node, "type-mismatch", rule, "count it, or turn it into a number with CASE")
    if value.domain.range is None:
        rule = f"{shown(node.this)} has no declared bounds, so one unit's result could be any number"
        fix = f"declare bounds in the policy, or write LEAST(GREATEST({shown(node.this)}, low), high)"
        raise refuse(node, "unbounded", rule, fix)
    return value


def _sum(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:
    return UnitSum(_number(node, resolve), where, rows)


def _mean(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:  # noqa: ARG001
    return UnitMean(_number(node, resolve), where)


def _extreme(of: Callable[[Expression, Expression | None], UnitMeasure]) -> Reader:
    def reader(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:  # noqa: ARG001
        return of(_value(node, resolve), where)

    return reader


def _truth(of: Callable[[Expression, Expression | None], UnitMeasure]) -> Reader:
    def reader(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:  # noqa: ARG001
        return of(_test(node.this, resolve), where)

    return reader


def _first(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:  # noqa: ARG001
    ordered = node.this
    if not isinstance(ordered, exp.Order):
        name = "LAST" if isinstance(node, exp.Last) else "FIRST"
        rule = f"rows have no order of their own, so {name} needs one"
        raise refuse(node, "no-order", rule, f"write {name}({shown(ordered)} ORDER BY <column>)")
    value = expression(ordered.this, resolve)
    written = orders(ordered, resolve)
    return first(value, written, where, last=isinstance(node, exp.Last))


def _arg(node: exp.Expr, resolve: Resolve, where: Expression | None, rows: int) -> UnitMeasure:  # noqa: ARG001
    """Read ARG_MIN(x, y): x where y is least, of the rows that have both."""
    value, key = expression(node.this, resolve), expression(node.expression, resolve)
    there = both(present(key), present(value))
    most = isinstance(node, exp.ArgMax)
    return first(value, (Order(key, most, nulls_first=False),), both(where, there), last=False)


def first(value: Expression, written: tuple[Order, ...], where: Expression | None, *, last: bool) -> UnitFirst:
    """Read the value of the first row, or of the last; the value itself decides between rows that tie."""
    by_value = Order(value, descending=False, nulls_first=False)
    tied = () if value in {each.expression for each in written} else (by_value,)
    order = (*written, *tied)
    return UnitFirst(value, where, tuple(map(_turned, order)) if last else order)


def _turned(order: Order) -> Order:
    """Give the same order from its other end."""
    return replace(order, descending=not order.descending, nulls_first=not order.nulls_first)


def orders(node: exp.Order, resolve: Resolve) -> tuple[Order, ...]:
    """Read what an ORDER BY inside an aggregate or a window says."""
    found = []
    for each in node.expressions:
        if not isinstance(each, exp.Ordered) or each.args.get("with_fill"):
            raise refuse(each, "order", "ORDER BY takes columns with ASC or DESC", "name a column")
        made = expression(each.this, resolve)
        if isinstance(made, Literal):
            raise refuse(each, "order", "rows are ordered by a column or what is made from one", "name a column")
        found.append(Order(made, bool(each.args.get("desc")), bool(each.args.get("nulls_first"))))
    return tuple(found)


Reader = Callable[[exp.Expr, Resolve, Expression | None, int], UnitMeasure]
_READERS: dict[type, Reader] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _mean,
    exp.Min: _extreme(UnitLeast),
    exp.Max: _extreme(UnitGreatest),
    exp.LogicalOr: _truth(UnitAny),
    exp.LogicalAnd: _truth(UnitAll),
    exp.First: _first,
    exp.Last: _first,
    exp.ArgMin: _arg,
    exp.ArgMax: _arg,
}


FARTHEST = 1_000
"""Places that LAG and LEAD reach."""
_COUNTING = {exp.RowNumber: Counting.ROW_NUMBER, exp.Rank: Counting.RANK, exp.DenseRank: Counting.DENSE_RANK}
_PARTS = {"this", "partition_by", "order", "spec", "over"}
_USUAL = "use ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN or MAX"
_FRAME = "leave the frame out, or write ROWS UNBOUNDED PRECEDING"


@dataclass(frozen=True)
class Windows:
    """This reads windows over one relation's rows."""

    resolve: Resolve
    is_unit: Callable[[exp.Expr], bool]
    unit: str | None
    """What the unit is called; None where every row is one."""
    rows: int
    """How many rows of a unit count."""
    period: str | None = None
    """Where a unit is an id in a period: what says in SQL in which one a row lies."""
    periods: frozenset[Expression] = frozenset()
    """The expressions that say so."""

    def read(self, node: exp.Window) -> WindowFunction:
        """Read the function that a part of a subquery is."""
        for part, value in node.args.items():
            if value and part not in _PARTS:
                rule = "a window is written out where it is used"
                raise refuse(
                    node, "window", rule, f"write OVER (PARTITION BY {quoted(self.unit or 'unit')} ORDER BY …)"
                )
        if self.unit is None:
            rule = "every row is a unit here, so a unit has no other rows to look at"
            raise refuse(node, "rows-are-units", rule, "leave out the window")
        keys = self._keys(node)
        written = node.args.get("order")
        order = () if written is None else orders(written, self.resolve)
        return self._function(node, keys, order, self._frame(node, ordered=bool(order)))

    def _keys(self, node: exp.Window) -> tuple[Expression, ...]:
        by = node.args.get("partition_by") or []
        if not any(map(self.is_unit, by)):
            rule = "a window is over the rows of one unit"
            line = ", ".join([quoted(str(self.unit)), *map(shown, by)])
            raise refuse(node, "not-by-unit", rule, f"write OVER (PARTITION BY {line} …)")
        found = [expression(each, self.resolve) for each in by if not self.is_unit(each)]
        if self.period is not None and self.periods.isdisjoint(found):
            rule = "a unit is an id within one period here: a window over the id alone would look at its other periods"
            line = ", ".join([*map(shown, by), self.period])
            raise refuse(node, "not-by-period", rule, f"write OVER (PARTITION BY {line} …)")
        return tuple(sorted(dict.fromkeys(found), key=repr))

    def _frame(self, node: exp.Window, *, ordered: bool) -> FrameBounds:
        spec = node.args.get("spec")
        if spec is None:
            return FrameBounds.PEERS if ordered else FrameBounds.WHOLE
        told = {name: value for name, value in spec.args.items() if value}
        end = told.pop("end", "CURRENT ROW"), told.pop("end_side", "")
        kind = told.pop("kind", "")
        if told == {"start": "UNBOUNDED", "start_side": "PRECEDING"} and kind in ("ROWS", "RANGE"):
            if end == ("UNBOUNDED", "FOLLOWING"):
                return FrameBounds.WHOLE
            if end == ("CURRENT ROW", ""):
                return (FrameBounds.ROWS if kind == "ROWS" else FrameBounds.PEERS) if ordered else FrameBounds.WHOLE
        rule = "a window reaches from the first row of the partition to this one, or over all of it"
        raise refuse(node, "frame", rule, _FRAME)

    def _function(
        self, node: exp.Window, keys: tuple[Expression, ...], order: tuple[Order, ...], frame: FrameBounds
    ) -> WindowFunction:
        inner = node.this
        if type(inner) in _COUNTING:
            if any(inner.args.values()):
                raise refuse(node, "window", "a place takes no argument", f"write {inner.sql_name()}() OVER (…)")
            self._check_order(node, order)
            return RowPosition(keys, order, _COUNTING[type(inner)], self.rows + 1)  # the last stands for all later ones
        if isinstance(inner, (exp.Lag, exp.Lead)):
            self._check_order(node, order)
            return self._shifted(inner, keys, order)
        if isinstance(inner, (exp.FirstValue, exp.LastValue)):
            self._check_order(node, order)
            return self._end(inner, keys, order, frame)
        measure = unit_measure(inner, self.resolve, self.rows)
        if measure is None or isinstance(measure, (UnitDistinct, UnitFirst)):
            raise refuse(node, "window", f"{shown(inner)} is not found over a window", _USUAL)
        return RunningAggregate(keys, order if frame is not FrameBounds.WHOLE else (), measure, frame)

    def _check_order(self, node: exp.Window, order: tuple[Order, ...]) -> None:
        if not order:
            rule = "rows have no order of their own"
            raise refuse(
                node, "no-order", rule, f"write OVER (PARTITION BY {quoted(str(self.unit))} ORDER BY <column>)"
            )

    def _shifted(self, node: exp.Expr, keys: tuple[Expression, ...], order: tuple[Order, ...]) -> WindowFunction:
        value = expression(node.this, self.resolve)
        written = node.args.get("offset")
        places = 1
        if written is not None:
            found = expression(written, self.resolve)
            known = isinstance(found, Literal) and found.domain.type is Type.INTEGER
            if not known or not 0 <= int(found.value or 0) <= FARTHEST:  # type: ignore[union-attr,arg-type]
                rule = f"LAG and LEAD reach a whole number of rows, at most {FARTHEST:,}"
                raise refuse(node, "window", rule, "write LAG(x, 1)")
            places = int(found.value or 0)  # type: ignore[union-attr,arg-type]
        places = -places if isinstance(node, exp.Lag) else places
        default = node.args.get("default")
        if default is None:
            return Shifted(keys, order, value, places, None, replace(value.domain, nullable=True))
        either = call("CASE", _SOME, value, expression(default, self.resolve))
        _, value, other = either.arguments  # type: ignore[union-attr]
        return Shifted(keys, order, value, places, other, either.domain)

    def _end(
        self, node: exp.Expr, keys: tuple[Expression, ...], order: tuple[Order, ...], frame: FrameBounds
    ) -> WindowFunction:
        last = isinstance(node, exp.LastValue)
        if last and frame is FrameBounds.ROWS:
            rule = "LAST_VALUE of the rows up to a row is that row's own value"
            raise refuse(node, "frame", rule, "use the column as it is, or leave the frame out")
        return End(keys, order, expression(node.this, self.resolve), last, last and frame is FrameBounds.PEERS)


_SOME = Column(Field(0, "", "some"), Domain(Type.BOOLEAN))
"""A test of which nothing is known."""
