"""How much has been spent so far: two lines that answer two different questions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.privacy.curve import Curve, compose
from sfumato.privacy.numbers import ABOVE_ONE, INSIDE_UNIT, Number, exact

TIGHT = "parameters fixed in advance"
ADAPTIVE = "holds at all times at once, parameters chosen along the way"

_POINTS = 100  # the tight line recomposes everything at each of its points


@dataclass(frozen=True)
class Odometer:
    """ε at one δ after some of the releases, on the tight and on the adaptive line."""

    delta: Fraction
    order: Fraction
    """The Rényi order of the adaptive line, fixed before the first release."""
    steps: tuple[int, ...]
    tight: tuple[float, ...]
    """ε of the recorded releases composed: true if their parameters were fixed in advance."""
    adaptive: tuple[float, ...]
    """With probability ≥ 1 − δ, for all steps at once, the privacy loss is at most this."""

    def __str__(self) -> str:
        head = [
            f"ε at δ = {float(self.delta):.3g}",
            f"  tight:    {TIGHT}",
            f"  adaptive: {ADAPTIVE} (order {float(self.order):.4g})",
        ]
        shown = sorted({*range(0, len(self.steps), max(1, len(self.steps) // 10)), len(self.steps) - 1} - {-1})
        rows = [f"{self.steps[i]:>10,}  {self.tight[i]:>12.6g}  {self.adaptive[i]:>12.6g}" for i in shown]
        return "\n".join([*head, f"{'releases':>10}  {'tight':>12}  {'adaptive':>12}", *rows])


def odometer(curves: Iterable[Curve | tuple[Curve, int]], delta: Number, *, order: Number | None = None) -> Odometer:
    """What releases, in this order, have cost together after each step (each of 100 steps when there are more).

    The tight line composes the record; it is a statement about a plan, not a stopping rule. The adaptive line is
    r_t + ln(1/δ′)/(α − 1), with r_t the sum of Rényi divergences of one order and δ′ what failures leave of δ
    (Rogers et al. 2016, Sec. 6; Feldman & Zrnic 2021), or the sum of max-divergences where that is smaller; both
    hold for any adaptive choice. The default order is best when about ε = 1 is spent in all: it must not depend on
    the releases.
    """
    spare = exact(delta, "delta", INSIDE_UNIT)
    alpha = exact(order, "order", ABOVE_ONE) if order is not None else _default_order(spare)
    items = [item if isinstance(item, tuple) else (item, 1) for item in curves]
    compose(items)  # one relation, valid counts
    many = len(items)
    steps = sorted({round(x) for x in np.linspace(1, many, min(many, _POINTS))}) if many else []
    tight = [compose(items[:step]).epsilon(spare) for step in steps]
    return Odometer(spare, alpha, tuple(steps), tuple(tight), tuple(_adaptive(items, spare, alpha, steps)))


def _default_order(delta: Fraction) -> Fraction:
    return 1 + Fraction(f"{-2 * math.log(delta):.4g}")


def _adaptive(items: list[tuple[Curve, int]], delta: Fraction, order: Fraction, steps: list[int]) -> list[float]:
    pure = np.cumsum(
        [count * (math.inf if c.max_divergence is None else float(c.max_divergence)) for c, count in items]
    )
    renyi = np.cumsum([count * float(c.renyi_above(order)) for c, count in items])
    failure = np.cumsum([count * float(c.failure) for c, count in items])
    lines = []
    for step in steps:
        left = float(delta) - failure[step - 1]
        surely = pure[step - 1] if left >= 0 else math.inf
        likely = renyi[step - 1] - math.log(left) / float(order - 1) if left > 0 else math.inf
        lines.append(float(min(surely, likely)))
    return lines
