"""Functions over a unit's rows in an order become windows of the relational form.

What is written decides first; then every column that is read of the rows, and every value that a function here is made
from. Rows that still tie are equal in all that anybody sees of them, so either may come first: but first in every order
alike, or else which place in one order goes with which in another would be the engine's choice. So where functions have
several orders, each row is numbered once, and the number decides. Functions in which tied rows share a value (RANK, and
totals up to a row's peers) are ordered by what is written alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sfumato.engine.lowering.relational import (
    Aggregation,
    Beside,
    Frame,
    Operation,
    Ordered,
    Over,
    Place,
    Rank,
    Reference,
    Scalar,
    Total,
    apply,
    whole,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.lowering.unit_lowering import UnitLowering, as_ordered, as_result
from sfumato.plan.aggregates import windows
from sfumato.plan.aggregates.windows import Counting, WindowFunction
from sfumato.plan.values.expressions import Field, Order

_FRAMES = {windows.Frame.PEERS: Frame.PEERS, windows.Frame.ROWS: Frame.ROWS, windows.Frame.WHOLE: Frame.WHOLE}
_PLACES = {
    Counting.ROW_NUMBER: Place.ROW_NUMBER,
    Counting.RANK: Place.RANK,
    Counting.DENSE_RANK: Place.DENSE_RANK,
}
Orders = tuple[Scalar | Ordered, ...]
_NUMBER = "n0"


@dataclass
class WindowLowering:
    """This lowers windows over the same rows, and collects what is computed of the rows in stages before their
    results.
    """

    lowering: RowLowering
    read: tuple[Reference, ...]
    """The columns that are read of the rows."""
    ties: Orders = ()
    numbered: Rank | None = None
    """The number of each row of a unit, where one is needed."""
    found: dict[Over | Beside | Rank, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.unit = UnitLowering(self.lowering, ())

    def results(self, functions: Mapping[Field, WindowFunction]) -> dict[Field, Scalar]:
        """Give what each function finds, over the last stage."""
        for function in functions.values():  # once to know all the values that the functions read
            self._result(function)
        self.ties = (*self.read, *(Reference(name) for name, _ in self.unit.rows))
        found = self._again(functions)
        if len(self._tied()) < 2:
            return found
        self.numbered, self.ties = Rank((Reference("u"),), self.ties), (Reference(_NUMBER),)
        return self._again(functions)

    def _again(self, functions: Mapping[Field, WindowFunction]) -> dict[Field, Scalar]:
        self.found.clear()
        self.unit.clear_ranks()
        return {name: self._result(function) for name, function in functions.items()}

    def _tied(self) -> set[tuple[tuple[Scalar, ...], Orders]]:
        """Find the partitions and orders in which rows that tie may get values of their own."""
        last = len(self.ties)
        return {(each.partition, each.order) for each in self.found if each.order[-last or None :] == self.ties}

    @property
    def stages(self) -> list[tuple[tuple[str, Scalar], ...]]:
        """List the columns to compute one after the other."""
        numbers = () if self.numbered is None else ((_NUMBER, self.numbered),)
        made = (numbers, self.unit.ranks, tuple((name, window) for window, name in self.found.items()))
        return [stage for stage in made if stage]

    def _result(self, function: WindowFunction) -> Scalar:
        return _RESULTS[type(function)](self, function)

    def _named(self, window: Over | Beside | Rank) -> Reference:
        return Reference(self.found.setdefault(window, f"w{len(self.found)}"))

    def _partition(self, function: WindowFunction) -> tuple[Scalar, ...]:
        keys = (as_ordered(self.lowering.lower(key), key.domain.type) for key in function.keys)
        return (Reference("u"), *map(self.unit.column, keys))

    def _order(self, order: tuple[Order, ...], *, ties: bool) -> Orders:
        return (*map(self.unit.ordered, order), *(self.ties if ties else ()))

    def place(self, function: windows.Place) -> Scalar:
        ties = function.counting is Counting.ROW_NUMBER
        order = self._order(function.order, ties=ties)
        place = self._named(Rank(self._partition(function), order, _PLACES[function.counting]))
        return apply(Operation.LEAST, place, whole(function.cap))

    def shifted(self, function: windows.Shifted) -> Scalar:
        kind = function.domain.type
        value = self.unit.column(as_ordered(self.lowering.lower(function.value), kind))
        default = None
        if function.default is not None:
            default = self.unit.column(as_ordered(self.lowering.lower(function.default), kind))
        order = self._order(function.order, ties=True)
        beside = self._named(Beside(value, function.places, default, self._partition(function), order))
        return as_result(beside, function.value if default is None else None, function.domain)

    def end(self, function: windows.End) -> Scalar:
        """Take the one value of the row whose place is 1, from whichever end."""
        partition = self._partition(function)
        if function.peers:
            partition += tuple(self.unit.ordered(each).scalar for each in function.order)
        order = self._order(function.order, ties=True)
        if function.last:
            order = tuple(map(_turned, order))
        value = self.unit.column(as_ordered(self.lowering.lower(function.value), function.domain.type))
        first = apply(Operation.EQUAL, self.unit.rank(Rank(partition, order)), whole(1))
        only = Total(Aggregation.MAX, apply(Operation.CASE, first, value))
        return as_result(self._named(Over(only, partition, (), Frame.WHOLE)), function.value, function.domain)

    def running(self, function: windows.Running) -> Scalar:
        partition, frame = self._partition(function), _FRAMES[function.frame]
        order = self._order(function.order, ties=frame is Frame.ROWS)
        return self.unit.result(function.measure, lambda total: self._named(Over(total, partition, order, frame)))


def _turned(each: Scalar | Ordered) -> Ordered:
    """Read the same order from its other end."""
    ordered = each if isinstance(each, Ordered) else Ordered(each)
    return Ordered(ordered.scalar, not ordered.descending, not ordered.nulls_first)


_RESULTS: dict[type, Callable[..., Scalar]] = {
    windows.Place: WindowLowering.place,
    windows.Shifted: WindowLowering.shifted,
    windows.End: WindowLowering.end,
    windows.Running: WindowLowering.running,
}
