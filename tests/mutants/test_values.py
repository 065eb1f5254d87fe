"""Seeded bugs of values: how many different ones there are, and which are most frequent."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LAW = ("mechanisms/test_group_choices.py::test_draws_follow_the_exact_law",)
_PAIRS = ("safety/test_values.py::test_pairs_of_a_unit_are_limited",)
_PANDAS = ("safety/test_values.py::test_within_limits_it_is_what_pandas_counts",)
_SEVERAL = ("safety/test_values.py::test_a_unit_of_several_rows_is_charged_for_all_of_them",)
_ASKED = "curator/test_values.py"
_MATCHED_NOISE = ("safety/test_values.py::test_the_noise_on_matched_values_covers_the_largest_moves",)
_WORLDS = ("plan/readings/test_value_readings.py::test_a_unit_adds_at_most_as_many_values_as_are_matched_to_it",)
MUTANTS = (
    Mutant(
        "counts are compared in 32 bits",
        Kind.WRAP,
        "mechanisms.selection:FrequentValues.choose",
        "table.astype(np.int64).astype(np.uint64)",
        "table.astype(np.int32).astype(np.uint64)",
        ("mechanisms/test_group_choices.py::test_counts_at_the_ends_of_64_bits",),
    ),
    Mutant(
        "every group is chosen with the same noise",
        Kind.REUSE,
        "mechanisms.races:draw_winners_of_rows",
        "    words = words.reshape(gaps.shape)\n",
        "    words = np.repeat(words[: gaps.shape[1]][None], len(gaps), axis=0)\n",
        _LAW,
    ),
    Mutant(
        "pairs beyond a limit are counted",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:totals_by_value_statement",
        "totals = _correct_totals(bounded_plan, rows, (heavy,), _sampling_change(rows, ranked, is_kept))",
        "totals = _unbounded_totals(rows)",
        _PAIRS,
    ),
    Mutant(
        "a unit keeps all its pairs",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:totals_by_value_statement",
        "_correct_totals(bounded_plan, rows, (heavy,), _sampling_change(rows, ranked, is_kept))",
        "_unbounded_totals(rows)",
        _PAIRS,
    ),
    Mutant(
        "a value that is missing counts as one more",
        Kind.NAN,
        "engine.lowering.bounded_totals:_distinct_pairs",
        "rows.select, where=(is_counted,), group_by=names)",
        "rows.select, group_by=names)",
        _PANDAS,
    ),
    Mutant(
        "different values move like units",
        Kind.SENSITIVITY,
        "plan.readings.dense_readings:DistinctCounts.sensitivity",
        "return self.bounded.measures[0].sensitivity",
        "return Sensitivity(1, neighbours=self.bounded.measures[0].sensitivity.neighbours)",
        _SEVERAL,
    ),
    Mutant(
        "matched values of a unit are counted as one",
        Kind.SENSITIVITY,
        "plan.bounding:bound_distinct_values",
        "return for_neighbours(matched, scaled.sensitivity.neighbours)",
        "return replace(matched, measures=_bound_plan(plan, Strategy.MATCH, ContributionLimits(1, 1, 1), 1).measures)",
        _MATCHED_NOISE,
    ),
    Mutant(
        "a replaced unit moves matched values like one that comes",
        Kind.SENSITIVITY,
        "plan.bounding:bound_distinct_values",
        "return for_neighbours(matched, scaled.sensitivity.neighbours)",
        "return matched",
        _MATCHED_NOISE,
    ),
    Mutant(
        "all values of a unit are matched to it",
        Kind.LIMITS,
        "plan.readings.dense_readings:match_values_to_units",
        "if remaining and (not is_kept[pair]):",
        "if not is_kept[pair]:",
        _WORLDS,
    ),
    Mutant(
        "a value that is taken uses up a place of the unit",
        Kind.LIMITS,
        "plan.readings.dense_readings:match_values_to_units",
        "if remaining and (not is_kept[pair]):\n                is_kept[pair], remaining = (1, remaining - 1)\n",
        "remaining -= 1\n            if remaining >= 0 and (not is_kept[pair]):\n                is_kept[pair] = 1\n",
        ("safety/test_values.py::test_values_are_matched_to_units",),
    ),
    Mutant(
        "a unit's first values count, whoever else has them",
        Kind.LIMITS,
        "plan.readings.dense_readings:match_values_to_units",
        "if remaining and (not is_kept[pair]):",
        "if remaining:",
        _WORLDS,
    ),
    Mutant(
        "each unit takes the values first that fewest units have",
        Kind.SENSITIVITY,
        "plan.readings.dense_readings:match_values_to_units",
        "order = np.lexsort((pairs, units))",
        "order = np.lexsort((pairs, np.bincount(pairs, minlength=1)[pairs], units))",
        _WORLDS,
    ),
    Mutant(
        "units come in the order of their rows",
        Kind.SENSITIVITY,
        "plan.readings.dense_readings:match_values_to_units",
        "order = np.lexsort((pairs, units))",
        "order = np.arange(len(units))",
        ("plan/readings/test_value_readings.py::test_rows_are_matched_in_any_order_and_across_chunks",),
    ),
    Mutant(
        "values of groups that are not asked for take the place of others",
        Kind.LIMITS,
        "engine.arrays:matched_value_counts",
        "coded.append((group_index[is_known], units[is_known], pairs[is_known]))",
        "coded.append((np.maximum(group_index, 0), units, pairs))",
        ("safety/test_values.py::test_matched_values_of_other_groups_take_no_place",),
    ),
    Mutant(
        "a server is asked for pairs of a unit and a value",
        Kind.CONSENT,
        "engine.lowering.reading_statements:server_statement",
        "return reading_statement(reading, sampling_key)",
        "return local_statement(reading, sampling_key)",
        ("safety/test_values.py::test_no_server_is_asked_for_pairs_of_a_unit_and_a_value",),
    ),
    Mutant(
        "an answer of sampled values is bought again",
        Kind.CHARGE_ORDER,
        "release.parts.other_parts:DistinctValuesPart.scales_for_reuse",
        "if self.sampling_plan is None:",
        "if True:",
        (f"{_ASKED}::test_an_answer_that_was_bought_when_values_were_sampled_stays_free",),
    ),
    Mutant(
        "values are matched where that gains little",
        Kind.LIMITS,
        "release.parts.other_parts:DistinctValuesPart.at_strength",
        "if _LEAST_GAIN * limit > self.bounded.limits.total:",
        "if limit >= self.bounded.limits.total:",
        (f"{_ASKED}::test_values_are_sampled_where_matching_would_gain_little",),
    ),
    Mutant(
        "values are matched although the question says that they are sampled",
        Kind.LIMITS,
        "curator.proposals.questions:Question.other_parts",
        "matches = self._context.engine.matches_values and self.strategy is None and",
        "matches = self._context.engine.matches_values and",
        (f"{_ASKED}::test_values_are_sampled_if_the_question_says_so",),
    ),
    Mutant(
        "a choice is charged for one row of a unit",
        Kind.SENSITIVITY,
        "plan.readings.dense_readings:ValueFrequencies.rows_per_unit",
        "return int(self.bounded.measures[0].add_remove_sensitivity.total)",
        "return 1",
        _SEVERAL,
    ),
    Mutant(
        "Gaussian noise on different values alone passes for pure",
        Kind.DELTA,
        "release.pricing:PricedRelease.pure",
        "(scale.mechanism.pure for scale in self.noisy_scales)",
        "(mechanism.pure for mechanism in self.totals_mechanisms)",
        (f"{_ASKED}::test_gaussian_noise_on_different_values_is_charged_with_its_delta",),
    ),
    Mutant(
        "a table of groups and values of any size is read after the charge",
        Kind.CHARGE_ORDER,
        "curator.proposals.question_advice:require_few_cells",
        "if groups * cells_per_group > MAX_NUMBERS:",
        "if False:",
        (f"{_ASKED}::test_large_tables_of_groups_and_values_are_refused_before_the_charge",),
    ),
)

test_the_tests_of_values_notice = suite(MUTANTS)
