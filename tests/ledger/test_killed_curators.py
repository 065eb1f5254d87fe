"""What a curator wrote to a ledger that others share is remembered when it is killed, and no lost line is forgotten."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import FrameType

import pytest

import sfumato as sf
from ledger.in_databases import SPENDER, Place
from ledger.small_accounts import BEHIND, account, pure
from ledger.test_races import in_threads
from postgres_server import PostgresServer
from sfumato.errors import WeakLedger
from sfumato.ledger import local_files
from sfumato.ledger.proofs import anchors
from sfumato.ledger.stores.opening import make_ledger

pytestmark = pytest.mark.filterwarnings(BEHIND)


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


def killed_while_closing(place: Place, at: int) -> bool:
    """Whether a curator that charged 0.4 was killed before this line of what closing a ledger runs."""
    child = os.fork()
    if child == 0:
        try:
            ledger, left = place.open(), [at]
            account(ledger, sf.Budget(10**6)).charge(pure("0.4"))

            def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
                if not frame.f_code.co_filename.endswith(("guarded.py", "kept_anchors.py", "local_files.py")):
                    return None
                left[0] -= event == "line"
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return trace

            sys.settrace(trace)
            ledger.close()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_curator_that_is_killed_anywhere_while_it_closes_forgets_nothing(place: Place, long: bool) -> None:
    """The anchors of the whole ledger take the place of its own file: at each moment one of them knows its line."""
    budget = sf.Budget(10**6)
    with place.open() as ledger:
        account(ledger, budget)
    at, spent, killed = 1, Fraction(0), True
    while killed:
        with place.open() as ledger:
            before = ledger.head[0]
        killed = killed_while_closing(place, at)
        place.edit(f"DELETE FROM lines WHERE number > {before}")
        with place.open() as ledger:
            clinic = account(ledger, budget)
            with pytest.raises(sf.LedgerBehind):
                clinic.charge(pure("0.1"))
            ledger.acknowledge(reason="the standby was behind")
            assert clinic.spent["pure"] is not None
            assert clinic.spent["pure"] >= spent + Fraction(2, 5)
            spent = clinic.spent["pure"]
        at += 5 if long else 97
    assert at > 200


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


@pytest.mark.parametrize("again", [True, False])
def test_a_file_of_a_boot_before_goes_unless_it_was_written_again(place: Place, tmp_path: Path, again: bool) -> None:
    """The machine was switched off, or it is another one, with the same folder, whose process lives."""
    kill_after(place, "0.1")
    (path,) = running(tmp_path)
    _process, *written = json.loads(path.read_text())
    path.write_text(json.dumps(["another-boot pid:[1] 5 7", *written]))
    with place.open() as ledger:
        assert running(tmp_path) == []
        path.write_text(json.dumps(["another-boot pid:[1] 5 7", *written]))
        (found,) = anchors.load_process_anchors(ledger._guarded.store.anchor_paths)
        if again:
            path.unlink()
            path.write_text(json.dumps(["another-boot pid:[1] 5 7", *written]))
        with ledger._guarded.reading() as transaction:
            found.forget(ledger._guarded.store.anchor_paths, transaction)
        assert running(tmp_path) == ([path] if again else [])


def test_what_curators_on_another_machine_know_stays_known_when_their_files_go(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folder is shared. Each knows of one account, and a third, which knows of one, is killed after them."""
    with place.open() as ledger:
        account(ledger).charge(pure("0.1"))
        account(ledger, name="other").charge(pure("0.1"))
    one, two = place.open(), place.open()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(local_files, "_process_name", lambda number: f"another-boot pid:[1] {number} 77")
        account(one, name="other").charge(pure("0.5"))
        account(two).charge(pure("0.2"))
        assert len(running(tmp_path)) == 2
    kill_after(place, "0.1")
    assert len(running(tmp_path)) == 1
    place.edit("DELETE FROM lines WHERE number > 4")
    with place.open() as ledger:
        ledger.acknowledge(reason="the standby was behind")
        assert account(ledger, name="other").remaining == {"pure": Fraction(4, 10)}
        clinic = account(ledger).remaining["pure"]
        assert clinic is not None
        assert clinic <= Fraction(6, 10)


def test_what_a_killed_curator_wrote_is_known_of_another_ledger_at_its_address(place: Place) -> None:
    kill_after(place, "0.9")
    place.server.execute(f"DROP SCHEMA {place.schema} CASCADE")
    make_ledger(place.owner, spender=SPENDER)
    with place.open() as ledger, pytest.raises(sf.LedgerBehind):
        account(ledger)
    with place.open() as ledger:
        ledger.acknowledge(reason="it was lost")
        assert account(ledger).remaining == {"pure": Fraction(1, 10)}


def test_a_process_that_is_killed_knows_the_last_line_of_any_thread(place: Place) -> None:
    with place.open() as ledger:
        clinic = account(ledger)
        in_threads(4, lambda: [clinic.charge(pure("0.01")) for _ in range(5)] and 1)
        (found,) = anchors.load_process_anchors(ledger._guarded.store.anchor_paths)
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
    with pytest.warns(WeakLedger, match="could not write its anchor file"):
        clinic.charge(pure("0.1"))
    with warnings.catch_warnings(record=True) as told:
        clinic.charge(pure("0.1"))
    assert not told
    ledger.close()
    with warnings.catch_warnings():  # also where warnings are errors
        warnings.filterwarnings("ignore", "the folder for this user")
        ledger = place.open()
    account(ledger).charge(pure("0.1"))
    ledger.close()


def test_a_warning_that_cannot_be_written_fails_no_charge(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full, for the file and for the log of a server to which warnings go."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ledger = place.open()
    clinic = account(ledger)
    monkeypatch.setattr(anchors.WrittenLines, "save", full)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", full)
        clinic.charge(pure("0.1"))
    assert clinic.remaining == {"pure": Fraction(9, 10)}
    ledger.close()


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("of somebody")
    (tmp_path / "mine.partial").symlink_to(tmp_path / "other")
    with sf.Ledger.open(tmp_path / "ledger") as ledger:
        account(ledger).charge(pure("0.1"))
        ledger._guarded.memory.save(tmp_path / "mine.running")
    assert (tmp_path / "other").read_text() == "of somebody"
    assert not (tmp_path / "mine.running").is_symlink()


def test_a_ctrl_c_while_the_file_is_written_is_one_after_the_line(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.open() as ledger:
        clinic = account(ledger)

        def struck(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(anchors.WrittenLines, "save", struck)
            with pytest.raises(sf.Unanswered):
                clinic.charge(pure("0.1"))
        assert clinic.remaining == {"pure": Fraction(9, 10)}
        clinic.charge(pure("0.1"))
        assert ledger.verify().holds


# ── several curators lose lines ────────────────────────────────────────────────────────────────


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
def test_lines_that_two_curators_lost_count_for_each_of_them(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, ends: str
) -> None:
    """Both acknowledge, and the later one knows what the earlier one spent: 0.2 counts twice, on the safe side."""
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
    assert remaining(place) == Fraction(5, 100)


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
        "[1, 2, 3]",
        "[1, [[2, 3]], []]",
        json.dumps([json.loads(whole)[0], [], json.loads(whole)[2]]),
        json.dumps([*json.loads(whole)[:2], [["a"]]]),
    ):
        path.write_text(text)
        with pytest.raises(sf.LedgerUnavailable, match=r"the anchor of another process, .* cannot be read") as refused:
            place.open()
        assert refused.value.place == str(path)
    path.write_text(whole)
    place.open().close()
