"""Principal components of columns of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import (
    ROWS_HELP,
    Count,
    Names,
    ReleaseKind,
    Rows,
    Spec,
    Text,
    Workspace,
    option_field,
)
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.moment_proposals import ComponentsProposal


@dataclass(frozen=True)
class ComponentsSpec(Spec["ComponentsProposal"]):
    """Find the principal components of columns of numbers, and how far noise may have turned them."""

    table: Rows = option_field(ROWS_HELP)
    columns: Names = option_field("Two or more columns of numbers with declared bounds.")
    where: Text | None = option_field("An SQL condition that selects rows.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)


def propose(workspace: Workspace, spec: ComponentsSpec) -> ComponentsProposal:
    from sfumato.curator.proposals.moment_proposals import propose_components, select_rows

    rows = select_rows(workspace.catalog, spec.table, spec.where)
    return propose_components(workspace.context, rows, spec.columns, spec.rows)


KIND = ReleaseKind(
    "components",
    ComponentsSpec,
    propose,
    "curator.proposals.moment_proposals:ComponentsProposal",
    "inference.components:ComponentsAnswer",
    ("epsilon", "delta", "rho", "within", "confidence", "fresh"),
    ComponentsSpec("visits", ("age", "cost")),
    needs_delta=True,
)
