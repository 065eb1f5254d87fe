"""Lists, with a row for each of their first items: both neighbour relations, one outcome, and a reckoning in Python."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import policy_of
from safety.places import Place
from safety.test_replay import _compared
from safety.worlds import question
from sfumato.curator.curators import Curator
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import bound_for_discovery, candidate_bounded_plans
from sfumato.policy import Policy, Table

LIMIT, MOST = 3, 4
"""Rows of one unit that count, and items of one row."""
TAGS = ("a", "b", "c")
COLUMNS = {
    "age": {"type": "integer", "bounds": [0, 9]},
    "tags": {"values": list(TAGS), "nullable": True, "most_items": MOST},
    "words": {"type": "text", "max_length": 3, "most_items": MOST},
    "sizes": {"type": "real", "bounds": [0, 10], "grid": "0.5", "most_items": 2},
}
STORED = {
    "who": pa.int64(),
    "age": pa.int64(),
    "tags": pa.list_(pa.string()),
    "words": pa.list_(pa.string()),
    "sizes": pa.list_(pa.float64()),
}
Row = dict[str, Any]


def row(who: int | None, age: int | None, tags: Any, words: Any = None, sizes: Any = None) -> Row:
    return {"who": who, "age": age, "tags": tags, "words": words, "sizes": sizes}


def people(random: Random, most_rows: int = LIMIT) -> list[Row]:
    """Lists that are missing, empty, at the limit, one item beyond and far beyond; missing and undeclared items."""
    rows = []
    for who in (None, *range(10)):
        for _ in range(random.randint(1, most_rows)):
            tags = [random.choice((*TAGS, "zz", None)) for _ in range(random.choice((0, 1, MOST, MOST + 1, 50)))]
            words = [random.choice(("x", "word", "worn", None)) for _ in range(random.choice((0, 2, MOST + 1)))]
            sizes = [random.choice((None, -1.0, 2.5, 400.0, math.nan)) for _ in range(random.choice((0, 2, 3)))]
            rows.append(row(who, random.choice((None, *range(12))), random.choice((None, tags, tags)), words, sizes))
    return random.sample(rows, len(rows))


def source(rows: Sequence[Row]) -> pa.Table:
    return pa.table({name: pa.array([each[name] for each in rows], kind) for name, kind in STORED.items()})


def policy(rows: Sequence[Row], unit: str) -> Policy:
    limits = {} if unit == "row" else {"max_rows": LIMIT}
    return policy_of(Table("visits", source(rows), COLUMNS, id=unit, **limits))


OTHERS = people(Random(1), LIMIT + 1)
FULL = row(100, 9, ["a"] * (MOST + 1), ["one", "two", "three", "four", "five"], [10.0, 10.0, 10.0])
ONE_ROW = {
    "beyond": [FULL],
    "far beyond": [row(100, 9, [TAGS[i % 3] for i in range(300)], [str(i) for i in range(300)], [0.0] * 300)],
    "empty": [row(100, 5, [], [], [])],
    "missing": [row(100, 5, None)],
    "missing items": [row(100, 5, [None] * (MOST + 1), [None] * 9, [None, math.nan, math.inf])],
    "late": [row(100, 5, ["zz", "zz", "zz", "zz", "a"], ["long words", "long worms"], [-math.inf, 3, 10])],
}
UNITS = {
    **ONE_ROW,
    "limit + 1": [FULL] * (LIMIT + 1),
    "many": [row(100, i % 10, [TAGS[i % 3]] * (i % 7), [f"{i}"] * 6, [float(i % 9)] * 3) for i in range(40)],
    "mixed": [FULL, row(100, 1, ["b", "c", None, "zz", "a"]), row(100, 2, None, ["x"])],
}
TEXTS = (
    "SELECT tag, COUNT(*) FROM visits, UNNEST(tags) AS t(tag) GROUP BY tag",
    "SELECT COUNT(*), SUM(age) FROM visits v CROSS JOIN UNNEST(v.tags) AS t(tag) WHERE tag <> 'b'",
    "SELECT tag, SUM(size), AVG(size) FROM visits, UNNEST(tags) AS t(tag), UNNEST(sizes) AS s(size) GROUP BY tag",
    "SELECT tag, COUNT(*), SUM(age) FROM (SELECT UNNEST(tags) AS tag, age FROM visits WHERE age > 1) GROUP BY tag",
    "SELECT word, COUNT(*), SUM(age) FROM visits, UNNEST(words) AS t(word) GROUP BY word",
    "SELECT tag, word, COUNT(*) FROM visits, UNNEST(words) AS t(word), UNNEST(tags) AS u(tag) GROUP BY tag, word",
)
OF_UNITS = (
    "SELECT tag, COUNT(DISTINCT who) FROM visits, UNNEST(tags) AS t(tag) GROUP BY tag",
    "SELECT AVG(n), COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM visits, UNNEST(tags) AS t(x) GROUP BY who)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w, UNNEST(w.tags) AS t(tag)"
    " WHERE w.who = v.who AND tag = 'a')",
    "SELECT tag, COUNT(*) FROM visits v CROSS JOIN UNNEST(v.tags) AS t(tag) JOIN visits w ON v.who = w.who GROUP BY 1",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY who ORDER BY age) AS n, tag"
    " FROM visits, UNNEST(tags) AS t(tag)) WHERE n <= 2",
)


@pytest.mark.parametrize("unit", ["who", "row"])
def test_neighbours_differ_by_at_most_the_claim(unit: str, place: Place, long: bool) -> None:
    units, texts = (UNITS, TEXTS + OF_UNITS) if unit == "who" else (ONE_ROW, TEXTS)
    tables = {name: place.engine(policy([*OTHERS, *rows], unit)) for name, rows in {"": [], **units}.items()}
    step = 1 if long else 3
    for index, text in enumerate(texts if long else texts[:: place.share]):
        assert _compared(unit, Random(0), text, tables, slice(index % step, None, step)) > 0, text
    for engine in tables.values():
        engine.close()


def test_the_claim_is_met_by_a_unit_with_too_many_rows_and_items() -> None:
    """A limit that counted fewer rows or items would still be sound, and useless."""
    with closing(DuckDB(policy([FULL] * (LIMIT + 1), "who"))) as engine:
        asked = question(engine, engine._policy, "SELECT COUNT(*) FROM visits, UNNEST(tags) AS t(tag)")
        for bounded in candidate_bounded_plans(asked.query.plan, asked.limits, 1):
            assert bounded.measures[0].sensitivity.linf == LIMIT * MOST << bounded.measures[0].bits
    with closing(DuckDB(policy([FULL], "row"))) as engine:
        for text, most in ((TEXTS[0], MOST), (TEXTS[2], 2 * MOST)):
            asked = question(engine, engine._policy, text)
            (bounded,) = candidate_bounded_plans(asked.query.plan, asked.limits, len(asked.groups))
            assert bounded.limits.rows == most
        asked = question(engine, engine._policy, TEXTS[4])
        assert bound_for_discovery(asked.query.plan, asked.limits).limits.groups == MOST


# ── an independent reckoning ───────────────────────────────────────────────────────────────────


def items(each: Row, name: str) -> list[Any]:
    """The items that count, as the policy declares them."""
    most = 2 if name == "sizes" else MOST
    return [_CLEAN[name](item) for item in (each[name] or ())[:most]]


_CLEAN = {
    "tags": lambda item: item if item in TAGS else None,
    "words": lambda item: None if item is None else item[:3],
    "sizes": lambda item: None if item is None or math.isnan(item) else min(max(item, 0), 10),
}


def age(each: Row) -> int | None:
    return None if each["age"] is None else min(max(each["age"], 0), 9)


@pytest.fixture(scope="module", params=[(seed, unit) for seed in range(2) for unit in ("who", "row")], ids=str)
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, place: Place
) -> Iterator[tuple[Curator, list[Row]]]:
    seed, unit = request.param
    rows = people(Random(seed))
    with Curator(place.moved(policy(rows, unit)), tmp_path_factory.mktemp("lists") / "account.ledger") as curator:
        yield curator, [each for each in rows if unit == "row" or each["who"] is not None]


def read(curator: Curator, text: str) -> list[tuple[Any, ...]]:
    """Return the rows of an answer without noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
        return list(curator.sql(text).release(epsilon="0.001", fresh=True).rows)


def test_items_are_counted(asked: tuple[Curator, list[Row]]) -> None:
    curator, rows = asked
    wanted = Counter(tag for each in rows for tag in items(each, "tags"))
    for text in (
        "SELECT tag, COUNT(*) FROM visits, UNNEST(tags) AS t(tag) GROUP BY tag",
        "SELECT tag, COUNT(*) FROM visits CROSS JOIN UNNEST(visits.tags) AS t(tag) GROUP BY tag",
        "SELECT tag, COUNT(*) FROM visits v JOIN LATERAL UNNEST(v.tags) AS t(tag) ON TRUE GROUP BY tag",
        "SELECT tag, COUNT(*) FROM (SELECT UNNEST(tags) AS tag FROM visits) GROUP BY tag",
        "WITH t AS (SELECT UNNEST(v.tags) AS tag, age FROM visits AS v) SELECT tag, COUNT(*) FROM t GROUP BY tag",
    ):
        assert dict(read(curator, text)) == {tag: wanted[tag] for tag in (*TAGS, None)}, text


def test_items_are_measured(asked: tuple[Curator, list[Row]]) -> None:
    curator, rows = asked
    sizes = [size for each in rows for size in items(each, "sizes")]
    there = [size for size in sizes if size is not None]
    text = "SELECT COUNT(*), COUNT(size), SUM(size) FROM visits, UNNEST(sizes) AS t(size)"
    assert read(curator, text) == [(len(sizes), len(there), sum(there))]


def test_two_lists_of_a_row_meet(asked: tuple[Curator, list[Row]]) -> None:
    curator, rows = asked
    met = [
        (tag, size, age(each))
        for each in rows
        for tag in items(each, "tags")
        for size in items(each, "sizes")
        if size is not None and size > 1
    ]
    ages: dict[Any, int] = defaultdict(int)
    for tag, _, own in met:
        ages[tag] += own or 0
    text = (
        "SELECT tag, COUNT(*), SUM(age) FROM visits, UNNEST(tags) AS t(tag), UNNEST(sizes) AS s(size)"
        " WHERE size > 1 GROUP BY tag"
    )
    counts = Counter(tag for tag, _, _ in met)
    assert {each[0]: each[1:] for each in read(curator, text)} == {
        tag: (counts[tag], ages[tag]) for tag in (*TAGS, None)
    }


def test_unknown_items_are_cut_and_counted(asked: tuple[Curator, list[Row]]) -> None:
    curator, rows = asked
    wanted = Counter(word for each in rows for word in items(each, "words"))
    text = "SELECT COUNT(*) FROM visits, UNNEST(words) AS t(word) WHERE word = 'wor'"
    assert read(curator, text) == [(wanted["wor"],)]


# ── whatever is stored ─────────────────────────────────────────────────────────────────────────

HOSTILE = [None, "", "1", " 7 ", "1e999", "nan", "2024-01-31", "true", "\U0001f600" * 2000, "[1, 2]", "x'y\"", "-0"]
KINDS = [
    pa.array([HOSTILE, [], None, HOSTILE[::-1]], pa.list_(pa.string())),
    pa.array([[math.nan, math.inf, -math.inf, 5e-324, 1e308, None]] * 4, pa.large_list(pa.float64())),
    pa.array([[2**62, -(2**62), None]] * 4, pa.list_(pa.int64(), 3)),
    pa.array([[dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29), None]] * 4, pa.list_(pa.timestamp("us"))),
    pa.array([[[1, 2], None, []]] * 4, pa.list_(pa.list_(pa.int64()))),
    pa.array([[{"a": 1}, None]] * 4, pa.list_(pa.struct([("a", pa.int64())]))),
    pa.array([[b"\xff\x00", None]] * 4, pa.list_(pa.binary())),
    pa.array([["a", "b", None]] * 4, pa.list_(pa.dictionary(pa.int32(), pa.string()))),
]


@pytest.mark.parametrize("kind", ["integer", "real", "text", "boolean", "date", "timestamp"])
def test_no_item_makes_a_question_fail(kind: str) -> None:
    stored = {f"items{index}": each for index, each in enumerate(KINDS)}
    columns = {name: {"type": kind, "most_items": 20} for name in stored}
    with closing(DuckDB(policy_of(Table("t", pa.table(stored), columns, id="row")))) as engine:
        for name in stored:
            found = engine.sources.run(f"SELECT {name} FROM {engine.sources.scan('t')}")
            assert len(found) == 4
            assert all(len(each or ()) <= 20 for (each,) in found)
            text = f"SELECT COUNT(item) FROM t, UNNEST({name}) AS u(item)"
            question(engine, engine._policy, text).bounding_options  # noqa: B018


def test_a_list_in_every_source(tmp_path: Path) -> None:
    import duckdb
    import pyarrow.csv
    import pyarrow.parquet

    made = source([row(1, 3, ["a", "b", "zz"]), row(2, 4, None)]).select(["who", "tags"])
    columns = {"tags": COLUMNS["tags"]}
    pyarrow.parquet.write_table(made, tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
        database.register("made", made)
        database.execute("CREATE TABLE visits AS SELECT * FROM made")
    for given in (
        Table("visits", tmp_path / "t.parquet", columns, id="who", max_rows=2),
        Table("visits", tmp_path / "t.duckdb", columns, id="who", max_rows=2, relation="visits"),
        Table("visits", made, columns, id="who", max_rows=2),
        Table("visits", made.to_pandas(), columns, id="who", max_rows=2),
    ):
        with closing(DuckDB(policy_of(given))) as engine:
            found = engine.sources.run(f"SELECT tags FROM {engine.sources.scan('visits')} ORDER BY sf_unit")
            assert found == [(["a", "b", None],), (None,)]
    (tmp_path / "t.csv").write_text("who,tags\n1,\"['a', 'b']\"\n")
    with pytest.raises(sf.InvalidPolicy, match="'tags' is not a list in its source") as refused:
        DuckDB(policy_of(Table("visits", tmp_path / "t.csv", columns, id="who", max_rows=2)))
    assert "not from CSV" in str(refused.value)
