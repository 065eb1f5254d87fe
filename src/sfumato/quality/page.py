"""The figures of a comparison as one value, and their rendering as text and as a self-contained HTML page.

NOT FOR PUBLICATION.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from sfumato.plots.bars import bar_panels, paired_bars
from sfumato.plots.frame import Drawing, unframed_picture
from sfumato.plots.heat_maps import MAX_ROWS, HeatMapGrid, heat_map
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import FIRST as REAL, SECOND as SYNTHETIC
from sfumato.plots.scales import ChartData
from sfumato.quality.distances import CAVEAT, MarginalSummary, NearestRows
from sfumato.quality.learning import PredictionScores, Propensity
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
