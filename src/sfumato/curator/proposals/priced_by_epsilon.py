"""Some proposals are paid with an ε alone: they are released in one way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from sfumato.curator.context import Context
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.privacy.numbers import CONFIDENCE, Number, exact
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, released
from sfumato.release.releasing import Progress, ReleaseStrategy, StoredResult

T = TypeVar("T")
K = TypeVar("K", covariant=True)


class Draw(ReleaseStrategy[K], Protocol[K]):
    """This kind of release knows its price."""

    @property
    def total(self) -> Price: ...


class PricedByEpsilon(ABC, Generic[T]):
    """Such a proposal says what is drawn for an ε, and what is shown of that."""

    @property
    @abstractmethod
    def text(self) -> str:
        """Describe what is asked, in words."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return the hash of what is measured, under which stored answers are found."""

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """List what is released, by name and type."""

    @property
    @abstractmethod
    def _where(self) -> Context:
        """Return where it is released, and who pays."""

    @abstractmethod
    def _draw(self, epsilon: Number) -> Draw[T]:
        """Return what is drawn at this price."""

    @abstractmethod
    def _shown(self, found: StoredResult[T], confidence: Number) -> T:
        """Return what was drawn, with its receipt."""

    def release(
        self,
        epsilon: Number,
        *,
        confidence: Number = "0.95",
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> T:
        """Charge ε and draw; what was drawn before, at least as accurate, is found again and free."""
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._draw(epsilon)
        return released(
            draw,
            draw.total,
            lambda found: self._shown(found, confidence),
            question=self.text,
            plan=self.identity,
            here=self._where,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def rehearse(self, epsilon: Number, *, confidence: Number = "0.95") -> T:
        """Return what would be released, drawn from invented rows: from the policy alone, and free."""
        return rehearsed(self, self._where, lambda there: there.release(epsilon, confidence=confidence))
