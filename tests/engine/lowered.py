"""Expressions evaluated by DuckDB as the engine would: lowered, staged, and written through its spelling."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.engine.lowering.relational_form import CleanTable, Reference, Select, StagedSelect
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.spellings.duckdb import TYPES, DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.plan.values.expressions import Expression, columns
from sfumato.policy import Type, Value


def selected(expressions: Sequence[Expression], source: str = "(SELECT 1)", spelling: Spelling | None = None) -> str:
    """A SELECT of the expressions, as k0, k1, …, over whatever stands in FROM."""
    names = list(dict.fromkeys(name for each in expressions for name in columns(each)))
    lowering = RowLowering({name: Reference(f"c{index}") for index, name in enumerate(names)})
    made = tuple((f"k{index}", lowering.lower(each)) for index, each in enumerate(expressions))
    read = tuple((f"c{index}", Reference(str(name), "r")) for index, name in enumerate(names))
    select = Select(read, CleanTable("t"), all_columns=not read)
    for level in lowering.take_new_stages():
        select = Select(tuple(level), select, all_columns=True)
    return Generator(spelling or DuckDBSpelling(), lambda _: source).statement(StagedSelect((), Select(made, select)))


def constant(value: Value | None, kind: Type) -> str:
    return DuckDBSpelling().constant(value, kind)


__all__ = ["TYPES", "constant", "selected"]
