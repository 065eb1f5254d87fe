"""This is the only source of randomness: a stream cipher keyed from the operating system's entropy.

Each thread has its own AES-256-CTR stream under its own random key, so no two streams share a block. A stream is
keyed anew after a gibibyte and after a fork: a child process that inherited its parent's stream would otherwise repeat
its noise, and noise seen twice can be subtracted. There is no seed and no way to set one.

A stream is in one hand at a time: whoever draws takes it out of the thread's idle ones and puts it back afterwards.
What interrupts a draw in the same thread and draws itself (a signal handler, a finaliser) finds none idle and opens
its own, so no byte is handed out twice, wherever the interruption falls.

A source of entropy that is stuck gives the same key again, and the same noise. Every key is compared with another one
drawn just before it and with those used before in this process; equal keys are refused.
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EntropyStuck

_REKEY_AFTER = 1 << 30
_POOL = 1 << 13
_ZEROS = bytes(1 << 20)
_MOST_KEYS = 1 << 16


class Stream:
    """A stream is an endless run of random bytes, for one caller at a time."""

    def __init__(self) -> None:
        self._process = -1
        self._left = 0
        self._pool = b""
        self._next = 0
        self._encrypt: Any = None

    def take(self, count: int) -> bytes:
        """Take the next ``count`` bytes."""
        while True:
            if self._process != os.getpid() or self._left <= 0:
                self._key()
            taken = self._run(count)
            if self._process == os.getpid():  # else a handler forked meanwhile, and the parent has these bytes
                return taken

    def _run(self, count: int) -> bytes:
        """Small requests are served from a pool, large ones directly."""
        if count > _POOL // 4:
            return self._fresh(count)
        start, self._next = self._next, self._next + count
        if self._next > len(self._pool):
            self._pool = self._fresh(_POOL)
            start, self._next = 0, count
        return self._pool[start : start + count]

    def _fresh(self, count: int) -> bytes:
        self._left -= count
        if count <= len(_ZEROS):
            return bytes(self._encrypt.update(memoryview(_ZEROS)[:count]))
        whole, rest = divmod(count, len(_ZEROS))
        parts = [self._encrypt.update(_ZEROS) for _ in range(whole)]
        return b"".join([*parts, self._encrypt.update(_ZEROS[:rest])])

    def _key(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        process = os.getpid()  # before the key: a handler that forks here leaves it to the parent alone
        cipher = Cipher(algorithms.AES(_new_key()), modes.CTR(os.urandom(16)))
        self._encrypt = cipher.encryptor()
        self._left = _REKEY_AFTER
        self._pool, self._next = b"", 0
        self._process = process


_keys: dict[bytes, object] = {}
"""Fingerprints of the keys that this process, and those it was forked from, drew: the latest of them."""


def _new_key() -> bytes:
    """Draw a key that was not drawn before. Two are drawn: a stuck source is found out at its first use in every
    process.
    """
    if len(_keys) >= _MOST_KEYS:
        _keys.clear()
    for _ in range(2):
        key, mine = os.urandom(32), object()
        # One operation of the interpreter looks and writes, so two threads cannot both be first.
        if _keys.setdefault(hashlib.sha256(key).digest(), mine) is not mine:
            raise EntropyStuck
    return key


class _Streams(threading.local):
    """These are the streams of a thread that nobody is drawing from."""

    def __init__(self) -> None:
        self.idle: list[Stream] = []


_streams = _Streams()


def _forget() -> None:
    """Forget, in a child after a fork, whatever the parent's streams would have said next: it is not ours to say."""
    global _streams
    _streams = _Streams()


os.register_at_fork(after_in_child=_forget)


def _take(count: int) -> bytes:
    """Take the next ``count`` bytes of a stream that is nobody else's meanwhile."""
    idle = _streams.idle
    try:
        stream = idle.pop()
    except IndexError:
        stream = Stream()
    taken = stream.take(count)
    idle.append(stream)
    return taken


def words(count: int) -> NDArray[np.uint64]:
    """Draw independent uniform 64-bit words."""
    return np.frombuffer(_take(8 * count), np.uint64)


def shorts(count: int) -> NDArray[np.uint16]:
    """Draw independent uniform 16-bit words."""
    return np.frombuffer(_take(2 * count), np.uint16)


def integer(width: int) -> int:
    """Draw one uniform integer of ``width`` bits: whole bytes are read, and bits of the last that are not asked for
    dropped.
    """
    return int.from_bytes(_take(-(-width // 8)), "little") >> (-width % 8)


def below(limit: int) -> int:
    """Draw one uniform integer in [0, limit), by rejection."""
    while (draw := integer(limit.bit_length())) >= limit:
        pass
    return draw


def all_below(limit: int, count: int) -> NDArray[np.int64]:
    """Draw independent uniform integers in [0, limit), limit ≤ 2³¹: the high half of a product, rejecting the uneven
    rest (Lemire 2019).
    """
    found = np.empty(count, np.int64)
    todo = np.arange(count)
    uneven = np.uint64((1 << 32) % limit)
    while todo.size:
        halves = np.frombuffer(_take(4 * todo.size), np.uint32).astype(np.uint64) * np.uint64(limit)
        good = (halves & np.uint64(0xFFFFFFFF)) >= uneven
        found[todo[good]] = (halves[good] >> np.uint64(32)).astype(np.int64)
        todo = todo[~good]
    return found


def each_below(limits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw one uniform integer in [0, limit) for each of these limits, up to 2⁶³, by rejection."""
    found = np.zeros(limits.size, np.int64)
    todo = np.flatnonzero(limits > 1)
    masks = _masks(limits)
    while todo.size:
        drawn = (words(todo.size) & masks[todo]).astype(np.int64)
        good = drawn < limits[todo]
        found[todo[good]] = drawn[good]
        todo = todo[~good]
    return found


def _masks(limits: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Give for each limit the least number 2ᵏ − 1 that is no smaller than what lies below it."""
    masks = limits.astype(np.uint64) - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        masks |= masks >> np.uint64(shift)
    return masks
