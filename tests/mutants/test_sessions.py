"""Seeded bugs in sessions: what they cost, what one unit moves in their questions, when they end."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_CURATOR = "curator/proposals/test_sessions.py"
_LAW = "safety/test_sessions.py"

MUTANTS = (
    Mutant(
        "a question may move further than its session",
        Kind.SENSITIVITY,
        "release.measurement:_require_session_sensitivity",
        "if reading.max_change_in_steps > mechanism.sensitivity:",
        "if reading.max_change_in_steps > 100 * mechanism.sensitivity:",
        (f"{_CURATOR}::test_what_cannot_be_asked_is_refused_for_free_and_the_session_goes_on",),
    ),
    Mutant(
        "steps are rounded toward zero",
        Kind.ROUNDING,
        "plan.readings.dense_readings:SteppedTotal.extract",
        "int(totals[0, 0]) * self._steps_per_unit.numerator // self._steps_per_unit.denominator",
        "int(int(totals[0, 0]) * self._steps_per_unit.numerator / self._steps_per_unit.denominator)",
        (f"{_LAW}::test_steps_round_down_and_move_no_further_than_the_theorem",),
    ),
    Mutant(
        "sums that fall are taken for ones that grow",
        Kind.FACTOR_TWO,
        "plan.readings.dense_readings:SteppedTotal.is_monotone",
        "contribution.low",
        "contribution.high",
        (f"{_CURATOR}::test_sums_that_fall_need_a_session_that_does_not_count_on_growth",),
    ),
    Mutant(
        "a session over replaced units counts on growth",
        Kind.NEIGHBOURS,
        "curator.proposals.sessions:propose_session",
        "default_monotone = context.policy.neighbours is Neighbours.ADD_REMOVE",
        "default_monotone = context.policy.neighbours is not None",
        (f"{_CURATOR}::test_both_relations",),
    ),
    Mutant(
        "a session counts on growth of whatever is asked",
        Kind.FACTOR_TWO,
        "release.measurement:_require_session_sensitivity",
        "reading.is_monotone",
        "reading.bounded",
        (f"{_CURATOR}::test_sums_that_fall_need_a_session_that_does_not_count_on_growth",),
    ),
    Mutant(
        "values are given beside the price",
        Kind.CHARGE_ORDER,
        "curator.proposals.sessions:SessionProposal.mechanism",
        "total_epsilon - (value_epsilon or 0),",
        "total_epsilon,",
        (f"{_LAW}::test_the_promise_holds_with_values",),
    ),
    Mutant(
        "a session goes on after half an answer",
        Kind.REUSE,
        "release.comparisons:ThresholdComparison.draw",
        "self.session.close()",
        "",
        (f"{_CURATOR}::test_a_question_stopped_while_the_mechanism_answers_ends_the_session",),
    ),
    Mutant(
        "a paid tab pays for any mechanism",
        Kind.CHARGE_ORDER,
        "release.payers:PrepaidTabPayer.ask",
        "entry.columns['parts'] != self.tab.opening.parts",
        "entry.columns['parts'] == ''",
        (f"{_CURATOR}::test_a_tab_pays_for_the_mechanism_it_was_opened_for_and_no_other",),
    ),
    Mutant(
        "each question reads the rows as they are now",
        Kind.REUSE,
        "curator.proposals.sessions:ThresholdSession._release_comparison",
        "engine=self._snapshot,",
        "engine=context.engine,",
        (f"{_CURATOR}::test_every_question_sees_the_rows_of_the_first",),
    ),
    Mutant(
        "a question of another curator is read here",
        Kind.SENSITIVITY,
        "curator.proposals.sessions:ThresholdSession.ask",
        "if not isinstance(parsed, Question) or not parsed.belongs_to(self._context):",
        "if not isinstance(parsed, Question):",
        (f"{_CURATOR}::test_questions_are_made_in_python_too_and_tightened_to_fit",),
    ),
    Mutant(
        "a share is not charged for its analyst's session",
        Kind.CHARGE_ORDER,
        "curator.proposals.sessions:SessionProposal.open_session",
        "Entry(Charged(mechanism), self.description, analyst=context.analyst)",
        "Entry(Charged(mechanism), self.description)",
        (f"{_CURATOR}::test_a_session_is_charged_to_the_share_of_who_opened_it",),
    ),
    Mutant(
        "a bound on errors forgets that noise is of whole numbers",
        Kind.ROUNDING,
        "mechanisms.laplace:half_width",
        "lift = math.log(2) - math.log1p(math.exp(-1 / b))",
        "lift = 0.0",
        ("mechanisms/test_additive.py", "mechanisms/test_sparse.py"),
    ),
)

test_the_tests_of_sessions_notice = suite(MUTANTS)
