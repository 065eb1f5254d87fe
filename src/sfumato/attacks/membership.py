"""Membership inference (tracing): decide from a table's statistics and a person's own values whether they are in it.

Setting: a population has known frequencies p of many binary attributes, such as alleles. A table holds n of its people,
and the number of "yes" is published for each attribute. An attacker who knows one person's values x, and p, computes
⟨x − p, q − p⟩ from the published shares q, which is larger for members (Homer et al. 2008; Dwork, Smith, Steinke,
Ullman & Vadhan, "Robust traceability from trace amounts", 2015). Members score higher by the sum of p(1 − p) over n,
which is √(d/n) standard deviations for d attributes: with more attributes than people, exact counts reveal membership.

Each run draws one person and n others, and publishes two tables: with the person and without them; under replace
neighbours, where the number of people is public, with somebody else in their place. The two are neighbours, so hits and
false alarms of every test are compared with the trade-off function of the guarantee under the same relation
(``attacks.scores``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.findings import ALARM, TABLE, Finding, Findings, simulated_policy, temporary_curator
from sfumato.attacks.scores import Scores, TracingResult, power_notes
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.policy import Domain, Type
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator import Curator

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
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
    words = (
        f"{attributes} counts of a table of {people} people reveal who is in the table.",
        "Rounding them or withholding small ones changes little.",
        *power_notes(runs, promise, float(ALARM)),
    )
    return TracingResult(Findings(_NAME, results, words), tests, promise)


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
