"""In every group the most frequent of some public values are chosen, in all groups for one price.

*Theorem.* A unit has at most T rows in all groups together. Choosing in every group by weights e^{r·count} leaks like
one choice of bounded range r·T when a unit is added or removed, and 2r·T when it is replaced. *Proof.* A unit with d_j
rows in group j raises each count there by between 0 and d_j, so the logarithm of every weight by between 0 and r·d_j,
and that of their sum too: the log-ratio of the probabilities of any two outcomes of the group's choice differs by at
most r·d_j. Groups choose independently, so these ranges add up to r·Σd_j ≤ r·T. A unit that is replaced is one that
leaves and one that comes. ∎ (Dong, Durfee & Rogers 2020 on bounded range; sums over parts as for quantiles.)

The k best are k such choices in a row, each among what is left: one shot of Gumbel noise has the same law (Durfee &
Rogers 2019, Lemma 4.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import races
from sfumato.privacy import Curve, Neighbours, codec, compose
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, percent, shown, text, whole


@codec.value("frequent-values")
@dataclass(frozen=True)
class FrequentValues:
    """This chooses the k most frequent values of every group; one unit has at most ``rows_per_unit`` rows in all of
    them together.
    """

    interactive: ClassVar[bool] = False

    epsilon: Fraction
    rows_per_unit: int
    k: int
    neighbours: Neighbours

    def __init__(
        self,
        epsilon: Number,
        rows_per_unit: int = 1,
        k: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> None:
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon", POSITIVE))
        object.__setattr__(self, "rows_per_unit", whole(rows_per_unit, "rows_per_unit", at_least=1))
        object.__setattr__(self, "k", whole(k, "k", at_least=1))
        object.__setattr__(self, "neighbours", Neighbours.of(neighbours))
        if not Fraction(1, 10**10) <= self.rate <= 1000:
            raise InvalidParameter("epsilon", epsilon, "between 1e-9 and 1000 for each row a unit may have")

    @property
    def rate(self) -> Fraction:
        """Say by how much the logarithm of a value's weight rises with each row that has it."""
        moved = 2 if self.neighbours is Neighbours.REPLACE else 1
        return self.epsilon / (self.k * self.rows_per_unit * moved)

    def choose(self, counts: Any) -> NDArray[np.int64]:
        """Choose in each row of counts the places of the k largest, best first."""
        table = np.asarray(counts)
        if table.ndim != 2 or table.dtype.kind not in "iu" or table.shape[1] < self.k:
            rule = f"whole counts, a row for each group and at least k = {self.k} columns"
            raise InvalidParameter("counts", f"{table.ndim} dimensions", rule)
        best = table.max(axis=1, keepdims=True).astype(np.int64)
        gaps = (best.astype(np.uint64) - table.astype(np.int64).astype(np.uint64)).astype(np.uint64)
        return races.winners_of_rows(races.GUMBEL, gaps, self.rate, self.k) if gaps.size else np.empty((0, self.k), int)

    def curve(self) -> Curve:
        return compose([(Curve.bounded_range(self.epsilon / self.k, self.neighbours), self.k)])

    def error(self, candidates: int, confidence: Number = "0.95", groups: int = 1) -> float:
        """Bound how many rows fewer than the best of what was left, with this confidence, any chosen value has."""
        miss = (1 - exact(confidence, "confidence", CONFIDENCE)) / (self.k * whole(groups, "groups", at_least=1))
        log_miss = math.log(miss.numerator) - math.log(miss.denominator)
        return (math.log(whole(candidates, "candidates", at_least=1)) - log_miss) / float(self.rate)

    def promise(self, candidates: int, confidence: Number) -> str:
        """Say in words how good a choice is."""
        best = "the most frequent" if self.k == 1 else "the best of what was left"
        fewer = shown(self.error(candidates, confidence))
        return f"at most {fewer} rows fewer have it than {best}, with {percent(confidence)} confidence"

    def words(self) -> str:
        best = "the most frequent value" if self.k == 1 else f"the {self.k} most frequent values"
        return f"{best} by Gumbel noise, ε {shown(float(self.epsilon), 6)}"

    def __repr__(self) -> str:
        more = f"rows_per_unit={self.rows_per_unit}, k={self.k}, neighbours={self.neighbours.value!r}"
        return f"FrequentValues({text(self.epsilon)}, {more})"
