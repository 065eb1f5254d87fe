"""``sfumato check``: valid or not, and what only the owner may know."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.tables import DATA
from sfumato.cli import main
from sfumato.server.settings import read_settings

POLICY = f"""
[unit]
name = "visitor"
budget = {{ epsilon = 1 }}
[tables.visits]
source = "{DATA / "visits" / "visits.csv"}"
id = "visitor"
max_rows = 2
[tables.visits.columns]
minutes = {{ type = "integer", bounds = [0, 60] }}
day = {{ values = [1, 2, 3, 4, 5, 6] }}
[tables.airlines]
source = "{DATA / "flights" / "airlines.parquet"}"
public = true
"""


def check(folder: Path, text: str, *more: str) -> Result:
    (folder / "policy.toml").write_text(text)
    return CliRunner().invoke(main, ["check", str(folder / "policy.toml"), *more])


@pytest.fixture
def _untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long reading takes is told by one test below: it is most of a check's own time."""
    monkeypatch.setattr("sfumato.curator.checking.time_typical_questions", lambda _: ())


@pytest.mark.usefixtures("_untimed")
def test_the_owner_is_told_what_limits_cost(tmp_path: Path) -> None:
    done = check(tmp_path, POLICY)
    assert done.exit_code == 0, done.output
    public, private, rest = done.output.split("PRIVATE: exact figures for the owner alone")
    assert "the policy is valid" in public
    for phrase in ("visits: the fingerprint of its rows is ", "2,850 rows", "units exceed this limit", "made NULL"):
        assert phrase in private
        assert phrase not in public + rest
    assert max(len(line) for line in done.output.splitlines()) <= 120


@pytest.mark.usefixtures("_untimed")
def test_one_unit_exceeds_and_two_exceed(tmp_path: Path) -> None:
    held = "who,x\n1,1\n1,2\n2,1\n"
    text = """[unit]
name = "person"
budget = { epsilon = 1 }
[tables.t]
source = "t.csv"
id = "who"
max_rows = 1
columns = { x = { type = "integer" } }
"""
    for rows, words in ((held, "1 unit exceeds this limit"), (held + "2,2\n", "2 units exceed this limit")):
        (tmp_path / "t.csv").write_text(rows)
        assert f"max_rows = 1: {words}, " in check(tmp_path, text).output


@pytest.mark.usefixtures("_untimed")
def test_losses_by_limit_and_advice_that_is_safe_to_share(tmp_path: Path) -> None:
    done = check(tmp_path, POLICY)
    public, private, _ = done.output.split("PRIVATE: exact figures for the owner alone")
    assert "SAFE TO SHARE" in public
    assert "max_rows 2 causes 50 % of this error; --limit rows=1 gives" in public
    header = next(line for line in private.splitlines() if line.startswith("  max_rows   "))
    assert header.split() == ["max_rows", "1", "2", "5", "10"]
    assert "rows beyond it" in private
    assert "groups by day" in private
    shared = check(tmp_path, POLICY, "--public").output
    assert public.split("SAFE")[1].strip() == shared.split("SAFE")[1].strip()


@pytest.mark.usefixtures("_untimed")
def test_a_column_that_loses_more_than_half_ends_with_an_error_unless_it_is_meant(tmp_path: Path) -> None:
    lossy = POLICY.replace("[1, 2, 3, 4, 5, 6]", "[7, 8]")
    done = check(tmp_path, lossy)
    assert done.exit_code == 1
    assert "% of the values of visits.day become NULL" in done.output
    assert "more than half is lost" in done.output
    assert check(tmp_path, lossy, "--lossy", "visits.day").exit_code == 0
    assert check(tmp_path, lossy, "--public").exit_code == 0  # what is public knows nothing of it
    assert check(tmp_path, lossy, "--public", "--lossy", "visits.day").exit_code == 2
    assert check(tmp_path, POLICY, "--lossy", "visits.days").exit_code == 1


def test_figures_are_written_nowhere(tmp_path: Path) -> None:
    done = check(tmp_path, POLICY)
    assert os.listdir(tmp_path) == ["policy.toml"]
    assert done.exit_code == 0


def test_only_what_is_public_on_request(tmp_path: Path) -> None:
    done = check(tmp_path, POLICY, "--public")
    assert done.exit_code == 0
    assert "PRIVATE" not in done.output
    assert "2,850" not in done.output
    assert done.output.count("content") == 1  # of the public table: a hash of private rows would test guesses of them


@pytest.mark.usefixtures("_untimed")
def test_exit_codes(tmp_path: Path) -> None:
    wrong = check(tmp_path, POLICY.replace("bounds", "bonds"))
    assert wrong.exit_code == 1
    assert "place: tables.visits.columns.minutes.bonds" in wrong.output
    assert "did you mean bounds?" in wrong.output
    missing = check(tmp_path, POLICY.replace("visits.csv", "none.csv"))
    assert missing.exit_code == 1
    assert "place: tables.visits.source" in missing.output
    assert CliRunner().invoke(main, ["check"]).exit_code == 2
    assert CliRunner().invoke(main, ["check", str(tmp_path / "none.toml")]).exit_code == 1


def test_help_is_enough() -> None:
    for command, words in {"check": ("PRIVATE", "Exit codes"), "init": ("never overwritten", "no row is read")}.items():
        done = CliRunner().invoke(main, [command, "--help"])
        assert all(word in done.output for word in words), done.output


def test_nothing_public_tells_two_private_files_apart(tmp_path: Path) -> None:
    """A hash of the rows would say whether a guess at all of them is right."""
    shown = []
    for minutes in (10, 11):
        (tmp_path / "visits.csv").write_text(f"visitor,day,minutes\n1,1,{minutes}\n")
        text = POLICY.replace(str(DATA / "visits" / "visits.csv"), str(tmp_path / "visits.csv"))
        shown.append(check(tmp_path, text, "--public").output)
    assert shown[0] == shown[1]


def test_the_owner_alone_is_told_which_line_is_not_one_record(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text('visitor,day,minutes\n1,1,10\n"2,1,10\n3,1,10\n')
    text = POLICY.replace(str(DATA / "visits" / "visits.csv"), str(tmp_path / "visits.csv"))
    told, public = check(tmp_path, text), check(tmp_path, text, "--public")
    assert told.exit_code == public.exit_code == 1
    assert "visits.csv: line 3 does not hold exactly one record" in told.output
    assert "line 3" not in public.output
    assert "each record of a CSV file must be one line" in public.output


def test_the_owner_alone_is_told_when_a_server_should_answer(tmp_path: Path) -> None:
    done = check(tmp_path, POLICY)
    public, private, rest = done.output.split("PRIVATE: exact figures for the owner alone")
    (suggested,) = re.findall(r"^  answer_after = (\d+)$", private, re.MULTILINE)
    assert int(suggested).bit_count() == 1
    assert "answer_after" not in public + rest
    assert "answer_after" not in check(tmp_path, POLICY, "--public").output
    settings = tmp_path / "server.toml"
    settings.write_text(f"answer_after = {suggested}\n")
    assert read_settings(settings).answer_after == int(suggested)


@pytest.mark.usefixtures("_untimed")
def test_advised_sql_quotes_names_that_need_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("person id,total cost\n1,2\n")
    text = """[unit]
name = "person"
budget = { epsilon = 1 }
[tables.t]
source = "t.csv"
id = "person id"
max_rows = 10
columns = { "total cost" = { type = "integer", bounds = [0, 100] } }
"""
    done = check(tmp_path, text, "--public")
    assert 'COUNT(DISTINCT "person id") gives' in done.output
    assert 'SUM(LEAST("total cost", 50)) gives' in done.output


@pytest.mark.usefixtures("_untimed")
def test_cells_outside_what_is_possible_are_counted_for_the_owner(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n5\n999\n20\nNA\n")
    text = """[unit]
name = "person"
budget = {{ epsilon = 1 }}
[tables.t]
source = "t.csv"
id = "row"
columns = {{ x = {{ type = "integer", bounds = [0, 10], possible = [-5, 100]{more} }} }}
"""
    assert "possible leaves 1 of 4 cells missing\n" in check(tmp_path, text.format(more="")).output
    done = check(tmp_path, text.format(more=', nulls = ["NA"]'))
    assert "nulls and possible leave 2 of 4 cells missing\n" in done.output
    assert 'missing if "NA"; missing if outside -5…100' in done.output
