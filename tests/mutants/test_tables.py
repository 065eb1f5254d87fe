"""Seeded bugs where tables meet: whose a row is, units in a period, joins, tests, unions, bands, edges."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_OWNERS = "engine/duckdb/test_owners.py"
_ALONE = f"{_OWNERS}::test_one_unit_moves_its_own_rows_alone"
_ACROSS = "safety/test_towns.py::test_tables_meet_within_one_unit"
_ORACLE = "safety/test_towns_oracle.py::test_nothing_is_lost_where_no_limit_is_reached"
_JOINS = "plan/test_joins.py"
MUTANTS = (
    Mutant(
        "a row that several own belongs to one of them",
        Kind.NEIGHBOURS,
        "engine.duckdb.scan:links",
        "f'SELECT DISTINCT sf_link AS sf_key, {UNIT} FROM ({rows}) WHERE sf_link IS NOT NULL'",
        "f'SELECT sf_link AS sf_key, min({UNIT}) AS {UNIT} FROM ({rows}) WHERE sf_link IS NOT NULL GROUP BY sf_link'",
        (_ALONE,),
    ),
    Mutant(
        "keys that several share are passed over",
        Kind.NEIGHBOURS,
        "engine.duckdb.scan:links",
        "f'SELECT DISTINCT sf_link AS sf_key, {UNIT} FROM ({rows}) WHERE sf_link IS NOT NULL'",
        "f'SELECT sf_link AS sf_key, min({UNIT}) AS {UNIT} FROM ({rows}) WHERE sf_link IS NOT NULL"
        " GROUP BY sf_link HAVING count(DISTINCT {UNIT}) = 1'",
        (_ALONE,),
    ),
    Mutant(
        "a unit that names a key twice has two copies",
        Kind.LIMITS,
        "engine.duckdb.scan:links",
        "SELECT DISTINCT sf_link AS sf_key",
        "SELECT sf_link AS sf_key",
        (_OWNERS,),
    ),
    Mutant(
        "ids of two types are compared as they are stored",
        Kind.NEIGHBOURS,
        "engine.duckdb.owners:RowOwners._id_reader",
        "if self.policy.id_type is not None:\n        return _ID_READERS[self.policy.id_type]",
        "",
        (_OWNERS,),
    ),
    Mutant(
        "ids that doubles merge are one person",
        Kind.NEIGHBOURS,
        "engine.duckdb.owners:_ID_READERS",
        "Type.INTEGER: integer_id,",
        "Type.INTEGER: lambda cell: cleaned(cell, Domain(Type.INTEGER)),",
        (f"{_OWNERS}::test_an_id_that_a_double_would_merge_with_another_is_nobodys",),
    ),
    Mutant(
        "ids that are stored as doubles and merged are one person",
        Kind.NEIGHBOURS,
        "engine.sources.clean_cells:largest_whole",
        "2 ** 24 if single else 2 ** 53",
        "2 ** 25 if single else 2 ** 54",
        (f"{_OWNERS}::test_a_stored_number_that_stands_for_two_ids_is_nobodys",),
    ),
    Mutant(
        "long ids are cut",
        Kind.NEIGHBOURS,
        "engine.duckdb.owners:_ID_READERS",
        "cell.text.sql",
        "cleaned(cell, Domain(Type.TEXT))",
        (f"{_OWNERS}::test_long_ids_are_told_apart",),
    ),
    Mutant(
        "a period is read after clamping",
        Kind.NEIGHBOURS,
        "engine.duckdb.owners:RowOwners._period",
        "Domain(table.columns[column].type)",
        "table.columns[column]",
        (f"{_OWNERS}::test_a_period_is_read_before_bounds_are_applied",),
    ),
    Mutant(
        "a hop forgets the period",
        Kind.NEIGHBOURS,
        "engine.duckdb.scan:select_with_units",
        "'r.sf_key = l.sf_key' + ('' if owner.period is None else f' AND r.sf_period = l.{UNIT}.period')",
        "'r.sf_key = l.sf_key'",
        (f"{_OWNERS}::test_a_hop_requires_the_same_period",),
    ),
    Mutant(
        "rows without a period are kept",
        Kind.NAN,
        "engine.duckdb.owners:_make_owner",
        "is_owned if period is None else f'{is_owned} AND {period} IS NOT NULL'",
        "is_owned",
        (f"{_OWNERS}::test_a_period_is_read_before_bounds_are_applied",),
    ),
    Mutant(
        "the period is no part of the unit",
        Kind.NEIGHBOURS,
        "engine.duckdb.scan:Owner.unit",
        "self.key if self.period is None else f'struct_pack(id := {self.key}, period := {self.period})'",
        "self.key",
        (f"{_OWNERS}::test_a_period_is_read_before_bounds_are_applied",),
    ),
    Mutant(
        "an account takes another period's column for its own",
        Kind.NEIGHBOURS,
        "policy.toml_parsing:_parse_unit",
        "every_row=rows, period=every, period_column=column))",
        "every_row=rows, period=every))",
        (
            "curator/test_policy_account.py::test_a_period_is_part_of_the_unit_for_life",
            "policy/test_toml_parsing.py",
        ),
    ),
    Mutant(
        "copies for owners do not count toward the ceiling",
        Kind.LIMITS,
        "engine.duckdb.connection:Sources._count_source_rows",
        "return int(self.run(count_with_copies(relation.sql, scan.owner))[0][0])",
        "pass",
        (f"{_OWNERS}::test_copies_count_toward_the_ceiling",),
    ),
    Mutant(
        "private tables meet without the unit",
        Kind.NEIGHBOURS,
        "engine.lowering.relation_lowering:_match_condition",
        "apply(ScalarFunction.EQUAL, Reference('u', 'r'), Reference('u', 'j'))",
        "Constant(True, Type.BOOLEAN)",
        (_ACROSS, _ORACLE),
    ),
    Mutant(
        "finer keys than the period are one row of a unit",
        Kind.SENSITIVITY,
        "plan.sql.per_unit:_PerUnitBuilder.node",
        "single = bool(keys) and self.inside.single.issuperset(self.keys)",
        "single = bool(keys) and not self.inside.single.isdisjoint(self.keys)",
        (f"{_JOINS}::test_one_row_for_each_person_and_day",),
    ),
    Mutant(
        "what WHERE asks of an outer join's second side is asked before the join",
        Kind.KEYS,
        "plan.sql.unit_joins:push_down_filters",
        "predicate not in left_predicates and (not relation.outer) and reads_one_side(predicate, relation.right)",
        "predicate not in left_predicates and reads_one_side(predicate, relation.right)",
        (_ORACLE,),
    ),
    Mutant(
        "what is computed from missing values shows where there is no match",
        Kind.NAN,
        "plan.sql.rows:_join_private",
        "    right = materialised(right) if outer else right\n",
        "",
        (_ORACLE,),
    ),
    Mutant(
        "the unit of the second side is known where there may be none",
        Kind.KEYS,
        "plan.sql.rows:_join_private",
        "return replace(joined_source, scope={**left.scope, **right_scope}, unit_columns=left.unit_columns)",
        "return replace(joined_source, scope={**left.scope, **right_scope})",
        (_JOINS,),
    ),
    Mutant(
        "a value meets one band",
        Kind.SENSITIVITY,
        "plan.values.coded_keys:_max_overlap",
        "max((bisect_right(sorted_firsts, point) - bisect_left(sorted_lasts, point) for point in sorted_firsts))",
        "1",
        ("plan/values/test_bands.py", "safety/test_towns.py::test_tables_meet_within_one_unit"),
    ),
    Mutant(
        "bands that share an end do not overlap there",
        Kind.SENSITIVITY,
        "plan.values.coded_keys:_interval",
        "int(operator == '<')",
        "1",
        ("plan/values/test_bands.py",),
    ),
    Mutant(
        "a union counts as its first part",
        Kind.LIMITS,
        "plan.bounding:whole_rows",
        "return sum(member_rows) if len(member_rows) == len(relation.inputs) else None",
        "return max(member_rows) if len(member_rows) == len(relation.inputs) else None",
        ("curator/proposals/test_degrees.py",),
    ),
)
test_the_tests_of_tables_notice = suite(MUTANTS)
