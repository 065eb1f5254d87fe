"""Random plans have the totals on Spark that they have on DuckDB, to the last unit; many plans are one job."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from engines.spark import compared
from engines.spark.conftest import PANDAS, Cluster
from safety import test_lists, test_towns, towns
from sfumato.engine.duckdb.driver import DuckDB

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]


def _compared(seed: int, plans: int, folder: Path, given: compared.Given, *, quick: bool = False) -> int:
    """A population of which one unit goes beyond its limits, on both engines."""
    made, words = compared.world_questions(seed, plans)
    tables = made.tables(Random(seed), 30)
    rows = tables[sorted(tables)[seed % len(tables)]]
    here, spark = made.engine(rows), compared.on_spark(made.policy(rows), folder, given)
    asked = [each for text in words for each in compared.asked(here, text)]
    try:
        return compared.compare(here, spark, asked, seed, scan=compared.quickly(spark) if quick else None)
    finally:
        here.close()
        spark.close()


@pytest.mark.parametrize("seed", [6, pytest.param(12, marks=pytest.mark.long)])
def test_totals_are_those_of_duckdb(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    """One world in the normal run, which has little time; in the long run another, whose rows are its units."""
    assert _compared(seed, 6, tmp_path, compared.in_files(cluster), quick=True) >= (6 if seed == 6 else 18)


def test_totals_of_a_classic_frame_are_those_of_duckdb(cluster: Cluster, tmp_path: Path) -> None:
    assert _compared(2, 3, tmp_path, compared.in_frames(cluster)) > 2


@pytest.mark.long
@pytest.mark.parametrize("part", range(40))
def test_thousands_of_plans(cluster: Cluster, tmp_path: Path, part: int) -> None:
    """3,000 plans and more in all; every tenth world in a frame of classic Spark, every fourth as questions read it."""
    given = compared.in_frames(cluster) if part % 10 == 9 else compared.in_files(cluster)
    assert _compared(1000 + part, 31, tmp_path, given, quick=part % 4 != 0) >= 25


def _town(folder: Path, given: compared.Given, texts: tuple[str, ...], every: str | None, seed: int = 1) -> int:
    """Several private tables: ids found through others, joins of a unit's rows, tests, unions, periods."""
    rows = towns.town(Random(seed), every).tables()["many rows"]
    here = towns.engine(rows, every)
    spark = compared.on_spark(towns.policy(rows, every=every), folder, given)
    asked = [each for text in texts for each in compared.asked(here, text)]
    try:
        return compared.compare(here, spark, asked, seed)
    finally:
        here.close()
        spark.close()


_GIVEN = pytest.mark.parametrize("given", [compared.in_frames, compared.in_files], ids=["classic", "Connect"])


@pytest.mark.long
@pytest.mark.parametrize("unit", ["who", "row"])
def test_lists_are_those_of_duckdb(cluster: Cluster, tmp_path: Path, unit: str) -> None:
    """Items at the limit and one beyond, missing, undeclared, too long and no numbers."""
    rows = [*test_lists.OTHERS, *test_lists.UNITS["late"], *test_lists.UNITS["limit + 1"], *test_lists.UNITS["mixed"]]
    texts = test_lists.TEXTS + (test_lists.OF_UNITS if unit == "who" else ())
    here = DuckDB(test_lists.policy(rows, unit))
    spark = compared.on_spark(here._policy, tmp_path, compared.in_files(cluster))
    try:
        asked = [each for text in texts for each in compared.asked(here, text)]
        assert compared.compare(here, spark, asked, 4) > 5
    finally:
        here.close()
        spark.close()


@_GIVEN
@pytest.mark.long
def test_tables_meet_as_on_duckdb(cluster: Cluster, tmp_path: Path, given: Any) -> None:
    texts = (test_towns.PATHS[1], test_towns.JOINS[2])
    assert _town(tmp_path, given(cluster), texts, None) > 4


@_GIVEN
@pytest.mark.long
@pytest.mark.parametrize("every", [None, "day", "week", "month"])
def test_all_towns(cluster: Cluster, tmp_path: Path, every: str | None, given: Any) -> None:
    texts = test_towns.PATHS + (test_towns.ACROSS + test_towns.TREES if every is None else test_towns.PERIODS[every])
    assert _town(tmp_path, given(cluster), texts, every, 7) > 20
