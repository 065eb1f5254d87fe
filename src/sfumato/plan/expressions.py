"""Expressions over one row as typed, frozen nodes: a column, a literal, a call of an allow-listed function.

Every node carries its domain, computed by the function's own rule when the node is made, so a bound can never
outlive the value it was declared for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sfumato.policy import Domain, Value
from sfumato.privacy import codec


@codec.value("column")
@dataclass(frozen=True)
class Column:
    """A column of the relation the expression is evaluated on."""

    name: str
    domain: Domain


@codec.value("literal")
@dataclass(frozen=True)
class Literal:
    """A value written in the question; None is NULL."""

    value: Value | None
    domain: Domain


@codec.value("call")
@dataclass(frozen=True)
class Call:
    """An allow-listed function applied to expressions: made by ``functions.call`` alone, which finds its domain."""

    function: str
    arguments: tuple[Expression, ...]
    domain: Domain


Expression = Column | Literal | Call


def walk(expression: Expression) -> Iterator[Expression]:
    """The node and everything under it."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from walk(argument)


def columns(expression: Expression) -> dict[str, Domain]:
    """The columns an expression reads, in the order of their first use."""
    return {node.name: node.domain for node in walk(expression) if isinstance(node, Column)}


Resolve = Callable[[str | None, str], Expression]
"""Finds a column by its table alias (or None) and name: the expression it stands for, or a refusal."""
