"""A complete export: a ledger as JSON, made a ledger again with the same last hash, and not without somebody's word."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

import sfumato as sf
from ledger.in_databases import SPENDER, Place
from ledger.small_accounts import NEVER_AGAIN, account, pure
from ledger.test_chain import _make_busy
from postgres_server import PostgresServer
from sfumato.cli import main
from sfumato.errors import WeakLedger
from sfumato.ledger.moving import copy_ledger
from sfumato.ledger.sealed_rows import COLUMNS
from sfumato.ledger.stores import sqlite
from sfumato.ledger.stores.store import LARGE_ANSWER_BYTES


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place.make(postgres)


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """An export of a ledger with a line of every kind, and its anchor beside it; the ledger is lost."""
    _make_busy(tmp_path / "old")
    with sf.Ledger.open(tmp_path / "old") as ledger:
        clinic = ledger.account("clinic")
        for size, plan in ((LARGE_ANSWER_BYTES, "at"), (LARGE_ANSWER_BYTES + 1, "over")):
            clinic.answer(clinic.charge(pure("0.001", plan=plan, data="v")), json.dumps("x" * (size - 2)), {})
        ledger.export("json", tmp_path / "all.json", complete=True)
        ledger.anchor().save(tmp_path / "anchor")
    for path in tmp_path.glob("old*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return tmp_path / "all.json"


def head(export: Path) -> tuple[int, str]:
    number, seal = json.loads(export.read_text())["last"]
    return number, seal


@pytest.mark.parametrize("to", ["a file", "a database"])
def test_a_ledger_is_made_again_with_the_same_last_hash(lost: Path, place: Place, tmp_path: Path, to: str) -> None:
    target = tmp_path / "new" if to == "a file" else place.owner
    whole = json.loads(lost.read_text())
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        assert copy_ledger(lost, target, anchor=tmp_path / "anchor") == head(lost)
    with sf.Ledger.open(target) if to == "a file" else place.open() as ledger:
        assert ledger.verify().holds
        assert ledger.head == head(lost)
        assert [line.hash for line in ledger] == [row[COLUMNS.index("hash")] for row in whole["lines"]]
        clinic = ledger.account("clinic")
        for size, plan in ((LARGE_ANSWER_BYTES, "at"), (LARGE_ANSWER_BYTES + 1, "over")):
            assert len(clinic.stored(plan=plan, data="v").body) == size
        clinic.charge(pure("0.001"))
    with pytest.raises(sf.LedgerUnavailable, match="was moved to"):  # one export, one ledger
        copy_ledger(lost, tmp_path / "twice", anchor=tmp_path / "anchor")
    with pytest.raises(sf.LedgerUnavailable, match="was moved to"), sf.Ledger.open(f"{lost}.ledger") as ledger:
        ledger.account("clinic").charge(pure("0.001"))


def test_it_is_as_secret_as_the_ledger_and_only_json(lost: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(lost.stat().st_mode) == 0o600
    with sf.Ledger.open(tmp_path / "a") as ledger:
        account(ledger).charge(pure())
        key = ledger._guarded.store.key().hex()
        for form in ("csv", "arrow", "xml"):
            with pytest.raises(sf.InvalidParameter, match="form"):
                ledger.export(form, tmp_path / "lines", complete=True)
        ledger.export("json", tmp_path / "public")
        ledger.export("json", tmp_path / "whole", complete=True)
        with pytest.raises(sf.LedgerUnavailable, match="name a new file"):
            ledger.export("json", tmp_path / "whole", complete=True)
    salt = json.loads((tmp_path / "whole").read_text())["lines"][0][COLUMNS.index("salt")]
    for secret in (key, salt):
        assert secret in (tmp_path / "whole").read_text()
        assert secret not in (tmp_path / "public").read_text()


def test_without_a_current_anchor_its_owner_accepts_the_loss_and_that_is_written_down(
    lost: Path, tmp_path: Path
) -> None:
    with pytest.raises(sf.LedgerUnavailable, match="may lack the newest charges") as refused:
        copy_ledger(lost, tmp_path / "new")
    assert "--accept-loss" in refused.value.fix
    assert not (tmp_path / "new").exists()
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(lost, tmp_path / "new", accept_loss=True)
    with sf.Ledger.open(tmp_path / "new") as ledger:
        *_, before, last = ledger
        assert (before.number, before.hash) == head(lost)
        assert last.kind == "acknowledge"
        assert "accepts that charges which it lacks are forgotten" in last.question
        assert ledger.verify().holds


def spent(path: Path) -> Fraction:
    with sf.Ledger.open(path) as ledger:
        found = account(ledger).spent["pure"]
        assert found is not None
        return found


@pytest.mark.parametrize("more", [0, 1])
def test_an_old_export_gives_no_budget_back_that_an_anchor_knows_of(tmp_path: Path, more: int) -> None:
    """The anchor is of the export's last line, or of one line more: then it is refused, or raises the totals."""
    with sf.Ledger.open(tmp_path / "old") as ledger:
        clinic = account(ledger)
        clinic.charge(pure("0.1"))
        earlier = ledger.anchor()
        clinic.charge(pure("0.2"))
        ledger.export("json", tmp_path / "all.json", complete=True)
        for _ in range(more):
            clinic.charge(pure("0.4"))
        ledger.anchor().save(tmp_path / "anchor")
    (tmp_path / "old").unlink()
    (tmp_path / "old.anchor").unlink()
    with pytest.raises(sf.LedgerUnavailable, match="the anchor is of line 2, but the last line is 3"):
        copy_ledger(tmp_path / "all.json", tmp_path / "new", anchor=earlier)
    if more:
        with pytest.raises(sf.LedgerDamaged, match="it differs from its anchor"):
            copy_ledger(tmp_path / "all.json", tmp_path / "new", anchor=tmp_path / "anchor")
        assert not (tmp_path / "new").exists()
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "all.json", tmp_path / "new", anchor=tmp_path / "anchor", accept_loss=bool(more))
    assert spent(tmp_path / "new") == Fraction(3 + 4 * more, 10)


def test_while_the_ledger_is_here_it_is_moved_itself(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "old") as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.export("json", tmp_path / "all.json", complete=True)
        ledger.anchor().save(tmp_path / "anchor")
    for accept in (False, True):
        with pytest.raises(sf.LedgerUnavailable, match="still exists") as refused:
            copy_ledger(tmp_path / "all.json", tmp_path / "new", anchor=tmp_path / "anchor", accept_loss=accept)
        assert "copy the ledger itself" in refused.value.fix
    copy_ledger(tmp_path / "old", tmp_path / "new")
    (tmp_path / "old.anchor").unlink()  # which says so, too
    for accept in (False, True):
        with pytest.raises(sf.LedgerUnavailable, match=f"was moved to {tmp_path / 'new'}"):
            copy_ledger(tmp_path / "all.json", tmp_path / "twice", anchor=tmp_path / "anchor", accept_loss=accept)
    assert not (tmp_path / "twice").exists()


def _moved_out(place: Place, tmp_path: Path) -> None:
    """A ledger in a database is exported, charged once more, exported again, and moved to a file."""
    with place.open() as ledger:
        clinic = account(ledger)
        clinic.charge(pure("0.1"))
        ledger.anchor().save(tmp_path / "then")
        ledger.export("json", tmp_path / "old.json", complete=True)
        ledger.backup(tmp_path / "old.backup")
        clinic.charge(pure("0.4"))
        ledger.anchor().save(tmp_path / "now")
        ledger.export("json", tmp_path / "new.json", complete=True)
    copy_ledger(place.owner, tmp_path / "moved")


@pytest.mark.parametrize("source", ["old.json", "new.json", "old.backup"])
@pytest.mark.parametrize("seen", ["the server", "an anchor"])
def test_of_a_ledger_that_moved_out_of_a_database_no_export_or_backup_is_copied(
    place: Place, tmp_path: Path, source: str, seen: str
) -> None:
    """The server says so while it can be asked; then the anchor of whoever moved it does."""
    _moved_out(place, tmp_path)
    if seen == "an anchor":
        place.drop()
    else:
        shutil.rmtree(tmp_path / "state")
    before = sorted(tmp_path.iterdir())
    for accept in (False, True):
        if (seen, source) == ("the server", "old.backup"):
            continue  # a backup does not say of what it was made
        with pytest.raises(sf.LedgerUnavailable, match=f"was moved to {tmp_path / 'moved'}"):
            copy_ledger(
                tmp_path / source,
                tmp_path / "twice",
                anchor=tmp_path / ("now" if source == "new.json" else "then"),
                accept_loss=accept,
            )
    assert sorted(tmp_path.iterdir()) == before


def test_who_put_the_anchor_of_a_move_away_names_it_and_no_charge_is_forgotten(place: Place, tmp_path: Path) -> None:
    _moved_out(place, tmp_path)
    place.drop()
    moved = max((tmp_path / "state" / "sfumato" / "anchors").glob("*.anchor"))
    moved.rename(tmp_path / "kept")
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(sf.LedgerDamaged, match="it differs from its anchor"):
        copy_ledger(tmp_path / "old.json", tmp_path / "again", anchor=tmp_path / "kept")
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "old.json", tmp_path / "again", anchor=tmp_path / "kept", accept_loss=True)
    assert spent(tmp_path / "again") == Fraction(1, 2)


def test_a_backup_of_the_ledger_that_it_was_moved_to_is_copied(place: Place, tmp_path: Path) -> None:
    """It has the lines after the move, so the anchor of the move does not speak against it."""
    _moved_out(place, tmp_path)
    with sf.Ledger.open(tmp_path / "moved") as ledger:
        account(ledger).charge(pure("0.2"))
        ledger.backup(tmp_path / "backup")
        ledger.anchor().save(tmp_path / "last")
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "backup", tmp_path / "again", anchor=tmp_path / "last")
    assert spent(tmp_path / "again") == Fraction(7, 10)


@pytest.mark.parametrize("kept_in", ["a database", "a file"])
def test_an_export_that_lacks_a_line_of_which_this_user_knows_is_copied_by_who_accepts_the_loss(
    place: Place, tmp_path: Path, kept_in: str
) -> None:
    with place.open() if kept_in == "a database" else sf.Ledger.open(tmp_path / "old") as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.anchor().save(tmp_path / "then")
        ledger.export("json", tmp_path / "old.json", complete=True)
        account(ledger).charge(pure("0.4"))
    place.drop()
    (tmp_path / "old").unlink(missing_ok=True)
    with pytest.raises(sf.LedgerUnavailable, match="this backup or export lacks line 3, which this user"):
        copy_ledger(tmp_path / "old.json", tmp_path / "new", anchor=tmp_path / "then")
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "old.json", tmp_path / "new", accept_loss=True)
    assert spent(tmp_path / "new") >= Fraction(1, 2)  # two anchors of a database know of it, and it counts once or more


def test_while_its_server_does_not_let_us_look_an_export_is_refused(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.anchor().save(tmp_path / "anchor")
        ledger.export("json", tmp_path / "all.json", complete=True)
    place.server.execute(f"REVOKE USAGE ON SCHEMA {place.schema} FROM {SPENDER}")
    with pytest.raises(sf.LedgerUnavailable, match="this user may not read the old ledger"):
        copy_ledger(tmp_path / "all.json", tmp_path / "new", anchor=tmp_path / "anchor")


def test_where_its_server_does_not_answer_an_export_is_copied(place: Place, tmp_path: Path) -> None:
    """It may be destroyed, and the export all that is left."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.anchor().save(tmp_path / "anchor")
        ledger.export("json", tmp_path / "all.json", complete=True)
    there = quote(str(place.server.folder), safe="")
    text = (tmp_path / "all.json").read_text()
    assert there in text
    (tmp_path / "all.json").write_text(text.replace(there, quote(str(tmp_path / "nobody"), safe="")))
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "all.json", tmp_path / "new", anchor=tmp_path / "anchor")
    assert spent(tmp_path / "new") == Fraction(1, 10)


def test_an_export_whose_copy_broke_off_after_its_seal_is_finished_and_goes_nowhere_else(
    lost: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = sqlite._link_without_overwriting

    def full(partial: Path, target: Path) -> None:
        if target == tmp_path / "new":
            raise sf.LedgerUnavailable("the disk is full", place="here", fix="make room")
        named(partial, target)

    monkeypatch.setattr(sqlite, "_link_without_overwriting", full)
    with pytest.raises(sf.LedgerUnavailable, match="the disk is full"):
        copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor")
    with pytest.raises(sf.LedgerUnavailable, match=f"was moved to {tmp_path / 'new'}"):
        copy_ledger(lost, tmp_path / "other", anchor=tmp_path / "anchor")
    monkeypatch.setattr(sqlite, "_link_without_overwriting", named)
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        assert copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor") == head(lost)


def test_one_export_is_copied_once_at_a_time(lost: Path, tmp_path: Path) -> None:
    with open(lost, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(sf.LedgerUnavailable, match="another process is copying this export"):
            copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor")
    assert not list(tmp_path.glob("all.json?*")) + list(tmp_path.glob("new*"))
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor")


REFUSED: dict[str, Callable[[Path], object]] = {
    "beside its ledger": lambda folder: copy_ledger(folder / "here.json", folder / "new", anchor=folder / "anchor"),
    "without an anchor": lambda folder: copy_ledger(folder / "all.json", folder / "new"),
    "into a file that is there": lambda folder: copy_ledger(
        folder / "all.json", folder / "anchor", anchor=folder / "anchor"
    ),
    "and its loss accepted": lambda folder: copy_ledger(folder / "all.json", folder / "anchor", accept_loss=True),
    "of an empty file": lambda folder: copy_ledger(folder / "empty", folder / "new"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_copy_that_is_refused_leaves_nothing(lost: Path, tmp_path: Path, how: str) -> None:
    with sf.Ledger.open(tmp_path / "here") as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.export("json", tmp_path / "here.json", complete=True)
    (tmp_path / "empty").touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(sf.LedgerUnavailable):
        REFUSED[how](tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert lost in before


def test_where_its_ledger_cannot_be_read_an_export_is_refused(lost: Path, tmp_path: Path) -> None:
    """It may be locked, or of another user: as long as something is there, nobody knows."""
    (tmp_path / "old").write_text("not to be read")
    with pytest.raises(sf.LedgerUnavailable, match="the file of the old ledger cannot be read") as refused:
        copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor")
    assert "move the file away" in refused.value.fix
    (tmp_path / "old").unlink()
    with sf.Ledger.open(tmp_path / "old") as ledger:  # another one, in its place
        account(ledger)
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor")


def whole(change: Callable[[Any], object]) -> Callable[[str], str]:
    """Change the JSON value, and write it as an export does."""

    def changed(text: str) -> str:
        found = json.loads(text)
        change(found)
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in found.pop("lines"))
        last = json.dumps(found.pop("last"))
        return f'{json.dumps(found)[:-1]}, "lines": [\n{lines}\n], "last": {last}}}\n'

    return changed


def put(line: int, column: str, value: object) -> Callable[[Any], object]:
    index = len(COLUMNS) if column == "large" else COLUMNS.index(column)
    return lambda found: found["lines"][line].__setitem__(index, value)


TAMPERED: dict[str, tuple[Callable[[str], str], type[sf.SfumatoError], str]] = {
    "a cost": (whole(put(9, "cost", "0 0 0")), sf.LedgerDamaged, "hash does not match"),
    "a salt": (whole(put(9, "salt", "0" * 32)), sf.LedgerDamaged, "hash does not match"),
    "a line left out": (whole(lambda found: found["lines"].pop(9)), sf.LedgerDamaged, "line 10 is missing"),
    "the last line left out": (
        whole(lambda found: found["lines"].pop()),
        sf.LedgerUnavailable,
        "last ledger line is not the one",
    ),
    "a line twice": (
        whole(lambda found: found["lines"].insert(9, found["lines"][9])),
        sf.LedgerDamaged,
        "its number should be 11",
    ),
    "another key": (whole(lambda found: found.update(key="00" * 32)), sf.LedgerDamaged, "does not follow"),
    "no key": (whole(lambda found: found.update(key="")), sf.LedgerUnavailable, "first line"),
    "a newer form": (
        whole(lambda found: found.update({"complete-export": 2})),
        sf.LedgerUnavailable,
        "another version of Sfumato",
    ),
    "other columns": (whole(lambda found: found["columns"].pop()), sf.LedgerUnavailable, "first line"),
    "a large answer": (whole(put(-1, "large", "y")), sf.LedgerDamaged, "does not match its hash"),
    "a number as text": (whole(put(9, "number", "10")), sf.LedgerUnavailable, "has the wrong type"),
    "a number beyond 64 bits": (whole(put(9, "time", 2**63)), sf.LedgerUnavailable, "has the wrong type"),
    "half a character": (
        lambda text: text.replace('"other"', '"\\ud800"', 1),
        sf.LedgerUnavailable,
        "has the wrong type|first line",
    ),
    "a column less": (whole(lambda found: found["lines"][9].pop()), sf.LedgerUnavailable, "does not have the columns"),
    "deep brackets": (lambda text: text.replace("\n[2,", "\n" + "[" * 99_999 + "2,", 1), sf.LedgerUnavailable, "JSON"),
    "no end": (lambda text: text[: text.rindex("\n]")], sf.LedgerUnavailable, "its end is missing"),
    "half of it": (lambda text: text[: len(text) // 2], sf.LedgerUnavailable, "its end is missing"),
    "all but a byte": (lambda text: text[:-1], sf.LedgerUnavailable, "its end is missing"),
    "one byte": (lambda text: text[:1], sf.LedgerUnavailable, "JSON"),
    "another value": (lambda _: '{"a": 1}\n', sf.LedgerUnavailable, "JSON"),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_an_export_that_was_changed_or_cut_is_not_copied(lost: Path, tmp_path: Path, how: str) -> None:
    change, refusal, words = TAMPERED[how]
    lost.write_text(change(lost.read_text()))
    for accept in (False, True):
        with pytest.raises(refusal, match=words) as refused:
            copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor", accept_loss=accept)
        assert refused.value.fix
    assert not list(tmp_path.glob("all.json?*")) + list(tmp_path.glob("new*"))


def test_a_file_beside_it_that_was_not_made_of_it_is_refused(lost: Path, tmp_path: Path) -> None:
    with sf.Ledger.open(f"{lost}.ledger") as ledger:
        account(ledger).charge(pure())
    with pytest.raises(sf.LedgerUnavailable, match="the file already holds a different ledger"):
        copy_ledger(lost, tmp_path / "new", anchor=tmp_path / "anchor")


def test_commands_export_all_and_copy_it_back(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        last = ledger.head
        ledger.anchor().save(tmp_path / "anchor")
    run, out = CliRunner(), str(tmp_path / "all.json")
    assert run.invoke(main, ["ledger", "export", place.address, out, "--complete"]).exit_code == 0
    assert (
        run.invoke(main, ["ledger", "export", place.address, f"{out}2", "--complete", "--format", "csv"]).exit_code == 2
    )
    os.rename(out, tmp_path / "kept.json")
    place.drop()
    copy = ["ledger", "copy", str(tmp_path / "kept.json"), str(tmp_path / "new")]
    assert run.invoke(main, copy).exit_code == 5
    done = run.invoke(main, [*copy, "--anchor", str(tmp_path / "anchor")])
    assert done.exit_code == 0, done.output
    assert last[1] in done.output
    assert NEVER_AGAIN in done.output.replace("\n", " ")
