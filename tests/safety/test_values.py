"""Readings of values: neighbours differ by at most the claim, and within limits they are what pandas counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from safety import worlds
from safety.places import HERE, Place
from safety.worlds import KEYS, PREDICATES, question, telling
from sfumato.curator.proposals.questions import Question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering.reading_statements import local_statement, server_statement
from sfumato.engine.postgres.driver import Postgres
from sfumato.engine.spark.driver import Spark
from sfumato.errors import Unsupported
from sfumato.plan.bounding import BoundedPlan, bound_distinct_values
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.dense_readings import DistinctCounts, ValueFrequencies
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.release.parts.other_parts import DistinctValuesPart, FrequentValuesPart
from sfumato.release.parts.shares import OtherPart

LISTED = (
    "region",
    "flag",
    "code",
    "UPPER(region)",
    "CASE WHEN flag THEN region ELSE 'other' END",
    "age > 5",
    "code * 2",
)
ANY = (
    *LISTED,
    "note",
    "cost",
    "day",
    "age",
    "LENGTH(note)",
    "COALESCE(note, 'none')",
    "region, note",
    "(note, flag, day)",
)
_REFUSED = ("too-many-groups", "unbounded", "no-groups", "unlisted-values", "too-many-cells")


def text(random: Random, *, found: bool = False) -> str:
    """A random question about values: of a table, beside public rows, or of a union."""
    keys = ["note"] if found else []
    keys += random.sample(KEYS[:4], random.choice((0, 1, 1, 2)))
    asked = [f"COUNT(DISTINCT {random.choice(ANY)})", f"MODE({random.choice(LISTED)})"]
    asked = [f"{each} FILTER (WHERE {random.choice(PREDICATES)})" if random.random() < 0.3 else each for each in asked]
    source = random.choice(
        (
            "people AS p",
            "people AS p JOIN places USING (region)",
            "(SELECT region, age, cost, flag, code, day, note FROM people WHERE flag UNION ALL"
            " SELECT region, age, cost, flag, code, day, note FROM people) AS p",
        )
    )
    columns = [f"{key} AS g{index}" for index, key in enumerate(keys)]
    columns += [f"{each} AS x{index}" for index, each in enumerate(asked)]
    grouped = f" GROUP BY {', '.join(str(index + 1) for index in range(len(keys)))}" if keys else ""
    where = f" WHERE {random.choice(PREDICATES)}" if random.random() < 0.3 else ""
    return f"SELECT {', '.join(columns)} FROM {source}{where}{grouped}"


def _readings(asked: Question, groups: tuple[Any, ...]) -> list[tuple[BoundedPlan, PlanReading[Any], bool]]:
    """What is read for each part: sampled values, and where they may be matched, one and two matched to a unit."""
    parts = [*asked.other_parts, *(matched for part in asked.other_parts for matched in _matched(part, 1, 2))]
    return [(each.bounded, each.reading(groups), isinstance(each, FrequentValuesPart)) for each in parts]


def _matched(part: OtherPart, *limits: int) -> list[DistinctValuesPart]:
    if not isinstance(part, DistinctValuesPart) or part.max_values is None or part.bounded.strategy is Strategy.WHOLE:
        return []
    return [
        replace(part, bounded=bound_distinct_values(part.bounded, limit), sampling_plan=part.bounded)
        for limit in limits
    ]


def _check(bounded: BoundedPlan, before: Any, after: Any, replaced: bool, table: bool) -> None:
    """One unit moves what was read by at most what is claimed: of a table of values, its rows in all groups."""
    moved = np.abs(np.asarray(after, np.int64) - np.asarray(before, np.int64))
    claim = bounded.measures[0].add_remove_sensitivity
    times = 2 if replaced else 1
    if table:
        assert moved.sum() <= times * claim.total
        assert moved.sum(axis=1).max(initial=0) <= times * claim.per_group
    else:
        assert moved.max(initial=0) <= claim.per_group
        assert moved.sum() <= times * claim.total
    if not replaced:
        assert (np.asarray(after) >= np.asarray(before)).all(), "what a unit adds has one sign"


def replayed(seed: int, plans: int, *, found: bool = False, place: Place = HERE, few: bool = False) -> int:
    random = Random(seed)
    made = worlds.world(random)
    drawn = made.tables(random, 60)
    chosen = telling(drawn) if few else drawn
    tables: dict[str, Any] = {name: place.engine(made.policy(rows)) for name, rows in chosen.items()}
    compared = 0
    for _ in range(plans):
        asked_text = text(random, found=found)
        try:
            asked = question(tables[""], tables[""]._policy, asked_text)
            groups = tuple(("7", *group) for group in asked.groups) if asked.discovered_keys else asked.groups
            readings = _readings(asked, groups)
        except Unsupported as refusal:
            if refusal.code not in _REFUSED:
                raise
            continue
        key = random.getrandbits(62)
        for bounded, reading, table in readings:
            read = {name: engine.read(reading, key) for name, engine in tables.items()}
            others = [name for name in tables if name]
            for name in others:
                compared += 1
                _check(bounded, read[""], read[name], False, table)
            for first, second in combinations(others, 2):
                compared += 1
                _check(bounded, read[first], read[second], True, table)
    for engine in tables.values():
        engine.close()
    return compared


def test_neighbours_differ_by_at_most_the_claim() -> None:
    """Added and replaced units at every edge of the limits, in several groups, with NULLs, filters, joins, unions."""
    assert sum(replayed(seed, 3, few=True) for seed in range(2)) > 50


def test_groups_that_are_found_are_read_within_the_same_claim() -> None:
    assert replayed(20, 2, found=True, few=True) > 20


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_hundreds_of_plans() -> None:
    assert sum(replayed(seed, 10, found=seed % 3 == 0) for seed in range(100, 130)) > 5000


def _policy(rows: list[dict[str, Any]], limits: tuple[int, int, int], relation: str = "add-remove") -> Policy:
    columns = {
        "town": {"values": ["a", "b", "c"]},
        "drug": {"values": ["x", "y", "z"], "nullable": True},
        "day": {"type": "date", "bounds": ["2024-01-01", "2024-01-05"]},
        "cost": {"type": "real", "bounds": [0, 5]},
        "note": {"type": "text"},
    }
    kinds = {"who": pa.int64(), "town": pa.string(), "drug": pa.string(), "day": pa.date32()}
    kinds |= {"cost": pa.float64(), "note": pa.string()}
    source = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
    most, groups, per_group = limits
    table = Table("t", source, columns, id="who", max_rows=most, max_groups=groups, max_rows_per_group=per_group)
    size = 1 if relation == "replace" else None
    return Policy(PrivacyUnit("person"), Budget(1000, "1e-6", neighbours=relation), {"t": table}, size=size)


def _rows(random: Random, count: int, people: int) -> list[dict[str, Any]]:
    day = pd.Timestamp("2024-01-01")
    return [
        {
            "who": random.randrange(people),
            "town": random.choice("abc"),
            "drug": random.choice(["x", "y", "z", "x", None]),
            "day": (day + pd.Timedelta(days=random.randrange(5))).date(),
            "cost": random.choice([0.0, -0.0, 0.5, 4.25, None]),
            "note": random.choice(["", "it's", "n", None]),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("column", ["drug", "day", "cost", "note"])
def test_within_limits_it_is_what_pandas_counts(seed: int, column: str) -> None:
    random = Random(seed)
    rows = _rows(random, 60, 20)
    frame = pd.DataFrame(rows)
    policy = _policy(rows, (60, 3, 60))
    engine = DuckDB(policy)
    text = f"SELECT town, COUNT(DISTINCT {column}) AS d, MODE(drug) AS m FROM t WHERE town <> 'c' GROUP BY town"
    asked = question(engine, policy, text)
    different, frequent = asked.other_parts
    assert isinstance(different, DistinctValuesPart)
    assert isinstance(frequent, FrequentValuesPart)
    own = frame[frame.town != "c"]
    found = engine.read(different.reading(asked.groups), 5)
    expected = own.groupby("town")[column].nunique()
    assert [int(each) for each in found[:, 0]] == [int(expected.get(town, 0)) for (town,) in asked.groups]
    cells = engine.read(frequent.reading(asked.groups), 5)
    counted = own.groupby(["town", "drug"]).size()
    expected_cells = [[int(counted.get((town, drug), 0)) for drug in frequent.values] for (town,) in asked.groups]
    assert cells.tolist() == expected_cells
    engine.close()


@pytest.mark.parametrize(("columns", "nulls"), [("drug, note", False), ("(drug, note)", True), ("(note, day)", True)])
def test_distinct_tuples_are_what_pandas_counts(columns: str, nulls: bool) -> None:
    """A row with a NULL is a value of its own; of a list of columns only rows without NULL count."""
    rows = _rows(Random(5), 60, 20)
    rows += [{**rows[0], "drug": drug, "note": note} for drug, note in (("x", "1:y"), ("x1", ":y"), ("n", "n"))]
    policy = _policy(rows, (60, 3, 60))
    engine = DuckDB(policy)
    asked = question(engine, policy, f"SELECT town, COUNT(DISTINCT {columns}) AS d FROM t GROUP BY town")
    found = engine.read(asked.other_parts[0].reading(asked.groups), 5)[:, 0]
    names = columns.strip("()").split(", ")
    for (town,), count in zip(asked.groups, found, strict=True):
        tuples = {tuple(_declared(row)[name] for name in names) for row in rows if row["town"] == town}
        assert int(count) == len(tuples if nulls else {each for each in tuples if None not in each})
    engine.close()


def _declared(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "drug": row["drug"] if row["drug"] in ("x", "y", "z") else None}


def test_tuples_of_texts_that_hold_the_separator_are_told_apart() -> None:
    """("x:x", "x") and ("x", "x:x") are two tuples: only their lengths tell them apart."""
    first = {**_rows(Random(5), 1, 1)[0], "town": "a", "note": "x:x", "drug": "x"}
    rows = [first, {**first, "drug": "y"}]
    policy = _policy(rows, (60, 3, 60))
    engine = DuckDB(policy)
    parts = "CASE WHEN drug = 'x' THEN note ELSE 'x' END, CASE WHEN drug = 'x' THEN 'x' ELSE note END"
    asked = question(engine, policy, f"SELECT COUNT(DISTINCT {parts}) AS d FROM t")
    assert int(engine.read(asked.other_parts[0].reading(asked.groups), 5).sum()) == 2
    engine.close()


def test_a_unit_with_one_tuple_more_than_its_limit() -> None:
    """A unit of 4 tuples where 3 rows count adds 3 of them, which is what is claimed."""
    random = Random(3)
    others = [{**_rows(random, 1, 1)[0], "who": 1, "town": "a", "note": "z", "drug": "z"}]
    made = [{**others[0], "who": 0, "note": note, "drug": drug} for note in "xy" for drug in "xy"]
    counts, claims = [], set()
    for rows in (others, others + made):
        policy = _policy(rows, (3, 3, 3))
        engine = DuckDB(policy)
        asked = question(engine, policy, "SELECT COUNT(DISTINCT note, drug) AS d FROM t")
        counts.append(int(engine.read(asked.other_parts[0].reading(asked.groups), 5).sum()))
        claims.add(asked.other_parts[0].bounded.measures[0].add_remove_sensitivity.per_group)
        engine.close()
    assert counts[1] - counts[0] == 3
    assert claims == {3}


@pytest.mark.parametrize(
    ("limits", "rows", "kept"),
    [
        ((3, 3, 3), [("a", "x")] * 9, 1),  # one pair, however many rows
        ((3, 3, 3), [("a", note) for note in "xyzuv"], 3),
        ((4, 1, 4), [("a", "x"), ("b", "x"), ("b", "y"), ("a", "y")], 2),  # one group of the two
        ((5, 2, 1), [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z")], 2),
        ((2, 2, 2), [("a", "x"), ("a", "x"), ("b", "y"), ("b", "z"), ("a", "w")], 2),
    ],
)
def test_pairs_of_a_unit_are_limited(limits: tuple[int, int, int], rows: list[tuple[str, str]], kept: int) -> None:
    """One unit beyond its limits has exactly as many pairs left as they allow."""
    random = Random(3)
    made = [{**_rows(random, 1, 1)[0], "town": town, "note": note} for town, note in rows]
    policy = _policy(made, limits)
    engine = DuckDB(policy)
    asked = question(engine, policy, "SELECT town, COUNT(DISTINCT note) AS d FROM t GROUP BY town")
    for key in range(5):
        assert int(engine.read(asked.other_parts[0].reading(asked.groups), key).sum()) == kept
    engine.close()


def test_the_pairs_that_are_kept_of_a_unit_do_not_depend_on_others() -> None:
    """What others hold changes the union, never what is kept of a unit."""
    random = Random(9)
    base = _rows(random, 30, 5)
    extra = [{**row, "who": 99} for row in _rows(random, 12, 1)]
    engines = []
    for rows in (base, base + extra):
        policy = _policy(rows, (3, 2, 2))
        engine = DuckDB(policy)
        asked = question(engine, policy, "SELECT town, COUNT(DISTINCT note) AS d FROM t GROUP BY town")
        engines.append([engine.read(asked.other_parts[0].reading(asked.groups), key) for key in range(6)])
        engine.close()
    for before, after in zip(*engines, strict=True):
        assert ((after - before) >= 0).all()
        assert (after - before).sum() <= 3


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_unit_of_several_rows_is_charged_for_all_of_them(relation: str) -> None:
    """Rows beside public ones: a unit of one row has as many as there are matches."""
    table = Table("t", pa.table({"town": ["a"]}), {"town": {"values": ["a", "b"]}}, id="row")
    public = Table("places", pa.table({"town": ["a", "a", "a"], "kind": ["x", "y", "z"]}), public=True)
    budget = Budget(10, "1e-6", neighbours=relation)
    unit = PrivacyUnit("person", every_row=True)
    policy = Policy(unit, budget, {"t": table, "places": public}, size=1)
    engine = DuckDB(policy)
    text = "SELECT COUNT(DISTINCT kind) AS d, MODE(kind) AS m FROM t JOIN places USING (town)"
    asked = question(engine, policy, text)
    different, frequent = asked.other_parts
    assert different.bounded.measures[0].add_remove_sensitivity.total == 3
    assert frequent.bounded.measures[0].add_remove_sensitivity.total == 3
    assert isinstance(different, DistinctValuesPart)
    assert isinstance(frequent, FrequentValuesPart)
    assert DistinctCounts(different.reading(())).sensitivity.linf == 3
    assert ValueFrequencies(frequent.reading(())).rows_per_unit == 3
    assert engine.read(different.reading(asked.groups), 1).tolist() == [[3]]
    assert engine.read(frequent.reading(asked.groups), 1).sum() == 3
    engine.close()


def test_one_row_of_a_person_from_a_subquery_counts_once() -> None:
    rows = _rows(Random(4), 50, 8)
    policy = _policy(rows, (9, 9, 9))
    engine = DuckDB(policy)
    inner = "SELECT who, COUNT(*) AS n FROM t GROUP BY who"
    text = f"SELECT COUNT(DISTINCT LEAST(n, 9)) AS d, MODE(LEAST(n, 9)) AS m FROM ({inner})"
    asked = question(engine, policy, text)
    assert [part.bounded.measures[0].add_remove_sensitivity.total for part in asked.other_parts] == [1, 1]
    counts = pd.Series([row["who"] for row in rows]).value_counts().clip(upper=9)
    assert engine.read(asked.other_parts[0].reading(asked.groups), 1).tolist() == [[counts.nunique()]]
    engine.close()


MATCHED = "SELECT town, COUNT(DISTINCT drug) AS d FROM t GROUP BY town"


def _read_matched(rows: list[dict[str, Any]], limit: int, relation: str = "add-remove") -> tuple[list[int], Any]:
    """The matched counts of the towns, and the sensitivity of the noise on them."""
    policy = _policy(rows, (9, 3, 9), relation)
    engine = DuckDB(policy)
    asked = question(engine, policy, MATCHED)
    ((part, *_),) = (_matched(part, limit) for part in asked.other_parts)
    counts = engine.read(part.reading(asked.groups), 5)[:, 0].tolist()
    engine.close()
    return counts, DistinctCounts(part.reading(())).sensitivity


def _holding(*held: str) -> list[dict[str, Any]]:
    """Rows of one unit for each text, with the town and drug that two letters name, each twice."""
    row = _rows(Random(3), 1, 1)[0]
    pairs = [(who, pair) for who, text in enumerate(held) for pair in text.split() for _ in range(2)]
    return [{**row, "who": who, "town": town, "drug": drug} for who, (town, drug) in pairs]


@pytest.mark.parametrize(
    ("held", "limit", "counts"),
    [
        (("ax ay az",), 1, [1, 0, 0]),
        (("ax ay az",), 2, [2, 0, 0]),  # one value more than the limit
        (("ax ay", "ax ay", "ax ay"), 1, [2, 0, 0]),  # each takes one that is left, and nothing is for the last
        (("ax bx cx", "ax"), 1, [1, 0, 0]),  # of the order of ids: what the second has is taken
        (("ax", "ax bx cx"), 1, [1, 1, 0]),
        (("ax", "ax bx cx"), 2, [1, 1, 1]),
        (("", "bz"), 1, [0, 1, 0]),
    ],
)
def test_values_are_matched_to_units(held: tuple[str, ...], limit: int, counts: list[int]) -> None:
    assert _read_matched(_holding(*held), limit)[0] == counts


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("limit", [1, 2])
def test_the_noise_on_matched_values_covers_the_largest_moves(limit: int, relation: str) -> None:
    """A unit of the limit and one value more, which is added, or replaces one of as many values in another town."""
    held = "ax ay az" if limit == 2 else "ax ay"
    nobody, _ = _read_matched(_holding(""), limit, relation)
    added, sensitivity = _read_matched(_holding(held), limit, relation)
    replaced, _ = _read_matched(_holding(held.replace("a", "b")), limit, relation)
    assert sum(added) - sum(nobody) == limit == sensitivity.linf
    moves = np.abs(np.array(added) - (replaced if relation == "replace" else nobody))
    assert moves.sum() == sensitivity.l1 == (2 if relation == "replace" else 1) * limit
    assert (moves**2).sum() == sensitivity.squares


def test_matched_values_of_other_groups_take_no_place() -> None:
    """A value in a group that is not asked for is not matched to a unit."""
    policy = _policy(_holding("ax bx"), (9, 3, 9))
    engine = DuckDB(policy)
    asked = question(engine, policy, MATCHED)
    ((part, *_),) = (_matched(part, 1) for part in asked.other_parts)
    assert engine.read(part.reading((("a",),)), 5).tolist() == [[1]]
    assert engine.read(part.reading((("c",), ("b",))), 5).tolist() == [[0], [1]]
    engine.close()


def test_values_are_matched_alike_whatever_the_order_of_rows() -> None:
    rows = _rows(Random(8), 60, 12)
    counts = _read_matched(rows, 1)[0]
    for seed in range(3):
        Random(seed).shuffle(rows)
        assert _read_matched(rows, 1)[0] == counts


def test_no_server_is_asked_for_pairs_of_a_unit_and_a_value() -> None:
    policy = _policy(_holding("ax"), (9, 3, 9))
    engine = DuckDB(policy)
    asked = question(engine, policy, MATCHED)
    ((part, *_),) = (_matched(part, 1) for part in asked.other_parts)
    assert local_statement(part.reading(asked.groups), 5)
    with pytest.raises(KeyError):
        server_statement(part.reading(asked.groups), 5)
    engine.close()
    assert not Postgres.matches_values
    assert not Spark.matches_values
