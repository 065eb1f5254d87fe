"""Running totals say for every day how much there was up to that day: a proposal over a question that groups by days.

All days together have one price. They are measured through a factorisation of the matrix of all sums
(``mechanisms.factorisations``), chosen with the strategy that limits a unit for the least error on the worst day, from
the policy and the price alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import charged, priced
from sfumato.curator.previews.explaining import Explanation, Operator, limited, sources
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.additive import LEAST_STEPS, MOST_STEPS
from sfumato.mechanisms.factorisations import MOST_PERIODS, Factorisation, candidates
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.canonical import digest
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.readings.combining import FactoredTotals
from sfumato.plan.readings.total_readings import Totals
from sfumato.plan.values.expressions import Column, Key, Result
from sfumato.plan.words import cutting, many, measured
from sfumato.policy import Type, Value
from sfumato.privacy import Budget, Guarantee, codec
from sfumato.privacy.budget_words import ENDS
from sfumato.privacy.calibration import calibrate, least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, percent, shown
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.parts.question_parts import Family, NamedNoise, noise_family
from sfumato.release.parts.scales import KeyColumn
from sfumato.release.prices import Price, rounded_up
from sfumato.release.proposal import ReleaseCall, is_stored, receipt, released
from sfumato.release.releasing import Progress, StoredResult
from sfumato.release.running_totals import RunningAnswer, RunningDraw, RunningMeasured, RunningNoise

_FINEST, _COARSEST, _MOST_BITS = 10, 6, 33
"""Bits of the matrix: fewer where one unit's contribution is many steps already, so that the noise can be drawn."""


@codec.value("running-forecast")
@dataclass(frozen=True)
class RunningForecast:
    """A forecast of running totals gives the half-width of each period's total, before it is bought."""

    column: str
    periods: KeyColumn
    widths: tuple[float, ...]
    """In the order of the periods."""
    confidence: Fraction
    joint: bool
    """Whether all ranges hold together with this confidence, or each by itself."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    stored: bool = False
    """Whether running totals that are as good were bought before: they are free, whatever is left."""
    warnings: tuple[str, ...] = ()
    counted: str = ""
    """What of one unit counts, where the rest is left out; empty where all rows count."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "widths", tuple(codec.real(width, "widths") for width in self.widths))
        if not isinstance(self.periods, KeyColumn) or len(self.periods.values) != len(self.widths):
            raise InvalidParameter("widths", len(self.widths), "one for each period")

    @property
    def worst(self) -> float:
        """Return the half-width of the widest period."""
        return max(self.widths)

    def __getitem__(self, period: Value) -> float:
        """Return the half-width of one period."""
        if period not in self.periods.values:
            raise InvalidParameter("period", period, "one of the periods of the question")
        return self.widths[self.periods.values.index(period)]

    def to_json(self) -> str:
        """Write the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> RunningForecast:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        first, last = self.periods.values[0], self.periods.values[-1]
        sure = f"{percent(self.confidence)} confidence{', all together' if self.joint else ''}"
        ends = f"±{shown(self.widths[0])} on {first}, ±{shown(self.widths[-1])} on {last}"
        line = f"{self.column} ±{shown(self.worst)} in the worst of {many(len(self.widths), 'period')} ({ends}), {sure}"
        return "\n".join([line, *(f"warning: {warning}" for warning in self.warnings)])

    __repr__ = __str__


@dataclass(frozen=True)
class RunningTotals:
    """A proposal: only ``release`` spends."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    period: int
    """The place of the key of the periods."""

    @property
    def query(self) -> Query:
        return self.question.query

    @property
    def columns(self) -> Columns:
        """List the columns of the answer, with their types."""
        return self.question.columns

    @cached_property
    def periods(self) -> tuple[Value, ...]:
        """List the declared periods in their order; rows without a period are in none."""
        found = {key[self.period] for key in self.question.groups} - {None}
        return tuple(sorted(found))  # type: ignore[arg-type]

    @cached_property
    def series(self) -> tuple[GroupKey, ...]:
        """List the values of the other keys, one running total each."""
        return tuple(dict.fromkeys(self._others(key) for key in self.question.groups))

    def _others(self, key: GroupKey) -> GroupKey:
        return (*key[: self.period], *key[self.period + 1 :])

    @cached_property
    def _groups(self) -> tuple[GroupKey, ...]:
        return tuple(
            (*other[: self.period], period, *other[self.period :]) for other in self.series for period in self.periods
        )

    def limit(self, *, rows: int | None = None, groups: int | None = None, rows_per_group: int | None = None) -> Any:
        """Propose the same with tighter limits for one unit: less noise, more bias."""
        return replace(self, question=self.question.limit(rows=rows, groups=groups, rows_per_group=rows_per_group))

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        joint: bool = False,
        mechanism: NamedNoise | None = None,
    ) -> Explanation:
        """Describe what is done at this price, step by step; at ε = 1 when none is named. This is free."""
        named = epsilon is not None or rho is not None
        draw = self._draw(Price(epsilon if named else 1, delta, rho), mechanism)
        (measurement,), (scaled,) = draw.batch.measurements, draw.batch.bounded.measures
        moved = measurement.mechanism.norm(measurement.sensitivity) * scaled.unit_value
        moved /= 2**draw.noise.factorisation.bits
        widths, length = self._widths(draw, confidence, joint), "in all" if draw.noise.mechanism.order == 1 else "long"
        name = self.query.finish.outputs[self._place].name
        sure = f"{percent(exact(confidence, 'confidence'))} confidence{', all together' if joint else ''}"
        lines = f" for each of {len(self.series):,} series" if len(self.series) > 1 else ""
        operators = (
            *sources(self.query, self._context.policy),
            limited(draw.batch.bounded),
            Operator("group", f"{many(len(self.periods), 'period')}{lines}", "declared: shown whatever the data hold"),
            Operator("measure", measured(scaled.measure), "exact, not shown"),
            Operator(
                "factorise",
                draw.noise.factorisation.words(),
                f"one unit moves what is measured by a vector at most {shown(float(moved), 4)} {length}",
            ),
            Operator("noise", draw.noise.mechanism.words(scaled.unit_value / 2**draw.noise.factorisation.bits), "once"),
            Operator(
                "add up",
                f"{name} up to each period",
                f"±{shown(float(widths.max()))} in the worst, ±{shown(float(widths[0]))} in the first, {sure}",
            ),
            *charged(self._context),
        )
        said = (*self.question.warnings, *self._context.closing(draw.batch.curve))
        return Explanation(self.question.text, str(draw.total), operators, draw.reason, said)

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        joint: bool = False,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
    ) -> RunningForecast:
        """Return the half-width of every period's running total at this price. This is free."""
        draw = self._draw(Price(epsilon, delta, rho), mechanism)
        stored = not fresh and is_stored(draw, self.identity, self._context)
        ends = () if stored else self._context.closing(draw.batch.curve)
        return RunningForecast(
            self.query.finish.outputs[self._place].name,
            KeyColumn(self.query.plan.keys[self.period].domain.type, self.periods),
            tuple(self._widths(draw, confidence, joint).tolist()),
            exact(confidence, "confidence"),
            joint,
            priced(draw.total, self._context),
            all(budget.affords(draw.batch.curve) for budget in self._context.budgets),
            stored,
            (*self.question.warnings, *ends),
            cutting([draw.batch.bounded]),
        )

    def price(self, within: Number, *, delta: Number = 0, confidence: Number = "0.95", joint: bool = False) -> float:
        """Find the least ε, beside this δ, at which every period's total is within this of the exact one. Free."""
        wanted = float(exact(within, "within", POSITIVE))

        def enough(epsilon: Fraction) -> bool:
            return float(self._widths(self._draw(Price(epsilon, delta), None), confidence, joint).max()) <= wanted

        if wanted <= self._rounding:
            rule = f"above {shown(self._rounding)}: the numbers are shown as whole ones"
            raise InvalidParameter("within", within, rule)
        return float(rounded_up(least(enough, "within", Fraction(1, 2**14))))

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        joint: bool = False,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> RunningAnswer:
        """Charge the price, once for all periods, and draw their running totals; the same ones, at least as accurate,
        are found again and free.

        With ``joint`` all ranges hold together with this confidence; else each does by itself.
        """
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._draw(Price(epsilon, delta, rho), mechanism)
        return released(
            draw,
            draw.total,
            lambda found: self.answered(found, confidence, joint),
            question=self.question.text,
            plan=self.identity,
            here=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def rehearse(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        joint: bool = False,
        mechanism: NamedNoise | None = None,
    ) -> RunningAnswer:
        """Return an answer of this shape with invented numbers, from the policy alone. This is free."""
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "mechanism": mechanism}
        return rehearsed(self, self._context, lambda there: there.release(**price, confidence=confidence, joint=joint))

    @property
    def identity(self) -> str:
        """Return the hash of what is measured: no count of single days is mistaken for it."""
        return digest("running", self.question.identity, self.period)

    @property
    def _place(self) -> int:
        """Return the place of the column of numbers."""
        return next(index for index, each in enumerate(self.query.finish.outputs) if _is_result(each.expression))

    @property
    def _whole(self) -> bool:
        return self.query.plan.measures[0].result.type is Type.INTEGER

    @property
    def _rounding(self) -> float:
        """Whole numbers are shown rounded, which moves each by up to a half."""
        return 0.5 if self._whole else 0.0

    def _widths(self, draw: RunningDraw, confidence: Number, joint: bool) -> Any:
        return draw.noise.widths(confidence, len(self._groups) if joint else 1) + self._rounding

    def _draw(self, price: Price, named: NamedNoise | None) -> RunningDraw:
        family = noise_family(named)
        if family is Gaussian and not price.allows_gaussian:
            raise InvalidParameter("mechanism", "Gaussian", "Laplace for a pure price", fix="give a delta, or a rho")
        if family is Laplace and price.rho is not None:
            raise InvalidParameter("mechanism", "Laplace", "Gaussian for a price in ρ", fix="give an epsilon")
        pure = [] if price.rho is not None or family is Gaussian else [self._at(price, Laplace)]
        if not price.allows_gaussian or family is Laplace:
            return pure[0]
        return _better(pure, self._at(price, Gaussian), self._context.account.budget)

    def _at(self, price: Price, family: Family) -> RunningDraw:
        """Prepare the release with this noise, through what errs least on the worst period."""
        ways = self._ways(family)
        chosen = min(ways, key=lambda way: round(way.error, 9))
        alone = min(way.error for way in ways if way.factorisation.form == "each day")
        paid = Price(price.epsilon) if family.pure else price
        mechanism = _calibrated(chosen.reading, paid, family)
        noise = RunningNoise.of(chosen.factorisation, mechanism, chosen.reading.totals.scaled)
        reason = f"{chosen.factorisation.words()}, for the least error in the worst period"
        if chosen.factorisation.form != "each day":
            reason += f": the noise of single periods would add up to {shown(alone / chosen.error)} times as much"
        types = tuple(key.domain.type for key in self.query.plan.keys)
        batch = Batch((Measurement(chosen.reading, mechanism),))
        return RunningDraw(batch, noise, self._groups, types, paid, self._context.version, reason)

    def _ways(self, family: Family) -> tuple[_Way, ...]:
        if family not in self._known:
            options = self.question.options
            self._known[family] = tuple(
                _Way.of(option, factorisation, len(self.series), family)
                for option in options
                for factorisation in candidates(len(self.periods), family.order, _bits(option))
            )
        return self._known[family]

    @cached_property
    def _known(self) -> dict[Family, tuple[_Way, ...]]:
        """Keep what was compared: it is the same at every price."""
        return {}

    def answered(self, found: StoredResult[RunningMeasured], confidence: Number, joint: bool) -> RunningAnswer:
        """Show what was drawn for it."""
        known, here = found.value, self._context
        widths = known.noise.widths(confidence, len(known.totals) if joint else 1)
        totals, reach = np.array(known.totals), np.tile(widths, known.series)
        ranges = tuple(zip((totals - reach).tolist(), (totals + reach).tolist(), strict=True))
        numbers = [round(total) for total in known.totals] if self._whole else list(known.totals)
        outputs = self.query.finish.outputs
        cells = [self._column(output.expression, known.keys.groups, numbers) for output in outputs]
        words = (known.noise.words(),)
        told = receipt(found, known.purchase, words, question=self.question.text, here=here, confidence=confidence)
        return RunningAnswer(
            tuple(output.name for output in outputs),
            tuple(output.expression.domain.type for output in outputs),
            tuple(zip(*cells, strict=True)),
            {outputs[self._place].name: ranges},
            tuple(output.name for output in outputs if not _is_result(output.expression)),
            replace(told, joint=joint),
            self.question.warnings,
            period=next(output.name for output in outputs if _key(output.expression) == self.period),
        )

    def _column(self, expression: Any, groups: Sequence[GroupKey], numbers: list[Any]) -> list[Any]:
        place = _key(expression)
        if place is None:
            return numbers
        values = [key[place] for key in groups]
        return [float(value) if isinstance(value, Fraction) else value for value in values]


@dataclass(frozen=True)
class _Way:
    """One way to measure running totals, and how wrong its worst period is, relative to other ways."""

    reading: FactoredTotals
    factorisation: Factorisation
    error: float

    @classmethod
    def of(cls, bounded: BoundedPlan, factorisation: Factorisation, series: int, family: Family) -> _Way:
        reading = FactoredTotals(Totals(bounded), factorisation.weights, series)
        size = float(family.norm(reading.sensitivity) * reading.totals.scaled.unit_value)
        return cls(reading, factorisation, size * float(factorisation.lengths.max()))


def _bits(bounded: BoundedPlan) -> int:
    most = int(bounded.measures[0].added.total).bit_length()
    return max(_COARSEST, min(_FINEST, _MOST_BITS - most))


def _calibrated(reading: FactoredTotals, price: Price, family: Family) -> Additive:
    """Find the least noise that keeps the price."""
    change = reading.sensitivity
    size = family.norm(change)
    unit = family.closed_form(epsilon=price.epsilon, rho=price.rho)
    if unit is not None:
        return _made(family, size * unit, price)
    promise = Guarantee(price.epsilon or 0, price.delta)
    return calibrate(lambda scale: _made(family, scale * size, price), promise, change)


def _made(family: Family, size: Fraction, price: Price) -> Additive:
    if size > MOST_STEPS:
        rule = "one whose noise can be drawn exactly: this asks for too much of it"
        raise InvalidParameter("price", str(price), rule, fix="give more, or declare narrower bounds or limits")
    return family.of_size(max(size, LEAST_STEPS))


def _better(pure: list[RunningDraw], gaussian: RunningDraw, account: Budget) -> RunningDraw:
    """Choose the noise that errs less; Gaussian noise must halve the error where it would close the account's pure
    currency.
    """
    if not pure:
        return gaussian
    (laplace,) = pure
    gain = float(laplace.noise.widths().max() / gaussian.noise.widths().max())
    if gain <= 1:
        return laplace
    keeps = "pure" in account.remaining and account.affords(laplace.batch.curve)
    if not keeps or (gain >= 2 and account.affords(gaussian.batch.curve)):
        return gaussian
    why = f"Gaussian noise would have {1 / gain:.2g} times the error but end {ENDS}"
    return replace(laplace, reason=f"{laplace.reason}; {why}")


def _is_result(expression: Any) -> bool:
    return isinstance(expression, Column) and isinstance(expression.reference, Result)


def _key(expression: Any) -> int | None:
    """Return the place of the key that an output shows; None where it shows no key."""
    if isinstance(expression, Column) and isinstance(expression.reference, Key):
        return expression.reference.index
    return None


def running_totals(context: Context, asked: Any) -> RunningTotals:
    """Make the proposal of a question that counts or adds up by periods; what it cannot be made of is refused here.

    What one unit changes was proven of the question under its own policy, so it is asked of the same curator. Who asks
    now pays, and where every period has an account of its own, those that the question reads do.
    """
    if not isinstance(asked, Question):
        raise _refused("running-listing", "running totals are made of a question about a private table")
    if not asked.is_of(context):
        raise InvalidParameter("question", asked.text, "SQL text, or a question of the same curator")
    asked = replace(asked, _context=context)
    _check_measure(asked.query)
    _check_shape(asked)
    found = RunningTotals(asked._context, asked, _period(asked.query))  # noqa: SLF001
    if len(found.periods) > MOST_PERIODS:
        rule = f"running totals have at most {MOST_PERIODS:,} periods; here they have {len(found.periods):,}"
        fix = "group by weeks or months, or leave out periods with WHERE, such as WHERE day >= DATE '2024-01-01'"
        raise Unsupported("too-many-periods", rule, fix=fix)
    if not found.periods:
        raise _refused("no-periods", "the conditions leave no period: no row can meet them")
    return found


_EXAMPLE = "ask such as SELECT day, COUNT(*) AS visits FROM visits GROUP BY day"


def _refused(code: str, rule: str, fix: str = _EXAMPLE) -> Unsupported:
    return Unsupported(code, rule, fix=fix)


def _check_measure(query: Query) -> None:
    """Refuse what does not add up over periods: means, and units, since one that counts once a day counts more than
    once.
    """
    measures = query.plan.measures
    if len(measures) != 1:
        raise _refused("running-columns", "running totals have one column of numbers", "ask for each number by itself")
    if type(measures[0]) not in (Count, Sum):
        rule = "running totals add up what each period has, so they are of COUNT(*), COUNT(column) or SUM"
        raise _refused("running-measure", rule, "for a mean ask for SUM and COUNT; units are counted once per question")


def _check_shape(asked: Question) -> None:
    """Every output is a key or the number itself, every key is shown, and nothing is picked or put together."""
    query, finish = asked.query, asked.query.finish
    if query.outer or finish.sets or finish.windows or finish.having is not None or finish.limit is not None:
        rule = "running totals show every period once: HAVING, LIMIT, ROLLUP, windows and an outer SELECT are left out"
        raise _refused("running-shape", rule)
    if finish.offset or any(_key(each.expression) is None or each.descending for each in finish.order):
        rule = "running totals are shown in the order of the periods"
        raise _refused("running-shape", rule, "leave out ORDER BY and OFFSET, or sort the answer yourself")
    shown_keys = [_key(output.expression) for output in finish.outputs if not _is_result(output.expression)]
    if None in shown_keys or len(finish.outputs) != len(shown_keys) + 1:
        raise _refused("running-shape", "running totals show the keys and one number as they are, without arithmetic")
    if sorted(shown_key for shown_key in shown_keys if shown_key is not None) != list(range(len(query.plan.keys))):
        raise _refused("running-keys", "running totals show each key of GROUP BY once", "name every key after SELECT")
    if asked.found:
        rule = "running totals count every declared period and every declared value of the other keys"
        fix = "declare bounds of the dates and values of the other keys in the policy, or name them in WHERE"
        raise _refused("unknown-periods", rule, fix)


def _period(query: Query) -> int:
    """Find the key of the periods: the one date or timestamp, or else the one whole number."""
    types = [key.domain.type for key in query.plan.keys]
    dates = [index for index, kind in enumerate(types) if kind in (Type.DATE, Type.TIMESTAMP)]
    numbers = [index for index, kind in enumerate(types) if kind is Type.INTEGER]
    meant = dates or numbers
    if not meant:
        rule = "running totals are over one key of GROUP BY that is a date, a timestamp or a whole number"
        raise _refused("no-period-key", rule)
    if len(meant) > 1:
        rule = "running totals are over one key of GROUP BY; here several of them are ordered"
        raise _refused("two-period-keys", rule, "group by one date or one whole number, or CAST the others to text")
    return meant[0]
