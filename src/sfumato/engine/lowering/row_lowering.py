"""Lower expressions over one row to scalars of the relational form, total on every row.

A column arrives in its declared type, and inside its range or among its values where they are declared: the clean scan
ensures it. Every lowered expression then has its declared type and lies in its domain (a finite number, or a date of
years 1 to 9999), or is NULL. A guard is written only where the domains do not already prove that.

Reals are 0 or between 2^-500 and 2^500 in size: after every operation a smaller one is 0, a larger one NULL. Within
that range +, −, ×, ÷ and √ neither overflow nor underflow, so every engine computes the same double.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sfumato.engine.lowering.applications import (
    CALENDAR,
    Application,
    Lowering,
    RowScope,
    case,
    choice,
    direct_lowering,
    not_null_test,
    null_constant,
    real_constant,
    within_test,
)
from sfumato.engine.lowering.date_lowering import DATE_LOWERINGS, iso_text
from sfumato.engine.lowering.relational_form import (
    Apply,
    Constant,
    Reference,
    Scalar,
    ScalarFunction,
    apply,
    integer_constant,
    references,
)
from sfumato.plan.values import expressions, grammars, intervals
from sfumato.plan.values.expressions import Column, Expression, Literal
from sfumato.plan.values.functions import FUNCTIONS
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.plan.values.grammars import FALSE, GRAMMARS, TRUE, ZERO
from sfumato.plan.values.regular_expressions import parse_pattern
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL

_LARGEST_HELD = Fraction(2**63 - 1024)
"""The largest double that a 64-bit integer holds."""
_SMALLEST_HELD = -Fraction(2**63)
"""The smallest one."""
_FARTHEST_EXPONENT = 400
"""Beyond it, e to the power x is surely larger than 2^500 or smaller than 2^-500."""
_NEAR_EXPONENT = 340
"""Within it, e to the power x is surely a real."""


class RowLowering:
    """The lowering of expressions over the same rows; collects the values that are computed in stages before them."""

    def __init__(self, columns: Mapping[expressions.Reference, Scalar], prefix: str = "x") -> None:
        """``prefix`` begins the names of staged values, and no name of a column of the rows."""
        self.columns = dict(columns)
        self._prefix = prefix
        self._lowered: dict[Expression, Scalar] = {}
        self._names: dict[Scalar, str] = {}
        self._levels: dict[str, int] = {}
        self._staged = 0

    def lower(self, expression: Expression) -> Scalar:
        """Lower an expression to a scalar."""
        if isinstance(expression, Column):
            return self._null_if_invalid(self.columns[expression.reference], expression.domain)
        if isinstance(expression, Literal):
            return Constant(expression.value, expression.domain.type)
        if expression not in self._lowered:  # many measures share subexpressions
            arguments = tuple(map(self.lower, expression.arguments))
            self._lowered[expression] = _LOWERINGS[expression.function](Application(self, expression, arguments))
        return self._lowered[expression]

    def share(self, expression: Expression) -> None:
        """Compute an expression once, wherever it is a part of another one that is lowered later."""
        self._lowered[expression] = self.compute_once(self.lower(expression))

    def compute_once(self, scalar: Scalar) -> Scalar:
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

    def take_new_stages(self) -> list[list[tuple[str, Scalar]]]:
        """Return the values shared since the last call, in levels: each after those it refers to."""
        pending = [(name, scalar) for scalar, name in list(self._names.items())[self._staged :]]
        self._staged = len(self._names)
        levels = sorted({self._levels[name] for name, _ in pending})
        return [[column for column in pending if self._levels[column[0]] == level] for level in levels]

    def _null_if_invalid(self, scalar: Scalar, domain: Domain) -> Scalar:
        """Map to NULL what is no number or no date, unless a declared range rules it out."""
        if domain.range is not None:
            return scalar
        if domain.type is Type.REAL:
            return self.limit_real(scalar)
        return (
            self.null_outside_calendar(scalar, *CALENDAR[domain.type], domain.type) if domain.type.temporal else scalar
        )

    def limit_real(self, scalar: Scalar) -> Scalar:
        """Flush a real below 2^-500 in size to 0, and map one above 2^500, or no number, to NULL."""
        x = self.compute_once(scalar)
        size = apply(ScalarFunction.ABS, x)
        inside = apply(ScalarFunction.BETWEEN, size, real_constant(SMALLEST_REAL), real_constant(LARGEST_REAL))
        return case(
            inside,
            x,
            apply(ScalarFunction.LESS, size, real_constant(SMALLEST_REAL)),
            real_constant(0),
            otherwise=null_constant(Type.REAL),
        )

    def null_outside_calendar(self, scalar: Scalar, low: Value, high: Value, sql_type: Type) -> Scalar:
        """Map dates outside the calendar to NULL."""
        x = self.compute_once(scalar)
        return case(within_test(x, low, high, sql_type), x, otherwise=null_constant(sql_type))


# Conditions and choices


def _lower_like(call: Application) -> Scalar:
    return apply(ScalarFunction.LIKE, call.arguments[0], detail=(call.literal_argument(1),))


def _lower_ilike(call: Application) -> Scalar:
    folded = apply(ScalarFunction.LOWER, call.arguments[0])
    return apply(ScalarFunction.LIKE, folded, detail=(grammars.lower(call.literal_argument(1)),))


def _lower_nullif(call: Application) -> Scalar:
    first = call.shared_argument()
    return case(apply(ScalarFunction.EQUAL, first, call.arguments[1]), null_constant(call.kind), otherwise=first)


# Numbers


def _arithmetic_lowering(operation: ScalarFunction) -> Lowering:
    def lowering(call: Application) -> Scalar:
        if call.kind is Type.INTEGER:
            return Apply(operation, call.arguments)
        return call.limit_real(Apply(operation, call.arguments))

    return lowering


def _lower_divide(call: Application) -> Scalar:
    return call.limit_real(apply(ScalarFunction.DIVIDE, call.arguments[0], call.divisor()))


def _lower_remainder(call: Application) -> Scalar:
    if call.kind is Type.INTEGER:
        return apply(ScalarFunction.REMAINDER, call.arguments[0], call.divisor())
    x, y = call.shared_argument(), call.rows.compute_once(call.divisor())
    times = apply(ScalarFunction.TRUNCATE, call.rows.compute_once(apply(ScalarFunction.DIVIDE, x, y)))
    return call.rows.limit_real(apply(ScalarFunction.SUBTRACT, x, apply(ScalarFunction.MULTIPLY, y, times)))


def _lower_integer_division(call: Application) -> Scalar:
    """Divide toward zero. The least 64-bit number has no opposite, so it is NULL where it might be divided by −1."""
    x, y = call.arguments[0], call.divisor()
    dividend_range, divisor_range = (argument.domain.range for argument in call.node.arguments)
    if dividend_range is None and (divisor_range is None or divisor_range[0] <= -1 <= divisor_range[1]):  # type: ignore[operator]
        x = call.shared_argument()
        x = case(
            apply(ScalarFunction.AT_LEAST, x, integer_constant(1 - 2**63)), x, otherwise=null_constant(Type.INTEGER)
        )
    return apply(ScalarFunction.DIVIDE_WHOLE, x, y)


def _rounding_lowering(operation: ScalarFunction) -> Lowering:
    """Round a number that is computed once: some dialects repeat it in their text."""
    return lambda call: apply(operation, call.shared_argument())


def _sign_scalar(x: Scalar) -> Scalar:
    """Return the sign of a number as −1, 0 or 1."""
    return apply(ScalarFunction.CONVERT, apply(ScalarFunction.SIGN, x), detail=(Type.INTEGER,))


def _lower_round(call: Application) -> Scalar:
    digits = call.literal_argument(1)
    if call.kind is Type.INTEGER:
        return _round_integer(call.shared_argument(), 10**-digits)
    if not digits:
        return apply(ScalarFunction.HALF_AWAY, call.shared_argument())
    scale, back = (
        (ScalarFunction.MULTIPLY, ScalarFunction.DIVIDE)
        if digits > 0
        else (ScalarFunction.DIVIDE, ScalarFunction.MULTIPLY)
    )
    power = real_constant(10 ** abs(digits))
    scaled = call.rows.compute_once(apply(scale, call.arguments[0], power))
    restored = apply(back, apply(ScalarFunction.HALF_AWAY, scaled), power)
    return restored if call.node.domain.range is not None else call.rows.limit_real(restored)


def _round_integer(x: Scalar, step: int) -> Scalar:
    """Round to the nearest multiple of a power of ten, halves away from 0."""
    half = apply(ScalarFunction.MULTIPLY, _sign_scalar(x), integer_constant(step // 2))
    steps = apply(ScalarFunction.DIVIDE_WHOLE, apply(ScalarFunction.ADD, x, half), integer_constant(step))
    return apply(ScalarFunction.MULTIPLY, steps, integer_constant(step))


def _lowering_null_outside_domain(operation: ScalarFunction, test: ScalarFunction) -> Lowering:
    """Apply a function that is defined from 0 on, or above 0; NULL elsewhere."""

    def lowering(call: Application) -> Scalar:
        argument_range = intervals.double_range(call.node.arguments[0].domain)
        if argument_range is not None and (
            argument_range[0] > 0 or (argument_range[0] == 0 and test is ScalarFunction.AT_LEAST)
        ):
            return apply(operation, call.arguments[0])
        x = call.shared_argument()
        return case(apply(test, x, real_constant(0)), apply(operation, x), otherwise=null_constant(Type.REAL))

    return lowering


def _is_exponent_in_range(exponent: Scalar) -> Scalar:
    """Test whether a power of e is surely a double."""
    return apply(
        ScalarFunction.BETWEEN, exponent, real_constant(-_FARTHEST_EXPONENT), real_constant(_FARTHEST_EXPONENT)
    )


def _lower_exp(call: Application) -> Scalar:
    ends = intervals.double_range(call.node.arguments[0].domain)
    if ends is not None and ends[0] >= -_NEAR_EXPONENT and ends[1] <= _NEAR_EXPONENT:
        return apply(ScalarFunction.EXP, call.arguments[0])
    x = call.shared_argument()
    below = apply(ScalarFunction.LESS, x, real_constant(0))
    return call.rows.limit_real(
        case(
            _is_exponent_in_range(x),
            apply(ScalarFunction.EXP, x),
            below,
            real_constant(0),
            otherwise=null_constant(Type.REAL),
        )
    )


def _lower_pow(call: Application) -> Scalar:
    """Raise to a power: 0 to a power above 0 is 0, to 0 it is 1; negative bases have whole powers only."""
    x, y = call.shared_argument(0), call.shared_argument(1)
    zero, null = real_constant(0), null_constant(Type.REAL)
    of_zero = case(
        apply(ScalarFunction.GREATER, y, zero),
        zero,
        apply(ScalarFunction.EQUAL, y, zero),
        real_constant(1),
        otherwise=null,
    )
    is_fractional = apply(ScalarFunction.UNEQUAL, y, apply(ScalarFunction.FLOOR, y))
    exponent = apply(ScalarFunction.MULTIPLY, y, apply(ScalarFunction.LN, apply(ScalarFunction.ABS, x)))
    powers = case(
        *(apply(ScalarFunction.EQUAL, x, zero), of_zero),
        *(apply(ScalarFunction.AND, apply(ScalarFunction.LESS, x, zero), is_fractional), null),
        *(_is_exponent_in_range(exponent), apply(ScalarFunction.POWER, x, y)),
        *(apply(ScalarFunction.LESS, exponent, zero), zero),
        otherwise=null,
    )
    return call.rows.limit_real(powers)


def _lower_width_bucket(call: Application) -> Scalar:
    x, (_, low, high, _) = call.shared_argument(), call.arguments
    count, width = (
        call.literal_argument(3),
        intervals.nearest_double(call.literal_argument(2)) - intervals.nearest_double(call.literal_argument(1)),
    )
    share = apply(ScalarFunction.DIVIDE, apply(ScalarFunction.SUBTRACT, x, low), real_constant(width))
    bucket = apply(ScalarFunction.TOWARD_ZERO, apply(ScalarFunction.MULTIPLY, share, real_constant(count)))
    return case(
        *(apply(ScalarFunction.LESS, x, low), integer_constant(0)),
        *(apply(ScalarFunction.AT_LEAST, x, high), integer_constant(count + 1)),
        *(
            not_null_test(x),
            apply(
                ScalarFunction.LEAST, integer_constant(count), apply(ScalarFunction.ADD, bucket, integer_constant(1))
            ),
        ),
        otherwise=null_constant(Type.INTEGER),
    )


# Texts


def _truncate_text(call: Application, text: Scalar) -> Scalar:
    """Truncate a text that may exceed the longest allowed; the types bound its length in advance."""
    may_exceed = FUNCTIONS[call.node.function].row_bytes(call.node) > 4 * LONGEST
    return apply(ScalarFunction.SLICE, text, integer_constant(1), integer_constant(LONGEST)) if may_exceed else text


def _lower_concatenate_operator(call: Application) -> Scalar:
    return _truncate_text(call, Apply(ScalarFunction.JOIN, call.arguments))


def _lower_concatenate(call: Application) -> Scalar:
    """Concatenate texts; NULLs are skipped."""
    empty = Constant("", Type.TEXT)
    return _truncate_text(
        call,
        apply(ScalarFunction.JOIN, *(apply(ScalarFunction.COALESCE, argument, empty) for argument in call.arguments)),
    )


def _lower_replace(call: Application) -> Scalar:
    return _truncate_text(call, Apply(ScalarFunction.REPLACE, call.arguments))


def _trim_lowering(start: bool, end: bool) -> Lowering:
    def lowering(call: Application) -> Scalar:
        trimmed = call.literal_argument(1) if len(call.arguments) > 1 else " "
        return apply(ScalarFunction.TRIM, call.arguments[0], detail=(trimmed, start, end))

    return lowering


def _lower_regexp_matches(call: Application) -> Scalar:
    x = call.shared_argument()
    searches = [
        apply(ScalarFunction.MATCHES, x, detail=(search.pattern, search.at_start, search.at_end))
        for search in parse_pattern(call.literal_argument(1))
    ]
    if not searches:  # every text matches
        return apply(ScalarFunction.AT_LEAST, apply(ScalarFunction.LENGTH, x), integer_constant(0))
    return searches[0] if len(searches) == 1 else apply(ScalarFunction.OR, *searches)


def _lower_upper(call: Application) -> Scalar:
    return apply(ScalarFunction.UPPER, call.shared_argument())


def _lower_substr(call: Application) -> Scalar:
    """Take the letters from a position on: a negative one counts from the end, and there are none before the first
    letter.
    """
    x, start, rows = call.shared_argument(0), call.shared_argument(1), call.rows
    length = apply(ScalarFunction.LENGTH, x)
    from_end = apply(ScalarFunction.ADD, length, integer_constant(1), start)
    first = rows.compute_once(case(apply(ScalarFunction.LESS, start, integer_constant(0)), from_end, otherwise=start))
    begin = rows.compute_once(_maximum_with(first, 1))
    if len(call.arguments) == 2:
        return apply(ScalarFunction.SLICE, x, begin, length)
    count = apply(ScalarFunction.SUBTRACT, apply(ScalarFunction.ADD, first, call.arguments[2]), begin)
    return apply(ScalarFunction.SLICE, x, begin, _maximum_with(rows.compute_once(count), 0))


def _maximum_with(scalar: Scalar, least: int) -> Scalar:
    """Take the greater of two numbers, not by GREATEST, which ignores NULL."""
    return case(apply(ScalarFunction.LESS, scalar, integer_constant(least)), integer_constant(least), otherwise=scalar)


def _lower_left(call: Application) -> Scalar:
    x, count = call.shared_argument(0), call.shared_argument(1)
    without = apply(ScalarFunction.ADD, apply(ScalarFunction.LENGTH, x), count)
    taken = call.rows.compute_once(
        case(apply(ScalarFunction.LESS, count, integer_constant(0)), without, otherwise=count)
    )
    return apply(ScalarFunction.SLICE, x, integer_constant(1), _maximum_with(taken, 0))


def _lower_right(call: Application) -> Scalar:
    x, count = call.shared_argument(0), call.shared_argument(1)
    length = call.rows.compute_once(apply(ScalarFunction.LENGTH, x))
    rest = apply(ScalarFunction.SUBTRACT, length, count)
    dropped = case(
        apply(ScalarFunction.LESS, count, integer_constant(0)), apply(ScalarFunction.NEGATE, count), otherwise=rest
    )
    first = apply(ScalarFunction.ADD, _maximum_with(call.rows.compute_once(dropped), 0), integer_constant(1))
    return apply(ScalarFunction.SLICE, x, first, length)


def _lower_starts_with(call: Application) -> Scalar:
    start = call.shared_argument(1)
    letters_of_start = apply(
        ScalarFunction.SLICE, call.arguments[0], integer_constant(1), apply(ScalarFunction.LENGTH, start)
    )
    return apply(ScalarFunction.EQUAL, letters_of_start, start)


# From one type to another


def _lower_cast(call: Application) -> Scalar:
    source_type, kind = call.node.arguments[0].domain.type, call.kind
    if source_type is Type.TEXT:
        return _parse_text(call.rows, call.shared_argument(), kind)
    if source_type is Type.BOOLEAN:
        no, yes = ("false", "true") if kind is Type.TEXT else (0, 1)
        return choice(call.shared_argument(), Constant(yes, kind), Constant(no, kind))
    if kind is Type.BOOLEAN:
        return apply(ScalarFunction.UNEQUAL, call.arguments[0], Constant(0, source_type))
    if source_type is Type.REAL and kind is Type.INTEGER:
        return _round_to_integer(call)
    source = (source_type,) if (source_type, kind) == (Type.TIMESTAMP, Type.TEXT) else ()
    return apply(ScalarFunction.CONVERT, call.arguments[0], detail=(kind, *source))


def _parse_text(rows: RowScope, x: Scalar, sql_type: Type) -> Scalar:
    """Parse a text by the package's own grammar; infinities become NULL."""
    if sql_type is Type.BOOLEAN:
        is_false, is_true = (_matches_test(x, grammar) for grammar in (FALSE, TRUE))
        return case(
            is_false, Constant(False, sql_type), is_true, Constant(True, sql_type), otherwise=null_constant(sql_type)
        )
    converted = (_matches_test(x, GRAMMARS[sql_type]), apply(ScalarFunction.READ, x, detail=(sql_type,)))
    if sql_type is Type.INTEGER:
        number = rows.compute_once(
            case(_matches_test(x, GRAMMARS[Type.REAL]), apply(ScalarFunction.READ, x, detail=(Type.REAL,)))
        )
        nearest = _is_whole_test(number), apply(ScalarFunction.NEAREST, number)
        return case(*converted, *nearest, _matches_test(x, ZERO), integer_constant(0))
    if sql_type is Type.REAL:
        return rows.limit_real(case(*converted, _matches_test(x, ZERO), real_constant(0)))
    if sql_type is Type.DATE:
        day = apply(ScalarFunction.CONVERT, _parse_text(rows, x, Type.TIMESTAMP), detail=(sql_type,))
        return case(*converted, otherwise=day)
    return rows.null_outside_calendar(
        case(*converted, otherwise=null_constant(sql_type)), *CALENDAR[sql_type], sql_type
    )


def _lower_strptime(call: Application) -> Scalar:
    formats = [call.literal_argument(index) for index in range(1, len(call.arguments))]
    return _parse_text(
        call.rows, call.rows.compute_once(iso_text(call.rows, call.shared_argument(), formats)), Type.TIMESTAMP
    )


def _matches_test(x: Scalar, grammar: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, x, detail=(grammar,))


def _is_whole_test(x: Scalar) -> Scalar:
    """Test whether a double is a whole number that 64 bits hold, or below 2^-500 in size and so 0.

    The fractional part of a size is exact: a double less its floor is a double.
    """
    is_in_range, size = (
        apply(ScalarFunction.BETWEEN, x, real_constant(_SMALLEST_HELD), real_constant(_LARGEST_HELD)),
        apply(ScalarFunction.ABS, x),
    )
    fraction = apply(ScalarFunction.SUBTRACT, size, apply(ScalarFunction.FLOOR, size))
    return apply(ScalarFunction.AND, is_in_range, apply(ScalarFunction.LESS, fraction, real_constant(SMALLEST_REAL)))


def _round_to_integer(call: Application) -> Scalar:
    if call.node.domain.range is not None:
        return apply(ScalarFunction.NEAREST, call.arguments[0])
    x = call.shared_argument()
    is_in_range = apply(ScalarFunction.BETWEEN, x, real_constant(-_LARGEST_HELD), real_constant(_LARGEST_HELD))
    return case(is_in_range, apply(ScalarFunction.NEAREST, x), otherwise=null_constant(Type.INTEGER))


_LOWERINGS: dict[str, Lowering] = {
    "=": direct_lowering(ScalarFunction.EQUAL),
    "<>": direct_lowering(ScalarFunction.UNEQUAL),
    "<": direct_lowering(ScalarFunction.LESS),
    "<=": direct_lowering(ScalarFunction.AT_MOST),
    ">": direct_lowering(ScalarFunction.GREATER),
    ">=": direct_lowering(ScalarFunction.AT_LEAST),
    "AND": direct_lowering(ScalarFunction.AND),
    "OR": direct_lowering(ScalarFunction.OR),
    "NOT": direct_lowering(ScalarFunction.NOT),
    "BETWEEN": direct_lowering(ScalarFunction.BETWEEN),
    "IN": direct_lowering(ScalarFunction.IN),
    "LIKE": _lower_like,
    "ILIKE": _lower_ilike,
    "IS NULL": direct_lowering(ScalarFunction.IS_NULL),
    "IS TRUE": direct_lowering(ScalarFunction.IS_TRUE),
    "IS FALSE": direct_lowering(ScalarFunction.IS_FALSE),
    "CASE": direct_lowering(ScalarFunction.CASE),
    "COALESCE": direct_lowering(ScalarFunction.COALESCE),
    "NULLIF": _lower_nullif,
    "LEAST": direct_lowering(ScalarFunction.LEAST),
    "GREATEST": direct_lowering(ScalarFunction.GREATEST),
    "+": _arithmetic_lowering(ScalarFunction.ADD),
    "-": _arithmetic_lowering(ScalarFunction.SUBTRACT),
    "*": _arithmetic_lowering(ScalarFunction.MULTIPLY),
    "/": _lower_divide,
    "//": _lower_integer_division,
    "%": _lower_remainder,
    "NEGATE": direct_lowering(ScalarFunction.NEGATE),
    "ABS": direct_lowering(ScalarFunction.ABS),
    "SIGN": lambda call: _sign_scalar(call.arguments[0]),
    "FLOOR": _rounding_lowering(ScalarFunction.FLOOR),
    "CEIL": _rounding_lowering(ScalarFunction.CEILING),
    "TRUNC": _rounding_lowering(ScalarFunction.TRUNCATE),
    "ROUND": _lower_round,
    "SQRT": _lowering_null_outside_domain(ScalarFunction.SQRT, ScalarFunction.AT_LEAST),
    "LN": _lowering_null_outside_domain(ScalarFunction.LN, ScalarFunction.GREATER),
    "EXP": _lower_exp,
    "POW": _lower_pow,
    "WIDTH_BUCKET": _lower_width_bucket,
    "LOWER": direct_lowering(ScalarFunction.LOWER),
    "UPPER": _lower_upper,
    "TRIM": _trim_lowering(start=True, end=True),
    "LTRIM": _trim_lowering(start=True, end=False),
    "RTRIM": _trim_lowering(start=False, end=True),
    "LENGTH": direct_lowering(ScalarFunction.LENGTH),
    "SUBSTR": _lower_substr,
    "LEFT": _lower_left,
    "RIGHT": _lower_right,
    "CONCAT": _lower_concatenate,
    "||": _lower_concatenate_operator,
    "REPLACE": _lower_replace,
    "STARTS_WITH": _lower_starts_with,
    "REGEXP_MATCHES": _lower_regexp_matches,
    **DATE_LOWERINGS,
    "STRPTIME": _lower_strptime,
    "CAST": _lower_cast,
}
