"""A policy is attacked with its whole budget, on invented people: exact answers give all away, and ceilings hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato import attacks
from sfumato.attacks.ceilings import curve_guess_ceiling, guess_ceiling, replacement_guarantee
from sfumato.attacks.policy_attacks import (
    LEAST_RUNS,
    AttackedTable,
    WholeSpending,
    account_spendings,
    attack_everybody,
    attack_presence,
    attack_value,
    attacked_tables,
    unattackable_columns,
)
from sfumato.attacks.policy_pages import Attempt
from sfumato.policy import read
from sfumato.privacy import Budget, Curve
from sfumato.privacy.numbers import amount_from_units
from sfumato.release.answers.web_pages import is_self_contained

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


TABLES = """
[unit]
name = "patient"
neighbours = "add-remove"
budget = { epsilon = 0.1 }

[tables.patients]
source = "nowhere.csv"
id = "patient_id"
max_rows = 1

[tables.patients.columns]
born = { type = "date", bounds = ["1900-01-01", "2020-01-01"] }
number = { type = "integer", bounds = [0, 1000000] }

[tables.visits]
source = "nowhere.csv"
id = { via = "patients", on = "patient", key = "number" }
max_rows = 3

[tables.visits.columns]
age = { type = "integer", bounds = [0, 110] }
same = { type = "integer", bounds = [7, 7] }

[tables.drugs]
source = "nowhere.csv"
id = { via = "visits", on = "visit" }
max_rows = 2

[tables.drugs.columns]
drug = { type = "text" }
cost = { type = "real", bounds = [0, 0.3] }

[tables.towns]
source = "nowhere.csv"
public = true
"""
LONG = 600
"""Minutes that no test comes near to, however slow the machine is."""


@pytest.fixture(scope="module")
def found(visits: Path) -> attacks.PolicyAttack:
    return attacks.policy(visits, runs=LEAST_RUNS, minutes=LONG)


def staged(text: str, tmp_path: Path) -> AttackedTable:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return attacked_tables(read(path))[0]


@dataclass(frozen=True)
class TooGenerous(WholeSpending):
    """A twin that buys its answers for a thousand times what the account promises: too little noise."""

    @property
    def price(self) -> dict[str, Any]:
        if self.rho is None:
            return {"epsilon": 1000 * self.budget.epsilon}
        return {**super().price, "rho": 10**6 * self.rho}

    def account(self, times: int) -> Budget:
        return super().account(10**6 * times)


def generous(own: AttackedTable, currency: int = 0) -> TooGenerous:
    plain = list(account_spendings(own.policy.account_budget))[currency]
    return TooGenerous(plain.budget, plain.rho)


def test_exact_answers_give_all_away_and_the_policys_hold_their_ceilings(
    visits: Path, found: attacks.PolicyAttack
) -> None:
    """A true ceiling is passed once in a million times. No source is there to be read, and no ledger is made."""
    columns = ['visits."<b>ward"', "visits.smokes", "visits.age"]
    assert [(each.private.attack, each.target) for each in found.attempts] == [
        *([("presence", "visits"), *(("value", each) for each in columns)] * 2),
        ("everybody", 'visits."<b>ward"'),
    ]
    assert all(each.exact.success == 1 for each in found.attempts)
    assert found.holds
    assert found.untried == ()
    promise = sf.Guarantee("0.5", "1e-6")
    assert found.attempts[0].private.ceiling == guess_ceiling(promise)
    assert found.attempts[1].private.ceiling == guess_ceiling(replacement_guarantee(promise, "add-remove"))
    assert [each.name for each in visits.parent.iterdir()] == ["visits.toml"]
    assert len(found.findings) == len({each.answers for each in found.findings}) == 14  # exact ones are told once


def test_an_account_with_a_delta_is_spent_in_its_other_currency_too(found: attacks.PolicyAttack) -> None:
    """All of ρ has the ceiling of its own curve, which is below that of ε here: for a value, of two units."""
    pure, gaussian = account_spendings(Budget("0.5", "1e-6"))
    assert (str(pure), str(gaussian)) == ("ε = 0.5", "ρ = 0.00657")
    curve = Curve.concentrated(gaussian.rho or 0)
    alone, two = found.attempts[4].private.ceiling, found.attempts[5].private.ceiling
    assert (alone, two) == (curve_guess_ceiling(curve), curve_guess_ceiling(curve.group(2)))
    assert 0.5 < alone < two < guess_ceiling(sf.Guarantee("0.5", "1e-6"))
    assert [str(each) for each in account_spendings(Budget("0.5"))] == ["ε = 0.5"]
    replaced = list(account_spendings(Budget("0.5", "1e-6", neighbours="replace")))[1]
    assert replaced.ceiling(replaced=True) == curve_guess_ceiling(curve)
    large = WholeSpending(Budget(50, "0.01"))
    assert large.ceiling(replaced=True) == 1


def test_under_replace_neighbours_presence_is_public_and_a_value_has_the_budgets_own_ceiling(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(PEOPLE)
    found = attacks.policy(path, runs=LEAST_RUNS, minutes=LONG)
    assert [each.private.answers for each in found.attempts] == [
        "people.sex, ε = 0.5",
        "people.town, ε = 0.5",
        "people.sex, everybody, ε = 0.5",
    ]
    assert {each.private.ceiling for each in found.attempts} == {guess_ceiling(sf.Guarantee("0.5"))}
    assert found.holds


def test_every_table_is_attacked_and_rows_are_found_through_other_tables(tmp_path: Path) -> None:
    """Columns of one value, keys, texts without a list and public tables are nobody's secret."""
    path = tmp_path / "tables.toml"
    path.write_text(TABLES)
    found = attacks.policy(path, runs=LEAST_RUNS, minutes=LONG)
    assert sorted(each.target for each in found.attempts) == [
        "drugs",
        "drugs.cost",
        "patients",
        "patients.born",
        "visits",
        "visits.age",
    ]
    assert all(each.exact.success == 1 for each in found.attempts)
    assert found.holds


@pytest.mark.parametrize("place", [*(pytest.param(each, marks=pytest.mark.long) for each in range(2)), 2])
def test_too_little_noise_is_caught_in_every_table(place: int, tmp_path: Path) -> None:
    """At ε = 0.1 all of 25 guesses are right less than once in a million times; the twin's always are."""
    path = tmp_path / "tables.toml"
    path.write_text(TABLES)
    own = attacked_tables(read(path))[place]
    for attempt in (attack_presence, attack_value):
        assert not attempt(own, generous(own), 25).private.holds


@pytest.mark.parametrize(
    ("text", "attempt"), [(VISITS, attack_presence), (VISITS, attack_value), (PEOPLE, attack_value)]
)
def test_a_curator_that_adds_too_little_noise_passes_the_ceiling(text: str, attempt: Any, tmp_path: Path) -> None:
    """At ε = 0.1 all of 25 guesses are right less than once in a million times; the twin's always are."""
    own = staged(text.replace("epsilon = 0.5", "epsilon = 0.1"), tmp_path)
    assert not attempt(own, generous(own), 25).private.holds


@pytest.mark.parametrize("attempt", [attack_presence, attack_value])
def test_too_little_gaussian_noise_passes_the_ceiling_of_its_curve(attempt: Any, tmp_path: Path) -> None:
    """At ρ = 0.0003 the ceilings are below 0.53: all of 25 guesses are right less than once in a million times. The
    twin's noise has a thousandth of its size, 0.04 of what one row adds, so its guesses always are.
    """
    own = staged(VISITS.replace("epsilon = 0.5", "epsilon = 0.1"), tmp_path)
    assert not attempt(own, generous(own, 1), 25).private.holds


def test_everybodys_value_is_found_by_a_curator_that_adds_too_little_noise(tmp_path: Path) -> None:
    own = staged(PEOPLE.replace('["A", "B"]', str([f"town {each}" for each in range(60)])), tmp_path)
    found = attack_everybody(own, generous(own), 100)
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


@pytest.mark.parametrize("currency", [0, 1])
def test_the_whole_budget_is_spent_and_not_more(currency: int, tmp_path: Path) -> None:
    """The policy's own account pays for one such release, and after it for no other in the same currency."""
    own = staged(VISITS, tmp_path)
    spent = list(account_spendings(own.policy.account_budget))[currency]
    for account, times in ((own.policy.account_budget, 1), (spent.account(2), 2)):
        with own.curator(own.others(), account) as curator:
            asked: Any = curator.sql("SELECT COUNT(*) AS n FROM visits")
            for _ in range(times):
                asked.release(**spent.price, fresh=True)
            if times == 1 or spent.rho is None:
                with pytest.raises(sf.Overspent):
                    asked.release(**spent.price, fresh=True)


def test_what_there_was_no_time_for_is_said(visits: Path) -> None:
    found = attacks.policy(visits, runs=LEAST_RUNS, minutes="1e-9")
    assert [each.private.attack for each in found.attempts] == ["presence"]
    assert found.untried[0] == 'visits."<b>ward" with ε = 0.5'
    assert len(found.untried) == 8
    assert 'There was no time to try: visits."<b>ward" with ε = 0.5, ' in str(found)
    page = found.page().html
    assert "There was no time to try: visits.&quot;&lt;b&gt;ward&quot;" in page
    assert "That no method is right more than 73.2 times out of 100 holds for these too" in page
    assert "no method whatever is right more than 73.2 times out of 100" in page  # of values too, which were not tried
    with pytest.raises(sf.InvalidParameter, match="minutes"):
        attacks.policy(visits, minutes=0)


def test_a_column_is_chosen_by_name(visits: Path) -> None:
    def chosen(*names: str) -> tuple[AttackedTable, ...]:
        return attacked_tables(read(visits), names)

    assert chosen("visits.smokes")[0].values == (False, True)
    assert chosen("<b>ward")[0].values == ("cardiology", "surgery")
    assert chosen("<b>ward")[0].known_columns() == {"smokes": (False, True)}
    assert (chosen("age")[0].values, chosen("age")[0].key) == ((0, 110), '"age" >= 110')
    assert [str(each) for each in chosen("age", "visits.smokes", "age")] == ["visits.age", "visits.smokes"]
    with pytest.raises(sf.InvalidParameter, match=r'visits\."<b>ward", visits\.smokes, visits\.age'):
        chosen("patient_id")
    found = attacks.policy(visits, column=["smokes"], runs=LEAST_RUNS, minutes="1e-9")
    assert [each.target for each in found.attempts] == ["visits"]
    left = {each.partition(" with ")[0] for each in found.untried}
    assert left == {"presence in visits", "visits.smokes", "everybody's visits.smokes"}


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
    path.write_text(PEOPLE[: PEOPLE.index("sex =")] + 'name = { type = "text" }\n')
    with pytest.raises(sf.InvalidPolicy, match="no column declares bounds or at least two values"):
        attacks.policy(path)


def test_the_page_needs_nothing_else_and_tells_the_worst_in_words(found: attacks.PolicyAttack) -> None:
    page = found.page().html
    assert is_self_contained(page)
    assert "<b>ward" not in page
    assert "no method whatever is right more than 73.2 times out of 100" in page
    assert "all rows of one patient" in page
    assert "strong promise" in page
    assert page.count("<td>ρ = 0.00657</td>") == 4  # presence and three columns
    assert "kept in two measures" in page
    assert "report it" not in page
    words = "In 9 of 9 attempts there were too few guesses to refute the promise, even if all had been right: "
    assert words in page  # 20 of 20 is chance more than once in 10⁶ times, at every ceiling here
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


def attempted(answers: str, right: int, trials: int, ceiling: float, note: str = "") -> Attempt:
    exact = attacks.Finding("value", f"{answers}, exact", trials, trials, 0.5)
    private = attacks.Finding("value", answers, right, trials, 0.5, ceiling, 1, note)
    return Attempt("visits.ward", "has it", "ε = 1", "SELECT 1", exact, private)


def whole(*attempts: Attempt, **more: Any) -> attacks.PolicyAttack:
    return attacks.PolicyAttack(sf.Guarantee("0.5"), sf.Neighbours.REPLACE, "each person", attempts, **more)


def test_attempts_without_power_are_named_beside_others_that_have_it() -> None:
    """With a ceiling of 0.9, 20 right guesses of 20 are chance; with one of 0.6, 100 of 100 are not."""
    found = whole(attempted("visits.ward, ε = 1", 20, 20, 0.9), attempted("visits.age, ε = 1", 50, 100, 0.6))
    words = (
        "In 1 of 2 attempts there were too few guesses to refute the promise, even if all had been right: "
        "visits.ward, ε = 1. "
    )
    assert words in found.page().html
    assert words in str(found)


def test_a_broken_ceiling_counts_whatever_it_is_called() -> None:
    sound, broken = (attempted("visits.ward, ε = 1", right, 100, 0.6) for right in (50, 100))
    for attempts in ((sound, broken), (broken, sound)):
        found = whole(*attempts)
        assert not found.holds
        assert not found.findings.holds
        assert "report it" in found.page().html
        assert [each.ceiling for each in found.findings] == [None, 0.6, 0.6]  # what is exact is told once
    assert whole(sound, sound).holds


DOTTED = """
[unit]
name = "person"
neighbours = "add-remove"
budget = { epsilon = 0.5 }

[tables."a.b"]
source = "nowhere.csv"
id = "who"
max_rows = 1
columns = { c = { values = ["A", "B"] }, note = { type = "text" }, who = { type = "integer" } }

[tables.a]
source = "nowhere.csv"
id = "who"
max_rows = 1

[tables.a.columns]
"b.c" = { values = ["A", "B"] }
c = { values = ["A", "B"] }
tags = { values = ["x", "y"], most_items = 3 }
"""


def test_columns_of_two_tables_are_told_apart_and_a_name_takes_all_that_have_it(tmp_path: Path) -> None:
    path = tmp_path / "dotted.toml"
    path.write_text(DOTTED)
    policy = read(path)
    assert [str(each) for each in attacked_tables(policy)] == ['"a.b".c', 'a."b.c"', "a.c"]
    assert [str(each) for each in attacked_tables(policy, ["a.b.c"])] == ['"a.b".c', 'a."b.c"']
    assert [str(each) for each in attacked_tables(policy, ['a."b.c"', "b.c"])] == ['a."b.c"']
    assert [str(each) for each in attacked_tables(policy, ["c"])] == ['"a.b".c', "a.c"]


def test_columns_that_cannot_be_attacked_are_named(tmp_path: Path) -> None:
    path = tmp_path / "dotted.toml"
    path.write_text(DOTTED)
    left = unattackable_columns(read(path))
    assert left == ('"a.b".note', "a.tags")  # what says whose a row is, is nobody's secret
    found = whole(attempted("visits.ward, ε = 1", 50, 100, 0.6), undeclared=left)
    words = "Not tried, because they declare neither two values nor a range, or hold lists: "
    assert f'{words}"a.b".note, a.tags.' in str(found)
    assert f"{words}&quot;a.b&quot;.note, a.tags." in found.page().html
    assert words not in str(whole(attempted("visits.ward, ε = 1", 50, 100, 0.6)))


MONTHS = """
[unit]
name = "person"
size = 500
neighbours = "replace"
period = { column = "day", every = "month" }
budget = { epsilon = 1, delta = 1e-6, per = "month" }

[tables.visits]
source = "nowhere.csv"
id = "who"
max_rows = 1

[tables.visits.columns]
day = { type = "date", bounds = ["2024-01-01", "2024-12-31"], nullable = false }
smokes = { type = "boolean" }
"""


def test_two_accounts_pay_for_the_column_that_says_which_of_them_pays(tmp_path: Path) -> None:
    """Each account has half of the budget. A replaced day moves the target to another month, whose account tells too,
    so that the ceiling is that of the whole budget; a replaced habit is told by one account.
    """
    path = tmp_path / "months.toml"
    path.write_text(MONTHS)
    found = attacks.policy(path, runs=LEAST_RUNS, minutes=LONG)
    ceilings = {each.private.answers: each.private.ceiling for each in found.attempts}
    half, whole_budget = (sf.Guarantee(each, delta) for each, delta in (("0.5", "5e-7"), (1, "1e-6")))
    assert ceilings["visits.smokes, ε = 0.5"] == guess_ceiling(half)
    assert ceilings["visits.day, ε = 0.5 of each of 2 accounts"] == guess_ceiling(whole_budget)
    rho = list(account_spendings(read(path).account_budget))[1].rho or 0
    assert ceilings[f"visits.smokes, ρ = {float(rho):.3g}"] == curve_guess_ceiling(Curve.concentrated(rho))
    twice = curve_guess_ceiling(Curve.concentrated(2 * rho))
    assert ceilings[f"visits.day, ρ = {float(rho):.3g} of each of 2 accounts"] == twice
    assert found.holds
    for told in (str(found), found.page().html):
        assert "Two accounts pay for guesses of visits.day" in told
    added = replace(read(path), budget=Budget(1, "1e-6"))
    assert [each.secret_selects_account for each in attacked_tables(read(path), ["day", "smokes"])] == [True, False]
    assert not any(each.secret_selects_account for each in attacked_tables(added))
    assert not any(each.secret_selects_account for each in attacked_tables(replace(read(path), per=None)))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *(pytest.param(*each, marks=pytest.mark.long) for each in (("0.1", "0.1"), (1, "0.5"))),
        ("0.001", "1e-3"),
        (50, "0.9"),
    ],
)
def test_an_account_pays_as_often_as_it_is_asked_however_large_delta_is(
    epsilon: Any, delta: Any, tmp_path: Path
) -> None:
    """Where δ is large against ε, r is larger than ε, and an account of five times ε would not pay for five times r."""
    own = staged(VISITS, tmp_path)
    budget = Budget(epsilon, delta)
    spent = list(account_spendings(budget))[1]
    assert amount_from_units(budget.allowances.renyi or 0) > budget.epsilon
    for account, times in ((budget, 1), (spent.account(5), 5)):
        with own.curator(own.others(), account) as curator:
            asked: Any = curator.sql("SELECT COUNT(*) AS n FROM visits")
            for _ in range(times):
                asked.release(**spent.price, fresh=True)
    pure = WholeSpending(budget).account(5)
    assert (pure.allowances.pure or 0) >= 5 * (budget.allowances.pure or 0)


def test_one_guess_that_failed_is_not_rounded_away() -> None:
    for right, trials, shown in ((996, 1000, "99.6"), (9_999, 10_000, "99.9"), (100, 100, "100"), (50, 100, "50")):
        page = whole(attempted("visits.ward, ε = 1", right, trials, 1.0)).page().html
        assert f"<b>{shown} of 100</b>" in page or f">{shown} of 100<" in page
