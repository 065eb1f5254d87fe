"""Synthetic tables on the command line: bought once, drawn from for ever, and refused before anything is spent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyarrow import csv, parquet

import sfumato as sf
from cli.running import run
from covering_cases import covering

ROOT = Path(__file__).parent.parent.parent.parent
DATA, POLICY = ROOT / "tests/data/nist_ace/ma2019.csv", ROOT / "docs/tutorials/people.toml"
PRICE = ("--epsilon", "1", "--delta", "1e-9")
SYNOPSIS = Path(__file__).parent.parent.parent / "publish" / "people.sfu"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data, and a model of it that was bought."""
    found = tmp_path_factory.mktemp("people")
    for each in (DATA, POLICY):
        shutil.copy(each, found)
    files = "-o", found / "people.csv", "--model", found / "people.sfu"
    done = run("synthesize", found / "people.toml", "people", "--method", "mst", *PRICE, *files)
    assert done.exit_code == 0, done.output
    assert "n̂" in done.output
    assert "protects" in done.output
    return found


def test_rows_and_model_are_written(folder: Path) -> None:
    model = sf.synopsis(folder / "people.sfu")
    assert isinstance(model, sf.Synthetic)
    rows = csv.read_csv(folder / "people.csv")
    assert rows.num_rows == round(model.total)
    assert tuple(rows.column_names) == model.columns == ("AGEP", "SEX", "MSP", "PUMA", "EDU")
    young = [each for each in rows.to_pylist() if each["AGEP"] is not None and each["AGEP"] < 15]
    assert {each["MSP"] for each in young} <= {"N", None, ""}


def test_rows_are_drawn_again_for_nothing(folder: Path) -> None:
    (folder / "away").mkdir()
    shutil.copy(folder / "people.sfu", folder / "away")  # no data, no ledger
    done = run("sample", folder / "away/people.sfu", "--rows", "3e5", "-o", folder / "away/rows.parquet")
    assert done.exit_code == 0, done.output
    assert "nothing was charged" in done.output
    assert parquet.read_metadata(folder / "away/rows.parquet").num_rows == 300_000
    assert run("sample", folder / "people.sfu", "-o", folder / "away/rows.csv").exit_code == 0


def test_rows_are_drawn_under_conditions_with_a_seed_and_a_report(folder: Path) -> None:
    options = ("--rows", "200", "--given", "SEX=1", "--given", "AGEP=30", "--given", "AGEP=40", "--seed", "7")
    for name in ("given.csv", "again.csv"):
        done = run("sample", folder / "people.sfu", *options, "--constraint", "MSP <> 'N'", "-o", folder / name)
        assert done.exit_code == 0, done.output
    assert "SEX = 1; AGEP = 30 or 40; MSP <> 'N'" in done.output
    rows = csv.read_csv(folder / "given.csv").to_pandas()
    assert (set(rows.SEX), set(rows.AGEP)) == ({1}, {30, 40})
    assert "N" not in set(rows.MSP)
    assert (folder / "given.csv").read_bytes() == (folder / "again.csv").read_bytes()
    for wrong in (("--given", "SEX"), ("--given", "SEX=9"), ("--constraint", "SEX >"), ("--seed", "-1")):
        done = run("sample", folder / "people.sfu", *wrong, "-o", folder / "wrong.csv")
        assert done.exit_code in (1, 2)
        assert not (folder / "wrong.csv").exists()


def test_a_card_is_written_without_data(folder: Path) -> None:
    done = run("synopsis", "card", folder / "people.sfu", "--licence", "CC0", "-o", folder / "card.md")
    assert done.exit_code == 0, done.output
    assert "CC0" in (folder / "card.md").read_text(encoding="utf-8")
    for file, output in (("people.sfu", "card.txt"), (SYNOPSIS, "card.html"), ("people.sfu", "none/card.html")):
        done = run("synopsis", "card", folder / file, "-o", folder / output)
        assert done.exit_code in (1, 2)
        assert "fix:" in done.stderr or "ends in" in done.stderr


def test_a_model_is_asked_shown_and_verified(folder: Path) -> None:
    file = folder / "people.sfu"
    question = "SELECT SEX, COUNT(*) AS n FROM people GROUP BY SEX"
    answer = sf.Answer.from_json(run("ask", file, question, "--json").output)
    assert answer.basis == {"n": ("measured", "measured")}
    assert "by mst" in run("synopsis", "show", file).output
    exported = folder / "lines.json"
    assert run("ledger", "export", folder / "sfumato.ledger", exported).exit_code == 0
    done = run("synopsis", "verify", file, "--ledger", exported)
    assert done.exit_code == 0, done.output
    assert "line" in done.output
    done = run("synopsis", "marginal", file, "SEX")
    assert done.exit_code == 2
    assert "fix:" in done.stderr


def test_looking_ahead_spends_nothing(tmp_path: Path) -> None:
    for each in (DATA, POLICY):
        shutil.copy(each, tmp_path)
    own = tmp_path / "people.toml", "people", "--method", "independent"
    explained = run("synthesize", *own, "--explain", "--json", *PRICE)
    assert json.loads(explained.output)
    done = run("synthesize", *own, *PRICE, "--preview")
    assert done.exit_code == 0, done.output
    assert "nothing was spent" in done.output
    assert "no file was written" in done.output
    assert "promise    none" in done.output
    earlier_name = run("synthesize", *own, *PRICE, "--dry-run")
    assert earlier_name.exit_code == 0, earlier_name.output
    assert "this option is called --preview here; in other commands, --dry-run prints" in earlier_name.stderr
    assert "This was a preview with invented rows" in earlier_name.stdout
    assert "--dry-run" not in run("synthesize", "--help").output
    forecast = run("synthesize", *own, *PRICE, "--forecast")
    assert forecast.exit_code == 0, forecast.output
    assert "MiB" in forecast.output
    with sf.open(tmp_path / "people.toml") as people:
        assert not [each for each in people.history() if each.kind == "step"]


def test_one_row_of_each_unit_is_asked_for_by_an_order(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("who,day\n1,1\n1,2\n2,2\n")
    (tmp_path / "visits.toml").write_text(
        '[unit]\nname = "visitor"\nbudget = { epsilon = 3 }\n[tables.visits]\nsource = "visits.csv"\nid = "who"\n'
        "max_rows = 5\ncolumns = { day = { values = [1, 2] } }\n"
    )
    done = run("synthesize", tmp_path / "visits.toml", "visits", "--order", "day DESC", "--epsilon", "1", "--explain")
    assert done.exit_code == 0, done.output
    assert "ORDER BY day DESC" in done.output
    assert "≤ 1 row, " in done.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        ((*PRICE, "--rho", "1", "-o", "x.csv"), 2),
        (PRICE, 2),
        ((*PRICE, "-o", "x.xls"), 2),
        ((*PRICE, "-o", "nowhere/x.csv"), 2),
        ((*PRICE, "--model", "nowhere/x.sfu"), 2),
        ((*PRICE, "-o", "x.csv", "--draw", "0"), 2),
        ((*PRICE, "-o", "x.csv", "--weight", "SEX"), 2),
        ((*PRICE, "-o", "x.csv", "--weight", "HEIGHT=3"), 2),
        ((*PRICE, "-o", "x.csv", "--columns", "HEIGHT"), 1),
        ((*PRICE, "-o", "x.csv", "--ways", "2", "--of", "SEX"), 2),
        ((*PRICE, "-o", "x.csv", "--order", "AGEP"), 2),
        (("--forecast",), 2),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(
    tmp_path: Path, arguments: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in (DATA, POLICY):
        shutil.copy(each, tmp_path)
    done = run("synthesize", "people.toml", "people", *arguments)
    assert done.exit_code == code, done.output
    if (tmp_path / "sfumato.ledger").exists():
        with sf.open(tmp_path / "people.toml") as people:
            assert not [each for each in people.history() if each.kind == "step"]


READ_FILES = ("ma2019.csv", "../here/ma2019.csv", "link.csv", "people.toml", "sfumato.ledger", "sfumato.ledger.anchor")


@covering({"target": READ_FILES, "command": ["synthesize", "publish"]})
def test_nothing_is_written_over_what_is_read(tmp_path: Path, command: str, target: str) -> None:
    """Rows over the private table would lose it, a model over the ledger what was spent."""
    here = tmp_path / "here"
    here.mkdir()
    for each in (DATA, POLICY):
        shutil.copy(each, here)
    (here / "link.csv").symlink_to(here / "ma2019.csv")
    rows = command == "synthesize" and target.endswith(".csv")
    method = ("--method", "independent") if command == "synthesize" else ()
    option = "--model" if command == "synthesize" and not rows else "-o"
    done = run(command, here / "people.toml", "people", *method, *PRICE, option, here / target)
    assert done.exit_code == 2, done.output
    assert "write to another file" in done.stderr
    for each in (DATA, POLICY):
        assert (here / each.name).read_bytes() == each.read_bytes()
    with sf.open(here / "people.toml") as people:
        assert not [each for each in people.history() if each.kind in ("step", "charge")]


def test_files_that_match_a_glob_of_the_policy_are_not_written(tmp_path: Path) -> None:
    """The next question would read drawn rows as people."""
    parquet.write_table(csv.read_csv(DATA), tmp_path / "people-1.parquet")
    (tmp_path / "people.toml").write_text(POLICY.read_text().replace("ma2019.csv", "people-*.parquet"))
    own = tmp_path / "people.toml", "people", "--method", "independent", *PRICE
    done = run("synthesize", *own, "-o", tmp_path / "people-2.parquet")
    assert done.exit_code == 2
    assert "holds the data of people" in done.stderr
    same = tmp_path / "rows.csv"
    assert "twice" in run("synthesize", *own, "-o", same, "--model", same).stderr
    assert not same.exists()


@pytest.mark.parametrize(
    ("file", "rows", "output"),
    [("people.sfu", "0", "x.csv"), ("people.sfu", "many", "x.csv"), ("people.sfu", "10", "x.xls"),
     ("people.toml", "10", "x.csv"), (SYNOPSIS, "10", "x.csv"), ("nothing.sfu", "10", "x.csv")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(folder: Path, file: str, rows: str, output: str) -> None:
    done = run("sample", folder / file, "--rows", rows, "-o", folder / output)
    assert done.exit_code in (1, 2)
    assert "fix:" in done.stderr
    assert not (folder / output).exists()
