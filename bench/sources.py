"""What a total scan costs beside the plain DuckDB query on the same file, and what opening costs.

Run with: .venv/bin/python bench/sources.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
from timing import cpu_seconds

from sfumato.engine.duckdb.connection import Sources
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

ROWS = 10_000_000
COLUMNS = {
    "age": {"type": "integer", "bounds": [0, 110]},
    "cost": {"type": "real", "bounds": [0, 5000]},
    "region": {"values": ["north", "south", "east", "west"]},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
}
MADE = """
    SELECT (random() * 1000000)::BIGINT AS id, (random() * 130)::INTEGER AS age, random() * 6000 AS cost,
        ['north', 'south', 'east', 'west', 'up'][1 + (random() * 5)::INTEGER % 5] AS region,
        DATE '2024-01-01' + (random() * 400)::INTEGER AS day
    FROM range({rows})
"""
QUESTIONS = {
    "count": "SELECT count(*) FROM {t}",
    "integers added up": "SELECT sum(age) FROM {t}",
    "reals added up as cents": "SELECT sum(CAST(cost * 100 AS BIGINT)) FROM {t}",
    "counts by category": "SELECT region, count(*) FROM {t} GROUP BY region",
    "all of it by category": (
        "SELECT region, count(*), sum(age), sum(CAST(cost * 100 AS BIGINT)), max(day) FROM {t} GROUP BY region"
    ),
}


def policy(path: Path, unit: str) -> Policy:
    table = Table("t", path, COLUMNS, id=unit, max_rows=None if unit == "row" else 10)
    return Policy(PrivacyUnit("person", every_row=unit == "row"), Budget(1), {"t": table})


def compare(path: Path, plain_source: str, repeats: int) -> None:
    plain = duckdb.connect()
    for unit in ("row", "id"):
        with Sources(policy(path, unit)) as sources:
            for name, question in QUESTIONS.items():
                theirs = question.format(t=plain_source)
                base = cpu_seconds(lambda q=theirs: plain.execute(q).fetchall(), repeats)
                ours = question.format(t=sources.scan("t"))
                spent = cpu_seconds(lambda q=ours, s=sources: s.run(q), repeats)
                label = f"{path.suffix[1:]}, {unit} units, {name}"
                print(f"{label:<52}{spent * 1e3:>10.1f} ms   plain {base * 1e3:>9.1f} ms   {spent / base:>6.2f}×")


def wide(path: Path) -> float:
    """CPU seconds to open a policy with a public CSV file and learn its columns."""
    someone = Table("t", path, {"n0": {"type": "integer"}}, id="row")
    public = Policy(PrivacyUnit("row", every_row=True), Budget(1), {"t": someone, "p": Table("p", path, public=True)})

    def opened() -> None:
        with Sources(public) as sources:
            sources.columns("p")

    return cpu_seconds(opened)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        parquet, text = Path(folder) / "t.parquet", Path(folder) / "t.csv"
        duckdb.execute(f"COPY ({MADE.format(rows=ROWS)}) TO '{parquet}'")
        duckdb.execute(f"COPY ({MADE.format(rows=ROWS // 10)}) TO '{text}' (HEADER)")
        print(f"open and close{cpu_seconds(lambda: Sources(policy(parquet, 'id')).close()) * 1e3:>48.1f} ms")
        columns = ", ".join(
            f"i AS n{k}, i / 7 AS x{k}, DATE '2024-01-01' + (i % 28)::INTEGER AS d{k}, 'v' || (i % 50) AS t{k}"
            for k in range(12)
        )
        columns_file = Path(folder) / "wide.csv"
        for rows in (31, 20_000):
            duckdb.execute(f"COPY (SELECT {columns} FROM range({rows}) AS r(i)) TO '{columns_file}' (HEADER)")
            label = f"learn 48 columns of a public CSV file of {rows:,} rows"
            print(f"{label:<52}{wide(columns_file) * 1e3:>10.1f} ms")
        compare(parquet, f"read_parquet('{parquet}')", 3)
        compare(text, f"read_csv('{text}')", 1)


if __name__ == "__main__":
    main()
