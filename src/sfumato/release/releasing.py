"""A release is charged on disk, then data are read, noise is drawn, the answer is written down, and only then is it
shown.

In this order, so that no private row is read before its price is durable, and no noisy byte leaves before it can be
found again. Whatever happens in between, the charge stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from sfumato.engine.seam import OpenReading, Reader
from sfumato.errors import EngineFailed, LedgerInDoubt, Unanswered, Unsupported
from sfumato.ledger import Account, Entry, StoredAnswer, entries
from sfumato.mechanisms import bits
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.release import deadlines
from sfumato.release.deadlines import Deadline
from sfumato.release.measurement import Batch
from sfumato.release.payers import Payer

T = TypeVar("T", covariant=True)

Progress = Callable[[str], None]
"""Told the name of each phase; never a count, never a share done.

Between "charging" and "writing down", or "stopping", a release takes as long as its rows decide, and so does a session
between "closing" and "closed". It waits for whoever is told: nothing of it can be seen elsewhere before they return.
"""


def quietly(phase: str) -> None:
    """No progress is shown."""


class Read(Protocol):
    """This gives what a reading means, exactly: handed to a release that has been charged, and to nothing else."""

    def __call__(self, reading: PlanReading[E]) -> E: ...


class ReleaseStrategy(Protocol[T]):
    """A kind of release says what is read and measured, what is made of it, and when a stored answer is as good."""

    @property
    def batch(self) -> Batch: ...

    @property
    def readings(self) -> Sequence[PlanReading[Any]]:
        """Say what the engine reads for the measurements of the batch: each is checked before the charge."""
        ...

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """A stored answer is at least as good if it has each of these numbers, and none of its own is larger."""
        ...

    def draw(self, read: Read) -> T:
        """Draw a frozen value that is written down: the measurements of the batch on what is read, and nothing else.

        It reads what ``readings`` says, or the same of groups that an earlier measurement of the batch has shown.
        """
        ...

    def rehearsal(self) -> T:
        """Try what ``draw`` would make of totals at the ends of what they can be: no data are needed."""
        ...


@runtime_checkable
class TellsMore(Protocol):
    """A kind whose lines tell more of their accuracy than a stored answer needs to be as good."""

    @property
    def written_accuracy(self) -> Mapping[str, Number]:
        """Return all of ``good_enough``, and more half-widths that follow from the policy and the price alone."""
        ...


def _written_accuracy(kind: ReleaseStrategy[Any]) -> Mapping[str, Number]:
    return kind.written_accuracy if isinstance(kind, TellsMore) else kind.good_enough


@dataclass(frozen=True)
class ReleaseRequest:
    """This says who asks what, about which data: everything about a release that is not its mathematics."""

    question: str
    plan: str
    data: str
    """Which data, to the bit: for the ledger's eyes only."""
    analyst: str | None = None
    request_id: str | None = None

    def entry(self, batch: Batch) -> Entry:
        """Make the ledger's entry of a release of this question."""
        return Entry(batch.charged, self.question, self.plan, self.data, self.analyst, self.request_id)


@dataclass(frozen=True)
class StoredResult(Generic[T]):
    """This is what was released, and the line that holds it."""

    value: T
    number: int
    time: datetime
    hash: str
    free: bool
    """It had been bought before: nothing was charged now."""


def stored(
    kind: ReleaseStrategy[T], asked: ReleaseRequest, account: Account, *, fresh: bool = False
) -> StoredResult[T] | None:
    """Find an answer already bought to this request, or, unless it shall be ``fresh``, to the same question on the same
    data if it is good enough.
    """
    if asked.request_id is not None:
        found = account.requested(asked.request_id, analyst=asked.analyst, question=asked.question, plan=asked.plan)
        if found is not None:
            return _read(found)
    if fresh:
        return None
    found = account.stored(plan=asked.plan, data=asked.data, accuracy=kind.good_enough)
    return None if found is None else _read(found)


def rehearse(kind: ReleaseStrategy[T]) -> StoredResult[T]:
    """Try everything that becomes of totals, with totals at the ends of what they can be: what cannot be written down
    and read back is refused here, before the charge.
    """
    entries.write_widths(entries.widths(_written_accuracy(kind)))
    written = codec.dumps(kind.rehearsal())
    if len(written) > entries.BODY:
        rule = f"an answer is kept as a text of at most {entries.BODY:,} characters; this one has {len(written):,}"
        raise Unsupported("answer-too-large", rule, fix="ask for fewer groups, or fewer columns, at once")
    return StoredResult(codec.loads(written, longest=len(written)), 0, datetime.now(UTC), "", free=False)


def release(
    kind: ReleaseStrategy[T],
    asked: ReleaseRequest,
    *,
    payer: Payer,
    engine: Reader,
    fresh: bool = False,
    seconds: float | None = None,
    progress: Progress = quietly,
) -> StoredResult[T]:
    """Release a batch, the only way to exact totals: it is charged before they are read, and written down before
    anything is returned.

    The statement is bound before the charge, so it cannot fail to be one. Of equal questions to an account that are not
    ``fresh``, and of equal requests, one pays, and the others wait for its answer and get it.
    """
    progress("checking")
    with _checked(engine, kind.readings, seconds) as opened:
        return _bought(kind, asked, payer, engine, opened, fresh=fresh, seconds=seconds, progress=progress)


def _bought(
    kind: ReleaseStrategy[T],
    asked: ReleaseRequest,
    payer: Payer,
    engine: Reader,
    opened: OpenReading,
    *,
    fresh: bool,
    seconds: float | None,
    progress: Progress,
) -> StoredResult[T]:
    """Charge what was bound, read it, draw and write down."""
    progress("charging")
    paying = payer.ask(asked.entry(kind.batch), kind.good_enough, fresh=fresh)
    try:
        known = paying.begin(seconds, lambda: progress("waiting for an equal question"))
        if known is not None:
            return _read(known)
        drawn = kind.draw(_reading(engine, opened, seconds, progress))
        body = codec.dumps(drawn)
        progress("writing down")
        line = payer.answer(paying.line, body, _written_accuracy(kind))
        return StoredResult(drawn, line.number, line.time, line.hash, free=False)
    except BaseException as error:
        # One fixed refusal for whatever goes wrong after the charge, a Ctrl-C included: why may depend on private rows.
        if not paying.stands():
            raise
        with suppress(Exception):
            progress("stopping")
        paying.stop()
        if isinstance(error, LedgerInDoubt) and error.first <= paying.line.number <= error.last:
            raise  # no row was read
        raise Unanswered(paying.line.number) from None


def _checked(engine: Reader, readings: Sequence[PlanReading[Any]], seconds: float | None) -> OpenReading:
    """Bind each statement within half of the time: what cannot be planned in it would be charged and not answered.

    No row is read, so how long it takes depends on the question alone.
    """
    start, most = time.monotonic(), None if seconds is None else seconds / 2 * max(1, len(readings))
    opened = None
    try:
        with limited(engine, most):
            opened = engine.check(*readings)
    except (TimeoutError, EngineFailed):
        if opened is not None:
            opened.close()
        if seconds is None or most is None or time.monotonic() - start < most:
            raise
        raise Unsupported(
            "slow-check",
            f"a question is planned within half of its time limit of {seconds:g} seconds",
            fix="ask a simpler question, or ask the owner for more time",
        ) from None
    return opened


def _reading(engine: Reader, opened: OpenReading, seconds: float | None, progress: Progress) -> Read:
    """Read within the time that is left, each time with a fresh key for samples."""
    end = None if seconds is None else time.monotonic() + seconds

    def read(reading: PlanReading[E]) -> E:
        progress("reading")
        with limited(engine, None if end is None else max(0.0, end - time.monotonic())):
            found = opened.read(reading, bits.integer(62))
        progress("adding noise")
        return found

    return read


def _read(found: StoredAnswer) -> StoredResult[T]:
    value = cast("T", codec.loads(found.body, longest=len(found.body)))  # our own line: as long as it was written
    return StoredResult(value, found.number, found.time, found.hash, free=True)


@contextmanager
def limited(engine: Reader, seconds: float | None) -> Iterator[None]:
    """End this thread's statement when its time is up: others have charges, and times, of their own."""
    if seconds is None:
        yield
        return
    deadline, watch = Deadline(engine, seconds), deadlines.watch()
    try:
        watch.add(deadline)
        yield
    finally:
        watch.discard(deadline)
    if deadline.passed:
        raise TimeoutError
