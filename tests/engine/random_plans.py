"""Random plans on an engine beside DuckDB: equal to the last whole number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

import pytest

from engine.hostile_functions import NEAR
from engine.tables import tuples
from safety import towns
from safety.found import reading, rows
from safety.strange_rows import found_question, strange_rows
from safety.tree_questions import tree
from safety.worlds import question, text, world
from sfumato.curator.context import Context
from sfumato.curator.proposals.questions import Question
from sfumato.engine.protocols import Engine
from sfumato.errors import Unsupported
from sfumato.plan.bounding import BoundedPlan, bound_for_discovery, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sharing import with_requests_as_measures
from sfumato.policy import Policy
from sfumato.release.running_work import ignore_progress


class Sessions(Protocol):
    """A server that takes the tables of a policy."""

    def engine(self, policy: Policy) -> Engine: ...


EVERY = 99
"""More boundings than any question has."""
Choose = Callable[[tuple[BoundedPlan, ...]], Sequence[BoundedPlan]]


def _bounded(engine: Engine, policy: Policy, asked: str) -> tuple[Any, tuple[BoundedPlan, ...]] | None:
    """A question with its boundings; None where its text is refused."""
    try:
        plan = question(engine, policy, asked)  # type: ignore[arg-type]
        plan.groups  # noqa: B018 - found now
    except Unsupported:
        return None
    totals = with_requests_as_measures(plan.query.plan)
    if plan.discovered_keys:
        return plan, (bound_for_discovery(totals, plan.limits),)
    return plan, tuple(candidate_bounded_plans(totals, plan.limits, len(plan.groups)))


Asked = tuple[str, Any, BoundedPlan]
"""A question's text, itself, and one bounding of its plan."""


def _asked(first: Engine, second: Engine, policy: Policy, text: str, choose: Choose) -> list[Asked]:
    """A question in the boundings that are chosen; none where it is refused, on both engines, or asks for a function
    whose last place libraries round in their own ways.
    """
    if any(f"{each}(" in text for each in NEAR):
        return []
    found = _bounded(first, policy, text)
    if found is None:
        with pytest.raises(Unsupported):
            question(second, policy, text).groups  # type: ignore[arg-type]  # noqa: B018
        return []
    plan, boundings = found
    context = Context(policy, second, None, ignore_progress, "version 1")  # type: ignore[arg-type]
    again = Question(context, text, plan.query, plan.limits)
    assert sorted(map(repr, again.groups)) == sorted(map(repr, plan.groups)), text
    return [(text, plan, bounded) for bounded in choose(boundings)]


def _totals(opened: Any, plan: Any, bounded: BoundedPlan, key: int) -> Any:
    if not plan.discovered_keys:
        return tuples(opened.read(GroupTotals(bounded, plan.groups), key))
    own = reading(plan, bounded)
    return rows(opened.read(own, key), len(own.declared_groups))


def _equal(first: Engine, second: Engine, policy: Policy, texts: Sequence[str], random: Random, most: int) -> int:
    """How many bounded plans have equal totals on both engines, with at most so many boundings of a question: they are
    read in one go, on one snapshot of each.
    """

    def choose(boundings: tuple[BoundedPlan, ...]) -> Sequence[BoundedPlan]:
        return random.sample(boundings, min(most, len(boundings)))

    asked = [each for text in texts for each in _asked(first, second, policy, text, choose)]
    with first.check() as own, second.check() as theirs:
        for text, plan, bounded in asked:
            key = random.getrandbits(62)
            one, other = (_totals(each, plan, bounded, key) for each in (own, theirs))
            assert one == other, (text, bounded.strategy)
    return len(asked)


def equal_plans(sessions: Sessions, seed: int, plans: int, most: int, *texts: str, found: int = 0) -> int:
    """Equal plans of one random population with hostile cells, rows that no unit owns and letters of all kinds: of
    texts that are given, of random ones, and of so many whose keys are found.
    """
    random = Random(seed)
    population = world(random)
    table = (*max(population.tables(random, 30).values(), key=len), *strange_rows(population))
    policy, own = population.policy(table), population.engine(table)
    server = sessions.engine(policy)
    try:
        asks = [tree if population.units and random.random() < 0.4 else text for _ in range(plans)]
        drawn = [ask(random, population) for ask in asks]
        drawn += [found_question(random, population) for _ in range(found)]
        return _equal(own, server, policy, [*texts, *drawn], random, most)
    finally:
        own.close()
        server.close()


def equal_towns(sessions: Sessions, seed: int, every: str | None, texts: tuple[str, ...]) -> int:
    """Equal plans over several tables: rows that others own, joins, unions, and units that lie in a period."""
    random = Random(seed)
    tables = towns.town(random, every).tables()["everybody's visits"]
    policy, own = towns.policy(tables, every=every), towns.engine(tables, every)
    server = sessions.engine(policy)
    try:
        return _equal(own, server, policy, texts, random, EVERY)
    finally:
        own.close()
        server.close()
