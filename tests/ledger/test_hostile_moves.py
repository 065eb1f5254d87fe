"""Hostile histories of ledgers that move or are lost: whoever knows of a charge does not let it be spent again."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from ledger.in_databases import SPENDER, Place
from ledger.small_accounts import BEHIND, NEVER_AGAIN, account, pure
from postgres_server import PostgresServer
from sfumato.errors import WeakLedger
from sfumato.ledger.moving import copy_ledger
from sfumato.ledger.stores.opening import make_ledger

pytestmark = pytest.mark.filterwarnings(BEHIND)


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place.make(postgres)


@pytest.fixture
def as_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Become a user, or go to a machine, with anchors of their own."""
    return lambda name: monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))


def spent(ledger: sf.Ledger) -> Fraction:
    found = account(ledger).spent["pure"]
    assert found is not None
    return found


def lose(place: Place, after: int) -> None:
    """What a failover to a standby that was behind, or an old backup, does."""
    place.edit(f"DELETE FROM lines WHERE number > {after}")


@pytest.mark.parametrize("to", ["a file", "a database"])
@pytest.mark.parametrize("charged", [False, True])
def test_what_a_curator_knew_of_the_old_place_counts_at_the_new_one(
    place: Place, postgres: PostgresServer, tmp_path: Path, as_user: Callable[[str], None], to: str, charged: bool
) -> None:
    """A failover forgets a line; the owner, who knows nothing of it, moves the ledger before its curator is back."""
    as_user("curator")
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        before = ledger.head[0]
        account(ledger).charge(pure("0.4"))
    lose(place, before)
    as_user("owner")
    other = Place.make(postgres)
    target = tmp_path / "file" if to == "a file" else other.owner
    copy_ledger(place.owner, target)
    open_new = (lambda: sf.Ledger.open(target)) if to == "a file" else other.open
    if charged:
        with open_new() as ledger:
            account(ledger).charge(pure("0.2"))
    as_user("curator")
    with open_new() as ledger:
        with pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
        ledger.acknowledge(reason="a failover forgot it, and then it was moved")
        assert spent(ledger) >= Fraction(5 + 2 * charged, 10)
    with open_new() as ledger:
        assert ledger.lost() == ()
        account(ledger).charge(pure("0.01"))
        assert ledger.verify().holds


@pytest.mark.parametrize("charged", [False, True])
def test_a_ledger_that_moved_and_lost_its_seal_is_not_charged_by_who_moved_it(
    place: Place, tmp_path: Path, as_user: Callable[[str], None], charged: bool
) -> None:
    """A failover takes the line that sealed it; others, who know nothing of that, may have charged it since."""
    as_user("owner")
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        last = ledger.head[0]
    copy_ledger(place.owner, tmp_path / "new")
    lose(place, last)
    if charged:
        as_user("stranger")
        with place.open() as ledger:
            account(ledger).charge(pure("0.2"))
        as_user("owner")
    with place.open() as ledger:
        with pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
        with pytest.raises(sf.LedgerUnavailable, match=f"was moved to {tmp_path / 'new'} and has lost the line"):
            ledger.acknowledge(reason="a failover")
    with sf.Ledger.open(tmp_path / "new") as ledger:
        account(ledger).charge(pure("0.1"))


def move_and_be_killed(place: Place, target: Path | str) -> None:
    """The owner moves the ledger, and is killed before it closes the old one: its own file alone knows of the seal."""
    child = os.fork()
    if child == 0:
        try:
            sf.Ledger.close = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
            copy_ledger(place.owner, target)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("to", ["a file", pytest.param("a database", marks=pytest.mark.long)])
def test_who_was_killed_after_moving_a_ledger_charges_the_new_one_and_never_the_old(
    place: Place, postgres: PostgresServer, tmp_path: Path, to: str
) -> None:
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        last = ledger.head[0]
    other = Place.make(postgres)
    move_and_be_killed(place, tmp_path / "new" if to == "a file" else other.owner)
    open_new = (lambda: sf.Ledger.open(tmp_path / "new")) if to == "a file" else other.open
    for _ in range(2):
        with open_new() as ledger:
            assert ledger.lost() == ()
            account(ledger).charge(pure("0.1"))
    lose(place, last)
    with place.open() as ledger:
        with pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
        with pytest.raises(sf.LedgerUnavailable, match="and has lost the line that records the move"):
            ledger.acknowledge(reason="a failover")


def test_what_is_kept_by_who_was_killed_after_moving_a_ledger_refuses_its_backup_and_can_be_named(
    place: Place, tmp_path: Path
) -> None:
    """The ledger, and the one that it was moved to, are destroyed."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.backup(tmp_path / "backup")
        account(ledger).charge(pure("0.4"))
    move_and_be_killed(place, tmp_path / "new")
    place.drop()
    (tmp_path / "new").unlink()
    with pytest.raises(sf.LedgerUnavailable, match=f"was moved to {tmp_path / 'new'}") as refused:
        copy_ledger(tmp_path / "backup", tmp_path / "again", accept_loss=True)
    assert refused.value.place is not None
    kept = Path(refused.value.place)
    assert kept.suffix == ".running"
    shutil.move(kept, tmp_path / "kept.running")
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "backup", tmp_path / "again", anchor=tmp_path / "kept.running", accept_loss=True)
    with sf.Ledger.open(tmp_path / "again") as ledger:
        assert spent(ledger) >= Fraction(1, 2)


def test_a_ledger_that_moves_there_and_back_to_its_address_is_charged_again(place: Place, tmp_path: Path) -> None:
    """The anchor of the address knows the line that sealed the old one, which no other ledger has."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
    copy_ledger(place.owner, tmp_path / "between")
    with sf.Ledger.open(tmp_path / "between") as ledger:
        account(ledger).charge(pure("0.2"))
    place.drop()
    make_ledger(place.owner, spender=SPENDER)
    copy_ledger(tmp_path / "between", place.owner)
    with place.open() as ledger:
        ledger.acknowledge(reason="it is back, and the anchor is of the one that was here")
        assert spent(ledger) == Fraction(3, 10)
        account(ledger).charge(pure("0.1"))
        assert ledger.verify().holds


def test_a_clone_at_another_address_is_behind_for_who_charged_the_first(place: Place, postgres: PostgresServer) -> None:
    """A dump that is restored beside its database has the same id, and is another budget."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
    clone = Place.make(postgres)
    for table in ("lines", "book"):
        clone.edit(f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM {place.schema}.{table}")
    with clone.open() as ledger:
        account(ledger).charge(pure("0.2"))
    with place.open() as ledger, pytest.raises(sf.LedgerBehind):
        account(ledger).charge(pure("0.4"))


def test_an_old_backup_of_a_database_is_behind_for_who_charged_it_since(place: Place, tmp_path: Path) -> None:
    """Opened as it is, without being copied."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.backup(tmp_path / "backup")
        account(ledger).charge(pure("0.4"))
    place.drop()
    with sf.Ledger.open(tmp_path / "backup") as ledger:
        with pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
        ledger.acknowledge(reason="the server is destroyed")
        assert spent(ledger) >= Fraction(1, 2)


def test_a_file_of_another_ledger_that_cannot_be_read_stops_nobody(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "sfumato" / "anchors"
    folder.mkdir(parents=True)
    (folder / "0123.anchor").write_text("{")
    (folder / "0123.at-45.67.running").write_text("[")
    with sf.Ledger.open(tmp_path / "file") as ledger:
        account(ledger).charge(pure("0.1"))
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.backup(tmp_path / "backup")
        ledger.anchor().save(tmp_path / "anchor")
    with pytest.raises(sf.LedgerUnavailable, match="cannot be read"):  # it may be of this one
        copy_ledger(tmp_path / "backup", tmp_path / "new", anchor=tmp_path / "anchor")
    shutil.rmtree(folder)
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "backup", tmp_path / "new", anchor=tmp_path / "anchor")


def test_a_clock_that_steps_back_gives_nothing_back(place: Place) -> None:
    """The server's clock is a year behind the last line: times never fall, and what was spent has no time."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
    last = place.rows()[-1]
    later = last._replace(time=last.time + 365 * 86_400 * 10**6)
    place.edit(f"UPDATE lines SET time = {later.time}, hash = '{later.compute_seal()}' WHERE number = {later.number}")
    shutil.rmtree(os.environ["XDG_STATE_HOME"])  # the line is made up: no anchor knows it
    with place.open() as ledger:
        account(ledger).charge(pure("0.9"))
        with pytest.raises(sf.Overspent):
            account(ledger).charge(pure("0.1"))
        assert place.rows()[-1].time == later.time
        assert ledger.verify().holds


def test_a_child_that_charges_after_its_parents_loss_forgets_nothing(place: Place) -> None:
    """A parent's lines are lost while its child runs: neither charges before that is acknowledged."""
    with place.open() as ledger:
        clinic = account(ledger)
        before = ledger.head[0]
        clinic.charge(pure("0.4"))
        lose(place, before)
        child = os.fork()
        if not child:
            try:
                clinic.charge(pure("0.1"))
            except sf.LedgerBehind:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with pytest.raises(sf.LedgerBehind):
            clinic.charge(pure("0.1"))
        ledger.acknowledge(reason="lost")
        assert spent(ledger) == Fraction(2, 5)
