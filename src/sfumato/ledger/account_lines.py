"""The history of an account as whoever asks for it sees it: in this process, or over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from sfumato.ledger.entries import Line
from sfumato.notebook_html import paragraph, table
from sfumato.safe_text import printable

LINE_COLUMNS = ("number", "time (UTC)", "analyst", "kind", "question", "cost")
"""The column names of a line's words."""
_SHOWN_LINES = 100
"""Lines that are shown where nobody takes them one by one."""


class AccountLines(Iterator[Line]):
    """The lines of an account are read one by one, as they are asked for; shown, they are a table in words."""

    def __init__(self, read: Callable[[], Iterator[Line]]) -> None:
        self._read = read
        self._lines = read()

    def __next__(self) -> Line:
        return next(self._lines)

    def _rows(self) -> tuple[list[tuple[str, ...]], str]:
        """Give the first lines, in words, and what is said of the others."""
        found = list(islice(self._read(), _SHOWN_LINES + 1))
        more = "" if len(found) <= _SHOWN_LINES else f"… and more: only the first {_SHOWN_LINES} lines are shown"
        return [line.words() for line in found[:_SHOWN_LINES]], more

    def __repr__(self) -> str:
        rows, more = self._rows()
        if not rows:
            return "nothing has been asked yet"
        widths = [max(map(len, column)) for column in zip(LINE_COLUMNS, *rows, strict=True)]
        told = [printable("  ".join(map(str.ljust, each, widths)).rstrip()) for each in (LINE_COLUMNS, *rows)]
        return "\n".join([*told, *([more] if more else [])])

    def _repr_html_(self) -> str:
        rows, more = self._rows()
        return table(LINE_COLUMNS, rows, LINE_COLUMNS[:1], more) if rows else paragraph("Nothing has been asked yet.")
