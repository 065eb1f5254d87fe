"""Entries are passed to the ledger, which returns lines and stored answers; texts are checked on the way.

*Published answers.* Each process keeps an index of what their lines show, without bodies. All answers whose plans start
alike are listed, whatever was written later. A process reads each of their lines once; a later call reads only lines
after the last one seen, by the store's index of plans.

*History.* The lines of an account as a table, in this process or over HTTP.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

from sfumato.caching import cached_property
from sfumato.error_facts import quote_parameter
from sfumato.errors import InvalidParameter
from sfumato.html_fragments import paragraph, table
from sfumato.ledger import spending
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import Charged, Part, SampledCharge, read_cost, read_totals
from sfumato.ledger.stores.store import Where
from sfumato.ledger.transaction import Transaction
from sfumato.mechanisms.protocols import Mechanism
from sfumato.privacy import Cost, Curve, codec
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable, refuse_malformed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_NAME_LENGTH = 200
MAX_QUERY_LENGTH = 1 << 20
MAX_BODY_LENGTH = 1 << 28


def checked_name(value: object, what: str) -> str:
    """Check a name, id or hash: short, printable, and in its only valid spelling."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= MAX_NAME_LENGTH
        or not value.isprintable()
        or value != value.strip()
        or not (value.isascii() or unicodedata.normalize("NFC", value) == value)
    ):
        raise InvalidParameter(
            what,
            value,
            f"printable text of 1 to {MAX_NAME_LENGTH} characters (Unicode NFC) without leading or trailing spaces",
            fix=_name_fix(value, quote_parameter(what)),
        )
    return value


def _name_fix(value: object, name: str) -> str:
    if not isinstance(value, str):
        return f"write {name} as text in quotes"
    if not value.strip():
        return f"write at least one character in {name} that is not a space"
    if len(value) > MAX_NAME_LENGTH:
        return f"shorten {name} to at most {MAX_NAME_LENGTH} characters"
    if value != value.strip():
        return f"remove the spaces at the ends of {name}"
    return f"remove line breaks and control characters from {name}, and write it in Unicode NFC"


def checked_text(value: object, what: str, max_length: int = MAX_QUERY_LENGTH) -> str:
    """Check any text that can be stored: no NUL, valid Unicode, limited in length."""
    if not isinstance(value, str) or len(value) > max_length or "\0" in value or not _is_valid_unicode(value):
        raise InvalidParameter(
            what,
            value,
            f"a string of at most {max_length:,} Unicode characters, without NUL",
            fix=f"shorten {what}, or remove NUL and invalid characters" if isinstance(value, str) else "",
        )
    return value


def checked_reason(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter(
            "reason",
            value,
            "a non-empty string",
            fix="give the reason in a few words: the ledger keeps it permanently",
        )
    return checked_text(value, "reason")


def checked_line_number(value: object, what: str) -> int:
    if type(value) is not int or not 0 < value < 1 << 63:
        raise InvalidParameter(what, value, "a positive line number", fix="find the number with `sfumato history`")
    return value


def _is_valid_unicode(value: str) -> bool:
    if value.isascii():  # no need to encode it
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@codec.serialisable("entry")
@dataclass(frozen=True)
class Entry:
    """A release as it is charged: what is run, the query, the data version, and the analyst.

    Its privacy loss follows from what is run, and is stated nowhere else.
    """

    parts: tuple[Part, ...]
    """What is run: one ``Charged`` or ``Curve``, or several that form one release."""
    question: str = ""
    plan: str = ""
    """Hash of the canonical query with its limits; empty if its answer shall never be reused."""
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
        self.__dict__.update(
            parts=spending.checked_parts(parts),
            question=checked_text(question, "question"),
            plan=checked_name(plan, "plan") if plan != "" else "",
            data=checked_name(data, "data") if data != "" else "",
            analyst=None if analyst is None else checked_name(analyst, "analyst"),
            request_id=None if request_id is None else checked_name(request_id, "request_id"),
        )

    @classmethod
    def of(cls, value: object) -> Entry:
        if isinstance(value, Entry):
            return value
        raise InvalidParameter("entry", value, "an Entry", fix="pass sf.Entry(…), with the parts to be charged")

    @cached_property
    def curve(self) -> Curve:
        """The privacy curve of the release."""
        return spending.compose_parts(self.parts)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms that are run, as far as they are ours."""
        charges = (
            charge
            for part in self.parts
            for charge in (part.charges if isinstance(part, SampledCharge) else (part,))
            if isinstance(charge, Charged)
        )
        return tuple(charge.mechanism for charge in charges)

    @property
    def interactive(self) -> bool:
        """Whether hidden state stays open between the answers of what is run."""
        return any(mechanism.interactive for mechanism in self.mechanisms)

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the entry's line."""
        return {
            "analyst": self.analyst or "",
            "request": self.request_id or "",
            "question": self.question,
            "plan": self.plan,
            "data": self.data,
            "parts": spending.write_parts(self.parts),
        }


@codec.written_as("ledger-line")
@dataclass(frozen=True)
class Line:
    """A line of the ledger in readable form."""

    number: int
    time: datetime
    kind: str
    account: str
    analyst: str | None
    question: str
    """The query, or the owner's reason."""
    plan: str
    data: str
    """The data version: a keyed hash, equal for equal data in this ledger and otherwise meaningless."""
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
    """The mechanisms that were run with their sensitivities, as a JSON list."""
    detail: str
    body: str
    file: str
    """SHA-256 of an answer stored in a file beside the ledger; ``body`` is empty then."""
    previous: str
    hash: str

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if not isinstance(self.time, datetime):
            object.__setattr__(self, "time", _parse_time(self.time))
        for name in ("cost", "spent", "held"):
            if not isinstance(getattr(self, name), Cost):
                raise InvalidParameter(name, getattr(self, name), "a Cost")

    def to_json(self) -> str:
        """Return the line as JSON text, with a kind and a version."""
        return codec.dumps(_WrittenLine(self.kind, _plain_values(self), self.cost, self.spent, self.held))

    @classmethod
    def from_json(cls, source: str) -> Line:
        """Parse what ``to_json`` wrote; any other text is refused."""
        written = codec.loads_as(_WrittenLine, source, longest=2 * MAX_BODY_LENGTH)
        amounts = {"cost": written.cost, "spent": written.spent, "held": written.held}
        fix = "pass the text that Line.to_json() returned"
        if not isinstance(written.named, Mapping) or set(written.named) != _PLAIN_FIELDS:
            raise InvalidParameter("named", written.named, "a mapping from names to the parts of a line", fix=fix)
        with refuse_malformed(lambda: InvalidParameter("source", source, "a ledger line as JSON", fix=fix)):
            return cls(kind=written.entered, **written.named, **amounts)  # type: ignore[arg-type]

    @property
    def curve(self) -> Curve | None:
        """The privacy curve recomputed from this line alone; None where the line does not say what was run."""
        parts = spending.read_parts(self.parts)
        return spending.compose_parts(parts) if parts else None

    def summary(self) -> dict[str, Any]:
        """Return the fields of interest to people as JSON values; amounts are exact texts: decimals, or p/q."""
        return {
            "number": self.number,
            "time": self.time.isoformat(),
            "analyst": self.analyst,
            "kind": self.kind,
            "question": self.question,
            "request_id": self.request_id,
            "about": self.about,
            "cost": {
                name: None if amount is None else format_exact(amount) for name, amount in self.cost.amounts.items()
            },
        }

    def __repr__(self) -> str:
        return f"<Line {', '.join(filter(None, self.words()))}>"

    def words(self, *, details: bool = False) -> tuple[str, ...]:
        """Return number, time, analyst, kind, query and cost as texts; with ``details`` the cost in every currency."""
        cost = str(self.cost) if details else self.cost.words
        when = self.time.strftime("%Y-%m-%d %H:%M:%S")
        about = f"{self.kind} to {self.about}" if self.about else self.kind
        return str(self.number), when, self.analyst or "", about, " ".join(self.question.split()), cost

    @classmethod
    def from_row(cls, row: Row) -> Line:
        # The seal of the row was checked, and with it the types of its columns: none is checked again.
        spending = read_totals(row.totals)
        line = object.__new__(cls)
        line.__dict__.update(
            number=row.number,
            time=datetime_from_microseconds(row.time),
            kind=row.kind,
            account=row.account,
            analyst=row.analyst or None,
            question=row.question,
            plan=row.plan,
            data=row.data,
            cost=read_cost(row.cost),
            spent=spending.spent,
            held=spending.held,
            tab=row.tab or None,
            about=row.about or None,
            request_id=row.request or None,
            parts=row.parts or "[]",
            detail=_public_detail(row),
            body=row.body,
            file=row.file,
            previous=row.previous,
            hash=row.hash,
        )
        return line


_PLAIN_FIELDS = {column.name for column in fields(Line)} - {"kind", "cost", "spent", "held"}


@codec.serialisable("ledger-line")
@dataclass(frozen=True)
class _WrittenLine:
    """A line as it is written: its kind under another name, since the written value has a kind of its own."""

    entered: str
    named: Mapping[str, str | int | None] = field(metadata=codec.MAPPING)
    cost: Cost
    spent: Cost
    held: Cost


def _plain_values(line: Line) -> dict[str, Any]:
    values = {name: getattr(line, name) for name in _PLAIN_FIELDS}
    return dict(sorted(values.items())) | {"time": line.time.isoformat()}


def _public_detail(row: Row) -> str:
    """Show only the path of joined data: even keyed hashes would reveal whether an old content came back."""
    if row.kind != "source":
        return row.detail
    return json.dumps({"path": json.loads(row.detail)["path"]}, ensure_ascii=False)


def _parse_time(written: object) -> datetime:
    try:
        parsed = datetime.fromisoformat(written)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise InvalidParameter("time", written, "in ISO 8601 with a time zone", fix="write 2024-01-31T23:59:00+00:00")
    return parsed


def datetime_from_microseconds(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def checked_microseconds(time: datetime, what: str) -> int:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise InvalidParameter(what, time, "a datetime with a time zone", fix="add tzinfo=datetime.UTC, for example")
    return (time - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that was bought before: it is free, has its date, and never the buyer's name."""

    number: int
    time: datetime
    body: str
    accuracy: Mapping[str, Fraction]
    """Half-width per column."""
    hash: str
    """The hash of the line that holds it."""

    __repr__ = constructor_repr

    @classmethod
    def from_row(cls, row: Row, body: str) -> StoredAnswer:
        return cls(row.number, datetime_from_microseconds(row.time), body, read_widths(row.detail), row.hash)


class CheckedWidths(Mapping[str, Fraction]):
    """Half-widths by column that were checked and cannot be changed: their text is written once."""

    def __init__(self, widths: Mapping[str, Fraction]) -> None:
        self._widths = dict(widths)

    def __getitem__(self, column: str) -> Fraction:
        return self._widths[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._widths)

    def __len__(self) -> int:
        return len(self._widths)

    @cached_property
    def written(self) -> str:
        texts = {column: format_exact(width) for column, width in self._widths.items()}
        return json.dumps(texts, separators=(",", ":"))


def checked_widths(accuracy: Mapping[str, Number]) -> CheckedWidths:
    if isinstance(accuracy, CheckedWidths):
        return accuracy
    if not isinstance(accuracy, Mapping):
        raise InvalidParameter("accuracy", accuracy, "a mapping from columns to half-widths")
    return CheckedWidths(
        {
            checked_text(column, "column"): exact(width, f"accuracy of {column!r}", NONNEGATIVE)
            for column, width in accuracy.items()
        }
    )


def write_widths(accuracy: Mapping[str, Fraction]) -> str:
    return checked_widths(accuracy).written


def read_widths(text: str) -> dict[str, Fraction]:
    """Parse the half-widths of a line: once, though it is first compared and then shown."""
    return dict(_parse_widths(text))


@lru_cache(maxsize=256)
def _parse_widths(text: str) -> tuple[tuple[str, Fraction], ...]:
    return tuple((column, Fraction(width)) for column, width in json.loads(text).items())


def is_accurate_enough(accuracy: Mapping[str, Fraction], requested: Mapping[str, Fraction]) -> bool:
    """Return whether the accuracy is at least as good as asked for, in every column asked for."""
    return all(column in accuracy and accuracy[column] <= width for column, width in requested.items())


_PAGE = 100
_MAX_SHELVES = 64


@dataclass(frozen=True)
class Publication:
    """The line of a published answer, without its body."""

    number: int
    hash: str
    plan: str
    accuracy: Mapping[str, Fraction] = field(repr=False)

    @classmethod
    def from_row(cls, row: Row) -> Publication:
        """Describe a line."""
        return cls(row.number, row.hash, row.plan, read_widths(row.detail))


@dataclass(frozen=True)
class _CachedPublications:
    """The publications whose plans start alike, up to a line of the ledger."""

    publications: tuple[Publication, ...] = ()
    last_number: int = 0
    last_hash: str = ""
    """The last line of the ledger when it was read."""

    def extended(self, transaction: Transaction, equal: Where, plan: str) -> _CachedPublications:
        """Return the shelf with what was published since."""
        head = transaction.head
        if head is None or (head.number, head.hash) == (self.last_number, self.last_hash):
            return self
        added: list[Publication] = []
        after, page = self.last_number, _PAGE
        while page == _PAGE:
            rows = transaction.answers_with_plan_prefix(equal, plan, after=after, limit=_PAGE)
            added += map(Publication.from_row, rows)
            after, page = (rows[-1].number if rows else after), len(rows)
        return _CachedPublications((*self.publications, *added), head.number, head.hash)


class PublicationIndex:
    """The published answers of one ledger that one process has read.

    Shelves are immutable values that are replaced as a whole, so threads need no lock: two that read at once find the
    same.
    """

    def __init__(self) -> None:
        self._shelves: dict[tuple[str, ...], _CachedPublications] = {}

    def publications(
        self, transaction: Transaction, account: str, data: str, plan_prefix: str
    ) -> tuple[Publication, ...]:
        """List the answers of an account on this data whose plans start with this text, oldest first."""
        key = (account, data, plan_prefix)
        shelf = self._shelves.pop(key, _CachedPublications())
        if shelf.last_number and not transaction.has_line(shelf.last_number, shelf.last_hash):
            shelf = _CachedPublications()  # a restore or a failover lost the last line that was seen
        extended = shelf.extended(transaction, {"account": account, "data": data}, plan_prefix)
        self._shelves[key] = extended
        for oldest in list(self._shelves)[:-_MAX_SHELVES]:
            self._shelves.pop(oldest, None)
        return extended.publications


LINE_COLUMNS = ("number", "time (UTC)", "analyst", "kind", "question", "cost")
"""The columns of a history, in every skin; ``Line.words`` fills them."""
_MAX_PRINTED_LINES = 100
"""How many lines a printed history shows."""


class AccountLines(Iterator[Line]):
    """The lines of an account, read on demand; printed, they are a table in words."""

    def __init__(self, read: Callable[[], Iterator[Line]]) -> None:
        self._read = read
        self._lines = read()

    def __next__(self) -> Line:
        return next(self._lines)

    def _rows_and_note(self) -> tuple[list[tuple[str, ...]], str]:
        """Return the first lines, in words, and a note on the others."""
        lines = list(islice(self._read(), _MAX_PRINTED_LINES + 1))
        note = (
            ""
            if len(lines) <= _MAX_PRINTED_LINES
            else f"… and more lines: only the first {_MAX_PRINTED_LINES} are shown"
        )
        return [line.words() for line in lines[:_MAX_PRINTED_LINES]], note

    def __repr__(self) -> str:
        rows, note = self._rows_and_note()
        if not rows:
            return "nothing has been asked yet"
        widths = [max(map(len, column)) for column in zip(LINE_COLUMNS, *rows, strict=True)]
        printed_rows = [
            escape_unprintable("  ".join(map(str.ljust, row, widths)).rstrip()) for row in (LINE_COLUMNS, *rows)
        ]
        return "\n".join([*printed_rows, *([note] if note else [])])

    def _repr_html_(self) -> str:
        rows, note = self._rows_and_note()
        return table(LINE_COLUMNS, rows, LINE_COLUMNS[:1], note) if rows else paragraph("Nothing has been asked yet.")
