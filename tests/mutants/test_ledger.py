"""Seeded bugs in what is spent: charges that are lost, answers that are not paid for."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LOOKS = "ledger/accounts/test_look_up.py::"
_RUNS = "ledger/proofs/test_verification_runs.py::"

MUTANTS = (
    Mutant(
        "the joint between two parts of a verification is not compared",
        Kind.AUDIT,
        "ledger.proofs.verification_runs:_joint_fault",
        "part.previous != earlier.last_hash",
        "False",
        (f"{_RUNS}test_a_part_that_follows_another_line_is_named",),
    ),
    Mutant(
        "a part whose first line names no line before it follows any",
        Kind.AUDIT,
        "ledger.proofs.verification_runs:_joint_fault",
        "part.previous is None",
        "not part.previous",
        (f"{_RUNS}test_a_part_that_follows_another_line_is_named",),
    ),
    Mutant(
        "lines may follow the last line of a moved ledger where a part begins",
        Kind.AUDIT,
        "ledger.proofs.verification_runs:_joint_fault",
        "if earlier.moved:",
        "if False:",
        (f"{_RUNS}test_a_part_that_follows_another_line_is_named",),
    ),
    Mutant(
        "the totals of the first line of a part are taken as they are",
        Kind.AUDIT,
        "ledger.proofs.verifying:LineVerifier._earlier_account",
        "RunningTotals(read_totals(earlier_line.totals))",
        "RunningTotals((lambda stated: stated._replace(pure=stated.pure - read_cost(row.cost).pure))"
        "(read_totals(row.totals)))",
        (f"{_RUNS}test_totals_are_compared_across_parts",),
    ),
    Mutant(
        "a checkpoint is believed without its seal",
        Kind.AUDIT,
        "ledger.proofs.verification_runs:VerificationCheckpoint.load",
        "if not hmac.compare_digest(seal, _checkpoint_seal(text)):",
        "if False:",
        (f"{_RUNS}test_a_checkpoint_without_the_seal_of_this_user_is_not_believed",),
    ),
    Mutant(
        "a checkpoint of another ledger is believed",
        Kind.AUDIT,
        "ledger.proofs.verification_runs:VerificationRun.adopt_verified_parts",
        "task is not None and _has_same_ends(self._store, part)",
        "task is not None",
        (f"{_RUNS}test_a_history_that_was_sealed_anew_is_read_again",),
    ),
    Mutant(
        "a part whose process died counts as verified",
        Kind.AUDIT,
        "ledger.proofs.verification_runs:VerificationRun.finish",
        "for task in tasks:",
        "for task in tasks if processes == 1 else ():",
        (f"{_RUNS}test_a_part_whose_process_dies_is_verified_by_the_other",),
    ),
    Mutant(
        "what a charge may spend is read before its transaction",
        Kind.CHARGE_ORDER,
        "ledger.guarded:GuardedStore.admit",
        "        with self.writing() as transaction:\n",
        "        with self.reading() as transaction:\n"
        "            early = self.first_refusal_maker(transaction, account, analyst, cost, periods)\n"
        "        self.first_refusal_maker = lambda *_: early\n"
        "        with self.writing() as transaction:\n",
        (f"{_LOOKS}test_what_decides_is_read_in_the_transaction_that_charges",),
    ),
    Mutant(
        "what a query may spend is read before its transaction",
        Kind.CHARGE_ORDER,
        "ledger.accounts.pending_queries:PendingQuery._charge_unless_found",
        "    with self._guarded.writing() as transaction:\n",
        "    with self._guarded.reading() as transaction:\n"
        "        early = self._guarded.first_refusal("
        "transaction, self._account, self._columns['analyst'], self._cost, self._periods)\n"
        "    self._guarded.first_refusal = lambda *_: early\n"
        "    with self._guarded.writing() as transaction:\n",
        (f"{_LOOKS}test_what_decides_is_read_in_the_transaction_that_charges",),
    ),
    Mutant(
        "an answer that was bought after the look is paid for again",
        Kind.REUSE,
        "ledger.accounts.pending_queries:PendingQuery._find_answered_or_pending",
        "after=last_seen,",
        "after=transaction.last_number,",
        (f"{_LOOKS}test_an_answer_bought_after_the_look_is_not_paid_twice",),
    ),
    Mutant(
        "an answer bought after the last line that counts is reused",
        Kind.REUSE,
        "ledger.accounts.pending_queries:PendingQuery._find_answered_or_pending",
        ", before=_exclusive_line_limit(self._until)",
        "",
        (f"{_LOOKS}test_an_answer_after_the_last_line_that_counts_is_not_reused",),
    ),
    Mutant(
        "a receipt shows a share that was changed since",
        Kind.LIMITS,
        "ledger.guarded:GuardedStore._cached_share_budget",
        "if (number, share) not in self._shares:",
        "if not any((line == number for line, _ in self._shares)):",
        (f"{_LOOKS}test_the_history_of_epsilon_follows_amendments",),
    ),
    Mutant(
        "the totals of an account are compared on its first line alone",
        Kind.AUDIT,
        "ledger.proofs.verifying:LineVerifier._check_amounts",
        "elif state[0].add_line(cost, before, left) != totals:",
        "elif state[0].add_line(cost, before, left) == '':",
        ("ledger/test_chain.py::test_a_chain_resealed_to_its_end_still_has_to_add_up",),
    ),
    Mutant(
        "the totals of an analyst are compared on their first line alone",
        Kind.AUDIT,
        "ledger.proofs.verifying:LineVerifier._check_amounts",
        "elif analyst_state[0].add_line(cost, before, left) != analyst_totals:",
        "elif analyst_state[0].add_line(cost, before, left) == '':",
        (f"{_RUNS}test_totals_are_compared_across_parts",),
    ),
    Mutant(
        "running totals forget failures",
        Kind.DELTA,
        "ledger.spending:RunningTotals.add_line",
        "self._spent = (pure, renyi, failure)",
        "self._spent = (pure, renyi, 0)",
        (f"{_RUNS}test_running_totals_are_what_spending_says",),
    ),
    Mutant(
        "the answer on the very line that is named is not found",
        Kind.REUSE,
        "ledger.accounts.pending_queries:_exclusive_line_limit",
        "0 if until is None else until + 1",
        "0 if until is None else until",
        ("ledger/accounts/test_pending_queries.py::test_answers_are_found_up_to_the_line_that_is_named_and_not_after",),
    ),
    Mutant(
        "a tab left by an error gives back",
        Kind.CHARGE_ORDER,
        "ledger.accounts.reservations:Tab.__exit__",
        "self._close_tab(spend_rest=kind is not None)",
        "self._close_tab(spend_rest=False)",
        ("ledger/accounts/test_holds.py::test_a_block_left_by_an_error_gives_nothing_back",),
    ),
    Mutant(
        "noise is charged for a sensitivity of one",
        Kind.SENSITIVITY,
        "ledger.spending:Charged.curve",
        "() if self.sensitivity is None else (self.sensitivity,)",
        "() if self.sensitivity is None else (1,)",
        ("ledger/test_recomputing.py::test_every_kind_of_charge_is_recomputed_from_its_line",),
    ),
    Mutant(
        "a line refers to an answer that is not on disk yet",
        Kind.CHARGE_ORDER,
        "ledger.stores.store:BodyFiles._write",
        "local_files.sync_parent_folder(target)",
        "",
        ("ledger/test_crashes.py::test_a_large_answer_is_synced_before_its_line_and_shown_after",),
    ),
    Mutant(
        "a large answer that was changed is shown",
        Kind.CHARGE_ORDER,
        "ledger.stores.store:BodyFiles.read",
        "return content.decode() if sha256(content).hexdigest() == digest else None",
        "return content.decode()",
        ("ledger/stores/test_bodies.py::test_a_lost_file_loses_its_answer_and_nothing_else",),
    ),
    Mutant(
        "what has no bound costs the ledger nothing",
        Kind.CHARGE_ORDER,
        "ledger.spending:Spending.after",
        "pure = None if self.pure is None or cost.pure is None else amounts.add_rounded_up(self.pure, cost.pure)",
        "pure = (self.pure or 0) + (cost.pure or 0)",
        ("ledger/test_accounts.py::test_every_currency_is_enforced_as_the_budget_says",),
    ),
    Mutant(
        "failures are not added up",
        Kind.DELTA,
        "ledger.spending:Spending.after",
        "spent = (pure, _add_units_or_none(self.renyi, cost.renyi), amounts.add_rounded_up(self.failure, "
        "cost.failure))",
        "spent = (pure, _add_units_or_none(self.renyi, cost.renyi), cost.failure)",
        (
            "ledger/test_accounts.py::test_every_currency_is_enforced_as_the_budget_says",
            "ledger/test_accounts.py::test_a_share_is_of_every_allowance",
        ),
    ),
    Mutant(
        "an analyst's share is no limit",
        Kind.LIMITS,
        "ledger.guarded:GuardedStore.budgets",
        "if analyst_row is not None and share:",
        "if False:",
        ("ledger/test_accounts.py::test_a_share_and_the_cap_must_both_afford",),
    ),
    Mutant(
        "a ledger that lost lines is written on",
        Kind.REUSE,
        "ledger.guarded:GuardedStore._require_intact",
        "if missing is not None:",
        "if False:",
        ("ledger/test_chain.py::test_a_ledger_behind_the_anchor_beside_it_refuses_until_acknowledged",),
    ),
    Mutant(
        "all ledgers have one key",
        Kind.REUSE,
        "ledger.sealed_rows:KeyedHash.__init__",
        "hmac.new(key, digestmod='sha256')",
        "hmac.new(bytes(32), digestmod='sha256')",
        ("ledger/test_guesses.py::test_two_ledgers_have_two_keys_and_one_has_the_same_for_life",),
    ),
    Mutant(
        "lines have no salt",
        Kind.REUSE,
        "ledger.transaction:Transaction.append",
        "f'{bits.random_bits(128):032x}'",
        "''",
        ("ledger/test_guesses.py::test_the_key_and_the_salts_stay_in_the_ledger",),
    ),
    Mutant(
        "the salt of a line is known",
        Kind.REUSE,
        "ledger.transaction:Transaction.append",
        "f'{bits.random_bits(128):032x}'",
        "'0' * 32",
        ("ledger/test_guesses.py::test_a_guess_of_the_file_is_found_in_nothing_that_leaves",),
    ),
    Mutant(
        "the data of a release are stored as they are",
        Kind.REUSE,
        "ledger.guarded:GuardedStore.hash_data_version",
        "data_hash = self.keyed_hash('data', data)",
        "data_hash = data",
        ("ledger/test_guesses.py::test_two_ledgers_have_two_keys_and_one_has_the_same_for_life",),
    ),
    Mutant(
        "the content of a file is stored as its plain hash",
        Kind.REUSE,
        "ledger.accounts.joined_sources:describe_source",
        "keyed('content', source.fingerprint())",
        "source.fingerprint()",
        ("ledger/accounts/test_joined_sources.py::test_the_same_path_or_content_is_refused_by_another_account",),
    ),
    Mutant(
        "whatever moves is charged as moving by one",
        Kind.SENSITIVITY,
        "ledger.spending:Charged.__init__",
        "None if sensitivity is None else Sensitivity.of(sensitivity))",
        "None if sensitivity is None else Sensitivity(1, 1, neighbours=Sensitivity.of(sensitivity).neighbours))",
        (
            "ledger/test_recomputing.py::test_every_kind_of_charge_is_recomputed_from_its_line",
            "ledger/test_recomputing.py::test_the_walk_over_all_ledgers_finds_a_sensitivity_that_does_not_fit_its_cost",
        ),
    ),
    Mutant(
        "an answer on the line after the last one that was looked at is bought again",
        Kind.REUSE,
        "ledger.accounts.pending_queries:PendingQuery._find_answered_or_pending",
        "after=last_seen, before=_exclusive_line_limit(self._until)",
        "after=last_seen + 1, before=_exclusive_line_limit(self._until)",
        ("ledger/accounts/test_look_up.py",),
    ),
)

test_the_tests_of_ledgers_notice = suite(MUTANTS)
