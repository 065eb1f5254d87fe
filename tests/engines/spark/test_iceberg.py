"""Tables of Iceberg, read by Spark as of one snapshot, where SFUMATO_ICEBERG_JAR names Iceberg's file for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from engine.tables import policy_of
from engines.spark import compared
from engines.spark.conftest import ICEBERG, PANDAS, Cluster
from sfumato.engine.spark.driver import Spark
from sfumato.errors import EngineFailed, InvalidPolicy, SourceChanged
from sfumato.plan.bounding import ContributionLimits, Strategy, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings(PANDAS),
    pytest.mark.skipif(ICEBERG not in os.environ, reason=f"NO ICEBERG: name its file for this Spark in {ICEBERG}"),
]
COLUMNS = {"region": {"values": ["north", "south"]}, "cost": {"type": "real", "bounds": [0, 100], "grid": "0.5"}}
QUESTION = "SELECT region, COUNT(*), SUM(cost) FROM t GROUP BY region"
BY = pytest.mark.parametrize("by", ["relation", "path"])
_numbers = count()


@pytest.fixture
def table(cluster: Cluster) -> Iterator[str]:
    """A table with one snapshot."""
    name = f"ice.clinic.t{next(_numbers)}"
    _make(cluster, name, 1, "(1, 'north', 1.0), (2, 'south', 2.0)")
    yield name
    cluster.classic.sql(f"DROP TABLE IF EXISTS {name}")


def _make(cluster: Cluster, table: str, snapshots: int, rows: str) -> None:
    cluster.classic.sql(f"CREATE TABLE {table} (who BIGINT, region STRING, cost DOUBLE) USING iceberg")
    for _ in range(snapshots):
        cluster.classic.sql(f"INSERT INTO {table} VALUES {rows}")


def _policy(cluster: Cluster, table: str, by: str, version: str | None = None) -> Policy:
    folder = cluster.classic.conf.get("spark.sql.catalog.ice.warehouse")
    path = {"path": f"{folder}/{table.removeprefix('ice.').replace('.', '/')}", "format": "iceberg"}
    named: dict[str, Any] = {"relation": table} if by == "relation" else path
    limits = {"max_rows": 20, "max_groups": 2, "max_rows_per_group": 8}
    return policy_of(Table("t", cluster.address, COLUMNS, id="who", version=version, **limits, **named))


def _reading(spark: Spark) -> GroupTotals:
    plan = parse(QUESTION, spark.catalog()).plan
    limits = ContributionLimits.from_table(spark._policy.tables["t"])
    bounded = next(each for each in candidate_bounded_plans(plan, limits, 2) if each.strategy is Strategy.CLIP_L2)
    return GroupTotals(bounded, (("north",), ("south",)))


def _counts(spark: Spark) -> Any:
    reading = _reading(spark)
    return spark.check(reading).read(reading, 3)


def _newest(cluster: Cluster, table: str) -> str:
    return str(cluster.classic.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()[0][0])


@BY
def test_the_snapshot_of_the_opening_is_read_whatever_happens_to_the_table(
    cluster: Cluster, table: str, by: str
) -> None:
    """Rows are added, all are overwritten, and a column is dropped and added again, renamed, and beside it another."""
    first = _newest(cluster, table)
    with contextlib.closing(Spark(_policy(cluster, table, by))) as spark:
        assert spark.tables._change_tokens == {"t": first}
        wanted, identity = _counts(spark), spark.identity()
        for change in (
            f"INSERT INTO {table} VALUES (3, 'north', 50.0)",
            f"INSERT OVERWRITE {table} VALUES (4, 'south', 60.0)",
            f"ALTER TABLE {table} DROP COLUMN cost",
            f"ALTER TABLE {table} ADD COLUMN cost DOUBLE",
            f"ALTER TABLE {table} RENAME COLUMN region TO area",
            f"ALTER TABLE {table} ADD COLUMN region STRING",
        ):
            cluster.classic.sql(change)
            assert np.array_equal(_counts(spark), wanted), change
        assert spark.identity() == identity
    with contextlib.closing(Spark(_policy(cluster, table, by, first))) as again:
        assert np.array_equal(_counts(again), wanted)
        assert again.identity() == identity
    with contextlib.closing(Spark(_policy(cluster, table, by))) as now:
        assert not np.array_equal(_counts(now), wanted)
        assert now.identity() != identity


def test_a_table_has_the_address_of_its_files_by_either_name(cluster: Cluster, table: str) -> None:
    found = []
    for by in ("relation", "path"):
        with contextlib.closing(Spark(_policy(cluster, table, by))) as spark:
            found.append({each.address for each in spark.data(public=False)})
    assert found[1] < found[0]
    assert len(found[0]) == 2


@BY
@pytest.mark.parametrize("version", ["12", "main"])
def test_a_snapshot_that_is_none_is_refused(cluster: Cluster, table: str, by: str, version: str) -> None:
    with pytest.raises(InvalidPolicy, match="version of a"):
        Spark(_policy(cluster, table, by, version))


def test_a_table_without_rows_or_of_another_branch_is_refused(cluster: Cluster, table: str) -> None:
    _make(cluster, empty := f"{table}_empty", 0, "")
    for name in (empty, f"{table}.branch_main", f"{table}.snapshots"):
        with pytest.raises(InvalidPolicy, match="cannot read a version of a table in iceberg"):
            Spark(_policy(cluster, name, "relation"))


@BY
def test_a_snapshot_that_is_gone_is_refused_before_a_charge(cluster: Cluster, table: str, by: str) -> None:
    with contextlib.closing(Spark(_policy(cluster, table, by))) as spark:
        reading = _reading(spark)
        ready = spark.check(reading)
        cluster.classic.sql(f"DROP TABLE {table} PURGE")
        _make(cluster, table, 2, "(1, 'north', 1.0)")
        with pytest.raises((EngineFailed, SourceChanged)) as failed:
            ready.read(reading, 3)
        assert "north" not in str(failed.value)
        with pytest.raises(SourceChanged):
            spark.check(reading)


def in_iceberg(cluster: Cluster) -> compared.Given:
    """A table of Iceberg in several files, of which each states the ends of its columns."""

    def given(path: Path) -> dict[str, Any]:
        name = f"ice.world.t{next(_numbers)}"
        cluster.classic.read.parquet(str(path)).repartition(3).writeTo(name).using("iceberg").create()
        return {"source": cluster.address, "relation": name}

    return given


@pytest.mark.parametrize("seed", [2, 6, 12])
def test_totals_are_those_of_duckdb(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    """NaN, infinities, 2^62, NULL: no row is left out for what a file states of the ends of its columns."""
    made, words = compared.world_questions(seed, 12)
    tables = made.tables(Random(seed), 30)
    rows = tables[sorted(tables)[seed % len(tables)]]
    here, spark = made.engine(rows), compared.on_spark(made.policy(rows), tmp_path, in_iceberg(cluster))
    with contextlib.closing(here), contextlib.closing(spark):
        asked = [each for text in words for each in compared.asked(here, text)]
        assert compared.compare(here, spark, asked, seed) >= 12
