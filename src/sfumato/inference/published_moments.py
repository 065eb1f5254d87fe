"""A regression from marginals that were published: free, with the law of the noise on sums of their cells.

A moment is the sum over rows of a product of coordinates, each of which one column decides. Where every cell holds one
value it is ⟨q, m⟩: m the marginal of its columns, and q = ⊗ f_j a product of one factor for each, 0 for missing values.
It is estimated by Σ_B⟨q_B, r̂_B⟩ over blocks with independent noise of variance v_B in their entries
(``publish.marginals.blocks``). So estimates are unbiased, and two moments have the covariance Σ_B v_B⟨q_B, q′_B⟩ = Σ_B
v_B·Π_j⟨f_j, f′_j⟩_B, with the inner product of what B picks of column j. The plan was fixed before any noise was drawn,
so this law is known, and the intervals of ``linear`` hold as for moments that were measured themselves.

All moments must be of the same rows: those where no column of the formula is missing. A marginal of two columns counts
rows where a third one is missing, so the columns are published all together, or the policy declares that they are never
missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import starmap

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.inference.design import MAX_SCALE, Category, Design, Moment, ScaledColumn, regression_design
from sfumato.inference.formula import parse_formula
from sfumato.inference.linear import LinearFit
from sfumato.inference.moments import MomentEstimates
from sfumato.inference.regression_answers import RegressionAnswer, regression_answer
from sfumato.plan.limits import Strategy
from sfumato.policy import Type, Value
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact, format_exact
from sfumato.publish.marginals.attributes import Attribute, Cell, ListedCell, RangeCell, holds_one_value
from sfumato.publish.marginals.blocks import weight_by_noise_deviation
from sfumato.publish.marginals.estimating import BlockEstimates
from sfumato.publish.synopsis import Synopsis
from sfumato.quick_dataclass import dataclass

Factors = Mapping[int, Floats]
"""The factors of a product of weights, by the index of an attribute: a number for each of its cells."""


def regress(formula: str, synopsis: Synopsis, *, confidence: Number = DEFAULT_CONFIDENCE) -> RegressionAnswer:
    """Regress published columns on each other: free, with intervals for the noise of the published counts.

    Every value of the columns must be a cell of its own, and the columns were published together, or in pairs if the
    policy declares that they are never missing.
    """
    published = PublishedColumns.from_synopsis(synopsis)
    parsed = parse_formula(formula)
    domains = dict(zip(synopsis.columns, synopsis.face.domains, strict=True))
    design = regression_design(parsed, domains, MAX_SCALE)
    fit = LinearFit(design, published.moments(design), published.has_one_row_per_unit)
    level = format_exact(exact(confidence, "confidence", CONFIDENCE))
    question = f"REGRESS {parsed.text} FROM what was published of {synopsis.table}"
    receipt = replace(synopsis.receipt, question=question, free=True, confidence=level)
    return regression_answer(fit, receipt, tuple(published.warnings(design.names)))


@dataclass(frozen=True, eq=False)
class PublishedColumns:
    """The columns of one release with Gaussian noise."""

    synopsis: Synopsis

    @classmethod
    def from_synopsis(cls, synopsis: Synopsis) -> PublishedColumns:
        """Refuse what has no plan that was fixed beforehand, or noise whose sums are not normal."""
        if not isinstance(synopsis, Synopsis):
            given = ValueWords(f"an object of type {type(synopsis).__name__}")
            raise InvalidParameter(
                "synopsis", given, "an object that sf.synopsis(…) returned", fix="load one with sf.synopsis(path)"
            )
        if synopsis.earlier:
            rule = "a single release, because noise of an earlier release may have decided what a later one measured"
            raise InvalidParameter(
                "synopsis",
                ValueWords("a sum of several releases"),
                rule,
                fix="pass one of its releases, such as synopsis.releases[0]",
            )
        if synopsis.plan.marginals:
            rule = "published with Gaussian noise, because the ranges assume normal noise"
            raise InvalidParameter(
                "synopsis", ValueWords("Laplace noise"), rule, fix="publish it with a δ, or at a price in ρ"
            )
        return cls(synopsis)

    @property
    def has_one_row_per_unit(self) -> bool:
        """Whether a unit has one whole row at most: several have a larger sum of weights, or fractions of a row."""
        plan = self.synopsis.plan
        return plan.rows == 1 and plan.unit_value == 1

    def warnings(self, names: Sequence[str]) -> Iterator[str]:
        """Yield what moves the coefficients and is in no interval: rows that are not among those that were counted."""
        face, receipt = self.synopsis.face, self.synopsis.receipt
        if face.where:
            yield f"the synopsis covers only the rows where {face.where}"
        if receipt.strategy != Strategy.WHOLE.value:
            yield f"rows beyond the limits ({receipt.limits}) count less or not at all; ± does not cover these effects"
        for name, domain in zip(self.synopsis.columns, face.domains, strict=True):
            if name in names and domain.values is not None and domain.other is None and domain.type is not Type.BOOLEAN:
                yield f"rows with an undeclared value of {name} do not count"

    def moments(self, design: Design) -> MomentEstimates:
        """Estimate the moments of a design, with the covariance of their noise."""
        attribute_indices = self.synopsis.attribute_indices(design.names)
        estimates = self.synopsis.estimates
        together = estimates.covers(attribute_indices)
        if not together:
            self._require_no_missing(design.names)
        present = (
            {attribute_index: self._present(attribute_index) for attribute_index in attribute_indices}
            if together
            else {}
        )
        factors = [{**present, **self._factors(design, moment)} for moment in design.gram_entry_count_by_moment]
        uncovered = next(
            (moment_factors for moment_factors in factors if not estimates.covers(tuple(sorted(moment_factors)))), None
        )
        if uncovered is not None:
            names = ", ".join(self.synopsis.columns[attribute_index] for attribute_index in sorted(uncovered))
            rule = f"a formula needs the products of its columns, but {names} were not published together"
            fix = f'publish them together, or regress the table itself: curator.regress(…, "{self.synopsis.table}")'
            raise Unsupported("not-published-together", rule, fix=fix)
        return MomentEstimates(*product_totals(estimates, factors))

    def _present(self, index: int) -> Floats:
        """Return 1 for every cell but that of missing values."""
        return (np.arange(self.synopsis.attributes[index].size) < self.synopsis.attributes[index].size - 1).astype(
            float
        )

    def _require_no_missing(self, names: Sequence[str]) -> None:
        for name in names:
            (attribute_index,) = self.synopsis.attribute_indices([name])
            if self.synopsis.face.estimates.possible_cells((attribute_index,))[-1]:
                rule = f"rows with a missing value can be left out only if {', '.join(names)} were published together"
                fix = f'publish them together, or declare in the policy: impossible = ["{name} IS NULL"]'
                raise Unsupported("not-published-together", rule, fix=fix)

    def _factors(self, design: Design, moment: Moment) -> dict[int, Floats]:
        """Return the factor of each column of a moment."""
        factors: dict[int, Floats] = {}
        columns = [design.columns[index] for index in moment.columns]
        parts = [(name, self._numbers(design, name)) for column in columns for name in column.factors]
        parts += list(starmap(self._indicator, ((design.categories[c], v) for c, v in moment.levels)))
        for name, weights in parts:
            (attribute_index,) = self.synopsis.attribute_indices([name])
            factors[attribute_index] = factors.get(attribute_index, 1.0) * weights
        return factors

    def _numbers(self, design: Design, name: str) -> Floats:
        """Return the scaled number of each cell, 0 for missing values."""
        column = next(candidate for candidate in design.columns if candidate.factors == (name,))
        return np.array([_scaled_value(value, column) for value in self._values(name)] + [0.0])

    def _indicator(self, category: Category, level: int) -> tuple[str, Floats]:
        """Return the column of a category, and which cell holds one of its values."""
        values = self._values(category.column)
        return category.column, np.array([*(value == category.values[level] for value in values), False], float)

    def _values(self, name: str) -> list[Value]:
        """Return the value of each cell but that of missing values."""
        (attribute_index,) = self.synopsis.attribute_indices([name])
        attribute = self.synopsis.attributes[attribute_index]
        return [_single_value(cell, attribute) for cell in attribute.cells[:-1]]


def _single_value(cell: Cell, attribute: Attribute) -> Value:
    if isinstance(cell, ListedCell):
        return cell.value
    if isinstance(cell, RangeCell) and holds_one_value(cell, attribute.type):
        return cell.low
    rule = f"a regression needs columns that were published value by value, but {attribute.name} was published in bins"
    raise Unsupported("cells-of-several-values", rule, fix="regress the table itself with curator.regress(…)")


def _scaled_value(value: Value, column: ScaledColumn) -> float:
    return float((exact(value, column.factors[0]) - column.middle) / column.slope)  # type: ignore[arg-type]


def product_totals(estimates: BlockEstimates, products: Sequence[Factors]) -> tuple[Floats, Floats]:
    """Estimate the totals of cells weighted by products of factors; return them with a matrix F where FFᵀ is the
    covariance of their noise: the theorem above.
    """
    totals, covariance = np.zeros(len(products)), np.zeros((len(products), len(products)))
    for block, part in estimates.parts.items():
        members = [
            index
            for index, product in enumerate(products)
            if all(attribute_index in product for attribute_index, _ in block)
        ]
        if not members:
            continue
        inside = {attribute_index for attribute_index, _ in block}
        shares = [_share_outside(estimates, products[index], inside) for index in members]
        products_of_members = np.multiply.outer(np.array(shares), np.array(shares)) * estimates.variances[block]
        sums = [part] * len(members)
        for attribute_index, level in block:
            difference = estimates.attributes[attribute_index].hierarchy.differences[level - 1]
            member_coefficients = [difference.coefficients(products[index][attribute_index], 0) for index in members]
            sums = [
                np.tensordot(coefficients, total, (0, 0))
                for coefficients, total in zip(member_coefficients, sums, strict=True)
            ]
            weighted = np.array(
                [
                    weight_by_noise_deviation(coefficients, ((attribute_index, level),), estimates.attributes)
                    for coefficients in member_coefficients
                ]
            )
            products_of_members *= weighted @ weighted.T
        totals[members] += np.array(shares) * np.array(sums)
        covariance[np.ix_(members, members)] += products_of_members
    variances, directions = np.linalg.eigh(covariance)
    return totals, directions * np.sqrt(np.maximum(variances, 0.0))


def _share_outside(estimates: BlockEstimates, product: Factors, inside: set[int]) -> float:
    """Return the product of the means of the factors of attributes outside a block, each by the shares of its cells."""
    outside = (attribute_index for attribute_index in product if attribute_index not in inside)
    return float(
        np.prod(
            [
                float(product[attribute_index] @ estimates.attributes[attribute_index].hierarchy.shares)
                for attribute_index in outside
            ]
        )
    )
