"""What is handed to the ledger, and what it gives back: checked texts, entries, lines, stored answers."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.ledger.purse import read_cost, read_purse
from sfumato.ledger.rows import Row
from sfumato.privacy import Cost, Curve, codec
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact, shown, text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAME = 200
QUESTION = 1 << 20
BODY = 1 << 26


def name(value: object, what: str) -> str:
    """A name, id or hash: short, printable, and the only way to write what it shows."""
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
    """Any text that can be stored: no NUL, no half characters, not endless."""
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
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@codec.value("entry")
@dataclass(frozen=True)
class Entry:
    """A release as it is charged: what it leaks, what is run, what was asked, on which data, by whom."""

    curve: Curve
    mechanisms: tuple[Any, ...] = ()
    """The values that will be run: stored as JSON, so that the ledger says what was done."""
    question: str = ""
    plan: str = ""
    """Hash of the canonical question with its limits; empty when its answer shall never be found again."""
    data: str = ""
    """Version of the data."""
    analyst: str | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.curve, Curve):
            raise InvalidParameter(
                "curve", self.curve, "a Curve", fix="give what the release leaks: mechanism.curve(…)"
            )
        if not isinstance(self.mechanisms, (tuple, list)):
            raise InvalidParameter("mechanisms", self.mechanisms, "a tuple of mechanisms")
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))
        prose(self.question, "question")
        for what in ("plan", "data"):
            if getattr(self, what) != "":
                name(getattr(self, what), what)
        for what in ("analyst", "request_id"):
            if getattr(self, what) is not None:
                name(getattr(self, what), what)

    @classmethod
    def of(cls, value: object) -> Entry:
        if isinstance(value, Entry):
            return value
        raise InvalidParameter("entry", value, "an Entry")

    @property
    def interactive(self) -> bool:
        """Whether hidden state stays open between the answers of what is run."""
        return any(mechanism.interactive for mechanism in self.mechanisms)

    @property
    def columns(self) -> dict[str, str]:
        """As a line stores it."""
        return {
            "analyst": self.analyst or "",
            "request": self.request_id or "",
            "question": self.question,
            "plan": self.plan,
            "data": self.data,
            "mechanisms": f"[{','.join(codec.dumps(mechanism) for mechanism in self.mechanisms)}]",
        }


@dataclass(frozen=True)
class Line:
    """One line of the ledger, as people read it."""

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
    mechanisms: str
    """What was run, as a JSON list."""
    detail: str
    body: str
    previous: str
    hash: str

    def summary(self) -> dict[str, Any]:
        """What people want to know of it, as JSON: amounts are exact decimals, as text."""
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

    def words(self) -> tuple[str, ...]:
        """Number, time, analyst, kind, question and cost in one line of text."""
        amounts = self.cost.amounts.items()
        cost = ", ".join(
            f"{name} {'∞' if amount is None else shown(float(amount))}" for name, amount in amounts if amount != 0
        )
        when = self.time.strftime("%Y-%m-%d %H:%M:%S")
        about = f"{self.kind} to {self.about}" if self.about else self.kind
        return str(self.number), when, self.analyst or "", about, " ".join(self.question.split()), cost

    @classmethod
    def of(cls, row: Row) -> Line:
        purse = read_purse(row.purse)
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
            purse.spent,
            purse.held,
            row.tab or None,
            row.about or None,
            row.request or None,
            row.mechanisms or "[]",
            _detail(row),
            row.body,
            row.previous,
            row.hash,
        )


def _detail(row: Row) -> str:
    """Of data that were joined, only where they are: even keyed hashes would tell whether an old content came back."""
    if row.kind != "source":
        return row.detail
    return json.dumps({"path": json.loads(row.detail)["path"]}, ensure_ascii=False)


def moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(time: datetime, what: str) -> int:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise InvalidParameter(what, time, "a datetime with a time zone")
    return (time - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that was bought before: free, with its date, never the buyer's name."""

    number: int
    time: datetime
    body: str
    accuracy: Mapping[str, Fraction]
    """Half-width per column."""
    hash: str
    """Of the line that holds it."""

    @classmethod
    def of(cls, row: Row) -> StoredAnswer:
        return cls(row.number, moment(row.time), row.body, read_widths(row.detail), row.hash)


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
    """Whether the accuracy is at least what was asked for, in every column that was."""
    return all(column in accuracy and accuracy[column] <= width for column, width in asked.items())
