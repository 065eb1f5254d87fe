"""What reaches Spark's driver is at most the cells that were asked for, whatever rows there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sfumato as sf
from engine import sent_rows
from engine.sent_rows import KINDS, ROWS
from engines.spark.compared import in_frames, kept_by_spark
from engines.spark.conftest import PANDAS, Cluster

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings(PANDAS),
    pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy"),
]
ALWAYS = ("quantiles of groups", "scores")
"""The kinds that are asked in every run: a plan takes seconds to compile."""


@pytest.fixture(scope="module")
def curator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    folder = tmp_path_factory.mktemp("sent")
    policy = kept_by_spark(sent_rows.policy(), folder, in_frames(cluster))
    with sf.Curator(policy, folder / "c.ledger") as opened:
        yield opened


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows that each action brings to the driver, as pyspark returns them."""
    from pyspark.sql.classic.dataframe import DataFrame

    counts: list[int] = []
    collect = DataFrame.collect

    def collect_and_count(frame: Any) -> list[Any]:
        rows = collect(frame)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(DataFrame, "collect", collect_and_count)
    return counts


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in ALWAYS else pytest.mark.long) for kind in KINDS]
)
def test_at_most_the_cells_that_are_asked_for_reach_the_driver(
    kind: str, curator: sf.Curator, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are 3,000, nearly all different: each kind has fewer cells than that."""
    sent_rows.count_few_steps(monkeypatch)
    KINDS[kind].release(curator)
    assert sent
    assert sum(sent) <= KINDS[kind].cells < ROWS
