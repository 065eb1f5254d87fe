"""Anchors are kept by a user when a ledger is closed, and none gives way to one that knows less.

A ledger that was rolled back, by a failover or a backup, still has a last line. An anchor of that line would forget the
lost ones, so an anchor is replaced only where the ledger still holds the line that it knows.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from sfumato.ledger.anchors import Anchor, AnchoredAccount, anchored
from sfumato.ledger.transaction import Transaction

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


def renew(places: tuple[Path, ...], transaction: Transaction, lost: Anchor | None) -> Anchor | None:
    """Save the anchor of this moment, or, where the ledger lacks lines, what is known of the ``lost`` ones; the anchor
    of this moment where nothing is lost.
    """
    new = lost or anchored(transaction)
    for place in places:
        kept = Anchor.load(place) if place.exists() else None
        if kept is None or kept.holds(transaction):
            new.save(place)
        elif lost is not None and (kept.number, kept.hash) in lost.marks:
            lost.save(place)
    return new if lost is None else None


def known(
    base: Anchor | None, heads: tuple[tuple[int, str], ...], since: dict[str, tuple[int, AnchoredAccount]]
) -> Anchor | None:
    """Make an anchor of lines that only this process knows: the last of its ``heads``, and what the accounts stood at
    after its own lines, on top of the last anchor of the whole ledger.
    """
    merged = {} if base is None else {each.name: each for each in base.accounts}
    after = 0 if base is None else base.number
    merged |= {name: account for name, (number, account) in since.items() if number > after}
    if not merged:
        return None
    marks = ((base.number, base.hash), *base.marks) if base is not None and base.number else ()
    return Anchor(*heads[-1], tuple(merged.values()), (*heads[:-1], *marks))
