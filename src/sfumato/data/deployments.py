"""Deployments are real releases with differential privacy, as a public registry tells of them. Where the table comes
from and its licence: DEPLOYMENTS.md beside this file.
"""

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
"""What a deployment's unit covers, and how that is said."""


@dataclass(frozen=True)
class Deployment:
    """A deployment is one release, or series of them, that somebody really made; what it does not state is None."""

    name: str
    curator: str
    year: int
    sector: str
    model: str
    """Central where a curator held the data, local where every device added noise to its own."""
    variant: str
    """Which definition of privacy is promised, in the registry's words."""
    unit: str
    """What is protected, in the registry's words,"""
    scope: str
    """and as one of SCOPES."""
    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    """The parameter of zero-concentrated differential privacy, where that is promised."""
    note: str
    slug: str
    """The registry's own name for it."""

    @property
    def is_stated(self) -> bool:
        """Tell whether it says how much it promises."""
        return self.epsilon is not None or self.rho is not None


@lru_cache(maxsize=1)
def deployments() -> tuple[Deployment, ...]:
    """List all real deployments that this package knows of, oldest first.

    >>> len(deployments()), deployments()[0].name
    (41, 'Lookup Hints')
    """
    with (Path(__file__).parent / "deployments.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_read(row) for row in csv.DictReader(file))


def _read(row: dict[str, str]) -> Deployment:
    values: dict[str, Any] = {**row, "year": int(row["year"])}
    numbers = {name: Fraction(row[name]) if row[name] else None for name in ("epsilon", "delta", "rho")}
    return Deployment(**values | numbers)
