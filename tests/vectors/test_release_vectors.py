"""Exact vectors of the ranges of answers: scales, estimators of totals, means and moments, surveys."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from mpmath import mp, mpf
from scipy import optimize, stats

from sfumato.mechanisms import Gaussian, Laplace
from sfumato.plan.aggregates.measures import (
    CombinedEstimate,
    Mean,
    MeanEstimate,
    SummedEstimate,
    TotalEstimate,
    step_rounding_error,
)
from sfumato.plan.aggregates.moments import (
    CentredRange,
    CorrelationEstimate,
    CovarianceEstimate,
    SlopeOrInterceptEstimate,
    SpreadEstimate,
)
from sfumato.plan.aggregates.spread import CovarianceOfPairs, Variance
from sfumato.plan.aggregates.value_measures import Quantile
from sfumato.plan.values.expressions import Column, Field, Result
from sfumato.policy import Domain
from sfumato.privacy import codec
from sfumato.release import measured as measuring
from sfumato.release.answers import answer_columns
from sfumato.release.answers.answer import _clip_at_zero
from sfumato.release.answers.formatting import round_half_width_up
from sfumato.release.comparisons import ThresholdAnswer
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm
from sfumato.release.parts.other_parts import QuantilesPart, matched_limit
from sfumato.release.parts.scales import NoisyScale, QuantileScale, SampledScale
from sfumato.release.pricing import PricedRelease
from sfumato.release.requests import PriceRequest
from sfumato.release.running_totals import RunningNoise
from sfumato.surveys import counts, encodings
from sfumato.surveys.counts import PairSupport
from sfumato.surveys.encodings import SupportProbabilities
from vectors import routes
from vectors.registry import Registry, Scope, Vector, between, exact

WORDS = {"width", "widths", "interval", "intervals", "error", "errors", "charge", "cost", "share", "shares", "range"}
PARAMETERS = {"beta", "confidence", "miss", "sure"}
REGISTRY = Registry(
    (
        Scope(("release",), frozenset(WORDS), frozenset(PARAMETERS)),
        Scope(("plan/aggregates", "plan/costs.py", "plan/sharing.py"), frozenset(WORDS | {"estimate", "rounding"})),
        Scope(("surveys",), frozenset(WORDS | {"chances", "probabilities", "limits"}), frozenset(PARAMETERS)),
        Scope(("quality",), frozenset(WORDS), frozenset(PARAMETERS)),
    ),
    {
        "plan.aggregates.unit_measures.UnitSum.step_range": (
            "a range of a sum, compared with every table in tests/safety"
        ),
        "plan.aggregates.unit_measures.value_step_range": "a range of one value, compared in tests/safety",
        **dict.fromkeys(
            (
                "plan.aggregates.moments._PairSums.covariance_estimate",
                "plan.aggregates.moments._PairSums.row_count_estimate",
                "plan.aggregates.moments._mean_estimate",
            ),
            "a part of the estimates of covariances and correlations, which have vectors",
        ),
        "plan.costs.check_cost": "it refuses by steps and bytes, and is no charge",
        "release.answers.formatting.format_with_half_width": "it writes a number and its half-width as text",
        "release.answers.answer_columns._bound_mean_half_widths": "a part of sampling_half_widths",
        "release.batch_prices._mean_log_half_width": "it only compares families of noise",
        "release.pricing._sum_log_half_widths": "it only compares families of noise",
        "release.noisy_rows.window_functions._Frames.aggregate_with_interval": "values, compared with DuckDB",
        "release.parts.shares._error_at_whole_price": "it only compares ways to split a price",
        "release.parts.shares._shares_by_part": "it lays shares out by part",
        "release.parts.shares.even_shares": "it divides 1 by a count",
        "release.parts.shares.split_for_least_error": "the optimum is found by search in tests/release/parts",
        "release.parts.shares.error_ratio": "it only compares ways to split a price",
        "release.noisy_rows.noise_forms.IndependentNoises._equal_noise_widths": "a part of IndependentNoises.widths",
        "release.noisy_rows.noise_forms.IndependentNoises._mixed_widths": "a part of IndependentNoises.widths",
        "release.noisy_rows.noise_forms.IndependentNoises._sum_width": "a part of IndependentNoises.widths",
        "release.noisy_rows.noise_forms.IndependentNoises._widths_of_rows": "a part of IndependentNoises.widths",
        "release.noisy_rows.noise_forms._PaddedForms.widths": "a part of IndependentNoises.widths",
        "release.noisy_rows.window_functions._range_minima": "values, compared with DuckDB in tests/release/noisy_rows",
        "release.noisy_rows.window_functions._range_sums": "values, compared with DuckDB in tests/release/noisy_rows",
        "surveys.forms.Form._pair_counts": "it lays out what PairCounts computes, and adds and subtracts half-widths",
    },
)
formula = REGISTRY.formula


class Telling:
    """Noise whose half-width tells with which chance, and for how many statements, it was asked."""

    pure = True

    def error(self, confidence: Any, k: int = 1) -> Fraction:
        return k / (1 - Fraction(confidence))

    def sum_error(self, terms: int, confidence: Any, k: int = 1) -> Fraction:
        return 1_000 * terms + k / (1 - Fraction(confidence))


def telling(unit_value: Any = 1, columns: int = 1) -> Any:
    return NoisyScale(Fraction(unit_value), Telling(), columns)  # type: ignore[arg-type]


# ── scales ─────────────────────────────────────────────────────────────────────────────────────


@formula("release.parts.scales.NoisyScale.width")
def _noisy_width() -> Iterator[Vector]:
    for scale, sure, parts in ((3, "0.95", 1), (7, "0.9", 4), (Fraction(5, 2), "0.99", 10)):
        miss = 1 - (mpf(Fraction(sure).numerator) / Fraction(sure).denominator) ** (mpf(1) / parts)
        wide = routes.laplace_half_width(scale, miss)
        yield exact(wide / 4, NoisyScale(Fraction(1, 4), Laplace(scale)).width, sure, parts)
    yield exact(3 * 5 / 0.05, telling(3).width, "0.95", 5)


@formula("release.parts.scales.NoisyScale.half_width")
def _noisy_half_width() -> Iterator[Vector]:
    """Rounding is added once to a total, and to a sum of totals as often as there are of them."""
    for moved in (0, Fraction(1, 8), 2):
        scale = NoisyScale(Fraction(1, 4), Laplace(3), 1, Fraction(moved))
        yield exact(Fraction(Laplace(3).error("0.9", 2), 4) + moved, scale.half_width, "0.9", 2)


@formula("release.parts.scales.NoisyScale.sum_width")
def _noisy_sum_width() -> Iterator[Vector]:
    rounded = NoisyScale(Fraction(3), Telling(), 1, Fraction(1, 2))  # type: ignore[arg-type]
    yield exact(3 * (7_000 + 5 / 0.05) + 3.5, rounded.sum_width, 7, "0.95", 5)
    yield exact(3 * (7_000 + 5 / 0.05), telling(3).sum_width, 7, "0.95", 5)
    for scale, terms, parts in ((2, 2, 1), (3, 4, 2)):  # by convolution below, and Chernoff's bound above
        law = np.exp(-np.abs(np.arange(-150, 151)) / scale)
        law /= law.sum()
        added = law
        for _ in range(terms - 1):
            added = np.convolve(added, law)
        middle = len(added) // 2
        misses = [1 - added[middle - w : middle + w + 1].sum() for w in range(200)]
        least = next(w for w, each in enumerate(misses) if each <= 0.05 / parts)
        slopes = np.linspace(0.001, 1 / scale, 2000)[:-1]
        q = math.exp(-1 / scale)
        moments = terms * np.log((1 - q) ** 2 / ((1 - q * np.exp(slopes)) * (1 - q * np.exp(-slopes))))
        most = float(((moments + math.log(2 * parts / 0.05)) / slopes).min())
        yield between(least, most + 1, NoisyScale(Fraction(1), Laplace(scale)).sum_width, terms, "0.95", parts)


@formula("release.parts.scales.QuantileScale.rank")
def _rank() -> Iterator[Vector]:
    for offset, error in ((0, 3.2), (-4, 7.0), (9, 0.1)):
        noise = SimpleNamespace(probabilities=(Fraction(1, 2),), offset=offset, errors=lambda _: (error,))  # noqa: B023
        scale = QuantileScale(Fraction(1), noise, Fraction(1, 2))  # type: ignore[arg-type]
        yield exact(float(abs(offset) + math.ceil(error)), scale.rank, "0.95")


@formula("release.parts.other_parts.matched_limit")
def _matched_limit() -> Iterator[Vector]:
    """By counting up: so many values that 256 units have all, and while one more costs less than it finds."""
    for values, size in (
        (1, 1),
        (256, 1),
        (257, 1),
        (315, 1),
        (315, Fraction(1, 10)),
        (5001, 3),
        (5001, "1/100"),
        (3, 7),
    ):
        covering = next(limit for limit in itertools.count(1) if 256 * limit >= values)
        noise = Fraction(size)
        balanced = next(limit for limit in itertools.count() if 256 * noise * (limit + 1) ** 2 > values)
        yield exact(max(covering, balanced), matched_limit, values, noise)


# ── answers ────────────────────────────────────────────────────────────────────────────────────


def _numbers(scale: Any, *columns: float) -> Any:
    return measuring._ScaledColumns(scale, tuple(np.array([each]) for each in columns), 0)


def _ends(estimate: Any) -> list[float]:
    return [float(estimate.value[0]), float(estimate.low[0]), float(estimate.high[0])]


@formula("release.measured._estimate_groups")
def _plain() -> Iterator[Vector]:
    ask = lambda estimator, numbers, parts: _ends(measuring._estimate_groups(estimator, [numbers], "0.95", parts))  # noqa: E731
    yield exact([7.0, 7.25 - 60, 7.25 + 60], ask, TotalEstimate(True), _numbers(telling(), 7.25), 3)
    # a mean of two sums, both within 40: its corners
    corners = [10 * a / (a + b) for a in (960.0, 1040.0) for b in (2960.0, 3040.0)]
    yield exact([2.5, min(corners), max(corners)], ask, MeanEstimate(0, 10), _numbers(telling(1, 2), 1000.0, 3000.0), 2)
    # a sum that is rounded: both noises hold together, each with half, and a hundredth of what both may be
    both = 1000 + 3000 + 2 * 80
    reach = 2 * 80 + 1 * 80 + both / 100
    rounded = CombinedEstimate(2, 1, False, Fraction(1, 100))
    yield exact([5000.0, 5000 - reach, 5000 + reach], ask, rounded, _numbers(telling(1, 2), 1000.0, 3000.0), 2)


@formula("release.parts.scales.SampledScale.half_width")
def _sampled_half_width() -> Iterator[Vector]:
    for rate, scale in (("1/10", 2), ("1/2", 3), ("1/1000", 7)):
        sampled = SampledScale(telling(scale), Fraction(rate), Fraction(1))
        yield exact(scale * 5 * 20 / Fraction(rate), sampled.half_width, "0.95", 5)


@formula("release.parts.scales.SampledScale.widths")
def _sampled_widths() -> Iterator[Vector]:
    """The totals n from which a sample of s units is as unlikely as e^{−x} by Chernoff's bound, found by Brent."""

    def beyond(n: float, s: float, q: float, exponent: float) -> float:
        rest = (n - s) * math.log((n - s) / ((1 - q) * n)) if n > s else 0.0
        return rest + (s * math.log(s / (q * n)) if s else 0.0) - exponent

    for rate, total, parts in (("1/10", 2_000.0, 1), ("1/2", 300.0, 4), ("1/50", 40_000.0, 2)):
        sampled, q = SampledScale(telling(), Fraction(rate), Fraction(1)), float(Fraction(rate))
        noise, exponent = parts / 0.025, math.log(4 * parts / 0.05)
        low, high = max(0.0, total * q - noise), total * q + noise
        largest = optimize.brentq(beyond, high / q, 50 * high / q, (high, q, exponent), xtol=1e-9)
        least = optimize.brentq(beyond, low, low / q, (low, q, exponent), xtol=1e-9) if low else 0.0
        wide = max(largest - total, total - least)
        yield between(wide, wide * (1 + 1e-6), sampled.widths, np.array([total]), "0.95", parts)


@formula("release.noisy_rows.noise_forms.IndependentNoises.widths")
def _linear_widths() -> Iterator[Vector]:
    """Sums beside single noises fail with β(1 − β)/n each; one alone with β. Different weights: the exact law."""

    def wide(noises: IndependentNoises, terms: int, statements: int, weights: Any = 1.0) -> float:
        form = NoiseForm(np.array([0, terms]), np.arange(terms), np.full(terms, weights))
        return float(noises.widths(form, statements)[0])

    for terms, parts, sure in ((3, 4, "0.95"), (2, 7, "0.9"), (5, 2, "0.99")):
        miss = (1 - Fraction(sure)) * Fraction(sure)
        noises = IndependentNoises(((telling(2), 9),), Fraction(sure))
        yield exact(2 * (1_000 * terms + float(parts / miss)), wide, noises, terms, parts)
        yield exact(2 * 3 * (1_000 * terms + float(1 / (1 - Fraction(sure)))), wide, noises, terms, 1, -3.0)
        yield exact(2 * 5 * float(parts / (1 - Fraction(sure))), wide, noises, 1, parts, 5.0)
    normal = IndependentNoises(((NoisyScale(Fraction(1, 2), Gaussian(400)), 9),), Fraction("0.95"))
    deviation = 200 * math.sqrt(1 + 4 + 9)
    reach = stats.norm.ppf(0.975) * deviation
    yield between(reach, reach * 1.02, wide, normal, 3, 1, np.array([1.0, -2.0, 3.0]))
    laplace = IndependentNoises(((NoisyScale(Fraction(1), Laplace(50)), 9),), Fraction("0.95"))
    # P(|2X + Y| > w) = (4e^{−w/2b} − e^{−w/b})/3 for continuous noises of scale b
    least = 50 * optimize.brentq(lambda w: (4 * math.exp(-w / 2) - math.exp(-w)) / 3 - 0.05, 0, 50)
    yield between(least, least * 1.03, wide, laplace, 2, 1, np.array([1.0, 2.0]))
    # weights of 1 over noises of scales 50 and 100, in either order of the blocks: the same law; roundings add up
    for scales in ((50, 100), (100, 50)):
        blocks = tuple((NoisyScale(Fraction(1), Laplace(scale)), 1) for scale in scales)
        yield between(least, least * 1.03, wide, IndependentNoises(blocks, Fraction("0.95")), 2, 1)
        rounded = tuple((NoisyScale(Fraction(1), Laplace(scale), 1, Fraction(70)), 1) for scale in scales)
        rounded_noises = IndependentNoises(rounded, Fraction("0.95"))
        yield between(least + 140, least * 1.03 + 140, wide, rounded_noises, 2, 1)
        yield between(3 * least + 420, 3 * least * 1.03 + 420, wide, rounded_noises, 2, 1, -3.0)


@formula("release.measured._estimate_summed_rows")
def _summed_rows() -> Iterator[Vector]:
    """The rows of two groups and of both: what adds up is the sum of what is shown."""
    rows = SimpleNamespace(
        groups_per_row=np.array([1, 1, 2]), sum_groups=lambda each: np.array([each[0], each[1], each[0] + each[1]])
    )

    def ends(estimator: Any, numbers: Any) -> list[Any]:
        found = measuring._estimate_summed_rows(estimator, [numbers], rows, "0.95", 3)  # type: ignore[arg-type]
        return [found.value, found.low, found.high]

    numbers = measuring._ScaledColumns(telling(), (np.array([4.4, 5.4]),), 0)
    one, two = 1_000 + 60.0, 2_000 + 60.0
    yield exact(
        [4.4, 5.4, 9.8, 4.4 - one, 5.4 - one, 9.8 - two, 4.4 + one, 5.4 + one, 9.8 + two],
        ends,
        TotalEstimate(False),
        numbers,
    )
    whole = [4.0, 5.0, 9.0, 4.4 - one, 5.4 - one, 9.8 - two, 4.4 + one, 5.4 + one, 9.8 + two]
    yield exact(whole, ends, TotalEstimate(True), numbers)
    pairs = measuring._ScaledColumns(telling(1, 2), (np.array([1000.0, 0.0]), np.array([3000.0, 0.0])), 0)
    each = [1_120.0, 1_120.0, 2_120.0]
    totals = [(1000.0, 3000.0), (0.0, 0.0), (1000.0, 3000.0)]
    reach = [3 * wide + (a + b + 2 * wide) / 100 for wide, (a, b) in zip(each, totals, strict=True)]
    values = [2 * a + b for a, b in totals]
    wanted = [
        values,
        [v - r for v, r in zip(values, reach, strict=True)],
        [v + r for v, r in zip(values, reach, strict=True)],
    ]
    yield exact(wanted, ends, CombinedEstimate(2, 1, False, Fraction(1, 100)), pairs)


def _corners(ends: list[tuple[int, int]]) -> list[list[tuple[int, ...]]]:
    """All multisets of two to four points at corners of a box, where the extremes of a moment lie."""
    corners = list(itertools.product(*ends))
    return [list(points) for size in (2, 3, 4) for points in itertools.combinations_with_replacement(corners, size)]


def _extreme_covariances(ends: list[tuple[int, int]], *, sample: bool) -> list[Fraction]:
    found = []
    for points in _corners(ends):
        means = [Fraction(sum(point[side] for point in points), len(points)) for side in (0, -1)]
        products = sum((point[0] - means[0]) * (point[-1] - means[1]) for point in points)
        found.append(products / (len(points) - sample))
    return found


@formula("plan.aggregates.spread.Variance.possible_range")
def _possible_variances() -> Iterator[Vector]:
    """The largest spread of two to four values, by enumeration at the ends of their range."""
    for low, high, sample, root in ((0, 10, False, False), (-3, 4, True, False), (-60, 300, False, True)):
        largest = max(_extreme_covariances([(low, high)], sample=sample))
        measure = Variance(Column(Field(0, "t", "x"), Domain("integer", bounds=(low, high))), sample, root, None)
        wanted = (0, Fraction(math.sqrt(largest)) if root else largest)
        yield exact(wanted, lambda measure=measure: measure.possible_range)


@formula("plan.aggregates.spread.CovarianceOfPairs.possible_range")
def _possible_covariances() -> Iterator[Vector]:
    """The extremes over two to four pairs, by enumeration at the corners."""
    for ends, sample in (([(0, 10), (1, 3)], False), ([(-3, 4), (-60, 300)], True), ([(5, 6), (0, 1)], False)):
        x, y = (Column(Field(0, "t", n), Domain("integer", bounds=e)) for n, e in zip("xy", ends, strict=True))
        found = _extreme_covariances(ends, sample=sample)
        measure = CovarianceOfPairs(y, x, None, sample)
        yield exact((min(found), max(found)), lambda measure=measure: measure.possible_range)


@formula("plan.aggregates.value_measures.Quantile._possible_result_range")
def _selected_ranges() -> Iterator[Vector]:
    """Whole steps from −1 to 4 of 3 are −3 to 12; values from −2 to 10 lie within, from −5 to 20 beyond."""
    for bounds, wanted in (((-2, 10), (-2, 10)), ((-5, 20), (-3, 12)), ((-5, 10), (-3, 10))):
        quantile = Quantile(Column(Field(0, "t", "x"), Domain("integer", bounds=bounds)), Fraction(1, 2))
        yield exact(wanted, quantile._possible_result_range, SimpleNamespace(step=Fraction(3), low=-1, high=4))


@formula("release.answers.answer._clip_at_zero")
def _nonnegative_ends() -> Iterator[Vector]:
    """A number that noise put below zero keeps its reach above it: never [0, 0]."""
    yield exact((0.0, 5.0), _clip_at_zero, -7, (-12.0, -2.0))
    yield exact((0.0, 6.0), _clip_at_zero, 1, (-4.0, 6.0))
    yield exact((3.0, 9.0), _clip_at_zero, 6, (3.0, 9.0))
    yield exact((0.0, 2.0), _clip_at_zero, None, (-1.0, 2.0))


@formula("release.answers.formatting.round_half_width_up")
def _whole_half_width() -> Iterator[Vector]:
    for half, shown in ((0.0, 0), (2.0, 2), (2.0000001, 3), (7.5, 8)):
        yield exact(shown, round_half_width_up, half)


@formula("release.requests.PriceRequest.interval_confidence")
def _interval_confidence() -> Iterator[Vector]:
    """Each of k intervals misses with a k-th of the chance that all together may miss with."""
    for sure, together in (("0.95", 1), ("0.9", 4), ("0.99", 3)):
        request = PriceRequest(epsilon=1, confidence=sure, range="value")
        yield exact(1 - (1 - Fraction(sure)) / together, request.interval_confidence, together)


@formula("release.pricing.PricedRelease.half_widths")
def _prepared() -> Iterator[Vector]:
    for sure, together in (("0.95", 1), ("0.9", 4), ("0.999", 2)):
        own = SimpleNamespace(noisy_scales=(telling(2), telling(Fraction(1, 8))))
        each = together / (1 - Fraction(sure))
        yield exact((2 * each, each / 8), PricedRelease.half_widths, own, sure, together)


@formula("release.comparisons.ThresholdAnswer.error")
def _compared_error() -> Iterator[Vector]:
    for scale, step, off in ((3, Fraction(1, 2), 0), (8, 2, Fraction(1, 3)), (20, Fraction(1, 16), 5)):
        found = ThresholdAnswer(True, Fraction(7), Laplace(scale), Fraction(step), Fraction(off))
        wide = routes.laplace_half_width(scale, mpf(1) / 20)
        yield exact(wide * Fraction(step) + off, found.error, "0.95")


@formula("release.parts.other_parts.QuantilesPart.shares")
def _rank_shares() -> Iterator[Vector]:
    """All inner quantiles are chosen at once; each end is chosen by itself."""
    for inner, outer, wanted in (
        ((), (0, 1), 2),
        ((Fraction(1, 2),), (0,), 2),
        ((Fraction(1, 4), Fraction(1, 2)), (), 1),
    ):
        own = SimpleNamespace(_inner_probabilities=inner, _extreme_probabilities=outer)
        yield exact(wanted, lambda each: int(QuantilesPart.shares.fget(each)), own)  # type: ignore[attr-defined]


@formula("release.parts.other_parts.QuantilesPart.share_index")
def _rank_share_of() -> Iterator[Vector]:
    asked = [SimpleNamespace(probability=Fraction(each)) for each in ("0", "1/2", "1", "1/4")]
    own = SimpleNamespace(
        requests=asked,
        _inner_probabilities=[Fraction(1, 4), Fraction(1, 2)],
        _extreme_probabilities=[Fraction(0), Fraction(1)],
    )
    for place, wanted in enumerate((1, 0, 2, 0)):
        yield exact(wanted, lambda own, place: int(QuantilesPart.share_index(own, place)), own, place)


def _running(mechanism: Any) -> RunningNoise:
    one = np.tril(np.ones((3, 3)))
    factors = SimpleNamespace(decoder=one, weights=(1, 1, 1), lengths=np.sqrt((one**2).sum(1)))
    return RunningNoise(factors, mechanism, Fraction(1, 2), tuple(factors.lengths.tolist()))  # type: ignore[arg-type]


@formula("release.running_totals.RunningNoise.widths")
def _running_widths() -> Iterator[Vector]:
    """Sums of one, two and three noises. Of wide Gaussian noise they are normal but for a thousandth."""
    for together in (1, 5, 40):
        wide = [routes.normal_beyond(0.05 / together) * 1000 * math.sqrt(terms) / 2 for terms in (1, 2, 3)]
        noise = _running(Gaussian(1000))
        yield between([w * (1 - 1e-9) for w in wide], [w * 1.02 for w in wide], noise.widths, "0.95", together)
        rounded = replace(noise, rounding=Fraction(7))  # once for each period so far
        added = [w + 7 * terms for w, terms in zip(noise.widths("0.95", together), (1, 2, 3), strict=True)]
        yield exact(added, rounded.widths, "0.95", together)


# ── sampling ───────────────────────────────────────────────────────────────────────────────────


@formula("release.answers.answer_columns.parse_sampled_fraction")
def _sampled_share() -> Iterator[Vector]:
    yield exact(Fraction(1, 10), answer_columns.parse_sampled_fraction, "0.1", None)
    yield exact(Fraction(3, 40), answer_columns.parse_sampled_fraction, 40_000, 3_000)
    yield exact(Fraction(1), answer_columns.parse_sampled_fraction, 50, 50)


@formula("release.answers.answer_columns.sampling_half_widths")
def _sampling_half_widths() -> Iterator[Vector]:
    """z·√((1 − f)·m·n⁺) of a count, and z·√((1 − f)·m·v/n⁻) of a mean, v the largest variance within its range."""
    value = Column(Field(0, "t", "x"), Domain("integer", bounds=(0, 10)))
    mean = Mean(value)
    outputs = [
        SimpleNamespace(name=name, expression=Column(Result(place, 1), Domain("real")))
        for place, name in enumerate("nm")
    ]
    query = SimpleNamespace(outer=None, outputs=outputs, plan=SimpleNamespace(measures=(mean.rows, mean)))
    values, ranges = {"n": [100], "m": [4.0]}, {"n": [(80.0, 120.0)], "m": [(3.0, 4.5)]}
    for rows, share, sure in ((1, Fraction(1, 4), "0.95"), (3, Fraction(1, 2), "0.9"), (2, Fraction(9, 10), "0.99")):
        z = routes.normal_beyond(float(1 - Fraction(sure))) * math.sqrt(1 - share)
        variance = max((10 - x) * x for x in np.linspace(3.0, 4.5, 1501))
        wanted = {"n": z * math.sqrt(rows * 120), "m": z * math.sqrt(rows * variance / 80)}
        told = {"max_rows_per_unit": rows, "sampled_share": share, "confidence": sure}
        yield exact(wanted, answer_columns.sampling_half_widths, query, values, ranges, **told)


# ── estimators ─────────────────────────────────────────────────────────────────────────────────


def _of(estimator: Any, totals: list[float], widths: list[float]) -> list[float]:
    return _ends(estimator.estimate([np.array([each]) for each in totals], widths))


@formula("plan.aggregates.measures.TotalEstimate.estimate")
def _total() -> Iterator[Vector]:
    yield exact([3.0, 0.25, 5.25], _of, TotalEstimate(True), [2.75], [2.5])
    yield exact([2.75, 0.25, 5.25], _of, TotalEstimate(False), [2.75], [2.5])
    yield exact([-4.0, -6.5, -1.5], _of, TotalEstimate(True), [-4.0], [2.5])


def _brute_mean(low: float, high: float, a: float, b: float, up: float, down: float, moved: float) -> list[float]:
    """The least and the greatest mean over a grid of all sums that the noise allows, ends included."""
    sums = [np.linspace(max(x - w, 0), max(x, 0) + w, 41) for x, w in ((a, up), (b, down))]
    means = [low + (high - low) * x / (x + y) for x, y in itertools.product(*sums) if x + y > 0]
    return [max(low, min(means) - moved), min(high, max(means) + moved)]


@formula("plan.aggregates.measures.MeanEstimate.estimate")
def _ratio() -> Iterator[Vector]:
    cases = (
        (0, 10, 40.0, 60.0, 5.0, 7.0, 0),
        (-3, 5, 100.0, 20.0, 9.0, 1.0, Fraction(1, 4)),
        (2, 4, 3.0, 90.0, 8.0, 8.0, 2),
    )
    for low, high, a, b, up, down, moved in cases:
        ends = _brute_mean(low, high, a, b, up, down, float(moved))
        value = min(max(low + (high - low) * a / (a + b), ends[0]), ends[1])
        yield exact([value, *ends], _of, MeanEstimate(low, high, moved), [a, b], [up, down])


@formula("plan.aggregates.measures.SummedEstimate.estimate")
def _summed() -> Iterator[Vector]:
    """Σ f_i·t_i, within Σ |f_i|·w_i; a count is shown rounded, and its range is not."""
    quarter = Fraction(1, 4)
    yield exact(
        [8.0, 7.75 - 4.5, 7.75 + 4.5], _of, SummedEstimate((quarter, quarter, 1), True), [9.0, 2.0, 5.0], [2.0, 8, 2]
    )
    yield exact([-3.0, -9.0, 3.0], _of, SummedEstimate((1, -2), False), [1.0, 2.0], [2.0, 2.0])
    yield exact([6.0, 6.0 - 3.0, 6.0 + 3.0], _of, SummedEstimate((1, 1, 1), False), [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])


@formula("plan.aggregates.measures.CombinedEstimate.estimate")
def _combined() -> Iterator[Vector]:
    yield exact([8.0, 7.5 - 3.5, 7.5 + 3.5], _of, CombinedEstimate(2, Fraction(1, 2), True), [3.0, 3.0], [1.5, 1.0])
    moved = (3 + 1.5 + 0 + 1) / 8
    yield exact(
        [5.5, 2.0 - moved, 9.0 + moved],
        _of,
        CombinedEstimate(2, Fraction(1, 2), False, Fraction(1, 8)),
        [3.0, -1.0],
        [1.5, 1.0],
    )
    yield exact([-3.0, -9.0, 3.0], _of, CombinedEstimate(1, -2, False), [1.0, 2.0], [2.0, 2.0])


def _rounded(value: Any, step: Fraction, candidates: list[Fraction]) -> Fraction:
    """The furthest that a candidate lies from a whole number of steps, one by one."""
    del value
    return max(min(each % step, step - each % step) for each in candidates)


@formula("plan.aggregates.measures.step_rounding_error")
def _rounding() -> Iterator[Vector]:
    whole = Column(Field(0, "t", "x"), Domain("integer", bounds=(0, 99)))
    grid = Column(Field(0, "t", "y"), Domain("real", bounds=(0, 1), grid="0.01"))
    numbers, hundredths = [Fraction(k) for k in range(100)], [Fraction(k, 100) for k in range(101)]
    for value, step, every in ((whole, Fraction(1), numbers), (grid, Fraction(1, 100), hundredths)):
        yield exact(_rounded(value, step, every), step_rounding_error, value, step)
    for value, step, every in ((whole, Fraction(32), numbers), (grid, Fraction(4, 100), hundredths)):
        yield exact(
            _rounded(value, step, every) + every[-1] / 2**53, step_rounding_error, value, step
        )  # as a double first
    yield exact(
        Fraction(1, 6), step_rounding_error, Column(Field(0, "t", "z"), Domain("real", bounds=(0, 1))), Fraction(1, 3)
    )


# Moments: rows whose totals are known exactly, and all rows that the widths allow near them.

ROWS = [(1.0, 2.0), (4.0, 3.0), (6.0, 8.0), (9.0, 7.0), (2.0, 1.0), (5.0, 5.0)]


def _moments(axis: CentredRange, other: CentredRange) -> dict[str, float]:
    x, y = (np.array(each) for each in zip(*ROWS, strict=True))
    c, d = float(axis.middle), float(other.middle)
    return {
        "a": float((x - float(axis.low)).sum()),
        "b": float((float(axis.high) - x).sum()),
        "c": float((y - float(other.low)).sum()),
        "d": float((float(other.high) - y).sum()),
        "xx": float(((x - c) ** 2).sum()),
        "yy": float(((y - d) ** 2).sum()),
        "xy": float(((x - c) * (y - d)).sum()),
    }


X, Y = CentredRange(0, 10, 5), CentredRange(0, 10, 4)
KNOWN = _moments(X, Y)


def _narrow(estimator: Any, names: str) -> list[float]:
    """Without noise the range is the number itself, but for what doubles may err by."""
    return _of(estimator, [KNOWN[each] for each in names.split()], [0.0] * len(names.split()))


def _near(wanted: float, slack: float = 1e-9) -> tuple[list[float], list[float]]:
    return [wanted - slack] * 3, [wanted + slack] * 3


def _box(estimator: Any, names: str, wide: float, statistic: Callable[[dict[str, float]], float]) -> Vector:
    """With noise, the range holds the statistic at every possible corner of the box, and is at most 7 times as wide."""
    keys = names.split()
    corners = []
    for signs in itertools.product((-1, 0, 1), repeat=len(keys)):
        moved = KNOWN | {key: KNOWN[key] + sign * wide for key, sign in zip(keys, signs, strict=True)}
        if abs(moved["a"] + moved["b"] - moved["c"] - moved["d"]) < 1e-9 or len(keys) == 3:
            corners.append(statistic(moved))
    least, most, value = min(corners), max(corners), statistic(KNOWN)
    slack = 3 * (most - least)
    low, high = [value - 1e-9, least - slack, most], [value + 1e-9, least, most + slack]
    return between(low, high, _of, estimator, [KNOWN[each] for each in keys], [wide] * len(keys))


def _variance(m: dict[str, float]) -> float:
    n = (m["a"] + m["b"]) / 10
    return m["xx"] / n - (m["a"] / n - 5) ** 2


def _covariance(m: dict[str, float]) -> float:
    n = (m["a"] + m["b"] + m["c"] + m["d"]) / 20
    return m["xy"] / n - (m["a"] / n - 5) * (m["c"] / n - 4)


@formula("plan.aggregates.moments.CentredRange.width")
def _axis_width() -> Iterator[Vector]:
    for low, high in ((0, 10), (-3, Fraction(1, 2)), (5, 6)):
        yield exact(float(Fraction(high) - low), lambda low, high: CentredRange(low, high, low).width, low, high)


@formula("plan.aggregates.moments.SpreadEstimate.estimate")
def _spread() -> Iterator[Vector]:
    x = np.array([each for each, _ in ROWS])
    for sample, root in itertools.product((False, True), repeat=2):
        wanted = x.std(ddof=int(sample)) if root else x.var(ddof=int(sample))
        yield between(*_near(float(wanted)), _narrow, SpreadEstimate(X, Fraction(0), sample, root), "a b xx")
    yield _box(SpreadEstimate(X, Fraction(0), False, False), "a b xx", 0.5, _variance)


@formula("plan.aggregates.moments.CovarianceEstimate.estimate")
def _covariances() -> Iterator[Vector]:
    for sample in (False, True):
        wanted = float(np.cov(*zip(*ROWS, strict=True), ddof=int(sample))[0, 1])
        yield between(*_near(wanted), _narrow, CovarianceEstimate(X, Y, Fraction(0), sample), "a b c d xy")
    yield _box(CovarianceEstimate(X, Y, Fraction(0), False), "a b c d xy", 0.25, _covariance)


@formula("plan.aggregates.moments.CorrelationEstimate.estimate")
def _correlation() -> Iterator[Vector]:
    wanted = float(np.corrcoef(*zip(*ROWS, strict=True))[0, 1])
    none = (Fraction(0),) * 3
    yield between(*_near(wanted), _narrow, CorrelationEstimate(X, Y, none, False), "a b c d xx yy xy")
    yield between(*_near(wanted**2), _narrow, CorrelationEstimate(X, Y, none, True), "a b c d xx yy xy")

    def correlation(m: dict[str, float]) -> float:
        n = (m["a"] + m["b"] + m["c"] + m["d"]) / 20
        spread = (m["xx"] / n - (m["a"] / n - 5) ** 2) * (m["yy"] / n - (m["c"] / n - 4) ** 2)
        return min(1.0, _covariance(m) / math.sqrt(spread))

    yield _box(CorrelationEstimate(X, Y, none, False), "a b c d xx yy xy", 0.1, correlation)


@formula("plan.aggregates.moments.SlopeOrInterceptEstimate.estimate")
def _line() -> Iterator[Vector]:
    slope, intercept = np.polyfit(*zip(*ROWS, strict=True), 1)
    none = (Fraction(0),) * 2
    yield between(*_near(float(slope)), _narrow, SlopeOrInterceptEstimate(X, Y, none, False), "a b c d xx xy")
    yield between(*_near(float(intercept)), _narrow, SlopeOrInterceptEstimate(X, Y, none, True), "a b c d xx xy")
    yield _box(
        SlopeOrInterceptEstimate(X, Y, none, False), "a b c d xx xy", 0.1, lambda m: _covariance(m) / _variance(m)
    )


# ── surveys ────────────────────────────────────────────────────────────────────────────────────


@formula("surveys.counts.epsilon_per_question")
def _survey_share() -> Iterator[Vector]:
    yield exact(Fraction(1, 2), counts.epsilon_per_question, Fraction(2), 4, sampled=False)
    yield exact(Fraction(2), counts.epsilon_per_question, Fraction(2), 4, sampled=True)
    yield exact(Fraction(1, 3), counts.epsilon_per_question, Fraction(1), 3, sampled=False)


@formula("surveys.encodings.support_probabilities")
def _chances() -> Iterator[Vector]:
    """P(support | held) − P(support | not held), and the latter, from the laws of the reports themselves."""
    from sfumato.mechanisms.response import OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse

    def told(mechanism: Any) -> list[float]:
        probabilities = encodings.support_probabilities(mechanism)
        return [probabilities.q, probabilities.gap]

    for epsilon, cells in ((Fraction(1), 4), (Fraction(3), 7)):
        up = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
        q = 1 / (up + cells - 1)
        yield exact([float(q), float(up * q - q)], told, RandomizedResponse(epsilon, cells))
        q = 1 / (up + 1)
        yield exact([float(q), float(mpf(1) / 2 - q)], told, OptimizedUnaryEncoding(epsilon, cells))
    hashing = OptimalLocalHashing(Fraction(1), 5)
    g = hashing.cells
    p = mp.e / (mp.e + g - 1)
    few, more = divmod(encodings.PRIME, g)
    sizes = [few + 1] * more + [few] * (g - more)
    meet = mpf(sum(n * (n - 1) for n in sizes)) / (mpf(encodings.PRIME) * (encodings.PRIME - 1))
    q = meet * p + (1 - meet) * (1 - p) / (g - 1)
    yield exact([float(q), float(p - q)], told, hashing)


def _binomial_limits(found: int, asked: int, miss: float) -> tuple[float, float]:
    """Clopper and Pearson, as quantiles of beta laws: with no tail of a binomial law."""
    low = float(stats.beta.ppf(miss, found, asked - found + 1)) if found else 0.0
    high = float(stats.beta.isf(miss, found + 1, asked - found)) if found < asked else 1.0
    return low, high


@formula("surveys.counts.frequency_limits")
def _frequency_limits() -> Iterator[Vector]:
    for found, asked, miss in ((3, 20, 0.025), (0, 12, 0.01), (30, 30, 0.05)):
        low, high = _binomial_limits(found, asked, miss)
        low, high = min(low, max(0.0, (found - 1) / asked)), max(high, min(1.0, (found + 1) / asked))
        # limits are rounded outward, by less than a ten-millionth
        wanted = [low * (1 - 1e-7), high * (1 - 1e-12)], [low * (1 + 1e-12), min(1.0, high * (1 + 1e-7))]
        yield between(*wanted, counts.frequency_limits, found, asked, miss)
    yield exact((0.0, 1.0), counts.frequency_limits, 0, 0, 0.05)


CHANCE = SupportProbabilities(0.25, 0.5)


@formula("surveys.counts.count_interval")
def _survey_interval() -> Iterator[Vector]:
    """n·(limits − q)/(p − q), between nobody and everybody, and as far from either as half of its length."""
    for found, asked in ((12, 30), (0, 30), (30, 30), (8, 30)):
        low, high = _binomial_limits(found, asked, 0.025)
        bottom, top = (30 * (each - 0.25) / 0.5 for each in (low, high))
        half = (top - bottom) / 2
        ends = [max(0.0, min(bottom, 30 - half)), min(30.0, max(top, half))]
        near = 1e-5
        wanted = [ends[0] - near, ends[1] - 1e-9], [ends[0] + 1e-9, ends[1] + near]
        yield between(*wanted, counts.count_interval, found, asked, 30, CHANCE, 0.05)


PAIR = PairSupport(np.array([12.0]), np.array([9.0]), np.array([[5.0]]), 30, (CHANCE, SupportProbabilities(0.2, 0.4)))


@formula("surveys.counts.PairSupport._max_holders")
def _pair_most() -> Iterator[Vector]:
    for found, miss in ((12, 0.0125), (3, 0.01), (30, 0.05)):
        bottom, top = (30 * (each - 0.25) / 0.5 for each in _binomial_limits(found, 30, miss))
        top = min(30.0, max(top, (top - bottom) / 2))
        yield between([top - 1e-9], [top + 1e-5], PAIR._max_holders, np.array([float(found)]), CHANCE, miss)


@formula("surveys.counts.PairSupport.half_widths")
def _pair_half_widths() -> Iterator[Vector]:
    """Bernstein: the w with 2·exp(−w²/2(v + M·w/3)) = miss/2, found by halving; v where the most hold each cell."""
    for miss in (0.05, 0.01, 0.2):
        one, two = PAIR.probabilities
        held = PAIR._max_holders(PAIR.first, one, miss / 4), PAIR._max_holders(PAIR.second, two, miss / 4)
        spread = PAIR.variances(*held).item()
        most = max(one.q, 1 - one.q) / one.gap * max(two.q, 1 - two.q) / two.gap + 1
        wide = routes.root(lambda w: mpf(miss) / 2 - 2 * mp.exp(-(w**2) / (2 * (spread + most * w / 3))), 0, 1e4)  # noqa: B023
        yield exact([wide], PAIR.half_widths, miss)


def _form(sizes: tuple[int, ...], *, sampled: bool = False) -> Any:
    from sfumato.surveys.forms import Form

    class Some(SimpleNamespace):
        _miss_probability, error, _pair_error = Form._miss_probability, Form.error, Form._pair_error

        def _pair_indices(self, names: tuple[str, str]) -> tuple[int, int]:
            return int(names[0]), int(names[1])

    questions = tuple(SimpleNamespace(name=str(place), size=size) for place, size in enumerate(sizes))
    return Some(questions=questions, sampled=sampled, _support_probabilities=tuple(CHANCE for _ in sizes))


@formula("surveys.forms.Form._miss_probability")
def _form_miss() -> Iterator[Vector]:
    form = _form((3, 4, 5))
    yield exact(0.05, form._miss_probability, "0.95", [], together=False)
    yield exact(float(Fraction(1, 20) / 12), form._miss_probability, "0.95", [], together=True)
    yield exact(float(Fraction(1, 10) / (12 + 12 + 20)), form._miss_probability, "0.9", [(0, 1), (1, 2)], together=True)


@formula("surveys.forms.Form.error")
def _form_error() -> Iterator[Vector]:
    """Half of the interval of a count that an even share gives: 0.25 + 0.5/n of those who are asked support it."""
    for sizes, sampled, respondents in (((4,), False, 40), ((4, 2), True, 60), ((5, 5), False, 20)):
        asked = round(respondents / len(sizes)) if sampled else respondents
        wanted = {}
        for place, size in enumerate(sizes):
            found = round(asked * (0.25 + 0.5 / size))
            low, high = _binomial_limits(found, asked, 0.025)
            low, high = min(low, (found - 1) / asked), max(high, (found + 1) / asked)
            wanted[str(place)] = min(respondents, respondents * (high - low))
        near = {name: wide + 1e-6 for name, wide in wanted.items()}
        yield between(wanted, near, _form(sizes, sampled=sampled).error, respondents)


@formula("surveys.forms.Form._pair_error")
def _form_pair_error() -> Iterator[Vector]:
    form = _form((4, 2))
    for respondents, miss in ((1000, 0.05), (200, 0.01), (30, 0.05)):
        own = [np.array([float(round(respondents * (0.25 + 0.5 / size)))]) for size in (4, 2)]
        pair = PairSupport(*own, np.zeros((1, 1)), respondents, (CHANCE, CHANCE))
        spread = pair.variances(*(pair._max_holders(each, CHANCE, miss / 4) for each in own)).item()
        most = (0.75 / 0.5) ** 2 + 1
        wide = routes.root(lambda w: mpf(miss) / 2 - 2 * mp.exp(-(w**2) / (2 * (spread + most * w / 3))), 0, 1e5)  # noqa: B023
        yield exact(min(float(respondents), wide), form._pair_error, 0, 1, respondents, miss)


def test_estimators_that_round_nothing_are_written_as_before() -> None:
    """What was stored before there was a rounding reads back, and says the same."""
    for own in (MeanEstimate(0, 10), CombinedEstimate(2, 1, True)):
        assert "rounding" not in codec.dumps(own)
        assert codec.loads(codec.dumps(own)) == own
    rounded = CombinedEstimate(2, 1, True, Fraction(1, 8))
    assert codec.loads(codec.dumps(rounded)) == rounded


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
