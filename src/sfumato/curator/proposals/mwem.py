"""A proposal to fit a model of a table by MWEM: each round selects and measures what the model gets most wrong.

The price is held by a tab. The noisy number of rows is its first step, and each selection and each measurement is a
step of its own, a complete release that is charged before it reads (``publish.mwem``).

The module also parses the workload of a synthetic table: its sets of columns and their weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_limit, explain_source
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.marginals import MarginalsProposal, price_in_rho, propose_marginals
from sfumato.curator.proposals.tab_releases import TabSeries
from sfumato.error_facts import join_with_or
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.ledger import StoredAnswer, Tab
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.mechanisms.additive import MAX_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import BoundedPlan, bound_by_unit_weights, for_neighbours
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.dense_readings import MAX_CELLS, Marginals, MarginalView
from sfumato.privacy import Cost, Curve, Sensitivity, compose
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_number,
)
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.mwem import CandidateCounts, FitRound, MwemFit, MwemModel, MwemRound, NoisyCounts, initial_model
from sfumato.publish.published_files import FittedModel
from sfumato.publish.synopsis import cell_keys
from sfumato.publish.synthesis.candidates import BYTES_PER_CELL
from sfumato.publish.tab_steps import ChooseStep, MeasureStep
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.payers import purchase_terms
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, warn_of_weak_price
from sfumato.release.releasing import ReleaseStrategy, StoredResult
from sfumato.release.requests import RequestedSeries, repeated_receipt
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

T = TypeVar("T")
Sets = int | Sequence[Sequence[str]]
Query = Mapping[str, object]
"""A count: for each column one cell, or a list of cells, as a marginal prints them."""
Queries = Sequence[Query]

_ROW_COUNT_SHARE = Fraction(1, 20)
"""The share of the price that pays for the number of rows."""
_HELD_BACK = tuple(Fraction(digits) for digits in ("1e-9", "1e-6", "1e-4", "0.01", "0.05", "0.1", "0.2", "0.3", "0.5"))
"""The fractions of a price with δ or ρ held back, tried in turn: the exponential mechanism's curve is not Gaussian."""
_MAX_BITS, _MIN_BITS = 10, 4
_MAX_ROUNDS = 1000
_MIN_EPSILON_PER_ROUND = Fraction(1, 10**8)
_ROOT_PRECISION = 10**12


@dataclass(frozen=True)
class MwemSteps:
    """The steps at one price: the number of rows once, a choice and a measurement in each round."""

    row_count_step: MeasureStep[NoisyCounts]
    selection: Exponential
    noise: Additive
    sensitivity: Sensitivity
    """The sensitivity of what a round measures."""
    rounds: int

    @property
    def row_choice_and_measurement_curves(self) -> tuple[Curve, Curve, Curve]:
        """The privacy curve of each kind of step."""
        return self.row_count_step.batch.curve, self.selection.curve(), self.noise.curve(self.sensitivity)

    @property
    def curve(self) -> Curve:
        """The privacy curve of all steps together."""
        rows, choice, measured = self.row_choice_and_measurement_curves
        return compose([(rows, 1), (choice, self.rounds), (measured, self.rounds)])


@dataclass(frozen=True)
class MwemProposal(RehearseAlias, StoredProposal):
    """A proposal to fit a model; only ``release`` spends."""

    _context: Context = field(repr=False)
    _coded: MarginalsProposal = field(repr=False)
    workload: tuple[tuple[AttributeSet, tuple[int, ...] | None], ...]
    """The workload: the column indices of each marginal, and the cells that are counted as one; None for each cell by
    itself."""
    rounds: int
    textbook: bool = False
    """Whether single counts are measured."""
    update: str | None = None
    """The rule by which a measurement changes the model: "notes", or None for that of Hardt, Ligett & McSherry."""

    def __repr__(self) -> str:
        return f"<{self.question}: .explain() .error() .price() are free, .release() fits it>"

    @property
    def attributes(self) -> Attributes:
        return self._coded.attributes

    @property
    def columns(self) -> Columns:
        """The columns of the model's marginals with their types, and the count."""
        return self._coded.columns

    @property
    def cells(self) -> int:
        """The number of cells of the universe."""
        return math.prod(attribute.size for attribute in self.attributes)

    @cached_property
    def question(self) -> str:
        """The proposal in words, as stored in the ledger."""
        names = ", ".join(attribute.name for attribute in self.attributes)
        kind = "model by the notes' update" if self.update else "textbook model" if self.textbook else "model"
        sets = count_with_noun(len(self.workload), self._workload_noun)
        condition = f" where {self._coded.condition[:1000]}" if self._coded.condition else ""
        rounds = count_with_noun(self.rounds, "round")
        return f"{kind} of {self._coded.query.plan.table}{condition}: {sets} of {names[:4000]}, {rounds}"

    @property
    def _workload_noun(self) -> str:
        return "marginal" if self.workload[0][1] is None else "count"

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured."""
        parts = (self.workload, self.rounds, self.textbook, *((self.update,) if self.update else ()))
        return self._coded.plan_key.derive(lambda key: digest("mwem", key, *parts))

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, step by step. This is free."""
        price = Price(epsilon, delta, rho)
        steps, bounded = self._steps_for_price(price), self._reading(price).bounded
        step, confidence_level = bounded.measures[0].unit_value, exact(confidence, "confidence", CONFIDENCE)
        candidates_text = count_with_noun(
            len(self._candidates(price)), "count" if self.textbook else self._workload_noun
        )
        selection_error = steps.selection.error(len(self._candidates(price)), confidence_level, on_grid=True) * float(
            step
        )
        operators = (
            *explain_source(self._coded.query, self._context.policy),
            explain_limit(bounded),
            PlanStep(
                "model",
                f"{count_with_noun(self.cells, 'cell')} of {count_with_noun(len(self.attributes), 'column')}",
                "a weight each",
            ),
            PlanStep(
                "rows",
                steps.row_count_step.noise.words(step),
                f"±{self._half_width_text(steps.row_count_step.noise, step, confidence_level)}, once",
            ),
            PlanStep(
                "choose",
                f"one of {candidates_text}, {count_with_noun(self.rounds, 'time')}",
                f"at most {format_number(selection_error)} rows from the best",
            ),
            PlanStep(
                "measure",
                f"{steps.noise.words(step)}, {count_with_noun(self.rounds, 'time')}",
                f"±{self._half_width_text(steps.noise, step, confidence_level)} in each count",
            ),
        )
        reason = "every selection and every measurement is charged as a step of its own; fitting the model is free"
        notes = self._context.epsilon_total_warnings(None) if price.allows_gaussian else ()
        return Explanation(self.question, str(price), operators, reason, notes)

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Return the half-width of every count that a round measures, in rows.

        The model's error elsewhere depends on the data, and is not available for free.
        """
        price = Price(epsilon, delta, rho)
        step = self._reading(price).bounded.measures[0].unit_value
        return float(self._steps_for_price(price).noise.error(exact(confidence, "confidence", CONFIDENCE)) * step)

    def price(self, within: Number, *, delta: Number = 0, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε, at this δ, at which every measured count has at most this half-width. Free."""

        def error(epsilon: Fraction) -> float:
            return self.error(epsilon=epsilon, delta=delta, confidence=confidence)

        return least_epsilon(error, within)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> FittedModel:
        """Hold the price, spend it step by step, and return the model. The same ``request_id`` returns it again, free.

        Ctrl-C stops after the running step: the unspent rest is freed, and the model so far is returned. A second one
        within that step aborts it like any interrupted release, and the whole hold is spent.
        """
        price, context = Price(epsilon, delta, rho), self._context
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        series = RequestedSeries(context, self.question, self.plan_key, call)
        stored_answer = series.find_stored()
        if stored_answer is not None:
            return self._restore(stored_answer)
        steps = self._steps_for_price(price)
        releasing.dry_run(steps.row_count_step)
        warn_of_weak_price(price, context)
        context.engine.check(steps.row_count_step.readings[0]).close()
        with context.running_work.running():
            tab_or_stored = series.open(_amount_to_hold(context, steps))
            if isinstance(tab_or_stored, StoredAnswer):
                return self._restore(tab_or_stored)
            with tab_or_stored as tab:
                tab_series = TabSeries(context, "mwem", self.identity, tab, call)
                candidates = self._candidates(price)
                threshold = partial(self._update_threshold, steps, len(candidates))
                begin = self._initial_model if self.update is None else lambda n: self._initial_model(n, threshold(n))
                model = _MwemSeries(tab_series, self.question, steps, candidates, begin).charge_and_run()
                fitted = self._build_fitted(model, price, steps, tab)
                series.finish(tab, fitted)
        return fitted

    def _restore(self, stored_answer: StoredAnswer) -> FittedModel:
        """Return what the same request bought."""
        fitted = FittedModel.from_json(stored_answer.body)
        return replace(fitted, receipt=repeated_receipt(fitted.receipt, self._context))

    def preview(self, epsilon: Number | None = None, *, delta: Number = 0, rho: Number | None = None) -> FittedModel:
        """Return a model of this shape fitted to invented rows, from the policy alone. Free."""
        return preview_release(
            self, self._context, lambda proposal: proposal.release(epsilon=epsilon, delta=delta, rho=rho)
        )

    def _initial_model(self, rows: int, threshold: Fraction | None = None) -> MwemModel:
        shape = tuple(attribute.size for attribute in self.attributes)
        return initial_model(shape, rows, self.rounds, textbook=self.textbook, threshold=threshold)

    def _update_threshold(self, steps: MwemSteps, candidates: int, rows: int) -> Fraction:
        """Return 2α of the notes' update in steps, from public numbers: α is the largest of 2η·n̂ and of what bounds,
        with a confidence of 95 % over all rounds, every selection and every noise (``publish.mwem``).
        """
        confidence = 1 - Fraction(1, 20 * 2 * self.rounds)
        steepest = 2 * math.sqrt(math.log(self.cells) / self.rounds) * max(1, rows)
        errors = steps.selection.error(candidates, confidence), float(steps.noise.error(confidence))
        return Fraction(math.ceil(2 * max(steepest, *errors)))

    def _build_fitted(self, model: MwemModel, price: Price, steps: MwemSteps, tab: Tab) -> FittedModel:
        context, bounded = self._context, self._reading(price).bounded
        line = tab.opening
        opening = StoredResult(None, line.number, line.time, line.hash, free=False)
        step = bounded.measures[0].unit_value
        words = (steps.row_count_step.noise.words(step), steps.selection.words(), steps.noise.words(step))
        terms = purchase_terms([bounded], price, context.version)
        model_receipt = make_receipt(
            opening, terms, words, question=self.question, context=context, confidence=DEFAULT_CONFIDENCE
        )
        fit = MwemFit(
            self.attributes,
            self._coded.face,
            self._coded.query.plan.table,
            self._coded.condition,
            step,
            tuple(indices for indices, cells in self.workload if cells is None),
            model.measured,
            steps.row_count_step.noise,
            steps.selection,
            steps.noise,
            tuple(
                FitRound(measured_round.view.attribute_set, measured_round.view.cells, measured_round.values)
                for measured_round in model.rounds
            ),
            self.rounds,
            self.textbook,
            price,
            None if model.threshold is None else Fraction(model.threshold),
        )
        return FittedModel(fit, replace(model_receipt, confidence=""), model)

    def _half_width_text(self, noise: Additive, step: Fraction, confidence: Fraction) -> str:
        return format_number(float(noise.error(confidence) * step))

    # ── steps at a price ─────────────────────────────────────────────────────────────────

    def _candidates(self, price: Price) -> CandidateCounts:
        reading = self._reading(price)
        return CandidateCounts(
            tuple(MarginalView(reading, *requested) for requested in self.workload), single_cells=self.textbook
        )

    def _reading(self, price: Price) -> Marginals:
        codes = tuple(column.codes for column in self._coded.coded_columns)
        return Marginals(self._bounded_plan(self._weight_bits(price)), codes, (tuple(range(len(codes))),))

    def _bounded_plan(self, bits: int) -> BoundedPlan:
        bounded = bound_by_unit_weights(self._coded.query.plan, self._coded.limits, self.cells, bits)
        return for_neighbours(bounded, self._context.policy.neighbours)

    def _weight_bits(self, price: Price) -> int:
        """Return the bits of row weights, multiples of 2^-bits: fewer where the noise would be too large to draw
        exactly.
        """
        coarse = self._bounded_plan(0)
        if coarse.strategy is Strategy.WHOLE:
            return 0
        max_bits = min(_MAX_BITS, self._bounded_plan(_MAX_BITS).measures[0].bits)
        spent = min(Fraction(1), price_in_rho(price) if price.allows_gaussian else price.epsilon or Fraction(1))
        rows = (
            coarse.measures[0].add_remove_sensitivity.total * (20 + 8 * self.rounds) / spent
        )  # above any scale or deviation
        bits = min(max_bits, math.floor(math.log2(MAX_STEPS / rows)))
        if bits < _MIN_BITS:
            raise Unsupported(
                "too-much-noise",
                "at this price, this many rounds need more noise than can be drawn exactly",
                fix="give a higher price, fewer rounds, or count fewer rows per unit with rows=1",
            )
        return bits

    def _steps_for_price(self, price: Price) -> MwemSteps:
        """Split the price: a share for the number of rows, the rest evenly over rounds, half of it for selections."""
        if self.update and price.allows_gaussian:
            rule = "left out at a price with δ or in ρ, because this update uses Laplace noise"
            raise InvalidParameter("update", self.update, rule, fix="leave out update, or give epsilon alone")
        if not price.allows_gaussian:
            assert price.epsilon is not None
            if price.epsilon < self.rounds * _MIN_EPSILON_PER_ROUND:
                raise InvalidParameter(
                    "epsilon",
                    price.epsilon,
                    "at least 1e-8 for each round",
                    fix="give a larger epsilon, or fewer rounds",
                )
            return self._steps_for_epsilon(price, price.epsilon)
        rho = price_in_rho(price)
        for held_back in _HELD_BACK:
            steps = self._steps_for_rho(price, rho * (1 - held_back))
            if price.is_satisfied_by(steps.curve):
                return steps
        raise InvalidParameter(
            "price",
            str(price),
            "higher, because it is too low for this many rounds",
            fix="give a higher price, or fewer rounds",
        )

    def _steps_for_epsilon(self, price: Price, epsilon: Fraction) -> MwemSteps:
        """Split ε over the steps, each rounded to fifteen decimals; the count of rows gets the rest, so that all sum to
        ε.

        The ledger rounds each charge up.
        """
        step_epsilon = Fraction(math.floor(epsilon * (1 - _ROW_COUNT_SHARE) / (2 * self.rounds) * 10**15), 10**15)
        all_rows, sensitivity = MarginalView(self._reading(price), ()), self._max_candidate_sensitivity(price)
        noise = Laplace(all_rows.sensitivity.total / (epsilon - 2 * self.rounds * step_epsilon))
        rows = MeasureStep(all_rows, noise, NoisyCounts.from_integers)
        return MwemSteps(
            rows,
            self._selection_mechanism(price, step_epsilon),
            Laplace(sensitivity.total / step_epsilon),
            sensitivity,
            self.rounds,
        )

    def _steps_for_rho(self, price: Price, rho: Fraction) -> MwemSteps:
        """Split ρ: noise of deviation σ costs Δ₂²/2σ², and a selection of bounded range ε costs ε²/8."""
        step_rho = rho * (1 - _ROW_COUNT_SHARE) / (2 * self.rounds)
        all_rows, sensitivity = MarginalView(self._reading(price), ()), self._max_candidate_sensitivity(price)
        noise = Gaussian(_square_root_rounded_up(all_rows.sensitivity.squares / (2 * rho * _ROW_COUNT_SHARE)))
        rows = MeasureStep(all_rows, noise, NoisyCounts.from_integers)
        choice = self._selection_mechanism(price, 1 / _square_root_rounded_up(1 / (8 * step_rho)))
        return MwemSteps(
            rows,
            choice,
            Gaussian(_square_root_rounded_up(sensitivity.squares / (2 * step_rho))),
            sensitivity,
            self.rounds,
        )

    def _selection_mechanism(self, price: Price, epsilon: Fraction) -> Exponential:
        """Return the exponential mechanism over integer scores, whose grid is one step."""
        scores = self._candidates(price).scores(lambda view: np.zeros(view.size, np.int64))
        return Exponential(epsilon, scores.sensitivity, neighbours=scores.neighbours, grid=1)

    def _max_candidate_sensitivity(self, price: Price) -> Sensitivity:
        views = (replace(view, cells=(0,)) if self.textbook else view for view in self._candidates(price).views)
        return max((view.sensitivity for view in views), key=lambda sensitivity: sensitivity.total)


@dataclass
class _MwemSeries:
    """Runs the steps on a tab, one after the other."""

    tab_series: TabSeries
    question: str
    steps: MwemSteps
    candidates: CandidateCounts
    begin: Callable[[int], MwemModel]

    def charge_and_run(self) -> MwemModel:
        """Run all rounds.

        Ctrl-C between steps stops there and frees the unspent rest: every step was complete, so stopping reveals
        nothing beyond what was released.
        """
        model = None
        try:
            (rows,) = self._release_step(self.steps.row_count_step, "the number of rows").values
            model = self.begin(rows)
            for _ in range(self.steps.rounds):
                model = model.updated(self._run_round(model))
        except KeyboardInterrupt:
            self.tab_series.tab.stop()
            if model is None:
                raise
        return model

    def _run_round(self, model: MwemModel) -> MwemRound:
        scores = self.candidates.scores(model.predicted_counts)
        selected = self._release_step(ChooseStep(scores, self.steps.selection), "a choice")
        view = self.candidates.view(selected.index)
        return MwemRound(
            view,
            self._release_step(MeasureStep(view, self.steps.noise, NoisyCounts.from_integers), "a measurement").values,
        )

    def _release_step(self, strategy: ReleaseStrategy[T], step_name: str) -> T:
        tab_series = self.tab_series
        tab_series.raise_if_pending()
        limit = tab_series.call.time_limit(tab_series.context.seconds)
        return tab_series.release_step(strategy, f"{step_name} for the {self.question}", limit)


def _amount_to_hold(context: Context, steps: MwemSteps) -> Cost:
    """Return the cost of all steps, added up as they are charged, so that nothing is left over after the last."""
    rows, choice, measurement = map(context.account.cost, steps.row_choice_and_measurement_curves)
    total_cost = rows
    for _ in range(steps.rounds):
        total_cost = total_cost + choice + measurement
    return total_cost


def _square_root_rounded_up(value: Fraction) -> Fraction:
    """Return the square root, rounded up to twelve decimals."""
    return Fraction(math.isqrt(math.ceil(value * _ROOT_PRECISION**2)) + 1, _ROOT_PRECISION)


# ── parsing the request ──────────────────────────────────────────────────────────────────────────


def propose_mwem(
    context: Context,
    catalog: Catalog,
    table: str,
    columns: Sequence[str] | None,
    ways: Sets | None,
    rounds: int,
    *,
    queries: Queries | None = None,
    textbook: bool = False,
    update: str | None = None,
    where: str | None = None,
    rows: int | None = None,
) -> MwemProposal:
    """Propose to fit a model; refuse here, before any charge, what cannot be fitted."""
    context.require_one_account("a model")
    coded = propose_marginals(context, catalog, table, 1, columns=columns, where=where, rows=rows)
    cells = math.prod(attribute.size for attribute in coded.attributes)
    if cells > MAX_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"a model can have at most {MAX_CELLS:,} cells; these columns have {cells:,} together",
            fix="name fewer columns, or use coarser bins",
        )
    if exact_integer(rounds, "rounds", at_least=1) > _MAX_ROUNDS:
        raise InvalidParameter("rounds", rounds, f"a whole number from 1 to {_MAX_ROUNDS:,}")
    if type(textbook) is not bool:
        raise InvalidParameter("textbook", textbook, "True or False")
    if (ways is None) == (queries is None):
        raise InvalidParameter(
            "queries",
            queries,
            "given if ways is left out" if queries is None else "left out if ways is given",
            fix='write ways=2, or counts such as queries=[{"sex": "f"}]' if queries is None else "",
        )
    names = [attribute.name for attribute in coded.attributes]
    sets = () if ways is None else tuple((indices, None) for indices in parse_column_sets(ways, names))
    workload = sets if queries is None else _parse_queries(queries, coded.attributes)
    if update is not None:
        _require_valid_update(update, rounds, cells, textbook=textbook)
    return MwemProposal(context, coded, workload, rounds, textbook or update is not None, update)


def _require_valid_update(update: str, rounds: int, cells: int, *, textbook: bool) -> None:
    """Refuse what the theorem of the notes' update does not cover."""
    if update != "notes":
        raise InvalidParameter("update", update, "'notes', or left out", fix="leave out update")
    if textbook:
        raise InvalidParameter(
            "textbook",
            textbook,
            "left out with update='notes', which always measures single counts",
            fix="leave out textbook or update",
        )
    least_rounds = max(1, math.ceil(4 * math.log(cells)))
    if rounds < least_rounds:
        rule = f"at least {least_rounds} for a table of {cells:,} cells (4·ln {cells:,}, rounded up)"
        raise InvalidParameter("rounds", rounds, rule, fix=f"write rounds={least_rounds}")


def _parse_queries(queries: Queries, attributes: Attributes) -> tuple[tuple[AttributeSet, tuple[int, ...]], ...]:
    """Parse queries into cells: a query counts the cells whose columns all have one of its values."""
    is_list = isinstance(queries, Sequence) and not isinstance(queries, (str, bytes)) and bool(queries)
    if not is_list or not all(isinstance(query, Mapping) and query for query in queries):
        rule = 'a list of counts such as [{"sex": "f", "age": ["0 to below 18", None]}]'
        raise InvalidParameter("queries", queries, rule)
    parsed = tuple(_parse_query_columns_and_cells(query, attributes) for query in queries)
    if len({*parsed}) != len(parsed):
        fix = "remove the count that is listed twice"
        raise InvalidParameter("queries", ValueWords("the same count twice"), "a list of different counts", fix=fix)
    return parsed


def _parse_query_columns_and_cells(query: Query, attributes: Attributes) -> tuple[AttributeSet, tuple[int, ...]]:
    index_of_name = {attribute.name.lower(): index for index, attribute in enumerate(attributes)}
    cells_by_index = {index_of_name.get(str(name).lower(), -1): cells for name, cells in query.items()}
    if -1 in cells_by_index or len(cells_by_index) != len(query):
        raise InvalidParameter(
            "queries",
            query,
            "counts of values of these columns, each column once: "
            f"{', '.join(attribute.name for attribute in attributes)}",
            fix=f'name only these columns, as in {{"{attributes[0].name}": …}}',
        )
    indices = tuple(sorted(cells_by_index))
    cell_lists = [_parse_cell_indices(cells_by_index[index], attributes[index]) for index in indices]
    flat_cells = np.ravel_multi_index(np.ix_(*cell_lists), tuple(attributes[index].size for index in indices))
    return indices, tuple(flat_cells.ravel().tolist())


def _parse_cell_indices(cells: object, attribute: Attribute) -> list[int]:
    """Parse cells as a marginal prints them; None is the cell of missing or undeclared values."""
    labels = {key: index for index, (key,) in enumerate(cell_keys([attribute]))}
    requested = cells if isinstance(cells, (list, tuple)) else [cells]
    if not requested or not all(isinstance(label, Hashable) and label in labels for label in requested):
        examples = join_with_or([repr(label) if isinstance(label, str) else str(label) for label in list(labels)[:20]])
        raise InvalidParameter(
            "queries",
            cells,
            f"declared values or bins of {attribute.name!r}",
            fix=f"for example, write {examples}",
        )
    return sorted({labels[label] for label in requested})


_ONE_WAY = "1, because there is only one column"


def parse_column_sets(ways: Sets, names: Sequence[str]) -> tuple[AttributeSet, ...]:
    """Parse the marginals to select from: all sets of ``ways`` columns, or these sets."""
    if type(ways) is int:
        if not 1 <= ways <= len(names):
            rule = f"a whole number between 1 and {len(names)}, the number of columns" if len(names) > 1 else _ONE_WAY
            raise InvalidParameter("ways", ways, rule, fix="" if len(names) > 1 else "write ways=1")
        return tuple(itertools.combinations(range(len(names)), ways))
    if isinstance(ways, (str, bytes)) or not isinstance(ways, Sequence) or not ways:
        raise InvalidParameter("ways", ways, 'a number such as 2, or sets of columns such as [["sex", "age"]]')
    index_of_name = {name.lower(): index for index, name in enumerate(names)}
    sets = []
    for column_set in ways:
        is_list = isinstance(column_set, Sequence) and not isinstance(column_set, (str, bytes)) and bool(column_set)
        indices = [index_of_name.get(str(name).lower(), -1) for name in column_set] if is_list else [-1]
        if -1 in indices:
            fix = f"write for example ways={[list(names[:2])]}"
            raise InvalidParameter("ways", column_set, f"a list of sets of these columns: {', '.join(names)}", fix=fix)
        if len({*indices}) != len(indices):
            raise InvalidParameter("ways", column_set, "a list of sets, each of which names a column only once")
        sets.append(tuple(sorted(indices)))
    if len({*sets}) != len(sets):
        raise InvalidParameter(
            "ways", ways, "a list of different sets of columns", fix="remove the set that is listed twice"
        )
    return tuple(sets)


ColumnWeights = Mapping[str | tuple[str, ...], Number]
"""Weights of columns, or of sets of columns in the workload; 1 for all others."""
_MAX_SETS = 200_000


def fitting_sets_and_dropped_count(
    ways: Sets, names: Sequence[str], sizes: Sequence[int], most_cells: int
) -> tuple[list[AttributeSet], int]:
    """Parse the workload of a synthetic table, and count the sets that were dropped.

    Named sets are all required; of the sets of ``ways`` columns, those with too many cells are dropped.
    """
    if type(ways) is int and 1 <= ways <= len(names) and (count := math.comb(len(names), ways)) > _MAX_SETS:
        rule = (
            f"lower, because {len(names)} columns give {count:,} sets of {ways}, and at most {_MAX_SETS:,} are allowed"
        )
        raise InvalidParameter("ways", ways, rule, fix='lower ways, or list the sets, as in ways=[["sex", "age"]]')
    sets = parse_column_sets(min(ways, len(names)) if type(ways) is int else ways, names)
    max_cells = sum(sizes) + most_cells
    cells = {indices: math.prod(sizes[index] for index in indices) for indices in sets}
    fitting = [indices for indices in sets if cells[indices] <= max_cells or len(indices) == 1]
    if len(fitting) == len(sets) or (type(ways) is int and fitting):
        return fitting, len(sets) - len(fitting)
    largest = max(sets, key=lambda indices: cells[indices])
    largest_names = ", ".join(names[index] for index in largest)
    needed_mib = -(-cells[largest] * BYTES_PER_CELL // (1 << 20))
    raise Unsupported(
        "too-many-cells",
        f"a model can have at most {max_cells:,} cells in this memory; {largest_names} have {cells[largest]:,} "
        "together",
        fix=f'write memory="{needed_mib:,} MiB"'.replace(",", "") + ", use coarser bins, or leave out this set",
    )


def product_weight_of_set(column_indices: AttributeSet, names: Sequence[str], weights: ColumnWeights) -> Fraction:
    """Return the product of the weights of a set's columns and of the set itself."""
    column_names = {names[index].lower() for index in column_indices}
    product = Fraction(1)
    for key, weight in weights.items():
        if _lowercase_names_or_empty(key) == column_names if not isinstance(key, str) else key.lower() in column_names:
            product *= exact(weight, "weights", POSITIVE)
    return product


def require_valid_weights(weights: ColumnWeights, names: Sequence[str], sets: Sequence[AttributeSet]) -> None:
    if not isinstance(weights, Mapping):
        raise InvalidParameter("weights", weights, 'a mapping from columns to numbers, such as {"income": 3}')
    column_names = {name.lower() for name in names}
    workload_names = [{names[index].lower() for index in indices} for indices in sets]
    for key, weight in weights.items():
        exact(weight, "weights", POSITIVE)
        is_known = (
            key.lower() in column_names if isinstance(key, str) else _lowercase_names_or_empty(key) in workload_names
        )
        if not is_known:
            rule = f"a mapping whose keys are columns ({', '.join(names)}) or sets of columns of the workload"
            raise InvalidParameter("weights", key, rule, fix="remove this key, or correct it")


def _lowercase_names_or_empty(names: object) -> set[str]:
    return {str(name).lower() for name in names} if isinstance(names, (tuple, list, frozenset)) else set()
