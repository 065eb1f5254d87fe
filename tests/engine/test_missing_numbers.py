"""NaN is NULL whatever a file tells of its least and greatest values: Parquet leaves NaN out of them."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

NAN = math.nan
WORLDS = {
    "all others within the bounds": [NAN, 10.0, None, 12.0],
    "others beyond the bounds": [NAN, 6000.0, -3.0, 10.0],
    "nothing else": [NAN, NAN, NAN, NAN],
    "one value": [NAN, 7.0, 7.0, 7.0],
}
COLUMNS = {
    "bounded": {"type": "real", "bounds": (0, 5000), "nullable": True},
    "free": {"type": "real", "nullable": True},
    "listed": {"type": "real", "values": (7.0, 10.0, 12.0), "nullable": True},
    "whole": {"type": "integer", "bounds": (0, 5000), "nullable": True},
}


@pytest.fixture(params=["parquet", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("stored", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("cells", WORLDS.values(), ids=WORLDS)
def test_nan_is_missing(cells: list[float | None], stored: pa.DataType, kind: str, tmp_path: Path) -> None:
    column = pa.array(cells * 25, stored)
    table = pa.table({"who": list(range(100)), **dict.fromkeys(COLUMNS, column)})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "v.parquet")
    source = tmp_path / "v.parquet" if kind == "parquet" else table
    made = sf.Table("v", source, COLUMNS, id="who", max_rows=1)
    policy = sf.Policy(sf.PrivacyUnit("p"), sf.Budget(10**7), {"v": made})
    text = (
        "SELECT COUNT(bounded) AS a, COUNT(free) AS b, COUNT(listed) AS c, COUNT(whole) AS d,"
        " COUNT(*) FILTER (WHERE bounded <= 5000) AS e, COUNT(*) FILTER (WHERE free > 100) AS f FROM v"
    )
    with sf.Curator(policy, tmp_path / "ledger") as curator, pytest.warns(sf.WeakPrivacy):
        (found,) = curator.sql(text).release(epsilon=600).rows
    numbers = [each for each in cells if each is not None and not math.isnan(each)]
    kept = [each for each in numbers if each in (7, 10, 12)]
    exact = [len(numbers), len(numbers), len(kept), len(numbers), len(numbers), sum(each > 100 for each in numbers)]
    assert list(found) == [25 * each for each in exact]


def test_a_row_of_nan_belongs_to_nobody_in_a_file_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": [1.0, 2.0, NAN, None] * 50, "on": [True] * 200}), tmp_path / "v.parquet")
    made = sf.Table("v", tmp_path / "v.parquet", {"on": {"type": "boolean"}}, id="who", max_rows=50)
    policy = sf.Policy(sf.PrivacyUnit("p"), sf.Budget(10**7), {"v": made})
    with sf.Curator(policy, tmp_path / "ledger") as curator, pytest.warns(sf.WeakPrivacy):
        assert curator.sql("SELECT COUNT(*) AS n FROM v").release(epsilon=50_000).rows == ((100,),)
