"""Answers about a column of numbers or dates are read here: bounds, a list of values, and bins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from sfumato.cli.drafting.questions import SKIP
from sfumato.policy import Domain, Type
from sfumato.policy.codings import coding_of

VALUES, BINS = "values", "bins"
_RUN = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_LONGEST_RUN = 10_000
"""Values that a run may stand for."""

Declared = Domain | Mapping[str, Any]
"""A column as a table takes it: with bins it is written as a policy file has it."""


def texts(answer: str) -> Domain:
    """Read the values of a column of texts, separated by commas."""
    return Domain(Type.TEXT, values=_listed(answer))


def numbers(kind: Type, answer: str) -> Declared:
    """Read ``0 110``, ``0 110 bins 11``, ``bins 0,18,65``, ``values 0,1``, ``values 1..16``, or nothing."""
    first, _, rest = answer.strip().partition(" ")
    if first == VALUES:
        return Domain(kind, values=_numbered(rest))
    ends, found, bins = f" {answer.strip()} ".partition(f" {BINS} ")
    domain = Domain(kind, bounds=_ends(kind, ends.strip()))
    if not found:
        return domain
    cells = _bins(bins.strip())
    coding_of(domain, cells, None)  # refuses what are no bins of this column, while its owner can answer again
    written = {"type": kind.value, "bounds": domain.bounds, "bins": cells}
    return {name: each for name, each in written.items() if each is not None}


def _listed(answer: str) -> tuple[str, ...] | None:
    return None if answer.strip() in ("", SKIP) else tuple(part.strip() for part in answer.split(","))


def _numbered(answer: str) -> tuple[str, ...] | None:
    """Read a list of numbers, in which 1..16 stands for all whole numbers from 1 to 16."""
    listed = _listed(answer)
    return None if listed is None else tuple(each for part in listed for each in _expanded(part))


def _expanded(part: str) -> tuple[str, ...]:
    ends = _RUN.fullmatch(part)
    if ends is None:
        return (part,)
    low, high = int(ends[1]), int(ends[2])
    if not low <= high < low + _LONGEST_RUN:
        raise click.UsageError(f"a run of values goes up, and has at most {_LONGEST_RUN:,} of them")
    return tuple(map(str, range(low, high + 1)))


def _bins(written: str) -> int | str | tuple[str, ...]:
    """Read a number of equal bins, their edges separated by commas, or a part of the calendar such as month."""
    if "," in written:
        return tuple(part.strip() for part in written.split(","))
    return int(written) if written.isdecimal() else written


def _ends(kind: Type, answer: str) -> Any:
    """Read two bounds; of numbers a comma may as well mean a list, and the wrong one would lose most of a column."""
    if answer in ("", SKIP):
        return None
    if "," in answer and kind.numeric:
        parts = answer.replace(",", " ").split()
        listed = f"a list of values as {VALUES} {','.join(parts)}"
        bounds = f"write bounds as {' '.join(parts)}, and " if len(parts) == 2 else "write "
        raise click.UsageError(bounds + listed)
    found = tuple(part.strip() for part in answer.split("," if "," in answer else None))
    if len(found) != 2:
        raise click.UsageError("a column has two bounds, low and high, such as 0 110")
    return found
