"""Synthetic tables that belong together: parents, and children of every parent.

A kind of its own, beside that of one table: its answer holds several tables and their keys, and its options speak of
several tables. ``curator.synthesize`` proposes either, by whether it is given one table or a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import Count, Name, Names, ReleaseKind, SkinRefusal, Spec, Workspace, option_field
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.linked_tables import LinkedTablesProposal


@dataclass(frozen=True)
class LinkedTablesSpec(Spec["LinkedTablesProposal"]):
    """Make synthetic tables that belong together: parents, and children of every parent, for one price."""

    tables: Names = option_field("A parent table, and the tables below it.")
    ways: Count = option_field("The workload: all marginals of up to this many columns.", 3)
    columns: Names | None = option_field("The columns of the tables, such as visits.ward; by default all.", None)
    given: Names | None = option_field(
        "The columns of the parents on which the columns of their children depend; by default as many as the model "
        "can hold.",
        None,
    )
    order: Name | Names | None = option_field(
        "The column that orders the children of one parent, such as visits.day: each child then depends on the one "
        "before. With several child tables, name one column of each.",
        None,
    )
    ends: bool = option_field(
        "With an order: also model which children are the first, the last or the only one of their parent.", False
    )
    memory: str | int = option_field("The memory limit of each model.", "1 GiB", local=True)


def propose(workspace: Workspace, spec: LinkedTablesSpec) -> LinkedTablesProposal:
    from sfumato.curator.proposals.linked_tables import LinkedTablesOptions, propose_linked_tables

    # a command leaves them out as empty lists
    not_given = {name: None for name in ("columns", "given", "order") if getattr(spec, name) == ()}
    return propose_linked_tables(workspace.context, workspace.catalog, LinkedTablesOptions(**vars(spec) | not_given))


_PAGE = SkinRefusal(
    "the web page cannot make synthetic tables", 'make them from Python: curator.synthesize(["patients", "visits"])'
)
KIND = ReleaseKind(
    "linked",
    LinkedTablesSpec,
    propose,
    "curator.proposals.linked_tables:LinkedTablesProposal",
    "publish.synthetic_tables:SyntheticTables",
    ("epsilon", "delta", "rho", "within"),
    LinkedTablesSpec(("patients", "visits")),
    refusal_by_skin={"page": _PAGE},
    cost_class=1,
    contains=("synthesis", "marginals"),
)
