"""A model fitted round by round to the marginals that it gets most wrong (MWEM)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.curator.release_kinds import (
    Cell,
    Count,
    Name,
    Names,
    NameSets,
    ReleaseKind,
    SkinRefusal,
    Spec,
    Text,
    Workspace,
    option_field,
)
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.mwem import MwemProposal

Queries = Sequence[Mapping[Name, Cell | Sequence[Cell]]]


@dataclass(frozen=True)
class MwemSpec(Spec["MwemProposal"]):
    """Fit a model of some columns, round by round, to the marginals it gets most wrong (MWEM)."""

    table: Name = option_field("A private table of the policy.")
    columns: Names | None = option_field("The columns; by default all with declared values.", None)
    ways: Count | NameSets | None = option_field("All marginals of this many columns, or of these sets.", None)
    queries: Queries | None = option_field("Counts, instead of marginals.", None)
    rounds: Count = option_field("The number of marginals or counts that are chosen and measured.", 10)
    textbook: bool = option_field("Measure single counts and use each once, as in the published algorithm.", False)
    where: Text | None = option_field("An SQL condition that selects rows.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)
    update: Text | None = option_field(
        "notes: use the update rule of the lecture notes on private multiplicative weights.", None
    )


def propose(workspace: Workspace, spec: MwemSpec) -> MwemProposal:
    from sfumato.curator.proposals.mwem import propose_mwem

    fields: dict[str, Any] = vars(spec)
    return propose_mwem(workspace.context, workspace.catalog, **fields)


_PUBLISH = SkinRefusal("MWEM models are fitted with sfumato publish", "run sfumato publish POLICY TABLE --method mwem")
_MODEL = SkinRefusal("the web page cannot publish models", "publish them from Python: curator.mwem(table, columns)")
KIND = ReleaseKind(
    "synopses",
    MwemSpec,
    propose,
    "curator.proposals.mwem:MwemProposal",
    "publish.published_files:FittedModel",
    ("epsilon", "delta", "rho", "within", "confidence", "rows"),
    MwemSpec("visits", ("clinic", "day")),
    refusal_by_skin={"command": _PUBLISH, "page": _MODEL},
    cost_class=1,
    contains=("marginals",),
)
