"""A session tells of many questions whether each is above a threshold, for one price: the sparse vector technique over
questions in SQL.

The proposal is free to explain and to price. ``release`` charges all of it at once, because the session keeps a secret
between its answers, and opens the session. Every question then has a sensitivity, derived from its plan, that is at
most the session's; one that has more is refused before anything is read, and the session goes on. All questions see the
rows as the first of them did.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.previews.rehearsing import moved, rehearsed
from sfumato.curator.proposals.questions import Question
from sfumato.engine.seam import Snapshot
from sfumato.errors import InvalidParameter, SessionClosed, SessionInterrupted, Unanswered, Unsupported
from sfumato.ledger import Charged, Entry, StoredAnswer, Tab
from sfumato.mechanisms import AboveThreshold
from sfumato.mechanisms.sparse import SecretSession
from sfumato.plan.canonical import digest
from sfumato.plan.limits import Limits
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.readings.value_readings import SteppedTotal
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.sql.question_files import placed, questions
from sfumato.plan.values.expressions import Column, Result
from sfumato.plan.written_names import quoted
from sfumato.policy import Policy, Table, Type
from sfumato.privacy import Neighbours
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, percent, shown, text, whole
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.comparisons import ThresholdAnswer, ThresholdComparison
from sfumato.release.measurement import Measurement
from sfumato.release.payers import OnPaidTab, Purchase
from sfumato.release.prices import Price, rounded_up, weak_words
from sfumato.release.proposal import ReleaseCall, receipt, warn
from sfumato.release.releasing import Progress, ReleaseRequest, StoredResult
from sfumato.release.requests import RequestedSeries

Ask = Callable[[str, Parameters | None], Question]
"""Understands a question in SQL, for free."""


@dataclass(frozen=True)
class ProposedSession:
    """A proposal: only ``release`` spends, and gives a session that is asked question by question."""

    _context: Context = field(repr=False)
    _ask: Ask = field(repr=False)
    threshold: Fraction
    positives: int
    sensitivity: Fraction
    """What one unit changes in any question of the session, at most."""
    monotone: bool
    """Whether every question only grows when a unit is added: then each gets half of the noise."""

    @property
    def grid(self) -> Fraction:
        """Return the step in which questions are compared: the largest of which 1, threshold and sensitivity are whole
        multiples.
        """
        return Fraction(1, math.lcm(self.threshold.denominator, self.sensitivity.denominator))

    @property
    def identity(self) -> str:
        """Return the hash of what is proposed. A session is never found again: what it says is bought each time."""
        said = (text(self.threshold), self.positives, text(self.sensitivity), self.monotone)
        return digest("above", *said, self._context.declared)

    @property
    def columns(self) -> Columns:
        """Return what a question is answered with: above or below, and the value of an "above" where that is paid for."""
        return AnswerColumn("above", Type.BOOLEAN), AnswerColumn("value", Type.REAL)

    def explain(
        self,
        epsilon: Number = 1,
        *,
        values_epsilon: Number | None = None,
        questions: int = 100,
        confidence: Number = "0.95",
    ) -> Explanation:
        """Describe what a session at this price does, step by step. This is free."""
        mechanism, policy = self.mechanism(epsilon, values_epsilon), self._context.policy
        first, second, third = (shown(float(scale * self.grid), 4) for scale in mechanism.scales)
        sure = percent(exact(confidence, "confidence", CONFIDENCE))
        error = shown(self.error(epsilon, values_epsilon=values_epsilon, questions=questions, confidence=confidence), 6)
        private = ", ".join(name for name, table in policy.tables.items() if not table.public)
        same = ", and all questions the same way" if self.monotone else ""
        operators = [
            Operator("scan", private, f"protects {policy.unit}, {policy.neighbours.value}"),
            Operator("ask", "any number of questions", f"one unit changes each by at most {self._moved}{same}"),
            Operator("compare", f"with {text(self.threshold)}", f'"above" at most {self.positives} times'),
            Operator(
                "noise",
                f"Laplace, scale {first} on the threshold, once; {second} on each question",
                f"of {questions} questions every answer is right about counts further than {error} from the "
                f"threshold, with {sure} confidence",
            ),
        ]
        if mechanism.values_epsilon is not None:
            width = shown(mechanism.value_error(confidence) * float(self.grid), 6)
            around = f"±{width} with {sure} confidence"
            operators.append(Operator("values", f'Laplace, scale {third} on the value of each "above"', around))
        reason = "charged whole when it opens, since the threshold's noise stays secret between answers"
        return Explanation(self.words, str(Price(epsilon)), tuple(operators), reason, ())

    def error(
        self,
        epsilon: Number,
        *,
        values_epsilon: Number | None = None,
        questions: int = 100,
        confidence: Number = "0.95",
    ) -> float:
        """Return a distance from the threshold: with this confidence, of so many questions each answer is right about
        numbers further from it. Free.
        """
        return self.mechanism(epsilon, values_epsilon).error(questions, confidence) * float(self.grid)

    def price(self, within: Number, *, questions: int = 100, confidence: Number = "0.95") -> float:
        """Find the least ε at which every answer is right about numbers further than this from the threshold. This is
        free.
        """
        wanted = exact(within, "within", POSITIVE)

        def enough(epsilon: Fraction) -> bool:
            return self.error(epsilon, questions=questions, confidence=confidence) <= wanted

        return float(rounded_up(least(enough, "within")))

    def release(
        self,
        epsilon: Number,
        *,
        values_epsilon: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> ThresholdSession:
        """Charge ε, all of it now, and open the session. Of it ``values_epsilon`` pays for the values of what is above.

        ``seconds`` is what each question may take, and ``progress`` is told of each. A ``request_id`` opens one
        session: nobody is charged for it again, and nobody can be given the session again either.
        """
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        asked = RequestedSeries(self._context, self.words, self.identity, call)
        session = self.opened(epsilon, values_epsilon, call, asked.open_once)
        assert isinstance(session, ThresholdSession)
        return session

    def opened(
        self,
        epsilon: Number,
        values_epsilon: Number | None,
        call: ReleaseCall,
        open_tab: Callable[[Entry], Tab | StoredAnswer],
        *,
        closing: bool = True,
    ) -> ThresholdSession | StoredAnswer:
        """Charge ε and open the session on the tab that is opened for it, unless what it said is found instead.

        It closes after its last "above", unless whoever asks wants to write down first what it said.
        """
        mechanism, here = self.mechanism(epsilon, values_epsilon), self._context
        warn(Price(epsilon), here)
        with here.work.one(), ExitStack() as opened:
            snapshot = opened.enter_context(here.engine.hold())
            tab = open_tab(Entry(Charged(mechanism), self.words, analyst=here.analyst))
            if isinstance(tab, StoredAnswer):
                return tab
            session = ThresholdSession(self, here, self._ask, mechanism, Price(epsilon), tab, snapshot, call, closing)
            opened.pop_all()
        return session

    def rehearse(
        self, epsilon: Number = 1, *, values_epsilon: Number | None = None, question: str | Question | None = None
    ) -> ThresholdAnswer:
        """Answer a question as the session would, about invented rows: by default a count of the first private table.
        This is free.
        """
        private = next(name for name, table in self._context.policy.tables.items() if not table.public)
        given = f"SELECT COUNT(*) FROM {quoted(private)}" if question is None else question
        asked = self._ask(given, None) if isinstance(given, str) else given

        def release(there: ProposedSession) -> ThresholdAnswer:
            session = there.release(epsilon, values_epsilon=values_epsilon)
            try:
                return session.ask(moved(asked, there._context))
            finally:
                session.close()

        return rehearsed(self, self._context, release)

    def written(self, source: str) -> tuple[str, ...]:
        """List the questions of a file, each of which can be asked in this session. This is free.

        One that cannot is refused by its number and its line.
        """
        found = questions(source)
        for number, each in enumerate(found, 1):
            with placed(number, each):
                self.comparable(each.text)
        return tuple(each.text for each in found)

    def comparable(self, question: str) -> Question:
        """Understand a question of the session; one that cannot be asked in it is refused, whatever the price. Free."""
        asked = self._ask(question, None)
        Measurement(compared_total(asked, self.grid), self.mechanism(1))
        return asked

    def mechanism(self, epsilon: Number, values_epsilon: Number | None = None) -> AboveThreshold:
        """Return the mechanism that is run at this price, in steps of the grid."""
        paid = exact(epsilon, "epsilon", POSITIVE)
        values = None if values_epsilon is None else exact(values_epsilon, "values_epsilon", POSITIVE)
        if values is not None and values >= paid:
            rule = f"less than ε = {text(paid)}: it is the part of ε that pays for values"
            raise InvalidParameter("values_epsilon", text(values), rule)
        return AboveThreshold(
            paid - (values or 0),
            int(self.threshold / self.grid),
            self.positives,
            int(self.sensitivity / self.grid),
            self.monotone,
            values,
            self._context.policy.neighbours,
        )

    @property
    def words(self) -> str:
        """Describe what is asked."""
        return f"which questions are above {text(self.threshold)}, up to {self.positives} of them"

    @property
    def _moved(self) -> str:
        return text(self.sensitivity)

    def __repr__(self) -> str:
        return f"<ProposedSession {self.words}: .explain() .error() .price() are free, .release() opens it>"


class ThresholdSession(SecretSession):
    """A session is open for questions: each is answered "above" or "below", until it has said "above" as often as it
    was opened for.

    Questions from several threads are answered one after the other. It belongs to the process that opened it, and can
    neither be copied nor stored.
    """

    def __init__(
        self,
        proposal: ProposedSession,
        context: Context,
        ask: Ask,
        mechanism: AboveThreshold,
        price: Price,
        tab: Tab,
        snapshot: Snapshot,
        call: ReleaseCall,
        closing: bool,
    ) -> None:
        self.proposal = proposal
        self._context = context
        self._ask = ask
        self._mechanism = mechanism
        self._price = price
        self._tab = tab
        self._snapshot = snapshot
        self._call = call
        self._closing = closing
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._answers: list[tuple[str, ThresholdAnswer]] = []
        self._forgotten = False
        self._session = mechanism.start()

    def ask(self, question: str | Question, parameters: Parameters | None = None) -> ThresholdAnswer:
        """Return whether a count or a sum is, noisily, above the threshold; nothing more is charged for it.

        The question is SQL with one COUNT, COUNT(DISTINCT …) of units or SUM, or one made by ``curator.sql`` or
        ``curator.table``. What cannot be asked is refused before anything is read, and the session goes on.
        """
        with self._lock:
            self._require_open()
            asked = self._ask(question, parameters) if isinstance(question, str) else question
            if not isinstance(asked, Question) or not asked.is_of(self._context):
                raise InvalidParameter("question", type(asked).__name__, "SQL text, or a question of the same curator")
            total = compared_total(asked, self.proposal.grid)
            kind = ThresholdComparison(GroupTotals(total.bounded, asked.groups), total, self._mechanism, self._session)
            said = self._released(kind, asked)
            self._answers.append((asked.text, said))
            if self._closing and not self.left:
                self.close()
            return said

    def _released(self, kind: ThresholdComparison, asked: Question) -> ThresholdAnswer:
        here = self._context
        # the plan is this tab's alone, so that no later question finds the answer of this one as its own
        plan = digest("above", self._tab.opening.hash, asked.identity)
        try:
            with here.work.one():
                said = releasing.release(
                    kind,
                    ReleaseRequest(asked.text, plan, here.engine.identity(), here.analyst),
                    payer=OnPaidTab(here.account, self._tab),
                    engine=self._snapshot,
                    seconds=self._call.limit(here.seconds),
                    progress=here.progress if self._call.progress is None else self._call.progress,
                ).value
            return replace(said, rehearsed=here.rehearsed)
        except Unanswered as stopped:
            raise SessionInterrupted(stopped.number) from None

    @property
    def tab(self) -> Tab:
        """Return the tab that it was charged on."""
        return self._tab

    @property
    def left(self) -> int:
        """Return how many times it may still say "above"; 0 where it has ended."""
        return self._session.remaining

    @property
    def answers(self) -> tuple[tuple[str, ThresholdAnswer], ...]:
        """List what was asked and answered, in order."""
        return tuple(self._answers)

    @property
    def receipt(self) -> Receipt:
        """Return what the session cost and whom it protects."""
        here, line, proposal = self._context, self._tab.opening, self.proposal
        each_by = f"one unit changes each question by at most {text(proposal.sensitivity)}"
        weak = weak_words(self._price)
        bought = Purchase(str(self._price), "each question in its own way", each_by, (), here.version, weak)
        opened = StoredResult(None, line.number, line.time, line.hash, free=False)
        words = (f"above a noisy threshold of {text(proposal.threshold)}, at most {proposal.positives} times",)
        return receipt(opened, bought, words, question=proposal.words, here=here, confidence="0.95")

    def close(self) -> None:
        """End the session and forget its secret and its rows; what was charged stays charged."""
        with self._lock:
            if self._process == os.getpid():
                self._session.close()
                self._forget()
                self._tab.stop()

    def _forget(self) -> None:
        """Drop the rows, once. How long that takes depends on them: between its two phases whoever is told may wait."""
        if self._forgotten:
            return
        self._forgotten = True
        progress = self._context.progress if self._call.progress is None else self._call.progress
        try:
            progress("closing")
        finally:
            self._snapshot.close()
        progress("closed")

    def _require_open(self) -> None:
        if not self.left or self._process != os.getpid():
            raise SessionClosed(self._session.receipt.positives)

    def __repr__(self) -> str:
        state = f'open for {self.left} more "above"' if self.left else "ended"
        return f"<ThresholdSession above {text(self.proposal.threshold)}: {len(self._answers)} answered, {state}>"


def proposed_session(
    context: Context,
    ask: Ask,
    threshold: Number,
    positives: int,
    sensitivity: Number | None,
    tables: Sequence[str] | None,
    monotone: bool | None,
) -> ProposedSession:
    """Make the proposal; without a sensitivity it is that of counting rows of these tables, or of all private ones."""
    context.require_one_account("a session")
    if sensitivity is not None and tables is not None:
        raise InvalidParameter("tables", tables, "left out where a sensitivity is given")
    moved = (
        Fraction(_most_rows(context.policy, tables))
        if sensitivity is None
        else exact(sensitivity, "sensitivity", POSITIVE)
    )
    rising = context.policy.neighbours is Neighbours.ADD_REMOVE
    found = ProposedSession(
        context,
        ask,
        exact(threshold, "threshold"),
        whole(positives, "positives", at_least=1),
        moved,
        rising if monotone is None else monotone,
    )
    found.mechanism(1)  # refuses what no price allows
    return found


def _most_rows(policy: Policy, tables: Sequence[str] | None) -> int:
    """Count the rows of one unit that count in a table, at most."""
    private = {name: table for name, table in policy.tables.items() if not table.public}
    named = list(private) if tables is None else [tables] if isinstance(tables, str) else list(tables)
    if not named or any(name not in private for name in named):
        raise InvalidParameter("tables", tables, f"private tables of the policy: {', '.join(private)}")
    return max(_counted(private[name]) for name in named)


def _counted(table: Table) -> int:
    return 1 if table.every_row else Limits.of(table).rows_per_group


def compared_total(asked: Question, grid: Fraction) -> SteppedTotal:
    """Return what is compared of a question, with the least that one unit changes; refuse what is not one count or sum as
    it is, since nothing of it may be computed from noisy numbers.
    """
    plan, finish, parts = asked.query.plan, asked.query.finish, asked.shared.parts
    alone = len(plan.measures) == 1 and not plan.keys and not asked.query.outer and finish == Finish(finish.outputs)
    columns = [each.expression for each in finish.outputs if alone]
    if not (len(columns) == 1 and isinstance(columns[0], Column) and isinstance(columns[0].reference, Result)):
        raise _not_compared()
    if len(parts) != 1 or parts[0].measures != plan.measures or plan.measures[0].noises != 1:  # made from others
        raise _not_compared()
    options = asked.options
    suited = [each for each in options if each.strategy.order in (None, 1)]
    if not suited:
        rule = "one that suits Laplace noise, with which a session compares"
        raise InvalidParameter("strategy", options[0].strategy.value, rule, fix="leave the strategy out")
    bounded = min(suited, key=lambda each: each.measures[0].sensitivity.linf * each.measures[0].unit_value)
    return SteppedTotal(bounded, grid)


def _not_compared() -> Unsupported:
    return Unsupported(
        "session-question",
        "a session compares one count or one sum with its threshold",
        fix="ask SELECT COUNT(*), COUNT(DISTINCT <unit>) or SUM(…) FROM … WHERE …, without GROUP BY, HAVING, LIMIT or "
        "arithmetic; ask about each group in a question of its own",
    )
