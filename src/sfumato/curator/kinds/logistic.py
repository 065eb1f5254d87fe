"""A logistic regression of an event on some columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import (
    ROWS_HELP,
    Count,
    Name,
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
    from sfumato.curator.proposals.logistic import LogisticProposal


@dataclass(frozen=True)
class LogisticSpec(Spec["LogisticProposal"]):
    """Regress the odds of an event on columns: odds ratios with intervals that cover the noise."""

    table: Rows = option_field(ROWS_HELP)
    formula: Text | None = option_field('The model, such as "died ~ age + C(arm)".', None)
    target: Name | None = option_field("Without a formula: the column with the event.", None)
    on: Names | None = option_field("Without a formula: the columns that explain the target.", None)
    event: Text | None = option_field(
        "The value of the target that counts as the event; by default the second of two.", None
    )
    where: Text | None = option_field("An SQL condition that selects rows.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)


def propose(workspace: Workspace, spec: LogisticSpec) -> LogisticProposal:
    from sfumato.curator.proposals.logistic import propose_logistic
    from sfumato.curator.proposals.moment_proposals import select_rows

    rows = select_rows(workspace.catalog, spec.table, spec.where)
    return propose_logistic(
        workspace.context,
        rows,
        spec.formula,
        target=spec.target,
        on=spec.on,
        event=spec.event,
        row_limit=spec.rows,
    )


KIND = ReleaseKind(
    "logistic",
    LogisticSpec,
    propose,
    "curator.proposals.logistic:LogisticProposal",
    "inference.regression_answers:LogisticAnswer",
    ("epsilon", "delta", "rho", "column widths", "confidence"),
    LogisticSpec("visits", "region ~ age + cost", event="north"),
    needs_delta=True,
    cost_class=1,
)
