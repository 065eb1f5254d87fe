"""Questions are drawn from the grammar of what can be asked of one policy, beside the templates of every kind.

A drawn question is about one private table, or a join, or what is found of each unit's rows. It has one to three
aggregates of columns or expressions, some of them of some rows only, and may have conditions, keys, what is shown of
the groups, tighter limits for a unit, another way of keeping to them, and Gaussian noise. Some of them are refused:
then the refusal is compared. A seed decides what is drawn, so whoever was told it can ask the same again; it decides
nothing else, and no noise.

Templates are questions that can be put to one policy: a grammar of what can be asked, filled in with its columns.

Every kind of aggregate, key, condition and join that the policy's columns allow occurs at least once, and so do
expressions that fail for some values, such as a division by what may be zero: whether they fail depends on nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from sfumato.curator import Curator
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.limits import Strategy
from sfumato.plan.words import literal_words
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type

_MOST_GROUPS = 400
"""Groups that a template may have."""


def templates(catalog: Catalog) -> tuple[str, ...]:
    """Write questions about every private table, plain ones of each kind first."""
    private = [each for each in catalog.tables.values() if not each.public]
    found = [text for table in private for text in _of_table(table)]
    found += [text for table in private for text in _joins(table, catalog.tables)]
    found += [text for table in private for text in _failing(table)]
    return tuple(dict.fromkeys(found))


def _of_table(table: Described) -> Iterator[str]:
    of, columns = quoted(table.name), table.columns
    numbers = [quoted(name) for name, each in columns.items() if each.type.numeric and each.range is not None]
    few = sorted(
        (name for name, each in columns.items() if 1 < groups_by(each) <= _MOST_GROUPS),
        key=lambda n: groups_by(columns[n]),
    )
    keys = [quoted(name) for name in few]
    dates = [quoted(name) for name, each in columns.items() if each.type.temporal and each.bounds is not None]
    yield f"SELECT COUNT(*) AS n FROM {of}"
    if table.id is not None and table.period is None:
        yield f"SELECT COUNT(DISTINCT {quoted(table.id)}) AS units FROM {of}"
    for key in keys[:3]:
        yield f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY {key}"
    for number in numbers[:3]:
        yield f"SELECT SUM({number}) AS total FROM {of}"
    for number in numbers[:2]:
        yield f"SELECT AVG({number}) AS average, COUNT({number}) AS known FROM {of}"
        yield f"SELECT MEDIAN({number}) AS middle FROM {of}"
        yield f"SELECT STDDEV({number}) AS spread FROM {of}"
    yield from _grouped(of, keys, numbers, dates)
    yield from _conditions(of, columns, keys, numbers)
    for name, each in columns.items():
        if each.type is Type.TEXT and each.values is None:
            yield f"SELECT {quoted(name)}, COUNT(*) AS n FROM {of} GROUP BY {quoted(name)}"
    for name in table.lists:
        yield f"SELECT item, COUNT(*) AS n FROM {of}, UNNEST({quoted(name)}) AS t(item) GROUP BY item"


def literal(value: Any, kind: Type) -> str:
    """Write a value as SQL does, with its type where that is a date or a time."""
    words = literal_words(value, kind)
    return f"{kind.value.upper()} {words}" if kind.temporal else words


def groups_by(domain: Domain) -> int:
    """Count the groups by a column; 0 where its values are not known."""
    if domain.values is not None:
        return len(domain.values)
    if domain.type is Type.BOOLEAN:
        return 2
    if domain.bounds is None or domain.type in (Type.REAL, Type.TIMESTAMP):
        return 0
    bounds: tuple[Any, Any] = domain.bounds
    length = bounds[1] - bounds[0]
    return int(length.days if domain.type is Type.DATE else length) + 1


def _grouped(of: str, keys: list[str], numbers: list[str], dates: list[str]) -> Iterator[str]:
    """Write questions with one key and a number, with two keys, by months, with subtotals, and shown in part."""
    for key in keys[:1]:
        yield f"SELECT {key}, COUNT(DISTINCT {keys[-1]}) AS different FROM {of} GROUP BY {key}"
        yield f"SELECT MODE({key}) AS usual FROM {of}"
        yield f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY {key} HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 2"
        yield f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY ROLLUP ({key})"
        for number in numbers[:1]:
            yield f"SELECT {key}, SUM({number}) AS total, COUNT(*) AS n FROM {of} GROUP BY {key}"
            yield f"SELECT {key}, AVG({number}) AS average FROM {of} GROUP BY {key}"
    if len(keys) > 1:
        yield f"SELECT {keys[0]}, {keys[1]}, COUNT(*) AS n FROM {of} GROUP BY {keys[0]}, {keys[1]}"
    for date in dates[:1]:
        yield f"SELECT DATE_TRUNC('month', {date}) AS month, COUNT(*) AS n FROM {of} GROUP BY 1"


def _conditions(of: str, columns: Mapping[str, Domain], keys: list[str], numbers: list[str]) -> Iterator[str]:
    """Write questions about some of the rows, and about what is missing."""
    for name, each in columns.items():
        if each.values is not None:
            written = literal(each.values[0], each.type)
            yield f"SELECT COUNT(*) AS n FROM {of} WHERE {quoted(name)} = {written}"
            yield f"SELECT COUNT(*) FILTER (WHERE {quoted(name)} = {written}) AS some, COUNT(*) AS n FROM {of}"
            break
    for number in numbers[:1]:
        yield f"SELECT COUNT(*) AS n FROM {of} WHERE {number} IS NULL"
        yield f"SELECT SUM(CASE WHEN {number} > 0 THEN {number} END) AS total FROM {of} WHERE {number} <> 1"
    if len(numbers) > 1:
        yield f"SELECT CORR({numbers[0]}, {numbers[1]}) AS together FROM {of}"
    for key in keys[:1]:
        yield f"SELECT COUNT(*) AS n FROM (SELECT {key} AS k FROM {of}) AS t WHERE k IS NOT NULL"


def _joins(table: Described, tables: Mapping[str, Described]) -> Iterator[str]:
    """Join public tables by a column of the same name, and private ones by the unit."""
    of = quoted(table.name)
    for name, other in tables.items():
        shared = [each for each in table.columns if each in other.columns]
        if other.public and shared:
            yield f"SELECT COUNT(*) AS n FROM {of} JOIN {quoted(name)} USING ({quoted(shared[0])})"
        if not other.public and name != table.name and table.id == other.id and table.via is None and other.via is None:
            yield f"SELECT COUNT(*) AS n FROM {of} JOIN {quoted(name)} USING ({quoted(str(table.id))})"


def _failing(table: Described) -> Iterator[str]:
    """Write questions whose parts have no value for some rows, or that cannot be read at all."""
    of = quoted(table.name)
    for name, each in table.columns.items():
        if each.type.numeric and each.range is not None:
            number, (low, _) = quoted(name), each.range
            zero = literal_words(low, each.type)
            for value in (f"1 / ({number} - {zero})", f"SQRT({zero} - {number})", f"LN({number} - {zero})"):
                yield f"SELECT SUM(LEAST(GREATEST({value}, -9), 9)) AS total FROM {of}"
            break
    for name, each in table.columns.items():
        if each.type is Type.TEXT:
            yield f"SELECT COUNT(*) AS n FROM {of} WHERE CAST({quoted(name)} AS INTEGER) = 1"
            break
    yield f"SELECT * FROM {of}"
    yield f"SELECT COUNT(*) AS n FROM {of} WHERE nobody_declared_this = 1"
    yield f"SELECT MAX(*) FROM {of}"


def questions_of(source: Any) -> tuple[str, ...]:
    """Read the owner's own questions: a .sql file, or texts."""
    from pathlib import Path

    from sfumato.errors import SfumatoError
    from sfumato.plan.sql.question_files import questions

    if source is None:
        return ()
    if isinstance(source, (str, Path)):
        try:
            written = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise SfumatoError(
                "questions are read from a file of SQL", place=str(source), fix="name a file that is there"
            ) from None
        return tuple(each.text for each in questions(written))
    return tuple(str(each) for each in source)


T = TypeVar("T")
_MOST_KEYS = 50
"""Groups that a drawn key may have."""
_KINDS: Mapping[str, Callable[[Domain], bool]] = {
    "numbers": lambda each: each.type.numeric and each.range is not None,
    "keys": lambda each: 1 < groups_by(each) <= _MOST_KEYS,
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
