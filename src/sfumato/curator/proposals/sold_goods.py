"""The outcome of an auction is read without the engine that counted the bids."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Laplace
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, Number, exact, text
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import INVENTED, Receipt
from sfumato.release.payers import NOT_BOUGHT, Purchase


@codec.value("sold")
@dataclass(frozen=True)
class Sold:
    """A price drawn for a curator's table, and a noisy count of the bids at or above it, if some of ε paid for
    one.
    """

    price: Fraction
    buyers: int | None = None
    selection: Exponential | None = field(default=None, repr=False)
    """The mechanism that chose the price."""
    counter: Laplace | None = field(default=None, repr=False)
    """The noise on the count."""
    purchase: Purchase = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the price, since it says what is left now."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", exact(self.price, "price", POSITIVE))
        codec.check_fields(self)

    @property
    def rehearsed(self) -> bool:
        """Return whether it was invented from the policy alone: nothing was read, charged or written down."""
        return self.receipt is not None and self.receipt.rehearsed

    def __repr__(self) -> str:
        buyers = "" if self.buyers is None else f", about {self.buyers:,} buyers"
        return f"<Sold at {text(self.price)}{buyers}>{INVENTED if self.rehearsed else ''}"

    def as_answer(self) -> Answer:
        """Return one row: the price, and how many bids reach it, with its range, where some of ε paid for that."""
        if self.receipt is None:
            raise InvalidParameter("receipt", None, "there: rows are given of what was bought")
        price = float(self.price)
        if self.buyers is None or self.counter is None:
            return Answer(("price",), (Type.REAL,), ((price,),), {}, ("price",), self.receipt, ())
        reach = int(self.counter.error(self.receipt.confidence or "0.95"))
        ends = float(self.buyers - reach), float(self.buyers + reach)
        types = (Type.REAL, Type.INTEGER)
        rows = ((price, self.buyers),)
        return Answer(("price", "buyers"), types, rows, {"buyers": (ends,)}, ("price",), self.receipt, ())

    def to_json(self) -> str:
        """Write the sale as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Sold:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def revenue_range(self, confidence: Number = "0.95") -> tuple[float, float] | None:
        """Return where the revenue lies, with this confidence."""
        if self.buyers is None or self.counter is None:
            return None
        reach = int(self.counter.error(confidence))
        return float(self.price * max(0, self.buyers - reach)), float(self.price * (max(0, self.buyers) + reach))
