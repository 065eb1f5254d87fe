"""Post-processing of noisy rows, which are public: all of it is free.

A Finish computes the answer's columns from keys and results, group by group. With ``sets`` (ROLLUP, CUBE, GROUPING
SETS) the rows are those of every set in turn: a row of a coarser set is the sum of its groups, so totals agree. An
Outer is a SELECT over the rows of another one.
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


@codec.serialisable("output")
@dataclass(frozen=True)
class Output:
    """One column of the answer, over keys and results."""

    name: str
    expression: Expression


@codec.serialisable("row-total")
@dataclass(frozen=True)
class RowTotal:
    """An aggregate over noisy rows: COUNT, SUM, AVG, MIN or MAX."""

    function: str
    argument: Expression | None = None
    """The aggregated expression; None where rows are counted."""
    where: Expression | None = None


@codec.serialisable("over")
@dataclass(frozen=True)
class NoisyWindow:
    """A window function over the noisy rows that are equal in ``partition``: an aggregate of them, or a rank."""

    function: str
    argument: Expression | None = None
    partition: tuple[Expression, ...] = ()
    order: tuple[Order, ...] = ()


@codec.serialisable("finish")
@dataclass(frozen=True)
class Finish:
    outputs: tuple[Output, ...]
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    sets: tuple[tuple[int, ...], ...] = ()
    """The key indices of each grouping set; empty where rows are grouped by all keys, once."""
    windows: tuple[NoisyWindow, ...] = ()
    """Computed after HAVING, before ORDER BY and LIMIT."""


@codec.serialisable("outer")
@dataclass(frozen=True)
class Outer:
    """A SELECT over the rows of another one.

    Where it groups them or adds them up, its finish is over its own keys and totals; else over the columns it reads.
    """

    finish: Finish
    where: Expression | None = None
    keys: tuple[Expression, ...] = ()
    totals: tuple[RowTotal, ...] = ()

    @property
    def grouped(self) -> bool:
        return bool(self.keys or self.totals)
