"""Draws on record: what every sampler returns for given random bytes, ordinary ones and those that lie at a cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from claims.outcomes import numbers, outcome
from claims.recorded import Claim, check_claims
from mechanisms.recorded import Keyed, keyed, recorded, words
from sfumato.mechanisms import bits, gaussian, grids, laplace, races, rank_choices, response
from sfumato.mechanisms.key_thresholds import _keep_probability_cuts
from sfumato.mechanisms.rank_choices import RankedValues, RankRule, ValueRuns

F = Fraction


@contextmanager
def bytes_then_keyed(chosen: bytes) -> Iterator[None]:
    """Draw the chosen bytes first, then those that a fixed name decides."""
    with recorded(chosen) as stream:
        stream._random = Keyed("beyond the chosen bytes")
        yield


def _exponential(power: Fraction) -> Decimal:
    """Compute e^power in 80 digits: the same on every machine."""
    context = bits.decimal_context(80)
    return bits.to_decimal(power, context).exp(context)


def _laplace_cuts(scale: Fraction, two_sided: bool, sizes: range, width: int = 63) -> list[int]:
    """List the numbers of 2^−width at and around which |X| changes from one whole number to the next."""
    exact = bits.decimal_context(80)
    folding = exact.add(Decimal(1), _exponential(-1 / scale)) if two_sided else Decimal(2)
    cuts = [int(exact.divide(exact.multiply(_exponential(-t / scale), Decimal(2 << width)), folding)) for t in sizes]
    return [max(0, min((1 << width) - 1, cut + d)) for cut in cuts for d in (-(1 << 12), -1, 0, 1, 1 << 12)]


def test_bits() -> None:
    claims: dict[str, Claim] = {}
    with keyed("bits"):
        claims["words"] = numbers(bits.random_uint64(5))
        claims["shorts"] = numbers(bits.random_uint16(7))
        claims["integer"] = tuple(bits.random_bits(width) for width in (1, 3, 7, 8, 9, 16, 63, 64, 127, 128))
        claims["below"] = tuple(
            bits.random_below(limit) for limit in (1, 2, 3, 5, 64, 65, 1000, 10**30) for _ in range(4)
        )
        claims["all_below"] = tuple(
            numbers(bits.random_array_below(limit, 6)) for limit in (1, 2, 3, 7, 1000, (1 << 31) - 1, 1 << 31)
        )
        claims["each_below"] = numbers(
            bits.random_below_limits(np.array([0, 1, 2, 3, 4, 5, 1000, 1 << 40, (1 << 62) + 1] * 3))
        )
        claims["masks"] = numbers(bits._masks_covering_limits(np.array([1, 2, 3, 4, 5, 1000, 1 << 40, (1 << 62) + 1])))
        claims["large words"] = numbers(bits.random_uint64(300_000)[[0, 1, 131_071, 131_072, 262_144, -1]])
        claims["pool"] = tuple(
            bits._next_private_bytes(count)[:8].hex() for count in (2048, 2049, 1, 8191, 2047, 2048, 2048, 9)
        )
    halves = np.array([0, 1, 3, 4, 5, 1 << 31, (1 << 32) - 1], np.uint32).tobytes()
    for limit in (3, 5, 6, (1 << 31) - 1):
        with bytes_then_keyed(halves):
            claims[f"all_below {limit} at its rest"] = numbers(bits.random_array_below(limit, 7))
    check_claims("mechanisms/drawn_bits", claims)


LAPLACE_SCALES = ("1/1000", "1/3", "1", "7/2", "250", "100000", "16777216", "16777217", "1000000000", "1000000000000")


@pytest.mark.parametrize("scale", [F(each) for each in LAPLACE_SCALES])
def test_laplace_noise(scale: Fraction) -> None:
    claims: dict[str, Claim] = {}
    for two_sided in (True, False):
        for width in (63, 127):
            piece = laplace.MagnitudeConstants.for_scale(scale, two_sided=two_sided, width=width)
            claims[f"piece, folded {two_sided}, {width} bits"] = numbers(piece)
    with keyed(f"laplace {scale}"):
        claims["draw"] = numbers(laplace.draw(scale, 60))
        claims["draw_one"] = tuple(laplace.draw_one(scale) for _ in range(20))
        claims["many"] = numbers(
            laplace.LaplaceBatch([scale, F(5), scale / 2]).draw(np.array([0, 1, 2, 0, 0, 1, 2, 2, 1, 0] * 3))
        )
    edges = [0, 1, 2, 3, 1 << 18, (1 << 45) - 1, 1 << 45, (1 << 46) + 1, (1 << 63) - 1]
    direct = scale <= laplace.DIRECT
    if direct and scale < 10**4:
        edges += _laplace_cuts(scale, True, range(1, 5))
    chosen = [2 * v + sign for v in edges for sign in (0, 1)]
    with bytes_then_keyed(words(*chosen)):
        claims["draw at cuts"] = numbers(laplace.draw(scale, len(chosen)))
    with bytes_then_keyed(words(*chosen)):
        claims["many at cuts"] = numbers(laplace.LaplaceBatch([F(3, 2), scale]).draw(np.ones(len(chosen), int)))
    long = [0, 1, 1 << 44, (1 << 45) - 1, 1 << 45, 1 << 100, (1 << 127) - 1]
    long += _laplace_cuts(scale, True, range(1, 4), 127) if direct and scale < 10**4 else []
    single = laplace.LaplaceSampler(scale)
    with keyed(f"single {scale}"):
        claims["magnitude"] = tuple(single._magnitude_of_uniform(v) for v in long)
    claims["single"] = (single._low, single.unit, single._high_scale, single._far)
    claims["whole"] = tuple(
        single.add_parts(v, h, low, m) for v in (0, -9) for h, low, m in ((0.0, 0, 0), (5.0, 3, 0), (5.0, 3, 1))
    )
    with bytes_then_keyed(words(0, 0, 1, 0, 2**64 - 1, 2**64 - 1, 3, 2**63)):
        claims["parts"] = tuple(single.draw_parts() for _ in range(4))
    check_claims(f"mechanisms/laplace_noise_{str(scale).replace('/', '_')}", claims)


def test_low_parts_of_large_laplace_noise() -> None:
    claims: dict[str, Claim] = {
        "width": tuple(laplace._low_part_bit_count(F(s)) for s in (2**24 + 1, 2**25, 2**26 - 1, 2**39, 10**12))
    }
    for scale in (F(2**26), F(10**12)):
        k = laplace._low_part_bit_count(scale)
        top = 1 << (42 - k)
        chosen = [(w << k) | d for w in (0, 1, top // 2, top - 1, top, top + 1, 1 << 20) for d in (0, 1, (1 << k) - 1)]
        with bytes_then_keyed(words(*chosen)):
            claims[f"parts {scale}"] = numbers(laplace._draw_low_parts(scale, k, len(chosen)))
        with keyed(f"low part {scale}"):
            claims[f"part {scale}"] = tuple(laplace._draw_low_part(scale, k, word) for word in (*chosen, None))
            claims[f"rejected {scale}"] = tuple(
                laplace._is_low_part_rejected(d, w, 64 - k, scale) for d in (0, 1, (1 << k) - 1) for w in (0, 1, 7, top)
            )
        zero = [0 if s else 1 for s in range(6)]
        with bytes_then_keyed(words(*((2**64 - 1) - z for z in zero), *([(1 << 63)] * 6))):
            claims[f"minus zero {scale}"] = numbers(laplace.draw(scale, 6))
    check_claims("mechanisms/low_parts_of_laplace_noise", claims)


@pytest.mark.parametrize(
    "sigma", [F(each) for each in ("1/1000", "1/3", "1", "9/2", "300", "1000000", "1000000000000")]
)
def test_gaussian_noise(sigma: Fraction) -> None:
    t, centre, twice = gaussian.proposal_constants(sigma)
    claims: dict[str, Claim] = {"proposal": (t, centre, twice)}
    with keyed(f"gaussian {sigma}"):
        claims["draw"] = numbers(gaussian.draw(sigma, 60))
        claims["next word"] = bits.random_bits(64)
        claims["draw_one"] = tuple(gaussian.draw_one(sigma) for _ in range(20))
        claims["many"] = numbers(
            gaussian.GaussianBatch([sigma, F(5), 2 * sigma]).draw(np.array([0, 1, 2, 0, 0, 1, 2, 2, 1, 0] * 3))
        )
        claims["added"] = tuple(gaussian.GaussianSampler(sigma).add_noise(v) for v in (0, 7, -7, 10**20))
        claims["last word"] = bits.random_bits(64)
    y = np.array([round(sigma * k) for k in (0, 1, -1, 2, -2, 3, 0, 1, 1, 2, 1, 1)])
    gammas = [(abs(int(each)) - sigma**2 / t) ** 2 / (2 * sigma**2) for each in y]
    at_cut = [int(bits.decimal_context(80).multiply(_exponential(-gamma), Decimal(1 << 64))) for gamma in gammas]
    for moved in (-(1 << 40), -1, 0, 1, 1 << 40):
        chosen = [max(0, min((1 << 64) - 1, cut + moved)) for cut in at_cut]
        with bytes_then_keyed(words(*chosen)):
            claims[f"accepted, moved by {moved}"] = numbers(
                gaussian._are_proposals_accepted(y, centre, twice, [sigma], None)
            )
        kinds = np.zeros(y.size, int)
        with bytes_then_keyed(words(*chosen)):
            several = gaussian._are_proposals_accepted(
                y, np.full(y.size, centre), np.full(y.size, twice), [sigma, F(1)], kinds
            )
            claims[f"accepted of several, moved by {moved}"] = numbers(several)
        with keyed("kept"):
            claims[f"kept, moved by {moved}"] = tuple(
                gaussian.accepts_candidate(int(a), sigma, b) for a, b in zip(y, chosen, strict=True)
            )
    for first in (0, 1, (1 << 30) - 1, 1 << 30, 1 << 63):
        with bytes_then_keyed(words(1 << 62, 1 << 61, first, 5, 1 << 60, 1 << 63)):
            claims[f"single from {first}"] = gaussian.GaussianSampler(sigma).add_noise(3)
    check_claims(f"mechanisms/gaussian_noise_{str(sigma).replace('/', '_')}", claims)


def test_noise_from_tables() -> None:
    claims: dict[str, Claim] = {}
    for kind in ("laplace", "gaussian"):
        guide = gaussian.build_guide_table(kind, F(1, 2))
        assert guide is not None
        with keyed(f"guide {kind}"):
            claims[f"{kind} draw"] = numbers(guide.draw(300))
        undecided = np.flatnonzero(guide.cells == gaussian._UNDECIDED)
        shorts = np.concatenate([undecided, [1000, 30000]]).astype(np.uint16)
        cuts = [int(cut) for cut in guide.cuts]
        at_cuts = [cut + d for cut in cuts[::9] for d in (-1, 0, 1)]
        for name, chosen in (("at cuts", at_cuts), ("at the ends", [0, 1, 2**64 - 1, 2**64 - 2])):
            first = np.array([word >> 48 for word in chosen], np.uint16)
            rest = words(*((word << 16) & (2**64 - 1) for word in chosen))
            with bytes_then_keyed(rest):
                claims[f"{kind} refined {name}"] = numbers(guide._draw_undecided(first))
            with bytes_then_keyed(first.tobytes() + rest):
                claims[f"{kind} drawn {name}"] = numbers(guide.draw(len(chosen)))
        with keyed("exactly"):
            claims[f"{kind} exactly"] = tuple(
                guide._exact_outcome(word) for word in (0, 1, cuts[0], cuts[3] + 1, 2**63, 2**64 - 1)
            )
        claims[f"{kind} cells"] = numbers(shorts[:40])
        with keyed(f"table {kind}"):
            sampler = (sf.Laplace("3.5") if kind == "laplace" else sf.Gaussian("3.5")).sampler
            for count in ((1 << 16) - 1, 1 << 16, (1 << 19) - 1, 1 << 19):
                claims[f"{kind} planned for {count}"] = numbers(sampler.draw_function(count)(0, 30))
    with keyed("no table"):
        claims["large scale"] = numbers(sf.Laplace(64).sampler.draw_function(1 << 20)(0, 9))
        claims["larger scale"] = numbers(sf.Laplace(65).sampler.draw_function(1 << 20)(0, 9))
    check_claims("mechanisms/noise_from_tables", claims)


def test_noisy_values() -> None:
    claims: dict[str, Claim] = {}
    noises: dict[str, Any] = {
        "laplace": sf.Laplace(2),
        "laplace on a grid": sf.Laplace("0.7", grid="1/8"),
        "gaussian": sf.Gaussian(3),
        "gaussian on a grid": sf.Gaussian(9, grid=4),
        "laplaces": sf.Laplace([1, 5, 1]),
        "gaussians": sf.Gaussian([1, 50, "0.5"]),
    }
    values: dict[str, Any] = {
        "int": 12,
        "fraction": F(7, 3),
        "list": [1, -2, 3],
        "large": [2**63 - 1, -(2**63), 2**70],
        "table": np.arange(6).reshape(2, 3),
        "floats": np.array([0.5, -1.25, np.nan]),
        "scalar": np.int64(5),
        "float": 2.5,
        "two": [1, 2],
        "ragged": [[1], [2, 3]],
        "none": [],
    }
    for name, noise in noises.items():
        for kind, given in values.items():
            with keyed(f"{name} {kind}"):
                claims[f"{name} on {kind}"] = outcome(lambda noise=noise, given=given: noise.apply(given))
    with keyed("chunks"):
        long = sf.Laplace([1, 100]).apply(np.zeros((70_000, 2), int))
        claims["chunks"] = numbers(long[[0, 32_767, 32_768, 65_535, 65_536, -1]])
        claims["chunk sums"] = numbers(np.abs(long).sum(0))
    check_claims("mechanisms/noisy_values", claims)


GAPS = {
    "few": [0, 3, 1, 0, 7],
    "far": [0, 10**6, 2**62, 5],
    "equal": [0] * 9,
    "one": [0],
    "leader": [0, 2**40, 2**40 + 1, 2**40 + 3],
}
KINDS = {"gumbel": races.GUMBEL, "exponential": races.EXPONENTIAL, "laplace": races.LAPLACE}


@pytest.mark.parametrize("kind", KINDS)
def test_races(kind: str) -> None:
    claims: dict[str, Claim] = {}
    noise = KINDS[kind]
    edge = [0, 1, 2, 3, 2**63, 2**63 + 2, 2**64 - 1, 2**64 - 2, 2**64 - 2**13, 2**64 - 2**15, 2**20, 2**50, 12345678901]
    for name, given in GAPS.items():
        gaps = np.array(given, np.uint64)
        for rate in (F(1, 1000), F(1, 2), F(30)):
            for count in {1, 2, len(given)} & set(range(1, len(given) + 1)):
                with keyed(f"race {name} {rate} {count}"):
                    many = [races.draw_winners(noise, gaps, rate, count).tolist() for _ in range(12)]
                    claims[f"{name} at {rate}, first {count}"] = numbers(many)
                with keyed(f"rows {name} {rate} {count}"):
                    table = np.stack([gaps, gaps[::-1], np.roll(gaps, 1)])
                    claims[f"rows of {name} at {rate}, first {count}"] = numbers(
                        races.draw_winners_of_rows(noise, table, rate, count)
                    )
            with keyed(f"groups {name} {rate}"):
                twice = np.concatenate([gaps, gaps, gaps])
                begin = np.arange(3) * len(given)
                places = np.arange(1, twice.size + 1)
                claims[f"groups of {name} at {rate}"] = numbers(
                    races.draw_winners_of_groups(noise, twice, rate, begin, places)
                )
    same = np.array(edge, np.uint64)
    base = np.uint64(2)
    keys, errors = races._keys_with_errors(
        noise, same, np.arange(same.size, dtype=np.uint64), base, F(1, 3), np.arange(1, same.size + 1)
    )
    claims["keys"] = numbers(keys)
    claims["errors"] = numbers(errors)
    for name, chosen in (
        ("tied", [8, 8, 8, 9]),
        ("near", [2**40, 2**40 + 2, 2**40 + 4]),
        ("zeros", [0, 0, 1]),
        ("last", [2**64 - 1] * 3),
    ):
        gaps = np.zeros(len(chosen), np.uint64)
        for count in (1, 2, 3):
            with bytes_then_keyed(words(*chosen)):
                claims[f"{name}, first {count}"] = numbers(races.draw_winners(noise, gaps, F(1), count))
            with bytes_then_keyed(words(*chosen)):
                claims[f"{name} in a row, first {count}"] = numbers(
                    races.draw_winners_of_rows(noise, gaps[None, :], F(1), count)
                )
        with bytes_then_keyed(words(*chosen, *chosen)):
            begin = np.array([0, len(chosen)])
            twice = np.zeros(2 * len(chosen), np.uint64)
            claims[f"{name} in groups"] = numbers(
                races.draw_winners_of_groups(noise, twice, F(1), begin, np.ones(twice.size, int))
            )
    context = bits.decimal_context(30)
    for v, width, sign, gap, places in (
        (5, 63, True, F(1, 3), 1),
        (5, 63, False, F(2), 7),
        (0, 63, True, F(0), 1),
        (2**63 - 1, 63, False, F(1), 3),
        (5, 255, True, F(1, 3), 2),
    ):
        runner = races._UnrankedCandidate(0, v, width, sign, gap, places)
        claims[f"runner {v} {sign} {gap} {places}"] = tuple(map(str, runner.key(noise, context)))
    with keyed("chunked race"):
        claims["chunks"] = numbers(races.draw_winners(noise, np.arange(70_000, dtype=np.uint64) // 7, F(1, 9000), 4))
    check_claims(f"mechanisms/race_of_{kind}", claims)


def test_exact_decisions() -> None:
    claims: dict[str, Claim] = {}
    context = bits.decimal_context(30)
    claims["contexts"] = tuple((c.prec, c.Emax, c.Emin) for c in map(bits.decimal_context, (5, 30)))
    claims["minus_log_bounds"] = tuple(
        tuple(map(str, bits.minus_log_interval(v, w, context))) for v, w in ((0, 8), (1, 8), (255, 8), (77, 63))
    )
    decimals = [bits.to_decimal(F(n, 7), context) for n in (-9, 0, 1, 50)]
    claims["slack"] = tuple(str(bits.rounding_slack(each, context)) for each in decimals)
    claims["common_floor"] = tuple(
        bits.common_floor((a, b), size, context) for a in decimals for b in decimals if a <= b for size in decimals[2:]
    )
    exactly = bits.to_decimal(F(3), context)
    claims["floor of a whole number"] = bits.common_floor((exactly, exactly), exactly, context)
    asked: list[tuple[int, int]] = []

    def decide(v: int, width: int, context: Any) -> int | None:
        asked.append((width, context.prec))
        return v if len(asked) % 4 == 0 else None

    for width in (1, 63, 64, 65, 127, 128):
        with keyed(f"settle {width}"):
            claims[f"settled from {width}"] = bits.decide_lazily(3, width, decide)
    claims["asked"] = numbers(asked)
    third = lambda context: bits.to_decimal(F(1, 3), context)  # noqa: E731 - a probability
    cut = (1 << 64) // 3
    with keyed("less"):
        claims["less"] = tuple(bits.is_uniform_below(cut + d, 64, third) for d in (-9, -1, 0, 1, 9) for _ in range(3))
        claims["bernoulli"] = numbers(response.bernoulli(third, 40))
    with bytes_then_keyed(words(cut - 2, cut - 1, cut, cut + 1, cut + 2, 0, 2**64 - 1)):
        claims["bernoulli at the cut"] = numbers(response.bernoulli(third, 7))
    for name, chance in (("never", F(0)), ("always", F(1))):
        with bytes_then_keyed(words(0, 1, 2, 2**64 - 1, 2**64 - 2)):
            claims[f"bernoulli {name}"] = numbers(response.bernoulli(lambda c, p=chance: bits.to_decimal(p, c), 5))
    check_claims("mechanisms/exact_decisions", claims)


def test_choices() -> None:
    claims: dict[str, Claim] = {}
    with keyed("choices"):
        for name, made in (
            ("exponential", sf.Exponential(1)),
            ("permute and flip", sf.PermuteAndFlip("0.5", 2)),
            ("laplace", sf.NoisyMax(1)),
            ("exponential max", sf.NoisyMax(1, noise="exponential")),
            ("gumbel", sf.NoisyMax(1, noise="gumbel")),
            ("top", sf.TopK(1, k=2)),
            ("on a grid", sf.Exponential(2, "0.5", grid="1/4")),
        ):
            claims[name] = tuple(numbers(made.choose([0, 1.5, 3, 2.25, -7])) for _ in range(15))
        claims["too few"] = outcome(lambda: sf.TopK(1, k=3).choose([1, 2]))
        claims["as many"] = outcome(lambda: sf.TopK(1, k=2).choose([1, 2]))
        claims["frequent"] = numbers(
            sf.FrequentValues(1, 2, 2, "replace").choose(np.array([[5, 9, 0, 4], [1, 1, 1, 1], [0, 90, 3, 80]]))
        )
        claims["unsigned"] = numbers(sf.FrequentValues(1).choose(np.array([[5, 9], [2**63 - 1, 0]], np.uint64)))
        for made in (sf.RandomizedResponse(1, 3), sf.RandomizedResponse.of_odds(3)):
            claims[f"{made!r}"] = numbers(made.choose(np.array([0, 1] * 20)))
        claims["one response"] = tuple(sf.RandomizedResponse(1, 5).choose(3) for _ in range(9))
        claims["unary"] = numbers(sf.OptimizedUnaryEncoding(1, 3).choose([0, 1, 2, 0, 2, 2]))
        claims["hashing"] = numbers(sf.OptimalLocalHashing(2, 30).choose([0, 1, 2, 0, 29, 2]))
        wide = sf.OptimizedUnaryEncoding(1, 1 << 19).choose([0, 1, 2, 3, 4])
        claims["wide"] = numbers(wide.sum(axis=1))
    claims["hash of parts"] = numbers(
        sf.OptimalLocalHashing(2, 30).hashed(np.array([3, 2**30]), np.array([7, 2**31 - 2]), np.array([5, 29]))
    )
    check_claims("mechanisms/choices", claims)


def test_kept_keys() -> None:
    claims: dict[str, Claim] = {}
    for name, made in (
        ("optimal", sf.KeyThreshold(1, "0.01")),
        ("optimal, replaced", sf.KeyThreshold(1, "0.01", neighbours="replace")),
        ("laplace", sf.KeyThreshold(1, "0.01", 3)),
        ("weighted", sf.KeyThreshold(1, "0.01", 3, True)),
        ("gaussian", sf.KeyThreshold.gaussian(1, "0.01", 3)),
    ):
        counts = np.arange(60) % 31
        with keyed(f"kept {name}"):
            claims[name] = numbers(made.choose(counts))
            claims[f"{name} of many"] = numbers(made.choose(np.full(70_000, made.threshold // 2)).sum())
        refused: tuple[Any, ...] = ([-1], [[1]], [0.5], [])
        claims[f"{name} refused"] = tuple(
            outcome(lambda made=made, given=given: made.choose(given)) for given in refused
        )
    optimal = sf.KeyThreshold(1, "0.01")
    cuts = _keep_probability_cuts(F(1), F(1, 100))
    held = np.repeat(np.arange(len(cuts) + 1), 5)
    chosen = [
        max(0, min(2**64 - 1, cuts[min(n, len(cuts) - 1)] + d))
        for n, d in zip(held, [-2, -1, 0, 1, 2] * (len(cuts) + 1), strict=True)
    ]
    with bytes_then_keyed(words(*chosen)):
        claims["at cuts"] = numbers(optimal._select_keys_by_optimal_rule(held))
    check_claims("mechanisms/kept_keys", claims)


@dataclass(frozen=True)
class Grouped:
    group: Any
    steps: Any
    counts: Any
    groups: int


def test_chosen_quantiles() -> None:
    claims: dict[str, Claim] = {}
    values = sorted([3, 3, 5, 9, 9, 9, 20, 41, 41, 77, 100, 100, 250])
    chances = ["0.25", "0.5", "0.9"]
    for relation in ("add-remove", "replace"):
        for epsilon in ("0.05", 2):
            for offset in (0, 2, -2):
                made = sf.Quantiles(chances, epsilon, (0, 255), 1, relation, False, offset)
                with keyed(f"quantiles {relation} {epsilon} {offset}"):
                    claims[f"{made!r}"] = tuple(numbers(made.choose(values)) for _ in range(4))
                    histogram = made.choose_histogram([9, 3, 300, -4], [3, 0, 2, 8])
                    claims[f"{made!r}: histogram"] = numbers(histogram)
    several = Grouped(np.array([0, 0, 0, 2, 2]), np.array([5, 9, 300, -3, 7]), np.array([2, 1, 4, 1, 2**37]), 3)
    for made in (
        sf.Quantiles(chances, 1, (0, 255), 2, "replace", True),
        sf.Quantiles("0.5", 3, (0, 255), grouped=True),
    ):
        with keyed(f"{made!r}"):
            claims[f"{made!r}: groups"] = numbers(made.choose_groups(several))
    claims["ungrouped"] = outcome(lambda: sf.Quantiles("0.5", 1, (0, 9)).choose_groups(several))
    made = sf.Quantiles("0.5", 1, (0, 9))
    refused: tuple[Any, ...] = ([3, 1], [[1]], [0.5], "x")
    with keyed("refused"):
        claims["refused"] = tuple(outcome(lambda given=given: made.choose(given)) for given in refused)
        claims["unlike"] = outcome(lambda: made.choose_histogram([1, 2], [1]))
        claims["negative"] = outcome(lambda: made.choose_histogram([1, 2], [1, -1]))
        claims["empty"] = tuple(made.choose([])[0] for _ in range(12))
    check_claims("mechanisms/chosen_quantiles", claims)


def test_runs_of_ranks() -> None:
    claims: dict[str, Claim] = {}
    rows = RankedValues(np.array([2, 5, 6, 40, 1, 9, 9000]), np.array([0, 3, 4, 9, 10, 12, 13, 40]))
    starts = np.array([0, 4, 4, 7])
    parts = rank_choices.parts_with_all_rows(rows, starts, (0, 60))
    narrow = rank_choices.parts_with_all_rows(rows, starts, (5, 9))
    wide = rank_choices.parts_with_all_rows(rows, starts, (-(2**61), 2**61))
    claims["places"] = tuple(
        numbers(rank_choices._first_index_at_least(rows.values, starts[:-1], starts[1:], v))
        for v in (-5, 2, 3, 6, 41, 9000, 9001)
    )
    for name, part in (("parts", parts), ("narrow", narrow), ("wide", wide)):
        claims[name] = numbers(part)
        claims[f"{name}: weight"] = numbers(part.weight(rows))
        for rule in (
            RankRule(F(1, 2), F(1, 4)),
            RankRule(F(1, 10), F(3), 2),
            RankRule(F(9, 10), F(1, 100), -2),
            RankRule(F(1, 3), F(20)),
        ):
            label = f"{name}, {rule}".replace("log_weight_per_row", "per_row")  # as it was recorded
            claims[f"{label}: reach"] = rank_choices._negligible_distance(part, rule)
            claims[f"{label}: target"] = numbers(rank_choices._target_rank_in_units(part, part.weight(rows), rule))
            window = rank_choices._first_and_last_values_in_reach(rows, part, rule)
            claims[f"{label}: windows"] = numbers(window)
            for reach in (None, 3, rank_choices._negligible_distance(part, rule)):
                runs = ValueRuns.around_windows(rows, part, rule, window, reach)
                claims[f"{label}: runs within {reach}"] = numbers(runs)
            whole = ValueRuns.around_windows(rows, part, rule, (part.first, part.last), None)
            with keyed(label):
                chosen, lower, upper = rank_choices.choose(rows, part, rule)
                claims[f"{label}: chosen"] = numbers((chosen, lower, upper))
                claims[f"{label}: winners"] = tuple(numbers(whole.draw_winners()) for _ in range(4))
                below = rank_choices.choose(rows, lower, RankRule(F(1, 2), F(1, 4), rule.offset))
                claims[f"{label}: below"] = numbers(below)
            one = whole.of_group(0)
            near = ValueRuns.around_windows(rows, part[np.array([0])], rule, (part.first[[0]], part.last[[0]]), 2)
            claims[f"{label}: one group"] = numbers(one)
            claims[f"{label}: beyond"] = numbers(one.outside(near))
            claims[f"{label}: share beyond"] = str(one.probability_outside(near)(bits.decimal_context(25)))
            with keyed(f"beyond {label}"):
                claims[f"{label}: falls beyond"] = one.falls_outside(near)
    limits = RankedValues(np.array([5]), np.array([0, 2**36]))
    huge = rank_choices.parts_with_all_rows(limits, np.array([0, 1]), (0, 9))
    for denominator in (10**6, 2**24, 2**23, 2**22):
        for rate in (F(1, 100), F(1, 10**9)):
            made = rank_choices._with_big_integers_if_needed(limits, huge, RankRule(F(1, denominator), rate))
            claims[f"kind of 1/{denominator} at {rate}"] = str(made.low_weight.dtype)
    claims["chunks"] = tuple(
        numbers([(c.start, c.stop) for c in rank_choices._slices_of_groups(np.array(sizes))])
        for sizes in ([3, 3], [1 << 20, 1], [(1 << 20) - 1, 1, 1], [1 << 21, 1 << 21, 5, 5], [])
    )
    suspects = ValueRuns.around_windows(
        rows,
        parts,
        RankRule(F(1, 2), F(3)),
        rank_choices._first_and_last_values_in_reach(rows, parts, RankRule(F(1, 2), F(3))),
        1,
    )
    with bytes_then_keyed(words(0, 0, 0)):
        claims["suspected"] = numbers(suspects.draw_groups_beyond_runs())
    with bytes_then_keyed(words(0, 1, 0)):
        claims["suspected of some"] = numbers(suspects.draw_groups_beyond_runs())
    check_claims("mechanisms/runs_of_ranks", claims)


def test_sessions() -> None:
    claims: dict[str, Claim] = {}
    for positives in (1, 2):
        for values in (None, 1):
            made = sf.AboveThreshold(2, 10, positives, values_epsilon=values)
            with keyed(f"session {positives} {values}"):
                session = made.start()
                asked = [
                    (outcome(lambda value=value, session=session: session.ask(value)), session.value, session.remaining)
                    for value in (-90, 0, 9, 90, 0, 95, 90)
                ]
                claims[f"{positives} positives, values {values}"] = numbers((*asked, session.receipt))
    with keyed("many questions"), sf.AboveThreshold("0.1", 10**9).start() as session:
        claims["many questions"] = (sum(session.ask(0) for _ in range(600)), bits.random_bits(64))
        claims["open"] = session.receipt.open
    claims["closed"] = (session.receipt.open, outcome(lambda: session.ask(1)), session.remaining)
    check_claims("mechanisms/sessions", claims)


def test_values_on_grids() -> None:
    claims: dict[str, Claim] = {}
    with keyed("noisy"):
        for grid in (None, F(1, 4), F(8)):
            for value in (5, F(9, 4), -7, 2**70):
                claims[f"{value} on {grid}"] = outcome(
                    lambda value=value, grid=grid: grids.add_noise_on_grid(
                        value, grid, lambda steps: steps + 3, lambda start, count: np.arange(start, start + count)
                    )
                )
        long = grids.add_noise_on_grid(
            np.zeros(140_000, int), None, lambda steps: steps, lambda start, count: np.arange(start, start + count)
        )
        claims["runs"] = numbers(long[[0, 65_535, 65_536, 131_072, -1]])
    check_claims("mechanisms/values_on_grids", claims)
