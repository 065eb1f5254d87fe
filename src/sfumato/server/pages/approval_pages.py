"""Pages of requests for approval: the list, and one request with the buttons of whoever looks at it.

Nothing on them depends on rows: the question, its price and the policy decide what is shown.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.curator.request_views import OUTSIDE_THE_PROMISE
from sfumato.errors import InvalidParameter, InvalidRequest, NotAllowed, NotThere, SfumatoError, outcome
from sfumato.ledger.approval_requests import RequestState, parse_last_day
from sfumato.mechanisms import bits
from sfumato.server.approvals import ShareTerms
from sfumato.server.pages.browser_sessions import SentForm, authenticate_visitor, authenticated_form
from sfumato.server.pages.page_contexts import RequestPage, RequestsPage
from sfumato.server.pages.rendering import page_path, refusal_message, render_page
from sfumato.server.people.users import Caller, Role
from sfumato.server.requests.calls import MAX_DIGITS, request_gateway, run_in_thread

_WAIT_SECONDS = 20.0


async def show_requests(request: Request) -> Response:
    """List the requests that the visitor may see."""
    caller = await authenticate_visitor(request)
    return await run_in_thread(_render_requests, request, caller)


async def file_request(request: Request) -> Response:
    """Grant a share, for owners; or mark an own answer for publication."""
    caller, form = await authenticated_form(request)
    policy, requests = request.path_params["policy"], request_gateway(request).requests
    try:
        if form.value("do") == "publish":
            lines = (_parse_number(form.value("line"), "line"),)
            filed = await run_in_thread(requests.publish, caller, policy, lines, form.value("purpose"))
        else:
            filed = await run_in_thread(requests.grant_share, caller, policy, _share_terms(form))
    except (NotAllowed, NotThere):
        raise
    except SfumatoError as error:
        return await run_in_thread(_render_requests, request, caller, error)
    return RedirectResponse(page_path(policy, "approvals", filed.number), 303)


def _share_terms(form: SentForm) -> ShareTerms:
    tables, kinds, measures = (
        tuple(name.strip() for name in form.value(field).split(",") if name.strip())
        for field in ("tables", "kinds", "measures")
    )
    days, until = form.value("days"), form.value("until")
    return ShareTerms(
        form.value("user"),
        form.value("epsilon"),
        _parse_number(days, "days") if days else None,
        tables,
        kinds,
        form.value("purpose"),
        measures,
        parse_last_day(until) if until else None,
    )


def _parse_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise InvalidParameter(name, text, "a whole number")
    return int(text)


def _render_requests(request: Request, caller: Caller, error: SfumatoError | None = None) -> Response:
    gateway, policy = request_gateway(request), request.path_params["policy"]
    owner = caller.role is Role.OWNER
    users = [each.name for each in gateway.users(caller) if not each.disabled] if owner else []
    page = RequestsPage(
        gateway.requests.list(caller, policy),
        caller.role is not Role.ANALYST,
        owner,
        tuple(name for name in users if name != caller.user),
        None if error is None else refusal_message(error),
    )
    status = 200 if error is None else outcome(error).http_status
    return render_page(request, "approvals.html", page, title="Approval", caller=caller, policy=policy, status=status)


async def show_request(request: Request) -> Response:
    """Show one request."""
    caller = await authenticate_visitor(request)
    return await run_in_thread(_render_request, request, caller)


async def decide_request(request: Request) -> Response:
    """Approve, refuse, withdraw or release a request, depending on the button."""
    caller, form = await authenticated_form(request)
    policy, number = request.path_params["policy"], request.path_params["request"]
    try:
        if form.value("do") == "release":
            return await _release(request, caller, form)
        await run_in_thread(_apply_step, request, caller, form)
    except (NotAllowed, NotThere):
        raise
    except SfumatoError as error:
        return await run_in_thread(_render_request, request, caller, error)
    return RedirectResponse(page_path(policy, "approvals", number), 303)


def _apply_step(request: Request, caller: Caller, form: SentForm) -> None:
    requests, policy, number = (
        request_gateway(request).requests,
        request.path_params["policy"],
        request.path_params["request"],
    )
    steps = {"approve": requests.approve, "refuse": requests.refuse, "withdraw": requests.withdraw}
    step = steps.get(form.value("do"))
    if step is None:
        raise InvalidRequest(
            "the form does not say which button was pressed",
            place="the form",
            fix="reload the page, and press a button",
        )
    step(caller, policy, number, form.value("reason"))


async def _release(request: Request, caller: Caller, form: SentForm) -> Response:
    gateway, policy = request_gateway(request), request.path_params["policy"]
    key = form.value("request")
    flight = await run_in_thread(gateway.requests.release, caller, policy, request.path_params["request"], key)
    try:
        result = await asyncio.wait_for(gateway.wait(flight), _WAIT_SECONDS)
    except TimeoutError:
        return RedirectResponse(page_path(policy, "requests", key), 303)
    return RedirectResponse(page_path(policy, "answers", result.line), 303)


def _render_request(request: Request, caller: Caller, error: SfumatoError | None = None) -> Response:
    gateway, policy = request_gateway(request), request.path_params["policy"]
    view = gateway.requests.show(caller, policy, request.path_params["request"])
    own = view.requester == caller.user
    decides = caller.role is Role.OWNER and not own and view.is_open
    page = RequestPage(
        view,
        decides,
        decides and view.state == RequestState.FILED and caller.user not in view.approvers,
        own,
        f"page-{bits.random_bits(128):032x}",
        OUTSIDE_THE_PROMISE,
        None if error is None else refusal_message(error),
    )
    status = 200 if error is None else outcome(error).http_status
    title = f"Request {view.number}"
    return render_page(request, "approval.html", page, title=title, caller=caller, policy=policy, status=status)
