"""``sfumato quality``: for the owner's eyes, on screen unless a private file is named."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from cli.running import run

POLICY = """
[unit]
name = "person"
budget = { epsilon = 1 }

[tables.people]
source = "real.csv"
id = "row"

[tables.people.columns]
sex = { values = ["f", "m"] }
age = { type = "integer", bounds = [0, 99], bins = [0, 30, 60, 99] }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pd.DataFrame({"sex": list("ffmm") * 10, "age": range(20, 60)}).to_csv(tmp_path / "real.csv", index=False)
    pd.DataFrame({"age": range(25, 65), "sex": list("fmmm") * 10}).to_csv(tmp_path / "synthetic.csv", index=False)
    return tmp_path


def test_it_prints_the_figures_under_a_heading(folder: Path) -> None:
    done = run("quality", folder / "real.csv", folder / "synthetic.csv")
    assert done.exit_code == 0
    assert done.output.startswith("NOT FOR PUBLICATION")
    assert "k-marginal score" in done.output
    assert [each.name for each in sorted(folder.iterdir())] == ["real.csv", "synthetic.csv"]


def test_json_has_the_heading_too(folder: Path) -> None:
    done = run(
        "quality", folder / "real.csv", folder / "synthetic.csv", "--json", "--columns", "sex, age", "--bins", "4"
    )
    found = json.loads(done.output)
    assert found["heading"].startswith("NOT FOR PUBLICATION")
    assert found["ways"][0]["compared"] == 2


def test_the_private_file_is_for_its_owner_alone(folder: Path) -> None:
    page = folder / "out.html"
    done = run("quality", folder / "real.csv", folder / "synthetic.csv", "--target", "sex", "--private-file", page)
    assert done.exit_code == 0
    assert "k-marginal" not in done.output
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
    assert "AUC of sex" in page.read_text()


def test_a_policy_gives_the_cells(folder: Path) -> None:
    (folder / "people.toml").write_text(POLICY)
    done = run("quality", folder / "real.csv", folder / "synthetic.csv", "--policy", folder / "people.toml")
    assert "those that the policy declares for people" in done.output
    assert not (folder / "sfumato.ledger").exists()
    other = run(
        "quality", folder / "real.csv", folder / "synthetic.csv", "--policy", folder / "people.toml", "--table", "x"
    )
    assert other.exit_code != 0
    assert "one of the private tables: people" in other.output


def test_refusals_say_rule_place_and_fix(folder: Path) -> None:
    done = run("quality", folder / "real.csv", folder / "nowhere.csv")
    assert done.exit_code != 0
    assert "there is no such file" in done.output
    assert "nowhere.csv" in done.output
    both = run("quality", folder / "real.csv", folder / "synthetic.csv", "--json", "--private-file", folder / "o.html")
    assert "not both" in both.output
    over = run("quality", folder / "real.csv", folder / "synthetic.csv", "--private-file", folder / "real.csv")
    assert over.exit_code == 2
    assert "one of the tables" in over.stderr
    nowhere = run("quality", folder / "real.csv", folder / "synthetic.csv", "--private-file", folder / "no" / "o.html")
    assert "there is no folder" in nowhere.output


def test_the_real_table_may_lie_in_a_database(folder: Path) -> None:
    """It asked for a line of a policy file, where none was given."""
    with duckdb.connect(folder / "real.duckdb") as database:
        database.execute(f"CREATE TABLE people AS FROM '{folder / 'real.csv'}'")
    (folder / "clinic.toml").write_text(POLICY.replace('"real.csv"', '"real.duckdb"\nrelation = "people"'))
    shown = run("quality", folder / "real.duckdb", folder / "synthetic.csv")
    assert shown.exit_code == 0, shown.output
    assert shown.output == run("quality", folder / "real.csv", folder / "synthetic.csv").output
    with duckdb.connect(folder / "real.duckdb") as database:
        database.execute("CREATE TABLE other AS SELECT 1 AS sex")
    several = run("quality", folder / "real.duckdb", folder / "synthetic.csv")
    assert several.exit_code == 1
    assert "other, people" in several.stderr
    assert "relation =" not in several.stderr
    by_policy = ("--policy", folder / "clinic.toml")
    named = run("quality", folder / "real.duckdb", folder / "synthetic.csv", *by_policy)
    assert named.exit_code == 0, named.output
    assert "those that the policy declares for people" in named.output
