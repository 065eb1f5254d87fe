"""The forty questions, their exact answers in plain DuckDB, and when a noisy answer agrees with an exact one."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

import sfumato as sf

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
STORED = HERE / "exact.json"
_TITLE = re.compile(r"^-- (\d+)\. (.*?) \[(\w+)(; unknown groups)?\]$", re.MULTILINE)

# What a policy says of missing cells, said again in plain SQL: rows of nobody are dropped, "N" does not apply.
SOURCES = {
    "fleet": {
        "flights": "SELECT * REPLACE (CAST(time_hour AS TIMESTAMP) AS time_hour) "
        f"FROM '{DATA}/flights/flights.parquet' WHERE tailnum IS NOT NULL",
        "planes": f"FROM '{DATA}/flights/planes.parquet'",
        "airlines": f"FROM '{DATA}/flights/airlines.parquet'",
        "airports": f"FROM '{DATA}/flights/airports.parquet'",
    },
    "restaurant": {"visits": f"FROM '{DATA}/visits/visits.csv'"},
    "census": {"people": f"FROM '{DATA}/pums/people.csv' WHERE pid IS NOT NULL"},
    "survey": {"survey": f"FROM read_csv('{DATA}/nist_ace/ma2019.csv', nullstr = 'N')"},
    "novel": {"ties": f"FROM '{DATA}/graphs/les_miserables.csv'"},
}

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Asked:
    """One question: its number and title, the policy it is asked under, the text."""

    number: int
    title: str
    policy: str
    text: str
    unknown: bool
    """Whether its groups are declared nowhere and have to be found in the data."""

    @property
    def price(self) -> dict[str, Any]:
        """A price at which noise is small; groups are found in the data for some δ."""
        return {"epsilon": 10_000, "delta": "1e-6"} if self.unknown else {"epsilon": 100_000}

    @property
    def ordered(self) -> bool:
        """Whether the answer's rows are in an order: not those within a window."""
        return re.search(r"ORDER BY[^)]*$", self.text) is not None

    def __str__(self) -> str:
        return f"{self.number} {self.title}"


def questions() -> list[Asked]:
    """The questions of ``questions.sql``, in order."""
    text = (HERE / "questions.sql").read_text()
    titles = list(_TITLE.finditer(text))
    ends = [each.start() for each in titles[1:]] + [len(text)]
    return [
        Asked(int(each[1]), each[2], each[3], text[each.end() : end].strip(), each[4] is not None)
        for each, end in zip(titles, ends, strict=True)
    ]


def loaded(policy: str) -> duckdb.DuckDBPyConnection:
    """A plain DuckDB with the tables of a policy, which are read once."""
    connection = duckdb.connect(config={"threads": 1})
    for name, source in SOURCES[policy].items():
        connection.execute(f"CREATE TABLE {name} AS {source}")
    return connection


def exact(asked: Asked, connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """What plain DuckDB answers: to the tests alone."""
    return [tuple(map(plain, row)) for row in connection.execute(asked.text).fetchall()]


def plain(cell: Any) -> Any:
    """A cell as JSON has it: a date is its text, and a moment at midnight is its date."""
    if isinstance(cell, dt.datetime):
        return cell.date().isoformat() if cell.time() == dt.time() else cell.isoformat()
    if isinstance(cell, dt.date):
        return cell.isoformat()
    return cell if cell is None or isinstance(cell, (bool, int, str)) else float(cell)


def stored() -> Mapping[int, list[Row]]:
    """The exact answers as they were written down, by the question's number."""
    return {int(number): [tuple(row) for row in rows] for number, rows in json.loads(STORED.read_text()).items()}


def store() -> None:
    """Write the exact answers down: run when a question was added, never to make a test pass."""
    connections = {policy: loaded(policy) for policy in SOURCES}
    rows = {each.number: exact(each, connections[each.policy]) for each in questions()}
    lines = ",\n".join(f'"{number}": {json.dumps(found)}' for number, found in rows.items())
    STORED.write_text(f"{{\n{lines}\n}}\n")


def disagreements(answer: sf.Answer, wanted: list[Row], asked: Asked) -> Iterator[str]:
    """Where a noisy answer contradicts the exact one.

    Every exact row is there, in the order that was asked for, and each of its numbers lies within the stated range.
    A curator also answers groups that were declared and have no row: their counts have 0 in their range.
    """
    noisy = [index for index, name in enumerate(answer.columns) if name in answer.intervals]
    found = {_key(row, noisy): place for place, row in enumerate(answer.rows)}
    expected = {_key(row, noisy): row for row in wanted}
    for key, row in expected.items():
        if key not in found:
            yield f"{key} is missing"
        else:
            yield from _outside(answer, found[key], row, noisy)
    yield from _not_empty(answer, [place for key, place in found.items() if key not in expected], noisy)
    if asked.ordered and [key for key in found if key in expected] != list(expected):
        yield "the order differs"


def _key(row: Row, noisy: list[int]) -> Row:
    return tuple(plain(cell) for index, cell in enumerate(row) if index not in noisy)


def _outside(answer: sf.Answer, place: int, row: Row, noisy: list[int]) -> Iterator[str]:
    for index in noisy:
        name = answer.columns[index]
        interval, value = answer.intervals[name][place], row[index]
        if interval is not None and value is not None:
            slack = 1e-9 * (1 + abs(value))  # a sum of reals in another order
            if not interval[0] - slack <= value <= interval[1] + slack:
                yield f"{name} of {row} is not in {interval}"


def _not_empty(answer: sf.Answer, places: list[int], noisy: list[int]) -> Iterator[str]:
    for index in noisy:
        name = answer.columns[index]
        for place in places:
            interval = answer.intervals[name][place]
            counted = isinstance(answer.rows[place][index], int)
            if counted and interval is not None and not interval[0] <= 0 <= interval[1]:
                yield f"{name} of {answer.rows[place]} has no row and is not near 0"


if __name__ == "__main__":
    store()
