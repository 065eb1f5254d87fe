"""A SELECT over one private table as a query: what is measured, and what is done with the noisy numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.expressions import Call, Column, Expression, Literal, columns, walk
from sfumato.plan.functions import call
from sfumato.plan.measures import Count, Distinct, Mean, Measure, Sum
from sfumato.plan.nodes import Aggregate, Finish, Order, Output, Query
from sfumato.plan.places import refuse, shown
from sfumato.plan.rows import Rows, condition, rows, sized
from sfumato.plan.sql_expressions import expression
from sfumato.plan.text import select as parse_text
from sfumato.policy import Type

_CLAUSES = {"expressions", "from_", "joins", "where", "with_", "group", "having", "order", "limit", "offset"}
_AGGREGATES = (exp.Count, exp.CountIf, exp.Sum, exp.Avg)
MOST_COLUMNS = 100

# fmt: off
FINISHING = frozenset((
    "+", "-", "*", "/", "%", "NEGATE", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "BETWEEN", "IN", "IS NULL",
    "CASE", "IF", "COALESCE", "NULLIF", "ABS", "ROUND", "FLOOR", "CEIL", "SQRT", "SIGN", "LEAST", "GREATEST", "CAST",
))
# fmt: on
"""The functions that may be applied to noisy numbers."""


def parse(text: object, catalog: Catalog) -> Query:
    """The query a text means, or ``Unsupported``: decided from text and policy alone."""
    statement = parse_text(text)
    try:
        return _query(statement, catalog)
    except RecursionError:
        raise Unsupported(
            "too-deep", "the question nests too deeply", fix="flatten it, for instance with WITH"
        ) from None


def _query(select: exp.Select, catalog: Catalog) -> Query:
    for part, value in select.args.items():
        if value and part not in _CLAUSES:
            raise refuse(
                select,
                "clause",
                f"{part.strip('_').upper()} is not answered",
                "use SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT",
            )
    if len(select.expressions) > MOST_COLUMNS:
        raise refuse(
            select, "too-many-columns", f"an answer has at most {MOST_COLUMNS} columns", "ask in two questions"
        )
    source = rows(select, catalog, {})
    building = _Building(source, _keys(select, source))
    outputs = tuple(_output(item, building) for item in select.expressions)
    for index, each in enumerate(outputs):
        if each.name.lower() in {other.name.lower() for other in outputs[:index]}:
            raise refuse(
                select.expressions[index],
                "duplicate-column",
                f"two columns are called {each.name}",
                "rename one with AS",
            )
    finish = replace(_finish(select, building, outputs), outputs=outputs)
    if not building.measures:
        raise refuse(
            select,
            "no-aggregate",
            "an answer is made of counts, sums and averages, never of rows",
            "ask for COUNT(*), SUM(…) or AVG(…)",
        )
    return Query(Aggregate(source.relation, building.keys, tuple(building.measures)), finish)


@dataclass
class _Building:
    """The measures found so far, while the answer's columns are read."""

    source: Rows
    keys: tuple[Expression, ...]
    measures: list[Measure] = field(default_factory=list)

    def measure(self, found: Measure) -> str:
        """The name of a measure's column: equal measures are measured once."""
        if found not in self.measures:
            self.measures.append(found)
        return f"m{self.measures.index(found)}"

    def resolve(self, _: str | None, name: str) -> Expression:
        """Of the placeholders put in for keys and measures."""
        index = int(name[1:])
        if name[0] == "k":
            return Column(name, self.keys[index].domain)
        return Column(name, self.measures[index].result)


def _keys(select: exp.Select, source: Rows) -> tuple[Expression, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    for part, value in group.args.items():
        if value and part != "expressions":
            raise refuse(
                group, "grouping-sets", f"GROUP BY {part.upper()} is not answered", "name the columns to group by"
            )
    found: list[Expression] = []
    for node in group.expressions:
        meant = _grouped(node, select, source)
        made = sized(expression(meant, source.resolve), meant)
        if not columns(made):
            raise refuse(node, "constant-key", "a group is a column or made from one", "group by a column")
        if made not in found:
            found.append(made)
    return tuple(found)


def _grouped(node: exp.Expr, select: exp.Select, source: Rows) -> exp.Expr:
    """What a GROUP BY item stands for: an ordinal, an output's alias, or itself."""
    item: exp.Expr | None = None
    if isinstance(node, exp.Literal) and not node.is_string:
        index = int(node.this) if node.this.isdigit() else 0
        if not 1 <= index <= len(select.expressions):
            raise refuse(node, "ordinal", "GROUP BY <number> counts the columns of SELECT from 1", "name the column")
        item = select.expressions[index - 1]
    elif isinstance(node, exp.Column) and not node.table and not _names_column(node, source):
        item = next(
            (
                each
                for each in select.expressions
                if isinstance(each, exp.Alias) and each.alias.lower() == node.name.lower()
            ),
            None,
        )
    if item is None:
        return node
    return item.this if isinstance(item, exp.Alias) else item


def _names_column(node: exp.Column, source: Rows) -> bool:
    return any(node.name.lower() == name.lower() for names in source.scope.values() for name in names)


def _output(item: exp.Expr, building: _Building) -> Output:
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
        raise refuse(
            item, "star", "rows are never shown: * belongs inside COUNT(*)", "ask for COUNT(*), SUM(…) or AVG(…)"
        )
    name = item.alias_or_name if isinstance(item, (exp.Alias, exp.Column)) else shown(inner).lower()
    return Output(name, _finishing(inner, building))


def _finishing(node: exp.Expr, building: _Building) -> Expression:
    """An expression over keys and measures: keys and aggregates become placeholders, the rest is an expression."""
    placed = _placed(node.copy(), building)
    made = sized(expression(placed, building.resolve), node)
    for part in walk(made):
        if isinstance(part, Call) and part.function == "CAST" and not part.domain.type.numeric:
            raise refuse(
                node, "finish-cast", "a noisy number stays a number", "cast it to INTEGER or DOUBLE, or not at all"
            )
        if isinstance(part, Call) and part.function not in FINISHING:
            raise refuse(
                node,
                "finish-function",
                f"{part.function.upper()} is not applied to noisy numbers",
                "use arithmetic, comparisons, CASE, COALESCE, ROUND, ABS, LEAST, GREATEST",
            )
    return made


def _placed(node: exp.Expr, building: _Building) -> exp.Expr:
    if isinstance(node, (exp.Filter, *_AGGREGATES)):
        return exp.column(building.measure(_measure(node, building.source)))
    if isinstance(node, (exp.AggFunc, exp.Window)):
        raise refuse(
            node, "aggregate", f"{shown(node)} is not answered", "use COUNT, SUM or AVG, with FILTER (WHERE …)"
        )
    if (key := _matching(node, building)) is not None:
        return exp.column(f"k{key}")
    if isinstance(node, exp.Column):
        expression(node, building.source.resolve)  # an unknown column says so first
        raise refuse(
            node,
            "not-grouped",
            f"{shown(node)} is neither grouped by nor inside an aggregate",
            f"add GROUP BY {shown(node)}, or use AVG({shown(node)})",
        )
    for name, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(name, _placed(value, building))
        elif isinstance(value, list):
            node.set(name, [_placed(each, building) if isinstance(each, exp.Expr) else each for each in value])
    return node


def _matching(node: exp.Expr, building: _Building) -> int | None:
    """The key this node is, if it is one."""
    if not building.keys or not isinstance(node, (exp.Condition, exp.Func)) or isinstance(node, exp.Literal):
        return None
    try:
        made = expression(node, building.source.resolve)
    except Unsupported:
        return None
    return next((index for index, key in enumerate(building.keys) if key == made), None)


def _measure(node: exp.Expr, source: Rows) -> Measure:
    where: Expression | None = None
    if isinstance(node, exp.Filter):
        where = condition(node.expression.this, source)
        node = node.this
    if not isinstance(node, _AGGREGATES):
        raise refuse(node, "aggregate", f"{shown(node)} is not answered", "use COUNT, SUM or AVG")
    argument = node.this
    if node.args.get("expressions"):
        raise refuse(node, "aggregate", "an aggregate takes one argument", "write one aggregate for each")
    if isinstance(argument, exp.Distinct):
        return _distinct(node, argument, where, source)
    if isinstance(node, exp.CountIf):
        return Count(both(where, condition(argument, source)))
    if isinstance(node, exp.Count):
        return _count(argument, where, source)
    value = sized(expression(argument, source.resolve), argument)
    _check_summable(value, argument)
    return Sum(value, where) if isinstance(node, exp.Sum) else Mean(value, where)


def _count(argument: exp.Expr | None, where: Expression | None, source: Rows) -> Measure:
    if argument is None or isinstance(argument, exp.Star):
        return Count(where)
    value = sized(expression(argument, source.resolve), argument)
    if isinstance(value, Literal) and value.value is not None:
        return Count(where)
    return Count(both(where, call("NOT", call("IS NULL", value))))


def _distinct(node: exp.Expr, argument: exp.Distinct, where: Expression | None, source: Rows) -> Measure:
    unit, named = source.table.id, argument.expressions
    single = named[0] if isinstance(node, exp.Count) and len(named) == 1 else None
    if unit is not None and isinstance(single, exp.Column) and _is_unit(single, source, unit):
        return Distinct(where)
    can = f"COUNT(DISTINCT {unit})" if unit else "COUNT(*): every row is a unit here"
    raise refuse(node, "distinct", "only units are counted distinct", f"use {can}")


def _is_unit(node: exp.Column, source: Rows, unit: str) -> bool:
    """Whether a column is the one that says whose row it is: undeclared, or declared and not redefined."""
    if node.name.lower() != unit.lower():
        return False
    made = expression(node, source.resolve) if _names_column(node, source) else None
    return made is None or (isinstance(made, Column) and made.name.lower() == unit.lower())


def _check_summable(value: Expression, node: exp.Expr) -> None:
    if not value.domain.type.numeric:
        raise refuse(
            node,
            "type-mismatch",
            f"only numbers are added up; {shown(node)} is {value.domain.type.value}",
            "count it, or turn it into a number with CASE",
        )
    if value.domain.range is None:
        raise refuse(
            node,
            "unbounded",
            f"{shown(node)} has no declared bounds, so one row could move its sum without limit",
            f"declare bounds in the policy, or write LEAST(GREATEST({shown(node)}, low), high)",
        )


def both(first: Expression | None, second: Expression) -> Expression:
    return second if first is None else call("AND", *sorted((first, second), key=repr))


def _finish(select: exp.Select, building: _Building, outputs: tuple[Output, ...]) -> Finish:
    having = select.args.get("having")
    predicate = None
    if having is not None:
        predicate = _finishing(_unaliased(having.this, select), building)
        if predicate.domain.type is not Type.BOOLEAN:
            raise refuse(having, "type-mismatch", "HAVING is true or false", "compare an aggregate with a number")
    order = tuple(
        _order(each, select, building, outputs)
        for each in (select.args["order"].expressions if select.args.get("order") else ())
    )
    return Finish((), predicate, order, _whole(select, "limit"), _whole(select, "offset") or 0)


def _unaliased(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """With the answer's own column names replaced by what they stand for."""
    aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    return node.copy().transform(
        lambda part: (
            aliases[part.name.lower()].copy()
            if isinstance(part, exp.Column)
            and not part.table
            and part.name.lower() in aliases
            and part.find_ancestor(exp.AggFunc, exp.Filter) is None
            else part
        )
    )


def _order(node: exp.Ordered, select: exp.Select, building: _Building, outputs: tuple[Output, ...]) -> Order:
    if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
        raise refuse(node, "order", "ORDER BY takes columns with ASC or DESC", "name a column of the answer")
    target = node.this
    if isinstance(target, exp.Literal) and not target.is_string:
        index = int(target.this) if target.this.isdigit() else 0
        if not 1 <= index <= len(outputs):
            raise refuse(node, "ordinal", "ORDER BY <number> counts the columns of SELECT from 1", "name the column")
        made = outputs[index - 1].expression
    else:
        made = _finishing(_unaliased(target, select), building)
    return Order(made, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _whole(select: exp.Select, clause: str) -> int | None:
    node = select.args.get(clause)
    if node is None:
        return None
    value = node.expression
    if any(part for name, part in node.args.items() if name != "expression"):
        raise refuse(
            node, clause, f"{clause.upper()} is a number of rows and nothing more", f"write {clause.upper()} 10"
        )
    if not (isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit() and len(value.this) < 10):
        raise refuse(node, clause, f"{clause.upper()} is a whole number", f"write {clause.upper()} 10")
    return int(value.this)
