"""Seeded bugs in the mathematics of published marginals: what a unit moves, what is charged, what an interval holds."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_BLOCKS, _PLANS, _ESTIMATES, _WIDTHS, _CONSISTENT, _ATTRIBUTES = (
    f"publish/marginals/test_{name}.py::"
    for name in ("blocks", "planning", "estimating", "half_widths", "consistency", "attributes")
)
_MOVED = (f"{_BLOCKS}test_no_unit_moves_a_block_by_more_than_its_sensitivity",)
_CHARGE = (f"{_PLANS}test_the_charge_is_recomputed_from_the_stored_plan",)
MUTANTS = (
    Mutant(
        "a row moves the squares of its own entry alone",
        Kind.SENSITIVITY,
        "publish.marginals.chains:LevelDifference.max_squared_change",
        "int(a) ** 2 * int(k) * (int(k) - 1)",
        "int(a) ** 2 * (int(k) - 1) ** 2",
        _MOVED,
    ),
    Mutant(
        "all parents are taken to weigh as the first",
        Kind.SENSITIVITY,
        "publish.marginals.chains:LevelDifference._weight_and_children_pairs",
        "return set(zip(self.weights.tolist(), self.children.tolist(), strict=True))",
        "return set(zip(self.weights.tolist()[:1], self.children.tolist()[:1], strict=True))",
        _MOVED,
    ),
    Mutant(
        "the grid is left out of what a unit moves",
        Kind.SENSITIVITY,
        "publish.marginals.blocks:block_sensitivity",
        "exact_integer(grid, 'grid', at_least=1)",
        "exact_integer(1, 'grid', at_least=1)",
        _MOVED,
    ),
    Mutant(
        "counts are not cut",
        Kind.WRAP,
        "publish.marginals.blocks:scaled_residual",
        "        values = np.clip(values, -max_count, max_count)\n",
        "        pass\n",
        (f"{_BLOCKS}test_the_largest_counts_do_not_wrap",),
    ),
    Mutant(
        "counts are cut as if the numbers on the way had one factor",
        Kind.WRAP,
        "publish.marginals.blocks:max_unclipped_count",
        "_LARGEST // (grid * math.prod((2 * step for step in steps)))",
        "_LARGEST // (grid * max((2 * step for step in steps))) if block else _LARGEST // grid",
        (f"{_BLOCKS}test_the_largest_counts_do_not_wrap",),
    ),
    Mutant(
        "a replaced unit moves one cell of a marginal",
        Kind.NEIGHBOURS,
        "publish.marginals.planning:NoisePlan.sensitivity",
        "return Sensitivity(1, self.max_weight).for_neighbours(Neighbours.REPLACE, signed=False)",
        "return Sensitivity(1, self.max_weight, neighbours=Neighbours.REPLACE)",
        (f"{_PLANS}test_pure_prices_are_split_by_the_cube_root",),
    ),
    Mutant(
        "a plan under replacement is made for the other relation",
        Kind.NEIGHBOURS,
        "publish.marginals.planning:plan_gaussian",
        "_block_cost(block, attributes, relation, fixed_total) for block",
        "_block_cost(block, attributes, Neighbours.ADD_REMOVE, fixed_total) for block",
        _CHARGE,
    ),
    Mutant(
        "a sum of cells is taken to be as noisy as one",
        Kind.AUDIT,
        "publish.marginals.estimating:_spread_variance",
        "attributes[attribute_index].size",
        "1",
        (f"{_ESTIMATES}test_marginals_measured_whole_equal_the_vector",),
    ),
    Mutant(
        "noise of few steps is taken to be normal",
        Kind.AUDIT,
        "publish.marginals.estimating:BlockEstimates.half_width",
        "half_width if self.min_deviation_steps >= MIN_STEPS else coarse_gaussian_half_width",
        "half_width if self.min_deviation_steps >= 0 else coarse_gaussian_half_width",
        (f"{_ESTIMATES}test_few_steps_are_bounded_by_moments",),
    ),
    Mutant(
        "rounded weights of parents are taken to be exact",
        Kind.AUDIT,
        "publish.marginals.blocks:weight_by_noise_deviation",
        "        if not difference.has_uniform_noise:\n",
        "        if difference.parts < 0:\n",
        (f"{_ESTIMATES}test_variances_are_those_of_the_noise_under_uneven_levels",),
    ),
    Mutant(
        "declared zeros may be above zero",
        Kind.KEYS,
        "publish.marginals.estimating:_NonnegativeProjection._project_multipliers",
        "return np.where(self.zeros[attribute_set], multipliers, np.maximum(multipliers, 0))",
        "return np.maximum(multipliers, 0)",
        (f"{_CONSISTENT}test_zeros_of_a_smaller_marginal_hold_in_larger_ones",),
    ),
    Mutant(
        "levels that are not nested are taken",
        Kind.KEYS,
        "publish.marginals.attributes:_checked_levels",
        "if len(set(zip(finer, level, strict=True))) != len(set(finer)):",
        "if len(set(zip(finer, level, strict=True))) < len(set(finer)):",
        (f"{_ATTRIBUTES}test_wrong_cells_and_levels_are_refused",),
    ),
)

test_the_tests_of_the_algebra_notice = suite(MUTANTS)
