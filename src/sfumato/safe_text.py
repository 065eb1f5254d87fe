"""Texts of other people are written so that nothing in them is obeyed by a terminal or a spreadsheet."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@")
"""A text that begins so is computed when a spreadsheet opens it."""


def printable(text: str) -> str:
    """Give the same text, with what is no visible letter written as an escape: nothing moves a cursor or hides a word.

    >>> printable("caf\u00e9 \x1b[31m")
    'caf\u00e9 \\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def defused(text: str) -> str:
    """Write a text for spreadsheets: an apostrophe before what would be a formula, escapes for what is no letter."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
