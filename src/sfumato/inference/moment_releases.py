"""The release of a design's moments: charged, read in one pass, and drawn with discrete Gaussian noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from sfumato.array_types import Integers
from sfumato.errors import InvalidParameter
from sfumato.inference.design import Design
from sfumato.inference.moments import NoisyMoments
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.mechanisms.additive import LEAST_STEPS
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.privacy import Guarantee
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import purchase_terms
from sfumato.release.prices import GIVE_DELTA, Price


@dataclass(frozen=True)
class MomentsRelease(GroupTotalsRelease[NoisyMoments]):
    """One measurement of all moments together."""

    batch: Batch
    total: Price
    version: str
    bounds: tuple[str, ...]
    """The declared bounds of all columns in words, for the receipt."""

    @classmethod
    def calibrated_to_price(cls, moments: WeightedTotals, design: Design, price: Price, version: str) -> MomentsRelease:
        """Prepare the release with the least noise that stays within the price."""
        return cls.with_noise(moments, design, calibrated_noise(moments, price), price, version)

    @classmethod
    def with_noise(
        cls, moments: WeightedTotals, design: Design, mechanism: Gaussian, price: Price, version: str
    ) -> MomentsRelease:
        """Prepare the release with this noise, a part of what the price buys."""
        batch = Batch((Measurement(moments, mechanism),))
        bounds = tuple(column.bounds for column in design.columns if column.bounds)
        return cls(batch, price, version, bounds)

    @property
    def mechanism(self) -> Gaussian:
        mechanism: Gaussian = self.batch.mechanisms[0]
        return mechanism

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, ((),))

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The noise of a moment: stored moments with no more of it are as good."""
        return {"moments": self.mechanism.error(DEFAULT_CONFIDENCE)}

    def draw_from(self, totals: Integers) -> NoisyMoments:
        (measurement,) = self.batch.measurements
        noisy = measurement.draw(measurement.reading.extract(totals))
        terms = purchase_terms([self.batch.bounded], self.total, self.version)
        return NoisyMoments(tuple(noisy.tolist()), self.mechanism, replace(terms, bounds=self.bounds))


def calibrated_noise(moments: WeightedTotals, price: Price) -> Gaussian:
    """Return the least discrete Gaussian noise within the price, which needs a δ or is a ρ."""
    if not price.allows_gaussian:
        rule = "given with a δ or in ρ, because only Gaussian noise is small enough for this many sums"
        raise InvalidParameter("price", str(price), rule, fix=GIVE_DELTA)
    sensitivity = moments.sensitivity
    norm = Gaussian.norm(sensitivity)
    try:
        closed = Gaussian.closed_form(epsilon=None, rho=price.rho)
        if closed is not None:
            return _drawable_gaussian(closed * norm)
        assert price.epsilon is not None
        guarantee = Guarantee(price.epsilon, price.delta)
        return calibrate(lambda scale: _drawable_gaussian(scale * norm), guarantee, sensitivity)
    except InvalidParameter:
        rule = "higher, because at this price the noise is too large to draw exactly"
        raise InvalidParameter("price", str(price), rule, fix="pay more, or name fewer columns") from None


def _drawable_gaussian(sigma: Fraction) -> Gaussian:
    """Return the noise, or refuse one that is too large to draw."""
    return Gaussian(max(sigma, LEAST_STEPS))
