"""A kind of release in one file: how many rows, or units, have each of some listed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.curator.release_kinds import Name, ReleaseKind, Spec, Text, Workspace, option_field
from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from sfumato.curator.proposals.questions import Question


@dataclass(frozen=True)
class TallySpec(Spec["Question"]):
    """Count the rows, or the units, that have each of some values."""

    table: Name = option_field("A private table.")
    column: Name = option_field("A column with declared values.")
    values: Sequence[Text] = option_field("The values to count.")
    count: Literal["rows", "units"] = option_field("What is counted.", "rows")
    where: Text | None = option_field("An SQL condition that selects rows.", None)


def propose(workspace: Workspace, spec: TallySpec) -> Question:
    declared = workspace.context.policy.tables[spec.table]
    known = declared.columns[spec.column].values or ()
    for value in spec.values:
        if value not in known:
            raise InvalidParameter("values", value, f"declared values: {', '.join(map(str, known))}")
    counted = "COUNT(*)" if spec.count == "rows" else f"COUNT(DISTINCT {declared.id})"
    listed = ", ".join(f"'{value}'" for value in spec.values)
    where = f"{spec.column} IN ({listed})" + ("" if spec.where is None else f" AND ({spec.where})")
    text = f"SELECT {spec.column}, {counted} AS n FROM {spec.table} WHERE {where} GROUP BY {spec.column}"
    return workspace.question(text)


KIND = ReleaseKind(
    "tallies",
    TallySpec,
    propose,
    "curator.proposals.questions:Question",
    "release.answers.answer:Answer",
    ("epsilon", "column widths", "confidence", "fresh"),
    TallySpec("visits", "ward", ("A", "B"), "units"),
)
