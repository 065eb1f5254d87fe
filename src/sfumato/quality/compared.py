"""The figures of a comparison are one value, which words and pictures are made of. NOT FOR PUBLICATION."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.quality.distances import Ways
from sfumato.quality.learning import Learning
from sfumato.quality.nearest_rows import NearestRows
from sfumato.quality.propensity import Propensity

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
class Compared:
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
