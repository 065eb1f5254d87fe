"""A cache of recently parsed questions: the meaning of a text follows from the text and the policy.

Nothing cached depends on rows, budget or time; the number and the length of the texts are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sfumato.curator.context import Context
    from sfumato.curator.proposals.questions import Question
    from sfumato.plan.nodes import Query

_MAX_ENTRIES, _MAX_TEXT_LENGTH, _MAX_GROUPS = 32, 4096, 1000


class _CachedQuestion(NamedTuple):
    query: Query
    context: Context
    question: Question | None
    """None for a question that may hold a long list of groups."""


class QuestionCache:
    """The recent questions of one curator and its views, by their texts. Thread-safe."""

    def __init__(self) -> None:
        self._cache: dict[str, _CachedQuestion] = {}

    def get_or_propose(
        self, text: str, context: Context, parse: Callable[[], Query], propose: Callable[[Query], Question]
    ) -> Question:
        """Return the cached question of a text in this context, or parse and propose it."""
        cached = self._cache.get(text)
        if cached is not None and cached.context is context and cached.question is not None:
            return cached.question
        query = parse() if cached is None else cached.query
        question = propose(query)
        if len(text) <= _MAX_TEXT_LENGTH:
            if len(self._cache) >= _MAX_ENTRIES:
                self._cache.clear()
            self._cache[text] = _CachedQuestion(query, context, question if _has_few_groups(query) else None)
        return question


def _has_few_groups(query: Query) -> bool:
    """Return whether the values declared for its keys, and NULL, make few combinations."""
    counts = [len(key.domain.values or ()) for key in query.plan.keys]
    return all(counts) and math.prod(count + 1 for count in counts) <= _MAX_GROUPS
