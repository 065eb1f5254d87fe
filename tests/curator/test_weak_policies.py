"""A policy's ε and δ for life: who is warned of which, what is refused, and that nothing shared depends on n."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import main
from sfumato.curator import check
from sfumato.curator.policy_account import amend, open_account
from sfumato.curator.weak_policies import exposure_warning, proposed_delta, weak_policy_warnings
from sfumato.policy import Policy, read
from sfumato.policy.toml_files import to_toml

COUNT = "SELECT COUNT(*) AS n FROM visits"
TEXT = """[unit]
name = "patient"
neighbours = "{neighbours}"
size = 40
budget = {{ epsilon = {epsilon}, delta = {delta}{more} }}
{period}
[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
cost = {{ type = "integer", bounds = [0, 100] }}
day = {{ type = "date", bounds = ["2024-01-01", "2024-12-31"] }}
"""
PERIOD = 'period = { column = "day", every = "day" }'
ALLOWED = ", allow_large_delta = true"
BOTH = pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
BOTH_SCOPES = pytest.mark.parametrize(
    ("neighbours", "period"),
    [
        ("add-remove", ""),
        ("replace", PERIOD),
        pytest.param("add-remove", PERIOD, marks=pytest.mark.long),
        pytest.param("replace", "", marks=pytest.mark.long),
    ],
)


def write(
    folder: Path,
    epsilon: object = 1,
    delta: object = 0,
    more: str = "",
    period: str = "",
    neighbours: str = "add-remove",
) -> Path:
    path = folder / "clinic.toml"
    path.write_text(TEXT.format(epsilon=epsilon, delta=delta, more=more, period=period, neighbours=neighbours))
    return path


def rows(folder: Path, units: int) -> None:
    lines = "".join(f"{unit},5,2024-02-01\n{unit},6,2024-02-01\n" for unit in range(units))
    (folder / "visits.csv").write_text("patient,cost,day\n" + lines)


def opened(path: Path) -> list[str]:
    """Open a policy and ask twice; return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with sf.open(path) as clinic:
            for _ in range(2):
                clinic.sql(COUNT).release(epsilon="0.1", fresh=True)
    assert all(each.category is sf.WeakPrivacy and each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("people", [1, 9, 10, 11, 99, 100, 101, 500, 9_999, 10_000, 10_001, 7 * 10**9, 10**12])
def test_the_proposed_delta_is_the_largest_one_of_one_digit_below_a_hundredth_of_one_in_n(people: int) -> None:
    proposed, most = proposed_delta(people), Fraction(1, 100 * people)
    assert proposed <= most
    text = f"{float(proposed):.0e}"
    assert Fraction(text) == proposed
    power = Fraction(10) ** int(text.partition("e")[2])
    assert proposed + power > most or proposed == Fraction(1, 10**4)  # no larger digit fits


def test_without_a_number_the_proposed_delta_is_one_in_a_billion() -> None:
    assert proposed_delta(None) == Fraction(1, 10**9)


@BOTH
@pytest.mark.parametrize(("units", "delta", "warned"), [(100, "1e-3", True), (99, "1e-3", False), (10**9, "0", False)])
def test_an_owner_is_warned_from_a_tenth_of_a_unit_on(
    tmp_path: Path, neighbours: str, units: int, delta: str, warned: bool
) -> None:
    words = exposure_warning(read(write(tmp_path, delta=delta, neighbours=neighbours)), units)
    assert (words is not None) is warned
    if words is not None:
        exact = 100 * (1 - (1 - Fraction(delta)) ** units)
        assert f"1 − (1 − 0.001)^100 = {float(exact):.1f} %" in words
        assert "a mechanism that publishes each patient's rows with probability δ keeps this promise" in words
        assert words.endswith("Choose a δ of at most 1/(100 · n), such as 0.0001.")


def test_a_unit_of_a_period_is_named_as_it_is_counted(tmp_path: Path) -> None:
    words = exposure_warning(read(write(tmp_path, delta="0.5", period=PERIOD)), 500)
    assert words is not None
    assert "publishes some patient-day's rows with probability 1 − (1 − 0.5)^500 > 99.9 %" in words


def test_only_the_private_part_of_a_check_depends_on_the_number_of_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.curator.checking.time_typical_questions", lambda _: ())
    path = write(tmp_path, delta="0.002", more=ALLOWED)
    public, shared, private, reports = set(), set(), [], set()
    for units in (49, 50):
        rows(tmp_path, units)
        public.add(CliRunner().invoke(main, ["check", str(path), "--public"]).output)
        done = CliRunner().invoke(main, ["check", str(path)])
        assert done.exit_code == 0, done.output
        before, inside, after = done.output.split("PRIVATE: exact figures for the owner alone")
        shared.add((before, after))
        private.append(" ".join(inside.split()))
        report = check(path)
        reports.add((repr(report), report.warnings))
    assert (len(public), len(shared), len(reports)) == (1, 1, 1)
    assert "dangerous" not in private[0]
    assert "δ = 0.002 is dangerous for 50 units" in private[1]
    assert "publishes some patient's rows with probability 1 − (1 − 0.002)^50 = 9.5 %" in private[1]


@BOTH
@pytest.mark.parametrize("period", ["", PERIOD])
def test_an_epsilon_above_ten_is_warned_of(tmp_path: Path, neighbours: str, period: str) -> None:
    """With accounts of periods under replace neighbours each account holds half: the whole is what is judged."""
    per = ', per = "month"' if period else ""
    strong = read(write(tmp_path, 10, "1e-9", per, period, neighbours))
    weak = read(write(tmp_path, "10.001", "1e-9", per, period, neighbours))
    assert weak_policy_warnings(strong) == ()
    (words,) = weak_policy_warnings(weak)
    scope = "for one patient-day" if period else "for life"
    assert words.startswith(
        f"ε = 10.001 {scope} is weak privacy: it lets an attacker's odds grow by a factor of up to e^ε, and a belief"
    )
    guess = "in a value of one unit" if neighbours == "replace" else "that one unit is in the data"
    assert f"a belief of 1 % {guess} may grow to 99.6 %, except with probability 1e-08" in words
    assert str(sf.precedents(sf.Guarantee("10.001", "1e-9"))).splitlines()[-3] in words


def test_an_opened_and_an_amended_policy_warn_once_and_an_answer_does_not(tmp_path: Path) -> None:
    rows(tmp_path, 3)
    assert opened(write(tmp_path, 10)) == []
    with pytest.warns(sf.WeakPrivacy, match="ε = 50 for life is weak privacy") as caught:
        amend(write(tmp_path, 50), reason="more questions")
    assert len(caught) == 1
    done = CliRunner().invoke(main, ["budget", "amend", str(tmp_path / "clinic.toml"), "--reason", "again"])
    assert (done.exit_code, done.stderr.count("warning: ε = 50 for life")) == (0, 1)
    (words,) = opened(tmp_path / "clinic.toml")
    assert words.startswith("ε = 50 for life")
    assert check(tmp_path / "clinic.toml", private=False).warnings == (words,)


@BOTH_SCOPES
def test_a_new_account_has_a_large_delta_only_where_its_policy_allows_it(
    tmp_path: Path, neighbours: str, period: str
) -> None:
    per = ', per = "month"' if period else ""
    rows(tmp_path, 3)
    path = write(tmp_path, 1, "0.001", per, period, neighbours)
    for call in (sf.open, check):
        with pytest.raises(sf.InvalidPolicy, match=r"a δ of 0\.001 is too large \(1/1000 or more\)") as refused:
            call(path)
        assert refused.value.place == "unit.budget.delta"
        assert "allow_large_delta = true" in refused.value.fix
    for delta, more in (("0.000999", ""), ("0", ""), ("0.001", ALLOWED)):
        path = write(tmp_path, 1, delta, per + more, period, neighbours)
        sf.open(path, ledger=tmp_path / f"{delta}.ledger").close()
        assert check(path, private=False).warnings == ()


@BOTH_SCOPES
def test_an_account_that_has_a_large_delta_opens_with_a_warning(tmp_path: Path, neighbours: str, period: str) -> None:
    per = ', per = "month"' if period else ""
    rows(tmp_path, 3)
    sf.open(write(tmp_path, 1, "0.05", per + ALLOWED, period, neighbours)).close()
    path = write(tmp_path, 1, "0.05", per, period, neighbours)
    with pytest.warns(sf.WeakPrivacy, match="δ = 0.05 for life is large"):
        sf.open(path).close()
    assert len(check(path, private=False).warnings) == 1
    with pytest.warns(sf.WeakPrivacy, match="δ = 0.05 for life is large"):
        amend(write(tmp_path, 2, "0.05", per, period, neighbours), reason="another ε")
    with pytest.raises(sf.InvalidPolicy, match="1/1000 or more"):
        amend(write(tmp_path, 2, "0.06", per, period, neighbours), reason="a larger δ")
    amend(write(tmp_path, 2, "0.06", per + ALLOWED, period, neighbours), reason="a larger δ")


def test_a_large_delta_of_a_table_in_memory_is_allowed_by_its_caller(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    given: dict[str, Any] = {"unit": "row", "epsilon": 1, "delta": "0.001", "account": "mine", "ledger": tmp_path / "l"}
    table = pandas.DataFrame({"x": [1, 2]})
    with pytest.raises(sf.InvalidPolicy, match="allow_large_delta"):
        sf.protect(table, **given)
    sf.protect(table, **given, allow_large_delta=True).close()


def test_the_permission_is_written_read_and_no_part_of_a_question(tmp_path: Path) -> None:
    rows(tmp_path, 3)
    path = write(tmp_path, 1, "1e-6")
    with sf.open(path) as clinic:
        bought = clinic.sql(COUNT).release(epsilon="0.1")
    assert "allow_large_delta" not in to_toml(read(path), tmp_path)
    path = write(tmp_path, 1, "1e-6", ALLOWED)
    policy = read(path)
    (tmp_path / "again.toml").write_text(to_toml(policy, tmp_path))
    assert policy.allow_large_delta
    assert read(tmp_path / "again.toml").allow_large_delta
    with sf.open(path) as clinic:
        again = clinic.sql(COUNT).release(epsilon="0.1")
        assert clinic.budget.spent["pure"] == Fraction(1, 10)
    assert (again.receipt.line, again.rows) == (bought.receipt.line, bought.rows)
    with pytest.raises(sf.InvalidPolicy, match="allow_large_delta must be true or false"):
        read(write(tmp_path, more=', allow_large_delta = "yes"'))


def test_opening_an_account_asks_the_ledger_of_a_large_delta_alone(tmp_path: Path) -> None:
    """The refusal comes before the account is opened: nothing is written."""
    policy: Policy = read(write(tmp_path, 1, "0.5"))
    with sf.Ledger.open(tmp_path / "l") as ledger:
        with pytest.raises(sf.InvalidPolicy):
            open_account(ledger, policy)
        assert ledger.accounts == ()
