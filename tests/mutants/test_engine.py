"""Seeded bugs where rows are read: clamps, limits, cells that are no numbers."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TIGHT = "safety/test_tightness.py::test_claims_are_reached_when_a_unit_is_added"


def _reached(asked: str, strategy: str) -> tuple[str, ...]:
    """The test that a unit moves the totals of a question as far as is claimed, and no further."""
    return (f"{_TIGHT}[SELECT {asked}-Strategy.{strategy}]",)


_COUNT = "COUNT(*) FROM people"
_COUNTS = "region, COUNT(*) FROM people GROUP BY region"
_PEOPLE = "region, COUNT(DISTINCT who) FROM people GROUP BY region"
_SUMS = "region, SUM(age) FROM people GROUP BY region"
MUTANTS = (
    Mutant(
        "totals are not held to 64 bits",
        Kind.WRAP,
        "engine.arrays:_clamp_totals",
        "return np.clip(totals, -LARGEST_INTEGER, LARGEST_INTEGER).astype(np.int64)",
        "return totals.astype(np.int64)",
        ("safety/test_held.py::test_totals_are_held_to_what_64_bits_hold",),
    ),
    Mutant(
        "an engine that a statement broke is charged for",
        Kind.CHARGE_ORDER,
        "engine.duckdb.connection:Sources._log_and_run",
        "self._has_failed = True",
        "pass",
        ("engine/spellings/test_duckdb.py::test_an_engine_that_failed_is_tried_before_the_next_charge",),
    ),
    Mutant(
        "a lambda over items looks its values up in a table",
        Kind.HOSTILE,
        "engine.duckdb.connection:Sources._list_column",
        "can_join=False",
        "can_join=True",
        ("engine/duckdb/test_scan.py::test_items_of_a_list_may_have_many_declared_values",),
    ),
    Mutant(
        "many declared values are not looked up",
        Kind.KEYS,
        "engine.duckdb.scan:_listed_value",
        "return f'CASE WHEN {value} IN (SELECT v FROM {choices}) THEN {value} END'",
        "return value",
        ("engine/duckdb/test_scan.py::test_a_table_of_many_values_means_what_a_list_of_them_does",),
    ),
    Mutant(
        "rows without an id are read where no other column is",
        Kind.LIMITS,
        "engine.duckdb.scan:TableScan.select",
        "return select_with_units(cells or {'sf_row': '0'}, self.source, self.owner)",
        "return select_with_units(cells or {'sf_row': '0'}, self.source, self.owner if cells else None)",
        ("engine/test_narrow_scans.py::test_some_columns_have_the_rows_of_all",),
    ),
    Mutant(
        "a join reads no column that is only compared",
        Kind.KEYS,
        "engine.lowering.relation_lowering:_join_public_table",
        "_distinct_names((field for field in names if field.source == join.source), compared)",
        "_distinct_names(field for field in names if field.source == join.source)",
        ("engine/test_narrow_scans.py::test_a_statement_reads_no_other_column",),
    ),
    Mutant(
        "cells are clamped from above alone",
        Kind.SENSITIVITY,
        "engine.duckdb.scan:_clamp",
        "THEN LEAST(GREATEST({sql}, {low}), {high}) END",
        "THEN LEAST({sql}, {high}) END",
        ("engine/duckdb/test_scan.py::test_hostile_cells_become_values_of_the_domain_or_null",),
    ),
    Mutant(
        "a unit's norm lets signs cancel",
        Kind.SENSITIVITY,
        "engine.lowering.bounded_totals:_Scaling.norm",
        "narrow(_sum(self._size())) if self._short else _sum(self._size())",
        "apply(ScalarFunction.ABS, _sum(_added([Reference(name) for name in self.own])))",
        _reached(_SUMS, "CLIP_L1"),
    ),
    Mutant(
        "what is computed from columns is not clamped after rounding",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:steps",
        "return clamped(step_count, integer_constant(low), integer_constant(high))",
        "return step_count",
        (_TIGHT,),
        accepted="what is computed is clamped before it is divided into steps, and dividing is off by less than half a "
        "step: the second clamp guards against ranges that a function's rule would get wrong, and none is known to",
    ),
    Mutant(
        "comparisons are folded by ends of Parquet columns that leave NaN out",
        Kind.NAN,
        "engine.duckdb.owners:parquet_relation",
        "union_by_name = false, can_have_nan = true",
        "union_by_name = false",
        ("engine/duckdb/test_scan.py::test_no_number_is_none_whatever_else_a_parquet_file_holds",),
    ),
    Mutant(
        "a cell that is no number counts as the largest",
        Kind.NAN,
        "engine.duckdb.scan:_bounded_real",
        "WHEN {number} <= CAST('inf' AS DOUBLE) THEN {high} END",
        "WHEN {number} > {high} THEN {high} END",
        (
            "engine/duckdb/test_scan.py::test_each_cell_means_the_same_in_every_kind_of_source",
            "engine/duckdb/test_scan.py::test_mixed_and_missing_cells_of_pandas",
        ),
    ),
    Mutant(
        "no number is a whole number",
        Kind.NAN,
        "engine.duckdb.scan:_bounded_integer",
        "CASE WHEN isnan({number}) OR {number} <> trunc({number}) THEN NULL",
        "CASE WHEN {number} <> trunc({number}) THEN NULL",
        (
            "engine/duckdb/test_scan.py::test_each_cell_means_the_same_in_every_kind_of_source",
            "engine/duckdb/test_scan.py::test_mixed_and_missing_cells_of_pandas",
        ),
    ),
    Mutant(
        "what cannot be computed stays in the sum",
        Kind.NAN,
        "engine.lowering.row_lowering:RowLowering.limited",
        "inside = apply(ScalarFunction.BETWEEN, size, real(SMALLEST_REAL), real(LARGEST_REAL))",
        "inside = apply(ScalarFunction.AT_LEAST, size, real(SMALLEST_REAL))",
        ("engine/lowering/test_row_lowering.py::test_hostile_values_in_every_place",),
    ),
    Mutant(
        "the remainder by zero is an error",
        Kind.NAN,
        "engine.lowering.applications:Application.divisor",
        "return case(apply(ScalarFunction.UNEQUAL, y, Constant(0, kind)), y, otherwise=missing(kind))",
        "return y",
        ("engine/lowering/test_row_lowering.py::test_hostile_values_in_every_place",),
    ),
    Mutant(
        "a real too large for a whole number is an error",
        Kind.NAN,
        "engine.lowering.row_lowering:_nearest",
        "is_in_range = apply(ScalarFunction.BETWEEN, x, real(-_LARGEST_HELD), real(_LARGEST_HELD))",
        "is_in_range = present(x)",
        ("engine/lowering/test_row_lowering.py::test_hostile_values_in_every_place",),
    ),
    Mutant(
        "rows of nobody count without a limit",
        Kind.LIMITS,
        "engine.duckdb.scan:has_id",
        "f'{unit.sql} IS NOT NULL'",
        "'TRUE'",
        (
            "safety/test_regressions.py::test_rows_without_an_owner_are_nobodys",
            "engine/duckdb/test_scan.py::test_ids_are_grouped_as_they_are_and_rows_without_one_dropped",
        ),
    ),
    Mutant(
        "the heavy have one row more than their limit",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_heavy_units",
        "having = apply(ScalarFunction.GREATER, count, integer_constant(max_rows))",
        "having = apply(ScalarFunction.GREATER, count, integer_constant(max_rows + 1))",
        _reached(_COUNT, "REWEIGHT"),
    ),
    Mutant(
        "units of one row more than a group may have are not clipped",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_clip",
        "heavy = _heavy_units(rows, _light_rows(bounded, scaling))\n    stages",
        "heavy = _heavy_units(rows, 1 + _light_rows(bounded, scaling))\n    stages",
        _reached(_COUNTS, "CLIP_L1"),
    ),
    Mutant(
        "people of one group more than count are not clipped",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_clip_pairs",
        "stages = (pairs, _heavy_units(pair_rows, _light_rows(bounded, scaling)), heavy_pairs",
        "stages = (pairs, _heavy_units(pair_rows, 1 + _light_rows(bounded, scaling)), heavy_pairs",
        _reached(_PEOPLE, "CLIP_L1"),
    ),
    Mutant(
        "a group is clipped to one row more",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_Scaling.of",
        "measure.size * per_group",
        "measure.size * (per_group + 1)",
        _reached(_COUNTS, "CLIP_L1"),
    ),
    Mutant(
        "a unit is clipped to one row more in all",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_Scaling.of",
        "if squared else total * size\n",
        "if squared else total * size + size\n",
        _reached(_COUNTS, "CLIP_L1"),
    ),
    Mutant(
        "a sample keeps one group more",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_rank_rows_by_digest",
        "integer_constant(max_groups)",
        "integer_constant(max_groups + 1)",
        (_TIGHT,),
    ),
    Mutant(
        "a sample keeps one row more in a group",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_rank_rows_by_digest",
        "integer_constant(max_rows_per_group)",
        "integer_constant(max_rows_per_group + 1)",
        _reached(_COUNTS, "SAMPLE"),
    ),
    Mutant(
        "a sample keeps one row more in all",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_rank_rows_by_digest",
        "integer_constant(max_rows)",
        "integer_constant(max_rows + 1)",
        _reached(_COUNTS, "SAMPLE"),
    ),
    Mutant(
        "a sample keeps the same rows in every release",
        Kind.REUSE,
        "engine.lowering.bounded_totals:_digests",
        "secret = Constant(str(key), Type.TEXT)",
        'secret = Constant("0", Type.TEXT)',
        ("safety/test_samples.py::test_each_key_samples_anew",),
    ),
    Mutant(
        "a public table's rows are counted where they are fewest",
        Kind.LIMITS,
        "engine.duckdb.connection:Sources.max_rows_per_value",
        "SELECT coalesce(max(n), 1)",
        "SELECT coalesce(min(n), 1)",
        (
            "engine/spark/test_sources.py::test_public_tables_tell_their_domains",
            "engine/spark/test_sources.py::test_nothing_is_counted_for_free_in_a_private_table",
        ),
    ),
    Mutant(
        "weights are rounded up",
        Kind.ROUNDING,
        "engine.lowering.bounded_totals:_excess",
        "apply(ScalarFunction.MULTIPLY, value, integer_constant(max_rows << bits))",
        "apply(ScalarFunction.ADD, apply(ScalarFunction.MULTIPLY, value, integer_constant(max_rows << bits)),"
        " apply(ScalarFunction.SUBTRACT, Reference('n'), integer_constant(1)))",
        _reached(_COUNT, "REWEIGHT"),
    ),
    Mutant(
        "clipped values are rounded up",
        Kind.ROUNDING,
        "engine.lowering.bounded_totals:_scale_to",
        "return apply(ScalarFunction.TOWARD_ZERO, apply(ScalarFunction.DIVIDE, product, size))",
        "up = apply(ScalarFunction.CEILING, apply(ScalarFunction.DIVIDE, product, size))\n"
        "    return apply(ScalarFunction.NEAREST, up)",
        _reached(_COUNTS, "CLIP_L2"),
    ),
    Mutant(
        "a file replaced while it is read is not noticed",
        Kind.CHARGE_ORDER,
        "engine.duckdb.driver:StatementReader.read",
        "self._check_unchanged()",
        "pass",
        ("safety/test_order.py::test_a_file_that_is_replaced_while_it_is_read_gives_no_answer",),
    ),
    Mutant(
        "only groups with rows have totals",
        Kind.KEYS,
        "engine.arrays:align_totals",
        "    totals[row_of_group >= 0] = row_totals[row_of_group[row_of_group >= 0]]\n    return totals",
        "    return row_totals[row_of_group[row_of_group >= 0]]",
        (
            "release/test_releasing.py::test_totals_find_their_groups_whatever_the_order",
            "safety/test_outcomes.py::test_one_outcome_whoever_is_in_the_table",
        ),
    ),
    Mutant(
        "texts keep the collation of their source",
        Kind.KEYS,
        "engine.duckdb.scan:Cell.text",
        "f'({plain} COLLATE C)'",
        "plain",
        ("engine/test_collations.py::test_one_row_moves_a_joined_count_by_one",),
    ),
    Mutant(
        "a source may have one row more than its ceiling",
        Kind.LIMITS,
        "engine.duckdb.connection:Sources._check_ceiling",
        "if self._count_source_rows(table) > table.row_ceiling:",
        "if self._count_source_rows(table) > table.row_ceiling + 1:",
        ("engine/spark/test_sources.py::test_a_source_has_no_more_rows_than_its_ceiling",),
    ),
    Mutant(
        "the groups of a sample are ranked without its key",
        Kind.REUSE,
        "engine.lowering.bounded_totals:_digests",
        "apply(ScalarFunction.DIGEST, secret, *keys)",
        "apply(ScalarFunction.DIGEST, *keys)",
        ("safety/test_samples.py::test_each_key_chooses_groups_anew",),
    ),
    Mutant(
        "the rows of a sample are ranked without its key",
        Kind.REUSE,
        "engine.lowering.bounded_totals:_digests",
        "apply(ScalarFunction.DIGEST, secret, *keys, *values)",
        "apply(ScalarFunction.DIGEST, *keys, *values)",
        ("safety/test_samples.py::test_each_key_samples_anew",),
    ),
    Mutant(
        "units are counted as often as they have rows",
        Kind.LIMITS,
        "engine.spellings.generator:Generator._total",
        "f'COUNT(DISTINCT {argument}){over}'",
        "f'COUNT({argument}){over}'",
        ("engine/test_meanings.py::test_a_sample_counts_units_that_keep_a_row",),
    ),
    Mutant(
        "zero and minus zero are two units",
        Kind.LIMITS,
        "engine.duckdb.scan:exact_id",
        "f'CASE WHEN {unit.sql} = 0 THEN 0 ELSE {unit.sql} END'",
        "unit.sql",
        ("safety/test_regressions.py::test_zero_and_minus_zero_are_one_unit",),
        accepted="DuckDB groups, joins and counts the two zeros as one by itself; the scan does not rely on that",
    ),
    Mutant(
        "negative weights are rounded away from zero",
        Kind.ROUNDING,
        "engine.spellings.duckdb:DuckDBSpelling.divide_whole",
        "f'({x} // {y})'",
        "f'CAST(FLOOR(CAST({x} AS DOUBLE) / {y}) AS HUGEINT)'",
        ("safety/test_tightness.py::test_weights_of_negative_values_are_rounded_toward_zero",),
    ),
)

test_the_tests_of_engines_notice = suite(MUTANTS)
