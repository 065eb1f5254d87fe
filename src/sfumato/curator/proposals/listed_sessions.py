"""A session bought with all of its questions in one call, asked one after the other for one price.

It serves callers that cannot keep a session open between two calls: its answers are those that the same questions get
in an open session, up to the last "above" that was paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.session_answers import SessionAnswers
from sfumato.curator.proposals.sessions import SessionProposal
from sfumato.errors import InvalidParameter
from sfumato.ledger import StoredAnswer
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.sql.question_files import WrittenQuestion, question_in_refusals
from sfumato.privacy import codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.proposal import ReleaseCall, StoredProposal
from sfumato.release.requests import RequestedSeries, repeated_receipt
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias


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
