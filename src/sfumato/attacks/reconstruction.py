"""Database reconstruction: recover nearly everyone's secret bit from many approximately correct answers.

About n questions over random groups, answered within o(√n), determine almost all of n bits (Dinur & Nissim 2003; by a
linear programme even if a share of the answers is arbitrarily wrong: Dwork, McSherry & Talwar 2007). Answers that are
ε-DP for one person's bit keep any attack's success below e^ε/(1 + e^ε), for any number of questions.

Solvers that fit values to many answers about groups: least squares and linear programming.

Least squares is one linear system. The linear programme finds values within their bounds that minimise Σ|Ax − a| by a
primal-dual interior-point method (Mehrotra 1992, predictor-corrector), reduced to one system with as many equations as
people.

Census reconstruction: infer people's ancestry from the small tables published for their block.

Every published count is a linear equation in the cells of the block's full table. The attack fits the full table, then
looks up each person, whose block, sex and age are known from elsewhere, to read off the secret column, here their
ancestry (Garfinkel, Abowd & Martindale 2019; Dick et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    Groups,
    NoisyAnswers,
    RoundedAnswers,
    Sums,
    SuppressedAnswers,
    Values,
    even_share,
    invented_bits,
    private_answers,
    random_groups,
    temporary_curator,
)
from sfumato.attacks.ceilings import guess_ceiling, replacement_guarantee
from sfumato.attacks.findings import CEILING, Finding, Findings, SuccessCurve, Sweep
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

_MAX_ITERATIONS = 60
_RELATIVE_GAP = 1e-7
"""The duality gap, relative to the objective, at which the programme counts as solved."""
_REGULARIZATION = 1e-12
"""Regularisation of underdetermined systems, relative to the largest matrix entry."""
_STEP_FRACTION = 0.995
"""The fraction of the distance to the nearest bound that a step takes."""


def least_squares(groups: NDArray[np.bool_], answers: Floats) -> Floats:
    """Fit values to sums over groups by ridge regression toward ½.

    The variance of the errors is estimated from the residuals of an ordinary fit. A uniform bit has mean ½ and variance
    ¼, so the best linear estimate penalises (x − ½)² with four times that variance (Hoerl & Kennard 1970). Answers may
    have a column for each of several towns. Counts below 2²⁴ are exact in single precision, which is faster.
    """
    single = groups.astype(np.float32)
    people = groups.shape[1]
    normal = (single.T @ single).astype(np.float64)
    centred = answers - (single.sum(axis=1, dtype=np.float64) / 2).reshape(-1, *(1,) * (answers.ndim - 1))
    target = _transposed_product(single, centred)
    ridge = np.eye(people)
    unpenalised = _solve_linear_system(normal + 1e-6 * ridge, target)
    degrees_of_freedom = len(groups) - people
    if degrees_of_freedom <= 0:
        return unpenalised + 0.5
    residual = centred - single @ unpenalised.astype(np.float32)
    variance = float(np.square(residual).sum()) / (degrees_of_freedom * (answers.size // len(answers)))
    return _solve_linear_system(normal + max(1e-6, 4 * variance) * ridge, target) + 0.5


def _transposed_product(groups: NDArray[np.float32], centred: Floats) -> Floats:
    """Return groupsᵀ·centred in double precision, by blocks of questions to avoid a second copy."""
    total = np.zeros((groups.shape[1], *centred.shape[1:]))
    for start in range(0, len(groups), 1024):
        total += groups[start : start + 1024].astype(np.float64).T @ centred[start : start + 1024]
    return total


def _solve_linear_system(matrix: Floats, target: Floats) -> Floats:
    return np.asarray(np.linalg.solve(matrix, target), np.float64)


def least_deviations(matrix: Floats, answers: Floats, upper_bound: float = 1.0, cost: float = 0.0) -> Floats:
    """Find values between 0 and ``upper_bound`` that minimise Σ|matrix·x − answers| + cost·Σx.

    With residuals p − q and slack s below the upper bounds u: min Σp + Σq + cost·Σx subject to Ax + p − q = a,
    x + s = u, all nonnegative. Each iteration solves (AᵀHA + D)dx = g with positive diagonal H and D.
    """
    bounds = np.full(matrix.shape[1], float(upper_bound))
    point = _starting_point(matrix, answers, bounds, cost)
    for _ in range(_MAX_ITERATIONS):
        if point.duality_products() <= _RELATIVE_GAP * (1 + float(point.p.sum() + point.q.sum())):
            break
        point = _predictor_corrector_step(matrix, answers, bounds, cost, point)
    return np.clip(point.x, 0.0, bounds)


@dataclass(frozen=True)
class _InteriorPoint:
    """A strictly interior point: four positive primal vectors, their dual prices, and two multiplier vectors."""

    x: Floats
    s: Floats
    p: Floats
    q: Floats
    y: Floats
    w: Floats
    zx: Floats
    zs: Floats
    zp: Floats
    zq: Floats

    def duality_products(self) -> float:
        return float(self.x @ self.zx + self.s @ self.zs + self.p @ self.zp + self.q @ self.zq)

    def pair_count(self) -> int:
        return 2 * len(self.x) + 2 * len(self.p)

    def stepped_along(self, step: _InteriorPoint, primal: float, dual: float) -> _InteriorPoint:
        first = (self.x + primal * step.x, self.s + primal * step.s, self.p + primal * step.p, self.q + primal * step.q)
        second = (self.y + dual * step.y, self.w + dual * step.w, self.zx + dual * step.zx, self.zs + dual * step.zs)
        return _InteriorPoint(*first, *second, self.zp + dual * step.zp, self.zq + dual * step.zq)


def _starting_point(matrix: Floats, answers: Floats, bounds: Floats, cost: float) -> _InteriorPoint:
    """Start at the centre of the box with feasible residuals and prices.

    All iterates stay feasible, so the duality gap alone measures the distance from the optimum.
    """
    x = bounds / 2
    residual = answers - matrix @ x
    p, q = np.maximum(residual, 0) + 1.0, np.maximum(-residual, 0) + 1.0
    ones, ones_per_value = np.ones(len(answers)), np.ones(len(x))
    return _InteriorPoint(
        x, bounds - x, p, q, 0 * ones, -ones_per_value, ones_per_value + cost, ones_per_value, ones, ones
    )


def _predictor_corrector_step(
    matrix: Floats, answers: Floats, bounds: Floats, cost: float, point: _InteriorPoint
) -> _InteriorPoint:
    """Take one predictor-corrector step; the predictor's gap determines the centring."""
    spread = point.p / point.zp + point.q / point.zq
    diagonal = point.zx / point.x + point.zs / point.s
    normal = matrix.T @ (matrix / spread[:, None])
    diagonal += _REGULARIZATION * float(normal.max())
    normal[np.diag_indices_from(normal)] += diagonal
    mean = point.duality_products() / point.pair_count()
    predictor = _newton_step(
        matrix, answers, bounds, cost, point, normal, spread, _complementarity_targets(point, None, 0.0)
    )
    predicted = point.stepped_along(
        predictor, _max_step(point, predictor, primal=True), _max_step(point, predictor, primal=False)
    )
    centring = (predicted.duality_products() / point.pair_count() / mean) ** 3 * mean
    step = _newton_step(
        matrix, answers, bounds, cost, point, normal, spread, _complementarity_targets(point, predictor, centring)
    )
    return point.stepped_along(
        step,
        _STEP_FRACTION * _max_step(point, step, primal=True),
        _STEP_FRACTION * _max_step(point, step, primal=False),
    )


def _complementarity_targets(
    point: _InteriorPoint, predictor: _InteriorPoint | None, centring: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the change that each complementarity product should make."""
    pairs = ((point.x, point.zx), (point.s, point.zs), (point.p, point.zp), (point.q, point.zq))
    targets = [centring - a * b for a, b in pairs]
    if predictor is not None:
        predictor_pairs = (
            (predictor.x, predictor.zx),
            (predictor.s, predictor.zs),
            (predictor.p, predictor.zp),
            (predictor.q, predictor.zq),
        )
        targets = [target - a * b for target, (a, b) in zip(targets, predictor_pairs, strict=True)]
    return targets[0], targets[1], targets[2], targets[3]


def _newton_step(
    matrix: Floats,
    answers: Floats,
    bounds: Floats,
    cost: float,
    point: _InteriorPoint,
    normal: Floats,
    spread: Floats,
    targets: tuple[Floats, Floats, Floats, Floats],
) -> _InteriorPoint:
    """Solve the Newton equations of one step, with all unknowns but dx eliminated."""
    cx, cs, cp, cq = targets
    residual, bound_slack = answers - matrix @ point.x - point.p + point.q, bounds - point.x - point.s
    rx, rs = cost - matrix.T @ point.y - point.w - point.zx, -point.w - point.zs
    rp, rq = 1 - point.y - point.zp, 1 + point.y - point.zq
    g = (cp - point.p * rp) / point.zp - (cq - point.q * rq) / point.zq
    slack = (bound_slack - (cs - point.s * rs) / point.zs) * point.zs / point.s
    dx = _solve_linear_system(normal, cx / point.x - rx + matrix.T @ ((residual - g) / spread) + slack)
    dy = (residual - g - matrix @ dx) / spread
    dw = slack - dx * point.zs / point.s
    dzx, dzs, dzp, dzq = rx - matrix.T @ dy - dw, rs - dw, rp - dy, rq + dy
    dp, dq = (cp - point.p * dzp) / point.zp, (cq - point.q * dzq) / point.zq
    return _InteriorPoint(dx, bound_slack - dx, dp, dq, dy, dw, dzx, dzs, dzp, dzq)


def _max_step(point: _InteriorPoint, step: _InteriorPoint, *, primal: bool) -> float:
    """Return the largest step, at most 1, that keeps all primal or all dual vectors nonnegative."""
    names = ("x", "s", "p", "q") if primal else ("zx", "zs", "zp", "zq")
    largest = 1.0
    for name in names:
        current, change = getattr(point, name), getattr(step, name)
        decreasing = change < 0
        if decreasing.any():
            largest = min(largest, float((-current[decreasing] / change[decreasing]).min()))
    return largest


RECONSTRUCTION = "reconstruction"
RECOVERY = "information recovery"
MAX_CURATOR_QUESTIONS = 400
"""The most questions to a real curator; beyond that the same noise is drawn without one, which is faster."""
_MAX_CELLS = 1 << 27
_MAX_PROGRAMME_CELLS = 1 << 20
"""The most cells of the group matrix, by least squares and by linear programming."""


class Method(Enum):
    """The solver that recovers bits from answers."""

    LEAST_SQUARES = "least squares"
    LINEAR_PROGRAMME = "linear programme"

    @classmethod
    def of(cls, value: Method | str) -> Method:
        """Return a method from its name."""
        try:
            return cls(value)
        except ValueError:
            raise InvalidParameter(
                "method", value, "'least squares' or 'linear programme'", fix="write method='least squares'"
            ) from None


def reconstruct(answerer: Answerer, questions: int, method: Method | str = Method.LEAST_SQUARES) -> Values:
    """Guess everyone's bit from answers about random groups, ignoring withheld ones."""
    solver, question_count = Method.of(method), exact_integer(questions, "questions", at_least=1)
    cells = question_count * answerer.people
    max_cells = _MAX_CELLS if solver is Method.LEAST_SQUARES else _MAX_PROGRAMME_CELLS
    if cells > max_cells:
        raise InvalidParameter(
            "questions", questions, f"at most {max_cells // answerer.people} for {answerer.people} people"
        )
    groups = random_groups(question_count, answerer.people)
    answers = answerer.sums(groups)
    if answers.ndim == 2 and (solver is Method.LINEAR_PROGRAMME or np.isnan(answers).any()):
        return np.column_stack([_guess_bits(groups, town, solver) for town in answers.T])
    return _guess_bits(groups, answers, solver)


def reconstruction(
    people: int = 50,
    questions: int = 200,
    epsilon: Number = 1,
    method: Method | str = Method.LEAST_SQUARES,
    *,
    towns: int = 1,
) -> Findings:
    """Guess the bits of simulated people from random groups, on every kind of answers, in each of some towns.

    Private answers come from a real curator up to 400 questions; beyond that the same noise is drawn without one.
    """
    people_count, question_count = (
        exact_integer(people, "people", at_least=10),
        exact_integer(questions, "questions", at_least=1),
    )
    has_towns = exact_integer(towns, "towns", at_least=1) > 1
    secret = invented_bits(people_count, towns) if has_towns else invented_bits(people_count)
    open_kinds: list[Answerer] = [ExactAnswers(secret), RoundedAnswers(secret), SuppressedAnswers(secret)]
    results = [_reconstruction_finding(answerer, secret, question_count, method) for answerer in open_kinds]
    if question_count <= MAX_CURATOR_QUESTIONS:
        with private_answers(secret, epsilon, question_count, towns=has_towns) as private:
            results.append(_reconstruction_finding(private, secret, question_count, method))
    else:
        results.append(
            _reconstruction_finding(
                NoisyAnswers(secret, epsilon, question_count, towns=has_towns), secret, question_count, method
            )
        )
    notes = (
        f"{question_count:,} random groups of {people_count:,} people are asked about, and {Method.of(method).value} "
        "recovers each person's bit."
    )
    return Findings(RECONSTRUCTION, tuple(results), (notes,))


def reconstruction_by_noise(
    people: int = 100, questions: int = 400, scales: Sequence[Number] | None = None, tables: int = 5
) -> Sweep:
    """Return the share of bits that both methods recover at each Laplace scale, beside the ceiling.

    Noise of scale b on m questions about one bit is m/b-DP in all. Attacks start to fail around an error of √n, and
    must fail where m/b is small.
    """
    people_count, question_count = (
        exact_integer(people, "people", at_least=10),
        exact_integer(questions, "questions", at_least=1),
    )
    requested_scales: Sequence[Number] = [2.0**power for power in range(-1, 13)] if scales is None else scales
    allowed = POSITIVE.for_list
    exact_scales = [exact(scale, "scales", allowed) for scale in requested_scales]
    shares: dict[Method, list[float]] = {method: [] for method in Method}
    for scale in exact_scales:
        for method in Method:
            runs = [
                _success_share(people_count, question_count, scale, method)
                for _ in range(exact_integer(tables, "tables", at_least=1))
            ]
            shares[method].append(float(np.mean(runs)))
    ceilings = tuple(guess_ceiling(Guarantee(question_count / scale)) for scale in exact_scales)
    courses = [SuccessCurve(method.value, tuple(shares[method])) for method in Method]
    notes = f"{question_count:,} random groups of {people_count:,} people, noise of this scale on each answer."
    plotted_scales = tuple(float(scale) for scale in exact_scales)
    parameter_name = "scale of the noise"
    return Sweep(
        RECONSTRUCTION,
        parameter_name,
        plotted_scales,
        (*courses, SuccessCurve(CEILING, ceilings)),
        math.sqrt(people_count),
        "√n",
        (notes,),
    )


def information_recovery(people: int = 48, most: int = 1024, epsilon: Number = 1, tables: int = 5) -> Sweep:
    """Return the law of information recovery along the number of questions: the share of bits that least squares
    recover from answers of a fixed small error, and from answers out of one budget, beside its ceiling and the error
    that the budget leaves in each answer, as a share of the people.

    Overly accurate answers to too many questions destroy privacy (Dinur & Nissim 2003; Dwork & Roth 2014, section 1).
    So from one budget the scale of the noise is questions/ε: the error of each answer grows with their number.
    """
    people_count, price = exact_integer(people, "people", at_least=10), exact(epsilon, "epsilon", POSITIVE)
    numbers = [1 << step for step in range(3, exact_integer(most, "most", at_least=8).bit_length())]
    accurate, budgeted, errors = [], [], []
    for questions in numbers:
        scales = Fraction(1, 2), questions / price
        shares = [
            [_success_share(people_count, questions, scale, Method.LEAST_SQUARES) for _ in range(tables)]
            for scale in scales
        ]
        accurate.append(float(np.mean(shares[0])))
        budgeted.append(float(np.mean(shares[1])))
        errors.append(min(1.0, float(scales[1]) / people_count))
    curves = (
        SuccessCurve("noise of scale ½ each", tuple(accurate)),
        SuccessCurve("from one budget", tuple(budgeted)),
        SuccessCurve(CEILING, (guess_ceiling(Guarantee(price)),) * len(numbers)),
        SuccessCurve("error of an answer ÷ people", tuple(errors)),
    )
    notes = (
        f"Random groups of {people_count:,} people; the budget is ε = {format_exact(price)} for all questions.",
        "The error of an answer is shown only up to the number of people.",
    )
    return Sweep(RECOVERY, "questions", tuple(map(float, numbers)), curves, float(people_count), "n", notes)


def _guess_bits(groups: Groups, answers: Sums, method: Method) -> Values:
    is_answered = ~np.isnan(answers)
    if not is_answered.any():
        return invented_bits(groups.shape[1])
    if not is_answered.all():
        groups, answers = groups[is_answered], answers[is_answered]
    if method is Method.LEAST_SQUARES:
        estimates = least_squares(groups, answers)
    else:
        estimates = least_deviations(groups.astype(np.float64), answers)
    return (estimates > 0.5).astype(np.int64)


def _success_share(people: int, questions: int, scale: Fraction, method: Method) -> float:
    """Return the share of bits recovered from one simulated table with noisy sums."""
    secret = invented_bits(people)
    guesses = reconstruct(NoisyAnswers(secret, questions / scale, questions), questions, method)
    return float((guesses == secret).mean())


def _reconstruction_finding(answerer: Answerer, secret: Values, questions: int, method: Method | str) -> Finding:
    is_correct = reconstruct(answerer, questions, method) == secret
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(RECONSTRUCTION, answerer.kind, int(is_correct.sum()), is_correct.size, 0.5, ceiling, questions)


CENSUS = "census"
SHAPE = (2, 10, 4)
"""The numbers of sexes, age decades and ancestries; the ancestry is secret."""
TABLES = ((0, 1), (0, 2), (1, 2))
"""The tables published per block: by sex and age, by sex and ancestry, by age and ancestry."""
_CELL_COST = 0.01
"""The cost of a person in a cell, relative to an error of one in a published count."""
_COLUMNS = ("sex", "age", "ancestry")


@dataclass(frozen=True)
class Census:
    """Simulated people: the block of each, and their sex, age and ancestry."""

    blocks: int
    block: Integers
    cells: Integers
    """A row per person: sex, age decade, ancestry."""

    def counts(self) -> Floats:
        """Return the exact count of every cell of every block."""
        full = np.zeros((self.blocks, *SHAPE))
        np.add.at(full, (self.block, *self.cells.T), 1)
        return full

    def published(self) -> Floats:
        """Return all published counts, exactly; a row per block."""
        return self.counts().reshape(self.blocks, -1) @ count_matrix().T


def random_census(blocks: int, people: int) -> Census:
    """Draw blocks of simulated people with independent uniform attributes."""
    block_count, block_size = exact_integer(blocks, "blocks", at_least=1), exact_integer(people, "people", at_least=1)
    cells = np.column_stack([bits.random_array_below(values, block_count * block_size) for values in SHAPE])
    return Census(block_count, np.repeat(np.arange(block_count), block_size), cells)


def count_matrix() -> Floats:
    """Return which cells each published count sums: a row per count, a column per cell."""
    coordinates = np.indices(SHAPE).reshape(len(SHAPE), -1)
    rows = []
    for first_axis, second_axis in TABLES:
        key = coordinates[first_axis] * SHAPE[second_axis] + coordinates[second_axis]
        rows.append(key[None, :] == np.arange(SHAPE[first_axis] * SHAPE[second_axis])[:, None])
    return np.concatenate(rows).astype(np.float64)


def fit_block_tables(published: Floats) -> Floats:
    """Fit the full table of every block to the published counts; withheld ones are NaN and ignored.

    Of equally good fits, the one with the fewest people is chosen.
    """
    matrix = count_matrix()
    full = np.empty((len(published), matrix.shape[1]))
    for block, counts in enumerate(published):
        is_published = ~np.isnan(counts)
        largest_count = max(1.0, float(np.max(counts[is_published], initial=0.0)))
        full[block] = least_deviations(matrix[is_published], counts[is_published], largest_count, cost=_CELL_COST)
    return full.reshape(len(published), *SHAPE)


def guess_ancestries(published: Floats, census: Census) -> Integers:
    """Guess every person's ancestry from the published counts and their block, sex and age."""
    full = fit_block_tables(published)
    sex, age, _ = census.cells.T
    coins = bits.random_array_below(1 << 20, full.shape[-1] * len(census.block)).reshape(len(census.block), -1) / (
        1 << 40
    )
    return np.argmax(full[census.block, sex, age] + coins, axis=1)


def census(
    blocks: int = 40,
    people: int = 8,
    epsilon: Number = 1,
    *,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Findings:
    """Guess the ancestry of simulated people from small tables of their blocks, published in several ways.

    The private tables are released by a real curator for ε in all, a third for each.
    """
    people_drawn = random_census(blocks, people)
    exact_counts = people_drawn.published()
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    promise = replacement_guarantee(Guarantee(price), relation)
    ceiling = guess_ceiling(promise, f"1/{SHAPE[-1]}", SHAPE[-1])
    kinds: tuple[tuple[str, Callable[[Floats], Floats]], ...] = (
        ("exact", lambda counts: counts),
        ("rounded to 3s", lambda counts: 3 * np.floor(counts / 3 + 0.5)),
        ("below 3 withheld", lambda counts: np.where(counts < 3, np.nan, counts)),
    )
    findings = [_census_finding(name, coarsen(exact_counts), people_drawn) for name, coarsen in kinds]
    private_counts = release_tables(people_drawn, Budget(price, neighbours=relation))
    findings.append(_census_finding(f"private, ε = {format_exact(price)}", private_counts, people_drawn, ceiling))
    notes = (
        f"Three small tables of each of {blocks} blocks with {people} people are published; whoever knows a person's "
        "block, sex and age looks up the ancestry in the table that fits.",
    )
    return Findings(CENSUS, tuple(findings), notes)


def release_tables(people: Census, budget: Budget) -> Floats:
    """Release all published counts by a real curator with a temporary account, for its whole budget."""
    columns = dict(zip(_COLUMNS, people.cells.T, strict=True))
    declared = {
        name: {"type": "integer", "values": list(range(size))} for name, size in zip(_COLUMNS, SHAPE, strict=True)
    }
    declared["block"] = {"type": "integer", "values": list(range(people.blocks))}
    tables, price_per_table = [], even_share(budget.epsilon, len(TABLES))
    with temporary_curator({"block": people.block, **columns}, declared, budget) as curator:
        for first_axis, second_axis in TABLES:
            keys = f"block, {_COLUMNS[first_axis]}, {_COLUMNS[second_axis]}"
            query: Any = curator.sql(f"SELECT {keys}, COUNT(*) AS n FROM people GROUP BY {keys} ORDER BY {keys}")
            rows = query.release(epsilon=price_per_table).rows
            tables.append(np.array([row[-1] for row in rows], np.float64).reshape(people.blocks, -1))
    return np.concatenate(tables, axis=1)


def _census_finding(answers: str, published: Floats, people: Census, ceiling: float | None = None) -> Finding:
    is_correct = guess_ancestries(published, people) == people.cells[:, -1]
    answer_count = int((~np.isnan(published)).sum())
    return Finding(CENSUS, answers, int(is_correct.sum()), is_correct.size, 1 / SHAPE[-1], ceiling, answer_count)
