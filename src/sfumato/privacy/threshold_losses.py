"""Losses of key thresholds: a failure, and the noise on counts of keys that other units hold too.

A unit holds a few keys. A key is shown when its noisy count of units passes a threshold, and a key without units never
is. Theorem, for a unit that is added or removed (add-remove): let f be at least the probability that some key passes
which this unit holds alone. Outside that event the law with the unit is that of the other keys, whose counts differ by
one in at most g places from those without it, so P = (1−f)·P′ + f·N and Q = (1−f)·Q′ + f·Q′ where (P′, Q′) is the
noise's own pair at g coordinates of 1, or one that comes from it by post-processing. For every event S then P(S) −
e^ε·Q(S) ≤ f + (1−f)·(P′(S) − e^ε·Q′(S)), and the same the other way round, so a failure of mass f beside the noise's
pair dominates. ∎

A replaced unit (u by v): some key that u holds alone passes with probability ≤ f, and the same is true of v; outside
these two events, one in each world, the keys that both worlds know differ by one in at most 2g counts. ∎

It is one loss, not the failure and the noise as two parts of a curve: two units may hold the same keys alone. Such a
key passes more than twice as often as one of a single unit, so the failure of a group is computed anew.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.losses import (
    Loss,
    ResponseLoss,
)
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, LaplaceLoss
from sfumato.privacy.numbers import (
    INSIDE_UNIT,
    POSITIVE,
    exact,
    exact_integer,
)
from sfumato.quick_dataclass import dataclass

_MAX_WEIGHT = 4096
_DIGITS = Context(prec=50)
_ROUND_UP = Fraction(1, 10**40)


@codec.serialisable("laplace-threshold-loss")
@dataclass(frozen=True, repr=False)
class LaplaceKeyThresholdLoss(Loss):
    """The loss of a key threshold with discrete Laplace noise.

    The units that change hold keys with weights of at most ``weight`` in all and ``most`` for each key: g keys of
    weight 1, or weights that sum to g where they are spread at will. ``moved`` says whether they come or go (1), or
    whether others come in their place (2). The noise's worst pair is as concentrated as can be (``LaplaceLoss``).

    A group of k units has up to k times the weight, and up to k times as much on each key. With p(w) the probability
    that a key of weight w passes, some key that only they hold passes with probability 1 − Π(1 − p(wᵢ)) ≤
    1 − e^{−W·max f(w)/w} for f = −ln(1 − p), because Σf(wᵢ) ≤ Σwᵢ·max f(w)/w.
    """

    scale: Fraction
    threshold: int
    reveal: Fraction
    weight: int = 1
    most: int = 1
    moved: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale, "scale", POSITIVE))
        object.__setattr__(self, "threshold", exact_integer(self.threshold, "threshold", at_least=1))
        object.__setattr__(self, "reveal", exact(self.reveal, "delta", INSIDE_UNIT))
        for name in ("weight", "most", "moved"):
            object.__setattr__(self, name, exact_integer(getattr(self, name), name, at_least=1))
        if self.weight % self.most:
            raise InvalidParameter("weight", self.weight, f"a multiple of most = {self.most}")

    @property
    def pure_epsilon(self) -> Fraction:
        return self.moved * self.weight / self.scale

    @property
    def failure(self) -> Fraction:
        return self.reveal

    @property
    def factors(self) -> tuple[tuple[Loss, int], ...]:
        return self._loss_per_move_and_count, (ResponseLoss(Fraction(0), 2, self.reveal), 1)

    @property
    def _loss_per_move_and_count(self) -> tuple[Loss, int]:
        return LaplaceLoss(self.most / self.scale, 1 / self.scale), self.moved * self.weight // self.most

    def renyi(self, order: float) -> float:
        noise, count = self._loss_per_move_and_count
        return count * noise.renyi(order)

    def group(self, k: int) -> Loss:
        if k == 1:
            return self
        if k * self.most > _MAX_WEIGHT:
            return ResponseLoss(self.pure_epsilon, 2, self.reveal).group(k)
        reveal = max_passing_probability(self.scale, self.threshold, k * self.weight, k * self.most)
        if reveal >= 1:
            raise InvalidParameter(
                "k", k, "small enough that δ stays below 1", fix="lower k, or start from a smaller δ"
            )
        return LaplaceKeyThresholdLoss(self.scale, self.threshold, reveal, k * self.weight, k * self.most, self.moved)


@codec.serialisable("gaussian-threshold-loss")
@dataclass(frozen=True, repr=False)
class GaussianKeyThresholdLoss(Loss):
    """The loss of a key threshold with discrete Gaussian noise on every count, of which ``keys`` move: half of
    ``delta_in_all`` is the probability that a key passes which one unit holds alone, and with the other half the noise
    is (ε, δ/2)-DP.

    An account is charged ε in its pure currency and all of δ, as any (ε, δ)-DP release, and in its Rényi currency what
    the same decomposition proves. With (p, q) the noise's pair, cut p to min(p, e^ε·q) and q to min(q, e^ε·p): by
    symmetry both keep the mass 1 − δ′, δ′ ≤ δ/2, and D∞ ≤ ε. Where p was cut, p^α·q^{1−α} has shrunk. Where q was cut,
    it has become e^{−(α−1)ε}·p, which sums to at most e^{−αε}·Q(ln(q/p) > ε) there, and by Chernoff's bound that is at
    most x = e^{−αε−(ε−ρ)²/4ρ} where ε > ρ, D_α ≤ αρ. So with D the divergence of the pair as it was, D_α ≤
    ln[(e^{(α−1)D} + x)/(1 − δ/2)]/(α−1); and D_α ≤ D_2 for α < 2.

    A group is priced by the rule for (ε, δ), which holds for every release.
    """

    sigma_squared: Fraction
    keys: int
    epsilon: Fraction
    delta_in_all: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", exact(self.sigma_squared, "sigma_squared", POSITIVE))
        object.__setattr__(self, "keys", exact_integer(self.keys, "keys", at_least=1))
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", POSITIVE))
        object.__setattr__(self, "delta_in_all", exact(self.delta_in_all, "delta", INSIDE_UNIT))

    @property
    def pure_epsilon(self) -> Fraction:
        return self.epsilon

    @property
    def failure(self) -> Fraction:
        return self.delta_in_all

    @property
    def factors(self) -> tuple[tuple[Loss, int], ...]:
        return (self._noise_loss, self.keys), (ResponseLoss(Fraction(0), 2, self.delta_in_all / 2), 1)

    @property
    def _noise_loss(self) -> Loss:
        return DiscreteGaussianLoss(self.sigma_squared, 1)

    def renyi(self, order: float) -> float:
        alpha, epsilon, rho = max(2.0, order), float(self.epsilon), float(self.keys / (2 * self.sigma_squared))
        log_power_sum = (alpha - 1) * self.keys * self._noise_loss.renyi(alpha)
        log_cut = -alpha * epsilon - max(0.0, epsilon - rho) ** 2 / (4 * rho)
        correction = math.log1p(math.exp(log_cut - log_power_sum)) - math.log1p(-float(self.delta_in_all) / 2)
        return min(ResponseLoss(self.epsilon).renyi(order), (log_power_sum + correction) / (alpha - 1))

    def group(self, k: int) -> Loss:
        return self if k == 1 else ResponseLoss(self.epsilon, 2, self.delta_in_all).group(k)


def laplace_tail(scale: Fraction, t: int) -> Decimal:
    """Return P(Y ≥ t) of the discrete Laplace, to 50 digits."""
    if t <= 0:
        return _DIGITS.subtract(Decimal(1), laplace_tail(scale, 1 - t))
    return _DIGITS.divide(_exp_minus_t_over_scale(scale, t), _DIGITS.add(Decimal(1), _exp_minus_t_over_scale(scale, 1)))


def _exp_minus_t_over_scale(scale: Fraction, t: int) -> Decimal:
    exponent = -t / scale
    return _DIGITS.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)).exp(_DIGITS)


@lru_cache(maxsize=256)
def max_passing_probability(scale: Fraction, threshold: int, weight: int, most: int) -> Fraction:
    """Bound the probability that some key passes which only a few units hold, with ``weight`` in all and at most
    ``most`` on each key; rounded up at 40 digits.
    """
    hidden_probabilities = [
        _DIGITS.subtract(Decimal(1), laplace_tail(scale, threshold - w)) for w in range(1, most + 1)
    ]
    if min(hidden_probabilities) <= 0:
        return Fraction(1)
    steepest = min(_DIGITS.divide(hidden.ln(_DIGITS), Decimal(w)) for w, hidden in enumerate(hidden_probabilities, 1))
    all_hidden = _DIGITS.multiply(steepest, Decimal(weight)).exp(_DIGITS)
    return Fraction(_DIGITS.subtract(Decimal(1), all_hidden)) + _ROUND_UP
