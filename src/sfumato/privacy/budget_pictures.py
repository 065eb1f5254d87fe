"""A budget over time is drawn as stairs: which part of each currency was spent after every charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from sfumato.plots.frame import framed
from sfumato.plots.lines import Line, Panel, panel
from sfumato.plots.picture import Picture
from sfumato.plots.scales import TimeScale, seconds

WORDS = {"pure": "ordinary answers", "renyi": "Gaussian answers", "failure": "chance of failure"}
"""What each currency is for; the two first ones are spent side by side, and one of them has to last."""


@dataclass(frozen=True)
class Moment:
    """A moment is when something was charged, and what had been spent after it, per currency."""

    time: datetime
    spent: Mapping[str, Fraction | None]


@dataclass(frozen=True)
class History:
    """A history is read when somebody wants to see it, not before."""

    moments: Callable[[], Sequence[Moment]]


def draw_budget(
    moments: Sequence[Moment],
    spent: Mapping[str, Fraction | None],
    allowed: Mapping[str, Fraction | None],
    now: datetime,
    promise: str,
) -> Picture:
    """Draw the part of each currency that is spent, in per cent of what is allowed today, up to now."""
    start = min([each.time for each in moments], default=now)
    at = (seconds(start), *(seconds(each.time) for each in moments), seconds(now))
    lines, over = [], False
    for name, whole in allowed.items():
        if not whole:
            continue
        parts = [Fraction(0), *(each.spent.get(name, Fraction(0)) for each in moments), spent.get(name)]
        shares = [None if each is None else 100 * float(each / whole) for each in parts]
        over = over or any(each is None or each > 100 for each in shares)
        kept = tuple(None if each is None else min(each, 110.0) for each in shares)
        lines.append(Line(f"{WORDS.get(name, name)} {_now(shares[-1])}", at, kept, stepped=True))
    notes = ["a line that ends, or lies at the top, is of a currency that is closed"] if over else []
    count = f"{len(moments):,} charges" if len(moments) != 1 else "1 charge"
    marked = ((seconds(moments[-1].time), "last charge"),) if moments else ()
    of = Panel(
        "per cent of the budget that is spent", "", TimeScale, ends=(0.0, 110.0 if over else 100.0), marked=marked
    )
    foot = [promise, count, f"until {now.strftime('%Y-%m-%d')}"]
    return framed(panel(lines, of, 300.0), "Budget over time", foot, notes)


def _now(share: float | None) -> str:
    return "closed" if share is None or share > 100 else f"{share:.0f} %"
