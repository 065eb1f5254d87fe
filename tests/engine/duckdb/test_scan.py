"""The scan is total: whatever a cell holds, the answer is a value of the declared domain or NULL, never an error."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from engine.tables import SOURCES, policy_of, private
from sfumato.engine.duckdb import connection
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.sources.clean_cells import inner_bounds
from sfumato.policy import Domain, Table, Type
from sfumato.policy.domains import parse_value

NAN, INF = math.nan, math.inf
DAY, MOMENT = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 23, 59, 59, 999999)
UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=2))

HOSTILE: dict[str, pa.Array] = {
    "texts": pa.array([None, "", "NaN", "-inf", "1e400", "5.7", "99999999999999999999", "it's", "é\u0301🙂",
                       "2024-02-30", "infinity", "0001-01-01 (BC)"]),
    "more_texts": pa.array(["true", "0x10", "1_0", " 7 ", "-0.0", "2024-02-29 23:59:59+14", "x" * 100_000, "NULL",
                            "%_\\", "9223372036854775808", "290309-12-22 00:00:00", "24:00:00"]),
    "doubles": pa.array([None, NAN, INF, -INF, 0.0, -0.0, 5e-324, 1e308, -1e308, 2.0**53 + 2, 5.5, 110.0]),
    "floats": pa.array([None, NAN, INF, -INF, 0.0, -0.0, 1e-45, 3e38, -3e38, 1.0, 5.5, 110.0], pa.float32()),
    "longs": pa.array([None, 0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 2**62, 110, 111, 5, 7]),
    "unsigned": pa.array([None, 0, 1, 2**64 - 1, 2**63, 2, 3, 4, 110, 111, 5, 7], pa.uint64()),
    "bytes": pa.array([None, 0, 1, -1, 127, -128, 2, 3, 100, 111, 5, 7], pa.int8()),
    "decimals": pa.array([None, *map(Decimal, ["0", "1", "-1", "5.7", "9" * 27, "-" + "9" * 27, "110", "1e-9"]),
                          Decimal(2), Decimal(3), Decimal(7)], pa.decimal128(38, 9)),
    "booleans": pa.array([None, True, False] * 4),
    "days": pa.array([None, dt.date.min, dt.date.max, DAY, dt.date(1970, 1, 1), dt.date(2000, 1, 1)] * 2),
    "moments": pa.array([None, dt.datetime(1, 1, 1), dt.datetime.max, MOMENT, dt.datetime(1970, 1, 1), MOMENT] * 2,
                        pa.timestamp("us")),
    "nanos": pa.array([None, 0, 1, -1, 2**62, -(2**62)] * 2, pa.timestamp("ns")),
    "zoned": pa.array([None, MOMENT.replace(tzinfo=UTC), dt.datetime(1970, 1, 1, tzinfo=UTC)] * 4,
                      pa.timestamp("us", "UTC")),
    "blobs": pa.array([None, b"", b"\xff\xfe", b"5", b"\0", b"true"] * 2),
    "large": pa.array([None, "", "north", "5", "true", "2024-02-29"] * 2, pa.large_string()),
    "categories": pa.array([None, "", "north", "5", "true", "2024-02-29"] * 2).dictionary_encode(),
    "lists": pa.array([None, [], [1], [1, None], [2, 3], [5]] * 2),
    "structs": pa.array([None, {"a": 1}, {"a": None}] * 4),
    "times": pa.array([None, dt.time(0), dt.time(23, 59, 59)] * 4, pa.time64("us")),
    "nothing": pa.nulls(12),
}  # fmt: skip
FLAT = [name for name in HOSTILE if name not in ("lists", "structs")]
# DuckDB writes NULL and nested cells to CSV as text of its own; all others have a text form in every kind of source.

DOMAINS = {
    "integer": Domain("integer"),
    "integer in bounds": Domain("integer", bounds=(0, 110)),
    "integer in wide bounds": Domain("integer", bounds=(-(2**62), 2**62 - 1)),
    "integer values": Domain("integer", values=(1, 5, 7)),
    "real": Domain("real"),
    "real in bounds": Domain("real", bounds=("0.1", "109.9")),
    "real values": Domain("real", values=("5.7", "5.5", 0)),
    "text": Domain("text"),
    "text values": Domain("text", values=("north", "", "it's", "5")),
    "boolean": Domain("boolean"),
    "boolean values": Domain("boolean", values=(True,)),
    "date": Domain("date"),
    "date in bounds": Domain("date", bounds=("2000-01-01", "2024-12-31")),
    "date values": Domain("date", values=("2024-02-29",)),
    "timestamp": Domain("timestamp"),
    "timestamp in bounds": Domain("timestamp", bounds=("2000-01-01", "2024-12-31")),
    "timestamp values": Domain("timestamp", values=("1970-01-01",)),
}
TABLED = ("integer values", "real values", "timestamp values")
ENGINE_TYPES = {
    Type.INTEGER: "BIGINT",
    Type.REAL: "DOUBLE",
    Type.TEXT: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP",
}
PYTHON_TYPES = {
    Type.INTEGER: int,
    Type.REAL: float,
    Type.TEXT: str,
    Type.BOOLEAN: bool,
    Type.DATE: dt.date,
    Type.TIMESTAMP: dt.datetime,
}


@pytest.fixture(scope="module")
def hostile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[str]]:
    names = FLAT if request.param == "csv" else list(HOSTILE)
    return SOURCES[request.param](
        pa.table({each: HOSTILE[each] for each in names}), tmp_path_factory.mktemp("t")
    ), names


def _in_turn() -> Iterator[Any]:
    """Every domain in Arrow, and every third in one other kind of source, another one for the next; in all of them in
    the long run: what a cell becomes is decided by its stored type, which ``MEANINGS`` compares between all kinds.
    """
    others = [kind for kind in SOURCES if kind != "arrow"]
    for index, (name, domain) in enumerate(DOMAINS.items()):
        now = ("arrow", *([] if index % 3 else [others[index // 3 % len(others)]]))
        for kind in SOURCES:
            yield pytest.param(kind, domain, marks=() if kind in now else pytest.mark.long, id=f"{kind}-{name}")


@pytest.mark.parametrize(("hostile", "domain"), [*_in_turn()], indirect=["hostile"])
def test_hostile_cells_become_values_of_the_domain_or_null(hostile: tuple[Any, list[str]], domain: Domain) -> None:
    source, names = hostile
    relation = {"relation": "t"} if isinstance(source, Path) and source.suffix == ".duckdb" else {}
    with Sources(private(source, dict.fromkeys(names, domain), **relation)) as sources:
        types = ", ".join(f"typeof({each})" for each in names)
        rows = sources.run(f"SELECT {', '.join(names)}, {types} FROM {sources.scan('t')}")
    assert len(rows) == 12
    assert {row[len(names) :] for row in rows} == {(ENGINE_TYPES[domain.type],) * len(names)}
    for cell in (cell for row in rows for cell in row[: len(names)] if cell is not None):
        _check(cell, domain)


@pytest.mark.parametrize("kind", ["arrow", pytest.param("csv", marks=pytest.mark.long)])
def test_a_table_of_many_values_means_what_a_list_of_them_does(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join computes its key for every row, whatever its type."""
    names = FLAT if kind == "csv" else list(HOSTILE)
    source = SOURCES[kind](pa.table({each: HOSTILE[each] for each in names}), tmp_path)
    for domain in (domain for name, domain in DOMAINS.items() if name in TABLED):
        found = []
        for few in (len(domain.values or ()), 0):
            monkeypatch.setattr(connection, "_FEW_VALUES", few)
            with Sources(private(source, dict.fromkeys(names, domain))) as sources:
                found.append(Counter(map(repr, sources.run(f"SELECT {', '.join(names)} FROM {sources.scan('t')}"))))
                assert ("SELECT v FROM" in sources.table_scan("t").statement) is (few == 0)
        assert found[0] == found[1], domain


def test_items_of_a_list_may_have_many_declared_values() -> None:
    """A lambda cannot read a table: such values stand in the statement."""
    source = pa.table({"codes": [[1, 99, 39], [40], None]})
    with Sources(
        private(source, {"codes": {"type": "integer", "values": list(range(40)), "most_items": 3}})
    ) as sources:
        assert sources.run(f"SELECT codes FROM {sources.scan('t')}") == [([1, None, 39],), ([None],), (None,)]


def _check(cell: Any, domain: Domain) -> None:
    value = Fraction(repr(cell)) if domain.type is Type.REAL else cell
    assert type(cell) is PYTHON_TYPES[domain.type]
    assert domain.type is not Type.REAL or math.isfinite(cell)
    assert domain.values is None or value in domain.values
    assert domain.bounds is None or domain.bounds[0] <= value <= domain.bounds[1]


WHOLE, BOUNDED = Domain("integer"), Domain("integer", bounds=(0, 110))
REAL, PRICE = Domain("real"), Domain("real", bounds=(0, 5000))
DATE, YEAR = Domain("date"), Domain("date", bounds=("2024-01-01", "2024-12-31"))
TIME, BOOLEAN, TEXT = Domain("timestamp"), Domain("boolean"), Domain("text")

MEANINGS: list[tuple[pa.Array, Domain, Any]] = [
    # a stored cell, its declaration, what the scan makes of it
    (pa.array([None], pa.int64()), BOUNDED, None),
    (pa.array([None], pa.float64()), BOUNDED, None),
    (pa.array([None], pa.float64()), PRICE, None),
    (pa.array([None], pa.string()), BOUNDED, None),
    (pa.array([None], pa.date32()), YEAR, None),
    (pa.array([None], pa.timestamp("us")), Domain("timestamp", bounds=("2000-01-01", "2001-01-01")), None),
    (pa.array(["7"]), WHOLE, 7),
    (pa.array([" 7 "]), WHOLE, 7),
    (pa.array(["5.7"]), WHOLE, None),
    (pa.array(["1e3"]), WHOLE, 1000),
    (pa.array(["4611686018427387904"]), WHOLE, 2**62),
    (pa.array(["9223372036854775807"]), WHOLE, None),
    (pa.array(["5.0"]), WHOLE, 5),
    (pa.array(["0x10"]), WHOLE, None),
    (pa.array(["1_000"]), BOUNDED, None),
    (pa.array(["-1e200"]), PRICE, 0.0),
    (pa.array(["99999999999999999999"]), WHOLE, None),
    (pa.array(["99999999999999999999"]), BOUNDED, 110),
    (pa.array(["-1e300"]), BOUNDED, 0),
    (pa.array(["inf"]), BOUNDED, 110),
    (pa.array(["nan"]), BOUNDED, None),
    (pa.array(["true"]), BOUNDED, None),
    (pa.array([5.0]), BOUNDED, 5),
    (pa.array([5.5]), BOUNDED, None),
    (pa.array([NAN]), BOUNDED, None),
    (pa.array([-INF]), BOUNDED, 0),
    (pa.array([INF]), WHOLE, None),
    (pa.array([2**64 - 1], pa.uint64()), BOUNDED, 110),
    (pa.array([2**64 - 1], pa.uint64()), WHOLE, None),
    (pa.array([-128], pa.int8()), BOUNDED, 0),
    (pa.array([2**53 + 1]), Domain("integer", bounds=(0, 2**60)), 2**53 + 1),
    (pa.array([Decimal("7.000")]), WHOLE, 7),
    (pa.array([Decimal("7.001")]), WHOLE, None),
    (pa.array([NAN]), PRICE, None),
    (pa.array([INF]), PRICE, 5000.0),
    (pa.array([-INF]), PRICE, 0.0),
    (pa.array([INF]), REAL, None),
    (pa.array(["1e400"]), PRICE, 5000.0),
    (pa.array(["1e400"]), REAL, None),
    (pa.array([7]), REAL, 7.0),
    (pa.array([0.1], pa.float32()), Domain("real", bounds=(0, 1)), 0.10000000149011612),
    (pa.array(["2024-02-29"]), DATE, DAY),
    (pa.array(["2024-02-30"]), DATE, None),
    (pa.array(["infinity"]), YEAR, dt.date(2024, 12, 31)),
    (pa.array(["infinity"]), DATE, None),
    (pa.array(["99999-01-01"]), DATE, None),
    (pa.array(["99999-01-01"]), YEAR, None),
    (pa.array(["2024-1-5"]), DATE, None),
    (pa.array([dt.date(1999, 1, 1)]), YEAR, dt.date(2024, 1, 1)),
    (pa.array([MOMENT]), DATE, DAY),
    (pa.array([5]), DATE, None),
    (pa.array(["2024-02-29T10:00:00+02:00"]), TIME, dt.datetime(2024, 2, 29, 8)),
    (pa.array([dt.datetime(2024, 2, 29, 10, tzinfo=EAST)]), TIME, dt.datetime(2024, 2, 29, 8)),
    (pa.array([DAY]), TIME, dt.datetime(2024, 2, 29)),
    (pa.array(["true"]), BOOLEAN, True),
    (pa.array(["2"]), BOOLEAN, None),
    (pa.array(["yes"]), BOOLEAN, None),
    (pa.array([" 0"]), BOOLEAN, False),
    (pa.array([1]), BOOLEAN, True),
    (pa.array([2]), BOOLEAN, None),
    (pa.array([0.0]), BOOLEAN, False),
    (pa.array([NAN]), BOOLEAN, None),
    (pa.array([7]), TEXT, "7"),
    (pa.array(["North"]), Domain("text", values=("north",)), None),
    (pa.array(["north "]), Domain("text", values=("north",)), None),
    (pa.array(["it's"]), Domain("text", values=("it's",)), "it's"),
    (pa.array([7]), Domain("integer", values=(7, 8)), 7),
    (pa.array([9]), Domain("integer", values=(7, 8)), None),
]  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
def test_each_cell_means_the_same_in_every_kind_of_source(kind: str, tmp_path: Path) -> None:
    table = pa.table({f"x{i}": cell for i, (cell, _, _) in enumerate(MEANINGS)})
    columns = {f"x{i}": domain for i, (_, domain, _) in enumerate(MEANINGS)}
    relation = {"relation": "t"} if kind == "duckdb" else {}
    with Sources(private(SOURCES[kind](table, tmp_path), columns, **relation)) as sources:
        found = sources.run(f"SELECT * FROM {sources.scan('t')}")[0]
    wrong = {
        (str(cell[0]), domain, expected, seen)
        for (cell, domain, expected), seen in zip(MEANINGS, found, strict=True)
        if (seen, type(seen)) != (expected, type(expected)) and not _told_apart(kind, cell, expected, seen)
    }
    assert not wrong


def _told_apart(kind: str, cell: pa.Array, expected: Any, seen: Any) -> bool:
    """CSV has text alone: a float of 32 bits is its shortest decimal, and 0.0 is not a way to write false."""
    if kind != "csv" or not pa.types.is_floating(cell.type):
        return False
    return seen is None if expected is False else math.isclose(expected, seen, rel_tol=1e-7)


@pytest.mark.parametrize("others", [[1.0, 2.0], [1.0, 50.0], [-50.0], [INF], []])
@pytest.mark.parametrize("stored", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("columns", [{"type": "real", "bounds": [0, 9]}, {"type": "real"}, {"type": "integer"}])
def test_no_number_is_none_whatever_else_a_parquet_file_holds(
    others: list[float], stored: pa.DataType, columns: dict[str, Any], tmp_path: Path
) -> None:
    """The ends of a column that a Parquet file states leave NaN out: a reader that folds comparisons by them would let
    one unit's row decide what the cells of all others mean.
    """
    cells = pa.array([NAN] * 3 + others, stored)
    pq.write_table(pa.table({"id": list(range(len(cells))), "x": cells}), tmp_path / "t.parquet")
    with Sources(private(tmp_path / "t.parquet", {"x": columns}, unit="id")) as sources:
        assert sources.run("SELECT count(*) FROM sf_t WHERE sf_unit < 3 AND x IS NULL") == [(3,)]


@pytest.mark.parametrize("others", [[1.0, 2.0], [1.0, 50.0], [INF]])
def test_no_number_is_none_in_a_list_of_a_parquet_file(others: list[float], tmp_path: Path) -> None:
    cells = pa.array([[NAN, NAN]] * 3 + [others], pa.list_(pa.float64()))
    pq.write_table(pa.table({"id": [0, 1, 2, 3], "x": cells}), tmp_path / "t.parquet")
    column = {"type": "real", "bounds": [0, 9], "most_items": 2}
    with Sources(private(tmp_path / "t.parquet", {"x": column}, unit="id")) as sources:
        assert sources.run("SELECT x FROM sf_t WHERE sf_unit < 3") == [([None, None],)] * 3


def test_a_row_whose_id_is_no_number_is_nobodys_in_a_parquet_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([NAN, 1.0, 2.0]), "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    with Sources(private(tmp_path / "t.parquet", {"x": {"type": "real"}}, unit="id")) as sources:
        assert sources.run("SELECT count(*) FROM sf_t") == [(2,)]


def test_types_that_only_a_database_has(tmp_path: Path) -> None:
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE ward AS ENUM ('A', 'B')")
        connection.execute(
            "CREATE TABLE v AS SELECT 'A'::ward e, 170141183460469231731687303715884105727::HUGEINT h, 5::UHUGEINT u,"
            " 'infinity'::DATE d, '-infinity'::TIMESTAMP s, 'infinity'::TIMESTAMPTZ z, INTERVAL '1 month' i, uuid() g"
        )
    columns = {
        "e": {"values": ["A"]},
        "h": {"type": "integer", "bounds": [0, 9]},
        "u": {"type": "integer"},
        "d": {"type": "date"},
        "s": {"type": "timestamp", "bounds": ["2000-01-01", "2001-01-01"]},
        "z": {"type": "timestamp"},
        "i": {"type": "real"},
        "g": {"type": "text"},
    }
    with Sources(private(path, columns, relation="v")) as sources:
        *found, text = sources.run("SELECT * FROM sf_t")[0]
    assert found == ["A", 9, 5, None, dt.datetime(2000, 1, 1), None, None]
    assert len(text) == 36


def test_mixed_and_missing_cells_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "mixed": [1, "two", None, 3.5, object()],
            "nullable": pd.array([1, None, 2, 3, 300], dtype="Int64"),
            "strings": pd.array(["a", pd.NA, "b", "c", "é"], dtype="string"),
            "whole": [1.0, NAN, 2.0, 2.5, 1e300],
            "when": pd.to_datetime(["2024-01-01", None, "2024-01-02", "2024-01-03", "2024-01-04"]).tz_localize(
                "Asia/Tokyo"
            ),
        }
    )
    columns = {
        "mixed": {"type": "integer"},
        "nullable": {"type": "integer", "bounds": [0, 110]},
        "strings": {"type": "text"},
        "whole": {"type": "integer", "bounds": [0, 110]},
        "when": {"type": "timestamp"},
    }
    with Sources(private(frame, columns)) as sources:
        rows = sources.run("SELECT * FROM sf_t")
    mixed, nullable, strings, whole, when = zip(*sorted(rows, key=lambda row: str(row[4])), strict=True)
    assert (mixed, nullable) == ((1, None, None, None, None), (1, 2, 3, 110, None))
    assert (strings, whole) == (("a", "b", "c", "é", None), (1, 2, None, 110, None))
    assert when[0] == dt.datetime(2023, 12, 31, 15)


def test_text_that_is_not_utf8_in_arrow_is_missing() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff\xfe", b"ok"]).buffers())
    with Sources(private(pa.table({"a": broken}), {"a": {"type": "text"}})) as sources:
        assert Counter(sources.run("SELECT a FROM sf_t")) == {(None,): 1, ("ok",): 1}


UNITS: dict[str, tuple[pa.Array, list[Any]]] = {
    "floats": (pa.array([1.5, NAN, None, 0.0, -0.0, INF]), [0.0, 1.5, INF]),
    "texts": (pa.array(["a", "A", None, "a ", "", "a"]), ["", "A", "a", "a "]),
    "longs": (pa.array([1, 2**63 - 1, None, -(2**63), 1, 0]), [-(2**63), 0, 1, 2**63 - 1]),
    "categories": (pa.array(["a", "b", None, "a", "b", "c"]).dictionary_encode(), ["a", "b", "c"]),
    "lists": (pa.array([[1], [2], None, [1], [], [1, 2]]), ["[1, 2]", "[1]", "[2]", "[]"]),
    "days": (pa.array([DAY, None, DAY, dt.date(1970, 1, 1), None, DAY]), [dt.date(1970, 1, 1), DAY]),
}


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("source", ["arrow", "parquet", "duckdb"])
def test_ids_are_grouped_as_they_are_and_rows_without_one_dropped(kind: str, source: str, tmp_path: Path) -> None:
    ids, expected = UNITS[kind]
    table = pa.table({"who": ids, "a": pa.array(range(6))})
    relation = {"relation": "t"} if source == "duckdb" else {}
    policy = private(SOURCES[source](table, tmp_path), {"a": {"type": "integer"}}, unit="who", **relation)
    with Sources(policy) as sources:
        found = sources.run("SELECT sf_unit FROM sf_t GROUP BY sf_unit ORDER BY sf_unit")
        assert sources.run("SELECT count(DISTINCT sf_unit) FROM sf_t") == [(len(expected),)]
        told_apart = "SELECT count(DISTINCT CAST(sf_unit AS VARCHAR)) FROM sf_t"  # as a hash of their bits would
        assert sources.run(told_apart) == [(len(expected),)]
    assert [row[0] for row in found] == expected


cells = st.one_of(st.none(), st.floats(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5), st.booleans())
tables = st.lists(st.tuples(cells, cells), max_size=12)


def _table(name: str, rows: list[tuple[Any, Any]]) -> Table:
    who, x = ([None if row[i] is None else str(row[i]) for row in rows] for i in (0, 1))
    source = pa.table({"who": pa.array(who, pa.string()), "x": pa.array(x, pa.string())})
    columns = {"x": {"type": "integer", "bounds": [0, 110]}, "who": {"type": "real", "bounds": [-1, 1]}}
    return Table(name, source, columns, id="who", max_rows=1)


@settings(max_examples=12)
@given(tables, tables)
def test_the_scan_is_stable(some: list[tuple[Any, Any]], others: list[tuple[Any, Any]]) -> None:
    """Scanning a union is the union of the scans: one unit's rows cannot change what becomes of another's."""
    parts = {"some": some, "others": others, "both": some + others}
    with Sources(policy_of(*(_table(name, rows) for name, rows in parts.items()))) as sources:
        found = {name: Counter(sources.run(f"SELECT * FROM {sources.scan(name)}")) for name in parts}
    assert found["both"] == found["some"] + found["others"]


@given(st.fractions(-100, 100), st.fractions(0, 10))
def test_bounds_as_doubles_lie_inside_the_exact_ones(low: Any, width: Any) -> None:
    least, largest = (parse_value(Type.REAL, each, "bound") for each in inner_bounds(low, low + width))
    assert least <= largest
    assert width < 1e-9 or low <= least <= largest <= low + width
