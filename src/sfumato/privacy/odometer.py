"""How much has been spent so far: two lines that answer two different questions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.privacy import codec
from sfumato.privacy.curve import Curve, compose, counted
from sfumato.privacy.numbers import ABOVE_ONE, INSIDE_UNIT, Number, exact

TIGHT = "parameters fixed in advance"
ADAPTIVE = "holds at all times at once, parameters chosen along the way"

_POINTS = 100  # the tight line recomposes everything at each of its points


@codec.value("odometer")
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", exact(self.delta, "delta", INSIDE_UNIT))
        object.__setattr__(self, "order", exact(self.order, "order", ABOVE_ONE))
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "tight", tuple(float(epsilon) for epsilon in self.tight))
        object.__setattr__(self, "adaptive", tuple(float(epsilon) for epsilon in self.adaptive))

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
    r_t + ln(1/δ′)/(α − 1), with r_t the sum of Rényi divergences of one order and δ′ what all failures leave of δ
    (Rogers et al. 2016, Sec. 6; Feldman & Zrnic 2021), or the sum of max-divergences where that is smaller; both
    hold for any adaptive choice. The default order is best when about ε = 1 is spent in all: it must not depend on
    the releases.
    """
    spare = exact(delta, "delta", INSIDE_UNIT)
    alpha = exact(order, "order", ABOVE_ONE) if order is not None else _default_order(spare)
    items = [(curve, count) for curve, count in counted(curves) if count]
    compose(items)  # refuses mixed relations before anything is computed
    many = len(items)
    steps = sorted({round(x) for x in np.linspace(1, many, min(many, _POINTS))}) if many else []
    tight = [compose(items[:step]).epsilon(spare) for step in steps]
    return Odometer(spare, alpha, tuple(steps), tuple(tight), tuple(_adaptive(items, spare, alpha, steps)))


def _default_order(delta: Fraction) -> Fraction:
    return 1 + Fraction(f"{max(0.1, -2 * math.log(delta)):.4g}")


def _adaptive(items: list[tuple[Curve, int]], delta: Fraction, order: Fraction, steps: list[int]) -> list[float]:
    pure = np.cumsum(
        [count * (math.inf if c.max_divergence is None else float(c.max_divergence)) for c, count in items]
    )
    renyi = np.cumsum([count * float(c.renyi_above(order)) for c, count in items])
    failure = np.cumsum([count * float(c.failure) for c, count in items])
    # One δ′ for all steps, as the statement is about all of them at once: what all failures that fit leave of δ.
    fits = int(np.searchsorted(failure, float(delta), side="right"))
    left = float(delta) - (failure[fits - 1] if fits else 0.0)
    tail = -math.log(left) / float(order - 1) if left > 0 else math.inf
    return [float(min(pure[step - 1], renyi[step - 1] + tail)) if step <= fits else math.inf for step in steps]
