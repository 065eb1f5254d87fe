"""Routes for owners and auditors: users, tokens, shares, amendments, pauses, and the ledger."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sfumato.ledger import Anchor
from sfumato.ledger.proofs.exporting import Record
from sfumato.privacy import codec
from sfumato.server.people.people_file import LINK_MINUTES
from sfumato.server.people.users import Caller, Token, User
from sfumato.server.requests.calls import (
    AUDITOR,
    CURSOR,
    JSON,
    MAX_PAGE_SIZE,
    OWNER,
    Parameter,
    RestOperation,
    authenticate,
    authorized_parsing,
    json_response,
    parse_body,
    query_integer,
    request_gateway,
    run_in_thread,
)
from sfumato.server.requests.responses import (
    Acts,
    AmendmentLine,
    CreatedToken,
    LedgerCheck,
    LoginLink,
    Overruns,
    PauseState,
    Shares,
    Tokens,
    Users,
)
from sfumato.server.requests.specs import Amendment, ChangedUser, NewLink, NewToken, NewUser, Pause


async def list_users(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(Users(await run_in_thread(request_gateway(request).users, caller)))


async def add_user(request: Request) -> Response:
    caller = await authenticate(request)
    body: NewUser = await parse_body(request, caller, NewUser)
    return json_response(await run_in_thread(request_gateway(request).add_user, caller, body.name, body.role), 201)


async def change_user(request: Request) -> Response:
    caller = await authenticate(request)
    body: ChangedUser = await parse_body(request, caller, ChangedUser)
    name = request.path_params["user"]
    return json_response(
        await run_in_thread(request_gateway(request).disable_user, caller, name, disabled=body.disabled)
    )


async def new_login_link(request: Request) -> Response:
    """Create a login link, such as for an owner whose session has ended."""
    caller = await authenticate(request)
    body: NewLink = await parse_body(request, caller, NewLink)
    secret = await run_in_thread(request_gateway(request).new_login_link, caller, body.user)
    return json_response(LoginLink(f"/login/{secret}", LINK_MINUTES), 201)


async def list_tokens(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(Tokens(await run_in_thread(request_gateway(request).tokens, caller)))


async def new_token(request: Request) -> Response:
    """Create a token; its secret text is in this response and never shown again."""
    caller = await authenticate(request)
    body: NewToken = await parse_body(request, caller, NewToken)
    lifetime = None if body.days is None else timedelta(days=body.days)
    create = request_gateway(request).new_token
    token, text = await run_in_thread(create, caller, body.user, label=body.label, expires=lifetime, most=body.most)
    return json_response(CreatedToken(token, text), 201)


async def revoke_token(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(
        await run_in_thread(request_gateway(request).revoke_token, caller, request.path_params["token"])
    )


async def show_shares(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(
        Shares(await run_in_thread(request_gateway(request).shares, caller, request.path_params["policy"]))
    )


async def amend(request: Request) -> Response:
    caller = await authenticate(request)
    body: Amendment = await parse_body(request, caller, Amendment)
    gateway, policy = request_gateway(request), request.path_params["policy"]
    line, weaknesses = await run_in_thread(gateway.amend, caller, policy, body.reason)
    return json_response(replace(AmendmentLine.from_line(line), warnings=weaknesses, record=line))


async def pause(request: Request) -> Response:
    caller = await authenticate(request)
    body: Pause = await parse_body(request, caller, Pause)
    await run_in_thread(request_gateway(request).pause, caller, request.path_params["policy"], paused=body.paused)
    return json_response(PauseState(body.paused))


async def list_acts(request: Request) -> Response:
    caller = await authenticate(request)
    with authorized_parsing(request, caller):
        after, limit = (
            query_integer(request, "after", 0, 10**15),
            query_integer(request, "limit", 100, MAX_PAGE_SIZE, 1),
        )
    return json_response(Acts(await run_in_thread(request_gateway(request).acts, caller, after, limit)))


async def count_overruns(request: Request) -> Response:
    """Count the answers that were later than the clock allows. PRIVATE: it depends on rows."""
    caller = await authenticate(request)
    overruns = await run_in_thread(request_gateway(request).overrun_count, caller, request.path_params["policy"])
    return json_response(Overruns(overruns))


_OWNER, _POLICY = (OWNER,), "/v1/policies/{policy}"
OPERATIONS = (
    RestOperation("list_users", "GET", "/v1/users", "List users.", list_users, _OWNER, responses={200: Users}),
    RestOperation("add_user", "POST", "/v1/users", "Add a user.", add_user, _OWNER, NewUser, responses={201: User}),
    RestOperation(
        "change_user",
        "PUT",
        "/v1/users/{user}",
        "Disable a user, or enable them again.",
        change_user,
        _OWNER,
        ChangedUser,
        responses={200: User},
    ),
    RestOperation(
        "new_login_link",
        "POST",
        "/v1/links",
        "Create a one-time login link for a user.",
        new_login_link,
        _OWNER,
        NewLink,
        responses={201: LoginLink},
    ),
    RestOperation(
        "list_tokens",
        "GET",
        "/v1/tokens",
        "List tokens, without their secret texts.",
        list_tokens,
        _OWNER,
        responses={200: Tokens},
    ),
    RestOperation(
        "new_token", "POST", "/v1/tokens", "Create a token.", new_token, _OWNER, NewToken, responses={201: CreatedToken}
    ),
    RestOperation(
        "revoke_token",
        "DELETE",
        "/v1/tokens/{token:number}",
        "Revoke a token.",
        revoke_token,
        _OWNER,
        responses={200: Token},
    ),
    RestOperation(
        "show_shares",
        "GET",
        f"{_POLICY}/shares",
        "The share of every analyst.",
        show_shares,
        _OWNER,
        responses={200: Shares},
    ),
    RestOperation(
        "amend",
        "POST",
        f"{_POLICY}/amend",
        "Apply the budget in the policy file to the account.",
        amend,
        _OWNER,
        Amendment,
        responses={200: AmendmentLine},
        extra_refusals=(409,),
    ),
    RestOperation(
        "count_overruns",
        "GET",
        f"{_POLICY}/overruns",
        "PRIVATE: the number of late answers.",
        count_overruns,
        _OWNER,
        responses={200: Overruns},
    ),
    RestOperation(
        "list_acts",
        "GET",
        "/v1/acts",
        "Recorded acts of owners.",
        list_acts,
        (OWNER, AUDITOR),
        parameters=CURSOR,
        responses={200: Acts},
    ),
    RestOperation(
        "pause",
        "POST",
        f"{_POLICY}/pause",
        "Pause new releases on a policy, or resume them.",
        pause,
        _OWNER,
        Pause,
        responses={200: PauseState},
    ),
)


_FORMS = {"json": JSON, "csv": "text/csv", "arrow": "application/vnd.apache.arrow.file"}


async def verify(request: Request) -> Response:
    caller = await authenticate(request)
    verification = await run_in_thread(request_gateway(request).verify, caller)
    return json_response(LedgerCheck.from_verification(verification))


async def export(request: Request) -> Response:
    """Export every ledger line."""
    return await export_response(request, await authenticate(request), request.query_params.get("form", "json"))


async def export_response(request: Request, caller: Caller, form: str) -> Response:
    """Return every ledger line in this format, from a temporary file that is removed when it is sent."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "ledger")
    try:
        await run_in_thread(request_gateway(request).export, caller, form, path)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, media_type=_FORMS[form], background=BackgroundTask(folder.cleanup))


async def anchor(request: Request) -> Response:
    caller = await authenticate(request)
    return Response(codec.dumps(await run_in_thread(request_gateway(request).anchor, caller)), media_type=JSON)


_ROLES = (OWNER, AUDITOR)
_FORM = Parameter("form", "query", "The file format.", {"enum": list(_FORMS), "default": "json"})
AUDITOR_OPERATIONS = (
    RestOperation(
        "verify",
        "GET",
        "/v1/ledger/verify",
        "Verify every line of the ledger.",
        verify,
        _ROLES,
        responses={200: LedgerCheck},
    ),
    RestOperation(
        "export",
        "GET",
        "/v1/ledger/export",
        "Export every line of the ledger.",
        export,
        _ROLES,
        parameters=(_FORM,),
        media_types=tuple(_FORMS.values()),
        responses={200: list[Record]},
    ),
    RestOperation(
        "anchor",
        "GET",
        "/v1/ledger/anchor",
        "The ledger's head and totals, to be kept elsewhere.",
        anchor,
        _ROLES,
        responses={200: Anchor},
    ),
)
