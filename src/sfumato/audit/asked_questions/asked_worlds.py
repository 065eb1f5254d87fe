"""Two worlds of a question are a policy's real path over two invented tables that are neighbours.

What is asked may be any proposal of a curator: a question, a workload, a session, marginals; but no synthetic table, of
which canaries in one run tell more (``canary_guesses``). It is made again to curators of the same policy over
neighbouring tables, each with an account that is thrown away, and bought there as often as samples are wanted. Neither
the owner's rows nor the owner's budget has a part in it.

Releases are bought by processes of their own, one for each world: as many as there are processors work at once.

A process is told a policy over invented tables, a question and a price, and tells what each release told. Everything
goes the whole way: text, plan, charge in a ledger that is thrown away, rows, noise, answer.
"""

from __future__ import annotations

import inspect
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from sfumato.audit.asked_questions.compared_outcomes import Ask, Coordinates, Numbers, Told, told
from sfumato.audit.asked_questions.replayed_totals import Pair, Replayed, record, replayed
from sfumato.audit.invented_tables import NeighbouringTables, neighbours_of
from sfumato.curator import Curator, Question
from sfumato.curator.previews.rehearsing import policy_of
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.engine.opening import open_engine
from sfumato.errors import InvalidParameter, SfumatoError, WeakPrivacy
from sfumato.plan.limits import Limits, Strategy
from sfumato.policy import Policy
from sfumato.privacy import Guarantee
from sfumato.release.requests import Request

_MEMORY = Path("/dev/shm")
_CODE = "from sfumato.audit.asked_questions.asked_worlds import serve; serve()"


@dataclass(frozen=True)
class AskedText:
    """This asks a question in SQL, with limits and a strategy where those are not the policy's."""

    text: str
    limits: Limits | None = None
    strategy: Strategy | None = None

    def __call__(self, curator: Curator) -> Any:
        asked: Any = curator.sql(self.text)
        changed = self.limits is not None and self.limits != asked.limits
        return replace(asked, limits=self.limits, strategy=self.strategy) if changed or self.strategy else asked


@dataclass(frozen=True)
class Job:
    """This is what one process does: so many releases of one proposal, or as many as there is time for."""

    policy: Policy
    ask: Ask
    price: dict[str, Any]
    count: int
    until: float
    """The time, as ``time.time`` tells it, after which no release is begun."""


@contextmanager
def throw_away(policy: Policy) -> Iterator[Curator]:
    """Open a curator over invented tables, with a ledger that is thrown away: in memory where there is a folder for
    that, since it need not outlive this.
    """
    folder = str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="sfumato-", dir=folder) as kept:
        warnings.simplefilter("ignore", WeakPrivacy)
        with Curator(policy, Path(kept) / "invented.ledger", seconds=None, threads=1) as curator:
            yield curator


def bought(curator: Curator, job: Job) -> list[Told]:
    """Buy the releases of a job one by one, each with a charge and noise of its own."""
    proposal = job.ask(curator)
    found: list[Told] = []
    while len(found) < job.count and (len(found) < 2 or time.time() < job.until):
        found.append(told(proposal.release(**job.price)))
    return found


def serve() -> None:
    """Run one job after the other for the process that began this one, until there is none."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr
    opened: tuple[bytes, Curator] | None = None
    with ExitStack() as stack:
        while True:
            try:
                job: Job = pickle.load(source)
            except EOFError:
                return
            key = pickle.dumps(job.policy)
            if opened is None or opened[0] != key:
                stack.pop_all().close()
                opened = key, stack.enter_context(throw_away(job.policy))
            try:
                found: Any = bought(opened[1], job)
            except SfumatoError as refused:
                found = str(refused)
            pickle.dump(found, sink)
            sink.flush()


class SamplingProcesses:
    """These are two processes that buy releases, begun when they are first wanted and ended with this."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._running:
            for stream in (each.stdin, each.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            each.wait()

    def buy(self, jobs: Sequence[Job]) -> list[list[Told]]:
        """Run two jobs at once, and give what the releases of each told."""
        while len(self._running) < len(jobs):
            self._running.append(_begun())
        for process, job in zip(self._running, jobs, strict=False):
            assert process.stdin is not None
            pickle.dump(job, process.stdin)
            process.stdin.flush()
        found = [pickle.load(process.stdout) for process in self._running[: len(jobs)] if process.stdout is not None]
        for each in found:
            if isinstance(each, str):
                raise SfumatoError(each, place="a process of the audit", fix="ask what the policy answers")
        return found


def _begun() -> subprocess.Popen[bytes]:
    """Begin a process that imports what this one does, from the same places."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", _CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


PILOT = 0.2
"""As many releases more, as a share of the samples, tell beforehand what is looked at."""
LEAST_PILOT = 30
_TOGETHER = 400
"""From so many samples on, two processes are worth beginning."""

Sampler = Callable[[int], Numbers]


def asked_worlds(
    question: Any, claim: Guarantee, samples: int, *, price: Mapping[str, Any] | None = None
) -> tuple[Sampler, Sampler]:
    """Buy so many releases of a question in each of two neighbouring worlds, at the price that is claimed, and give
    them as a pair of functions from a count to that many rows of numbers.

    ``price`` is what is really paid where that is another than the claim: whoever claims less than they paid for is to
    be caught. The pair is the one in which exact totals differ most, as a share of what the noise was made for.
    """
    policy = policy_of(question)
    if policy is None:
        raise InvalidParameter("question", question, "a proposal of a curator, such as curator.sql(…)")
    if isinstance(question, SynthesisProposal):
        fix = "plant canaries in one run of it: audit.plant and audit.one_run"
        raise InvalidParameter("question", question, "a proposal whose answers are numbers, not a table", fix=fix)
    tables, paid = neighbours_of(policy), dict(price or paid_for(question, claim))
    pair = telling_pair(question, claim, tables)
    pilot = max(LEAST_PILOT, math.ceil(samples * PILOT))
    first, second = _bought(question, tables, pair, paid, samples + pilot)
    made = Coordinates.of(first[:pilot], second[:pilot])
    numbers = made.numbers(first[pilot:]), made.numbers(second[pilot:])
    return (lambda count: numbers[0][:count]), (lambda count: numbers[1][:count])


def paid_for(question: Any, claim: Guarantee) -> dict[str, Any]:
    """Say how a release is called for at the price of a claim."""
    taken = inspect.signature(question.release).parameters
    price: dict[str, Any] = {"epsilon": claim.epsilon}
    price |= {"delta": claim.delta} if claim.delta and "delta" in taken else {}
    return price | ({"fresh": True} if "fresh" in taken else {})


def telling_pair(question: Any, claim: Guarantee, tables: NeighbouringTables) -> Pair:
    """Choose the neighbours whose exact totals differ most; for what has no totals, the unit with most rows."""
    if isinstance(question, Question):
        found = replayed_question(question, claim, tables)
        if found.telling is not None:
            return found.telling
    return largest_pair(tables)


def largest_pair(tables: NeighbouringTables) -> Pair:
    """Choose the neighbours of which one has most rows."""
    return max(tables.pairs, key=lambda pair: sum(each.num_rows for each in pair[1].tables.values()))


def replayed_question(question: Question, claim: Guarantee, tables: NeighbouringTables) -> Replayed:
    """Compare the exact totals of a question in all neighbouring tables with what its noise is made for."""
    with ExitStack() as stack:
        engines = {}
        for each in tables.populations:
            engines[each.name] = open_engine(tables.opened(each), None, 1)
            stack.callback(engines[each.name].close)
        curator = stack.enter_context(throw_away(tables.opened(tables.others)))
        asked = curator.again(question)
        return replayed(record(asked, asked.prepared(Request(claim.epsilon, claim.delta)), engines), tables.pairs)


def _bought(
    question: Any, tables: NeighbouringTables, pair: Pair, price: dict[str, Any], count: int
) -> list[list[Told]]:
    """Buy releases in both worlds: in two processes where a question is a text that means the same there."""
    policies = [tables.opened(each) for each in pair]
    text = _as_text(question, policies[0]) if count >= _TOGETHER else None
    if text is not None:
        with SamplingProcesses() as processes:
            return processes.buy([Job(each, text, price, count, math.inf) for each in policies])
    return [bought_here(policy, _Moved(question), price, count) for policy in policies]


def bought_here(policy: Policy, ask: Ask, price: dict[str, Any], count: int, until: float = math.inf) -> list[Told]:
    """Buy releases in this process."""
    with throw_away(policy) as curator:
        return bought(curator, Job(policy, ask, price, count, until))


@dataclass(frozen=True)
class _Moved:
    """This makes a proposal again that was made to another curator."""

    proposal: Any

    def __call__(self, curator: Curator) -> Any:
        return curator.again(self.proposal)


def _as_text(question: Any, policy: Policy) -> AskedText | None:
    """Give the text of a question where the text says all of it; None for what was put together otherwise."""
    if type(question) is not Question:
        return None
    with throw_away(policy) as curator:
        asked = AskedText(question.text, question.limits, question.strategy)
        try:
            same = asked(curator)
        except InvalidParameter:
            return None
        return asked if curator.again(question) == same else None
