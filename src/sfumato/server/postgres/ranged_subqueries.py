"""Ranges as columns that an outer SELECT can name: what dashboards need for error bars.

A dashboard asks ``SELECT region, MAX(n_low) FROM (SELECT region, COUNT(*) AS n …) AS t GROUP BY region`` of a data set
that is a question. The question knows no column n_low; its answer has one. In a free database such a statement is
taken apart: the inner question is answered with its ranges, and the outer SELECT is computed over those rows, which are
released already: post-processing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlglot import exp

from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres import types
from sfumato.server.postgres.catalog.answering import parse_query
from sfumato.server.postgres.results import Result, ResultColumn, ResultColumns
from sfumato.server.postgres.synthetic_rows import SyntheticRows, write_table_files

_ENDS = ("_low", "_high")
_TABLE = "answer"


@dataclass(frozen=True)
class RangedSubquery:
    """A statement taken apart."""

    inner: str
    """The question."""
    outer: str
    """The statement around it, which reads the answer as a table."""

    def describe(self, columns: ResultColumns) -> ResultColumns:
        """Return the columns of the statement, from those of the question's answer."""
        with tempfile.TemporaryDirectory(prefix="sfumato-answer-") as folder:
            described = _engine_over_answer(Path(folder), columns, ()).describe(self.outer, ())
        return tuple(ResultColumn(each.name, each.oid) for each in described)

    def run(self, answer: Result) -> Result:
        """Return the rows of the statement, from the question's answer."""
        with tempfile.TemporaryDirectory(prefix="sfumato-answer-") as folder:
            computed = _engine_over_answer(Path(folder), answer.columns, answer.rows).run(self.outer, ())
        columns = tuple(ResultColumn(each.name, each.oid) for each in computed.columns)
        return Result(columns, computed.rows, answer.notices, answer.warnings)


def may_name_range_column(sql: str) -> bool:
    """Return False for a text that surely names no range, without parsing it."""
    return any(end in sql.lower() for end in _ENDS)


def split_ranged_subquery(sql: str) -> RangedSubquery | None:
    """Return the parts of a SELECT from one subquery that names a range of a column of it; None for any other text."""
    tree = parse_query(sql)
    source = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    subquery = None if source is None else source.this
    if not isinstance(subquery, exp.Subquery) or tree is None or tree.args.get("joins") or tree.find(exp.Parameter):
        return None
    inner = subquery.unnest()
    outputs = {name.lower() for name in inner.named_selects} if isinstance(inner, exp.Query) else set()
    names = {column.name.lower() for column in tree.find_all(exp.Column) if column.find_ancestor(exp.Subquery) is None}
    if not any(_is_range_column(name, outputs) for name in names - outputs):
        return None
    outer = tree.copy()
    alias = exp.TableAlias(this=exp.to_identifier(subquery.alias or _TABLE, quoted=True))
    outer.args["from_"].this.replace(exp.Table(this=exp.to_identifier(_TABLE), alias=alias))
    return RangedSubquery(inner.sql("postgres"), outer.sql("postgres"))


def _is_range_column(name: str, outputs: set[str]) -> bool:
    return any(name.endswith(end) and name.removesuffix(end) in outputs for end in _ENDS)


def _engine_over_answer(folder: Path, columns: ResultColumns, rows: Sequence[Sequence[Any]]) -> SyntheticRows:
    import pyarrow

    kinds = {
        types.INT8: pyarrow.int64(),
        types.FLOAT8: pyarrow.float64(),
        types.BOOL: pyarrow.bool_(),
        types.DATE: pyarrow.date32(),
        types.TIMESTAMP: pyarrow.timestamp("us"),
    }
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [
        pyarrow.array(part, kinds.get(each.oid, pyarrow.string())) for part, each in zip(cells, columns, strict=True)
    ]
    table = pyarrow.Table.from_arrays(arrays, [each.name for each in columns])
    return SyntheticRows(dict(write_table_files(folder, {_TABLE: table})))
