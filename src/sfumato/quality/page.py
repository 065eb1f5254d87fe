"""A comparison is told in words, and as one HTML page with pictures that needs nothing else.

The figures of a comparison are one value, which words and pictures are made of. NOT FOR PUBLICATION.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sfumato.plots.bars import FIRST as REAL, SECOND as SYNTHETIC, aligned, paired_bars
from sfumato.plots.frame import Drawing, bare
from sfumato.plots.heat_maps import MOST_ROWS, HeatMapGrid, heat_map
from sfumato.plots.lines import Panel, PlottedLine, panel
from sfumato.plots.scales import ChartData
from sfumato.quality.distances import Ways
from sfumato.quality.learning import Learning, Propensity
from sfumato.quality.nearest_rows import CAVEAT, NearestRows

HEADING = "NOT FOR PUBLICATION: exact figures about private rows, protected by no noise. For their owner alone."
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ComparedColumn:
    """This is how one column is spread over its cells, in each table."""

    name: str
    type: str
    labels: tuple[str, ...]
    real: tuple[float, ...]
    """The share of rows in each cell,"""
    synthetic: tuple[float, ...]
    variation: float
    """and half the sum of how far these are apart."""


@dataclass(frozen=True)
class QualityFigures:
    """These are all figures of how far a synthetic table is from the real one: every one is exact and PRIVATE."""

    real_rows: int
    synthetic_rows: int
    columns: tuple[ComparedColumn, ...]
    left_out: tuple[tuple[str, ...], tuple[str, ...]]
    """The columns that only the real table has, and only the synthetic one."""
    cells: str
    """Where the cells come from."""
    ways: tuple[Ways, ...]
    """How far marginals of one, two and three columns are apart."""
    pairs: Matrix
    """The total variation of every two columns, and on the diagonal of each one."""
    associations: tuple[Matrix, Matrix]
    """Cramér's V of every two columns, in the real table and in the synthetic one."""
    numbers: tuple[str, ...]
    """The columns of numbers and times,"""
    correlations: tuple[Matrix, Matrix]
    """and their correlations in each table."""
    propensity: Propensity
    nearest: NearestRows | None
    learning: Learning | None = None

    @property
    def score(self) -> float:
        """Give NIST's k-marginal score, from 0 to 1000, over the marginals of three columns, or of all where there are
        fewer.
        """
        return self.ways[-1].score

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.columns)


_SHOWN_COLUMNS, _SHOWN_CELLS, _SHOWN_NAMES = 6, 25, MOST_ROWS
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #333a45; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.private { border: 2px solid #b03a2e; color: #b03a2e; padding: .5rem .8rem; font-weight: 600; }
table { border-collapse: collapse; } td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
svg { max-width: 100%; height: auto; } .key { display: inline-block; width: .8em; height: .8em; }
figure { margin: 1rem 0; } .beside { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem; }
figcaption { color: #6a7382; }
"""


def told(found: QualityFigures) -> list[tuple[str, str]]:
    """Say everything in a line each: a name, and what it is."""
    one, other = found.left_out
    lines = [
        ("rows", f"{found.real_rows:,} real, {found.synthetic_rows:,} synthetic"),
        ("columns", f"{len(found.columns)} that both have: {_names(found.names)}"),
        *([("only in the real one", _names(one))] if one else []),
        *([("only in the synthetic", _names(other))] if other else []),
        ("cells", found.cells),
        ("k-marginal score", f"{found.score:.0f} of 1000 (NIST), over marginals of {found.ways[-1].ways} columns"),
    ]
    for each in found.ways:
        over = f"{each.compared:,}" if each.compared == each.sets else f"{each.compared:,} of {each.sets:,}"
        worst = f"worst {each.worst:.4f} of {' × '.join(each.worst_columns)}"
        lines.append((f"{each.ways}-way distance", f"mean {each.mean:.4f} over {over} marginals; {worst}"))
    lines += [*_associated(found), *_propensity(found), *_learned(found), *_nearest(found)]
    return lines


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")


def _associated(found: QualityFigures) -> Iterator[tuple[str, str]]:
    for name, names, both in (
        ("Cramér's V", found.names, found.associations),
        ("correlations", found.numbers, found.correlations),
    ):
        gaps = [
            (abs(both[1][one][other] - both[0][one][other]), one, other)
            for one in range(len(names))
            for other in range(one)
        ]
        if gaps:
            gap, one, other = max(gaps)
            mean = sum(each for each, *_ in gaps) / len(gaps)
            ends = f"{both[0][one][other]:.3f} real, {both[1][one][other]:.3f} synthetic"
            where = f"{names[other]} × {names[one]}"
            yield name, f"differ by {mean:.4f} in the mean, at most by {gap:.4f}: {where} ({ends})"


def _propensity(found: QualityFigures) -> Iterator[tuple[str, str]]:
    own = found.propensity
    words = f"{own.pmse:.5f}; {own.ratio:.1f} times what two samples of one population have"
    yield "pMSE", f"{words} ({own.rows:,} rows, {own.parameters:,} parameters)"


def _learned(found: QualityFigures) -> Iterator[tuple[str, str]]:
    own = found.learning
    if own is not None:
        words = f"{own.synthetic:.3f} learned from synthetic rows, {own.real:.3f} from real ones"
        yield f"AUC of {own.target}", f"{words}; tried on {own.rows:,} other real rows"


def _nearest(found: QualityFigures) -> Iterator[tuple[str, str]]:
    own = found.nearest
    if own is not None:
        middle = own.shares.index(0.5)
        copies = f"{own.copies:.1%} are equal to a real row (of real rows {own.real_copies:.1%} to another)"
        far = f"half of {own.rows:,} are within {own.synthetic[middle]:.4f} of one of {own.among:,} (of real rows "
        far += f"{own.real[middle]:.4f})"
        yield "nearest real row", f"{copies}; {far}; {CAVEAT}"


# ── the page ───────────────────────────────────────────────────────────────────────────────────


def page(found: QualityFigures) -> str:
    """Write the whole page."""
    head = '<meta charset="utf-8"><meta name="robots" content="noindex">'
    title = "<title>Synthetic and real: not for publication</title>"
    inner = f"<h1>A synthetic table beside the real one</h1>{body(found)}"
    return (
        f"<!doctype html><html lang=en><head>{head}{title}<style>{_STYLE}</style></head><body>{inner}</body></html>\n"
    )


def body(found: QualityFigures) -> str:
    """Write what a notebook shows: the figures in words, and the pictures."""
    private = f'<p class="private" style="color:#b03a2e;font-weight:600">{html.escape(HEADING)}</p>'
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(words)}</td></tr>" for name, words in told(found))
    return f"{private}<table>{rows}</table>{''.join(_pictures(found))}{private}"


def _pictures(found: QualityFigures) -> Iterator[str]:
    ordered = sorted(found.columns, key=lambda each: -each.variation)[:_SHOWN_NAMES]
    yield _section(
        "How far each column is off",
        _variations(ordered),
        "Total variation of each column by itself: the share of rows that would have to move to another cell.",
    )
    yield f'<div class="beside">{"".join(_overlays(ordered[:_SHOWN_COLUMNS]))}</div>'
    if len(found.columns) > 1:
        yield _section(
            "How far each pair is off",
            _square(found.names, found.pairs),
            "Total variation of every two columns; on the diagonal of one. Hover for the numbers.",
        )
        yield _section(
            "How columns hang together",
            _square(found.names, _gap(found.associations), signed=True),
            "Cramér's V in the synthetic table less that in the real one: brown where it lost a connection.",
        )
    if len(found.numbers) > 1:
        yield _section(
            "Correlations of numbers",
            _square(found.numbers, _gap(found.correlations), signed=True),
            "In the synthetic table less in the real one.",
        )
    own = found.nearest
    if own is not None:
        lines = [
            PlottedLine(name, tuple(100 * each for each in own.shares), tuple(values))
            for name, values in (("synthetic rows", own.synthetic), ("real rows, to another", own.real))
        ]
        words = f"Distance to the nearest real row that so many rows do not exceed. Mind: {CAVEAT}."
        yield _section("The nearest real row", panel(lines, Panel("", "per cent of the rows"), 260.0, 600.0), words)


def _overlays(columns: Sequence[ComparedColumn]) -> Iterator[str]:
    key = f'<span class="key" style="background:{REAL}"></span> real, '
    key += f'<span class="key" style="background:{SYNTHETIC}"></span> synthetic'
    for each in columns:
        cells = sorted(range(len(each.labels)), key=lambda cell: -abs(each.real[cell] - each.synthetic[cell]))
        kept = sorted(cells[:_SHOWN_CELLS])
        shares = [[own[cell] for cell in kept] for own in (each.real, each.synthetic)]
        more = "" if len(kept) == len(cells) else f"; the {len(kept)} cells of {len(cells):,} that differ most"
        names = [each.labels[cell] for cell in kept]
        picture = bare(paired_bars(names, ("real", "synthetic"), shares[0], shares[1])).svg
        yield f"<figure><b>{html.escape(each.name)}</b><br>{picture}<figcaption>{key}{more}</figcaption></figure>"


def _variations(columns: Sequence[ComparedColumn]) -> Drawing:
    """Draw a bar for each column, with its number beside it."""
    values = tuple(each.variation for each in columns)
    texts = tuple(f"{each:.3f}" for each in values)
    names = tuple(each.name for each in columns)
    return aligned([ChartData("total variation", "column", names, values, (None,) * len(values), texts)], 600.0)


def _square(names: Sequence[str], cells: Matrix, *, signed: bool = False) -> Drawing:
    """Draw a map of every two columns."""
    texts = tuple(tuple(f"{round(each, 2) + 0.0:.2f}" for each in row) for row in cells)
    values = tuple(tuple(row) for row in cells)
    return heat_map(HeatMapGrid("", tuple(names), tuple(names), values, texts, signed=signed))


def _gap(both: tuple[Matrix, Matrix]) -> Matrix:
    return tuple(
        tuple(other - one for one, other in zip(first, second, strict=True))
        for first, second in zip(*both, strict=True)
    )


def _section(title: str, drawing: Drawing, words: str) -> str:
    picture = bare(drawing, title).svg
    return f"<h2>{html.escape(title)}</h2><figure>{picture}<figcaption>{html.escape(words)}</figcaption></figure>"
