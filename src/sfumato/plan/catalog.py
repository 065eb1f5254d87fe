"""What a question may refer to: the public face of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sfumato.plan.limits import ONE_ROW, Limits
from sfumato.policy import Domain


@dataclass(frozen=True)
class Described:
    """A table as analysts see it."""

    name: str
    columns: Mapping[str, Domain]
    public: bool
    id: str | None = None
    """The column that may be counted with COUNT(DISTINCT …); None when every row is a unit, or for a public table."""
    limits: Limits = ONE_ROW
    """What of one unit counts unless less is asked for."""


@dataclass(frozen=True)
class Catalog:
    tables: Mapping[str, Described]
    multiplicity: Callable[[str, tuple[str, ...]], int]
    """The most rows of a public table that share one value of these columns."""
