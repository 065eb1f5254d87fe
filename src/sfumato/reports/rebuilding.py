"""A bought answer is made again from the ledger and the policy: no row is read, and nothing is spent.

The ledger keeps what was drawn, which is public, and the question; the policy says how both are read. A question is
understood over tables without rows, and what was drawn is shown for it only if the hash of what it measures is that of
the line. So an answer is never shown for another question, or under another policy, than the one it was drawn for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from sfumato.curator.context import Context
from sfumato.curator.proposals.found_bounds import Bounds
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.running_counts import RunningTotals, running_totals
from sfumato.engine.empty_sources import without_data
from sfumato.engine.opening import open_engine
from sfumato.engine.seam import Engine
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.ledger import Account, Ledger, Line
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy
from sfumato.privacy import codec
from sfumato.publish.marginals.measuring import Published, noise_words
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.answer import Answer
from sfumato.release.measured import Measured
from sfumato.release.proposal import receipt
from sfumato.release.purchases import Purchase
from sfumato.release.releasing import Released, quietly
from sfumato.release.running_totals import RunningMeasured

T = TypeVar("T")
P = TypeVar("P", Question, RunningTotals)
_CONFIDENCE = "0.95"
OF_A_MODEL = "What was drawn here is a part of something larger, such as a model, which is in a file of its own."
CHANGED = (
    "The policy has changed since this was answered, so that the answer cannot be made again: to show it, report with "
    "the policy as it was then."
)
_NUMBER = re.compile(r"\d[\d,]*\b")


@dataclass(frozen=True)
class Rebuilder:
    """This makes answers again for the questions of one policy's account."""

    ledger: Ledger
    context: Context
    catalog: Catalog

    def answer(self, question: str, line: Line) -> Answer | None:
        """Make the answer that a line holds to this question; None where the line holds something else, or the policy
        has changed since.
        """
        found = self._released(line, Measured)
        if found is not None:
            asked = self._asked(question, line.plan, found.value.purchase, lambda each: each)
            return None if asked is None else asked.answered(found, _CONFIDENCE, joint=False)
        drawn = self._released(line, RunningMeasured)
        if drawn is None:
            return None
        totals = self._asked(question, line.plan, drawn.value.purchase, lambda each: running_totals(self.context, each))
        return None if totals is None else totals.answered(drawn, _CONFIDENCE, joint=False)

    def synopsis(self, question: str, line: Line) -> Synopsis | None:
        """Make the synopsis that a line holds; None where it holds something else. It says itself what it is of."""
        found = self._released(line, Published)
        if found is None:
            return None
        words = (noise_words(found.value.plan),)
        told = receipt(found, found.value.purchase, words, question=question, here=self.context, confidence=_CONFIDENCE)
        return Synopsis(found.value, told)

    def note(self, line: Line) -> str:
        """Say what a line holds that is neither rows nor a synopsis, or why its rows cannot be made again."""
        bounds = self._released(line, Bounds)
        if bounds is not None:
            return f"Found were bounds of {bounds.value.words()}."
        if self._released(line, Measured) is None and self._released(line, RunningMeasured) is None:
            return OF_A_MODEL
        return CHANGED

    def _released(self, line: Line, kind: type[T]) -> Released[T] | None:
        """Read what a line holds, if it is of this kind."""
        body = self.ledger.body(line)
        if not body or json.loads(body).get("kind") != codec.kind(kind):
            return None
        value = codec.loads_as(kind, body, longest=len(body))
        return Released(value, line.number, line.time, line.hash, free=False)

    def _asked(self, text: str, plan: str, bought: Purchase, made: Callable[[Question], P]) -> P | None:
        """Understand the question with the limits that it was bought under, if what is made of it then is what the line
        measured.
        """
        try:
            query = parse(text, self.catalog)
            every = product(_limits(query.plan.limits, bought.limits), _strategies(bought.strategy))
            for limits, strategy in every:
                asked = made(Question(self.context, text, query, limits, strategy))
                if asked.identity == plan:
                    return asked
        except SfumatoError:
            return None  # the policy no longer has what it asks about
        return None


def _limits(usual: Limits, words: str) -> Iterator[Limits]:
    """Give the limits that a question has by itself, and those that its purchase says in words; which of them it was
    bought under, the hash of what it measures decides.
    """
    yield usual
    numbers = [int(each.replace(",", "")) for each in _NUMBER.findall(words)]
    named = [(None, number) for number in numbers[:3]]
    for rows, groups, rows_per_group in product(*named, *[(None,)] * (3 - len(named))):
        with suppress(InvalidParameter):  # larger than the policy allows now
            yield usual.tighten(rows, groups, rows_per_group)


def _strategies(words: str) -> tuple[Strategy | None, ...]:
    known = {each.value: each for each in Strategy}
    return (None, known[words]) if words in known else (None,)


@contextmanager
def rebuilder(policy: Policy, ledger: Ledger, account: Account) -> Iterator[Rebuilder]:
    """Open a policy without its private tables; public ones are opened as far as they are there."""
    engine = _opened(policy)
    try:
        opened = replace(without_data(policy), per=policy.per)
        context = Context(opened, engine, account, quietly, "no version", told=policy)
        yield Rebuilder(ledger, context, engine.catalog())
    finally:
        engine.close()


def _opened(policy: Policy) -> Engine:
    empty = without_data(policy)
    public = {name: each for name, each in policy.tables.items() if each.public}
    try:
        return open_engine(replace(empty, tables={**empty.tables, **public}))
    except SfumatoError:
        return open_engine(empty)
