"""Split one price over several questions, and release them in one charge.

At a pure price each question gets a share of ε, and the shares sum to the price. With a δ Gaussian noise may be used:
each question gets a share of ρ, and the largest ρ is taken at which the composition of all measurements satisfies the
price. That costs far less than the sum of the questions' separate prices, since Gaussian losses add in squares
(Dong, Roth & Su 2022; for discrete noise Canonne, Kamath & Steinke 2020).

Each question keeps its own measurements with its own noise, and their privacy curves are composed (``Batch``). The
draws are independent and all parameters are fixed from the policy before any row is read, so non-adaptive composition
applies. Readings of totals over the same rows share one statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.ledger import Charged
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.combining import CombinedReading, combine_readings
from sfumato.plan.readings.total_readings import GroupTotals, PlanReading
from sfumato.privacy import Budget, Curve, codec, compose
from sfumato.privacy.calibration import least_parameter_by_shortfall
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.measured import NoisyMeasurements
from sfumato.release.measurement import Batch
from sfumato.release.parts.shares import (
    Family,
    rounded_down_to_13_digits,
    rounded_up_to_13_digits as size_rounded_up,
)
from sfumato.release.prices import Price, rounded_up_to_4_digits
from sfumato.release.pricing import PricedRelease
from sfumato.release.releasing import Read, ReleaseStrategy

_PRECISION = Fraction(1, 2**16)


@dataclass(frozen=True)
class BatchQuestionOffer:
    """One question of a batch, which can be prepared at any price; ``discovers_groups`` marks one that needs a δ of its
    own.
    """

    price_at: Callable[[Price, Family], PricedRelease]
    share: Fraction
    """The share of the price of all questions."""
    discovers_groups: bool = False


@dataclass(frozen=True)
class PricedBatch:
    """Several prepared questions with one price: the guarantee of their composition."""

    prepared: tuple[PricedRelease, ...]
    price: Price
    reason: str

    @cached_property
    def batch(self) -> Batch:
        return Batch(tuple(measurement for question in self.prepared for measurement in question.batch.measurements))

    @property
    def curve(self) -> Curve:
        return self.batch.curve

    @property
    def pure(self) -> bool:
        return all(question.pure for question in self.prepared)

    @property
    def separate_laplace_epsilon(self) -> float:
        """Estimate the total ε of Laplace noise with about the same half-widths, priced question by question."""
        measurements = [measurement for question in self.prepared for measurement in question.measurements[0]]
        widths_and_sensitivities = [
            (float(measurement.mechanism.error(DEFAULT_CONFIDENCE)), measurement.sensitivity)
            for measurement in measurements
        ]
        return sum(
            math.log(20) * float(sensitivity.l1) / max(width, 1.0)
            for width, sensitivity in widths_and_sensitivities
            if sensitivity is not None
        )

    def priced_subset(self, indices: Sequence[int]) -> PricedBatch:
        """Restrict the batch to the questions at these positions, and price those alone."""
        if len(indices) == len(self.prepared):
            return self
        remaining = replace(self, prepared=tuple(self.prepared[position] for position in indices))
        return replace(remaining, price=composed_price(remaining, self.price.delta)) if indices else remaining


def price_batch(
    offers: Sequence[BatchQuestionOffer], price: Price, family: Family | None, account: Budget | None
) -> PricedBatch:
    """Split a price over questions, with the noise family that the price allows and that has the smaller error.

    Gaussian noise would close the account's pure-ε currency, so while that is open it must halve the error to be
    chosen by default.
    """
    if family is Laplace or not price.allows_gaussian:
        return _split_epsilon(offers, price)
    gaussian = _split_rho(offers, price)
    if family is not None or price.rho is not None:
        return gaussian
    laplace = _split_epsilon(offers, price)
    gain = math.exp(_mean_log_half_width(laplace) - _mean_log_half_width(gaussian))
    return gaussian if gain >= _required_error_ratio(laplace, account) else laplace


def price_batch_within(
    offers: Sequence[BatchQuestionOffer],
    least_prices: Callable[[Family], Sequence[Price]],
    delta: Fraction,
    family: Family | None,
    account: Budget | None,
) -> PricedBatch:
    """Prepare each question at the least price for its accuracy goal, and price their composition."""

    def prepare_all(noise_family: Family) -> PricedBatch:
        prepared = [
            offer.price_at(least_price, noise_family)
            for offer, least_price in zip(offers, least_prices(noise_family), strict=True)
        ]
        batch = PricedBatch(
            tuple(prepared), Price(1), f"{noise_family.__name__} noise, each question at its smallest price"
        )
        return replace(batch, price=composed_price(batch, delta))

    if family is not None or not delta:
        return prepare_all(family or Laplace)
    laplace, gaussian = prepare_all(Laplace), prepare_all(Gaussian)
    gain = float(laplace.price.guarantee.epsilon / gaussian.price.guarantee.epsilon)
    return gaussian if gain >= _required_error_ratio(laplace, account) else laplace


def composed_price(batch: PricedBatch, delta: Fraction) -> Price:
    """Return the composed price of a batch: the least ε at this δ, or their total ρ without a δ."""
    prices = [question.price for question in batch.prepared]
    epsilons = [price.epsilon for price in prices if price.epsilon is not None]
    if len(epsilons) == len(prices):  # ε's and δ's add up, whatever composition would prove
        summed = Price(sum(epsilons), sum(price.delta for price in prices))
        if not delta or summed.is_satisfied_by(batch.curve):
            return summed
    if not delta:
        return Price(rho=sum((price.rho or Fraction(0) for price in prices), Fraction(0)))
    epsilon = rounded_up_to_4_digits(Fraction(batch.curve.epsilon(float(delta))))
    while not Price(epsilon, delta).is_satisfied_by(batch.curve):
        epsilon = rounded_up_to_4_digits(epsilon * (1 + Fraction(1, 10**4)))
    return Price(epsilon, delta)


def _split_epsilon(offers: Sequence[BatchQuestionOffer], price: Price) -> PricedBatch:
    """Assign each question its share of ε; those that discover groups share the δ."""
    discovery_share = sum((offer.share for offer in offers if offer.discovers_groups), Fraction(0))
    prepared = []
    for offer in offers:
        delta = price.delta * offer.share / discovery_share if offer.discovers_groups else Fraction(0)
        question_price = (
            Price(rho=price.rho * offer.share)
            if price.rho is not None
            else Price(price.guarantee.epsilon * offer.share, delta)
        )
        prepared.append(offer.price_at(question_price, Laplace))
    charged_price = price if discovery_share or price.rho is not None else Price(price.epsilon)
    return PricedBatch(
        tuple(prepared), charged_price, "Laplace noise, where the ε of all questions add up to the price"
    )


def _split_rho(offers: Sequence[BatchQuestionOffer], price: Price) -> PricedBatch:
    """Assign each question its share of the largest ρ whose composition satisfies the price."""
    reason = "Gaussian noise, calibrated to the composition of all questions"

    def prepare_all(rho: Fraction) -> PricedBatch:
        return PricedBatch(
            tuple(offer.price_at(_gaussian_price(offer, rho, price), Gaussian) for offer in offers), price, reason
        )

    if price.rho is not None:
        return prepare_all(price.rho)
    unit = prepare_all(Fraction(1))
    all_additive = all(isinstance(mechanism, Additive) for mechanism in unit.batch.mechanisms)

    def log_price_excess(noise_factor: Fraction) -> float:
        return price.log_excess_of(
            _compose_with_noise_scaled(unit.batch.mechanism_charges, noise_factor)
            if all_additive
            else prepare_all(1 / noise_factor**2).curve
        )

    factor = least_parameter_by_shortfall(
        log_price_excess, str(price), _PRECISION, math.sqrt(2) * price.noise_size_near
    )
    batch = prepare_all(1 / factor**2)
    while not price.is_satisfied_by(batch.curve):  # sizes are rounded up to digits that print
        factor *= 1 + _PRECISION
        batch = prepare_all(1 / factor**2)
    return batch


def _gaussian_price(offer: BatchQuestionOffer, rho: Fraction, price: Price) -> Price:
    """Return a question's share of ρ; one that discovers groups gets (ε, δ), with half of the δ split among those."""
    rho_share = rho * offer.share
    if not offer.discovers_groups:
        return Price(rho=rounded_down_to_13_digits(rho_share))
    return Price(rounded_down_to_13_digits(Fraction(math.sqrt(8 * rho_share))), price.delta * offer.share / 2)


def _compose_with_noise_scaled(charged: Sequence[Charged], factor: Fraction) -> Curve:
    """Compose the same noise with every scale multiplied by a factor."""
    return compose(
        Charged(
            charge.mechanism.of_size(size_rounded_up(charge.mechanism.sizes[0] * factor)),
            charge.sensitivity,
            charge.times,
        ).curve
        for charge in charged
        if isinstance(charge.mechanism, Additive)
    )


def _required_error_ratio(laplace: PricedBatch, account: Budget | None) -> float:
    """Return the factor by which Gaussian noise must lower the error, or the price, to be chosen."""
    stays_pure = account is not None and "pure" in account.remaining and account.affords(laplace.curve)
    return 2.0 if stays_pure else 1.0


def _mean_log_half_width(batch: PricedBatch) -> float:
    """Return the mean logarithm of all half-widths."""
    widths = [width for question in batch.prepared for width in question.half_widths()]
    return sum(math.log(float(max(width, Fraction(1, 10**9)))) for width in widths) / max(1, len(widths))


@codec.serialisable("measured-together")
@dataclass(frozen=True)
class BatchMeasurements:
    """The noisy results of several questions, in their order."""

    questions: tuple[NoisyMeasurements, ...] = field(metadata=codec.stored_name_metadata("each"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", tuple(self.questions))
        if not all(isinstance(question, NoisyMeasurements) for question in self.questions):
            raise InvalidParameter(
                "questions", ValueWords("other objects"), "a tuple of NoisyMeasurements, one for each question"
            )


@dataclass(frozen=True)
class BatchRelease:
    """Several release strategies as one: their measurements form one batch."""

    strategies: tuple[ReleaseStrategy[NoisyMeasurements], ...]

    @cached_property
    def batch(self) -> Batch:
        return Batch(tuple(measurement for kind in self.strategies for measurement in kind.batch.measurements))

    @cached_property
    def combined_readings(self) -> tuple[CombinedReading, ...]:
        """Return the combined statements, each with the readings of totals that it serves."""
        return combine_readings([reading for reading in self._all_readings if isinstance(reading, GroupTotals)])

    @property
    def _all_readings(self) -> Sequence[PlanReading[Any]]:
        return [reading for kind in self.strategies for reading in kind.readings]

    @property
    def readings(self) -> Sequence[PlanReading[Any]]:
        others = [reading for reading in self._all_readings if not isinstance(reading, GroupTotals)]
        return [*(statement.reading for statement in self.combined_readings), *others]

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """Always empty: stored answers are looked up question by question."""
        return {}

    def draw(self, read: Read) -> BatchMeasurements:
        totals: dict[GroupTotals, Integers] = {}
        for statement in self.combined_readings:
            exact_totals = read(statement.reading)
            totals.update({reading_part: exact_totals[:, columns] for reading_part, columns in statement.parts})

        def read_shared(reading: PlanReading[Any]) -> Any:
            if not isinstance(reading, GroupTotals) or reading not in totals:
                return read(reading)
            return totals[reading]

        return BatchMeasurements(tuple(kind.draw(read_shared) for kind in self.strategies))

    def result_at_extreme_totals(self) -> BatchMeasurements:
        return BatchMeasurements(tuple(kind.result_at_extreme_totals() for kind in self.strategies))
