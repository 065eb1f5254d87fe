"""A line is stored as plain columns, sealed by a hash that covers all of them and the line before.

Keyed hashes are kept of what identifies private rows: it can be recognised, and a guess cannot be tested.

The plain hash of a file tells whoever sees it whether their guess of the file is right, to the last cell. So a content,
a size, a time or a data version is kept only as HMAC-SHA-256 under a key of 256 random bits. The key is in the ledger's
header and in nothing that leaves the ledger. To those without it, the hashes of two tables are equally random (Bellare
2006: HMAC is a pseudorandom function).
"""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any, NamedTuple

from sfumato.caching import cached_property
from sfumato.errors import LedgerDamaged

FIRST = "0" * 64
"""The hash of an empty ledger's head, in its anchor."""

LATEST = 253402300799999999
"""The last microsecond of the year 9999: clocks that show more are wrong, and dates end there."""

KINDS = (
    "account-open",
    "charge",
    "period",
    "answer",
    "stopped",
    "correction",
    "tab-open",
    "step",
    "tab-close",
    "amend",
    "share",
    "source",
    "acknowledge",
    "moved",
)


class Row(NamedTuple):
    """A row is one line as it is stored. Every text is present, empty where it has no meaning; amounts are written by
    ``spending``.

    The newest line of an account, of an analyst or of a tab says all there is to know about it, so that a charge
    reads a handful of rows however long the history is.
    """

    number: int = 0
    time: int = 0
    """Microseconds since 1970, UTC, up to ``LATEST``; never less than the line before says, whatever the clock does."""
    tab: int = 0
    """The number of the line that opened the tab; 0 outside tabs."""
    about: int = 0
    """The charge that an answer answers, or that was stopped without one; 0 otherwise."""
    terms: int = 0
    """The line with the account's terms: its opening, or the last amendment."""
    kind: str = ""
    account: str = ""
    analyst: str = ""
    request: str = ""
    question: str = ""
    """The question's text, or the owner's reason."""
    plan: str = ""
    data: str = ""
    """Which data: a keyed hash. In an acknowledgement, the hash of the anchor's line."""
    parts: str = ""
    """JSON: what was run, and how much one unit changes what it was run on."""
    detail: str = ""
    """JSON: terms, accuracy, source."""
    body: str = ""
    """JSON: the answer; empty where a file holds it."""
    file: str = ""
    """SHA-256 of an answer that is kept as a file beside the ledger."""
    cost: str = ""
    """What this line spends."""
    left: str = ""
    """What the tab still holds after it; empty outside tabs."""
    totals: str = ""
    """What the account has spent and holds after this line."""
    share: str = ""
    """The analyst's share of every allowance, where there is one."""
    own: str = ""
    """What the analyst has spent and holds after this line."""
    salt: str = ""
    """128 random bits that leave the ledger nowhere: without them the hash of a line tests no guess of the line."""
    previous: str = ""
    hash: str = ""

    @property
    def moved_to(self) -> str:
        """Name the place to which the ledger was moved, if this line says so; empty where it does not."""
        return str(json.loads(self.detail)["moved"]) if self.kind == "moved" else ""

    def seal(self) -> str:
        """Compute the SHA-256 of every other column.

        No text may contain NUL and the number of columns is fixed, so columns joined by NUL can be split in one way
        only: a column that did contain one would make one too many.
        """
        texts: Any = self[_NUMBERS:-1]
        try:
            columns = "\0".join((_DIGITS % self[:_NUMBERS], *texts))
        except TypeError:
            raise LedgerDamaged(self.number, "a column is not of its type") from None
        return sha256(columns.encode(errors="surrogatepass")).hexdigest()


COLUMNS = Row._fields
_NUMBERS = COLUMNS.index("kind")  # the numbers come first, then the texts
_DIGITS = "\0".join(["%d"] * _NUMBERS)


class KeyedHash:
    """A keyed hash is made under one ledger's key: equal for equal values, and no more than that."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, what: str, value: str) -> str:
        """Hash a value as this kind of thing; of the same text as another kind it is another."""
        return hmac.digest(self._key, f"{what}\0{value}".encode(errors="surrogatepass"), "sha256").hex()

    @cached_property
    def origin(self) -> str:
        """Give what stands before the first line: a chain belongs to its key, so a key that was changed is noticed."""
        return self("before the first line", "")
