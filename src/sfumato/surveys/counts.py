"""Unbiased counts from randomised reports, with confidence intervals that hold whatever people answered.

Of n respondents, N were asked a question (all of them, or a uniformly drawn subset). Let f be the share that holds a
cell, and C the number of reports that support it. C is a sum of N independent Bernoulli variables of mean μ = q + f·(p
− q): this is immediate given who was asked; and the number of holders among those asked is hypergeometric, hence itself
a sum of independent Bernoulli variables (Vatutin & Mikhailov 1982), each of which changes one success probability from
q to p. So n·(C/N − q)/(p − q) is unbiased.

Theorem (Hoeffding 1956). A sum of N independent Bernoulli variables of mean μ is at most c with no more than the
binomial's probability for c ≤ Nμ − 1, and at least c likewise for c ≥ Nμ + 1. So the Clopper–Pearson limits of μ hold,
widened to (C ± 1)/N where they are closer than that; f is linear in μ.

Pairs of questions under a split budget: the sum of (S − q)(S' − q')/((p − q)(p' − q')) is unbiased for the number that
holds both cells, since the two randomisations are independent. Its interval is Bernstein's: P(|error| ≥ t) ≤
2·exp(−t²/(2V + 2Mt/3)), with V bounded by the limits of the two counts (a quarter of the miss probability each).

Choice of the randomisation. Of m questions, each may get ε/m (a *split* budget: the losses add up to ε), or each
respondent answers one of them, drawn uniformly and independently of the answers, with the whole ε (*sampled*).

The criterion is the variance of a count per respondent, averaged over the cells of a question and summed over the
questions. Split, it is the same for all data: every respondent holds one cell of each question, so the average is
v(ε/m) = (p(1 − p) + (k − 1)·q(1 − q))/(k·(p − q)²). Sampled, 1/m of the respondents answer for all, which gives m·v(ε),
and a sampling variance of (m − 1)·f(1 − f) for a cell of share f: (m − 1)(1 − 1/k)/k on average where all shares are
1/k, which is the maximum.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.html_fragments import paragraphs, table as html_table
from sfumato.mechanisms.confidence_limits import lower_confidence_limit, upper_confidence_limit
from sfumato.mechanisms.response import Response
from sfumato.plots.answers import draw_panels
from sfumato.plots.frame import ChartData
from sfumato.plots.picture import Picture, save_if_path
from sfumato.privacy.numbers import format_number, format_percent
from sfumato.publish.marginals.attributes import Attribute
from sfumato.quick_dataclass import dataclass
from sfumato.surveys.encodings import Encoding, SupportProbabilities, support_matrix, support_probabilities

if TYPE_CHECKING:
    import pandas


_BLOCK_ENTRIES = 1 << 20
"""Entries of a support matrix that are in memory at one time."""


@dataclass(frozen=True)
class Counts:
    """Estimated counts of the cells of one question, or of a pair of questions, with confidence intervals."""

    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    """For each count the labels of its cell, one for each question."""
    counts: tuple[float, ...]
    """Unbiased, so some may be negative."""
    intervals: tuple[tuple[float, float], ...]
    asked: int
    """The number of reports that answer this question."""

    @property
    def chart_data(self) -> ChartData:
        """The counts as data for a bar chart."""
        labels = tuple(" · ".join(answer) for answer in self.answers)
        cells = tuple(format_number(count) for count in self.counts)
        return ChartData(" × ".join(self.questions), "answer", labels, self.counts, self.intervals, cells)

    def __str__(self) -> str:
        width = max(len(name) for name, _, _ in self._rows)
        lines = (f"  {name:<{width}}  {count:>9}   {interval}" for name, count, interval in self._rows)
        return "\n".join([self._heading, *lines])

    def _repr_html_(self) -> str:
        return html_table(("answer", "count", "range"), self._rows, ("count", "range"), self._heading)

    @property
    def _heading(self) -> str:
        return f"{' and '.join(self.questions)} ({self.asked:,} report{'' if self.asked == 1 else 's'})"

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (", ".join(labels), format_number(count), f"{format_number(low)} to {format_number(high)}")
            for labels, count, (low, high) in zip(self.answers, self.counts, self.intervals, strict=True)
        ]


@dataclass(frozen=True)
class RefusedReport:
    """A rejected report: its position in the list, from 0, and the reason."""

    place: int
    reason: str


@dataclass(frozen=True)
class SurveyEstimate:
    """The estimated counts of every question, and of the requested pairs."""

    respondents: int
    """The number of accepted reports; the counts are out of these."""
    tables: tuple[Counts, ...]
    refused: tuple[RefusedReport, ...]
    confidence: str
    together: bool
    """Whether all intervals hold simultaneously, or each one separately."""

    def __getitem__(self, names: str | tuple[str, ...]) -> Counts:
        questions = (names,) if isinstance(names, str) else names
        for table in self.tables:
            if table.questions == questions:
                return table
        estimated_names = ", ".join(" and ".join(table.questions) for table in self.tables)
        fix = f"for example, write estimate[{', '.join(map(repr, self.tables[0].questions))}]"
        raise InvalidParameter("question", names, f"one of the estimated questions: {estimated_names}", fix=fix)

    def to_pandas(self) -> pandas.DataFrame:
        """Return all counts as one data frame with columns question, answer, count, low and high."""
        import pandas

        rows = [
            (" × ".join(table.questions), " · ".join(answer), count, low, high)
            for table in self.tables
            for answer, count, (low, high) in zip(table.answers, table.counts, table.intervals, strict=True)
        ]
        return pandas.DataFrame(rows, columns=["question", "answer", "count", "low", "high"])

    def plot(self, path: str | None = None) -> Picture:
        """Plot the counts of each question with their ranges; save the picture if a path (.svg, .png, .html) is
        given.
        """
        scope_text = "all at once" if self.together else "each by itself"
        foot = [
            f"{self.respondents:,} respondents",
            f"ranges hold with {format_percent(self.confidence)} confidence, {scope_text}",
        ]
        return save_if_path(draw_panels([table.chart_data for table in self.tables], "Estimated answers", foot), path)

    def to_json(self) -> str:
        """Serialise the estimate as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        return "\n".join([*self._notes, *map(str, self.tables)])

    def _repr_html_(self) -> str:
        return paragraphs(self._notes) + "".join(counts._repr_html_() for counts in self.tables)

    @property
    def _notes(self) -> list[str]:
        scope_text = "all at once" if self.together else "each by itself"
        head = (
            f"{self.respondents:,} respondents; ranges hold with {format_percent(self.confidence)} "
            f"confidence, {scope_text}"
        )
        refusals = (
            [f"refused {len(self.refused):,} of the reports, the first because {self.refused[0].reason}"]
            if self.refused
            else []
        )
        return [head, *refusals]


def support_counts(mechanism: Response, parts: list[Any]) -> Floats:
    """Count for each cell the randomised answers that support it."""
    support = np.zeros(mechanism.choices)
    for rows in _row_slices(len(parts), mechanism.choices):
        support += support_matrix(mechanism, parts[rows]).sum(0)
    return support


def pair_support_counts(first: Response, second: Response, parts: Sequence[list[Any]]) -> Floats:
    """Count for each pair of cells the reports that support both."""
    support = np.zeros((first.choices, second.choices))
    for rows in _row_slices(len(parts[0]), max(first.choices, second.choices)):
        support += support_matrix(first, parts[0][rows]).T @ support_matrix(second, parts[1][rows])
    return support


def _row_slices(count: int, cells: int) -> list[slice]:
    step = max(1, _BLOCK_ENTRIES // cells)
    return [slice(start, start + step) for start in range(0, count, step)]


def unbiased_counts(support: Floats, reports: int, respondents: int, probabilities: SupportProbabilities) -> Floats:
    """Return unbiased counts from support counts; a uniform split of the respondents where nobody was asked."""
    if not reports:
        return np.full(support.size, respondents / support.size)
    return respondents * (support / reports - probabilities.q) / probabilities.gap


def count_interval(
    support: int, reports: int, respondents: int, probabilities: SupportProbabilities, miss: float
) -> tuple[float, float]:
    """Return a confidence interval of a count from its support, each end failing with probability at most ``miss``/2.

    With much noise the interval may lie outside [0, respondents]. So the upper end is at least half of the length above
    0, and the lower end as much below the number of respondents: ends that only move outward fail no more often, and no
    interval shrinks to a point.
    """
    low, high = frequency_limits(support, reports, miss / 2)
    slack = 1e-12 * respondents / probabilities.gap  # p and q are doubles
    ends = (respondents * (limit - probabilities.q) / probabilities.gap for limit in (low, high))
    bottom, top = next(ends) - slack, next(ends) + slack
    half_length = (top - bottom) / 2
    return max(0.0, min(bottom, respondents - half_length)), min(float(respondents), max(top, half_length))


def frequency_limits(successes: int, trials: int, miss: float) -> tuple[float, float]:
    """Return limits of the mean of ``trials`` independent Bernoulli variables with so many ``successes``, each failing
    with probability at most ``miss``.
    """
    if not trials:
        return 0.0, 1.0
    low = min(lower_confidence_limit(successes, trials, miss), max(0.0, (successes - 1) / trials))
    high = max(upper_confidence_limit(successes, trials, miss), min(1.0, (successes + 1) / trials))
    return low, high


@dataclass(frozen=True)
class PairSupport:
    """Support counts of two questions, separately and jointly, among the same reports."""

    first: Floats
    second: Floats
    both: Floats
    respondents: int
    probabilities: tuple[SupportProbabilities, SupportProbabilities]

    def estimates(self) -> Floats:
        """Return unbiased estimates of the number that holds each pair of cells."""
        first_probabilities, second_probabilities = self.probabilities
        centred = (
            self.both
            - second_probabilities.q * self.first[:, None]
            - first_probabilities.q * self.second[None, :]
            + self.respondents * first_probabilities.q * second_probabilities.q
        )
        return centred / (first_probabilities.gap * second_probabilities.gap)

    def half_widths(self, miss: float) -> Floats:
        """Bound the errors of the estimates, each with failure probability ``miss``."""
        first_probabilities, second_probabilities = self.probabilities
        max_holders = (
            self._max_holders(self.first, first_probabilities, miss / 4),
            self._max_holders(self.second, second_probabilities, miss / 4),
        )
        variance = self.variances(*max_holders)
        max_deviation = _max_deviation(first_probabilities) * _max_deviation(second_probabilities) + 1
        log_failure = math.log(4 / miss)
        return log_failure * max_deviation / 3 + np.sqrt(
            (log_failure * max_deviation / 3) ** 2 + 2 * log_failure * variance
        )

    def variances(self, first: Floats, second: Floats) -> Floats:
        """Bound the variances, given upper bounds on the holders of each cell: they increase with the holders of either
        cell, and are linear in those who hold both.
        """
        first_probabilities, second_probabilities = self.probabilities
        first_increase, second_increase = (
            1 + question_probabilities.true_cell_variance - question_probabilities.other_cell_variance
            for question_probabilities in (first_probabilities, second_probabilities)
        )
        joint = max(0.0, first_increase * second_increase - 1) * np.minimum(first[:, None], second[None, :])
        separate = (
            first[:, None] * first_increase * second_probabilities.other_cell_variance
            + second[None, :] * first_probabilities.other_cell_variance * second_increase
        )
        return np.asarray(
            self.respondents * first_probabilities.other_cell_variance * second_probabilities.other_cell_variance
            + separate
            + joint
        )

    def _max_holders(self, support: Floats, probabilities: SupportProbabilities, miss: float) -> Floats:
        return np.array(
            [
                count_interval(int(count), self.respondents, self.respondents, probabilities, 2 * miss)[1]
                for count in support
            ]
        )


def _max_deviation(probabilities: SupportProbabilities) -> float:
    """Return the largest absolute value of (S − q)/(p − q)."""
    return max(probabilities.q, 1 - probabilities.q) / probabilities.gap


def support_probabilities_of(mechanisms: Sequence[Response]) -> tuple[SupportProbabilities, ...]:
    """Compute p and q of every question."""
    return tuple(map(support_probabilities, mechanisms))


@dataclass(frozen=True)
class SurveyDesign:
    """A randomisation of a form: split or sampled, an encoding for each question, and the resulting variances."""

    sampled: bool
    encodings: tuple[Encoding, ...]
    variances: tuple[float, ...]
    """Variance of a count per respondent, averaged over the cells of each question."""


def epsilon_per_question(epsilon: Fraction, questions: int, *, sampled: bool) -> Fraction:
    """Return the ε that one asked question gets."""
    return epsilon if sampled else epsilon / questions


def best_design(questions: tuple[Attribute, ...], epsilon: Fraction, *, sampled: bool) -> SurveyDesign:
    """Choose the encoding of least variance for each question."""
    question_epsilon = epsilon_per_question(epsilon, len(questions), sampled=sampled)
    encodings = tuple(_least_variance_encoding(question.size, question_epsilon) for question in questions)
    variances = tuple(
        mean_count_variance(encoding, question.size, question_epsilon, len(questions) if sampled else 1)
        for encoding, question in zip(encodings, questions, strict=True)
    )
    return SurveyDesign(sampled, encodings, variances)


def choose_design(questions: tuple[Attribute, ...], epsilon: Fraction) -> SurveyDesign:
    """Choose between splitting and sampling; in a tie split, which also allows counts of pairs."""
    candidates = [best_design(questions, epsilon, sampled=sampled) for sampled in (False, True)]
    return min(candidates, key=lambda candidate: sum(candidate.variances))


def mean_count_variance(encoding: Encoding, cells: int, epsilon: Fraction, one_of: int) -> float:
    """Return the mean variance of a count per respondent, who is asked one of ``one_of`` questions."""
    noise_variance = support_probabilities(encoding.mechanism(epsilon, cells)).mean_variance(cells)
    return one_of * noise_variance + (one_of - 1) * (1 - 1 / cells) / cells


def _least_variance_encoding(cells: int, epsilon: Fraction) -> Encoding:
    suitable = [encoding for encoding in Encoding if encoding.is_suitable(epsilon, cells)]
    return min(suitable, key=lambda encoding: mean_count_variance(encoding, cells, epsilon, 1))
