"""A workload: several questions at one price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.curator.release_kinds import (
    QUESTIONS,
    Name,
    ReleaseKind,
    SizeBounds,
    SkinRefusal,
    Spec,
    Text,
    Workspace,
    option_field,
)
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.workloads import WorkloadProposal

_Questions = Annotated[Sequence[Text], SizeBounds(1, 10**9)] | Mapping[Name, Text]


@dataclass(frozen=True)
class WorkloadSpec(Spec["WorkloadProposal"]):
    """Ask several questions at one price: a list, or by name."""

    questions: _Questions | Any = option_field("Questions in SQL, in a list or by name.")


def propose(workspace: Workspace, spec: WorkloadSpec) -> WorkloadProposal:
    from sfumato.curator.proposals.workloads import propose_workload

    return propose_workload(workspace.context, lambda text: workspace.sql(text, None), spec.questions)


_QUERY = SkinRefusal("workloads have no command of their own", "run sfumato query POLICY --file questions.sql")
_ONE_QUESTION = SkinRefusal(
    "the web page asks one question at a time", "ask a workload from Python: curator.workload([…])"
)
KIND = ReleaseKind(
    "workloads",
    WorkloadSpec,
    propose,
    "curator.proposals.workloads:WorkloadProposal",
    "curator.proposals.stored_answers:Answers",
    ("epsilon", "delta", "rho", "question widths", "confidence", "mechanism", "weights", "joint", "fresh"),
    WorkloadSpec(("SELECT COUNT(*) AS n FROM visits",)),
    refusal_by_skin={"command": _QUERY, "page": _ONE_QUESTION},
    contains=(QUESTIONS,),
)
