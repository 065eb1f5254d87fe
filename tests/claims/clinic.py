"""A small clinic whose rows never change: the tables that recorded claims are about.

Twelve patients have 1 to 9 visits each, so that limits of 6 rows, 3 groups and 4 rows per group bind for some of them
and not for others. Some cells are missing, out of bounds or not among the declared values.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any

import pyarrow as pa

from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit

FIRST_DAY = dt.date(2024, 1, 1)
REGIONS = ("north", "south", "east", "west")
VISITS: dict[str, Any] = {
    "region": {"values": list(REGIONS), "nullable": True},
    "age": {"type": "integer", "bounds": [0, 110]},
    "change": {"type": "integer", "bounds": [-20, 50]},
    "cost": {"type": "real", "bounds": [-5, 5000], "grid": "0.25"},
    "share": {"type": "real", "bounds": [0, 1]},
    "pay": {"type": "integer", "bounds": [0, 3 * 10**9]},
    "urgent": {"type": "boolean"},
    "code": {"type": "integer", "values": [1, 2, 3]},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-03-31"]},
    "at": {"type": "timestamp", "bounds": ["2024-01-01 00:00:00", "2024-01-02 11:59:59"]},
    "note": {"type": "text"},
    "tags": {"values": ["new", "old", "odd"], "most_items": 2},
    "visit": {"type": "integer", "bounds": [0, 99]},
}
STAYS: dict[str, Any] = {
    "ward": {"values": ["A", "B", "C"]},
    "nights": {"type": "integer", "bounds": [0, 30]},
    "since": {"type": "date", "bounds": ["2024-01-01", "2024-03-31"]},
}
_STORED = {
    "who": pa.int64(),
    "region": pa.string(),
    "age": pa.int64(),
    "change": pa.int64(),
    "cost": pa.float64(),
    "share": pa.float64(),
    "pay": pa.int64(),
    "urgent": pa.bool_(),
    "code": pa.int64(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "note": pa.string(),
    "tags": pa.list_(pa.string()),
    "visit": pa.int64(),
}
_VISITS_OF = (1, 2, 9, 3, 7, 1, 4, 6, 2, 8, 1, 5)
"""How many visits each patient has."""


def _number(below: int, *names: object) -> int:
    """Return a whole number below this one that depends on the names alone."""
    digest = hashlib.sha256(" ".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:6], "big") % below


def _visit(who: int, index: int, number: int) -> dict[str, Any]:
    def drawn(name: str, below: int) -> int:
        return _number(below, name, who, index)

    missing = {name for name in VISITS if _number(12, "missing", name, who, index) == 0} - {"visit", "tags"}
    row = {
        "who": who,
        "region": (*REGIONS, "nowhere")[drawn("region", 9) % 5],
        "age": drawn("age", 130) - 5,
        "change": drawn("change", 90) - 30,
        "cost": drawn("cost", 24000) / 4 - 100,
        "share": drawn("share", 1000) / 999,
        "pay": drawn("pay", 3 * 10**9 + 10**8),
        "urgent": drawn("urgent", 3) == 0,
        "code": drawn("code", 7) // 2 + 1,
        "day": FIRST_DAY + dt.timedelta(drawn("day", 95) - 2),
        "at": dt.datetime(2024, 1, 1) + dt.timedelta(minutes=drawn("at", 2200)),
        "note": ("", "7", "flu", "cold", "flu")[drawn("note", 5)],
        "tags": [("new", "old", "odd", "lost")[drawn(f"tag {place}", 4)] for place in range(drawn("tags", 4))],
        "visit": number,
    }
    return {name: None if name in missing else cell for name, cell in row.items()}


def visits() -> pa.Table:
    owners = [(who, index) for who, count in enumerate(_VISITS_OF) for index in range(count)]
    rows = [_visit(who, index, number) for number, (who, index) in enumerate(owners)]
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in _STORED.items()})


def stays() -> pa.Table:
    rows = [(who, index) for who in range(0, 14, 2) for index in range(who % 4 + 1)]
    return pa.table(
        {
            "who": pa.array([who for who, _ in rows], pa.int64()),
            "ward": ["ABC"[_number(3, "ward", *row)] for row in rows],
            "nights": pa.array([_number(35, "nights", *row) for row in rows], pa.int64()),
            "since": [FIRST_DAY + dt.timedelta(_number(91, "since", *row)) for row in rows],
        }
    )


def bills() -> pa.Table:
    """Bills belong to visits, and through them to patients."""
    count = sum(_VISITS_OF)
    numbers = [_number(count, "bill", index) for index in range(30)]
    amounts = [_number(40, "amount", index) for index in range(30)]
    return pa.table({"visit": pa.array(numbers, pa.int64()), "amount": pa.array(amounts, pa.int64())})


PLACES = pa.table(
    {
        "region": ["north", "north", "south", "east", None],
        "size": ["big", "small", "small", "big", "big"],
        "beds": pa.array([10, 200, 30, 40, 50], pa.int64()),
    }
)
CODES = pa.table(
    {
        "code": pa.array([1, 2, 3], pa.int64()),
        "label": ["check", "cure", "care"],
        "low": pa.array([0, 30, 60], pa.int64()),
        "high": pa.array([40, 70, 111], pa.int64()),
    }
)


def clinic(neighbours: Neighbours = Neighbours.ADD_REMOVE, *, every_row: bool = False) -> Policy:
    """Declare the clinic's tables, with patients or, for ``every_row``, visits as the units."""
    public = {"places": Table("places", PLACES, public=True), "codes": Table("codes", CODES, public=True)}
    limits: dict[str, Any] = {} if every_row else {"max_rows": 6, "max_groups": 3, "max_rows_per_group": 4}
    tables = {"visits": Table("visits", visits(), VISITS, id="row" if every_row else "who", **limits)}
    if not every_row:
        tables["stays"] = Table("stays", stays(), STAYS, id="who", max_rows=3)
        amounts = {"amount": {"type": "integer", "bounds": [0, 30]}}
        tables["bills"] = Table("bills", bills(), amounts, id={"via": "visits", "on": "visit"}, max_rows=4)
    unit = PrivacyUnit("visit" if every_row else "patient", every_row=every_row)
    return Policy(unit, Budget(10**6, "1e-3", neighbours=neighbours), tables | public, size=40, allow_large_delta=True)
