"""The private seam: a stream of chosen bytes in place of the random one, for this thread and this block only."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.mechanisms import bits


class Recorded:
    """Chosen bytes first, then true randomness for whatever refinement asks beyond them."""

    def __init__(self, chosen: bytes) -> None:
        self.left = chosen
        self.beyond = 0
        self._random = bits.RandomByteStream()

    def take(self, count: int) -> bytes:
        taken, self.left = self.left[:count], self.left[count:]
        self.beyond += count - len(taken)
        return taken + self._random.take(count - len(taken)) if len(taken) < count else taken


class Seeded:
    """The same bytes in every run: what is seen by chance is seen always, or never."""

    def __init__(self, seed: int) -> None:
        self.take = np.random.default_rng(seed).bytes


class Keyed(bits.RandomByteStream):
    """A stream like any other, but that its keys are decided by a name; a child that was forked meanwhile draws its
    keys from the system's entropy.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._owner, self._keys = name, os.getpid(), 0

    def _rekey(self) -> None:
        super()._rekey()
        if self._process == self._owner:
            self._keys += 1
            key = hashlib.sha256(f"{self._keys} {self._name}".encode()).digest()
            self._encrypt = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


@contextmanager
def recorded(chosen: bytes) -> Iterator[Recorded]:
    stream = Recorded(chosen)
    with _drawn_from(stream):
        yield stream


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Around a block, or above a test: for figures that a sound sampler misses more often than once in a million."""
    with _drawn_from(Seeded(seed)):
        yield


@contextmanager
def keyed(name: str) -> Iterator[None]:
    """Around every test: the same name, the same noise."""
    with _drawn_from(Keyed(name)):
        yield


@contextmanager
def _drawn_from(stream: Recorded | Seeded | Keyed) -> Iterator[None]:
    before = bits._streams.idle
    bits._streams.idle = [stream]  # type: ignore[list-item]
    try:
        yield
    finally:
        bits._streams.idle = before


def words(*values: int) -> bytes:
    return np.array(values, np.uint64).tobytes()
