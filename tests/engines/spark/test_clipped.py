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
from safety.test_worst_cases import CELLS, KEY, MEASURES, units, visits
from sfumato.release.requests import PriceRequest

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]
SQL = [f"SELECT {measure} AS x FROM visits WHERE ward = 'A'" for measure in MEASURES.values()]


def exact_totals(policy: sf.Policy, ledger: Path) -> Iterator[tuple[str, list[int]]]:
    """The totals of questions, and of the counts of what limits and bounds cut from them, before noise."""
    with sf.Curator(policy, ledger) as curator:
        for text in SQL:
            question: Any = curator.sql(text)
            counts = question.clipped().questions
            for name, each in {"": question, **counts}.items():
                (reading,) = each.release_strategy(each.price_release(PriceRequest(1))).readings
                totals = np.asarray(each._context.engine.check(reading).read(reading, KEY))
                yield f"{text}: {name}", totals.ravel().tolist()


@pytest.mark.parametrize("given", [in_files, in_frames])
def test_what_bounds_and_limits_cut_is_that_of_duckdb(
    cluster: Cluster, given: Callable[[Cluster], Given], tmp_path: Path
) -> None:
    """Files have a version and are read in place; a frame has none, and is read from a copy."""
    here = visits([*units([("A", cell) for cell in CELLS])], max_rows=2)
    ours = list(exact_totals(here, tmp_path / "here"))
    theirs = list(exact_totals(kept_by_spark(here, tmp_path, given(cluster)), tmp_path / "there"))
    assert theirs == ours
    assert any("cost beyond 1…2" in name and totals[0] > 0 for name, totals in ours)
