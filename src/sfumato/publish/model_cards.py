"""Model cards: what a synthetic table is made of, at what price, how far off it may be, and what it does not promise.

Everything on a card follows from what was released and from the policy, so that it may be published with the model and
costs nothing (post-processing: Dwork & Roth 2014, prop. 2.1). A score on the card was bought by itself. Exact
comparisons with the real rows never belong here: ``sf.quality.compare`` makes a page for the owner.

The quality of a model of a table, from noisy measurements alone: as public as the model.

For every measured marginal, the distance between the truth and the model is ½‖m − M‖₁/n̂, the share of rows that are
in another cell (total variation). The measured counts y = m + Z bound it: it is within ½‖Z‖₁/n̂ of ½‖y − M‖₁/n̂,
however the model was fitted (``estimating``). The estimate subtracts the mean of ‖Z‖₁: a model that fits the truth
leaves only the noise, and has a distance near 0. Nothing is known of marginals that were not measured.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.array_types import Floats
from sfumato.error_facts import join_with_or
from sfumato.errors import InvalidParameter
from sfumato.html_fragments import escape, paragraph, preformatted, table
from sfumato.plan.descriptions import count_with_noun
from sfumato.privacy.numbers import format_exact, format_percent
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.estimating import MeasuredMarginal, noise_l1_mean_and_bound
from sfumato.publish.scoring import CandidateScore
from sfumato.publish.synthesis.released import ReleasedSynthesis
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import Receipt
from sfumato.untrusted import escape_unprintable

if TYPE_CHECKING:
    import pandas


_MAX_MARGINALS_IN_TEXT = 12


@dataclass(frozen=True)
class MarginalQuality:
    """The distance between the model and the truth on one measured marginal."""

    columns: tuple[str, ...]
    cells: int
    noise: float
    """The standard deviation of the noise in each cell, in rows."""
    distance: float
    """The estimated share of rows that are in another cell, with the mean effect of noise subtracted."""
    low: float
    """The lower end of the distance's range."""
    high: float
    """The upper end of the distance's range."""


@dataclass(frozen=True)
class Quality:
    """The quality of a model, computed from what was released alone: as public as the model."""

    marginals: tuple[MarginalQuality, ...]
    unmeasured: tuple[tuple[str, str], ...]
    """Pairs of columns that were never measured together: the model infers their dependence from others."""
    rows: int
    """The default number of sampled rows."""
    total: float
    """n̂, the noisy number of rows."""
    total_range: tuple[float, float]
    """The ends between which the true number of rows lies."""
    confidence: str

    @property
    def worst(self) -> MarginalQuality | None:
        """The marginal with the largest distance."""
        return max(self.marginals, key=lambda marginal: marginal.distance, default=None)

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row for each measured marginal."""
        import pandas

        names = ("columns", "cells", "noise", "distance", "low", "high")
        rows = [
            [" × ".join(marginal.columns), *(getattr(marginal, name) for name in names[1:])]
            for marginal in self.marginals
        ]
        return pandas.DataFrame(rows, columns=list(names))

    def __str__(self) -> str:
        low, high = self.total_range
        lines = [
            f"rows        {self.rows:,} drawn; n̂ = {self.total:,.0f}, the truth between {low:,.0f} and {high:,.0f}",
            f"measured    in {count_with_noun(len(self.marginals), 'round')}; share of rows in another "
            "cell than in the data, corrected for noise:",
        ]
        worst_first = sorted(self.marginals, key=lambda marginal: -marginal.distance)[:_MAX_MARGINALS_IN_TEXT]
        name_width = max((len(" × ".join(marginal.columns)) for marginal in worst_first), default=0)
        for marginal in worst_first:
            padded_name = f"{' × '.join(marginal.columns):<{name_width}}"
            ends = f"{format_capped_percent(marginal.low)} to {format_capped_percent(marginal.high)}"
            lines.append(
                f"  {padded_name}  {format_capped_percent(marginal.distance):>6}  {ends:>16}  {marginal.cells:,} cells"
            )
        if len(self.marginals) > len(worst_first):
            lines.append(f"  and {len(self.marginals) - len(worst_first):,} with smaller distances")
        lines.append(
            f"unmeasured  {count_with_noun(len(self.unmeasured), 'pair')} of columns{self._unmeasured_pairs_phrase}"
        )
        return "\n".join([*lines, f"Each range covers the noise with {format_percent(self.confidence)} confidence."])

    @property
    def _unmeasured_pairs_phrase(self) -> str:
        pairs = ", ".join(" × ".join(pair) for pair in self.unmeasured[:5])
        return f": {pairs}{', …' if len(self.unmeasured) > 5 else ''}" if pairs else ""

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def format_capped_percent(share: float) -> str:
    """Format a share as a percentage with one decimal, capped at 100 %."""
    return f"{100 * share:.1f} %" if share < 1 else "100 %"


def model_quality(
    model: GraphicalModel,
    names: Sequence[str],
    measured: Sequence[MeasuredMarginal],
    total_range: tuple[float, float],
    confidence: Fraction,
) -> Quality:
    """Compare a model with every marginal that was measured."""
    marginals = [marginal for marginal in measured if marginal.attribute_set]
    sets = list(dict.fromkeys(marginal.attribute_set for marginal in marginals))
    modelled = dict(zip(sets, model.marginals(sets), strict=True))
    qualities = tuple(
        _compare_marginal(marginal, modelled[marginal.attribute_set], names, model.total, 1 - float(confidence))
        for marginal in marginals
    )
    rows = max(1, round(model.total))
    return Quality(qualities, _unmeasured_pairs(names, sets), rows, model.total, total_range, format_exact(confidence))


def _compare_marginal(
    measured: MeasuredMarginal, modelled: Floats, names: Sequence[str], total: float, beta: float
) -> MarginalQuality:
    step = float(measured.unit_value)
    observed_distance = float(np.abs(measured.values * step - modelled).sum())
    mean, largest_noise = noise_l1_mean_and_bound(
        measured.values.size, float(measured.size), beta, laplace=measured.laplace
    )
    share = 1 / (2 * total)
    ends = (
        max(0.0, (observed_distance - largest_noise * step) * share),
        (observed_distance + largest_noise * step) * share,
    )
    distance = min(max((observed_distance - mean * step) * share, ends[0]), ends[1])
    columns = tuple(names[attribute_index] for attribute_index in measured.attribute_set)
    return MarginalQuality(columns, measured.values.size, math.sqrt(measured.variance), distance, *ends)


def _unmeasured_pairs(names: Sequence[str], sets: Sequence[AttributeSet]) -> tuple[tuple[str, str], ...]:
    measured_pairs = {pair for measured_set in sets for pair in combinations(sorted(measured_set), 2)}
    return tuple((names[a], names[b]) for a, b in combinations(range(len(names)), 2) if (a, b) not in measured_pairs)


_MAX_CHARACTERS = 20_000
_SUFFIXES = (".json", ".md", ".html")
LIMITS = (
    "No row describes a real person: a row may equal a real one by chance, and a rare combination may be missing.",
    "Facts about groups are kept on purpose: the guarantee hides what one unit contributed to them.",
    "Counts over drawn rows have sampling error besides noise; ask the model for numbers with ranges.",
    "Pairs of columns that were never measured together are inferred from others.",
    "Regression coefficients and tests computed on drawn rows have no valid standard errors.",
)
_STYLE = (
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; } "
    "td, th { padding: .2rem .9rem .2rem 0; }"
)


@dataclass(frozen=True)
class CardColumn:
    """One column of the rows."""

    name: str
    type: str
    cells: int
    """Declared values and bins, without the cell of missing values."""
    decided_by: str = ""
    """The column that determines it, if it is not modelled itself."""


@dataclass(frozen=True)
class ModelCard:
    """A public description of a synthetic table: what was measured, its price, errors and limits."""

    name: str
    description: str
    licence: str
    contact: str
    table: str
    where: str
    method: str
    columns: tuple[CardColumn, ...]
    rows: float
    """n̂, the noisy number of rows."""
    rows_range: tuple[float, float]
    measured: tuple[MarginalQuality, ...]
    unmeasured: tuple[tuple[str, str], ...]
    confidence: str
    """The confidence of every range on the card."""
    guarantee: str
    unit: str
    neighbours: str
    row_limits: str
    mechanisms: tuple[str, ...]
    account: str
    line: int
    time: str
    software: str
    complete: bool
    warnings: tuple[str, ...]
    limits: tuple[str, ...]
    scores: tuple[str, ...]
    """Bought scores against the private rows, in words, each with its range and its own price."""

    def with_texts(self, name: str, description: str, licence: str, contact: str) -> ModelCard:
        """Return the card with the publisher's own texts; without a name it keeps its own."""
        return replace(
            self,
            name=_checked_text(name, "name") or self.name,
            description=_checked_text(description, "description"),
            licence=_checked_text(licence, "licence"),
            contact=_checked_text(contact, "contact"),
        )

    def to_json(self) -> str:
        """Serialize the card as JSON text."""
        return json.dumps({"kind": "sfumato-model-card", "version": 1, **asdict(self)}, ensure_ascii=False, indent=2)

    def to_markdown(self) -> str:
        """Render the card as Markdown; texts of the caller are escaped."""
        sections = [f"# {_plain(self.name)}", *([_plain(self.description)] if self.description else [])]
        for title, lines in self._sections():
            sections += [f"## {title}", "\n".join(f"- {_plain(line)}" for line in lines)]
        return "\n\n".join(sections) + "\n"

    def to_html(self) -> str:
        """Render the card as a page that loads and runs nothing."""
        parts = [f"<h1>{escape(self.name)}</h1>", paragraph(self.description), paragraph(_PUBLIC, strong=True)]
        for title, lines in self._sections():
            if title == _ERRORS and self.measured:
                parts += [f"<h2>{title}</h2>", paragraph(lines[0]), self._error_table()]
            else:
                parts += [f"<h2>{title}</h2>", preformatted("\n".join(lines))]
        head = f'<meta charset="utf-8"><title>{escape(self.name)}</title><style>{_STYLE}</style>'
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the card to a .json, .md or .html file."""
        writers = {".json": self.to_json, ".md": self.to_markdown, ".html": self.to_html}
        target = card_path(path)
        try:
            target.write_text(writers[target.suffix.lower()](), encoding="utf-8")
        except OSError as error:
            fix = "name a file in an existing folder that you can write to, on a disk with free space"
            rule = f"a file that can be written ({os.strerror(error.errno or 0)})"
            raise InvalidParameter("path", str(target), rule, fix=fix) from error

    def _sections(self) -> list[tuple[str, list[str]]]:
        low, high = self.rows_range
        rows = f"n̂ = {self.rows:,.0f}, the truth between {low:,.0f} and {high:,.0f}"
        ended = "" if self.complete else "; it was ended early"
        columns = [
            f"{column.name}: {column.type}, {count_with_noun(column.cells, 'cell')}"
            + (f", determined by {column.decided_by}" if column.decided_by else "")
            for column in self.columns
        ]
        source = f"table {self.table}{f', where {self.where}' if self.where else ''}; rows: {rows}"
        method = f"{self.method}, {count_with_noun(len(self.measured), 'marginal')} measured{ended}; {self.software}"
        price = [
            f"{self.guarantee} for {self.unit}, {self.neighbours} neighbours; {self.row_limits}",
            f"noise: {'; '.join(self.mechanisms)}",
            f"everything ever released from the account: {self.account}",
            f"line {self.line} of the ledger, {self.time}",
        ]
        return [
            ("Source", [source, method]),
            ("Columns", columns),
            ("Privacy", price),
            (_ERRORS, self._error_lines()),
            *([("Scores", list(self.scores))] if self.scores else []),
            ("Limits", [*self.warnings, *self.limits]),
            ("Licence", [self.licence or "not stated: ask the publisher", *([self.contact] if self.contact else [])]),
        ]

    def _error_lines(self) -> list[str]:
        covered = f"ranges cover the noise with {format_percent(self.confidence)} confidence"
        lines = [f"share of rows in another cell than in the data, on what was measured; {covered}"]
        lines += [
            f"{' × '.join(marginal.columns)}: {marginal.distance:.1%} ({marginal.low:.1%} to {marginal.high:.1%}), "
            f"noise ±{marginal.noise:,.1f} rows a cell"
            for marginal in self.measured
        ]
        return [*lines, f"never measured together: {count_with_noun(len(self.unmeasured), 'pair')} of columns"]

    def _error_table(self) -> str:
        head = ("columns", "cells", "noise, rows", "distance", "low", "high")
        rows = [
            (" × ".join(marginal.columns), f"{marginal.cells:,}", f"{marginal.noise:,.1f}",
             f"{marginal.distance:.1%}", f"{marginal.low:.1%}", f"{marginal.high:.1%}")
            for marginal in self.measured
        ]  # fmt: skip
        return table(head, rows, head[1:]) + paragraph(self._error_lines()[-1])


_ERRORS = "Errors"
_PUBLIC = "Computed from released numbers alone, so it may be published with the rows."


def card_path(path: str | os.PathLike[str]) -> Path:
    """Refuse a file name that a card cannot be written to; return its path."""
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        endings = join_with_or([*_SUFFIXES])
        fix = f"choose a path that ends in {endings}, such as {target.stem}.html"
        raise InvalidParameter("path", str(path), f"a file that ends in {endings}", fix=fix)
    return target


def describe_model(
    released: ReleasedSynthesis,
    quality: Quality,
    receipt: Receipt,
    *,
    charged: bool,
    warnings: tuple[str, ...] = (),
    scores: Sequence[CandidateScore] = (),
) -> ModelCard:
    """Describe a synthetic table from what was released; scores are those that were bought of its rows."""
    modelled = [
        CardColumn(attribute.name, attribute.type.value, attribute.size - 1) for attribute in released.attributes
    ]
    implied = [
        CardColumn(
            implied_column.attribute.name,
            implied_column.attribute.type.value,
            implied_column.attribute.size - 1,
            released.columns[implied_column.by],
        )
        for implied_column in released.implied
    ]
    guarantee = str(released.price) if charged else "none: this is a preview on invented rows"
    return ModelCard(
        name=f"Synthetic {released.table or 'rows'}",
        description="",
        licence="",
        contact="",
        table=released.table,
        where=released.where,
        method=released.method,
        columns=(*modelled, *implied),
        rows=quality.total,
        rows_range=quality.total_range,
        measured=quality.marginals,
        unmeasured=quality.unmeasured,
        confidence=quality.confidence,
        guarantee=guarantee,
        unit=receipt.unit,
        neighbours=receipt.neighbours,
        row_limits=receipt.limits,
        mechanisms=receipt.mechanisms,
        account=receipt.account,
        line=receipt.line,
        time=receipt.time,
        software=receipt.software,
        complete=released.complete,
        warnings=warnings,
        limits=LIMITS,
        scores=tuple(map(_score_text, scores)),
    )


def _score_text(score: object) -> str:
    """Describe a bought score; exact figures of an owner's comparison are refused."""
    if not isinstance(score, CandidateScore) or score.receipt is None or score.is_preview:
        fix = "buy one with curator.score(rows).release(epsilon=0.1); an exact comparison is for the owner alone"
        raise InvalidParameter("scores", type(score).__name__, "a list of results bought with curator.score", fix=fix)
    return f"{str(score).splitlines()[0]}; bought for {score.receipt.guarantee}"


def _checked_text(text: object, parameter: str) -> str:
    if not isinstance(text, str) or len(text) > _MAX_CHARACTERS:
        raise InvalidParameter(parameter, text, f"a string of at most {_MAX_CHARACTERS:,} characters")
    return text


def _plain(text: str) -> str:
    """Escape what Markdown or HTML would take for markup, in one line."""
    one_line = escape_unprintable(" ".join(text.split()))
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#|" else letter for letter in one_line)
