"""Seeded bugs where columns are coded and marginals are measured: cells, weights, what one unit moves, what is paid."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_MOVES = ("publish/marginals/test_measuring.py::test_one_unit_moves_every_block_within_its_sensitivity",)
_COSTS = ("publish/marginals/test_measuring.py::test_what_a_block_costs_is_what_the_plan_says",)
_CHARGE = ("publish/marginals/test_measuring.py::test_the_charge_is_recomputed_from_its_line",)
_CELLS = ("publish/marginals/test_coded_columns.py::test_a_row_is_in_the_cell_that_sql_says",)

MUTANTS = (
    Mutant(
        "rows of a unit count whole, however many it has",
        Kind.LIMITS,
        "plan/bounding.py",
        "    return _bounded(plan, Strategy.REWEIGHT, limits, groups, bits)",
        "    return _bounded(plan, Strategy.WHOLE, limits, groups, bits)",
        _MOVES,
    ),
    Mutant(
        "a block's sensitivity is that of one row",
        Kind.SENSITIVITY,
        "publish/marginals/measuring.py",
        "most, relation = scaled.added.total, scaled.sensitivity.neighbours",
        "most, relation = 2**scaled.bits, scaled.sensitivity.neighbours",
        _MOVES,
    ),
    Mutant(
        "blocks are measured without their grid in the sensitivity",
        Kind.SENSITIVITY,
        "publish/marginals/measuring.py",
        "return block_algebra.sensitivity(self.block, self.attributes, most, self.grid, relation, fixed_total=fixed)",
        "return block_algebra.sensitivity(self.block, self.attributes, most, 1, relation, fixed_total=fixed)",
        _MOVES,
    ),
    Mutant(
        "a replaced unit is charged as an added one",
        Kind.NEIGHBOURS,
        "publish/marginals/measuring.py",
        "most, relation = scaled.added.total, scaled.sensitivity.neighbours",
        "most, relation = scaled.added.total, scaled.added.neighbours",
        _MOVES,
    ),
    Mutant(
        "the number of rows is taken as public where units have several",
        Kind.NEIGHBOURS,
        "publish/marginals/measuring.py",
        "return bounded.every_row and isinstance(bounded.bound.input, Scan)",
        "return isinstance(bounded.bound.input, Scan)",
        _MOVES,
    ),
    Mutant(
        "one noise serves all blocks",
        Kind.REUSE,
        "publish/marginals/measuring.py",
        "Gaussian(each.deviation),",
        "Gaussian(plan.blocks[0].deviation),",
        ("publish/marginals/test_measuring.py::test_sensitivities_of_blocks_hold_for_their_grid",),
    ),
    Mutant(
        "a price with δ pays for twice its ρ",
        Kind.CHARGE_ORDER,
        "curator/proposals/marginals.py",
        "    return 1 / (2 * sigma**2)",
        "    return 1 / sigma**2",
        _CHARGE,
    ),
    Mutant(
        "a price is kept whatever the batch leaks",
        Kind.CHARGE_ORDER,
        "curator/proposals/marginals.py",
        "            if price.kept_by(batch.curve):",
        "            if batch.curve:",
        ("publish/marginals/test_measuring.py::test_a_price_is_kept_by_what_is_run",),
    ),
    Mutant(
        "tighter limits are stored under the same name",
        Kind.REUSE,
        "curator/proposals/marginals.py",
        'measured = digest("marginals", *own, self.workload, self.objective, self.limits)',
        'measured = digest("marginals", *own, self.workload, self.objective)',
        ("publish/marginals/test_measuring.py::test_what_was_bought_is_free",),
    ),
    Mutant(
        "a value on an edge is in the bin below",
        Kind.KEYS,
        "plan/values/coded_keys.py",
        'below = _compare("<", column, starts[middle])',
        'below = _compare("<=", column, starts[middle])',
        _CELLS,
    ),
    Mutant(
        "a missing value is in the last bin",
        Kind.NAN,
        "plan/values/coded_keys.py",
        'return call("CASE", inside, number), tuple(range(len(coding.starts)))',
        "return number, tuple(range(len(coding.starts)))",
        _CELLS,
    ),
    Mutant(
        "the last edge is open",
        Kind.KEYS,
        "plan/values/coded_keys.py",
        '_compare("<=", column, coding.end)',
        '_compare("<", column, coding.end)',
        _CELLS,
    ),
    Mutant(
        "an answer that is too long is refused after the charge",
        Kind.CHARGE_ORDER,
        "release/releasing.py",
        "    if len(written) > entries.BODY:",
        "    if not written:",
        ("publish/marginals/test_measuring.py::test_what_is_too_large_to_be_written_down_is_refused_before_spending",),
    ),
    Mutant(
        "counts that contradict a declaration decide another column",
        Kind.AUDIT,
        "publish/marginals/implied.py",
        "seen = shown.sum(1) == 1",
        "seen = shown.sum(1) >= 1",
        ("publish/marginals/test_implied.py",),
    ),
    Mutant(
        "cells that may have rows are left out of bounds",
        Kind.AUDIT,
        "publish/marginals/bounds.py",
        "np.where(possible, weights.high, -np.inf)",
        "np.where(possible.all(), weights.high, -np.inf)",
        ("publish/marginals/test_implied.py",),
    ),
    Mutant(
        "levels may overlap",
        Kind.KEYS,
        "policy/codings.py",
        "if not set(joined) <= set(finer) or joined[0] != starts[0] or last != end:",
        "if joined[0] != starts[0] or last != end:",
        ("policy/test_codings.py::test_mistakes_in_cells_are_named",),
    ),
)

test_the_tests_of_publishing_notice = suite(MUTANTS)
