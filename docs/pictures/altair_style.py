"""How the pictures of the documentation look, and where they are kept."""

from __future__ import annotations

from pathlib import Path

import altair as alt

HERE = Path(__file__).parent
FONT = "DejaVu Sans, sans-serif"
"""Letters that are wider than most: whoever reads with others has room to spare, and nothing is cut off."""
INK = ["#3b5b7c", "#c8733b", "#6b8f5e", "#8a6fa8"]


def styled(chart: alt.Chart | alt.LayerChart | alt.HConcatChart) -> alt.Chart:
    return (
        chart.configure(font=FONT)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#e6e6e6")
        .configure_legend(labelFontSize=12, titleFontSize=12, labelLimit=400)
        .configure_title(fontSize=15, anchor="start", fontWeight="normal", offset=12)
    )


def save(chart: alt.Chart | alt.LayerChart | alt.HConcatChart, name: str) -> None:
    styled(chart).save(HERE / f"{name}.svg")


def rows(**columns: object) -> alt.Data:
    names = list(columns)
    values = zip(*columns.values(), strict=True)  # type: ignore[call-overload]
    return alt.Data(values=[dict(zip(names, each, strict=True)) for each in values])
