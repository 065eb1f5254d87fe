"""Whatever others wrote (files, exports, requests, replies) is read, or refused by the error of whoever reads it.

Readers check what they foresee and say what is wrong with it. What they do not foresee shows as one of Python's own
errors, such as an attribute that a number does not have. ``refusing`` turns these into the reader's refusal, with
Python's error as its cause: no text that somebody else wrote ends in an internal error.

Texts of other people are written so that nothing in them is obeyed by a terminal or a spreadsheet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sfumato.errors import SfumatoError

UNFORESEEN: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
    struct.error,
)
"""What Python raises where data have another shape than the code that reads them expects."""
UNREADABLE: tuple[type[Exception], ...] = (OSError, *UNFORESEEN)
"""The same, or that a file cannot be opened."""


@contextmanager
def refusing(refusal: Callable[[], SfumatoError]) -> Iterator[None]:
    """Raise a refusal in place of any unforeseen error inside; what is refused already stays as it is."""
    try:
        yield
    except SfumatoError:
        raise
    except UNFORESEEN as error:
        raise refusal() from error


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
