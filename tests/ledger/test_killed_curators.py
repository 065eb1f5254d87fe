"""What a curator wrote to a ledger that others share is remembered when it is killed, and lost lines count once."""

from __future__ import annotations

import json
import os
import signal
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from ledger.in_databases import Place
from ledger.small_accounts import account, pure
from ledger.test_races import in_threads
from postgres_server import PostgresServer
from sfumato.errors import WeakLedger
from sfumato.ledger.proofs import kept_anchors


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place.make(postgres)


def kill_after(place: Place, amount: str, name: str = "clinic") -> None:
    """A curator opens the ledger, charges once, and is killed."""
    child = os.fork()
    if child == 0:
        try:
            account(place.open(), name=name).charge(pure(amount))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def running(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state" / "sfumato" / "anchors").glob("*.running"))


def test_what_a_killed_curator_wrote_is_not_forgotten(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
    kill_after(place, "0.4")
    assert len(running(tmp_path)) == 1
    place.edit("DELETE FROM lines WHERE number = 3")
    for _ in range(2):  # closing it forgets nothing either
        with place.open() as ledger, pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
    with place.open() as ledger:
        ledger.acknowledge(reason="the standby was behind")
        assert account(ledger).remaining == {"pure": Fraction(1, 2)}
        account(ledger).charge(pure("0.1"))
        assert ledger.verify().holds
    assert running(tmp_path) == []


def test_the_file_of_a_process_goes_when_another_anchor_knows_as_much(place: Place, tmp_path: Path) -> None:
    kill_after(place, "0.1")
    kill_after(place, "0.1")  # it has written a line, so the first one's is there
    assert len(running(tmp_path)) == 1
    with place.open() as one:
        account(one).charge(pure("0.1"))
        two = place.open()
        account(two).charge(pure("0.1"))
        assert len(running(tmp_path)) == 2  # each its own, of one process that lives
        assert {path.stat().st_mode & 0o777 for path in running(tmp_path)} == {0o600}
        for _ in range(2):
            account(one).charge(pure("0.1"))
        assert len(running(tmp_path)) == 2
        two.close()
    assert running(tmp_path) == []


def test_a_file_of_a_boot_before_goes_unless_it_was_written_again(place: Place, tmp_path: Path) -> None:
    """The machine was switched off, or it is another one, with the same folder, whose process lives."""
    for again in (True, False):
        kill_after(place, "0.1")
        (path,) = running(tmp_path)
        written = json.loads(path.read_text())
        path.write_text(json.dumps(["another-boot pid:[1] 5 7", *written[1:]]))
        with place.open() as ledger:
            if again:
                path.unlink()
                path.write_text(json.dumps(["another-boot pid:[1] 5 7", *written[1:]]))
            account(ledger).charge(pure("0.1"))
            assert path.exists() is again
        path.unlink(missing_ok=True)


def test_a_process_that_is_killed_knows_the_last_line_of_any_thread(place: Place) -> None:
    with place.open() as ledger:
        clinic = account(ledger)
        in_threads(4, lambda: [clinic.charge(pure("0.01")) for _ in range(5)] and 1)
        (found,) = kept_anchors.running(ledger._guarded.store.anchor_places[0])
        assert (found.anchor.number, found.anchor.hash) == ledger.head
        assert found.anchor.accounts[0].total == ledger.anchor().accounts[0].total


def test_a_child_keeps_a_file_of_its_own(place: Place, tmp_path: Path) -> None:
    with place.open() as ledger:
        clinic = account(ledger)
        clinic.charge(pure("0.1"))
        child = os.fork()
        if child == 0:
            clinic.charge(pure("0.1"))
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(running(tmp_path)) == 2
        clinic.charge(pure("0.1"))


def test_a_file_that_cannot_be_written_fails_no_charge_and_is_told_once(place: Place, tmp_path: Path) -> None:
    ledger = place.open()
    clinic = account(ledger)
    for path in running(tmp_path):
        path.unlink()
    (tmp_path / "state" / "sfumato" / "anchors").rmdir()
    (tmp_path / "state" / "sfumato" / "anchors").write_text("in the way")
    with pytest.warns(WeakLedger, match="could not be kept in a file"):
        clinic.charge(pure("0.1"))
    with warnings.catch_warnings(record=True) as told:
        clinic.charge(pure("0.1"))
    assert not told
    ledger.close()
    with warnings.catch_warnings():  # also where warnings are errors
        warnings.filterwarnings("ignore", "the folder in which")
        ledger = place.open()
    account(ledger).charge(pure("0.1"))
    ledger.close()


def test_a_ctrl_c_while_the_file_is_written_is_one_after_the_line(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.open() as ledger:
        clinic = account(ledger)

        def struck(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(kept_anchors.Memory, "save", struck)
            with pytest.raises(sf.Unanswered):
                clinic.charge(pure("0.1"))
        assert clinic.remaining == {"pure": Fraction(9, 10)}
        clinic.charge(pure("0.1"))
        assert ledger.verify().holds


# ── lost lines count once ──────────────────────────────────────────────────────────────────────


def remaining(place: Place) -> Fraction:
    with place.open() as ledger:
        found = account(ledger).remaining["pure"]
        assert found is not None
        return found


def as_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Another user, or machine: other anchors are kept there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))


@pytest.mark.parametrize("order", ["one two", "two one"])
@pytest.mark.parametrize("ends", ["closed", "killed"])
def test_lines_that_two_curators_lost_count_once(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, ends: str
) -> None:
    """Both acknowledge: what one of them has added, the other, who knows of those lines, does not add again."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
    for name, amount in (("one", "0.2"), ("two", "0.4")):
        as_user(tmp_path, monkeypatch, name)
        if ends == "killed":
            kill_after(place, amount)
        else:
            with place.open() as ledger:
                account(ledger).charge(pure(amount))
    place.edit("DELETE FROM lines WHERE number > 2")
    as_user(tmp_path, monkeypatch, "nobody")
    with place.open() as ledger:
        account(ledger).charge(pure("0.05"))  # nobody told them; it counts on top
    for name in order.split(" "):
        as_user(tmp_path, monkeypatch, name)
        with place.open() as ledger:
            with pytest.raises(sf.LedgerBehind):
                account(ledger).charge(pure("0.01"))
            ledger.acknowledge(reason="the standby was behind")
            assert ledger.verify().holds
    assert remaining(place) == Fraction(25, 100)


@pytest.mark.parametrize("order", ["one two", "two one"])
def test_what_only_one_of_two_curators_knows_is_not_left_out(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """The later anchor knows the line of the earlier one, and not what it cost another account."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        account(ledger, name="other").charge(pure("0.1"))
    for name, which, amount in (("one", "other", "0.2"), ("two", "clinic", "0.4")):
        as_user(tmp_path, monkeypatch, name)
        kill_after(place, amount, which)
    place.edit("DELETE FROM lines WHERE number > 4")
    for name in order.split(" "):
        as_user(tmp_path, monkeypatch, name)
        with place.open() as ledger:
            ledger.acknowledge(reason="the standby was behind")
            assert ledger.verify().holds
    with place.open() as ledger:
        assert account(ledger).remaining == {"pure": Fraction(5, 10)}
        assert account(ledger, name="other").remaining == {"pure": Fraction(7, 10)}


def test_a_curator_that_runs_goes_on_when_another_has_acknowledged_its_lines(place: Place) -> None:
    with place.open() as one, place.open() as two:
        account(one).charge(pure("0.1"))
        account(one).charge(pure("0.4"))
        place.edit("DELETE FROM lines WHERE number = 3")
        with pytest.raises(sf.LedgerBehind):
            account(one).charge(pure("0.1"))
        with place.open() as owner:
            owner.acknowledge(reason="the standby was behind")
        account(one).charge(pure("0.1"))
        account(two).charge(pure("0.1"))
        assert account(one).remaining == {"pure": Fraction(3, 10)}
        place.edit("DELETE FROM lines WHERE number = 5")
        with pytest.raises(sf.LedgerBehind):
            account(two).charge(pure("0.1"))
        two.acknowledge(reason="by who wrote it, while it runs")
        assert account(two).remaining == {"pure": Fraction(3, 10)}


def test_a_running_file_that_cannot_be_read_is_a_clear_refusal(place: Place, tmp_path: Path) -> None:
    kill_after(place, "0.1")
    (path,) = running(tmp_path)
    whole = path.read_text()
    nameless = json.dumps(["x", *json.loads(whole)[1:]])
    for text in (
        "",
        "x",
        whole[:-1],
        nameless,
        "[1, 2, 3, 4, 5]",
        "[1, [2, 3], [], [], 5]",
        '["p", [2, "x"], [], [["a"]], ""]',
    ):
        path.write_text(text)
        with pytest.raises(sf.LedgerUnavailable, match="the running file of a process cannot be read") as refused:
            place.open()
        assert refused.value.place == str(path)
    path.write_text(whole)
    place.open().close()
