"""A proposal of a regression: the moments of a formula's columns, measured once, and the table computed from them.

Which estimator is used is fixed before the charge: least squares on the plain noisy moments, without a ridge, since
a ridge would bias the intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.array_types import Floats
from sfumato.curator.policy_account import explain_period_charges, price_and_accounts_phrase
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.moment_proposals import (
    DEFAULT_DELTA,
    AssumedPrice,
    MomentsProposal,
)
from sfumato.errors import InvalidParameter
from sfumato.inference.assumed import assumed_moments
from sfumato.inference.formula import Formula, formula_of_columns, parse_formula
from sfumato.inference.linear import LinearFit
from sfumato.inference.moment_releases import MomentsRelease
from sfumato.inference.moments import MomentEstimates, NoisyMoments
from sfumato.inference.regression_answers import COLUMNS, TYPES, WEAK, RegressionAnswer, regression_answer
from sfumato.plan.descriptions import count_with_noun, describe_dropped_rows
from sfumato.privacy import Curve, codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    format_number,
    format_percent,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.prices import Price
from sfumato.release.proposal import is_stored
from sfumato.release.releasing import StoredResult


@codec.serialisable("regression-forecast")
@dataclass(frozen=True)
class RegressionForecast:
    """The ± of every coefficient's noise before the purchase, for assumed data."""

    terms: tuple[str, ...]
    widths: tuple[float, ...]
    confidence: Fraction
    assumed: str
    """What the forecast assumes of the data."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    stored: bool = False
    """Whether stored moments are at least as accurate: the release is then free."""
    warnings: tuple[str, ...] = ()
    counted: str = ""
    """The limits per unit in words; empty if all rows count."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "widths", tuple(codec.parse_float(width, "widths") for width in self.widths))
        if len(self.terms) != len(self.widths):
            raise InvalidParameter("widths", len(self.widths), "a list with one half-width for each term")

    def __getitem__(self, term: str) -> float:
        """Return the half-width of one coefficient."""
        if term not in self.terms:
            raise InvalidParameter("term", term, f"one of {', '.join(self.terms)}")
        return self.widths[self.terms.index(term)]

    def to_json(self) -> str:
        """Serialize the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> RegressionForecast:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        pairs = zip(self.terms, self.widths, strict=True)
        widths = ", ".join(f"{term} ±{format_number(width, 3)}" for term, width in pairs)
        lines = [f"{widths}; {format_percent(self.confidence)} confidence, {self.assumed}"]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class ForecastBasis:
    """The moments that a forecast is for, and where they are from."""

    moments: Floats
    words: str


@dataclass(frozen=True, repr=False)
class RegressionProposal(MomentsProposal[RegressionAnswer]):
    """A proposal of a linear regression; only ``release`` spends."""

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types."""
        return tuple(AnswerColumn(name, kind) for name, kind in zip(COLUMNS, TYPES, strict=True))

    @property
    def one_row_per_unit(self) -> bool:
        """Whether rows are independent, so that sampling errors can be computed from them."""
        return self.moments.rows_per_unit == 1

    @property
    def shows_sampling_errors(self) -> bool:
        """Whether the table has sampling errors, z and p."""
        return self.one_row_per_unit

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 and δ = 1e-6 if none is given. This is free."""
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        draw = self._strategy_at(assumed.price)
        forecast = self._forecast(draw, confidence)
        operators = (
            *self._explain_moments(draw),
            *self._explain_fit(forecast),
        )
        notes = (
            *assumed.notes,
            *self.question.warnings,
            *self._context.epsilon_total_warnings(self._charged_curve(draw)),
        )
        reason = "one discrete Gaussian noise for each different sum; no ridge, which would bias the intervals"
        return Explanation(self.question.text, str(draw.total), operators, reason, (*notes, *forecast.warnings))

    def _charged_curve(self, draw: MomentsRelease) -> Curve:
        """Return the privacy curve of all that is bought."""
        return draw.batch.curve

    def _explain_fit(self, forecast: RegressionForecast) -> tuple[PlanStep, ...]:
        errors = "noise and sampling" if self.shows_sampling_errors else "noise alone: rows of one unit correlate"
        pairs = list(zip(forecast.terms, forecast.widths, strict=True))[:4]
        widths = ", ".join(f"{term} ±{format_number(width, 3)}" for term, width in pairs)
        return (
            PlanStep("fit", f"least squares, {count_with_noun(len(forecast.terms), 'coefficient')}", f"{errors}; free"),
            PlanStep("expect", widths, forecast.assumed),
            *explain_period_charges(self._context),
        )

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        fresh: bool = False,
    ) -> RegressionForecast:
        """Forecast the ± of every coefficient's noise at this price, for moments that were released before, or else for
        assumed data. This is free.
        """
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        draw = self._strategy_at(assumed.price)
        stored = not fresh and is_stored(draw, self.plan_key, self._context)
        forecast = self._forecast(draw, confidence)
        closing = () if stored else self._context.epsilon_total_warnings(self._charged_curve(draw))
        return replace(
            forecast, stored=stored, warnings=(*assumed.notes, *self.question.warnings, *closing, *forecast.warnings)
        )

    def price(
        self,
        within: Mapping[str, Number] | Number,
        *,
        delta: Number = DEFAULT_DELTA,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Find the least ε, at this δ, at which the forecast ± of these coefficients, or of all, is at most this."""
        basis = self._forecast_basis()
        terms = self._forecast(self._strategy_at(Price(1, delta)), confidence, basis).terms
        goals = dict(within) if isinstance(within, Mapping) else dict.fromkeys(terms, within)
        unknown = [name for name in goals if name not in terms]
        if unknown or not goals:
            raise InvalidParameter(
                "within", unknown[:1] or within, f"a mapping from terms ({', '.join(terms)}) to half-widths"
            )
        limits = {name: float(exact(goal, name, POSITIVE)) for name, goal in goals.items()}

        def is_within(draw: MomentsRelease) -> bool:
            forecast = self._forecast(draw, confidence, basis)
            return all(forecast[name] <= limit for name, limit in limits.items())

        return self._least_epsilon(delta, is_within)

    def build_answer(self, result: StoredResult[NoisyMoments], confidence: Number) -> RegressionAnswer:
        """Build the table from released moments."""
        noisy = result.value
        fit = LinearFit(self.design, MomentEstimates.from_noisy_moments(noisy, self.design), self.one_row_per_unit)
        return regression_answer(fit, self.receipt(result, confidence), self.question.warnings)

    def _forecast(
        self, draw: MomentsRelease, confidence: Number, basis: ForecastBasis | None = None
    ) -> RegressionForecast:
        basis = basis or self._forecast_basis()
        estimates = MomentEstimates.assumed(basis.moments, draw.mechanism, self.design)
        fit = LinearFit(self.design, estimates, self.one_row_per_unit)
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        ratio, names = fit.weakest_direction_and_terms
        warning = f"{' and '.join(names)} can hardly be distinguished at this price" if ratio < WEAK else ""
        return RegressionForecast(
            tuple(regressor.label for regressor in fit.regressors),
            tuple(fit.noise_half_widths(float(confidence_level)).tolist()),
            confidence_level,
            basis.words,
            price_and_accounts_phrase(draw.total, self._context),
            all(budget.affords(self._charged_curve(draw)) for budget in self._context.budgets),
            warnings=(warning,) if warning else (),
            counted=describe_dropped_rows([draw.batch.bounded]),
        )

    def _forecast_basis(self) -> ForecastBasis:
        """Return the moments of an earlier release, where its noise does not hide the weakest direction of the columns;
        assumed ones otherwise: widths forecast from noise would be those of noise.
        """
        noisy, rows = self.newest_moments(), self.assumed_rows
        if noisy is not None:
            estimates = MomentEstimates.from_noisy_moments(noisy, self.design)
            if LinearFit(self.design, estimates, self.one_row_per_unit).weakest_direction_and_terms[0] >= WEAK:
                return ForecastBasis(estimates.values, "for the moments that were released before")
        words = f"for {rows:,} rows of independent columns, spread evenly over their declared ranges"
        return ForecastBasis(assumed_moments(self.design, rows), words)


def parse_formula_or_columns(
    formula: str | None, target: str | None, on: Sequence[str] | None, method: str = "regress"
) -> Formula:
    """Parse a formula, or a target and the columns that explain it."""
    if formula is not None:
        if target is not None or on:
            raise InvalidParameter("target", target, "left out if formula is given")
        return parse_formula(formula)
    if target is None or not on or isinstance(on, str):
        fix = f'write {method}("hours ~ age + sex", "people"), or target="hours", on=["age", "sex"]'
        raise InvalidParameter("formula", formula, "given, unless target and on are given instead", fix=fix)
    return formula_of_columns(target, on)
