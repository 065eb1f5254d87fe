"""Seeded bugs where rows are drawn from a model, typed, answered from and written to files."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_DRAWN = ("publish/test_drawing.py",)
_TYPED = ("publish/test_typed_rows.py",)
_FILES = ("publish/files/test_model_files.py",)
_CELLS = ("publish/marginals/test_coded_columns.py::test_a_row_is_in_the_cell_that_sql_says",)
_SPIKES = ("policy/test_codings.py",)
_RANGES = ("publish/test_synthetic.py::test_ranges_are_wider_where_noise_decided_what_was_measured",)
_ROWS = ("publish/test_synthetic.py",)

MUTANTS = (
    Mutant(
        "rows of one parent have their strata in the order of rows",
        Kind.SAMPLING,
        "publish.sampling:_shuffle_within_parents",
        "    keys = bits.random_uint64(len(parents), source) >> np.uint64(parent_bits)",
        "    keys = np.zeros(len(parents), np.uint64)",
        _DRAWN,
    ),
    Mutant(
        "the point of a stratum is its middle",
        Kind.SAMPLING,
        "publish.sampling:_stratified_counts",
        "points[np.minimum(strata, rows - 1)]",
        "2.0 ** 31",
        _DRAWN,
    ),
    Mutant(
        "cells are drawn as they come, and not by their weights",
        Kind.SAMPLING,
        "publish.sampling:_cumulative_distribution",
        "    cumulative = np.cumsum(scaled, axis=1)",
        "    cumulative = np.cumsum(scaled > 0, axis=1)",
        _DRAWN,
    ),
    Mutant(
        "a value with a cell of its own is also drawn from the bin around it",
        Kind.SAMPLING,
        "publish.sampling:ColumnSampler._steps_of_ranks",
        "steps += (codes == cell) & (steps >= left_out)",
        "steps += 0 * left_out * cell",
        _TYPED,
    ),
    Mutant(
        "the end of a bin of reals is drawn from it",
        Kind.ROUNDING,
        "publish.sampling:_first_step_and_count",
        "        high = math.ceil(value_number(cell.high) / step) - 1",
        "        high = math.floor(value_number(cell.high) / step)",
        _TYPED,
    ),
    Mutant(
        "what is missing is drawn as a value",
        Kind.NAN,
        "publish.sampling:SampledRows._arrow_array",
        "return pyarrow.array(values, mask=self.missing_mask(index)).cast(kind)",
        "return pyarrow.array(values).cast(kind)",
        _TYPED,
    ),
    Mutant(
        "rows that meet an impossible condition are left where chance does not help",
        Kind.KEYS,
        "publish.sampling:remove_impossible_rows",
        "        _replace_rows(rows, offending, read_columns, source)",
        "        offending.sort()",
        _TYPED,
    ),
    Mutant(
        "conditions are not looked at where they cut cells",
        Kind.KEYS,
        "publish.sampling:possibly_impossible_rows",
        "condition.truths.true",
        "condition.surely",
        _TYPED,
    ),
    Mutant(
        "a spike is in its bin too",
        Kind.KEYS,
        "plan.values.countable:coded_key_and_cell_values",
        "call('CASE', *spike_branches, is_in_bins, shifted_number)",
        "call('CASE', is_in_bins, shifted_number, *spike_branches)",
        _CELLS,
    ),
    Mutant(
        "spikes may leave a bin that no row can be in",
        Kind.KEYS,
        "policy.codings:_check_no_empty_bin",
        "        if spikes_in_bin > (last_value - start) // step:",
        "        if spikes_in_bin > (last_value - start) // step + 1:",
        _SPIKES,
    ),
    Mutant(
        "ranges take adaptive noise for planned noise",
        Kind.SAMPLING,
        "publish.synthetic:Synthetic._first_measurement_precisions",
        "self.released.method == 'independent' and self.released.complete",
        "self.released.method != 'independent'",
        _RANGES,
    ),
    Mutant(
        "the number of rows is told without its noise's range",
        Kind.SAMPLING,
        "publish.synthetic:Synthetic.quality",
        "(max(0.0, middle - width), max(0.0, middle) + width)",
        "(middle + 100 * width, middle + 101 * width)",
        _ROWS,
    ),
    Mutant(
        "a charge leaves choices out",
        Kind.CHARGE_ORDER,
        "publish.marginals.charge_verification:step_cost",
        "step.times * (mechanism.epsilon if pure else mechanism.epsilon ** 2 / 8)",
        "Fraction(0)",
        _FILES,
    ),
    Mutant(
        "noise that is not what was measured is not noticed",
        Kind.CHARGE_ORDER,
        "publish.synthetic:_check_charge",
        "    same_noise = sizes == released.noise_sizes",
        "    same_noise = len(sizes) <= len(released.marginals)",
        _FILES,
    ),
    Mutant(
        "a file tells what is left and who bought it",
        Kind.REUSE,
        "publish.files.model_files:to_bytes",
        "public_release, steps, public_receipt(receipt), *sets)",
        "public_release, steps, receipt, *sets)",
        _FILES,
    ),
    Mutant(
        "a file keeps the salt of its line",
        Kind.REUSE,
        "publish.files.model_files:to_bytes",
        "    public_release = replace(released, purchase=released.purchase.without_salt)",
        "    public_release = released",
        _FILES,
    ),
    Mutant(
        "numbers are read before their count is known to fit",
        Kind.WRAP,
        "publish.files.model_files:_read_model",
        "    if sum(counts) > _MAX_CELLS or manifest.tree.cell_count(sizes) > _MAX_CELLS:",
        "    if sum(counts) < 0:",
        _FILES,
    ),
)

test_the_tests_of_rows_notice = suite(MUTANTS)
