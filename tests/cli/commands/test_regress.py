"""Regressions and components on the command line, generated from their kinds."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from inference.rows import people
from sfumato.cli import main
from sfumato.inference.components import ComponentsAnswer
from sfumato.inference.regression_answers import LogisticAnswer, RegressionAnswer

POLICY = """
[unit]
name = "person"
budget = { epsilon = 4, delta = 1e-6 }
size = 500
[tables.people]
source = "people.csv"
id = "row"
[tables.people.columns]
age = { type = "integer", bounds = [18, 80] }
hours = { type = "integer", bounds = [0, 60] }
cost = { type = "real", bounds = [0, 5] }
sex = { values = ["F", "M"] }
"""


def run(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(main, [words[0], str(folder / "people.toml"), *words[1:]])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_table_is_explained_bought_shown_and_written(tmp_path: Path) -> None:
    people(500).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(POLICY)
    asked = ["people", "--formula", "hours ~ age + sex", "--epsilon", "1", "--delta", "1e-7"]
    assert "Frobenius" in run(tmp_path, "regress", *asked, "--explain")
    shown = run(tmp_path, "regress", *asked)
    assert "hours ~ age + sex; " in shown
    assert "intercept" in shown
    written = run(tmp_path, "regress", *asked, "--json")
    answer = RegressionAnswer.from_json(json.dumps(json.loads(written)))
    assert answer.receipt.free
    named = ["people", "--target", "hours", "--on", "age", "--on", "sex", "--epsilon", "1", "--delta", "1e-7"]
    assert "free" in run(tmp_path, "regress", *named)
    robust = run(tmp_path, "regress", *asked, "--robust", "--json")
    assert RegressionAnswer.from_json(robust).residual_clamp > 0
    turned = run(
        tmp_path, "components", "people", "age", "hours", "cost", "--epsilon", "1", "--delta", "1e-7", "--json"
    )
    assert ComponentsAnswer.from_json(turned).column("component") == [1, 2, 3]


def test_odds_are_explained_bought_and_written(tmp_path: Path) -> None:
    people(500).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(POLICY)
    asked = ["people", "--formula", "sex ~ age", "--event", "F", "--epsilon", "1", "--delta", "1e-7"]
    assert "gradient" in run(tmp_path, "logistic", *asked, "--explain")
    answer = LogisticAnswer.from_json(run(tmp_path, "logistic", *asked, "--json"))
    assert answer.event == "sex[F]"
    assert answer.column("term") == ["intercept", "age"]


def test_a_picture_is_written_and_its_path_is_checked_before_the_charge(tmp_path: Path) -> None:
    people(500).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(POLICY)
    asked = ["people", "hours", "sex", "--event-is", "F", "--epsilon", "1"]
    picture = tmp_path / "curve.svg"
    run(tmp_path, "survival", *asked, "--plot", str(picture))
    assert "<svg" in picture.read_text()
    turned = tmp_path / "turned.svg"
    run(tmp_path, "components", "people", "age", "cost", "--epsilon", "1", "--delta", "1e-7", "--plot", str(turned))
    assert "<svg" in turned.read_text()
    spent = run(tmp_path, "budget", "--json")
    for refused in (["--plot", str(tmp_path / "curve.odd")], ["--plot", str(picture), "--explain"]):
        words = ["survival", str(tmp_path / "people.toml"), *asked[:-1], "2", *refused]
        assert CliRunner().invoke(main, words).exit_code
    assert run(tmp_path, "budget", "--json") == spent
