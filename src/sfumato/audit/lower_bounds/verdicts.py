"""A verdict says what samples prove about a claim, with what confidence, and what they could have proven.

Two worlds are drawn one above the other, with the event that tells them apart shaded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato import notebook_html
from sfumato.audit.lower_bounds.events import ToldLaws
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.confidence_limits import at_least, at_most, upper_tail
from sfumato.plots.bars import paired_bars
from sfumato.plots.frame import BELOW, INSIDE, SMALL, Drawing, below, bottom, framed, heading, left, left_room
from sfumato.plots.marks import LINES, QUIET, SAMPLE, box, digits, label, path
from sfumato.plots.picture import Picture, saved
from sfumato.plots.scales import LinearScale, fitting
from sfumato.privacy import Guarantee, codec
from sfumato.privacy.numbers import Range

_HIGH = 300.0
_SHADE = ' fill-opacity="0.14"'


Names = tuple[str, str]


def draw_laws(
    laws: ToldLaws, title: str, foot: Sequence[str], names: Names = ("first world", "second world")
) -> Picture:
    """Draw both laws, along a line of numbers where there is one, else as pairs of bars."""
    if not laws.edges:
        labels = [f"{'in' if inside else 'outside'} the event, outputs {i + 1}" for i, inside in enumerate(laws.inside)]
        bars = paired_bars(labels, names, laws.first, laws.second, INSIDE)
        return framed(below([_said(laws, names), bars], 8.0), title, foot)
    return framed(_steps(laws, names), title, foot)


def _said(laws: ToldLaws, names: Names) -> Drawing:
    """Say what pairs of bars show: they are the outputs whose shares differ most."""
    text = f"Outputs that differ most, by {laws.seen}: {names[0]} above, {names[1]} below"
    return Drawing((heading(0, 12, text, INSIDE),), INSIDE, 18.0)


def _steps(laws: ToldLaws, names: Names) -> Drawing:
    """Draw densities as steps, and shade the cells of the event."""
    widths = [high - low for low, high in zip(laws.edges[:-1], laws.edges[1:], strict=True)]
    usual = sorted(widths)[len(widths) // 2] or 1.0
    heights = [
        [share * usual / (wide or usual) for share, wide in zip(side, widths, strict=True)] for side in _sides(laws)
    ]
    most = max(max(each) for each in heights) or 1.0
    top, foot = 46.0, _HIGH - BELOW - 16
    y = LinearScale(0.0, most, foot, top)
    ticks = fitting(y, SMALL, wide=False)
    start = left_room(ticks)
    x = LinearScale(laws.edges[0], laws.edges[-1], start + 4, INSIDE - 10)
    parts = [heading(0, 12, f"How often each gave which output, by {laws.seen}", INSIDE)]
    parts += _shaded(laws, x, top, foot)
    parts += [*left(y, ticks, start, INSIDE - 10), *bottom(x, foot, foot, zero=False)]
    parts += [_stairs(laws.edges, side, x, y, place) for place, side in enumerate(heights)]
    parts += _key(start + 4, names)
    parts.append(label(INSIDE / 2, _HIGH - 4, laws.seen, anchor="middle", fill=QUIET, room=INSIDE / 2))
    return Drawing(tuple(parts), INSIDE, _HIGH)


def _sides(laws: ToldLaws) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return laws.first, laws.second


def _shaded(laws: ToldLaws, x: LinearScale, top: float, foot: float) -> list[str]:
    cells = zip(laws.edges[:-1], laws.edges[1:], laws.inside, strict=True)
    return [
        box(x(low), top, x(high) - x(low), foot - top, SAMPLE, more=_SHADE) for low, high, inside in cells if inside
    ]


def _stairs(edges: Sequence[float], heights: Sequence[float], x: LinearScale, y: LinearScale, place: int) -> str:
    steps = [f"M{digits(x(edges[0]))} {digits(y(0.0))}"]
    steps += [f"V{digits(y(high))}H{digits(x(end))}" for high, end in zip(heights, edges[1:], strict=True)]
    dash = ' stroke-dasharray="7 3"' if place else ""
    return path([*steps, f"V{digits(y(0.0))}"], LINES[place], 2, dash)


def _key(start: float, names: Names) -> list[str]:
    """Say which line is which, and what is shaded."""
    parts = []
    for place, word in enumerate(names):
        at = start + 130 * place
        dash = ' stroke-dasharray="7 3"' if place else ""
        parts.append(path([f"M{digits(at)} 30H{digits(at + 24)}"], LINES[place], 2, dash))
        parts.append(label(at + 30, 34, word, size=SMALL, fill=LINES[place]))
    parts.append(box(start + 260, 24, 24, 12, SAMPLE, more=_SHADE))
    parts.append(label(start + 290, 34, "the event that tells them apart", size=SMALL, fill=QUIET))
    return parts


_OFTEN = 0.95
"""Each of two frequencies is as telling as this part of all runs makes it, so nine runs of ten are."""
_FURTHEST = 60.0

CONFIDENCES = Range("a number above 0 and at most 1 - 1e-15", Fraction(0), 1 - Fraction(1, 10**15), low_open=True)
"""What an audit may be asked to be sure of: nearer to 1, a verdict could not tell its confidence from 1."""


@codec.value("audit-verdict")
@dataclass(frozen=True)
class Verdict:
    """A verdict says what the samples prove.

    >>> import sfumato as sf
    >>> sf.audit.falsify(sf.Laplace(1), sf.Guarantee(3), 10_000).holds
    True
    """

    lower_bound: float
    """ε is at least this, with the stated confidence."""
    claim: Guarantee
    confidence: float
    event: str
    """Where the worlds were told apart best."""
    measured: int
    """Samples of each world that events were measured on; none of them was used to find the events."""
    events: int
    """Events that were measured: all of them, in both limits, share what the confidence leaves."""
    laws: ToldLaws | None = None
    """How often each world gave the outputs inside and outside the event, for a picture."""

    def __post_init__(self) -> None:
        for name in ("lower_bound", "confidence"):
            object.__setattr__(self, name, codec.real(getattr(self, name), name))
        Guarantee.of(self.claim, "claim")
        codec.check_fields(self)
        drawn = self.laws is None or isinstance(self.laws, ToldLaws)
        if not (drawn and 0 < self.confidence < 1 and self.lower_bound >= 0 and self.measured > 0 and self.events >= 0):
            rule = "a bound ≥ 0, a confidence inside (0, 1), and samples that were measured"
            raise InvalidParameter("verdict", (self.lower_bound, self.confidence, self.measured), rule)

    @property
    def holds(self) -> bool:
        """Tell whether the claim survives: the samples do not refute it."""
        return self.lower_bound <= float(self.claim.epsilon)

    @cached_property
    def detectable(self) -> float:
        """Find the least true ε with which these samples would have refuted the claim, in nine runs of ten.

        It is that of randomised response: P = δ + (1−δ)·e^ε/(1+e^ε) beside Q = (1−δ)/(1+e^ε), which is (ε, δ)-DP with
        equality and shows what it leaks in a single event. A breach that shows in rarer events only needs more
        samples than this says. Infinite where no ε below 60 would have been seen.
        """
        low = high = float(self.claim.epsilon)
        step = 0.01
        while self._usual_bound(high) <= float(self.claim.epsilon):
            if high > _FURTHEST:
                return math.inf
            low, high, step = high, high + step, 2 * step
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._usual_bound(middle) <= float(self.claim.epsilon) else (low, middle)
        return high

    def _usual_bound(self, epsilon: float) -> float:
        """Compute the bound that randomised response of this ε reaches in nine runs of ten."""
        delta = float(self.claim.delta)
        lie = (1 - delta) / (1 + math.exp(epsilon))
        miss = missed(self.confidence, max(1, self.events))
        p = at_least(_usual_count(self.measured, 1 - lie), self.measured, miss) - delta
        q = at_most(self.measured - _usual_count(self.measured, 1 - lie), self.measured, miss)
        return math.log(p / q) if p > 0 and q > 0 else -math.inf

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw how often each world gave which output, with the event that told them apart; also to a file."""
        if self.laws is None:
            raise InvalidParameter("verdict", self.event, "one with an event to draw", fix="it told nothing apart")
        return saved(draw_laws(self.laws, f"{self.claim} {self._outcome}", [str(self)]), path)

    def to_json(self) -> str:
        """Write the verdict as JSON text, which ``from_json`` reads back."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Verdict:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    @property
    def _outcome(self) -> str:
        return "is not refuted" if self.holds else "IS REFUTED"

    def __str__(self) -> str:
        return f"{self.claim} {self._outcome}: {self._proven}"

    @property
    def _proven(self) -> str:
        """Say what was proven, and from what."""
        level = f"with confidence {sure(self.confidence)}"
        if not self.lower_bound:
            return f"the samples tell the two worlds apart by nothing, {level}"
        return f"ε ≥ {self.lower_bound:.4f} {level}, from {self.event}"

    def _repr_html_(self) -> str:
        rows = [
            ("proven", self._proven),
            ("samples", f"{self.measured:,} of each world, measured in {self.events} events"),
            ("power", f"a true ε of {self.detectable:.4g} would have refuted it in nine runs of ten"),
        ]
        picture = "" if self.laws is None else self.plot().svg
        return (
            notebook_html.paragraph(f"{self.claim} {self._outcome}", strong=True)
            + notebook_html.table((), rows)
            + picture
        )


def sure(confidence: float) -> str:
    """Write a confidence with as many digits as it has nines, and one more: it is never shown as 1.

    >>> sure(0.99), sure(0.999999), sure(0.99999923)
    ('0.99', '0.999999', '0.99999923')
    """
    digits = min(16, 1 - math.floor(math.log10(1 - confidence)))
    return f"{confidence:.{digits}f}".rstrip("0")


def missed(confidence: Fraction | float, events: int) -> float:
    """Divide what a confidence leaves over all events and both limits of each: a union bound. Of a fraction that is
    near 1 it is exact, where floating point would know few digits of what is left.
    """
    return float((1 - confidence) / events / 2)


def _usual_count(trials: int, chance: float) -> int:
    """Find the largest count that is reached in most runs."""
    low, high = 0, trials
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if upper_tail(middle, trials, chance) >= _OFTEN else (low, middle - 1)
    return low
