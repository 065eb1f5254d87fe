"""SQL's window functions over one unit's rows become values of ``windows``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.plan.aggregates.unit_measures import UnitDistinct, UnitFirst
from sfumato.plan.aggregates.windows import Counting, End, Frame, Place, Running, Shifted, WindowFunction
from sfumato.plan.sql.sql_expressions import expression
from sfumato.plan.sql.text_positions import refuse, shown
from sfumato.plan.sql.unit_aggregates import orders, unit_measure
from sfumato.plan.values.expressions import Column, Expression, Field, Literal, Order, Resolve
from sfumato.plan.values.functions import call
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type

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

    def _frame(self, node: exp.Window, *, ordered: bool) -> Frame:
        spec = node.args.get("spec")
        if spec is None:
            return Frame.PEERS if ordered else Frame.WHOLE
        told = {name: value for name, value in spec.args.items() if value}
        end = told.pop("end", "CURRENT ROW"), told.pop("end_side", "")
        kind = told.pop("kind", "")
        if told == {"start": "UNBOUNDED", "start_side": "PRECEDING"} and kind in ("ROWS", "RANGE"):
            if end == ("UNBOUNDED", "FOLLOWING"):
                return Frame.WHOLE
            if end == ("CURRENT ROW", ""):
                return (Frame.ROWS if kind == "ROWS" else Frame.PEERS) if ordered else Frame.WHOLE
        rule = "a window reaches from the first row of the partition to this one, or over all of it"
        raise refuse(node, "frame", rule, _FRAME)

    def _function(
        self, node: exp.Window, keys: tuple[Expression, ...], order: tuple[Order, ...], frame: Frame
    ) -> WindowFunction:
        inner = node.this
        if type(inner) in _COUNTING:
            if any(inner.args.values()):
                raise refuse(node, "window", "a place takes no argument", f"write {inner.sql_name()}() OVER (…)")
            self._check_order(node, order)
            return Place(keys, order, _COUNTING[type(inner)], self.rows + 1)  # the last stands for all later ones
        if isinstance(inner, (exp.Lag, exp.Lead)):
            self._check_order(node, order)
            return self._shifted(inner, keys, order)
        if isinstance(inner, (exp.FirstValue, exp.LastValue)):
            self._check_order(node, order)
            return self._end(inner, keys, order, frame)
        measure = unit_measure(inner, self.resolve, self.rows)
        if measure is None or isinstance(measure, (UnitDistinct, UnitFirst)):
            raise refuse(node, "window", f"{shown(inner)} is not found over a window", _USUAL)
        return Running(keys, order if frame is not Frame.WHOLE else (), measure, frame)

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
        self, node: exp.Expr, keys: tuple[Expression, ...], order: tuple[Order, ...], frame: Frame
    ) -> WindowFunction:
        last = isinstance(node, exp.LastValue)
        if last and frame is Frame.ROWS:
            rule = "LAST_VALUE of the rows up to a row is that row's own value"
            raise refuse(node, "frame", rule, "use the column as it is, or leave the frame out")
        return End(keys, order, expression(node.this, self.resolve), last, last and frame is Frame.PEERS)


_SOME = Column(Field(0, "", "some"), Domain(Type.BOOLEAN))
"""A test of which nothing is known."""
