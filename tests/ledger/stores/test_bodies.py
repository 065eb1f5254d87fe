"""Large answers as files beside the ledger: found again, checked, carried along, and lost alone."""

from __future__ import annotations

import csv
import json
import os
import stat
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.ledger.stores.store import LARGE_ANSWER_BYTES

BIG = json.dumps(["é" * 50] * 2000, ensure_ascii=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clinic.ledger"


def bought(ledger: sf.Ledger, plan: str, body: str) -> sf.Line:
    clinic = account(ledger)
    line = clinic.charge(pure("0.01", plan=plan, data="v", request_id=plan))
    return clinic.answer(line, body, {"n": 1})


def files(path: Path) -> list[Path]:
    return sorted(Path(f"{path}.answers").glob("*"))


def test_a_large_answer_is_a_file_named_by_its_hash_and_is_found_again(path: Path) -> None:
    with sf.Ledger.open(path) as ledger:
        line = bought(ledger, "big", BIG)
        assert (line.body, line.file) == ("", sha256(BIG.encode()).hexdigest())
        assert [file.name for file in files(path)] == [line.file]
        assert files(path)[0].read_text() == BIG
        assert stat.S_IMODE(os.stat(files(path)[0]).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(files(path)[0].parent).st_mode) == 0o700
        clinic = account(ledger)
        for found in (clinic.stored(plan="big", data="v"), clinic.requested("big")):
            assert found is not None
            assert (found.body, found.number) == (BIG, line.number)
        asked = clinic.ask(pure("0.01", plan="big", data="v"), {"n": 1}).begin()
        assert asked is not None
        assert asked.body == BIG
        assert ledger.verify().holds
    with sf.Ledger.open(path) as ledger:
        assert ledger.account("clinic").stored(plan="big", data="v").body == BIG  # type: ignore[union-attr]


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
@pytest.mark.parametrize("more", [-4, 0, 4])
def test_what_is_large_is_counted_in_bytes(path: Path, letter: str, more: int) -> None:
    body = letter * ((LARGE_ANSWER_BYTES + more) // len(letter.encode()))
    with sf.Ledger.open(path) as ledger:
        line = bought(ledger, "p", body)
        assert bool(line.file) is (more > 0)
        assert len(files(path)) == (more > 0)
        assert ledger.account("clinic").stored(plan="p", data="v").body == body  # type: ignore[union-attr]


@pytest.mark.parametrize("harm", ["missing", "changed", "cut", "a folder", "no text"])
def test_a_lost_file_loses_its_answer_and_nothing_else(path: Path, harm: str) -> None:
    with sf.Ledger.open(path) as ledger:
        lost, other = bought(ledger, "lost", BIG), bought(ledger, "other", BIG + " ")
        small = bought(ledger, "small", "1")
        file = Path(f"{path}.answers") / lost.file
        kept = file.read_bytes()
        file.unlink()
        if harm == "a folder":
            file.mkdir()
        elif harm != "missing":
            file.write_bytes({"changed": kept.replace(b"[", b"{", 1), "cut": kept[:-1], "no text": b"\xff"}[harm])
        clinic = account(ledger)
        with pytest.raises(sf.LedgerDamaged, match=f"line {lost.number} .*the file that holds this answer") as refusal:
            clinic.stored(plan="lost", data="v")
        assert "fresh=True" in str(refusal.value)
        with pytest.raises(sf.LedgerDamaged):
            clinic.requested("lost")
        with pytest.raises(sf.LedgerDamaged):
            clinic.ask(pure("0.01", plan="lost", data="v"), {}).begin()
        assert clinic.stored(plan="other", data="v").number == other.number  # type: ignore[union-attr]
        assert clinic.stored(plan="small", data="v").number == small.number  # type: ignore[union-attr]
        found = ledger.verify()
        assert (found.holds, found.bad, found.answers) == (False, lost.number, (lost.number,))
        assert f"line {lost.number}" in str(found)
        assert bought(ledger, "more", "2").kind == "answer"  # charging goes on
        assert clinic.ask(pure("0.01", plan="lost", data="v"), {}, fresh=True).begin() is None
        ledger.export("json", path.with_name("all.json"))
        bodies = {line["number"]: line["body"] for line in json.loads(path.with_name("all.json").read_text())}
        assert (bodies[lost.number], bodies[other.number], bodies[small.number]) == (None, BIG + " ", "1")
        if harm == "a folder":
            file.rmdir()
        file.write_bytes(kept)
        assert clinic.stored(plan="lost", data="v").body == BIG  # type: ignore[union-attr]
        assert ledger.verify().holds


def test_a_fault_of_the_lines_comes_before_a_lost_answer(path: Path) -> None:
    import sqlite3
    from contextlib import closing

    with sf.Ledger.open(path) as ledger:
        bought(ledger, "big", BIG)
        bought(ledger, "small", "1")
    files(path)[0].unlink()
    with closing(sqlite3.connect(path)) as raw:
        (trigger,) = raw.execute("SELECT sql FROM sqlite_schema WHERE name = 'no_update'").fetchone()
        raw.execute("DROP TRIGGER no_update")
        raw.execute("UPDATE lines SET body = '2' WHERE number = 5")
        raw.execute(trigger)
        raw.commit()
    with sf.Ledger.open(path) as ledger:
        found = ledger.verify()
        assert not found.answers
        with pytest.raises(sf.LedgerDamaged):
            bought(ledger, "more", "2")


def test_backup_and_export_carry_large_answers(path: Path) -> None:
    copy, text, table = path.with_name("copy"), path.with_name("all.json"), path.with_name("all.csv")
    with sf.Ledger.open(path) as ledger:
        line = bought(ledger, "big", BIG)
        ledger.backup(copy)
        ledger.export("json", text)
        ledger.export("csv", table)
        ledger.export("arrow", path.with_name("all.arrow"))
    assert json.loads(text.read_text())[-1]["body"] == BIG
    csv.field_size_limit(sys.maxsize)
    with table.open(newline="") as file:
        assert list(csv.DictReader(file))[-1]["body"] == BIG
    for each in files(path):
        each.unlink()
    with sf.Ledger.open(copy) as restored:
        assert restored.verify().holds
        assert restored.account("clinic").stored(plan="big", data="v").body == BIG  # type: ignore[union-attr]
        files(copy)[0].unlink()
        assert restored.verify().answers == (line.number,)


def test_an_answer_that_cannot_be_written_leaves_its_charge_without_one(path: Path) -> None:
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        line = clinic.charge(pure("0.01"))
        Path(f"{path}.answers").write_text("in the way")
        with pytest.raises(sf.LedgerUnavailable, match="large answer could not be written"):
            clinic.answer(line, BIG, {})
        assert [each.kind for each in ledger] == ["account-open", "charge"]
        Path(f"{path}.answers").unlink()
        clinic.answer(line, BIG, {})
        assert ledger.verify().holds


def test_equal_answers_share_a_file(path: Path) -> None:
    with sf.Ledger.open(path) as ledger:
        bought(ledger, "one", BIG)
        bought(ledger, "two", BIG)
        assert len(files(path)) == 1
        assert ledger.verify().holds
