"""Bids are read from a CSV file here, for an auction that no curator holds."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from sfumato.curator.accounts.policy_account import refuse_if_curated
from sfumato.errors import InvalidParameter


def read_bids(path: Path, column: str | None = None) -> list[str]:
    """Read the bids of one column as text, since numbers mean their decimals; the only column need not be named.

    A file that a ledger beside it knows has a budget, which only its policy spends: it is refused.
    """
    refuse_if_curated(path)
    return list(_cells(path, column))


def _cells(path: Path, name: str | None) -> Iterator[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [cell.strip() for cell in next(rows, [])]
            wanted = header[0] if name is None and len(header) == 1 else name
            if wanted is None or header.count(wanted) != 1:
                rule = f"the name of one column: {', '.join(header) or 'the file has none'}"
                raise InvalidParameter("column", name, rule, fix="add --column NAME")
            place = header.index(wanted)
            for row in rows:
                if row:
                    yield row[place] if place < len(row) else ""
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidParameter("bids", str(path), "a CSV file in UTF-8 with a header") from None
