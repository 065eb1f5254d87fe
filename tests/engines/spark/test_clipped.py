"""Spark counts clamped cells, reads impossible ones as missing and leaves further rows out, as DuckDB does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from engines.spark.compared import Given, in_files, in_frames, kept_by_spark
from engines.spark.conftest import PANDAS, Cluster
from safety.test_worst_cases import CELLS, KEY, units, visits
from sfumato.release.requests import PriceRequest

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]
SQL = "SELECT SUM(cost) AS x FROM visits WHERE ward = 'A'"


def exact_totals(policy: sf.Policy, ledger: Path) -> Iterator[tuple[str, list[int]]]:
    """The totals of a question, and of the counts of what limits and bounds cut from it, before noise."""
    with sf.Curator(policy, ledger) as curator:
        question: Any = curator.sql(SQL)
        for name, each in {"sum": question, **question.clipped().questions}.items():
            (reading,) = each.release_strategy(each.price_release(PriceRequest(1))).readings
            totals = np.asarray(each._context.engine.check(reading).read(reading, KEY))
            yield name, totals.ravel().tolist()


@pytest.mark.parametrize("given", [in_files, in_frames])
def test_what_bounds_and_limits_cut_is_that_of_duckdb(
    cluster: Cluster, given: Callable[[Cluster], Given], tmp_path: Path
) -> None:
    """Files have a version and are read in place; a frame has none, and is read from a copy."""
    here = visits([*units([("A", cell) for cell in CELLS])], max_rows=2)
    ours = list(exact_totals(here, tmp_path / "here"))
    theirs = list(exact_totals(kept_by_spark(here, tmp_path, given(cluster)), tmp_path / "there"))
    assert theirs == ours
    assert dict(ours)["cost outside 1…2"][0] > 0
