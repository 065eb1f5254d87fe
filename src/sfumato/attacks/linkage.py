"""Linkage attack: re-identify rows by joining a named list on shared quasi-identifiers.

Gender, age and postcode single out nearly everybody (Sweeney 2000). A table is k-anonymous if at least k rows agree in
those columns. That hides which row belongs to whom but not its content: all rows of a group may agree (homogeneity),
and one more known fact leaves fewer rows (background knowledge; Machanavajjhala, Kifer, Gehrke & Venkitasubramaniam
2007).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.attacks.answerers import temporary_curator
from sfumato.attacks.ceilings import guess_ceiling, replacement_guarantee
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass

NAME = "linkage"


@dataclass(frozen=True)
class Person:
    """A person in a named public list and in a medical table without names."""

    name: str
    gender: str
    age: int
    zip: str
    diagnosis: str
    treatment: str
    outcome: str

    @property
    def public(self) -> tuple[str, int, str]:
        """Return the columns that both tables share if only names are removed."""
        return self.gender, self.age, self.zip

    @property
    def coarse(self) -> tuple[str, int, str]:
        """Return the generalised columns: the decade of the age, and three digits of the postcode."""
        return self.gender, self.age // 10 * 10, self.zip[:3]


@lru_cache(maxsize=1)
def linkage_people() -> tuple[Person, ...]:
    """Read the bundled people, all of them fictitious (see LINKAGE.md beside this file)."""
    with (Path(__file__).parent / "linkage_people.csv").open(newline="", encoding="utf-8") as file:
        return tuple(Person(**{**row, "age": int(row["age"])}) for row in csv.DictReader(file))  # type: ignore[arg-type]


def anonymity_level(people: Sequence[Person]) -> int:
    """Return the k of the generalised table's k-anonymity: the size of its smallest group."""
    return min(Counter(person.coarse for person in _checked_people(people)).values())


def homogeneous(people: Sequence[Person]) -> tuple[Person, ...]:
    """Return the people in whose group everybody has the same diagnosis."""
    groups = _group_people(_checked_people(people), lambda person: person.coarse)
    return tuple(person for person in people if len({other.diagnosis for other in groups[person.coarse]}) == 1)


def link_diagnoses(people: Sequence[Person], known: Callable[[Person], Hashable]) -> list[str]:
    """Guess everyone's diagnosis: the most common among the medical rows that match in ``known``; ties at random."""
    groups = _group_people(_checked_people(people), known)
    diagnosis_counts = {key: Counter(person.diagnosis for person in rows) for key, rows in groups.items()}
    return [_most_common_diagnosis(diagnosis_counts[known(person)]) for person in people]


def linkage(
    epsilon: Number = 1,
    people: Sequence[Person] | None = None,
    *,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Findings:
    """Guess everyone's diagnosis from a table without names, from a k-anonymous one, and from private counts.

    The private counts are of every diagnosis in every group of the k-anonymous table, released by a real curator for ε
    in all. The ceiling is ``guess_ceiling`` for diagnoses drawn independently from one distribution.
    """
    all_people = _checked_people(linkage_people() if people is None else people)
    price = exact(epsilon, "epsilon", POSITIVE)
    k = anonymity_level(all_people)
    homogeneous_people = homogeneous(all_people)
    findings = [
        _linkage_finding("names removed", all_people, link_diagnoses(all_people, lambda person: person.public)),
        _linkage_finding(f"{k}-anonymous", all_people, link_diagnoses(all_people, lambda person: person.coarse)),
        _linkage_finding(
            f"{k}-anonymous, treatment known",
            all_people,
            link_diagnoses(all_people, lambda person: (person.coarse, person.treatment)),
        ),
    ]
    if homogeneous_people:
        diagnoses = [person.diagnosis for person in homogeneous_people]
        findings.append(
            _linkage_finding(
                f"{k}-anonymous, uniform groups",
                homogeneous_people,
                diagnoses,
                _most_common_diagnosis_share(all_people),
            )
        )
    findings.append(_private_finding(all_people, price, Neighbours.of(neighbours)))
    notes = (
        "A public list with names has gender, age and postcode. The medical table has them too, exactly or coarsely, "
        "and the diagnosis.",
        f"{len(homogeneous_people)} of {len(all_people):,} people are in a group in which all have the same diagnosis.",
    )
    return Findings(NAME, tuple(findings), notes)


def resample_diagnoses(people: Sequence[Person]) -> tuple[Person, ...]:
    """Resample all diagnoses with replacement, so that they depend on no other column."""
    checked = _checked_people(people)
    sources = bits.random_array_below(len(checked), len(checked))
    return tuple(
        replace(person, diagnosis=checked[int(source)].diagnosis)
        for person, source in zip(checked, sources, strict=True)
    )


def _private_finding(people: Sequence[Person], price: Fraction, neighbours: Neighbours) -> Finding:
    """Release the count of every diagnosis in every group, and guess the largest."""
    groups = sorted({person.coarse for person in people})
    diagnoses = sorted({person.diagnosis for person in people})
    area_of = {group: area for area, group in enumerate(groups)}
    columns: dict[str, Any] = {
        "area": [area_of[person.coarse] for person in people],
        "diagnosis": [person.diagnosis for person in people],
    }
    declared = {"area": {"type": "integer", "values": list(range(len(groups)))}, "diagnosis": {"values": diagnoses}}
    question = "SELECT area, diagnosis, COUNT(*) AS n FROM people GROUP BY area, diagnosis"
    with temporary_curator(columns, declared, Budget(price, neighbours=neighbours)) as curator:
        query: Any = curator.sql(question)
        rows = query.release(epsilon=price).rows
    diagnosis_counts: dict[int, Counter[str]] = {area: Counter() for area in area_of.values()}
    for area_number, diagnosis, count in rows:
        diagnosis_counts[area_number][diagnosis] = count
    guesses = [_most_common_diagnosis(diagnosis_counts[area_of[person.coarse]]) for person in people]
    promise = replacement_guarantee(Guarantee(price), neighbours)
    chance = _most_common_diagnosis_share(people)
    ceiling = guess_ceiling(promise, chance, max(2, len(diagnoses)))
    return _linkage_finding(f"private, ε = {format_exact(price)}", people, guesses, chance, ceiling)


def _linkage_finding(
    answers: str,
    people: Sequence[Person],
    guesses: Sequence[str],
    chance: Fraction | None = None,
    ceiling: float | None = None,
) -> Finding:
    correct = sum(person.diagnosis == guess for person, guess in zip(people, guesses, strict=True))
    blind = float(_most_common_diagnosis_share(people) if chance is None else chance)
    return Finding(NAME, answers, correct, len(people), blind, ceiling, 1)


def _most_common_diagnosis_share(people: Sequence[Person]) -> Fraction:
    """Return the share of the most common diagnosis: the success of blind guessing."""
    return Fraction(max(Counter(person.diagnosis for person in people).values()), len(people))


def _most_common_diagnosis(diagnosis_counts: Counter[str]) -> str:
    largest = max(diagnosis_counts.values())
    tied = sorted(name for name, count in diagnosis_counts.items() if count == largest)
    return tied[bits.random_below(len(tied))]


def _group_people(people: Sequence[Person], key: Callable[[Person], Hashable]) -> dict[Hashable, list[Person]]:
    groups: dict[Hashable, list[Person]] = {}
    for person in people:
        groups.setdefault(key(person), []).append(person)
    return groups


def _checked_people(people: Sequence[Person]) -> Sequence[Person]:
    if not isinstance(people, Sequence) or not people or not all(isinstance(person, Person) for person in people):
        raise InvalidParameter("people", ValueWords(f"a {type(people).__name__}"), "a list of one or more Persons")
    return people
