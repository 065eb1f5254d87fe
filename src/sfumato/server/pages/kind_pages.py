"""One form for every kind of release that the page offers, made of its spec and the terms of its price.

What is bought is what was explained: the button that spends stands in a form of its own, with the values explained.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sfumato.curator.release_kinds import ReleaseKind, all_kinds, spec_fields
from sfumato.curator.spec_types import field_form
from sfumato.errors import NotAllowed, NotSignedIn, NotThere, SfumatoError, Unanswered, outcome
from sfumato.mechanisms import bits
from sfumato.server.pages.browser_sessions import Form, sent_form, visitor
from sfumato.server.pages.page_contexts import FormField, KindPage, Step
from sfumato.server.pages.released_pages import buy_sent
from sfumato.server.pages.rendering import refusal_of, shown
from sfumato.server.pages.standing_bars import first
from sfumato.server.people.caller import Caller
from sfumato.server.people.known_people import Role
from sfumato.server.requests import proposals
from sfumato.server.requests.calls import counter_of, in_thread

_ELSEWHERE = (NotAllowed, NotSignedIn, NotThere, Unanswered)
_ASKED_TERMS = ("epsilon", "delta", "confidence", "mechanism", "joint", "counting", "values_epsilon")
"""Terms that the form asks for."""


def page_kinds() -> dict[str, ReleaseKind]:
    """Return the kinds that have a form."""
    return {name: kind for name, kind in all_kinds().items() if not {"rest", "page"} & kind.skins.keys()}


async def show_kind(request: Request) -> Response:
    """Show an empty form."""
    caller, kind = await visitor(request), _kind(request)
    return await in_thread(_page, request, caller, kind, Form({}))


async def ask_kind(request: Request) -> Response:
    """Explain what was filled in, or buy it: by whichever button sent the form."""
    caller, form = await sent_form(request)
    kind = _kind(request)
    if form.one("do") != "buy":
        return await in_thread(_page, request, caller, kind, form)
    sent = json.dumps({"kind": kind.name, **_body(kind, form)}).encode()
    try:
        return await buy_sent(request, caller, request.path_params["policy"], sent, form.one("request"))
    except _ELSEWHERE:
        raise
    except SfumatoError as refused:
        return await in_thread(_page, request, caller, kind, form, refused)


def _kind(request: Request) -> ReleaseKind:
    found = page_kinds().get(request.path_params["kind"])
    if found is None:
        raise NotThere("this kind of release")
    return found


def _page(
    request: Request, caller: Caller, kind: ReleaseKind, form: Form, refused: SfumatoError | None = None
) -> Response:
    caller.require("asking", Role.OWNER, Role.ANALYST)
    counter, policy = counter_of(request), request.path_params["policy"]
    explained: Any = None
    if form.fields and refused is None:
        try:
            sent = json.dumps({"act": "explain", **_body(kind, form)}).encode()
            _, spec, price = proposals.read_asked(kind.name, sent)
            explained = counter.free(caller, policy, kind.name, "explain", spec, price)
        except _ELSEWHERE:
            raise
        except SfumatoError as refusal:
            refused = refusal
    page = KindPage(
        kind.name,
        kind.summary,
        _fields(kind, form),
        first(counter.budget(caller, policy)).ordinary,
        f"page-{bits.integer(128):032x}",
        () if explained is None else tuple(Step(each.name, each.what, each.effect) for each in explained.operators),
        "" if explained is None else explained.price,
        None if refused is None else refusal_of(refused),
    )
    status = 200 if refused is None else outcome(refused).http_status
    return shown(request, "kind.html", page, title=kind.summary, caller=caller, policy=policy, status=status)


def _fields(kind: ReleaseKind, form: Form) -> tuple[FormField, ...]:
    """List what the form asks for, with what was filled in."""
    given = [(each.name, each.annotation, each.required, each.default, each.help) for each in spec_fields(kind.spec)]
    terms = [(each.name, each.annotation, False, None, each.help) for each in kind.terms if each.name in _ASKED_TERMS]
    listed = []
    for name, annotation, required, default, text in [*given, *terms]:
        how = field_form(annotation)
        typed = form.text(name) if name in form.fields else _written(default) if not form.fields else ""
        listed.append(FormField(name, how.name, text, required, typed, how.choices))
    return tuple(listed)


def _written(default: Any) -> str:
    return "" if default in (None, False) else "\n".join(default) if isinstance(default, tuple) else str(default)


def _body(kind: ReleaseKind, form: Form) -> dict[str, Any]:
    """Write what was filled in as a caller sends it; what is empty is left out."""
    fields = {each.name: each.annotation for each in spec_fields(kind.spec)}
    terms = {each.name: each.annotation for each in kind.terms if each.name in _ASKED_TERMS}
    parts = {
        part: {name: _sent(annotation, form.text(name)) for name, annotation in listed.items() if form.one(name)}
        for part, listed in (("spec", fields), ("price", terms))
    }
    return dict(parts)


def _sent(annotation: Any, typed: str) -> Any:
    how, plain = field_form(annotation).name, typed.strip()
    if how == "list":
        return [line.strip() for line in plain.splitlines() if line.strip()]
    if how == "flag":
        return plain == "yes"
    return int(plain) if how == "count" and plain.isascii() and plain.isdecimal() else plain
