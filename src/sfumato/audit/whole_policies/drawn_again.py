"""The noise of one release is drawn again and again over the same exact totals, as if it had been bought that often.

The totals of two neighbouring tables are read once, exactly, and the measurements of the prepared release draw on them.
So very many releases cost little, and a law that is a little too narrow is seen. An attacker who knows both tables
looks at each release through its likelihood ratio, which tells most (Neyman & Pearson 1933); so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.asked_questions.replayed_totals import Pair, Recorded
from sfumato.audit.lower_bounds.falsifying import falsify, least_samples
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.mechanisms.protocols import Additive
from sfumato.privacy import Guarantee
from sfumato.release.measurement import Measurement

_CELLS = 4_000_000
"""Numbers that are drawn at once."""
_SINGLE = 4
"""Numbers that are looked at by themselves, and beside each other: those that one unit moves most, and the least."""

Draw = Callable[[Measurement, NDArray[np.int64]], NDArray[Any]]
"""What draws on totals: a row for each group of each release."""


def drawn_again(
    recorded: Sequence[Recorded],
    pair: Pair,
    claim: Guarantee,
    samples: int,
    confidence: Fraction,
    draw: Draw | None = None,
) -> tuple[Verdict, int] | None:
    """Try to refute a claim by noise that is drawn on the totals of two worlds, and say how often it was drawn; None
    where there is no noise, or too many numbers to draw it often. ``draw`` draws otherwise than the measurement does,
    where a fault is planted.
    """
    noised = [each for each in recorded if isinstance(each.measurement.mechanism, Additive)]
    cells = sum(each.exact[pair[0].name].size for each in noised)
    many = min(samples, _CELLS // max(1, cells))
    if not cells or many < least_samples(claim, confidence):
        return None
    drawing = draw or (lambda measurement, exact: measurement.draw(exact))

    def world(side: int) -> Callable[[int], NDArray[np.float64]]:
        def drawn(count: int) -> NDArray[np.float64]:
            found = [_drawn(each, pair, side, count, drawing) for each in noised]
            together = sum(ratio for ratio, _ in found)
            return np.column_stack([together, *(single for _, single in found)])[:, : _SINGLE + 1]

        return drawn

    return falsify((world(0), world(1)), claim, many, confidence), many


def _drawn(
    recorded: Recorded, pair: Pair, side: int, count: int, draw: Draw
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw so many times in one world. Give the logarithm of how much likelier each draw is in the second world than
    in the first, and the numbers that are looked at by themselves.
    """
    mechanism: Additive = recorded.measurement.mechanism
    worlds = [recorded.exact[each.name] for each in pair]
    a, b = (each.ravel().astype(np.float64) for each in worlds)
    drawn = draw(recorded.measurement, np.tile(worlds[side], (count, 1))).reshape(count, -1).astype(np.float64)
    size = float(mechanism.sizes[0]) * float(mechanism.grid or 1)
    if mechanism.order == 1:
        ratio = (np.abs(drawn - a) - np.abs(drawn - b)).sum(axis=1) / size
    else:
        ratio = ((drawn - (a + b) / 2) * (b - a)).sum(axis=1) / size**2
    order = np.argsort(-np.abs(a - b), kind="stable")
    looked = np.concatenate([order[: _SINGLE // 2], order[_SINGLE // 2 :][-(_SINGLE // 2) :]])
    return ratio, drawn[:, looked]
