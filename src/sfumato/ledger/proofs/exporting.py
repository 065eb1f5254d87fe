"""Every line is exported as JSON, CSV or Arrow, for other programs. Amounts are exact, as text: decimals, or p/q."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from sfumato.errors import InvalidParameter, LedgerUnavailable
from sfumato.ledger import local_files
from sfumato.ledger.entries import Line
from sfumato.privacy import Cost
from sfumato.privacy.numbers import text
from sfumato.safe_text import defused

Record = dict[str, str | int | None]

_BATCH = 10_000
_WHOLE = {"number", "tab", "about"}


def record(line: Line, large: Callable[[str], str | None]) -> Record:
    """Write one line as flat columns; ``large`` finds an answer that a file holds."""
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
        **_amounts("cost", line.cost),
        **_amounts("spent", line.spent),
        **_amounts("held", line.held),
        "parts": line.parts,
        "detail": line.detail,
        "body": large(line.file) if line.file else line.body,
        "file": line.file,
        "previous": line.previous,
        "hash": line.hash,
    }


def _amounts(name: str, cost: Cost) -> Record:
    found = cost.amounts
    shown = {
        currency: None
        if currency not in found
        else "unbounded"
        if (amount := found[currency]) is None
        else text(amount)
        for currency in ("pure", "renyi", "failure")
    }
    return {f"{name}_{currency}": amount for currency, amount in shown.items()}


def export(lines: Iterable[Line], form: str, path: str | os.PathLike[str], large: Callable[[str], str | None]) -> None:
    """Write lines to a new file that only its owner can read."""
    if not isinstance(form, str) or form not in _FORMS:
        raise InvalidParameter("form", form, "one of " + ", ".join(sorted(_FORMS)))
    with new_file(path) as handle:
        _FORMS[form]((record(line, large) for line in lines), handle)


@contextmanager
def new_file(path: object) -> Iterator[int]:
    """Make a file that only its owner can read, to be written and closed in the block; where that fails, it is gone."""
    target = Path(local_files.address(path, "path"))
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerUnavailable(
            f"the export cannot be written ({os.strerror(error.errno or 0)})",
            place=str(target),
            fix="give the name of a file that is not there, in a folder that is",
        ) from error
    try:
        yield handle
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _json(records: Iterator[Record], handle: int) -> None:
    """Write a list with one line of text per line of the ledger."""
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("[")
        for index, found in enumerate(records):
            file.write(("\n" if index == 0 else ",\n") + json.dumps(found, ensure_ascii=False))
        file.write("\n]\n")


def _csv(records: Iterator[Record], handle: int) -> None:
    """Write CSV with texts as in answers, where a spreadsheet runs none as a formula: questions are other people's
    texts.
    """
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for found in records:
            if writer is None:
                writer = csv.DictWriter(file, list(found))
                writer.writeheader()
            writer.writerow(
                {name: defused(value) if isinstance(value, str) else value for name, value in found.items()}
            )


def _arrow(records: Iterator[Record], handle: int) -> None:
    """Write the IPC file format, in batches."""
    import pyarrow
    from pyarrow import ipc

    batch = list(islice(records, _BATCH))
    names = list(batch[0]) if batch else []
    schema = pyarrow.schema([(name, pyarrow.int64() if name in _WHOLE else pyarrow.string()) for name in names])
    with os.fdopen(handle, "wb") as file, ipc.new_file(file, schema) as out:
        while batch:
            out.write_batch(pyarrow.RecordBatch.from_pylist(batch, schema))
            batch = list(islice(records, _BATCH))


_FORMS = {"json": _json, "csv": _csv, "arrow": _arrow}
