"""Names of tables, columns and keys of a policy are checked here."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

from sfumato.errors import InvalidPolicy

LONGEST_NAME = 63
"""Letters of a table's or a column's name."""
_KEPT = "sf_"


def check_name(name: object, what: str, place: str) -> None:
    if isinstance(name, str) and name.lower().startswith(_KEPT):
        raise InvalidPolicy("names beginning with sf_ are kept for generated columns", place=place, fix="rename it")
    if not is_name(name):
        raise InvalidPolicy(
            f"{what} has a name of 1 to {LONGEST_NAME} visible letters in normal form (NFC), without spaces around it",
            place=place,
            fix="rename it in a view or in the file",
        )


def is_name(name: object) -> bool:
    """Tell whether a table or a column may be called so: by visible letters and spaces, which mean the same wherever
    they are printed, and not as what is generated.
    """
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return False
    if name != name.strip() or not unicodedata.is_normalized("NFC", name) or unicodedata.combining(name[0]):
        return False
    return not name.lower().startswith(_KEPT)


def distinct(names: Iterable[str], place: str) -> None:
    """SQL does not tell capital letters from small ones in names."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise InvalidPolicy(
                f"{other} and {name} are the same name in SQL", place=f"{place}.{name}", fix="rename one of them"
            )


def check_keys(
    found: Mapping[str, object],
    known: Iterable[str],
    place: str,
    rule: str = "this key is not known",
    otherwise: str = "remove it: known here are",
) -> None:
    """Refuse a key that nobody reads, and name the known one it is nearest to, or else all of them."""
    from difflib import get_close_matches

    names = tuple(known)
    for key in found:
        if key not in names:
            near = get_close_matches(str(key), names, 1)
            fix = f"did you mean {near[0]}?" if near else f"{otherwise} {', '.join(names)}"
            raise InvalidPolicy(rule, place=f"{place}.{key}" if place else str(key), fix=fix)
