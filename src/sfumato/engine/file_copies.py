"""This describes files that the engine does not read as they are, and copies them as Parquet when their owner says so.

The engine reads CSV files of one form (commas, UTF-8, one line is one record), Parquet and DuckDB. Whatever else people
have is copied once, beside the original: every cell stays the text that it was, and the policy says what it means.
Copying reads every row, so it is the owner's act. What it tells of the rows is for the owner alone.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import gzip
import io
import json
import os
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as quoted

from sfumato.engine.duckdb.files import misquoted
from sfumato.engine.sources.clean_cells import folded
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy import Type
from sfumato.policy.domains import LONGEST_NAME, is_name

if TYPE_CHECKING:
    import pyarrow

_HEAD = 1 << 20
_BATCH = 50_000
_TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".psv")
_TAB_ENDINGS = (".tsv", ".tab")
_SQLITE_ENDINGS = (".sqlite", ".sqlite3", ".db")
_ENGINE_ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
_SEPARATORS = (",", ";", "\t", "|")
_WORDS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_OTHER_ENCODING = "cp1252"
"""What a text that is not UTF-8 is taken for, unless its owner says otherwise: most are."""
_COPY_OF = b"sfumato.copy_of"


@dataclass(frozen=True)
class TextFormat:
    """A spelling says how the cells of a text file are written."""

    separator: str
    encoding: str
    quote: str
    names: tuple[str, ...]
    """What its first record calls the columns."""
    reasons: tuple[str, ...] = ()
    """Why the engine does not read the file as it is, in words; none where it does."""


def kind(path: Path) -> str | None:
    """Tell what a file is, by its first bytes and its ending: text, parquet, duckdb or sqlite; None for another."""
    start = _start(path, 16)
    if start.startswith(b"SQLite format 3\0"):
        return "sqlite"
    endings = [each.lower() for each in path.suffixes]
    last = endings[-1] if endings else ""
    if last in _TEXT_ENDINGS or (last == ".gz" and len(endings) > 1 and endings[-2] in _TEXT_ENDINGS):
        return "text"
    if last in _SQLITE_ENDINGS and last != ".db":
        raise InvalidPolicy("this is no SQLite database", place=str(path), fix="write it again, or export it as CSV")
    return _ENGINE_ENDINGS.get(last)


def _start(path: Path, count: int) -> bytes:
    try:
        with open(path, "rb") as opened:
            return opened.read(count)
    except OSError:
        raise InvalidPolicy("there is no such file that can be read", place=str(path), fix=_like(path)) from None


def _like(path: Path) -> str:
    """Say which file of the same folder has a name like this: whoever drafts a policy sees the folder anyway."""
    try:
        names = os.listdir(path.parent)
    except OSError:
        return "check the path: its folder is not there either"
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {path.with_name(close[0])}?" if close else "check the path"


# ── text ───────────────────────────────────────────────────────────────────────────────────────


def spelling(
    path: Path, *, rows: bool, separator: str | None = None, encoding: str | None = None, quote: str | None = None
) -> TextFormat:
    """Find how a text file is written. Without ``rows`` only its first record is looked at; with them every byte, for
    letters and quotes that the engine would not read. PRIVATE then: reasons may tell of rows.
    """
    head = _head(path)
    encoding = _known(encoding or _encoding(head, path))
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    quote = quote or ("'" if text.startswith("'") else '"')
    separator = separator or ("\t" if path.suffix.lower() in _TAB_ENDINGS else _separator(text, quote))
    if len(separator) != 1 or len(quote) != 1:
        raise InvalidParameter("delimiter", separator, "one letter")
    found = TextFormat(separator, encoding, quote, _names(text, separator, quote, path))
    if rows and encoding == "utf-8" and not _is_utf8(path):
        found = replace(found, encoding=_OTHER_ENCODING)
    return replace(found, reasons=tuple(_reasons(path, found, rows)))


def _head(path: Path) -> bytes:
    try:
        with _opened(path) as opened:
            return opened.read(_HEAD)
    except (OSError, EOFError):
        raise InvalidPolicy("this file cannot be read", place=str(path), fix="check it, and compress it anew") from None


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name if encoding != "utf-8-sig" else encoding
    except LookupError:
        raise InvalidParameter("encoding", encoding, "the name of an encoding, such as utf-8 or latin-1") from None


def _encoding(head: bytes, path: Path) -> str:
    """Tell the encoding by the mark at the start, or by the first line."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    first = head.partition(b"\n")[0]
    if b"\0" in first:
        raise InvalidPolicy(
            "a table in a text file begins with a line of column names; this file holds bytes that are no text",
            place=str(path),
            fix="name a CSV, TSV, Parquet, DuckDB or SQLite file, or give --encoding",
        )
    try:
        first.decode()
    except UnicodeDecodeError:
        return _OTHER_ENCODING
    return "utf-8"


def _separator(text: str, quote: str) -> str:
    """Take the letter that parts the first record into the most cells."""
    return max(_SEPARATORS, key=lambda each: len(_first_record(text, each, quote)))


def _first_record(text: str, separator: str, quote: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text.replace("\0", ""), newline=""), delimiter=separator, quotechar=quote))
    except (csv.Error, StopIteration):
        return []


def _names(text: str, separator: str, quote: str, path: Path) -> tuple[str, ...]:
    names = tuple(_first_record(text.lstrip("\ufeff"), separator, quote))
    if not any(each.strip() for each in names):
        raise InvalidPolicy("a table in a text file begins with its column names", place=str(path), fix="add them")
    return names


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with _opened(path) as opened:
            for block in iter(lambda: opened.read(_HEAD), b""):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    except (OSError, EOFError):
        raise InvalidPolicy("this file cannot be read to its end", place=str(path), fix="fetch it again") from None
    return True


def _reasons(path: Path, found: TextFormat, rows: bool) -> Iterator[str]:
    """Say why the engine does not read a text file as it is."""
    ending = path.suffix.lower()
    if ending == ".gz":
        yield "it is compressed"
    elif ending != ".csv":
        yield f"its name ends in {ending}, not .csv"
    if found.separator != ",":
        yield f"its cells are separated by {_WORDS.get(found.separator, repr(found.separator))}, not by commas"
    if found.quote != '"':
        yield f"its cells are quoted by {found.quote}"
    if found.encoding not in ("utf-8", "utf-8-sig", "ascii"):
        yield f"its letters are {found.encoding}, not UTF-8"
    if len(usable(found.names)) < len(found.names):
        yield "two of its columns have one name, or one has a name that cannot stand in a question"
    # Between other separators, or in letters of two bytes, quotes mean something else: none is looked for there.
    as_commas = ending == ".csv" and (found.separator, found.quote) == (",", '"') and "16" not in found.encoding
    if rows and as_commas and misquoted(str(path)) is not None:
        yield "a quoted cell does not end on the line that it began on"


def usable(names: Sequence[str]) -> list[str]:
    """List the names that can stand in a question and belong to one column alone."""
    counted = Counter(map(folded, names))
    return [each for each in names if is_name(unicodedata.normalize("NFC", each)) and counted[folded(each)] == 1]


def renamed(names: Sequence[str]) -> list[str]:
    """Give every column a name of its own that can stand in a question: its own wherever that is one."""
    found: list[str] = []
    taken: set[str] = set()
    for place, each in enumerate(names, 1):
        plain = "".join(letter for letter in unicodedata.normalize("NFC", each).strip() if letter.isprintable())
        plain = plain[:LONGEST_NAME].strip() if is_name(plain[:LONGEST_NAME].strip()) else f"column {place}"
        called, number = plain, 1
        while called.lower() in taken:
            number += 1
            called = f"{plain[: LONGEST_NAME - 6]} {number}"
        taken.add(called.lower())
        found.append(called)
    return found


# ── SQLite ─────────────────────────────────────────────────────────────────────────────────────


def sqlite_tables(path: Path) -> dict[str, dict[str, Type | None]]:
    """List the tables and views of a SQLite database with their columns and declared types. No row is read."""
    listing = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    with _sqlite(path) as database:
        names = [str(each) for (each,) in database.execute(f"{listing} ORDER BY name")]
        return {name: {each: _affinity(declared) for each, declared in _described(database, name)} for name in names}


def _described(database: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    return [
        (str(each), str(kind)) for _, each, kind, *_ in database.execute(f"PRAGMA table_info({_identifier(table)})")
    ]


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _affinity(declared: str) -> Type | None:
    """Give the type that a declared one means; SQLite holds no column to it, so that it is a suggestion."""
    word = declared.upper()
    if "BOOL" in word:
        return Type.BOOLEAN
    if "INT" in word:
        return Type.INTEGER
    if any(each in word for each in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return Type.REAL
    if "DATETIME" in word or "TIMESTAMP" in word:
        return Type.TIMESTAMP
    return Type.DATE if word == "DATE" else Type.TEXT if any(each in word for each in ("CHAR", "TEXT")) else None


@contextmanager
def _sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        address = f"file:{quoted(str(path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.text_factory = lambda cell: cell.decode(errors="replace")
            yield database
    except sqlite3.Error:
        raise InvalidPolicy("this SQLite database cannot be read", place=str(path), fix="check the file") from None


# ── copies ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Copied:
    """A copy was made, or found as it was made before."""

    path: Path
    lost: int
    """Records that had more or fewer cells than there are columns, and are not in it. PRIVATE."""


def copy_text(path: Path, found: TextFormat, *, decimal: str = ".") -> Copied:
    """Copy a text file as Parquet beside it: every cell as text, an empty one without quotes as NULL. A decimal comma
    becomes a point where ``decimal`` says so.
    """
    target = path.with_name(f"{_stem(path)}.parquet")
    how = [found.separator, found.encoding, found.quote, decimal]
    return _copied(path, target, how, lambda write: _write_text(path, found, decimal, write))


def _stem(path: Path) -> str:
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def copy_sqlite(path: Path, table: str) -> Copied:
    """Copy a table of a SQLite database as Parquet beside it: every cell as text, bytes as NULL."""
    safe = "".join(each if each.isalnum() or each in " _-" else "_" for each in table)
    target = path.with_name(f"{path.stem}.{safe}.parquet")
    return _copied(path, target, [table], lambda write: _write_sqlite(path, table, write))


Write = Callable[["pyarrow.Table"], None]


def _copied(path: Path, target: Path, how: list[str], fill: Callable[[Write], int]) -> Copied:
    """Write a copy, or take the one that was made before of the same file in the same way; nothing is overwritten."""
    look = path.stat()
    made = json.dumps([path.name, look.st_size, look.st_mtime_ns, *how])
    known = copy_of(target)
    if known is not None and known[0] == made:
        return Copied(target, known[1])
    if known is None and target.exists():
        raise InvalidPolicy(
            "an existing file is never overwritten, and the copy would have its name",
            place=str(target),
            fix="move one of the two files, or name this one as the source",
        )
    beside = target.with_name(f"{target.name}.new")
    try:
        lost = _write_parquet(beside, made, fill, look.st_mode & 0o777)
        os.replace(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink()
    return Copied(target, lost)


def copy_of(target: Path) -> tuple[str, int] | None:
    """Tell of which file a Parquet file is a copy, and how many records were lost; None where it is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(target).metadata or {}
        made, lost = json.loads(metadata[_COPY_OF])
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return None
    return str(made), int(lost)


def _write_parquet(beside: Path, made: str, fill: Callable[[Write], int], mode: int) -> int:
    """Write the rows as they come; that it is a copy, and of what, is said at its end. The copy is as private as the
    original: its permissions are the same.
    """
    import pyarrow.parquet as pq

    writers: list[Any] = []

    def write(rows: pyarrow.Table) -> None:
        if not writers:
            writers.append(pq.ParquetWriter(beside, rows.schema))
        writers[0].write_table(rows)

    try:
        os.close(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode))
        lost = fill(write)
        writers[0].add_key_value_metadata({_COPY_OF: json.dumps([made, lost])})
    except OSError:
        raise InvalidPolicy("the copy cannot be written", place=str(beside), fix="free some space there") from None
    finally:
        for each in writers:
            each.close()
    return lost


def _write_text(path: Path, found: TextFormat, decimal: str, write: Write) -> int:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    lost: list[int] = []
    names = renamed(found.names)
    cells = [f"f{place}" for place in range(len(names))]
    write(pa.table({name: pa.array([], pa.string()) for name in names}))
    if not _has_rows(path, found.encoding):
        return 0

    def skipped(_: Any) -> str:
        lost.append(1)
        return "skip"

    try:
        with _opened(path) as opened:
            batches = arrow_csv.open_csv(
                opened,
                arrow_csv.ReadOptions(
                    autogenerate_column_names=True, skip_rows=1, encoding=found.encoding, use_threads=False
                ),
                arrow_csv.ParseOptions(
                    delimiter=found.separator,
                    quote_char=found.quote,
                    newlines_in_values=True,
                    invalid_row_handler=skipped,
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(cells, pa.string()),
                    include_columns=cells,
                    include_missing_columns=True,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            for batch in batches:
                write(_pointed(pa.Table.from_batches([batch]), decimal).rename_columns(names))
    except (pa.ArrowException, UnicodeError, EOFError, gzip.BadGzipFile):
        raise InvalidPolicy(
            "this file cannot be read as a table to its end",
            place=str(path),
            fix="give --delimiter, --quote or --encoding as it is written, or export it as Parquet",
        ) from None
    return len(lost)


def _has_rows(path: Path, encoding: str) -> bool:
    head = codecs.getincrementaldecoder(encoding)(errors="replace").decode(_head(path))
    return bool("".join(head.splitlines()[1:]).strip())


def _pointed(rows: pyarrow.Table, decimal: str) -> pyarrow.Table:
    """Write decimal commas as points, in cells that are nothing but a number."""
    import pyarrow as pa
    from pyarrow import compute

    if decimal == ".":
        return rows
    pattern = r"^(\s*[+-]?[0-9]+),([0-9]+\s*)$"
    found = [compute.replace_substring_regex(each, pattern, r"\1.\2") for each in rows.columns]
    return pa.table(dict(zip(rows.column_names, found, strict=True)))


def _write_sqlite(path: Path, table: str, write: Write) -> int:
    import pyarrow as pa

    with _sqlite(path) as database:
        found = [each for each, _ in _described(database, table)]
        listed = ", ".join(map(_identifier, found))
        rows = database.execute(f"SELECT {listed} FROM {_identifier(table)}")
        names = renamed(found)
        write(pa.table({name: pa.array([], pa.string()) for name in names}))
        while batch := rows.fetchmany(_BATCH):
            columns = zip(*batch, strict=True)
            write(
                pa.table(
                    {name: pa.array(map(_text, cells), pa.string()) for name, cells in zip(names, columns, strict=True)}
                )
            )
    return 0


def _text(cell: Any) -> str | None:
    return None if cell is None or isinstance(cell, bytes) else str(cell)
