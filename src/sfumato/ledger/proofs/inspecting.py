"""Lines are verified: all of them, in as many processes as there are processors, or only the newest.

Every line carries all totals, so any line can be a checkpoint: a stretch is right if it follows from the line before
it, and the whole is right if every stretch is.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Sequence
from itertools import pairwise

from sfumato.errors import LedgerDamaged
from sfumato.ledger.keyed_hashes import KeyedHash
from sfumato.ledger.proofs.verifying import LOST, Checker, Verification
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.store import Store, Where

CHECKPOINT = 1000
"""Opening verifies the lines since the last one whose number is a multiple of this."""
PART = 100_000
"""Fewer lines than this are not worth a process."""
_PAGE = 1000


def newest(store: Store) -> Verification:
    """Check the store's shape, its key, and the lines since the last checkpoint."""
    try:
        fault, last = store.misshapen(), _last(store)
        begun = fault or not last or _begins(store)
    except LedgerDamaged as damage:
        return Verification(0, damage.number, damage.why)
    if fault or not last:
        return Verification(0, None, fault or "")
    if not begun:
        return Verification(0, 1, "it does not begin with the key in the ledger's header")
    return _stretch(store, (last - 1) // CHECKPOINT * CHECKPOINT, last, files=False)


def everything(store: Store) -> Verification:
    """Check every line, and the store itself; the first fault is named."""
    try:
        last = _last(store)
        processes = min(len(os.sched_getaffinity(0)), last // PART)
        alone = threading.active_count() == 1  # a fork keeps only one thread: the others' locks would never open
        found, fault = _walked(store, _bounds(last, processes if alone and processes > 1 else 1))
    except LedgerDamaged as damage:
        return Verification(0, damage.number, damage.why)
    return Verification(found.lines, None, fault) if fault and (found.holds or found.answers) else found


def _walked(store: Store, parts: list[tuple[int, int]]) -> tuple[Verification, str | None]:
    """Find the first fault of all stretches but the first in processes of their own, and what is wrong with the store.

    A stretch whose process did not answer is walked here.
    """
    answers = [_ask(store, part) for part in parts[1:]]
    found = [_stretch(store, *parts[0])]
    fault = store.misshapen() or store.fault() if found[0].holds or found[0].answers else None
    found += [_heard(answer) or _stretch(store, *part) for answer, part in zip(answers, parts[1:], strict=True)]
    broken = next((each for each in found if not each.holds and not each.answers), None)
    return broken or _lost(found[-1].lines, tuple(number for each in found for number in each.answers)), fault


def _lost(lines: int, answers: tuple[int, ...]) -> Verification:
    """Every line is right; some answers may be lost with their files."""
    return Verification(lines, answers[0], LOST, answers) if answers else Verification(lines)


def _last(store: Store) -> int:
    with store.reading() as rows:
        return next((row.number for row in rows.select({}, newest=True, limit=1)), 0)


def _begins(store: Store) -> bool:
    """Tell whether the first line was written under the key that is there now: under another, nothing is recognised."""
    with store.reading() as rows:
        return [row.previous for row in rows.select({"number": 1}, limit=1)] == [KeyedHash(store.key()).origin]


def _bounds(last: int, parts: int) -> list[tuple[int, int]]:
    """Cut the lines into even stretches; the first is a sixth shorter, because whoever walks it also checks the store's
    pages.
    """
    if parts == 1:
        return [(0, last)]
    first = last * 5 // (6 * parts)
    cuts = [0, *(first + (last - first) * part // (parts - 1) for part in range(parts))]
    return list(pairwise(cuts))


def _stretch(store: Store, after: int, until: int, *, files: bool = True) -> Verification:
    """Read the lines after one number up to another, with the files that hold their large answers."""
    lost: list[int] = []

    def earlier(before: int, equal: Where) -> Row | None:
        with store.reading() as rows:
            return _sealed(rows.select(equal, newest=True, before=before, limit=1))

    checker = Checker.whole(KeyedHash(store.key()).origin)
    try:
        if after:
            start = earlier(after + 1, {"number": after})
            if start is None:
                return Verification(after, after, "it is missing")
            checker = Checker.after(start, earlier)
        while checker.number < until:
            with store.reading() as rows:
                page = rows.select({}, after=checker.number, limit=min(_PAGE, until - checker.number))
            if not page:
                return Verification(checker.number, checker.number + 1, "it is missing")
            found = checker.check(page)
            if not found.holds:
                return found
            lost += [row.number for row in page if files and row.file and store.bodies.read(row.file) is None]
    except LedgerDamaged as damage:
        return Verification(checker.number, damage.number, damage.why)
    return _lost(checker.number, tuple(lost))


def _sealed(rows: Sequence[Row]) -> Row | None:
    for row in rows:
        if row.hash != row.seal():
            raise LedgerDamaged(row.number, "its hash does not match its content")
        return row
    return None


def _ask(store: Store, part: tuple[int, int]) -> tuple[int, int]:
    """Walk a stretch in a child, which opens the store for itself; returns the child and the end that listens to it."""
    listen, speak = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads below Python: the child uses none of theirs
        child = os.fork()
    if child:
        os.close(speak)
        return child, listen
    try:
        found = _stretch(store, *part)
        os.write(speak, json.dumps([found.lines, found.bad, found.why, found.answers]).encode())
    finally:
        os._exit(0)


def _heard(answer: tuple[int, int]) -> Verification | None:
    child, listen = answer
    with os.fdopen(listen, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if not said:
        return None
    lines, bad, why, answers = json.loads(said)
    return Verification(lines, bad, why, tuple(answers))
