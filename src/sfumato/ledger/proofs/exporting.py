"""Export every line as JSON, CSV or Arrow, for other programs. Amounts are exact, as text: decimals, or p/q.

A complete export is a ledger as JSON: its key, and every column of every line, so that the ledger can be restored. An
ordinary export leaves out the key and the salts, because with them a guess of a question can be tested; a complete one
is as secret as the ledger itself. It is one JSON value, with one line of text for each line of the ledger, and it ends
with the number and the hash of the last one: a part of it is not taken for the whole.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from sfumato.errors import InvalidParameter, LedgerDamaged, LedgerUnavailable
from sfumato.ledger import local_files
from sfumato.ledger.entries import Line
from sfumato.ledger.proofs.verifying import LineVerifier
from sfumato.ledger.sealed_rows import COLUMNS, KeyedHash, Row
from sfumato.ledger.stores.sqlite import LedgerContent, write_copy
from sfumato.ledger.transaction import Transaction, all_lines
from sfumato.privacy import Cost
from sfumato.privacy.numbers import format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_for_spreadsheet, refuse_malformed

Record = dict[str, str | int | None]

_BATCH = 10_000
_INTEGER_COLUMNS = {"number", "tab", "about"}


def flatten_line(line: Line, read_large_body: Callable[[str], str | None]) -> Record:
    """Flatten one line to columns; ``read_large_body`` finds an answer that a file holds."""
    return {
        "number": line.number,
        "time": line.time.isoformat(),
        "kind": line.kind,
        "account": line.account,
        "analyst": line.analyst,
        "question": line.question,
        "plan": line.plan,
        "data": line.data,
        "request_id": line.request_id,
        "tab": line.tab,
        "about": line.about,
        **_amount_columns("cost", line.cost),
        **_amount_columns("spent", line.spent),
        **_amount_columns("held", line.held),
        "parts": line.parts,
        "detail": line.detail,
        "body": read_large_body(line.file) if line.file else line.body,
        "file": line.file,
        "previous": line.previous,
        "hash": line.hash,
    }


def _amount_columns(name: str, cost: Cost) -> Record:
    amounts = cost.amounts
    texts = {
        currency: None
        if currency not in amounts
        else "unbounded"
        if (amount := amounts[currency]) is None
        else format_exact(amount)
        for currency in ("pure", "renyi", "failure")
    }
    return {f"{name}_{currency}": amount for currency, amount in texts.items()}


def export(
    lines: Iterable[Line], form: str, path: str | os.PathLike[str], read_large_body: Callable[[str], str | None]
) -> None:
    """Write lines to a new file that only its owner can read."""
    if not isinstance(form, str) or form not in _FORMS:
        raise InvalidParameter("form", form, "one of " + ", ".join(sorted(_FORMS)))
    with new_private_file(path) as handle:
        _FORMS[form]((flatten_line(line, read_large_body) for line in lines), handle)


@contextmanager
def new_private_file(path: object) -> Iterator[int]:
    """Create a file that only its owner can read, to be written and closed in the block; on an error it is removed."""
    target = Path(local_files.checked_path(path, "path"))
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerUnavailable(
            f"the export cannot be written ({os.strerror(error.errno or 0)})",
            place=str(target),
            fix="name a new file in an existing folder",
        ) from error
    try:
        yield handle
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _write_json(records: Iterator[Record], handle: int) -> None:
    """Write a list with one line of text per line of the ledger."""
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("[")
        for index, line_record in enumerate(records):
            file.write(("\n" if index == 0 else ",\n") + json.dumps(line_record, ensure_ascii=False))
        file.write("\n]\n")


def _write_csv(records: Iterator[Record], handle: int) -> None:
    """Write CSV with formulas defused, as in answers: questions are other people's texts."""
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for line_record in records:
            if writer is None:
                writer = csv.DictWriter(file, list(line_record))
                writer.writeheader()
            writer.writerow(
                {
                    name: escape_for_spreadsheet(value) if isinstance(value, str) else value
                    for name, value in line_record.items()
                }
            )


def _write_arrow(records: Iterator[Record], handle: int) -> None:
    """Write the IPC file format, in batches."""
    import pyarrow
    from pyarrow import ipc

    batch = list(islice(records, _BATCH))
    names = list(batch[0]) if batch else []
    schema = pyarrow.schema(
        [(name, pyarrow.int64() if name in _INTEGER_COLUMNS else pyarrow.string()) for name in names]
    )
    with os.fdopen(handle, "wb") as file, ipc.new_file(file, schema) as out:
        while batch:
            out.write_batch(pyarrow.RecordBatch.from_pylist(batch, schema))
            batch = list(islice(records, _BATCH))


_FORMS = {"json": _write_json, "csv": _write_csv, "arrow": _write_arrow}


_VERSION = 1
_HEAD = {"complete-export": _VERSION}
_EXPORTED_COLUMNS = [*COLUMNS, "large"]
"""The columns of a line, and the large answer that it refers to, or nothing."""
_FIRST_TEXT_COLUMN = COLUMNS.index("kind")
_LARGEST = 2**63 - 1


def write_complete_export(
    transaction: Transaction, path: object, key: str, place: str, read_large_body: Callable[[str], str | None]
) -> None:
    """Write all lines of a transaction to a new file that only its owner can read."""
    with new_private_file(path) as handle, os.fdopen(handle, "w", encoding="utf-8") as file:
        head = json.dumps({**_HEAD, "place": place, "key": key, "columns": _EXPORTED_COLUMNS}, ensure_ascii=False)
        file.write(f'{head[:-1]}, "lines": [')
        last = (0, "")
        for row in all_lines(transaction):
            answer = read_large_body(row.file) if row.file else None
            file.write((",\n" if last[0] else "\n") + json.dumps([*row, answer], ensure_ascii=False))
            last = row.number, row.hash
        file.write(f'\n], "last": {json.dumps(last)}}}\n')
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True)
class CompleteExport:
    """A complete export, with what its first line and its last one say."""

    path: Path
    place: str
    """Where the ledger was of which it was made."""
    key: str
    last: tuple[int, str]

    @classmethod
    def from_file(cls, path: Path) -> CompleteExport:
        """Read the first line and the last one; every line is scanned, and none is kept."""
        with (
            refuse_malformed(lambda: _malformed_export_error(path, "its parts contradict each other")),
            _open_text(path) as file,
        ):
            head = _read_head(file, path)
            ending = ""
            for line in file:
                ending = line
        return cls(path, head["place"], head["key"], _parse_last(ending, path))

    def _require_valid(self) -> None:
        """Raise for an export in which a line was changed, or is missing, before anything is written."""
        checker = LineVerifier.from_first_line(KeyedHash(bytes.fromhex(self.key)).origin)
        verification = checker.check(self._rows({}))
        if not verification.holds:
            raise LedgerDamaged(verification.bad, verification.why)
        if (checker.number, checker.hash) != self.last:
            raise _malformed_export_error(
                self.path, "its last ledger line is not the one recorded at the end of the file"
            )

    def _rows(self, large: dict[str, str]) -> Iterator[Row]:
        """Read line by line; ``large`` holds the large answer of the line that was yielded last."""
        with _open_text(self.path) as file:
            _read_head(file, self.path)
            for text in file:
                if text.startswith("]"):
                    return
                row, answer = _parse_line(text, self.path)
                large.clear()
                if answer is not None:
                    if sha256(answer.encode()).hexdigest() != row.file:
                        raise LedgerDamaged(row.number, "the large answer stored beside it does not match its hash")
                    large[row.file] = answer
                yield row

    @contextmanager
    def restored_ledger(self) -> Iterator[Path]:
        """Restore the ledger in a file beside the export, marked as a backup, for the duration of a block. It stays if
        the block ends without an error, or if it was moved on or charged. One that was restored before stays: it
        records whether the ledger was moved on from it, and to where. The export is locked meanwhile.
        """
        with open(self.path, "rb") as export:
            _lock_export(export.fileno(), self.path)
            is_new = not self._ledger_path.exists()
            try:
                if is_new:
                    self._restore()
                yield self._ledger_path
            except BaseException:
                if is_new:
                    self._discard()
                raise

    @property
    def _ledger_path(self) -> Path:
        return Path(f"{self.path}.ledger")

    def _restore(self) -> None:
        large: dict[str, str] = {}
        with refuse_malformed(lambda: _malformed_export_error(self.path, "its parts contradict each other")):
            self._require_valid()
            write_copy(self._ledger_path, LedgerContent(self.key, lambda: self._rows(large), (), large.get))

    def _discard(self) -> None:
        """Remove the restored ledger, unless something was written there that counts."""
        if not self._ledger_path.exists():
            return
        with closing(sqlite3.connect(self._ledger_path)) as file:
            query = "SELECT count(*) FROM lines WHERE number > ? AND kind <> 'acknowledge'"
            ((later_lines,),) = file.execute(query, (self.last[0],))
        if not later_lines:
            self._ledger_path.unlink()
            Path(f"{self._ledger_path}.anchor").unlink(missing_ok=True)
            shutil.rmtree(f"{self._ledger_path}.answers", ignore_errors=True)


def _lock_export(export: int, path: Path) -> None:
    """Lock the export against another copy, where the file system has locks."""
    try:
        fcntl.flock(export, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LedgerUnavailable(
            "another process is copying this export",
            place=str(path),
            fix="wait until that process has ended; if it has succeeded, use the ledger that it wrote",
        ) from None
    except OSError:
        return


@contextmanager
def _open_text(path: Path) -> Iterator[TextIO]:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield file
    except (OSError, UnicodeDecodeError):
        raise _malformed_export_error(path, "it cannot be read as text") from None


def _read_head(file: TextIO, path: Path) -> dict[str, Any]:
    first_line = file.readline().rstrip()
    head = _parse_json(f"{first_line}]}}", path)
    expected_fields = {*_HEAD, "place", "key", "columns", "lines"}
    if not isinstance(head, dict) or set(head) != expected_fields or head["columns"] != _EXPORTED_COLUMNS:
        raise _malformed_export_error(path, "its first line is not that of a complete export")
    if head["complete-export"] != _VERSION:
        raise _malformed_export_error(path, "another version of Sfumato wrote it")
    if not isinstance(head["place"], str) or not _is_ledger_key(head["key"]):
        raise _malformed_export_error(path, "its first line is not that of a complete export")
    return head


def _is_ledger_key(key: object) -> bool:
    with suppress(ValueError):
        return isinstance(key, str) and len(bytes.fromhex(key)) == 32
    return False


def _parse_last(ending: str, path: Path) -> tuple[int, str]:
    """Parse the last line, without which the rest is a part of an export."""
    if not ending.startswith('], "last": ') or not ending.endswith("}\n"):
        raise _malformed_export_error(path, "its end is missing")
    match _parse_json(ending.removeprefix('], "last": ').removesuffix("}\n"), path):
        case [int(number), str(last_hash)]:
            return number, last_hash
        case _:
            raise _malformed_export_error(path, "its end is missing")


def _parse_line(text: str, path: Path) -> tuple[Row, str | None]:
    cells = _parse_json(text.rstrip().removesuffix(","), path)
    if not isinstance(cells, list) or len(cells) != len(_EXPORTED_COLUMNS):
        raise _malformed_export_error(path, "one of its lines does not have the columns of a ledger")
    *columns, large = cells
    numbers, texts = columns[:_FIRST_TEXT_COLUMN], columns[_FIRST_TEXT_COLUMN:]
    are_integers = all(type(cell) is int and 0 <= cell <= _LARGEST for cell in numbers)
    if (
        not are_integers
        or not all(_is_text_without_surrogates(cell) for cell in texts)
        or not (large is None or _is_text_without_surrogates(large))
    ):
        raise _malformed_export_error(path, "one of its columns has the wrong type")
    return Row._make(columns), large


def _is_text_without_surrogates(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _parse_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _malformed_export_error(path, "one of its lines is not valid JSON") from None


def _malformed_export_error(path: Path, why: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"a ledger can only be restored from a complete, unchanged export: {why}",
        place=str(path),
        fix="use the file as `sfumato ledger export --complete` wrote it, or a backup of the ledger",
    )
