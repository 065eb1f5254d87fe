"""Every error a user can meet, as facts that carry their numbers.

    SfumatoError                    rule, place, fix
    ├── InvalidParameter            a number, word or shape outside what is allowed
    ├── InvalidRequest              a request over the wire that is not of the form that is described
    ├── BodyTooLarge                a request over the wire with more bytes than are read
    ├── NeighboursDiffer            a loss stated for one neighbour relation used under another
    ├── InvalidPolicy               a declaration that is wrong, missing or contradicts another
    ├── InvalidSettings             a key of a server's settings that is wrong, or not known
    ├── SourceChanged               a table that is no longer the one that was opened
    ├── EngineFailed                a statement the engine could not finish: one text whatever the data
    ├── EngineClosed                a statement after closing, or in a forked process
    ├── Unsupported                 a question outside what can be answered, by a stable code
    ├── Unanswered                  a release that was charged and then stopped
    ├── EntropyStuck                the operating system gave the same random key twice
    ├── AnswerPending               a question that waited too long for an equal one
    ├── Draining                    a release asked of a curator that takes no new work
    ├── SessionClosed               a question to a session that has said its last
    ├── SessionInterrupted          a question of a session that was stopped before its answer was written down
    ├── Overspent                   a charge the account cannot afford
    ├── AccountDiffers              an account opened again under other terms than it was opened with
    ├── AlreadyAnswered             a second answer to one charge
    ├── RequestDiffers              a request id that was used for another question
    ├── SourceTaken                 data that belong to another account
    ├── BundleDamaged               a signed bundle that is not as it was signed, or does not add up
    ├── SynopsisDamaged             a published file that is not as it was written, or cannot be read
    ├── TabClosed                   a step on a tab that is closed, or that another process opened
    ├── NotSignedIn                 a call to a server by nobody that it knows
    ├── NotAllowed                  a call that is another role's to make
    ├── NotThere                    a name or a line that is not there for whoever asks
    ├── Paused                      a policy that its owner has stopped for now
    ├── TooManyRequests             more calls at once than one person may make, with when to try again
    ├── ServerUnavailable           a server that does not answer, or answers with what no server of ours does
    └── LedgerUnavailable           the ledger cannot be used now: locked, full, read-only, newer, on a network
        ├── LedgerDamaged           a line that is not what was written
        ├── LedgerInDoubt           the server was lost while it wrote: whether it did is not known
        └── LedgerBehind            lines that are known to exist are missing

An error's text is decided by its parameters alone: no private value ever reaches one. Nor does one reach its facts,
which are the same parameters as JSON holds them; ``to_json`` writes an error and ``from_json`` reads it back.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.error_facts import (
    LONGEST_FACT,
    OUTCOMES as OUTCOMES,
    Outcome as Outcome,
    amount,
    amount_text,
    at_most as at_most,
    fact,
    shorten as shorten,
)

LEAST_USEFUL = Fraction(1, 10**9)
"""An ε below which the noise of a count is above a thousand million, and of much else too wide to be drawn."""


def installing(extra: str) -> str:
    """Say how an extra is installed into the environment that runs now, whatever pip is first on the path."""
    return f"run {shlex.quote(sys.executable)} -m pip install 'sfumato[{extra}]'"


class SfumatoError(Exception):
    """A refusal says the rule that was broken, where, and what would work instead."""

    code: str = "refused"
    """Stable, for programs: texts may change, codes do not."""
    amounts: ClassVar[tuple[str, ...]] = ()
    """The facts that are exact numbers, or mappings to them: they are written as texts."""

    def __init__(self, rule: str, *, place: str, fix: str) -> None:
        super().__init__(_message(rule, place, fix))
        self.rule = rule
        self.place = place
        self.fix = fix

    def inside(self, whole: str) -> SfumatoError:
        """Give the same refusal, with the place that it has in a larger whole."""
        place = f"{whole}: {self.place}"
        return _rebuilt(type(self), _message(self.rule, place, self.fix), {**vars(self), "place": place})

    @property
    def facts(self) -> dict[str, Any]:
        """Give the numbers and names of its own that it was made of, each as JSON holds it: exact numbers are texts."""
        own = {name: found for name, found in vars(self).items() if name not in _SAID and not name.startswith("_")}
        return {name: amount_text(found) if name in self.amounts else fact(found) for name, found in own.items()}

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes whatever their constructor takes."""
        return _rebuilt, (type(self), str(self), self.__dict__)


class WeakPrivacy(UserWarning):
    """A promise is so weak that the one who makes it should know."""


class WeakLedger(WeakPrivacy):
    """A ledger is kept in a way by which charges could be forgotten or changed, and its owner should know."""


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

    @property
    def facts(self) -> dict[str, Any]:
        """Give what was refused as its text shows it, and no more of it."""
        value = self.value
        shown = value if not isinstance(value, str) or len(value) <= _LONGEST_VALUE else shorten(value, _LONGEST_VALUE)
        return {**super().facts, "value": fact(shown)}


class InvalidRequest(SfumatoError, ValueError):
    """A request over the wire is not of the form that is described: the place is a part of the request."""

    code = "invalid-request"


class BodyTooLarge(SfumatoError):
    """A request over the wire has a body of more bytes than are read."""

    code = "body-too-large"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"a request has at most {most:,} bytes, as they are, without compression",
            place="the body",
            fix="send a shorter request; ask many questions one after the other",
        )
        self.most = most


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


class InvalidSettings(SfumatoError, ValueError):
    """A server's settings are wrong: the place is the key in the file."""

    code = "invalid-settings"


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
            fix="ask again, under a new request id if it had one: that is a new release with its own charge",
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


class Draining(SfumatoError):
    """A curator was told to take no new work, and this would be new work."""

    code = "draining"

    def __init__(self) -> None:
        super().__init__(
            "this curator takes no new work: it is about to stop; nothing was charged",
            place="Curator.drain",
            fix="ask again when it is open again: what was answered before is free",
        )


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

    ``largest`` is the largest ε that the account would accept now as one ordinary answer, whose price is an ε alone.
    A currency that the account does not have, or has closed, is missing from the mappings;
    a request of ``None`` is unbounded (Gaussian noise in the pure currency). The text speaks of ε; ``details`` has the
    currencies.
    """

    code = "overspent"
    amounts = ("requested", "remaining", "difference", "largest")

    def __init__(
        self,
        requested: Mapping[str, Fraction | None],
        remaining: Mapping[str, Fraction],
        largest: Fraction,
        *,
        place: str = "the account",
        allowed: Fraction | None = None,
    ) -> None:
        self.requested = dict(requested)
        self.remaining = dict(remaining)
        self.difference = {
            name: None if (asked := self.requested.get(name)) is None else asked - left
            for name, left in self.remaining.items()
        }
        self.largest = largest
        self.allowed = allowed
        lacking = [name for name, more in self.difference.items() if more is None or more > 0]
        self.details = "\n".join(
            f"{name}: requested {_show(self.requested.get(name))}, remaining {at_most(self.remaining[name])}, "
            f"difference {_show(self.difference[name])}"
            for name in lacking
        )
        super().__init__(
            f"{place} cannot afford this release: {'; '.join(self._reasons(lacking))}",
            place=f"what remains of {place}" if place != "the account" else "the account's remaining budget",
            fix=self._fix(lacking),
        )

    def _fix(self, lacking: list[str]) -> str:
        """Say what would be accepted; where a δ alone is too large, what needs less of one."""
        if self.largest < LEAST_USEFUL:
            return f"{_nothing_left(self.largest)}: what was answered stays free, more needs the owner"
        accepted = f"the largest ordinary answer accepted now is ε = {at_most(self.largest)}"
        if lacking != ["failure"]:
            return f"ask for less: {accepted}"
        left = self.remaining["failure"]
        less = f"give a δ of at most {at_most(left)}" if left else "no δ is left for groups that nobody listed"
        return f"{less}; group by columns whose values the policy lists, which takes no δ: {accepted}"

    def _reasons(self, lacking: list[str]) -> list[str]:
        """Say in terms of ε why it does not fit; what fits is no reason to refuse."""
        found = []
        if "failure" in lacking:
            asked, left = self.requested.get("failure"), self.remaining["failure"]
            found.append(f"it may fail with probability {_show(asked)}, and {at_most(left)} is left for that")
        if "pure" in lacking or "renyi" in lacking or not lacking:
            found.append(self._unpaid("pure" in lacking))
        return found

    def _unpaid(self, summed: bool) -> str:
        """Say what is asked for beside what is left for ordinary answers."""
        asked, left = self.requested.get("pure"), self.remaining.get("pure")
        whole = "" if self.allowed is None else f" of {at_most(self.allowed)}"
        ordinary = "" if left is None else f"ε = {at_most(left)}{whole} is left for ordinary answers"
        if asked is not None and left is not None and summed:
            more = f", which is ε = {_show(asked - left)} too little" if left else ""
            return f"it takes ε = {_show(asked)}, and {ordinary}{more}"
        kind = "it has Gaussian noise, which" if asked is None else f"it has ε = {_show(asked)}, which"
        return "; ".join(filter(None, (f"{kind} {self._times()}", ordinary)))

    def _times(self) -> str:
        """Say how many times more is asked for than is left for Gaussian noise."""
        asked, left = self.requested.get("renyi"), self.remaining.get("renyi")
        if asked is None:
            return "this budget does not pay for"
        if not left:
            return "nothing is left for"
        return f"takes {float(asked / left):.3g} times what is left for Gaussian noise"


def _nothing_left(largest: Fraction) -> str:
    if not largest:
        return "nothing is left for ordinary answers"
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


class BundleDamaged(SfumatoError):
    """A signed bundle is not as it was signed, or what it says does not add up."""

    code = "bundle-damaged"


class TabClosed(SfumatoError):
    """The tab takes no more steps."""

    code = "tab-closed"

    def __init__(self, why: str) -> None:
        super().__init__(why, place="Tab.step", fix="open a new tab: it is a new hold, and admitted as one")


class NotSignedIn(SfumatoError):
    """Nobody is known by what was shown: one text for a wrong token, one that ended, and a user who is not there."""

    code = "not-signed-in"

    def __init__(self) -> None:
        super().__init__(
            "a call is made by somebody whom the server knows, and nobody is known by this token or session",
            place="the token or the session",
            fix="sign in again, or ask the owner for a new token",
        )


class NotAllowed(SfumatoError):
    """A call belongs to another role than that of whoever makes it."""

    code = "not-allowed"

    def __init__(self, role: str, call: str) -> None:
        super().__init__(f"{call} is not for the role {role}", place=call, fix="ask somebody who has the role for it")
        self.role = role
        self.call = call


class NotThere(SfumatoError):
    """Something is not there for whoever asks for it, and whether it is there for others is not told."""

    code = "not-there"

    def __init__(self, what: str) -> None:
        self.what = what if len(what) <= LONGEST_FACT else what[: LONGEST_FACT - 1] + "…"
        rule, fix = f"{self.what} is not there for you", "list what there is, or ask the owner"
        super().__init__(rule, place=self.what, fix=fix)


class Paused(SfumatoError):
    """A policy answers nothing new for now."""

    code = "paused"

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"the policy {shorten(policy)} answers nothing new while its owner has paused it; nothing was charged",
            place=f"policy {shorten(policy)}",
            fix="ask again later: what was answered before stays free",
        )
        self.policy = policy


class TooManyRequests(SfumatoError):
    """One person makes more calls than the server allows at once; ``retry_after`` is in seconds."""

    code = "too-many-requests"

    def __init__(self, rule: str, retry_after: int) -> None:
        super().__init__(
            f"{rule}; nothing was charged", place="the server's limits", fix=f"ask again in {retry_after} s"
        )
        self.retry_after = retry_after


class ServerUnavailable(SfumatoError):
    """A server cannot be reached, or what answers is none of ours; ``request_id`` names the release that was sent."""

    code = "server-unavailable"

    def __init__(self, rule: str, *, place: str, request_id: str | None = None) -> None:
        again = "see that the address is right and that the server runs, and ask again"
        fix = again if request_id is None else f"{again} with request_id={request_id!r}: it is charged once at most"
        super().__init__(rule, place=place, fix=fix)
        self.request_id = request_id


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


class LedgerInDoubt(LedgerUnavailable):
    """It is not known whether lines were written: the server that keeps the ledger was lost meanwhile.

    No row was read for whoever is told this. The lines in doubt are those from ``first`` to ``last``.
    """

    code = "ledger-in-doubt"

    def __init__(self, first: int, last: int, request_id: str | None, *, place: str = "") -> None:
        known = "" if request_id is None else f" (request id {request_id!r})"
        again = "under the same request id: it is charged once" if request_id else "once history shows how it ended"
        super().__init__(
            f"it is not known whether this was charged{known}: the ledger's server was lost while it wrote",
            place=place or f"line {first} of the ledger",
            fix=f"when the server is back, ask again {again}",
        )
        self.first = first
        self.last = last
        self.request_id = request_id


class LedgerBehind(LedgerUnavailable):
    """Lines are missing or different that an anchor vouches for: a backup was restored, or the file changed."""

    code = "ledger-behind"

    def __init__(self, number: int) -> None:
        super().__init__(
            f"this ledger does not contain line {number} as its anchor knows it: it was rolled back or rewritten",
            place=f"line {number}",
            fix="put the newest ledger back; or, as the owner, accept the loss with sfumato ledger acknowledge "
            "--reason …, or ledger.acknowledge(anchor, reason=…), which raises the totals to the anchor's",
        )
        self.number = number


def outcome(error: SfumatoError) -> Outcome:
    """Look up how this refusal ends a command or a request. A question that is refused has the code of its rule; all of
    them end alike.
    """
    return OUTCOMES.get(error.code, OUTCOMES[type(error).code])


def _message(rule: str, place: str, fix: str) -> str:
    return f"{rule}\n  place: {place}\n  fix:   {fix}"


def _rebuilt(kind: type[SfumatoError], message: str, facts: Mapping[str, object]) -> SfumatoError:
    error = kind.__new__(kind, message)
    error.__dict__.update(facts)
    return error


# ── as JSON ────────────────────────────────────────────────────────────────────────────────────

_SAID = ("code", "rule", "place", "fix")
_LONGEST_VALUE, _LONGEST_TEXT = 60, 1 << 20


def to_json(error: SfumatoError) -> str:
    """Write an error as JSON text: the stable name of its class (``kind``), code, rule, place, fix and facts.

    What a program caused it by, its traceback, and errors behind it are not written.
    """
    said = {name: getattr(error, name) for name in _SAID}
    return json.dumps({"kind": type(error).code, **said, "facts": error.facts})


def from_json(source: str) -> SfumatoError:
    """Read back what ``to_json`` wrote: an error of the same class that says the same. Names beside its own are passed
    over, so a problem that a server answers with is read, too; a kind that is not known here is a plain refusal.
    """
    try:
        found = json.loads(source) if len(source) <= _LONGEST_TEXT else None
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("kind", *_SAID)):
        raise _no_error(source)
    kind = {each.code: each for each in _kinds()}.get(found["kind"], SfumatoError)
    own = {name: _attribute(kind, name, each) for name, each in _named_facts(kind, found).items()}
    said = {name: found[name] for name in _SAID if name != "code" or found["code"] != kind.code}
    return _rebuilt(kind, _message(found["rule"], found["place"], found["fix"]), {**said, **own})


def _kinds(kind: type[SfumatoError] = SfumatoError) -> Iterator[type[SfumatoError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


def _no_error(source: object) -> InvalidParameter:
    return InvalidParameter("source", source, "the JSON text of an error")


def _named_facts(kind: type[SfumatoError], found: Mapping[str, Any]) -> dict[str, Any]:
    """Take facts that are called as attributes may be, and as none of what the class itself has."""
    facts = found.get("facts")
    if not isinstance(facts, dict):
        raise _no_error(found)
    if any(not name.isidentifier() or name.startswith("_") or hasattr(kind, name) or name in _SAID for name in facts):
        raise _no_error(found)
    return facts


def _attribute(kind: type[SfumatoError], name: str, found: Any) -> Any:
    """Make an exact number of a fact again, where the class says that it is one."""
    if name not in kind.amounts:
        return found
    try:
        return {each: amount(one) for each, one in found.items()} if isinstance(found, dict) else amount(found)
    except ValueError:
        raise _no_error(found) from None


def _show(amount: Fraction | None) -> str:
    return "unbounded" if amount is None else f"{float(amount):.6g}"
