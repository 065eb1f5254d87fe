"""Routes for analysts and owners: policies, budgets, free calls, releases and history."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from sfumato.curator import PeriodStandings, Standing
from sfumato.curator.described_tables import Tables
from sfumato.errors import InvalidRequest, NotThere
from sfumato.policy.public_faces import PublicFace
from sfumato.server.releases.flights import Flight
from sfumato.server.releases.running_releases import Phase
from sfumato.server.requests import calls, proposals, responses
from sfumato.server.requests.calls import (
    ANALYST,
    CURSOR,
    MAX_PAGE_SIZE,
    OWNER,
    Parameter,
    RestOperation,
    authenticate,
    authenticate_blocking,
    authorized_parsing,
    json_response,
    parse_idempotency_key,
    query_integer,
    request_gateway,
    require_json,
    run_in_thread,
)
from sfumato.server.requests.responses import (
    Bought,
    CountedBudget,
    Ended,
    FreeReply,
    HistoryLines,
    LineSummary,
    PendingRelease,
    PolicyNames,
    Unlisted,
)

_LINE_FORMS = ("summaries", "lines")
"""The forms of ledger lines: a readable summary of each, or each complete line."""


async def list_policies(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(PolicyNames(await run_in_thread(request_gateway(request).policies, caller)))


async def show_policy(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(await run_in_thread(request_gateway(request).policy, caller, request.path_params["policy"]))


async def show_budget(request: Request) -> Response:
    caller = await authenticate(request)
    policy, analyst = request.path_params["policy"], request.query_params.get("analyst")
    return json_response(await run_in_thread(request_gateway(request).budget, caller, policy, analyst))


async def show_account(request: Request) -> Response:
    caller = await authenticate(request)
    budget, share = await run_in_thread(request_gateway(request).account, caller, request.path_params["policy"])
    return json_response(CountedBudget(budget, share))


async def show_tables(request: Request) -> Response:
    caller = await authenticate(request)
    return json_response(await run_in_thread(request_gateway(request).tables, caller, request.path_params["policy"]))


async def answer_free_call(request: Request) -> Response:
    """Answer a free call about a proposal."""
    return await run_in_thread(_free_call, request, await request.body())


def _free_call(request: Request, body: bytes) -> Response:
    caller = authenticate_blocking(request)
    policy, kind = request.path_params["policy"], request.path_params["kind"]
    if kind not in proposals.KINDS:
        raise NotThere(f"the release kind {kind!r}")
    with authorized_parsing(request, caller):
        require_json(request)
        act, spec, price = proposals.decode_act_spec_and_price(kind, body)
    return json_response(FreeReply(act, request_gateway(request).call_free(caller, policy, kind, act, spec, price)))


async def release(request: Request) -> Response:
    """Buy an answer, in the only call that spends: once per Idempotency-Key."""
    flight = await run_in_thread(_start_release, request, await request.body())
    policy, phase = request.path_params["policy"], flight.phase
    if _prefers_async(request) and phase is not Phase.DONE:
        headers = {
            "Location": f"{_releases_path(policy)}?key={quote(flight.request.id, safe='')}",
            "Preference-Applied": "respond-async",
        }
        return json_response(PendingRelease(phase), 202, {**headers, "Retry-After": "1"})
    result = await request_gateway(request).wait(flight)
    headers = {"Location": f"{_releases_path(policy)}/{result.line}"} if result.line else {}
    return json_response(Bought(result.line, result.free, result.answer), headers=headers)


def _start_release(request: Request, body: bytes) -> Flight:
    caller = authenticate_blocking(request)
    with authorized_parsing(request, caller):
        key = parse_idempotency_key(request.headers.getlist("Idempotency-Key"))
        require_json(request)
        kind, spec, price = proposals.decode_kind_spec_and_price(body)
    return request_gateway(request).start(caller, request.path_params["policy"], kind, spec, price, key)


async def show_progress(request: Request) -> Response:
    """Return the phase of the release sent under a key."""
    caller, key = (
        await authenticate(request),
        parse_idempotency_key(request.query_params.getlist("key"), "the query, key"),
    )
    policy = request.path_params["policy"]
    progress = await run_in_thread(request_gateway(request).progress, caller, policy, key)
    if progress.phase is not Phase.DONE:
        return json_response(PendingRelease(progress.phase), headers={"Retry-After": "1"})
    if not progress.line:  # nothing was bought, so there is no ledger line
        answer = await run_in_thread(request_gateway(request).answer_of_request, caller, policy, key)
        return json_response(Unlisted(progress.phase, 0, answer.answer))
    headers = {"Location": f"{_releases_path(policy)}/{progress.line}"}
    return json_response(Ended(progress.phase, progress.line), headers=headers)


async def show_release(request: Request) -> Response:
    """Return the answer on a ledger line, in the requested encoding."""
    return await run_in_thread(_show_release, request)


def _show_release(request: Request) -> Response:
    caller = authenticate_blocking(request)
    policy, line = request.path_params["policy"], request.path_params["line"]
    form = calls.negotiate_encoding(request.query_params.get("form"), request.headers.getlist("Accept"))
    result = request_gateway(request).answer_on_line(caller, policy, line)
    return calls.encoded_response(result.answer, form, f"{policy}-{line}")


async def show_history(request: Request) -> Response:
    caller = await authenticate(request)
    after, limit = query_integer(request, "after", 0, 10**15), query_integer(request, "limit", 100, MAX_PAGE_SIZE, 1)
    policy, analyst = request.path_params["policy"], request.query_params.get("analyst")
    page = await run_in_thread(request_gateway(request).history, caller, policy, after, limit, analyst)
    if _history_form(request) == "lines":
        return json_response(HistoryLines(page.lines, page.next))
    return json_response(
        HistoryLines(tuple(LineSummary.from_line(line, page.buyer(line)) for line in page.lines), page.next)
    )


def _history_form(request: Request) -> str:
    form = request.query_params.get("form", _LINE_FORMS[0])
    if form not in _LINE_FORMS:
        choices = " or ".join(_LINE_FORMS)
        raise InvalidRequest(f"form must be {choices}", place="the query, form", fix=f"write form={choices}")
    return form


def _releases_path(policy: str) -> str:
    return f"/v1/policies/{quote(policy, safe='')}/releases"


def _prefers_async(request: Request) -> bool:
    preferences = (
        preference.partition(";")[0].strip().lower()
        for header in request.headers.getlist("Prefer")
        for preference in header.split(",")
    )
    return "respond-async" in preferences


_PREFER_HEADER = Parameter("Prefer", "header", "respond-async: answer 202 at once, with an address to poll.")
_VISIBLE = {"type": "string", "pattern": "^[!-~]{1,200}$"}
_KEY_WORDS = "Identifies this release: it is made and charged once, however often it is sent."
_IDEMPOTENCY = Parameter("Idempotency-Key", "header", _KEY_WORDS, _VISIBLE, required=True)
_SENT_KEY = Parameter("key", "query", "The Idempotency-Key under which it was sent.", _VISIBLE, required=True)
_FORM = Parameter("form", "query", "The encoding of the answer, instead of Accept.", {"enum": list(calls.NAMES)})
_LINE_FORM = Parameter("form", "query", "A summary of each line, or the complete line.", {"enum": list(_LINE_FORMS)})
_ANALYST = Parameter("analyst", "query", "An analyst of the policy; analysts can name only themselves.")
_ASKING = (OWNER, ANALYST)
_POLICY = "/v1/policies/{policy}"
OPERATIONS = (
    RestOperation(
        "list_policies", "GET", "/v1/policies", "List policies.", list_policies, responses={200: PolicyNames}
    ),
    RestOperation(
        "show_policy",
        "GET",
        _POLICY,
        "The policy: tables and columns as declared.",
        show_policy,
        responses={200: PublicFace},
    ),
    RestOperation(
        "show_budget",
        "GET",
        f"{_POLICY}/budget",
        "The remaining budget.",
        show_budget,
        parameters=(_ANALYST,),
        responses={200: Standing | PeriodStandings},
        extra_refusals=(422,),
    ),
    RestOperation(
        "show_account",
        "GET",
        f"{_POLICY}/account",
        "The budget as the ledger counts it.",
        show_account,
        responses={200: CountedBudget},
    ),
    RestOperation(
        "show_tables",
        "GET",
        f"{_POLICY}/tables",
        "The tables, with suggested questions.",
        show_tables,
        responses={200: Tables},
    ),
    RestOperation(
        "tell",
        "POST",
        f"{_POLICY}/proposals/{{kind}}",
        "Explain, forecast, price or preview: free, and reads no row.",
        answer_free_call,
        _ASKING,
        bodies_by_kind={name: kind.free_body for name, kind in proposals.KINDS.items()},
        responses_by_kind={name: kind.free_response for name, kind in proposals.KINDS.items()},
        extra_refusals=(402, 409, 422),
    ),
    RestOperation(
        "release",
        "POST",
        f"{_POLICY}/releases",
        "Buy an answer: the only call that spends.",
        release,
        _ASKING,
        body=proposals.RELEASE_BODY,
        parameters=(_IDEMPOTENCY, _PREFER_HEADER),
        responses={200: responses.with_types(Bought, proposals.ANSWER), 202: PendingRelease},
        extra_refusals=(402, 409, 422),
    ),
    RestOperation(
        "show_progress",
        "GET",
        f"{_POLICY}/releases",
        "The phase of a release: queued, charged or done.",
        show_progress,
        parameters=(_SENT_KEY,),
        responses={200: PendingRelease | Ended | responses.with_types(Unlisted, proposals.ANSWER)},
        extra_refusals=(402, 409, 422),
    ),
    RestOperation(
        "show_release",
        "GET",
        f"{_POLICY}/releases/{{line:number}}",
        "An answer that was bought before, free.",
        show_release,
        parameters=(_FORM,),
        media_types=tuple(form.media_type for form in calls.FORMS),
        responses={200: proposals.ANSWER},
        extra_refusals=(406, 409),
    ),
    RestOperation(
        "show_history",
        "GET",
        f"{_POLICY}/history",
        "Ledger lines, oldest first.",
        show_history,
        parameters=(*CURSOR, _LINE_FORM, _ANALYST),
        responses={200: HistoryLines},
        extra_refusals=(422,),
    ),
)
