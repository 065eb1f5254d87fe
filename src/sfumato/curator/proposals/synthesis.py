"""A proposal of a synthetic table: a model of the whole table is bought step by step, and rows are drawn from it free.

The price is held by a tab. The noisy number of rows is the first step, and every selection and every measurement is a
step of its own: a complete release that is charged before it reads (``publish.synthesis``). The unspent rest is freed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_limit, explain_source
from sfumato.curator.proposals.marginals import MarginalsProposal
from sfumato.curator.proposals.mwem import fitting_sets_and_dropped_count, product_weight_of_set, require_valid_weights
from sfumato.curator.proposals.selected_columns import (
    face_with_condition,
    is_select_text,
    refuse_unevaluable_conditions,
    zeros_with_condition,
)
from sfumato.curator.proposals.synthesis_series import (
    ModelColumns,
    SelectedCells,
    SynthesisOptions,
    SynthesisStepRunner,
    amount_to_hold,
    code_select,
    code_table,
    parse_memory,
    refuse_too_many_cells,
    run_steps,
    step_phase_text,
)
from sfumato.curator.proposals.tab_releases import TabSeries
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.ledger import Charged, StoredAnswer, Tab
from sfumato.mechanisms.additive import MAX_STEPS
from sfumato.plan.bounding import BoundedPlan, bound_by_unit_weights, for_neighbours
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.cell_rows import CellCounts, CellRows
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.policy import Table
from sfumato.privacy import Neighbours
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_number,
    format_percent,
)
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.attributes import BARE, Attributes, PublicTableFacts
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.synthesis.budget import Concentrated, Pure, RoundAmounts, price_in_currency, round_amount_down
from sfumato.publish.synthesis.candidates import (
    BYTES_PER_CELL,
    Outcome,
    Pairs,
    Step,
    Zeros,
    counted_sets,
    decided_cells,
    deciding_cells,
    deciding_pairs,
    distinct_sets as pair_sets,
    non_nullable_attributes,
    require_possible_rows,
    zeros_from_policy,
    zeros_of_pair,
)
from sfumato.publish.synthesis.forecasting import SynthesisForecast, draw_invented_rows, forecast
from sfumato.publish.synthesis.methods import aim, first_sets_and_amount, independent, mst, mwem
from sfumato.publish.synthesis.private_cells import (
    CELLS_SHARE,
    CellPlan,
)
from sfumato.publish.synthesis.released import METHODS, ImpliedColumn, ReleasedMarginal, ReleasedSynthesis
from sfumato.publish.synthesis.state import StepGenerator, SynthesisSetting, SynthesisState, pairs_with
from sfumato.publish.synthetic import Synthetic
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.payers import PurchaseTerms, purchase_terms
from sfumato.release.prices import Price, least_amount_where, rounded_up_to_4_digits
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, warn_of_weak_price
from sfumato.release.releasing import StoredResult
from sfumato.release.requests import RequestedSeries, repeated_receipt
from sfumato.release.running_work import Progress, ignore_progress
from sfumato.renamed import RehearseAlias

_METHOD_STEPS: dict[str, Callable[[SynthesisState], StepGenerator]] = {
    "aim": aim,
    "mst": mst,
    "mwem": mwem,
    "independent": independent,
}
_MAX_BITS, _MIN_BITS = 10, 4
_PREVIEW_ROWS = 10_000


@dataclass(frozen=True)
class SynthesisProposal(RehearseAlias, StoredProposal):
    """A proposal of a synthetic table; only ``release`` spends."""

    _context: Context = field(repr=False)
    _coded: MarginalsProposal = field(repr=False)
    method: str
    workload: Mapping[AttributeSet, Fraction] = field(repr=False)
    dropped_sets: int = 0
    """The number of sets dropped from the workload because they have more cells than the model may have."""
    max_cells: int = 1 << 18
    zeros: Zeros = field(default=(), repr=False)
    derived_columns: tuple[ImpliedColumn, ...] = field(default=(), repr=False)
    """Columns determined by others: they are not in the model, and are added to the rows."""
    face: PublicTableFacts = field(default=BARE, repr=False)
    """The public facts about the columns, and which combinations are impossible."""
    learned_implications: Pairs = field(default=(), repr=False)
    """Columns of the model that determine others; the mapping is learned from the noisy counts."""
    ruled_out_cells: Zeros = field(default=(), repr=False)
    """Cells that the policy rules out by declaring which value determines which."""
    cell_plan: CellPlan | None = field(default=None, repr=False)
    """The columns whose cells are bought, with their parts as planned; None if the policy declares all cells."""
    target: int | None = None
    """The index of the column that will be learned from the rows."""

    @property
    def attributes(self) -> Attributes:
        """The columns of the model with their cells, as they are planned where they are bought."""
        return ModelColumns(self._coded, cell_plan=self.cell_plan).attributes

    @property
    def bought_column_indices(self) -> set[int]:
        """The columns whose cells are bought, with this model or an earlier one."""
        return ModelColumns(self._coded, cell_plan=self.cell_plan).bought_column_indices

    def __repr__(self) -> str:
        summary = f"{self.method} of {self._coded.query.plan.table}, {count_with_noun(len(self.attributes), 'column')}"
        return f"<{summary}: .explain() .price() .forecast() .preview() are free, .release() spends>"

    @property
    def columns(self) -> Columns:
        """The columns of the rows with their types."""
        modelled = zip(self.attributes, self.face.domains_for(self.attributes), strict=True)
        implied = tuple(column.attribute for column in self.derived_columns)
        derived = zip(implied, BARE.domains_for(implied), strict=True)
        return tuple(AnswerColumn(attribute.name, domain.type) for attribute, domain in (*modelled, *derived))

    @cached_property
    def question(self) -> str:
        """The proposal in words, as stored in the ledger."""
        names = ", ".join(attribute.name for attribute in self.attributes)
        condition = f" where {self._coded.condition[:1000]}" if self._coded.condition else ""
        sets = count_with_noun(len(self.workload), "marginal")
        return (
            f"synthetic rows of {self._coded.query.plan.table}{condition} by {self.method}: {sets} of {names[:4000]}"
            f"{self.bought_cells_text}{'' if self.target is None else f'; to learn {self.target_name}'}"
        )

    @property
    def target_name(self) -> str | None:
        """The column that will be learned from the rows."""
        return None if self.target is None else self.attributes[self.target].name

    @property
    def bought_cells_text(self) -> str:
        """Name the columns whose cells are part of the purchase."""
        if self.cell_plan is None or not self.cell_plan.bought:
            return ""
        names = ", ".join(private.fine.name for private in self.cell_plan.bought.values())
        return f"; cells of {names[:1000]} bought too, for {_cells_price_share_text(self.cell_plan)} of the price"

    @cached_property
    def plan_key(self) -> PlanKey:
        """The key of what is measured."""
        parts: tuple[Any, ...] = (self.method, tuple(self.workload.items()), self.max_cells)
        parts += () if self.target is None else ("target", self.target)
        return self._coded.plan_key.derive(lambda key: digest("synthesis", key, *parts))

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
        setting, confidence_level = self.setting(price), exact(confidence, "confidence", CONFIDENCE)
        notes = self._context.epsilon_total_warnings(None) if price.allows_gaussian else ()
        return Explanation(self.question, str(price), self.plan_steps(setting, confidence_level), _REASON, notes)

    def plan_steps(self, setting: SynthesisSetting, confidence: Fraction) -> tuple[PlanStep, ...]:
        bounded, columns = setting.reading.bounded, len(self.attributes)
        sizes = ", ".join(f"{attribute.name} {attribute.size:,}" for attribute in self.attributes)
        sizes += self._derived_columns_text
        first_counts_half_width = self.first_counts_half_width(setting, confidence)
        dropped_text = f"; {self.dropped_sets:,} larger ones are dropped" if self.dropped_sets else ""
        return (
            *explain_source(self._coded.query, self._context.policy),
            explain_limit(bounded),
            PlanStep("columns", sizes, "cells, with one for missing or undeclared values"),
            PlanStep("rows", "the noisy number of rows", "1/200 of the price, once"),
            *self._explain_bought_cells,
            PlanStep(
                "candidates",
                count_with_noun(len(setting.candidates), "set") + f" of columns{dropped_text}",
                _SELECTION_WORDS[self.method],
            ),
            PlanStep("model", f"at most {self.max_cells:,} cells in addition to single columns", "largest clique"),
            *self._explain_implications,
            PlanStep(
                "rounds", _ROUND_WORDS[self.method].format(few=2 * columns, many=4 * columns, columns=columns), ""
            ),
            PlanStep(
                "measure",
                "single columns" if self.target is None else f"pairs with {self.target_name}",
                f"±{format_number(first_counts_half_width)} in each count of the first measurement",
            ),
            PlanStep("rows drawn", "n̂ rows, or rows=4×n̂ for less sampling error", "free, any number of times"),
        )

    @property
    def _explain_bought_cells(self) -> tuple[PlanStep, ...]:
        """Say which cells are bought, at what share of the price, and how values are drawn inside them."""
        if self.cell_plan is None or not self.cell_plan.bought:
            return ()
        cells = [f"{private.fine.name}: {private.words}" for private in self.cell_plan.bought.values()]
        texts = "; ".join(cells[:_MAX_TEXTS]) + (f"; and {len(cells) - _MAX_TEXTS} more" * (len(cells) > _MAX_TEXTS))
        share = _cells_price_share_text(self.cell_plan)
        return (PlanStep("cells", texts, f"{share} of the price; values within them are drawn evenly"),)

    @property
    def _explain_implications(self) -> tuple[PlanStep, ...]:
        """Describe which columns determine others in every row, and which declared implications are lost."""
        names = [attribute.name for attribute in self.attributes]
        learned = [f"{names[by]} → {names[decided]}" for by, decided in self.learned_implications]
        learned_note = "measured first; the mapping is read off the noisy counts for free, and every row obeys it"
        modelled_pairs = {*deciding_pairs(self.attributes, self.face)}
        index_of_name = {name: index for index, name in enumerate(names)}
        lost_pairs = [
            f"{by} → {decided}"
            for by, decided in self.face.implies
            if {by, decided} <= {*names} and (index_of_name[by], index_of_name[decided]) not in modelled_pairs
        ]
        lost_note = f"not kept: bins of {', '.join(pair.split(' → ')[0] for pair in lost_pairs)} have several values"
        return (
            *((PlanStep("implies", ", ".join(learned), learned_note),) if learned else ()),
            *((PlanStep("implies", ", ".join(lost_pairs), lost_note),) if lost_pairs else ()),
        )

    @property
    def _derived_columns_text(self) -> str:
        """Name the derived columns, and the column that determines each."""
        return "".join(
            f"; {column.attribute.name} by {self.attributes[column.by].name}" for column in self.derived_columns
        )

    def first_counts_half_width(self, setting: SynthesisSetting, confidence: Fraction) -> float:
        """Return the half-width of the counts of single columns at the initial noise."""
        amounts = self._first_round_amounts(setting)
        _, amount = first_sets_and_amount(setting, setting.currency.total * Fraction(199, 200), amounts)
        sensitivity = CellCounts(setting.reading, (0,)).sensitivity
        noise = setting.currency.noise(amount, sensitivity)
        return float(noise.error(confidence) * setting.unit_value)

    def _first_round_amounts(self, setting: SynthesisSetting, bought: Fraction = Fraction(0)) -> RoundAmounts:
        """Return the first round's amounts, with the noise for the maximal number of rounds, after so much is spent on
        cells. No later step of any method costs less (``publish.synthesis.methods``).
        """
        rounds = 4 * len(self.attributes)
        remaining = setting.currency.total * Fraction(199, 200) - bought
        return RoundAmounts.of_round(round_amount_down(remaining / rounds))

    def price(self, within: Number, *, delta: Number = 0, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε, at this δ, at which counts of single columns are within this if measured first. Free.

        The model's error elsewhere depends on the data, and is not available for free.
        """
        error_limit = float(exact(within, "within", POSITIVE))
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        pure = not Price(1, delta).delta

        def is_within(amount: Fraction) -> bool:
            setting = self.setting(Price(amount) if pure else Price(rho=amount))
            return self.first_counts_half_width(setting, confidence_level) <= error_limit

        least_amount = least_amount_where(is_within)
        if pure:
            return float(rounded_up_to_4_digits(least_amount))
        return float(
            rounded_up_to_4_digits(Fraction(Concentrated(least_amount).total_curve(_ADD_REMOVE).epsilon(delta)))
        )

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        rows: int | None = None,
        progress: Progress | None = None,
    ) -> Synthetic:
        """Run everything on invented rows, drawn from the declared cells. Free: no row of the table is read."""
        price = Price(epsilon, delta, rho)
        state = self._run_invented(
            self.setting_after_dry_run(price), self._invented_row_count(rows), progress or ignore_progress
        )
        return self.build_synthetic(self.build_released(state, price, complete=True, is_purchase=False), state)

    def forecast(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        rows: int | None = None,
    ) -> SynthesisForecast:
        """Forecast time and memory for a number of rows, by default the policy's number of units. Free: no row is read.

        It is computed from the policy, the price and this machine's speed, measured once per process on made-up
        numbers.
        """
        price, count = Price(epsilon, delta, rho), self._invented_row_count(rows)
        setting = self.setting_after_dry_run(price)
        curve = setting.currency.total_curve(self._context.policy.neighbours)
        accepted = all(budget.affords(curve) for budget in self._context.budgets)
        return forecast(setting, self.method, count, str(price), accepted=accepted)

    def _invented_row_count(self, rows: int | None) -> int:
        return exact_integer(self._context.policy.size or _PREVIEW_ROWS if rows is None else rows, "rows", at_least=1)

    def _run_invented(self, setting: SynthesisSetting, rows: int, progress: Progress) -> SynthesisState:
        invented_rows, state = draw_invented_rows(setting, rows), SynthesisState(setting)

        def read(reading: PlanReading[Any]) -> Any:  # noqa: ARG001
            return invented_rows

        def run(step: Step) -> Outcome:
            progress(step_phase_text(state, step))
            return step.draw(read)

        run_steps(_METHOD_STEPS[self.method](state), run)
        state.finish()
        return state

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
    ) -> Synthetic:
        """Hold the price, spend it step by step, and return the model, from which rows are drawn. The same
        ``request_id`` returns the same model again, free.

        Ctrl-C stops after the running step: the unspent rest is freed, and the model so far is returned. When its
        ``seconds`` are over the model so far is returned too, but nothing is freed: the time may depend on rows. A step
        that a second Ctrl-C aborts is spent, with the whole hold.
        """
        price, context = Price(epsilon, delta, rho), self._context
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        context.require_one_account("a synthesis")
        series_request = RequestedSeries(context, self.question, self.plan_key, call)
        stored_answer = series_request.find_stored()
        if stored_answer is not None:
            return self._restore(stored_answer)
        setting = self.setting_after_dry_run(price)
        warn_of_weak_price(price, context)
        context.engine.check(setting.reading).close()
        hold = amount_to_hold(
            context.account, setting.currency.total_curve(context.policy.neighbours), len(self.attributes)
        )
        state = SynthesisState(setting)
        with context.running_work.running():
            tab_or_stored = series_request.open(hold)
            if isinstance(tab_or_stored, StoredAnswer):
                return self._restore(tab_or_stored)
            with tab_or_stored as tab:
                series = SynthesisStepRunner(
                    TabSeries(context, "synthesis", self.identity, tab, call), self.question, state
                )
                complete = series.charge_and_run(_METHOD_STEPS[self.method](state))
                synthesized = self.build_released(state, price, complete=complete, is_purchase=True)
                synthetic = self.build_synthetic(synthesized, state, tab, tuple(series.paid))
                series_request.finish(tab, synthetic)
        return synthetic

    def _restore(self, stored_answer: StoredAnswer) -> Synthetic:
        """Return what the same request bought."""
        synthetic = Synthetic.from_json(stored_answer.body)
        return replace(synthetic, receipt=repeated_receipt(synthetic.receipt, self._context))

    def build_synthetic(
        self,
        synthesized: ReleasedSynthesis,
        state: SynthesisState,
        tab: Tab | None = None,
        charged_parts: tuple[Charged, ...] = (),
    ) -> Synthetic:
        """Combine the released marginals, the model and the receipt; a preview has no line in the ledger."""
        context = replace(self._context, is_preview=tab is None)
        if not synthesized.complete:
            with suppress(KeyboardInterrupt):  # then the model before the last measurement is returned
                state.finish()  # include the last measurement
        if tab is None:
            line: StoredResult[None] = StoredResult(None, 0, datetime.now(UTC), "", free=True)
        else:
            line = StoredResult(None, tab.opening.number, tab.opening.time, tab.opening.hash, free=False)
        words = tuple(dict.fromkeys(part.mechanism.words() for part in charged_parts))
        table_receipt = make_receipt(
            line, synthesized.purchase, words, question=self.question, context=context, confidence=DEFAULT_CONFIDENCE
        )
        return Synthetic(synthesized, state.model, table_receipt, charged_parts)

    def build_released(
        self, state: SynthesisState, price: Price, *, complete: bool, is_purchase: bool
    ) -> ReleasedSynthesis:
        context, coded = self._context, self._coded
        terms = (
            purchase_terms([state.setting.reading.bounded], price, context.version) if is_purchase else PurchaseTerms()
        )
        table = coded.query.plan.table
        return ReleasedSynthesis(
            self.method,
            state.setting.attributes,
            tuple(map(ReleasedMarginal.encode, state.marginals)),
            tuple(state.rounds),
            state.total,
            state.planned,
            state.setting.unit_value,
            table,
            coded.condition,
            terms,
            price,
            self.face,
            implied=self.derived_columns,
            max_cells=self.max_cells,
            complete=complete,
            bought_cells=tuple(state.bought_cells),
        )

    # ── steps at a price ─────────────────────────────────────────────────────────────────

    def setting(self, price: Price) -> SynthesisSetting:
        """Return everything that is public before the first step."""
        priced_in = price_in_currency(price)
        codes = tuple(column.codes for column in self._coded.coded_columns)
        reading = CellRows(self._bounded_plan(self._weight_bits(priced_in)), codes, self._counted_sets)
        zeros = (*self.zeros, *self.ruled_out_cells)
        required = non_nullable_attributes(self.face)
        return SynthesisSetting(
            reading,
            self.attributes,
            self.workload,
            priced_in,
            self.max_cells,
            zeros,
            self.learned_implications,
            required,
            cell_plan=self.cell_plan,
            target=self.target,
        )

    def with_implications(self, table: Table) -> SynthesisProposal:
        """Return the proposal with what the policy says of which columns determine others."""
        learned, ruled_out = _learned_pairs_and_ruled_out_cells(
            table, self.attributes, self.face, self.bought_column_indices
        )
        _refuse_unmodellable_pairs(learned, ruled_out, self.zeros, self.attributes, self.max_cells)
        return replace(self, learned_implications=learned, ruled_out_cells=ruled_out)

    @cached_property
    def _counted_sets(self) -> tuple[AttributeSet, ...]:
        """All sets of columns that some step may count."""
        sizes = [attribute.size for attribute in self.attributes]
        target_pairs = () if self.target is None else pairs_with(self.target, len(sizes))
        first_pairs = (*pair_sets(self.learned_implications), *target_pairs)
        return counted_sets(self.method, self.workload, sizes, first_pairs, self.max_cells)

    def setting_after_dry_run(self, price: Price) -> SynthesisSetting:
        """Refuse a price that cannot buy the first steps, or the cheapest of the later ones, before any charge."""
        setting = self.setting(price)
        bought_cells = self.cell_plan.bought if self.cell_plan is not None else {}
        first_round = self._first_round_amounts(setting, setting.cell_amount * len(bought_cells))
        state = SynthesisState(setting)
        releasing.dry_run(next(state.count_rows()))
        for column_index, private in bought_cells.items():
            releasing.dry_run(private.step(setting.reading, column_index, setting.cell_amount, setting.currency)[0])
        setting.currency.noise(first_round.measurement, CellCounts(setting.reading, (0,)).sensitivity)
        if self.method != "independent":
            next(state.choose({(0,): 1}, first_round.choice, float))
        return setting

    def _bounded_plan(self, bits: int) -> BoundedPlan:
        cells = min(10**7, math.prod(attribute.size for attribute in self.attributes))
        bounded = bound_by_unit_weights(self._coded.query.plan, self._coded.limits, cells, bits)
        return for_neighbours(bounded, self._context.policy.neighbours)

    def _weight_bits(self, priced_in: Concentrated | Pure | Any) -> int:
        """Return the bits of row weights, multiples of 2^-bits: fewer where the noise would be too large to draw
        exactly.
        """
        coarse = self._bounded_plan(0)
        if coarse.strategy is Strategy.WHOLE:
            return 0
        max_bits = min(_MAX_BITS, self._bounded_plan(_MAX_BITS).measures[0].bits)
        spent = min(Fraction(1), priced_in.total)
        rows = (
            coarse.measures[0].add_remove_sensitivity.total * (400 + 16 * len(self.attributes)) / spent
        )  # above any noise scale
        bits = min(max_bits, math.floor(math.log2(MAX_STEPS / rows)))
        if bits < _MIN_BITS:
            raise Unsupported(
                "too-much-noise",
                "at this price, a synthetic table needs more noise than can be drawn exactly",
                fix="give a higher price, name fewer columns, or count fewer rows per unit with rows=1",
            )
        return bits


def _cells_price_share_text(plan: CellPlan) -> str:
    """Return the share of the price that buys cells."""
    share = CELLS_SHARE * len(plan.bought) / len(plan.fine)
    return str(share) if share.numerator == 1 else format_percent(share)


_MAX_TEXTS = 20
"""The number of columns that an explanation lists with their bought cells."""
_ADD_REMOVE = Neighbours.ADD_REMOVE
_REASON = "every selection and every measurement is charged as a step of its own; the model and its rows are free"
_SELECTION_WORDS = {
    "aim": "one is selected in each round, by the model's error minus the expected noise",
    "mwem": "one set of the workload, or a subset of one, is selected in each round",
    "mst": "only pairs are selected, until they connect all columns",
    "independent": "none is selected: only single columns are measured",
}
_ROUND_WORDS = {
    "aim": "noise starts at its level for {many} rounds, or for {few} if counts are small compared with it, and is "
    "halved after a round without gain",
    "mwem": "{columns}",
    "mst": "{columns} columns, then {columns} − 1 pairs",
    "independent": "{columns} columns",
}


# ── parsing the request ──────────────────────────────────────────────────────────────────────────


def propose_synthesis(
    context: Context, catalog: Catalog, spec: SynthesisOptions, cells: SelectedCells | None = None
) -> SynthesisProposal:
    """Propose a synthetic table; refuse here, before any charge, what cannot be modelled."""
    _require_valid_options(spec)
    max_cells = max(1, parse_memory(spec.memory) // BYTES_PER_CELL)
    if is_select_text(spec.table):
        table = code_select(context, catalog, spec, cells)
    else:
        table = code_table(context, catalog, spec)
    workload, dropped_sets = _weighted_workload_and_dropped_count(table, spec, max_cells)
    face, zeros = _facts_and_zeros(table, spec.where, max_cells)
    policy_table = context.policy.tables.get(spec.table)
    learned, ruled_out = _learned_pairs_and_ruled_out_cells(
        policy_table, table.attributes, face, table.bought_column_indices
    )
    _refuse_unmodellable_pairs(learned, ruled_out, zeros, table.attributes, max_cells)
    fixed_sets = [*(indices for indices, _ in (*zeros, *ruled_out)), *pair_sets(learned)]
    target = _target_index(table.attributes, spec, max_cells, fixed_sets)
    return SynthesisProposal(
        context,
        table.coded,
        spec.method,
        workload,
        dropped_sets,
        max_cells,
        zeros,
        table.derived_columns,
        face,
        learned,
        ruled_out,
        table.cell_plan,
        target,
    )


def _target_index(
    attributes: Attributes, spec: SynthesisOptions, max_cells: int, fixed_sets: Sequence[AttributeSet]
) -> int | None:
    """Return the index of the target; refuse one whose pairs with the other columns cannot be modelled beside the sets
    that the policy puts in the model.
    """
    if spec.target is None:
        return None
    if spec.method != "aim":
        fix = 'leave out target, or write method="aim", which measures the pairs of the target first'
        raise InvalidParameter("target", spec.target, f"left out with method={spec.method!r}", fix=fix)
    names, sizes = [attribute.name for attribute in attributes], [attribute.size for attribute in attributes]
    if spec.target not in names or len(names) < 2:
        is_alone = "left out, because the model has only one column"
        rule = f"one of the columns of the model: {', '.join(names)}" if len(names) > 1 else is_alone
        raise InvalidParameter("target", spec.target, rule)
    target = names.index(spec.target)
    if predicted_cells((*pairs_with(target, len(sizes)), *fixed_sets), sizes) > sum(sizes) + max_cells:
        rule = f"measuring {spec.target} together with every other column needs more memory than the model may use"
        fix = f'allow more memory, such as memory="4 GiB", or give {spec.target} coarser bins'
        raise Unsupported("too-many-cells", rule, fix=fix)
    return target


def _require_valid_options(spec: SynthesisOptions) -> None:
    if spec.one_row_per not in (None, "unit") or (spec.one_row_per is None) != (spec.order is None):
        fix = 'write one_row_per="unit", order="date", or order="date DESC" for the last row'
        rule = "left out, because no order is given"
        if spec.order is not None:
            rule = 'given as "unit", because an order is given'
        raise InvalidParameter("one_row_per", spec.one_row_per, rule, fix=fix)
    if spec.method not in METHODS:
        raise InvalidParameter("method", spec.method, f"one of {', '.join(METHODS)}")


def _weighted_workload_and_dropped_count(
    table: ModelColumns, spec: SynthesisOptions, max_cells: int
) -> tuple[dict[AttributeSet, Fraction], int]:
    """Return the sets of the workload with their weights, and how many were dropped as too large."""
    names, weights = [attribute.name for attribute in table.coded.attributes], spec.weights or {}
    refuse_too_many_cells(names, [attribute.size for attribute in table.coded.attributes])
    sets, dropped_sets = fitting_sets_and_dropped_count(spec.ways, names, table.sizes, max_cells)
    require_valid_weights(weights, names, sets)
    return {places: product_weight_of_set(places, names, weights) for places in sets}, dropped_sets


def _facts_and_zeros(table: ModelColumns, where: str | None, max_cells: int) -> tuple[PublicTableFacts, Zeros]:
    """Return what the policy and the condition say of every row, and the cells of the model that are empty by that."""
    face, attributes = table.coded.face, table.attributes
    refuse_unevaluable_conditions(table.name, attributes, table.derived_columns, face)
    zeros = zeros_from_policy(table.name, attributes, face)
    require_possible_rows(zeros, table.sizes, max_cells)
    if where is not None:
        face = face_with_condition(table.name, attributes, face, where)
        zeros = zeros_with_condition(table.name, attributes, face, zeros, where, max_cells)
    # drawn rows meet no impossible condition, whether the model knows its cells or not
    return face, tuple(zero for zero in zeros if table.bought_column_indices.isdisjoint(zero[0]))


def _learned_pairs_and_ruled_out_cells(
    table: Table | None, attributes: Attributes, public_facts: PublicTableFacts, bought_places: Collection[int]
) -> tuple[Pairs, Zeros]:
    """Split the implications within a model: pairs to learn from noisy counts, and cells ruled out by the policy."""
    learned, ruled_out = [], []
    for source, target in deciding_pairs(attributes, public_facts):
        names = attributes[source].name, attributes[target].name
        is_bought = source in bought_places or target in bought_places
        cells = None if table is None or is_bought else decided_cells(table, *names)
        if cells is None:
            learned.append((source, target))
        else:
            determining_cells = deciding_cells(attributes, source)
            ruled_out.append(zeros_of_pair((source, target), cells, determining_cells, attributes[target].size))
    return tuple(learned), tuple(ruled_out)


def _refuse_unmodellable_pairs(
    learned: Pairs, ruled_out: Zeros, zeros: Zeros, attributes: Attributes, max_cells: int
) -> None:
    """Refuse implications whose pairs the model cannot hold: rows would break what the policy declares."""
    sizes = [attribute.size for attribute in attributes]
    sets = [*(indices for indices, _ in (*zeros, *ruled_out)), *pair_sets(learned)]
    if not (learned or ruled_out) or predicted_cells(sets, sizes) <= sum(sizes) + max_cells:
        return
    pairs = [*pair_sets(learned), *(indices for indices, _ in ruled_out)]
    largest = max(pairs, key=lambda pair: math.prod(sizes[index] for index in pair))
    first_name, second_name = (attributes[index].name for index in largest)
    rule = f"the model is too small to hold both {first_name} and {second_name}, one of which determines the other"
    fix = f'allow more memory, such as memory="4 GiB", or leave {second_name} out with columns='
    raise Unsupported("too-many-cells", rule, fix=fix)
