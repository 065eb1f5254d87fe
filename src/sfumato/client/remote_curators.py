"""A curator at a server has the methods of one in this process, and asks under the name of whoever holds the token."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Any, NoReturn, Self

from sfumato.client.addresses import Address
from sfumato.client.kept_tokens import kept_certificate, kept_token
from sfumato.client.read_values import read
from sfumato.client.remote_proposals import Place, RemoteProposal, RemoteQuestion, sent_spec, written_question
from sfumato.client.sent_values import parameters_sent
from sfumato.client.wire import Wire, seconds
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.privacy import Budget, codec
from sfumato.privacy.budget_pictures import History, Moment
from sfumato.privacy.numbers import Number, whole

if TYPE_CHECKING:
    from sfumato.client.remote_tables import RemoteTable
    from sfumato.curator import Listing, PeriodStandings, Standing, Tables
    from sfumato.ledger import Line
    from sfumato.ledger.account_lines import AccountLines
    from sfumato.policy import PublicFace

TIMEOUT = 30.0
"""Seconds that a call may take which reads no rows."""
_PAGE = 1000


class RemoteCurator:
    """This is a curator that a server runs. It is safe to use from threads, and closes its connections.

    What is asked is understood, charged, drawn and kept there; a token says who asks, and within which share. Sessions
    that stay open between two questions, and what only an owner may do with the files, are not there.
    """

    def __init__(self, place: Place) -> None:
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
        from sfumato.ledger.account_lines import AccountLines

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
        from sfumato.client.remote_tables import RemoteTable

        return RemoteTable(self._place, {**sent_spec(table=name, alias=alias), "steps": []})

    def workload(self, questions: Sequence[Any] | Mapping[str, Any] | str | os.PathLike[str]) -> RemoteProposal:
        """Propose to ask several questions at one price: a list, a mapping from names, or a .sql file. This is free."""
        if isinstance(questions, (str, os.PathLike)):
            questions = _of_file(questions)
        if isinstance(questions, Mapping):
            texts: Any = {name: written_question(each, str(name)) for name, each in questions.items()}
        else:
            texts = [written_question(each, f"q{place}") for place, each in enumerate(questions, 1)]
        return self._proposed("workloads", questions=texts)

    def marginals(
        self,
        table: str,
        ways: Any = 2,
        *,
        weights: Any = None,
        objective: str = "total",
        where: str | None = None,
        columns: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> RemoteProposal:
        """Propose to measure marginals of a table once; whatever is asked of them afterwards is free, and in this
        process.
        """
        own: dict[str, Any] = {"weights": weights, "objective": objective, "where": where}
        return self._proposed("marginals", table=table, ways=ways, columns=columns, rows=rows, **own)

    def histogram(
        self, table: str, columns: Sequence[str], *, where: str | None = None, rows: int | None = None
    ) -> RemoteProposal:
        """Propose to count the rows in every cell of these columns together. This is free."""
        if isinstance(columns, (str, bytes)) or not isinstance(columns, Sequence) or not columns:
            raise InvalidParameter("columns", columns, 'a list of names such as ["sex", "age"]')
        return self.marginals(table, [columns], where=where, rows=rows)

    def mwem(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        ways: Any = None,
        *,
        queries: Any = None,
        rounds: int = 10,
        textbook: bool = False,
        where: str | None = None,
        rows: int | None = None,
    ) -> RemoteProposal:
        """Propose to fit a model of some columns to what it gets most wrong, round by round. This is free."""
        own: dict[str, Any] = {"queries": queries, "rounds": rounds, "textbook": textbook, "where": where}
        return self._proposed("synopses", table=table, columns=columns, ways=ways, rows=rows, **own)

    def synthesize(
        self,
        table: str,
        method: str = "aim",
        ways: Any = 3,
        *,
        columns: Sequence[str] | None = None,
        weights: Mapping[str, Number] | None = None,
        where: str | None = None,
        rows: int | None = None,
        one_row_per: str | None = None,
        order: str | None = None,
    ) -> RemoteProposal:
        """Propose a synthetic table: a model of these columns, and rows drawn from it. This is free."""
        own: dict[str, Any] = {"columns": columns, "weights": weights, "where": where, "rows": rows}
        more: dict[str, Any] = {"one_row_per": one_row_per, "order": order}
        return self._proposed("synthesis", table=table, method=method, ways=ways, **own, **more)

    def above(
        self,
        threshold: Number,
        positives: int = 1,
        *,
        sensitivity: Number | None = None,
        tables: Sequence[str] | None = None,
        monotone: bool | None = None,
        questions: Sequence[str] | None = None,
    ) -> RemoteProposal:
        """Propose a session: of many ``questions`` each is told to be above a threshold or below it, for one price.
        This is free. A server has to know them beforehand: no session stays open there.
        """
        if questions is None:
            raise _stays("a session that waits for its questions", "give them all: above(…, questions=[…])")
        own: dict[str, Any] = {"sensitivity": sensitivity, "tables": tables, "monotone": monotone}
        return self._proposed("sessions", threshold=threshold, positives=positives, questions=questions, **own)

    def bounds(self, table: str, column: str, *, cover: Number = "0.99") -> RemoteProposal:
        """Propose to find bounds for a column of numbers or dates that cover this share of its values. This is free."""
        return self._proposed("bounds", table=table, column=column, cover=cover)

    def auction(
        self, table: str | None = None, column: str | None = None, *, prices: Sequence[Number]
    ) -> RemoteProposal:
        """Propose to sell a digital good to whoever bid in a column, at one of these public prices. This is free."""
        return self._proposed("auctions", table=table, column=column, prices=prices)

    def online(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse an online session: it stays open in the process that holds the data."""
        raise _stays("an online session", "buy marginals once: questions to them are free")

    def running(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse running totals, which a server does not sell."""
        raise _stays("running totals", "ask for the counts of each day, week or month in SQL")

    def degrees(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse a histogram of degrees, which a server does not sell."""
        raise _stays("a histogram of degrees", "ask the owner to release it from the policy's file")

    def limits(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse a search for limits, which is for the owner who writes the policy."""
        raise _stays("a search for limits", "ask the owner to release it from the policy's file")

    def score(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to score a candidate table, which is not sent to a server."""
        raise _stays("the score of a candidate", "ask the owner to release it from the policy's file")

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

    def _proposed(self, kind: str, **spec: Any) -> RemoteProposal:
        found: RemoteProposal = RemoteProposal.at(self._place, kind, sent_spec(**spec))
        return found

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
        return RemoteCurator(Place(wire, _chosen(policy, _policies(wire)), progress))
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


def _stays(what: str, fix: str) -> Unsupported:
    return Unsupported("not-at-a-server", f"{what} is not there at a server", fix=fix)
