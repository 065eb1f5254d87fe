"""A synthetic table is a proposal: a model of the whole table is bought step by step, and rows are drawn from it for
nothing.

The price is held by a tab. The noisy number of rows is the first step, and every choice and every measurement is a step
of its own: a complete release that is charged before it reads (``publish.synthesis``). What is not spent is free again.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, Operator, limited, sources
from sfumato.curator.proposals.marginals import MarginalsProposal, marginals, marginals_of_select
from sfumato.curator.proposals.mwem import ColumnWeights, Sets, check_weights, set_weight, workload_sets
from sfumato.curator.proposals.selected_columns import check_conditions, is_select, kept_face, kept_zeros
from sfumato.curator.steps_on_tabs import StepsOnTab
from sfumato.errors import InvalidParameter, Unanswered, Unsupported
from sfumato.ledger import Account, Charged, StoredAnswer, Tab
from sfumato.mechanisms.additive import MOST_STEPS
from sfumato.plan.bounding import BoundedPlan, for_neighbours, weighted_bounding
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.cell_rows import MOST_COLUMN_CELLS, CellCounts, CellRows
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.plan.words import many
from sfumato.policy import Table, Type
from sfumato.privacy import Cost, Curve, Neighbours
from sfumato.privacy.calibration import least
from sfumato.privacy.curve import ROUNDED_UP
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, charge_units, exact, shown, whole
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.attributes import Attributes, coded_names
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.faces import BARE, TableFace
from sfumato.publish.synthesis.budget import Amounts, Concentrated, Pure, currency, rounded
from sfumato.publish.synthesis.candidates import BYTES_PER_CELL, Outcome, Step
from sfumato.publish.synthesis.course import Setting, Steps, SynthesisState
from sfumato.publish.synthesis.forecasting import SynthesisForecast, forecast, invented
from sfumato.publish.synthesis.implications import (
    Pairs,
    Zeros,
    check_zeros,
    decided_cells,
    decided_zeros,
    deciding_cells,
    deciding_pairs,
    implied_columns,
    implied_of,
    required_places,
    sets_of as pair_sets,
    zeros_of,
)
from sfumato.publish.synthesis.methods import aim, independent, mst, mwem
from sfumato.publish.synthesis.released import METHODS, ImpliedColumn, ReleasedMarginal, Synthesized
from sfumato.publish.synthetic import Synthetic
from sfumato.publish.tab_steps import MeasureStep
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.payers import Purchase, purchase
from sfumato.release.prices import Price, rounded_up
from sfumato.release.proposal import ReleaseCall, receipt, warn
from sfumato.release.releasing import Progress, ReleaseStrategy, StoredResult
from sfumato.release.requests import RequestedSeries, given_again

_RUN: dict[str, Callable[[SynthesisState], Steps]] = {"aim": aim, "mst": mst, "mwem": mwem, "independent": independent}
_MOST_BITS, _LEAST_BITS = 10, 4
_REHEARSED_ROWS = 10_000
_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_MEMORY = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})\s*", re.IGNORECASE)


@dataclass(frozen=True)
class SynthesisProposal:
    """A proposal: only ``release`` spends."""

    _context: Context = field(repr=False)
    _coded: MarginalsProposal = field(repr=False)
    method: str
    workload: Mapping[Set, Fraction] = field(repr=False)
    left_out: int = 0
    """How many sets of so many columns were left out of the workload: their cells are more than a model may have."""
    most_cells: int = 1 << 18
    zeros: Zeros = field(default=(), repr=False)
    implied: tuple[ImpliedColumn, ...] = field(default=(), repr=False)
    """Columns that others decide: they are not in the model, and put back into rows."""
    face: TableFace = field(default=BARE, repr=False)
    """What is public of the columns, and what no row is that counts."""
    implies: Pairs = field(default=(), repr=False)
    """Columns of the model that decide others of it, which the noisy counts say how."""
    decided: Zeros = field(default=(), repr=False)
    """Cells that the policy rules out where it says which value decides which."""

    @property
    def attributes(self) -> Attributes:
        """List the columns of the model with their cells."""
        return tuple(attribute.flat for attribute in self._coded.attributes)

    def __repr__(self) -> str:
        told = f"{self.method} of {self._coded.query.plan.table}, {many(len(self.attributes), 'column')}"
        return f"<{told}: .explain() .price() .forecast() .rehearse() are free, .release() spends>"

    @property
    def columns(self) -> Columns:
        """List the columns of the rows, with their types."""
        own = zip(self.attributes, self.face.known(self.attributes), strict=True)
        implied = tuple(each.attribute for each in self.implied)
        put_back = zip(implied, BARE.known(implied), strict=True)
        return tuple(AnswerColumn(each.name, domain.type) for each, domain in (*own, *put_back))

    @cached_property
    def question(self) -> str:
        """Describe what is asked, as the ledger keeps it."""
        names = ", ".join(attribute.name for attribute in self.attributes)
        held = f" where {self._coded.condition[:1000]}" if self._coded.condition else ""
        sets = many(len(self.workload), "marginal")
        return f"synthetic rows of {self._coded.query.plan.table}{held} by {self.method}: {sets} of {names[:4000]}"

    @property
    def identity(self) -> str:
        """Return the hash of what is measured."""
        workload = tuple((each, weight) for each, weight in self.workload.items())
        return digest("synthesis", self._coded.identity, self.method, workload, self.most_cells)

    # ── before it is bought ────────────────────────────────────────────────────────────────────

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> Explanation:
        """Describe what is done at this price; at ρ = 1/2 when none is named. This is free."""
        named = epsilon is not None or rho is not None
        price = Price(epsilon, delta, rho) if named else Price(rho="0.5")
        setting, sure = self.setting(price), exact(confidence, "confidence", CONFIDENCE)
        said = self._context.closing(None) if price.allows_gaussian else ()
        return Explanation(self.question, str(price), self._operators(setting, sure), _REASON, said)

    def _operators(self, setting: Setting, sure: Fraction) -> tuple[Operator, ...]:
        bounded, columns = setting.reading.bounded, len(self.attributes)
        cells = ", ".join(f"{attribute.name} {attribute.size:,}" for attribute in self.attributes) + self._decided
        first = self._first_width(setting, sure)
        out = f"; {self.left_out:,} larger ones are left out" if self.left_out else ""
        return (
            *sources(self._coded.query, self._context.policy),
            limited(bounded),
            Operator("columns", cells, "cells, the one of what is missing or not listed counted"),
            Operator("rows", "the noisy number of rows", "1/200 of the price, once"),
            Operator("candidates", many(len(setting.candidates), "set") + f" of columns{out}", _CHOSEN[self.method]),
            Operator("model", f"at most {self.most_cells:,} cells beside those of single columns", "largest clique"),
            *self._kept_implications,
            Operator("rounds", _ROUNDS[self.method].format(few=2 * columns, many=4 * columns, columns=columns), ""),
            Operator("measure", "single columns", f"±{shown(first)} in each count, where they are measured first"),
            Operator("rows drawn", "n̂ rows, or rows=4×n̂ for less noise of drawing", "free, as often as wanted"),
        )

    @property
    def _kept_implications(self) -> tuple[Operator, ...]:
        """Return which columns decide others in every row, and where nothing says how."""
        names = [attribute.name for attribute in self.attributes]
        kept = [f"{names[by]} → {names[decided]}" for by, decided in self.implies]
        told = "measured first; the counts say which goes with which, for nothing, and every row keeps it"
        known = {*deciding_pairs(self.attributes, self.face)}
        places = {name: place for place, name in enumerate(names)}
        cut = [
            f"{by} → {decided}"
            for by, decided in self.face.implies
            if {by, decided} <= {*names} and (places[by], places[decided]) not in known
        ]
        lost = f"not kept: bins of {', '.join(each.split(' → ')[0] for each in cut)} have several values"
        return (
            *((Operator("implies", ", ".join(kept), told),) if kept else ()),
            *((Operator("implies", ", ".join(cut), lost),) if cut else ()),
        )

    @property
    def _decided(self) -> str:
        """Name the columns that are put back into rows, and what decides each."""
        return "".join(f"; {each.attribute.name} by {self.attributes[each.by].name}" for each in self.implied)

    def _first_width(self, setting: Setting, sure: Fraction) -> float:
        """Return the half-width of the counts of single columns, as noise starts."""
        noise = setting.currency.noise(self._first(setting).measured, CellCounts(setting.reading, (0,)).sensitivity)
        return float(noise.error(sure) * setting.unit_value)

    def _first(self, setting: Setting) -> Amounts:
        """Return what the first round costs where noise starts as for the most rounds there may be."""
        rounds = 4 * len(self.attributes)
        return Amounts.of_round(rounded(setting.currency.total * Fraction(199, 200) / rounds))

    def price(self, within: Number, *, delta: Number = 0, confidence: Number = "0.95") -> float:
        """Find the least ε, beside this δ, at which counts of single columns are within this when they are measured
        first. Free. How far the model is off elsewhere depends on the data, and nothing says so for free.
        """
        wanted, sure = float(exact(within, "within", POSITIVE)), exact(confidence, "confidence", CONFIDENCE)
        pure = not Price(1, delta).delta

        def enough(amount: Fraction) -> bool:
            return self._first_width(self.setting(Price(amount) if pure else Price(rho=amount)), sure) <= wanted

        found = least(enough, "within", Fraction(1, 2**14))
        return float(rounded_up(found if pure else Fraction(Concentrated(found).hold(_ADDED).epsilon(delta))))

    def rehearse(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        rows: int | None = None,
        progress: Progress | None = None,
    ) -> Synthetic:
        """Run everything on invented rows, drawn from the cells that the policy declares. This is free: no row
        is read, and what comes back says nothing of the table.
        """
        price = Price(epsilon, delta, rho)
        course = self._rehearsed(self._checked(price), self._invented_rows(rows), progress or releasing.quietly)
        return self._synthetic(self._synthesized(course, price, complete=True, bought=False), course)

    def forecast(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        rows: int | None = None,
    ) -> SynthesisForecast:
        """Return how long this takes and how much memory, for so many rows, as many as the policy says there are units
        where none are named. This is free and quick: it is added up from the policy, the price and the speed of this
        machine, which is measured once per process on made-up numbers. No row is read, and none is invented.
        """
        price, count = Price(epsilon, delta, rho), self._invented_rows(rows)
        setting = self._checked(price)
        own = setting.currency.hold(self._context.policy.neighbours)
        accepted = all(budget.affords(own) for budget in self._context.budgets)
        return forecast(setting, self.method, count, str(price), accepted=accepted)

    def _invented_rows(self, rows: int | None) -> int:
        return whole(self._context.policy.size or _REHEARSED_ROWS if rows is None else rows, "rows", at_least=1)

    def _rehearsed(self, setting: Setting, rows: int, progress: Progress) -> SynthesisState:
        made, course = invented(setting, rows), SynthesisState(setting)

        def read(reading: PlanReading[Any]) -> Any:  # noqa: ARG001
            return made

        def run(step: Step) -> Outcome:
            progress(_phase(course, step))
            return step.draw(read)

        _run(_RUN[self.method](course), run)
        course.finish()
        return course

    # ── what is bought ─────────────────────────────────────────────────────────────────────────

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> Synthetic:
        """Hold the price, spend it step by step, and give the model of what was released, from which rows are drawn.
        The same ``request_id`` gives the same model again, for nothing.

        Ctrl-C ends it after the step that runs: what is unspent is free again, and the model so far is given. When its
        ``seconds`` are over the model so far is given too, but nothing is given back: a clock may depend on rows. A
        step that a second Ctrl-C interrupts is spent, with all that was held.
        """
        price, here = Price(epsilon, delta, rho), self._context
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        here.require_one_account("a synthesis")
        asked = RequestedSeries(here, self.question, self.identity, call)
        known = asked.known()
        if known is not None:
            return self._again(known)
        setting = self._checked(price)
        warn(price, here)
        here.engine.check(setting.reading).close()
        hold = _held(here.account, setting.currency.hold(here.policy.neighbours), len(self.attributes))
        course = SynthesisState(setting)
        with here.work.one():
            opened = asked.open(hold)
            if isinstance(opened, StoredAnswer):
                return self._again(opened)
            with opened as tab:
                series = _SynthesisSeries(
                    StepsOnTab(here, "synthesis", self.identity, tab, call), self.question, course
                )
                complete = series.run(_RUN[self.method](course))
                found = self._synthesized(course, price, complete=complete, bought=True)
                made = self._synthetic(found, course, tab, tuple(series.paid))
                asked.finish(tab, made)
        return made

    def _again(self, found: StoredAnswer) -> Synthetic:
        """Return what the same request bought."""
        bought = Synthetic.from_json(found.body)
        return replace(bought, receipt=given_again(bought.receipt, self._context))

    def _synthetic(
        self, found: Synthesized, course: SynthesisState, tab: Tab | None = None, paid: tuple[Charged, ...] = ()
    ) -> Synthetic:
        """Put together what was released, the model and its receipt; a rehearsal has no line in the ledger."""
        here = replace(self._context, rehearsed=tab is None)
        if not found.complete:
            with suppress(KeyboardInterrupt):  # the model of before is given then
                course.finish()  # what was measured last may not be in it yet
        if tab is None:
            line: StoredResult[None] = StoredResult(None, 0, datetime.now(UTC), "", free=True)
        else:
            line = StoredResult(None, tab.opening.number, tab.opening.time, tab.opening.hash, free=False)
        words = tuple(dict.fromkeys(each.mechanism.words() for each in paid))
        told = receipt(line, found.purchase, words, question=self.question, here=here, confidence="0.95")
        return Synthetic(found, course.model, told, paid)

    def _synthesized(self, course: SynthesisState, price: Price, *, complete: bool, bought: bool) -> Synthesized:
        here, coded = self._context, self._coded
        terms = purchase([course.setting.reading.bounded], price, here.version) if bought else Purchase()
        table = coded.query.plan.table
        return Synthesized(
            self.method,
            self.attributes,
            tuple(map(ReleasedMarginal.of, course.marginals)),
            tuple(course.rounds),
            course.total,
            course.planned,
            course.setting.unit_value,
            table,
            coded.condition,
            terms,
            price,
            self.face,
            implied=self.implied,
            most_cells=self.most_cells,
            complete=complete,
        )

    # ── what is run at a price ─────────────────────────────────────────────────────────────────

    def setting(self, price: Price) -> Setting:
        """Return all that is public before the first step."""
        own = currency(price)
        reading = CellRows(self._bounded(self._bits(own)), tuple(each.codes for each in self._coded.coded))
        zeros = (*self.zeros, *self.decided)
        required = required_places(self.face)
        return Setting(reading, self.attributes, self.workload, own, self.most_cells, zeros, self.implies, required)

    def _checked(self, price: Price) -> Setting:
        """Refuse a price that cannot buy the first steps, before anything is spent."""
        setting = self.setting(price)
        first = self._first(setting)
        course = SynthesisState(setting)
        releasing.rehearse(next(course.count_rows()))
        setting.currency.noise(first.measured, CellCounts(setting.reading, (0,)).sensitivity)
        if self.method != "independent":
            next(course.choose({(0,): 1}, first.chosen, float))
        return setting

    def _bounded(self, fine: int) -> BoundedPlan:
        cells = min(10**7, math.prod(attribute.size for attribute in self.attributes))
        found = weighted_bounding(self._coded.query.plan, self._coded.limits, cells, fine)
        return for_neighbours(found, self._context.policy.neighbours)

    def _bits(self, own: Concentrated | Pure | Any) -> int:
        """Weights of rows are multiples of 2^-bits: fewer bits where the noise would be too large to draw exactly."""
        coarse = self._bounded(0)
        if coarse.strategy is Strategy.WHOLE:
            return 0
        most = min(_MOST_BITS, self._bounded(_MOST_BITS).measures[0].bits)
        spent = min(Fraction(1), own.total)
        rows = coarse.measures[0].added.total * (400 + 16 * len(self.attributes)) / spent  # more than any noise
        found = min(most, math.floor(math.log2(MOST_STEPS / rows)))
        if found < _LEAST_BITS:
            raise Unsupported(
                "too-much-noise",
                "noise is drawn exactly up to 1e12 steps, and this price needs more",
                fix="give more, name fewer columns, or let fewer rows of a unit count with rows=",
            )
        return found


_ADDED = Neighbours.ADD_REMOVE
_REASON = "every choice and every measurement is a step that is charged by itself; the model and its rows cost nothing"
_CHOSEN = {
    "aim": "one is chosen in each round, by how far the model is off, less what noise would be",
    "mwem": "one of the workload's own, or within one, is chosen in each round",
    "mst": "pairs alone are chosen from, until they connect all columns",
    "independent": "none is chosen from: single columns alone are measured",
}
_ROUNDS = {
    "aim": "noise starts as for {many} rounds, or {few} where counts are small beside it, and is halved when a round "
    "taught nothing",
    "mwem": "{columns}",
    "mst": "{columns} columns, and one pair less",
    "independent": "{columns} columns",
}


def _held(account: Account, leaked: Curve, columns: int) -> Cost:
    """Hold a little more than all steps leak: the ledger rounds the charge of every step up, by far more than it leaks
    where that is small, and most at orders near 1. What is promised rests on the exact sum of all steps, and what is
    not spent is free again.
    """
    cost, order = account.cost(leaked), account.budget.order
    if cost.renyi is None or order is None:
        return cost
    steps = 10 * (columns + 1)  # more than any method takes
    rounded_up = steps * 2 * Fraction(ROUNDED_UP) / (order - 1)
    return replace(cost, renyi=cost.renyi + cost.renyi // 10**6 + charge_units(rounded_up))


def _run(steps: Steps, release: Callable[[Step], Outcome]) -> None:
    """Release every step that a method wants, and tell it what came out."""
    step = next(steps, None)
    while step is not None:
        outcome = release(step)
        try:
            step = steps.send(outcome)
        except StopIteration:
            return


def _phase(course: SynthesisState, step: Step) -> str:
    """Name a step for who waits: rounds, never scores."""
    if not course.marginals:
        return "counting rows"
    return f"round {len(course.rounds) + 1}: {'measuring' if isinstance(step, MeasureStep) else 'choosing'}"


@dataclass
class _SynthesisSeries:
    """This runs the steps on a tab, one after the other."""

    on_tab: StepsOnTab
    question: str
    course: SynthesisState

    def __post_init__(self) -> None:
        self.tab = self.on_tab.tab
        self.paid: list[Charged] = []
        limit = self.on_tab.call.limit(self.on_tab.here.seconds)
        self._end = None if limit is None else time.monotonic() + limit

    def run(self, steps: Steps) -> bool:
        """Run all steps; tell whether all of them were. What is given after an end before that is the model so far."""
        try:
            _run(steps, self._released)
            self.course.finish()
        except KeyboardInterrupt:  # between steps: every one was complete, and who stops knows what was released alone
            self.tab.stop()
        except _TimeIsUp:
            self.tab.forfeit()
        except Unsupported:  # a step could not be checked in the time that was left, and was not charged
            if not self.course.marginals:
                self.tab.stop()  # it was the first: no row was read
                raise
            self.tab.forfeit()
        except Unanswered:
            if self._left() is None or self._left() > 0 or not self.course.marginals:  # type: ignore[operator]
                raise
        else:
            return True
        if not self.course.marginals:
            raise KeyboardInterrupt
        return False

    def _left(self) -> float | None:
        """Return the seconds that are left to work in: who holds a step back takes none of them."""
        return None if self._end is None else self._end + self.on_tab.held_back - time.monotonic()

    def _released(self, step: Step) -> Outcome:
        left = self._left()
        self.on_tab.between()
        if left is not None and left <= 0 and self.course.marginals:
            raise _TimeIsUp
        what = _phase(self.course, step)
        self.on_tab.progress(what)
        seconds = None if left is None else max(left, 1e-3)
        kind: ReleaseStrategy[Outcome] = step
        outcome = self.on_tab.released(kind, f"{what}, for {self.question}", seconds)
        self.paid += step.batch.charged
        return outcome


class _TimeIsUp(Exception):
    """The seconds are over, between two steps."""


# ── what is asked for ──────────────────────────────────────────────────────────────────────────


def synthesis(
    context: Context,
    catalog: Catalog,
    table: str,
    method: str = "aim",
    ways: Sets = 3,
    *,
    columns: Sequence[str] | None = None,
    weights: ColumnWeights | None = None,
    where: str | None = None,
    rows: int | None = None,
    one_row_per: str | None = None,
    order: str | None = None,
    memory: str | int = "1 GiB",
) -> SynthesisProposal:
    """Propose a synthetic table; what cannot be modelled is refused here, before anything is spent."""
    if one_row_per not in (None, "unit") or (one_row_per is None) != (order is None):
        fix = 'write one_row_per="unit", order="date", or order="date DESC" for the last row'
        raise InvalidParameter("one_row_per", one_row_per, '"unit", beside an order, or left out with it', fix=fix)
    if method not in METHODS:
        raise InvalidParameter("method", method, f"one of {', '.join(METHODS)}")
    most_cells = max(1, _bytes(memory) // BYTES_PER_CELL)
    implied: tuple[ImpliedColumn, ...] = ()
    if isinstance(table, str) and is_select(table):
        if where is not None or order is not None:
            raise InvalidParameter("where", where, "left out beside a SELECT", fix="write WHERE or QUALIFY in it")
        coded = marginals_of_select(context, catalog, table, columns, rows)
    else:
        declared = context.policy.tables.get(table)
        if columns is None and declared is not None:
            _check_all_coded(declared)
        decided = {} if declared is None else _decided(declared, columns, ways)
        if declared is not None and decided:
            columns = [name for name in columns or coded_names(declared) if name not in decided]
        coded = marginals(context, catalog, table, 1, columns=columns, where=where, rows=rows, order=order)
        if declared is not None:
            places = {each.name: place for place, each in enumerate(coded.attributes)}
            implied = tuple(implied_of(declared, name, places[by], own) for name, (by, own) in decided.items())
    names, sizes = (
        [attribute.name for attribute in coded.attributes],
        [attribute.size for attribute in coded.attributes],
    )
    _check_columns(names, sizes)
    wanted, left_out = workload_sets(ways, names, sizes, most_cells)
    check_weights(weights or {}, names, wanted)
    workload = {each: set_weight(each, names, weights or {}) for each in wanted}
    flat = tuple(attribute.flat for attribute in coded.attributes)
    face = coded.face
    check_conditions(coded.query.plan.table, flat, implied, face)
    zeros = zeros_of(coded.query.plan.table, flat, face)
    check_zeros(zeros, sizes, most_cells)
    if where is not None:
        face = kept_face(coded.query.plan.table, flat, face, where)
        zeros = kept_zeros(coded.query.plan.table, flat, face, zeros, where, most_cells)
    implies, ruled_out = _implications(context.policy.tables.get(table), flat, face)
    _check_pairs(implies, ruled_out, zeros, flat, most_cells)
    own = workload, left_out, most_cells, zeros, implied, face, implies, ruled_out
    return SynthesisProposal(context, coded, method, *own)


def _implications(table: Table | None, attributes: Attributes, face: TableFace) -> tuple[Pairs, Zeros]:
    """Part the columns of a model that decide others: those of which noisy counts say how, and the cells that are ruled
    out by what the policy says.
    """
    learned, ruled_out = [], []
    for by, decided in deciding_pairs(attributes, face):
        names = attributes[by].name, attributes[decided].name
        cells = None if table is None else decided_cells(table, *names)
        if cells is None:
            learned.append((by, decided))
        else:
            decides = deciding_cells(attributes, by)
            ruled_out.append(decided_zeros((by, decided), cells, decides, attributes[decided].size))
    return tuple(learned), tuple(ruled_out)


def _check_pairs(implies: Pairs, decided: Zeros, zeros: Zeros, attributes: Attributes, most_cells: int) -> None:
    """Refuse columns that decide others where a model cannot hold both: rows would not keep what the policy says."""
    sizes = [attribute.size for attribute in attributes]
    sets = [*(places for places, _ in (*zeros, *decided)), *pair_sets(implies)]
    if not (implies or decided) or predicted_cells(sets, sizes) <= sum(sizes) + most_cells:
        return
    pairs = [*pair_sets(implies), *(places for places, _ in decided)]
    largest = max(pairs, key=lambda pair: math.prod(sizes[place] for place in pair))
    one, other = (attributes[place].name for place in largest)
    rule = f"rows keep that one of {one} and {other} decides the other, and the model cannot hold their cells together"
    fix = f'allow more memory, such as memory="4 GiB", or leave {other} out with columns='
    raise Unsupported("too-many-cells", rule, fix=fix)


def _decided(table: Table, columns: Sequence[str] | None, ways: Sets) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Find the columns that others decide, but for those that the workload names: they are to be measured."""
    listed = columns is None or (
        isinstance(columns, (list, tuple)) and all(isinstance(column, str) for column in columns)
    )
    wanted = set() if isinstance(ways, int) else {str(name).lower() for each in ways for name in each}
    found = implied_columns(table, list(columns or coded_names(table))) if listed else {}
    return {name: each for name, each in found.items() if name.lower() not in wanted}


_NAMED = 20
"""Columns that a refusal lists."""


def _check_all_coded(table: Table) -> None:
    """Refuse a table with a column that has no cells: it would be missing from the synthetic one without a word."""
    known = {*coded_names(table)}
    missing = [name for name in table.columns if name not in known and not _says_whose(table, name)]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise Unsupported(
            "uncoded-column",
            f"{', '.join(missing[:_NAMED])}{more} of {table.name} {'have' if len(missing) > 1 else 'has'} no cells: a "
            "column is coded when its values are listed, or it is boolean, or it has bins",
            fix=f"in the policy, add {'; '.join(_cells_for(table, name) for name in missing[:_NAMED])}{more}; or leave "
            f"{'them' if len(missing) > 1 else 'it'} out by naming the others in columns",
        )


def _cells_for(table: Table, name: str) -> str:
    """Write what would give a column cells: values to a text, months to a date, ten bins to a number."""
    domain, place = table.columns[name], f" to {table.name}.{name}"
    if domain.type is Type.TEXT:
        return f'values = ["a", "b"]{place}'
    if domain.type.temporal:
        return f'{"" if domain.bounds else "bounds = [2024-01-01, 2024-12-31], "}bins = "month"{place}'
    if domain.bounds is None:
        return f"bounds = [0, 100], bins = 10{place}"
    low, high = (Fraction(bound) for bound in domain.bounds)  # type: ignore[arg-type]
    whole_numbers = int(high - low) + 1 if domain.type is Type.INTEGER else 10
    return f"bins = {min(10, whole_numbers)}{place}"


def _says_whose(table: Table, name: str) -> bool:
    return isinstance(table.id, str) and name.lower() == table.id.lower()


def _check_columns(names: Sequence[str], sizes: Sequence[int]) -> None:
    for name, size in zip(names, sizes, strict=True):
        if size > MOST_COLUMN_CELLS:
            raise Unsupported(
                "too-many-cells",
                f"a column of a synthetic table has at most {MOST_COLUMN_CELLS:,} cells; {name} has {size:,}",
                fix=f"give {name} coarser bins, or leave it out with columns=",
            )


def _bytes(memory: object) -> int:
    """Read an amount of memory: whole bytes, or a text such as 1 GiB."""
    if type(memory) is int and memory > 0:
        return memory
    found = _MEMORY.fullmatch(memory) if isinstance(memory, str) else None
    if found is not None:
        return max(1, math.floor(exact(found[1], "memory", POSITIVE) * _UNITS[found[2].lower()]))
    raise InvalidParameter("memory", memory, 'an amount such as "1 GiB" or "500 MB"')
