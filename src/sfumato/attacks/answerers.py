"""An answerer tells sums over groups of people whose values are secret: exactly, coarsely, or as a private curator.

An attack is given an answerer and nothing else: it chooses groups of people and sees one number for each. A person is
known by their place in the table, from 0 on, which stands for whatever an attacker knows of them.

Values may be a table of two dimensions. Its columns are several values of the same people, or, with ``towns=True``,
towns of other people each: every question is then asked of all towns at once, by GROUP BY, and a person's values are in
one of the sums alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import for_replacing
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Laplace, bits
from sfumato.privacy import Budget, Guarantee, Neighbours, PrivacyUnit
from sfumato.privacy.numbers import POSITIVE, Number, allowance_units, exact, from_units, text, whole

if TYPE_CHECKING:
    from sfumato.curator import Curator

Values = NDArray[np.int64]
Groups = NDArray[np.bool_]
Sums = NDArray[np.float64]

MOST_PEOPLE = 10**6
_PART = 1024


class Answerer(Protocol):
    """An answerer tells the sum of the secret values in each group; what it withholds is not a number."""

    @property
    def kind(self) -> str:
        """Say in words what its answers are like."""

    @property
    def people(self) -> int:
        """Say how many people the table is about, which is public."""

    @property
    def promise(self) -> Guarantee | None:
        """Say what all its answers together promise when one person's value is replaced; None where they promise
        nothing.
        """

    def sums(self, groups: Groups) -> Sums:
        """Answer one question for each row: the sum of the values of the people who are in it."""


class ExactAnswers:
    """These answers are the true sums."""

    kind = "exact"
    promise: Guarantee | None = None

    def __init__(self, values: Any) -> None:
        self._values = checked_values(values)

    @property
    def people(self) -> int:
        """Say how many people there are."""
        return len(self._values)

    def sums(self, groups: Groups) -> Sums:
        """Tell the true sum of each group."""
        return totals(checked_groups(groups, self.people), self._values)


class RoundedAnswers(ExactAnswers):
    """These answers are the true sums, rounded to the nearest multiple of a base, halves up."""

    def __init__(self, values: Any, base: int = 5) -> None:
        super().__init__(values)
        self.base = whole(base, "base", at_least=2)
        self.kind = f"rounded to {self.base}s"

    def sums(self, groups: Groups) -> Sums:
        """Tell the nearest multiple of the base."""
        return self.base * np.floor(super().sums(groups) / self.base + 0.5)


class SuppressedAnswers(ExactAnswers):
    """These answers are the true sums, but those below a least one are withheld: the rule of small cells."""

    def __init__(self, values: Any, least: int = 5) -> None:
        super().__init__(values)
        self.least = whole(least, "least", at_least=2)
        self.kind = f"below {self.least} withheld"

    def sums(self, groups: Groups) -> Sums:
        """Tell the true sum where it is not small, and not a number where it is."""
        told = super().sums(groups)
        return np.where(told < self.least, np.nan, told)


class ComparedAnswers(ExactAnswers):
    """These answers are the true sums, but every question is compared with all that were answered before: one about
    nearly the same people is withheld, and so is one about nearly nobody.
    """

    def __init__(self, values: Any, apart: int = 5) -> None:
        super().__init__(values)
        self.apart = whole(apart, "apart", at_least=2)
        self._answered: Groups = np.zeros((1, self.people), bool)
        self.kind = "near pairs withheld"

    def sums(self, groups: Groups) -> Sums:
        """Tell the true sum where no answered question differs by fewer people than the rule says."""
        told = super().sums(groups)
        for place, group in enumerate(groups):
            if (self._answered ^ group).sum(axis=1).min() < self.apart:
                told[place] = np.nan
            else:
                self._answered = np.concatenate([self._answered, group[None, :]])
        return told


class NoisyAnswers:
    """These answers carry the noise that a private curator draws, without a curator: for very many questions.

    Each value lies in [0, most], and ``questions`` groups are asked for at most. Who is in which group is public, so
    neighbours differ in one person's values. They change each sum by at most ``most``, so all sums of c values each
    together by Δ₁ = questions·c·most, where c is 1 for towns; Laplace noise of scale Δ₁/ε on each is ε-DP (Dwork,
    McSherry, Nissim & Smith 2006, Theorem 1). The question after the last is refused.
    """

    def __init__(self, values: Any, epsilon: Number, questions: int, *, most: int = 1, towns: bool = False) -> None:
        self._values = checked_values(values, most)
        price = exact(epsilon, "epsilon", POSITIVE)
        self._left = whole(questions, "questions", at_least=1)
        columns = 1 if towns else self._values[0].size
        self.noise = Laplace(self._left * columns * whole(most, "most", at_least=1) / price)
        self.promise: Guarantee | None = Guarantee(price)
        self.kind = f"private, ε = {text(price)}"

    @property
    def people(self) -> int:
        """Say how many people there are."""
        return len(self._values)

    def sums(self, groups: Groups) -> Sums:
        """Tell each sum with noise of its own."""
        asked = checked_groups(groups, self.people)
        if len(asked) > self._left:
            raise InvalidParameter("groups", len(asked), f"no more than the {self._left} questions that are left")
        self._left -= len(asked)
        true = totals(asked, self._values).astype(np.int64)
        return np.asarray(self.noise.apply(true.ravel()), np.float64).reshape(true.shape)


class UncountedAnswers:
    """These answers carry fresh noise each time, and nobody adds up what was told: each promises ε by itself, and all
    of them together promise nothing.
    """

    promise: Guarantee | None = None

    def __init__(self, values: Any, epsilon: Number) -> None:
        self._values = checked_values(values, 1)
        price = exact(epsilon, "epsilon", POSITIVE)
        self.noise = Laplace(1 / price)
        self.kind = f"ε = {text(price)} each, uncounted"

    @property
    def people(self) -> int:
        """Say how many people there are."""
        return len(self._values)

    def sums(self, groups: Groups) -> Sums:
        """Tell each sum with noise of its own, as often as anybody asks."""
        true = totals(checked_groups(groups, self.people), self._values).astype(np.int64)
        return np.asarray(self.noise.apply(true.ravel()), np.float64).reshape(true.shape)


@dataclass(frozen=True)
class PrivateAnswers:
    """These answers are bought from a curator, each for the same price, until the budget is gone.

    The curator's table has a column with each person's place and columns with their values, or a column of towns and
    one of values. A question that was asked before is answered as before and costs nothing, unless ``fresh`` buys it
    again. Whoever gives a curator of their own lets the attack read its table and spend its budget.
    """

    curator: Curator = field(repr=False)
    table: str
    person: str
    columns: tuple[str, ...]
    people: int
    each: Fraction
    town: str | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "people", whole(self.people, "people", at_least=1))
        object.__setattr__(self, "each", exact(self.each, "each", POSITIVE))
        if not isinstance(self.columns, tuple) or not self.columns or (self.town is not None and len(self.columns) > 1):
            raise InvalidParameter("columns", self.columns, "a tuple of columns with values; one where there are towns")

    @property
    def kind(self) -> str:
        """Say what the whole budget is."""
        budget = self.curator.policy.budget
        return f"private, ε = {text(budget.epsilon)}" + (f", δ = {float(budget.delta):.2g}" if budget.delta else "")

    @property
    def promise(self) -> Guarantee | None:
        """Give the guarantee of the whole account, for one person's values replaced."""
        budget = self.curator.policy.budget
        return for_replacing(Guarantee(budget.epsilon, budget.delta), budget.neighbours)

    def sums(self, groups: Groups) -> Sums:
        """Buy one answer for each group; the curator refuses when its budget is gone."""
        found = [self._ask(group) for group in checked_groups(groups, self.people)]
        told = np.array(found, np.float64)
        return told if self.town is not None or len(self.columns) > 1 else told[:, 0]

    def question(self, group: NDArray[np.bool_]) -> str:
        """Write the SQL by which the sums over one group are asked for."""
        listed = ", ".join(f"SUM({_quoted(name)}) AS {_quoted(name)}" for name in self.columns)
        rows = f"FROM {_quoted(self.table)} WHERE {_members(self.person, group)}"
        if self.town is None:
            return f"SELECT {listed} {rows}"
        town = _quoted(self.town)
        return f"SELECT {town}, {listed} {rows} GROUP BY {town} ORDER BY {town}"

    def _ask(self, group: NDArray[np.bool_]) -> list[float]:
        asked: Any = self.curator.sql(self.question(group))
        rows = asked.release(epsilon=self.each, fresh=self.fresh).rows
        return [float(row[-1]) for row in rows] if self.town is not None else [float(number) for number in rows[0]]


@contextmanager
def private_answers(
    values: Any,
    epsilon: Number,
    questions: int,
    *,
    most: int = 1,
    towns: bool = False,
    neighbours: Neighbours | str = Neighbours.REPLACE,
    fresh: bool = False,
) -> Iterator[PrivateAnswers]:
    """Open a real curator of these values, with an account that is thrown away: ``questions`` cost its whole ε.

    Under replace neighbours ε bounds what is learnt of a value; under add-remove neighbours 2ε does.
    """
    secret = checked_values(values, most)
    rows = secret.reshape(len(secret), -1)
    people, wide = rows.shape
    price, many = exact(epsilon, "epsilon", POSITIVE), whole(questions, "questions", at_least=1)
    columns = _columns(rows, towns=towns)
    names = tuple(name for name in columns if name not in ("person", "town"))
    ends = {"person": max(1, people - 1), "town": max(1, wide - 1)}
    declared = {name: {"type": "integer", "bounds": (0, ends.get(name, most))} for name in columns}
    if towns:
        declared["town"] = {"type": "integer", "values": list(range(wide))}
    with thrown_away(columns, declared, Budget(price, neighbours=neighbours)) as curator:
        town = "town" if towns else None
        yield PrivateAnswers(curator, "people", "person", names, people, even_share(price, many), town, fresh)


@contextmanager
def thrown_away(columns: Mapping[str, Any], declared: Mapping[str, Any], budget: Budget) -> Iterator[Curator]:
    """Open a real curator of a table of invented people, one row each, with an account that ends with it."""
    from pyarrow import table as arrow_table

    from sfumato.curator import Curator
    from sfumato.policy import Policy, Table

    rows = arrow_table(dict(columns))
    people = Table("people", rows, dict(declared), id="row")
    unit = PrivacyUnit("person", every_row=True)
    policy = Policy(unit, budget, {"people": people}, size=rows.num_rows, account="invented people")
    with (
        tempfile.TemporaryDirectory(prefix="sfumato-attack-") as folder,
        Curator(policy, Path(folder) / "thrown-away.ledger") as curator,
    ):
        yield curator


def even_share(epsilon: Fraction, questions: int) -> Fraction:
    """Divide ε evenly over so many questions: rounded down to what is charged in, so that the last one is paid too."""
    return from_units(allowance_units(epsilon / questions))


def _columns(rows: Values, *, towns: bool) -> dict[str, Values]:
    """Write the values as a table: a row for each person, whose town is a column where there are towns."""
    people, wide = rows.shape
    place = np.arange(people)
    if towns:
        return {"person": np.repeat(place, wide), "town": np.tile(np.arange(wide), people), "value": rows.ravel()}
    names = [f"value{column}" for column in range(wide)] if wide > 1 else ["value"]
    return {"person": place, **{name: rows[:, column] for column, name in enumerate(names)}}


def invented_bits(people: int, towns: int | None = None) -> Values:
    """Draw one uniform bit for each person, or for each person of every town."""
    many = whole(people, "people", at_least=1)
    if towns is None:
        return bits.all_below(2, many)
    return bits.all_below(2, many * whole(towns, "towns", at_least=1)).reshape(many, towns)


def random_groups(questions: int, people: int) -> Groups:
    """Draw groups of which each person is a member with probability ½, independently."""
    many, wide = whole(questions, "questions", at_least=1), whole(people, "people", at_least=1)
    packed = bits.words(-(-many * wide // 64)).view(np.uint8)
    return np.unpackbits(packed)[: many * wide].reshape(many, wide).astype(bool)


def totals(groups: Groups, values: Values) -> Sums:
    """Compute the true sum of every group; floats hold them exactly below 2⁵³. A part of the groups is added up at a
    time, so that no copy of all of them is made.
    """
    numbers = values.astype(np.float64)
    parts = [groups[start : start + _PART].astype(np.float64) @ numbers for start in range(0, len(groups), _PART)]
    return np.concatenate(parts)


def checked_values(values: Any, most: int | None = None) -> Values:
    """Take one whole number of each person, or a row of them; nothing below 0, nor above ``most``."""
    try:
        found = np.asarray(values)
    except ValueError:
        found = np.array(None)
    if found.dtype.kind not in "biu" or found.ndim not in (1, 2) or not 0 < len(found) <= MOST_PEOPLE or not found.size:
        fix = "convert them, such as values.astype(int)" if found.dtype.kind == "f" else ""
        raise InvalidParameter("values", _shape(found), "one whole number for each person, or a row of them", fix=fix)
    whole_numbers = found.astype(np.int64)
    top = 1 << 31 if most is None else whole(most, "most", at_least=1)
    if int(whole_numbers.min()) < 0 or int(whole_numbers.max()) > top:
        raise InvalidParameter("values", f"{whole_numbers.min()} to {whole_numbers.max()}", f"between 0 and {top}")
    return whole_numbers


def checked_groups(groups: Any, people: int) -> Groups:
    """Take one row of truths for each question, with one truth for each person."""
    found = np.asarray(groups)
    if found.dtype.kind != "b" or found.ndim != 2 or found.shape[1] != people or not len(found):
        raise InvalidParameter("groups", _shape(found), f"rows of {people} truths: who is asked about")
    return found


def _shape(found: NDArray[Any]) -> str:
    return f"an array of {found.dtype} and shape {found.shape}"


def _members(column: str, group: NDArray[np.bool_]) -> str:
    """Write who is in a group as the shorter of its members and the others."""
    inside, outside = np.flatnonzero(group), np.flatnonzero(~group)
    if not len(outside):
        return "TRUE"
    if not len(inside):
        return "FALSE"
    listed, how = (inside, "IN") if len(inside) <= len(outside) else (outside, "NOT IN")
    return f"{_quoted(column)} {how} ({', '.join(map(str, listed))})"


def _quoted(name: str) -> str:
    """Write a name so that SQL reads it as one, whatever stands in it."""
    return '"' + name.replace('"', '""') + '"'
