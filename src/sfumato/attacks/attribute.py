"""Attribute inference is to guess one value of a person from a model or a synthetic table, and from all else about
them.

World: smoking makes cancer likelier. A table holds people with what everybody can see of them (whether they smoke,
their age, where they live) and one secret: whether they have cancer. Published is a model, the number of people with
and without cancer among those who look alike, or a synthetic table, which is the same counts with other errors.

Whoever smokes is guessed to have cancer, from any good study of the population, and whether or not they took part: no
system can protect against that without being useless (Dwork & Roth 2014, § 1). So every guess is made twice, from a
table with the person and from the same table without them. Right guesses without them are what was learnt about the
population; what is gained by their being there is what was learnt about the person.

Theorem. A release that is (ε, δ)-DP for adding or removing a unit, and makes a guess right with probability α without
the person, makes it right with at most 1 − f(α) with them (``attacks.scores``): the right guess is an event of the
release. That is concave in α, so it holds for the mean over people and tables. Under replace neighbours the same holds
where the table without the person has somebody else in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import power_ceiling
from sfumato.attacks.findings import HALF_ALARM, TABLE, Finding, Findings, invented, thrown_away
from sfumato.mechanisms import bits
from sfumato.mechanisms.confidence_limits import at_least, at_most
from sfumato.policy import Domain, Type
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, text, whole

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Publish = Callable[[Counts], Floats]
"""What is published in place of exact counts of (run, smoker, other cell, cancer)."""

CANCER = (1, 3)
"""In quarters, the chance of cancer of those who do not smoke, and of those who do: half of the people smoke."""
_NAME = "attribute from counts"


def attribute(
    epsilon: Number = 1,
    *,
    people: int = 100,
    looks: int = 48,
    runs: int = 300,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Findings:
    """Guess whether somebody has cancer from counts of people who look alike: with the person and without them, exact
    and bought of a curator at this price, which is for these neighbours; last from smoking alone.
    """
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    tables = draw_tables(Study(people, looks), runs, relation)
    private = f"private, ε = {text(price)}"
    learnt = {
        "exact": learn(tables, lambda counts: counts.astype(np.float64)),
        private: learn(tables, lambda counts: privately(counts, price, relation)),
        "exact, from smoking alone": learn(tables, lambda counts: counts.mean(axis=2, keepdims=True) + 0 * counts),
    }
    promise = Guarantee(price)
    listed = [
        each for kind, own in learnt.items() for each in _findings(kind, own, promise if kind == private else None)
    ]
    words = (
        "Right guesses without somebody are about the population: who smokes is likelier to have cancer.",
        "What their being there adds is about the person. From smoking alone it is nothing; a promise bounds it.",
    )
    return Findings(_NAME, tuple(listed), words)


def _findings(kind: str, learnt: Learnt, promise: Guarantee | None) -> tuple[Finding, Finding]:
    """Tell both shares. Neither proves an ε by itself: whoever smokes is likelier to have cancer. Theory's most with
    the person follows from the largest share without them that is possible, except once in two million times; that
    right guesses with them pass it by chance has the same probability (``Finding.holds``).
    """
    ceiling = None
    if promise is not None:
        ceiling = power_ceiling(promise, at_most(learnt.right_outside, learnt.runs, float(HALF_ALARM)))
    return (
        Finding(_NAME, f"{kind}, without them", learnt.right_outside, learnt.runs, 0.5, None, 1, coins=False),
        Finding(_NAME, f"{kind}, with them", learnt.right_inside, learnt.runs, 0.5, ceiling, 1, coins=False),
    )


def privately(counts: Counts, epsilon: Number, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Floats:
    """Count by a curator at this price: everybody is a row, and one question groups by run and by what is seen."""
    places = np.repeat(np.indices(counts.shape).reshape(4, -1), counts.ravel(), axis=1)
    names = ("run", "smokes", "look", "cancer")
    columns = {
        name: (place, Domain(Type.INTEGER, values=tuple(range(size))))
        for name, place, size in zip(names, places, counts.shape, strict=True)
    }
    with thrown_away(invented(columns, epsilon, neighbours=neighbours)) as curator:
        listed = ", ".join(names)
        asked = f"SELECT {listed}, COUNT(*) AS people FROM {TABLE} GROUP BY {listed} ORDER BY {listed}"
        answer = curator.sql(asked).release(epsilon=epsilon)
    return np.array([row[-1] for row in answer.rows], np.float64).reshape(counts.shape)


@dataclass(frozen=True)
class Study:
    """A study has so many people, who look in so many ways besides whether they smoke."""

    people: int
    looks: int

    def __post_init__(self) -> None:
        whole(self.people, "people", at_least=2)
        whole(self.looks, "looks", at_least=1)


@dataclass(frozen=True)
class AttributeTables:
    """Tables are those of many runs: exact counts by smoker, look and cancer, with one person and without them."""

    inside: Counts
    outside: Counts
    targets: Counts
    """Of the person of each run: smoker, look, cancer."""


def draw_tables(study: Study, runs: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> AttributeTables:
    """Draw so many tables, and of each the person who is guessed at; under replace neighbours somebody else is in their
    place where they are not.
    """
    many = whole(runs, "runs", at_least=1)
    people = _people(study, many * study.people)
    run = np.repeat(np.arange(many), study.people)
    inside = np.zeros((many, 2, study.looks, 2), np.int64)
    np.add.at(inside, (run, *people), 1)
    targets = np.stack([each.reshape(many, study.people)[:, 0] for each in people], axis=1)
    outside = inside.copy()
    np.add.at(outside, (np.arange(many), *targets.T), -1)
    if neighbours is Neighbours.REPLACE:
        np.add.at(outside, (np.arange(many), *_people(study, many)), 1)
    return AttributeTables(inside, outside, targets)


def _people(study: Study, size: int) -> tuple[Counts, Counts, Counts]:
    """Draw so many people: whether they smoke, how they look, and whether they have cancer."""
    smokes, looks = bits.all_below(2, size), bits.all_below(study.looks, size)
    cancer = (bits.all_below(4, size) < np.where(smokes == 1, CANCER[1], CANCER[0])).astype(np.int64)
    return smokes, looks, cancer


def guesses(published: Floats, targets: Counts) -> Counts:
    """Guess each person's secret: what is more frequent among those who look alike; in a tie, among all who smoke as
    they do.
    """
    runs = np.arange(len(targets))
    alike = published[runs, targets[:, 0], targets[:, 1]]
    wider = published[runs, targets[:, 0]].sum(axis=1)
    lean = np.where(alike[:, 1] == alike[:, 0], wider[:, 1] - wider[:, 0], alike[:, 1] - alike[:, 0])
    return (lean > 0).astype(np.int64)


@dataclass(frozen=True)
class Learnt:
    """This tells apart what was learnt: of the population, and of the person by their being there."""

    runs: int
    right_inside: int
    right_outside: int

    @property
    def inside(self) -> float:
        """Give the share of right guesses where the person is in the table."""
        return self.right_inside / self.runs

    @property
    def outside(self) -> float:
        """Give the share of right guesses where they are not: the population told it."""
        return self.right_outside / self.runs

    @property
    def person(self) -> float:
        """Give what was gained by the person being there."""
        return self.inside - self.outside

    def most(self, theory: Guarantee) -> float:
        """Compute theory's most right guesses with the person, from those without them."""
        return power_ceiling(theory, self.outside)

    def excess(self, theory: Guarantee, miss: float) -> float:
        """Compute by how much right guesses are proven to be above theory's most; at most zero where they are not.

        Each of the two shares is off with probability at most half of ``miss`` (Clopper & Pearson).
        """
        least = at_least(self.right_inside, self.runs, miss / 2)
        return least - power_ceiling(theory, at_most(self.right_outside, self.runs, miss / 2))


def learn(tables: AttributeTables, publish: Publish) -> Learnt:
    """Publish both tables of each run, and guess the secret of its person from each."""
    right = [
        int((guesses(publish(each), tables.targets) == tables.targets[:, 2]).sum())
        for each in (tables.inside, tables.outside)
    ]
    return Learnt(len(tables.targets), *right)
