"""Typed expressions of one row at released coefficients: the factors of a design's coordinates, and their score β·z."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.design import Coordinate, Design, Level
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

COEFFICIENT_STEPS = 1 << 12
"""F: coefficients of scaled coordinates are multiples of 1/F."""
LARGEST_COEFFICIENT = 50


def integer_literal(value: int) -> Expression:
    return literal(Type.INTEGER, value)


def real_literal(value: float | Fraction) -> Expression:
    return literal(Type.REAL, Fraction(value))


def rounded_coefficients(values: Floats) -> tuple[int, ...]:
    """Round coefficients of scaled coordinates to those that a scan can be made at."""
    bounded = np.clip(np.nan_to_num(values), -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
    return tuple(int(value) for value in np.rint(bounded * COEFFICIENT_STEPS))


def require_scaled_columns(columns: Sequence[Expression | None], scale: int) -> tuple[Expression, ...]:
    """Return scaled columns whose ranges the plan knows to be within [−S, S]; others are refused."""
    if not all(_is_declared_within(column, scale) for column in columns):
        raise InvalidParameter("measures", ValueWords("columns with wider ranges"), "columns within [−S, S]")
    return tuple(column for column in columns if column is not None)


def _is_declared_within(column: Expression | None, bound: int) -> bool:
    ends: Any = None if column is None else column.domain.range
    return ends is not None and -bound <= ends[0] and ends[1] <= bound


@dataclass(frozen=True)
class LinearPredictor:
    """The linear predictor of a row, β·z: the sum of its coordinates times whole coefficients."""

    design: Design
    columns: tuple[Expression, ...]
    """The steps of each scaled column."""
    levels: Mapping[Level, Expression]
    """The condition of each value of a category."""
    coefficients: tuple[int, ...]
    """The coefficient of each coordinate, in multiples of 1/F; those beyond the last one given are 0."""

    @cached_property
    def steps(self) -> Expression:
        """β·z in multiples of 1/(F·S): one choice for the coordinates of each term, of which a row has at most one."""
        terms: dict[tuple[object, ...], list[tuple[Coordinate, int]]] = {}
        for coordinate, coefficient in zip(self.design.coordinates, self.coefficients, strict=False):
            categories = tuple(sorted(category for category, _ in coordinate.levels))
            terms.setdefault((categories, coordinate.column), []).append((coordinate, coefficient))
        return reduce(lambda total, term: call("+", total, term), map(self._term_expression, terms.values()))

    @cached_property
    def value(self) -> Expression:
        """β·z as a real number, where a coordinate is in [−1, 1]."""
        unit = float(COEFFICIENT_STEPS * self.design.scale)
        return call("/", call("CAST", self.steps, literal(Type.TEXT, Type.REAL.value)), real_literal(unit))

    def negated_within(self, limit: int) -> Expression:
        """Return −β·z within ± a limit; whole steps are clamped, and a product with a power of two is exact."""
        unit = COEFFICIENT_STEPS * self.design.scale
        least, greatest = integer_literal(-limit * unit), integer_literal(limit * unit)
        steps = call("LEAST", call("GREATEST", self.steps, least), greatest)
        return call("*", call("CAST", steps, literal(Type.TEXT, Type.REAL.value)), real_literal(Fraction(-1, unit)))

    def _term_expression(self, choices: Sequence[tuple[Coordinate, int]]) -> Expression:
        first, coefficient = choices[0]
        if not first.levels:
            return self._weighted_coordinate(first, coefficient)
        arguments: list[Expression] = []
        for coordinate, weight in choices:
            arguments += [self.level_condition(coordinate.levels), self._weighted_coordinate(coordinate, weight)]
        return call("CASE", *arguments, integer_literal(0))

    def _weighted_coordinate(self, coordinate: Coordinate, coefficient: int) -> Expression:
        if coordinate.column is None:
            return integer_literal(coefficient * self.design.scale)
        return call("*", self.columns[coordinate.column], integer_literal(coefficient))

    def level_condition(self, levels: frozenset[Level]) -> Expression:
        """Return the condition that a row has all these values."""
        tests = [self.levels[level] for level in sorted(levels)]
        return reduce(lambda first, second: call("AND", first, second), tests)
