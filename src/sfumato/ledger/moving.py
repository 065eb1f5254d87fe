"""Move a ledger: every line is copied unchanged, and a last line seals the old one.

The old ledger is locked meanwhile. It is sealed before the new one becomes valid, so that a crash leaves at most one of
them chargeable, never both; after a crash in between, the same command completes the move.
"""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path

from sfumato.errors import InvalidParameter, LedgerDamaged, LedgerUnavailable, WeakLedger
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.ledgers import Ledger, open_guarded
from sfumato.ledger.proofs import anchors
from sfumato.ledger.proofs.anchors import Anchor, accept_lost_lines
from sfumato.ledger.proofs.exporting import CompleteExport
from sfumato.ledger.proofs.verifying import LineVerifier, require_ledger_gone
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.opening import open_store
from sfumato.ledger.stores.server_addresses import ServerAddress, is_server_address
from sfumato.ledger.stores.sqlite import LedgerContent, copy_published_on_exit, lost_target_error
from sfumato.ledger.stores.store import LOCK_TIMEOUT, Store
from sfumato.ledger.transaction import Transaction, all_lines

_LOSS_ACCEPTED = "copied from a backup or an export: its owner accepts that charges which it lacks are forgotten"
_CHARGES_FORGOTTEN = (
    "filled again, after it was lost: its owner accepts that charges which were made here are forgotten"
)
_NOT_SEALED_WARNING = (
    "the ledger that {} was made from is not sealed: never charge it again, and do not move another copy of it "
    "elsewhere, or the budget is spent twice"
)
Address = str | os.PathLike[str]


def copy_ledger(
    source: Address,
    target: Address,
    *,
    anchor: Anchor | Address | None = None,
    accept_loss: bool = False,
) -> tuple[int, str]:
    """Copy a ledger, with every line and large answer unchanged, to an empty one, and seal it; return number and hash
    of the last line of the new one.

    Both are verified, and their last lines compared, before the old one is sealed. An interrupted move is completed by
    the same call. A backup or a complete export may lack later charges: it needs an ``anchor`` of its last line, or an
    owner who accepts that such charges are forgotten, which is recorded in the new ledger; so does a target that was
    lost and is filled again.
    """
    exported = _complete_export_or_none(source)
    with nullcontext(source) if exported is None else exported.restored_ledger() as ledger:
        last_line, is_backup = _copy_and_seal(ledger, target, anchor, exported, accept_loss=accept_loss)
    if is_backup:
        origin = "this backup" if exported is None else f"this export ({exported.place})"
        warnings.warn(_NOT_SEALED_WARNING.format(origin), WeakLedger, stacklevel=2)
    return last_line


def _copy_and_seal(
    source: Address,
    target: Address,
    anchor: Anchor | Address | None,
    exported: CompleteExport | None,
    *,
    accept_loss: bool,
) -> tuple[tuple[int, str], bool]:
    """Copy a ledger; return number and hash of the last line, and whether it was a backup, whose ledger cannot be
    sealed.
    """
    with Ledger(open_guarded(source, anchor=anchor)) as ledger:
        guarded = ledger._guarded  # noqa: SLF001 - same package
        _require_same_export(guarded, exported)
        is_backup = guarded.store.is_backup
        if is_backup:
            _require_anchored_lines(guarded, "" if exported is None else exported.place, accept_loss=accept_loss)
            if accept_loss:
                _record_accepted_loss(guarded, _target_name(target))
        verification = ledger.verify()
        if not verification.holds and not verification.answers:
            raise LedgerDamaged(verification.bad, verification.why)
        if not ledger.accounts:
            raise _empty_ledger_error(source)
        if not accept_loss:
            _require_newest_lines(guarded, None if anchor is None else guarded.anchors[0])
        guarded.store.require_owner()
        was_sealed = _is_sealed(guarded)
        last_line = _copy_lines_and_seal(guarded, target, accept_loss=accept_loss)
    return (
        _acknowledge_forgotten_charges_if_unchanged(target, last_line) if was_sealed and accept_loss else last_line
    ), is_backup


def _empty_ledger_error(source: Address) -> LedgerUnavailable:
    return LedgerUnavailable(
        "an empty ledger cannot be copied",
        place=str(source),
        fix="open a new ledger at the target: nothing was spent in this one",
    )


def _require_anchored_lines(guarded: GuardedStore, place: str, *, accept_loss: bool) -> None:
    """Compare a backup or an export with all anchors that this user keeps of its ledger, wherever it was: refuse one
    that lacks a line or, if its owner accepts that, remember what it lacks.
    """
    with guarded.reading() as transaction:
        if transaction.head is None or transaction.moved_to:
            return
        for path, anchor in anchors.anchors_of_same_ledger(transaction, place):
            if anchor.holds(transaction):
                continue
            if anchor.moved:
                _require_newer_than_move(transaction, path, anchor)
            elif accept_loss:
                guarded.anchors += (anchor,)
            else:
                raise LedgerUnavailable(
                    f"this backup or export lacks line {anchor.number}, which this user's anchor (a record of the "
                    "ledger's newest lines) contains: what was charged there could be spent again",
                    place=str(path),
                    fix="copy the ledger itself; if it is lost, its owner can add --accept-loss, to accept that these "
                    "charges are forgotten",
                )


def _require_newer_than_move(transaction: Transaction, path: Path, anchor: Anchor) -> None:
    """Refuse a backup or an export of a ledger that was moved, unless it continues after the move: then it was made of
    the ledger it was moved to.
    """
    has_mark = any(transaction.has_line(*mark) for mark in anchor.marks[:1])
    if not has_mark or transaction.head is None or transaction.head.number < anchor.number:
        raise LedgerUnavailable(
            "a backup or an export can only replace a lost ledger; according to this anchor, the original ledger "
            f"was moved to {anchor.moved}",
            place=str(path),
            fix="use the ledger that it was moved to; if that one is lost too, move this anchor file to another "
            "folder, and add both --anchor FILE (its new path) and --accept-loss",
        )


def _require_newest_lines(guarded: GuardedStore, anchor: Anchor | None) -> None:
    """Refuse a backup or an export unless an anchor shows that it has the newest lines."""
    if not guarded.store.is_backup:
        return
    with guarded.reading() as transaction:
        head = transaction.head
        is_sealed = head is not None and head.kind == "moved"
        last = _last_row(transaction, before=head.number if is_sealed and head is not None else 0)
    if anchor is None or (anchor.number, anchor.hash) != (last.number, last.hash):
        mismatch = (
            "" if anchor is None else f"; the anchor is of line {anchor.number}, but the last line is {last.number}"
        )
        raise LedgerUnavailable(
            "this is a backup or an export, which may lack the newest charges: what they cost could be spent "
            f"again{mismatch}",
            place=guarded.store.place,
            fix="copy the ledger itself; if it is lost, add --anchor FILE with an anchor of its last line, or, as its "
            "owner, --accept-loss, to accept that charges after this copy are forgotten",
        )


def _record_accepted_loss(guarded: GuardedStore, target_name: str) -> None:
    """Record, before the move, that the owner accepts that a backup may lack lines: what an anchor knows of them is
    added to the totals. An interrupted move has recorded it already.
    """
    with guarded.writing(acknowledging=True, moving=target_name) as transaction:
        head = transaction.head
        if head is None or head.kind == "moved":
            return
        rows = accept_lost_lines(transaction, guarded.anchors, _LOSS_ACCEPTED)
        if not rows and (head.kind, head.question) != ("acknowledge", _LOSS_ACCEPTED):
            transaction.append("acknowledge", head.account, {"question": _LOSS_ACCEPTED})


def _is_sealed(guarded: GuardedStore) -> bool:
    with guarded.reading() as transaction:
        return transaction.head is not None and transaction.head.kind == "moved"


def _acknowledge_forgotten_charges_if_unchanged(target: Address, moved_head: tuple[int, str]) -> tuple[int, str]:
    """If a target has exactly the lines of a ledger that was moved to it before, record that the owner accepts that
    charges made there are forgotten: what an anchor knows of them is added to the totals.
    """
    with Ledger(open_guarded(target)) as ledger:
        guarded = ledger._guarded  # noqa: SLF001 - same package
        with guarded.writing(acknowledging=True) as transaction:
            head = transaction.head
            if head is None or (head.number, head.hash) != moved_head:
                return moved_head
            if not accept_lost_lines(transaction, guarded.anchors, _CHARGES_FORGOTTEN):
                transaction.append("acknowledge", head.account, {"question": _CHARGES_FORGOTTEN})
        return ledger.head


def _copy_lines_and_seal(guarded: GuardedStore, target: Address, *, accept_loss: bool) -> tuple[int, str]:
    target_name = _target_name(target)
    _require_other_ledger(guarded.store, target)
    # The new ledger becomes valid when ``filling`` ends, which is after the old one is sealed.
    with ExitStack() as filling, guarded.writing(moving=target_name) as transaction:
        is_sealed = transaction.head is not None and transaction.head.kind == "moved"
        last = _last_row(transaction, before=transaction.head.number if is_sealed and transaction.head else 0)
        bodies = guarded.store.bodies
        key = guarded.store.key().hex()
        content = LedgerContent(
            key,
            lambda: (row for row in all_lines(transaction) if row.kind != "moved"),
            transaction.pending_charges({}),
            bodies.read,
        )
        interrupted = json.loads(transaction.head.detail).get("into", "") if is_sealed and transaction.head else None
        target_identity, lines = filling.enter_context(
            _fill_target(target, content, last, interrupted, accept_loss=accept_loss)
        )
        _require_same_lines(lines, last, guarded.keyed_hash.origin)
        if not is_sealed:
            detail = json.dumps({"moved": target_name, "into": target_identity}, ensure_ascii=False)
            transaction.append("moved", last.account, {"question": f"moved to {target_name}", "detail": detail})
    return last.number, last.hash


def _last_row(transaction: Transaction, before: int) -> Row:
    return transaction.page({}, newest=True, before=before, limit=1)[0]


def _require_same_lines(lines: Iterable[Row], last: Row, origin: str) -> None:
    """Refuse a copy that does not verify, or does not end with the same line."""
    checker = LineVerifier.from_first_line(origin)
    verification = checker.check(lines)
    if not verification.holds or (checker.number, checker.hash) != (last.number, last.hash):
        raise LedgerDamaged(verification.bad, "the copied ledger differs from the original; nothing was moved")


def _target_name(target: Address) -> str:
    """Return the canonical name of a target, as the sealing line stores it."""
    if is_server_address(target):
        address = ServerAddress.parse(str(target))
        return f"{address.url}, schema {address.schema}"
    return os.path.realpath(target)


def _require_other_ledger(store: Store, target: Address) -> None:
    """Refuse to copy a ledger into itself, under whatever name: it would wait for its own lock."""
    if is_server_address(target):
        target_identity = ""
        if store.shared:
            other = open_store(target, None, LOCK_TIMEOUT)
            target_identity = other.identity
            other.close()
    else:
        target_identity = os.path.realpath(target)
    if store.identity == target_identity:
        raise LedgerUnavailable("a ledger cannot be copied into itself", place=store.place, fix="name another target")


@contextmanager
def _fill_target(
    target: Address, content: LedgerContent, last: Row, interrupted: str | None, *, accept_loss: bool
) -> Iterator[tuple[str, Iterable[Row]]]:
    """Fill an empty ledger and yield its identity and its lines for checking; it becomes valid when the block ends. A
    target that was ``interrupted`` before is filled again only if it is the very same.
    """
    if is_server_address(target):
        from sfumato.ledger.stores.postgres import PostgresStore

        store = PostgresStore(ServerAddress.parse(str(target)), LOCK_TIMEOUT)
        try:
            refill = accept_loss or interrupted == store.identity
            with store.fill_empty(content, None if interrupted is None else last, refill=refill) as lines:
                yield store.identity, lines
        finally:
            store.close()
    else:
        file = _target_file(Path(os.path.realpath(target)), content, interrupted, accept_loss=accept_loss)
        with file as path, _file_lines(path) as lines:
            yield path.name, lines


@contextmanager
def _target_file(target: Path, content: LedgerContent, interrupted: str | None, *, accept_loss: bool) -> Iterator[Path]:
    """Yield a file with the lines: the finished target, or the one that will get its name."""
    unnamed = target.parent / interrupted if interrupted else None
    if interrupted is not None and target.exists():
        yield target
        if unnamed is not None and unnamed.exists() and unnamed.samefile(target):
            unnamed.unlink()
    elif unnamed is not None and unnamed.exists():
        with copy_published_on_exit(target, content, already_written=unnamed) as partial:
            yield partial
    elif interrupted is not None and not accept_loss:
        raise lost_target_error(str(target))
    else:
        with copy_published_on_exit(target, content) as partial:
            yield partial


@contextmanager
def _file_lines(path: Path) -> Iterator[Iterator[Row]]:
    try:
        with closing(sqlite3.connect(path)) as file:
            yield map(Row._make, file.execute("SELECT * FROM lines ORDER BY number"))
    except sqlite3.DatabaseError:
        raise LedgerUnavailable("the target file is not a ledger", place=str(path), fix="name a new file") from None


def _complete_export_or_none(source: Address) -> CompleteExport | None:
    """Return the complete export to be copied, None if the source is not an export. A plain export lacks what a copy
    needs, and one whose ledger still exists is refused: the ledger itself is sealed when it moves.
    """
    if is_server_address(source):
        return None
    path = Path(os.path.realpath(source))
    try:
        with open(path, "rb") as file:
            first_byte = file.read(1)
    except OSError:
        raise LedgerUnavailable(
            "there is no ledger to copy", place=str(source), fix="name the ledger: a file, or postgresql://host/db"
        ) from None
    if first_byte == b"[":
        raise InvalidParameter(
            "source",
            str(source),
            "a ledger, a backup or a complete export: this export lacks the key and the salts that are needed to "
            "verify its lines",
            fix="copy the ledger itself, or export it again with --complete; if the ledger is lost, open a new one "
            "and acknowledge the loss: `sfumato ledger acknowledge`",
        )
    if not first_byte:
        raise _empty_ledger_error(source)
    if first_byte != b"{":
        return None
    exported = CompleteExport.from_file(path)
    require_ledger_gone(exported.place, exported.key)
    return exported


def _require_same_export(guarded: GuardedStore, exported: CompleteExport | None) -> None:
    """Refuse a file beside an export that was not made from it."""
    if exported is None:
        return
    with guarded.reading() as transaction:
        if guarded.store.key().hex() == exported.key and transaction.has_line(*exported.last):
            return
    raise LedgerUnavailable(
        "to restore an export, its ledger is written to this file beside it, but the file already holds a different "
        "ledger",
        place=guarded.store.place,
        fix="move this file to another folder, then run the command again",
    )
