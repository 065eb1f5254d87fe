"""Seeded bugs in questions that are put together in Python: another question is asked than the one that was written."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_PAIRS = "plan/sql/test_building.py::test_a_statement_and_its_text_have_the_same_plan"
_SHOWN = "plan/sql/test_building.py::test_what_a_receipt_shows_is_what_was_asked"
_TABLES = "curator/test_tables_of_one_unit.py"
_PARTS = "plan/sql/test_building.py::test_parts_are_parts_and_nothing_else"

MUTANTS = (
    Mutant(
        "the last condition replaces those before it",
        Kind.LIMITS,
        "plan.sql.building:where",
        "conjunction([*conditions, substitute_names(parse_expression(text, source.names), source.names)])",
        "conjunction([substitute_names(parse_expression(text, source.names), source.names)])",
        (_PAIRS,),
    ),
    Mutant(
        "an OR within one condition swallows the next",
        Kind.LIMITS,
        "plan.sql.fragments:_conjuncts",
        "return [exp.Paren(this=condition.copy()) if isinstance(condition, exp.Or) else condition.copy()]",
        "return [condition.copy()]",
        (_SHOWN,),
    ),
    Mutant(
        "a derived column is put in without parentheses",
        Kind.LIMITS,
        "plan.sql.fragments:as_operand",
        "return tree.copy() if isinstance(tree, atomic) else exp.Paren(this=tree.copy())",
        "return tree.copy()",
        (_SHOWN,),
    ),
    Mutant(
        "a column of the answer is taken for the column of rows it is called like",
        Kind.KEYS,
        "plan.sql.building:_resolve_output_names",
        "{**builder.source.names, **builder.results}",
        "{**builder.results, **builder.source.names}",
        (_PAIRS,),
    ),
    Mutant(
        "names within an aggregate are columns of the answer",
        Kind.KEYS,
        "plan.sql.building:_resolve_output_names",
        "argument.replace(substitute_names(argument, builder.source.names))",
        "argument.replace(substitute_names(argument, builder.results))",
        (_PAIRS,),
    ),
    Mutant(
        "a condition within an aggregate is forgotten",
        Kind.LIMITS,
        "plan.sql.aggregations:Aggregation.tree",
        "sql if self.where is None else f'{sql} FILTER (WHERE w)'",
        "sql",
        (_PAIRS,),
    ),
    Mutant(
        "a left join is an inner one",
        Kind.KEYS,
        "plan.sql.building:join",
        "'LEFT JOIN t' if left else 'JOIN t'",
        "'JOIN t'",
        (_PAIRS,),
    ),
    Mutant(
        "a redefined column is joined by what it was",
        Kind.KEYS,
        "plan.sql.building:_using_condition_and_same_names",
        "len(same) == len(parsed) and (not any((_is_derived(source, name) for name in same)))",
        "len(same) == len(parsed)",
        (_PAIRS,),
    ),
    Mutant(
        "the first of several expressions is taken",
        Kind.LIMITS,
        "plan.sql.text:parse_fragment",
        "len(parsed) != 1",
        "not parsed",
        (_PARTS,),
    ),
    Mutant(
        "a step changes the view it began with",
        Kind.REUSE,
        "plan.sql.building:where",
        "        tree = source.tree.copy()\n        conditions =",
        "        tree = source.tree\n        conditions =",
        ("plan/sql/test_building.py::test_steps_leave_what_they_begin_with_as_it_was",),
    ),
    Mutant(
        "one row per unit and key is one row per key",
        Kind.LIMITS,
        "plan.sql.building:per_unit",
        "exp.Group(expressions=[unit, *",
        "exp.Group(expressions=[*",
        (_PAIRS,),
    ),
    Mutant(
        "a test of other rows is moved behind a join of private tables",
        Kind.LIMITS,
        "plan.sql.building:join",
        "not right.table.public and where_clause is not None and (where_clause.find(exp.Query) is not None)",
        "False",
        (_TABLES,),
    ),
    Mutant(
        "members of a union are put together by the columns of the first",
        Kind.KEYS,
        "plan.sql.building:_union_member",
        "with_alias(source.names[column_name.lower()][1], column_name) for column_name in column_names",
        "with_alias(tree, column_name) for column_name, tree in source.names.values()",
        (_TABLES,),
    ),
    Mutant(
        "limits are forgotten when more is added",
        Kind.LIMITS,
        "curator.tables:TableQuestion._with_statement",
        "return replace(_build_question(self._context, statement), limits=self.limits, strategy=self.strategy)",
        "return _build_question(self._context, statement)",
        ("curator/test_tables.py::test_limits_stay_when_more_is_added",),
    ),
    Mutant(
        "names of the answer stand unqualified where they could be meant",
        Kind.KEYS,
        "plan.sql.fragments:drop_qualifier",
        "('where', 'group')",
        "('where', 'group', 'having', 'order')",
        (_PAIRS, _SHOWN),
    ),
)

test_seeded_bugs_are_noticed = suite(MUTANTS)
