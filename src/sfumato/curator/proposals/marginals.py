"""The proposal to publish marginals: counts of all cells of some sets of columns, measured once at one price.

Which blocks are measured, and with how much noise, follows from the policy, the sets and the price alone
(``publish.planning``). All are read in one pass and charged as one ledger line, whatever the number of marginals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, restrict_to_periods
from sfumato.curator.previews.error_forecasts import MAX_MARGINAL_LINES, MarginalsForecast, marginal_name
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_limit, explain_source
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.bought_synopses import columns_hash, synopsis_key_prefixes
from sfumato.curator.proposals.selected_columns import code_selected_columns, first_row_per_unit, refuse_repeated_names
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.additive import MAX_STEPS
from sfumato.plan import costs
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan, bound_by_unit_weights, for_neighbours
from sfumato.plan.canonical import PlanKey, digest_beginning
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun, describe_dropped_rows
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate, Query
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.readings.dense_readings import MAX_CELLS, Marginals
from sfumato.plan.sql.building import start_selection, where as filter_rows
from sfumato.plan.sql.row_sources import RowSource
from sfumato.policy import Domain, Table
from sfumato.policy.codings import Coding
from sfumato.privacy import Curve, Sensitivity
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, POSITIVE, Number, exact, format_number
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import (
    Attributes,
    CodedColumn,
    PublicTableFacts,
    code_columns,
    measurable_column_names,
)
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.measuring import (
    MarginalsRelease,
    PublishedMarginals,
    cell_half_width,
    has_fixed_total,
    largest_sets,
    measured_sets,
    measurement_batch,
    noise_words,
    price_share_by_set,
)
from sfumato.publish.marginals.planning import (
    LARGEST_COUNT,
    MAX_RANGED,
    MarginalWorkload,
    NoisePlan,
    independent_variances,
    plan_gaussian,
    plan_laplace,
)
from sfumato.publish.synopsis import Synopsis, key_type
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns, with_count_column
from sfumato.release.measurement import Batch
from sfumato.release.parts.shares import Family, NamedNoise, noise_family
from sfumato.release.prices import GAUSSIAN_NEEDS, GIVE_DELTA, Price, least_epsilon_where, rounded_up_to_4_digits
from sfumato.release.proposal import ReleaseCall, StoredProposal, is_stored, make_receipt, release_or_find
from sfumato.release.releasing import StoredResult
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

Ways = int | Sequence[Sequence[str]]
Weights = Sequence[Number] | Mapping[tuple[str, ...], Number] | None

_HELD_BACK = (Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 10**4), Fraction(1, 100))
"""The fractions of the price held back, tried in turn: room for rounding of the noise and of the computed loss."""
_SPENT_FACTOR = 1 - 1e-5
"""Less than the share of a price that is spent, with room for held-back price and rounding of the noise."""
_MAX_BITS, _MIN_BITS = 20, 6
_MAX_EXAMPLE_SETS = 6


@dataclass(frozen=True)
class MarginalsProposal(RehearseAlias, StoredProposal):
    """A proposal to publish marginals: only ``release`` spends."""

    _context: Context = field(repr=False)
    query: Query = field(repr=False)
    coded_columns: tuple[CodedColumn, ...] = field(repr=False)
    workload: MarginalWorkload
    objective: str
    limits: ContributionLimits
    condition: str = ""
    """The WHERE condition as written; empty for all rows."""
    selected_domains: tuple[Domain, ...] = field(default=(), repr=False)
    """The public domains of a SELECT's columns; empty for a table, whose domains are in the policy."""

    @property
    def attributes(self) -> Attributes:
        """The cells of each column."""
        return tuple(column.attribute for column in self.coded_columns)

    @property
    def columns(self) -> Columns:
        """The published columns with their types: the cells' columns, and the count."""
        return with_count_column(AnswerColumn(attribute.name, key_type(attribute)) for attribute in self.attributes)

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The marginals, each by its column names."""
        return tuple(self._column_names(indices) for indices in self.workload.sets)

    def __repr__(self) -> str:
        cells = f"{count_with_noun(len(self.sets), 'marginal')} of {self.query.plan.table}"
        return f"<{cells}: .explain() .error() .price() are free, .release() publishes>"

    def _column_names(self, indices: AttributeSet) -> tuple[str, ...]:
        return tuple(self.attributes[index].name for index in indices)

    @cached_property
    def question(self) -> str:
        """The proposal in words, as stored in the ledger."""
        sets = ", ".join(f"({', '.join(names)})" for names in self.sets[:_MAX_EXAMPLE_SETS])
        more = f" and {len(self.sets) - _MAX_EXAMPLE_SETS:,} more" if len(self.sets) > _MAX_EXAMPLE_SETS else ""
        where = f" where {self.condition[:1000]}" if self.condition else ""
        return f"{count_with_noun(len(self.sets), 'marginal')} of {self.query.plan.table}{where}: {sets[:4000]}{more}"

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured, with cells, sets and limits.

        It is prefixed by the table's shelf, where questions look for synopses.
        """
        plan, names = self.query.plan, [attribute.name for attribute in self.attributes]
        parts = plan.source, plan.keys, self.attributes, self.workload, self.objective, self.limits
        make_hash = digest_beginning("marginals", *parts)
        content = self._context.plan_key(plan, make_hash, reads_cells=True)
        shelf = synopsis_key_prefixes(self._context, plan.table)
        columns = columns_hash(self._context, plan.table, names)
        return PlanKey(f"{shelf.current}{columns}-{content.current}", shelf.former + make_hash())

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
    ) -> Explanation:
        """Explain the release at this price, with the plan as a table; at ρ = 1/2 when none is given. Free."""
        has_price = epsilon is not None or rho is not None
        draw = self._strategy_at(Price(epsilon, delta, rho) if has_price else Price(rho="0.5"), mechanism)
        confidence_level = float(exact(confidence, "confidence", CONFIDENCE))
        noise_text = "whole marginals with Laplace noise" if draw.plan.marginals else "blocks with Gaussian noise"
        cells = sum(math.prod(self.attributes[index].size for index in indices) for indices in self.workload.sets)
        operators = (
            *explain_source(self.query, self._context.policy),
            explain_limit(draw.reading.bounded),
            PlanStep(
                "cells",
                f"{count_with_noun(len(self.sets), 'marginal')} of "
                f"{count_with_noun(len(self.coded_columns), 'column')}, {count_with_noun(cells, 'cell')}",
                "declared, so shown whatever the data hold; missing and undeclared values have a cell of their own",
            ),
            *self._explain_measurements(draw.plan, confidence_level),
            *explain_period_charges(self._context),
        )
        notes = self._context.epsilon_total_warnings(draw.batch.curve)
        return Explanation(
            self.question, str(draw.price), operators, f"{noise_text}, for {self._describe_objective(draw.plan)}", notes
        )

    def _describe_objective(self, plan: NoisePlan) -> str:
        """Describe the plan's objective: for columns with levels it covers sums over ranges, not single cells."""
        if self.objective == "worst":
            return "the smallest maximum of the variances"
        range_columns = " and ".join(self._column_names(() if plan.marginals else self._workload_with_ranges.ranges))
        range_note = (
            f", over all ranges of {range_columns}: their single cells have more noise" if range_columns else ""
        )
        return f"the smallest sum of variances{range_note}"

    def _explain_measurements(self, plan: NoisePlan, confidence: float) -> list[PlanStep]:
        """Describe what is measured, its cost and error, and the error of noise on each marginal."""
        price_shares = price_share_by_set(plan)
        independent_widths = self._widths_if_independent(plan, confidence)
        by_share = sorted(price_shares, key=lambda indices: -price_shares[indices])
        operators = [
            PlanStep(
                "measure",
                marginal_name(self._column_names(indices)) or "the number of rows",
                f"{price_shares[indices]:.2%} of the price; "
                f"±{format_number(cell_half_width(plan, indices, confidence))} in each cell"
                + (
                    f", ±{format_number(independent_widths[indices])} if each marginal had noise of its own"
                    if indices in independent_widths
                    else ""
                ),
            )
            for indices in by_share[:MAX_MARGINAL_LINES]
        ]
        hidden = by_share[MAX_MARGINAL_LINES:]
        hidden_share = f"{sum(price_shares[indices] for indices in hidden):.2%} of the price together"
        return [*operators, PlanStep("measure", f"{len(hidden):,} more", hidden_share)] if hidden else operators

    def _widths_if_independent(self, plan: NoisePlan, confidence: float) -> dict[AttributeSet, float]:
        """Return the half-width of each marginal if measured by itself, with Gaussian noise at this price."""
        if plan.marginals:
            return {}
        variances = independent_variances(self.workload, self.attributes, plan.rows, plan.rho, self.objective)
        mechanism = Gaussian(10**6)
        ratio = float(mechanism.error(f"{confidence:.12g}")) / 10**6
        return {
            indices: ratio * math.sqrt(variance)
            for indices, variance in zip(self.workload.sets, variances, strict=True)
        }

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        joint: bool = False,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
    ) -> MarginalsForecast:
        """Return the half-width of every cell of each marginal at this price. Free."""
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        draw = self._strategy_at(Price(epsilon, delta, rho), mechanism)
        stored = not fresh and is_stored(draw, self.plan_key, self._context)
        return MarginalsForecast(
            self.sets,
            tuple(self._cell_half_width(draw.plan, indices, confidence_level, joint) for indices in self.workload.sets),
            confidence_level,
            joint,
            str(draw.price),
            all(budget.affords(draw.batch.curve) for budget in self._context.budgets),
            stored,
            describe_dropped_rows([draw.reading.bounded]),
            () if stored else self._context.epsilon_total_warnings(draw.batch.curve),
        )

    def price(
        self,
        within: Number,
        for_: Sequence[str] | None = None,
        *,
        delta: Number = 0,
        confidence: Number = DEFAULT_CONFIDENCE,
        joint: bool = False,
    ) -> float:
        """Return the least ε, at this δ, at which every cell of a marginal, or of all, is within this. Free."""
        error_limit = float(exact(within, "within", POSITIVE))
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        pure = not Price(1, delta).delta
        base_plan, sets = self._base_plan(pure), self._requested_or_all_sets(for_, pure=pure)
        widest = max(sets, key=lambda indices: self._cell_half_width(base_plan, indices, confidence_level, joint))
        if not pure:
            rho = (
                float(base_plan.rho)
                * (self._cell_half_width(base_plan, widest, confidence_level, joint) / error_limit) ** 2
            )
            return float(
                rounded_up_to_4_digits(
                    Fraction(Curve.gaussian(f"{_SPENT_FACTOR / math.sqrt(2 * rho):.17g}").epsilon(delta))
                )
            )

        def is_within(epsilon: Fraction) -> bool:
            return (
                self._cell_half_width(self._scaled_plan(Price(epsilon), _HELD_BACK[0]), widest, confidence_level, joint)
                <= error_limit
            )

        return least_epsilon_where(is_within)

    def _requested_or_all_sets(self, columns: Sequence[str] | None, *, pure: bool) -> tuple[AttributeSet, ...]:
        """Parse which marginal is meant: a requested one, or where blocks are measured, a subset of one."""
        if columns is None:
            return self.workload.sets
        index_of_name = {attribute.name.lower(): index for index, attribute in enumerate(self.attributes)}
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        indices = tuple(sorted({index_of_name.get(str(name).lower(), -1) for name in names}))
        containing = [requested for requested in self.workload.sets if set(indices) <= set(requested)]
        if not containing or (pure and indices not in containing):
            marginals = _first_marginals_text(self.workload.sets, [attribute.name for attribute in self.attributes])
            rule, fix = f"one of the requested marginals: {marginals}", "give the columns of one of these marginals"
            raise InvalidParameter("for_", columns, rule, fix=fix)
        return (indices,)

    def _cell_half_width(self, plan: NoisePlan, indices: AttributeSet, confidence: Fraction, joint: bool) -> float:
        sizes = (math.prod(self.attributes[index].size for index in requested) for requested in self.workload.sets)
        return cell_half_width(plan, indices, float(confidence), sum(sizes) if joint else 1)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> Synopsis:
        """Charge the price once for all marginals and measure them; a stored release as accurate is free."""
        draw = self._strategy_at(Price(epsilon, delta, rho), mechanism)
        return release_or_find(
            draw,
            draw.price,
            self._synopsis_with_receipt,
            question=self.question,
            plan=self.plan_key,
            context=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
    ) -> Synopsis:
        """Return a synopsis of this shape with invented numbers, from the policy alone. Free."""
        return preview_release(
            self,
            self._context,
            lambda proposal: proposal.release(epsilon=epsilon, delta=delta, rho=rho, mechanism=mechanism),
        )

    def _synopsis_with_receipt(self, result: StoredResult[PublishedMarginals]) -> Synopsis:
        published, context = result.value, self._context
        mechanism_words = (noise_words(published.plan),)
        synopsis_receipt = make_receipt(
            result,
            published.purchase,
            mechanism_words,
            question=self.question,
            context=context,
            confidence=DEFAULT_CONFIDENCE,
        )
        return Synopsis(published, synopsis_receipt)

    # ── planning at a price ────────────────────────────────────────────────────────────

    def _strategy_at(self, price: Price, mechanism: NamedNoise | None) -> MarginalsRelease:
        family = noise_family(mechanism)
        price = _price_for_noise_family(price, family)
        if price not in self._cached_draws:
            self._cached_draws[price] = self._prepare_strategy(price)
        return self._cached_draws[price]

    @cached_property
    def _cached_draws(self) -> dict[Price, MarginalsRelease]:
        """The planned release at each price."""
        return {}

    def _prepare_strategy(self, price: Price) -> MarginalsRelease:
        """Prepare the release that spends nearly all of the price, and certainly no more."""
        for held_back in _HELD_BACK:
            plan = self._scaled_plan(price, held_back)
            reading = self._reading(plan)
            batch = measurement_batch(plan, reading)
            if price.is_satisfied_by(batch.curve):
                return self.planned_draw(plan, reading, batch, price)
        rule = "higher, because it is too low for this many numbers"
        raise InvalidParameter("price", str(price), rule, fix="ask for fewer marginals, or pay more")

    def planned_draw(self, plan: NoisePlan, reading: Marginals, batch: Batch, price: Price) -> MarginalsRelease:
        """Return the release of a plan: the batch, over its reading."""
        table = self.query.plan.table
        terms = plan, reading, batch, price, self._context.version, table, self.condition
        return MarginalsRelease(*terms, self.face)

    def plan_and_reading_of_joint_table(self, rho: Fraction) -> tuple[NoisePlan, Marginals]:
        """Return the best blocks for this ρ, with all columns read as one contingency table."""
        plan = self._scaled_plan(Price(rho=rho), _HELD_BACK[0])
        reading = self._reading(plan)
        return plan, replace(reading, sets=(tuple(range(len(self.coded_columns))),))

    @property
    def face(self) -> PublicTableFacts:
        """The parts of the policy that readers of the synopsis need."""
        policy_table = self._context.policy.tables[self.query.plan.table]
        if self.selected_domains:  # impossible rows of the table do not constrain computed columns
            return PublicTableFacts(self.selected_domains, (), self._context.policy.account_name)
        domains = {column.attribute.name: policy_table.columns[column.attribute.name] for column in self.coded_columns}
        implies = tuple(
            (column_name, implied_name)
            for column_name, implied_name in policy_table.implies.items()
            if {column_name, implied_name} <= set(domains)
        )
        return PublicTableFacts(
            tuple(domains.values()), policy_table.impossible, self._context.policy.account_name, implies
        )

    def _scaled_plan(self, price: Price, held_back: Fraction) -> NoisePlan:
        """Scale the best plan to a price, with the weight step for which its noise can be drawn."""
        pure = not price.allows_gaussian
        base_plan, spent = (
            self._base_plan(pure),
            (1 - held_back) * (_require_epsilon(price) if pure else price_in_rho(price)),
        )
        bits = self._weight_bits(base_plan, spent)
        return replace(base_plan, unit_value=Fraction(1, 2**bits)).at_price(spent)

    def _base_plan(self, pure: bool) -> NoisePlan:
        """Return the best plan in whole rows, which is the same at every price up to its scale."""
        if pure not in self._base_plans:
            bounded = self._bounded_plan(0)
            optimize, workload = (plan_laplace, self.workload) if pure else (plan_gaussian, self._workload_with_ranges)
            self._base_plans[pure] = optimize(
                workload,
                self.attributes,
                bounded.measures[0].add_remove_sensitivity.total,
                self.objective,
                neighbours=self._context.policy.neighbours,
                fixed_total=has_fixed_total(bounded),
            )
        return self._base_plans[pure]

    @property
    def _workload_with_ranges(self) -> MarginalWorkload:
        """The workload extended by all ranges of columns with levels, whose sums levels are declared for.

        The ranges together weigh as much as the cells would.
        """
        sizes = {
            index: column.attribute.size for index, column in enumerate(self.coded_columns) if column.attribute.levels
        }
        ranges = tuple(index for index, size in sizes.items() if size <= MAX_RANGED)
        if self.objective != "total" or not ranges:
            return self.workload
        weights = tuple(
            self.workload.weight(index)
            * math.prod((Fraction(2, sizes[range_index]) for range_index in ranges if range_index in indices), start=1)
            for index, indices in enumerate(self.workload.sets)
        )
        return MarginalWorkload(self.workload.sets, weights, ranges)

    @cached_property
    def _base_plans(self) -> dict[bool, NoisePlan]:
        return {}

    def _weight_bits(self, base_plan: NoisePlan, spent: Fraction) -> int:
        """Return the bits of row weights, multiples of 2^-bits: fewer where the noise would be too large to draw."""
        if self._bounded_plan(0).strategy is Strategy.WHOLE:
            return 0
        max_bits = min(_MAX_BITS, self._bounded_plan(_MAX_BITS).measures[0].bits)
        if base_plan.marginals:
            largest = max(marginal.scale for marginal in base_plan.marginals) * base_plan.epsilon / spent
        else:
            growth = math.sqrt(base_plan.rho / spent)
            largest = Fraction(max(float(block.deviation / block.grid) for block in base_plan.blocks) * growth)
            max_bits = min(max_bits, self._unclipped_bits(base_plan))
        bits = min(max_bits, math.floor(math.log2(MAX_STEPS / largest)) - 1)
        if bits < _MIN_BITS:
            raise Unsupported(
                "too-much-noise",
                "at this price, marginals with this many cells need more noise than can be drawn exactly",
                fix="give a higher price, ask for fewer columns at once, or use coarser bins",
            )
        return bits

    def _unclipped_bits(self, base_plan: NoisePlan) -> int:
        """Return the finest weights with which a table's counts do not overflow 64 bits."""
        table = self._context.policy.tables[self.query.plan.table]
        max_count = min(block_algebra.max_unclipped_count(block.block, self.attributes) for block in base_plan.blocks)
        return max(_MIN_BITS, (max_count // min(table.row_ceiling, LARGEST_COUNT)).bit_length() - 1)

    def _bounded_plan(self, bits: int) -> BoundedPlan:
        cells = max(math.prod(self.attributes[index].size for index in indices) for indices in self.workload.sets)
        bounded = bound_by_unit_weights(self.query.plan, self.limits, cells, bits)
        return for_neighbours(bounded, self._context.policy.neighbours)

    def _reading(self, plan: NoisePlan) -> Marginals:
        bits = plan.unit_value.denominator.bit_length() - 1
        codes = tuple(column.codes for column in self.coded_columns)
        return Marginals(self._bounded_plan(bits), codes, measured_sets(plan))


class _ContinuousGaussian:
    """Continuous Gaussian noise: blocks of many steps leak hardly more."""

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        return Curve.gaussian(self.sigma, sensitivity)


def price_in_rho(price: Price) -> Fraction:
    """Return the ρ that a price pays for."""
    if price.rho is not None:
        return price.rho
    sigma = calibrate(_ContinuousGaussian, price.guarantee).sigma
    return 1 / (2 * sigma**2)


def _require_epsilon(price: Price) -> Fraction:
    assert price.epsilon is not None
    return price.epsilon


def _price_for_noise_family(price: Price, family: Family | None) -> Price:
    """Return the price that is spent with a noise family: a pure one for Laplace."""
    if family is Gaussian and not price.allows_gaussian:
        raise InvalidParameter("mechanism", "Gaussian", GAUSSIAN_NEEDS, fix=GIVE_DELTA)
    if family is Laplace and price.rho is not None:
        raise InvalidParameter(
            "mechanism", "Laplace", "Gaussian at a price in ρ", fix="give epsilon (--epsilon) instead of rho (--rho)"
        )
    return Price(price.epsilon) if family is Laplace else price


# ── parsing the request ──────────────────────────────────────────────────────────────────────────


def propose_marginals(
    context: Context,
    catalog: Catalog,
    table: str,
    ways: Ways,
    *,
    weights: Weights = None,
    objective: str = "total",
    where: str | None = None,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
    order: str | None = None,
    codings: Mapping[str, Coding] | None = None,
) -> MarginalsProposal:
    """Propose marginals of a table; refuse here, before any charge, what cannot be measured.

    With an ``order`` only the first row of each unit counts. ``codings`` replace those of the policy.
    """
    source = start_selection(catalog, table)
    policy_table = context.policy.tables[source.table.name]
    policy_table = policy_table if codings is None else replace(policy_table, codings=codings)
    source = source if where is None else filter_rows(source, where)
    names, index_sets = _parse_names_and_sets(policy_table, ways, columns)
    source = source if order is None else first_row_per_unit(source, policy_table, order, names)
    coded_columns = code_columns(policy_table, names, source.rows.resolve)
    workload = MarginalWorkload(index_sets, _parse_weights(index_sets, names, weights))
    _refuse_too_many_cells(workload, coded_columns)
    query, restricted_context = _counting_query_within_periods(source.rows, coded_columns, context)
    limits = _tightened_limits(policy_table, query, rows)
    return MarginalsProposal(
        restricted_context, query, tuple(coded_columns), workload, _validated_objective(objective), limits, where or ""
    )


def propose_select_marginals(
    context: Context,
    catalog: Catalog,
    text: str,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
    tables: Mapping[str, Table] | None = None,
) -> MarginalsProposal:
    """Propose the counts of each column of a SELECT that maps rows one by one, coded as the policy's tables, or as
    these are.
    """
    selected = code_selected_columns(catalog, tables or context.policy.tables, text, columns)
    workload = MarginalWorkload(tuple((index,) for index in range(len(selected.columns))), ())
    _refuse_too_many_cells(workload, selected.columns)
    query, restricted_context = _counting_query_within_periods(selected.rows, selected.columns, context)
    limits = _tightened_limits(context.policy.tables[selected.rows.table.name], query, rows)
    condition = f"a row is one of {' '.join(text.split())}"
    return MarginalsProposal(
        restricted_context, query, selected.columns, workload, "total", limits, condition, selected.domains
    )


def _parse_names_and_sets(
    table: Table, ways: Ways, columns: Sequence[str] | None
) -> tuple[list[str], tuple[AttributeSet, ...]]:
    """Parse the measured columns, in the order of the policy, and the sets of their indices."""
    if type(ways) is int:
        names = measurable_column_names(table) if columns is None else _validated_names(columns, "columns")
        refuse_repeated_names(names, "columns")
        if not 1 <= ways <= len(names):
            range_rule = f"a whole number from 1 to {len(names)}, the number of columns with listed values or bins"
            rule = range_rule if names else "left out, because no column of this table has listed values or bins"
            fix = "declare values or bins for more columns in the policy" if ways > 1 and columns is None else ""
            raise InvalidParameter("ways", ways, rule, fix=fix)
        return names, tuple(itertools.combinations(range(len(names)), ways))
    if columns is not None:
        raise InvalidParameter(
            "columns", columns, "left out if ways lists sets of columns", fix="name them in ways only"
        )
    if isinstance(ways, (str, bytes)) or not isinstance(ways, Sequence) or not ways:
        raise InvalidParameter("ways", ways, 'a number such as 2, or sets of columns such as [["sex", "age"]]')
    name_sets = [_validated_names(names_of_set, "ways") for names_of_set in ways]
    order = {name.lower(): index for index, name in enumerate(table.columns)}
    first_spelling = {name.lower(): name for name_set in name_sets for name in name_set}
    names = sorted(first_spelling.values(), key=lambda name: order.get(name.lower(), len(order)))
    index_of_name = {name.lower(): index for index, name in enumerate(names)}
    sets = []
    for name_set in name_sets:
        refuse_repeated_names(name_set, "ways")
        sets.append(tuple(sorted(index_of_name[name.lower()] for name in name_set)))
    for left, right in itertools.pairwise(sorted(sets)):
        if left == right:
            fix = f"remove the second set {[names[index] for index in left]}"
            raise InvalidParameter("ways", ways, "a list of different sets of columns", fix=fix)
    return names, tuple(sets)


def _validated_names(names: object, parameter: str) -> list[str]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence) or not names:
        raise InvalidParameter(parameter, names, 'a list of names such as ["sex", "age"]')
    if not all(isinstance(name, str) for name in names):
        raise InvalidParameter(parameter, names, "a list of column names")
    return list(names)


def _first_marginals_text(sets: Sequence[AttributeSet], names: Sequence[str]) -> str:
    """List the columns of the first marginals, as tuples of names that can be typed."""
    set_texts = [repr(tuple(names[position] for position in indices)) for indices in sets[:_MAX_EXAMPLE_SETS]]
    return ", ".join(set_texts) + (", …" if len(sets) > len(set_texts) else "")


def _parse_weights(sets: tuple[AttributeSet, ...], names: Sequence[str], weights: Weights) -> tuple[Fraction, ...]:
    """Parse the weights of marginals: one number for each, or by the names of their columns, 1 for the others."""
    if weights is None:
        return ()
    if isinstance(weights, Mapping):
        index_of_set = {
            frozenset(names[position].lower() for position in indices): index for index, indices in enumerate(sets)
        }
        parsed = [Fraction(1)] * len(sets)
        for columns, weight in weights.items():
            key = frozenset(str(name).lower() for name in ((columns,) if isinstance(columns, str) else columns))
            if key not in index_of_set:
                fix = f"use these keys: {_first_marginals_text(sets, names)}"
                raise InvalidParameter("weights", columns, "a mapping from the requested marginals to numbers", fix=fix)
            parsed[index_of_set[key]] = exact(weight, "weights", POSITIVE)
        return tuple(parsed)
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Sequence) or len(weights) != len(sets):
        raise InvalidParameter("weights", weights, f"a list of length {len(sets)}, with a number for each marginal")
    return tuple(exact(weight, "weights", POSITIVE) for weight in weights)


def _refuse_too_many_cells(workload: MarginalWorkload, columns: Sequence[CodedColumn]) -> None:
    """Refuse more cells than are measured at once, before any array is allocated."""
    sizes = [column.attribute.size for column in columns]
    cells = sum(math.prod(sizes[index] for index in indices) for indices in largest_sets(workload.sets))
    if cells > MAX_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"marginals can have at most {MAX_CELLS:,} cells together; these have {cells:,}",
            fix="ask for fewer columns at once, or use coarser bins",
        )


def _counting_query_within_periods(
    rows: RowSource, columns: Sequence[CodedColumn], context: Context
) -> tuple[Query, Context]:
    """Build the plan that counts every row; where periods have accounts, the periods read pay."""
    plan = Aggregate(rows.relation, tuple(column.key for column in columns), (Count(),))
    costs.check_cost(plan)
    period_plan, period_context = restrict_to_periods(plan, context)
    return Query(period_plan, Finish(())), period_context


def _tightened_limits(table: Table, query: Query, rows: int | None) -> ContributionLimits:
    if rows is None:
        return query.plan.limits
    if table.every_row:
        raise InvalidParameter("rows", rows, "left out, because every row is a unit in this policy")
    return query.plan.limits.tighten(rows, None, None, query.plan.max_requestable_limits)


def _validated_objective(objective: Any) -> str:
    if objective not in ("total", "worst"):
        raise InvalidParameter("objective", objective, 'one of "total", "worst"')
    return str(objective)
