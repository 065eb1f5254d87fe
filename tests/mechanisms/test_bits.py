"""No two streams share a block: across forks, spawned processes and threads."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sfumato.mechanisms import bits

BLOCKS = 64


def _blocks(_: object = None) -> list[bytes]:
    data = bits.words(2 * BLOCKS).tobytes()
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
    bits.integer(64)  # the pool is half used when the process forks
    runs = _forked(16)
    assert len(runs) == 32
    assert all(len(run) == BLOCKS for run in runs)
    assert _all_different(runs)


def test_a_broken_stream_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin without the fork hook and the process check does repeat, and this test sees it."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    stream = bits.Stream()
    stream.take(16)
    monkeypatch.setattr(bits, "_stream", lambda: stream)
    assert not _all_different(_forked(2))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_sixteen_processes(method: str) -> None:
    bits.words(4)
    with multiprocessing.get_context(method).Pool(4) as pool:
        assert _all_different([*pool.map(_blocks, range(16)), _blocks()])


def test_threads_have_streams_of_their_own() -> None:
    with ThreadPoolExecutor(16) as pool:
        assert _all_different(list(pool.map(_blocks, range(64))))


def test_two_interpreters_differ() -> None:
    code = "from sfumato.mechanisms import bits; print(bits.integer(256))"
    seen = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(seen) == 2


def test_large_requests_cross_chunks_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "_REKEY_AFTER", 1 << 20)
    stream = bits.Stream()
    data = b"".join(stream.take(n) for n in (3, (1 << 20) + 5, 7, 1 << 21, 100))
    blocks = [data[i : i + 16] for i in range(8, len(data) - 16, 16)]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 1000, (1 << 31) - 1])
def test_uniform_integers_stay_below_and_reach_the_ends(limit: int) -> None:
    found = bits.all_below(limit, 20_000)
    assert found.min() >= 0
    assert found.max() < limit
    if limit <= 10:
        assert set(found) == set(range(limit))
        counts = np.bincount(found)
        # χ² with limit − 1 degrees of freedom exceeds limit + 60 with probability below 1e-6
        assert ((counts - 20_000 / limit) ** 2 / (20_000 / limit)).sum() < limit + 60
    assert {bits.below(3) for _ in range(200)} == {0, 1, 2}


def test_nothing_else_in_the_sources_draws_randomness() -> None:
    root = Path(bits.__file__).parent.parent
    for path in root.rglob("*.py"):
        if path.name != "bits.py":
            assert "urandom" not in path.read_text(), path
