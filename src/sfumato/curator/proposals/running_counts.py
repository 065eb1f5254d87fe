"""A proposal of running totals: the total up to each period, over a question that groups by periods.

All periods together have one price. They are measured through a factorisation of the prefix-sum matrix
(``mechanisms.factorisations``), chosen together with the strategy that limits a unit for the smallest error in the
worst period, from the policy and the price alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, price_and_accounts_phrase
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_limit, explain_source
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.additive import LEAST_STEPS, MAX_STEPS
from sfumato.mechanisms.factorisations import MAX_PERIODS, Factorisation, candidate_factorisations
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.descriptions import (
    count_with_noun,
    describe_dropped_rows,
    describe_measure,
    expression_sql,
    typed_sql,
)
from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.readings.combining import FactoredTotals
from sfumato.plan.readings.total_readings import MeasureTotals
from sfumato.plan.released_values import require_no_released_values
from sfumato.plan.values.expressions import Column, Key, Result
from sfumato.policy import Type, Value
from sfumato.privacy import Budget, codec
from sfumato.privacy.calibration import calibrate
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
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.parts.scales import KeyColumn
from sfumato.release.parts.shares import Family, NamedNoise, noise_family
from sfumato.release.prices import GAUSSIAN_NEEDS, GIVE_DELTA, Price, least_epsilon_where
from sfumato.release.pricing import NO_LATER_PURE_CHARGES
from sfumato.release.proposal import ReleaseCall, StoredProposal, is_stored, make_receipt, release_or_find
from sfumato.release.releasing import StoredResult
from sfumato.release.running_totals import NoisyRunningTotals, RunningAnswer, RunningNoise, RunningTotalsRelease
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

_MAX_MATRIX_BITS, _MIN_MATRIX_BITS, _MAX_TOTAL_BITS = 10, 6, 33
"""Bits of the matrix entries: fewer where one unit's contribution is already large, so that the noise can be drawn."""


@codec.serialisable("running-forecast")
@dataclass(frozen=True)
class RunningForecast:
    """A forecast of running totals: the half-width of each period's total, before the purchase."""

    column: str
    periods: KeyColumn
    widths: tuple[float, ...]
    """Half-widths in the order of the periods."""
    confidence: Fraction
    joint: bool
    """Whether the confidence holds for all ranges jointly, or for each by itself."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    stored: bool = False
    """Whether stored running totals are at least as accurate: they are free, whatever budget remains."""
    warnings: tuple[str, ...] = ()
    counted: str = ""
    """The limits per unit in words; empty if all rows count."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "widths", tuple(codec.parse_float(width, "widths") for width in self.widths))
        if not isinstance(self.periods, KeyColumn) or len(self.periods.values) != len(self.widths):
            raise InvalidParameter(
                "widths",
                len(self.widths),
                "a list of one half-width for each period",
                fix="give as many half-widths as there are periods",
            )

    @property
    def worst(self) -> float:
        """The half-width of the widest period."""
        return max(self.widths)

    def __getitem__(self, period: Value) -> float:
        """Return the half-width of one period."""
        if period not in self.periods.values:
            first_periods = ", ".join(map(str, self.periods.values[:_MAX_EXAMPLE_PERIODS]))
            more = ", …" if len(self.periods.values) > _MAX_EXAMPLE_PERIODS else ""
            raise InvalidParameter("period", period, f"one of {first_periods}{more}")
        return self.widths[self.periods.values.index(period)]

    def to_json(self) -> str:
        """Serialize the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> RunningForecast:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        first, last = self.periods.values[0], self.periods.values[-1]
        confidence_text = f"{format_percent(self.confidence)} confidence{', all together' if self.joint else ''}"
        end_widths = f"±{format_number(self.widths[0])} on {first}, ±{format_number(self.widths[-1])} on {last}"
        worst = (
            f"{self.column} ±{format_number(self.worst)} in the worst of {count_with_noun(len(self.widths), 'period')}"
        )
        summary = f"{worst} ({end_widths}), {confidence_text}"
        return "\n".join([summary, *(f"warning: {warning}" for warning in self.warnings)])

    __repr__ = __str__


@dataclass(frozen=True)
class RunningTotalsProposal(RehearseAlias, StoredProposal):
    """A proposal of running totals; only ``release`` spends."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    period: int
    """The index of the period key."""

    @property
    def query(self) -> Query:
        return self.question.query

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types."""
        return self.question.columns

    @cached_property
    def periods(self) -> tuple[Value, ...]:
        """The declared periods in order; rows without a period are in none."""
        values = {key[self.period] for key in self.question.groups} - {None}
        return tuple(sorted(values))  # type: ignore[arg-type]

    @cached_property
    def series(self) -> tuple[GroupValues, ...]:
        """The values of the other keys, one running total each."""
        return tuple(dict.fromkeys(self._key_without_period(key) for key in self.question.groups))

    def _key_without_period(self, key: GroupValues) -> GroupValues:
        return (*key[: self.period], *key[self.period + 1 :])

    @cached_property
    def _groups_in_series_order(self) -> tuple[GroupValues, ...]:
        return tuple(
            (*other[: self.period], period, *other[self.period :]) for other in self.series for period in self.periods
        )

    def limit(self, *, rows: int | None = None, groups: int | None = None, rows_per_group: int | None = None) -> Any:
        """Propose the same with tighter limits per unit: less noise, more bias."""
        return replace(self, question=self.question.limit(rows=rows, groups=groups, rows_per_group=rows_per_group))

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        joint: bool = False,
        mechanism: NamedNoise | None = None,
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 if none is given. This is free."""
        has_price = epsilon is not None or rho is not None
        draw = self._strategy_at(Price(epsilon if has_price else 1, delta, rho), mechanism)
        (measurement,), (scaled,) = draw.batch.measurements, draw.batch.bounded.measures
        unit_change = measurement.mechanism.norm(measurement.sensitivity) * scaled.unit_value
        unit_change /= 2**draw.noise.factorisation.bits
        widths = self._half_widths(draw, confidence, joint)
        norm_words = "in total" if draw.noise.mechanism.order == 1 else "in Euclidean norm"
        name = self.query.finish.outputs[self._total_output_index].name
        coverage = f"{format_percent(exact(confidence, 'confidence'))} confidence{', all together' if joint else ''}"
        series_text = f" for each of {len(self.series):,} series" if len(self.series) > 1 else ""
        operators = (
            *explain_source(self.query, self._context.policy),
            explain_limit(draw.batch.bounded),
            PlanStep(
                "group",
                f"{count_with_noun(len(self.periods), 'period')}{series_text}",
                "declared, so shown whatever the data hold",
            ),
            PlanStep("measure", describe_measure(scaled.measure, typed_sql), "exact, not shown"),
            PlanStep(
                "factorise",
                draw.noise.factorisation.words(),
                f"one unit changes what is measured by at most {format_number(float(unit_change), 4)} {norm_words}",
            ),
            PlanStep("noise", draw.noise.mechanism.words(scaled.unit_value / 2**draw.noise.factorisation.bits), "once"),
            PlanStep(
                "add up",
                f"{name} up to each period",
                f"±{format_number(float(widths.max()))} in the worst, ±{format_number(float(widths[0]))} "
                f"in the first, {coverage}",
            ),
            *explain_period_charges(self._context),
        )
        notes = (*self.question.warnings, *self._context.epsilon_total_warnings(draw.batch.curve))
        return Explanation(self.question.text, str(draw.price), operators, draw.reason, notes)

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        joint: bool = False,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
    ) -> RunningForecast:
        """Return the half-width of every period's running total at this price. This is free."""
        draw = self._strategy_at(Price(epsilon, delta, rho), mechanism)
        stored = not fresh and is_stored(draw, self.plan_key, self._context)
        closing_notes = () if stored else self._context.epsilon_total_warnings(draw.batch.curve)
        return RunningForecast(
            self.query.finish.outputs[self._total_output_index].name,
            KeyColumn(self.query.plan.keys[self.period].domain.type, self.periods),
            tuple(self._half_widths(draw, confidence, joint).tolist()),
            exact(confidence, "confidence"),
            joint,
            price_and_accounts_phrase(draw.price, self._context),
            all(budget.affords(draw.batch.curve) for budget in self._context.budgets),
            stored,
            (*self.question.warnings, *closing_notes),
            describe_dropped_rows([draw.batch.bounded]),
        )

    def price(
        self, within: Number, *, delta: Number = 0, confidence: Number = DEFAULT_CONFIDENCE, joint: bool = False
    ) -> float:
        """Find the least ε, at this δ, at which every period's total has at most this half-width. Free."""
        error_limit = float(exact(within, "within", POSITIVE))

        def is_within(epsilon: Fraction) -> bool:
            return (
                float(self._half_widths(self._strategy_at(Price(epsilon, delta), None), confidence, joint).max())
                <= error_limit
            )

        if error_limit <= self._rounding_error:
            rule = f"above {format_number(self._rounding_error)}, because the totals are rounded to whole numbers"
            raise InvalidParameter("within", within, rule, fix="give a larger half-width, such as within=50")
        return least_epsilon_where(is_within)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        joint: bool = False,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> RunningAnswer:
        """Charge the price, once for all periods, and draw their running totals. Stored ones that are at least as
        accurate are returned free.

        With ``joint`` the confidence holds for all ranges jointly, otherwise for each by itself.
        """
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._strategy_at(Price(epsilon, delta, rho), mechanism)
        return release_or_find(
            draw,
            draw.price,
            lambda result: self.build_answer(result, confidence, joint),
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
        confidence: Number = DEFAULT_CONFIDENCE,
        joint: bool = False,
        mechanism: NamedNoise | None = None,
    ) -> RunningAnswer:
        """Return an answer of this shape with invented numbers, from the policy alone. This is free."""
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "mechanism": mechanism}
        return preview_release(
            self, self._context, lambda proposal: proposal.release(**price, confidence=confidence, joint=joint)
        )

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured, different from that of the plain counts."""
        return self.question.plan_key.derive(lambda key: digest("running", key, self.period))

    @property
    def _total_output_index(self) -> int:
        """The index of the output with the totals."""
        return next(index for index, output in enumerate(self.query.finish.outputs) if _is_result(output.expression))

    @property
    def _is_integer(self) -> bool:
        return self.query.plan.measures[0].result.type is Type.INTEGER

    @property
    def _rounding_error(self) -> float:
        """The error by rounding to whole numbers: up to a half."""
        return 0.5 if self._is_integer else 0.0

    def _half_widths(self, draw: RunningTotalsRelease, confidence: Number, joint: bool) -> Any:
        return draw.noise.widths(confidence, len(self._groups_in_series_order) if joint else 1) + self._rounding_error

    def _strategy_at(self, price: Price, mechanism: NamedNoise | None) -> RunningTotalsRelease:
        family = noise_family(mechanism)
        if family is Gaussian and not price.allows_gaussian:
            raise InvalidParameter("mechanism", "Gaussian", GAUSSIAN_NEEDS, fix=GIVE_DELTA)
        if family is Laplace and price.rho is not None:
            raise InvalidParameter(
                "mechanism",
                "Laplace",
                "Gaussian at a price in ρ",
                fix="give epsilon (--epsilon) instead of rho (--rho)",
            )
        laplace_draws = [] if price.rho is not None or family is Gaussian else [self._best_draw(price, Laplace)]
        if not price.allows_gaussian or family is Laplace:
            return laplace_draws[0]
        return _choose_noise(laplace_draws, self._best_draw(price, Gaussian), self._context.account.budget)

    def _best_draw(self, price: Price, family: Family) -> RunningTotalsRelease:
        """Prepare the release with this noise family, with the smallest error in the worst period."""
        strategies = self._factored_strategies(family)
        best = min(strategies, key=lambda strategy: round(strategy.error_at_unit_noise, 9))
        independent_error = min(
            strategy.error_at_unit_noise for strategy in strategies if strategy.factorisation.form == "each day"
        )
        spent_price = Price(price.epsilon) if family.pure else price
        mechanism = _calibrate_noise(best.reading, spent_price, family)
        noise = RunningNoise.from_factorisation(best.factorisation, mechanism, best.reading.totals.scaled)
        reason = f"{best.factorisation.words()}, for the smallest error in the worst period"
        if best.factorisation.form != "each day":
            times = format_number(independent_error / best.error_at_unit_noise)
            reason += f": adding up noisy periods would give {times} times the error"
        types = tuple(key.domain.type for key in self.query.plan.keys)
        batch = Batch((Measurement(best.reading, mechanism),))
        return RunningTotalsRelease(
            batch, noise, self._groups_in_series_order, types, spent_price, self._context.version, reason
        )

    def _factored_strategies(self, family: Family) -> tuple[_FactoredStrategy, ...]:
        if family not in self._cached_strategies:
            options = self.question.bounding_options
            self._cached_strategies[family] = tuple(
                _FactoredStrategy.from_factorisation(option, factorisation, len(self.series), family)
                for option in options
                for factorisation in candidate_factorisations(len(self.periods), family.order, _max_matrix_bits(option))
            )
        return self._cached_strategies[family]

    @cached_property
    def _cached_strategies(self) -> dict[Family, tuple[_FactoredStrategy, ...]]:
        """The compared strategies by noise family; they are the same at every price."""
        return {}

    def build_answer(self, result: StoredResult[NoisyRunningTotals], confidence: Number, joint: bool) -> RunningAnswer:
        """Build the answer from the drawn totals."""
        measured_totals, context = result.value, self._context
        widths = measured_totals.noise.widths(confidence, len(measured_totals.totals) if joint else 1)
        totals, half_widths = np.array(measured_totals.totals), np.tile(widths, measured_totals.series_count)
        ranges = tuple(zip((totals - half_widths).tolist(), (totals + half_widths).tolist(), strict=True))
        values = measured_totals.totals
        numbers = [round(total) for total in values] if self._is_integer else list(values)
        outputs = self.query.finish.outputs
        cells = [
            self._key_values_or_numbers(output.expression, measured_totals.keys.groups, numbers) for output in outputs
        ]
        words = (measured_totals.noise.words(),)
        terms, text = measured_totals.purchase, self.question.text
        answer_receipt = make_receipt(
            result, terms, words, question=text, context=context, confidence=confidence, joint=joint
        )
        return RunningAnswer(
            tuple(output.name for output in outputs),
            tuple(output.expression.domain.type for output in outputs),
            tuple(zip(*cells, strict=True)),
            {outputs[self._total_output_index].name: ranges},
            tuple(output.name for output in outputs if not _is_result(output.expression)),
            answer_receipt,
            self.question.warnings,
            caveats=self.question.caveat_by_column(terms.strategy),
            period=next(output.name for output in outputs if _key_index_or_none(output.expression) == self.period),
        )

    def _key_values_or_numbers(self, expression: Any, groups: Sequence[GroupValues], numbers: list[Any]) -> list[Any]:
        key_index = _key_index_or_none(expression)
        if key_index is None:
            return numbers
        values = [key[key_index] for key in groups]
        return [float(value) if isinstance(value, Fraction) else value for value in values]


@dataclass(frozen=True)
class _FactoredStrategy:
    """One strategy to measure running totals, and the relative error of its worst period."""

    reading: FactoredTotals
    factorisation: Factorisation
    error_at_unit_noise: float

    @classmethod
    def from_factorisation(
        cls, bounded_plan: BoundedPlan, factorisation: Factorisation, series: int, family: Family
    ) -> _FactoredStrategy:
        reading = FactoredTotals(MeasureTotals(bounded_plan), factorisation.weights, series)
        size = float(family.norm(reading.sensitivity) * reading.totals.scaled.unit_value)
        return cls(reading, factorisation, size * float(factorisation.decoder_row_norms.max()))


def _max_matrix_bits(bounded_plan: BoundedPlan) -> int:
    total_bits = int(bounded_plan.measures[0].add_remove_sensitivity.total).bit_length()
    return max(_MIN_MATRIX_BITS, min(_MAX_MATRIX_BITS, _MAX_TOTAL_BITS - total_bits))


def _calibrate_noise(reading: FactoredTotals, price: Price, family: Family) -> Additive:
    """Return the least noise that stays within the price."""
    sensitivity = reading.sensitivity
    size = family.norm(sensitivity)
    unit_scale = family.closed_form(epsilon=price.epsilon, rho=price.rho)
    if unit_scale is not None:
        return _mechanism_of_size(family, size * unit_scale, price)
    guarantee = price.guarantee
    return calibrate(lambda scale: _mechanism_of_size(family, scale * size, price), guarantee, sensitivity)


def _mechanism_of_size(family: Family, size: Fraction, price: Price) -> Additive:
    if size > MAX_STEPS:
        rule = "higher, because at this price the noise is too large to draw exactly"
        raise InvalidParameter("price", str(price), rule, fix="pay more, or declare narrower bounds or limits")
    return family.of_size(max(size, LEAST_STEPS))


def _choose_noise(
    laplace_draws: list[RunningTotalsRelease], gaussian: RunningTotalsRelease, account: Budget
) -> RunningTotalsRelease:
    """Return the draw with less error; Gaussian noise must halve it if it would close the account's pure ε total."""
    if not laplace_draws:
        return gaussian
    (laplace,) = laplace_draws
    gain = float(laplace.noise.widths().max() / gaussian.noise.widths().max())
    if gain <= 1:
        return laplace
    pure_is_open = "pure" in account.remaining and account.affords(laplace.batch.curve)
    if not pure_is_open or (gain >= 2 and account.affords(gaussian.batch.curve)):
        return gaussian
    closing_note = f"Gaussian noise would have {1 / gain:.2g} times the error, but {NO_LATER_PURE_CHARGES}"
    return replace(laplace, reason=f"{laplace.reason}; {closing_note}")


def _is_result(expression: Any) -> bool:
    return isinstance(expression, Column) and isinstance(expression.reference, Result)


def _key_index_or_none(expression: Any) -> int | None:
    """Return the index of the key that an output shows; None for any other output."""
    if isinstance(expression, Column) and isinstance(expression.reference, Key):
        return expression.reference.index
    return None


def propose_running_totals(context: Context, question: Any) -> RunningTotalsProposal:
    """Propose running totals of a question that counts or sums by periods; refuse any other question here.

    The sensitivity was derived for the question under its own policy, so it must be a question of the same curator. The
    caller pays, or the accounts of the periods that the question reads.
    """
    if not isinstance(question, Question):
        raise _running_totals_refusal("running-listing", "running totals need a question about a private table")
    if not question.belongs_to(context):
        rule = "SQL or a question made by this curator, not by another one"
        fix = "pass the SQL text, or make the question with this curator's sql(…)"
        raise InvalidParameter("question", question.text, rule, fix=fix)
    question = replace(question, _context=context)
    _require_one_additive_measure(question.query)
    _require_running_totals_shape(question)
    proposal = RunningTotalsProposal(question._context, question, _period_key_index(question.query))  # noqa: SLF001
    if len(proposal.periods) > MAX_PERIODS:
        rule = f"running totals can have at most {MAX_PERIODS:,} periods; this question has {len(proposal.periods):,}"
        fix = "group by weeks or months, or exclude periods with WHERE, such as WHERE day >= DATE '2024-01-01'"
        raise Unsupported("too-many-periods", rule, fix=fix)
    if not proposal.periods:
        raise _running_totals_refusal(
            "no-periods", "running totals need at least one period, and no period meets the conditions"
        )
    return proposal


_MAX_EXAMPLE_PERIODS = 3
_EXAMPLE = "write, for example, SELECT day, COUNT(*) AS visits FROM visits GROUP BY day"


def _running_totals_refusal(code: str, rule: str, fix: str = _EXAMPLE) -> Unsupported:
    return Unsupported(code, rule, fix=fix)


def _require_one_additive_measure(query: Query) -> None:
    """Refuse measures that are not additive over periods: means, and distinct units, which may appear in several
    periods.
    """
    measures = query.plan.measures
    if len(measures) != 1:
        raise _running_totals_refusal(
            "running-columns",
            f"running totals can have only one column of numbers; this question has {len(measures)}",
            "ask for each number in a question of its own",
        )
    if type(measures[0]) not in (Count, Sum):
        rule = "running totals add up periods, so the question must ask for COUNT(*), COUNT(column) or SUM"
        raise _running_totals_refusal(
            "running-measure",
            rule,
            "for a mean, release SUM and COUNT separately; distinct units cannot be added up over periods",
        )


def _require_running_totals_shape(question: Question) -> None:
    """Require that every output is a key or the total itself, that every key is shown, and that nothing else is
    computed.
    """
    query, finish = question.query, question.query.finish
    require_no_released_values(query)
    is_computed = query.outer or query.combined or finish.sets or finish.windows or finish.qualify
    if is_computed or finish.having is not None or finish.limit is not None:
        rule = "running totals show every period once, without HAVING, LIMIT, ROLLUP, windows or an outer SELECT"
        raise _running_totals_refusal("running-shape", rule)
    if finish.offset or any(_key_index_or_none(term.expression) is None or term.descending for term in finish.order):
        rule = "running totals are always sorted by period"
        raise _running_totals_refusal(
            "running-shape", rule, "leave out ORDER BY and OFFSET, or sort the answer yourself"
        )
    key_indices = [
        _key_index_or_none(output.expression) for output in finish.outputs if not _is_result(output.expression)
    ]
    if None in key_indices or len(finish.outputs) != len(key_indices) + 1:
        raise _running_totals_refusal(
            "running-shape", "running totals select only the GROUP BY columns and one total, without arithmetic"
        )
    if sorted(key_index for key_index in key_indices if key_index is not None) != list(range(len(query.plan.keys))):
        raise _running_totals_refusal(
            "running-keys",
            "every column of GROUP BY must be selected exactly once",
            "write every column of GROUP BY after SELECT",
        )
    for key in (query.plan.keys[index] for index in question.discovered_keys):
        if key.domain.type is Type.TIMESTAMP:
            text = expression_sql(key)
            rule = f"running totals need periods, and {text} is a time, which differs in nearly every row"
            raise _running_totals_refusal(
                "unknown-periods", rule, f"group by the day: SELECT CAST({text} AS DATE) AS day, … GROUP BY day"
            )
    if question.discovered_keys:
        rule = "running totals need declared periods, and declared values of the other keys"
        fix = "in the policy, declare bounds for the dates and values for the other keys; or name them in WHERE"
        raise _running_totals_refusal("unknown-periods", rule, fix)


def _period_key_index(query: Query) -> int:
    """Return the index of the period key: the only date or timestamp, or else the only integer."""
    types = [key.domain.type for key in query.plan.keys]
    dates = [index for index, key_type in enumerate(types) if key_type in (Type.DATE, Type.TIMESTAMP)]
    numbers = [index for index, key_type in enumerate(types) if key_type is Type.INTEGER]
    period_keys = dates or numbers
    if not period_keys:
        rule = "running totals need a date, a timestamp or a whole number in GROUP BY"
        raise _running_totals_refusal("no-period-key", rule)
    if len(period_keys) > 1:
        rule = "running totals need exactly one date or whole number in GROUP BY; here there are several"
        raise _running_totals_refusal(
            "two-period-keys", rule, "group by one date or one whole number, or CAST the others to text"
        )
    return period_keys[0]
