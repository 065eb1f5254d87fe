"""Seeded bugs where the cells of a synthetic table are bought: what they cost, and which rows they hold."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "publish/synthesis/test_private_cells.py::"
_LAW = (_TESTS + "test_selected_edges_leak_no_more_than_they_cost_by_enumeration",)
_COSTS = (_TESTS + "test_bought_cells_are_steps_within_the_price",)
_EDGES = (_TESTS + "test_edges_wherever_they_are_give_bins",)
_VALUES = (_TESTS + "test_values_above_the_threshold_have_cells_and_the_others_groups",)

MUTANTS = (
    Mutant(
        "edges are selected as if a unit had one row",
        Kind.SENSITIVITY,
        "plan.readings.cell_rows:RanksOfCells.rows_per_unit",
        "return math.ceil(scaled.add_remove_sensitivity.total)",
        "return 1",
        _LAW,
    ),
    Mutant(
        "edges are selected for one step less than a unit has",
        Kind.SENSITIVITY,
        "plan.readings.cell_rows:RanksOfCells.rows_per_unit",
        "return math.ceil(scaled.add_remove_sensitivity.total)",
        "return math.ceil(scaled.add_remove_sensitivity.total) - 1 or 1",
        _LAW,
    ),
    Mutant(
        "a selection of edges may be made for any number of rows",
        Kind.SENSITIVITY,
        "release.measurement:Measurement.__post_init__",
        "elif isinstance(self.reading, RanksOfCells):",
        "elif isinstance(self.reading, type(None)):",
        _LAW,
    ),
    Mutant(
        "every level of quantiles is bought with the whole amount",
        Kind.CHARGE_ORDER,
        "publish.synthesis.budget:Concentrated.quantiles",
        "levels / _root_rounded_up(levels / (8 * amount))",
        "levels * levels / _root_rounded_up(levels / (8 * amount))",
        _LAW,
    ),
    Mutant(
        "the levels of quantiles cost what one does",
        Kind.CHARGE_ORDER,
        "publish.synthesis.budget:Concentrated.quantiles_cost",
        "quantiles.levels * quantiles.level_epsilon ** 2 / 8",
        "quantiles.level_epsilon ** 2 / 8",
        _LAW,
    ),
    Mutant(
        "bought cells are not taken off the price",
        Kind.CHARGE_ORDER,
        "publish.synthesis.state:SynthesisState.count_rows_and_buy_cells",
        "self.budget = funds",
        "pass",
        _COSTS,
    ),
    Mutant(
        "quantiles cost nothing where a file is verified",
        Kind.CHARGE_ORDER,
        "publish.marginals.charge_verification:step_cost",
        "step.times * (mechanism.epsilon if pure else rho)",
        "step.times * (mechanism.epsilon if pure else rho) * 0",
        (_TESTS + "test_a_file_is_verified_with_the_cost_of_its_cells",),
    ),
    Mutant(
        "a selected edge that holds many rows is joined with the next cells",
        Kind.RANGES,
        "publish.synthesis.private_cells:QuantileBins.parts_from",
        "outcome.cells.count(cell) > 1",
        "outcome.cells.count(cell) > 99",
        _EDGES,
    ),
    Mutant(
        "values below the noise have cells of their own",
        Kind.RANGES,
        "publish.synthesis.private_cells:ValueGroups.parts_from",
        "counts[most_frequent] > threshold",
        "counts[most_frequent] > 0",
        _VALUES,
    ),
    Mutant(
        "as many values as there are have cells of their own",
        Kind.RANGES,
        "publish.synthesis.private_cells:ValueGroups.parts_from",
        "[:MAX_SINGLE_VALUE_CELLS]",
        "[:100 * MAX_SINGLE_VALUE_CELLS]",
        _VALUES,
    ),
    Mutant(
        "rows without a value count as the last bin",
        Kind.RANGES,
        "plan.readings.cell_rows:RanksOfCells.extract",
        "exact.marginal((self.column,))[:-1]",
        "exact.marginal((self.column,))[1:]",
        (_TESTS + "test_missing_values_have_no_rank",),
    ),
    Mutant(
        "a value that is in a group certainly is what a question compares with",
        Kind.RANGES,
        "publish.cells.cell_functions:_surely_unequal",
        "other not in text.options",
        "True",
        (_TESTS + "test_questions_of_groups_are_exact_of_values_with_cells_and_bounds_of_others",),
    ),
)

test_the_tests_of_bought_cells_notice = suite(MUTANTS)
