"""Every command that spends takes an id, under which it is charged once however often it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run

POLICY = """
[unit]
name = "bidder"
budget = { epsilon = 9.0, delta = 1e-6 }

[tables.bids]
source = "bids.csv"
id = "who"
max_rows = 1
[tables.bids.columns]
bid = { type = "integer", bounds = [0, 20] }
other = { type = "integer", bounds = [0, 20] }
kind = { values = ["a", "b"] }
size = { values = ["s", "m"] }
"""
SESSION = ("--columns", "kind,size", "--ways", "1", "--rounds", "1", "--epsilon", "1", "--delta", "1e-9")
ASKED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "auction": (("auction", "--column", "bid", "--epsilon", "1"), ("auction", "--column", "other", "--epsilon", "1")),
    "bounds": (("bounds", "bids", "bid", "--epsilon", "1"), ("bounds", "bids", "other", "--epsilon", "1")),
    "limits": (
        ("limits", "bids", "--by", "kind", "--epsilon", "1"),
        ("limits", "bids", "--by", "size", "--epsilon", "1"),
    ),
}
OPENED = {
    "above": (("above", "--threshold", "10", "--epsilon", "1"), "SELECT COUNT(*) FROM bids"),
    "online": (
        ("online", "bids", *SESSION),
        "SELECT kind, COUNT(*) AS n FROM bids GROUP BY kind;",
    ),
}


@pytest.fixture
def market(tmp_path: Path) -> Path:
    rows = [f"{who},{who % 20},{who % 7},{'ab'[who % 2]},{'sm'[who % 2]}" for who in range(60)]
    (tmp_path / "bids.csv").write_text("\n".join(["who,bid,other,kind,size", *rows]) + "\n")
    policy = tmp_path / "market.toml"
    policy.write_text(POLICY)
    return policy


def charges(policy: Path) -> int:
    with sf.open(policy) as curator:
        return sum(line.kind in ("charge", "tab-open") for line in curator.history())


def command(policy: Path, given: tuple[str, ...], key: str) -> tuple[str | Path, ...]:
    name, *rest = given
    return (name, policy, *rest, "--request-id", key)


@pytest.mark.parametrize(
    "name", ["bounds", *(pytest.param(each, marks=pytest.mark.long) for each in ("auction", "limits"))]
)
def test_the_same_id_is_charged_once_and_names_one_question(market: Path, name: str) -> None:
    first, other = ASKED[name]
    done = run(*command(market, first, "r1"))
    assert done.exit_code == 0, done.stderr
    assert run(*command(market, first, "r1")).exit_code == 0
    assert charges(market) == 1
    refused = run(*command(market, other, "r1"))
    assert refused.exit_code == 1
    assert "used for another" in refused.stderr
    assert charges(market) == 1
    assert run(*command(market, other, "r2")).exit_code == 0
    assert charges(market) == 2


@pytest.mark.parametrize("name", OPENED)
def test_the_same_id_opens_one_session(market: Path, name: str) -> None:
    given, question = OPENED[name]
    done = run(*command(market, given, "r1"), given=question)
    assert done.exit_code == 0, done.stderr
    assert charges(market) == 1
    refused = run(*command(market, given, "r1"), given=question)
    assert refused.exit_code != 0
    assert charges(market) == 1
    assert run(*command(market, given, "r2"), given=question).exit_code == 0
    assert charges(market) == 2


def test_a_file_of_bids_has_no_account_and_takes_no_id(tmp_path: Path) -> None:
    bids = tmp_path / "bids.csv"
    bids.write_text("bid\n1\n2\n")
    refused = run("auction", bids, "--epsilon", "1", "--request-id", "r1")
    assert refused.exit_code == 2
    assert "leave out --request-id: a file of bids has no account" in refused.stderr
