"""Seeded bugs in what is said about one unit: sensitivities, limits, ranges."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "reweighting claims the norm of clipping",
        Kind.SENSITIVITY,
        "plan.bounding:_add_remove_sensitivity",
        "return Sensitivity(coordinates, rows * size, total=rows * size)",
        "return Sensitivity(coordinates, per_group * size, total=total * size)",
        ("safety/test_tightness.py::test_claims_are_reached_when_a_unit_is_added",),
    ),
    Mutant(
        "a sum moves by the width of its range",
        Kind.SENSITIVITY,
        "plan.aggregates.measures:Sum.max_row_contribution",
        "return max(1, abs(low), abs(high))",
        "return max(1, high - low)",
        ("plan/test_bounding.py::test_sums_are_counts_times_the_largest_size",),
    ),
    Mutant(
        "a sum moves by the upper end of its range",
        Kind.SENSITIVITY,
        "plan.aggregates.measures:Sum.max_row_contribution",
        "return max(1, abs(low), abs(high))",
        "return max(1, abs(high))",
        ("plan/test_bounding.py::test_sums_are_counts_times_the_largest_size",),
    ),
    Mutant(
        "the quotient by a range around zero is bounded",
        Kind.SENSITIVITY,
        "plan.values.functions.numeric:_divide",
        "if divisor is None or divisor[0] <= 0 <= divisor[1]:",
        "if divisor is None or divisor[0] == 0 == divisor[1]:",
        ("plan/test_functions.py::test_ranges",),
    ),
    Mutant(
        "values of both signs are replaced as values of one",
        Kind.NEIGHBOURS,
        "plan.bounding:_sensitivity_for_neighbours",
        "signed=scaled.signed)",
        "signed=False)",
        (
            "plan/test_bounding.py::test_replacing_a_unit_doubles_what_adding_it_does",
            "safety/test_tightness.py::test_claims_are_reached_when_a_unit_is_replaced",
        ),
    ),
    Mutant(
        "the ends of a range are rounded inward",
        Kind.ROUNDING,
        "plan.aggregates.measures:_clamp_ends_in_steps",
        "(math.floor(low / step), math.ceil(high / step))",
        "(math.ceil(low / step), math.floor(high / step))",
        ("plan/test_bounding.py::test_steps_hold_the_whole_range",),
    ),
    Mutant(
        "logarithms and powers are taken to be exact",
        Kind.ROUNDING,
        "plan.values.intervals:_step_outward",
        "        end = math.nextafter(end, toward)",
        "        break",
        ("plan/test_functions.py::test_ranges_of_logarithms_and_powers_are_tight_and_hold",),
    ),
    Mutant(
        "whole numbers are taken to have any size",
        Kind.WRAP,
        "plan.values.intervals:integer_domain",
        "> LARGEST_INTEGER:",
        "> 2**80:",
        ("plan/test_functions.py::test_ranges",),
    ),
    Mutant(
        "a joined row is one row",
        Kind.LIMITS,
        "plan.nodes:PublicJoin.max_rows_per_unit",
        "return None if input_rows is None else input_rows * self.multiplicity",
        "return input_rows",
        ("plan/test_bounding.py::test_a_row_joined_to_ten_changes_a_count_by_ten",),
    ),
    Mutant(
        "every join has one match",
        Kind.LIMITS,
        "plan.sql.public_tables:_max_matches",
        "    return max(1, min(upper_bounds))",
        "    return 1",
        (
            "plan/test_sql.py::test_a_question_means_what_is_written_below_it",
            "safety/test_regressions.py::test_joined_rows_are_counted_as_often_as_they_join",
        ),
    ),
    Mutant(
        "limits can be loosened",
        Kind.LIMITS,
        "plan.limits:ContributionLimits.tighten",
        "exact_integer(value, name, at_least=1) > maximum:",
        "exact_integer(value, name, at_least=1) > 10**9:",
        ("plan/test_bounding.py::test_limits_can_only_be_tightened",),
    ),
    Mutant(
        "groups are left out that one side of OR excludes",
        Kind.KEYS,
        "plan.values.expressions:conjuncts",
        "condition.function == 'AND'",
        "condition.function in ('AND', 'OR')",
        (
            "plan/test_keys.py::test_groups_stay_unless_the_condition_is_about_them_alone",
            "plan/test_keys.py::test_rows_are_in_no_group_that_was_left_out",
        ),
    ),
)

test_the_tests_of_plans_notice = suite(MUTANTS)
