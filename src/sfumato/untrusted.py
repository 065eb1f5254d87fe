"""Parsing and printing of untrusted input (files, exports, requests, replies).

Parsers check what they expect and report what is wrong. Unexpected input shows as one of Python's own errors, such as
an ``AttributeError``. ``refuse_malformed`` turns these into the parser's own error, with Python's as its cause: no
untrusted input ends in an internal error.

``escape_unprintable``, ``single_line`` and ``escape_for_spreadsheet`` escape untrusted texts for terminals and
spreadsheets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sfumato.errors import SfumatoError

MALFORMED_INPUT: tuple[type[Exception], ...] = (
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
"""What Python raises where input has another shape than the code expects."""
UNREADABLE: tuple[type[Exception], ...] = (OSError, *MALFORMED_INPUT)
"""The same, and errors of opening a file."""


@contextmanager
def refuse_malformed(refusal: Callable[[], SfumatoError]) -> Iterator[None]:
    """Raise ``refusal()`` in place of any unforeseen error inside; a ``SfumatoError`` passes unchanged."""
    try:
        yield
    except SfumatoError:
        raise
    except MALFORMED_INPUT as error:
        raise refusal() from error


_FORMULA_STARTS = ("=", "+", "-", "@")
"""First characters that make a spreadsheet evaluate a text as a formula."""


def escape_unprintable(text: str) -> str:
    """Return a text with control and invisible characters escaped.

    >>> escape_unprintable("caf\u00e9 \x1b[31m")
    'caf\u00e9 \\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def single_line(text: str) -> str:
    """Return a text on one line, with control and invisible characters escaped.

    >>> single_line("the report" + chr(10) + "  approved  by nobody")
    'the report approved by nobody'
    """
    return escape_unprintable(" ".join(text.split()))


def escape_for_spreadsheet(text: str) -> str:
    """Escape as ``escape_unprintable`` does, with an apostrophe before what a spreadsheet would take for a formula."""
    escaped = escape_unprintable(text)
    return f"'{escaped}" if escaped.startswith(_FORMULA_STARTS) else escaped
