"""A SELECT over one private table becomes a query: what is measured, and what is done with the noisy numbers.

Medians, quantiles, MIN and MAX are read here, in every spelling; a list of shares becomes several columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Count,
    Distinct,
    Mean,
    Reads,
    Sum,
    both,
    present,
    value_range,
)
from sfumato.plan.aggregates.ranked import MOST_DECIMALS, Quantile
from sfumato.plan.aggregates.spread import CorrelationOfPairs, CovarianceOfPairs, LineOfPairs, Variance, present_too
from sfumato.plan.aggregates.value_measures import MOST_FREQUENT, DistinctValues, FrequentValue
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.costs import check
from sfumato.plan.nodes import Aggregate, Query
from sfumato.plan.noisy_rows import Finish, NoisyWindow, Output
from sfumato.plan.sharing import measured
from sfumato.plan.sql.grouping import Grouping, grouping
from sfumato.plan.sql.outer import (
    MOST_COLUMNS,
    aggregates,
    aggregating,
    check_finishing,
    ordering,
    over,
    over_noisy_rows,
    whole,
)
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.sql.rows import RowSource, condition, rows
from sfumato.plan.sql.sql_expressions import Read, expression, reading, remembering
from sfumato.plan.sql.text import select as parse_text
from sfumato.plan.sql.text_positions import called, refuse, shown
from sfumato.plan.sql.unit_joins import period_words, periods
from sfumato.plan.values.expressions import Column, Expression, Key, Literal, Result, SummedOver, Windowed, columns
from sfumato.plan.values.functions import call, literal
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type
from sfumato.privacy.numbers import text

RANKED = (
    exp.Median,
    exp.PercentileCont,
    exp.PercentileDisc,
    exp.Quantile,
    exp.ApproxQuantile,
    exp.WithinGroup,
    exp.Min,
    exp.Max,
)
_WRITTEN = "write QUANTILE_CONT(x, 0.9), or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)"


Reading = Callable[[exp.Expr], Expression]


def ranked(node: exp.Expr, where: Expression | None, read: Reading, share: exp.Expr | None = None) -> Quantile:
    """Read one quantile of a value, among the rows where a condition holds; of a list of shares the one at this."""
    if isinstance(node, exp.Min | exp.Max) and node.args.get("count"):
        rule = "MIN and MAX give one value: the several least are rows of people"
        raise refuse(node, "several-extremes", rule, "ask for quantiles: QUANTILE_CONT(x, [0.01, 0.05])")
    value, only, descending = _parts(node)
    if isinstance(value, exp.Distinct):
        rule = "ranks are those of rows, and DISTINCT leaves rows out"
        raise refuse(node, "distinct", rule, "leave DISTINCT out")
    made = _bounded(read(value), value)
    if isinstance(node, exp.Min | exp.Max | exp.Median):
        return Quantile(made, _FIXED[type(node)], where, listed=not isinstance(node, exp.Median))
    chance = _share(node, only if share is None else share)
    listed = isinstance(node.this if isinstance(node, exp.WithinGroup) else node, _LISTED)
    return Quantile(made, 1 - chance if descending else chance, where, listed)


_FIXED = {exp.Min: Fraction(0), exp.Median: Fraction(1, 2), exp.Max: Fraction(1)}
_LISTED = (exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)


def _parts(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None, bool]:
    """Take apart what it is a quantile of, the share, and whether values are ordered from the greatest."""
    if not isinstance(node, exp.WithinGroup):
        return node.this, node.args.get("expression") or node.args.get("quantile"), False
    order = node.expression.expressions
    if not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc) or node.this.expression or len(order) != 1:
        raise refuse(node, "within-group", f"{shown(node)} is not answered", _WRITTEN)
    (ordered,) = order
    return ordered.this, node.this.this, bool(ordered.args.get("desc"))


def _share(node: exp.Expr, share: exp.Expr | None) -> Fraction:
    number = share.this if isinstance(share, exp.Neg) else share
    if share is None or not isinstance(number, exp.Literal) or number.is_string:
        raise refuse(node, "quantile-share", "the share of a quantile is a number that is written out", _WRITTEN)
    rounded = round(Fraction(number.this) * MOST_DECIMALS)
    if isinstance(share, exp.Neg) or not 0 < rounded < MOST_DECIMALS:
        rule = f"a quantile's share lies between 0 and 1, and not at an end, to six decimals; {shown(share)} does not"
        raise refuse(share, "quantile-share", rule, "write a share such as 0.5; for the ends use MIN(x) and MAX(x)")
    return Fraction(rounded, MOST_DECIMALS)


def _bounded(value: Expression, node: exp.Expr) -> Expression:
    if not value.domain.type.numeric:
        rule = f"only numbers have quantiles here; {shown(node)} is {value.domain.type.value}"
        raise refuse(node, "type-mismatch", rule, "turn it into a number, with CASE, DATE_DIFF or EXTRACT")
    if value.domain.range is None:
        rule = f"{shown(node)} has no declared bounds, and a quantile is chosen among the numbers within them"
        fix = f"declare bounds in the policy, or write LEAST(GREATEST({shown(node)}, low), high)"
        raise refuse(node, "unbounded", rule, fix)
    return value


def quantiles(node: exp.Expr, where: Expression | None, read: Reading) -> Iterator[tuple[str, Quantile]]:
    """Read a quantile for each share of a list, with the share in hundredths, in which the name of its column ends."""
    listed = shares(node)
    if listed is None or not listed.expressions:
        raise refuse(node, "list-of-quantiles", "a list of shares has at least one", _WRITTEN)
    for share in listed.expressions:
        found = ranked(node, where, read, share)
        yield text(100 * Fraction(share.this)).replace(".", "_"), found


def shares(node: exp.Expr) -> exp.Array | None:
    """Find the list of shares of a quantile, if it has one."""
    if not isinstance(node, RANKED) or isinstance(node, exp.Median | exp.Min | exp.Max):
        return None
    share = node.this.this if isinstance(node, exp.WithinGroup) else _parts(node)[1]
    return share if isinstance(share, exp.Array) else None


_CLAUSES = {
    "expressions",
    "from_",
    "joins",
    "where",
    "with_",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
}
_SPREADS: dict[type, Callable[[Expression, Expression | None], AggregateRequest]] = {
    exp.Variance: lambda value, where: Variance(value, True, False, where),
    exp.VariancePop: lambda value, where: Variance(value, False, False, where),
    exp.Stddev: lambda value, where: Variance(value, True, True, where),
    exp.StddevSamp: lambda value, where: Variance(value, True, True, where),
    exp.StddevPop: lambda value, where: Variance(value, False, True, where),
}
_PAIRED: dict[type, Callable[[Expression, Expression, Expression | None], AggregateRequest]] = {
    exp.CovarPop: lambda y, x, where: CovarianceOfPairs(y, x, where, False),
    exp.CovarSamp: lambda y, x, where: CovarianceOfPairs(y, x, where, True),
    exp.Corr: lambda y, x, where: CorrelationOfPairs(y, x, where, False),
    exp.RegrR2: lambda y, x, where: CorrelationOfPairs(y, x, where, True),
    exp.RegrSlope: lambda y, x, where: LineOfPairs(y, x, where, False),
    exp.RegrIntercept: lambda y, x, where: LineOfPairs(y, x, where, True),
    exp.RegrCount: lambda y, x, where: Mean(x, present_too(where, y)).rows,
    exp.RegrAvgx: lambda y, x, where: Mean(x, present_too(where, y)),
    exp.RegrAvgy: lambda y, x, where: Mean(y, present_too(where, x)),
}
_ANSWERED = "use COUNT, SUM, AVG, MEDIAN, VARIANCE, CORR or MODE, with FILTER (WHERE …)"
_ARGUMENTS = {"this", "expression", "expressions", "quantile", "count", "big_int"}
"""The parts of an aggregate that are read: what else the parser knows are options that mean nothing here."""
_AGGREGATES = (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Mode, exp.ApproxDistinct, *_SPREADS, *_PAIRED, *RANKED)
_INSTEAD = {
    "qualify": "put the window into a subquery: SELECT * FROM (SELECT …, RANK() OVER (…) AS place …) WHERE place <= 3",
    "windows": "write the window where it is used: RANK() OVER (ORDER BY …)",
}
_MOST_BITS = 30
_LARGEST_MOMENT = 10**150
"""Of one row: far below what a double holds, so that nothing that is made from their sums overflows."""


def parse(text: object, catalog: Catalog, parameters: Parameters | None = None) -> Query:
    """The query a text means, or ``Unsupported``: decided from text, values of parameters and policy alone."""
    return query(parse_text(text, parameters), catalog)


def query(statement: exp.Select, catalog: Catalog) -> Query:
    """The query a parsed statement means."""
    try:
        return _query(statement, catalog)
    except RecursionError:
        raise Unsupported(
            "too-deep", "the question nests too deeply", fix="flatten it, for instance with WITH"
        ) from None


def _query(select: exp.Select, catalog: Catalog) -> Query:
    inner = aggregating(select, catalog)
    return _measuring(select, catalog) if inner is None else over_noisy_rows(select, _query(inner, catalog))


def _measuring(select: exp.Select, catalog: Catalog) -> Query:
    """Read the query of a SELECT that reads rows of tables."""
    for part, value in select.args.items():
        if value and part not in _CLAUSES:
            raise refuse(
                select,
                "clause",
                f"{part.strip('_').upper()} is not answered",
                _INSTEAD.get(part, "use SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT"),
            )
    _check_columns(select, len(select.expressions))
    source = rows(select, catalog, {})
    building = _SelectBuilder(source, grouping(select, source), aggregates(select))
    listed = [(item, each) for item in select.expressions for each in _outputs(item, building)]
    _check_columns(select, len(listed))
    outputs = tuple(each for _, each in listed)
    for index, (item, each) in enumerate(listed):
        if each.name.lower() in {other.name.lower() for other in outputs[:index]}:
            raise refuse(item, "duplicate-column", f"two columns are called {each.name}", "rename one with AS")
    named = [(item.unalias(), each) for item, each in listed if isinstance(item, exp.Alias) or _is_list(item)]
    building.outputs = {each.name.lower(): (node, each.expression) for node, each in named}
    finish = _finish(select, building, outputs)
    if not building.measures and (building.sets or not (building.keys and aggregates(select))):
        raise refuse(
            select,
            "no-aggregate",
            "an answer is made of counts, sums and averages, never of rows",
            "ask for COUNT(*), SUM(…) or AVG(…)",
        )
    plan = Aggregate(source.relation, building.keys, tuple(building.measures))
    check(measured(plan))
    _check_subtotals(select, building)
    return Query(plan, finish)


def _check_columns(select: exp.Select, count: int) -> None:
    if count > MOST_COLUMNS:
        rule = f"an answer has at most {MOST_COLUMNS} columns"
        raise refuse(select, "too-many-columns", rule, "ask in two questions")


class _SelectBuilder:
    """This collects keys and measures while the answer's columns are read."""

    def __init__(self, source: RowSource, grouped: Grouping, aggregated: bool) -> None:
        self.source, self.keys, self.sets = source, grouped.keys, grouped.sets
        self.aggregated = aggregated
        """Whether windows are over groups: else they would be over rows of the table."""
        self.measures: dict[AggregateRequest, Column] = {}
        self.windows: dict[NoisyWindow, Column] = {}
        self.outputs: dict[str, tuple[exp.Expr, Expression]] = {}
        """The answer's own names, in small letters: what each was read from and what it became."""
        self._named = {key: Column(Key(index), self._shown(index)) for index, key in enumerate(self.keys)}
        self._attempt = remembering(source.resolve)

    def _shown(self, index: int) -> Domain:
        """Say what a key may be in the answer: NULL too in rows of sets that do not have it."""
        domain = self.keys[index].domain
        return replace(domain, nullable=domain.nullable or any(index not in each for each in self.sets))

    def measure(self, found: AggregateRequest) -> Column:
        """Find the column of a measure: equal measures are measured once."""
        return self.measures.setdefault(found, Column(Result(len(self.measures), found.noises), found.result))

    def key(self, node: exp.Expr, attempt: Callable[[exp.Expr], Expression | None] | None = None) -> Column | None:
        """The key this node is, if it is one."""
        if not self.keys or not isinstance(node, (exp.Condition, exp.Func)) or isinstance(node, exp.Literal):
            return None
        made = (attempt or self._attempt)(node)
        return None if made is None else self._named.get(made)

    def grouping(self, node: exp.Expr) -> Expression:
        """Read GROUPING(a, b): one binary digit for each key, 1 where a row is a subtotal over it."""
        found = [self.key(each) for each in node.expressions]
        if not found or None in found or len(found) > _MOST_BITS:
            rule = f"GROUPING takes keys of GROUP BY, at most {_MOST_BITS}"
            raise refuse(node, "grouping", rule, "write GROUPING(<a column that is grouped by>)")
        made: Expression = literal(Type.INTEGER, 0)
        for each in found:
            assert each is not None
            assert isinstance(each.reference, Key)
            bit = Column(SummedOver(each.reference.index), Domain(Type.INTEGER, bounds=(0, 1)))
            made = bit if len(found) == 1 else call("+", call("*", made, literal(Type.INTEGER, 2)), bit)
        return made

    def renamed(self) -> Callable[[exp.Expr], Expression | None]:
        """Read parts over rows where the answer's own names stand for what they were read from."""

        def resolve(qualifier: str | None, name: str) -> Expression:
            given = None if qualifier is not None else self.outputs.get(name.lower())
            if given is None:
                return self.source.resolve(qualifier, name)
            made = self._attempt(given[0])
            if made is None:
                raise Unsupported("part", "it is no value of one row", fix="read it as a noisy number")
            return made

        return remembering(resolve)


def _outputs(item: exp.Expr, building: _SelectBuilder) -> tuple[Output, ...]:
    """Read an item of SELECT: a list of measures is a column for each, and their names end in what tells them apart."""
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
        raise refuse(
            item, "star", "rows are never shown: * belongs inside COUNT(*)", "ask for COUNT(*), SUM(…) or AVG(…)"
        )
    if _is_list(inner):
        name, several = _list(inner, building.source)
        name = item.alias if isinstance(item, exp.Alias) else name
        return tuple(Output(f"{name}_{ending}", building.measure(each)) for ending, each in several)
    name = item.alias_or_name if isinstance(item, (exp.Alias, exp.Column)) else called(inner)
    return (Output(name, _finishing(inner, building)),)


def _is_list(node: exp.Expr) -> bool:
    """Tell whether a part of the question is a list of measures: quantiles at several shares, or most frequent
    values.
    """
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.ApproxTopK) or shares(inner) is not None


def _list(node: exp.Expr, source: RowSource) -> tuple[str, Iterable[tuple[str, AggregateRequest]]]:
    """Read a list of measures: what it is called unless it has a name, and each with what its own name ends in."""
    inner, where = node.this if isinstance(node, exp.Filter) else node, _filter(node, source)
    if isinstance(inner, exp.ApproxTopK):
        return "top", _most_frequent(inner, where, source)
    _check_arguments(inner)
    return "quantile", quantiles(inner, where, lambda value: expression(value, source.resolve))


def _most_frequent(
    node: exp.ApproxTopK, where: Expression | None, source: RowSource
) -> Iterable[tuple[str, AggregateRequest]]:
    """Read APPROX_TOP_K(x, k): the k most frequent values, best first, named by their places."""
    count = node.args.get("expression")
    most = int(count.this) if isinstance(count, exp.Literal) and count.is_int and len(count.this) < 4 else 0
    if not 1 <= most <= MOST_FREQUENT or node.args.get("counters"):
        rule = f"APPROX_TOP_K takes a value and how many of the most frequent to give: 1 to {MOST_FREQUENT}"
        raise refuse(node, "top-k", rule, f"write APPROX_TOP_K({shown(node.this)}, 3)")
    value = expression(node.this, source.resolve)
    _check_not_constant(value, node)
    return [(str(place + 1), FrequentValue(value, most, place, where)) for place in range(most)]


def _finishing(node: exp.Expr, building: _SelectBuilder, *, renamed: bool = False) -> Expression:
    """Read an expression over keys and measures: each key or aggregate is a column, the rest is made from them.

    ``renamed`` says that the answer's own names may stand for what they mean.
    """
    attempt = building.renamed() if renamed else None

    def own(part: exp.Expr, read: Read) -> Expression | None:
        if _is_list(part):
            rule = f"{shown(part)} is a list: it is several columns of the answer, and no part of an expression"
            raise refuse(part, "list", rule, "ask for it on its own, and compute with its columns in an outer SELECT")
        if isinstance(part, (exp.Filter, exp.WithinGroup, *_AGGREGATES)):
            return building.measure(_measure(part, building.source))
        if isinstance(part, (exp.Grouping, exp.GroupingId)):
            return building.grouping(part)
        if isinstance(part, exp.Window) and building.aggregated and not renamed:
            found, domain = over(part, read)
            return building.windows.setdefault(found, Column(Windowed(len(building.windows)), domain))
        if isinstance(part, exp.Window):
            rule = "a window is computed in a subquery, for every row, and the answer aggregates it"
            raise refuse(part, "window", rule, f"write FROM (SELECT …, {shown(part)} AS x FROM …)")
        if isinstance(part, exp.AggFunc):
            raise refuse(part, "aggregate", f"{shown(part)} is not answered", _ANSWERED)
        if renamed and isinstance(part, exp.Column) and not part.table and part.name.lower() in building.outputs:
            return building.outputs[part.name.lower()][1]
        key = building.key(part, attempt)
        return key or (_ungrouped(part, building) if isinstance(part, exp.Column) else None)

    made = reading(node, own)
    check_finishing(made, node)
    return made


def _check_subtotals(select: exp.Select, building: _SelectBuilder) -> None:
    """A subtotal is the sum of its groups, which is true of rows but not of units: one may be in several groups."""
    if (
        building.sets
        and building.source.relation.most_rows != 1
        and any(each.once_per_unit for each in building.measures)
    ):
        raise refuse(
            select.args["group"],
            "subtotals-of-units",
            "units are counted distinct in one grouping at a time: a unit in several groups is one in their total",
            "count rows with COUNT(*), or ask one question for each grouping",
        )
    if building.sets and any(each.reads is not Reads.TOTALS for each in building.measures):
        raise refuse(
            select.args["group"],
            "subtotals-of-ranks",
            "a subtotal is made from its groups: medians, different values and most frequent ones are not",
            "ask one question for each grouping",
        )


def _ungrouped(node: exp.Column, building: _SelectBuilder) -> Expression:
    made = expression(node, building.source.resolve)  # an unknown column says so first
    raise refuse(
        node,
        "not-grouped",
        f"{shown(node)} is neither grouped by nor inside an aggregate",
        f"add GROUP BY {shown(node)}, or use {'AVG' if made.domain.type.numeric else 'COUNT'}({shown(node)})",
    )


def _filter(node: exp.Expr, source: RowSource) -> Expression | None:
    """Read which rows an aggregate is of; None where it has no FILTER."""
    return condition(node.expression.this, source) if isinstance(node, exp.Filter) else None


def _measure(node: exp.Expr, source: RowSource) -> AggregateRequest:
    where = _filter(node, source)
    if isinstance(node, exp.Filter):
        node = node.this
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.Mode):
        node = _ordered(node)
    if not isinstance(node, _AGGREGATES):
        raise refuse(node, "aggregate", f"{shown(node)} is not answered", _ANSWERED)
    _check_arguments(node)
    if isinstance(node, RANKED):
        return ranked(node, where, lambda value: expression(value, source.resolve))
    argument = node.this
    if isinstance(node, exp.ApproxDistinct) and argument is not None:  # the noise is far above what it would save
        argument = exp.Distinct(expressions=[argument])
    if node.args.get("expressions"):
        raise refuse(node, "aggregate", "an aggregate takes one argument", "write one aggregate for each")
    if isinstance(argument, exp.Distinct):
        return _distinct(node, argument, where, source)
    if type(node) in _PAIRED:
        y, x = (_summable(each, source) for each in (argument, node.expression))
        return _with_moments(_PAIRED[type(node)](y, x, where), node)
    if isinstance(node, exp.CountIf):
        return Count(both(where, condition(argument, source)))
    if isinstance(node, exp.Count):
        return _count(argument, where, source)
    if argument is None:
        raise refuse(node, "aggregate", f"{shown(node)} is of something", f"name a column: {node.key.upper()}(x)")
    value = expression(argument, source.resolve)
    if isinstance(node, exp.Mode):
        _check_not_constant(value, node)
        return FrequentValue(value, where=where)
    _check_summable(value, argument)
    if type(node) in _SPREADS:
        return _with_moments(_SPREADS[type(node)](value, where), node)
    return Sum(value, where) if isinstance(node, exp.Sum) else Mean(value, where)


def _check_not_constant(value: Expression, node: exp.Expr) -> None:
    if not columns(value):
        rule, fix = f"{shown(node)} is the same whatever the rows hold", "name a column in place of the constant"
        raise refuse(node, "constant-value", rule, fix)


def _check_arguments(node: exp.Expr) -> None:
    """Refuse an aggregate with an argument that would be passed over, or without the second of two values."""
    if type(node) in _PAIRED and node.args.get("expression") is None:
        fix = "give it two values, y and x: CORR(cost, age)"
        raise refuse(node, "arguments", f"{shown(node)} is of two values", fix)
    if any(value and part not in _ARGUMENTS for part, value in node.args.items()):
        fix = "give it what it is of, and nothing more: MODE(x), CORR(y, x), QUANTILE_CONT(x, 0.9)"
        raise refuse(node, "arguments", f"{shown(node)} has more arguments than are understood", fix)


def _ordered(node: exp.WithinGroup) -> exp.Expr:
    """Read MODE() WITHIN GROUP (ORDER BY x) as MODE(x): whichever way it is ordered, it is the same value."""
    order = node.expression.expressions
    if not isinstance(node.this, exp.Mode) or node.this.this is not None or len(order) != 1:
        rule = "WITHIN GROUP orders by the one value that an aggregate is of"
        raise refuse(node, "within-group", rule, "write MODE() WITHIN GROUP (ORDER BY x), or MODE(x)")
    return exp.Mode(this=order[0].this)


def _count(argument: exp.Expr | None, where: Expression | None, source: RowSource) -> AggregateRequest:
    if argument is None or isinstance(argument, exp.Star):
        return Count(where)
    value = expression(argument, source.resolve)
    if isinstance(value, Literal) and value.value is not None:
        return Count(where)
    return Count(both(where, present(value)))


def _distinct(node: exp.Expr, argument: exp.Distinct, where: Expression | None, source: RowSource) -> AggregateRequest:
    table, named = source.table, argument.expressions
    parts = named[0].expressions if len(named) == 1 and isinstance(named[0], exp.Tuple) else named
    counted = isinstance(node, (exp.Count, exp.ApproxDistinct))
    if counted and parts and source.is_unit(parts[0]):
        if table.period is None and len(parts) == 1:
            return Distinct(where)
        known = periods(source.relation, source.catalog)
        if table.period is not None and len(parts) == 2 and expression(parts[1], source.resolve) in known:
            return Distinct(where)
    if not counted or len(parts) != 1 or source.is_unit(parts[0]) or _is_other_id(parts[0], source):
        raise refuse(node, "distinct", "units are counted distinct, or the values of one column", _countable(table))
    return DistinctValues(expression(parts[0], source.resolve), where)


def _is_other_id(node: exp.Expr, source: RowSource) -> bool:
    """Tell whether a part is called like an id and is no column here, as the id of rows that a LEFT JOIN may miss."""
    ids = {str(each.id).lower() for each in source.catalog.tables.values() if each.id is not None}
    named = isinstance(node, exp.Column) and node.name.lower() in ids and node.table.lower() not in source.public
    return named and remembering(source.resolve)(node) is None


def _countable(table: Described) -> str:
    """Say how units are counted in a table."""
    if table.every_row:
        return "use COUNT(*): every row is a unit here"
    if table.id is None:
        return f"join the table that names the unit and count it there: {table.via}"
    named = quoted(table.id) if table.period is None else f"({quoted(table.id)}, {period_words(table)})"
    return f"use COUNT(DISTINCT {named})"


def _with_moments(asked: AggregateRequest, node: exp.Expr) -> AggregateRequest:
    """Refuse what is made from squares or products that doubles could not add up."""
    values = [each.value for each in asked.measured(()) if each.value is not None]
    known = all(each.domain.range is not None for each in values)
    if known and all(abs(end) < _LARGEST_MOMENT for each in values for end in value_range(each)):
        return asked
    rule = f"{shown(node)} is made from squares or products, which are too large for these bounds"
    raise refuse(node, "unbounded", rule, "declare narrower bounds, or divide the value by a large number")


def _summable(node: exp.Expr, source: RowSource) -> Expression:
    value = expression(node, source.resolve)
    _check_summable(value, node)
    return value


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


def _finish(select: exp.Select, building: _SelectBuilder, outputs: tuple[Output, ...]) -> Finish:
    having = select.args.get("having")
    predicate = None
    if having is not None:
        predicate = _finishing(having.this, building, renamed=True)
        if predicate.domain.type is not Type.BOOLEAN:
            raise refuse(having, "type-mismatch", "HAVING is true or false", "compare an aggregate with a number")
    order = ordering(select, outputs, lambda node: _finishing(node, building, renamed=True))
    windows = tuple(building.windows)
    return Finish(
        outputs, predicate, order, whole(select, "limit"), whole(select, "offset") or 0, building.sets, windows
    )
