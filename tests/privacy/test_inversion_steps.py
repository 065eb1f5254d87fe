"""The steps of the numerical inversion, one by one: nodes, errors, contours and roots beside the same in 40 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from sfumato.privacy import inversion
from sfumato.privacy.inversion import Moments, _LossStack, build_inversion
from sfumato.privacy.losses import Loss, PairLoss, ResponseLoss
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, GaussianLoss, LaplaceLoss

F = Fraction
MP = mpmath.MPContext()
MP.dps = 40
Bag = list[tuple[Loss, int]]

LATTICE: Bag = [(LaplaceLoss(F(1, 2), F(1, 4)), 3), (ResponseLoss(F(1, 4)), 2)]
GAUSSIAN: Bag = [(GaussianLoss(F(1, 4)), 2), (LaplaceLoss(F(1, 3)), 1)]
SMOOTHED: Bag = [(LaplaceLoss(F(1)), 1), (LaplaceLoss(F(2, 3)), 2)]


def moments_of(bag: Bag) -> Moments:
    return Moments.from_pairs(bag)  # type: ignore[arg-type]


def laplaces(count: int) -> _LossStack:
    (stack,) = moments_of([(LaplaceLoss(F(k + 1, 7)), k + 1) for k in range(count)]).stacks
    return stack


# ── stacks and nodes ───────────────────────────────────────────────────────────────────────────


def test_a_stack_is_split_into_runs_that_fit_the_nodes() -> None:
    stack = laplaces(10)
    for nodes, size, sizes in ((3, 12, [4, 4, 2]), (3, 11, [3, 3, 3, 1]), (0, 5, [5, 5]), (9, 4, [1] * 10)):
        pieces = stack.split_members(nodes, size)
        assert [len(piece.counts) for piece in pieces] == sizes
        assert np.concatenate([piece.counts for piece in pieces]).tolist() == stack.counts.tolist()
        for index, column in enumerate(stack.parameters):
            assert np.concatenate([piece.parameters[index] for piece in pieces]).tolist() == column.tolist()
    (atoms,) = moments_of([(PairLoss((F(1, 3), F(2, 3)), (F(1, 2), F(1, 2))), 4)]).stacks
    assert atoms.split_members(10**6, 1) == [atoms]
    assert atoms.with_members_interleaved() is atoms


def test_interleaved_members_are_the_same_and_the_first_few_are_spread() -> None:
    stack = laplaces(10)
    found = stack.with_members_interleaved()
    order = sorted(range(10), key=lambda k: k * 0.6180339887498949 % 1.0)
    assert found.counts.tolist() == [[k + 1.0] for k in order]
    for column, mixed in zip(stack.parameters, found.parameters, strict=True):
        assert mixed.tolist() == [column[k].tolist() for k in order]


def test_moments_are_computed_in_blocks_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, z = laplaces(3), np.linspace(0.1, 2, 7) + 0.3j
    whole = stack.log_moment(z)
    sizes: list[int] = []
    plain = LaplaceLoss.log_moment

    def counted(z: Any, *parameters: Any) -> Any:
        sizes.append(z.size)
        return plain(z, *parameters)

    monkeypatch.setattr(LaplaceLoss, "log_moment", counted)
    monkeypatch.setattr(inversion, "_CHUNK", 4)
    assert stack.log_moment(z).tolist() == pytest.approx(whole.tolist(), rel=1e-15, abs=0)
    assert sizes == [2, 1, 1, 1, 1, 1]  # ⌈7·3/4⌉ blocks


def expected_nodes(
    bounds: list[Callable[[int], float]], sizes: list[float], floor: float, few: int, margin: float
) -> tuple[list[int], float]:
    """Walk through the factors: a node leaves once the product of those so far is below the floor."""
    kept, dropped, logs = list(range(len(sizes))), 0.0, [0.0] * len(sizes)
    for factor in bounds:
        if len(kept) <= few:
            break
        staying = []
        for k in kept:
            logs[k] += factor(k)
            bound = math.exp(logs[k]) * sizes[k] * margin
            if bound >= floor:
                staying.append(k)
            else:
                dropped += bound
        kept = staying
    return kept, dropped


NODES = 0.8 + 0.02j * np.arange(600)
SIZES = np.abs(1 / (NODES * (NODES + 1)))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_nodes_that_cheap_bounds_rule_out_are_counted(smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaussians first, then the discrete Gaussians, then the others, while more than a few nodes are left."""
    bag: Bag = [(GaussianLoss(F(1, 50)), 3), *((LaplaceLoss(F(k, 2)), 5) for k in range(1, 6))]
    bag.append((DiscreteGaussianLoss(F(3), 1), 2))
    moments = moments_of(bag)
    gauss, laplace = (
        next(stack for stack in moments.stacks if (stack.family is DiscreteGaussianLoss) is wanted)
        for wanted in (True, False)
    )
    heights = NODES.imag
    for piece_size, losses_per_piece in ((300, 2), (250, 1)):
        monkeypatch.setattr(inversion, "_PIECE", piece_size)
        pieces = [gauss, *laplace.with_members_interleaved().split_members(600, 4 * piece_size)]
        assert len(pieces) == 1 + math.ceil(5 / losses_per_piece)
        factors = [lambda k: -(0.06 + smoothing**2) / 2 * heights[k] ** 2]
        factors += [lambda k, piece=piece: float(piece.log_decay(0.8, heights[k : k + 1])[0]) for piece in pieces]
        for floor in (1e-4, 1e-3, 0.05):
            after_one = len(expected_nodes(factors, SIZES.tolist(), floor, NODES.size - 1, 1 + 2.0**-10)[0])
            for few in (1, 100, 200, 400, after_one):
                monkeypatch.setattr(inversion, "_FEW_NODES", few)
                kept, dropped = inversion._possible_nodes(moments, NODES, smoothing, SIZES, floor)
                expected, sum_of_others = expected_nodes(factors, SIZES.tolist(), floor, few, 1 + 2.0**-10)
                assert kept.tolist() == expected
                assert dropped == pytest.approx(sum_of_others, rel=1e-9, abs=0)


def test_a_node_at_the_floor_itself_may_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any height a node's bound is its size and the margin, which are powers of two here."""
    monkeypatch.setattr(inversion, "_FEW_NODES", 1)
    nodes, sizes = np.full(3, 1 + 0j), np.array([0.5, 0.25, 0.125])
    kept, dropped = inversion._possible_nodes(
        moments_of([(GaussianLoss(F(1)), 1)]), nodes, 0.0, sizes, 0.25 * (1 + 2.0**-10)
    )
    assert kept.tolist() == [0, 1]
    assert dropped == 0.125 * (1 + 2.0**-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_nodes_that_matter_have_their_moments_and_the_others_are_counted(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    bag: Bag = [(GaussianLoss(F(1, 50)), 3), (LaplaceLoss(F(3, 2)), 5), (LaplaceLoss(F(1)), 2)]
    moments = replace(moments_of(bag), slack=0.01)
    monkeypatch.setattr(inversion, "_PIECE", 300)
    ratio = np.exp(
        moments.log_moment(NODES)
        - moments.log_moment(NODES[:1])
        + smoothing**2 / 2 * (NODES * (NODES + 1) - NODES[:1] * (NODES[:1] + 1))
    )
    terms = np.abs(ratio) * SIZES
    for floor in (1e-4, 1e-2):
        kept, ratios, dropped = inversion._significant_nodes(moments, NODES, smoothing, SIZES, floor)
        assert kept.tolist() == np.flatnonzero(terms >= floor).tolist()
        assert ratios == pytest.approx(ratio[kept], rel=1e-12, abs=0)
        others = np.setdiff1d(np.arange(NODES.size), kept)
        assert terms[others].sum() <= dropped <= others.size * floor
    # of all that is ruled out by one factor after another, each is counted where it goes: the first two steps drop some
    early, ruled_out = inversion._possible_nodes(moments, NODES, smoothing, SIZES, 1e-2)
    first = np.exp(-(0.06 + smoothing**2) / 2 * NODES.imag**2 + 0 * NODES.imag) * SIZES
    later = early[first[early] < 1e-2]
    assert dropped >= ruled_out + float(first[later].sum()) * 0.999


# ── errors and lengths ─────────────────────────────────────────────────────────────────────────


class Falling:
    """Moments whose bound along a line falls by 1 each unit."""

    def __init__(self, start: float) -> None:
        self.start = start

    def log_bound(self, c: float, t: float) -> float:
        return self.start - t / c


def test_the_sum_ends_where_the_rest_is_surely_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversion, "_MAX_NODES", 128)

    def rest(half: int) -> float:
        """What is left out behind this node, with a log bound of 5 at 0 that falls by 2 each unit, beside e³."""
        return math.exp(min(0.0, 5.0 - half * 0.25 / 0.5 - 3.0)) / (math.pi * half * 0.25)

    def found(allowed: float) -> tuple[int, float]:
        return inversion._last_node_and_truncation_error(Falling(5.0), 0.5, 0.25, 3.0, allowed)  # type: ignore[arg-type]

    for half in (16, 32, 64):
        assert found(rest(half)) == (half, rest(half))
        assert found(math.nextafter(rest(half), 0)) == (2 * half, rest(2 * half))
    assert rest(16) < math.exp(-6) / 12 < math.exp(-5) / 12  # the exponent of the first is −6
    assert found(1.0) == (16, rest(16))
    assert found(rest(128) * 1.001) == (128, rest(128))
    assert found(rest(128) * 0.999) == (256, math.inf)
    flat = inversion._last_node_and_truncation_error(Falling(500.0), 0.5, 0.25, 3.0, 0.05)  # type: ignore[arg-type]
    assert flat == (256, math.inf)
    # a bound above M(c) says nothing: the size there is at most M(c)
    high = inversion._last_node_and_truncation_error(Falling(9.0), 0.5, 0.25, 0.5, 1 / (4 * math.pi) * 1.0001)  # type: ignore[arg-type]
    assert high == (16, 1 / (4 * math.pi))


def test_smoothing_ends_the_sum_where_it_was_asked_to() -> None:
    for t, allowed in ((3.0, 1e-9), (40.0, 1e-12), (0.5, 1e-3)):
        mu, error = inversion._smoothing_mu_and_error(t, allowed)
        assert error == pytest.approx(allowed, rel=1e-12, abs=0)
        assert math.exp(-(mu**2) * t**2 / 2) / (math.pi * t) == pytest.approx(error, rel=1e-12, abs=0)
    for allowed in (0.2, 5.0, 1 / (6 * math.e)):  # no wider than this, however much is allowed
        mu, error = inversion._smoothing_mu_and_error(3.0, allowed)
        assert mu == pytest.approx(math.sqrt(2) / 3, rel=1e-15, abs=0)
        assert error == pytest.approx(math.exp(-1) / (3 * math.pi), rel=1e-15, abs=0)


def test_the_second_smoothing_makes_every_term_smaller_beside_the_largest() -> None:
    line = build_inversion(moments_of(SMOOTHED), 1.5, 0.7, -4.0)
    wide = line.second_smoothing
    assert wide is not None
    assert wide.smoothing_mu == 1.5 * line.smoothing_mu > 0
    extra = (MP.mpf(wide.smoothing_mu) ** 2 - MP.mpf(line.smoothing_mu) ** 2) / 2
    c = MP.mpf(line.c)
    assert wide.log_peak == pytest.approx(float(line.log_peak + extra * c * (c + 1)), rel=1e-14, abs=0)
    for index in range(0, line.heights.size, max(1, line.heights.size // 9)):
        z = MP.mpc(line.c, line.heights[index])
        term = MP.mpc(line.terms[index]) * MP.exp(extra * (z * (z + 1) - c * (c + 1)))
        assert abs(MP.mpc(wide.terms[index]) - term) <= abs(term) * MP.mpf("1e-12") + MP.mpf("1e-300")


# ── whole sums ─────────────────────────────────────────────────────────────────────────────────


def kernel(z: Any, spacing: float) -> Any:
    """The kernel of the integral, or of its sum over a lattice."""
    if not spacing:
        return 1 / (z * (z + 1))
    a = MP.mpf(spacing)
    return a * (1 / (1 - MP.exp(-z * a)) - 1 / (1 - MP.exp(-(z + 1) * a)))


class Seen:
    """What a step was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.arguments: dict[str, list[tuple[Any, ...]]] = {name: [] for name in names}
        for name in names:
            monkeypatch.setattr(inversion, name, self._noting(name, getattr(inversion, name)))

    def _noting(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any) -> Any:
            self.arguments[name].append(arguments)
            return plain(*arguments)

        return noting


STEPS = (
    "_period_without_aliases",
    "_last_node_and_truncation_error",
    "_smoothing_mu_and_error",
    "_significant_nodes",
    "_alias_slope_and_log",
)


@pytest.mark.parametrize(
    ("bag", "c", "epsilon", "log_delta"),
    [
        (LATTICE, 1.25, 0.6, -3.5),
        (GAUSSIAN, 2.5, 1.5, -6.0),
        (SMOOTHED, 1.5, 0.7, -4.0),
        (SMOOTHED, 1.5, 0.7, 9.0),
        (GAUSSIAN, 2.5, 1.5, -900.0),
    ],
)
def test_a_whole_sum_is_what_its_steps_say(
    bag: Bag, c: float, epsilon: float, log_delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = moments_of(bag)
    peak = float(moments.log_moment(np.array([c + 0j]))[0].real)
    relative = math.exp(max(-600.0, min(0.0, log_delta - peak + c * epsilon)))
    seen = Seen(monkeypatch, *STEPS)
    line = build_inversion(moments, c, epsilon, log_delta)
    assert seen.arguments["_alias_slope_and_log"][-1][1:] == (c, line.period, epsilon, line.smoothing_mu)
    spacing = float(moments.spacing_and_offset[0]) if moments.spacing_and_offset else 0.0
    first_goal, *other_goals = (goal for *_, goal in seen.arguments["_period_without_aliases"])
    assert first_goal == pytest.approx(log_delta + math.log(1e-11), rel=1e-14, abs=0)
    nodes, sizes, floor = seen.arguments["_significant_nodes"][0][1], *seen.arguments["_significant_nodes"][0][3:]
    step, mu, error = 2 * math.pi / line.period, line.smoothing_mu, 0.0
    if spacing:
        wrap = inversion._period_without_aliases(moments, c, epsilon, first_goal)
        assert (line.spacing, line.offset) == (spacing, float(moments.spacing_and_offset[1]))  # type: ignore[index]
        assert nodes.size == max(1, math.ceil(wrap / spacing / 2)) + 1
        assert line.period == spacing * (2 * nodes.size - 1) >= wrap
        assert not seen.arguments["_last_node_and_truncation_error"]
    else:
        assert line.spacing == line.offset == 0.0
        ((_, at, plain_step, from_peak, allowed),) = seen.arguments["_last_node_and_truncation_error"]
        assert (at, from_peak, allowed) == (c, peak, pytest.approx(1e-11 * relative, rel=1e-12, abs=0))
        last, error = inversion._last_node_and_truncation_error(moments, c, plain_step, peak, allowed)
        if bag is SMOOTHED:
            assert other_goals == [pytest.approx(log_delta + math.log(1e-7), rel=1e-14, abs=0)]
            assert nodes.size == 2**13 + 1
            ((height, allowed),) = seen.arguments["_smoothing_mu_and_error"]
            assert (height, allowed) == (pytest.approx(step * 2**13), pytest.approx(1e-7 * relative, rel=1e-12, abs=0))
            smoothing, error = inversion._smoothing_mu_and_error(height, allowed)
            assert mu == smoothing
        else:
            assert (nodes.size, plain_step) == (last + 1, step)
    assert (mu > 0) is (line.second_smoothing is not None) is (bag is SMOOTHED)
    assert nodes == pytest.approx(c + 1j * step * np.arange(nodes.size), rel=1e-15, abs=0)
    weights = [kernel(MP.mpc(z), line.spacing) * step / MP.pi / (1 if k else 2) for k, z in enumerate(nodes[:600])]
    assert sizes[:600] == pytest.approx([float(abs(weight)) for weight in weights], rel=1e-12, abs=0)
    assert floor * nodes.size == pytest.approx(1e-10 * relative if mu else 2.0**-64 * sizes[0], rel=1e-12, abs=0)
    assert line.log_peak == pytest.approx(peak + mu**2 / 2 * c * (c + 1), rel=1e-15, abs=0)
    kept, ratios, dropped = inversion._significant_nodes(moments, nodes, mu, sizes, floor)
    assert line.truncation_error == error + dropped
    assert line.heights.tolist() == nodes[kept].imag.tolist()
    near = [k for k, node in enumerate(kept.tolist()) if node < 600]
    assert line.terms[near] == pytest.approx(
        [r * complex(weights[kept[k]]) for k, r in zip(near, ratios, strict=False)], rel=1e-11, abs=0
    )
    size = np.abs(nodes)
    rounding = moments.rounding_error(size) + 2.0**-47 * (1.5 * mu) ** 2 * size * (size + 1)
    assert line.constant_and_growing_error[0] == pytest.approx(float((sizes * rounding).sum()), rel=1e-12, abs=0)
    assert line.constant_and_growing_error[1] == pytest.approx(2.0**-47 * float((sizes * size).sum()), rel=1e-12, abs=0)
    assert line.alias_slope_and_log == inversion._alias_slope_and_log(moments, c, line.period, epsilon, mu)


def test_a_lattice_is_summed_over_its_period_up_to_so_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = moments_of(LATTICE)
    wrap = inversion._period_without_aliases(moments, 1.25, 0.6, -3.5 + math.log(1e-11))
    for most, whole in ((wrap / 0.5 / 2, True), (wrap / 0.5 / 2 * (1 - 1e-12), False)):
        monkeypatch.setattr(inversion, "_MAX_LATTICE_NODES", most)
        assert bool(build_inversion(moments, 1.25, 0.6, -3.5).spacing) is whole


def test_a_sum_of_as_many_nodes_as_allowed_is_not_smoothed(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = moments_of(GAUSSIAN)
    plain = inversion._last_node_and_truncation_error
    for last, smoothed in ((2**12, False), (2**12 + 1, True)):
        monkeypatch.setattr(
            inversion, "_last_node_and_truncation_error", lambda *given, last=last: (last, plain(*given)[1])
        )
        assert bool(build_inversion(moments, 2.5, 1.5, -6.0).smoothing_mu) is smoothed


# ── ranges ─────────────────────────────────────────────────────────────────────────────────────


class Contour:
    """A sum that says what it is told to."""

    smoothing_mu = 0.0
    c = 2.0

    def __init__(self, lower: Callable[[float], float], upper: Callable[[float], float]) -> None:
        self.lower_delta, self.upper_delta = lower, upper


@pytest.mark.parametrize("known", [True, False])
def test_a_range_of_delta_is_the_sum_s_within_chernoff_s_bound(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = replace(moments_of(GAUSSIAN), moments_known=known, largest_finite_loss=9.0)
    rounds: list[int] = []
    monkeypatch.setattr(inversion, "_last_c_where", lambda _, **k: rounds.append(k["rounds"]) or 1.0)
    built: list[tuple[float, float, float]] = []

    def range_with(log_delta: float, low: float, high: float) -> tuple[float, float]:
        def choose(_: Moments, c: float, epsilon: float, goal: float) -> Contour:
            built.append((c, epsilon, goal))
            return Contour(lambda _: low, lambda _: high)

        monkeypatch.setattr(inversion, "_log_chernoff_delta", lambda *_: log_delta)
        monkeypatch.setattr(inversion, "_choose_contour", choose)
        return inversion.delta_range_of(moments, 0.5)

    proven = math.exp(-2.0)
    assert range_with(-2.0, 0.05, 0.07) == (0.05, 0.07 if known else proven)
    assert range_with(-2.0, 0.05, 0.7) == (0.05, proven)
    assert range_with(-2.0, 0.09, 0.07) == (0.07 if known else 0.09, 0.07 if known else proven)
    assert range_with(3.0, 0.2, 2.0) == (0.2, 1.0)
    assert built[-1] == (1.0, 0.5, 0.0)
    assert range_with(-700.0, 0.0, 1.0) == (0.0, math.exp(-700.0))
    assert built[-1] == (1.0, 0.5, -700.0)
    count = len(built)
    for beyond in (math.nextafter(-700.0, -1e9), -743.9, -744.0):
        assert range_with(beyond, 0.3, 0.3) == (0.0, math.exp(beyond))
    assert range_with(-900.0, 0.3, 0.3) == (0.0, math.exp(-744.0)) != (0.0, 0.0)
    assert len(built) == count
    assert set(rounds) == {2 if known else 6}
    assert inversion.delta_range_of(moments, 9.0) == (0.0, 0.0)
    assert inversion.delta_range_of(replace(moments, largest_finite_loss=0.5 + 1e-9), 0.5)[1] == math.exp(-744.0)


@pytest.mark.parametrize("known", [True, False])
def test_a_range_of_epsilon_is_the_sum_s_within_chernoff_s_bound(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = replace(moments_of(GAUSSIAN), moments_known=known, largest_finite_loss=9.0)
    rounds: list[int] = []
    monkeypatch.setattr(inversion, "_last_c_where", lambda _, **k: rounds.append(k["rounds"]) or 2.0)
    built: list[tuple[float, ...]] = []
    solved: list[tuple[Any, ...]] = []
    contour = Contour(lambda _: 0.0, lambda _: 1.0)

    def choose(_: Moments, c: float, epsilon: float, goal: float) -> Contour:
        built.append((c, epsilon, goal))
        return contour

    def range_with(
        least: float, most: float, log_at_zero: float, roots: tuple[float, float], moments: Moments = moments
    ) -> tuple[float, float]:
        def solve(bound: Any, delta: float, start: float, _: Contour, *, side: int) -> float:
            solved.append((bound is (contour.lower_delta if side < 0 else contour.upper_delta), delta, start, side))
            return roots[side > 0]

        monkeypatch.setattr(inversion, "_log_chernoff_delta", lambda _, c, epsilon: log_at_zero + c + epsilon)
        monkeypatch.setattr(inversion, "_choose_contour", choose)
        monkeypatch.setattr(inversion, "_solve_epsilon", solve)
        return inversion.epsilon_range_of(moments, least, most)

    least, most = math.exp(-3.0), math.exp(-2.5)
    proven = ((-1.0 + 2.0) - math.log(least)) / 2 * (1 + 2.0**-47)  # (ln M(c) + ln of what c proves − ln δ)/c
    assert range_with(least, most, -1.0, (1.1, 1.3)) == (1.1, 1.3 if known else proven)
    assert built[-1] == (2.0, proven, math.log(least))
    assert solved == [(True, most, proven, -1), (True, least, proven, 1)][: 1 + known]
    assert set(rounds) == {2 if known else 6}
    assert range_with(least, most, -1.0, (1.4, 1.3)) == ((1.3, 1.3) if known else (1.4, proven))
    assert range_with(least, most, -1.0, (1.1, 5.0)) == (1.1, proven)
    assert range_with(least, most, -90.0, (0.0, 5.0)) == (0.0, 0.0)  # what c proves at 0 is enough
    assert range_with(least, most, 90.0, (1.1, 50.0)) == (1.1, 9.0)
    solved.clear()
    assert range_with(0.0, most, -1.0, (1.1, 1.3)) == (1.1, 9.0)  # no ε is enough before the largest loss
    assert solved == [(True, most, 9.0, -1)]
    assert built[-1][2] == math.log(1e-6 * most)
    range_with(1e-320, 1e-315, -1.0, (1.1, 1.3))
    assert built[-1][2] == math.log(1e-310)
    assert range_with(least, most, math.nan, (1.1, 50.0)) == (1.1, 9.0)
    unbounded = replace(moments, largest_finite_loss=math.inf)
    solved.clear()
    assert range_with(0.0, most, -1.0, (1.1, 1.3), unbounded) == (1.1, math.inf)
    assert built[-1][1] == 1e300
    start = float(inversion.chernoff_epsilon_and_log_delta(unbounded, np.array([2.0]))[0][0])
    assert solved == [(True, most, start, -1)]


# ── roots ──────────────────────────────────────────────────────────────────────────────────────


def root(
    bound: Callable[[float], float], delta: float, start: float, side: int, **fields: float
) -> tuple[float, list[float]]:
    """Return the root that is found, and where was looked."""
    looked: list[float] = []

    def noted(x: float) -> float:
        looked.append(x)
        return bound(x)

    contour = Contour(bound, bound)
    for name, value in fields.items():
        setattr(contour, name, value)
    return inversion._solve_epsilon(noted, delta, start, contour, side=side), looked  # type: ignore[arg-type]


@pytest.mark.parametrize("side", [1, -1])
def test_a_root_is_checked_and_near(side: int) -> None:
    """An exponential is a straight line to the search: it looks three or four times, and once more on the safe side."""
    for rate, delta, start in ((2.0, 1e-3, 4.0), (0.7, 0.2, 3.0), (9.0, 1e-9, 2.5), (2.0, 1e-3, 3.45387763949107)):
        for smoothed, tolerance in ((0.0, 1e-10), (0.5, 1e-8)):
            truth = -math.log(delta) / rate
            found, looked = root(
                lambda x, rate=rate: math.exp(-rate * x), delta, start, side, smoothing_mu=smoothed, c=rate
            )
            assert found in looked
            assert (math.exp(-rate * found) <= delta) is (side > 0)
            assert abs(found / truth - 1) <= 1.2 * tolerance
            assert len(looked) <= 5


@pytest.mark.parametrize("side", [1, -1])
def test_a_root_at_a_jump_is_bracketed(side: int) -> None:
    """Steps to the safe side double from the eighth look on; the bracket is closed to a part in 10¹³."""
    for jump, start, looks in ((2.0, 5.0, 48), (0.3, 0.9, 47), (77.7, 100.0, 43)):
        found, looked = root(lambda x, jump=jump: 0.9 if x < jump else 1e-9, 0.01, start, side)
        assert found in looked
        assert (found >= jump) is (side > 0)
        assert abs(found / jump - 1) <= 1e-13
        assert len(looked) == looks
    assert len(root(lambda x: 0.9 if x < 1e-60 else 1e-9, 0.01, 5.0, side)[1]) == 60  # and no more


def test_what_is_not_found_is_not_claimed() -> None:
    assert root(lambda _: 0.5, 0.1, 1.0, 1)[0] == math.inf
    assert root(lambda _: 0.05, 0.1, 1.0, -1)[0] == 0.0
    # exactly δ is enough
    found, looked = root(lambda _: 0.1, 0.1, 1.0, 1)
    assert found <= 1.0
    assert found in looked
