"""An online session is bought once and then asked for free: from its synopsis where that has measured what is asked,
and else from a hypothesis that a gate compares with the exact counts.

The proposal is free to explain. ``release`` charges all of it at once: the synopsis, and every gate and every answer
that may be bought (``publish.online``, theorem). The counts of all cells are read once, when the session opens, and
stay in the memory of the process that opened it: all questions see the same rows, and none of them is read again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, Operator, sources
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.marginals import MarginalsProposal, marginals, rho_of
from sfumato.errors import InvalidParameter, SessionInterrupted, Unsupported
from sfumato.mechanisms import Gaussian
from sfumato.mechanisms.sparse import SecretSession
from sfumato.plan.catalog import Catalog
from sfumato.plan.readings.dense_readings import MOST_CELLS, Marginal
from sfumato.plan.readings.total_readings import Integers
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.words import many
from sfumato.plan.written_names import quoted
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, percent, shown, whole
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import Quantity, SettledTotals
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.measuring import Published, batch_of
from sfumato.publish.marginals.planning import MarginalWorkload
from sfumato.publish.online import (
    Gates,
    Hypothesis,
    OnlineDraw,
    SessionBatch,
    WeighedMeasure,
    close_width,
    first_hypothesis,
    gate_for,
    in_steps,
    weighed,
)
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.answer import BOUGHT, HYPOTHESIS, UNVERIFIED, Answer
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import ReleaseCall, receipt, released
from sfumato.release.releasing import Progress, StoredResult
from sfumato.release.requests import one_session

_SHARES = Fraction(1, 2), Fraction(2, 5), Fraction(1, 10)
"""The parts of ρ that pay for the synopsis, for all gates and for all answers that may be bought,"""
_TEXTBOOK_SHARES = Fraction(1, 50), Fraction(39, 50), Fraction(1, 5)
"""and where the synopsis is the number of rows alone."""
_SPENT = tuple(Fraction(each, 100) for each in (100, 99, 97, 94, 90, 85, 80, 70, 60, 50))
"""How much of ρ is spent: gates leak a little more than noise of the same ρ, so less may be needed."""


@dataclass(frozen=True)
class ProposedOnline:
    """A proposal: only ``release`` spends, and gives a session that is asked question by question."""

    _context: Context = field(repr=False)
    _marginals: MarginalsProposal = field(repr=False)
    rounds: int
    textbook: bool = False

    @property
    def words(self) -> str:
        """Describe what is asked, as the ledger keeps it."""
        kind = "a textbook session" if self.textbook else "an online session"
        return f"{kind} of {many(self.rounds, 'round')} over {self._marginals.question}"

    @property
    def columns(self) -> Columns:
        """List the columns that may be asked about, with their types, and the count."""
        return self._marginals.columns

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> Explanation:
        """Describe what a session at this price does, step by step. This is free."""
        price = Price(epsilon, delta, rho)
        draw = self._draw(price)
        batch, step = draw.batch, draw.step
        sure = exact(confidence, "confidence", CONFIDENCE)
        close = shown((close_width(batch.gate, self.rounds, 1 - float(sure)) + 1) * step, 4)
        bought = shown(float(batch.noise.error(sure)) * step, 4)
        operators = (
            *sources(self._marginals.query, self._context.policy),
            Operator("synopsis", self._marginals.question, f"{len(batch.measurements)} noisy blocks"),
            Operator(
                "gate",
                f"each question outside it, against {shown(batch.gate.threshold * step, 4)}",
                f"a hypothesis that is close is within ±{close} in every group with {percent(sure)} confidence",
            ),
            Operator("buy", f"up to {many(self.rounds, 'answer')}", f"±{bought} with {percent(sure)} confidence"),
        )
        reason = "charged whole when it opens, since the gates' noise stays secret between answers"
        said = self._context.closing(None) if price.allows_gaussian else ()
        return Explanation(self.words, str(price), operators, reason, said)

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> float:
        """Bound how far a hypothesis that a gate called close is from the truth in any group, in rows; of sums and
        means, in rows of the largest value. What was measured narrows it further. This is free.
        """
        beta = 1 - float(exact(confidence, "confidence", CONFIDENCE))
        draw = self._draw(Price(epsilon, delta, rho))
        return (close_width(draw.batch.gate, self.rounds, beta) + 1) * draw.step

    def price(self, within: Number, *, delta: Number, confidence: Number = "0.95") -> float:
        """Find the least ε, beside this δ, at which every hypothesis that a gate calls close is within this. Free."""

        def error(epsilon: Fraction) -> float:
            return self.error(epsilon=epsilon, delta=delta, confidence=confidence)

        return least_epsilon(error, within)

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> OnlineSession:
        """Charge the price, all of it now, and open the session; it is never found again, and bought each time.

        A ``request_id`` opens one session: nobody is charged for it again, and nobody can be given it again either.
        """
        price = Price(epsilon, delta, rho)
        draw = self._draw(price)
        synopsis = released(
            draw,
            price,
            self._shown,
            question=self.words,
            plan="",
            here=self._context,
            call=ReleaseCall(True, request_id, seconds, progress),
        )
        if synopsis.receipt.free:
            raise one_session()
        hypothesis = first_hypothesis(synopsis.face.known, textbook=self.textbook)
        return OnlineSession(self, synopsis, Gates(draw.batch, draw.secret.pop()), draw.batch, hypothesis)

    def rehearse(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        question: str | None = None,
        confidence: Number = "0.95",
    ) -> Answer:
        """Answer a question as the session would, with invented numbers: by default how many rows there are. Free."""
        table = quoted(self._marginals.query.plan.table)
        asked = f"SELECT COUNT(*) AS n FROM {table}" if question is None else question

        def release(there: ProposedOnline) -> Answer:
            session = there.release(epsilon=epsilon, delta=delta, rho=rho)
            try:
                return session.sql(asked, confidence=confidence)
            finally:
                session.close()

        return rehearsed(self, self._context, release)

    def _shown(self, found: StoredResult[Published]) -> Synopsis:
        words = (f"Gaussian on blocks, then up to {many(self.rounds, 'gate')} and as many noisy answers",)
        own = found.value.purchase
        told = receipt(found, own, words, question=self.words, here=self._context, confidence="0.95")
        return Synopsis(found.value, told)

    def _draw(self, price: Price) -> OnlineDraw:
        """Prepare the session that spends nearly all of the price, and certainly no more."""
        if not price.allows_gaussian:
            rule = "one with a delta, or in ρ: a synopsis and its gates are put together with Gaussian noise"
            raise InvalidParameter("price", str(price), rule, fix="give a delta such as 1e-9")
        rho = rho_of(price)
        for spent in _SPENT:
            found = self._prepared(price, rho * spent * (1 - Fraction(1, 10**6)))
            if price.kept_by(found.batch.curve):
                return found
        rule = "one that so many gates can keep"
        raise InvalidParameter("price", str(price), rule, fix="give more, or take fewer rounds")

    def _prepared(self, price: Price, rho: Fraction) -> OnlineDraw:
        first, second, third = (each * rho for each in (_TEXTBOOK_SHARES if self.textbook else _SHARES))
        plan, reading = self._marginals.in_one_table(first)
        most = math.ceil(reading.bounded.measures[0].added.total)
        gate = gate_for(_root(2 * second / self.rounds), most, self._context.policy.neighbours)
        moved = Marginal(reading, 0).sensitivity
        noise = Gaussian(1 / _root(2 * third / self.rounds / moved.squares))
        batch = SessionBatch(batch_of(plan, reading).measurements, reading, gate, noise, self.rounds)
        return OnlineDraw(self._marginals.draw_of(plan, reading, batch, price))

    def __repr__(self) -> str:
        return f"<ProposedOnline {self.words}: .explain() .error() .price() are free, .release() opens it>"


def _root(value: Fraction) -> Fraction:
    """Take a square root, rounded down to twelve digits: less is spent, never more."""
    return Fraction(f"{math.sqrt(value) * (1 - 1e-12):.12g}")


class OnlineSession(SecretSession):
    """A session is open for questions in SQL, all of which are free. Every number says what it rests on.

    Questions from several threads are answered one after the other. Its secrets belong to the process that opened it,
    and it can neither be copied nor stored.
    """

    def __init__(
        self,
        proposal: ProposedOnline,
        synopsis: Synopsis,
        gates: Gates,
        batch: SessionBatch,
        hypothesis: Hypothesis,
    ) -> None:
        self.proposal = proposal
        self.synopsis = synopsis
        """What was measured when the session opened."""
        self._gates = gates
        self._batch = batch
        self._hypothesis = hypothesis
        self._unit = synopsis.plan.unit_value
        self._lock = threading.RLock()
        guessing = replace(synopsis.face.known, modelled=lambda axes: self._hypothesis.over(axes))
        self._face = replace(synopsis.face, known=guessing)

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = "0.95",
        strict: bool = False,
    ) -> Answer:
        """Answer a question in SQL; nothing more is charged.

        Each number is *measured* (by the synopsis), *hypothesis* (a gate found it close), *bought now*, or *unverified*
        once all rounds are spent, which ``strict`` refuses. Where rows of one bin count differently, it is *bounded*.
        """

        def settle(asked: tuple[Quantity, ...], share: float) -> tuple[SettledTotals, ...] | None:
            compared = weighed(asked)
            if compared is None or not self._batch.can_weigh(compared):
                return None
            return self._settled(asked, compared, share, strict)

        with self._lock:
            return answering.ask(self._face, question, parameters, confidence=confidence, settle=settle)

    def _settled(
        self, asked: tuple[Quantity, ...], compared: WeighedMeasure, share: float, strict: bool
    ) -> tuple[SettledTotals, ...]:
        if not self._gates.left:
            if strict:
                rule = "all rounds of this session are spent, so numbers outside its synopsis cannot be verified"
                raise Unsupported("unverified", rule, fix="ask without strict=True, or open another session")
            return tuple(SettledTotals(self._hypothesis.of(each), _bounds(each), UNVERIFIED) for each in asked)
        guess = np.concatenate([self._hypothesis.of(part) for part in compared.parts])
        try:
            found = self._gates.ask(compared, in_steps(guess, self._unit))
        except BaseException:  # one fixed refusal: why it stopped may depend on private rows
            raise SessionInterrupted(self.synopsis.receipt.line) from None
        if found is None:
            return tuple(self._close(each, compared, share) for each in asked)
        return self._bought(asked, compared, found)

    def _close(self, asked: Quantity, compared: WeighedMeasure, share: float) -> SettledTotals:
        guess, bounds = self._hypothesis.of(asked), _bounds(asked)

        def ranged(beta: float, cells: int) -> tuple[Floats, Floats]:
            """Take what the gate says and what was measured, each with half of the chance to miss.

            One gate speaks for all groups of its measure. Where more noises hold at once than the measure has, other
            measures are among them, and it may miss in its share of the chance alone.
            """
            own = beta if cells <= len(compared.parts) else beta * share
            # one step more, since totals were compared in whole steps of what a row can add
            width = (close_width(self._batch.gate, self._batch.rounds, own / 2) + 1) * self._step(compared)
            low, high = bounds(beta / 2, cells)
            both = np.maximum(guess - width, low), np.minimum(guess + width, high)
            # ranges that do not meet do not hold both: either may be the wrong one, and all of them is shown
            apart = both[0] > both[1]
            every = np.minimum(guess - width, low), np.maximum(guess + width, high)
            return np.where(apart, every[0], both[0]), np.where(apart, every[1], both[1])

        return SettledTotals(guess, ranged, HYPOTHESIS)

    def _step(self, compared: WeighedMeasure) -> float:
        """Return how much one step of gates is, of what is asked."""
        return float(self._unit) * compared.reach / compared.scale

    def _bought(
        self, asked: tuple[Quantity, ...], compared: WeighedMeasure, noisy: Integers
    ) -> tuple[SettledTotals, ...]:
        noise, step = self._batch.noise_for(compared.reach), float(self._unit)
        totals = noisy.astype(np.float64) * step
        near, far = float(max(noise.sizes)) * step, self._batch.gate.threshold * step
        self._hypothesis = self._hypothesis.updated(compared, totals, near, far)

        def settled(values: Floats) -> SettledTotals:
            def ranged(beta: float, cells: int) -> tuple[Floats, Floats]:
                width = float(noise.error(f"{1 - beta:.12g}", cells)) * step / compared.scale
                return values - width, values + width

            return SettledTotals(values, ranged, BOUGHT)

        ends = np.cumsum([len(each.groups.places) for each in asked])[:-1]
        return tuple(map(settled, np.split(totals / compared.scale, ends)))

    @property
    def left(self) -> int:
        """Return how many answers may still be bought; without any, numbers outside the synopsis are unverified."""
        return self._gates.left

    @property
    def receipt(self) -> Receipt:
        """Return what the session cost and whom it protects."""
        return self.synopsis.receipt

    def close(self) -> None:
        """Forget the secrets; what was charged stays charged, and the synopsis stays as it is."""
        with self._lock:
            self._gates.close()

    def __repr__(self) -> str:
        state = f"{self.left} of {many(self.proposal.rounds, 'round')} left" if self.left else "all rounds spent"
        return f"<OnlineSession of {self.synopsis.table}: {state}>"


def _bounds(asked: Quantity) -> Callable[[float, int], tuple[Floats, Floats]]:
    return lambda beta, cells: asked.range(beta, cells)[1:]


def proposed_online(
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
) -> ProposedOnline:
    """Make the proposal; what cannot be held in memory is refused here, before anything is spent."""
    found = marginals(context, catalog, table, ways, where=where, columns=columns, rows=rows)
    cells = math.prod(attribute.size for attribute in found.attributes)
    if cells > MOST_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"a session holds a table of at most {MOST_CELLS:,} cells; these columns have {cells:,} together",
            fix="leave out columns, or take coarser bins",
        )
    if not isinstance(textbook, bool):
        raise InvalidParameter("textbook", textbook, "True or False")
    found = replace(found, workload=MarginalWorkload(((),))) if textbook else found
    here = found._context  # noqa: SLF001 - of the periods that pay
    return ProposedOnline(here, found, whole(rounds, "rounds", at_least=1), textbook)
