"""No two streams share a block: across forks, spawned processes and threads."""

from __future__ import annotations

import functools
import math
import multiprocessing
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from mechanisms.recorded import recorded
from sfumato.mechanisms import bits

pytestmark = pytest.mark.entropy
BLOCKS = 64


def _blocks(_: object = None) -> list[bytes]:
    data = bits.random_uint64(2 * BLOCKS).tobytes()
    return [data[i : i + 16] for i in range(0, len(data), 16)]


def _all_different(runs: list[list[bytes]]) -> bool:
    flat = [block for run in runs for block in run]
    return len(set(flat)) == len(flat)


def _forked(count: int) -> list[list[bytes]]:
    """Children forked by hand in the middle of a stream, the parent going on beside them."""
    found = []
    for _ in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, b"".join(_blocks()))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            data = stream.read()
        os.waitpid(child, 0)
        found.append([data[i : i + 16] for i in range(0, len(data), 16)])
        found.append(_blocks())
    return found


def test_a_fork_does_not_repeat_its_parent() -> None:
    bits.random_bits(64)  # the pool is half used when the process forks
    runs = _forked(16)
    assert len(runs) == 32
    assert all(len(run) == BLOCKS for run in runs)
    assert _all_different(runs)


def test_a_broken_stream_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin without the fork hook and the process check does repeat, and this test sees it."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    stream = bits.RandomByteStream()
    stream.take(16)
    monkeypatch.setattr(bits, "_next_private_bytes", stream.take)
    assert not _all_different(_forked(2))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_sixteen_processes(method: str) -> None:
    bits.random_uint64(4)
    with multiprocessing.get_context(method).Pool(4 if method == "fork" else 2) as pool:
        assert _all_different([*pool.map(_blocks, range(16)), _blocks()])


def test_threads_have_streams_of_their_own() -> None:
    with ThreadPoolExecutor(16) as pool:
        assert _all_different(list(pool.map(_blocks, range(64))))


def test_two_interpreters_differ() -> None:
    code = "from sfumato.mechanisms import bits; print(bits.random_bits(256))"
    seen = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(seen) == 2


def test_large_requests_cross_chunks_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "_REKEY_AFTER", 1 << 20)
    stream = bits.RandomByteStream()
    data = b"".join(stream.take(n) for n in (3, (1 << 20) + 5, 7, 1 << 21, 100))
    blocks = [data[i : i + 16] for i in range(8, len(data) - 16, 16)]
    assert len(set(blocks)) == len(blocks)


# ── interruptions: whatever draws in the middle of a draw draws something else ─────────────────


Interrupt = Callable[[], None]
WHERE = ("_next_private_bytes", "take", "_take_from_pool", "_generate_bytes", "_rekey", "_new_distinct_key", "__init__")


@contextmanager
def _interrupted(step: int, interrupt: Interrupt, where: tuple[str, ...] = WHERE) -> Iterator[list[int]]:
    """Calls ``interrupt`` before the step-th instruction inside the stream's own functions, as a signal handler is."""
    seen = [0]

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename != bits.__file__ or frame.f_code.co_name not in where:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen[0] += 1
            if seen[0] == step:
                sys.settrace(None)
                interrupt()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)


def _steps_of_a_draw(draw: Callable[[], object], where: tuple[str, ...] = WHERE) -> int:
    with _interrupted(0, lambda: None, where) as seen:
        draw()
    return seen[0]


@pytest.mark.parametrize("refill", [False, True])
def test_a_handler_that_draws_gets_other_bytes_wherever_it_strikes(
    refill: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the place in the pool and moving it on, too: every instruction is tried."""
    monkeypatch.setattr(bits, "_POOL", 1 << 6)

    def ready() -> None:
        bits._streams.idle = [stream := bits.RandomByteStream()]
        stream.take(16)
        if refill:
            stream.take(16), stream.take(16), stream.take(16)

    ready()
    most = _steps_of_a_draw(lambda: bits.random_bits(128))
    assert most > 20
    for step in range(1, most + 1):
        ready()
        inside: list[int] = []
        with _interrupted(step, lambda into=inside: into.extend(bits.random_bits(128) for _ in range(3))):  # type: ignore[misc]
            outside = [bits.random_bits(128)]
        outside += [bits.random_bits(128) for _ in range(6)]
        assert len(inside) == 3
        assert len({*inside, *outside}) == 10


def test_a_stream_shared_by_both_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin that draws from one stream wherever it is interrupted hands out a block twice."""
    stream = bits.RandomByteStream()
    stream.take(16)
    monkeypatch.setattr(bits, "_next_private_bytes", stream.take)
    repeated = 0
    for step in range(1, _steps_of_a_draw(lambda: bits.random_bits(128)) + 1):
        inside: list[int] = []
        with _interrupted(step, lambda into=inside: into.append(bits.random_bits(128))):  # type: ignore[misc]
            outside = bits.random_bits(128)
        repeated += inside == [outside]
    assert repeated


def test_an_interruption_that_raises_loses_the_stream_and_repeats_nothing() -> None:
    seen = {bits.random_bits(128)}

    def stop() -> None:
        raise KeyboardInterrupt

    for step in range(1, 40):
        with pytest.raises(KeyboardInterrupt), _interrupted(step, stop):
            [bits.random_bits(128) for _ in range(2)]
        seen |= {bits.random_bits(128), bits.random_bits(128)}
    assert len(seen) == 1 + 2 * 39


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_handler_that_forks_leaves_the_bytes_to_the_parent(long: bool) -> None:
    """A child that returns into the middle of a draw draws anew; so does one that was forked while a key was made. (At
    every third step, or every eleventh where there are many; at more with --long.)
    """
    where = ("_take_from_pool", "_generate_bytes", "_rekey", "_new_distinct_key")
    for fresh in (False, True):
        bits.random_bits(128)

        def ready(fresh: bool = fresh) -> None:
            if fresh:
                bits._streams.idle = [bits.RandomByteStream()]

        ready()
        most = _steps_of_a_draw(lambda: bits.random_bits(128), where)
        for step in range(1, most + 1, (1 if long else 3) if most < 60 else 7 if long else 11):
            ready()
            reader, writer = os.pipe()
            children: list[int] = []
            with _interrupted(step, lambda to=children: to.append(os.fork()), where):  # type: ignore[misc]
                drawn = bits.random_bits(128)
            if children == [0]:
                os.write(writer, drawn.to_bytes(16, "little"))
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader, "rb") as stream:
                said = stream.read()
            os.waitpid(children[0], 0)
            assert len(said) == 16
            assert int.from_bytes(said, "little") != drawn


# ── a source of entropy that is stuck ──────────────────────────────────────────────────────────


@pytest.fixture
def no_keys_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "_keys", {})


@pytest.mark.usefixtures("no_keys_yet")
def test_a_stuck_source_is_refused_at_its_first_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"\x07" * count)
    with pytest.raises(sf.errors.EntropyStuck, match="same 256 random bits twice"):
        bits.RandomByteStream().take(1)


@pytest.mark.usefixtures("no_keys_yet")
@pytest.mark.parametrize("period", [3, 4, 50])
def test_a_source_that_comes_round_again_is_refused(period: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr(os, "urandom", lambda size: (next(calls) % period).to_bytes(size, "little"))
    with pytest.raises(sf.errors.EntropyStuck):
        [bits.RandomByteStream().take(1) for _ in range(period)]


@pytest.mark.usefixtures("no_keys_yet")
def test_a_child_that_draws_its_parent_s_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr(os, "urandom", lambda size: next(calls).to_bytes(size, "little"))
    bits.RandomByteStream().take(1)
    calls = count()  # as a machine that was copied begins again
    monkeypatch.setattr(os, "getpid", lambda: 7)
    with pytest.raises(sf.errors.EntropyStuck):
        bits.RandomByteStream().take(1)


@pytest.mark.usefixtures("no_keys_yet")
def test_many_keys_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "_MAX_KEYS", 20)
    for _ in range(50):
        bits.RandomByteStream().take(1)
        assert 2 <= len(bits._keys) <= 21


# ── whole numbers ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 53, 62, 63, 64, 65, 128, 130])
def test_an_integer_has_as_many_bits_as_were_asked_for(width: int) -> None:
    with recorded(b"\xff" * 40) as stream:
        assert bits.random_bits(width) == (1 << width) - 1
        assert len(stream.left) == 40 - math.ceil(width / 8)
    seen = [bits.random_bits(width) for _ in range(64)]
    # Every bit is 1 somewhere and 0 somewhere: one of them is not with probability below 130·2⁻⁶³.
    assert functools.reduce(operator.or_, seen) == (1 << width) - 1
    assert functools.reduce(operator.and_, seen) == 0


@pytest.mark.parametrize("limit", [3, 10, 1000, 1_000_003, (1 << 31) - 1])
def test_words_of_the_uneven_rest_are_rejected(limit: int) -> None:
    """A number's run of words is one too long or not: where it is, its first word is drawn anew, and every number is
    left exactly ⌊2³²/limit⌋ words."""
    share = (1 << 32) // limit
    for number in {0, 1, 2, limit // 2, limit - 2, limit - 1}:
        first, after = (-(-n * (1 << 32) // limit) for n in (number, number + 1))
        another = -(-((number + 1) % limit) * (1 << 32) // limit) + 1  # a word that is surely kept, for the next number
        with recorded(np.array([first, another], np.uint32).tobytes()) as stream:
            found = int(bits.random_array_below(limit, 1)[0])
            rejected = not stream.left
        assert found == ((number + 1) % limit if rejected else number)
        assert after - first - rejected == share
        with recorded(np.array([first + 1, after - 1], np.uint32).tobytes()):
            assert bits.random_array_below(limit, 2).tolist() == [number, number]


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 1000, (1 << 31) - 1])
def test_uniform_integers_stay_below_and_reach_the_ends(limit: int) -> None:
    found = bits.random_array_below(limit, 20_000)
    assert found.min() >= 0
    assert found.max() < limit
    if limit <= 10:
        assert set(found) == set(range(limit))
        counts = np.bincount(found)
        # χ² with limit − 1 degrees of freedom exceeds limit + 60 with probability below 1e-6
        assert ((counts - 20_000 / limit) ** 2 / (20_000 / limit)).sum() < limit + 60
    assert {bits.random_below(3) for _ in range(200)} == {0, 1, 2}


def test_nothing_else_in_the_sources_draws_randomness() -> None:
    root = Path(bits.__file__).parent.parent
    for path in root.rglob("*.py"):
        if path.name != "bits.py":
            assert "urandom" not in path.read_text(), path
