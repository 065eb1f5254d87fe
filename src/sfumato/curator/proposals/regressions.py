"""A proposal of a regression: the moments of a formula's columns, measured once, and the table computed from them.

Which estimator is used is fixed before the charge: least squares on the plain noisy moments, without a ridge, since
a ridge would bias the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import charge_operators, price_words
from sfumato.curator.previews.explaining import Explanation, Operator, limit_operator, source_operators
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter
from sfumato.inference.assumed import assumed_moments
from sfumato.inference.design import Design, largest_scale, regression_design
from sfumato.inference.formula import Formula, formula_of_columns, parse_formula
from sfumato.inference.linear import LinearFit
from sfumato.inference.moment_releases import MomentsRelease
from sfumato.inference.moments import WEIGHT, MomentEstimates, MomentTotals, NoisyMoments
from sfumato.inference.regression_answers import COLUMNS, TYPES, WEAK, RegressionAnswer, regression_answer
from sfumato.plan.bounding import for_neighbours, whole_bounding
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun, describe_dropped_rows
from sfumato.plan.sql import building
from sfumato.plan.sql.building import RowSelection
from sfumato.privacy import codec
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, format_number, format_percent
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.prices import Price, rounded_up
from sfumato.release.proposal import ReleaseCall, StoredProposal, is_stored, make_receipt, release_or_find
from sfumato.release.releasing import Progress, StoredResult
from sfumato.renamed import PreviewedByOldName

ASSUMED_ROWS = 10_000
"""The number of rows that a forecast assumes where the policy declares no size."""
_DEFAULT_DELTA = Fraction(1, 10**6)


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
        codec.check_fields(self)
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


@dataclass(frozen=True)
class RegressionProposal(PreviewedByOldName, StoredProposal):
    """A proposal of a linear regression; only ``release`` spends."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    design: Design = field(repr=False)

    def __repr__(self) -> str:
        return f"<{self.question.text}: .explain() .error() .price() are free, .release() asks>"

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types."""
        return tuple(AnswerColumn(name, kind) for name, kind in zip(COLUMNS, TYPES, strict=True))

    @property
    def plan_key(self) -> PlanKey:
        """The key of the measured moments: formulas that differ in what is computed of them share one answer."""
        return moments_key(self.question)

    @cached_property
    def moments(self) -> MomentTotals:
        return moment_totals(self._context, self.question, self.design)

    @property
    def one_row_per_unit(self) -> bool:
        """Whether rows are independent, so that sampling errors can be computed from them."""
        return self.moments.rows_per_unit == 1

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 and δ = 1e-6 if none is given. This is free."""
        draw = self._draw(_price_or_default(epsilon, delta, rho))
        forecast = self._forecast(draw, confidence)
        operators = (
            *moment_operators(self._context, self.question, self.moments, draw),
            *self._fit_operators(forecast),
        )
        notes = (*self.question.warnings, *self._context.closing_warnings(draw.batch.curve))
        reason = "one discrete Gaussian noise for each different sum; no ridge, which would bias the intervals"
        return Explanation(self.question.text, str(draw.total), operators, reason, (*notes, *forecast.warnings))

    def _fit_operators(self, forecast: RegressionForecast) -> tuple[Operator, ...]:
        errors = "noise and sampling" if self.one_row_per_unit else "noise alone: rows of one unit correlate"
        pairs = list(zip(forecast.terms, forecast.widths, strict=True))[:4]
        widths = ", ".join(f"{term} ±{format_number(width, 3)}" for term, width in pairs)
        return (
            Operator("fit", f"least squares, {count_with_noun(len(forecast.terms), 'coefficient')}", f"{errors}; free"),
            Operator("expect", widths, forecast.assumed),
            *charge_operators(self._context),
        )

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        fresh: bool = False,
    ) -> RegressionForecast:
        """Forecast the ± of every coefficient's noise at this price, for assumed data. This is free."""
        draw = self._draw(Price(epsilon, delta, rho))
        stored = not fresh and is_stored(draw, self.plan_key, self._context)
        forecast = self._forecast(draw, confidence)
        closing = () if stored else self._context.closing_warnings(draw.batch.curve)
        return replace(forecast, stored=stored, warnings=(*self.question.warnings, *closing, *forecast.warnings))

    def price(
        self,
        within: Mapping[str, Number] | Number,
        *,
        delta: Number = _DEFAULT_DELTA,
        confidence: Number = "0.95",
    ) -> float:
        """Find the least ε, at this δ, at which the forecast ± of these coefficients, or of all, is at most this."""
        terms = self._forecast(self._draw(Price(1, delta)), confidence).terms
        goals = dict(within) if isinstance(within, Mapping) else dict.fromkeys(terms, within)
        unknown = [name for name in goals if name not in terms]
        if unknown or not goals:
            raise InvalidParameter("within", unknown[:1] or within, f"half-widths of {', '.join(terms)}")
        limits = {name: float(exact(goal, name, POSITIVE)) for name, goal in goals.items()}

        def is_within(epsilon: Fraction) -> bool:
            forecast = self._forecast(self._draw(Price(epsilon, delta)), confidence)
            return all(forecast[name] <= limit for name, limit in limits.items())

        return float(rounded_up(least(is_within, "within", Fraction(1, 2**14))))

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> RegressionAnswer:
        """Charge the price, draw the moments, and return the table. Stored moments of no more noise are free."""
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._draw(Price(epsilon, delta, rho))
        return release_or_find(
            draw,
            draw.total,
            lambda result: self.build_answer(result, confidence),
            question=self.question.text,
            plan=self.plan_key,
            context=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> RegressionAnswer:
        """Return a table of this shape with invented numbers, from the policy alone. This is free."""
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
        return preview_release(self, self._context, lambda other: other.release(**price, confidence=confidence))

    def build_answer(self, result: StoredResult[NoisyMoments], confidence: Number) -> RegressionAnswer:
        """Build the table from released moments."""
        noisy = result.value
        fit = LinearFit(self.design, MomentEstimates.of(noisy, self.design), self.one_row_per_unit)
        receipt = make_receipt(
            result,
            noisy.purchase,
            (moment_noise_words(noisy, self.design),),
            question=self.question.text,
            context=self._context,
            confidence=confidence,
        )
        return regression_answer(fit, receipt, self.question.warnings)

    def _draw(self, price: Price) -> MomentsRelease:
        return MomentsRelease.of(self.moments, price, self._context.version)

    def _forecast(self, draw: MomentsRelease, confidence: Number) -> RegressionForecast:
        rows = self._context.policy.size or ASSUMED_ROWS
        values = assumed_moments(self.design, rows)
        estimates = MomentEstimates.assumed(values, draw.mechanism, self.design)
        fit = LinearFit(self.design, estimates, self.one_row_per_unit)
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        ratio, names = fit.weakest
        warning = f"{' and '.join(names)} can hardly be told apart at this price" if ratio < WEAK else ""
        return RegressionForecast(
            tuple(regressor.label for regressor in fit.regressors),
            tuple(fit.noise_half_widths(float(confidence_level)).tolist()),
            confidence_level,
            f"for {rows:,} rows of independent columns, even over their declared ranges",
            price_words(draw.total, self._context),
            all(budget.affords(draw.batch.curve) for budget in self._context.budgets),
            warnings=(warning,) if warning else (),
            counted=describe_dropped_rows([draw.batch.bounded]),
        )


def _price_or_default(epsilon: Number | None, delta: Number, rho: Number | None) -> Price:
    return Price(epsilon, delta, rho) if epsilon is not None or rho is not None else Price(1, delta or _DEFAULT_DELTA)


def moments_key(question: Question) -> PlanKey:
    """Return the key of a design's moments."""
    return question.plan_key.derive(lambda key: digest("moments", key))


def moment_totals(context: Context, question: Question, design: Design) -> MomentTotals:
    """Return the moments of a question that sums them, with the rows of a unit sampled."""
    bounded = whole_bounding(question.query.plan, question.limits, 1)
    return MomentTotals(for_neighbours(bounded, context.policy.neighbours), design)


def moment_noise_words(noisy: NoisyMoments, design: Design) -> str:
    """Describe the noise of a sum of squares, with columns scaled to [−1, 1]."""
    return f"{noisy.mechanism.words(Fraction(1, WEIGHT * design.scale**2))} on sums of squares of columns in [−1, 1]"


def moment_operators(
    context: Context, question: Question, moments: MomentTotals, draw: MomentsRelease
) -> tuple[Operator, ...]:
    """Explain where the rows come from, and how their moments are measured."""
    design, unit_value = moments.design, Fraction(1, WEIGHT * moments.design.scale**2)
    change = float(draw.mechanism.norm(moments.sensitivity) * unit_value)
    names = ", ".join(design.names)
    return (
        *source_operators(question.query, context.policy),
        limit_operator(draw.batch.bounded),
        Operator("scale", names, "to [−1, 1] by declared bounds; a row with a missing value counts in no sum"),
        Operator(
            "measure",
            f"{count_with_noun(len(design.entries), 'sum')} of products",
            f"one unit changes their matrix by at most {format_number(change, 4)} in Frobenius norm",
        ),
        Operator("noise", draw.mechanism.words(unit_value), "on a sum of squares; half its variance on a product"),
    )


def propose_regression(
    context: Context,
    rows: RowSelection,
    formula: str | None,
    *,
    target: str | None = None,
    on: Sequence[str] | None = None,
    row_limit: int | None = None,
) -> RegressionProposal:
    """Propose to regress a column of these rows on others; names and bounds are checked against the policy first."""
    parsed = _formula(formula, target, on)
    domains = rows.columns

    def design_with(scale: int) -> Design:
        return regression_design(parsed, domains, scale)

    question, design = moment_question(context, rows, design_with, f"REGRESS {parsed.text}", row_limit)
    return RegressionProposal(context, question, design)


def _formula(formula: str | None, target: str | None, on: Sequence[str] | None) -> Formula:
    if formula is not None:
        if target is not None or on is not None:
            raise InvalidParameter("target", target, "left out where a formula is given")
        return parse_formula(formula)
    if target is None or not on or isinstance(on, str):
        fix = 'write regress("hours ~ age + sex", "people"), or target="hours", on=["age", "sex"]'
        raise InvalidParameter("formula", formula, "a formula, or a target and a list of columns in on", fix=fix)
    return formula_of_columns(target, on)


def select_rows(catalog: Catalog, table: str, where: str | None) -> RowSelection:
    """Select the rows of a private table that meet a condition."""
    rows = building.selection(catalog, table)
    return rows if where is None else building.where(rows, where)


def moment_question(
    context: Context, rows: RowSelection, design_with: Callable[[int], Design], label: str, row_limit: int | None
) -> tuple[Question, Design]:
    """Return the question that sums all moments of a design, scaled for as many rows as a unit may have."""
    text = f"{label} FROM {', '.join(rows.steps)}"

    def ask(selection: RowSelection, sums: Mapping[str, str]) -> Question:
        query = building.statement(selection, (), sums).query
        question = Question(context, text, query, query.plan.limits)
        return question if row_limit is None else question.limit(rows=row_limit)

    blocks = len(design_with(1 << 12).blocks)
    counted = ask(rows, {"n": "COUNT(*)"})
    bounded = whole_bounding(counted.query.plan, counted.limits, 1)
    design = design_with(largest_scale(int(bounded.measures[0].add_remove_sensitivity.total), blocks))
    sums = {f"m{index}": design.moment_sql(moment) for index, moment in enumerate(design.entries)}
    return ask(building.where(rows, design.row_condition), sums), design
