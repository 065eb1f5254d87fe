"""What a picture costs: ours beside Altair's, as SVG, for 200 bars with their ranges.

Run with: .venv/bin/python bench/plots.py
"""

from __future__ import annotations

import vl_convert
from timing import cpu_seconds, row

from sfumato.plots.answers import GroupColumn, draw_answer
from sfumato.plots.frame import ChartData
from sfumato.release.answers.answer_pictures import altair_bar_chart

FOOT = ["protects one person", "ε = 0.5 for this answer", "ranges hold with 95 % confidence", "2026-11-15"]


def bars(count: int) -> ChartData:
    labels = tuple(f"county {each}" for each in range(count))
    values = tuple(float(7919 * each % 997) for each in range(count))
    ranges = tuple((each - 20.0, each + 20.0) for each in values)
    cells = tuple(f"{each:,.0f} ± 20" for each in values)
    return ChartData("people", "county", labels, values, ranges, cells)


def main() -> None:
    print(f"{'':<58}{'ours':>15}  {'Altair':>15}  {'Altair / ours':>10}")
    for count in (10, 50, 200):
        data = bars(count)
        key = GroupColumn("county", data.labels, data.labels)
        ours = cpu_seconds(lambda data=data, key=key: draw_answer([data], [key], FOOT).svg)
        theirs = cpu_seconds(lambda data=data: vl_convert.vegalite_to_svg(altair_bar_chart([data]).to_json()), 3)
        row(f"{count} bars with ranges, as SVG", ours, theirs, "goal: 100×" if count == 200 else "")
    picture = draw_answer([bars(200)], [GroupColumn("county", bars(200).labels, bars(200).labels)], FOOT)
    row("200 bars, from SVG to PNG (the plot extra)", cpu_seconds(picture.png, 3))
    print(f"{len(picture.svg):,} bytes of SVG")


if __name__ == "__main__":
    main()
