"""Seeded bugs in cell rules: cells that fail a row, are missing here and not there, or are read in another order."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_CELLS = "engine/test_ruled_cells.py"
_TABLE = f"{_CELLS}::test_every_rule_means_what_its_table_says"
_POLICY = "policy/test_cell_rules.py"
_CURATOR = "curator/test_cell_rules.py"
MUTANTS = (
    Mutant(
        "a format fails the row that it does not fit",
        Kind.HOSTILE,
        "engine.spellings.duckdb:DuckDBSpelling.group_of_whole_match",
        "return f\"regexp_extract({x}, {literal(f'^(?:{pattern})$')}, {number})\"",
        "return f\"CAST(CAST(regexp_extract({x}, {literal(f'^(?:{pattern})$')}, {number}) AS INTEGER) AS VARCHAR)\"",
        (_TABLE,),
    ),
    Mutant(
        "a cell that is missing by its rules is another value where one is declared",
        Kind.NAN,
        "engine.duckdb.ruled_scans:_RuledColumns.columns",
        "IS NOT NULL AND NOT {self.is_null})",
        "IS NOT NULL)",
        (_TABLE,),
    ),
    Mutant(
        "a cell on a server that is missing by its rules is another value where one is declared",
        Kind.NAN,
        "engine.sources.clean_scans:_ScanBuilder.is_present",
        "if is_null is None:",
        "if True:",
        ("engine/postgres/test_postgres_cell_rules.py",),
    ),
    Mutant(
        "a missing number is missing as it is listed alone",
        Kind.NAN,
        "policy.cell_rules:CellRules.null_values",
        "pattern = _VALUE_PATTERNS.get(sql_type)",
        "pattern = None",
        (f"{_CURATOR}::test_a_missing_cell_is_missing_in_every_measure",),
    ),
    Mutant(
        "an answer stays when other cells are missing",
        Kind.REUSE,
        "policy.cell_rules:CellRules",
        "nulls: tuple[str, ...] | None = None",
        "nulls: tuple[str, ...] | None = __import__('dataclasses').field(default=None, compare=False)",
        (f"{_CURATOR}::test_a_rule_is_part_of_what_a_question_means",),
    ),
    Mutant(
        "texts are mapped before they are trimmed and turned",
        Kind.KEYS,
        "engine.sources.clean_cells:_replaced_text",
        "apply(ScalarFunction.IN, folded, *map(_text, texts))",
        "apply(ScalarFunction.IN, text, *map(_text, texts))",
        (_TABLE,),
    ),
    Mutant(
        "rules are read on columns that decide the unit",
        Kind.NEIGHBOURS,
        "policy.policies:_check_rules",
        "for key in table.rules[column].keys if role else ():",
        "for key in ():",
        (_POLICY,),
    ),
    Mutant(
        "what is missing in a table is missing in its keys and periods",
        Kind.NEIGHBOURS,
        "policy.cell_rules:effective_rules",
        "inherits = column_rules.nulls is None and name.lower() not in exempt_names",
        "inherits = column_rules.nulls is None",
        (_POLICY,),
    ),
    Mutant(
        "numbers beside each other leave out their zeros",
        Kind.HOSTILE,
        "policy.cell_rules:parse_format",
        "is_padded=bool({index - 1, index} & beside)",
        "is_padded=False",
        (_TABLE,),
    ),
    Mutant(
        "the last of several formats counts",
        Kind.HOSTILE,
        "engine.lowering.date_lowering:iso_text",
        "for date_format in formats]",
        "for date_format in reversed(formats)]",
        (_TABLE,),
    ),
    Mutant(
        "a format counts though its day does not exist",
        Kind.HOSTILE,
        "engine.lowering.date_lowering:iso_text",
        "_matches_test(candidate, GRAMMARS[Type.TIMESTAMP])",
        "_matches_test(candidate, '[0-9: .-]*')",
        (_TABLE,),
    ),
    Mutant(
        "the year 68 is of the last century",
        Kind.HOSTILE,
        "engine.lowering.date_lowering:_PIVOT",
        "(69|[7-9][0-9])",
        "(6[89]|[7-9][0-9])",
        (_TABLE,),
    ),
    Mutant(
        "noon is an hour that no day has",
        Kind.HOSTILE,
        "engine.lowering.date_lowering:_hour_text",
        "number % 12 + 12",
        "number + 12",
        (_TABLE,),
    ),
    Mutant(
        "groups of thousands have any number of digits",
        Kind.HOSTILE,
        "plan.values.grammars:number_pattern",
        "(?:{separator}[0-9]{{3}}){{1,13}}",
        "(?:{separator}[0-9]{{1,3}}){{1,13}}",
        (f"{_CELLS}::test_random_cells_mean_what_python_reads",),
    ),
    Mutant(
        "a format reads a cell of any length",
        Kind.LIMITS,
        "engine.lowering.date_lowering:iso_text",
        "apply(ScalarFunction.CASE, is_short, text, null_constant(Type.TEXT))",
        "apply(ScalarFunction.COALESCE, text, null_constant(Type.TEXT))",
        (_TABLE,),
    ),
    Mutant(
        "figures for the owner do not count what rules leave missing",
        Kind.NAN,
        "engine.duckdb.inspection:_cell_outcome_sql",
        "if cell.is_null else ''",
        "if False else ''",
        (f"{_CELLS}::test_an_inspection_counts_what_rules_leave_missing",),
    ),
)

test_the_tests_of_cell_rules_notice = suite(MUTANTS)
