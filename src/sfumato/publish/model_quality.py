"""A model says how good it is from noisy measurements alone, so its quality may be published with it.

Of every marginal that was measured, the distance between the truth and the model is ½‖m − M‖₁/n̂, the share of rows
that are in another cell. The measured counts y = m + Z say where it lies: within ½‖Z‖₁/n̂ of ½‖y − M‖₁/n̂, however
the model came about (``half_widths``). The number inside takes off the mean of ‖Z‖₁: a model that follows the truth
leaves the noise, and has a distance of nearly 0. Of marginals that were not measured nothing is known but their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.notebook_html import preformatted
from sfumato.plan.words import many
from sfumato.privacy.numbers import percent, text
from sfumato.publish.graph.models import GraphModel
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.marginals.half_widths import noise_size

if TYPE_CHECKING:
    import pandas

_SHOWN = 12


@dataclass(frozen=True)
class MarginalQuality:
    """This says how far the model is from the truth on one measured marginal."""

    columns: tuple[str, ...]
    cells: int
    noise: float
    """The deviation of the noise in each cell, in rows."""
    distance: float
    """The share of rows that are in another cell, less what noise alone would make of it,"""
    low: float
    """and between which ends it lies,"""
    high: float


@dataclass(frozen=True)
class Quality:
    """This says how good a model is, from what was released alone: it is as public as the model."""

    marginals: tuple[MarginalQuality, ...]
    unmeasured: tuple[tuple[str, str], ...]
    """Pairs of columns that were never measured together: how they depend on one another follows from others."""
    rows: int
    """How many rows a table has that is drawn without saying how many."""
    total: float
    """n̂, the noisy number of rows,"""
    total_range: tuple[float, float]
    """and between which ends the true one lies."""
    confidence: str

    @property
    def worst(self) -> MarginalQuality | None:
        """Give the marginal with the largest distance."""
        return max(self.marginals, key=lambda each: each.distance, default=None)

    def to_pandas(self) -> pandas.DataFrame:
        """Give a row for each measured marginal."""
        import pandas

        names = ("columns", "cells", "noise", "distance", "low", "high")
        rows = [[" × ".join(each.columns), *(getattr(each, name) for name in names[1:])] for each in self.marginals]
        return pandas.DataFrame(rows, columns=list(names))

    def __str__(self) -> str:
        low, high = self.total_range
        lines = [
            f"rows        {self.rows:,} drawn; n̂ = {self.total:,.0f}, the truth between {low:,.0f} and {high:,.0f}",
            f"measured    in {many(len(self.marginals), 'round')}; the share of rows in another cell, noise taken off:",
        ]
        shown = sorted(self.marginals, key=lambda each: -each.distance)[:_SHOWN]
        wide = max((len(" × ".join(each.columns)) for each in shown), default=0)
        for each in shown:
            named = f"{' × '.join(each.columns):<{wide}}"
            ends = f"{percent_of(each.low)} to {percent_of(each.high)}"
            lines.append(f"  {named}  {percent_of(each.distance):>6}  {ends:>16}  {each.cells:,} cells")
        if len(self.marginals) > len(shown):
            lines.append(f"  and {len(self.marginals) - len(shown):,} with smaller distances")
        lines.append(f"unmeasured  {many(len(self.unmeasured), 'pair')} of columns{self._unmeasured}")
        return "\n".join([*lines, f"Each range holds with {percent(self.confidence)} confidence, for the noise alone."])

    @property
    def _unmeasured(self) -> str:
        named = ", ".join(" × ".join(each) for each in self.unmeasured[:5])
        return f": {named}{', …' if len(self.unmeasured) > 5 else ''}" if named else ""

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def percent_of(share: float) -> str:
    """Write a share in per cent, with one decimal; all there is may be off."""
    return f"{100 * share:.1f} %" if share < 1 else "100 %"


def model_quality(
    model: GraphModel,
    names: Sequence[str],
    measured: Sequence[MeasuredMarginal],
    total_range: tuple[float, float],
    confidence: Fraction,
) -> Quality:
    """Compare a model with every marginal that was measured."""
    own = [each for each in measured if each.places]
    sets = list(dict.fromkeys(each.places for each in own))
    modelled = dict(zip(sets, model.marginals(sets), strict=True))
    found = tuple(_compared(each, modelled[each.places], names, model.total, 1 - float(confidence)) for each in own)
    rows = max(1, round(model.total))
    return Quality(found, _unmeasured(names, sets), rows, model.total, total_range, text(confidence))


def _compared(
    measured: MeasuredMarginal, modelled: Floats, names: Sequence[str], total: float, beta: float
) -> MarginalQuality:
    step = float(measured.unit_value)
    apart = float(np.abs(measured.values * step - modelled).sum())
    mean, most = noise_size(measured.values.size, float(measured.size), beta, laplace=measured.laplace)
    share = 1 / (2 * total)
    ends = max(0.0, (apart - most * step) * share), (apart + most * step) * share
    distance = min(max((apart - mean * step) * share, ends[0]), ends[1])
    columns = tuple(names[place] for place in measured.places)
    return MarginalQuality(columns, measured.values.size, math.sqrt(measured.variance), distance, *ends)


def _unmeasured(names: Sequence[str], sets: Sequence[Set]) -> tuple[tuple[str, str], ...]:
    known = {pair for each in sets for pair in combinations(sorted(each), 2)}
    return tuple((names[a], names[b]) for a, b in combinations(range(len(names)), 2) if (a, b) not in known)
