"""Seeded bugs in accounts of periods: who pays, which periods a question reads, and what is promised."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LEDGER = "ledger/accounts/test_period_accounts.py"
_REPLAY = "safety/test_growing.py::test_units_of_unpaid_periods_change_nothing[month-quarter]"
_HELD = "safety/test_growing.py::test_a_plan_held_to_periods_reads_no_other"
_PLAN = "plan/test_account_periods.py"
_CURATOR = "curator/test_growing.py"

MUTANTS = (
    Mutant(
        "only the first period that is read is asked whether it can pay",
        Kind.CHARGE_ORDER,
        "ledger.guarded:GuardedStore.budgets",
        "by_period = [self._period_budgets(transaction, account, analyst, share, period) for period in periods]",
        "by_period = [self._period_budgets(transaction, account, analyst, share, period) for period in periods[:1]]",
        (f"{_LEDGER}::test_a_charge_is_made_in_all_periods_or_in_none",),
    ),
    Mutant(
        "the last period that is read does not pay",
        Kind.CHARGE_ORDER,
        "ledger.guarded:GuardedStore.append_charge",
        "for period in periods:",
        "for period in periods[:-1] or periods:",
        (f"{_LEDGER}::test_every_period_that_is_read_pays_the_whole_price",),
    ),
    Mutant(
        "the price is shared among the periods",
        Kind.CHARGE_ORDER,
        "ledger.guarded:GuardedStore.append_charge",
        "transaction.append('period', name, period_columns, cost=cost)",
        "transaction.append('period', name, period_columns, "
        "cost=cost if period == periods[0] else Cost(0, cost.renyi, 0))",
        (f"{_LEDGER}::test_every_period_that_is_read_pays_the_whole_price",),
    ),
    Mutant(
        "an analyst's share is no limit in a period",
        Kind.LIMITS,
        "ledger.guarded:GuardedStore._period_budgets",
        "if share:",
        "if False:",
        (f"{_LEDGER}::test_a_share_is_a_part_of_every_period",),
    ),
    Mutant(
        "a period's account is not that of its population",
        Kind.REUSE,
        "ledger.guarded:GuardedStore._period_budgets",
        "if last is not None and terms.period_of != account:",
        "if False:",
        (f"{_LEDGER}::test_without_periods_nothing_is_charged",),
    ),
    Mutant(
        "the length of a period may change",
        Kind.NEIGHBOURS,
        "ledger.ledgers:_require_same_terms",
        "if (terms.per, terms.period_of) != (requested_terms.per, requested_terms.period_of):",
        "if terms.period_of != requested_terms.period_of:",
        (f"{_LEDGER}::test_the_period_is_fixed_for_life",),
    ),
    Mutant(
        "amending looks at no period's spending",
        Kind.CHARGE_ORDER,
        "ledger.accounts.period_accounts:PeriodAccounts.amend",
        "append_amendment(self._guarded, transaction, account, change, spent)",
        "append_amendment(self._guarded, transaction, account, change, NO_COST)",
        (f"{_LEDGER}::test_a_budget_is_amended_in_all_periods_or_in_none",),
    ),
    Mutant(
        "what a period paid is not compared with the charge",
        Kind.AUDIT,
        "ledger.proofs.verifying:LineVerifier._check_period",
        "(charge.cost, charge.analyst) != (row.cost, row.analyst)",
        "charge.analyst != row.analyst",
        (f"{_LEDGER}::test_a_period_that_paid_less_than_the_charge_is_found",),
    ),
    Mutant(
        "under replace each account holds the whole budget",
        Kind.FACTOR_TWO,
        "policy.policies:Policy.account_budget",
        "if self.per is None or self.neighbours is not Neighbours.REPLACE:",
        "if True:",
        ("policy/test_account_periods.py", f"{_CURATOR}::test_under_replace_a_month_affords_half"),
    ),
    Mutant(
        "weeks are kept in months",
        Kind.NEIGHBOURS,
        "policy.policies:ACCOUNT_PERIODS",
        "('week',)",
        "('week', 'month')",
        ("policy/test_account_periods.py",),
    ),
    Mutant(
        "rows beyond the bounds are read with the account of the bound",
        Kind.LIMITS,
        "engine.duckdb.owners:RowOwners._period_sql",
        "return start if self.policy.per is None or bounds is None else",
        "return start if True else",
        (_REPLAY, f"{_CURATOR}::test_rows_beyond_the_bounds_are_of_no_account"),
    ),
    Mutant(
        "the account that holds the last bound ends with the bound's own period",
        Kind.LIMITS,
        "engine.duckdb.owners:_period_within_bounds",
        "end = calendar.shift(last, 1, per)",
        "end = calendar.shift(last, 2, per)",
        (_REPLAY,),
    ),
    Mutant(
        "only the first table is held to the periods",
        Kind.CHARGE_ORDER,
        "plan.account_periods:_restrict_scans",
        "tuple(((restrict(member), expressions) for member, expressions in members))",
        "((restrict(members[0][0]), members[0][1]), *members[1:])",
        (f"{_PLAN}::test_rows_outside_of_a_tables_own_bounds_are_not_taken_for_others",),
    ),
    Mutant(
        "OR narrows as AND does",
        Kind.LIMITS,
        "plan.account_periods:_periods_satisfying",
        "condition.function == 'AND'",
        "condition.function in ('AND', 'OR')",
        (_PLAN,),
    ),
    Mutant(
        "any date of a row tells its period",
        Kind.LIMITS,
        "plan.account_periods:_periods_within_limits",
        "if isinstance(operand, Column) and operand.reference in period_columns:",
        "if isinstance(operand, Column) and limit.low is not None and hasattr(limit.low, 'year'):",
        (_PLAN,),
    ),
    Mutant(
        "the end of a stretch belongs to it",
        Kind.LIMITS,
        "plan.account_periods:_interval_conditions",
        "'<'",
        "'<='",
        (_HELD,),
    ),
    Mutant(
        "a release may read what it does not pay for",
        Kind.CHARGE_ORDER,
        "release.proposal:release_or_find",
        "    _require_charged_periods(kind.batch, context)\n",
        "",
        (f"{_CURATOR}::test_what_does_not_keep_to_periods_is_refused_for_free",),
    ),
    Mutant(
        "the promise is left out of the footer",
        Kind.NEIGHBOURS,
        "release.answers.receipts:Receipt.short",
        "3 + bool(self.promise)",
        "3",
        (f"{_CURATOR}::test_what_is_promised_is_said_with_every_answer",),
    ),
    Mutant(
        "only the first side of a tree is looked at for periods that nobody pays",
        Kind.CHARGE_ORDER,
        "plan.account_periods:_scanned_periods",
        "relation.inputs",
        "relation.inputs[:1]",
        (f"{_PLAN}::test_one_scan_that_is_not_held_to_the_periods_is_noticed",),
    ),
)

test_the_tests_of_accounts_of_periods_notice = suite(MUTANTS)
