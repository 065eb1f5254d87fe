"""The exceptions of the package, each with its numbers as attributes.

    SfumatoError                    rule, place, fix
    ├── InvalidParameter            a value, type or shape that is not allowed
    ├── InvalidRequest              an HTTP request that does not match its schema
    ├── BodyTooLarge                an HTTP request body over the size limit
    ├── NeighboursDiffer            a loss stated for one neighbour relation used under another
    ├── InvalidPolicy               a declaration that is wrong, missing or contradicts another
    ├── InvalidSettings             a server setting that is wrong or unknown
    ├── SourceChanged               a table whose source has changed since it was opened
    ├── EngineFailed                a query that the engine could not finish: one text whatever the data
    ├── EngineClosed                a query after closing, or in a forked process
    ├── Unsupported                 a question that cannot be answered, with a stable code
    ├── Unanswered                  a release that was charged and then stopped
    ├── EntropyStuck                the operating system returned the same random key twice
    ├── AnswerPending               a question that waited too long for an equal one
    ├── Draining                    a new release on a curator that is draining
    ├── SessionClosed               a question to a session that has ended
    ├── SessionInterrupted          a session question that was stopped before its answer was stored
    ├── Overspent                   a charge that the account cannot afford
    ├── AccountDiffers              an account opened again under other terms
    ├── AlreadyAnswered             a second answer to one charge
    ├── RequestDiffers              a request id reused for another question
    ├── ApprovalNeeded              a release that the policy makes wait for an owner's approval
    ├── RequestDecided              a step that a request for approval does not allow in its state
    ├── SourceTaken                 data that belong to another account
    ├── BundleDamaged               a signed bundle with an invalid signature or inconsistent content
    ├── SynopsisDamaged             a published file that was changed, or cannot be read
    ├── TabClosed                   a step on a tab that is closed, or that another process opened
    ├── NotSignedIn                 a call without a valid token or session
    ├── NotAllowed                  a call that the user's role does not allow
    ├── NotThere                    an object that does not exist, or that the user cannot see
    ├── Paused                      a policy that its owner has paused
    ├── TooManyRequests             a rate limit, with the time to wait
    ├── ServerUnavailable           a server that does not answer, or is not a Sfumato server
    └── LedgerUnavailable           the ledger cannot be used now: locked, full, read-only, newer, on a network
        ├── LedgerDamaged           a line that was changed
        ├── LedgerInDoubt           the connection was lost during a write: its outcome is unknown
        └── LedgerBehind            lines are missing that an anchor vouches for

An error's text depends on its parameters alone: no private value ever reaches it, or its ``facts``, which are the same
parameters as JSON. ``to_json`` serialises an error and ``from_json`` parses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.error_facts import (
    MAX_FACT_LENGTH,
    OUTCOMES as OUTCOMES,
    ErrorOutcome as ErrorOutcome,
    ValueWords as ValueWords,
    error_message,
    exhausted_budget_message,
    name_only_choice,
    parse_exact_fact,
    quote_parameter,
    shorten as shorten,
    shorten_to_line,
    suggest_fix,
    to_json_value,
)
from sfumato.number_formats import format_amount, format_requested, format_rounded_down

MIN_USEFUL_EPSILON = Fraction(1, 10**9)
"""An ε below which the noise of a count exceeds a billion, and much other noise is too wide to be drawn."""


class SfumatoError(Exception):
    """A refusal: the rule that was broken, the place, and a fix; the fix is empty where the rule says what to do."""

    code: str = "refused"
    """Stable, for programs: texts may change, codes do not."""
    amounts: ClassVar[tuple[str, ...]] = ()
    """Names of facts that are exact numbers, or mappings to them: serialised as texts."""

    def __init__(self, rule: str, *, place: str, fix: str) -> None:
        super().__init__(error_message(rule, place, fix))
        self.rule = rule
        self.place = place
        self.fix = fix

    def within(self, whole: str) -> SfumatoError:
        """Return the same refusal with its place prefixed by an enclosing one."""
        place = f"{whole}: {self.place}"
        return _rebuild(type(self), error_message(self.rule, place, self.fix), {**vars(self), "place": place})

    @property
    def facts(self) -> dict[str, Any]:
        """The parameters of the error as JSON values; exact numbers are texts."""
        public = {
            name: value for name, value in vars(self).items() if name not in _TEXT_FIELDS and not name.startswith("_")
        }
        return {
            name: format_amount(value) if name in self.amounts else to_json_value(value)
            for name, value in public.items()
        }

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without calling the constructor, whose parameters differ."""
        return _rebuild, (type(self), str(self), self.__dict__)


class WeakPrivacy(UserWarning):
    """A warning that a privacy guarantee is very weak."""


class WeakLedger(WeakPrivacy):
    """A warning that a ledger is stored in a way that could lose or change charges."""


class InvalidParameter(SfumatoError, ValueError):
    """A parameter is not one of the allowed values."""

    code = "invalid-parameter"

    def __init__(self, parameter: str, value: object, allowed: str, *, fix: str = "", each: bool = False) -> None:
        """With ``each``, the rule is for each value of a list, of which ``value`` is one."""
        allowed = name_only_choice(allowed)
        name = f"each value of {quote_parameter(parameter)}" if each else quote_parameter(parameter)
        got = "" if value is None and allowed.startswith("given") else f"; got {shorten_to_line(value)}"
        rule = f"{name} must be {allowed}{got}"
        allowed = f"a list in which each value is {allowed}" if each else allowed
        super().__init__(rule, place=parameter, fix=fix or suggest_fix(parameter, value, allowed))
        self.parameter = parameter
        self.value = value
        self.allowed = allowed

    @property
    def facts(self) -> dict[str, Any]:
        """The parameters as JSON values, with the refused value shortened as in the message."""
        value = self.value
        short = value if not isinstance(value, str) or len(value) <= _MAX_VALUE else shorten(value, _MAX_VALUE)
        return {**super().facts, "value": to_json_value(short)}


class InvalidRequest(SfumatoError, ValueError):
    """An HTTP request does not match its schema: the place is a part of the request."""

    code = "invalid-request"


class BodyTooLarge(SfumatoError):
    """An HTTP request body is over the size limit."""

    code = "body-too-large"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"a request body can have at most {most:,} bytes, uncompressed",
            place="the body",
            fix="split it, for example into one request for each question",
        )
        self.most = most


class NeighboursDiffer(SfumatoError):
    """A privacy loss stated for one neighbour relation was used under the other."""

    code = "neighbours-differ"

    def __init__(self, stated: str, wanted: str, *, place: str, fix: str) -> None:
        rule = f"this privacy loss holds for {stated} neighbours, not for {wanted} neighbours"
        super().__init__(rule, place=place, fix=fix)
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
            f"the source of {table} has changed since it was opened",
            place=f"tables.{table}.source",
            fix="open the policy again to ask about the changed data",
        )
        self.table = table


class EngineFailed(SfumatoError):
    """The engine could not finish a query. The text is always the same, since a cause could reveal data."""

    code = "engine-failed"

    def __init__(self) -> None:
        super().__init__(
            "the engine could not finish the query",
            place="the engine",
            fix="if you interrupted the query, run it again; otherwise tell the owner, who can run `sfumato check`",
        )


class EngineClosed(SfumatoError):
    """The sources were closed, or opened before this process was forked."""

    code = "engine-closed"

    def __init__(self) -> None:
        super().__init__(
            "the data sources are closed in this process",
            place="the engine",
            fix="open the policy again; after a fork, open it in the child process",
        )


class Unsupported(SfumatoError):
    """A question that cannot be answered, which is decided from its text and the policy alone.

    ``code`` is stable, for programs. ``line`` and ``column`` (from 1) locate it in the text; None for the whole text.
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

    Its text is the same whatever happened, because what happened may depend on private rows. Who waited for an equal
    question learns of that question's charge, and was not ``charged``.
    """

    code = "unanswered"

    def __init__(self, number: int, *, charged: bool = True) -> None:
        super().__init__(
            "this release was charged, but it was stopped before it returned an answer"
            if charged
            else "an earlier request with the same question was charged, but it was stopped before it returned an "
            "answer; this request was not charged",
            place=f"line {number} of the ledger",
            fix="ask again, with a new request id if you gave one; the new release is charged as well",
        )
        self.number = number
        self.charged = charged
        self.code = "unanswered" if charged else "equal-question-stopped"


class AnswerPending(SfumatoError):
    """An equal question is being answered, and takes longer than this one may wait."""

    code = "answer-pending"

    def __init__(self, number: int) -> None:
        super().__init__(
            "an earlier request with the same question is still being answered; this request was not charged",
            place=f"line {number} of the ledger",
            fix="ask again later; the stored answer will then be free",
        )
        self.number = number


class Draining(SfumatoError):
    """The curator is draining and accepts no new releases."""

    code = "draining"

    def __init__(self) -> None:
        super().__init__(
            "this curator is about to stop and accepts no new releases; nothing was charged",
            place="the curator",
            fix="ask again after it has restarted; stored answers stay free",
        )


class EntropyStuck(SfumatoError):
    """The operating system returned the same random key twice: noise would repeat, and could be subtracted."""

    code = "entropy-stuck"

    def __init__(self) -> None:
        super().__init__(
            "the operating system returned the same 256 random bits twice, so noise could repeat",
            place="the operating system's random generator",
            fix="repair the machine's source of randomness; on a cloned virtual machine, reseed it",
        )


class SessionClosed(SfumatoError):
    """The session has used up its positive answers, or was closed."""

    code = "session-closed"

    def __init__(self, positives: int) -> None:
        rule = f"this session ended after {positives} answer{'' if positives == 1 else 's'} above the threshold"
        super().__init__(rule, place="Session.ask", fix="start a new session, which is charged as a new release")
        self.positives = positives


class SessionInterrupted(SfumatoError):
    """A question of a session was stopped: by a time limit, an interruption or a failure below.

    Its text is the same whatever happened, because what happened may depend on private rows.
    """

    code = "session-interrupted"

    def __init__(self, number: int) -> None:
        super().__init__(
            "this question of the session was stopped before its answer was stored; nothing more was charged",
            place=f"line {number} of the ledger",
            fix="ask again while the session is open; session.remaining shows whether this question used up an answer",
        )
        self.number = number


class Overspent(SfumatoError):
    """A charge exceeds the remaining budget: requested, remaining and difference per currency.

    ``largest`` is the largest ε that the account would accept now as one ordinary answer, whose price is an ε alone.
    A currency that the account does not have, or has closed, is missing from the mappings; a request of ``None`` is
    unbounded (Gaussian noise in the pure currency). The text is about ε; ``details`` lists the currencies.
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
            name: None if (request := self.requested.get(name)) is None else request - remainder
            for name, remainder in self.remaining.items()
        }
        self.largest = largest
        self.allowed = allowed
        lacking = [name for name, excess in self.difference.items() if excess is None or excess > 0]
        self.details = "\n".join(
            f"{name}: requested {format_requested(self.requested.get(name))}, "
            f"remaining {format_rounded_down(self.remaining[name])}, "
            f"difference {format_requested(self.difference[name])}"
            for name in lacking
        )
        super().__init__(
            f"{place} cannot afford this release: {'; '.join(self._reasons(lacking))}",
            place=f"the remaining budget of {place}" if place != "the account" else "the account's remaining budget",
            fix=self._suggest_fix(lacking),
        )

    def _suggest_fix(self, lacking: list[str]) -> str:
        """Suggest what would be accepted; if only δ is too large, what needs less of it."""
        if self.largest < MIN_USEFUL_EPSILON:
            reason = exhausted_budget_message(self.largest)
            return f"ask the owner for more budget, since {reason}; stored answers stay free"
        affordable = f"ε = {format_rounded_down(self.largest)}"
        if lacking != ["failure"]:
            return f"for an ordinary answer, choose at most {affordable}"
        remaining = self.remaining["failure"]
        smaller_delta = f"choose a δ of at most {format_rounded_down(remaining)}, or " if remaining else ""
        declared_groups = "group by columns whose values the policy lists, which needs no δ"
        return f"{smaller_delta}{declared_groups}, with at most {affordable}"

    def _reasons(self, lacking: list[str]) -> list[str]:
        """List the reasons in terms of ε and δ; a currency that fits is no reason."""
        reasons = []
        if "failure" in lacking:
            request, remaining = self.requested.get("failure"), self.remaining["failure"]
            left = f"δ = {format_rounded_down(remaining)} is left" if remaining else "no δ is left"
            reasons.append(f"it needs δ = {format_requested(request)}, and {left}")
        if "pure" in lacking or "renyi" in lacking or not lacking:
            reasons.append(self._explain_shortfall("pure" in lacking))
        return reasons

    def _explain_shortfall(self, is_pure_lacking: bool) -> str:
        """Compare the requested ε with what is left for ordinary answers."""
        request, remaining = self.requested.get("pure"), self.remaining.get("pure")
        total = "" if self.allowed is None else f" of {format_rounded_down(self.allowed)}"
        ordinary = (
            "" if remaining is None else f"ε = {format_rounded_down(remaining)}{total} is left for ordinary answers"
        )
        if request is not None and remaining is not None and is_pure_lacking:
            shortfall = f", which is {format_requested(request - remaining)} too little" if remaining else ""
            return f"it needs ε = {format_requested(request)}, and {ordinary}{shortfall}"
        subject = "its Gaussian noise" if request is None else f"its ε = {format_requested(request)}"
        return "; ".join(filter(None, (f"{subject} {self._gaussian_ratio()}", ordinary)))

    def _gaussian_ratio(self) -> str:
        """Compare the requested Rényi budget with what is left for Gaussian noise."""
        request, remaining = self.requested.get("renyi"), self.remaining.get("renyi")
        if request is None:
            return "cannot be paid from this budget"
        if not remaining:
            return "needs a budget for Gaussian noise, and none is left"
        return f"needs {float(request / remaining):.3g} times what is left for Gaussian noise"


class AccountDiffers(SfumatoError):
    """An account was opened again under other terms; its terms are fixed for life."""

    code = "account-differs"


class AlreadyAnswered(SfumatoError):
    """A second answer to one charge."""

    code = "already-answered"


class RequestDiffers(SfumatoError):
    """A request id was used before, for another question."""

    code = "request-differs"


class ApprovalNeeded(SfumatoError):
    """The policy makes this release wait for an owner's approval, and no approval is for exactly this."""

    code = "approval-needed"
    state: str | None  # of the last request for it


class RequestDecided(SfumatoError):
    """A request for approval does not allow this step: in its state, or by this person."""

    code = "request-decided"


class SourceTaken(SfumatoError):
    """The data belong to another account: a second account would be a second budget for the same people."""

    code = "source-taken"


class SynopsisDamaged(SfumatoError):
    """A published file is not a synopsis, was changed, or cannot be read or written."""

    code = "synopsis-damaged"


class BundleDamaged(SfumatoError):
    """A signed bundle has an invalid signature, or its content is inconsistent."""

    code = "bundle-damaged"


class TabClosed(SfumatoError):
    """The tab is closed, or another process opened it."""

    code = "tab-closed"

    def __init__(self, why: str) -> None:
        super().__init__(why, place="Tab.step", fix="open a new tab, with its own budget: account.open_tab(…)")


class NotSignedIn(SfumatoError):
    """No valid token or session: one text for a wrong token, an expired one, and an unknown user."""

    code = "not-signed-in"

    def __init__(self) -> None:
        super().__init__(
            "this call needs a valid token or session",
            place="the token or the session",
            fix="sign in again, or ask the owner for a new token",
        )


class NotAllowed(SfumatoError):
    """The user's role does not allow this call."""

    code = "not-allowed"

    def __init__(self, role: str, call: str) -> None:
        rule = f"your role {role!r} does not allow the call {call!r}"
        super().__init__(rule, place=call, fix="ask a user whose role allows it to do this")
        self.role = role
        self.call = call


class NotThere(SfumatoError):
    """An object does not exist, or this user cannot see it: which of the two is not revealed."""

    code = "not-there"

    def __init__(self, what: str) -> None:
        self.what = what if len(what) <= MAX_FACT_LENGTH else what[: MAX_FACT_LENGTH - 1] + "…"
        *_, kind, last = "", "", *self.what.split()
        noun = f"{kind} number" if kind and last.isdecimal() else "address" if kind == "this" else "name"
        rule = f"{self.what} does not exist, or you cannot see it"
        super().__init__(rule, place=self.what, fix=f"check the {noun}, or ask the owner")


class Paused(SfumatoError):
    """The owner has paused a policy: only stored answers are given."""

    code = "paused"

    def __init__(self, policy: str) -> None:
        rule = f"the owner has paused the policy {shorten(policy)}, so new questions are refused; nothing was charged"
        super().__init__(rule, place=f"policy {shorten(policy)}", fix="ask again later; stored answers stay free")
        self.policy = policy


class TooManyRequests(SfumatoError):
    """A user exceeds the server's rate limit; ``retry_after`` is in seconds."""

    code = "too-many-requests"

    def __init__(self, rule: str, retry_after: int) -> None:
        super().__init__(
            f"{rule}; nothing was charged", place="the server's limits", fix=f"try again in {retry_after} s"
        )
        self.retry_after = retry_after


class ServerUnavailable(SfumatoError):
    """A server cannot be reached, or is not a Sfumato server; ``request_id`` is that of the release that was sent."""

    code = "server-unavailable"

    def __init__(self, rule: str, *, place: str, request_id: str | None = None, fix: str | None = None) -> None:
        retry = fix or "check the address and whether the server is running, then ask again"
        if request_id is not None:
            retry = f"{retry} with request_id={request_id!r}, so that the release is charged only once"
        super().__init__(rule, place=place, fix=retry)
        self.request_id = request_id


class LedgerUnavailable(SfumatoError):
    """The ledger cannot be read or written now; nothing was changed."""

    code = "ledger-unavailable"


_RESTORE = (
    "restore a backup; if it lacks the newest lines, run `sfumato ledger acknowledge FILE --reason …`, which adds "
    "their charges to the totals as far as they are known"
)


class LedgerDamaged(LedgerUnavailable):
    """A line was changed; ``number`` is the first one found, None for the file as a whole."""

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
    """The connection to the ledger's server was lost during a write: whether it was committed is unknown.

    No row was read for this request. The lines in doubt are those from ``first`` to ``last``.
    """

    code = "ledger-in-doubt"

    def __init__(self, first: int, last: int, request_id: str | None, *, place: str = "") -> None:
        identified = "" if request_id is None else f" (request id {request_id!r})"
        lookup = "see in `sfumato history` whether it was charged; if not, ask again"
        retry = "ask again with the same request id, so that the release is charged only once" if request_id else lookup
        super().__init__(
            f"it is unknown whether this was charged{identified}: the connection to the ledger's server was lost "
            "during the write",
            place=place or f"line {first} of the ledger",
            fix=f"when the server is back, {retry}",
        )
        self.first = first
        self.last = last
        self.request_id = request_id


class LedgerBehind(LedgerUnavailable):
    """Lines that an anchor vouches for are missing or different: a backup was restored, or the file was changed."""

    code = "ledger-behind"

    def __init__(self, number: int) -> None:
        super().__init__(
            f"line {number} of this ledger is missing or was changed: it does not match the anchor, a record of the "
            "newest lines that is kept outside the ledger",
            place=f"line {number}",
            fix="restore the newest ledger; if it is lost, its owner can run `sfumato ledger acknowledge FILE --reason "
            "…`, or ledger.acknowledge(anchor, reason=…), which raises the totals to those of the anchor",
        )
        self.number = number


def outcome(error: SfumatoError) -> ErrorOutcome:
    """Return the exit code and HTTP status of an error. All refused questions have the same, whatever their code."""
    return OUTCOMES.get(error.code, OUTCOMES[type(error).code])


def _rebuild(kind: type[SfumatoError], message: str, facts: Mapping[str, object]) -> SfumatoError:
    error = kind.__new__(kind, message)
    error.__dict__.update(facts)
    return error


# ── as JSON ────────────────────────────────────────────────────────────────────────────────────

_TEXT_FIELDS = ("code", "rule", "place", "fix")
_MAX_VALUE, _MAX_TEXT = 60, 1 << 20


def to_json(error: SfumatoError) -> str:
    """Serialise an error as JSON text: the stable name of its class (``kind``), code, rule, place, fix and facts.

    Its traceback, cause and notes are not included.
    """
    fields = {name: getattr(error, name) for name in _TEXT_FIELDS}
    return json.dumps({"kind": type(error).code, **fields, "facts": error.facts})


def from_json(source: str) -> SfumatoError:
    """Parse the output of ``to_json`` into an error of the same class and text.

    Unknown fields are ignored, so that a server's problem document (RFC 9457) is accepted too; an unknown kind becomes
    a plain ``SfumatoError``.
    """
    try:
        document = json.loads(source) if len(source) <= _MAX_TEXT else None
    except (TypeError, ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), str) for name in ("kind", *_TEXT_FIELDS)
    ):
        raise _invalid_json(source)
    kind = {error_class.code: error_class for error_class in _error_classes()}.get(document["kind"], SfumatoError)
    attributes = {name: _parse_fact(kind, name, value) for name, value in _check_facts(kind, document).items()}
    fields = {name: document[name] for name in _TEXT_FIELDS if name != "code" or document["code"] != kind.code}
    return _rebuild(kind, error_message(document["rule"], document["place"], document["fix"]), {**fields, **attributes})


def _error_classes(kind: type[SfumatoError] = SfumatoError) -> Iterator[type[SfumatoError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _error_classes(subclass)


def _invalid_json(source: object) -> InvalidParameter:
    return InvalidParameter("source", source, "an error as JSON", fix="pass the text that to_json(error) returned")


def _check_facts(kind: type[SfumatoError], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a document; refuse names that are no identifiers, or that the class already has."""
    facts = document.get("facts")
    if not isinstance(facts, dict) or any(
        not name.isidentifier() or name.startswith("_") or hasattr(kind, name) or name in _TEXT_FIELDS for name in facts
    ):
        raise _invalid_json(document)
    return facts


def _parse_fact(kind: type[SfumatoError], name: str, value: Any) -> Any:
    """Parse a fact: exact numbers are those that the class lists in ``amounts``."""
    try:
        return parse_exact_fact(value) if name in kind.amounts else value
    except ValueError:
        raise _invalid_json(value) from None
