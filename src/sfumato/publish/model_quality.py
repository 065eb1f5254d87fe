"""The quality of a model of a table, from noisy measurements alone: as public as the model.

For every measured marginal, the distance between the truth and the model is ½‖m − M‖₁/n̂, the share of rows that are
in another cell (total variation). The measured counts y = m + Z bound it: it is within ½‖Z‖₁/n̂ of ½‖y − M‖₁/n̂,
however the model was fitted (``half_widths``). The estimate subtracts the mean of ‖Z‖₁: a model that fits the truth
leaves only the noise, and has a distance near 0. Nothing is known of marginals that were not measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.notebook_html import preformatted
from sfumato.plan.descriptions import count_with_noun
from sfumato.privacy.numbers import format_exact, format_percent
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.marginals.half_widths import noise_l1_mean_and_bound
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pandas

_MAX_LISTED_MARGINALS = 12


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
        worst_first = sorted(self.marginals, key=lambda marginal: -marginal.distance)[:_MAX_LISTED_MARGINALS]
        name_width = max((len(" × ".join(marginal.columns)) for marginal in worst_first), default=0)
        for marginal in worst_first:
            padded_name = f"{' × '.join(marginal.columns):<{name_width}}"
            ends = f"{format_capped_percent(marginal.low)} to {format_capped_percent(marginal.high)}"
            lines.append(
                f"  {padded_name}  {format_capped_percent(marginal.distance):>6}  {ends:>16}  {marginal.cells:,} cells"
            )
        if len(self.marginals) > len(worst_first):
            lines.append(f"  and {len(self.marginals) - len(worst_first):,} with smaller distances")
        lines.append(f"unmeasured  {count_with_noun(len(self.unmeasured), 'pair')} of columns{self._unmeasured_phrase}")
        return "\n".join([*lines, f"Each range covers the noise with {format_percent(self.confidence)} confidence."])

    @property
    def _unmeasured_phrase(self) -> str:
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
    marginals = [marginal for marginal in measured if marginal.places]
    sets = list(dict.fromkeys(marginal.places for marginal in marginals))
    modelled = dict(zip(sets, model.marginals(sets), strict=True))
    qualities = tuple(
        _compare_marginal(marginal, modelled[marginal.places], names, model.total, 1 - float(confidence))
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
    columns = tuple(names[place] for place in measured.places)
    return MarginalQuality(columns, measured.values.size, math.sqrt(measured.variance), distance, *ends)


def _unmeasured_pairs(names: Sequence[str], sets: Sequence[AttributeSet]) -> tuple[tuple[str, str], ...]:
    measured_pairs = {pair for measured_set in sets for pair in combinations(sorted(measured_set), 2)}
    return tuple((names[a], names[b]) for a, b in combinations(range(len(names)), 2) if (a, b) not in measured_pairs)
