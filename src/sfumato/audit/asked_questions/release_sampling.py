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
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from sfumato.audit.asked_questions.neighbouring_outcomes import (
    Ask,
    Numbers,
    Pair,
    ReleaseCells,
    ReleaseFeatures,
    ReplayResult,
    compare_recorded_totals,
    flatten_release,
    record_totals,
)
from sfumato.audit.generated_tables import NeighbouringTables, neighbours_of
from sfumato.curator import Curator, Question
from sfumato.curator.previews.previewing import proposal_policy
from sfumato.curator.proposals.linked_tables import LinkedTablesProposal
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.engine.opening import open_engine
from sfumato.errors import InvalidParameter, SfumatoError, WeakPrivacy
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.policy import Policy
from sfumato.privacy import Guarantee
from sfumato.quick_dataclass import dataclass
from sfumato.release.requests import PriceRequest

_MEMORY_FOLDER = Path("/dev/shm")
_WORKER_CODE = "from sfumato.audit.asked_questions.release_sampling import run_worker; run_worker()"


@dataclass(frozen=True)
class SqlQuestion:
    """Make a query from SQL, with limits and a strategy if they differ from the policy's."""

    text: str
    limits: ContributionLimits | None = None
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
class SamplingJob:
    """The task of one worker: ``count`` releases of one proposal, or as many as fit before ``until``."""

    policy: Policy
    ask: Ask
    price: dict[str, Any]
    count: int
    deadline: float
    """The deadline, in ``time.time`` seconds, after which no release starts."""


@contextmanager
def temporary_curator(policy: Policy) -> Iterator[Curator]:
    """Open a curator over generated tables with a temporary ledger, kept in memory if /dev/shm is writable."""
    parent_folder = str(_MEMORY_FOLDER) if os.access(_MEMORY_FOLDER, os.W_OK) else None
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="sfumato-", dir=parent_folder) as ledger_folder:
        warnings.simplefilter("ignore", WeakPrivacy)
        with Curator(policy, Path(ledger_folder) / "invented.ledger", seconds=None, threads=1) as curator:
            yield curator


def sample_releases(curator: Curator, job: SamplingJob) -> list[ReleaseCells]:
    """Make the releases of a job one by one, each with its own charge and noise."""
    proposal = job.ask(curator)
    releases: list[ReleaseCells] = []
    while len(releases) < job.count and (len(releases) < 2 or time.time() < job.deadline):
        releases.append(flatten_release(proposal.release(**job.price)))
    return releases


def run_worker() -> None:
    """Run jobs from standard input until it ends; the entry point of a worker process."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr
    open_curator: tuple[bytes, Curator] | None = None
    with ExitStack() as stack:
        while True:
            try:
                job: SamplingJob = pickle.load(source)
            except EOFError:
                return
            policy_bytes = pickle.dumps(job.policy)
            if open_curator is None or open_curator[0] != policy_bytes:
                stack.pop_all().close()
                open_curator = policy_bytes, stack.enter_context(temporary_curator(job.policy))
            try:
                reply: Any = sample_releases(open_curator[1], job)
            except SfumatoError as refusal:
                reply = str(refusal)
            pickle.dump(reply, sink)
            sink.flush()


class SamplingWorkers:
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

    def sample(self, jobs: Sequence[SamplingJob]) -> list[list[ReleaseCells]]:
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
                raise SfumatoError(reply, place="an audit worker", fix="audit a question that the policy answers")
        return replies


def _start_worker() -> subprocess.Popen[bytes]:
    """Start a worker with this process's import path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER_CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


PILOT_SHARE = 0.2
"""Additional pilot releases, as a share of the samples, that choose the compared cells."""
MIN_PILOT = 30
_MIN_PARALLEL_SAMPLES = 400
"""The least number of samples for which starting two workers pays off."""

Sampler = Callable[[int], Numbers]


def sample_proposal(
    question: Any, claim: Guarantee, samples: int, *, price: Mapping[str, Any] | None = None
) -> tuple[Sampler, Sampler]:
    """Sample a proposal in two neighbouring worlds at the claimed price; return a sampler of numeric rows per world.

    ``price`` is what is really paid, if that differs from the claim: a claim below the real cost should be refuted.
    The chosen neighbours are those whose exact totals differ most relative to the claimed sensitivity.
    """
    policy = proposal_policy(question)
    if policy is None:
        raise InvalidParameter("question", question, "the result of a curator's method, such as curator.sql(…)")
    if isinstance(question, SynthesisProposal | LinkedTablesProposal):
        fix = "to audit a synthetic table, plant canaries with audit.plant(…) and use audit.one_run(…)"
        raise InvalidParameter("question", question, "answered with numbers, not with a synthetic table", fix=fix)
    tables, price_arguments = neighbours_of(policy), dict(price or arguments_at_claim(question, claim))
    pair = most_distinguishable_pair(question, claim, tables)
    pilot = max(MIN_PILOT, math.ceil(samples * PILOT_SHARE))
    first, second = _sample_releases(question, tables, pair, price_arguments, samples + pilot)
    coordinates = ReleaseFeatures.from_pilot(first[:pilot], second[:pilot])
    numbers = coordinates.feature_matrix(first[pilot:]), coordinates.feature_matrix(second[pilot:])
    return (lambda count: numbers[0][:count]), (lambda count: numbers[1][:count])


def arguments_at_claim(question: Any, claim: Guarantee) -> dict[str, Any]:
    """Return the arguments of ``release`` for the price of a claim."""
    parameters = inspect.signature(question.release).parameters
    price: dict[str, Any] = {"epsilon": claim.epsilon}
    price |= {"delta": claim.delta} if claim.delta and "delta" in parameters else {}
    return price | ({"fresh": True} if "fresh" in parameters else {})


def most_distinguishable_pair(question: Any, claim: Guarantee, tables: NeighbouringTables) -> Pair:
    """Return the neighbours whose exact totals differ most; without totals, those with the most rows."""
    if isinstance(question, Question):
        replay = replay_question(question, claim, tables)
        if replay.most_distinguishable_pair is not None:
            return replay.most_distinguishable_pair
    return pair_with_most_rows(tables)


def pair_with_most_rows(tables: NeighbouringTables) -> Pair:
    """Return the neighbours whose second table set has the most rows."""
    return max(tables.pairs, key=lambda pair: sum(table.num_rows for table in pair[1].tables.values()))


def replay_question(question: Question, claim: Guarantee, tables: NeighbouringTables) -> ReplayResult:
    """Compare the exact totals of a query on all neighbours with its claimed sensitivity."""
    with ExitStack() as stack:
        engines = {}
        for population in tables.populations:
            engines[population.name] = open_engine(tables.policy_over(population), None, 1)
            stack.callback(engines[population.name].close)
        curator = stack.enter_context(temporary_curator(tables.policy_over(tables.ordinary_population)))
        same_question = curator.rebind(question)
        return compare_recorded_totals(
            record_totals(
                same_question, same_question.price_release(PriceRequest(claim.epsilon, claim.delta)), engines
            ),
            tables.pairs,
        )


def _sample_releases(
    question: Any, tables: NeighbouringTables, pair: Pair, price: dict[str, Any], count: int
) -> list[list[ReleaseCells]]:
    """Release in both worlds: in two workers if the query is fully given by its SQL text."""
    policies = [tables.policy_over(population) for population in pair]
    text = _as_sql_question(question, policies[0]) if count >= _MIN_PARALLEL_SAMPLES else None
    if text is not None:
        with SamplingWorkers() as processes:
            return processes.sample([SamplingJob(policy, text, price, count, math.inf) for policy in policies])
    return [sample_in_process(policy, _Reproposal(question), price, count) for policy in policies]


def sample_in_process(
    policy: Policy, ask: Ask, price: dict[str, Any], count: int, until: float = math.inf
) -> list[ReleaseCells]:
    """Sample releases in this process."""
    with temporary_curator(policy) as curator:
        return sample_releases(curator, SamplingJob(policy, ask, price, count, until))


@dataclass(frozen=True)
class _Reproposal:
    """Make a proposal of another curator again."""

    proposal: Any

    def __call__(self, curator: Curator) -> Any:
        return curator.rebind(self.proposal)


def _as_sql_question(question: Any, policy: Policy) -> SqlQuestion | None:
    """Return the SQL of a query if it determines the whole query, else None."""
    if type(question) is not Question:
        return None
    with temporary_curator(policy) as curator:
        sql_query = SqlQuestion(question.text, question.limits, question.strategy)
        try:
            reparsed = sql_query(curator)
        except InvalidParameter:
            return None
        return sql_query if curator.rebind(question) == reparsed else None
