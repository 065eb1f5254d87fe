"""Finding undeclared groups takes a δ: free calls assume one and say so, and only a named one is spent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from cli.running import run, spent
from cli.terminal import ENTER, Terminal
from sfumato.cli.shell.session import ShellSession, ShellSettings
from sfumato.curator.previews.explaining import format_offered_delta, offered_delta

BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = 3, delta = {delta} }}

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 1
[tables.visits.columns]
ward = {{ type = "text" }}

[analysts.ana]
share = 0.5
"""


def written(folder: Path, delta: str = "1e-6") -> Path:
    rows = [f"p{number},{'ABC'[number % 3]}" for number in range(600)]
    (folder / "visits.csv").write_text("\n".join(["patient,ward", *rows]) + "\n")
    (folder / "clinic.toml").write_text(POLICY.format(delta=delta))
    return folder / "clinic.toml"


@contextmanager
def opened(folder: Path, delta: str = "1e-6") -> Iterator[sf.Curator]:
    with sf.open(written(folder, delta)) as curator:
        yield curator


def failure(curator: sf.Curator) -> Fraction:
    return Fraction(curator.budget.spent["failure"] or 0)


def test_free_calls_assume_a_delta_and_say_so(tmp_path: Path) -> None:
    with opened(tmp_path) as clinic:
        question = clinic.sql(BY_WARD)
        assert question.default_delta == Fraction(1, 10**9)
        forecast = question.error(epsilon=1)
        assert forecast.assumed_delta == question.default_delta
        assert forecast.price == "ε = 1, δ = 1e-09"
        assert any("No δ was given: this assumes δ = 1e-9" in warning for warning in forecast.warnings)
        named = question.error(epsilon=1, delta="1e-9")
        assert (named.columns, named.price, named.assumed_delta) == (forecast.columns, forecast.price, 0)
        assert not any("No δ was given" in warning for warning in named.warnings)
        assert question.price({"n": 50}) < 1
        assert any("No δ was given" in warning for warning in question.explain(epsilon=1).warnings)
        assert question.explain(epsilon=1).operators == question.explain(epsilon=1, delta="1e-9").operators
        assert question.preview(epsilon=1).is_preview
        assert question.advise(epsilon=1).price == "ε = 1, δ = 1e-09"
        assert sf.curator.Forecast.from_json(forecast.to_json()) == forecast
        assert not any(clinic.budget.spent.values())


def test_a_release_spends_no_delta_that_was_not_named(tmp_path: Path) -> None:
    with opened(tmp_path) as clinic:
        question = clinic.sql(BY_WARD)
        with pytest.raises(sf.Unsupported, match='accept δ = 1e-9 with delta="default"') as refused:
            question.release(epsilon=1)
        assert refused.value.code == "unknown-keys"
        with pytest.raises(sf.Unsupported, match="accept δ = 1e-9 with"):
            clinic.workload([BY_WARD]).release(epsilon=1)
        assert not any(clinic.budget.spent.values())
        question.release(epsilon=1, delta=question.default_delta)  # the value that the refusal and the forecast name
        assert failure(clinic) == question.default_delta


COMBINED = f"{BY_WARD} UNION ALL SELECT 'all', COUNT(*) FROM visits"


def test_one_word_accepts_the_offered_delta(tmp_path: Path) -> None:
    """A question, one that combines SELECTs and a workload spend the δ that they offer, and nothing more."""
    with opened(tmp_path) as clinic:
        for proposal in (clinic.sql(BY_WARD), clinic.sql(COMBINED), clinic.workload([BY_WARD])):
            before = failure(clinic)
            offered = proposal.default_delta
            accepted = proposal.error(epsilon="0.5", delta="default", fresh=True)
            assumed = proposal.error(epsilon="0.5", fresh=True)
            assert (accepted.price, accepted.assumed_delta) == (assumed.price, 0)
            assert assumed.assumed_delta == offered == Fraction(1, 10**9)
            assert any("No δ was given: this assumes δ = 1e-9" in note for note in assumed.warnings)
            assert not any("No δ was given" in note for note in accepted.warnings)
            assert any("No δ was given" in note for note in proposal.explain(epsilon="0.5").warnings)
            assert not any("No δ was given" in note for note in proposal.explain("0.5", delta="default").warnings)
            proposal.preview(epsilon="0.5")
            assert failure(clinic) == before
            proposal.release(epsilon="0.5", delta="default", fresh=True)
            assert failure(clinic) == before + offered
        assert clinic.workload([BY_WARD]).price(50) == clinic.workload([BY_WARD]).price(50, delta="default")
        assert clinic.sql(BY_WARD).release(epsilon="0.5", delta="default").receipt.free


def test_accepting_the_default_takes_no_delta_where_none_is_needed(tmp_path: Path) -> None:
    with opened(tmp_path) as clinic:
        answer = clinic.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon="0.5", delta="default")
        assert answer.receipt.guarantee == "ε = 0.5"
        assert failure(clinic) == 0


def test_accepting_the_default_is_refused_where_nothing_is_offered(tmp_path: Path) -> None:
    with opened(tmp_path, "1e-8") as clinic:
        question = clinic.sql(BY_WARD)
        question.release(epsilon="0.5", delta="1e-9")  # all that finding groups may take
        for proposal in (question, clinic.sql(COMBINED), clinic.workload([BY_WARD])):
            with pytest.raises(sf.Unsupported, match="no δ is left for undeclared groups: declare"):
                proposal.release(epsilon="0.5", delta="default", fresh=True)
        for word in ("Default", "yes", "defaults", True):
            with pytest.raises(sf.InvalidParameter, match="delta"):
                question.release(epsilon="0.5", delta=word)
        assert failure(clinic) == Fraction(1, 10**9)


COMPARED = BY_WARD.replace("GROUP", "WHERE 0 < (SELECT COUNT(*) FROM visits) GROUP")


def test_a_stored_answer_is_free_once_no_delta_is_left(tmp_path: Path) -> None:
    with opened(tmp_path, "1e-8") as clinic:
        proposals: dict[str, Any] = {text: clinic.sql(text) for text in (BY_WARD, COMBINED, COMPARED)}
        proposals["workload"] = clinic.workload([BY_WARD.replace("GROUP", "WHERE ward <> 'C' GROUP")])
        bought = {
            name: proposal.release(epsilon="0.1", delta="default", request_id=name)
            for name, proposal in proposals.items()
        }
        clinic.sql(BY_WARD).release(epsilon="0.1", delta=clinic.budget.remaining["failure"], fresh=True)
        assert clinic.sql(BY_WARD).default_delta == 0
        for name, proposal in proposals.items():
            with pytest.raises(sf.Unsupported, match="no δ is left"):
                proposal.release(epsilon="0.1", delta="default", request_id="another", fresh=True)
            before = clinic.budget.spent
            again = proposal.release(epsilon="0.1", delta="default", request_id=name)
            assert again.receipt is None or again.receipt.free
            assert getattr(again, "rows", again) == getattr(bought[name], "rows", again)
            assert clinic.budget.spent == before
        with pytest.raises(sf.RequestDiffers):
            clinic.sql(COMPARED).release(epsilon="0.1", delta="default", request_id=BY_WARD)


def test_a_question_that_finds_no_groups_is_offered_none(tmp_path: Path) -> None:
    with opened(tmp_path) as clinic:
        question = clinic.sql("SELECT COUNT(*) AS n FROM visits")
        assert question.default_delta == 0
        assert question.error(epsilon=1).price == "ε = 1"
        assert question.error(epsilon=1).assumed_delta == 0


def test_the_offer_fits_what_is_left(tmp_path: Path) -> None:
    """At most a tenth of what the account and the share have left, and nothing when nothing is left."""
    with opened(tmp_path, "1e-8") as clinic:  # a tenth of it pays for finding groups
        ana = clinic.as_analyst("ana")
        question = clinic.sql(BY_WARD)
        assert question.default_delta == Fraction(1, 10**10)
        assert ana.sql(BY_WARD).default_delta == Fraction(1, 10**11)
        question.release(epsilon="0.5", delta="9.5e-10")
        assert question.default_delta == Fraction(1, 10**12)
        assert question.error(epsilon=1).accepted
        question.release(epsilon="0.5", delta="5e-11", fresh=True)
        assert question.default_delta == 0
        assert not question.error(epsilon=1).accepted
        with pytest.raises(sf.Unsupported, match="no δ is left for undeclared groups: declare"):
            question.release(epsilon=1)


@pytest.mark.parametrize("left", ["1e-7", "1e-8", "9.99e-9", "3e-20", "1e-30", "0"])
def test_an_offer_is_a_power_of_ten_and_affordable(left: str) -> None:
    allowed = Fraction(left)
    budget = sf.Budget(1, "1e-6", reserve=left) if allowed else sf.Budget(1)
    offered = offered_delta([sf.Budget(1, "1e-6"), budget])
    assert 10 * offered <= max(allowed, 0)
    assert offered <= Fraction(1, 10**9)
    assert Fraction(format_offered_delta(offered)) == offered
    assert not allowed or 100 * offered > min(allowed, Fraction(1, 10**8))  # no smaller than it must be


def test_an_account_without_a_delta_is_told_what_needs_none(tmp_path: Path) -> None:
    with opened(tmp_path, "0") as clinic:
        for ask in (clinic.sql(BY_WARD).error, clinic.sql(BY_WARD).explain, clinic.sql(BY_WARD).release):
            with pytest.raises(sf.Unsupported, match="an account without a δ"):
                ask(epsilon=1)


def test_a_command_asks_a_person_once_and_a_yes_is_the_default(tmp_path: Path) -> None:
    policy = written(tmp_path)
    with Terminal("query", policy, BY_WARD, "--epsilon", "1", environment={}) as terminal:
        terminal.expect("needs a δ. Ask at ε = 1, δ = 1e-09? [Y/n]")
        terminal.type(ENTER)
        terminal.expect("this answer")
        assert terminal.ends() == 0
    assert spent(policy) == 1


def test_a_no_spends_nothing(tmp_path: Path) -> None:
    policy = written(tmp_path)
    with Terminal("query", policy, BY_WARD, "--epsilon", "1", environment={}) as terminal:
        terminal.expect("[Y/n]")
        terminal.type("n" + ENTER)
        terminal.expect("--delta default")
        assert terminal.ends() == 1
    assert spent(policy) == 0


def test_a_script_must_name_it(tmp_path: Path) -> None:
    policy = written(tmp_path)
    done = run("query", policy, BY_WARD, "--epsilon", "1", given="y\n")
    assert done.exit_code == 1
    assert "--delta default" in done.stderr
    assert spent(policy) == 0
    dry = run("query", policy, BY_WARD, "--epsilon", "1", "--dry-run")
    assert (dry.exit_code, "δ = 1e-09" in dry.stdout, "No δ was given" in dry.stdout) == (0, True, True)
    assert run("query", policy, BY_WARD, "--epsilon", "1", "--delta", "default").exit_code == 0


def test_a_file_of_questions_asks_a_person_too(tmp_path: Path) -> None:
    policy, questions = written(tmp_path), tmp_path / "questions.sql"
    questions.write_text(f"{BY_WARD};\nSELECT COUNT(*) AS n FROM visits;\n")
    with Terminal("query", policy, "--file", questions, "--epsilon", "1", environment={}) as terminal:
        terminal.expect("needs a δ. Ask at ε = 1, δ = 1e-09? [Y/n]")
        terminal.type(ENTER)
        assert terminal.ends() == 0
    assert spent(policy) == 1


class _Confirming:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def read(self, _prompt: str, _unfinished: str = "") -> str:
        raise EOFError

    def confirm(self, words: str) -> bool:
        self.asked.append(words)
        return True


def test_the_price_that_is_confirmed_has_the_delta(tmp_path: Path) -> None:
    with opened(tmp_path) as clinic:
        person = _Confirming()
        ShellSession(clinic, person, None, False, True, ShellSettings(epsilon="1")).run(BY_WARD)
        assert person.asked == ["Spend ε = 1, δ = 1e-09? [y/N] "]
        assert failure(clinic) == Fraction(1, 10**9)


def test_the_shell_takes_the_word_with_yes_to_all(tmp_path: Path) -> None:
    with opened(tmp_path) as clinic:
        settings = ShellSettings().with_epsilon("1 default")
        assert str(settings) == "ε = 1, δ = default"
        ShellSession(clinic, _Confirming(), None, True, False, settings).run(BY_WARD)
        assert failure(clinic) == Fraction(1, 10**9)


@pytest.mark.parametrize("interactive", [True, False])
def test_yes_to_all_is_no_yes_to_a_delta(tmp_path: Path, interactive: bool) -> None:
    with opened(tmp_path) as clinic:
        session = ShellSession(clinic, _Confirming(), None, True, interactive, ShellSettings(epsilon="1"))
        with pytest.raises(sf.Unsupported, match="accept δ = 1e-9 with"):
            session.run(BY_WARD)
        assert not any(clinic.budget.spent.values())
