"""The least price for a wanted accuracy is found by trying prices; what has no half-width cannot be asked for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Any

from sfumato.curator.previews.forecasts import SIZES, Width
from sfumato.errors import InvalidParameter
from sfumato.privacy.calibration import above, least_by
from sfumato.privacy.numbers import POSITIVE, exact
from sfumato.release.prices import rounded_up
from sfumato.release.requests import Within

_PRECISE = Fraction(1, 2**20)  # how exactly the least price is found, as a part of itself
Widths = Callable[[Fraction, int | None], Mapping[str, Width]]
"""The half-widths of every column at a price, for groups of one size, or of every size."""


def least_price(within: Within | None, names: Collection[str], widths: Widths) -> Fraction:
    """Find the least price at which the columns of an answer, which have these names, are within what is wanted."""
    goals = _goals(within, names, widths(Fraction(1), None))

    def short(price: Fraction, size: int | None = None) -> float:
        found = widths(price, size)
        wanted = ((found[name], goal) for name, goal in goals.items())
        return max(above(width, goal) if isinstance(width, float) else math.inf for width, goal in wanted)

    # What is enough for groups of every size is enough for one: the least for one is the least if it is for all.
    try:
        found = least_by(lambda price: short(price, SIZES[0]), "within", _PRECISE)
        return rounded_up(found if short(found) <= 0 else least_by(short, "within", _PRECISE))
    except InvalidParameter as refused:
        if refused.place not in ("guarantee", "price"):
            raise
        rule = "half-widths that the noise of some price has: no price has these"
        fix = "look at error(), which says what a price gives"
        raise InvalidParameter("within", within, rule, fix=fix) from None


def _goals(within: Within | None, names: Collection[str], known: Mapping[str, Width]) -> dict[str, Fraction]:
    """Read what is wanted of each column; refuse what no price could give."""
    if not known:
        raise _no_half_width(*names)
    wanted: Mapping[str, Any] = within if isinstance(within, Mapping) else dict.fromkeys(known, within)
    if not wanted:
        raise InvalidParameter("within", within, "half-widths by column, such as {'visits': 50}")
    goals = {name: exact(width, f"within {name}", POSITIVE) for name, width in wanted.items()}
    for name in goals:
        if name not in known and name in names:
            raise _no_half_width(name)
        if name not in known:
            raise InvalidParameter("within", name, "a column of numbers: " + ", ".join(known))
        if known[name] == math.inf:
            raise InvalidParameter(
                "within", name, "a column whose error is finite: a part of it may be divided by zero"
            )
        if isinstance(known[name], Mapping):
            raise InvalidParameter(
                "within",
                name,
                "a column with one half-width: that of a mean or a ratio depends on how many rows a group has",
                fix="add COUNT(*) AS n or a SUM to the question and name that one; or give epsilon (--epsilon) and "
                "look at error() (--dry-run), which shows this column's half-width by the size of a group",
            )
    return goals


def _no_half_width(*names: str) -> InvalidParameter:
    rule = "a column of noisy numbers: what is a key, or is chosen among values, has no half-width"
    fix = "give epsilon (--epsilon) and look at error() (--dry-run), which says how good a choice is"
    return InvalidParameter("within", ", ".join(names), rule, fix=fix)
