"""Propose to count what limits and bounds cut from an answer: a workload, bought as one batch (proofs: ``clipping``).

The counts are charged like any questions, are stored, and are free again. What a limit cuts is private: nothing about
it is shown before it is paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import cast

from sfumato.curator.context import Context
from sfumato.curator.previews.advising import Tip
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.workload_answers import Answers
from sfumato.curator.proposals.workloads import WorkloadProposal
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import DistinctUnits
from sfumato.plan.caveats import caveat_by_column
from sfumato.plan.clipping import (
    ClippingQuestion,
    CutCounts,
    WorstCase,
    clipping_questions,
    with_worst_cases,
    worst_cases,
)
from sfumato.plan.values.expressions import Field
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price
from sfumato.release.releasing import ReleaseRequest, find_stored
from sfumato.release.requests import PriceRequest
from sfumato.untrusted import escape_unprintable

_ANY_ACCURACY = "0.000001"
"""A price so low that every stored count is more accurate."""
_LARGE_SHARE = 0.01
"""The share that is surely cut, from which other limits and bounds are advised."""


@dataclass(frozen=True)
class ClippedQuestion(Question):
    """A question about what a limit or bound cuts from another one."""

    about: Question | None = None
    """The question that is cut: the same conditions select its rows."""
    name: str = ""
    """The limit or bound in words."""
    column: Field | None = None
    """The column whose cells are counted; None where units are."""

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.about is None else self.about.warnings

    def caveat_by_column(self, joined_strategies: str) -> dict[str, str]:
        """Name what moves these counts: what selects the rows, and for cells the limit on rows too."""
        if self.column is not None or self.about is None:
            return caveat_by_column(self.query, self.row_limits(joined_strategies))
        units = tuple(DistinctUnits() for _ in self.query.plan.measures)
        plan = replace(self.query.plan, source=self.about.query.plan.source, measures=units)
        return caveat_by_column(replace(self.query, plan=plan), self.row_limits(joined_strategies))

    def least_price(self, request: PriceRequest, priced: Callable[[Fraction], Price] | None = None) -> Fraction:
        """Find the least price; a single half-width is that of the number beyond the limit: a share has none."""
        if request.within is not None and not isinstance(request.within, Mapping):
            request = replace(request, within={self.query.outputs[1].name: request.within})
        return super().least_price(request, priced)

    def bought_tip(self) -> Tip | None:
        """Advise to find another limit or bound privately, where a count that was bought before says that this one cuts
        much; None where nothing was bought, or little is cut.
        """
        bought = self.bought_answer()
        return None if bought is None else self._tip_if_large_share(bought)

    def bought_answer(self) -> Answer | None:
        """Return the count that was bought before, of whatever accuracy; None where none was. Free."""
        context, prepared = self._context, self.price_release(PriceRequest(_ANY_ACCURACY))
        request = ReleaseRequest(self.text, self.identity, context.engine.identity(), context.analyst)
        stored, _ = find_stored(self.release_strategy(prepared), request, context.account)
        return None if stored is None else self.build_answer(stored, DEFAULT_CONFIDENCE, False)

    def _tip_if_large_share(self, answer: Answer) -> Tip | None:
        share, interval = answer.column("share")[0], answer.intervals["share"][0]
        if share is None or interval is None or interval[0] < _LARGE_SHARE:
            return None
        cut, table = format_percent(Fraction(round(1000 * share), 1000)), self.query.plan.table
        if self.column is None:
            cause, change = f"{cut} of units have {self.name}", f'curator.limits("{table}")'
            now, then = "the policy's", "limits that leave 95 % of the units whole"
        else:
            cause = f"{cut} of the values have {self.name}"
            change = f'curator.bounds("{self.column.table}", "{self.column.name}")'
            now, then = "the policy's", "bounds that cover 99 % of the values"
        return Tip(cause, Fraction(round(100 * share), 100), change, "share", now, then)


def propose_clipped(context: Context, question: Question) -> WorkloadProposal:
    """Propose to count the units beyond each limit of a question, and the cells beyond each bound. Free."""
    context.require_one_account("a count of the rows and values beyond limits and bounds")
    counts = clipping_questions(question.query, question.limits, question.max_groups_per_unit)
    if not counts:
        raise Unsupported(
            "nothing-clipped",
            "there is nothing to count: no limit or bound removes data from this answer, or what is removed cannot be "
            "counted",
            fix="release the answer itself",
        )
    return ClippedProposal(
        context, {count.name: _counting_question(context, count, question) for count in counts}, question
    )


@dataclass(frozen=True)
class ClippedProposal(WorkloadProposal):
    """A proposal to count what limits and bounds cut from one question."""

    about: Question | None = None
    """The question that is cut."""

    def combine_answers(self, answers: Mapping[str, Answer], receipt: Receipt | None) -> Answers:
        """Put the counts together, with the worst case that they prove below the last of them."""
        assert self.about is not None
        columns = {name: cast("ClippedQuestion", question).column for name, question in self.questions.items()}
        row_limits = self.about.row_limits("")
        cases = worst_cases(self.about.query, row_limits)
        lines = _worst_case_lines(cases, {columns[name]: answer for name, answer in answers.items()}, row_limits.unit)
        *_, last = answers
        advice = "; ".join(f"{escape_unprintable(name)}: {line}" for name, line in lines.items())
        advised_answers = {**answers, last: replace(answers[last], advice=advice)} if advice else answers
        return super().combine_answers(advised_answers, receipt)


def caveat_with_worst_case_by_column(question: Question, joined_strategies: str) -> dict[str, str]:
    """Name what can move each column, with its worst case if it has one: by counts if all were bought, else by limits
    alone. Free.
    """
    cache = question.cached_caveats
    if joined_strategies not in cache:
        limits = question.row_limits(joined_strategies)
        cache[joined_strategies] = (
            caveat_by_column(question.query, limits),
            worst_cases(question.query, limits),
            limits.unit,
        )
    lines, cases, unit = cache[joined_strategies]
    if not cases:
        return lines
    worst = {name: case.describe(unit) for name, case in cases.items()}
    with suppress(Unsupported):
        bought = {count.column: count.bought_answer() for count in question.clipped().questions.values()}
        counts = {column: answer for column, answer in bought.items() if answer is not None}
        worst |= _worst_case_lines(cases, counts, unit)
    return with_worst_cases(lines, worst)


def _worst_case_lines(
    cases: Mapping[str, WorstCase], answer_by_column: Mapping[Field | None, Answer], unit: str
) -> dict[str, str]:
    """Describe the worst case of each column all of whose counts are at hand."""
    lines = {}
    for name, case in cases.items():
        cut_counts = _cut_counts(
            case, {"" if column is None else str(column): answer_by_column[column] for column in answer_by_column}
        )
        if cut_counts is not None:
            confidence = format_percent(next(iter(answer_by_column.values())).receipt.confidence)
            lines[name] = case.describe_counted(cut_counts, unit, confidence)
    return lines


def _cut_counts(case: WorstCase, counts: Mapping[str, Answer]) -> CutCounts | None:
    """Return the ends of the ranges of a worst case's counts; None where one of them was not bought."""
    cells, units = counts.get(case.value) if case.value else None, counts.get("")
    if (case.value and cells is None) or (case.limits_rows and units is None):
        return None
    beyond = _nonnegative_interval(units, "units beyond")[1] if units is not None and case.limits_rows else Fraction(0)
    if cells is None:
        return CutCounts(beyond)
    clamped, share, present = (_nonnegative_interval(cells, column) for column in ("clamped cells", "share", "cells"))
    return CutCounts(beyond, clamped[1], min(share[1], Fraction(1)), present[0])


def _nonnegative_interval(answer: Answer, column: str) -> tuple[Fraction, Fraction]:
    """Return the range of an answer's only number, at least 0; where noise hides a share, that of any share."""
    interval = answer.intervals[column][0]
    low, high = (0.0, 1.0) if interval is None else interval
    return max(Fraction(0), Fraction(low)), max(Fraction(0), Fraction(high))


def _counting_question(context: Context, count: ClippingQuestion, question: Question) -> ClippedQuestion:
    text = f"{count.name}: {' '.join(question.text.split())}"
    return ClippedQuestion(context, text, count.query, count.limits, count.strategy, question, count.name, count.column)
