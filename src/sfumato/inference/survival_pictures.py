"""A picture of survival curves as clinicians know it: steps with bands, and the numbers at risk below the axis."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.plots.frame import INNER_WIDTH, SMALL_FONT, Drawing, framed_picture, stacked
from sfumato.plots.lines import MAX_LINES, LineAxes, PlottedLine, line_chart, line_x_scale
from sfumato.plots.picture import LINES, QUIET, Picture, label, text_width
from sfumato.plots.scales import LinearScale, fitting_ticks
from sfumato.quick_dataclass import dataclass

_ROW_HEIGHT = 17.0


@dataclass(frozen=True)
class SurvivalLine:
    """One curve: survival at the end of each period with its band, and the numbers at risk at its periods' starts."""

    name: str
    times: tuple[float, ...]
    survival: tuple[float, ...]
    band: tuple[tuple[float, float], ...]
    starts: tuple[float, ...]
    at_risk: tuple[float, ...]


def draw_survival(
    curves: Sequence[SurvivalLine], title: str, time: str, notes: Sequence[str], caption: Sequence[str]
) -> Picture:
    """Draw the curves; more than eight are not drawn, and said so."""
    drawn = curves[:MAX_LINES]
    origin = min(curve.starts[0] for curve in drawn)
    lines = [_stepped_line(curve, origin) for curve in drawn]
    names = [curve.name for curve in drawn]
    # the first number at risk is centred on the start of the axis, beside its name
    half_number = max(text_width(f"{curve.at_risk[0]:,.0f}", SMALL_FONT) for curve in drawn) / 2
    widest_name = max(text_width(name, SMALL_FONT) for name in (*names, "at risk"))
    axis_width = min(max(widest_name, 32.0), 150.0) + half_number + 8
    axes = LineAxes("", time, y_range=(0.0, 1.0))
    chart = line_chart(lines, axes, 320.0, min_axis_width=axis_width)
    scale = line_x_scale(lines, axes, axis_width, INNER_WIDTH)
    more = [f"{len(curves) - MAX_LINES} more groups are not drawn"] if len(curves) > MAX_LINES else []
    drawing = stacked([chart, _risk_table(drawn, scale, axis_width - half_number)], gap=8.0)
    return framed_picture(drawing, title, caption, [*notes, *more])


def _stepped_line(curve: SurvivalLine, origin: float) -> PlottedLine:
    """Return the steps of a curve, which begins at 1."""
    return PlottedLine(
        curve.name,
        (origin, *curve.times),
        (1.0, *curve.survival),
        ((1.0, 1.0), *curve.band),
        stepped=True,
    )


def _risk_table(curves: Sequence[SurvivalLine], scale: LinearScale, name_width: float) -> Drawing:
    """Write the noisy number at risk of each curve below the ticks of the time axis."""
    parts = [label(0, 12, "at risk", size=SMALL_FONT, fill=QUIET)]
    ticks = fitting_ticks(scale, SMALL_FONT, wide=True)
    for row, curve in enumerate(curves):
        y = 12 + _ROW_HEIGHT * (row + 1)
        parts.append(label(0, y, curve.name, size=SMALL_FONT, fill=LINES[row], max_width=name_width))
        for time, _ in ticks:
            number = _at_risk_at(curve, time)
            if number is not None:
                parts.append(label(scale(time), y, f"{number:,.0f}", anchor="middle", size=SMALL_FONT, fill=LINES[row]))
    return Drawing(tuple(parts), INNER_WIDTH, 14 + _ROW_HEIGHT * (len(curves) + 1))


def _at_risk_at(curve: SurvivalLine, time: float) -> float | None:
    """Return the number at risk in the period of this time, no less than 0; None after the curve's end."""
    period = max((index for index, start in enumerate(curve.starts) if start <= time), default=0)
    return max(0.0, curve.at_risk[period]) if period < len(curve.at_risk) else None
