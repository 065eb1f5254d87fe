"""A forecast of marginals is read without the planner that made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, exact, percent, shown

SHOWN_PLAN = 24
"""How many marginals are listed."""


@codec.value("marginals-forecast")
@dataclass(frozen=True)
class MarginalsForecast:
    """A forecast of marginals gives the half-width of every cell of each of them, before they are bought."""

    sets: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    """In the order of the sets, in rows."""
    confidence: Fraction
    joint: bool
    """Whether all ranges hold together with this confidence, or each by itself."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    stored: bool = False
    """Whether marginals that are as good were bought before: they are free, whatever is left."""
    counted: str = ""
    """What of one unit counts, where the rest is left out; empty where all rows count."""
    warnings: tuple[str, ...] = ()
    """What buying them would end."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "widths", tuple(codec.real(each, "widths") for each in self.widths))
        named = all(type(each) is tuple and all(type(name) is str for name in each) for each in self.sets)
        if not named or not self.sets or len(self.sets) != len(self.widths):
            raise InvalidParameter("widths", len(self.widths), "one for each set of columns")

    @property
    def worst(self) -> float:
        """Give the half-width of the marginal that is known least well."""
        return max(self.widths)

    def __getitem__(self, columns: str | Sequence[str]) -> float:
        """Give the half-width of one marginal, named by its columns in any order."""
        wanted = frozenset((columns,) if isinstance(columns, str) else columns)
        for each, found in zip(self.sets, self.widths, strict=True):
            if wanted == frozenset(each):
                return found
        raise InvalidParameter("columns", columns, "those of one of the marginals")

    def to_json(self) -> str:
        """Write the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> MarginalsForecast:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        sure = f"{percent(self.confidence)} confidence{', all together' if self.joint else ''}"
        order = sorted(zip(self.widths, self.sets, strict=True), reverse=True)
        lines = [f"±{shown(found)}  {name_of(each)}" for found, each in order[:SHOWN_PLAN]]
        more = [f"and {len(order) - SHOWN_PLAN:,} more"] if len(order) > SHOWN_PLAN else []
        noted = [f"warning: {each}" for each in self.warnings]
        return "\n".join([f"half-width of each cell at {self.price}, {sure}:", *lines, *more, *noted])

    __repr__ = __str__


def name_of(columns: Sequence[str]) -> str:
    """Name a marginal by its columns."""
    return " × ".join(columns)
