"""How many of eighty questions by an outsider are answered, usefully and rightly.

The questions were written from the tables alone and sealed (blind_questions.sha256) before the functions they need
existed. Flights without a plane belong to nobody, and are left out of the raw table too. Each question is asked twice:
with limits that cut nothing and a price at which noise vanishes, where every number must agree with DuckDB on the raw
table (else it is *wrong*); and with an owner's limits at ε = 1, where it is *useful* if half of its numbers are within
a fifth of the raw table's. An answer without a number to compare (no rows, or dates alone) is *empty*, and does not
count as answered. A refusal is printed with its fix.

Run with: .venv/bin/python bench/blind_questions.py FOLDER [NUMBER …]
where FOLDER holds nycflights13/, visits/ and pums/.
"""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Any

import duckdb

import sfumato as sf
from sfumato.release.noisy_rows.window_functions import RANK_NOTE

HERE = pathlib.Path(__file__).parent
VIEWS = {
    "flights": "FROM '{}/nycflights13/flights.parquet' WHERE tailnum IS NOT NULL",
    "planes": "FROM '{}/nycflights13/planes.parquet'",
    "airlines": "FROM '{}/nycflights13/airlines.parquet'",
    "airports": "FROM '{}/nycflights13/airports.parquet'",
    "visits": (
        'SELECT "VisitorId" AS visitor_id, "Time entered" AS time_entered, "Time spent (minutes)" AS minutes_spent, '
        '"Money spent (euros)" AS euros_spent, "Day" AS day FROM read_csv(\'{}/visits/week_data.csv\')'
    ),
    "people": (
        'SELECT "X" AS person_id, state, puma, sex, age, educ, income, latino, black, asian, married '
        "FROM read_csv('{}/pums/PUMS5extract10000.csv')"
    ),
}
IDS = {"flights": "tailnum", "visits": "visitor_id", "people": "person_id"}
BOUNDS = {
    "month": (1, 12), "day": (1, 31), "dep_time": (0, 2400), "sched_dep_time": (0, 2400), "arr_time": (0, 2400),
    "sched_arr_time": (0, 2400), "flight": (1, 8500), "air_time": (0, 720), "distance": (0, 5000), "hour": (0, 23),
    "minute": (0, 59), "year": (2013, 2013), "dep_delay": (-60, 300), "arr_delay": (-90, 300),
    "minutes_spent": (0, 180), "euros_spent": (0, 150), "age": (18, 100), "educ": (1, 16), "income": (-10_000, 250_000),
}  # fmt: skip
WIDE = BOUNDS | {"dep_delay": (-100, 1500), "arr_delay": (-100, 1500), "income": (-20_000, 1_000_000)}
LISTED = ("carrier", "origin", "dest", "puma", "state", "sex", "latino", "black", "asian", "married")
LIMITS = {"flights": (200, 20), "visits": (6, 7), "people": (1, 1)}
UNCUT = {"flights": (1_000, 1_000), "visits": (10, 10), "people": (1, 1)}
ANSWERED = ("useful", "vague", "wrong?")
REFERENCES = {
    23: """
        SELECT home, COUNT(*) AS planes FROM (
            SELECT tailnum, FIRST(origin ORDER BY n DESC, origin) AS home
            FROM (SELECT tailnum, origin, COUNT(*) AS n FROM flights GROUP BY tailnum, origin) GROUP BY tailnum
        ) GROUP BY home ORDER BY planes DESC""",
}
"""What DuckDB is asked in place of a question's own text, by the question's number.

23: DuckDB's ``mode`` takes any of several most frequent values, another one in each run; a tie goes to the least value
here, as in Sfumato."""


@dataclass(frozen=True)
class Outcome:
    """How one question fared: its kind, and the words to print beside it."""

    kind: str
    words: str


def domain(rows: duckdb.DuckDBPyConnection, table: str, column: str, stored: str, *, wide: bool) -> dict[str, Any]:
    """Return the declaration an owner would write for a column."""
    if column in LISTED:
        values = rows.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY 1").fetchall()
        return {"type": "text" if stored == "VARCHAR" else "integer", "values": [value for (value,) in values]}
    if column in BOUNDS:
        return {"type": "real" if stored == "DOUBLE" else "integer", "bounds": list((WIDE if wide else BOUNDS)[column])}
    return {"type": "text"}  # a plane's tail number too: the public registry of planes is joined on it


def curator(rows: duckdb.DuckDBPyConnection, folder: pathlib.Path, *, wide: bool) -> dict[str, sf.Curator]:
    """Open one curator for each protected table, with the public tables beside."""
    opened = {}
    for table, column_id in IDS.items():
        stored = {name: kind for name, kind, *_ in rows.execute(f"DESCRIBE {table}").fetchall()}
        columns = {
            name: sf.Domain(**domain(rows, table, name, kind, wide=wide))
            for name, kind in stored.items()
            if name != column_id or name == "tailnum"
        }
        max_rows, max_groups = (UNCUT if wide else LIMITS)[table]
        private = sf.Table(
            table,
            rows.sql(f"FROM {table}").to_arrow_table(),
            columns,
            id=column_id,
            max_rows=max_rows,
            max_groups=max_groups,
        )
        tables = {table: private}
        for public in ("planes", "airlines", "airports") if table == "flights" else ():
            tables[public] = sf.Table(public, rows.sql(f"FROM {public}").to_arrow_table(), public=True)
        budget = sf.Budget(1e12 if wide else 1_000, 9e-4)
        policy = sf.Policy(sf.PrivacyUnit("unit"), budget, tables)
        opened[table] = sf.Curator(policy, ledger=folder / f"{table}-{wide}.ledger")
    return opened


def compared(answer: sf.Answer, truth: tuple[list[str], list[Any]]) -> tuple[list[tuple[float, float, float]], str]:
    """Pair each released number with the raw table's: (released, raw, half-width), matched by the exact columns."""
    numbers = [name for name in answer.columns if name in answer.intervals or answer.chosen.get(name) == RANK_NOTE]
    keys = [name for name in answer.columns if name not in numbers]
    names, raw_rows = truth
    if any(isinstance(value, list) for row in raw_rows for value in row):  # a list is a column each here
        raw_rows = [tuple(chain.from_iterable(v if isinstance(v, list) else [v] for v in row)) for row in raw_rows]
        names = list(answer.columns) if raw_rows and len(raw_rows[0]) == len(answer.columns) else names
    if len(names) != len(answer.columns):
        return [], f"columns {list(answer.columns)} beside {names}"
    raw = {tuple(_key(row[i]) for i, name in enumerate(answer.columns) if name in keys): row for row in raw_rows}
    pairs = []
    for index, row in enumerate(answer.rows):
        other = raw.get(tuple(_key(value) for name, value in zip(answer.columns, row, strict=True) if name in keys))
        for place, name in enumerate(answer.columns):
            if name in numbers and other is not None and _key(row[place]) != "NULL" != _key(other[place]):
                low, high = answer.intervals[name][index] if name in answer.intervals else (0, 0)  # a rank has no range
                pairs.append((float(row[place]), float(other[place]), (float(high) - float(low)) / 2))
    return pairs, ""


def _key(value: Any) -> str:
    if value is None or value != value:
        return "NULL"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value):
        return str(int(value))
    return str(value).removesuffix(" 00:00:00")


def released(opened: dict[str, sf.Curator], question: dict[str, Any], epsilon: float) -> sf.Answer:
    """Ask once, with the δ that is offered where the question needs one."""
    asked = opened[question["table"]].sql(question["sql"])
    return asked.release(epsilon=epsilon, delta="default")


def outcome(
    question: dict[str, Any], uncut: dict[str, sf.Curator], owners: dict[str, sf.Curator], rows: Any
) -> Outcome:
    """Ask a question both ways and judge it."""
    try:
        exact_answer = released(uncut, question, 1_000.0 * UNCUT[question["table"]][0])
        answer = released(owners, question, 1.0)
    except sf.SfumatoError as refusal:
        return Outcome("refused", str(refusal).replace("\n", " / "))
    except Exception as crash:
        return Outcome("crash", f"{type(crash).__name__}: {crash}")
    result = rows.execute(REFERENCES.get(question["id"], question["sql"]))
    truth = [name for name, *_ in result.description], result.fetchall()
    pairs, misfit = compared(exact_answer, truth)
    off = [pair for pair in pairs if not math.isclose(pair[0], pair[1], rel_tol=1e-3, abs_tol=max(1e-2, 2 * pair[2]))]
    if misfit or len(off) > len(pairs) / 50:
        return Outcome("wrong?", misfit or f"{len(off)} of {len(pairs)} numbers differ, such as {off[0]}")
    pairs, _ = compared(answer, truth)
    if not pairs:
        return Outcome("empty", f"{len(answer.rows)} rows without a number to compare")
    close = sum(abs(value - raw) <= 0.2 * abs(raw) for value, raw, _ in pairs)
    return Outcome("useful" if close * 2 >= len(pairs) else "vague", f"{close} of {len(pairs)} numbers within a fifth")


def main() -> None:
    """Ask them all and print the counts."""
    warnings.simplefilter("ignore", sf.WeakPrivacy)
    data, wanted = sys.argv[1], set(map(int, sys.argv[2:]))
    sealed = (HERE / "blind_questions.sha256").read_text().split()[-2]
    text = (HERE / "blind_questions.json").read_bytes()
    if hashlib.sha256(text).hexdigest() != sealed:
        sys.exit("blind_questions.json is not the file that was sealed")
    rows = duckdb.connect()
    for table, view in VIEWS.items():
        rows.execute(f"CREATE TABLE {table} AS {view.format(data)}")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        uncut = curator(rows, pathlib.Path(folder), wide=True)
        owners = curator(rows, pathlib.Path(folder), wide=False)
        for question in json.loads(text):
            if not wanted or question["id"] in wanted:
                verdict = outcome(question, uncut, owners, rows)
                counts[verdict.kind] += 1
                print(f"{question['id']:3} {verdict.kind:8} {verdict.words}", flush=True)
    print({"answered": sum(counts[kind] for kind in ANSWERED), **counts})


if __name__ == "__main__":
    main()
