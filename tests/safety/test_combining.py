"""What one statement reads for several questions is, number for number, what each of them reads by itself."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from random import Random

import pandas as pd
import pytest

import sfumato as sf
from engine.tables import tuples
from safety.worlds import PREDICATES, question, world
from sfumato.curator.proposals.questions import Question
from sfumato.engine.lowering.cell_lowering import MIN_COUNTS
from sfumato.errors import Unsupported
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.combining import combine_readings
from sfumato.plan.readings.total_readings import GroupTotals

TESTS = ("", "WHERE kind = 'a'", "WHERE cost > 0", "WHERE kind = 'b' AND cost >= 1", "WHERE cost / kind_no > 1")
COUNT = "SELECT COUNT(*) AS n FROM visits"
MEASURES = ("COUNT(*)", "COUNT(DISTINCT who)", "COUNT(cost)")


def clinic(folder: Path, neighbours: str = "add-remove", *, rows: bool = False) -> sf.Curator:
    """Units with none, one, two (the limit), three and nine rows; missing cells."""
    held = {1: 1, 2: 2, 3: 3, 4: 9, 5: 2}
    who = [unit for unit, count in held.items() for _ in range(count)]
    cells = {"kind": ["a", "b", None], "cost": [0, 1, 2, None], "kind_no": [0, 1]}
    frame = pd.DataFrame(
        {"who": who, **{name: [own[i % len(own)] for i in range(len(who))] for name, own in cells.items()}}
    )
    columns = {
        "kind": {"values": ["a", "b"]},
        "cost": {"type": "integer", "bounds": [-1, 2]},
        "kind_no": {"type": "integer", "bounds": [0, 1]},
    }
    table = sf.Table("visits", frame, columns, id="row" if rows else "who", max_rows=None if rows else 2)
    unit = sf.PrivacyUnit("visit" if rows else "patient", every_row=rows)
    policy = sf.Policy(unit, sf.Budget(100, "1e-6", neighbours=neighbours), {"visits": table}, size=5)
    return sf.Curator(policy, folder / "clinic.ledger")


def asked(made: sf.Curator, text: str) -> Question:
    found = made.sql(text)
    assert isinstance(found, Question)
    return found


def by_strategy(found: Question, strategy: Strategy) -> GroupTotals:
    (bounded,) = (each for each in found.bounding_options if each.strategy is strategy)
    return GroupTotals(bounded, found.groups)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.CLIP_L1, Strategy.CLIP_L2])
def test_one_statement_reads_what_each_would(neighbours: str, strategy: Strategy, tmp_path: Path) -> None:
    whole = strategy is Strategy.WHOLE
    with clinic(tmp_path, neighbours, rows=whole) as made:
        texts = [f"SELECT {measure} AS n FROM visits {test}" for measure in MEASURES for test in TESTS]
        texts += [
            "SELECT COUNT(*) FILTER (WHERE cost > 1) AS n FROM visits",
            "SELECT COUNT(*) AS n, COUNT(*) * 2 FROM visits",
        ]
        texts = [each for each in texts if not (whole and "DISTINCT" in each)]
        readings = [by_strategy(asked(made, text), strategy) for text in texts]
        engine = made._context.engine
        together = combine_readings(readings)
        mergeable = [each for each in together if len(each.parts) > 1]
        assert len(mergeable) == (1 if whole else 2)  # units are counted apart from rows
        assert sum(len(each.parts) for each in mergeable) >= 0.5 * len(readings)
        for each in together:
            totals = engine.read(each.reading, 7)
            for own, columns in each.parts:
                assert tuples(totals[:, columns]) == tuples(engine.read(own, 7))
        assert {own for each in together for own, _ in each.parts} == set(readings)


@pytest.mark.parametrize("seed", range(4))
def test_random_predicates_over_hostile_cells(seed: int) -> None:
    random = Random(f"combining {seed}")
    made = world(random)
    engine = made.engine(made.rows)
    readings = []
    for predicate in PREDICATES:
        try:
            found = question(engine, engine._policy, f"SELECT COUNT(*) AS n FROM people WHERE {predicate}")
            readings += [
                GroupTotals(each, found.groups)
                for each in found.bounding_options
                if each.strategy in (Strategy.WHOLE, Strategy.CLIP_L1)
            ]
        except Unsupported:
            continue
    together = combine_readings(readings)
    assert max(len(each.parts) for each in together) > len(readings) / 2
    for each in together:
        totals = engine.read(each.reading, 11)
        for own, columns in each.parts:
            assert tuples(totals[:, columns]) == tuples(engine.read(own, 11))
    engine.close()


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT * FROM visits UNION ALL SELECT * FROM visits WHERE cost > 0) AS v",
        "(SELECT who, kind, kind_no, MAX(cost) AS cost FROM visits GROUP BY who, kind, kind_no) AS v",
    ],
)
def test_many_counts_of_rows_that_are_computed_first(source: str, tmp_path: Path) -> None:
    """Cells are of columns that tests read; where rows are kept as what was computed from them, there are none."""
    with clinic(tmp_path) as made:
        tests = [f"{column} {test}" for column in ("kind_no", "cost") for test in ("> 0", "< 1", "= 1", "IS NULL")]
        tests += [f"{one} AND {other}" for one, other in combinations(tests[:5], 2)]
        texts = [f"SELECT COUNT(*) AS n FROM {source} WHERE {test}" for test in tests]
        together = combine_readings([by_strategy(asked(made, text), Strategy.CLIP_L1) for text in texts])
        assert max(len(each.parts) for each in together) >= MIN_COUNTS
        for each in together:
            totals = made._context.engine.read(each.reading, 7)
            for own, columns in each.parts:
                assert tuples(totals[:, columns]) == tuples(made._context.engine.read(own, 7))


def test_what_would_be_another_number_is_read_by_itself(tmp_path: Path) -> None:
    """Weights and samples depend on the rows that pass the WHERE; so do ranges that it narrows."""
    with clinic(tmp_path) as made:
        counts = [asked(made, f"SELECT COUNT(*) AS n FROM visits {test}") for test in TESTS]
        for strategy in (Strategy.REWEIGHT, Strategy.SAMPLE):
            assert all(
                len(each.parts) == 1 for each in combine_readings([by_strategy(each, strategy) for each in counts])
            )
        apart = [
            "SELECT SUM(cost) AS n FROM visits WHERE cost > 0",
            "SELECT AVG(cost) AS n FROM visits WHERE kind = 'a'",
            "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind",
            "SELECT COUNT(*) FILTER (WHERE 2 / cost > 1) AS n FROM visits WHERE cost > 0",
            "SELECT COUNT(*) AS n FROM (SELECT * FROM visits WHERE cost > 0) AS v",
        ]
        readings = [by_strategy(asked(made, text), Strategy.CLIP_L1) for text in apart]
        beside = [by_strategy(each, Strategy.CLIP_L1) for each in counts]
        for each in combine_readings([*readings, *beside]):
            own = {reading for reading, _ in each.parts}
            assert len(own) == 1 or own <= set(beside)
        tighter = by_strategy(counts[0].limit(rows=1), Strategy.CLIP_L1)
        assert all(len(each.parts) == 1 for each in combine_readings([tighter, beside[1]]))


def test_the_claims_stay_those_of_each_question(tmp_path: Path) -> None:
    with clinic(tmp_path, "replace") as made:
        readings = [
            by_strategy(asked(made, f"SELECT COUNT(*) AS n FROM visits {test}"), Strategy.CLIP_L1) for test in TESTS
        ]
        (together,) = combine_readings(readings)
        claims = [each.sensitivity for each in together.reading.bounded.measures]
        assert claims == [each.bounded.measures[0].sensitivity for each in readings]
        for first, second in combinations(claims, 2):
            assert first == second
        assert claims[0].linf * together.reading.bounded.measures[0].unit_value == Fraction(2)


def test_a_statement_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.plan.readings.combining.MAX_MEASURES", 2)
    with clinic(tmp_path) as made:
        readings = [
            by_strategy(asked(made, f"SELECT COUNT(*) AS n FROM visits {test}"), Strategy.CLIP_L1) for test in TESTS
        ]
        assert [len(each.parts) for each in combine_readings(readings)] == [2, 2, 1]


MANY = [
    *(f"kind = '{kind}'" for kind in "ab"),
    "kind IS NULL",
    "kind <> 'a'",
    "kind IN ('a', 'b')",
    *(f"cost > {number}" for number in (-1, 0, 1)),
    "cost IS NULL",
    "NOT (cost = 1)",
    "kind = 'a' OR cost = 2",
    "kind = 'b' AND cost BETWEEN 0 AND 1",
    "kind_no = 0",
    "1 = 1",
]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.CLIP_L1, Strategy.CLIP_L2])
def test_many_counts_are_added_up_from_cells(neighbours: str, strategy: Strategy, tmp_path: Path) -> None:
    """The same numbers as one by one, where units have more rows than count and where they have not."""
    with clinic(tmp_path, neighbours, rows=strategy is Strategy.WHOLE) as made:
        engine = made._context.engine
        readings = [by_strategy(asked(made, f"{COUNT} WHERE {test}"), strategy) for test in MANY]
        (together,) = combine_readings([*readings, by_strategy(asked(made, COUNT), strategy)])
        totals = engine.read(together.reading, 7)
        assert "GROUP BY c0, c1, c2" in engine.sources.statements[-1]  # type: ignore[attr-defined]
        for own, columns in together.parts:
            assert tuples(totals[:, columns]) == tuples(engine.read(own, 7))


@pytest.mark.parametrize("kind", ["real", "integer", "text"])
def test_columns_that_may_make_many_cells_are_not_grouped_by(kind: str, tmp_path: Path) -> None:
    """That is decided from what is declared: rows that are few in this table may be many in another."""
    columns = {"real": {"bounds": [0, 1]}, "integer": {"bounds": [0, 10**6]}, "text": {}}[kind]
    values = {"real": [0.5, 0.25], "integer": [3, 4], "text": ["3", "4"]}[kind]
    table = sf.Table("visits", pd.DataFrame({"who": [1, 2], "x": values}), {"x": {"type": kind, **columns}}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(10), {"visits": table})
    with sf.Curator(policy, tmp_path / "visits.ledger") as made:
        tests = [f"x = '{number}'" if kind == "text" else f"x > 0.0{number}" for number in range(1, 15)]
        readings = [by_strategy(asked(made, f"{COUNT} WHERE {test}"), Strategy.WHOLE) for test in tests]
        (together,) = combine_readings(readings)
        totals = made._context.engine.read(together.reading, 7)
        assert "GROUP BY" not in made._context.engine.sources.statements[-1]  # type: ignore[attr-defined]
        for own, place in together.parts:
            assert tuples(totals[:, place]) == tuples(made._context.engine.read(own, 7))
