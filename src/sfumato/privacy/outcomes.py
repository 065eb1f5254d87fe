"""The law of a mechanism's outcome on one input, as a mapping from outcomes to probabilities.

A randomised algorithm M: A → Δ(B) maps an input to a probability distribution; ``mechanism.distribution(x)`` is that
distribution. Two of them are what every divergence and ``Curve.pair`` take.

Probabilities are fractions: exact where they are rational, otherwise rounded down (``rounding``), so that they never
sum to more than 1, and what is missing only ever counts against the mechanism.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import format_number
from sfumato.privacy.stable_functions import log_ratio

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture


class OutcomeDistribution(Mapping[Any, Fraction]):
    """The probability of each outcome of a mechanism on one input.

    Iteration lists finitely many outcomes. Where there are infinitely many (additive noise), these carry all mass but
    ``missing``, and every other possible outcome still has its probability.
    """

    def __init__(
        self, outcomes: Sequence[Any], probability: Callable[[Any], Fraction | None], rounding: Fraction = Fraction(0)
    ) -> None:
        self.outcomes = tuple(outcomes)
        self.rounding = rounding
        """Each probability is too low by less than this; 0 where all are exact."""
        self._probability = probability

    @classmethod
    def of_mapping(cls, probabilities: Mapping[Any, Fraction], rounding: Fraction = Fraction(0)) -> OutcomeDistribution:
        """Return the law with these probabilities; any other outcome is impossible."""
        return cls(tuple(probabilities), dict(probabilities).get, rounding)

    @property
    def missing(self) -> Fraction:
        """What the listed probabilities lack of 1: rounding, and the outcomes that are not listed."""
        return 1 - sum(self.values(), Fraction(0))

    def __getitem__(self, outcome: Any) -> Fraction:
        probability = self._probability(outcome)
        if probability is None:
            raise KeyError(outcome)
        return probability

    def __iter__(self) -> Iterator[Any]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def __repr__(self) -> str:
        listed = [f"{outcome}: {format_number(float(self[outcome]))}" for outcome in self.outcomes[:6]]
        return f"<OutcomeDistribution {', '.join(listed)}{', …' if len(self.outcomes) > 6 else ''}>"

    def plot(self, other: OutcomeDistribution, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw this law beside that of another input, and below them the privacy loss of every outcome,
        ln P[M(x) = outcome]/P[M(y) = outcome].
        """
        from sfumato.plots.picture import save_if_path
        from sfumato.privacy.pictures import draw_outcomes  # most laws are never drawn

        if not isinstance(other, OutcomeDistribution):
            raise InvalidParameter("other", other, "the law of another input", fix="pass mechanism.distribution(y)")
        outcomes = list(dict.fromkeys([*self, *other]))
        positions = _positions(outcomes)
        masses = [(float(self.get(outcome, 0)), float(other.get(outcome, 0))) for outcome in outcomes]
        rows = sorted(zip(positions, masses, map(self._loss_against(other), outcomes), strict=True))
        return save_if_path(draw_outcomes(rows), path)

    def _loss_against(self, other: OutcomeDistribution) -> Callable[[Any], float | None]:
        def loss(outcome: Any) -> float | None:
            p, q = self.get(outcome, Fraction(0)), other.get(outcome, Fraction(0))
            return log_ratio(p, q) if p and q else None

        return loss


def _positions(outcomes: Sequence[Any]) -> list[float]:
    """Return where each outcome stands on the axis: numbers at their value, anything else in order."""
    if all(isinstance(outcome, (int, float, Fraction)) and math.isfinite(outcome) for outcome in outcomes):
        return [float(outcome) for outcome in outcomes]
    return [float(index) for index in range(len(outcomes))]
