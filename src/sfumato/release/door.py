"""The one door: charge on disk, read, add noise, write the answer down, then show it.

In this order, so that no private row is read before its price is durable, and no noisy byte leaves before it can be
found again. Whatever happens in between, the charge stands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import numpy as np

from sfumato.engine.seam import Engine
from sfumato.errors import Unanswered
from sfumato.ledger import Account, Charged, Entry, Line, StoredAnswer, entries
from sfumato.mechanisms import bits
from sfumato.mechanisms.protocols import Additive
from sfumato.plan import words
from sfumato.plan.bounding import Bounded
from sfumato.plan.nodes import GroupKey
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.release.measured import Measured, scales
from sfumato.release.preparing import Prepared

T = TypeVar("T")

Progress = Callable[[str], None]
"""Told the name of each phase; never a count, never a share done."""


def quietly(phase: str) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Asked:
    """Who asks what, about which data: everything about a release that is not its mathematics."""

    question: str
    plan: str
    data: str
    """Which data, to the bit: for the ledger's eyes only."""
    version: str
    """Which data, as readers are told: how often they have changed says nothing about what is in them."""
    analyst: str | None = None
    request_id: str | None = None

    def entry(self, parts: Sequence[Charged]) -> Entry:
        """A release of this question as the ledger charges it."""
        return Entry(tuple(parts), self.question, self.plan, self.data, self.analyst, self.request_id)


@dataclass(frozen=True)
class Released:
    """Noisy totals on their way out, and the line that holds them."""

    measured: Measured
    number: int
    time: datetime
    hash: str
    free: bool
    """It had been bought before: nothing was charged now."""


def stored(prepared: Prepared, asked: Asked, account: Account) -> Released | None:
    """An answer already bought to the same question on the same data, at least as accurate."""
    if asked.request_id is not None:
        found = account.requested(asked.request_id, analyst=asked.analyst, question=asked.question, plan=asked.plan)
        if found is not None:
            return _read(found)
    found = account.stored(plan=asked.plan, data=asked.data, accuracy=_accuracy(prepared))
    return None if found is None else _read(found)


def rehearse(prepared: Prepared, asked: Asked) -> Released:
    """Everything that becomes of totals, with totals at the ends of what they can be: what cannot be written down and
    read back is refused here, before the charge.
    """
    width = sum(each.coordinates for each in prepared.bounded.measures)
    ends = [(end,) * width for end in (0, LARGEST_INTEGER, -LARGEST_INTEGER)]
    measured = _measured(prepared, ends, asked.version)
    entries.write_widths(entries.widths(_accuracy(prepared)))
    return Released(codec.loads(codec.dumps(measured)), 0, datetime.now(UTC), "", free=False)


def release(
    prepared: Prepared,
    groups: Sequence[GroupKey],
    asked: Asked,
    *,
    account: Account,
    engine: Engine,
    fresh: bool = False,
    seconds: float | None = None,
    progress: Progress = quietly,
) -> Released:
    """Charge, read, add noise, write down; or wait for an equal question that does, unless this one is ``fresh``."""

    def noisy(totals: list[tuple[int, ...]]) -> Written[Measured]:
        measured = _measured(prepared, totals, asked.version)
        return Written(measured, codec.dumps(measured))

    spent = spend(
        asked.entry(_parts(prepared)),
        prepared.bounded,
        groups,
        noisy,
        _accuracy(prepared),
        account=account,
        engine=engine,
        fresh=fresh,
        seconds=seconds,
        progress=progress,
    )
    if isinstance(spent, StoredAnswer):
        return _read(spent)
    found, line = spent
    return Released(found, line.number, line.time, line.hash, free=False)


def _parts(prepared: Prepared) -> list[Charged]:
    pairs = zip(prepared.mechanisms, prepared.bounded.measures, strict=True)
    return [Charged(mechanism, measure.sensitivity) for mechanism, measure in pairs]


@dataclass(frozen=True)
class Written(Generic[T]):
    """What a release gives, and how it is written down."""

    value: T
    body: str


def spend(
    entry: Entry,
    bounded: Bounded,
    groups: Sequence[GroupKey],
    draw: Callable[[list[tuple[int, ...]]], Written[T]],
    accuracy: Mapping[str, Number],
    *,
    account: Account,
    engine: Engine,
    fresh: bool = False,
    seconds: float | None = None,
    progress: Progress = quietly,
) -> tuple[T, Line] | StoredAnswer:
    """The only way to exact totals: charged before they are read, written down before anything is returned.

    The statement is bound before the charge, so it cannot fail to be one. ``entry`` states what ``draw`` leaks about
    totals of this sensitivity. Of equal questions that are not ``fresh`` one pays, and the others get its answer.
    """
    progress("checking")
    engine.check(bounded)
    progress("charging")
    asking = account.ask(entry, accuracy, fresh=fresh)
    try:
        known = asking.begin(seconds, lambda: progress("waiting for an equal question"))
        if known is not None:
            return known
        progress("reading")
        with limited(engine, seconds):
            totals = list(map(tuple, engine.totals(bounded, groups, bits.integer(62)).tolist()))
        progress("adding noise")
        found = draw(totals)
        progress("writing down")
        return found.value, account.answer(asking.line, found.body, accuracy)
    except BaseException:
        # One fixed refusal for whatever goes wrong after the charge, a Ctrl-C included: why may depend on private rows.
        if not asking.stands():
            raise
        asking.stop()
        raise Unanswered(asking.line.number) from None


def _read(found: StoredAnswer) -> Released:
    measured = codec.loads(found.body, longest=len(found.body))  # our own line: as long as it was written
    return Released(measured, found.number, found.time, found.hash, free=True)


def _measured(prepared: Prepared, totals: list[tuple[int, ...]], version: str) -> Measured:
    bounded = prepared.bounded
    return Measured(
        scales(prepared),
        _noisy_totals(prepared, totals),
        str(prepared.price),
        bounded.bounding.value,
        words.enforced(bounded),
        tuple(known for each in bounded.measures if (known := words.bounds(each)) is not None),
        version,
        f"{bits.integer(128):032x}",
    )


def _accuracy(prepared: Prepared) -> dict[str, Any]:
    return {f"m{index}": width for index, width in enumerate(prepared.half_widths())}


@contextmanager
def limited(engine: Engine, seconds: float | None) -> Iterator[None]:
    """Ends this thread's statement when its time is up: others have charges, and times, of their own."""
    if seconds is None:
        yield
        return
    done, thread, start = threading.Event(), threading.get_ident(), time.monotonic()

    def watch() -> None:
        if not done.wait(seconds):
            while not done.wait(0.02):  # again: the statement may not have begun when the time was up
                engine.interrupt(thread)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    if time.monotonic() - start >= seconds:  # by the clock: the watcher may not have woken in time
        raise TimeoutError


def _noisy_totals(prepared: Prepared, totals: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Fresh noise on every total: each measure's coordinates are one vector."""
    columns = list(zip(*totals, strict=True))
    made: list[list[int]] = []
    for mechanism, measure in zip(prepared.mechanisms, prepared.bounded.measures, strict=True):
        own = columns[len(made) : len(made) + measure.coordinates]
        made += _noisy(mechanism, own)
    return tuple(zip(*made, strict=True))


def _noisy(mechanism: Additive, columns: Sequence[tuple[int, ...]]) -> list[list[int]]:
    if len(columns) == len(columns[0]) == 1:
        return [[mechanism.apply(columns[0][0])]]
    values: list[list[int]] = mechanism.apply(np.array(columns, dtype=np.int64)).tolist()
    return values
