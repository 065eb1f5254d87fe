"""Marginals of a table, measured once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sfumato.curator.release_kinds import (
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
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.marginals import MarginalsProposal

Objective = Literal["total", "worst"]


@dataclass(frozen=True)
class MarginalsSpec(Spec["MarginalsProposal"]):
    """Measure marginals of a table once; questions to them afterwards are free."""

    table: Name = option_field("A private table of the policy.")
    ways: Count | NameSets = option_field("All marginals of this many columns, or of these sets of columns.", 2)
    weights: Sequence[Number] | Mapping[tuple[str, ...], Number] | None = option_field(
        "The weight of each marginal's error.", None
    )
    objective: Objective = option_field(
        "Minimise the sum of the variances of all cells, or the largest of them.", "total"
    )
    where: Text | None = option_field("An SQL condition that selects rows.", None)
    columns: Names | None = option_field("The columns; by default all with declared values.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)


def propose(workspace: Workspace, spec: MarginalsSpec) -> MarginalsProposal:
    from sfumato.curator.proposals.marginals import propose_marginals

    fields: dict[str, Any] = vars(spec)
    return propose_marginals(workspace.context, workspace.catalog, **fields)


_PUBLISH = SkinRefusal("marginals have a command of their own", "run sfumato publish POLICY TABLE")
_MODEL = SkinRefusal(
    "the web page cannot publish marginals", "publish them from Python: curator.marginals(table, ways)"
)
KIND = ReleaseKind(
    "marginals",
    MarginalsSpec,
    propose,
    "curator.proposals.marginals:MarginalsProposal",
    "publish.synopsis:Synopsis",
    ("epsilon", "delta", "rho", "within", "for", "confidence", "mechanism", "joint", "fresh"),
    MarginalsSpec("visits", 2),
    positional=("for_",),
    refusal_by_skin={"command": _PUBLISH, "page": _MODEL},
    cost_class=1,
)
