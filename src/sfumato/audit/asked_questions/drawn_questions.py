"""Questions are drawn from the grammar of what can be asked of one policy, beside the templates of every kind.

A drawn question is about one private table, or a join, or what is found of each unit's rows. It has one to three
aggregates of columns or expressions, some of them of some rows only, and may have conditions, keys, what is shown of
the groups, tighter limits for a unit, another way of keeping to them, and Gaussian noise. Some of them are refused:
then the refusal is compared. A seed decides what is drawn, so whoever was told it can ask the same again; it decides
nothing else, and no noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from sfumato.audit.asked_questions.question_templates import groups_by, literal
from sfumato.curator import Curator
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.limits import Strategy
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type

T = TypeVar("T")
_FEW = 50
"""Groups that a drawn key may have."""
_KINDS: Mapping[str, Callable[[Domain], bool]] = {
    "numbers": lambda each: each.type.numeric and each.range is not None,
    "keys": lambda each: 1 < groups_by(each) <= _FEW,
    "dates": lambda each: each.type.temporal and each.bounds is not None,
}
"""What kind of column each is good for."""


@dataclass(frozen=True)
class DrawnQuestion:
    """This asks what was drawn at any curator."""

    text: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    """What of one unit counts, and how that is kept to, where it is not as the policy says."""
    gaussian: bool = False
    """Whether it is asked with Gaussian noise, too."""

    def __call__(self, curator: Curator) -> Any:
        asked: Any = curator.sql(self.text)
        return asked.limit(**self.limits) if self.limits else asked

    def __str__(self) -> str:
        listed = ", ".join(f"{name}={each!r}" for name, each in self.limits.items())
        return f"{self.text} .limit({listed})" if listed else self.text


def drawn_questions(catalog: Catalog, seed: int) -> Iterator[DrawnQuestion]:
    """Draw questions without end, each another; a policy about which little can be asked may run out of them."""
    dice, known, again = _Dice(seed), set[str](), 0
    private = [each for each in catalog.tables.values() if not each.public]
    while private and again < 1000:
        drawn = _Grammar(dice, dice.one(private), catalog.tables).question()
        again = again + 1 if str(drawn) in known else 0
        if not again:
            known.add(str(drawn))
            yield drawn


class _Dice:
    """Choices are made by hashes of a seed and a count, alike on every machine; nothing secret depends on them."""

    def __init__(self, seed: int) -> None:
        self._seed, self._thrown = seed, count()

    def below(self, end: int) -> int:
        thrown = hashlib.blake2b(f"{self._seed} {next(self._thrown)}".encode(), digest_size=8).digest()
        return int.from_bytes(thrown, "big") % end

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def happens(self, often: int) -> bool:
        """Tell whether something happens that happens once in so many times."""
        return self.below(often) == 0


@dataclass(frozen=True)
class _Grammar:
    """This writes questions about one table."""

    dice: _Dice
    table: Described
    tables: Mapping[str, Described]

    def question(self) -> DrawnQuestion:
        text = self._of_units() if self._owned and self.dice.happens(6) else self._of_rows()
        return DrawnQuestion(text, self._limits(), self.dice.happens(4))

    @property
    def _owned(self) -> bool:
        return self.table.id is not None and self.table.period is None

    def _columns(self, kind: str) -> list[str]:
        """List the columns that are numbers, or have few values, or are dates."""
        return [name for name, each in self.table.columns.items() if _KINDS[kind](each)]

    def _of_rows(self) -> str:
        keys = [self._key()] if self._columns("keys") and self.dice.happens(2) else []
        keys += [self._key()] if keys and self.dice.happens(4) else []
        keys = list(dict.fromkeys(keys))
        shown = [f"{each} AS k{place}" for place, each in enumerate(keys)]
        shown += [f"{self._aggregate()} AS a{place}" for place in range(1 + self.dice.below(3))]
        where = f" WHERE {self._condition(2)}" if self.dice.happens(2) else ""
        return f"SELECT {', '.join(shown)} FROM {self._source()}{where}{self._grouped(keys)}"

    def _of_units(self) -> str:
        """Ask about what is found of each unit's rows."""
        of, unit = quoted(self.table.name), quoted(str(self.table.id))
        numbers = self._columns("numbers")
        inner = f"{self.dice.one(('SUM', 'MAX', 'MIN'))}({quoted(self.dice.one(numbers))})" if numbers else "COUNT(*)"
        inner = "COUNT(*)" if self.dice.happens(2) else inner
        rows = f" WHERE {self._condition(1)}" if self.dice.happens(3) else ""
        where = f" WHERE m > {self.dice.below(3)}" if self.dice.happens(2) else ""
        outer = self.dice.one(("COUNT(*)", "SUM(m)", "AVG(m)"))
        return f"SELECT {outer} AS a0 FROM (SELECT {unit}, {inner} AS m FROM {of}{rows} GROUP BY {unit}) AS t{where}"

    def _source(self) -> str:
        of = quoted(self.table.name)
        joined = [self._joined(each) for each in self.tables.values()] if self.dice.happens(4) else []
        found = [each for each in joined if each]
        return f"{of} {self.dice.one(found)}" if found else of

    def _joined(self, other: Described) -> str:
        """Join a public table by a column of the same name, or a private one by the unit; nothing where neither is."""
        shared = [each for each in self.table.columns if each in other.columns]
        if other.public and shared:
            return f"JOIN {quoted(other.name)} USING ({quoted(self.dice.one(shared))})"
        plain = self.table.via is None and other.via is None and self._owned and other.id == self.table.id
        if plain and other.name != self.table.name:
            return f"JOIN {quoted(other.name)} USING ({quoted(str(self.table.id))})"
        return ""

    def _grouped(self, keys: list[str]) -> str:
        if not keys:
            return ""
        places = ", ".join(f"k{place}" for place in range(len(keys)))
        grouped = f" GROUP BY ROLLUP ({places})" if self.dice.happens(8) else f" GROUP BY {places}"
        having = f" HAVING COUNT(*) > {self.dice.below(3)}" if self.dice.happens(6) else ""
        return f"{grouped}{having}{' ORDER BY a0 DESC LIMIT 2' if self.dice.happens(6) else ''}"

    def _key(self) -> str:
        """Write a key: a column of few values, a condition, or the month of a date."""
        dates = self._columns("dates")
        if dates and self.dice.happens(5):
            return f"DATE_TRUNC('month', {quoted(self.dice.one(dates))})"
        if self.dice.happens(5):
            return f"CASE WHEN {self._condition(1)} THEN 'yes' ELSE 'no' END"
        return quoted(self.dice.one(self._columns("keys")))

    def _aggregate(self) -> str:
        some = f" FILTER (WHERE {self._condition(1)})" if self.dice.happens(5) else ""
        choices = ["COUNT(*)"]
        if self._owned:
            choices.append(f"COUNT(DISTINCT {quoted(str(self.table.id))})")
        if self._columns("keys"):
            key = quoted(self.dice.one(self._columns("keys")))
            choices += [f"COUNT(DISTINCT {key})", f"MODE({key})"]
        if numbers := self._columns("numbers"):
            value, plain = self._number(2), quoted(self.dice.one(numbers))
            choices += [f"{each}({value})" for each in ("SUM", "SUM", "AVG", "AVG", "COUNT", "STDDEV", "MAX")]
            choices += [f"MEDIAN({plain})", f"QUANTILE_CONT({plain}, 0.9)"]
        return f"{self.dice.one(choices)}{some}"

    def _number(self, depth: int) -> str:
        """Write an expression of bounded columns: its range follows from theirs."""
        column = quoted(self.dice.one(self._columns("numbers")))
        if not depth or self.dice.happens(2):
            return column
        inner, places = self._number(depth - 1), (0, 1, 2, 10)
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"({inner} + {self._number(depth - 1)})",
            lambda: f"({inner} - {self.dice.one(places)})",
            lambda: f"({inner} * {self.dice.one((2, 3))})",
            lambda: f"ABS({inner})",
            lambda: f"COALESCE({inner}, {self.dice.one(places)})",
            lambda: f"LEAST(GREATEST({inner}, {self.dice.one(places)}), 10)",
            lambda: f"CASE WHEN {self._condition(0)} THEN {inner} ELSE {self.dice.one(places)} END",
            lambda: f"LEAST(GREATEST(1 / NULLIF({inner}, 0), -9), 9)",
        )
        return self.dice.one(forms)()

    def _condition(self, depth: int) -> str:
        if depth and self.dice.happens(3):
            first, second = self._condition(depth - 1), self._condition(depth - 1)
            return self.dice.one((f"({first} AND {second})", f"({first} OR {second})", f"NOT ({first})"))
        tests = [self._test(name, each) for name, each in self.table.columns.items()]
        return self.dice.one(tests) if tests else "1 = 1"

    def _test(self, name: str, domain: Domain) -> str:
        """Write a test of one column."""
        column = quoted(name)
        if self.dice.happens(4):
            return f"{column} IS {self.dice.one(('NULL', 'NOT NULL'))}"
        if domain.values is not None:
            return f"{column} {self.dice.one(('=', '<>'))} {literal(self.dice.one(domain.values), domain.type)}"
        if domain.bounds is not None:
            end = literal(self.dice.one(domain.bounds), domain.type)
            return f"{column} {self.dice.one(('<', '<=', '=', '>=', '>'))} {end}"
        return f"{column} = 'a'" if domain.type is Type.TEXT else f"{column} IS NOT NULL"

    def _limits(self) -> dict[str, Any]:
        """Draw how much of a unit counts, and how that is kept to: mostly as the policy says."""
        if self.table.every_row or not self.dice.happens(3):
            return {}
        found: dict[str, Any] = {"rows": 1 + self.dice.below(self.table.limits.rows)}
        if self.dice.happens(2):
            found["strategy"] = self.dice.one([each.value for each in Strategy if each is not Strategy.WHOLE])
        return found
