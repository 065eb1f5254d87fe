"""Frozen types of responses, from which ``openapi.json`` is generated.

Codec values inside them encode themselves, with a ``kind`` tag by which clients decode them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Generic, Literal, Self, TypeVar

from sfumato.curator import PeriodStandings, Standing
from sfumato.curator.request_views import RequestView
from sfumato.ledger import Line, Verification
from sfumato.privacy import Budget
from sfumato.quick_dataclass import dataclass
from sfumato.server.people.users import Act, Token, User
from sfumato.server.releases.running_releases import Phase

A = TypeVar("A")
R = TypeVar("R")


def with_types(generic: Any, *types: Any) -> Any:
    """Return a generic response type with these type arguments, which are known when the server starts."""
    return generic[types]


@dataclass(frozen=True)
class PolicyNames:
    """The names of the policies that the caller may see."""

    policies: tuple[str, ...]


@dataclass(frozen=True)
class CountedBudget:
    """A budget as the ledger counts it, with the caller's share of every allowance."""

    budget: Budget
    share: Fraction | None


@dataclass(frozen=True)
class FreeReply(Generic[A, R]):
    """The result of a free call."""

    act: A
    result: R


@dataclass(frozen=True)
class Bought(Generic[R]):
    """The answer of a release, and its ledger line: 0 if nothing was bought."""

    line: int
    free: bool
    result: R


@dataclass(frozen=True)
class PendingRelease:
    """A release in progress."""

    phase: Literal[Phase.QUEUED, Phase.CHARGED]


@dataclass(frozen=True)
class Ended:
    """A completed release, with the ledger line of its answer."""

    phase: Literal[Phase.DONE]
    line: int


@dataclass(frozen=True)
class Unlisted(Generic[R]):
    """A completed release without a ledger line, because nothing was bought; the answer is included."""

    phase: Literal[Phase.DONE]
    line: Literal[0]
    result: R


@dataclass(frozen=True)
class LineSummary:
    """The summary of a ledger line (``Line.summary``)."""

    number: int
    time: str
    analyst: str | None
    kind: str
    question: str
    request_id: str | None
    about: int | None
    cost: dict[str, str | None]

    @classmethod
    def from_line(cls, line: Line, analyst: str | None = None) -> Self:
        """Summarise a line; ``analyst`` names the buyer if the account itself paid."""
        summary = line.summary()
        return cls(**{**summary, "analyst": summary["analyst"] or analyst})


@dataclass(frozen=True)
class AmendmentLine(LineSummary):
    """The line of an amendment, and why the new guarantee for life is weak; empty for a strong one."""

    warnings: tuple[str, ...] = ()
    record: Line | None = None
    """The complete line."""


@dataclass(frozen=True)
class HistoryLines:
    """Ledger lines, and the number after which the next page begins; None on the last page."""

    lines: tuple[LineSummary, ...] | tuple[Line, ...]
    next: int | None


@dataclass(frozen=True)
class Users:
    """All users."""

    users: tuple[User, ...]


@dataclass(frozen=True)
class Tokens:
    """All tokens, without their secret texts."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class CreatedToken:
    """A new token with its secret text, which is never shown again."""

    token: Token
    text: str


@dataclass(frozen=True)
class LoginLink:
    """A login link that works once: a path below the server's address, and the minutes for which it works."""

    path: str
    minutes: int


@dataclass(frozen=True)
class Shares:
    """The standing of every analyst's share."""

    shares: dict[str, Standing | PeriodStandings]


@dataclass(frozen=True)
class Requests:
    """Requests for approval, newest first."""

    requests: tuple[RequestView, ...]


@dataclass(frozen=True)
class PauseState:
    """Whether a policy is paused."""

    paused: bool


@dataclass(frozen=True)
class Acts:
    """Recorded acts of owners, in order."""

    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Overruns:
    """How many answers were later than the clock allows. PRIVATE: it depends on rows."""

    overruns: int


@dataclass(frozen=True)
class LedgerCheck:
    """The result of verifying the ledger: whether it holds, or the first bad line and why."""

    holds: bool
    lines: int
    bad: int | None
    words: str

    @classmethod
    def from_verification(cls, verification: Verification) -> LedgerCheck:
        return cls(verification.holds, verification.lines, verification.bad, str(verification))


@dataclass(frozen=True)
class Health:
    """Whether a process is alive, or ready for new work."""

    status: Literal["alive", "ready"]


@dataclass(frozen=True)
class Description:
    """An OpenAPI document."""

    openapi: str
    info: dict[str, str]
    paths: dict[str, dict[str, object]]
    components: dict[str, dict[str, object]]
