"""A model of a table is a proposal: MWEM chooses and measures what the model gets most wrong, at one price.

The price is held by a tab. The noisy number of rows is its first step, and each choice and each measurement is a step
of its own, a complete release that is charged before it reads (``publish.mwem``).

The sets of columns that a synthetic table's model is to have right, and how much each of them counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, Operator, limited, sources
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.marginals import MarginalsProposal, marginals, rho_of
from sfumato.curator.steps_on_tabs import StepsOnTab
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.ledger import StoredAnswer, Tab
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.mechanisms.additive import MOST_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import BoundedPlan, for_neighbours, weighted_bounding
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.dense_readings import MOST_CELLS, Counted, Marginals
from sfumato.plan.words import many
from sfumato.privacy import Cost, Curve, Sensitivity, compose
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, shown, whole
from sfumato.publish.fits import Fit, FitRound
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.mwem import CandidateCounts, Model, MwemRound, NoisyCounts
from sfumato.publish.published_files import FittedModel
from sfumato.publish.synopsis import cell_keys
from sfumato.publish.synthesis.candidates import BYTES_PER_CELL
from sfumato.publish.tab_steps import ChooseStep, MeasureStep
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.payers import purchase
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import ReleaseCall, receipt, warn
from sfumato.release.releasing import Progress, ReleaseStrategy, StoredResult
from sfumato.release.requests import RequestedSeries, given_again

T = TypeVar("T")
Sets = int | Sequence[Sequence[str]]
Query = Mapping[str, object]
"""The cells of each column, one or a list of them, as a marginal prints them; all rows that are in them count."""
Queries = Sequence[Query]

_FOR_ROWS = Fraction(1, 20)
"""The share of the price that pays for the number of rows."""
_TRIMS = tuple(Fraction(each) for each in ("1e-9", "1e-6", "1e-4", "0.01", "0.05", "0.1", "0.2", "0.3", "0.5"))
"""How much less than a price with δ or ρ is spent, at first: a choice does not leak quite as Gaussian noise does."""
_MOST_BITS, _LEAST_BITS = 10, 4
_MOST_ROUNDS = 1000
_LEAST_STEP = Fraction(1, 10**8)
_DIGITS = 10**12


@dataclass(frozen=True)
class MwemSteps:
    """The steps at one price: the number of rows once, a choice and a measurement in each round."""

    rows: MeasureStep[NoisyCounts]
    choice: Exponential
    noise: Additive
    measured: Sensitivity
    """What one unit moves in what is measured, at most."""
    rounds: int

    @property
    def curves(self) -> tuple[Curve, Curve, Curve]:
        """Return what each kind of step leaks."""
        return self.rows.batch.curve, self.choice.curve(), self.noise.curve(self.measured)

    @property
    def curve(self) -> Curve:
        """Return what all steps leak together."""
        rows, choice, measured = self.curves
        return compose([(rows, 1), (choice, self.rounds), (measured, self.rounds)])


@dataclass(frozen=True)
class MwemProposal:
    """A proposal: only ``release`` spends."""

    _context: Context = field(repr=False)
    _coded: MarginalsProposal = field(repr=False)
    asked: tuple[tuple[Set, tuple[int, ...] | None], ...]
    """What the model is to have right: the places of the columns of each marginal, and of the cells that are counted as
    one; None for each cell by itself."""
    rounds: int
    textbook: bool = False

    def __repr__(self) -> str:
        return f"<{self.question}: .explain() .error() .price() are free, .release() fits it>"

    @property
    def attributes(self) -> Attributes:
        return self._coded.attributes

    @property
    def columns(self) -> Columns:
        """List the columns of the model's marginals, with their types: those that cells are of, and the count."""
        return self._coded.columns

    @property
    def cells(self) -> int:
        """Count the cells of the universe."""
        return math.prod(attribute.size for attribute in self.attributes)

    @cached_property
    def question(self) -> str:
        """Describe what is asked, as the ledger keeps it."""
        names = ", ".join(attribute.name for attribute in self.attributes)
        kind = "textbook model" if self.textbook else "model"
        sets = many(len(self.asked), self._called)
        held = f" where {self._coded.condition[:1000]}" if self._coded.condition else ""
        return f"{kind} of {self._coded.query.plan.table}{held}: {sets} of {names[:4000]}, {many(self.rounds, 'round')}"

    @property
    def _called(self) -> str:
        return "marginal" if self.asked[0][1] is None else "count"

    @property
    def identity(self) -> str:
        """Return the hash of what is measured."""
        return digest("mwem", self._coded.identity, self.asked, self.rounds, self.textbook)

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> Explanation:
        """Describe what is done at this price, step by step. This is free."""
        price = Price(epsilon, delta, rho)
        steps, bounded = self._steps(price), self._reading(price).bounded
        step, sure = bounded.measures[0].unit_value, exact(confidence, "confidence", CONFIDENCE)
        among = many(len(self._candidates(price)), "count" if self.textbook else self._called)
        lost = steps.choice.error(len(self._candidates(price)), sure, on_grid=True) * float(step)
        operators = (
            *sources(self._coded.query, self._context.policy),
            limited(bounded),
            Operator("model", f"{many(self.cells, 'cell')} of {many(len(self.attributes), 'column')}", "a weight each"),
            Operator("rows", steps.rows.noise.words(step), f"±{self._wide(steps.rows.noise, step, sure)}, once"),
            Operator("choose", f"one of {among}, {many(self.rounds, 'time')}", f"misses at most {shown(lost)} rows"),
            Operator(
                "measure",
                f"{steps.noise.words(step)}, {many(self.rounds, 'time')}",
                f"±{self._wide(steps.noise, step, sure)} in each count",
            ),
        )
        reason = "every choice and every measurement is a step that is charged by itself; the model costs nothing more"
        said = self._context.closing(None) if price.allows_gaussian else ()
        return Explanation(self.question, str(price), operators, reason, said)

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> float:
        """Return the half-width of every count that a round measures, in rows.

        The model's error elsewhere depends on the data, and is not available for free.
        """
        price = Price(epsilon, delta, rho)
        step = self._reading(price).bounded.measures[0].unit_value
        return float(self._steps(price).noise.error(exact(confidence, "confidence", CONFIDENCE)) * step)

    def price(self, within: Number, *, delta: Number = 0, confidence: Number = "0.95") -> float:
        """Find the least ε, beside this δ, at which every count that a round measures is within this. Free."""

        def error(epsilon: Fraction) -> float:
            return self.error(epsilon=epsilon, delta=delta, confidence=confidence)

        return least_epsilon(error, within)

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> FittedModel:
        """Hold the price, spend it step by step, and give the model; the same ``request_id`` gives it again, for
        nothing.

        Ctrl-C ends it after the step that runs: what is unspent is free again, and the model so far is given. A second
        one within that step is refused like any release that was interrupted, and all that was held is spent.
        """
        price, here = Price(epsilon, delta, rho), self._context
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        asked = RequestedSeries(here, self.question, self.identity, call)
        known = asked.known()
        if known is not None:
            return self._again(known)
        steps = self._steps(price)
        releasing.rehearse(steps.rows)
        warn(price, here)
        here.engine.check(steps.rows.readings[0]).close()
        with here.work.one():
            opened = asked.open(_hold(here, steps))
            if isinstance(opened, StoredAnswer):
                return self._again(opened)
            with opened as tab:
                on_tab = StepsOnTab(here, "mwem", self.identity, tab, call)
                model = _MwemSeries(on_tab, self.question, steps, self._candidates(price), self._begin).run()
                made = self._fitted(model, price, steps, tab)
                asked.finish(tab, made)
        return made

    def _again(self, found: StoredAnswer) -> FittedModel:
        """Return what the same request bought."""
        bought = FittedModel.from_json(found.body)
        return replace(bought, receipt=given_again(bought.receipt, self._context))

    def rehearse(self, *, epsilon: Number | None = None, delta: Number = 0, rho: Number | None = None) -> FittedModel:
        """Return a model of this shape, fitted to invented rows: from the policy alone, and free."""
        return rehearsed(self, self._context, lambda there: there.release(epsilon=epsilon, delta=delta, rho=rho))

    def _begin(self, rows: int) -> Model:
        shape = tuple(attribute.size for attribute in self.attributes)
        return Model.uniform(shape, rows, self.rounds, textbook=self.textbook)

    def _fitted(self, model: Model, price: Price, steps: MwemSteps, tab: Tab) -> FittedModel:
        here, bounded = self._context, self._reading(price).bounded
        line = tab.opening
        opened = StoredResult(None, line.number, line.time, line.hash, free=False)
        step = bounded.measures[0].unit_value
        words = (steps.rows.noise.words(step), steps.choice.words(), steps.noise.words(step))
        terms = purchase([bounded], price, here.version)
        told = receipt(opened, terms, words, question=self.question, here=here, confidence="0.95")
        fit = Fit(
            self.attributes,
            self._coded.face,
            self._coded.query.plan.table,
            self._coded.condition,
            step,
            tuple(places for places, cells in self.asked if cells is None),
            model.measured,
            steps.rows.noise,
            steps.choice,
            steps.noise,
            tuple(FitRound(round.view.places, round.view.cells, round.values) for round in model.rounds),
            self.rounds,
            self.textbook,
            price,
        )
        return FittedModel(fit, replace(told, confidence=""), model)

    def _wide(self, noise: Additive, step: Fraction, confidence: Fraction) -> str:
        return shown(float(noise.error(confidence) * step))

    # ── what is run at a price ─────────────────────────────────────────────────────────────────

    def _candidates(self, price: Price) -> CandidateCounts:
        reading = self._reading(price)
        return CandidateCounts(tuple(Counted(reading, *each) for each in self.asked), each=self.textbook)

    def _reading(self, price: Price) -> Marginals:
        codes = tuple(each.codes for each in self._coded.coded)
        return Marginals(self._bounded(self._bits(price)), codes, (tuple(range(len(codes))),))

    def _bounded(self, bits: int) -> BoundedPlan:
        found = weighted_bounding(self._coded.query.plan, self._coded.limits, self.cells, bits)
        return for_neighbours(found, self._context.policy.neighbours)

    def _bits(self, price: Price) -> int:
        """Weights of rows are multiples of 2^-bits: fewer bits where the noise would be too large to draw exactly."""
        coarse = self._bounded(0)
        if coarse.strategy is Strategy.WHOLE:
            return 0
        most = min(_MOST_BITS, self._bounded(_MOST_BITS).measures[0].bits)
        spent = min(Fraction(1), rho_of(price) if price.allows_gaussian else price.epsilon or Fraction(1))
        rows = coarse.measures[0].added.total * (20 + 8 * self.rounds) / spent  # more than any scale or deviation
        found = min(most, math.floor(math.log2(MOST_STEPS / rows)))
        if found < _LEAST_BITS:
            raise Unsupported(
                "too-much-noise",
                "noise is drawn exactly up to 1e12 steps, and so many rounds need more at this price",
                fix="give more, run fewer rounds, or let fewer rows of a unit count with rows=",
            )
        return found

    def _steps(self, price: Price) -> MwemSteps:
        """Split the price: a share for the number of rows, the rest evenly over rounds, half of each for its choice."""
        if not price.allows_gaussian:
            assert price.epsilon is not None
            if price.epsilon < self.rounds * _LEAST_STEP:
                raise InvalidParameter("epsilon", price.epsilon, "at least 1e-8 for each round", fix="run fewer rounds")
            return self._pure(price, price.epsilon)
        most = rho_of(price)
        for trim in _TRIMS:
            found = self._concentrated(price, most * (1 - trim))
            if price.kept_by(found.curve):
                return found
        raise InvalidParameter("price", str(price), "one that so many steps can keep", fix="run fewer rounds")

    def _pure(self, price: Price, epsilon: Fraction) -> MwemSteps:
        """Split ε over the steps in prices of fifteen decimals; the count of rows gets the rest, so that all sum to ε.

        The ledger rounds each charge up.
        """
        each = Fraction(math.floor(epsilon * (1 - _FOR_ROWS) / (2 * self.rounds) * 10**15), 10**15)
        all_rows, measured = Counted(self._reading(price), ()), self._measured(price)
        noise = Laplace(all_rows.sensitivity.total / (epsilon - 2 * self.rounds * each))
        rows = MeasureStep(all_rows, noise, NoisyCounts.of)
        return MwemSteps(rows, self._choice(price, each), Laplace(measured.total / each), measured, self.rounds)

    def _concentrated(self, price: Price, rho: Fraction) -> MwemSteps:
        """Split ρ: noise of deviation σ costs Δ₂²/2σ², and a choice of bounded range ε costs ε²/8."""
        each = rho * (1 - _FOR_ROWS) / (2 * self.rounds)
        all_rows, measured = Counted(self._reading(price), ()), self._measured(price)
        noise = Gaussian(_root_above(all_rows.sensitivity.squares / (2 * rho * _FOR_ROWS)))
        rows = MeasureStep(all_rows, noise, NoisyCounts.of)
        choice = self._choice(price, 1 / _root_above(1 / (8 * each)))
        return MwemSteps(rows, choice, Gaussian(_root_above(measured.squares / (2 * each))), measured, self.rounds)

    def _choice(self, price: Price, epsilon: Fraction) -> Exponential:
        """Choose by whole scores: their grid is one step, whatever they are."""
        scores = self._candidates(price).scores(lambda view: np.zeros(view.size, np.int64))
        return Exponential(epsilon, scores.moved, neighbours=scores.neighbours, grid=1)

    def _measured(self, price: Price) -> Sensitivity:
        views = (replace(view, cells=(0,)) if self.textbook else view for view in self._candidates(price).views)
        return max((view.sensitivity for view in views), key=lambda each: each.total)


@dataclass
class _MwemSeries:
    """This runs the steps on a tab, one after the other."""

    on_tab: StepsOnTab
    question: str
    steps: MwemSteps
    candidates: CandidateCounts
    begin: Callable[[int], Model]

    def run(self) -> Model:
        """Run all rounds. Ctrl-C between steps ends them there, and frees what is unspent: every step was complete, and
        whoever stops knows no more than what was released.
        """
        model = None
        try:
            (rows,) = self._released(self.steps.rows, "the number of rows").values
            model = self.begin(rows)
            for _ in range(self.steps.rounds):
                model = model.updated(self._round(model))
        except KeyboardInterrupt:
            self.on_tab.tab.stop()
            if model is None:
                raise
        return model

    def _round(self, model: Model) -> MwemRound:
        scores = self.candidates.scores(model.predicted)
        chosen = self._released(ChooseStep(scores, self.steps.choice), "a choice")
        view = self.candidates.view(chosen.place)
        return MwemRound(
            view, self._released(MeasureStep(view, self.steps.noise, NoisyCounts.of), "a measurement").values
        )

    def _released(self, kind: ReleaseStrategy[T], what: str) -> T:
        own = self.on_tab
        own.between()
        limit = own.call.limit(own.here.seconds)
        return own.released(kind, f"{what} for the {self.question}", limit)


def _hold(here: Context, steps: MwemSteps) -> Cost:
    """Hold what all steps cost, added up as they are charged: nothing is left over after the last."""
    rows, choice, measured = map(here.account.cost, steps.curves)
    found = rows
    for _ in range(steps.rounds):
        found = found + choice + measured
    return found


def _root_above(value: Fraction) -> Fraction:
    """Return the root, rounded up to twelve decimals."""
    return Fraction(math.isqrt(math.ceil(value * _DIGITS**2)) + 1, _DIGITS)


# ── what is asked for ──────────────────────────────────────────────────────────────────────────


def mwem(
    context: Context,
    catalog: Catalog,
    table: str,
    columns: Sequence[str] | None,
    ways: Sets | None,
    rounds: int,
    *,
    queries: Queries | None = None,
    textbook: bool = False,
    where: str | None = None,
    rows: int | None = None,
) -> MwemProposal:
    """Propose to fit a model; what cannot be fitted is refused here, before anything is spent."""
    context.require_one_account("a model")
    coded = marginals(context, catalog, table, 1, columns=columns, where=where, rows=rows)
    cells = math.prod(attribute.size for attribute in coded.attributes)
    if cells > MOST_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"a model has a weight for each of at most {MOST_CELLS:,} cells; these columns have {cells:,} together",
            fix="name fewer columns, or take coarser bins",
        )
    if whole(rounds, "rounds", at_least=1) > _MOST_ROUNDS:
        raise InvalidParameter("rounds", rounds, f"a whole number from 1 to {_MOST_ROUNDS:,}")
    if type(textbook) is not bool:
        raise InvalidParameter("textbook", textbook, "True or False")
    if (ways is None) == (queries is None):
        raise InvalidParameter("queries", queries, "given, or ways instead of them", fix="write ways=2")
    names = [attribute.name for attribute in coded.attributes]
    sets = () if ways is None else tuple((each, None) for each in sets_of(ways, names))
    asked = sets if queries is None else _queries(queries, coded.attributes)
    return MwemProposal(context, coded, asked, rounds, textbook)


def _queries(queries: Queries, attributes: Attributes) -> tuple[tuple[Set, tuple[int, ...]], ...]:
    """Find the cells that each query counts: those whose columns all have one of the values it names."""
    listed = isinstance(queries, Sequence) and not isinstance(queries, (str, bytes)) and bool(queries)
    if not listed or not all(isinstance(query, Mapping) and query for query in queries):
        rule = 'a list of counts such as [{"sex": "f", "age": ["0 to below 18", None]}]'
        raise InvalidParameter("queries", queries, rule)
    found = tuple(_query(query, attributes) for query in queries)
    if len({*found}) != len(found):
        raise InvalidParameter("queries", len(queries), "counts of which none stands twice")
    return found


def _query(query: Query, attributes: Attributes) -> tuple[Set, tuple[int, ...]]:
    known = {each.name.lower(): place for place, each in enumerate(attributes)}
    named = {known.get(str(name).lower(), -1): cells for name, cells in query.items()}
    if -1 in named or len(named) != len(query):
        raise InvalidParameter(
            "queries", query, f"different columns among {', '.join(each.name for each in attributes)}"
        )
    places = tuple(sorted(named))
    kept = [_cells(named[place], attributes[place]) for place in places]
    flat = np.ravel_multi_index(np.ix_(*kept), tuple(attributes[place].size for place in places))
    return places, tuple(flat.ravel().tolist())


def _cells(cells: object, attribute: Attribute) -> list[int]:
    """Find cells by what a marginal prints for them; None is that of what is missing or not listed."""
    labels = {key: place for place, (key,) in enumerate(cell_keys([attribute]))}
    wanted = cells if isinstance(cells, (list, tuple)) else [cells]
    if not wanted or not all(isinstance(each, Hashable) and each in labels for each in wanted):
        known = ", ".join(str(label) for label in list(labels)[:20])
        raise InvalidParameter("queries", cells, f"cells of {attribute.name} as a marginal prints them: {known}")
    return sorted({labels[each] for each in wanted})


def sets_of(ways: Sets, names: Sequence[str]) -> tuple[Set, ...]:
    """Find the marginals whose counts are chosen from."""
    if type(ways) is int:
        if not 1 <= ways <= len(names):
            raise InvalidParameter("ways", ways, f"a whole number between 1 and {len(names)}, the number of columns")
        return tuple(itertools.combinations(range(len(names)), ways))
    if isinstance(ways, (str, bytes)) or not isinstance(ways, Sequence) or not ways:
        raise InvalidParameter("ways", ways, 'a number such as 2, or sets of columns such as [["sex", "age"]]')
    known = {name.lower(): place for place, name in enumerate(names)}
    found = []
    for each in ways:
        listed = isinstance(each, Sequence) and not isinstance(each, (str, bytes)) and bool(each)
        places = [known.get(str(name).lower(), -1) for name in each] if listed else [-1]
        if -1 in places or len({*places}) != len(places):
            raise InvalidParameter("ways", each, f"sets of different columns among {', '.join(names)}")
        found.append(tuple(sorted(places)))
    if len({*found}) != len(found):
        raise InvalidParameter("ways", ways, "sets of columns of which none stands twice")
    return tuple(found)


ColumnWeights = Mapping[str | tuple[str, ...], Number]
"""How much columns, or sets of columns of the workload, count; 1 for all others."""
_MOST_SETS = 200_000


def workload_sets(ways: Sets, names: Sequence[str], sizes: Sequence[int], most_cells: int) -> tuple[list[Set], int]:
    """Find the marginals that the model is to have right: named sets all, of so many columns those that can be held."""
    if type(ways) is int and 1 <= ways <= len(names) and math.comb(len(names), ways) > _MOST_SETS:
        rule = f"at most {_MOST_SETS:,} sets; of {len(names)} columns {ways} at a time there are more"
        raise InvalidParameter("ways", ways, rule, fix="take fewer ways, or name the sets")
    sets = sets_of(min(ways, len(names)) if type(ways) is int else ways, names)
    most = sum(sizes) + most_cells
    cells = {each: math.prod(sizes[place] for place in each) for each in sets}
    fitting = [each for each in sets if cells[each] <= most or len(each) == 1]
    if len(fitting) == len(sets) or (type(ways) is int and fitting):
        return fitting, len(sets) - len(fitting)
    largest = max(sets, key=lambda each: cells[each])
    told = " and ".join(names[place] for place in largest)
    need = -(-cells[largest] * BYTES_PER_CELL // (1 << 20))
    raise Unsupported(
        "too-many-cells",
        f"a model has at most {most:,} cells in the memory that is allowed; {told} have {cells[largest]:,} together",
        fix=f'write memory="{need:,} MiB"'.replace(",", "") + ", take coarser bins, or leave the set out",
    )


def set_weight(places: Set, names: Sequence[str], weights: ColumnWeights) -> Fraction:
    """Multiply the weights of the columns of a set, and the set's own."""
    own = {names[place].lower() for place in places}
    found = Fraction(1)
    for named, weight in weights.items():
        if _texts(named) == own if not isinstance(named, str) else named.lower() in own:
            found *= exact(weight, "weights", POSITIVE)
    return found


def check_weights(weights: ColumnWeights, names: Sequence[str], sets: Sequence[Set]) -> None:
    if not isinstance(weights, Mapping):
        raise InvalidParameter("weights", weights, 'weights by columns such as {"income": 3}')
    known = {name.lower() for name in names}
    asked = [{names[place].lower() for place in each} for each in sets]
    for named, weight in weights.items():
        exact(weight, "weights", POSITIVE)
        fits = named.lower() in known if isinstance(named, str) else _texts(named) in asked
        if not fits:
            rule = f"columns among {', '.join(names)}, or sets of them that the workload has"
            raise InvalidParameter("weights", named, rule)


def _texts(names: object) -> set[str]:
    return {str(name).lower() for name in names} if isinstance(names, (tuple, list, frozenset)) else set()
