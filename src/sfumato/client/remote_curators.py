"""A curator at a server has the methods of one in this process, and asks under the name of whoever holds the token."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sfumato.client.addresses import Address, kept_certificate, kept_token
from sfumato.client.remote_proposals import PolicyAddress, RemoteProposal, RemoteQuestion, sent_spec, written_question
from sfumato.client.wire import Wire, seconds
from sfumato.client.wire_values import parameters_sent, read
from sfumato.curator.kinds.workloads import WorkloadSpec
from sfumato.curator.proposing import Proposing
from sfumato.curator.release_kinds import Spec, kind_of, spec_fields
from sfumato.errors import InvalidParameter
from sfumato.privacy import Budget, codec
from sfumato.privacy.numbers import whole
from sfumato.privacy.pictures import History, Moment

if TYPE_CHECKING:
    from sfumato.client.remote_proposals import RemoteTable
    from sfumato.curator import Listing, PeriodStandings, Standing, Tables, Workload
    from sfumato.ledger import Line
    from sfumato.ledger.entries import AccountLines
    from sfumato.policy import PublicFace

P = TypeVar("P")

TIMEOUT = 30.0
"""Seconds that a call may take which reads no rows."""
_PAGE = 1000


class RemoteCurator(Proposing):
    """This is a curator that a server runs. It is safe to use from threads, and closes its connections.

    What is asked is understood, charged, drawn and kept there; a token says who asks, and within which share. Sessions
    that stay open between two questions, and what only an owner may do with the files, are not there.
    """

    def __init__(self, place: PolicyAddress) -> None:
        self._place = place

    @property
    def name(self) -> str:
        """Give the name of the account: that of the policy."""
        return self._place.policy

    @property
    def policy(self) -> PublicFace:
        """Give what the policy says to whoever may ask: tables, columns, whom it protects, the budget."""
        found: PublicFace = read(self._get())
        return found

    @property
    def tables(self) -> Tables:
        """Say what there is to ask, table by table, with questions to copy and their errors."""
        found: Tables = read(self._get("tables"))
        return found

    @property
    def budget(self) -> Budget:
        """Say what may be spent and what has been: of the account, or of the share of the analyst who asks."""
        found = self._get("account")
        budget, share = codec.loads_as(Budget, json.dumps(found["budget"])), found["share"]
        own = budget if share is None else budget.share(share)
        return own.told_by(History(lambda: self._charges(of_share=share is not None)))

    def _charges(self, *, of_share: bool) -> list[Moment]:
        lines = [each for each in self.history() if not each.cost.nothing]
        if not of_share:
            return [Moment(each.time, each.spent.amounts) for each in lines]
        totals = accumulate((each.cost for each in lines), add)
        return [Moment(each.time, total.amounts) for each, total in zip(lines, totals, strict=True)]

    def standing(self) -> Standing | PeriodStandings:
        """Tell where the account stands, or the share of the analyst who asks."""
        found: Standing | PeriodStandings = read(self._get("budget"))
        return found

    def history(self, *, after: int = 0, limit: int | None = None) -> AccountLines:
        """List every line of the account that is shown to whoever asks, oldest first."""
        from sfumato.ledger.entries import AccountLines

        left = None if limit is None else whole(limit, "limit", at_least=1)
        start = whole(after, "after", at_least=0)
        return AccountLines(lambda: self._pages(start, left))

    def _pages(self, after: int, left: int | None) -> Iterator[Line]:
        start: int | None = after
        while start is not None and left != 0:
            most = _PAGE if left is None else min(left, _PAGE)
            page = self._get("history", after=start, limit=most, form="lines")
            yield from read(page["lines"])
            left = None if left is None else left - len(page["lines"])
            start = page["next"]

    def sql(self, question: str, parameters: Any = None) -> RemoteQuestion | Listing:
        """Understand a question in SQL, without asking it yet. This is free.

        ``parameters`` are the values of ``?``, ``$1``, … in a list, or those of ``$name`` and ``:name`` in a dict. SHOW
        TABLES and DESCRIBE are answered at once.
        """
        if not isinstance(question, str):
            raise InvalidParameter("question", question, "a text in SQL")
        given = parameters_sent(parameters)
        spec = {"sql": question, **({} if given is None else {"parameters": given})}
        found: RemoteQuestion | Listing = RemoteQuestion.at(self._place, "questions", spec)
        return found

    def table(self, name: str, alias: str | None = None) -> RemoteTable:
        """Begin a question about a table in Python, step by step: the same as in SQL. This is free."""
        from sfumato.client.remote_proposals import RemoteTable

        return RemoteTable(self._place, {**sent_spec(table=name, alias=alias), "steps": []})

    def workload(self, questions: Sequence[Any] | Mapping[str, Any] | str | os.PathLike[str]) -> Workload:
        """Propose to ask several questions at one price: a list, a mapping from names, or a .sql file. This is free."""
        if isinstance(questions, (str, os.PathLike)):
            questions = _of_file(questions)
        if isinstance(questions, Mapping):
            texts: Any = {name: written_question(each, str(name)) for name, each in questions.items()}
        else:
            texts = [written_question(each, f"q{place}") for place, each in enumerate(questions, 1)]
        return self.propose(WorkloadSpec(texts))

    def propose(self, spec: Spec[P]) -> P:
        """Propose what a spec describes: ``curator.propose(BoundsSpec("visits", "cost"))``. This is free.

        What the server offers has the methods of the same proposal in this process.
        """
        kind = kind_of(spec)
        kind.require("rest")
        given = {field.name: getattr(spec, field.name) for field in spec_fields(kind.spec)}
        _require_sendable(spec, given)
        found: P = RemoteProposal.at(self._place, kind.name, sent_spec(**given))
        return found

    def close(self) -> None:
        """Close the connections. What was bought stays at the server."""
        self._place.wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return self.tables.brief()

    def _repr_html_(self) -> str:
        return self.tables._repr_html_() + self.budget._repr_html_()

    def _get(self, *parts: str, **query: str | int) -> Any:
        return self._place.wire.get("policies", self._place.policy, *parts, **query)


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

    The policy may be left out where only one is there for you. Without a ``token`` it is that of the environment
    variable SFUMATO_TOKEN, or the one that ``sfumato login`` keeps. ``timeout`` is in seconds, and for what reads no
    rows; ``certificate`` names a file of certificates by which the server is known, instead of the system's; without
    a ``token`` it is the one that ``sfumato login`` keeps, if it was given one.
    """
    address = Address.of(url)
    shown = kept_token(address) if token is None else token
    known = kept_certificate(address) if token is None and certificate is None else certificate
    wire = _opened(address, shown, timeout, known)
    try:
        return RemoteCurator(PolicyAddress(wire, _chosen(policy, _policies(wire)), progress))
    except BaseException:
        wire.close()
        raise


def policies_at(
    address: Address, token: str, *, timeout: float = TIMEOUT, certificate: str | os.PathLike[str] | None = None
) -> tuple[str, ...]:
    """Name the policies that are there for whoever has this token; one that nobody has is refused."""
    wire = _opened(address, token, timeout, certificate)
    try:
        return _policies(wire)
    finally:
        wire.close()


def _opened(address: Address, token: str | None, timeout: float, certificate: str | os.PathLike[str] | None) -> Wire:
    known = None if certificate is None else os.fspath(certificate)
    return Wire(address, token, timeout=seconds(timeout, "timeout"), certificate=known)


def _policies(wire: Wire) -> tuple[str, ...]:
    return tuple(map(str, wire.get("policies").get("policies", ())))


def _chosen(policy: str | None, found: Sequence[str]) -> str:
    """Find the policy that is meant among those that are there."""
    if policy is None and len(found) == 1:
        return found[0]
    listed = ", ".join(found) if found else "none is there for you: ask the owner to name you in one"
    if policy is None or policy not in found:
        raise InvalidParameter("policy", policy, f"one of those at the server: {listed}")
    return policy


def _of_file(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the questions of a .sql file, which takes a parser."""
    from sfumato.plan.sql.question_files import questions

    try:
        with open(path, encoding="utf-8") as file:
            written = questions(file.read())
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter("questions", str(path), "the path of a file of questions, in UTF-8") from None
    return {f"q{place}": each.text for place, each in enumerate(written, 1)}


def _require_sendable(spec: Spec[Any], sent: Mapping[str, Any]) -> None:
    """Refuse a field of this process alone that was given."""
    for field in fields(spec):  # type: ignore[arg-type]
        if field.name not in sent and getattr(spec, field.name) != field.default:
            raise InvalidParameter(field.name, getattr(spec, field.name), "left out: it is for the server to say")
