"""Noisy rows are public, so all that is done with them is free.

A Finish makes the answer's columns from keys and results, groups by groups. With ``sets`` (ROLLUP, CUBE, GROUPING SETS)
the rows are those of every set in turn: a row of a coarser set is the sum of the groups it is made of, so totals agree.
An Outer is a SELECT over the rows of another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.plan.values.expressions import Expression, Order
from sfumato.privacy import codec

# fmt: off
FINISHING = frozenset((
    "+", "-", "*", "/", "//", "%", "NEGATE", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "BETWEEN", "IN",
    "IS NULL", "CASE", "IF", "COALESCE", "NULLIF", "ABS", "ROUND", "FLOOR", "CEIL", "TRUNC", "SQRT", "SIGN",
    "LEAST", "GREATEST", "CAST",
))
# fmt: on
"""The functions that may be applied to noisy numbers."""


@codec.value("output")
@dataclass(frozen=True)
class Output:
    """An output is one column of the answer, over keys and results."""

    name: str
    expression: Expression


@codec.value("row-total")
@dataclass(frozen=True)
class RowTotal:
    """This is an aggregate over noisy rows: COUNT, SUM, AVG, MIN or MAX."""

    function: str
    argument: Expression | None = None
    """What is counted or added up; None where rows are counted."""
    where: Expression | None = None


@codec.value("over")
@dataclass(frozen=True)
class NoisyWindow:
    """This is a function of a noisy row among the rows that are equal in ``partition``: an aggregate of them, or its
    rank.
    """

    function: str
    argument: Expression | None = None
    partition: tuple[Expression, ...] = ()
    order: tuple[Order, ...] = ()


@codec.value("finish")
@dataclass(frozen=True)
class Finish:
    outputs: tuple[Output, ...]
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    sets: tuple[tuple[int, ...], ...] = ()
    """Which keys each grouping set has, by their places; none of them where rows are grouped by all keys, once."""
    windows: tuple[NoisyWindow, ...] = ()
    """Found after HAVING, before ORDER BY and LIMIT."""


@codec.value("outer")
@dataclass(frozen=True)
class Outer:
    """This is a SELECT over the rows of another one.

    Where it groups them or adds them up, its finish is over its own keys and totals; else over the columns it reads.
    """

    finish: Finish
    where: Expression | None = None
    keys: tuple[Expression, ...] = ()
    totals: tuple[RowTotal, ...] = ()

    @property
    def grouped(self) -> bool:
        return bool(self.keys or self.totals)
