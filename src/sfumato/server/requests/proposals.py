"""Kinds of proposals over HTTP: their request types, and the curator's proposal that each makes.

Parsing is strict and reads no data. What cannot be proposed is refused by the curator, before anything is charged.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from threading import Lock
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints

import msgspec

from sfumato.caching import cached_property
from sfumato.curator import Curator
from sfumato.curator.listings import Listing
from sfumato.curator.proposals.questions import Question
from sfumato.curator.release_kinds import ReleaseKind, all_kinds
from sfumato.error_facts import quote_parameter, shorten
from sfumato.errors import InvalidParameter, InvalidRequest, Unsupported
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.server.releases.running_releases import ProposalFacts
from sfumato.server.requests import responses, specs
from sfumato.server.requests.responses import FreeReply
from sfumato.server.requests.specs import (
    ACTS,
    Act,
    StrictStruct,
    ViewSpec,
    apply_steps,
    parse_parameters,
    price_struct,
    rows_of_view,
    spec_struct,
)


@dataclass(frozen=True)
class ProposalKind:
    """A kind of proposal: its request types, and the function that makes the curator's proposal."""

    name: str
    spec: type[StrictStruct]
    price: type[StrictStruct]
    proposal_class: type[Any]
    """The class of the proposal; the signatures of its methods define the terms of the price."""
    make: Callable[[Curator, Any], Any]
    answer_class: type[Any]
    """The class of the answer, which decodes its own JSON."""
    other_classes: tuple[type[Any], ...] = ()
    """Other classes that the same spec may produce, such as listings."""

    @cached_property
    def free_body(self) -> type[StrictStruct]:
        """The type of the body of a free call."""
        fields = [("act", Act), ("spec", self.spec), ("price", self.price, self.price())]
        return self._define_body_struct("Asked", fields)

    @cached_property
    def release_body(self) -> type[StrictStruct]:
        """The type of the body of a release."""
        return self._define_body_struct(
            "Bought", [("spec", self.spec), ("price", self.price)], tag_field="kind", tag=self.name
        )

    @cached_property
    def free_response(self) -> Any:
        """The type of the response of a free call: by act, what the proposal's methods return."""
        return_types = {act: returned for act in ACTS if (returned := self._return_type(act)) is not None}
        results = {"propose": reduce(or_, self.other_classes, ProposalFacts), **return_types}
        return reduce(
            or_, (responses.with_types(FreeReply, Literal[act], returned) for act, returned in results.items())
        )

    @cached_property
    def answer_type(self) -> Any:
        """The type of the answer."""
        return self._return_type("release")

    def _return_type(self, act: str) -> Any:
        """Return the union of the return types of a method over all proposal classes of this kind; None if none has
        it.
        """
        annotations = (
            _annotated_return(proposal_class, _METHODS.get(act, act))
            for proposal_class in (self.proposal_class, *self.other_classes)
        )
        return_types = [
            self.answer_class if isinstance(annotation, TypeVar) else annotation
            for annotation in annotations
            if annotation is not None
        ]
        return reduce(or_, return_types) if return_types else None

    def _define_body_struct(self, prefix: str, fields: list[Any], **options: Any) -> type[StrictStruct]:
        name = prefix + self.spec.__name__.removesuffix("Spec")
        options |= {"frozen": True, "forbid_unknown_fields": True, "kw_only": True}
        return cast("type[StrictStruct]", msgspec.defstruct(name, fields, bases=(StrictStruct,), **options))

    def terms(self, method: str, price: StrictStruct) -> dict[str, Any]:
        """Return the given terms of a price by parameter name, refusing those that ``method`` does not take."""
        given_terms = _non_null_fields(price)
        if method in ("propose", "columns"):
            return {}
        if not hasattr(self.proposal_class, _METHODS.get(method, method)):
            raise _not_offered_refusal(self.name, method)
        parameters = inspect.signature(getattr(self.proposal_class, _METHODS.get(method, method))).parameters
        for name, value in given_terms.items():
            if name not in parameters:
                rule = f"left out, because the call {method!r} for the kind {self.name!r} does not take it"
                short_name = name.removesuffix("_")
                raise InvalidParameter(short_name, value, rule, fix=f"leave out {quote_parameter(short_name)}")
        for parameter in list(parameters.values())[1:]:
            if parameter.default is parameter.empty and parameter.name not in given_terms:
                raise InvalidParameter(
                    parameter.name,
                    None,
                    f"given, because the call {method!r} for the kind {self.name!r} needs it",
                    fix=f"add {parameter.name} to price in the body",
                )
        return given_terms


_METHODS = {"stored": "release"}
"""The methods of acts that have another name."""


def _annotated_return(cls: type[Any], name: str) -> Any:
    """Return the annotated type of a method's or property's result, or of a field; None if the class has none."""
    attribute = inspect.getattr_static(cls, name, cls)
    method = attribute.fget if isinstance(attribute, property) else attribute
    annotation = method.__annotations__.get(name if method is cls else "return")
    namespace = vars(sys.modules[method.__module__])
    return (
        None
        if annotation is None
        else get_type_hints(SimpleNamespace(__annotations__={name: annotation}), namespace)[name]
    )


def _not_offered_refusal(kind: str, method: str) -> Unsupported:
    """Return the refusal of a free call that this kind does not have."""
    if method == "error":
        rule = f"the error of {kind} cannot be forecast: it depends on the data"
        return Unsupported(
            "no-forecast", rule, fix="call price or preview instead; the released answer reports its quality"
        )
    offered = "hypothesis tests" if method == "power" else "questions"
    rule = f"{method!r} is available only for {offered}, not for {kind!r}"
    return Unsupported(f"no-{method}", rule, fix="call explain or price instead")


def _make_question(curator: Curator, spec: specs.QuestionSpec) -> Any:
    question = _parse_question(curator, spec)
    limits = spec.limit if isinstance(spec.limit, list) else [] if spec.limit is None else [spec.limit]
    for limit in limits:
        question = question.limit(**_non_null_fields(limit))
    return question


def _parse_question(curator: Curator, spec: specs.QuestionSpec) -> Any:
    """Parse a question in SQL, or build it from a view and its steps."""
    if (spec.sql is None) is (spec.view is None) or (spec.view is not None and spec.parameters is not None):
        rule = "a question must have either sql (with optional parameters) or view"
        raise InvalidRequest(rule, place="the body, spec", fix=_FIX)
    if spec.view is not None:
        question = apply_steps(curator, spec.view)
        if not hasattr(question, "release"):
            raise InvalidRequest(
                "the view has no aggregate, such as a count, so there is nothing to release",
                place="the body, spec.view.steps",
                fix='add a step "agg" at the end of steps',
            )
        return question
    return curator.sql(spec.sql or "", parse_parameters(spec.parameters))


def _proposal_kind(kind: ReleaseKind) -> ProposalKind:
    """Build the HTTP form of a registered release kind."""

    def make(curator: Curator, spec: StrictStruct) -> Any:
        fields = _non_null_fields(spec)
        views = {
            name: rows_of_view(curator, view_spec)
            for name, view_spec in fields.items()
            if isinstance(view_spec, ViewSpec)
        }
        return curator.propose(kind.spec(**fields | views))

    return ProposalKind(
        kind.name, spec_struct(kind), price_struct(kind), kind.proposal_class(), make, kind.answer_class()
    )


KINDS: Mapping[str, ProposalKind] = {
    "questions": ProposalKind(
        "questions", specs.QuestionSpec, specs.QuestionPrice, Question, _make_question, Answer, (Listing,)
    ),
    **{name: _proposal_kind(kind) for name, kind in all_kinds().items() if "rest" not in kind.refusal_by_skin},
}
"""Everything that can be released over HTTP: questions, and every registered kind that does not exclude REST."""
RELEASE_BODY: Any = reduce(or_, (kind.release_body for kind in KINDS.values()))
"""The type of the body of a release, of any kind."""
ANSWER: Any = reduce(or_, (kind.answer_type for kind in KINDS.values()))
"""The type of an answer, of any kind."""
FILED_REQUEST: Any = msgspec.defstruct(
    "FiledRequest",
    [
        ("release", RELEASE_BODY),
        ("purpose", Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]),
        ("days", Annotated[int, msgspec.Meta(ge=1, le=3650)] | None, None),
    ],
    bases=(StrictStruct,),
    namespace={"__doc__": "A release for which approval is requested, what it is for, and for how many days."},
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
)
"""The type of the body that files a request."""
_BY_TYPE = {kind.release_body: kind for kind in KINDS.values()}


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_DECODERS_LOCK = Lock()


def _cached_decoder(decoded_type: Any) -> msgspec.json.Decoder[Any]:
    """Return the cached decoder of a type. msgspec inspects a type on first use, and crashed the process when two
    threads did so at once.
    """
    with _DECODERS_LOCK:
        if decoded_type not in _DECODERS:
            _DECODERS[decoded_type] = msgspec.json.Decoder(decoded_type)
        return _DECODERS[decoded_type]


for _kind in (RELEASE_BODY, FILED_REQUEST, *(kind.free_body for kind in KINDS.values())):
    _cached_decoder(_kind)  # before there are threads, which share the decoders


def decode_body(kind: Any, body: bytes) -> Any:
    """Decode a request body as a value of this type; the refusal names the field that is wrong.

    A field that is given twice is refused: which of the two counts would be a matter of the parser.
    """
    try:
        decoded = _cached_decoder(kind).decode(body)
        json.loads(body, object_pairs_hook=_require_distinct_names, parse_int=str, parse_float=str)
        return decoded
    except msgspec.ValidationError as error:
        raise _invalid_body_refusal(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest("the body must be JSON in UTF-8", place="the body", fix=_FIX) from None


def decode_act_spec_and_price(kind: str, body: bytes) -> tuple[Act, dict[str, Any], dict[str, Any]]:
    """Decode the body of a free call into act, spec and price."""
    body_value = decode_body(KINDS[kind].free_body, body)
    act: Act = "preview" if body_value.act == "rehearse" else body_value.act
    return act, msgspec.to_builtins(body_value.spec), KINDS[kind].terms(act, body_value.price)


def decode_kind_spec_and_price(body: bytes) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Decode the body of a release into kind, spec and price."""
    return _kind_spec_and_price(decode_body(RELEASE_BODY, body))


def decode_filing(body: bytes) -> tuple[tuple[str, dict[str, Any], dict[str, Any]], str, int | None]:
    """Decode the body that files a request into its release, its purpose and its days."""
    filed = decode_body(FILED_REQUEST, body)
    return _kind_spec_and_price(filed.release), filed.purpose, filed.days


def _kind_spec_and_price(release: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    kind = _BY_TYPE[type(release)]
    return kind.name, msgspec.to_builtins(release.spec), kind.terms("release", release.price)


def propose(curator: Curator, kind: str, spec: Mapping[str, Any]) -> Any:
    """Make the proposal of a kind from a spec. Free, and reads no data."""
    proposal_kind = KINDS[kind]
    try:
        parsed_spec = msgspec.convert(spec, proposal_kind.spec)
    except msgspec.ValidationError as error:
        raise _invalid_body_refusal(error) from None
    return proposal_kind.make(curator, parsed_spec)


def _require_distinct_names(fields: list[tuple[str, Any]]) -> None:
    if len(dict(fields)) < len(fields):
        name, _ = Counter(name for name, _ in fields).most_common(1)[0]
        raise InvalidRequest(
            f"the field {shorten(name)} is given twice", place="the body", fix="give every field at most once"
        )


_FIX = "see the schema at GET /v1/openapi.json"
_MAX_RULE = 200


def _invalid_body_refusal(error: msgspec.ValidationError) -> InvalidRequest:
    rule, _, path = str(error).partition(" - at ")
    place = ", ".join(["the body", *([path.strip("`").removeprefix("$.")] if path else [])])
    shortened = rule if len(rule) <= _MAX_RULE else rule[: _MAX_RULE - 1] + "…"
    return InvalidRequest(f"the body does not match the schema: {shortened}", place=place, fix=_FIX)


def _non_null_fields(struct: StrictStruct) -> dict[str, Any]:
    """Return the fields that were given, by name; the others get their defaults from the curator."""
    return {name: value for name in struct.__struct_fields__ if (value := getattr(struct, name)) is not None}
