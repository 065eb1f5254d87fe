"""A synthetic table: a model of some columns, and rows drawn from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    option,
)
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator.proposals.synthesis import SynthesisProposal

Method = Literal["aim", "mst", "mwem", "independent"]


@dataclass(frozen=True)
class SynthesisSpec(Spec["SynthesisProposal"]):
    """Make a synthetic table: a model whose marginals are as right as the price allows, and rows drawn from it."""

    table: Text = option("A private table, or a SELECT that treats every row by itself.")
    method: Method = option("How marginals are chosen.", "aim")
    ways: Count | NameSets = option("Marginals of every so many columns, or of these sets, are to be right.", 3)
    columns: Names | None = option("The columns, instead of all that have declared values.", None)
    weights: Mapping[Name | tuple[str, ...], Number] | None = option("How much columns count, such as income 3.", None)
    where: Text | None = option("A condition in SQL that rows meet.", None)
    rows: Count | None = option("How many rows of one unit count, at most.", None)
    one_row_per: Name | None = option("With an order: one row stands for each unit.", None)
    order: Name | None = option("Which row stands for a unit: the first by a column, or the last by DESC.", None)
    memory: str | int = option("The most memory that the model may take.", "1 GiB", local=True)


def propose(workspace: Workspace, spec: SynthesisSpec) -> SynthesisProposal:
    from sfumato.curator.proposals.synthesis import synthesis

    given: dict[str, Any] = vars(spec)
    return synthesis(workspace.context, workspace.catalog, **given)


_COMMAND = SkinRefusal("synthetic tables are made by a command of their own", "sfumato synthesize")
_MODEL = SkinRefusal("the page makes no synthetic tables", "make them from Python: curator.synthesize(table)")
KIND = ReleaseKind(
    "synthesis",
    SynthesisSpec,
    propose,
    "curator.proposals.synthesis:SynthesisProposal",
    "publish.synthetic:Synthetic",
    ("epsilon", "delta", "rho", "within", "confidence", "rows"),
    SynthesisSpec("visits"),
    skins={"command": _COMMAND, "page": _MODEL},
    cost_class=1,
)
