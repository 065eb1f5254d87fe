"""Pictures of answers say on themselves what a receipt says: whom they protect, the price, the confidence, the day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from sfumato.plots.answers import Key
from sfumato.plots.chart_data import ChartData, Interval
from sfumato.privacy.numbers import POSITIVE, Number, exact, percent, text
from sfumato.release.answers.formatting import key
from sfumato.release.answers.receipts import REHEARSED, Receipt
from sfumato.safe_text import printable

MARK = "*"
"""Beside a number that is too noisy to print."""
HALF = Fraction(1, 2)
"""Of a number: where its range reaches further than that to one side, it is too noisy to print unless others say
otherwise."""


def foot(receipt: Receipt) -> list[str]:
    """Give what stands below a picture, in words."""
    sure = (
        f"ranges hold with {percent(receipt.confidence)} confidence, for the noise alone" if receipt.confidence else ""
    )
    price = f"{receipt.guarantee} for this answer" if receipt.guarantee else ""
    day = datetime.fromisoformat(receipt.time).strftime("%Y-%m-%d")
    told = [f"protects {receipt.unit}", price, sure, day]
    return [REHEARSED, *told] if receipt.rehearsed else told


def keyed(name: str, values: Sequence[Any]) -> Key:
    """Give one column of keys as it is drawn."""
    return Key(printable(name), tuple(values), tuple(map(key, values)))


def threshold(above: Number) -> str:
    """Read the part of a number above which its range is too wide, as it is kept."""
    return text(exact(above, "above", POSITIVE))


def too_noisy(value: Any, interval: Interval, above: Fraction = HALF) -> bool:
    """Tell whether a number's range reaches further to one side than this part of the number itself."""
    if value is None or interval is None:
        return False
    return max(value - interval[0], interval[1] - value) > float(above) * abs(value)


def notes(charts: Sequence[ChartData], above: str = "") -> list[str]:
    """Say how the marks of a picture are read that are not plain: of numbers that are too noisy, and of sampling."""
    noisy = any(any(each.noisy) for each in charts)
    sampled = any(each.sampling for each in charts)
    unknown = any(
        marked and interval is None
        for each in charts
        for marked, interval in zip(each.noisy, each.intervals, strict=False)
    )
    reaching = _reaching(Fraction(above) if above else HALF) + (", or is not known" if unknown else "")
    return [
        *([f"hollow or dashed: {reaching}"] if noisy else []),
        *(["orange: sampling error, about, since the rows are a sample; dark: noise"] if sampled else []),
    ]


def _reaching(above: Fraction) -> str:
    much = f"{percent(above)} of the number" if above <= 1 else f"{text(above)} times the number"
    return f"too noisy to print, since its range reaches further than {much}"


def explained(above: Fraction) -> str:
    """Say what the mark means."""
    return f"{MARK} {_reaching(above)}"
