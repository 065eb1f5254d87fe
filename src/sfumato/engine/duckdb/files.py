"""Files hold tables: this module finds those a source names, and tells whether they are still the same."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import InvalidPolicy

KINDS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
_HEADER_BYTES = 1 << 20
_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Cells that begin and end with a quote, double those inside, and end on the line they began on.
_QUOTED = re.compile(rb'(?<![^,\r\n])"[^"\r\n]*(?:""[^"\r\n]*)*"(?![^,\r\n])')
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}

Stamp = tuple[str, int, int, int]
"""A file's path, size, time of change in ns, and inode."""


@dataclass(frozen=True)
class Files:
    """These are the files of one source as they were when it was opened."""

    kind: str
    source: Path
    stamps: tuple[Stamp, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path, *_ in self.stamps)

    def unchanged(self) -> bool:
        """Tell whether the same files are still there, by path, size, time of change and inode, and can be read."""
        try:
            return _stamps(self.kind, self.source) == self.stamps and all(map(_readable, self.paths))
        except OSError:
            return False


def find(source: Path, place: str) -> Files:
    """Find the files a source names, in order; a missing one or one of no known kind is refused."""
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
    if not all(_readable(path) for path, *_ in stamps):
        raise InvalidPolicy("this file cannot be read", place=place, fix="check its permissions")
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


def _readable(path: str) -> bool:
    """Tell whether it can be opened now, which permissions alone do not tell."""
    try:
        with open(path, "rb"):
            return True
    except OSError:
        return False


def digest(*parts: object) -> str:
    """Make a short name for what JSON can say, equal for equal parts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def content(files: Files) -> str:
    """Hash every byte, in blocks."""
    found = hashlib.blake2b(digest_size=32)
    for path, size, *_ in files.stamps:
        found.update(size.to_bytes(8, "big"))
        with open(path, "rb") as opened:
            while block := opened.read(_BLOCK):
                found.update(block)
    return found.hexdigest()


def header(path: str, place: str) -> list[str]:
    """Read the names in the first record of a CSV file."""
    with open(path, "rb") as opened:
        start = opened.read(_HEADER_BYTES).decode("utf-8-sig", errors="replace")
    try:
        names = next(csv.reader(io.StringIO(start.replace("\0", ""), newline="")), [])
    except csv.Error:
        names = []
    if not names:
        raise InvalidPolicy("a CSV file begins with its column names", place=place, fix="add a header line")
    for separator, words in _OTHER_SEPARATORS.items():
        if len(names) == 1 and separator in names[0]:
            raise InvalidPolicy(
                f"the cells of a CSV file are separated by commas; these column names are separated by {words}",
                place=place,
                fix="write the file again with commas, and with points in decimal numbers",
            )
    return names


def checked_lines(files: Files, place: str) -> int:
    """Count the lines that CSV files have below their headers. Refuse files in which a record might not be a line.

    A quote that is never closed would make one record of many lines, so that one unit's row hides those of others
    beyond every limit. When every quoted cell ends on its line, each line is read by itself: two files that differ in
    one unit's lines differ in that unit's records, which is the stability that the scan relies on. Read once per
    opening; a file that changes later is noticed before anything is charged. Whoever opens is the owner, but may show
    the refusal to others: it does not say where in the file.
    """
    found = [_lines(path) for path in files.paths]
    if not all(well_quoted for _, well_quoted in found):
        raise InvalidPolicy(
            "one line of a CSV file is one record: quotes stand around a whole cell, are doubled inside it, and are "
            "closed on the same line",
            place=place,
            fix="correct the line that sfumato check (without --public) names, or write the table as Parquet, where "
            "texts may span lines",
        )
    return sum(lines - 1 for lines, _ in found)


def misquoted(path: str) -> int | None:
    """Find the number of the first line of a CSV file whose quotes are not those of one record, or None."""
    lines, well_quoted = _lines(path)
    return None if well_quoted else lines


def _lines(path: str) -> tuple[int, bool]:
    """Count the lines of a CSV file, and True; or find the first whose quotes are not of one record, and False."""
    lines = 1
    with open(path, "rb") as opened:
        rest = opened.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
        while block := opened.read(_LONGEST_LINE):
            rest += block
            end = rest.rfind(b"\n") + 1 or rest.rfind(b"\r") + 1
            found = _well_quoted(rest, end)
            lines += _line_ends(rest, found)
            if found < end or len(rest) - end > _LONGEST_LINE:
                return lines, False
            rest = rest[end:]
    found = _well_quoted(rest, len(rest))
    lines += _line_ends(rest, found)
    return (lines, False) if found < len(rest) else (lines - (not rest or rest.endswith(b"\r")), True)


def _well_quoted(text: bytes, end: int) -> int:
    """Find how far the text up to ``end`` is made of plain text and well quoted cells.

    The first quote that begins no such cell is left over when all cells are taken out, wherever it stands.
    """
    if b'"' not in _QUOTED.sub(b"", text[:end]):
        return end
    place = 0
    for cell in _QUOTED.finditer(text, 0, end):
        if b'"' in text[place : cell.start()]:
            break
        place = cell.end()
    return text.index(b'"', place)


def _line_ends(text: bytes, end: int) -> int:
    return text.count(b"\n", 0, end) + text.count(b"\r", 0, end) - text.count(b"\r\n", 0, end)
