"""Whole PIVOT and UNPIVOT statements to propose, made of the table, columns and declared values of the question."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sfumato.plan.descriptions import literal_sql
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.text_positions import full_sql_text
from sfumato.policy import Domain, Type
from sfumato.quick_dataclass import dataclass

_SHOWN_VALUES = 4
"""The most values that a proposal lists."""
_SHOWN_COLUMNS = 2
"""The columns that a proposed UNPIVOT takes where the question names none."""


@dataclass(frozen=True)
class PivotedRows:
    """The rows that are pivoted: where they come from, and their columns with their domains."""

    source: exp.Expr
    ctes: tuple[exp.Expr, ...]
    """The common table expressions that the source may name."""
    domains: dict[str, Domain]
    private: bool
    """Whether they are rows of a table, which must be grouped."""

    def declared_column_name(self, name: str) -> str | None:
        """Return a column as it is declared; None where there is none of that name."""
        return next((column for column in self.domains if column.lower() == name.lower()), None)

    @property
    def with_clause_text(self) -> str:
        return f"WITH {', '.join(map(full_sql_text, self.ctes))} " if self.ctes else ""

    @property
    def source_text(self) -> str:
        return full_sql_text(self.source)


def pivot_fix(pivot: exp.Pivot, fields: Sequence[exp.Expr], aggregates: Sequence[exp.Expr], rows: PivotedRows) -> str:
    """Propose the PIVOT statement nearest to the question, with values that can be typed."""
    names = [(field.this if isinstance(field, exp.In) else field).name for field in fields]
    key = next(filter(None, map(rows.declared_column_name, (*names, *_columns_with_declared_values(rows)))), None)
    if key is None:
        return "write the values after IN, one aggregate after USING, and the columns of a row after GROUP BY"
    values = _typed_values(fields, key) or _example_values(rows.domains[key])
    used = ", ".join(map(full_sql_text, aggregates)) or _aggregate_fix(rows, key)
    read = {key.lower(), *(column.name.lower() for node in aggregates for column in node.find_all(exp.Column))}
    group = _group_by_fix(pivot, names, read, rows)
    source = rows.source_text if group or not rows.private else _subquery_fix(read, rows)
    return f"write {rows.with_clause_text}PIVOT {source} ON {quoted(key)} IN ({', '.join(values)}) USING {used}{group}"


def _subquery_fix(read: set[str], rows: PivotedRows) -> str:
    """Return a subquery of the columns that are read: a pivot of it has one row, and needs no group."""
    columns = ", ".join(quoted(name) for name in rows.domains if name.lower() in read)
    return f"(SELECT {columns} FROM {rows.source_text})"


def _group_by_fix(pivot: exp.Pivot, names: Sequence[str], read: set[str], rows: PivotedRows) -> str:
    """Return GROUP BY as it was typed; without one, by a column with declared values, whose groups are certain."""
    group = pivot.args.get("group")
    if group is not None and all(isinstance(item, exp.Column) for item in group.expressions):
        return f" {full_sql_text(pivot.args['group']).strip()}"
    typed_first = sorted(
        _columns_with_declared_values(rows), key=lambda name: name.lower() not in {typed.lower() for typed in names}
    )
    chosen = next((name for name in typed_first if name.lower() not in read), None)
    return "" if chosen is None else f" GROUP BY {quoted(chosen)}"


def _columns_with_declared_values(rows: PivotedRows) -> list[str]:
    """Return the columns whose values are declared."""
    return [name for name, domain in rows.domains.items() if domain.values or domain.type is Type.BOOLEAN]


def _typed_values(fields: Sequence[exp.Expr], key: str) -> list[str]:
    """Return the values that the question lists, where all of them are values."""
    typed = [
        field.expressions for field in fields if isinstance(field, exp.In) and field.this.name.lower() == key.lower()
    ]
    items = typed[0][:_SHOWN_VALUES] if typed else []
    is_valid = all(isinstance(item.unalias(), (exp.Literal, exp.Boolean)) for item in items)
    return [item.sql(dialect="duckdb") for item in items] if is_valid else []


def _example_values(domain: Domain) -> list[str]:
    """Return values to type: the declared ones, the ends of the bounds, or invented ones."""
    if domain.type is Type.BOOLEAN:
        return ["TRUE", "FALSE"]
    invented: tuple[object, ...] = ("a", "b") if domain.type is Type.TEXT else (1, 2)
    values = (domain.values or domain.bounds or invented)[:_SHOWN_VALUES]
    return [literal_sql(value, domain.type) for value in values]


def _aggregate_fix(rows: PivotedRows, key: str) -> str:
    """Return an aggregate for a question without one."""
    numeric = [name for name, domain in rows.domains.items() if domain.type.numeric and name.lower() != key.lower()]
    return "COUNT(*)" if rows.private or not numeric else f"SUM({quoted(numeric[-1])})"


def unpivot_fix(chosen: Sequence[str], rows: PivotedRows) -> str:
    """Propose the UNPIVOT statement nearest to the question, over aggregated rows."""
    named = [name for name in rows.domains if name.lower() in {column.lower() for column in chosen}]
    numeric = [
        name for name, domain in rows.domains.items() if domain.type.numeric and (domain.range or not rows.private)
    ]
    columns = named or numeric[-_SHOWN_COLUMNS:] or list(rows.domains)[-1:]
    if not columns:
        return "write UNPIVOT over a subquery that aggregates, ON the columns that it selects"
    shown = ", ".join(map(quoted, columns))
    source = f"({_aggregated_fix(columns, numeric, rows)})" if rows.private else rows.source_text
    return f"write {rows.with_clause_text}UNPIVOT {source} ON {shown} INTO NAME name VALUE value"


def _aggregated_fix(columns: Sequence[str], numeric: Sequence[str], rows: PivotedRows) -> str:
    """Return the SELECT of one aggregate of each column, all of the same type."""
    function = "AVG" if set(columns) <= set(numeric) else "COUNT"
    items = (f"{function}({quoted(name)}) AS {quoted(name)}" for name in columns)
    return f"SELECT {', '.join(items)} FROM {rows.source_text}"
