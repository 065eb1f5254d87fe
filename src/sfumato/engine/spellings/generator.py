"""One generator writes the relational form as SQL, through the spelling of a dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sfumato.engine.lowering.relational import (
    Aggregation,
    Apply,
    Beside,
    Constant,
    Exists,
    Frame,
    Items,
    Join,
    Kind,
    Listed,
    Named,
    Operation,
    Ordered,
    Over,
    Rank,
    Reference,
    Relation,
    Scalar,
    Select,
    Span,
    Statement,
    Table,
    Total,
    Union,
)
from sfumato.engine.spellings.spelling import Spelling
from sfumato.policy import Type

Scan = Callable[[str], str]
"""From a table's name to what FROM says to read its clean scan."""


@dataclass(frozen=True)
class Generator:
    """A generator writes SQL in one dialect, over the scans of one set of sources."""

    spelling: Spelling
    scan: Scan

    def statement(self, statement: Statement) -> str:
        """Write a whole statement: one SELECT, after the stages it names."""
        stages = [f"{name} AS ({self.select(select)})" for name, select in statement.stages]
        return (f"WITH {', '.join(stages)} " if stages else "") + self.select(statement.result)

    def select(self, select: Select) -> str:
        columns = [f"{select.part}.*"] if select.everything else []
        columns += [f"{self.scalar(scalar)} AS {name}" for name, scalar in select.columns]
        text = f"SELECT {', '.join(columns)} FROM {self._source(select.source, select.part)}"
        text += "".join(self._join(join) for join in select.joins)
        if select.where:
            text += f" WHERE {' AND '.join(f'({self._test(test)})' for test in select.where)}"
        if select.grouped:
            text += f" GROUP BY {', '.join(select.grouped)}"
        return text if select.having is None else f"{text} HAVING {self.scalar(select.having)}"

    def scalar(self, scalar: Scalar) -> str:
        """Write a value of one row, of a group or of a partition."""
        match scalar:
            case Reference(name, part):
                return self.spelling.name(name) if part is None else f"{part}.{self.spelling.name(name)}"
            case Constant(value, kind):
                return self.spelling.constant(value, kind)
            case Apply(operation, arguments, detail):
                return _WRITERS[operation](self.spelling, *map(self.scalar, arguments), *detail)
            case Total():
                return self._total(scalar)
            case Rank(partition, order, place):
                return f"{place.name}(){self._over(partition, order)}"
            case Over(total, partition, order, frame):
                return self._total(total, self._over(partition, order, frame))
            case Beside():
                return self._shifted(scalar)
            case Items(column):
                return self.spelling.items(self.scalar(column))

    def _source(self, source: Relation | Select, part: str) -> str:
        match source:
            case Select():
                return f"({self.select(source)}{self.spelling.staged}) AS {part}"
            case Table(name):
                return f"{self.scan(name)} AS {part}"
            case Named(name):
                return f"{name} AS {part}"
            case Union(members):
                return f"({' UNION ALL '.join(map(self.select, members))}) AS {part}"
            case Listed(number, kind):
                return self._or_null(self.spelling.listed(number, kind), kind, part)
            case Span(Constant(first, kind), count):
                return self._or_null(self.spelling.span(first, count, kind), kind, part)

    def _or_null(self, values: str, kind: Kind, part: str) -> str:
        return f"({values} UNION ALL SELECT {self.spelling.constant(None, kind)}) AS {part}(x)"

    def _join(self, join: Join) -> str:
        source = self._source(join.relation, join.part)
        if join.on is None:
            return f" CROSS JOIN {source}"
        return f" {'LEFT' if join.outer else 'INNER'} JOIN {source} ON {self.scalar(join.on)}"

    def _test(self, test: Scalar | Exists) -> str:
        if not isinstance(test, Exists):
            return self.scalar(test)
        found = f"EXISTS (SELECT 1 FROM {self._source(test.relation, test.part)} WHERE {self.scalar(test.on)})"
        return f"NOT {found}" if test.negated else found

    def _total(self, total: Total, over: str = "") -> str:
        if total.argument is None:
            return f"COUNT(*){over}"
        argument = self.scalar(total.argument)
        if total.where is not None:
            argument = f"CASE WHEN {self.scalar(total.where)} THEN {argument} END"
        if total.aggregation is Aggregation.SUM:
            return self.spelling.wide_sum(argument, over)
        if total.aggregation is Aggregation.SUM_OF_NARROW:
            return self.spelling.narrow_sum(argument, over)
        if total.aggregation is Aggregation.UNITS:
            return f"COUNT(DISTINCT {argument}){over}"
        return f"{total.aggregation.name}({argument}){over}"

    def _shifted(self, beside: Beside) -> str:
        """Write a value of another row, with the default written out where there is none, as every dialect reads it."""
        function = "LAG" if beside.places < 0 else "LEAD"
        default = "" if beside.default is None else f", {self.scalar(beside.default)}"
        over = self._over(beside.partition, beside.order)
        return f"{function}({self.scalar(beside.scalar)}, {abs(beside.places)}{default}){over}"

    def _over(
        self, partition: tuple[Scalar, ...], order: tuple[Scalar | Ordered, ...], frame: Frame | None = None
    ) -> str:
        by = f"PARTITION BY {', '.join(map(self.scalar, partition))}"
        ordered = f" ORDER BY {', '.join(map(self._ordered, order))}" if order else ""
        return f" OVER ({by}{ordered}{_FRAMES[frame] if frame else ''})"

    def _ordered(self, each: Scalar | Ordered) -> str:
        ordered = each if isinstance(each, Ordered) else Ordered(each)
        direction = " DESC" if ordered.descending else ""
        return f"{self.scalar(ordered.scalar)}{direction} NULLS {'FIRST' if ordered.nulls_first else 'LAST'}"


_FRAMES = {
    Frame.PEERS: " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    Frame.ROWS: " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    Frame.WHOLE: " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}

Writer = Callable[..., str]


def _infix(operator: str) -> Writer:
    return lambda _, *written: "(" + f" {operator} ".join(written) + ")"


def _prefix(function: str) -> Writer:
    return lambda _, *written: f"{function}({', '.join(written)})"


def _suffix(test: str) -> Writer:
    return lambda _, x: f"({x} {test})"


def _case(_: Spelling, *written: str) -> str:
    """Write pairs of a test and a value, and what else there is: NULL if nothing is given."""
    pairs = zip(written[::2], written[1::2], strict=False)
    otherwise = f"ELSE {written[-1]} " if len(written) % 2 else ""
    return f"CASE {' '.join(f'WHEN {test} THEN {value}' for test, value in pairs)} {otherwise}END"


def _convert(spelling: Spelling, x: str, kind: Kind) -> str:
    return spelling.convert(x, kind)


def _in(_: Spelling, x: str, *choices: str) -> str:
    return f"({x} IN ({', '.join(choices)}))"


def _counted(spelling: Spelling, x: str) -> str:
    return _convert(spelling, f"LENGTH({x})", Type.INTEGER)


_WRITERS: dict[Operation, Writer] = {
    Operation.EQUAL: _infix("="),
    Operation.UNEQUAL: _infix("<>"),
    Operation.LESS: _infix("<"),
    Operation.AT_MOST: _infix("<="),
    Operation.GREATER: _infix(">"),
    Operation.AT_LEAST: _infix(">="),
    Operation.AND: _infix("AND"),
    Operation.OR: _infix("OR"),
    Operation.NOT: lambda _, x: f"(NOT {x})",
    Operation.BETWEEN: lambda _, x, low, high: f"({x} BETWEEN {low} AND {high})",
    Operation.IN: _in,
    Operation.IS_NULL: _suffix("IS NULL"),
    Operation.IS_TRUE: _suffix("IS TRUE"),
    Operation.IS_FALSE: _suffix("IS FALSE"),
    Operation.CASE: _case,
    Operation.COALESCE: _prefix("COALESCE"),
    Operation.ADD: _infix("+"),
    Operation.SUBTRACT: _infix("-"),
    Operation.MULTIPLY: _infix("*"),
    Operation.DIVIDE: _infix("/"),
    Operation.REMAINDER: _infix("%"),
    Operation.NEGATE: lambda _, x: f"(-{x})",
    Operation.ABS: _prefix("ABS"),
    Operation.SIGN: _prefix("SIGN"),
    Operation.SQRT: _prefix("SQRT"),
    Operation.LN: _prefix("LN"),
    Operation.EXP: _prefix("EXP"),
    Operation.POWER: _prefix("POWER"),
    Operation.CONVERT: _convert,
    Operation.LENGTH: _counted,
    Operation.JOIN: _infix("||"),
    Operation.REPLACE: _prefix("REPLACE"),
    Operation.LEAST: lambda spelling, *xs: spelling.least(*xs),
    Operation.GREATEST: lambda spelling, *xs: spelling.greatest(*xs),
    Operation.DIVIDE_WHOLE: lambda spelling, x, y: spelling.divide_whole(x, y),
    Operation.DIVIDE_WIDE: lambda spelling, x, y: spelling.divide_wide(x, y),
    Operation.FLOOR: lambda spelling, x: spelling.floor(x),
    Operation.CEILING: lambda spelling, x: spelling.ceiling(x),
    Operation.TRUNCATE: lambda spelling, x: spelling.truncate(x),
    Operation.HALF_AWAY: lambda spelling, x: spelling.half_away(x),
    Operation.NEAREST: lambda spelling, x: spelling.nearest(x),
    Operation.TOWARD_ZERO: lambda spelling, x: spelling.toward_zero(x),
    Operation.LIKE: lambda spelling, x, pattern: spelling.like(x, pattern),
    Operation.MATCHES: lambda spelling, x, grammar: spelling.matches(x, grammar),
    Operation.READ: lambda spelling, x, kind: spelling.read(x, kind),
    Operation.LOWER: lambda spelling, x: spelling.lower(x),
    Operation.UPPER: lambda spelling, x: spelling.upper(x),
    Operation.TRIM: lambda spelling, x, letters, start, end: spelling.trim(x, letters, start, end),
    Operation.SLICE: lambda spelling, x, first, count: spelling.slice(x, first, count),
    Operation.CODE: lambda spelling, x, *texts: spelling.code(x, *texts),
    Operation.DIGEST: lambda spelling, *texts: spelling.digest(*texts),
    Operation.PART: lambda spelling, x, part: spelling.part(x, part),
    Operation.START: lambda spelling, x, unit, kind: spelling.start(x, unit, kind),
    Operation.MOVED: lambda spelling, x, amount, unit, kind: spelling.moved(x, amount, unit, kind),
    Operation.DAYS: lambda spelling, first, last: spelling.days(first, last),
    Operation.SECONDS: lambda spelling, x: spelling.seconds(x),
}
