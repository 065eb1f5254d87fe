"""Seeded bugs where columns are coded and marginals are measured: cells, weights, what one unit moves, what is paid."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_MOVES = ("publish/marginals/test_measuring.py::test_one_unit_moves_every_block_within_its_sensitivity",)
_CHARGE = ("publish/marginals/test_measuring.py::test_the_charge_is_recomputed_from_its_line",)
_CELLS = ("publish/marginals/test_coded_columns.py::test_a_row_is_in_the_cell_that_sql_says",)

MUTANTS = (
    Mutant(
        "rows of a unit count whole, however many it has",
        Kind.LIMITS,
        "plan.bounding:bound_by_unit_weights",
        "    return _bound_plan(plan, Strategy.REWEIGHT, limits, groups, bits)",
        "    return _bound_plan(plan, Strategy.WHOLE, limits, groups, bits)",
        _MOVES,
    ),
    Mutant(
        "a block's sensitivity is that of one row",
        Kind.SENSITIVITY,
        "publish.marginals.measuring:ResidualBlock.sensitivity",
        "scaled.add_remove_sensitivity.total",
        "2 ** scaled.bits",
        _MOVES,
    ),
    Mutant(
        "blocks are measured without their grid in the sensitivity",
        Kind.SENSITIVITY,
        "publish.marginals.measuring:ResidualBlock.sensitivity",
        "max_weight, self.grid, relation",
        "max_weight, 1, relation",
        _MOVES,
    ),
    Mutant(
        "a replaced unit is charged as an added one",
        Kind.NEIGHBOURS,
        "publish.marginals.measuring:ResidualBlock.sensitivity",
        "scaled.sensitivity",
        "scaled.added",
        _MOVES,
    ),
    Mutant(
        "the number of rows is taken as public where units have several",
        Kind.NEIGHBOURS,
        "publish.marginals.measuring:has_fixed_total",
        "return bounded_plan.every_row_is_unit and isinstance(bounded_plan.bounding_node.input, Scan)",
        "return isinstance(bounded_plan.bounding_node.input, Scan)",
        _MOVES,
    ),
    Mutant(
        "one noise serves all blocks",
        Kind.REUSE,
        "publish.marginals.measuring:measurement_batch",
        "planned.deviation",
        "plan.blocks[0].deviation",
        ("publish/marginals/test_measuring.py::test_sensitivities_of_blocks_hold_for_their_grid",),
    ),
    Mutant(
        "a price with δ pays for twice its ρ",
        Kind.CHARGE_ORDER,
        "curator.proposals.marginals:price_in_rho",
        "2 * sigma ** 2",
        "sigma ** 2",
        _CHARGE,
    ),
    Mutant(
        "a price is kept whatever the batch leaks",
        Kind.CHARGE_ORDER,
        "curator.proposals.marginals:MarginalsProposal._prepare_strategy",
        "if price.is_satisfied_by(batch.curve):",
        "if batch.curve:",
        ("publish/marginals/test_measuring.py::test_a_price_is_kept_by_what_is_run",),
    ),
    Mutant(
        "tighter limits are stored under the same name",
        Kind.REUSE,
        "curator.proposals.marginals:MarginalsProposal.plan_key",
        "self.workload, self.objective, self.limits)",
        "self.workload, self.objective)",
        ("publish/marginals/test_measuring.py::test_what_was_bought_is_free",),
    ),
    Mutant(
        "a value on an edge is in the bin below",
        Kind.KEYS,
        "plan.values.countable:_search_bin",
        "'<'",
        "'<='",
        _CELLS,
    ),
    Mutant(
        "a missing value is in the last bin",
        Kind.NAN,
        "plan.values.countable:coded_key_and_cell_values",
        "call('CASE', is_in_bins, bin_number)",
        "bin_number",
        _CELLS,
    ),
    Mutant(
        "the last edge is open",
        Kind.KEYS,
        "plan.values.countable:coded_key_and_cell_values",
        "'<='",
        "'<'",
        _CELLS,
    ),
    Mutant(
        "an answer that is too long is refused after the charge",
        Kind.CHARGE_ORDER,
        "release.releasing:dry_run",
        "    if len(body) > entries.MAX_BODY_LENGTH:",
        "    if not body:",
        ("publish/marginals/test_measuring.py::test_what_is_too_large_to_be_written_down_is_refused_before_spending",),
    ),
    Mutant(
        "counts that contradict a declaration decide another column",
        Kind.AUDIT,
        "publish.marginals.attributes:infer_dependency",
        "has_one_shown = is_shown.sum(1) == 1",
        "has_one_shown = is_shown.sum(1) >= 1",
        ("publish/marginals/test_implied.py",),
    ),
    Mutant(
        "cells that may have rows are left out of bounds",
        Kind.AUDIT,
        "publish.marginals.group_totals:bound_totals",
        "np.where(possible, weights.high, -np.inf)",
        "np.where(possible.all(), weights.high, -np.inf)",
        ("publish/marginals/test_implied.py",),
    ),
    Mutant(
        "levels may overlap",
        Kind.KEYS,
        "policy.codings:_parse_bins",
        "if not set(level_starts) <= set(finer_starts) or level_starts[0] != starts[0] or level_end != end:",
        "if level_starts[0] != starts[0] or level_end != end:",
        ("policy/test_codings.py::test_mistakes_in_cells_are_named",),
    ),
)

test_the_tests_of_publishing_notice = suite(MUTANTS)
