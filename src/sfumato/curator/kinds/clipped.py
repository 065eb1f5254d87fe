"""What limits and bounds cut from the answer to a question: shares of units and of cells, at one price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import (
    QUESTIONS,
    Count,
    ReleaseKind,
    SkinRefusal,
    Spec,
    Text,
    Workspace,
    option_field,
)
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.workloads import WorkloadProposal


@dataclass(frozen=True)
class ClippedSpec(Spec["WorkloadProposal"]):
    """Count the units beyond each limit of a question, and the cells beyond each bound."""

    question: Text = option_field("The question in SQL.")
    rows: Count | None = option_field("A limit of rows per unit for this question, below the policy's.", None)
    groups: Count | None = option_field("A limit of groups per unit for this question.", None)
    rows_per_group: Count | None = option_field("A limit of rows per unit in each group for this question.", None)


def propose(workspace: Workspace, spec: ClippedSpec) -> WorkloadProposal:
    question = workspace.question(spec.question)
    if any(limit is not None for limit in (spec.rows, spec.groups, spec.rows_per_group)):
        question = question.limit(rows=spec.rows, groups=spec.groups, rows_per_group=spec.rows_per_group)
    proposal: WorkloadProposal = question.clipped()
    return proposal


_QUERY = SkinRefusal("clipped counts have no command of their own", "run sfumato query POLICY SQL --clipped")
_NO_PAGE = SkinRefusal(
    "the web page cannot buy counts of what limits and bounds remove",
    "buy these counts from Python with curator.sql(…).clipped(), or with sfumato query --clipped",
)
KIND = ReleaseKind(
    "clipped",
    ClippedSpec,
    propose,
    "curator.proposals.workloads:WorkloadProposal",
    "curator.proposals.stored_answers:Answers",
    ("epsilon", "delta", "rho", "question widths", "confidence", "mechanism", "weights", "joint", "fresh"),
    ClippedSpec("SELECT AVG(cost) AS cost FROM visits"),
    refusal_by_skin={"command": _QUERY, "page": _NO_PAGE},
    contains=(QUESTIONS, "workloads"),
)
