"""Lower parsed SQL expressions by a table of readers; everything else is refused with its position.

The parser rewrites what people type into its own classes and sets flags on them, so every class below names the parts
it reads: a part that is set and not named is refused, never dropped.

A refusal says why, and suggests the nearest expression that works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.sql.dialect import DIALECT, function_name, refusal
from sfumato.plan.values.expressions import Column, Expression, Literal, Resolve, expression_size
from sfumato.plan.values.functions import FUNCTIONS, call, literal, null_literal
from sfumato.plan.values.functions.declaring import require_literal
from sfumato.plan.values.functions.temporal import COMPOSED_PARTS, PARTS
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.policy.domains import LARGEST_INTEGER, Type

DEEPEST = 100
"""The most levels of nesting."""
_LARGEST_OPERAND = 16

Node = exp.Expr
Read = Callable[[Node], Expression]
Reader = Callable[[Any, Read], Expression]
NodeLowering = Callable[[Node, Read], Expression | None]


def lower_expression(node: Node, resolve: Resolve) -> Expression:
    """Lower a parsed expression; raise ``Unsupported`` with its position for all that is not supported."""
    return lower_with(node, lambda part, _: _lower_column(part, resolve) if isinstance(part, exp.Column) else None)


def lower_with(node: Node, lower_first: NodeLowering) -> Expression:
    """Lower an expression; ``lower_first`` is tried first and lowers the nodes it knows, such as columns."""
    _check_present(node)
    if _depth(node) > DEEPEST:
        raise with_position(
            Unsupported(
                "too-deep",
                f"an expression can be nested at most {DEEPEST} levels deep",
                fix="use x IN (…) instead of many ORs, or compute parts of it in a subquery",
            ),
            node,
        )

    def read(part: Node) -> Expression:
        _check_present(part)
        try:
            return lower_first(part, read) or _reader_for(part)(part, read)
        except Unsupported as error:
            raise with_position(error, part) from None

    return read(node)


def _check_present(node: Node | None) -> None:
    """Refuse an argument that the parser let be missing, as in MAX()."""
    if node is None:
        raise Unsupported("arguments", "an argument is missing", fix="write the argument inside the parentheses")


def cached_lowering(resolve: Resolve) -> Callable[[Node], Expression | None]:
    """Return a lowering that caches its results by node; None for nodes that are not supported, such as aggregates."""
    cache: dict[int, Expression | None] = {}

    def read(part: Node) -> Expression:
        lowered = attempt(part)
        if lowered is None:
            part_text = f"{function_name(part)}(…)" if isinstance(part, exp.Func) else part.sql(dialect=DIALECT)[:60]
            rule = f"{part_text} cannot be computed from one row, but the expression around it is evaluated row by row"
            fix = "compute it in a subquery, and use its column here"
            raise with_position(Unsupported("part", rule, fix=fix), part)
        return lowered

    def attempt(part: Node) -> Expression | None:
        if id(part) not in cache:
            try:
                lowered = (
                    _lower_column(part, resolve) if isinstance(part, exp.Column) else _reader_for(part)(part, read)
                )
                cache[id(part)] = lowered
            except Unsupported:
                cache[id(part)] = None
        return cache[id(part)]

    return attempt


def with_position(error: Unsupported, node: Node) -> Unsupported:
    """Return a refusal with the position of the node, unless it already has one."""
    if error.line is not None:
        return error
    line, column = line_and_column(node)
    rule = error.rule.removesuffix(f" [{error.code}]")
    return Unsupported(error.code, rule, fix=error.fix, place=error.place, line=line, column=column)


def line_and_column(node: Node) -> tuple[int | None, int | None]:
    """Return the line and column, from 1, where the node begins, or the nearest ones."""
    starts = [_start_line_and_column(descendant) for descendant in node.walk()]
    positions = [start for start in starts if start is not None]
    if positions:
        return min(positions)
    return (None, None) if node.parent is None else line_and_column(node.parent)


def _start_line_and_column(node: Node) -> tuple[int, int] | None:
    if "line" not in node.meta:
        return None
    meta = node.meta  # the column is that of the token's last letter
    return meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"]))


def _depth(node: Node) -> int:
    """Return the depth of a tree, without recursion; a chain of AND, OR or || is one level."""
    deepest, stack = 0, [(node, 1)]
    while stack:
        current, depth = stack.pop()
        deepest = max(deepest, depth)
        children = _flatten_chain(current) if isinstance(current, _CHAINS) else list(current.iter_expressions())
        stack.extend((child, depth + 1) for child in children)
    return deepest


_CHAINS = (exp.And, exp.Or, exp.DPipe)


def _flatten_chain(node: Node) -> list[Node]:
    """Flatten a chain: a AND b AND c as three operands, in order."""
    operands: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is type(node):
            stack += [current.args["expression"], current.args["this"]]
        else:
            operands.append(current)
    return operands


def _reader_for(node: Node) -> Reader:
    entry = _READERS.get(type(node))
    if entry is None:
        raise refusal(node)
    reader, parts = entry
    for part, value in node.args.items():
        if value and part not in parts:
            raise Unsupported(
                "clause", f"this form of {function_name(node)} is not supported", fix=_plain_form_advice(node)
            )
    return reader


def _plain_form_advice(node: Node) -> str:
    function = FUNCTIONS.get(node.key.upper())
    return f"write {function.signature}" if function else "write it without these options"


def _lower_column(node: exp.Column, resolve: Resolve) -> Expression:
    if node.args.get("db") or node.args.get("join_mark") or not isinstance(node.this, exp.Identifier):
        raise Unsupported(
            "column",
            "a column must be written as name or table.name",
            fix="leave out the name of the schema or database",
        )
    try:
        return resolve(node.table or None, node.name)
    except Unsupported as unknown:
        if unknown.code != "unknown-column" or not node.this.quoted:
            raise
        rule, name = f"the policy declares no column named '{node.name[:60]}'", node.name[:60].replace("'", "''")
        fix = (
            f"{unknown.fix.rstrip('?')}; double quotes are for names, and a text is written in single quotes: '{name}'"
        )
        raise Unsupported("unknown-column", rule, fix=fix) from None


RELEASED_VALUE = "released_value"
"""Where a node that stands for a released number holds the column that it is."""


def _lower_released_value(node: exp.Var, _: Read) -> Expression:
    released = node.meta.get(RELEASED_VALUE)
    if not isinstance(released, Column):
        raise refusal(node)
    return released


# Literals


def _lower_literal(node: exp.Literal, _: Read) -> Expression:
    if node.is_string:
        return literal(Type.TEXT, node.this)
    return _parse_number(node.this)


def _parse_number(digits: str) -> Literal:
    """Parse a number exactly; digits alone are an integer."""
    if digits.isdecimal() and len(digits) <= 100:
        if int(digits) > LARGEST_INTEGER:
            rule = "a whole number can be at most 2^62 in absolute value"
            raise Unsupported("literal", rule, fix="write the number with a decimal point or an exponent, such as 1e30")
        return literal(Type.INTEGER, int(digits))
    if len(digits) > 100 or len(digits.lower().partition("e")[2]) > 5:
        raise Unsupported("literal", "a number can have at most 100 characters", fix="write fewer digits")
    try:
        return literal(Type.REAL, Fraction(digits))
    except ValueError:
        raise Unsupported("literal", "this is not a number", fix="write 12, 1.5 or 2e6") from None


def _lower_boolean(node: exp.Boolean, _: Read) -> Expression:
    return literal(Type.BOOLEAN, bool(node.this))


def _lower_null(_: exp.Null, __: Read) -> Expression:
    return null_literal()


# Functions


def _function_reader(name: str, *parts: str) -> tuple[Reader, frozenset[str]]:
    """Return a reader for a class whose parts are the function's arguments in order; one may be a list, the last may be
    missing.
    """

    def reader(node: Node, read: Read) -> Expression:
        return call(name, *(read(child) for child in _child_nodes(node, parts)))

    return reader, frozenset((*parts, *_IGNORED_PARTS.get(name, ())))


_IGNORED_PARTS = {
    "/": ("typed", "safe"),
    "CONCAT": ("safe", "coalesce"),
    "LEAST": ("ignore_nulls",),
    "GREATEST": ("ignore_nulls",),
}


def _child_nodes(node: Node, parts: Iterable[str]) -> Iterable[Node]:
    for part in parts:
        child = node.args.get(part)
        if isinstance(child, list):
            yield from child
        elif child is not None:
            yield child


def _comparison_reader(name: str) -> tuple[Reader, frozenset[str]]:
    def reader(node: Node, read: Read) -> Expression:
        if isinstance(node.this, _COMPARISONS) or isinstance(node.expression, _COMPARISONS):
            raise Unsupported(
                "chained", "comparisons cannot be chained", fix="write a < b AND b < c, or use parentheses"
            )
        return call(name, read(node.this), read(node.expression))

    return reader, frozenset(("this", "expression"))


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _chain_reader(name: str) -> tuple[Reader, frozenset[str]]:
    def reader(node: Node, read: Read) -> Expression:
        return call(name, *(read(operand) for operand in _flatten_chain(node)))

    return reader, frozenset(("this", "expression", "safe"))


def _like_reader(name: str) -> tuple[Reader, frozenset[str]]:
    def reader(node: Node, read: Read) -> Expression:
        match = call(name, read(node.this), read(node.expression))
        return call("NOT", match) if node.args.get("negate") else match

    return reader, frozenset(("this", "expression", "negate"))


def _lower_paren(node: exp.Paren, read: Read) -> Expression:
    return read(node.this)


def _lower_in(node: exp.In, read: Read) -> Expression:
    if node.args.get("query") is not None:
        raise with_position(refusal(node.args["query"]), node.args["query"])
    return call("IN", read(node.this), *(read(item) for item in node.expressions))


def _lower_is_test(node: exp.Is, read: Read) -> Expression:
    predicate = node.expression
    if isinstance(predicate, exp.Null):
        return call("IS NULL", read(node.this))
    if isinstance(predicate, exp.Boolean):
        return call("IS TRUE" if predicate.this else "IS FALSE", read(node.this))
    raise Unsupported("is", "only NULL, TRUE or FALSE can follow IS", fix="compare with =")


def _lower_case(node: exp.Case, read: Read) -> Expression:
    branches = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
    default = [read(default_node) for default_node in _child_nodes(node, ["default"])]
    if node.this is None:
        return call("CASE", *(read(child) for branch in branches for child in branch), *default)
    operand = read(node.this)
    if expression_size(operand) > _LARGEST_OPERAND:
        raise Unsupported(
            "case-operand",
            "CASE <expression> WHEN … needs a simpler expression",
            fix="compute the expression as a column of a subquery first",
        )
    searched = [part for candidate, value in branches for part in (call("=", operand, read(candidate)), read(value))]
    return call("CASE", *searched, *default)


def _lower_if(node: exp.If, read: Read) -> Expression:
    return call("CASE", *(read(child) for child in _child_nodes(node, ("this", "true", "false"))))


def _lower_trim(node: exp.Trim, read: Read) -> Expression:
    name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(node.args.get("position") or "", "TRIM")
    return call(name, *(read(child) for child in _child_nodes(node, ("this", "expression"))))


def _lower_extract(node: exp.Extract, read: Read) -> Expression:
    return _lower_date_part(node.this.name, node.expression, read)


def _lower_date_part(name: str, operand: Node, read: Read) -> Expression:
    """Lower the part of a date, or of the AGE between two."""
    part, operand = literal(Type.TEXT, _canonical_unit_name(name)), operand.unnest()
    if isinstance(operand, exp.Anonymous) and operand.name.lower() == "age" and len(operand.expressions) == 2:
        return call("AGE", part, *map(read, operand.expressions))
    return call("EXTRACT", part, read(operand))


def _canonical_unit_name(name: str) -> str:
    """Return the unit of time that a name stands for: plurals and other spellings of it."""
    unit = name.lower()
    return _UNIT_SYNONYMS.get(unit, unit.removesuffix("s") if len(unit) > 3 else unit)


_UNIT_SYNONYMS = {
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "dayofmonth": "day",
    "weekofyear": "week",
    "weekyear": "isoyear",
    "centuries": "century",
    "millennia": "millennium",
    "yr": "year",
    "mon": "month",
    "hr": "hour",
    "min": "minute",
    "sec": "second",
    "ms": "millisecond",
    "us": "microsecond",
}


def _lower_between(node: exp.Between, read: Read) -> Expression:
    x, low, high = read(node.this), read(node.args["low"]), read(node.args["high"])
    if not node.args.get("symmetric"):
        return call("BETWEEN", x, low, high)
    return call("OR", call("BETWEEN", x, low, high), call("BETWEEN", x, high, low))


def _null_safe_reader(differ: bool) -> tuple[Reader, frozenset[str]]:
    """Return a reader for IS [NOT] DISTINCT FROM: a comparison in which two NULLs are equal, and that is never NULL."""

    def reader(node: Node, read: Read) -> Expression:
        x, y = read(node.this), read(node.expression)
        both_null = call("AND", call("IS NULL", x), call("IS NULL", y))
        is_same = call("COALESCE", call("=", x, y), both_null)
        return call("NOT", is_same) if differ else is_same

    return reader, frozenset(("this", "expression"))


def _lower_date_add(node: exp.DateAdd, read: Read) -> Expression:
    if not isinstance(node.expression, exp.Interval):
        raise refusal(node)
    return _lower_date_shift(node.this, node.expression, 1, read)


def _lower_contains(node: exp.Contains, read: Read) -> Expression:
    """Lower CONTAINS to LIKE if the text has no wildcard; else test whether REPLACE removes it."""
    x, text_node = read(node.this), read(node.expression)
    search_text = str(require_literal(text_node, Type.TEXT, "the text to find"))
    if not search_text or not {"%", "_"}.intersection(search_text):
        return call("LIKE", x, literal(Type.TEXT, f"%{search_text}%"))
    return call("<>", call("REPLACE", x, text_node, literal(Type.TEXT, "")), x)


def _lower_regexp_matches(node: exp.RegexpLike, read: Read) -> Expression:
    if node.args.get("flag") is not None:
        rule = f"{function_name(node)} takes no options"
        raise Unsupported(
            "regex", rule, fix="to ignore letter case, write REGEXP_MATCHES(LOWER(x), 'pattern in lower case')"
        )
    name = "REGEXP_FULL_MATCH" if isinstance(node, exp.RegexpFullMatch) else "REGEXP_MATCHES"
    return call(name, read(node.this), read(node.expression))


def _lower_ends_with(x: Expression, end: Expression) -> Expression:
    return call("=", call("RIGHT", x, call("LENGTH", end)), end)


def _lower_pad(node: exp.Pad, read: Read) -> Expression:
    """Lower LPAD and RPAD: cut from a text with enough fill at one end."""
    x, fill_node = read(node.this), node.args.get("fill_pattern")
    length = require_literal(read(node.expression), Type.INTEGER, "the length")
    fill = " " if fill_node is None else str(require_literal(read(fill_node), Type.TEXT, "the fill", example="'0'"))
    if not isinstance(length, int) or not 0 <= length <= LONGEST or len(fill) != 1:
        rule = f"LPAD and RPAD take a length from 0 to {LONGEST:,} and one character as the fill"
        raise Unsupported("pad", rule, fix="write LPAD(x, 5, '0')")
    end, filling = literal(Type.INTEGER, length), literal(Type.TEXT, fill * length)
    is_left = bool(node.args.get("is_left"))
    padded = call("RIGHT", call("||", filling, x), end) if is_left else call("LEFT", call("||", x, filling), end)
    return call("IF", call(">=", call("LENGTH", x), end), call("LEFT", x, end), padded) if is_left else padded


def _date_part_reader(name: str) -> tuple[Reader, frozenset[str]]:
    def reader(node: Node, read: Read) -> Expression:
        return _lower_date_part(name, node.this, read)

    return reader, frozenset(("this",))


def _lower_date_trunc(node: exp.TimestampTrunc, read: Read) -> Expression:
    return call("DATE_TRUNC", literal(Type.TEXT, _unit_or_empty(node)), read(node.this))


def _lower_date_diff(node: exp.DateDiff, read: Read) -> Expression:
    """Lower DATE_DIFF; the parser swaps the arguments: ``this`` is the later one."""
    if node.args.get("unit") is None:
        raise Unsupported("unit", "DATE_DIFF needs a unit as its first argument", fix="write DATE_DIFF('day', a, b)")
    return call("DATE_DIFF", literal(Type.TEXT, _unit_or_empty(node)), read(node.expression), read(node.this))


def _unit_or_empty(node: Node) -> str:
    return _canonical_unit_name(node.args["unit"].name) if node.args.get("unit") is not None else ""


def _lower_strptime(text: Node, date_format: Node, read: Read) -> Expression:
    """Lower STRPTIME(text, 'format'), or with a list of formats."""
    formats = date_format.expressions if isinstance(date_format, exp.Array) else [date_format]
    return call("STRPTIME", read(text), *map(read, formats))


def _lower_time_bucket(node: exp.DateBin, read: Read) -> Expression:
    amount, unit = _interval_amount_and_unit(node.this) if isinstance(node.this, exp.Interval) else (None, "")
    if amount is None:
        rule = (
            f"{function_name(node)} takes an interval with a single unit, such as INTERVAL '2 week', followed by a date"
        )
        raise Unsupported("time-bucket", rule, fix="write TIME_BUCKET(INTERVAL '2 week', x)")
    if isinstance(node.args.get("unit"), exp.Var):  # the parser takes the name of a column for a unit
        rule, fix = "the origin of a TIME_BUCKET must be written as a literal", "write it as DATE '2024-01-01'"
        raise Unsupported("literal-needed", rule, fix=fix)
    operands = [read(child) for child in _child_nodes(node, ("expression", "unit", "zone"))]
    return call("TIME_BUCKET", literal(Type.INTEGER, amount), literal(Type.TEXT, unit), *operands)


def _plus_or_minus_operator_reader(name: str, sign: int) -> tuple[Reader, frozenset[str]]:
    """Return a reader for + and −, of numbers or of a date and an interval."""

    def reader(node: Node, read: Read) -> Expression:
        if isinstance(node.expression, exp.Interval):
            return _lower_date_shift(node.this, node.expression, sign, read)
        if isinstance(node.this, exp.Interval) and sign > 0:
            return _lower_date_shift(node.expression, node.this, sign, read)
        x, y = read(node.this), read(node.expression)
        if sign < 0 and x.domain.type is y.domain.type is Type.DATE:
            return call("DATE_DIFF", literal(Type.TEXT, "day"), y, x)
        if x.domain.type.temporal or y.domain.type.temporal:
            raise Unsupported(
                "type-mismatch",
                "a number cannot be added to a date",
                fix="write x + INTERVAL '3 day', or use DATE_DIFF for the days between two dates",
            )
        return call(name, x, y)

    return reader, frozenset(("this", "expression"))


def _lower_date_shift(moment: Node, interval: exp.Interval, sign: int, read: Read) -> Expression:
    amount, unit = _interval_amount_and_unit(interval)
    if amount is None:
        raise Unsupported(
            "interval", "an INTERVAL must be a whole number with a single unit", fix="write INTERVAL '3 month'"
        )
    return call("DATE_ADD", read(moment), literal(Type.INTEGER, sign * amount), literal(Type.TEXT, unit))


def _interval_amount_and_unit(interval: exp.Interval) -> tuple[int | None, str]:
    """Return the number and the unit of an INTERVAL; no number unless it is one whole number of one unit."""
    is_negated = isinstance(interval.this, exp.Neg)
    amount = interval.this.this if is_negated else interval.this
    amount_text = amount.name if isinstance(amount, exp.Literal) else ""
    digits = amount_text.removeprefix("-")
    if interval.args.get("unit") is None or not digits.isdecimal() or len(digits) > 12:
        return None, ""
    return (-int(amount_text) if is_negated else int(amount_text)), _unit_or_empty(interval)


def _lower_cast(node: exp.Cast, read: Read) -> Expression:
    kind = _TYPES.get(node.to.this)
    if node.to.this is exp.DataType.Type.DECIMAL:
        return _lower_decimal_cast(node.to, read(node.this))
    if kind is None or node.to.expressions:
        raise Unsupported(
            "cast-type",
            "CAST to this type is not supported",
            fix="use BIGINT, DOUBLE, VARCHAR, BOOLEAN, DATE or TIMESTAMP; ROUND(x, 2) keeps two decimals",
        )
    return call("CAST", read(node.this), literal(Type.TEXT, kind.value))


def _lower_decimal_cast(data_type: exp.DataType, x: Expression) -> Expression:
    """Lower a cast to DECIMAL(p, s): a real with s decimal digits."""
    digits = [parameter.this.this for parameter in data_type.expressions if isinstance(parameter.this, exp.Literal)]
    scale = int(digits[1]) if len(digits) == 2 and digits[1].isdecimal() else 0
    return call("ROUND", call("CAST", x, literal(Type.TEXT, Type.REAL.value)), literal(Type.INTEGER, scale))


_TYPES = {
    exp.DataType.Type.TINYINT: Type.INTEGER,
    exp.DataType.Type.SMALLINT: Type.INTEGER,
    exp.DataType.Type.INT: Type.INTEGER,
    exp.DataType.Type.BIGINT: Type.INTEGER,
    exp.DataType.Type.DOUBLE: Type.REAL,
    exp.DataType.Type.FLOAT: Type.REAL,
    exp.DataType.Type.TEXT: Type.TEXT,
    exp.DataType.Type.VARCHAR: Type.TEXT,
    exp.DataType.Type.BOOLEAN: Type.BOOLEAN,
    exp.DataType.Type.DATE: Type.DATE,
    exp.DataType.Type.TIMESTAMP: Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: Type.TIMESTAMP,
}


def _lower_anonymous(node: exp.Anonymous, read: Read) -> Expression:
    """Lower the functions that the parser has no class for."""
    name, arguments = node.name.lower(), node.expressions
    if name in ("date_part", "datepart") and len(arguments) == 2 and arguments[0].is_string:
        return _lower_date_part(arguments[0].name, arguments[1], read)
    if name in _PART_FUNCTIONS and len(arguments) == 1:
        return _lower_date_part(name, arguments[0], read)
    if name == "try_strptime" and len(arguments) == 2:
        return _lower_strptime(arguments[0], arguments[1], read)
    if name == "iff":
        return call("IF", *map(read, arguments))
    if name == "isnull":
        return call("IS NULL", *map(read, arguments))
    if name in ("suffix", "prefix") and len(arguments) == 2:
        x, part = map(read, arguments)
        return _lower_ends_with(x, part) if name == "suffix" else call("STARTS_WITH", x, part)
    raise refusal(node)


_PART_FUNCTIONS = frozenset(("dow", "doy", "weekday", "weekyear", *COMPOSED_PARTS, *PARTS))
_BINARY_PARTS = ("this", "expression")


def _reader_with_parts(reader: Reader, *parts: str) -> tuple[Reader, frozenset[str]]:
    return reader, frozenset(parts)


_READERS: dict[type[Node], tuple[Reader, frozenset[str]]] = {
    exp.Literal: _reader_with_parts(_lower_literal, "this", "is_string"),
    exp.Var: _reader_with_parts(_lower_released_value, "this"),
    exp.Boolean: _reader_with_parts(_lower_boolean, "this"),
    exp.Null: _reader_with_parts(_lower_null),
    exp.Paren: _reader_with_parts(_lower_paren, "this"),
    exp.EQ: _comparison_reader("="),
    exp.NEQ: _comparison_reader("<>"),
    exp.LT: _comparison_reader("<"),
    exp.LTE: _comparison_reader("<="),
    exp.GT: _comparison_reader(">"),
    exp.GTE: _comparison_reader(">="),
    exp.And: _chain_reader("AND"),
    exp.Or: _chain_reader("OR"),
    exp.Not: _function_reader("NOT", "this"),
    exp.Between: _reader_with_parts(_lower_between, "this", "low", "high", "symmetric"),
    exp.NullSafeEQ: _null_safe_reader(differ=False),
    exp.NullSafeNEQ: _null_safe_reader(differ=True),
    exp.In: _reader_with_parts(_lower_in, "this", "expressions", "query"),
    exp.Like: _like_reader("LIKE"),
    exp.ILike: _like_reader("ILIKE"),
    exp.Is: _reader_with_parts(_lower_is_test, "this", "expression"),
    exp.Case: _reader_with_parts(_lower_case, "this", "ifs", "default"),
    exp.If: _reader_with_parts(_lower_if, "this", "true", "false"),
    exp.Coalesce: _function_reader("COALESCE", "this", "expressions"),
    exp.Nullif: _function_reader("NULLIF", "this", "expression"),
    exp.Add: _plus_or_minus_operator_reader("+", 1),
    exp.Sub: _plus_or_minus_operator_reader("-", -1),
    exp.Mul: _function_reader("*", "this", "expression"),
    exp.Div: _function_reader("/", "this", "expression"),
    exp.IntDiv: _function_reader("//", "this", "expression"),
    exp.Mod: _function_reader("%", "this", "expression"),
    exp.Neg: _function_reader("NEGATE", "this"),
    exp.Abs: _function_reader("ABS", "this"),
    exp.Sign: _function_reader("SIGN", "this"),
    exp.Round: _function_reader("ROUND", "this", "decimals"),
    exp.Floor: _function_reader("FLOOR", "this"),
    exp.Ceil: _function_reader("CEIL", "this"),
    exp.Trunc: _function_reader("TRUNC", "this"),
    exp.Sqrt: _function_reader("SQRT", "this"),
    exp.Ln: _function_reader("LN", "this"),
    exp.Exp: _function_reader("EXP", "this"),
    exp.Pow: _function_reader("POW", "this", "expression"),
    exp.Least: _function_reader("LEAST", "this", "expressions"),
    exp.Greatest: _function_reader("GREATEST", "this", "expressions"),
    exp.WidthBucket: _function_reader("WIDTH_BUCKET", "this", "min_value", "max_value", "num_buckets"),
    exp.Lower: _function_reader("LOWER", "this"),
    exp.Upper: _function_reader("UPPER", "this"),
    exp.Trim: _reader_with_parts(_lower_trim, "this", "expression", "position"),
    exp.Substring: _function_reader("SUBSTR", "this", "start", "length"),
    exp.Left: _function_reader("LEFT", "this", "expression"),
    exp.Right: _function_reader("RIGHT", "this", "expression"),
    exp.Length: _function_reader("LENGTH", "this"),
    exp.Pad: _reader_with_parts(_lower_pad, "this", "expression", "fill_pattern", "is_left"),
    exp.Concat: _function_reader("CONCAT", "expressions"),
    exp.DPipe: _chain_reader("||"),
    exp.Replace: _function_reader("REPLACE", "this", "expression", "replacement"),
    exp.StartsWith: _function_reader("STARTS_WITH", "this", "expression"),
    exp.EndsWith: _reader_with_parts(
        lambda node, read: _lower_ends_with(read(node.this), read(node.expression)), *_BINARY_PARTS
    ),
    exp.Contains: _reader_with_parts(_lower_contains, *_BINARY_PARTS),
    exp.RegexpLike: _reader_with_parts(_lower_regexp_matches, *_BINARY_PARTS, "flag"),
    exp.RegexpFullMatch: _reader_with_parts(_lower_regexp_matches, *_BINARY_PARTS, "options"),
    exp.Extract: _reader_with_parts(_lower_extract, "this", "expression"),
    **{
        getattr(exp, part.capitalize()): _date_part_reader(part)
        for part in PARTS
        if part not in ("dow", "isodow", "doy", "microsecond")
    },
    exp.StrToTime: _reader_with_parts(
        lambda node, read: _lower_strptime(node.this, node.args["format"], read), "this", "format"
    ),
    exp.TimeToUnix: _date_part_reader("epoch"),
    exp.DateBin: _reader_with_parts(_lower_time_bucket, "this", "expression", "unit", "zone"),
    exp.TimeToStr: _function_reader("STRFTIME", "this", "format"),
    exp.DateFromParts: _function_reader("MAKE_DATE", "year", "month", "day"),
    exp.Dayname: _function_reader("DAYNAME", "this"),
    exp.Monthname: _function_reader("MONTHNAME", "this"),
    exp.DayOfWeek: _date_part_reader("dow"),
    exp.DayOfWeekIso: _date_part_reader("isodow"),
    exp.DayOfYear: _date_part_reader("doy"),
    exp.DayOfMonth: _date_part_reader("day"),
    exp.WeekOfYear: _date_part_reader("week"),
    exp.TimestampTrunc: _reader_with_parts(_lower_date_trunc, "this", "unit"),
    exp.DateTrunc: _reader_with_parts(_lower_date_trunc, "this", "unit"),
    exp.DateDiff: _reader_with_parts(_lower_date_diff, "this", "expression", "unit", "date_part_boundary"),
    exp.DateAdd: _reader_with_parts(_lower_date_add, *_BINARY_PARTS),
    exp.Date: _reader_with_parts(lambda node, read: call("CAST", read(node.this), literal(Type.TEXT, "date")), "this"),
    exp.Cast: _reader_with_parts(_lower_cast, "this", "to"),
    exp.TryCast: _reader_with_parts(_lower_cast, "this", "to", "safe"),
    exp.Anonymous: _reader_with_parts(_lower_anonymous, "this", "expressions"),
}
