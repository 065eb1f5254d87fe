"""Claims are reached, so a claim that is too small is caught; and broken twins of the limits are caught.

Each twin breaks one thing in the real path: a limit, a rounding, a clamp, the relation, the claim itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations

import pyarrow as pa
import pytest

from engine.tables import tuples
from safety.worlds import Change, Row, World, changes, question
from sfumato.engine.duckdb import scan
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import bounded_totals, clip_scaling
from sfumato.engine.lowering.relational_form import (
    Reference,
    Scalar,
    ScalarFunction,
    StagedSelect,
    apply,
    integer_constant,
)
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sharing import with_requests_as_measures
from sfumato.policy import Type
from sfumato.privacy import Neighbours, Sensitivity

LIMITS = (5, 3, 2)
_REGIONS = [f"region {index}" for index in range(8)]
_COLUMNS = {
    "region": {"values": _REGIONS},
    "age": {"type": "integer", "bounds": [-2, 10]},
    "cost": {"type": "real", "bounds": [0, 50], "grid": "0.5"},
}
_STORED = {"who": pa.int64(), "region": pa.string(), "age": pa.int64(), "cost": pa.float64()}


def _rows(count: int, age: int, regions: int = 1, first: int = 0) -> list[Row]:
    return [{"who": 1, "region": _REGIONS[first + index % regions], "age": age, "cost": 50.0} for index in range(count)]


def edges(limits: tuple[int, int, int]) -> dict[str, list[Row]]:
    """Units with exactly as many rows, and as many groups, as the limits say, and with one more."""
    most, groups, per_group = limits
    counts = sorted({per_group, per_group + 1, most, most + 1, groups * per_group, groups * per_group + 1})
    return {
        f"{count} rows in {reach} groups": _rows(count, 10, reach)
        for count in counts
        for reach in (1, groups, groups + 1)
        if reach <= count
    }


def _signs(regions: int) -> list[Row]:
    """A unit whose groups are alternately as large and as small as they can be: added up, they cancel."""
    return [row for index in range(regions) for row in _rows(40, -2 if index % 2 else 10, 1, index)]


TABLES = {
    "": [],
    "signs": _signs(6),
    "low spread": _rows(40, -2, 4),
    **edges(LIMITS),
    "many": _rows(40, 10),
    "seven": _rows(7, 10),
    "low": _rows(40, -2),
    "spread": _rows(40, 10, 4),
    "away": _rows(40, 10, 4, 4),
    "few away": _rows(5, 10, 4, 4),
    "elsewhere": _rows(40, 10, 1, 5),
    "wild": _rows(40, 10**12),
}


Totals = list[tuple[int, ...]]


@dataclass(frozen=True)
class Tables:
    """Tables that are opened, and what was read of all of them by each statement: relations and claims that are
    compared with the same totals send the same one.
    """

    engines: dict[str, DuckDB]
    read_by: dict[str, dict[str, Totals]] = field(default_factory=dict)

    def totals(self, reading: GroupTotals) -> dict[str, Totals]:
        statement = self.engines[""]._statement(reading, 7)
        if statement not in self.read_by:
            self.read_by[statement] = {name: tuples(each.read(reading, 7)) for name, each in self.engines.items()}
            assert {each.sources.statements[-1] for each in self.engines.values()} == {statement}
        return self.read_by[statement]

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close()


def _tables(units: bool) -> Tables:
    """The tables, opened; of one row each where every row is a unit."""
    places = pa.table({"region": [_REGIONS[0], _REGIONS[0], _REGIONS[1]], "weight": [1, 2, 3]})
    made = World(units, LIMITS, _COLUMNS, _STORED, {"places": places}, ())
    return Tables({name: made.engine(rows if units else rows[:1]) for name, rows in TABLES.items()})


_opened = cache(_tables)
Claim = Callable[[BoundedPlan], BoundedPlan]


def worst(
    asked: str, strategy: Strategy, claim: Claim, *, relation: str = "add-remove", per_group: int | None = None
) -> Change:
    """The largest share of the claim that any pair of the tables reaches, in each norm, over all measures."""
    return _worst(_opened(strategy is not Strategy.WHOLE), asked, strategy, claim, relation, per_group)


def _worst(
    tables: Tables, asked: str, strategy: Strategy, claim: Claim, relation: str, per_group: int | None
) -> Change:
    engine = tables.engines[""]
    plan = question(engine, engine._policy, asked)
    limits = plan.limits.tighten(None, None, per_group)
    made = candidate_bounded_plans(with_requests_as_measures(plan.query.plan), limits, len(plan.groups))
    claimed = claim(for_neighbours(next(each for each in made if each.strategy is strategy), Neighbours(relation)))
    totals = tables.totals(GroupTotals(claimed, plan.groups))
    names = [name for name in totals if name]
    pairs = [("", name) for name in names] if relation == "add-remove" else list(combinations(names, 2))
    found = [change for a, b in pairs for change in changes(claimed, totals[a], totals[b])]
    return Change(*(max(getattr(each, norm) for each in found) for norm in ("l1", "squares", "linf", "groups")))


def honest(bounded: BoundedPlan) -> BoundedPlan:
    return bounded


def halved(bounded: BoundedPlan) -> BoundedPlan:
    """The twin that claims half."""

    def half(claim: Sensitivity) -> Sensitivity:
        return Sensitivity(claim.groups, claim.per_group / 2, claim.total / 2, claim.squares / 4, claim.neighbours)

    return replace(
        bounded, measures=tuple(replace(each, sensitivity=half(each.sensitivity)) for each in bounded.measures)
    )


def generous(limit: str) -> Claim:
    """The twin whose limit lets one more pass than it claims."""

    def mistaken(bounded: BoundedPlan) -> BoundedPlan:
        more = replace(bounded.limits, **{limit: getattr(bounded.limits, limit) + 1})
        return replace(bounded, plan=replace(bounded.plan, source=replace(bounded.bounding_node, limits=more)))

    return mistaken


COUNT, SUM, MEAN = "SELECT COUNT(*) FROM people", "SELECT SUM(age) FROM people", "SELECT AVG(cost) FROM people"
GROUPED = "SELECT region, COUNT(*) FROM people GROUP BY region"
GROUPED_SUM = "SELECT region, SUM(cost) FROM people GROUP BY region"
GROUPED_AGE = "SELECT region, SUM(age) FROM people GROUP BY region"
DISTINCT = "SELECT region, COUNT(DISTINCT who) FROM people GROUP BY region"
JOINED = "SELECT COUNT(*) FROM people JOIN places USING (region)"
UNITS = [
    (asked, strategy)
    for asked in (COUNT, SUM, MEAN, GROUPED, GROUPED_SUM, GROUPED_AGE, DISTINCT)
    for strategy in (Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.SAMPLE)
    if (asked, strategy) != (DISTINCT, Strategy.REWEIGHT)
]


SPREAD = "SELECT region, VAR_POP(cost), COVAR_POP(cost, age) FROM people GROUP BY region"


@pytest.mark.parametrize("strategy", [Strategy.REWEIGHT, Strategy.SAMPLE])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_claims_of_moments_are_reached_and_half_of_them_is_caught(strategy: Strategy, relation: str) -> None:
    reached = worst(SPREAD, strategy, honest, relation=relation)
    assert reached.worst <= 1
    assert reached.l1 > 0.999
    assert worst(SPREAD, strategy, halved, relation=relation).l1 > 1.9


def _norm(strategy: Strategy) -> str:
    """The norm that the noise is calibrated to."""
    return "squares" if strategy is Strategy.CLIP_L2 else "l1"


@pytest.mark.parametrize(("asked", "strategy"), UNITS)
def test_claims_are_reached_when_a_unit_is_added(asked: str, strategy: Strategy) -> None:
    """Up to rounding toward zero."""
    reached = worst(asked, strategy, honest)
    assert reached.worst <= 1
    assert getattr(reached, _norm(strategy)) > 0.999


@pytest.mark.parametrize(("asked", "strategy"), [each for each in UNITS if "GROUP BY" in each[0]])
def test_claims_are_reached_when_a_unit_is_replaced(asked: str, strategy: Strategy) -> None:
    """By two units that share no group; a length of lopsided values by half: their box is small on one side."""
    reached = worst(asked, strategy, honest, relation="replace")
    assert reached.worst <= 1
    least = 0.499 if (asked, strategy) == (GROUPED_AGE, Strategy.CLIP_L2) else 0.999
    assert getattr(reached, _norm(strategy)) > least


@pytest.mark.parametrize("asked", [COUNT, SUM, MEAN, JOINED])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_claims_are_reached_when_every_row_is_a_unit(asked: str, relation: str) -> None:
    """A row that a public table doubles is a unit of two rows: what is claimed is what the most rows of it reach."""
    reached = worst(asked, Strategy.WHOLE, honest, relation=relation)
    assert reached.worst <= 1
    assert reached.l1 == 1 or relation == "replace"


@pytest.mark.parametrize(("asked", "strategy"), [each for each in UNITS if "GROUP BY" not in each[0]])
def test_no_claim_is_exceeded_when_a_unit_is_replaced(asked: str, strategy: Strategy) -> None:
    """In one group, and in both directions of a value's range, at the limits and one beyond."""
    assert worst(asked, strategy, honest, relation="replace").worst <= 1


MIRRORED = [(-2, 10), (-10, 2), (3, 10)]
"""In the long run alone: every test above reads a column with the first of these bounds."""


def _at_the_ends(low: int, high: int) -> dict[str, list[Row]]:
    """Units at both ends of a range, with as many rows and groups as the limits say and with one more."""
    most, groups, per_group = LIMITS
    shapes = [(per_group, 1), (per_group + 1, 1), (most, groups), (most + 1, 1), (most + 1, groups + 1), (40, 8)]
    ends = {f"{end} {rows} {reach}": _rows(rows, end, reach) for end in (low, high) for rows, reach in shapes}
    mixed = [row for index in range(8) for row in _rows(40, low if index % 2 else high, 1, index)]
    other = [row for index in range(8) for row in _rows(40, high if index % 2 else low, 1, index)]
    return {"": [], **ends, "mixed": mixed, "other": other, "both": _rows(2, low) + _rows(1, high)}


@pytest.mark.parametrize(
    ("low", "high"),
    [(-10, 10), (-10, -3), *(pytest.param(*each, marks=pytest.mark.long) for each in MIRRORED)],
)
def test_sums_of_any_bounds_keep_their_claims(low: int, high: int) -> None:
    """Under both relations, in one group and in several; one group's claim is reached: twice the larger end if bounds
    are equal, less the more lopsided they are."""
    columns = _COLUMNS | {"age": {"type": "integer", "bounds": [low, high]}}
    world = World(True, LIMITS, columns, _STORED, {}, ())
    tables = Tables({name: world.engine(rows) for name, rows in _at_the_ends(low, high).items()})
    for strategy in (Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.SAMPLE):
        for asked in (SUM, GROUPED_AGE):
            for relation in ("add-remove", "replace"):
                reached = _worst(tables, asked, strategy, honest, relation, None)
                assert reached.worst <= 1
                if asked == SUM and low < 0 < high:
                    assert reached.linf > 0.999
        if low == -high:
            assert getattr(_worst(tables, GROUPED_AGE, strategy, honest, "replace", None), _norm(strategy)) > 0.999
    tables.close()


def test_clipping_by_size_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin that cuts lopsided totals to the same size on both sides."""
    by_size = clip_scaling.ClipScaling.for_measure
    monkeypatch.setattr(clip_scaling.ClipScaling, "for_measure", lambda *given: replace(by_size(*given), box=None))
    for strategy in (Strategy.CLIP_L1, Strategy.CLIP_L2):
        assert worst(SUM, strategy, honest).worst <= 1
        assert worst(SUM, strategy, honest, relation="replace").linf > 1.5


@pytest.mark.parametrize(("asked", "strategy"), UNITS)
def test_half_a_claim_is_caught(asked: str, strategy: Strategy) -> None:
    assert getattr(worst(asked, strategy, halved), _norm(strategy)) > 1.9


@pytest.mark.parametrize(
    ("asked", "strategy", "limit"),
    [
        (COUNT, Strategy.REWEIGHT, "rows"),
        (GROUPED, Strategy.REWEIGHT, "rows"),
        (GROUPED, Strategy.SAMPLE, "rows"),
        (GROUPED, Strategy.SAMPLE, "rows_per_group"),
        (DISTINCT, Strategy.SAMPLE, "groups"),
        (COUNT, Strategy.CLIP_L1, "rows_per_group"),
        (GROUPED, Strategy.CLIP_L2, "rows_per_group"),
        (DISTINCT, Strategy.CLIP_L1, "groups"),
        (DISTINCT, Strategy.CLIP_L2, "groups"),
    ],
)
def test_a_limit_off_by_one_is_caught(asked: str, strategy: Strategy, limit: str) -> None:
    assert worst(asked, strategy, generous(limit), per_group=1 if limit == "groups" else None).worst > 1


def one_more(compared: str) -> Callable[[DuckDB, StagedSelect], str]:
    """The twin of the engine whose limit leaves units alone that have one row, or one group, more than it allows."""
    write = DuckDB._render

    def mistaken(engine: DuckDB, made: StagedSelect) -> str:
        sound = write(engine, made)
        limit = rf"({re.escape(compared)} CAST\()(\d+)"
        changed = re.sub(limit, lambda match: f"{match[1]}{int(match[2]) + 1}", sound)
        assert changed != sound or "sf_unit" not in sound
        return changed

    return mistaken


HEAVY = "HAVING (COUNT(*) >"
SLIPS = [
    (COUNT, Strategy.REWEIGHT, HEAVY),
    (GROUPED_SUM, Strategy.REWEIGHT, HEAVY),
    (GROUPED, Strategy.CLIP_L1, HEAVY),
    (GROUPED_SUM, Strategy.CLIP_L2, HEAVY),
    (DISTINCT, Strategy.SAMPLE, "THEN"),
    (GROUPED, Strategy.SAMPLE, '"b" <='),
    (GROUPED_SUM, Strategy.SAMPLE, '"d" <='),
]


@pytest.mark.parametrize(("asked", "strategy", "compared"), SLIPS)
def test_a_statement_that_lets_one_row_more_pass_is_caught(
    monkeypatch: pytest.MonkeyPatch, asked: str, strategy: Strategy, compared: str
) -> None:
    """Only a unit with exactly one row, or one group, more than a limit sees some of these; when it is replaced, only
    by one that shares no group with it."""
    monkeypatch.setattr(DuckDB, "_render", one_more(compared))
    assert worst(asked, strategy, honest).worst > 1
    assert "GROUP BY" not in asked or worst(asked, strategy, honest, relation="replace").worst > 1


def test_weights_rounded_to_nearest_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(value: Scalar, most: int, bits: int) -> Scalar:
        product, count = (
            apply(ScalarFunction.CONVERT, each, detail=(Type.REAL,))
            for each in (apply(ScalarFunction.MULTIPLY, value, integer_constant(most << bits)), Reference("n"))
        )
        return apply(ScalarFunction.NEAREST, apply(ScalarFunction.DIVIDE, product, count))

    monkeypatch.setattr(bounded_totals, "_weighted_value", rounded)
    assert worst(COUNT, Strategy.REWEIGHT, honest).l1 > 1


def test_weights_of_negative_values_are_rounded_toward_zero() -> None:
    """Seven rows at the lower end of a range, of which five may count: rounded down they would count for more."""
    world = World(True, LIMITS, _COLUMNS | {"age": {"type": "integer", "bounds": [-10, 2]}}, _STORED, {}, ())
    tables = Tables({"": world.engine([]), "seven": world.engine(_rows(7, -10))})
    reached = _worst(tables, SUM, Strategy.REWEIGHT, honest, "add-remove", None)
    assert 0.999 < reached.l1 <= 1


def test_a_missing_clamp_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except by clipping, which cuts a unit's vector to its norm whatever it holds."""
    for clamp in ("_clamp_sql", "_clamp_integer_sql"):
        monkeypatch.setattr(scan, clamp, lambda sql, *_: sql)
    tables = _tables(units=True)
    reached = {
        strategy: _worst(tables, SUM, strategy, honest, "add-remove", None).l1
        for strategy in Strategy
        if strategy.is_selectable
    }
    assert reached[Strategy.REWEIGHT] > 1000
    assert reached[Strategy.SAMPLE] > 1000
    assert reached[Strategy.CLIP_L1] <= 1
    tables.close()


@pytest.mark.parametrize("asked", [GROUPED, GROUPED_SUM, DISTINCT])
@pytest.mark.parametrize("strategy", [Strategy.CLIP_L1, Strategy.SAMPLE])
def test_replace_treated_as_add_remove_is_caught(asked: str, strategy: Strategy) -> None:
    def careless(bounded: BoundedPlan) -> BoundedPlan:
        halves = [each.sensitivity for each in bounded.measures]
        mistaken = [Sensitivity(s.groups, s.per_group, s.total / 2, s.squares / 2, s.neighbours) for s in halves]
        pairs = zip(bounded.measures, mistaken, strict=True)
        return replace(bounded, measures=tuple(replace(each, sensitivity=claim) for each, claim in pairs))

    assert worst(asked, strategy, careless, relation="replace").l1 > 1.9


def test_a_join_may_multiply_a_row() -> None:
    """A claim that forgets the public table's two rows for one region is caught."""

    def forgetful(bounded: BoundedPlan) -> BoundedPlan:
        return replace(
            bounded,
            measures=tuple(replace(each, sensitivity=Sensitivity(1, 1)) for each in bounded.measures),
        )

    assert worst(JOINED, Strategy.WHOLE, forgetful).l1 == 2
