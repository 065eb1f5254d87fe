"""What Spark keeps of a reading where its operators look: in the event log, which its web pages show too.

Numbers of rows are there, and no setting of Spark leaves them out. No cell is there, no key of a secret sample, and no
expression whose value would change if a lost task ran again.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from engine.tables import policy_of, tuples
from engines.spark import compared
from engines.spark.conftest import PANDAS, Cluster
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.inspecting import open_inspector
from sfumato.engine.spark.driver import Spark
from sfumato.plan.bounding import ContributionLimits, bound_for_discovery, candidate_bounded_plans
from sfumato.plan.limits import combined_key, hash_prefix
from sfumato.plan.readings.total_readings import DiscoveredTotals, GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]
_KINDS = [
    pytest.param(compared.in_frames, id="classic"),
    pytest.param(compared.in_files, id="Connect", marks=pytest.mark.long),
]
_KEY = combined_key(2**127 + 0xABCDEF, 5)
_PLACES = ("north", "south")
_COLUMNS = {"place": {"values": list(_PLACES)}, "note": {"type": "text", "max_length": 40}}


def _rows() -> pa.Table:
    """A hundred people with nine rows each, a third of them in the north, and a note that only one of them has."""
    people = [number % 100 for number in range(900)]
    notes = [f"cell of {person}" if person < 50 else "common" for person in people]
    places = [_PLACES[number % 3 > 0] for number in range(900)]
    return pa.table({"who": [f"unit {person}" for person in people], "place": places, "note": notes})


def _policy(source: Any, **said: Any) -> Policy:
    return policy_of(Table("t", source, _COLUMNS, id="who", max_rows=5, max_groups=2, **said))  # type: ignore[arg-type]


def _sampled(engine: Any) -> GroupTotals:
    """Samples of rows, of the people of a secret sample."""
    plan = parse("SELECT place, COUNT(*) FROM t GROUP BY place", engine.catalog()).plan
    strategies = candidate_bounded_plans(plan, ContributionLimits.from_table(engine._policy.tables["t"]), len(_PLACES))
    bounded = next(each for each in strategies if each.strategy.value == "sample")
    return GroupTotals(replace(bounded, sample=Fraction(1, 3)), tuple((place,) for place in _PLACES))


def _discovered(engine: Any) -> DiscoveredTotals:
    plan = parse("SELECT note, COUNT(*) FROM t GROUP BY note", engine.catalog()).plan
    return DiscoveredTotals(
        bound_for_discovery(plan, ContributionLimits.from_table(engine._policy.tables["t"])), (0,), ((),)
    )


def _logged(cluster: Cluster, start: int) -> str:
    cluster.events(start)  # all of them are written
    with cluster.event_log.open("rb") as log:
        log.seek(start)
        return log.read().decode()


@pytest.mark.parametrize("given", _KINDS)
def test_no_cell_and_no_secret_is_in_the_event_log(cluster: Cluster, given: Any, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(_rows(), path := tmp_path / "t.parquet")
    start = cluster.event_log.stat().st_size
    here, there = DuckDB(_policy(path)), Spark(_policy(**given(cluster)(path)))
    with contextlib.closing(here), contextlib.closing(there):
        assert tuples(there.read(_sampled(there), _KEY)) == tuples(here.read(_sampled(here), _KEY))
        assert compared.rows(there.read(_discovered(there), 7), 1) == compared.rows(here.read(_discovered(here), 7), 1)
    logged = _logged(cluster, start)
    assert "SQLExecutionStart" in logged
    for private in (hash_prefix(_KEY).rstrip("|"), "unit ", "cell of ", "INDETERMINATE"):
        assert private not in logged, private


@pytest.mark.long
@pytest.mark.parametrize("given", _KINDS)
def test_exact_counts_are_in_the_event_log(cluster: Cluster, given: Any, tmp_path: Path) -> None:
    """The documentation says so: whoever reads the log knows what was counted before any noise."""
    pyarrow.parquet.write_table(_rows(), path := tmp_path / "t.parquet")
    with contextlib.closing(Spark(_policy(**given(cluster)(path)))) as spark:
        start = cluster.event_log.stat().st_size
        plan = parse("SELECT COUNT(*) FROM t WHERE place = 'north'", spark.catalog()).plan
        bounded = candidate_bounded_plans(plan, ContributionLimits.from_table(spark._policy.tables["t"]), 1)[0]
        spark.read(GroupTotals(bounded, ((),)), 7)
    ended = [event for event in cluster.events(start) if event["Event"] == "SparkListenerStageCompleted"]
    metrics = [metric for event in ended for metric in event["Stage Info"]["Accumulables"]]
    exact = _rows().column("place").to_pylist().count("north")
    assert any(metric["Name"] == "number of output rows" and int(metric["Value"]) == exact for metric in metrics)


def test_an_owner_is_told_that_there_is_an_event_log(cluster: Cluster, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(_rows(), path := tmp_path / "t.parquet")
    with open_inspector(_policy(**compared.in_frames(cluster)(path))) as inspector:
        assert any("event log" in remark for remark in inspector.remarks("t"))
