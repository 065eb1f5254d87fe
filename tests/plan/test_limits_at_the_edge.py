"""What is exactly at a limit is answered, and one more is refused: limits are moved to where small questions are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plan.described import CATALOG
from sfumato.errors import Unsupported
from sfumato.plan import costs, keys
from sfumato.plan.bounding import bound_for_discovery, candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings import combining
from sfumato.plan.readings.total_readings import DiscoveredTotals, GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.release import discovered_groups

_JOINED = "SELECT COUNT(*) FROM visits JOIN hospitals ON age = beds"


def _parsed(text: str) -> Callable[[], Any]:
    return lambda: parse(text, CATALOG)


def _nothing(world: keys.ValueCombinations) -> Any:
    raise AssertionError(f"{world} follows from what is declared")


def _grouped(text: str) -> Callable[[], Any]:
    plan = parse(text, CATALOG).plan
    return lambda: keys.possible_group_keys(plan.keys, _nothing)


@pytest.mark.parametrize(
    ("module", "limit", "reached", "ask"),
    [
        # AND, >, age, 3, <, age, 9
        (costs, "MAX_PARTS", 7, _parsed("SELECT COUNT(*) FROM visits WHERE age > 3 AND age < 9")),
        (costs, "MAX_MATCHES", 10, _parsed(_JOINED)),
        (costs, "MAX_MATCHES", 5, _parsed("SELECT COUNT(*) FROM visits, UNNEST(tags) AS t(tag)")),
        # what is looked up beside a row, for each of ten rows that it becomes
        (costs, "MAX_STEPS", 200, _parsed(_JOINED)),
        (costs, "MAX_BYTES", 200, _parsed(_JOINED)),
        (keys, "MAX_GROUPS", 4, _grouped("SELECT region, COUNT(*) FROM visits GROUP BY region")),
        (keys, "MAX_GROUPS", 8, _grouped("SELECT region, urgent, COUNT(*) FROM visits GROUP BY region, urgent")),
        (keys, "MAX_GROUPS", 366, _grouped("SELECT day, COUNT(*) FROM visits GROUP BY day")),
    ],
)
def test_limits_hold_to_the_last_one(
    module: Any, limit: str, reached: int, ask: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, reached)
    ask()
    monkeypatch.setattr(module, limit, reached - 1)
    with pytest.raises(Unsupported):
        ask()


@pytest.mark.parametrize(("most", "statements"), [(3, [3]), (2, [2, 1]), (1, [1, 1, 1])])
def test_one_statement_measures_at_most_so_much(
    most: int, statements: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combining, "MAX_MEASURES", most)
    texts = [f"SELECT COUNT(*) FROM visits WHERE age > {number}" for number in range(3)]
    readings = []
    for text in texts:
        options = candidate_bounded_plans(parse(text, CATALOG).plan, ContributionLimits(5, 2, 3), 1)
        clipped = next(each for each in options if each.strategy is Strategy.CLIP_L1)
        readings.append(GroupTotals(clipped, ((),)))
    found = combining.combine_readings(readings)
    assert [len(each.parts) for each in found] == statements


@pytest.mark.parametrize("measured", ["COUNT(*)", "COUNT(*), SUM(age), COUNT(DISTINCT patient_id)"])
@pytest.mark.parametrize("declared", [1, 3, 2000])
def test_most_keys_keep_every_limit_and_one_more_breaks_one(measured: str, declared: int) -> None:
    plan = parse(f"SELECT ward, {measured} FROM visits GROUP BY ward", CATALOG).plan
    bounded = bound_for_discovery(plan, ContributionLimits(5, 3, 2))
    reading = DiscoveredTotals(bounded, (0,), tuple((number,) for number in range(declared)))
    numbers, letters = len(measured.split(", ")), plan.keys[0].domain.max_letters

    def allowed(shown: int) -> bool:
        groups = shown * declared
        few = groups <= keys.MAX_GROUPS and groups * numbers <= discovered_groups.MAX_NUMBERS
        return few and shown * letters <= discovered_groups._MAX_KEY_LETTERS

    most = discovered_groups.max_keys_in_answer(reading)
    assert allowed(most)
    assert not allowed(most + 1)


def test_long_keys_are_shown_in_small_number(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parse("SELECT ward, COUNT(*) FROM visits GROUP BY ward", CATALOG).plan
    reading = DiscoveredTotals(bound_for_discovery(plan, ContributionLimits(5, 3, 2)), (0,), ((),))
    letters = plan.keys[0].domain.max_letters
    for most in (1, 7):
        monkeypatch.setattr(discovered_groups, "_MAX_KEY_LETTERS", letters * (most + 1) - 1)
        assert discovered_groups.max_keys_in_answer(reading) == most
    monkeypatch.setattr(discovered_groups, "_MAX_KEY_LETTERS", 0)
    assert discovered_groups.max_keys_in_answer(reading) == 1  # there is always one
