"""Lower expressions over one row to scalars of the relational form, total on every row.

A column arrives in its declared type, and inside its range or among its values where they are declared: the clean scan
ensures it. Every lowered expression then has its declared type and lies in its domain (a finite number, or a date of
years 1 to 9999), or is NULL. A guard is written only where the domains do not already prove that.

Reals are 0 or between 2^-500 and 2^500 in size: after every operation a smaller one is 0, a larger one NULL. Within
that range +, −, ×, ÷ and √ neither overflow nor underflow, so every engine computes the same double.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.engine.lowering.relational import (
    Apply,
    Constant,
    Reference,
    Scalar,
    ScalarFunction,
    apply,
    integer_constant,
    references,
)
from sfumato.plan.values import calendar, expressions, grammars, intervals
from sfumato.plan.values.expressions import Call, Column, Expression, Literal
from sfumato.plan.values.functions import FUNCTIONS
from sfumato.plan.values.functions.temporal import PARTS
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.plan.values.grammars import FALSE, GRAMMARS, TRUE, ZERO
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL

_CALENDAR = {Type.DATE: (dt.date.min, dt.date.max), Type.TIMESTAMP: (dt.datetime.min, dt.datetime.max)}
_LARGEST_HELD = Fraction(2**63 - 1024)
"""The largest double that a 64-bit integer holds."""
_SMALLEST_HELD = -Fraction(2**63)
"""The smallest one."""
_FARTHEST_EXPONENT = 400
"""Beyond it, e to the power x is surely larger than 2^500 or smaller than 2^-500."""


class RowLowering:
    """The lowering of expressions over the same rows; collects the values that are computed in stages before them."""

    def __init__(self, columns: Mapping[expressions.Reference, Scalar], prefix: str = "x") -> None:
        """``prefix`` begins the names of staged values, and no name of a column of the rows."""
        self.columns = dict(columns)
        self._prefix = prefix
        self._names: dict[Scalar, str] = {}
        self._levels: dict[str, int] = {}
        self._staged = 0

    def lower(self, expression: Expression) -> Scalar:
        """Lower an expression to a scalar."""
        if isinstance(expression, Column):
            return self._guard(self.columns[expression.reference], expression.domain)
        if isinstance(expression, Literal):
            return Constant(expression.value, expression.domain.type)
        return _LOWERINGS[expression.function](
            Application(self, expression, tuple(map(self.lower, expression.arguments)))
        )

    def shared(self, scalar: Scalar) -> Scalar:
        """Compute a value once: give what is neither a column nor a constant a stage and a name."""
        if not isinstance(scalar, Apply):
            return scalar
        if scalar not in self._names:
            name = f"{self._prefix}{len(self._names)}"
            self._levels[name] = 1 + max(
                (self._levels.get(referenced, 0) for referenced in references(scalar)), default=0
            )
            self._names[scalar] = name
        return Reference(self._names[scalar])

    def stages(self) -> list[list[tuple[str, Scalar]]]:
        """Return the values shared since the last call, in levels: each after those it refers to."""
        pending = [(name, scalar) for scalar, name in list(self._names.items())[self._staged :]]
        self._staged = len(self._names)
        levels = sorted({self._levels[name] for name, _ in pending})
        return [[column for column in pending if self._levels[column[0]] == level] for level in levels]

    def _guard(self, scalar: Scalar, domain: Domain) -> Scalar:
        """Map to NULL what is no number or no date, unless a declared range rules it out."""
        if domain.range is not None:
            return scalar
        if domain.type is Type.REAL:
            return self.limited(scalar)
        return self.dated(scalar, *_CALENDAR[domain.type], domain.type) if domain.type.temporal else scalar

    def limited(self, scalar: Scalar) -> Scalar:
        """Flush a real below 2^-500 in size to 0, and map one above 2^500, or no number, to NULL."""
        x = self.shared(scalar)
        size = apply(ScalarFunction.ABS, x)
        inside = apply(ScalarFunction.BETWEEN, size, real(SMALLEST_REAL), real(LARGEST_REAL))
        return _case(
            inside, x, apply(ScalarFunction.LESS, size, real(SMALLEST_REAL)), real(0), otherwise=missing(Type.REAL)
        )

    def dated(self, scalar: Scalar, low: Value, high: Value, kind: Type) -> Scalar:
        """Map dates outside the calendar to NULL."""
        x = self.shared(scalar)
        return _case(_is_within(x, low, high, kind), x, otherwise=missing(kind))


def _is_within(x: Scalar, low: Value, high: Value, kind: Type) -> Scalar:
    return apply(ScalarFunction.BETWEEN, x, Constant(low, kind), Constant(high, kind))


def real(value: Fraction | float) -> Constant:
    return Constant(Fraction(value), Type.REAL)


def missing(kind: Type) -> Constant:
    return Constant(None, kind)


def present(x: Scalar) -> Scalar:
    return apply(ScalarFunction.NOT, apply(ScalarFunction.IS_NULL, x))


def choice(test: Scalar, yes: Constant, no: Constant) -> Scalar:
    """Choose one of two public values; NULL where the test is NULL."""
    return apply(ScalarFunction.CASE, test, yes, apply(ScalarFunction.NOT, test), no, Constant(None, yes.kind))


def _case(*pairs: Scalar, otherwise: Scalar | None = None) -> Apply:
    return apply(ScalarFunction.CASE, *pairs, *(() if otherwise is None else (otherwise,)))


@dataclass(frozen=True)
class Application:
    """A function call whose arguments are already lowered."""

    rows: RowLowering
    node: Call
    arguments: tuple[Scalar, ...]

    @property
    def kind(self) -> Type:
        return self.node.domain.type

    def written(self, place: int) -> Any:
        """Return the value of an argument that must be a literal."""
        argument = self.node.arguments[place]
        assert isinstance(argument, Literal)
        return argument.value

    def shared(self, place: int = 0) -> Scalar:
        """Compute once an argument that is used more than once."""
        return self.rows.shared(self.arguments[place])

    def limited(self, computed: Scalar) -> Scalar:
        """Limit a computed real, unless its domain proves that it is within limits."""
        is_proved = self.node.domain.range is not None and _cannot_be_small(self.node)
        return computed if is_proved else self.rows.limited(computed)

    def divisor(self) -> Scalar:
        """Return the second argument, NULL where it is 0."""
        kind, divisor_range = self.node.arguments[1].domain.type, intervals.double_range(self.node.arguments[1].domain)
        if divisor_range is not None and not divisor_range[0] <= 0 <= divisor_range[1]:
            return self.arguments[1]
        y = self.shared(1)
        return _case(apply(ScalarFunction.UNEQUAL, y, Constant(0, kind)), y, otherwise=missing(kind))


def _cannot_be_small(node: Call) -> bool:
    """Return whether a computed real is surely 0 or no smaller than a real may be.

    It is when its range ends before 0, when a number is multiplied by one of at least 1 (or divided by at most 1) in
    size, and when one of two numbers that are added is 0 or far from being small: where they nearly cancel the other is
    as large, and their difference is a multiple of its last place.
    """
    value_range = intervals.double_range(node.domain)
    if value_range is not None and (value_range[0] >= SMALLEST_REAL or value_range[1] <= -SMALLEST_REAL):
        return True
    match node.function:
        case "+" | "-":
            return any(_least_size(argument) >= _FAR_FROM_SMALL for argument in node.arguments)
        case "*":
            return any(_least_size(argument) >= 1 for argument in node.arguments)
        case "/":
            divisor = intervals.double_range(node.arguments[1].domain)
            return divisor is not None and max(map(abs, divisor)) <= 1
    return False


_FAR_FROM_SMALL = Fraction(1, 2**400)


def _least_size(expression: Expression) -> Fraction:
    """Return a lower bound on the size of a value that is not 0."""
    if isinstance(expression, Call) and expression.function == "CAST":
        return Fraction(expression.arguments[0].domain.type in (Type.INTEGER, Type.BOOLEAN))
    value_range = intervals.double_range(expression.domain)
    if value_range is None or value_range[0] <= 0 <= value_range[1]:
        return Fraction(0)
    return min(map(abs, value_range))


Lowering = Callable[[Application], Scalar]


def _direct(operation: ScalarFunction) -> Lowering:
    return lambda call: Apply(operation, call.arguments)


# Conditions and choices


def _like(call: Application) -> Scalar:
    return apply(ScalarFunction.LIKE, call.arguments[0], detail=(call.written(1),))


def _ilike(call: Application) -> Scalar:
    folded = apply(ScalarFunction.LOWER, call.arguments[0])
    return apply(ScalarFunction.LIKE, folded, detail=(grammars.lower(call.written(1)),))


def _nullif(call: Application) -> Scalar:
    first = call.shared()
    return _case(apply(ScalarFunction.EQUAL, first, call.arguments[1]), missing(call.kind), otherwise=first)


# Numbers


def _arithmetic(operation: ScalarFunction) -> Lowering:
    def lowering(call: Application) -> Scalar:
        if call.kind is Type.INTEGER:
            return Apply(operation, call.arguments)
        return call.limited(Apply(operation, call.arguments))

    return lowering


def _divide(call: Application) -> Scalar:
    return call.limited(apply(ScalarFunction.DIVIDE, call.arguments[0], call.divisor()))


def _remainder(call: Application) -> Scalar:
    if call.kind is Type.INTEGER:
        return apply(ScalarFunction.REMAINDER, call.arguments[0], call.divisor())
    x, y = call.shared(), call.rows.shared(call.divisor())
    times = apply(ScalarFunction.TRUNCATE, call.rows.shared(apply(ScalarFunction.DIVIDE, x, y)))
    return call.rows.limited(apply(ScalarFunction.SUBTRACT, x, apply(ScalarFunction.MULTIPLY, y, times)))


def _divide_whole(call: Application) -> Scalar:
    """Divide toward zero. The least 64-bit number has no opposite, so it is NULL where it might be divided by −1."""
    x, y = call.arguments[0], call.divisor()
    dividend_range, divisor_range = (argument.domain.range for argument in call.node.arguments)
    if dividend_range is None and (divisor_range is None or divisor_range[0] <= -1 <= divisor_range[1]):  # type: ignore[operator]
        x = call.shared()
        x = _case(apply(ScalarFunction.AT_LEAST, x, integer_constant(1 - 2**63)), x, otherwise=missing(Type.INTEGER))
    return apply(ScalarFunction.DIVIDE_WHOLE, x, y)


def _round_once(operation: ScalarFunction) -> Lowering:
    """Round a number that is computed once: some dialects repeat it in their text."""
    return lambda call: apply(operation, call.shared())


def _sign(x: Scalar) -> Scalar:
    """Return the sign of a number as −1, 0 or 1."""
    return apply(ScalarFunction.CONVERT, apply(ScalarFunction.SIGN, x), detail=(Type.INTEGER,))


def _round(call: Application) -> Scalar:
    digits = call.written(1)
    if call.kind is Type.INTEGER:
        return _round_whole(call.shared(), 10**-digits)
    if not digits:
        return apply(ScalarFunction.HALF_AWAY, call.shared())
    scale, back = (
        (ScalarFunction.MULTIPLY, ScalarFunction.DIVIDE)
        if digits > 0
        else (ScalarFunction.DIVIDE, ScalarFunction.MULTIPLY)
    )
    power = real(10 ** abs(digits))
    scaled = call.rows.shared(apply(scale, call.arguments[0], power))
    restored = apply(back, apply(ScalarFunction.HALF_AWAY, scaled), power)
    return restored if call.node.domain.range is not None else call.rows.limited(restored)


def _round_whole(x: Scalar, step: int) -> Scalar:
    """Round to the nearest multiple of a power of ten, halves away from 0."""
    half = apply(ScalarFunction.MULTIPLY, _sign(x), integer_constant(step // 2))
    steps = apply(ScalarFunction.DIVIDE_WHOLE, apply(ScalarFunction.ADD, x, half), integer_constant(step))
    return apply(ScalarFunction.MULTIPLY, steps, integer_constant(step))


def _with_domain(operation: ScalarFunction, test: ScalarFunction) -> Lowering:
    """Apply a function that is defined from 0 on, or above 0; NULL elsewhere."""

    def lowering(call: Application) -> Scalar:
        argument_range = intervals.double_range(call.node.arguments[0].domain)
        if argument_range is not None and (
            argument_range[0] > 0 or (argument_range[0] == 0 and test is ScalarFunction.AT_LEAST)
        ):
            return apply(operation, call.arguments[0])
        x = call.shared()
        return _case(apply(test, x, real(0)), apply(operation, x), otherwise=missing(Type.REAL))

    return lowering


def _is_near(exponent: Scalar) -> Scalar:
    """Test whether a power of e is surely a double."""
    return apply(ScalarFunction.BETWEEN, exponent, real(-_FARTHEST_EXPONENT), real(_FARTHEST_EXPONENT))


def _exp(call: Application) -> Scalar:
    x = call.shared()
    below = apply(ScalarFunction.LESS, x, real(0))
    return call.rows.limited(
        _case(_is_near(x), apply(ScalarFunction.EXP, x), below, real(0), otherwise=missing(Type.REAL))
    )


def _pow(call: Application) -> Scalar:
    """Raise to a power: 0 to a power above 0 is 0, to 0 it is 1; negative bases have whole powers only."""
    x, y = call.shared(0), call.shared(1)
    zero, null = real(0), missing(Type.REAL)
    of_zero = _case(
        apply(ScalarFunction.GREATER, y, zero), zero, apply(ScalarFunction.EQUAL, y, zero), real(1), otherwise=null
    )
    is_fractional = apply(ScalarFunction.UNEQUAL, y, apply(ScalarFunction.FLOOR, y))
    exponent = apply(ScalarFunction.MULTIPLY, y, apply(ScalarFunction.LN, apply(ScalarFunction.ABS, x)))
    powers = _case(
        *(apply(ScalarFunction.EQUAL, x, zero), of_zero),
        *(apply(ScalarFunction.AND, apply(ScalarFunction.LESS, x, zero), is_fractional), null),
        *(_is_near(exponent), apply(ScalarFunction.POWER, x, y)),
        *(apply(ScalarFunction.LESS, exponent, zero), zero),
        otherwise=null,
    )
    return call.rows.limited(powers)


def _bucket(call: Application) -> Scalar:
    x, (_, low, high, _) = call.shared(), call.arguments
    count, width = (
        call.written(3),
        intervals.nearest_double(call.written(2)) - intervals.nearest_double(call.written(1)),
    )
    share = apply(ScalarFunction.DIVIDE, apply(ScalarFunction.SUBTRACT, x, low), real(width))
    bucket = apply(ScalarFunction.TOWARD_ZERO, apply(ScalarFunction.MULTIPLY, share, real(count)))
    return _case(
        *(apply(ScalarFunction.LESS, x, low), integer_constant(0)),
        *(apply(ScalarFunction.AT_LEAST, x, high), integer_constant(count + 1)),
        *(
            present(x),
            apply(
                ScalarFunction.LEAST, integer_constant(count), apply(ScalarFunction.ADD, bucket, integer_constant(1))
            ),
        ),
        otherwise=missing(Type.INTEGER),
    )


# Texts


def _truncate_text(call: Application, text: Scalar) -> Scalar:
    """Truncate a text that may exceed the longest allowed; the types bound its length in advance."""
    may_exceed = FUNCTIONS[call.node.function].bytes(call.node) > 4 * LONGEST
    return apply(ScalarFunction.SLICE, text, integer_constant(1), integer_constant(LONGEST)) if may_exceed else text


def _concatenate_operator(call: Application) -> Scalar:
    return _truncate_text(call, Apply(ScalarFunction.JOIN, call.arguments))


def _concatenate(call: Application) -> Scalar:
    """Concatenate texts; NULLs are skipped."""
    empty = Constant("", Type.TEXT)
    return _truncate_text(
        call, apply(ScalarFunction.JOIN, *(apply(ScalarFunction.COALESCE, each, empty) for each in call.arguments))
    )


def _replace(call: Application) -> Scalar:
    return _truncate_text(call, Apply(ScalarFunction.REPLACE, call.arguments))


def _trim(start: bool, end: bool) -> Lowering:
    def lowering(call: Application) -> Scalar:
        trimmed = call.written(1) if len(call.arguments) > 1 else " "
        return apply(ScalarFunction.TRIM, call.arguments[0], detail=(trimmed, start, end))

    return lowering


def _upper(call: Application) -> Scalar:
    return apply(ScalarFunction.UPPER, call.shared())


def _substr(call: Application) -> Scalar:
    """Take the letters from a position on: a negative one counts from the end, and there are none before the first
    letter.
    """
    x, start, rows = call.shared(0), call.shared(1), call.rows
    length = apply(ScalarFunction.LENGTH, x)
    from_end = apply(ScalarFunction.ADD, length, integer_constant(1), start)
    first = rows.shared(_case(apply(ScalarFunction.LESS, start, integer_constant(0)), from_end, otherwise=start))
    begin = rows.shared(_at_least(first, 1))
    if len(call.arguments) == 2:
        return apply(ScalarFunction.SLICE, x, begin, length)
    count = apply(ScalarFunction.SUBTRACT, apply(ScalarFunction.ADD, first, call.arguments[2]), begin)
    return apply(ScalarFunction.SLICE, x, begin, _at_least(rows.shared(count), 0))


def _at_least(scalar: Scalar, least: int) -> Scalar:
    """Take the greater of two numbers, not by GREATEST, which ignores NULL."""
    return _case(apply(ScalarFunction.LESS, scalar, integer_constant(least)), integer_constant(least), otherwise=scalar)


def _left(call: Application) -> Scalar:
    x, count = call.shared(0), call.shared(1)
    without = apply(ScalarFunction.ADD, apply(ScalarFunction.LENGTH, x), count)
    taken = call.rows.shared(_case(apply(ScalarFunction.LESS, count, integer_constant(0)), without, otherwise=count))
    return apply(ScalarFunction.SLICE, x, integer_constant(1), _at_least(taken, 0))


def _right(call: Application) -> Scalar:
    x, count = call.shared(0), call.shared(1)
    length = call.rows.shared(apply(ScalarFunction.LENGTH, x))
    rest = apply(ScalarFunction.SUBTRACT, length, count)
    dropped = _case(
        apply(ScalarFunction.LESS, count, integer_constant(0)), apply(ScalarFunction.NEGATE, count), otherwise=rest
    )
    first = apply(ScalarFunction.ADD, _at_least(call.rows.shared(dropped), 0), integer_constant(1))
    return apply(ScalarFunction.SLICE, x, first, length)


def _starts_with(call: Application) -> Scalar:
    start = call.shared(1)
    letters_of_start = apply(
        ScalarFunction.SLICE, call.arguments[0], integer_constant(1), apply(ScalarFunction.LENGTH, start)
    )
    return apply(ScalarFunction.EQUAL, letters_of_start, start)


# Dates and times


def _extract(call: Application) -> Scalar:
    return apply(ScalarFunction.PART, call.arguments[1], detail=(call.written(0),))


def _strftime(call: Application) -> Scalar:
    x = call.shared()
    pieces = calendar.split_format(call.written(1))
    texts = (Constant(piece, Type.TEXT) if isinstance(piece, str) else _format_part(x, piece) for piece in pieces)
    return apply(ScalarFunction.JOIN, *texts)


def _format_part(x: Scalar, letter: calendar.FormatCode) -> Scalar:
    """Format a part of a date: its last digits, zero-padded, or its entry in a list of names of one width."""
    number = apply(ScalarFunction.PART, x, detail=(letter.part,))
    if letter.names:
        all_names = Constant("".join(name.ljust(letter.width) for name in letter.names), Type.TEXT)
        last = apply(ScalarFunction.MULTIPLY, number, integer_constant(letter.width))
        first = apply(ScalarFunction.SUBTRACT, last, integer_constant(letter.width - 1))
        return apply(
            ScalarFunction.TRIM,
            apply(ScalarFunction.SLICE, all_names, first, integer_constant(letter.width)),
            detail=(" ", False, True),
        )
    max_digits = len(str(PARTS[letter.part][1]))
    digits = apply(
        ScalarFunction.CONVERT, apply(ScalarFunction.ADD, number, integer_constant(10**max_digits)), detail=(Type.TEXT,)
    )
    return apply(
        ScalarFunction.SLICE, digits, integer_constant(2 + max_digits - letter.width), integer_constant(letter.width)
    )


def _trunc(call: Application) -> Scalar:
    return apply(ScalarFunction.START, call.arguments[1], detail=(call.written(0), call.kind))


def _add(call: Application) -> Scalar:
    """Move a date by an interval; dates that would leave the calendar become NULL before they are moved."""
    amount, unit, x = call.written(1), call.written(2), call.shared()
    moved = apply(ScalarFunction.MOVED, x, detail=(amount, unit, call.kind))
    if call.node.domain.range is not None:
        return moved
    staying = calendar.shiftable_range(amount, unit, *_CALENDAR[call.kind])
    if staying is None:
        return missing(call.kind)
    return _case(_is_within(x, *staying, call.kind), moved, otherwise=missing(call.kind))


def _diff(call: Application) -> Scalar:
    unit, start, end = call.written(0), call.shared(1), call.shared(2)
    days = apply(ScalarFunction.DAYS, start, end)
    if unit == "day":
        return days
    if unit == "week":
        return apply(ScalarFunction.DIVIDE_WHOLE, days, integer_constant(7))
    return apply(ScalarFunction.SUBTRACT, _elapsed_units(unit, end), _elapsed_units(unit, start))


_PER_YEAR = {"year": 1, "quarter": 4, "month": 12}
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}


def _elapsed_units(unit: str, x: Scalar) -> Scalar:
    """Count the units of time that began before, from a fixed origin."""
    if unit in _SECONDS:
        return apply(ScalarFunction.DIVIDE_WHOLE, apply(ScalarFunction.SECONDS, x), integer_constant(_SECONDS[unit]))
    years = apply(
        ScalarFunction.MULTIPLY, apply(ScalarFunction.PART, x, detail=("year",)), integer_constant(_PER_YEAR[unit])
    )
    return years if unit == "year" else apply(ScalarFunction.ADD, years, apply(ScalarFunction.PART, x, detail=(unit,)))


# From one type to another


def _cast(call: Application) -> Scalar:
    source_type, kind = call.node.arguments[0].domain.type, call.kind
    if source_type is Type.TEXT:
        return _parse_text(call.rows, call.shared(), kind)
    if source_type is Type.BOOLEAN:
        no, yes = ("false", "true") if kind is Type.TEXT else (0, 1)
        return choice(call.shared(), Constant(yes, kind), Constant(no, kind))
    if kind is Type.BOOLEAN:
        return apply(ScalarFunction.UNEQUAL, call.arguments[0], Constant(0, source_type))
    if source_type is Type.REAL and kind is Type.INTEGER:
        return _nearest(call)
    return apply(ScalarFunction.CONVERT, call.arguments[0], detail=(kind,))


def _parse_text(rows: RowLowering, x: Scalar, kind: Type) -> Scalar:
    """Parse a text by the package's own grammar; infinities become NULL."""
    if kind is Type.BOOLEAN:
        is_false, is_true = (_matches(x, grammar) for grammar in (FALSE, TRUE))
        return _case(is_false, Constant(False, kind), is_true, Constant(True, kind), otherwise=missing(kind))
    converted = (_matches(x, GRAMMARS[kind]), apply(ScalarFunction.READ, x, detail=(kind,)))
    if kind is Type.INTEGER:
        number = rows.shared(
            _case(_matches(x, GRAMMARS[Type.REAL]), apply(ScalarFunction.READ, x, detail=(Type.REAL,)))
        )
        nearest = _is_whole(number), apply(ScalarFunction.NEAREST, number)
        return _case(*converted, *nearest, _matches(x, ZERO), integer_constant(0))
    if kind is Type.REAL:
        return rows.limited(_case(*converted, _matches(x, ZERO), real(0)))
    if kind is Type.DATE:
        day = apply(ScalarFunction.CONVERT, _parse_text(rows, x, Type.TIMESTAMP), detail=(kind,))
        return _case(*converted, otherwise=day)
    return rows.dated(_case(*converted, otherwise=missing(kind)), *_CALENDAR[kind], kind)


def _matches(x: Scalar, grammar: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, x, detail=(grammar,))


def _is_whole(x: Scalar) -> Scalar:
    """Test whether a double is a whole number that 64 bits hold, or below 2^-500 in size and so 0.

    The fractional part of a size is exact: a double less its floor is a double.
    """
    is_in_range, size = (
        apply(ScalarFunction.BETWEEN, x, real(_SMALLEST_HELD), real(_LARGEST_HELD)),
        apply(ScalarFunction.ABS, x),
    )
    fraction = apply(ScalarFunction.SUBTRACT, size, apply(ScalarFunction.FLOOR, size))
    return apply(ScalarFunction.AND, is_in_range, apply(ScalarFunction.LESS, fraction, real(SMALLEST_REAL)))


def _nearest(call: Application) -> Scalar:
    if call.node.domain.range is not None:
        return apply(ScalarFunction.NEAREST, call.arguments[0])
    x = call.shared()
    is_in_range = apply(ScalarFunction.BETWEEN, x, real(-_LARGEST_HELD), real(_LARGEST_HELD))
    return _case(is_in_range, apply(ScalarFunction.NEAREST, x), otherwise=missing(Type.INTEGER))


_LOWERINGS: dict[str, Lowering] = {
    "=": _direct(ScalarFunction.EQUAL),
    "<>": _direct(ScalarFunction.UNEQUAL),
    "<": _direct(ScalarFunction.LESS),
    "<=": _direct(ScalarFunction.AT_MOST),
    ">": _direct(ScalarFunction.GREATER),
    ">=": _direct(ScalarFunction.AT_LEAST),
    "AND": _direct(ScalarFunction.AND),
    "OR": _direct(ScalarFunction.OR),
    "NOT": _direct(ScalarFunction.NOT),
    "BETWEEN": _direct(ScalarFunction.BETWEEN),
    "IN": _direct(ScalarFunction.IN),
    "LIKE": _like,
    "ILIKE": _ilike,
    "IS NULL": _direct(ScalarFunction.IS_NULL),
    "IS TRUE": _direct(ScalarFunction.IS_TRUE),
    "IS FALSE": _direct(ScalarFunction.IS_FALSE),
    "CASE": _direct(ScalarFunction.CASE),
    "COALESCE": _direct(ScalarFunction.COALESCE),
    "NULLIF": _nullif,
    "LEAST": _direct(ScalarFunction.LEAST),
    "GREATEST": _direct(ScalarFunction.GREATEST),
    "+": _arithmetic(ScalarFunction.ADD),
    "-": _arithmetic(ScalarFunction.SUBTRACT),
    "*": _arithmetic(ScalarFunction.MULTIPLY),
    "/": _divide,
    "//": _divide_whole,
    "%": _remainder,
    "NEGATE": _direct(ScalarFunction.NEGATE),
    "ABS": _direct(ScalarFunction.ABS),
    "SIGN": lambda call: _sign(call.arguments[0]),
    "FLOOR": _round_once(ScalarFunction.FLOOR),
    "CEIL": _round_once(ScalarFunction.CEILING),
    "TRUNC": _round_once(ScalarFunction.TRUNCATE),
    "ROUND": _round,
    "SQRT": _with_domain(ScalarFunction.SQRT, ScalarFunction.AT_LEAST),
    "LN": _with_domain(ScalarFunction.LN, ScalarFunction.GREATER),
    "EXP": _exp,
    "POW": _pow,
    "WIDTH_BUCKET": _bucket,
    "LOWER": _direct(ScalarFunction.LOWER),
    "UPPER": _upper,
    "TRIM": _trim(start=True, end=True),
    "LTRIM": _trim(start=True, end=False),
    "RTRIM": _trim(start=False, end=True),
    "LENGTH": _direct(ScalarFunction.LENGTH),
    "SUBSTR": _substr,
    "LEFT": _left,
    "RIGHT": _right,
    "CONCAT": _concatenate,
    "||": _concatenate_operator,
    "REPLACE": _replace,
    "STARTS_WITH": _starts_with,
    "EXTRACT": _extract,
    "STRFTIME": _strftime,
    "DATE_TRUNC": _trunc,
    "DATE_DIFF": _diff,
    "DATE_ADD": _add,
    "CAST": _cast,
}
