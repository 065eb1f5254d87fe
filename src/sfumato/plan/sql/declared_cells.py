"""Lower the conditions that a policy declares impossible for the rows of a table."""

from __future__ import annotations

from sqlglot import exp

from sfumato.errors import InvalidPolicy, Unsupported
from sfumato.plan.sql.fragments import nodes_outside_subqueries, parse_expression
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text_positions import suggest_name
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions.declaring import require_boolean
from sfumato.policy import Table
from sfumato.policy.codings import CELLS_RULE


def impossible_row_conditions(table: Table) -> tuple[Expression, ...]:
    """Return the conditions that no row of a table meets; refuse anything but conditions on one row's coded columns."""
    return tuple(
        _lower_impossible_condition(table, text, f"tables.{table.name}.impossible[{index}]")
        for index, text in enumerate(table.impossible)
    )


def _lower_impossible_condition(table: Table, text: str, policy_path: str) -> Expression:
    try:
        tree = parse_expression(text)
        if any(isinstance(part, exp.Query) for part in nodes_outside_subqueries(tree)[1:]):
            raise Unsupported(
                "subquery", "this condition can only read columns of the same row", fix="leave out the subquery"
            )
        return require_boolean(lower_expression(tree, lambda qualifier, name: _coded_column(table, qualifier, name)))
    except Unsupported as refusal:
        rule, fix = refusal.rule.removesuffix(f" [{refusal.code}]"), refusal.fix
    raise InvalidPolicy(rule, place=policy_path, fix=fix)


def _coded_column(table: Table, qualifier: str | None, name: str) -> Expression:
    columns_by_name = {column.lower(): column for column in table.columns}
    if qualifier is not None and qualifier.lower() != table.name.lower():
        raise Unsupported(
            "unknown-alias",
            f"no table in this question is named {qualifier[:60]}",
            fix="write column names without a table",
        )
    if name.lower() not in columns_by_name:
        rule = f"the policy declares no column named {name[:60]}"
        raise Unsupported("unknown-column", rule, fix=suggest_name(name, table.columns))
    column = columns_by_name[name.lower()]
    if not table.is_coded(column):
        rule = f"{column} has no values or bins to count by: {CELLS_RULE}"
        raise Unsupported("uncoded-column", rule, fix=f"add values or bins to {table.name}.{column} in the policy")
    return Column(Field(0, table.name, column), table.columns[column])
