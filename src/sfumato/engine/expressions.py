"""Expressions as DuckDB SQL that never fails, whatever the row holds.

A column arrives in the engine's own type (``TYPES``), inside its range or among its values where they are declared, a
text no longer than its most letters: the scan sees to it. Every rendered expression then has its declared type, lies
in its domain, is a finite number or a date from year 1 to 9999, or is NULL. A guard is written only where the domains
do not already prove that.
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
    return body(sql) if len(sql) <= _SHORT else f"list_transform([{sql}], lambda v: {body('v')})[1]"


def _guarded(sql: str, domain: Domain) -> str:
    """NULL for what is no number or no date, where no declared range rules it out."""
    if domain.range is not None:
        return sql
    if domain.type is Type.REAL:
        return _finite(sql)
    return _dated(sql, domain.type) if domain.type.temporal else sql


def _finite(sql: str) -> str:
    return _let(sql, lambda x: f"CASE WHEN isfinite({x}) THEN {x} END")


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
    """Arithmetic: guarded unless the result has a range."""
    return lambda node, *written: _guarded(write(node, *written), node.domain)


def _reaching(write: Writer, outside: Callable[[Domain], bool]) -> Writer:
    """A function with gaps: guarded when an argument may lie in one, or the result has no range."""

    def writer(node: Call, *written: str) -> str:
        sql = write(node, *written)
        return _finite(sql) if node.domain.range is None or outside(node.arguments[0].domain) else sql

    return writer


def _below(low: int, *, strictly: bool) -> Callable[[Domain], bool]:
    def outside(domain: Domain) -> bool:
        found = ends(domain)
        return found is None or found[0] < low or (strictly and found[0] == low)

    return outside


def _remainder(node: Call, x: str, y: str) -> str:
    """The remainder by 0 is an error for whole numbers and NaN for doubles."""
    divisor = ends(node.arguments[1].domain)
    if divisor is not None and not divisor[0] <= 0 <= divisor[1]:
        return f"({x} % {y})"
    if node.domain.type is Type.REAL:
        return _finite(f"({x} % {y})")
    return f"({x} % {_let(y, lambda v: f'CASE WHEN {v} <> 0 THEN {v} END')})"


def _case(_: Call, *written: str) -> str:
    pairs = zip(written[:-1:2], written[1:-1:2], strict=True)
    return f"CASE {' '.join(f'WHEN {a} THEN {x}' for a, x in pairs)} ELSE {written[-1]} END"


def _nullif(_: Call, x: str, y: str) -> str:
    if len(x) <= _SHORT:
        return f"nullif({x}, {y})"
    return f"list_transform([struct_pack(x := {x}, y := {y})], lambda v: nullif(v.x, v.y))[1]"


def _in(_: Call, x: str, *choices: str) -> str:
    return f"({x} IN ({', '.join(choices)}))"


def _round(node: Call, x: str, _: str) -> str:
    return f"round({x}, {_literal(node, 1)})"


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
