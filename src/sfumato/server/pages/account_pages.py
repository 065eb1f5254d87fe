"""These pages tell what is left, what was asked, what there is to ask and who is protected.

A one-time link opens a page with one button; the button signs in.

The link alone does nothing: programs that look at links in messages, and other sites that lead to one, use nothing up
and sign nobody in. And the cookie, which no other site's link may carry, is sent with the next page.
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
from sfumato.privacy.numbers import percent, text
from sfumato.server.pages.browser_sessions import (
    forget_cookie,
    keep_cookie,
    read_form,
    require_own_origin,
    sent_form,
    shown_cookie,
    visitor,
)
from sfumato.server.pages.page_contexts import (
    BudgetPage,
    DataPage,
    HistoryPage,
    HistoryRow,
    HomePage,
    Nothing,
    PolicyCard,
    SignInPage,
)
from sfumato.server.pages.released_pages import as_picture
from sfumato.server.pages.rendering import address, bars, every_bar, first, refusal_of, shown, tables
from sfumato.server.people.known_people import Caller, Role
from sfumato.server.requests.calls import counter_of, in_thread, whole
from sfumato.server.served import HistoryBatch

_LINES, _LETTERS = 50, 300
"""Lines of history on a page, and letters of a question among them."""
_KINDS = {
    "charge": "answer bought",
    "account-open": "account opened",
    "source": "data joined",
    "amend": "budget changed",
    "share": "share given",
    "moved": "ledger moved",
}
"""What lines of the ledger are called here; others are called as they are there."""


async def show_home(request: Request) -> Response:
    """List the policies that are there for whoever looks."""
    return await in_thread(_home, request, await visitor(request))


def _home(request: Request, caller: Caller) -> Response:
    counter = counter_of(request)
    cards = []
    for name in counter.policies(caller):
        face, standing = counter.policy(caller, name), first(counter.budget(caller, name))
        start = address(name, "budget" if caller.role is Role.AUDITOR else "ask")
        shown_bars, named = bars(standing)[:1], tuple(each.name for each in face.tables)
        cards.append(PolicyCard(name, start, str(face.unit), standing.ordinary, shown_bars, named))
    return shown(request, "home.html", HomePage(tuple(cards)), title="Policies", caller=caller)


async def show_budget(request: Request) -> Response:
    """Tell what is left: of the account, or of an analyst's share; an owner sees every share."""
    caller, policy = await visitor(request), request.path_params["policy"]
    return await in_thread(_budget, request, caller, policy)


async def change_account(request: Request) -> Response:
    """Let an owner pause a policy, or make the budget in its file the account's."""
    caller, form = await sent_form(request)
    policy, counter, do = request.path_params["policy"], counter_of(request), form.one("do")
    try:
        if do == "amend":
            await in_thread(counter.amend, caller, policy, form.one("reason"))
        elif do in ("pause", "resume"):
            await in_thread(counter.pause, caller, policy, paused=do == "pause")
        else:
            raise InvalidRequest("a form is sent by one of its buttons", place="the form", fix="open the page again")
    except NotAllowed:
        raise
    except SfumatoError as refused:
        return await in_thread(_budget, request, caller, policy, refused)
    return RedirectResponse(address(policy, "budget"), 303)


def _budget(request: Request, caller: Caller, policy: str, refused: SfumatoError | None = None) -> Response:
    counter, owner = counter_of(request), caller.role is Role.OWNER
    standing, face = counter.budget(caller, policy), counter.policy(caller, policy)
    title = f"Share of {face.analyst} ({percent(face.share)} of the account)" if face.share is not None else "Account"
    shares = counter.shares(caller, policy) if owner else {}
    page = BudgetPage(
        tuple(every_bar(standing, title)),
        tuple(standing.details()),
        tuple(each for name, share in shares.items() for each in every_bar(share, f"Share of {name}")),
        counter.overruns(caller, policy) if owner else None,
        owner,
        None if refused is None else refusal_of(refused),
    )
    status = 200 if refused is None else outcome(refused).http_status
    paused = counter.is_paused(caller, policy)
    return shown(
        request, "budget.html", page, title="Budget", caller=caller, policy=policy, paused=paused, status=status
    )


async def draw_budget(request: Request) -> Response:
    """Draw what was spent over time."""
    caller, policy = await visitor(request), request.path_params["policy"]
    picture = await in_thread(counter_of(request).spending, caller, policy)
    return as_picture(Response(picture.svg, media_type="image/svg+xml"))


async def show_history(request: Request) -> Response:
    """List what was asked, newest first."""
    caller, policy = await visitor(request), request.path_params["policy"]
    before = whole(request, "before", 0, 10**15) or None
    page = await in_thread(counter_of(request).latest, caller, policy, before, _LINES)
    told = HistoryPage(tuple(_rows(page)), page.next, caller.role is not Role.ANALYST)
    return shown(request, "history.html", told, title="History", caller=caller, policy=policy)


def _rows(page: HistoryBatch) -> list[HistoryRow]:
    """Put every answer beside the line that paid for it, where both are on this page."""
    paid = {each.number for each in page.lines if each.kind != "answer"}
    answers = {each.about: each.number for each in page.lines if each.kind == "answer" and each.about in paid}
    return [
        _row(each, answers.get(each.number, each.number), page)
        for each in page.lines
        if each.number not in answers.values()
    ]


def _row(line: Line, answer: int, page: HistoryBatch) -> HistoryRow:
    number, _, _, kind, question, cost = line.words()
    cut = question if len(question) <= _LETTERS else question[: _LETTERS - 1] + "…"
    return HistoryRow(
        int(number),
        line.time.strftime("%Y-%m-%d %H:%M"),
        line.time.isoformat(timespec="seconds"),
        page.buyer(line) or "",
        _KINDS.get(line.kind, kind),
        cut,
        cost,
        answer if answer in page.answered else None,
    )


async def show_data(request: Request) -> Response:
    """Tell what there is to ask, as it is declared, and who is protected, in words."""
    caller, policy = await visitor(request), request.path_params["policy"]
    return await in_thread(_data, request, caller, policy)


def _data(request: Request, caller: Caller, policy: str) -> Response:
    counter = counter_of(request)
    face = counter.policy(caller, policy)
    asks = caller.role is not Role.AUDITOR
    page = DataPage(
        str(face.unit),
        "" if face.size is None else f"{face.size:,}",
        promise(face, counter.budget(caller, policy)),
        tuple(_facts(face)),
        tables(counter.tables(caller, policy), questions=asks),
        asks,
    )
    return shown(request, "data.html", page, title="Data", caller=caller, policy=policy)


def promise(face: PublicFace, standing: Standing | PeriodStandings) -> tuple[str, ...]:
    """Say who is protected and what that means, in whole sentences."""
    if face.neighbours is Neighbours.REPLACE:
        change = "had been replaced by any others. How many there are in all is public"
    else:
        change = "had never been in the data"
    if isinstance(standing, PeriodStandings):
        most = f"each {standing.per} has an account of its own; {standing.promise}"
    else:
        failing = f", but for a chance of δ = {text(face.budget.delta)}" if face.budget.delta else ""
        most = f"all answers together stay within ε = {text(face.budget.epsilon)}{failing}, however much is asked"
    return (
        f"Protected: {face.unit}. Every answer would have come out almost the same if {face.unit} {change}.",
        f"“Almost” is measured by ε: {most}. The smaller it is, the less anybody can learn about one of them.",
        "What is true of everybody together is not protected: that is what answers are for.",
    )


def _facts(face: PublicFace) -> Sequence[tuple[str, str]]:
    share = [] if face.share is None else [("your share", percent(face.share))]
    size = [] if face.size is None else [("how many there are", f"{face.size:,}, declared")]
    return [
        ("protects", str(face.unit)),
        ("neighbours", face.neighbours.value),
        ("ε", text(face.budget.epsilon)),
        ("δ", text(face.budget.delta)),
        *share,
        *size,
    ]


_LINK = re.compile(r"[A-Za-z0-9_-]{1,100}")


async def show_sign_in(request: Request) -> Response:
    """Show the button that signs in."""
    link = request.path_params["link"]
    page = SignInPage(link if _LINK.fullmatch(link) else "")
    return shown(request, "sign_in.html", page, title="Sign in")


async def sign_in(request: Request) -> Response:
    """Use the link up, and let the browser keep the cookie of its session."""
    require_own_origin(request)
    await read_form(request)
    counter = counter_of(request)
    cookie = await in_thread(counter.sign_in, request.path_params["link"])
    answer = RedirectResponse("/", 303)
    keep_cookie(answer, counter.settings, cookie)
    return answer


async def sign_out(request: Request) -> Response:
    """End the session."""
    caller, _ = await sent_form(request)
    counter = counter_of(request)
    await in_thread(counter.sign_out, caller, shown_cookie(request) or "")
    answer = shown(request, "signed_out.html", Nothing(), title="Signed out")
    forget_cookie(answer, counter.settings)
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer
