"""Proposals and requests for approval at a server, and a question builder whose steps the server applies.

All methods but ``release`` are free. Terms of a price have the names that the same proposal takes in a local curator;
the server refuses others. A builder step that cannot be applied is refused by the server when the question is complete,
with ``agg``.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sfumato.client.wire import Wire, decode, encode, encode_keyword_arguments
from sfumato.curator.frame_methods import QUESTION_HINTS, AggregateMethods, RowMethodAliases, SuggestsNames
from sfumato.curator.release_kinds import all_kinds
from sfumato.errors import InvalidParameter, Unsupported, WeakPrivacy, shorten
from sfumato.ledger.approval_requests import parse_last_day
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.aggregations import Aggregation, Histogram
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.renamed import RehearseAlias

if TYPE_CHECKING:
    from sfumato.curator.request_views import RequestView


_KEY_PATTERN = re.compile(r"[!-~]{1,200}")
_TESTED_TERMS = ("epsilon", "delta", "rho", "within", "mechanism")
"""The terms of a price by which the tested answer is found."""


@dataclass(frozen=True)
class PolicyConnection:
    """A policy at a server, with the connection to it."""

    wire: Wire = field(repr=False)
    policy: str
    progress: Callable[[str], None] | None = None


@dataclass(frozen=True, repr=False)
class RemoteProposal(RehearseAlias):
    """A release that a server has parsed and not yet made."""

    _policy_connection: PolicyConnection = field(repr=False)
    kind: str
    spec: Mapping[str, Any]
    _details: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def propose(cls, policy_connection: PolicyConnection, kind: str, spec: Mapping[str, Any]) -> Any:
        """Propose a release; the server refuses what cannot be asked. A listing is returned at once."""
        reply = decode(policy_connection.wire.call_free(policy_connection.policy, kind, "propose", spec, {}))
        return cls(policy_connection, kind, spec, reply) if isinstance(reply, Mapping) else reply

    @property
    def text(self) -> str:
        """The question as the server's ledger writes it; empty for kinds without a text."""
        return str(self._details["text"])

    @property
    def columns(self) -> Any:
        """The columns of the answer, by name and type. Free."""
        return self._details["columns"]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the answer may miss because it is not declared in the policy."""
        return tuple(self._details["warnings"])

    @property
    def free(self) -> bool:
        """Whether it is answered without a price."""
        return bool(self._details["free"])

    def explain(self, *arguments: Any, **price: Any) -> Any:
        """Explain the processing, the noise and the price. Free."""
        return self._call("explain", arguments, price)

    def error(self, *arguments: Any, **price: Any) -> Any:
        """Forecast the error of the answer. Free."""
        return self._call("error", arguments, price)

    def price(self, *arguments: Any, **terms: Any) -> float:
        """Return the least ε at which the error stays within this bound. Free."""
        return float(self._call("price", arguments, terms))

    def preview(self, *arguments: Any, **price: Any) -> Any:
        """Return an answer of the right shape with invented numbers, from the policy alone. Free."""
        return self._call("preview", arguments, price)

    def release(
        self,
        *arguments: Any,
        request_id: str | None = None,
        progress: Callable[[str], None] | None = None,
        **price: Any,
    ) -> Any:
        """Release the answer with its receipt. It is charged before the first row is read, and free if it was bought
        before.

        A ``request_id`` is charged once, however often it is used; without one a new id is created. ``progress`` is
        called with the phases: queued, charged, done.
        """
        body = self.release_body(*arguments, **price)
        key = new_request_id() if request_id is None else require_sendable_id(request_id)
        callback = self._policy_connection.progress if progress is None else progress
        answer = decode(self._policy_connection.wire.release(self._policy_connection.policy, body, key, callback))
        warn_if_weak(answer)
        return self._attach_server_methods(answer, body["price"])

    def _attach_server_methods(self, answer: Any, price: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Attach what an answer can do at its server."""
        return answer

    def release_body(self, *arguments: Any, **price: Any) -> dict[str, Any]:
        """Return the release at a price, as it is sent to a server."""
        return {"kind": self.kind, "spec": self.spec, "price": self._terms_by_name("release", arguments, price)}

    def _call(self, act: str, positional: tuple[Any, ...], price: Mapping[str, Any]) -> Any:
        address, terms = self._policy_connection, self._terms_by_name(act, positional, price)
        return decode(address.wire.call_free(address.policy, self.kind, act, self.spec, terms))

    def _terms_by_name(self, act: str, arguments: tuple[Any, ...], price: Mapping[str, Any]) -> dict[str, Any]:
        """Map positional arguments to their names, as the same proposal in a local curator has them."""
        kind = all_kinds().get(self.kind)
        names = ("within" if act == "price" else "epsilon", *(() if kind is None else kind.positional))
        if len(arguments) > len(names):
            raise TypeError(f"{act}() takes at most {len(names)} positional arguments, but {len(arguments)} were given")
        positional = dict(zip(names, arguments, strict=False))
        for name in positional.keys() & price.keys():
            raise TypeError(f"{act}() got multiple values for argument {name!r}")
        if "seconds" in price:
            rule = "left out: the server limits how long a query may take"
            raise InvalidParameter("seconds", price["seconds"], rule)
        return {name.removesuffix("_"): term for name, term in encode_keyword_arguments(**positional, **price).items()}

    def __repr__(self) -> str:
        server = self._policy_connection.wire.address.label
        return f"<Proposal of {self.kind} at {server}: .explain() is free, .release() spends>"


@dataclass(frozen=True, repr=False)
class RemoteTest(RemoteProposal):
    """A hypothesis test at a server."""

    def power(self, *arguments: Any, **assumed: Any) -> Any:
        """Return how often the test would find these assumed shares, means, counts or correlation. Free."""
        return self._call("power", arguments, assumed)


@dataclass(frozen=True, repr=False)
class RemoteQuestion(RemoteProposal, SuggestsNames):
    """One question to a server."""

    def _attach_server_methods(self, answer: Any, price: Mapping[str, Any]) -> Any:
        return answer.with_tests(partial(self._test, price)) if hasattr(answer, "with_tests") else answer

    def _test(self, price: Mapping[str, Any], test: str, **options: Any) -> Any:
        """Test the stored answer at the server; it is never charged."""
        if set(self.spec) != {"sql"}:
            rule = "the answer to a question in SQL without parameters or limits, because a server can test no other"
            fix = "write the values of parameters in the SQL, or use curator.test(…)"
            raise InvalidParameter("answer", self.text, rule, fix=fix)
        address, terms = self._policy_connection, {name: term for name, term in price.items() if name in _TESTED_TERMS}
        spec = encode_spec(test=test, question=self.spec["sql"], **options)
        return decode(address.wire.call_free(address.policy, "test", "stored", spec, terms))

    @property
    def default_delta(self) -> Any:
        """The δ that free calls assume where groups are found in the data; 0 if none is needed. Free."""
        return self.error(epsilon=1).assumed_delta

    def advise(self, *arguments: Any, **price: Any) -> Any:
        """Name the limit or bound that causes most of the error, and what a tighter one would gain. Free."""
        return self._call("advise", arguments, price)

    def plot(self, **options: Any) -> Any:
        """Plot the error of the answer against ε. Free."""
        return self._call("plot", (), options)

    def limit(
        self,
        *,
        rows: int | None = None,
        groups: int | None = None,
        rows_per_group: int | None = None,
        strategy: Any = None,
    ) -> Self:
        """Return the same question with tighter limits per unit: less noise, more bias."""
        strategy_name = getattr(strategy, "value", strategy)
        new_limits = encode_keyword_arguments(
            rows=rows, groups=groups, rows_per_group=rows_per_group, strategy=strategy_name
        )
        return self._repeat_proposal({**self.spec, "limit": [*self.spec.get("limit", ()), new_limits]})

    def clipped(self) -> Any:
        """Propose to count what limits and bounds cut from the answer. Free."""
        if not set(self.spec) <= {"sql", "limit"}:
            rule = "SQL without parameters, because a server does not accept them together with clipped()"
            fix = "write the values of the parameters in the SQL"
            raise InvalidParameter("question", self.text, rule, fix=fix)
        limits: dict[str, Any] = {}
        for given in self.spec.get("limit", ()):
            limits |= {name: value for name, value in given.items() if name != "strategy"}
        return RemoteProposal.propose(self._policy_connection, "clipped", {"question": self.spec["sql"], **limits})

    def _repeat_proposal(self, spec: Mapping[str, Any]) -> Self:
        address = self._policy_connection
        return replace(
            self, spec=spec, _details=decode(address.wire.call_free(address.policy, self.kind, "propose", spec, {}))
        )

    def __repr__(self) -> str:
        short_text = shorten(" ".join(self.text.split()), 100)
        return f"<Question {short_text}: .explain() .error() .price() .advise() .limit() are free, .release() spends>"


def question_sql(question: Any, name: str) -> str:
    """Return the SQL of a question in a workload; parameters and limits cannot be sent with it."""
    if isinstance(question, str):
        return question
    spec = question.spec if isinstance(question, RemoteQuestion) else {}
    if set(spec) != {"sql"}:
        rule = "SQL without parameters or limits, because a server accepts these only in a question asked alone"
        fix = "write the values of the parameters in the SQL and remove limits, or ask this question alone"
        raise InvalidParameter(f"questions {name}", question, rule, fix=fix)
    return str(spec["sql"])


def encode_spec(**fields: Any) -> dict[str, Any]:
    """Encode the given fields of a spec; questions are encoded as their SQL."""
    fields_with_sql = {
        name: question_sql(value, name) if isinstance(value, RemoteQuestion) else value
        for name, value in fields.items()
    }
    return {name: encode(value, name) for name, value in fields_with_sql.items() if value is not None}


def require_sendable_id(request_id: str) -> str:
    """Refuse an id that no header can hold."""
    if not isinstance(request_id, str) or not _KEY_PATTERN.fullmatch(request_id):
        fix = 'use letters, digits and hyphens, for example request_id="report-2026-07"'
        raise InvalidParameter("request_id", request_id, "a string of 1 to 200 visible ASCII characters", fix=fix)
    return request_id


def new_request_id() -> str:
    """Return a random request id."""
    from sfumato.mechanisms import bits

    return f"{bits.random_bits(128):032x}"


def warn_if_weak(answer: Any) -> None:
    """Warn about weak guarantees in the receipt, attributed to the caller's line outside this package."""
    receipt = getattr(answer, "receipt", None)
    if receipt is None or receipt.free:
        return
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sfumato."):
        frame, level = frame.f_back, level + 1
    for warning in receipt.weak:
        warnings.warn(warning, WeakPrivacy, stacklevel=level if frame is not None else 1)


AggregateArgument = Aggregation | str
KeyArgument = Histogram | str


@dataclass(frozen=True, repr=False)
class RemoteTable(RowMethodAliases["RemoteTableQuestion", "RemoteTable"]):
    """A view of a table's rows; each method returns a new view with one more step, and asks nothing."""

    _policy_connection: PolicyConnection = field(repr=False, compare=False)
    view: dict[str, Any]

    def where(self, condition: str) -> RemoteTable:
        """Keep the rows that meet a condition: ``where("year = 2024 AND age >= 18")``."""
        return self._add_step("where", positional=[condition])

    def derive(self, **expressions: str) -> RemoteTable:
        """Add columns, each an expression over one row: ``derive(band="age // 10")``."""
        return self._add_step("derive", keywords=expressions)

    def join(self, other: RemoteTable | str, on: Any = None) -> RemoteTable:
        """Join another table, or a view of one, where the named columns are equal or a condition holds."""
        return self._add_step("join", other=other, on=on)

    def left_join(self, other: RemoteTable | str, on: Any = None) -> RemoteTable:
        """Join as ``join`` does, and keep rows without a match."""
        return self._add_step("left_join", other=other, on=on)

    def union_all(self, other: RemoteTable) -> RemoteTable:
        """Append the rows of another view of the same units, with the columns that both have."""
        return self._add_step("union_all", other=other)

    def per_unit(self, *keys: str, **aggregates: AggregateArgument) -> RemoteTable:
        """Aggregate to one row per unit, or per unit and key: ``per_unit(visits=sf.count())``."""
        return self._add_step("per_unit", positional=keys, keywords=aggregates)

    def group_by(self, *keys: KeyArgument, **expressions: KeyArgument) -> RemoteGroups:
        """Group by columns, and by expressions under a name: ``group_by("region", band="age // 10")``."""
        return RemoteGroups(self._add_step("group_by", positional=keys, keywords=expressions))

    def agg(self, **aggregates: AggregateArgument) -> RemoteTableQuestion:
        """Aggregate all rows together: ``agg(n=sf.count(), cost=sf.mean("cost"))``."""
        return self._add_step("agg", keywords=aggregates).propose_question()

    def regress(
        self,
        formula: str | None = None,
        *,
        target: str | None = None,
        on: Sequence[str] | None = None,
        rows: int | None = None,
        robust: bool = False,
    ) -> Any:
        """Propose a linear regression over these rows: ``regress("hours ~ age + sex")`` (``Curator.regress``). Free."""
        return self._propose_kind("regress", formula=formula, target=target, on=on, rows=rows, robust=robust)

    def logistic(
        self,
        formula: str | None = None,
        *,
        target: str | None = None,
        on: Sequence[str] | None = None,
        event: str | None = None,
        rows: int | None = None,
    ) -> Any:
        """Propose a logistic regression over these rows: ``logistic("died ~ age")`` (``Curator.logistic``). Free."""
        return self._propose_kind("logistic", formula=formula, target=target, on=on, event=event, rows=rows)

    def components(self, columns: Sequence[str], *, rows: int | None = None) -> Any:
        """Propose principal components: ``components(["age", "cost"])`` (``Curator.components``). Free."""
        return self._propose_kind("components", columns=columns, rows=rows)

    def survival(
        self, time: str, event: str, by: str | None = None, *, event_is: str | None = None, every: Any = None
    ) -> Any:
        """Propose survival curves of these rows: ``survival("months", "died", "arm")`` (``Curator.survival``). Free."""
        return self._propose_kind("survival", time=time, event=event, by=by, event_is=event_is, every=every)

    def _propose_kind(self, kind: str, **fields: Any) -> RemoteProposal:
        """Propose a release of this kind from the view's rows; a table without steps is sent by its name."""
        table = self.view if self.view["steps"] or "alias" in self.view else self.view["table"]
        return RemoteProposal.propose(self._policy_connection, kind, {"table": table, **encode_spec(**fields)})

    def describe(self) -> Any:
        """List the columns with what the policy declares, and a priced question about each. Free."""
        if self.view["steps"]:
            rule = "a server can describe only a whole table, without further steps such as where(…)"
            raise Unsupported("described-view", rule, fix='describe the table itself: table("visits").describe()')
        spec = {"sql": f"SUMMARIZE {quoted(self.view['table'])}"}
        return RemoteQuestion.propose(self._policy_connection, "questions", spec)

    def propose_question(self) -> RemoteTableQuestion:
        """Propose the question that the steps describe."""
        question: RemoteTableQuestion = RemoteTableQuestion.propose(
            self._policy_connection, "questions", {"view": self.view}
        )
        return question

    def _add_step(self, step: str, **parts: Any) -> RemoteTable:
        return replace(self, view={**self.view, "steps": [*self.view["steps"], _encode_step(step, **parts)]})

    def __repr__(self) -> str:
        steps = ", ".join(step["step"] for step in self.view["steps"])
        return f"<Table {self.view['table']}{f': {steps}' if steps else ''}>"


@dataclass(frozen=True, repr=False)
class RemoteGroups(AggregateMethods["RemoteTableQuestion"]):
    """Grouped rows: ``agg`` completes the question."""

    _view: RemoteTable

    def agg(self, **aggregates: AggregateArgument) -> RemoteTableQuestion:
        """Aggregate every group, with aggregations or SQL over aggregates."""
        return self._view.agg(**aggregates)

    def __repr__(self) -> str:
        return repr(self._view)


@dataclass(frozen=True, repr=False)
class RemoteTableQuestion(RemoteQuestion):
    """A question built in Python. Further steps work on the noisy answer and are free."""

    _hints = QUESTION_HINTS

    def having(self, condition: str) -> RemoteTableQuestion:
        """Keep the groups whose noisy numbers meet a condition: ``having("n > 100")``."""
        return self._add_step("having", positional=[condition])

    def order_by(self, *columns: str) -> RemoteTableQuestion:
        """Sort the groups: ``order_by("n DESC", "region")``."""
        return self._add_step("order_by", positional=columns)

    def head(self, rows: int = 5, *, skip: int = 0) -> RemoteTableQuestion:
        """Keep the first ``rows`` groups after skipping ``skip``."""
        return self._add_step("head", positional=[rows], keywords={"skip": skip})

    def select(self, *columns: str, **expressions: str) -> RemoteTableQuestion:
        """Choose the columns of the answer, and compute more: ``select("region", share="100.0 * late / n")``."""
        return self._add_step("select", positional=columns, keywords=expressions)

    def _add_step(self, step: str, **parts: Any) -> RemoteTableQuestion:
        view = self.spec["view"]
        return self._repeat_proposal(
            {**self.spec, "view": {**view, "steps": [*view["steps"], _encode_step(step, **parts)]}}
        )


def _encode_step(
    step: str, *, positional: Any = (), keywords: Any = None, other: Any = None, on: Any = None
) -> dict[str, Any]:
    """Encode one step, without empty parts."""
    parts: dict[str, Any] = {
        "given": [_encode_part(argument, step) for argument in positional],
        "named": {name: _encode_part(argument, f"{step} {name}") for name, argument in (keywords or {}).items()},
        "other": other.view if isinstance(other, RemoteTable) else other,
        "on": None if on is None else encode(on, "on"),
    }
    return {"step": step, **{name: part for name, part in parts.items() if part}}


def _encode_part(part: Any, name: str) -> Any:
    """Encode a part of a question: SQL, a whole number, an aggregation or a histogram."""
    if isinstance(part, Aggregation):
        fields = {"name": part.name, "of": part.of, "where": part.where, "beside": part.beside, "at": part.at}
        return {
            "asks": "aggregate",
            **{key: entry for key, entry in {**fields, "k": part.k}.items() if entry is not None},
        }
    if isinstance(part, Histogram):
        return {"asks": "histogram", "of": part.of, "bins": part.bins}
    if isinstance(part, str) or (isinstance(part, int) and not isinstance(part, bool)):
        return part
    raise InvalidParameter(name, part, 'SQL, or a value such as sf.count() or sf.histogram("cost")')


class RemoteRequests:
    """The requests of one policy that the user of the token may see."""

    def __init__(self, policy_connection: PolicyConnection) -> None:
        self._policy_connection = policy_connection

    def file(self, proposal: Any, *arguments: Any, purpose: str, days: int | None = None, **price: Any) -> RequestView:
        """File a request for a release, with the arguments that ``proposal.release`` would take. Free.

        The same request that is still open is returned, not filed twice.
        """
        if not isinstance(proposal, RemoteProposal):
            rule = "a proposal made by this curator, such as curator.sql(…)"
            raise InvalidParameter("proposal", proposal, rule)
        body = {
            "release": proposal.release_body(*arguments, **price),
            **encode_keyword_arguments(purpose=purpose, days=days),
        }
        return self._send(body, repeatable=True)

    def list(self) -> tuple[RequestView, ...]:
        """List requests, newest first: analysts see their own, owners and auditors all."""
        address = self._policy_connection
        views: tuple[RequestView, ...] = decode(address.wire.get("policies", address.policy, "requests"))["requests"]
        return views

    def show(self, number: int) -> RequestView:
        """Return one request, with what is left after it and what it can reveal about one person."""
        address = self._policy_connection
        view: RequestView = decode(address.wire.get("policies", address.policy, "requests", str(number)))
        return view

    def approve(self, number: int, reason: str = "") -> RequestView:
        """Approve a request of somebody else. For owners."""
        return self._send({"reason": reason}, str(number), "approve")

    def refuse(self, number: int, reason: str) -> RequestView:
        """Refuse a request of somebody else, or take back an approval that was not yet used. For owners."""
        return self._send({"reason": reason}, str(number), "refuse")

    def withdraw(self, number: int, reason: str = "") -> RequestView:
        """Withdraw an own request."""
        return self._send({"reason": reason}, str(number), "withdraw")

    def release(self, number: int, *, request_id: str | None = None) -> Any:
        """Release what was approved, exactly as it was filed; it is charged before the first row is read."""
        key = new_request_id() if request_id is None else require_sendable_id(request_id)
        address = self._policy_connection
        path = ("policies", address.policy, "requests", str(number), "release")
        answer = decode(address.wire.send("POST", path, {}, request_id=key)["result"])
        warn_if_weak(answer)
        return answer

    def publish(self, lines: Sequence[int], *, purpose: str) -> RequestView:
        """Mark own answers for publication, by their ledger lines; an owner approves and signs a bundle of them."""
        address, body = self._policy_connection, encode_keyword_arguments(lines=lines, purpose=purpose)
        view: RequestView = decode(address.wire.send("POST", ("policies", address.policy, "reviews"), body))
        return view

    def grant(
        self,
        user: str,
        *,
        epsilon: Number,
        purpose: str,
        days: int | None = None,
        until: date | str | None = None,
        tables: Sequence[str] = (),
        kinds: Sequence[str] = (),
        measures: Sequence[str] = (),
    ) -> RequestView:
        """Approve releases of a user in advance: up to this ε in all, of these tables, kinds and measures. For owners.

        It is good for so many ``days``, or ``until`` the end of a day in UTC, such as "2027-06-30".
        ``measures=["count"]`` approves counts only; the others are "sum", "rank", "distinct" and "frequent".
        """
        address = self._policy_connection
        limits = {"tables": tables, "kinds": kinds, "measures": measures}
        last_day = None if until is None else parse_last_day(until).isoformat()
        body = encode_keyword_arguments(
            user=user, epsilon=epsilon, days=days, until=last_day, purpose=purpose, **limits
        )
        view: RequestView = decode(address.wire.send("POST", ("policies", address.policy, "grants"), body))
        return view

    def _send(self, body: dict[str, Any], *parts: str, repeatable: bool = False) -> RequestView:
        address = self._policy_connection
        path = ("policies", address.policy, "requests", *parts)
        view: RequestView = decode(address.wire.send("POST", path, body, repeatable=repeatable))
        return view

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.list())) or "no requests"
