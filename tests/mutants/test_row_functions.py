"""Seeded bugs of functions of one row, of counted tuples, of modes and of tests for rows under OR."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "a regular expression's cost is undeclared",
        Kind.LIMITS,
        "plan.values.functions.textual:_matching_cost",
        "return sum((_PATTERN_CALL + _PATTERN_STEP * search.steps(letters) for search in _pattern_searches(node)))",
        "return sum((_PATTERN_CALL for search in _pattern_searches(node)))",
        ("plan/values/test_regular_expressions.py::test_the_declared_cost_of_a_row_covers_the_search",),
    ),
    Mutant(
        "a pattern that may never finish is accepted",
        Kind.LIMITS,
        "plan.values.functions.textual:_regexp_matches",
        "search.steps(x.domain.max_letters)",
        "search.steps(0)",
        ("plan/values/test_regular_expressions.py::test_other_patterns_are_refused_with_what_to_write",),
    ),
    Mutant(
        "nested repetitions count as one way of matching",
        Kind.LIMITS,
        "plan.values.regular_expressions:_AutomatonBuilder._add_transitions",
        "self.follow[position].update(first)",
        "self.follow[position] |= Counter(first)",
        ("plan/values/test_regular_expressions.py",),
    ),
    Mutant(
        "a search from every letter costs as much as one",
        Kind.LIMITS,
        "plan.values.regular_expressions:Search.steps",
        "starts = 1 if self.at_start else text_length + 1",
        "starts = 1",
        ("plan/values/test_regular_expressions.py",),
    ),
    Mutant(
        "tuples are told apart by their first part alone",
        Kind.SENSITIVITY,
        "plan.sql.unit_aggregates:lower_distinct_tuple",
        "return call('||', *parts)",
        "return parts[0]",
        ("safety/test_values.py::test_distinct_tuples_are_what_pandas_counts", "safety/test_trees.py"),
    ),
    Mutant(
        "texts of a tuple run into each other",
        Kind.KEYS,
        "plan.sql.unit_aggregates:_encode_as_text",
        "encoded = call('||', _as_text(call('LENGTH', value)), literal(Type.TEXT, ':'), value)",
        "encoded = value",
        ("safety/test_values.py::test_distinct_tuples_are_what_pandas_counts",),
    ),
    Mutant(
        "texts of a tuple have a separator and no length",
        Kind.KEYS,
        "plan.sql.unit_aggregates:_encode_as_text",
        "encoded = call('||', _as_text(call('LENGTH', value)), literal(Type.TEXT, ':'), value)",
        "encoded = call('||', literal(Type.TEXT, ':'), value)",
        ("safety/test_values.py::test_tuples_of_texts_that_hold_the_separator_are_told_apart",),
    ),
    Mutant(
        "a tuple is charged as if a unit had one row",
        Kind.SENSITIVITY,
        "plan.aggregates.value_measures:DistinctValues.measures_for",
        "return (Count(_with_not_null(self.value, self.where)),)",
        "return (__import__('sfumato.plan.aggregates.measures', fromlist=['Distinct']).Distinct(None),)",
        (
            "safety/test_values.py::test_a_unit_with_one_tuple_more_than_its_limit",
            "safety/test_values.py::test_neighbours_differ_by_at_most_the_claim",
        ),
    ),
    Mutant(
        "the least frequent value is the mode of a unit",
        Kind.KEYS,
        "plan.sql.row_sources:_PerUnitBuilder._lower_mode",
        "Order(frequency, descending=True, nulls_first=False)",
        "Order(frequency, descending=False, nulls_first=False)",
        ("safety/test_trees.py::test_groups_of_units",),
    ),
    Mutant(
        "the rows that EXISTS under OR compares are not cut",
        Kind.LIMITS,
        "plan.sql.unit_joins:exists_test",
        "right_side if condition is None else _limit_joined_rows(right_side)",
        "right_side",
        ("plan/test_joins.py::test_rows_compared_under_or_are_cut",),
    ),
    Mutant(
        "EXISTS under OR costs as much as one comparison",
        Kind.LIMITS,
        "plan.costs:_max_matches",
        "tests = (node,) if isinstance(node, SemiJoin) else node.tests",
        "tests = (node,) if isinstance(node, SemiJoin) else ()",
        ("plan/test_joins.py::test_rows_compared_under_or_are_cut",),
    ),
    Mutant(
        "a text is read as a date by the first of several formats only",
        Kind.KEYS,
        "engine.lowering.row_lowering:_lower_strptime",
        "range(1, len(call.arguments))",
        "range(1, 2)",
        ("engine/lowering/test_row_lowering.py::test_ordinary_values_as_the_engine_computes_them",),
    ),
    Mutant(
        "a bucket is counted from the year 1 whatever its origin is",
        Kind.KEYS,
        "plan.values.calendar:Bucket.count_offset",
        "period_number('second', self.origin) % self.seconds - self.seconds",
        "-self.seconds",
        ("engine/lowering/test_row_lowering.py", "plan/test_keys.py", "plan/test_functions.py"),
    ),
)


test_the_tests_of_row_functions_notice = suite(MUTANTS)
