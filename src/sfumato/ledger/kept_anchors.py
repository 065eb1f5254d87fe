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
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from sfumato.errors import LedgerUnavailable
from sfumato.ledger import processes
from sfumato.ledger.anchors import Anchor, AnchoredAccount, anchored
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import codec

Marks = tuple[tuple[int, str], ...]
"""Numbers and hashes of lines."""

_PATIENCE = 5.0
"""Seconds to wait for whoever renews the same anchors."""
_PAUSE = 0.01


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

    def forget(self) -> None:
        """Remove the file of a process that has ended, once another anchor knows as much."""
        if processes.alive(self.process, elsewhere=True) is False:
            self.path.unlink(missing_ok=True)


def running_place(place: Path, number: int) -> Path:
    """Name the file of this process, beside the anchor of the whole ledger; it may have opened it several times."""
    name = sha256(f"{processes.this_process()} {number}".encode()).hexdigest()[:16]
    return place.with_suffix(f".{name}.running")


def save_running(path: Path, anchor: Anchor) -> None:
    """Write beside and rename: a process that is killed leaves the whole file of this line, or of the one before."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(f"{processes.this_process()}\n{codec.dumps(anchor)}")
    os.replace(partial, path)


def running(place: Path) -> tuple[Running, ...]:
    """Read what processes have kept that did not close this ledger, or have it open still."""
    found = [_read_running(path) for path in sorted(place.parent.glob(f"{place.stem}.*.running"))]
    return tuple(each for each in found if each is not None)


def _read_running(path: Path) -> Running | None:
    try:
        process, text = path.read_text(encoding="utf-8").split("\n")
        return Running(path, process, codec.loads_as(Anchor, text))
    except FileNotFoundError:
        return None  # closed meanwhile: the anchor of the whole ledger knows more
    except (OSError, ValueError) as error:
        raise LedgerUnavailable(
            "what a process has kept of this ledger's lines cannot be read",
            place=str(path),
            fix="let this user read it; remove it only if no line that it knows can be lost",
        ) from error


def known(
    base: Anchor | None, head: tuple[int, str] | None, heads: Marks, since: dict[str, AnchoredAccount]
) -> Anchor | None:
    """Make an anchor of lines that only this process knows: its last one, the ``head``, others of its ``heads``, and
    what the accounts stood at after its own lines, on top of the last anchor of the whole ledger.
    """
    merged = ({} if base is None else {each.name: each for each in base.accounts}) | since
    if not merged or head is None:
        return None
    marks = ((base.number, base.hash), *base.marks) if base is not None and base.number else ()
    return Anchor(*head, tuple(merged.values()), tuple(dict.fromkeys((*heads, *marks))))
