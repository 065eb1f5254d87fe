"""Privacy losses: one frozen value per dominating pair (P, Q), and the losses of (ε, δ)-DP, bounded-range and ρ-zCDP
releases and of finite pairs.

For z ~ P the privacy loss is L = ln(P(z)/Q(z)). Every family has the same interface, for one direction of the pair;
``reversed()`` is the other direction (P and Q exchanged), and symmetric pairs are their own reverse:

- ``pure``: the max-divergence D∞ of the pair outside its failure, or None where it is infinite
- ``failure``: the mass of P where Q = 0, the atom of L at +∞
- ``top``: the largest finite value of L, or None
- ``renyi(order)``: D_α of the pair outside its failure, order 1 (KL) included, infinity not
- ``delta(epsilon)``: the hockey-stick divergence in closed form for ε ≥ 0, failure included, with a bound on its
  rounding error; None where only the moments are known in closed form
- ``log_moment(z, *parameters)``: ln E_P[e^{zL}; L < ∞] for complex z with Re z > 0, vectorised over z and over many
  members of the family at once; ``log_bound(c, t, *parameters)``: at least ln|E e^{(c+is)L}| for every s ≥ t
- ``lattice``: (spacing, offset) when L lives on offset + spacing·ℤ, else None
- ``group(k)``: the loss when k units change together
- ``factors``: pairs whose product dominates this one and replaces it in compositions, where it is no pair itself

Why one pair may stand for a mechanism: a pair dominates when its hockey-stick divergence is at least that of every
pair of neighbours, for every ε; products of dominating pairs dominate adaptive compositions (Zhu, Dong & Wang 2022,
Thm 10 and Prop. 8).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec, pairs
from sfumato.privacy.numbers import (
    BELOW_ONE,
    NONNEGATIVE,
    amount_from_units,
    exact,
    exact_integer,
    exprel_minus,
    format_exact,
    log_exprel_minus_ratio,
    log_ratio,
    power_excess,
    units_rounded_up,
)
from sfumato.quick_dataclass import dataclass

Complex = NDArray[np.complexfloating[Any, Any]]


Real = NDArray[np.floating[Any]]

LARGE = 30.0
"""Beyond this e^x − 1 is e^x to the last bit, and logarithms are taken term by term."""
ROUNDING = 8 * 2.0**-52
"""The relative error of each elementary step of a closed form: a few units in the last place."""
ZERO = Fraction(0)


@dataclass(frozen=True)
class LossPair(ABC):
    """What compositions read of a pair; by default a symmetric one without failure, of which only the moments are known
    in closed form.
    """

    moments_known: ClassVar[bool] = True

    @property
    def pure_epsilon(self) -> Fraction | None:
        return None

    @property
    def largest_finite_loss(self) -> Fraction | None:
        return self.pure_epsilon

    @property
    def failure(self) -> Fraction:
        return ZERO

    @property
    def spacing_and_offset(self) -> tuple[Fraction, Fraction] | None:
        return None

    @property
    def is_trivial(self) -> bool:
        """Whether P = Q: nothing leaks."""
        return self.pure_epsilon == 0 and not self.failure

    @property
    def is_zero_where_finite(self) -> bool:
        """Whether the loss is 0 wherever it is finite: such a loss lies on every lattice."""
        return self.pure_epsilon == 0

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """A total order on losses, so that equal bags are listed alike; floats decide first, exact fields between equal
        floats.
        """
        exact_fields = tuple(getattr(self, f.name) for f in fields(self))
        floats = tuple(float(x) for x in exact_fields if isinstance(x, Fraction))
        return codec.kind_or_class_name(type(self)), floats, exact_fields

    def __repr__(self) -> str:
        field_texts = (f"{f.name}={_format_field(getattr(self, f.name))}" for f in fields(self))
        return f"{type(self).__name__}({', '.join(field_texts)})"

    @property
    def factors(self) -> tuple[tuple[LossPair, int], ...]:
        """The pairs, with multiplicities, that replace this loss in compositions."""
        return ((self, 1),)

    @property
    def products_to_maximise(self) -> tuple[tuple[LossPair, tuple[tuple[LossPair, int], ...]], ...]:
        """The products of pairs the worst of which gives this loss's δ(ε) when it is not composed, each with a loss
        that bounds it quickly; empty where it is known otherwise.
        """
        return ()

    @property
    def is_sharper_alone(self) -> bool:
        """Whether δ(ε) of this loss alone is known better than that of its factors."""
        return bool(self.products_to_maximise)

    @property
    def dominated_factors(self) -> tuple[tuple[LossPair, int], ...]:
        """Pairs whose product this loss dominates, where ``factors`` only dominate it; empty where they do both."""
        return ()

    def reversed(self) -> LossPair:
        return self

    @abstractmethod
    def renyi(self, order: float) -> float:
        """Return D_α of the pair outside its failure."""

    def delta_and_error(self, epsilon: float) -> tuple[float, float] | None:  # noqa: ARG002
        return None

    @property
    def magnitude(self) -> float:
        """Bound |L| up to Gaussian tails: rounding errors of ``log_moment`` scale with it."""
        return float(self.largest_finite_loss or 0)


@dataclass(frozen=True, repr=False)
class Loss(LossPair):
    """The interface of all families: a pair that stands for a release, for any number of changed units."""

    def reversed(self) -> Loss:
        return self

    def symmetrised(self) -> Loss:
        """Return a loss that dominates this one and its reverse at every real ε."""
        return self

    @abstractmethod
    def group(self, k: int) -> Loss:
        """Return the loss when k units change together."""


@dataclass(frozen=True, repr=False)
class ClosedFormLoss(LossPair):
    """A loss of a family whose moments are known in closed form, so that many members are composed at once."""

    @property
    @abstractmethod
    def log_moment_parameters(self) -> tuple[Any, ...]:
        """The arguments of ``log_moment``, as floats (for a finite pair, arrays)."""

    @staticmethod
    @abstractmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        """Return ln E_P[e^{zL}; L < ∞] at each z, for many members of the family at once."""

    @classmethod
    def log_bound(cls, c: float, t: float, *parameters: Any) -> Real:  # noqa: ARG003
        """Bound |E e^{(c+is)L}| by E e^{cL}: always true, and all that holds for a loss on a lattice."""
        return cls.log_moment(np.array([c + 0j]), *parameters).real

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        """Bound ln|M(c + it)/M(c)| from above at each height t, for each member: cheaper than the moment."""
        at_c = cls.log_moment(np.array([c + 0j]), *parameters).real
        return cls.log_moment(c + 1j * heights, *parameters).real - at_c


@dataclass(frozen=True, repr=False)
class AtomLoss(ClosedFormLoss):
    """A loss with finitely many values: its parameters are their probabilities under P and the values, as columns."""

    def renyi(self, order: float) -> float:
        """Compute D_α of P given Q > 0 against Q given P > 0, from sums over the atoms."""
        mass, loss = (column[:, 0] for column in self.log_moment_parameters)
        log_q = math.log(math.fsum(mass * np.exp(-loss)))
        log_p = math.log(math.fsum(mass))
        shifted = loss + (log_q - log_p)
        if order == 1:
            return max(0.0, math.fsum(mass * shifted) / math.exp(log_p))
        exponents = (order - 1) * shifted
        lift = float(exponents.max())
        total = math.log(math.fsum(mass * np.exp(exponents - lift))) - log_p
        return max(0.0, (lift + total) / (order - 1))

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        mass, loss = parameters
        if not len(mass):
            return np.full((1, z.size), -np.inf + 0j)
        logs = np.log(mass) + loss * z.real
        lift = logs.max(0)
        real, imaginary = _weighted_phase_sum(np.exp(logs - lift), loss * z.imag)
        return (lift + np.log(np.hypot(real, imaginary)) + 1j * np.arctan2(imaginary, real))[None, :]

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        mass, loss = parameters
        if not len(mass):
            return super().log_decay(c, heights, *parameters)
        logs = np.log(mass) + loss * c
        weights = np.exp(logs - logs.max())
        return np.log(np.hypot(*_weighted_phase_sum(weights, loss * heights)) / weights.sum())[None, :]


def two_atom_decay(high: Real, low: Real, phase: Real) -> Real:
    """Return ln of a bound of |E e^{itL}| when L = ±x with these probabilities and arbitrary otherwise; phase = tx.

    |high·e^{i·phase} + low·e^{−i·phase}|² = (high + low)² − 4·high·low·sin²(phase).
    """
    total = high + low
    magnitude = np.sqrt(np.maximum(0.0, total * total - 4 * high * low * np.sin(phase) ** 2))
    return np.log(np.maximum(0.0, 1 - total) + magnitude + ROUNDING * (1 + np.abs(phase)))


def _format_field(value: object) -> str:
    if isinstance(value, tuple):
        ellipsis = ", …" if len(value) > 4 else ""
        return f"({', '.join(_format_field(element) for element in value[:4])}{ellipsis})"
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def sum_with_counts_rounded_up(values: Iterable[tuple[Fraction | None, int]]) -> Fraction | None:
    """Sum count·value: exactly for a few values; for many, whose denominators would explode, each rounded up
    to 1e-30.
    """
    terms = []
    for value, count in values:
        if value is None:
            return None
        terms.append((value, count))
    if len(terms) <= 16:
        return sum((count * value for value, count in terms), ZERO)
    return amount_from_units(sum(count * units_rounded_up(value) for value, count in terms))


_LONGEST_CHAIN = 8


@codec.serialisable("response-loss")
@dataclass(frozen=True, repr=False)
class ResponseLoss(ClosedFormLoss, Loss):
    """The loss of randomised response over ``choices`` answers that reveals everything with probability ``reveal``.

    With two choices it dominates every (ε, δ)-DP mechanism (Kairouz, Oh & Viswanath 2015, Thm 3.4).
    M(z) − 1 = (1 − e^{−zε})(e^{zε} − e^{−ε})/(1 + (k−1)e^{−ε}), outside the failure.
    """

    epsilon: Fraction
    choices: int = 2
    reveal: Fraction = ZERO

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", NONNEGATIVE))
        object.__setattr__(self, "choices", exact_integer(self.choices, "choices", at_least=2))
        object.__setattr__(self, "reveal", exact(self.reveal, "delta", BELOW_ONE))

    @property
    def pure_epsilon(self) -> Fraction:
        return self.epsilon

    @property
    def failure(self) -> Fraction:
        return self.reveal

    @property
    def spacing_and_offset(self) -> tuple[Fraction, Fraction] | None:
        if not self.epsilon:
            return None
        return (2 * self.epsilon, self.epsilon) if self.choices == 2 else (self.epsilon, ZERO)

    @property
    def log_moment_parameters(self) -> tuple[float, float, float]:
        return float(self.epsilon), float(self.choices), float(self.reveal)

    def renyi(self, order: float) -> float:
        x, k, _ = self.log_moment_parameters
        z, normaliser = order - 1, 1 + (k - 1) * math.exp(-x)
        if z == 0:
            return x * -math.expm1(-x) / normaliser
        y = z * x
        if y > LARGE:
            # the least term, e^{−x−2y}, is below 1e-26 of the sum
            return x + math.log((1 + (k - 2) * math.exp(-x - y)) / normaliser) / z
        return math.log1p(-math.expm1(-y) * (math.expm1(y) - math.expm1(-x)) / normaliser) / z

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        x, k, reveal = parameters
        y = z * x
        low = np.exp(-x)
        # ln of e^y·(1 + (k−2)e^{−x−y} + e^{−x−2y})/(1 + (k−1)e^{−x}), written around y = 0
        atoms = (k - 2) * low * np.expm1(-y) + low * np.expm1(-2 * y)
        return y + np.log1p(atoms / (1 + (k - 1) * low)) + np.log1p(-reveal)

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        x, k, reveal = parameters
        log_scale = (
            np.log1p(-reveal) - np.log1p((k - 1) * np.exp(-x)) - cls.log_moment(np.array([c + 0j]), *parameters).real
        )
        return two_atom_decay(np.exp(c * x + log_scale), np.exp(-(c + 1) * x + log_scale), x * heights)

    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        x, k, reveal = self.log_moment_parameters
        gap = -math.expm1(min(0.0, epsilon - x))
        value = reveal + (1 - reveal) * gap / (1 + (k - 1) * math.exp(-x))
        return value, ROUNDING * (value + x * (1 - gap))

    def group(self, k: int) -> ResponseLoss:
        """Return (kε, δ(1 + e^ε + … + e^{(k−1)ε})): the definition applied along a chain of k neighbours (Dwork & Roth
        2014, Thm 2.2, is the case δ = 0).
        """
        if k == 1:
            return self
        epsilon = k * self.epsilon
        if not self.reveal:
            return ResponseLoss(epsilon)
        x = float(self.epsilon)
        growth = math.expm1(min(700.0, k * x)) / math.expm1(min(700.0, x)) if x else float(k)
        reveal = self.reveal * Fraction(growth * (1 + 2.0**-40))
        if reveal >= 1 or k * x > 700:
            raise InvalidParameter(
                "k", k, "small enough that δ stays below 1", fix="lower k, or start from a smaller δ"
            )
        return ResponseLoss(epsilon, 2, reveal)


@codec.serialisable("bounded-range-loss")
@dataclass(frozen=True, repr=False)
class BoundedRangeLoss(ClosedFormLoss, Loss):
    """The loss of a release whose privacy loss spans at most ``eta`` for each pair of neighbours (the exponential
    mechanism).

    The worst pairs have two atoms, at t and t − η, for some t (Dong, Durfee & Rogers 2020, Lemma 1), and ``renyi`` is
    the supremum of their divergences over t, in closed form. Their hockey-stick divergences are
    (1 − e^{t−η})(1 − e^{ε−t})/(1 − e^{−η}), largest at t = (ε+η)/2: (1 − e^{(ε−η)/2})²/(1 − e^{−η}). As a function of
    e^ε this is convex with slope −1 at e^{−η} and 0 at e^η, so it is itself the profile of a pair, whose loss has
    density e^{l/2}/(4 sinh(η/2)) on [−η, η]: that pair dominates them all and is what composes (Zhu, Dong & Wang 2022,
    Prop. 7).
    """

    eta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", exact(self.eta, "epsilon", NONNEGATIVE))

    @property
    def pure_epsilon(self) -> Fraction:
        return self.eta

    @property
    def log_moment_parameters(self) -> tuple[float]:
        return (float(self.eta),)

    def renyi(self, order: float) -> float:
        eta, z = float(self.eta), order - 1
        if eta == 0:
            return 0.0
        # η − t at the worst t, where e^{−t} = e^{−η}·exprel_minus(zη)/exprel_minus(αη)
        gap = log_exprel_minus_ratio(z * eta, order * eta)
        t = eta - gap
        log_p = math.log(math.expm1(gap)) - eta - math.log(-math.expm1(-eta))
        p = math.exp(log_p)
        if order * eta <= LARGE:
            excess = p * power_excess(t, order) + (1 - p) * power_excess(-gap, order)
            return math.log1p(excess) / z if z else excess
        if z == 0:
            return t - eta * (1 - math.exp(log_p + t))
        return (log_p + order * t + math.log1p(math.exp(min(-order * eta - log_p, 700.0)) * (1 - p))) / z

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        (eta,) = parameters
        return z * eta + np.log(exprel_minus((2 * z + 1) * eta) / exprel_minus(eta))

    @classmethod
    def log_bound(cls, c: float, t: float, *parameters: Any) -> Real:
        """Use that the integral over an interval decays as 1/|2z + 1|."""
        (eta,) = parameters
        ends = 1 + np.exp(-(2 * c + 1) * eta)
        decaying = c * eta + np.log(ends / (-np.expm1(-eta) * abs(complex(2 * c + 1, 2 * t))))
        return np.minimum(super().log_bound(c, t, eta), decaying)

    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        eta = float(self.eta)
        if epsilon > eta * (1 + ROUNDING):  # surely beyond the largest loss, not by rounding alone
            return 0.0, 0.0
        gap = -math.expm1(min(0.0, epsilon - eta) / 2)
        width, gap_above = -math.expm1(-eta), gap + ROUNDING * eta
        return gap * (gap / width), ROUNDING * gap_above * ((gap_above + eta * (1 - gap)) / width)

    def group(self, k: int) -> BoundedRangeLoss:
        """Add the ranges along a chain of k neighbours."""
        return BoundedRangeLoss(k * self.eta)


@codec.serialisable("concentrated-loss")
@dataclass(frozen=True, repr=False)
class ConcentratedLoss(Loss):
    """The loss of any ρ-zCDP release: only D_α ≤ ρα for all α > 1 is known (Bun & Steinke 2016).

    No single pair dominates, so only moments at real orders exist; N(ρ, 2ρ) attains the bound and gives lower bounds.
    """

    rho: Fraction
    moments_known: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact(self.rho, "rho", NONNEGATIVE))

    @property
    def pure_epsilon(self) -> Fraction | None:
        return None if self.rho else ZERO

    def renyi(self, order: float) -> float:
        return order * float(self.rho)

    def group(self, k: int) -> ConcentratedLoss:
        """Return the loss for k²ρ (Bun & Steinke 2016, Prop. 1.9)."""
        return ConcentratedLoss(k * k * self.rho)


@codec.serialisable("pair-loss")
@dataclass(frozen=True, repr=False)
class PairLoss(AtomLoss, Loss):
    """The loss of any two finite distributions, outcome by outcome, with exact probabilities.

    Outside the failure the pair is P′ = P given Q > 0 against Q′ = Q given P > 0: with f the larger failure
    of the two directions, P = (1−f)P′ + fN and Q = (1−f)Q′ + fN′ for some N, N′, as an account needs.
    """

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        p, q = pairs.aligned_masses(self.p, self.q)
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "q", q)

    def reversed(self) -> PairLoss:
        return self._unchecked(self.q, self.p)

    def symmetrised(self) -> PairLoss:
        return self._unchecked(*pairs.symmetrised_masses(self.p, self.q))

    @staticmethod
    def _unchecked(p: pairs.Exact, q: pairs.Exact) -> PairLoss:
        """Build a pair derived from validated ones: its numbers may have more digits than a public number."""
        pair = object.__new__(PairLoss)
        object.__setattr__(pair, "p", p)
        object.__setattr__(pair, "q", q)
        return pair

    @cached_property
    def _common_outcomes(self) -> list[tuple[Fraction, Fraction]]:
        return [(a, b) for a, b in zip(self.p, self.q, strict=True) if a and b]

    @cached_property
    def _outcomes_over_common_denominators(self) -> list[tuple[int, int, int]]:
        """The numerators of P and Q of each outcome, and their denominator: profiles are asked for often."""
        return [
            (a.numerator * b.denominator, b.numerator * a.denominator, a.denominator * b.denominator)
            for a, b in zip(self.p, self.q, strict=True)
        ]

    @property
    def failure(self) -> Fraction:
        return 1 - sum((a for a, _ in self._common_outcomes), ZERO)

    @property
    def _reverse_failure(self) -> Fraction:
        return 1 - sum((b for _, b in self._common_outcomes), ZERO)

    @cached_property
    def _conditioned_losses(self) -> list[tuple[float, float]]:
        """(Q′, ln P′/Q′) for each common outcome."""
        p_mass, q_mass = 1 - self.failure, 1 - self._reverse_failure
        return [(float(b / q_mass), log_ratio(a / p_mass, b / q_mass)) for a, b in self._common_outcomes]

    @property
    def pure_epsilon(self) -> Fraction:
        return _nonnegative_rounded_up(max((y for _, y in self._conditioned_losses), default=0.0))

    @property
    def is_trivial(self) -> bool:
        return self.p == self.q

    @property
    def is_zero_where_finite(self) -> bool:
        return all(a == b for a, b in self._common_outcomes)

    @property
    def largest_finite_loss(self) -> Fraction | None:
        return _nonnegative_rounded_up(max((log_ratio(a, b) for a, b in self._common_outcomes), default=0.0))

    def renyi(self, order: float) -> float:
        """Compute D_α of the pair. Near order 1 powers of x are nearly equal: their excess is known to about
        2^-52/(α − 1) of itself, the mean of x^{α−1} − 1 to about 2^-52/L for losses up to L; the better is used.
        """
        z = order - 1
        largest = max((abs(y) for _, y in self._conditioned_losses), default=0.0)
        if 0 < z < largest and z * largest <= 1:
            change = math.fsum(math.exp(math.log(b) + y) * math.expm1(z * y) for b, y in self._conditioned_losses if b)
            return max(0.0, math.log1p(change)) / z
        log_largest = max((math.log(b) + order * y for b, y in self._conditioned_losses if b), default=0.0)
        if log_largest > LARGE:
            scaled = math.fsum(
                math.exp(math.log(b) + order * y - log_largest) for b, y in self._conditioned_losses if b
            )
            return (log_largest + math.log(scaled)) / z if z else self._mean_loss()
        excess = math.fsum(weighted_power_excess(b, y, order) for b, y in self._conditioned_losses)
        return math.log1p(max(0.0, excess)) / z if z else max(0.0, excess)

    def _mean_loss(self) -> float:
        return math.fsum(math.exp(math.log(b) + y) * y for b, y in self._conditioned_losses if b)

    @property
    def log_moment_parameters(self) -> tuple[Real, Real]:
        mass = np.array([float(a) for a, _ in self._common_outcomes])[:, None]
        return mass, np.array([log_ratio(a, b) for a, b in self._common_outcomes])[:, None]

    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        growth = Fraction(math.exp(min(700.0, epsilon))) * Fraction(math.exp(max(0.0, min(700.0, epsilon - 700.0))))
        times, over = growth.as_integer_ratio()
        gaps = ((over * a - times * b, over * common) for a, b, common in self._outcomes_over_common_denominators)
        return math.fsum(gap / denominator for gap, denominator in gaps if gap > 0), ROUNDING * (1 + epsilon)

    def group(self, k: int) -> Loss:
        """Return the pair with trade-off 1 − (1−f)^{∘k}, f the trade-off function of both directions (Dong, Roth & Su
        2022, Thm 2.14).

        Its corners multiply with k, so long chains fall back to the rule for (ε, δ)-DP, which this pair is.
        """
        if k == 1:
            return self
        if k <= _LONGEST_CHAIN:
            return PairLoss(*pairs.group_pair(self.p, self.q, k))
        pure = max(self.pure_epsilon, self.reversed().pure_epsilon)
        return ResponseLoss(pure, 2, max(self.failure, self._reverse_failure)).group(k)

    @property
    def magnitude(self) -> float:
        return max((abs(log_ratio(a, b)) for a, b in self._common_outcomes), default=0.0)


def _weighted_phase_sum(weights: Real, angles: Real) -> tuple[Real, Real]:
    """Return Σ weight·e^{i·angle} as real and imaginary parts: real functions take a third of the time of
    complex ones.
    """
    return (weights * np.cos(angles)).sum(0), (weights * np.sin(angles)).sum(0)


def weighted_power_excess(b: float, y: float, order: float) -> float:
    """Return b·(x^α − 1 − α(x − 1)) at x = e^y, or its limit at order 1; by logarithms where a power overflows."""
    if order * abs(y) <= LARGE:
        return b * power_excess(y, order)
    if b == 0:
        return 0.0
    log_b = math.log(b)
    if order == 1:
        return math.exp(log_b + y) * (y - 1) + b
    return math.exp(log_b + order * y) - b - order * (math.exp(log_b + y) - b)


def _nonnegative_rounded_up(value: float) -> Fraction:
    """Return an exact number that is surely not below a computed logarithm."""
    return Fraction(max(0.0, value) * (1 + 2.0**-49))
