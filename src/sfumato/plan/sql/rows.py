"""Lower FROM, JOIN, WHERE and row-wise subqueries to a relation and the expressions of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.nodes import (
    AnySemiJoin,
    Columns,
    ExistsTest,
    Filter,
    PublicJoin,
    Relation,
    Scan,
    UnitJoin,
    Unnest,
    relations,
    unused_source_number,
)
from sfumato.plan.sql.public_tables import MatchedPublicTable, lower_public_join
from sfumato.plan.sql.row_sources import (
    RowSource,
    WindowColumns,
    as_nullable,
    find_aggregates_outside_windows,
    is_unnest,
    lower_per_unit,
    lower_unnest,
    move_unnest_to_from,
    shift_sources,
    with_distinct_source_numbers,
    with_materialised_columns,
)
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text_positions import fix_for_unknown_name, node_text, refusal_at
from sfumato.plan.sql.unit_joins import (
    JoinCondition,
    Part,
    SubqueryTest,
    UnionMember,
    check_id_positions,
    check_no_subquery,
    conjunction,
    conjunctive_clauses,
    conjuncts,
    exists_test,
    is_subquery_test,
    limit_and_join_within_units,
    lower_join_condition,
    lower_union,
    push_down_filters,
    semi_join,
    union_selects,
    with_column_names,
    without_id_null_tests,
)
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Type

MAX_JOINS = 16
MAX_LEVELS = 40
"""The most nested joins and conditions: the relation is walked by recursion."""

_ROW_WISE = {"expressions", "from_", "joins", "where", "with_"}
_GROUPED = _ROW_WISE | {"group", "having", "qualify"}


Ctes = Mapping[str, RowSource]
"""The common table expressions in scope, by lower-case name."""


def lower_rows(select: exp.Select, catalog: Catalog, ctes: Ctes) -> RowSource:
    """Lower the FROM, JOIN and WHERE of a SELECT."""
    ctes = _with_ctes(select, catalog, ctes)
    from_clause = select.args.get("from_")
    if from_clause is None:
        raise refusal_at(select, "no-table", "a question needs a table", "add FROM <table>")
    joined = _lower_joins(from_clause.this, select.args.get("joins") or [], catalog, ctes)
    return _lower_where(joined, select.args.get("where"), catalog, ctes)


def _lower_where(source: RowSource, where: exp.Expr | None, catalog: Catalog, ctes: Ctes) -> RowSource:
    """Keep the rows that meet a WHERE: conditions on one row, and tests for rows of the same unit elsewhere."""
    if where is None:
        return source
    condition = without_id_null_tests(where.this, source)
    where_conjuncts = [] if condition is None else conjuncts(condition)
    where_clauses = [clause for conjunct in where_conjuncts for clause in conjunctive_clauses(conjunct)]
    tests = [clause for clause in where_clauses if any(map(is_subquery_test, clause))]
    row_conditions = [_disjunction(clause) for clause in where_clauses if clause not in tests]
    for alternative in (*row_conditions, *(node for clause in tests for node in clause if not is_subquery_test(node))):
        check_no_subquery(alternative)
    _check_nesting(source.relation, where)
    if row_conditions:
        whole = [] if condition is None or tests or isinstance(source.relation, UnitJoin) else [condition]
        relation, remaining = push_down_filters(
            source.relation, [lower_condition(conjunct, source) for conjunct in whole or row_conditions]
        )
        predicate = conjunction(remaining)
        source = replace(source, relation=relation if predicate is None else Filter(relation, predicate))
    for clause in tests:
        source = _lower_test_clause(source, clause, catalog, ctes)
    return source


def _disjunction(clause: list[exp.Expr]) -> exp.Expr:
    return clause[0] if len(clause) == 1 else exp.or_(*clause)


def _lower_test_clause(source: RowSource, clause: list[exp.Expr], catalog: Catalog, ctes: Ctes) -> RowSource:
    """Keep the rows that meet a test for rows of the same unit, or one of several alternatives."""
    if len(clause) == 1:
        return _lower_semi_join(source, SubqueryTest.parse(clause[0]), catalog, ctes)
    plain = [lower_condition(node, source) for node in clause if not is_subquery_test(node)]
    parsed = [SubqueryTest.parse(node) for node in clause if is_subquery_test(node)]
    tests: list[ExistsTest] = []
    for test in parsed:
        predicate = None if not plain else plain[0] if len(plain) == 1 else call("OR", *plain)
        # source numbers of earlier tests are taken, too
        taken = replace(source, relation=AnySemiJoin(source.relation, predicate, tuple(tests)))
        right, match = _match_subquery(taken, test, catalog, ctes)
        tests.append(exists_test(right, match, test.anti))
    return replace(source, relation=AnySemiJoin(source.relation, predicate, tuple(tests)))


def _lower_semi_join(source: RowSource, test: SubqueryTest, catalog: Catalog, ctes: Ctes) -> RowSource:
    """Keep the rows for which a subquery has rows of the same unit, or has none."""
    right, match = _match_subquery(source, test, catalog, ctes)
    return replace(source, relation=semi_join(source, right, match, test.anti))


def _match_subquery(
    source: RowSource, test: SubqueryTest, catalog: Catalog, ctes: Ctes
) -> tuple[RowSource, JoinCondition]:
    """Lower a tested subquery, and how its rows match those around it."""
    inner, outer_conditions = _lower_tested_subquery(test, catalog, ctes)
    _check_can_join(source, {}, test.node)
    right = with_distinct_source_numbers(inner, source)

    def resolve(qualifier: str | None, name: str) -> Expression:
        """Resolve a name in the subquery, and else in the rows around it."""
        try:
            return right.resolve(qualifier, name)
        except Unsupported as unknown:
            if unknown.code not in ("unknown-column", "unknown-alias"):
                raise
        return source.resolve(qualifier, name)

    return right, lower_join_condition(
        [*test.equalities(right), *outer_conditions], source, right, resolve, catalog, test.node
    )


def _lower_tested_subquery(test: SubqueryTest, catalog: Catalog, ctes: Ctes) -> tuple[RowSource, list[Part]]:
    """Lower a tested subquery: its rows, and the conditions that may read the rows around it."""
    select = test.select
    if not {clause for clause, value in select.args.items() if value} <= _ROW_WISE:
        return lower_subquery(select, catalog, ctes), []
    ctes = _with_ctes(select, catalog, ctes)
    from_clause = select.args.get("from_")
    if from_clause is None:
        raise refusal_at(select, "no-table", "a question needs a table", "add FROM <table>")
    public_names = {table.name.lower() for table in catalog.tables.values() if table.public}
    if from_clause.this.name.lower() in public_names - set(ctes):
        raise refusal_at(
            select,
            "public-subquery",
            "a subquery over a public table lists one column, or is EXISTS with one equality to a private column",
            "join the public table in FROM instead, on a column with unique values",
        )
    joined = _lower_joins(from_clause.this, select.args.get("joins") or [], catalog, ctes)
    where = select.args.get("where")
    where_conjuncts = [] if where is None else conjuncts(where.this)
    for conjunct in where_conjuncts:
        if is_subquery_test(conjunct):
            joined = _lower_semi_join(joined, SubqueryTest.parse(conjunct), catalog, ctes)
    return joined, [conjunct for conjunct in where_conjuncts if not is_subquery_test(conjunct)]


def _check_nesting(relation: Relation, node: exp.Expr) -> None:
    if sum(1 for _ in relations(relation)) > MAX_LEVELS:
        rule = f"at most {MAX_LEVELS} joins and conditions can be nested"
        raise refusal_at(node, "too-deep", rule, "combine conditions with AND")


def lower_condition(node: exp.Expr, source: RowSource) -> Expression:
    """Lower a predicate over rows, which must be boolean."""
    predicate = lower_expression(node, source.resolve)
    if predicate.domain.type is not Type.BOOLEAN:
        raise refusal_at(
            node,
            "type-mismatch",
            f"a condition must be true or false; {node_text(node)} has the type {predicate.domain.type.value}",
            "compare it with something, such as x > 5",
        )
    return predicate


def _with_ctes(select: exp.Expr, catalog: Catalog, outer_ctes: Ctes) -> Ctes:
    with_clause = select.args.get("with_")
    if with_clause is None:
        return outer_ctes
    if with_clause.args.get("recursive"):
        raise refusal_at(
            with_clause,
            "recursive",
            "recursive queries are not supported",
            "write the steps out as separate subqueries",
        )
    ctes = dict(outer_ctes)
    for cte in with_clause.expressions:
        if cte.args["alias"].args.get("columns"):
            raise refusal_at(
                cte,
                "column-list",
                "a list of column names after the alias is not supported",
                "name the columns inside the subquery: SELECT … AS name",
            )
        ctes[cte.alias.lower()] = lower_subquery(cte.this, catalog, ctes)
    return ctes


def lower_subquery(select: exp.Expr, catalog: Catalog, ctes: Ctes) -> RowSource:
    """Lower a subquery: its columns are expressions over its rows, or it is grouped by the unit."""
    if isinstance(select, exp.SetOperation):
        return _lower_union(select, catalog, ctes)
    if not isinstance(select, exp.Select):
        raise refusal_at(select, "not-select", "a subquery must be a SELECT", "use SELECT … FROM … [WHERE]")
    for clause, value in select.args.items():
        if value and clause not in _GROUPED:
            raise refusal_at(
                select,
                "not-row-wise",
                f"a subquery over private rows cannot use {_clause_name(clause)}, which mixes rows of several units",
                "move it to the outermost SELECT",
            )
    select = move_unnest_to_from(select)
    source = lower_rows(select, catalog, ctes)
    qualify = select.args.get("qualify")
    if select.args.get("group") or select.args.get("having") or find_aggregates_outside_windows(select):
        if qualify is not None:
            rule, fix = (
                "QUALIFY cannot be combined with GROUP BY or aggregates",
                "use HAVING, or put the aggregate into a subquery",
            )
            raise refusal_at(qualify, "qualify", rule, fix)
        grouped = lower_per_unit(select, source.subquery_rows)
        _check_nesting(grouped.relation, select)
        return _rows_of_subquery(source, grouped.relation, grouped.columns, grouped.owners)
    columns: dict[str, Expression] = {}
    owners: list[str] = []
    windows = WindowColumns(source.subquery_rows)
    for item in select.expressions:
        for name, definition in _lower_item(item, source, windows.lower):
            if name.lower() in {taken_name.lower() for taken_name in (*columns, *owners)}:
                raise refusal_at(item, "duplicate-column", f"two columns are named {name}", "rename one with AS")
            if definition is not None:
                columns[name] = definition
        owners += _unit_names_of_item(item, source)
    relation = windows.relation
    if qualify is not None:
        predicate = windows.condition(qualify, columns)
        if not windows.functions:
            raise refusal_at(qualify, "qualify", "QUALIFY needs a window function", "use WHERE")
        relation = Filter(windows.relation, predicate)
    _check_nesting(relation, select)
    return _rows_of_subquery(source, relation, columns, owners)


def _lower_union(node: exp.SetOperation, catalog: Catalog, ctes: Ctes) -> RowSource:
    """Lower UNION ALL of tables with the same unit."""
    ctes = _with_ctes(node, catalog, ctes)
    if not isinstance(node, exp.Union) or node.args.get("distinct") or node.args.get("by_name"):
        raise refusal_at(
            node,
            "set-operation",
            "UNION, INTERSECT and EXCEPT are not supported here: they compare rows of different people",
            "write UNION ALL without BY NAME instead of UNION, and a condition in WHERE instead of INTERSECT or EXCEPT",
        )
    for part in ("order", "limit", "offset"):
        if node.args.get(part):
            raise refusal_at(
                node,
                "not-row-wise",
                f"a subquery over private rows cannot use {_clause_name(part)}",
                "move it to the outermost SELECT",
            )
    selects = union_selects(node)
    first = lower_subquery(selects[0], catalog, ctes)
    members = [UnionMember(first.relation, list(first.scope[""].items()), selects[0])]
    source_number = unused_source_number(first.relation)
    for select in selects[1:]:
        member = lower_subquery(with_column_names(select), catalog, ctes)
        columns = [(name, shift_sources(definition, source_number)) for name, definition in member.scope[""].items()]
        check_id_positions(selects[0], first.unit_columns[""], select, member.unit_columns[""])
        members.append(UnionMember(shift_sources(member.relation, source_number), columns, select))
        source_number += unused_source_number(member.relation)
    relation = lower_union(members, source_number)
    _check_nesting(relation, node)
    return _rows_of_subquery(first, relation, _columns_by_name(relation.columns), [])


def _rows_of_subquery(
    source: RowSource, relation: Relation, columns: Mapping[str, Expression], owners: list[str]
) -> RowSource:
    """Return a subquery's columns over a relation; the unit is known by its own name too unless that is another
    column's.
    """
    taken_names = {name.lower() for name in (*columns, *owners)}
    inherited_names = [
        name for names in source.unit_columns.values() for name in names if name.lower() not in taken_names
    ]
    unit_names = tuple(dict.fromkeys((*owners, *inherited_names)))
    empty: frozenset[str] = frozenset()
    return replace(
        source,
        relation=relation,
        scope={"": columns},
        unit_columns={"": unit_names},
        merged=frozenset(),
        public=empty,
        lists={},
    )


def _unit_names_of_item(item: exp.Expr, source: RowSource) -> list[str]:
    """Return the names that an item of a subquery gives to the unit."""
    if _is_star(item):
        alias_filter = item.table.lower() if isinstance(item, exp.Column) else None
        unit_names = (
            name
            for alias, names in source.unit_columns.items()
            if alias_filter in (None, alias.lower())
            for name in names
        )
        return list(dict.fromkeys(unit_names))
    return [item.alias_or_name] if source.is_unit_id(item.unalias()) else []


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item.this if isinstance(item, exp.Column) else item, exp.Star)


def _lower_item(
    item: exp.Expr, source: RowSource, read: Callable[[exp.Expr], Expression]
) -> list[tuple[str, Expression | None]]:
    """Lower an item to its columns, by name; None for the unit's id unless it is a declared column too."""
    if _is_star(item):
        star = item.this if isinstance(item, exp.Column) else item
        if any(star.args.values()):
            raise refusal_at(
                item, "star", "* with EXCLUDE, REPLACE or RENAME is not supported here", "name the columns"
            )
        alias_filter = item.table.lower() if isinstance(item, exp.Column) else None
        return [
            (name, definition)
            for alias, columns in source.scope.items()
            if alias_filter is None or alias.lower() == alias_filter
            for name, definition in columns.items()
            if alias_filter is not None or (alias, name) not in source.merged
        ]
    inner = item.this if isinstance(item, exp.Alias) else item
    name = item.alias_or_name
    if not name:
        raise refusal_at(item, "unnamed-column", "a computed column needs a name", "add AS name")
    if source.is_unit_id(inner) and not _is_named_in_scope(inner, source):
        return [(name, None)]
    return [(name, read(inner))]


def _is_named_in_scope(node: exp.Expr, source: RowSource) -> bool:
    return any(node.name.lower() == name.lower() for columns in source.scope.values() for name in columns)


def _lower_joins(first: exp.Expr, joins: list[exp.Join], catalog: Catalog, ctes: Ctes) -> RowSource:
    left, remaining = _lower_source(first, catalog, ctes), list(joins)
    if isinstance(left, MatchedPublicTable):
        left = _join_private_to_public(left, first, remaining, catalog, ctes)
        remaining = remaining[1:]
    for join in remaining:
        if is_unnest(join):
            left = _lower_unnest(left, join)
            continue
        right = _lower_source(join.this, catalog, ctes)
        left = (
            _join_public(left, right, join)
            if isinstance(right, MatchedPublicTable)
            else _join_private(left, right, join)
        )
    return left


def _lower_unnest(left: RowSource, node: exp.Join) -> RowSource:
    """Repeat every row for each item of a list."""
    alias, name, relation = lower_unnest(node, left.relation, left.lists)
    _check_can_join(left, {alias: {}}, node)
    item = Column(relation.item_column, relation.domain)
    return replace(left, relation=relation, scope={**left.scope, alias: {name: item}})


def _join_private_to_public(
    public: MatchedPublicTable, first: exp.Expr, joins: list[exp.Join], catalog: Catalog, ctes: Ctes
) -> RowSource:
    """Join a private table to a public one, as the public one to it."""
    private = _lower_source(joins[0].this, catalog, ctes) if joins else public
    if isinstance(private, MatchedPublicTable):
        raise refusal_at(
            first,
            "public-first",
            "the first table of a question must be private",
            "write FROM <private table> JOIN <public table> …",
        )
    if joins[0].side == "LEFT":
        raise _preserved_public_refusal(joins[0], public, next(iter(private.scope)))
    return _join_public(private, public, joins[0], swapped=True)


def _preserved_public_refusal(node: exp.Join, public: MatchedPublicTable, private: str) -> Unsupported:
    return refusal_at(
        node,
        "public-preserved",
        f"{public.alias} is public, and its unmatched rows cannot be kept: whether a row has a match may depend on one"
        " person's data",
        f"write FROM {private} JOIN {public.alias} … GROUP BY a column of {public.alias}: every value becomes a"
        " group, even one without matching rows",
    )


def _join_public(left: RowSource, right: MatchedPublicTable, node: exp.Join, *, swapped: bool = False) -> RowSource:
    if node.side in ("RIGHT", "FULL") and not swapped:
        raise _preserved_public_refusal(node, right, next(iter(left.scope)))
    allowed_sides = ("", "RIGHT") if swapped else ("", "LEFT")
    if (node.side or "") not in allowed_sides or (node.kind or "") not in ("", "INNER", "OUTER") or node.method:
        raise refusal_at(
            node,
            "join-kind",
            "a public table can only be joined with JOIN or LEFT JOIN",
            "use JOIN … ON … or USING (…)",
        )
    _check_can_join(left, {right.alias: {}}, node)
    join, using = lower_public_join(left, right, node, bool(node.side), left.catalog)
    return replace(
        left,
        relation=join,
        scope={**left.scope, right.alias: _columns_by_name(join.added_columns)},
        merged=left.merged | {_hidden_using_column(left, right, name, outer=join.outer) for name in using},
        public=left.public | {right.alias.lower()},
    )


def lacks_values_and_range(domain: Domain) -> bool:
    """Return whether the domain of a column is not declared."""
    return domain.values is None and domain.range is None


def _hidden_using_column(left: RowSource, right: MatchedPublicTable, name: str, *, outer: bool) -> tuple[str, str]:
    """Return the side of USING that an unqualified name does not stand for.

    Both are equal, unless rows without a match are kept; the public one lists its values, which makes them groups where
    the private one declares none.
    """
    definition = left.resolve(None, name)
    if not outer and lacks_values_and_range(definition.domain):
        for alias, columns in left.scope.items():
            for column, candidate in columns.items():
                if candidate == definition and column.lower() == name.lower():
                    return alias, column
    return right.alias, name


def _join_private(left: RowSource, right: RowSource, node: exp.Join) -> RowSource:
    """Join two private tables within each unit."""
    if (node.side or "") not in ("", "LEFT") or (node.kind or "") not in ("", "INNER", "OUTER") or node.method:
        raise refusal_at(
            node,
            "join-kind",
            "private tables can only be joined with JOIN or LEFT JOIN",
            "use JOIN; or use LEFT JOIN, with the table that keeps all its rows on the left",
        )
    _check_can_join(left, right.scope, node)
    outer, right = node.side == "LEFT", with_distinct_source_numbers(right, left)
    right = with_materialised_columns(right) if outer else right
    combined = replace(
        left,
        scope={**left.scope, **right.scope},
        unit_columns={**left.unit_columns, **right.unit_columns},
        merged=left.merged | right.merged,
        public=left.public | right.public,
        lists={**left.lists, **right.lists},
    )
    using = [column.name for column in node.args.get("using") or []]
    match_parts: list[Part] = [(exp.column(name), exp.column(name)) for name in using]
    match_parts += conjuncts(node.args.get("on"))
    relation = limit_and_join_within_units(
        left, right, lower_join_condition(match_parts, left, right, combined.resolve, left.catalog, node), outer
    )
    merged_columns = {
        (alias, column)
        for alias, columns in right.scope.items()
        for column in columns
        if column.lower() in map(str.lower, using)
    }
    joined_source = replace(combined, relation=relation, merged=combined.merged | merged_columns)
    if not outer:
        return joined_source
    right_scope = {
        alias: {name: as_nullable(definition) for name, definition in columns.items()}
        for alias, columns in right.scope.items()
    }
    return replace(joined_source, scope={**left.scope, **right_scope}, unit_columns=left.unit_columns)


def _check_can_join(left: RowSource, right: Mapping[str, object], node: exp.Expr) -> None:
    for alias in right:
        if alias.lower() in {taken_alias.lower() for taken_alias in left.scope}:
            raise refusal_at(node, "duplicate-alias", f"two tables are named {alias}", "give one an alias with AS")
    _check_nesting(left.relation, node)
    if sum(isinstance(relation, (PublicJoin, Unnest, UnitJoin)) for relation in relations(left.relation)) >= MAX_JOINS:
        raise refusal_at(node, "too-many-joins", f"a question can join at most {MAX_JOINS} tables", "join fewer tables")


def _lower_source(node: exp.Expr, catalog: Catalog, ctes: Ctes) -> RowSource | MatchedPublicTable:
    if isinstance(node, exp.Subquery):
        _refuse_other_clauses(node, {"this", "alias"}, "subquery")
        subquery = lower_subquery(node.this, catalog, ctes)
        return _under_alias(subquery, node.alias)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise refusal_at(
            node,
            "not-a-table",
            f"the policy declares no table named {node_text(node)}",
            f"use one of {', '.join(sorted(catalog.tables))}",
        )
    _refuse_other_clauses(node, {"this", "alias"}, "table")
    name, alias = node.name, node.alias or node.name
    if name.lower() in ctes:
        return _under_alias(ctes[name.lower()], alias)
    table = next((described for described in catalog.tables.values() if described.name.lower() == name.lower()), None)
    if table is None:
        raise refusal_at(
            node, "unknown-table", _unknown_table_rule(node, name), fix_for_unknown_name(name, catalog.tables)
        )
    if table.public:
        return MatchedPublicTable(alias, table)
    columns = {Field(0, table.name, name): domain for name, domain in table.columns.items()}
    scan = Scan(table.name, table.every_row, 0, columns, table.limits, table.possible_rows)
    owners = {} if table.id is None else {alias: (table.id,)}
    lists = {alias: {name: (Field(0, table.name, name), declared_list) for name, declared_list in table.lists.items()}}
    return RowSource(
        scan, {alias: _columns_by_name(scan.columns)}, table, owners, catalog, lists=lists if table.lists else {}
    )


def _unknown_table_rule(node: exp.Table, name: str) -> str:
    """Return the refusal of an unknown table; in a join, also why a table of another policy is not possible."""
    is_joined = isinstance(node.parent, exp.Join)
    explanation = "; tables of another policy describe another population and cannot be joined" if is_joined else ""
    return f"the policy declares no table named '{name[:60]}'{explanation}"


def _under_alias(subquery: RowSource, alias: str) -> RowSource:
    """Return a subquery under an alias."""
    return replace(subquery, scope={alias: subquery.scope[""]}, unit_columns={alias: subquery.unit_columns[""]})


def _columns_by_name(columns: Columns) -> dict[str, Expression]:
    return {reference.name: Column(reference, domain) for reference, domain in columns.items()}


def _refuse_other_clauses(node: exp.Expr, allowed: set[str], what: str) -> None:
    for clause, value in node.args.items():
        if value and clause not in allowed:
            raise refusal_at(
                node,
                "table-clause",
                f"a {what} cannot have {_clause_name(clause)} here",
                "write its name and, if needed, an alias",
            )
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise refusal_at(
            node,
            "column-list",
            "a list of column names after the alias is not supported",
            "name the columns inside the subquery: SELECT … AS name",
        )


def _clause_name(clause: str) -> str:
    return _CLAUSE_NAMES.get(clause) or clause.strip("_").replace("_", " ").upper()


_CLAUSE_NAMES = {"db": "a schema other than main", "catalog": "the name of a database before it"}
