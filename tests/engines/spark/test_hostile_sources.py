"""What a session, a catalog, a cache or a line of a file may hold changes no answer: it is read, or refused."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from engine.tables import tuples
from engines.spark.conftest import PANDAS, Cluster
from engines.spark.test_spark import _policy, _reading, _rows
from sfumato.curator.curators import Curator
from sfumato.engine.opening import open_engine
from sfumato.engine.spark import driver
from sfumato.engine.spark.driver import Spark
from sfumato.engine.spark.frames import require_correct_results
from sfumato.engine.spark.sessions import open_sibling_session
from sfumato.errors import InvalidPolicy, SourceChanged, SourceTaken
from sfumato.plan.bounding import ContributionLimits, Strategy, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.grammars import LONGEST_ID
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS), pytest.mark.long]
_PLACE = "tables.t.source"


@pytest.fixture
def user(cluster: Cluster) -> Iterator[Any]:
    """A session of somebody's own, over Connect."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=cluster.address)
    yield session
    session.client.release_session()
    session.client.close()


def test_a_function_called_as_one_of_sparks_is_refused(user: Any) -> None:
    frame = user.sql("SELECT 1 AS who, 'north' AS place, 1D AS cost")
    user.udf.register("twice", lambda text: text + text, "string")
    open_sibling_session(frame, _PLACE).close()
    user.udf.register("Least", lambda text: text, "string")
    with pytest.raises(InvalidPolicy, match="called least"):
        open_sibling_session(frame, _PLACE)


def test_a_clone_is_proved_by_itself(user: Any) -> None:
    """What another session of the same Spark was found to compute says nothing of one that began as a user's."""
    session = open_sibling_session(user.sql("SELECT 1 AS who"), _PLACE)
    require_correct_results(session, _PLACE)
    session.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with pytest.raises(InvalidPolicy):
        require_correct_results(session, _PLACE)
    session.close()


def test_no_line_of_a_file_fails_a_question(cluster: Cluster, tmp_path: Path) -> None:
    """Limits and one beyond: 1,000 bytes are read as a number, 1,001 are none; and a line may have many cells."""
    path = tmp_path / "t.csv"
    read, unread = "5".rjust(1000), "5".rjust(1001)
    lines = ["who,place,cost", f"1,north,{read}", f"2,north,{unread}", "3,north,7" + ",x" * 30_000, "4,north,2"]
    path.write_text("\n".join(lines) + "\n")
    with contextlib.closing(Spark(_policy(cluster.address, path=str(path), format="csv"))) as spark:
        reading = _reading(spark, Strategy.CLIP_L1)
        (count, total, people), *_ = tuples(spark.read(reading, 1))
        bits = [each.bits for each in reading.bounded.measures]
    assert [count >> bits[0], total >> bits[1], people >> bits[2]] == [4, 4 * (5 + 7 + 2), 4]


@pytest.mark.parametrize("period", [None, "day"])
def test_ids_that_are_doubles_are_units_as_numbers_are(cluster: Cluster, tmp_path: Path, period: str | None) -> None:
    """−0 is 0, and what is no number is nobody."""
    path, day = tmp_path / "t.parquet", dt.date(2024, 1, 31)
    ids = [0.0, -0.0, float("nan"), 1.5, None, float("inf"), float("inf")]
    pyarrow.parquet.write_table(pa.table({"who": pa.array(ids, pa.float64()), "day": [day] * len(ids)}), path)
    columns = {"day": {"type": "date", "bounds": [day, day]}}
    said = {"path": str(path), "format": "parquet", "max_rows": 5}
    table = Table("t", cluster.address, columns, id="who", **said)  # type: ignore[arg-type]
    unit = PrivacyUnit("person", period=period, period_column=period and "day")
    with contextlib.closing(Spark(Policy(unit, Budget(1), {"t": table}))) as spark:
        asked = "(who, day)" if period else "who"
        plan = parse(f"SELECT COUNT(DISTINCT {asked}) FROM t", spark.catalog()).plan
        (bounded, *_) = candidate_bounded_plans(plan, ContributionLimits.from_table(table), 1)
        assert tuples(spark.read(GroupTotals(bounded, ((),)), 1)) == [(3 << bounded.measures[0].bits,)]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_an_id_beyond_the_longest_is_nobodys(cluster: Cluster, tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "t.parquet"
    ids = ["é" * (LONGEST_ID // 2), "é" * (LONGEST_ID // 2) + "x", "x", "y" * 10**6]
    stored = pa.array([each.encode() for each in ids], pa.binary()).cast(kind)
    pyarrow.parquet.write_table(pa.table({"who": stored}), path)
    table = Table("t", cluster.address, {}, id="who", max_rows=5, path=str(path), format="parquet")
    with contextlib.closing(Spark(Policy(PrivacyUnit("person"), Budget(1), {"t": table}))) as spark:
        plan = parse("SELECT COUNT(DISTINCT who) FROM t", spark.catalog()).plan
        (bounded, *_) = candidate_bounded_plans(plan, ContributionLimits.from_table(table), 1)
        assert tuples(spark.read(GroupTotals(bounded, ((),)), 1)) == [(2 << bounded.measures[0].bits,)]


def test_a_catalogs_table_of_lines_is_refused(cluster: Cluster) -> None:
    sql = cluster.classic.sql
    sql("CREATE TABLE lines (who INT, place STRING, cost DOUBLE) USING csv OPTIONS (mode 'FAILFAST')")
    try:
        with pytest.raises(InvalidPolicy, match="kept in csv"):
            Spark(_policy(cluster.address, relation="lines"))
    finally:
        sql("DROP TABLE lines")


@pytest.fixture
def stored(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """A table of a catalog whose files are here."""
    (folder := tmp_path / "stored").mkdir()
    pyarrow.parquet.write_table(_rows(20), folder / "one.parquet")
    cluster.classic.sql(f"CREATE TABLE visits USING parquet LOCATION '{folder}'")
    yield folder
    cluster.classic.sql("DROP TABLE visits")


def test_one_table_has_one_address_whatever_it_is_called(cluster: Cluster, stored: Path) -> None:
    def addresses(**said: str) -> set[str]:
        with contextlib.closing(Spark(_policy(cluster.address, **said))) as spark:
            return {each.address for each in spark.data(public=False)}

    names = [addresses(relation=each) for each in ("visits", "default.visits", "spark_catalog.default.visits")]
    paths = [addresses(path=each, format="parquet") for each in (f"{stored}", f"{stored}/", f"file:{stored}")]
    assert names[0] == names[1] == names[2]
    assert paths[0] == paths[1] == paths[2]
    assert paths[0] < names[0]


@pytest.mark.usefixtures("stored")
def test_rows_in_the_cache_are_not_read(cluster: Cluster) -> None:
    policy = _policy(cluster.address, relation="visits")
    with contextlib.closing(Spark(policy)) as spark:
        cluster.classic.catalog.cacheTable("visits")
        try:
            with pytest.raises(SourceChanged):
                spark.check(_reading(spark))
            with pytest.raises(InvalidPolicy, match="cache"):
                Spark(policy)
        finally:
            cluster.classic.catalog.uncacheTable("visits")
        spark.check(_reading(spark)).close()


def test_one_folder_of_a_table_changes_no_cell_of_others(cluster: Cluster, tmp_path: Path) -> None:
    """Folders of partitions are texts, whatever folders there are: "01" is not 1, with or without a unit in "north"."""
    found = []
    for extra in (False, True):
        (folder := tmp_path / f"rows {extra}").mkdir()
        for place, people in {"01": range(9), "1": range(20, 23), **({"north": [99]} if extra else {})}.items():
            (part := folder / f"place={place}").mkdir()
            pyarrow.parquet.write_table(
                pa.table({"who": list(people), "cost": [1.0] * len(people)}), part / "a.parquet"
            )
        columns = {"place": {"values": ["1", "01", "north"]}}
        policy = _policy(cluster.address, columns, path=str(folder), format="parquet")
        with contextlib.closing(Spark(policy)) as spark:
            plan = parse("SELECT place, COUNT(*) FROM t GROUP BY place", spark.catalog()).plan
            bounded = next(iter(candidate_bounded_plans(plan, ContributionLimits.from_table(policy.tables["t"]), 3)))
            totals = tuples(spark.read(GroupTotals(bounded, (("1",), ("01",), ("north",))), 1))
            found.append([total >> bounded.measures[0].bits for (total,) in totals])
    assert found == [[3, 9, 0], [3, 9, 1]]


def test_rows_are_known_by_their_folders_whatever_leads_there(cluster: Cluster, stored: Path) -> None:
    """By a view, a pattern, or a file of a folder that has few; a file that is named alone has no folder of its own."""
    pyarrow.parquet.write_table(_rows(5), stored.parent / "alone.parquet")

    def addresses(**said: str) -> set[str]:
        with contextlib.closing(Spark(_policy(cluster.address, **said))) as spark:
            return {each.address for each in spark.data(public=False)}

    cluster.classic.sql("CREATE VIEW seen AS SELECT *, 1 AS one FROM visits")
    try:
        whole = addresses(path=str(stored), format="parquet")
        for said in ({"relation": "seen"}, {"relation": "visits"}):
            assert whole & addresses(**said)
        for path in (f"{stored}/*.parquet", f"{stored}/one.parquet"):
            assert whole & addresses(path=path, format="parquet")
        assert not whole & addresses(path=f"{stored.parent}/alone.parquet", format="parquet")
    finally:
        cluster.classic.sql("DROP VIEW seen")


@pytest.mark.usefixtures("stored")
def test_nothing_of_a_view_is_of_one_version(cluster: Cluster) -> None:
    cluster.classic.sql("CREATE VIEW seen AS SELECT * FROM visits")
    try:
        with contextlib.closing(Spark(_policy(cluster.address, relation="seen"))) as spark:
            assert spark.identity() != spark.identity()
        with contextlib.closing(Spark(_policy(cluster.address, relation="visits"))) as spark:
            assert spark.identity() == spark.identity()
    finally:
        cluster.classic.sql("DROP VIEW seen")


def test_a_public_table_is_fetched_from_the_spark_that_it_names(cluster: Cluster, stored: Path, tmp_path: Path) -> None:
    """Private rows may be anywhere; the ledger is asked about it by where it is, and it has at most so many rows."""
    zones = Table("zones", cluster.address, public=True, path=str(stored), format="parquet")
    here = Table(
        "t", pa.table({"who": [1, 2], "place": ["north", "north"]}), {"place": {"type": "text"}}, id="who", max_rows=1
    )
    policy = Policy(PrivacyUnit("person"), Budget(5), {"t": here, "zones": zones})
    with contextlib.closing(open_engine(policy)) as engine:
        known = {each.address for each in engine.data(public=True)}
        assert engine.catalog().tables["zones"].columns
    with contextlib.closing(Spark(_policy(cluster.address, relation="visits"))) as spark:
        assert known & {each.address for each in spark.data(public=False)}
    elsewhere = replace(zones, source=replace(zones.source, address="sc://127.0.0.1:1"))
    for private in (here, _policy(cluster.address, path=str(stored), format="parquet").tables["t"]):
        with pytest.raises(InvalidPolicy, match="zones"):
            open_engine(replace(policy, tables={"t": private, "zones": elsewhere}))
    own = {"t": _policy(cluster.address, path=str(stored), format="parquet").tables["t"]}
    Curator(Policy(PrivacyUnit("person"), Budget(5), own, account="first"), tmp_path / "c.ledger").close()
    with pytest.raises(SourceTaken):
        Curator(replace(policy, account="second"), tmp_path / "c.ledger")


def test_public_rows_of_spark_are_carried_up_to_a_limit(
    cluster: Cluster, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = Table("zones", cluster.address, public=True, path=str(stored), format="parquet")
    monkeypatch.setattr(driver, "MAX_CARRIED_ROWS", 20)
    assert driver.fetch_public_table(zones).table.num_rows == 20
    monkeypatch.setattr(driver, "MAX_CARRIED_ROWS", 19)
    with pytest.raises(InvalidPolicy, match="may have at most"):
        driver.fetch_public_table(zones)
