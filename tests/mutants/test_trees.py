"""Seeded bugs where one unit's rows are looked at together: caps, clamps, ties, partitions, cuts."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_ORACLE = "safety/test_trees.py"
_ORDER = (f"{_ORACLE}::test_the_order_of_rows_decides_nothing",)
_NUMBERS = (f"{_ORACLE}::test_numbers_of_one_unit",)
_WINDOWS = (f"{_ORACLE}::test_windows",)
_CUTS = ("engine/lowering/test_relation_lowering.py",)
_MEANT = ("plan/test_sql.py::test_a_question_means_what_is_written_below_it",)
_PROVED = "safety/test_proved_rows.py::test_limits_below_the_rows_that_a_tree_proves_are_enforced"
_NODES = ("plan/test_nodes.py",)
MUTANTS = (
    Mutant(
        "the order in which the engine meets rows decides between windows' ties",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:WindowLowering.results",
        "self.ties = (*self.read, *(Reference(name) for name, _ in self.unit.row_columns))",
        "self.ties = ()",
        _ORDER,
    ),
    Mutant(
        "windows' ties are not decided by the values that functions read",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:WindowLowering.results",
        "self.ties = (*self.read, *(Reference(name) for name, _ in self.unit.row_columns))",
        "self.ties = self.read",
        _ORDER,
    ),
    Mutant(
        "the first of tied rows is any of them",
        Kind.SENSITIVITY,
        "plan.sql.unit_aggregates:first_value_measure",
        "order = (*written, *tie_breaker)",
        "order = written",
        _ORDER,
    ),
    Mutant(
        "a cut keeps the same rows whatever the key",
        Kind.SAMPLING,
        "engine.lowering.relation_lowering:RelationLowering.lower_row_limit",
        "with_seeds(heavy_units, self._key)",
        "with_seeds(heavy_units, 0)",
        _CUTS,
    ),
    Mutant(
        "a cut is not decided by the values where ranks tie",
        Kind.SENSITIVITY,
        "engine.lowering.relation_lowering:RelationLowering.lower_row_limit",
        "(Reference('t'), *map(Reference, short_names))",
        "(Reference('t'),)",
        _CUTS,
    ),
    Mutant(
        "a cut keeps one row too many",
        Kind.LIMITS,
        "engine.lowering.relation_lowering:RelationLowering.lower_row_limit",
        "apply(ScalarFunction.AT_MOST, Reference('a'), integer_constant(base.rows))",
        "apply(ScalarFunction.AT_MOST, Reference('a'), integer_constant(base.rows + 1))",
        _CUTS,
    ),
    Mutant(
        "a unit with one row too many is not cut",
        Kind.LIMITS,
        "engine.lowering.relation_lowering:RelationLowering.lower_row_limit",
        "exceeds_limit = apply(ScalarFunction.GREATER, count, integer_constant(base.rows))",
        "exceeds_limit = apply(ScalarFunction.GREATER, count, integer_constant(base.rows + 1))",
        _CUTS,
    ),
    Mutant(
        "private rows of two units meet",
        Kind.SENSITIVITY,
        "engine.lowering.relation_lowering:_match_condition",
        "'j'",
        "'r'",
        _CUTS,
    ),
    Mutant(
        "a count of a unit's rows is not capped",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:UnitLowering.count",
        "return apply(ScalarFunction.LEAST, take(GroupTotal(AggregateFunction.COUNT)), integer_constant(measure.cap))",
        "return take(GroupTotal(AggregateFunction.COUNT))",
        _NUMBERS,
    ),
    Mutant(
        "a count of a unit's rows is one too large",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:UnitLowering.count",
        "return convert_to_integer(apply(ScalarFunction.LEAST, total, Constant(measure.cap, Wide.INTEGER)))",
        "return convert_to_integer(apply(ScalarFunction.LEAST, total, Constant(measure.cap + 1, Wide.INTEGER)))",
        _NUMBERS,
    ),
    Mutant(
        "a sum of a unit's rows is not clamped",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:UnitLowering.sum",
        "convert_to_integer(clamped(total, *(Constant(end, Wide.INTEGER) for end in measure.step_range)))",
        "convert_to_integer(total)",
        _NUMBERS,
    ),
    Mutant(
        "different values are not capped",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:UnitLowering.distinct",
        "distinct, integer_constant(int(max_distinct)))",
        "distinct, integer_constant(10**6))",
        _NUMBERS,
    ),
    Mutant(
        "the range of a sum is that of one row fewer",
        Kind.SENSITIVITY,
        "plan.aggregates.unit_measures:UnitSum.step_range",
        "(min(low, self.cap * low), max(high, self.cap * high))",
        "(min(low, (self.cap - 1) * low), max(high, (self.cap - 1) * high))",
        _NUMBERS,
    ),
    Mutant(
        "rows that a test leaves out are among those that the first is picked from",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:UnitLowering.first",
        "order = [is_excluded, *order]",
        "order = list(order)",
        _NUMBERS,
    ),
    Mutant(
        "a window may be over the rows of several units",
        Kind.SENSITIVITY,
        "plan.sql.unit_aggregates:WindowParser._partition_keys",
        "if not any(map(self.is_unit_id, partition_nodes)):",
        "if not partition_nodes:",
        _MEANT,
    ),
    Mutant(
        "a subquery may be grouped by something else than the unit",
        Kind.SENSITIVITY,
        "plan.sql.row_sources:lower_per_unit",
        "if not any(map(rows.is_unit_id, group_nodes)):",
        "if not group_nodes:",
        _MEANT,
    ),
    Mutant(
        "windows forget the unit they are over",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:WindowLowering._partition",
        "Reference('u')",
        "integer_constant(1)",
        _WINDOWS,
    ),
    Mutant(
        "places are not capped",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:WindowLowering.lower_ranking_function",
        "return apply(ScalarFunction.LEAST, rank, integer_constant(function.cap))",
        "return rank",
        _WINDOWS,
    ),
    Mutant(
        "of several row numbers that are written out, one is taken to be kept",
        Kind.LIMITS,
        "plan.nodes:_count_admitted_row_numbers",
        "len({number for number in values if number >= 1})",
        "min(values)",
        _NODES,
    ),
    Mutant(
        "a condition on another column is taken for one on the row number",
        Kind.LIMITS,
        "plan.nodes:_row_number_limit",
        "row_number = window_functions.get(comparison.operand.reference)",
        "row_number = next(iter(window_functions.values()))",
        _NODES,
    ),
    Mutant(
        "units that are counted may be in more groups than their limit where a tree proves few rows",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_is_within_limits",
        "SAMPLE or any((bounded_measure.measure.once_per_unit for bounded_measure in bounded_plan.measures))",
        "SAMPLE",
        (_PROVED,),
    ),
    Mutant(
        "a tree that proves one row more than counts is read as it is",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_is_within_limits",
        "return max_rows is not None and max_rows <= allowed_rows",
        "return max_rows is not None and max_rows <= allowed_rows + 1",
        (_PROVED,),
    ),
    Mutant(
        "rows in one group are not limited where a tree proves few rows",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_is_within_limits",
        "allowed_rows = min(limits.total, limits.rows_per_group)",
        "allowed_rows = limits.total",
        (_PROVED,),
    ),
)

test_the_tests_of_trees_notice = suite(MUTANTS)
