"""What to type instead of NTILE, PERCENT_RANK and CUME_DIST over rows of several people: quantiles of the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sfumato.plan.sql.text_positions import full_sql_text

MAX_LIMITS = 9
"""The most limits between groups that a question with released numbers reads: those of deciles."""
_MAX_PROPOSAL = 900
"""The longest statement that a fix repeats."""
_MARK = "ranked"


def rank_over_units_fix(node: exp.Window) -> str:
    """Propose the question with released quantiles in place of NTILE, or else the quantiles, as whole statements."""
    select, terms, levels = node.find_ancestor(exp.Select), _order_terms(node), _quantile_levels(node)
    is_grouping = isinstance(node.this, exp.Ntile) and len(levels) <= MAX_LIMITS
    if is_grouping and select is not None and len(terms) == 1 and not node.args.get("partition_by"):
        is_descending = bool(terms[0].args.get("desc"))
        groups = _groups_by_limits(select, full_sql_text(terms[0].this), levels, descending=is_descending)
        proposed = _with_groups(node, groups)
        if len(proposed) <= _MAX_PROPOSAL:
            return f"compare with released limits, so that equal values share a group: {proposed}"
    return quantiles_fix(node)


def quantiles_fix(node: exp.Window) -> str:
    """Propose the quantiles of the rows of a window, as a whole statement."""
    select, terms = node.find_ancestor(exp.Select), _order_terms(node)
    if select is None or len(terms) != 1:
        return "order by one column, and ask for its quantiles: QUANTILE_CONT(x, [0.25, 0.5, 0.75])"
    keys = "".join(f"{full_sql_text(key)}, " for key in node.args.get("partition_by") or [])
    item = f"{keys}QUANTILE_CONT({full_sql_text(terms[0].this)}, [{', '.join(_quantile_levels(node))}])"
    quantiles = _rows_with(select, item) + (f" GROUP BY {keys.removesuffix(', ')}" if keys else "")
    with_clause, own = node.root().args.get("with_"), select.find_ancestor(exp.CTE)
    others = [] if with_clause is None else [full_sql_text(cte) for cte in with_clause.expressions if cte is not own]
    prefix = f"WITH {', '.join(others)} " if others else ""
    return f"ask for the limits between groups: {prefix}{quantiles}"


def _order_terms(node: exp.Window) -> list[exp.Expr]:
    order = node.args.get("order")
    return [] if order is None else list(order.expressions)


def _quantile_levels(node: exp.Window) -> list[str]:
    """Return the shares of rows below the limits between groups: those of quarters where no number is written."""
    is_counted = isinstance(node.this, exp.Ntile) and node.this.name.isdecimal()
    count = int(node.this.name) if is_counted and 2 <= int(node.this.name) <= 100 else 4
    return [f"{index / count:.3g}" for index in range(1, count)]


def _groups_by_limits(select: exp.Select, value: str, levels: Sequence[str], *, descending: bool) -> str:
    """Write the number of a row's group: how many limits its value has reached, from 1."""
    comparison, ordered = (">", levels[::-1]) if descending else ("<", levels)
    limits = [_rows_with(select, f"QUANTILE_CONT({value}, {level})") for level in ordered]
    cases = [f"WHEN {value} {comparison} ({limit}) THEN {number}" for number, limit in enumerate(limits, 1)]
    return f"CASE {' '.join(cases)} ELSE {len(levels) + 1} END"


def _rows_with(select: exp.Select, item: str) -> str:
    """Write a SELECT of one item from the same rows."""
    rows = exp.Select(expressions=[exp.Var(this=item)])
    for part in ("from_", "joins", "where"):
        value = select.args.get(part)
        if value:
            rows.set(part, [join.copy() for join in value] if isinstance(value, list) else value.copy())
    return full_sql_text(rows)


def _with_groups(node: exp.Window, groups: str) -> str:
    """Write the whole question with the text of groups in place of a window."""
    node.meta[_MARK] = True
    question = node.root().copy()
    del node.meta[_MARK]
    for window in list(question.find_all(exp.Window)):
        if window.meta.get(_MARK):
            window.replace(exp.Var(this=groups))
    return full_sql_text(question)
