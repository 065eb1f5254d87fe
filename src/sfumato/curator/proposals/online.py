"""An online session is bought once and then queried for free: from its synopsis where that measured the columns, and
otherwise from a hypothesis that a gate compares with the exact counts.

The proposal is free to explain. ``release`` charges everything at once: the synopsis, and every gate and every answer
that may be bought (``publish.online``, theorem). The counts of all cells are read once, when the session opens, and
stay in the memory of its process: all questions see the same rows, and no row is read again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from fractions import Fraction

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_source
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.marginals import MarginalsProposal, price_in_rho, propose_marginals
from sfumato.errors import InvalidParameter, SessionInterrupted, Unsupported
from sfumato.mechanisms import Gaussian
from sfumato.mechanisms.sparse import SecretSession
from sfumato.plan.canonical import PlanKey
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.quoting import quoted
from sfumato.plan.readings.dense_readings import MAX_CELLS, Marginal
from sfumato.plan.sql.parameters import Parameters
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    Number,
    exact,
    exact_integer,
    format_number,
    format_percent,
)
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import GroupedTotals, ResolvedTotals
from sfumato.publish.marginals.measuring import PublishedMarginals, measurement_batch
from sfumato.publish.marginals.planning import MarginalWorkload
from sfumato.publish.online import (
    GatedCounts,
    Hypothesis,
    IntegerWeightedMeasure,
    SessionBatch,
    SynopsisReleaseKeepingCounts,
    build_gate,
    close_score_bound,
    first_hypothesis,
    round_to_steps,
    with_integer_weights,
)
from sfumato.publish.synopsis import Synopsis
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import BOUGHT, HYPOTHESIS, UNVERIFIED, Answer
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import ReleaseCall, make_receipt, release_or_find
from sfumato.release.releasing import StoredResult
from sfumato.release.requests import second_session_refusal
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

_SHARES = Fraction(1, 2), Fraction(2, 5), Fraction(1, 10)
"""The shares of ρ for the synopsis, for all gates and for all answers that may be bought."""
_TEXTBOOK_SHARES = Fraction(1, 50), Fraction(39, 50), Fraction(1, 5)
"""The same where the synopsis is the number of rows only."""
_SPENT_SHARES = tuple(Fraction(percentage, 100) for percentage in (100, 99, 97, 94, 90, 85, 80, 70, 60, 50))
"""The shares of ρ to spend, tried in turn: gates leak a little more than Gaussian noise of the same ρ."""


@dataclass(frozen=True)
class OnlineProposal(RehearseAlias):
    """A proposal of an online session; only ``release`` spends."""

    _context: Context = field(repr=False)
    _marginals: MarginalsProposal = field(repr=False)
    rounds: int
    textbook: bool = False

    @property
    def description(self) -> str:
        """The proposal in words, as stored in the ledger."""
        kind = "a textbook session" if self.textbook else "an online session"
        return f"{kind} of {count_with_noun(self.rounds, 'round')} over {self._marginals.question}"

    @property
    def columns(self) -> Columns:
        """The columns that may be queried, with their types, and the count."""
        return self._marginals.columns

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain a session at this price, step by step. This is free."""
        price = Price(epsilon, delta, rho)
        draw = self._strategy_at(price)
        batch, step = draw.batch, draw.rows_per_noise_step
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        close_text = format_number(
            (close_score_bound(batch.gate, self.rounds, 1 - float(confidence_level)) + 1) * step, 4
        )
        bought_text = format_number(float(batch.noise.error(confidence_level)) * step, 4)
        operators = (
            *explain_source(self._marginals.query, self._context.policy),
            PlanStep("synopsis", self._marginals.question, f"{len(batch.measurements)} noisy blocks"),
            PlanStep(
                "gate",
                "is the estimate of a question outside the synopsis off by "
                f"{format_number(batch.gate.threshold * step, 4)} or more?",
                f"an estimate that passes is within ±{close_text} in every group with "
                f"{format_percent(confidence_level)} confidence",
            ),
            PlanStep(
                "buy",
                f"up to {count_with_noun(self.rounds, 'answer')}",
                f"±{bought_text} with {format_percent(confidence_level)} confidence",
            ),
        )
        reason = "charged in full when it opens, since the gates' noise stays secret between answers"
        notes = self._context.epsilon_total_warnings(None) if price.allows_gaussian else ()
        return Explanation(self.description, str(price), operators, reason, notes)

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Bound the error, in rows, of a hypothesis that a gate called close, in any group. This is free.

        For sums and means it is in rows of the largest value. What the synopsis measured narrows it further.
        """
        beta = 1 - float(exact(confidence, "confidence", CONFIDENCE))
        draw = self._strategy_at(Price(epsilon, delta, rho))
        return (close_score_bound(draw.batch.gate, self.rounds, beta) + 1) * draw.rows_per_noise_step

    def price(self, within: Number, *, delta: Number, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε, at this δ, at which every hypothesis that a gate calls close is within this. Free."""

        def error(epsilon: Fraction) -> float:
            return self.error(epsilon=epsilon, delta=delta, confidence=confidence)

        return least_epsilon(error, within)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> OnlineSession:
        """Charge the whole price now and open the session. Sessions are never reused: each is bought anew.

        A ``request_id`` opens one session: it is not charged twice, and the session cannot be returned twice either.
        """
        price = Price(epsilon, delta, rho)
        draw = self._strategy_at(price)
        synopsis = release_or_find(
            draw,
            price,
            self._synopsis_with_receipt,
            question=self.description,
            plan=PlanKey("", ""),
            context=self._context,
            call=ReleaseCall(True, request_id, seconds, progress),
        )
        if synopsis.receipt.free:
            raise second_session_refusal()
        hypothesis = first_hypothesis(synopsis.face.estimates, textbook=self.textbook)
        return OnlineSession(
            self, synopsis, GatedCounts(draw.batch, draw.secret_exact_counts.pop()), draw.batch, hypothesis
        )

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        question: str | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Answer:
        """Answer a question as the session would, with invented numbers; by default the number of rows. Free."""
        table = quoted(self._marginals.query.plan.table)
        preview_question = f"SELECT COUNT(*) AS n FROM {table}" if question is None else question

        def release(proposal: OnlineProposal) -> Answer:
            session = proposal.release(epsilon=epsilon, delta=delta, rho=rho)
            try:
                return session.sql(preview_question, confidence=confidence)
            finally:
                session.close()

        return preview_release(self, self._context, release)

    def _synopsis_with_receipt(self, result: StoredResult[PublishedMarginals]) -> Synopsis:
        words = (f"Gaussian on blocks, then up to {count_with_noun(self.rounds, 'gate')} and as many noisy answers",)
        purchase = result.value.purchase
        synopsis_receipt = make_receipt(
            result, purchase, words, question=self.description, context=self._context, confidence=DEFAULT_CONFIDENCE
        )
        return Synopsis(result.value, synopsis_receipt)

    def _strategy_at(self, price: Price) -> SynopsisReleaseKeepingCounts:
        """Prepare the session that spends nearly all of the price, and certainly no more."""
        if not price.allows_gaussian:
            rule = "stated with a delta or in ρ, because an online session uses Gaussian noise"
            raise InvalidParameter("price", str(price), rule, fix="give a delta such as 1e-9")
        rho = price_in_rho(price)
        for share in _SPENT_SHARES:
            draw = self._prepare_strategy(price, rho * share * (1 - Fraction(1, 10**6)))
            if price.is_satisfied_by(draw.batch.curve):
                return draw
        rule = "higher, because it is too low for this many rounds"
        raise InvalidParameter("price", str(price), rule, fix="pay more, or use fewer rounds")

    def _prepare_strategy(self, price: Price, rho: Fraction) -> SynopsisReleaseKeepingCounts:
        synopsis_rho, gates_rho, answers_rho = (
            share * rho for share in (_TEXTBOOK_SHARES if self.textbook else _SHARES)
        )
        plan, reading = self._marginals.plan_and_reading_of_joint_table(synopsis_rho)
        max_added = math.ceil(reading.bounded.measures[0].add_remove_sensitivity.total)
        gate = build_gate(
            _square_root_rounded_down(2 * gates_rho / self.rounds), max_added, self._context.policy.neighbours
        )
        sensitivity = Marginal(reading, 0).sensitivity
        noise = Gaussian(1 / _square_root_rounded_down(2 * answers_rho / self.rounds / sensitivity.squares))
        batch = SessionBatch(measurement_batch(plan, reading).measurements, reading, gate, noise, self.rounds)
        return SynopsisReleaseKeepingCounts(self._marginals.planned_draw(plan, reading, batch, price))

    def __repr__(self) -> str:
        return f"<OnlineProposal {self.description}: .explain() .error() .price() are free, .release() opens it>"


def _square_root_rounded_down(value: Fraction) -> Fraction:
    """Return the square root, rounded down, in thirteen digits: less is spent, never more."""
    return Fraction(f"{math.sqrt(value) * (1 - 1e-12):.13g}")  # of 13 digits none is off by 1e-12


class OnlineSession(SecretSession):
    """An open session for questions in SQL, all free. Every number states its basis.

    Questions from several threads are answered one after the other. Its secrets belong to the process that opened it;
    it cannot be copied or stored.
    """

    def __init__(
        self,
        proposal: OnlineProposal,
        synopsis: Synopsis,
        gates: GatedCounts,
        batch: SessionBatch,
        hypothesis: Hypothesis,
    ) -> None:
        self.proposal = proposal
        self.synopsis = synopsis
        """The synopsis measured when the session opened."""
        self._gates = gates
        self._batch = batch
        self._hypothesis = hypothesis
        self._unit = synopsis.plan.unit_value
        self._lock = threading.RLock()
        with_model = replace(synopsis.face.estimates, model_marginal=lambda axes: self._hypothesis.marginal(axes))
        self._face = replace(synopsis.face, estimates=with_model)

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        strict: bool = False,
    ) -> Answer:
        """Answer a question in SQL; nothing more is charged.

        Each number is *measured* (by the synopsis), *hypothesis* (a gate found it close), *bought now*, or *unverified*
        once all rounds are spent, which ``strict`` refuses. Where rows of one bin count differently, it is *bounded*.
        """

        def answer_quantities(quantities: tuple[GroupedTotals, ...], share: float) -> tuple[ResolvedTotals, ...] | None:
            measure = with_integer_weights(quantities)
            if measure is None or not self._batch.can_buy(measure):
                return None
            return self._resolve_totals(quantities, measure, share, strict)

        with self._lock:
            return answering.answer_sql(
                self._face, question, parameters, confidence=confidence, resolve_totals=answer_quantities
            )

    def _resolve_totals(
        self, quantities: tuple[GroupedTotals, ...], measure: IntegerWeightedMeasure, share: float, strict: bool
    ) -> tuple[ResolvedTotals, ...]:
        if not self._gates.remaining_answers:
            if strict:
                rule = "all rounds of this session are used up, so numbers outside its synopsis cannot be verified"
                raise Unsupported(
                    "unverified", rule, fix="ask without strict=True to get an estimate, or open another session"
                )
            return tuple(
                ResolvedTotals(self._hypothesis.guess_totals(quantity), _interval_function(quantity), UNVERIFIED)
                for quantity in quantities
            )
        predicted = np.concatenate([self._hypothesis.guess_totals(part) for part in measure.parts])
        try:
            noisy_totals = self._gates.ask(measure, round_to_steps(predicted, self._unit))
        except BaseException:  # one fixed refusal: why it stopped may depend on private rows
            raise SessionInterrupted(self.synopsis.receipt.line) from None
        if noisy_totals is None:
            return tuple(self._resolve_from_hypothesis(quantity, measure, share) for quantity in quantities)
        return self._resolve_from_bought(quantities, measure, noisy_totals)

    def _resolve_from_hypothesis(
        self, quantity: GroupedTotals, measure: IntegerWeightedMeasure, share: float
    ) -> ResolvedTotals:
        predicted, bounds = self._hypothesis.guess_totals(quantity), _interval_function(quantity)

        def interval(beta: float, cells: int) -> tuple[Floats, Floats]:
            """Intersect the gate's interval with the measured one, each with half of the miss probability.

            One gate covers all groups of its measure. If more cells must hold jointly than the measure has, other
            measures are among them, and the gate gets only its share of the probability.
            """
            miss_probability = beta if cells <= len(measure.parts) else beta * share
            # one more step, since totals were compared rounded to whole steps
            width = (
                close_score_bound(self._batch.gate, self._batch.rounds, miss_probability / 2) + 1
            ) * self._gate_step_size(measure)
            low, high = bounds(beta / 2, cells)
            intersection = np.maximum(predicted - width, low), np.minimum(predicted + width, high)
            # disjoint intervals cannot both hold, and either may be wrong: return their hull
            disjoint = intersection[0] > intersection[1]
            union = np.minimum(predicted - width, low), np.maximum(predicted + width, high)
            return np.where(disjoint, union[0], intersection[0]), np.where(disjoint, union[1], intersection[1])

        return ResolvedTotals(predicted, interval, HYPOTHESIS)

    def _gate_step_size(self, measure: IntegerWeightedMeasure) -> float:
        """Return the size of one gate step in the measure's own units."""
        return float(self._unit) * measure.max_row_effect / measure.scale

    def _resolve_from_bought(
        self, quantities: tuple[GroupedTotals, ...], measure: IntegerWeightedMeasure, noisy: Integers
    ) -> tuple[ResolvedTotals, ...]:
        noise, step = self._batch.noise_for(measure.max_row_effect), float(self._unit)
        totals = noisy.astype(np.float64) * step
        noise_scale, gate_threshold = float(max(noise.sizes)) * step, self._batch.gate.threshold * step
        self._hypothesis = self._hypothesis.updated(measure, totals, noise_scale, gate_threshold)

        def answer_group(values: Floats) -> ResolvedTotals:
            def interval(beta: float, cells: int) -> tuple[Floats, Floats]:
                width = float(noise.error(f"{1 - beta:.12g}", cells)) * step / measure.scale
                return values - width, values + width

            return ResolvedTotals(values, interval, BOUGHT)

        split_points = np.cumsum([len(quantity.groups.answer_grid_index) for quantity in quantities])[:-1]
        return tuple(map(answer_group, np.split(totals / measure.scale, split_points)))

    @property
    def remaining(self) -> int:
        """The number of answers that may still be bought; at 0, numbers outside the synopsis are unverified."""
        return self._gates.remaining_answers

    @property
    def receipt(self) -> Receipt:
        """What the session cost and whom it protects."""
        return self.synopsis.receipt

    def close(self) -> None:
        """Forget the secrets; the charge and the synopsis stay."""
        with self._lock:
            self._gates.close()

    def __repr__(self) -> str:
        state = (
            f"{self.remaining} of {count_with_noun(self.proposal.rounds, 'round')} left"
            if self.remaining
            else "all rounds spent"
        )
        return f"<OnlineSession of {self.synopsis.table}: {state}>"


def _interval_function(quantity: GroupedTotals) -> Callable[[float, int], tuple[Floats, Floats]]:
    return lambda beta, cells: quantity.estimate_with_ends(beta, cells)[1:]


def propose_online(
    context: Context,
    catalog: Catalog,
    table: str,
    columns: Sequence[str],
    ways: int,
    rounds: int,
    *,
    where: str | None,
    rows: int | None,
    textbook: bool,
) -> OnlineProposal:
    """Propose the session; refuse here, before any charge, what cannot be held in memory."""
    synopsis = propose_marginals(context, catalog, table, ways, where=where, columns=columns, rows=rows)
    cells = math.prod(attribute.size for attribute in synopsis.attributes)
    if cells > MAX_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"the table of a session can have at most {MAX_CELLS:,} cells; these columns have {cells:,} together",
            fix="name fewer columns, or use coarser bins",
        )
    if not isinstance(textbook, bool):
        raise InvalidParameter("textbook", textbook, "True or False")
    synopsis = replace(synopsis, workload=MarginalWorkload(((),))) if textbook else synopsis
    paying_context = synopsis._context  # noqa: SLF001 - the context of the paying periods
    return OnlineProposal(paying_context, synopsis, exact_integer(rounds, "rounds", at_least=1), textbook)
