"""Seeded bugs in the free database: who sees whose tables, what reaches its engine, and when a token is looked up."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TABLES = "server/postgres/test_published_tables.py"
_REVOKED = "server/postgres/test_sessions.py::test_a_revoked_token_ends_what_it_opened"
_UNCHANGED = "server/people/test_people_file.py::test_a_proven_token_is_unchanged_until_the_file_or_its_time_changes"

MUTANTS = (
    Mutant(
        "everybody sees what somebody else has bought",
        Kind.CONSENT,
        "server.gateway:Gateway.bought_lines",
        "user = None if caller.role in _READ_ALL_ROLES else caller.user",
        "user = None",
        (f"{_TABLES}::test_each_sees_what_rest_shows_them",),
    ),
    Mutant(
        "who was taken off the list of analysts still reads the tables",
        Kind.CONSENT,
        "server.gateway:Gateway.bought_lines",
        "self._require_visible_policy(caller, name)",
        "pass",
        (f"{_TABLES}::test_what_is_bought_or_withdrawn_meanwhile_is_seen_at_once",),
    ),
    Mutant(
        "the tables of a connection are those of its sign-in",
        Kind.CONSENT,
        "server.postgres.answering:StatementSource.authenticate",
        "if self.published is None and self.gateway.people.is_proof_current(self.proof.proven):",
        "if self.gateway.people.is_proof_current(self.proof.proven):",
        (f"{_TABLES}::test_what_is_bought_or_withdrawn_meanwhile_is_seen_at_once",),
    ),
    Mutant(
        "what is not listed reaches the engine of drawn rows",
        Kind.HOSTILE,
        "server.postgres.synthetic_rows:_refuse_constructs",
        "if type(node) not in ROW_NODES:",
        "if type(node) is exp.Anonymous and node.name == '':",
        (f"{_TABLES}::test_hostile_statements_are_refused_in_words",),
    ),
    Mutant(
        "other tables are looked up in the engine of drawn rows",
        Kind.HOSTILE,
        "server.postgres.synthetic_rows:synthetic_tables_read",
        "if others:",
        "if False:",
        (f"{_TABLES}::test_hostile_statements_are_refused_in_words",),
    ),
    Mutant(
        "every row that was drawn may be asked for at once",
        Kind.HOSTILE,
        "server.postgres.synthetic_rows:SyntheticRows.run",
        "if len(rows) > MAX_ROWS or letters > MAX_LETTERS:",
        "if letters > MAX_LETTERS:",
        (f"{_TABLES}::test_large_answers_are_refused",),
    ),
    Mutant(
        "counts of drawn rows are shown for those of people",
        Kind.RANGES,
        "server.postgres.synthetic_tables:PublishedTables._is_answered_by_model",
        "return self._model_refusal(sql, samples) is None",
        "return False",
        (f"{_TABLES}::test_questions_are_answered_by_the_model_with_its_ranges",),
    ),
    Mutant(
        "a statement about ranges is taken apart where its question costs",
        Kind.CONSENT,
        "server.postgres.answering:StatementSource._outer_select_over_answer",
        "self.published is None or not may_name_range_column(sql)",
        "not may_name_range_column(sql)",
        (f"{_TABLES}::test_an_outer_select_names_ranges",),
    ),
    Mutant(
        "a token that was proven once works for ever",
        Kind.CONSENT,
        "server.people.people_file:PeopleFile.is_proof_current",
        "return proven.change_count == self.database.change_counters_or_none()",
        "return True",
        (_REVOKED,),
    ),
    Mutant(
        "a token that another process has revoked goes on working",
        Kind.CONSENT,
        "server.people.database:PeopleDatabase.change_counters_or_none",
        "return (self._openings, version, connection.total_changes)",
        "return (self._openings, 0, connection.total_changes)",
        (_REVOKED,),
    ),
    Mutant(
        "a token that this process has revoked goes on working",
        Kind.CONSENT,
        "server.people.database:PeopleDatabase.change_counters_or_none",
        "return (self._openings, version, connection.total_changes)",
        "return (self._openings, version, 0)",
        (_REVOKED,),
    ),
    Mutant(
        "a token outlives its time on an open connection",
        Kind.CONSENT,
        "server.people.people_file:PeopleFile.is_proof_current",
        "if proven is None or proven.change_count is None or proven.token.end_reason(self._now()):",
        "if proven is None or proven.change_count is None:",
        (_UNCHANGED,),
    ),
)

test_the_tests_of_the_free_database_notice = suite(MUTANTS)
