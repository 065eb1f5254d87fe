"""Typed, frozen expressions over one row: a column, a literal, or a call of an allow-listed function.

Every node carries its domain, computed by the function's own rule when the node is built, so a bound can never
outlive the value it was declared for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from sfumato.policy import Domain, Value
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass


@codec.serialisable("field")
@dataclass(frozen=True)
class Field:
    """A column of a relation. The relations that add columns are numbered from 0 in the order in which the plan meets
    them; the table is empty for a computed column.
    """

    source: int
    table: str
    name: str

    def __str__(self) -> str:
        return self.name if self.source == 0 or not self.table else f"{self.table}.{self.name}"


@codec.serialisable("key")
@dataclass(frozen=True)
class Key:
    """A group key, by its index."""

    index: int


@codec.serialisable("result")
@dataclass(frozen=True)
class Result:
    """The noisy result of a measure, by its index."""

    index: int
    noises: int = field(default=1, compare=False)
    """The number of noise terms behind it."""


@codec.serialisable("summed-over")
@dataclass(frozen=True)
class GroupingFlag:
    """Whether a row is a subtotal over all values of a key, as 1 or 0: GROUPING(key)."""

    index: int


@codec.serialisable("shown-column")
@dataclass(frozen=True)
class NoisyColumn:
    """A column of the noisy rows that an outer SELECT reads, by its index."""

    index: int
    noises: int = field(default=1, compare=False)
    """The number of noise terms behind it: none for an expression over keys."""


@codec.serialisable("windowed")
@dataclass(frozen=True)
class WindowResult:
    """A window function over noisy rows, by its index among the windows of a SELECT."""

    index: int
    noises: int = field(default=1, compare=False)


@codec.serialisable("released-value")
@dataclass(frozen=True)
class ReleasedValue:
    """A number that is released before the rows are read, by its index: it is the same in every row.

    A plan is priced with it in place, so all that follows from the plan holds whatever it turns out to be; it becomes a
    literal (``plan.released_values``) when it is known.
    """

    index: int
    text: str = field(default="", compare=False)
    """What the question says in its place."""

    def __str__(self) -> str:
        return self.text


Reference = Field | ReleasedValue | Key | Result | GroupingFlag | NoisyColumn | WindowResult
"""What a column refers to: a field or a released value below the aggregate; above it a key, a result, or a column of
noisy rows.
"""


@codec.serialisable("column")
@dataclass(frozen=True)
class Column:
    """A column of the rows that an expression is evaluated on."""

    reference: Reference
    domain: Domain


@codec.serialisable("literal")
@dataclass(frozen=True)
class Literal:
    """A literal of the query; None is NULL."""

    value: Value | None
    domain: Domain


@codec.serialisable("call")
@dataclass(frozen=True)
class Call:
    """An allow-listed function applied to expressions. Only ``functions.call`` builds calls: it derives the domain.

    Size, depth and hash are computed once, when it is built: expressions share subexpressions, and a query could
    otherwise make us visit the same one again and again.
    """

    function: str
    arguments: tuple[Expression, ...]
    domain: Domain
    size: int = field(init=False, repr=False, compare=False)
    """The number of nodes."""
    depth: int = field(init=False, repr=False, compare=False)
    """The number of levels, itself included."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(map(expression_size, self.arguments)))
        object.__setattr__(self, "depth", 1 + max(map(expression_depth, self.arguments), default=0))
        object.__setattr__(self, "_hash", hash((self.function, self.arguments, self.domain)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Call, (self.function, self.arguments, self.domain)  # hashes of texts differ between processes


Expression = Column | Literal | Call


@codec.serialisable("order")
@dataclass(frozen=True)
class Order:
    """An ORDER BY term."""

    expression: Expression
    descending: bool
    nulls_first: bool


def expression_size(expression: Expression) -> int:
    """Return the number of nodes of an expression."""
    return expression.size if isinstance(expression, Call) else 1


def expression_depth(expression: Expression) -> int:
    return expression.depth if isinstance(expression, Call) else 1


def walk(expression: Expression) -> Iterator[Expression]:
    """Iterate over the node and all nodes below it in pre-order."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.arguments))


def conjuncts(condition: Expression | None) -> list[Expression]:
    """Split a condition into the conjuncts of its ANDs."""
    if isinstance(condition, Call) and condition.function == "AND":
        return [conjunct for argument in condition.arguments for conjunct in conjuncts(argument)]
    return [] if condition is None else [condition]


def columns(expression: Expression) -> dict[Reference, Domain]:
    """Return the columns that an expression reads, in the order of their first use."""
    return {node.reference: node.domain for node in walk(expression) if isinstance(node, Column)}


def reads_only_keys(expression: Expression) -> bool:
    """Return whether an expression reads group keys and nothing else: it is public, whatever is done with it."""
    references = columns(expression)
    return bool(references) and all(isinstance(reference, Key) for reference in references)


def noise_count(expression: Expression) -> int:
    """Return the number of noise terms behind an expression over noisy rows: a mean has two."""
    return sum(getattr(reference, "noises", 0) for reference in columns(expression))


Resolve = Callable[[str | None, str], Expression]
"""Resolves a column by its table alias (or None) and name to the expression it stands for, or refuses."""
