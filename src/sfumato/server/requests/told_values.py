"""These frozen types are what callers are told; ``openapi.json`` is written from the same ones.

Our own values inside them write themselves, with a kind by which they are read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, Literal, TypeVar

from sfumato.curator import PeriodStandings, Standing
from sfumato.ledger import Line, Verification
from sfumato.privacy import Budget
from sfumato.server.people.known_people import Act, Token, User
from sfumato.server.releases.running_releases import Phase

A = TypeVar("A")
R = TypeVar("R")


def of(generic: Any, *types: Any) -> Any:
    """Give one of the generic types below with these types in it, which are known when the server starts."""
    return generic[types]


@dataclass(frozen=True)
class PolicyNames:
    """These policies are there for whoever asks."""

    policies: tuple[str, ...]


@dataclass(frozen=True)
class CountedBudget:
    """A budget is told as it is counted, with the share of every allowance that belongs to whoever asks."""

    budget: Budget
    share: Fraction | None


@dataclass(frozen=True)
class FreeReply(Generic[A, R]):
    """This was told for nothing: what was to be done with a proposal, and what came of it."""

    act: A
    result: R


@dataclass(frozen=True)
class Bought(Generic[R]):
    """This was released; it is in a line of the ledger unless nothing was bought."""

    line: int
    free: bool
    result: R


@dataclass(frozen=True)
class PendingRelease:
    """A release is under way."""

    phase: Literal[Phase.QUEUED, Phase.CHARGED]


@dataclass(frozen=True)
class Ended:
    """A release has ended, and its answer is in a line."""

    phase: Literal[Phase.DONE]
    line: int


@dataclass(frozen=True)
class Unlisted(Generic[R]):
    """It has no line, since nothing was bought, and is told at once."""

    phase: Literal[Phase.DONE]
    line: Literal[0]
    result: R


@dataclass(frozen=True)
class LineSummary:
    """This is what people want to know of a line of the ledger (``Line.summary``)."""

    number: int
    time: str
    analyst: str | None
    kind: str
    question: str
    request_id: str | None
    about: int | None
    cost: dict[str, str | None]

    @classmethod
    def of(cls, line: Line, analyst: str | None = None) -> LineSummary:
        """Tell of a line, and who bought what the account itself paid for."""
        found = line.summary()
        return cls(**{**found, "analyst": found["analyst"] or analyst})


@dataclass(frozen=True)
class HistoryLines:
    """These are lines of the ledger, and the number after which the next ones begin; None after the last."""

    lines: tuple[LineSummary, ...] | tuple[Line, ...]
    next: int | None


@dataclass(frozen=True)
class Users:
    """These are all users."""

    users: tuple[User, ...]


@dataclass(frozen=True)
class Tokens:
    """These are all tokens, without their texts."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class MadeToken:
    """A token is told with its text when it is made, and never again."""

    token: Token
    text: str


@dataclass(frozen=True)
class Shares:
    """This is where the share of every analyst stands."""

    shares: dict[str, Standing | PeriodStandings]


@dataclass(frozen=True)
class PauseState:
    """A policy answers nothing new, or answers again."""

    paused: bool


@dataclass(frozen=True)
class Acts:
    """This is what owners did, in order."""

    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Overruns:
    """This is how many answers were later than the clock allowed. PRIVATE: it depends on rows."""

    overruns: int


@dataclass(frozen=True)
class LedgerCheck:
    """Every line of the ledger was checked: all of it holds, or the first bad line is named, and why."""

    holds: bool
    lines: int
    bad: int | None
    words: str

    @classmethod
    def of(cls, found: Verification) -> LedgerCheck:
        """Tell what a verification found."""
        return cls(found.holds, found.lines, found.bad, str(found))


@dataclass(frozen=True)
class Health:
    """A process lives, or takes new work."""

    status: Literal["alive", "ready"]


@dataclass(frozen=True)
class Description:
    """The interface is described in OpenAPI, whose own rules say what stands in its parts."""

    openapi: str
    info: dict[str, str]
    paths: dict[str, dict[str, object]]
    components: dict[str, dict[str, object]]
