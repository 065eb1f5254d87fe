"""Which account protects a file that is said to be public, and when its content is read to decide it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sfumato.ledger.accounts import joined_sources


class Described:
    """A file of so many bytes, of whose content a hash is asked in vain."""

    def __init__(self, size: str, table: str = "", content: str | None = None) -> None:
        self.address, self.file_size, self.file_identity, self.change_token = "/data/new.db", size, f"f{size}", ""
        self.table, self._content, self.reads = table, content, 0

    def fingerprint(self) -> str:
        self.reads += 1
        assert self._content is not None, "read"
        return self._content


def keyed(what: str, text: str) -> str:
    return f"{what}:{text}" if text else ""


@pytest.mark.parametrize(
    ("size", "table", "content", "owner", "reads"),
    [
        ("10", "", None, None, 0),  # no joined file has this size
        ("20", "", "same", "first", 1),
        ("20", "", "other", None, 1),
        ("20", "visits", "same", None, 0),  # the joined one is another table
        ("30", "visits", None, None, 0),
        ("30", "", "whole", "second", 1),
        ("30", "days", "whole", "second", 1),
        ("", "", None, None, 0),
    ],
)
def test_a_file_is_read_only_if_data_of_its_size_may_be_the_same(
    size: str, table: str, content: str | None, owner: str | None, reads: int
) -> None:
    joined = [
        ("first", joined_sources.JoinedSource("/data/a", "content:same", "size:20", "file:a", part="part:days")),
        ("second", joined_sources.JoinedSource("/data/b", "content:whole", "size:30", "file:b", part="part:days")),
        ("third", joined_sources.JoinedSource("memory://", "content:m", part="part:visits")),
    ]
    source: Any = Described(size, table, content)
    assert joined_sources.protecting_account(joined, source, None, keyed) == owner
    assert source.reads == reads


def test_a_file_whose_content_is_known_is_not_read(tmp_path: Path) -> None:
    """A caller states the hash of a file of which no reader is there."""
    path = tmp_path / "a.csv"
    path.write_text("day\n1\n")
    size = keyed("size", str(path.stat().st_size))
    joined = [("first", joined_sources.JoinedSource("/data/a", "content:known", size, "file:a"))]
    for content, owner in (("known", "first"), ("other", None)):
        assert joined_sources.protecting_account(joined, str(path), content, keyed) == owner


def test_data_with_a_hash_of_their_own_are_not_read() -> None:
    joined = [("first", joined_sources.JoinedSource("memory://", "content:known"))]
    for content, owner in (("known", "first"), ("other", None)):
        assert joined_sources.protecting_account(joined, "memory://x", content, keyed) == owner
