"""What DuckDB's answers are held to holds on Spark: one outcome whoever is in the table, claims, and a reckoning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import tuples
from engines.spark import compared
from engines.spark.conftest import PANDAS, Cluster
from safety import test_oracle, test_outcomes, test_replay, worlds
from safety.hostile import QUESTIONS
from sfumato.curator.curators import Curator
from sfumato.mechanisms import Quantiles
from sfumato.plan.bounding import for_neighbours
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS), pytest.mark.long]


# Neighbours


def _replayed(cluster: Cluster, folder: Path, seed: int) -> int:
    """How many changes were held against their claims, recorded on Spark, under both neighbour relations."""
    made, words = compared.world_questions(100 + seed, 4)
    tables = made.tables(Random(seed), 200)
    here = made.engine(tables[""])
    asked = [each for text in words for each in compared.asked(here, text) if not compared.of_found_keys(each)]
    here.close()
    found: dict[str, list[Any]] = {}
    for number, (name, rows) in enumerate(tables.items()):
        (place := folder / str(number)).mkdir()
        spark = compared.on_spark(made.policy(rows), place, compared.in_files(cluster))
        found[name] = [tuples(each) for each in compared.totals(spark, [each.reading for each in asked], 5)]
        spark.close()
    held = 0
    for relation, first, second in test_replay._pairs(dict.fromkeys(tables)):  # type: ignore[arg-type]
        for place, each in enumerate(asked):
            claimed = for_neighbours(each.reading.bounded, relation)
            for change in worlds.changes(claimed, found[first][place], found[second][place]):
                held += 1
                assert change.worst <= 1, (seed, each.words, relation, first, second, change)
    return held


@pytest.mark.parametrize("seed", range(6))
def test_neighbours_differ_by_at_most_the_claim(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    assert _replayed(cluster, tmp_path, seed) > 100


# Outcomes


@pytest.fixture(scope="module", params=["replace units", "add-remove units", "add-remove rows"])
def curators(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Curator]]:
    relation, kind = request.param.split()
    made = worlds.World(
        kind == "units", (5, 3, 2), test_outcomes._COLUMNS, test_outcomes._STORED, {"places": test_outcomes._PLACES}, ()
    )
    found = []
    for rows in test_outcomes.TABLES.values():
        folder = tmp_path_factory.mktemp("outcomes")
        policy = compared.kept_by_spark(made.policy(rows, relation), folder, compared.in_files(cluster))
        found.append(_recorded(Curator(policy, folder / "outcomes.ledger")))
    yield found
    for each in found:
        each.close()


def _recorded(curator: Curator) -> Curator:
    """A curator whose engine writes down each statement that a frame is made of."""
    engine: Any = curator._context.engine
    statements: list[str] = []
    make = engine._frame

    def frame(statement: Any, scan: Any) -> Any:
        statements.append(repr(statement))
        return make(statement, scan)

    engine._frame = frame
    engine.server = SimpleNamespace(statements=statements)
    return curator


def test_one_outcome_whoever_is_in_the_table(curators: list[Curator], monkeypatch: pytest.MonkeyPatch) -> None:
    """No question fails over hostile rows, either: a failure after a charge would be an outcome of its own."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", test_outcomes.silenced)
    monkeypatch.setattr(Quantiles, "choose_groups", test_outcomes.least_chosen)
    monkeypatch.setattr("sfumato.release.releasing.bits", SimpleNamespace(random_bits=lambda _: 7))
    asked = [_ASKED, *QUESTIONS[::24]]
    answered = 0
    for text in asked:
        first, *others = (test_outcomes.outcome(each, text, epsilon="0.001") for each in curators)
        assert all(repr(each) == repr(first) for each in others), text
        assert "Unanswered" not in str(first.get("refused")), first
        assert bool(any(first["charged"].values())) == ("answer" in first), first
        assert ("answer" not in first) or first["statements"]
        answered += "answer" in first
    assert answered > len(asked) * 0.3


_ASKED = (
    "SELECT region, COUNT(*), SUM(LEAST(GREATEST(CAST(note AS INTEGER), -9), 9)), AVG(LEAST(1 / (age - 7), 2)) "
    "FROM people GROUP BY region"
)


# A reckoning in pandas


def _curator(subject: test_oracle.Subject, units: bool, cluster: Cluster, folder: Path) -> Curator:
    most, reach, per_group = subject.limits if units else (None, None, None)
    frame = subject.source if not isinstance(subject.source, Path) else test_oracle._frame(subject.load)
    table = Table(
        subject.name,
        pa.Table.from_pandas(frame, preserve_index=False),
        subject.columns,
        id=subject.unit if units else "row",
        max_rows=most,
        max_groups=reach,
        max_rows_per_group=per_group,
    )
    tables = {subject.name: table, "areas": Table("areas", test_oracle.AREAS, public=True)}
    policy = Policy(PrivacyUnit("unit", every_row=not units), Budget(10**6, "1e-3"), tables, allow_large_delta=True)
    kept = compared.kept_by_spark(policy, folder, compared.in_files(cluster))
    return Curator(kept, folder / f"{subject.name}.ledger")


def test_units_at_the_limits_and_one_beyond(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    subject = test_oracle.AT_THE_LIMITS
    with _curator(subject, True, cluster, tmp_path) as curator:
        for strategy in ("reweight", "clip-l2"):
            measures = tuple(("sum", value, test_oracle._ALL) for value in subject.values)
            question = test_oracle.Asked(subject, test_oracle._ALL, subject.keys[:1], measures, joined=False)
            test_oracle._agree({(subject.name, True): curator}, question, strategy, "limits")
        test_oracle.test_samples_of_units_at_the_limits_and_one_beyond({(subject.name, True): curator})


def test_answers_without_noise_equal_an_independent_reckoning(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    found = {}
    for subject in test_oracle.SUBJECTS:
        for units in (True, False):
            (folder := tmp_path / f"{subject.name} {units}").mkdir()
            found[subject.name, units] = _curator(subject, units, cluster, folder)
    for seed in range(60):
        test_oracle.compare(found, seed)
    for each in found.values():
        each.close()
