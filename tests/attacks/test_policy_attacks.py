"""A policy is attacked with its whole budget, on invented people: exact answers give all away, and ceilings hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato import attacks
from sfumato.attacks.ceilings import for_replacing, guess_ceiling
from sfumato.attacks.policy_attacks import LEAST_RUNS, everybody, presence, value
from sfumato.attacks.staged_policies import Stage, stage
from sfumato.policy import read
from sfumato.release.web_pages import loads_nothing

VISITS = """
[unit]
name = "patient"
neighbours = "add-remove"
budget = { epsilon = 0.5, delta = 1e-6 }

[tables.visits]
source = "nowhere.csv"
id = "patient_id"
max_rows = 3

[tables.visits.columns]
age = { type = "integer", bounds = [0, 110] }
"<b>ward" = { values = ["cardiology", "surgery", "other"] }
smokes = { type = "boolean" }
"""
PEOPLE = """
[unit]
name = "person"
size = 500
neighbours = "replace"
budget = { epsilon = 0.5 }

[tables.people]
source = "nowhere.parquet"
id = "row"

[tables.people.columns]
sex = { type = "integer", values = [1, 2] }
town = { values = ["A", "B"] }
"""


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "visits.toml"
    path.write_text(VISITS)
    return path


@pytest.fixture(scope="module")
def found(visits: Path) -> attacks.PolicyAttack:
    return attacks.policy(visits, runs=LEAST_RUNS)


def staged(text: str, tmp_path: Path) -> Stage:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return stage(read(path))


@dataclass(frozen=True)
class TooGenerous(Stage):
    """A twin that buys its answers for a thousand times what the policy promises: too little noise."""

    @property
    def epsilon(self) -> Fraction:
        return 1000 * super().epsilon


def test_exact_answers_give_all_away_and_the_policys_hold_their_ceilings(
    visits: Path, found: attacks.PolicyAttack
) -> None:
    """A true ceiling is passed once in a million times. No source is there to be read, and no ledger is made."""
    assert [each.private.attack for each in found.attempts] == ["presence", "value", "everybody"]
    assert all(each.exact.success == 1 for each in found.attempts)
    assert found.holds
    promise = sf.Guarantee("0.5", "1e-6")
    assert found.attempts[0].private.ceiling == guess_ceiling(promise)
    assert found.attempts[1].private.ceiling == guess_ceiling(for_replacing(promise, "add-remove"))
    assert [each.name for each in visits.parent.iterdir()] == ["visits.toml"]


def test_under_replace_neighbours_presence_is_public_and_a_value_has_the_budgets_own_ceiling(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(PEOPLE)
    found = attacks.policy(path, runs=LEAST_RUNS)
    assert [each.private.attack for each in found.attempts] == ["value", "everybody"]
    assert {each.private.ceiling for each in found.attempts} == {guess_ceiling(sf.Guarantee("0.5"))}
    assert found.holds


@pytest.mark.parametrize(("text", "attempt"), [(VISITS, presence), (VISITS, value), (PEOPLE, value)])
def test_a_curator_that_adds_too_little_noise_passes_the_ceiling(text: str, attempt: object, tmp_path: Path) -> None:
    """At ε = 0.1 all of 25 guesses are right less than once in a million times; the twin's always are."""
    own = staged(text.replace("epsilon = 0.5", "epsilon = 0.1"), tmp_path)
    twin = TooGenerous(own.policy, own.table, own.column)
    assert not attempt(twin, 25).private.holds  # type: ignore[operator]


def test_everybodys_value_is_found_by_a_curator_that_adds_too_little_noise(tmp_path: Path) -> None:
    own = staged(PEOPLE.replace('["A", "B"]', str([f"town {each}" for each in range(60)])), tmp_path)
    found = everybody(TooGenerous(own.policy, own.table, own.column), 100)
    assert not found.private.holds
    assert found.private.trials == 100  # two rounds of fifty people


def test_the_target_has_as_many_rows_as_count_and_nobody_else_more_than_one(tmp_path: Path) -> None:
    own = staged(VISITS, tmp_path)
    others = own.others()
    target = own.target(others, "surgery")
    assert (others.num_rows, target.num_rows) == (100, 3)
    assert len(others["patient_id"].unique()) == 100
    assert target["patient_id"][0] not in others["patient_id"]
    assert set(target["<b>ward"].to_pylist()) == {"surgery"}
    one = replace(own.table, max_rows_per_group=2)
    assert replace(own, table=one).rows == 2
    few = replace(own.table, row_ceiling=10)
    assert replace(own, table=few).others().num_rows == 7


def test_the_whole_budget_is_spent_and_not_more(tmp_path: Path) -> None:
    own = staged(VISITS, tmp_path)
    with own.curator(own.others(), 2) as curator:
        for _ in range(2):
            curator.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=own.epsilon, fresh=True)
        with pytest.raises(sf.Overspent):
            curator.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon="0.01", fresh=True)


def test_a_column_is_chosen_by_name(visits: Path) -> None:
    assert stage(read(visits), "visits.smokes").values == (False, True)
    assert stage(read(visits), "<b>ward").values == ("cardiology", "surgery")
    assert stage(read(visits), "<b>ward").known() == {"smokes": (False, True)}
    with pytest.raises(sf.InvalidParameter, match=r"visits\.<b>ward, visits\.smokes"):
        stage(read(visits), "age")


@pytest.mark.parametrize("runs", [LEAST_RUNS - 1, 0, 10_001])
def test_too_few_runs_show_nothing(visits: Path, runs: int) -> None:
    with pytest.raises(sf.InvalidParameter, match="runs"):
        attacks.policy(visits, runs=runs)


def test_a_policy_that_answers_nothing_is_not_attacked(tmp_path: Path) -> None:
    path = tmp_path / "nothing.toml"
    path.write_text(VISITS.replace("epsilon = 0.5, delta = 1e-6", "epsilon = 0"))
    with pytest.raises(sf.InvalidPolicy, match="ε = 0"):
        attacks.policy(path)


def test_replace_neighbours_without_listed_values_leave_nothing_to_guess(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(PEOPLE[: PEOPLE.index("sex =")] + 'age = { type = "integer", bounds = [0, 110] }\n')
    with pytest.raises(sf.InvalidPolicy, match="lists none"):
        attacks.policy(path)


def test_the_page_needs_nothing_else_and_tells_the_worst_in_words(found: attacks.PolicyAttack) -> None:
    page = found.page().html
    assert loads_nothing(page)
    assert "<b>ward" not in page
    assert "no method whatever is right more than 73.2 times of 100" in page
    assert "all rows of one patient" in page
    assert "strong promise" in page
    assert "report it" not in page
    assert "could not have refuted the promise" in page  # 20 of 20 at ε = 0.5 is chance more than once in 10⁶ times
    assert str(found) == str(found.findings)
    assert "<table" in found._repr_html_()
    assert attacks.Findings.from_json(found.to_json()) == found.findings


def test_the_page_says_when_a_ceiling_broke_and_whether_it_could_have(found: attacks.PolicyAttack) -> None:
    own = found.attempts[0]
    for right, broken in ((50, False), (100, True)):
        many = replace(own, private=replace(own.private, right=right, trials=100))
        page = replace(found, attempts=(many,)).page().html
        assert ("report it" in page) is broken
        assert "could not have refuted the promise" not in page
