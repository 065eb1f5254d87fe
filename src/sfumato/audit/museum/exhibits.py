"""An exhibit is a mechanism that claims more privacy than it keeps, beside its correct twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.museum.demonstration_noise import DemonstrationNoise
from sfumato.privacy import Guarantee, Neighbours

Outputs = NDArray[Any]
Mechanism = Callable[[DemonstrationNoise, Any, int], Outputs]
"""From noise, one of two neighbouring inputs and a count to that many outputs."""


_USUAL = Guarantee(1)


@dataclass(frozen=True)
class Exhibit:
    """An exhibit shows one mistake: a broken mechanism, its correct twin, and two inputs that tell them apart."""

    name: str
    wrong: str
    """What went wrong, in whole sentences."""
    mended: str
    """What the correct twin does."""
    seen: str
    """What gives the broken one away, in an audit."""
    source: str
    """Where it was published: a paper, or a public bug report."""
    inputs: tuple[Any, Any]
    """What the mechanism is run on in two neighbouring worlds."""
    worlds: str
    """The same in words."""
    broken: Mechanism
    correct: Mechanism
    claim: Guarantee = _USUAL
    """What both of them say of themselves."""
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    samples: int = 10_000
    """As many runs of each world show the mistake; more prove a larger ε."""

    def __str__(self) -> str:
        return f"{self.name}: {self.wrong} ({self.source})"

    def __repr__(self) -> str:
        return f"Exhibit({self.name!r})"


@dataclass(frozen=True)
class Room:
    """A room holds the exhibits of one kind of mistake."""

    title: str
    about: str
    exhibits: tuple[Exhibit, ...]


def least(rows: Outputs) -> Outputs:
    """Give the least number of each row: it is large only where all of them are, which tells a change of all at once
    apart best.
    """
    return np.asarray(rows.min(axis=1))


def coded(answers: NDArray[Any], base: int = 2) -> NDArray[np.int64]:
    """Write each row of digits as one number, so that an audit sees them together."""
    return np.asarray(answers.astype(np.int64) @ base ** np.arange(answers.shape[1] - 1, -1, -1), np.int64)
