"""Threshold sessions: the sparse vector technique over SQL questions, for one price.

The proposal is free to explain and to price. ``release`` charges all of it at once, because the session keeps a secret
between its answers, and opens the session. Every question then has a sensitivity, derived from its plan, of at most the
session's; one with more is refused before anything is read, and the session goes on. All questions see the same
snapshot of the rows.

A session bought with all of its questions in one call, asked one after the other for one price.

It serves callers that cannot keep a session open between two calls: its answers are those that the same questions get
in an open session, up to the last "above" that was paid for.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from fractions import Fraction
from functools import partial

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.previews.previewing import preview_release, with_context
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.stored_answers import SessionAnswers
from sfumato.engine.protocols import Snapshot
from sfumato.errors import (
    InvalidParameter,
    SessionClosed,
    SessionInterrupted,
    Unanswered,
    Unsupported,
    ValueWords,
)
from sfumato.ledger import Charged, Entry, StoredAnswer, Tab
from sfumato.mechanisms import AboveThreshold
from sfumato.mechanisms.sparse import SecretSession
from sfumato.plan.aggregates.value_measures import with_declared_range
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.quoting import quoted
from sfumato.plan.readings.dense_readings import SteppedTotal
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.sql.text import WrittenQuestion, question_in_refusals, split_questions
from sfumato.plan.values.expressions import Column, Result
from sfumato.policy import Policy, Table, Type
from sfumato.privacy import Neighbours, codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_exact,
    format_number,
    format_percent,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.comparisons import ThresholdAnswer, ThresholdComparison
from sfumato.release.measurement import Measurement
from sfumato.release.payers import PrepaidTabPayer, PurchaseTerms
from sfumato.release.prices import Price, least_epsilon_where, weak_price_warnings
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, warn_of_weak_price
from sfumato.release.releasing import ReleaseRequest, StoredResult
from sfumato.release.requests import RequestedSeries, repeated_receipt
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

Ask = Callable[[str, Parameters | None], Question]
"""Parses a question in SQL."""


@dataclass(frozen=True)
class SessionProposal(RehearseAlias, StoredProposal):
    """A proposal of a session: only ``release`` spends, and returns a session to ask questions in."""

    _context: Context = field(repr=False)
    _ask: Ask = field(repr=False)
    threshold: Fraction
    positives: int
    sensitivity: Fraction
    """The most that one unit can change any question of the session."""
    monotone: bool
    """Whether no question decreases when a unit is added: this halves the noise."""

    @property
    def grid(self) -> Fraction:
        """The step of comparisons: the largest that divides 1, threshold and sensitivity."""
        return Fraction(1, math.lcm(self.threshold.denominator, self.sensitivity.denominator))

    @property
    def plan_key(self) -> PlanKey:
        """The key of the proposal. Sessions are never reused: each is bought anew. Any table may be asked about."""
        parameters = (format_exact(self.threshold), self.positives, format_exact(self.sensitivity), self.monotone)
        key = digest("above", *parameters, self._context.policy_version)
        return PlanKey(key, key)

    @property
    def columns(self) -> Columns:
        """The columns of an answer: above or below, and the value of an "above" where that is paid for."""
        return AnswerColumn("above", Type.BOOLEAN), AnswerColumn("value", Type.REAL)

    def explain(
        self,
        epsilon: Number = 1,
        *,
        values_epsilon: Number | None = None,
        questions: int = 100,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain a session at this price, step by step. Free."""
        mechanism, policy = self.mechanism(epsilon, values_epsilon), self._context.policy
        first, second, third = (format_number(float(scale * self.grid), 4) for scale in mechanism.scales)
        confidence_text = format_percent(exact(confidence, "confidence", CONFIDENCE))
        error = format_number(
            self.error(epsilon, values_epsilon=values_epsilon, questions=questions, confidence=confidence), 6
        )
        private_tables = ", ".join(name for name, table in policy.tables.items() if not table.public)
        monotone_text = ", all in the same direction" if self.monotone else ""
        operators = [
            PlanStep("scan", private_tables, f"protects {policy.unit}, {policy.neighbours.value}"),
            PlanStep(
                "ask",
                "any number of questions",
                f"one unit changes each by at most {self._sensitivity_text}{monotone_text}",
            ),
            PlanStep("compare", f"with {format_exact(self.threshold)}", f'"above" at most {self.positives} times'),
            PlanStep(
                "noise",
                f"Laplace, scale {first} on the threshold, once; {second} on each question",
                f"all answers to {questions} questions are right for counts further than {error} from the "
                f"threshold, with {confidence_text} confidence",
            ),
        ]
        if mechanism.values_epsilon is not None:
            width = format_number(mechanism.value_error(confidence) * float(self.grid), 6)
            value_error = f"±{width} with {confidence_text} confidence"
            operators.append(PlanStep("values", f'Laplace, scale {third} on the value of each "above"', value_error))
        reason = "charged in full when it opens, since the threshold's noise stays secret between answers"
        return Explanation(self.description, str(Price(epsilon)), tuple(operators), reason, ())

    def error(
        self,
        epsilon: Number,
        *,
        values_epsilon: Number | None = None,
        questions: int = 100,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Return the distance from the threshold beyond which all answers are right, with this confidence. Free."""
        return self.mechanism(epsilon, values_epsilon).error(questions, confidence) * float(self.grid)

    def price(self, within: Number, *, questions: int = 100, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return the least ε at which all answers are right beyond this distance from the threshold. Free."""
        error_limit = exact(within, "within", POSITIVE)

        def is_within(epsilon: Fraction) -> bool:
            return self.error(epsilon, questions=questions, confidence=confidence) <= error_limit

        return least_epsilon_where(is_within)

    def release(
        self,
        epsilon: Number,
        *,
        values_epsilon: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> ThresholdSession:
        """Charge all of ε now and open the session; ``values_epsilon`` of it pays for the values of "above" answers.

        ``seconds`` limits each question, and ``progress`` sees the phases of each. A ``request_id`` opens one session:
        it is not charged twice, and the session cannot be returned twice either.
        """
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        series = RequestedSeries(self._context, self.description, self.plan_key, call)
        session = self.open_session(epsilon, values_epsilon, call, series.open_once)
        assert isinstance(session, ThresholdSession)
        return session

    def open_session(
        self,
        epsilon: Number,
        values_epsilon: Number | None,
        call: ReleaseCall,
        open_tab: Callable[[Entry], Tab | StoredAnswer],
        *,
        closes_when_spent: bool = True,
    ) -> ThresholdSession | StoredAnswer:
        """Charge ε and open the session on a new tab; return the stored answer where there is one.

        It closes after its last "above", unless the caller stores its answers first.
        """
        mechanism, context = self.mechanism(epsilon, values_epsilon), self._context
        warn_of_weak_price(Price(epsilon), context)
        with context.running_work.running(), ExitStack() as resources:
            snapshot = resources.enter_context(context.engine.open_snapshot())
            tab = open_tab(Entry(Charged(mechanism), self.description, analyst=context.analyst))
            if isinstance(tab, StoredAnswer):
                return tab
            session = ThresholdSession(
                self, context, self._ask, mechanism, Price(epsilon), tab, snapshot, call, closes_when_spent
            )
            resources.pop_all()
        return session

    def preview(
        self, epsilon: Number = 1, *, values_epsilon: Number | None = None, question: str | Question | None = None
    ) -> ThresholdAnswer:
        """Answer a question as the session would, over invented rows: by default a count. Free."""
        private_table = next(name for name, table in self._context.policy.tables.items() if not table.public)
        question_or_default = f"SELECT COUNT(*) FROM {quoted(private_table)}" if question is None else question
        parsed = self._ask(question_or_default, None) if isinstance(question_or_default, str) else question_or_default

        def release(invented: SessionProposal) -> ThresholdAnswer:
            session = invented.release(epsilon, values_epsilon=values_epsilon)
            try:
                return session.ask(with_context(parsed, invented._context))
            finally:
                session.close()

        return preview_release(self, self._context, release)

    def parse_file(self, source: str) -> tuple[str, ...]:
        """Parse the questions of a file, each of which must be valid in this session. Free.

        One that cannot is refused by its number and its line.
        """
        file_questions = split_questions(source)
        for number, question in enumerate(file_questions, 1):
            with question_in_refusals(number, question):
                self.parse_question(question.text)
        return tuple(question.text for question in file_questions)

    def parse_question(self, question: str) -> Question:
        """Parse a question of the session; one that is invalid in it is refused, whatever the price. Free."""
        parsed = self._ask(question, None)
        Measurement(compared_total(parsed, self.grid), self.mechanism(1))
        return parsed

    def mechanism(self, epsilon: Number, values_epsilon: Number | None = None) -> AboveThreshold:
        """Return the mechanism at this price, in steps of the grid."""
        total_epsilon = exact(epsilon, "epsilon", POSITIVE)
        value_epsilon = None if values_epsilon is None else exact(values_epsilon, "values_epsilon", POSITIVE)
        if value_epsilon is not None and value_epsilon >= total_epsilon:
            rule = f"below the whole price, ε = {format_exact(total_epsilon)}"
            fix = "give a part of the price, such as half of it"
            raise InvalidParameter("values_epsilon", format_exact(value_epsilon), rule, fix=fix)
        return AboveThreshold(
            total_epsilon - (value_epsilon or 0),
            int(self.threshold / self.grid),
            self.positives,
            int(self.sensitivity / self.grid),
            self.monotone,
            value_epsilon,
            self._context.policy.neighbours,
        )

    @property
    def description(self) -> str:
        """The session in words."""
        return f"which questions are above {format_exact(self.threshold)}, up to {self.positives} of them"

    @property
    def _sensitivity_text(self) -> str:
        return format_exact(self.sensitivity)

    def __repr__(self) -> str:
        return f"<SessionProposal {self.description}: .explain() .error() .price() are free, .release() opens it>"


class ThresholdSession(SecretSession):
    """An open session: each question is answered "above" or "below", up to the paid number of "above".

    Questions from several threads are answered one after the other. It belongs to the process that opened it, and can
    neither be copied nor stored.
    """

    def __init__(
        self,
        proposal: SessionProposal,
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
        self._rows_discarded = False
        self._session = mechanism.start()

    def ask(self, question: str | Question, parameters: Parameters | None = None) -> ThresholdAnswer:
        """Return whether a count or a sum is, noisily, above the threshold; nothing more is charged.

        The question is SQL with one COUNT, COUNT(DISTINCT …) of units or SUM, or one made by ``curator.sql`` or
        ``curator.table``. What cannot be asked is refused before anything is read, and the session goes on.
        """
        with self._lock:
            self._require_open()
            parsed = self._ask(question, parameters) if isinstance(question, str) else question
            if not isinstance(parsed, Question) or not parsed.belongs_to(self._context):
                given = ValueWords(
                    "one of another curator" if isinstance(parsed, Question) else f"a {type(parsed).__name__}"
                )
                rule = "SQL, or a question made by this curator"
                fix = "pass the SQL text, or make the question with this curator's sql(…)"
                raise InvalidParameter("question", given, rule, fix=fix)
            total = compared_total(parsed, self.proposal.grid)
            comparison = ThresholdComparison(
                GroupTotals(total.bounded, parsed.groups), total, self._mechanism, self._session
            )
            answer = self._release_comparison(comparison, parsed)
            self._answers.append((parsed.text, answer))
            if self._closing and not self.remaining:
                self.close()
            return answer

    def _release_comparison(self, comparison: ThresholdComparison, question: Question) -> ThresholdAnswer:
        context = self._context
        # the plan hash is unique to this tab, so that no later question reuses this one's answer
        plan = digest("above", self._tab.opening.hash, question.identity)
        try:
            with context.running_work.running():
                answer = releasing.release(
                    comparison,
                    ReleaseRequest(question.text, plan, context.engine.identity(), context.analyst),
                    payer=PrepaidTabPayer(context.account, self._tab),
                    engine=self._snapshot,
                    seconds=self._call.time_limit(context.seconds),
                    progress=context.progress if self._call.progress is None else self._call.progress,
                ).value
            return replace(answer, is_preview=context.is_preview)
        except Unanswered as interruption:
            raise SessionInterrupted(interruption.number) from None

    @property
    def tab(self) -> Tab:
        """The tab of its charge."""
        return self._tab

    @property
    def remaining(self) -> int:
        """The number of "above" answers left; 0 once it has ended."""
        return self._session.remaining

    @property
    def answers(self) -> tuple[tuple[str, ThresholdAnswer], ...]:
        """The questions and answers so far, in order."""
        return tuple(self._answers)

    @property
    def receipt(self) -> Receipt:
        """What the session cost and whom it protects."""
        context, line, proposal = self._context, self._tab.opening, self.proposal
        sensitivity_text = f"one unit changes each question by at most {format_exact(proposal.sensitivity)}"
        weak_reasons = weak_price_warnings(self._price)
        purchase = PurchaseTerms(
            str(self._price), "chosen for each question", sensitivity_text, (), context.version, weak_reasons
        )
        opening = StoredResult(None, line.number, line.time, line.hash, free=False)
        mechanism_words = (
            f"above a noisy threshold of {format_exact(proposal.threshold)}, at most {proposal.positives} times",
        )
        return make_receipt(
            opening,
            purchase,
            mechanism_words,
            question=proposal.description,
            context=context,
            confidence=DEFAULT_CONFIDENCE,
        )

    def close(self) -> None:
        """End the session and discard its secret and its rows; the charge stays."""
        with self._lock:
            if self._process == os.getpid():
                self._session.close()
                self._discard_rows()
                self._tab.stop()

    def _discard_rows(self) -> None:
        """Discard the rows, once.

        The time it takes depends on them: a progress callback may wait between its two phases.
        """
        if self._rows_discarded:
            return
        self._rows_discarded = True
        progress = self._context.progress if self._call.progress is None else self._call.progress
        try:
            progress("closing")
        finally:
            self._snapshot.close()
        progress("closed")

    def _require_open(self) -> None:
        if not self.remaining or self._process != os.getpid():
            raise SessionClosed(self._session.receipt.positives)

    def __repr__(self) -> str:
        state = f'open for {self.remaining} more "above"' if self.remaining else "ended"
        return (
            f"<ThresholdSession above {format_exact(self.proposal.threshold)}: {len(self._answers)} answered, {state}>"
        )


def propose_session(
    context: Context,
    ask: Ask,
    threshold: Number,
    positives: int,
    sensitivity: Number | None,
    tables: Sequence[str] | None,
    monotone: bool | None,
) -> SessionProposal:
    """Propose a session; the default sensitivity is that of counting rows of these, or all, private tables."""
    context.require_one_account("a session")
    if sensitivity is not None and tables is not None:
        raise InvalidParameter("tables", tables, "left out if sensitivity is given")
    max_change = (
        Fraction(_max_rows_per_unit(context.policy, tables))
        if sensitivity is None
        else exact(sensitivity, "sensitivity", POSITIVE)
    )
    default_monotone = context.policy.neighbours is Neighbours.ADD_REMOVE
    proposal = SessionProposal(
        context,
        ask,
        exact(threshold, "threshold"),
        exact_integer(positives, "positives", at_least=1),
        max_change,
        default_monotone if monotone is None else monotone,
    )
    proposal.mechanism(1)  # refuses parameters that no price allows
    return proposal


def _max_rows_per_unit(policy: Policy, tables: Sequence[str] | None) -> int:
    """Return the most rows of one unit that count in any of these tables."""
    private_tables = {name: table for name, table in policy.tables.items() if not table.public}
    table_names = list(private_tables) if tables is None else [tables] if isinstance(tables, str) else list(tables)
    if not table_names or any(name not in private_tables for name in table_names):
        raise InvalidParameter("tables", tables, f"a list of private tables: {', '.join(private_tables)}")
    return max(_unit_rows_per_group(private_tables[name]) for name in table_names)


def _unit_rows_per_group(table: Table) -> int:
    return 1 if table.every_row else ContributionLimits.from_table(table).rows_per_group


def compared_total(question: Question, grid: Fraction) -> SteppedTotal:
    """Return the total that is compared, under the bounding with the least sensitivity.

    A question that is not exactly one count or sum is refused, since nothing may be computed from noisy numbers.
    """
    plan, finish, parts = question.query.plan, question.query.finish, question.shared_parts.parts
    is_computed = bool(question.query.outer or question.query.combined)
    is_single = len(plan.measures) == 1 and not plan.keys and not is_computed and finish == Finish(finish.outputs)
    columns = [output.expression for output in finish.outputs if is_single]
    if not (len(columns) == 1 and isinstance(columns[0], Column) and isinstance(columns[0].reference, Result)):
        raise _session_question_refusal()
    is_measured_itself = [*map(with_declared_range, parts[0].measures)] == [*plan.measures]
    if len(parts) != 1 or not is_measured_itself or plan.measures[0].noise_count != 1:  # computed from other measures
        raise _session_question_refusal()
    options = question.bounding_options
    laplace_options = [option for option in options if option.strategy.norm_order in (None, 1)]
    if not laplace_options:
        rule = "a strategy for Laplace noise, which sessions use"
        raise InvalidParameter("strategy", options[0].strategy.value, rule, fix="leave strategy out of .limit(…)")
    bounded = min(
        laplace_options, key=lambda option: option.measures[0].sensitivity.linf * option.measures[0].unit_value
    )
    return SteppedTotal(bounded, grid)


def _session_question_refusal() -> Unsupported:
    return Unsupported(
        "session-question",
        "a session compares one count or one sum with its threshold",
        fix="ask SELECT COUNT(*), COUNT(DISTINCT <unit>) or SUM(…) FROM … WHERE …, without GROUP BY, HAVING, LIMIT "
        "or arithmetic; ask about each group in a separate question",
    )


@dataclass(frozen=True)
class ListedSessionProposal(RehearseAlias, StoredProposal):
    """A proposal of a session with all its questions; only ``release`` spends."""

    _context: Context = field(repr=False)
    session: SessionProposal
    questions: Mapping[str, Question]
    """The questions by number, from "1"."""

    @property
    def plan_key(self) -> PlanKey:
        """The key of the proposal. Sessions are never reused: each release is bought anew."""
        keys = (self.session.plan_key, *(question.plan_key for question in self.questions.values()))
        return PlanKey.combined(keys, partial(digest, "asked-session"))

    @property
    def columns(self) -> Columns:
        """The columns of each answer: above or below, and a value where that is paid for."""
        return self.session.columns

    def explain(
        self, epsilon: Number = 1, *, values_epsilon: Number | None = None, confidence: Number = DEFAULT_CONFIDENCE
    ) -> Explanation:
        """Explain the session at this price, step by step. Free."""
        question_count = len(self.questions)
        return self.session.explain(
            epsilon, values_epsilon=values_epsilon, questions=question_count, confidence=confidence
        )

    def error(
        self, epsilon: Number, *, values_epsilon: Number | None = None, confidence: Number = DEFAULT_CONFIDENCE
    ) -> float:
        """Return the distance from the threshold beyond which all answers are right, with this confidence. Free."""
        question_count = len(self.questions)
        return self.session.error(
            epsilon, values_epsilon=values_epsilon, questions=question_count, confidence=confidence
        )

    def price(self, within: Number, *, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return the least ε at which all answers are right beyond this distance from the threshold. Free."""
        return self.session.price(within, questions=len(self.questions), confidence=confidence)

    def preview(self, epsilon: Number = 1, *, values_epsilon: Number | None = None) -> SessionAnswers:
        """Answer as the session would, over invented rows. Free."""
        return preview_release(self, self._context, lambda there: there.release(epsilon, values_epsilon=values_epsilon))

    def release(
        self,
        epsilon: Number,
        *,
        values_epsilon: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> SessionAnswers:
        """Charge all of ε now, ask the questions in order while the session is open, and close it.

        The same ``request_id`` returns the same answers again, free.
        """
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        series = RequestedSeries(self._context, self.session.description, self.plan_key, call)
        earlier = series.find_stored()
        if earlier is not None:
            return self._restore(earlier)
        session = self.session.open_session(epsilon, values_epsilon, call, series.open, closes_when_spent=False)
        if isinstance(session, StoredAnswer):
            return self._restore(session)
        try:
            for question in self.questions.values():
                if session.remaining:
                    session.ask(question)
            question_texts = tuple(question.text for question in self.questions.values())
            released = SessionAnswers(question_texts, tuple(answer for _, answer in session.answers), session.receipt)
            series.finish(session.tab, released)
        finally:
            session.close()
        return released

    def _restore(self, stored_answer: StoredAnswer) -> SessionAnswers:
        """Return what the same request bought."""
        stored_answers = codec.loads_as(SessionAnswers, stored_answer.body, longest=len(stored_answer.body))
        return replace(stored_answers, receipt=repeated_receipt(stored_answers.receipt, self._context))


def propose_listed_session(session: SessionProposal, questions: Sequence[str]) -> ListedSessionProposal:
    """Propose a session with these questions; one that is invalid in it is refused here, before any charge."""
    question_texts = tuple(questions)
    if not question_texts or not all(isinstance(text, str) for text in question_texts):
        raise InvalidParameter("questions", questions, "a list of at least one question in SQL")
    parsed = {}
    for number, text in enumerate(question_texts, 1):
        with question_in_refusals(None, WrittenQuestion(text, 1), str(number)):
            parsed[str(number)] = session.parse_question(text)
    return ListedSessionProposal(session._context, session, parsed)  # noqa: SLF001
