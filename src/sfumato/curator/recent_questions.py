"""Questions understood lately: what a text means follows from the text and the policy, so it is parsed once.

Nothing that is kept depends on rows, budget or time, and both the number and the length of the texts are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sfumato.curator.context import Context
from sfumato.curator.proposals.questions import Question
from sfumato.plan.nodes import Query

_MOST_KEPT, _LONGEST_KEPT = 32, 4096


class _Understood(NamedTuple):
    query: Query
    context: Context
    question: Question | None
    """None for a question by groups, which keeps their list: it may be long."""


class RecentQuestions:
    """The questions of the texts that one curator and its views were asked lately. Safe to use from threads."""

    def __init__(self) -> None:
        self._understood: dict[str, _Understood] = {}

    def of(
        self, text: str, context: Context, parse: Callable[[], Query], propose: Callable[[Query], Question]
    ) -> Question:
        """Return the question that a text asks in a context, as it was proposed there before or else anew."""
        known = self._understood.get(text)
        if known is not None and known.context is context and known.question is not None:
            return known.question
        query = parse() if known is None else known.query
        question = propose(query)
        if len(text) <= _LONGEST_KEPT:
            if len(self._understood) >= _MOST_KEPT:
                self._understood.clear()
            self._understood[text] = _Understood(query, context, None if query.plan.keys else question)
        return question
