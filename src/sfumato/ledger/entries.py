"""Entries are handed to the ledger, and it gives back lines and stored answers; texts are checked on the way.

The history of an account as whoever asks for it sees it: in this process, or over HTTP.

An index of published answers: what their lines tell without their bodies, kept by each process.

All answers on one shelf (plans that start alike) are listed, whatever was written later. A process reads each of their
lines once; a later call looks for lines after the last that it has seen, by the store's index of plans.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from typing import Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.ledger import spending
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import Charged, Part, read_cost, read_spending
from sfumato.ledger.stores.store import Where
from sfumato.ledger.transaction import Transaction
from sfumato.mechanisms.protocols import Mechanism
from sfumato.notebook_html import paragraph, table
from sfumato.privacy import Cost, Curve, codec
from sfumato.privacy.codec import spelled
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact, text
from sfumato.untrusted import printable, refusing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAME = 200
QUESTION = 1 << 20
BODY = 1 << 28


def name(value: object, what: str) -> str:
    """Check a name, id or hash: short, printable, and the only way to write what it shows."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= NAME
        or not value.isprintable()
        or value != value.strip()
        or unicodedata.normalize("NFC", value) != value
    ):
        raise InvalidParameter(
            what, value, f"a printable text of 1 to {NAME} characters in normal form (NFC), without spaces around it"
        )
    return value


def prose(value: object, what: str, longest: int = QUESTION) -> str:
    """Take any text that can be stored: no NUL, no half characters, not endless."""
    if not isinstance(value, str) or len(value) > longest or "\0" in value or not _whole(value):
        raise InvalidParameter(what, value, f"a text of at most {longest} characters without NUL or lone surrogates")
    return value


def reason(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter("reason", value, "a reason in words: it is kept for ever")
    return prose(value, "reason")


def line_number(value: object, what: str) -> int:
    if type(value) is not int or not 0 < value < 1 << 63:
        raise InvalidParameter(what, value, "the number of a line")
    return value


def _whole(value: str) -> bool:
    if value.isascii():  # known without a copy of it
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@codec.value("entry")
@dataclass(frozen=True)
class Entry:
    """An entry is a release as it is charged: what is run, what was asked, on which data, by whom.

    What it leaks follows from what is run, and is stated nowhere else.
    """

    parts: tuple[Part, ...]
    """What is run: one ``Charged`` or ``Curve``, or several that are one release."""
    question: str = ""
    plan: str = ""
    """Hash of the canonical question with its limits; empty when its answer shall never be found again."""
    data: str = ""
    """Version of the data."""
    analyst: str | None = None
    request_id: str | None = None

    def __init__(
        self,
        parts: Part | Sequence[Part],
        question: str = "",
        plan: str = "",
        data: str = "",
        analyst: str | None = None,
        request_id: str | None = None,
    ) -> None:
        given: dict[str, Any] = {"parts": spending.checked(parts), "question": prose(question, "question")}
        given |= {what: name(said, what) if said != "" else "" for what, said in (("plan", plan), ("data", data))}
        for what, said in (("analyst", analyst), ("request_id", request_id)):
            given[what] = None if said is None else name(said, what)
        for what, value in given.items():
            object.__setattr__(self, what, value)

    @classmethod
    def of(cls, value: object) -> Entry:
        if isinstance(value, Entry):
            return value
        raise InvalidParameter("entry", value, "an Entry")

    @cached_property
    def curve(self) -> Curve:
        """Give the curve of what the release leaks."""
        return spending.curve(self.parts)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """List the mechanisms that are run, as far as they are ours."""
        return tuple(part.mechanism for part in self.parts if isinstance(part, Charged))

    @property
    def interactive(self) -> bool:
        """Tell whether hidden state stays open between the answers of what is run."""
        return any(mechanism.interactive for mechanism in self.mechanisms)

    @property
    def columns(self) -> dict[str, str]:
        """Write the entry as a line stores it."""
        return {
            "analyst": self.analyst or "",
            "request": self.request_id or "",
            "question": self.question,
            "plan": self.plan,
            "data": self.data,
            "parts": spending.write(self.parts),
        }


@codec.written_as("ledger-line")
@dataclass(frozen=True)
class Line:
    """A line of the ledger is shown here as people read it."""

    number: int
    time: datetime
    kind: str
    account: str
    analyst: str | None
    question: str
    """What was asked, or the owner's reason."""
    plan: str
    data: str
    """Which data were read: a keyed hash, equal for equal data in this ledger and otherwise without meaning."""
    cost: Cost
    """What this line spent, in units of 1e-30."""
    spent: Cost
    held: Cost
    """What open tabs hold after it."""
    tab: int | None
    about: int | None
    """The charge that this line answers, or that was stopped without an answer."""
    request_id: str | None
    parts: str
    """What was run and on what sensitivity, as a JSON list."""
    detail: str
    body: str
    file: str
    """SHA-256 of an answer that a file beside the ledger holds; ``body`` is empty then."""
    previous: str
    hash: str

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if not isinstance(self.time, datetime):
            object.__setattr__(self, "time", _time(self.time))
        if not all(isinstance(each, Cost) for each in (self.cost, self.spent, self.held)):
            raise InvalidParameter("cost", self.cost, "an amount for each currency")

    def to_json(self) -> str:
        """Write the line as JSON text, with a kind and a version."""
        return codec.dumps(_WrittenLine(self.kind, _named(self), self.cost, self.spent, self.held))

    @classmethod
    def from_json(cls, source: str) -> Line:
        """Read back what ``to_json`` wrote; any other text is refused."""
        found = codec.loads_as(_WrittenLine, source, longest=2 * BODY)
        amounts = {"cost": found.cost, "spent": found.spent, "held": found.held}
        if not isinstance(found.named, Mapping) or set(found.named) != _NAMED:
            raise InvalidParameter("named", found.named, "the parts of a line by their names")
        with refusing(lambda: InvalidParameter("source", source, "the JSON text of a line")):
            return cls(kind=found.entered, **found.named, **amounts)  # type: ignore[arg-type]

    @property
    def curve(self) -> Curve | None:
        """Compute the curve of what was run again, from this line alone; None where a line says nothing of that."""
        parts = spending.read(self.parts)
        return spending.curve(parts) if parts else None

    def summary(self) -> dict[str, Any]:
        """Write what people want to know of it as JSON: amounts are exact, as text: decimals, or p/q."""
        return {
            "number": self.number,
            "time": self.time.isoformat(),
            "analyst": self.analyst,
            "kind": self.kind,
            "question": self.question,
            "request_id": self.request_id,
            "about": self.about,
            "cost": {name: None if amount is None else text(amount) for name, amount in self.cost.amounts.items()},
        }

    def __repr__(self) -> str:
        return f"<Line {', '.join(filter(None, self.words()))}>"

    def words(self, *, details: bool = False) -> tuple[str, ...]:
        """Write number, time, analyst, kind, question and cost in one line of text; with ``details`` the cost in every
        currency.
        """
        cost = str(self.cost) if details else self.cost.words
        when = self.time.strftime("%Y-%m-%d %H:%M:%S")
        about = f"{self.kind} to {self.about}" if self.about else self.kind
        return str(self.number), when, self.analyst or "", about, " ".join(self.question.split()), cost

    @classmethod
    def of(cls, row: Row) -> Line:
        spending = read_spending(row.totals)
        return cls(
            row.number,
            moment(row.time),
            row.kind,
            row.account,
            row.analyst or None,
            row.question,
            row.plan,
            row.data,
            read_cost(row.cost),
            spending.spent,
            spending.held,
            row.tab or None,
            row.about or None,
            row.request or None,
            row.parts or "[]",
            _detail(row),
            row.body,
            row.file,
            row.previous,
            row.hash,
        )


_NAMED = {each.name for each in fields(Line)} - {"kind", "cost", "spent", "held"}


@codec.value("ledger-line")
@dataclass(frozen=True)
class _WrittenLine:
    """A line is written so: its kind under another name, since what is written has a kind of its own."""

    entered: str
    named: Mapping[str, str | int | None] = field(metadata=codec.MAPPING)
    cost: Cost
    spent: Cost
    held: Cost


def _named(line: Line) -> dict[str, Any]:
    found = {name: getattr(line, name) for name in _NAMED}
    return dict(sorted(found.items())) | {"time": line.time.isoformat()}


def _detail(row: Row) -> str:
    """Show only where joined data are: even keyed hashes would tell whether an old content came back."""
    if row.kind != "source":
        return row.detail
    return json.dumps({"path": json.loads(row.detail)["path"]}, ensure_ascii=False)


def _time(written: object) -> datetime:
    try:
        found = datetime.fromisoformat(written)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidParameter("time", written, "a time in ISO 8601 with its zone")
    return found


def moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(time: datetime, what: str) -> int:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise InvalidParameter(what, time, "a datetime with a time zone")
    return (time - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class StoredAnswer:
    """A stored answer was bought before: it is free, with its date, never the buyer's name."""

    number: int
    time: datetime
    body: str
    accuracy: Mapping[str, Fraction]
    """Half-width per column."""
    hash: str
    """Of the line that holds it."""

    __repr__ = spelled

    @classmethod
    def of(cls, row: Row, body: str) -> StoredAnswer:
        return cls(row.number, moment(row.time), body, read_widths(row.detail), row.hash)


def widths(accuracy: Mapping[str, Number]) -> dict[str, Fraction]:
    if not isinstance(accuracy, Mapping):
        raise InvalidParameter("accuracy", accuracy, "a mapping from columns to half-widths")
    return {
        prose(column, "column"): exact(width, f"accuracy of {column!r}", NONNEGATIVE)
        for column, width in accuracy.items()
    }


def write_widths(accuracy: Mapping[str, Fraction]) -> str:
    return json.dumps({column: text(width) for column, width in accuracy.items()}, separators=(",", ":"))


def read_widths(text: str) -> dict[str, Fraction]:
    return {column: Fraction(width) for column, width in json.loads(text).items()}


def within(accuracy: Mapping[str, Fraction], asked: Mapping[str, Fraction]) -> bool:
    """Tell whether the accuracy is at least what was asked for, in every column that was."""
    return all(column in accuracy and accuracy[column] <= width for column, width in asked.items())


LINE_COLUMNS = ("number", "time (UTC)", "analyst", "kind", "question", "cost")
"""The column names of a line's words."""
_SHOWN_LINES = 100
"""Lines that are shown where nobody takes them one by one."""


class AccountLines(Iterator[Line]):
    """The lines of an account are read one by one, as they are asked for; shown, they are a table in words."""

    def __init__(self, read: Callable[[], Iterator[Line]]) -> None:
        self._read = read
        self._lines = read()

    def __next__(self) -> Line:
        return next(self._lines)

    def _rows(self) -> tuple[list[tuple[str, ...]], str]:
        """Give the first lines, in words, and what is said of the others."""
        found = list(islice(self._read(), _SHOWN_LINES + 1))
        more = "" if len(found) <= _SHOWN_LINES else f"… and more: only the first {_SHOWN_LINES} lines are shown"
        return [line.words() for line in found[:_SHOWN_LINES]], more

    def __repr__(self) -> str:
        rows, more = self._rows()
        if not rows:
            return "nothing has been asked yet"
        widths = [max(map(len, column)) for column in zip(LINE_COLUMNS, *rows, strict=True)]
        told = [printable("  ".join(map(str.ljust, each, widths)).rstrip()) for each in (LINE_COLUMNS, *rows)]
        return "\n".join([*told, *([more] if more else [])])

    def _repr_html_(self) -> str:
        rows, more = self._rows()
        return table(LINE_COLUMNS, rows, LINE_COLUMNS[:1], more) if rows else paragraph("Nothing has been asked yet.")


_PAGE = 100
_MOST_SHELVES = 64


@dataclass(frozen=True)
class Publication:
    """The line of an answer that was published, without its body."""

    number: int
    hash: str
    plan: str
    accuracy: Mapping[str, Fraction] = field(repr=False)

    @classmethod
    def of(cls, row: Row) -> Publication:
        """Describe a line."""
        return cls(row.number, row.hash, row.plan, read_widths(row.detail))


@dataclass(frozen=True)
class _Shelf:
    """The publications whose plans start alike, up to a line of the ledger."""

    publications: tuple[Publication, ...] = ()
    last_number: int = 0
    last_hash: str = ""
    """The last line of the ledger when it was read."""

    def extended(self, transaction: Transaction, equal: Where, plan: str) -> _Shelf:
        """Add what was published since."""
        head = transaction.head
        if head is None or (head.number, head.hash) == (self.last_number, self.last_hash):
            return self
        added: list[Publication] = []
        after, page = self.last_number, _PAGE
        while page == _PAGE:
            rows = transaction.starting(equal, plan, after=after, limit=_PAGE)
            added += map(Publication.of, rows)
            after, page = (rows[-1].number if rows else after), len(rows)
        return _Shelf((*self.publications, *added), head.number, head.hash)


class Shelves:
    """What one process knows of the published answers of one ledger.

    Shelves are values that are replaced whole, so threads need no lock: two that read at once find the same.
    """

    def __init__(self) -> None:
        self._shelves: dict[tuple[str, ...], _Shelf] = {}

    def listed(self, transaction: Transaction, account: str, data: str, plan: str) -> tuple[Publication, ...]:
        """List the answers of an account on this data whose plans start with this text, oldest first."""
        key = (account, data, plan)
        known = self._shelves.pop(key, _Shelf())
        if known.last_number and not transaction.has(known.last_number, known.last_hash):
            known = _Shelf()  # a restore or a failover has taken the last line that was seen
        found = known.extended(transaction, {"account": account, "data": data}, plan)
        self._shelves[key] = found
        for oldest in list(self._shelves)[:-_MOST_SHELVES]:
            self._shelves.pop(oldest, None)
        return found.publications
