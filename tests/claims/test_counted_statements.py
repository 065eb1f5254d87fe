"""The statements that a server runs, which counts equal rows itself, give the totals of those that DuckDB runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from claims.claimed_questions import SAMPLING_KEY, TitledQuestion, _reading, titled_questions
from claims.clinic import clinic
from sfumato.audit.asked_questions.release_sampling import temporary_curator
from sfumato.curator import Curator
from sfumato.engine.lowering.reading_statements import arrays_from_rows, server_statement
from sfumato.errors import Unsupported
from sfumato.plan.readings.dense_readings import ValueStepCounts
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals, PlanReading

_SECTIONS = ("counts", "found groups", "chosen values", "quantiles", "private joins")


@pytest.fixture(scope="module")
def patients() -> Iterator[Curator]:
    with temporary_curator(clinic()) as opened:
        yield opened


def _readings(curator: Curator, asked: TitledQuestion) -> list[PlanReading[Any]]:
    try:
        question = curator.sql(asked.text)
    except Unsupported:
        return []
    if question.free:
        return []
    totals = [_reading(question, each) for each in question.bounding_options[:1] if each.measures]
    return (
        totals
        if question.discovered_keys
        else [*totals, *(part.reading(question.groups) for part in question.other_parts)]
    )


def _plain(found: Any, reading: PlanReading[Any]) -> Any:
    """Write what was read as plain lists, in one order."""
    if isinstance(found, DiscoveredGroups):
        assert isinstance(reading, DiscoveredTotals)
        places = np.arange(len(found.holders))
        totals = found.totals_for(places, len(reading.declared_groups)).reshape(len(places), -1).tolist()
        return sorted(map(repr, zip(found.key_values(places), found.holders.tolist(), totals, strict=True)))
    if isinstance(found, ValueStepCounts):
        return [each.tolist() for each in (found.group, found.steps, found.counts)]
    return np.asarray(found).tolist()


@pytest.mark.parametrize(
    "section",
    [pytest.param(each, marks=[pytest.mark.long] if each in ("counts", "chosen values") else []) for each in _SECTIONS],
)
def test_rows_counted_by_a_server_make_the_same_totals(section: str, patients: Curator) -> None:
    engine: Any = patients._context.engine
    compared = 0
    for asked in titled_questions():
        for reading in _readings(patients, asked) if asked.section == section else ():
            exact = engine.read(reading, SAMPLING_KEY)
            rows = engine.sources.run(engine._render(server_statement(reading, SAMPLING_KEY)))
            assert _plain(arrays_from_rows(rows, reading), reading) == _plain(exact, reading), asked.title
            compared += 1
    assert compared > 4
