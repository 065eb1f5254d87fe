"""A proposal of synthetic tables that belong together: parents, and children of every parent.

The models are bought on one tab, for one price: that of the first table with the number of children of each row, and
one for each table below, given columns of its parents (``publish.linked``). An equal share of the price is for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.linked_table_selects import (
    LinkOptions,
    build_links,
    column_origins,
    fitted_rows_select,
    link_tables,
)
from sfumato.curator.proposals.synthesis import SynthesisProposal, propose_synthesis
from sfumato.curator.proposals.synthesis_series import (
    SelectedCells,
    SynthesisOptions,
    SynthesisStepRunner,
    amount_to_hold,
    parse_memory,
    run_steps,
)
from sfumato.curator.proposals.tab_releases import TabSeries
from sfumato.ledger import Charged, StoredAnswer, Tab
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.policy import Table
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, POSITIVE, Number, exact, exact_integer
from sfumato.publish.links import FIRST, ONLY, LinkedState, TableLink, link_to_parent, links_to_children
from sfumato.publish.marginals.attributes import Attributes, ListedCell
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.synthesis.budget import Concentrated, price_in_currency, round_amount_down
from sfumato.publish.synthesis.candidates import (
    BYTES_PER_CELL,
    Mask,
    Outcome,
    Step,
    Zeros,
    require_possible_rows,
    zeros_from_policy,
)
from sfumato.publish.synthesis.forecasting import SynthesisForecast, draw_invented_rows, forecast
from sfumato.publish.synthesis.methods import aim
from sfumato.publish.synthesis.private_cells import max_bought_cells, with_fine_cells
from sfumato.publish.synthesis.state import SynthesisState
from sfumato.publish.synthetic import Synthetic
from sfumato.publish.synthetic_tables import SyntheticTables
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.payers import PurchaseTerms, purchase_terms
from sfumato.release.prices import Price, least_amount_where, rounded_up_to_4_digits
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, warn_of_weak_price
from sfumato.release.releasing import StoredResult
from sfumato.release.requests import RequestedSeries, repeated_receipt
from sfumato.release.running_work import Progress, ignore_progress

_PREVIEW_ROWS = 10_000
_REASON = (
    "one price for all tables: a unit's rows in all tables form one vector, and every step is charged for its part"
)


@dataclass(frozen=True)
class LinkedTablesProposal(StoredProposal):
    """A proposal of linked synthetic tables; only ``release`` spends."""

    _context: Context = field(repr=False)
    links: tuple[TableLink, ...]
    """How each table but the first belongs to one before it."""
    parts: Mapping[str, SynthesisProposal] = field(repr=False)
    """By table, parents before children: its rows with the number of their children, and columns of their parents."""

    @property
    def first_link(self) -> TableLink:
        """The link of the first two tables."""
        return self.links[0]

    @property
    def columns(self) -> Columns:
        """The columns of all models with their types."""
        return tuple(column for part in self.parts.values() for column in part.columns)

    def __repr__(self) -> str:
        names = " and ".join(self.parts)
        return f"<synthesis of {names}: .explain() .price() .preview() are free, .release() spends>"

    @cached_property
    def question(self) -> str:
        """The proposal in words, as stored in the ledger."""
        columns = [f"{self.first_link.parent}.{name}" for name in self.first_link.parent_columns]
        columns += [f"{link.child}.{name}" for link in self.links for name in link.child_columns]
        children = " and ".join(link.child for link in self.links)
        bought = "".join(part.bought_cells_text for part in self.parts.values())
        return f"synthetic rows of {self.first_link.parent} and their {children}: {', '.join(columns)[:4000]}{bought}"

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured."""
        children = [(self.parts[link.child].plan_key.current, link) for link in self.links]
        return self.parts[self.first_link.parent].plan_key.derive(
            lambda key: digest("linked tables", key, *(part for child in children for part in child))
        )

    # ── before the purchase ────────────────────────────────────────────────────────────────────

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, by default at ρ = 1/2. This is free."""
        has_price = epsilon is not None or rho is not None
        price = Price(epsilon, delta, rho) if has_price else Price(rho="0.5")
        level = exact(confidence, "confidence", CONFIDENCE)
        operators: list[PlanStep] = []
        for (name, part), part_price in zip(self.parts.items(), self._part_prices(price), strict=True):
            operators += [
                PlanStep("table", name, f"{part_price}, of {price}"),
                *part.plan_steps(part.setting(part_price), level),
            ]
        link_note = "keys are new integers; limits hold in the rows drawn"
        operators += [PlanStep("link", _link_summary(link), link_note) for link in self.links]
        closing = self._context.epsilon_total_warnings(None) if price.allows_gaussian else ()
        return Explanation(self.question, str(price), tuple(operators), _REASON, (*self._limit_notes, *closing))

    @property
    def _limit_notes(self) -> tuple[str, ...]:
        """What a unit beyond its limits loses where it may have several parents."""
        return tuple(
            f"rows of a unit beyond {link.max_parents:,} rows of {link.parent} or {link.max_children:,} of "
            f"{link.child} are left out of each table independently: some {link.parent} may seem to have no "
            f"{link.child}"
            for link in self.links
            if link.max_parents > 1
        )

    def _part_prices(self, price: Price) -> tuple[Price, ...]:
        return split_price_evenly(price, len(self.parts))

    def price(self, within: Number, *, delta: Number = 0, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε, at this δ, at which counts of single columns of all tables are within this. Free."""
        error_limit = float(exact(within, "within", POSITIVE))
        level = exact(confidence, "confidence", CONFIDENCE)
        pure = not Price(1, delta).delta

        def is_within(amount: Fraction) -> bool:
            prices = self._part_prices(Price(amount) if pure else Price(rho=amount))
            pairs = zip(self.parts.values(), prices, strict=True)
            return all(part.first_counts_half_width(part.setting(price), level) <= error_limit for part, price in pairs)

        least_amount = least_amount_where(is_within)
        if pure:
            return float(rounded_up_to_4_digits(least_amount))
        curve = Concentrated(least_amount).total_curve(self._context.policy.neighbours)
        return float(rounded_up_to_4_digits(Fraction(curve.epsilon(delta))))

    def forecast(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        rows: int | None = None,
    ) -> SynthesisForecast:
        """Forecast time and memory for so many rows in each table, by default the policy's number of units. Free."""
        price = Price(epsilon, delta, rho)
        state, count = self._start_state(price), self._invented_row_count(rows)
        curve = price_in_currency(price).total_curve(self._context.policy.neighbours)
        accepted = all(budget.affords(curve) for budget in self._context.budgets)
        forecasts = [
            forecast(part.setting, "aim", count, str(price), accepted=accepted) for part in state.states.values()
        ]
        return replace(
            forecasts[-1],
            seconds=sum(part.seconds for part in forecasts),
            memory=max(part.memory for part in forecasts),
            rounds=sum(part.rounds for part in forecasts),
            cells=sum(part.cells for part in forecasts),
        )

    def _invented_row_count(self, rows: int | None) -> int:
        return exact_integer(self._context.policy.size or _PREVIEW_ROWS if rows is None else rows, "rows", at_least=1)

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        rows: int | None = None,
        progress: Progress | None = None,
    ) -> SyntheticTables:
        """Run everything on invented rows, drawn from the declared cells. Free: no row of a table is read."""
        price = Price(epsilon, delta, rho)
        state = self._start_state(price)
        count = self._invented_row_count(rows)
        invented = {part.setting.reading: draw_invented_rows(part.setting, count) for part in state.states.values()}
        report = progress or ignore_progress

        def read(reading: PlanReading[Any]) -> Any:
            return invented[reading]  # type: ignore[index]

        def run(step: Step) -> Outcome:
            report("inventing rows")
            return step.draw(read)

        run_steps(state.steps(aim), run)
        state.finish()
        return self._build_tables(state, price)

    # ── the purchase ─────────────────────────────────────────────────────────────────────────

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> SyntheticTables:
        """Hold the price, spend it step by step on all models, and return them. The same ``request_id`` returns the
        same models again, free.

        Ctrl-C and the time limit end it as they do for one table (``SynthesisProposal.release``); before rows of the
        last table are counted there are no tables to return.
        """
        price, context = Price(epsilon, delta, rho), self._context
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        context.require_one_account("a synthesis")
        request = RequestedSeries(context, self.question, self.plan_key, call)
        stored_answer = request.find_stored()
        if stored_answer is not None:
            return self._restore(stored_answer)
        state = self._start_state(price)
        warn_of_weak_price(price, context)
        context.engine.check(*(part.setting.reading for part in state.states.values())).close()
        hold = amount_to_hold(
            context.account,
            price_in_currency(price).total_curve(context.policy.neighbours),
            len(self.columns) + len(self.parts),
        )
        with context.running_work.running():
            tab_or_stored = request.open(hold)
            if isinstance(tab_or_stored, StoredAnswer):
                return self._restore(tab_or_stored)
            with tab_or_stored as tab:
                tab_series = TabSeries(context, "linked tables", self.identity, tab, call)
                series = SynthesisStepRunner(tab_series, self.question, state)
                complete = series.charge_and_run(state.steps(aim))
                tables = self._build_tables(state, price, tab, tuple(series.paid), complete=complete)
                request.finish(tab, tables)
        return tables

    def _start_state(self, price: Price) -> LinkedState:
        """Refuse a price that cannot buy the first steps of all models, and return their states."""
        states = {}
        for (table, part), part_price in zip(self.parts.items(), self._part_prices(price), strict=True):
            setting = part.setting_after_dry_run(part_price)
            link = link_to_parent(self.links, table)
            if link is not None:
                names = [attribute.name for attribute in part.attributes]
                given = {*link.band_and_position_columns, *link.parent_conditioning_columns.values()}
                measured = tuple(index for index, name in enumerate(names) if name not in given)
                setting = replace(setting, measured_columns=measured)
            states[table] = SynthesisState(setting)
        return LinkedState(self.links, states)

    def _restore(self, stored_answer: StoredAnswer) -> SyntheticTables:
        """Return what the same request bought."""
        tables = SyntheticTables.from_json(stored_answer.body)
        return replace(tables, receipt=repeated_receipt(tables.receipt, self._context))

    def _build_tables(
        self,
        state: LinkedState,
        price: Price,
        tab: Tab | None = None,
        paid: tuple[Charged, ...] = (),
        *,
        complete: bool = True,
    ) -> SyntheticTables:
        """Combine all models and the receipt; a preview has no line in the ledger."""
        models: dict[str, Synthetic] = {}
        remaining = list(paid)
        for (table, part), part_price in zip(self.parts.items(), self._part_prices(price), strict=True):
            is_last = table == self.links[-1].child
            released = part.build_released(
                state.states[table], part_price, complete=complete or not is_last, is_purchase=tab is not None
            )
            step_count = len(remaining) if is_last else state.step_counts[table]
            steps, remaining = tuple(remaining[:step_count]), remaining[step_count:]
            models[table] = part.build_synthetic(released, state.states[table], tab, steps)
        return SyntheticTables(self.links, models, price, self._receipt(price, state, tab, paid))

    def _receipt(self, price: Price, state: LinkedState, tab: Tab | None, paid: tuple[Charged, ...]) -> Any:
        context = replace(self._context, is_preview=tab is None)
        bounded = [part_state.setting.reading.bounded for part_state in state.states.values()]
        terms = PurchaseTerms() if tab is None else purchase_terms(bounded, price, context.version)
        if tab is None:
            line: StoredResult[None] = StoredResult(None, 0, datetime.now(UTC), "", free=True)
        else:
            line = StoredResult(None, tab.opening.number, tab.opening.time, tab.opening.hash, free=False)
        words = tuple(dict.fromkeys(part.mechanism.words() for part in paid))
        return make_receipt(line, terms, words, question=self.question, context=context, confidence=DEFAULT_CONFIDENCE)


def _link_summary(link: TableLink) -> str:
    left_out = [name for name in link.parent_columns if name not in link.linked_columns]
    more = f"; not given {', '.join(left_out)}" if left_out else ""
    return f"{link.child} are drawn given {', '.join(link.conditioning_columns)}{more}"


def split_price_evenly(price: Price, tables: int = 2) -> tuple[Price, ...]:
    """Return an equal price for the model of each table; together they keep the price.

    Prices with δ are split in ρ: all of the ρ that satisfies them. On planes and their flights half for the planes was
    better across the link at ε = 1 than a fifth or a third, and as good at ε = 4 (``bench/synthesis_tables.py``).
    """
    amounts = price_in_currency(price)
    total = amounts.rho if isinstance(amounts, Concentrated) else amounts.total
    share = round_amount_down(total / tables)
    rest = total - share * (tables - 1)
    if isinstance(amounts, Concentrated):
        return *(Price(rho=share) for _ in range(tables - 1)), Price(rho=round_amount_down(rest))
    return *(Price(share) for _ in range(tables - 1)), Price(rest)


# ── parsing the request ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LinkedTablesOptions:
    """What is asked of linked tables; their kind says what each of them means."""

    tables: Sequence[str]
    ways: int = 3
    columns: Sequence[str] | None = None
    given: Sequence[str] | None = None
    order: str | Sequence[str] | None = None
    ends: bool = False
    memory: str | int = "1 GiB"


def propose_linked_tables(context: Context, catalog: Catalog, spec: LinkedTablesOptions) -> LinkedTablesProposal:
    """Propose linked synthetic tables; refuse here, before any charge, what cannot be modelled."""
    fine_tables = {name: with_fine_cells(table) for name, table in context.policy.tables.items()}
    linked = link_tables(replace(context.policy, tables=fine_tables), spec.tables)
    bought_cells = {table.name: max_bought_cells(context.policy.tables[table.name]) for table in linked.tables}
    max_cells = parse_memory(spec.memory) // BYTES_PER_CELL
    links = build_links(
        linked, LinkOptions(spec.columns, spec.given, spec.order, spec.ends, max_cells // 2, bought_cells)
    )
    parts = {}
    for table in linked.tables:
        limit = table.max_rows if table.max_rows != 1 else None
        ways = _marginal_width(spec.ways, _column_count(links, table.name))
        select = fitted_rows_select(linked, links, table)
        options = SynthesisOptions(select, ways=ways, rows=limit, memory=spec.memory)
        cells = SelectedCells(fine_tables, column_origins(links, table.name, bought_cells))
        part = propose_synthesis(context, catalog, options, cells)
        parts[table.name] = _with_declared_rules(part, table, link_to_parent(links, table.name))
    return LinkedTablesProposal(context, links, parts)


def _column_count(links: Sequence[TableLink], table: str) -> int:
    """Return the number of columns of a table's model, but for that of siblings."""
    link, below = link_to_parent(links, table), links_to_children(links, table)
    modelled_columns = (
        len(below[0].parent_columns) if link is None else len(link.child_columns) + len(link.conditioning_columns)
    )
    return modelled_columns + len(below)


def _marginal_width(ways: int, columns: int) -> int:
    """Return the number of columns of a marginal, at most those of the model."""
    return min(exact_integer(ways, "ways", at_least=1), columns)


def _with_declared_rules(part: SynthesisProposal, table: Table, link: TableLink | None) -> SynthesisProposal:
    """Add what the policy says of every row of the table: which are impossible, and which columns determine others."""
    names = {attribute.name for attribute in part.attributes}
    implies = tuple(pair for pair in table.implies.items() if names >= {*pair})
    face = replace(part.face, impossible=table.impossible, implies=implies)
    zeros = zeros_from_policy(table.name, part.attributes, face)
    bought = {part.attributes[index].name for index in part.bought_column_indices}
    if link is not None:
        zeros = (
            *zeros,
            conditioning_clique_with_empty_mask(part.attributes, link),
            *(out_of_order_zeros(part.attributes, link) if link.order not in bought else ()),
            *impossible_positions(part.attributes, link),
        )
    require_possible_rows(zeros, [attribute.size for attribute in part.attributes], part.max_cells)
    # which bought cells are impossible is not known before they are bought; a set without impossible ones is a clique
    zeros = tuple(
        (places, mask) for places, mask in zeros if part.bought_column_indices.isdisjoint(places) or not mask.any()
    )
    return replace(part, face=face, zeros=zeros).with_implications(table)


def conditioning_clique_with_empty_mask(attributes: Attributes, link: TableLink) -> tuple[AttributeSet, Mask]:
    """Return the given columns as a set without empty cells: one clique of the model holds them all."""
    names = {*link.conditioning_columns}
    indices = tuple(index for index, attribute in enumerate(attributes) if attribute.name in names)
    return indices, np.zeros([attributes[index].size for index in indices], bool)


def out_of_order_zeros(attributes: Attributes, link: TableLink) -> Zeros:
    """Return the cells of the order column and the previous one that would go back: every value is below."""
    if not link.order:
        return ()
    names = [attribute.name for attribute in attributes]
    order, previous = names.index(link.order), names.index(link.previous_name(link.order))
    cells = attributes[order].cells[:-1]
    impossible = np.zeros((attributes[order].size, attributes[previous].size), bool)
    for row, cell in enumerate(cells):
        impossible[row, :-1] = [_is_wholly_below(cell, other) for other in cells]
    return (((order, previous), impossible),)


def impossible_positions(attributes: Attributes, link: TableLink) -> Zeros:
    """Return the cells of a child's position that its number of siblings rules out, and those of a parent's first or
    only child that has a previous one.
    """
    if not link.ends:
        return ()
    names = [attribute.name for attribute in attributes]
    count, position = map(names.index, link.band_and_position_columns)
    positions = [getattr(cell, "value", "") for cell in attributes[position].cells]
    count_labels = [str(cell.value) for cell in attributes[count].cells if isinstance(cell, ListedCell)]
    bands = list(map(link.band_labels.index, count_labels))
    impossible = np.zeros((attributes[count].size, len(positions)), bool)
    impossible[: len(bands)] = [
        [bool(name) and not link.is_possible_position(band, name) for name in positions] for band in bands
    ]
    zeros = [((count, position), impossible)]
    has_no_previous = np.isin(positions, [FIRST, ONLY])
    for column in link.previous_columns:
        previous = names.index(link.previous_name(column))
        is_value = np.arange(attributes[previous].size) < attributes[previous].size - 1
        zeros.append(((position, previous), np.outer(has_no_previous, is_value)))
    return tuple(zeros)


def _is_wholly_below(cell: Any, other: Any) -> bool:
    """Return whether every value of a cell is below every value of the other."""
    low: Any = other.value if isinstance(other, ListedCell) else other.low
    high: Any = cell.value if isinstance(cell, ListedCell) else cell.high
    is_closed = isinstance(cell, ListedCell) or cell.closed
    return bool(high < low or (high == low and not is_closed))
