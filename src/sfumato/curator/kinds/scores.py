"""The score of a candidate table, made by any tool, against a private one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.release_kinds import Count, Name, Names, ReleaseKind, SkinRefusal, Spec, Text, Workspace, option
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator.proposals.scores import ScoreProposal


@dataclass(frozen=True)
class ScoreSpec(Spec["ScoreProposal"]):
    """Score how close the marginals of a public candidate table are to those of a private one, from 0 to 1000."""

    candidate: Any = option("A path, or an Arrow, pandas or polars table.", local=True)
    table: Name | None = option("The private table; may be left out where there is one.", None)
    k: Count = option("Marginals of every so many columns are compared.", 3)
    worst: bool = option("The worst marginal decides, not the mean.", False)
    columns: Names | None = option("The columns that are compared.", None)
    where: Text | None = option("A condition in SQL that private rows meet.", None)
    rows: Count | None = option("How many rows of one unit count, at most.", None)
    total: Number | None = option("The number of private rows, where it is public.", None)


def propose(workspace: Workspace, spec: ScoreSpec) -> ScoreProposal:
    from sfumato.curator.proposals.scores import score

    given: dict[str, Any] = vars(spec)
    return score(workspace.context, workspace.catalog, **given)


_UPLOAD = SkinRefusal(
    "the score of a candidate is not there at a server", "ask the owner to release it from the policy's file"
)
KIND = ReleaseKind(
    "scores",
    ScoreSpec,
    propose,
    "curator.proposals.scores:ScoreProposal",
    "publish.scoring:CandidateScore",
    ("epsilon", "delta", "rho", "within", "confidence"),
    ScoreSpec("candidate.csv", "visits"),
    skins={
        "rest": _UPLOAD,
        "page": _UPLOAD,
        "command": SkinRefusal("scores have a command of their own", "sfumato quality"),
    },
)
