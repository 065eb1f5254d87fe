"""Random plans have the totals on Spark that they have on DuckDB, to the last unit; many plans are one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engines.spark import compared
from engines.spark.conftest import PANDAS, Cluster
from safety import test_lists, test_towns, towns
from safety.strange_rows import strange_rows
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import Strategy

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]


# fmt: off
PARTS = (
    30, 31, 92, 88, 95, 92, 90, 29, 100, 85, 79, 91, 91, 31, 77, 95, 95, 91, 88, 96,
    106, 89, 95, 88, 29, 88, 81, 84, 108, 102, 30, 95, 95, 31, 31, 30, 102, 96, 88, 90,
)
# fmt: on
"""How many plans with known keys the questions of each world of the long run have, in all their boundings."""
FOUND = 2
"""Questions of each of those worlds whose keys are found."""
BOUNDINGS = [strategy.value for strategy in Strategy if strategy is not Strategy.MATCH]  # which no server does


def _compared(
    seed: int, plans: int, folder: Path, given: compared.Given, *, found: int = 0, only: Sequence[int] = (), quick: bool
) -> Counter[str]:
    """A population of which one unit goes beyond its limits, with rows that no unit owns and letters of all kinds, on
    both engines: all questions that are drawn of it, or only those in some places.
    """
    made, words = compared.world_questions(seed, plans, found)
    tables = made.tables(Random(seed), 30)
    rows = (*tables[sorted(tables)[seed % len(tables)]], *strange_rows(made))
    here, spark = made.engine(rows), compared.on_spark(made.policy(rows), folder, given)
    chosen = [words[place] for place in only] or words
    asked = [each for text in chosen for each in compared.asked(here, text)]
    try:
        return compared.compare(here, spark, asked, seed, scan=compared.quickly(spark) if quick else None)
    finally:
        here.close()
        spark.close()


def test_totals_are_those_of_duckdb(cluster: Cluster, tmp_path: Path) -> None:
    """The normal run has little time, so a few short questions: every bounding, and keys that are found."""
    counted = _compared(7, 7, tmp_path, compared.in_files(cluster), found=1, only=(2, 6, 7), quick=True)
    assert counted == dict.fromkeys([*BOUNDINGS, compared.FOUND], 1)


@pytest.mark.long
@pytest.mark.parametrize(("seed", "least"), [(6, 6), (12, 18)])
def test_totals_of_more_worlds_are_those_of_duckdb(cluster: Cluster, tmp_path: Path, seed: int, least: int) -> None:
    """The rows of the first are its units, the other has units of several rows."""
    assert _compared(seed, 6, tmp_path, compared.in_files(cluster), quick=True).total() >= least


def test_totals_of_a_classic_frame_are_those_of_duckdb(cluster: Cluster, tmp_path: Path) -> None:
    """Rows are units: each is counted whole."""
    assert _compared(2, 3, tmp_path, compared.in_frames(cluster), quick=False) == {Strategy.WHOLE.value: 3}


@pytest.mark.long
@pytest.mark.parametrize("part", range(len(PARTS)))
def test_thousands_of_plans(cluster: Cluster, tmp_path: Path, part: int) -> None:
    """More than 3,000 in all; every tenth world in a frame of classic Spark, every fourth as questions read it."""
    given = compared.in_frames(cluster) if part % 10 == 9 else compared.in_files(cluster)
    counted = _compared(1000 + part, 31, tmp_path, given, found=FOUND, quick=part % 4 != 0)
    assert counted.pop(compared.FOUND) == FOUND
    assert counted.total() == PARTS[part]
    assert len(counted) in (1, len(BOUNDINGS)), "rows are units and all are whole, or all boundings are there"


def test_the_parts_of_the_long_run_are_thousands_of_plans() -> None:
    assert sum(PARTS) >= 3_000


def _town(folder: Path, given: compared.Given, texts: tuple[str, ...], every: str | None, seed: int = 1) -> int:
    """Several private tables: ids found through others, joins of a unit's rows, tests, unions, periods."""
    rows = towns.town(Random(seed), every).tables()["many rows"]
    here = towns.engine(rows, every)
    spark = compared.on_spark(towns.policy(rows, every=every), folder, given)
    asked = [each for text in texts for each in compared.asked(here, text)]
    try:
        return compared.compare(here, spark, asked, seed).total()
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
        assert compared.compare(here, spark, asked, 4).total() > 5
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
