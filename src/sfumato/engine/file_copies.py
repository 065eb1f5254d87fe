"""Copy files that the engine does not read as they are as Parquet, on their owner's request.

The engine reads CSV files of one form (commas, UTF-8, one line is one record), Parquet and DuckDB. Other files are
copied once, into one folder beside the policy: every cell stays the text that it was, and the policy says what it
means. Copying reads every row, so it is the owner's act. What it tells of the rows is for the owner alone, and so are
the copies: like a ledger, only their owner can read them.

Detect the format of a text file: its delimiter, its quote, its encoding and its column names.
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
import stat
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as quoted

from sfumato.engine.duckdb.files import COPIES_ENDING, first_misquoted_line
from sfumato.engine.sources.clean_cells import fold_name
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy import Type
from sfumato.policy.domains import MAX_NAME_LENGTH, is_name
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow

_HEAD = 1 << 20
_MIN_RECORDS, _CHECKED_RECORDS = 3, 1_000
"""How many records at least, and at most, are compared with the line of column names."""
_TAB_ENDINGS = (".tsv", ".tab")
_DELIMITERS = (",", ";", "\t", "|")
_WORDS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_OTHER_ENCODING = "cp1252"
"""What a text that is not UTF-8 is taken for, unless its owner says otherwise: most are."""


@dataclass(frozen=True)
class TextFormat:
    """How the cells of a text file are written."""

    separator: str
    encoding: str
    quote: str
    names: tuple[str, ...]
    """What its first record calls the columns."""
    reasons: tuple[str, ...] = ()
    """Why the engine cannot read the file in place, in words; empty where it can."""

    @property
    def naming_reasons(self) -> tuple[str, ...]:
        """Why a copy would make more columns usable: in place, those that SQL cannot name are left out."""
        if len(usable_names(self.names)) == len(self.names):
            return ()
        return ("two of its columns have the same name, or one has a name that SQL cannot use",)


def detect_text_format(
    path: Path, *, read_rows: bool, separator: str | None = None, encoding: str | None = None, quote: str | None = None
) -> TextFormat:
    """Detect the format of a text file. Without ``read_rows`` only its first record is read; with them every byte, for
    letters and quotes that the engine would not read. PRIVATE then: reasons may tell of rows.
    """
    head = read_head(path)
    encoding = _normalise_encoding(encoding or _detect_encoding(head, path))
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    quote = quote or ("'" if text.startswith("'") else '"')
    separator = separator or ("\t" if path.suffix.lower() in _TAB_ENDINGS else _detect_delimiter(text, quote))
    if len(separator) != 1 or len(quote) != 1:
        raise InvalidParameter("delimiter", separator, "one character", fix='write delimiter=";"')
    text_format = TextFormat(separator, encoding, quote, _column_names(text, separator, quote, path))
    if read_rows and encoding == "utf-8" and not _is_utf8(path):
        text_format = replace(text_format, encoding=_OTHER_ENCODING)
    if read_rows:
        _require_same_width(text, text_format, path)
    return replace(text_format, reasons=tuple(_unreadable_file_reasons(path, text_format, read_rows)))


def read_head(path: Path) -> bytes:
    try:
        with open_binary(path) as file:
            return file.read(_HEAD)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        rule = f"{path.name} cannot be decompressed: it is damaged or incomplete"
        fix = "compress the original again, or use an uncompressed copy"
        raise InvalidPolicy(rule, place=str(path), fix=fix) from None
    except OSError:
        raise InvalidPolicy(f"{path.name} cannot be read", place=str(path), fix="check its permissions") from None


def open_binary(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")


def _normalise_encoding(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name if encoding != "utf-8-sig" else encoding
    except LookupError:
        raise InvalidParameter("encoding", encoding, "the name of an encoding, such as utf-8 or latin-1") from None


def _detect_encoding(head: bytes, path: Path) -> str:
    """Detect the encoding by the byte order mark, or by the first line."""
    for mark, name in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name
    first_line = head.partition(b"\n")[0]
    if b"\0" in first_line:
        raise InvalidPolicy(
            "a text file must begin with a line of column names; this file contains binary data",
            place=str(path),
            fix="name a CSV, TSV, Parquet, DuckDB or SQLite file, or give --encoding",
        )
    try:
        first_line.decode()
    except UnicodeDecodeError:
        return _OTHER_ENCODING
    return "utf-8"


def _detect_delimiter(text: str, quote: str) -> str:
    """Detect the delimiter: the one that splits the first record into the most cells."""
    return max(_DELIMITERS, key=lambda candidate: len(_first_record(text, candidate, quote)))


def _first_record(text: str, separator: str, quote: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text.replace("\0", ""), newline=""), delimiter=separator, quotechar=quote))
    except (csv.Error, StopIteration):
        return []


def _column_names(text: str, separator: str, quote: str, path: Path) -> tuple[str, ...]:
    names = tuple(_first_record(text.lstrip("\ufeff"), separator, quote))
    if not any(name.strip() for name in names):
        raise InvalidPolicy(
            "a text file must begin with a line of column names", place=str(path), fix="add a line such as id,age,city"
        )
    return names


def _require_same_width(text: str, text_format: TextFormat, path: Path) -> None:
    """Refuse a file whose first line has another number of cells than most others: a title, or names of two lines.

    A title without a delimiter hides the file's own: then every delimiter is tried on the lines below it. A title that
    is padded to the width of the table has empty cells where the line below it has none.
    """
    names = text_format.names
    others = tuple(separator for separator in _DELIMITERS if len(names) == 1 and separator != text_format.separator)
    for separator in (text_format.separator, *others):
        records = _first_records(text, separator, text_format.quote)
        widths = Counter(len(record) for record in records[1:] if record)
        width, count = widths.most_common(1)[0] if widths else (0, 0)
        is_usual = widths.total() >= _MIN_RECORDS and 2 * count > widths.total()
        if is_usual and width != len(names) and (separator == text_format.separator or width > 1):
            raise InvalidPolicy(
                f"a text file must begin with one line of column names; line 1 has {len(names)} "
                f"{'cell' if len(names) == 1 else 'cells'}, and most other lines have {width}",
                place=f"{path}, line 1",
                fix="delete the lines above the column names, or give the file's --delimiter",
            )
    records = _first_records(text, text_format.separator, text_format.quote)
    unnamed = sum(not name.strip() for name in names)
    if 2 * unnamed > len(names) > 1 and len(records) > 1 and all(cell.strip() for cell in records[1]):
        raise InvalidPolicy(
            f"a text file must begin with one line of column names; {unnamed} of the {len(names)} cells of line 1 "
            "are empty, but no cell of line 2 is",
            place=f"{path}, line 1",
            fix="delete the title line above the column names",
        )


def _first_records(text: str, separator: str, quote: str) -> list[list[str]]:
    """Return the first records of a text, up to one that is malformed."""
    reader = csv.reader(io.StringIO(text.replace("\0", ""), newline=""), delimiter=separator, quotechar=quote)
    records: list[list[str]] = []
    with suppress(csv.Error):
        records.extend(islice(reader, _CHECKED_RECORDS))
    return records


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_binary(path) as file:
            for block in iter(lambda: file.read(_HEAD), b""):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    except (OSError, EOFError):
        raise InvalidPolicy(
            "this file could not be read to its end", place=str(path), fix="download or copy it again"
        ) from None
    return True


def _unreadable_file_reasons(path: Path, text_format: TextFormat, rows: bool) -> Iterator[str]:
    """Yield the reasons why the engine does not read a text file as it is."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        yield "it is compressed"
    elif suffix != ".csv":
        yield f"its name ends in {suffix}, not .csv"
    if text_format.separator != ",":
        separator = _WORDS.get(text_format.separator, repr(text_format.separator))
        yield f"its cells are separated by {separator}, not by commas"
    if text_format.quote != '"':
        yield f"its cells are quoted by {text_format.quote}"
    if text_format.encoding not in ("utf-8", "utf-8-sig", "ascii"):
        yield f"its encoding is {text_format.encoding}, not UTF-8"
    # Between other separators, or in letters of two bytes, quotes mean something else: none is looked for there.
    is_plain_csv = (
        suffix == ".csv"
        and (text_format.separator, text_format.quote) == (",", '"')
        and "16" not in text_format.encoding
    )
    if rows and is_plain_csv and first_misquoted_line(str(path)) is not None:
        yield "a quoted cell does not end on the line that it began on"


def usable_names(names: Sequence[str]) -> list[str]:
    """List the names that can stand in a question and belong to one column alone."""
    name_counts = Counter(map(fold_name, names))
    return [name for name in names if is_name(unicodedata.normalize("NFC", name)) and name_counts[fold_name(name)] == 1]


def unique_names(names: Sequence[str]) -> list[str]:
    """Return a unique name for every column that can stand in a question: its own wherever possible."""
    unique_names: list[str] = []
    taken: set[str] = set()
    for position, name in enumerate(names, 1):
        plain = "".join(letter for letter in unicodedata.normalize("NFC", name).strip() if letter.isprintable())
        plain = plain[:MAX_NAME_LENGTH].strip() if is_name(plain[:MAX_NAME_LENGTH].strip()) else f"column {position}"
        candidate, number = plain, 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{plain[: MAX_NAME_LENGTH - 6]} {number}"
        taken.add(candidate.lower())
        unique_names.append(candidate)
    return unique_names


_BATCH = 50_000
_TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".psv")
_SQLITE_ENDINGS = (".sqlite", ".sqlite3", ".db")
_ENGINE_ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
_COPY_OF = b"sfumato.copy_of"
_OWNER_ONLY_FILE = 0o600
_OWNER_ONLY_FOLDER = 0o700
"""The modes of a ledger and of its folders."""
UNFINISHED_ENDING = ".new"
"""The ending of a copy that is being written; a crash leaves one behind."""


def detect_file_kind(path: Path) -> str | None:
    """Detect the kind of a file by its first bytes and its ending: text, parquet, duckdb or sqlite; None for
    another.
    """
    first_bytes = _read_start(path, 16)
    if first_bytes.startswith(b"SQLite format 3\0"):
        return "sqlite"
    endings = [suffix.lower() for suffix in path.suffixes]
    last_ending = endings[-1] if endings else ""
    if last_ending in _TEXT_ENDINGS or (last_ending == ".gz" and len(endings) > 1 and endings[-2] in _TEXT_ENDINGS):
        return "text"
    if last_ending in _SQLITE_ENDINGS and last_ending != ".db":
        raise InvalidPolicy(
            "this is not a SQLite database",
            place=str(path),
            fix="write the database again, or export its tables as CSV",
        )
    return _ENGINE_ENDINGS.get(last_ending)


def _read_start(path: Path, count: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(count)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidPolicy("there is no such file", place=str(path), fix=_suggest_path(path)) from None
    except OSError:
        fix = "check that it is a file, not a folder, and that you have permission to read it"
        raise InvalidPolicy("this file cannot be read", place=str(path), fix=fix) from None


def _suggest_path(path: Path) -> str:
    """Suggest the file of the same folder with the closest name: whoever drafts a policy sees the folder anyway."""
    try:
        names = os.listdir(path.parent)
    except OSError:
        return "check the path: its folder does not exist either"
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {path.with_name(close[0])}?" if close else "check the path"


# ── SQLite ─────────────────────────────────────────────────────────────────────────────────────


def sqlite_tables(path: Path) -> dict[str, dict[str, Type | None]]:
    """List the tables and views of a SQLite database with their columns and declared types. No row is read."""
    listing = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    with _open_sqlite(path) as database:
        names = [str(name) for (name,) in database.execute(f"{listing} ORDER BY name")]
        return {
            name: {column: _type_of_affinity(declared) for column, declared in _table_columns(database, name)}
            for name in names
        }


def _table_columns(database: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    return [
        (str(column), str(kind))
        for _, column, kind, *_ in database.execute(f"PRAGMA table_info({_quoted_identifier(table)})")
    ]


def _quoted_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type_of_affinity(declared: str) -> Type | None:
    """Map a declared SQLite type to ours; SQLite does not enforce it, so it is a suggestion."""
    word = declared.upper()
    if "BOOL" in word:
        return Type.BOOLEAN
    if "INT" in word:
        return Type.INTEGER
    if any(keyword in word for keyword in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return Type.REAL
    if "DATETIME" in word or "TIMESTAMP" in word:
        return Type.TIMESTAMP
    return Type.DATE if word == "DATE" else Type.TEXT if any(keyword in word for keyword in ("CHAR", "TEXT")) else None


@contextmanager
def _open_sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        address = f"file:{quoted(str(path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.text_factory = lambda cell: cell.decode(errors="replace")
            yield database
    except sqlite3.Error:
        raise InvalidPolicy(
            "this SQLite database could not be read", place=str(path), fix="check that the file is complete"
        ) from None


# ── copies ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ParquetCopy:
    """A Parquet copy, just written or found from before."""

    path: Path
    skipped_records: int
    """Records that had more or fewer cells than there are columns, and are not in it. PRIVATE."""


@dataclass(frozen=True)
class CopyOrigin:
    """What a Parquet copy records in its metadata."""

    identity: str
    """JSON of the original's path, size, time and format: another identity needs another copy."""
    skipped_records: int

    def original_path(self, copy: Path) -> Path:
        """Return the file that was copied; an earlier version recorded only its name, in the copy's folder."""
        return copy.parent / str(json.loads(self.identity)[0])


def copies_folder(policy: Path) -> Path:
    """Return the folder of a policy's copies: ``clinic.copies`` beside ``clinic.toml``."""
    return policy.absolute().with_name(f"{policy.stem}{COPIES_ENDING}")


def copy_text(path: Path, text_format: TextFormat, target: Path) -> ParquetCopy:
    """Copy a text file as Parquet: every cell as text, an empty one without quotes as NULL."""
    options = [text_format.separator, text_format.encoding, text_format.quote]
    return _copy_once(path, target, options, lambda write: _copy_csv_rows(path, text_format, write))


def copy_sqlite(path: Path, table: str, target: Path) -> ParquetCopy:
    """Copy a table of a SQLite database as Parquet: every cell as text, bytes as NULL."""
    return _copy_once(path, target, [table], lambda write: _write_sqlite(path, table, write))


Write = Callable[["pyarrow.Table"], None]


def _copy_once(path: Path, target: Path, options: list[str], fill: Callable[[Write], int]) -> ParquetCopy:
    """Write a copy, or reuse the one made before of the same file with the same options; a copy of the same file as it
    was is replaced, and nothing else.
    """
    _make_private_folder(target.parent)
    status = path.stat()
    identity = json.dumps([str(path.absolute()), status.st_size, status.st_mtime_ns, *options])
    existing = recorded_origin(target)
    if existing is not None and existing.identity == identity:
        os.chmod(target, _OWNER_ONLY_FILE)
        return ParquetCopy(target, existing.skipped_records)
    if os.path.lexists(target) and (existing is None or existing.original_path(target) != path.absolute()):
        raise InvalidPolicy(
            "the copy would replace this file, and an existing file is never overwritten",
            place=str(target),
            fix="move or rename that file, or choose another name for the policy with -o",
        )
    temporary = target.with_name(f"{target.name}{UNFINISHED_ENDING}")
    try:
        skipped_records = _write_parquet(temporary, identity, fill)
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()
    return ParquetCopy(target, skipped_records)


def _make_private_folder(folder: Path) -> None:
    """Create the folder, or restrict an existing one, so that only its owner can list it."""
    try:
        folder.mkdir(mode=_OWNER_ONLY_FOLDER, exist_ok=True)
        mode = folder.lstat().st_mode
        if not stat.S_ISDIR(mode):  # a link would lead private rows to where nobody looks for them
            raise NotADirectoryError(folder)
        if stat.S_IMODE(mode) & ~_OWNER_ONLY_FOLDER:
            os.chmod(folder, _OWNER_ONLY_FOLDER)
    except OSError:
        raise InvalidPolicy(
            "copies of private tables need a folder that only you can read, and this one cannot be created",
            place=str(folder),
            fix="choose another place for the policy with -o, or rename the file that has this name",
        ) from None


def recorded_origin(target: Path) -> CopyOrigin | None:
    """Return the origin that a Parquet copy records; None if it is no copy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(target).metadata or {}
        identity, skipped_records = json.loads(metadata[_COPY_OF])
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return None
    return CopyOrigin(str(identity), int(skipped_records))


def _write_parquet(temporary: Path, identity: str, fill: Callable[[Write], int]) -> int:
    """Write the rows as they come, and their origin in the metadata at the end; only the owner can read the file."""
    import pyarrow.parquet as pq

    writers: list[Any] = []

    def write(rows: pyarrow.Table) -> None:
        if not writers:
            writers.append(pq.ParquetWriter(temporary, rows.schema))
        writers[0].write_table(rows)

    try:
        with suppress(FileNotFoundError):
            temporary.unlink()
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY_FILE))
        skipped_records = fill(write)
        writers[0].add_key_value_metadata({_COPY_OF: json.dumps([identity, skipped_records])})
    except OSError:
        raise InvalidPolicy(
            "the copy could not be written", place=str(temporary), fix="free some space on the disk"
        ) from None
    finally:
        for writer in writers:
            writer.close()
    return skipped_records


def _copy_csv_rows(path: Path, text_format: TextFormat, write: Write) -> int:
    """Read a file of text and write its rows; return the number of skipped records."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    lost_records: list[str] = []
    names, has_long_cell = unique_names(text_format.names), False
    cells = [f"f{index}" for index in range(len(names))]
    write(pa.table({name: pa.array([], pa.string()) for name in names}))
    if not _has_rows(path, text_format.encoding):
        return 0

    def skip_record(record: Any) -> str:
        lost_records.append(record.text)
        return "skip"

    try:
        with open_binary(path) as file:
            batches = arrow_csv.open_csv(
                file,
                arrow_csv.ReadOptions(
                    autogenerate_column_names=True, skip_rows=1, encoding=text_format.encoding, use_threads=False
                ),
                arrow_csv.ParseOptions(
                    delimiter=text_format.separator,
                    quote_char=text_format.quote,
                    newlines_in_values=True,
                    invalid_row_handler=skip_record,
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
                has_long_cell |= any(map(_spans_lines, batch.columns))
                write(pa.Table.from_batches([batch]).rename_columns(names))
    except (pa.ArrowException, UnicodeError, EOFError, gzip.BadGzipFile):
        raise InvalidPolicy(
            "part of this file cannot be read as a table",
            place=str(path),
            fix="give the file's --delimiter, --quote or --encoding, or export it as Parquet",
        ) from None
    if has_long_cell or any("\n" in text or "\r" in text for text in lost_records):
        _refuse_swallowed_lines(path, text_format)
    return len(lost_records)


def _spans_lines(cells: Any) -> bool:
    """Return whether a cell of a column has several line ends: it may have swallowed whole rows."""
    from pyarrow import compute

    return (compute.max(compute.count_substring(cells, "\n")).as_py() or 0) > 1


def _refuse_swallowed_lines(path: Path, text_format: TextFormat) -> None:
    """Refuse a file with a quote that is not closed where it should be, so that rows become part of a cell. PRIVATE.

    Such a cell holds lines most of which have the delimiters of a whole row, or is in a record of another width that
    begins and ends on different lines.
    """
    width, quote = len(text_format.names), text_format.quote
    with open_binary(path) as file:
        lines = io.TextIOWrapper(file, encoding=text_format.encoding, errors="replace", newline="")
        reader = csv.reader(
            (line.replace("\0", "") for line in lines), delimiter=text_format.separator, quotechar=quote
        )
        last_line = 0
        try:
            for record in reader:
                first_line, last_line = last_line + 1, reader.line_num
                is_odd = first_line < last_line and len(record) != width
                if is_odd or any(_looks_like_rows(cell, text_format) for cell in record):
                    raise _swallowed_lines_refusal(path, first_line, last_line, quote)
        except csv.Error:  # a cell longer than any that the module reads
            raise _swallowed_lines_refusal(path, last_line + 1, reader.line_num, quote) from None


def _looks_like_rows(cell: str, text_format: TextFormat) -> bool:
    inner_lines = cell.splitlines()[1:-1]
    rows = sum(line.count(text_format.separator) >= len(text_format.names) - 1 for line in inner_lines)
    return len(text_format.names) > 1 and len(inner_lines) > 1 and 10 * rows >= 9 * len(inner_lines)


def _swallowed_lines_refusal(path: Path, first: int, last: int, quote: str) -> InvalidPolicy:
    return InvalidPolicy(
        f"a quoted cell spans lines {first:,} to {last:,}, so its quote is not closed and the rows on "
        "these lines would be lost",
        place=f"{path}, line {first}",
        fix=f"close the quote there, or double it; or give another --quote if {quote} is part of the text",
    )


def _has_rows(path: Path, encoding: str) -> bool:
    head = codecs.getincrementaldecoder(encoding)(errors="replace").decode(read_head(path))
    return bool("".join(head.splitlines()[1:]).strip())


def _write_sqlite(path: Path, table: str, write: Write) -> int:
    import pyarrow as pa

    with _open_sqlite(path) as database:
        column_names = [name for name, _ in _table_columns(database, table)]
        selected = ", ".join(map(_quoted_identifier, column_names))
        rows = database.execute(f"SELECT {selected} FROM {_quoted_identifier(table)}")
        names = unique_names(column_names)
        write(pa.table({name: pa.array([], pa.string()) for name in names}))
        while batch := rows.fetchmany(_BATCH):
            columns = zip(*batch, strict=True)
            write(
                pa.table(
                    {
                        name: pa.array(map(_cell_text, cells), pa.string())
                        for name, cells in zip(names, columns, strict=True)
                    }
                )
            )
    return 0


def _cell_text(cell: Any) -> str | None:
    return None if cell is None or isinstance(cell, bytes) else str(cell)
