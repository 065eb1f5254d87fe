"""An auction: one price for a column of bids, chosen privately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from sfumato.curator.release_kinds import Name, ReleaseKind, SizeBounds, SkinRefusal, Spec, Workspace, option_field
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.table_auctions import AuctionProposal


@dataclass(frozen=True)
class AuctionSpec(Spec["AuctionProposal"]):
    """Sell a digital good to whoever bid in a column, at one of these public prices."""

    prices: Annotated[Sequence[Number], SizeBounds(1, 10000)] = option_field("The public prices to choose from.")
    table: Name | None = option_field("The table with the bids; may be omitted if there is only one.", None)
    column: Name | None = option_field("The column with the bids; may be omitted if there is only one.", None)


def propose(workspace: Workspace, spec: AuctionSpec) -> AuctionProposal:
    from sfumato.curator.proposals.table_auctions import propose_auction

    return propose_auction(workspace.context, spec.table, spec.column, spec.prices)


KIND = ReleaseKind(
    "auctions",
    AuctionSpec,
    propose,
    "curator.proposals.table_auctions:AuctionProposal",
    "curator.proposals.stored_answers:AuctionOutcome",
    ("epsilon", "counting", "within", "confidence", "fresh"),
    AuctionSpec((1, 2, 5, 10), "bids", "bid"),
    positional=("counting", "confidence"),
    refusal_by_skin={"command": SkinRefusal("auctions have a command of their own", "run sfumato auction POLICY")},
)
