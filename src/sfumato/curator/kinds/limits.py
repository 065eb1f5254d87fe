"""Limits per unit, found privately, which the owner may write into the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import Name, ReleaseKind, SkinRefusal, Spec, Workspace, option_field
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.limit_proposals import LimitsProposal


@dataclass(frozen=True)
class LimitsSpec(Spec["LimitsProposal"]):
    """Find limits on rows and groups per unit that keep all rows of a share of the units."""

    table: Name = option_field("A private table of the policy, with an id.")
    by: Name | Sequence[Name] = option_field("Also find a limit on the number of groups of these columns.", ())
    share: Number = option_field("The share of the units that should keep all their rows and groups.", "0.95")


def propose(workspace: Workspace, spec: LimitsSpec) -> LimitsProposal:
    from sfumato.curator.proposals.limit_proposals import propose_limits

    return propose_limits(workspace.context, spec.table, spec.by, spec.share)


_OWNER = SkinRefusal("a server cannot search for good limits", "ask the owner to run the search with the policy file")
KIND = ReleaseKind(
    "limits",
    LimitsSpec,
    propose,
    "curator.proposals.limit_proposals:LimitsProposal",
    "curator.proposals.limit_proposals:UnitLimits",
    ("epsilon", "within", "confidence", "fresh"),
    LimitsSpec("visits", ("clinic",)),
    positional=("confidence",),
    roles=("owner",),
    refusal_by_skin={"rest": _OWNER, "page": _OWNER},
)
