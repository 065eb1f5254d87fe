"""The base class of proposals that are priced by ε alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from sfumato.curator.context import Context
from sfumato.curator.previews.previewing import preview_release
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, StoredProposal, release_or_find
from sfumato.release.releasing import ReleaseStrategy, StoredResult
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

T = TypeVar("T")
K = TypeVar("K", covariant=True)


class PricedStrategy(ReleaseStrategy[K], Protocol[K]):
    """A release strategy with a known price."""

    @property
    def total(self) -> Price: ...


class EpsilonPricedProposal(RehearseAlias, StoredProposal, Generic[T]):
    """A proposal priced by ε: subclasses define the draw, and how its result is shown."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The proposal in words."""

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """The released columns with their types."""

    @property
    @abstractmethod
    def _paying_context(self) -> Context:
        """The context of the release, with the paying account."""

    @abstractmethod
    def _strategy_at(self, epsilon: Number) -> PricedStrategy[T]:
        """Return the draw at this price."""

    @abstractmethod
    def _with_receipt(self, result: StoredResult[T], confidence: Number) -> T:
        """Return the drawn value with its receipt."""

    def release(
        self,
        epsilon: Number,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> T:
        """Charge ε and draw; a stored result that is at least as accurate is returned free."""
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._strategy_at(epsilon)
        return release_or_find(
            draw,
            draw.total,
            lambda result: self._with_receipt(result, confidence),
            question=self.text,
            plan=self.plan_key,
            context=self._paying_context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def preview(self, epsilon: Number, *, confidence: Number = DEFAULT_CONFIDENCE) -> T:
        """Return a result drawn from invented rows, from the policy alone. Free."""
        return preview_release(
            self, self._paying_context, lambda proposal: proposal.release(epsilon, confidence=confidence)
        )
