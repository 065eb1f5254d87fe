"""Seeded bugs in what of a policy belongs to a question: what is forgotten gives old answers a new meaning."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_EDITS = "curator/test_policy_edits.py"
_ONE = f"{_EDITS}::test_an_edit_counts_for_the_questions_it_concerns"
_LEDGER = "ledger/test_accounts.py"

MUTANTS = (
    Mutant(
        "a limit of rows is no part of a question",
        Kind.REUSE,
        "plan.relevant_policy:FIELDS",
        "'max_rows': _ALWAYS",
        "'max_rows': _NEVER",
        (f"{_ONE}[Table.max_rows 0]",),
    ),
    Mutant(
        "the table through which rows get an owner is no part of a question",
        Kind.REUSE,
        "plan.relevant_policy:_add_owner_columns",
        "_add_owner_columns(unit_id.via, policy, read)",
        "read.pop(unit_id.via)",
        (f"{_ONE}[Table.id 1]",),
    ),
    Mutant(
        "the key through which rows get an owner is no part of a question",
        Kind.REUSE,
        "plan.relevant_policy:_add_owner_columns",
        "columns.add(unit_id.on.lower())",
        "pass",
        (f"{_ONE}[Table.columns 6]",),
    ),
    Mutant(
        "the values of a column are no part of a question",
        Kind.REUSE,
        "plan.relevant_policy:FIELDS",
        "'columns': Relevance.COLUMN",
        "'columns': Relevance.CELL",
        (f"{_ONE}[Domain.values 0]",),
    ),
    Mutant(
        "a condition on a joined public table reads no column of it",
        Kind.REUSE,
        "plan.relevant_policy:read_columns",
        "read[part.table].update(map(str.lower, joined))",
        "pass",
        (f"{_ONE}[Domain.max_length 0]",),
    ),
    Mutant(
        "a condition reads no column",
        Kind.REUSE,
        "plan.relevant_policy:read_columns",
        "for part in _hashed_plan_parts(plan):",
        "for part in _hashed_plan_parts((getattr(plan.source, 'input', plan.source), plan.keys, plan.measures)):",
        (f"{_ONE}[Domain.values 1]",),
    ),
    Mutant(
        "what no row can be is no part of published cells",
        Kind.REUSE,
        "plan.relevant_policy:FIELDS",
        "'impossible': Relevance.CELLS",
        "'impossible': _NEVER",
        (f"{_ONE}[Table.impossible 0]",),
    ),
    Mutant(
        "the bins of a column are no part of published cells",
        Kind.REUSE,
        "plan.relevant_policy:declarations_for_plan",
        "reads_cells=reads_cells",
        "reads_cells=False",
        (f"{_ONE}[Coding.starts 0]",),
    ),
    Mutant(
        "a field that nobody classified is left out",
        Kind.REUSE,
        "plan.relevant_policy:_included_declarations",
        "relevances.get(name, _ALWAYS)",
        "relevances.get(name, _NEVER if relevances else _ALWAYS)",
        (f"{_EDITS}::test_a_field_that_nobody_classified_counts",),
    ),
    Mutant(
        "an answer from before a new declaration is found under the former key",
        Kind.REUSE,
        "curator.context:Context.policy_version",
        "*([['later', later]] if later else [])",
        "*[]",
        (f"{_EDITS}::test_a_field_that_nobody_classified_counts",),
    ),
    Mutant(
        "the key of a question forgets the policy",
        Kind.REUSE,
        "curator.context:Context.plan_key",
        "make_hash(relevant)",
        "make_hash('')",
        (f"{_EDITS}::test_what_was_bought_costs_again_after_edits_that_concern_it",),
    ),
    Mutant(
        "an answer of other data is found",
        Kind.REUSE,
        "ledger.accounts.account:Account._hashed_answer_columns",
        "'data': self._guarded.hash_data_version(entries.checked_name(data, 'data'))",
        "**{}",
        (f"{_LEDGER}::test_an_answer_under_a_former_plan_is_found_and_a_current_one_is_better",),
    ),
    Mutant(
        "the bought answers of earlier versions are not found",
        Kind.REUSE,
        "release.proposal:is_stored",
        "former_plan=plan.former",
        "former_plan=''",
        ("compatibility/test_written_before.py::test_every_bought_answer_is_free_and_the_same",),
    ),
    Mutant(
        "a request under a former key is charged again",
        Kind.CHARGE_ORDER,
        "ledger.accounts.pending_queries:PendingQuery.__init__",
        "(entry.plan, former_plan) if former_plan else (entry.plan,)",
        "(entry.plan,)",
        (f"{_LEDGER}::test_a_request_for_a_former_plan_is_the_same_request",),
    ),
)

test_the_tests_of_policy_edits_notice = suite(MUTANTS)
