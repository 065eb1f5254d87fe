"""Seeded bugs in workloads: what is charged, what one statement reads for several questions, what is found again."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_CURATOR = "curator/proposals/test_workloads.py"
_COMBINING = "safety/test_combining.py"

MUTANTS = (
    Mutant(
        "weighted rows of several questions are read by one statement",
        Kind.LIMITS,
        "plan.readings.combining:_PLAIN",
        "_PLAIN = (Strategy.WHOLE, Strategy.CLIP_L1, Strategy.CLIP_L2)",
        "_PLAIN = tuple(Strategy)",
        (f"{_COMBINING}::test_what_would_be_another_number_is_read_by_itself",),
    ),
    Mutant(
        "the WHERE of a question is forgotten",
        Kind.SENSITIVITY,
        "plan.readings.combining:_measures_with_filter",
        "replace(scaled, measure=_with_predicate(scaled.measure, source.predicate))",
        "replace(scaled, measure=scaled.measure)",
        (f"{_COMBINING}::test_one_statement_reads_what_each_would",),
    ),
    Mutant(
        "questions with other limits are read by one statement",
        Kind.LIMITS,
        "plan.readings.combining:_combination_key",
        "bounded_plan.strategy, bounded_plan.limits",
        "bounded_plan.strategy, None",
        (f"{_COMBINING}::test_what_would_be_another_number_is_read_by_itself",),
    ),
    Mutant(
        "each question gets the columns of its neighbour",
        Kind.SENSITIVITY,
        "plan.readings.combining:_combine",
        "first_column += reading.shape[1]",
        "first_column += 0",
        (f"{_COMBINING}::test_one_statement_reads_what_each_would",),
    ),
    Mutant(
        "units with more rows than count are not cut where counts are many",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_clip_cells",
        "_correct_totals(bounded_plan, rows, (heavy, units), Select(excess, StageReference('g')))",
        "StagedSelect((), _totals_before_limits(bounded_plan, rows))",
        (f"{_COMBINING}::test_many_counts_are_added_up_from_cells",),
    ),
    Mutant(
        "a cell counts as one row",
        Kind.SENSITIVITY,
        "engine.lowering.cell_lowering:_total_over_cells",
        "cell_size = Reference('n')",
        "cell_size = integer_constant(1)",
        (f"{_COMBINING}::test_many_counts_are_added_up_from_cells",),
    ),
    Mutant(
        "cells are made of whatever columns tests read",
        Kind.KEYS,
        "engine.lowering.cell_lowering:columns_read_by_predicates",
        "cell_count <= MAX_CELLS and references_read <= set(domains)",
        "references_read <= set(domains)",
        (f"{_COMBINING}::test_columns_that_may_make_many_cells_are_not_grouped_by",),
    ),
    Mutant(
        "every question gets the whole price",
        Kind.CHARGE_ORDER,
        "curator.proposals.workloads:WorkloadProposal._question_offers",
        "unscaled_shares[identity] / total",
        "Fraction(1)",
        (f"{_CURATOR}::test_what_is_drawn_keeps_the_price",),
    ),
    Mutant(
        "the price that is stated is that of the first question",
        Kind.CHARGE_ORDER,
        "release.batch_prices:composed_price",
        "sum(epsilons)",
        "max((each.epsilon or 0 for each in prices))",
        (f"{_CURATOR}::test_wanted_accuracies_decide_the_split",),
    ),
    Mutant(
        "questions that find groups each get the whole δ",
        Kind.DELTA,
        "release.batch_prices:_split_epsilon",
        "price.delta * offer.share / discovery_share if offer.discovers_groups",
        "price.delta * 2 if offer.discovers_groups",
        (f"{_CURATOR}::test_groups_that_are_found_need_a_delta",),
    ),
    Mutant(
        "only the first measurement is charged",
        Kind.CHARGE_ORDER,
        "release.measurement:Batch.mechanism_charges",
        "Charged(mechanism, sensitivity, runs) for",
        "Charged(mechanism, sensitivity, 1) for",
        ("release/test_series.py::test_a_batch_is_kept_as_its_plan",),
    ),
    Mutant(
        "the batch is charged for one question",
        Kind.CHARGE_ORDER,
        "release.batch_prices:BatchRelease.batch",
        "Batch(tuple((measurement for kind in self.strategies for measurement in kind.batch.measurements)))",
        "self.strategies[0].batch",
        (f"{_CURATOR}::test_several_questions_are_one_charge_with_one_receipt",),
    ),
    Mutant(
        "the amount of a workload is held and given back",
        Kind.CHARGE_ORDER,
        "curator.proposals.workloads:WorkloadProposal._buy_unstored",
        "requested.open(entry, whole=True)",
        "requested.open(entry)",
        (f"{_CURATOR}::test_several_questions_are_one_charge_with_one_receipt",),
    ),
    Mutant(
        "a fresh answer is the stored one",
        Kind.REUSE,
        "curator.proposals.workloads:WorkloadProposal._unstored_indices",
        "if fresh or not is_stored(strategy, question.plan_key, self._context)",
        "if not is_stored(strategy, question.plan_key, self._context)",
        (f"{_CURATOR}::test_what_was_bought_is_not_bought_again",),
    ),
    Mutant(
        "a stored answer is as good however wide",
        Kind.REUSE,
        "curator.proposals.workloads:WorkloadProposal._buy_unstored",
        "BatchQuestion(question.text, identity, strategy.accuracy_for_reuse)",
        "BatchQuestion(question.text, identity, dict.fromkeys(strategy.accuracy_for_reuse, 0))",
        (f"{_CURATOR}::test_what_was_bought_is_not_bought_again",),
    ),
    Mutant(
        "a settled answer may leak more than was charged",
        Kind.CHARGE_ORDER,
        "ledger.accounts.reservations:SettledAnswer.__post_init__",
        "if self.entry.curve.parts:",
        "if not self.entry.parts:",
        ("ledger/accounts/test_holds.py::test_a_tab_is_settled_at_once_with_what_was_charged",),
    ),
    Mutant(
        "a share is not charged for its analyst's workload",
        Kind.CHARGE_ORDER,
        "curator.proposals.workloads:WorkloadProposal._release_request",
        "data, analyst, former_plan=plan.former)",
        "data, None, former_plan=plan.former)",
        (f"{_CURATOR}::test_an_account_or_a_share_that_cannot_pay_is_told_before",),
    ),
)

test_the_tests_of_workloads_notice = suite(MUTANTS)
