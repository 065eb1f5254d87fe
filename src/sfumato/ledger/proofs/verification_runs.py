"""A verification run reads every line of a store, in parts that several processes share, or only the newest lines.

*Theorem (parts).* Every line is right if every part is right by itself and every joint between two parts is. A part
checks that each of its lines is sealed, that it links to the line before, and that its totals are those of the
account's line before plus its cost. Totals are never added up by parts: sums are rounded up where fractions are long
(``privacy.amounts``), so they depend on the order of the lines. Each line states the totals after it, and the first
line of an account in a part is compared with the account's last line before the part, found by the store's index and
checked against its seal. That line is checked in its own part, so by induction over the lines all totals are the fold
over the account's lines in their order. What the first line of a part says of the line before it is not read there: it
is compared afterwards with the last line that the part before has read (``_joint_fault``). ∎

*Claim (checkpoints).* An interrupted run leaves a checkpoint: which parts held, when they were read, and the hashes at
their ends. Whoever resumes from it believes it, so a checkpoint that an attacker could write would hide a forged part.
It is therefore sealed by HMAC-SHA-256 under a key of this user that is kept apart from the ledger, in a folder that
only this user can read (the ledger's own key would not do: whoever can change the ledger can read it). The seal covers
the ledger's origin, so no checkpoint of another ledger counts, and the lines at the ends of a part are read again: a
history that was replaced and sealed anew has other hashes there. What a resumed run does not see is a line that was
changed in place in a part that was read before; the report therefore names how many lines were not read again, and
since when. A run that is not resumed reads everything. ∎
"""

from __future__ import annotations

import hmac
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import NamedTuple

from sfumato.errors import LedgerDamaged
from sfumato.ledger import local_files
from sfumato.ledger.proofs.verifying import LOST, LineVerifier, Verification
from sfumato.ledger.sealed_rows import KeyedHash, Row
from sfumato.ledger.stores.store import Store, Where
from sfumato.mechanisms import bits
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import UNREADABLE

Progress = Callable[[str], None]
CHECKPOINT = 1000
"""Opening verifies the lines since the last one whose number is a multiple of this."""
LINES_PER_PART = 50_000
"""The number of lines of a part: fewer are not worth a process."""
_MAX_PARTS = 1024
"""So many numbers of parts fit into the smallest pipe, of one page."""
_PAGE = 1000
_STORE_CHECK = _MAX_PARTS
"""The number of the task that checks the store's schema, pages and indexes."""


class VerifiedPart(NamedTuple):
    """The lines after one number up to another, verified: what they say of the line before, and where they end."""

    after: int
    until: int
    previous: str | None = None
    """What the first line states as the hash of the line before; None if that line is not there."""
    first_time: int = 0
    last_hash: str = ""
    last_time: int = 0
    moved: bool = False
    """Whether the last line records that the ledger was moved, so that no line may follow it."""
    lines: int = 0
    bad: int | None = None
    why: str = ""
    answers: tuple[int, ...] = ()
    """Lines whose large answers are lost."""
    read_at: int = 0
    """When it was read, in microseconds since 1970."""

    @property
    def holds(self) -> bool:
        return not self.why


def verify_newest(store: Store) -> Verification:
    """Verify the store's shape, its key, and the lines since the last checkpoint."""
    try:
        fault, last = store.schema_fault(), _last_number(store)
        has_origin = fault or not last or _has_expected_origin(store)
    except LedgerDamaged as damage:
        return Verification(0, damage.number, damage.why)
    if fault or not last:
        return Verification(0, None, fault or "")
    if not has_origin:
        return Verification(0, 1, "its key differs from the one in the ledger's header")
    start = (last - 1) // CHECKPOINT * CHECKPOINT
    parts = [read_single_line_part(store, start)] if start else []
    return _combine_parts([*parts, verify_part(store, start, last, files=False)])


def verify_everything(store: Store, *, progress: Progress = lambda _: None, resume: bool = False) -> Verification:
    """Verify every line, and the store itself; the first fault is named. With ``resume``, parts that an interrupted run
    of this user has verified are not read again.
    """
    try:
        last = _last_number(store)
        run = VerificationRun(store, last, progress)
        if resume:
            run.adopt_verified_parts()
        run.finish()
    except LedgerDamaged as damage:
        return Verification(0, damage.number, damage.why)
    verification = replace(
        _combine_parts(run.verified), resumed_lines=run.resumed_lines, resumed_since=run.resumed_since
    )
    if run.store_fault and (verification.holds or verification.answers):
        return replace(verification, bad=None, why=run.store_fault, answers=())
    return verification


def verify_part(store: Store, after: int, until: int, *, files: bool = True) -> VerifiedPart:
    """Verify the lines after one number up to another, with the files that hold their large answers."""
    part = VerifiedPart(after, until, lines=after, read_at=time.time_ns() // 1000)
    lost_answers: list[int] = []
    checker = LineVerifier.from_first_line(KeyedHash(store.key()).origin)
    try:
        while checker.number < until:
            number = max(checker.number, after)
            with store.reading() as rows:
                page = rows.select({}, after=number, limit=min(_PAGE, until - number))
            if not page:
                return part._replace(lines=number, bad=number + 1, why="its row is missing")
            if after and checker.number == 0:
                checker = LineVerifier.from_later_line(page[0], after, _earlier_line_lookup(store))
            if page[0].number == after + 1:
                part = part._replace(previous=page[0].previous, first_time=page[0].time)
            verification = checker.check(page)
            if not verification.holds:
                return part._replace(lines=verification.lines, bad=verification.bad, why=verification.why)
            lost_answers += [row.number for row in page if files and row.file and store.bodies.read(row.file) is None]
    except LedgerDamaged as damage:
        return part._replace(lines=max(checker.number, after), bad=damage.number, why=damage.why)
    return part._replace(
        last_hash=checker.hash,
        last_time=checker.time,
        moved=checker.sealed,
        lines=checker.number,
        answers=tuple(lost_answers),
    )


def read_single_line_part(store: Store, number: int) -> VerifiedPart:
    """Return the end of a part that is not verified: its last line, which must be there and sealed."""
    part = VerifiedPart(number - 1, number, lines=number)
    try:
        row = _earlier_line_lookup(store)(number + 1, {"number": number})
    except LedgerDamaged as damage:
        return part._replace(bad=damage.number, why=damage.why)
    if row is None:
        return part._replace(bad=number, why="its row is missing")
    return part._replace(
        previous=row.previous,
        first_time=row.time,
        last_hash=row.hash,
        last_time=row.time,
        moved=row.kind == "moved",
    )


def _earlier_line_lookup(store: Store) -> Callable[[int, Where], Row | None]:
    def earlier(before: int, equal: Where) -> Row | None:
        with store.reading() as rows:
            return _row_with_checked_hash(rows.select(equal, newest=True, before=before, limit=1))

    return earlier


def _row_with_checked_hash(rows: Sequence[Row]) -> Row | None:
    for row in rows:
        if row.hash != row.compute_seal():
            raise LedgerDamaged(row.number, "its hash does not match its content")
        return row
    return None


def _combine_parts(parts: Sequence[VerifiedPart]) -> Verification:
    """Return the first fault of all parts and of the joints between them; lost answers where there is no other."""
    for earlier, part in zip((None, *parts), parts, strict=False):
        why = "" if earlier is None else _joint_fault(earlier, part)
        if why:
            return Verification(earlier.lines if earlier else 0, part.after + 1, why)
        if not part.holds:
            return Verification(part.lines, part.bad, part.why)
    answers = tuple(number for part in parts for number in part.answers)
    lines = parts[-1].lines if parts else 0
    return Verification(lines, answers[0], LOST, answers) if answers else Verification(lines)


def _joint_fault(earlier: VerifiedPart, part: VerifiedPart) -> str:
    """Return why the first line of a part cannot follow the last line of the part before; empty if it does."""
    if part.previous is None:  # its first line is missing, and it says so itself
        return ""
    if earlier.moved:
        return "it follows the line that sealed the ledger when it was moved"
    if part.previous != earlier.last_hash:
        return "it does not follow the line before"
    if part.first_time < earlier.last_time:
        return "it is older than the line before"
    return ""


def _last_number(store: Store) -> int:
    with store.reading() as rows:
        return next((row.number for row in rows.select({}, newest=True, limit=1)), 0)


def _has_expected_origin(store: Store) -> bool:
    """Return whether the first line was written under the current key: under another, nothing is recognised."""
    with store.reading() as rows:
        return [row.previous for row in rows.select({"number": 1}, limit=1)] == [KeyedHash(store.key()).origin]


def _part_bounds(last: int) -> list[tuple[int, int]]:
    """Split the lines into parts of equal size, one where there are few."""
    size = max(LINES_PER_PART, -(-last // _MAX_PARTS))
    return list(pairwise([*range(0, max(last, 1), size), last])) or [(0, 0)]


def _process_count(parts: int) -> int:
    """Return how many processes share the parts: a fork keeps one thread, so a process with others starts none."""
    return min(len(os.sched_getaffinity(0)), parts) if threading.active_count() == 1 else 1


class VerificationRun:
    """One run over all lines: which parts are verified, and what is wrong with the store itself."""

    def __init__(self, store: Store, last: int, progress: Progress) -> None:
        self._store = store
        self._last = last
        self._progress = progress
        self._bounds = _part_bounds(last)
        self._parts: dict[int, VerifiedPart] = {}
        self._is_store_checked = False
        self.store_fault: str | None = None
        self._checkpoint = VerificationCheckpoint.for_store(store)
        self.resumed_lines = 0
        """How many lines an earlier run has read, and this one has not."""
        self.resumed_since: datetime | None = None

    @property
    def verified(self) -> list[VerifiedPart]:
        """The parts in order, up to the first that does not hold."""
        parts = [self._parts[task] for task in sorted(self._parts)]
        first_bad = next((index for index, part in enumerate(parts) if not part.holds), len(parts))
        return parts[: first_bad + 1]

    def adopt_verified_parts(self) -> None:
        """Take over the parts that an interrupted run has verified, if the lines at their ends are still the same."""
        tasks = {bounds: task for task, bounds in enumerate(self._bounds)}
        saved_parts = {tasks.get((part.after, part.until)): part for part in self._checkpoint.load() if part.holds}
        resumed = {
            task: part for task, part in saved_parts.items() if task is not None and _has_same_ends(self._store, part)
        }
        self._parts |= resumed
        if resumed:
            self.resumed_lines = sum(part.until - part.after for part in resumed.values())
            oldest = min(part.read_at for part in resumed.values())
            self.resumed_since = datetime.fromtimestamp(oldest / 1e6, UTC)

    def finish(self) -> None:
        """Verify what is left, in as many processes as there are processors, and forget the checkpoint."""
        tasks = [task for task in range(len(self._bounds)) if task not in self._parts]
        processes = _process_count(len(tasks))
        self._report()
        if processes > 1:
            self._run_tasks_in_processes(tasks, processes)
        for task in tasks:  # all of them in one process; else those whose process has not answered
            if task not in self._parts and all(part.holds for part in self._parts.values()):
                self._record_result(task, self._run_task(task))
        if not self._is_store_checked and all(part.holds for part in self._parts.values()):
            self._progress("checking pages and indexes")
            self._record_result(_STORE_CHECK, self._run_task(_STORE_CHECK))
        self._checkpoint.forget()

    def _run_task(self, task: int) -> Result:
        if task != _STORE_CHECK:
            return verify_part(self._store, *self._bounds[task])
        try:
            return self._store.schema_fault() or self._store.storage_fault()
        except LedgerDamaged as damage:
            return damage.why

    def _record_result(self, task: int, result: Result) -> None:
        """Note the result of a task; a part that holds is saved, for a run that is interrupted."""
        if isinstance(result, VerifiedPart):
            self._parts[task] = result
            self._report()
            if len(self._bounds) > 1:
                self._checkpoint.save([part for part in self._parts.values() if part.holds])
        else:
            self._is_store_checked, self.store_fault = True, result

    def _report(self) -> None:
        done = sum(part.until - part.after for part in self._parts.values())
        self._progress(f"checking lines: {done:,} of {self._last:,}")

    def _run_tasks_in_processes(self, tasks: Sequence[int], processes: int) -> None:
        """Let children take tasks from a queue, this process too, until it is empty; the longest task is first."""
        queue = _filled_task_pipe([_STORE_CHECK, *tasks])
        workers = ForkedWorkers()
        try:
            for _ in range(processes - 1):
                workers.start(queue, self._run_task)
            for task in _take_tasks(queue):
                self._record_result(task, self._run_task(task))
                for other_task, result in workers.results(wait=False):
                    self._record_result(other_task, result)
            for other_task, result in workers.results(wait=True):
                self._record_result(other_task, result)
        finally:
            os.close(queue)
            workers.end()


Result = VerifiedPart | str | None
"""A part, or what is wrong with the store."""


def _has_same_ends(store: Store, part: VerifiedPart) -> bool:
    end = read_single_line_part(store, part.until)
    first = read_single_line_part(store, part.after + 1)
    return (end.last_hash, end.last_time, first.previous) == (part.last_hash, part.last_time, part.previous)


def _filled_task_pipe(tasks: Iterable[int]) -> int:
    """Return the read end of a pipe that holds all tasks, for several processes to read."""
    read_end, write_end = os.pipe()
    with open(write_end, "wb") as pipe:
        pipe.write(b"".join(task.to_bytes(2, "big") for task in tasks))
    return read_end


def _take_tasks(queue: int) -> Iterator[int]:
    while task := os.read(queue, 2):
        yield int.from_bytes(task, "big")


class ForkedWorkers:
    """Child processes that take tasks from a queue and write their results to pipes, one line of JSON for each."""

    def __init__(self) -> None:
        self._children: list[int] = []
        self._texts: dict[int, bytes] = {}
        """By the read end of its pipe: what a child has written of a line that is not complete."""

    def start(self, queue: int, work: Callable[[int], Result]) -> None:
        """Fork a child, which opens the store for itself. One that fails leaves its task to others."""
        read_end, write_end = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of threads below Python: the child uses none of theirs
            child = os.fork()
        if child:
            os.close(write_end)
            self._children.append(child)
            self._texts[read_end] = b""
            return
        try:
            with open(write_end, "wb") as pipe:
                for task in _take_tasks(queue):
                    pipe.write(json.dumps([task, work(task)]).encode() + b"\n")
                    pipe.flush()
        finally:
            os._exit(0)

    def results(self, *, wait: bool) -> Iterator[tuple[int, Result]]:
        """Iterate over the results that were written by now or, with ``wait``, until every child has ended."""
        with DefaultSelector() as selector:
            for pipe in self._texts:
                selector.register(pipe, EVENT_READ)
            while selector.get_map() and (ready := selector.select(None if wait else 0)):
                for key, _ in ready:
                    written = os.read(key.fd, 1 << 16)
                    *lines, self._texts[key.fd] = (self._texts[key.fd] + written).split(b"\n")
                    yield from map(_parse_result, lines)
                    if not written:
                        selector.unregister(key.fd)

    def end(self) -> None:
        """Stop the children, which only read, and close the pipes."""
        for child in self._children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for pipe in self._texts:
            os.close(pipe)


def _parse_result(line: bytes) -> tuple[int, Result]:
    task, value = json.loads(line)
    return task, _parse_part(value) if isinstance(value, list) else value


def _parse_part(values: list[object]) -> VerifiedPart:
    part = VerifiedPart(*values)  # type: ignore[arg-type]
    return part._replace(answers=tuple(part.answers))


@dataclass(frozen=True)
class VerificationCheckpoint:
    """The file in which a run that may be interrupted keeps the parts that held, under this user's seal."""

    path: Path
    origin: str
    """The hash before the ledger's first line, which belongs to its key."""

    @classmethod
    def for_store(cls, store: Store) -> VerificationCheckpoint:
        name = sha256(store.identity.encode()).hexdigest()[:32]
        return cls(local_files.verification_folder() / f"{name}.json", KeyedHash(store.key()).origin)

    def load(self) -> tuple[VerifiedPart, ...]:
        """Return the parts that an interrupted run of this user has verified; none if the file is missing, is of
        another ledger or has not the seal of this user.
        """
        try:
            seal, text = self.path.read_text(encoding="utf-8").split("\n", 1)
            if not hmac.compare_digest(seal, _checkpoint_seal(text)):
                return ()
            origin, parts = json.loads(text)
            return tuple(map(_parse_part, parts)) if origin == self.origin else ()
        except UNREADABLE:
            return ()

    def save(self, parts: Sequence[VerifiedPart]) -> None:
        """Write the parts; where that is not possible, a later run reads all lines."""
        text = json.dumps([self.origin, parts])
        with suppress(OSError):
            local_files.write_privately(self.path, f"{_checkpoint_seal(text)}\n{text}".encode())

    def forget(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _checkpoint_seal(text: str) -> str:
    """Compute the seal of a checkpoint under this user's key, which is made when it is first needed."""
    path = local_files.verification_folder() / "key"
    if not path.exists():
        local_files.write_privately(path, f"{bits.random_bits(256):064x}".encode(), replace=False)
    if not local_files.is_private_file(path):
        raise PermissionError("the key file can be read by other users")
    return hmac.digest(bytes.fromhex(path.read_text(encoding="ascii")), text.encode(), "sha256").hex()
