"""Write the relational form as SQL, through the spelling of a dialect."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    AnyOf,
    Apply,
    CleanTable,
    Constant,
    Exists,
    GroupTotal,
    IntegerSpan,
    Items,
    Kind,
    LeastValues,
    Ordered,
    Rank,
    Reference,
    Relation,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    Select,
    Shifted,
    StagedSelect,
    StageReference,
    ValueList,
    WindowFrame,
    WindowTotal,
)
from sfumato.engine.spellings.spelling import Spelling
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

Scan = Callable[[CleanTable], str]
"""From a table, and the columns read of it, to what FROM says to read its clean scan."""


@dataclass(frozen=True)
class Generator:
    """A generator of SQL in one dialect, over the scans of one set of sources."""

    spelling: Spelling
    scan: Scan

    def statement(self, statement: StagedSelect) -> str:
        """Write a whole statement: one SELECT, after the stages it names."""
        stages = [
            f"{name} AS {_materialised_keyword(select)}({self.select(select)})" for name, select in statement.stages
        ]
        return (f"WITH {', '.join(stages)} " if stages else "") + self.select(statement.result)

    def select(self, select: Select) -> str:
        columns = [f"{select.alias}.*"] if select.all_columns else []
        columns += [f"{self.scalar(scalar)} AS {name}" for name, scalar in select.columns]
        text = f"SELECT {', '.join(columns)} FROM {self.source(select.source, select.alias)}"
        text += "".join(self._join(join) for join in select.joins)
        if select.where:
            text += f" WHERE {' AND '.join(f'({self._predicate(test)})' for test in select.where)}"
        if select.group_by:
            text += f" GROUP BY {', '.join(select.group_by)}"
        return text if select.having is None else f"{text} HAVING {self.scalar(select.having)}"

    def scalar(self, scalar: Scalar) -> str:
        """Write a scalar of one row, of a group or of a partition."""
        match scalar:
            case Reference(name, part):
                return self.spelling.name(name) if part is None else f"{part}.{self.spelling.name(name)}"
            case Constant(value, kind):
                return self.spelling.constant(value, kind)
            case Apply(operation, arguments, detail):
                return _WRITERS[operation](self.spelling, *map(self.scalar, arguments), *detail)
            case GroupTotal():
                return self._total(scalar)
            case LeastValues(argument, count):
                return f"MIN({self.scalar(argument)}, {count})"
            case Rank(partition, order, numbering):
                return f"{numbering.name}(){self._over_clause(partition, order)}"
            case WindowTotal(total, partition, order, frame):
                return self._total(total, self._over_clause(partition, order, frame))
            case Shifted():
                return self._lead_or_lag(scalar)
            case Items(column):
                return self.spelling.items(self.scalar(column))

    def source(self, source: Relation | Select, part: str) -> str:
        match source:
            case Select():
                ending = self.spelling.staged if self._is_kept_apart(source) else ""
                return f"({self.select(source)}{ending}) AS {part}"
            case CleanTable():
                return f"{self.scan(source)} AS {part}"
            case StageReference(name):
                return f"{name} AS {part}"
            case RelationalUnion(members):
                return f"({' UNION ALL '.join(map(self.select, members))}) AS {part}"
            case ValueList(number, kind):
                return self._with_null_row(self.spelling.select_parameter_list(number, kind), kind, part)
            case IntegerSpan(Constant(first, kind), count):
                return self._with_null_row(self.spelling.span(first, count, kind), kind, part)

    def _is_kept_apart(self, select: Select) -> bool:
        """Return whether the engine would write too long a text of these columns wherever they are read."""
        longest = self.spelling.longest_merged
        if not longest or not select.all_columns:
            return not longest
        return sum(len(self.scalar(scalar)) for _, scalar in select.columns) > longest

    def _with_null_row(self, select_sql: str, type_: Kind, alias: str) -> str:
        return f"({select_sql} UNION ALL SELECT {self.spelling.constant(None, type_)}) AS {alias}"

    def _join(self, join: RelationalJoin) -> str:
        source = self.source(join.relation, join.alias)
        if join.on is None:
            return f" CROSS JOIN {source}"
        return f" {'LEFT' if join.outer else 'INNER'} JOIN {source} ON {self.scalar(join.on)}"

    def _predicate(self, test: Scalar | Exists | AnyOf) -> str:
        if isinstance(test, AnyOf):
            return " OR ".join(f"({self._predicate(predicate)})" for predicate in test.predicates)
        if not isinstance(test, Exists):
            return self.scalar(test)
        exists = f"EXISTS (SELECT 1 FROM {self.source(test.relation, test.alias)} WHERE {self.scalar(test.on)})"
        return f"NOT {exists}" if test.negated else exists

    def _total(self, total: GroupTotal, over: str = "") -> str:
        if total.argument is None:
            return f"COUNT(*){over}"
        argument = self.scalar(total.argument)
        if total.where is not None:
            argument = f"CASE WHEN {self.scalar(total.where)} THEN {argument} END"
        if total.aggregation is AggregateFunction.SUM:
            return self.spelling.sum_as_wide_integer(argument, over)
        if total.aggregation is AggregateFunction.SUM_OF_NARROW:
            return self.spelling.narrow_sum(argument, over)
        if total.aggregation is AggregateFunction.RESIDUES:
            return self.spelling.count_distinct_residues(f"({argument} % 62)")
        if total.aggregation is AggregateFunction.NUMBER_SET:
            return self.spelling.number_set(argument)
        if total.aggregation is AggregateFunction.UNITS:
            return f"COUNT(DISTINCT {argument}){over}"
        return f"{total.aggregation.name}({argument}){over}"

    def _lead_or_lag(self, beside: Shifted) -> str:
        function = "LAG" if beside.offset < 0 else "LEAD"
        default = None if beside.default is None else self.scalar(beside.default)
        over = self._over_clause(beside.partition, beside.order)
        return self.spelling.shifted(function, self.scalar(beside.scalar), abs(beside.offset), default, over)

    def _over_clause(
        self, partition: tuple[Scalar, ...], order: tuple[Scalar | Ordered, ...], frame: WindowFrame | None = None
    ) -> str:
        by = f"PARTITION BY {', '.join(map(self.scalar, partition))}" if partition else ""
        first_keys: dict[Scalar, Scalar | Ordered] = {}  # a key that comes again orders nothing
        for key in order:
            first_keys.setdefault(key.scalar if isinstance(key, Ordered) else key, key)
        ordered = f" ORDER BY {', '.join(map(self._sort_key, first_keys.values()))}" if order else ""
        return f" OVER ({by}{ordered}{_FRAMES[frame] if frame else ''})"

    def _sort_key(self, key: Scalar | Ordered) -> str:
        ordered = key if isinstance(key, Ordered) else Ordered(key)
        return self.spelling.sort_key(self.scalar(ordered.scalar), ordered.descending, ordered.nulls_first)


def _materialised_keyword(select: Select) -> str:
    """Keep an engine from computing a stage twice whose rows it numbers in an order of its own."""
    numbers_rows = any(isinstance(scalar, Rank) and not scalar.partition for _, scalar in select.columns)
    return "MATERIALIZED " if numbers_rows else ""


_FRAMES = {
    WindowFrame.PEERS: " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    WindowFrame.ROWS: " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    WindowFrame.WHOLE: " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}

Writer = Callable[..., str]


def _infix_operator_writer(operator: str) -> Writer:
    return lambda _, *written: "(" + f" {operator} ".join(written) + ")"


def _function_call_writer(function: str) -> Writer:
    return lambda _, *written: f"{function}({', '.join(written)})"


def _suffix_test_writer(test: str) -> Writer:
    return lambda _, x: f"({x} {test})"


def _case(_: Spelling, *written: str) -> str:
    """Write pairs of a test and a value, and an ELSE if there is a last value: NULL otherwise."""
    pairs = zip(written[::2], written[1::2], strict=False)
    otherwise = f"ELSE {written[-1]} " if len(written) % 2 else ""
    return f"CASE {' '.join(f'WHEN {test} THEN {value}' for test, value in pairs)} {otherwise}END"


def _convert(spelling: Spelling, x: str, kind: Kind, source: Kind | None = None) -> str:
    return spelling.timestamp_text(x) if source is Type.TIMESTAMP and kind is Type.TEXT else spelling.convert(x, kind)


def _in(_: Spelling, x: str, *choices: str) -> str:
    return f"({x} IN ({', '.join(choices)}))"


def _length(spelling: Spelling, x: str) -> str:
    return _convert(spelling, f"{spelling.length}({x})", Type.INTEGER)


_WRITERS: dict[ScalarFunction, Writer] = {
    ScalarFunction.EQUAL: _infix_operator_writer("="),
    ScalarFunction.UNEQUAL: _infix_operator_writer("<>"),
    ScalarFunction.LESS: _infix_operator_writer("<"),
    ScalarFunction.AT_MOST: _infix_operator_writer("<="),
    ScalarFunction.GREATER: _infix_operator_writer(">"),
    ScalarFunction.AT_LEAST: _infix_operator_writer(">="),
    ScalarFunction.AND: _infix_operator_writer("AND"),
    ScalarFunction.OR: _infix_operator_writer("OR"),
    ScalarFunction.NOT: lambda _, x: f"(NOT {x})",
    ScalarFunction.BETWEEN: lambda _, x, low, high: f"({x} BETWEEN {low} AND {high})",
    ScalarFunction.IN: _in,
    ScalarFunction.IS_NULL: _suffix_test_writer("IS NULL"),
    ScalarFunction.IS_TRUE: _suffix_test_writer("IS TRUE"),
    ScalarFunction.IS_FALSE: _suffix_test_writer("IS FALSE"),
    ScalarFunction.CASE: _case,
    ScalarFunction.COALESCE: _function_call_writer("COALESCE"),
    ScalarFunction.ADD: _infix_operator_writer("+"),
    ScalarFunction.SUBTRACT: _infix_operator_writer("-"),
    ScalarFunction.MULTIPLY: _infix_operator_writer("*"),
    ScalarFunction.DIVIDE: _infix_operator_writer("/"),
    ScalarFunction.REMAINDER: _infix_operator_writer("%"),
    ScalarFunction.NEGATE: lambda _, x: f"(-{x})",
    ScalarFunction.ABS: _function_call_writer("ABS"),
    ScalarFunction.SIGN: _function_call_writer("SIGN"),
    ScalarFunction.SQRT: _function_call_writer("SQRT"),
    ScalarFunction.LN: _function_call_writer("LN"),
    ScalarFunction.EXP: _function_call_writer("EXP"),
    ScalarFunction.POWER: _function_call_writer("POWER"),
    ScalarFunction.CONVERT: _convert,
    ScalarFunction.LENGTH: _length,
    ScalarFunction.JOIN: _infix_operator_writer("||"),
    ScalarFunction.REPLACE: _function_call_writer("REPLACE"),
    ScalarFunction.LEAST: lambda spelling, *xs: spelling.least(*xs),
    ScalarFunction.GREATEST: lambda spelling, *xs: spelling.greatest(*xs),
    ScalarFunction.DIVIDE_WHOLE: lambda spelling, x, y: spelling.divide_integers(x, y),
    ScalarFunction.DIVIDE_WIDE: lambda spelling, x, y: spelling.divide_wide_integers(x, y),
    ScalarFunction.MEMBERS_BELOW: lambda spelling, number_set, x: spelling.members_below(number_set, x),
    ScalarFunction.FLOOR: lambda spelling, x: spelling.floor(x),
    ScalarFunction.CEILING: lambda spelling, x: spelling.ceiling(x),
    ScalarFunction.TRUNCATE: lambda spelling, x: spelling.truncate(x),
    ScalarFunction.HALF_AWAY: lambda spelling, x: spelling.round_half_away(x),
    ScalarFunction.NEAREST: lambda spelling, x: spelling.nearest_integer(x),
    ScalarFunction.TOWARD_ZERO: lambda spelling, x: spelling.toward_zero(x),
    ScalarFunction.LIKE: lambda spelling, x, pattern: spelling.like(x, pattern),
    ScalarFunction.MATCHES: lambda spelling, x, grammar, *anchors: spelling.matches(x, grammar, *anchors),
    ScalarFunction.GROUP: lambda spelling, x, pattern, number: spelling.group_of_whole_match(x, pattern, number),
    ScalarFunction.READ: lambda spelling, x, kind: spelling.read(x, kind),
    ScalarFunction.LOWER: lambda spelling, x: spelling.lower(x),
    ScalarFunction.UPPER: lambda spelling, x: spelling.upper(x),
    ScalarFunction.TRIM: lambda spelling, x, letters, start, end: spelling.trim(x, letters, start, end),
    ScalarFunction.SLICE: lambda spelling, x, first, count: spelling.slice(x, first, count),
    ScalarFunction.GROUP_CODE: lambda spelling, x, *texts: spelling.group_code(x, *texts),
    ScalarFunction.ORDINAL: lambda spelling, x, *texts: spelling.ordinal(x, *texts),
    ScalarFunction.UNIT_TEXT: lambda spelling, x: spelling.unit_text(x),
    ScalarFunction.FINGERPRINT: lambda spelling, x: spelling.fingerprint(x),
    ScalarFunction.HASH: lambda spelling, x: spelling.hash(x),
    ScalarFunction.ELEMENT: lambda _, x, index: f"{x}[{index}]",
    ScalarFunction.PART: lambda spelling, x, part: spelling.part(x, part),
    ScalarFunction.START: lambda spelling, x, unit, kind: spelling.start(x, unit, kind),
    ScalarFunction.MOVED: lambda spelling, x, amount, unit, kind: spelling.add_interval(x, amount, unit, kind),
    ScalarFunction.DAYS: lambda spelling, first, last: spelling.days(first, last),
    ScalarFunction.SECONDS: lambda spelling, x: spelling.seconds(x),
    ScalarFunction.MOMENT: lambda spelling, x: spelling.moment(x),
}
