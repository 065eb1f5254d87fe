"""Real deployments of differential privacy, from a public registry (origin and licence: DEPLOYMENTS.md)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

SCOPES = {
    "person": "all of one person",
    "period": "one person in one period",
    "record": "one record",
    "unstated": "not stated",
}
"""What the privacy unit of a deployment covers, in words."""


@dataclass(frozen=True)
class Deployment:
    """A real release, or series of releases; what its publisher does not state is None."""

    name: str
    curator: str
    year: int
    sector: str
    model: str
    """Central if a curator held the data, local if every device added its own noise."""
    variant: str
    """The definition of privacy, in the registry's words."""
    unit: str
    """The privacy unit, in the registry's words."""
    scope: str
    """The privacy unit as one of ``SCOPES``."""
    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    """The parameter of zero-concentrated differential privacy, if stated."""
    note: str
    slug: str
    """The registry's identifier."""

    @property
    def is_stated(self) -> bool:
        """Whether an ε or a ρ is published."""
        return self.epsilon is not None or self.rho is not None


@lru_cache(maxsize=1)
def deployments() -> tuple[Deployment, ...]:
    """Return all deployments of the registry, oldest first.

    >>> len(deployments()), deployments()[0].name
    (41, 'Lookup Hints')
    """
    with (Path(__file__).parent / "deployments.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_parse_row(row) for row in csv.DictReader(file))


def _parse_row(row: dict[str, str]) -> Deployment:
    values: dict[str, Any] = {**row, "year": int(row["year"])}
    numbers = {name: Fraction(row[name]) if row[name] else None for name in ("epsilon", "delta", "rho")}
    return Deployment(**values | numbers)
