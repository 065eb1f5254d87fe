"""A ledger moves house: every line is copied as it is, and a last line seals the old one.

The old ledger is locked meanwhile. It is sealed before the new one counts, so that a crash leaves one of them, or
none, that can be charged, never both: where it struck in between, the same command finishes what was begun.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sfumato.errors import InvalidParameter, LedgerDamaged, LedgerUnavailable
from sfumato.ledger.anchors import Anchor
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.ledgers import Ledger
from sfumato.ledger.opening import open_store
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.server_addresses import ServerAddress, is_server_address
from sfumato.ledger.sqlite_copies import Content, copied, lost_target
from sfumato.ledger.store import Store
from sfumato.ledger.transaction import Transaction
from sfumato.ledger.verifying import Checker

_PAGE = 1000
_TIMEOUT = 30.0
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
    finished by the same call. A backup may lack what was charged since: it needs an ``anchor`` of the newest line, or
    an owner who accepts that such charges are forgotten, as does a target that is lost and filled again.
    """
    _refuse_export(source)
    with Ledger.quietly(source, anchor=anchor) as ledger:
        found = ledger.verify()
        if not found.holds and not found.answers:
            raise LedgerDamaged(found.bad, found.why)
        if not ledger.accounts:
            raise LedgerUnavailable(
                "a ledger without lines is not copied",
                place=str(source),
                fix="open a new one at the other place: nothing was spent here",
            )
        guarded = ledger._guarded  # noqa: SLF001 - of one package
        _require_newest(guarded, anchored=anchor is not None or accept_loss)
        return _moved(guarded, target, accept_loss=accept_loss)


def _require_newest(guarded: GuardedStore, *, anchored: bool) -> None:
    """Refuse who may not seal the ledger, and a backup of which nobody says that it has the newest lines."""
    store = guarded.store
    store.require_owner()
    if store.is_backup and not anchored:
        raise LedgerUnavailable(
            "a backup may lack what was charged since it was made, which would be free to be spent again",
            place=store.place,
            fix="move the ledger itself; where it is lost, name its anchor with --anchor FILE, or, as the owner, "
            "accept that those charges are forgotten: --accept-loss",
        )


def _moved(guarded: GuardedStore, target: Address, *, accept_loss: bool) -> tuple[int, str]:
    to = _place(target)
    _require_another(guarded.store, target)
    # The new ledger counts when ``filling`` has ended, which is after the old one is sealed.
    with ExitStack() as filling, guarded.writing(moving=to) as transaction:
        sealed = transaction.head is not None and transaction.head.kind == "moved"
        last = _last(transaction, before=transaction.head.number if sealed and transaction.head else 0)
        bodies = guarded.store.bodies
        key = guarded.store.key().hex()
        content = Content(key, lambda: _every(transaction), transaction.under_way({}), bodies.read)
        begun = json.loads(transaction.head.detail).get("into", "") if sealed and transaction.head else None
        into, lines = filling.enter_context(_filled(target, content, last, begun, accept_loss=accept_loss))
        _require_same(lines, last, guarded.keyed.origin)
        if not sealed:
            detail = json.dumps({"moved": to, "into": into}, ensure_ascii=False)
            transaction.append("moved", last.account, {"question": f"moved to {to}", "detail": detail})
    return last.number, last.hash


def _last(transaction: Transaction, before: int) -> Row:
    return transaction.page({}, newest=True, before=before, limit=1)[0]


def _every(transaction: Transaction) -> Iterator[Row]:
    """List every line but the one that seals the ledger."""
    after = 0
    while page := transaction.page({}, after=after, limit=_PAGE):
        yield from (row for row in page if row.kind != "moved")
        after = page[-1].number


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
        from sfumato.ledger.postgres import PostgresStore

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


def _refuse_export(source: Address) -> None:
    """Refuse a list of lines as JSON: what it leaves out, no copy can have."""
    if is_server_address(source):
        return
    try:
        with open(source, "rb") as file:
            is_export = file.read(1) == b"["
    except OSError:
        raise LedgerUnavailable(
            "there is no ledger to copy", place=str(source), fix="name the ledger: a file, or postgresql://host/db"
        ) from None
    if is_export:
        raise InvalidParameter(
            "source",
            str(source),
            "a ledger or a backup of one: an export leaves out the key and the salts, without which no line can be "
            "verified",
            fix="copy the ledger itself, or a backup; where both are lost, open a new one and acknowledge the anchor",
        )
