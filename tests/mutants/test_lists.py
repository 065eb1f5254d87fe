"""Seeded bugs in lists: how many items count, what an item is, and what rows of one unit become."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_REPLAY = ("safety/test_lists.py::test_neighbours_differ_by_at_most_the_claim",)
_TIGHT = ("safety/test_lists.py::test_the_claim_is_met_by_a_unit_with_too_many_rows_and_items",)
_ORACLE = ("safety/test_lists.py::test_items_are_counted",)
_STORED = ("safety/test_lists.py::test_a_list_in_every_source",)
_MEANT = ("plan/test_sql.py::test_a_question_means_what_is_written_below_it",)
MUTANTS = (
    Mutant(
        "a list is not cut",
        Kind.LIMITS,
        "engine.duckdb.scan:clean_items",
        "list_transform(list_slice({cell.sql}, 1, {column.max_items}), lambda",
        "list_transform({cell.sql}, lambda",
        _REPLAY,
    ),
    Mutant(
        "a list keeps one item too many",
        Kind.LIMITS,
        "engine.duckdb.scan:clean_items",
        "list_slice({cell.sql}, 1, {column.max_items})",
        "list_slice({cell.sql}, 1, {column.max_items + 1})",
        _REPLAY,
    ),
    Mutant(
        "items are not what is declared",
        Kind.SENSITIVITY,
        "engine.duckdb.scan:clean_items",
        "clean_item = clean_cell(cell.item, column.items, choices)",
        "clean_item = cell.item.sql",
        _STORED,
    ),
    Mutant(
        "a row that is a unit counts once, however many items it has",
        Kind.SENSITIVITY,
        "plan.bounding:proven_rows_per_unit",
        "return None if input_rows is None else input_rows * relation.most",
        "return input_rows",
        _REPLAY,
    ),
    Mutant(
        "the tree proves as many rows as there are without the list",
        Kind.SENSITIVITY,
        "plan.nodes:Unnest.max_rows_per_unit",
        "return None if input_rows is None else input_rows * self.most",
        "return input_rows",
        _REPLAY,
    ),
    Mutant(
        "limits do not grow with the items",
        Kind.LIMITS,
        "plan.nodes:Unnest.limits",
        "return self.input.limits.for_multiplied_rows(self.most)",
        "return self.input.limits",
        _TIGHT,
    ),
    Mutant(
        "what a row becomes is not counted in what it costs",
        Kind.LIMITS,
        "plan.nodes:max_rows_per_private_row",
        "        case Unnest(input, most=factor):\n            return max_rows_per_private_row(input) * factor\n",
        "        case Unnest(input):\n            return max_rows_per_private_row(input)\n",
        _MEANT,
    ),
    Mutant(
        "rows with an empty list are kept",
        Kind.SENSITIVITY,
        "engine.spellings.spelling:CommonSpelling.items",
        "f'unnest({x})'",
        "f'unnest(CASE WHEN len({x}) > 0 THEN {x} ELSE [NULL] END)'",
        _ORACLE,
    ),
    Mutant(
        "lists of a table beside another private one are unnested",
        Kind.LIMITS,
        "plan.sql.row_sources:lower_unnest",
        "    if not isinstance(base, Scan):",
        "    if base is None:",
        _MEANT,
    ),
)

test_the_tests_of_lists_notice = suite(MUTANTS)
