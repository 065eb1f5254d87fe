"""The outcome of an auction, readable without the engine that counted the bids."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Laplace
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, POSITIVE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms


@codec.serialisable("sold")
@dataclass(frozen=True)
class AuctionOutcome:
    """A price drawn for a column of bids, and a noisy count of the bids at or above it if a share of ε paid for it."""

    price: Fraction
    buyers: int | None = None
    selection: Exponential | None = field(default=None, repr=False)
    """The mechanism that selected the price."""
    counter: Laplace | None = field(default=None, repr=False)
    """The noise on the count."""
    purchase: PurchaseTerms = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the price, since it quotes the current remaining budget."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", exact(self.price, "price", POSITIVE))
        codec.check_simple_fields(self)

    @property
    def is_preview(self) -> bool:
        """Whether it was invented from the policy alone: nothing was read, charged or stored."""
        return self.receipt is not None and self.receipt.is_preview

    def __repr__(self) -> str:
        buyers = "" if self.buyers is None else f", about {self.buyers:,} buyers"
        return f"<Sold at {format_exact(self.price)}{buyers}>{PREVIEW_MARK if self.is_preview else ''}"

    def as_answer(self) -> Answer:
        """Return one row: the price, and the number of buyers with its interval where it was paid for."""
        if self.receipt is None:
            raise InvalidParameter(
                "receipt",
                None,
                "the receipt of a released sale, because a preview cannot be shown as an answer",
                fix="release the sale first: .release(epsilon=…)",
            )
        price = float(self.price)
        if self.buyers is None or self.counter is None:
            return Answer(("price",), (Type.REAL,), ((price,),), {}, ("price",), self.receipt, ())
        half_width = int(self.counter.error(self.receipt.confidence or DEFAULT_CONFIDENCE))
        interval = float(self.buyers - half_width), float(self.buyers + half_width)
        types = (Type.REAL, Type.INTEGER)
        rows = ((price, self.buyers),)
        return Answer(("price", "buyers"), types, rows, {"buyers": (interval,)}, ("price",), self.receipt, ())

    def to_json(self) -> str:
        """Write the sale as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> AuctionOutcome:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def revenue_range(self, confidence: Number = DEFAULT_CONFIDENCE) -> tuple[float, float] | None:
        """Return an interval for the revenue with this confidence; None without a count."""
        if self.buyers is None or self.counter is None:
            return None
        half_width = int(self.counter.error(confidence))
        return float(self.price * max(0, self.buyers - half_width)), float(
            self.price * (max(0, self.buyers) + half_width)
        )
