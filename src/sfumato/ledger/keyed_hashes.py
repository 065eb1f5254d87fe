"""Keyed hashes are kept of what identifies private rows: it can be recognised, and a guess cannot be tested.

The plain hash of a file tells whoever sees it whether their guess of the file is right, to the last cell. So a content,
a size, a time or a data version is kept only as HMAC-SHA-256 under a key of 256 random bits. The key is in the ledger's
header and in nothing that leaves the ledger. To those without it, the hashes of two tables are equally random (Bellare
2006: HMAC is a pseudorandom function).
"""

from __future__ import annotations

import hmac

from sfumato.caching import cached_property


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
