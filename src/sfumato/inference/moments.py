"""Noisy moments: the Gram matrix of a design's coordinates, released with one exact noise for each different sum.

Let a row be the vector z of its coordinates in steps, G = Σ zzᵀ the Gram matrix of all rows that count, and
‖G‖ its Frobenius norm, in which a pair j ≠ k counts twice. Let t be the moments, the different sums among its entries,
and e the number of entries that each stands for: ‖G‖² = Σ e·t² (moments that are 0 by the policy aside).

Theorem (an added unit). Let N bound ‖z‖² for every row, and m the rows of a unit that count. Then adding or removing a
unit changes G by D = Σ zzᵀ over at most m rows, and ‖D‖ ≤ Σ ‖zzᵀ‖ = Σ ‖z‖² ≤ m·N. It is attained by m equal rows.

Theorem (a replaced unit). D and D′, of two units, are positive semidefinite, so ⟨D, D′⟩ = tr(D·D′) ≥ 0 and
‖D − D′‖² = ‖D‖² + ‖D′‖² − 2⟨D, D′⟩ ≤ 2·(m·N)². It is attained by m rows each whose vectors are orthogonal.

N is the sum over blocks of the largest square of their coordinates, since a row has at most one coordinate of a block
that is not 0; each is read off the bounded plan.

What is measured is the whole vector u = c·t with whole weights c = ⌊C·√e⌋·S^(2−d), where d columns are factors of the
moment and C = ``WEIGHT``: S^(2−d) makes all sums products of two coordinates in steps. As c² ≤ C²·e in those units, any
change of u has ‖Δu‖² ≤ C²·‖ΔG‖²: the sensitivity is Δ₂ = C·m·N, and √2 times that where a unit is replaced. Each number
of u gets its own noise of one σ (Canonne, Kamath & Steinke 2020), so a diagonal sum of G has the variance (σ/C)² and an
off-diagonal one half of it, up to the rounding of √2·C to a whole number. ∎

Rows are sampled, not clipped: a row of a unit counts in every moment or in none, so that G stays a Gram matrix.

The release of a design's moments: charged, read in one pass, and drawn with discrete Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.design import Design
from sfumato.inference.weighted_totals import NOT_OPPOSED, WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.mechanisms.additive import LEAST_STEPS
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.privacy import Guarantee, codec
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, purchase_terms
from sfumato.release.prices import GIVE_DELTA, Price

WEIGHT = 29
"""C: √2·29 = 41.01, so that whole weights lose nearly nothing."""


def moment_totals(bounded_plan: BoundedPlan, design: Design) -> WeightedTotals:
    """Return all moments of a design as one vector: see the module's theorems."""
    weights = gram_weights(design)
    if len(bounded_plan.measures) != len(weights):
        raise InvalidParameter(
            "bounded",
            ValueWords(f"a plan with {len(bounded_plan.measures)}"),
            f"a plan with {len(weights)} exact sums, one for each moment",
        )
    return WeightedTotals(bounded_plan, weights, (WEIGHT * max_row_norm(bounded_plan, design)) ** 2, NOT_OPPOSED)


def gram_weights(design: Design) -> tuple[int, ...]:
    """Return the whole weight of each moment in the measured vector."""
    return tuple(
        moment_weight(entries) * design.scale ** (2 - len(moment.columns))
        for moment, entries in design.gram_entry_count_by_moment.items()
    )


def max_row_norm(bounded_plan: BoundedPlan, design: Design) -> int:
    """Return N: the largest ‖z‖² of a row, in squared steps."""
    squares = {
        moment.columns[0]: scaled.size
        for moment, scaled in zip(design.gram_entry_count_by_moment, bounded_plan.measures, strict=True)
        if not moment.levels and len(moment.columns) == 2 and moment.columns[0] == moment.columns[1]
    }
    return sum(design.scale**2 if column is None else squares[column] for column in design.blocks)


def moment_weight(entries: int) -> int:
    """Return ⌊C·√e⌋, the weight of a moment that stands for so many entries of the Gram matrix."""
    return math.isqrt(WEIGHT**2 * entries)


@codec.serialisable("noisy-moments")
@dataclass(frozen=True)
class NoisyMoments:
    """Released moments: weighted sums with their noise, and the terms of their purchase."""

    totals: tuple[int, ...]
    """The measured vector u, in the order of the design's moments."""
    mechanism: Gaussian
    purchase: PurchaseTerms = NOT_BOUGHT

    def __post_init__(self) -> None:
        object.__setattr__(self, "totals", tuple(self.totals))
        codec.check_simple_fields(self)
        if not self.totals or not all(type(total) is int for total in self.totals):
            raise InvalidParameter(
                "totals",
                ValueWords("values that are not whole numbers" if self.totals else "an empty list"),
                "a non-empty list of whole numbers",
            )


@dataclass(frozen=True)
class MomentEstimates:
    """Moments with the covariance of their noise, in units in which an indicator is 1 and a scaled column in [−1, 1].

    ``factor`` is a matrix F with FFᵀ the covariance.
    """

    values: Floats
    factor: Floats

    @classmethod
    def from_noisy_moments(cls, noisy: NoisyMoments, design: Design) -> MomentEstimates:
        """Estimate the moments by weighted least squares under what the policy implies: totals are sums over the
        values of a category.
        """
        units = (
            np.array([moment_weight(entries) for entries in design.gram_entry_count_by_moment.values()])
            * float(design.scale) ** 2
        )
        deviations = float(noisy.mechanism.sizes[0]) / units
        return cls.projected(np.array(noisy.totals) / units, deviations, design.constraints)

    @classmethod
    def projected(cls, values: Floats, deviations: Floats, constraints: Floats) -> MomentEstimates:
        """Estimate moments from independent noisy values with these deviations, where rows·moments = 0."""
        if not len(constraints):
            return cls(values, np.diag(deviations))
        # in units of the noise, the least-squares estimate is the projection on what satisfies the constraints
        basis = np.linalg.svd(constraints * deviations, full_matrices=True)
        rank = int((basis[1] > 1e-9 * basis[1].max()).sum())
        free = basis[2][rank:].T
        factor = deviations[:, None] * free
        return cls(factor @ (free.T @ (values / deviations)), factor)

    @classmethod
    def assumed(cls, values: Floats, mechanism: Gaussian, design: Design) -> MomentEstimates:
        """Return assumed moments with the noise of a mechanism, for forecasts."""
        return cls(values, cls.from_noisy_moments(NoisyMoments((0,) * len(values), mechanism), design).factor)

    def gram(self, design: Design) -> Floats:
        """Return the Gram matrix of all coordinates."""
        index = design.gram_index
        return np.where(index >= 0, self.values[index], 0.0)


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
