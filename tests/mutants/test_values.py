"""Seeded bugs of values: how many different ones there are, and which are most frequent."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LAW = ("mechanisms/test_group_choices.py::test_draws_follow_the_exact_law",)
_PAIRS = ("safety/test_values.py::test_pairs_of_a_unit_are_limited",)
_PANDAS = ("safety/test_values.py::test_within_limits_it_is_what_pandas_counts",)
_SEVERAL = ("safety/test_values.py::test_a_unit_of_several_rows_is_charged_for_all_of_them",)
_ASKED = "curator/test_values.py"
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
        "mechanisms.races:winners_of_rows",
        "    words = words.reshape(gaps.shape)\n",
        "    words = np.repeat(words[: gaps.shape[1]][None], len(gaps), axis=0)\n",
        _LAW,
    ),
    Mutant(
        "pairs beyond a limit are counted",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:by_value",
        "totals = _correct_totals(bounded, rows, (heavy,), _sampling_loss(rows, ranked, is_kept))",
        "totals = _unbounded_totals(rows)",
        _PAIRS,
    ),
    Mutant(
        "a unit keeps all its pairs",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:by_value",
        "_correct_totals(bounded, rows, (heavy,), _sampling_loss(rows, ranked, is_kept))",
        "_unbounded_totals(rows)",
        _PAIRS,
    ),
    Mutant(
        "a value that is missing counts as one more",
        Kind.NAN,
        "engine.lowering.bounded_totals:_pairs",
        "rows.select, where=(is_counted,), group_by=names)",
        "rows.select, group_by=names)",
        _PANDAS,
    ),
    Mutant(
        "different values move like units",
        Kind.SENSITIVITY,
        "plan.readings.value_readings:DistinctCounts.sensitivity",
        "return self.bounded.measures[0].sensitivity",
        "return Sensitivity(1, neighbours=self.bounded.measures[0].sensitivity.neighbours)",
        _SEVERAL,
    ),
    Mutant(
        "a choice is charged for one row of a unit",
        Kind.SENSITIVITY,
        "plan.readings.value_readings:Frequencies.rows_per_unit",
        "return int(self.bounded.measures[0].add_remove_sensitivity.total)",
        "return 1",
        _SEVERAL,
    ),
    Mutant(
        "Gaussian noise on different values alone passes for pure",
        Kind.DELTA,
        "release.pricing:PricedRelease.pure",
        "(scale.mechanism.pure for scale in self.noisy_scales)",
        "(mechanism.pure for mechanism in self.mechanisms)",
        (f"{_ASKED}::test_gaussian_noise_on_different_values_is_charged_with_its_delta",),
    ),
    Mutant(
        "a table of groups and values of any size is read after the charge",
        Kind.CHARGE_ORDER,
        "curator.proposals.questions:Question._require_few_cells",
        "if len(self.groups) * part.numbers_per_group > MAX_NUMBERS:",
        "if False:",
        (f"{_ASKED}::test_large_tables_of_groups_and_values_are_refused_before_the_charge",),
    ),
)

test_the_tests_of_values_notice = suite(MUTANTS)
