"""Lower aggregates and window functions over noisy rows: all of it is free.

A window reads noisy rows: OVER (PARTITION BY … ORDER BY … ROWS BETWEEN … AND …), written out or named by WINDOW.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from sfumato.plan.noisy_rows import Frame, NoisyAggregate, NoisyWindow
from sfumato.plan.sql.dialect import function_name
from sfumato.plan.sql.text_positions import node_text, refusal_at
from sfumato.plan.values.expressions import Column, Expression, Order, WindowResult, noise_count
from sfumato.plan.values.functions.declaring import AS_NUMBER
from sfumato.policy import Domain, Type

Read = Callable[[exp.Expr], Expression]

ROW_TOTALS: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
}
PAIR_TOTALS: dict[type[exp.Expr], str] = {exp.Corr: "CORR", exp.RegrSlope: "REGR_SLOPE"}
_RANKS: dict[type[exp.Expr], str] = {
    exp.Rank: "RANK",
    exp.DenseRank: "DENSE_RANK",
    exp.RowNumber: "ROW_NUMBER",
    exp.PercentRank: "PERCENT_RANK",
    exp.CumeDist: "CUME_DIST",
    exp.Ntile: "NTILE",
}
_VALUES: dict[type[exp.Expr], str] = {
    exp.Lag: "LAG",
    exp.Lead: "LEAD",
    exp.FirstValue: "FIRST_VALUE",
    exp.First: "FIRST_VALUE",
    exp.LastValue: "LAST_VALUE",
    exp.Last: "LAST_VALUE",
    exp.NthValue: "NTH_VALUE",
}
TOTALS_FIX = "use COUNT, SUM, AVG, MIN, MAX, CORR or REGR_SLOPE, or compute it from the answer in pandas, which is free"
_WINDOW_FIX = (
    "use COUNT, SUM, AVG, MIN, MAX, LAG, LEAD, FIRST_VALUE, LAST_VALUE, RANK or NTILE with OVER (ORDER BY …), or "
    "compute it from the answer in pandas, which is free"
)
_FRAME_FIX = "write ROWS BETWEEN 6 PRECEDING AND CURRENT ROW; each group counts as one row"
MAX_OFFSET = 1_000_000


def lower_noisy_aggregate(node: exp.Expr, read: Read) -> tuple[NoisyAggregate, Domain]:
    """Lower an aggregate over noisy rows; return it with its domain."""
    where, aggregate = None, node
    if isinstance(node, exp.Filter):
        where, aggregate = read(node.expression.this), node.this
    if type(aggregate) in PAIR_TOTALS:
        return _lower_pair_aggregate(aggregate, where, read), Domain(Type.REAL, nullable=True)
    function, argument = _aggregate_name_and_argument(aggregate, read, TOTALS_FIX)
    return NoisyAggregate(function, argument, where), _aggregate_domain(function, argument)


def _lower_pair_aggregate(node: exp.Expr, where: Expression | None, read: Read) -> NoisyAggregate:
    """Lower CORR(y, x) or REGR_SLOPE(y, x) over noisy rows."""
    if node.args.get("expression") is None:
        fix = f"write both, y and x: {PAIR_TOTALS[type(node)]}(n, month)"
        raise refusal_at(node, "arguments", f"{node_text(node)} needs two arguments", fix)
    y, x = (read(part) for part in (node.this, node.expression))
    for part, operand in zip((node.this, node.expression), (y, x), strict=True):
        _check_number(PAIR_TOTALS[type(node)], operand, part)
    return NoisyAggregate(PAIR_TOTALS[type(node)], y, where, x)


def lower_noisy_window(node: exp.Window, read: Read) -> tuple[NoisyWindow, Domain]:
    """Lower a window over noisy rows; return it with its domain."""
    for part, value in node.args.items():
        if value and part not in ("this", "partition_by", "order", "over", "spec"):
            rule = "a window over aggregated rows takes PARTITION BY, ORDER BY and ROWS"
            raise refusal_at(node, "window", rule, "write OVER ([PARTITION BY …] [ORDER BY …] [ROWS BETWEEN … AND …])")
    partition = tuple(read(partition_node) for partition_node in node.args.get("partition_by") or ())
    for partition_node, partition_key in zip(node.args.get("partition_by") or (), partition, strict=True):
        check_noiseless_key(partition_key, partition_node, "PARTITION BY")
    order_terms = node.args["order"].expressions if node.args.get("order") else ()
    order = lower_window_order(order_terms, read)
    frame = _lower_frame(node, ordered=bool(order))
    function = _RANKS.get(type(node.this)) or _VALUES.get(type(node.this))
    if function is not None and not order:
        rule = f"{function} needs ORDER BY"
        raise refusal_at(node, "window", rule, f"write {_window_example(function)}")
    if type(node.this) in _RANKS:
        return _lower_rank_window(node.this, partition, order)
    if type(node.this) in _VALUES:
        return _lower_value_window(
            node.this, NoisyWindow(_VALUES[type(node.this)], None, partition, order, frame), read
        )
    function, argument = _aggregate_name_and_argument(node.this, read, _WINDOW_FIX)
    return NoisyWindow(function, argument, partition, order, frame), _aggregate_domain(function, argument)


def _window_example(function: str) -> str:
    argument = {"NTILE": "4", "NTH_VALUE": "n, 2"}.get(function, "n" if function in _VALUES.values() else "")
    return f"{function}({argument}) OVER (ORDER BY {'month' if function in _VALUES.values() else 'n DESC'})"


def _lower_rank_window(
    node: exp.Expr, partition: tuple[Expression, ...], order: tuple[Order, ...]
) -> tuple[NoisyWindow, Domain]:
    function = _RANKS[type(node)]
    is_share = function in ("PERCENT_RANK", "CUME_DIST")
    number = _parse_window_number(node, node.this, least=1) if function == "NTILE" else None
    return NoisyWindow(function, None, partition, order, number=number), Domain(Type.REAL if is_share else Type.INTEGER)


def _lower_value_window(node: exp.Expr, over: NoisyWindow, read: Read) -> tuple[NoisyWindow, Domain]:
    """Lower LAG, LEAD, FIRST_VALUE, LAST_VALUE or NTH_VALUE."""
    if node.this is None or node.args.get("expressions"):
        rule = f"{over.function} takes a column of the aggregated rows"
        raise refusal_at(node, "arguments", rule, f"write {_window_example(over.function)}")
    value, offset, default_node = read(node.this), node.args.get("offset"), node.args.get("default")
    number = None
    if offset is not None or over.function == "NTH_VALUE":
        number = _parse_window_number(node, offset, least=1 if over.function == "NTH_VALUE" else 0)
    default = None if default_node is None else read(default_node)
    if default_node is not None and default is not None and default.domain.type.numeric != value.domain.type.numeric:
        rule = f"the default of {over.function} must have the type of {node_text(node.this)}"
        raise refusal_at(default_node, "type-mismatch", rule, "write a default of the same type, or leave it out")
    domain = replace(value.domain, nullable=True)
    if default is not None and default.domain.type is Type.REAL:
        domain = Domain(Type.REAL, nullable=True)
    return replace(over, argument=value, number=number, default=default), domain


def _parse_window_number(node: exp.Expr, value: exp.Expr | None, *, least: int) -> int:
    written = value.this if isinstance(value, exp.Literal) and not value.is_string else ""
    if not written.isdigit() or not least <= int(written) <= MAX_OFFSET:
        rule = f"{function_name(node)} takes a whole number from {least} to {MAX_OFFSET:,} written in the question"
        raise refusal_at(node, "window", rule, f"write {_window_example((_RANKS | _VALUES)[type(node)])}")
    return int(written)


def _lower_frame(node: exp.Window, *, ordered: bool) -> Frame | None:
    """Lower ROWS BETWEEN … AND …; None where the frame is the default."""
    spec = node.args.get("spec")
    if spec is None:
        return None
    ends = _frame_offset_and_side(spec, "start"), _frame_offset_and_side(spec, "end")
    kind = str(spec.args.get("kind") or "").upper()
    if kind == "RANGE" and ends == ((None, "PRECEDING"), (0, "CURRENT")):
        return None
    if spec.args.get("exclude") or (kind != "ROWS" and ends != ((None, "PRECEDING"), (None, "FOLLOWING"))):
        rule = "with GROUP BY, a frame other than the default and the whole partition must be written with ROWS"
        excluding = "EXCLUDE is not supported in a frame"
        raise refusal_at(node, "frame", excluding if spec.args.get("exclude") else rule, _FRAME_FIX)
    if not ordered and any(offset is not None for offset, _ in ends):
        raise refusal_at(node, "frame", "ROWS needs ORDER BY: without it the rows have no order", "add ORDER BY <key>")
    (start, start_side), (end, end_side) = ends
    is_empty = (start is None and start_side == "FOLLOWING") or (end is None and end_side == "PRECEDING")
    if is_empty or (start is not None and end is not None and start > end):
        raise refusal_at(node, "frame", "the frame ends before it starts", _FRAME_FIX)
    return Frame(start, end)


def _frame_offset_and_side(spec: exp.Expr, end: str) -> tuple[int | None, str]:
    """Return the offset of a frame's end from the current row, None where it is unbounded, and its side."""
    value, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
    if value is None or value == "CURRENT ROW":
        return 0, "CURRENT"
    if value == "UNBOUNDED":
        return None, side
    if isinstance(value, exp.Literal) and value.this.isdigit() and int(value.this) <= MAX_OFFSET:
        return int(value.this) * (-1 if side == "PRECEDING" else 1), side
    rule = f"a ROWS frame takes whole numbers up to {MAX_OFFSET:,} written in the question"
    raise refusal_at(spec, "frame", rule, _FRAME_FIX)


def window_result_column(windows: dict[NoisyWindow, Column], window: NoisyWindow, domain: Domain) -> Column:
    """Return the column of a window; equal windows share one. A rank by keys has no noise."""
    noises = 1 if any(noise_count(expression) for expression in window.expressions) else 0
    return windows.setdefault(window, Column(WindowResult(len(windows), noises), domain))


def lower_window_order(order_nodes: Sequence[exp.Expr], read: Read) -> tuple[Order, ...]:
    """Lower ORDER BY inside a window."""
    for term in order_nodes:
        if not isinstance(term, exp.Ordered) or term.args.get("with_fill"):
            raise refusal_at(
                term, "order", "ORDER BY takes columns of the answer, with ASC or DESC", "name a column of the answer"
            )
    return tuple(
        Order(read(term.this), bool(term.args.get("desc")), bool(term.args.get("nulls_first"))) for term in order_nodes
    )


def check_noiseless_key(expression: Expression, node: exp.Expr, clause: str) -> None:
    """Refuse grouping by noisy values, so that the groups are certain."""
    if noise_count(expression):
        is_join = clause == "JOIN"
        noisy = "a noisy number" if expression.domain.type.numeric else "computed from noisy numbers"
        described = "compares noisy numbers" if is_join else f"is {noisy}"
        rule = f"{clause} over aggregated rows can use their group keys only, and {node_text(node)} {described}"
        fix = "join by group keys, such as ON a.month = b.month" if is_join else "group by a key of the inner SELECT"
        filtering = "to select rows by a noisy number n, write a condition such as WHERE n > 100"
        raise refusal_at(node, "noisy-key", rule, f"{fix}; {filtering}")


def _aggregate_name_and_argument(node: exp.Expr, read: Read, fix: str) -> tuple[str, Expression | None]:
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
        rule = f"{node_text(node)} over aggregated rows is not supported"
        raise refusal_at(node, "row-aggregate", rule, "leave out IGNORE NULLS and RESPECT NULLS")
    if isinstance(node, exp.Filter):
        rule = f"{node_text(node)} over aggregated rows is not supported: a window takes no FILTER"
        raise refusal_at(node, "row-aggregate", rule, "use CASE inside it: SUM(CASE WHEN … THEN n END) OVER (…)")
    if type(node) not in ROW_TOTALS or node.args.get("expressions") or isinstance(node.this, exp.Distinct):
        raise refusal_at(node, "row-aggregate", f"{node_text(node)} over aggregated rows is not supported", fix)
    function, argument_node = ROW_TOTALS[type(node)], node.this
    if function == "COUNT" and (argument_node is None or isinstance(argument_node, (exp.Star, exp.Literal))):
        return function, None
    argument = read(argument_node)
    if function != "COUNT":
        _check_number(function, argument, argument_node)
    return function, argument


def _check_number(function: str, argument: Expression, node: exp.Expr) -> None:
    if not argument.domain.type.numeric:
        rule = f"{function} needs a number; {node_text(node)} is {argument.domain.type.value}"
        raise refusal_at(node, "type-mismatch", rule, f"use COUNT, or {AS_NUMBER}")


def _aggregate_domain(function: str, argument: Expression | None) -> Domain:
    """Return the domain of an aggregate of noisy rows: without bounds, and nullable unless it is a count."""
    if function == "COUNT":
        return Domain(Type.INTEGER)
    is_integer = argument is not None and argument.domain.type is Type.INTEGER and function != "AVG"
    return Domain(Type.INTEGER if is_integer else Type.REAL, nullable=True)
