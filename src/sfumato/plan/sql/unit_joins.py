"""JOIN, EXISTS, IN and UNION ALL between private tables, always on equality of the unit.

Whatever else is compared, the whole key of the unit is: the id, and its period where units have one. It has to be
written, so that a question means what it says; what is then compared is the unit itself as the scan knows it, not the
columns. Rows of two people are never joined, so each node that is built here is unit-wise (``plan.nodes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.join_conditions import is_separable, reads_one_side
from sfumato.plan.nodes import (
    AnySemiJoin,
    ExistsTest,
    Filter,
    LimitRowsPerUnit,
    PerUnit,
    Relation,
    Scan,
    SemiJoin,
    Union,
    UnitJoin,
)
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.dialect import DIALECT, find_nodes, has_node
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text_positions import full_sql_text, refusal_at
from sfumato.plan.values.expressions import Call, Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.declaring import as_common_type, union_domain
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

MAX_JOINED = 1000
"""The most rows of one unit that a join may hold and be the side of another without being cut again."""


class NamedRelation(Protocol):
    """A relation with the names that a query may use for its columns."""

    @property
    def relation(self) -> Relation: ...

    @property
    def scope(self) -> Mapping[str, Mapping[str, Expression]]: ...

    @property
    def unit_columns(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def table(self) -> CatalogTable: ...

    def resolve(self, qualifier: str | None, name: str) -> Expression: ...

    def is_unit_id(self, node: exp.Expr) -> bool: ...


@dataclass(frozen=True)
class JoinCondition:
    """How rows of two relations match, apart from the unit: equalities, conditions over both, and conditions on one
    side.
    """

    pairs: tuple[tuple[Expression, Expression], ...]
    conditions: tuple[Expression, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]

    def condition(self, *more: Expression) -> Expression | None:
        return conjunction((*self.conditions, *more))


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    """Return the conjunction of the conditions, in a canonical order."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return call("AND", *sorted(parts, key=repr))


def limit_and_join_within_units(
    left: NamedRelation, right: NamedRelation, match: JoinCondition, outer: bool
) -> UnitJoin:
    """Join two relations within each unit. Conditions on one side are applied before its rows are cut."""
    left_conditions = () if outer else match.left
    outer_conditions = match.left if outer else ()
    left_side = _limit_rows_unless_proven(_apply_filters(left.relation, left_conditions))
    right_side = _limit_joined_rows(_apply_filters(right.relation, match.right))
    return UnitJoin(left_side, right_side, match.pairs, match.condition(*outer_conditions), outer)


def semi_join(left: NamedRelation, right: NamedRelation, match: JoinCondition, anti: bool) -> Relation:
    """Keep the rows of the first that have a match among the second, or have none. A row that fails a condition on it
    inside the subquery has no match.
    """
    right_side = _apply_filters(right.relation, match.right)
    condition = match.condition(*match.left) if anti else match.condition()
    left_side = left.relation if anti else _apply_filters(left.relation, match.left)
    return SemiJoin(
        left_side, right_side if condition is None else _limit_joined_rows(right_side), match.pairs, condition, anti
    )


def exists_test(right: NamedRelation, match: JoinCondition, anti: bool) -> ExistsTest:
    """Return a test that stands under OR: a row that fails a condition on it inside the subquery has no match."""
    right_side, condition = _apply_filters(right.relation, match.right), match.condition(*match.left)
    return ExistsTest(right_side if condition is None else _limit_joined_rows(right_side), match.pairs, condition, anti)


def _apply_filters(relation: Relation, predicates: Sequence[Expression]) -> Relation:
    predicate = conjunction(predicates)
    return relation if predicate is None else Filter(relation, predicate)


def _limit_rows_unless_proven(relation: Relation) -> Relation:
    """Cut a relation to a bounded number of rows of each unit: the cost of one person's rows is bounded by the
    policy.
    """
    proven_rows, row_limit = relation.max_rows_per_unit, relation.limits.rows
    return (
        relation
        if proven_rows is not None and proven_rows <= max(row_limit, MAX_JOINED)
        else LimitRowsPerUnit(relation, row_limit)
    )


def _limit_joined_rows(relation: Relation) -> Relation:
    """Cut the side that every row of the other is put beside: to the policy's limit, and at most to ``MAX_JOINED``, so
    that one row never becomes more than a question may make of it.

    Fewer rows of a unit are kept than the policy allows, and which ones depends on that unit's rows alone, so what a
    unit contributes is bounded as before.
    """
    proven_rows, row_limit = relation.max_rows_per_unit, min(relation.limits.rows, MAX_JOINED)
    is_bounded = proven_rows is not None and proven_rows <= MAX_JOINED
    return relation if is_bounded else LimitRowsPerUnit(relation, row_limit)


def push_down_filters(relation: Relation, predicates: Sequence[Expression]) -> tuple[Relation, list[Expression]]:
    """Push predicates on one side of a join below that side's row limit, and return the others: so a limit counts the
    rows that are wanted. Predicates on rows that an outer join adds are not pushed.
    """
    if isinstance(relation, LimitRowsPerUnit):
        filtered_input, remaining = push_down_filters(relation.input, predicates)
        return LimitRowsPerUnit(_apply_filters(filtered_input, remaining), relation.rows), []
    if not isinstance(relation, UnitJoin):
        return _apply_filters(relation, predicates), []
    left_predicates = [predicate for predicate in predicates if reads_one_side(predicate, relation.left)]
    right_predicates = [
        predicate
        for predicate in predicates
        if predicate not in left_predicates and not relation.outer and reads_one_side(predicate, relation.right)
    ]
    left_side, right_side = (
        _apply_filters(*push_down_filters(*side))
        for side in ((relation.left, left_predicates), (relation.right, right_predicates))
    )
    remaining = [predicate for predicate in predicates if predicate not in (*left_predicates, *right_predicates)]
    return UnitJoin(left_side, right_side, relation.pairs, relation.condition, relation.outer), remaining


# What is written


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Split a condition into the conjuncts of its ANDs."""
    if node is None:
        return []
    node = node.unnest()
    if isinstance(node, exp.And):
        return [conjunct for argument in (node.this, node.expression) for conjunct in conjuncts(argument)]
    return [node]


Resolve = Callable[[str | None, str], Expression]
Part = exp.Expr | tuple[exp.Expr, exp.Expr]
"""A condition over two relations, or an equality between an expression of the first and one of the second."""


def lower_join_condition(
    parts: Sequence[Part], left: NamedRelation, right: NamedRelation, resolve: Resolve, catalog: Catalog, node: exp.Expr
) -> JoinCondition:
    """Lower the conditions between two private relations; refuse them if the equality of the unit is missing."""
    if left.table.every_row:
        raise refusal_at(
            node,
            "no-common-unit",
            "in this table every row is its own unit, so no two rows belong to the same unit",
            "declare the column that identifies the unit as id in the policy, or join public tables",
        )
    builder = _MatchBuilder(left, right, resolve)
    for part in parts:
        builder.add(part)
    if not builder.unit and qualified_unit_names(left) and qualified_unit_names(right):
        raise refusal_at(
            node,
            "join-without-unit",
            "private tables can only be joined on the unit: this join would combine rows of different units",
            _missing_condition_fix(qualified_unit_names(left)[0], qualified_unit_names(right)[0], node),
        )
    period = left.table.period
    if period is not None and not builder.compares_periods(catalog):
        raise refusal_at(
            node,
            "join-without-period",
            f"a unit is an id within one {period.every}, and private tables can only be joined within one unit",
            _missing_condition_fix(_side_period_sql(left), _side_period_sql(right), node),
        )
    return builder.match()


class _MatchBuilder:
    """The conditions between two relations, collected while they are lowered."""

    def __init__(self, left: NamedRelation, right: NamedRelation, resolve: Resolve) -> None:
        self._sides, self._resolve = (left, right), resolve
        self.unit = False
        self._pairs: list[tuple[Expression, Expression]] = []
        self._conditions: list[Expression] = []
        self._own: tuple[list[Expression], list[Expression]] = ([], [])

    def add(self, part: Part) -> None:
        left, right = self._sides
        if isinstance(part, tuple):
            if left.is_unit_id(part[0]) and right.is_unit_id(part[1]):
                self.unit = True
            else:
                left_value, right_value = (
                    lower_expression(node, side.resolve) for node, side in zip(part, self._sides, strict=True)
                )
                self._add_condition(call("=", left_value, right_value), part[0])
        elif isinstance(part, exp.EQ) and self._compares_units(part.this, part.expression):
            self.unit = True
        elif not (
            isinstance(part, exp.EQ) and _is_unit_id_of(right, part.this) and _is_unit_id_of(right, part.expression)
        ):
            # the dropped equality compares a unit with itself
            self._add_condition(lower_expression(part, self._resolve), part)

    def _compares_units(self, first: exp.Expr, second: exp.Expr) -> bool:
        """Return whether the unit of one side is compared with that of the other: a name that both know is the
        second's.
        """
        left, right = self._sides
        return any(
            _is_unit_id_of(left, left_node)
            and not _is_unit_id_of(right, left_node)
            and _is_unit_id_of(right, right_node)
            for left_node, right_node in ((first, second), (second, first))
        )

    def _add_condition(self, condition: Expression, node: exp.Expr) -> None:
        """Add a condition where it belongs: an equality between the sides, a condition of one of them, or one over
        both.
        """
        if condition.domain.type is not Type.BOOLEAN:
            raise refusal_at(
                node, "type-mismatch", "a condition must be true or false", "compare it with something, such as x > 5"
            )
        left, right = (side.relation for side in self._sides)
        equated = condition.arguments if isinstance(condition, Call) and condition.function == "=" else ()
        if reads_one_side(condition, left):
            self._own[0].append(condition)
        elif reads_one_side(condition, right):
            self._own[1].append(condition)
        elif equated and reads_one_side(equated[0], left) and reads_one_side(equated[1], right):
            self._pairs.append((equated[0], equated[1]))
        elif equated and reads_one_side(equated[1], left) and reads_one_side(equated[0], right):
            self._pairs.append((equated[1], equated[0]))
        elif is_separable(condition, left, right):
            self._conditions.append(condition)
        else:
            raise refusal_at(
                node,
                "join-condition",
                "a join of private tables must compare an expression of one with an expression of the other",
                "write each comparison with one table on each side, joined by AND; put the rest into WHERE",
            )

    def compares_periods(self, catalog: Catalog) -> bool:
        """Return whether the period of one side is compared with that of the other."""
        left_periods, right_periods = (period_expressions_of(side.relation, catalog) for side in self._sides)
        return any(
            left_value in left_periods and right_value in right_periods for left_value, right_value in self._pairs
        )

    def match(self) -> JoinCondition:
        pairs = tuple(sorted(set(self._pairs), key=repr))
        return JoinCondition(pairs, tuple(self._conditions), tuple(self._own[0]), tuple(self._own[1]))


def _is_unit_id_of(side: NamedRelation, node: exp.Expr) -> bool:
    """Return whether a node names the unit of a side, and no alias of the other."""
    if not isinstance(node, exp.Column):
        return False
    qualifier = node.table.lower()
    return (not qualifier or qualifier in {alias.lower() for alias in side.scope}) and side.is_unit_id(node)


def without_id_null_tests(node: exp.Expr, source: NamedRelation) -> exp.Expr | None:
    """Drop ``id IS NOT NULL`` from a condition, None if nothing is left, and replace ``id IS NULL`` by FALSE.

    A scan drops rows without an owner. An outer join makes ids NULL, but those are no id of its rows.
    """
    if not has_node(node, exp.Is):
        return node

    def decide(part: exp.Expr) -> exp.Expr:
        is_id_test = isinstance(part, exp.Is) and isinstance(part.expression, exp.Null) and source.is_unit_id(part.this)
        return exp.false() if is_id_test else part

    decided = [part.transform(decide) for part in conjuncts(node)]
    remaining = [part for part in decided if part != exp.not_(exp.false())]
    if len(remaining) == len(decided):
        return node.transform(decide)
    return exp.and_(*remaining) if remaining else None


def qualified_unit_names(side: NamedRelation) -> list[str]:
    """Return the names of the unit in a relation, each qualified by its alias."""
    unit_names = ((alias, name) for alias, id_names in side.unit_columns.items() for name in id_names)
    return [f"{quoted(alias)}.{quoted(name)}" if alias else quoted(name) for alias, name in unit_names]


def _missing_condition_fix(first: str, second: str, clause: exp.Expr) -> str:
    """Suggest where to add the missing condition."""
    equality = f"{first} = {second}"
    if isinstance(clause, exp.Join):
        if clause.args.get("using"):
            return _missing_using_fix(first, second)
        return f"add AND {equality} to ON" if clause.args.get("on") else f"write JOIN … ON {equality}"
    if first == second:
        equality = f"{first} = other.{second.rpartition('.')[2]}, where other is an alias of the table in the subquery,"
    return f"add {equality} to the WHERE of the subquery"


def _missing_using_fix(first: str, second: str) -> str:
    """Suggest USING for a column of one name, and ON for two names or a computed column."""
    name = first.rpartition(".")[2]
    if name == second.rpartition(".")[2] and "(" not in first:
        return f"add {name} to USING"
    return f"write ON instead of USING, with AND {first} = {second}"


def period_sql(table: CatalogTable, alias: str = "") -> str:
    """Write the SQL expression of a row's period."""
    assert table.period is not None
    column = quoted(table.period.column)
    column = f"{quoted(alias)}.{column}" if alias else column
    is_date = table.period.every == "day" and table.columns[table.period.column].type is Type.DATE
    return column if is_date else f"DATE_TRUNC('{table.period.every}', {column})"


def _side_period_sql(side: NamedRelation) -> str:
    return period_sql(side.table, next(iter(side.scope), ""))


def period_expression(table: CatalogTable, source: int) -> Expression:
    """Return the expression of the period of a row of a scan."""
    assert table.period is not None
    column, every = table.period.column, table.period.every
    date_column = Column(Field(source, table.name, column), table.columns[column])
    if every == "day" and date_column.domain.type is Type.DATE:
        return date_column
    return call("DATE_TRUNC", literal(Type.TEXT, every), date_column)


def period_expressions_of(relation: Relation, catalog: Catalog, *, single: bool = False) -> frozenset[Expression]:
    """Return the expressions over a relation that give a row's period; with ``single``, only those that have one value
    in all rows of a unit.

    A unit's period is read before its column is cleaned. Clamping keeps the days of one period in one period, so within
    one scan a period has one value; a list of declared values does not, since some days of a period may be missing from
    it. Over several scans it has one value if all of them clamp alike.
    """
    if isinstance(relation, Scan):
        table = catalog.tables[relation.table]
        has_listed_values = table.period is not None and table.columns[table.period.column].values is not None
        return frozenset() if single and has_listed_values else frozenset((period_expression(table, relation.source),))
    if isinstance(relation, PerUnit):
        input_periods = period_expressions_of(relation.input, catalog, single=single)
        period_keys = {name for name, key in relation.keys if key in input_periods}
        return frozenset(
            Column(reference, domain) for reference, domain in relation.columns.items() if reference.name in period_keys
        )
    if isinstance(relation, Union):
        member_periods = [period_expressions_of(member, catalog, single=single) for member in relation.inputs]
        column_expressions = list(zip(*(definitions for _, definitions in relation.members), strict=True))
        are_periods = [
            all(map(frozenset.__contains__, member_periods, definitions))
            and (not single or len({definition.domain.range for definition in definitions}) == 1)
            for definitions in column_expressions
        ]
        columns_checked = zip(relation.columns.items(), are_periods, strict=True)
        return frozenset(Column(reference, domain) for (reference, domain), is_period in columns_checked if is_period)
    if isinstance(relation, UnitJoin) and relation.outer:
        return period_expressions_of(relation.left, catalog, single=single)
    return frozenset().union(
        *(
            period_expressions_of(relation_below, catalog, single=single)
            for relation_below in relation.inputs[: 1 if isinstance(relation, (SemiJoin, AnySemiJoin)) else 2]
        )
    )


# EXISTS and IN


@dataclass(frozen=True)
class SubqueryTest:
    """A test of a WHERE: [NOT] EXISTS (SELECT …) or … [NOT] IN (SELECT …)."""

    node: exp.Expr
    select: exp.Select
    operands: tuple[exp.Expr, ...]
    """The operands of IN, which are compared with the columns of the subquery; empty for EXISTS."""
    anti: bool

    @classmethod
    def parse(cls, node: exp.Expr) -> SubqueryTest:
        """Parse the test that a conjunct of WHERE is."""
        inner, anti = _strip_nots(node)
        query = inner.this if isinstance(inner, exp.Exists) else inner.args["query"]
        select = query.this if isinstance(query, exp.Subquery) else query
        if not isinstance(select, exp.Select):
            raise refusal_at(
                select, "not-select", "the subquery of EXISTS or IN must be one SELECT", "use SELECT … FROM …"
            )
        if isinstance(inner, exp.Exists):
            if select.find(exp.AggFunc) is not None and not select.args.get("group"):
                raise refusal_at(
                    select,
                    "exists-aggregate",
                    "a subquery with an aggregate always has a row, so EXISTS is always true",
                    "select rows: SELECT 1 FROM …",
                )
            return cls(node, select, (), anti)
        operand = inner.this.unnest()
        operands = tuple(operand.expressions) if isinstance(operand, exp.Tuple) else (operand,)
        if len(operands) != len(select.expressions):
            raise refusal_at(
                node,
                "in-columns",
                f"IN needs the same number of columns on both sides, not {len(operands)} and {len(select.expressions)}",
                "select the compared columns in the subquery, in the same order",
            )
        return cls(node, select, operands, anti)

    def equalities(self, inner: NamedRelation) -> list[Part]:
        """Return what IN equates: an operand outside, and a column of the subquery."""
        is_derived = set(inner.scope) == {""}
        columns = (exp.column(item.alias_or_name) if is_derived else item.unalias() for item in self.select.expressions)
        return list(zip(self.operands, columns, strict=False))


def is_subquery_test(node: exp.Expr) -> bool:
    """Return whether a conjunct of WHERE tests whether a subquery has rows."""
    inner, _ = _strip_nots(node)
    return isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query") is not None)


MAX_CLAUSES = 64
"""The most alternatives-under-AND that a condition with EXISTS is written out to."""


def conjunctive_clauses(node: exp.Expr, *, negated: bool = False) -> list[list[exp.Expr]]:
    """Write a condition as clauses that all must hold, each a list of alternatives, where tests stand under OR.

    AND, OR and NOT of three truth values obey the laws of distribution and of De Morgan, so the rows for which a
    condition is true are those for which all clauses are.
    """
    node = node.unnest()
    if isinstance(node, exp.Not):
        return conjunctive_clauses(node.this, negated=not negated)
    if not any(map(is_subquery_test, find_nodes(node, exp.Exists, exp.In))) or is_subquery_test(node):
        return [[exp.not_(node) if negated else node]]
    if isinstance(node, exp.And if not negated else exp.Or):
        return [
            clause for side in (node.this, node.expression) for clause in conjunctive_clauses(side, negated=negated)
        ]
    if isinstance(node, (exp.And, exp.Or)):
        left, right = (conjunctive_clauses(side, negated=negated) for side in (node.this, node.expression))
        if len(left) * len(right) > MAX_CLAUSES:
            rule = f"a condition with EXISTS can have at most {MAX_CLAUSES} alternatives once AND and OR are expanded"
            raise refusal_at(node, "subquery-place", rule, "use fewer ORs beside EXISTS")
        return [[*first, *second] for first in left for second in right]
    return [[exp.not_(node) if negated else node]]


_MAX_PROPOSAL = 300
"""The longest subquery that a fix repeats."""


def check_no_subquery(node: exp.Expr) -> None:
    """Refuse a query inside an expression: it would have a value for each row, or for everybody at once."""
    tests = [test for test in find_nodes(node, exp.Exists, exp.In) if is_subquery_test(test)]
    if tests:
        raise refusal_at(
            tests[0],
            "subquery-place",
            "EXISTS (…) and x IN (SELECT …) can only be conditions of WHERE, joined by AND, OR and NOT",
            "move it out of CASE, functions and comparisons, into WHERE: WHERE EXISTS (…) OR x > 5",
        )
    check_no_scalar_subquery(node)


def check_no_scalar_subquery(node: exp.Expr) -> None:
    """Refuse a scalar subquery in a condition on rows: its value would be that of other people's rows."""
    scalar_subqueries = (
        subquery
        for subquery in find_nodes(node, exp.Subquery)
        if not isinstance(subquery.parent, (exp.From, exp.Join, exp.In, exp.Exists))
    )
    if (subquery := next(scalar_subqueries, None)) is not None:
        raise refusal_at(
            subquery,
            "subquery-value",
            "a subquery that computes one value from other rows cannot be used here: its exact value would reveal "
            "something about those rows",
            _scalar_value_fix(subquery),
        )


def _scalar_value_fix(subquery: exp.Subquery) -> str:
    """Propose the statement that answers with the value, or with one for each unit where it is correlated."""
    body, root = subquery.this, subquery.root()
    text = full_sql_text(body)
    is_whole = isinstance(body, exp.Select) and body.args.get("from_") and not root.args.get("with_")
    if not is_whole or len(text) > _MAX_PROPOSAL:
        return "compute the value in a question of its own, and write the result here"
    if not is_correlated(subquery):
        return f"compute the value in a question of its own, and write the result here: {text}"
    return _correlated_value_as_join_fix(subquery, body)


def is_correlated(subquery: exp.Subquery) -> bool:
    """Return whether a subquery names a column of the rows around it."""
    body = subquery.this
    sources = {source.alias_or_name.lower() for source in body.find_all(exp.Table, exp.Subquery)}
    return any(column.table and column.table.lower() not in sources for column in body.find_all(exp.Column))


def _correlated_value_as_join_fix(subquery: exp.Subquery, body: exp.Select) -> str:
    """Propose the question with a join of the value of each unit, if the subquery is tied to it by the id alone."""
    where, source, outer = body.args.get("where"), body.args["from_"].this, subquery.find_ancestor(exp.Select)
    sides = [where.this.left.name, where.this.right.name] if where and isinstance(where.this, exp.EQ) else []
    is_table = isinstance(source, exp.Table) and not body.args.get("joins") and len(body.expressions) == 1
    if len(set(sides)) != 1 or not is_table or outer is None or outer.find(exp.Subquery) is not subquery:
        return "join a subquery that computes the value for each unit, with GROUP BY the unit's id"
    unit = quoted(sides[0])
    value = full_sql_text(body.expressions[0].unalias())
    inner = f"SELECT {unit}, {value} AS x FROM {full_sql_text(source)} GROUP BY {unit}"
    joined = outer.copy()
    copied = joined.find(exp.Subquery)
    assert copied is not None
    copied.replace(exp.column("x"))
    joined = joined.join(f"({inner}) AS of_unit", using=[sides[0]], dialect=DIALECT)
    return f"join the value of each unit: {full_sql_text(joined)}"


def _strip_nots(node: exp.Expr) -> tuple[exp.Expr, bool]:
    """Strip the NOTs before a test; return whether their number is odd."""
    node, anti = node.unnest(), False
    while isinstance(node, exp.Not):
        node, anti = node.this.unnest(), not anti
    return node, anti


# UNION ALL


@dataclass(frozen=True)
class UnionMember:
    """A SELECT of a UNION ALL: its relation, and its columns in order."""

    relation: Relation
    columns: Sequence[tuple[str, Expression]]
    node: exp.Expr


def union_selects(node: exp.Expr) -> list[exp.Expr]:
    """Return the SELECTs of a UNION ALL in order; any other set operation is refused where it is lowered."""
    node = node.this if isinstance(node, exp.Subquery) and not node.alias else node
    if isinstance(node, exp.Union) and not node.args.get("distinct"):
        return [member for side in (node.this, node.expression) for member in union_selects(side)]
    return [node]


def with_column_names(select: exp.Expr) -> exp.Expr:
    """Name the columns of a later member of a UNION ALL: they need no names, since the first member's are used."""
    renamed = select.copy()
    for index, item in enumerate(renamed.expressions if isinstance(renamed, exp.Select) else ()):
        if not item.alias_or_name and not item.find(exp.Star):
            item.replace(exp.alias_(item.copy(), f"column {index}", quoted=True))
    return renamed


def check_id_positions(first: exp.Expr, owners: Sequence[str], second: exp.Expr, second_owners: Sequence[str]) -> None:
    """Check that the unit's id stands at the same position in all members of a union, or in none."""
    first_positions, second_positions = (
        _unit_id_positions(*member) for member in ((first, owners), (second, second_owners))
    )
    if None not in (first_positions, second_positions) and first_positions != second_positions:
        raise refusal_at(
            second,
            "union-columns",
            "the id of the unit must be at the same position in all parts of a UNION ALL",
            "select the same columns in each, in the same order",
        )


def _unit_id_positions(select: exp.Expr, owners: Sequence[str]) -> list[int] | None:
    if not isinstance(select, exp.Select) or any(
        isinstance(item.find(exp.Star), exp.Star) for item in select.expressions
    ):
        return None
    id_names = [name.lower() for name in owners]
    return [index for index, item in enumerate(select.expressions) if item.alias_or_name.lower() in id_names]


def lower_union(members: Sequence[UnionMember], source: int) -> Union:
    """Lower UNION ALL of the members.

    Columns are aligned by position and have the names of the first member's. Their types become one type, and their
    domains one that covers all of them.
    """
    first = members[0]
    for member in members[1:]:
        if len(member.columns) != len(first.columns):
            raise refusal_at(
                member.node,
                "union-columns",
                "the SELECTs of a UNION ALL need the same number of columns, not "
                f"{len(first.columns)} and {len(member.columns)}",
                "select the same columns in each, in the same order",
            )
    columns_by_position = [
        as_common_type(definition for _, definition in column)
        for column in zip(*(member.columns for member in members), strict=True)
    ]
    names = [name for name, _ in first.columns]
    domains = [
        union_domain(definitions, nullable=any(definition.domain.nullable for definition in definitions))
        for definitions in columns_by_position
    ]
    parts = tuple(
        (member.relation, tuple(definitions[index] for definitions in columns_by_position))
        for index, member in enumerate(members)
    )
    return Union(parts, source, tuple(zip(names, domains, strict=True)))
