"""The score of a candidate table, made by any tool, against a private one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.curator.release_kinds import (
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
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.scores import ScoreProposal


@dataclass(frozen=True)
class ScoreSpec(Spec["ScoreProposal"]):
    """Score from 0 to 1000 how close the marginals of a public candidate table are to those of a private one."""

    candidate: Any = option_field("A path, or an Arrow, pandas or polars table.", local=True)
    table: Name | None = option_field("The private table; may be omitted if there is only one.", None)
    k: Count = option_field("All marginals of this many columns are compared.", 3)
    worst: bool = option_field("Score the worst marginal instead of the mean.", False)
    columns: Names | None = option_field("The columns to compare.", None)
    where: Text | None = option_field("An SQL condition that selects private rows.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)
    total: Number | None = option_field("The number of private rows, if it is public.", None)


def propose(workspace: Workspace, spec: ScoreSpec) -> ScoreProposal:
    from sfumato.curator.proposals.scores import propose_score

    fields: dict[str, Any] = vars(spec)
    return propose_score(workspace.context, workspace.catalog, **fields)


_UPLOAD = SkinRefusal(
    "a server cannot score synthetic rows", "ask the owner to score them with the policy file: curator.score(rows)"
)
KIND = ReleaseKind(
    "scores",
    ScoreSpec,
    propose,
    "curator.proposals.scores:ScoreProposal",
    "publish.scoring:CandidateScore",
    ("epsilon", "delta", "rho", "within", "confidence"),
    ScoreSpec("candidate.csv", "visits"),
    refusal_by_skin={
        "rest": _UPLOAD,
        "page": _UPLOAD,
        "command": SkinRefusal(
            "private scores are bought from Python", "call curator.score(rows), or compare exactly: sfumato quality"
        ),
    },
)
