"""Plans equal the closed form and its vectors, cost what they say, and no other split of a price does better."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from publish.worlds import SIZES, attribute, attributes, average, leveled, subsets, summing
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.privacy import Neighbours, codec
from sfumato.publish.marginals import blocks, measuring
from sfumato.publish.marginals.attributes import Attributes, with_branching_levels
from sfumato.publish.marginals.chains import CellHierarchy
from sfumato.publish.marginals.planning import (
    MarginalWorkload,
    NoisePlan,
    PlannedBlock,
    PlannedMarginal,
    blocks_of_marginals,
    finest_unit_value,
    independent_variances,
    plan_gaussian,
    plan_laplace,
    range_factors,
    with_range_levels,
)

PAIRS = MarginalWorkload.ways(3, 2)


def total(plan: NoisePlan) -> float:
    weights = [float(plan.workload.weight(index)) for index in range(len(plan.workload.sets))]
    pairs = zip(weights, plan.workload.sets, strict=True)
    return sum(weight * float(plan.cell_variances(each).sum()) for weight, each in pairs)


def worst(plan: NoisePlan) -> float:
    return max(float(plan.cell_variances(each).max()) for each in plan.workload.sets)


def test_the_best_plan_equals_its_vectors() -> None:
    plan = plan_gaussian(PAIRS, attributes((2, 3, 4)))
    known = plan.block_variances
    assert total(plan) == pytest.approx(50.8504210132, rel=1e-8)
    assert known[()] == pytest.approx(11.6447895087, rel=1e-8)
    assert known[((0, 1),)] == pytest.approx(6.6019750949, rel=1e-8)
    assert known[((0, 1), (1, 1))] == pytest.approx(2.9111973772, rel=1e-8)
    assert known[((1, 1), (2, 1))] == pytest.approx(2.0585274068, rel=1e-8)
    assert plan.cell_variances((0, 1)).max() == pytest.approx(2.4529694634, rel=1e-8)
    assert plan.cell_variances((1, 2)).min() == pytest.approx(1.6336939508, rel=1e-8)


def test_the_least_worst_plan_equals_its_vectors() -> None:
    assert worst(plan_gaussian(PAIRS, attributes((2, 3, 4)), objective="worst")) == pytest.approx(2.03958, rel=3e-6)
    own, pairs = attributes((85, 9, 16, 7, 2)), MarginalWorkload.ways(5, 2)
    assert worst(plan_gaussian(pairs, own, objective="worst")) == pytest.approx(8.15056, rel=3e-6)
    assert independent_variances(pairs, own, 1, "0.5", "worst") == pytest.approx(np.full(10, 10))


@pytest.mark.parametrize("sizes", SIZES)
def test_the_best_plan_meets_the_singular_value_bound(sizes: tuple[int, ...]) -> None:
    """Li & Miklau: no linear mechanism has less than (sum of singular values)²/(number of cells), at 2ρ = 1."""
    workload = MarginalWorkload.ways(len(sizes), 2)
    stacked = np.vstack([summing(sizes, each) for each in workload.sets])
    bound = np.linalg.svd(stacked, compute_uv=False).sum() ** 2 / math.prod(sizes)
    assert total(plan_gaussian(workload, attributes(sizes))) == pytest.approx(bound, rel=1e-7)


@pytest.mark.parametrize("sizes", SIZES)
def test_every_cell_attains_the_price(sizes: tuple[int, ...]) -> None:
    """diag(Σ P_B/σ_B²), over the full table, is constant and 2ρ: blocks add up without loss."""
    plan = plan_gaussian(MarginalWorkload.ways(len(sizes), 2), attributes(sizes))
    spent = np.zeros(math.prod(sizes))
    for block, variance in plan.block_variances.items():
        maker = average(sizes, blocks.block_attribute_indices(block)) @ summing(
            sizes, blocks.block_attribute_indices(block)
        )
        spent += (maker**2).sum(axis=0) / variance
    assert spent == pytest.approx(np.ones_like(spent), rel=1e-8)


@pytest.mark.parametrize("sizes", SIZES)
def test_cell_variances_are_those_of_brute_force(sizes: tuple[int, ...]) -> None:
    """The covariance of the full table's projection on what was measured, by the pseudo-inverse."""
    workload = MarginalWorkload.ways(len(sizes), 2)
    plan = plan_gaussian(workload, attributes(sizes))
    precision = np.zeros((math.prod(sizes), math.prod(sizes)))
    for block, variance in plan.block_variances.items():
        maker = average(sizes, blocks.block_attribute_indices(block)) @ summing(
            sizes, blocks.block_attribute_indices(block)
        )
        precision += maker.T @ maker / variance
    covariance = np.linalg.pinv(precision, hermitian=True)
    for places in [each for k in (0, 1, 2) for each in itertools.combinations(range(len(sizes)), k)]:
        sums = summing(sizes, places)
        exact = np.diag(sums @ covariance @ sums.T)
        assert plan.cell_variances(places).reshape(-1) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("objective", ["total", "worst"])
@pytest.mark.parametrize("own", [attributes((2, 3, 4)), attributes((5, 1, 4)), leveled()[:3]])
def test_no_other_split_of_the_price_does_better(own: Attributes, objective: str) -> None:
    rng = np.random.default_rng(3)
    workload = MarginalWorkload(((0, 1), (0, 2), (1, 2)), (2, 1, "1/3"))
    plan = plan_gaussian(workload, own, objective=objective)
    weights = np.array([float(each) for each in workload.weights])
    costs = np.array([float(blocks.squared_row_change(each.block, own)) for each in plan.blocks])
    units = []
    for each in plan.blocks:
        one = dict.fromkeys(plan.block_variances, 0.0) | {each.block: 1.0}
        variances = [plan_variances(one, places, own) for places in workload.sets]
        units.append([each.max() if objective == "worst" else each.sum() for each in variances])
    table = np.array(units) * weights

    def error(variances: np.ndarray) -> float:
        return float((variances @ table).max() if objective == "worst" else (variances @ table).sum())

    chosen = np.array(list(plan.block_variances.values()))
    least = error(chosen)
    for spread in (0.02, 0.3, 2):
        tried = chosen * np.exp(spread * rng.normal(size=(400, len(costs))))
        tried *= (costs / tried).sum(axis=1, keepdims=True) / (costs / chosen).sum()
        assert min(map(error, tried)) >= least * (1 - 2e-6)


def plan_variances(variances: dict[blocks.Block, float], places: blocks.AttributeSet, own: Attributes) -> np.ndarray:
    from sfumato.publish.marginals.blocks import cell_variances

    return cell_variances(variances, places, own)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("rho", ["0.5", "1e-4", "37"])
@pytest.mark.parametrize("own", [attributes((2, 3, 4)), leveled()[1:]])
def test_the_charge_is_recomputed_from_the_stored_plan(own: Attributes, rho: str, neighbours: str) -> None:
    """Exactly, from sensitivities and deviations; it is what the mechanisms' curves say, and within the price."""
    plan = plan_gaussian(PAIRS, own, 3, rho=rho, neighbours=neighbours, unit_value="1/8")
    again = codec.loads_as(NoisePlan, codec.dumps(plan))
    assert again == plan
    spent = Fraction(0)
    for each in again.blocks:
        change = blocks.block_sensitivity(each.block, own, 24, each.grid, neighbours)
        part = change.squares / (2 * each.deviation**2)
        assert plan.block_rho(each) == part
        assert Gaussian(each.deviation).curve(change).rho() == pytest.approx(float(part), rel=1e-12)
        spent += part
    assert spent <= plan.rho <= spent + Fraction(len(plan.blocks), 10**30)
    assert plan.rho <= Fraction(rho)
    assert float(plan.rho) == pytest.approx(float(rho), rel=1e-8)


def test_under_replacement_a_plan_weighs_the_total_less() -> None:
    own = attributes((2, 3, 4))
    added, replaced = plan_gaussian(PAIRS, own), plan_gaussian(PAIRS, own, neighbours="replace")
    assert replaced.neighbours is Neighbours.REPLACE
    assert total(added) < total(replaced) < 4 * total(added)
    fixed = plan_gaussian(PAIRS, own, neighbours="replace", fixed_total=True)
    assert fixed.block_rho(fixed.blocks[0]) == 0
    assert fixed.block_variances[()] < 1e-4
    assert total(fixed) < total(replaced)
    assert Gaussian(fixed.blocks[0].deviation).curve(fixed.sensitivity(fixed.blocks[0])).rho() == 0
    assert fixed.at_price("1e-6").blocks[0] == fixed.blocks[0]


def test_a_unit_may_have_all_of_its_rows_in_one_cell_of_a_marginal() -> None:
    """Added, it changes a count by its three rows; replaced, two counts by them, or none where there is one cell."""
    own, workload = attributes((2, 1)), MarginalWorkload(((0,), (1,)))
    for unit_value in (1, Fraction(1, 4)):
        weight = 3 / Fraction(unit_value)
        for neighbours, fixed_total, several, single in (
            ("add-remove", False, (weight, weight**2), (weight, weight**2)),
            ("replace", False, (2 * weight, 2 * weight**2), (weight, weight**2)),
            ("replace", True, (2 * weight, 2 * weight**2), (0, 0)),
        ):
            plan = plan_laplace(workload, own, 3, neighbours=neighbours, unit_value=unit_value, fixed_total=fixed_total)
            changes = {each.attribute_set: plan.sensitivity(each) for each in plan.marginals}
            assert (changes[(0,)].total, changes[(0,)].squares) == several
            assert (changes[(1,)].total, changes[(1,)].squares) == single
            assert {change.neighbours.value for change in changes.values()} == {neighbours}


def test_every_deviation_has_enough_steps_and_the_least_grid() -> None:
    for rho in ("1e-6", "0.5", "1e6"):
        for each in plan_gaussian(PAIRS, attributes((2, 3, 4)), rho=rho).blocks:
            assert each.deviation >= 4096
            assert each.grid == 1 or each.deviation / each.grid * (each.grid - 1) < 4096


_THOUSANDS = attribute(3000, [(*(cell // 1000 for cell in range(2999)), 3)], "thousand"), attribute(3000, name="cell")


@pytest.mark.parametrize(
    "own", [attributes((2, 3)), attributes((215, 215, 216)), leveled(), attributes((3000, 3000)), _THOUSANDS]
)
def test_weights_are_counted_as_finely_as_64_bits_allow(own: Attributes) -> None:
    workload = MarginalWorkload((tuple(range(len(own))),))
    step = finest_unit_value(workload, own)
    plan = plan_gaussian(workload, own, 10, rho="0.01", unit_value=step)
    assert plan.clipping_count >= 2**31
    assert step == Fraction(1, 2**20) or plan.clipping_count < 2**32
    if step > Fraction(1, 2**20):
        with pytest.raises(InvalidParameter) as refusal:
            plan_gaussian(workload, own, 10, rho="0.01", unit_value=step / 2)
        assert str(step) in refusal.value.fix


def test_rows_and_prices_only_scale_a_plan() -> None:
    own = attributes((2, 3, 4))
    plan = plan_gaussian(PAIRS, own)
    assert total(plan_gaussian(PAIRS, own, 5, rho=2)) == pytest.approx(25 / 4 * total(plan), rel=1e-7)
    scaled = plan.at_price(2)
    assert total(scaled) == pytest.approx(total(plan) / 4, rel=1e-7)
    assert Fraction("1.9999999") < scaled.rho <= 2
    fine = plan_gaussian(PAIRS, own, unit_value="1/1024")
    assert total(fine) == pytest.approx(total(plan), rel=1e-7)
    assert fine.max_weight == 1024


def test_a_weight_buys_accuracy() -> None:
    own = attributes((2, 3, 4))
    plain, heavy = plan_gaussian(PAIRS, own), plan_gaussian(MarginalWorkload(PAIRS.sets, (10, 1, 1)), own)
    assert heavy.cell_variances((0, 1)).max() < plain.cell_variances((0, 1)).max()
    assert plan_gaussian(MarginalWorkload(PAIRS.sets, (7, 7, 7)), own).block_variances == pytest.approx(
        plain.block_variances
    )


def test_all_ranges_have_the_variances_of_the_vectors() -> None:
    """256 cells, 2ρ = 1: mean variance over all ranges of the plan with levels by 2, by 4, and without."""
    for levels, vector in (([2**k for k in range(1, 8)], 11.80886), ([4, 16, 64], 12.66880), ([], 48.19779)):
        chain = CellHierarchy.from_levels(256, [np.arange(256) // width for width in levels])
        counted = np.array(range_factors(chain, 256))
        costs = np.array([1.0, *(each.max_squared_change / each.scale**2 for each in chain.differences)])
        mean = np.sqrt(counted * costs).sum() ** 2 / (256 * 257 / 2)
        assert mean == pytest.approx(vector, rel=1e-6)


def test_ranges_are_added_up_as_brute_force_does() -> None:
    own = leveled()[1:2]
    plan = plan_gaussian(MarginalWorkload(((0,),), (), (0,)), own)
    cells = own[0].size - 1
    variances = []
    for low, high in itertools.combinations(range(cells + 1), 2):
        query = np.zeros(own[0].size)
        query[low:high] = 1
        variances.append(plan.query_variance(query, (0,)))
    factors = range_factors(own[0].hierarchy, cells)
    expected = sum(plan.block_variances[((0, level),) if level else ()] * each for level, each in enumerate(factors))
    assert sum(variances) == pytest.approx(expected, rel=1e-9)


def test_levels_pay_for_ranges_and_parts_but_not_for_cells() -> None:
    plain = attribute(65)
    tree = with_branching_levels(plain, 4)
    ranges, cells = MarginalWorkload(((0,),), (), (0,)), MarginalWorkload(((0,),))
    query = np.zeros(65)
    query[10:50] = 1
    one, other = plan_gaussian(ranges, (plain,)), plan_gaussian(ranges, (tree,))
    assert other.query_variance(query, (0,)) < 0.6 * one.query_variance(query, (0,))
    assert total(plan_gaussian(cells, (plain,))) < total(plan_gaussian(cells, (tree,)))


def test_levels_are_chosen_for_ranges() -> None:
    assert with_range_levels(attribute(3)).levels == ()
    chosen = with_range_levels(attribute(65))
    ranges = MarginalWorkload(((0,),), (), (0,))
    errors = []
    for own in (
        chosen,
        attribute(65),
        with_branching_levels(attribute(65), 2),
        with_branching_levels(attribute(65), 16),
    ):
        plan = plan_gaussian(ranges, (own,))
        spans = itertools.combinations(range(0, 65, 8), 2)
        errors.append(
            sum(plan.query_variance(np.r_[[0.0] * a, [1.0] * (b - a), [0.0] * (65 - b)], (0,)) for a, b in spans)
        )
    assert errors[0] <= 1.05 * min(errors)
    assert chosen.levels


def test_pure_prices_are_split_by_the_cube_root() -> None:
    own = attributes((2, 3, 4))
    plan = plan_laplace(PAIRS, own, 2, epsilon="0.3", unit_value="1/4")
    scales = [float(each.scale) for each in plan.marginals]
    assert scales == pytest.approx([scales[0] * (s / 6) ** (-1 / 3) for s in (6, 8, 12)], rel=1e-6)
    spent = sum(Fraction(8) / each.scale for each in plan.marginals)
    assert spent <= plan.epsilon <= Fraction("0.3")
    assert float(plan.epsilon) == pytest.approx(0.3, rel=1e-6)
    for each in plan.marginals:
        curve = Laplace(each.scale).curve(plan.sensitivity(each))
        assert curve.epsilon(0) == pytest.approx(8 / float(each.scale), rel=1e-9)
    assert codec.loads_as(NoisePlan, codec.dumps(plan)) == plan
    even = plan_laplace(PAIRS, own, objective="worst", neighbours="replace")
    assert len({each.scale for each in even.marginals}) == 1
    spent = sum(Fraction(2) / each.scale for each in even.marginals)
    assert spent <= even.epsilon <= 1


def test_the_cube_root_is_the_best_split_of_a_pure_price() -> None:
    own = attributes((2, 3, 40))
    scales = np.array([float(each.scale) for each in plan_laplace(PAIRS, own).marginals])
    cells = np.array([6, 80, 120])
    tried = scales * np.exp(0.2 * np.random.default_rng(4).normal(size=(500, 3)))
    tried *= (1 / tried).sum(axis=1, keepdims=True)
    assert (tried**2 @ cells).min() >= scales**2 @ cells * (1 - 1e-5)


def test_independent_noise_is_the_best_split_of_it() -> None:
    own = attributes((2, 3, 40))
    cells = np.array([6, 80, 120])
    found = independent_variances(PAIRS, own, 1, "0.5", "total")
    assert (1 / found).sum() == pytest.approx(1)
    assert found @ cells == pytest.approx(np.sqrt(cells).sum() ** 2)
    plan = plan_gaussian(PAIRS, own)
    assert total(plan) < found @ cells


def test_a_closure_has_every_subset_and_level() -> None:
    own = attributes((2, 3, 4))
    assert {blocks.block_attribute_indices(each) for each in blocks_of_marginals(PAIRS.sets, own)} == {
        e for e in subsets(range(3)) if len(e) < 3
    }
    assert len(blocks_of_marginals([(0, 1)], leveled())) == 2 * 4
    plan = plan_gaussian(MarginalWorkload(((0, 1),)), leveled())
    assert [each.block for each in plan.blocks] == list(blocks_of_marginals([(0, 1)], leveled()))


def test_thousands_of_marginals_are_planned() -> None:
    sizes = [97, 2, 10, 5, 21, 7, 3, 20, 51, 16, 38, 8, 12, 4, 2, 2, 9, 24, 6, 3]
    plan = plan_gaussian(MarginalWorkload.ways(20, 3, fewer=True), attributes(sizes))
    assert len(plan.workload.sets) == 1350
    assert len(plan.blocks) == 1351
    assert float(plan.rho) == pytest.approx(0.5, rel=1e-8)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: MarginalWorkload(()), "sets"),
        (lambda: MarginalWorkload(((0,), (0,))), "sets"),
        (lambda: MarginalWorkload(((0,),), (0,)), "weights"),
        (lambda: MarginalWorkload(((0,),), (-1,)), "weights"),
        (lambda: MarginalWorkload(((0,),), (1, 2)), "weights"),
        (lambda: MarginalWorkload.ways(3, 4), "ways"),
        (lambda: MarginalWorkload.ways(3, 0), "ways"),
        (lambda: plan_gaussian(MarginalWorkload(((0, 9),)), attributes((2, 3))), "attribute_set"),
        (lambda: plan_gaussian(MarginalWorkload(((1, 0),)), attributes((2, 3))), "attribute_set"),
        (lambda: plan_gaussian(PAIRS, attributes((2, 3, 4)), objective="mean"), "objective"),
        (lambda: plan_gaussian(PAIRS, attributes((2, 3, 4)), rho=0), "rho"),
        (lambda: plan_gaussian(PAIRS, attributes((2, 3, 4)), 0), "rows"),
        (lambda: plan_gaussian(PAIRS, attributes((2, 3, 4)), rho="1e-24"), "deviation"),
        (lambda: plan_gaussian(MarginalWorkload(((0, 1),)), attributes((4000, 4000))), "sets"),
        (lambda: plan_gaussian(MarginalWorkload(((0,),), (), (0,)), attributes((4000,))), "ranges"),
        (lambda: plan_gaussian(MarginalWorkload(((0,),), (), (0,)), attributes((4,)), objective="worst"), "objective"),
        (lambda: plan_laplace(PAIRS, attributes((2, 3, 4)), objective="mean"), "objective"),
        (lambda: NoisePlan(attributes((2,)), MarginalWorkload(((0,),))), "blocks"),
        (lambda: NoisePlan(attributes((2,)), MarginalWorkload(((0,),)), (PlannedBlock((), 1),) * 2), "blocks"),  # type: ignore[arg-type]
        (lambda: PlannedMarginal((0,), 0), "scale"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_planned_is_refused(make: object, named: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        make()  # type: ignore[operator]
    assert refusal.value.parameter == named


def test_noise_before_the_projection_costs_more_than_is_charged() -> None:
    """The broken twin: noise on the marginal itself, charged as the block's p_B, is 1/p_B dearer: 4 for two flags."""
    own = attributes((2, 2))
    block = ((0, 1), (1, 1))
    charged = blocks.block_sensitivity(block, own, 1).squares / blocks.block_scale(block, own) ** 2
    assert 1 / charged == 4
    assert Gaussian(10).curve(1).rho() == pytest.approx(4 * float(charged) / 200)


def test_scaled_plans_cost_the_price_to_the_last_step() -> None:
    """Scales grow by ε over the price and by 2^−40 more, deviations by its root and by 1e-12, both rounded up to 2^−20
    of a step; a deviation has at least 4096 steps on the least grid.
    """
    own = attributes((2, 3))
    sets = ((0,), (0, 1))
    marginals = tuple(
        PlannedMarginal(places, Fraction(scale)) for places, scale in zip(sets, (2**41, 2**42), strict=True)
    )
    pure = NoisePlan(own, MarginalWorkload(sets), (), marginals)
    assert pure.epsilon == Fraction(sum(math.ceil(Fraction(10**30, 2**power)) for power in (41, 42)), 10**30)
    for price in (Fraction(1, 2**40), Fraction(1, 3)):
        growth = pure.epsilon / price * (1 + Fraction(1, 2**40))
        scaled = pure.at_price(price)
        assert [each.scale for each in scaled.marginals] == [
            Fraction(math.ceil(each.scale * growth * 2**20), 2**20) for each in marginals
        ]
        assert scaled.epsilon <= price
    blocks_ = tuple(PlannedBlock(block, Fraction(5000), 2) for block in ((), ((0, 1),)))
    plan = NoisePlan(own, MarginalWorkload(((0,),)), blocks_)
    for price in (plan.rho * 4, plan.rho / 9):
        growth = Fraction(math.sqrt(plan.rho / price) * (1 + 1e-12))
        scaled = plan.at_price(price)
        assert scaled.rho <= price
        for each in scaled.blocks:
            assert each.grid == max(1, math.ceil(4096 / (2500 * growth)))
            assert each.deviation == Fraction(math.ceil(each.grid * 2500 * growth * 2**20), 2**20)


def test_planned_blocks_and_workloads_at_their_edges() -> None:
    assert PlannedBlock((), Fraction(10**12)).grid == 1
    with pytest.raises(InvalidParameter, match="1e12"):
        PlannedBlock((), Fraction(10**12) + 1)
    for wrong in ({"sets": ()}, {"sets": ((0,), (0,))}, {"sets": ((0,),), "weights": (1, 2)}):
        with pytest.raises(InvalidParameter):
            MarginalWorkload(**wrong)  # type: ignore[arg-type]
    assert MarginalWorkload(((0,), (1,)), (1, 1)).weights == ()  # type: ignore[arg-type]
    assert MarginalWorkload(((0,), (1,)), (1, 2)).weight(1) == 2  # type: ignore[arg-type]
    assert MarginalWorkload.ways(3, 2, fewer=True).sets == ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    assert MarginalWorkload.ways(3, 3).sets == ((0, 1, 2),)
    for ways in (0, 4):
        with pytest.raises(InvalidParameter, match="between 1 and 3"):
            MarginalWorkload.ways(3, ways)
    own = attributes((2, 3))
    with pytest.raises(InvalidParameter, match="each value of attributes must be an Attribute"):
        NoisePlan((*own, "a"), MarginalWorkload(((0,),)), (PlannedBlock((), Fraction(5)),))  # type: ignore[arg-type]
    whole = PlannedMarginal((0,), Fraction(2))
    for blocks_, marginals in (((), ()), ((PlannedBlock((), Fraction(5)),), (whole,)), ((), (whole, whole))):
        with pytest.raises(InvalidParameter, match=r"block|marginal"):
            NoisePlan(own, MarginalWorkload(((0,),)), blocks_, marginals)


@pytest.mark.parametrize("fixed_total", [False, True])
def test_what_a_unit_changes_of_a_whole_marginal(fixed_total: bool) -> None:
    own, sets = attributes((2, 3)), ((), (0,))
    marginals = tuple(PlannedMarginal(places, Fraction(7)) for places in sets)
    added = NoisePlan(own, MarginalWorkload(sets), (), marginals, 3, unit_value="0.5")  # type: ignore[arg-type]
    assert added.max_weight == 6
    assert [added.sensitivity(each).total for each in marginals] == [6, 6]
    replaced = NoisePlan(
        own,
        MarginalWorkload(sets),
        (),
        marginals,
        3,
        Neighbours.REPLACE,
        unit_value="0.5",
        fixed_total=fixed_total,  # type: ignore[arg-type]
    )
    assert [replaced.sensitivity(each).total for each in marginals] == [0 if fixed_total else 6, 12]
    assert {replaced.sensitivity(each).neighbours for each in marginals} == {Neighbours.REPLACE}


def test_a_dry_run_leaves_out_the_largest_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    own, sets = attributes((2, 3, 4)), ((1, 2), (0,), (0, 1))
    marginals = tuple(PlannedMarginal(places, Fraction(7)) for places in sets)
    pure = NoisePlan(own, MarginalWorkload(sets), (), marginals)
    blocks_ = tuple(PlannedBlock(block, Fraction(5000)) for block in (((1, 1), (2, 1)), ((0, 1),), ((0, 1), (1, 1))))
    gaussian = NoisePlan(own, MarginalWorkload(sets), blocks_)
    sizes = [math.prod(shape) for shape in measuring.measured_shapes(pure)]
    assert sizes == [12, 2, 6]
    for most, kept in ((20, (0, 1, 2)), (19, (1, 2)), (8, (1, 2)), (7, (1,)), (2, (1,))):
        monkeypatch.setattr(measuring, "_MAX_DRY_RUN_CELLS", most)
        assert measuring._without_largest_parts(pure).marginals == tuple(marginals[index] for index in kept)
    monkeypatch.setattr(measuring, "_MAX_DRY_RUN_CELLS", 10**5)
    assert measuring._without_largest_parts(gaussian) is gaussian
    monkeypatch.setattr(measuring, "_MAX_DRY_RUN_CELLS", 0)
    assert measuring._without_largest_parts(pure).marginals == (PlannedMarginal((), Fraction(7)),)
    assert measuring._without_largest_parts(gaussian).blocks == (PlannedBlock((), Fraction(5000)),)
