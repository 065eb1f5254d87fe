"""Seeded bugs in online sessions: what one unit moves, what is charged, what a gate draws, when it ends."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "publish/test_online.py"

MUTANTS = (
    Mutant(
        "a gate may be for less than a unit moves",
        Kind.SENSITIVITY,
        "publish.online:SessionBatch.__post_init__",
        "is_suited = self.gate.sensitivity >= measure.add_remove_sensitivity.total and",
        "is_suited = self.gate.sensitivity >= 1 and",
        (f"{_TESTS}::test_a_gate_for_less_than_a_unit_moves_is_refused",),
    ),
    Mutant(
        "a session makes its gates for one row of a unit",
        Kind.SENSITIVITY,
        "curator.proposals.online:OnlineProposal._prepare_strategy",
        "max_added = math.ceil(reading.bounded.measures[0].add_remove_sensitivity.total)",
        "max_added = math.ceil(reading.bounded.measures[0].add_remove_sensitivity.total / 3)",
        (f"{_TESTS}::test_one_unit_moves_scores_and_answers_no_further_than_is_charged",),
    ),
    Mutant(
        "one gate is charged, whatever the rounds",
        Kind.CHARGE_ORDER,
        "publish.online:SessionBatch.charged",
        "Charged(self.gate, None, self.rounds)",
        "Charged(self.gate, None, 1)",
        (f"{_TESTS}::test_all_is_charged_at_the_opening_and_nothing_by_a_question",),
    ),
    Mutant(
        "one answer is charged, whatever the rounds",
        Kind.CHARGE_ORDER,
        "publish.online:SessionBatch.charged",
        "Charged(self.noise, sensitivity, self.rounds)",
        "Charged(self.noise, sensitivity, 1)",
        (f"{_TESTS}::test_all_is_charged_at_the_opening_and_nothing_by_a_question",),
    ),
    Mutant(
        "a gate compares without fresh noise",
        Kind.REUSE,
        "mechanisms.sparse:Session._answer_while_locked",
        "if value + self._noise.popleft() < self._threshold:",
        "if value + self._noise[0] < self._threshold:",
        (f"{_TESTS}::test_gates_draw_fresh_noise_for_every_question",),
    ),
    Mutant(
        "rows that count in two groups move scores once",
        Kind.SENSITIVITY,
        "publish.online:IntegerWeightedMeasure.max_row_effect",
        "return max(1, int(np.max(above)) + int(np.max(below)))",
        "return max(1, *(int(np.abs(one).max()) for one in weight_tables))",
        (f"{_TESTS}::test_one_unit_moves_weighed_totals_no_further_than_the_theorem_says",),
    ),
    Mutant(
        "weights below zero are not counted",
        Kind.NEIGHBOURS,
        "publish.online:IntegerWeightedMeasure.max_row_effect",
        "return max(1, int(np.max(above)) + int(np.max(below)))",
        "return max(1, int(np.max(above)), int(np.max(below)))",
        (f"{_TESTS}::test_one_unit_moves_weighed_totals_no_further_than_the_theorem_says",),
    ),
    Mutant(
        "ranges of sums are those of counts",
        Kind.ROUNDING,
        "curator.proposals.online:OnlineSession._gate_step_size",
        "return float(self._unit) * measure.max_row_effect / measure.scale",
        "return float(self._unit) / measure.scale",
        (f"{_TESTS}::test_sums_and_means_are_compared_and_bought_too",),
    ),
    Mutant(
        "large sums wrap around",
        Kind.WRAP,
        "publish.online:IntegerWeightedMeasure.extract",
        "if self.max_row_effect == 1:",
        "if self.max_row_effect >= 1:",
        (f"{_TESTS}::test_totals_of_the_largest_counts_and_weights_do_not_overflow",),
    ),
    Mutant(
        "the gates go on after half an answer",
        Kind.REUSE,
        "publish.online:GatedCounts.ask",
        "self.close()",
        "",
        (f"{_TESTS}::test_a_question_that_is_stopped_ends_the_gates_and_says_no_more",),
    ),
    Mutant(
        "ranges count on one threshold where there are many",
        Kind.ROUNDING,
        "publish.online:close_score_bound",
        "laplace.half_width(first, beta / rounds) + laplace.half_width(second, beta)",
        "laplace.half_width(first, beta) // 4 + laplace.half_width(second, beta) // 4",
        (f"{_TESTS}::test_what_is_called_close_is_within_its_range",),
    ),
    Mutant(
        "exact counts answer what is bought",
        Kind.REUSE,
        "publish.online:GatedCounts._buy_answer",
        "noisy_totals = np.asarray(self._batch.noise_for(max_row_effect).apply(totals), np.int64)",
        "noisy_totals = np.asarray(totals, np.int64)",
        (f"{_TESTS}::test_what_is_bought_has_noise",),
    ),
    Mutant(
        "one answer more is bought than was paid for",
        Kind.LIMITS,
        "publish.online:GatedCounts.__init__",
        "self._left = batch.rounds\n",
        "self._left = batch.rounds + 1\n",
        (f"{_TESTS}::test_gates_end_after_their_rounds_and_forget",),
    ),
    Mutant(
        "a mean moves as its first total does",
        Kind.SENSITIVITY,
        "publish.online:IntegerWeightedMeasure.max_row_effect",
        "for part in self.parts for weights in part.weights]",
        "for part in self.parts[:1] for weights in part.weights]",
        (f"{_TESTS}::test_one_unit_moves_weighed_totals_no_further_than_the_theorem_says",),
    ),
    Mutant(
        "answers are charged for a unit that is added, whatever the neighbours are",
        Kind.NEIGHBOURS,
        "publish.online:SessionBatch.charged",
        "sensitivity = Marginal(self.reading, 0).sensitivity\n",
        "sensitivity = self.bounded.measures[0].added\n",
        (f"{_TESTS}::test_all_is_charged_at_the_opening_and_nothing_by_a_question",),
    ),
    Mutant(
        "sums that a session buys share their noise",
        Kind.REUSE,
        "publish.online:GatedCounts._buy_answer",
        "noisy_totals = np.asarray(self._batch.noise_for(max_row_effect).apply(totals), np.int64)",
        "noisy_totals = np.asarray(self._batch.noise_for(max_row_effect).apply(totals), np.int64)\n"
        "    if max_row_effect > 1:\n"
        "        noisy_totals = totals + (noisy_totals - totals)[:1]",
        ("safety/test_drawn_apart.py::test_every_number_that_a_session_buys_is_drawn_for_itself",),
    ),
    Mutant(
        "a gate is asked again after its answer",
        Kind.REUSE,
        "publish.online:GatedCounts._buy_answer",
        "self._gate = self._batch.gate.start()",
        "self._left += 0",
        (f"{_TESTS}::test_gates_end_after_their_rounds_and_forget",),
    ),
)

test_the_tests_of_online_sessions_notice = suite(MUTANTS)
