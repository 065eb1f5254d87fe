"""Bounds for a column, found privately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import Name, ReleaseKind, Spec, Workspace, option_field
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.private_bounds import BoundsProposal


@dataclass(frozen=True)
class BoundsSpec(Spec["BoundsProposal"]):
    """Find bounds for a column of numbers or dates that cover a share of its values."""

    table: Name = option_field("A private table of the policy.")
    column: Name = option_field("A column of numbers or dates, which need not declare bounds.")
    cover: Number = option_field("The share of the values that the bounds should cover.", "0.99")


def propose(workspace: Workspace, spec: BoundsSpec) -> BoundsProposal:
    from sfumato.curator.proposals.private_bounds import propose_bounds

    return propose_bounds(workspace.context, spec.table, spec.column, spec.cover)


KIND = ReleaseKind(
    "bounds",
    BoundsSpec,
    propose,
    "curator.proposals.private_bounds:BoundsProposal",
    "curator.proposals.stored_answers:Bounds",
    ("epsilon", "within", "confidence", "fresh"),
    BoundsSpec("visits", "cost"),
    positional=("confidence",),
)
