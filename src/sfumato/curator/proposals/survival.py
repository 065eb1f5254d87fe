"""A proposal of survival curves, over a table with one row per unit.

What is measured is one disjoint histogram: how many units fall into each cell of group, period, and event or not. A
unit is in one cell, so adding or removing one changes the counts by 1 in all, and replacing one by 2, whatever the
number of periods. Numbers at risk, curves, bands, medians and the log-rank test are post-processing
(``inference.survival_estimates``). It is priced, charged, read, drawn and stored as the question for these counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sfumato.curator.context import Context
from sfumato.curator.previews.error_forecasts import Forecast
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.moment_proposals import max_rows_per_unit
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.sampled_questions import refuse_sample_of_release
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.survival import SurvivalCurves
from sfumato.plan.canonical import PlanKey
from sfumato.plan.descriptions import literal_sql
from sfumato.plan.quoting import quoted
from sfumato.plan.sql import building
from sfumato.plan.sql.building import RowSelection
from sfumato.policy import Domain, Type
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, POSITIVE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.formatting import key_text
from sfumato.release.measured import NoisyMeasurements
from sfumato.release.parts.scales import NoisyScale
from sfumato.release.parts.shares import NamedNoise
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, release_or_find
from sfumato.release.releasing import StoredResult
from sfumato.release.requests import PriceRequest
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

MAX_PERIODS = 400
MAX_CURVES = 40
_PERIODS_OF_REALS = 24
_COUNT = "n"


@dataclass(frozen=True)
class SurvivalColumns:
    """The columns that curves are estimated from; the fields are those of ``SurvivalSpec``."""

    time: str
    event: str
    by: str | None = None
    event_is: str | None = None
    every: Number | None = None


@dataclass(frozen=True)
class TimePeriods:
    """The declared periods of a time column: equally long, from its lower bound on."""

    low: Fraction
    high: Fraction
    every: Fraction
    is_whole_numbers: bool
    """Whether times are whole numbers."""

    @property
    def count(self) -> int:
        span = self.high - self.low + (1 if self.is_whole_numbers else 0)
        return max(1, math.ceil(span / self.every))

    @property
    def starts(self) -> tuple[float, ...]:
        return tuple(float(self.low + index * self.every) for index in range(self.count))

    @property
    def ends(self) -> tuple[float, ...]:
        """The last time of each period: at most the upper bound."""
        last = 1 if self.is_whole_numbers else 0
        return tuple(float(min(self.high, self.low + (index + 1) * self.every - last)) for index in range(self.count))

    def period_number_sql(self, column: str) -> str:
        """Return the SQL of a period's number, from 1; times at the upper bound are in the last."""
        end = self.low + self.count * self.every
        ends = f"{literal_sql(self.low, Type.REAL)}, {literal_sql(end, Type.REAL)}"
        return f"LEAST(WIDTH_BUCKET({quoted(column)}, {ends}, {self.count}), {self.count})"


@dataclass(frozen=True)
class SurvivalProposal(RehearseAlias, StoredProposal):
    """A proposal of survival curves; only ``release`` spends."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    time: str
    event: str
    by: str | None
    periods: TimePeriods

    def __repr__(self) -> str:
        return f"<{self.question.text}: .explain() .error() .price() are free, .release() spends>"

    @property
    def plan_key(self) -> PlanKey:
        """The key of the counts: who bought them as a question has the curves for free."""
        return self.question.plan_key

    @property
    def columns(self) -> Columns:
        """The released counts: of each group, period, and event or not."""
        return tuple(AnswerColumn(column.name, column.type) for column in self.question.columns)

    @property
    def groups(self) -> tuple[Any, ...]:
        """The declared groups, one curve each."""
        keys = (key[0] for key in self.question.groups if key[0] is not None)
        return tuple(dict.fromkeys(keys)) if self.by else (None,)

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 if none is given. This is free."""
        explained = self.question.explain(epsilon, delta=delta, rho=rho, confidence=confidence, mechanism=mechanism)
        curves = PlanStep(
            "survival",
            f"{len(self.groups)} curves of {self.periods.count} periods from these counts",
            "numbers at risk are sums of noisy counts; bands include the noise and the sampling error",
        )
        return replace(explained, operators=(*explained.operators, curves), advice="")

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
    ) -> Forecast:
        """Return the half-width of each number of events, and of censored units, at this price. This is free."""
        return self.question.error(
            epsilon, delta=delta, rho=rho, confidence=confidence, mechanism=mechanism, fresh=fresh
        )

    def price(self, within: Number, *, delta: Number = 0, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε at which each number of events has at most this half-width. This is free."""
        return self.question.price({_COUNT: within}, delta=delta, confidence=confidence)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        sample: Number | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> SurvivalCurves:
        """Charge the price and draw the counts of all cells; stored ones that are at least as accurate are free."""
        refuse_sample_of_release(sample, "survival curves")
        exact(confidence, "confidence", CONFIDENCE)
        request = PriceRequest(epsilon, delta, rho, confidence=confidence, mechanism=mechanism)
        prepared = self.question.price_release(request)
        return release_or_find(
            self.question.release_strategy(prepared),
            prepared.price,
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
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
    ) -> SurvivalCurves:
        """Return curves of this shape with invented numbers, from the policy alone. This is free."""
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "mechanism": mechanism}
        return preview_release(self, self._context, lambda proposal: proposal.release(**price, confidence=confidence))

    def build_answer(self, result: StoredResult[NoisyMeasurements], confidence: Number) -> SurvivalCurves:
        """Build the curves from the noisy counts."""
        measured, context = result.value, self._context
        (scale,) = measured.scales
        assert isinstance(scale, NoisyScale)
        unit = float(scale.unit_value)
        totals = [total * unit for total in measured.columns[0]]
        # a cell that the condition rules out is 0; a dry run has three totals only, of which the last fills the others
        rest = 0.0 if len(totals) == len(self.question.groups) else totals[-1]
        counts = defaultdict(lambda: rest, zip(measured.keys.groups, totals, strict=True))
        receipt = make_receipt(
            result,
            measured.purchase,
            (scale.words(),),
            question=self.question.text,
            context=context,
            confidence=confidence,
        )
        return SurvivalCurves(
            self.time,
            self.event,
            self.by or "",
            tuple(key_text(group) if self.by else "" for group in self.groups),
            self.periods.starts,
            self.periods.ends,
            self._counts_by_group_and_period(counts, happened=True),
            self._counts_by_group_and_period(counts, happened=False),
            scale,
            exact(confidence, "confidence"),
            measured.purchase.without_salt,
            receipt,
        )

    def _counts_by_group_and_period(
        self, counts: Mapping[Any, float], *, happened: bool
    ) -> tuple[tuple[float, ...], ...]:
        numbers = range(1, self.periods.count + 1)
        keys = (
            [(group, number, happened) if self.by else (number, happened) for number in numbers]
            for group in self.groups
        )
        return tuple(tuple(counts[key] for key in group_keys) for group_keys in keys)


def propose_survival(context: Context, rows: RowSelection, source: SurvivalColumns) -> SurvivalProposal:
    """Propose survival curves; names, bounds and limits are checked against the policy first."""
    if not isinstance(source.by, str | None):
        raise InvalidParameter("by", source.by, "the name of one column, such as 'arm'")
    domains = rows.columns
    time, event = (_require_column(domains, source.time, "time"), _require_column(domains, source.event, "event"))
    periods = _declared_periods(source, time)
    keys = {"period": periods.period_number_sql(source.time), "happened": _require_event_sql(source, event)}
    groups = [] if source.by is None else [_require_group_sql(source, _require_column(domains, source.by, "by"))]
    names = [source.time, source.event, *([] if source.by is None else [source.by])]
    counted = building.where(rows, " AND ".join(f"{quoted(name)} IS NOT NULL" for name in names))
    statement = building.start_question(counted, building.lower_keys(counted, groups, keys), {_COUNT: "COUNT(*)"})
    query = statement.query
    question = Question(context, statement.text, query, query.plan.limits)
    _require_one_row(rows.steps[0], question)
    proposal = SurvivalProposal(context, question, source.time, source.event, source.by, periods)
    if len(proposal.groups) > MAX_CURVES:
        rule = f"a column with at most {MAX_CURVES} values, since each value gets a curve"
        raise InvalidParameter("by", source.by, rule, fix='merge values with CASE in a SELECT, or leave out "by"')
    return proposal


def _require_group_sql(source: SurvivalColumns, by: Domain) -> str:
    if source.by in (source.time, source.event):
        raise InvalidParameter(
            "by",
            source.by,
            f"a column other than {source.time} and {source.event}",
            fix="name the column of the groups, such as by='arm'",
        )
    if by.values is None and by.type is not Type.BOOLEAN:
        rule = "a column with declared values, since each value gets a curve"
        raise InvalidParameter("by", source.by, rule, fix=f"declare the values of {source.by} in the policy")
    return quoted(source.by or "")


def _require_column(domains: Mapping[str, Domain], name: str, parameter: str) -> Domain:
    if name not in domains:
        raise InvalidParameter(parameter, name, f"one of the columns {', '.join(domains)}")
    return domains[name]


def _declared_periods(source: SurvivalColumns, time: Domain) -> TimePeriods:
    if time.type not in (Type.INTEGER, Type.REAL) or time.bounds is None:
        raise InvalidParameter(
            "time",
            source.time,
            "a column of numbers with declared bounds, because periods come from the policy, never from the rows",
            fix=f'declare {source.time} = {{ type = "integer", bounds = [0, 60] }} in the policy',
        )
    low, high = (Fraction(str(end)) if not isinstance(end, Fraction) else end for end in time.bounds)
    whole = time.type is Type.INTEGER
    every = Fraction(1) if whole else (high - low) / _PERIODS_OF_REALS or Fraction(1)
    if source.every is not None:
        every = exact(source.every, "every", POSITIVE)
    if whole and every.denominator != 1:
        raise InvalidParameter(
            "every", source.every, f"a whole number, because the values of '{source.time}' are whole numbers"
        )
    periods = TimePeriods(low, high, every, whole)
    if periods.count > MAX_PERIODS:
        least = (high - low) / MAX_PERIODS
        rule = f"large enough to make at most {MAX_PERIODS} periods, because their noise adds up"
        raise InvalidParameter("every", format_exact(every), rule, fix=f"write every={math.ceil(least) or 1}")
    return periods


def _require_event_sql(source: SurvivalColumns, event: Domain) -> str:
    if event.type is Type.BOOLEAN and source.event_is is None:
        return quoted(source.event)
    if event.values is None:
        fix = (
            f"declare {source.event} as boolean, or with values"
            if event.type is not Type.BOOLEAN
            else "leave out event_is"
        )
        raise InvalidParameter("event", source.event, "a boolean column, or one with declared values", fix=fix)
    value_by_text = {key_text(value): value for value in event.values}
    if source.event_is is None or source.event_is not in value_by_text:
        rule = f"one of {', '.join(map(repr, value_by_text))}"
        raise InvalidParameter("event_is", source.event_is, rule)
    return f"{quoted(source.event)} = {literal_sql(value_by_text[source.event_is], event.type)}"


def _require_one_row(source: str, question: Question) -> None:
    """Refuse rows of which a unit may have several; what limits them may be the policy, or GROUP BY the unit."""
    most = max_rows_per_unit(question.query.plan, question.limits)
    if most == 1:
        return
    raise Unsupported(
        "several-rows-of-a-unit",
        f"a survival curve counts each unit once, but {source} allows {most:,} rows per unit",
        fix="declare max_rows = 1 in the policy, or give a SELECT that groups by the id of the unit",
    )
