"""Attacks from the command line: by name, on a policy, and as a game at a terminal."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import pytest

from cli.running import run
from cli.terminal import ENTER, Terminal
from sfumato import attacks
from sfumato.attacks.game import NAMES
from sfumato.cli.commands.audit import ATTACKS
from sfumato.release.answers.web_pages import is_self_contained

POLICY = """
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
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "people.toml"
    path.write_text(POLICY)
    return path


def test_every_name_is_an_attack_with_a_price() -> None:
    shown = run("attack", "--help").output
    for name, function in ATTACKS.items():
        assert name in shown
        assert "epsilon" in inspect.signature(getattr(attacks, function)).parameters


def test_an_attack_is_told_drawn_and_written_as_json(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    told = run("attack", "linkage", "--epsilon", "0.5", "--plot", picture)
    assert told.exit_code == 0
    assert "private, ε = 0.5" in told.output
    assert "<svg" in picture.read_text()
    assert attacks.Findings.from_json(run("attack", "linkage", "--json").stdout).holds


def test_an_attack_is_made_for_the_neighbours_that_are_named() -> None:
    """A price for add-remove neighbours promises less about a value, so its ceiling is higher."""
    told = [run("attack", "linkage", "--neighbours", each, "--json") for each in ("replace", "add-remove")]
    assert [each.exit_code for each in told] == [0, 0]
    replaced, added = (attacks.Findings.from_json(each.stdout)["private"].ceiling or 0 for each in told)
    assert 0 < replaced < added < 1


@pytest.mark.parametrize("name", ["membership", pytest.param("attribute", marks=pytest.mark.long)])
def test_membership_and_attribute_are_for_either_relation(name: str) -> None:
    done = run("attack", name, "--neighbours", "replace", "--epsilon", "0.5")
    assert done.exit_code == 0
    assert "private, ε = 0.5" in done.output


def test_the_help_says_which_attacks_know_both_relations() -> None:
    known = [each for each in ATTACKS if "neighbours" in inspect.signature(getattr(attacks, ATTACKS[each])).parameters]
    assert f"With --neighbours: {', '.join(known)}\n" in run("attack", "--help").output


def test_a_policy_is_attacked_and_its_page_written(policy: Path) -> None:
    page = policy.parent / "attack.html"
    done = run("attack", policy, "--runs", "20", "--html", page)
    assert done.exit_code == 0
    assert "people.sex, exact" in done.output
    assert is_self_contained(page.read_text())
    assert sorted(each.name for each in policy.parent.iterdir()) == ["attack.html", "people.toml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name an attack or a policy"),
        (("nothing",), "neither an attack"),
        (("Differencin",), "did you mean differencing?"),
        (("nothing.toml",), "no such policy file"),
        (("linkage", "--runs", "30"), "leave out --runs: it can only be used with a POLICY"),
        (("linkage", "--epsilon", "0"), "--epsilon must be"),
        (("linkage", "--plot", "picture.pdf"), "a file that ends in .svg"),
        (("linkage", "--rounds", "3"), "leave out --rounds: it can only be used with --play"),
        (("--play", "linkage"), "leave out NAME or POLICY: it cannot be combined with --play"),
        (("--play", "--rounds", "0"), "--rounds must be"),
        (("POLICY", "--epsilon", "1"), "leave out --epsilon: it can only be used with the NAME of an attack"),
        (
            ("POLICY", "--neighbours", "replace"),
            "leave out --neighbours: it can only be used with the NAME of an attack",
        ),
        (
            ("differencing", "--neighbours", "replace"),
            "leave out --neighbours: the attack differencing",
        ),
        (("linkage", "--minutes", "3"), "leave out --minutes: it can only be used with a POLICY"),
        (("POLICY", "--minutes", "0"), "--minutes must be"),
        (("POLICY", "--runs", "19"), "--runs must be between 20"),
        (("POLICY", "--column", "age"), "people.sex"),
        (("POLICY", "--column", "sex", "--column", "age"), "people.sex"),
        (("POLICY", "--html", "page.txt"), "the page must be an .html file"),
        (("POLICY", "--html", "PLACE"), "the page must be an .html file"),
    ],
)
def test_bad_input_is_refused(policy: Path, arguments: tuple[str, ...], said: str) -> None:
    places = {"POLICY": policy, "PLACE": policy.parent / "missing" / "page.html"}
    done = run("attack", *(places.get(each, each) for each in arguments))
    assert done.exit_code in (1, 2)
    assert said in done.output


def test_two_exact_counts_win_every_round_at_a_terminal() -> None:
    with Terminal("attack", "--play", "--rounds", "3", environment=dict(os.environ)) as terminal:
        for _ in range(3):
            name = _asked(terminal)
            counts = [_count(terminal, words) for words in ("all", f"all but {name}")]
            terminal.type(f"guess {'yes' if counts[0] > counts[1] else 'no'}{ENTER}")
            terminal.expect("Right.")
        terminal.expect("You were right in 3 of 3 rounds.")
        assert terminal.ends() == 0


def test_a_private_budget_ends_and_whoever_quits_has_not_played_the_rest() -> None:
    with Terminal(
        "attack", "--play", "--against", "private", "--rounds", "2", environment=dict(os.environ)
    ) as terminal:
        _asked(terminal)
        for _ in range(4):
            _count(terminal, "all")
        terminal.type(f"count all{ENTER}")
        terminal.expect("The budget of this round is spent: make your guess.")
        terminal.type(f"count zed{ENTER}")
        terminal.expect("names, a ward")
        terminal.type(f"what?{ENTER}")
        terminal.expect("count WHO")
        terminal.type(f"quit{ENTER}")
        terminal.expect("2 not played")
        assert terminal.ends() == 0


def _asked(terminal: Terminal) -> str:
    shown = terminal.expect("have the secret?")
    name = re.findall(r"does (\w+) have the secret", shown)[-1]
    assert name in NAMES
    return str(name)


def _count(terminal: Terminal, words: str) -> int:
    terminal.expect("> ")
    terminal.type(f"count {words}{ENTER}")
    terminal.expect(f"count {words}\n")
    return int(terminal.expect("\n"))
