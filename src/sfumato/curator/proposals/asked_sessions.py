"""A session can be one proposal with all of its questions: they are asked one after the other, for one price.

It is what can be bought where no session stays open between two calls: its answers are those that the same questions
get in an open session, up to the last "above" that was paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.session_answers import SessionAnswers
from sfumato.curator.proposals.sessions import ProposedSession
from sfumato.errors import InvalidParameter
from sfumato.ledger import StoredAnswer
from sfumato.plan.canonical import digest
from sfumato.plan.sql.question_files import WrittenQuestion, placed
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.proposal import ReleaseCall
from sfumato.release.releasing import Progress
from sfumato.release.requests import RequestedSeries, given_again


@dataclass(frozen=True)
class AskedSession:
    """A proposal of a session with its questions: only ``release`` spends."""

    _context: Context = field(repr=False)
    session: ProposedSession
    questions: Mapping[str, Question]
    """Every question by its place, from 1."""

    @property
    def identity(self) -> str:
        """Return the hash of what is proposed. A session is never found again: what it says is bought each time."""
        return digest("asked-session", self.session.identity, *(each.identity for each in self.questions.values()))

    @property
    def columns(self) -> Columns:
        """Return what each question is answered with: above or below, and a value where that is paid for."""
        return self.session.columns

    def explain(
        self, epsilon: Number = 1, *, values_epsilon: Number | None = None, confidence: Number = "0.95"
    ) -> Explanation:
        """Describe what the session does at this price, step by step. This is free."""
        many = len(self.questions)
        return self.session.explain(epsilon, values_epsilon=values_epsilon, questions=many, confidence=confidence)

    def error(self, epsilon: Number, *, values_epsilon: Number | None = None, confidence: Number = "0.95") -> float:
        """Return a distance from the threshold: with this confidence every answer is right about numbers further from
        it. Free.
        """
        many = len(self.questions)
        return self.session.error(epsilon, values_epsilon=values_epsilon, questions=many, confidence=confidence)

    def price(self, within: Number, *, confidence: Number = "0.95") -> float:
        """Find the least ε at which every answer is right about numbers further than this from the threshold. Free."""
        return self.session.price(within, questions=len(self.questions), confidence=confidence)

    def rehearse(self, epsilon: Number = 1, *, values_epsilon: Number | None = None) -> SessionAnswers:
        """Answer as the session would, about invented rows. This is free."""
        return rehearsed(self, self._context, lambda there: there.release(epsilon, values_epsilon=values_epsilon))

    def release(
        self,
        epsilon: Number,
        *,
        values_epsilon: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> SessionAnswers:
        """Charge ε, all of it now, ask the questions in their order while the session is open, and close it.

        The same ``request_id`` gives the same answers again, for nothing.
        """
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        asked = RequestedSeries(self._context, self.session.words, self.identity, call)
        known = asked.known()
        if known is not None:
            return self._again(known)
        opened = self.session.opened(epsilon, values_epsilon, call, asked.open, closing=False)
        if isinstance(opened, StoredAnswer):
            return self._again(opened)
        try:
            for each in self.questions.values():
                if opened.left:
                    opened.ask(each)
            said = tuple(each.text for each in self.questions.values())
            made = SessionAnswers(said, tuple(answer for _, answer in opened.answers), opened.receipt)
            asked.finish(opened.tab, made)
        finally:
            opened.close()
        return made

    def _again(self, found: StoredAnswer) -> SessionAnswers:
        """Return what the same request bought."""
        bought = codec.loads_as(SessionAnswers, found.body, longest=len(found.body))
        return replace(bought, receipt=given_again(bought.receipt, self._context))


def asked_session(session: ProposedSession, questions: Sequence[str]) -> AskedSession:
    """Propose a session with these questions; one that cannot be asked in it is refused here, before any charge."""
    listed = tuple(questions)
    if not listed or not all(isinstance(each, str) for each in listed):
        raise InvalidParameter("questions", questions, "a list of at least one question in SQL")
    asked = {}
    for number, each in enumerate(listed, 1):
        with placed(None, WrittenQuestion(each, 1), str(number)):
            asked[str(number)] = session.comparable(each)
    return AskedSession(session._context, session, asked)  # noqa: SLF001
