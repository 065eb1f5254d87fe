"""Attribute inference: guess one value of a person from published counts or a synthetic table and all else about them.

Setting: smoking makes cancer likelier. A table holds people with visible attributes (whether they smoke, their age,
where they live) and one secret: whether they have cancer. A model is published, the number of people with and without
cancer among those who look alike, or a synthetic table, which is the same counts with other errors.

Any good study of the population lets one guess that a smoker has cancer, whether or not they took part: no system can
prevent that without being useless (Dwork & Roth 2014, § 1). So every guess is made twice, from a table with the person
and from the same table without them. Success without them is knowledge about the population; the gain from their
presence is what was learnt about the person.

Theorem. If a release is (ε, δ)-DP for adding or removing a unit and a guess is correct with probability α without the
person, it is correct with probability at most 1 − f(α) with them (``attacks.membership``): a correct guess is an event
of the release. That is concave in α, so it holds for the mean over people and tables. Under replace neighbours the same
holds if somebody else takes the person's place in the other table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.attacks.ceilings import power_ceiling
from sfumato.attacks.findings import HALF_ALARM, TABLE, Finding, Findings, simulated_policy, temporary_curator
from sfumato.mechanisms import bits
from sfumato.mechanisms.confidence_limits import lower_confidence_limit, upper_confidence_limit
from sfumato.policy import Domain, Type
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

Counts = NDArray[np.int64]
Publish = Callable[[Counts], Floats]
"""Maps exact counts by (run, smoker, look, cancer) to what is published."""

CANCER = (1, 3)
"""The probability of cancer in quarters, for non-smokers and smokers; half of the people smoke."""
_NAME = "attribute from counts"


def attribute(
    epsilon: Number = 1,
    *,
    people: int = 100,
    looks: int = 48,
    runs: int = 300,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Findings:
    """Guess whether a person has cancer from counts of people who look alike, with the person in the table and without.

    The counts are exact, or released by a curator at this ε under these neighbours; last, by smoking alone.
    """
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    tables = draw_tables(StudySize(people, looks), runs, relation)
    private = f"private, ε = {format_exact(price)}"
    learnt = {
        "exact": guess_attributes(tables, lambda counts: counts.astype(np.float64)),
        private: guess_attributes(tables, lambda counts: release_privately(counts, price, relation)),
        "exact, from smoking alone": guess_attributes(
            tables, lambda counts: counts.mean(axis=2, keepdims=True) + 0 * counts
        ),
    }
    promise = Guarantee(price)
    all_findings = [
        finding
        for kind, outcome in learnt.items()
        for finding in _findings_without_and_with_target(kind, outcome, promise if kind == private else None)
    ]
    notes = (
        "Right guesses without the person's data are about the population: smokers are likelier to have cancer.",
        "What their presence adds is about the person. From smoking alone it is nothing; a privacy promise bounds it.",
    )
    return Findings(_NAME, tuple(all_findings), notes)


def _findings_without_and_with_target(
    kind: str, learnt: AttributeGuesses, promise: Guarantee | None
) -> tuple[Finding, Finding]:
    """Return the findings without and with the person.

    Neither proves an ε by itself, since smokers are likelier to have cancer. The ceiling with the person follows from
    an upper confidence limit of the share without them, with error probability 5·10⁻⁷; exceeding it by chance has the
    same probability (``Finding.holds``).
    """
    ceiling = None
    if promise is not None:
        ceiling = power_ceiling(
            promise, upper_confidence_limit(learnt.correct_without_person, learnt.runs, float(HALF_ALARM))
        )
    return (
        Finding(_NAME, f"{kind}, without them", learnt.correct_without_person, learnt.runs, 0.5, None, 1, coins=False),
        Finding(_NAME, f"{kind}, with them", learnt.correct_with_person, learnt.runs, 0.5, ceiling, 1, coins=False),
    )


def release_privately(counts: Counts, epsilon: Number, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Floats:
    """Release the counts by a curator at this price: a row per person, one question grouped by run and attributes."""
    coordinates = np.repeat(np.indices(counts.shape).reshape(4, -1), counts.ravel(), axis=1)
    names = ("run", "smokes", "look", "cancer")
    columns = {
        name: (coordinate, Domain(Type.INTEGER, values=tuple(range(size))))
        for name, coordinate, size in zip(names, coordinates, counts.shape, strict=True)
    }
    with temporary_curator(simulated_policy(columns, epsilon, neighbours=neighbours)) as curator:
        keys = ", ".join(names)
        query = f"SELECT {keys}, COUNT(*) AS people FROM {TABLE} GROUP BY {keys} ORDER BY {keys}"
        answer = curator.sql(query).release(epsilon=epsilon)
    return np.array([row[-1] for row in answer.rows], np.float64).reshape(counts.shape)


@dataclass(frozen=True)
class StudySize:
    """The size of a study: its people, and the number of distinct appearances besides smoking."""

    people: int
    look_count: int

    def __post_init__(self) -> None:
        exact_integer(self.people, "people", at_least=2)
        exact_integer(self.look_count, "looks", at_least=1)


@dataclass(frozen=True)
class AttributeTables:
    """Exact counts by smoker, look and cancer for many runs, with the target person and without."""

    inside: Counts
    outside: Counts
    targets: Counts
    """The target of each run: smoker, look, cancer."""


def draw_tables(study: StudySize, runs: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> AttributeTables:
    """Draw all tables with a target each; under replace neighbours somebody else takes the target's place."""
    run_count = exact_integer(runs, "runs", at_least=1)
    people = _draw_smoking_looks_and_cancer(study, run_count * study.people)
    run = np.repeat(np.arange(run_count), study.people)
    inside = np.zeros((run_count, 2, study.look_count, 2), np.int64)
    np.add.at(inside, (run, *people), 1)
    targets = np.stack([column.reshape(run_count, study.people)[:, 0] for column in people], axis=1)
    outside = inside.copy()
    np.add.at(outside, (np.arange(run_count), *targets.T), -1)
    if neighbours is Neighbours.REPLACE:
        np.add.at(outside, (np.arange(run_count), *_draw_smoking_looks_and_cancer(study, run_count)), 1)
    return AttributeTables(inside, outside, targets)


def _draw_smoking_looks_and_cancer(study: StudySize, size: int) -> tuple[Counts, Counts, Counts]:
    """Draw people: whether they smoke, how they look, and whether they have cancer."""
    smokes, looks = bits.random_array_below(2, size), bits.random_array_below(study.look_count, size)
    cancer = (bits.random_array_below(4, size) < np.where(smokes == 1, CANCER[1], CANCER[0])).astype(np.int64)
    return smokes, looks, cancer


def guess_secrets(published: Floats, targets: Counts) -> Counts:
    """Guess each target's secret by the majority of those who look alike; ties by all with the same smoking status."""
    runs = np.arange(len(targets))
    lookalikes = published[runs, targets[:, 0], targets[:, 1]]
    same_smoking = published[runs, targets[:, 0]].sum(axis=1)
    majority = np.where(
        lookalikes[:, 1] == lookalikes[:, 0],
        same_smoking[:, 1] - same_smoking[:, 0],
        lookalikes[:, 1] - lookalikes[:, 0],
    )
    return (majority > 0).astype(np.int64)


@dataclass(frozen=True)
class AttributeGuesses:
    """Correct guesses with the person in the table and without."""

    runs: int
    correct_with_person: int
    correct_without_person: int

    @property
    def correct_share_with_person(self) -> float:
        """Return the share of correct guesses with the person in the table."""
        return self.correct_with_person / self.runs

    @property
    def correct_share_without_person(self) -> float:
        """Return the share of correct guesses without them: knowledge about the population."""
        return self.correct_without_person / self.runs

    @property
    def gain(self) -> float:
        """Return the gain from the person's presence."""
        return self.correct_share_with_person - self.correct_share_without_person

    def ceiling(self, theory: Guarantee) -> float:
        """Return the ceiling on correct guesses with the person, given those without."""
        return power_ceiling(theory, self.correct_share_without_person)

    def excess(self, theory: Guarantee, miss: float) -> float:
        """Return by how much correct guesses provably exceed the ceiling; at most zero if they do not.

        Each of the two confidence limits fails with probability at most half of ``miss`` (Clopper & Pearson).
        """
        inside_limit = lower_confidence_limit(self.correct_with_person, self.runs, miss / 2)
        return inside_limit - power_ceiling(
            theory, upper_confidence_limit(self.correct_without_person, self.runs, miss / 2)
        )


def guess_attributes(tables: AttributeTables, publish: Publish) -> AttributeGuesses:
    """Publish both tables of each run, and guess the target's secret from each."""
    correct = [
        int((guess_secrets(publish(counts), tables.targets) == tables.targets[:, 2]).sum())
        for counts in (tables.inside, tables.outside)
    ]
    return AttributeGuesses(len(tables.targets), *correct)
