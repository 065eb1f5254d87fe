"""Detect the format of a text file: its delimiter, its quote, its encoding and its column names."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from sfumato.engine.duckdb.files import first_misquoted_line
from sfumato.engine.sources.clean_cells import fold_name
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy.domains import MAX_NAME_LENGTH, is_name
from sfumato.quick_dataclass import dataclass

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
