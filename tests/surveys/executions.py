"""Every way a report can be drawn, with its exact probability: the form is answered once for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Context, Decimal

import numpy as np
import pytest

from sfumato.mechanisms import bits, response
from sfumato.surveys import Form, Report, encodings

CONTEXT = bits.decimal_context(50)
SMALL_PRIME = 5
"""Hash functions modulo this can be listed; their formula is the same."""


class Draws:
    """Stands in for the source of randomness: each draw takes each of its values in turn."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.chance, self.many = Decimal(1), list[int]()

    def next(self) -> bool:
        """Go on to the next way, if there is one."""
        while self.path and self.path[-1] + 1 == self.many[len(self.path) - 1]:
            self.path.pop()
        if self.path:
            self.path[-1] += 1
        return bool(self.path)

    def choose_one(self, chances: list[Decimal]) -> int:
        if len(self.many) == len(self.path):
            self.path.append(0)
        taken = self.path[len(self.many)]
        self.many.append(len(chances))
        self.chance = CONTEXT.multiply(self.chance, chances[taken])
        return taken

    def even(self, limit: int) -> int:
        return self.choose_one([CONTEXT.divide(Decimal(1), Decimal(limit))] * limit)

    def event(self, threshold: Callable[[Context], Decimal]) -> bool:
        chance = threshold(CONTEXT)
        return bool(self.choose_one([CONTEXT.subtract(Decimal(1), chance), chance]))


@contextmanager
def small_hashes() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response, "PRIME", SMALL_PRIME)
        patch.setattr(encodings, "PRIME", SMALL_PRIME)
        yield patch


def law(form: Form, answers: dict[str, object]) -> dict[Report, Decimal]:
    """P of every report of these answers."""
    draws, found = Draws(), dict[Report, Decimal]()
    with small_hashes() as patch:
        patch.setattr(bits, "random_below", draws.even)
        patch.setattr(
            bits, "random_array_below", lambda limit, count: np.array([draws.even(limit) for _ in range(count)])
        )
        patch.setattr(bits, "random_uint64", lambda count: np.array([draws.even(2) for _ in range(count)], np.uint64))
        patch.setattr(
            response, "bernoulli", lambda cut, count: np.array([draws.event(cut) for _ in range(count)], bool)
        )
        while True:
            draws.begin()
            report = form.answer(answers)
            found[report] = CONTEXT.add(found.get(report, Decimal(0)), draws.chance)
            if not draws.next():
                return found
