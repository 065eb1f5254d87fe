"""Survival curves of one or several groups: Kaplan & Meier's with bands, medians and the log-rank test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release_kinds import QUESTIONS, Name, ReleaseKind, Rows, Spec, Text, Workspace, option_field
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.survival import SurvivalProposal


@dataclass(frozen=True)
class SurvivalSpec(Spec["SurvivalProposal"]):
    """Estimate the share of units without an event over time, from one row per unit."""

    table: Rows = option_field("A private table, or a SELECT, with one row for each unit.")
    time: Name = option_field(
        "A column of numbers with declared bounds: when the event happened, or when the unit was last seen without it."
    )
    event: Name = option_field("A boolean column, or one with declared values: whether the event happened.")
    by: Name | None = option_field("A column with declared values: one curve for each.", None)
    event_is: Text | None = option_field("The value that marks the event, if the column is not boolean.", None)
    every: Number | None = option_field(
        "The length of a period; by default 1 for whole numbers, and 1/24 of the range for real numbers.", None
    )
    where: Text | None = option_field("An SQL condition that selects rows.", None)


def propose(workspace: Workspace, spec: SurvivalSpec) -> SurvivalProposal:
    from sfumato.curator.proposals.moment_proposals import select_rows
    from sfumato.curator.proposals.survival import SurvivalColumns, propose_survival

    rows = select_rows(workspace.catalog, spec.table, spec.where)
    columns = SurvivalColumns(spec.time, spec.event, spec.by, spec.event_is, spec.every)
    return propose_survival(workspace.context, rows, columns)


KIND = ReleaseKind(
    "survival",
    SurvivalSpec,
    propose,
    "curator.proposals.survival:SurvivalProposal",
    "inference.survival:SurvivalCurves",
    ("epsilon", "delta", "rho", "within", "confidence", "mechanism", "fresh"),
    SurvivalSpec("patients", "months", "died", "arm"),
    contains=(QUESTIONS,),
)
