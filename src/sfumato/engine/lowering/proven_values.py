"""What a plan proves of a whole number, so that a statement need not check it for every row.

Whole numbers are added, subtracted and multiplied without rounding, so interval arithmetic bounds them by the clamped
columns and the constants that they are computed from. Of anything else (a real, a conversion, a division) nothing is
believed, whatever its domain says: only a LEAST or a GREATEST with a constant around it bounds it again.

The result of these operations is NULL only where an argument is; a column is not NULL in a row that passed the filter
that it is not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from sfumato.plan.values.expressions import Call, Column, Expression, Literal, Reference, conjuncts
from sfumato.policy import Type

Range = tuple[float, float]
"""Whole numbers, or infinities where nothing is known."""
_UNKNOWN = -math.inf, math.inf
_ARITHMETIC = ("+", "-", "*")


class ProvenValues:
    """The proofs for the rows that pass some filters."""

    def __init__(self, predicates: Iterable[Expression] = ()) -> None:
        self.present = frozenset(_columns_present(predicates))
        self._ranges: dict[Expression, Range] = {}
        self._never_null: dict[Expression, bool] = {}

    def is_within(self, expression: Expression, low: int, high: int) -> bool:
        """Return whether a whole number surely lies from low to high, where it is not NULL."""
        least, greatest = self.integer_range(expression)
        return low <= least and greatest <= high

    def integer_range(self, expression: Expression) -> Range:
        """Return the ends of a whole number as far as they are proven."""
        if expression not in self._ranges:
            self._ranges[expression] = self._range(expression)
        return self._ranges[expression]

    def _range(self, expression: Expression) -> Range:
        if expression.domain.type is not Type.INTEGER:
            return _UNKNOWN
        if isinstance(expression, Literal):
            return _UNKNOWN if expression.value is None else (expression.value, expression.value)  # type: ignore[return-value]
        if isinstance(expression, Column):
            return expression.domain.range or _UNKNOWN  # type: ignore[return-value]
        if expression.function == "CASE":
            ends = [self.integer_range(value) for value in (*expression.arguments[1::2], expression.arguments[-1])]
            return min(low for low, _ in ends), max(high for _, high in ends)
        ends = [self.integer_range(argument) for argument in expression.arguments]
        if expression.function in ("LEAST", "GREATEST"):
            return self._range_of_extreme(expression, ends)
        if expression.function not in _ARITHMETIC or any(map(math.isinf, (end for pair in ends for end in pair))):
            return _UNKNOWN
        (a, b), (c, d) = ends
        if expression.function == "*":
            corners = [first * second for first, second in product((a, b), (c, d))]
            return min(corners), max(corners)
        return (a + c, b + d) if expression.function == "+" else (a - d, b - c)

    def _range_of_extreme(self, expression: Call, ends: list[Range]) -> Range:
        """Return the range of a LEAST or GREATEST: NULLs are ignored, so only an argument that is never NULL bounds the
        result by itself.
        """
        pairs = list(zip(expression.arguments, ends, strict=True))
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        if expression.function == "LEAST":
            sure = [high for argument, (_, high) in pairs if self.is_never_null(argument)]
            return min(lows), min(sure, default=max(highs))
        sure = [low for argument, (low, _) in pairs if self.is_never_null(argument)]
        return max(sure, default=min(lows)), max(highs)

    def is_never_null(self, expression: Expression) -> bool:
        """Return whether a value is surely not NULL in a row that passed the filters."""
        if expression not in self._never_null:
            self._never_null[expression] = self._is_never_null(expression)
        return self._never_null[expression]

    def _is_never_null(self, expression: Expression) -> bool:
        if isinstance(expression, Literal):
            return expression.value is not None
        if isinstance(expression, Column):
            return expression.reference in self.present
        arguments = expression.arguments
        if expression.function in ("LEAST", "GREATEST"):
            return any(map(self.is_never_null, arguments))
        if expression.function == "CASE":
            return len(arguments) % 2 == 1 and all(map(self.is_never_null, (*arguments[1::2], arguments[-1])))
        is_exact = expression.domain.type is Type.INTEGER and expression.function in _ARITHMETIC
        return is_exact and all(map(self.is_never_null, arguments))


def _columns_present(predicates: Iterable[Expression]) -> Iterator[Reference]:
    """List the columns that predicates require not to be NULL."""
    for predicate in predicates:
        for conjunct in conjuncts(predicate):
            match conjunct:
                case Call(function="NOT", arguments=(Call(function="IS NULL", arguments=(Column() as column,)),)):
                    yield column.reference


def shared_factors(values: Iterable[Expression]) -> list[Expression]:
    """List the calls that are factors of several different products of whole numbers, inner ones first."""
    parents: Counter[Expression] = Counter()
    products = {part: None for value in values for part in _nested_products(value)}
    for parent in products:
        parents.update({argument for argument in parent.arguments if isinstance(argument, Call)})
    shared = [factor for factor, count in parents.items() if count > 1]
    return sorted(shared, key=lambda factor: factor.size if isinstance(factor, Call) else 1)


def _nested_products(value: Expression) -> Iterator[Call]:
    """List the products that a value is made of, itself or a factor of it."""
    if isinstance(value, Call) and value.function == "*" and value.domain.type is Type.INTEGER:
        yield value
        for argument in value.arguments:
            yield from _nested_products(argument)
