"""Seeded bugs where numbers are chosen by rank: what one unit moves, how ties are split, what a level costs."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SCORES = "mechanisms/test_quantile_scores.py"
_LEVELS = "mechanisms/test_quantile_levels.py::test_a_level_has_bounded_range_and_the_curve_covers_all"
_MOVED = "mechanisms/test_quantile_levels.py::test_a_row_that_changes_its"
_LEANING = "mechanisms/test_quantile_levels.py::test_targets_that_lean_cost_no_more"
_TIES = "mechanisms/test_quantile_levels.py::test_rows_tied_with_a_released_number_are_split_by_the_share"
_ENDS = "mechanisms/test_quantile_levels.py::test_ends_lie_around_every_definition_of_a_quantile"
_LAW = "curator/test_medians.py::test_no_unit_changes_the_law_of_an_answer_by_more_than_its_price"
_PAYS = "curator/test_medians.py::test_a_measurement_of_ranks_pays_for_every_row_and_group"
_BOUGHT = "curator/test_medians.py::test_bought_ranges_hold_the_exact_quantiles"
_SURE = "curator/test_medians.py::test_ranges_hold_with_the_confidence_they_were_bought_at"
MUTANTS = (
    Mutant(
        "a question pays for the rows of a unit in one group",
        Kind.LIMITS,
        "release.parts.other_parts:QuantilesPart.measurements",
        "settings = (view.ends, view.rows_per_unit, view.neighbours, bool(self.bounded.plan.keys))",
        "settings = (view.ends, 1, view.neighbours, bool(self.bounded.plan.keys))",
        (_PAYS, _LAW),
    ),
    Mutant(
        "a measurement of ranks is taken that pays for fewer rows, or for one group",
        Kind.LIMITS,
        "release.measurement:_require_covered_rows",
        "if is_unfit or mechanism.neighbours is not reading.neighbours or "
        "mechanism.rows_per_unit < reading.rows_per_unit:",
        "if mechanism.neighbours is not reading.neighbours:",
        (_PAYS,),
    ),
    Mutant(
        "numbers around quantiles are bought with the whole share again",
        Kind.CHARGE_ORDER,
        "release.parts.other_parts:QuantilesPart.measurements",
        "mechanisms += [estimate, *estimate.ends(epsilon * (1 - _ESTIMATE_SHARE) / 2, self.confidence)]",
        "mechanisms += [estimate, *estimate.ends(epsilon, self.confidence)]",
        (_LAW,),
    ),
    Mutant(
        "rows beyond a unit's limit count in ranks",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:one_row_per_value_statement",
        "all_rows = RelationalUnion((light_rows, Select(columns, ranked, where=(*is_present, is_kept))))",
        "all_rows = RelationalUnion((light_rows, Select(columns, ranked, where=is_present)))",
        (_LAW, "engine/test_dense_arrays.py::test_one_unit_moves_no_more_values_than_its_limits_allow"),
    ),
    Mutant(
        "rows of units beyond their limit count twice in ranks",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:one_row_per_value_statement",
        "(*is_present, Exists(StageReference('h'), 'h', same_unit, negated=True))",
        "is_present",
        (_LAW, "engine/test_dense_arrays.py::test_one_unit_moves_no_more_values_than_its_limits_allow"),
    ),
    Mutant(
        "a range around a quantile is shown however surely it is asked for",
        Kind.ROUNDING,
        "release.parts.scales:QuantileScale.width",
        "0.0 if is_covered else float('inf')",
        "0.0 if end_mechanism is not None else float('inf')",
        (_SURE,),
    ),
    Mutant(
        "numbers around a quantile are as far as it errs half as often",
        Kind.ROUNDING,
        "mechanisms.quantiles:Quantiles.safety_offset_rows",
        "max((self._row_error(node, miss) for node in self._nodes))",
        "max((self._row_error(node, miss) for node in self._nodes)) / 3",
        (_ENDS, _BOUGHT),
    ),
    Mutant(
        "only the first level of several quantiles is charged",
        Kind.CHARGE_ORDER,
        "mechanisms.quantiles:Quantiles.curve",
        "compose([(Curve.bounded_range(self.level_epsilon, self.neighbours), self.levels)])",
        "compose([(Curve.bounded_range(self.level_epsilon, self.neighbours), 1)])",
        (_LEVELS, "mechanisms/test_quantiles.py::test_levels_of_quartiles_are_charged_as_bounded_range"),
    ),
    Mutant(
        "every level is drawn at the price of all",
        Kind.FACTOR_TWO,
        "mechanisms.quantiles:Quantiles._choose_quantiles_by_group",
        "rule = RankRule(node.share, self.level_epsilon / (2",
        "rule = RankRule(node.share, self.epsilon / (2",
        (_LEVELS,),
    ),
    Mutant(
        "rows at the bound of a part gain weight when it is split again",
        Kind.SENSITIVITY,
        "mechanisms.rank_choices:_split_parts",
        "np.where(at_low, tied_weight * share_below, parts.low_weight * denominator),",
        "parts.low_weight * denominator,",
        (_TIES, _LEVELS),
    ),
    Mutant(
        "what leans low has its ties below",
        Kind.ROUNDING,
        "mechanisms.rank_choices:_split_parts",
        "denominator * (rule.offset > 0)",
        "denominator * (rule.offset < 0)",
        (_TIES, _ENDS),
    ),
    Mutant(
        "an end of a small group may lie anywhere",
        Kind.ROUNDING,
        "mechanisms.rank_choices:_RunLayout.distances",
        "below = np.where(self.at_low, -lean, rank)",
        "below = np.where(self.at_low, 0 * rank, rank)",
        (_ENDS,),
    ),
    Mutant(
        "the unit of distances follows the number of rows",
        Kind.SENSITIVITY,
        "mechanisms.rank_choices:ValueRuns.around_windows",
        "log_weight_per_distance = rule.log_weight_per_row / (parts.unit * rule.share.denominator)",
        "log_weight_per_distance = rule.log_weight_per_row / (int(parts.weight(rows).max()) + 1)",
        (_SCORES, _LEVELS),
    ),
    Mutant(
        "a target that leans moves with the rows of others",
        Kind.SENSITIVITY,
        "mechanisms.rank_choices:_target_rank_in_units",
        "return weight * rule.share.numerator + rule.offset * parts.unit * rule.share.denominator",
        "return weight * rule.share.numerator + rule.offset * weight * rule.share.denominator",
        (_LEANING,),
    ),
    Mutant(
        "runs with many numbers are no likelier than single ones",
        Kind.SAMPLING,
        "mechanisms.rank_choices:ValueRuns.draw_winners",
        "self.log_weight_per_distance, begin, self.multiplicities)",
        "self.log_weight_per_distance, begin, np.ones_like(self.multiplicities))",
        ("mechanisms/test_quantiles.py::test_draws_follow_the_exact_law",),
    ),
    Mutant(
        "the first number of a run is always taken",
        Kind.SAMPLING,
        "mechanisms.bits:random_below_limits",
        "draws[pending[is_below]] = candidates[is_below]",
        "",
        ("mechanisms/test_quantile_levels.py::test_numbers_below_many_limits_are_uniform",),
    ),
    Mutant(
        "a row without a group is in the first",
        Kind.KEYS,
        "engine.arrays:_GroupLookup.group_index",
        "prefix_index = np.where(is_known, candidate, -1)",
        "prefix_index = np.where(is_known, candidate, 0)",
        ("engine/test_dense_arrays.py::test_groups_of_several_keys_are_found",),
    ),
)

test_the_tests_of_quantiles_notice = suite(MUTANTS)
