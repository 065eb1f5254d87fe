"""Marginals are measured once, as noisy blocks: one reading, one batch, one charge, whatever the number of marginals.

The largest marginals of a plan are read in one pass, with one weight for all rows of a unit, so that every smaller
marginal is a sum of them and a unit's weights add up to at most m in each. Every block is computed from them in whole
numbers and gets noise of its own; for a pure price whole marginals do. What one unit changes follows from the bounded
rows that are read (``blocks``, theorem), never from the plan that chose the noise.

Several releases of one table are read as one: every column has one place, whichever of them published it.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.nodes import Scan
from sfumato.plan.readings.total_readings import Integers
from sfumato.plan.words import many
from sfumato.policy import Domain
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Sensitivity, codec
from sfumato.privacy.numbers import Number
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import Block, Set, scaled_residual, summed
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import MeasuredBlock, MeasuredMarginal
from sfumato.publish.marginals.faces import BARE, TableFace
from sfumato.publish.marginals.half_widths import half_width
from sfumato.publish.marginals.planning import Plan
from sfumato.release.payers import NOT_BOUGHT, Purchase, purchase
from sfumato.release.prices import Price

if TYPE_CHECKING:
    from sfumato.plan.bounding import BoundedPlan
    from sfumato.plan.readings.dense_readings import Marginals
    from sfumato.release.measurement import Batch
    from sfumato.release.releasing import Read


CONFIDENCE = 0.95
"""At which stored measurements are compared."""
MOST_NUMBERS = 2 * 10**7
"""Of one release: as text, the ledger keeps so many as one answer."""
_REHEARSED = 10**5
_LAPLACE_WIDTH = -math.log(1 - CONFIDENCE)
"""The half-width of Laplace noise of scale 1."""
_COLUMN = "column "


@dataclass(frozen=True)
class ResidualBlock:
    """This is a block as noise is added to it: g·M_B·m_B, from one of the marginals that were read."""

    marginals: Marginals
    index: int
    attributes: Attributes
    block: Block
    grid: int = 1

    def __post_init__(self) -> None:
        own, shape = self.marginals.sets[self.index], tuple(each.size for each in self.attributes)
        if not set(block_algebra.places(self.block)) <= set(own):
            raise InvalidParameter("block", self.block, "one of a marginal that is read")
        if shape != self.marginals.shape(tuple(range(len(self.attributes)))):
            raise InvalidParameter("attributes", shape, "those of the keys that are read, cell by cell")

    @property
    def bounded(self) -> BoundedPlan:
        return self.marginals.bounded

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit changes, from the rows that count: its weights, in steps of the totals, add up to at most
        what it adds to all of them.
        """
        (scaled,) = self.bounded.measures
        most, relation = scaled.added.total, scaled.sensitivity.neighbours
        fixed = has_fixed_total(self.bounded)
        return block_algebra.sensitivity(self.block, self.attributes, most, self.grid, relation, fixed_total=fixed)

    def of(self, exact: Any) -> Integers:
        """Give what is measured as one row, from all marginals as they were read."""
        own = summed(exact[self.index], self.marginals.sets[self.index], block_algebra.places(self.block))
        return scaled_residual(own, self.block, self.attributes, self.grid).reshape(-1)


def has_fixed_total(bounded: BoundedPlan) -> bool:
    """Tell whether replacing a unit leaves the number of rows as it is: every row is a unit, and all of them count."""
    return bounded.every_row and isinstance(bounded.bound.input, Scan)


def largest_sets(sets: Sequence[Set]) -> tuple[Set, ...]:
    """Give the sets that lie in no other one, in their order: all marginals are sums of these."""
    larger: dict[int, set[Set]] = {place: set() for each in sets for place in each}
    kept: set[Set] = set()
    for _, alike in groupby(sorted({*sets}, key=len, reverse=True), len):
        found = [each for each in alike if not (_holding(each, larger) if each else kept)]
        kept.update(found)
        for each in found:
            for place in each:
                larger[place].add(each)
    return tuple(each for each in dict.fromkeys(sets) if each in kept)


def _holding(places: Set, larger: Mapping[int, set[Set]]) -> set[Set]:
    """List the larger sets that hold all of these places."""
    return set.intersection(*(larger[place] for place in places))


def measured_sets(plan: Plan) -> tuple[Set, ...]:
    """Give the marginals that are read for a plan."""
    return tuple(each.places for each in plan.marginals) or largest_sets(plan.workload.sets)


def batch_of(plan: Plan, reading: Marginals) -> Batch:
    """Make the measurements of a plan, in its order, on what is read for it."""
    # Readers of a file measure nothing: what draws noise is imported by whoever does.
    from sfumato.mechanisms import Gaussian, Laplace
    from sfumato.plan.readings.dense_readings import Marginal
    from sfumato.release.measurement import Batch, Measurement

    if plan.marginals:
        return Batch(
            tuple(
                Measurement(Marginal(reading, index), Laplace(each.scale)) for index, each in enumerate(plan.marginals)
            )
        )
    where = _sources(reading)
    return Batch(
        tuple(
            Measurement(
                ResidualBlock(reading, where(each.block), plan.attributes, each.block, each.grid),
                Gaussian(each.deviation),
            )
            for each in plan.blocks
        )
    )


def _sources(reading: Marginals) -> Callable[[Block], int]:
    """Find for each block the smallest marginal that is read and holds it."""
    order = sorted(range(len(reading.sets)), key=lambda index: math.prod(reading.shape(reading.sets[index])))
    holding: dict[int, list[int]] = {}
    for index in order:
        for place in reading.sets[index]:
            holding.setdefault(place, []).append(index)
    sets = [frozenset(each) for each in reading.sets]

    def smallest(block: Block) -> int:
        places = frozenset(block_algebra.places(block))
        among = holding.get(next(iter(places)), []) if places else order
        return next(index for index in among if places <= sets[index])

    return smallest


def largest_variance(plan: Plan, places: Set) -> float:
    """Find the largest variance of a cell of a marginal within the closure of a plan of blocks, in rows.

    Cells of one attribute differ by how their levels split alone, so one of each kind is looked at.
    """
    kinds = [_kinds(plan.attributes[place]) for place in places]
    found: Any = 0.0
    for block in block_algebra.blocks_within(places, plan.attributes):
        picked = dict(block)
        product: Any = plan.block_variances[block]
        for place, each in zip(places, kinds, strict=True):
            product = np.multiply.outer(product, each[picked.get(place, 0)])
        found = found + product
    return float(np.max(found))


@lru_cache(maxsize=1024)
def _kinds(attribute: Attribute) -> Floats:
    """Give, for no difference and each of an attribute's own, by how much its variance counts in each kind of cell."""
    chain = attribute.chain
    return np.unique([chain.shares**2, *(each.variances for each in chain.differences)], axis=1)


def width(plan: Plan, places: Set, confidence: float, cells: int = 1) -> float:
    """Give the half-width of each cell of a marginal at this confidence, in rows: as it was measured, or where blocks
    were, as it follows from them. ``cells`` that are to hold together share the chance to miss.
    """
    if not plan.marginals:
        return half_width(largest_variance(plan, places), 1 - confidence, cells)
    planned = next(each for each in plan.marginals if each.places == places)
    from sfumato.mechanisms import Laplace

    return float(Laplace(planned.scale).error(f"{confidence:.12g}", cells) * plan.unit_value)


def expected_width(plan: Plan, places: Set) -> float:
    """Return the half-width of one cell of the marginal over these columns, in rows; infinite where no part of the plan
    has all of them.

    A cell of a smaller marginal than was measured with Laplace noise is a sum of k measured cells: √k times as wide, by
    their variances.
    """
    if not plan.marginals:
        covered = all(block in plan.block_variances for block in block_algebra.blocks_within(places, plan.attributes))
        return half_width(largest_variance(plan, places), 1 - CONFIDENCE) if covered else math.inf
    wanted = set(places)
    found = (
        float(each.scale) * math.sqrt(math.prod(plan.attributes[place].size for place in {*each.places} - wanted))
        for each in plan.marginals
        if wanted <= {*each.places}
    )
    return min(found, default=math.inf) * _LAPLACE_WIDTH * float(plan.unit_value)


@codec.value("published")
@dataclass(frozen=True, eq=False)
class Published:
    """This is what was released of a table: the plan, the noisy whole numbers in its order, and the terms."""

    plan: Plan
    values: tuple[str, ...]
    """Of each block or marginal of the plan: 64-bit whole numbers, the lowest byte first, in base64."""
    table: str = ""
    where: str = ""
    purchase: Purchase = NOT_BOUGHT
    price: Price | None = None
    """What was promised; None of what was never bought."""
    face: TableFace = BARE

    def __post_init__(self) -> None:
        codec.check_fields(self)
        shapes = list(shapes_of(self.plan))
        if len(self.values) != len(shapes):
            raise InvalidParameter("values", len(self.values), f"{len(shapes)} texts, as the plan has parts")
        for text, shape in zip(self.values, shapes, strict=True):
            if len(text) != -(-8 * math.prod(shape) // 3) * 4:
                raise InvalidParameter("values", len(text), f"8 bytes for each of the numbers of the shape {shape}")

    @property
    def promise(self) -> Price:
        """Say what was promised, or where that was not kept, what the plan costs."""
        if self.price is not None:
            return self.price
        return Price(rho=self.plan.rho) if self.plan.blocks else Price(self.plan.epsilon)

    @cached_property
    def blocks(self) -> tuple[MeasuredBlock, ...]:
        """Give the blocks with their noise, as they are combined."""
        arrays = self._arrays() if self.plan.blocks else ()
        step = self.plan.unit_value
        return tuple(
            MeasuredBlock(each.block, values, each.deviation, each.grid, step)
            for each, values in zip(self.plan.blocks, arrays, strict=True)
        )

    @cached_property
    def marginals(self) -> tuple[MeasuredMarginal, ...]:
        """Give the marginals with Laplace noise, as they are combined."""
        arrays = self._arrays() if self.plan.marginals else ()
        step = self.plan.unit_value
        return tuple(
            MeasuredMarginal(each.places, values, each.scale, laplace=True, unit_value=step)
            for each, values in zip(self.plan.marginals, arrays, strict=True)
        )

    def _arrays(self) -> Iterator[Integers]:
        for text, shape in zip(self.values, shapes_of(self.plan), strict=True):
            yield unpacked(text).reshape(shape)


def shapes_of(plan: Plan) -> Iterator[tuple[int, ...]]:
    """List the shapes of what is measured, in the order of the plan."""
    for block in plan.blocks:
        yield block_algebra.shape(block.block, plan.attributes)
    for marginal in plan.marginals:
        yield tuple(plan.attributes[place].size for place in marginal.places)


def packed(values: Integers) -> str:
    """Write 64-bit whole numbers as text."""
    return binascii.b2a_base64(np.ascontiguousarray(values, "<i8").data, newline=False).decode()


def unpacked(text: str) -> Integers:
    """Read them again; they cannot be written to."""
    try:
        return np.frombuffer(binascii.a2b_base64(text, strict_mode=True), "<i8").astype(np.int64, copy=False)
    except (binascii.Error, ValueError):
        raise InvalidParameter("values", text, "whole numbers in base64") from None


def _largest(count: int) -> str:
    """Write so many times the largest whole number: three of them are 32 characters, over and over."""
    return packed(np.full(3, LARGEST_INTEGER)) * (count // 3) + packed(np.full(count % 3, LARGEST_INTEGER))


def _rehearsed(plan: Plan) -> Plan:
    """Leave out the largest parts of a plan with many numbers; a total stands for a single part that is all of it."""
    sizes = np.array([math.prod(shape) for shape in shapes_of(plan)])
    order = np.argsort(sizes, kind="stable")
    kept = sorted(order[np.cumsum(sizes[order]) <= _REHEARSED].tolist())
    if len(kept) == len(sizes):
        return plan
    if plan.marginals:
        marginals = tuple(plan.marginals[place] for place in kept) or (replace(plan.marginals[0], places=()),)
        return replace(plan, marginals=marginals)
    return replace(plan, blocks=tuple(plan.blocks[place] for place in kept) or (replace(plan.blocks[0], block=()),))


@dataclass(frozen=True)
class PublishDraw:
    """A table is published as one batch of noisy blocks, or marginals, of what is read in one pass."""

    plan: Plan
    reading: Marginals
    batch: Batch
    total: Price
    version: str
    table: str
    where: str = ""
    face: TableFace = BARE

    def __post_init__(self) -> None:
        (scaled,) = self.reading.bounded.measures
        if self.plan.most != scaled.added.total or self.plan.unit_value != scaled.unit_value:
            raise InvalidParameter("plan", float(self.plan.rows), "one for as many rows of a unit as are read")
        numbers = sum(map(math.prod, shapes_of(self.plan)))
        if numbers > MOST_NUMBERS:
            raise Unsupported(
                "too-many-numbers",
                f"at most {MOST_NUMBERS:,} noisy numbers are published at once; these marginals need {numbers:,}",
                fix="ask for sets of fewer columns",
            )

    @property
    def readings(self) -> tuple[Marginals]:
        return (self.reading,)

    @cached_property
    def good_enough(self) -> Mapping[str, Number]:
        """Earlier measurements are as good if their worst marginal is as close, and all of them are on the whole."""
        widths = np.array([width(self.plan, each, CONFIDENCE) for each in self.plan.workload.sets])
        return {"worst": f"{widths.max():.12g}", "typical": f"{np.sqrt((widths**2).mean()):.12g}"}

    @cached_property
    def written_accuracy(self) -> Mapping[str, Number]:
        """Tell beside that how well each column is known, and the number of rows: who looks for an answer among many
        reads which columns a synopsis has from its line.
        """
        plan = self.plan
        used = sorted({place for places in plan.workload.sets for place in places})
        columns = {_COLUMN + plan.attributes[place].name: expected_width(plan, (place,)) for place in used}
        widths = {"rows": expected_width(plan, ()), **columns}
        return {**self.good_enough, **{name: f"{each:.12g}" for name, each in widths.items() if each < math.inf}}

    def draw(self, read: Read) -> Published:
        return self.noisy(read(self.reading))

    def noisy(self, exact: Any) -> Published:
        """Measure what was read."""
        return self._published(
            self.plan, tuple(packed(each.draw(each.reading.of(exact))) for each in self.batch.measurements)
        )

    def rehearsal(self) -> Published:
        """Write the largest numbers there can be: what noise makes of totals is held to 64 bits.

        Every number is 8 bytes whatever it is. So of the largest parts of a large plan only the length is left to know,
        and that was checked.
        """
        plan = _rehearsed(self.plan)
        return self._published(plan, tuple(_largest(math.prod(shape)) for shape in shapes_of(plan)))

    def _published(self, plan: Plan, values: tuple[str, ...]) -> Published:
        terms = purchase([self.batch.bounded], self.total, self.version)
        return Published(plan, values, self.table, self.where, terms, self.total, self.face)


def columns_of(accuracy: Mapping[str, object]) -> frozenset[str]:
    """Read the published columns from a line's accuracy; none where an older version wrote it."""
    return frozenset(name.removeprefix(_COLUMN) for name in accuracy if name.startswith(_COLUMN))


def noise_words(plan: Plan) -> str:
    """Say in words what noise was drawn, and on what."""
    if plan.marginals:
        return f"Laplace on {many(len(plan.marginals), 'whole marginal')}"
    return f"Gaussian on {many(len(plan.blocks), 'block')} of {many(len(plan.workload.sets), 'marginal')}"


def shares(plan: Plan) -> dict[Set, float]:
    """Say which share of the price pays for the blocks of each set of attributes, or for its marginal."""
    found: dict[Set, float] = {}
    for block in plan.blocks:
        places = block_algebra.places(block.block)
        found[places] = found.get(places, 0.0) + float(plan.block_rho(block) / plan.rho)
    for marginal in plan.marginals:
        found[marginal.places] = float(plan.sensitivity(marginal).total / marginal.scale / plan.epsilon)
    return found


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
