"""Attacks with a handful of questions: subtracting two totals, repeating one, and learning from a refusal.

*Differencing.* Two totals over groups that differ by one person differ by that person's value. Rounding hides it in one
pair of totals but not in many pairs over different groups, since rounding errors average out. Suppressing small totals
does not help, since both totals are large; nor does it in a published table, where a suppressed cell is its row total
minus the other cells.

Overlap control, which refuses a question that nearly repeats an earlier group, is evaded by spreading the difference
over many questions, or over the totals of a published table. No two of these groups differ by one person only. But
totals are linear in the values: if a combination of groups isolates one person, the same combination of totals is that
person's value. Weights w with wᵀG = e, the person's unit vector, follow by linear algebra from the public groups G; of
several solutions the minimum-norm one adds least rounding and noise (Gauss–Markov). Withheld totals are left out.

Averaging attack: repeat one question until fresh noise averages out.

An account prevents it twice. A repeated question returns the stored answer, which reveals nothing new; and another
draw is charged, so all draws together stay within the budget.

A rule that withholds sums below a minimum looks at the sum, so the refusal itself tells about it. An attacker who knows
``least − 1`` people with a 1 asks about them and the target: the sum reaches the minimum if and only if the target's
bit is 1. A curator here refuses by question and policy alone, which are public; whether it answers says nothing, and
what it answers is within its guarantee.

Cell suppression: withhold the small cells of a published table, and complementary cells that would reveal them.

A single suppressed cell is its row total minus the other cells (``differencing``). So statistical offices also suppress
complementary cells: here three more for every small cell, such that the four are the corners of a rectangle. Adding one
to two opposite corners and subtracting one from the other two changes no total, so this table determines none of the
four (Cox 1980). What remains is an interval: counts are nonnegative and no larger than their cells, and every total
bounds its parts given the others (Buzzigoli & Giusti 1999).

But complementary cells are chosen for one table. Another table of the same people, with other rows or columns,
publishes sums of cells that the first one suppressed, and chooses its own complementary cells: combined they reveal the
small cell again. Reliable suppression would have to consider all tables, including those of others and future ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    Groups,
    NoisyAnswers,
    OverlapControlledAnswers,
    RoundedAnswers,
    Sums,
    SuppressedAnswers,
    UncountedAnswers,
    Values,
    even_share,
    group_sums,
    invented_bits,
    private_answers,
    random_groups,
    temporary_curator,
)
from sfumato.attacks.ceilings import guess_ceiling, replacement_guarantee
from sfumato.attacks.findings import CEILING, Finding, Findings, SuccessCurve, Sweep
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

MIN_DIFFERENCE = 5
"""The least number of people that any two groups differ by."""


def draw_separated_groups(questions: int, people: int) -> Groups:
    """Draw random groups of which any two differ by at least five people; each also has at least five members."""
    question_count, people_count = (
        exact_integer(questions, "questions", at_least=1),
        exact_integer(people, "people", at_least=1),
    )
    chosen = np.zeros((1, people_count), bool)  # starts with the empty group, which is not asked
    while len(chosen) <= question_count:
        chosen_before = len(chosen)
        for group in random_groups(question_count + 1 - chosen_before, people_count):
            if (chosen ^ group).sum(axis=1).min() >= MIN_DIFFERENCE:
                chosen = np.concatenate([chosen, group[None, :]])
        if len(chosen) == chosen_before:
            raise InvalidParameter(
                "questions",
                questions,
                f"a smaller number: any two groups must differ in at least {MIN_DIFFERENCE} people, and too few such "
                f"groups were found among {people_count} people",
                fix="ask fewer questions, or use more people",
            )
    return chosen[1:]


@dataclass(frozen=True)
class CrossTable:
    """A two-way table of sums, published with its row and column totals."""

    rows: Values
    """The row index of each person."""
    columns: Values
    """The column index of each person."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return int(self.rows.max()) + 1, int(self.columns.max()) + 1

    def groups(self) -> Groups:
        """Return the members of every cell in row order, of every row, of every column, and of the whole table."""
        height, width = self.shape
        parts = [
            np.arange(height * width)[:, None] == self.rows * width + self.columns,
            np.arange(height)[:, None] == self.rows,
            np.arange(width)[:, None] == self.columns,
            np.ones((1, len(self.rows)), bool),
        ]
        return np.concatenate(parts)


def lay_out_table(streets: int, bands: int, size: int) -> CrossTable:
    """Return a table of streets by age bands: the first person is alone in the first cell, every other cell has
    ``size`` people.
    """
    height, width = exact_integer(streets, "streets", at_least=2), exact_integer(bands, "bands", at_least=2)
    cell = np.concatenate([[0], np.repeat(np.arange(1, height * width), exact_integer(size, "size", at_least=1))])
    return CrossTable(*np.divmod(cell, width))


def table_groups(streets: int, bands: int, size: int) -> Groups:
    """Return the groups of such a table: every cell, street and age band, and everybody."""
    return lay_out_table(streets, bands, size).groups()


def estimate_target_bit(answerer: Answerer, groups: Groups, target: int) -> Sums:
    """Estimate one person's bit from the totals of these groups, by weights under which all others cancel.

    If no exact weights exist, as when too many totals are withheld, it is the best linear estimate for uniform bits;
    NaN if nothing was answered.
    """
    return combine_totals(answerer.sums(groups), groups, target)


def combine_totals(told: Sums, groups: Groups, target: int) -> Sums:
    """Estimate one person's bit from totals already received; withheld ones are NaN."""
    columns = told.reshape(len(told), -1)
    estimates = np.full(columns.shape[1], np.nan)
    patterns, pattern_index = np.unique(~np.isnan(columns), axis=1, return_inverse=True)
    for pattern_number, is_answered in enumerate(patterns.T):
        if not is_answered.any():
            continue
        towns = pattern_index.ravel() == pattern_number
        answered_groups = groups[is_answered]
        centred = columns[is_answered][:, towns] - answered_groups.sum(axis=1, keepdims=True) / 2
        estimates[towns] = 0.5 + _isolating_weights(answered_groups, target) @ centred
    return estimates.reshape(told.shape[1:])


def _isolating_weights(groups: Groups, target: int) -> NDArray[np.float64]:
    """Return the minimum-norm weights whose combination of groups is closest to the person alone."""
    alone = np.arange(groups.shape[1]) == target
    return np.linalg.lstsq(groups.T.astype(np.float64), alone.astype(np.float64), rcond=None)[0]


DIFFERENCING = "differencing"
_WORDS = (
    "Bob is one of the people of each town, and whether he smokes is secret. The number of all smokers minus the "
    "number of smokers except Bob is his answer.",
    "Spread: random groups, no two of which differ by fewer than 5 people, combined so that everybody but Bob cancels "
    "out.",
    "From a table: Bob is alone in a cell, which is withheld; the totals by street and by age are published.",
)
_STREETS, _BANDS, _CELL = 3, 3, 20
_EXTRA_QUESTIONS = 10
"""Questions beyond the number of people, so that the groups isolate one person."""


def difference(answerer: Answerer, target: int, pairs: int = 1) -> Sums:
    """Estimate one person's value by the mean difference between groups with and without them.

    One pair is everybody, and everybody else. Several pairs use different random groups, so that no question repeats.
    Pairs with a withheld total are left out; the estimate is NaN if all are.
    """
    people = answerer.people
    row_index, pair_count = checked_target(target, people), exact_integer(pairs, "pairs", at_least=1)
    without_target = np.ones((1, people), bool) if pair_count == 1 else random_groups(pair_count, people)
    without_target[:, row_index] = False
    with_target = without_target.copy()
    with_target[:, row_index] = True
    answers = answerer.sums(np.concatenate([with_target, without_target]))
    return mean_of_answers(answers[:pair_count] - answers[pair_count:])


def differencing(
    people: int = 50, towns: int = 400, pairs: int = 100, epsilon: Number = 1, *, bought_pairs: int = 20
) -> Findings:
    """Guess one person's bit in each of many simulated towns by differencing, on every kind of answers.

    A real curator with a temporary account answers for all towns at once, with ε for all its answers together: for one
    pair, for ``bought_pairs``, for spread groups, and for a table.
    """
    people_count = exact_integer(people, "people", at_least=20)
    secret = invented_bits(people_count, exact_integer(towns, "towns", at_least=1))
    spread_questions, table = (
        draw_separated_groups(people_count + _EXTRA_QUESTIONS, people_count),
        table_groups(_STREETS, _BANDS, _CELL),
    )
    table_secret = invented_bits(table.shape[1], towns)
    rounded, withheld = RoundedAnswers(secret), SuppressedAnswers(secret)
    results = [
        _pair_finding(ExactAnswers(secret), secret, 1),
        _pair_finding(rounded, secret, 1),
        _pair_finding(rounded, secret, pairs),
        _pair_finding(OverlapControlledAnswers(secret), secret, 1),
        _combination_finding(OverlapControlledAnswers(secret), secret, spread_questions, "spread"),
        _direct_finding(withheld, secret),
        _pair_finding(withheld, secret, 1),
        _combination_finding(SuppressedAnswers(table_secret), table_secret, table, "from a table"),
    ]
    for pair_count in (1, exact_integer(bought_pairs, "bought_pairs", at_least=2)):
        with private_answers(secret, epsilon, 2 * pair_count, towns=True) as private:
            results.append(_pair_finding(private, secret, pair_count))
    for values, groups, method in ((secret, spread_questions, "spread"), (table_secret, table, "from a table")):
        with private_answers(values, epsilon, len(groups), towns=True) as private:
            results.append(_combination_finding(private, values, groups, method))
    return Findings(DIFFERENCING, tuple(results), _WORDS)


def differencing_by_questions(people: int = 50, towns: int = 1000, epsilon: Number = 1) -> Sweep:
    """Return the share of correct guesses by the number of spread questions.

    It is small until there are as many questions as people and then complete, unless all are paid from one budget.
    """
    people_count, price = exact_integer(people, "people", at_least=20), exact(epsilon, "epsilon")
    secret = invented_bits(people_count, exact_integer(towns, "towns", at_least=1))
    question_counts = [
        max(1, round(people_count * share)) for share in (0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.2, 1.6, 2.4, 4, 8)
    ]
    shares, all_groups = [], draw_separated_groups(question_counts[-1], people_count)
    for question_count in question_counts:
        groups = all_groups[:question_count]
        answerers: list[Answerer] = [OverlapControlledAnswers(secret), RoundedAnswers(secret)]
        answerers.append(NoisyAnswers(secret, price, question_count, towns=True))
        shares.append([_combination_finding(answerer, secret, groups, "").success for answerer in answerers])
    names = "near pairs withheld", "rounded to 5s", f"private, ε = {format_exact(price)}"
    courses = [
        SuccessCurve(name, success_shares)
        for name, success_shares in zip(names, zip(*shares, strict=True), strict=True)
    ]
    ceiling = SuccessCurve(CEILING, (guess_ceiling(Guarantee(price)),) * len(question_counts))
    notes = (_WORDS[1],)
    return Sweep(
        DIFFERENCING,
        "questions",
        tuple(map(float, question_counts)),
        (*courses, ceiling),
        float(people_count),
        "one question per person",
        notes,
    )


def checked_target(target: int, people: int) -> int:
    """Validate the row index of one person."""
    row_index = exact_integer(target, "target")
    if row_index >= people:
        rule = f"the index of a person, from 0 to {people - 1}" if people > 1 else "0, the index of the only person"
        raise InvalidParameter("target", target, rule, fix="for example, set target to 0")
    return row_index


def mean_of_answers(answers: Sums) -> Sums:
    """Return the mean of the answers that were not withheld, for every town; NaN if all were."""
    is_answered = ~np.isnan(answers)
    count = is_answered.sum(axis=0)
    total = np.where(is_answered, answers, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def round_to_bits(estimates: Sums) -> Values:
    """Round estimates to bits; a fair coin decides where there is no estimate."""
    coins = bits.random_array_below(2, estimates.size).reshape(estimates.shape)
    return np.where(np.isnan(estimates), coins, (estimates > 0.5).astype(np.int64))


def _pair_finding(answerer: Answerer, secret: Values, pairs: int) -> Finding:
    is_correct = round_to_bits(difference(answerer, 0, pairs)) == secret[0]
    method = "one pair" if pairs == 1 else f"{pairs} pairs"
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    answers = f"{answerer.kind}, {method}"
    return Finding(DIFFERENCING, answers, int(is_correct.sum()), is_correct.size, 0.5, ceiling, 2 * pairs)


def _combination_finding(answerer: Answerer, secret: Values, groups: Groups, method: str) -> Finding:
    """Combine totals so that all but the first person cancel; guess that person's bit in every town."""
    is_correct = round_to_bits(estimate_target_bit(answerer, groups, 0)) == secret[0]
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(
        DIFFERENCING, f"{answerer.kind}, {method}", int(is_correct.sum()), is_correct.size, 0.5, ceiling, len(groups)
    )


def _direct_finding(answerer: SuppressedAnswers, secret: Values) -> Finding:
    """Ask about the person alone, which small-cell suppression refuses."""
    alone: Groups = np.arange(answerer.people)[None, :] == 0
    is_correct = round_to_bits(answerer.sums(alone)[0]) == secret[0]
    return Finding(
        DIFFERENCING, f"{answerer.kind}, asked directly", int(is_correct.sum()), is_correct.size, 0.5, None, 1
    )


AVERAGING = "averaging"
_AVERAGING_NOTES = (
    "The same question about one person in each town is asked again and again, and the answers are averaged.",
)


def average(answerer: Answerer, target: int, times: int) -> Sums:
    """Estimate one person's value by the mean of repeated answers to a question about them alone."""
    row_index = checked_target(target, answerer.people)
    alone: Groups = np.arange(answerer.people)[None, :] == row_index
    answers = [answerer.sums(alone)[0] for _ in range(exact_integer(times, "times", at_least=1))]
    return np.mean(answers, axis=0)


def averaging(times: int = 100, towns: int = 400, epsilon: Number = 1) -> Findings:
    """Guess one person's bit in each of many simulated towns by repetition, with and without an account.

    Without one, each answer is ε-DP and nothing is accounted for. A real curator with a temporary account of ε answers
    the same question at its whole budget, and then again from the store; another one sells a fresh draw each time at a
    share of the budget.
    """
    repetitions = exact_integer(times, "times", at_least=2)
    secret = invented_bits(2, exact_integer(towns, "towns", at_least=1))
    results = [
        _averaging_finding(ExactAnswers(secret), secret, 1, "asked once"),
        _averaging_finding(UncountedAnswers(secret, epsilon), secret, 1, "asked once"),
        _averaging_finding(UncountedAnswers(secret, epsilon), secret, repetitions, f"{repetitions} times"),
    ]
    with private_answers(secret, epsilon, 1, towns=True) as private:
        results.append(_averaging_finding(private, secret, repetitions, f"{repetitions} times"))
    with private_answers(secret, epsilon, repetitions, towns=True, fresh=True) as private:
        results.append(_averaging_finding(private, secret, repetitions, f"{repetitions} draws bought"))
    return Findings(AVERAGING, tuple(results), _AVERAGING_NOTES)


def averaging_by_times(most: int = 256, towns: int = 2000, epsilon: Number = 1) -> Sweep:
    """Return the share of correct guesses after 1, 2, 4, … answers: without accounting, and from one budget."""
    exact_integer(most, "most", at_least=1)
    secret = invented_bits(2, exact_integer(towns, "towns", at_least=1))
    repetitions = [1 << step for step in range(most.bit_length())]
    uncounted, budgeted = [], []
    for times in repetitions:
        uncounted.append(_success_share(UncountedAnswers(secret, epsilon), secret, times))
        budgeted.append(_success_share(NoisyAnswers(secret, epsilon, times, towns=True), secret, times))
    ceiling = guess_ceiling(Guarantee(epsilon))
    courses = (
        SuccessCurve("no accounting", tuple(uncounted)),
        SuccessCurve("from one budget", tuple(budgeted)),
        SuccessCurve(CEILING, (ceiling,) * len(repetitions)),
    )
    return Sweep(
        AVERAGING, "answers to the same question", tuple(map(float, repetitions)), courses, words=_AVERAGING_NOTES
    )


def _averaging_finding(answerer: Answerer, secret: Values, times: int, how: str) -> Finding:
    is_correct = round_to_bits(average(answerer, 0, times)) == secret[0]
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(AVERAGING, f"{answerer.kind}, {how}", int(is_correct.sum()), is_correct.size, 0.5, ceiling, times)


def _success_share(answerer: Answerer, secret: Values, times: int) -> float:
    return float((round_to_bits(average(answerer, 0, times)) == secret[0]).mean())


REFUSALS = "refusals"
_MIN_COUNT = 5


def read_refusal(answerer: Answerer, target: int, accomplices: int) -> Values:
    """Guess one person's bit from a question about them and the first ``accomplices`` others, whose bits are known to
    be 1: 1 if it is answered, 0 if it is withheld.
    """
    return (~np.isnan(_sums_of_target_and_accomplices(answerer, target, accomplices))).astype(np.int64)


def _sums_of_target_and_accomplices(answerer: Answerer, target: int, accomplices: int) -> Sums:
    row_index = checked_target(target, answerer.people)
    accomplice_count = exact_integer(accomplices, "accomplices", at_least=1)
    if accomplice_count >= answerer.people:
        raise InvalidParameter(
            "accomplices",
            accomplices,
            f"below {answerer.people}, the number of people",
            fix="use fewer accomplices, or more people",
        )
    group: Groups = np.zeros((1, answerer.people), bool)
    others = [person for person in range(answerer.people) if person != row_index]
    group[0, [row_index, *others[:accomplice_count]]] = True
    answers: Sums = answerer.sums(group)[0]
    return answers


def refusals(towns: int = 400, epsilon: Number = 1) -> Findings:
    """Guess one person's bit in each of many simulated towns from refusals: by a rule that withholds sums below 5, and
    by a real curator with a temporary account of ε, whose answer is read as well.
    """
    accomplices = _MIN_COUNT - 1
    secret = invented_bits(_MIN_COUNT, exact_integer(towns, "towns", at_least=1))
    secret[1:] = 1  # the attacker's own people
    withheld = SuppressedAnswers(secret, _MIN_COUNT)
    results = [
        _refusal_finding(f"{withheld.kind}: refused or not", read_refusal(withheld, 0, accomplices), secret, None)
    ]
    with private_answers(secret, epsilon, 1, towns=True) as private:
        assert private.promise is not None
        sums = _sums_of_target_and_accomplices(private, 0, accomplices)
        ceiling = guess_ceiling(private.promise)
        results.append(
            _refusal_finding(f"{private.kind}: refused or not", (~np.isnan(sums)).astype(np.int64), secret, ceiling)
        )
        results.append(
            _refusal_finding(f"{private.kind}: its answer", round_to_bits(sums - accomplices), secret, ceiling)
        )
    notes = "One person and four known smokers are counted, in each town; whether that person smokes is secret."
    return Findings(REFUSALS, tuple(results), (notes,))


def _refusal_finding(answers: str, guesses: Values, secret: Values, ceiling: float | None) -> Finding:
    is_correct = guesses == secret[0]
    return Finding(REFUSALS, answers, int(is_correct.sum()), is_correct.size, 0.5, ceiling, 1)


NAME = "suppression"
_TABLE_STREETS, _AGES, _TABLE_CELL = 4, 4, 20
_COLUMNS = (("street", "age"), ("street", "ages"), ("streets", "age"))
"""The keys of the tables: streets and ages; ages in pairs; streets in pairs."""


def suppression(
    towns: int = 400, epsilon: Number = 1, *, neighbours: Neighbours | str = Neighbours.REPLACE
) -> Findings:
    """Guess one person's bit in each of many simulated towns from tables with suppressed small cells.

    Small cells are suppressed alone, with complementary cells, and with complementary cells in two and three tables.
    The same tables are also released by a real curator for ε in all, a third for each.
    """
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    tables = linked_tables(_TABLE_STREETS, _AGES, _TABLE_CELL)
    secret = invented_bits(len(tables[0].rows), exact_integer(towns, "towns", at_least=1))
    results = [_suppressed_finding(f"below {_MIN_COUNT} withheld, 1 table", tables[:1], secret, second=False)]
    for table_count in range(1, len(tables) + 1):
        table_words = f"{table_count} table{'s' if table_count > 1 else ''}"
        results.append(
            _suppressed_finding(f"second cells too, {table_words}", tables[:table_count], secret, second=True)
        )
    ceiling = guess_ceiling(replacement_guarantee(Guarantee(price), relation))
    private_counts = release_tables(tables, secret, Budget(price, neighbours=relation))
    groups = np.concatenate([_cell_groups(table) for table in tables])
    name = f"private, ε = {format_exact(price)}, {len(tables)} tables"
    results.append(_suppression_finding(name, combine_totals(private_counts, groups, 0), secret, len(groups), ceiling))
    notes = (
        "Bob is alone in a cell of a table by street and age; whether he smokes is secret. Cells below 5 are withheld, "
        "and with each of them three others, so that the four form a rectangle.",
        "2 tables: the second has ages in pairs. 3 tables: the third has streets in pairs.",
    )
    return Findings(NAME, tuple(results), notes)


def linked_tables(streets: int, ages: int, size: int) -> tuple[CrossTable, ...]:
    """Return three tables of the same people: by street and age, with ages in pairs, and with streets in pairs.

    The first person is alone in the first cell.
    """
    full_table = lay_out_table(streets, ages, size)
    return (
        full_table,
        CrossTable(full_table.rows, full_table.columns // 2),
        CrossTable(full_table.rows // 2, full_table.columns),
    )


def suppressed_table(table: CrossTable, values: Any, least: int = _MIN_COUNT, *, second: bool = True) -> Sums:
    """Return all totals of a table, in the order of its groups, for every town, with cells below ``least`` as NaN.

    With ``second``, complementary cells are suppressed too.
    """
    secret = np.asarray(values, np.int64)
    if len(secret) != len(table.rows):
        raise InvalidParameter(
            "values",
            ValueWords(f"an array of the shape {secret.shape}"),
            f"a list with one value for each of the table's {len(table.rows)} people",
            fix=f"pass {len(table.rows)} values",
        )
    published = group_sums(table.groups(), secret.reshape(len(secret), -1))
    height, width = table.shape
    cells = published[: height * width].reshape(height, width, -1)
    hidden = cells < exact_integer(least, "least", at_least=2)
    if second:
        hidden = np.stack([suppress_complementary_cells(*town) for town in zip(cells.T, hidden.T, strict=True)]).T
    published[: height * width] = np.where(hidden, np.nan, cells).reshape(height * width, -1)
    return published.reshape(-1, *secret.shape[1:])


def suppress_complementary_cells(cells: Sums, small: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the suppressed cells: every small cell and three that complete a rectangle with it, of least total count
    not yet suppressed. A table with one row or column has no rectangle and is suppressed entirely.
    """
    hidden = small.copy()
    if min(cells.shape) < 2:
        return np.full(cells.shape, bool(small.any()))
    for row, column in np.argwhere(small):
        visible = np.where(hidden, 0.0, cells)
        cost = visible[row] + visible[:, [column]] + visible
        cost[row], cost[:, column] = np.inf, np.inf
        other_row, other_column = np.unravel_index(np.argmin(cost), cost.shape)
        hidden[[row, other_row, other_row], [other_column, column, other_column]] = True
    return hidden


def cell_bounds(told: Sums, groups: Groups, target: int) -> tuple[int, int]:
    """Bound the total of the people who share all groups with the target, from the totals of one town.

    The interval is the fixed point of bounding the parts of every total by the bounds of the other parts.
    """
    row_index = checked_target(target, groups.shape[1])
    cell_membership, cell_of_person, sizes = np.unique(groups, axis=1, return_inverse=True, return_counts=True)
    is_published = ~np.isnan(told)
    low, high = np.zeros(len(sizes)), sizes.astype(np.float64)
    slack = np.inf
    while (high - low).sum() < slack:
        slack = (high - low).sum()
        for part, total in zip(cell_membership[is_published], told[is_published], strict=True):
            high[part] = np.minimum(high[part], total - low[part].sum() + low[part])
            low[part] = np.maximum(low[part], total - high[part].sum() + high[part])
    target_cell = cell_of_person.ravel()[row_index]
    return int(low[target_cell]), int(high[target_cell])


def release_tables(tables: Sequence[CrossTable], secret: Values, budget: Budget) -> Sums:
    """Release the cells of all three tables of all towns by a real curator with a temporary account, for its whole
    budget: one question per table.
    """
    people, towns = secret.shape
    coordinates = dict(zip(_COLUMNS[0], (tables[0].rows, tables[0].columns), strict=True))
    coordinates |= {"ages": tables[1].columns, "streets": tables[2].rows}
    columns = {name: np.repeat(coordinate, towns) for name, coordinate in coordinates.items()}
    columns |= {"town": np.tile(np.arange(towns), people)}
    declared: dict[str, Any] = {
        name: {"type": "integer", "values": list(range(int(codes.max()) + 1))} for name, codes in columns.items()
    }
    columns |= {"smokes": secret.ravel()}
    declared["smokes"] = {"type": "integer", "bounds": (0, 1)}
    table_counts, price_per_table = [], even_share(budget.epsilon, len(_COLUMNS))
    with temporary_curator(columns, declared, budget) as curator:
        for row, column in _COLUMNS:
            keys = f"town, {row}, {column}"
            query: Any = curator.sql(f"SELECT {keys}, SUM(smokes) AS n FROM people GROUP BY {keys} ORDER BY {keys}")
            rows = query.release(epsilon=price_per_table).rows
            table_counts.append(np.array([cell[-1] for cell in rows], np.float64).reshape(towns, -1).T)
    return np.concatenate(table_counts)


def _cell_groups(table: CrossTable) -> Groups:
    height, width = table.shape
    return table.groups()[: height * width]


def _suppressed_finding(name: str, tables: Sequence[CrossTable], secret: Values, *, second: bool) -> Finding:
    published = np.concatenate([suppressed_table(table, secret, second=second) for table in tables])
    groups = np.concatenate([table.groups() for table in tables])
    return _suppression_finding(name, combine_totals(published, groups, 0), secret, len(groups), None)


def _suppression_finding(name: str, estimates: Sums, secret: Values, questions: int, ceiling: float | None) -> Finding:
    is_correct = round_to_bits(estimates) == secret[0]
    return Finding(NAME, name, int(is_correct.sum()), is_correct.size, 0.5, ceiling, questions)
