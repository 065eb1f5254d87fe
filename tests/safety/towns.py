"""Small populations in several tables: ids, foreign keys that people share, rows nobody owns, and their neighbours.

A town is one policy over three private tables and two public ones. A neighbour of it is the same policy over tables to
which one unit's rows were added, in any of them: the keys it names may be those of others, or of rows that nobody owned
before. Everything is drawn from a seed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

Row = dict[str, Any]
Rows = dict[str, list[Row]]
FIRST = dt.date(2024, 1, 1)
REGIONS = ("north", "south")
_DAY = {"type": "date", "bounds": [FIRST, FIRST + dt.timedelta(9)]}
COLUMNS: dict[str, dict[str, Any]] = {
    "visits": {
        "visit": {"type": "integer"},
        "region": {"values": list(REGIONS), "nullable": True},
        "cost": {"type": "integer", "bounds": [0, 10]},
        "day": _DAY,
    },
    "drugs": {"drug": {"values": ["a", "b"]}, "dose": {"type": "integer", "bounds": [-3, 5]}, "day": _DAY},
    "claims": {
        "region": {"values": list(REGIONS)},
        "euros": {"type": "integer", "bounds": [0, 100]},
        "day": _DAY,
    },
}
LIMITS = {"visits": 3, "drugs": 4, "claims": 2}
_STORED: dict[str, dict[str, pa.DataType]] = {
    "visits": {
        "who": pa.int64(),
        "visit": pa.int64(),
        "region": pa.string(),
        "cost": pa.float64(),
        "day": pa.date32(),
    },
    "drugs": {"visit": pa.string(), "drug": pa.string(), "dose": pa.int64(), "day": pa.date32()},
    "claims": {"who": pa.string(), "region": pa.string(), "euros": pa.int64(), "day": pa.date32()},
}
PUBLIC = {
    "places": pa.table({"region": ["north", "north", "south", None], "kind": ["big", "small", "big", "big"]}),
    "bands": pa.table({"low": [0, 3, 3, 8], "high": [3, 8, 9, 11], "band": ["few", "some", "some", "many"]}),
}
NEW = 1000
"""The person who is added."""


def policy(rows: Rows, relation: str = "add-remove", every: str | None = None) -> Policy:
    unit = PrivacyUnit("person", period=every, period_column=every and "day")
    ids: dict[str, Any] = {"visits": "who", "drugs": {"via": "visits", "on": "visit"}, "claims": "who"}
    tables = {
        name: Table(name, source, COLUMNS[name], id=ids[name], max_rows=LIMITS[name])
        for name, source in stored(rows).items()
    }
    public = {name: Table(name, source, public=True) for name, source in PUBLIC.items()}
    budget = Budget(1000, "1e-6", neighbours=relation)
    return Policy(unit, budget, {**tables, **public}, size=100, id_type="integer")


def stored(rows: Rows) -> dict[str, pa.Table]:
    """The private tables as a source has them."""
    return {name: _stored(rows[name], kinds) for name, kinds in _STORED.items()}


def _stored(rows: Sequence[Row], kinds: Mapping[str, pa.DataType]) -> pa.Table:
    def cell(value: Any, kind: pa.DataType) -> Any:
        return str(value) if pa.types.is_string(kind) and value is not None else value

    return pa.table({name: pa.array([cell(row[name], kind) for row in rows], kind) for name, kind in kinds.items()})


def engine(rows: Rows, every: str | None = None) -> DuckDB:
    """An engine with one thread: the tables are tiny, and many are open at once."""
    return DuckDB(policy(rows, every=every), threads=1)


@dataclass(frozen=True)
class Town:
    """The rows without the unit, and units that may be added, by what is strange about them."""

    rows: Rows
    added: dict[str, Rows]

    def tables(self) -> dict[str, Rows]:
        """The rows as they are, under "", and with one unit more, by its name."""
        return {"": self.rows} | {name: _both(self.rows, more) for name, more in self.added.items()}


def _both(first: Rows, second: Rows) -> Rows:
    return {name: [*first[name], *second[name]] for name in first}


def town(random: Random, every: str | None = None) -> Town:
    """A few people, some sharing visits; with a period, the new person is there already on other days."""
    rows: Rows = {name: [] for name in COLUMNS}
    for who in range(random.randint(0, 4)):
        rows = _both(rows, person(random, who))
    rows["visits"] += [{**_visit(random, None), "visit": 3}, {**_visit(random, 0), "visit": None}]
    rows["drugs"] += [{**_drug(random), "visit": each} for each in (3, 50, 51, 51, None, "x", "007")]
    if every is not None:
        other = person(random, NEW)
        for each in (row for name in other for row in other[name]):
            each["day"] = random.choice([FIRST - dt.timedelta(40 + random.randint(0, 3)), FIRST + dt.timedelta(62)])
        rows = _both(rows, other)
    added = strangers(random)
    if every is not None:
        for each in (row for more in added.values() for name in more for row in more[name]):
            each["day"] = FIRST + dt.timedelta(0 if every == "day" else random.randint(0, 6))
    return Town(rows, added)


def person(random: Random, who: int) -> Rows:
    """Somebody's rows: visits whose numbers others may have too, what was prescribed there, and claims."""
    visits = [_visit(random, who) for _ in range(random.randint(0, 5))]
    drugs = [{**_drug(random), "visit": each["visit"]} for each in visits for _ in range(random.randint(0, 3))]
    return {"visits": visits, "drugs": drugs, "claims": [_claim(random, who) for _ in range(random.randint(0, 4))]}


def strangers(random: Random) -> dict[str, Rows]:
    """Units made to break limits: what is theirs alone has numbers from 100 on."""
    high = {"region": "north", "cost": 10, "day": FIRST}
    visits = [{"who": NEW, "visit": 100 + each, **high} for each in range(60)]
    drugs = [{"visit": 100 + each % 60, "drug": "a", "dose": 5, "day": FIRST} for each in range(120)]
    claims = [{"who": NEW, "region": "north", "euros": 100, "day": FIRST}] * 50
    names = (0, 1, 2, 3, 7, 50, 51)
    others = [{**_visit(random, NEW), "visit": each} for each in names for _ in range(2)]
    own = person(random, NEW)
    for each in own["visits"]:
        each["visit"] += 100
    for each in own["drugs"]:
        each["visit"] += 100
    nothing: Rows = {name: [] for name in COLUMNS}
    edges = {
        f"{extra:+d} rows": {
            "visits": visits[: LIMITS["visits"] + extra],
            "drugs": [{**drugs[0], "dose": -3 if each % 2 else 5} for each in range(LIMITS["drugs"] + extra)],
            "claims": claims[: LIMITS["claims"] + extra],
        }
        for extra in (0, 1)
    }
    return {
        "many rows": {"visits": visits, "drugs": drugs, "claims": claims},
        "everybody's visits": {**nothing, "visits": others},
        "visits and claims": {**nothing, "visits": others, "claims": claims},
        "claims alone": {**nothing, "claims": claims},
        "ties": {**nothing, "visits": visits[:1] * 9, "drugs": drugs[:1] * 9, "claims": claims[:5]},
        "random": own,
        "nulls": {
            "visits": [{"who": NEW, "visit": 100, "region": None, "cost": None, "day": FIRST}] * 4,
            "drugs": [{"visit": 100, "drug": None, "dose": None, "day": FIRST}] * 5,
            "claims": [{"who": NEW, "region": None, "euros": None, "day": FIRST}] * 3,
        },
        **edges,
    }


def _visit(random: Random, who: int | None) -> Row:
    region = random.choice((*REGIONS, *REGIONS, "west", None))
    return {
        "who": who,
        "visit": random.randint(0, 4),
        "region": region,
        "cost": random.choice((-5, 0, 3, 5, 10, float("nan"), float("inf"), None)),
        "day": FIRST + dt.timedelta(random.randint(-2, 12)),
    }


def _drug(random: Random) -> Row:
    return {
        "drug": random.choice(("a", "b", "c", None)),
        "dose": random.choice((-3, 0, 5, 99, None)),
        "day": FIRST + dt.timedelta(random.randint(-2, 12)),
    }


def _claim(random: Random, who: int) -> Row:
    day = FIRST + dt.timedelta(random.randint(-2, 12))
    return {
        "who": who,
        "region": random.choice((*REGIONS, None)),
        "euros": random.choice((0, 7, 100, 500)),
        "day": day,
    }
