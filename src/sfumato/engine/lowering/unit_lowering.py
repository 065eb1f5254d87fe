"""Lower aggregates and window functions over one unit's rows.

Rows get columns to aggregate (``rows``), and ranks where the first of them is wanted (``ranks``). How a total is taken
is left to the caller: over all rows of a group, or over a window frame. A result computed from totals is clamped to its
domain, so that a column of results lies in its domain as a column of a scan does.

Values become whole numbers of steps, within their range, and sums of these become numbers again.

Window functions over a unit's rows become windows of the relational form. Rows are ordered by the sort keys of the
query first; then by every column that is read of the rows, and every value that a function here is computed from. Rows
that still tie are equal in all that is visible of them, so either may come first: but first in every order alike, or
else which position in one order goes with which in another would be the engine's choice. So where functions have
several orders, each row is numbered once, and the number breaks ties. Functions in which tied rows share a value (RANK,
and totals up to a row's peers) are ordered by the sort keys of the query alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from fractions import Fraction

from sfumato.engine.lowering.applications import choice, not_null_test, null_constant, real_constant
from sfumato.engine.lowering.proven_values import ProvenValues
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    Apply,
    Constant,
    GroupTotal,
    Ordered,
    Rank,
    Reference,
    RowNumber,
    Scalar,
    ScalarFunction,
    Shifted,
    Wide,
    WindowFrame,
    WindowTotal,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.plan.aggregates import unit_measures
from sfumato.plan.aggregates.measures import RowContribution
from sfumato.plan.aggregates.unit_measures import (
    RowNumbering,
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
    WindowFunction,
    value_step_range,
)
from sfumato.plan.values.expressions import Column, Expression, Field, Order
from sfumato.policy import Domain, Type
from sfumato.quick_dataclass import dataclass

_HALF = 2**48
_EXACT_STEPS = 2**52
"""Steps that a double tells apart, and their halves."""


def to_wide_integer(scalar: Scalar) -> Scalar:
    return apply(ScalarFunction.CONVERT, scalar, detail=(Wide.INTEGER,))


def convert_to_integer(scalar: Scalar) -> Scalar:
    return apply(ScalarFunction.CONVERT, scalar, detail=(Type.INTEGER,))


def as_real(scalar: Scalar) -> Scalar:
    return apply(ScalarFunction.CONVERT, scalar, detail=(Type.REAL,))


def wide_integer_to_real(scalar: Scalar) -> Scalar:
    """Convert a whole number of at most 110 bits to a double within 2^-51 of its size: by halves that 64 bits hold."""
    half = Constant(_HALF, Wide.INTEGER)
    high, low = (
        as_real(convert_to_integer(apply(operation, scalar, half)))
        for operation in (ScalarFunction.DIVIDE_WIDE, ScalarFunction.REMAINDER)
    )
    return apply(ScalarFunction.ADD, apply(ScalarFunction.MULTIPLY, high, real_constant(_HALF)), low)


def value_in_steps(
    expression: Expression, value: Scalar, contribution: RowContribution, proven: ProvenValues
) -> Scalar:
    """Convert a value to a whole number of steps from an origin, rounded to the nearest, ties to even, within [low,
    high].

    A column is clamped at the scan, to its declared range. What is computed from columns, and a column of which less
    than that range is summed, is clamped here before it becomes a whole number, and after, unless it was whole before:
    a sum is bounded, and no conversion fails, whatever a range or a rounding missed. Sums and products of clamped whole
    numbers are exact, and need no clamp where their factors' ranges leave them in theirs (``proven_values``).
    """
    step, origin, low, high = contribution.step, contribution.origin, contribution.low, contribution.high
    max_steps = max(abs(low + origin), abs(high + origin))
    is_exact = expression.domain.type is Type.INTEGER and step == 1
    least_value, greatest_value = ((end + origin) * step for end in (low, high))
    is_column = isinstance(expression, Column) and _holds_range(least_value, greatest_value, expression.domain)
    is_clamped = is_column or (is_exact and proven.is_within(expression, int(least_value), int(greatest_value)))
    if isinstance(expression, Column) and expression.domain.type is Type.INTEGER and not is_exact:
        value = as_real(value)
    if not is_clamped:
        value = clamped(
            value,
            *(
                (integer_constant(int(end)) if is_exact else real_constant(float(end)))
                for end in (least_value, greatest_value)
            ),
        )
    step_count = (
        value
        if is_exact
        else apply(ScalarFunction.NEAREST, apply(ScalarFunction.DIVIDE, value, real_constant(float(step))))
    )
    if origin:  # of whole numbers: a difference of doubles would be rounded
        step_count = apply(ScalarFunction.SUBTRACT, step_count, integer_constant(origin))
    if is_clamped and not origin and (is_exact or max_steps <= _EXACT_STEPS):
        return step_count  # clamped at the scan, and rounding a number of so few steps is exact
    if is_exact and not is_clamped:
        return step_count  # clamped above, and whole numbers are not rounded
    return clamped(step_count, integer_constant(low), integer_constant(high))


def _holds_range(low: Fraction, high: Fraction, domain: Domain) -> bool:
    """Return whether all values of a domain lie from low to high; also for a type without a range, which is counted."""
    if domain.range is None:
        return True
    least, greatest = domain.range
    return low <= least and greatest <= high  # type: ignore[operator]


def clamped(scalar: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return apply(ScalarFunction.LEAST, apply(ScalarFunction.GREATEST, scalar, low), high)


Take = Callable[[GroupTotal], Scalar]
"""Finds a total of rows, under whatever name."""
_ONE, _ZERO = integer_constant(1), integer_constant(0)


class UnitLowering:
    """The lowering of aggregates over a unit's rows; collects the columns that rows need for them."""

    def __init__(self, lowering: RowLowering, partition: tuple[Scalar, ...]) -> None:
        self.lowering, self._partition = lowering, partition
        self._rows: dict[Scalar, str] = {}
        self._ranks: dict[Rank, str] = {}

    @property
    def row_columns(self) -> tuple[tuple[str, Scalar], ...]:
        """List the columns to compute for every row."""
        return tuple((name, scalar) for scalar, name in self._rows.items())

    @property
    def rank_columns(self) -> tuple[tuple[str, Scalar], ...]:
        """List the ranks of rows, in terms of these columns."""
        return tuple((name, rank) for rank, name in self._ranks.items())

    def column(self, scalar: Scalar) -> Reference:
        """Return the column of the rows that holds a scalar, adding it if there is none."""
        return Reference(self._rows.setdefault(scalar, f"a{len(self._rows)}"))

    def clear_ranks(self) -> None:
        self._ranks.clear()

    def rank(self, rank: Rank) -> Reference:
        return Reference(self._ranks.setdefault(rank, f"b{len(self._ranks)}"))

    def ordered(self, order: Order) -> Ordered:
        """Return a sort key over a column of the rows."""
        key = as_sortable(self.lowering.lower(order.expression), order.expression.domain.type)
        return Ordered(self.column(key), order.descending, order.nulls_first)

    def result(self, measure: UnitMeasure, take: Take) -> Scalar:
        """Lower a measure to a result over totals; ``take`` turns a total into a scalar."""
        return _UNIT_RESULTS[type(measure)](self, measure, take)

    def _null_where_not_counted(self, measure: UnitMeasure, value: Scalar) -> Scalar:
        """Keep a value in the rows that satisfy the measure's predicate, NULL in the others."""
        if measure.where is None:
            return value
        return apply(ScalarFunction.CASE, self.lowering.lower(measure.where), value)

    def _in_steps(self, measure: UnitSum | UnitMean) -> Reference:
        """Convert the value to whole steps; NULL where it is missing or the row does not count."""
        value, step = self.lowering.compute_once(self.lowering.lower(measure.value)), measure.step
        low, high = value_step_range(measure.value, step)
        step_count = value_in_steps(
            measure.value, value, RowContribution(measure.value, step, 0, low, high), ProvenValues()
        )
        return self.column(
            self._null_where_not_counted(measure, apply(ScalarFunction.CASE, not_null_test(value), step_count))
        )

    def count(self, measure: UnitRowCount, take: Take) -> Scalar:
        if measure.where is None:
            return apply(ScalarFunction.LEAST, take(GroupTotal(AggregateFunction.COUNT)), integer_constant(measure.cap))
        is_counted = self.column(apply(ScalarFunction.CASE, self.lowering.lower(measure.where), _ONE, _ZERO))
        total = take(GroupTotal(AggregateFunction.SUM, is_counted))
        return convert_to_integer(apply(ScalarFunction.LEAST, total, Constant(measure.cap, Wide.INTEGER)))

    def distinct(self, measure: UnitDistinct, take: Take) -> Scalar:
        value = self.column(self._null_where_not_counted(measure, self.lowering.lower(measure.value)))
        _, max_distinct = measure.domain.bounds or (0, measure.cap)
        distinct = take(GroupTotal(AggregateFunction.UNITS, value))
        return apply(ScalarFunction.LEAST, distinct, integer_constant(int(max_distinct)))  # type: ignore[arg-type]

    def sum(self, measure: UnitSum, take: Take) -> Scalar:
        total = take(GroupTotal(AggregateFunction.SUM, self._in_steps(measure)))
        clamped_steps = convert_to_integer(clamped(total, *(Constant(end, Wide.INTEGER) for end in measure.step_range)))
        whole_number = measure.domain.type is Type.INTEGER
        converted = (
            clamped_steps
            if whole_number
            else apply(ScalarFunction.MULTIPLY, as_real(clamped_steps), real_constant(float(measure.step)))
        )
        return apply(ScalarFunction.CASE, not_null_test(total), converted, null_constant(measure.domain.type))

    def mean(self, measure: UnitMean, take: Take) -> Scalar:
        value = self._in_steps(measure)
        total = take(GroupTotal(AggregateFunction.SUM, value))
        is_present = self.column(
            apply(ScalarFunction.CASE, apply(ScalarFunction.IS_NULL, self._scalar_of(value)), _ZERO, _ONE)
        )
        row_count = wide_integer_to_real(take(GroupTotal(AggregateFunction.SUM, is_present)))
        mean_steps = apply(ScalarFunction.DIVIDE, wide_integer_to_real(total), row_count)
        mean = _clamp_to_domain(
            apply(ScalarFunction.MULTIPLY, mean_steps, real_constant(float(measure.step))), measure.domain
        )
        return apply(ScalarFunction.CASE, not_null_test(total), mean, null_constant(Type.REAL))

    def _scalar_of(self, column: Reference) -> Scalar:
        """Return the scalar that a column of the rows holds."""
        return next(scalar for scalar, name in self._rows.items() if name == column.name)

    def least(self, measure: UnitLeast, take: Take) -> Scalar:
        return self._least_or_greatest_value(measure, AggregateFunction.MIN, take)

    def greatest(self, measure: UnitGreatest, take: Take) -> Scalar:
        return self._least_or_greatest_value(measure, AggregateFunction.MAX, take)

    def _least_or_greatest_value(
        self, measure: UnitLeast | UnitGreatest, aggregation: AggregateFunction, take: Take
    ) -> Scalar:
        kind = measure.domain.type
        value = self.column(
            self._null_where_not_counted(measure, as_sortable(self.lowering.lower(measure.value), kind))
        )
        return from_sortable(take(GroupTotal(aggregation, value)), measure.value, measure.domain)

    def any(self, measure: UnitAny, take: Take) -> Scalar:
        value = self._null_where_not_counted(measure, as_sortable(self.lowering.lower(measure.value), Type.BOOLEAN))
        return apply(ScalarFunction.EQUAL, take(GroupTotal(AggregateFunction.MAX, self.column(value))), _ONE)

    def all(self, measure: UnitAll, take: Take) -> Scalar:
        value = self._null_where_not_counted(measure, as_sortable(self.lowering.lower(measure.value), Type.BOOLEAN))
        return apply(ScalarFunction.EQUAL, take(GroupTotal(AggregateFunction.MIN, self.column(value))), _ONE)

    def first(self, measure: UnitFirst, take: Take) -> Scalar:
        """Take the value of the row of rank 1 among those that count, which are ranked before the others."""
        kind = measure.domain.type
        value = self.column(as_sortable(self.lowering.lower(measure.value), kind))
        order: list[Scalar | Ordered] = [self.ordered(sort_key) for sort_key in measure.order]
        is_excluded = None
        if measure.where is not None:
            is_excluded = self.column(apply(ScalarFunction.CASE, self.lowering.lower(measure.where), _ZERO, _ONE))
            order = [is_excluded, *order]
        rank = self.rank(Rank(self._partition, tuple(order)))
        is_first = apply(ScalarFunction.EQUAL, rank, _ONE)
        if is_excluded is not None:
            is_first = apply(ScalarFunction.AND, is_first, apply(ScalarFunction.EQUAL, is_excluded, _ZERO))
        first_value = apply(ScalarFunction.CASE, is_first, value)
        return from_sortable(take(GroupTotal(AggregateFunction.MAX, first_value)), measure.value, measure.domain)


def as_sortable(scalar: Scalar, sql_type: Type) -> Scalar:
    """Return a value that every engine can order: booleans as 0 or 1."""
    return choice(scalar, _ONE, _ZERO) if sql_type is Type.BOOLEAN else scalar


def from_sortable(scalar: Scalar, value: Expression | None, domain: Domain) -> Scalar:
    """Convert an ordered value back to its type, clamped to the domain unless it is a column's own."""
    if domain.type is Type.BOOLEAN:
        return apply(ScalarFunction.EQUAL, scalar, _ONE)
    if isinstance(value, Column) or domain.range is None:
        return scalar
    return apply(
        ScalarFunction.CASE, not_null_test(scalar), _clamp_to_domain(scalar, domain), null_constant(domain.type)
    )


def _clamp_to_domain(scalar: Scalar, domain: Domain) -> Apply:
    assert domain.range is not None
    low, high = (Constant(end, domain.type) for end in domain.range)
    clamped_scalar = clamped(scalar, low, high)
    assert isinstance(clamped_scalar, Apply)
    return clamped_scalar


_UNIT_RESULTS: dict[type, Callable[..., Scalar]] = {
    UnitRowCount: UnitLowering.count,
    UnitDistinct: UnitLowering.distinct,
    UnitSum: UnitLowering.sum,
    UnitMean: UnitLowering.mean,
    UnitLeast: UnitLowering.least,
    UnitGreatest: UnitLowering.greatest,
    UnitAny: UnitLowering.any,
    UnitAll: UnitLowering.all,
    UnitFirst: UnitLowering.first,
}


_FRAMES = {
    unit_measures.FrameBounds.PEERS: WindowFrame.PEERS,
    unit_measures.FrameBounds.ROWS: WindowFrame.ROWS,
    unit_measures.FrameBounds.WHOLE: WindowFrame.WHOLE,
}
_ROW_NUMBERS = {
    RowNumbering.ROW_NUMBER: RowNumber.ROW_NUMBER,
    RowNumbering.RANK: RowNumber.RANK,
    RowNumbering.DENSE_RANK: RowNumber.DENSE_RANK,
}
Orders = tuple[Scalar | Ordered, ...]
_NUMBER = "n0"


@dataclass
class WindowLowering:
    """The lowering of window functions over the same rows; collects the columns computed in stages before their
    results.
    """

    lowering: RowLowering
    read: tuple[Reference, ...]
    """The columns that are read of the rows."""
    ties: Orders = ()
    numbered: Rank | None = None
    """The number of each row of a unit, where one is needed."""
    window_columns: dict[WindowTotal | Shifted | Rank, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.unit = UnitLowering(self.lowering, ())

    def results(self, functions: Mapping[Field, WindowFunction]) -> dict[Field, Scalar]:
        """Lower each function to a scalar over the last stage."""
        for function in functions.values():  # once to know all the values that the functions read
            self._result(function)
        self.ties = (*self.read, *(Reference(name) for name, _ in self.unit.row_columns))
        results = self._lower_all(functions)
        if len(self._tie_sensitive_orders()) < 2:
            return results
        self.numbered, self.ties = Rank((Reference("u"),), self.ties), (Reference(_NUMBER),)
        return self._lower_all(functions)

    def _lower_all(self, functions: Mapping[Field, WindowFunction]) -> dict[Field, Scalar]:
        self.window_columns.clear()
        self.unit.clear_ranks()
        return {name: self._result(function) for name, function in functions.items()}

    def _tie_sensitive_orders(self) -> set[tuple[tuple[Scalar, ...], Orders]]:
        """Return the partitions and orders in which tied rows may get different values."""
        tie_count = len(self.ties)
        return {
            (window.partition, window.order)
            for window in self.window_columns
            if window.order[-tie_count or None :] == self.ties
        }

    @property
    def stages(self) -> list[tuple[tuple[str, Scalar], ...]]:
        """List the columns to compute, stage by stage."""
        numbers = () if self.numbered is None else ((_NUMBER, self.numbered),)
        stages = (
            numbers,
            self.unit.rank_columns,
            tuple((name, window) for window, name in self.window_columns.items()),
        )
        return [stage for stage in stages if stage]

    def _result(self, function: WindowFunction) -> Scalar:
        return _WINDOW_RESULTS[type(function)](self, function)

    def _window_column(self, window: WindowTotal | Shifted | Rank) -> Reference:
        return Reference(self.window_columns.setdefault(window, f"w{len(self.window_columns)}"))

    def _partition(self, function: WindowFunction) -> tuple[Scalar, ...]:
        keys = (as_sortable(self.lowering.lower(key), key.domain.type) for key in function.keys)
        return (Reference("u"), *map(self.unit.column, keys))

    def _order(self, order: tuple[Order, ...], *, ties: bool) -> Orders:
        return (*map(self.unit.ordered, order), *(self.ties if ties else ()))

    def lower_ranking_function(self, function: unit_measures.RankingFunction) -> Scalar:
        breaks_ties = function.counting is RowNumbering.ROW_NUMBER
        order = self._order(function.order, ties=breaks_ties)
        rank = self._window_column(Rank(self._partition(function), order, _ROW_NUMBERS[function.counting]))
        return apply(ScalarFunction.LEAST, rank, integer_constant(function.cap))

    def lower_lag_or_lead(self, function: unit_measures.LagLead) -> Scalar:
        kind = function.domain.type
        value = self.unit.column(as_sortable(self.lowering.lower(function.value), kind))
        default = None
        if function.default is not None:
            default = self.unit.column(as_sortable(self.lowering.lower(function.default), kind))
        order = self._order(function.order, ties=True)
        beside = self._window_column(Shifted(value, function.offset, default, self._partition(function), order))
        return from_sortable(beside, function.value if default is None else None, function.domain)

    def lower_end_value(self, function: unit_measures.WindowEndValue) -> Scalar:
        """Take the value of the row of rank 1, from the start or from the end."""
        partition = self._partition(function)
        if function.peers:
            partition += tuple(self.unit.ordered(sort_key).scalar for sort_key in function.order)
        order = self._order(function.order, ties=True)
        if function.last:
            order = tuple(map(_reverse_order, order))
        value = self.unit.column(as_sortable(self.lowering.lower(function.value), function.domain.type))
        is_first = apply(ScalarFunction.EQUAL, self.unit.rank(Rank(partition, order)), integer_constant(1))
        first_value = GroupTotal(AggregateFunction.MAX, apply(ScalarFunction.CASE, is_first, value))
        return from_sortable(
            self._window_column(WindowTotal(first_value, partition, (), WindowFrame.WHOLE)),
            function.value,
            function.domain,
        )

    def lower_running(self, function: unit_measures.RunningAggregate) -> Scalar:
        partition, frame = self._partition(function), _FRAMES[function.frame]
        order = self._order(function.order, ties=frame is WindowFrame.ROWS)
        return self.unit.result(
            function.measure, lambda total: self._window_column(WindowTotal(total, partition, order, frame))
        )


def _reverse_order(sort_key: Scalar | Ordered) -> Ordered:
    """Reverse an order."""
    ordered = sort_key if isinstance(sort_key, Ordered) else Ordered(sort_key)
    return Ordered(ordered.scalar, not ordered.descending, not ordered.nulls_first)


_WINDOW_RESULTS: dict[type, Callable[..., Scalar]] = {
    unit_measures.RankingFunction: WindowLowering.lower_ranking_function,
    unit_measures.LagLead: WindowLowering.lower_lag_or_lead,
    unit_measures.WindowEndValue: WindowLowering.lower_end_value,
    unit_measures.RunningAggregate: WindowLowering.lower_running,
}
