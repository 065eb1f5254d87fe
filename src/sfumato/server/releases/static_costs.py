"""Free work is counted by what it takes to answer: it must not take a server's time from everybody else.

That is decided by what was sent, the policy and the price alone, never by rows, and it is known before the work is
done. A workload counts by its questions, and everything by the bytes of what was sent. What a proposal is made of
counts once it is made: the groups of a question, the sets of columns of marginals, the pairs of periods of running
totals. A rehearsal takes longest. How long
is forecast before any row is invented; it counts as the questions that could be asked meanwhile, and one that would
take too long is refused. A model that is fitted in rounds counts as a question for each of them, and a price that is
found for a width, which is tried at many prices, as one for each column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sfumato.curator.proposals.degrees import DegreeHistogram
from sfumato.curator.proposals.marginals import MarginalsProposal
from sfumato.curator.proposals.mwem import MwemProposal
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.running_counts import RunningTotals
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.curator.proposals.workloads import Workload
from sfumato.errors import Unsupported
from sfumato.server.releases.running_releases import written

LONGEST = 10.0
"""The seconds that a rehearsal may be expected to take here."""
BYTES, QUESTIONS, SETS, GROUPS, LINES = 512, 4, 25, 2000, 200
"""So many of these take about as long as one more question; of lines, those of a ledger that are read."""
_REHEARSAL = 5
_GROUP_SECONDS, _CELL_SECONDS = 1e-4, 1.5e-5
"""What a rehearsal takes for each group of a question, and for each cell of marginals, at most (measured)."""
_PERIOD_PAIR_SECONDS = 3e-6
"""What it takes to choose how running totals are measured, for each pair of periods (measured: 13 s for 2,000)."""


def for_what_was_sent(act: str, spec: Mapping[str, Any]) -> int:
    """Say as how many free questions one counts, by its text alone: before anything is made of it."""
    first = _REHEARSAL if act == "rehearse" else 1
    return first + max(0, len(spec.get("questions", ())) - 1) // QUESTIONS + len(written(spec)) // BYTES


def for_what_is_proposed(proposal: Any, act: str, price: Mapping[str, Any], per_second: float) -> int:
    """Say as how many free questions more one counts, by what is proposed, before it is answered."""
    if act in ("propose", "columns"):
        return 0
    more = sum(len(each.groups) for each in _questions(proposal)) // GROUPS
    if isinstance(proposal, RunningTotals):
        more += int(_PERIOD_PAIR_SECONDS * len(proposal.periods) ** 2 * per_second)
    if isinstance(proposal, MarginalsProposal):
        more += len(proposal.workload.sets) // SETS
    if price.get("within") is not None:
        more += len(proposal.columns) - 1
    return more + _rehearsed(proposal, price, per_second) if act == "rehearse" else more


def _questions(proposal: Any) -> Iterator[Question]:
    """List the questions whose groups are known."""
    if isinstance(proposal, Question):
        yield proposal
    elif isinstance(proposal, DegreeHistogram | RunningTotals):
        yield proposal.question
    elif isinstance(proposal, Workload):
        yield from proposal.questions.values()


def _rehearsed(proposal: Any, price: Mapping[str, Any], per_second: float) -> int:
    """Count the questions that could be asked while a rehearsal runs; one that takes too long is refused."""
    if isinstance(proposal, MwemProposal):
        return proposal.rounds
    seconds = _seconds(proposal, price)
    if seconds > LONGEST:
        raise Unsupported(
            "long-rehearsal",
            f"a rehearsal takes at most {LONGEST:g} s at a server, and this one is expected to take {seconds:.3g} s",
            fix="rehearse fewer groups, rows (rows=1000) or columns, or smaller sets of them; or, as the owner, "
            "without the server",
        )
    return int(seconds * per_second)


def _seconds(proposal: Any, price: Mapping[str, Any]) -> float:
    """Say how long a rehearsal takes, beyond what every one does."""
    if isinstance(proposal, SynthesisProposal):
        return proposal.forecast(**price).seconds
    if isinstance(proposal, MarginalsProposal):
        sizes = [each.size for each in proposal.attributes]
        return _CELL_SECONDS * sum(math.prod(sizes[place] for place in each) for each in proposal.workload.sets)
    return _GROUP_SECONDS * sum(len(each.groups) for each in _questions(proposal))
