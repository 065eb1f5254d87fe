"""Seeded bugs where two linked tables are synthesized: whose rows count, what they are charged for, and whose keys."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SENSITIVITY = "publish/linked/test_linked_sensitivity.py"
_MOVES = (f"{_SENSITIVITY}::test_one_unit_moves_all_marginals_of_both_tables_within_its_limits",)
_TABLES = "curator/proposals/test_linked_tables.py"

MUTANTS = (
    Mutant(
        "a time limit that rows decided frees what is unspent",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:SynthesisSeries.run",
        "if not self.paid:",
        "if not self.synthesis.has_model:",
        ("curator/proposals/test_linked_tables.py::test_a_time_limit_before_children_are_counted_frees_nothing",),
    ),
    Mutant(
        "children are charged as one row",
        Kind.SENSITIVITY,
        "plan.bounding:_sensitivity",
        "return Sensitivity(coordinates, rows * size, total=rows * size)",
        "return Sensitivity(coordinates, size, total=size)",
        (*_MOVES, f"{_TABLES}::test_every_step_is_charged_for_its_own_tables_limit"),
    ),
    Mutant(
        "children are counted after some are left out",
        Kind.LIMITS,
        "curator.proposals.table_links:parent_select",
        "FROM {quoted(link.child)}",
        "FROM (SELECT * FROM {quoted(link.child)} QUALIFY ROW_NUMBER() OVER (PARTITION BY {child_unit} "
        "ORDER BY {quoted(link.child_columns[0])}) <= 2) AS cut",
        (f"{_SENSITIVITY}::test_the_number_of_children_is_counted_before_any_is_left_out",),
    ),
    Mutant(
        "a child is paired with the previous one after some are left out",
        Kind.LIMITS,
        "curator.proposals.table_links:child_select",
        "FROM {quoted(link.child)})",
        "FROM (SELECT * FROM {quoted(link.child)} QUALIFY ROW_NUMBER() OVER (PARTITION BY {quoted(linked.child_unit)} "
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
        "curator.proposals.table_links:_join_condition",
        "if linked.via is None:",
        "if True:",
        (f"{_SENSITIVITY}::test_a_child_belongs_to_the_parent_of_its_key_alone",),
    ),
    Mutant(
        "keys are drawn like the keys of the data",
        Kind.KEYS,
        "curator.proposals.table_links:LinkedTables.names",
        "return tuple((name for name in coded_names(table) if name.lower() not in keys))",
        "return tuple(coded_names(table))",
        (f"{_TABLES}::test_a_key_is_never_a_column_of_a_model",),
    ),
    Mutant(
        "a unit is drawn with more children than count",
        Kind.LIMITS,
        "publish.linked.drawing:limit_children_per_unit",
        "return np.clip(limit - (before - before_unit), 0, children)",
        "return children",
        (f"{_TABLES}::test_visits_of_one_patient_and_their_drugs_keep_both_limits",),
    ),
    Mutant(
        "the children's model is paid with the whole price",
        Kind.CHARGE_ORDER,
        "curator.proposals.linked_tables:split_price",
        "return (Price(parent), Price(total - parent))",
        "return (Price(parent), Price(total))",
        (f"{_TABLES}::test_prices_of_both_tables_add_up_to_the_price",),
    ),
    Mutant(
        "half of the steps are left out of what is verified",
        Kind.CHARGE_ORDER,
        "curator.proposals.linked_tables:LinkedTablesProposal._build",
        "(paid[:state.parent_steps], paid[state.parent_steps:])",
        "(paid[:state.parent_steps], paid[:state.parent_steps])",
        (f"{_TABLES}::test_one_hold_pays_for_every_step_of_both_tables",),
    ),
    Mutant(
        "a child may precede the previous one",
        Kind.SAMPLING,
        "publish.linked.drawing:LinkedModels._draw_children",
        "if link.order:",
        "if not link.order:",
        (f"{_TABLES}::test_children_are_in_order_and_follow_each_other",),
    ),
)

test_the_tests_of_linked_tables_notice = suite(MUTANTS)
