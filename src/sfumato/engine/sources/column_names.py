"""A column is found in its source by one rule, whichever engine holds it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar

from sfumato.errors import InvalidPolicy

T = TypeVar("T")


def folded(name: str) -> str:
    """Write a name without its letter case, its accents composed: a source may write é as two letters."""
    return unicodedata.normalize("NFC", name).lower()


def find(columns: Sequence[tuple[str, T]], column: str, place: str, otherwise: str) -> T:
    """Find the column of that name, exactly or, if only one is so, in other letter case, accents composed.

    ``otherwise`` is what to do where no column has a name like it.
    """
    found = [each for true, each in columns if true == column]
    found = found or [each for true, each in columns if folded(true) == folded(column)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidPolicy(
            f"the source has several columns called {column}", place=place, fix="rename all but one of them"
        )
    near = get_close_matches(column, [true for true, _ in columns], 1)
    fix = f"did you mean {near[0]}?" if near else otherwise
    raise InvalidPolicy(f"the source has no column {column}", place=place, fix=fix)
