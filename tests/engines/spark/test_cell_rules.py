"""Spark reads cells by the rules of their columns as DuckDB does, to the last bit."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from engine.ruled import all_cells
from engine.test_ruled_cells import clean
from engines.spark.conftest import PANDAS, Cluster
from sfumato.engine.inspecting import open_inspector
from sfumato.engine.spark.driver import Spark
from sfumato.policy import Table

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]


def test_cells_mean_the_same_on_spark(cluster: Cluster, tmp_path: Path) -> None:
    """All cells by hand and a thousand random ones of each column."""
    here, path = all_cells(1_000), tmp_path / "t.parquet"
    table = here.tables["t"]
    pyarrow.parquet.write_table(table.source.table, path)
    stored = {"path": str(path), "format": "parquet"}
    moved = Table("t", cluster.address, table.columns, id="row", rules=table.rules, **stored)  # type: ignore[arg-type]
    there = replace(here, tables={"t": moved})
    with contextlib.closing(Spark(there)) as engine:
        frame = engine.tables.scan("t").orderBy("n")
        read = engine.tables.run(lambda: frame)
    for name, theirs, own in zip(table.columns, zip(*read, strict=True), zip(*clean(here), strict=True), strict=True):
        assert theirs == own, name
    with open_inspector(here) as own_figures, open_inspector(there) as their_figures:
        assert their_figures.inspect("t") == own_figures.inspect("t")
        for column in ("german", "day", "word", "coded_truth", "stored_real"):
            asked = "t", column, ("NA", "\\N")
            assert their_figures.lost_texts(*asked) == own_figures.lost_texts(*asked), column
