"""An online session: a synopsis, and for questions outside it a hypothesis that is checked and updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.curator.release_kinds import (
    QUESTIONS,
    Count,
    Name,
    Names,
    ReleaseKind,
    SkinRefusal,
    Spec,
    Text,
    Workspace,
    option_field,
)
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.online import OnlineProposal


@dataclass(frozen=True)
class OnlineSpec(Spec["OnlineProposal"]):
    """Open a session whose questions are free: a synopsis, and a hypothesis that is checked and updated."""

    table: Name = option_field("A private table of the policy.")
    columns: Names = option_field("The columns that questions may use.")
    ways: Count = option_field("All marginals of this many columns are measured.", 3)
    rounds: Count = option_field("The largest number of updates of the hypothesis.", 20)
    where: Text | None = option_field("An SQL condition that selects rows.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)
    textbook: bool = option_field("Measure the number of rows only, and start from a uniform table.", False)


def propose(workspace: Workspace, spec: OnlineSpec) -> OnlineProposal:
    from sfumato.curator.proposals.online import propose_online

    fields: dict[str, Any] = vars(spec)
    return propose_online(workspace.context, workspace.catalog, **fields)


_NEEDS_PROCESS = SkinRefusal("a server cannot open online sessions", "buy marginals once: answers from them are free")
KIND = ReleaseKind(
    "online",
    OnlineSpec,
    propose,
    "curator.proposals.online:OnlineProposal",
    "curator.proposals.online:OnlineSession",
    ("epsilon", "delta", "rho", "within", "confidence"),
    OnlineSpec("visits", ("clinic", "day")),
    refusal_by_skin={
        "rest": _NEEDS_PROCESS,
        "page": _NEEDS_PROCESS,
        "command": SkinRefusal("online sessions have a command of their own", "run sfumato online POLICY TABLE"),
    },
    contains=(QUESTIONS, "marginals"),
)
