"""Captions and marks of an answer's pictures, and its Altair charts; our own pictures are drawn by ``plots``."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, SfumatoError, ValueWords
from sfumato.extras import install_command
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Call, Column, Key, Literal
from sfumato.plan.values.functions.numeric import MAX_BUCKETS
from sfumato.plots.answers import Buckets, GroupColumn
from sfumato.plots.frame import ChartData, Interval
from sfumato.plots.picture import VEGA_AXIS, VEGA_BAR, VEGA_ERROR_BAR
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, Number, exact, format_exact, format_percent
from sfumato.release.answers.formatting import key_text
from sfumato.release.answers.receipts import PREVIEW_NOTE, Receipt
from sfumato.untrusted import escape_unprintable

MARK = "*"
"""The mark of a number that is too noisy to rely on."""
BucketKey = tuple[str, float, float, int]
"""A key column of WIDTH_BUCKET: its name, the low end, the high end, and the number of its buckets."""
_NOTE_LETTERS = 125
"""The most characters of a line below a picture."""
HALF = Fraction(1, 2)
"""The default limit: a number whose interval extends further than this fraction of it is too noisy to rely on."""


def caption_lines(receipt: Receipt) -> list[str]:
    """Return the lines below a picture: whom it protects, the price, the confidence and the date."""
    limits = ", not rows beyond the limits per unit" if receipt.may_drop_rows else ""
    coverage = (
        f"ranges cover the noise with {format_percent(receipt.confidence)} confidence{limits}"
        if receipt.confidence
        else ""
    )
    price = f"{receipt.guarantee} for this answer" if receipt.guarantee else ""
    day = datetime.fromisoformat(receipt.time).strftime("%Y-%m-%d")
    caption = [f"protects {receipt.unit}", price, coverage, day]
    return [PREVIEW_NOTE, *caption] if receipt.is_preview else caption


def key_column(name: str, values: Sequence[Any], buckets: Buckets | None = None) -> GroupColumn:
    """Return one key column as chart data."""
    return GroupColumn(escape_unprintable(name), tuple(values), tuple(map(key_text, values)), buckets)


def bucket_keys(query: Query) -> Iterator[BucketKey]:
    """Iterate over the key columns of WIDTH_BUCKET, with the ends and the number of their buckets."""
    for output in () if query.outer else query.finish.outputs:
        expression = output.expression
        if isinstance(expression, Column) and isinstance(expression.reference, Key):
            key = query.plan.keys[expression.reference.index]
            if isinstance(key, Call) and key.function == "WIDTH_BUCKET":
                low, high, count = (argument.value for argument in key.arguments[1:] if isinstance(argument, Literal))
                yield output.name, float(low), float(high), int(count)  # type: ignore[arg-type]


def parse_buckets(buckets: Any, keys: Sequence[str]) -> tuple[BucketKey, ...]:
    """Check which key columns number buckets, as an answer's text may name them."""
    parsed = []
    for name, low, high, count in buckets:
        ends = codec.parse_float(low, "buckets"), codec.parse_float(high, "buckets")
        is_range = ends[0] < ends[1] and math.isfinite(ends[1] - ends[0])
        if name not in keys:
            raise InvalidParameter("buckets", buckets, "a list of tuples (group key, low, high, number of buckets)")
        if not is_range:
            raise InvalidParameter(
                "buckets", buckets, "a list of tuples (group key, low, high, number of buckets) with low < high"
            )
        if type(count) is not int or not 1 <= count <= MAX_BUCKETS:
            rule = f"a list of tuples (group key, low, high, number of buckets) with 1 to {MAX_BUCKETS:,} buckets"
            raise InvalidParameter("buckets", buckets, rule)
        parsed.append((name, *ends, count))
    return tuple(parsed)


def parse_noise_limit(max_relative_width: Number) -> str:
    """Parse the fraction of a number above which its interval is too wide, as text for storage."""
    return format_exact(exact(max_relative_width, "above", POSITIVE))


def is_too_noisy(value: Any, interval: Interval, above: Fraction = HALF) -> bool:
    """Return whether an interval extends further to one side than this fraction of the number."""
    if value is None or interval is None:
        return False
    return max(value - interval[0], interval[1] - value) > float(above) * abs(value)


def mark_notes(charts: Sequence[ChartData], above: str = "") -> list[str]:
    """Explain the marks of a picture: numbers that are too noisy, and sampling errors."""
    has_noisy = any(any(chart.noisy) for chart in charts)
    has_sampling = any(chart.sampling for chart in charts)
    has_unknown = any(
        is_noisy and interval is None
        for chart in charts
        for is_noisy, interval in zip(chart.noisy, chart.intervals, strict=False)
    )
    noisy_text = _too_noisy_phrase(Fraction(above) if above else HALF) + (
        ", or of unknown width" if has_unknown else ""
    )
    return [
        *([f"hollow, dashed or thin: {noisy_text}"] if has_noisy else []),
        *(["dark: noise; orange: approximate sampling error, since the rows are a sample"] if has_sampling else []),
    ]


def wrap_notes(lines: Sequence[str]) -> list[str]:
    """Break long notes into lines as wide as a picture."""
    return [part for line in lines for part in textwrap.wrap(line, _NOTE_LETTERS, break_long_words=False)]


def _too_noisy_phrase(above: Fraction) -> str:
    limit = f"{format_percent(above)} of the number" if above <= 1 else f"{format_exact(above)} times the number"
    return f"too noisy to rely on: ± is more than {limit}"


def too_noisy_mark_note(above: Fraction) -> str:
    """Explain the mark of a number that is too noisy."""
    return f"{MARK} {_too_noisy_phrase(above)}"


_MAX_BARS = 200
_STEP, _PAGE = 20, 800
"""Pixels of one bar, and of all bars together; more bars are thinner."""


def altair_bar_chart(columns: Sequence[ChartData]) -> Any:
    """Return bars with their intervals, one panel per column."""
    return _bar_chart(columns, _import_altair())


def altair_line_chart(lines: Sequence[ChartData], axis_type: str) -> Any:
    """Return one named line per series with a band for its intervals, over dates or numbers (Vega's T or Q)."""
    return _line_chart(lines, axis_type, _import_altair())


def _line_chart(lines: Sequence[ChartData], axis_type: str, altair: Any) -> Any:
    rows = [
        {
            "line": line.name,
            "at": position,
            "value": value,
            "low": _finite_end(interval, 0),
            "high": _finite_end(interval, 1),
        }
        for line in lines
        for position, value, interval in zip(line.labels, line.values, line.intervals, strict=True)
    ]
    base = altair.Chart(altair.Data(values=rows), width=480, height=260)
    x_axis = altair.X(f"at:{axis_type}", title=lines[0].key_names)
    title = lines[0].name if len(lines) == 1 else None
    colour = altair.value(VEGA_BAR) if len(lines) == 1 else altair.Color("line:N", title=None, sort=None)
    band = base.mark_area(opacity=0.3).encode(x=x_axis, y=altair.Y("low:Q", title=title), y2="high:Q", color=colour)
    return (
        altair.layer(band, base.mark_line(strokeWidth=1.5).encode(x=x_axis, y="value:Q", color=colour))
        .configure_view(stroke=None)
        .configure_axis(grid=False, domainColor=VEGA_AXIS, tickColor=VEGA_AXIS)
    )


def _import_altair() -> Any:
    try:
        import altair
    except ImportError:
        raise SfumatoError(
            "altair is not installed",
            place="Answer.to_altair",
            fix=install_command("plot"),
        ) from None
    return altair


def _bar_chart(columns: Sequence[ChartData], altair: Any) -> Any:
    if not columns or not columns[0].values:
        raise InvalidParameter(
            "answer",
            ValueWords("no numbers"),
            "a table with at least one column of numbers and one row",
            fix="ask for a count or another number",
        )
    first_labels = columns[0].labels
    charts = [
        _bar_panel(column, altair, labelled=not index or column.labels != first_labels)
        for index, column in enumerate(columns)
    ]
    return (
        altair.hconcat(*charts)
        .configure_view(stroke=None)
        .configure_axis(grid=False, domainColor=VEGA_AXIS, tickColor=VEGA_AXIS)
    )


def _bar_panel(data: ChartData, altair: Any, *, labelled: bool) -> Any:
    """Draw one panel, with a row for every row of the answer, also without a number, so that panels align."""
    count = min(len(data.values), _MAX_BARS)
    row_height = min(_STEP, _PAGE / count)
    rows = [
        {"row": row, "value": value, "low": _finite_end(interval, 0), "high": _finite_end(interval, 1)}
        for row, value, interval in zip(range(count), data.values, data.intervals, strict=False)
    ]
    base = altair.Chart(
        altair.Data(values=rows), title=_panel_title(data, count, altair), width=280, height=row_height * count
    )
    axis = altair.Axis(**_label_axis_settings(data, count), **({} if labelled else _BARE))
    y_axis = altair.Y("row:O", scale=altair.Scale(domain=list(range(count))), axis=axis)
    x_axis = altair.X("value:Q", title=None, axis=altair.Axis(labelOverlap=True, labelSeparation=8))
    bars = base.mark_bar(color=VEGA_BAR, size=0.7 * row_height).encode(y=y_axis, x=x_axis)
    stroke = min(2, row_height / 4)
    whiskers = base.mark_rule(color=VEGA_ERROR_BAR, strokeWidth=stroke).encode(y=y_axis, x="low:Q", x2="high:Q")
    whisker_ends = [
        base.mark_tick(color=VEGA_ERROR_BAR, size=0.4 * row_height, thickness=stroke).encode(y=y_axis, x=f"{end}:Q")
        for end in ("low", "high")
    ]
    return altair.layer(bars, whiskers, *whisker_ends)


def _label_axis_settings(data: ChartData, count: int) -> dict[str, Any]:
    """Return the axis settings: labels beside the bars, their title above, where it overlaps none of them."""
    return {
        "labelExpr": f"{json.dumps(data.labels[:count])}[datum.value]",
        "labelOverlap": "greedy",
        "labelLimit": 260,
        "title": data.key_names or None,
        "titleAngle": 0,
        "titleAlign": "right",
        "titleBaseline": "bottom",
        "titleX": -10,
        "titleY": -8,
    }


_BARE = {"labels": False, "ticks": False, "domain": False, "titleOpacity": 0}
"""An invisible axis of the same height, so that the titles of all panels align."""


def _panel_title(data: ChartData, count: int, altair: Any) -> Any:
    subtitle = f"the first {count} of {len(data.values):,} rows" if count < len(data.values) else ""
    return altair.TitleParams(data.name, subtitle=subtitle, anchor="middle", offset=12)


def _finite_end(interval: Interval, end_index: int) -> float | None:
    """Return an interval end; None where it is infinite, so that no whisker is drawn."""
    return interval[end_index] if interval is not None and math.isfinite(interval[end_index]) else None
