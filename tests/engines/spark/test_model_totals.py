"""Moments, scans, meats and survival counts of any rows that SQL selects: Spark reads the whole numbers that DuckDB
reads, of its frames in one job, and of files over Connect as a release reads them. Some units have more rows than
count: engines choose the same by their digest.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from engines.spark import compared
from engines.spark.conftest import PANDAS, Cluster
from inference.engine_totals import KEY, SOURCES, compare_with_duckdb, readings, visits_policy

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]
QUICK = (
    "components of a join",
    "components of a union",
    "a scan of one row per unit, 1",
    "survival",
)


def test_spark_reads_the_same_totals(cluster: Cluster, tmp_path: Path) -> None:
    policy = visits_policy(150)
    with sf.Curator(policy, tmp_path / "visits.ledger") as made:
        named = {words: reading for words, reading in readings(made, tuple(SOURCES), (1,)) if words in QUICK}
        assert named.keys() == set(QUICK)
        with closing(compared.on_spark(policy, tmp_path, compared.in_frames(cluster))) as spark:
            there = compared.totals(spark, list(named.values()), KEY, compared.quickly(spark))
        for (words, reading), totals in zip(named.items(), there, strict=True):
            with made._context.engine.check(reading) as opened:
                here = np.asarray(opened.read(reading, KEY))
            assert here.any(), words
            assert np.asarray(totals).tolist() == here.tolist(), words


@pytest.mark.long
def test_every_reading_over_connect_is_that_of_duckdb(cluster: Cluster, tmp_path: Path) -> None:
    policy = visits_policy()
    with closing(compared.on_spark(policy, tmp_path, compared.in_files(cluster))) as spark:
        assert compare_with_duckdb(policy, tmp_path, spark, tuple(SOURCES), (0, 2)) == 4 * 6 + 1
