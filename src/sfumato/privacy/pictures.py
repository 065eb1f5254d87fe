"""Pictures of a budget over time, of the privacy loss of a release, and of a guarantee among deployments.

A budget is a step line per currency: the share spent after every charge. The loss of a release is three curves: δ
against ε, the trade-off of a test, and the tail of the loss. Deployments are a column of marks along ε, with the
guarantee as a line through them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction

from sfumato.plots.frame import (
    INNER_WIDTH,
    SMALL_FONT,
    X_AXIS_HEIGHT,
    Drawing,
    LinearScale,
    LogScale,
    TimeScale,
    framed_picture,
    heading,
    seconds_since_1970,
    side_by_side,
    stacked,
    x_axis,
)
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import (
    LINES,
    QUIET,
    SAMPLE,
    Picture,
    horizontal_step,
    label,
    path,
    polygon,
    text_width,
    tooltip_element,
    translated,
    vertical_step,
)
from sfumato.quick_dataclass import dataclass

WORDS = {"pure": "ordinary answers", "renyi": "Gaussian answers", "failure": "δ for undeclared groups"}
"""What each currency is for; the two first ones are spent side by side, and one of them has to last."""


@dataclass(frozen=True)
class SpendingPoint:
    """The time of a charge, and the totals after it, per currency."""

    time: datetime
    spent: Mapping[str, Fraction | None]


@dataclass(frozen=True)
class History:
    """The past charges of an account, read only when a picture needs them."""

    read_spending_points: Callable[[], Sequence[SpendingPoint]]


def draw_spent_shares(
    spending_points: Sequence[SpendingPoint],
    spent_by_currency: Mapping[str, Fraction | None],
    allowance_by_currency: Mapping[str, Fraction | None],
    now: datetime,
    guarantee_text: str,
) -> Picture:
    """Draw the spent share of each currency, in per cent of its present allowance, up to now."""
    start = min([point.time for point in spending_points], default=now)
    times = (
        seconds_since_1970(start),
        *(seconds_since_1970(point.time) for point in spending_points),
        seconds_since_1970(now),
    )
    lines, is_over = [], False
    for name, allowance in allowance_by_currency.items():
        if not allowance:
            continue
        totals = [
            Fraction(0),
            *(point.spent.get(name, Fraction(0)) for point in spending_points),
            spent_by_currency.get(name),
        ]
        shares = [None if total is None else 100 * float(total / allowance) for total in totals]
        is_over = is_over or any(share is None or share > 100 for share in shares)
        clipped = tuple(None if share is None else min(share, 110.0) for share in shares)
        lines.append(PlottedLine(f"{WORDS.get(name, name)} {_format_share(shares[-1])}", times, clipped, stepped=True))
    notes = ["a line that ends, or stays above 100 %, shows a budget that is closed"] if is_over else []
    count = f"{len(spending_points):,} charges" if len(spending_points) != 1 else "1 charge"
    marked = ((seconds_since_1970(spending_points[-1].time), "last charge"),) if spending_points else ()
    axes = LineAxes("% of the budget spent", "", TimeScale, y_range=(0.0, 110.0 if is_over else 100.0), marks=marked)
    foot = [guarantee_text, count, f"until {now.strftime('%Y-%m-%d')}"]
    return framed_picture(line_chart(lines, axes, 300.0), "Budget over time", foot, notes)


def _format_share(share: float | None) -> str:
    return "closed" if share is None or share > 100 else f"{share:.0f} %"


_STEPS = 60
_LEAST = 1e-12
"""No δ below this is drawn."""


def draw_loss_curves(
    delta: Callable[[float], float], tail: Callable[[float], float], max_epsilon: float, foot: Sequence[str]
) -> Picture:
    """Draw all three curves from δ(ε) and the tail of the loss, for ε up to ``max_epsilon``."""
    epsilons = [max_epsilon * step / _STEPS for step in range(_STEPS + 1)]
    deltas = [min(1.0, max(0.0, delta(epsilon))) for epsilon in epsilons]
    half = (INNER_WIDTH - 30) / 2
    profile = _draw_delta_by_epsilon(epsilons, deltas)
    lower = side_by_side([_draw_tradeoff(epsilons, deltas, half), _draw_tail(epsilons, tail, half)])
    return framed_picture(stacked([profile, lower]), "Privacy loss", foot)


def _draw_delta_by_epsilon(epsilons: Sequence[float], deltas: Sequence[float]) -> Drawing:
    visible = tuple(None if delta < _LEAST else delta for delta in deltas)
    drawn = [delta for delta in visible if delta is not None]
    if not drawn:
        return line_chart(
            [PlottedLine("δ", tuple(epsilons), tuple(deltas))],
            LineAxes("δ at each ε: no δ is needed", "ε", y_range=(0.0, 1.0)),
            240,
        )
    low = max(_LEAST, 10.0 ** math.floor(math.log10(min(drawn)) - 1e-9))
    ends = (low, max(drawn[0], 2 * low))
    return line_chart(
        [PlottedLine("δ", tuple(epsilons), visible)],
        LineAxes("δ at each ε: (ε, δ)-DP holds with this δ", "ε", LinearScale, LogScale, y_range=ends),
        260,
    )


def _draw_tradeoff(epsilons: Sequence[float], deltas: Sequence[float], drawing_width: float) -> Drawing:
    """Bound the false negatives of any test from below, by the two lines that each (ε, δ) gives (Wasserman & Zhou
    2010).
    """
    rates = tuple(step / _STEPS for step in range(_STEPS + 1))

    def least(rate: float) -> float:
        lines = zip(epsilons, deltas, strict=True)
        bounds = ((1 - d - math.exp(min(e, 700)) * rate, math.exp(-e) * (1 - d - rate)) for e, d in lines)
        return max(0.0, max(max(line_bounds) for line_bounds in bounds))

    bound = PlottedLine("this release", rates, tuple(map(least, rates)))
    guessing = PlottedLine("guessing", (0.0, 1.0), (1.0, 0.0))
    name = "Lowest false-negative rate of a test"
    return line_chart([bound, guessing], LineAxes(name, "false-positive rate", y_range=(0.0, 1.0)), 280, drawing_width)


def _draw_tail(epsilons: Sequence[float], tail: Callable[[float], float], drawing_width: float) -> Drawing:
    values = tuple(min(1.0, max(0.0, tail(epsilon))) for epsilon in epsilons)
    name = "Probability that the loss is above ε"
    return line_chart(
        [PlottedLine("P(L > ε)", tuple(epsilons), values)], LineAxes(name, "ε", y_range=(0.0, 1.0)), 280, drawing_width
    )


def draw_outcome_laws(rows: Sequence[tuple[float, tuple[float, float], float | None]]) -> Picture:
    """Draw two laws over the same outcomes, and below them the loss of each outcome; rows are (outcome, (P, Q),
    ln P/Q), the loss None where an outcome is impossible under one of the two.
    """
    positions = tuple(position for position, _, _ in rows)
    first = PlottedLine("M(x)", positions, tuple(masses[0] for _, masses, _ in rows))
    second = PlottedLine("M(y)", positions, tuple(masses[1] for _, masses, _ in rows))
    losses = PlottedLine("loss", positions, tuple(loss for _, _, loss in rows))
    laws = line_chart([first, second], LineAxes("Probability of each outcome", "outcome"), 240)
    below = line_chart([losses], LineAxes("Privacy loss ln P[M(x) = o]/P[M(y) = o]", "outcome o", zero=False), 240)
    notes = ["positive where x is likelier than y to give the outcome"]
    return framed_picture(stacked([laws, below]), "Privacy loss of each outcome", [], notes)


_STEP, _HEAD, _KEY = 16.0, 22.0, 24.0
_LABELS, _NUMBERS = 320.0, 46.0
_SIZE = 4.6
_SHAPES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "person": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "period": ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    "record": ((0, -1.3), (1.3, 1), (-1.3, 1)),
    "unstated": ((-1, -0.4), (1, -0.4), (1, 0.4), (-1, 0.4)),
}
"""Marks differ in shape, and not in colour alone."""


@dataclass(frozen=True)
class PlottedPrecedent:
    """One deployment: its name, its ε, and the scope of its unit."""

    name: str
    epsilon: float
    scope: str


def draw_precedents(
    dots: Sequence[PlottedPrecedent], guarantee_lines: Mapping[str, float], scopes: Mapping[str, str], unstated: int
) -> Picture:
    """Draw each deployment on its own row, the smallest ε first, and a line for each ε of ``own``."""
    numbers = [dot.epsilon for dot in dots] + [epsilon for epsilon in guarantee_lines.values() if epsilon > 0]
    scale = LogScale(min(0.01, *numbers), max(100.0, *numbers), _LABELS, INNER_WIDTH - _NUMBERS)
    top = _KEY + _HEAD + _STEP * len(guarantee_lines)
    foot = top + len(dots) * _STEP + 2
    parts = [*_draw_legend(scopes), heading(_LABELS - 8, top - 6, "deployment", _LABELS - 8, "end")]
    parts += x_axis(scale, top, foot, zero=False)
    parts += [mark for row, dot in enumerate(dots) for mark in _draw_dot_row(dot, scale, top + (row + 0.5) * _STEP)]
    parts += _draw_guarantee_lines(guarantee_lines, scale, _KEY + 12, foot)
    parts.append(label((scale.start + scale.end) / 2, foot + X_AXIS_HEIGHT + 8, "ε", anchor="middle", fill=QUIET))
    notes = [
        "for the same unit, a smaller ε is a stronger promise; a promise in ρ is converted to ε",
        f"{unstated} deployments in the registry state no ε and are not shown",
    ]
    terms = ["source: OpenDP deployments registry (MIT licence)"]
    return framed_picture(Drawing(tuple(parts), INNER_WIDTH, foot + X_AXIS_HEIGHT + 12), "ε in context", terms, notes)


def _draw_legend(scopes: Mapping[str, str]) -> list[str]:
    """Draw the legend of the shapes."""
    parts, x = [label(0, 9, "protects:", size=SMALL_FONT, fill=QUIET)], 60.0
    for scope, words in scopes.items():
        parts += [_draw_scope_symbol(scope, x, 5.5), label(x + 9, 9, words, size=SMALL_FONT, fill=QUIET)]
        x += 28 + text_width(words, SMALL_FONT)
    return parts


def _draw_dot_row(dot: PlottedPrecedent, scale: LogScale, y: float) -> list[str]:
    x = scale(dot.epsilon)
    mark = f"<g>{tooltip_element(f'{dot.name}: ε = {dot.epsilon:.3g}')}{_draw_scope_symbol(dot.scope, x, y)}</g>"
    return [
        label(_LABELS - 8, y + 4, dot.name, anchor="end", size=SMALL_FONT, max_width=_LABELS - 8),
        path([horizontal_step(scale.start, y, x)], LINES[5], 0.4),
        mark,
        label(INNER_WIDTH, y + 4, f"{dot.epsilon:.3g}", anchor="end", size=SMALL_FONT, fill=QUIET),
    ]


def _draw_guarantee_lines(guarantee_lines: Mapping[str, float], scale: LogScale, y: float, foot: float) -> list[str]:
    parts = []
    for line_index, (words, epsilon) in enumerate(guarantee_lines.items()):
        x, text_y = scale(epsilon), y + line_index * _STEP
        anchor = "end" if line_index or x + text_width(words) > INNER_WIDTH else "start"  # no text crosses another line
        parts.append(
            path([vertical_step(x, text_y - 8, foot)], SAMPLE, 1.6, ' stroke-dasharray="5 3"' if line_index else "")
        )
        parts.append(label(x + (5 if anchor == "start" else -5), text_y, words, anchor=anchor, fill=SAMPLE))
    return parts


def _draw_scope_symbol(scope: str, x: float, y: float) -> str:
    colour = LINES[tuple(_SHAPES).index(scope)]
    return translated(x, y, [polygon([(_SIZE * a, _SIZE * b) for a, b in _SHAPES[scope]], colour, 1.0)])
