"""Sample a proposal end to end on two neighbouring generated tables of its policy.

The proposal may be anything a curator sells: a query, a workload, a session, marginals; but not a synthetic table,
which ``audit.plant`` and ``audit.one_run`` audit better. It is proposed again to curators of the same policy over
neighbouring tables, each with a temporary account, and released there once per sample. Neither the owner's rows nor
the owner's budget are used.

Releases run in worker processes, one per world. A worker receives a policy over generated tables, a query and a price,
and returns the content of each release. Every release runs the full path: parsing, planning, charging a temporary
ledger, reading, noise, answer.
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

_MEMORY_FOLDER = Path("/dev/shm")
_WORKER_CODE = "from sfumato.audit.asked_questions.asked_worlds import serve; serve()"


@dataclass(frozen=True)
class AskedText:
    """Make a query from SQL, with limits and a strategy if they differ from the policy's."""

    text: str
    limits: Limits | None = None
    strategy: Strategy | None = None

    def __call__(self, curator: Curator) -> Any:
        question: Any = curator.sql(self.text)
        limits_differ = self.limits is not None and self.limits != question.limits
        return (
            replace(question, limits=self.limits, strategy=self.strategy)
            if limits_differ or self.strategy
            else question
        )


@dataclass(frozen=True)
class Job:
    """The task of one worker: ``count`` releases of one proposal, or as many as fit before ``until``."""

    policy: Policy
    ask: Ask
    price: dict[str, Any]
    count: int
    until: float
    """The deadline, in ``time.time`` seconds, after which no release starts."""


@contextmanager
def throw_away(policy: Policy) -> Iterator[Curator]:
    """Open a curator over generated tables with a temporary ledger, kept in memory if /dev/shm is writable."""
    parent_folder = str(_MEMORY_FOLDER) if os.access(_MEMORY_FOLDER, os.W_OK) else None
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="sfumato-", dir=parent_folder) as ledger_folder:
        warnings.simplefilter("ignore", WeakPrivacy)
        with Curator(policy, Path(ledger_folder) / "invented.ledger", seconds=None, threads=1) as curator:
            yield curator


def bought(curator: Curator, job: Job) -> list[Told]:
    """Make the releases of a job one by one, each with its own charge and noise."""
    proposal = job.ask(curator)
    releases: list[Told] = []
    while len(releases) < job.count and (len(releases) < 2 or time.time() < job.until):
        releases.append(told(proposal.release(**job.price)))
    return releases


def serve() -> None:
    """Run jobs from standard input until it ends; the entry point of a worker process."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr
    open_curator: tuple[bytes, Curator] | None = None
    with ExitStack() as stack:
        while True:
            try:
                job: Job = pickle.load(source)
            except EOFError:
                return
            policy_bytes = pickle.dumps(job.policy)
            if open_curator is None or open_curator[0] != policy_bytes:
                stack.pop_all().close()
                open_curator = policy_bytes, stack.enter_context(throw_away(job.policy))
            try:
                reply: Any = bought(open_curator[1], job)
            except SfumatoError as refusal:
                reply = str(refusal)
            pickle.dump(reply, sink)
            sink.flush()


class SamplingProcesses:
    """Worker processes that sample releases, started on first use and stopped on exit."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            process.wait()

    def buy(self, jobs: Sequence[Job]) -> list[list[Told]]:
        """Run one job per worker in parallel and return the releases of each."""
        while len(self._running) < len(jobs):
            self._running.append(_start_worker())
        for process, job in zip(self._running, jobs, strict=False):
            assert process.stdin is not None
            pickle.dump(job, process.stdin)
            process.stdin.flush()
        replies = [pickle.load(process.stdout) for process in self._running[: len(jobs)] if process.stdout is not None]
        for reply in replies:
            if isinstance(reply, str):
                raise SfumatoError(reply, place="a process of the audit", fix="audit a query that the policy answers")
        return replies


def _start_worker() -> subprocess.Popen[bytes]:
    """Start a worker with this process's import path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER_CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


PILOT = 0.2
"""Additional pilot releases, as a share of the samples, that choose the compared cells."""
LEAST_PILOT = 30
_MIN_PARALLEL_SAMPLES = 400
"""The least number of samples for which starting two workers pays off."""

Sampler = Callable[[int], Numbers]


def asked_worlds(
    question: Any, claim: Guarantee, samples: int, *, price: Mapping[str, Any] | None = None
) -> tuple[Sampler, Sampler]:
    """Sample a proposal in two neighbouring worlds at the claimed price; return a sampler of numeric rows per world.

    ``price`` is what is really paid, if that differs from the claim: a claim below the real cost should be refuted.
    The chosen neighbours are those whose exact totals differ most relative to the claimed sensitivity.
    """
    policy = policy_of(question)
    if policy is None:
        raise InvalidParameter("question", question, "a proposal of a curator, such as curator.sql(…)")
    if isinstance(question, SynthesisProposal):
        fix = "audit it with canaries in one run: audit.plant and audit.one_run"
        raise InvalidParameter("question", question, "a proposal whose answers are numbers, not a table", fix=fix)
    tables, price_arguments = neighbours_of(policy), dict(price or paid_for(question, claim))
    pair = telling_pair(question, claim, tables)
    pilot = max(LEAST_PILOT, math.ceil(samples * PILOT))
    first, second = _sample_releases(question, tables, pair, price_arguments, samples + pilot)
    coordinates = Coordinates.of(first[:pilot], second[:pilot])
    numbers = coordinates.numbers(first[pilot:]), coordinates.numbers(second[pilot:])
    return (lambda count: numbers[0][:count]), (lambda count: numbers[1][:count])


def paid_for(question: Any, claim: Guarantee) -> dict[str, Any]:
    """Return the arguments of ``release`` for the price of a claim."""
    parameters = inspect.signature(question.release).parameters
    price: dict[str, Any] = {"epsilon": claim.epsilon}
    price |= {"delta": claim.delta} if claim.delta and "delta" in parameters else {}
    return price | ({"fresh": True} if "fresh" in parameters else {})


def telling_pair(question: Any, claim: Guarantee, tables: NeighbouringTables) -> Pair:
    """Return the neighbours whose exact totals differ most; without totals, those with the most rows."""
    if isinstance(question, Question):
        replay = replayed_question(question, claim, tables)
        if replay.telling is not None:
            return replay.telling
    return largest_pair(tables)


def largest_pair(tables: NeighbouringTables) -> Pair:
    """Return the neighbours whose second table set has the most rows."""
    return max(tables.pairs, key=lambda pair: sum(table.num_rows for table in pair[1].tables.values()))


def replayed_question(question: Question, claim: Guarantee, tables: NeighbouringTables) -> Replayed:
    """Compare the exact totals of a query on all neighbours with its claimed sensitivity."""
    with ExitStack() as stack:
        engines = {}
        for population in tables.populations:
            engines[population.name] = open_engine(tables.opened(population), None, 1)
            stack.callback(engines[population.name].close)
        curator = stack.enter_context(throw_away(tables.opened(tables.others)))
        same_question = curator.again(question)
        return replayed(
            record(same_question, same_question.prepared(Request(claim.epsilon, claim.delta)), engines), tables.pairs
        )


def _sample_releases(
    question: Any, tables: NeighbouringTables, pair: Pair, price: dict[str, Any], count: int
) -> list[list[Told]]:
    """Release in both worlds: in two workers if the query is fully given by its SQL text."""
    policies = [tables.opened(population) for population in pair]
    text = _as_sql(question, policies[0]) if count >= _MIN_PARALLEL_SAMPLES else None
    if text is not None:
        with SamplingProcesses() as processes:
            return processes.buy([Job(policy, text, price, count, math.inf) for policy in policies])
    return [bought_here(policy, _Reproposal(question), price, count) for policy in policies]


def bought_here(policy: Policy, ask: Ask, price: dict[str, Any], count: int, until: float = math.inf) -> list[Told]:
    """Sample releases in this process."""
    with throw_away(policy) as curator:
        return bought(curator, Job(policy, ask, price, count, until))


@dataclass(frozen=True)
class _Reproposal:
    """Make a proposal of another curator again."""

    proposal: Any

    def __call__(self, curator: Curator) -> Any:
        return curator.again(self.proposal)


def _as_sql(question: Any, policy: Policy) -> AskedText | None:
    """Return the SQL of a query if it determines the whole query, else None."""
    if type(question) is not Question:
        return None
    with throw_away(policy) as curator:
        sql_query = AskedText(question.text, question.limits, question.strategy)
        try:
            reparsed = sql_query(curator)
        except InvalidParameter:
            return None
        return sql_query if curator.again(question) == reparsed else None
