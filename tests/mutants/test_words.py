"""Seeded bugs in the words of SQL: functions, keys of rounded numbers, parameters, names, listings."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "the least number of 64 bits is divided by -1",
        Kind.WRAP,
        "engine.lowering.row_lowering:_lower_integer_division",
        "integer_constant(1 - 2 ** 63)), x, otherwise=null_constant(Type.INTEGER))",
        "integer_constant(-2 ** 62)), x, otherwise=x)",
        ("engine/lowering/test_row_lowering.py::test_whole_quotients_are_exact_or_missing",),
    ),
    Mutant(
        "a quotient is bounded by the ends of its divisor alone",
        Kind.SENSITIVITY,
        "plan.values.functions.numeric:_quotient_range",
        "divisors = {divisor for divisor in (*y, -1, 1) if y[0] <= divisor <= y[1] and divisor != 0}",
        "divisors = {divisor for divisor in y if divisor != 0}",
        ("plan/test_functions.py::test_ranges",),
    ),
    Mutant(
        "a quotient by 0 is never missing",
        Kind.NAN,
        "plan.values.functions.numeric:_divide_integers",
        "Domain(Type.INTEGER, nullable=nullable or divisor_range[0] <= -1 <= divisor_range[1])",
        "Domain(Type.INTEGER)",
        ("plan/test_functions.py::test_ranges", "engine/lowering/test_row_lowering.py"),
    ),
    Mutant(
        "a date in words may be longer than is said",
        Kind.LIMITS,
        "plan.values.functions.temporal:_strftime",
        "sum((len(piece) if isinstance(piece, str) else piece.width for piece in format_pieces))",
        "len(str(require_literal(date_format, Type.TEXT, 'the format')))",
        ("engine/lowering/test_row_lowering.py", "plan/test_functions.py::test_ranges"),
    ),
    Mutant(
        "minutes are taken for parts of whole hours",
        Kind.KEYS,
        "plan.values.countable:_is_constant_within_hour",
        "return isinstance(date_format, Literal) and calendar.format_parts(str(date_format.value)) <= _HOURLY_PARTS",
        "return isinstance(date_format, Literal)",
        ("plan/test_keys.py::test_dates_in_words_stand_as_time_goes_by",),
    ),
    Mutant(
        "a real is listed by its parts though it is read itself too",
        Kind.KEYS,
        "plan.values.countable:_replace_parts",
        "    if not isinstance(expression, Call):\n        return None\n",
        "    if not isinstance(expression, Call):\n        return expression\n",
        ("plan/test_keys.py",),
    ),
    Mutant(
        "conditions on a real are evaluated where it is not read",
        Kind.KEYS,
        "plan.keys:_enumerable_combinations",
        "tuple((condition for condition in conditions if remaining_columns.issuperset(columns(condition))))",
        "conditions",
        ("plan/test_keys.py::test_conditions_narrow_rounded_reals",),
    ),
    Mutant(
        "any function is applied to noisy numbers",
        Kind.SENSITIVITY,
        "plan.values.expressions:reads_only_keys",
        "all((isinstance(reference, Key) for reference in references))",
        "any((isinstance(reference, (Key, Result)) for reference in references))",
        ("plan/test_sql.py", "curator/proposals/test_questions.py::test_functions_of_several_keys_and_of_missing_ones"),
    ),
    Mutant(
        "a parameter may be a name",
        Kind.KEYS,
        "plan.sql.parameters:bind_parameters_in_place",
        "if len(placeholders) != len(positions) or not all(map(_is_in_value_position, placeholders)):",
        "if len(placeholders) != len(positions):",
        ("plan/sql/test_parameters.py::test_a_value_is_no_name",),
    ),
    Mutant(
        "values of parameters are shared by questions that differ in them",
        Kind.REUSE,
        "plan.sql.parameters:bind_parameters_in_place",
        "node.replace(values[node.name].copy())",
        "node.replace(next(iter(values.values())).copy())",
        ("plan/sql/test_parameters.py::test_the_question_is_the_one_with_the_literal_written_in",),
    ),
    Mutant(
        "a value that nothing asks for is passed over",
        Kind.REUSE,
        "plan.sql.parameters:parameter_literals",
        "surplus = [name for name in values if name not in positions]",
        "surplus: list[str] = []",
        ("plan/sql/test_parameters.py::test_missing_surplus_and_bad_values_are_refused_by_name",),
    ),
    Mutant(
        "two columns share an enumeration because their names join to one text",
        Kind.KEYS,
        "engine.duckdb.connection:Sources._enforced_domain",
        "self._enum_count += 1",
        "self._enum_count += 0",
        ("curator/test_names.py::test_names_joined_by_a_space_are_told_apart",),
    ),
    Mutant(
        "the name of a view is not quoted",
        Kind.KEYS,
        "engine.duckdb.connection:Sources.scan",
        "quote_identifier(f'sf_{table}')",
        "f'sf_{table}'",
        ("curator/test_names.py::test_hostile_names_are_names",),
    ),
    Mutant(
        "names may hold what is not visible",
        Kind.KEYS,
        "policy.domains:is_name",
        "not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or (not name.isprintable())",
        "not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH",
        ("curator/test_names.py::test_names_that_are_refused",),
    ),
    Mutant(
        "what WITH defines is taken for the table of a schema",
        Kind.KEYS,
        "plan.sql.text:_normalise_select",
        "if isinstance(node, exp.Table) and node.name.lower() not in cte_names:",
        "if isinstance(node, exp.Table) and (node.name.lower() or cte_names):",
        ("plan/test_sql.py",),
    ),
)


test_the_tests_of_words_notice = suite(MUTANTS)
