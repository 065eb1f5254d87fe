"""What running totals, marginals and auctions about the clinic release, and what engines read of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from claims.claimed_questions import SAMPLING_KEY, Claims
from claims.clinic import REGIONS, clinic
from claims.recorded import check_claims
from mechanisms.recorded import keyed
from sfumato.audit.asked_questions.neighbouring_outcomes import flatten_release
from sfumato.audit.asked_questions.release_sampling import temporary_curator
from sfumato.curator import Curator
from sfumato.engine.lowering.reading_statements import (
    arrays_from_rows,
    join_server_results,
    server_readings,
    server_statement,
)
from sfumato.plan.bounding import bound_by_unit_weights, bound_by_whole_rows, for_neighbours
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.cell_rows import CellRows, CodedRows, CountedMarginals
from sfumato.plan.readings.dense_readings import Marginals
from sfumato.privacy import Neighbours

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
_WEEKS = "SELECT DATE_TRUNC('week', day) AS w, COUNT(*) AS n FROM visits GROUP BY w"
_MONTHS = "SELECT DATE_TRUNC('month', day) AS w, region, COUNT(*) AS n FROM visits GROUP BY w, region"


@pytest.fixture(scope="module", params=["add-remove", "replace"])
def curator(request: pytest.FixtureRequest) -> Iterator[Curator]:
    with temporary_curator(clinic(Neighbours(request.param))) as opened:
        yield opened


PROPOSALS: dict[str, tuple[Callable[[Curator], Any], dict[str, Any]]] = {
    "weeks": (lambda curator: curator.running(_WEEKS), {"epsilon": 20}),
    "weeks at a δ": (lambda curator: curator.running(_WEEKS), {"epsilon": 5, "delta": "1e-6"}),
    "months by region": (lambda curator: curator.running(_MONTHS), {"rho": 3}),
    "changes by code": (
        lambda curator: curator.running("SELECT code, SUM(change) AS n FROM visits GROUP BY code"),
        {"epsilon": 20},
    ),
    "pairs": (lambda curator: curator.marginals("visits", 2, columns=["region", "code", "urgent"]), {"epsilon": 20}),
    "single columns": (lambda curator: curator.marginals("visits", 1, columns=["region", "code"]), {"rho": 2}),
    "auction": (lambda curator: curator.auction("stays", "nights", prices=[1, 5, 12, 20]), {"epsilon": 9}),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_released_proposals(name: str, curator: Curator) -> None:
    propose, price = PROPOSALS[name]
    with keyed(name):
        shown = flatten_release(propose(curator).release(**price))
    claims: Claims = {cell: value for cell, value in shown.items() if "account" not in cell and "hash" not in cell}
    check_claims(f"measured/{name} {curator.policy.neighbours.value}", claims)


@pytest.mark.parametrize("name", ["weeks", "weeks at a δ", "months by region", "changes by code"])
def test_forecasts_of_running_totals(name: str, curator: Curator) -> None:
    propose, price = PROPOSALS[name]
    claims: Claims = {f"at {sure}": str(propose(curator).error(**price, confidence=sure)) for sure in ("0.95", "0.5")}
    answer = propose(curator).release(**price)
    for column, intervals in answer.intervals.items():
        claims[f"widths of {column}"] = tuple(f"{high - low:.9g}" for low, high in intervals if low is not None)
    check_claims(f"measured/{name} {curator.policy.neighbours.value} forecast", claims)


_CELLS = (REGIONS, (1, 2, 3), (False, True))


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_as_they_are_read(weighted: bool, curator: Curator) -> None:
    """A server that counts equal rows gives the same cells as DuckDB's stream of rows, and all marginals agree."""
    question: Any = curator.sql("SELECT region, code, urgent, COUNT(*) AS n FROM visits GROUP BY region, code, urgent")
    plan = question.query.plan
    keys = tuple(replace(key, domain=replace(key.domain, nullable=True)) for key in plan.keys)
    make = bound_by_unit_weights if weighted else bound_by_whole_rows
    bounded = for_neighbours(make(replace(plan, keys=keys), ContributionLimits(4, 3, 2), 60), curator.policy.neighbours)
    engine: Any = curator._context.engine
    claims: Claims = {}
    sets = ((), (0,), (1, 2), (0, 1, 2))
    for reading in (Marginals(bounded, _CELLS, sets), CellRows(bounded, _CELLS, sets)):
        found = engine.read(reading, SAMPLING_KEY)
        counted = [
            arrays_from_rows(engine.sources.run(engine._render(server_statement(part, SAMPLING_KEY))), part)
            for part in server_readings(reading)
        ]
        tables = [_tables(each) for each in (found, join_server_results(reading, counted))]
        assert tables[0] == tables[1]
        claims[type(reading).__name__] = tuple(tuple(each) for each in tables[0])
    assert claims["Marginals"] == claims["CellRows"]
    check_claims(f"measured/cells {curator.policy.neighbours.value} {weighted}", claims)


def _tables(found: Any) -> list[list[int]]:
    sets = ((), (0,), (1, 2), (0, 1, 2))
    if isinstance(found, CodedRows | CountedMarginals):
        return [found.marginal(each).tolist() for each in sets]
    return [np.asarray(each).reshape(-1).tolist() for each in found]
