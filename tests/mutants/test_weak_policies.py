"""Seeded bugs in the warnings about a policy's ε and δ for life, and in the rule for a large δ."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_HERE = "curator/test_weak_policies.py::"
_INIT = "cli/commands/test_init.py::"

MUTANTS = (
    Mutant(
        "an owner is warned only once a whole unit is expected to be exposed",
        Kind.DELTA,
        "curator.weak_policies:MIN_WARNED_EXPOSURE",
        "Fraction(1, 10)",
        "Fraction(1, 1)",
        (f"{_HERE}test_an_owner_is_warned_from_a_tenth_of_a_unit_on",),
    ),
    Mutant(
        "a tenth of a unit itself is not warned of",
        Kind.DELTA,
        "curator.weak_policies:exposure_warning",
        "delta * units < MIN_WARNED_EXPOSURE",
        "delta * units <= MIN_WARNED_EXPOSURE",
        (f"{_HERE}test_an_owner_is_warned_from_a_tenth_of_a_unit_on",),
    ),
    Mutant(
        "what depends on the number of units is told with the shared warnings",
        Kind.CONSENT,
        "curator.checking:CheckReport.warnings",
        "*weak_policy_warnings(self.policy))",
        "*weak_policy_warnings(self.policy), *filter(None, [self.exposure]))",
        (f"{_HERE}test_only_the_private_part_of_a_check_depends_on_the_number_of_units",),
    ),
    Mutant(
        "a large δ is accepted",
        Kind.DELTA,
        "curator.weak_policies:has_unpermitted_delta",
        "policy.budget.delta >= LARGE_DELTA and (not policy.allow_large_delta)",
        "False",
        (f"{_HERE}test_a_new_account_has_a_large_delta_only_where_its_policy_allows_it",),
    ),
    Mutant(
        "a δ of 1/1000 itself is accepted",
        Kind.DELTA,
        "curator.weak_policies:has_unpermitted_delta",
        "policy.budget.delta >= LARGE_DELTA",
        "policy.budget.delta > LARGE_DELTA",
        (f"{_HERE}test_a_new_account_has_a_large_delta_only_where_its_policy_allows_it",),
    ),
    Mutant(
        "an account that exists may have its δ raised unseen",
        Kind.DELTA,
        "curator.weak_policies:require_permitted_delta",
        "account_budget is not None and account_budget.delta >= policy.account_budget.delta",
        "account_budget is not None",
        (f"{_HERE}test_an_account_that_has_a_large_delta_opens_with_a_warning",),
    ),
    Mutant(
        "the δ of a period's account is compared with the whole one",
        Kind.FACTOR_TWO,
        "curator.weak_policies:require_permitted_delta",
        "account_budget.delta >= policy.account_budget.delta",
        "account_budget.delta >= policy.budget.delta",
        (f"{_HERE}test_an_account_that_has_a_large_delta_opens_with_a_warning",),
    ),
    Mutant(
        "a curator opens accounts without asking for the permission",
        Kind.DELTA,
        "curator.policy_account:open_account",
        "if has_unpermitted_delta(policy):",
        "if False:",
        (f"{_HERE}test_opening_an_account_asks_the_ledger_of_a_large_delta_alone",),
    ),
    Mutant(
        "half of an ε is judged where periods have accounts of their own",
        Kind.FACTOR_TWO,
        "curator.weak_policies:weak_policy_warnings",
        "policy.budget.epsilon > MAX_LIFETIME_EPSILON",
        "policy.account_budget.epsilon > MAX_LIFETIME_EPSILON",
        (f"{_HERE}test_an_epsilon_above_ten_is_warned_of",),
    ),
    Mutant(
        "the number of people is proposed from the files",
        Kind.CONSENT,
        "cli.commands.init:_Drafting._ask_budget",
        "proposed = proposed_delta(people)",
        "proposed = proposed_delta(people or Path(self.interview.saved_answers._inputs[1]).read_bytes().count(b'\\n'))",
        (f"{_INIT}test_an_interview_never_counts_people",),
    ),
    Mutant(
        "the proposed δ is one in n",
        Kind.DELTA,
        "curator.weak_policies:proposed_delta",
        "Fraction(power // (100 * people), power)",
        "Fraction(power // people, power)",
        (f"{_HERE}test_the_proposed_delta_is_the_largest_one_of_one_digit_below_a_hundredth_of_one_in_n",),
    ),
    Mutant(
        "a δ above the proposed one is not asked for again",
        Kind.DELTA,
        "cli.commands.init:_Drafting._ask_budget",
        "if budget.delta <= proposed:",
        "if budget.delta <= 1:",
        (f"{_INIT}test_a_delta_above_the_proposed_one_is_asked_for_again",),
    ),
    Mutant(
        "a script writes a large δ that nobody allowed",
        Kind.CONSENT,
        "cli.commands.init:_refuse_large_delta",
        "delta >= LARGE_DELTA and (not large_allowed)",
        "False",
        (f"{_INIT}test_a_delta_of_a_script_is_judged_by_its_number_of_people",),
    ),
)


test_the_tests_of_weak_policies_notice = suite(MUTANTS)
