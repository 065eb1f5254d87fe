"""A session that stays open: questions are compared with a threshold as they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import Count, Names, ReleaseKind, SkinRefusal, Spec, Workspace, option
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator.proposals.sessions import ProposedSession


@dataclass(frozen=True)
class OpenSessionSpec(Spec["ProposedSession"]):
    """Tell of questions, as they come, whether each is above a threshold, for one price."""

    threshold: Number = option("What the questions are compared with.")
    positives: Count = option("After so many answers above the threshold the session ends.", 1)
    sensitivity: Number | None = option("What one unit may change in any of the questions.", None)
    tables: Names | None = option("Instead: counts of rows of these tables.", None)
    monotone: bool | None = option("Whether one unit moves all questions the same way.", None)


def propose(workspace: Workspace, spec: OpenSessionSpec) -> ProposedSession:
    from sfumato.curator.proposals.sessions import proposed_session

    return proposed_session(workspace.context, workspace.question, **vars(spec))


_WAITS = SkinRefusal(
    "a session that waits for its questions is not there at a server", "give them all: above(…, questions=[…])"
)
KIND = ReleaseKind(
    "open-sessions",
    OpenSessionSpec,
    propose,
    "curator.proposals.sessions:ProposedSession",
    "curator.proposals.sessions:ThresholdSession",
    ("epsilon", "within", "confidence"),
    OpenSessionSpec(100),
    skins={
        "rest": _WAITS,
        "page": _WAITS,
        "command": SkinRefusal("sessions have a command of their own", "sfumato above"),
    },
)
