"""The only source of randomness: a stream cipher keyed from the operating system's entropy.

Each thread has its own AES-256-CTR stream under its own random key, so no two streams share a block. A stream is
keyed anew after a gibibyte and after a fork: a child process that inherited its parent's stream would otherwise repeat
its noise, and noise seen twice can be subtracted. There is no seed and no way to set one.

Four functions take another source of bytes as an argument: rows drawn from a released model may be repeatable
(``publish.sampling``). Noise is drawn by callers that have no such argument, and nothing here is ever replaced.

A stream has one user at a time: a draw takes it from the thread's idle streams and puts it back afterwards. Code that
interrupts a draw in the same thread and draws itself (a signal handler, a finaliser) finds none idle and opens its own,
so no byte is used twice, wherever the interruption falls.

A source of entropy that is stuck gives the same key again, and the same noise. Every key is compared with another one
drawn just before it and with those used before in this process; equal keys are refused.

*Exact decisions.* A uniform V in (0, 1) starts as its first n bits, v: it lies in [v, v+1)/2ⁿ. A question about V (is
it below p? what is ⌊b·(C − ln V)⌋?) is answered as soon as the whole interval agrees; otherwise 64 more bits are drawn
and the arithmetic gets more digits. No probability is ever rounded. This is the slow, exact path: the vectorised
samplers decide all but a few draws in a million by floating point with a proven margin, and send the rest here with the
bits already drawn.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from math import floor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EntropyStuck

_REKEY_AFTER = 1 << 30
_POOL = 1 << 13
_ZEROS = bytes(1 << 20)
_MAX_KEYS = 1 << 16


class RandomByteStream:
    """An endless stream of random bytes, for one caller at a time."""

    def __init__(self) -> None:
        self._process = -1
        self._left = 0
        self._pool = b""
        self._next = 0
        self._encrypt: Any = None

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes.

        The process is compared after they are taken: a fork before or meanwhile left the same bytes to the parent, so
        the child drops them and takes others. Asking the system who one is takes longer than all else here.
        """
        while True:
            if self._left <= 0:
                self._rekey()
            taken = self._take_from_pool(count)
            if self._process == os.getpid():
                return taken
            self._left = 0

    def _take_from_pool(self, count: int) -> bytes:
        """Serve small requests from a pool, large ones directly."""
        if count > _POOL // 4:
            return self._generate_bytes(count)
        start, self._next = self._next, self._next + count
        if self._next > len(self._pool):
            self._pool = self._generate_bytes(_POOL)
            start, self._next = 0, count
        return self._pool[start : start + count]

    def _generate_bytes(self, count: int) -> bytes:
        self._left -= count
        if count <= len(_ZEROS):
            return bytes(self._encrypt.update(memoryview(_ZEROS)[:count]))
        full_blocks, remainder = divmod(count, len(_ZEROS))
        blocks = [self._encrypt.update(_ZEROS) for _ in range(full_blocks)]
        return b"".join([*blocks, self._encrypt.update(_ZEROS[:remainder])])

    def _rekey(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        process = os.getpid()  # before the key: a handler that forks here leaves it to the parent alone
        cipher = Cipher(algorithms.AES(_new_distinct_key()), modes.CTR(os.urandom(16)))
        self._encrypt = cipher.encryptor()
        self._left = _REKEY_AFTER
        self._pool, self._next = b"", 0
        self._process = process


_keys: dict[bytes, object] = {}
"""Fingerprints of the latest keys that this process, and those it was forked from, drew."""


def _new_distinct_key() -> bytes:
    """Draw a key that was not drawn before. Two are drawn, so that a stuck source is detected at its first use in every
    process.
    """
    if len(_keys) >= _MAX_KEYS:
        _keys.clear()
    for _ in range(2):
        key, marker = os.urandom(32), object()
        # One operation of the interpreter looks and writes, so two threads cannot both be first.
        if _keys.setdefault(hashlib.sha256(key).digest(), marker) is not marker:
            raise EntropyStuck
    return key


class _IdleStreams(threading.local):
    """The idle streams of a thread."""

    def __init__(self) -> None:
        self.idle: list[RandomByteStream] = []


_streams = _IdleStreams()


def _drop_streams_after_fork() -> None:
    """Drop the parent's streams in a child after a fork: the child must not repeat the parent's bytes."""
    global _streams
    _streams = _IdleStreams()


os.register_at_fork(after_in_child=_drop_streams_after_fork)


def _next_private_bytes(count: int) -> bytes:
    """Return the next ``count`` bytes of a stream that nobody else uses meanwhile."""
    idle = _streams.idle
    try:
        stream = idle.pop()
    except IndexError:
        stream = RandomByteStream()
    taken = stream.take(count)
    idle.append(stream)
    return taken


ByteSource = Callable[[int], bytes]
"""Returns so many uniform bytes, never the same ones again."""


def random_uint64(count: int, source: ByteSource | None = None) -> NDArray[np.uint64]:
    """Draw independent uniform 64-bit words."""
    return np.frombuffer((source or _next_private_bytes)(8 * count), np.uint64)


def random_uint16(count: int, source: ByteSource | None = None) -> NDArray[np.uint16]:
    """Draw independent uniform 16-bit words."""
    return np.frombuffer((source or _next_private_bytes)(2 * count), np.uint16)


def random_bits(width: int) -> int:
    """Draw one uniform integer of ``width`` bits: whole bytes are read, and surplus bits of the last are dropped."""
    return int.from_bytes(_next_private_bytes(-(-width // 8)), "little") >> (-width % 8)


def random_below(limit: int) -> int:
    """Draw one uniform integer in [0, limit), by rejection."""
    while (draw := random_bits(limit.bit_length())) >= limit:
        pass
    return draw


def random_array_below(limit: int, count: int, source: ByteSource | None = None) -> NDArray[np.int64]:
    """Draw independent uniform integers in [0, limit), limit ≤ 2³¹: the high half of a product, with rejection (Lemire
    2019).
    """
    draws = np.empty(count, np.int64)
    pending = np.arange(count)
    bias_limit = np.uint64((1 << 32) % limit)
    while pending.size:
        products = np.frombuffer((source or _next_private_bytes)(4 * pending.size), np.uint32).astype(
            np.uint64
        ) * np.uint64(limit)
        is_unbiased = (products & np.uint64(0xFFFFFFFF)) >= bias_limit
        draws[pending[is_unbiased]] = (products[is_unbiased] >> np.uint64(32)).astype(np.int64)
        pending = pending[~is_unbiased]
    return draws


def random_below_limits(limits: NDArray[np.int64], source: ByteSource | None = None) -> NDArray[np.int64]:
    """Draw one uniform integer in [0, limit) for each of these limits, up to 2⁶³, by rejection."""
    draws = np.zeros(limits.size, np.int64)
    pending = np.flatnonzero(limits > 1)
    masks = _masks_covering_limits(limits)
    while pending.size:
        candidates = (random_uint64(pending.size, source) & masks[pending]).astype(np.int64)
        is_below = candidates < limits[pending]
        draws[pending[is_below]] = candidates[is_below]
        pending = pending[~is_below]
    return draws


def _masks_covering_limits(limits: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return for each limit the least 2ᵏ − 1 ≥ limit − 1."""
    masks = limits.astype(np.uint64) - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        masks |= masks >> np.uint64(shift)
    return masks


_T = TypeVar("_T")
_LN2: dict[int, Decimal] = {}


def decimal_context(digits: int) -> Context:
    """Return a decimal context with room for huge exponents; every elementary function is correctly rounded."""
    return Context(prec=digits, Emax=10**15, Emin=-(10**15))


def to_decimal(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def minus_log_interval(v: int, width: int, context: Context) -> tuple[Decimal, Decimal]:
    """Bound −ln V: from the upper and the lower end of V's interval, the latter infinite when v is 0."""
    if context.prec not in _LN2:
        _LN2[context.prec] = Decimal(2).ln(context)
    shift = context.multiply(_LN2[context.prec], Decimal(width))
    low = context.subtract(shift, Decimal(v + 1).ln(context))
    high = context.subtract(shift, Decimal(v).ln(context)) if v else Decimal("Infinity")
    return low, high


def decide_lazily(v: int, width: int, decide: Callable[[int, int, Context], _T | None]) -> _T:
    """Call ``decide(v, width, context)`` with ever more bits and digits until it returns an answer."""
    precision = 20 - 20 * (-width // 64)
    while (answer := decide(v, width, decimal_context(precision))) is None:
        v, width, precision = (v << 64) | random_bits(64), width + 64, precision + 20
    return answer


def rounding_slack(value: Decimal, context: Context) -> Decimal:
    """Bound the rounding of a few correctly rounded operations on numbers of this size."""
    return context.multiply(context.add(value.copy_abs(), Decimal(1)), Decimal((0, (1,), 10 - context.prec)))


def common_floor(value: tuple[Decimal, Decimal], magnitude: Decimal, context: Context) -> int | None:
    """Return the common floor of all numbers between two bounds, or None; ``magnitude`` bounds what they are
    computed from.
    """
    low, high = value
    if not high.is_finite():
        return None
    margin = rounding_slack(context.add(high, magnitude), context)
    below, above = floor(context.subtract(low, margin)), floor(context.add(high, margin))
    return below if below == above else None


def is_uniform_below(v: int, width: int, threshold: Callable[[Context], Decimal]) -> bool:
    """Return whether V < p, for a probability p computed to any precision."""

    def decide(v: int, width: int, context: Context) -> bool | None:
        scaled = context.multiply(threshold(context), Decimal(1 << width))
        margin = rounding_slack(Decimal(1 << (width + 1)), context)  # p may come from a difference of numbers up to 1
        if v + 1 <= context.subtract(scaled, margin):
            return True
        return False if v >= context.add(scaled, margin) else None

    return decide_lazily(v, width, decide)
