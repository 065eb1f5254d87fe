"""Spark computes what DuckDB computes, to the last unit, in both of its kinds; and refuses what it cannot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from engine import test_dense_arrays
from engine.tables import policy_of, tuples
from engines.spark import compared
from engines.spark.conftest import PANDAS, Cluster
from sfumato.engine import public_tables, self_test
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.inspecting import open_inspector
from sfumato.engine.lowering.relational_form import AggregateFunction, Exists, GroupTotal, ScalarFunction
from sfumato.engine.opening import open_engine
from sfumato.engine.proofs import statement_cases
from sfumato.engine.spark import frames, sessions
from sfumato.engine.spark.driver import Spark
from sfumato.engine.spark.frames import FrameWriter
from sfumato.engine.spark.sessions import connect, without_cause
from sfumato.engine.spellings import generator
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spark import SparkSpelling
from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy, SourceChanged
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.bounding import ContributionLimits, Strategy, bound_for_discovery, candidate_bounded_plans
from sfumato.plan.readings.dense_readings import Marginals, ValueCounts
from sfumato.plan.readings.total_readings import DiscoveredTotals, GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.functions import call
from sfumato.plan.values.grammars import LONGEST
from sfumato.policy import Policy, Table

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS)]
PLACES = ("north", "it's", "", "Süd|Ä", "${spark.app.name}\\n")
COLUMNS = {"place": {"values": list(PLACES)}, "cost": {"type": "real", "bounds": [-10, 100], "grid": "0.25"}}
QUESTION = "SELECT place, COUNT(*), SUM(cost), COUNT(DISTINCT who) FROM t GROUP BY place"


# Other readings


@pytest.mark.long
def test_every_kind_of_reading_is_that_of_duckdb(cluster: Cluster, tmp_path: Path) -> None:
    """Marginals, values in order, found keys, different values: counted there, put into the same arrays here."""
    rows = test_dense_arrays.rows(3)
    here = test_dense_arrays.engine(rows, units=True)
    spark = compared.on_spark(here._policy, tmp_path, compared.in_frames(cluster))
    with contextlib.closing(here), contextlib.closing(spark):
        asked = [
            test_dense_arrays.marginals(Strategy.SAMPLE),
            *(
                replace(test_dense_arrays.marginals(Strategy.SAMPLE), sets=sets)
                for sets in test_dense_arrays.FEWER_CELLS
            ),
            ValueCounts(
                test_dense_arrays.bounded(here, Strategy.SAMPLE, ("sex",), _ages, 3), (("f",), ("m",), (None,))
            ),
            _found(here, "SELECT age, COUNT(*) FROM t GROUP BY age"),
        ]
        for reading, found in zip(asked, compared.totals(spark, asked, 7), strict=True):
            wanted = here.read(reading, 7)
            if isinstance(reading, Marginals):
                assert all(np.array_equal(*pair) for pair in zip(wanted, found, strict=True))
            elif isinstance(reading, ValueCounts):
                assert all(np.array_equal(getattr(wanted, each), getattr(found, each)) for each in _VALUES)
            else:
                assert compared.rows(wanted, 1) == compared.rows(found, 1)


_VALUES = ("group", "steps", "counts")


def _ages(fields: Any) -> tuple[Any, ...]:
    return Sum(fields["age"]), Count(call("NOT", call("IS NULL", fields["age"])))


def _found(here: DuckDB, words: str) -> DiscoveredTotals:
    """A reading whose keys nobody declared."""
    plan = parse(words, here.catalog()).plan
    bounded = bound_for_discovery(plan, ContributionLimits.from_table(here._policy.tables["t"]))
    return DiscoveredTotals(bounded, (0,), ((),))


# One table


def _rows(count: int = 300) -> pa.Table:
    random = Random(4)
    cost = (None, -50.0, 1.5, float("nan"), float("inf"), -0.0, 5e-324, 3.25, 99.0)
    return pa.table(
        {
            "who": pa.array([random.choice((None, 1, 2, 3, 4, 5)) for _ in range(count)], pa.int64()),
            "place": pa.array([random.choice((*PLACES, "north ", "NORTH", None)) for _ in range(count)], pa.string()),
            "cost": pa.array([random.choice(cost) for _ in range(count)], pa.float64()),
        }
    )


def _policy(source: Any, columns: dict[str, Any] = COLUMNS, **said: Any) -> Policy:
    limits = {"max_rows": 20, "max_groups": 3, "max_rows_per_group": 8}
    return policy_of(Table("t", source, columns, id="who", **limits, **said))  # type: ignore[arg-type]


def _reading(engine: Any, strategy: Strategy = Strategy.CLIP_L2, question: str = QUESTION) -> GroupTotals:
    plan = parse(question, engine.catalog()).plan
    limits = ContributionLimits.from_table(_policy(_rows(1)).tables["t"])
    bounded = next(each for each in candidate_bounded_plans(plan, limits, len(PLACES)) if each.strategy is strategy)
    return GroupTotals(bounded, tuple((each,) for each in PLACES) if bounded.plan.keys else ((),))


@pytest.mark.long
def test_csv_files_are_read_as_duckdb_reads_them(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    cells = ["1.5", "", '""', '" 7 "', "1e5", "inf", "-inf", "nan", "x", '"it\'s ""so"""', "1e999", "0x10", "-0", "99"]
    cells += [f'"{"7.5":>{LONGEST + more}}"' for more in (0, 1)]
    lines = [f"{number % 4},{place},{cell}" for number, cell in enumerate(cells) for place in ("north", "it's", '""')]
    path.write_text("who,place,cost\n" + "\n".join([*lines, "1,north", "2,north,5,6,7"]) + "\n")
    here = DuckDB(_policy(path))
    spark = open_engine(_policy(cluster.address, path=str(path), format="csv"))
    reading = _reading(here)
    with spark.check(reading) as opened:
        assert tuples(opened.read(reading, 3)) == tuples(here.read(reading, 3))
    spark.close()


def test_a_source_that_changes_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Whatever letters are in the names of its files."""
    path = tmp_path / "100%20 of #1, 😀"
    path.mkdir()
    pyarrow.parquet.write_table(_rows(), path / "one [1] {a,b} *?.parquet")
    policy = _policy(cluster.address, path=str(path), format="parquet")
    spark = Spark(policy)
    reading = _reading(spark)
    opened = spark.check(reading)
    pyarrow.parquet.write_table(_rows(7), path / "two.parquet")
    with pytest.raises(SourceChanged):
        opened.read(reading, 1)
    with pytest.raises(SourceChanged):
        spark.check(reading)
    with contextlib.closing(Spark(policy)) as changed:
        assert changed.identity() != spark.identity()
    spark.close()
    with pytest.raises(EngineClosed):
        spark.check(reading)


@pytest.mark.long
def test_a_snapshot_holds_its_rows(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(_rows(), path)
    policy = _policy(cluster.address, path=str(path), format="parquet")
    spark = Spark(policy)
    with contextlib.closing(Spark(policy)) as again:
        assert spark.identity() == again.identity()
    reading = _reading(spark, Strategy.CLIP_L1)
    with spark.open_snapshot() as held:
        before = tuples(held.check(reading).read(reading, 1))
        path.unlink()
        assert tuples(held.check(reading).read(reading, 1)) == before
    with pytest.raises(EngineClosed):
        held.check(reading)
    spark.close()


@pytest.mark.long
def test_texts_have_no_collation_and_no_filling(cluster: Cluster) -> None:
    """A table whose texts are equal in any letter case groups and joins by letters all the same."""
    sql = cluster.classic.sql
    sql("CREATE TABLE shapes (who STRING COLLATE UTF8_LCASE, place CHAR(5), cost DECIMAL(20,2)) USING parquet")
    sql("INSERT INTO shapes VALUES ('a','north',1), ('A','north',2), ('b','it\\'s',3.5), ('B','NORTH',4), (NULL,'',5)")
    spark = Spark(_policy(cluster.address, relation="spark_catalog.default.shapes"))
    try:
        found = tuples(spark.read(_reading(spark, Strategy.CLIP_L1), 1))
        bits = [each.bits for each in _reading(spark, Strategy.CLIP_L1).bounded.measures]
        plain = [[2, 12, 2], [1, 14, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]  # in quarters
        assert found == [tuple(n << b for n, b in zip(row, bits, strict=True)) for row in plain]
        views = [each for each in cluster.classic.catalog.listTables() if each.isTemporary]
        assert not views
    finally:
        spark.close()
        sql("DROP TABLE shapes")


@pytest.mark.long
def test_an_owner_is_told_what_bounds_and_limits_cost(cluster: Cluster, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(_rows(), tmp_path / "t.parquet")
    with open_inspector(_policy(tmp_path / "t.parquet")) as here:
        wanted = here.inspect("t")
    said = {"path": str(tmp_path / "t.parquet"), "format": "parquet"}
    with open_inspector(_policy(cluster.address, **said)) as spark:
        assert spark.inspect("t") == wanted
        assert spark.columns("t").keys() == COLUMNS.keys()
        assert len(spark.fingerprint("t")) == 64
        assert "shuffle files" in spark.remarks("t")[0]


# Seeded bugs: a spelling that is wrong is refused at the opening, by the name of what it computes


def _twin(**changed: Callable[..., str]) -> SparkSpelling:
    assert all(hasattr(SparkSpelling, name) for name in changed)
    methods = {name: staticmethod(made) for name, made in changed.items()}
    twin: SparkSpelling = type("Twin", (SparkSpelling,), methods)()
    return twin


TWINS: dict[str, SparkSpelling] = {
    "the nearest whole number": _twin(nearest_integer=lambda x: f"CAST({x} AS BIGINT)"),
    "FLOOR": _twin(floor=lambda x: f"CAST(FLOOR({x}) AS DOUBLE)"),
    "CEIL": _twin(ceiling=lambda x: f"rint({x})"),
    "SUM": _twin(sum_as_wide_integer=lambda x, over="": f"CAST(SUM(CAST({x} AS DOUBLE)){over} AS DECIMAL(38,0))"),
    "LIKE": _twin(like=lambda x, pattern: f"({x} LIKE '{pattern}')"),
    "a regular expression over lines": _twin(matches=lambda x, grammar: f"({x} RLIKE '(?m)^({grammar})$')"),
    "CAST to a time": _twin(read=lambda x, kind: f"TRY_CAST({x} AS {SparkSpelling.types[kind]})"),
    "SUBSTR beyond the end": _twin(
        slice=lambda x, first, count: f"SUBSTRING({x}, CAST({first} AS INT), CAST({count} AS INT))"
    ),
    "EXTRACT(dow)": _twin(part=lambda x, part: f"CAST(EXTRACT({part} FROM {x}) AS BIGINT)"),
    "MD5": _twin(fingerprint=lambda x: f"CAST(conv(left(md5(CAST({x} AS BINARY)), 14), 16, 10) AS BIGINT)"),
    "the position of a text in a list": _twin(ordinal=lambda x, *_: f"LENGTH({x})"),
    "seconds of a time": _twin(seconds=lambda x: f"unix_seconds(CAST({x} AS TIMESTAMP))"),
    "LEAST of reals": _twin(least=lambda *xs: f"array_min(array({xs[0]}, {xs[0]}))"),
    "a time and 61 minute": _twin(add_interval=lambda x, amount, *_: f"({x} + make_dt_interval(0, 0, {amount % 60}))"),
}


def test_a_wrong_spelling_is_found_by_its_name(cluster: Cluster) -> None:
    session = connect(cluster.address, "tables.t.source")
    cases = {case.name: case for case in self_test.cases()}
    missing = [name for name in TWINS if name not in cases]
    assert not missing, (missing, sorted(cases))

    def wrong(spelling: SparkSpelling, *names: str) -> bool:
        some = [cases[name] for name in names]
        try:
            found = self_test._compute_cases(dialect := frames._dialect(session, spelling), some)
        except EngineFailed:
            return True
        return bool(self_test._wrongly_computed_cases(some, found, dialect))

    assert [name for name, twin in TWINS.items() if not wrong(twin, name)] == []
    assert not wrong(SparkSpelling(), *TWINS)
    session.close()


OPERATIONS: dict[str, tuple[ScalarFunction, Callable[..., str]]] = {
    "<> of whole numbers": (ScalarFunction.UNEQUAL, lambda _, x, y: f"(NOT ({x} <=> {y}))"),
    "< of reals": (ScalarFunction.LESS, lambda _, x, y: f"({x} <= {y})"),
    "<= of reals": (ScalarFunction.AT_MOST, lambda _, x, y: f"({x} < {y})"),
    ">= of reals": (ScalarFunction.AT_LEAST, lambda _, x, y: f"({x} > {y})"),
    "AND": (ScalarFunction.AND, lambda _, x, y: f"({x} AND COALESCE({y}, FALSE))"),
    "OR": (ScalarFunction.OR, lambda _, x, y: f"({x} OR COALESCE({y}, FALSE))"),
    "NOT": (ScalarFunction.NOT, lambda _, x: f"({x} IS NOT TRUE)"),
    "IN": (ScalarFunction.IN, lambda _, x, *xs: f"COALESCE({x} IN ({', '.join(xs)}), FALSE)"),
    "IS NULL": (ScalarFunction.IS_NULL, lambda _, x: f"({x} IS NOT TRUE)"),
    "IS FALSE": (ScalarFunction.IS_FALSE, lambda _, x: f"({x} IS NOT TRUE)"),
    "COALESCE": (ScalarFunction.COALESCE, lambda _, x, *__: x),
    "- of whole numbers": (ScalarFunction.SUBTRACT, lambda _, x, y: f"({x} + {y})"),
    "the negative of a whole number": (ScalarFunction.NEGATE, lambda _, x: x),
    "ABS of a whole number": (ScalarFunction.ABS, lambda _, x: x),
    "SIGN of a whole number": (ScalarFunction.SIGN, lambda _, x: f"ABS(SIGN({x}))"),
    "EXP": (ScalarFunction.EXP, lambda _, x: f"expm1({x})"),
    "POWER": (ScalarFunction.POWER, lambda _, x, __: f"({x} * {x})"),
}
"""What the generator writes for all engines, written wrong; no case has two of them in it."""


def test_wrong_operations_and_statements_are_found_by_their_names(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = connect(cluster.address, "tables.t.source")
    dialect = frames._dialect(session, SparkSpelling())
    joined, tested = FrameWriter._join, FrameWriter._filter
    total, grouped = Generator._total, FrameWriter._group

    def other_total(self: Generator, asked: GroupTotal, over: str = "") -> str:
        counted = asked.aggregation is AggregateFunction.UNITS
        return total(self, replace(asked, aggregation=AggregateFunction.COUNT) if counted else asked, over)

    for operation, wrong in OPERATIONS.values():
        monkeypatch.setitem(generator._WRITERS, operation, wrong)
    some = [case for case in self_test.cases() if case.name in OPERATIONS]
    differing = self_test._wrongly_computed_cases(some, self_test._compute_cases(dialect, some), dialect)
    assert {case.name for case, *_ in differing} == set(OPERATIONS)
    monkeypatch.undo()
    monkeypatch.setattr(FrameWriter, "_join", lambda s, f, j, x: joined(s, f, replace(j, outer=not j.outer), x))
    monkeypatch.setattr(FrameWriter, "_filter", lambda s, f, t, x: tested(s, f, _opposite(t), x))
    monkeypatch.setattr(FrameWriter, "_group", lambda s, f, x: grouped(s, f, replace(x, having=None)))
    monkeypatch.setattr(Generator, "_total", other_total)
    monkeypatch.setattr(SparkSpelling, "items", lambda _, x: f"explode(slice({x}, 1, 1))")
    cases = statement_cases.cases()
    told = set(statement_cases.first_difference(cases, self_test._compute_statements(dialect, cases)))
    assert told >= {"INNER JOIN", "LEFT JOIN", "EXISTS", "NOT EXISTS", "HAVING", "COUNT DISTINCT", "items of a list"}
    assert told.isdisjoint({"COUNT", "SUM of a group", "MIN of a group", "MAX of a group", "UNION ALL"})
    session.close()


def _opposite(test: Any) -> Any:
    return replace(test, negated=not test.negated) if isinstance(test, Exists) else test


# Refusals, and what nobody may see


@pytest.mark.long
def test_public_tables_are_carried_up_to_a_limit(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this process, and those that Spark holds itself; one row more is refused before any is read there."""
    for module in (public_tables, frames):
        monkeypatch.setattr(module, "MOST_ROWS", 3)
    private = _policy(cluster.classic.createDataFrame(_rows()))
    asked = "SELECT COUNT(*), SUM(weight) FROM t JOIN wards USING (place)"
    for rows in (3, 4):
        held = pa.table({"place": ["north"] * rows, "weight": list(range(rows))})
        for source in (held, cluster.classic.createDataFrame(held)):
            both = replace(private, tables={**private.tables, "wards": Table("wards", source, public=True)})
            if rows == 4:
                with pytest.raises(InvalidPolicy, match="at most 3 rows"):
                    Spark(both)
                continue
            with contextlib.closing(Spark(both)) as spark:
                ((met, weight),) = tuples(spark.read(_reading(spark, Strategy.REWEIGHT, asked), 1))
                assert met > 0
                assert weight > 0


@pytest.mark.long
def test_no_more_rows_are_received_than_there_are_groups(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows and units a table has, and however they are bounded."""
    for count in (300, 3_000):
        received: list[int] = []
        with contextlib.closing(Spark(_policy(cluster.classic.createDataFrame(_rows(count))))) as spark:
            run = spark.tables.run

            def counted(make: Any, run: Any = run, received: list[int] = received) -> Any:
                rows = run(make)
                received.append(len(rows))
                return rows

            monkeypatch.setattr(spark.tables, "run", counted)
            strategies = (Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.SAMPLE)
            for strategy in strategies:
                spark.read(_reading(spark, strategy), 5)
        assert len(received) == len(strategies)
        assert all(0 < each <= len(PLACES) for each in received)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"relation": "nowhere.nothing"}, "Spark cannot read this table"),
        ({"path": "/nowhere/at/all", "format": "parquet"}, "Spark cannot read this table"),
        ({"path": "/nowhere/at/all", "format": "delta"}, "cannot open this Delta table"),
        (
            {"path": "/nowhere/at/all", "format": "parquet", "version": "3"},
            "only Delta and Iceberg tables have a version",
        ),
    ],
)
def test_what_spark_has_not_is_refused(cluster: Cluster, said: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidPolicy, match=words):
        Spark(_policy(cluster.address, **said))


def test_no_server_and_an_old_one_are_refused() -> None:
    with pytest.raises(InvalidPolicy, match="no Spark Connect server listens"):
        Spark(_policy("sc://127.0.0.1:9", relation="t"))

    class Old:
        version = "3.5.1"

    with pytest.raises(InvalidPolicy, match=r"4\.0 or newer"):
        sessions.pin(Old(), sessions.PINNED, "tables.t.source")


def test_a_type_without_text_is_refused(cluster: Cluster) -> None:
    frame = cluster.classic.sql("SELECT 1 AS who, X'00' AS place, 1D AS cost")
    with pytest.raises(InvalidPolicy, match="no portable text form"):
        Spark(_policy(frame))


def test_a_setting_that_does_not_stay_is_refused() -> None:
    class Stubborn:
        version = "4.3.0"

        class conf:  # noqa: N801 - as it is called there
            set = staticmethod(lambda *_: None)
            isModifiable = staticmethod(lambda _: False)  # noqa: N815 - as it is called there
            get = staticmethod(lambda name: "false" if name == "spark.sql.ansi.enabled" else sessions.PINNED[name])

    with pytest.raises(InvalidPolicy, match=r"spark\.sql\.ansi\.enabled"):
        sessions.pin(Stubborn(), sessions.PINNED, "tables.t.source")


def test_an_error_quotes_no_cell(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    failing = "SELECT CAST(s AS INT) FROM VALUES ('secret cell') AS t(s)"
    session = connect(cluster.address, "tables.t.source")
    for spark in (cluster.classic, session.spark):
        with pytest.raises(EngineFailed) as raised:
            without_cause(lambda spark=spark: spark.sql(failing).collect())
        assert raised.value.__cause__ is None
        assert "secret" not in str(raised.value)
    session.close()
    assert "secret" not in "".join(capfd.readouterr())
