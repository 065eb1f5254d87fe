"""Pictures of answers say on themselves what a receipt says: whom they protect, the price, the confidence, the day.

Answers are given to Altair, for people who go on drawing there; our own pictures need none of it (``plots``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, SfumatoError, installing
from sfumato.plots.answers import GroupColumn
from sfumato.plots.scales import ChartData, Interval
from sfumato.privacy.numbers import POSITIVE, Number, exact, percent, text
from sfumato.release.answers.formatting import key
from sfumato.release.answers.receipts import REHEARSED, Receipt
from sfumato.untrusted import printable

MARK = "*"
"""Beside a number that is too noisy to print."""
HALF = Fraction(1, 2)
"""Of a number: where its range reaches further than that to one side, it is too noisy to print unless others say
otherwise."""


def foot(receipt: Receipt) -> list[str]:
    """Return what stands below a picture, in words."""
    sure = (
        f"ranges hold with {percent(receipt.confidence)} confidence, for the noise alone" if receipt.confidence else ""
    )
    price = f"{receipt.guarantee} for this answer" if receipt.guarantee else ""
    day = datetime.fromisoformat(receipt.time).strftime("%Y-%m-%d")
    told = [f"protects {receipt.unit}", price, sure, day]
    return [REHEARSED, *told] if receipt.rehearsed else told


def keyed(name: str, values: Sequence[Any]) -> GroupColumn:
    """Return one column of keys as it is drawn."""
    return GroupColumn(printable(name), tuple(values), tuple(map(key, values)))


def threshold(above: Number) -> str:
    """Read the part of a number above which its range is too wide, as it is kept."""
    return text(exact(above, "above", POSITIVE))


def too_noisy(value: Any, interval: Interval, above: Fraction = HALF) -> bool:
    """Return whether a number's range reaches further to one side than this part of the number itself."""
    if value is None or interval is None:
        return False
    return max(value - interval[0], interval[1] - value) > float(above) * abs(value)


def notes(charts: Sequence[ChartData], above: str = "") -> list[str]:
    """Describe how the marks of a picture are read that are not plain: of numbers that are too noisy, and of sampling."""
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
    """Describe what the mark means."""
    return f"{MARK} {_reaching(above)}"


_BAR, _ERROR = "#7a8ca5", "#2b3a4f"
_MOST_BARS = 200
_STEP, _PAGE = 20, 800
"""Pixels of one bar, and of all of them: more bars are thinner."""


def bar_chart(columns: Sequence[ChartData]) -> Any:
    """Return bars with their ranges, a panel for each column."""
    return _chart(columns, _altair())


def line_chart(lines: Sequence[ChartData], kind: str) -> Any:
    """Return a line with a band for its ranges, over what comes one after the other: dates, or numbers (Vega's ``kind``
    T or Q). Each line has its own name.
    """
    return _lines(lines, kind, _altair())


def _lines(lines: Sequence[ChartData], kind: str, altair: Any) -> Any:
    rows = [
        {"line": line.name, "at": at, "value": value, "low": _end(interval, 0), "high": _end(interval, 1)}
        for line in lines
        for at, value, interval in zip(line.labels, line.values, line.intervals, strict=True)
    ]
    base = altair.Chart(altair.Data(values=rows), width=480, height=260)
    across = altair.X(f"at:{kind}", title=lines[0].by)
    title = lines[0].name if len(lines) == 1 else None
    colour = altair.value(_BAR) if len(lines) == 1 else altair.Color("line:N", title=None, sort=None)
    band = base.mark_area(opacity=0.3).encode(x=across, y=altair.Y("low:Q", title=title), y2="high:Q", color=colour)
    return (
        altair.layer(band, base.mark_line(strokeWidth=1.5).encode(x=across, y="value:Q", color=colour))
        .configure_view(stroke=None)
        .configure_axis(grid=False, domainColor="#999", tickColor="#999")
    )


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise SfumatoError(
            "altair is not installed",
            place="Answer.to_altair",
            fix=installing("plot"),
        ) from None
    return altair


def _chart(columns: Sequence[ChartData], altair: Any) -> Any:
    if not columns or not columns[0].values:
        raise InvalidParameter("answer", "no numbers", "one with a column of numbers and a row")
    first = columns[0].labels
    charts = [_bars(each, altair, labelled=not index or each.labels != first) for index, each in enumerate(columns)]
    return (
        altair.hconcat(*charts)
        .configure_view(stroke=None)
        .configure_axis(grid=False, domainColor="#999", tickColor="#999")
    )


def _bars(data: ChartData, altair: Any, *, labelled: bool) -> Any:
    """Draw one panel: a row for every row of the answer, also where it has no number, so that panels stay in line."""
    count = min(len(data.values), _MOST_BARS)
    step = min(_STEP, _PAGE / count)
    rows = [
        {"row": row, "value": value, "low": _end(interval, 0), "high": _end(interval, 1)}
        for row, value, interval in zip(range(count), data.values, data.intervals, strict=False)
    ]
    base = altair.Chart(altair.Data(values=rows), title=_title(data, count, altair), width=280, height=step * count)
    axis = altair.Axis(**_axis(data, count), **({} if labelled else _BARE))
    place = altair.Y("row:O", scale=altair.Scale(domain=list(range(count))), axis=axis)
    amount = altair.X("value:Q", title=None, axis=altair.Axis(labelOverlap=True, labelSeparation=8))
    bars = base.mark_bar(color=_BAR, size=0.7 * step).encode(y=place, x=amount)
    reach = base.mark_rule(color=_ERROR, strokeWidth=min(2, step / 4)).encode(y=place, x="low:Q", x2="high:Q")
    ends = [
        base.mark_tick(color=_ERROR, size=0.4 * step, thickness=min(2, step / 4)).encode(y=place, x=f"{end}:Q")
        for end in ("low", "high")
    ]
    return altair.layer(bars, reach, *ends)


def _axis(data: ChartData, count: int) -> dict[str, Any]:
    """Write labels beside the bars; what they are stands above them, where it can overlap none of them."""
    return {
        "labelExpr": f"{json.dumps(data.labels[:count])}[datum.value]",
        "labelOverlap": "greedy",
        "labelLimit": 260,
        "title": data.by or None,
        "titleAngle": 0,
        "titleAlign": "right",
        "titleBaseline": "bottom",
        "titleX": -10,
        "titleY": -8,
    }


_BARE = {"labels": False, "ticks": False, "domain": False, "titleOpacity": 0}
"""An axis that takes the same height and shows nothing: the titles of all panels stay in line."""


def _title(data: ChartData, count: int, altair: Any) -> Any:
    more = f"the first {count} of {len(data.values):,} rows" if count < len(data.values) else ""
    return altair.TitleParams(data.name, subtitle=more, anchor="middle", offset=12)


def _end(interval: Interval, place: int) -> float | None:
    """No whisker reaches infinity."""
    return interval[place] if interval is not None and math.isfinite(interval[place]) else None
