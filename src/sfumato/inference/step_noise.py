"""The noise of several Gaussian steps at one price: each gets a share of ρ that is fixed beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Gaussian
from sfumato.privacy import Curve, Guarantee, Sensitivity, compose
from sfumato.privacy.calibration import least_parameter_by_shortfall, log_delta_excess, noise_size_near
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import GIVE_DELTA, Price


@dataclass(frozen=True)
class StepNoise:
    """The noise of every step at one price.

    A step with the share s of ρ has σ = Δ₂·σ₁/√s, where one step alone would have Δ₂·σ₁: their ρ add up to its ρ
    (Bun & Steinke 2016, Lemma 2.3), and the composition of all curves is what is charged.
    """

    mechanisms: tuple[Gaussian, ...]
    sensitivities: tuple[Sensitivity, ...]

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The privacy curve of each step."""
        pairs = zip(self.mechanisms, self.sensitivities, strict=True)
        return tuple(mechanism.curve(sensitivity) for mechanism, sensitivity in pairs)

    @property
    def curve(self) -> Curve:
        """The privacy curve of all steps together."""
        return compose(self.curves)

    @classmethod
    def for_steps(cls, sensitivities: Sequence[Sensitivity], shares: Sequence[Fraction], sigma: Fraction) -> StepNoise:
        """Return the noise of all steps where one alone would have ``sigma`` times its sensitivity's norm."""
        pairs = zip(sensitivities, shares, strict=True)
        sigmas = (
            sigma * Gaussian.norm(sensitivity) * Fraction(1 / float(share) ** 0.5) for sensitivity, share in pairs
        )
        return cls(tuple(map(Gaussian, sigmas)), tuple(sensitivities))


@lru_cache(maxsize=64)
def calibrated_step_noise(
    sensitivities: tuple[Sensitivity, ...], shares: tuple[Fraction, ...], price: Price
) -> StepNoise:
    """Return the least noise of all steps whose composition is within the price, which needs a δ or is a ρ."""
    if not price.allows_gaussian:
        rule = "given with a δ or in ρ, because only Gaussian noise is small enough for this many sums"
        raise InvalidParameter("price", str(price), rule, fix=GIVE_DELTA)
    try:
        if price.rho is not None:
            unit_sigma = Gaussian.closed_form(epsilon=None, rho=price.rho)
            assert unit_sigma is not None
            return StepNoise.for_steps(sensitivities, shares, unit_sigma * (1 + Fraction(1, 2**40)))
        guarantee = Guarantee(price.epsilon or 0, price.delta)
        sigma = least_parameter_by_shortfall(
            lambda size: log_delta_excess(StepNoise.for_steps(sensitivities, shares, size).curve, guarantee),
            f"{guarantee}",
            near=noise_size_near(guarantee),
        )
        return StepNoise.for_steps(sensitivities, shares, sigma)
    except InvalidParameter:
        rule = "higher, because at this price the noise is too large to draw exactly"
        raise InvalidParameter("price", str(price), rule, fix="pay more, or name fewer columns") from None
