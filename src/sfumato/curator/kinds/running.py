"""Running totals of a count or sum by day, week, month or integer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.curator.release_kinds import QUESTIONS, ReleaseKind, SkinRefusal, Spec, Text, Workspace, option_field
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.questions import Question
    from sfumato.curator.proposals.running_counts import RunningTotalsProposal


@dataclass(frozen=True)
class RunningSpec(Spec["RunningTotalsProposal"]):
    """Count or sum up to each day, week, month or integer, at one price for all totals."""

    question: Text | Any = option_field("A question in SQL, grouped by a declared date, week, month or integer.")


def propose(workspace: Workspace, spec: RunningSpec) -> RunningTotalsProposal:
    from sfumato.curator.proposals.running_counts import propose_running_totals

    question: Question | Any = spec.question
    return propose_running_totals(
        workspace.context, workspace.sql(question, None) if isinstance(question, str) else question
    )


KIND = ReleaseKind(
    "running",
    RunningSpec,
    propose,
    "curator.proposals.running_counts:RunningTotalsProposal",
    "release.running_totals:RunningAnswer",
    ("epsilon", "delta", "rho", "within", "confidence", "joint", "mechanism", "fresh"),
    RunningSpec("SELECT day, COUNT(*) AS visits FROM visits GROUP BY day"),
    refusal_by_skin={
        "command": SkinRefusal("running totals have a command of their own", "run sfumato running POLICY SQL")
    },
    contains=(QUESTIONS,),
)
