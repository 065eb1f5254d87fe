"""A proposal of a curator is made of a kind and what a caller sent: the same one that Python would make.

Reading is strict and free of data: what a caller sends is decided by its text alone, and what cannot be proposed is
refused below, before anything is charged.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from threading import Lock
from types import SimpleNamespace
from typing import Any, Literal, TypeVar, cast, get_type_hints

import msgspec

from sfumato.caching import cached_property
from sfumato.curator import Curator
from sfumato.curator.listings import Listing
from sfumato.curator.proposals.questions import Question
from sfumato.curator.release_kinds import ReleaseKind, all_kinds
from sfumato.errors import InvalidParameter, InvalidRequest, Unsupported
from sfumato.release.answers.answer import Answer
from sfumato.server.releases.known_proposals import Proposed
from sfumato.server.requests import specs, told_values
from sfumato.server.requests.specs import ACTS, Act, StrictStruct, parameters_of, price_struct, spec_struct, viewed
from sfumato.server.requests.told_values import FreeReply


@dataclass(frozen=True)
class ProposalKind:
    """A kind of proposal says what is sent for it, what is paid for it, and which call of a curator makes it."""

    name: str
    spec: type[StrictStruct]
    price: type[StrictStruct]
    offered: type[Any]
    """The class of the proposal, whose methods say what each takes of a price."""
    make: Callable[[Curator, Any], Any]
    released: type[Any]
    """The class of what is bought, which reads its own JSON text."""
    also: tuple[type[Any], ...] = ()
    """Classes of other proposals that may be made of the same: what they give is given, too."""

    @cached_property
    def asked(self) -> type[StrictStruct]:
        """Give the type of what is sent to ask something free."""
        fields = [("act", Act), ("spec", self.spec), ("price", self.price, self.price())]
        return self._defined("Asked", fields)

    @cached_property
    def bought(self) -> type[StrictStruct]:
        """Give the type of what is sent to buy."""
        return self._defined("Bought", [("spec", self.spec), ("price", self.price)], tag_field="kind", tag=self.name)

    @cached_property
    def told(self) -> Any:
        """Give the type of what is told for nothing: of every act, what the methods say that they give."""
        offered = {act: given for act in ACTS if (given := self._given(act)) is not None}
        told = {"propose": reduce(or_, self.also, Proposed), **offered}
        return reduce(or_, (told_values.of(FreeReply, Literal[act], given) for act, given in told.items()))

    @cached_property
    def bought_as(self) -> Any:
        """Give the type of what is released."""
        return self._given("release")

    def _given(self, act: str) -> Any:
        """Find what the methods of all proposals of this kind say that they give; None where none has it."""
        said = (_returned(each, act) for each in (self.offered, *self.also))
        found = [self.released if isinstance(each, TypeVar) else each for each in said if each is not None]
        return reduce(or_, found) if found else None

    def _defined(self, prefix: str, fields: list[Any], **more: Any) -> type[StrictStruct]:
        name = prefix + self.spec.__name__.removesuffix("Spec")
        more |= {"frozen": True, "forbid_unknown_fields": True, "kw_only": True}
        return cast("type[StrictStruct]", msgspec.defstruct(name, fields, bases=(StrictStruct,), **more))

    def terms(self, method: str, price: StrictStruct) -> dict[str, Any]:
        """Give what was said of a price, by the names that a method of the proposal takes; others are refused."""
        said = _said(price)
        if method in ("propose", "columns"):
            return {}
        if not hasattr(self.offered, method):
            raise _not_offered(self.name, method)
        taken = inspect.signature(getattr(self.offered, method)).parameters
        for name, value in said.items():
            if name not in taken:
                rule = f"left out: {method} does not take it for {self.name}"
                raise InvalidParameter(name.removesuffix("_"), value, rule)
        for each in list(taken.values())[1:]:
            if each.default is each.empty and each.name not in said:
                raise InvalidParameter(each.name, None, f"given: {method} needs it for {self.name}")
        return said


def _returned(cls: type[Any], name: str) -> Any:
    """Give the type that a method or a property says it gives, or that of a field; None where there is none of them."""
    found = inspect.getattr_static(cls, name, cls)
    method = found.fget if isinstance(found, property) else found
    said = method.__annotations__.get(name if method is cls else "return")
    home = vars(sys.modules[method.__module__])
    return None if said is None else get_type_hints(SimpleNamespace(__annotations__={name: said}), home)[name]


def _not_offered(kind: str, method: str) -> Unsupported:
    """Say that a kind of proposal has no such method; nothing of its own is told for free then."""
    if method == "error":
        rule = f"nothing says for free how wrong what is released of {kind} is: it depends on the data"
        return Unsupported("no-forecast", rule, fix="ask for its price or a rehearsal; what is bought says its quality")
    rule = f"{method} is told of questions alone, and this is one of the {kind}"
    return Unsupported(f"no-{method}", rule, fix="ask for its explanation, or for a price")


def _question(curator: Curator, spec: specs.QuestionSpec) -> Any:
    asked = _asked(curator, spec)
    limits = spec.limit if isinstance(spec.limit, list) else [] if spec.limit is None else [spec.limit]
    for each in limits:
        asked = asked.limit(**_said(each))
    return asked


def _asked(curator: Curator, spec: specs.QuestionSpec) -> Any:
    """Read the question that is written in SQL, or put together the one that is given in steps."""
    if (spec.sql is None) is (spec.view is None) or (spec.view is not None and spec.parameters is not None):
        rule = "a question is SQL, with parameters if it has some, or a view of a table with steps"
        raise InvalidRequest(rule, place="the body, spec", fix=_FIX)
    if spec.view is not None:
        found = viewed(curator, spec.view)
        if not hasattr(found, "release"):
            raise InvalidRequest(
                "a view is no question until something is asked of it",
                place="the body, spec.view.steps",
                fix='end with a step "agg"',
            )
        return found
    return curator.sql(spec.sql or "", parameters_of(spec.parameters))


def _of_kind(kind: ReleaseKind) -> ProposalKind:
    """Offer a kind of release over the wire, by what it says of itself."""

    def make(curator: Curator, spec: StrictStruct) -> Any:
        return curator.propose(kind.spec(**_said(spec)))

    return ProposalKind(
        kind.name, spec_struct(kind), price_struct(kind), kind.proposal_class(), make, kind.answer_class()
    )


KINDS: Mapping[str, ProposalKind] = {
    "questions": ProposalKind(
        "questions", specs.QuestionSpec, specs.QuestionPrice, Question, _question, Answer, (Listing,)
    ),
    **{name: _of_kind(kind) for name, kind in all_kinds().items() if "rest" not in kind.skins},
}
"""Everything that can be bought over the wire: questions, and every kind of release that is not refused here."""
BOUGHT: Any = reduce(or_, (each.bought for each in KINDS.values()))
"""The type of whatever is sent to buy."""
RELEASED: Any = reduce(or_, (each.bought_as for each in KINDS.values()))
"""The type of whatever is bought."""
_BY_TYPE = {each.bought: each for each in KINDS.values()}


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_MAKING = Lock()


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Make what reads values of a type, once. A type is looked at when it is first met, and where two threads did so
    at the same time, the process was lost.
    """
    with _MAKING:
        if kind not in _DECODERS:
            _DECODERS[kind] = msgspec.json.Decoder(kind)
        return _DECODERS[kind]


for _kind in (BOUGHT, *(each.asked for each in KINDS.values())):
    _decoder(_kind)  # before there are threads: what is sent is read in several of them


def read(kind: Any, body: bytes) -> Any:
    """Read what was sent as a value of this type; what has another form is refused at its place."""
    try:
        return _decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        raise _refused(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest("what is sent is JSON text in UTF-8", place="the body", fix=_FIX) from None


def read_asked(kind: str, body: bytes) -> tuple[Act, dict[str, Any], dict[str, Any]]:
    """Read what is asked for nothing: what is to be told, of what, at which price."""
    found = read(KINDS[kind].asked, body)
    return found.act, msgspec.to_builtins(found.spec), KINDS[kind].terms(found.act, found.price)


def read_bought(body: bytes) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Read what is bought: its kind, what it is, and the price."""
    found = read(BOUGHT, body)
    kind = _BY_TYPE[type(found)]
    return kind.name, msgspec.to_builtins(found.spec), kind.terms("release", found.price)


def propose(curator: Curator, kind: str, spec: Mapping[str, Any]) -> Any:
    """Make the proposal of a kind from what was sent. This is free, and reads no data."""
    known = KINDS[kind]
    try:
        given = msgspec.convert(spec, known.spec)
    except msgspec.ValidationError as error:
        raise _refused(error) from None
    return known.make(curator, given)


_FIX = "send what GET /v1/openapi.json describes"
_LONGEST = 200


def _refused(error: msgspec.ValidationError) -> InvalidRequest:
    rule, _, where = str(error).partition(" - at ")
    place = ", ".join(["the body", *([where.strip("`").removeprefix("$.")] if where else [])])
    said = rule if len(rule) <= _LONGEST else rule[: _LONGEST - 1] + "…"
    return InvalidRequest(f"what is sent has the form that is described: {said}", place=place, fix=_FIX)


def _said(given: StrictStruct) -> dict[str, Any]:
    """Give what was sent by name, without what was left out: those have their defaults below."""
    return {name: value for name in given.__struct_fields__ if (value := getattr(given, name)) is not None}
