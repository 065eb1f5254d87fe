"""A proposal at a server is what one in this process is: all but ``release`` is free, and the server understands it.

Prices are given by the names that the same proposal takes in this process; the server refuses any other.

Questions to a server can be put together in Python: the steps are sent, and the server takes them.

A step that cannot be taken is refused by the server when the question is whole, with ``agg``, and is named there.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sfumato.client.wire import Wire
from sfumato.client.wire_values import named, read, sent
from sfumato.curator.release_kinds import all_kinds
from sfumato.errors import InvalidParameter, WeakPrivacy, shorten
from sfumato.plan.sql.aggregations import Aggregation
from sfumato.plan.sql.histograms import Histogram

_KEY = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True)
class PolicyAddress:
    """This is where proposals are made: a policy at a server."""

    wire: Wire = field(repr=False)
    policy: str
    progress: Callable[[str], None] | None = None


@dataclass(frozen=True, repr=False)
class RemoteProposal:
    """This is something that a server can release, understood by it and not yet asked."""

    _place: PolicyAddress = field(repr=False)
    kind: str
    spec: Mapping[str, Any]
    _about: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def at(cls, place: PolicyAddress, kind: str, spec: Mapping[str, Any]) -> Any:
        """Propose it: the server refuses here what cannot be asked. A listing is there at once."""
        about = read(place.wire.tell(place.policy, kind, "propose", spec, {}))
        return cls(place, kind, spec, about) if isinstance(about, Mapping) else about

    @property
    def text(self) -> str:
        """Give the question as the server writes it down; empty where it has no text of its own."""
        return str(self._about["text"])

    @property
    def columns(self) -> Any:
        """List the columns of the answer by name and type. This is free."""
        return self._about["columns"]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Say what the answer may miss because nobody declared it."""
        return tuple(self._about["warnings"])

    @property
    def free(self) -> bool:
        """Tell whether it is answered without a price."""
        return bool(self._about["free"])

    def explain(self, *given: Any, **price: Any) -> Any:
        """Say what happens to whose data, with what noise, at what price. This is free."""
        return self._told("explain", given, price)

    def error(self, *given: Any, **price: Any) -> Any:
        """Say how wrong the answer may be. This is free."""
        return self._told("error", given, price)

    def price(self, *given: Any, **more: Any) -> float:
        """Find the least ε at which the error is no larger than this. Free."""
        return float(self._told("price", given, more))

    def rehearse(self, *given: Any, **price: Any) -> Any:
        """Give an answer of the right shape with invented numbers, from the policy alone. Free."""
        return self._told("rehearse", given, price)

    def release(
        self,
        *given: Any,
        request_id: str | None = None,
        progress: Callable[[str], None] | None = None,
        **price: Any,
    ) -> Any:
        """Give the answer with its receipt: it is charged before the first row is read, and free if it was bought
        before. It is charged once under a ``request_id``, however often it is asked for; without one it gets its own.

        ``progress`` is told the phases: queued, charged, done.
        """
        bought = {"kind": self.kind, "spec": self.spec, "price": self._terms("release", given, price)}
        key = _new_id() if request_id is None else _checked(request_id)
        told = self._place.progress if progress is None else progress
        answer = read(self._place.wire.release(self._place.policy, bought, key, told))
        _warn(answer)
        return answer

    def _told(self, act: str, given: tuple[Any, ...], price: Mapping[str, Any]) -> Any:
        here, terms = self._place, self._terms(act, given, price)
        return read(here.wire.tell(here.policy, self.kind, act, self.spec, terms))

    def _terms(self, act: str, given: tuple[Any, ...], price: Mapping[str, Any]) -> dict[str, Any]:
        """Give every value its name, as the same proposal in this process has them."""
        kind = all_kinds().get(self.kind)
        names = ("within" if act == "price" else "epsilon", *(() if kind is None else kind.positional))
        if len(given) > len(names):
            raise TypeError(f"{act}() takes at most {len(names)} values without a name, and {len(given)} were given")
        placed = dict(zip(names, given, strict=False))
        for name in placed.keys() & price.keys():
            raise TypeError(f"{act}() got two values for {name}")
        if "seconds" in price:
            rule = "left out: how long reading may take is for the server to say"
            raise InvalidParameter("seconds", price["seconds"], rule)
        return {name.removesuffix("_"): each for name, each in named(**placed, **price).items()}

    def __repr__(self) -> str:
        return f"<Proposal of {self.kind} at {self._place.wire.address.words}: .explain() is free, .release() asks>"


@dataclass(frozen=True, repr=False)
class RemoteQuestion(RemoteProposal):
    """This is one question to a server."""

    def advise(self, **price: Any) -> Any:
        """Say which limit or bound makes most of the error, and what a tighter one would give. Free."""
        return self._told("advise", (), price)

    def plot(self, **how: Any) -> Any:
        """Draw how wrong the answer will be against ε. Free."""
        return self._told("plot", (), how)

    def limit(
        self,
        *,
        rows: int | None = None,
        groups: int | None = None,
        rows_per_group: int | None = None,
        strategy: Any = None,
    ) -> Self:
        """Ask the same question with tighter limits for one unit: less noise, more bias."""
        chosen = getattr(strategy, "value", strategy)
        tighter = named(rows=rows, groups=groups, rows_per_group=rows_per_group, strategy=chosen)
        return self._again({**self.spec, "limit": [*self.spec.get("limit", ()), tighter]})

    def _again(self, spec: Mapping[str, Any]) -> Self:
        here = self._place
        return replace(self, spec=spec, _about=read(here.wire.tell(here.policy, self.kind, "propose", spec, {})))

    def __repr__(self) -> str:
        shown = shorten(" ".join(self.text.split()), 100)
        return f"<Question {shown}: .explain() .error() .price() .advise() .limit() are free, .release() asks>"


def written_question(given: Any, name: str) -> str:
    """Give the text of a question that is sent as one of several; only SQL itself travels so."""
    if isinstance(given, str):
        return given
    spec = given.spec if isinstance(given, RemoteQuestion) else {}
    if set(spec) != {"sql"}:
        rule = "questions in SQL, without parameters or limits: those are asked alone at a server"
        raise InvalidParameter(f"questions {name}", given, rule)
    return str(spec["sql"])


def sent_spec(**given: Any) -> dict[str, Any]:
    """Write what is proposed, by name, without what was left out; a question by its SQL."""
    plain = {
        name: written_question(value, name) if isinstance(value, RemoteQuestion) else value
        for name, value in given.items()
    }
    return {name: sent(value, name) for name, value in plain.items() if value is not None}


def _checked(request_id: str) -> str:
    if not isinstance(request_id, str) or not _KEY.fullmatch(request_id):
        raise InvalidParameter("request_id", request_id, "a text of 1 to 200 visible ASCII characters")
    return request_id


def _new_id() -> str:
    from sfumato.mechanisms import bits

    return f"{bits.integer(128):032x}"


def _warn(answer: Any) -> None:
    """Say aloud that what was bought promises little, at the line outside this package that asked."""
    receipt = getattr(answer, "receipt", None)
    if receipt is None or receipt.free:
        return
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sfumato."):
        frame, level = frame.f_back, level + 1
    for words in receipt.weak:
        warnings.warn(words, WeakPrivacy, stacklevel=level if frame is not None else 1)


Asked = Aggregation | str
Wanted = Histogram | str


@dataclass(frozen=True, repr=False)
class RemoteTable:
    """This is a view of one table's rows: each method gives a new view with one step more, and asks nothing."""

    _place: PolicyAddress = field(repr=False, compare=False)
    view: dict[str, Any]

    def where(self, condition: str) -> RemoteTable:
        """Keep the rows that meet a condition: ``where("year = 2024 AND age >= 18")``."""
        return self._then("where", given=[condition])

    def derive(self, **expressions: str) -> RemoteTable:
        """Add columns, each an expression over one row: ``derive(band="age // 10")``."""
        return self._then("derive", named=expressions)

    def join(self, other: RemoteTable | str, on: Any = None) -> RemoteTable:
        """Join another table, or a view of one, where the named columns are equal or a condition holds."""
        return self._then("join", other=other, on=on)

    def left_join(self, other: RemoteTable | str, on: Any = None) -> RemoteTable:
        """Join as ``join`` does, and keep rows without a match."""
        return self._then("left_join", other=other, on=on)

    def union_all(self, other: RemoteTable) -> RemoteTable:
        """Put the rows of another view about the same units below these, with the columns that both have."""
        return self._then("union_all", other=other)

    def per_unit(self, *keys: str, **asked: Asked) -> RemoteTable:
        """Make one row of each unit, or of each unit and key: ``per_unit(visits=sf.count())``."""
        return self._then("per_unit", given=keys, named=asked)

    def group_by(self, *keys: Wanted, **expressions: Wanted) -> RemoteGroups:
        """Group by columns, and by expressions under a name: ``group_by("region", band="age // 10")``."""
        return RemoteGroups(self._then("group_by", given=keys, named=expressions))

    def agg(self, **asked: Asked) -> RemoteTableQuestion:
        """Ask this of all rows together: ``agg(n=sf.count(), cost=sf.mean("cost"))``."""
        return self._then("agg", named=asked).asked()

    def asked(self) -> RemoteTableQuestion:
        """Let the server understand the question that the steps make."""
        found: RemoteTableQuestion = RemoteTableQuestion.at(self._place, "questions", {"view": self.view})
        return found

    def _then(self, step: str, **more: Any) -> RemoteTable:
        return replace(self, view={**self.view, "steps": [*self.view["steps"], _step(step, **more)]})

    def __repr__(self) -> str:
        steps = ", ".join(each["step"] for each in self.view["steps"])
        return f"<Table {self.view['table']}{f': {steps}' if steps else ''}>"


@dataclass(frozen=True, repr=False)
class RemoteGroups:
    """The rows of this view are grouped: ``agg`` says what to ask of every group."""

    _view: RemoteTable

    def agg(self, **asked: Asked) -> RemoteTableQuestion:
        """Ask this of every group: aggregations, or SQL over aggregates."""
        return self._view.agg(**asked)

    def __repr__(self) -> str:
        return repr(self._view)


@dataclass(frozen=True, repr=False)
class RemoteTableQuestion(RemoteQuestion):
    """This question was put together in Python: more may still be added, which works on noisy numbers and is free."""

    def having(self, condition: str) -> RemoteTableQuestion:
        """Keep the groups whose noisy numbers meet a condition: ``having("n > 100")``."""
        return self._then("having", given=[condition])

    def order_by(self, *columns: str) -> RemoteTableQuestion:
        """Sort the groups: ``order_by("n DESC", "region")``."""
        return self._then("order_by", given=columns)

    def head(self, rows: int, *, skip: int = 0) -> RemoteTableQuestion:
        """Keep the first so many groups, after so many that are skipped."""
        return self._then("head", given=[rows], named={"skip": skip})

    def select(self, *columns: str, **expressions: str) -> RemoteTableQuestion:
        """Choose the columns of the answer, and compute more: ``select("region", share="100.0 * late / n")``."""
        return self._then("select", given=columns, named=expressions)

    def _then(self, step: str, **more: Any) -> RemoteTableQuestion:
        view = self.spec["view"]
        return self._again({**self.spec, "view": {**view, "steps": [*view["steps"], _step(step, **more)]}})


def _step(step: str, *, given: Any = (), named: Any = None, other: Any = None, on: Any = None) -> dict[str, Any]:
    """Write one step, without what it does not have."""
    parts: dict[str, Any] = {
        "given": [_part(each, step) for each in given],
        "named": {name: _part(each, f"{step} {name}") for name, each in (named or {}).items()},
        "other": other.view if isinstance(other, RemoteTable) else other,
        "on": None if on is None else sent(on, "on"),
    }
    return {"step": step, **{name: each for name, each in parts.items() if each}}


def _part(given: Any, name: str) -> Any:
    """Write a part of a question: SQL, a whole number, or what Python says in its place."""
    if isinstance(given, Aggregation):
        own = {"name": given.name, "of": given.of, "where": given.where, "beside": given.beside, "at": given.at}
        return {"asks": "aggregate", **{key: each for key, each in {**own, "k": given.k}.items() if each is not None}}
    if isinstance(given, Histogram):
        return {"asks": "histogram", "of": given.of, "bins": given.bins}
    if isinstance(given, str) or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    raise InvalidParameter(name, given, 'SQL, or what sf.count() and sf.histogram("cost") give')
