"""Results found of one unit's rows are made here from a few totals of these rows.

Rows get columns to take totals of (``rows``), and ranks where the first of them is wanted (``ranks``). How a total is
taken is left to the caller: of all rows of a group, or of those up to a row in a window. What is made of the totals is
clamped to the result's domain: a column of results lies in it as a column of a scan does.
"""

from __future__ import annotations

from collections.abc import Callable

from sfumato.engine.lowering.relational import (
    Aggregation,
    Apply,
    Constant,
    Operation,
    Ordered,
    Rank,
    Reference,
    Scalar,
    Total,
    Wide,
    apply,
    whole,
)
from sfumato.engine.lowering.row_lowering import RowLowering, choice, missing, present, real
from sfumato.engine.lowering.step_lowering import as_real, clamped, narrow, real_of_wide, steps
from sfumato.plan.aggregates.measures import Contribution
from sfumato.plan.aggregates.unit_measures import (
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
    steps_held,
)
from sfumato.plan.values.expressions import Column, Expression, Order
from sfumato.policy import Domain, Type

Take = Callable[[Total], Scalar]
"""Finds a total of rows, under whatever name."""
_ONE, _ZERO = whole(1), whole(0)


class UnitLowering:
    """This lowers what is found of a unit's rows, and collects the columns that rows need for it."""

    def __init__(self, lowering: RowLowering, partition: tuple[Scalar, ...]) -> None:
        self.lowering, self._partition = lowering, partition
        self._rows: dict[Scalar, str] = {}
        self._ranks: dict[Rank, str] = {}

    @property
    def rows(self) -> tuple[tuple[str, Scalar], ...]:
        """List the columns to compute of every row."""
        return tuple((name, scalar) for scalar, name in self._rows.items())

    @property
    def ranks(self) -> tuple[tuple[str, Scalar], ...]:
        """List the places of rows, in terms of these columns."""
        return tuple((name, rank) for rank, name in self._ranks.items())

    def column(self, scalar: Scalar) -> Reference:
        """Name the column of a row that holds this."""
        return Reference(self._rows.setdefault(scalar, f"a{len(self._rows)}"))

    def clear_ranks(self) -> None:
        self._ranks.clear()

    def rank(self, rank: Rank) -> Reference:
        return Reference(self._ranks.setdefault(rank, f"b{len(self._ranks)}"))

    def ordered(self, order: Order) -> Ordered:
        """Give a column of the rows to order by."""
        key = as_ordered(self.lowering.lower(order.expression), order.expression.domain.type)
        return Ordered(self.column(key), order.descending, order.nulls_first)

    def result(self, measure: UnitMeasure, take: Take) -> Scalar:
        """Lower what a measure finds, from totals that are taken as given."""
        return _RESULTS[type(measure)](self, measure, take)

    def _counted(self, measure: UnitMeasure, value: Scalar) -> Scalar:
        """Keep a value in the rows that count, NULL in the others."""
        if measure.where is None:
            return value
        return apply(Operation.CASE, self.lowering.lower(measure.where), value)

    def _in_steps(self, measure: UnitSum | UnitMean) -> Reference:
        """Write the value as whole steps; NULL where it is missing or the row does not count."""
        value, step = self.lowering.shared(self.lowering.lower(measure.value)), measure.step
        low, high = steps_held(measure.value, step)
        counted = steps(measure.value, value, Contribution(measure.value, step, 0, low, high))
        return self.column(self._counted(measure, apply(Operation.CASE, present(value), counted)))

    def count(self, measure: UnitCount, take: Take) -> Scalar:
        if measure.where is None:
            return apply(Operation.LEAST, take(Total(Aggregation.COUNT)), whole(measure.cap))
        test = self.column(apply(Operation.CASE, self.lowering.lower(measure.where), _ONE, _ZERO))
        total = take(Total(Aggregation.SUM, test))
        return narrow(apply(Operation.LEAST, total, Constant(measure.cap, Wide.INTEGER)))

    def distinct(self, measure: UnitDistinct, take: Take) -> Scalar:
        value = self.column(self._counted(measure, self.lowering.lower(measure.value)))
        _, most = measure.domain.bounds or (0, measure.cap)
        return apply(Operation.LEAST, take(Total(Aggregation.UNITS, value)), whole(int(most)))  # type: ignore[arg-type]

    def sum(self, measure: UnitSum, take: Take) -> Scalar:
        total = take(Total(Aggregation.SUM, self._in_steps(measure)))
        held = narrow(clamped(total, *(Constant(end, Wide.INTEGER) for end in measure.held)))
        whole_number = measure.domain.type is Type.INTEGER
        made = held if whole_number else apply(Operation.MULTIPLY, as_real(held), real(float(measure.step)))
        return apply(Operation.CASE, present(total), made, missing(measure.domain.type))

    def mean(self, measure: UnitMean, take: Take) -> Scalar:
        value = self._in_steps(measure)
        total = take(Total(Aggregation.SUM, value))
        there = self.column(apply(Operation.CASE, apply(Operation.IS_NULL, self._of(value)), _ZERO, _ONE))
        rows = real_of_wide(take(Total(Aggregation.SUM, there)))
        share = apply(Operation.DIVIDE, real_of_wide(total), rows)
        mean = _held(apply(Operation.MULTIPLY, share, real(float(measure.step))), measure.domain)
        return apply(Operation.CASE, present(total), mean, missing(Type.REAL))

    def _of(self, column: Reference) -> Scalar:
        """Find what a column of the rows is computed from."""
        return next(scalar for scalar, name in self._rows.items() if name == column.name)

    def least(self, measure: UnitLeast, take: Take) -> Scalar:
        return self._extreme(measure, Aggregation.MIN, take)

    def greatest(self, measure: UnitGreatest, take: Take) -> Scalar:
        return self._extreme(measure, Aggregation.MAX, take)

    def _extreme(self, measure: UnitLeast | UnitGreatest, aggregation: Aggregation, take: Take) -> Scalar:
        kind = measure.domain.type
        value = self.column(self._counted(measure, as_ordered(self.lowering.lower(measure.value), kind)))
        return as_result(take(Total(aggregation, value)), measure.value, measure.domain)

    def any(self, measure: UnitAny, take: Take) -> Scalar:
        value = self._counted(measure, as_ordered(self.lowering.lower(measure.value), Type.BOOLEAN))
        return apply(Operation.EQUAL, take(Total(Aggregation.MAX, self.column(value))), _ONE)

    def all(self, measure: UnitAll, take: Take) -> Scalar:
        value = self._counted(measure, as_ordered(self.lowering.lower(measure.value), Type.BOOLEAN))
        return apply(Operation.EQUAL, take(Total(Aggregation.MIN, self.column(value))), _ONE)

    def first(self, measure: UnitFirst, take: Take) -> Scalar:
        """Give the one value of the row whose place is 1 among those that count, which are placed before the others."""
        kind = measure.domain.type
        value = self.column(as_ordered(self.lowering.lower(measure.value), kind))
        order: list[Scalar | Ordered] = [self.ordered(each) for each in measure.order]
        test = None
        if measure.where is not None:
            test = self.column(apply(Operation.CASE, self.lowering.lower(measure.where), _ZERO, _ONE))
            order = [test, *order]
        place = self.rank(Rank(self._partition, tuple(order)))
        picked = apply(Operation.EQUAL, place, _ONE)
        if test is not None:
            picked = apply(Operation.AND, picked, apply(Operation.EQUAL, test, _ZERO))
        only = apply(Operation.CASE, picked, value)
        return as_result(take(Total(Aggregation.MAX, only)), measure.value, measure.domain)


def as_ordered(scalar: Scalar, kind: Type) -> Scalar:
    """Give a value that every engine can order: truth as 0 or 1."""
    return choice(scalar, _ONE, _ZERO) if kind is Type.BOOLEAN else scalar


def as_result(scalar: Scalar, value: Expression | None, domain: Domain) -> Scalar:
    """Turn one of the ordered values back into what it was; within the domain where that is more than a column's
    own.
    """
    if domain.type is Type.BOOLEAN:
        return apply(Operation.EQUAL, scalar, _ONE)
    if isinstance(value, Column) or domain.range is None:
        return scalar
    return apply(Operation.CASE, present(scalar), _held(scalar, domain), missing(domain.type))


def _held(scalar: Scalar, domain: Domain) -> Apply:
    assert domain.range is not None
    low, high = (Constant(end, domain.type) for end in domain.range)
    made = clamped(scalar, low, high)
    assert isinstance(made, Apply)
    return made


_RESULTS: dict[type, Callable[..., Scalar]] = {
    UnitCount: UnitLowering.count,
    UnitDistinct: UnitLowering.distinct,
    UnitSum: UnitLowering.sum,
    UnitMean: UnitLowering.mean,
    UnitLeast: UnitLowering.least,
    UnitGreatest: UnitLowering.greatest,
    UnitAny: UnitLowering.any,
    UnitAll: UnitLowering.all,
    UnitFirst: UnitLowering.first,
}
