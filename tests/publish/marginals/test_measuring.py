"""Measuring marginals: what one unit moves, what neighbours share, what is charged, what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from engine.refilling import refill
from sfumato.curator.context import Context
from sfumato.curator.proposals.marginals import MarginalsForecast, MarginalsProposal, propose_marginals
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.ledger import spending
from sfumato.ledger.entries import MAX_BODY_LENGTH
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.dense_readings import MAX_CELLS
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit, codec
from sfumato.publish.marginals.blocks import block_sensitivity, max_unclipped_count
from sfumato.publish.marginals.measuring import (
    MAX_NUMBERS,
    MarginalsRelease,
    PublishedMarginals,
    largest_sets,
    largest_variance,
)
from sfumato.release.prices import Price
from sfumato.release.running_work import ignore_progress

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")

Row = tuple[Any, ...]
COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "age": {"type": "integer", "bounds": [0, 9], "bins": [0, 3, 5, 9]},
    "smokes": {"type": "boolean"},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-04-10"], "bins": "month", "levels": ["quarter"]},
}
NAMES = ("who", *COLUMNS)
STORED = {"who": pa.int64(), "sex": pa.string(), "age": pa.int64(), "smokes": pa.bool_(), "day": pa.date32()}
SETS = [["sex", "age"], ["age", "smokes"], ["sex", "day"]]
PRICES: tuple[dict[str, Any], ...] = ({"rho": "0.5"}, {"epsilon": 1, "delta": "1e-9"}, {"epsilon": 1})
FIRST = dt.date(2024, 1, 1)


def rows(seed: int, units: int = 6) -> list[Row]:
    draw = Random(seed)
    return [_row(draw, unit) for unit in range(units) for _ in range(draw.randint(1, 7))]


def _row(draw: Random, unit: int) -> Row:
    day = FIRST + dt.timedelta(draw.randint(-3, 110))
    cells = (
        draw.choice(["f", "m", "x", None]),
        draw.choice([-5, 0, 2, 3, 8, 99, None]),
        draw.choice([True, False, None]),
    )
    return (unit, *cells, draw.choice([day, None]))


def policy_of(found: list[Row], *, units: bool, relation: str = "add-remove", **more: Any) -> Policy:
    cells = list(zip(*found, strict=True)) if found else [()] * len(NAMES)
    table = pa.table({name: pa.array(each, STORED[name]) for name, each in zip(NAMES, cells, strict=True)})
    limits = {"max_rows": 3} if units else {}
    people = Table("people", table, COLUMNS | more, id="who" if units else "row", **limits)
    unit = PrivacyUnit("person", every_row=not units)
    return Policy(unit, Budget(50, "1e-6", neighbours=relation), {"people": people}, size=100)


def proposal(policy: Policy, engine: DuckDB, ways: Any = SETS, **more: Any) -> MarginalsProposal:
    """A proposal whose free parts can be asked: it has no account, so nothing can be released."""
    context = Context(policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
    return propose_marginals(context, engine.catalog(), "people", ways, **more)


Blocks = tuple[MarginalsRelease, list[np.ndarray]]


def exact_blocks(policy: Policy, price: Price, **more: Any) -> Blocks:
    """What is measured, before noise."""
    return exact_blocks_at(policy, [price], **more)[0]


def exact_blocks_at(policy: Policy, prices: Iterable[Price], **more: Any) -> list[Blocks]:
    """What is measured at each price, before noise."""
    with closing(DuckDB(policy)) as engine:
        asked = proposal(policy, engine, **more)
        draws = [asked._strategy_at(price, None) for price in prices]
        read = [engine.read(draw.reading, 3) for draw in draws]
    return [
        (draw, [each.reading.extract(found) for each in draw.batch.measurements])
        for draw, found in zip(draws, read, strict=True)
    ]


def units_of(kind: str, who: int) -> list[Row]:
    """Rows of one unit: alone, one more than count, very many, in one cell or spread, with values missing."""
    draw = Random(7)
    return {
        "one": [(who, "f", 2, True, FIRST)],
        "limit": [(who, "m", 4, False, FIRST)] * 3,
        "more": [(who, "f", 2, True, FIRST)] * 4,
        "many": [(who, "m", 9, None, None)] * 2000,
        "spread": [_row(draw, who) for _ in range(7)],
        "missing": [(who, None, None, None, None)] * 5,
    }[kind]


KINDS = ("one", "limit", "more", "many", "spread", "missing")


@pytest.mark.parametrize("units", [True, False])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_unit_moves_every_block_within_its_sensitivity(units: bool, relation: str) -> None:
    kinds = KINDS if units else ("one", "missing")
    cut = (lambda kind: units_of(kind, 99)) if units else (lambda kind: units_of(kind, 99)[:1])
    tables = [rows(1) + cut(kind) for kind in kinds] + ([rows(1)] if relation == "add-remove" else [])
    policies = [policy_of(found, units=units, relation=relation) for found in tables]
    with closing(DuckDB(policies[0])) as engine:
        asked = proposal(policies[0], engine)
        draws = [asked._strategy_at(Price(**each), None) for each in PRICES]
        read = [[refill(engine, each).read(draw.reading, 3) for draw in draws] for each in policies]
    for draw, found in zip(draws, zip(*read, strict=True), strict=True):
        own = [[each.reading.extract(exact) for each in draw.batch.measurements] for exact in found]
        pairs = [(each, own[-1]) for each in own[:-1]] if relation == "add-remove" else combinations(own, 2)
        nearest = 0.0
        for one, other in pairs:
            for measurement, before, after in zip(draw.batch.measurements, one, other, strict=True):
                moved, most = np.abs(before - after).astype(object), measurement.sensitivity
                assert moved.sum() <= most.total
                assert moved.max() <= most.per_group
                assert (moved**2).sum() <= most.squares
                assert most.neighbours is Neighbours.of(relation)
                nearest = max(nearest, float((moved**2).sum() / most.squares) if most.squares else 0.0)
        assert nearest > 0.99  # and the bound is reached


def test_weights_of_units_beyond_the_limit_are_parts_of_a_row() -> None:
    draw, _ = exact_blocks(policy_of(rows(1), units=True), Price(rho="0.5"))
    assert draw.reading.bounded.strategy is Strategy.REWEIGHT
    assert draw.plan.unit_value == Fraction(1, 2**20)
    tight, _ = exact_blocks(policy_of(rows(1), units=True), Price(rho="0.5"), rows=1)
    assert (draw.plan.rows, tight.plan.rows) == (3, 1)
    whole, _ = exact_blocks(policy_of(rows(1), units=False), Price(rho="0.5"))
    assert (whole.plan.rows, whole.plan.unit_value, whole.reading.bounded.strategy) == (1, 1, Strategy.WHOLE)


def test_weights_are_as_fine_as_large_counts_allow() -> None:
    """Where blocks have many cells, 64 bits hold many rows of one cell or fine weights, not both."""
    many = {name: {"type": "integer", "bounds": [0, 199], "bins": 200} for name in ("a", "b", "c")}
    policy = policy_of(rows(1), units=True, **many)
    table = replace(policy.tables["people"], source=_with(policy, many))
    with closing(DuckDB(replace(policy, tables={"people": table}))) as engine:
        plan = (
            proposal(replace(policy, tables={"people": table}), engine, [["a", "b", "c"]])
            ._strategy_at(Price(1, "1e-9"), None)
            .plan
        )
    cut = min(max_unclipped_count(each.block, plan.attributes, each.grid) for each in plan.blocks)
    assert plan.unit_value > Fraction(1, 2**20)
    assert cut * plan.unit_value >= 2**26


def _with(policy: Policy, columns: Any) -> pa.Table:
    """The rows of a policy with further columns, all 1."""
    found = policy.tables["people"].source.table
    for name in columns:
        found = found.append_column(name, pa.array([1] * found.num_rows))
    return found


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize(("units", "condition"), [(True, None), (False, None), (False, "age > 2")])
def test_what_a_block_costs_is_what_the_plan_says(relation: str, units: bool, condition: str | None) -> None:
    """Two derivations agree: from the bounded rows that are read, and from the plan that chose the noise."""
    policy, prices = policy_of(rows(2), units=units, relation=relation), [Price(**each) for each in PRICES]
    for draw, _ in exact_blocks_at(policy, prices, where=condition):
        planned = draw.plan.blocks or draw.plan.marginals
        for measurement, own in zip(draw.batch.measurements, planned, strict=True):
            assert measurement.sensitivity.squares == draw.plan.sensitivity(own).squares
            assert measurement.sensitivity.total == draw.plan.sensitivity(own).total
        fixed = relation == "replace" and not units and condition is None
        assert draw.plan.fixed_total is (not units and condition is None)
        if draw.plan.blocks:
            assert (draw.batch.measurements[0].sensitivity.total == 0) is fixed  # the number of rows is public then


def test_a_plan_for_fewer_rows_than_are_read_is_refused() -> None:
    draw, _ = exact_blocks(policy_of(rows(1), units=True), Price(rho="0.5"))
    with pytest.raises(sf.InvalidParameter, match="a plan whose rows are the rows counted per unit"):
        replace(draw, plan=replace(draw.plan, rows=Fraction(1)))


# ── releases ──


def curator(policy: Policy, folder: Path, name: str = "l") -> sf.Curator:
    return sf.Curator(policy, ledger=folder / name)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise at all: what is left is arithmetic."""
    monkeypatch.setattr(Gaussian, "apply", lambda _, values: values)
    monkeypatch.setattr(Laplace, "apply", lambda _, values: values)


def _places(row: Row) -> tuple[int, ...]:
    _, sex, age, smokes, day = row
    held = None if age is None else min(max(age, 0), 9)
    when = None if day is None else min(max(day, FIRST), dt.date(2024, 4, 10)).month - 1
    return (
        {"f": 0, "m": 1}.get(sex, 2),
        3 if held is None else 0 if held < 3 else 1 if held < 5 else 2,
        {False: 0, True: 1}.get(smokes, 2),
        4 if when is None else when,
    )


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize(
    ("units", "condition"),
    [
        (True, "smokes OR age = 2"),
        (False, None),
        pytest.param(True, None, marks=pytest.mark.long),
        pytest.param(False, "smokes OR age = 2", marks=pytest.mark.long),
    ],
)
def test_without_noise_marginals_are_exact(
    tmp_path: Path, price: dict[str, Any], units: bool, condition: str | None
) -> None:
    found = rows(3)
    counted = [row for row in found if condition is None or row[3] or row[2] == 2]
    held = Counter(row[0] for row in counted)
    with curator(policy_of(found, units=units), tmp_path) as opened:
        made = opened.marginals("people", SETS, where=condition).release(**price)
    steps = made.plan.unit_value.denominator
    for columns, axes in (
        (["sex", "age"], (0, 1)),
        (["age", "smokes"], (1, 2)),
        (["day"], (3,)),
        (["day", "sex"], (0, 3)),
    ):
        wanted = np.zeros([each.size for each in (made.attributes[axis] for axis in axes)])
        for row in counted:
            weight = (3 * steps) // max(3, held[row[0]]) / steps if units else 1.0
            wanted[tuple(_places(row)[axis] for axis in axes)] += weight
        assert np.allclose(made.estimates.marginal_and_variances(made.attribute_indices(columns))[0], wanted, atol=1e-6)


ALIKE = [
    (PRICES[0], True, "add-remove"),
    (PRICES[1], False, "replace"),
    (PRICES[2], True, "replace"),
    (PRICES[2], False, "add-remove"),
]
"""Every price, every unit and every relation; the long run has all of them together."""
OTHERS = [each for each in product(PRICES, (True, False), ("add-remove", "replace")) if each not in ALIKE]


@pytest.mark.parametrize(
    ("price", "units", "relation"),
    [*ALIKE, *(pytest.param(*each, marks=pytest.mark.long) for each in OTHERS)],
    ids=str,
)
def test_neighbours_differ_in_noise_alone(tmp_path: Path, price: dict[str, Any], units: bool, relation: str) -> None:
    """From the policy to the file: words, plan, charge, members and sizes are those of any other table."""
    last = rows(1)[-1][0] if units else None
    kept = [row for row in rows(1) if row[0] != last] if units else rows(1)[:-1]
    worlds = {
        "with": kept + units_of("many" if units else "one", 99),
        "replaced": kept + units_of("spread" if units else "missing", 99)[: 7 if units else 1],
        "without": kept,
        "empty": [],
    }
    told = [
        _told(policy_of(found, units=units, relation=relation), tmp_path, name, price) for name, found in worlds.items()
    ]
    assert all(each == told[0] for each in told)


def _told(policy: Policy, folder: Path, name: str, price: dict[str, Any]) -> tuple[Any, ...]:
    """Give all that is told of a release but its noise, its time and what names the data."""
    phases: list[str] = []
    with curator(policy, folder, name) as opened:
        asked = opened.marginals("people", SETS)
        words = str(asked.explain(**price)), str(asked.error(**price)), asked.identity
        made = asked.release(**price, progress=phases.append)
        line = next(each for each in opened.history() if each.kind == "charge")
    file = folder / f"{name}.sfu"
    made.save(file)
    with zipfile.ZipFile(file) as members:
        sizes = {each.filename: each.file_size for each in members.infolist()}
        manifest = json.loads(members.read("manifest.json"))
    del manifest["members"]
    for part, known in (("receipt", ("time", "hash", "data", "policy")), ("purchase", ("data", "salt"))):
        manifest[part] = {key: value for key, value in manifest[part].items() if key not in known}
    shapes = [len(each) for each in made.published.values]
    return words, phases, made.plan, shapes, line.parts, line.cost, line.question, repr(made), sizes, manifest


@pytest.mark.parametrize(
    "found",
    [[], [(1, "f", 2, True, FIRST)], [(n, None, None, None, None) for n in range(30)]],
    ids=["empty", "one", "missing"],
)
def test_any_table_is_published(tmp_path: Path, found: list[Row]) -> None:
    truth = np.array([sum(_places(row)[0] == cell for row in found) for cell in range(3)])
    with curator(policy_of(found, units=True), tmp_path) as opened:
        for price in PRICES:
            made = opened.marginals("people", 1).release(**price, fresh=True)
            values, variances = made.estimates.marginal_and_variances(made.attribute_indices(["sex"]))
            assert np.abs(values - truth).max() <= 12 * math.sqrt(variances.max())  # Laplace noise: e^-16 for each cell


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_a_column_of_one_cell_is_published(tmp_path: Path, price: dict[str, Any], relation: str) -> None:
    """One value, or one bin: two cells, with the one for what is missing."""
    single = {"sex": {"values": ["f"]}, "age": {"type": "integer", "bounds": [0, 9], "bins": [0, 9]}}
    found = [(1, "f", 2, True, FIRST), (2, None, None, None, None)]
    with curator(policy_of(found, units=False, relation=relation, **single), tmp_path) as opened:
        made = opened.marginals("people", [["sex", "age"]]).release(**price)
    assert [each.size for each in made.attributes] == [2, 2]
    values, variances = made.estimates.marginal_and_variances((0, 1))
    assert np.abs(values - [[1, 0], [0, 1]]).max() <= 8 * math.sqrt(variances.max()) + 40 * ("delta" not in price)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_the_charge_is_recomputed_from_its_line(tmp_path: Path, price: dict[str, Any], relation: str) -> None:
    with curator(policy_of(rows(1), units=True, relation=relation), tmp_path) as opened:
        asked = opened.marginals("people", 2)
        made = asked.release(**price)
        lines = [each for each in opened.history() if each.kind == "charge"]
    assert len(lines) == 1  # one line, whatever the number of marginals
    parts = spending.read_parts(lines[0].parts)
    if made.plan.marginals:
        epsilon = sum(part.times * part.sensitivity.l1 / part.mechanism.scale for part in parts)
        assert Fraction(99, 100) < epsilon <= Price(**price).epsilon
        return
    rho = sum(part.times * part.sensitivity.squares / (2 * part.mechanism.sigma**2) for part in parts)
    assert rho == sum(made.plan.block_rho(each) for each in made.plan.blocks)  # a Fraction, exactly
    assert sum(part.times for part in parts) == len(made.plan.blocks)
    most = Price(**price).rho or Fraction(1, 2)
    assert rho <= most
    if price.get("rho"):
        assert rho > most * Fraction(999_999, 1_000_000)
    else:
        assert 0.999 < spending.compose_parts(parts).epsilon(price["delta"]) <= 1


def test_sensitivities_of_blocks_hold_for_their_grid() -> None:
    draw, _ = exact_blocks(policy_of(rows(1), units=False), Price(rho="0.5"))
    for measurement, own in zip(draw.batch.measurements, draw.plan.blocks, strict=True):
        assert measurement.mechanism.sigma == own.deviation >= 4096
        assert measurement.sensitivity == block_sensitivity(
            own.block, draw.plan.attributes, 1, own.grid, fixed_total=True
        )


def test_a_unit_of_a_million_rows_counts_as_little_as_any() -> None:
    many = 10**6
    cells = {
        "who": np.zeros(many, np.int64),
        "sex": pa.array(["f"]).take(np.zeros(many, np.int64)),
        "age": np.full(many, 2),
    }
    rest = {"smokes": np.ones(many, bool), "day": pa.array([FIRST]).take(np.zeros(many, np.int64))}
    policy = policy_of([], units=True)
    table = replace(policy.tables["people"], source=pa.table({**cells, **rest}))
    draw, found = exact_blocks(replace(policy, tables={"people": table}), Price(rho="0.5"))
    total = float(found[0][0] * draw.plan.unit_value / draw.plan.blocks[0].grid)
    assert 2.8 < total <= 3
    for measurement, moved in zip(draw.batch.measurements, found, strict=True):
        assert (moved.astype(object) ** 2).sum() <= measurement.sensitivity.squares


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_whatever_fails_after_the_charge_leaves_it(
    tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        asked = opened.marginals("people", SETS)
        with monkeypatch.context() as broken:
            broken.setattr(Gaussian, "apply", lambda *_: (_ for _ in ()).throw(error))
            with pytest.raises(sf.Unanswered):
                asked.release(epsilon="0.5", delta="1e-9")
        kinds = Counter(each.kind for each in opened.history())
        assert (kinds["charge"], kinds["answer"]) == (1, 0)
        assert not asked.release(epsilon="0.5", delta="1e-9").receipt.free
        assert Counter(each.kind for each in opened.history())["charge"] == 2


def test_accounts_of_periods_pay_for_those_that_are_read(tmp_path: Path) -> None:
    columns = {name: COLUMNS[name] for name in ("sex", "smokes", "day")}
    found = [row for row in rows(4) if row[4] is not None]
    table = pa.table(
        {name: pa.array([row[NAMES.index(name)] for row in found], STORED[name]) for name in ("who", *columns)}
    )
    unit = PrivacyUnit("person", period="month", period_column="day")
    people = Table("people", table, columns, id="who", max_rows=3)
    policy = Policy(unit, Budget(3, "1e-6"), {"people": people}, per="month")
    with curator(policy, tmp_path) as opened:
        asked = opened.marginals(
            "people", [["sex", "smokes"]], where="day >= DATE '2024-02-01' AND day < DATE '2024-03-01'"
        )
        made = asked.release(epsilon=1, delta="1e-9")
        assert "2024-02" in made.receipt.periods
        told = opened.standing()
        assert told["2024-02"] != told["2024-03"]


# ── before spending ──


def test_errors_and_prices_are_told_before_spending(tmp_path: Path) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        asked = opened.marginals("people", SETS)
        found = asked.error(epsilon=1, delta="1e-9")
        assert found["age", "sex"] == found.widths[0]
        assert found.accepted
        assert codec.loads(found.to_json()) == found == MarginalsForecast.from_json(found.to_json())
        for delta in ("1e-9", 0):
            for for_, chosen in ((["age", "sex"], ["sex", "age"]), (None, None)):
                epsilon = asked.price(20, for_, delta=delta)
                reached = asked.error(epsilon=epsilon, delta=delta)
                width = reached.worst if chosen is None else reached[chosen]
                assert 20 * 0.98 < width <= 20
        one = asked.error(epsilon=1, delta="1e-9")["sex", "age"]
        assert asked.error(epsilon=1, delta="1e-9", joint=True)["sex", "age"] > one
        assert opened.marginals("people", SETS, rows=1).error(epsilon=1, delta="1e-9")["sex", "age"] < one / 2.9
        weighed = opened.marginals("people", SETS, weights={("age", "sex"): 100})
        assert weighed.error(epsilon=1, delta="1e-9")["sex", "age"] < one
        plain = ["sex", "age", "smokes"]
        total, worst = (
            opened.marginals("people", 2, columns=plain, objective=each).error(epsilon=1, delta="1e-9").worst
            for each in ("total", "worst")
        )
        assert worst < total
        text = str(asked.explain(epsilon=1, delta="1e-9"))
        assert "of the price" in text
        assert "if each marginal had noise of its own" in text
        assert not [each for each in opened.history() if each.kind == "charge"]


def test_widths_are_those_of_the_synopsis(tmp_path: Path) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        made = opened.marginals("people", 2).release(epsilon=1, delta="1e-9")
        for places in made.plan.workload.sets:
            names = [made.attributes[place].name for place in places]
            assert np.isclose(
                made.estimates.marginal_and_variances(made.attribute_indices(names))[1].max(),
                largest_variance(made.plan, places),
            )


def test_what_was_bought_is_free(tmp_path: Path) -> None:
    wide = {"age": {"type": "integer", "bounds": [0, 9], "bins": [0, 4, 9]}}
    first = policy_of(rows(1), units=True)
    with curator(first, tmp_path) as opened:
        made = opened.marginals("people", SETS).release(epsilon=1, delta="1e-9")
        again = opened.marginals("people", SETS).release(epsilon="0.5", delta="1e-9")
        assert (again.receipt.free, again.published.values) == (True, made.published.values)
        assert opened.marginals("people", SETS).error(epsilon="0.5", delta="1e-9").stored
        for other in ({"rows": 2}, {"where": "smokes"}, {"objective": "worst"}):
            assert not opened.marginals("people", SETS, **other).release(epsilon="0.5", delta="1e-9").receipt.free
    other = policy_of(rows(1), units=True, **wide)
    with closing(DuckDB(first)) as engine, closing(DuckDB(other)) as changed:
        assert proposal(first, engine).identity != proposal(other, changed).identity


def test_what_was_released_is_read_back(tmp_path: Path) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        made = opened.histogram("people", ["age", "sex"]).release(epsilon=1, delta="1e-9").published
    again = codec.loads(codec.dumps(made))
    assert (again.plan, again.values, again.purchase) == (made.plan, made.values, made.purchase)
    for broken in (made.values[:-1], (*made.values[:-1], made.values[-1][4:]), (*made.values[:-1], "")):
        with pytest.raises(sf.InvalidParameter):
            PublishedMarginals(made.plan, broken)
    with pytest.raises(sf.InvalidParameter, match="base64"):
        PublishedMarginals(made.plan, (*made.values[:-1], "!" * len(made.values[-1]))).gaussian_blocks  # noqa: B018


BIG = {"type": "integer", "bounds": [0, 9_999], "bins": 10_000}


@pytest.fixture(scope="module")
def wide() -> Iterator[DuckDB]:
    """People with a text, and with two columns of more cells together than are published."""
    policy = policy_of(rows(1), units=True, note={"type": "text"}, big=BIG, large=BIG)
    table = replace(
        policy.tables["people"],
        source=_with(policy, ["big", "large"]).append_column("note", pa.array(["x"] * len(rows(1)))),
    )
    with closing(DuckDB(replace(policy, tables={"people": table}))) as engine:
        yield engine


@pytest.mark.parametrize(
    ("ways", "more", "rule"),
    [
        ([["sex", "note"]], {}, "cannot be counted by values or bins"),
        ([["sex", "who"]], {}, "identifies the unit of each row"),
        ([["sex", "agee"]], {}, "no declared column"),
        ([["sex", "age"], ["AGE", "sex"]], {}, "different sets"),
        ([["sex", "sex"]], {}, "a list of different columns"),
        ([[]], {}, "a list of names"),
        ([], {}, "a number such as 2"),
        ("sex", {}, "a number such as 2"),
        (["sex"], {}, "a list of names"),
        (0, {}, "from 1 to"),
        (8, {}, "from 1 to"),
        (2, {"columns": ["sex", "sex"]}, "a list of different columns"),
        (SETS, {"columns": ["sex"]}, "left out"),
        (SETS, {"weights": [1, 1]}, "a list of length 3"),
        (SETS, {"weights": [1, 1, 0]}, "> 0"),
        (SETS, {"weights": {("sex", "age"): -1}}, "> 0"),
        (SETS, {"weights": {("sex", "smokes"): 1}}, "a mapping from the requested marginals"),
        (SETS, {"objective": "best"}, "total"),
        (SETS, {"where": "note ="}, ""),
        (SETS, {"where": "COUNT(*) > 3"}, ""),
        (SETS, {"rows": 4}, "can only lower the policy's limits"),
        (SETS, {"rows": 0}, ""),
        ([["big", "large"]], {}, "at most 10,000,000 cells"),
    ],
    ids=str,
)
def test_bad_marginals_are_refused_before_spending(wide: DuckDB, ways: Any, more: dict[str, Any], rule: str) -> None:
    with pytest.raises((sf.InvalidParameter, sf.Unsupported)) as refused:
        proposal(wide.sources.policy, wide, ways, **more)
    assert rule in str(refused.value)
    assert refused.value.fix


@pytest.mark.parametrize(
    ("price", "rule"),
    [
        ({"epsilon": 1, "mechanism": Gaussian}, "Gaussian noise needs a δ"),
        ({"rho": 1, "mechanism": Laplace}, "Gaussian at a price in ρ"),
        ({"epsilon": 1, "mechanism": 3}, "sf.Laplace or sf.Gaussian"),
        ({}, "a number, unless rho is given: every release needs one of them as its price"),
        ({"epsilon": 1, "rho": 1}, "epsilon must be left out if rho is given"),
        ({"rho": "1e-30"}, "more noise than can be drawn exactly"),
    ],
    ids=str,
)
def test_bad_prices_are_refused_before_spending(tmp_path: Path, price: dict[str, Any], rule: str) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        with pytest.raises(sf.SfumatoError) as refused:
            opened.marginals("people", SETS).release(**price)
        assert rule in str(refused.value)
        assert not [each for each in opened.history() if each.kind == "charge"]


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize(
    "place", ["sfumato.ledger.entries.MAX_BODY_LENGTH", "sfumato.publish.marginals.measuring.MAX_NUMBERS"]
)
def test_what_is_too_large_to_be_written_down_is_refused_before_spending(
    tmp_path: Path, price: dict[str, Any], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        monkeypatch.setattr(place, 20)
        with pytest.raises(sf.Unsupported, match="at most 20"):
            opened.marginals("people", SETS).release(**price)
        assert not [each for each in opened.history() if each.kind == "charge"]


def test_as_many_numbers_as_are_published_fit_into_an_answer() -> None:
    assert 8 * MAX_NUMBERS * 4 / 3 < 0.9 * MAX_BODY_LENGTH
    assert MAX_NUMBERS > 1.1 * MAX_CELLS


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("most", [0, 1, 12, 10**5])
def test_large_plans_are_rehearsed_in_part(price: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.publish.marginals.measuring._MAX_DRY_RUN_CELLS", most)
    policy = policy_of(rows(1), units=True)
    with closing(DuckDB(policy)) as engine:
        draw = proposal(policy, engine)._strategy_at(Price(**price), None)
    tried = draw.result_at_extreme_totals()
    numbers = [each.values for each in (*tried.gaussian_blocks, *tried.laplace_marginals)]
    assert sum(each.size for each in numbers) <= max(1, most)
    assert all((each == 2**62).all() for each in numbers)
    assert codec.loads(codec.dumps(tried)).values == tried.values
    assert (tried.plan == draw.plan) is (most == 10**5)


@pytest.mark.filterwarnings("ignore:.*weak privacy")
def test_more_than_the_account_has_is_refused(tmp_path: Path) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        asked = opened.marginals("people", SETS)
        assert not asked.error(epsilon=1000).accepted
        with pytest.raises(sf.Overspent):
            asked.release(epsilon=1000)


def test_a_price_is_kept_by_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the plan was scaled to, what it leaks is compared with the price."""
    policy = policy_of(rows(1), units=True)
    with closing(DuckDB(policy)) as engine:
        for price in PRICES:
            draw = proposal(policy, engine)._strategy_at(Price(**price), None)
            assert Price(**price).is_satisfied_by(draw.batch.curve)
        monkeypatch.setattr("sfumato.curator.proposals.marginals.price_in_rho", lambda _: Fraction(1))
        with pytest.raises(sf.InvalidParameter, match="too low for this many numbers"):
            proposal(policy, engine)._strategy_at(Price(rho="0.5"), None)


def test_only_the_largest_sets_are_read() -> None:
    assert largest_sets(((0,), (1, 2), (0, 1, 2), (3,), (1, 3))) == ((0, 1, 2), (1, 3))
    assert largest_sets(((),)) == ((),)
    assert largest_sets(()) == ()
    coins = random.Random(19)
    for _ in range(300):
        sets = [tuple(sorted(coins.sample(range(6), coins.randrange(5)))) for _ in range(coins.randrange(1, 9))]
        plain = [each for each in dict.fromkeys(sets) if not any({*each} < {*other} for other in sets)]
        assert largest_sets(sets) == tuple(plain)
    draw, _ = exact_blocks(policy_of(rows(1), units=True), Price(rho="0.5"), ways=[["sex"], ["sex", "age"], ["age"]])
    assert draw.reading.sets == ((0, 1),)
    pure, _ = exact_blocks(policy_of(rows(1), units=True), Price(1), ways=[["sex"], ["sex", "age"], ["age"]])
    assert pure.reading.sets == ((0,), (0, 1), (1,))


def test_a_proposal_says_what_is_free(tmp_path: Path) -> None:
    with curator(policy_of(rows(3), units=False), tmp_path) as opened:
        said = repr(opened.marginals("people", 1))
    assert re.fullmatch(
        r"<\d marginals of people: .explain\(\) .error\(\) .price\(\) are free, .release\(\) publishes>", said
    )


def test_a_plan_says_what_it_makes_least(tmp_path: Path) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        said = [
            str(opened.marginals("people", sets, objective=objective).explain(**price))
            for sets, objective, price in (
                ([["sex", "age"]], "total", {}),
                ([["sex", "day"]], "total", {}),
                ([["sex", "day"]], "worst", {}),
                ([["sex", "day"]], "total", {"epsilon": 1}),
            )
        ]
    assert ["all ranges of day" in each for each in said] == [False, True, False, False]
    assert ["smallest sum" in each for each in said] == [True, True, False, True]


def test_a_histogram_names_its_own_parameter(tmp_path: Path) -> None:
    with curator(policy_of(rows(1), units=True), tmp_path) as opened:
        for columns in ("sex", [], 3):
            with pytest.raises(sf.InvalidParameter, match="columns must be a list of names"):
                opened.histogram("people", columns)  # type: ignore[arg-type]
