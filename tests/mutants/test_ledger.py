"""Seeded bugs in what is spent: charges that are lost, answers that are not paid for."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TABS = ("ledger/test_tabs.py",)
_ACCOUNTS = ("ledger/test_accounts.py",)
MUTANTS = (
    Mutant(
        "what tabs hold can be spent again",
        Kind.CHARGE_ORDER,
        "ledger/purse.py",
        "return self.spent + self.held",
        "return self.spent",
        _TABS,
    ),
    Mutant(
        "a step may cost more than its tab holds",
        Kind.CHARGE_ORDER,
        "ledger/tabs.py",
        "if not left.covers(cost):",
        "if False:",
        _TABS,
    ),
    Mutant(
        "a tab left by an error gives back",
        Kind.CHARGE_ORDER,
        "ledger/tabs.py",
        "self._end(keep=kind is not None)",
        "self._end(keep=False)",
        _TABS,
    ),
    Mutant(
        "a tab whose process died gives back",
        Kind.CHARGE_ORDER,
        "ledger/accounts.py",
        "end_tab(desk, last, keep=True, reason=reason)",
        "end_tab(desk, last, keep=False, reason=reason)",
        _TABS,
    ),
    Mutant(
        "hidden state is charged step by step",
        Kind.CHARGE_ORDER,
        "ledger/accounts.py",
        "spends = whole or entry.interactive",
        "spends = whole",
        _TABS,
    ),
    Mutant(
        "what has no bound costs the ledger nothing",
        Kind.CHARGE_ORDER,
        "ledger/purse.py",
        "pure = None if self.pure is None or cost.pure is None else self.pure + cost.pure",
        "pure = (self.pure or 0) + (cost.pure or 0)",
        _ACCOUNTS,
    ),
    Mutant(
        "failures are not added up",
        Kind.DELTA,
        "ledger/purse.py",
        "spent = (pure, _sum(self.renyi, cost.renyi), self.failure + cost.failure)",
        "spent = (pure, _sum(self.renyi, cost.renyi), cost.failure)",
        ("ledger/test_accounts.py", "ledger/test_chain.py"),
    ),
    Mutant(
        "an analyst's share is no limit",
        Kind.LIMITS,
        "ledger/book.py",
        "if mine is not None and mine.share:",
        "if False:",
        _ACCOUNTS,
    ),
    Mutant(
        "a charge is answered twice",
        Kind.REUSE,
        "ledger/accounts.py",
        "if desk.newest(about=paid.number) is not None:",
        "if False:",
        _ACCOUNTS,
    ),
    Mutant(
        "the same people have two budgets",
        Kind.REUSE,
        "ledger/accounts.py",
        "if taken is not None:",
        "if False:",
        ("ledger/test_sources.py",),
    ),
    Mutant(
        "a ledger that lost lines is written on",
        Kind.REUSE,
        "ledger/book.py",
        "if missing is not None:",
        "if False:",
        ("ledger/test_two_histories.py", "ledger/test_chain.py"),
    ),
    Mutant(
        "a line that was changed is believed",
        Kind.REUSE,
        "ledger/desk.py",
        "if row.hash != row.seal():",
        "if False:",
        ("ledger/test_chain.py",),
    ),
)

test_the_tests_of_ledgers_notice = suite(MUTANTS)
