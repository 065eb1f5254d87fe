"""Release a batch: charge it durably, read the data, draw the noise, store the answer, and only then return it.

In this order no private row is read before its charge is durable, and no noisy byte leaves before it can be found
again. Whatever happens in between, the charge stands.


"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar, cast

from sfumato.engine.protocols import OpenReading, Reader
from sfumato.errors import EngineFailed, LedgerInDoubt, Unanswered, Unsupported
from sfumato.ledger import Account, Entry, StoredAnswer, entries
from sfumato.ledger.accounts.account import AccountStatement, AnswerLookup
from sfumato.mechanisms import bits
from sfumato.plan.limits import ROW_KEY_BITS, UNIT_KEY_BITS, combined_key
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.deadlines import Deadline, process_deadline_watch
from sfumato.release.measurement import Batch
from sfumato.release.payers import Payer
from sfumato.release.running_work import Progress, ignore_progress

T = TypeVar("T", covariant=True)


class Read(Protocol):
    """Executes a reading and returns its exact result; passed only to a release that has been charged."""

    def __call__(self, reading: PlanReading[E]) -> E: ...


class ReleaseStrategy(Protocol[T]):
    """A kind of release: its readings and measurements, its result, and when a stored answer is as good."""

    @property
    def batch(self) -> Batch: ...

    @property
    def readings(self) -> Sequence[PlanReading[Any]]:
        """The readings of the batch's measurements; each is bound before the charge."""
        ...

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The errors of this release: a stored answer is at least as good if it has each of them, none larger."""
        ...

    def draw(self, read: Read) -> T:
        """Draw the value to be stored: the measurements of the batch applied to the readings, and nothing else.

        It reads ``readings``, or the same for groups that an earlier measurement of the batch has selected.
        """
        ...

    def result_at_extreme_totals(self) -> T:
        """Return what ``draw`` returns for totals at the ends of their ranges, without data."""
        ...


def _written_accuracy(kind: ReleaseStrategy[Any]) -> Mapping[str, Number]:
    """Return what a line records: ``accuracy_for_reuse`` or, of a kind that has it, ``written_accuracy``: all of that,
    and more half-widths that follow from the policy and the price alone.
    """
    written: Mapping[str, Number] | None = getattr(kind, "written_accuracy", None)
    return kind.accuracy_for_reuse if written is None else written


@dataclass(frozen=True)
class ReleaseRequest:
    """The question, its data and its analyst: everything about a release that is not its mathematics."""

    question: str
    plan: str
    data: str
    """The exact identity of the data; it stays in the ledger."""
    analyst: str | None = None
    request_id: str | None = None
    former_plan: str = ""
    """The key under which an earlier version stored the answer; empty for none."""

    def entry(self, batch: Batch) -> Entry:
        """Return the ledger entry of a release of this question."""
        return Entry(batch.charged, self.question, self.plan, self.data, self.analyst, self.request_id)


@dataclass(frozen=True)
class StoredResult(Generic[T]):
    """A released value, and the ledger line that stores it."""

    value: T
    number: int
    time: datetime
    hash: str
    free: bool
    """Whether it was bought before, so that nothing was charged now."""
    statement: AccountStatement | None = None
    """The state of the account in the transaction that found or stored it; None: it is read when it is shown."""


def find_stored(
    kind: ReleaseStrategy[T], request: ReleaseRequest, account: Account, *, fresh: bool = False
) -> tuple[StoredResult[T] | None, AnswerLookup | None]:
    """Return the stored answer to this request id, or, unless ``fresh``, to the same question on the same data if it is
    good enough; None without one. The ledger is read once, and what it shows is returned, too; it is not read for a
    ``fresh`` release without a request id, to which no stored answer belongs.
    """
    if fresh and request.request_id is None:
        return None, None
    lookup = account.look_up(
        kind.accuracy_for_reuse,
        plan=request.plan,
        data=request.data,
        question=request.question,
        analyst=request.analyst,
        request_id=request.request_id,
        fresh=fresh,
        former_plan=request.former_plan,
    )
    stored_answer = lookup.answer
    return None if stored_answer is None else replace(
        _decode_stored_answer(stored_answer), statement=lookup.statement
    ), lookup


def dry_run(kind: ReleaseStrategy[T], statement: AccountStatement | None = None) -> StoredResult[T]:
    """Encode and decode the result for totals at the ends of their ranges: an answer that cannot be stored and read
    back is refused here, before the charge.
    """
    entries.write_widths(entries.checked_widths(_written_accuracy(kind)))
    body = codec.dumps(kind.result_at_extreme_totals())
    if len(body) > entries.MAX_BODY_LENGTH:
        rule = (
            f"the answer is too large to store: it has {len(body):,} characters of JSON, and at most "
            f"{entries.MAX_BODY_LENGTH:,} are allowed"
        )
        raise Unsupported("answer-too-large", rule, fix="ask for fewer groups or fewer columns at once")
    return StoredResult(codec.loads(body, longest=len(body)), 0, datetime.now(UTC), "", False, statement)


def release(
    kind: ReleaseStrategy[T],
    request: ReleaseRequest,
    *,
    payer: Payer,
    engine: Reader,
    fresh: bool = False,
    seconds: float | None = None,
    progress: Progress = ignore_progress,
) -> StoredResult[T]:
    """Release a batch, the only way to exact totals: they are read after the charge, and the result is stored before it
    is returned.

    The statement is bound before the charge, so a charged release cannot fail to bind. Of equal questions to an account
    that are not ``fresh``, and of equal requests, one pays, and the others wait for its answer.
    """
    progress("checking")
    with _bind_within_time_limit(engine, kind.readings, seconds) as opened:
        return _charge_read_and_store(
            kind, request, payer, engine, opened, fresh=fresh, seconds=seconds, progress=progress
        )


def _charge_read_and_store(
    kind: ReleaseStrategy[T],
    request: ReleaseRequest,
    payer: Payer,
    engine: Reader,
    opened: OpenReading,
    *,
    fresh: bool,
    seconds: float | None,
    progress: Progress,
) -> StoredResult[T]:
    """Charge the bound readings, read them, draw the noise and store the result."""
    progress("charging")
    payment = payer.ask(request.entry(kind.batch), kind.accuracy_for_reuse, fresh=fresh)
    try:
        stored_answer = payment.begin(seconds, lambda: progress("waiting for the answer to the same question"))
        if stored_answer is not None:
            return _decode_stored_answer(stored_answer)
        drawn = kind.draw(_timed_reader(engine, opened, seconds, progress))
        body = codec.dumps(drawn)
        progress("writing down")
        line = payer.answer(payment.line, body, _written_accuracy(kind))
        return StoredResult(drawn, line.number, line.time, line.hash, free=False)
    except BaseException as error:
        # One fixed refusal for any failure after the charge, Ctrl-C included: the cause may depend on private rows.
        if not payment.is_charged():
            raise
        with suppress(Exception):
            progress("stopping")
        payment.stop()
        if isinstance(error, LedgerInDoubt) and error.first <= payment.line.number <= error.last:
            raise  # no row was read
        raise Unanswered(payment.line.number) from None


def _bind_within_time_limit(engine: Reader, readings: Sequence[PlanReading[Any]], seconds: float | None) -> OpenReading:
    """Bind each statement within half of the time limit: one that takes longer to plan would be charged and then run
    out of time.

    No row is read, so the duration depends on the question alone.
    """
    start, time_limit = time.monotonic(), None if seconds is None else seconds / 2 * max(1, len(readings))
    opened = None
    try:
        with interrupt_after(engine, time_limit):
            opened = engine.check(*readings)
    except (TimeoutError, EngineFailed):
        if opened is not None:
            opened.close()
        if time_limit is None or time.monotonic() - start < time_limit:
            raise
        raise Unsupported(
            "slow-check",
            f"the question takes too long to plan: planning may use only half of the time limit of {seconds:g} s",
            fix="ask a simpler question, or ask the data owner for a longer time limit",
        ) from None
    return opened


def _timed_reader(engine: Reader, opened: OpenReading, seconds: float | None, progress: Progress) -> Read:
    """Return a function that executes readings within the time that is left, each with a fresh key for its rows; all
    of them read the same secret sample of units, where their plans read one.
    """
    end = None if seconds is None else time.monotonic() + seconds
    unit_keys: list[int] = []  # drawn by the first reading that needs it

    def unit_key() -> int:
        if not unit_keys:
            unit_keys.append(bits.random_bits(UNIT_KEY_BITS))
        return unit_keys[0]

    def read(reading: PlanReading[E]) -> E:
        progress("reading")
        with interrupt_after(engine, None if end is None else max(0.0, end - time.monotonic())):
            row_key = bits.random_bits(ROW_KEY_BITS)
            key = row_key if reading.bounded.sample is None else combined_key(unit_key(), row_key)
            exact = opened.read(reading, key)
        progress("adding noise")
        return exact

    return read


def _decode_stored_answer(stored_answer: StoredAnswer) -> StoredResult[T]:
    body = stored_answer.body
    value = cast("T", _decode_body_cached(body) if len(body) <= _SHORT_BODY else _decode_body(body))
    return StoredResult(value, stored_answer.number, stored_answer.time, stored_answer.hash, free=True)


_SHORT_BODY = 4096


def _decode_body(body: str) -> Any:
    return codec.loads(body, longest=len(body))  # from our own ledger line, so any length is trusted


@lru_cache(maxsize=128)
def _decode_body_cached(body: str) -> Any:
    """Decode a short stored value, which is frozen, once for equal texts."""
    return _decode_body(body)


def interrupt_after(engine: Reader, seconds: float | None) -> AbstractContextManager[None]:
    """Interrupt this thread's statement when its time is up; other threads have charges and limits of their own."""
    return nullcontext() if seconds is None else _interrupt_in_time(engine, seconds)


@contextmanager
def _interrupt_in_time(engine: Reader, seconds: float) -> Iterator[None]:
    deadline, watch = Deadline(engine, seconds), process_deadline_watch()
    try:
        watch.add(deadline)
        yield
    finally:
        watch.discard(deadline)
    if deadline.has_passed:
        raise TimeoutError
