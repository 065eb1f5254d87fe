"""Marginals of a table are a proposal: counts of all cells of some sets of columns, measured once at one price.

Which blocks are measured, and with how much noise, follows from the policy, the sets and the price alone
(``publish.planning``). All is read in one pass and charged as one line, whatever the number of marginals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import by_period, charged
from sfumato.curator.previews.explaining import Explanation, Operator, limited, sources
from sfumato.curator.previews.forecasts import SHOWN_PLAN, MarginalsForecast, name_of
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.bought_synopses import shelf
from sfumato.curator.proposals.selected_columns import one_row_of_each, selected_columns
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.additive import MOST_STEPS
from sfumato.plan import costs
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan, for_neighbours, weighted_bounding
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import Aggregate, Query
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.readings.dense_readings import MOST_CELLS, Marginals
from sfumato.plan.sql.building import selection, where as kept
from sfumato.plan.sql.rows import RowSource
from sfumato.plan.words import cutting, many
from sfumato.policy import Domain, Table
from sfumato.privacy import Curve, Guarantee, Sensitivity
from sfumato.privacy.calibration import calibrate, least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, shown
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attributes, CodedColumn, coded, coded_names
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.faces import TableFace
from sfumato.publish.marginals.measuring import (
    PublishDraw,
    Published,
    batch_of,
    has_fixed_total,
    largest_sets,
    measured_sets,
    noise_words,
    shares,
    width,
)
from sfumato.publish.marginals.planning import (
    LARGEST_COUNT,
    MOST_RANGED,
    MarginalWorkload,
    Plan,
    independent_variances,
    plan_gaussian,
    plan_laplace,
)
from sfumato.publish.synopsis import Synopsis, key_type
from sfumato.release.answers.answer_columns import AnswerColumn, Columns, with_counts
from sfumato.release.measurement import Batch
from sfumato.release.parts.question_parts import Family, NamedNoise, noise_family
from sfumato.release.prices import GAUSSIAN_NEEDS, GIVE_DELTA, Price, rounded_up
from sfumato.release.proposal import ReleaseCall, is_stored, receipt, released
from sfumato.release.releasing import Progress, StoredResult

Ways = int | Sequence[Sequence[str]]
Weights = Sequence[Number] | Mapping[tuple[str, ...], Number] | None

_TRIMS = (Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 10**4), Fraction(1, 100))
"""How much less than the price is spent, at first: rounding of the noise, and of the computed loss, has room in it."""
_SHORT = 1 - 1e-5
"""More than what is not spent of a price at first, and what rounding makes of noise."""
_MOST_BITS, _LEAST_BITS = 20, 6
_SHOWN_SETS = 6


@dataclass(frozen=True)
class MarginalsProposal:
    """A proposal: only ``release`` spends."""

    _context: Context = field(repr=False)
    query: Query = field(repr=False)
    coded: tuple[CodedColumn, ...] = field(repr=False)
    workload: MarginalWorkload
    objective: str
    limits: Limits
    condition: str = ""
    """Which rows count, as it was written; all where it is empty."""
    selected: tuple[Domain, ...] = field(default=(), repr=False)
    """Of a SELECT what is publicly known of its columns; of a table the policy says so."""

    @property
    def attributes(self) -> Attributes:
        """List the cells of each column."""
        return tuple(each.attribute for each in self.coded)

    @property
    def columns(self) -> Columns:
        """List the columns of what is published, with their types: those that cells are of, and the count."""
        return with_counts(AnswerColumn(each.name, key_type(each)) for each in self.attributes)

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """List the marginals, each by the names of its columns."""
        return tuple(self._named(each) for each in self.workload.sets)

    def __repr__(self) -> str:
        cells = f"{many(len(self.sets), 'marginal')} of {self.query.plan.table}"
        return f"<{cells}: .explain() .error() .price() are free, .release() publishes>"

    def _named(self, places: Set) -> tuple[str, ...]:
        return tuple(self.attributes[place].name for place in places)

    @cached_property
    def question(self) -> str:
        """Describe what is asked, as the ledger keeps it."""
        told = ", ".join(f"({', '.join(each)})" for each in self.sets[:_SHOWN_SETS])
        more = f" and {len(self.sets) - _SHOWN_SETS:,} more" if len(self.sets) > _SHOWN_SETS else ""
        held = f" where {self.condition[:1000]}" if self.condition else ""
        return f"{many(len(self.sets), 'marginal')} of {self.query.plan.table}{held}: {told[:4000]}{more}"

    @property
    def identity(self) -> str:
        """Return the hash of what is measured, cells, sets and limits among it, below that of what may be published of
        the table: questions find it there.
        """
        own = self.query.plan.source, self.query.plan.keys, self.attributes
        measured = digest("marginals", *own, self.workload, self.objective, self.limits)
        return shelf(self._context, self.query.plan.table) + measured

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
    ) -> Explanation:
        """Describe what is done at this price, with the plan as a table; at ρ = 1/2 when none is named. This is free."""
        named = epsilon is not None or rho is not None
        draw = self._draw(Price(epsilon, delta, rho) if named else Price(rho="0.5"), mechanism)
        sure = float(exact(confidence, "confidence", CONFIDENCE))
        kind = "whole marginals with Laplace noise" if draw.plan.marginals else "blocks with Gaussian noise"
        cells = sum(math.prod(self.attributes[place].size for place in each) for each in self.workload.sets)
        operators = (
            *sources(self.query, self._context.policy),
            limited(draw.reading.bounded),
            Operator(
                "cells",
                f"{many(len(self.sets), 'marginal')} of {many(len(self.coded), 'column')}, {many(cells, 'cell')}",
                "declared: shown whatever the data hold; what is missing or not listed has a cell of its own",
            ),
            *self._plan_table(draw.plan, sure),
            *charged(self._context),
        )
        said = self._context.closing(draw.batch.curve)
        return Explanation(self.question, str(draw.total), operators, f"{kind}, for {self._aim(draw.plan)}", said)

    def _aim(self, plan: Plan) -> str:
        """Describe what the plan makes least: of columns with levels sums over ranges count, and not single cells."""
        if self.objective == "worst":
            return "the least largest variance"
        ranged = " and ".join(self._named(() if plan.marginals else self._ranged.ranges))
        more = f", over all ranges of {ranged}: a single cell of these has more noise" if ranged else ""
        return f"the least sum of variances{more}"

    def _plan_table(self, plan: Plan, confidence: float) -> list[Operator]:
        """Show what is measured, what it costs, how wrong it is, and how wrong noise on each marginal would be."""
        paid = shares(plan)
        alone = self._alone(plan, confidence)
        order = sorted(paid, key=lambda places: -paid[places])
        found = [
            Operator(
                "measure",
                name_of(self._named(places)) or "the number of rows",
                f"{paid[places]:.2%} of the price; ±{shown(width(plan, places, confidence))} in each cell"
                + (f", ±{shown(alone[places])} if each marginal had noise of its own" if places in alone else ""),
            )
            for places in order[:SHOWN_PLAN]
        ]
        rest = order[SHOWN_PLAN:]
        more = f"{sum(paid[places] for places in rest):.2%} of the price together"
        return [*found, Operator("measure", f"{len(rest):,} more", more)] if rest else found

    def _alone(self, plan: Plan, confidence: float) -> dict[Set, float]:
        """Return the half-width of each marginal if each were measured by itself, with Gaussian noise at this price."""
        if plan.marginals:
            return {}
        variances = independent_variances(self.workload, self.attributes, plan.rows, plan.rho, self.objective)
        one = Gaussian(10**6)
        ratio = float(one.error(f"{confidence:.12g}")) / 10**6
        return {places: ratio * math.sqrt(each) for places, each in zip(self.workload.sets, variances, strict=True)}

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        joint: bool = False,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
    ) -> MarginalsForecast:
        """Return the half-width of every cell of each marginal at this price. This is free."""
        sure = exact(confidence, "confidence", CONFIDENCE)
        draw = self._draw(Price(epsilon, delta, rho), mechanism)
        stored = not fresh and is_stored(draw, self.identity, self._context)
        return MarginalsForecast(
            self.sets,
            tuple(self._width(draw.plan, each, sure, joint) for each in self.workload.sets),
            sure,
            joint,
            str(draw.total),
            all(budget.affords(draw.batch.curve) for budget in self._context.budgets),
            stored,
            cutting([draw.reading.bounded]),
            () if stored else self._context.closing(draw.batch.curve),
        )

    def price(
        self,
        within: Number,
        for_: Sequence[str] | None = None,
        *,
        delta: Number = 0,
        confidence: Number = "0.95",
        joint: bool = False,
    ) -> float:
        """Find the least ε, beside this δ, at which every cell of a marginal, or of all, is within this. Free."""
        wanted, sure = float(exact(within, "within", POSITIVE)), exact(confidence, "confidence", CONFIDENCE)
        pure = not Price(1, delta).delta
        base, sets = self._base(pure), self._for(for_, pure=pure)
        widest = max(sets, key=lambda each: self._width(base, each, sure, joint))
        if not pure:
            rho = float(base.rho) * (self._width(base, widest, sure, joint) / wanted) ** 2
            return float(rounded_up(Fraction(Curve.gaussian(f"{_SHORT / math.sqrt(2 * rho):.17g}").epsilon(delta))))

        def enough(epsilon: Fraction) -> bool:
            return self._width(self._planned(Price(epsilon), _TRIMS[0]), widest, sure, joint) <= wanted

        return float(rounded_up(least(enough, "within", Fraction(1, 2**14))))

    def _for(self, columns: Sequence[str] | None, *, pure: bool) -> tuple[Set, ...]:
        """Find the marginal that is meant: one that is asked for, or where blocks are measured, a part of one."""
        if columns is None:
            return self.workload.sets
        known = {each.name.lower(): place for place, each in enumerate(self.attributes)}
        named = (columns,) if isinstance(columns, str) else tuple(columns)
        places = tuple(sorted({known.get(str(each).lower(), -1) for each in named}))
        within = [each for each in self.workload.sets if set(places) <= set(each)]
        if not within or (pure and places not in within):
            raise InvalidParameter("for_", columns, "the columns of a marginal that is asked for")
        return (places,)

    def _width(self, plan: Plan, places: Set, confidence: Fraction, joint: bool) -> float:
        sizes = (math.prod(self.attributes[place].size for place in each) for each in self.workload.sets)
        return width(plan, places, float(confidence), sum(sizes) if joint else 1)

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> Synopsis:
        """Charge the price, once for all marginals, and measure them; what was measured before and is at least as
        accurate is found again and free.
        """
        draw = self._draw(Price(epsilon, delta, rho), mechanism)
        return released(
            draw,
            draw.total,
            self._shown,
            question=self.question,
            plan=self.identity,
            here=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def rehearse(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
    ) -> Synopsis:
        """Return a synopsis of this shape with invented numbers, from the policy alone. This is free."""
        return rehearsed(
            self,
            self._context,
            lambda there: there.release(epsilon=epsilon, delta=delta, rho=rho, mechanism=mechanism),
        )

    def _shown(self, found: StoredResult[Published]) -> Synopsis:
        known, here = found.value, self._context
        words = (noise_words(known.plan),)
        told = receipt(found, known.purchase, words, question=self.question, here=here, confidence="0.95")
        return Synopsis(known, told)

    # ── what is measured at a price ────────────────────────────────────────────────────────────

    def _draw(self, price: Price, named: NamedNoise | None) -> PublishDraw:
        family = noise_family(named)
        price = _paid(price, family)
        if price not in self._drawn:
            self._drawn[price] = self._prepared(price)
        return self._drawn[price]

    @cached_property
    def _drawn(self) -> dict[Price, PublishDraw]:
        """Keep what was planned at each price."""
        return {}

    def _prepared(self, price: Price) -> PublishDraw:
        """Prepare the release that spends nearly all of the price, and certainly no more."""
        for trim in _TRIMS:
            plan = self._planned(price, trim)
            reading = self._reading(plan)
            batch = batch_of(plan, reading)
            if price.kept_by(batch.curve):
                return self.draw_of(plan, reading, batch, price)
        rule = "one that noise on so many numbers can keep"
        raise InvalidParameter("price", str(price), rule, fix="ask for fewer marginals, or give more")

    def draw_of(self, plan: Plan, reading: Marginals, batch: Batch, price: Price) -> PublishDraw:
        """Return what is released of a plan: the batch, on what is read."""
        table = self.query.plan.table
        own = plan, reading, batch, price, self._context.version, table, self.condition
        return PublishDraw(*own, self.face)

    def in_one_table(self, rho: Fraction) -> tuple[Plan, Marginals]:
        """Find the best blocks for this ρ, where all columns are read together as one table of counts."""
        plan = self._planned(Price(rho=rho), _TRIMS[0])
        whole = self._reading(plan)
        return plan, replace(whole, sets=(tuple(range(len(self.coded))),))

    @property
    def face(self) -> TableFace:
        """Return what readers of the synopsis need to know of the policy."""
        declared = self._context.policy.tables[self.query.plan.table]
        if self.selected:  # what no row of the table can be says nothing of columns that were computed
            return TableFace(self.selected, (), self._context.policy.account_name)
        domains = {each.attribute.name: declared.columns[each.attribute.name] for each in self.coded}
        implies = tuple((one, other) for one, other in declared.implies.items() if {one, other} <= set(domains))
        return TableFace(tuple(domains.values()), declared.impossible, self._context.policy.account_name, implies)

    def _planned(self, price: Price, trim: Fraction) -> Plan:
        """Scale the best plan to a price, and choose the step of weights so that its noise can be drawn."""
        pure = not price.allows_gaussian
        base, spent = self._base(pure), (1 - trim) * (_pure(price) if pure else rho_of(price))
        bits = self._bits(base, spent)
        return replace(base, unit_value=Fraction(1, 2**bits)).scaled(spent)

    def _base(self, pure: bool) -> Plan:
        """Find the best plan for one price, in whole rows: the same at every price, but for its scale."""
        if pure not in self._bases:
            bounded = self._bounded(0)
            make, workload = (plan_laplace, self.workload) if pure else (plan_gaussian, self._ranged)
            self._bases[pure] = make(
                workload,
                self.attributes,
                bounded.measures[0].added.total,
                self.objective,
                neighbours=self._context.policy.neighbours,
                fixed_total=has_fixed_total(bounded),
            )
        return self._bases[pure]

    @property
    def _ranged(self) -> MarginalWorkload:
        """Return the workload with all ranges of the columns that have levels, for whose sums levels are declared; they
        count as much together as the cells would.
        """
        sizes = {place: each.attribute.size for place, each in enumerate(self.coded) if each.attribute.levels}
        ranges = tuple(place for place, size in sizes.items() if size <= MOST_RANGED)
        if self.objective != "total" or not ranges:
            return self.workload
        weights = tuple(
            self.workload.weight(index)
            * math.prod((Fraction(2, sizes[place]) for place in ranges if place in each), start=1)
            for index, each in enumerate(self.workload.sets)
        )
        return MarginalWorkload(self.workload.sets, weights, ranges)

    @cached_property
    def _bases(self) -> dict[bool, Plan]:
        return {}

    def _bits(self, base: Plan, spent: Fraction) -> int:
        """Weights of rows are multiples of 2^-bits: fewer bits where the noise would be too large to draw exactly."""
        if self._bounded(0).strategy is Strategy.WHOLE:
            return 0
        most = min(_MOST_BITS, self._bounded(_MOST_BITS).measures[0].bits)
        if base.marginals:
            largest = max(each.scale for each in base.marginals) * base.epsilon / spent
        else:
            growth = math.sqrt(base.rho / spent)
            largest = Fraction(max(float(each.deviation / each.grid) for each in base.blocks) * growth)
            most = min(most, self._uncut_bits(base))
        found = min(most, math.floor(math.log2(MOST_STEPS / largest)) - 1)
        if found < _LEAST_BITS:
            raise Unsupported(
                "too-much-noise",
                "noise is drawn exactly up to 1e12 steps, and marginals with so many cells need more at this price",
                fix="give more, ask for fewer columns at once, or take coarser bins",
            )
        return found

    def _uncut_bits(self, base: Plan) -> int:
        """Find the finest weights with which the counts that a table may have are not cut for want of 64 bits."""
        table = self._context.policy.tables[self.query.plan.table]
        cut = min(block_algebra.most_count(each.block, self.attributes) for each in base.blocks)
        return max(_LEAST_BITS, (cut // min(table.row_ceiling, LARGEST_COUNT)).bit_length() - 1)

    def _bounded(self, bits: int) -> BoundedPlan:
        cells = max(math.prod(self.attributes[place].size for place in each) for each in self.workload.sets)
        found = weighted_bounding(self.query.plan, self.limits, cells, bits)
        return for_neighbours(found, self._context.policy.neighbours)

    def _reading(self, plan: Plan) -> Marginals:
        bits = plan.unit_value.denominator.bit_length() - 1
        codes = tuple(each.codes for each in self.coded)
        return Marginals(self._bounded(bits), codes, measured_sets(plan))


class _Normal:
    """Gaussian noise without steps: what blocks of many steps leak is hardly more."""

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        return Curve.gaussian(self.sigma, sensitivity)


def rho_of(price: Price) -> Fraction:
    """Find the ρ that a price pays for."""
    if price.rho is not None:
        return price.rho
    sigma = calibrate(_Normal, Guarantee(price.epsilon or 0, price.delta)).sigma
    return 1 / (2 * sigma**2)


def _pure(price: Price) -> Fraction:
    assert price.epsilon is not None
    return price.epsilon


def _paid(price: Price, family: Family | None) -> Price:
    """Return which price is spent with a kind of noise: a pure one where that is Laplace."""
    if family is Gaussian and not price.allows_gaussian:
        raise InvalidParameter("mechanism", "Gaussian", GAUSSIAN_NEEDS, fix=GIVE_DELTA)
    if family is Laplace and price.rho is not None:
        raise InvalidParameter("mechanism", "Laplace", "Gaussian for a price in ρ", fix="give an epsilon")
    return Price(price.epsilon) if family is Laplace else price


# ── what is asked for ──────────────────────────────────────────────────────────────────────────


def marginals(
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
) -> MarginalsProposal:
    """Propose to measure marginals of a table; what cannot be measured is refused here, before anything is spent.

    With an ``order`` the first row of each unit alone counts.
    """
    source = selection(catalog, table)
    declared = context.policy.tables[source.table.name]
    source = source if where is None else kept(source, where)
    names, wanted = _wanted(declared, ways, columns)
    source = source if order is None else one_row_of_each(source, declared, order, names)
    found = coded(declared, names, source.rows.resolve)
    workload = MarginalWorkload(wanted, _weights(wanted, names, weights))
    _check_cells(workload, found)
    query, here = _restricted(source.rows, found, context)
    limits = _limits(declared, query, rows)
    return MarginalsProposal(here, query, tuple(found), workload, _objective(objective), limits, where or "")


def marginals_of_select(
    context: Context,
    catalog: Catalog,
    text: str,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
) -> MarginalsProposal:
    """Propose to count each column of a SELECT that treats every row by itself."""
    found = selected_columns(catalog, context.policy, text, columns)
    workload = MarginalWorkload(tuple((place,) for place in range(len(found.columns))), ())
    _check_cells(workload, found.columns)
    query, here = _restricted(found.rows, found.columns, context)
    limits = _limits(context.policy.tables[found.rows.table.name], query, rows)
    held = f"a row is one of {' '.join(text.split())}"
    return MarginalsProposal(here, query, found.columns, workload, "total", limits, held, found.domains)


def _wanted(table: Table, ways: Ways, columns: Sequence[str] | None) -> tuple[list[str], tuple[Set, ...]]:
    """Find the columns that are measured, in the order of the policy, and the sets of their places."""
    if type(ways) is int:
        names = coded_names(table) if columns is None else _texts(columns, "columns")
        _check_once(names, "columns")
        if not 1 <= ways <= len(names):
            most = f"a whole number between 1 and {len(names)}, the number of columns that have cells"
            rule = most if names else "a number of columns that have cells, and no column of this table has cells"
            fix = "add bins or values to more columns in the policy" if ways > 1 and columns is None else ""
            raise InvalidParameter("ways", ways, rule, fix=fix)
        return names, tuple(itertools.combinations(range(len(names)), ways))
    if columns is not None:
        raise InvalidParameter("columns", columns, "left out where sets of columns are written")
    if isinstance(ways, (str, bytes)) or not isinstance(ways, Sequence) or not ways:
        raise InvalidParameter("ways", ways, 'a number such as 2, or sets of columns such as [["sex", "age"]]')
    written = [_texts(each, "ways") for each in ways]
    order = {name.lower(): place for place, name in enumerate(table.columns)}
    first = {name.lower(): name for each in written for name in each}
    names = sorted(first.values(), key=lambda name: order.get(name.lower(), len(order)))
    places = {name.lower(): place for place, name in enumerate(names)}
    sets = []
    for each in written:
        _check_once(each, "ways")
        sets.append(tuple(sorted(places[name.lower()] for name in each)))
    for one, other in itertools.pairwise(sorted(sets)):
        if one == other:
            raise InvalidParameter(
                "ways", [names[place] for place in one], "sets of columns of which none stands twice"
            )
    return names, tuple(sets)


def _texts(names: object, parameter: str) -> list[str]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence) or not names:
        raise InvalidParameter(parameter, names, 'a list of names such as ["sex", "age"]')
    if not all(isinstance(each, str) for each in names):
        raise InvalidParameter(parameter, names, "names of columns")
    return list(names)


def _check_once(names: Sequence[str], parameter: str) -> None:
    if len({each.lower() for each in names}) != len(names):
        raise InvalidParameter(parameter, names, "names of columns of which none stands twice")


def _weights(sets: tuple[Set, ...], names: Sequence[str], weights: Weights) -> tuple[Fraction, ...]:
    """Read how much each marginal counts: one number for each, or by the names of its columns, and 1 for the others."""
    if weights is None:
        return ()
    if isinstance(weights, Mapping):
        named = {frozenset(names[place].lower() for place in each): index for index, each in enumerate(sets)}
        found = [Fraction(1)] * len(sets)
        for each, weight in weights.items():
            key = frozenset(str(name).lower() for name in ((each,) if isinstance(each, str) else each))
            if key not in named:
                raise InvalidParameter("weights", each, "the columns of a marginal that is asked for")
            found[named[key]] = exact(weight, "weights", POSITIVE)
        return tuple(found)
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Sequence) or len(weights) != len(sets):
        raise InvalidParameter("weights", weights, f"{len(sets)} numbers, one for each marginal")
    return tuple(exact(each, "weights", POSITIVE) for each in weights)


def _check_cells(workload: MarginalWorkload, columns: Sequence[CodedColumn]) -> None:
    """Refuse more cells than are read and measured at once, before any array is made."""
    sizes = [each.attribute.size for each in columns]
    cells = sum(math.prod(sizes[place] for place in each) for each in largest_sets(workload.sets))
    if cells > MOST_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"marginals have at most {MOST_CELLS:,} cells together; these have {cells:,}",
            fix="ask for fewer columns at once, or take coarser bins",
        )


def _restricted(rows: RowSource, columns: Sequence[CodedColumn], context: Context) -> tuple[Query, Context]:
    """Make the plan under which every row counts; where periods have accounts, those that are read pay."""
    plan = Aggregate(rows.relation, tuple(each.key for each in columns), (Count(),))
    costs.check(plan)
    held, where = by_period(plan, context)
    return Query(held, Finish(())), where


def _limits(table: Table, query: Query, rows: int | None) -> Limits:
    if rows is None:
        return query.plan.limits
    if table.every_row:
        raise InvalidParameter("rows", rows, "left out: every row is a unit")
    return query.plan.limits.tighten(rows, None, None, query.plan.largest_limits)


def _objective(objective: Any) -> str:
    if objective not in ("total", "worst"):
        raise InvalidParameter("objective", objective, 'one of "total", "worst"')
    return str(objective)
