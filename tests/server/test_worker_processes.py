"""One process accepts for several, and keeps them: whoever is killed, hangs or cannot start again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from server.echoing_processes import serve
from sfumato.server.worker_processes import (
    MAX_UNCONFIRMED,
    confirm_connection,
    count_confirmed,
    hand_over,
    open_channel,
    receive_connections,
)

_SECONDS = 120


@dataclass
class Echoing:
    process: SpawnProcess
    place: tuple[str, int]
    ready: Connection

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=_SECONDS)

    def asked(self) -> int:
        """Connect, and give the number of the process that answers."""
        return _number(self.connect())

    def end(self) -> int | None:
        os.kill(self.process.pid or 0, signal.SIGTERM)
        self.process.join(_SECONDS)
        return self.process.exitcode


def _number(made: socket.socket) -> int:
    """Read which process answers; 0 where it was killed before."""
    with made:
        return int(made.recv(100) or b"0")


@contextmanager
def started(folder: Path, patience: float = _SECONDS) -> Iterator[Echoing]:
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe(duplex=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = spawning.Process(target=serve, args=(folder, listener, there, patience))
        made.start()
        there.close()
        try:
            yield Echoing(made, listener.getsockname()[:2], here)
        finally:
            made.terminate()
            made.join(_SECONDS)
            made.kill()


@pytest.fixture
def echoing(tmp_path: Path) -> Iterator[Echoing]:
    with started(tmp_path) as found:
        assert found.ready.poll(_SECONDS)
        yield found


def test_a_process_that_hangs_is_handed_a_few_and_the_others_the_rest(echoing: Echoing, tmp_path: Path) -> None:
    hung, _ = {echoing.asked() for _ in range(2)}
    os.kill(hung, signal.SIGSTOP)
    made = [echoing.connect() for _ in range(4 * MAX_UNCONFIRMED)]
    assert _number(made.pop()) != hung  # it was handed over after all the others
    os.kill(hung, signal.SIGCONT)
    tally = Tally(map(_number, made))
    assert tally[hung] == MAX_UNCONFIRMED
    assert echoing.end() == 0
    assert (tmp_path / "said").read_text() == ""  # nobody was killed


def test_where_all_hang_connections_wait_until_one_of_them_takes_them(echoing: Echoing) -> None:
    both = {echoing.asked() for _ in range(2)}
    for each in both:
        os.kill(each, signal.SIGSTOP)
    made = [echoing.connect() for _ in range(3 * MAX_UNCONFIRMED)]
    for each in both:
        os.kill(each, signal.SIGCONT)
    assert {_number(each) for each in made} == both
    assert echoing.end() == 0


def test_siblings_go_on_where_another_cannot_start_again(echoing: Echoing, tmp_path: Path) -> None:
    killed, sibling = {echoing.asked() for _ in range(2)}
    (tmp_path / "broken").touch()
    os.kill(killed, signal.SIGKILL)
    seen, deadline = set(), time.monotonic() + _SECONDS
    while not (tmp_path / "tried").exists():
        assert time.monotonic() < deadline
        with suppress(OSError):  # handed to the one that is killed
            seen.add(echoing.asked())
    seen.update(echoing.asked() for _ in range(20))
    assert seen - {0, killed} == {sibling}
    (tmp_path / "broken").unlink()
    while seen <= {0, killed, sibling}:
        assert time.monotonic() < deadline
        seen.add(echoing.asked())
    assert echoing.end() == 0


def test_who_cannot_start_at_all_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with started(tmp_path) as found:
        found.process.join(_SECONDS)
        assert found.process.exitcode == 1
        with pytest.raises(EOFError):
            found.ready.recv()


def test_a_signal_is_not_lost_while_connections_are_handed_over(echoing: Echoing) -> None:
    ended = threading.Event()

    def flood() -> None:
        while not ended.is_set():
            with suppress(OSError, ValueError):
                echoing.asked()

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for each in threads:
        each.start()
    for _ in range(20):
        echoing.asked()
    assert echoing.end() == 0
    ended.set()


@contextmanager
def not_outlived(stopped: Iterable[int]) -> Iterator[None]:
    """Kill what was stopped if a test fails: nobody else ever would."""
    try:
        yield
    except BaseException:
        for each in stopped:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        raise


@pytest.mark.parametrize("many", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_process_that_was_stopped_is_killed_when_the_time_to_end_is_over(tmp_path: Path, many: int) -> None:
    with started(tmp_path, patience=1.0) as found:
        assert found.ready.poll(_SECONDS)
        both = sorted({found.asked() for _ in range(2)})
        with not_outlived(both):
            for each in both[:many]:
                os.kill(each, signal.SIGSTOP)
            assert found.end() == 1
        assert not any(Path(f"/proc/{each}").exists() for each in both)
    said = (tmp_path / "said").read_text().splitlines()
    assert {int(line.split()[1]) for line in said} >= set(both[:many])
    assert all("did not end within 1 seconds and was killed" in line for line in said)


def test_a_second_signal_gives_no_more_time(tmp_path: Path) -> None:
    with started(tmp_path, patience=2.0) as found:
        assert found.ready.poll(_SECONDS)
        stopped, _ = {found.asked() for _ in range(2)}
        with not_outlived([stopped]):
            os.kill(stopped, signal.SIGSTOP)
            os.kill(found.process.pid or 0, signal.SIGTERM)
            for _ in range(2 * _SECONDS):  # again, before the time to end is over
                found.process.join(0.5)
                if found.process.exitcode is not None:
                    break
                with suppress(ProcessLookupError):
                    os.kill(found.process.pid or 0, signal.SIGTERM)
        assert found.process.exitcode in (1, -signal.SIGTERM)  # told again while Python itself ends


def test_a_signal_that_comes_before_anybody_answers_ends_it_well(tmp_path: Path) -> None:
    with started(tmp_path) as found:
        children = Path(f"/proc/{found.process.pid}/task/{found.process.pid}/children")
        deadline = time.monotonic() + _SECONDS
        while len(children.read_text().split()) < 2:
            assert time.monotonic() < deadline
        assert found.end() in (0, 1)  # 1 where a child was told while Python itself started


def test_what_is_handed_over_is_counted_until_it_is_confirmed() -> None:
    here, there = open_channel()
    one, other = socket.socketpair()
    with here, there, one, other:
        assert count_confirmed(here) == 0
        assert hand_over(one, here)
        (taken,) = receive_connections(there)
        with taken:
            taken.sendall(b"x")
        assert other.recv(1) == b"x"
        assert count_confirmed(here) == 0
        confirm_connection(there)
        confirm_connection(there)
        assert count_confirmed(here) == 2
        there.close()
        assert not hand_over(one, here)
