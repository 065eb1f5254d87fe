"""The same text is understood once: what is kept of it is the same for every question, and bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from sfumato.curator import curators
from sfumato.ledger.stores.sqlite import SQLiteStore
from sfumato.plan.sql import statements

COUNT = "SELECT COUNT(*) AS n FROM visits"
KINDS = "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind"


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sf.Curator]:
    pd.DataFrame({"who": range(60), "kind": ["a", "b"] * 30}).to_parquet(tmp_path / "visits.parquet")
    columns = {"kind": {"values": ["a", "b"]}}
    table = sf.Table("visits", tmp_path / "visits.parquet", columns, id="who", max_rows=1)
    unit, budget = sf.PrivacyUnit("patient"), sf.Budget(50)
    policy = sf.Policy(unit, budget, {"visits": table}, size=60, analysts={"ana": "0.5", "ben": "0.5"})
    with sf.Curator(policy, tmp_path / "l.ledger") as curator:
        yield curator


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are parsed."""
    texts: list[str] = []
    parse = statements.parse

    def noted(text: str, *more: Any) -> Any:
        texts.append(text)
        return parse(text, *more)

    monkeypatch.setattr(statements, "parse", noted)
    return texts


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the ledger is read and written."""
    counted: Counter[str] = Counter()

    def count(name: str) -> None:
        original = getattr(SQLiteStore, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(SQLiteStore, name, counting)

    count("reading")
    count("writing")
    return counted


def test_the_same_text_is_parsed_once(clinic: sf.Curator, parsed: list[str]) -> None:
    assert clinic.sql(COUNT) is clinic.sql(COUNT)
    assert clinic.sql(KINDS).query == clinic.sql(KINDS).query
    assert parsed == [COUNT, KINDS]


def test_a_question_is_kept_with_few_groups_only(clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clinic.sql(KINDS).groups == (("a",), ("b",))
    assert "groups" in clinic.sql(KINDS).__dict__
    unlisted = KINDS.replace("GROUP BY kind", "GROUP BY UPPER(kind)").replace("SELECT kind", "SELECT UPPER(kind)")
    monkeypatch.setattr(curators, "_MAX_GROUPS", 2)  # and NULL is one more
    for text in (unlisted, f"{KINDS} "):
        assert len(clinic.sql(text).groups) == 2
        assert "groups" not in clinic.sql(text).__dict__


def test_parameters_are_read_each_time(clinic: sf.Curator) -> None:
    text = "SELECT COUNT(*) AS n FROM visits WHERE kind = ?"
    assert clinic.sql(text, ["a"]).identity != clinic.sql(text, ["b"]).identity


def test_whoever_asks_the_same_text_pays_under_their_own_name(clinic: sf.Curator, parsed: list[str]) -> None:
    for curator in (clinic, clinic.as_analyst("ana"), clinic.as_analyst("ben"), clinic):
        curator.sql(COUNT).release(epsilon="0.1", fresh=True)
    lines = [line for line in clinic.history() if line.kind == "charge"]
    assert [line.analyst for line in lines] == [None, "ana", "ben", None]
    assert parsed == [COUNT]


def test_an_amended_budget_is_seen_by_a_text_that_was_asked_before(clinic: sf.Curator) -> None:
    clinic.sql(COUNT).release(epsilon=1)
    policy = clinic.policy
    amended = sf.Policy(policy.unit, sf.Budget(60), policy.tables, size=60, analysts=policy.analysts)
    clinic.amend(amended, reason="more is wanted")
    assert clinic.sql(COUNT)._context is clinic._context
    assert clinic.sql(COUNT).release(epsilon=1, fresh=True).receipt.epsilons == ("50", "60")


def test_few_and_short_texts_are_kept(clinic: sf.Curator, parsed: list[str]) -> None:
    for number in range(3 * curators._MAX_ENTRIES):
        clinic.sql(f"SELECT COUNT(*) AS n{number} FROM visits")
        assert len(clinic._recent._cache) <= curators._MAX_ENTRIES
    long = COUNT + " " * curators._MAX_TEXT_LENGTH
    clinic.sql(long)
    clinic.sql(long)
    assert parsed[-2:] == [long, long]


def test_a_text_that_is_refused_is_refused_again(clinic: sf.Curator) -> None:
    for _ in range(2):
        with pytest.raises(sf.Unsupported):
            clinic.sql("SELECT kind FROM visits, visits AS v")


def test_a_release_reads_the_ledger_at_most_once_and_writes_twice(
    clinic: sf.Curator, transactions: Counter[str]
) -> None:
    held = clinic.sql(COUNT)
    held.release(epsilon=1)
    transactions.clear()
    held.release(epsilon=1, fresh=True)  # nothing stored could be given: it is not looked for
    assert transactions == {"writing": 2}
    transactions.clear()
    held.release(epsilon=1)  # given again: found, and shown with what is left
    assert transactions == {"reading": 1}
    transactions.clear()
    clinic.sql(f"{COUNT} WHERE kind = 'a'").release(epsilon=1)  # looked for and shown in a dry run, then charged
    assert transactions == {"writing": 2, "reading": 1}
