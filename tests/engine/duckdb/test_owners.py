"""Whose a row is: ids of one type, paths through foreign keys, and periods, on every kind of source."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import SOURCES
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.inspection import inspect_table
from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

N = {"n": {"type": "integer"}}


def owned(policy: Policy, table: str) -> list[tuple[Any, ...]]:
    """(n, unit) of every row of a scan."""
    with Sources(policy, threads=1) as sources:
        return sorted(sources.run(f"SELECT n, sf_unit FROM {sources.scan(table)}"), key=repr)


def family(
    visits: Any, drugs: Any, doses: Any = None, columns: Any = N, unit: PrivacyUnit | None = None, **more: Any
) -> Policy:
    """Doses found through drugs, which are found through visits, which have ids."""
    tables = {
        "visits": Table("visits", visits, columns, id="who", max_rows=3),
        "drugs": Table("drugs", drugs, columns, id={"via": "visits", "on": "visit"}, max_rows=3),
    }
    if doses is not None:
        tables["doses"] = Table(
            "doses", doses, columns, id={"via": "drugs", "on": "of", "key": "drug"}, max_rows=3, **more
        )
    return Policy(unit or PrivacyUnit("patient"), Budget(1), tables)


VISITS = pa.table({"who": [1, 1, 2, 3, None], "visit": [10, 11, 10, 12, 13], "n": [0, 1, 2, 3, 4]})
DRUGS = pa.table({"visit": [10, 11, 10, 99, None, 13], "drug": [1, 2, 3, 4, 5, 6], "n": [1, 2, 3, 4, 5, 6]})


@pytest.mark.parametrize("kind", SOURCES)
def test_a_row_belongs_to_everybody_who_owns_its_parent(kind: str, tmp_path: Path) -> None:
    """10 is a visit of two people, 99 of nobody, 13 of somebody without an id."""
    (tmp_path / "v").mkdir(), (tmp_path / "d").mkdir()
    relation = {"relation": "t"} if kind == "duckdb" else {}
    tables = {
        "visits": Table("visits", SOURCES[kind](VISITS, tmp_path / "v"), N, id="who", max_rows=3, **relation),
        "drugs": Table(
            "drugs",
            SOURCES[kind](DRUGS, tmp_path / "d"),
            N,
            id={"via": "visits", "on": "visit"},
            max_rows=3,
            **relation,
        ),
    }
    found = owned(Policy(PrivacyUnit("patient"), Budget(1), tables), "drugs")
    assert [(n, float(who)) for n, who in found] == [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]


def test_several_hops_make_key_and_unit_distinct_at_each() -> None:
    """Person 1 leads to drug 1 through two visits and has one copy of its dose all the same."""
    visits = pa.table({"who": [1, 1, 1, 2], "visit": [10, 10, 11, 11], "n": [0] * 4})
    drugs = pa.table({"visit": [10, 11, 11], "drug": [1, 1, 2], "n": [0] * 3})
    doses = pa.table({"of": [1, 2, 2, None, 7], "n": [1, 2, 2, 4, 5]})
    found = owned(family(visits, drugs, doses), "doses")
    assert found == [(1, 1), (1, 2), (2, 1), (2, 1), (2, 2), (2, 2)]


@pytest.mark.parametrize(
    ("parents", "children", "pairs"),
    [
        (pa.array([7, 8]), pa.array(["7", "007"]), [(0, 1), (1, 1)]),
        (pa.array(["7", "x"]), pa.array([7, 8]), [(0, 1)]),
        (pa.array([7.0, float("nan")]), pa.array([float("nan"), 7.0]), [(1, 1)]),
        (pa.array([0.0, 1.5]), pa.array([-0.0, 1.5]), [(0, 1), (1, 2)]),
        (pa.array([1.0, 1.5]), pa.array([1, 2]), [(0, 1)]),
        (pa.array([1, 2], pa.int8()), pa.array([2, 3], pa.int64()), [(0, 2)]),
        (pa.array([1, 2**63], pa.uint64()), pa.array([1, 2]), [(0, 1)]),
        (pa.array(["a", "A"]), pa.array(["A", None]), [(0, 2)]),
        (pa.array([dt.date(2024, 1, 1), None]), pa.array(["2024-01-01", ""]), [(0, 1)]),
        (pa.array([True, False]), pa.array(["true", "x"]), [(0, 1)]),
    ],
)
def test_keys_are_compared_in_one_type(parents: pa.Array, children: pa.Array, pairs: list[tuple[int, int]]) -> None:
    visits = pa.table({"who": [1, 2], "visit": parents, "n": [0, 0]})
    assert owned(family(visits, pa.table({"visit": children, "n": [0, 1]})), "drugs") == pairs


def people(*ids: pa.Array, id_type: str | None = None) -> Policy:
    tables = {
        f"t{index}": Table(f"t{index}", pa.table({"who": each, "n": list(range(len(each)))}), N, id="who", max_rows=1)
        for index, each in enumerate(ids)
    }
    return Policy(PrivacyUnit("patient"), Budget(1), tables, id_type=id_type)


WHOLE, TEXT = pa.array([7, 8]), pa.array(["007", "x"])


@pytest.mark.parametrize(
    ("first", "second"),
    [(WHOLE, TEXT), (pa.array([7.0, 8.0]), WHOLE), (pa.array([dt.date(2024, 1, 1)] * 2), TEXT)],
)
def test_ids_of_two_types_are_refused_with_the_line_to_add(first: pa.Array, second: pa.Array) -> None:
    for pair in ((first, second), (second, first)):
        with pytest.raises(InvalidPolicy) as refusal:
            Sources(people(*pair))
        assert refusal.value.place == "tables.t0.id"
        assert 'id_type = "integer"' in str(refusal.value)
        for kind in ("integer", "text"):
            Sources(people(*pair, id_type=kind)).close()


def test_a_declared_type_tells_whether_two_ids_are_one() -> None:
    integers, texts = people(WHOLE, TEXT, id_type="integer"), people(WHOLE, TEXT, id_type="text")
    assert (owned(integers, "t0"), owned(integers, "t1")) == ([(0, 7), (1, 8)], [(0, 7)])
    assert (owned(texts, "t0"), owned(texts, "t1")) == ([(0, "7"), (1, "8")], [(0, "007"), (1, "x")])
    assert owned(people(pa.array([7.0, 7.5, None]), id_type="integer"), "t0") == [(0, 7)]


MERGED = {
    "a point": ["9007199254740993.0", "9007199254740992.0", "9007199254740993", "7.0"],
    "an exponent": ["9.007199254740993e15", "9007199254740992e0", "9007199254740993", "7e0"],
    "many digits": ["1000000000000000.1", "1.0000000000000000001", "1000000000000000", "7.00"],
    "nearly nothing": ["1e-999", "1e-400", "0", "7"],
    "zeros before": ["0000000000000000000009007199254740993", "x", "9007199254740993", "0000000000000000000000000007"],
}
"""Texts that doubles would merge: of each list the third is an id in digits, and the last is 7."""


@pytest.mark.parametrize("how", MERGED)
def test_an_id_that_a_double_would_merge_with_another_is_nobodys(how: str) -> None:
    """Read by a double, two people would be one unit, and one person two where a table has the id in digits."""
    texts = MERGED[how]
    found = owned(people(pa.array(texts), id_type="integer"), "t0")
    assert found == [(2, int(texts[2])), (3, 7)]


@pytest.mark.parametrize(("stored", "first"), [(pa.float64(), 2**53), (pa.float32(), 2**24)])
def test_a_stored_number_that_stands_for_two_ids_is_nobodys(stored: pa.DataType, first: int) -> None:
    ids = pa.array([float(first), float(first - 1), -float(first), 1.0 - first, 7.5], stored)
    assert owned(people(ids, id_type="integer"), "t0") == [(1, first - 1), (3, 1 - first)]


def test_decimal_ids_are_exact() -> None:
    ids = [Decimal(text) for text in ("9007199254740993.00", "9007199254740992.00", "7.50", "99999999999999999999.00")]
    found = owned(people(pa.array(ids, pa.decimal128(38, 2)), id_type="integer"), "t0")
    assert found == [(0, 2**53 + 1), (1, 2**53)]


def test_long_ids_are_told_apart() -> None:
    long = pa.array(["x" * 1023 + end for end in "ab"])
    assert len({who for _, who in owned(people(long, TEXT, id_type="text"), "t0")}) == 2


def test_whole_numbers_of_any_width_are_one_type() -> None:
    narrow, wide = pa.array([1, 2], pa.int8()), pa.array([1, 2**63], pa.uint64())
    both = people(narrow, wide)
    assert [owned(both, each) for each in ("t0", "t1")] == [[(0, 1), (1, 2)], [(0, 1), (1, 2**63)]]


DAYS = {**N, "day": {"type": "date", "bounds": ["2024-01-01", "2024-01-02"]}}


def test_a_period_is_read_before_bounds_are_applied() -> None:
    """Days before and after the bounds are days of their own; a row without a day is nobody's."""
    days = [dt.date(2023, 12, 30), dt.date(2023, 12, 31), dt.date(2024, 1, 1), None, dt.date(9999, 12, 31)]
    visits = pa.table({"who": [1] * 5, "day": days, "visit": [1] * 5, "n": list(range(5))})
    drugs = pa.table({"day": days, "visit": [1] * 5, "n": list(range(5))})
    for every, units in (("day", [0, 1, 2, 4]), ("week", [0, 0, 2, 4]), ("month", [0, 0, 2, 4])):
        unit = PrivacyUnit("patient", period=every, period_column="day")
        found = owned(family(visits, drugs, columns=DAYS, unit=unit), "visits")
        assert [n for n, _ in found] == [0, 1, 2, 4]
        assert len({str(who) for _, who in found}) == len(set(units)), every
        through = owned(family(visits, drugs, columns=DAYS, unit=unit), "drugs")
        assert through == found, every


def test_a_hop_requires_the_same_period() -> None:
    visits = pa.table({"who": [1, 2], "day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "visit": [1, 1], "n": [0, 0]})
    drugs = pa.table({"day": [dt.date(2024, 1, 2), dt.date(2024, 1, 3)], "visit": [1, 1], "n": [0, 1]})
    unit = PrivacyUnit("patient", period="day", period_column="day")
    assert owned(family(visits, drugs, columns=DAYS, unit=unit), "drugs") == [
        (0, {"id": 2, "period": dt.date(2024, 1, 2)})
    ]


@pytest.mark.parametrize("every", ["day", "week", "month"])
def test_strange_days_are_a_period_or_none(every: str) -> None:
    days = ["infinity", "-infinity", "x", "2024-13-01", "", None, "0001-01-01", "9999-12-31"]
    visits = pa.table({"who": [1] * len(days), "day": days, "visit": [1] * len(days), "n": range(len(days))})
    unit = PrivacyUnit("patient", period=every, period_column="day")
    found = owned(family(visits, visits, columns=DAYS, unit=unit), "visits")
    assert [days[n] for n, _ in found] == ["0001-01-01", "9999-12-31"]


@pytest.mark.parametrize(
    ("change", "place"),
    [({"via": "visits", "on": "vist"}, "tables.drugs.id.on"), ({"via": "visits", "on": "visit", "key": "no"},
                                                                "tables.drugs.id.key")],
)  # fmt: skip
def test_a_missing_key_is_named(change: dict[str, str], place: str) -> None:
    tables = {
        "visits": Table("visits", VISITS, N, id="who", max_rows=3),
        "drugs": Table("drugs", DRUGS, N, id=change, max_rows=3),
    }
    with pytest.raises(InvalidPolicy) as refusal:
        Sources(Policy(PrivacyUnit("patient"), Budget(1), tables))
    assert refusal.value.place == place


def test_cycles_are_named_by_their_path() -> None:
    drugs = Table("drugs", DRUGS, N, id={"via": "visits", "on": "visit"}, max_rows=3)
    visits = Table("visits", VISITS, N, id={"via": "drugs", "on": "visit"}, max_rows=3)
    with pytest.raises(InvalidPolicy, match="drugs → visits → drugs"):
        Policy(PrivacyUnit("patient"), Budget(1), {"drugs": drugs, "visits": visits})


def test_copies_count_toward_the_ceiling() -> None:
    """A thousand owners of a thousand rows are a million rows: seen before any of them is made."""
    visits = pa.table({"who": list(range(1000)), "visit": [1] * 1000, "n": [0] * 1000})
    drugs = pa.table({"visit": [1] * 1000, "n": [0] * 1000})
    tables = {"visits": Table("visits", visits, N, id="who", max_rows=3)}
    for ceiling in (10**6 - 1, 10**6):
        drug = Table("drugs", drugs, N, id={"via": "visits", "on": "visit"}, max_rows=3, row_ceiling=ceiling)
        policy = Policy(PrivacyUnit("patient"), Budget(1), {**tables, "drugs": drug})
        if ceiling < 10**6:
            with pytest.raises(InvalidPolicy, match="row_ceiling"):
                Sources(policy)
        else:
            Sources(policy).close()


def test_an_owner_sees_how_many_rows_are_nobodys() -> None:
    with Sources(family(VISITS, DRUGS), threads=1) as sources:
        found = inspect_table(sources, "drugs")
    assert (found.rows, found.without_id, found.units, found.units_over_limit) == (6, 0.5, 2, 0)


def test_columns_of_the_source_with_our_names_do_no_harm() -> None:
    visits = VISITS.append_column("sf_unit", pa.array([9] * 5)).append_column("sf_key", pa.array([8] * 5))
    drugs = DRUGS.append_column("sf_unit", pa.array([9] * 6)).append_column("sf_key", pa.array([8] * 6))
    assert owned(family(visits, drugs), "drugs") == owned(family(VISITS, DRUGS), "drugs")


def test_one_unit_moves_its_own_rows_alone() -> None:
    """Tables of three visits by two people over two keys, and two drugs over three: what others have stays."""
    whos, keys = (1, 2, None), (1, 2, None)
    worlds = list(product(product(whos, keys), repeat=2))
    for (first, second), (one, two) in product(worlds[::16], ((1, 2), (1, 1), (None, 2))):
        drugs = pa.table({"visit": pa.array([one, two], pa.int64()), "n": [0, 1]})

        def seen(pairs: Any, drugs: pa.Table = drugs) -> list[tuple[Any, ...]]:
            rows = pa.table(
                {
                    "who": pa.array([who for who, _ in pairs], pa.int64()),
                    "visit": pa.array([key for _, key in pairs], pa.int64()),
                    "n": [0] * len(pairs),
                }
            )
            return owned(family(rows, drugs), "drugs")

        without, added = seen([first, second]), seen([first, second, (9, 1), (9, 1), (9, None)])
        assert [each for each in added if each[1] != 9] == without
        assert [n for n, who in added if who == 9] == [n for n, key in enumerate((one, two)) if key == 1]


LONG_IDS = {
    "text": (["é" * 512, "é" * 512 + "x", "x"], pa.string(), None),
    "as text": (["é" * 512, "é" * 512 + "x", "x"], pa.string(), "text"),
    "bytes": ([b"e" * 1024, b"e" * 1025, b"x"], pa.binary(), None),
}


@pytest.mark.parametrize("kind", LONG_IDS)
def test_an_id_of_more_than_1024_bytes_is_nobodys(kind: str) -> None:
    ids, stored, id_type = LONG_IDS[kind]
    rows = pa.table({"who": pa.array(ids, stored), "visit": pa.array(ids, stored), "n": [1, 2, 3]})
    policy = replace(family(rows, rows), id_type=id_type)
    for table in ("visits", "drugs"):
        assert [n for n, _ in owned(policy, table)] == [1, 3]
    with Sources(policy, threads=1) as sources:
        assert inspect_table(sources, "visits").without_id == pytest.approx(1 / 3)
