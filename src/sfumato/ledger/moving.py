"""A ledger moves house: every line is copied as it is, and a last line seals the old one.

The old ledger is locked meanwhile. It is sealed before the new one counts, so that a crash leaves one of them, or
none, that can be charged, never both: where it struck in between, the same command finishes what was begun.
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
from sfumato.ledger.proofs.anchors import Anchor, accept
from sfumato.ledger.proofs.exporting import CompleteExport
from sfumato.ledger.proofs.verifying import Checker, require_lost
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.opening import open_store
from sfumato.ledger.stores.server_addresses import ServerAddress, is_server_address
from sfumato.ledger.stores.sqlite import Content, copied, lost_target
from sfumato.ledger.stores.store import Store
from sfumato.ledger.transaction import Transaction, every

_TIMEOUT = 30.0
_ACCEPTED = "copied from a backup or an export: its owner accepts that charges which it lacks are forgotten"
_FORGOTTEN = "filled again, after it was lost: its owner accepts that charges which were made here are forgotten"
_NEVER_AGAIN = (
    "nothing has sealed the ledger of which {} was made: it must never be charged again, nor may another copy of the "
    "same be moved elsewhere, or one budget is spent twice"
)
Address = str | os.PathLike[str]


def copy_ledger(
    source: Address,
    target: Address,
    *,
    anchor: Anchor | Address | None = None,
    accept_loss: bool = False,
) -> tuple[int, str]:
    """Copy a ledger, with every line and large answer as it is, to an empty one, and seal it; number and hash of the
    last line of the new one.

    Both are verified, and their last lines compared, before the old one is sealed. What was begun and interrupted is
    finished by the same call. A backup or a complete export may lack what was charged since: it needs an ``anchor`` of
    its last line, or an owner who accepts that such charges are forgotten, which is written down in the new ledger; as
    does a target that is lost and filled again.
    """
    exported = _export(source)
    with nullcontext(source) if exported is None else exported.restored() as ledger:
        moved, is_backup = _copied(ledger, target, anchor, exported, accept_loss=accept_loss)
    if is_backup:
        which = "this backup" if exported is None else f"this export ({exported.place})"
        warnings.warn(_NEVER_AGAIN.format(which), WeakLedger, stacklevel=2)
    return moved


def _copied(
    source: Address,
    target: Address,
    anchor: Anchor | Address | None,
    exported: CompleteExport | None,
    *,
    accept_loss: bool,
) -> tuple[tuple[int, str], bool]:
    """Copy a ledger; number and hash of the last line, and whether it was a backup, whose ledger nobody seals."""
    with Ledger(open_guarded(source, anchor=anchor)) as ledger:
        guarded = ledger._guarded  # noqa: SLF001 - of one package
        _require_same_export(guarded, exported)
        is_backup = guarded.store.is_backup
        if is_backup:
            _remind(guarded, "" if exported is None else exported.place, accept_loss=accept_loss)
            if accept_loss:
                _write_down(guarded, _place(target))
        found = ledger.verify()
        if not found.holds and not found.answers:
            raise LedgerDamaged(found.bad, found.why)
        if not ledger.accounts:
            raise _without_lines(source)
        if not accept_loss:
            _require_newest(guarded, None if anchor is None else guarded.anchors[0])
        guarded.store.require_owner()
        again = _is_sealed(guarded)
        moved = _moved(guarded, target, accept_loss=accept_loss)
    return (_write_down_again(target, moved) if again and accept_loss else moved), is_backup


def _without_lines(source: Address) -> LedgerUnavailable:
    return LedgerUnavailable(
        "a ledger without lines is not copied",
        place=str(source),
        fix="open a new one at the other place: nothing was spent here",
    )


def _remind(guarded: GuardedStore, place: str, *, accept_loss: bool) -> None:
    """Compare a backup, or an export, with all that this user has kept of its ledger, wherever it was then: refuse one
    that lacks a line, or, as its owner accepts that, keep in mind what it lacks.
    """
    with guarded.reading() as transaction:
        if transaction.head is None or transaction.moved_to:
            return
        for path, anchor in anchors.of_the_same(transaction, place):
            if anchor.holds(transaction):
                continue
            if anchor.moved:
                _require_after(transaction, path, anchor)
            elif accept_loss:
                guarded.anchors += (anchor,)
            else:
                raise LedgerUnavailable(
                    f"an anchor of this user knows line {anchor.number}, which this backup or export lacks: what was "
                    "charged since would be free to be spent again",
                    place=str(path),
                    fix="move the ledger itself; where it is lost, accept, as the owner, that charges are forgotten: "
                    "--accept-loss",
                )


def _require_after(transaction: Transaction, path: Path, anchor: Anchor) -> None:
    """Refuse a backup, or an export, of a ledger that was moved, unless it goes on after that: then it was made of the
    one to which it was moved.
    """
    before = any(transaction.has(*mark) for mark in anchor.marks[:1])
    if not before or transaction.head is None or transaction.head.number < anchor.number:
        raise LedgerUnavailable(
            "a backup or an export is copied where its ledger is lost, and the ledger of this one was moved to "
            f"{anchor.moved}",
            place=str(path),
            fix="name the ledger that it was moved to; if that is destroyed, too, put this anchor elsewhere, and name "
            "it: --anchor FILE --accept-loss",
        )


def _require_newest(guarded: GuardedStore, anchor: Anchor | None) -> None:
    """Refuse a backup, or an export, of which no anchor says that it has the newest lines."""
    if not guarded.store.is_backup:
        return
    with guarded.reading() as transaction:
        head = transaction.head
        sealed = head is not None and head.kind == "moved"
        last = _last(transaction, before=head.number if sealed and head is not None else 0)
    if anchor is None or (anchor.number, anchor.hash) != (last.number, last.hash):
        which = "" if anchor is None else f": the anchor is of line {anchor.number}, and its last is line {last.number}"
        raise LedgerUnavailable(
            "a backup or an export may lack what was charged since it was made, which would be free to be spent again"
            f"{which}",
            place=guarded.store.place,
            fix="move the ledger itself; where it is lost, name an anchor of its last line with --anchor FILE, or, as "
            "the owner, accept that those charges are forgotten: --accept-loss",
        )


def _write_down(guarded: GuardedStore, to: str) -> None:
    """Write, before it is moved, that its owner has accepted that a backup may lack lines: what an anchor knows of them
    is added to the totals. Who finishes what was begun has written it before.
    """
    with guarded.writing(acknowledging=True, moving=to) as transaction:
        head = transaction.head
        if head is None or head.kind == "moved":
            return
        lost = accept(transaction, guarded.anchors, _ACCEPTED)
        if not lost and (head.kind, head.question) != ("acknowledge", _ACCEPTED):
            transaction.append("acknowledge", head.account, {"question": _ACCEPTED})


def _is_sealed(guarded: GuardedStore) -> bool:
    with guarded.reading() as transaction:
        return transaction.head is not None and transaction.head.kind == "moved"


def _write_down_again(target: Address, last: tuple[int, str]) -> tuple[int, str]:
    """Write, where a target has the very lines of a ledger that was moved to it before, that its owner has accepted
    that charges made there are forgotten: what an anchor knows of them is added to the totals.
    """
    with Ledger(open_guarded(target)) as ledger:
        guarded = ledger._guarded  # noqa: SLF001 - of one package
        with guarded.writing(acknowledging=True) as transaction:
            head = transaction.head
            if head is None or (head.number, head.hash) != last:
                return last
            if not accept(transaction, guarded.anchors, _FORGOTTEN):
                transaction.append("acknowledge", head.account, {"question": _FORGOTTEN})
        return ledger.head


def _moved(guarded: GuardedStore, target: Address, *, accept_loss: bool) -> tuple[int, str]:
    to = _place(target)
    _require_another(guarded.store, target)
    # The new ledger counts when ``filling`` has ended, which is after the old one is sealed.
    with ExitStack() as filling, guarded.writing(moving=to) as transaction:
        sealed = transaction.head is not None and transaction.head.kind == "moved"
        last = _last(transaction, before=transaction.head.number if sealed and transaction.head else 0)
        bodies = guarded.store.bodies
        key = guarded.store.key().hex()
        content = Content(
            key,
            lambda: (row for row in every(transaction) if row.kind != "moved"),
            transaction.under_way({}),
            bodies.read,
        )
        begun = json.loads(transaction.head.detail).get("into", "") if sealed and transaction.head else None
        into, lines = filling.enter_context(_filled(target, content, last, begun, accept_loss=accept_loss))
        _require_same(lines, last, guarded.keyed.origin)
        if not sealed:
            detail = json.dumps({"moved": to, "into": into}, ensure_ascii=False)
            transaction.append("moved", last.account, {"question": f"moved to {to}", "detail": detail})
    return last.number, last.hash


def _last(transaction: Transaction, before: int) -> Row:
    return transaction.page({}, newest=True, before=before, limit=1)[0]


def _require_same(lines: Iterable[Row], last: Row, origin: str) -> None:
    """Refuse a copy that does not verify, or does not end with the same line."""
    checker = Checker.whole(origin)
    found = checker.check(lines)
    if not found.holds or (checker.number, checker.hash) != (last.number, last.hash):
        raise LedgerDamaged(found.bad, "the copy is not the same; nothing was moved")


def _place(target: Address) -> str:
    """Name a place as the line that seals a ledger does: always in the same way."""
    if is_server_address(target):
        address = ServerAddress.of(str(target))
        return f"{address.url}, schema {address.schema}"
    return os.path.realpath(target)


def _require_another(store: Store, target: Address) -> None:
    """Refuse to copy a ledger into itself, by whatever name: it would wait for its own lock."""
    if is_server_address(target):
        found = ""
        if store.shared:
            other = open_store(target, None, _TIMEOUT)
            found = other.identity
            other.close()
    else:
        found = os.path.realpath(target)
    if store.identity == found:
        raise LedgerUnavailable(
            "a ledger is not copied into itself", place=store.place, fix="name another place for it"
        )


@contextmanager
def _filled(
    target: Address, content: Content, last: Row, begun: str | None, *, accept_loss: bool
) -> Iterator[tuple[str, Iterable[Row]]]:
    """Fill an empty ledger, and give what tells it from others with its lines, to be looked at; it counts when the
    block has ended. What was ``begun`` before is filled again only if it is the very same.
    """
    if is_server_address(target):
        from sfumato.ledger.stores.postgres import PostgresStore

        store = PostgresStore(ServerAddress.of(str(target)), _TIMEOUT)
        try:
            refill = accept_loss or begun == store.identity
            with store.filled(content, None if begun is None else last, refill=refill) as lines:
                yield store.identity, lines
        finally:
            store.close()
    else:
        file = _file(Path(os.path.realpath(target)), content, begun, accept_loss=accept_loss)
        with file as path, _lines(path) as lines:
            yield path.name, lines


@contextmanager
def _file(target: Path, content: Content, begun: str | None, *, accept_loss: bool) -> Iterator[Path]:
    """Give a file with the lines: the target that is finished, or the one that will be given its name."""
    waiting = target.parent / begun if begun else None
    if begun is not None and target.exists():
        yield target
        if waiting is not None and waiting.exists() and waiting.samefile(target):
            waiting.unlink()
    elif waiting is not None and waiting.exists():
        with copied(target, content, begun=waiting) as partial:
            yield partial
    elif begun is not None and not accept_loss:
        raise lost_target(str(target))
    else:
        with copied(target, content) as partial:
            yield partial


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[Row]]:
    try:
        with closing(sqlite3.connect(path)) as file:
            yield map(Row._make, file.execute("SELECT * FROM lines ORDER BY number"))
    except sqlite3.DatabaseError:
        raise LedgerUnavailable(
            "the file at the other place is no ledger", place=str(path), fix="give the name of a file that is not there"
        ) from None


def _export(source: Address) -> CompleteExport | None:
    """Find the complete export that is to be copied, if it is one. Another export leaves out what no copy can lack, and
    one whose ledger is still here is not needed: the ledger itself is sealed when it moves.
    """
    if is_server_address(source):
        return None
    path = Path(os.path.realpath(source))
    try:
        with open(path, "rb") as file:
            begins = file.read(1)
    except OSError:
        raise LedgerUnavailable(
            "there is no ledger to copy", place=str(source), fix="name the ledger: a file, or postgresql://host/db"
        ) from None
    if begins == b"[":
        raise InvalidParameter(
            "source",
            str(source),
            "a ledger, a backup or a complete export: this one leaves out the key and the salts, without which no line "
            "can be verified",
            fix="copy the ledger itself, or export it again with --complete; where it is lost, open a new one and "
            "acknowledge the anchor",
        )
    if not begins:
        raise _without_lines(source)
    if begins != b"{":
        return None
    exported = CompleteExport.of(path)
    require_lost(exported.place, exported.key)
    return exported


def _require_same_export(guarded: GuardedStore, exported: CompleteExport | None) -> None:
    """Refuse a file beside an export that was not made of it."""
    if exported is None:
        return
    with guarded.reading() as transaction:
        if guarded.store.key().hex() == exported.key and transaction.has(*exported.last):
            return
    raise LedgerUnavailable(
        "an export is made a ledger again in a file beside it, and another ledger is in that file",
        place=guarded.store.place,
        fix="put that file out of the way, if it is not needed",
    )
