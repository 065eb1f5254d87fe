"""Across tables too: whoever is in them, one outcome, text, order, statements and charge."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace

import pytest

from plan.test_joins import REFUSED
from safety import towns
from safety.test_outcomes import same, silenced
from safety.test_towns import ACROSS, PATHS, PERIODS, UNITS
from sfumato.curator.curators import Curator

pytestmark = pytest.mark.timeout(3600)
TABLES = ("", "many rows", "everybody's visits", "nulls")


RELATIONS = ("add-remove", "replace", "add-remove day")


@pytest.fixture(scope="module", params=RELATIONS)
def curators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Curator]]:
    relation, *every = request.param.split()
    town = towns.town(Random(5), *every)
    chosen = {"one person": town.added["random"], **{name: town.tables()[name] for name in TABLES}}
    folder = tmp_path_factory.mktemp("towns")
    found = [
        Curator(towns.policy(rows, relation, *every), folder / f"{index}.ledger")
        for index, rows in enumerate(chosen.values())
    ]
    yield found
    for each in found:
        each.close()


@pytest.fixture(autouse=True)
def _silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", silenced)
    monkeypatch.setattr("sfumato.release.releasing.bits", SimpleNamespace(random_bits=lambda _: 7))


def test_one_outcome_whoever_is_in_the_tables(
    curators: list[Curator], long: bool, request: pytest.FixtureRequest
) -> None:
    """Every thirtieth text under each relation, other ones under the next: all in the long run."""
    every = curators[0].policy.unit.period
    answered = PATHS + (ACROSS + UNITS if every is None else PERIODS[every])
    refused = tuple(text for text, *_ in REFUSED)
    start = 10 * RELATIONS.index(request.node.callspec.params["curators"])
    for text in answered + refused if long else (answered + refused)[start::30]:
        first = same(curators, text, epsilon="0.001")
        assert ("answer" in first) == (text in answered), (text, first.get("refused"))
        assert bool(any(first["charged"].values())) == ("answer" in first), text
