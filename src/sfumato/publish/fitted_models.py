"""A fitted model answers for ever from what the rounds of MWEM released, as a synopsis does; nothing is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.policy import Type
from sfumato.publish.attributes import Attributes
from sfumato.publish.mwem import Model
from sfumato.publish.synopsis import cell_keys, key_type
from sfumato.release.answers import Answer
from sfumato.release.prices import Price
from sfumato.release.receipts import Receipt

_MODELLED = "the counts are a model's: it was fitted to the noisy counts of its rounds, and no range is known for them"


@dataclass(frozen=True)
class FittedRound:
    """This is one round: which columns were chosen, and of which cells; all of them where none is named."""

    columns: tuple[str, ...]
    cells: tuple[int, ...] | None
    counts: tuple[float, ...]
    """The noisy counts of these cells, in rows."""
    price: str
    """What its choice and its measurement cost, each a step of its own."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """This is a model of a table: it gives every marginal of its columns, without a further charge."""

    model: Model = field(repr=False)
    attributes: Attributes = field(repr=False)
    unit_value: Fraction = field(repr=False)
    """What one step of the counts is worth, in rows."""
    table: str
    rounds: tuple[FittedRound, ...] = field(repr=False)
    planned: int
    """How many rounds were paid for; fewer were run where it was interrupted."""
    guarantee: Price
    receipt: Receipt = field(repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """List the columns, in their order."""
        return tuple(each.name for each in self.attributes)

    @property
    def total(self) -> float:
        """Give the noisy number of rows, which was paid for first."""
        return self.model.total * float(self.unit_value)

    def marginal(self, columns: Sequence[str]) -> Answer:
        """Give the counts that the model has in all cells of some columns, in the order in which these are named."""
        asked = self._named(columns)
        places, own = sorted(asked), [self.attributes[place] for place in asked]
        left = tuple(place for place in range(len(self.attributes)) if place not in asked)
        counts = self.model.fitted.sum(axis=left) * float(self.unit_value)
        flat = counts.transpose([places.index(place) for place in asked]).ravel().tolist()
        names = [each.name for each in own]
        called = "count" if "count" not in names else "count_"
        rows = tuple((*key, count) for key, count in zip(cell_keys(own), flat, strict=True))
        told = replace(self.receipt, question=f"the modelled marginal of {' and '.join(names)}", free=True)
        kinds = (*(key_type(each) for each in own), Type.REAL)
        return Answer((*names, called), kinds, rows, {}, tuple(names), told, (_MODELLED,))

    def _named(self, columns: Sequence[str]) -> list[int]:
        known = {name.lower(): place for place, name in enumerate(self.columns)}
        listed = not isinstance(columns, (str, bytes)) and isinstance(columns, Sequence) and bool(columns)
        found = [known.get(str(each).lower(), -1) for each in columns] if listed else [-1]
        if -1 in found or len(set(found)) != len(found):
            rule = f"a list of different names among {', '.join(self.columns)}"
            raise InvalidParameter("columns", columns, rule)
        return found

    def __repr__(self) -> str:
        lines = [
            f"model      {self.table}, fitted in {len(self.rounds)} of {self.planned} rounds",
            f"columns    {', '.join(f'{each.name} ({each.size - 1} + missing)' for each in self.attributes)}",
            f"promise    {self.guarantee}",
        ]
        return "\n".join(lines)
