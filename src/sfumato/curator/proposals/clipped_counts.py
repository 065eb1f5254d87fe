"""Propose to count what limits and bounds cut from an answer: a workload, bought as one batch (proofs: ``clipping``).

The counts are charged like any questions, are stored, and are free again. What a limit cuts is private: nothing about
it is shown before it is paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.curator.context import Context
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.workloads import WorkloadProposal
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import Distinct
from sfumato.plan.caveats import number_caveats
from sfumato.plan.clipping import ClippedCount, clipped_counts
from sfumato.release.prices import Price
from sfumato.release.requests import PriceRequest


@dataclass(frozen=True)
class ClippedQuestion(Question):
    """A question about what a limit or bound cuts from another one."""

    about: Question | None = None
    """The question that is cut: the same conditions select its rows."""
    counts_cells: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.about is None else self.about.warnings

    def caveats(self, strategies: str) -> dict[str, str]:
        """Name what moves these counts: what selects the rows, and for cells the limit on rows too."""
        if self.counts_cells or self.about is None:
            return super().caveats(strategies)
        units = tuple(Distinct() for _ in self.query.plan.measures)
        plan = replace(self.query.plan, source=self.about.query.plan.source, measures=units)
        return number_caveats(replace(self.query, plan=plan), self.row_limits(strategies))

    def least_price(self, request: PriceRequest, priced: Callable[[Fraction], Price] | None = None) -> Fraction:
        """Find the least price; a single half-width is that of the number beyond the limit: a share has none."""
        if request.within is not None and not isinstance(request.within, Mapping):
            request = replace(request, within={self.query.outputs[1].name: request.within})
        return super().least_price(request, priced)


def propose_clipped(context: Context, question: Question) -> WorkloadProposal:
    """Propose to count the units beyond each limit of a question, and the cells beyond each bound. Free."""
    context.require_one_account("a count of what limits and bounds cut")
    counts = clipped_counts(question.query, question.limits, question.max_groups_per_unit)
    if not counts:
        raise Unsupported(
            "nothing-clipped",
            "no limit or bound that can be counted moves this answer",
            fix="ask for the answer alone; a line beside each number names what else can move it",
        )
    if any(count.counts_cells for count in counts) and not context.engine.reads_clamped_cells:
        raise Unsupported(
            "clamped-cells",
            "cells beyond a bound cannot be counted on this engine, which reads declared columns only",
            fix="ask the owner for sfumato check, or for bounds found privately: curator.bounds(table, column)",
        )
    return WorkloadProposal(context, {count.name: _question(context, count, question) for count in counts})


def _question(context: Context, count: ClippedCount, question: Question) -> ClippedQuestion:
    text = f"{count.name}: {' '.join(question.text.split())}"
    return ClippedQuestion(context, text, count.query, count.limits, count.strategy, question, count.counts_cells)
