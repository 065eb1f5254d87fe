"""Random populations with hostile cells, their neighbours, and random questions about them.

A world is one policy and one table of people; a neighbour of it is the same policy over a table in which one unit was
added or exchanged. Everything is drawn from a seed, so that a failure can be looked at again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from sfumato.curator.context import Context
from sfumato.curator.proposals.questions import Question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.release.running_work import ignore_progress

Row = dict[str, Any]
FIRST = dt.date(2024, 1, 1)
REGIONS = ("north", "south", "it's", "")
HOSTILE_NUMBERS = (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 2.5, 2**53 + 2.0, None)
HOSTILE_TEXTS = ("", "it's", "NaN", "inf", "-1e999", "1e5", "0x10", " 7 ", "''; DROP TABLE people; --", "\u2019", None)
HOSTILE_DAYS = (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), None)


@dataclass(frozen=True)
class World:
    """A population: what is declared, how its cells are stored, and its rows."""

    units: bool
    """Whether rows belong to ids; else every row is a unit."""
    limits: tuple[int, int | None, int | None]
    columns: dict[str, dict[str, Any]]
    stored: dict[str, pa.DataType]
    public: dict[str, pa.Table]
    rows: tuple[Row, ...]

    def policy(self, rows: Sequence[Row], relation: str = "add-remove") -> Policy:
        table = {name: pa.array([_stored(row[name], kind) for row in rows], kind) for name, kind in self.stored.items()}
        most, groups, per_group = self.limits if self.units else (None, None, None)
        unit = PrivacyUnit("person", every_row=not self.units)
        people = Table(
            "people",
            pa.table(table),
            self.columns,
            id="who" if self.units else "row",
            max_rows=most,
            max_groups=groups,
            max_rows_per_group=per_group,
        )
        public = {name: Table(name, source, public=True) for name, source in self.public.items()}
        budget = Budget(1000, "1e-6", neighbours=relation)
        return Policy(unit, budget, {"people": people, **public}, size=100)

    def engine(self, rows: Sequence[Row]) -> DuckDB:
        """An engine with one thread: the tables are tiny, and many are open at once."""
        return DuckDB(self.policy(rows), threads=1)

    def tables(self, random: Random, many: int) -> dict[str, tuple[Row, ...]]:
        """The rows as they are, under "", and with one unit more, by its name.

        The first and any other are neighbours when a unit is added or removed; any two others when one is replaced.
        """
        found = {name: _shuffled(random, (*self.rows, *added)) for name, added in adversaries(random, self, 1000, many)}
        return {"": self.rows, **found}


def telling(tables: dict[str, tuple[Row, ...]]) -> dict[str, tuple[Row, ...]]:
    """Return the tables that break most that can break, of those with one unit more: at both ends and beyond the
    bounds, in every group, with both signs, and with more rows in more groups than count.
    """
    edges = [name for name in tables if name.endswith(" groups")]
    ends = ("", "all in one group", "low end", "out of bounds", "every group", "mixed signs")
    return {name: rows for name, rows in tables.items() if name in (*ends, *edges[-1:])}


def _stored(cell: Any, kind: pa.DataType) -> Any:
    if cell is None:
        return None
    if pa.types.is_string(kind):
        return str(cell)
    if pa.types.is_integer(kind):
        return int(max(-(2**62), min(2**62, cell))) if cell == cell else None
    return float(cell) if pa.types.is_floating(kind) else cell


def question(engine: DuckDB, policy: Policy, text: str) -> Question:
    """A question whose free parts can be asked: it has no account, so nothing can be released."""
    query = parse(text, engine.catalog())
    context = Context(policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
    return Question(context, text, query, query.plan.limits)


def world(random: Random) -> World:
    """A random population of up to a dozen units."""
    units = random.random() < 0.75
    rows_limit = random.choice((1, 2, 3, 5, 10))
    low, high = random.choice(((0, 110), (-5, 5), (-100, -1), (3, 3), (0, 2**40), (-(2**62), 2**62)))
    cost = random.choice(
        (
            {"bounds": ["0", "5000"], "grid": "0.01"},
            {"bounds": ["-1.5", "2.25"]},
            {"bounds": ["0.1", "0.3"]},
            {"bounds": ["-1e12", "1e12"]},
            {"bounds": ["-7", "-7"]},
        )
    )
    nullable = random.random() < 0.5
    columns: dict[str, dict[str, Any]] = {
        "region": {"values": list(REGIONS[: random.randint(1, 4)]), "nullable": nullable},
        "age": {"type": "integer", "bounds": [low, high]},
        "cost": {"type": "real", **cost},
        "flag": {"type": "boolean", "nullable": nullable},
        "code": {"type": "integer", "values": [1, 2, 3]},
        "day": {"type": "date", "bounds": [FIRST, FIRST + dt.timedelta(random.choice((0, 6, 40)))]},
        "note": {"type": "text"},
    }
    stored = {
        "who": random.choice((pa.int64(), pa.string(), pa.float64())),
        "region": pa.string(),
        "age": random.choice((pa.int64(), pa.float64(), pa.string())),
        "cost": random.choice((pa.float64(), pa.float64(), pa.string())),
        "flag": pa.bool_(),
        "code": random.choice((pa.int64(), pa.float64(), pa.string())),
        "day": pa.date32(),
        "note": pa.string(),
    }
    limits = (
        rows_limit,
        random.choice((None, random.randint(1, rows_limit))),
        random.choice((None, random.randint(1, rows_limit))),
    )
    made = World(units, limits, columns, stored, _public(random), ())
    people = [row for who in range(random.randint(0, 8)) for row in unit(random, made, who, random.randint(1, 6))]
    return replace(made, rows=tuple(people))


def _public(random: Random) -> dict[str, pa.Table]:
    """Public tables of which one private row may meet several rows."""
    places = [(region, kind) for region in (*REGIONS, None) for kind in range(random.randint(0, 3))]
    labels = [(code, f"label {code}", weight) for code in (1, 2, 3) for weight in range(random.choice((1, 1, 2)))]
    return {
        "places": pa.table(
            {
                "region": pa.array([region for region, _ in places], pa.string()),
                "kind": pa.array([("big", "small", "other")[kind] for _, kind in places], pa.string()),
                "weight": pa.array([kind * 10 - 5 for _, kind in places], pa.int64()),
            }
        ),
        "labels": pa.table(
            {
                "code": pa.array([code for code, _, _ in labels], pa.int64()),
                "label": pa.array([label for _, label, _ in labels], pa.string()),
                "points": pa.array([weight / 4 for _, _, weight in labels], pa.float64()),
            }
        ),
    }


def cells(random: Random, made: World, hostile: float) -> Row:
    """One row without its owner; a share of its cells is hostile."""

    def drawn(column: str, plain: Any, strange: Sequence[Any]) -> Any:
        if random.random() >= hostile:
            return plain
        return random.choice(HOSTILE_TEXTS if pa.types.is_string(made.stored[column]) else strange)

    low, high = (int(each) for each in made.columns["age"]["bounds"])
    least, most = (float(each) for each in made.columns["cost"]["bounds"])
    return {
        "region": drawn("region", random.choice(REGIONS), HOSTILE_TEXTS),
        "age": drawn("age", random.randint(low, high), HOSTILE_NUMBERS),
        "cost": drawn("cost", random.choice((least, most, random.uniform(least, most))), HOSTILE_NUMBERS),
        "flag": drawn("flag", random.random() < 0.5, (None,)),
        "code": drawn("code", random.randint(1, 3), HOSTILE_NUMBERS),
        "day": drawn("day", FIRST + dt.timedelta(random.randint(-2, 45)), HOSTILE_DAYS),
        "note": drawn("note", str(random.randint(0, 12)), HOSTILE_TEXTS),
    }


def unit(random: Random, made: World, who: int, count: int, hostile: float = 0.25) -> list[Row]:
    return [{"who": who, **cells(random, made, hostile)} for _ in range(count)]


def adversaries(random: Random, made: World, who: int, many: int) -> Iterator[tuple[str, list[Row]]]:
    """Units made to break limits, each with its name: many rows, extreme cells, one group, every group, nothing."""
    low, high = (int(each) for each in made.columns["age"]["bounds"])
    least, most = (float(each) for each in made.columns["cost"]["bounds"])
    plain = {"flag": True, "code": 1, "day": FIRST, "note": "7", "region": REGIONS[0]}
    high_end, low_end = {"age": high, "cost": most}, {"age": low, "cost": least}
    wild = {"age": 2.0**61, "cost": float("inf")}
    count = many if made.units else 1
    yield "all in one group", [{"who": who, **plain, **high_end}] * count
    yield "low end", [{"who": who, **plain, **low_end}] * (7 if made.units else 1)
    yield "out of bounds", [{"who": who, **plain, **wild}] * (13 if made.units else 1)
    yield "nothing", [{"who": who, **dict.fromkeys(plain), "age": None, "cost": None}] * (3 if made.units else 1)
    yield "random", unit(random, made, who, random.randint(1, 20) if made.units else 1, 0.3)
    if made.units:
        for rows, groups in _edges(made):
            yield (
                f"{rows} rows in {groups} groups",
                [{"who": who, **plain, **high_end, **GROUPS[index % groups]} for index in range(rows)],
            )
        spread = [
            {
                "who": who,
                **plain,
                **ends,
                "region": region,
                "flag": flag,
                "code": code,
                "day": day,
            }
            for region in (*REGIONS, None)
            for flag in (True, False)
            for code in (1, 2, 3)
            for day, ends in ((FIRST, high_end), (FIRST + dt.timedelta(3), low_end))
        ]
        yield "every group", spread
        yield "mixed signs", [{"who": who, **plain, **random.choice((high_end, low_end))} for _ in range(9)]


GROUPS = tuple({"region": region, "code": code} for code in (1, 2, 3) for region in REGIONS)
"""Cells that fall in groups of their own, whether regions or codes or both are the keys."""


def _edges(made: World) -> list[tuple[int, int]]:
    """How many rows in how many groups: exactly what the limits allow, and one more."""
    most, groups, per_group = made.limits
    reach, cap = min(groups or most, most), min(per_group or most, most)
    one_group = {(rows, 1) for limit in (cap, most) for rows in (limit, limit + 1)}
    return sorted(one_group | {(count, count) for count in (reach, reach + 1)} | {(most + 1, reach + 1)})


def _shuffled(random: Random, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    return tuple(random.sample(rows, len(rows)))


# fmt: off
PREDICATES = (
    "age > 3", "cost BETWEEN 0 AND 2", "flag", "NOT flag", "region IN ('north', 'it''s')", "note LIKE '%1%'",
    "day >= DATE '2024-01-03'", "code = 2 OR age < 50", "note IS NULL", "CAST(note AS INTEGER) > 5",
    "COALESCE(flag, FALSE)", "LENGTH(note) > 0", "1 / age > 0", "SQRT(cost) > 1", "region = 'nowhere'",
)
KEYS = (
    "region", "flag", "code", "day", "CASE WHEN age > 10 THEN 'old' WHEN age <= 10 THEN 'young' END",
    "DATE_TRUNC('month', day)", "EXTRACT(dow FROM day)", "WIDTH_BUCKET(cost, 0, 100, 5)", "age > 5", "UPPER(region)",
    "CASE WHEN flag THEN region ELSE 'other' END", "code * 2", "COALESCE(region, 'none')",
    "CASE WHEN CAST(note AS INTEGER) > 5 THEN 1 ELSE 0 END", "code + CASE WHEN flag THEN 0.5 ELSE 0.25 END",
)
VALUES = (
    "age", "cost", "code", "-age", "ABS(cost)", "cost * 0.5 - 3", "LEAST(GREATEST(CAST(note AS INTEGER), -4), 9)",
    "CASE WHEN flag THEN age ELSE 0 END", "CASE WHEN flag THEN cost END", "COALESCE(cost, 1)", "LENGTH(region)",
    "EXTRACT(day FROM day)", "ROUND(cost, 1)", "age % 7", "FLOOR(cost / 3)", "LEAST(age, 100) * LEAST(age, 100)",
    "SQRT(ABS(cost))", "EXP(LEAST(cost, 3))", "NULLIF(code, 2)", "1", "LEAST(GREATEST(LN(cost), -2), 2)",
)
# fmt: on
JOINED_KEYS, JOINED_VALUES = {"places": "kind", "labels": "label"}, {"places": "weight", "labels": "points"}


def text(random: Random, made: World) -> str:
    """A random question about a world."""
    joined = [name for name in ("places", "labels") if random.random() < 0.3]
    keys = random.sample(KEYS, random.choice((0, 0, 1, 1, 1, 2, 3)))
    keys += [JOINED_KEYS[name] for name in joined if random.random() < 0.4]
    values = [*VALUES, *(JOINED_VALUES[name] for name in joined)]
    measures = [_measure(random, made, values) for _ in range(random.choice((1, 1, 2, 4)))]
    selected = [f"{_placed(key, joined)} AS g{index}" for index, key in enumerate(keys)]
    selected += [f"{_placed(each, joined)} AS x{index}" for index, each in enumerate(measures)]
    return " ".join(
        [
            *_source(random, selected, joined),
            *([f"WHERE {_placed(random.choice(PREDICATES), joined)}"] if random.random() < 0.4 else []),
            *([f"GROUP BY {', '.join(str(index + 1) for index in range(len(keys)))}"] if keys else []),
        ]
    )


def _placed(sql: str, joined: list[str]) -> str:
    """With the columns that two tables have told apart."""
    return sql if not joined else _qualified(sql, "labels" in joined)


def _qualified(sql: str, labelled: bool) -> str:
    return sql.replace("code", "p.code") if labelled else sql


def _source(random: Random, selected: list[str], joined: list[str]) -> list[str]:
    columns = "region, age, cost, flag, code, day, note"
    form = random.choice(("plain", "plain", "subquery", "with", "redefined"))
    changed = columns.replace("age", "age + 1 AS age").replace("cost", "cost * 2 AS cost")
    inner = f"SELECT {changed if form == 'redefined' else columns} FROM people"
    inner += f" WHERE {random.choice(PREDICATES)}" if random.random() < 0.5 else ""
    counted = any("DISTINCT" in each for each in selected)
    if form == "plain" or counted:
        head, origin = "", "people AS p"
    elif form == "with":
        head, origin = f"WITH w AS ({inner}) ", "w AS p"
    else:
        head, origin = "", f"({inner}) AS p"
    joins = []
    for name in joined:
        kind = random.choice(("JOIN", "LEFT JOIN"))
        joins.append(f"{kind} places USING (region)" if name == "places" else f"{kind} labels ON p.code = labels.code")
    return [f"{head}SELECT {', '.join(selected)} FROM {origin}", *joins]


def _measure(random: Random, made: World, values: Sequence[str]) -> str:
    kinds = ["COUNT(*)", "COUNT(x)", "SUM(x)", "SUM(x)", "AVG(x)"] + ["COUNT(DISTINCT who)"] * made.units
    kinds += ["STDDEV(x)", "CORR(x, cost)"]
    found = random.choice(kinds).replace("(x", f"({random.choice(values)}")
    return f"{found} FILTER (WHERE {random.choice(PREDICATES)})" if random.random() < 0.3 else found


Totals = list[tuple[int, ...]]


@dataclass(frozen=True)
class Change:
    """What one neighbour changed in one measure, beside what was claimed: ratios of at most 1 are sound."""

    l1: float
    squares: float
    linf: float
    groups: float

    @property
    def worst(self) -> float:
        return max(self.l1, self.squares, self.linf, self.groups)


def changes(bounded: BoundedPlan, before: Totals, after: Totals) -> list[Change]:
    """One for each measure."""
    found, index = [], 0
    for measure in bounded.measures:
        own = slice(index, index + measure.coordinates)
        index += measure.coordinates
        moved = [abs(x - y) for a, b in zip(before, after, strict=True) for x, y in zip(a[own], b[own], strict=True)]
        claim = measure.sensitivity
        found.append(
            Change(
                _ratio(sum(moved), claim.l1),
                _ratio(sum(each * each for each in moved), claim.squares),
                _ratio(max(moved), claim.linf),
                _ratio(sum(each > 0 for each in moved), claim.l0),
            )
        )
    return found


def _ratio(seen: int, claimed: Any) -> float:
    """Exactly 1 or less whenever the claim holds: compared as whole numbers, shown as a float."""
    if seen <= claimed:
        return min(1.0, float(seen / claimed)) if claimed else 0.0
    return max(1.0000001, float(seen / claimed)) if claimed else float("inf")
