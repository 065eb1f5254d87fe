"""An answer as bars with error bars: where people would rather look than read."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.release.series import Series

_BAR, _ERROR = "#7a8ca5", "#2b3a4f"
_MOST_BARS = 200
KINDS = (".svg", ".png", ".html", ".json")


def plot(columns: Sequence[Series], path: str | Path | None = None) -> Any:
    """The chart, or nothing when it is written to a file."""
    if path is not None:
        check_picture(path)
    chart = _chart(columns, _altair())
    if path is None:
        return chart
    kind = Path(path).suffix.lower()
    try:
        chart.save(str(path), **({"scale_factor": 2} if kind == ".png" else {}))
    except OSError as error:
        raise SfumatoError(
            f"the picture cannot be written ({os.strerror(error.errno or 0)})",
            place=str(path),
            fix="name another file; the answer itself is stored, and free to ask for again",
        ) from None
    return None


def check_picture(path: str | Path) -> None:
    """Refuses a picture that could not be drawn or written, while nothing has been spent on it."""
    _altair()
    file = Path(path)
    if file.suffix.lower() not in KINDS:
        raise InvalidParameter("plot", str(path), "a file that ends in " + ", ".join(KINDS))
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidParameter("plot", str(path), "a file that can be written, in a folder that is there")


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise SfumatoError(
            "plots are drawn with altair, which is not installed",
            place="Answer.plot",
            fix="pip install 'sfumato[plot]'",
        ) from None
    return altair


def _chart(columns: Sequence[Series], altair: Any) -> Any:
    if not columns or not columns[0].values:
        raise InvalidParameter("answer", "no numbers", "one with a column of numbers and a row")
    charts = [_bars(each, altair) for each in columns]
    return (
        altair.hconcat(*charts)
        .configure_view(stroke=None)
        .configure_axis(grid=False, domainColor="#999", tickColor="#999")
    )


def _bars(series: Series, altair: Any) -> Any:
    rows = [
        {"group": label, "value": value, "low": _end(interval[0]), "high": _end(interval[1])}
        for label, value, interval in zip(series.labels, series.values, series.intervals, strict=True)
        if value is not None and interval is not None
    ][:_MOST_BARS]
    base = altair.Chart(altair.Data(values=rows), title=series.name, width=280)
    place = altair.Y("group:N", sort=None, title=series.by or None)
    bars = base.mark_bar(color=_BAR, size=14).encode(y=place, x=altair.X("value:Q", title=None))
    reach = base.mark_rule(color=_ERROR, strokeWidth=2).encode(y=place, x="low:Q", x2="high:Q")
    ends = [base.mark_tick(color=_ERROR, size=8, thickness=2).encode(y=place, x=f"{end}:Q") for end in ("low", "high")]
    return altair.layer(bars, reach, *ends)


def _end(value: float) -> float | None:
    """No whisker reaches infinity."""
    return value if math.isfinite(value) else None
