"""A refusal is underlined where it is: its line and column lead to the word that is meant."""

from __future__ import annotations

import re

from sfumato.errors import SfumatoError
from sfumato.server.pages.page_contexts import Underlined

_WORD = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|\w+|\S")


def start_of(error: SfumatoError, text: str) -> int:
    """Give the place in a text, in letters, where a refusal begins; -1 where it means the whole text."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if line is None or column is None:
        return -1
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return -1
    start = sum(len(each) + 1 for each in lines[: line - 1]) + min(max(1, column), len(lines[line - 1]) + 1) - 1
    return min(start, max(0, len(text) - 1))


def underlined(text: str, start: int) -> Underlined | None:
    """Split a text at the word that begins here, or at the next one; None where there is none."""
    found = _WORD.search(text, start) if start >= 0 else None
    if found is None:
        return None
    return Underlined(text[: found.start()], found[0], text[found.end() :])
