"""Seeded bugs where clipping leaves units out, or scales their rows one by one, and where units are numbered."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_UNITS = "engine/test_clipped_units.py"
_ROWS = (f"{_UNITS}::test_rows_are_scaled_to_the_norm_of_their_unit",)
_LEFT_OUT = (f"{_UNITS}::test_leaving_units_out_that_no_length_clips_changes_no_total",)
_BEYOND = (f"{_UNITS}::test_no_unit_beyond_a_cap_or_a_length_is_left_out",)
_MIXED = (f"{_UNITS}::test_totals_of_mixed_signs_are_scaled_group_by_group",)
_NUMBERS = ("engine/test_unit_numbers.py",)
_SCALING = "engine.lowering.clip_scaling"
MUTANTS = (
    Mutant(
        "a unit of one row more than a group may have is left out",
        Kind.LIMITS,
        f"{_SCALING}:may_exceed_norm",
        "apply(ScalarFunction.GREATER, in_one_group, integer_constant(max_rows_per_group))",
        "apply(ScalarFunction.GREATER, in_one_group, integer_constant(max_rows_per_group + 1))",
        _BEYOND,
    ),
    Mutant(
        "every group of a unit counts as one that has a row to itself",
        Kind.LIMITS,
        f"{_SCALING}:may_exceed_norm",
        "apply(ScalarFunction.SUBTRACT, Reference('d'), integer_constant(1))",
        "Reference('d')",
        _BEYOND,
    ),
    Mutant(
        "the rows of other groups are no part of a length",
        Kind.SENSITIVITY,
        f"{_SCALING}:may_exceed_norm",
        "apply(ScalarFunction.ADD, apply(ScalarFunction.MULTIPLY, capped, capped), others)",
        "apply(ScalarFunction.MULTIPLY, capped, capped)",
        _BEYOND,
    ),
    Mutant(
        "a length of one more is left out",
        Kind.SENSITIVITY,
        f"{_SCALING}:may_exceed_norm",
        "apply(ScalarFunction.GREATER, squared_rows, integer_constant(max_squared_rows))",
        "apply(ScalarFunction.GREATER, squared_rows, integer_constant(max_squared_rows + 1))",
        _BEYOND,
    ),
    Mutant(
        "numbers of rows are squared whatever they are",
        Kind.WRAP,
        f"{_SCALING}:may_exceed_norm",
        "apply(ScalarFunction.LEAST, in_one_group, integer_constant(max_rows_per_group + 1))",
        "in_one_group",
        (f"{_UNITS}::test_numbers_of_rows_are_squared_within_63_bits",),
    ),
    Mutant(
        "one remainder too many is counted",
        Kind.LIMITS,
        "engine.spellings.spelling:CommonSpelling.count_distinct_residues",
        "BIT_COUNT(BIT_OR(CAST(1 AS BIGINT) << {x}))",
        "BIT_COUNT(BIT_OR(CAST(1 AS BIGINT) << {x})) + 1",
        _LEFT_OUT,
    ),
    Mutant(
        "rows of one group are numbered apart",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_group_number",
        "for name, kind in zip(rows.keys, rows.kinds, strict=True)",
        "for name, kind in zip((*rows.keys, rows.values[1]), (*rows.kinds, Type.INTEGER), strict=True)",
        _LEFT_OUT,
    ),
    Mutant(
        "the length of one measure is that of all",
        Kind.SENSITIVITY,
        f"{_SCALING}:max_squared_rows_of",
        "min((part.max_squared_rows for part in scaling))",
        "2 * max((part.max_squared_rows for part in scaling))",
        _LEFT_OUT,
    ),
    Mutant(
        "rows are scaled to one row more",
        Kind.LIMITS,
        f"{_SCALING}:ClipScaling.scaled_row",
        "self.bound, Reference",
        "self.bound + self.bound // 100, Reference",
        _ROWS,
    ),
    Mutant(
        "a unit within the norm of one measure is not scaled in others",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_add_limited_rows",
        "apply(ScalarFunction.IS_NULL, Reference(column))",
        "apply(ScalarFunction.IS_NULL, Reference(unit_columns[0]))",
        _ROWS,
    ),
    Mutant(
        "a norm of one more is not scaled",
        Kind.LIMITS,
        f"{_SCALING}:ClipScaling.is_unit_norm_too_large",
        "integer_constant(self.unit_norm_bound)",
        "integer_constant(self.unit_norm_bound + 1)",
        _ROWS,
    ),
    Mutant(
        "rows are scaled where the cap of a group is below the norm",
        Kind.SENSITIVITY,
        f"{_SCALING}:can_scale_rows_separately",
        "limits.rows_per_group >= limits.total",
        "limits.rows_per_group <= limits.total",
        ("safety/test_tightness.py::test_claims_are_reached_when_a_unit_is_added",),
    ),
    Mutant(
        "rows are scaled one by one where their norm does not fit 64 bits",
        Kind.WRAP,
        f"{_SCALING}:can_scale_rows_separately",
        "max(max_totals) <= MAX_UNIT_TOTAL",
        "True",
        (f"{_UNITS}::test_rows_that_add_up_beyond_64_bits_stay_within_the_norm",),
    ),
    Mutant(
        "rows of mixed signs are scaled one by one",
        Kind.SENSITIVITY,
        f"{_SCALING}:can_scale_rows_separately",
        "0 in (measure.row_contribution_bounds or ())",
        "measure.row_contribution_bounds",
        _MIXED,
    ),
    Mutant(
        "units of as many rows have one number",
        Kind.LIMITS,
        "engine.lowering.sample_ranks:number_heavy_units",
        "Rank((), ())",
        "Reference('n', 'r')",
        _NUMBERS,
    ),
    Mutant(
        "a stage is numbered anew wherever it is read",
        Kind.LIMITS,
        "engine.spellings.generator:_materialised_keyword",
        "return 'MATERIALIZED ' if numbers_rows else ''",
        "return 'NOT MATERIALIZED ' if numbers_rows else ''",
        ("engine/test_unit_numbers.py::test_a_stage_whose_rows_are_numbered_is_computed_once",),
    ),
    Mutant(
        "a server numbers units",
        Kind.HOSTILE,
        "engine.lowering.reading_statements:reading_statement",
        "return _STATEMENTS[type(reading)](reading, sampling_key)",
        "return number_heavy_units(_STATEMENTS[type(reading)](reading, sampling_key))",
        _NUMBERS,
    ),
)
test_the_tests_of_clipped_units_notice = suite(MUTANTS)
