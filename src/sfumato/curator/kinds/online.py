"""An online session: a synopsis, and for questions outside it a hypothesis that is checked and mended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.release_kinds import Count, Name, Names, ReleaseKind, SkinRefusal, Spec, Text, Workspace, option

if TYPE_CHECKING:
    from sfumato.curator.proposals.online import ProposedOnline


@dataclass(frozen=True)
class OnlineSpec(Spec["ProposedOnline"]):
    """Open a session whose questions are free: a synopsis, and a hypothesis that is checked and mended."""

    table: Name = option("A private table of the policy.")
    columns: Names = option("The columns that questions may be about.")
    ways: Count = option("Marginals of every so many columns are measured.", 3)
    rounds: Count = option("How often the hypothesis is mended, at most.", 20)
    where: Text | None = option("A condition in SQL that rows meet.", None)
    rows: Count | None = option("How many rows of one unit count, at most.", None)
    textbook: bool = option("Measure the number of rows alone, and start from an even table.", False)


def propose(workspace: Workspace, spec: OnlineSpec) -> ProposedOnline:
    from sfumato.curator.proposals.online import proposed_online

    given: dict[str, Any] = vars(spec)
    return proposed_online(workspace.context, workspace.catalog, **given)


_OPEN = SkinRefusal("an online session is not there at a server", "buy marginals once: questions to them are free")
KIND = ReleaseKind(
    "online",
    OnlineSpec,
    propose,
    "curator.proposals.online:ProposedOnline",
    "curator.proposals.online:OnlineSession",
    ("epsilon", "delta", "rho", "within", "confidence"),
    OnlineSpec("visits", ("clinic", "day")),
    skins={
        "rest": _OPEN,
        "page": _OPEN,
        "command": SkinRefusal("online sessions have a command of their own", "sfumato online"),
    },
)
