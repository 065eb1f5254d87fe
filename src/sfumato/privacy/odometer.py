"""Odometers: the privacy loss of a series of releases so far, as a tight and as an adaptive line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.html_fragments import paragraphs, table
from sfumato.privacy import amounts, codec
from sfumato.privacy.amounts import charge_amount
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.curve import Curve, compose, normalise_counted_curves
from sfumato.privacy.numbers import ABOVE_ONE, INSIDE_UNIT, POSITIVE, Number, amount_from_units, exact
from sfumato.quick_dataclass import dataclass

_COLUMNS = ("releases", "tight", "adaptive", "except with")
TIGHT = "parameters fixed in advance"
ADAPTIVE = "holds at every step at once, with parameters chosen along the way"

Real = NDArray[np.floating[Any]]

_ROUND_UP = 1 + 2.0**-40  # sums of floats are known to far better than this
_MAX_POINTS = 100  # the tight line recomposes everything at each of its points


@codec.serialisable("odometer")
@dataclass(frozen=True)
class Odometer:
    """ε at one δ after each of some releases, on the tight and on the adaptive line."""

    delta: Fraction
    order: Fraction
    """The Rényi order of the adaptive line, fixed before the first release."""
    margin: Fraction
    """Added to the adaptive line once releases can fail; fixed before the first release."""
    steps: tuple[int, ...]
    tight: tuple[float, ...]
    """ε of the recorded releases composed: true if their parameters were fixed in advance."""
    adaptive: tuple[float, ...]
    """The privacy loss is at most this, for all steps at once, except with the probability in ``exceptions``."""
    exceptions: tuple[float, ...]
    """δ, and more once releases can fail: Σδᵢ/(1 − e^{−margin}) of the failures so far."""

    __repr__ = constructor_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", exact(self.delta, "delta", INSIDE_UNIT))
        object.__setattr__(self, "order", exact(self.order, "order", ABOVE_ONE))
        object.__setattr__(self, "margin", exact(self.margin, "margin", POSITIVE))
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "tight", tuple(float(epsilon) for epsilon in self.tight))
        object.__setattr__(self, "adaptive", tuple(float(epsilon) for epsilon in self.adaptive))
        object.__setattr__(self, "exceptions", tuple(float(share) for share in self.exceptions))

    def __str__(self) -> str:
        heading = [
            f"ε at δ = {float(self.delta):.3g}",
            f"  tight:    {TIGHT}",
            f"  adaptive: {ADAPTIVE} (order {float(self.order):.4g})",
        ]
        rows = [
            f"{step:>10}" + "".join(f"  {cell:>12}" for cell in cells)
            for step, *cells in (_COLUMNS, *self._printed_rows)
        ]
        return "\n".join([*heading, *rows])

    def _repr_html_(self) -> str:
        notes = (f"tight: {TIGHT}", f"adaptive: {ADAPTIVE} (order {float(self.order):.4g})")
        return table(_COLUMNS, self._printed_rows, _COLUMNS, f"ε at δ = {float(self.delta):.3g}") + paragraphs(notes)

    @property
    def _printed_rows(self) -> list[tuple[str, str, str, str]]:
        """The printed steps: the last, and about ten before it."""
        indices = sorted({*range(0, len(self.steps), max(1, len(self.steps) // 10)), len(self.steps) - 1} - {-1})
        return [
            (f"{self.steps[i]:,}", f"{self.tight[i]:.6g}", f"{self.adaptive[i]:.6g}", f"{self.exceptions[i]:.3g}")
            for i in indices
        ]


def odometer(
    curves: Iterable[Curve | tuple[Curve, int]], delta: Number, *, order: Number | None = None, margin: Number = 1
) -> Odometer:
    """Compute the cost of a series of releases after each step (at 100 steps when there are more).

    The tight line composes the record; it is a statement about a plan, not a stopping rule. The adaptive line bounds
    the privacy loss L_t for any adaptive choice and at all times at once, except with probability δ: L_t ≤ b_t =
    r_t + ln(1/δ)/(α − 1), with r_t the sum of Rényi divergences of one order (Rogers et al. 2016, Sec. 6; Feldman &
    Zrnic 2021), or the sum of max-divergences where that is smaller.

    Releases that fail with probability δᵢ: with h the ``margin``, L_t ≤ b_t + h − Σ ln(1 − δᵢ), except with
    probability δ + Σδᵢ/(1 − e^{−h}). Proof: where the parts outside the failures satisfy P′ ≤ e^{b}·Q′ and yet
    P > e^{b+h}·Q, they make up at most e^{−h} of P, so P ≤ P_failed/(1 − e^{−h}); the logarithms put parts that were
    normalised apart on one weight. Where the failures add to more than δ nothing is claimed.

    Order and margin must not depend on the releases. The default order is best when about ε = 1 is spent in all.
    """
    exact_delta = exact(delta, "delta", INSIDE_UNIT)
    renyi_order = exact(order, "order", ABOVE_ONE) if order is not None else _default_order(exact_delta)
    exact_margin = exact(margin, "margin", POSITIVE)
    releases = [(curve, count) for curve, count in normalise_counted_curves(curves) if count]
    compose(releases)  # refuses mixed relations before anything is computed
    release_count = len(releases)
    steps = (
        sorted({round(x) for x in np.linspace(1, release_count, min(release_count, _MAX_POINTS))})
        if release_count
        else []
    )
    tight = [compose(releases[:step]).epsilon(exact_delta) for step in steps]
    lines, exceptions = _adaptive_epsilons_and_exceptions(releases, exact_delta, renyi_order, exact_margin, steps)
    return Odometer(exact_delta, renyi_order, exact_margin, tuple(steps), tuple(tight), tuple(lines), tuple(exceptions))


def _default_order(delta: Fraction) -> Fraction:
    return 1 + Fraction(f"{max(0.1, -2 * math.log(delta)):.4g}")


def _adaptive_epsilons_and_exceptions(
    releases: list[tuple[Curve, int]], delta: Fraction, order: Fraction, margin: Fraction, steps: list[int]
) -> tuple[list[float], list[float]]:
    """Return the adaptive line and its exceptional probabilities, at each of these steps."""
    pure = _cumulative_sums_rounded_up(
        [math.inf if c.max_divergence is None else float(c.max_divergence) for c, _ in releases], releases
    )
    renyi = _cumulative_sums_rounded_up([float(c.renyi_above(order)) for c, _ in releases], releases)
    failure = _cumulative_sums_rounded_up([float(c.failure) for c, _ in releases], releases)
    log_success = _cumulative_sums_rounded_up(
        [-math.log1p(-float(c.failure)) if c.failure < 1 else math.inf for c, _ in releases], releases
    )
    tail = -math.log(delta) / float(order - 1) * _ROUND_UP
    margins = np.where(failure > 0, float(margin) + log_success, 0.0)
    failures = accumulate((count * charge_amount(c.failure) for c, count in releases), amounts.add_rounded_up)
    is_claimed = [amount_from_units(total) <= delta for total in failures]
    line = np.where(is_claimed, np.minimum(pure, renyi + tail) + margins, math.inf)
    exceptions = np.minimum(
        1.0, (float(delta) + failure / -math.expm1(-float(margin))) * np.where(failure > 0, _ROUND_UP, 1.0)
    )
    return [float(line[step - 1]) for step in steps], [float(exceptions[step - 1]) for step in steps]


def _cumulative_sums_rounded_up(amounts: list[float], releases: list[tuple[Curve, int]]) -> Real:
    """Return the cumulative sums over the releases, rounded up."""
    per_release = [count * amount for amount, (_, count) in zip(amounts, releases, strict=True)]
    return np.cumsum(np.array(per_release, dtype=float)) * _ROUND_UP
