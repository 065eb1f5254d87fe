"""A line as it is stored: plain columns, sealed by a hash that covers all of them and the line before.

Identifiers of private rows are stored as keyed hashes: they can be recognised, but a guess cannot be tested.

The plain hash of a file confirms a guess of the file to anyone who sees it, to the last cell. So a content, a size, a
time or a data version is kept only as HMAC-SHA-256 under a key of 256 random bits. The key is in the ledger's header
and in nothing that leaves the ledger. Without it, the hashes of two tables are indistinguishable from random (Bellare
2006: HMAC is a pseudorandom function).
"""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any, NamedTuple

from sfumato.caching import cached_property
from sfumato.errors import LedgerDamaged

EMPTY_HEAD_HASH = "0" * 64
"""The hash of an empty ledger's head, in its anchor."""

MAX_TIME = 253402300799999999
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
    "request",
    "request-step",
)


class Row(NamedTuple):
    """One line as it is stored. Every text is present, empty where it has no meaning; amounts are written by
    ``spending``.

    The newest line of an account, of an analyst or of a tab holds its complete state, so that a charge reads a handful
    of rows however long the history is.
    """

    number: int = 0
    time: int = 0
    """Microseconds since 1970, UTC, up to ``MAX_TIME``; never less than in the line before, whatever the clock does."""
    tab: int = 0
    """The number of the line that opened the tab; 0 outside tabs."""
    about: int = 0
    """The charge that an answer belongs to, or that was stopped without one; for a request for approval, the line that
    opened its account, and for a step of one, the request; 0 otherwise."""
    terms: int = 0
    """The number of the line with the account's terms: its opening, or the last amendment."""
    kind: str = ""
    account: str = ""
    analyst: str = ""
    request: str = ""
    question: str = ""
    """The question's text, or the owner's reason."""
    plan: str = ""
    data: str = ""
    """The data version: a keyed hash. In an acknowledgement, the hash of the anchor's line."""
    parts: str = ""
    """JSON: the mechanisms that were run, with their sensitivities."""
    detail: str = ""
    """JSON: terms, accuracy, source."""
    body: str = ""
    """JSON: the answer; empty where a file holds it."""
    file: str = ""
    """SHA-256 of an answer that is stored as a file beside the ledger."""
    cost: str = ""
    """What this line spends."""
    left: str = ""
    """What the tab still holds after it; empty outside tabs."""
    totals: str = ""
    """What the account has spent and holds after this line."""
    share: str = ""
    """The analyst's share of every allowance, if any."""
    own: str = ""
    """What the analyst has spent and holds after this line."""
    salt: str = ""
    """128 random bits that never leave the ledger: without them the hash of a line confirms no guess of the line."""
    previous: str = ""
    hash: str = ""

    @property
    def moved_to(self) -> str:
        """Where the ledger was moved to, if this line records a move; else empty."""
        return str(json.loads(self.detail)["moved"]) if self.kind == "moved" else ""

    def sealed(self) -> Row:
        """Return the row with its seal."""
        return tuple.__new__(Row, (*self[:-1], self.compute_seal()))

    def compute_seal(self) -> str:
        """Compute the SHA-256 of every other column.

        No text may contain NUL and the number of columns is fixed, so columns joined by NUL can be split in only one
        way: a column that contained one would make one too many.
        """
        texts: Any = self[_INTEGER_COLUMNS:-1]
        try:
            columns = _INTEGER_FORMAT % self[:_INTEGER_COLUMNS] + "\0".join(texts)
        except TypeError:
            raise LedgerDamaged(self.number, "one of its columns has the wrong type") from None
        return sha256(columns.encode(errors="surrogatepass")).hexdigest()


COLUMNS = Row._fields
_INTEGER_COLUMNS = COLUMNS.index("kind")  # integers come first, then texts
_INTEGER_FORMAT = "%d\0" * _INTEGER_COLUMNS


class KeyedHash:
    """HMAC-SHA-256 under one ledger's key: equal for equal values, and unpredictable without the key."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")
        """HMAC after the key and before any text: each hash continues a copy of it."""

    def __call__(self, what: str, value: str) -> str:
        """Hash a value for one purpose, ``what``; the same text for another purpose has another hash."""
        keyed = self._keyed.copy()
        keyed.update(f"{what}\0{value}".encode(errors="surrogatepass"))
        return keyed.hexdigest()

    @cached_property
    def origin(self) -> str:
        """The hash before the first line: a chain belongs to its key, so a changed key is detected."""
        return self("before the first line", "")
