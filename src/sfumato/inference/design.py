"""Design matrices: what one row adds to the moments of a regression, in whole numbers that the policy bounds.

A row becomes a vector z of *coordinates*: a one for the intercept, a scaled column w of whole steps in [−S, S], the
indicator of a category's value, or a product of two of these. A column x with declared bounds is centred at their
middle and scaled by half their width, so |x| at its bounds is S steps. Integers with few values are scaled by a whole
number and are exact; other values are rounded to the nearest step, which leaves them in [−S, S]. Indicators and the
intercept count as S steps. A row with a missing value in any column that the formula names is left out, by the
statement, from every moment.

A *moment* is a sum of products of two coordinates over all rows that count. What the policy implies is measured once:
an indicator is its own square, indicators of one category never meet, and all entries of the Gram matrix that are the
same sum share one moment. ``gram_entry_count_by_moment`` counts them.

The coordinates fall into *blocks*, one for the intercept, one for the target and one for each term, of which a row has
at most one coordinate that is not 0: the values of a category exclude each other.

Assumed data for forecasts: independent columns, even over their declared ranges, from the policy alone.
"""

from __future__ import annotations

import datetime as dt
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.formula import Factor, Formula, Term, range_edges, range_labels, term_label
from sfumato.plan.quoting import quoted
from sfumato.policy import Domain, Type, Value
from sfumato.privacy.numbers import exact, format_exact
from sfumato.quick_dataclass import dataclass

Level = tuple[int, int]
"""A value of a category: the index of the category, and that of the value."""
MAX_SCALE = 2**12
MIN_SCALE = 2**5
_MAX_UNIT_STEPS = 2**26
"""The most squared steps of one unit: totals of as many are read without rounding (``plan.bounding``), and noise for
them can be drawn exactly at every ε above 0.02."""
MAX_LEVELS = 100
MAX_MOMENTS = 1_000
MAX_COORDINATES = 120
"""The most coordinates, and different sums, of one release: its table is computed within about 200 MB."""


MAX_GRADIENTS = 480
"""The most coordinates of which gradients alone are read: a statement has as many sums."""


@dataclass(frozen=True)
class ScaledColumn:
    """A column of numbers in whole steps w: x = middle + slope·w/S."""

    factors: tuple[str, ...]
    """The name of the table's column, or those of the two that it is the product of, sorted."""
    sql: str
    """The whole number of steps of a row, as SQL."""
    middle: Fraction
    slope: Fraction
    bounds: str = ""
    """The declared bounds in words; empty for a product."""


@dataclass(frozen=True)
class Category:
    """A column with declared values; every value has an indicator."""

    column: str
    values: tuple[Value, ...]
    predicates: tuple[str, ...]
    """The SQL condition of each value."""
    reference: int | None = None
    """The reference value that the formula names; None: it is chosen from released counts."""
    edges: tuple[Fraction, ...] = ()
    """Where the ranges of a number meet (``inference.formula``); none for declared values."""


@dataclass(frozen=True)
class Coordinate:
    """A coordinate of a row's vector: indicators of some values, times one scaled column or the constant S."""

    levels: frozenset[Level] = frozenset()
    column: int | None = None


@dataclass(frozen=True)
class Moment:
    """A sum over rows: of the product of up to two scaled columns, where all these values hold."""

    levels: frozenset[Level]
    columns: tuple[int, ...]
    """The indices of the scaled columns, rising; none for a count of rows."""


@dataclass(frozen=True)
class Regressor:
    """A column of the fitted model: a combination of coordinates, in the units of the table."""

    label: str
    parts: Mapping[int, float]
    """Coefficients by the index of a coordinate."""
    levels: tuple[Level, ...] = ()
    is_intercept: bool = False


@dataclass(frozen=True)
class Design:
    """The coordinates of a formula's rows, and the moments that are measured of them."""

    scale: int
    """S: the steps of an indicator, and the most steps of a scaled column."""
    columns: tuple[ScaledColumn, ...]
    categories: tuple[Category, ...]
    coordinates: tuple[Coordinate, ...]
    """The first is the intercept; in a regression the last is the target."""
    blocks: tuple[int | None, ...]
    """For each block the scaled column that its coordinates have as a factor; None for constants."""
    names: tuple[str, ...]
    """The columns of the table that are used: rows where one is missing are left out."""
    formula: Formula | None = None

    def moment_of_pair(self, j: int, k: int) -> Moment | None:
        """Return the moment of two coordinates; None if their values exclude each other, so that it is 0."""
        pair = self.coordinates[j], self.coordinates[k]
        levels = pair[0].levels | pair[1].levels
        if len({category for category, _ in levels}) < len(levels):
            return None
        return Moment(levels, tuple(sorted(coordinate.column for coordinate in pair if coordinate.column is not None)))

    @cached_property
    def moments_by_pair(self) -> dict[tuple[int, int], Moment]:
        """The moment of each pair of coordinates j ≤ k that has one."""
        size = len(self.coordinates)
        pairs = ((j, k) for j in range(size) for k in range(j, size))
        return {(j, k): moment for j, k in pairs if (moment := self.moment_of_pair(j, k)) is not None}

    @cached_property
    def gram_entry_count_by_moment(self) -> dict[Moment, int]:
        """Each moment with the number of entries of the Gram matrix that it stands for: 2 for a pair j < k."""
        entries: dict[Moment, int] = {}
        for (j, k), moment in self.moments_by_pair.items():
            entries[moment] = entries.get(moment, 0) + (1 if j == k else 2)
        return entries

    @cached_property
    def gram_index(self) -> NDArray[np.intp]:
        """The index of each Gram entry's moment; −1 where the entry is 0."""
        size, order = (
            len(self.coordinates),
            {moment: index for index, moment in enumerate(self.gram_entry_count_by_moment)},
        )
        index = np.full((size, size), -1, np.intp)
        for (j, k), moment in self.moments_by_pair.items():
            index[j, k] = index[k, j] = order[moment]
        return index

    @cached_property
    def constraints(self) -> Floats:
        """Rows c with c·t = 0: the total of a moment is the sum over the values of a category."""
        order = {moment: index for index, moment in enumerate(self.gram_entry_count_by_moment)}
        rows = []
        for moment, (index, category) in product(order, enumerate(self.categories)):
            if any(other == index for other, _ in moment.levels):
                continue
            parts = [replace(moment, levels=moment.levels | {(index, v)}) for v in range(len(category.values))]
            if all(part in order for part in parts):
                row = np.zeros(len(order))
                row[[order[part] for part in parts]], row[order[moment]] = 1, -1
                rows.append(row)
        return np.array(rows).reshape(-1, len(order))

    @property
    def with_first_references(self) -> Design:
        """The design whose categories have their first value as reference, where the formula names none."""
        categories = (replace(category, reference=category.reference or 0) for category in self.categories)
        return replace(self, categories=tuple(categories))

    def moment_sql(self, moment: Moment) -> str:
        """Return the SQL aggregate of a moment."""
        conditions = [self.categories[category].predicates[value] for category, value in sorted(moment.levels)]
        where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        factors = " * ".join(f"({self.columns[column].sql})" for column in moment.columns)
        return f"{f'SUM({factors})' if factors else 'COUNT(*)'}{where}"

    @property
    def row_condition(self) -> str:
        """The SQL condition of the rows that count: every column has a value."""
        return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.names)

    def level_label(self, level: Level) -> str:
        category = self.categories[level[0]]
        return f"{category.column}[{category.values[level[1]]}]"


def largest_scale(rows: int, blocks: int) -> int:
    """Return the most steps S, a power of two, with which a unit's rows of so many blocks are measured exactly."""
    scale = MAX_SCALE
    while scale > MIN_SCALE and scale**2 * rows * blocks > _MAX_UNIT_STEPS:
        scale //= 2
    if scale**2 * rows * blocks > _MAX_UNIT_STEPS:
        most = _MAX_UNIT_STEPS // MIN_SCALE**2 // blocks
        rule = f"a model with this many columns can count at most {most:,} rows per unit; this one would count {rows:,}"
        raise Unsupported("too-many-rows", rule, fix="count fewer rows per unit, such as rows=1 (--rows 1)")
    return scale


class DesignBuilder:
    """Collects scaled columns, categories and coordinates from the domains that the policy declares."""

    def __init__(self, scale: int, domains: Mapping[str, Domain], range_count: int = 0) -> None:
        """``range_count`` is the number of ranges that a number is cut into; 0 keeps numbers as scaled columns."""
        self.scale = scale
        self.range_count = range_count
        self.domains = {name.lower(): (name, domain) for name, domain in domains.items()}
        self.columns: list[ScaledColumn] = []
        self.column_index: dict[tuple[str, ...], int] = {}
        self.categories: dict[str, Category] = {}
        self.coordinates: dict[Coordinate, int] = {Coordinate(): 0}
        self.blocks: list[int | None] = [None]
        self.names: dict[str, None] = {}

    def spelling_and_domain(self, column: str) -> tuple[str, Domain]:
        """Return a column's own spelling and its domain."""
        if column.lower() not in self.domains:
            column_names = ", ".join(name for name, _ in self.domains.values())
            close = difflib.get_close_matches(column[:100].lower(), self.domains, n=1)
            fix = f"did you mean {self.domains[close[0]][0]}?" if close else ""
            raise InvalidParameter("column", column, f"one of {column_names}", fix=fix)
        return self.domains[column.lower()]

    def is_category(self, factor: Factor) -> bool:
        domain = self.spelling_and_domain(factor.column)[1]
        return factor.is_category or domain.type in (Type.TEXT, Type.BOOLEAN)

    def has_indicators(self, factor: Factor) -> bool:
        """Return whether a factor's coordinates are indicators: of values, or of the ranges of a number."""
        return self.range_count > 0 or self.is_category(factor)

    def scaled_column_index(self, column: str) -> int:
        """Return the index of a scaled column, added on first use."""
        name, domain = self.spelling_and_domain(column)
        self.names[name] = None
        key = (name,)
        if key not in self.column_index:
            self.column_index[key] = len(self.columns)
            self.columns.append(_scale_column(name, domain, self.scale))
        return self.column_index[key]

    def product_column_index(self, first: str, second: str) -> int:
        """Return the index of the product of two scaled columns, rounded to the nearest step."""
        indices = self.scaled_column_index(first), self.scaled_column_index(second)
        key = tuple(sorted((self.spelling_and_domain(first)[0], self.spelling_and_domain(second)[0])))
        if key not in self.column_index:
            a, b = (self.columns[index] for index in indices)
            self.column_index[key] = len(self.columns)
            sql = f"CAST(FLOOR(CAST(({a.sql}) * ({b.sql}) AS DOUBLE) / {self.scale} + 0.5) AS BIGINT)"
            self.columns.append(ScaledColumn(key, sql, Fraction(0), Fraction(1)))
        return self.column_index[key]

    def category_index(self, factor: Factor) -> int:
        """Return the index of a category, added on first use."""
        name, domain = self.spelling_and_domain(factor.column)
        self.names[name] = None
        if name not in self.categories:
            is_category = self.is_category(factor)
            self.categories[name] = (
                _declared_category(name, domain) if is_category else _range_category(name, domain, self.range_count)
            )
        if factor.reference is not None:
            self.categories[name] = _with_reference_value(self.categories[name], factor.reference)
        return list(self.categories).index(name)

    def add_block(self, coordinates: Sequence[Coordinate]) -> None:
        """Add the coordinates of one term, of which a row has at most one."""
        self.blocks.append(coordinates[0].column)
        for coordinate in coordinates:
            self.coordinates.setdefault(coordinate, len(self.coordinates))

    def build(self, formula: Formula | None = None, max_moments: int | None = MAX_MOMENTS) -> Design:
        """Return the design; one with more moments, or with too many coordinates, is refused. Without a limit of
        moments its curvature is never read, and it has as many coordinates as ``MAX_GRADIENTS``.
        """
        design = Design(
            self.scale,
            tuple(self.columns),
            tuple(self.categories.values()),
            tuple(self.coordinates),
            tuple(self.blocks),
            tuple(self.names),
            formula,
        )
        max_coordinates = MAX_GRADIENTS if max_moments is None else MAX_COORDINATES
        if len(design.coordinates) > max_coordinates:
            rule = (
                f"a model can have at most {max_coordinates} terms, one for each value of a category; this "
                f"formula has {len(design.coordinates):,}"
            )
            raise Unsupported("too-many-moments", rule, fix="name fewer columns, or categories with fewer values")
        moment_count = 0 if max_moments is None else len(design.gram_entry_count_by_moment)
        if max_moments is not None and moment_count > max_moments:
            rule = f"a model can use at most {max_moments:,} sums of products; this formula needs {moment_count:,}"
            raise Unsupported("too-many-moments", rule, fix="name fewer columns, or categories with fewer values")
        return design


def regression_design(formula: Formula, domains: Mapping[str, Domain], scale: int) -> Design:
    """Return the design of a formula; what no statement could measure, or nothing could tell apart, is refused."""
    builder = DesignBuilder(scale, domains)
    add_terms(formula, builder)
    target = Factor(formula.target)
    if builder.is_category(target):
        rule = "a column of numbers with declared bounds, not a category"
        raise InvalidParameter(
            "target",
            formula.target,
            rule,
            fix="regress another column, or use logistic(…) for the odds of one of its values",
        )
    builder.add_block([Coordinate(column=builder.scaled_column_index(formula.target))])
    return builder.build(formula)


def regressor_design(formula: Formula, domains: Mapping[str, Domain], scale: int) -> Design:
    """Return the design of a formula's regressors alone."""
    builder = DesignBuilder(scale, domains)
    add_terms(formula, builder)
    return builder.build(formula)


def add_terms(formula: Formula, builder: DesignBuilder) -> None:
    """Add a block of coordinates for every term of a formula."""
    _require_no_redundancy(formula, builder)
    for term in formula.terms:
        builder.add_block(
            [_coordinate(combination, builder) for combination in _factor_level_combinations(term, builder)]
        )


Combination = tuple[tuple[Factor, Level | None], ...]
"""For each factor of a term, the value of a category, or None for a number."""


def _factor_level_combinations(term: Term, builder: DesignBuilder) -> list[Combination]:
    """List the coordinates of a term: every combination of its categories' values."""
    choices: list[list[tuple[Factor, Level | None]]] = []
    for factor in term:
        if not builder.has_indicators(factor):
            builder.scaled_column_index(factor.column)
            choices.append([(factor, None)])
            continue
        category = builder.category_index(factor)
        values = list(builder.categories.values())[category].values
        choices.append([(factor, (category, value)) for value in range(len(values))])
    return [*product(*choices)]


def _coordinate(combination: Combination, builder: DesignBuilder) -> Coordinate:
    levels = frozenset(level for _, level in combination if level is not None)
    numbers = [factor.column for factor, level in combination if level is None]
    if not numbers:
        return Coordinate(levels)
    column = (
        builder.scaled_column_index(numbers[0])
        if len(numbers) == 1
        else builder.product_column_index(numbers[0], numbers[1])
    )
    return Coordinate(levels, column)


def _require_no_redundancy(formula: Formula, builder: DesignBuilder) -> None:
    """Refuse what the formula itself shows to be redundant, and products without the columns they are made of."""
    main_effects: dict[str, Factor] = {}
    for term in formula.terms:
        for factor in term:
            name, _ = builder.spelling_and_domain(factor.column)
            if name == builder.spelling_and_domain(formula.target)[0]:
                rule, fix = (
                    f"written without its target {name} on the right of ~",
                    f"remove {name} from the right of ~",
                )
                raise InvalidParameter("formula", formula.text, rule, fix=fix)
            if factor.is_centred and builder.is_category(factor):
                rule = f"written without center({name}), because {name} is a category"
                raise InvalidParameter("formula", formula.text, rule, fix=f"write {name} without center(…)")
        if len(term) == 1:
            (factor,) = term
            name, _ = builder.spelling_and_domain(factor.column)
            if name in main_effects:
                first, second = main_effects[name].label, factor.label
                rule = f"a sum of different columns, but {first} and {second} are the same column"
                raise InvalidParameter("formula", formula.text, rule, fix=f"remove {first} or {second}")
            main_effects[name] = factor
    for term in formula.terms:
        _require_main_effects(term, main_effects, formula, builder)


def _require_main_effects(
    term: Term, main_effects: Mapping[str, Factor], formula: Formula, builder: DesignBuilder
) -> None:
    if len(term) == 1:
        return
    names = [builder.spelling_and_domain(factor.column)[0] for factor in term]
    if names[0] == names[1] and builder.is_category(term[0]):
        rule = f"written without the square of {names[0]}, which is a category"
        raise InvalidParameter("formula", formula.text, rule, fix=f"remove the square of {names[0]}")
    missing = [factor.label for name, factor in zip(names, term, strict=True) if name not in main_effects]
    if missing:
        label = term_label(term)
        rule = f"a sum that includes {missing[0]} as a term of its own, because it contains {label}"
        fix = f"add {missing[0]}" if names[0] == names[1] else f"write {label.replace(':', ' * ')}, which adds both"
        raise InvalidParameter("formula", formula.text, rule, fix=fix)
    for name, factor in zip(names, term, strict=True):
        if builder.is_category(factor) is not builder.is_category(main_effects[name]):
            rule = f"consistent about '{name}', which is used both as a number and as a category"
            raise InvalidParameter(
                "formula", formula.text, rule, fix=f"write {main_effects[name].label} in the product"
            )


def _scale_column(name: str, domain: Domain, scale: int) -> ScaledColumn:
    """Return a column in whole steps; without declared bounds nothing bounds a row's part, and it is refused."""
    if not domain.type.numeric:
        rule = f"a column of numbers, not of type {domain.type.value}"
        example = "its year" if domain.type.temporal else "1 for one of its values and 0 for the others"
        fix = f"derive a number from it, such as {example}, with table(…).derive(…)"
        raise InvalidParameter("column", name, rule, fix=fix)
    if domain.range is None:
        rule = "a number with declared bounds, because without them one row could hold any value"
        fix = f"declare bounds for '{name}' in the policy, or find some privately with curator.bounds(…)"
        raise InvalidParameter("column", name, rule, fix=fix)
    low, high = (exact(end, name) for end in domain.range)  # type: ignore[arg-type]
    width, middle = high - low, (low + high) / 2
    if not width:
        rule = f"a column with several possible values, but the policy says that '{name}' is always {_sql_number(low)}"
        raise InvalidParameter("column", name, rule, fix=f"leave out '{name}', which the intercept already covers")
    bounds = f"{name} in [{format_exact(low)}, {format_exact(high)}]"
    if domain.type is Type.INTEGER and width <= scale:
        factor = scale // int(width)
        sql = f"(2 * {quoted(name)} - {_sql_number(low + high)}) * {factor}"
        return ScaledColumn((name,), sql, middle, Fraction(scale, 2 * factor), bounds)
    steps = f"(CAST({quoted(name)} AS DOUBLE) - {_sql_number(middle)}) * {scale} / {_sql_number(width / 2)}"
    sql = f"CAST(FLOOR({steps} + 0.5) AS BIGINT)"
    return ScaledColumn((name,), sql, middle, width / 2, bounds)


def _sql_number(value: Fraction) -> str:
    """Write a number as SQL; a negative one in parentheses."""
    is_integer = value.denominator == 1 and abs(value) < 2**63
    text = str(value.numerator) if is_integer else repr(float(value))
    return f"({text})" if value < 0 else text


def category_values(name: str, domain: Domain) -> tuple[Value, ...]:
    """Return the declared values of a category; one without them is refused."""
    values = domain.values
    if domain.type is Type.BOOLEAN and not values:
        values = (False, True)
    if values is None and domain.type is Type.INTEGER and domain.range is not None:
        low, high = domain.range
        values = tuple(range(low, min(high, low + MAX_LEVELS) + 1))  # type: ignore[operator,arg-type]
    if values is None:
        rule = "a category with declared values"
        raise InvalidParameter("column", name, rule, fix=f"declare values for {name} in the policy")
    if not 2 <= len(values) <= MAX_LEVELS:
        rule = f"a category of 2 to {MAX_LEVELS} declared values, and {name} has {len(values):,}"
        raise InvalidParameter(
            "column",
            name,
            rule,
            fix="use a number instead, or merge values into fewer categories with table(…).derive(…)",
        )
    return values


def _declared_category(name: str, domain: Domain) -> Category:
    values = category_values(name, domain)
    predicates = tuple(f"{quoted(name)} = {value_literal(value)}" for value in values)
    _require_distinct_predicates(name, predicates)
    return Category(name, values, predicates)


def _range_category(name: str, domain: Domain, count: int) -> Category:
    """Return a number as ranges, one for each predicate; neighbours share the SQL of the edge between them."""
    edges = range_edges(domain, count)
    column, texts = quoted(name), [_sql_number(edge) for edge in edges]
    at_least = ["", *(f"{column} >= {text}" for text in texts)]
    below = [*(f"{column} < {text}" for text in texts), ""]
    predicates = (" AND ".join(filter(None, ends)) for ends in zip(at_least, below, strict=True))
    return Category(name, range_labels(edges), tuple(predicates), edges=edges)


def _require_distinct_predicates(name: str, predicates: Sequence[str]) -> None:
    """Refuse values that SQL cannot tell apart: a row would be in two of them, and move more than is charged."""
    if len({*predicates}) < len(predicates):
        rule = f"a category whose declared values all differ in SQL, but two values of {name} are equal there"
        raise InvalidParameter("column", name, rule, fix="declare only one of the equal values in the policy")


def value_literal(value: Value) -> str:
    """Write a declared value as SQL."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, Fraction)):
        return _sql_number(Fraction(value))
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):  # as a DATE, all times of one day would be one value
        return f"TIMESTAMP '{value}'"
    return f"DATE '{value}'"


def _with_reference_value(category: Category, reference: str) -> Category:
    texts = [str(value) for value in category.values]
    if reference not in texts:
        rule = f"a declared value of {category.column}: {', '.join(texts[:20])}"
        raise InvalidParameter("reference", reference, rule)
    return replace(category, reference=texts.index(reference))


def regressors(design: Design, references: Sequence[int]) -> tuple[Regressor, ...]:
    """Return the columns of the fitted model, given the index of each category's reference value."""
    formula = design.formula
    assert formula is not None
    column_index = {column.factors: index for index, column in enumerate(design.columns)}
    order = {coordinate: index for index, coordinate in enumerate(design.coordinates)}
    fitted = [Regressor("intercept", {0: 1.0}, is_intercept=True)] if formula.has_intercept else []
    keeps_reference = not formula.has_intercept
    for term in formula.terms:
        for combination in _level_combinations(term, design):
            levels = tuple(level for level in combination if level is not None)
            if any(value == references[category] for category, value in levels) and not (
                keeps_reference and len(term) == 1
            ):
                continue
            parts = _coefficient_by_coordinate(term, combination, design, column_index, order)
            fitted.append(Regressor(_regressor_label(term, combination, design), parts, levels))
        keeps_reference &= not any(_category_index(factor, design) is not None for factor in term)
    return tuple(fitted)


def _category_index(factor: Factor, design: Design) -> int | None:
    names = [category.column.lower() for category in design.categories]
    return names.index(factor.column.lower()) if factor.column.lower() in names else None


def _level_combinations(term: Term, design: Design) -> list[tuple[Level | None, ...]]:
    choices: list[list[Level | None]] = []
    for factor in term:
        category = _category_index(factor, design)
        count = 0 if category is None else len(design.categories[category].values)
        choices.append([None] if category is None else [(category, value) for value in range(count)])
    return [*product(*choices)]


def _regressor_label(term: Term, combination: Sequence[Level | None], design: Design) -> str:
    if len(term) == 2 and term[0] == term[1]:
        return term_label(term)
    pairs = zip(term, combination, strict=True)
    return ":".join(factor.label if level is None else design.level_label(level) for factor, level in pairs)


def _coefficient_by_coordinate(
    term: Term,
    combination: Sequence[Level | None],
    design: Design,
    column_index: Mapping[tuple[str, ...], int],
    order: Mapping[Coordinate, int],
) -> dict[int, float]:
    """Write a term as a combination of coordinates: (middle − centre + slope·w/S) for each of its numbers."""
    levels = frozenset(level for level in combination if level is not None)
    parts: dict[tuple[str, ...], float] = {(): 1.0}
    for factor, level in zip(term, combination, strict=True):
        if level is not None:
            continue
        names = ((column.factors[0].lower(), column) for column in design.columns if len(column.factors) == 1)
        column = next(column for name, column in names if name == factor.column.lower())
        centre = factor.centre if factor.centre is not None else column.middle if factor.is_centred else Fraction(0)
        shift, slope = float(column.middle - centre), float(column.slope)
        parts = _multiply_polynomial(parts, column.factors[0], shift, slope)
    expanded = {}
    for factors, coefficient in parts.items():
        if coefficient:
            expanded[order[Coordinate(levels, column_index[factors] if factors else None)]] = coefficient
    return expanded


def _multiply_polynomial(
    parts: Mapping[tuple[str, ...], float], name: str, shift: float, slope: float
) -> dict[tuple[str, ...], float]:
    """Multiply a polynomial of scaled columns by shift + slope·name."""
    result: dict[tuple[str, ...], float] = {}
    for names, coefficient in parts.items():
        for key, factor in ((names, shift), (tuple(sorted((*names, name))), slope)):
            result[key] = result.get(key, 0.0) + coefficient * factor
    return result


_ROWS = 2048
_PRIMES = 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97


def assumed_moments(design: Design, rows: int) -> Floats:
    """Return the moments of so many assumed rows, in units in which an indicator is 1 and a column in [−1, 1].

    The rows are a lattice, x_j = the fractional parts of multiples of √p_j (Weyl), so that no randomness is needed.
    """
    coordinates = coordinates_of_assumed_rows(design)
    gram = coordinates.T @ coordinates * (rows / _ROWS)
    index = design.gram_index
    moments = np.zeros(len(design.gram_entry_count_by_moment))
    moments[index[index >= 0]] = gram[index >= 0]
    return moments


def coordinates_of_assumed_rows(design: Design) -> Floats:
    """Return the coordinates of assumed rows."""
    steps = np.arange(1, _ROWS + 1)
    names = [column.factors[0] for column in design.columns if len(column.factors) == 1]
    uniform = {name: _irrational_multiples(steps, index) * 2 - 1 for index, name in enumerate(names)}
    columns = [np.prod([uniform[name] for name in column.factors], axis=0) for column in design.columns]
    values = [
        np.floor(_irrational_multiples(steps, len(names) + index) * len(category.values))
        for index, category in enumerate(design.categories)
    ]
    rows = np.ones((_ROWS, len(design.coordinates)))
    for index, coordinate in enumerate(design.coordinates):
        if coordinate.column is not None:
            rows[:, index] *= columns[coordinate.column]
        for category, value in coordinate.levels:
            rows[:, index] *= values[category] == value
    return rows


def _irrational_multiples(steps: NDArray[np.int64], index: int) -> Floats:
    """Return the fractional parts of multiples of an irrational number of its own."""
    irrational = math.sqrt(_PRIMES[index % len(_PRIMES)]) * (1 + index // len(_PRIMES) / math.pi)
    return np.asarray((steps * irrational) % 1.0)
