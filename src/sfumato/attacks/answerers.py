"""Answerers: oracles for sums of secret values over groups of people, exact, coarsened, or from a private curator.

An attack sees nothing but an answerer: it chooses groups of people and receives one number for each. A person is
identified by their row index, which stands for any identifying knowledge of an attacker.

Values may be two-dimensional. The columns are several values of the same people or, with ``towns=True``, towns with
different people each: every question is then asked of all towns at once, by GROUP BY, and a person contributes to one
of the sums only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import replacement_guarantee
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import Laplace, bits
from sfumato.plan.descriptions import count_with_noun
from sfumato.privacy import Budget, Guarantee, Neighbours, PrivacyUnit
from sfumato.privacy.numbers import (
    POSITIVE,
    Number,
    amount_from_units,
    exact,
    exact_integer,
    format_exact,
    units_rounded_down,
)
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator import Curator

Values = NDArray[np.int64]
Groups = NDArray[np.bool_]
Sums = NDArray[np.float64]

MAX_PEOPLE = 10**6
_BLOCK_SIZE = 1024


class Answerer(Protocol):
    """An oracle for the sum of the secret values in each group; NaN where it withholds the answer."""

    @property
    def kind(self) -> str:
        """Return a description of the answers."""

    @property
    def people(self) -> int:
        """Return the number of people in the table, which is public."""

    @property
    def promise(self) -> Guarantee | None:
        """Return the joint guarantee of all answers under replacement of one person's value; None if there is none."""

    def sums(self, groups: Groups) -> Sums:
        """Answer one question per row: the sum of the values of the row's members."""


class ExactAnswers:
    """The true sums."""

    kind = "exact"
    promise: Guarantee | None = None

    def __init__(self, values: Any) -> None:
        self._values = checked_values(values)

    @property
    def people(self) -> int:
        """Return the number of people."""
        return len(self._values)

    def sums(self, groups: Groups) -> Sums:
        """Return the true sum of each group."""
        return group_sums(checked_group_masks(groups, self.people), self._values)


class RoundedAnswers(ExactAnswers):
    """The true sums, rounded half up to the nearest multiple of a base."""

    def __init__(self, values: Any, base: int = 5) -> None:
        super().__init__(values)
        self.base = exact_integer(base, "base", at_least=2)
        self.kind = f"rounded to {self.base}s"

    def sums(self, groups: Groups) -> Sums:
        """Return each sum rounded to a multiple of the base."""
        return self.base * np.floor(super().sums(groups) / self.base + 0.5)


class SuppressedAnswers(ExactAnswers):
    """The true sums, with sums below a minimum withheld: small-cell suppression."""

    def __init__(self, values: Any, least: int = 5) -> None:
        super().__init__(values)
        self.least = exact_integer(least, "least", at_least=2)
        self.kind = f"below {self.least} withheld"

    def sums(self, groups: Groups) -> Sums:
        """Return the true sums, NaN where they are below the minimum."""
        answers = super().sums(groups)
        return np.where(answers < self.least, np.nan, answers)


class OverlapControlledAnswers(ExactAnswers):
    """The true sums, with query-set-overlap control: a question is withheld if its group differs too little from an
    earlier group, or from the empty group.
    """

    def __init__(self, values: Any, apart: int = 5) -> None:
        super().__init__(values)
        self.apart = exact_integer(apart, "apart", at_least=2)
        self._answered_groups: Groups = np.zeros((1, self.people), bool)
        self.kind = "near pairs withheld"

    def sums(self, groups: Groups) -> Sums:
        """Return the true sum unless an earlier group differs by fewer than ``apart`` people."""
        answers = super().sums(groups)
        for index, group in enumerate(groups):
            if (self._answered_groups ^ group).sum(axis=1).min() < self.apart:
                answers[index] = np.nan
            else:
                self._answered_groups = np.concatenate([self._answered_groups, group[None, :]])
        return answers


class NoisyAnswers:
    """Sums with the Laplace noise of a private curator, drawn without one: for very many questions.

    Each value lies in [0, most], and at most ``questions`` groups are asked. Group membership is public, so neighbours
    differ in one person's values. They change each sum by at most ``most``, so all sums of c values each together by
    Δ₁ = questions·c·most, where c is 1 for towns; Laplace noise of scale Δ₁/ε on each is ε-DP (Dwork, McSherry, Nissim
    & Smith 2006, Theorem 1). Further questions are refused.
    """

    def __init__(
        self, values: Any, epsilon: Number, questions: int, *, max_value: int = 1, towns: bool = False
    ) -> None:
        self._values = checked_values(values, max_value)
        price = exact(epsilon, "epsilon", POSITIVE)
        self._questions_left = exact_integer(questions, "questions", at_least=1)
        columns = 1 if towns else self._values[0].size
        self.noise = Laplace(self._questions_left * columns * exact_integer(max_value, "max_value", at_least=1) / price)
        self.promise: Guarantee | None = Guarantee(price)
        self.kind = f"private, ε = {format_exact(price)}"

    @property
    def people(self) -> int:
        """Return the number of people."""
        return len(self._values)

    def sums(self, groups: Groups) -> Sums:
        """Return each sum with independent noise."""
        checked = checked_group_masks(groups, self.people)
        if len(checked) > self._questions_left:
            raise InvalidParameter(
                "groups",
                ValueWords(f"a list of {len(checked)} groups"),
                f"a list of at most {count_with_noun(self._questions_left, 'group')}, because each uses up a question",
                fix="give fewer groups, or make a new answerer",
            )
        self._questions_left -= len(checked)
        true_sums = group_sums(checked, self._values).astype(np.int64)
        return np.asarray(self.noise.apply(true_sums.ravel()), np.float64).reshape(true_sums.shape)


class UncountedAnswers:
    """Sums with fresh noise each time and no accounting: each answer is ε-DP alone, and all of them together have no
    guarantee.
    """

    promise: Guarantee | None = None

    def __init__(self, values: Any, epsilon: Number) -> None:
        self._values = checked_values(values, 1)
        price = exact(epsilon, "epsilon", POSITIVE)
        self.noise = Laplace(1 / price)
        self.kind = f"ε = {format_exact(price)} each, uncounted"

    @property
    def people(self) -> int:
        """Return the number of people."""
        return len(self._values)

    def sums(self, groups: Groups) -> Sums:
        """Return each sum with independent noise, for any number of questions."""
        true_sums = group_sums(checked_group_masks(groups, self.people), self._values).astype(np.int64)
        return np.asarray(self.noise.apply(true_sums.ravel()), np.float64).reshape(true_sums.shape)


@dataclass(frozen=True)
class PrivateAnswers:
    """Answers released by a curator, each at the same price, until the budget is exhausted.

    The curator's table has a column with each person's row index and columns with their values, or a column of towns
    and one of values. A repeated question returns the stored answer at no cost, unless ``fresh`` buys a new draw. An
    attack on your own curator reads its table and spends its budget.
    """

    curator: Curator = field(repr=False)
    table: str
    person: str
    columns: tuple[str, ...]
    people: int
    epsilon_per_question: Fraction
    town: str | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "people", exact_integer(self.people, "people", at_least=1))
        object.__setattr__(
            self, "epsilon_per_question", exact(self.epsilon_per_question, "epsilon_per_question", POSITIVE)
        )
        if not isinstance(self.columns, tuple) or not self.columns or (self.town is not None and len(self.columns) > 1):
            raise InvalidParameter(
                "columns",
                self.columns,
                "a tuple of one or more column names, and of only one if town is set",
                fix='for example, write columns=("smokes",)',
            )

    @property
    def kind(self) -> str:
        """Return a description with the whole budget."""
        budget = self.curator.policy.budget
        return f"private, ε = {format_exact(budget.epsilon)}" + (
            f", δ = {float(budget.delta):.2g}" if budget.delta else ""
        )

    @property
    def promise(self) -> Guarantee | None:
        """Return the guarantee of the whole account under replacement of one person's values."""
        budget = self.curator.policy.budget
        return replacement_guarantee(Guarantee(budget.epsilon, budget.delta), budget.neighbours)

    def sums(self, groups: Groups) -> Sums:
        """Release one answer per group; the curator refuses when its budget is exhausted."""
        rows = [self._release_sums(group) for group in checked_group_masks(groups, self.people)]
        answers = np.array(rows, np.float64)
        return answers if self.town is not None or len(self.columns) > 1 else answers[:, 0]

    def sums_sql(self, group: NDArray[np.bool_]) -> str:
        """Return the SQL for the sums over one group."""
        sums = ", ".join(f"SUM({_quote_name(name)}) AS {_quote_name(name)}" for name in self.columns)
        source = f"FROM {_quote_name(self.table)} WHERE {_membership_condition(self.person, group)}"
        if self.town is None:
            return f"SELECT {sums} {source}"
        town = _quote_name(self.town)
        return f"SELECT {town}, {sums} {source} GROUP BY {town} ORDER BY {town}"

    def _release_sums(self, group: NDArray[np.bool_]) -> list[float]:
        question: Any = self.curator.sql(self.sums_sql(group))
        rows = question.release(epsilon=self.epsilon_per_question, fresh=self.fresh).rows
        return [float(row[-1]) for row in rows] if self.town is not None else [float(number) for number in rows[0]]


@contextmanager
def private_answers(
    values: Any,
    epsilon: Number,
    questions: int,
    *,
    max_value: int = 1,
    towns: bool = False,
    neighbours: Neighbours | str = Neighbours.REPLACE,
    fresh: bool = False,
) -> Iterator[PrivateAnswers]:
    """Open a real curator of these values with a temporary account whose ε pays for exactly ``questions``.

    Under replace neighbours ε bounds what is learnt about a value; under add-remove neighbours 2ε does.
    """
    secret = checked_values(values, max_value)
    rows = secret.reshape(len(secret), -1)
    people, width = rows.shape
    price, question_count = exact(epsilon, "epsilon", POSITIVE), exact_integer(questions, "questions", at_least=1)
    columns = _table_columns(rows, towns=towns)
    names = tuple(name for name in columns if name not in ("person", "town"))
    upper_bounds = {"person": max(1, people - 1), "town": max(1, width - 1)}
    declared = {name: {"type": "integer", "bounds": (0, upper_bounds.get(name, max_value))} for name in columns}
    if towns:
        declared["town"] = {"type": "integer", "values": list(range(width))}
    with temporary_curator(columns, declared, Budget(price, neighbours=neighbours)) as curator:
        town = "town" if towns else None
        yield PrivateAnswers(curator, "people", "person", names, people, even_share(price, question_count), town, fresh)


@contextmanager
def temporary_curator(columns: Mapping[str, Any], declared: Mapping[str, Any], budget: Budget) -> Iterator[Curator]:
    """Open a real curator over a table of simulated people, one row each, with a temporary account."""
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
    """Divide ε evenly over the questions, rounded down to the ledger's unit, so that the last one is paid too."""
    return amount_from_units(units_rounded_down(epsilon / questions))


def _table_columns(rows: Values, *, towns: bool) -> dict[str, Values]:
    """Return the values as table columns: a row per person, or per person and town."""
    people, width = rows.shape
    person_index = np.arange(people)
    if towns:
        return {
            "person": np.repeat(person_index, width),
            "town": np.tile(np.arange(width), people),
            "value": rows.ravel(),
        }
    names = [f"value{column}" for column in range(width)] if width > 1 else ["value"]
    return {"person": person_index, **{name: rows[:, column] for column, name in enumerate(names)}}


def invented_bits(people: int, towns: int | None = None) -> Values:
    """Draw one uniform bit per person, or per person of every town."""
    people_count = exact_integer(people, "people", at_least=1)
    if towns is None:
        return bits.random_array_below(2, people_count)
    return bits.random_array_below(2, people_count * exact_integer(towns, "towns", at_least=1)).reshape(
        people_count, towns
    )


def random_groups(questions: int, people: int) -> Groups:
    """Draw groups that include each person independently with probability ½."""
    question_count, people_count = (
        exact_integer(questions, "questions", at_least=1),
        exact_integer(people, "people", at_least=1),
    )
    random_bytes = bits.random_uint64(-(-question_count * people_count // 64)).view(np.uint8)
    return (
        np.unpackbits(random_bytes)[: question_count * people_count].reshape(question_count, people_count).astype(bool)
    )


def group_sums(groups: Groups, values: Values) -> Sums:
    """Return the true sum of every group, exact in floats below 2⁵³; by blocks, to avoid a copy of all groups."""
    numbers = values.astype(np.float64)
    blocks = [
        groups[start : start + _BLOCK_SIZE].astype(np.float64) @ numbers for start in range(0, len(groups), _BLOCK_SIZE)
    ]
    return np.concatenate(blocks)


def checked_values(values: Any, max_value: int | None = None) -> Values:
    """Validate one integer per person, or a row of them, each between 0 and ``max_value``."""
    try:
        numbers = np.asarray(values)
    except ValueError:
        numbers = np.array(None)
    if (
        numbers.dtype.kind not in "biu"
        or numbers.ndim not in (1, 2)
        or not 0 < len(numbers) <= MAX_PEOPLE
        or not numbers.size
    ):
        fix = "convert it with values.astype(int)" if numbers.dtype.kind == "f" else "for example, pass [0, 1, 1]"
        raise InvalidParameter(
            "values",
            _describe_array(numbers),
            "an array with one integer, or one row of integers, per person",
            fix=fix,
        )
    integers = numbers.astype(np.int64)
    upper_bound = 1 << 31 if max_value is None else exact_integer(max_value, "max_value", at_least=1)
    if int(integers.min()) < 0 or int(integers.max()) > upper_bound:
        raise InvalidParameter(
            "values",
            ValueWords(f"integers from {integers.min():,} to {integers.max():,}"),
            f"integers from 0 to {upper_bound:,}",
            fix="clip the values to this range",
        )
    return integers


def checked_group_masks(groups: Any, people: int) -> Groups:
    """Validate one row of booleans per question, with one boolean per person."""
    mask = np.asarray(groups)
    if mask.dtype.kind != "b" or mask.ndim != 2 or mask.shape[1] != people or not len(mask):
        raise InvalidParameter(
            "groups",
            _describe_array(mask),
            f"an array of rows of {people} booleans, True for each member of the group",
            fix=f"for example, pass np.ones((1, {people}), bool)",
        )
    return mask


def _describe_array(array: NDArray[Any]) -> ValueWords:
    return ValueWords(f"an array of {array.dtype} with the shape {array.shape}")


def _membership_condition(column: str, group: NDArray[np.bool_]) -> str:
    """Return the SQL condition for a group, by its members or the others, whichever is shorter."""
    inside, outside = np.flatnonzero(group), np.flatnonzero(~group)
    if not len(outside):
        return "TRUE"
    if not len(inside):
        return "FALSE"
    people, operator = (inside, "IN") if len(inside) <= len(outside) else (outside, "NOT IN")
    return f"{_quote_name(column)} {operator} ({', '.join(map(str, people))})"


def _quote_name(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
