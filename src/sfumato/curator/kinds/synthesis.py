"""A synthetic table: a model of some columns, and rows drawn from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

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
    from sfumato.curator.proposals.synthesis import SynthesisProposal

Method = Literal["aim", "mst", "mwem", "independent"]


@dataclass(frozen=True)
class SynthesisSpec(Spec["SynthesisProposal"]):
    """Make a synthetic table: fit a model to noisy marginals, and draw rows from it."""

    table: Text | None = option_field(
        "A private table, or a SELECT that maps and filters single rows; may be omitted if there is only one.", None
    )
    method: Method = option_field("How marginals are chosen.", "aim")
    ways: Count | NameSets = option_field("The workload: all marginals of this many columns, or of these sets.", 3)
    columns: Names | None = option_field("The columns; by default all with declared values.", None)
    weights: Mapping[Name | tuple[str, ...], Number] | None = option_field(
        'Weights of columns, such as {"income": 3}.', None
    )
    where: Text | None = option_field("An SQL condition that selects rows.", None)
    rows: Count | None = option_field("Count at most this many rows per unit.", None)
    one_row_per: Name | None = option_field('With an order: "unit", so that one row of each unit is used.', None)
    order: Name | None = option_field(
        "Which row of a unit is used: the first by this column, or the last with DESC.", None
    )
    target: Name | None = option_field(
        "The column that models will be trained to predict: AIM measures its pairs with all others first.", None
    )
    memory: str | int = option_field("The memory limit of the model.", "1 GiB", local=True)


def propose(workspace: Workspace, spec: SynthesisSpec) -> SynthesisProposal:
    from sfumato.curator.proposals.selected_columns import only_private_table
    from sfumato.curator.proposals.synthesis import propose_synthesis
    from sfumato.curator.proposals.synthesis_series import SynthesisOptions

    table = only_private_table(workspace.context.policy) if spec.table is None else spec.table
    return propose_synthesis(workspace.context, workspace.catalog, SynthesisOptions(**vars(spec) | {"table": table}))


_COMMAND = SkinRefusal("synthetic tables have a command of their own", "run sfumato synthesize POLICY TABLE")
_MODEL = SkinRefusal("the web page cannot make synthetic tables", "make them from Python: curator.synthesize(table)")
KIND = ReleaseKind(
    "synthesis",
    SynthesisSpec,
    propose,
    "curator.proposals.synthesis:SynthesisProposal",
    "publish.synthetic:Synthetic",
    ("epsilon", "delta", "rho", "within", "confidence", "rows"),
    SynthesisSpec("visits"),
    refusal_by_skin={"command": _COMMAND, "page": _MODEL},
    cost_class=1,
    contains=("marginals",),
)
