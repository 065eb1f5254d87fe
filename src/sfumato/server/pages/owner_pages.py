"""Pages for owners and auditors, and of requests for approval: users, tokens, acts of owners, the ledger.

Nothing on them depends on rows: the question, its price and the policy decide what is shown.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.curator.request_views import OUTSIDE_THE_PROMISE
from sfumato.errors import InvalidParameter, InvalidRequest, NotAllowed, NotThere, SfumatoError, outcome
from sfumato.ledger.approval_requests import RequestState, parse_last_day
from sfumato.mechanisms import bits
from sfumato.privacy import codec
from sfumato.privacy.numbers import format_exact
from sfumato.server.approvals import ShareTerms
from sfumato.server.gateway import Gateway
from sfumato.server.pages.page_contexts import (
    ActRow,
    LedgerPage,
    PeoplePage,
    PersonRow,
    RequestPage,
    RequestsPage,
    TokenRow,
)
from sfumato.server.pages.rendering import (
    SentForm,
    authenticate_visitor,
    authenticated_form,
    page_path,
    refusal_message,
    render_page,
    server_origin,
)
from sfumato.server.people.people_file import LINK_MINUTES
from sfumato.server.people.users import Caller, Role, Token
from sfumato.server.requests.calls import JSON, MAX_DIGITS, query_integer, request_gateway, run_in_thread
from sfumato.server.rest.routes_owner import export_response

_PAGE_ACTS, _MOST = 50, 1000
_NO_SECRET = ("", "")


async def show_people(request: Request) -> Response:
    """List users and tokens to owners; owners and auditors also see the acts of owners."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    return await run_in_thread(_render_people, request, caller, policy)


async def change_people(request: Request) -> Response:
    """Add, disable or enable users, and create or revoke tokens and login links; for owners."""
    caller, form = await authenticated_form(request)
    policy = request.path_params["policy"]
    try:
        secret = await run_in_thread(_apply_change, request, caller, form)
    except NotAllowed:
        raise
    except SfumatoError as error:
        return await run_in_thread(_render_people, request, caller, policy, error=error)
    if secret is _NO_SECRET:
        return RedirectResponse(page_path(policy, "people"), 303)
    return await run_in_thread(_render_people, request, caller, policy, secret=secret)


def _apply_change(request: Request, caller: Caller, form: SentForm) -> tuple[str, str]:
    """Apply the change that a button names; return a newly created secret with its description, to be shown once."""
    gateway, action, user = request_gateway(request), form.value("do"), form.value("user")
    if action == "token":
        return _create_token(gateway, caller, form)
    if action == "link":
        login_link = f"{server_origin(request)}/login/{gateway.new_login_link(caller, user)}"
        return login_link, f"Login link for {user}. It works once, within {LINK_MINUTES} minutes"
    if action == "add":
        gateway.add_user(caller, user, form.value("role"))
    elif action in ("disable", "enable"):
        gateway.disable_user(caller, user, disabled=action == "disable")
    elif action == "revoke":
        gateway.revoke_token(caller, _parse_number(form.value("number"), "number"))
    else:
        raise InvalidRequest(
            "the form does not say which button was pressed",
            place="the form",
            fix="reload the page, and press a button",
        )
    return _NO_SECRET


def _create_token(gateway: Gateway, caller: Caller, form: SentForm) -> tuple[str, str]:
    days, limit, user = form.value("days"), form.value("most"), form.value("user")
    lifetime = timedelta(days=_parse_number(days, "days")) if days else None
    _, secret = gateway.new_token(caller, user, label=form.value("label"), expires=lifetime, most=limit or None)
    return secret, f"Token for {user}"


def _parse_number(text_value: str, name: str) -> int:
    if not (text_value.isascii() and text_value.isdecimal() and len(text_value) <= 6):
        raise InvalidParameter(name, text_value, "a whole number of at most 6 digits, such as 30")
    return int(text_value)


def _render_people(
    request: Request,
    caller: Caller,
    policy: str,
    *,
    secret: tuple[str, str] = _NO_SECRET,
    error: SfumatoError | None = None,
) -> Response:
    gateway, owner = request_gateway(request), caller.role is Role.OWNER
    gateway.policy(caller, policy)
    before = query_integer(request, "before", 10**15, 10**15, 1)
    acts = gateway.latest_acts(caller, before, _PAGE_ACTS + 1)
    page = PeoplePage(
        tuple(_person_rows(gateway, caller)) if owner else None,
        tuple(map(_token_row, gateway.tokens(caller))) if owner else (),
        tuple(ActRow(act.number, _format_time(act.time), act.by, act.act, act.about) for act in acts[:_PAGE_ACTS]),
        acts[_PAGE_ACTS - 1].number if len(acts) > _PAGE_ACTS else None,
        tuple(Role),
        *secret,
        None if error is None else refusal_message(error),
    )
    status = 200 if error is None else outcome(error).http_status
    return render_page(request, "people.html", page, title="People", caller=caller, policy=policy, status=status)


def _person_rows(gateway: Gateway, caller: Caller) -> list[PersonRow]:
    return [
        PersonRow(user.name, user.role.value, _format_time(user.made), user.disabled, user.name == caller.user)
        for user in gateway.users(caller)
    ]


def _token_row(token: Token) -> TokenRow:
    return TokenRow(
        token.number,
        token.user,
        token.label,
        _format_time(token.made),
        "never" if token.expires is None else _format_time(token.expires),
        "" if token.most is None else format_exact(token.most),
        "" if token.most is None and token.spent == Fraction(0) else format_exact(token.spent),
        token.end_reason(datetime.now(UTC)),
    )


async def show_ledger(request: Request) -> Response:
    """Show the ledger's head, and the verification if it was requested."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    return await run_in_thread(_render_ledger, request, caller, policy)


def _render_ledger(request: Request, caller: Caller, policy: str) -> Response:
    gateway = request_gateway(request)
    gateway.policy(caller, policy)
    anchor = gateway.anchor(caller)
    verification = gateway.verify(caller) if request.query_params.get("verify") else None
    page = LedgerPage(
        "" if verification is None else str(verification),
        verification is None or verification.holds,
        codec.dumps(anchor),
        anchor.hash,
        anchor.number,
    )
    return render_page(request, "ledger.html", page, title="Ledger", caller=caller, policy=policy)


async def download_ledger(request: Request) -> Response:
    """Download every ledger line as a file."""
    caller, form = await authenticate_visitor(request), request.path_params["form"]
    response = await export_response(request, caller, form)
    response.headers["Content-Disposition"] = f"attachment; filename=ledger.{form}"
    return response


async def download_anchor(request: Request) -> Response:
    """Download the ledger's anchor, to be kept elsewhere."""
    caller = await authenticate_visitor(request)
    anchor = await run_in_thread(request_gateway(request).anchor, caller)
    return Response(codec.dumps(anchor), 200, {"Content-Disposition": "attachment; filename=anchor.json"}, JSON)


def _format_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC")


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
            lines = (_parse_request_number(form.value("line"), "line"),)
            filed = await run_in_thread(requests.request_publication, caller, policy, lines, form.value("purpose"))
        else:
            filed = await run_in_thread(requests.preapprove_releases, caller, policy, _share_terms(form))
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
        _parse_request_number(days, "days") if days else None,
        tables,
        kinds,
        form.value("purpose"),
        measures,
        parse_last_day(until) if until else None,
    )


def _parse_request_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise InvalidParameter(name, text, f"a whole number of at most {MAX_DIGITS} digits, such as 30")
    return int(text)


def _render_requests(request: Request, caller: Caller, error: SfumatoError | None = None) -> Response:
    gateway, policy = request_gateway(request), request.path_params["policy"]
    owner = caller.role is Role.OWNER
    users = [user.name for user in gateway.users(caller) if not user.disabled] if owner else []
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
            return await _buy_approved_release(request, caller, form)
        await run_in_thread(_take_request_step, request, caller, form)
    except (NotAllowed, NotThere):
        raise
    except SfumatoError as error:
        return await run_in_thread(_render_request, request, caller, error)
    return RedirectResponse(page_path(policy, "approvals", number), 303)


def _take_request_step(request: Request, caller: Caller, form: SentForm) -> None:
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


async def _buy_approved_release(request: Request, caller: Caller, form: SentForm) -> Response:
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
    is_requester = view.requester == caller.user
    decides = caller.role is Role.OWNER and not is_requester and view.is_open
    page = RequestPage(
        view,
        decides,
        decides and view.state == RequestState.FILED and caller.user not in view.approvers,
        is_requester,
        f"page-{bits.random_bits(128):032x}",
        OUTSIDE_THE_PROMISE,
        None if error is None else refusal_message(error),
    )
    status = 200 if error is None else outcome(error).http_status
    title = f"Request {view.number}"
    return render_page(request, "approval.html", page, title=title, caller=caller, policy=policy, status=status)
