"""Tracing finds out whether one person is in a table, from statistics of the table and that person's own values.

World: a population has known frequencies p of many yes-or-no attributes, as genomes have of alleles. A table holds n
people of it, and the number of "yes" is published for each attribute. Whoever knows the values x of one person, and p,
computes ⟨x − p, q − p⟩ from the published shares q: the table leans towards its members (Homer et al. 2008; Dwork,
Smith, Steinke, Ullman & Vadhan, "Robust traceability from trace amounts", 2015). Members score higher by the sum of
p(1 − p) over n, which is √(d/n) standard deviations for d attributes: with more attributes than people exact counts
give away who is there.

Each run draws one person and n others, and publishes two tables: one with the person and one without them; under
replace neighbours, one with somebody else in their place, since there a table says how many people it has. The two are
neighbours, so hits and false alarms of every test are held against the trade-off function of the promise, which is for
the same relation (``attacks.scores``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.findings import ALARM, TABLE, Finding, Findings, invented, thrown_away
from sfumato.attacks.scores import Scores, Traced, power_words
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.policy import Domain, Type
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, text, whole

if TYPE_CHECKING:
    from sfumato.curator import Curator

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Both = tuple[Floats, Floats]
"""Counts with the person and without them, by run and attribute; what is withheld is not a number."""

_HALF = 1 << 15
_NAME = "membership from counts"
_BASE = 5
"""Counts are rounded to multiples of it, or withheld below it."""
_MOST_DRAWS = 1 << 26
"""Values that are drawn in all."""
_WIDE = 96
"""Sums of one question: an answer has at most 100 columns."""


def membership(
    epsilon: Number = 1,
    *,
    people: int = 12,
    attributes: int = 96,
    runs: int = 300,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Traced:
    """Trace one person in counts of many attributes: exact, rounded, with small ones withheld, and bought of a curator
    at this price, which is for these neighbours.

    Of each run two tables are published, one with the person. Where half of the scores they would have in it are
    reached, they are guessed to be there.
    """
    promise = Guarantee(exact(epsilon, "epsilon", POSITIVE))
    relation = Neighbours.of(neighbours)
    drawn = draw_runs(AttributePopulation(attributes), people, runs, relation)
    true = drawn.counts()
    published: dict[str, Both] = {
        "exact": true,
        f"rounded to {_BASE}s": (_rounded(true[0]), _rounded(true[1])),
        f"below {_BASE} withheld": (_withheld(true[0]), _withheld(true[1])),
        f"private, ε = {text(promise.epsilon)}": privately(drawn, promise.epsilon, relation),
    }
    tests = tuple((kind, trace(drawn, told)) for kind, told in published.items())
    listed = tuple(
        _finding(kind, scores, drawn, promise if kind.startswith("private") else None) for kind, scores in tests
    )
    words = (
        f"{attributes} counts of a table of {people} people give away who is one of them.",
        "Rounding them, or withholding small ones, changes little.",
        *power_words(runs, promise, float(ALARM)),
    )
    return Traced(Findings(_NAME, listed, words), tests, promise)


def _rounded(counts: Floats) -> Floats:
    return np.asarray(_BASE * np.floor(counts / _BASE + 0.5))


def _withheld(counts: Floats) -> Floats:
    return np.where(counts < _BASE, np.nan, counts)


def _finding(kind: str, scores: Scores, runs: MembershipRuns, promise: Guarantee | None) -> Finding:
    """Count right guesses at a threshold that was known before: half of the mean score of those who are there.

    Given the people, all guesses are independent, and the two of one run are right with a mean probability of at most
    the ceiling. So their number is no larger in law than that of as many coins (Hoeffding 1956, Theorem 4).
    """
    frequencies = runs.population.frequencies
    at = scores.above(float((frequencies * (1 - frequencies)).sum()) / 2)
    right = round(at.hits * scores.true.size) + round((1 - at.alarms) * scores.false.size)
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(_NAME, kind, right, scores.true.size + scores.false.size, 0.5, ceiling, runs.population.attributes)


@dataclass(frozen=True)
class AttributePopulation:
    """A population has so many attributes, each with a known frequency between a tenth and nine tenths."""

    attributes: int

    def __post_init__(self) -> None:
        whole(self.attributes, "attributes", at_least=1)

    @property
    def _parts(self) -> Counts:
        """Give the frequencies in parts of 2¹⁶, spread evenly."""
        return np.linspace(0.1 * 2 * _HALF, 0.9 * 2 * _HALF, self.attributes).astype(np.int64)

    @property
    def frequencies(self) -> Floats:
        """Give the frequency of each attribute: every draw below has it exactly."""
        return self._parts / (2 * _HALF)

    def people(self, count: int) -> NDArray[np.bool_]:
        """Draw so many people: a row of values each."""
        drawn = bits.shorts(count * self.attributes).reshape(count, self.attributes)
        return drawn < self._parts.astype(np.uint16)


@dataclass(frozen=True)
class MembershipRuns:
    """These are tables of so many people each, and for each one more person, who is in the table or is not."""

    population: AttributePopulation
    others: NDArray[np.bool_]
    """Values by run, person and attribute."""
    targets: NDArray[np.bool_]
    """Values by run and attribute."""
    instead: NDArray[np.bool_] | None = None
    """Who is in the other table of each run in the place of the person; None where nobody is."""

    @property
    def people(self) -> int:
        """Say how many others there are in each table."""
        return self.others.shape[1]

    def counts(self) -> Both:
        """Count exactly, with the person and without them."""
        others = self.others.sum(axis=1, dtype=np.float64)
        return others + self.targets, others if self.instead is None else others + self.instead


def draw_runs(
    population: AttributePopulation, people: int, runs: int, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> MembershipRuns:
    """Draw so many times one person, and a table of so many others; and somebody to replace the person by, where that
    is what neighbours are.
    """
    many, size = whole(runs, "runs", at_least=1), whole(people, "people", at_least=1)
    if many * size * population.attributes > _MOST_DRAWS:
        raise InvalidParameter("runs", runs, f"fewer: at most {_MOST_DRAWS:,} values are drawn in all")
    others = population.people(many * size).reshape(many, size, population.attributes)
    instead = population.people(many) if neighbours is Neighbours.REPLACE else None
    return MembershipRuns(population, others, population.people(many), instead)


def trace(runs: MembershipRuns, published: Both) -> Scores:
    """Find for each person how far the counts that were published with and without them lean towards them."""
    frequencies = runs.population.frequencies
    own, expected = runs.targets - frequencies, runs.people * frequencies
    inside, outside = ((own * np.nan_to_num(each - expected)).sum(axis=1) for each in published)
    return Scores(inside, outside)


def privately(runs: MembershipRuns, epsilon: Number, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Both:
    """Count by a curator at this price: sums of all attributes, in one question or several that share it."""
    many, size, attributes = runs.others.shape
    inside = np.concatenate([runs.others, runs.targets[:, None]], axis=1)
    outside = runs.others if runs.instead is None else np.concatenate([runs.others, runs.instead[:, None]], axis=1)
    sizes = size + 1, outside.shape[1]
    values = np.concatenate([each.reshape(-1, attributes) for each in (inside, outside)]).astype(np.int8)
    run = np.concatenate([np.repeat(np.arange(many), sizes[0]), np.repeat(np.arange(many, 2 * many), sizes[1])])
    columns = {f"a{place}": (values[:, place], Domain(Type.INTEGER, bounds=(0, 1))) for place in range(attributes)}
    columns["run"] = (run, Domain(Type.INTEGER, values=tuple(range(2 * many))))
    with thrown_away(invented(columns, epsilon, neighbours=neighbours)) as curator:
        starts = range(0, attributes, _WIDE)
        parts = [_sums(curator, range(each, min(each + _WIDE, attributes)), attributes, epsilon) for each in starts]
    published = np.concatenate(parts, axis=1)
    return published[:many], published[many:]


def _sums(curator: Curator, places: range, attributes: int, epsilon: Number) -> Floats:
    """Ask for the sums of these attributes in every run, for their share of the price."""
    sums = ", ".join(f"SUM(a{place}) AS a{place}" for place in places)
    share = exact(epsilon, "epsilon") * len(places) / attributes
    answer = curator.sql(f"SELECT run, {sums} FROM {TABLE} GROUP BY run ORDER BY run").release(epsilon=share)
    return np.array([row[1:] for row in answer.rows], np.float64)
