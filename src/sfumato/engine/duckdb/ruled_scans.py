"""Read the cells of a source by the rules of their columns, in DuckDB's SQL.

Texts are rewritten by the scalars that every engine computes (``sources.clean_cells``), in subselects that keep the
columns of the source. The scan then converts a rewritten cell as it does any text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sfumato.engine.duckdb.scan import INTEGER_TYPES, Cell, clean_cell
from sfumato.engine.lowering.relation_lowering import with_shared_columns
from sfumato.engine.lowering.relational_form import CleanTable, Reference, Scalar, ScalarFunction, Select, apply
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.sources.clean_cells import has_rewriting_rules, inner_bounds, is_listed_test, rewritten_text
from sfumato.engine.spellings.duckdb import DuckDBSpelling, literal, literal_list, real
from sfumato.engine.spellings.generator import Generator
from sfumato.plan.values.grammars import LONGEST
from sfumato.policy import Domain, Type
from sfumato.policy.cell_rules import CellRules
from sfumato.quick_dataclass import dataclass

_WHOLE_TEXTS = INTEGER_TYPES | {"UBIGINT"}


@dataclass(frozen=True)
class RuledCell:
    """A column of a source with its domain, and the rules by which its cells are read."""

    cell: Cell
    domain: Domain
    rules: CellRules

    @property
    def text(self) -> str | None:
        """The cell as a text that grammars may read; None if it is stored as neither text nor whole numbers."""
        text = self.cell.stored_text
        if text is None:
            return None
        return text if self.cell.family in _WHOLE_TEXTS else f"CASE WHEN strlen({text}) <= {LONGEST} THEN {text} END"

    @property
    def is_rewritten(self) -> bool:
        """Whether rules rewrite the cell; a whole number needs no separators of its own."""
        needs_no_rules = self.cell.family in _WHOLE_TEXTS and self.domain.type.numeric
        return self.text is not None and not needs_no_rules and has_rewriting_rules(self.rules, self.domain.type)

    @property
    def is_rewritten_text(self) -> bool:
        """Whether rules rewrite a listed text: one longer than any that rules read is compared as it is."""
        return self.domain.type is Type.TEXT and self.is_rewritten


def source_and_ruled_cells(source: str, names: Iterable[str], cells: Sequence[RuledCell]) -> tuple[str, list[Cell]]:
    """Return a source with further columns, and in them these cells as their rules read them.

    ``names`` are the columns of the source; added ones have other names.
    """
    prefix = _free_prefix(names)
    texts = [f"{ruled.text} AS {prefix}t{index}" for index, ruled in enumerate(cells) if ruled.text is not None]
    texts += [
        f"{ruled.cell.text.sql} AS {prefix}w{index}" for index, ruled in enumerate(cells) if ruled.is_rewritten_text
    ]
    base = f"(SELECT {', '.join(['*', *texts])} FROM {source})"
    rows = RowLowering({}, f"{prefix}x")
    columns = tuple(
        column for index, ruled in enumerate(cells) for column in _rewritten_columns(rows, ruled, prefix, index)
    )
    read = Generator(DuckDBSpelling(), lambda _: base).select(
        Select(columns, with_shared_columns(CleanTable("source"), rows), all_columns=True)  # type: ignore[arg-type]
    )
    results = [_RuledColumns(ruled, prefix, index) for index, ruled in enumerate(cells)]
    nulls = ", ".join(f"{ruled_columns.null_test_sql} AS {ruled_columns.is_null}" for ruled_columns in results)
    added = ", ".join(f"{sql} AS {name}" for ruled_columns in results for name, sql in ruled_columns.columns.items())
    return f"(SELECT *, {added} FROM (SELECT *, {nulls} FROM ({read})))", [
        ruled_columns.cell for ruled_columns in results
    ]


def _free_prefix(names: Iterable[str]) -> str:
    """Return a prefix that begins no name of a column, whatever its letter case."""
    taken = [name.lower() for name in names]
    prefixes = (f"sf_r{number}_" for number in range(len(taken) + 1))
    return next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in taken))


def _rewritten_columns(rows: RowLowering, ruled: RuledCell, prefix: str, index: int) -> Iterator[tuple[str, Scalar]]:
    """Yield the rewritten text of a cell, and whether its text is one that is missing."""
    text = Reference(f"{prefix}t{index}")
    if ruled.is_rewritten:
        reading = rewritten_text(rows, text, ruled.rules, ruled.domain.type)
        whole_text = Reference(f"{prefix}w{index}")
        whole = apply(ScalarFunction.COALESCE, reading, whole_text) if ruled.is_rewritten_text else reading
        yield f"{prefix}v{index}", whole
    if ruled.rules.nulls and ruled.text is not None:
        yield f"{prefix}n{index}", is_listed_test(text, ruled.rules.nulls)


@dataclass(frozen=True)
class _RuledColumns:
    """The columns that hold a cell as its rules read it."""

    ruled: RuledCell
    prefix: str
    index: int

    @property
    def cell(self) -> Cell:
        return Cell(
            f"{self.prefix}c{self.index}",
            self._cell_before_nulls.stored_type,
            presence=f"{self.prefix}p{self.index}",
            is_null=self.is_null,
            stored=self.ruled.cell,
        )

    @property
    def columns(self) -> dict[str, str]:
        """The SQL of the cell, NULL where it is missing, and whether it is there, by the names of their columns."""
        return {
            self.cell.sql: f"CASE WHEN {self.is_null} THEN NULL ELSE {self._cell_before_nulls.sql} END",
            self.cell.presence: f"({self.ruled.cell.sql} IS NOT NULL AND NOT {self.is_null})",
        }

    @property
    def is_null(self) -> str:
        """The column that says whether the rules call the cell missing."""
        return f"{self.prefix}m{self.index}"

    @property
    def _cell_before_nulls(self) -> Cell:
        return Cell(f"{self.prefix}v{self.index}", "VARCHAR") if self.ruled.is_rewritten else self.ruled.cell

    @property
    def null_test_sql(self) -> str:
        """The SQL of whether the rules call the cell missing, by its text or its value."""
        rules, kind = self.ruled.rules, self.ruled.domain.type
        tests = [f"{self.prefix}n{self.index}"] if rules.nulls and self.ruled.text is not None else []
        values = rules.null_values(kind)
        value = clean_cell(self._cell_before_nulls, Domain(kind))
        tests += [f"{value} IN ({literal_list(values)})"] if values else []
        null_tests = [f"coalesce({test}, FALSE)" for test in tests]
        null_tests += [] if rules.possible is None else [self._is_impossible_sql(value, rules.possible)]
        return f"({' OR '.join(null_tests) or 'FALSE'})"

    def _is_impossible_sql(self, value: str, ends: Any) -> str:
        """Return the SQL of whether a number or a time, however large, is not surely between these ends."""
        bounded, is_between = (
            clean_cell(self._cell_before_nulls, self.ruled.domain),
            _between_sql(value, self.ruled.domain.type, ends),
        )
        return f"({bounded} IS NOT NULL AND NOT coalesce({is_between}, FALSE))"


def _between_sql(value: str, sql_type: Type, ends: Any) -> str:
    low, high = map(real, inner_bounds(*ends)) if sql_type is Type.REAL else map(literal, ends)
    return f"{value} BETWEEN {low} AND {high}"
