"""Everything a skin needs is a method of the curator, and nothing public hands out the engine or exact totals."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sfumato as sf
from sfumato.curator import CheckReport, Standing, amend, check, history, standing

COUNTS = "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sf.example(tmp_path / "flights")


@pytest.fixture
def flights(policy: Path) -> Iterator[sf.Curator]:
    with sf.open(policy) as curator:
        yield curator


def test_what_is_left_is_told_with_and_without_the_data(policy: Path, flights: sf.Curator) -> None:
    before = standing(policy)
    assert flights.standing() == before
    flights.as_analyst("ana").sql(COUNTS).release(epsilon="0.5")
    assert flights.standing() == standing(policy) == standing(flights.policy) != before
    mine = flights.standing("ana")
    assert mine == flights.as_analyst("ana").standing() == standing(policy, analyst="ana")
    assert mine.left["pure"] == 1
    assert isinstance(mine, Standing)
    with pytest.raises(sf.InvalidParameter, match="one of the analysts in the policy"):
        flights.standing("bob")
    with pytest.raises(sf.InvalidParameter) as refused:
        flights.as_analyst("bob")
    assert refused.value.fix == "name one of ana, or add [analysts.<name>] to the policy"


def test_what_was_asked_is_told_with_and_without_the_data(policy: Path, flights: sf.Curator) -> None:
    flights.sql(COUNTS).release(epsilon="0.5")
    flights.as_analyst("ana").sql("SELECT COUNT(*) AS n FROM flights").release(epsilon="0.25")
    lines = list(flights.history())
    assert [line.kind for line in lines].count("charge") == 2
    assert [line.number for line in history(policy)] == [line.number for line in lines]
    mine = [line.number for line in flights.as_analyst("ana").history()]
    assert (
        mine
        == [line.number for line in flights.history("ana")]
        == [line.number for line in history(policy, analyst="ana")]
    )
    assert 0 < len(mine) < len(lines)


def test_an_owner_amends_what_the_file_says_now(policy: Path, flights: sf.Curator) -> None:
    policy.write_text(policy.read_text().replace("epsilon = 3.0", "epsilon = 4.0"))
    assert flights.amend(reason="a second year").kind == "amend"
    assert flights.standing().epsilon == flights.policy.budget.epsilon == 4
    flights.sql(COUNTS).release(epsilon="3.5")
    with pytest.raises(sf.InvalidParameter, match="spent"):
        amend(
            sf.Policy(flights.policy.unit, sf.Budget(3, "1e-6"), dict(flights.policy.tables), path=policy),
            reason="less",
        )
    with sf.open(policy) as again:
        assert again.standing().epsilon == 4


def test_what_is_the_owners_is_not_an_analysts(flights: sf.Curator) -> None:
    ana = flights.as_analyst("ana")
    for call in (ana.check, lambda: ana.amend(reason="more for me")):
        with pytest.raises(sf.SfumatoError, match="only the owner"):
            call()
    for ask in (ana.standing, ana.history):
        with pytest.raises(sf.InvalidParameter, match="only the owner can see other analysts"):
            ask("bob")


def test_a_policy_is_checked_as_a_value(policy: Path, flights: sf.Curator) -> None:
    found = flights.check()
    assert isinstance(found, CheckReport)
    assert found.refusal is None
    private, public = found.tables
    assert private.costs is not None
    assert private.costs.rows > 50_000
    assert public.costs is None
    shown = check(policy, private=False)
    assert [(each.costs, each.content is None) for each in shown.tables] == [(None, True), (None, False)]
    policy.with_name("flights.parquet").unlink()
    refused = check(policy)
    assert refused.tables == ()
    assert isinstance(refused.refusal, sf.InvalidPolicy)


# ── nothing public hands out the engine or exact totals ──


HANDS = (duckdb.DuckDBPyConnection, sqlite3.Connection, np.ndarray)


def _public(owner: object) -> Iterator[tuple[str, object]]:
    """Attributes and properties without an underscore; methods are theirs who call them."""
    for name in dir(owner):
        if not name.startswith("_"):
            try:
                yield name, getattr(owner, name)
            except sf.SfumatoError:
                continue


def _walk(owner: object, path: str, seen: dict[int, object]) -> Iterator[tuple[str, object]]:
    """Everything that can be reached from a value by public names."""
    if id(owner) in seen or isinstance(owner, (str, bytes, int, float, type, type(None))):
        return
    seen[id(owner)] = owner  # kept, so that no other object gets its number
    yield path, owner
    if isinstance(owner, Mapping):
        inside = [(f"[{key!r}]", each) for key, each in owner.items()]
    elif isinstance(owner, (tuple, list, set, frozenset)):
        inside = [(f"[{index}]", each) for index, each in enumerate(owner)]
    elif callable(owner):
        bound = getattr(owner, "__self__", None)
        inside = [] if bound is None or isinstance(bound, type) else [(".__self__", bound)]
    elif type(owner).__module__.startswith("sfumato"):
        inside = [(f".{name}", each) for name, each in _public(owner)]
    else:
        return
    for name, each in inside:
        yield from _walk(each, path + name, seen)


def _reads(each: object) -> bool:
    """Whether this is an engine, whatever its class."""
    return all(hasattr(each, name) for name in ("catalog", "check", "interrupt", "close"))


def _handed_out(owner: object) -> list[str]:
    return [
        path
        for path, each in _walk(owner, type(owner).__name__, {})
        if isinstance(each, HANDS) or _reads(each) or type(each).__module__.startswith("sfumato.engine")
    ]


def test_no_public_attribute_leads_to_the_engine_or_to_exact_totals(flights: sf.Curator) -> None:
    question = flights.sql(COUNTS)
    auction = flights.auction("flights", "distance", prices=[100, 200])
    answer = question.release(epsilon="0.5")
    view = flights.table("flights").where("delay > 5")
    built = view.group_by("origin").agg(n=sf.count())
    proposed = flights.above(5000)
    session = proposed.release("0.5")
    session.ask("SELECT COUNT(*) FROM flights")
    for each in (proposed, session, *session.answers):
        assert _handed_out(each) == []
    marginals = flights.marginals("flights", [["origin"]])
    assert [path for path in _handed_out(marginals) if ".hierarchy." not in path] == []  # public numbers of the cells
    for each in (flights, flights.as_analyst("ana"), question, answer, auction, view, view.group_by("origin"), built):
        assert _handed_out(each) == []


def test_the_walk_would_find_them(flights: sf.Curator) -> None:
    holder: Any = flights.sql(COUNTS)
    object.__setattr__(holder, "engine", flights._context.engine)
    assert "Question.engine" in _handed_out(holder)
    object.__setattr__(holder, "engine", None)
    object.__setattr__(holder, "values", {"read": [flights._context.engine.read]})
    assert any("values" in each for each in _handed_out(holder))
