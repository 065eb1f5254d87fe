"""Measure all marginals at once, as noisy blocks: one reading, one batch, one charge, whatever their number.

The largest marginals of a plan are read in one pass, with one weight for all rows of a unit, so that every smaller
marginal is a sum of them and a unit's weights add up to at most m in each. Every block is computed from them in whole
numbers and gets noise of its own; at a pure price whole marginals do. What one unit changes follows from the bounded
rows that are read (``gaussian_blocks``, theorem), never from the plan that chose the noise.

Several releases of one table are combined: every column has one index, whichever release published it.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.nodes import Scan
from sfumato.policy import Domain
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Sensitivity, codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import BARE, Attribute, Attributes, PublicTableFacts
from sfumato.publish.marginals.blocks import AttributeSet, Block, scaled_residual, sum_marginal_to
from sfumato.publish.marginals.estimating import MeasuredBlock, MeasuredMarginal, gaussian_half_width
from sfumato.publish.marginals.planning import NoisePlan
from sfumato.quick_dataclass import dataclass
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, purchase_terms
from sfumato.release.prices import Price

if TYPE_CHECKING:
    from sfumato.plan.bounding import BoundedPlan
    from sfumato.plan.readings.dense_readings import Marginals
    from sfumato.release.measurement import Batch
    from sfumato.release.releasing import Read


CONFIDENCE = float(DEFAULT_CONFIDENCE)
"""The confidence at which stored measurements are compared."""
MAX_NUMBERS = 2 * 10**7
"""The most numbers of one release that the ledger stores as one answer."""
_MAX_DRY_RUN_CELLS = 10**5
_LAPLACE_WIDTH = -math.log(1 - CONFIDENCE)
"""The half-width of Laplace noise of scale 1."""
_COLUMN = "column "


@dataclass(frozen=True)
class ResidualBlock:
    """A block as it is measured: g·M_B·m_B, from one of the marginals that were read."""

    marginals: Marginals
    index: int
    attributes: Attributes
    block: Block
    grid: int = 1

    def __post_init__(self) -> None:
        marginal_indices, shape = (
            self.marginals.sets[self.index],
            tuple(attribute.size for attribute in self.attributes),
        )
        if not set(block_algebra.block_attribute_indices(self.block)) <= set(marginal_indices):
            raise InvalidParameter("block", self.block, "a block of the marginal that is read")
        if shape != self.marginals.shape(tuple(range(len(self.attributes)))):
            raise InvalidParameter("attributes", shape, "the attributes of the keys that are read, with the same cells")

    @property
    def bounded(self) -> BoundedPlan:
        return self.marginals.bounded

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Bound the change by one unit, from the bounded rows: its weights, in steps of the totals, sum to at most
        what it adds to all of them.
        """
        (scaled,) = self.bounded.measures
        max_weight, relation = scaled.add_remove_sensitivity.total, scaled.sensitivity.neighbours
        is_fixed = has_fixed_total(self.bounded)
        return block_algebra.block_sensitivity(
            self.block, self.attributes, max_weight, self.grid, relation, fixed_total=is_fixed
        )

    def extract(self, exact: Any) -> Integers:
        """Return the measured values as one row, from all marginals as they were read."""
        marginal = sum_marginal_to(
            exact[self.index], self.marginals.sets[self.index], block_algebra.block_attribute_indices(self.block)
        )
        return scaled_residual(marginal, self.block, self.attributes, self.grid).reshape(-1)


def has_fixed_total(bounded_plan: BoundedPlan) -> bool:
    """Return whether replacing a unit leaves the number of rows unchanged: every row is a unit, and all rows count."""
    return bounded_plan.every_row_is_unit and isinstance(bounded_plan.bounding_node.input, Scan)


def largest_sets(sets: Sequence[AttributeSet]) -> tuple[AttributeSet, ...]:
    """Return the sets that are not subsets of others, in their order: all marginals are sums of these."""
    larger: dict[int, set[AttributeSet]] = {
        attribute_index: set() for attribute_set in sets for attribute_index in attribute_set
    }
    maximal: set[AttributeSet] = set()
    for _, same_size in groupby(sorted({*sets}, key=len, reverse=True), len):
        maximal_sets = [
            attribute_set
            for attribute_set in same_size
            if not (_supersets(attribute_set, larger) if attribute_set else maximal)
        ]
        maximal.update(maximal_sets)
        for attribute_set in maximal_sets:
            for attribute_index in attribute_set:
                larger[attribute_index].add(attribute_set)
    return tuple(attribute_set for attribute_set in dict.fromkeys(sets) if attribute_set in maximal)


def _supersets(attribute_set: AttributeSet, larger: Mapping[int, set[AttributeSet]]) -> set[AttributeSet]:
    """Return the larger sets that hold all of these attributes."""
    return set.intersection(*(larger[attribute_index] for attribute_index in attribute_set))


def measured_sets(plan: NoisePlan) -> tuple[AttributeSet, ...]:
    """Return the marginals that are read for a plan."""
    return tuple(marginal.attribute_set for marginal in plan.marginals) or largest_sets(plan.workload.sets)


def measurement_batch(plan: NoisePlan, reading: Marginals) -> Batch:
    """Build the measurements of a plan, in its order, on what is read for it."""
    # Imported here because readers of a file draw no noise.
    from sfumato.mechanisms import Gaussian, Laplace
    from sfumato.plan.readings.dense_readings import Marginal
    from sfumato.release.measurement import Batch, Measurement

    if plan.marginals:
        return Batch(
            tuple(
                Measurement(Marginal(reading, index), Laplace(planned.scale))
                for index, planned in enumerate(plan.marginals)
            )
        )
    source_of = _smallest_marginal_finder(reading)
    return Batch(
        tuple(
            Measurement(
                ResidualBlock(reading, source_of(planned.block), plan.attributes, planned.block, planned.grid),
                Gaussian(planned.deviation),
            )
            for planned in plan.blocks
        )
    )


def _smallest_marginal_finder(reading: Marginals) -> Callable[[Block], int]:
    """Return a function that finds the smallest marginal read that holds a block."""
    order = sorted(range(len(reading.sets)), key=lambda index: math.prod(reading.shape(reading.sets[index])))
    holding: dict[int, list[int]] = {}
    for index in order:
        for attribute_index in reading.sets[index]:
            holding.setdefault(attribute_index, []).append(index)
    sets = [frozenset(attribute_set) for attribute_set in reading.sets]

    def smallest(block: Block) -> int:
        attribute_set = frozenset(block_algebra.block_attribute_indices(block))
        candidates = holding.get(next(iter(attribute_set)), []) if attribute_set else order
        return next(index for index in candidates if attribute_set <= sets[index])

    return smallest


def largest_variance(plan: NoisePlan, attribute_set: AttributeSet) -> float:
    """Return the largest variance of a cell of a marginal within the closure of a plan of blocks, in rows.

    Cells of one attribute differ only in how their levels split, so one cell of each kind is enough.
    """
    kinds = [_variance_factors_by_level(plan.attributes[attribute_index]) for attribute_index in attribute_set]
    variances: Any = 0.0
    for block in block_algebra.blocks_within(attribute_set, plan.attributes):
        levels = dict(block)
        product: Any = plan.block_variances[block]
        for attribute_index, factors in zip(attribute_set, kinds, strict=True):
            product = np.multiply.outer(product, factors[levels.get(attribute_index, 0)])
        variances = variances + product
    return float(np.max(variances))


@lru_cache(maxsize=1024)
def _variance_factors_by_level(attribute: Attribute) -> Floats:
    """Return, for no difference and each of an attribute's own, the factor of its variance in each kind of cell."""
    chain = attribute.hierarchy
    return np.unique([chain.shares**2, *(difference.cell_variances for difference in chain.differences)], axis=1)


def cell_half_width(plan: NoisePlan, attribute_set: AttributeSet, confidence: float, cells: int = 1) -> float:
    """Return the half-width of each cell of a marginal at this confidence, in rows: as measured, or as it follows
    from blocks. ``cells`` ranges that hold together share the miss probability.
    """
    if not plan.marginals:
        return gaussian_half_width(largest_variance(plan, attribute_set), 1 - confidence, cells)
    planned = next(marginal for marginal in plan.marginals if marginal.attribute_set == attribute_set)
    from sfumato.mechanisms import Laplace

    return float(Laplace(planned.scale).error(f"{confidence:.12g}", cells) * plan.unit_value)


def expected_width(plan: NoisePlan, attribute_set: AttributeSet) -> float:
    """Return the half-width of one cell of the marginal over these columns, in rows; infinite if no part of the plan
    has all of them.

    A cell of a smaller marginal than was measured with Laplace noise is a sum of k measured cells: √k times as wide, by
    their variances.
    """
    if not plan.marginals:
        is_covered = all(
            block in plan.block_variances for block in block_algebra.blocks_within(attribute_set, plan.attributes)
        )
        return gaussian_half_width(largest_variance(plan, attribute_set), 1 - CONFIDENCE) if is_covered else math.inf
    wanted_indices = set(attribute_set)
    scales = (
        float(marginal.scale)
        * math.sqrt(
            math.prod(
                plan.attributes[attribute_index].size for attribute_index in {*marginal.attribute_set} - wanted_indices
            )
        )
        for marginal in plan.marginals
        if wanted_indices <= {*marginal.attribute_set}
    )
    return min(scales, default=math.inf) * _LAPLACE_WIDTH * float(plan.unit_value)


@codec.serialisable("published")
@dataclass(frozen=True, eq=False)
class PublishedMarginals:
    """What was released of a table: the plan, the noisy integers in its order, and the terms."""

    plan: NoisePlan
    values: tuple[str, ...]
    """For each block or marginal of the plan: 64-bit little-endian integers, in base64."""
    table: str = ""
    where: str = ""
    purchase: PurchaseTerms = NOT_BOUGHT
    price: Price | None = None
    """The promised price; None if the release was never bought."""
    face: PublicTableFacts = BARE

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        shapes = list(measured_shapes(self.plan))
        if len(self.values) != len(shapes):
            raise InvalidParameter(
                "values",
                ValueWords(f"a list of {len(self.values)}"),
                f"a list of length {len(shapes)}, with a string for each part of the plan",
            )
        for text, shape in zip(self.values, shapes, strict=True):
            require_integer_count("values", text, math.prod(shape))

    @property
    def price_or_plan_cost(self) -> Price:
        """The promised price or, if that was not kept, the cost of the plan."""
        if self.price is not None:
            return self.price
        return Price(rho=self.plan.rho) if self.plan.blocks else Price(self.plan.epsilon)

    @cached_property
    def gaussian_blocks(self) -> tuple[MeasuredBlock, ...]:
        """The blocks with their noise, as they are combined."""
        arrays = self._decoded_arrays() if self.plan.blocks else ()
        unit_value = self.plan.unit_value
        return tuple(
            MeasuredBlock(planned.block, values, planned.deviation, planned.grid, unit_value)
            for planned, values in zip(self.plan.blocks, arrays, strict=True)
        )

    @cached_property
    def laplace_marginals(self) -> tuple[MeasuredMarginal, ...]:
        """The marginals with Laplace noise, as they are combined."""
        arrays = self._decoded_arrays() if self.plan.marginals else ()
        unit_value = self.plan.unit_value
        return tuple(
            MeasuredMarginal(planned.attribute_set, values, planned.scale, laplace=True, unit_value=unit_value)
            for planned, values in zip(self.plan.marginals, arrays, strict=True)
        )

    def _decoded_arrays(self) -> Iterator[Integers]:
        for text, shape in zip(self.values, measured_shapes(self.plan), strict=True):
            yield decode_integers(text).reshape(shape)


def measured_shapes(plan: NoisePlan) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of what is measured, in the order of the plan."""
    for block in plan.blocks:
        yield block_algebra.block_shape(block.block, plan.attributes)
    for marginal in plan.marginals:
        yield tuple(plan.attributes[attribute_index].size for attribute_index in marginal.attribute_set)


def encode_integers(values: Integers) -> str:
    """Encode 64-bit integers as text."""
    return binascii.b2a_base64(np.ascontiguousarray(values, "<i8").data, newline=False).decode()


def decode_integers(text: str) -> Integers:
    """Decode 64-bit integers from text; the array is read-only."""
    try:
        return np.frombuffer(binascii.a2b_base64(text, strict_mode=True), "<i8").astype(np.int64, copy=False)
    except (binascii.Error, ValueError):
        raise InvalidParameter("values", text, "whole numbers in base64") from None


def require_integer_count(parameter: str, text: str, count: int) -> None:
    """Refuse text that cannot hold so many 64-bit integers, by its length."""
    length = -(-8 * count // 3) * 4
    if len(text) != length:
        integers = count_with_noun(count, "integer")
        rule = f"base64 text of 64-bit integers: {integers} here, in {count_with_noun(length, 'character')}"
        raise InvalidParameter(parameter, ValueWords(f"text of {len(text):,} characters"), rule)


def _encode_largest(count: int) -> str:
    """Encode ``count`` times the largest integer: three of them are 32 characters, repeated."""
    return encode_integers(np.full(3, LARGEST_INTEGER)) * (count // 3) + encode_integers(
        np.full(count % 3, LARGEST_INTEGER)
    )


def _without_largest_parts(plan: NoisePlan) -> NoisePlan:
    """Leave out the largest parts of a plan with many numbers; a total replaces a part that is the whole plan."""
    sizes = np.array([math.prod(shape) for shape in measured_shapes(plan)])
    order = np.argsort(sizes, kind="stable")
    smallest_parts = sorted(order[np.cumsum(sizes[order]) <= _MAX_DRY_RUN_CELLS].tolist())
    if len(smallest_parts) == len(sizes):
        return plan
    if plan.marginals:
        marginals = tuple(plan.marginals[index] for index in smallest_parts) or (
            replace(plan.marginals[0], attribute_set=()),
        )
        return replace(plan, marginals=marginals)
    return replace(
        plan, blocks=tuple(plan.blocks[index] for index in smallest_parts) or (replace(plan.blocks[0], block=()),)
    )


@dataclass(frozen=True)
class MarginalsRelease:
    """The release of a table as one batch of noisy blocks, or marginals, from one reading."""

    plan: NoisePlan
    reading: Marginals
    batch: Batch
    price: Price
    version: str
    table: str
    where: str = ""
    face: PublicTableFacts = BARE

    def __post_init__(self) -> None:
        (scaled,) = self.reading.bounded.measures
        if self.plan.max_weight != scaled.add_remove_sensitivity.total or self.plan.unit_value != scaled.unit_value:
            got = ValueWords(f"rows = {float(self.plan.rows):g}")
            raise InvalidParameter("plan", got, "a plan whose rows are the rows counted per unit")
        numbers = sum(map(math.prod, measured_shapes(self.plan)))
        if numbers > MAX_NUMBERS:
            raise Unsupported(
                "too-many-numbers",
                f"at most {MAX_NUMBERS:,} noisy numbers can be published at once, and these marginals need {numbers:,}",
                fix="publish fewer columns, or sets of fewer columns",
            )

    @property
    def readings(self) -> tuple[Marginals]:
        return (self.reading,)

    @cached_property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The half-widths that stored measurements must match to be reused: of the worst marginal, and overall."""
        widths = np.array(
            [cell_half_width(self.plan, attribute_set, CONFIDENCE) for attribute_set in self.plan.workload.sets]
        )
        return {"worst": f"{widths.max():.12g}", "typical": f"{np.sqrt((widths**2).mean()):.12g}"}

    @cached_property
    def written_accuracy(self) -> Mapping[str, Number]:
        """Add the half-widths of each column and of the number of rows, from which a search for stored answers reads
        the columns of a synopsis.
        """
        plan = self.plan
        used_indices = sorted(
            {attribute_index for attribute_set in plan.workload.sets for attribute_index in attribute_set}
        )
        columns = {
            _COLUMN + plan.attributes[attribute_index].name: expected_width(plan, (attribute_index,))
            for attribute_index in used_indices
        }
        widths = {"rows": expected_width(plan, ()), **columns}
        return {
            **self.accuracy_for_reuse,
            **{name: f"{half_width:.12g}" for name, half_width in widths.items() if half_width < math.inf},
        }

    def draw(self, read: Read) -> PublishedMarginals:
        return self.add_noise(read(self.reading))

    def add_noise(self, exact: Any) -> PublishedMarginals:
        """Add noise to what was read."""
        return self._build_published(
            self.plan,
            tuple(
                encode_integers(measurement.draw(measurement.reading.extract(exact)))
                for measurement in self.batch.measurements
            ),
        )

    def result_at_extreme_totals(self) -> PublishedMarginals:
        """Build the largest possible answer: noisy totals are clamped to 64 bits.

        Every number is 8 bytes whatever its value. So for the largest parts of a large plan only the length matters,
        and that was checked.
        """
        plan = _without_largest_parts(self.plan)
        return self._build_published(plan, tuple(_encode_largest(math.prod(shape)) for shape in measured_shapes(plan)))

    def _build_published(self, plan: NoisePlan, values: tuple[str, ...]) -> PublishedMarginals:
        terms = purchase_terms([self.batch.bounded], self.price, self.version)
        return PublishedMarginals(plan, values, self.table, self.where, terms, self.price, self.face)


def recorded_columns(accuracy: Mapping[str, object]) -> frozenset[str]:
    """Read the published columns from a line's accuracy; none if an older version wrote it."""
    return frozenset(name.removeprefix(_COLUMN) for name in accuracy if name.startswith(_COLUMN))


def noise_words(plan: NoisePlan) -> str:
    """Describe the noise that was drawn, and on what."""
    if plan.marginals:
        return f"Laplace on {count_with_noun(len(plan.marginals), 'whole marginal')}"
    return (
        f"Gaussian on {count_with_noun(len(plan.blocks), 'block')} of "
        f"{count_with_noun(len(plan.workload.sets), 'marginal')}"
    )


def price_share_by_set(plan: NoisePlan) -> dict[AttributeSet, float]:
    """Return the share of the price for the blocks of each set of attributes, or for its marginal."""
    shares_by_set: dict[AttributeSet, float] = {}
    for block in plan.blocks:
        attribute_set = block_algebra.block_attribute_indices(block.block)
        shares_by_set[attribute_set] = shares_by_set.get(attribute_set, 0.0) + float(plan.block_rho(block) / plan.rho)
    for marginal in plan.marginals:
        shares_by_set[marginal.attribute_set] = float(plan.sensitivity(marginal).total / marginal.scale / plan.epsilon)
    return shares_by_set


@dataclass(frozen=True, eq=False)
class CombinedReleases:
    """Releases in their order, and the columns of all of them: those of the first keep their indices."""

    releases: tuple[PublishedMarginals, ...]
    attributes: Attributes
    domains: tuple[Domain, ...]

    @classmethod
    def from_releases(cls, releases: Sequence[PublishedMarginals]) -> CombinedReleases:
        """Combine the columns of releases; columns of the same name must have the same cells."""
        attributes: dict[str, Attribute] = {}
        domains: dict[str, Domain] = {}
        for release in releases:
            columns = zip(release.plan.attributes, release.face.domains_for(release.plan.attributes), strict=True)
            for attribute, domain in columns:
                first_attribute = attributes.setdefault(attribute.name, attribute)
                if first_attribute != attribute or domains.setdefault(attribute.name, domain) != domain:
                    rule = f"a synopsis in which {attribute.name} has the same values or bins"
                    raise InvalidParameter("other", attribute.name, rule, fix="query each synopsis separately")
        return cls(tuple(releases), tuple(attributes.values()), tuple(domains.values()))

    @property
    def blocks(self) -> tuple[MeasuredBlock, ...]:
        """All blocks, with the indices that their columns have here."""
        return tuple(
            self._with_combined_attribute_indices(block, release)
            for release in self.releases
            for block in release.gaussian_blocks
        )

    @property
    def requested_sets(self) -> tuple[AttributeSet, ...]:
        """The requested marginals, without duplicates."""
        return self._sets_in_combined_attribute_indices(
            [(release, release.plan.workload.sets) for release in self.releases]
        )

    @property
    def measured_sets(self) -> tuple[AttributeSet, ...]:
        """The largest marginals within what was measured."""
        return self._sets_in_combined_attribute_indices(
            [(release, measured_sets(release.plan)) for release in self.releases]
        )

    def _sets_in_combined_attribute_indices(
        self, sets_by_release: Sequence[tuple[PublishedMarginals, Sequence[AttributeSet]]]
    ) -> tuple[AttributeSet, ...]:
        moved = (
            tuple(
                sorted(self._combined_attribute_indices(release)[attribute_index] for attribute_index in attribute_set)
            )
            for release, sets in sets_by_release
            for attribute_set in sets
        )
        return tuple(dict.fromkeys(moved))

    def _combined_attribute_indices(self, release: PublishedMarginals) -> list[int]:
        """Return the index here of each column of a release."""
        index_by_name = {attribute.name: attribute_index for attribute_index, attribute in enumerate(self.attributes)}
        return [index_by_name[attribute.name] for attribute in release.plan.attributes]

    def _with_combined_attribute_indices(self, measured: MeasuredBlock, release: PublishedMarginals) -> MeasuredBlock:
        combined_indices = self._combined_attribute_indices(release)
        moved_block = [(combined_indices[attribute_index], level) for attribute_index, level in measured.block]
        order = sorted(range(len(moved_block)), key=lambda axis: moved_block[axis])
        values = measured.values.transpose(order)
        return replace(measured, block=tuple(moved_block[axis] for axis in order), values=values)
