"""Seeded bugs in what is said, and sold, about values and rows beyond a limit."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_COUNTS = "safety/test_clipped.py"
_LINES = "plan/test_caveats.py"

MUTANTS = (
    Mutant(
        "of grouped rows one cell in each group counts",
        Kind.LIMITS,
        "plan.clipping:_questions_on_cells_beyond_bounds",
        "question_row_limit = limits.total if plan.keys else min(limits.rows, limits.rows_per_group)",
        "question_row_limit = limits.groups if plan.keys else min(limits.rows, limits.rows_per_group)",
        ("safety/test_clipped.py::test_of_grouped_rows_as_many_cells_count_as_rows_are_kept",),
    ),
    Mutant(
        "rows beyond the limit are counted, and not units",
        Kind.SENSITIVITY,
        "plan.clipping:_units_beyond_question",
        "value = call('CASE', is_beyond, literal(Type.INTEGER, 1), literal(Type.INTEGER, 0))",
        "value = call('CASE', is_beyond, _column_of_per_unit(unit, unit.results[0][0]), literal(Type.INTEGER, 0))",
        (f"{_COUNTS}::test_a_unit_far_beyond_the_limit_counts_once",),
    ),
    Mutant(
        "clamped cells are counted in more rows than count",
        Kind.LIMITS,
        "plan.clipping:_cells_beyond_question",
        "ContributionLimits(row_limit, 1, row_limit)",
        "ContributionLimits(100 * row_limit, 1, 100 * row_limit)",
        (f"{_COUNTS}::test_a_unit_far_beyond_the_limit_counts_once",),
    ),
    Mutant(
        "a unit at the limit passes for one beyond it",
        Kind.LIMITS,
        "plan.clipping:_any_exceeds",
        "call('>', column, literal(Type.INTEGER, limit))",
        "call('>=', column, literal(Type.INTEGER, limit))",
        (f"{_COUNTS}::test_a_unit_far_beyond_the_limit_counts_once",),
    ),
    Mutant(
        "clipped counts are shown without a charge",
        Kind.CHARGE_ORDER,
        "curator.proposals.limit_proposals:propose_clipped",
        "return ClippedProposal(context, {count.name: _counting_question(context, count, question) for count in counts}"
        ", question)",
        "import types; return types.SimpleNamespace(error=WorkloadProposal(context, {count.name: _counting_question("
        "context, count, question) for count in counts}).error, release=WorkloadProposal(context, {count.name: "
        "_counting_question(context, count, question) for count in counts}).preview)",
        (f"{_COUNTS}::test_counts_are_charged_once_recorded_and_free_again",),
    ),
    Mutant(
        "a cell that the scan moves to a bound passes for one inside",
        Kind.RANGES,
        "policy.domains:widen_bounds",
        "bounds=(_value_outside_bound(low, -1), _value_outside_bound(high, 1))",
        "bounds=(low, high)",
        (f"{_COUNTS}::test_every_row_a_unit_has_clamped_cells_and_no_limit_on_rows",),
    ),
    Mutant(
        "a condition at its column's bound says nothing of the values beyond",
        Kind.RANGES,
        "plan.caveats:_insensitive_comparison_ends",
        "last <= high, first > low",
        "True, True",
        (f"{_LINES}::test_a_line_names_the_bound_or_value_that_moves_a_number",),
    ),
    Mutant(
        "a number says nothing of the limit on rows",
        Kind.RANGES,
        "plan.caveats:can_limits_drop_rows",
        "return proven_rows_per_unit(plan.source) is None and (not is_proven)",
        "return False",
        (f"{_LINES}::test_limits_on_the_rows_of_a_unit_are_named_with_their_numbers",),
    ),
)

_WORST = "safety/test_worst_cases.py"
WORST_CASE_MUTANTS = (
    Mutant(
        "a worst case is computed against bounds, not against what is possible",
        Kind.RANGES,
        "plan.clipping:_worst_case_of_value",
        "least, largest = (Fraction(end) for end in ends)",
        "least, largest = (low, high)",
        (f"{_WORST}::test_no_world_moves_a_number_beyond_its_worst_case",),
    ),
    Mutant(
        "impossible cells are clamped like any other on DuckDB",
        Kind.RANGES,
        "engine.duckdb.ruled_scans:_RuledColumns.null_test_sql",
        "[] if rules.possible is None else",
        "[] if True else",
        (f"{_WORST}::test_impossible_cells_are_missing_and_further_rows_of_each_unit_are_left_out",),
    ),
    Mutant(
        "impossible cells are clamped like any other on servers",
        Kind.RANGES,
        "engine.sources.clean_scans:_ScanBuilder.is_null",
        "if possible is not None:",
        "if False:",
        ("engine/postgres/test_postgres_cell_rules.py::test_cells_mean_the_same_on_postgresql",),
    ),
    Mutant(
        "possible rows are counted in the whole table, not of each unit",
        Kind.LIMITS,
        "engine.lowering.relation_lowering:RelationLowering.lower_row_limit",
        "row_rank = Rank(partition, (Reference('t'), *map(Reference, short_names)))",
        "row_rank = Rank((), (Reference('t'), *map(Reference, short_names)))",
        (f"{_WORST}::test_impossible_cells_are_missing_and_further_rows_of_each_unit_are_left_out",),
    ),
    Mutant(
        "possible rows are declared and not enforced",
        Kind.LIMITS,
        "engine.lowering.relation_lowering:RelationLowering.lower_scan",
        "if base.possible_rows is not None:",
        "if False:",
        (f"{_WORST}::test_impossible_cells_are_missing_and_further_rows_of_each_unit_are_left_out",),
    ),
    Mutant(
        "a number says nothing of rows without an id",
        Kind.RANGES,
        "plan.caveats:_tree_limit_phrases",
        "if node.table in row_limits.missing_ids:",
        "if False:",
        (
            "curator/test_number_caveats.py::test_rows_without_an_id_are_named_unless_the_policy_declares_that_all_have_one",
        ),
    ),
    Mutant(
        "an answer from a published object says nothing of limits",
        Kind.RANGES,
        "publish.cells.answering:answer_query",
        "tuple(evaluator.notes()), caveats=caveats)",
        "tuple(evaluator.notes()))",
        ("curator/test_number_caveats.py::test_a_published_object_says_what_moves_its_numbers",),
    ),
    Mutant(
        "noise is coloured like a number, and scales the colours of others",
        Kind.RANGES,
        "plots.heat_maps:_is_noisy",
        "return bool(grid.noisy) and grid.noisy[row][column]",
        "return False",
        ("plots/test_pictures.py::test_a_map_gives_noise_no_colour_and_no_part_in_the_scale",),
    ),
    Mutant(
        "counts of the whole table narrow the mean of a group",
        Kind.RANGES,
        "plan.clipping:_worst_case",
        "is_part = bool(plan.keys) or measure.where is not None",
        "is_part = False",
        (f"{_WORST}::test_counts_narrow_no_mean_of_a_part",),
    ),
    Mutant(
        "rows beyond a limit of groups are no rows beyond a limit",
        Kind.LIMITS,
        "plan.clipping:_worst_case",
        "within = min(limits.rows, limits.rows_per_group, *((limits.groups,) if plan.keys else ()))",
        "within = min(limits.rows, limits.rows_per_group)",
        (f"{_WORST}::test_no_unit_is_beyond_a_limit_that_no_unit_can_reach",),
    ),
    Mutant(
        "rows that a public table repeats count once in a worst case",
        Kind.LIMITS,
        "plan.clipping:_worst_case",
        "rows = (scan.possible_rows or 1) * max_rows_per_private_row(plan.source)",
        "rows = (scan.possible_rows or 1)",
        (f"{_WORST}::test_a_row_that_a_public_table_doubles_counts_twice_in_the_worst_case",),
    ),
    Mutant(
        "a worst case forgets the units beyond the limit",
        Kind.RANGES,
        "plan.clipping:WorstCase.proven_shift",
        "return self.cell.multiplied_by(counts.clamped).plus(self.unit.multiplied_by(counts.units))",
        "return self.cell.multiplied_by(counts.clamped)",
        (f"{_WORST}::test_no_world_moves_a_number_beyond_its_worst_case",),
    ),
)

_ADVICE = "curator/previews/test_advising.py"
ADVICE_MUTANTS = (
    Mutant(
        "advice on bounds is given before the counts behind it are bought",
        Kind.REUSE,
        "curator.proposals.limit_proposals:ClippedQuestion.bought_tip",
        "return None if bought is None else self._tip_if_large_share(bought)",
        "return self._tip_if_large_share(self.preview(epsilon=1))",
        (f"{_ADVICE}::test_a_bought_share_that_is_large_leads_to_private_bounds_and_limits",),
    ),
    Mutant(
        "larger groups are told to help a mean beyond the sizes that are forecast",
        Kind.RANGES,
        "curator.previews.advising:_error_ratios",
        "after / before / (group_growth if size is None else 1)",
        "after / before / group_growth",
        (f"{_ADVICE}::test_larger_groups_help_a_mean_only_as_far_as_they_are_forecast",),
    ),
    Mutant(
        "numbers without a range are not among those that are mostly noise",
        Kind.RANGES,
        "release.answers.answer:Answer.noisy_numbers",
        "flag or value is None or interval is None",
        "flag",
        (f"{_ADVICE}::test_an_answer_that_is_mostly_noise_says_so_from_released_numbers_alone",),
    ),
)

_COMBINED = "curator/test_combined_questions.py"
COMBINED_MUTANTS = (
    Mutant(
        "a column of united rows has the lines of the first SELECT alone",
        Kind.RANGES,
        "plan.caveats:_combined_result_indices",
        "sorted({result for results in column for result in results})",
        "sorted(column[0])",
        (f"{_COMBINED}::test_a_column_has_the_lines_of_every_select_that_it_reads",),
    ),
    Mutant(
        "united quantiles are said to have the smaller of their rank errors",
        Kind.RANGES,
        "curator.proposals.combined_questions:CombinedQuestion._rank_errors_and_notes",
        "ranks[output.name] = max(errors)",
        "ranks[output.name] = min(errors)",
        (f"{_COMBINED}::test_quantiles_in_a_union_keep_the_larger_of_their_rank_errors",),
    ),
    Mutant(
        "a column without a range has no line on what moves it",
        Kind.RANGES,
        "release.answers.answer:build_answer",
        "{*intervals, *chosen, *ranks}",
        "{*intervals, *chosen}",
        (f"{_COMBINED}::test_a_column_without_a_range_has_its_line_and_nothing_of_a_range",),
    ),
)

test_the_tests_of_lines_beside_combined_numbers_notice = suite(COMBINED_MUTANTS)
test_the_tests_of_worst_cases_notice = suite(WORST_CASE_MUTANTS)
test_the_tests_of_advice_on_noise_notice = suite(ADVICE_MUTANTS)
test_the_tests_of_clipped_counts_notice = suite(MUTANTS)
