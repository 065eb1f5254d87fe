"""Files as they are: each from the file to a right answer with ``init`` and a question, without an editor."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.running import run
from sfumato.cli.drafting.column_interview import format_rules, parse_rules_text, split_bounds_and_rules
from sfumato.curator.cell_proposals import propose_formats_for_texts
from sfumato.policy import Domain, Type
from sfumato.policy.cell_rules import CellRules, parse_rules

PERSONS = range(120)


@pytest.fixture(autouse=True)
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a right answer is known."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)


@dataclass(frozen=True)
class MessyFile:
    """A file, what its owner types, a question about it, and the right answer."""

    name: str
    write: Callable[[Path], object]
    flags: tuple[str, ...]
    question: str
    answer: list[list[Any]]
    ending: str = "csv"


def text(*lines: str, encoding: str = "utf-8", end: str = "\n") -> Callable[[Path], object]:
    return lambda path: path.write_bytes("".join(f"{line}{end}" for line in lines).encode(encoding))


def sqlite_days(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE visits (patient_id INTEGER, day TEXT, seen DATE, cost NUMERIC)")
        rows = [
            (each, f"{1 + each % 28}/{1 + each % 12:02}/2024", f"{1 + each % 9}-Mar-2023", each) for each in PERSONS
        ]
        database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    database.close()


def multiples(number: int) -> int:
    return sum(each % number == 0 for each in PERSONS)


MESSY_FILES = (
    MessyFile(
        "a French CSV: semicolons, decimal commas, accents in Latin-1",
        text(
            "Patient N°;Âge;Coût;Région",
            *(f"{each};{20 + each % 50};{each % 40},50;{('Île-de-France', 'Rhône')[each % 2]}" for each in PERSONS),
            encoding="latin-1",
            end="\r\n",
        ),
        ("--column", "Coût=real 0 100", "--column", "Région=text Île-de-France,Rhône"),
        'SELECT "Région", SUM("Coût") AS total FROM t GROUP BY "Région"',
        [
            ["Rhône", float(sum(each % 40 + 0.5 for each in PERSONS if each % 2))],
            ["Île-de-France", float(sum(each % 40 + 0.5 for each in PERSONS if not each % 2))],
        ],
    ),
    MessyFile(
        "an export of a spreadsheet with currency and thousands",
        text(
            "customer_id,amount",
            *(f'{each},"${1000 + each:,}.25"' for each in PERSONS),
            encoding="utf-8-sig",
            end="\r\n",
        ),
        ("--column", "amount=real 0 2000"),
        "SELECT SUM(amount) AS total FROM t",
        [[sum(1000.25 + each for each in PERSONS)]],
    ),
    MessyFile(
        "euros behind the number, points between thousands",
        text("customer_id;Betrag", *(f"{each};1.{each:03},50 €" for each in PERSONS)),
        ("--column", "Betrag=real 0 2000"),
        'SELECT SUM("Betrag") AS total FROM t',
        [[sum(1000.5 + each for each in PERSONS)]],
    ),
    MessyFile(
        "German dates",
        text("patient_id;Datum", *(f"{each};{1 + each % 28:02}.{1 + each % 12:02}.2024" for each in PERSONS)),
        (),
        "SELECT COUNT(*) AS n FROM t WHERE \"Datum\" < DATE '2024-02-01'",
        [[multiples(12)]],
    ),
    MessyFile(
        "months by name",
        text("patient_id,day", *(f'{each},"{("March", "April")[each % 2]} {1 + each % 28}, 2024"' for each in PERSONS)),
        (),
        "SELECT COUNT(*) AS n FROM t WHERE day >= DATE '2024-04-01'",
        [[60]],
    ),
    MessyFile(
        "words in mixed case and with spaces",
        text("patient_id,sex", *(f"{each},{('f', 'F', ' Female', 'MALE ')[each % 4]}" for each in PERSONS)),
        ("--column", "sex=text female,male case lower trim map f:female"),
        "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex",
        [["female", 90], ["male", 30]],
    ),
    MessyFile(
        "NA of R, in words and in numbers",
        text(
            '"patient_id","ward","score"',
            *(
                f"{each},{('NA', chr(34) + 'A' + chr(34))[each % 3 > 0]},{('NA', each)[each % 4 > 0]}"
                for each in PERSONS
            ),
        ),
        ("--nulls", "NA", "--column", "ward=text A,B", "--column", "score=integer 0 200"),
        "SELECT COUNT(*) AS n, COUNT(ward) AS wards, SUM(score) AS total FROM t",
        [[120, 120 - multiples(3), sum(each for each in PERSONS if each % 4)]],
    ),
    MessyFile(
        "\\N of MySQL, between tabs",
        text("patient_id\tward\tcost", *(f"{each}\t{(chr(92) + 'N', 'A')[each % 5 > 0]}\t{each}" for each in PERSONS)),
        ("--nulls", "\\N", "--column", "ward=text A,B"),
        "SELECT COUNT(ward) AS n FROM t",
        [[120 - multiples(5)]],
        "tsv",
    ),
    MessyFile(
        "numbers in quotes",
        text('"patient_id","age"', *(f'"{each}","{20 + each % 50}"' for each in PERSONS)),
        (),
        "SELECT SUM(age) AS total FROM t",
        [[sum(20 + each % 50 for each in PERSONS)]],
    ),
    MessyFile(
        "UTF-16 with semicolons and truths in letters",
        text("patient_id;fumeur", *(f"{each};{'ON'[each % 3 > 0]}" for each in PERSONS), encoding="utf-16"),
        (),
        "SELECT COUNT(*) AS n FROM t WHERE fumeur",
        [[multiples(3)]],
    ),
    MessyFile(
        "a SQLite database with days as texts",
        sqlite_days,
        (),
        "SELECT COUNT(*) AS n FROM visits WHERE day < DATE '2024-02-01' AND seen >= DATE '2023-03-01'",
        [[multiples(12)]],
        "sqlite",
    ),
)


@pytest.mark.parametrize("messy", MESSY_FILES, ids=lambda messy: messy.name)
def test_a_messy_file_is_answered_rightly(tmp_path: Path, messy: MessyFile) -> None:
    file, policy = tmp_path / f"t.{messy.ending}", tmp_path / "policy.toml"
    messy.write(file)
    done = run("init", file, "-o", policy, "--epsilon", "3", "--max-rows", "1", "--yes", *messy.flags)
    assert done.exit_code == 0, done.output
    asked = run("query", policy, messy.question, "--epsilon", "1", "--json")
    assert asked.exit_code == 0, asked.output
    answer = json.loads(asked.stdout)
    assert sorted(map(list, answer["rows"])) == messy.answer


@pytest.mark.parametrize(
    ("lines", "place", "fix"),
    [
        (("Patient,,Visit", "id,age,cost", *(f"{each},{each},{each}" for each in range(9))), "line 2", "delete one of"),
        (("id,age,cost", ",years,EUR", *(f"{each},{each},{each}" for each in range(9))), "line 2", "delete one of"),
        (("Report of 2024", "id,age,cost", *(f"{each},{each},{each}" for each in range(9))), "line 1", "lines above"),
        (("Report of 2024", "id;age;cost", *(f"{each};{each};{each}" for each in range(9))), "line 1", "lines above"),
        (("Report of 2024", "id\tage", *(f"{each}\t{each}" for each in range(9))), "line 1", "lines above"),
        (("Report,,", "id,word,cost", *(f"{each},{each},{each}" for each in range(9))), "line 1", "delete the title"),
    ],
)
def test_two_lines_of_names_are_refused_with_a_reason(
    tmp_path: Path, lines: tuple[str, ...], place: str, fix: str
) -> None:
    file = tmp_path / "t.csv"
    text(*lines)(file)
    done = run("init", file, "-o", tmp_path / "policy.toml", "--epsilon", "3", "--id", "row", "--yes")
    assert done.exit_code == 1
    assert "a text file must begin with one line of column names" in done.stderr
    assert f"{file}, {place}" in done.stderr
    assert fix in done.stderr
    assert not (tmp_path / "policy.toml").exists()


def draft(file: Path, *flags: str) -> tuple[str, str]:
    """The policy that --yes writes, and what is printed; the policy is removed again."""
    policy = file.with_name("policy.toml")
    done = run("init", file, "-o", policy, "--epsilon", "3", "--yes", *flags)
    assert done.exit_code == 0, done.output
    written = policy.read_text()
    policy.unlink()
    return written, done.output


COLUMNS = {
    "day": (lambda each: f"{1 + each % 28:02}.03.2024", "2024-03-01"),
    "price": (lambda each: f"{each},5", "1.234,5"),
    "age": (lambda each: str(20 + each), "unknown"),
    "zip": (lambda each: str(10_000 + each), "01234"),
    "grams": (lambda each: str(each), "1.5"),
    "seen": (lambda each: f"2024-03-{1 + each % 28:02}", "2024-03-01 12:30:00"),
    "ward": (lambda each: "AB"[each % 2], "NA"),
    "smokes": (lambda each: "YN"[each % 2], "y"),
}


def test_no_single_row_decides_what_yes_writes(tmp_path: Path) -> None:
    """Two files that differ in one row, with an odd cell in every column, have one draft, and one text is printed."""
    rows = [";".join([str(each), *(usual(each) for usual, _ in COLUMNS.values())]) for each in range(200)]
    odd_row = ";".join(["200", *(odd for _, odd in COLUMNS.values())])
    drafts = []
    for more in ([], [odd_row]):
        text(";".join(["person_id", *COLUMNS]), *rows, *more)(tmp_path / "t.csv")
        drafts.append(draft(tmp_path / "t.csv"))
    assert drafts[0] == drafts[1]
    for rule in ('format = "%d.%m.%Y"', 'decimal = ","', 'age = { type = "integer"', 'true = ["Y", "y"]'):
        assert rule in drafts[0][0]


TYPES = {
    "number": ("7", "1.5", ("integer", "real")),
    "day": ("2024-03-01", "2024-03-01 12:30", ("date", "timestamp")),
    "code": ("77", "07", ("integer", "text")),
}
"""By column: the cell of most rows, an odd cell, and the types that either decides."""


@pytest.mark.parametrize(("rows", "odd_rows", "decides"), [(400, 20, 0), (400, 21, 1), (20, 1, 0), (20, 2, 1)])
def test_a_type_is_decided_by_more_than_one_cell_of_20(rows: int, odd_rows: int, decides: int, tmp_path: Path) -> None:
    columns = [[odd] * odd_rows + [usual] * (rows - odd_rows) for usual, odd, _ in TYPES.values()]
    lines = (",".join([str(row), *cells]) for row, cells in enumerate(zip(*columns, strict=True)))
    text(",".join(["person_id", *TYPES]), *lines)(tmp_path / "t.csv")
    written, _ = draft(tmp_path / "t.csv")
    for name, (_, _, types) in TYPES.items():
        assert f'{name} = {{ type = "{types[decides]}"' in written, name


def test_cells_that_the_owner_calls_missing_decide_no_type(tmp_path: Path) -> None:
    rows = (f"{row},{'unknown' if row % 3 else row}" for row in range(90))
    text("person_id,x", *rows)(tmp_path / "t.csv")
    assert 'x = { type = "text"' in draft(tmp_path / "t.csv")[0]
    for flag in ("unknown", "t=unknown"):
        written, _ = draft(tmp_path / "t.csv", "--nulls", flag)
        assert 'x = { type = "integer"' in written
        assert 'nulls = ["unknown"]' in written


def test_texts_that_keep_numbers_from_being_a_number_are_named(tmp_path: Path) -> None:
    cells = ["k.A." if row % 17 == 0 else str(20 + row % 60) for row in range(400)]
    rare = ["Anna" if row == 9 else cell for row, cell in enumerate(cells)]
    rows = [f"{row},{cell},{other}" for row, (cell, other) in enumerate(zip(cells, rare, strict=True))]
    text("person_id,age,rare", *rows)(tmp_path / "t.csv")
    written, printed = draft(tmp_path / "t.csv")
    assert 'age = { type = "text"' in written
    assert "numbers except 'k.A.'. If these mean missing values, add --nulls k.A." in printed
    assert printed.count("numbers except") == 1
    assert "Anna" not in printed  # a text of one row is not shown
    written, printed = draft(tmp_path / "t.csv", "--nulls", "k.A.")
    assert 'age = { type = "integer"' in written
    assert "numbers except" not in printed


def test_a_listed_value_may_have_a_comma_a_quote_or_the_name_of_a_rule(tmp_path: Path) -> None:
    text("person_id,x", "1,a")(tmp_path / "t.csv")
    typed_values = 'text a, "b, or c" ,"5"" pipe","no case" case lower'
    written, _ = draft(tmp_path / "t.csv", "--column", f"x={typed_values}")
    assert 'x = { type = "text", values = ["a", "b, or c", "5\\" pipe", "no case"], case = "lower" }' in written


def test_an_outer_range_is_typed_after_the_bounds(tmp_path: Path) -> None:
    text("person_id,x", "1,5")(tmp_path / "t.csv")
    written, _ = draft(tmp_path / "t.csv", "--column", "x=real 0 10 possible -5 100.5")
    assert 'x = { type = "real", bounds = [0, 10], possible = [-5, 100.5] }' in written
    done = run("init", tmp_path / "t.csv", "-o", tmp_path / "p.toml", "--epsilon", "3", "--yes",
               "--column", "x=real 0 10 possible 1 100")  # fmt: skip
    assert done.exit_code == 1
    assert "a range that contains the bounds 0…10" in done.stderr


LETTERS = [f"{row},{'ab'[row % 2]},{row % 7}" for row in range(60)]


@pytest.mark.parametrize("closing", [None, 50])
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_quote_that_is_not_closed_is_refused_with_its_line(
    closing: int | None, separator: str, tmp_path: Path
) -> None:
    """The rows after it would be one cell: to the end of the file, or to the next quote."""
    rows = list(LETTERS)
    rows[40] = '40,"a,5'
    if closing is not None:
        rows[closing] = f'{closing},"a",5'
    text(*(row.replace(",", separator) for row in ("person_id,word,x", *rows)))(tmp_path / "t.csv")
    done = run("init", tmp_path / "t.csv", "-o", tmp_path / "policy.toml", "--epsilon", "3", "--yes")
    assert done.exit_code == 1
    assert f"spans lines 42 to {61 if closing is None else closing + 2}," in done.stderr
    assert f"{tmp_path / 't.csv'}, line 42" in done.stderr
    assert "close the quote there" in done.stderr
    assert not (tmp_path / "policy.toml").exists()
    assert not list((tmp_path / "policy.copies").glob("*"))


def test_a_note_of_several_lines_is_a_cell(tmp_path: Path) -> None:
    rows = [*LETTERS, '60,"first, of all\nsecond\n\nthird, or last\n",5']
    text("person_id,word,x", *rows)(tmp_path / "t.csv")
    draft(tmp_path / "t.csv")


SMALL_PAIRS = {
    "the day of one row is above 12": ("13/02/2024", "03/02/2024", "03/02/2024", 19),
    "two rows decide": ("13/02/2024", "03/02/2024", "03/02/2024", 18),
    "one truth": ("N", "Y", "Y", 19),
    "one number with thousands": ("1.234,5", "12,5", "12,5", 19),
    "one number with decimals": ("12,5", "12", "12", 19),
    "one number that has two readings": ("1,234", "12,5", "12,5", 19),
}
"""An odd cell, the cell in its place in the other file, the cell of most rows and their number; the others are odd."""


def test_of_20_rows_one_decides_nothing_that_yes_writes(tmp_path: Path) -> None:
    """Two files of 20 rows that differ in one of them have one draft."""
    drafts = []
    for is_odd in (True, False):
        columns = [
            [odd if is_odd else even, *[usual] * count, *[odd] * (19 - count)]
            for odd, even, usual, count in SMALL_PAIRS.values()
        ]
        rows = (";".join([str(each), *cells]) for each, cells in enumerate(zip(*columns, strict=True)))
        text(";".join(["person_id", *SMALL_PAIRS]), *rows)(tmp_path / "t.csv")
        drafts.append(draft(tmp_path / "t.csv"))
    assert drafts[0] == drafts[1]


@pytest.mark.parametrize(
    ("odd", "usual", "rows", "least"),
    [
        pytest.param("13/02/2024", "03/04/2024", 100, 20, marks=pytest.mark.long),
        ("13/02/2024", "03/04/2024", 1000, 50),
        ("13/02/2024", "03/04/2024", 24, 13),  # with 12, the other order fits half of the cells
        ("N", "Y", 100, 20),
        ("N", "Y", 1000, 50),
        ("Y", "N", 20, 21),  # never
        ("12,5", "1,234", 100, 20),
    ],
)
def test_a_rule_is_certain_from_as_many_deciding_cells_as_are_promised(
    odd: str, usual: str, rows: int, least: int, long: bool
) -> None:
    """Each number of deciding cells has a column of its own."""
    few, many = (least - 3, least + 1) if long else (least - 1, least)
    numbers = range(max(1, few), min(many, rows) + 1)
    proposals = propose_formats_for_texts({str(each): {usual: rows - each, odd: each} for each in numbers})
    for number in numbers:
        proposal = proposals.get(str(number))
        assert (proposal is not None and proposal.is_certain) is (number >= least), number


READINGS = {
    "day or month first": (["01/02/2024", "03/04/2024"], '"text"'),
    "day first": (["13/02/2024", "03/04/2024"], 'format = "%d/%m/%Y"'),
    "two digits of a year": (["13.02.24", "03.04.24"], '"text"'),
    "decimals or thousands": (["1,234", "5,678"], '"text"'),
    "decimals": (["1,25", "5,678"], 'decimal = ","'),
    "codes": (["01234", "99999"], '"text"'),
    "missing or not": (["NA", "A"], '"text"'),
}


def test_what_has_two_readings_is_left_to_the_owner(tmp_path: Path) -> None:
    rows = [";".join([str(each), *(cells[each % 2] for cells, _ in READINGS.values())]) for each in range(100)]
    text(";".join(["person_id", *READINGS]), *rows)(tmp_path / "t.csv")
    written, printed = draft(tmp_path / "t.csv")
    for name, (cells, declared) in READINGS.items():
        line = next(
            line for line in written.splitlines() if line.startswith(f'"{name}" = ' if " " in name else f"{name} = ")
        )
        assert declared in line, name
        assert not any(cell in printed for cell in cells if len(cell) > 2), name
    assert "nulls" not in written


def test_a_column_without_cells_is_read_as_nothing() -> None:
    assert propose_formats_for_texts({"x": {}, "y": {"Y": 1}}) == {}
    assert propose_formats_for_texts({"x": {}, "y": {"5": 1}})["y"].format.type is Type.INTEGER


def test_few_cells_decide_no_rule(tmp_path: Path) -> None:
    for number, certain in ((19, False), (20, True)):
        text("person_id;day", *(f"{each};{1 + each}.03.2024" for each in range(number)))(tmp_path / "t.csv")
        assert ("%d.%m.%Y" in draft(tmp_path / "t.csv")[0]) is certain


INTERVIEW = ("--id", "person_id", "--unit", "person", "--max-rows", "1", "--epsilon", "3", "--people", "100")


def typed(file: Path, *answers: str) -> tuple[str, str]:
    """An interview about how cells are written; Enter for the name."""
    policy = file.with_name("policy.toml")
    given = "\n".join(["yes", "yes", "", *answers, ""])
    done = run("init", file, "-o", policy, *INTERVIEW, given=given)
    assert done.exit_code == 0, done.output
    return policy.read_text(), done.output


def test_the_owner_sees_three_cells_and_what_is_lost_before_a_rule_is_written(tmp_path: Path) -> None:
    rows = [f"{each};{1 + each % 12:02}/{1 + each % 11:02}/2024" for each in range(98)]
    text("person_id;day", *rows, "98;soon", "99;later")(tmp_path / "t.csv")
    written, shown = typed(tmp_path / "t.csv", "-", "", "", "-")
    assert "01/01/2024 → 2024-01-01, 02/02/2024 → 2024-02-02, 03/03/2024 → 2024-03-03" in shown
    assert "2 of 100 cells fit no rule and would be missing" in shown
    assert "Only a few cells rule out format %m/%d/%Y: if that is how cells are written, type it." in shown
    assert 'day = { type = "date", format = "%d/%m/%Y" }' in written
    tmp_path.joinpath("policy.toml").unlink()
    other, _ = typed(tmp_path / "t.csv", "-", "", "format %d/%m/%y", "format %m/%d/%Y or %Y-%m-%d", "-")
    assert 'format = "%d/%m/%y"' in other  # a typed rule is taken as it is


def test_two_formats_in_one_column_are_proposed_to_the_owner_alone(tmp_path: Path) -> None:
    days = [f"{1 + each % 28}.03.2024" if each % 3 else f"2024-03-{1 + each % 28:02}" for each in range(90)]
    text("person_id;day", *(f"{each};{day}" for each, day in enumerate(days)))(tmp_path / "t.csv")
    assert 'day = { type = "text" }' in draft(tmp_path / "t.csv")[0]
    written, shown = typed(tmp_path / "t.csv", "-", "", "", "-")
    assert "2024-03-01 → 2024-03-01, 2.03.2024 → 2024-03-02" in shown
    assert 'day = { type = "date", format = ["%d.%m.%Y", "%Y-%m-%d"] }' in written


def test_markers_and_spellings_are_proposed_to_the_owner(tmp_path: Path) -> None:
    cells = ("NA", "Rome ", "ROME", "Oslo")
    text("person_id;city", *(f"{each};{cells[each % 4]}" for each in range(80)))(tmp_path / "t.csv")
    written, shown = typed(tmp_path / "t.csv", "", "-", "text", "Rome,Oslo", "")
    assert "cells of t that look missing are NA; 20 of the 80 cells that were sampled would be missing" in shown
    assert '"Rome " → Rome, ROME → Rome' in shown
    assert 'nulls = ["NA"]' in written
    assert 'case = "lower", trim = true, map = { rome = "Rome", oslo = "Oslo" }' in written
    tmp_path.joinpath("policy.toml").unlink()
    refused, _ = typed(tmp_path / "t.csv", "-", "-", "text", "Rome,Oslo", "-")
    assert "nulls" not in refused
    assert "case" not in refused


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        ("day=date format %d.%m", "the year (%Y or %y), the month (%m, %b or %B) and the day (%d)"),
        ("day=date format %q", "the directives are"),
        (
            "day=date 2024-01-01 2024-12-31 format %d.%m.%Y decimal ,",
            "column of type date: it is for columns of type integer or real",
        ),
        ("day=integer decimal ;", "a comma or a point"),
        ("day=integer thousands .", "different from the decimal separator"),
        ("day=integer decimal , decimal .", "appears twice: write it once"),
        ("day=boolean true Y false Y", 'a list that has no entry in common with "true"'),
        ("day=text case lower", "a text column without listed values"),
        (
            "day=text A,b case lower",
            "because the cells of this column are compared in that form",
        ),
        ("day=text a,b trim yes", "the rule 'trim' takes no value"),
        ("day=text a,b map F", "no colon: write pairs of a cell and a value, such as 'map F:female,M:male'"),
        ("day=text a,b map F:c", "a mapping to listed values of the column"),
        ("day=boolean maybe", "a boolean has no bounds and no values"),
        ("person_id=integer nulls NA", "could merge or split units"),
    ],
)
def test_a_wrong_rule_is_refused_by_name(tmp_path: Path, flag: str, rule: str) -> None:
    text("person_id,day", "1,2")(tmp_path / "t.csv")
    done = run("init", tmp_path / "t.csv", "-o", tmp_path / "p.toml", "--epsilon", "3", "--yes", "--column", flag)
    assert done.exit_code in (1, 2), done.output
    assert rule in " ".join(done.stderr.split())
    assert not (tmp_path / "p.toml").exists()


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        ("date", CellRules(format=("%d.%m.%Y", "%B %d, %Y"), nulls=("", "-", "NA"))),
        ("timestamp", CellRules(format=("%d/%m/%y %I:%M %p",), nulls=())),
        ("real", CellRules(decimal=",", thousands=" ", currency="R$")),
        ("integer", CellRules(thousands="'", nulls=("-999",))),
        ("boolean", CellRules(true=("Y", "Sí"), false=("N",))),
        ("text", CellRules(case="lower", trim=True, map=(("f", "female"), ("w", "female")), nulls=("?",))),
    ],
)
def test_rules_are_typed_as_they_are_shown(kind: str, rules: CellRules) -> None:
    domain = Domain(kind, values=("female",) if kind == "text" else None)
    values, typed_rules = split_bounds_and_rules(domain.type, f"female {format_rules(rules)}")
    assert values == "female"
    assert parse_rules(parse_rules_text(typed_rules), domain) == rules


def test_a_missing_cell_that_is_a_listed_value_is_asked_again(tmp_path: Path) -> None:
    """At the end of the interview it would be refused, and the saved answers would be refused again."""
    text("person_id;state", *(f"{each};{('NA', 'KH')[each % 2]}" for each in range(80)))(tmp_path / "t.csv")
    written, shown = typed(tmp_path / "t.csv", "", "-", "text", "NA,KH", "KH")
    assert '"NA" means a missing value in t: leave it out of the values' in shown
    assert 'state = { type = "text", values = ["KH"] }' in written


def test_the_decimal_separator_of_the_owner_is_not_read_into_ids(tmp_path: Path) -> None:
    text("person_id;cost;age", "1;2,5;3", "2;3,5;4")(tmp_path / "t.csv")
    flags = ("--decimal", ",", "--column", "person_id=integer", "--column", "cost=real 0 9")
    for consent in ("--read-rows", "--no-read-rows"):
        written, _ = draft(tmp_path / "t.csv", *flags, consent)
        assert 'cost = { type = "real", bounds = [0, 9], decimal = "," }' in written
        assert 'person_id = { type = "integer" }' in written


def test_words_of_missing_cells_are_typed_with_quotes_where_they_mean_something(tmp_path: Path) -> None:
    text("person_id,x,y", *("1,-,NA", '2,"",NA', "3,NA,NA"))(tmp_path / "t.csv")
    flags = ("--nulls", '"-","",NA', "--column", "y=text NA,B nulls -")
    written, _ = draft(tmp_path / "t.csv", *flags)
    assert 'nulls = ["-", "", "NA"]' in written
    assert 'y = { type = "text", values = ["NA", "B"], nulls = [] }' in written
