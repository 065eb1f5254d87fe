"""Two engines behind one seam: the same plan has the same totals on both, whatever computes them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from engine.integers import Integers
from engine.tables import policy_of
from sfumato.engine.opening import open_engine
from sfumato.engine.protocols import Engine
from sfumato.errors import EngineClosed, SfumatoError, Unsupported
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.keys import possible_group_keys
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table

QUESTIONS = (
    "SELECT COUNT(*) FROM t",
    "SELECT ward, COUNT(*), SUM(age) FROM t GROUP BY ward",
    "SELECT ward, day, AVG(age), SUM(score) FROM t GROUP BY ward, day",
)
COLUMNS = {
    "ward": {"type": "integer", "values": [1, 2, 5]},
    "day": {"type": "integer", "bounds": [1, 7]},
    "age": {"type": "integer", "bounds": [0, 110]},
    "score": {"type": "integer", "bounds": [-9, 9]},
}


def _policy(seed: int, unit: str, rows: int = 300) -> Policy:
    """Some cells lie outside what is declared, some wards are declared and empty, some people have many rows."""
    source = random.Random(seed)
    table = {
        "who": [min(source.randrange(1, 60), source.randrange(1, 60)) for _ in range(rows)],
        "ward": [source.choice([1, 2, 3]) for _ in range(rows)],
        "day": [source.randint(-1, 9) for _ in range(rows)],
        "age": [source.randint(-50, 200) for _ in range(rows)],
        "score": [source.randint(-20, 20) for _ in range(rows)],
    }
    limits = {} if unit == "row" else {"max_rows": 3}
    held = pa.table({name: pa.array(cells, pa.int64()) for name, cells in table.items()})
    return policy_of(Table("t", held, COLUMNS, id=unit, **limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["row", "who"])
@pytest.mark.parametrize("text", QUESTIONS)
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_totals_are_the_same_on_both_engines(text: str, unit: str, rows: int) -> None:
    policy = _policy(len(text), unit, rows)
    found = []
    for engine in (open_engine(policy), Integers(policy)):
        plan = parse(text, engine.catalog()).plan
        named = possible_group_keys(plan.keys, engine.values)
        options = candidate_bounded_plans(plan, ContributionLimits.from_table(policy.tables["t"]), len(named))
        bounded = next(each for each in options if each.strategy in (Strategy.WHOLE, Strategy.REWEIGHT))
        engine.check(GroupTotals(bounded, named))
        found.append(engine.read(GroupTotals(bounded, named), 7))
        reversed_rows = engine.read(GroupTotals(bounded, named[::-1]), 7)
        assert (reversed_rows[::-1] == found[-1]).all()
        engine.close()
    first, second = found
    assert first.dtype == second.dtype == np.int64
    assert first.shape == second.shape
    assert (first == second).all()
    assert first.any() or rows < 300


@pytest.mark.parametrize("opened", [open_engine, Integers])
def test_equal_data_have_one_identity_and_one_address(opened: type[Engine]) -> None:
    first, again, other = (opened(_policy(seed, "who")) for seed in (1, 1, 2))  # type: ignore[call-arg]
    assert first.identity() == again.identity() != other.identity()
    assert first.data(public=False) == again.data(public=False) != other.data(public=False)
    assert first.data(public=True) == ()
    for engine in (first, again, other):
        engine.close()


@pytest.mark.parametrize("opened", [open_engine, Integers])
def test_a_closed_engine_refuses(opened: type[Engine]) -> None:
    policy = _policy(3, "row")
    engine = opened(policy)  # type: ignore[call-arg]
    plan = parse("SELECT COUNT(*) FROM t", engine.catalog()).plan
    (bounded,) = candidate_bounded_plans(plan, ContributionLimits.from_table(policy.tables["t"]), 1)
    engine.interrupt(5)
    engine.check(GroupTotals(bounded, ((),)))
    engine.close()
    with pytest.raises(EngineClosed):
        engine.check(GroupTotals(bounded, ((),)))


def test_what_the_small_engine_cannot_compute_is_refused_by_its_check() -> None:
    policy = _policy(3, "who")
    engine = Integers(policy)
    for asked in ("SUM(age + 1) FROM t", "COUNT(*) FROM t WHERE age > 5", "COUNT(DISTINCT who) FROM t"):
        plan = parse(f"SELECT {asked}", engine.catalog()).plan
        for bounded in candidate_bounded_plans(plan, ContributionLimits.from_table(policy.tables["t"]), 1):
            with pytest.raises(SfumatoError) as refusal:
                engine.check(GroupTotals(bounded, ((),)))
            assert isinstance(refusal.value, Unsupported)
