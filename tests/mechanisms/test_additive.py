from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sfumato as sf
from privacy.test_numbers import HOSTILE
from sfumato.mechanisms import additive, gaussian, grids

NOISE = [sf.Laplace, sf.Gaussian]


@pytest.mark.parametrize("make", NOISE)
def test_shapes_and_types(make: type[sf.Laplace | sf.Gaussian]) -> None:
    noise = make(3)
    assert type(noise.apply(5)) is int
    assert noise.apply(10**40) > 10**39  # Python integers have no end to saturate at
    for dtype in (np.int8, np.uint8, np.int32, np.uint64, np.int64):
        found = noise.apply(np.full((4, 5), 7, dtype))
        assert found.dtype == np.int64
        assert found.shape == (4, 5)
    assert noise.apply([1, 2, 3]).shape == (3,)
    assert noise.apply(np.array([], np.int64)).size == 0
    assert noise.apply(np.int64(7)).shape == ()


@pytest.mark.parametrize("make", NOISE)
def test_sums_saturate_and_never_wrap(make: type[sf.Laplace | sf.Gaussian]) -> None:
    ends = np.iinfo(np.int64)
    high = make(10**6).apply(np.full(1000, ends.max))
    low = make(10**6).apply(np.full(1000, ends.min))
    assert high.min() > 0
    assert low.max() < 0
    assert (high == ends.max).any()
    assert (low == ends.min).any()
    assert make(1000).apply(np.full(10, 2**64 - 1, np.uint64)).min() > 0
    assert make(1).apply([10**30, -1])[0] > 2**62  # lists of Python integers too, whatever stands beside them


@pytest.mark.parametrize("make", NOISE)
def test_grids(make: type[sf.Laplace | sf.Gaussian]) -> None:
    noise = make("0.5", grid="0.125")
    found = noise.apply(np.array([0.1, 1.26, math.nan, math.inf, -math.inf, 1e300]))
    assert np.all(found[:3] % 0.125 == 0)
    assert np.all(np.isfinite(found))
    assert found[3] == pytest.approx(2.0**52 * 0.125, rel=1e-9)
    assert noise.apply(1.3) % 0.125 == 0
    assert noise.apply(7) % 0.125 == 0
    assert isinstance(noise.apply(Fraction(1, 3)), float)
    assert make(4, grid=16).curve(16) == make("0.25").curve(1)
    assert make(4, grid=4).curve(5) == make(1).curve(2)  # rounding to the grid may cost a step
    assert make(2.0**-40, grid=2.0**-40).grid == Fraction(1, 2**40)
    assert grids.round_to_steps(np.array([1, -1, 0]), Fraction(1, 2**55)).tolist() == [2**52, -(2**52), 0]
    assert make(1, grid="0.25").apply(10**400) == pytest.approx(2.0**52 / 4)
    with pytest.raises(sf.InvalidParameter, match="power of two"):
        make(1, grid="0.1")


@pytest.mark.parametrize("kind", ["float", "int", "fraction"])
@pytest.mark.parametrize("grid", [Fraction(1, 8), Fraction(1), Fraction(4), Fraction(2**59)], ids=str)
def test_rounding_to_a_grid_never_stretches_a_change(kind: str, grid: Fraction) -> None:
    """Values Δ apart are at most ⌈Δ/γ⌉ steps apart once rounded, halves and huge numbers included."""
    starts = [grid * k / 2 for k in range(-9, 10)] + [grid * k / 2 + 3 * grid * 2**3 - Fraction(33) for k in range(4)]
    for x in starts:
        for change in (grid / 2, grid, 3 * grid / 2, 2 * grid):
            a, b = (_steps(kind, v, grid) for v in (x, x + change))
            if a is not None and b is not None:
                assert 0 <= b - a <= math.ceil(change / grid)


def _steps(kind: str, value: Fraction, grid: Fraction) -> int | None:
    if kind == "fraction":
        return grids._round_and_clamp(value / grid)
    if kind == "int":
        whole = value.denominator == 1 and abs(value) < 2**63
        return int(grids.round_to_steps(np.array([int(value)]), grid)[0]) if whole else None
    return int(grids.round_to_steps(np.array([float(value)]), grid)[0]) if Fraction(float(value)) == value else None


def test_mechanisms_travel_between_processes_before_and_after_use() -> None:
    for noise in (sf.Laplace(3), sf.Gaussian([1, 2], grid="0.5")):
        noise.apply(np.zeros(2, np.int64))
        assert pickle.loads(pickle.dumps(noise)) == noise
        assert copy.deepcopy(noise) == noise


def test_no_value_reaches_an_error() -> None:
    for call in (
        lambda: sf.Laplace(1).apply(np.array([1234567.25])),
        lambda: sf.Gaussian(1).apply([1234567.25]),
        lambda: sf.RandomizedResponse(1, 3).choose([1234567]),
    ):
        with pytest.raises(sf.InvalidParameter) as refusal:
            call()
        assert "1234567" not in str(refusal.value)
        assert "1234567" not in repr(refusal.value.value)


def test_no_size_reaches_an_error() -> None:
    """How many rows or keys there are is private too: a refusal reads the same whatever their number."""
    calls = (
        lambda n: sf.Laplace(1).apply(np.full(n, 0.5)),
        lambda n: sf.Laplace([1, 2]).apply(np.zeros(n, np.int64)),
        lambda n: sf.RandomizedResponse(1).choose(np.full(n, 9)),
        lambda n: sf.KeyThreshold(1, "1e-6").choose(np.full(n, -1)),
        lambda n: sf.Quantiles("0.5", 1, (0, 9)).choose(np.arange(n)[::-1]),
        lambda n: sf.Quantiles("0.5", 1, (0, 9)).choose_histogram([1], np.zeros(n, np.int64)),
        lambda n: sf.Exponential(1).choose(np.full(n, True)),
        lambda n: sf.TopK(1, k=5000).choose(np.zeros(n, np.int64)),
        lambda n: sf.Exponential(1).choose(["x" * n]),
    )
    for call in calls:
        texts = set()
        for size in (17, 4242):
            with pytest.raises(sf.InvalidParameter) as refusal:
                call(size)
            texts.add(str(refusal.value))
        assert len(texts) == 1


def test_errors_at_extreme_confidence() -> None:
    assert sf.Laplace(1000).error("0.9999999999999997") == 35743
    assert sf.Laplace(1).error("0.99999999999999999999") == 46


@pytest.mark.parametrize("make", NOISE)
@pytest.mark.parametrize("values", [[1.5], 1.5, np.array([1.0]), np.float32(2)])
def test_floats_need_a_grid(make: type[sf.Laplace | sf.Gaussian], values: object) -> None:
    with pytest.raises(sf.InvalidParameter, match=r"grid=2\*\*-10"):
        make(1).apply(values)


@pytest.mark.parametrize("make", NOISE)
@pytest.mark.parametrize(
    "values", ["x", None, [None], ["1"], [1j], [True], np.array([object()]), {1: 2}, [[1], [2, 3]], {3}]
)
def test_what_is_no_number_is_refused(make: type[sf.Laplace | sf.Gaussian], values: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        make(1).apply(values)


@pytest.mark.parametrize("make", NOISE)
@pytest.mark.parametrize(
    "size", [*HOSTILE[9:], 0, -1, 1e308, "1e-4", "1e13", [], [1, 0], [math.nan]], ids=lambda v: repr(v)[:20]
)
def test_hostile_sizes(make: type[sf.Laplace | sf.Gaussian], size: object) -> None:
    if isinstance(size, (list, np.ndarray)) and list(size) in ([1], [1.0, 2.0]):
        return
    with pytest.raises(sf.InvalidParameter) as refusal:
        make(size)  # type: ignore[arg-type]
    assert refusal.value.fix


@pytest.mark.parametrize("make", NOISE)
def test_values_are_frozen_readable_and_written(make: type[sf.Laplace | sf.Gaussian]) -> None:
    for noise in (make("2.5"), make([1, 2, "1/3"]), make(3, grid="0.25")):
        assert sf.loads(sf.dumps(noise)) == noise
        assert hash(noise) == hash(sf.loads(sf.dumps(noise)))
        with pytest.raises(dataclasses.FrozenInstanceError):
            noise.grid = None  # type: ignore[misc]
    assert repr(make("2.5")).endswith("=2.5)")
    assert repr(make(3, grid="0.25")).endswith("=3, grid=0.25)")


def test_a_scale_for_each_element() -> None:
    scales = [1, 100] * 5000
    for make in NOISE:
        found = make(scales).apply(np.zeros(10_000, np.int64))
        assert np.abs(found[0::2]).mean() < 3
        assert np.abs(found[1::2]).mean() > 50
        with pytest.raises(sf.InvalidParameter, match="one for each scale"):
            make(scales).apply([1, 2, 3])
    huge = np.abs(sf.Laplace([1, 10**9] * 100).apply(np.zeros(200, np.int64)))
    assert np.sort(huge[1::2])[3] > 1000 > huge[0::2].max()  # each is below with 1e-6, four of 100 with 1e-17


def test_curves_of_unequal_scales() -> None:
    two = sf.Sensitivity(groups=2)
    assert sf.Laplace([1, 2, 4]).curve(two).epsilon(0) == 1.5
    assert sf.Gaussian([1, 2, 4]).curve(two).rho() == pytest.approx(0.5 + 0.125)
    capped = sf.Sensitivity(groups=3, per_group=2, total=3)
    assert sf.Laplace([1, 2, 4]).curve(capped).epsilon(0) == 3
    assert sf.Gaussian([1, 2, 4]).curve(capped).rho() == pytest.approx(4 / 2 + 1 / 8)
    assert sf.Laplace([3, 3]).curve(two) == sf.Laplace(3).curve(two)


def test_curves_are_of_the_noise_drawn() -> None:
    assert sf.Laplace(10).curve(3) == sf.Curve.discrete_laplace(10, 3)
    assert sf.Gaussian(10).curve(sf.Sensitivity(groups=4)) == sf.Curve.discrete_gaussian(10, sf.Sensitivity(groups=4))
    assert sf.Laplace(10).curve().neighbours is sf.Neighbours.ADD_REMOVE
    assert sf.calibrate(sf.Laplace, sf.Guarantee("0.3"), 2) == sf.Laplace("20/3")
    assert sf.Budget(1).largest(sf.Laplace) == 1


@pytest.mark.parametrize(
    "noise", [sf.Laplace("0.7"), sf.Laplace(10), sf.Gaussian("0.7"), sf.Gaussian(10), sf.Gaussian(5000)], ids=repr
)
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999"])
@pytest.mark.parametrize("k", [1, 20])
def test_error_is_the_least_half_width_with_that_coverage(
    noise: sf.Laplace | sf.Gaussian, confidence: str, k: int
) -> None:
    width = noise.error(confidence, k)
    inside, narrower = _coverage(noise, int(width)), _coverage(noise, int(width) - 1)
    assert inside**k >= float(confidence) - 1e-12
    assert width == 0 or narrower**k < float(confidence) + 1e-4
    trials = 20_000
    draws = noise.apply(np.zeros((trials, k), np.int64))
    covered = (np.abs(draws).max(1) <= width).sum()
    # At most the confidence by chance: five standard deviations are a false alarm below 1e-6.
    assert covered >= trials * float(confidence) - 5 * math.sqrt(trials / 4)


def _coverage(noise: sf.Laplace | sf.Gaussian, width: int) -> float:
    if width < 0:
        return 0.0
    if isinstance(noise, sf.Laplace):
        q = math.exp(-1 / float(noise.scale))  # type: ignore[arg-type]
        return 1 - 2 * q ** (width + 1) / (1 + q)
    s = float(noise.sigma)  # type: ignore[arg-type]
    x = np.arange(-math.ceil(40 * s), math.ceil(40 * s) + 1)
    weights = np.exp(-((x / s) ** 2) / 2)
    return float(weights[np.abs(x) <= width].sum() / weights.sum())


def test_errors_on_a_grid_are_in_its_units() -> None:
    assert sf.Laplace("0.5", grid="0.25").error() == sf.Laplace(2).error() * Fraction(1, 4)


def test_the_classical_gaussian_is_textbook_and_more_than_needed() -> None:
    classical = sf.Gaussian.classical("0.5", "1e-6")
    assert float(classical.sigma) == pytest.approx(math.sqrt(2 * math.log(1.25e6)) / 0.5, rel=1e-11)  # type: ignore[arg-type]
    assert classical.curve().delta("0.5") <= 1e-6
    assert sf.calibrate(sf.Gaussian, sf.Guarantee("0.5", "1e-6")).sigma < classical.sigma  # type: ignore[operator]
    for epsilon in (1, 2, 0):
        with pytest.raises(sf.InvalidParameter, match="epsilon"):
            sf.Gaussian.classical(epsilon, "1e-6")
    with pytest.raises(sf.InvalidParameter, match="delta"):
        sf.Gaussian.classical("0.5", 0)


def test_tables_are_built_only_when_the_draws_pay() -> None:
    gaussian.build_guide_table.cache_clear()
    sf.Laplace(7).apply(np.zeros(1000, np.int64))
    sf.Gaussian(7).apply(np.zeros(1000, np.int64))
    assert gaussian.build_guide_table.cache_info().currsize == 0
    sf.Gaussian(7).apply(np.zeros(additive._TABLE_PAYS["gaussian"], np.int64))
    sf.Laplace(7).apply(np.zeros(additive._TABLE_PAYS["laplace"], np.int64))
    assert gaussian.build_guide_table.cache_info().currsize == 2


@pytest.mark.long
def test_a_hundred_million_draws_in_bounded_memory() -> None:
    import resource

    data = np.zeros(10**8, np.int8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = sf.Laplace(10).apply(data)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 800 + 100  # the answer itself is 800 MB
    assert abs(found.mean()) < 6 * math.sqrt(2 * 100 / 10**8)


def _repeated_runs(noise: np.ndarray, length: int = 32) -> int:
    """Return how many runs of this length occur earlier too, told by a hash of 64 bits.

    Laplace noise of scale 2, the least below, has 2.9 bits: two of 600,000 runs of 32 agree with chance below 1e-16.
    """
    weights = np.random.default_rng(1).integers(0, 1 << 63, length, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.zeros(noise.size - length + 1, np.uint64)
    for offset, weight in enumerate(weights):
        hashes += noise[offset : offset + hashes.size].astype(np.uint64) * weight
    return int(hashes.size - np.unique(hashes).size)


@pytest.mark.parametrize(
    ("mechanism", "count"),
    [
        (sf.Laplace(1000), 2 * grids.CHUNK + 100),
        (sf.Gaussian(1000), 2 * grids.CHUNK + 100),
        (sf.Laplace(2), additive._TABLE_PAYS["laplace"] + grids.CHUNK),
        (sf.Gaussian(5), additive._TABLE_PAYS["gaussian"] + 2 * grids.CHUNK),
        (sf.Gaussian(500), additive._TABLE_PAYS["gaussian"] + 2 * grids.CHUNK),
        (sf.Laplace((1000, 2000)), 2 * grids.CHUNK + 100),
        (sf.Gaussian((1000, 2000)), 2 * grids.CHUNK + 100),
    ],
    ids=[
        "Laplace",
        "Gaussian",
        "Laplace by table",
        "Gaussian by table",
        "Gaussian by blocks",
        "Laplace scales",
        "Gaussian scales",
    ],
)
def test_no_noise_is_used_again_in_a_later_chunk(mechanism: sf.Laplace | sf.Gaussian, count: int) -> None:
    noise = mechanism.apply(np.zeros(count // 2 * 2, np.int64).reshape(-1, 2)).reshape(-1)
    assert _repeated_runs(noise) == 0


def test_noise_that_is_used_again_is_counted() -> None:
    noise = sf.Laplace(1000).apply(np.zeros(grids.CHUNK, np.int64))
    assert _repeated_runs(np.concatenate([noise, noise[:100]])) == 100 - 31


def test_gaussian_noise_of_a_price_in_rho_is_never_too_small() -> None:
    """ρ = 1/2σ², exactly, whichever way the square root is rounded."""
    for number in range(1, 300):
        rho = Fraction(number, 97)
        sigma = sf.Gaussian.closed_form(epsilon=None, rho=rho)
        assert sigma is not None
        assert 1 / (2 * sigma**2) <= rho <= (1 + Fraction(1, 2**38)) / (2 * sigma**2)


def test_the_chance_left_to_each_noise_is_rounded_down() -> None:
    """1 − (1 − β)^(1/k) for independent noises and β/k for any, in 40 digits: below them by 1e-14 and no more."""
    with mpmath.workdps(40):
        for confidence in ("0.01", "0.3", "0.9", "0.95", "0.99", "0.999", "0.999999"):
            beta = 1 - mpmath.mpf(confidence)
            for k in (1, 2, 3, 7, 9, 1000):
                independent = -mpmath.expm1(mpmath.log1p(-beta) / k)
                for truth, found in (
                    (independent, additive._independent_miss(confidence, k)),
                    (beta / k, additive._union_bound_miss(confidence, k)),
                ):
                    assert truth * (1 - mpmath.mpf("1.4e-14")) <= found <= truth * (1 - mpmath.mpf("0.6e-14"))


def test_a_gaussian_width_keeps_a_margin_of_rounding() -> None:
    """A chance that is met by less than 1e-12 of itself takes one more step, in both ways of adding up the law."""
    weights = [math.exp(-x * x / 2) for x in range(40)]
    summed = 2 * math.fsum(weights[3:]) / (2 * math.fsum(weights) - 1)  # P(|Y| > 2) at σ = 1
    bounded = math.erfc(3920.5 / (2000 * math.sqrt(2)))  # of |Y| > 3920 at σ = 2000
    for sigma, width, chance in ((1.0, 2, summed), (2000.0, 3920, bounded)):
        assert additive._gaussian_half_width(sigma, chance * (1 + 1.5e-12)) == width
        assert additive._gaussian_half_width(sigma, chance * (1 + 0.5e-12)) == width + 1
        assert additive._gaussian_half_width(sigma, chance * (1 - 1e-9)) == width + 1
    assert additive._gaussian_half_width(2000.0, bounded * (1 + 1e-12)) == 3920  # and one that is just met is met
    # half a step is gained beyond σ alone, where the density is convex
    assert additive._gaussian_half_width(2000.0, math.erfc(2000.25 / (2000 * math.sqrt(2)))) == 2001
    assert additive._gaussian_half_width(2000.0, math.erfc(2001.5 / (2000 * math.sqrt(2))) * (1 + 1e-9)) == 2001


def test_a_sum_of_gaussian_noises_is_as_wide_as_its_deviation_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(additive, "_gaussian_half_width", lambda sigma, _: asked.append(sigma) or 7)
    assert sf.Gaussian(50).sum_error(3) == 7
    with mpmath.workdps(40):
        assert abs(asked[0] / (50 * mpmath.sqrt(3)) - 1 - mpmath.mpf("1e-12")) < 1e-15
