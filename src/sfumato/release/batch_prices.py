"""Several questions may be released together at one price: this finds how much of it each of them gets.

At a pure price each question has a share of ε, and their ε's add up to it. With a δ Gaussian noise may be used: each
question has a share of ρ, and the largest ρ is taken at which the composition of everything that is drawn keeps the
price. That is far less than the sum of what the questions cost one by one, since Gaussian losses add up by their
squares (Dong, Roth & Su 2022; for noise on whole numbers Canonne, Kamath & Steinke 2020).

Several questions are released together: one price, one charge, and one statement where their rows allow it.

Each question keeps its own measurements with its own noise, and what all of them leak is composed (``Batch``). The
draws are independent, so the composition is that of a release whose parameters are fixed in advance: they are decided
from the policy before anything is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.combining import CombinedReading, combined
from sfumato.plan.readings.total_readings import GroupTotals, Integers, PlanReading
from sfumato.privacy import Budget, Curve, codec, compose
from sfumato.privacy.calibration import least_by
from sfumato.privacy.numbers import Number
from sfumato.release.measured import Measured
from sfumato.release.measurement import Batch
from sfumato.release.parts.question_parts import Family, rounded_down, rounded_up as size_rounded_up
from sfumato.release.preparing import Prepared
from sfumato.release.prices import Price, rounded_up
from sfumato.release.releasing import Read, ReleaseStrategy

_PRECISION = Fraction(1, 2**16)


@dataclass(frozen=True)
class Offer:
    """An offer is one question, which is prepared at any price; ``finds`` says that it needs a δ of its own."""

    prepare: Callable[[Price, Family], Prepared]
    share: Fraction
    """Of the price of all questions."""
    finds: bool = False


@dataclass(frozen=True)
class PricedBatch:
    """This holds several questions at one price: each prepared, and what all of them promise together."""

    prepared: tuple[Prepared, ...]
    price: Price
    reason: str

    @cached_property
    def batch(self) -> Batch:
        return Batch(tuple(each for one in self.prepared for each in one.batch.measurements))

    @property
    def curve(self) -> Curve:
        return self.batch.curve

    @property
    def pure(self) -> bool:
        return all(each.pure for each in self.prepared)

    @property
    def apart(self) -> float:
        """Estimate the sum of what all noise would cost one by one: Laplace noise of about the same half-widths."""
        noised = [each for one in self.prepared for each in one.measured[0]]
        steps = [(float(each.mechanism.error("0.95")), each.sensitivity) for each in noised]
        return sum(math.log(20) * float(change.l1) / max(width, 1.0) for width, change in steps if change is not None)

    def only(self, places: Sequence[int]) -> PricedBatch:
        """Give the same without what was bought before: everything else as it is, and the price of that alone."""
        if len(places) == len(self.prepared):
            return self
        kept = replace(self, prepared=tuple(self.prepared[place] for place in places))
        return replace(kept, price=promised(kept, self.price.delta)) if places else kept


def priced(offers: Sequence[Offer], price: Price, family: Family | None, account: Budget | None) -> PricedBatch:
    """Give each question its share of a price, with the family of noise that it allows and that errs least.

    Gaussian noise would close the account's pure currency, so while that is open it must halve the error to be chosen
    unasked.
    """
    if family is Laplace or not price.allows_gaussian:
        return _laplace(offers, price)
    gaussian = _gaussian(offers, price)
    if family is not None or price.rho is not None:
        return gaussian
    laplace = _laplace(offers, price)
    gain = math.exp(_noise(laplace) - _noise(gaussian))
    return gaussian if gain >= _wanted_gain(laplace, account) else laplace


def within(
    offers: Sequence[Offer],
    least_prices: Callable[[Family], Sequence[Price]],
    delta: Fraction,
    family: Family | None,
    account: Budget | None,
) -> PricedBatch:
    """Give each question the least price at which it is accurate enough, and say what all of them promise together."""

    def at(chosen: Family) -> PricedBatch:
        parts = [offer.prepare(own, chosen) for offer, own in zip(offers, least_prices(chosen), strict=True)]
        found = PricedBatch(tuple(parts), Price(1), f"{chosen.__name__} noise, each question at its least price")
        return replace(found, price=promised(found, delta))

    if family is not None or not delta:
        return at(family or Laplace)
    laplace, gaussian = at(Laplace), at(Gaussian)
    gain = float((laplace.price.epsilon or 0) / (gaussian.price.epsilon or 1))
    return gaussian if gain >= _wanted_gain(laplace, account) else laplace


def promised(found: PricedBatch, delta: Fraction) -> Price:
    """State what some prepared questions promise together: the least ε beside this δ."""
    paid = [each.price for each in found.prepared]
    if all(each.epsilon is not None for each in paid):  # ε's and δ's add up, whatever composition would prove
        summed = Price(sum(each.epsilon or 0 for each in paid), sum(each.delta for each in paid))
        if not delta or summed.kept_by(found.curve):
            return summed
    if not delta:
        return Price(rho=sum((each.rho or Fraction(0) for each in paid), Fraction(0)))
    epsilon = rounded_up(Fraction(found.curve.epsilon(float(delta))))
    while not Price(epsilon, delta).kept_by(found.curve):
        epsilon = rounded_up(epsilon * (1 + Fraction(1, 10**4)))
    return Price(epsilon, delta)


def _laplace(offers: Sequence[Offer], price: Price) -> PricedBatch:
    """Give each question its share of ε; those that find groups share the δ."""
    finding = sum((each.share for each in offers if each.finds), Fraction(0))
    parts = []
    for each in offers:
        delta = price.delta * each.share / finding if each.finds else Fraction(0)
        own = (
            Price(rho=price.rho * each.share)
            if price.rho is not None
            else Price((price.epsilon or 0) * each.share, delta)
        )
        parts.append(each.prepare(own, Laplace))
    kept = price if finding or price.rho is not None else Price(price.epsilon)
    return PricedBatch(tuple(parts), kept, "Laplace noise, whose ε's add up to the price")


def _gaussian(offers: Sequence[Offer], price: Price) -> PricedBatch:
    """Give each question its share of the largest ρ that keeps the price."""
    reason = "Gaussian noise, calibrated to what all questions leak together"

    def at(rho: Fraction) -> PricedBatch:
        return PricedBatch(
            tuple(each.prepare(_gaussian_price(each, rho, price), Gaussian) for each in offers), price, reason
        )

    if price.rho is not None:
        return at(price.rho)
    unit = at(Fraction(1))
    simple = all(isinstance(each, Additive) for each in unit.batch.mechanisms)

    def short(factor: Fraction) -> float:
        return price.shortfall(_weakened(unit.batch.charged, factor) if simple else at(1 / factor**2).curve)

    factor = least_by(short, str(price), _PRECISION)
    found = at(1 / factor**2)
    while not price.kept_by(found.curve):  # sizes are rounded up to digits that print
        factor *= 1 + _PRECISION
        found = at(1 / factor**2)
    return found


def _gaussian_price(offer: Offer, rho: Fraction, price: Price) -> Price:
    """Give a question its share of ρ; one that finds groups gets an ε and a δ, and all of those half of the δ."""
    own = rho * offer.share
    if not offer.finds:
        return Price(rho=rounded_down(own))
    return Price(rounded_down(Fraction(math.sqrt(8 * own))), price.delta * offer.share / 2)


def _weakened(charged: Sequence[Charged], factor: Fraction) -> Curve:
    """Compose the same noise, so many times as large."""
    return compose(
        Charged(
            each.mechanism.of_size(size_rounded_up(each.mechanism.sizes[0] * factor)), each.sensitivity, each.times
        ).curve
        for each in charged
        if isinstance(each.mechanism, Additive)
    )


def _wanted_gain(laplace: PricedBatch, account: Budget | None) -> float:
    """Say how many times smaller the error, or the price, must be for Gaussian noise."""
    keeps = account is not None and "pure" in account.remaining and account.affords(laplace.curve)
    return 2.0 if keeps else 1.0


def _noise(found: PricedBatch) -> float:
    """Give the mean of the logarithms of all half-widths."""
    widths = [width for each in found.prepared for width in each.half_widths()]
    return sum(math.log(float(max(width, Fraction(1, 10**9)))) for width in widths) / max(1, len(widths))


@codec.value("measured-together")
@dataclass(frozen=True)
class MeasuredTogether:
    """This holds what was drawn for each of several questions, in their order."""

    each: tuple[Measured, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "each", tuple(self.each))
        if not all(isinstance(one, Measured) for one in self.each):
            raise InvalidParameter("each", "something else", "what was drawn for each question")


@dataclass(frozen=True)
class Together:
    """Several kinds of release are one: their measurements are one batch."""

    kinds: tuple[ReleaseStrategy[Measured], ...]

    @cached_property
    def batch(self) -> Batch:
        return Batch(tuple(each for kind in self.kinds for each in kind.batch.measurements))

    @cached_property
    def shared(self) -> tuple[CombinedReading, ...]:
        """Say which readings of totals are made by which statement."""
        return combined([each for each in self._every if isinstance(each, GroupTotals)])

    @property
    def _every(self) -> Sequence[PlanReading[Any]]:
        return [each for kind in self.kinds for each in kind.readings]

    @property
    def readings(self) -> Sequence[PlanReading[Any]]:
        others = [each for each in self._every if not isinstance(each, GroupTotals)]
        return [*(each.reading for each in self.shared), *others]

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """It is not looked for as a whole: each question's answer is, by itself."""
        return {}

    def draw(self, read: Read) -> MeasuredTogether:
        totals: dict[GroupTotals, Integers] = {}
        for each in self.shared:
            exact = read(each.reading)
            totals.update({own: exact[:, columns] for own, columns in each.parts})

        def already(reading: PlanReading[Any]) -> Any:
            if not isinstance(reading, GroupTotals) or reading not in totals:
                return read(reading)
            return totals[reading]

        return MeasuredTogether(tuple(kind.draw(already) for kind in self.kinds))

    def rehearsal(self) -> MeasuredTogether:
        return MeasuredTogether(tuple(kind.rehearsal() for kind in self.kinds))
