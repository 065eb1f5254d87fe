"""Quantiles beside DuckDB's own exact ones, on ten million rows of a Parquet file: ratios in CPU time, from one run.

.venv/bin/python bench/measures.py [--rows 10000000] [--folder somewhere]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
from queries import beside, make, policy, show
from timing import cpu_seconds

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.dense_readings import ValueCounts, ValueStepCounts
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column
from sfumato.plan.values.functions import call
from sfumato.policy.toml_files import read

REGIONS = tuple((f"r{index}",) for index in range(50))
QUARTILES = "SELECT quantile_cont(cost, [0.25, 0.5, 0.75]) FROM visits"
MEDIANS = "SELECT region, median(cost) FROM visits GROUP BY region"


def values(engine: DuckDB, table: sf.Table, keys: tuple[str, ...], groups: tuple[tuple[str, ...], ...]) -> ValueCounts:
    """The reading of costs, in order, in each group."""
    source = parse("SELECT COUNT(*) FROM visits", engine.catalog()).plan.source
    columns = {field.name: Column(field, domain) for field, domain in source.columns.items()}
    measures = (Sum(columns["cost"]), Count(call("NOT", call("IS NULL", columns["cost"]))))
    plan = Aggregate(source, tuple(columns[key] for key in keys), measures)
    rows_without_bounding = (Strategy.WHOLE, Strategy.SAMPLE)
    found = (
        each
        for each in candidate_bounded_plans(plan, ContributionLimits.from_table(table), len(groups))
        if each.strategy in rows_without_bounding
    )
    return ValueCounts(next(found), groups)


def quantiles(folder: Path, source: Path, plain: Callable[[str], float], *, users: bool) -> None:
    opened = read(policy(folder, source, users=users))
    with closing(DuckDB(opened)) as engine:
        for name, keys, groups, chances, text, target in (
            ("quartiles", (), ((),), ["0.25", "0.5", "0.75"], QUARTILES, 1),
            ("medians of 50 groups", ("region",), REGIONS, ["0.5"], MEDIANS, 3),
        ):
            reading = values(engine, opened.tables["visits"], keys, groups)
            mechanism = sf.Quantiles(chances, 1, (0, 500_000), 20 if users else 1, grouped=len(groups) > 1)

            def chosen(reading: ValueCounts = reading, mechanism: sf.Quantiles = mechanism) -> np.ndarray:
                return mechanism.choose_groups(engine.read(reading, 7))

            who = "each person a unit, 20 rows count" if users else "each row a unit"
            show(f"{who}: {name}", cpu_seconds(chosen, 3), plain(text), None if users else target)


def many_groups() -> None:
    """Medians of 200,000 groups from counts of their values."""
    groups, rows = 200_000, 2_000_000
    draw = np.random.default_rng(0)
    group = np.sort(draw.integers(0, groups, rows))
    steps = draw.integers(0, 10**5, rows)
    order = np.lexsort((steps, group))
    pairs, counts = np.unique(np.column_stack([group[order], steps[order]]), axis=0, return_counts=True)
    found = ValueStepCounts(pairs[:, 0], pairs[:, 1], counts, groups)
    mechanism = sf.Quantiles("0.5", 1, (0, 10**5), grouped=True)
    print(
        f"medians of {groups:,} groups, {rows:,} rows: {cpu_seconds(lambda: mechanism.choose_groups(found), 2):.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        folder = given.folder or Path(spare)
        source = make(folder, given.rows)
        print(f"{given.rows:,} rows; CPU seconds, ours, DuckDB's exact ones, ratio")
        for users in (False, True):
            quantiles(folder, source, beside(source, 3), users=users)
        many_groups()


if __name__ == "__main__":
    main()
