"""A linear regression of one column on others."""

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
    from sfumato.curator.proposals.regressions import RegressionProposal


@dataclass(frozen=True)
class RegressionSpec(Spec["RegressionProposal"]):
    """Regress a column of numbers on others: coefficients with intervals that cover the noise."""

    table: Rows = option_field(ROWS_HELP)
    formula: Text | None = option_field('The model, such as "hours ~ age + C(sex)".', None)
    target: Name | None = option_field("Without a formula: the column to explain.", None)
    on: Names | None = option_field("Without a formula: the columns that explain the target.", None)
    where: Text | None = option_field("An SQL condition that selects rows.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)
    robust: bool = option_field(
        "Make sampling errors robust to unequal variances and to correlated rows of a unit; a fifth of ρ pays for "
        "this.",
        False,
    )


def propose(workspace: Workspace, spec: RegressionSpec) -> RegressionProposal:
    from sfumato.curator.proposals.moment_proposals import select_rows
    from sfumato.curator.proposals.regressions import propose_regression

    rows = select_rows(workspace.catalog, spec.table, spec.where)
    return propose_regression(
        workspace.context, rows, spec.formula, target=spec.target, on=spec.on, row_limit=spec.rows, robust=spec.robust
    )


KIND = ReleaseKind(
    "regress",
    RegressionSpec,
    propose,
    "curator.proposals.regressions:RegressionProposal",
    "inference.regression_answers:RegressionAnswer",
    ("epsilon", "delta", "rho", "column widths", "confidence", "fresh"),
    RegressionSpec("visits", "cost ~ age + region"),
    needs_delta=True,
)
