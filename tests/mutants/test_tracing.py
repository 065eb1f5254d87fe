"""Seeded bugs in attacks on membership, values and policies: evidence that proves too much, or shows too little."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

SCORES, POLICY = "attacks/test_scores.py", "attacks/test_policy_attacks.py"
MEMBERSHIP, ATTRIBUTE, GAME = "attacks/test_membership.py", "attacks/test_attribute.py", "attacks/test_game.py"

MUTANTS = (
    Mutant(
        "hits are taken as they were seen",
        Kind.AUDIT,
        "attacks.membership:Scores.excess",
        "point.hit_rate - hit_margin - power_ceiling",
        "point.hit_rate - power_ceiling",
        (f"{SCORES}::test_fewer_runs_than_least_have_no_power",),
    ),
    Mutant(
        "false alarms are taken as they were seen",
        Kind.AUDIT,
        "attacks.membership:Scores.excess",
        "min(1.0, point.false_alarm_rate + alarm_margin)",
        "min(1.0, point.false_alarm_rate)",
        (f"{SCORES}::test_fewer_runs_than_least_have_no_power",),
    ),
    Mutant(
        "the proven ε forgets δ",
        Kind.DELTA,
        "attacks.membership:Scores.epsilon",
        "math.log((point.hit_rate - hit_margin - delta)",
        "math.log((point.hit_rate - hit_margin)",
        (f"{SCORES}::test_a_margin_is_that_of_massart",),
    ),
    Mutant(
        "a margin shrinks too fast with the runs",
        Kind.FACTOR_TWO,
        "attacks.membership:_dkw_margin",
        "math.sqrt(math.log(1 / miss) / (2 * count))",
        "math.sqrt(math.log(1 / miss) / (200 * count))",
        (f"{SCORES}::test_a_margin_is_that_of_massart",),
    ),
    Mutant(
        "the table without the person has them",
        Kind.NEIGHBOURS,
        "attacks.membership:MembershipRuns.counts",
        "others if self.replacements is None else others + self.replacements",
        "others + self.targets if self.replacements is None else others + self.replacements",
        (f"{MEMBERSHIP}::test_counts_are_those_of_the_people_who_are_there",),
    ),
    Mutant(
        "each question of several costs the whole price",
        Kind.CHARGE_ORDER,
        "attacks.membership:_release_sums",
        "exact(epsilon, 'epsilon') * len(indices) / attributes",
        "exact(epsilon, 'epsilon')",
        (f"{MEMBERSHIP}::test_every_run_is_released_at_the_whole_price",),
    ),
    Mutant(
        "what is withheld makes a score that is no number",
        Kind.NAN,
        "attacks.membership:trace_targets",
        "np.nan_to_num(counts - expected)",
        "(counts - expected)",
        (f"{MEMBERSHIP}::test_what_is_withheld_says_nothing",),
    ),
    Mutant(
        "a missing secret has a vote",
        Kind.NAN,
        "attacks.membership:is_secret_guessed",
        "np.where(rows[:, -1] < 0, 0, 2 * rows[:, -1] - 1)",
        "2 * rows[:, -1] - 1",
        (f"{MEMBERSHIP}::test_a_secret_is_guessed_by_those_who_are_alike_and_a_missing_one_has_no_vote",),
    ),
    Mutant(
        "rows without names keep the order of those who gave them",
        Kind.CONSENT,
        "attacks.membership:CandidateRows.table",
        "return rows[np.lexsort(rows.T)]",
        "return rows",
        (f"{MEMBERSHIP}::test_copies_are_rows_of_the_table_and_names_are_not_in_their_order",),
    ),
    Mutant(
        "the ceiling with the person is that of one without a promise",
        Kind.AUDIT,
        "attacks.attribute:AttributeGuesses.excess",
        "return inside_limit - power_ceiling(theory,",
        "return inside_limit - 1 + 0 * power_ceiling(theory,",
        (f"{ATTRIBUTE}::test_exact_counts_that_claim_to_be_private_are_caught",),
    ),
    Mutant(
        "the table without the person lacks nobody",
        Kind.NEIGHBOURS,
        "attacks.attribute:draw_tables",
        "np.add.at(outside, (np.arange(run_count), *targets.T), -1)",
        "np.add.at(outside, (np.arange(run_count), *targets.T), 0)",
        (f"{ATTRIBUTE}::test_the_table_without_the_person_lacks_their_row_alone",),
    ),
    Mutant(
        "a value replaced has the ceiling of a unit removed",
        Kind.NEIGHBOURS,
        "attacks.policy_attacks:WholeSpending.ceiling",
        "account_guess_ceiling(promise, budget.neighbours) if replaced else guess_ceiling(promise)",
        "guess_ceiling(promise)",
        (f"{POLICY}::test_exact_answers_give_all_away_and_the_policys_hold_their_ceilings",),
    ),
    Mutant(
        "the target has one row, whatever counts",
        Kind.LIMITS,
        "attacks.policy_attacks:AttackedTable.rows",
        "max_rows = 1 if self.table.every_row else self.table.max_rows or 1",
        "max_rows = 1",
        (f"{POLICY}::test_the_target_has_as_many_rows_as_count_and_nobody_else_more_than_one",),
    ),
    Mutant(
        "a staged account has more than the policy's budget",
        Kind.CHARGE_ORDER,
        "attacks.policy_attacks:WholeSpending.account",
        "epsilon = times * max(budget.epsilon, renyi)",
        "epsilon = times * (1 + max(budget.epsilon, renyi))",
        (f"{POLICY}::test_the_whole_budget_is_spent_and_not_more",),
    ),
    Mutant(
        "rounds that are not played are left out of the score",
        Kind.AUDIT,
        "attacks.game:GuessingMatch.epsilon",
        "epsilon_lower_bound(self.right, self.rounds, _ERROR_PROBABILITY)",
        "epsilon_lower_bound(self.right, max(1, self.played), _ERROR_PROBABILITY)",
        (f"{GAME}::test_rounds_that_are_not_played_count_as_wrong",),
    ),
    Mutant(
        "a private curator answers without end in the game",
        Kind.REUSE,
        "attacks.game:CURATORS",
        "private_answers(secret, EPSILON, QUESTIONS, fresh=True)",
        "private_answers(secret, EPSILON, QUESTIONS)",
        (f"{GAME}::test_a_private_curator_answers_until_its_budget_is_spent",),
    ),
)

test_the_tests_of_tracing_notice = suite(MUTANTS)
