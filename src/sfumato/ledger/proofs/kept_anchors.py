"""Anchors are kept by a user: of the whole ledger when it is closed, and none gives way to one that knows less.

A ledger that was rolled back, by a failover or a backup, still has a last line. An anchor of that line would forget the
lost ones, so an anchor is replaced only where the ledger still holds the line that it knows.

A process that is killed closes nothing. Of a ledger that others write too, it therefore keeps a file of its own, with
what it knows after each of its lines. It is written when the line is, before the charge returns: so before a row is
read for it, and before anybody is told. A process that is killed (kill -9) in between has released nothing for the line
that it forgets. The file is not synced: if the machine of a curator loses its power at the moment of a failover, its
last lines may be forgotten with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from sfumato.errors import LedgerUnavailable
from sfumato.ledger import processes
from sfumato.ledger.proofs.anchors import Anchor, AnchoredAccount, anchored
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import read_cost, read_spending, write_cost
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import codec

Marks = tuple[tuple[int, str], ...]
"""Numbers and hashes of lines."""

_PATIENCE = 5.0
"""Seconds to wait for whoever renews the same anchors."""
_PAUSE = 0.01
_HEADS = 64
"""Last lines that a process remembers, to tell where another history has parted."""


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Let no other process renew the anchors of this folder meanwhile; its lock is had before the ledger is read, so
    that nobody saves an older moment after a newer one.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(place.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(folder)
        yield
    finally:
        os.close(folder)


def _lock(folder: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise  # an older anchor stays, and is still a true one
        except OSError:
            return None  # a file system without locks: what is on disk is compared in any case
        time.sleep(_PAUSE)


def renew(places: tuple[Path, ...], transaction: Transaction, lost: Anchor | None, marks: Marks) -> Anchor | None:
    """Save the anchor of this moment, with these marks more, or, where the ledger lacks lines, what is known of the
    ``lost`` ones; the anchor that is now in the first place, if it is this one.
    """
    now = anchored(transaction)
    new = lost or replace(now, marks=tuple(dict.fromkeys((*now.marks, *marks))))
    for place in places:
        kept = Anchor.load(place) if place.exists() else None
        if kept is None or kept.holds(transaction) or (lost is not None and (kept.number, kept.hash) in lost.marks):
            new.save(place)
    return new if Anchor.load(places[0]) == new else None


@dataclass(frozen=True)
class Running:
    """This is what one process knows of the lines that it wrote, in a file of its own."""

    path: Path
    process: str
    anchor: Anchor
    stamp: tuple[int, int]
    """How the file looked: whoever writes it again makes another."""

    def forget(self) -> None:
        """Remove the file of a process that has ended, once another anchor knows as much. One that was written since it
        was read stays, whoever has done that: a process on another machine that has the same folder.
        """
        if processes.alive(self.process) is False and _stamp(self.path) == self.stamp:
            self.path.unlink(missing_ok=True)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


class Memory:
    """A memory is what one process knows of a ledger: the last anchor of the whole of it, and lines of its own."""

    def __init__(self, base: Anchor | None) -> None:
        self.marks: Marks = ()
        """Lines that were there when the ledger was opened, ever further apart."""
        self.last: tuple[int, str] | None = None
        """The last line that this process wrote, all threads together."""
        self._last_turn = -1
        self._heads: deque[tuple[int, str]] = deque(maxlen=_HEADS)
        """Lines that this process wrote, and those right before them."""
        self._since: dict[str, tuple[int, str, Terms, str]] = {}
        """Of accounts that it charged: in which turn, their terms as text and as a value, and their total as text."""
        self._terms: dict[int, str] = {}
        self.begin_at(base)

    def begin_at(self, base: Anchor | None) -> None:
        """Begin anew with an anchor of the whole ledger, which knows all that was written so far."""
        self._base = base
        self._base_text = "" if base is None else codec.dumps(base)
        self._since = {}

    def add(self, turn: int, start: Row | None, rows: Sequence[Row], terms: Callable[[Row], Terms | None]) -> None:
        """Add lines that were written after another, in this turn; threads come in any order, and the last counts."""
        for row in (start, rows[-1]):
            if row is not None and (row.number, row.hash) not in self._heads:
                self._heads.append((row.number, row.hash))
        for row in rows:
            found = terms(row)
            if found is not None and self._since.get(row.account, (-1,))[0] <= turn:
                total = write_cost(read_spending(row.totals).total)
                self._since[row.account] = turn, self._text(row.terms, found), found, total
        if turn >= self._last_turn:
            self._last_turn, self.last = turn, (rows[-1].number, rows[-1].hash)

    def _text(self, number: int, terms: Terms) -> str:
        if number not in self._terms:
            self._terms[number] = codec.dumps(terms)
        return self._terms[number]

    @property
    def heads(self) -> Marks:
        return (*self._heads, *self.marks)

    @property
    def anchor(self) -> Anchor | None:
        """Make an anchor of all that it knows."""
        accounts = [
            AnchoredAccount(name, terms, read_cost(total)) for name, (_, _, terms, total) in self._since.items()
        ]
        return _known(self._base, self.last, self.heads, accounts)

    def save(self, path: Path) -> None:
        """Write all that it knows beside and rename: a process that is killed leaves the whole file of this line, or of
        the one before. No charge should wait long for it, so texts that were written before are not made again.
        """
        accounts = [(name, terms, total) for name, (_, terms, _, total) in self._since.items()]
        text = json.dumps([processes.this_process(), self.last, self.heads, accounts, self._base_text])
        partial = str(path.with_suffix(".partial"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            handle = os.open(partial, flags, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(partial, flags, 0o600)
        with open(handle, "wb") as file:
            file.write(text.encode())
        os.replace(partial, path)


def running_place(place: Path, number: int) -> Path:
    """Name the file of this process, beside the anchor of the whole ledger; it may have opened it several times."""
    name = sha256(f"{processes.this_process()} {number}".encode()).hexdigest()[:16]
    return place.with_suffix(f".{name}.running")


def running(place: Path) -> tuple[Running, ...]:
    """Read what processes have kept that did not close this ledger, or have it open still."""
    found = [_read_running(path) for path in sorted(place.parent.glob(f"{place.stem}.*.running"))]
    return tuple(each for each in found if each is not None)


def _read_running(path: Path) -> Running | None:
    try:
        stamp = _stamp(path)
        process, (number, seal), heads, accounts, base = json.loads(path.read_text(encoding="utf-8"))
        _boot, _space, _number, _start = process.split(" ")
        whole = codec.loads_as(Anchor, base) if base else None
        since = [
            AnchoredAccount(name, codec.loads_as(Terms, terms), read_cost(total)) for name, terms, total in accounts
        ]
        anchor = _known(whole, (number, seal), tuple((first, second) for first, second in heads), since)
        return None if anchor is None else Running(path, process, anchor, stamp)
    except FileNotFoundError:
        return None  # closed meanwhile: the anchor of the whole ledger knows more
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise LedgerUnavailable(
            "the running file of a process cannot be read: what it knows of this ledger would be forgotten",
            place=str(path),
            fix="let this user read it; remove it only if no line that it knows can be lost",
        ) from error


def _known(
    base: Anchor | None, last: tuple[int, str] | None, heads: Marks, since: Iterable[AnchoredAccount]
) -> Anchor | None:
    """Make an anchor of lines that only one process knows: its last one, others of its ``heads``, and what accounts
    stood at after its own lines, on top of the last anchor of the whole ledger.
    """
    merged = {each.name: each for each in (*(() if base is None else base.accounts), *since)}
    if not merged or last is None:
        return None
    marks = ((base.number, base.hash), *base.marks) if base is not None and base.number else ()
    return Anchor(*last, tuple(merged.values()), tuple(dict.fromkeys((*heads, *marks))))
