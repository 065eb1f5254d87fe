"""Every bought answer has a page of its own, with everything a reader needs to judge it, and files to take.

One form for every kind of release that the page offers, made of its spec and the terms of its price.

What is bought is what was explained: the button that spends stands in a form of its own, with the values explained.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.curator.release_kinds import ReleaseKind, all_kinds, field_form, spec_fields
from sfumato.errors import NotAllowed, NotSignedIn, NotThere, SfumatoError, Unanswered, outcome
from sfumato.mechanisms import bits
from sfumato.privacy.numbers import percent
from sfumato.release.answers.receipts import Receipt
from sfumato.server.pages.browser_sessions import SentForm, sent_form, visitor
from sfumato.server.pages.page_contexts import AnswerPage, AskForm, FormField, KindPage, Step
from sfumato.server.pages.rendering import address, first, grid, refusal_of, shown
from sfumato.server.people.known_people import Caller, Role
from sfumato.server.releases.flights import FlightResult
from sfumato.server.requests import answer_forms, proposals
from sfumato.server.requests.calls import counter_of, in_thread

_PATIENCE = 20
"""Seconds that a browser waits for an answer before it is shown how far that is."""
_PICTURE_RULES = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""What a browser may do for a picture that is opened by itself: show it, as wide as the window is."""


async def show_answer(request: Request) -> Response:
    """Show an answer again: a permanent address, for nothing."""
    caller, policy, line = await visitor(request), request.path_params["policy"], request.path_params["line"]
    return await in_thread(_shown, request, caller, policy, line)


async def give_file(request: Request) -> Response:
    """Give an answer as a file, or as a picture."""
    caller, policy, line = await visitor(request), request.path_params["policy"], request.path_params["line"]
    if request.path_params["form"] not in answer_forms.NAMES:
        raise NotThere("this file")
    form = answer_forms.wanted(request.path_params["form"], ())
    found = await in_thread(counter_of(request).released, caller, policy, line)
    answer = await in_thread(answer_forms.shown, found.answer, form, f"{policy}-{line}")
    return as_picture(answer) if form.name == "svg" else answer


def as_picture(answer: Response) -> Response:
    """Let a picture fit the window in which it is opened."""
    answer.headers["Content-Security-Policy"] = _PICTURE_RULES
    return answer


async def buy_sent(request: Request, caller: Caller, policy: str, sent: bytes, key: str) -> Response:
    """Release what was sent, once for a key, and lead to its answer, or to how far it is."""
    counter = counter_of(request)
    kind, spec, price = proposals.read_bought(sent)
    flight = await in_thread(counter.start, caller, policy, kind, spec, price, key)
    try:
        found = await asyncio.wait_for(counter.wait(flight), _PATIENCE)
    except TimeoutError:
        return RedirectResponse(address(policy, "requests", key), 303)
    if not found.line:
        return await in_thread(unlisted_page, request, caller, policy, found)
    return RedirectResponse(address(policy, "answers", found.line), 303)


def unlisted_page(request: Request, caller: Caller, policy: str, found: FlightResult) -> Response:
    """Show what was not bought, and so has no line: what the policy itself tells."""
    return shown(
        request,
        "answer.html",
        _answer_page(request, caller, policy, found),
        title="Answer",
        caller=caller,
        policy=policy,
    )


def _shown(request: Request, caller: Caller, policy: str, line: int) -> Response:
    found = counter_of(request).released(caller, policy, line)
    page = _answer_page(request, caller, policy, found)
    return shown(request, "answer.html", page, title=f"Answer {line}", caller=caller, policy=policy)


def _answer_page(request: Request, caller: Caller, policy: str, found: FlightResult) -> AnswerPage:
    answer, receipt = found.answer, getattr(found.answer, "receipt", None)
    rows = hasattr(answer, "cells") and hasattr(answer, "columns")
    question = receipt.question if receipt is not None else str(getattr(answer, "question", ""))
    forms = [each.name for each in answer_forms.FORMS if any(hasattr(answer, needed) for needed in each.needs)]
    picture = found.line > 0 and _has_picture(answer)
    return AnswerPage(
        found.line,
        question,
        receipt.guarantee if receipt is not None else "",
        found.free,
        bool(getattr(answer, "rehearsed", False)),
        percent(receipt.confidence) if receipt is not None and receipt.confidence else "",
        grid(answer) if rows else None,
        "" if rows else str(answer),
        tuple(getattr(answer, "warnings", ())),
        picture,
        () if receipt is None else tuple(_paper(receipt)),
        tuple(each for each in forms if each != "svg" or picture) if found.line else (),
        first(counter_of(request).budget(caller, policy)).ordinary,
        AskForm(sql=question) if rows and caller.role is not Role.AUDITOR else None,
    )


def _has_picture(answer: Any) -> bool:
    try:
        return bool(hasattr(answer, "plot") and answer.plot().svg)
    except SfumatoError:
        return False


def _paper(receipt: Receipt) -> list[tuple[str, str]]:
    """Split the lines of a receipt into what each is about, and what it says of the purchase."""
    found: list[tuple[str, str]] = []
    for line in str(replace(receipt, free=False)).splitlines():
        name, _, words = line.partition("  ")
        if line.startswith(" ") and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            found.append((name, re.sub(r"\s+", " ", words).strip()))
    return [*found, *([("hash", receipt.hash)] if receipt.line else [])]


_ELSEWHERE = (NotAllowed, NotSignedIn, NotThere, Unanswered)
_ASKED_TERMS = ("epsilon", "delta", "confidence", "mechanism", "joint", "counting", "values_epsilon")
"""Terms that the form asks for."""


def page_kinds() -> dict[str, ReleaseKind]:
    """Return the kinds that have a form."""
    return {name: kind for name, kind in all_kinds().items() if not {"rest", "page"} & kind.skins.keys()}


async def show_kind(request: Request) -> Response:
    """Show an empty form."""
    caller, kind = await visitor(request), _kind(request)
    return await in_thread(_kind_page, request, caller, kind, SentForm({}))


async def ask_kind(request: Request) -> Response:
    """Explain what was filled in, or buy it: by whichever button sent the form."""
    caller, form = await sent_form(request)
    kind = _kind(request)
    if form.one("do") != "buy":
        return await in_thread(_kind_page, request, caller, kind, form)
    sent = json.dumps({"kind": kind.name, **_body(kind, form)}).encode()
    try:
        return await buy_sent(request, caller, request.path_params["policy"], sent, form.one("request"))
    except _ELSEWHERE:
        raise
    except SfumatoError as refused:
        return await in_thread(_kind_page, request, caller, kind, form, refused)


def _kind(request: Request) -> ReleaseKind:
    found = page_kinds().get(request.path_params["kind"])
    if found is None:
        raise NotThere("this kind of release")
    return found


def _kind_page(
    request: Request, caller: Caller, kind: ReleaseKind, form: SentForm, refused: SfumatoError | None = None
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


def _fields(kind: ReleaseKind, form: SentForm) -> tuple[FormField, ...]:
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


def _body(kind: ReleaseKind, form: SentForm) -> dict[str, Any]:
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
