"""Functions mean on Spark what they mean on DuckDB, value by value, also on values that are made to break them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

from engine.hostile_functions import batches, compared_rows, hostile_columns, with_columns
from engine.lowered import selected
from engines.spark.conftest import PANDAS, Cluster
from sfumato.engine.spark.sessions import SparkConnection, connect, without_cause
from sfumato.engine.spellings.spark import SparkSpelling
from sfumato.plan.values.functions import FUNCTIONS
from sfumato.policy import Type

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]
STORED = {
    Type.INTEGER: pa.int64(),
    Type.REAL: pa.float64(),
    Type.TEXT: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
}


@pytest.fixture(scope="module")
def hostile(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, SparkConnection, Path]]:
    """The same tables of hostile values on both; Spark reads them from files, so that it knows no value beforehand."""
    folder, session = tmp_path_factory.mktemp("hostile"), connect(cluster.address, "here")
    with duckdb.connect() as duck:
        for column, domain, values in hostile_columns(duck):
            table = pa.table({column: pa.array(values, STORED[domain.type])})
            pyarrow.parquet.write_table(table, folder / f"{column}.parquet")
        yield duck, session, folder
    session.close()


@pytest.mark.parametrize(
    ("most_tables", "share", "code", "least"),
    [(2, 24, True, 15_000), (3, 1, False, 372_000)],
    ids=["some", "every place"],
)
def test_functions_mean_the_same_on_hostile_values(
    hostile: tuple[Any, SparkConnection, Path], most_tables: int, share: int, code: bool, least: int
) -> None:
    """Once in code that Spark writes for a statement, and once, in every place, as it computes without."""
    duck, session, folder = hostile
    session.spark.conf.set("spark.sql.codegen.wholeStage", str(code).lower())
    session.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if code else "NO_CODEGEN")
    count, seen = 0, set()
    for tables, part in batches(most_tables, share, 30):
        nodes = with_columns(part)
        names = [each.strip('"') for each in tables]
        files = ", ".join(f"parquet.`{folder}/{each}.parquet`" for each in names)
        theirs = selected(nodes, f"(SELECT * FROM {files})" if tables else "(SELECT 1)", SparkSpelling())
        ours = selected(nodes, f"(SELECT * FROM {', '.join(tables)})" if tables else "(SELECT 1)")
        found = [tuple(row) for row in without_cause(lambda sql=theirs: session.spark.sql(sql).collect())]  # type: ignore[misc]
        count += compared_rows(part, duck.execute(ours).fetchall(), found)
        seen |= {name for name, _ in part}
    assert count > least
    assert seen == set(FUNCTIONS)
