"""Seeded bugs in exact amounts: sums that are too small, holds that give back too much, totals without end."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LEDGERS = "ledger/test_exact_amounts.py::"
_SUMS = ("privacy/test_amounts.py::test_a_total_is_the_sum_or_rounded_up_and_never_long",)
_LINES = (f"{_LEDGERS}test_spent_and_held_are_never_below_the_true_sums",)

MUTANTS = (
    Mutant(
        "denominators grow without end",
        Kind.LIMITS,
        "privacy.amounts:_has_short_denominator",
        "return type(amount) is int or amount_from_units(amount).denominator <= SUM_DENOMINATOR",
        "return True",
        _SUMS,
    ),
    Mutant(
        "a sum passes through a float",
        Kind.ROUNDING,
        "privacy.amounts:add_rounded_up",
        "total = first + second\n",
        "total = Fraction(float(first) + float(second))\n",
        _SUMS,
    ),
    Mutant(
        "whole units of earlier lines are read as whole numbers of ε",
        Kind.CHARGE_ORDER,
        "privacy.amounts:parse_amount",
        "        return int(text)\n",
        "        return int(text) * UNIT\n",
        (f"{_LEDGERS}test_whole_units_of_an_earlier_ledger_stay_and_verify",),
    ),
    Mutant(
        "a fraction is read in units",
        Kind.CHARGE_ORDER,
        "privacy.amounts:parse_amount",
        "            return amount\n",
        "            return value\n",
        (f"{_LEDGERS}test_three_thirds_fill_an_account_and_nothing_more_fits",),
    ),
    Mutant(
        "a tab gives back more than it held",
        Kind.CHARGE_ORDER,
        "ledger.spending:Spending.after",
        "amounts.add_rounded_up(self.held_pure - (before.pure or 0), left.pure or 0)",
        "amounts.subtract_rounded_down(self.held_pure + (left.pure or 0), before.pure or 0)",
        _LINES,
    ),
    Mutant(
        "a total of spent and held leaves the fractions out",
        Kind.ROUNDING,
        "privacy.budget:_sum_if_both_stated",
        "return None if a is None or b is None else amounts.add_rounded_up(a, b)",
        "return None if a is None or b is None else a // 1 + b // 1",
        _LINES,
    ),
    Mutant(
        "a share is rounded up to whole units",
        Kind.ROUNDING,
        "privacy.budget:Budget.share",
        "None if pure is None else pure * fraction,",
        "None if pure is None else math.ceil(pure * fraction),",
        (f"{_LEDGERS}test_equal_shares_fill_an_account",),
    ),
    Mutant(
        "a price that was rounded down passes for what was run",
        Kind.AUDIT,
        "privacy.budget:Cost.in_whole_units",
        "else math.ceil(self.pure",
        "else math.floor(self.pure",
        ("reports/test_bundles.py::test_fractions_are_told_and_verified",),
    ),
)

test_the_tests_of_amounts_notice = suite(MUTANTS)
