"""The comparison of a synthetic table with the real one. NOT FOR PUBLICATION.

The figures of a comparison as one value, and their rendering as text and as a self-contained HTML page.

NOT FOR PUBLICATION.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.engine.inspecting import PairedTables, paired_tables, read_all_rows, tables
from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError, ValueWords
from sfumato.plots.bars import bar_panels, paired_bars
from sfumato.plots.frame import ChartData, Drawing, unframed_picture
from sfumato.plots.heat_maps import MAX_ROWS, HeatMapGrid, heat_map
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import FIRST as REAL, SECOND as SYNTHETIC
from sfumato.policy import Policy, Table, Type, read
from sfumato.privacy.numbers import exact_integer
from sfumato.publish.marginals.attributes import Attribute, coded_attribute, measurable_column_names
from sfumato.publish.scoring import code_candidate
from sfumato.publish.synopsis import cell_keys
from sfumato.quality.distances import (
    CAVEAT,
    CodedTable,
    ColumnSet,
    MarginalSummary,
    NearestRows,
    associations,
    correlations,
    distances,
    nearest_rows,
    summarise_marginals,
)
from sfumato.quality.learning import (
    CommonColumn,
    PredictionScores,
    Propensity,
    common_columns,
    prediction_scores,
    propensity,
)
from sfumato.quick_dataclass import dataclass

HEADING = "NOT FOR PUBLICATION: exact figures about private rows, not protected by noise. For the data owner only."
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ComparedColumn:
    """The distribution of one column over its cells, in each table."""

    name: str
    type: str
    labels: tuple[str, ...]
    real: tuple[float, ...]
    """The share of real rows in each cell."""
    synthetic: tuple[float, ...]
    """The share of synthetic rows in each cell."""
    variation: float
    """The total variation distance of the two."""


@dataclass(frozen=True)
class QualityFigures:
    """All figures of a comparison of a synthetic table with the real one: every one is exact and PRIVATE."""

    real_rows: int
    synthetic_rows: int
    columns: tuple[ComparedColumn, ...]
    left_out: tuple[tuple[str, ...], tuple[str, ...]]
    """The columns that only the real table has, and only the synthetic one."""
    cells: str
    """How the cells were chosen, in words."""
    ways: tuple[MarginalSummary, ...]
    """Distances of 1-, 2- and 3-way marginals."""
    pairs: Matrix
    """The total variation of every pair of columns; single columns on the diagonal."""
    associations: tuple[Matrix, Matrix]
    """Cramér's V of every pair of columns, in the real table and in the synthetic one."""
    numbers: tuple[str, ...]
    """The columns of numbers and times."""
    correlations: tuple[Matrix, Matrix]
    """Correlations of ``numbers`` in each table."""
    propensity: Propensity
    nearest: NearestRows | None
    learning: PredictionScores | None = None

    @property
    def score(self) -> float:
        """NIST's k-marginal score, from 0 to 1000, over 3-way marginals, or over all columns if there are fewer."""
        return self.ways[-1].score

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


_MAX_OVERLAYS, _MAX_OVERLAY_CELLS, _MAX_NAMES = 6, 25, MAX_ROWS
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #333a45; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.private { border: 2px solid #b03a2e; color: #b03a2e; padding: .5rem .8rem; font-weight: 600; }
table { border-collapse: collapse; } td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
svg { max-width: 100%; height: auto; } .key { display: inline-block; width: .8em; height: .8em; }
figure { margin: 1rem 0; } .beside { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem; }
figcaption { color: #6a7382; }
"""


def figure_lines(figures: QualityFigures) -> list[tuple[str, str]]:
    """Return all figures as lines of text: a name, and its description."""
    only_real, only_synthetic = figures.left_out
    lines = [
        ("rows", f"{figures.real_rows:,} real, {figures.synthetic_rows:,} synthetic"),
        ("columns", f"{len(figures.columns)} in both tables: {_join_names(figures.names)}"),
        *([("only in real", _join_names(only_real))] if only_real else []),
        *([("only in synthetic", _join_names(only_synthetic))] if only_synthetic else []),
        ("cells", figures.cells),
        ("k-marginal score", f"{figures.score:.0f} of 1000 (NIST), over marginals of {figures.ways[-1].ways} columns"),
    ]
    for summary in figures.ways:
        complete = summary.compared == summary.sets
        over = f"{summary.compared:,}" if complete else f"{summary.compared:,} of {summary.sets:,}"
        worst = f"worst {summary.worst:.4f} for {' × '.join(summary.worst_columns)}"
        lines.append((f"{summary.ways}-way distance", f"mean {summary.mean:.4f} over {over} marginals; {worst}"))
    lines += [
        *_association_lines(figures),
        *_propensity_line(figures),
        *_learning_line(figures),
        *_nearest_line(figures),
    ]
    return lines


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")


def _association_lines(figures: QualityFigures) -> Iterator[tuple[str, str]]:
    for statistic, names, matrices in (
        ("Cramér's V", figures.names, figures.associations),
        ("correlations", figures.numbers, figures.correlations),
    ):
        differences = [
            (abs(matrices[1][row][column] - matrices[0][row][column]), row, column)
            for row in range(len(names))
            for column in range(row)
        ]
        if differences:
            largest, row, column = max(differences)
            mean = sum(difference for difference, *_ in differences) / len(differences)
            values = f"{matrices[0][row][column]:.3f} real, {matrices[1][row][column]:.3f} synthetic"
            worst_pair = f"{names[column]} × {names[row]}"
            yield statistic, f"differ by {mean:.4f} on average, by at most {largest:.4f}: {worst_pair} ({values})"


def _propensity_line(figures: QualityFigures) -> Iterator[tuple[str, str]]:
    score = figures.propensity
    words = f"{score.pmse:.5f}; {score.ratio:.1f} times that of two samples of one population"
    yield "pMSE", f"{words} ({score.rows:,} rows, {score.parameters:,} parameters)"


def _learning_line(figures: QualityFigures) -> Iterator[tuple[str, str]]:
    prediction = figures.learning
    if prediction is not None:
        words = f"{prediction.synthetic:.3f} trained on synthetic rows, {prediction.real:.3f} on real rows"
        yield f"AUC of {prediction.target}", f"{words}; tested on {prediction.rows:,} other real rows"


def _nearest_line(figures: QualityFigures) -> Iterator[tuple[str, str]]:
    nearest = figures.nearest
    if nearest is not None:
        median = nearest.shares.index(0.5)
        copies = f"{nearest.copies:.1%} of synthetic rows equal a real row (real rows: {nearest.real_copies:.1%})"
        distance = f"median distance of {nearest.rows:,} rows to the nearest of {nearest.among:,} real rows: "
        distance += f"{nearest.synthetic[median]:.4f} (real rows: {nearest.real[median]:.4f})"
        yield "nearest real row", f"{copies}; {distance}; {CAVEAT}"


# ── the page ───────────────────────────────────────────────────────────────────────────────────


def quality_page(figures: QualityFigures) -> str:
    """Render the whole page."""
    head = '<meta charset="utf-8"><meta name="robots" content="noindex">'
    title = "<title>Synthetic and real data: not for publication</title>"
    inner = f"<h1>Comparison of synthetic and real data</h1>{quality_body(figures)}"
    return (
        f"<!doctype html><html lang=en><head>{head}{title}<style>{_STYLE}</style></head><body>{inner}</body></html>\n"
    )


def quality_body(figures: QualityFigures) -> str:
    """Render the figures in words and the plots, as a notebook shows them."""
    private = f'<p class="private" style="color:#b03a2e;font-weight:600">{html.escape(HEADING)}</p>'
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(words)}</td></tr>" for name, words in figure_lines(figures)
    )
    return f"{private}<table>{rows}</table>{''.join(_plot_sections(figures))}{private}"


def _plot_sections(figures: QualityFigures) -> Iterator[str]:
    by_distance = sorted(figures.columns, key=lambda column: -column.variation)[:_MAX_NAMES]
    yield _figure_section(
        "Distance of each column",
        _distance_bars(by_distance),
        "Total variation of each single column: the share of rows that would have to move to another cell.",
    )
    yield f'<div class="beside">{"".join(_overlay_figures(by_distance[:_MAX_OVERLAYS]))}</div>'
    if len(figures.columns) > 1:
        yield _figure_section(
            "Distance of each pair of columns",
            _pair_heat_map(figures.names, figures.pairs),
            "Total variation of every pair of columns; single columns on the diagonal. Hover for the numbers.",
        )
        yield _figure_section(
            "Association of columns",
            _pair_heat_map(figures.names, _synthetic_minus_real(figures.associations), signed=True),
            "Cramér's V in the synthetic table minus that in the real one: brown where an association was lost.",
        )
    if len(figures.numbers) > 1:
        yield _figure_section(
            "Correlations of numbers",
            _pair_heat_map(figures.numbers, _synthetic_minus_real(figures.correlations), signed=True),
            "Correlation in the synthetic table minus that in the real one.",
        )
    nearest = figures.nearest
    if nearest is not None:
        lines = [
            PlottedLine(name, tuple(100 * share for share in nearest.shares), tuple(values))
            for name, values in (("synthetic rows", nearest.synthetic), ("real rows, to another", nearest.real))
        ]
        words = f"Quantiles of the distance to the nearest real row. Note: {CAVEAT}."
        yield _figure_section("Nearest real row", line_chart(lines, LineAxes("", "% of the rows"), 260.0, 600.0), words)


def _overlay_figures(columns: Sequence[ComparedColumn]) -> Iterator[str]:
    legend = f'<span class="key" style="background:{REAL}"></span> real, '
    legend += f'<span class="key" style="background:{SYNTHETIC}"></span> synthetic'
    for column in columns:
        cells = sorted(range(len(column.labels)), key=lambda cell: -abs(column.real[cell] - column.synthetic[cell]))
        plotted_cells = sorted(cells[:_MAX_OVERLAY_CELLS])
        shares = [[distribution[cell] for cell in plotted_cells] for distribution in (column.real, column.synthetic)]
        omitted = (
            ""
            if len(plotted_cells) == len(cells)
            else f"; the {len(plotted_cells)} of {len(cells):,} cells that differ most"
        )
        names = [column.labels[cell] for cell in plotted_cells]
        picture = unframed_picture(paired_bars(names, ("real", "synthetic"), shares[0], shares[1])).svg
        caption = f"<figcaption>{legend}{omitted}</figcaption>"
        yield f"<figure><b>{html.escape(column.name)}</b><br>{picture}{caption}</figure>"


def _distance_bars(columns: Sequence[ComparedColumn]) -> Drawing:
    """Draw a bar for each column's total variation."""
    values = tuple(column.variation for column in columns)
    texts = tuple(f"{value:.3f}" for value in values)
    names = tuple(column.name for column in columns)
    return bar_panels([ChartData("total variation", "column", names, values, (None,) * len(values), texts)], 600.0)


def _pair_heat_map(names: Sequence[str], cells: Matrix, *, signed: bool = False) -> Drawing:
    """Draw a heat map of every pair of columns."""
    texts = tuple(tuple(f"{round(cell, 2) + 0.0:.2f}" for cell in row) for row in cells)
    values = tuple(tuple(row) for row in cells)
    return heat_map(HeatMapGrid("", tuple(names), tuple(names), values, texts, signed=signed))


def _synthetic_minus_real(matrices: tuple[Matrix, Matrix]) -> Matrix:
    return tuple(
        tuple(synthetic - real for real, synthetic in zip(real_row, synthetic_row, strict=True))
        for real_row, synthetic_row in zip(*matrices, strict=True)
    )


def _figure_section(title: str, drawing: Drawing, caption: str) -> str:
    picture = unframed_picture(drawing, title).svg
    return f"<h2>{html.escape(title)}</h2><figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"


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
