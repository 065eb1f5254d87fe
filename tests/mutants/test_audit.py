"""Seeded bugs in the evidence: audits that would refute what is sound."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SHARED = ("audit/test_false_alarms.py::test_the_chances_of_all_limits_together_are_what_the_confidence_leaves",)
_APART = ("audit/test_false_alarms.py",)

MUTANTS = (
    Mutant(
        "the chance of a mistake is not shared over events",
        Kind.AUDIT,
        "audit/verdicts.py",
        "(1 - confidence) / events / 2",
        "(1 - confidence) / 2",
        _SHARED,
    ),
    Mutant(
        "the chance of a mistake is not shared over the two limits",
        Kind.AUDIT,
        "audit/verdicts.py",
        "(1 - confidence) / events / 2",
        "(1 - confidence) / events",
        _SHARED,
    ),
    Mutant(
        "events are measured on the samples they were picked on",
        Kind.AUDIT,
        "audit/falsifying.py",
        "first, second = samples.measuring",
        "first, second = samples.picking",
        _APART,
    ),
    Mutant(
        "samples that a classifier learnt from are measured, too",
        Kind.AUDIT,
        "audit/falsifying.py",
        "(first[picked:], second[picked:])",
        "(first[picked - trained:], second[picked - trained:])",
        _APART,
    ),
    Mutant(
        "both directions of an event are measured as one",
        Kind.AUDIT,
        "audit/falsifying.py",
        "return math.log(p / q) if p > 0 and q > 0 else -math.inf",
        "return abs(math.log(p / q)) if p > 0 and q > 0 else -math.inf",
        ("audit/test_falsifying.py::test_a_mechanism_that_leaks_nothing",),
    ),
    Mutant(
        "δ is not taken off",
        Kind.AUDIT,
        "audit/falsifying.py",
        "int(p_counts.sum()), miss) - delta",
        "int(p_counts.sum()), miss)",
        ("audit/test_falsifying.py::test_delta_is_taken_off_where_much_is_left",),
    ),
    Mutant(
        "an audit with too few samples to refute anything says that a claim holds",
        Kind.AUDIT,
        "audit/falsifying.py",
        "    if many < least:",
        "    if many < 100:",
        ("audit/test_falsifying.py::test_too_few_samples_to_refute_anything_are_refused",),
    ),
    Mutant(
        "one run's δ counts half",
        Kind.DELTA,
        "audit/canary_guesses.py",
        "shares = 2 * canaries * delta / places",
        "shares = canaries * delta / places",
        ("audit/test_one_run.py::test_the_numbers_that_the_authors_print",),
    ),
    Mutant(
        "one run's δ is not counted",
        Kind.DELTA,
        "audit/canary_guesses.py",
        "    if delta == 0:",
        "    if delta >= 0:",
        ("audit/test_one_run.py::test_no_release_is_guessed_better_than_the_bound_says",),
    ),
    Mutant(
        "every number of guesses has the whole chance of a mistake",
        Kind.AUDIT,
        "audit/canary_guesses.py",
        "miss = float(1 - level) / len(numbers)",
        "miss = float(1 - level)",
        ("audit/test_one_run.py::test_an_audit_that_forgets_how_many_numbers_of_guesses_it_tries_is_noticed",),
    ),
    Mutant(
        "a release can change the coins that its guesses are compared with",
        Kind.AUDIT,
        "audit/canary_guesses.py",
        "release(present.copy())",
        "release(present)",
        ("audit/test_one_run.py::test_the_release_is_made_once_and_cannot_change_the_coins",),
    ),
    Mutant(
        "nobody stands in the place of a canary under replace",
        Kind.NEIGHBOURS,
        "audit/canary_tables.py",
        "policy.budget.neighbours is Neighbours.REPLACE else None",
        "policy.budget.neighbours is Neighbours.ADD_REMOVE else None",
        ("audit/test_one_run.py::test_lists_of_coins_that_differ_in_one_place_are_neighbours",),
    ),
    Mutant(
        "canaries share ids with invented units",
        Kind.NEIGHBOURS,
        "audit/canary_tables.py",
        "np.arange(made.num_rows - base) + 1 + made.num_rows",
        "np.arange(made.num_rows - base) + 1",
        ("audit/test_one_run.py::test_lists_of_coins_that_differ_in_one_place_are_neighbours",),
    ),
    Mutant(
        "the tails of a stream are of the other answer",
        Kind.SAMPLING,
        "audit/stream_laws.py",
        "if above == tail.rising else",
        "if above != tail.rising else",
        ("audit/test_exact_laws.py::test_a_stream_is_the_sum_over_all_thresholds",),
    ),
    Mutant(
        "rows that are tied with a quantile count below it only",
        Kind.SAMPLING,
        "audit/rank_laws.py",
        "under = part.share if mechanism.offset == 0 else",
        "under = Fraction(1) if mechanism.offset == 0 else",
        ("audit/test_exact_laws.py::test_the_law_is_the_one_that_is_drawn",),
    ),
    Mutant(
        "a largest loss beyond ε refutes a claim that has a δ for it",
        Kind.AUDIT,
        "audit/worlds.py",
        "if pure is not None and not self.claim.failure and",
        "if pure is not None and",
        ("audit/test_exact_laws.py::test_every_mechanism_keeps_its_curve",),
    ),
)

test_the_tests_of_audits_notice = suite(MUTANTS)
