"""Bundled data: an example table with its policy (origin and licence: ORIGIN.md beside this file), and real deployments
of differential privacy from a public registry (DEPLOYMENTS.md).
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.quick_dataclass import dataclass

FILES = ("flights.toml", "flights.parquet", "airlines.csv", "ORIGIN.md")


def example(folder: str | os.PathLike[str] | None = None) -> Path:
    """Copy the example policy and its tables into a folder, by default a new temporary one; return the policy's path.

    >>> example().name
    'flights.toml'
    """
    target_folder = Path(tempfile.mkdtemp(prefix="sfumato-")) if folder is None else Path(folder)
    try:
        target_folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            with (target_folder / name).open("xb") as target, (Path(__file__).parent / name).open("rb") as source:
                shutil.copyfileobj(source, target)
    except OSError as error:
        raise SfumatoError(
            f"the example cannot be written to this folder ({os.strerror(error.errno or 0)})",
            place=str(target_folder),
            fix="name a new or empty folder that you can write to",
        ) from None
    return target_folder / FILES[0]


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
