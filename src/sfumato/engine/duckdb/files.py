"""Find the files that a source names, and check whether they are still the same."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
import os
import re
import stat
from pathlib import Path

from sfumato.errors import InvalidPolicy
from sfumato.quick_dataclass import dataclass

KINDS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
_HEADER_BYTES = 1 << 20
_BLOCK = 1 << 20
_MAX_LINE_BYTES = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A cell in quotes, with quotes inside it doubled, that ends on the line it began on.
_QUOTED_CELL = re.compile(rb'(?<![^,\r\n])"[^"\r\n]*(?:""[^"\r\n]*)*"(?![^,\r\n])')
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}

COPIES_ENDING = ".copies"
"""The ending of the folder in which a policy's copies of private tables are."""
RELATIVE_TO_POLICY = ", which is relative to the policy file"
"""What follows "check the path" where a path stands in a policy."""
Stamp = tuple[str, int, int, int]
"""A file's path, size, modification time in ns, and inode."""


@dataclass(frozen=True)
class Files:
    """The files of one source as they were when it was opened."""

    kind: str
    source: Path
    stamps: tuple[Stamp, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path, *_ in self.stamps)

    def is_unchanged(self) -> bool:
        """Return whether the same files are still there (by path, size, modification time and inode) and readable."""
        try:
            return _file_stamps(self.kind, self.source) == self.stamps and all(map(_is_readable, self.paths))
        except OSError:
            return False


def find_files(source: Path, policy_path: str) -> Files:
    """Return the files a source names, in order; refuse a missing file or an unknown extension."""
    kind = KINDS.get(source.suffix.lower())
    if kind is None:
        raise InvalidPolicy(
            "files with this extension cannot be read",
            place=policy_path,
            fix="use a .csv, .parquet or .duckdb file",
        )
    try:
        stamps = _file_stamps(kind, source)
    except (OSError, ValueError):
        stamps = ()
    if not stamps:
        if source.parent.name.endswith(COPIES_ENDING):
            rule = "there is no such file: it was a copy that sfumato init made, and sfumato forget removes such copies"
            fix = "rename the policy file, then run sfumato init on the original data file; the ledger is kept"
            raise InvalidPolicy(rule, place=policy_path, fix=fix)
        raise InvalidPolicy("there is no such file", place=policy_path, fix=f"check the path{RELATIVE_TO_POLICY}")
    if kind != "duckdb" and any(letter in path for path, *_ in stamps for letter in "*?["):
        raise InvalidPolicy(
            "the path of a file may not contain the characters '*', '?' and '[', which DuckDB reads as a pattern",
            place=policy_path,
            fix="rename the file or folder",
        )
    if not all(_is_readable(path) for path, *_ in stamps):
        raise InvalidPolicy("this file cannot be read", place=policy_path, fix="check its permissions")
    return Files(kind, source, stamps)


def _file_stamps(kind: str, source: Path) -> tuple[Stamp, ...]:
    absolute = os.path.abspath(source)
    if kind == "duckdb":
        log = absolute + ".wal"
        return tuple(map(_file_stamp, [absolute, log] if os.path.exists(log) else [absolute]))
    try:
        return (_file_stamp(absolute),)
    except (OSError, ValueError):
        if os.path.lexists(absolute):
            raise
    return tuple(map(_file_stamp, sorted(glob.glob(absolute, recursive=True))))


def _file_stamp(path: str) -> Stamp:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(path)
    path.encode()  # the engine takes paths as UTF-8
    return path, status.st_size, status.st_mtime_ns, status.st_ino


def _is_readable(path: str) -> bool:
    """Return whether the file can be opened now, which its permissions alone do not show."""
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def digest(*parts: object) -> str:
    """Return a SHA-256 digest of JSON values, equal for equal parts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def hash_content(files: Files) -> str:
    """Hash every byte, block by block."""
    content_hash = hashlib.blake2b(digest_size=32)
    for path, size, *_ in files.stamps:
        content_hash.update(size.to_bytes(8, "big"))
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                content_hash.update(block)
    return content_hash.hexdigest()


def csv_header(path: str, policy_path: str) -> list[str]:
    """Return the column names in the first record of a CSV file."""
    with open(path, "rb") as file:
        start = file.read(_HEADER_BYTES).decode("utf-8-sig", errors="replace")
    try:
        names = next(csv.reader(io.StringIO(start.replace("\0", ""), newline="")), [])
    except csv.Error:
        names = []
    if not names:
        raise InvalidPolicy(
            "a CSV file must begin with a line of column names",
            place=policy_path,
            fix="add a first line such as id,age,city",
        )
    for separator, separators in _OTHER_SEPARATORS.items():
        if len(names) == 1 and separator in names[0]:
            raise InvalidPolicy(
                f"a CSV file must use commas as separators; this header uses {separators}",
                place=policy_path,
                fix="save the file with commas between cells and points in decimal numbers",
            )
    return names


def count_csv_records(files: Files, policy_path: str) -> int:
    """Count the lines below the headers of CSV files; refuse files in which a record might not be one line.

    A quote that is never closed would make one record of many lines, so that one unit's row hides those of others
    beyond every limit. When every quoted cell ends on its line, each line is parsed by itself: two files that differ in
    one unit's lines differ in that unit's records, which is the stability the scan relies on. The files are read once
    per opening; a later change is detected before anything is charged. The owner who opens them may show the refusal to
    others: it does not say where in the file.
    """
    counts = [_count_well_quoted_lines(path) for path in files.paths]
    if not all(well_quoted for _, well_quoted in counts):
        raise InvalidPolicy(
            "each record of a CSV file must be one line: a quote may only open or close a whole cell, a quote inside "
            "a quoted cell must be doubled, and the closing quote must be on the same line",
            place=policy_path,
            fix="correct the line that sfumato check (without --public) shows, or write the table as Parquet, where "
            "texts may span lines",
        )
    return sum(lines - 1 for lines, _ in counts)


def first_misquoted_line(path: str) -> int | None:
    """Return the number of the first line of a CSV file whose quotes span lines or are malformed; None if there is
    none.
    """
    lines, well_quoted = _count_well_quoted_lines(path)
    return None if well_quoted else lines


def _count_well_quoted_lines(path: str) -> tuple[int, bool]:
    """Return the number of lines of a CSV file and True, or the first line with malformed quotes and False."""
    lines = 1
    with open(path, "rb") as file:
        rest = file.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
        while block := file.read(_MAX_LINE_BYTES):
            rest += block
            end = rest.rfind(b"\n") + 1 or rest.rfind(b"\r") + 1
            valid_end = _valid_quotes_end(rest, end)
            lines += _count_line_ends(rest, valid_end)
            if valid_end < end or len(rest) - end > _MAX_LINE_BYTES:
                return lines, False
            rest = rest[end:]
    valid_end = _valid_quotes_end(rest, len(rest))
    lines += _count_line_ends(rest, valid_end)
    return (lines, False) if valid_end < len(rest) else (lines - (not rest or rest.endswith(b"\r")), True)


def _valid_quotes_end(text: bytes, end: int) -> int:
    """Return how far the text up to ``end`` consists of plain text and well-quoted cells.

    The first quote that begins no such cell remains when all quoted cells are removed, wherever it stands.
    """
    if b'"' not in _QUOTED_CELL.sub(b"", text[:end]):
        return end
    cell_end = 0
    for cell in _QUOTED_CELL.finditer(text, 0, end):
        if b'"' in text[cell_end : cell.start()]:
            break
        cell_end = cell.end()
    return text.index(b'"', cell_end)


def _count_line_ends(text: bytes, end: int) -> int:
    return text.count(b"\n", 0, end) + text.count(b"\r", 0, end) - text.count(b"\r\n", 0, end)
