"""Certified bounds of δ(ε) of a composition, by numerical inversion of its moment function.

For the total loss L with moment function M(z) = E[e^{zL}; L < ∞] and any c > 0,

    δ(ε) = E[(1 − e^{ε−L})⁺; L < ∞] = (1/2πi) ∫_{Re z = c} M(z) e^{−zε} / (z(z+1)) dz     (Alghamdi et al. 2022)

because the two-sided Laplace transform of (1 − e^{ε−l})⁺ in ε is e^{zl}/(z(z+1)). We use the trapezoidal rule with
step h on that line, and every error it makes is known in sign or in size:

- *Aliasing.* By Poisson's summation formula the infinite sum is exactly Σ_k e^{ckΛ} δ(ε + kΛ) with Λ = 2π/h. No term
  is negative, so the sum is never below δ(ε). The terms k < 0 add at most e^{−cΛ}/(1 − e^{−cΛ}), because δ ≤ 1; the
  terms k > 0 are bounded by Chernoff's δ(x) ≤ M(s) e^{−sx} s^s/(1+s)^{1+s} at some s > c. Λ makes both negligible.
- *Truncation* at |Im z| = T: at most sup_{t ≥ T}|M(c + it)| · e^{−cε}/(πT).
- *Lattices.* When L lives on offset + a·ℤ, δ is linear in e^ε between lattice points; on them the same sum with the
  kernel a·[1/(1 − e^{−za}) − 1/(1 − e^{−(z+1)a})] over one period 2π/a is complete: there is nothing to truncate.
- *Smoothing.* Where neither decay nor a lattice ends the sum, we compose with one more release, a small μ-GDP one.
  That can only raise δ, so the upper bound stays one. For the lower we smooth twice, with μ and with rμ, r > 1. At a
  fixed loss l, with k = ε − l, smoothing raises (1 − e^k)⁺ by the time value of an option,
  e^{k/2}·∫₀^μ w(v)·e^{−k²/2v²} dv with w(v) = e^{−v²/8}/√(2π), because that is what its derivative in μ integrates to.
  Larger |k| favours larger v, so the ratio of the raises with μ and with rμ is largest at k = 0, where it is
  R = erf(μ/√8)/erf(rμ/√8). With λ = R/(1 − R), (1+λ)·smooth_μ − λ·smooth_{rμ} is therefore not above δ, whatever the
  law of L. The raise with μ is at most μ/√(2π), and negligible for |k| ≫ μ, so the gap is of first order in μ at worst
  (an atom of L about μ away from ε), and of second order where L has a bounded density near ε.
- *Rounding.* Each term is computed within a known number of units in the last place of its largest possible size, and
  that is added (the elementary functions of numpy are taken to be within 8 units).

Any c > 0 gives valid bounds; a good one gives tight ones. Ours is where Chernoff's bound is least, that is the order
α = 1 + c of the best conversion from Rényi divergence (Canonne, Kamath & Steinke 2020, Prop. 12).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.losses import AtomLoss, ClosedFormLoss, ConcentratedLoss, LossPair, sum_with_counts_rounded_up
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, DiscreteGaussianVectorLoss, GaussianLoss
from sfumato.privacy.numbers import float_above, next_float_up
from sfumato.quick_dataclass import dataclass

Complex = NDArray[np.complexfloating[Any, Any]]
Real = NDArray[np.floating[Any]]

_MAX_NODES = 1 << 12  # nodes on the half line at most, before smoothing truncates it
_SMOOTHED_NODES = 1 << 13  # nodes on the half line when smoothing truncates it
_MAX_LATTICE_NODES = 1 << 13  # nodes on half a period of a lattice at most
_PRECISION = 1e-11  # error allowed to aliasing and truncation, relative to δ
_SMOOTHED_PRECISION = 1e-7  # the same where smoothing is the larger error anyway
_WIDER = 1.5  # r: how much wider the second smoothing is
_ROUNDING = 32 * 2.0**-52
_CHUNK = 1 << 18  # complex numbers held at once
_PIECE = 1 << 14  # numbers computed between two prunings of the nodes
_FEW_NODES = 256  # nodes that need no cheaper bounds
_SMALLEST_C, _LARGEST_C = 1e-7, 1e15


@dataclass(frozen=True)
class _LossStack:
    """Members of one family side by side: parameters and counts of shape (members, 1)."""

    family: type[ClosedFormLoss]
    parameters: tuple[Any, ...]
    counts: Real

    def log_moment(self, z: Complex) -> Complex:
        # Sums, not matrix products: those would wake a pool of threads for microseconds of work.
        blocks = max(1, math.ceil(z.size * len(self.parameters[0]) / _CHUNK))
        return np.concatenate(
            [
                (self.counts * self.family.log_moment(part, *self.parameters)).sum(0)
                for part in np.array_split(z, blocks)
            ]
        )

    def log_bound(self, c: float, t: float) -> float:
        return float((self.counts * self.family.log_bound(c, t, *self.parameters)).sum())

    def log_decay(self, c: float, heights: Real) -> Real:
        return (self.counts * self.family.log_decay(c, heights, *self.parameters)).sum(0)

    def split_members(self, nodes: int, chunk_size: int = _CHUNK) -> list[_LossStack]:
        """Split into runs of members, small enough to prune the nodes between them."""
        if issubclass(self.family, AtomLoss):
            return [self]
        size = max(1, chunk_size // max(1, nodes))
        starts = range(0, len(self.counts), size)
        return [
            _LossStack(self.family, tuple(p[i : i + size] for p in self.parameters), self.counts[i : i + size])
            for i in starts
        ]

    def with_members_interleaved(self) -> _LossStack:
        """Return the same members, reordered so that the first few are spread over all of them."""
        if issubclass(self.family, AtomLoss):
            return self
        size = len(self.counts)
        order = np.argsort(np.arange(size) * 0.6180339887498949 % 1.0)
        return _LossStack(self.family, tuple(p[order] for p in self.parameters), self.counts[order])


@dataclass(frozen=True)
class Moments:
    """The moment function of a composition, in one direction."""

    stacks: tuple[_LossStack, ...]
    gaussian_mu_squared: float
    """Σμ² of everything Gaussian, kept apart because it adds."""
    slack: float
    """The sum of what rounded Gaussians add to the loss; their mass exceeds one by a part of it."""
    moments_known: bool
    """False when some part is known at real orders alone: then only Chernoff's bound is an upper bound."""
    largest_finite_loss: float
    """The largest finite loss; infinite when unbounded."""
    spacing_and_offset: tuple[Fraction, Fraction] | None
    count: float
    magnitude: float

    @classmethod
    def from_pairs(cls, parts: Sequence[tuple[LossPair, int]]) -> Moments:
        gaussian: list[float] = []
        slack = 0.0
        members: dict[object, list[tuple[ClosedFormLoss, int]]] = {}
        for loss, count in parts:
            if isinstance(loss, GaussianLoss):
                gaussian.append(count * float(loss.mu_squared))
            elif isinstance(loss, ConcentratedLoss):
                gaussian.append(2 * count * float(loss.rho))
            elif isinstance(loss, DiscreteGaussianVectorLoss):
                gaussian.append(count * float(loss.continuous_mu_squared))
                slack += count * loss.slack
            else:
                assert isinstance(loss, ClosedFormLoss), loss  # others stand for their factors
                members.setdefault(loss if isinstance(loss, AtomLoss) else type(loss), []).append((loss, count))
        top = sum_with_counts_rounded_up((loss.largest_finite_loss, count) for loss, count in parts)
        return cls(
            stacks=tuple(_stack_losses_of_family(group) for group in members.values()),
            gaussian_mu_squared=math.fsum(gaussian),
            slack=slack,
            moments_known=all(loss.moments_known for loss, _ in parts),
            largest_finite_loss=math.inf
            if top is None
            else next_float_up(float_above(top)),  # a float ε beyond it is surely beyond
            spacing_and_offset=_common_spacing_and_offset(parts),
            count=float(sum(count for _, count in parts)),
            magnitude=sum(count * loss.magnitude for loss, count in parts),
        )

    def log_moment(self, z: Complex) -> Complex:
        """Return ln M(z)."""
        total = self.gaussian_mu_squared / 2 * z * (z + 1) + self.slack * (z + 1)
        for stack in self.stacks:
            for piece in stack.split_members(z.size):
                total = total + piece.log_moment(z)
        return total

    def rounding_error(self, z: Real) -> Real:
        """Bound the rounding error of ln M at |z|: every factor is within a few units in the last place of its size."""
        size = self.count + self.magnitude * (z + 1) + self.gaussian_mu_squared * z * (z + 1) / 2 + 8
        return _ROUNDING * size

    def log_bound(self, c: float, t: float) -> float:
        """Bound ln|M(c + is)| from above for every s ≥ t."""
        plain = self.gaussian_mu_squared / 2 * (c * (c + 1) - t * t) + self.slack * (c + 1)
        return plain + sum(stack.log_bound(c, t) for stack in self.stacks)


def _stack_losses_of_family(group: list[tuple[ClosedFormLoss, int]]) -> _LossStack:
    first = group[0][0]
    counts = np.array([[float(count)] for _, count in group])
    if isinstance(first, AtomLoss):
        return _LossStack(type(first), first.log_moment_parameters, counts)
    columns = zip(*(loss.log_moment_parameters for loss, _ in group), strict=True)
    return _LossStack(type(first), tuple(np.array(column)[:, None] for column in columns), counts)


def _common_spacing_and_offset(parts: Sequence[tuple[LossPair, int]]) -> tuple[Fraction, Fraction] | None:
    """Return the coarsest lattice that holds every sum, if each part has one and the common one is not
    absurdly fine.
    """
    spacing, offset = Fraction(0), Fraction(0)
    for loss, count in parts:
        # Not by the largest loss: that of a pair whose finite losses are all negative is 0, and it lies on no lattice.
        if loss.is_zero_where_finite:
            continue
        if (lattice := loss.spacing_and_offset) is None:
            return None
        step, start = lattice
        spacing = Fraction(
            math.gcd(spacing.numerator * step.denominator, step.numerator * spacing.denominator),
            spacing.denominator * step.denominator,
        )
        offset += count * start
        if spacing * (1 << 20) < step:
            return None
    return (spacing, offset % spacing) if spacing else None


def chernoff_epsilon_and_log_delta(moments: Moments, c: Real) -> tuple[Real, Real]:
    """Return, for each c, the ε at which order 1 + c is best, and ln of the δ that Rényi divergence of that order
    proves there.

    ln δ = K(c) − cε + c·ln c − (1+c)·ln(1+c), K = ln M, stationary where ε = K′(c) + ln(c/(1+c)); K′ by a complex step.
    """
    step = 1e-20
    values = moments.log_moment(c * (1 + 1j * step))
    slope = values.imag / (c * step)
    epsilon = slope - np.log1p(1 / c)
    return epsilon, values.real - c * epsilon - c * np.log1p(1 / c) - np.log1p(c)


def _last_c_where(holds: Callable[[Real], NDArray[np.bool_]], *, rounds: int) -> float:
    """Return the c at which a monotone condition turns false; each round evaluates 33 values, and two rounds find it to
    a few per cent.
    """
    low, high = math.log(_SMALLEST_C), math.log(_LARGEST_C)
    for _ in range(rounds):
        grid = np.linspace(low, high, 33)
        reached = int(np.count_nonzero(holds(np.exp(grid))))
        low, high = grid[max(0, reached - 1)], grid[min(32, reached)]
    return math.exp((low + high) / 2)


@dataclass(frozen=True)
class Inversion:
    """The trapezoidal sum along Re z = c, which is evaluated at many ε."""

    moments: Moments
    c: float
    period: float
    """Λ: the sum cannot tell ε from ε + Λ."""
    heights: Real
    """Im z at the nodes that matter."""
    terms: Complex
    """M(z)·kernel(z)·h/π at the nodes (half of it at the real one), divided by M(c)."""
    log_peak: float
    """ln M(c), smoothing included."""
    truncation_error: float
    """The truncation error, relative to e^{ln M(c) − cε}."""
    constant_and_growing_error: tuple[float, float]
    """Rounding error relative to the same, as a constant and a part that grows with |ε|."""
    smoothing_mu: float
    """μ of the extra release, 0 when none was needed."""
    spacing: float
    offset: float
    alias_slope_and_log: tuple[float, float]
    """(s, b): the aliases above ε add at most e^{b − sε}."""
    second_smoothing: Inversion | None = None
    """The same with the second smoothing, when there is one."""

    def upper_delta(self, epsilon: float) -> float:
        """Bound δ(ε) from above, failure apart."""
        if epsilon >= self.moments.largest_finite_loss:
            return 0.0
        return min(1.0, max(5e-324, self._interpolated_delta(epsilon, +1)))

    def lower_delta(self, epsilon: float) -> float:
        """Bound δ(ε) from below, failure apart."""
        if self.second_smoothing is None:
            return max(0.0, self._interpolated_delta(epsilon, -1))
        narrow, wide = (
            math.erf(self.smoothing_mu / math.sqrt(8)),
            math.erf(self.second_smoothing.smoothing_mu / math.sqrt(8)),
        )
        if not narrow < wide:
            return 0.0  # parameters beyond floating point: nothing is claimed
        weight = narrow / (wide - narrow) * (1 + 2.0**-40)
        extrapolated = (1 + weight) * self.smoothed_delta(epsilon, -1) - weight * self.second_smoothing.smoothed_delta(
            epsilon, +1
        )
        return max(0.0, extrapolated * (1 - 2.0**-50))

    def _interpolated_delta(self, epsilon: float, side: int) -> float:
        """Bound δ at ε: by interpolation between the two lattice points around it, or directly."""
        if not self.spacing:
            return self.smoothed_delta(epsilon, side)
        lattice_point = self.offset + self.spacing * math.floor((epsilon - self.offset) / self.spacing)
        distance = max(0.0, epsilon - lattice_point)
        upper_weight = min(1.0, math.exp(distance - self.spacing) * math.expm1(-distance) / math.expm1(-self.spacing))
        return (1 - upper_weight) * self.smoothed_delta(lattice_point, side) + upper_weight * self.smoothed_delta(
            lattice_point + self.spacing, side
        )

    def smoothed_delta(self, epsilon: float, side: int) -> float:
        """Bound δ(ε) with the smoothing, from above (side +1) or below (−1)."""
        if (log_scale := self.log_peak - self.c * epsilon) > 600:
            return 1.0 if side > 0 else 0.0  # this contour was made for larger ε and says nothing here
        scale = math.exp(log_scale)
        waves = np.exp(-1j * epsilon * self.heights)
        total = float((self.terms * waves).real.sum())
        constant, growing = self.constant_and_growing_error
        error = self.truncation_error + constant + growing * abs(epsilon)
        if not math.isfinite(total + error):
            return 1.0 if side > 0 else 0.0  # parameters beyond floating point: nothing is known, nothing is claimed
        if side > 0:
            return scale * (total + error)
        decay = self.c * self.period
        alias = math.exp(-decay) / -math.expm1(-decay)
        if self.smoothing_mu or epsilon + self.period < self.moments.largest_finite_loss:
            s, bound = self.alias_slope_and_log
            alias += math.exp(min(600.0, bound - s * epsilon))
        return scale * (total - error) - alias


def build_inversion(moments: Moments, c: float, epsilon: float, log_delta: float) -> Inversion:
    """Build the sum along Re z = c for about this ε and δ."""
    log_peak = float(moments.log_moment(np.array([c + 0j]))[0].real)
    relative = math.exp(max(-600.0, min(0.0, log_delta - log_peak + c * epsilon)))  # δ beside the largest term
    wrap = _period_without_aliases(moments, c, epsilon, log_delta + math.log(_PRECISION))
    spacing, offset = (float(part) for part in moments.spacing_and_offset or (0, 0))
    smoothing = lost = 0.0
    if spacing and wrap / spacing <= 2 * _MAX_LATTICE_NODES:
        last_node = max(1, math.ceil(wrap / spacing / 2))
        wrap = spacing * (2 * last_node + 1)
    else:
        spacing = offset = 0.0
        last_node, lost = _last_node_and_truncation_error(
            moments, c, 2 * math.pi / wrap, log_peak, _PRECISION * relative
        )
        if last_node > _MAX_NODES:
            last_node = _SMOOTHED_NODES
            wrap = _period_without_aliases(moments, c, epsilon, log_delta + math.log(_SMOOTHED_PRECISION))
            smoothing, lost = _smoothing_mu_and_error(last_node * 2 * math.pi / wrap, _SMOOTHED_PRECISION * relative)
    step = 2 * math.pi / wrap
    nodes = c + 1j * step * np.arange(last_node + 1)
    weights = _summation_kernel(nodes, spacing) * (step / math.pi)
    weights[0] /= 2
    log_peak += smoothing**2 / 2 * c * (c + 1)
    size, sizes = np.abs(nodes), np.abs(weights)
    rounding = moments.rounding_error(size) + _ROUNDING * (_WIDER * smoothing) ** 2 * size * (size + 1)
    floor = (1e-3 * _SMOOTHED_PRECISION * relative if smoothing else 2.0**-64 * sizes[0]) / nodes.size
    significant, ratios, dropped = _significant_nodes(moments, nodes, smoothing, sizes, floor)
    inversion = Inversion(
        moments=moments,
        c=c,
        period=wrap,
        heights=nodes[significant].imag,
        terms=ratios * weights[significant],
        log_peak=log_peak,
        truncation_error=lost + dropped,
        constant_and_growing_error=(float((sizes * rounding).sum()), _ROUNDING * float((sizes * size).sum())),
        smoothing_mu=smoothing,
        spacing=spacing,
        offset=offset,
        alias_slope_and_log=_alias_slope_and_log(moments, c, wrap, epsilon, smoothing),
    )
    return replace(inversion, second_smoothing=_with_second_smoothing(inversion)) if smoothing else inversion


def _with_second_smoothing(inversion: Inversion) -> Inversion:
    """Return the sum with the second smoothing, which makes every term smaller beside the largest."""
    extra_variance = (_WIDER**2 - 1) * inversion.smoothing_mu**2 / 2
    c = inversion.c
    z = c + 1j * inversion.heights
    return replace(
        inversion,
        terms=inversion.terms * np.exp(extra_variance * (z * (z + 1) - c * (c + 1))),
        log_peak=inversion.log_peak + extra_variance * c * (c + 1),
        smoothing_mu=_WIDER * inversion.smoothing_mu,
    )


def _summation_kernel(z: Complex, spacing: float) -> Complex:
    if not spacing:
        return 1 / (z * (z + 1))
    denominator = np.expm1(-z * spacing) * np.expm1(-(z + 1) * spacing)
    return spacing * np.exp(-z * spacing) * -math.expm1(-spacing) / denominator


def _alias_slope_and_log(
    moments: Moments, c: float, wrap: float, epsilon: float, smoothing: float
) -> tuple[float, float]:
    """Return (s, b) such that the aliases above ε add at most e^{b − sε}, for the s that is best at this ε."""
    s = c * np.array([1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0, 5.0, 10.0])
    log_moment = moments.log_moment(s + 0j).real + moments.rounding_error(s) + smoothing**2 / 2 * s * (s + 1)
    exponent = (s - c) * wrap
    bounds = log_moment - s * np.log1p(1 / s) - np.log1p(s) - exponent - np.log(-np.expm1(-exponent))
    best = int(np.argmin(bounds - s * epsilon))
    return float(s[best]), float(bounds[best])


def _period_without_aliases(moments: Moments, c: float, epsilon: float, goal: float) -> float:
    """Return a Λ at which ln of the aliasing error is below the goal."""
    wrap = -goal / c
    for _ in range(12):
        s, bound = _alias_slope_and_log(moments, c, wrap, epsilon, 0.0)
        if bound - s * epsilon <= goal or epsilon + wrap >= moments.largest_finite_loss:
            break
        wrap *= 1.5
    return wrap


def _last_node_and_truncation_error(
    moments: Moments, c: float, step: float, log_peak: float, allowed: float
) -> tuple[int, float]:
    """Return the number of nodes after which the truncation error is provably within the allowed one, and that error,
    both relative to M(c).
    """
    half, lost = 16, math.inf
    if moments.log_bound(c, step * _MAX_NODES) - log_peak > math.log(allowed * math.pi * step * _MAX_NODES):
        return 2 * _MAX_NODES, lost  # the bound falls along the line, so it is not met at fewer nodes either
    while half <= _MAX_NODES:
        t = step * half
        lost = math.exp(min(0.0, moments.log_bound(c, t) - log_peak)) / (math.pi * t)
        if lost <= allowed:
            break
        half *= 2
    return half, lost


def _smoothing_mu_and_error(t: float, allowed: float) -> tuple[float, float]:
    """Return the μ of an extra release that truncates the sum at height t, and the truncation error there."""
    decay = max(1.0, -math.log(min(0.5, allowed * math.pi * t)))
    return math.sqrt(2 * decay) / t, math.exp(-decay) / (math.pi * t)


def _significant_nodes(
    moments: Moments, nodes: Complex, smoothing: float, sizes: Real, floor: float
) -> tuple[NDArray[np.intp], Complex, float]:
    """Return the nodes that matter, M(z)/M(c) there, and a bound on the sum of the dropped terms, each of them below
    the floor.

    Each factor is largest on the real axis, so a product of some factors bounds the product of all: nodes already
    negligible are dropped before the remaining, possibly many, factors are computed.
    """
    c = nodes[:1]
    significant, dropped = _possible_nodes(moments, nodes, smoothing, sizes, floor)
    total = (
        (moments.gaussian_mu_squared + smoothing**2) / 2 * (nodes[significant] * (nodes[significant] + 1) - c * (c + 1))
    )
    total = total + moments.slack * (nodes[significant] - c)
    pieces = [
        piece
        for stack in moments.stacks
        for piece in stack.with_members_interleaved().split_members(significant.size, 2 * _PIECE)
    ]
    for piece in [None, *pieces]:
        if piece:
            total = total + piece.log_moment(nodes[significant]) - piece.log_moment(c).real
        bounds = np.exp(total.real) * sizes[significant]
        large = bounds >= floor
        dropped += float(bounds[~large].sum())
        significant, total = significant[large], total[large]
    return significant, np.exp(total), dropped


def _possible_nodes(
    moments: Moments, nodes: Complex, smoothing: float, sizes: Real, floor: float
) -> tuple[NDArray[np.intp], float]:
    """Return the nodes that cheap bounds of a few factors cannot rule out, and a bound on the sum of the
    others' terms.
    """
    heights, possible = nodes.imag, np.arange(nodes.size)
    c, dropped = float(nodes[0].real), 0.0
    total = -(moments.gaussian_mu_squared + smoothing**2) / 2 * heights * heights
    by_decay = sorted(moments.stacks, key=lambda stack: stack.family is not DiscreteGaussianLoss)
    pieces = (
        piece for stack in by_decay for piece in stack.with_members_interleaved().split_members(nodes.size, 4 * _PIECE)
    )
    while possible.size > _FEW_NODES:
        bounds = np.exp(total) * sizes[possible] * (1 + 2.0**-10)  # more than rounding can take from any of them
        large = bounds >= floor
        dropped += float(bounds[~large].sum())
        possible, total = possible[large], total[large]
        piece = next(pieces, None)
        if piece is None:
            break
        total = total + piece.log_decay(c, heights[possible])
    return possible, dropped


def _log_chernoff_delta(moments: Moments, c: float, epsilon: float) -> float:
    """Return ln of Chernoff's bound on δ(ε) at one c, rounded up."""
    c_array = np.array([c])
    value = float((moments.log_moment(c_array + 0j).real + moments.rounding_error(c_array))[0])
    return value - c * epsilon - c * math.log1p(1 / c) - math.log1p(c) + _ROUNDING * c * epsilon


def _choose_contour(moments: Moments, c: float, epsilon: float, log_delta: float) -> Inversion:
    """Invert at Chernoff's c or, for large δ, where that c is tiny, at one where M(c)e^{−cε} is still small."""
    if log_delta > -3:
        c = max(c, _last_c_where(lambda grid: moments.log_moment(grid + 0j).real - grid * epsilon < 2, rounds=2))
    return build_inversion(moments, c, epsilon, log_delta)


def delta_range_of(moments: Moments, epsilon: float) -> tuple[float, float]:
    """Return lower and upper bounds of δ(ε) ≥ 0, without the failure."""
    if epsilon >= moments.largest_finite_loss:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        c = _last_c_where(
            lambda grid: chernoff_epsilon_and_log_delta(moments, grid)[0] < epsilon,
            rounds=2 if moments.moments_known else 6,
        )
        log_delta = min(0.0, _log_chernoff_delta(moments, c, epsilon))
        if log_delta < -700:
            return 0.0, math.exp(max(-744.0, log_delta))
        contour = _choose_contour(moments, c, epsilon, log_delta)
        proven = math.exp(log_delta)
        upper = min(proven, contour.upper_delta(epsilon)) if moments.moments_known else proven
        return min(contour.lower_delta(epsilon), upper), upper


def epsilon_range_of(moments: Moments, least_delta: float, most_delta: float) -> tuple[float, float]:
    """Bound from below the ε ≥ 0 where δ(ε) is ``most_delta``, and from above that where it is ``least_delta``; without
    the failure.
    """
    goal = math.log(max(least_delta, 1e-310, 1e-6 * most_delta))
    with np.errstate(all="ignore"):
        c = _last_c_where(
            lambda grid: chernoff_epsilon_and_log_delta(moments, grid)[1] > goal,
            rounds=2 if moments.moments_known else 6,
        )
        proven = (
            (_log_chernoff_delta(moments, c, 0.0) - math.log(least_delta)) / c
            if least_delta
            else moments.largest_finite_loss
        )
        proven = (
            moments.largest_finite_loss
            if math.isnan(proven)
            else min(max(0.0, proven * (1 + _ROUNDING)), moments.largest_finite_loss)
        )
        contour = _choose_contour(moments, c, min(proven, 1e300), goal)
        start = proven if math.isfinite(proven) else float(chernoff_epsilon_and_log_delta(moments, np.array([c]))[0][0])
        lower = _solve_epsilon(contour.lower_delta, most_delta, start, contour, side=-1)
        upper = (
            min(proven, _solve_epsilon(contour.upper_delta, least_delta, start, contour, side=+1))
            if moments.moments_known and least_delta
            else proven
        )
    return min(lower, upper), upper


def _solve_epsilon(
    bound: Callable[[float], float], delta: float, start: float, contour: Inversion, *, side: int
) -> float:
    """Return an ε with bound(ε) ≤ δ (side +1) or bound(ε) > δ (side −1), close to equality; 0 or infinity if none was
    found.

    The returned ε has been checked: whatever ``_point_within_bracket`` proposes, ``high`` is a point where the bound is
    within δ and ``low`` one where it is not, or an end.
    """
    low, high, x = 0.0, math.inf, start
    tolerance = 1e-8 if contour.smoothing_mu else 1e-10
    seen: list[tuple[float, float]] = []
    for _ in range(60):
        value = bound(x)
        low, high = (max(low, x), high) if value > delta else (low, min(high, x))
        seen.append((x, math.log(max(value, 1e-300) / delta)))
        step = _newton_or_secant_step(seen, contour.c)
        converged = (value > delta) is (side < 0) and abs(step) <= tolerance * x
        if converged or high - low <= 1e-13 * high:
            break
        x = _point_within_bracket(x + step + side * tolerance / 10 * x * 2 ** max(0, len(seen) - 7), low, high)
    return high if side > 0 else low


def _newton_or_secant_step(seen: list[tuple[float, float]], slope: float) -> float:
    """Return the step to where ln(bound/δ) may be 0: by c, which is about its slope, then by secants."""
    x, excess = seen[-1]
    previous_x, previous_excess = seen[-2] if len(seen) > 1 else (math.nan, math.nan)
    secant = (previous_excess - excess) / (x - previous_x) if x != previous_x else math.nan
    return excess / (secant if slope / 100 < secant < slope * 100 else slope)


def _point_within_bracket(proposed: float, low: float, high: float) -> float:
    """Return where to look next: as proposed, to the safe side by ever more, or halfway if that is not between."""
    if low < proposed < high:
        return proposed
    return (low + high) / 2 if math.isfinite(high) else 2 * low + 1e-9
