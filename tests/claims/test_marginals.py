"""Marginals on record: chains, blocks, plans, estimates and half-widths of small attributes, number by number."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from claims.flattening import claims_of, outcome
from claims.recorded import Claim, check_claims
from publish.worlds import attribute, attributes, leveled, rounded
from sfumato.ledger import Charged
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.privacy import Curve, Neighbours, Sensitivity
from sfumato.publish.marginals import blocks, blocks as block_algebra, estimating, planning
from sfumato.publish.marginals.attributes import (
    Attribute,
    Attributes,
    ListedCell,
    OtherCell,
    RangeCell,
    holds_one_value,
    infer_dependency,
    with_branching_levels,
)
from sfumato.publish.marginals.charge_verification import charged_mechanisms, exact_cost, step_cost
from sfumato.publish.marginals.estimating import (
    BlockEstimates,
    MeasuredBlock,
    MeasuredMarginal,
    _largest_eigenvalue_bound,
    least_squares,
    make_consistent,
)
from sfumato.publish.marginals.group_totals import (
    AmountBounds,
    BoundedTotals,
    LaplaceShare,
    SynopsisEstimates,
    bound_totals,
    fit_max_entropy,
    max_bound_count,
    squared_norms_of_groups,
)
from sfumato.publish.marginals.measuring import (
    PublishedMarginals,
    _without_largest_parts,
    cell_half_width,
    decode_integers,
    encode_integers,
    expected_width,
    largest_sets,
    largest_variance,
    measured_sets,
    measured_shapes,
    price_share_by_set,
    recorded_columns,
)
from sfumato.publish.marginals.planning import (
    MarginalWorkload,
    NoisePlan,
    PlannedBlock,
    PlannedMarginal,
    plan_gaussian,
    plan_laplace,
)

ONE_SPLIT = attribute(3, name="sex")
ALL: dict[str, Attribute] = {
    "alone": attribute(1),
    "sex": ONE_SPLIT,
    "day": leveled()[1],
    "code": leveled()[2],
    "rounded": rounded(),
    "branched": with_branching_levels(attribute(9), 2),
    "wide": attribute(14, [(*(place // 5 for place in range(13)), 3)]),
}
RELATIONS = (Neighbours.ADD_REMOVE, Neighbours.REPLACE)
EXPECTED = ((), (0,), (1,), (0, 1), (0, 1, 2))
WEIGHTS = (1, 2, Fraction(1, 3), 5)
SETS = ((0, 1), (1, 2), (0, 2, 3), (3,))


def table(own: Attributes, *, of: int = 97) -> np.ndarray:
    """Counts that differ from cell to cell, the same in every run."""
    sizes = [each.size for each in own]
    return (np.arange(np.prod(sizes), dtype=np.int64) * 37 % of).reshape(sizes)


def sums(own: Attributes, places: tuple[int, ...], exact: np.ndarray | None = None) -> np.ndarray:
    whole = table(own) if exact is None else exact
    return np.asarray(whole.sum(tuple(axis for axis in range(len(own)) if axis not in places)), np.int64)


@pytest.mark.parametrize("name", ALL)
def test_chains(name: str) -> None:
    chain = ALL[name].hierarchy
    found: dict[str, Claim] = claims_of("shares", chain.shares) | {"even": chain.has_equal_shares}
    counts = np.arange(2 * chain.size, dtype=np.int64).reshape(2, -1) ** 2 % 11
    for level, each in enumerate(chain.differences, 1):
        said = {
            "parts": each.part_count,
            "largest": each.max_entry_change,
            "total": each.max_l1_change,
            "squares": each.max_squared_change,
            "opposed": each.max_negated_row_product,
            "steps": each.difference_factors,
            "noise": each.noise_deviations,
            "even": each.has_uniform_noise,
            "variances": each.cell_variances,
        }
        added = each.sum_parts(counts, 1)
        said |= {"sums": added, "measured": each.measured_values(added, 1)}
        said |= {"centred": each.centre_among_siblings(added.astype(float), 1)}
        said |= {
            "spread": each.distribute_to_cells(added.astype(float), 1),
            "asked": each.coefficients(counts.astype(float), 1),
        }
        said |= {
            "across": each.coefficients(counts.T.astype(float), 0),
            "first": each.distribute_to_cells(added.T.astype(float), 0),
        }
        found |= claims_of(f"level {level}", each) | claims_of(f"level {level}", said)
    check_claims(f"marginals/chains_{name}", found)


BLOCKS: list[tuple[str, Attributes]] = [
    ("flat", attributes((2, 3, 4))),
    ("single", attributes((5, 1, 4))),
    ("leveled", leveled()),
    ("uneven", (ALL["wide"], ALL["rounded"])),
]


@pytest.mark.parametrize(("name", "own"), BLOCKS)
def test_what_one_unit_moves_of_each_block(name: str, own: Attributes) -> None:
    found: dict[str, Claim] = {}
    for block in block_algebra.blocks_within(tuple(range(len(own)))[:3], own):
        exact = sums(own, block_algebra.block_attribute_indices(block))
        said = {
            "scale": block_algebra.block_scale(block, own),
            "shape": block_algebra.block_shape(block, own),
            "length": block_algebra.squared_row_change(block, own),
            "cut": [block_algebra.max_unclipped_count(block, own, grid) for grid in (1, 3)],
            "residual": block_algebra.scaled_residual(exact, block, own, 3).reshape(-1)[:9],
        }
        found |= claims_of(f"{block}", said)
        for most, grid, relation, fixed in itertools.product((0, 1, Fraction(7, 2)), (1, 5), RELATIONS, (False, True)):
            moved = block_algebra.block_sensitivity(block, own, most, grid, relation, fixed_total=fixed)
            norms = (moved.l0, moved.per_group, moved.total, moved.squares)
            found |= claims_of(f"{block} {most} {grid} {relation.value} {fixed}", norms)
    check_claims(f"marginals/blocks_{name}", found)


def test_counts_beyond_what_64_bits_hold_are_cut() -> None:
    own = leveled()
    found: dict[str, Claim] = {}
    for block in ((), ((0, 1),), ((1, 1), (2, 1))):
        most = block_algebra.max_unclipped_count(block, own, 7)
        for count in (most, most + 1, -most, -most - 1, 1 << 61):
            full = np.zeros([own[place].size for place, _ in block], np.int64)
            full.reshape(-1)[0] = count
            found |= claims_of(f"{block} {count}", block_algebra.scaled_residual(full, block, own, 7))
    check_claims("marginals/blocks_cut", found)


def noises(plan: NoisePlan) -> dict[str, Any]:
    gaussian = {str(each.block): (each.deviation, each.grid, plan.block_rho(each)) for each in plan.blocks}
    return gaussian | {str(each.attribute_set): (each.scale, plan.sensitivity(each).total) for each in plan.marginals}


def planned(plan: NoisePlan) -> dict[str, Any]:
    return {
        "noise": noises(plan),
        "price": plan.rho if plan.blocks else plan.epsilon,
        "cut": plan.clipping_count,
        "most": plan.max_weight,
        "shares": price_share_by_set(plan),
        "widths": {each: cell_half_width(plan, each, 0.95) for each in plan.workload.sets},
        "together": {each: cell_half_width(plan, each, 0.9, 12) for each in plan.workload.sets},
        "expected": {each: expected_width(plan, each) for each in EXPECTED if len(each) <= len(plan.attributes)},
        "sets": measured_sets(plan),
        "shapes": list(measured_shapes(plan)),
        "verified": exact_cost(charged_mechanisms(plan)),
    }


PLANS: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("worst", {"objective": "worst"}),
    ("rows", {"rows": 3, "unit_value": Fraction(1, 8)}),
    ("replace", {"neighbours": "replace"}),
    ("fixed", {"neighbours": "replace", "fixed_total": True}),
    ("fixed without meaning", {"fixed_total": True}),
]


@pytest.mark.parametrize("kind", ["flat", "leveled"])
@pytest.mark.parametrize(("name", "terms"), PLANS)
def test_plans(name: str, terms: dict[str, Any], kind: str) -> None:
    found: dict[str, Claim] = {}
    own = leveled() if kind == "leveled" else attributes((2, 3, 4, 2))
    for weights in ((), WEIGHTS) if name in ("plain", "worst") and kind == "flat" else ((),):
        asked = MarginalWorkload(SETS, weights)
        label = "weighted" if weights else "even"
        gaussian, laplace = plan_gaussian(asked, own, **terms), plan_laplace(asked, own, **terms)
        for noise, plan in (("gaussian", gaussian), ("laplace", laplace)):
            found |= claims_of(f"{label} {noise}", planned(plan))
            found |= claims_of(f"{label} {noise} scaled", noises(plan.at_price("0.07")))
        for places in ((), (1,), (0, 1), (0, 2, 3)):
            query = table(tuple(own[place] for place in places)).astype(float) % 5
            found |= claims_of(f"{label} variance {places}", largest_variance(gaussian, places))
            found |= claims_of(f"{label} query {places}", gaussian.query_variance(query, places))
            found |= claims_of(f"{label} cells {places}", gaussian.cell_variances(places).reshape(-1)[:9])
    check_claims(f"marginals/plans_{name.replace(' ', '_')}_{kind}", found)


def test_plans_of_ranges() -> None:
    found: dict[str, Claim] = {}
    for size in (2, 5, 9, 14):
        own = planning.with_range_levels(attribute(size))
        found |= claims_of(f"levels {size}", own.levels)
        for each in (2, 3, 4):
            joined = with_branching_levels(attribute(size), each)
            found |= claims_of(f"branched {size} {each}", joined.levels)
            factors = planning.range_factors(joined.hierarchy, size - 1)
            found |= claims_of(f"factors {size} {each}", factors)
        plan = plan_gaussian(MarginalWorkload(((0,), (0, 1)), (), (0,)), (own, ONE_SPLIT), rho="0.3")
        found |= claims_of(f"plan {size}", planned(plan))
    check_claims("marginals/plans_of_ranges", found)


def test_workloads_and_their_limits() -> None:
    own = attributes((2, 3, 4))
    found: dict[str, Claim] = {}
    for columns, ways, fewer in itertools.product((1, 3), (0, 1, 2, 3, 4), (False, True)):
        found |= claims_of(
            f"ways {columns} {ways} {fewer}", outcome(lambda: MarginalWorkload.ways(columns, ways, fewer=fewer).sets)
        )
    for objective in ("total", "worst", "none"):
        made = outcome(
            lambda: planning.independent_variances(MarginalWorkload(SETS, (1, 2, 3, 4)), own * 2, 3, 2, objective)
        )
        found |= claims_of(f"apart {objective}", made)
    for size in (2, 30, 400, 3000):
        wide = (attribute(size), attribute(size, name="b"), ALL["rounded"])
        found |= claims_of(f"finest {size}", planning.finest_unit_value(MarginalWorkload(((0, 1), (2,))), wide))
    whole = MarginalWorkload(((0, 1),))
    for last in (3162, 3163):  # of the most cells and one more
        wide = (attribute(3162), attribute(last, name="b"))
        found |= claims_of(f"cells {last}", outcome(lambda: whole.require_valid(wide).sets))
    for size in (2000, 2001):
        one = (attribute(size),)
        found |= claims_of(
            f"ranged {size}", outcome(lambda: MarginalWorkload(((0,),), (), (0,)).require_valid(one).sets)
        )
    ranged = MarginalWorkload(((0,),), (), (0,))
    found |= claims_of("ranges worst", outcome(lambda: plan_gaussian(ranged, own, objective="worst")))
    refused: list[Any] = [
        lambda: MarginalWorkload(()),
        lambda: MarginalWorkload(((0,), (0,))),
        lambda: MarginalWorkload(((0,), (1,)), (1,)),
        lambda: MarginalWorkload(((0,), (1,)), (1, 0)),
        lambda: PlannedBlock((), Fraction(10**12) + 1),
        lambda: PlannedBlock((), Fraction(10**12)).deviation,
        lambda: PlannedBlock((), 0),
        lambda: PlannedBlock((), 1, 0),
        lambda: PlannedMarginal((0,), 0),
        lambda: NoisePlan(own, whole),
        lambda: NoisePlan(own, whole, (PlannedBlock((), 1),), (PlannedMarginal((), 1),)),
        lambda: NoisePlan(own, whole, (PlannedBlock((), 1),) * 2),
        lambda: NoisePlan(own, whole, (), (PlannedMarginal((), 1),) * 2),
        lambda: NoisePlan(own, whole, (PlannedBlock(((1, 2),), 1),)),
        lambda: NoisePlan(own, whole, (), (PlannedMarginal((3,), 1),)),
        lambda: NoisePlan(own, whole, (), (PlannedMarginal((1, 0), 1),)),
        lambda: plan_gaussian(whole, own, unit_value=Fraction(1, 1 << 60)),
        lambda: plan_gaussian(whole, own, rho=0),
    ]
    for number, run in enumerate(refused):
        found |= claims_of(f"refused {number}", outcome(run))
    check_claims("marginals/workloads", found)


@pytest.mark.parametrize("own", [attributes((2, 3, 4)), leveled()[:3]], ids=["flat", "leveled"])
def test_many_levels_and_sets(own: Attributes) -> None:
    found: dict[str, Claim] = {"closure": tuple(map(str, planning.blocks_of_marginals(((0, 1), (1, 2)), own)))}
    sets = ((0,), (0, 1), (1, 2), (), (2,), (1, 2), (0, 1, 2))
    for kept in range(len(sets) + 1):
        found |= claims_of(f"largest {kept}", largest_sets(sets[:kept]))
        found |= claims_of(f"maximal {kept}", block_algebra.maximal_sets(sets[:kept]))
    for places in ((0, 1), (1,), (0, 1, 2)):
        query = table(tuple(own[place] for place in places)).astype(float)
        asked = blocks.block_coefficients(query, places, own)
        found |= claims_of(f"asked {places}", {str(block): each.reshape(-1)[:6] for block, each in asked.items()})
        found |= claims_of(f"norms {places}", {str(k): v for k, v in blocks.squared_norms_by_block(asked, own).items()})
    check_claims(f"marginals/lifting_{'leveled' if any(each.levels for each in own) else 'flat'}", found)


BETAS = (0.05, 1e-4, 0.5)


def test_half_widths() -> None:
    found: dict[str, Claim] = {}
    for beta, cells in ((0.05, 1), (0.05, 40), (1e-4, 1), (1.0, 1), (0.0, 1)):
        key = f"{beta} {cells}"
        for variance in (1.0, 6.25):
            found |= claims_of(
                f"fine {variance} {key}", outcome(lambda: estimating.gaussian_half_width(variance, beta, cells))
            )
            found |= claims_of(
                f"coarse {variance} {key}",
                outcome(lambda: estimating.coarse_gaussian_half_width(variance, beta, cells)),
            )
        for eta in (0.0, 0.5, 4.0):
            known = [(1.0, 10.0), (0.0, 3.0), (2.5, 0.7)]
            made = outcome(lambda: estimating.adaptive_half_width(known, beta, eta, cells))
            found |= claims_of(f"adaptive {eta} {key}", made)
        noises = [(np.array([1.0, 0.0, -1.0, 0.25]), 2.0), (np.zeros(2), 9.0), (np.full((2, 2), 0.5), 31.0)]
        for kept, variance in itertools.product((1, 2, 3), (0.0, 50.0)):
            made = outcome(lambda: estimating.laplace_half_width(noises[:kept], beta, cells, variance=variance))
            found |= claims_of(f"laplace {kept} {variance} {key}", made)
        made = outcome(lambda: estimating.laplace_half_width(noises[1:2], beta, cells, variance=3.0))
        found |= claims_of(f"laplace none {key}", made)
    for cells, beta in itertools.product((1, 2.5, 100, 10**6), BETAS):
        found |= claims_of(f"part {cells} {beta}", estimating.adaptive_laplace_width(cells, beta))
    for cells, size, laplace in itertools.product((1, 5000), (0.3, 17.5, 200.0, 4000.0), (False, True)):
        made = estimating.noise_l1_mean_and_bound(cells, size, 0.05, laplace=laplace)
        found |= claims_of(f"size {cells} {size} {laplace}", made)
    many = 1 + np.arange(5000) / 7
    found |= claims_of("many sizes", estimating.laplace_half_width([(many, 3.0)], 0.05))
    found |= claims_of("as many as are kept", estimating.laplace_half_width([(many[:4096], 3.0)], 0.05))
    check_claims("marginals/half_widths", found)


STEPS = {"fine": Fraction(5000), "edge": Fraction(4096), "below": Fraction(4095), "coarse": Fraction(9, 2)}
STEPS["both"] = STEPS["coarse"]


def measured(own: Attributes, kind: str) -> BlockEstimates:
    """What was measured of a fixed table, with nothing random in it."""
    if kind in STEPS:
        deviation = STEPS[kind]
        blocks = [
            MeasuredBlock(
                block,
                block_algebra.scaled_residual(sums(own, block_algebra.block_attribute_indices(block)), block, own, 2)
                + 3,
                deviation * (1 + turn),
                2,
                Fraction(1, 4),
            )
            for turn, block in enumerate(planning.blocks_of_marginals(((0, 1), (1, 2)), own))
        ]
        if kind != "both":
            return least_squares(own, blocks)
    sizes = {"normal": (False, 7), "laplace": (True, 5), "steps": (True, Fraction(1, 2000)), "both": (True, 3)}
    laplace, size = sizes[kind]
    marginals = [
        MeasuredMarginal(places, sums(own, places) + 2, Fraction(size) * (1 + turn), laplace, Fraction(1, 4))
        for turn, places in enumerate([(0, 1), (1, 2), (1,)])
    ]
    return least_squares(own, blocks if kind == "both" else (), marginals)


KINDS = ("fine", "edge", "below", "coarse", "normal", "laplace", "steps", "both")
FLAT = attributes((2, 3, 4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["flat", "leveled"])
def test_estimates(kind: str, shape: str) -> None:
    own = FLAT if shape == "flat" else leveled()[:3]
    known = outcome(lambda: measured(own, kind))
    if not isinstance(known, BlockEstimates):
        check_claims(f"marginals/estimates_{kind}_{shape}", claims_of("refused", known))
        return
    found: dict[str, Claim] = claims_of("steps", known.min_deviation_steps)
    found |= claims_of("variances", {str(block): each for block, each in known.variances.items()})
    found |= claims_of("parts", {str(block): each.reshape(-1)[:5] for block, each in known.parts.items()})
    for places in ((), (0,), (1,), (0, 1), (1, 2), (0, 2)):
        made = outcome(lambda: known.marginal_and_variances(places))
        found |= {f"covers {places}": known.covers(places)} | claims_of(f"marginal {places}", made)
        query = table(tuple(known.attributes[place] for place in places)).astype(float) % 4 - 1
        found |= claims_of(f"linear {places}", outcome(lambda: known.linear_estimate_and_variance(query, places)))
        for beta, cells in ((0.05, 1), (0.2, 6)):
            made = outcome(lambda: known.half_width(query, places, beta, cells))
            found |= claims_of(f"width {places} {beta}", made)
            made = outcome(lambda: known.adaptive_half_width(query, places, beta, 3.0, cells))
            found |= claims_of(f"adaptive {places} {beta}", made)
    found |= claims_of("shape", outcome(lambda: known.linear_estimate_and_variance(np.ones(7), (0,))))
    found |= claims_of("places", outcome(lambda: known.marginal_and_variances((1, 0))))
    check_claims(f"marginals/estimates_{kind}_{shape}", found)


AXES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()), ((0,), ()), ((0,), (0,)), ((0, 1), ()), ((0, 1), (0,)), ((0, 1), (0, 1)), ((1, 2), (2,)),
]  # fmt: skip


def weighed(own: Attributes, axes: tuple[int, ...]) -> np.ndarray:
    return table(tuple(own[place] for place in axes)).astype(float) % 5


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("adaptive", [False, True])
def test_totals_of_groups(kind: str, adaptive: bool) -> None:
    own = FLAT if kind in ("normal", "laplace", "steps") else leveled()[:3]
    estimates = measured(own, kind)
    etas = {block: 0.1 + len(block) for block in estimates.parts} if adaptive else None
    known = SynopsisEstimates(estimates, ((0, 1), (1, 2)), etas)
    found: dict[str, Claim] = {}
    for axes, keys in AXES:
        weights = weighed(known.attributes, axes)
        for label, each in (("given", weights), ("equal", np.ones((1,) * len(axes)))):
            values, noise = known.totals_and_errors(each, axes, axes, keys)
            said = {"values": values, "sides": noise.sides}
            said |= {f"width {beta} {cells}": noise.width(beta, cells) for beta, cells in ((0.05, 1), (0.1, 9))}
            found |= claims_of(f"{axes} {keys} {label}", said)
            norms = squared_norms_of_groups(each, axes, axes, keys, known.attributes)
            found |= claims_of(f"{axes} {keys} {label} norms", {str(block): own for block, own in norms})
        if axes:
            values, noise = known.totals_and_errors(weights[:1], axes, axes[1:], keys[1:])
            found |= claims_of(f"{axes} {keys} within", {"values": values, "width": noise.width(0.05, 2)})
    for share in (LaplaceShare(1, 0.5, 3.0, 2.0), LaplaceShare(4, 1.0, 3.0, 2.0)):
        found |= claims_of(f"share {share.turn}", share.width(0.05))
    check_claims(f"marginals/group_totals_{kind}_{'adaptive' if adaptive else 'planned'}", found)


def ranged(found: BoundedTotals) -> dict[str, Any]:
    said: dict[str, Any] = {"value": found.value, "measured": found.measured, "nonnegative": found.nonnegative}
    said |= {
        "sharing": found.bound_count,
        "share": found.share,
        "lowers": len(found.lower_bounds_with_errors),
        "uppers": len(found.upper_bounds_with_errors),
    }
    for beta, cells in ((0.05, 1), (0.2, 5)):
        low, high = found.ends(beta, cells)
        said |= {f"low {beta}": low, f"high {beta}": high, f"estimate {beta}": found.estimate(low, high)}
    return said


BOUNDED: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()), ((0, 1), (0,)), ((0, 2), ()), ((0, 2), (0,)), ((0, 1, 2), (1,)), ((0, 1, 2), ()), ((0, 1, 2), (0, 2)),
]  # fmt: skip


LABELS = {
    "fine": ("plain", "signed", "cut", "chosen", "first", "loosened", "masked", "none"),
    "normal": ("signed", "first"),
    "laplace": ("signed", "cut"),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("adaptive", [False, True])
def test_bounds(kind: str, adaptive: bool) -> None:
    estimates = measured(FLAT, kind)
    etas = {block: 0.1 + len(block) for block in estimates.parts} if adaptive else None
    impossible = {(0, 2): np.indices((2, 4)).sum(0) == 4, (1,): np.array([False, False, True])}
    found: dict[str, Claim] = {str(d): max_bound_count(d) for d in range(6)}
    dear = kind == "laplace" and not adaptive  # the width of every group is searched for
    for zeros in ({}, impossible):
        known = SynopsisEstimates(estimates, ((0, 1), (1, 2)), etas, declared_zeros=lambda: zeros)
        for axes, keys in BOUNDED[:2] if dear else BOUNDED:
            weights = weighed(FLAT, axes)
            chosen = (np.indices(weights.shape).sum(0) % 2 == 0).astype(float)
            cases = {
                "plain": AmountBounds(weights, weights),
                "signed": AmountBounds(weights - 2, weights - 2),
                "cut": AmountBounds(weights, weights + chosen),
                "chosen": AmountBounds(chosen, chosen),
                "first": AmountBounds(*[(weights == weights.max()).astype(float)] * 2),
                "loosened": AmountBounds(weights - 1, weights).with_optional_cells(chosen > 0),
                "masked": AmountBounds(weights - 1, weights + 1).masked(chosen > 0),
                "none": AmountBounds(weights * 0, weights * 0),
            }
            for label in ("cut", "chosen") if dear else LABELS[kind]:
                each = cases[label]
                found |= claims_of(
                    f"{bool(zeros)} {axes} {keys} {label}", ranged(bound_totals(known, each, axes, keys))
                )
            found |= claims_of(f"{bool(zeros)} {axes} possible", known.possible_cells(axes))
        found |= claims_of(f"{bool(zeros)} model", fit_max_entropy(known, (0, 1, 2), known.sets, 3))
    check_claims(f"marginals/bounds_{kind}_{'adaptive' if adaptive else 'planned'}", found)


def test_models_of_large_tables_take_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Claim] = {}
    known = SynopsisEstimates(measured(FLAT, "normal"), ((0, 1), (1, 2)))
    for steps in (1, 47, 48, 96, 144):
        monkeypatch.setattr("sfumato.publish.marginals.group_totals._MAX_STEPS", steps)
        found |= claims_of(f"{steps}", fit_max_entropy(known, (0, 1, 2), known.sets))
    check_claims("marginals/models_of_large_tables", found)


@pytest.mark.parametrize("kind", ["fine", "normal"])
def test_consistent_marginals(kind: str) -> None:
    own = FLAT if kind == "normal" else leveled()[:3]
    estimates = measured(own, kind)
    zero = np.zeros([own[0].size, own[1].size], bool)
    zero[0, 1] = True
    found: dict[str, Claim] = claims_of(
        "steepest", _largest_eigenvalue_bound(((0, 1), (1, 2)), estimates.variances, own)
    )
    for label, zeros in (("free", {}), ("zeros", {(0, 1): zero})):
        made = make_consistent(estimates, ((0, 1), (1, 2)), zeros)
        for places in ((0, 1), (1, 2), (1,), (0,)):
            found |= {f"{label} {places}": tuple(round(float(e)) for e in made.marginal(places).reshape(-1))}
        found |= {f"{label} gap": bool(made.largest_shortfall <= 1e-6 * max(1.0, float(estimates.parts[()])))}
        found |= claims_of(f"{label} sets", made.sets)
    one = make_consistent(estimates, ((0, 1),), rounds=1)
    found |= claims_of("one round", one.marginal((0, 1))) | claims_of("one round gap", one.largest_shortfall)
    found |= claims_of("two rounds", make_consistent(estimates, ((0, 1), (1, 2)), rounds=2).marginal((1, 2)))
    found |= claims_of("uncovered", outcome(lambda: make_consistent(estimates, ((0, 2),))))
    found |= claims_of("shape", outcome(lambda: make_consistent(estimates, ((0, 1),), {(0, 1): zero.T})))
    check_claims(f"marginals/consistent_{kind}", found)


def test_what_a_column_decides() -> None:
    found: dict[str, Claim] = {}
    city = Attribute("city", "text", (ListedCell("a"), ListedCell("b"), ListedCell("c"), OtherCell()))
    years = Attribute("year", "integer", (RangeCell(0, 1), RangeCell(1, 3), RangeCell(3, 3, True), OtherCell()))
    counts = np.array([[50.0, -3.0, 2.0], [4.0, 6.0, 1.0], [-1.0, -2.0, -3.0], [9.0, 9.0, 0.0]])
    declared = np.array([[False, True, False], [True, False, True], [True, True, True], [False, False, True]])
    for name, own in (("city", city), ("years", years)):
        for wide, given in itertools.product((np.inf, 10.0, 5.0, 1.0), (None, declared)):
            made = infer_dependency(counts, own, widths=wide, impossible=given)
            label = f"{name} {wide} {given is not None}"
            found |= claims_of(label, made) | claims_of(f"{label} impossible", made.impossible)
        found |= claims_of(f"{name} alone", tuple(holds_one_value(each, own.type) for each in own.cells))
    found |= claims_of("real", holds_one_value(RangeCell(Fraction(0), Fraction(1)), years.type.REAL))
    for shape in ((4,), (3, 2), (4, 0)):
        found |= claims_of(f"refused {shape}", outcome(lambda: infer_dependency(np.ones(shape), city)))
    check_claims("marginals/implied", found)


def test_published_numbers() -> None:
    found: dict[str, Claim] = {}
    own = attributes((2, 3, 4, 2))
    for kind, make in (("gaussian", plan_gaussian), ("laplace", plan_laplace)):
        plan = make(MarginalWorkload(SETS), own)
        values = tuple(encode_integers(np.arange(int(np.prod(shape))) - 3) for shape in measured_shapes(plan))
        made = PublishedMarginals(plan, values)
        found |= claims_of(f"{kind} promise", str(made.price_or_plan_cost), words=True)
        for each in (*made.gaussian_blocks, *made.laplace_marginals):
            found |= claims_of(f"{kind} {getattr(each, 'block', getattr(each, 'attribute_set', ()))}", each)
        found |= claims_of(f"{kind} less", outcome(lambda: PublishedMarginals(plan, values[1:])))
        found |= claims_of(f"{kind} other", outcome(lambda: PublishedMarginals(plan, (values[-1], *values[1:]))))
        found |= claims_of(f"{kind} rehearsed", _without_largest_parts(plan) == plan)
        wide = (attribute(400), attribute(400, name="b"), attribute(5, name="c"))
        for sets in (((0, 1),), ((0, 1), (2,)), ((0,), (1, 2))):
            small = _without_largest_parts(make(MarginalWorkload(sets), wide))
            named = [each.block for each in small.blocks] or [each.attribute_set for each in small.marginals]
            found |= claims_of(f"{kind} rehearsed {sets}", named)
    found |= claims_of("packed", decode_integers(encode_integers(np.array([1, -2, 1 << 62]))))
    found |= claims_of("unpacked", outcome(lambda: decode_integers("?")))
    found |= claims_of("columns", recorded_columns({"column a": 1, "rows": 2, "column b c": 3}))
    check_claims("marginals/published", found)


def test_costs_that_can_be_verified() -> None:
    moved = Sensitivity(2, 3, 5, 11)
    parts_run: dict[str, Any] = {
        "laplace": Charged(Laplace(Fraction(7, 2)), moved, 3),
        "gaussian": Charged(Gaussian(Fraction(7, 2)), moved, 3),
        "scales": Charged(Laplace((2, 3)), moved),
        "choice": Charged(Exponential("0.3", 2), None, 2),
        "curve": Curve.pure("0.1"),
    }
    found: dict[str, Claim] = {"nothing": exact_cost(())}
    for name, part in parts_run.items():
        found |= claims_of(f"exact {name}", exact_cost((part,)))
        found |= claims_of(f"exact {name} twice", exact_cost((part, parts_run["laplace"])))
        for pure in (False, True):
            found |= claims_of(f"step {name} {pure}", step_cost(part, pure=pure) if name != "curve" else None)
    check_claims("marginals/verified", found)


def test_attributes() -> None:
    found: dict[str, Claim] = {}
    refused: list[Any] = [
        lambda: Attribute("a", "text", (ListedCell("x"),)),
        lambda: Attribute("a", "text", (OtherCell(), OtherCell())),
        lambda: Attribute("a", "text", ()),
        lambda: Attribute("", "text", (OtherCell(),)),
        lambda: Attribute("a", "text", (ListedCell("x"), ListedCell("x"), OtherCell())),
        lambda: Attribute("a", "text", (RangeCell("x", "y"), OtherCell())),
        lambda: Attribute("a", "boolean", (RangeCell(False, True), OtherCell())),
        lambda: Attribute("a", "integer", (RangeCell(3, 3), OtherCell())),
        lambda: Attribute("a", "integer", (RangeCell(3, 3, True), OtherCell())).cells,
        lambda: Attribute("a", "integer", (RangeCell(4, 3, True), OtherCell())),
        lambda: Attribute("a", "integer", (RangeCell(3, 4, 1), OtherCell())),  # type: ignore[arg-type]
        lambda: attribute(3, [(0, 0)]),
        lambda: attribute(3, [(0, -1, 2)]),
        lambda: attribute(3, [(0, 0, 0)]),
        lambda: attribute(3, [(0, 0, 1), (0, 1, 2)]),
        lambda: attribute(4, [(0, 0, 1, 2), (0, 0, 0, 2)]).levels,
        lambda: attribute(3, [(0, 0, 7)]).hierarchy.shares,
        lambda: Attribute("a", "integer", tuple(attribute(4).cells), ((0, 0, 1, 2),), (("x", "y"),)).labels,
        lambda: Attribute("a", "integer", tuple(attribute(4).cells), ((0, 0, 1, 2),), (("x", "x"),)),
        lambda: Attribute("a", "integer", tuple(attribute(4).cells), ((0, 0, 1, 2),), (("x",),)),
        lambda: Attribute("a", "integer", tuple(attribute(4).cells), ((0, 0, 1, 2),), (("x", ""),)),
        lambda: Attribute("a", "integer", tuple(attribute(4).cells), ((0, 0, 1, 2),), ((),)).labels,
        lambda: Attribute("a", "integer", tuple(attribute(4).cells), ((0, 0, 1, 2),), ((), ())),
        lambda: with_branching_levels(attribute(5), 1),
        lambda: block_algebra.checked_block(((0, 0),), leveled()),
        lambda: block_algebra.checked_block(((1, 3),), leveled()),
        lambda: block_algebra.checked_block(((1, 4),), leveled()),
        lambda: block_algebra.checked_block(((1, 1), (1, 2)), leveled()),
        lambda: block_algebra.checked_block(((1, True),), leveled()),
        lambda: block_algebra.checked_block(5, leveled()),
        lambda: block_algebra.parse_attribute_indices((0, 4), leveled()),
        lambda: block_algebra.parse_attribute_indices((0, 3), leveled()),
        lambda: block_algebra.parse_attribute_indices((1, 0), leveled()),
        lambda: block_algebra.parse_attribute_indices((-1,), leveled()),
    ]
    for number, run in enumerate(refused):
        found |= claims_of(f"{number}", outcome(run))
    bins = {
        "one": RangeCell(3, 4),
        "closed": RangeCell(3, 3, True),
        "two": RangeCell(3, 5),
        "closed two": RangeCell(3, 4, True),
    }
    for name, cell in bins.items():
        own = Attribute("a", "integer", (cell, OtherCell()))
        found |= claims_of(
            f"bin {name}", (own.has_bins, cell.is_single_value(own.type), cell.is_single_value(own.type.REAL))
        )
    check_claims("marginals/attributes", found)
