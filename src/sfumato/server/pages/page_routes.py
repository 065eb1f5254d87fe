"""Routes of the pages; refusals are rendered as pages too."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import InvalidRequest, NotSignedIn, NotThere, SfumatoError, outcome
from sfumato.server.pages import account_pages, ask_pages, owner_pages, released_pages
from sfumato.server.pages.rendering import (
    CROSS_SITE_PLACES,
    refusal_message,
    refused_page_visitor,
    render_page,
    static_files,
)
from sfumato.server.requests.calls import Handler
from sfumato.server.requests.responses import report_fault
from sfumato.server.rest.routes_health import Metrics

_POLICY = "/p/{policy}"
PAGES: tuple[tuple[str, str, str, Handler], ...] = (
    ("show_home", "GET", "/", account_pages.show_home),
    ("show_sign_in", "GET", "/login/{link}", account_pages.show_sign_in),
    ("sign_in", "POST", "/login/{link}", account_pages.sign_in),
    ("sign_out", "POST", "/logout", account_pages.sign_out),
    ("show_ask", "GET", f"{_POLICY}/ask", ask_pages.show_ask),
    ("ask", "POST", f"{_POLICY}/ask", ask_pages.fill_in_question),
    ("forecast", "POST", f"{_POLICY}/forecast", ask_pages.forecast),
    ("preview", "POST", f"{_POLICY}/preview", ask_pages.preview),
    ("buy", "POST", f"{_POLICY}/answers", ask_pages.buy),
    ("show_kind", "GET", f"{_POLICY}/kinds/{{kind}}", released_pages.show_kind),
    ("ask_kind", "POST", f"{_POLICY}/kinds/{{kind}}", released_pages.ask_kind),
    ("wait", "GET", f"{_POLICY}/requests/{{request}}", ask_pages.wait_for_answer),
    ("show_answer", "GET", f"{_POLICY}/answers/{{line:number}}", released_pages.show_answer),
    ("download_answer", "GET", f"{_POLICY}/answers/{{line:number}}.{{form}}", released_pages.download_answer),
    ("show_budget", "GET", f"{_POLICY}/budget", account_pages.show_budget),
    ("change_account", "POST", f"{_POLICY}/budget", account_pages.change_account),
    ("draw_budget", "GET", f"{_POLICY}/budget.svg", account_pages.draw_budget),
    ("show_history", "GET", f"{_POLICY}/history", account_pages.show_history),
    ("show_data", "GET", f"{_POLICY}/data", account_pages.show_data),
    ("show_requests", "GET", f"{_POLICY}/approvals", owner_pages.show_requests),
    ("file_request", "POST", f"{_POLICY}/approvals", owner_pages.file_request),
    ("show_request", "GET", f"{_POLICY}/approvals/{{request:number}}", owner_pages.show_request),
    ("decide_request", "POST", f"{_POLICY}/approvals/{{request:number}}", owner_pages.decide_request),
    ("show_people", "GET", f"{_POLICY}/people", owner_pages.show_people),
    ("change_people", "POST", f"{_POLICY}/people", owner_pages.change_people),
    ("show_ledger", "GET", f"{_POLICY}/ledger", owner_pages.show_ledger),
    ("download_anchor", "GET", f"{_POLICY}/ledger/anchor.json", owner_pages.download_anchor),
    ("download_ledger", "GET", f"{_POLICY}/ledger/ledger.{{form}}", owner_pages.download_ledger),
)
"""Each page's name in metrics and logs, its method, its path and what answers it."""


def routes() -> list[Route]:
    """Return a route for every page, and for the static files."""
    pages = [Route(path, _wrap_handler(name, handler), methods=[method]) for name, method, path, handler in PAGES]
    return [*pages, Route("/static/{name}", _wrap_handler("serve_static_file", _serve_static_file), methods=["GET"])]


async def _serve_static_file(request: Request) -> Response:
    static_file = static_files().get(request.path_params["name"])
    if static_file is None:
        raise NotThere("this file")
    return static_file.respond(request)


def _wrap_handler(name: str, handler: Handler) -> Handler:
    async def handle(request: Request) -> Response:
        metrics: Metrics = request.app.state.metrics
        request.state.page = f"page_{name}"
        metrics.count_call(request.state.page)
        try:
            return await handler(request)
        except SfumatoError as refusal:
            response = await render_refusal(request, refusal)
            metrics.count_refusal(response.status_code)
            return response
        except Exception as error:
            public_error = report_fault(error, "reload the page: a charged release is answered from the stored answer")
            return await render_refusal(request, public_error, 500)

    return handle


async def render_refusal(request: Request, refusal: SfumatoError, status: int = 0) -> Response:
    """Render a refusal as a page."""
    if isinstance(refusal, NotSignedIn):
        retry_path = request.url.path if request.method == "GET" and not request.url.path.startswith("//") else ""
        return render_page(
            request, "not_signed_in.html", refusal_message(refusal, retry_path), title="Sign in", status=401
        )
    foreign = isinstance(refusal, InvalidRequest) and refusal.place in CROSS_SITE_PLACES
    status_code = status or (403 if foreign else outcome(refusal).http_status)
    try:
        caller = await refused_page_visitor(request)
    except SfumatoError:
        caller = None
    page = render_page(
        request, "refused.html", refusal_message(refusal), title="Refused", caller=caller, status=status_code
    )
    wait = getattr(refusal, "retry_after", None)
    if wait is not None:
        page.headers["Retry-After"] = str(max(1, int(wait)))
    return page
