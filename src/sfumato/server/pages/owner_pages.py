"""These pages are for owners and auditors: who may come in, what owners did, and the ledger itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.errors import InvalidParameter, InvalidRequest, NotAllowed, SfumatoError, outcome
from sfumato.privacy import codec
from sfumato.privacy.numbers import text
from sfumato.server.counter import Counter
from sfumato.server.pages.browser_sessions import SentForm, own_origin, sent_form, visitor
from sfumato.server.pages.page_contexts import ActRow, LedgerPage, PeoplePage, PersonRow, TokenRow
from sfumato.server.pages.rendering import address, refusal_of, shown
from sfumato.server.people.known_people import Caller, Role, Token
from sfumato.server.people.people_file import LINK_MINUTES
from sfumato.server.requests.calls import JSON, counter_of, in_thread, whole
from sfumato.server.rest.routes_auditor import exported

_ACTS, _MOST = 50, 1000
_NO_SECRET = ("", "")


async def show_people(request: Request) -> Response:
    """List users and tokens to owners, and to auditors, too, what owners did."""
    caller, policy = await visitor(request), request.path_params["policy"]
    return await in_thread(_people, request, caller, policy)


async def change_people(request: Request) -> Response:
    """Let an owner add users, keep them out, and give and end tokens and links."""
    caller, form = await sent_form(request)
    policy = request.path_params["policy"]
    try:
        secret = await in_thread(_changed, request, caller, form)
    except NotAllowed:
        raise
    except SfumatoError as refused:
        return await in_thread(_people, request, caller, policy, refused=refused)
    if secret is _NO_SECRET:
        return RedirectResponse(address(policy, "people"), 303)
    return await in_thread(_people, request, caller, policy, secret=secret)


def _changed(request: Request, caller: Caller, form: SentForm) -> tuple[str, str]:
    """Make the change that a button names; give a secret that was made, with what it is, to be shown this once."""
    counter, do, user = counter_of(request), form.one("do"), form.one("user")
    if do == "token":
        return _new_token(counter, caller, form)
    if do == "link":
        made = f"{own_origin(request)}/login/{counter.link(caller, user)}"
        return made, f"A link that signs {user} in once, within {LINK_MINUTES} minutes"
    if do == "add":
        counter.add_user(caller, user, form.one("role"))
    elif do in ("disable", "enable"):
        counter.disable_user(caller, user, disabled=do == "disable")
    elif do == "revoke":
        counter.revoke_token(caller, _number(form.one("number"), "number"))
    else:
        raise InvalidRequest("a form is sent by one of its buttons", place="the form", fix="open the page again")
    return _NO_SECRET


def _new_token(counter: Counter, caller: Caller, form: SentForm) -> tuple[str, str]:
    days, most, user = form.one("days"), form.one("most"), form.one("user")
    lasts = timedelta(days=_number(days, "days")) if days else None
    _, secret = counter.new_token(caller, user, label=form.one("label"), expires=lasts, most=most or None)
    return secret, f"A token of {user}"


def _number(given: str, name: str) -> int:
    if not (given.isascii() and given.isdecimal() and len(given) <= 6):
        raise InvalidParameter(name, given, "a whole number")
    return int(given)


def _people(
    request: Request,
    caller: Caller,
    policy: str,
    *,
    secret: tuple[str, str] = _NO_SECRET,
    refused: SfumatoError | None = None,
) -> Response:
    counter, owner = counter_of(request), caller.role is Role.OWNER
    counter.policy(caller, policy)
    after = whole(request, "after", 0, 10**15)
    acts = counter.acts(caller, after, _ACTS + 1)
    page = PeoplePage(
        tuple(_person(counter, caller)) if owner else None,
        tuple(map(_token, counter.tokens(caller))) if owner else (),
        tuple(ActRow(each.number, _time(each.time), each.by, each.act, each.about) for each in acts[:_ACTS]),
        acts[_ACTS - 1].number if len(acts) > _ACTS else None,
        tuple(Role),
        *secret,
        None if refused is None else refusal_of(refused),
    )
    status = 200 if refused is None else outcome(refused).http_status
    return shown(request, "people.html", page, title="People", caller=caller, policy=policy, status=status)


def _person(counter: Counter, caller: Caller) -> list[PersonRow]:
    return [
        PersonRow(each.name, each.role.value, _time(each.made), each.disabled, each.name == caller.user)
        for each in counter.users(caller)
    ]


def _token(token: Token) -> TokenRow:
    return TokenRow(
        token.number,
        token.user,
        token.label,
        _time(token.made),
        "never" if token.expires is None else _time(token.expires),
        "" if token.most is None else text(token.most),
        "" if token.most is None and token.spent == Fraction(0) else text(token.spent),
        token.revoked,
    )


async def show_ledger(request: Request) -> Response:
    """Say where the ledger is, and whether every line is as it was written where that is asked for."""
    caller, policy = await visitor(request), request.path_params["policy"]
    return await in_thread(_ledger, request, caller, policy)


def _ledger(request: Request, caller: Caller, policy: str) -> Response:
    counter = counter_of(request)
    counter.policy(caller, policy)
    anchor = counter.anchor(caller)
    checked = counter.verify(caller) if request.query_params.get("verify") else None
    page = LedgerPage(
        "" if checked is None else str(checked),
        checked is None or checked.holds,
        codec.dumps(anchor),
        anchor.hash,
        anchor.number,
    )
    return shown(request, "ledger.html", page, title="Ledger", caller=caller, policy=policy)


async def give_ledger(request: Request) -> Response:
    """Give every line as a file."""
    caller, form = await visitor(request), request.path_params["form"]
    answer = await exported(request, caller, form)
    answer.headers["Content-Disposition"] = f"attachment; filename=ledger.{form}"
    return answer


async def give_anchor(request: Request) -> Response:
    """Give what vouches for the ledger, to be kept elsewhere."""
    caller = await visitor(request)
    found = await in_thread(counter_of(request).anchor, caller)
    return Response(codec.dumps(found), 200, {"Content-Disposition": "attachment; filename=anchor.json"}, JSON)


def _time(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M")
