"""Routes of requests for approval: file, look, approve, refuse, withdraw, release, and grant a share."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sfumato.curator.request_views import RequestView
from sfumato.server.approvals import RequestedRelease, ShareTerms
from sfumato.server.releases.flights import Flight
from sfumato.server.requests import proposals, responses
from sfumato.server.requests.calls import (
    ANALYST,
    OWNER,
    Parameter,
    RestOperation,
    authenticate,
    authenticate_blocking,
    authorized_parsing,
    json_response,
    parse_body,
    parse_idempotency_key,
    request_gateway,
    require_json,
    run_in_thread,
)
from sfumato.server.requests.responses import Bought, Requests
from sfumato.server.requests.specs import NewReview, NewShare, Refusal, ReviewDecision


async def list_requests(request: Request) -> Response:
    caller = await authenticate(request)
    views = await run_in_thread(request_gateway(request).requests.list, caller, request.path_params["policy"])
    return json_response(Requests(views))


async def show_request(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(
        await run_in_thread(request_gateway(request).requests.show, caller, *_policy_and_number(request))
    )


async def file_request(request: Request) -> Response:
    """File a request for a release, exactly as it would be bought."""
    return json_response(await run_in_thread(_file_request, request, await request.body()), 201)


def _file_request(request: Request, body: bytes) -> RequestView:
    caller = authenticate_blocking(request)
    with authorized_parsing(request, caller):
        require_json(request)
        release, purpose, days = proposals.decode_filing(body)
    policy = request.path_params["policy"]
    return request_gateway(request).requests.file(caller, policy, RequestedRelease(*release), purpose, days)


async def approve_request(request: Request) -> Response:
    caller = await authenticate(request)
    body: ReviewDecision = await parse_body(request, caller, ReviewDecision)
    return json_response(
        await run_in_thread(
            request_gateway(request).requests.approve, caller, *_policy_and_number(request), body.reason
        )
    )


async def refuse_request(request: Request) -> Response:
    caller = await authenticate(request)
    body: Refusal = await parse_body(request, caller, Refusal)
    return json_response(
        await run_in_thread(request_gateway(request).requests.refuse, caller, *_policy_and_number(request), body.reason)
    )


async def withdraw_request(request: Request) -> Response:
    caller = await authenticate(request)
    body: ReviewDecision = await parse_body(request, caller, ReviewDecision)
    return json_response(
        await run_in_thread(
            request_gateway(request).requests.withdraw, caller, *_policy_and_number(request), body.reason
        )
    )


async def release_request(request: Request) -> Response:
    """Buy what was approved: once per Idempotency-Key, and once per request."""
    flight = await run_in_thread(_start_release, request)
    result = await request_gateway(request).wait(flight)
    return json_response(Bought(result.line, result.free, result.answer))


def _start_release(request: Request) -> Flight:
    caller = authenticate_blocking(request)
    with authorized_parsing(request, caller):
        key = parse_idempotency_key(request.headers.getlist("Idempotency-Key"))
    return request_gateway(request).requests.release(caller, *_policy_and_number(request), key)


async def preapprove_releases(request: Request) -> Response:
    caller = await authenticate(request)
    body: NewShare = await parse_body(request, caller, NewShare)
    tables, kinds, measures = map(tuple, (body.tables, body.kinds, body.measures))
    terms = ShareTerms(body.user, body.epsilon, body.days, tables, kinds, body.purpose, measures, body.until)
    policy = request.path_params["policy"]
    requests = request_gateway(request).requests
    return json_response(await run_in_thread(requests.preapprove_releases, caller, policy, terms), 201)


async def mark_for_publication(request: Request) -> Response:
    caller = await authenticate(request)
    body: NewReview = await parse_body(request, caller, NewReview)
    request_publication, policy = request_gateway(request).requests.request_publication, request.path_params["policy"]
    return json_response(await run_in_thread(request_publication, caller, policy, tuple(body.lines), body.purpose), 201)


def _policy_and_number(request: Request) -> tuple[str, int]:
    return request.path_params["policy"], request.path_params["request"]


_ASKING, _REQUESTS = (OWNER, ANALYST), "/v1/policies/{policy}/requests"
_ONE = f"{_REQUESTS}/{{request:number}}"
_VISIBLE = {"type": "string", "pattern": "^[!-~]{1,200}$"}
_IDEMPOTENCY = Parameter(
    "Idempotency-Key", "header", "Identifies this release: it is made once.", _VISIBLE, required=True
)
OPERATIONS = (
    RestOperation(
        "list_requests",
        "GET",
        _REQUESTS,
        "Requests for approval, newest first: analysts see their own.",
        list_requests,
        responses={200: Requests},
    ),
    RestOperation(
        "file_request",
        "POST",
        _REQUESTS,
        "File a request for a release that needs approval.",
        file_request,
        _ASKING,
        proposals.FILED_REQUEST,
        responses={201: RequestView},
        extra_refusals=(402, 409, 422),
    ),
    RestOperation("show_request", "GET", _ONE, "One request.", show_request, responses={200: RequestView}),
    RestOperation(
        "approve_request",
        "POST",
        f"{_ONE}/approve",
        "Approve a request of somebody else.",
        approve_request,
        (OWNER,),
        ReviewDecision,
        responses={200: RequestView},
        extra_refusals=(409, 422),
    ),
    RestOperation(
        "refuse_request",
        "POST",
        f"{_ONE}/refuse",
        "Refuse a request, or take back an approval.",
        refuse_request,
        (OWNER,),
        Refusal,
        responses={200: RequestView},
        extra_refusals=(409,),
    ),
    RestOperation(
        "withdraw_request",
        "POST",
        f"{_ONE}/withdraw",
        "Withdraw your own request.",
        withdraw_request,
        _ASKING,
        ReviewDecision,
        responses={200: RequestView},
        extra_refusals=(409,),
    ),
    RestOperation(
        "release_request",
        "POST",
        f"{_ONE}/release",
        "Buy what was approved.",
        release_request,
        _ASKING,
        parameters=(_IDEMPOTENCY,),
        responses={200: responses.with_types(Bought, proposals.ANSWER)},
        extra_refusals=(402, 409, 422),
    ),
    RestOperation(
        "mark_for_publication",
        "POST",
        "/v1/policies/{policy}/reviews",
        "Mark your own answers for publication.",
        mark_for_publication,
        _ASKING,
        NewReview,
        responses={201: RequestView},
        extra_refusals=(422,),
    ),
    RestOperation(
        "grant_share",
        "POST",
        "/v1/policies/{policy}/grants",
        "Approve releases in advance, up to an ε and until a date.",
        preapprove_releases,
        (OWNER,),
        NewShare,
        responses={201: RequestView},
        extra_refusals=(409, 422),
    ),
)
