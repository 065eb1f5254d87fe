"""Seeded bugs in what is spent: charges that are lost, answers that are not paid for."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TABS = ("ledger/test_holds.py",)
_ACCOUNTS = ("ledger/test_accounts.py",)
MUTANTS = (
    Mutant(
        "what tabs hold can be spent again",
        Kind.CHARGE_ORDER,
        "ledger/spending.py",
        "return self.spent + self.held",
        "return self.spent",
        ("ledger/test_holds.py::test_a_hold_is_not_there_for_others_and_what_is_unspent_comes_back",),
    ),
    Mutant(
        "a step may cost more than its tab holds",
        Kind.CHARGE_ORDER,
        "ledger/holds.py",
        "if not left.covers(cost):",
        "if False:",
        ("ledger/test_holds.py::test_a_step_fits_in_every_component",),
    ),
    Mutant(
        "a tab left by an error gives back",
        Kind.CHARGE_ORDER,
        "ledger/holds.py",
        "self._end(keep=kind is not None)",
        "self._end(keep=False)",
        ("ledger/test_holds.py::test_a_block_left_by_an_error_gives_nothing_back",),
    ),
    Mutant(
        "a tab that ran out of time gives back",
        Kind.CHARGE_ORDER,
        "ledger/holds.py",
        "self._end(keep=True)",
        "self._end(keep=False)",
        ("ledger/test_holds.py::test_a_time_limit_gives_nothing_back",),
    ),
    Mutant(
        "noise is charged for a sensitivity of one",
        Kind.SENSITIVITY,
        "ledger/charged.py",
        "return self.mechanism.curve(self.sensitivity or 0)",
        "return self.mechanism.curve()",
        ("ledger/test_recomputing.py",),
    ),
    Mutant(
        "of several parts the first is charged",
        Kind.CHARGE_ORDER,
        "ledger/charged.py",
        "return found[0] if len(found) == 1 else compose(found)",
        "return found[0]",
        ("ledger/test_recomputing.py",),
    ),
    Mutant(
        "a line refers to an answer that is not on disk yet",
        Kind.CHARGE_ORDER,
        "ledger/bodies.py",
        "        local_files.sync_folder(target)\n",
        "",
        ("ledger/test_crashes.py::test_a_large_answer_is_synced_before_its_line_and_shown_after",),
    ),
    Mutant(
        "a large answer that was changed is shown",
        Kind.CHARGE_ORDER,
        "ledger/bodies.py",
        "return content.decode() if sha256(content).hexdigest() == digest else None",
        "return content.decode()",
        ("ledger/test_bodies.py::test_a_lost_file_loses_its_answer_and_nothing_else",),
    ),
    Mutant(
        "a tab whose process died gives back",
        Kind.CHARGE_ORDER,
        "ledger/accounts.py",
        "end_tab(transaction, last, keep=True, reason=reason)",
        "end_tab(transaction, last, keep=False, reason=reason)",
        ("ledger/test_holds.py::test_a_dead_process_leaves_its_hold_spent",),
    ),
    Mutant(
        "hidden state is charged step by step",
        Kind.CHARGE_ORDER,
        "ledger/accounts.py",
        "spends = whole or entry.interactive",
        "spends = whole",
        ("ledger/test_holds.py::test_hidden_state_is_charged_whole_at_opening",),
    ),
    Mutant(
        "what has no bound costs the ledger nothing",
        Kind.CHARGE_ORDER,
        "ledger/spending.py",
        "pure = None if self.pure is None or cost.pure is None else self.pure + cost.pure",
        "pure = (self.pure or 0) + (cost.pure or 0)",
        ("ledger/test_accounts.py::test_every_currency_is_enforced_as_the_budget_says",),
    ),
    Mutant(
        "failures are not added up",
        Kind.DELTA,
        "ledger/spending.py",
        "spent = (pure, _sum(self.renyi, cost.renyi), self.failure + cost.failure)",
        "spent = (pure, _sum(self.renyi, cost.renyi), cost.failure)",
        (
            "ledger/test_accounts.py::test_every_currency_is_enforced_as_the_budget_says",
            "ledger/test_accounts.py::test_a_share_is_of_every_allowance",
        ),
    ),
    Mutant(
        "an analyst's share is no limit",
        Kind.LIMITS,
        "ledger/guarded.py",
        "if mine is not None and mine.share:",
        "if False:",
        ("ledger/test_accounts.py::test_a_share_and_the_cap_must_both_afford",),
    ),
    Mutant(
        "a charge is answered twice",
        Kind.REUSE,
        "ledger/accounts.py",
        "if transaction.newest(about=paid.number) is not None:",
        "if False:",
        ("ledger/test_accounts.py::test_a_charge_pays_for_one_answer",),
    ),
    Mutant(
        "the same people have two budgets",
        Kind.REUSE,
        "ledger/accounts.py",
        "if taken is not None:",
        "if False:",
        ("ledger/test_joined_sources.py",),
    ),
    Mutant(
        "a ledger that lost lines is written on",
        Kind.REUSE,
        "ledger/guarded.py",
        "if missing is not None:",
        "if False:",
        ("ledger/test_chain.py::test_a_ledger_behind_the_anchor_beside_it_refuses_until_acknowledged",),
    ),
    Mutant(
        "a line that was changed is believed",
        Kind.REUSE,
        "ledger/transaction.py",
        "if row.hash != row.seal():",
        "if False:",
        ("ledger/test_accounts.py::test_a_line_that_was_changed_in_the_file_is_not_believed",),
    ),
)

test_the_tests_of_ledgers_notice = suite(MUTANTS)
