"""Seeded bugs in drafts: rows read without consent, wrong units, lost answers, copies that lose cells."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "rows are read though the owner said no",
        Kind.CONSENT,
        "cli.commands.init:_Drafting._make_readable",
        "may_read_types = rows and bool(table.copy_reasons or table.text_format)",
        "may_read_types = bool(table.copy_reasons or table.text_format)",
        ("cli/commands/test_init.py::test_rows_are_read_only_when_the_owner_lets_them_be",),
    ),
    Mutant(
        "texts of a file are looked into that its owner was not asked about",
        Kind.CONSENT,
        "cli.commands.init:_Drafting._make_readable",
        "may_read_types = rows and bool(table.copy_reasons or table.text_format)",
        "may_read_types = rows",
        ("cli/commands/test_init.py::test_rows_are_read_only_of_the_files_that_were_asked_about",),
    ),
    Mutant(
        "a code that SQLite calls a text becomes a number",
        Kind.NAN,
        "curator.policy_drafts:_merge_type",
        "if stored is Type.TEXT and inferred in (Type.DATE, Type.TIMESTAMP):",
        "if stored is Type.TEXT and inferred is not None:",
        ("cli/commands/test_init.py::test_texts_of_sqlite_that_are_dates_are_proposed_as_dates",),
    ),
    Mutant(
        "a key of another thing is taken for the unit unseen",
        Kind.CONSENT,
        "cli.commands.init:_Drafting._id_question",
        "default is None and (not self.interview.take_defaults)",
        "default is None",
        ("cli/commands/test_init.py::test_no_unit_is_guessed_unseen",),
    ),
    Mutant(
        "the kept answers can be read by others",
        Kind.CONSENT,
        "cli.drafting.interview:SavedAnswers.save",
        "384",
        "420",
        ("cli/commands/test_init.py::test_an_interview_goes_on_where_it_was",),
    ),
    Mutant(
        "a copy can be read by more people than the original",
        Kind.CONSENT,
        "engine.file_copies:_copy_once",
        "status.st_mode & 511",
        "420",
        ("cli/commands/test_init.py::test_other_kinds_of_files_are_copied_with_consent",),
    ),
    Mutant(
        "an old copy stands for a file that has changed",
        Kind.NAN,
        "engine.file_copies:_copy_once",
        "if existing is not None and existing[0] == origin:",
        "if existing is not None:",
        ("engine/test_file_copies.py::test_a_copy_is_made_once_and_anew_when_the_file_has_changed",),
    ),
    Mutant(
        "codes that begin with a 0 are numbers",
        Kind.NAN,
        "engine.duckdb.connection:inferred_types",
        "if is_coded and kinds[column].numeric",
        "if is_coded and not kinds[column].numeric",
        ("engine/test_file_copies.py::test_a_number_that_begins_with_0_is_a_code",),
    ),
    Mutant(
        "a table in memory spends from the account of its unit, not from the one that is named",
        Kind.CHARGE_ORDER,
        "policy.policies:Policy.account_name",
        "if self.account is not None:\n        return self.account",
        "",
        ("curator/test_protecting.py::test_a_table_is_protected_in_one_line",),
    ),
    Mutant(
        "an invented unit has more rows than count",
        Kind.LIMITS,
        "policy.dummies:_key_columns",
        "min(table.max_rows or 1, _MAX_ROWS_PER_UNIT) + 1",
        "_MAX_ROWS_PER_UNIT + 1",
        ("policy/test_dummies.py::test_a_dummy_is_the_same_every_time_and_keeps_the_limits",),
    ),
    Mutant(
        "a column that counts units is taken for their key",
        Kind.CONSENT,
        "curator.policy_drafts:_ID_BEGINNINGS",
        "('id', 'identifier', 'numero')",
        "('id', 'identifier', 'no', 'numero')",
        ("cli/commands/test_init.py::test_what_counts_units_or_names_other_things_is_no_key",),
    ),
    Mutant(
        "a code is taken for the key though there is an id",
        Kind.CONSENT,
        "curator.policy_drafts:_ID_ENDINGS",
        "('id', 'uuid', 'key', 'number', 'num', 'nr', 'no')",
        "('code', 'id', 'uuid', 'key', 'number', 'num', 'nr', 'no')",
        ("cli/commands/test_init.py::test_the_surest_key_is_taken_first",),
    ),
    Mutant(
        "what a default left out is not told",
        Kind.CONSENT,
        "cli.commands.init:_Drafting._note_left_out",
        "if self.interview.known_answer(question) == SKIP}",
        "if self.interview.known_answer(question) in (SKIP, None)}",
        ("cli/commands/test_init.py::test_what_a_draft_leaves_out_is_told_with_a_line_and_a_flag_that_declare_it",),
    ),
    Mutant(
        "nobody is told by which name rows were given to units",
        Kind.CONSENT,
        "cli.commands.init:_Drafting.policy",
        "if take_defaults and self.interview.known_answer(id_questions[label]) is None",
        "if self.interview.known_answer(id_questions[label]) is not None",
        ("cli/commands/test_init.py::test_a_draft_says_by_which_name_rows_were_given_to_units",),
    ),
)


test_the_tests_of_drafts_notice = suite(MUTANTS)
