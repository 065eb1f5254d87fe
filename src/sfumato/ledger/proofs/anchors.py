"""An anchor holds the head and the totals of a ledger, small enough to be kept elsewhere.

Whoever can write the file can rewrite all of it, hashes included; a chain alone cannot show that its end was cut off.
An anchor kept in another place can: a ledger that does not contain the anchor's line is refused for charging.

Anchors are kept by a user: of the whole ledger when it is closed, and none is replaced by one that knows less.

A ledger that was rolled back, by a failover or a backup, still has a last line. An anchor of that line would forget the
lost ones, so an anchor is replaced only where the ledger still holds the line that it knows, and only by one of the
whole ledger as it is then.

A process that is killed closes nothing. Of a ledger that others write too, it therefore keeps a file of its own, with
what it knows after each of its lines. It is written when the line is, before the charge returns: so before a row is
read for it, and before anybody is told. A process that is killed (kill -9) in between has released nothing for the line
that it forgets. The file is not synced: if the machine of a curator loses its power at the moment of a failover, its
last lines may be forgotten with it.

Such a file is removed when an anchor of the whole ledger was saved while the ledger held the lines that it knows.
Whoever closes a ledger that has lost them leaves it, so nothing is ever merged that may be of two histories.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from sfumato.errors import AccountDiffers, InvalidParameter, LedgerUnavailable
from sfumato.ledger import entries, local_files
from sfumato.ledger.sealed_rows import EMPTY_HEAD_HASH, Row
from sfumato.ledger.spending import NO_COST, read_cost, read_totals, write_cost
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Cost, codec
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import UNREADABLE

_LOAD_FIX = "load the anchor with Anchor.load(path)"


@codec.serialisable("anchored-account")
@dataclass(frozen=True)
class AnchoredAccount:
    """An account as it stood at the anchor; what tabs held counts as spent."""

    name: str
    terms: Terms
    total: Cost

    def __post_init__(self) -> None:
        entries.checked_name(self.name, "account")
        if not isinstance(self.terms, Terms) or not isinstance(self.total, Cost):
            raise InvalidParameter(
                "accounts",
                self.name,
                "a list of AnchoredAccount values, each with its terms and its total",
                fix=_LOAD_FIX,
            )


@codec.serialisable("anchor")
@dataclass(frozen=True)
class Anchor:
    """The hash of line ``number``, and the accounts as they stood there."""

    number: int
    hash: str
    accounts: tuple[AnchoredAccount, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    """Numbers and hashes of lines before it, ever further apart: they tell where another history has parted."""
    moved: str = ""
    """Where the ledger was moved to, if this line says so."""

    def __post_init__(self) -> None:
        if type(self.number) is not int or self.number < 0:
            raise InvalidParameter("number", self.number, "a whole number ≥ 0")
        if not isinstance(self.hash, str) or len(self.hash) != 64:
            raise InvalidParameter("hash", self.hash, "64 hexadecimal digits", fix=_LOAD_FIX)
        are_accounts = isinstance(self.accounts, (tuple, list)) and all(
            isinstance(a, AnchoredAccount) for a in self.accounts
        )
        if not are_accounts or bool(self.accounts) is not (self.number > 0):
            rule = "a list of AnchoredAccount values, including that of the ledger's first line"
            raise InvalidParameter("accounts", self.accounts, rule, fix=_LOAD_FIX)
        object.__setattr__(self, "accounts", tuple(self.accounts))
        if not isinstance(self.marks, (tuple, list)) or not all(_is_mark(mark) for mark in self.marks):
            raise InvalidParameter("marks", self.marks, "pairs of a line's number and its hash", fix=_LOAD_FIX)
        object.__setattr__(self, "marks", tuple((number, line_hash) for number, line_hash in self.marks))
        if type(self.moved) is not str:
            raise InvalidParameter("moved", self.moved, "a string")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Anchor:
        file = Path(local_files.checked_path(path, "anchor"))
        try:
            decoded = _decode_cached(file.read_text())
        except UNREADABLE as error:
            raise _unreadable_anchor_error(file) from error
        if not isinstance(decoded, Anchor):
            raise _unreadable_anchor_error(file)
        return decoded

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a temporary file and rename it: there is always a whole anchor under the name."""
        target = Path(local_files.checked_path(path, "path"))
        temporary = local_files.create_temporary(target)
        try:
            with open(temporary, "w") as file:
                file.write(codec.dumps(self))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    def knows(self, transaction: Transaction) -> bool:
        """Return whether it is of this ledger, wherever it was kept then: it knows a line that is in it."""
        return self.number > 0 and any(transaction.has_line(*line) for line in ((self.number, self.hash), *self.marks))

    def misses(self, transaction: Transaction) -> bool:
        """Return whether it is of this ledger, wherever it was kept then, and knows a line that is lost. The line by
        which a ledger was moved is in the old one alone.
        """
        lines = self.marks[:1] if self.moved else ()
        return (
            self.knows(transaction)
            and not any(transaction.has_line(*line) for line in lines)
            and not self.holds(transaction)
        )

    def holds(self, transaction: Transaction) -> bool:
        """Return whether the ledger still contains the anchored line, or its owner has accepted that it does not, and
        all that this anchor knows was added: another anchor of the same line may know less.
        """
        if self.number == 0 or transaction.has_line(self.number, self.hash):
            return True
        lost = LostLines.from_anchor(self, transaction)
        return lost.accepted and all(lost.missing_cost(account).is_zero for account in self.accounts)


@dataclass(frozen=True)
class LostLines:
    """What an anchor knows of lines that a ledger lacks."""

    anchor: Anchor
    transaction: Transaction
    last_common_number: int
    """The last line that the ledger surely shares with the anchor's history; 0 when none is known."""
    rows: tuple[Row, ...]
    """The lines in which its owner has accepted that the anchor's line is lost."""

    @classmethod
    def from_anchor(cls, anchor: Anchor, transaction: Transaction) -> LostLines:
        common = max(
            (number for number, line_hash in anchor.marks if transaction.has_line(number, line_hash)), default=0
        )
        rows = transaction.page({"kind": "acknowledge"}, after=common)
        return cls(anchor, transaction, common, tuple(row for row in rows if row.data == anchor.hash))

    @property
    def accepted(self) -> bool:
        return bool(self.rows)

    def missing_cost(self, account: AnchoredAccount) -> Cost:
        """Compute what is to be added to an account.

        Theorem: the totals end at no less than all that was spent. Let S stand at the common line, T at the anchor's,
        and let A be accepted for the anchor's line before. A was added here, so S + A + N stands, where N are the other
        charges. T − S − A is added where that is more than nothing: at least T + N stands then. What was accepted for
        another line is part of N, so it is never taken off: it may be that of another history.
        """
        same_account = {"account": account.name}
        common_lines = (
            self.transaction.page(same_account, newest=True, before=self.last_common_number + 1, limit=1)
            if self.last_common_number
            else []
        )
        common_total = read_totals(common_lines[0].totals).total if common_lines else NO_COST
        accepted_costs = [read_cost(row.cost) for row in self.rows if row.account == account.name]
        return _uncounted_cost(account.total, [common_total, *accepted_costs])


def anchored_numbers(anchors: Iterable[Anchor]) -> list[int]:
    """List the numbers of all lines that anchors know: a remote store fetches them at once."""
    return [number for anchor in anchors for number, _ in ((anchor.number, anchor.hash), *anchor.marks) if number]


def _is_mark(mark: object) -> bool:
    return isinstance(mark, (tuple, list)) and [type(part) for part in mark] == [int, str]


def _unreadable_anchor_error(path: Path) -> LedgerUnavailable:
    return LedgerUnavailable(
        "the anchor, a record of the ledger's newest lines that shows whether some were lost, cannot be read",
        place=str(path),
        fix="restore this file; remove it only if you are sure that the ledger has all its lines",
    )


def current_anchor(transaction: Transaction) -> Anchor:
    """Return the anchor of this moment."""
    if transaction.head is None:
        return Anchor(0, EMPTY_HEAD_HASH)
    accounts = tuple(_anchored_account(transaction, row.account) for row in transaction.page({"kind": "account-open"}))
    head, *marks = line_marks(transaction)
    return Anchor(*head, accounts, tuple(marks), transaction.moved_to)


def line_marks(transaction: Transaction) -> tuple[tuple[int, str], ...]:
    """Return number and hash of the last line, and of lines before it, exponentially further apart."""
    if transaction.head is None:
        return ()
    rows = map(transaction.line, mark_numbers(transaction.head.number))
    return tuple((row.number, row.hash) for row in rows if row is not None)


def mark_numbers(last: int) -> list[int]:
    """List the numbers of a last line and of lines before it, exponentially further apart."""
    return [last, *(last - (1 << power) for power in range(last.bit_length()) if last > 1 << power)] if last else []


def _anchored_account(transaction: Transaction, name: str) -> AnchoredAccount:
    last = transaction.last_account_line(name)
    return AnchoredAccount(name, transaction.terms(last.terms), read_totals(last.totals).total)


def accept_lost_lines(transaction: Transaction, anchors: Iterable[Anchor], reason: str) -> list[Row]:
    """Append lines that add to every account what anchors know was spent and is lost, and record that their lines are.

    What stands here after the last common line was spent too, in another history: both count. Lost lines of which two
    anchors know count twice, because nobody can tell whether they were the same.
    """
    lost_anchors = sorted(
        {anchor for anchor in anchors if not anchor.holds(transaction)}, key=lambda anchor: anchor.number
    )
    return [row for anchor in lost_anchors for row in _accept_lines_lost_since(transaction, anchor, reason)]


def _accept_lines_lost_since(transaction: Transaction, anchor: Anchor, reason: str) -> list[Row]:
    lost = LostLines.from_anchor(anchor, transaction)
    appended: list[Row] = []
    for account in anchor.accounts:
        _open_lost_account(transaction, account)
        cost = lost.missing_cost(account)
        if not cost.is_zero or not (appended or lost.accepted):
            columns = {"data": anchor.hash, "question": reason}
            appended.append(transaction.append("acknowledge", account.name, columns, cost=cost))
    return appended


def _open_lost_account(transaction: Transaction, anchored_account: AnchoredAccount) -> None:
    """Open an account that is lost; raise for one that is counted in another currency."""
    if transaction.newest(account=anchored_account.name) is None:
        transaction.append("account-open", anchored_account.name, {"detail": codec.dumps(anchored_account.terms)})
    last = transaction.last_account_line(anchored_account.name)
    if transaction.terms(last.terms).budget.order != anchored_account.terms.budget.order:
        raise AccountDiffers(
            "the anchor counts the privacy loss of this account at a different Rényi order",
            place=f"account {anchored_account.name!r}",
            fix="give the anchor that belongs to this ledger",
        )


def _uncounted_cost(total: Cost, counted: Sequence[Cost]) -> Cost:
    """Compute by how much the known total exceeds the sum of the costs counted already.

    The sum is exact, since it is subtracted: only the difference is rounded up where its fraction is long.
    """
    pure = None if total.pure is None else max(0, total.pure - sum(cost.pure or 0 for cost in counted))
    if any(cost.pure is None for cost in counted):
        pure = 0  # closed already: it stays so
    renyi = None if total.renyi is None else max(0, total.renyi - sum(cost.renyi or 0 for cost in counted))
    failure = max(0, total.failure - sum(cost.failure for cost in counted))
    return Cost(pure, renyi, failure).with_short_fractions()


@lru_cache(maxsize=64)
def _decode_cached(text: str) -> object:
    """Decode a text; the same texts are read whenever a ledger is opened, and few of them change."""
    return codec.loads(text)


Marks = tuple[tuple[int, str], ...]
"""Numbers and hashes of lines."""

_LOCK_TIMEOUT = 5.0
"""Seconds to wait for whoever renews the same anchors."""
_LOCK_POLL_SECONDS = 0.01
_MAX_NEWEST_LINES = 64
"""Last lines that a process remembers, to tell where another history has parted; and so many of the first."""
_MAX_OLDEST_LINES = 32


@contextlib.contextmanager
def lock_anchor_file(anchor_path: Path) -> Iterator[None]:
    """Hold the lock on the anchors of this folder; it is taken before the ledger is read, so that nobody saves an older
    moment after a newer one.
    """
    anchor_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(anchor_path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock_folder(folder)
        yield
    finally:
        os.close(folder)


def _lock_folder(folder: int) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise  # an older anchor stays, and is still a true one
        except OSError:
            return None  # a file system without locks: what is on disk is compared in any case
        time.sleep(_LOCK_POLL_SECONDS)


def renew_anchors(anchor_paths: tuple[Path, ...], transaction: Transaction) -> bool:
    """Save the anchor of this moment in every place, but where one knows a line that the ledger lacks; return whether
    it is in all of them.
    """
    if transaction.head is None:
        return False
    current, everywhere = current_anchor(transaction), True
    for anchor_path in anchor_paths:
        if not anchor_path.exists() or Anchor.load(anchor_path).holds(transaction):
            current.save(anchor_path)
        else:
            everywhere = False
    return everywhere


@dataclass(frozen=True)
class ProcessAnchor:
    """What one process knows of the lines that it wrote, in a file of its own."""

    path: Path
    process: str
    anchor: Anchor
    stamp: tuple[int, int]
    """How the file looked: whoever writes it again makes another."""

    @property
    def ended(self) -> bool:
        """Whether its process is not known to run."""
        return local_files.is_process_alive(self.process, elsewhere=True) is not True

    def forget(self, anchor_paths: tuple[Path, ...], transaction: Transaction) -> None:
        """Remove the file, once an anchor of the whole ledger knows as much in all of ``anchor_paths``. One that was
        written since it was read stays, whoever has done that: a process on another machine may have the same folder.
        It is renamed first, to a name by which it is still found.
        """
        if self.path.name.rsplit(".", 2)[0] != _joined_stems(anchor_paths) or not self.anchor.holds(transaction):
            return
        aside = _process_anchor_file(self.path, f"{local_files.current_process_name()} {self.path.name}")
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(aside)
            if _file_stamp(aside) != self.stamp:
                with contextlib.suppress(FileExistsError):  # or it was written once more
                    os.link(aside, self.path)
            aside.unlink()


def _file_stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


class WrittenLines:
    """What one process knows of the lines that it wrote to a ledger."""

    def __init__(self, lineage: Marks = ()) -> None:
        self.lineage = lineage
        """A line, and lines that are surely before it, from the newest: the last that this process wrote, or the last
        when it opened the ledger."""
        self.last: tuple[int, str] | None = None
        """The last line that this process wrote, all threads together."""
        self._moved = ""
        """Where the ledger was moved to, if this last line says so."""
        self._last_turn = -1
        self._since: dict[str, tuple[int, int, Terms, str]] = {}
        """Of accounts that it charged: in which turn, their terms (line and value), and the totals of their last line,
        as it states them: they are added up when an anchor is made, not at every charge."""
        self._texts: dict[int, str] = {}

    def lines_before(self, transaction: Transaction) -> Marks:
        """List lines that surely precede all that this transaction writes: those before a line that it still has. Of a
        lost line nothing is known, whether its loss was accepted or not.
        """
        lineage = self.lineage
        before = lineage if lineage and transaction.has_line(*lineage[0]) else ()
        if transaction.head is None:
            return before
        mark = (transaction.head.number, transaction.head.hash)
        return _keep_ends(before if before[:1] == (mark,) else (mark, *before))

    def add(self, turn: int, before: Marks, written: Sequence[tuple[Row, Terms]]) -> None:
        """Add lines with their terms, written in this turn after the lines ``before``; threads come in any order, and
        the last counts.
        """
        for row, terms in written:
            if self._since.get(row.account, (-1,))[0] <= turn:
                self._since[row.account] = turn, row.terms, terms, row.totals
        if turn >= self._last_turn:
            last, _ = written[-1]
            self.lineage = ((last.number, last.hash), *before)
            self._last_turn, self.last, self._moved = turn, self.lineage[0], last.moved_to

    def _terms_text(self, number: int, terms: Terms) -> str:
        if number not in self._texts:
            self._texts[number] = codec.dumps(terms)
        return self._texts[number]

    @property
    def anchor(self) -> Anchor | None:
        """Return an anchor of all that it knows; None if it wrote nothing."""
        if self.last is None:
            return None
        (number, last_hash), *before = self.lineage
        charged = list(self._since.items())
        accounts = [AnchoredAccount(name, terms, read_totals(totals).total) for name, (_, _, terms, totals) in charged]
        return Anchor(number, last_hash, tuple(accounts), tuple(before), self._moved)

    def save(self, path: Path) -> None:
        """Write a temporary file and rename it: a process that is killed leaves the whole file of this line, or of the
        one before. No charge should wait long for it, so texts are cached.
        """
        accounts = [
            (name, self._terms_text(number, terms), write_cost(read_totals(totals).total))
            for name, (_, number, terms, totals) in self._since.items()
        ]
        moved = [self._moved] if self._moved else []
        text = json.dumps([local_files.current_process_name(), self.lineage, accounts, *moved])
        temporary = path.with_suffix(".partial")
        try:
            handle = _create_exclusive(temporary)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = _create_exclusive(temporary)
        except FileExistsError:
            temporary.unlink()  # of one that was killed while it wrote
            handle = _create_exclusive(temporary)
        with open(handle, "wb") as file:
            file.write(text.encode())
        os.replace(temporary, path)


def _create_exclusive(path: Path) -> int:
    """Create a file readable by its owner only; a link in its place is not followed."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _keep_ends(lines: Marks) -> Marks:
    """Keep the newest and the oldest of these lines."""
    return lines[:_MAX_NEWEST_LINES] + lines[_MAX_NEWEST_LINES:][-_MAX_OLDEST_LINES:]


def process_anchor_path(anchor_paths: tuple[Path, ...], number: int) -> Path:
    """Return the path of this process's file, beside the anchors of the whole ledger: named by each of them, as the
    ledger is known by its id and by its address. A process may have opened it several times.
    """
    return _process_anchor_file(
        anchor_paths[0].with_name(f"{_joined_stems(anchor_paths)}..running"),
        f"{local_files.current_process_name()} {number}",
    )


def _joined_stems(anchor_paths: tuple[Path, ...]) -> str:
    return ".".join(anchor_path.stem for anchor_path in anchor_paths)


def _process_anchor_file(path: Path, text: str) -> Path:
    """Return the path of a running file of the same ledger, made unique by this text."""
    return path.with_name(f"{path.name.rsplit('.', 2)[0]}.{sha256(text.encode()).hexdigest()[:16]}.running")


def load_process_anchors(anchor_paths: tuple[Path, ...]) -> tuple[ProcessAnchor, ...]:
    """Read the files of processes that did not close this ledger, or have it open still: under its id, or another
    ledger's that was at its address.
    """
    ledger_names = {anchor_path.stem for anchor_path in anchor_paths} if len(anchor_paths) > 1 else set()
    process_anchors = []
    for path in sorted(anchor_paths[0].parent.glob("*.running")):
        name, *_ = path.name.rsplit(".", 2)
        if name == _joined_stems(anchor_paths) or ledger_names & set(name.split(".")):
            process_anchors.append(_read_process_anchor(path))
    return tuple(process_anchor for process_anchor in process_anchors if process_anchor is not None)


def load_any_anchor(path: str | os.PathLike[str]) -> Anchor:
    """Read an anchor, or what a process that was killed has kept instead of one."""
    process_anchor = _read_process_anchor(Path(path)) if str(path).endswith(".running") else None
    return Anchor.load(path) if process_anchor is None else process_anchor.anchor


def anchors_of_same_id(anchor_paths: tuple[Path, ...]) -> list[Anchor]:
    """Read what this user has kept of the very ledger that these are the places of, and of no other at its address."""
    saved = [Anchor.load(anchor_paths[0])] if anchor_paths[0].exists() else []
    return saved + [
        process_anchor.anchor
        for process_anchor in load_process_anchors(anchor_paths)
        if process_anchor.path.name.split(".")[0] == anchor_paths[0].stem
    ]


def anchors_of_all_databases(*, strict: bool) -> list[tuple[Path, Anchor]]:
    """Read all that this user has kept of ledgers in databases. What cannot be read raises if ``strict``, and is
    skipped otherwise: it is of another ledger, or refused where that is opened.
    """
    folder = local_files.anchor_folder()
    anchors: list[tuple[Path, Anchor]] = []
    for path in (*sorted(folder.glob("*.anchor")), *sorted(folder.glob("*.running"))):
        try:
            if path.suffix == ".anchor":
                anchors.append((path, Anchor.load(path)))
            elif (process_anchor := _read_process_anchor(path)) is not None:
                anchors.append((path, process_anchor.anchor))
        except LedgerUnavailable:
            if strict:
                raise
    return anchors


def anchors_of_same_ledger(transaction: Transaction, place: str) -> list[tuple[Path, Anchor]]:
    """Return what this user has kept of a ledger wherever it was then, by lines that it shares: of any database, and
    beside the file in this ``place``.
    """
    beside = Path(f"{place}.anchor")
    adjacent = [(beside, Anchor.load(beside))] if beside.is_absolute() and beside.exists() else []
    return [
        (path, anchor) for path, anchor in anchors_of_all_databases(strict=True) + adjacent if anchor.knows(transaction)
    ]


def _read_process_anchor(path: Path) -> ProcessAnchor | None:
    try:
        stamp = _file_stamp(path)
        process, anchor = _decode_anchor(path.read_text(encoding="utf-8"))
        return ProcessAnchor(path, process, anchor, stamp)
    except FileNotFoundError:
        return None  # closed meanwhile: the anchor of the whole ledger knows more
    except UNREADABLE as error:
        raise LedgerUnavailable(
            "the anchor of another process, a record of the ledger's lines that it wrote, cannot be read",
            place=str(path),
            fix="make this file readable for this user; remove it only if you are sure that the ledger has these lines",
        ) from error


@lru_cache(maxsize=64)
def _decode_anchor(text: str) -> tuple[str, Anchor]:
    """Decode which process has written a text, and what it knew; the same texts are read at every opening."""
    process, lineage, accounts, *moved = json.loads(text)
    _boot, _space, _number, _start = process.split(" ")
    (number, last_hash), *before = lineage
    charged = [AnchoredAccount(name, codec.loads_as(Terms, terms), read_cost(total)) for name, terms, total in accounts]
    return process, Anchor(number, last_hash, tuple(charged), tuple(before), *moved)
