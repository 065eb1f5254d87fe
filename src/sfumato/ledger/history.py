"""The history of an account as its reader sees it, in this process or over HTTP: a table of lines and its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from sfumato.ledger.entries import Line
from sfumato.notebook_html import paragraph, table
from sfumato.untrusted import escape_unprintable

LINE_COLUMNS = ("number", "time (UTC)", "analyst", "kind", "question", "cost")
"""The columns of a history, in every skin; ``Line.words`` fills them."""
_MAX_SHOWN_LINES = 100
"""How many lines a printed history shows."""


class AccountLines(Iterator[Line]):
    """The lines of an account, read on demand; printed, they are a table in words."""

    def __init__(self, read: Callable[[], Iterator[Line]]) -> None:
        self._read = read
        self._lines = read()

    def __next__(self) -> Line:
        return next(self._lines)

    def _rows_and_note(self) -> tuple[list[tuple[str, ...]], str]:
        """Return the first lines, in words, and a note on the others."""
        lines = list(islice(self._read(), _MAX_SHOWN_LINES + 1))
        note = (
            "" if len(lines) <= _MAX_SHOWN_LINES else f"… and more: only the first {_MAX_SHOWN_LINES} lines are shown"
        )
        return [line.words() for line in lines[:_MAX_SHOWN_LINES]], note

    def __repr__(self) -> str:
        rows, note = self._rows_and_note()
        if not rows:
            return "nothing has been asked yet"
        widths = [max(map(len, column)) for column in zip(LINE_COLUMNS, *rows, strict=True)]
        printed_rows = [
            escape_unprintable("  ".join(map(str.ljust, row, widths)).rstrip()) for row in (LINE_COLUMNS, *rows)
        ]
        return "\n".join([*printed_rows, *([note] if note else [])])

    def _repr_html_(self) -> str:
        rows, note = self._rows_and_note()
        return table(LINE_COLUMNS, rows, LINE_COLUMNS[:1], note) if rows else paragraph("Nothing has been asked yet.")
