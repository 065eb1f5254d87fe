"""A curator at a server, with the methods of a local one, and the calls of owners and auditors to that server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from fractions import Fraction
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sfumato.client.remote_proposals import (
    PolicyConnection,
    RemoteProposal,
    RemoteQuestion,
    RemoteRequests,
    RemoteTest,
    encode_spec,
    question_sql,
)
from sfumato.client.wire import (
    Address,
    Wire,
    decode,
    encode_keyword_arguments,
    encode_parameters,
    require_seconds,
    saved_certificate,
    saved_token,
)
from sfumato.curator.kinds.workloads import WorkloadSpec
from sfumato.curator.proposing import Proposing
from sfumato.curator.release_kinds import Spec, kind_for_spec, spec_fields
from sfumato.errors import InvalidParameter, ServerUnavailable
from sfumato.privacy import Budget, codec
from sfumato.privacy.numbers import Number, exact_integer
from sfumato.privacy.pictures import History, SpendingPoint
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import warn_caller
from sfumato.untrusted import refuse_malformed

if TYPE_CHECKING:
    from sfumato.client.remote_proposals import RemoteTable
    from sfumato.curator import Listing, PeriodStandings, Standing, Tables, WorkloadProposal
    from sfumato.ledger import Anchor, Line, Verification
    from sfumato.ledger.entries import AccountLines
    from sfumato.policy import PublicFace


_EXPORT_MEDIA = {"json": "application/json", "csv": "text/csv", "arrow": "application/vnd.apache.arrow.file"}


@dataclass(frozen=True)
class ServerUser:
    """A user of a server."""

    name: str
    role: str
    made: datetime
    disabled: bool


@dataclass(frozen=True)
class ServerToken:
    """A token of a user, without its secret text."""

    number: int
    user: str
    label: str
    made: datetime
    expires: datetime | None
    most: Fraction | None
    """The most ε that it may ever spend; None for no limit of its own."""
    spent: Fraction
    revoked: bool


@dataclass(frozen=True)
class OwnerAct:
    """A recorded act of an owner."""

    number: int
    time: datetime
    by: str
    act: str
    about: str


class RemoteServer:
    """A server, as its owners and auditors administer it with their token."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def users(self) -> tuple[ServerUser, ...]:
        return tuple(_decode_user(user) for user in self._wire.get("users")["users"])

    def add_user(self, name: str, role: str = "analyst") -> ServerUser:
        """Add an analyst, an owner or an auditor."""
        return _decode_user(self._wire.send("POST", ("users",), {"name": name, "role": role}))

    def disable_user(self, name: str, *, disabled: bool = True) -> ServerUser:
        """Lock a user out at once, or let them in again."""
        return _decode_user(self._wire.send("PUT", ("users", name), {"disabled": disabled}))

    def login_link(self, name: str) -> str:
        """Return a link with which a user signs in once, within 15 minutes."""
        return f"{self._wire.address.base.rstrip('/')}{self._wire.send('POST', ('links',), {'user': name})['path']}"

    def tokens(self) -> tuple[ServerToken, ...]:
        return tuple(_decode_token(token) for token in self._wire.get("tokens")["tokens"])

    def new_token(
        self, user: str, *, days: int | None = None, most: Number | None = None, label: str = ""
    ) -> tuple[ServerToken, str]:
        """Create a token; its secret text is returned this once."""
        reply = self._wire.send(
            "POST", ("tokens",), encode_keyword_arguments(user=user, days=days, most=most, label=label)
        )
        return _decode_token(reply["token"]), str(reply["text"])

    def revoke_token(self, number: int) -> ServerToken:
        return _decode_token(self._wire.send("DELETE", ("tokens", str(number))))

    def acts(self, after: int = 0, limit: int = 100) -> tuple[OwnerAct, ...]:
        """List the recorded acts of owners after a number, oldest first."""
        with _refuse_malformed_reply():
            replies = self._wire.get("acts", after=after, limit=limit)["acts"]
            return tuple(OwnerAct(**{**reply, "time": datetime.fromisoformat(reply["time"])}) for reply in replies)

    def verify(self) -> Verification:
        """Verify every line of the server's ledger, at the server."""
        from sfumato.ledger import Verification

        reply = self._wire.get("ledger", "verify")
        return Verification(reply["lines"], reply["bad"], "" if reply["holds"] else str(reply["words"]))

    def anchor(self) -> Anchor:
        """Return the ledger's head and totals, to be kept elsewhere."""
        import json

        from sfumato.ledger import Anchor
        from sfumato.privacy import codec

        return codec.loads_as(Anchor, json.dumps(self._wire.get("ledger", "anchor")))

    def export(self, form: str, path: str | os.PathLike[str]) -> None:
        """Write every line of the server's ledger to a new file here, as "json", "csv" or "arrow"."""
        if not isinstance(form, str) or form not in _EXPORT_MEDIA:
            raise InvalidParameter("form", form, "one of " + ", ".join(sorted(_EXPORT_MEDIA)))
        self._wire.download(path, _EXPORT_MEDIA[form], "ledger", "export", form=form)

    def __repr__(self) -> str:
        return f"<Server {self._wire.address.label}: .users() .tokens() .acts() .verify() .export(…)>"


def _refuse_malformed_reply() -> Any:
    return refuse_malformed(lambda: ServerUnavailable("the server's reply cannot be decoded", place="the server"))


def _decode_user(reply: Any) -> ServerUser:
    with _refuse_malformed_reply():
        return ServerUser(
            str(reply["name"]), str(reply["role"]), datetime.fromisoformat(reply["made"]), bool(reply["disabled"])
        )


def _decode_token(reply: Any) -> ServerToken:
    with _refuse_malformed_reply():
        expires, most = reply["expires"], reply["most"]
        return ServerToken(
            int(reply["number"]),
            str(reply["user"]),
            str(reply["label"]),
            datetime.fromisoformat(reply["made"]),
            None if expires is None else datetime.fromisoformat(expires),
            None if most is None else Fraction(most),
            Fraction(reply["spent"]),
            bool(reply["revoked"]),
        )


P = TypeVar("P")

TIMEOUT = 30.0
"""Seconds that a call without a release may take."""
_PAGE_LINES = 1000


class RemoteCurator(Proposing):
    """A curator that a server runs. Thread-safe; ``close`` ends its connections.

    Questions are parsed, charged, answered and stored at the server; the token decides who asks and from which share.
    Interactive sessions, and calls that need the owner's files, are not available.
    """

    def __init__(self, policy_connection: PolicyConnection) -> None:
        self._policy_connection = policy_connection

    @property
    def policy_connection(self) -> PolicyConnection:
        """The policy at its server, for proposals of any kind."""
        return self._policy_connection

    @property
    def name(self) -> str:
        """The name of the account, which is that of the policy."""
        return self._policy_connection.policy

    @property
    def policy(self) -> PublicFace:
        """The public part of the policy: tables, columns, protected unit and budget."""
        face: PublicFace = decode(self._get())
        return face

    @property
    def tables(self) -> Tables:
        """The tables, each with suggested questions and their errors."""
        tables: Tables = decode(self._get("tables"))
        return tables

    @property
    def budget(self) -> Budget:
        """The budget and what was spent of it: of the account, or of the share of the user who asks."""
        reply = self._get("account")
        budget, share = codec.loads_as(Budget, json.dumps(reply["budget"])), reply["share"]
        counted_budget = budget if share is None else budget.share(share)
        return counted_budget.with_history(History(lambda: self._charges(from_share=share is not None)))

    def _charges(self, *, from_share: bool) -> list[SpendingPoint]:
        lines = [line for line in self.history() if not line.cost.is_zero]
        if not from_share:
            return [SpendingPoint(line.time, line.spent.amounts) for line in lines]
        totals = accumulate((line.cost for line in lines), add)
        return [SpendingPoint(line.time, total.amounts) for line, total in zip(lines, totals, strict=True)]

    def standing(self, analyst: str | None = None) -> Standing | PeriodStandings:
        """Return the standing of the account, of the share of the user who asks, or of the share that an owner or
        auditor names.
        """
        standing: Standing | PeriodStandings = decode(self._get("budget", **encode_keyword_arguments(analyst=analyst)))
        return standing

    def history(self, analyst: str | None = None, *, after: int = 0, limit: int | None = None) -> AccountLines:
        """List the account's ledger lines that the user may see, or those of an analyst among them, oldest first."""
        from sfumato.ledger.entries import AccountLines

        max_lines = None if limit is None else exact_integer(limit, "limit", at_least=1)
        start = exact_integer(after, "after", at_least=0)
        return AccountLines(lambda: self._pages(encode_keyword_arguments(analyst=analyst), start, max_lines))

    def _pages(self, analyst: Mapping[str, str], after: int, remaining: int | None) -> Iterator[Line]:
        start: int | None = after
        while start is not None and remaining != 0:
            page_size = _PAGE_LINES if remaining is None else min(remaining, _PAGE_LINES)
            page = self._get("history", after=start, limit=page_size, form="lines", **analyst)
            yield from decode(page["lines"])
            remaining = None if remaining is None else remaining - len(page["lines"])
            start = page["next"]

    def sql(self, question: str, parameters: Any = None) -> RemoteQuestion | Listing:
        """Parse a question in SQL without asking it. Free.

        ``parameters`` are the values of ``?``, ``$1``, … in a list, or those of ``$name`` and ``:name`` in a dict. SHOW
        TABLES, DESCRIBE and SUMMARIZE are answered at once.
        """
        if not isinstance(question, str):
            raise InvalidParameter(
                "question", question, "a string with SQL", fix='for example, write sql("SELECT COUNT(*) FROM visits")'
            )
        sent_parameters = encode_parameters(parameters)
        spec = {"sql": question, **({} if sent_parameters is None else {"parameters": sent_parameters})}
        question_or_listing: RemoteQuestion | Listing = RemoteQuestion.propose(
            self._policy_connection, "questions", spec
        )
        return question_or_listing

    def table(self, name: str, alias: str | None = None) -> RemoteTable:
        """Start a question about a table, built step by step in Python; equivalent to SQL. Free."""
        from sfumato.client.remote_proposals import RemoteTable

        return RemoteTable(self._policy_connection, {**encode_spec(table=name, alias=alias), "steps": []})

    def workload(self, questions: Sequence[Any] | Mapping[str, Any] | str | os.PathLike[str]) -> WorkloadProposal:
        """Propose several questions at one price: a list, a mapping from names, or a .sql file. Free."""
        if isinstance(questions, (str, os.PathLike)):
            questions = _read_question_file(questions)
        if isinstance(questions, Mapping):
            texts: Any = {name: question_sql(question, str(name)) for name, question in questions.items()}
        else:
            texts = [question_sql(question, f"q{number}") for number, question in enumerate(questions, 1)]
        return self.propose(WorkloadSpec(texts))

    def propose(self, spec: Spec[P]) -> P:
        """Propose what a spec describes: ``curator.propose(BoundsSpec("visits", "cost"))``. Free.

        The result has the methods of the same proposal in a local curator.
        """
        kind = kind_for_spec(spec)
        kind.require_offered_in("rest")
        values = {field.name: getattr(spec, field.name) for field in spec_fields(kind.spec)}
        _require_sendable(spec, values)
        remote_class = RemoteTest if kind.name == "test" else RemoteProposal
        proposal: P = remote_class.propose(self._policy_connection, kind.name, encode_spec(**values))
        return proposal

    @property
    def requests(self) -> RemoteRequests:
        """Requests for approval: ``file``, ``list``, ``show``, ``approve``, ``refuse``, ``withdraw``, ``release``."""
        return RemoteRequests(self._policy_connection)

    @property
    def server(self) -> RemoteServer:
        """The server, for its owners and auditors: users, tokens, acts, and its ledger."""
        return RemoteServer(self._policy_connection.wire)

    def pause(self, *, paused: bool = True) -> None:
        """Pause new releases of this policy, or resume them. For owners."""
        self._send("pause", {"paused": paused})

    def amend(self, *, reason: str) -> Line:
        """Amend the account to the budget in the server's policy file; warn if it is weak. For owners."""
        reply = self._send("amend", {"reason": reason})
        for warning in map(str, reply["warnings"]):
            warn_caller(warning)
        line: Line = decode(reply["record"])
        return line

    def overruns(self) -> int:
        """Return the number of answers that were late. PRIVATE: it depends on rows. For owners."""
        return int(self._get("overruns")["overruns"])

    def shares(self) -> dict[str, Standing | PeriodStandings]:
        """Return the standing of every analyst's share. For owners."""
        shares: dict[str, Standing | PeriodStandings] = decode(self._get("shares")["shares"])
        return shares

    def close(self) -> None:
        """Close the connections. Bought answers stay at the server."""
        self._policy_connection.wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return self.tables.brief()

    def _repr_html_(self) -> str:
        return self.tables._repr_html_() + self.budget._repr_html_()

    def _send(self, operation: str, body: Mapping[str, Any]) -> Any:
        address = self._policy_connection
        return address.wire.send("POST", ("policies", address.policy, operation), body)

    def _get(self, *parts: str, **query: str | int) -> Any:
        return self._policy_connection.wire.get("policies", self._policy_connection.policy, *parts, **query)


def connect(
    url: str,
    policy: str | None = None,
    *,
    token: str | None = None,
    timeout: float = TIMEOUT,
    certificate: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> RemoteCurator:
    """Open a policy at a server: "https://…", "unix:/path", or plain http on this machine.

    ``policy`` may be omitted if you can see only one. ``token`` defaults to the environment variable SFUMATO_TOKEN, or
    else to the one saved by ``sfumato login``. ``timeout`` is in seconds and does not apply to releases.
    ``certificate`` is a PEM file that replaces the system's certificates; if both it and ``token`` are omitted, the one
    given to ``sfumato login`` is used.
    """
    address = Address.parse(url)
    used_token = saved_token(address) if token is None else token
    used_certificate = saved_certificate(address) if token is None and certificate is None else certificate
    wire = _open_wire(address, used_token, timeout, used_certificate)
    try:
        return RemoteCurator(PolicyConnection(wire, _choose_policy(policy, _list_policies(wire)), progress))
    except BaseException:
        wire.close()
        raise


def visible_policies(
    address: Address, token: str, *, timeout: float = TIMEOUT, certificate: str | os.PathLike[str] | None = None
) -> tuple[str, ...]:
    """Return the names of the policies that this token may see; raise ``NotSignedIn`` for an invalid token."""
    wire = _open_wire(address, token, timeout, certificate)
    try:
        return _list_policies(wire)
    finally:
        wire.close()


def _open_wire(address: Address, token: str | None, timeout: float, certificate: str | os.PathLike[str] | None) -> Wire:
    certificate_path = None if certificate is None else os.fspath(certificate)
    return Wire(address, token, timeout=require_seconds(timeout, "timeout"), certificate=certificate_path)


def _list_policies(wire: Wire) -> tuple[str, ...]:
    return tuple(map(str, wire.get("policies").get("policies", ())))


def _choose_policy(policy: str | None, available: Sequence[str]) -> str:
    """Return the requested policy, or the only one there is."""
    if policy is None and len(available) == 1:
        return available[0]
    if not available:
        rule, fix = "a policy that lists you, but the server has none", "ask the owner to list you in a policy"
        raise InvalidParameter("policy", policy, rule, fix=fix)
    if policy is None or policy not in available:
        raise InvalidParameter("policy", policy, f"one of the policies on the server: {', '.join(available)}")
    return policy


def _read_question_file(path: str | os.PathLike[str]) -> dict[str, str]:
    """Parse the questions of a .sql file, which imports the SQL parser."""
    from sfumato.plan.sql.text import split_questions

    try:
        with open(path, encoding="utf-8") as file:
            parsed = split_questions(file.read())
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter(
            "questions",
            str(path),
            "the path of a readable .sql file in UTF-8",
            fix="check the path, and save the file in UTF-8",
        ) from None
    return {f"q{number}": statement.text for number, statement in enumerate(parsed, 1)}


def _require_sendable(spec: Spec[Any], sent_fields: Mapping[str, Any]) -> None:
    """Refuse values of fields that exist for local curators only."""
    for field in fields(spec):  # type: ignore[arg-type]
        if field.name not in sent_fields and getattr(spec, field.name) != field.default:
            raise InvalidParameter(field.name, getattr(spec, field.name), "left out: the server chooses it")
