"""Seeded bugs in the attacks: ceilings that are too low or too high, answers that promise what they do not keep."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

CEILINGS, ANSWERERS = "attacks/test_ceilings.py", "attacks/test_answerers.py"

MUTANTS = (
    Mutant(
        "a value that is replaced counts as one unit under add-remove neighbours",
        Kind.NEIGHBOURS,
        "attacks/ceilings.py",
        "else theorems.group(promise, 2)",
        "else promise",
        (f"{CEILINGS}::test_a_value_that_is_replaced_is_one_unit_or_two",),
    ),
    Mutant(
        "δ counts once, however many values there are",
        Kind.DELTA,
        "attacks/ceilings.py",
        "p * (1 + (k - 1) * float(promise.delta) * shrink)",
        "p * (1 + float(promise.delta) * shrink)",
        (f"{CEILINGS}::test_randomised_response_reaches_the_ceiling_of_uniform_values",),
    ),
    Mutant(
        "the prior is taken for one half",
        Kind.AUDIT,
        "attacks/ceilings.py",
        "/ (p + (1 - p) * shrink))",
        "/ (p + p * shrink))",
        (f"{CEILINGS}::test_no_mechanism_passes_the_ceiling_of_its_own_loss",),
    ),
    Mutant(
        "the trade-off curve forgets δ",
        Kind.DELTA,
        "attacks/ceilings.py",
        "growth * rate + delta, 1 - (1 - delta - rate) / growth",
        "growth * rate, 1 - (1 - delta - rate) / growth",
        (f"{CEILINGS}::test_no_test_passes_the_trade_off_curve",),
    ),
    Mutant(
        "one right guess too many is called chance",
        Kind.AUDIT,
        "attacks/ceilings.py",
        "if upper_tail(middle + 1, many, ceiling) <= miss:",
        "if upper_tail(middle, many, ceiling) <= miss:",
        (f"{CEILINGS}::test_right_guesses_are_limited_by_the_exact_tail",),
    ),
    Mutant(
        "a ceiling holds one guess too long",
        Kind.AUDIT,
        "attacks/findings.py",
        "self.right <= most_right(self.trials",
        "self.right - 1 <= most_right(self.trials",
        ("attacks/test_findings.py::test_a_ceiling_holds_up_to_the_last_guess_that_chance_allows",),
    ),
    Mutant(
        "several values of one person get the noise of one",
        Kind.SENSITIVITY,
        "attacks/answerers.py",
        "columns = 1 if towns else self._values[0].size",
        "columns = 1",
        (f"{ANSWERERS}::test_noise_is_of_the_scale_that_all_questions_together_need",),
    ),
    Mutant(
        "questions are not counted",
        Kind.CHARGE_ORDER,
        "attacks/answerers.py",
        "self._left -= len(asked)",
        "self._left -= 0",
        (f"{ANSWERERS}::test_the_question_after_the_last_is_refused",),
    ),
    Mutant(
        "shares of a budget are not rounded down",
        Kind.ROUNDING,
        "attacks/answerers.py",
        "from_units(allowance_units(epsilon / questions))",
        "epsilon / questions",
        (f"{ANSWERERS}::test_a_real_curator_charges_its_whole_budget_and_refuses_one_question_more",),
    ),
    Mutant(
        "a question that was asked before is bought again",
        Kind.REUSE,
        "attacks/answerers.py",
        "release(epsilon=self.each, fresh=self.fresh)",
        "release(epsilon=self.each, fresh=True)",
        (f"{ANSWERERS}::test_a_real_curator_charges_its_whole_budget_and_refuses_one_question_more",),
    ),
    Mutant(
        "the least total that is told is withheld",
        Kind.LIMITS,
        "attacks/answerers.py",
        "np.where(told < self.least, np.nan, told)",
        "np.where(told <= self.least, np.nan, told)",
        (f"{ANSWERERS}::test_coarse_answers_are_the_true_sums_rounded_or_withheld",),
    ),
    Mutant(
        "private tables of a census claim the ceiling of one unit",
        Kind.NEIGHBOURS,
        "attacks/census.py",
        "promise = for_replacing(Guarantee(price), relation)",
        "promise = for_replacing(Guarantee(price), Neighbours.REPLACE)",
        ("attacks/test_census.py::test_add_remove_neighbours_have_the_ceiling_of_two_units",),
    ),
    Mutant(
        "private counts for linkage claim the ceiling of one unit",
        Kind.NEIGHBOURS,
        "attacks/linkage.py",
        "promise = for_replacing(Guarantee(price), neighbours)",
        "promise = for_replacing(Guarantee(price), Neighbours.REPLACE)",
        ("attacks/test_linkage.py::test_add_remove_neighbours_have_the_ceiling_of_two_units",),
    ),
    Mutant(
        "the linear programme stops too early",
        Kind.AUDIT,
        "attacks/fitting.py",
        "_CLOSE = 1e-7",
        "_CLOSE = 1e-1",
        ("attacks/test_fitting.py::test_the_linear_programme_finds_the_least_deviations",),
    ),
)

test_the_tests_of_attacks_notice = suite(MUTANTS)
