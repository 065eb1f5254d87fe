"""A session with a fixed list of questions, each compared with a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from sfumato.curator.kinds.open_sessions import OpenSessionSpec, propose as propose_open
from sfumato.curator.release_kinds import (
    QUESTIONS,
    Count,
    Names,
    ReleaseKind,
    SizeBounds,
    SkinRefusal,
    Spec,
    Text,
    Workspace,
    option_field,
)
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.sessions import ListedSessionProposal


@dataclass(frozen=True)
class SessionSpec(Spec["ListedSessionProposal"]):
    """Compare a list of questions with a threshold, one after the other, for one price."""

    threshold: Number = option_field("The number that questions are compared with.")
    questions: Annotated[Sequence[Text], SizeBounds(1, 1000)] = option_field(
        "Questions in SQL, in the order to ask them."
    )
    positives: Count = option_field("The session ends after this many answers above the threshold.", 1)
    sensitivity: Number | None = option_field(
        "The most that one unit can change the answer to any of the questions.", None
    )
    tables: Names | None = option_field("Instead of a sensitivity: the tables whose rows the questions count.", None)
    monotone: bool | None = option_field(
        "Whether one unit moves the answers to all questions in the same direction.", None
    )


def propose(workspace: Workspace, spec: SessionSpec) -> ListedSessionProposal:
    from sfumato.curator.proposals.sessions import propose_listed_session

    session = propose_open(
        workspace, OpenSessionSpec(spec.threshold, spec.positives, spec.sensitivity, spec.tables, spec.monotone)
    )
    return propose_listed_session(session, spec.questions)


KIND = ReleaseKind(
    "sessions",
    SessionSpec,
    propose,
    "curator.proposals.sessions:ListedSessionProposal",
    "curator.proposals.stored_answers:SessionAnswers",
    ("epsilon", "values_epsilon", "within", "confidence"),
    SessionSpec(100, ("SELECT COUNT(*) AS n FROM visits",)),
    refusal_by_skin={
        "command": SkinRefusal("threshold sessions have a command of their own", "run sfumato above POLICY")
    },
    contains=(QUESTIONS,),
)
