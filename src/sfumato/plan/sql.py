"""A SELECT over one private table as a query: what is measured, and what is done with the noisy numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.costs import check
from sfumato.plan.expressions import Call, Column, Expression, Key, Literal, Order, Result, columns, walk
from sfumato.plan.functions import call
from sfumato.plan.measures import Count, Distinct, Mean, Measure, Sum
from sfumato.plan.nodes import Aggregate, Finish, Output, Query
from sfumato.plan.rows import Rows, condition, rows
from sfumato.plan.sql_expressions import expression, reading, remembering
from sfumato.plan.text import select as parse_text
from sfumato.plan.text_positions import refuse, shown
from sfumato.plan.unit_joins import period_words, periods
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
    return query(parse_text(text), catalog)


def query(statement: exp.Select, catalog: Catalog) -> Query:
    """The query a parsed statement means."""
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
    named = zip(select.expressions, outputs, strict=True)
    aliased = {item.alias.lower(): (item.this, made) for item, made in named if isinstance(item, exp.Alias)}
    building.outputs = {name: (node, made.expression) for name, (node, made) in aliased.items()}
    finish = replace(_finish(select, building, outputs), outputs=outputs)
    if not building.measures:
        raise refuse(
            select,
            "no-aggregate",
            "an answer is made of counts, sums and averages, never of rows",
            "ask for COUNT(*), SUM(…) or AVG(…)",
        )
    plan = Aggregate(source.relation, building.keys, tuple(building.measures))
    check(plan)
    return Query(plan, finish)


class _Building:
    """The keys and the measures found so far, while the answer's columns are read."""

    def __init__(self, source: Rows, keys: tuple[Expression, ...]) -> None:
        self.source, self.keys = source, keys
        self.measures: dict[Measure, Column] = {}
        self.outputs: dict[str, tuple[exp.Expr, Expression]] = {}
        """The answer's own names, in small letters: what each was read from and what it became."""
        self._named = {key: Column(Key(index), key.domain) for index, key in enumerate(keys)}
        self._attempt = remembering(source.resolve)

    def measure(self, found: Measure) -> Column:
        """The column of a measure: equal measures are measured once."""
        return self.measures.setdefault(found, Column(Result(len(self.measures), found.noises), found.result))

    def key(self, node: exp.Expr, attempt: Callable[[exp.Expr], Expression | None] | None = None) -> Column | None:
        """The key this node is, if it is one."""
        if not self.keys or not isinstance(node, (exp.Condition, exp.Func)) or isinstance(node, exp.Literal):
            return None
        made = (attempt or self._attempt)(node)
        return None if made is None else self._named.get(made)

    def renamed(self) -> Callable[[exp.Expr], Expression | None]:
        """Reads parts over rows where the answer's own names stand for what they were read from."""

        def resolve(qualifier: str | None, name: str) -> Expression:
            given = None if qualifier is not None else self.outputs.get(name.lower())
            if given is None:
                return self.source.resolve(qualifier, name)
            made = self._attempt(given[0])
            if made is None:
                raise Unsupported("part", "it is no value of one row", fix="read it as a noisy number")
            return made

        return remembering(resolve)


def _keys(select: exp.Select, source: Rows) -> tuple[Expression, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    for part, value in group.args.items():
        if value and part != "expressions":
            raise refuse(
                group, "grouping-sets", f"GROUP BY {part.upper()} is not answered", "name the columns to group by"
            )
    if len(group.expressions) > MOST_COLUMNS:
        raise refuse(group, "too-many-columns", f"GROUP BY takes at most {MOST_COLUMNS} columns", "group by fewer")
    found: list[Expression] = []
    for node in group.expressions:
        meant = _grouped(node, select, source)
        made = expression(meant, source.resolve)
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


def _finishing(node: exp.Expr, building: _Building, *, renamed: bool = False) -> Expression:
    """An expression over keys and measures: each key or aggregate is a column, the rest is made from them.

    ``renamed`` says that the answer's own names may stand for what they mean.
    """
    attempt = building.renamed() if renamed else None

    def own(part: exp.Expr, _: object) -> Expression | None:
        if isinstance(part, (exp.Filter, *_AGGREGATES)):
            return building.measure(_measure(part, building.source))
        if isinstance(part, exp.Window):
            rule = "a window is computed in a subquery, for every row, and the answer aggregates it"
            raise refuse(part, "window", rule, f"write FROM (SELECT …, {shown(part)} AS x FROM …)")
        if isinstance(part, exp.AggFunc):
            fix = "use COUNT, SUM or AVG, with FILTER (WHERE …)"
            raise refuse(part, "aggregate", f"{shown(part)} is not answered", fix)
        if renamed and isinstance(part, exp.Column) and not part.table and part.name.lower() in building.outputs:
            return building.outputs[part.name.lower()][1]
        found = building.key(part, attempt)
        return found or (_ungrouped(part, building) if isinstance(part, exp.Column) else None)

    made = reading(node, own)
    _check_finishing(made, node)
    return made


def _ungrouped(node: exp.Column, building: _Building) -> Expression:
    expression(node, building.source.resolve)  # an unknown column says so first
    raise refuse(
        node,
        "not-grouped",
        f"{shown(node)} is neither grouped by nor inside an aggregate",
        f"add GROUP BY {shown(node)}, or use AVG({shown(node)})",
    )


def _check_finishing(made: Expression, node: exp.Expr) -> None:
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
    value = expression(argument, source.resolve)
    _check_summable(value, argument)
    return Sum(value, where) if isinstance(node, exp.Sum) else Mean(value, where)


def _count(argument: exp.Expr | None, where: Expression | None, source: Rows) -> Measure:
    if argument is None or isinstance(argument, exp.Star):
        return Count(where)
    value = expression(argument, source.resolve)
    if isinstance(value, Literal) and value.value is not None:
        return Count(where)
    return Count(both(where, call("NOT", call("IS NULL", value))))


def _distinct(node: exp.Expr, argument: exp.Distinct, where: Expression | None, source: Rows) -> Measure:
    table, named = source.table, argument.expressions
    parts = named[0].expressions if len(named) == 1 and isinstance(named[0], exp.Tuple) else named
    if isinstance(node, exp.Count) and parts and source.is_unit(parts[0]):
        if table.period is None and len(parts) == 1:
            return Distinct(where)
        known = periods(source.relation, source.catalog)
        if table.period is not None and len(parts) == 2 and expression(parts[1], source.resolve) in known:
            return Distinct(where)
    raise refuse(node, "distinct", "only units are counted distinct", _countable(table))


def _countable(table: Described) -> str:
    """How units are counted in a table."""
    if table.every_row:
        return "use COUNT(*): every row is a unit here"
    if table.id is None:
        return f"join the table that names the unit and count it there: {table.via}"
    named = table.id if table.period is None else f"({table.id}, {period_words(table)})"
    return f"use COUNT(DISTINCT {named})"


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
        predicate = _finishing(having.this, building, renamed=True)
        if predicate.domain.type is not Type.BOOLEAN:
            raise refuse(having, "type-mismatch", "HAVING is true or false", "compare an aggregate with a number")
    ordered = select.args["order"].expressions if select.args.get("order") else ()
    if len(ordered) > MOST_COLUMNS:
        raise refuse(select.args["order"], "order", f"ORDER BY takes at most {MOST_COLUMNS} columns", "name fewer")
    order = tuple(_order(each, building, outputs) for each in ordered)
    return Finish((), predicate, order, _whole(select, "limit"), _whole(select, "offset") or 0)


def _order(node: exp.Ordered, building: _Building, outputs: tuple[Output, ...]) -> Order:
    if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
        raise refuse(node, "order", "ORDER BY takes columns with ASC or DESC", "name a column of the answer")
    target = node.this
    if isinstance(target, exp.Literal) and not target.is_string:
        index = int(target.this) if target.this.isdigit() else 0
        if not 1 <= index <= len(outputs):
            raise refuse(node, "ordinal", "ORDER BY <number> counts the columns of SELECT from 1", "name the column")
        made = outputs[index - 1].expression
    else:
        made = _finishing(target, building, renamed=True)
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
