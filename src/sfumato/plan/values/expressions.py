"""Expressions over one row are typed, frozen nodes: a column, a literal, a call of an allow-listed function.

Every node carries its domain, computed by the function's own rule when the node is made, so a bound can never
outlive the value it was declared for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sfumato.policy import Domain, Value
from sfumato.privacy import codec


@codec.value("field")
@dataclass(frozen=True)
class Field:
    """A field is a column of a relation that is read. What adds columns is numbered in the order in which the plan
    meets it, from 0; the table is empty for a column that is computed.
    """

    source: int
    table: str
    name: str

    def __str__(self) -> str:
        return self.name if self.source == 0 or not self.table else f"{self.table}.{self.name}"


@codec.value("key")
@dataclass(frozen=True)
class Key:
    """This is a key of the groups, by its place among them."""

    index: int


@codec.value("result")
@dataclass(frozen=True)
class Result:
    """This is the noisy result of a measure, by its place among them."""

    index: int
    noises: int = field(default=1, compare=False)
    """How many noises stand behind it."""


@codec.value("summed-over")
@dataclass(frozen=True)
class SummedOver:
    """This says whether a row is a subtotal over all values of a key: 1 if so, else 0. It is what GROUPING(key)
    says.
    """

    index: int


@codec.value("shown-column")
@dataclass(frozen=True)
class ShownColumn:
    """This is a column of the noisy rows that an outer SELECT reads, by its place."""

    index: int
    noises: int = field(default=1, compare=False)
    """How many noises stand behind it: none where it is made of keys."""


@codec.value("windowed")
@dataclass(frozen=True)
class Windowed:
    """This is a function of a noisy row among others, by its place among the windows of a SELECT."""

    index: int
    noises: int = field(default=1, compare=False)


Reference = Field | Key | Result | SummedOver | ShownColumn | Windowed
"""What a column is: a field below the aggregate; above it a key, a result, or what is made of noisy rows."""


@codec.value("column")
@dataclass(frozen=True)
class Column:
    """This is a column of what the expression is evaluated on."""

    reference: Reference
    domain: Domain


@codec.value("literal")
@dataclass(frozen=True)
class Literal:
    """A literal is a value written in the question; None is NULL."""

    value: Value | None
    domain: Domain


@codec.value("call")
@dataclass(frozen=True)
class Call:
    """A call is an allow-listed function applied to expressions: it is made by ``functions.call`` alone, which finds
    its domain.

    Its size, its depth and its hash are found once, when it is made: expressions share parts, and a question could
    otherwise make us count the same part again and again.
    """

    function: str
    arguments: tuple[Expression, ...]
    domain: Domain
    size: int = field(init=False, repr=False, compare=False)
    """Nodes in all."""
    depth: int = field(init=False, repr=False, compare=False)
    """Levels, itself included."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(map(size, self.arguments)))
        object.__setattr__(self, "depth", 1 + max(map(depth, self.arguments), default=0))
        object.__setattr__(self, "_hash", hash((self.function, self.arguments, self.domain)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Call, (self.function, self.arguments, self.domain)  # hashes of texts differ between processes


Expression = Column | Literal | Call


@codec.value("order")
@dataclass(frozen=True)
class Order:
    """Rows are ordered by the values of this expression."""

    expression: Expression
    descending: bool
    nulls_first: bool


def size(expression: Expression) -> int:
    """Count the nodes of an expression."""
    return expression.size if isinstance(expression, Call) else 1


def depth(expression: Expression) -> int:
    return expression.depth if isinstance(expression, Call) else 1


def walk(expression: Expression) -> Iterator[Expression]:
    """List the node and everything under it, each before what it is made of."""
    waiting = [expression]
    while waiting:
        found = waiting.pop()
        yield found
        if isinstance(found, Call):
            waiting.extend(reversed(found.arguments))


def columns(expression: Expression) -> dict[Reference, Domain]:
    """List the columns an expression reads, in the order of their first use."""
    return {node.reference: node.domain for node in walk(expression) if isinstance(node, Column)}


def of_keys(expression: Expression) -> bool:
    """Tell whether an expression reads keys of groups and nothing else: it is public, whatever is done with it."""
    read = columns(expression)
    return bool(read) and all(isinstance(each, Key) for each in read)


def noises(expression: Expression) -> int:
    """Count the noises that stand behind an expression over noisy rows: a mean is made of two."""
    return sum(getattr(each, "noises", 0) for each in columns(expression))


Resolve = Callable[[str | None, str], Expression]
"""Finds a column by its table alias (or None) and name: the expression it stands for, or a refusal."""
