"""A question is answered from the policy where it measures nothing: SELECT DISTINCT, or GROUP BY without an
aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.previews.forecasts import Forecast
from sfumato.curator.proposals.questions import Question
from sfumato.plan.words import many, words
from sfumato.privacy.numbers import CONFIDENCE, Number, exact
from sfumato.release.answers.answer import Answer, answer
from sfumato.release.noisy_rows.answer_rows import answer_rows
from sfumato.release.noisy_rows.finishing import finish
from sfumato.release.noisy_rows.key_functions import with_key_functions
from sfumato.release.proposal import receipt
from sfumato.release.purchases import Purchase
from sfumato.release.releasing import Released

_FREE = "ε = 0: from the policy, no row was read"


@dataclass(frozen=True)
class DeclaredValues(Question):
    """These are the values that columns may hold, as the policy or a public table says: free, and never charged.

    It lists what is declared, not what rows hold, so it tells nothing about anybody.
    """

    @property
    def free(self) -> bool:
        """It needs no price."""
        return True

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        return ("These are the values that are declared, whether any row has them or not.",)

    def explain(self, **price: Any) -> Explanation:  # noqa: ARG002
        """Say that no row is read. Free."""
        keys = ", ".join(map(words, self.query.plan.keys))
        what = Operator("list", keys, f"{many(len(self.groups), 'value')}, from the policy or public tables alone")
        return Explanation(self.text, _FREE, (what,), "free: nothing is measured", self.warnings)

    def error(self, *, confidence: Number = "0.95", **price: Any) -> Forecast:  # noqa: ARG002
        """There is no noise. Free."""
        return Forecast({}, exact(confidence, "confidence", CONFIDENCE), _FREE, True, self.warnings)

    def advise(self, **price: Any) -> Advice:  # noqa: ARG002
        """There is no noise, and nothing to advise. Free."""
        return Advice(self.text, _FREE, ())

    def price(self, within: Any = None, **terms: Any) -> float:  # noqa: ARG002
        """Say that it costs nothing."""
        return 0.0

    def release(self, *, confidence: Number = "0.95", **price: Any) -> Answer:  # noqa: ARG002
        """Give the values. Nothing is charged or written down, whatever price is named."""
        rows = answer_rows((), self.groups, len(self.query.plan.keys))
        made, rows = with_key_functions(self.query, rows, self._context.engine.values)
        shown = finish(made, rows, lambda _: [], joint=False)
        found = Released(None, 0, datetime.now(UTC), "", free=False)
        terms = Purchase(_FREE, "none", "none: no row counts", data=self._context.version)
        paper = receipt(found, terms, ("none",), question=self.text, here=self._context, confidence=confidence)
        return answer(self.query, shown, paper, self.warnings)
