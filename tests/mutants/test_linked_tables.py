"""Seeded bugs where linked tables are synthesized: whose rows count, what they are charged for, and whose keys."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SENSITIVITY = "publish/linked/test_linked_sensitivity.py"
_MOVES = (f"{_SENSITIVITY}::test_one_unit_moves_all_marginals_of_all_tables_within_its_limits",)
_TABLES = "curator/proposals/test_linked_tables.py"
_CELLS = "publish/linked/test_linked_cells.py"
_TREES = "curator/proposals/test_linked_trees.py"

MUTANTS = (
    Mutant(
        "a time limit that rows decided frees what is unspent",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:SynthesisStepRunner.charge_and_run",
        "if not self.paid:",
        "if not self.synthesis.has_model:",
        ("curator/proposals/test_linked_tables.py::test_a_time_limit_before_children_are_counted_frees_nothing",),
    ),
    Mutant(
        "children are charged as one row",
        Kind.SENSITIVITY,
        "plan.bounding:_add_remove_sensitivity",
        "return Sensitivity(coordinates, rows * size, total=rows * size)",
        "return Sensitivity(coordinates, size, total=size)",
        (*_MOVES, f"{_TABLES}::test_every_step_is_charged_for_its_own_tables_limit"),
    ),
    Mutant(
        "children are counted after some are left out",
        Kind.LIMITS,
        "curator.proposals.linked_table_selects:_band_columns_and_joins",
        "FROM {quoted(link.child)}",
        "FROM (SELECT * FROM {quoted(link.child)} QUALIFY ROW_NUMBER() OVER (PARTITION BY {unit} "
        "ORDER BY {quoted(link.child_columns[0])}) <= 2) AS cut",
        (f"{_SENSITIVITY}::test_the_number_of_children_is_counted_before_any_is_left_out",),
    ),
    Mutant(
        "a child is paired with the previous one after some are left out",
        Kind.LIMITS,
        "curator.proposals.linked_table_selects:_siblings_subquery",
        "FROM {quoted(link.child)})",
        "FROM (SELECT * FROM {quoted(link.child)} QUALIFY ROW_NUMBER() OVER (PARTITION BY {quoted(pair.child_unit)} "
        "ORDER BY {quoted(link.child_columns[0])}) <= 3) AS cut)",
        (f"{_SENSITIVITY}::test_consecutive_rows_are_paired_before_any_is_left_out",),
    ),
    Mutant(
        "parents and children share their noise",
        Kind.REUSE,
        "publish.tab_steps:MeasureStep.draw",
        "measurement.draw(self.view.extract(read(self.readings[0])))",
        "self.view.extract(read(self.readings[0])) + globals().setdefault(('noise', self.view.size), "
        "measurement.draw(np.zeros(self.view.size, np.int64)))",
        (f"{_SENSITIVITY}::test_noise_of_both_tables_is_drawn_apart",),
    ),
    Mutant(
        "a child counts for every parent of its unit",
        Kind.LIMITS,
        "curator.proposals.linked_table_selects:_join_condition",
        "if pair.via is None:",
        "if True:",
        (f"{_SENSITIVITY}::test_a_child_belongs_to_the_parent_of_its_key_alone",),
    ),
    Mutant(
        "keys are drawn like the keys of the data",
        Kind.KEYS,
        "curator.proposals.linked_table_selects:LinkedTables.chosen_columns",
        "return tuple((name for name in measurable_column_names(table) if name.lower() not in keys))",
        "return tuple(measurable_column_names(table))",
        (f"{_TABLES}::test_a_key_is_never_a_column_of_a_model",),
    ),
    Mutant(
        "a unit is drawn with more children than count",
        Kind.LIMITS,
        "publish.synthetic_tables:limit_children_per_unit",
        "return np.clip(limit - (before - before_unit), 0, children)",
        "return children",
        (f"{_TABLES}::test_visits_of_one_patient_and_their_drugs_keep_both_limits",),
    ),
    Mutant(
        "the children's model is paid with the whole price",
        Kind.CHARGE_ORDER,
        "curator.proposals.linked_tables:split_price_evenly",
        "return (*(Price(share) for _ in range(tables - 1)), Price(rest))",
        "return (*(Price(share) for _ in range(tables - 1)), Price(total))",
        (f"{_TABLES}::test_prices_of_both_tables_add_up_to_the_price",),
    ),
    Mutant(
        "the parent's columns keep planned cells beside children",
        Kind.KEYS,
        "publish.links:LinkedState.steps",
        "self._share_cells(link)",
        "pass",
        (f"{_CELLS}::test_repeated_columns_have_the_cells_that_were_bought_once",),
    ),
    Mutant(
        "cells of the previous child are bought again",
        Kind.CHARGE_ORDER,
        "publish.synthesis.private_cells:CellPlan.bought",
        "elsewhere = {*self.twins, *self.given}",
        "elsewhere = {*self.given}",
        (f"{_CELLS}::test_repeated_columns_have_the_cells_that_were_bought_once",),
    ),
    Mutant(
        "the previous child has other bins than a child",
        Kind.KEYS,
        "publish.synthesis.private_cells:CellPlan.replace_parts",
        "{**self.parts, **parts, **repeated}",
        "{**self.parts, **parts}",
        (f"{_CELLS}::test_repeated_columns_have_the_cells_that_were_bought_once",),
    ),
    Mutant(
        "positions are found after some children are left out",
        Kind.LIMITS,
        "curator.proposals.linked_table_selects:_siblings_subquery",
        "FROM {quoted(link.child)})",
        "FROM (SELECT * FROM {quoted(link.child)} QUALIFY ROW_NUMBER() OVER (PARTITION BY {quoted(pair.child_unit)} "
        "ORDER BY {quoted(link.child_columns[0])}) <= 1) AS cut)",
        (f"{_SENSITIVITY}::test_first_last_and_only_rows_are_those_among_all_children",),
    ),
    Mutant(
        "a child has its position among those of all parents of its unit",
        Kind.LIMITS,
        "curator.proposals.linked_table_selects:_siblings_subquery",
        "over = f'OVER (PARTITION BY {partition}",
        "over = f'OVER (PARTITION BY {quoted(pair.child_unit)}",
        (
            f"{_SENSITIVITY}::test_a_child_has_its_position_among_those_of_its_own_parent",
            f"{_SENSITIVITY}::test_the_previous_child_is_one_of_the_same_parent",
        ),
    ),
    Mutant(
        "the model rules out a position that a patient's visit has",
        Kind.SAMPLING,
        "publish.links:TableLink.is_possible_position",
        "low + 2",
        "low",
        (f"{_TABLES}::test_a_position_is_possible_where_some_number_of_children_has_it",),
    ),
    Mutant(
        "the last child is drawn as one between",
        Kind.SAMPLING,
        "publish.synthetic_tables:position_cells",
        "number == children[owners] - 1",
        "number == children[owners]",
        (f"{_TABLES}::test_positions_of_drawn_children_follow_from_their_number",),
    ),
    Mutant(
        "half of the steps are left out of what is verified",
        Kind.CHARGE_ORDER,
        "curator.proposals.linked_tables:LinkedTablesProposal._build_tables",
        "steps, remaining = (tuple(remaining[:step_count]), remaining[step_count:])",
        "steps, remaining = (tuple(remaining[:step_count]), remaining[:step_count])",
        (f"{_TABLES}::test_one_hold_pays_for_every_step_of_both_tables",),
    ),
    Mutant(
        "a child may precede the previous one",
        Kind.SAMPLING,
        "publish.synthetic_tables:ModelPair.draw_children",
        "if link.order:",
        "if not link.order:",
        (f"{_TABLES}::test_children_are_in_order_and_follow_each_other",),
    ),
    Mutant(
        "rows of a chain count without a row in the first table",
        Kind.LIMITS,
        "curator.proposals.linked_table_selects:_ancestor_columns_and_joins",
        "while upper_pair is not None and upper is not None:",
        "while False:",
        (f"{_SENSITIVITY}::test_rows_of_a_chain_meet_rows_of_their_own_unit_alone",),
    ),
    Mutant(
        "children of several tables are limited as those of the first",
        Kind.SENSITIVITY,
        "curator.proposals.linked_tables:propose_linked_tables",
        "limit = table.max_rows if table.max_rows != 1 else None",
        "limit = linked.pairs[0].child.max_rows if table.max_rows != 1 else None",
        (*_MOVES, f"{_TREES}::test_every_table_of_several_is_charged_for_its_own_limit"),
    ),
    Mutant(
        "grandchildren of one unit are limited per parent",
        Kind.LIMITS,
        "publish.synthetic_tables:ModelPair.draw_children",
        "return DrawnTable(rows, parents.units[owners], {link.child_key: owners + 1})",
        "return DrawnTable(rows, np.arange(len(owners)), {link.child_key: owners + 1})",
        (f"{_TREES}::test_children_of_children_keep_the_limit_of_their_unit",),
    ),
    Mutant(
        "a share of the price is forgotten for a third table",
        Kind.CHARGE_ORDER,
        "curator.proposals.linked_tables:LinkedTablesProposal._part_prices",
        "return split_price_evenly(price, len(self.parts))",
        "return (*split_price_evenly(price), *[split_price_evenly(price)[1]] * (len(self.parts) - 2))",
        (f"{_TREES}::test_prices_of_several_tables_add_up_to_the_price",),
    ),
    Mutant(
        "a column is sorted away from the one that it determines",
        Kind.SAMPLING,
        "publish.synthetic_tables:ModelPair.draw_children",
        "has_rules = bool(face.impossible or face.implies)",
        "has_rules = bool(face.impossible)",
        (f"{_TREES}::test_implied_columns_are_implied_in_every_row",),
    ),
    Mutant(
        "linked tables forget what the policy implies",
        Kind.SAMPLING,
        "curator.proposals.linked_tables:_with_declared_rules",
        "implies=implies)",
        "implies=())",
        (f"{_TREES}::test_implied_columns_are_implied_in_every_row",),
    ),
    Mutant(
        "two joins along one link pass for a chain",
        Kind.SAMPLING,
        "plan.sql.linked_views:_check_join_keys",
        "if key is None or used.count(key) > 1 or join.side or (join.kind not in ('', 'INNER')):",
        "if key is None or join.side or (join.kind not in ('', 'INNER')):",
        (f"{_TREES}::test_joins_beside_the_links_are_refused",),
    ),
)

test_the_tests_of_linked_tables_notice = suite(MUTANTS)
