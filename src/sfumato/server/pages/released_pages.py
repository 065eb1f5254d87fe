"""Answer pages with downloads, and a form for every release kind that has a page.

The forms are generated from the fields of a kind's spec and the terms of its price. The button that spends sits in a
form of its own with the values that were explained, so what is bought is exactly what was explained.
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
from sfumato.privacy.numbers import format_percent
from sfumato.release.answers.receipts import Receipt
from sfumato.server.approvals import RequestedRelease
from sfumato.server.pages.page_contexts import AnswerPage, AskForm, ExplainedStep, FormField, KindPage
from sfumato.server.pages.rendering import (
    SentForm,
    authenticate_visitor,
    authenticated_form,
    page_path,
    refusal_message,
    render_page,
    standing_or_fresh_period,
    text_table,
)
from sfumato.server.people.users import Caller, Role
from sfumato.server.releases.flights import FlightResult
from sfumato.server.requests import calls, proposals
from sfumato.server.requests.calls import request_gateway, run_in_thread

_WAIT_SECONDS = 20
"""Seconds that a browser waits for an answer before it is shown the phase instead."""
_SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""Content security policy of a picture opened by itself: inline styles let it fit the window."""


async def show_answer(request: Request) -> Response:
    """Show an answer again at its permanent address, for free."""
    caller, policy, line = (
        await authenticate_visitor(request),
        request.path_params["policy"],
        request.path_params["line"],
    )
    return await run_in_thread(_render_answer, request, caller, policy, line)


async def download_answer(request: Request) -> Response:
    """Return an answer as a download or a picture."""
    caller, policy, line = (
        await authenticate_visitor(request),
        request.path_params["policy"],
        request.path_params["line"],
    )
    if request.path_params["form"] not in calls.NAMES:
        raise NotThere("this file")
    form = calls.negotiate_encoding(request.path_params["form"], ())
    result = await run_in_thread(request_gateway(request).answer_on_line, caller, policy, line)
    response = await run_in_thread(calls.encoded_response, result.answer, form, f"{policy}-{line}")
    return with_svg_policy(response) if form.name == "svg" else response


def with_svg_policy(answer: Response) -> Response:
    """Set the content security policy of an SVG response."""
    answer.headers["Content-Security-Policy"] = _SVG_POLICY
    return answer


async def release_and_redirect(request: Request, caller: Caller, policy: str, body: bytes, key: str) -> Response:
    """Release a request body once per key, then redirect to the answer, or to its progress if that takes long."""
    gateway = request_gateway(request)
    kind, spec, price = proposals.decode_kind_spec_and_price(body)
    flight = await run_in_thread(gateway.start, caller, policy, kind, spec, price, key)
    try:
        result = await asyncio.wait_for(gateway.wait(flight), _WAIT_SECONDS)
    except TimeoutError:
        return RedirectResponse(page_path(policy, "requests", key), 303)
    if not result.line:
        return await run_in_thread(uncharged_page, request, caller, policy, result)
    return RedirectResponse(page_path(policy, "answers", result.line), 303)


async def file_and_redirect(request: Request, caller: Caller, policy: str, body: bytes, purpose: str) -> Response:
    """File a request for approval of what a release body describes, and show it."""
    release = RequestedRelease(*proposals.decode_kind_spec_and_price(body))
    filed = await run_in_thread(request_gateway(request).requests.file, caller, policy, release, purpose)
    return RedirectResponse(page_path(policy, "approvals", filed.number), 303)


def uncharged_page(request: Request, caller: Caller, policy: str, result: FlightResult) -> Response:
    """Show an answer without a ledger line: nothing was bought, the policy itself answers."""
    return render_page(
        request,
        "answer.html",
        _answer_page(request, caller, policy, result),
        title="Answer",
        caller=caller,
        policy=policy,
    )


def _render_answer(request: Request, caller: Caller, policy: str, line: int) -> Response:
    result = request_gateway(request).answer_on_line(caller, policy, line)
    page = _answer_page(request, caller, policy, result)
    return render_page(request, "answer.html", page, title=f"Answer {line}", caller=caller, policy=policy)


def _answer_page(request: Request, caller: Caller, policy: str, result: FlightResult) -> AnswerPage:
    answer, receipt = result.answer, getattr(result.answer, "receipt", None)
    has_rows = hasattr(answer, "cells") and hasattr(answer, "columns")
    question = receipt.question if receipt is not None else str(getattr(answer, "question", ""))
    forms = [form.name for form in calls.FORMS if any(hasattr(answer, needed) for needed in form.any_method_of)]
    picture = result.line > 0 and _has_picture(answer)
    return AnswerPage(
        result.line,
        question,
        receipt.guarantee if receipt is not None else "",
        result.free,
        bool(getattr(answer, "is_preview", False)),
        format_percent(receipt.confidence) if receipt is not None and receipt.confidence else "",
        text_table(answer) if has_rows else None,
        "" if has_rows else str(answer),
        _answer_notes(answer),
        picture,
        () if receipt is None else tuple(_receipt_rows(receipt)),
        tuple(form_name for form_name in forms if form_name != "svg" or picture) if result.line else (),
        standing_or_fresh_period(request_gateway(request).budget(caller, policy)).ordinary,
        AskForm(sql=question) if has_rows and caller.role is not Role.AUDITOR else None,
    )


def _answer_notes(answer: Any) -> tuple[str, ...]:
    """Collect what can move the numbers, warnings, and what would lower the error."""
    caveats = answer.caveat_lines() if hasattr(answer, "caveat_lines") else ()
    advice = getattr(answer, "advice", "")
    return (*caveats, *getattr(answer, "warnings", ()), *([advice] if advice else []))


def _has_picture(answer: Any) -> bool:
    try:
        return bool(hasattr(answer, "plot") and answer.plot().svg)
    except SfumatoError:
        return False


def _receipt_rows(receipt: Receipt) -> list[tuple[str, str]]:
    """Split a receipt's lines into labels and texts."""
    rows: list[tuple[str, str]] = []
    for line in str(replace(receipt, free=False)).splitlines():
        name, _, words = line.partition("  ")
        if line.startswith(" ") and rows:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
        else:
            rows.append((name, re.sub(r"\s+", " ", words).strip()))
    return [*rows, *([("hash", receipt.hash)] if receipt.line else [])]


_PAGE_ERRORS = (NotAllowed, NotSignedIn, NotThere, Unanswered)
_FORM_TERMS = ("epsilon", "delta", "confidence", "mechanism", "joint", "counting", "values_epsilon")
"""The terms of a price that the form offers."""


def page_kinds() -> dict[str, ReleaseKind]:
    """Return the release kinds that have a form."""
    return {name: kind for name, kind in all_kinds().items() if not {"rest", "page"} & kind.refusal_by_skin.keys()}


async def show_kind(request: Request) -> Response:
    """Show an empty form."""
    caller, kind = await authenticate_visitor(request), _requested_kind(request)
    return await run_in_thread(_render_kind, request, caller, kind, SentForm({}))


async def ask_kind(request: Request) -> Response:
    """Explain what was filled in, or buy it, depending on the button."""
    caller, form = await authenticated_form(request)
    kind = _requested_kind(request)
    action, policy = form.value("do"), request.path_params["policy"]
    if action not in ("buy", "file"):
        return await run_in_thread(_render_kind, request, caller, kind, form)
    body = json.dumps({"kind": kind.name, **_request_body(kind, form)}).encode()
    try:
        if action == "file":
            return await file_and_redirect(request, caller, policy, body, form.value("purpose"))
        return await release_and_redirect(request, caller, policy, body, form.value("request"))
    except _PAGE_ERRORS:
        raise
    except SfumatoError as error:
        return await run_in_thread(_render_kind, request, caller, kind, form, error)


def _requested_kind(request: Request) -> ReleaseKind:
    kind = page_kinds().get(request.path_params["kind"])
    if kind is None:
        raise NotThere(f"the release kind {request.path_params['kind']!r}")
    return kind


def _render_kind(
    request: Request, caller: Caller, kind: ReleaseKind, form: SentForm, error: SfumatoError | None = None
) -> Response:
    caller.require("asking", Role.OWNER, Role.ANALYST)
    gateway, policy = request_gateway(request), request.path_params["policy"]
    explanation, approval = None, ""
    if form.fields and error is None:
        try:
            body = json.dumps({"act": "explain", **_request_body(kind, form)}).encode()
            _, spec, price = proposals.decode_act_spec_and_price(kind.name, body)
            explanation = gateway.call_free(caller, policy, kind.name, "explain", spec, price)
            release = proposals.decode_kind_spec_and_price(
                json.dumps({"kind": kind.name, **_request_body(kind, form)}).encode()
            )
            approval = gateway.requests.approval_reason(caller, policy, RequestedRelease(*release))
        except _PAGE_ERRORS:
            raise
        except SfumatoError as refusal:
            error = refusal
    page = KindPage(
        kind.name,
        kind.summary,
        _form_fields(kind, form),
        standing_or_fresh_period(gateway.budget(caller, policy)).ordinary,
        f"page-{bits.random_bits(128):032x}",
        ()
        if explanation is None
        else tuple(ExplainedStep(operator.name, operator.what, operator.effect) for operator in explanation.operators),
        "" if explanation is None else explanation.price,
        None if error is None else refusal_message(error),
        approval,
    )
    status = 200 if error is None else outcome(error).http_status
    return render_page(request, "kind.html", page, title=kind.summary, caller=caller, policy=policy, status=status)


def _form_fields(kind: ReleaseKind, form: SentForm) -> tuple[FormField, ...]:
    """List the form's fields with their current values."""
    spec_rows = [
        (field.name, field.annotation, field.required, field.default, field.help) for field in spec_fields(kind.spec)
    ]
    term_rows = [
        (term.name, term.annotation, False, None, term.help) for term in kind.terms if term.name in _FORM_TERMS
    ]
    form_fields = []
    for name, annotation, required, default, text in [*spec_rows, *term_rows]:
        field_type = field_form(annotation)
        value = form.text(name) if name in form.fields else _default_text(default) if not form.fields else ""
        form_fields.append(FormField(name, field_type.name, text, required, value, field_type.choices))
    return tuple(form_fields)


def _default_text(default: Any) -> str:
    return "" if default in (None, False) else "\n".join(default) if isinstance(default, tuple) else str(default)


def _request_body(kind: ReleaseKind, form: SentForm) -> dict[str, Any]:
    """Encode the filled-in fields as a request body; empty ones are left out."""
    fields = {field.name: field.annotation for field in spec_fields(kind.spec)}
    terms = {term.name: term.annotation for term in kind.terms if term.name in _FORM_TERMS}
    parts = {
        part: {
            name: _parse_field(annotation, form.text(name))
            for name, annotation in annotations.items()
            if form.value(name)
        }
        for part, annotations in (("spec", fields), ("price", terms))
    }
    return dict(parts)


def _parse_field(annotation: Any, typed: str) -> Any:
    field_type, stripped = field_form(annotation).name, typed.strip()
    if field_type == "list":
        return [line.strip() for line in stripped.splitlines() if line.strip()]
    if field_type == "flag":
        return stripped == "yes"
    return int(stripped) if field_type == "count" and stripped.isascii() and stripped.isdecimal() else stripped
