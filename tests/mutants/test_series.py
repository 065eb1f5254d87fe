"""Seeded bugs in batches, combinations of totals and snapshots."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "a combination's sensitivity forgets that a column has several rows",
        Kind.SENSITIVITY,
        "plan.readings.total_readings:LinearTotals.sensitivity",
        "sum(map(abs, column)) for column in columns",
        "max(map(abs, column)) for column in columns",
        ("plan/test_readings.py::test_no_unit_moves_combinations_further_than_derived",),
    ),
    Mutant(
        "a combination's squares are those of its largest weight",
        Kind.SENSITIVITY,
        "plan.readings.total_readings:LinearTotals.sensitivity",
        "sum((weight ** 2 for weight in column))",
        "max((weight ** 2 for weight in column))",
        ("plan/test_readings.py::test_no_unit_moves_combinations_further_than_derived",),
    ),
    Mutant(
        "a snapshot reads the source again",
        Kind.REUSE,
        "engine.duckdb.driver:DuckDBSnapshot._scan",
        "return self._copies.get(table.name) or super()._scan(table)",
        "return super()._scan(table)",
        ("release/test_series.py::test_every_step_of_a_series_sees_the_rows_of_its_first",),
    ),
    Mutant(
        "a statement over the source is remembered for the copy",
        Kind.REUSE,
        "engine.duckdb.driver:StatementReader._statement",
        "bounded() is reading.bounded and copies == scans",
        "bounded() is reading.bounded",
        ("release/test_series.py::test_a_statement_written_before_a_copy_was_made_is_not_read_after",),
    ),
    Mutant(
        "a snapshot is made of whatever the file holds now",
        Kind.CHARGE_ORDER,
        "engine.duckdb.driver:DuckDBSnapshot._check",
        "if self._uncopied_tables(reading):\n        self.sources.check_unchanged()",
        "",
        ("release/test_series.py::test_a_snapshot_begun_before_a_change_is_refused_for_free",),
    ),
    Mutant(
        "rows that are missing or not listed are in the first cell",
        Kind.KEYS,
        "engine.arrays:_CellLookup.cell_index",
        "self._known.get(lookup_key(key), len(self._known)) for key",
        "self._known.get(lookup_key(key), 0) for key",
        ("engine/test_dense_arrays.py::test_every_marginal_counts_every_row_in_one_cell",),
    ),
    Mutant(
        "whole numbers that are missing or not listed are in the first cell",
        Kind.KEYS,
        "engine.arrays:_least_and_lookup_table",
        "table = np.full(high - low + 3, len(cells), np.int32)",
        "table = np.full(high - low + 3, 0, np.int32)",
        ("engine/test_dense_arrays.py::test_every_marginal_counts_every_row_in_one_cell",),
    ),
    Mutant(
        "numbers that are missing or not listed are in the first cell",
        Kind.KEYS,
        "engine.arrays:_least_and_lookup_table",
        "table = np.full(high - low + 3, len(cells), np.int32)",
        "table = np.zeros(high - low + 3, np.int32)",
        ("engine/test_dense_arrays.py::test_whole_numbers_are_found_in_their_cells",),
    ),
    Mutant(
        "a coarse marginal is charged what a fine cell holds",
        Kind.SENSITIVITY,
        "plan.readings.dense_readings:cells_sensitivity",
        "added = Sensitivity(1, scaled.add_remove_sensitivity.total)",
        "added = Sensitivity(1, scaled.add_remove_sensitivity.per_group / 2)",
        ("engine/test_dense_arrays.py::test_one_unit_moves_no_marginal_further_than_derived",),
    ),
    Mutant(
        "a replaced unit moves a marginal like an added one",
        Kind.NEIGHBOURS,
        "plan.readings.dense_readings:cells_sensitivity",
        "if scaled.sensitivity.neighbours is Neighbours.ADD_REMOVE:",
        "if scaled.sensitivity.neighbours:",
        ("engine/test_dense_arrays.py::test_one_unit_moves_no_marginal_further_than_derived",),
    ),
    Mutant(
        "values of rows that the sample drops are counted",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:one_row_per_value_statement",
        "all_rows = RelationalUnion((light_rows, Select(columns, ranked, where=(*is_present, is_kept))))",
        "all_rows = RelationalUnion((light_rows, Select(columns, ranked, where=is_present)))",
        ("engine/test_dense_arrays.py::test_one_unit_moves_no_more_values_than_its_limits_allow",),
    ),
    Mutant(
        "a tree with one row too many is not limited",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_is_within_limits",
        "return max_rows is not None and max_rows <= allowed_rows",
        "return max_rows is not None and max_rows <= allowed_rows + 1",
        ("engine/lowering/test_relation_lowering.py",),
    ),
    Mutant(
        "equal tables in memory are one version",
        Kind.REUSE,
        "ledger.accounts.joined_sources:_describe_without_reading",
        "        return JoinedSource(MEMORY, content, part=part)",
        "        return JoinedSource(MEMORY, content)",
        ("ledger/accounts/test_joined_sources.py::test_no_version_tells_whether_two_tables_in_memory_are_equal",),
    ),
)

test_the_tests_of_series_notice = suite(MUTANTS)
