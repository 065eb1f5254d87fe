"""What was written by an earlier version is read, and means what it meant: the golden ledger is never made anew."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from ledger import golden
from ledger.recomputing import wrong
from sfumato.ledger import spending
from sfumato.ledger.moving import copy_ledger

KINDS = {
    "account-open": 2,
    "source": 1,
    "share": 1,
    "charge": 17,
    "answer": 3,
    "stopped": 1,
    "tab-open": 3,
    "step": 1,
    "tab-close": 2,
    "amend": 1,
    "correction": 1,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A copy: opening a ledger keeps a log beside it."""
    copy = tmp_path / "golden.ledger"
    shutil.copy(golden.GOLDEN, copy)
    shutil.copytree(f"{golden.GOLDEN}.answers", f"{copy}.answers")
    return copy


@pytest.fixture(params=["in its file", pytest.param("moved to a database", marks=pytest.mark.long)])
def ledger(path: Path, request: pytest.FixtureRequest) -> Iterator[sf.Ledger]:
    """The golden ledger where it was written, and line by line in PostgreSQL."""
    if request.param == "in its file":
        with sf.Ledger.open(path) as ledger:
            yield ledger
        return
    from ledger.in_databases import Place

    place = Place.make(request.getfixturevalue("postgres"))
    copy_ledger(path, place.owner)
    with place.open() as ledger:
        yield ledger


def charges(ledger: sf.Ledger, account: str) -> list[sf.Line]:
    return [line for line in ledger.lines(account=account) if line.kind == "charge"]


def test_every_line_is_read_and_verified(ledger: sf.Ledger, path: Path) -> None:
    lines = list(ledger)
    assert {kind: [line.kind for line in lines].count(kind) for kind in KINDS} == KINDS
    assert len(lines) == sum(KINDS.values())
    assert ledger.verify().holds
    assert ledger.accounts == ("clinic", "survey")
    ledger.close()
    assert wrong(path) == []


def test_what_was_run_is_the_same_values_and_the_same_text(ledger: sf.Ledger) -> None:
    """The text too: a class that is renamed, or gets an optional field, is written as before."""
    wanted = {"clinic": [*golden.CENTRAL, golden.TOGETHER], "survey": list(golden.LOCAL)}
    for account, parts in wanted.items():
        for part, line in zip(parts, charges(ledger, account), strict=False):
            values = part if isinstance(part, tuple) else (part,)
            assert spending.read_parts(line.parts) == values
            assert spending.write_parts(values) == line.parts
            assert ledger.account(account).recomputed(line) == line.cost
    (opened, *_) = (line for line in ledger if line.kind == "tab-open")
    assert spending.read_parts(opened.parts) == (golden.WATCH,)
    assert (opened.cost.amounts["pure"], opened.held.pure) == (Fraction("0.15"), 0)


def test_costs_are_what_they_were(ledger: sf.Ledger) -> None:
    """In the pure currency, which the theorems give exactly; None is no bound."""
    pure = [line.cost.amounts["pure"] for line in charges(ledger, "clinic")]
    tenth, twentieth, hundredth = Fraction(1, 10), Fraction(1, 20), Fraction(1, 100)
    assert pure == [Fraction(1, 4), twentieth, None, *[tenth] * 6, twentieth, None, hundredth, hundredth]
    assert [line.cost.failure for line in charges(ledger, "clinic")] == [0] * 8 + [10**21] + [0] * 4
    assert [line.cost.amounts["pure"] for line in charges(ledger, "survey")][1:] == [tenth] * 3
    clinic = ledger.account("clinic")
    assert clinic.spent["pure"] is None
    assert clinic.epsilons == (10, 12)
    assert (clinic.budget.epsilon, clinic.budget.delta, clinic.unit) == (12, Fraction("1e-6"), golden.UNIT)
    assert ledger.account("survey", unit=golden.UNIT, budget=golden.LOCAL_BUDGET).name == "survey"


def test_answers_sources_shares_and_tabs_are_what_they_were(ledger: sf.Ledger) -> None:
    clinic = ledger.account("clinic")
    small = clinic.stored(plan="p1", data="v1", accuracy={"n": 3})
    assert small is not None
    assert (small.body, small.accuracy) == ('{"n": 12}', {"n": Fraction(5, 2), "mean": Fraction(1, 3)})
    assert clinic.requested("r1", analyst="ana", plan="p1") == small
    large = clinic.stored(plan="p2", data="v1")
    assert large is not None
    assert large.body == golden.LARGE_BODY
    assert clinic.stored(plan="p3", data="v1") is None
    assert clinic.analyst("ana").share == Fraction(1, 2)
    assert [source.path for source in clinic.sources] == ["postgresql://db/visits"]
    clinic.join("postgresql://db/visits", fingerprint="first content")  # known: nothing new is written
    assert clinic.version == 1
    with pytest.raises(sf.SourceTaken):
        ledger.account("survey").join("postgresql://db/visits", fingerprint="other")
    assert [line.question for line in clinic.open_tabs()] == ["watch"]
    given, forfeited = (line for line in ledger if line.kind == "tab-close")
    assert given.cost.amounts["pure"] == 0
    assert forfeited.cost.amounts["pure"] is None


def test_it_is_charged_further(ledger: sf.Ledger) -> None:
    clinic = ledger.account("clinic")
    before = clinic.budget
    line = clinic.charge(sf.Entry(sf.Charged(sf.Gaussian(100), 1), analyst="ana"))
    assert clinic.recomputed(line) == line.cost
    assert clinic.budget.remaining["renyi"] < before.remaining["renyi"]
    assert ledger.verify().holds


def test_a_ledger_of_this_version_has_the_same_shape(path: Path, tmp_path: Path) -> None:
    """The golden ledger and one made now differ in what is random, and in nothing else."""
    with sf.Ledger.open(tmp_path / "now") as now:
        golden.fill(now)
    drawn = ("time", "data", "salt", "previous", "hash", "detail")
    rows = []
    for file in (path, tmp_path / "now"):
        with closing(sqlite3.connect(file)) as raw:
            raw.row_factory = sqlite3.Row
            found = [dict(row) for row in raw.execute("SELECT * FROM lines ORDER BY number")]
        rows.append([{name: value for name, value in row.items() if name not in drawn} for row in found])
        assert all(row["detail"] for row in found if row["kind"] in {"account-open", "amend", "source"})
    assert rows[0] == rows[1]
