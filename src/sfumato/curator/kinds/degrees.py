"""A histogram of degrees: how many nodes have how many edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import QUESTIONS, Count, Name, ReleaseKind, Spec, Workspace, option_field
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.degrees import DegreesProposal


@dataclass(frozen=True)
class DegreesSpec(Spec["DegreesProposal"]):
    """Count the nodes of each degree, in a table whose rows are edges."""

    table: Name = option_field("A private table with one edge in each row, and every row a unit.")
    ends: Name | Sequence[Name] = option_field(
        "The columns of both endpoints, or one of them to count incoming or outgoing edges."
    )
    most: Count | None = option_field("Count all nodes of this degree or a higher one together.", None)


def propose(workspace: Workspace, spec: DegreesSpec) -> DegreesProposal:
    from sfumato.curator.proposals.degrees import propose_degrees

    return propose_degrees(workspace.context, workspace.question, spec.table, spec.ends, spec.most)


KIND = ReleaseKind(
    "degrees",
    DegreesSpec,
    propose,
    "curator.proposals.degrees:DegreesProposal",
    "curator.proposals.degrees:Degrees",
    ("epsilon", "within", "confidence", "fresh"),
    DegreesSpec("ties", ("source", "target"), 8),
    positional=("confidence",),
    contains=(QUESTIONS,),
)
