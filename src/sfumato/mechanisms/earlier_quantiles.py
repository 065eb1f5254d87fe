"""Quantiles were charged in another way before their levels were known to have bounded range: old ledgers say so.

What was written is read, and costs what it cost. Nothing is chosen this way any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.privacy import Curve, Neighbours, codec, compose


@codec.value("quantiles")
@dataclass(frozen=True, init=False, repr=False)
class EarlierQuantiles(Quantiles):
    """Each level of several quantiles is charged as any release so private; under replace a level after the first costs
    2·max(q, 1−q) times as much as the first.
    """

    def curve(self) -> Curve:
        if len(self.probabilities) == 1:
            return Curve.bounded_range(self.epsilon, self.neighbours)
        costs = [self._cost(level) for level in range(self._levels)]
        return compose(Curve.pure(self.epsilon * cost / sum(costs), self.neighbours) for cost in costs)

    def _middle(self, chances: Sequence[Fraction], *_: Fraction) -> int:
        return len(chances) // 2

    def _cost(self, level: int) -> Fraction:
        if level == 0 or self.neighbours is not Neighbours.REPLACE:
            return Fraction(1)
        return 2 * max(max(node.share, 1 - node.share) for node in self._nodes if node.level == level)

    def _released(self, *_: Any) -> Any:
        raise InvalidParameter("mechanism", repr(self), "one of this version: this one tells what was charged earlier")

    def __repr__(self) -> str:
        return f"Earlier{super().__repr__()}"
