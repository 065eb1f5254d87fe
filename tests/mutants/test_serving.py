"""Seeded bugs in what many share: rehearsals, public faces, errors as JSON, shares, standings, drains, reopening."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_REHEARSED = "curator/previews/test_previewing.py"
_SHARED = "curator/test_curators.py"
_FACES = "policy/test_public_faces.py"
_ERRORS = "test_errors.py"
_POISON = f"{_REHEARSED}::test_every_proposal_is_rehearsed_without_data_or_ledger_and_says_so"

MUTANTS = (
    Mutant(
        "a rehearsal reads the data",
        Kind.CONSENT,
        "curator.previews.previewing:preview_context",
        "yield Context(policy, engine, account,",
        "yield Context(policy, context.engine, account,",
        (_POISON,),
    ),
    Mutant(
        "a rehearsal is charged to the account, and kept in its ledger",
        Kind.CHARGE_ORDER,
        "curator.previews.previewing:preview_context",
        "yield Context(policy, engine, account,",
        "yield Context(policy, engine, context.account,",
        (_POISON,),
    ),
    Mutant(
        "an invented answer is shown as a bought one",
        Kind.CONSENT,
        "release.proposal:make_receipt",
        "is_preview=context.is_preview, joint",
        "is_preview=False, joint",
        (_POISON,),
    ),
    Mutant(
        "a rehearsal tells what is left",
        Kind.CONSENT,
        "release.proposal:make_receipt",
        "'not shown in a preview' if context.is_preview else remaining_budget_text(statement)",
        "remaining_budget_text(statement)",
        (_POISON,),
    ),
    Mutant(
        "private tables are rehearsed on their own rows",
        Kind.CONSENT,
        "engine.opening:with_invented_rows",
        "source=InMemory(dummy_tables[name]), relation=None) if name in private else table",
        "row_ceiling=table.row_ceiling) if name in private else table",
        (f"{_REHEARSED}::test_equal_coins_give_equal_rehearsals_whatever_the_data_and_the_spending",),
    ),
    Mutant(
        "a CSV file of invented numbers does not say so",
        Kind.CONSENT,
        "release.answers.answer:Answer.to_csv",
        "f'# {PREVIEW_NOTE}\\n{out.getvalue()}' if self.is_preview else out.getvalue()",
        "out.getvalue()",
        (f"{_REHEARSED}::test_the_mark_is_wherever_an_answer_is_shown",),
    ),
    Mutant(
        "a face tells the shares of whoever it finds first",
        Kind.CONSENT,
        "policy.policies:Policy.public_face",
        "None if analyst is None else self.analysts[analyst]",
        "next(iter(self.analysts.values()), None)",
        (f"{_FACES}::test_it_says_nothing_of_sources_and_of_other_analysts",),
    ),
    Mutant(
        "a face tells where a table is stored",
        Kind.CONSENT,
        "policy.public_faces:public_table",
        "period or ''",
        "str(getattr(table, 'source', ''))",
        (f"{_FACES}::test_it_says_nothing_of_sources_and_of_other_analysts",),
    ),
    Mutant(
        "a face tells what was spent",
        Kind.CONSENT,
        "policy.policies:Policy.public_face",
        "without_spending(self.budget),",
        "self.budget,",
        (f"{_FACES}::test_what_was_spent_is_no_part_of_it",),
    ),
    Mutant(
        "the facts of an error show all of a parameter",
        Kind.CONSENT,
        "errors:InvalidParameter.facts",
        "short = value if not isinstance(value, str) or len(value) <= _MAX_VALUE else",
        "short = value if isinstance(value, str) else",
        (f"{_ERRORS}::test_facts_show_no_more_of_a_parameter_than_the_text_does",),
    ),
    Mutant(
        "notes on an error are told",
        Kind.CONSENT,
        "errors:SfumatoError.facts",
        "name not in _TEXT_FIELDS and (not name.startswith('_'))",
        "name not in _TEXT_FIELDS",
        (f"{_ERRORS}::test_what_is_not_written_is_not_told",),
    ),
    Mutant(
        "a share is written each time",
        Kind.CHARGE_ORDER,
        "ledger.accounts.account:Account.give_share",
        "if analyst_row is not None and analyst_row.share == part:\n        return",
        "if analyst_row is None and part:\n        pass",
        (f"{_SHARED}::test_a_share_is_written_once_and_enforced_each_time",),
    ),
    Mutant(
        "a standing is that of before",
        Kind.REUSE,
        "curator.curators:Curator.standing",
        "if cached is None or cached.ledger_head != head or",
        "if cached is None or",
        (f"{_SHARED}::test_a_standing_is_computed_once_for_each_last_line",),
    ),
    Mutant(
        "an analyst is told the standing of the account",
        Kind.CONSENT,
        "curator.curators:Curator.standing",
        "cached = self._standings.get(payer)",
        "cached = self._standings.get(payer) or self._standings.get(None)",
        (f"{_SHARED}::test_a_standing_is_computed_once_for_each_last_line",),
    ),
    Mutant(
        "a drained curator charges",
        Kind.CHARGE_ORDER,
        "release.running_work:RunningWork.running",
        "if self._draining:",
        "if self._draining and self._running < 0:",
        (f"{_SHARED}::test_a_drain_waits_for_charged_work_and_refuses_new_work",),
    ),
    Mutant(
        "a drain does not wait for what was charged",
        Kind.CHARGE_ORDER,
        "release.running_work:RunningWork.running",
        "self._running -= 1",
        "self._running -= 2",
        (f"{_SHARED}::test_a_drained_session_answers_no_more_and_a_failed_release_is_not_waited_for",),
    ),
    Mutant(
        "reopening opens a ledger of its own",
        Kind.REUSE,
        "curator.curators:Curator.reopen",
        "self._ledger_address",
        "self._ledger_address.with_name('another')",
        (f"{_SHARED}::test_changed_data_are_a_new_version_of_the_same_account",),
    ),
    Mutant(
        "an analyst who reopens is the owner",
        Kind.LIMITS,
        "curator.curators:Curator.reopen",
        "return curator if context.analyst is None else curator.as_analyst(context.analyst)",
        "return curator",
        (f"{_SHARED}::test_changed_data_are_a_new_version_of_the_same_account",),
    ),
    Mutant(
        "pages of history show the lines of others",
        Kind.CONSENT,
        "curator.curators:Curator.history",
        "account_lines(self.ledger, self.policy, payer, after)",
        "account_lines(self.ledger, self.policy, analyst, after)",
        (f"{_SHARED}::test_history_goes_on_after_a_line",),
    ),
    Mutant(
        "who asks the same text later asks under the first one's name",
        Kind.CONSENT,
        "curator.curators:QuestionCache.get_or_propose",
        "cached.context is context and ",
        "",
        ("curator/test_question_cache.py::test_whoever_asks_the_same_text_pays_under_their_own_name",),
    ),
    Mutant(
        "questions are kept with however long lists of groups",
        Kind.HOSTILE,
        "curator.curators:_has_few_groups",
        "<= _MAX_GROUPS",
        "> 0",
        ("curator/test_question_cache.py::test_a_question_is_kept_with_few_groups_only",),
    ),
    Mutant(
        "what is shown of a purchase has its salt",
        Kind.CONSENT,
        "curator.proposals.private_bounds:BoundsProposal._with_receipt",
        "return replace(bounds, purchase=bounds.purchase.without_salt, receipt=bounds_receipt)",
        "return replace(bounds, receipt=bounds_receipt)",
        ("curator/test_reports_as_json.py::test_nothing_that_is_shown_has_the_salt_of_its_line",),
    ),
)

test_the_tests_of_what_many_share_notice = suite(MUTANTS)
