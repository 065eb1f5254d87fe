"""Questions are asked here: typed, or clicked together; what they would cost and tell is free; one button buys.

What is bought is what was forecast: the button stands in a form of its own that holds the question, the price and the
name of this one purchase.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.curator import Explanation, Forecast
from sfumato.errors import (
    InvalidRequest,
    NotAllowed,
    NotSignedIn,
    NotThere,
    SfumatoError,
    TooManyRequests,
    Unanswered,
    outcome,
)
from sfumato.mechanisms import bits
from sfumato.privacy.numbers import percent
from sfumato.server.counter import Counter
from sfumato.server.pages.browser_sessions import Form, own_origin, sent_form, visitor
from sfumato.server.pages.kind_pages import page_kinds
from sfumato.server.pages.page_contexts import Asked, AskPage, Preview, Step, Verdict, WaitingPage
from sfumato.server.pages.refusal_places import start_of, underlined
from sfumato.server.pages.released_pages import buy_sent, unlisted_page
from sfumato.server.pages.rendering import address, refusal_of, shown
from sfumato.server.pages.shown_tables import grid, tables
from sfumato.server.pages.standing_bars import bars, first
from sfumato.server.pages.written_sql import Clicked, clicks, written_sql
from sfumato.server.people.caller import Caller
from sfumato.server.people.known_people import Role
from sfumato.server.releases.running_releases import Phase
from sfumato.server.requests import proposals
from sfumato.server.requests.calls import counter_of, in_thread

KIND = "questions"
START = Asked(epsilon="0.1")
_ELSEWHERE = (NotAllowed, NotSignedIn, NotThere, Unanswered)
"""What is not said of a question."""
_SENT = ("sql", "epsilon", "delta", "within", "confidence")


async def show_ask(request: Request) -> Response:
    """Show the page with nothing asked yet."""
    caller, policy = await visitor(request), request.path_params["policy"]
    return await in_thread(_page, request, caller, policy, START, Clicked(), opened=False)


async def ask(request: Request) -> Response:
    """Write what was clicked, copy a question, or forecast what was typed: by whichever button sent the form."""
    caller, form = await sent_form(request)
    policy, clicked = request.path_params["policy"], Clicked.of(form)
    return await in_thread(_asked, request, caller, policy, form, clicked)


async def forecast(request: Request) -> Response:
    """Show the forecast alone, for a page that is open."""
    caller, form = await sent_form(request)
    policy = request.path_params["policy"]
    told = await in_thread(_verdict, counter_of(request), caller, policy, typed(form))
    return shown(request, "forecast_part.html", told, title="Forecast", caller=caller, policy=policy)


async def preview(request: Request) -> Response:
    """Show how an answer is made, its curve and its rehearsal, for a page that is open."""
    caller, form = await sent_form(request)
    policy = request.path_params["policy"]
    told = await in_thread(_preview, counter_of(request), caller, policy, typed(form))
    return shown(request, "preview_part.html", told, title="Preview", caller=caller, policy=policy)


async def buy(request: Request) -> Response:
    """Release what was forecast, once, however often the button is pressed."""
    caller, form = await sent_form(request)
    policy, asked = request.path_params["policy"], typed(form)
    try:
        return await buy_sent(request, caller, policy, _written(asked), form.one("request"))
    except _ELSEWHERE:
        raise
    except SfumatoError as refused:
        return await in_thread(_page, request, caller, policy, asked, Clicked(), opened=False, refused=refused)


async def wait(request: Request) -> Response:
    """Show how far a purchase is, again and again, and then its answer."""
    caller, policy = await visitor(request), request.path_params["policy"]
    found = await in_thread(counter_of(request).progress, caller, policy, request.path_params["request"])
    if found.line:
        return RedirectResponse(address(policy, "answers", found.line), 303)
    if found.phase is Phase.DONE:  # it was not bought, and so has no line
        answer = await in_thread(counter_of(request).answered, caller, policy, request.path_params["request"])
        return await in_thread(unlisted_page, request, caller, policy, answer)
    page = shown(
        request, "waiting.html", WaitingPage(found.phase.value), title="On its way", caller=caller, policy=policy
    )
    page.headers["Refresh"] = "2"
    return page


def typed(form: Form) -> Asked:
    """Read what was typed."""
    return Asked(form.text("sql"), *(form.one(name) for name in _SENT[1:]))


def _asked(request: Request, caller: Caller, policy: str, form: Form, clicked: Clicked) -> Response:
    asked, do = typed(form), form.one("do")
    if do == "write":
        try:
            face = counter_of(request).policy(caller, policy)
            asked = replace(asked, sql=written_sql(face, clicked))
        except _ELSEWHERE:
            raise
        except SfumatoError as refused:
            return _page(request, caller, policy, asked, clicked, opened=True, refused=refused)
    if do.startswith("copy "):
        asked = replace(asked, sql=_copied(counter_of(request), caller, policy, do.removeprefix("copy ")))
    return _page(request, caller, policy, asked, clicked, opened=do == "write")


def _copied(counter: Counter, caller: Caller, policy: str, place: str) -> str:
    questions = [each.sql for table in counter.tables(caller, policy).values() for each in table.questions]
    if not place.isdecimal() or not place.isascii() or int(place) >= len(questions):
        raise InvalidRequest("a question is copied from the page", place="the form", fix="open the page again")
    return questions[int(place)]


def _page(
    request: Request,
    caller: Caller,
    policy: str,
    asked: Asked,
    clicked: Clicked,
    *,
    opened: bool,
    refused: SfumatoError | None = None,
) -> Response:
    counter = counter_of(request)
    caller.require("asking", Role.OWNER, Role.ANALYST)
    face, standing = counter.policy(caller, policy), first(counter.budget(caller, policy))
    told = _verdict(counter, caller, policy, asked) if asked.sql.strip() else None
    if refused is not None:
        told = _refused(asked, refused)
    preview = _preview(counter, caller, policy, asked) if told is not None and told.refusal is None else None
    page = AskPage(
        asked,
        clicks(face, clicked, opened=opened),
        tables(counter.tables(caller, policy), questions=True),
        bars(standing),
        standing.ordinary,
        own_origin(request),
        f"curator = sf.connect({own_origin(request)!r}, {policy!r})",
        tuple((name, kind.summary) for name, kind in page_kinds().items()),
        told,
        preview,
    )
    return shown(
        request,
        "ask.html",
        page,
        title="Ask",
        caller=caller,
        policy=policy,
        paused=counter.is_paused(caller, policy),
        status=200 if refused is None else outcome(refused).http_status,
    )


def _verdict(counter: Counter, caller: Caller, policy: str, asked: Asked) -> Verdict:
    """Say what the answer would be like, or why there would be none."""
    if not asked.sql.strip():
        return Verdict(asked)
    try:
        found: Forecast = _free(counter, caller, policy, asked, "error")
    except _ELSEWHERE:
        raise
    except SfumatoError as refused:
        return _refused(asked, refused)
    standing = first(counter.budget(caller, policy))
    return Verdict(
        asked,
        found.price,
        tuple(found.rows()),
        percent(found.confidence),
        found.left,
        standing.ordinary,
        standing.details()[0],
        found.accepted,
        found.stored,
        found.accepted and not found.left,  # of what measures nothing, nothing is taken
        found.free,
        found.warnings,
        found.counted,
        f"page-{bits.integer(128):032x}",
    )


def _refused(asked: Asked, refused: SfumatoError) -> Verdict:
    start = start_of(refused, asked.sql)
    part = underlined(asked.sql, start)
    at = -1 if part is None else len(part.before)
    return Verdict(asked, refusal=refusal_of(refused), underlined=part, start=at)


def _preview(counter: Counter, caller: Caller, policy: str, asked: Asked) -> Preview:
    """Tell what is free and takes a little longer; what cannot be told is left out."""
    if not asked.sql.strip():
        return Preview()
    explained: Explanation | None = _if_told(counter, caller, policy, asked, "explain")
    picture = _if_told(counter, caller, policy, asked, "plot")
    rehearsed = _if_told(counter, caller, policy, asked, "rehearse")
    steps = () if explained is None else tuple(Step(each.name, each.what, each.effect) for each in explained.operators)
    return Preview(
        steps,
        "" if explained is None else explained.reason,
        "" if explained is None else explained.advice,
        None if picture is None else Markup(picture.unstyled()),
        None if rehearsed is None else grid(rehearsed),
    )


def _if_told(counter: Counter, caller: Caller, policy: str, asked: Asked, act: str) -> Any:
    try:
        return _free(counter, caller, policy, asked, act)
    except (*_ELSEWHERE, TooManyRequests):
        raise
    except SfumatoError:  # the forecast says why
        return None


def _free(counter: Counter, caller: Caller, policy: str, asked: Asked, act: str) -> Any:
    if act == "plot":
        drawn = {name: value for name, value in _price(asked).items() if name in ("delta", "confidence")}
        return counter.free(caller, policy, KIND, act, {"sql": asked.sql}, drawn)
    _, spec, price = proposals.read_asked(KIND, json.dumps({"act": act, **_spec(asked)}).encode())
    return counter.free(caller, policy, KIND, act, spec, price)


def _written(asked: Asked) -> bytes:
    return json.dumps({"kind": KIND, **_spec(asked)}).encode()


def _spec(asked: Asked) -> Mapping[str, Any]:
    return {"spec": {"sql": asked.sql}, "price": _price(asked)}


def _price(asked: Asked) -> dict[str, str]:
    """Give the price that was typed; how close an answer is to be comes before an ε."""
    paid = {"within": asked.within} if asked.within else {"epsilon": asked.epsilon or START.epsilon}
    more = {"delta": asked.delta, "confidence": asked.confidence}
    return {**paid, **{name: value for name, value in more.items() if value}}
