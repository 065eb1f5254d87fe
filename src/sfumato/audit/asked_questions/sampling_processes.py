"""Releases are bought by processes of their own, one for each world: as many as there are processors work at once.

A process is told a policy over invented tables, a question and a price, and tells what each release told. Everything
goes the whole way: text, plan, charge in a ledger that is thrown away, rows, noise, answer.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from sfumato.audit.asked_questions.compared_outcomes import Ask
from sfumato.audit.asked_questions.told_answers import Told, told
from sfumato.curator import Curator
from sfumato.errors import SfumatoError, WeakPrivacy
from sfumato.plan.limits import Limits, Strategy
from sfumato.policy import Policy

_MEMORY = Path("/dev/shm")
_CODE = "from sfumato.audit.asked_questions.sampling_processes import serve; serve()"


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


class Processes:
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
