"""Linkage puts names back: whoever holds a list with names and the same few columns finds the row of a person.

Gender, age and postcode single out nearly everybody (Sweeney 2000). A table is k-anonymous where at least k rows agree
in those columns. That hides which row is whose, and not what it says: all rows of a group may say the same
(homogeneity), and whoever knows one thing more about a person is left with fewer rows (background knowledge;
Machanavajjhala, Kifer, Gehrke & Venkitasubramaniam 2007).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.attacks.answerers import thrown_away
from sfumato.attacks.ceilings import for_replacing, guess_ceiling
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, text

NAME = "linkage"


@dataclass(frozen=True)
class Person:
    """A person stands in a public list with a name, and in a medical table without."""

    name: str
    gender: str
    age: int
    zip: str
    diagnosis: str
    treatment: str
    outcome: str

    @property
    def public(self) -> tuple[str, int, str]:
        """Give what both tables have where only names were removed."""
        return self.gender, self.age, self.zip

    @property
    def coarse(self) -> tuple[str, int, str]:
        """Give the same as the generalised table has it: the decade of the age, and three digits of the postcode."""
        return self.gender, self.age // 10 * 10, self.zip[:3]


@lru_cache(maxsize=1)
def linkage_people() -> tuple[Person, ...]:
    """Read the bundled people, all of them fabricated (LINKAGE.md beside this file)."""
    with (Path(__file__).parent / "linkage_people.csv").open(newline="", encoding="utf-8") as file:
        return tuple(Person(**{**row, "age": int(row["age"])}) for row in csv.DictReader(file))  # type: ignore[arg-type]


def anonymity(people: Sequence[Person]) -> int:
    """Find the k for which the generalised table is k-anonymous: the size of its smallest group."""
    return min(Counter(each.coarse for each in _checked(people)).values())


def homogeneous(people: Sequence[Person]) -> tuple[Person, ...]:
    """List the people in whose group everybody has the same diagnosis: no row is singled out, and all is told."""
    groups = _grouped(_checked(people), lambda each: each.coarse)
    return tuple(each for each in people if len({other.diagnosis for other in groups[each.coarse]}) == 1)


def linked(people: Sequence[Person], known: Callable[[Person], Hashable]) -> list[str]:
    """Guess everybody's diagnosis: the commonest of the medical rows that agree with them in what is ``known``; a coin
    decides between several.
    """
    groups = _grouped(_checked(people), known)
    counted = {key: Counter(each.diagnosis for each in rows) for key, rows in groups.items()}
    return [_commonest(counted[known(each)]) for each in people]


def linkage(
    epsilon: Number = 1,
    people: Sequence[Person] | None = None,
    *,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Findings:
    """Guess everybody's diagnosis from a table without names, from a k-anonymous one, and from private counts.

    The private counts are of every diagnosis in every group of the k-anonymous table, bought from a real curator for ε
    in all. The ceiling is that of ``guess_ceiling`` for diagnoses that are drawn for each person alike.
    """
    listed = _checked(linkage_people() if people is None else people)
    price = exact(epsilon, "epsilon", POSITIVE)
    k = anonymity(listed)
    alike = homogeneous(listed)
    findings = [
        _found("names removed", listed, linked(listed, lambda each: each.public)),
        _found(f"{k}-anonymous", listed, linked(listed, lambda each: each.coarse)),
        _found(f"{k}-anonymous, treatment known", listed, linked(listed, lambda each: (each.coarse, each.treatment))),
    ]
    if alike:
        right = [each.diagnosis for each in alike]
        findings.append(_found(f"{k}-anonymous, groups alike", alike, right, _chance(listed)))
    findings.append(_private(listed, price, Neighbours.of(neighbours)))
    words = (
        "A public list with names has gender, age and postcode. The medical table has them too, exactly or coarsely, "
        "and the diagnosis.",
        f"{len(alike)} of {len(listed):,} people are in a group in which all have the same diagnosis.",
    )
    return Findings(NAME, tuple(findings), words)


def redrawn(people: Sequence[Person]) -> tuple[Person, ...]:
    """Give everybody the diagnosis of somebody who is drawn at random: what is learnt of it then is learnt from the
    person's own row alone.
    """
    listed = _checked(people)
    drawn = bits.all_below(len(listed), len(listed))
    return tuple(
        replace(each, diagnosis=listed[int(place)].diagnosis) for each, place in zip(listed, drawn, strict=True)
    )


def _private(people: Sequence[Person], price: Fraction, neighbours: Neighbours) -> Finding:
    """Buy the count of every diagnosis in every group, and guess the one with the largest."""
    groups = sorted({each.coarse for each in people})
    diagnoses = sorted({each.diagnosis for each in people})
    place = {group: number for number, group in enumerate(groups)}
    columns: dict[str, Any] = {
        "area": [place[each.coarse] for each in people],
        "diagnosis": [each.diagnosis for each in people],
    }
    declared = {"area": {"type": "integer", "values": list(range(len(groups)))}, "diagnosis": {"values": diagnoses}}
    question = "SELECT area, diagnosis, COUNT(*) AS n FROM people GROUP BY area, diagnosis"
    with thrown_away(columns, declared, Budget(price, neighbours=neighbours)) as curator:
        asked: Any = curator.sql(question)
        rows = asked.release(epsilon=price).rows
    counted: dict[int, Counter[str]] = {number: Counter() for number in place.values()}
    for area, diagnosis, count in rows:
        counted[area][diagnosis] = count
    guesses = [_commonest(counted[place[each.coarse]]) for each in people]
    promise = for_replacing(Guarantee(price), neighbours)
    chance = _chance(people)
    ceiling = guess_ceiling(promise, chance, max(2, len(diagnoses)))
    return _found(f"private, ε = {text(price)}", people, guesses, chance, ceiling)


def _found(
    answers: str,
    people: Sequence[Person],
    guesses: Sequence[str],
    chance: Fraction | None = None,
    ceiling: float | None = None,
) -> Finding:
    right = sum(each.diagnosis == guess for each, guess in zip(people, guesses, strict=True))
    blind = float(_chance(people) if chance is None else chance)
    return Finding(NAME, answers, right, len(people), blind, ceiling, 1)


def _chance(people: Sequence[Person]) -> Fraction:
    """Find the share of the commonest diagnosis: what is right without a look at anybody."""
    return Fraction(max(Counter(each.diagnosis for each in people).values()), len(people))


def _commonest(counted: Counter[str]) -> str:
    most = max(counted.values())
    tied = sorted(name for name, count in counted.items() if count == most)
    return tied[bits.below(len(tied))]


def _grouped(people: Sequence[Person], known: Callable[[Person], Hashable]) -> dict[Hashable, list[Person]]:
    groups: dict[Hashable, list[Person]] = {}
    for each in people:
        groups.setdefault(known(each), []).append(each)
    return groups


def _checked(people: Sequence[Person]) -> Sequence[Person]:
    if not isinstance(people, Sequence) or not people or not all(isinstance(each, Person) for each in people):
        raise InvalidParameter("people", type(people).__name__, "a sequence of at least one Person")
    return people
