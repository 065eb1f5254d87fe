"""The private seam: a stream of chosen bytes in place of the random one, for this thread and this block only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sfumato.mechanisms import bits


class Recorded:
    """Chosen bytes first, then true randomness for whatever refinement asks beyond them."""

    def __init__(self, chosen: bytes) -> None:
        self.left = chosen
        self.beyond = 0
        self._random = bits.Stream()

    def take(self, count: int) -> bytes:
        taken, self.left = self.left[:count], self.left[count:]
        self.beyond += count - len(taken)
        return taken + self._random.take(count - len(taken)) if len(taken) < count else taken


@contextmanager
def recorded(chosen: bytes) -> Iterator[Recorded]:
    stream = Recorded(chosen)
    before = bits._streams.idle
    bits._streams.idle = [stream]  # type: ignore[list-item]
    try:
        yield stream
    finally:
        bits._streams.idle = before


def words(*values: int) -> bytes:
    return np.array(values, np.uint64).tobytes()
