"""Lower SELECTs that combine the noisy rows of several SELECTs: joins on keys, unions, scalar subqueries.

Each SELECT that aggregates private rows is a query of its own, and all of them are measured in one batch, once; what is
done with their noisy rows is free. A join is by equal public keys, and its condition holds all keys of one side: so the
rows of the answer are known before anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import conditions_met_by_rows, undeclared_key_indices
from sfumato.plan.nodes import CombinedRows, Query
from sfumato.plan.noisy_rows import (
    Finish,
    NoisyJoin,
    NoisyRelation,
    NoisySelect,
    NoisySource,
    NoisyUnion,
    OuterSelect,
    Output,
    WithScalars,
    selects_by_noise,
)
from sfumato.plan.sql.dialect import DIALECT, find_nodes
from sfumato.plan.sql.noisy_windows import check_noiseless_key
from sfumato.plan.sql.outer import (
    OuterBuilder,
    ScopeColumn,
    groups_by_unit,
    has_aggregates,
    inner_aggregate_select,
    scope_columns,
    with_referenced_ctes,
)
from sfumato.plan.sql.text_positions import default_column_name, node_text, refusal_at
from sfumato.plan.sql.unit_joins import check_no_scalar_subquery
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Key,
    NoisyColumn,
    columns as columns_read,
    conjuncts,
    noise_count,
)
from sfumato.plan.values.functions import call
from sfumato.quick_dataclass import dataclass

MAX_QUERIES = 8
"""The most aggregating SELECTs of one question."""
_SCALARS = " scalars"
"""The name by which lowered scalar subqueries are columns: no text can write it."""
_JOIN_FIX = "join on the group keys: FROM a JOIN b USING (month)"

LowerLeaf = Callable[[exp.Select], Query]
Scope = dict[str, tuple[exp.Expr, "Scope"]]
"""Common table expressions by their lower-case names, each with those that it may reference."""


def combines_noisy_rows(select: exp.Select, catalog: Catalog) -> bool:
    """Return whether a SELECT, or one that it reads, combines the noisy rows of several SELECTs."""
    return NoisyRowsDetector(catalog).combines_noisy_rows(select, {})


def lower_combined(select: exp.Select, catalog: Catalog, lower_leaf: LowerLeaf) -> Query:
    """Return the query of a SELECT that combines noisy rows."""
    lowering = _CombiningBuilder(NoisyRowsDetector(catalog), lower_leaf, [], [])
    rows = lowering.select(select, {})
    assert isinstance(rows.relation, NoisySelect)
    return replace(
        lowering.queries[0], combined=CombinedRows(tuple(lowering.queries), rows.relation, tuple(lowering.texts))
    )


@dataclass(frozen=True)
class NoisyRowsDetector:
    """Tells which SELECTs have noisy rows, without lowering them."""

    catalog: Catalog

    def combines_noisy_rows(self, select: exp.Select, visible: Scope) -> bool:
        visible = cte_scope(select, visible)
        if select.args.get("from_") is None:
            return any(self.noisy_scalar_subqueries(select, visible))
        sources = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
        bodies = [body_and_scope(source, visible) for source in sources]
        if any(body is None for body in bodies):
            return any(self.noisy_scalar_subqueries(select, visible))
        if len(bodies) > 1:
            return all(body is not None and self.is_noisy(*body) for body in bodies)
        (body,) = bodies
        assert body is not None
        node, scope = body
        if isinstance(node, exp.SetOperation):
            return self.is_noisy(node, scope)
        return (isinstance(node, exp.Select) and self.combines_noisy_rows(node, scope)) or any(
            self.noisy_scalar_subqueries(select, visible)
        )

    def is_noisy(self, node: exp.Expr, visible: Scope) -> bool:
        """Return whether the rows of a SELECT or UNION are noisy, not rows of tables or of units."""
        if isinstance(node, exp.SetOperation):
            return all(self.is_noisy(without_parentheses(side), visible) for side in (node.this, node.expression))
        if not isinstance(node, exp.Select):
            return False
        if self.combines_noisy_rows(node, visible):
            return True
        whole = with_scope_ctes(node, visible)
        if not self.reads_private_table(whole):
            return False
        if has_aggregates(node):
            return not (node.args.get("group") and groups_by_unit(whole, self.catalog))
        return inner_aggregate_select(whole, self.catalog) is not None

    def reads_private_table(self, select: exp.Expr) -> bool:
        private = {name.lower() for name, table in self.catalog.tables.items() if not table.public}
        return any(table.name.lower() in private for table in find_nodes(select, exp.Table))

    def noisy_scalar_subqueries(self, select: exp.Select, visible: Scope) -> Iterator[exp.Subquery]:
        """Iterate over the scalar subqueries of a SELECT whose results are noisy."""
        for subquery in find_nodes(select, exp.Subquery):
            if subquery.find_ancestor(exp.Select) is not select or not is_scalar_subquery(subquery):
                continue
            if self.is_noisy(without_parentheses(subquery), cte_scope(select, visible)):
                yield subquery


def is_scalar_subquery(subquery: exp.Subquery) -> bool:
    """Return whether a subquery stands for a value, not for rows."""
    return not isinstance(
        subquery.parent, (exp.From, exp.Join, exp.In, exp.Exists, exp.SetOperation, exp.CTE, exp.Subquery)
    )


def cte_scope(select: exp.Expr, visible: Scope) -> Scope:
    """Return the common table expressions that a SELECT may reference, its own included."""
    for cte in select.args["with_"].expressions if select.args.get("with_") else ():
        visible = {**visible, cte.alias.lower(): (cte, visible)}
    return visible


def body_and_scope(source: exp.Expr, visible: Scope) -> tuple[exp.Expr, Scope] | None:
    """Return the SELECT or UNION that a source in FROM stands for, with its scope; None for a table."""
    if isinstance(source, exp.Subquery):
        return without_parentheses(source), visible
    if isinstance(source, exp.Table) and not source.args.get("db") and source.name.lower() in visible:
        cte, scope = visible[source.name.lower()]
        return cte.this, scope
    return None


def without_parentheses(node: exp.Expr) -> exp.Expr:
    while isinstance(node, (exp.Subquery, exp.Paren)):
        node = node.this
    return node


def with_scope_ctes(select: exp.Select, visible: Scope) -> exp.Select:
    """Return the SELECT with the common table expressions that it references."""
    return with_referenced_ctes(select, {name: cte for name, (cte, _) in visible.items()})


@dataclass(frozen=True)
class _LoweredRows:
    """A lowered relation with its columns."""

    relation: NoisyRelation
    outputs: tuple[Output, ...]
    keys: frozenset[int] | None
    """The columns that together identify a row; None where that is not known."""
    selected: bool
    """Whether noisy values have selected rows."""


@dataclass(frozen=True)
class _CombiningBuilder:
    """Lowers a tree of SELECTs over noisy rows, and collects the queries at its leaves."""

    shape: NoisyRowsDetector
    lower_leaf: LowerLeaf
    queries: list[Query]
    texts: list[str]

    def lower_node(self, node: exp.Expr, visible: Scope) -> _LoweredRows:
        node = without_parentheses(node)
        if isinstance(node, exp.SetOperation):
            return self._lower_union(node, cte_scope(node, visible))
        assert isinstance(node, exp.Select)
        return (
            self.select(node, visible)
            if self.shape.combines_noisy_rows(node, visible)
            else self._lower_leaf_select(node, visible)
        )

    def _lower_leaf_select(self, select: exp.Select, visible: Scope) -> _LoweredRows:
        query = self.lower_leaf(with_scope_ctes(select, visible))
        if not query.plan.measures and not undeclared_key_indices(
            query.plan.keys, conditions_met_by_rows(query.plan.source)
        ):
            rule = "a SELECT that is combined with others needs an aggregate: its group keys alone are already public"
            raise refusal_at(select, "no-aggregate", rule, "add COUNT(*) to each SELECT")
        if query not in self.queries:
            self.queries.append(query)
            self.texts.append(with_scope_ctes(select, visible).sql(dialect=DIALECT))
        if len(self.queries) > MAX_QUERIES:
            rule = f"a question can combine the results of at most {MAX_QUERIES} SELECTs"
            raise refusal_at(
                select, "too-many-queries", rule, "ask two questions, and combine the answers in pandas, which is free"
            )
        return _LoweredRows(
            NoisySource(self.queries.index(query)),
            query.outputs,
            _row_key_output_indices(query),
            selects_by_noise(query.finish, query.outer),
        )

    def _lower_union(self, union: exp.SetOperation, visible: Scope) -> _LoweredRows:
        """Lower UNION ALL, or UNION, which keeps one of several equal rows."""
        if not isinstance(union, exp.Union) or union.args.get("by_name"):
            rule = "aggregated results can be combined with UNION ALL and UNION, not with INTERSECT, EXCEPT or BY NAME"
            raise refusal_at(
                union, "set-operation", rule, "write UNION ALL, or join on the keys: FROM a JOIN b USING (month)"
            )
        members = [self.lower_node(side, visible) for side in (union.this, union.expression)]
        first, second = members
        if len(first.outputs) != len(second.outputs):
            raise refusal_at(
                union,
                "union",
                "the SELECTs of a UNION have different numbers of columns",
                "select the same columns in each",
            )
        outputs = tuple(_union_output(union, *pair) for pair in zip(first.outputs, second.outputs, strict=True))
        parts = [part for member in members for part in _union_all_members(member.relation)]
        distinct = bool(union.args.get("distinct"))
        compares_noise = distinct and any(noise_count(output.expression) for output in outputs)
        selected = compares_noise or any(member.selected for member in members)
        return _LoweredRows(NoisyUnion(tuple(parts), distinct), outputs, None, selected)

    def select(self, select: exp.Select, visible: Scope) -> _LoweredRows:
        """Lower a SELECT whose sources are noisy rows."""
        scope = cte_scope(select, visible)
        scalars = list(self.shape.noisy_scalar_subqueries(select, visible))
        if select.args.get("from_") is None:
            rows, columns = self._lower_scalar(scalars[0], scope), []  # its one row
        elif body_and_scope(select.args["from_"].this, scope) is None or (
            scalars and not self._reads_noisy_rows(select, scope)
        ):
            select, leaf = _split_around_scalars(select)
            for clause in filter(
                None, (leaf.args.get("where"), leaf.args.get("group"), *(leaf.args.get("joins") or ()))
            ):
                check_no_scalar_subquery(clause)
            rows = self._lower_leaf_select(leaf, visible)
            scalars = list(self.shape.noisy_scalar_subqueries(select, scope))
            columns = scope_columns("", rows.outputs)
        else:
            rows, columns = self._lower_from_with_joins(select, scope)
        lowered = [self._lower_scalar(subquery, scope) for subquery in scalars]
        first = len(rows.outputs)
        for index, (subquery, scalar) in enumerate(zip(scalars, lowered, strict=True)):
            name = str(index)
            reference = exp.column(name, table=_SCALARS, quoted=True)
            subquery.replace(reference)
            output = scalar.outputs[0]
            noises = noise_count(output.expression)
            domain = replace(output.expression.domain, nullable=True)
            columns.append(
                ScopeColumn(_SCALARS, name, Column(NoisyColumn(first + index, noises), domain), is_hidden=True)
            )
        _check_clauses(select)
        outer = OuterBuilder(select, columns).outer()
        relation = (
            WithScalars(rows.relation, tuple(scalar.relation for scalar in lowered)) if lowered else rows.relation
        )
        selected = rows.selected or selects_by_noise(Finish(()), (outer,))
        return _LoweredRows(
            NoisySelect(relation, outer), outer.finish.outputs, _identifying_outer_outputs(outer, rows.keys), selected
        )

    def _reads_noisy_rows(self, select: exp.Select, scope: Scope) -> bool:
        sources = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
        bodies = [body_and_scope(source, scope) for source in sources]
        return all(body is not None and self.shape.is_noisy(*body) for body in bodies)

    def _lower_from_with_joins(self, select: exp.Select, scope: Scope) -> tuple[_LoweredRows, list[ScopeColumn]]:
        """Lower FROM and its joins, from left to right."""
        first = select.args["from_"].this
        rows = self._lower_source(first, scope)
        columns = scope_columns(first.alias_or_name, rows.outputs)
        for join in select.args.get("joins") or ():
            right = self._lower_source(join.this, scope)
            rows, columns = _lower_join(join, rows, columns, right)
        return rows, columns

    def _lower_source(self, source: exp.Expr, scope: Scope) -> _LoweredRows:
        body = body_and_scope(source, scope)
        assert body is not None
        return self.lower_node(*body)

    def _lower_scalar(self, subquery: exp.Subquery, scope: Scope) -> _LoweredRows:
        """Lower a scalar subquery: one column, and one row whatever the data."""
        rows = self.lower_node(subquery, scope)
        body = without_parentheses(subquery)
        limit = body.args.get("limit")
        is_one = rows.keys == frozenset() or (limit is not None and limit.expression.name == "1")
        if len(rows.outputs) != 1 or not is_one:
            rule = f"{node_text(subquery)} must return one column and one row to be used as a number"
            raise refusal_at(subquery, "scalar-subquery", rule, "select one aggregate in it, without GROUP BY")
        if rows.selected and rows.keys != frozenset():
            rule = (
                f"the row that {node_text(subquery)} returns depends on noisy numbers, so the range "
                "of its value is unknown"
            )
            raise refusal_at(
                subquery, "selected-rows", rule, "select one aggregate in it, such as MAX(…), without LIMIT"
            )
        return rows


def _check_clauses(select: exp.Select) -> None:
    allowed = {
        "expressions",
        "from_",
        "joins",
        "where",
        "with_",
        "group",
        "having",
        "windows",
        "qualify",
        "order",
        "limit",
        "offset",
    }
    for part, value in select.args.items():
        if value and part not in allowed:
            rule = f"{part.strip('_').upper()} over aggregated rows is not supported"
            raise refusal_at(
                select, "clause", rule, "use SELECT, FROM, WHERE, GROUP BY, HAVING, QUALIFY, ORDER BY, LIMIT"
            )


def _union_all_members(relation: NoisyRelation) -> tuple[NoisyRelation, ...]:
    """Return the members of a UNION ALL, or the relation itself."""
    return relation.members if isinstance(relation, NoisyUnion) and not relation.distinct else (relation,)


def _union_output(union: exp.Expr, first: Output, second: Output) -> Output:
    """Return a column of a union: it has the first name, and the type of both."""
    try:
        merged = call("COALESCE", first.expression, second.expression)
    except Unsupported:
        rule = f"{first.name} and {second.name} have different types, but UNION ALL puts them into one column"
        raise refusal_at(union, "type-mismatch", rule, "select columns of the same types, in the same order") from None
    noises = max(noise_count(first.expression), noise_count(second.expression))
    return Output(first.name, Column(NoisyColumn(0, noises), replace(merged.domain, nullable=True)))


def _lower_join(
    join: exp.Join, left: _LoweredRows, columns: list[ScopeColumn], right: _LoweredRows
) -> tuple[_LoweredRows, list[ScopeColumn]]:
    """Lower a join of noisy rows on their keys."""
    side = str(join.args.get("side") or "").upper()
    kind = str(join.args.get("kind") or "").upper()
    if join.args.get("method") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise refusal_at(join, "join", f"{node_text(join)} of aggregated rows is not supported", _JOIN_FIX)
    if left.selected or right.selected:
        rule = "aggregated rows cannot be joined after HAVING, WHERE, LIMIT or UNION has selected some of them"
        fix = "join all rows first, and filter them with WHERE or QUALIFY in an outer SELECT"
        raise refusal_at(join, "selected-rows", rule, fix)
    first = len(left.outputs)
    right_columns = scope_columns(join.this.alias_or_name, right.outputs, first=first)
    using = [node.name for node in join.args.get("using") or ()]
    pairs = [_using_pair(join, name, columns, right_columns) for name in using]
    pairs += _on_pairs(join, OuterBuilder(exp.select("*"), [*columns, *right_columns]), first)
    relation = NoisyJoin(
        left.relation, right.relation,
        tuple((pair[0], _shift_columns(pair[1], -first)) for pair in pairs),
        side in ("LEFT", "FULL"), side in ("RIGHT", "FULL"),
    )  # fmt: skip
    keys = _identifying_joined_columns(join, left, right, relation)
    scope = _merged_scope(columns, right_columns, using, side)
    nullable = [(side in ("RIGHT", "FULL"), left.outputs), (side in ("LEFT", "FULL"), right.outputs)]
    outputs = tuple(
        _joined_output(output, index, is_nullable)
        for is_nullable, outputs in nullable
        for index, output in enumerate(outputs)
    )
    return _LoweredRows(relation, outputs, keys, False), scope


def _joined_output(output: Output, index: int, is_nullable: bool) -> Output:
    domain = output.expression.domain
    return Output(
        output.name,
        Column(
            NoisyColumn(index, noise_count(output.expression)), replace(domain, nullable=domain.nullable or is_nullable)
        ),
    )


def _merged_scope(
    left: list[ScopeColumn], right: list[ScopeColumn], using: Sequence[str], side: str
) -> list[ScopeColumn]:
    """Return the columns of both sides; USING leaves one of two equal keys to be named without its table."""
    names = {name.lower() for name in using}
    keeps_right = side in ("RIGHT", "FULL")
    hidden = [
        replace(column, is_hidden=column.is_hidden or (keeps_right and column.name.lower() in names)) for column in left
    ]
    hidden += [replace(column, is_hidden=column.name.lower() in names) for column in right]
    if not keeps_right:
        return hidden
    by_name = {column.name.lower(): column for column in reversed(left)}
    other = {column.name.lower(): column for column in right}
    merged = [
        ScopeColumn("", name, call("COALESCE", by_name[name.lower()].expression, other[name.lower()].expression))
        for name in using
    ]
    return [*merged, *hidden]


def _using_pair(
    join: exp.Join, name: str, left: Sequence[ScopeColumn], right: Sequence[ScopeColumn]
) -> tuple[Expression, Expression]:
    sides = []
    for columns in (left, right):
        matches = [column for column in columns if column.name.lower() == name.lower() and not column.is_hidden]
        if len(matches) != 1:
            rule = f"USING ({name[:60]}) needs one column of that name on each side"
            raise refusal_at(join, "join", rule, "name a key that both SELECTs have, or write ON a.key = b.key")
        check_noiseless_key(matches[0].expression, join, "JOIN")
        sides.append(matches[0].expression)
    call("=", *sides)
    return sides[0], sides[1]


def _on_pairs(join: exp.Join, builder: OuterBuilder, first_right_column: int) -> list[tuple[Expression, Expression]]:
    """Lower ON to pairs of equal expressions, one over each side."""
    condition = join.args.get("on")
    pairs = []
    for part in conjuncts(None if condition is None else builder.lower_over_rows(condition)):
        operands = part.arguments if isinstance(part, Call) and part.function == "=" else ()
        sides = sorted(operands, key=lambda side: _column_indices(side)[:1])
        left = bool(sides) and bool(_column_indices(sides[0])) and max(_column_indices(sides[0])) < first_right_column
        right = bool(sides) and bool(_column_indices(sides[1])) and min(_column_indices(sides[1])) >= first_right_column
        if not (left and right):
            rule = "aggregated rows can only be joined ON equal group keys"
            raise refusal_at(join, "join", rule, "write ON a.month = b.month, and put other conditions into WHERE")
        for side in sides:
            check_noiseless_key(side, condition or join, "JOIN")
        pairs.append((sides[0], sides[1]))
    return pairs


def _column_indices(expression: Expression) -> list[int]:
    return sorted(reference.index for reference in columns_read(expression) if isinstance(reference, NoisyColumn))


def _shift_columns(expression: Expression, offset: int) -> Expression:
    if isinstance(expression, Call):
        return replace(
            expression, arguments=tuple(_shift_columns(argument, offset) for argument in expression.arguments)
        )
    if isinstance(expression, Column) and isinstance(expression.reference, NoisyColumn):
        reference = expression.reference
        return Column(replace(reference, index=reference.index + offset), expression.domain)
    return expression


def _identifying_joined_columns(
    join: exp.Join, left: _LoweredRows, right: _LoweredRows, relation: NoisyJoin
) -> frozenset[int] | None:
    """Return the columns that identify a joined row; refuse a join in which a row could have several matches on both
    sides.
    """
    bare = [
        {side.reference.index for side in sides if isinstance(side, Column) and isinstance(side.reference, NoisyColumn)}
        for sides in zip(*relation.pairs, strict=True)
    ] or [set(), set()]
    first = len(left.outputs)
    shifted = None if right.keys is None else frozenset(key + first for key in right.keys)
    if right.keys is not None and right.keys <= bare[1]:
        return left.keys if not relation.keep_right else None
    if left.keys is not None and left.keys <= bare[0]:
        return shifted if not relation.keep_left else None
    rule = "a join of aggregated rows must compare all group keys of one side, so that no row matches twice"
    raise refusal_at(join, "join", rule, _JOIN_FIX)


def _row_key_output_indices(query: Query) -> frozenset[int] | None:
    """Return the columns of a query that identify a row: its group keys, all of them."""
    if query.finish.sets:
        return None
    keys = _outputs_showing(query.finish, [Key(index) for index in range(len(query.plan.keys))])
    for outer in query.outer:
        keys = _identifying_outer_outputs(outer, keys)
    return keys


def _identifying_outer_outputs(outer: OuterSelect, below: frozenset[int] | None) -> frozenset[int] | None:
    if outer.grouped:
        return _outputs_showing(outer.finish, [Key(index) for index in range(len(outer.keys))])
    return None if below is None else _outputs_showing(outer.finish, [NoisyColumn(index) for index in sorted(below)])


def _outputs_showing(finish: Finish, references: Sequence[Key | NoisyColumn]) -> frozenset[int] | None:
    """Return the outputs that show these columns; None where one is not shown as it is."""
    output_indices = []
    for reference in references:
        matches = [
            index for index, output in enumerate(finish.outputs)
            if isinstance(output.expression, Column) and output.expression.reference == reference
        ]  # fmt: skip
        if not matches:
            return None
        output_indices.append(matches[0])
    return frozenset(output_indices)


def _split_around_scalars(select: exp.Select) -> tuple[exp.Select, exp.Select]:
    """Split an aggregating SELECT with scalar subqueries: return the outer SELECT, and the one that aggregates.

    Every largest part without a scalar subquery becomes a column of the inner SELECT.
    """
    inner = select.copy()
    lifted: list[exp.Expr] = []
    for part in ("order", "limit", "offset", "qualify"):
        inner.set(part, None)
    having = select.args.get("having")
    is_lifted = having is not None and having.find(exp.Subquery) is not None
    if is_lifted:
        inner.set("having", None)

    items: list[exp.Expr] = []
    for item in select.expressions:
        body, name = item.unalias(), item.alias_or_name or default_column_name(item)
        if body.find(exp.Subquery) is None:  # GROUP BY may use its name
            lifted.append(exp.alias_(body.copy(), name, quoted=True))
            items.append(exp.column(name, quoted=True))
        else:
            items.append(exp.alias_(_lift_parts(body, lifted), name, quoted=True))
    where = _lift_parts(having.this, lifted) if is_lifted and having is not None else None
    inner.set("expressions", lifted)
    outer = exp.select(*items).from_(inner.subquery("sf inner"))
    if where is not None:
        outer = outer.where(where)
    for part in ("order", "limit", "offset"):
        if select.args.get(part) is not None:
            outer.set(part, select.args[part].copy())
    return outer, inner


def _lift_parts(node: exp.Expr, lifted: list[exp.Expr]) -> exp.Expr:
    """Return an expression over lifted columns: append each largest part without a scalar subquery to ``lifted``."""
    if isinstance(node, (exp.Subquery, exp.Literal)):
        return node.copy()
    if node.find(exp.Subquery) is None:
        lifted.append(exp.alias_(node.copy(), f"sf part {len(lifted)}", quoted=True))
        return exp.column(f"sf part {len(lifted) - 1}", quoted=True)
    copied = node.copy()
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            copied.set(name, _lift_parts(value, lifted))
        elif isinstance(value, list):
            copied.set(name, [_lift_parts(item, lifted) if isinstance(item, exp.Expr) else item for item in value])
    return copied
