"""Expressions as DuckDB SQL that never fails, whatever the row holds.

A column arrives in the engine's own type (``TYPES``), inside its range or among its values where they are declared, a
text no longer than its most letters: the scan sees to it. Every rendered expression then has its declared type, lies
in its domain, is a real that is 0 or between 2^-500 and 2^500 in size, or a date from year 1 to 9999, or is NULL. A
guard is written only where the domains do not already prove that.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction

from sfumato.engine.literals import literal, name, real
from sfumato.plan.expressions import Call, Column, Expression, Literal
from sfumato.plan.functions import FUNCTIONS
from sfumato.plan.functions.textual import LONGEST
from sfumato.plan.intervals import ends, nearest
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL

TYPES = {
    Type.INTEGER: "BIGINT",
    Type.REAL: "DOUBLE",
    Type.TEXT: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP",
}
_SHORT = 200
"""SQL up to this many characters is written twice: the engine finds the common part."""


_BOUND = "sf_bound"
"""The name of a value that is named more than once: no column may be called so."""

quoted = name
"""A column by its own name."""


def render(expression: Expression, column: Callable[[str], str] = quoted) -> str:
    """The SQL of an expression, given that of its columns."""
    if isinstance(expression, Column):
        return _guarded(column(expression.name), expression.domain)
    if isinstance(expression, Literal):
        return render_value(expression.value, expression.domain.type)
    written = [render(each, column) for each in expression.arguments]
    return _WRITERS[expression.function](expression, *written)


def render_value(value: Value | None, kind: Type) -> str:
    """The SQL of a public value in the engine's own type."""
    if value is None:
        return f"CAST(NULL AS {TYPES[kind]})"
    return real(nearest(Fraction(value))) if kind is Type.REAL else literal(value)  # type: ignore[arg-type]


def _let(sql: str, body: Callable[[str], str]) -> str:
    """The body of a value that it names more than once.

    Writing the value again each time would double the text at every level of nesting, so a long one is bound to a
    name; a list of one is the engine's only way to do that, at about 20 ns a row.
    """
    return body(sql) if len(sql) <= _SHORT else f"list_transform([{sql}], lambda {_BOUND}: {body(_BOUND)})[1]"


def _guarded(sql: str, domain: Domain) -> str:
    """NULL for what is no number or no date, where no declared range rules it out."""
    if domain.range is not None:
        return sql
    if domain.type is Type.REAL:
        return _sized(sql)
    return _dated(sql, domain.type) if domain.type.temporal else sql


def _sized(sql: str) -> str:
    """Sizes that a real may have: what is larger is NULL, as is NaN, which the engine takes for the largest number."""
    return _let(sql, lambda x: f"CASE WHEN abs({x}) < {_SMALLEST} THEN 0 WHEN abs({x}) <= {_LARGEST} THEN {x} END")


def _flushed(sql: str) -> str:
    """What is smaller than a real may be is 0."""
    return _let(sql, lambda x: f"CASE WHEN abs({x}) < {_SMALLEST} THEN 0 ELSE {x} END")


_SMALLEST, _LARGEST = (real(float(each)) for each in (SMALLEST_REAL, LARGEST_REAL))


def _dated(sql: str, kind: Type) -> str:
    low, high = (render_value(each, kind) for each in _CALENDAR[kind])
    return _let(sql, lambda x: f"CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} END")


_CALENDAR = {Type.DATE: (dt.date.min, dt.date.max), Type.TIMESTAMP: (dt.datetime.min, dt.datetime.max)}


Writer = Callable[..., str]


def _infix(operator: str) -> Writer:
    return lambda _, *written: "(" + f" {operator} ".join(written) + ")"


def _prefix(name: str) -> Writer:
    return lambda _, *written: f"{name}({', '.join(written)})"


def _computed(write: Writer) -> Writer:
    """Arithmetic: guarded unless the result has a range; small results are 0 unless there can be none."""

    def writer(node: Call, *written: str) -> str:
        sql = write(node, *written)
        if node.domain.type is not Type.REAL or node.domain.range is None:
            return _guarded(sql, node.domain)
        return sql if _never_small(node) else _flushed(sql)

    return writer


def _never_small(node: Call) -> bool:
    """Whether the result is surely 0 or no smaller than a real may be.

    It is when its range ends before 0, when a number is multiplied by one of at least 1 (or divided by at most 1) in
    size, and when one of two numbers that are added is 0 or far from being small: where they nearly cancel the other is
    as large, and their difference is a multiple of its last place.
    """
    found = ends(node.domain)
    if found is not None and (found[0] >= SMALLEST_REAL or found[1] <= -SMALLEST_REAL):
        return True
    match node.function:
        case "+" | "-":
            return any(_size(each) >= _FAR for each in node.arguments)
        case "*":
            return any(_size(each) >= 1 for each in node.arguments)
        case "/":
            divisor = ends(node.arguments[1].domain)
            return divisor is not None and max(map(abs, divisor)) <= 1
    return False


_FAR = Fraction(1, 2**400)


def _size(expression: Expression) -> Fraction:
    """The least size that a value has if it is not 0."""
    if isinstance(expression, Call) and expression.function == "CAST":
        return Fraction(expression.arguments[0].domain.type in (Type.INTEGER, Type.BOOLEAN))
    found = ends(expression.domain)
    if found is None or found[0] <= 0 <= found[1]:
        return Fraction(0)
    return min(map(abs, found))


def _reaching(write: Writer, outside: Callable[[Domain], bool]) -> Writer:
    """A function with gaps: guarded when an argument may lie in one, or the result has no range."""

    def writer(node: Call, *written: str) -> str:
        sql = write(node, *written)
        return _sized(sql) if node.domain.range is None or outside(node.arguments[0].domain) else sql

    return writer


def _below(low: int, *, strictly: bool) -> Callable[[Domain], bool]:
    def outside(domain: Domain) -> bool:
        found = ends(domain)
        return found is None or found[0] < low or (strictly and found[0] == low)

    return outside


def _remainder(node: Call, x: str, y: str) -> str:
    """The remainder by 0 is an error for whole numbers and NaN for doubles."""
    if node.domain.type is Type.REAL:
        return _sized(f"({x} % {y})")
    divisor = ends(node.arguments[1].domain)
    if divisor is not None and not divisor[0] <= 0 <= divisor[1]:
        return f"({x} % {y})"
    return f"({x} % {_let(y, lambda v: f'CASE WHEN {v} <> 0 THEN {v} END')})"


def _case(_: Call, *written: str) -> str:
    pairs = zip(written[:-1:2], written[1:-1:2], strict=True)
    return f"CASE {' '.join(f'WHEN {a} THEN {x}' for a, x in pairs)} ELSE {written[-1]} END"


def _nullif(_: Call, x: str, y: str) -> str:
    if len(x) <= _SHORT:
        return f"nullif({x}, {y})"
    return f"list_transform([struct_pack(x := {x}, y := {y})], lambda {_BOUND}: nullif({_BOUND}.x, {_BOUND}.y))[1]"


def _in(_: Call, x: str, *choices: str) -> str:
    return f"({x} IN ({', '.join(choices)}))"


def _round(node: Call, x: str, _: str) -> str:
    return _guarded(f"round({x}, {_literal(node, 1)})", node.domain)


def _literal(node: Call, place: int) -> Value | None:
    """An argument that the function's rule wants written out."""
    argument = node.arguments[place]
    assert isinstance(argument, Literal)
    return argument.value


def _bucket(node: Call, x: str, low: str, high: str, _: str) -> str:
    count = _literal(node, 3)
    width = f"({high} / 2 - {low} / 2)"  # halves: the whole might be more than a double holds

    def body(v: str) -> str:
        inside = f"CAST(floor(({v} / 2 - {low} / 2) / {width} * {count}) AS BIGINT) + 1"
        return (
            f"CAST(CASE WHEN {v} < {low} THEN 0 WHEN {v} >= {high} THEN {count} + 1 "
            f"WHEN {v} IS NOT NULL THEN least({count}, {inside}) END AS BIGINT)"
        )

    return _let(x, body)


def _cut(write: Writer) -> Writer:
    """Texts made longer than any may be are cut; how long they get is known before."""

    def writer(node: Call, *written: str) -> str:
        sql = write(node, *written)
        longer = FUNCTIONS[node.function].held(node) > 4 * LONGEST
        return f"left({sql}, {LONGEST})" if longer else sql

    return writer


def _part(_: Call, part: str, x: str) -> str:
    return f"CAST(date_part({part}, {x}) AS BIGINT)"  # of a NULL written out it is a double


def _trunc(node: Call, unit: str, x: str) -> str:
    return f"CAST(date_trunc({unit}, {x}) AS {TYPES[node.domain.type]})"


def _add(node: Call, x: str, *_: str) -> str:
    step = f"to_{_literal(node, 2)}s({_literal(node, 1)})"
    return _guarded(f"CAST({x} + {step} AS {TYPES[node.domain.type]})", node.domain)


def _cast(node: Call, x: str) -> str:
    found, kind = node.arguments[0].domain.type, node.domain.type
    if found is Type.TEXT:
        return _guarded(f"TRY_CAST({x} AS {TYPES[kind]})", node.domain)
    fails = found is Type.REAL and kind is Type.INTEGER and node.domain.range is None
    return f"{'TRY_CAST' if fails else 'CAST'}({x} AS {TYPES[kind]})"


_WRITERS: dict[str, Writer] = {
    **{name: _infix(name) for name in ("=", "<>", "<", "<=", ">", ">=", "AND", "OR", "LIKE", "ILIKE")},
    **{name: _computed(_infix(name)) for name in ("+", "-", "*", "/")},
    **{name: _prefix(name.lower()) for name in ("ABS", "FLOOR", "CEIL", "COALESCE", "LEAST", "GREATEST")},
    **{name: _prefix(name.lower()) for name in ("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM", "LENGTH", "STARTS_WITH")},
    **{name: _prefix(name.lower()) for name in ("SUBSTR", "LEFT", "RIGHT", "DATE_DIFF")},
    "NOT": lambda _, x: f"(NOT {x})",
    "BETWEEN": lambda _, x, low, high: f"({x} BETWEEN {low} AND {high})",
    "IN": _in,
    "IS NULL": lambda _, x: f"({x} IS NULL)",
    "IS TRUE": lambda _, x: f"({x} IS TRUE)",
    "IS FALSE": lambda _, x: f"({x} IS FALSE)",
    "CASE": _case,
    "NULLIF": _nullif,
    "NEGATE": lambda _, x: f"(-{x})",
    "SIGN": lambda _, x: f"CAST(sign({x}) AS BIGINT)",
    "%": _remainder,
    "ROUND": _round,
    "SQRT": _reaching(_prefix("sqrt"), _below(0, strictly=False)),
    "LN": _reaching(_prefix("ln"), _below(0, strictly=True)),
    "EXP": _computed(_prefix("exp")),
    "POW": _computed(_prefix("pow")),
    "WIDTH_BUCKET": _bucket,
    "CONCAT": _cut(_prefix("concat")),
    "||": _cut(_infix("||")),
    "REPLACE": _cut(_prefix("replace")),
    "EXTRACT": _part,
    "DATE_TRUNC": _trunc,
    "DATE_ADD": _add,
    "CAST": _cast,
}
