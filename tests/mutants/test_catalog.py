"""Seeded bugs in the catalog that PostgreSQL clients read: what it lets through, and what it tells."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_FOLDER = "server/postgres/catalog"
_HOSTILE = f"{_FOLDER}/test_hostile_statements.py"
_REFUSED = f"{_HOSTILE}::test_hostile_statements_are_refused_with_a_fix"
_TOLD = f"{_FOLDER}/test_catalog.py"
_BI = "plan/sql/test_bi_questions.py"

MUTANTS = (
    Mutant(
        "the list of functions is open to read_csv_auto",
        Kind.HOSTILE,
        "server.postgres.catalog.parsing:REWRITTEN_FUNCTIONS",
        "'set_config'",
        "'set_config', 'read_csv_auto'",
        (_REFUSED,),
    ),
    Mutant(
        "a function that is not listed is passed on",
        Kind.HOSTILE,
        "server.postgres.catalog.parsing:_is_known_function",
        "return name in REWRITTEN_FUNCTIONS or",
        "return True or",
        (_REFUSED,),
    ),
    Mutant(
        "a relation that is not listed is read where DuckDB has one",
        Kind.HOSTILE,
        "server.postgres.catalog.parsing:find_relation",
        "if relation is None or catalog not in ('', database):",
        "if relation is None:",
        (_REFUSED,),
    ),
    Mutant(
        "a WITH query hides relations where it is not known",
        Kind.HOSTILE,
        "server.postgres.catalog.parsing:_with_queries_visible_to",
        "return queries[:earlier + bool(clause.args.get('recursive'))]",
        "return queries",
        (_REFUSED,),
    ),
    Mutant(
        "a WITH query keeps the name of a table of DuckDB",
        Kind.HOSTILE,
        "server.postgres.catalog.rewriting:_WITH_PREFIX",
        "'with query '",
        "''",
        (_REFUSED,),
    ),
    Mutant(
        "blanks beside an item of an array are its letters",
        Kind.HOSTILE,
        "server.postgres.catalog.rewriting:split_array",
        "letter.isspace() and (not quoted) and (was_quoted or not current)",
        "False",
        (f"{_TOLD}::test_parameters_and_object_names",),
    ),
    Mutant(
        "a cast number of rows is any number",
        Kind.HOSTILE,
        "plan.sql.outer:_without_integer_casts",
        "value.to.is_type(*exp.DataType.INTEGER_TYPES)",
        "value.to",
        (f"{_BI}::test_a_number_of_rows_that_is_none_is_refused",),
    ),
    Mutant(
        "any construct that parses is allowed",
        Kind.HOSTILE,
        "server.postgres.catalog.parsing:refuse_unknown_constructs",
        "if type(node) not in NODES:",
        "if False:",
        (_REFUSED,),
    ),
    Mutant(
        "a series may be as long as one likes",
        Kind.HOSTILE,
        "server.postgres.catalog.parsing:_is_bounded_end",
        "int(end.name) <= MAX_SERIES",
        "int(end.name) >= 0",
        (_REFUSED,),
    ),
    Mutant(
        "an answer has as many rows as one likes",
        Kind.HOSTILE,
        "server.postgres.catalog.engine:CatalogDatabase.fetch_rows",
        "len(rows) > MAX_ROWS",
        "len(rows) < 0",
        (f"{_HOSTILE}::test_an_answer_has_a_limit_of_rows",),
    ),
    Mutant(
        "the catalog's database can read files",
        Kind.HOSTILE,
        "server.postgres.catalog.engine:_LOCKDOWN",
        "'enable_external_access = false', ",
        "",
        (f"{_HOSTILE}::test_the_database_itself_is_locked",),
    ),
    Mutant(
        "reltuples is a number of rows",
        Kind.CONSENT,
        "server.postgres.catalog.policy_rows:_class_row",
        "'reltuples': -1.0",
        "'reltuples': float(column_count)",
        (f"{_TOLD}::test_no_number_comes_from_rows",),
    ),
    Mutant(
        "a catalog relation hides a table of the policy",
        Kind.CONSENT,
        "server.postgres.catalog.answering:_is_catalog_table",
        "name not in policy_names and",
        "",
        (f"{_TOLD}::test_a_table_of_the_policy_hides_a_catalog_relation",),
    ),
    Mutant(
        "one user's catalog is shown to another",
        Kind.CONSENT,
        "server.postgres.catalog.policy_rows:_pg_roles_rows",
        "'rolname': identity.user,",
        "'rolname': identity.owner,",
        (f"{_TOLD}::test_users_see_their_own_name_and_database",),
    ),
    Mutant(
        "a question about another database is answered from this one",
        Kind.CONSENT,
        "plan.sql.text:strip_database",
        "name.text('catalog').lower() in databases and",
        "name.text('catalog') and",
        (f"{_BI}::test_another_database_is_not_read",),
    ),
    Mutant(
        "the minutes of a written date are its months",
        Kind.LIMITS,
        "plan.sql.text:_DIRECTIVES",
        "'MI': '%M'",
        "'MI': '%m'",
        (f"{_BI}::test_a_written_date_is_the_question_with_a_literal",),
    ),
)

test_the_tests_of_the_catalog_notice = suite(MUTANTS)
