"""Files that hold tables: which ones a source means, whether they are still the same, what is in them."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import InvalidPolicy

KINDS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
_HEADER_BYTES = 1 << 20
_BLOCK = 1 << 20

Stamp = tuple[str, int, int, int]
"""A file's path, size, time of change in ns, and inode."""


@dataclass(frozen=True)
class Files:
    """The files of one source as they were when it was opened."""

    kind: str
    source: Path
    stamps: tuple[Stamp, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path, *_ in self.stamps)

    def unchanged(self) -> bool:
        """Whether the same files are still there, by path, size, time of change and inode."""
        try:
            return _stamps(self.kind, self.source) == self.stamps
        except OSError:
            return False


def find(source: Path, place: str) -> Files:
    """The files a source names, in order; a missing one or one of no known kind is refused."""
    kind = KINDS.get(source.suffix.lower())
    if kind is None:
        raise InvalidPolicy(
            "the kind of a source is told by its ending", place=place, fix="name a .csv, .parquet or .duckdb file"
        )
    try:
        stamps = _stamps(kind, source)
    except (OSError, ValueError):
        stamps = ()
    if not stamps:
        raise InvalidPolicy(
            "there is no such file", place=place, fix="check the path: it is relative to the policy file"
        )
    if kind != "duckdb" and any(letter in path for path, *_ in stamps for letter in "*?["):
        raise InvalidPolicy(
            "the engine would read *, ? and [ in a file's own path as a pattern",
            place=place,
            fix="rename the file or folder",
        )
    return Files(kind, source, stamps)


def _stamps(kind: str, source: Path) -> tuple[Stamp, ...]:
    absolute = os.path.abspath(source)
    paths = [absolute] if os.path.lexists(absolute) or kind == "duckdb" else sorted(glob.glob(absolute, recursive=True))
    if kind == "duckdb" and os.path.exists(absolute + ".wal"):
        paths.append(absolute + ".wal")
    return tuple(_stamp(path) for path in paths)


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(path)
    path.encode()  # the engine takes paths as UTF-8
    return path, found.st_size, found.st_mtime_ns, found.st_ino


def digest(*parts: object) -> str:
    """A short name for what JSON can say, equal for equal parts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def content(files: Files) -> str:
    """A hash of every byte, read in blocks."""
    found = hashlib.blake2b(digest_size=32)
    for path, size, *_ in files.stamps:
        found.update(size.to_bytes(8, "big"))
        with open(path, "rb") as opened:
            while block := opened.read(_BLOCK):
                found.update(block)
    return found.hexdigest()


def header(path: str, place: str) -> list[str]:
    """The names in the first record of a CSV file."""
    with open(path, "rb") as opened:
        start = opened.read(_HEADER_BYTES).decode("utf-8-sig", errors="replace")
    try:
        names = next(csv.reader(io.StringIO(start.replace("\0", ""), newline="")), [])
    except csv.Error:
        names = []
    if not names:
        raise InvalidPolicy("a CSV file begins with its column names", place=place, fix="add a header line")
    return names
