"""Designs of logistic regressions: the coordinates of a formula's rows, and the event whose odds are modelled.

The last coordinate of the design stands for the residual y − μ, so that the gradient is a row of its Gram matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.inference.design import (
    MAX_COORDINATES,
    MAX_GRADIENTS,
    MAX_MOMENTS,
    Coordinate,
    Design,
    DesignBuilder,
    Level,
    Moment,
    ScaledColumn,
    add_terms,
    category_values,
    value_literal,
)
from sfumato.inference.formula import Formula, Term
from sfumato.inference.number_ranges import RANGE_COUNTS
from sfumato.plan.quoting import quoted
from sfumato.policy import Domain, Type, Value
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class LogisticDesign:
    """The design of a logistic regression: regressors, and an event of its target."""

    design: Design
    event: str
    """The SQL condition under which y is 1."""
    event_label: str
    """The target and the event, such as ``income[>50K]``."""

    @property
    def is_wide(self) -> bool:
        """Whether the curvature has too many sums to be measured: gradients alone then lead to the coefficients."""
        return len(self.design.gram_entries_by_moment) > MAX_MOMENTS

    @property
    def residual(self) -> int:
        """The index of the column that stands for y − μ."""
        return len(self.design.columns) - 1

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """The sums of a scan: gradients and weighted products, without the square of the residual."""
        return tuple(moment for moment in self.design.gram_entries_by_moment if moment.columns.count(self.residual) < 2)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Every value of every category."""
        categories = enumerate(self.design.categories)
        return tuple((index, value) for index, category in categories for value in range(len(category.values)))

    @property
    def factor_sums(self) -> list[str]:
        """The SQL sums whose arguments are the factors of a scan: columns, values of categories, and the event."""
        columns = [f"SUM({column.sql})" for column in self.design.columns[:-1]]
        predicates = [self.design.categories[category].predicates[value] for category, value in self.levels]
        return ["COUNT(*)", *columns, *(f"COUNT(*) FILTER (WHERE {test})" for test in (*predicates, self.event))]


def logistic_design(
    formula: Formula, domains: Mapping[str, Domain], scale: int, event: object = None
) -> LogisticDesign:
    """Return the design of a formula whose target has an event; what nothing could measure is refused."""
    return _build_with_residual(_logistic_builder(formula, domains, scale), formula, event, MAX_COORDINATES**2)


def range_logistic_design(
    formula: Formula, domains: Mapping[str, Domain], scale: int, event: object = None
) -> LogisticDesign:
    """Return the design for prediction of a formula that ``logistic_design`` accepts: numbers as ranges, where that
    leaves few enough coordinates. Ranges follow any curve, so the square of a number is left out.
    """
    terms = tuple(term for term in formula.terms if not _is_square(term))
    for count in RANGE_COUNTS:
        builder = _logistic_builder(replace(formula, terms=terms), domains, scale, count)
        if len(builder.coordinates) < MAX_GRADIENTS:
            return _build_with_residual(builder, replace(formula, terms=terms), event, None)
    return logistic_design(formula, domains, scale, event)


def _is_square(term: Term) -> bool:
    return len(term) == 2 and term[0].column.lower() == term[1].column.lower()


def _logistic_builder(
    formula: Formula, domains: Mapping[str, Domain], scale: int, range_count: int = 0
) -> DesignBuilder:
    """Return the coordinates of a formula's regressors."""
    builder = DesignBuilder(scale, domains, range_count)
    add_terms(formula, builder)
    return builder


def _build_with_residual(
    builder: DesignBuilder, formula: Formula, event: object, max_moments: int | None
) -> LogisticDesign:
    """Add the residual, and return the design."""
    name, domain = builder.spelling_and_domain(formula.target)
    value = _event_value(name, domain, event)
    builder.names[name] = None
    builder.columns.append(ScaledColumn((name,), "0", Fraction(0), Fraction(1)))
    builder.add_block([Coordinate(column=len(builder.columns) - 1)])
    design = builder.build(formula, max_moments)
    return LogisticDesign(design, f"{quoted(name)} = {value_literal(value)}", f"{name}[{value}]")


def _event_value(name: str, domain: Domain, event: object) -> Value:
    """Return the value of the target that counts as 1: the named one, or the last of two."""
    if domain.type is Type.INTEGER and domain.range is not None and domain.values is None:
        low, high = domain.range
        if int(high) - int(low) > 1 and event is None:  # type: ignore[arg-type]
            raise _target_refusal(name, domain)
    elif domain.values is None and domain.type is not Type.BOOLEAN:
        raise _target_refusal(name, domain)
    values = category_values(name, domain)
    if event is None:
        if len(values) != 2:
            raise _target_refusal(name, domain)
        return values[-1]
    texts = [str(value) for value in values]
    if str(event) not in texts:
        raise InvalidParameter("event", event, f"a declared value of {name}: {', '.join(texts[:20])}")
    return values[texts.index(str(event))]


def _target_refusal(name: str, domain: Domain) -> InvalidParameter:
    rule = "a column with two declared values, or with more if event names the one to predict"
    fix = f"name the value of {name} to predict with event= (--event)"
    if domain.values is None:
        fix = f"declare the values of {name} in the policy; if there are more than two, name one with event= (--event)"
    return InvalidParameter("target", name, rule, fix=fix)
