"""The verdict of a sampling audit: the proven lower bound on ε, its confidence, and the power of the audit.

The plot overlays the two output distributions and shades the event that distinguishes them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fractions import Fraction

from sfumato import html_fragments
from sfumato.audit.lower_bounds.events import OutputShares
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.confidence_limits import binomial_upper_tail, lower_confidence_limit, upper_confidence_limit
from sfumato.plots.bars import paired_bars
from sfumato.plots.frame import (
    INNER_WIDTH,
    SMALL_FONT,
    X_AXIS_HEIGHT,
    Drawing,
    LinearScale,
    fitting_ticks,
    framed_picture,
    heading,
    stacked,
    x_axis,
    y_axis,
    y_axis_width,
)
from sfumato.plots.picture import LINES, QUIET, SAMPLE, Picture, box, format_length, label, path, save_if_path
from sfumato.privacy import Guarantee, codec
from sfumato.privacy.numbers import Range
from sfumato.quick_dataclass import dataclass

_PLOT_HEIGHT = 300.0
_SHADE_STYLE = ' fill-opacity="0.14"'


Names = tuple[str, str]


def plot_shares(
    laws: OutputShares, title: str, footnotes: Sequence[str], names: Names = ("first world", "second world")
) -> Picture:
    """Plot both distributions: as step lines on the real line if the cells are ordered, otherwise as paired bars."""
    if not laws.edges:
        labels = [f"{'in' if inside else 'outside'} the event, outputs {i + 1}" for i, inside in enumerate(laws.inside)]
        bars = paired_bars(labels, names, laws.first, laws.second, INNER_WIDTH)
        return framed_picture(stacked([_bars_heading(laws, names), bars], 8.0), title, footnotes)
    return framed_picture(_step_plot(laws, names), title, footnotes)


def _bars_heading(laws: OutputShares, names: Names) -> Drawing:
    text = f"Outputs that differ most, by {laws.view_name}: {names[0]} above, {names[1]} below"
    return Drawing((heading(0, 12, text, INNER_WIDTH),), INNER_WIDTH, 18.0)


def _step_plot(laws: OutputShares, names: Names) -> Drawing:
    """Draw both densities as step lines and shade the cells of the event."""
    widths = [high - low for low, high in zip(laws.edges[:-1], laws.edges[1:], strict=True)]
    median_width = sorted(widths)[len(widths) // 2] or 1.0
    heights = [
        [share * median_width / (width or median_width) for share, width in zip(side, widths, strict=True)]
        for side in _shares_of_both_worlds(laws)
    ]
    peak = max(max(side) for side in heights) or 1.0
    top, baseline = 46.0, _PLOT_HEIGHT - X_AXIS_HEIGHT - 16
    y = LinearScale(0.0, peak, baseline, top)
    ticks = fitting_ticks(y, SMALL_FONT, wide=False)
    plot_left = y_axis_width(ticks)
    x = LinearScale(laws.edges[0], laws.edges[-1], plot_left + 4, INNER_WIDTH - 10)
    elements = [heading(0, 12, f"Share of outputs in each world, by {laws.view_name}", INNER_WIDTH)]
    elements += _shade_event(laws, x, top, baseline)
    elements += [*y_axis(y, ticks, plot_left, INNER_WIDTH - 10), *x_axis(x, baseline, baseline, zero=False)]
    elements += [_step_line(laws.edges, side, x, y, series) for series, side in enumerate(heights)]
    elements += _legend(plot_left + 4, names)
    elements.append(
        label(INNER_WIDTH / 2, _PLOT_HEIGHT - 4, laws.view_name, anchor="middle", fill=QUIET, max_width=INNER_WIDTH / 2)
    )
    return Drawing(tuple(elements), INNER_WIDTH, _PLOT_HEIGHT)


def _shares_of_both_worlds(laws: OutputShares) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return laws.first, laws.second


def _shade_event(laws: OutputShares, x: LinearScale, top: float, baseline: float) -> list[str]:
    cells = zip(laws.edges[:-1], laws.edges[1:], laws.inside, strict=True)
    return [
        box(x(low), top, x(high) - x(low), baseline - top, SAMPLE, more=_SHADE_STYLE)
        for low, high, inside in cells
        if inside
    ]


def _step_line(edges: Sequence[float], heights: Sequence[float], x: LinearScale, y: LinearScale, series: int) -> str:
    steps = [f"M{format_length(x(edges[0]))} {format_length(y(0.0))}"]
    steps += [
        f"V{format_length(y(height))}H{format_length(x(end))}" for height, end in zip(heights, edges[1:], strict=True)
    ]
    dash = ' stroke-dasharray="7 3"' if series else ""
    return path([*steps, f"V{format_length(y(0.0))}"], LINES[series], 2, dash)


def _legend(start: float, names: Names) -> list[str]:
    elements = []
    for series, name in enumerate(names):
        x = start + 130 * series
        dash = ' stroke-dasharray="7 3"' if series else ""
        elements.append(path([f"M{format_length(x)} 30H{format_length(x + 24)}"], LINES[series], 2, dash))
        elements.append(label(x + 30, 34, name, size=SMALL_FONT, fill=LINES[series]))
    elements.append(box(start + 260, 24, 24, 12, SAMPLE, more=_SHADE_STYLE))
    elements.append(label(start + 290, 34, "the distinguishing event", size=SMALL_FONT, fill=QUIET))
    return elements


_LIMIT_POWER = 0.95
"""Each of the two confidence limits is reached with this probability, so both are in nine runs of ten."""
_MAX_EPSILON = 60.0

CONFIDENCES = Range("a number above 0 and at most 1 - 1e-15", Fraction(0), 1 - Fraction(1, 10**15), low_open=True)
"""The accepted confidence levels; nearer to 1, a float could not represent the difference from 1."""


@codec.serialisable("audit-verdict")
@dataclass(frozen=True)
class Verdict:
    """The outcome of a sampling audit of one claim.

    >>> import sfumato as sf
    >>> sf.audit.falsify(sf.Laplace(1), sf.Guarantee(3), 10_000).holds
    True
    """

    lower_bound: float
    """ε is at least this, with the stated confidence."""
    claim: Guarantee
    confidence: float
    event: str
    """The event with the largest lower bound."""
    measured: int
    """Samples per world that the events were measured on; none was used to select the events."""
    events: int
    """Number of measured events; both confidence limits of all of them share the error probability (union bound)."""
    laws: OutputShares | None = None
    """Shares of both worlds inside and outside the event, for the plot."""

    def __post_init__(self) -> None:
        for name in ("lower_bound", "confidence"):
            object.__setattr__(self, name, codec.parse_float(getattr(self, name), name))
        Guarantee.of(self.claim, "claim")
        codec.check_simple_fields(self)
        laws_valid = self.laws is None or isinstance(self.laws, OutputShares)
        if not (
            laws_valid and 0 < self.confidence < 1 and self.lower_bound >= 0 and self.measured > 0 and self.events >= 0
        ):
            rule = "a result with a bound ≥ 0, a confidence between 0 and 1, and at least one sample"
            raise InvalidParameter("verdict", (self.lower_bound, self.confidence, self.measured), rule)

    @property
    def holds(self) -> bool:
        """Return whether the samples fail to refute the claim."""
        return self.lower_bound <= float(self.claim.epsilon)

    @cached_property
    def detectable(self) -> float:
        """Return the least true ε at which these samples would have refuted the claim in nine runs of ten.

        Computed for randomised response, P = δ + (1−δ)·e^ε/(1+e^ε) against Q = (1−δ)/(1+e^ε), which is (ε, δ)-DP with
        equality and leaks all of it in a single event. A breach that shows only in rarer events needs more samples.
        Infinite if no ε below 60 would have been detected.
        """
        low = high = float(self.claim.epsilon)
        step = 0.01
        while self._typical_bound(high) <= float(self.claim.epsilon):
            if high > _MAX_EPSILON:
                return math.inf
            low, high, step = high, high + step, 2 * step
        while high - low > 1e-4 * high:
            midpoint = (low + high) / 2
            low, high = (
                (midpoint, high) if self._typical_bound(midpoint) <= float(self.claim.epsilon) else (low, midpoint)
            )
        return high

    def _typical_bound(self, epsilon: float) -> float:
        """Return the bound that randomised response with this ε reaches in nine runs of ten."""
        delta = float(self.claim.delta)
        flip_probability = (1 - delta) / (1 + math.exp(epsilon))
        miss = error_probability_per_limit(self.confidence, max(1, self.events))
        p = lower_confidence_limit(_typical_count(self.measured, 1 - flip_probability), self.measured, miss) - delta
        q = upper_confidence_limit(
            self.measured - _typical_count(self.measured, 1 - flip_probability), self.measured, miss
        )
        return math.log(p / q) if p > 0 and q > 0 else -math.inf

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Plot both output distributions with the distinguishing event; also write it to ``path`` if given."""
        if self.laws is None:
            raise InvalidParameter(
                "verdict",
                self.event,
                "the result of an audit that found an event to plot",
                fix="draw more samples: no event distinguished the two worlds",
            )
        return save_if_path(plot_shares(self.laws, f"{self.claim} {self._outcome}", [str(self)]), path)

    def to_json(self) -> str:
        """Serialise to JSON; ``from_json`` reads it back."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Verdict:
        """Parse the output of ``to_json``; any other text is refused."""
        return codec.loads_as(cls, source)

    @property
    def _outcome(self) -> str:
        return "is not refuted" if self.holds else "IS REFUTED"

    def __str__(self) -> str:
        return f"{self.claim} {self._outcome}: {self._proven_text}"

    @property
    def _proven_text(self) -> str:
        level = f"with confidence {format_confidence(self.confidence)}"
        if not self.lower_bound:
            return f"the samples do not distinguish the two worlds, {level}"
        return f"ε ≥ {self.lower_bound:.4f} {level}, from {self.event}"

    def _repr_html_(self) -> str:
        rows = [
            ("proven bound", self._proven_text),
            ("samples", f"{self.measured:,} per world, measured in {self.events} events"),
            ("power", f"a true ε of {self.detectable:.4g} would have refuted it in nine runs of ten"),
        ]
        picture = "" if self.laws is None else self.plot().svg
        return (
            html_fragments.paragraph(f"{self.claim} {self._outcome}", strong=True)
            + html_fragments.table((), rows)
            + picture
        )


def format_confidence(confidence: float) -> str:
    """Format a confidence with as many digits as it has nines, plus one, so that it is never rounded to 1.

    >>> format_confidence(0.99), format_confidence(0.999999), format_confidence(0.99999923)
    ('0.99', '0.999999', '0.99999923')
    """
    digits = min(16, 1 - math.floor(math.log10(1 - confidence)))
    return f"{confidence:.{digits}f}".rstrip("0")


def error_probability_per_limit(confidence: Fraction | float, events: int) -> float:
    """Return the error probability per confidence limit: a union bound over all events and both limits of each.

    A ``Fraction`` near 1 is subtracted exactly, where a float would lose most digits.
    """
    return float((1 - confidence) / events / 2)


def _typical_count(trials: int, probability: float) -> int:
    """Return the largest count that a binomial reaches with probability ``_LIMIT_POWER``."""
    low, high = 0, trials
    while low < high:
        midpoint = (low + high + 1) // 2
        low, high = (
            (midpoint, high)
            if binomial_upper_tail(midpoint, trials, probability) >= _LIMIT_POWER
            else (low, midpoint - 1)
        )
    return low
