"""Errors and notices as clients see them: SQLSTATE, the rule as message, the place as DETAIL, the fix as HINT.

An unexpected exception is one fixed text: its own could depend on private rows.

Statements refused with 0A000 are counted by user and rule: nothing unknown is guessed, so this list is what to add
next. It is kept in memory, and begins anew with the server's process.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from sfumato import errors
from sfumato.errors import SfumatoError, Unsupported
from sfumato.server.postgres import protocol
from sfumato.server.postgres.statements import SqlRefusal
from sfumato.server.postgres.types import CellOutOfRange, InvalidParameterValue
from sfumato.server.requests.problems import report_fault

_SQLSTATES: Mapping[type[SfumatoError], str] = {
    errors.Overspent: "53400",
    errors.InvalidParameter: "22023",
    errors.InvalidRequest: "22023",
    errors.Unanswered: "58000",
    errors.EngineFailed: "58000",
    errors.AnswerPending: "55P03",
    errors.NotSignedIn: "28000",
    errors.NotAllowed: "42501",
    errors.ApprovalNeeded: "42501",
    errors.RequestDecided: "55000",
    errors.NotThere: "3D000",
    errors.Paused: "55000",
    errors.SourceChanged: "55000",
    errors.TooManyRequests: "53000",
    errors.Draining: "57P01",
    errors.ServerUnavailable: "57P03",
    errors.LedgerUnavailable: "58030",
}
_UNSUPPORTED = "0A000"
_UNSUPPORTED_SQLSTATES = {
    "unknown-table": "42P01",
    "unknown-column": "42703",
    "not-sql": "42601",
    "unknown-function": "42883",
    "ambiguous-column": "42702",
    "type-mismatch": "42804",
}
FAULT_HINT = "Ask again: if the question was charged, its stored answer is free."
UNFINISHED = "the statement ends inside a {}"


def error_message(error: Exception, sql: str = "", offset: int = 0, *, fatal: bool = False) -> bytes:
    """Encode an error about a text; ``offset`` is where the refused statement begins in the client's text."""
    severity = "FATAL" if fatal else "ERROR"
    return protocol.encode_report(b"E", {"S": severity, "V": severity, **_error_fields(error, sql, offset)})


def _error_fields(error: Exception, sql: str, offset: int) -> dict[str, str]:
    if isinstance(error, SqlRefusal):
        return _fields_by_letter(error.sqlstate, error.message, error.detail, error.hint, error.position)
    if isinstance(error, InvalidParameterValue):
        rule = f"a parameter is not a valid value of type {error.type_name}"
        return _fields_by_letter("22P02", rule, "", "Check the value, and the type that the client declares for it.")
    if isinstance(error, CellOutOfRange):
        rule = "a number in the answer does not fit the binary format of its type"
        return _fields_by_letter(
            "22003", rule, "The answer is stored.", "Ask again with results as text: this is free."
        )
    if isinstance(error, protocol.ProtocolViolation):
        return _fields_by_letter(
            "08P01", str(error), "", "Check that the client speaks PostgreSQL's protocol, version 3."
        )
    if isinstance(error, SfumatoError):
        return _fields_by_letter(
            sqlstate(error), error.rule, error.place, error.fix, _client_text_position(error, sql, offset)
        )
    fault = report_fault(error, FAULT_HINT)
    return _fields_by_letter("XX000", fault.rule, fault.place, fault.fix)


def _fields_by_letter(code: str, rule: str, place: str, fix: str, position: int = 0) -> dict[str, str]:
    return {"C": code, "M": rule, "D": place, "H": fix, "P": str(position) if position else ""}


def sqlstate(error: SfumatoError) -> str:
    if isinstance(error, Unsupported):
        return _UNSUPPORTED_SQLSTATES.get(error.code, _UNSUPPORTED)
    return next((code for kind, code in _SQLSTATES.items() if isinstance(error, kind)), "58000")


def _client_text_position(error: SfumatoError, sql: str, offset: int) -> int:
    """Return the position of a refusal in the client's text, from 1; 0 where it has none."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if line is None or column is None:
        return 0
    lines = sql.splitlines(keepends=True)
    if line > len(lines):
        return 0
    return offset + sum(map(len, lines[: line - 1])) + min(column, len(lines[line - 1]))


def rule_if_unsupported(error: Exception) -> str | None:
    """Return the rule of an error that is 0A000; None for any other."""
    if isinstance(error, SqlRefusal):
        return error.message if error.sqlstate == _UNSUPPORTED else None
    return error.rule if isinstance(error, SfumatoError) and sqlstate(error) == _UNSUPPORTED else None


def notice_message(text: str, *, severity: str = "NOTICE", code: str = "00000", hint: str = "") -> bytes:
    return protocol.encode_report(b"N", {"S": severity, "V": severity, "C": code, "M": text, "H": hint})


MAX_RULES = 1_000
"""Rules that are counted for one user: a rule may quote a name that the client made up."""
MAX_USERS = 1_000
"""Users whose refusals are counted."""


class RefusalCounts:
    """The counts of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_user: dict[str, Counter[str]] = {}

    def count(self, user: str, rule: str) -> None:
        with self._lock:
            if user not in self._by_user and len(self._by_user) < MAX_USERS:
                self._by_user[user] = Counter()
            counts = self._by_user.get(user, Counter())
            if rule in counts or len(counts) < MAX_RULES:
                counts[rule] += 1

    def rows(self, user: str | None) -> list[tuple[str, str, int]]:
        """Return user, rule and count, the most frequent first: of one user, or of all."""
        with self._lock:
            rows = [
                (name, rule, count)
                for name, counts in self._by_user.items()
                if user in (None, name)
                for rule, count in counts.items()
            ]
        return sorted(rows, key=lambda row: (-row[2], row[:2]))
