"""An outer SELECT stands over one that aggregates: all it reads are noisy rows, so it costs nothing.

Where it only picks, computes and orders, it leaves no node: its columns are written over those of the inner SELECT, and
its WHERE is a HAVING. So two texts that mean the same are the same question. Where it adds rows up, puts them side by
side (OVER), or reads rows that a LIMIT has cut, it is an ``Outer``.

What stands below must be no question of its own to have another reading: a subquery that groups by the unit's id gives
rows of units, and belongs to what is measured (``rows``).

Expressions over noisy rows are read from SQL: which functions may be applied to them, aggregates of them and
windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import FINISHING, Finish, NoisyWindow, Outer, Output, RowTotal
from sfumato.plan.sql.rows import rows
from sfumato.plan.sql.sql_expressions import Own, Read as ReadExpression, reading
from sfumato.plan.sql.text_positions import called, nearest, refuse, shown
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Key,
    Order,
    Result,
    ShownColumn,
    Windowed,
    noises,
    of_keys,
)
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Type

Read = Callable[[exp.Expr], Expression]

ROW_TOTALS: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
}
_RANKS: dict[type[exp.Expr], str] = {exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK", exp.RowNumber: "ROW_NUMBER"}


def check_finishing(made: Expression, node: exp.Expr) -> None:
    """Refuse what is not computed on noisy rows. What reads keys alone is public: any function may be applied to it."""
    if not isinstance(made, Call) or of_keys(made):
        return
    if made.function == "CAST" and not made.domain.type.numeric:
        raise refuse(
            node, "finish-cast", "a noisy number stays a number", "cast it to INTEGER or DOUBLE, or not at all"
        )
    if made.function not in FINISHING:
        raise refuse(
            node,
            "finish-function",
            f"{made.function.upper()} is not applied to noisy numbers",
            "use arithmetic, comparisons, CASE, COALESCE, ROUND, ABS, LEAST, GREATEST",
        )
    for each in made.arguments:
        check_finishing(each, node)


def row_total(node: exp.Expr, read: Read) -> tuple[RowTotal, Domain]:
    """Read an aggregate over noisy rows, and what is known of it."""
    where, inner = None, node
    if isinstance(node, exp.Filter):
        where, inner = read(node.expression.this), node.this
    function, argument = _aggregate(inner, read)
    return RowTotal(function, argument, where), _result(function, argument)


def over(node: exp.Window, read: Read) -> tuple[NoisyWindow, Domain]:
    """Read a window over noisy rows, and what is known of it."""
    for part, value in node.args.items():
        if value and part not in ("this", "partition_by", "order", "over"):
            rule = "a window over noisy rows is OVER ([PARTITION BY …] [ORDER BY …])"
            raise refuse(node, "window", rule, "leave out frames and window names")
    partition = tuple(read(each) for each in node.args.get("partition_by") or ())
    for each, made in zip(node.args.get("partition_by") or (), partition, strict=True):
        check_key(made, each, "PARTITION BY")
    ordered = node.args["order"].expressions if node.args.get("order") else ()
    if type(node.this) in _RANKS:
        if not ordered:
            rule = f"{_RANKS[type(node.this)]} needs an order"
            raise refuse(node, "window", rule, f"write {_RANKS[type(node.this)]}() OVER (ORDER BY n DESC)")
        return NoisyWindow(_RANKS[type(node.this)], None, partition, orders(ordered, read)), Domain(Type.INTEGER)
    if ordered:
        rule = "running totals of noisy rows are not answered"
        raise refuse(node, "window", rule, "leave out ORDER BY: SUM(n) OVER (PARTITION BY …)")
    function, argument = _aggregate(node.this, read)
    return NoisyWindow(function, argument, partition), _result(function, argument)


def orders(ordered: list[exp.Expr], read: Read) -> tuple[Order, ...]:
    """ORDER BY inside a window."""
    for each in ordered:
        if not isinstance(each, exp.Ordered) or each.args.get("with_fill"):
            raise refuse(each, "order", "ORDER BY takes columns with ASC or DESC", "name a column of the answer")
    return tuple(
        Order(read(each.this), bool(each.args.get("desc")), bool(each.args.get("nulls_first"))) for each in ordered
    )


def check_key(made: Expression, node: exp.Expr, clause: str) -> None:
    """Noisy rows are put together by keys alone: which rows belong together is then certain."""
    if noises(made):
        noisy = "a noisy number" if made.domain.type.numeric else "decided by noise"
        rule = f"{clause} over noisy rows takes keys; {shown(node)} is {noisy}"
        raise refuse(
            node, "noisy-key", rule, "group by a key of the inner SELECT, or ask with WHERE for one case at a time"
        )


def _aggregate(node: exp.Expr, read: Read) -> tuple[str, Expression | None]:
    if type(node) not in ROW_TOTALS or node.args.get("expressions") or isinstance(node.this, exp.Distinct):
        fix = "use COUNT, SUM, AVG, MIN, MAX, or RANK() OVER (ORDER BY …)"
        raise refuse(node, "row-aggregate", f"{shown(node)} of noisy rows is not answered", fix)
    function, inner = ROW_TOTALS[type(node)], node.this
    if function == "COUNT" and (inner is None or isinstance(inner, (exp.Star, exp.Literal))):
        return function, None
    argument = read(inner)
    if not argument.domain.type.numeric and function != "COUNT":
        rule = f"only numbers are added up or compared; {shown(inner)} is {argument.domain.type.value}"
        raise refuse(node, "type-mismatch", rule, "count it, or turn it into a number with CASE")
    return function, argument


def _result(function: str, argument: Expression | None) -> Domain:
    """Noise knows no bounds; of no rows there is no sum."""
    if function == "COUNT":
        return Domain(Type.INTEGER)
    whole = argument is not None and argument.domain.type is Type.INTEGER and function != "AVG"
    return Domain(Type.INTEGER if whole else Type.REAL, nullable=True)


MOST_COLUMNS = 100
MOST_OUTER = 8
MOST_DEEP = 40
"""Each of them is read for itself: what a question costs to read is bounded by their number."""
_TOTALS: tuple[type[exp.Expr], ...] = (exp.Filter, *ROW_TOTALS)


def aggregating(select: exp.Select, catalog: Catalog) -> exp.Select | None:
    """Find the SELECT below this one whose noisy rows it reads; None where it reads rows of tables.

    What stands below is walked through in place, however long the chain is; only what is read further is copied.
    """
    chain = _below(select)
    first = next(chain, None)
    for depth, (level, known) in enumerate(() if first is None else (first, *chain)):
        if level.args.get("group") and _of_units(_naming(level, known), catalog):
            return None
        if aggregates(level) and depth >= MOST_DEEP:
            rule = f"at most {MOST_DEEP} SELECTs stand upon one that aggregates"
            raise refuse(select, "too-deep", rule, "put some of them together")
        if aggregates(level):
            return _naming(*first) if first is not None else None
    return None


Visible = dict[str, exp.Expr]
"""Common table expressions by their names in small letters, in the order in which they are defined."""


def _below(select: exp.Select) -> Iterator[tuple[exp.Select, Visible]]:
    """Go down through the SELECTs that subqueries and names of common table expressions stand for, each with the
    expressions that it may name.
    """
    known: Visible = {}
    scopes: dict[int, Visible] = {}
    while select.args.get("from_") is not None and not select.args.get("joins"):
        for each in select.args["with_"].expressions if select.args.get("with_") else ():
            scopes[id(each)] = known
            known = {**known, each.alias.lower(): each}
        node = select.args["from_"].this
        found: exp.Expr | None = node.this if isinstance(node, exp.Subquery) else None
        if isinstance(node, exp.Table) and not node.args.get("db") and node.name.lower() in known:
            named = known[node.name.lower()]
            found, known = named.this, scopes[id(named)]
        if not isinstance(found, exp.Select):
            return
        select = found
        yield select, known


def _naming(select: exp.Select, known: Visible) -> exp.Select:
    """Give the same SELECT with those of the common table expressions around it that it names, and those that they
    name.
    """
    made = select.copy()
    wanted = {each.name.lower() for each in made.find_all(exp.Table)}
    kept: list[exp.Expr] = []
    for name, each in reversed(known.items()):
        if name in wanted:
            wanted |= {table.name.lower() for table in each.find_all(exp.Table)}
            kept.insert(0, each.copy())
    if kept:
        own = made.args["with_"].expressions if made.args.get("with_") else []
        made.set("with_", exp.With(expressions=[*kept, *own]))
    return made


def aggregates(select: exp.Select) -> bool:
    """Tell whether it groups rows or adds them up itself."""
    if select.args.get("group") or select.args.get("having") or select.args.get("distinct"):
        return True
    inside = [node for item in select.expressions for node in item.find_all(exp.AggFunc)]
    return any(node.find_ancestor(exp.Select) is select and not _windowed(node) for node in inside)


def _windowed(node: exp.Expr) -> bool:
    above = node.parent
    while isinstance(above, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        above = above.parent
    return isinstance(above, exp.Window) and above.this.find(type(node)) is node


def _of_units(select: exp.Select, catalog: Catalog) -> bool:
    """Tell whether it groups by the unit: such rows are private."""
    group = select.args.get("group")
    if group is None:
        return False
    try:
        source = rows(select, catalog, {})
    except Unsupported:  # what it reads aggregates itself, or is refused where it is read
        return False
    named = {each.alias.lower(): each.this for each in select.expressions if isinstance(each, exp.Alias)}
    items = [each.unalias() for each in select.expressions] if group.args.get("all") else group.expressions
    for item in items:
        meant = named.get(item.name.lower(), item) if isinstance(item, exp.Column) else item
        if isinstance(item, exp.Literal) and item.this.isdigit() and 1 <= int(item.this) <= len(select.expressions):
            meant = select.expressions[int(item.this) - 1].unalias()
        if any(source.is_unit(each) for each in (item, meant)):
            return True
    return False


def over_noisy_rows(select: exp.Select, inner: Query) -> Query:
    """Make the question that an outer SELECT makes of the one below it."""
    if len(inner.outer) >= MOST_OUTER:
        raise refuse(select, "too-deep", f"at most {MOST_OUTER} SELECTs stand upon one another", "put some together")
    if any(value and part not in _CLAUSES for part, value in select.args.items()):
        extra = next(part for part, value in select.args.items() if value and part not in _CLAUSES)
        raise refuse(
            select,
            "clause",
            f"{extra.strip('_').upper()} of noisy rows is not answered",
            "use SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT",
        )
    if not inner.plan.measures:
        rule = "the inner SELECT measures nothing: its rows are what the policy declares"
        raise refuse(
            select, "no-aggregate", rule, "write the inner SELECT with GROUP BY and COUNT(*), without DISTINCT"
        )
    building = _OuterBuilder(select, inner)
    return building.merged() if building.plain else building.staged()


_CLAUSES = {"expressions", "from_", "where", "with_", "group", "having", "order", "limit", "offset"}
"""DISTINCT is none of them: noisy rows are not compared."""


class _OuterBuilder:
    """This collects totals and windows while the columns of an outer SELECT are read."""

    def __init__(self, select: exp.Select, inner: Query) -> None:
        self.select, self.inner = select, inner
        self.totals: dict[RowTotal, Column] = {}
        self.windows: dict[NoisyWindow, Column] = {}
        self.named: dict[str, Expression] = {}
        """The outer SELECT's own names, which HAVING and ORDER BY may use."""
        self.alias = select.args["from_"].this.alias_or_name
        self.grouped = aggregates(select)
        self.keys: dict[Expression, Column] = {}

    @property
    def plain(self) -> bool:
        """Tell whether the inner SELECT can do what is asked: no rows are put together, and none were cut before."""
        finish = self.inner.finish
        cut = finish.limit is not None or finish.offset or finish.windows or self.inner.outer
        return not (self.grouped or cut or self.select.find(exp.Window) is not None)

    def merged(self) -> Query:
        where = self._condition("where")
        outputs = self._outputs()
        having = self.inner.finish.having
        both = [each for each in (having, where) if each is not None]
        finish = Finish(
            outputs,
            None if not both else both[0] if len(both) == 1 else call("AND", *sorted(both, key=repr)),
            self._order(outputs) or self.inner.finish.order,
            whole(self.select, "limit"),
            whole(self.select, "offset") or 0,
            self.inner.finish.sets,
        )
        return replace(self.inner, finish=finish)

    def staged(self) -> Query:
        where = self._condition("where")
        self._read_keys()
        outputs = self._outputs()
        having = self._condition("having", renamed=True)
        order = self._order(outputs)
        finish = Finish(
            outputs,
            having,
            order,
            whole(self.select, "limit"),
            whole(self.select, "offset") or 0,
            windows=tuple(self.windows),
        )
        outer = Outer(finish, where, tuple(self.keys), tuple(self.totals))
        return replace(self.inner, outer=(*self.inner.outer, outer))

    def _read_keys(self) -> None:
        group = self.select.args.get("group")
        if group is None:
            return
        if any(value and part not in ("expressions", "all") for part, value in group.args.items()):
            raise refuse(group, "grouping-sets", "noisy rows are grouped by columns", "name the columns to group by")
        items = self.select.expressions
        nodes = group.expressions
        if group.args.get("all"):
            nodes = [each.unalias() for each in items if each.find(exp.AggFunc, exp.Window) is None]
        for node in nodes:
            meant = node
            if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
                raise refuse(node, "grouping-sets", "noisy rows are grouped by columns", "use it in the inner SELECT")
            if isinstance(node, exp.Literal):
                if not node.this.isdigit() or not 1 <= int(node.this) <= len(items):
                    rule = "GROUP BY <number> counts the columns of SELECT from 1"
                    raise refuse(node, "ordinal", rule, "name the column")
                meant = items[int(node.this) - 1].unalias()
            elif isinstance(node, exp.Column) and self._place(node.name) is None:
                meant = next((each.this for each in items if each.alias.lower() == node.name.lower()), node)
            made = self._read(meant, self._column)
            check_key(made, node, "GROUP BY")
            self.keys.setdefault(made, Column(Key(len(self.keys)), made.domain))

    def _place(self, name: str) -> int | None:
        names = [each.name.lower() for each in self.inner.outputs]
        return names.index(name.lower()) if name.lower() in names else None

    def _column(self, part: exp.Expr, _: ReadExpression) -> Expression | None:
        """Read a column of the inner SELECT, as its expression or as what it shows."""
        if not isinstance(part, exp.Column):
            return None
        place = self._place(part.name)
        if part.table and part.table.lower() != self.alias.lower():
            rule = f"no table here is called {part.table[:60]}"
            raise Unsupported("unknown-alias", rule, fix=nearest(part.table, filter(None, [self.alias])))
        if place is None:
            rule = f"the inner SELECT has no column {part.name[:60]}"
            raise Unsupported(
                "unknown-column", rule, fix=nearest(part.name, [each.name for each in self.inner.outputs])
            )
        made = self.inner.outputs[place].expression
        return made if self.plain else Column(ShownColumn(place, noises(made)), made.domain)

    def _finishing(self, part: exp.Expr, read: ReadExpression) -> Expression | None:
        """Read a column, or where rows are put together a key, a total or a window."""
        if isinstance(part, exp.Window):
            made, domain = over(part, lambda each: self._read(each, self._finishing_no_window))
            return self.windows.setdefault(made, Column(Windowed(len(self.windows)), domain))
        return self._finishing_no_window(part, read)

    def _finishing_no_window(self, part: exp.Expr, read: ReadExpression) -> Expression | None:
        if isinstance(part, _TOTALS):
            made, domain = row_total(part, lambda each: self._read(each, self._column))
            return self.totals.setdefault(made, Column(Result(len(self.totals)), domain))
        if isinstance(part, (exp.AggFunc, exp.Window)):
            fix = "use COUNT, SUM, AVG, MIN, MAX, or RANK() OVER (ORDER BY …)"
            raise refuse(part, "row-aggregate", f"{shown(part)} of noisy rows is not answered", fix)
        if not self.grouped:
            return self._column(part, read)
        if self.keys and isinstance(part, (exp.Condition, exp.Func)) and not isinstance(part, exp.Literal):
            try:
                found = self.keys.get(self._read(part, self._column))
            except Unsupported:
                found = None
            if found is not None:
                return found
        if isinstance(part, exp.Column):
            column = self._column(part, read)  # an unknown column says so first
            total = "SUM" if column is not None and column.domain.type.numeric else "COUNT"
            fix = f"add GROUP BY {shown(part)}, or use {total}({shown(part)})"
            raise refuse(part, "not-grouped", f"{shown(part)} is neither grouped by nor inside an aggregate", fix)
        return None

    def _renamed(self, part: exp.Expr, read: ReadExpression) -> Expression | None:
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in self.named:
            return self.named[part.name.lower()]
        return self._finishing(part, read)

    def _read(self, node: exp.Expr, own: Own) -> Expression:
        made = reading(node, own)
        check_finishing(made, node)
        return made

    def _outputs(self) -> tuple[Output, ...]:
        found: list[Output] = []
        for item in self.select.expressions:
            found += self._star(item) if isinstance(item, exp.Star) else [self._output(item)]
        for index, each in enumerate(found):
            if each.name.lower() in {other.name.lower() for other in found[:index]}:
                rule = f"two columns are called {each.name}"
                raise refuse(self.select, "duplicate-column", rule, "rename one with AS")
        if len(found) > MOST_COLUMNS:
            rule = f"an answer has at most {MOST_COLUMNS} columns"
            raise refuse(self.select, "too-many-columns", rule, "ask in two questions")
        self.named = {each.name.lower(): each.expression for each in found}
        return tuple(found)

    def _star(self, item: exp.Star) -> list[Output]:
        if self.grouped or any(item.args.values()):
            raise refuse(item, "star", "* stands for all columns of the inner SELECT", "name the columns")
        names = [each.name for each in self.inner.outputs]
        return [Output(name, self._read(exp.column(name, quoted=True), self._column)) for name in names]

    def _output(self, item: exp.Expr) -> Output:
        inner = item.unalias()
        name = item.alias_or_name if isinstance(item, (exp.Alias, exp.Column)) else called(inner)
        return Output(name, self._read(inner, self._finishing))

    def _condition(self, clause: str, *, renamed: bool = False) -> Expression | None:
        node = self.select.args.get(clause)
        if node is None:
            return None
        made = self._read(node.this, self._renamed if renamed else self._column)
        if made.domain.type is not Type.BOOLEAN:
            raise refuse(node, "type-mismatch", f"{clause.upper()} is true or false", "compare it with something")
        return made

    def _order(self, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        return ordering(self.select, outputs, lambda node: self._read(node, self._renamed))


def ordering(select: exp.Select, outputs: tuple[Output, ...], read: ReadExpression) -> tuple[Order, ...]:
    """ORDER BY: columns by name or by number."""
    ordered = select.args["order"].expressions if select.args.get("order") else ()
    if len(ordered) > MOST_COLUMNS:
        raise refuse(select.args["order"], "order", f"ORDER BY takes at most {MOST_COLUMNS} columns", "name fewer")
    found = []
    for node in ordered:
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            raise refuse(node, "order", "ORDER BY takes columns with ASC or DESC", "name a column of the answer")
        made = _ordinal(node.this, outputs) or read(node.this)
        found.append(Order(made, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return tuple(found)


def _ordinal(target: exp.Expr, outputs: tuple[Output, ...]) -> Expression | None:
    if not isinstance(target, exp.Literal) or target.is_string:
        return None
    index = int(target.this) if target.this.isdigit() else 0
    if not 1 <= index <= len(outputs):
        raise refuse(target, "ordinal", "ORDER BY <number> counts the columns of SELECT from 1", "name the column")
    return outputs[index - 1].expression


def whole(select: exp.Select, clause: str) -> int | None:
    """LIMIT or OFFSET."""
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
