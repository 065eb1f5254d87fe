"""Every error a user can meet, as facts that carry their numbers.

    SfumatoError                    rule, place, fix
    ├── InvalidParameter            a number, word or shape outside what is allowed
    ├── NeighboursDiffer            a loss stated for one neighbour relation used under another
    ├── InvalidPolicy               a declaration that is wrong, missing or contradicts another
    ├── SourceChanged               a table that is no longer the one that was opened
    ├── EngineFailed                a statement the engine could not finish: one text whatever the data
    ├── EngineClosed                a statement after closing, or in a forked process
    ├── Unsupported                 a question outside what can be answered, by a stable code
    ├── Unanswered                  a release that was charged and then stopped
    ├── EntropyStuck                the operating system gave the same random key twice
    ├── AnswerPending               a question that waited too long for an equal one
    ├── SessionClosed               a question to a session that has said its last
    ├── SessionInterrupted          a question of a session that was stopped before its answer was written down
    ├── Overspent                   a charge the account cannot afford
    ├── AccountDiffers              an account opened again under other terms than it was opened with
    ├── AlreadyAnswered             a second answer to one charge
    ├── RequestDiffers              a request id that was used for another question
    ├── SourceTaken                 data that belong to another account
    ├── SynopsisDamaged             a published file that is not as it was written, or cannot be read
    ├── TabClosed                   a step on a tab that is closed, or that another process opened
    └── LedgerUnavailable           the ledger cannot be used now: locked, full, read-only, newer, on a network
        ├── LedgerDamaged           a line that is not what was written
        └── LedgerBehind            lines that are known to exist are missing

An error's text is decided by its parameters alone: no private value ever reaches one.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

_LEAST_USEFUL = Fraction(1, 10**9)
"""An ε below which the noise of a count is above a thousand million, and of much else too wide to be drawn."""


def installing(extra: str) -> str:
    """Say how an extra is installed into the environment that runs now, whatever pip is first on the path."""
    return f"run {shlex.quote(sys.executable)} -m pip install 'sfumato[{extra}]'"


def shorten(value: object, width: int = 60) -> str:
    """Show a caller's own parameter as its ``repr``, cut to ``width`` characters."""
    if isinstance(value, int) and value.bit_length() > 512:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = repr(value[: 4 * width]) if isinstance(value, str) else repr(value)
    except Exception:  # a hostile __repr__ must not hide the refusal
        text = f"<{type(value).__name__}>"
    return text if len(text) <= width else text[: width - 1] + "…"


class SfumatoError(Exception):
    """A refusal says the rule that was broken, where, and what would work instead."""

    code: str = "refused"
    """Stable, for programs: texts may change, codes do not."""

    def __init__(self, rule: str, *, place: str, fix: str) -> None:
        super().__init__(f"{rule}\n  place: {place}\n  fix:   {fix}")
        self.rule = rule
        self.place = place
        self.fix = fix

    def inside(self, whole: str) -> SfumatoError:
        """Give the same refusal, with the place that it has in a larger whole."""
        place = f"{whole}: {self.place}"
        return _rebuilt(
            type(self), f"{self.rule}\n  place: {place}\n  fix:   {self.fix}", {**vars(self), "place": place}
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes whatever their constructor takes."""
        return _rebuilt, (type(self), str(self), self.__dict__)


class WeakPrivacy(UserWarning):
    """A promise is so weak that the one who makes it should know."""


class InvalidParameter(SfumatoError, ValueError):
    """A parameter is not one of the allowed values."""

    code = "invalid-parameter"

    def __init__(self, parameter: str, value: object, allowed: str, *, fix: str = "") -> None:
        super().__init__(
            f"{parameter} must be {allowed}; got {shorten(value)}",
            place=parameter,
            fix=fix or f"give {parameter} as {allowed}",
        )
        self.parameter = parameter
        self.value = value
        self.allowed = allowed


class NeighboursDiffer(SfumatoError):
    """A privacy loss stated for one neighbour relation was used under the other."""

    code = "neighbours-differ"

    def __init__(self, stated: str, wanted: str, *, place: str, fix: str) -> None:
        super().__init__(
            f"this privacy loss is stated for {stated} neighbours, not for {wanted}",
            place=place,
            fix=fix,
        )
        self.stated = stated
        self.wanted = wanted


class InvalidPolicy(SfumatoError, ValueError):
    """A policy's declaration is wrong: the place is its path in the file."""

    code = "invalid-policy"


class SourceChanged(SfumatoError):
    """A source was replaced, changed or removed after it was opened."""

    code = "source-changed"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"the source of {table} is not the one that was opened",
            place=f"tables.{table}.source",
            fix="open the policy again: the changed data are a new version",
        )
        self.table = table


class EngineFailed(SfumatoError):
    """The engine could not finish a statement. The text is always this one: a cause could tell of the data."""

    code = "engine-failed"

    def __init__(self) -> None:
        super().__init__(
            "the engine could not finish",
            place="the engine",
            fix="ask the owner to run sfumato check; if it was interrupted, ask again",
        )


class EngineClosed(SfumatoError):
    """The sources were closed, or opened by the process this one was forked from."""

    code = "engine-closed"

    def __init__(self) -> None:
        super().__init__(
            "the sources are closed here",
            place="the engine",
            fix="open the policy again; after a fork, in the new process",
        )


class Unsupported(SfumatoError):
    """A question cannot be answered, which is decided from its text and the policy alone.

    ``code`` is stable, for programs. ``line`` and ``column`` (from 1) say where in the text; None when the whole
    text is meant.
    """

    code = "unsupported"

    def __init__(
        self,
        code: str,
        rule: str,
        *,
        fix: str,
        place: str = "the question",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        where = place if line is None else f"{place}, line {line}, column {column}"
        super().__init__(f"{rule} [{code}]", place=where, fix=fix)
        self.code = code
        self.line = line
        self.column = column


class Unanswered(SfumatoError):
    """A release was charged and then stopped: by a time limit, an interruption or a failure below.

    Its text is the same whatever happened, because what happened may depend on private rows. Who waited for the answer
    of an equal question is told of that question's charge, and was not ``charged``.
    """

    code = "unanswered"

    def __init__(self, number: int, *, charged: bool = True) -> None:
        super().__init__(
            "this release was charged and then stopped before it could answer"
            if charged
            else "this question waited for an equal one, which was charged and then stopped before it could answer; "
            "nothing was charged for waiting",
            place=f"line {number} of the ledger",
            fix="ask again: that is a new release with its own charge",
        )
        self.number = number
        self.charged = charged
        self.code = "unanswered" if charged else "equal-question-stopped"


class AnswerPending(SfumatoError):
    """An equal question is being answered, and takes longer than this one may wait."""

    code = "answer-pending"

    def __init__(self, number: int) -> None:
        super().__init__(
            "an equal question was asked before and is not answered yet; nothing was charged for waiting",
            place=f"line {number} of the ledger",
            fix="ask again later: its answer will be free",
        )
        self.number = number


class EntropyStuck(SfumatoError):
    """The operating system's entropy gave the same key twice: noise would repeat, and could be subtracted."""

    code = "entropy-stuck"

    def __init__(self) -> None:
        super().__init__(
            "random keys must differ, but the operating system's entropy gave the same 256 bits twice",
            place="the operating system's entropy",
            fix="repair the machine's source of randomness; on a cloned virtual machine, let it be seeded anew",
        )


class SessionClosed(SfumatoError):
    """The session has given all the answers it was charged for, or was closed."""

    code = "session-closed"

    def __init__(self, positives: int) -> None:
        super().__init__(
            f"this session is closed after {positives} positive answers",
            place="Session.ask",
            fix="start a new session: it is a new release and is charged as one",
        )
        self.positives = positives


class SessionInterrupted(SfumatoError):
    """A question of a session was stopped: by a time limit, an interruption or a failure below.

    Its text is the same whatever happened, because what happened may depend on private rows.
    """

    code = "session-interrupted"

    def __init__(self, number: int) -> None:
        super().__init__(
            "this question of the session was stopped before its answer was written down; no more was charged",
            place=f"line {number} of the ledger",
            fix='ask again while the session is open: what it has left tells whether an "above" was used up',
        )
        self.number = number


class Overspent(SfumatoError):
    """A charge does not fit what is left: requested, remaining, difference per currency.

    ``largest`` is the largest ε that the account would accept now as one pure release.
    A currency that the account does not have, or has closed, is missing from the mappings;
    a request of ``None`` is unbounded (Gaussian noise in the pure currency).
    """

    code = "overspent"

    def __init__(
        self,
        requested: Mapping[str, Fraction | None],
        remaining: Mapping[str, Fraction],
        largest: Fraction,
        *,
        place: str = "the account",
    ) -> None:
        self.requested = dict(requested)
        self.remaining = dict(remaining)
        self.difference = {
            name: None if (asked := self.requested.get(name)) is None else asked - left
            for name, left in self.remaining.items()
        }
        self.largest = largest
        lines = [
            f"{name}: requested {_show(self.requested.get(name))}, remaining {at_most(self.remaining[name])}, "
            f"difference {_show(more)}"
            for name, more in self.difference.items()
            if more is None or more > 0  # what fits is no reason to refuse
        ]
        super().__init__(
            f"{place} cannot afford this release\n    " + "\n    ".join(lines),
            place=f"what remains of {place}" if place != "the account" else "the account's remaining budget",
            fix=f"ask for less: the largest pure release accepted now is ε = {at_most(largest)}"
            if largest >= _LEAST_USEFUL
            else f"{_nothing_left(largest)}: what was answered stays free, more needs the owner",
        )


def _nothing_left(largest: Fraction) -> str:
    if not largest:
        return "nothing is left for a pure release"
    return f"what is left, ε = {at_most(largest)}, is too little for a useful answer"


class AccountDiffers(SfumatoError):
    """An account's terms are fixed for life; these are others."""

    code = "account-differs"


class AlreadyAnswered(SfumatoError):
    """A charge pays for one answer."""

    code = "already-answered"


class RequestDiffers(SfumatoError):
    """A request id names one question for ever."""

    code = "request-differs"


class SourceTaken(SfumatoError):
    """The same data under another name would be a second budget for the same people."""

    code = "source-taken"


class SynopsisDamaged(SfumatoError):
    """A published file is no synopsis, is not as it was written, or cannot be read or written."""

    code = "synopsis-damaged"


class TabClosed(SfumatoError):
    """The tab takes no more steps."""

    code = "tab-closed"

    def __init__(self, why: str) -> None:
        super().__init__(why, place="Tab.step", fix="open a new tab: it is a new hold, and admitted as one")


class LedgerUnavailable(SfumatoError):
    """The ledger cannot be read or written as it is; nothing was changed."""

    code = "ledger-unavailable"


_RESTORE = "charge nothing more to this file: restore a backup, and acknowledge the anchor when asked to"


class LedgerDamaged(LedgerUnavailable):
    """A line is not what was written; ``number`` names the first one found, None when it is the file as a whole."""

    code = "ledger-damaged"

    def __init__(self, number: int | None, why: str, *, fix: str = _RESTORE) -> None:
        super().__init__(
            f"{'the ledger' if number is None else f'line {number} of the ledger'} is damaged: {why}",
            place="the ledger file" if number is None else f"line {number}",
            fix=fix,
        )
        self.number = number
        self.why = why


class LedgerBehind(LedgerUnavailable):
    """Lines are missing or different that an anchor vouches for: a backup was restored, or the file changed."""

    code = "ledger-behind"

    def __init__(self, number: int) -> None:
        super().__init__(
            f"this ledger does not contain line {number} as its anchor knows it: it was rolled back or rewritten",
            place=f"line {number}",
            fix="put the newest ledger back; or, as the owner, accept the loss with "
            "ledger.acknowledge(anchor, reason=…), which raises the totals to the anchor's",
        )
        self.number = number


class Outcome(NamedTuple):
    """An outcome says how a refusal ends a command, and a request."""

    exit_code: int
    http_status: int


OUTCOMES: Mapping[str, Outcome] = {
    "refused": Outcome(1, 400),
    "invalid-parameter": Outcome(2, 400),
    "neighbours-differ": Outcome(1, 400),
    "invalid-policy": Outcome(1, 400),
    "unsupported": Outcome(1, 422),
    "overspent": Outcome(3, 402),
    "unanswered": Outcome(4, 500),
    "equal-question-stopped": Outcome(75, 503),
    "answer-pending": Outcome(75, 503),
    "entropy-stuck": Outcome(1, 500),
    "engine-failed": Outcome(1, 500),
    "engine-closed": Outcome(1, 503),
    "source-changed": Outcome(1, 409),
    "source-taken": Outcome(1, 409),
    "session-closed": Outcome(1, 409),
    "session-interrupted": Outcome(75, 503),
    "account-differs": Outcome(1, 409),
    "already-answered": Outcome(1, 409),
    "request-differs": Outcome(1, 409),
    "synopsis-damaged": Outcome(1, 400),
    "tab-closed": Outcome(1, 409),
    "ledger-unavailable": Outcome(5, 503),
    "ledger-damaged": Outcome(5, 503),
    "ledger-behind": Outcome(5, 503),
}
"""By the code of an error, or of its class, whatever skin shows it."""


def outcome(error: SfumatoError) -> Outcome:
    """Look up how this refusal ends a command or a request. A question that is refused has the code of its rule; all of
    them end alike.
    """
    return OUTCOMES.get(error.code, OUTCOMES[type(error).code])


def _rebuilt(kind: type[SfumatoError], message: str, facts: dict[str, object]) -> SfumatoError:
    error = kind.__new__(kind, message)
    error.__dict__.update(facts)
    return error


def at_most(amount: Fraction) -> str:
    """Write an amount in six digits, rounded down: what is shown as left is accepted.

    >>> at_most(Fraction("0.4493679999")), at_most(Fraction(3, 10))
    ('0.449367', '0.3')
    """
    down = Context(prec=6, rounding=ROUND_FLOOR)
    return f"{float(down.divide(Decimal(amount.numerator), Decimal(amount.denominator))):.6g}"


def _show(amount: Fraction | None) -> str:
    return "unbounded" if amount is None else f"{float(amount):.6g}"
