"""``sfumato publish``: what it prints, what it writes, what it spends, how it refuses."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from cli.running import run
from sfumato.curator import history

POLICY = """
[unit]
name = "person"
budget = { epsilon = 3.0, delta = 1e-6 }
[tables.people]
source = "people.csv"
id = "who"
max_rows = 2
[tables.people.columns]
sex = { values = ["f", "m"] }
age = { type = "integer", bounds = [0, 110], bins = [0, 18, 30, 65, 110] }
note = { type = "text" }
"""
PRICE = ("--epsilon", "1", "--delta", "1e-9")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("who,sex,age,note\n1,f,17,a\n1,f,18,b\n2,m,40,c\n3,x,,d\n")
    (tmp_path / "clinic.toml").write_text(POLICY)
    return tmp_path / "clinic.toml"


def charges(policy: Path) -> int:
    return sum(line.kind == "charge" for line in history(policy))


def test_marginals_are_published_to_a_file(people: Path) -> None:
    file = people.with_name("people.sfu")
    done = run("publish", people, "people", "--ways", "2", *PRICE, "-o", file)
    assert done.exit_code == 0, done.stderr
    assert str(file) in done.stdout
    assert "ε = 1, δ = 1e-09" in done.stdout
    assert charges(people) == 1
    again = run("publish", people, "people", "--ways", "2", *PRICE, "-o", file, "--json")
    assert json.loads(again.stdout)["free"]
    assert charges(people) == 1


def test_before_spending_it_says_what_it_costs(people: Path) -> None:
    said = run("publish", people, "people", *PRICE, "--dry-run")
    assert "Nothing was spent" in said.stdout
    assert "±" in said.stdout
    fewer = run("publish", people, "people", *PRICE, "--rows", "1", "--dry-run").stdout
    for told, rows in ((said.stdout, "2 rows"), (fewer, "1 row")):
        assert f"counted ≤ {rows} of one unit, in all groups together; ± covers the noise, not rows beyond" in told
    found = run(
        "publish", people, "people", "--of", "sex,age", "--within", "30", "--delta", "1e-9", "--dry-run", "--json"
    )
    (width,) = json.loads(found.stdout)["widths"]
    assert 29 < float(width) <= 30
    plan = run("publish", people, "people", "--of", "sex, age", "--of", "sex", "--explain")
    assert "of the price" in plan.stdout
    assert charges(people) == 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--epsilon", "1"), "-o people.sfu"),
        (("--epsilon", "1", "-o", "nowhere/people.sfu"), "no folder"),
        (("-o", "people.sfu"), "name one price"),
        (("--epsilon", "1", "-o", "/proc/people.sfu"), "cannot be written"),
        (("--epsilon", "1", "--for", "sex", "-o", "people.sfu"), "--within"),
        (("--of", "sex", "--of", "age", "--weights", "1,0", "--epsilon", "1", "-o", "people.sfu"), "> 0"),
        (("--epsilon", "1", "--rho", "1", "-o", "people.sfu"), "name one price"),
        (("--ways", "2", "--of", "sex", "--epsilon", "1", "-o", "people.sfu"), "not both"),
        (("--of", "sex,who", "--epsilon", "1", "-o", "people.sfu"), "identifies the unit of each row"),
        (("--of", "sex,note", "--epsilon", "1", "-o", "people.sfu"), "cannot be counted by values or bins"),
        (("--rows", "3", "--epsilon", "1", "-o", "people.sfu"), "can only lower the policy's limits"),
    ],
    ids=str,
)
def test_mistakes_cost_nothing(
    people: Path, asked: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(people.parent)
    done = run("publish", people, "people", *asked)
    assert done.exit_code != 0
    assert told in done.stderr
    assert charges(people) == 0
    assert not people.with_name("people.sfu").exists()


def test_weights_and_confidence_change_what_is_forecast(people: Path) -> None:
    asked = ("publish", people, "people", "--of", "sex", "--of", "age", *PRICE, "--dry-run", "--json")
    plain, weighted, surer = (
        json.loads(run(*asked, *more).stdout)["widths"]
        for more in ((), ("--weights", "9,1"), ("--confidence", "0.999"))
    )
    assert weighted[0] < plain[0] < surer[0]
    assert plain[1] < weighted[1]


def test_what_was_paid_for_is_free_after_the_file_could_not_be_written(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("publish", people, "people", *PRICE, "-o", people.with_name("people.sfu"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", full)
        lost = run(*asked)
    assert lost.exit_code == 74
    assert "publish again, which is free: the marginals are stored" in lost.stderr
    assert run(*asked).exit_code == 0
    assert charges(people) == 1
    assert sorted(each.suffix for each in people.parent.iterdir() if "people" in each.name) == [".csv", ".sfu"]
