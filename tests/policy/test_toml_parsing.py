"""Policy files: what they mean, and every mistake named by rule, place and fix."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain, File, ListColumn, read
from sfumato.privacy import Neighbours

GOOD = """
[unit]
name = "patient"
neighbours = "add-remove"
budget = { epsilon = 3.0, delta = 1e-6 }
size = 40000

[tables.visits]
source = "visits.parquet"
id = "patient_id"
max_rows = 10
max_groups = 4
[tables.visits.columns]
region = { values = ["north", "south"] }
age    = { type = "integer", bounds = [0, 110] }
cost   = { type = "real", bounds = [0, 5000], grid = 0.01 }
ward   = { type = "text", nullable = true }
day    = { type = "date", bounds = ["2024-01-01", "2024-12-31"] }
since  = { type = "timestamp", bounds = [2020-01-01, 2024-12-31T23:59:59] }
smoker = { type = "boolean" }

[tables.hospitals]
source = "data/hospitals.csv"
public = true

[analysts.ana]
share = 0.5
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "clinic.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_file_means_what_it_says(tmp_path: Path) -> None:
    policy = read(written(tmp_path, GOOD))
    visits = policy.tables["visits"]
    assert (policy.unit.name, policy.unit.every_row, policy.size) == ("patient", False, 40000)
    assert (policy.budget.epsilon, policy.budget.delta) == (3, Fraction(1, 10**6))
    assert policy.neighbours is Neighbours.ADD_REMOVE
    assert policy.analysts == {"ana": Fraction(1, 2)}
    assert (visits.source, visits.id, visits.max_rows, visits.max_groups) == (
        File(tmp_path / "visits.parquet"),
        "patient_id",
        10,
        4,
    )
    assert list(visits.columns) == ["region", "age", "cost", "ward", "day", "since", "smoker"]
    assert visits.columns["cost"] == Domain("real", bounds=(0, 5000), grid="0.01")
    assert visits.columns["ward"].nullable
    assert visits.columns["since"].bounds == (dt.datetime(2020, 1, 1), dt.datetime(2024, 12, 31, 23, 59, 59))
    assert policy.tables["hospitals"].public
    assert policy.tables["hospitals"].source == File(tmp_path / "data" / "hospitals.csv")


def test_numbers_are_read_as_decimals(tmp_path: Path) -> None:
    policy = read(written(tmp_path, GOOD.replace("epsilon = 3.0", "epsilon = 0.1")))
    assert policy.budget.epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ('["a", "b"]', "text"),
        ("[1, 2]", "integer"),
        ("[1, 2.5]", "real"),
        ("[2024-01-01, 2024-01-02]", "date"),
        ("[2024-01-01T10:00:00]", "timestamp"),
        ("[true, false]", "boolean"),
    ],
)
def test_values_imply_their_type(tmp_path: Path, values: str, kind: str) -> None:
    policy = read(written(tmp_path, GOOD.replace('["north", "south"]', values)))
    assert policy.tables["visits"].columns["region"].type.value == kind


def test_rows_as_units_and_replace_neighbours(tmp_path: Path) -> None:
    text = GOOD.replace('id = "patient_id"\nmax_rows = 10\nmax_groups = 4', 'id = "row"').replace(
        "add-remove", "replace"
    )
    policy = read(written(tmp_path, text))
    assert policy.unit.every_row
    assert policy.tables["visits"].max_rows == 1
    assert policy.neighbours is Neighbours.REPLACE


MISTAKES = [
    # what is replaced, by what, the place that is named, a word of the rule or the fix
    ("bounds = [0, 110]", "bound = [0, 110]", "tables.visits.columns.age.bound", "did you mean bounds?"),
    ("[unit]", "[units]", "units", "did you mean unit?"),
    ("max_rows = 10", "max_row = 10", "tables.visits.max_row", "did you mean max_rows?"),
    ("epsilon = 3.0", "epsilno = 3.0", "unit.budget.epsilno", "did you mean epsilon?"),
    ("share = 0.5", "part = 0.5", "analysts.ana.part", "share"),
    ("size = 40000", "zebra = 1", "unit.zebra", "remove it, or use one of name"),
    ("bounds = [0, 110]", "bounds = [110, 0]", "tables.visits.columns.age.bounds", "low ≤ high"),
    ("bounds = [0, 110]", "bounds = [0]", "tables.visits.columns.age.bounds", "two values"),
    ("bounds = [0, 110]", "bounds = [0.5, 110]", "tables.visits.columns.age.bounds", "whole number"),
    ("bounds = [0, 110]", "bounds = [0, nan]", "tables.visits.columns.age.bounds", "whole number"),
    ("bounds = [0, 5000]", "bounds = [0, inf]", "tables.visits.columns.cost.bounds", "finite"),
    ("grid = 0.01", "grid = 0", "tables.visits.columns.cost.grid", "> 0"),
    ('"north", "south"', '"north", "north"', "tables.visits.columns.region.values", "repeated"),
    ('"north", "south"', '"north", 1', "tables.visits.columns.region.type", "type"),
    ('"north", "south"', "", "tables.visits.columns.region.type", "type"),
    ('type = "integer"', 'type = "number"', "tables.visits.columns.age.type", "integer"),
    ('type = "integer"', "type = 5", "tables.visits.columns.age.type", "integer"),
    ('{ type = "boolean" }', '"boolean"', "tables.visits.columns.smoker", "type"),
    ("nullable = true", "nullable = 1", "tables.visits.columns.ward.nullable", "true or false"),
    ("age    =", '" a"    =', "tables.visits.columns. a", "must have 1 to 63"),
    ("age    =", '"a\\nb"    =', "tables.visits.columns.a\nb", "must have 1 to 63"),
    ("age    =", '"SF_a"    =', "tables.visits.columns.SF_a", "sf_"),
    ("age    =", "sf_age    =", "tables.visits.columns.sf_age", "sf_"),
    ("ward   =", "AGE   =", "tables.visits.columns.AGE", "same name"),
    ("epsilon = 3.0", "epsilon = -1", "unit.budget.epsilon", "≥ 0"),
    ("epsilon = 3.0", "epsilon = inf", "unit.budget.epsilon", "finite"),
    ("epsilon = 3.0, ", "", "unit.budget.epsilon", "epsilon"),
    ("delta = 1e-6", "delta = 2", "unit.budget.delta", "[0, 1)"),
    ("budget = { epsilon = 3.0, delta = 1e-6 }", "budget = 3.0", "unit.budget", "epsilon = 3.0"),
    ("budget = { epsilon = 3.0, delta = 1e-6 }", "", "unit.budget", "missing"),
    ("add-remove", "swap", "unit.neighbours", "replace"),
    ('"add-remove"', '["add-remove"]', "unit.neighbours", "replace"),
    ('name = "patient"', "", "unit.name", "patient"),
    ('name = "patient"', 'name = ""', "unit.name", "patient"),
    ("size = 40000", "size = 0.5", "unit.size", "whole number"),
    ("share = 0.5", "share = 1.5", "analysts.ana.share", "(0, 1]"),
    ("share = 0.5", "share = 0", "analysts.ana.share", "(0, 1]"),
    ("share = 0.5", "", "analysts.ana", "share"),
    ('source = "visits.parquet"', "", "tables.visits.source", "source"),
    ('source = "visits.parquet"', "source = 5", "tables.visits.source", "source"),
    ('source = "visits.parquet"', 'source = "s3://bucket/x.parquet"', "tables.visits.source", "Spark server"),
    ('id = "patient_id"', "", "tables.visits.id", "needs an id"),
    ('id = "patient_id"', "id = 5", "tables.visits.id", "visible characters"),
    ('id = "patient_id"', 'id = ["a", "b"]', "tables.visits.id", "one of two owners"),
    ('id = "patient_id"', 'id = { via = "stays", on = "stay_id" }', "tables.visits.id.via", "declare [tables."),
    ('id = "patient_id"', 'id = { via = "hospitals", on = "h" }', "tables.visits.id.via", "public"),
    ('id = "patient_id"', 'id = { via = "visits", on = "v" }', "tables.visits.id.via", "circular"),
    ('id = "patient_id"', 'id = { via = "stays" }', "tables.visits.id.on", "(on)"),
    ('id = "patient_id"', 'id = { on = "v" }', "tables.visits.id.via", "(via)"),
    ('id = "patient_id"', 'id = { via = "stays", by = "v" }', "tables.visits.id.by", "remove it, or use one of"),
    ('id = "patient_id"', 'id = { via = 5, on = "v" }', "tables.visits.id.via", "visible characters"),
    ('id = "patient_id"', 'id = { via = "stays", on = " a" }', "tables.visits.id.on", "without leading"),
    ("max_groups = 4", 'period = { column = "day", every = "day" }', "tables.visits.period.every", "in [unit]"),
    ("max_groups = 4", 'period = { column = "day" }', "tables.visits.period", "to [unit]"),
    ("max_groups = 4", "period = { col = 5 }", "tables.visits.period.col", "did you mean column?"),
    ("max_groups = 4", "period = {}", "tables.visits.period.column", "visible characters"),
    ("public = true", 'public = true\nperiod = { column = "day" }', "tables.hospitals.period", "belong to no unit"),
    ("size = 40000", 'period = { column = "day", every = "hour" }', "unit.period.every", "a week or a month"),
    ("size = 40000", 'period = { column = "day", every = ["day"] }', "unit.period.every", "a week or a month"),
    ("size = 40000", 'period = { column = "day" }', "unit.period.every", "its length"),
    ("size = 40000", 'period = { every = "day" }', "unit.period.column", "its column"),
    ("size = 40000", 'period = "day"', "unit.period", "write period = {"),
    ("size = 40000", 'period = { column = "date", every = "day" }', "tables.visits.period", "declares no date"),
    ("size = 40000", 'period = { column = "age", every = "day" }', "tables.visits.period", "age is integer"),
    ("size = 40000", 'id_type = "real"', "unit.id_type", 'id_type = "integer"'),
    ("size = 40000", "id_type = [1]", "unit.id_type", 'id_type = "integer"'),
    ("max_rows = 10", "", "tables.visits.max_rows", "limit"),
    ("max_rows = 10", "max_rows = 0", "tables.visits.max_rows", "whole number"),
    ("max_rows = 10", "max_rows = 2.5", "tables.visits.max_rows", "whole number"),
    ("public = true", "public = 1", "tables.hospitals.public", "true or false"),
    ("public = true", "public = true\nmax_rows = 1", "tables.hospitals.max_rows", "belong to no unit"),
    ("public = true", 'id = "row"\ncolumns = { a = { type = "text" } }', "tables.hospitals.id", "same unit"),
    ("[tables.hospitals]", "[tables.VISITS]", "tables.VISITS", "same name"),
    ("[tables.hospitals]", '[tables."a\\u202Eb"]', "tables.a\u202eb", "must have 1 to 63"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "word"), MISTAKES, ids=[f"{m[1]} at {m[2]}" for m in MISTAKES])
def test_every_mistake_is_named(tmp_path: Path, old: str, new: str, place: str, word: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidPolicy) as refusal:
        read(written(tmp_path, GOOD.replace(old, new, 1)))
    assert refusal.value.place == place
    assert word in refusal.value.rule + " / " + refusal.value.fix
    assert refusal.value.fix


BROKEN = {
    "empty": (b"", "empty"),
    "blank": (b" \n\t\n", "empty"),
    "not UTF-8": (b"[unit]\nname = '\xff'", "UTF-8"),
    "NUL": (b"[unit]\nname = 'a\0b'", "not valid TOML"),
    "no TOML": (b"[unit\n", "not valid TOML"),
    "a key twice": (b"[unit]\nname = 'a'\nname = 'b'", "not valid TOML"),
    "ten megabytes": (b"#" * 10_000_000, "4 MiB"),
    "nested": (b"a = " + b"[" * 100_000, "too deep"),
    "a long number": (b"a = " + b"9" * 10_000, "too many digits"),
    "a huge exponent": (b"a = 1e99999999999999999999", "too many digits"),
    "sections that are none": (b"unit = 1\ntables = 2", "section"),
    "no unit": (b"[tables.a]\nsource = 'a.csv'", "missing"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(tmp_path: Path, name: str) -> None:
    text, word = BROKEN[name]
    with pytest.raises(InvalidPolicy, match=word):
        read(written(tmp_path, text))


HOSTILE = [
    "true", "-1", "0", "1e999", "nan", "-inf", '""', '"x"', "[]", "[[1]]", "{}", "{ a = { a = 1 } }", '"\\u0000"',
    "1979-05-27T07:32:00Z", "07:32:00", "9223372036854775808", '"\\U0001F642"', "[true, 1, 'a']",
]  # fmt: skip


def test_any_value_in_any_place_is_read_or_refused_by_name(tmp_path: Path) -> None:
    value = re.compile(r'"[^"]*"|\[[^\]]*\]|\{[^}]*\}|[^\s,}]+')
    places = [value.match(GOOD, equals.end()) for equals in re.finditer(r"= ", GOOD)]
    refusals = []
    for found in filter(None, places):
        for hostile in HOSTILE:
            try:
                read(written(tmp_path, GOOD[: found.start()] + hostile + GOOD[found.end() :]))
            except InvalidPolicy as refusal:
                refusals.append(refusal)
    assert len(refusals) > 14 * len(places) > 14 * 30
    assert all(refusal.place and refusal.fix for refusal in refusals)


def test_places_that_hold_no_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path, Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(InvalidPolicy, match="no such policy file"):
            read(path)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert read(written(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())).size == 40000


def test_the_policies_in_the_documentation_are_read(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    pages = [(docs / name).read_text() for name in ("how-to/write-a-policy.md", "reference/policy.md")]
    blocks = re.findall(r"```toml\n(.*?)```", "\n".join(pages), re.S)
    clinic, rows, cells, flights = (read(written(tmp_path, block)) for block in blocks)
    assert list(clinic.tables) == ["visits", "prescriptions", "hospitals"]
    assert rows.unit.every_row
    assert all(map(cells.tables["visits"].is_coded, cells.tables["visits"].columns))
    assert flights.tables["flights"].possible_rows == 500


@pytest.mark.parametrize(
    ("section", "heading"),
    [
        ("", "## The file"),
        ("[unit]", "## `[unit]`"),
        ("[unit.budget]", "`budget` has these keys"),
        ("[tables.visits]", "## `[tables.<name>]`"),
        ("[tables.visits.columns.age]", "## `[tables.<name>.columns]`"),
        ("[analysts.ana]", "## `[analysts.<name>]`"),
        ("[approval]", "## `[approval]`"),
    ],
)
def test_the_reference_lists_every_key(tmp_path: Path, section: str, heading: str) -> None:
    """The refusal of an unknown key lists the known ones; the table below the heading has a row for each."""
    keys = {
        "[unit]": 'name = "patient"',
        "[unit.budget]": "epsilon = 3",
        "[tables.visits]": 'source = "visits.parquet"\nid = "patient"\nmax_rows = 3',
        "[tables.visits.columns.age]": 'type = "integer"',
        "[analysts.ana]": "share = 0.5",
        "[approval]": "approvals = 2",
    }
    document = "\n".join(f"{name}\n{key}\n" + ("qqqq = 1\n" if name == section else "") for name, key in keys.items())
    with pytest.raises(InvalidPolicy) as refused:
        read(written(tmp_path, document if section else f"qqqq = 1\n{document}"))
    known = refused.value.fix.removeprefix("remove it, or use ").removeprefix("one of ").split(", ")
    page = (Path(__file__).parents[2] / "docs/reference/policy.md").read_text()
    table = re.findall(r"^\| (`.*?) \|", page.split(heading, 1)[1].split("\n## ", 1)[0].split("\n`", 1)[0], re.M)
    assert sorted(name for cell in table for name in re.findall(r"`(\w+)`", cell)) == sorted(known)


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ({"type": "real", "bounds": [0, "1e151"]}, "bounds"),
        ({"type": "real", "bounds": [0, "1e-151"]}, "bounds"),
        ({"type": "real", "bounds": ["-1e300", "1e300"]}, "bounds"),
        ({"type": "real", "values": [1, "1e200"]}, "values"),
        ({"type": "real", "bounds": [0, 1], "grid": "1e300"}, "grid"),
        ({"type": "real", "bounds": [0, 1], "grid": "1e-200"}, "grid"),
        ({"type": "text", "max_length": 0}, "max_length"),
        ({"type": "text", "max_length": 10_001}, "max_length"),
        ({"type": "text", "max_length": True}, "max_length"),
        ({"type": "integer", "max_length": 3}, "max_length"),
        ({"values": ["a"], "max_length": 3}, "max_length"),
        ({"type": "text", "other": "x"}, "other"),
        ({"values": [1, 2], "other": "x"}, "other"),
        *(({"type": "text", "most_items": most}, "most_items") for most in (0, -1, 1_001, 2.0, True, "5")),
    ],
)
def test_what_a_column_may_declare(written: dict[str, object], place: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        sf.Table("t", "t.csv", {"a": written}, id="row")
    assert refused.value.place == f"tables.t.columns.a.{place}"


def test_a_list_is_a_column_of_its_own_kind() -> None:
    declared = {"age": {"type": "integer"}, "tags": {"values": ["x", "y"], "most_items": 5}}
    table = sf.Table("t", "t.parquet", declared, id="row")
    assert table.columns == {"age": Domain("integer")}
    assert table.lists == {"tags": ListColumn(Domain("text", values=("x", "y")), 5)}
    assert replace(table, id="age", max_rows=3).lists == table.lists
    assert sf.Table("t", "t.parquet", {"tags": declared["tags"]}, id="row").has_columns
    with pytest.raises(InvalidPolicy, match="list columns of a public table"):
        sf.Table("t", "t.parquet", declared, public=True)


def test_other_is_one_more_value() -> None:
    column = sf.Table("t", "t.csv", {"a": {"values": ["x", "y"], "other": "rest"}}, id="row").columns["a"]
    assert column.values == ("x", "y", "rest")
    assert column == Domain("text", values=("x", "y", "rest"), other="rest")
    assert column != Domain("text", values=("x", "y", "rest"))


@pytest.mark.parametrize("ceiling", [0, -1, 2**40 + 1, "many", 1.5, True, None])
def test_a_ceiling_of_rows_is_a_whole_number(ceiling: object) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        sf.Table("t", "t.csv", {"a": {"type": "text"}}, id="row", row_ceiling=ceiling)  # type: ignore[arg-type]
    assert refused.value.place == "tables.t.row_ceiling"
    assert sf.Table("t", "t.csv", public=True, row_ceiling=5).row_ceiling == 5


def test_a_bare_key_with_an_accent_is_told_its_quotes(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("[analysts.zoé]\nshare = 0.5\n", encoding="utf-8")
    with pytest.raises(InvalidPolicy) as refused:
        read(tmp_path / "p.toml")
    assert "write names with spaces or accents in double quotes" in refused.value.fix
