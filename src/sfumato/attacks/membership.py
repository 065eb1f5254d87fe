"""Membership and attribute inference from statistics and from published rows, scored over many runs.

Setting: a population has known frequencies p of many binary attributes, such as alleles. A table holds n of its people,
and the number of "yes" is published for each attribute. An attacker who knows one person's values x, and p, computes
⟨x − p, q − p⟩ from the published shares q, which is larger for members (Homer et al. 2008; Dwork, Smith, Steinke,
Ullman & Vadhan, "Robust traceability from trace amounts", 2015). Members score higher by the sum of p(1 − p) over n,
which is √(d/n) standard deviations for d attributes: with more attributes than people, exact counts reveal membership.

Each run draws one person and n others, and publishes two tables: with the person and without them; under replace
neighbours, where the number of people is public, with somebody else in their place. The two are neighbours, so hits and
false alarms of every test are compared with the trade-off function of the guarantee under the same relation
(``attacks.membership``).

Membership and attribute inference from published rows, such as a synthetic table.

A fair coin decides for each of many candidates whether they are in the table; a synthetic table is generated from it
and published. A candidate's score is the mean over all published rows of 10^−(number of differing columns). Copied rows
reveal the people they are copied from; the half of the candidates with the higher scores is guessed to be in the table.
Under replace neighbours the number of people is public, so the coin decides between the candidate and a known
replacement from the same distribution: the score is the difference of both, and candidates above 0 are guessed present.

The same tables show attribute inference (``attacks.attribute``). The last column is the secret: whether somebody has
cancer, which smoking, the first column, makes likelier. It is guessed by a vote of the published rows, weighted by
their closeness in the other columns. A correct guess counts as the guess that the candidate is present.

Theorem (Steinke, Nasr & Jagielski, "Privacy auditing with one training run", 2023, Theorem 5.2). If the release is ε-DP
for adding or removing a unit, the number of correct guesses among r independent coins is stochastically dominated by a
binomial with r trials of probability e^ε/(1 + e^ε), however the guesses depend on each other through the one release.
Releases of other tables that share no candidates add up to one binomial. The proof needs one property of neighbours:
given the release and all other coins, the odds of a coin are at most e^ε. A coin that exchanges two units replaces one,
so it also holds for ε under replace neighbours.

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
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.array_types import Floats
from sfumato.attacks.ceilings import guess_ceiling, power_ceiling
from sfumato.attacks.findings import ALARM, TABLE, Finding, Findings, simulated_policy, temporary_curator
from sfumato.curator.kinds.synthesis import Method
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.plots.frame import framed_picture
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import Domain, Policy, Type
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator import Curator


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
            PlottedLine("ceiling by theory", alarm_rates, tuple(power_ceiling(theory, rate) for rate in alarm_rates))
        )
    lines.append(PlottedLine("guessing", (0.0, 1.0), (0.0, 1.0)))
    axes = LineAxes("found when present", "false alarms", y_range=(0.0, 1.0))
    return framed_picture(line_chart(lines, axes, 360.0), title, list(footnotes))


Counts = NDArray[np.int64]
CountPair = tuple[Floats, Floats]
"""Counts with the person and without, by run and attribute; NaN where withheld."""

_HALF_RANGE = 1 << 15
_NAME = "membership from counts"
_BASE = 5
"""The rounding base, and the least count that is not suppressed."""
_MAX_DRAWS = 1 << 26
"""The most values drawn in all."""
_SUMS_PER_QUESTION = 96
"""Sums per question: an answer has at most 100 columns."""


def membership(
    epsilon: Number = 1,
    *,
    people: int = 12,
    attributes: int = 96,
    runs: int = 300,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> TracingResult:
    """Trace one person in counts of many attributes: exact, rounded, suppressed, and released by a curator at this ε
    under these neighbours.

    Each run publishes two tables, one with the person. They are guessed present if their score reaches half of a
    member's expected score.
    """
    promise = Guarantee(exact(epsilon, "epsilon", POSITIVE))
    relation = Neighbours.of(neighbours)
    drawn_runs = draw_runs(AttributePopulation(attributes), people, runs, relation)
    true_counts = drawn_runs.counts()
    published: dict[str, CountPair] = {
        "exact": true_counts,
        f"rounded to {_BASE}s": (_round_counts(true_counts[0]), _round_counts(true_counts[1])),
        f"below {_BASE} withheld": (_suppress_counts(true_counts[0]), _suppress_counts(true_counts[1])),
        f"private, ε = {format_exact(promise.epsilon)}": release_privately(drawn_runs, promise.epsilon, relation),
    }
    tests = tuple((kind, trace_targets(drawn_runs, counts)) for kind, counts in published.items())
    results = tuple(
        _membership_finding(kind, scores, drawn_runs, promise if kind.startswith("private") else None)
        for kind, scores in tests
    )
    notes = (
        f"{attributes} counts of a table of {people} people reveal who is in the table.",
        "Rounding them or withholding small ones changes little.",
        *power_notes(runs, promise, float(ALARM)),
    )
    return TracingResult(Findings(_NAME, results, notes), tests, promise)


def _round_counts(counts: Floats) -> Floats:
    return np.asarray(_BASE * np.floor(counts / _BASE + 0.5))


def _suppress_counts(counts: Floats) -> Floats:
    return np.where(counts < _BASE, np.nan, counts)


def _membership_finding(kind: str, scores: Scores, runs: MembershipRuns, promise: Guarantee | None) -> Finding:
    """Count correct guesses at a threshold fixed beforehand: half of a member's expected score.

    Given the people, all guesses are independent, and the two of one run are correct with a mean probability of at most
    the ceiling. So their number is stochastically dominated by that of as many coins (Hoeffding 1956, Theorem 4).
    """
    frequencies = runs.population.frequencies
    rates = scores.above(float((frequencies * (1 - frequencies)).sum()) / 2)
    correct = round(rates.hit_rate * scores.true.size) + round((1 - rates.false_alarm_rate) * scores.false.size)
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(_NAME, kind, correct, scores.true.size + scores.false.size, 0.5, ceiling, runs.population.attributes)


@dataclass(frozen=True)
class AttributePopulation:
    """Binary attributes with known frequencies between 0.1 and 0.9."""

    attributes: int

    def __post_init__(self) -> None:
        exact_integer(self.attributes, "attributes", at_least=1)

    @property
    def _frequencies_in_parts(self) -> Counts:
        """Return the frequencies in parts of 2¹⁶, evenly spaced."""
        return np.linspace(0.1 * 2 * _HALF_RANGE, 0.9 * 2 * _HALF_RANGE, self.attributes).astype(np.int64)

    @property
    def frequencies(self) -> Floats:
        """Return the frequency of each attribute, exact in every draw below."""
        return self._frequencies_in_parts / (2 * _HALF_RANGE)

    def people(self, count: int) -> NDArray[np.bool_]:
        """Draw people: a row of values each."""
        uniform = bits.random_uint16(count * self.attributes).reshape(count, self.attributes)
        return uniform < self._frequencies_in_parts.astype(np.uint16)


@dataclass(frozen=True)
class MembershipRuns:
    """The tables of all runs, each with one target person who is in the table or not."""

    population: AttributePopulation
    others: NDArray[np.bool_]
    """Values by run, person and attribute."""
    targets: NDArray[np.bool_]
    """Values by run and attribute."""
    replacements: NDArray[np.bool_] | None = None
    """The target's replacement in the other table of each run; None under add-remove."""

    @property
    def people(self) -> int:
        """Return the number of others in each table."""
        return self.others.shape[1]

    def counts(self) -> CountPair:
        """Return exact counts with the target and without."""
        others = self.others.sum(axis=1, dtype=np.float64)
        return others + self.targets, others if self.replacements is None else others + self.replacements


def draw_runs(
    population: AttributePopulation, people: int, runs: int, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> MembershipRuns:
    """Draw a target and a table of others for each run and, under replace neighbours, the target's replacement."""
    run_count, table_size = exact_integer(runs, "runs", at_least=1), exact_integer(people, "people", at_least=1)
    if run_count * table_size * population.attributes > _MAX_DRAWS:
        most_runs = _MAX_DRAWS // (table_size * population.attributes)
        raise InvalidParameter("runs", runs, f"at most {most_runs:,} for {table_size:,} people")
    others = population.people(run_count * table_size).reshape(run_count, table_size, population.attributes)
    instead = population.people(run_count) if neighbours is Neighbours.REPLACE else None
    return MembershipRuns(population, others, population.people(run_count), instead)


def trace_targets(runs: MembershipRuns, published: CountPair) -> Scores:
    """Return each target's score against the counts published with and without them."""
    frequencies = runs.population.frequencies
    centred_target, expected = runs.targets - frequencies, runs.people * frequencies
    inside, outside = ((centred_target * np.nan_to_num(counts - expected)).sum(axis=1) for counts in published)
    return Scores(inside, outside)


def release_privately(
    runs: MembershipRuns, epsilon: Number, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> CountPair:
    """Release the sums of all attributes by a curator, in one question or several that share the price."""
    run_count, table_size, attributes = runs.others.shape
    inside = np.concatenate([runs.others, runs.targets[:, None]], axis=1)
    outside = (
        runs.others if runs.replacements is None else np.concatenate([runs.others, runs.replacements[:, None]], axis=1)
    )
    sizes = table_size + 1, outside.shape[1]
    values = np.concatenate([people.reshape(-1, attributes) for people in (inside, outside)]).astype(np.int8)
    run = np.concatenate(
        [np.repeat(np.arange(run_count), sizes[0]), np.repeat(np.arange(run_count, 2 * run_count), sizes[1])]
    )
    columns = {f"a{index}": (values[:, index], Domain(Type.INTEGER, bounds=(0, 1))) for index in range(attributes)}
    columns["run"] = (run, Domain(Type.INTEGER, values=tuple(range(2 * run_count))))
    with temporary_curator(simulated_policy(columns, epsilon, neighbours=neighbours)) as curator:
        starts = range(0, attributes, _SUMS_PER_QUESTION)
        blocks = [
            _release_sums(curator, range(start, min(start + _SUMS_PER_QUESTION, attributes)), attributes, epsilon)
            for start in starts
        ]
    published = np.concatenate(blocks, axis=1)
    return published[:run_count], published[run_count:]


def _release_sums(curator: Curator, indices: range, attributes: int, epsilon: Number) -> Floats:
    """Release the sums of these attributes in every run, for their share of the price."""
    sums = ", ".join(f"SUM(a{index}) AS a{index}" for index in indices)
    share = exact(epsilon, "epsilon") * len(indices) / attributes
    answer = curator.sql(f"SELECT run, {sums} FROM {TABLE} GROUP BY run ORDER BY run").release(epsilon=share)
    return np.array([row[1:] for row in answer.rows], np.float64)


Codes = NDArray[np.int64]

VALUES = 4
"""The number of equally frequent values of each column except the first and last, which are binary."""
CANCER = (1, 3)
"""The probability of cancer in quarters, for non-smokers and smokers."""
_WEIGHT_PER_DIFFERENCE = 0.1
_MEMBERSHIP, _ATTRIBUTE = "membership from rows", "attribute from rows"


@dataclass(frozen=True)
class CandidateRows:
    """Candidates with a value in each column, and whether each is in the table."""

    values: Codes
    inside: NDArray[np.bool_]
    replacements: Codes | None = None
    """The replacement of each absent candidate; None under add-remove."""

    @property
    def table(self) -> Codes:
        """Return the rows of those in the table, sorted so that the order reveals nothing."""
        inside = self.inside
        rows = (
            self.values[inside]
            if self.replacements is None
            else np.where(inside[:, None], self.values, self.replacements)
        )
        return rows[np.lexsort(rows.T)]


def draw_candidates(count: int, columns: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> CandidateRows:
    """Draw candidates with a fair coin each and, under replace neighbours, a replacement for each."""
    candidate_count, column_count = (
        exact_integer(count, "candidates", at_least=2),
        exact_integer(columns, "columns", at_least=3),
    )
    values = _draw_people(candidate_count, column_count)
    instead = _draw_people(candidate_count, column_count) if neighbours is Neighbours.REPLACE else None
    return CandidateRows(values, bits.random_array_below(2, candidate_count).astype(bool), instead)


def _draw_people(people_count: int, column_count: int) -> Codes:
    """Draw people: whether they smoke, how they look, and whether they have cancer."""
    smokes = bits.random_array_below(2, people_count)
    looks = bits.random_array_below(VALUES, people_count * (column_count - 2)).reshape(people_count, column_count - 2)
    cancer = bits.random_array_below(4, people_count) < np.where(smokes == 1, CANCER[1], CANCER[0])
    return np.concatenate([smokes[:, None], looks, cancer[:, None]], axis=1).astype(np.int64)


def resample_rows(table: Codes) -> Codes:
    """Resample the rows of a table with replacement: a synthetic table that copies people."""
    return table[bits.random_array_below(len(table), len(table))] if len(table) else table


def release_synthetic_rows(
    table: Codes, epsilon: Number, method: Method, rows: int, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> Codes:
    """Release a synthetic table by a curator at this ε under these neighbours, and sample rows from it; −1 is NULL."""
    policy = rows_policy(table, epsilon, neighbours)
    with temporary_curator(policy) as curator:
        synthetic_table = curator.synthesize(TABLE, method, 2).release(epsilon=epsilon)
        sample = synthetic_table.sample(rows)
    column_names = policy.tables[TABLE].columns
    return np.stack([sample[name].fill_null(-1).to_numpy() for name in column_names], axis=1).astype(np.int64)


def rows_policy(table: Codes, epsilon: Number, neighbours: Neighbours) -> Policy:
    """Return a policy over these rows whose budget pays for one synthetic table at this ε."""
    columns = {f"a{index}": (table[:, index], _domain(index, table.shape[1])) for index in range(table.shape[1])}
    return simulated_policy(columns, epsilon, neighbours=neighbours)


def _domain(index: int, column_count: int) -> Domain:
    return Domain(Type.INTEGER, values=tuple(range(2 if index in (0, column_count - 1) else VALUES)))


def closeness_weights(published: Codes, candidates: Codes) -> Floats:
    """Return the closeness of each published row (column) to each candidate (row)."""
    differences = np.zeros((len(candidates), len(published)))
    for index in range(candidates.shape[1]):
        differences += candidates[:, index][:, None] != published[:, index][None, :]
    return np.asarray(_WEIGHT_PER_DIFFERENCE**differences)


def scores_and_guesses(rows: Codes, candidates: CandidateRows) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the scores of all candidates and the guesses of who is present.

    Under add-remove, the half with the higher scores is guessed present; under replace, those who are closer to the
    rows than their replacement.
    """
    scores = _mean_closeness(rows, candidates.values)
    if candidates.replacements is not None:
        scores = scores - _mean_closeness(rows, candidates.replacements)
        return scores, scores > 0
    is_guessed = np.zeros(len(scores), bool)
    is_guessed[np.argsort(-scores, kind="stable")[: len(scores) // 2]] = True
    return scores, is_guessed


def _mean_closeness(published: Codes, candidates: Codes) -> Floats:
    return (
        np.asarray(closeness_weights(published, candidates).mean(axis=1))
        if len(published)
        else np.zeros(len(candidates))
    )


def is_secret_guessed(rows: Codes, candidates: CandidateRows) -> NDArray[np.bool_]:
    """Guess the secret of all candidates by a vote of the rows; return which guesses are correct. A tie is not."""
    vote = np.where(rows[:, -1] < 0, 0, 2 * rows[:, -1] - 1)
    vote_sum = closeness_weights(rows[:, :-1], candidates.values[:, :-1]) @ vote.astype(np.float64)
    return np.asarray(np.sign(vote_sum) == 2 * candidates.values[:, -1] - 1)


@dataclass(frozen=True)
class PublishedTable:
    """The candidates of one table, and the rows of each kind of publication."""

    candidates: CandidateRows
    rows: Mapping[str, Codes]


def publish_tables(
    epsilon: Number, runs: int, candidates: int, columns: int, method: Method, neighbours: Neighbours
) -> list[PublishedTable]:
    """Draw tables and publish each in three ways: rows without names, resampled rows, and a private synthetic table."""
    price = exact(epsilon, "epsilon", POSITIVE)
    published = []
    for _ in range(exact_integer(runs, "runs", at_least=1)):
        drawn_candidates = draw_candidates(candidates, columns, neighbours)
        rows_by_kind = {
            "without names": drawn_candidates.table,
            "resampled rows": resample_rows(drawn_candidates.table),
        }
        rows_by_kind[f"private, ε = {format_exact(price)}"] = release_synthetic_rows(
            drawn_candidates.table, price, method, candidates, neighbours
        )
        published.append(PublishedTable(drawn_candidates, rows_by_kind))
    return published


def membership_of_rows(
    epsilon: Number = 1,
    *,
    runs: int = 5,
    candidates: int = 200,
    columns: int = 8,
    method: Method = "aim",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> TracingResult:
    """Guess which candidates are in a table from published rows: real rows without names, resampled rows, and a
    synthetic table released by a curator at this ε under these neighbours.
    """
    relation = Neighbours.of(neighbours)
    published = publish_tables(epsilon, runs, candidates, columns, method, relation)
    promise = Guarantee(exact(epsilon, "epsilon"))
    results, tests = [], []
    inside = np.concatenate([release.candidates.inside for release in published])
    for kind in published[0].rows:
        traced_runs = [scores_and_guesses(release.rows[kind], release.candidates) for release in published]
        scores, is_guessed = (np.concatenate(arrays) for arrays in zip(*traced_runs, strict=True))
        tests.append((kind, Scores(scores[inside], scores[~inside])))
        results.append(_row_finding(_MEMBERSHIP, kind, int((is_guessed == inside).sum()), len(inside), promise))
    others = ", with others in place of the rest" if relation is Neighbours.REPLACE else ""
    notes = (
        f"Of {candidates} candidates about half are in each table of {columns} columns{others}, and all are guessed.",
        "Rows without names reveal everybody, and resampled rows reveal the people they are copied from.",
    )
    return TracingResult(Findings(_MEMBERSHIP, tuple(results), notes), tuple(tests), promise)


def attribute_of_rows(
    epsilon: Number = 1,
    *,
    runs: int = 2,
    candidates: int = 2000,
    columns: int = 8,
    method: Method = "aim",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Findings:
    """Guess the secret of candidates from published rows, for those in the table and for those who are absent or,
    under replace neighbours, replaced.

    The ceiling bounds what was learnt about the person: how well a correct guess predicts their presence.
    """
    published = publish_tables(epsilon, runs, candidates, columns, method, Neighbours.of(neighbours))
    promise = Guarantee(exact(epsilon, "epsilon"))
    inside = np.concatenate([release.candidates.inside for release in published])
    results = []
    for kind in published[0].rows:
        is_correct = np.concatenate(
            [is_secret_guessed(release.rows[kind], release.candidates) for release in published]
        )
        for presence, members in (("without them", ~inside), ("with them", inside)):
            count = int(is_correct[members].sum())
            results.append(Finding(_ATTRIBUTE, f"{kind}, {presence}", count, int(members.sum()), 0.5, None, 1))
        presence_correct = int((is_correct == inside).sum())
        results.append(_row_finding(_ATTRIBUTE, f"{kind}, of the person", presence_correct, len(inside), promise))
    notes = (
        "Right guesses without the person's data are about the population: smokers are likelier to have cancer.",
        "About the person: how often a right guess coincides with their being in the table. One half is chance.",
    )
    return Findings(_ATTRIBUTE, tuple(results), notes)


def _row_finding(attack: str, kind: str, right: int, trials: int, guarantee: Guarantee) -> Finding:
    ceiling = guess_ceiling(guarantee) if kind.startswith("private") else None
    return Finding(attack, kind, right, trials, 0.5, ceiling, 1)
