"""A session that stays open: questions are compared with a threshold as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import (
    QUESTIONS,
    Count,
    Names,
    ReleaseKind,
    SkinRefusal,
    Spec,
    Workspace,
    option_field,
)
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.sessions import SessionProposal


@dataclass(frozen=True)
class OpenSessionSpec(Spec["SessionProposal"]):
    """Compare questions with a threshold as they arrive, for one price."""

    threshold: Number = option_field("The number that questions are compared with.")
    positives: Count = option_field("The session ends after this many answers above the threshold.", 1)
    sensitivity: Number | None = option_field(
        "The most that one unit can change the answer to any of the questions.", None
    )
    tables: Names | None = option_field("Instead of a sensitivity: the tables whose rows the questions count.", None)
    monotone: bool | None = option_field(
        "Whether one unit moves the answers to all questions in the same direction.", None
    )


def propose(workspace: Workspace, spec: OpenSessionSpec) -> SessionProposal:
    from sfumato.curator.proposals.sessions import propose_session

    return propose_session(workspace.context, workspace.question, **vars(spec))


_NEEDS_PROCESS = SkinRefusal(
    "a threshold session cannot stay open on a server", "send all questions at once: above(…, questions=[…])"
)
KIND = ReleaseKind(
    "open-sessions",
    OpenSessionSpec,
    propose,
    "curator.proposals.sessions:SessionProposal",
    "curator.proposals.sessions:ThresholdSession",
    ("epsilon", "within", "confidence"),
    OpenSessionSpec(100),
    refusal_by_skin={
        "rest": _NEEDS_PROCESS,
        "page": _NEEDS_PROCESS,
        "command": SkinRefusal("threshold sessions have a command of their own", "run sfumato above POLICY"),
    },
    contains=(QUESTIONS,),
)
