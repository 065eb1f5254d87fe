"""Post-processing of noisy rows, which are public: all of it is free.

A Finish computes the answer's columns from keys and results, group by group. With ``sets`` (ROLLUP, CUBE, GROUPING
SETS) the rows are those of every set in turn: a row of a coarser set is the sum of its groups, so totals agree. An
OuterSelect is a SELECT over the rows of another one. A NoisyRelation joins or unites the rows of several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfumato.plan.values.expressions import Column, Expression, NoisyColumn, Order, noise_count
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

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
class NoisyAggregate:
    """An aggregate over noisy rows: COUNT, SUM, AVG, MIN, MAX, CORR or REGR_SLOPE."""

    function: str
    argument: Expression | None = None
    """The aggregated expression, y of a pair; None where rows are counted."""
    where: Expression | None = None
    x: Expression | None = None
    """The second expression of CORR and REGR_SLOPE."""


@codec.serialisable("frame")
@dataclass(frozen=True)
class Frame:
    """ROWS BETWEEN … AND …: offsets from the current row, negative for PRECEDING; None is UNBOUNDED."""

    start: int | None
    end: int | None


@codec.serialisable("over")
@dataclass(frozen=True)
class NoisyWindow:
    """A window function over the noisy rows that are equal in ``partition``: an aggregate of a frame, a rank, or the
    value of another row.
    """

    function: str
    argument: Expression | None = None
    partition: tuple[Expression, ...] = ()
    order: tuple[Order, ...] = ()
    frame: Frame | None = None
    """None is the whole partition; with ORDER BY, the rows up to the current one and its peers."""
    number: int | None = None
    """The rows between of LAG and LEAD, the position of NTH_VALUE, the number of buckets of NTILE."""
    default: Expression | None = None
    """The value of LAG and LEAD where there is no row; None is NULL."""

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions it evaluates on noisy rows."""
        operands = (operand for operand in (self.argument, self.default) if operand is not None)
        return (*operands, *self.partition, *(order.expression for order in self.order))


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
    qualify: Expression | None = None
    """Which rows are kept after the windows are computed."""


@codec.serialisable("outer")
@dataclass(frozen=True)
class OuterSelect:
    """A SELECT over the rows of another one.

    Where it groups them or adds them up, its finish is over its own keys and totals; else over the columns it reads.
    """

    finish: Finish
    where: Expression | None = None
    keys: tuple[Expression, ...] = ()
    totals: tuple[NoisyAggregate, ...] = ()

    @property
    def grouped(self) -> bool:
        return bool(self.keys or self.totals)


@codec.serialisable("noisy-source")
@dataclass(frozen=True)
class NoisySource:
    """The noisy rows of one of several aggregating SELECTs, by its index."""

    index: int


@codec.serialisable("noisy-select")
@dataclass(frozen=True)
class NoisySelect:
    """A SELECT over other noisy rows."""

    input: NoisyRelation
    select: OuterSelect


@codec.serialisable("noisy-join")
@dataclass(frozen=True)
class NoisyJoin:
    """A join of noisy rows by equal public keys; the columns of the left and then those of the right. NULL equals
    nothing.

    The pairs hold all keys of one side, so that a row of the other side has at most one match.
    """

    left: NoisyRelation
    right: NoisyRelation
    pairs: tuple[tuple[Expression, Expression], ...]
    """Equal expressions over the columns of each side."""
    keep_left: bool = False
    """Whether rows of the left without a match are kept: LEFT and FULL JOIN."""
    keep_right: bool = False


@codec.serialisable("noisy-union")
@dataclass(frozen=True)
class NoisyUnion:
    """The rows of several noisy relations with the same columns, one after the other: UNION ALL, or UNION."""

    members: tuple[NoisyRelation, ...]
    distinct: bool = False
    """Whether of rows that are equal in every column only the first is kept."""


@codec.serialisable("noisy-scalars")
@dataclass(frozen=True)
class WithScalars:
    """The rows of a relation with a further column for each scalar subquery: the one number of its one row."""

    input: NoisyRelation
    scalars: tuple[NoisyRelation, ...]


NoisyRelation = NoisySource | NoisySelect | NoisyJoin | NoisyUnion | WithScalars


def nested_relations(relation: NoisyRelation) -> Iterator[NoisyRelation]:
    """Iterate over a relation and all relations inside it."""
    yield relation
    inputs: tuple[NoisyRelation, ...] = ()
    match relation:
        case NoisySelect(below):
            inputs = (below,)
        case NoisyJoin(left, right):
            inputs = (left, right)
        case NoisyUnion(members):
            inputs = members
        case WithScalars(below, scalars):
            inputs = (below, *scalars)
    for input_relation in inputs:
        yield from nested_relations(input_relation)


def selects(relation: NoisyRelation) -> Iterator[OuterSelect]:
    """Iterate over the SELECTs of a relation."""
    return (nested.select for nested in nested_relations(relation) if isinstance(nested, NoisySelect))


def drops_duplicates(relation: NoisyRelation) -> bool:
    """Return whether rows are compared with each other, as UNION does."""
    return any(isinstance(nested, NoisyUnion) and nested.distinct for nested in nested_relations(relation))


def unchanged_source_columns(relation: NoisyRelation, source_widths: Sequence[int]) -> list[frozenset[tuple[int, int]]]:
    """Return, for each column of a relation, the columns of sources of these widths that it shows unchanged: pairs of
    a source and a column of it.
    """
    match relation:
        case NoisySource(index):
            return [frozenset([(index, column)]) for column in range(source_widths[index])]
        case NoisySelect(below, select):
            inner = unchanged_source_columns(below, source_widths)
            expressions = (output.expression for output in select.finish.outputs)
            references = (
                expression.reference if isinstance(expression, Column) else None for expression in expressions
            )
            return [
                inner[reference.index] if isinstance(reference, NoisyColumn) else frozenset()
                for reference in references
            ]
        case NoisyJoin(left, right):
            return [*unchanged_source_columns(left, source_widths), *unchanged_source_columns(right, source_widths)]
        case NoisyUnion(members):
            united = zip(*(unchanged_source_columns(member, source_widths) for member in members), strict=True)
            return [frozenset().union(*column) for column in united]
        case WithScalars(below, scalars):
            return [
                *unchanged_source_columns(below, source_widths),
                *(unchanged_source_columns(scalar, source_widths)[0] for scalar in scalars),
            ]


def selects_by_noise(finish: Finish, outer: tuple[OuterSelect, ...]) -> bool:
    """Return whether noisy values select rows: by HAVING, WHERE, QUALIFY, or ORDER BY with LIMIT."""
    selecting: list[Expression | None] = [select.where for select in outer]
    for stage in (finish, *(select.finish for select in outer)):
        selecting += [stage.having, stage.qualify]
        if stage.limit is not None or stage.offset:
            selecting += [order.expression for order in stage.order]
    return any(expression is not None and noise_count(expression) for expression in selecting)
