"""Every bought answer has a page of its own, with everything a reader needs to judge it, and files to take."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.errors import NotThere, SfumatoError
from sfumato.privacy.numbers import percent
from sfumato.release.answers.receipts import Receipt
from sfumato.server.pages.browser_sessions import visitor
from sfumato.server.pages.page_contexts import AnswerPage, Asked
from sfumato.server.pages.rendering import address, shown
from sfumato.server.pages.shown_tables import grid
from sfumato.server.pages.standing_bars import first
from sfumato.server.people.caller import Caller
from sfumato.server.people.known_people import Role
from sfumato.server.releases.flights import Released
from sfumato.server.requests import answer_forms, proposals
from sfumato.server.requests.calls import counter_of, in_thread

_PATIENCE = 20
"""Seconds that a browser waits for an answer before it is shown how far that is."""
_PICTURE_RULES = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""What a browser may do for a picture that is opened by itself: show it, as wide as the window is."""


async def show_answer(request: Request) -> Response:
    """Show an answer again: a permanent address, for nothing."""
    caller, policy, line = await visitor(request), request.path_params["policy"], request.path_params["line"]
    return await in_thread(_shown, request, caller, policy, line)


async def give_file(request: Request) -> Response:
    """Give an answer as a file, or as a picture."""
    caller, policy, line = await visitor(request), request.path_params["policy"], request.path_params["line"]
    if request.path_params["form"] not in answer_forms.NAMES:
        raise NotThere("this file")
    form = answer_forms.wanted(request.path_params["form"], ())
    found = await in_thread(counter_of(request).released, caller, policy, line)
    answer = await in_thread(answer_forms.shown, found.answer, form, f"{policy}-{line}")
    return as_picture(answer) if form.name == "svg" else answer


def as_picture(answer: Response) -> Response:
    """Let a picture fit the window in which it is opened."""
    answer.headers["Content-Security-Policy"] = _PICTURE_RULES
    return answer


async def buy_sent(request: Request, caller: Caller, policy: str, sent: bytes, key: str) -> Response:
    """Release what was sent, once for a key, and lead to its answer, or to how far it is."""
    counter = counter_of(request)
    kind, spec, price = proposals.read_bought(sent)
    flight = await in_thread(counter.start, caller, policy, kind, spec, price, key)
    try:
        found = await asyncio.wait_for(counter.wait(flight), _PATIENCE)
    except TimeoutError:
        return RedirectResponse(address(policy, "requests", key), 303)
    if not found.line:
        return await in_thread(unlisted_page, request, caller, policy, found)
    return RedirectResponse(address(policy, "answers", found.line), 303)


def unlisted_page(request: Request, caller: Caller, policy: str, found: Released) -> Response:
    """Show what was not bought, and so has no line: what the policy itself tells."""
    return shown(
        request, "answer.html", _page(request, caller, policy, found), title="Answer", caller=caller, policy=policy
    )


def _shown(request: Request, caller: Caller, policy: str, line: int) -> Response:
    found = counter_of(request).released(caller, policy, line)
    page = _page(request, caller, policy, found)
    return shown(request, "answer.html", page, title=f"Answer {line}", caller=caller, policy=policy)


def _page(request: Request, caller: Caller, policy: str, found: Released) -> AnswerPage:
    answer, receipt = found.answer, getattr(found.answer, "receipt", None)
    rows = hasattr(answer, "cells") and hasattr(answer, "columns")
    question = receipt.question if receipt is not None else str(getattr(answer, "question", ""))
    forms = [each.name for each in answer_forms.FORMS if any(hasattr(answer, needed) for needed in each.needs)]
    picture = found.line > 0 and _has_picture(answer)
    return AnswerPage(
        found.line,
        question,
        receipt.guarantee if receipt is not None else "",
        found.free,
        bool(getattr(answer, "rehearsed", False)),
        percent(receipt.confidence) if receipt is not None and receipt.confidence else "",
        grid(answer) if rows else None,
        "" if rows else str(answer),
        tuple(getattr(answer, "warnings", ())),
        picture,
        () if receipt is None else tuple(_paper(receipt)),
        tuple(each for each in forms if each != "svg" or picture) if found.line else (),
        first(counter_of(request).budget(caller, policy)).ordinary,
        Asked(sql=question) if rows and caller.role is not Role.AUDITOR else None,
    )


def _has_picture(answer: Any) -> bool:
    try:
        return bool(hasattr(answer, "plot") and answer.plot().svg)
    except SfumatoError:
        return False


def _paper(receipt: Receipt) -> list[tuple[str, str]]:
    """Split the lines of a receipt into what each is about, and what it says of the purchase."""
    found: list[tuple[str, str]] = []
    for line in str(replace(receipt, free=False)).splitlines():
        name, _, words = line.partition("  ")
        if line.startswith(" ") and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            found.append((name, re.sub(r"\s+", " ", words).strip()))
    return [*found, *([("hash", receipt.hash)] if receipt.line else [])]
