"""Several releases of one table are read as one: every column has one place, whichever of them published it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.errors import InvalidParameter
from sfumato.policy import Domain
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.estimating import MeasuredBlock
from sfumato.publish.marginals.measuring import Published, measured_sets


@dataclass(frozen=True, eq=False)
class Several:
    """These are releases in their order, and the columns of all of them: those of the first have its places."""

    releases: tuple[Published, ...]
    attributes: Attributes
    domains: tuple[Domain, ...]

    @classmethod
    def of(cls, releases: Sequence[Published]) -> Several:
        """Put the columns of releases together; one of the same name must have the same cells."""
        attributes: dict[str, Attribute] = {}
        domains: dict[str, Domain] = {}
        for each in releases:
            own = zip(each.plan.attributes, each.face.known(each.plan.attributes), strict=True)
            for attribute, domain in own:
                known = attributes.setdefault(attribute.name, attribute)
                if known != attribute or domains.setdefault(attribute.name, domain) != domain:
                    rule = f"a synopsis in which {attribute.name} has the same cells"
                    raise InvalidParameter("other", attribute.name, rule, fix="ask each by itself")
        return cls(tuple(releases), tuple(attributes.values()), tuple(domains.values()))

    @property
    def blocks(self) -> tuple[MeasuredBlock, ...]:
        """Give all blocks, at the places that their columns have here."""
        return tuple(self._moved(block, each) for each in self.releases for block in each.blocks)

    @property
    def asked(self) -> tuple[Set, ...]:
        """List the marginals that were asked for, each once."""
        return self._sets([(each, each.plan.workload.sets) for each in self.releases])

    @property
    def measured(self) -> tuple[Set, ...]:
        """List the largest marginals within what was measured."""
        return self._sets([(each, measured_sets(each.plan)) for each in self.releases])

    def _sets(self, found: Sequence[tuple[Published, Sequence[Set]]]) -> tuple[Set, ...]:
        moved = (tuple(sorted(self._places(each)[p] for p in own)) for each, sets in found for own in sets)
        return tuple(dict.fromkeys(moved))

    def _places(self, release: Published) -> list[int]:
        """Say where each column of a release is here."""
        known = {each.name: place for place, each in enumerate(self.attributes)}
        return [known[each.name] for each in release.plan.attributes]

    def _moved(self, measured: MeasuredBlock, release: Published) -> MeasuredBlock:
        places = self._places(release)
        moved = [(places[place], level) for place, level in measured.block]
        order = sorted(range(len(moved)), key=lambda axis: moved[axis])
        values = measured.values.transpose(order)
        return replace(measured, block=tuple(moved[axis] for axis in order), values=values)
