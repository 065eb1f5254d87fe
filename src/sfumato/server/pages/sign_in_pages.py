"""A one-time link opens a page with one button; the button signs in.

The link alone does nothing: programs that look at links in messages, and other sites that lead to one, use nothing up
and sign nobody in. And the cookie, which no other site's link may carry, is sent with the next page.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.server.pages.browser_sessions import (
    forget_cookie,
    keep_cookie,
    read_form,
    require_own_origin,
    sent_form,
    shown_cookie,
)
from sfumato.server.pages.page_contexts import Nothing, SignInPage
from sfumato.server.pages.rendering import shown
from sfumato.server.requests.calls import counter_of, in_thread

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
