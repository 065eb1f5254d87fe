"""What a test draws is decided by its name, and a process that it forks draws something else."""

from __future__ import annotations

import os

import pytest

from mechanisms.recorded import keyed
from sfumato.mechanisms import bits


def test_one_name_is_one_stream() -> None:
    found = []
    for name in ("one", "one", "other"):
        with keyed(name):
            found.append([bits.random_bits(64), bits.random_uint64(5000).tolist(), bits.random_below(10**9)])
    assert found[0] == found[1] != found[2]


def test_a_test_draws_in_every_run_what_it_drew_before(request: pytest.FixtureRequest) -> None:
    """Unless it is asked for other draws, by a name or by the long run."""
    other = bool(request.config.getoption("--long") or request.config.getoption("--draws"))
    assert (bits.random_bits(32) != 4221124830) is other


def test_a_forked_child_draws_for_itself() -> None:
    with keyed("one"):
        bits.random_bits(64)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, bits.random_bits(128).to_bytes(16, "little"))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            said = int.from_bytes(stream.read(), "little")
        os.waitpid(child, 0)
        assert said != bits.random_bits(128)
