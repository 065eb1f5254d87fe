"""An estimate of a count has an interval, which holds at its confidence, whatever people answered.

Of n respondents, N were asked a question (all of them, or a set drawn evenly). Let f be the share that holds a cell,
and C the number of reports that support it. C is a sum of N independent events of mean μ = q + f·(p − q): given who was
asked that is plain; and the number of holders among those asked is hypergeometric, hence itself a sum of independent
events (Vatutin & Mikhailov 1982), each of which moves one chance from q to p. So n·(C/N − q)/(p − q) is unbiased.

Theorem (Hoeffding 1956). A sum of N independent events of mean μ is at most c with no more than the binomial's
probability for c ≤ Nμ − 1, and at least c likewise for c ≥ Nμ + 1. So the limits of Clopper & Pearson for μ, widened to
(C ± 1)/N where they are nearer than that, hold; f is linear in μ.

Pairs, of questions that are split: the sum of (S − q)(S' − q')/((p − q)(p' − q')) is unbiased for the number that holds
both cells, since the two randomisations are independent. Its interval is Bernstein's: P(|error| ≥ t) ≤
2·exp(−t²/(2V + 2Mt/3)), with V bounded by what the limits of the two counts allow (a quarter of the miss each).

Choosing compares the ways in which a form may randomise, and takes the one that errs least.

Of m questions, each may get ε/m (they are *split*: the losses add up to ε), or each respondent may answer one of them,
drawn evenly whatever the answers are, with the whole ε (they are *sampled*).

The measure is the variance of a count, averaged over the cells of a question and summed over the questions, for one
respondent. Split, it is the same for all data: every respondent holds one cell of each question, so the average is
v(ε/m) = (p(1 − p) + (k − 1)·q(1 − q))/(k·(p − q)²). Sampled, 1/m of the respondents answer for all, which gives m·v(ε),
and (m − 1)·f(1 − f) more for a cell of share f, because it matters who was asked: (m − 1)(1 − 1/k)/k on average where
all shares are 1/k, which is the most that it can be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.confidence_limits import at_least, at_most
from sfumato.mechanisms.response import Response
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, saved
from sfumato.plots.scales import ChartData
from sfumato.privacy.numbers import percent, shown
from sfumato.publish.marginals.attributes import Attribute
from sfumato.surveys.encodings import Chances, Encoding, chances, supports

if TYPE_CHECKING:
    import pandas


Floats = NDArray[np.float64]
_AT_ONCE = 1 << 20
"""Entries of a matrix of supports that are held at one time."""


@dataclass(frozen=True)
class Counts:
    """This table says how many respondents hold each cell of a question, or of two, with intervals."""

    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    """For each count the answers in words, one for each question."""
    counts: tuple[float, ...]
    """Unbiased, so that some may be below zero."""
    intervals: tuple[tuple[float, float], ...]
    asked: int
    """How many of the reports answer this."""

    @property
    def chart_data(self) -> ChartData:
        """Give the counts as they are drawn."""
        labels = tuple(" · ".join(each) for each in self.answers)
        cells = tuple(shown(each) for each in self.counts)
        return ChartData(" × ".join(self.questions), "answer", labels, self.counts, self.intervals, cells)

    def __str__(self) -> str:
        names = [", ".join(each) for each in self.answers]
        wide = max(map(len, names))
        lines = (
            f"  {name:<{wide}}  {shown(count):>9}   {shown(low)} to {shown(high)}"
            for name, count, (low, high) in zip(names, self.counts, self.intervals, strict=True)
        )
        return "\n".join([f"{' and '.join(self.questions)} ({self.asked:,} reports)", *lines])


@dataclass(frozen=True)
class Refused:
    """A report was refused: its place in the list, from 0, and why."""

    place: int
    reason: str


@dataclass(frozen=True)
class SurveyEstimate:
    """An estimate holds the counts of every question, and of pairs where they were asked for."""

    respondents: int
    """The reports that were accepted; the counts are of these."""
    tables: tuple[Counts, ...]
    refused: tuple[Refused, ...]
    confidence: str
    together: bool
    """Whether all intervals hold at once, or each by itself."""

    def __getitem__(self, names: str | tuple[str, ...]) -> Counts:
        wanted = (names,) if isinstance(names, str) else names
        for each in self.tables:
            if each.questions == wanted:
                return each
        known = ", ".join(" and ".join(each.questions) for each in self.tables)
        raise InvalidParameter("question", names, f"one that was estimated: {known}")

    def to_pandas(self) -> pandas.DataFrame:
        """Give all counts as one data frame: the question or questions, the answers, the count and its range."""
        import pandas

        rows = [
            (" × ".join(each.questions), " · ".join(answer), count, low, high)
            for each in self.tables
            for answer, count, (low, high) in zip(each.answers, each.counts, each.intervals, strict=True)
        ]
        return pandas.DataFrame(rows, columns=["question", "answer", "count", "low", "high"])

    def plot(self, path: str | None = None) -> Picture:
        """Draw the counts of each question with their ranges; with a path (.svg, .png, .html) the picture is saved,
        too.
        """
        hold = "all at once" if self.together else "each by itself"
        foot = [f"{self.respondents:,} respondents", f"ranges hold with {percent(self.confidence)} confidence, {hold}"]
        return saved(draw_panels([each.chart_data for each in self.tables], "Answers, estimated", foot), path)

    def to_json(self) -> str:
        """Write everything as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        hold = "all at once" if self.together else "each by itself"
        head = f"{self.respondents:,} respondents; ranges hold at {percent(self.confidence)}, {hold}"
        more = (
            [f"{len(self.refused):,} reports were refused, the first: {self.refused[0].reason}"] if self.refused else []
        )
        return "\n".join([head, *more, *map(str, self.tables)])


def supported(mechanism: Response, parts: list[Any]) -> Floats:
    """Count for each cell the parts that support it."""
    found = np.zeros(mechanism.choices)
    for rows in _slices(len(parts), mechanism.choices):
        found += supports(mechanism, parts[rows]).sum(0)
    return found


def supported_pairs(first: Response, second: Response, parts: Sequence[list[Any]]) -> Floats:
    """Count for each pair of cells the reports that support both."""
    found = np.zeros((first.choices, second.choices))
    for rows in _slices(len(parts[0]), max(first.choices, second.choices)):
        found += supports(first, parts[0][rows]).T @ supports(second, parts[1][rows])
    return found


def _slices(count: int, cells: int) -> list[slice]:
    step = max(1, _AT_ONCE // cells)
    return [slice(start, start + step) for start in range(0, count, step)]


def estimated(found: Floats, asked: int, respondents: int, chance: Chances) -> Floats:
    """Estimate the counts without bias; where nobody was asked, all cells alike."""
    if not asked:
        return np.full(found.size, respondents / found.size)
    return respondents * (found / asked - chance.q) / chance.gap


def interval(found: int, asked: int, respondents: int, chance: Chances, miss: float) -> tuple[float, float]:
    """Find the counts that this many supports leave possible, each end missing with at most half of ``miss``.

    Noise may leave none between 0 and all respondents. So the upper end is at least half of the range's length, and the
    lower end as much below all: ends that only move outward miss no more often, and no range reads as certainty.
    """
    low, high = frequency_limits(found, asked, miss / 2)
    slack = 1e-12 * respondents / chance.gap  # p and q are doubles
    ends = (respondents * (each - chance.q) / chance.gap for each in (low, high))
    bottom, top = next(ends) - slack, next(ends) + slack
    half = (top - bottom) / 2
    return max(0.0, min(bottom, respondents - half)), min(float(respondents), max(top, half))


def frequency_limits(found: int, asked: int, miss: float) -> tuple[float, float]:
    """Find limits of the mean of independent events, of which so many happened; each fails with at most ``miss``."""
    if not asked:
        return 0.0, 1.0
    low = min(at_least(found, asked, miss), max(0.0, (found - 1) / asked))
    high = max(at_most(found, asked, miss), min(1.0, (found + 1) / asked))
    return low, high


@dataclass(frozen=True)
class PairCounts:
    """The supports of two questions, alone and together, among the same reports."""

    first: Floats
    second: Floats
    both: Floats
    respondents: int
    chances: tuple[Chances, Chances]

    def estimates(self) -> Floats:
        """Estimate how many hold each pair of cells, without bias."""
        one, two = self.chances
        centred = (
            self.both - two.q * self.first[:, None] - one.q * self.second[None, :] + self.respondents * one.q * two.q
        )
        return centred / (one.gap * two.gap)

    def half_widths(self, miss: float) -> Floats:
        """Bound the errors of the estimates, each except with probability ``miss``."""
        one, two = self.chances
        held = (self._most(self.first, one, miss / 4), self._most(self.second, two, miss / 4))
        spread = self.variances(*held)
        most = _largest(one) * _largest(two) + 1
        log = math.log(4 / miss)
        return log * most / 3 + np.sqrt((log * most / 3) ** 2 + 2 * log * spread)

    def variances(self, first: Floats, second: Floats) -> Floats:
        """Bound the variances where so many hold each cell at most: they rise with the holders of either cell, and are
        linear in those who hold both.
        """
        one, two = self.chances
        rise_one, rise_two = (1 + each.held - each.other for each in (one, two))
        both = max(0.0, rise_one * rise_two - 1) * np.minimum(first[:, None], second[None, :])
        alone = first[:, None] * rise_one * two.other + second[None, :] * one.other * rise_two
        return np.asarray(self.respondents * one.other * two.other + alone + both)

    def _most(self, found: Floats, chance: Chances, miss: float) -> Floats:
        ends = [interval(int(each), self.respondents, self.respondents, chance, 2 * miss)[1] for each in found]
        return np.array(ends)


def _largest(chance: Chances) -> float:
    """Give the largest size of (S − q)/(p − q)."""
    return max(chance.q, 1 - chance.q) / chance.gap


def chances_of(mechanisms: Sequence[Response]) -> tuple[Chances, ...]:
    """Compute p and q of every question."""
    return tuple(map(chances, mechanisms))


@dataclass(frozen=True)
class Way:
    """A way says how a form is randomised: split or sampled, an encoding for each question, the variances they give."""

    sampled: bool
    encodings: tuple[Encoding, ...]
    variances: tuple[float, ...]
    """Of a count, for one respondent: an average over the cells of each question."""


def share(epsilon: Fraction, questions: int, *, sampled: bool) -> Fraction:
    """Give the ε of one question that is asked."""
    return epsilon if sampled else epsilon / questions


def best(questions: tuple[Attribute, ...], epsilon: Fraction, *, sampled: bool) -> Way:
    """Choose the encoding of each question that errs least."""
    each = share(epsilon, len(questions), sampled=sampled)
    chosen = tuple(_least(question.size, each) for question in questions)
    found = tuple(
        variance(encoding, question.size, each, len(questions) if sampled else 1)
        for encoding, question in zip(chosen, questions, strict=True)
    )
    return Way(sampled, chosen, found)


def better(questions: tuple[Attribute, ...], epsilon: Fraction) -> Way:
    """Choose between splitting and sampling; equal ones are split, which also tells of pairs."""
    ways = [best(questions, epsilon, sampled=sampled) for sampled in (False, True)]
    return min(ways, key=lambda way: sum(way.variances))


def variance(encoding: Encoding, cells: int, epsilon: Fraction, one_of: int) -> float:
    """Compute the mean variance of a count for one respondent, who is asked one of so many questions."""
    alone = chances(encoding.mechanism(epsilon, cells)).mean_variance(cells)
    return one_of * alone + (one_of - 1) * (1 - 1 / cells) / cells


def _least(cells: int, epsilon: Fraction) -> Encoding:
    suitable = [each for each in Encoding if each.suits(epsilon, cells)]
    return min(suitable, key=lambda each: variance(each, cells, epsilon, 1))
