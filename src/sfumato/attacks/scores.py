"""Scores are what a test says of a guess, many times where the guess is true and many times where it is false.

Theorem (Wasserman & Zhou 2010; Dong, Roth & Su 2022). Let f be the trade-off function of a release. A test that is
wrong with probability α where one unit is not there finds it with probability at most 1 − f(α) where it is. That is
concave in α, so by Jensen it holds as well for the mean over units, tables and whatever else is drawn at random.

What is seen of n runs is not what is true. Theorem (Dvoretzky, Kiefer & Wolfowitz 1956; Massart 1990). With probability
at least 1 − β, at every threshold at once, the share of n independent scores above it is at most √(ln(1/β)/2n) larger
than the probability, for β ≤ 1/2; and as much for smaller. So a whole curve of a test can be held against f at one
stated rate of false alarms, although thresholds are picked on the scores that are counted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.attacks.ceilings import power_ceiling
from sfumato.attacks.findings import Findings
from sfumato.errors import InvalidParameter
from sfumato.plots.frame import framed
from sfumato.plots.lines import Panel, PlottedLine, panel
from sfumato.plots.picture import Picture, saved
from sfumato.privacy import Guarantee

_MOST_RUNS = 10**12
_MOST_POINTS = 200
"""So many thresholds are drawn, and held against theory's curve."""


@dataclass(frozen=True)
class Point:
    """A point of a test is one threshold: how often it is wrong, and how often it is right."""

    alarms: float
    """The share of scores above the threshold where the guess is false."""
    hits: float
    """The share of scores above the threshold where the guess is true."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores are those of independent runs, where the guess is true and where it is false: higher says that it is true.

    >>> scores = Scores([2.0, 3.0, 4.0], [0.0, 1.0, 2.0])
    >>> scores.area
    0.9444444444444444
    """

    true: NDArray[np.float64]
    false: NDArray[np.float64]

    def __init__(self, true: ArrayLike, false: ArrayLike) -> None:
        for name, given in (("true", true), ("false", false)):
            scores = np.sort(np.asarray(given, np.float64).ravel())
            if not scores.size or np.isnan(scores).any():
                raise InvalidParameter(name, given, "one score or more, each a number")
            scores.flags.writeable = False
            object.__setattr__(self, name, scores)

    def above(self, threshold: float) -> Point:
        """Count the scores at or above a threshold."""
        return Point(_share(self.false, threshold), _share(self.true, threshold))

    @property
    def points(self) -> tuple[Point, ...]:
        """List the points of the test from the highest threshold to the lowest, where there are many every so many."""
        thresholds = np.unique(np.concatenate([self.true, self.false]))[::-1]
        step = max(1, math.ceil(len(thresholds) / _MOST_POINTS))
        return (Point(0.0, 0.0), *(self.above(float(each)) for each in thresholds[::step]), Point(1.0, 1.0))

    @property
    def area(self) -> float:
        """Compute the chance that a score where the guess is true is above one where it is false, ties counted half."""
        lower, upper = (np.searchsorted(self.false, self.true, side=side) for side in ("left", "right"))
        return float((lower + upper).sum() / (2 * self.true.size * self.false.size))

    @property
    def best(self) -> float:
        """Compute the share of right guesses at the best threshold, for a guess that is true half of the time."""
        return max((1 + each.hits - each.alarms) / 2 for each in self.points)

    def excess(self, theory: Guarantee, miss: float) -> float:
        """Compute by how much hits are proven to be above theory's most; at most zero where the test stays below it.

        A release that keeps ``theory`` has an excess above zero with probability at most ``miss``.
        """
        true, false = (_margin(each.size, miss / 2) for each in (self.true, self.false))
        return max(each.hits - true - power_ceiling(theory, min(1.0, each.alarms + false)) for each in self.points)

    def epsilon(self, miss: float, delta: float = 0.0) -> float:
        """Bound from below the ε of whatever these are scores of, except with probability ``miss``."""
        true, false = (_margin(each.size, miss / 2) for each in (self.true, self.false))
        found = [0.0]
        for each in self.points:
            if each.hits - true > delta:
                found.append(math.log((each.hits - true - delta) / (each.alarms + false)))
            if 1 - each.alarms - false > delta:
                found.append(math.log((1 - each.alarms - false - delta) / (1 - each.hits + true)))
        return max(found)


def _share(ordered: NDArray[np.float64], threshold: float) -> float:
    return float(ordered.size - np.searchsorted(ordered, threshold, side="left")) / ordered.size


def _margin(count: int, miss: float) -> float:
    """Compute how far the share of so many scores may be from the probability, at every threshold at once."""
    if not 0 < miss <= 0.5:
        raise InvalidParameter("miss", 2 * miss, "a probability above 0 and at most 1")
    return math.sqrt(math.log(1 / miss) / (2 * count))


def least_runs(theory: Guarantee, miss: float) -> int | None:
    """Find how many runs on each side would refute ``theory`` if every guess were right: fewer have no power. None is
    more than anybody makes.

    A test that is always right has no alarms and all hits: its excess is 1 − m − (1 − f(m)) at a margin m.
    """
    count = 1
    while count < _MOST_RUNS:
        margin = _margin(count, miss / 2)
        if margin < 1 and 1 - margin > power_ceiling(theory, margin):
            return count
        count = math.ceil(count * 1.1)
    return None


def power_words(runs: int, theory: Guarantee, miss: float) -> tuple[str, ...]:
    """Say so where so few runs could not have refuted a promise, whatever they showed."""
    least = least_runs(theory, miss)
    if least is not None and runs >= least:
        return ()
    needed = "no number of runs would do" if least is None else f"{least:,} would be needed"
    return (f"{runs:,} runs show what the attack does, and could not have refuted the promise: {needed}.",)


@dataclass(frozen=True)
class Traced:
    """This tells what was traced as findings, and draws the curve of each test."""

    findings: Findings
    tests: tuple[tuple[str, Scores], ...]
    """The scores on each kind of answers."""
    promise: Guarantee
    """What the private answers promise where one unit is added or removed."""

    @property
    def holds(self) -> bool:
        """Tell whether every ceiling held."""
        return self.findings.holds

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw how often each test finds the person against how often it raises a false alarm, under theory's curve."""
        title = f"{self.findings.attack[:1].upper()}{self.findings.attack[1:]}"
        return saved(draw_tests(self.tests, self.promise, title, self.findings.words), path)

    def to_json(self) -> str:
        """Write the findings as JSON text."""
        return self.findings.to_json()

    def __str__(self) -> str:
        return str(self.findings)

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()


def draw_tests(
    tests: Iterable[tuple[str, Scores]], theory: Guarantee | None, title: str, foot: Iterable[str] = ()
) -> Picture:
    """Draw hits against false alarms of each test, under theory's curve where there is one."""
    lines = [
        PlottedLine(name, tuple(each.alarms for each in scores.points), tuple(each.hits for each in scores.points))
        for name, scores in tests
    ]
    if theory is not None:
        corner = float((1 - theory.delta) / Fraction(1 + math.exp(min(700.0, float(theory.epsilon)))))
        at = tuple(sorted([corner, *(step / 50 for step in range(51))]))
        lines.append(PlottedLine("most by theory", at, tuple(power_ceiling(theory, each) for each in at)))
    lines.append(PlottedLine("guessing", (0.0, 1.0), (0.0, 1.0)))
    of = Panel("found where it is true", "false alarms", ends=(0.0, 1.0))
    return framed(panel(lines, of, 360.0), title, list(foot))
