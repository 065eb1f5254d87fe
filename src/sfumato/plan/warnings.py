"""Warnings about values that the policy does not declare, derived from the policy and the plan alone.

A cell that is none of its column's declared values is missing (NULL) once it is scanned, unless the column names an
``other``. So a condition that such a cell would meet loses its row, a group that is not there for NULL loses it too,
and a literal that is no declared value is met by no row. A number or a date beyond its column's bounds counts as the
bound, so a condition that reaches beyond them says nothing about the row. None of it depends on data, and none of it
costs anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from sfumato.plan.aggregates.measures import AggregateRequest, ReadingKind
from sfumato.plan.aggregates.value_measures import Quantile
from sfumato.plan.costs import MAX_PARTS, evaluated_expressions
from sfumato.plan.descriptions import typed_sql
from sfumato.plan.nodes import LimitRowsPerUnit, PublicJoin, Query, relations
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Field,
    Key,
    Literal,
    columns,
    expression_size,
    walk,
)
from sfumato.plan.values.functions import is_never_null
from sfumato.plan.values.narrowing import as_comparison
from sfumato.policy import Domain, Policy, Type
from sfumato.quick_dataclass import dataclass

_EQUAL = ("=", "IN")
_TESTS = ("=", "IN", "<>", "<", "<=", ">", ">=", "BETWEEN", "LIKE", "ILIKE", "STARTS_WITH", "IS NULL")
VALUE_READINGS = (ReadingKind.DIFFERENT, ReadingKind.FREQUENT)
"""Readings that count or select values: a row with an undeclared value has none of them."""
_MAX_WARNINGS = 10
"""The most warnings shown: a query with more of them repeats itself."""


def undeclared_value_warnings(query: Query, policy: Policy | None = None) -> tuple[str, ...]:
    """Warn about literals that no row equals, and about rows that conditions and groups leave out or mistake for
    others.
    """
    plan, finish = query.plan, query.finish
    public = frozenset(node.source for node in relations(plan.source) if isinstance(node, PublicJoin))
    warnings = UndeclaredValueWarnings(public, _account_columns(policy))
    output_expressions = [
        *(output.expression for output in finish.outputs),
        *(term.expression for term in finish.order),
    ]
    having = _with_key_expressions([] if finish.having is None else [finish.having], plan.keys)
    displayed = _with_key_expressions(output_expressions, plan.keys)
    evaluated = [*evaluated_expressions(plan), *having]
    sentences = [
        sentence for expression in (*evaluated, *displayed) for sentence in warnings.literal_warnings(expression)
    ]
    sentences += [
        sentence for expression in evaluated for sentence in warnings.left_out_row_warnings(expression, positive=True)
    ]
    sentences += [
        sentence for expression in (*evaluated, *displayed) for sentence in warnings.default_warnings(expression)
    ]
    sentences += warnings.uncounted_row_warnings(
        [measure.value for measure in plan.measures if measure.reads in VALUE_READINGS]
    )
    sentences += _tied_quantile_warnings(plan.measures)
    sentences += _joined_row_limit_warnings(query)
    sentences += [
        *warnings.ungrouped_row_warnings(plan.keys),
        *(sentence for key in plan.keys for sentence in warnings.group_default_warnings(key)),
    ]
    return tuple(dict.fromkeys(sentences))[:_MAX_WARNINGS]


def _account_columns(policy: Policy | None) -> dict[tuple[str, str], str]:
    """Return the columns by which rows belong to accounts, with the period of these."""
    per = None if policy is None else policy.per
    if policy is None or per is None:
        return {}
    columns = {table: policy.period_column(table) for table in policy.tables}
    return {(table, column): per for table, column in columns.items() if column is not None}


def _joined_row_limit_warnings(query: Query) -> list[str]:
    """Warn about rows of a joined table that are cut before the policy's limit is reached."""
    cuts = {
        node.rows: node.input.limits.rows
        for node in relations(query.plan.source)
        if isinstance(node, LimitRowsPerUnit) and node.rows < node.input.limits.rows
    }
    return [
        f"at most {rows:,} rows of one unit count in a joined table, fewer than the {declared:,} that max_rows allows"
        for rows, declared in cuts.items()
    ]


def _tied_quantile_warnings(measures: Sequence[AggregateRequest]) -> list[str]:
    """Warn about quantiles whose rank errors assume few ties: rows tied with a quantile lie on both sides of it by a
    fixed share, and the other quantiles are searched among those.
    """
    inner_quantiles = [measure for measure in measures if isinstance(measure, Quantile) and 0 < measure.probability < 1]
    shared_readings = [
        quantile
        for quantile in inner_quantiles
        if len({other.probability for other in inner_quantiles if other.reading_key == quantile.reading_key}) > 1
    ]
    operand_texts = dict.fromkeys(typed_sql(quantile.ranked_expression) for quantile in shared_readings)
    consequence = "the ranks of the others may be off by up to k more"
    return [f"If k rows share the value of one quantile of {operand}, {consequence}." for operand in operand_texts]


@dataclass(frozen=True)
class UndeclaredValueWarnings:
    """The warnings about the expressions of one query."""

    public: frozenset[int]
    """The source numbers of public tables, whose columns are known in full."""
    account_columns: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The period of an account, by table and name of each column that says to which account a row belongs."""

    def literal_warnings(self, expression: Expression) -> Iterator[str]:
        for node in walk(expression):
            comparison = as_comparison(node) if isinstance(node, Call) else None
            if comparison is None or not isinstance(node, Call) or not _reads_only_fields(comparison.operand):
                continue
            operator, operand, values = comparison
            if operator in ("=", "<>", "IN"):
                literal_arguments = [
                    argument
                    for argument in node.arguments
                    if isinstance(argument, Literal) and argument.value is not None
                ]
                yield from (
                    _unmatched_literal_warning(operand, value_literal)
                    for value_literal in literal_arguments
                    if _never_equals(operand.domain, value_literal.value)
                )
            elif operand.domain.bounds is not None:
                yield from self._out_of_range_warnings(node, operator, operand, values)

    def _out_of_range_warnings(
        self, comparison: Call, operator: str, operand: Expression, values: Sequence[Any]
    ) -> Iterator[str]:
        """Warn about a comparison that reaches beyond the range of its operand."""
        low, high = operand.domain.bounds or (None, None)
        first, last = values[0], values[-1]
        is_never_met = {"<": first <= low, "<=": first < low, ">": first >= high, ">=": first > high}.get(
            operator, last < low or first > high or first > last
        )
        is_outside = any(not low <= value <= high for value in values)
        column = _compared_column(operand)
        if column is None:
            if is_never_met:
                read = ", ".join(map(str, columns(operand)))
                yield f"With the declared values of {read}, no row can meet {typed_sql(comparison)}."
        elif (
            (is_never_met or is_outside)
            and isinstance(column.reference, Field)
            and column.reference.source not in self.public
        ):
            consequence = "no row meets" if is_never_met else "they meet" if operator != "BETWEEN" else "they may meet"
            clamping = f"Values of {column.reference} outside its declared bounds count as the nearest bound"
            period = self.account_columns.get((column.reference.table, column.reference.name))
            if period is not None:
                clamping = (
                    f"Rows with {column.reference} outside its declared bounds are left out, except in the {period} of "
                    "a bound, where they count as the bound"
                )
            if not column.reference.table:
                clamping = f"Values of {column.reference} outside its range count as the nearest end of the range"
            yield f"{clamping}: {consequence} {typed_sql(comparison)}."

    def left_out_row_warnings(self, expression: Expression, *, positive: bool) -> Iterator[str]:
        """Warn about the rows that each condition leaves out; ``positive`` unless it stands under a NOT."""
        if not isinstance(expression, Call):
            return
        if expression.function in _TESTS:
            if not is_never_null(expression) or expression.function == "IS NULL":
                yield from self._lost_row_warnings(expression, positive)
            return
        is_positive = not positive if expression.function in ("NOT", "IS FALSE") else positive
        for argument in expression.arguments:
            yield from self.left_out_row_warnings(argument, positive=is_positive)

    def _lost_row_warnings(self, condition: Call, is_positive: bool) -> Iterator[str]:
        """Warn about lost rows: an undeclared value equals no declared one, so only a plain equality is right
        about it.
        """
        is_plain = all(isinstance(argument, (Column, Literal)) for argument in condition.arguments)
        if condition.function in _EQUAL and is_positive and is_plain:
            return
        for column in self.columns_without_default(condition):
            if condition.function == "IS NULL":
                yield f"Undeclared values of {column} count as NULL."
            else:
                clause = typed_sql(condition) if is_positive else f"NOT {typed_sql(condition)}"
                yield f"Rows with an undeclared value of {column} never meet {clause}, so they are left out."

    def default_warnings(self, expression: Expression) -> Iterator[str]:
        """Warn about conditions that replace undeclared values by a default; equality with other values is right about
        them.
        """
        stack: list[tuple[Expression, Call | None]] = [(expression, None)]
        while stack:
            node, condition = stack.pop()
            if not isinstance(node, Call):
                continue
            if condition is not None:
                yield from (
                    self._default_warning(node, default)
                    for default in self._coalesce_defaults(node)
                    if not _excludes_default(condition, node, default)
                )
            inner_condition = node if node.function in _TESTS else condition
            stack.extend((argument, inner_condition) for argument in reversed(node.arguments))

    def _coalesce_defaults(self, expression: Expression) -> list[Literal]:
        """Return the literal that COALESCE replaces NULLs of a column with declared values by."""
        if (
            not isinstance(expression, Call)
            or expression.function != "COALESCE"
            or not self._private_columns_with_values(expression)
        ):
            return []
        return [
            argument
            for argument in expression.arguments[1:]
            if isinstance(argument, Literal) and argument.value is not None
        ][:1]

    def _default_warning(self, expression: Expression, default: Literal) -> str:
        column_names = ", ".join(self._private_columns_with_values(expression))
        return f"Undeclared values of {column_names} count as {typed_sql(default)} in {typed_sql(expression)}."

    def ungrouped_row_warnings(self, keys: Sequence[Expression]) -> Iterator[str]:
        """Warn, once for all keys, about rows that no group counts."""
        dropping_keys = [key for key in keys if not key.domain.nullable and not is_never_null(key)]
        lost_columns = list(
            dict.fromkeys(column for key in dropping_keys for column in self.columns_without_default(key))
        )
        if lost_columns:
            column_names = " or ".join(
                [", ".join(lost_columns[:-1]), lost_columns[-1]] if len(lost_columns) > 1 else lost_columns
            )
            yield f"Rows with an undeclared value of {column_names} are in no group."

    def uncounted_row_warnings(self, values: Sequence[Expression | None]) -> list[str]:
        """Warn about rows that have none of the counted or selected values."""
        lost_columns = dict.fromkeys(
            column for value in values if value is not None for column in self.columns_without_default(value)
        )
        return [
            f"Rows with an undeclared value of {column} do not count for any of its values." for column in lost_columns
        ]

    def group_default_warnings(self, key: Expression) -> Iterator[str]:
        """Warn about undeclared values that a key replaces by a default."""
        yield from (
            self._default_warning(node, default) for node in walk(key) for default in self._coalesce_defaults(node)
        )

    def _private_columns_with_values(self, expression: Expression) -> dict[str, None]:
        """Return the private columns read that have declared values and no ``other``."""
        return {
            str(node.reference): None
            for node in walk(expression)
            if isinstance(node, Column)
            and isinstance(node.reference, Field)
            and node.reference.source not in self.public
            and node.domain.values is not None
            and node.domain.other is None
            and node.domain.type is not Type.BOOLEAN
        }

    def columns_without_default(self, expression: Expression) -> dict[str, None]:
        """Return the columns with declared values whose undeclared ones are missing: no other value replaces them."""
        if is_never_null(expression) and not (isinstance(expression, Call) and expression.function == "IS NULL"):
            return {}
        if not isinstance(expression, Call):
            return self._private_columns_with_values(expression)
        return {name: None for argument in expression.arguments for name in self.columns_without_default(argument)}


def _with_key_expressions(expressions: Sequence[Expression], keys: Sequence[Expression]) -> list[Expression]:
    """Substitute the key expressions into expressions over groups; return none where that would be too long."""
    substituted = [_inline_key_expressions(expression, keys) for expression in expressions]
    return substituted if sum(map(expression_size, substituted)) <= MAX_PARTS else []


def _inline_key_expressions(expression: Expression, keys: Sequence[Expression]) -> Expression:
    if isinstance(expression, Column) and isinstance(expression.reference, Key):
        return keys[expression.reference.index]
    if not isinstance(expression, Call):
        return expression
    return replace(
        expression, arguments=tuple(_inline_key_expressions(argument, keys) for argument in expression.arguments)
    )


def _reads_only_fields(operand: Expression) -> bool:
    """Return whether it reads columns of tables alone: results have no declared range."""
    references = columns(operand)
    return bool(references) and all(isinstance(reference, Field) for reference in references)


def _compared_column(operand: Expression) -> Column | None:
    """Return the compared column, as it is or cast to a wider type."""
    inner = operand.arguments[0] if isinstance(operand, Call) and operand.function == "CAST" else operand
    is_widened = inner.domain.type in (Type.INTEGER, Type.DATE) and operand.domain.type in (Type.REAL, Type.TIMESTAMP)
    return inner if isinstance(inner, Column) and (inner is operand or is_widened) else None


def _never_equals(domain: Domain, value: Any) -> bool:
    """Return whether an expression with this domain never equals the value."""
    if domain.values is not None:
        return value not in domain.values
    return domain.bounds is not None and not domain.bounds[0] <= value <= domain.bounds[1]


def _unmatched_literal_warning(operand: Expression, value_literal: Literal) -> str:
    column = _compared_column(operand)
    if column is None:
        return f"{typed_sql(operand)} can never be {typed_sql(value_literal)}, so no row equals it."
    if column.domain.values is None:
        return f"{typed_sql(value_literal)} is outside the declared bounds of {column.reference}, so no row equals it."
    return f"{typed_sql(value_literal)} is not a declared value of {column.reference}, so no row equals it."


def _excludes_default(condition: Call, coalesce: Call, default: Literal) -> bool:
    comparison = as_comparison(condition)
    if comparison is None or comparison.operator not in ("=", "<>", "IN"):
        return False
    return comparison.operand is coalesce and default.value not in comparison.values
