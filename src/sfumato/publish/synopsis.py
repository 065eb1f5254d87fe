"""A synopsis is what was published of a table: noisy blocks, and every marginal that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.publish.attributes import Attributes
from sfumato.publish.blocks import Set
from sfumato.publish.chains import Floats
from sfumato.publish.estimating import Estimates, MeasuredBlock, MeasuredMarginal, least_squares
from sfumato.publish.measuring import Published
from sfumato.publish.planning import Plan
from sfumato.release.receipts import Receipt


@dataclass(frozen=True, eq=False)
class Synopsis:
    """This holds what was measured, from which marginals are made without a further charge."""

    published: Published = field(repr=False)
    receipt: Receipt | None = field(default=None, repr=False)

    @property
    def attributes(self) -> Attributes:
        return self.plan.attributes

    @property
    def plan(self) -> Plan:
        return self.published.plan

    @property
    def blocks(self) -> tuple[MeasuredBlock, ...]:
        return self.published.blocks

    @property
    def marginals(self) -> tuple[MeasuredMarginal, ...]:
        return self.published.marginals

    @cached_property
    def estimates(self) -> Estimates:
        """Combine all that was measured."""
        return least_squares(self.attributes, self.blocks, self.marginals)

    def marginal(self, columns: Sequence[str]) -> tuple[Floats, Floats]:
        """Give the unbiased counts of a marginal in the order of the columns' cells, and their variances."""
        return self.estimates.marginal(self.places(columns))

    def places(self, columns: Sequence[str]) -> Set:
        """Find the places of columns among those that were measured."""
        known = {each.name.lower(): place for place, each in enumerate(self.attributes)}
        if isinstance(columns, str) or any(each.lower() not in known for each in columns):
            raise InvalidParameter("columns", columns, f"names among {', '.join(each.name for each in self.attributes)}")
        return tuple(sorted(known[each.lower()] for each in columns))
