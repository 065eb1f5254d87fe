"""Every mechanism's exact laws on small worlds, k units apart, are within ``group(k)`` of its curve, under both
relations of neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from mechanisms.test_quantile_levels import joint
from mechanisms.test_selection import exponential_law, flip_law, laplace_law

Law = np.ndarray
Pair = tuple[Law, Law]
Ends = list[tuple[int, int]]
K = (1, 2, 3)
ORDERS = (1.5, 2.0, 8.0)


def divergence(p: Law, q: Law, order: float) -> float:
    """D_α, by logarithms."""
    return float(_log_sum(order * np.log(p) + (1 - order) * np.log(q))) / (order - 1)


def _log_sum(terms: Law) -> Law:
    """ln Σ e^term over the last axis."""
    largest = terms.max(axis=-1, keepdims=True)
    return largest[..., 0] + np.log(np.exp(terms - largest).sum(axis=-1))


class Claim:
    """A curve, asked often for the same few numbers."""

    def __init__(self, curve: sf.Curve) -> None:
        self.curve = curve
        most = curve.max_divergence
        reach = float(most) if most is not None else curve.epsilon("1e-6")
        self.epsilons = [reach * i / 6 for i in range(7)]
        self.deltas = [curve.delta(e) for e in self.epsilons]
        self.renyi = [curve.renyi(order) for order in ORDERS]

    def covers(self, pairs: Iterable[Pair]) -> None:
        """Check all pairs of laws, of equally many outcomes, in both directions."""
        one, other = (np.array(laws) for laws in zip(*pairs, strict=True))
        p, q = np.concatenate([one, other]), np.concatenate([other, one])
        for epsilon, claimed in zip(self.epsilons, self.deltas, strict=True):
            assert np.maximum(0, p - math.exp(epsilon) * q).sum(axis=1).max() <= claimed * (1 + 1e-9) + 1e-13
        if not self.curve.failure:
            self._covers_moments(p, q)

    def covers_losses(self, losses: Losses) -> None:
        p, loss = losses
        for epsilon, claimed in zip(self.epsilons, self.deltas, strict=True):
            found = p * -np.expm1(np.minimum(0, epsilon - loss))
            rounded = 1e-10 * p[loss > epsilon].sum()
            assert found.sum() <= claimed * (1 + 1e-9) + rounded
        if self.curve.max_divergence is not None:
            assert loss.max() <= float(self.curve.max_divergence) + 1e-8
        for order, claimed in zip(ORDERS, self.renyi, strict=True):
            terms = np.log(p[p > 0]) + (order - 1) * loss[p > 0]
            found = terms.max() + math.log(np.exp(terms - terms.max()).sum())
            assert found / (order - 1) <= claimed * (1 + 1e-7) + 1e-7

    def _covers_moments(self, p: Law, q: Law) -> None:
        inside = np.minimum(p, q) > 1e-280
        logs = np.log(p, where=inside, out=np.full(p.shape, -np.inf))
        losses = np.log(np.divide(p, q, where=inside, out=np.ones(p.shape)))
        if self.curve.max_divergence is not None:
            assert losses.max() <= float(self.curve.max_divergence) + 1e-9
        for order, claimed in zip(ORDERS, self.renyi, strict=True):
            assert _log_sum(logs + (order - 1) * losses).max() / (order - 1) <= claimed * (1 + 1e-9) + 1e-9


def check(curve: sf.Curve, worlds: Callable[[int], Iterable[Pair]], sizes: Sequence[int] = K) -> None:
    """``worlds(k)`` are pairs of laws, k units apart in the relation of the curve."""
    for k in sizes:
        Claim(curve.group(k)).covers(worlds(k))


# ── additive noise ─────────────────────────────────────────────────────────────────────────────


Losses = tuple[Law, Law]
"""Probabilities and their losses ln(P/Q), of a pair that is its own reverse: nothing is divided by what underflows."""


@cache
def _noise(order: int, size: float, shift: int) -> Losses:
    """The losses of one coordinate that is moved, under P."""
    reach = math.ceil(size * (60 if order == 1 else 12)) + 4
    x = np.arange(-reach, reach + 1)
    weight = np.exp(-((np.abs(x) / size) ** order) / order)
    return _merged(weight / weight.sum(), ((np.abs(x + shift) / size) ** order - (np.abs(x) / size) ** order) / order)


def _merged(p: Law, loss: Law) -> Losses:
    different, place = np.unique(np.round(loss, 12), return_inverse=True)
    return np.bincount(place, p, different.size), different


@cache
def _moved(order: int, sizes: tuple[float, ...], shifts: tuple[int, ...]) -> Losses:
    p, loss = np.ones(1), np.zeros(1)
    for size, shift in zip(sizes, shifts, strict=True):
        if shift:
            more, losses = _noise(order, size, shift)
            p, loss = _merged(np.outer(p, more).ravel(), np.add.outer(loss, losses).ravel())
    return p, loss


def _sums(units: Sequence[tuple[int, ...]], k: int, relation: str) -> set[tuple[int, ...]]:
    """How far k units may move a vector: they come and go, or each becomes another."""
    zero = tuple([0] * len(units[0]))
    others = [zero] if relation == "add-remove" else units
    steps = {tuple(s * (a - b) for a, b in zip(u, v, strict=True)) for u in units for v in others for s in (1, -1)}
    reached = {zero}
    for _ in range(k):
        reached = {tuple(a + b for a, b in zip(at, step, strict=True)) for at in reached for step in steps}
    return {tuple(map(abs, at)) for at in reached if any(at)}


SIZES: tuple[Any, ...] = (
    sf.Laplace(2),
    sf.Laplace("0.5"),
    sf.Laplace([1, 3, 4, 2]),
    sf.Gaussian("0.3"),
    sf.Gaussian("0.6"),
    sf.Gaussian(1),
    sf.Gaussian(3),
    sf.Gaussian([1, 2, 2, 3]),
)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("groups", "most", "total"), [(1, 1, 1), (2, 1, 2), (2, 2, 3), pytest.param(3, 2, 5, marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    "noise",
    [pytest.param(each, marks=[pytest.mark.long] if place in (1, 3, 4, 6) else []) for place, each in enumerate(SIZES)],
    ids=repr,
)
def test_noise_on_several_coordinates(
    noise: Any, groups: int, most: int, total: int, relation: str, long: bool
) -> None:
    units = [
        u
        for u in itertools.product(range(most + 1), repeat=4)
        if sum(map(bool, u)) <= groups and sum(u) <= total and (sum(u) == total or max(u) < 2)
    ]
    change = sf.Sensitivity(groups, most, total).for_neighbours(relation, signed=False)
    sizes = tuple(float(each) for each in noise.sizes) * (4 // len(noise.sizes))

    def worlds(k: int) -> Iterable[Losses]:
        moves = _sums(units, k, relation)
        if len(set(sizes)) == 1:
            moves = {tuple(sorted(move)) for move in moves}
        largest = [m for m in moves if not any(all(a <= b for a, b in zip(m, n, strict=True)) for n in moves - {m})]
        return (_moved(noise.order, sizes, move) for move in largest)

    few = groups == 3 or (most == 2 and not long)
    for k in (1, 2) if few else K:
        claim = Claim(noise.curve(change).group(k))
        for losses in worlds(k):
            claim.covers_losses(losses)


@pytest.mark.parametrize("noise", [sf.Laplace(2), sf.Gaussian("0.6"), sf.Gaussian(2)], ids=repr)
def test_an_add_remove_claim_covers_a_replaced_unit(noise: Any) -> None:
    units = [(1, 1, 0, 0), (0, 0, 1, 1), (1, 0, 1, 0), (0, 0, 0, 0)]
    curve = noise.curve(sf.Sensitivity(2, 1)).for_neighbours("replace")
    size = float(noise.sizes[0])
    for k in K:
        claim = Claim(curve.group(k))
        for move in _sums(units, k, "replace"):
            claim.covers_losses(_moved(noise.order, (size,) * 4, move))


# ── selections ─────────────────────────────────────────────────────────────────────────────────


def _top_law(scores: Sequence[int], rate: float) -> list[float]:
    """The two best of three, peeled."""
    first, law = exponential_law(scores, rate / 2), []
    for i in range(len(scores)):
        rest = [s for j, s in enumerate(scores) if j != i]
        law += [first[i] * each for each in exponential_law(rest, rate / 2)]
    return law


SELECTIONS = (
    (sf.Exponential, exponential_law),
    (sf.PermuteAndFlip, flip_law),
    (partial(sf.NoisyMax, noise="gumbel"), exponential_law),
    (partial(sf.NoisyMax, noise="exponential"), flip_law),
    (partial(sf.TopK, k=2), _top_law),
)


def _score_worlds(law: Callable[[Sequence[int], float], list[float]], rate: float, ends: Ends) -> Iterable[Pair]:
    for base in ((0, 0, 0), (3, 1, 0), (0, 0, 5)):
        before = np.array(law(base, rate))
        for low, high in ends:
            for move in itertools.product((low, 0, high), repeat=3):
                yield before, np.array(law([b + m for b, m in zip(base, move, strict=True)], rate))


def _moves(k: int, monotone: bool) -> Ends:
    """How far k units move scores down and up, of which some come and some go; monotone ones move them all one way."""
    return [(-gone, k - gone) for gone in range(k + 1)] if monotone else [(-k, k)]


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("make", "law"), SELECTIONS, ids=[str(i) for i in range(len(SELECTIONS))])
def test_selections(make: Any, law: Any, monotone: bool, long: bool) -> None:
    mechanism, sizes = make("1.2", monotone=monotone), K if long else K[:2]
    rate = float(mechanism.rate)
    check(mechanism.curve(), lambda k: _score_worlds(law, rate, _moves(k, monotone)))
    swapped = mechanism.curve().for_neighbours("replace")
    check(swapped, lambda k: _score_worlds(law, rate, [(-k, k)] if monotone else [(-2 * k, 2 * k)]), sizes)
    if not monotone:
        replaced = make("1.2", neighbours="replace")
        check(replaced.curve(), lambda k: _score_worlds(law, float(replaced.rate), [(-k, k)]), sizes)


def test_the_largest_noisy_score() -> None:
    mechanism = sf.NoisyMax("1.2")
    law = cache(lambda scores: np.array(laplace_law(scores, float(mechanism.rate))))
    check(mechanism.curve(), lambda k: [(law((0, 0)), law((k, -k))), (law((1, 0)), law((1 - k, k)))])
    check(mechanism.curve().for_neighbours("replace"), lambda k: [(law((0, 0)), law((2 * k, -2 * k)))])


# ── sessions ───────────────────────────────────────────────────────────────────────────────────


def _session_law(mechanism: sf.AboveThreshold, values: Sequence[int]) -> Law:
    """Every list of answers to these questions, by all values of the threshold's noise."""
    first, second, _ = (float(scale) for scale in mechanism.scales)
    t = np.arange(-math.ceil(50 * first), math.ceil(50 * first) + 1)
    weight = np.exp(-np.abs(t) / first)
    q = math.exp(-1 / second)
    above = []
    for value in values:  # P(value + Y ≥ threshold + t)
        need = mechanism.threshold + t - value
        above.append(
            np.where(need >= 1, q ** np.maximum(need, 1) / (1 + q), 1 - q ** np.maximum(1 - need, 1) / (1 + q))
        )
    law: dict[tuple[bool, ...], float] = {}
    for answers in itertools.product((False, True), repeat=len(values)):
        stop = next((i + 1 for i in range(len(answers)) if sum(answers[: i + 1]) == mechanism.positives), len(answers))
        chance = weight / weight.sum()
        for said, each in zip(answers[:stop], above, strict=False):
            chance = chance * (each if said else 1 - each)
        law[answers[:stop]] = float(chance.sum())
    return np.array([law[key] for key in sorted(law)])


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("positives", [1, 2])
@pytest.mark.parametrize("monotone", [False, True])
def test_sessions(positives: int, monotone: bool, relation: str) -> None:
    if monotone and relation == "replace":
        return
    mechanism = sf.AboveThreshold(2, 2, positives, monotone=monotone, neighbours=relation)
    signs = ((1, 1, 1), (-1, -1, -1)) if monotone else ((1, 1, 1), (-1, 1, -1), (1, -1, 1), (-1, -1, 1))

    def worlds(k: int) -> Iterable[Pair]:
        for base in ((0, 0, 0), (2, 2, 2), (1, 5, 0)):
            for sign in signs:
                moved = [b + k * s for b, s in zip(base, sign, strict=True)]
                yield _session_law(mechanism, base), _session_law(mechanism, moved)

    check(mechanism.curve(), worlds)


# ── quantiles ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("chances", [["0.3"], ["0.25", "0.5", "0.75"]], ids=str)
def test_quantiles(chances: list[str], relation: str, long: bool) -> None:
    """Every two tables of up to three rows, or four, that so many rows tell apart."""
    mechanism = sf.Quantiles(chances, 2, (0, 2), 1, relation)
    tables = [d for size in range(5 if long else 4) for d in itertools.combinations_with_replacement(range(3), size)]
    laws = {data: joint(mechanism, tuple((0, value) for value in data)) for data in tables}
    outcomes = sorted({outcome for law in laws.values() for outcome in law})

    def apart(a: tuple[int, ...], b: tuple[int, ...]) -> int | None:
        more, less = ((Counter(x) - Counter(y)).total() for x, y in ((a, b), (b, a)))
        return more + less if relation == "add-remove" else more if more == less else None

    vectors = {data: np.array([law.get(outcome, 0.0) for outcome in outcomes]) for data, law in laws.items()}
    pairs = list(itertools.combinations(tables, 2))
    check(mechanism.curve(), lambda k: ((vectors[a], vectors[b]) for a, b in pairs if apart(a, b) == k))


# ── keys ───────────────────────────────────────────────────────────────────────────────────────


def _shown(mechanism: sf.KeyThreshold, counts: Sequence[int]) -> Law:
    law = np.ones(1)
    for each in counts:
        chance = mechanism.chance(each)
        law = np.concatenate([law * (1 - chance), law * chance])
    return law


THRESHOLDS: dict[str, Callable[[str], sf.KeyThreshold]] = {
    "one": lambda relation: sf.KeyThreshold("0.8", "0.003", neighbours=relation),
    "laplace": lambda relation: sf.KeyThreshold("0.8", "0.003", 2, neighbours=relation),
    "steep": lambda relation: sf.KeyThreshold(6, "0.001", 2, neighbours=relation),
    "weighted": lambda relation: sf.KeyThreshold("0.8", "0.003", 2, weighted=True, neighbours=relation),
    "gaussian": lambda relation: sf.KeyThreshold.gaussian("0.8", "0.003", 2, relation),
}


def _key_worlds(mechanism: sf.KeyThreshold, relation: str, k: int) -> Iterable[Pair]:
    g = mechanism.max_groups
    most = g if mechanism.weighted else 1
    units = [w for w in itertools.product(range(most + 1), repeat=3) if 0 < sum(w) <= g]
    near = mechanism.threshold
    for others in ((0, 0, 0), (0, 1, near), (near, near - 2, near + 1), (0, 0, near - 1)):
        held = {
            tuple(sum(each) for each in zip(others, *chosen, strict=True))
            for chosen in itertools.combinations_with_replacement(units, k)
        }
        laws = [_shown(mechanism, counts) for counts in held]
        alone = _shown(mechanism, others)
        yield from itertools.combinations(laws, 2) if relation == "replace" else ((law, alone) for law in laws)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("kind", THRESHOLDS)
def test_keys(kind: str, relation: str, long: bool) -> None:
    """Units that hold the same keys, alone or not, come, or become others: up to two, or three with one key."""
    mechanism, sizes = THRESHOLDS[kind](relation), K if long or kind == "one" else K[:2]
    check(mechanism.curve(), partial(_key_worlds, mechanism, relation), sizes)
    if relation == "add-remove":
        check(mechanism.curve().for_neighbours("replace"), partial(_key_worlds, mechanism, "replace"), sizes)


def test_two_failures_of_one_unit_each_would_not_cover_two_units() -> None:
    """A key that two units hold alone: the failure as a part of its own would say 2δ."""
    mechanism = THRESHOLDS["steep"]("add-remove")
    apart = sf.Curve([*mechanism.curve().parts[0][0].factors]).group(2)
    both, nobody = _shown(mechanism, (2, 2, 0)), _shown(mechanism, (0, 0, 0))
    assert both[1:].sum() > 1.1 * float(apart.failure)
    with pytest.raises(AssertionError):
        Claim(apart).covers([(both, nobody)])
    Claim(mechanism.curve().group(2)).covers([(both, nobody)])


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("kind", ["laplace", "steep", "weighted", "gaussian"])
def test_what_an_account_is_charged_holds_outside_the_failure(kind: str, relation: str) -> None:
    """Laplace: given that no key of one side alone passes, D∞ and D_α are within the charge. Gauss: of the cut pair."""
    mechanism = THRESHOLDS[kind](relation)
    curve = mechanism.curve()
    if kind == "gaussian":
        epsilon, coordinates = float(curve.max_divergence or 0), (4 if relation == "replace" else 2)
        assert mechanism.sigma is not None
        p, loss = _moved(2, (float(mechanism.sigma),) * coordinates, (1,) * coordinates)
        q = p * np.exp(-loss)
        low, high = np.minimum(p, math.exp(epsilon) * q), np.minimum(q, math.exp(epsilon) * p)
        cut = 1 - low.sum()
        assert cut <= float(mechanism.delta) / 2 * (1 + 1e-9)
        for order in (1.2, 2.0, 8.0, 20.0):
            assert divergence(low / low.sum(), high / high.sum(), order) <= curve.renyi(order)
        return
    near = mechanism.threshold
    for others in ((0, near, near), (near, near - 3, 0), (near - 1, near + 2, 1)):
        for u, v in itertools.product(((1, 1, 0), (0, 1, 1), (1, 0, 1)), repeat=2):
            one = [n + w for n, w in zip(others, u, strict=True)]
            other = [n + w for n, w in zip(others, v, strict=True)] if relation == "replace" else list(others)
            hidden = [a == 0 or b == 0 for a, b in zip(one, other, strict=True)]
            failing = 1 - math.prod(1 - mechanism.chance(n) for n, lone in zip(one, hidden, strict=True) if lone)
            assert failing <= float(curve.failure) * (1 + 1e-12)
            known = [(a, b) for a, b, lone in zip(one, other, hidden, strict=True) if not lone]
            p, q = (_shown(mechanism, [pair[side] for pair in known]) for side in (0, 1))
            assert np.abs(np.log(p / q)).max() <= float(curve.max_divergence or 0) + 1e-12
            for order in ORDERS:
                assert divergence(p, q, order) <= curve.renyi(order) + 1e-12


# ── reports randomised at the source ───────────────────────────────────────────────────────────


def _bits_law(mechanism: sf.OptimizedUnaryEncoding, value: int) -> Law:
    noise = 1 / (math.exp(mechanism.epsilon) + 1)
    law = np.ones(1)
    for choice in range(mechanism.choices):
        chance = 0.5 if choice == value else noise
        law = np.outer(law, [1 - chance, chance]).ravel()
    return law


def _response_law(mechanism: Any, value: int) -> Law:
    """Of a hashed report: given the public hash, in which the answers have cells of their own."""
    if isinstance(mechanism, sf.OptimizedUnaryEncoding):
        return _bits_law(mechanism, value)
    choices = mechanism.cells if isinstance(mechanism, sf.OptimalLocalHashing) else mechanism.choices
    weights = np.ones(choices)
    weights[value] = math.exp(mechanism.epsilon)
    return weights / weights.sum()


@pytest.mark.parametrize(
    "mechanism",
    [
        sf.RandomizedResponse("0.7"),
        sf.RandomizedResponse("1.3", 4),
        sf.OptimizedUnaryEncoding("1.3", 3),
        sf.OptimalLocalHashing("1.3", 5),
    ],
    ids=repr,
)
def test_reports(mechanism: Any) -> None:
    """k people answer otherwise: each has a report of its own."""

    def worlds(k: int) -> Iterable[Pair]:
        p, q = np.ones(1), np.ones(1)
        for _ in range(k):
            p = np.outer(p, _response_law(mechanism, 0)).ravel()
            q = np.outer(q, _response_law(mechanism, 1)).ravel()
        yield p, q

    check(mechanism.curve(), worlds)
