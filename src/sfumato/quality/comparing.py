"""The comparison of a synthetic table with the real one. NOT FOR PUBLICATION."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.engine.inspecting import PairedTables, paired_tables, read_all_rows, tables
from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError, ValueWords
from sfumato.policy import Policy, Table, Type, read
from sfumato.privacy.numbers import exact_integer
from sfumato.publish.marginals.attributes import Attribute, coded_attribute, measurable_column_names
from sfumato.publish.scoring import code_candidate
from sfumato.publish.synopsis import cell_keys
from sfumato.quality.common_columns import CommonColumn, common_columns
from sfumato.quality.distances import (
    CodedTable,
    ColumnSet,
    associations,
    correlations,
    distances,
    nearest_rows,
    summarise_marginals,
)
from sfumato.quality.learning import prediction_scores, propensity
from sfumato.quality.page import (
    HEADING,
    ComparedColumn,
    Matrix,
    QualityFigures,
    figure_lines,
    quality_body,
    quality_page,
)
from sfumato.quick_dataclass import dataclass

MAX_BINS = 1_000


@dataclass(frozen=True, repr=False)
class Comparison(QualityFigures):
    """The differences between a synthetic table and the real one. Every number in it is exact and PRIVATE."""

    def to_json(self) -> str:
        """Serialise all figures as JSON text, with the heading that it is not for publication."""
        derived = {"heading": HEADING, "score": self.score, "propensity_ratio": self.propensity.ratio}
        return json.dumps(derived | asdict(self), ensure_ascii=False, allow_nan=False)

    def html(self) -> str:
        """Render all figures as one self-contained HTML page with plots."""
        return quality_page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the page to a file that only its owner can read (mode 0600)."""
        save_private(self.html(), path)

    def __str__(self) -> str:
        return "\n".join([HEADING, "", *(f"{name:<22} {words}" for name, words in figure_lines(self)), "", HEADING])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return quality_body(self)


def save_private(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file with mode 0600 atomically: to a temporary name in the same folder, then rename."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        partial.replace(target)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SfumatoError(
            f"the page cannot be written ({reason})",
            place=str(target),
            fix="name a file in an existing folder that you can write to, on a disk with free space",
        ) from None
    finally:
        partial.unlink(missing_ok=True)


# ── computing it ───────────────────────────────────────────────────────────────────────────────


def compare(
    real: Any,
    synthetic: Any,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    bins: int = 20,
    target: str | None = None,
) -> Comparison:
    """Compare a synthetic table with the real one, exactly: NOT FOR PUBLICATION.

    Both are paths (CSV, Parquet) or tables in memory. Cells are those of a ``policy``'s table, or without one the
    values and ``bins`` quantiles of the real table. With ``target``, that column is predicted from the others, which
    needs the extra ``quality``.
    """
    bin_count = exact_integer(bins, "bins", at_least=2)
    if bin_count > MAX_BINS:
        raise InvalidParameter("bins", bins, f"a whole number from 2 to {MAX_BINS:,}")
    policy_table = None if policy is None else _policy_table(policy, table)
    real, synthetic = _read_if_database_file(real, policy_table), _read_if_database_file(synthetic, None)
    both_tables = paired_tables(real, synthetic)
    if policy_table is None and table is not None:
        raise InvalidParameter(
            "table", table, "left out unless a policy is given", fix="pass policy=… too, or leave out table"
        )
    compared = _select_columns(both_tables, columns, policy_table)
    paired = common_columns(compared, bin_count)
    for rows, role in zip(compared.tables, ("real", "synthetic"), strict=True):
        if not rows.num_rows:
            fix = "check that you passed the right file or table"
            raise InvalidParameter(f"the {role} table", ValueWords("no rows"), "non-empty", fix=fix)
    coded = (
        _code_by_values(paired) if policy_table is None else _code_by_policy(policy_table, (real, synthetic), compared)
    )
    return _compute_comparison(both_tables, paired, coded, _describe_cells(policy_table, bin_count), target)


def _read_if_database_file(source: Any, policy_table: Table | None) -> Any:
    """Return a path as ``Path``; of a database file, read the policy's table, or the only table in it."""
    if not isinstance(source, (str, os.PathLike)):
        return source
    path = Path(source)
    if path.suffix.lower() not in (".duckdb", ".db") or not path.is_file():
        return path
    names = tables(path)
    relation = None if policy_table is None else policy_table.relation
    table_name = relation if relation is not None else names[0] if len(names) == 1 else None
    if table_name is None:
        raise InvalidPolicy(
            "this database file has several tables, so it is not clear which one to compare",
            place=str(path),
            fix=f"export one of them ({', '.join(names[:10])}) to a Parquet file, or pass a policy that names it",
        )
    return read_all_rows(path, table_name)


def _policy_table(policy: Policy | str | os.PathLike[str], table: str | None) -> Table:
    parsed = policy if isinstance(policy, Policy) else read(Path(policy))
    names = [name for name, declaration in parsed.tables.items() if not declaration.public]
    name = names[0] if table is None and len(names) == 1 else table
    if name not in names:
        raise InvalidParameter("table", table, f"one of the private tables: {', '.join(names)}")
    return parsed.tables[name]


def _select_columns(both_tables: PairedTables, columns: Sequence[str] | None, table: Table | None) -> PairedTables:
    """Select, from the columns of both tables, those requested or those for which the policy declares cells."""
    exact_name = {name.lower(): name for name in both_tables.kinds}
    selected = (
        list(both_tables.kinds)
        if table is None
        else [name for name in measurable_column_names(table) if name.lower() in exact_name]
    )
    if columns is not None:
        requested = [columns] if isinstance(columns, str) else list(columns)
        lacking = [name for name in requested if str(name).lower() not in {column.lower() for column in selected}]
        if lacking or not requested:
            raise InvalidParameter(
                "columns", lacking or columns, f"a list of names that both tables have: {', '.join(selected)}"
            )
        selected = list(dict.fromkeys(str(name) for name in requested))
    if not selected:
        rule = "one that declares values or bins for a column of both tables"
        raise InvalidParameter(
            "policy",
            table.name if table else None,
            rule,
            fix="add values = [...] or bins = [...] to a column in the policy, or leave out policy",
        )
    order = list(both_tables.kinds)
    names = [exact_name[name.lower()] for name in selected]
    indices = [order.index(name) for name in names]
    first, second = (rows.select(indices) for rows in both_tables.tables)
    return PairedTables({name: both_tables.kinds[name] for name in names}, (first, second), both_tables.left_out)


Cells = tuple[tuple[str, ...], tuple[tuple[str, ...], ...], CodedTable, CodedTable]
"""The names of columns, the labels of their cells, and the coded rows of both tables."""


def _code_by_values(columns: Sequence[CommonColumn]) -> Cells:
    sizes = tuple(column.size for column in columns)
    coded = [CodedTable(sizes, tuple(column.codes[table] for column in columns)) for table in (0, 1)]
    return tuple(column.name for column in columns), tuple(column.labels for column in columns), coded[0], coded[1]


def _code_by_policy(table: Table, sources: tuple[Any, Any], compared: PairedTables) -> Cells:
    """Code the rows of both tables into the cells that a policy declares."""
    exact_name = {name.lower(): name for name in table.columns}
    names = [exact_name[column.lower()] for column in compared.kinds]
    candidates = [
        code_candidate(source, table, names, role)
        for source, role in zip(sources, ("real table", "synthetic table"), strict=True)
    ]
    coded = [
        CodedTable(rows.sizes, tuple(map(_as_int64, rows.codes)), rows.totals.astype(np.float64)) for rows in candidates
    ]
    attributes = [coded_attribute(name, table.columns[name], table.codings.get(name)) for name in names]
    return tuple(names), tuple(map(_cell_labels, attributes)), coded[0], coded[1]


def _as_int64(codes: Any) -> Any:
    return codes.astype(np.int64)


def _cell_labels(attribute: Attribute) -> tuple[str, ...]:
    return tuple("missing or not listed" if key is None else str(key) for (key,) in cell_keys([attribute]))


def _describe_cells(table: Table | None, bins: int) -> str:
    if table is None:
        return f"values of the real table; {bins} quantiles for columns with more values"
    return f"those that the policy declares for {table.name}"


def _compute_comparison(
    tables: PairedTables, paired: tuple[CommonColumn, ...], cells: Cells, cell_source: str, target: str | None
) -> Comparison:
    names, labels, real, synthetic = cells
    learned = (
        None if target is None else prediction_scores(paired, target)
    )  # first: a missing extra is reported at once
    distances_by_ways = {ways: distances(real, synthetic, ways) for ways in range(1, min(3, len(names)) + 1)}
    numeric_columns = [column for column in paired if column.numbers is not None]
    types = [column.kind for column in paired]
    return Comparison(
        tables.tables[0].num_rows,
        tables.tables[1].num_rows,
        tuple(_compare_column(index, names, types, labels, cells, distances_by_ways[1]) for index in range(len(names))),
        tables.left_out,
        cell_source,
        tuple(summarise_marginals(marginals, names, ways) for ways, marginals in distances_by_ways.items()),
        _distance_matrix(len(names), distances_by_ways),
        (_as_matrix(associations(real)), _as_matrix(associations(synthetic))),
        tuple(column.name for column in numeric_columns),
        (_as_matrix(correlations(numeric_columns, 0)), _as_matrix(correlations(numeric_columns, 1))),
        propensity(paired),
        nearest_rows(paired),
        learned,
    )


def _compare_column(
    index: int,
    names: Sequence[str],
    types: Sequence[Type],
    labels: Sequence[tuple[str, ...]],
    cells: Cells,
    distances_by_column: dict[ColumnSet, float],
) -> ComparedColumn:
    *_, real, synthetic = cells
    shares = [
        np.bincount(table.codes[index], table.totals, table.sizes[index]) / table.rows for table in (real, synthetic)
    ]
    real_shares, synthetic_shares = (tuple(float(share) for share in histogram) for histogram in shares)
    distance = distances_by_column[(index,)]
    return ComparedColumn(names[index], types[index].value, labels[index], real_shares, synthetic_shares, distance)


def _distance_matrix(columns: int, distances_by_ways: dict[int, dict[ColumnSet, float]]) -> Matrix:
    matrix = np.diag([distances_by_ways[1][(column,)] for column in range(columns)])
    for (first, second), distance in distances_by_ways.get(2, {}).items():
        matrix[first, second] = matrix[second, first] = distance
    return _as_matrix(matrix)


def _as_matrix(matrix: Any) -> Matrix:
    return tuple(tuple(float(entry) for entry in row) for row in matrix)
