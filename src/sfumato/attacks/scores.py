"""Scores of a hypothesis test over many runs, where the hypothesis is true and where it is false.

Theorem (Wasserman & Zhou 2010; Dong, Roth & Su 2022). Let f be the trade-off function of a release. A test with
false-alarm probability α where a unit is absent detects it with probability at most 1 − f(α) where it is present. That
is concave in α, so by Jensen it also holds for the mean over units, tables and any other randomness.

Observed shares differ from probabilities. Theorem (Dvoretzky, Kiefer & Wolfowitz 1956; Massart 1990). With probability
at least 1 − β, for all thresholds at once, the share of n independent scores above the threshold exceeds its
probability by at most √(ln(1/β)/2n), for β ≤ 1/2; likewise for falling short. So a whole ROC curve can be compared
with f at one stated error probability, although thresholds are chosen on the same scores.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.attacks.ceilings import power_ceiling
from sfumato.attacks.findings import Findings
from sfumato.errors import InvalidParameter
from sfumato.plots.frame import framed_picture
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import Picture, save_if_path
from sfumato.privacy import Guarantee
from sfumato.quick_dataclass import dataclass

_MAX_RUNS = 10**12
_MAX_POINTS = 200
"""The most thresholds that are plotted and compared with the ceiling."""


@dataclass(frozen=True)
class RocPoint:
    """A point of the ROC curve: false-alarm and hit rate at one threshold."""

    false_alarm_rate: float
    """The share of scores above the threshold where the hypothesis is false."""
    hit_rate: float
    """The share of scores above the threshold where the hypothesis is true."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of independent runs where the hypothesis is true and where it is false; higher speaks for it.

    >>> scores = Scores([2.0, 3.0, 4.0], [0.0, 1.0, 2.0])
    >>> scores.area
    0.9444444444444444
    """

    true: NDArray[np.float64]
    false: NDArray[np.float64]

    def __init__(self, true: ArrayLike, false: ArrayLike) -> None:
        for name, raw_scores in (("true", true), ("false", false)):
            scores = np.sort(np.asarray(raw_scores, np.float64).ravel())
            if not scores.size or np.isnan(scores).any():
                raise InvalidParameter(name, raw_scores, "a list of one or more numbers")
            scores.flags.writeable = False
            object.__setattr__(self, name, scores)

    def above(self, threshold: float) -> RocPoint:
        """Return the shares of scores at or above a threshold."""
        return RocPoint(_share_above(self.false, threshold), _share_above(self.true, threshold))

    @property
    def points(self) -> tuple[RocPoint, ...]:
        """Return the ROC points from the highest threshold to the lowest, thinned if there are many."""
        thresholds = np.unique(np.concatenate([self.true, self.false]))[::-1]
        step = max(1, math.ceil(len(thresholds) / _MAX_POINTS))
        return (
            RocPoint(0.0, 0.0),
            *(self.above(float(threshold)) for threshold in thresholds[::step]),
            RocPoint(1.0, 1.0),
        )

    @property
    def area(self) -> float:
        """Return the area under the ROC curve: P(true score > false score), ties counted half."""
        lower, upper = (np.searchsorted(self.false, self.true, side=side) for side in ("left", "right"))
        return float((lower + upper).sum() / (2 * self.true.size * self.false.size))

    @property
    def best(self) -> float:
        """Return the share of correct guesses at the best threshold, for a prior of one half."""
        return max((1 + point.hit_rate - point.false_alarm_rate) / 2 for point in self.points)

    def excess(self, theory: Guarantee, miss: float) -> float:
        """Return by how much the hit rate provably exceeds the ceiling; at most zero if the test stays below it.

        A release that keeps ``theory`` has a positive excess with probability at most ``miss``.
        """
        hit_margin, alarm_margin = (_dkw_margin(side.size, miss / 2) for side in (self.true, self.false))
        return max(
            point.hit_rate - hit_margin - power_ceiling(theory, min(1.0, point.false_alarm_rate + alarm_margin))
            for point in self.points
        )

    def epsilon(self, miss: float, delta: float = 0.0) -> float:
        """Return a lower bound on the ε of the scored release, except with probability ``miss``."""
        hit_margin, alarm_margin = (_dkw_margin(side.size, miss / 2) for side in (self.true, self.false))
        bounds = [0.0]
        for point in self.points:
            if point.hit_rate - hit_margin > delta:
                bounds.append(math.log((point.hit_rate - hit_margin - delta) / (point.false_alarm_rate + alarm_margin)))
            if 1 - point.false_alarm_rate - alarm_margin > delta:
                bounds.append(
                    math.log((1 - point.false_alarm_rate - alarm_margin - delta) / (1 - point.hit_rate + hit_margin))
                )
        return max(bounds)


def _share_above(ordered: NDArray[np.float64], threshold: float) -> float:
    return float(ordered.size - np.searchsorted(ordered, threshold, side="left")) / ordered.size


def _dkw_margin(count: int, miss: float) -> float:
    """Return the DKW margin between share and probability, valid for all thresholds at once."""
    if not 0 < miss <= 0.5:
        raise InvalidParameter("miss", 2 * miss, "a probability above 0 and at most 1")
    return math.sqrt(math.log(1 / miss) / (2 * count))


def min_runs(theory: Guarantee, miss: float) -> int | None:
    """Return the runs per side that would refute ``theory`` if every guess were correct; fewer have no power. None if
    more than 10¹² would be needed.

    A perfect test has no alarms and all hits: its excess is 1 − m − (1 − f(m)) at a margin m.
    """
    count = 1
    while count < _MAX_RUNS:
        margin = _dkw_margin(count, miss / 2)
        if margin < 1 and 1 - margin > power_ceiling(theory, margin):
            return count
        count = math.ceil(count * 1.1)
    return None


def power_notes(runs: int, theory: Guarantee, miss: float) -> tuple[str, ...]:
    """Return a note if this many runs could not have refuted the promise, whatever they showed."""
    required = min_runs(theory, miss)
    if required is not None and runs >= required:
        return ()
    needed = "no number of runs would suffice" if required is None else f"{required:,} would be needed"
    return (f"{runs:,} runs show how the attack works but could not have refuted the promise: {needed}.",)


@dataclass(frozen=True)
class TracingResult:
    """The findings of a tracing attack, with the ROC curve of each test."""

    findings: Findings
    scores_by_answers: tuple[tuple[str, Scores], ...]
    """The scores on each kind of answers, by its name."""
    promise: Guarantee
    """The guarantee of the private answers when one unit is added or removed."""

    @property
    def holds(self) -> bool:
        """Return whether every ceiling held."""
        return self.findings.holds

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Plot each test's ROC curve, hits against false alarms, under the ceiling."""
        title = f"{self.findings.attack[:1].upper()}{self.findings.attack[1:]}"
        return save_if_path(plot_roc(self.scores_by_answers, self.promise, title, self.findings.words), path)

    def to_json(self) -> str:
        """Serialise the findings as JSON."""
        return self.findings.to_json()

    def __str__(self) -> str:
        return str(self.findings)

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()


def plot_roc(
    tests: Iterable[tuple[str, Scores]], theory: Guarantee | None, title: str, footnotes: Iterable[str] = ()
) -> Picture:
    """Plot the ROC curve of each test, under the ceiling of ``theory`` if given."""
    lines = [
        PlottedLine(
            name,
            tuple(point.false_alarm_rate for point in scores.points),
            tuple(point.hit_rate for point in scores.points),
        )
        for name, scores in tests
    ]
    if theory is not None:
        corner = float((1 - theory.delta) / Fraction(1 + math.exp(min(700.0, float(theory.epsilon)))))
        alarm_rates = tuple(sorted([corner, *(step / 50 for step in range(51))]))
        lines.append(
            PlottedLine("most by theory", alarm_rates, tuple(power_ceiling(theory, rate) for rate in alarm_rates))
        )
    lines.append(PlottedLine("guessing", (0.0, 1.0), (0.0, 1.0)))
    axes = LineAxes("found where it is true", "false alarms", y_range=(0.0, 1.0))
    return framed_picture(line_chart(lines, axes, 360.0), title, list(footnotes))
