"""The worst-case cost of a query per row, from its text and the policy: it is checked before anything is charged or
evaluated.

Functions are total in value, and here in cost too. Each declares the most steps it takes and the most bytes it makes on
one row, from the most letters of its arguments (``functions.declaring``); a column of texts is cut at its declared
length when it is scanned, so no row is dearer than that, whatever it holds. A row of the private table is evaluated
once beside every row of public tables that it meets, and once for every item of a list.

Where rows of private tables meet, one row meets at most as many of the other side as that side is cut to, at every
join and at every test by more than equality, wherever in the tree it stands.

Rows of one unit that are looked at together are sorted, once for each function: n rows of a unit cost n·log n, and
no function looks at all rows again for each of them.

*Bound.* With one unit's rows or without them, a question's work differs by at most MOST_STEPS steps and MOST_BYTES
bytes for every row of that unit (times the few times that a statement reads a row). What an analyst writes cannot make
one person's row dearer. ∎
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sfumato.errors import Unsupported
from sfumato.plan.nodes import (
    Aggregate,
    AnySemiJoin,
    PerUnit,
    PublicJoin,
    Relation,
    SemiJoin,
    UnitJoin,
    Unnest,
    Window,
    max_rows_per_private_row,
    relations,
)
from sfumato.plan.values.expressions import Call, Expression, expression_size, walk
from sfumato.plan.values.functions import FUNCTIONS

MAX_STEPS = 100_000
"""The most steps for one row of the private table in one query; a step is about 3 ns."""
MAX_BYTES = 64 * 1024
"""The most bytes allocated for one row of the private table in one query."""
MAX_PARTS = 20_000
"""The most nodes of all expressions of one query."""
MAX_MATCHES = 1_000
"""The most rows that one row becomes by joins with public tables and items of lists."""
_JOIN = 20  # steps and bytes, for every row that is met
_SORT = 100  # for every function of a unit's rows, which may order them


def check_cost(plan: Aggregate) -> None:
    """Raise ``Unsupported`` for a query whose rows might cost too much."""
    evaluated = list(evaluated_expressions(plan))
    if sum(map(expression_size, evaluated)) > MAX_PARTS:
        rule = f"a question can have at most {MAX_PARTS:,} columns, values and functions, with subqueries expanded"
        raise Unsupported("too-large", rule, fix="split the question into several")
    factor = max(map(_max_matches, relations(plan.source)))
    if factor > MAX_MATCHES:
        rule = (
            f"joins and lists can turn one row into at most {MAX_MATCHES:,} rows; here one row could become {factor:,}"
        )
        fix = "join on columns with fewer matching rows, or ask about one list at a time"
        raise Unsupported("join-multiplicity", rule, fix=fix)
    lookup_overhead = sum(map(_lookup_overhead, relations(plan.source)))
    steps = (max_evaluation_steps(evaluated) + lookup_overhead) * factor
    if steps > MAX_STEPS:
        rule = f"evaluating one row can take at most {MAX_STEPS:,} steps; this question could take {steps:,}"
        raise Unsupported("too-costly", rule, fix=_FIX)
    byte_count = (max_evaluation_bytes(evaluated) + lookup_overhead) * factor
    if byte_count > MAX_BYTES:
        rule = (
            f"evaluating one row can use at most {MAX_BYTES:,} bytes of memory; this question could use {byte_count:,}"
        )
        raise Unsupported("too-costly", rule, fix=_FIX)


def _max_matches(node: Relation) -> int:
    """Return the most rows that one row becomes at a node, or is compared with there.

    Every node counts, since rows that are aggregated or filtered later have already cost their time.
    """
    if isinstance(node, (SemiJoin, AnySemiJoin)):
        tests = (node,) if isinstance(node, SemiJoin) else node.tests
        compared_rows = sum(test.other.max_rows_per_unit or 1 for test in tests if test.condition is not None)
        return max_rows_per_private_row(node.input) * max(1, compared_rows)
    return max_rows_per_private_row(node)


def _lookup_overhead(node: Relation) -> int:
    """Return the steps and bytes of a row for lookups beside it, or for its position among others."""
    match node:
        case PublicJoin() | UnitJoin() | SemiJoin() | Unnest():
            return _JOIN
        case AnySemiJoin(tests=tests):
            return _JOIN * len(tests)
        case PerUnit(results=results):
            return _SORT * len(results)
        case Window(functions=functions):
            return _SORT * len(functions)
    return 0


_FIX = "use shorter patterns, split the question, or declare a smaller max_length for text columns in the policy"


def evaluated_expressions(plan: Aggregate) -> Iterator[Expression]:
    """Iterate over every expression that is evaluated on private rows."""
    for node in relations(plan.source):
        yield from node.expressions
    yield from plan.expressions


def max_evaluation_steps(evaluated: Iterable[Expression]) -> int:
    """Return the most steps that evaluating these on one row takes."""
    return sum(FUNCTIONS[node.function].row_cost(node) for node in _function_calls(evaluated))


def max_evaluation_bytes(evaluated: Iterable[Expression]) -> int:
    """Return the most bytes that evaluating these on one row allocates."""
    return sum(FUNCTIONS[node.function].row_bytes(node) for node in _function_calls(evaluated))


def _function_calls(evaluated: Iterable[Expression]) -> Iterator[Call]:
    return (node for expression in evaluated for node in walk(expression) if isinstance(node, Call))
