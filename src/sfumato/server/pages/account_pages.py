"""Pages about budget, history and data, and sign-in.

A one-time link opens a page with one button, and the button signs in. The link alone does nothing, so link previews in
messages and links on other sites neither consume it nor sign anybody in. And the session cookie, which is
``SameSite=Strict``, is sent with the next page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.curator import PeriodStandings, Standing
from sfumato.errors import InvalidRequest, NotAllowed, SfumatoError, outcome
from sfumato.ledger import Line
from sfumato.policy.public_faces import PublicFace
from sfumato.privacy import Neighbours
from sfumato.privacy.amounts import format_guarantee
from sfumato.privacy.numbers import format_exact, format_percent
from sfumato.server.pages.page_contexts import (
    BudgetPage,
    DataPage,
    EmptyContext,
    HistoryPage,
    HistoryRow,
    HomePage,
    PolicyCard,
    SignInPage,
)
from sfumato.server.pages.released_pages import with_svg_policy
from sfumato.server.pages.rendering import (
    authenticate_visitor,
    authenticated_form,
    budget_bars,
    budget_bars_by_account,
    delete_cookie,
    page_path,
    read_form,
    refusal_message,
    render_page,
    require_same_origin,
    session_cookie,
    set_cookie,
    standing_or_fresh_period,
    table_contexts,
)
from sfumato.server.people.users import Caller, Role
from sfumato.server.requests.calls import query_integer, request_gateway, run_in_thread
from sfumato.server.served_policies import HistoryBatch

_PAGE_LINES, _MAX_QUESTION = 50, 300
"""Ledger lines per page, and characters of a question in a line."""
_KINDS = {
    "charge": "answer bought",
    "account-open": "account opened",
    "source": "data added",
    "amend": "budget changed",
    "share": "share granted",
    "moved": "ledger moved",
    "request": "approval requested",
    "request-step": "decision on a request",
}
"""Labels of ledger lines by kind; other kinds keep their own names."""


async def show_home(request: Request) -> Response:
    """List the policies that the visitor may see."""
    return await run_in_thread(_render_home, request, await authenticate_visitor(request))


def _render_home(request: Request, caller: Caller) -> Response:
    gateway = request_gateway(request)
    cards = []
    for name in gateway.policies(caller):
        face, standing = gateway.policy(caller, name), standing_or_fresh_period(gateway.budget(caller, name))
        start = page_path(name, "budget" if caller.role is Role.AUDITOR else "ask")
        first_bar, table_names = budget_bars(standing)[:1], tuple(table.name for table in face.tables)
        cards.append(PolicyCard(name, start, str(face.unit), standing.ordinary, first_bar, table_names))
    return render_page(request, "home.html", HomePage(tuple(cards)), title="Policies", caller=caller)


async def show_budget(request: Request) -> Response:
    """Show the account, or an analyst's share; owners also see every share."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    return await run_in_thread(_render_budget, request, caller, policy)


async def change_account(request: Request) -> Response:
    """Pause or resume a policy, or amend the account to the budget in its file; for owners."""
    caller, form = await authenticated_form(request)
    policy, gateway, action = request.path_params["policy"], request_gateway(request), form.value("do")
    try:
        if action == "amend":
            await run_in_thread(gateway.amend, caller, policy, form.value("reason"))
        elif action in ("pause", "resume"):
            await run_in_thread(gateway.pause, caller, policy, paused=action == "pause")
        else:
            raise InvalidRequest(
                "the form does not say which button was pressed",
                place="the form",
                fix="reload the page, and press a button",
            )
    except NotAllowed:
        raise
    except SfumatoError as error:
        return await run_in_thread(_render_budget, request, caller, policy, error)
    return RedirectResponse(page_path(policy, "budget"), 303)


def _render_budget(request: Request, caller: Caller, policy: str, error: SfumatoError | None = None) -> Response:
    gateway, owner = request_gateway(request), caller.role is Role.OWNER
    standing, face = gateway.budget(caller, policy), gateway.policy(caller, policy)
    title = (
        f"Share of {face.analyst} ({format_percent(face.share)} of the account)"
        if face.share is not None
        else "Account"
    )
    shares = gateway.shares(caller, policy) if owner else {}
    page = BudgetPage(
        tuple(budget_bars_by_account(standing, title)),
        tuple(standing.details()),
        tuple(bars for name, share in shares.items() for bars in budget_bars_by_account(share, f"Share of {name}")),
        gateway.overrun_count(caller, policy) if owner else None,
        owner,
        None if error is None else refusal_message(error),
        weaknesses=gateway.weaknesses(caller, policy) if owner else (),
    )
    status = 200 if error is None else outcome(error).http_status
    paused = gateway.is_paused(caller, policy)
    return render_page(
        request, "budget.html", page, title="Budget", caller=caller, policy=policy, paused=paused, status=status
    )


async def draw_budget(request: Request) -> Response:
    """Plot the spending over time, as SVG."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    picture = await run_in_thread(request_gateway(request).spending_plot, caller, policy)
    return with_svg_policy(Response(picture.svg, media_type="image/svg+xml"))


async def show_history(request: Request) -> Response:
    """List ledger lines, newest first."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    before = query_integer(request, "before", 0, 10**15) or None
    page = await run_in_thread(request_gateway(request).latest_history, caller, policy, before, _PAGE_LINES)
    context = HistoryPage(tuple(_history_rows(page)), page.next, caller.role is not Role.ANALYST)
    return render_page(request, "history.html", context, title="History", caller=caller, policy=policy)


def _history_rows(page: HistoryBatch) -> list[HistoryRow]:
    """List the lines of a page, merging each answer line with the charge that paid for it if both are on the page."""
    charge_numbers = {line.number for line in page.lines if line.kind != "answer"}
    answer_of_charge = {
        line.about: line.number for line in page.lines if line.kind == "answer" and line.about in charge_numbers
    }
    return [
        _history_row(line, answer_of_charge.get(line.number, line.number), page)
        for line in page.lines
        if line.number not in answer_of_charge.values()
    ]


def _history_row(line: Line, answer_number: int, page: HistoryBatch) -> HistoryRow:
    number, _, _, kind, question, cost = line.words()
    short_question = question if len(question) <= _MAX_QUESTION else question[: _MAX_QUESTION - 1] + "…"
    return HistoryRow(
        int(number),
        line.time.strftime("%Y-%m-%d %H:%M UTC"),
        line.time.isoformat(timespec="seconds"),
        page.buyer(line) or "",
        _KINDS.get(line.kind, kind),
        short_question,
        cost,
        answer_number if answer_number in page.answered else None,
    )


async def show_data(request: Request) -> Response:
    """Describe the tables as declared, and who is protected."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    return await run_in_thread(_render_data, request, caller, policy)


def _render_data(request: Request, caller: Caller, policy: str) -> Response:
    gateway = request_gateway(request)
    face = gateway.policy(caller, policy)
    can_ask = caller.role is not Role.AUDITOR
    page = DataPage(
        str(face.unit),
        "" if face.size is None else f"{face.size:,}",
        promise_sentences(face, gateway.budget(caller, policy)),
        tuple(_policy_facts(face)),
        table_contexts(gateway.tables(caller, policy), questions=can_ask),
        can_ask,
    )
    return render_page(request, "data.html", page, title="Data", caller=caller, policy=policy)


def promise_sentences(face: PublicFace, standing: Standing | PeriodStandings) -> tuple[str, ...]:
    """Explain who is protected and what that means, in whole sentences."""
    if face.neighbours is Neighbours.REPLACE:
        change = "had been replaced by any others. The total number of units is public"
    else:
        change = "had never been in the data"
    if isinstance(standing, PeriodStandings):
        bound = f"each {standing.per} has an account of its own; {standing.promise}"
    else:
        bound = (
            f"all answers together keep {format_guarantee(face.budget.epsilon, face.budget.delta)}, however many "
            "questions are asked"
        )
    rows = "this row" if face.unit.every_row else "these rows"
    measures, smaller = ("ε and δ", "both are") if face.budget.delta else ("ε", "ε is")
    return (
        f"Protected: {face.unit}. Every answer would have come out almost the same if {rows} {change}.",
        f"“Almost” is measured by {measures}: {bound}. The smaller {smaller}, the less anybody can learn about one "
        f"{face.unit.name}.",
        "Facts about the population as a whole are not protected: answers are meant to show them.",
    )


def _policy_facts(face: PublicFace) -> Sequence[tuple[str, str]]:
    share = [] if face.share is None else [("your share", format_percent(face.share))]
    size = [] if face.size is None else [("number of units", f"{face.size:,} (declared)")]
    return [
        ("protects", str(face.unit)),
        ("neighbours", face.neighbours.value),
        ("ε", format_exact(face.budget.epsilon)),
        ("δ", format_exact(face.budget.delta)),
        *share,
        *size,
    ]


_LINK = re.compile(r"[A-Za-z0-9_-]{1,100}")


async def show_sign_in(request: Request) -> Response:
    """Show the button that signs in."""
    link = request.path_params["link"]
    page = SignInPage(link if _LINK.fullmatch(link) else "")
    return render_page(request, "sign_in.html", page, title="Sign in")


async def sign_in(request: Request) -> Response:
    """Consume the login link and set the session cookie."""
    require_same_origin(request)
    await read_form(request)
    gateway = request_gateway(request)
    cookie = await run_in_thread(gateway.sign_in, request.path_params["link"])
    response = RedirectResponse("/", 303)
    set_cookie(request, response, cookie)
    return response


async def sign_out(request: Request) -> Response:
    caller, _ = await authenticated_form(request)
    gateway = request_gateway(request)
    await run_in_thread(gateway.sign_out, caller, session_cookie(request) or "")
    response = render_page(request, "signed_out.html", EmptyContext(), title="Signed out")
    delete_cookie(request, response)
    response.headers["Clear-Site-Data"] = '"cache"'
    return response
