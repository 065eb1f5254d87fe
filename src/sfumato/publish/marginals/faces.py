"""The public face of a table: what the policy says of its published columns, whatever its rows are."""

from __future__ import annotations

from sfumato.errors import InvalidParameter
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.publish.marginals.attributes import Attribute, Attributes, ListedCell, RangeCell
from sfumato.quick_dataclass import dataclass


@codec.serialisable("table-face")
@dataclass(frozen=True)
class PublicTableFacts:
    """The domains of the published columns, in their order, what no row can be, and who pays."""

    domains: tuple[Domain, ...] = ()
    """Empty if only the cells are known."""
    impossible: tuple[str, ...] = ()
    """Conditions that hold for no row, as the policy writes them."""
    account: str = ""
    implies: tuple[tuple[str, str], ...] = ()
    """Pairs of published columns of which the first decides the second."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        are_pairs = type(self.implies) is tuple and all(type(pair) is tuple and len(pair) == 2 for pair in self.implies)
        if not are_pairs or not all(type(name) is str for pair in self.implies for name in pair):
            raise InvalidParameter(
                "implies",
                self.implies,
                "a tuple of pairs of column names",
                fix="put each pair in a tuple: (('city', 'region'),)",
            )
        if type(self.domains) is not tuple or not all(isinstance(domain, Domain) for domain in self.domains):
            raise InvalidParameter("domains", self.domains, "a domain for each column")

    def domains_for(self, attributes: Attributes) -> tuple[Domain, ...]:
        """Return the domains, derived from the cells where they were not kept; columns and domains must agree."""
        if not self.domains:
            return tuple(map(_domain_of_cells, attributes))
        if [domain.type for domain in self.domains] != [attribute.type for attribute in attributes]:
            raise InvalidParameter("domains", len(self.domains), "one domain for each attribute, of its type")
        return self.domains


BARE = PublicTableFacts()
"""The face of a table of which only the cells are known."""


def _domain_of_cells(attribute: Attribute) -> Domain:
    bins = [cell for cell in attribute.cells if isinstance(cell, RangeCell)]
    if bins:
        return Domain(attribute.type, bounds=(bins[0].low, bins[-1].high))
    listed_values = tuple(cell.value for cell in attribute.cells if isinstance(cell, ListedCell))
    return Domain(
        attribute.type, values=listed_values if listed_values and attribute.type is not Type.BOOLEAN else None
    )
