"""Questions are asked here: typed, or clicked together; what they would cost and tell is free; one button buys.

What is bought is what was forecast: the button stands in a form of its own that holds the question, the price and the
name of this one purchase.

Clicks become a question in SQL that can be seen, changed and learned from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.curator import Explanation, Forecast
from sfumato.errors import (
    InvalidParameter,
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
from sfumato.plan.written_names import quoted
from sfumato.policy import Type
from sfumato.policy.public_faces import PublicColumn, PublicFace, PublicTable
from sfumato.privacy.numbers import percent
from sfumato.server.counter import Counter
from sfumato.server.pages.browser_sessions import SentForm, own_origin, sent_form, visitor
from sfumato.server.pages.page_contexts import (
    AskForm,
    AskPage,
    Clicks,
    Option,
    Preview,
    PriceVerdict,
    Step,
    WaitingPage,
)
from sfumato.server.pages.released_pages import buy_sent, page_kinds, unlisted_page
from sfumato.server.pages.rendering import address, bars, first, grid, refusal_of, shown, start_of, tables, underlined
from sfumato.server.people.known_people import Caller, Role
from sfumato.server.releases.running_releases import Phase
from sfumato.server.requests import proposals
from sfumato.server.requests.calls import counter_of, in_thread

ROWS, UNITS = "rows", "units"
_FUNCTIONS = {"average": "AVG", "sum": "SUM", "median": "MEDIAN"}
_COMPARED = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TEMPORAL = {Type.DATE: "DATE ", Type.TIMESTAMP: "TIMESTAMP "}


@dataclass(frozen=True)
class Clicked:
    """This is what was clicked: the names of fields and of what was chosen in them, by their places in the policy."""

    table: str = "0"
    measure: str = ROWS
    measured: str = ""
    keys: tuple[str, ...] = ()
    filtered: str = ""
    comparison: str = "eq"
    value: str = ""

    @classmethod
    def of(cls, form: SentForm) -> Clicked:
        """Read the clicks that a form holds."""
        return cls(
            form.one("table") or "0",
            form.one("measure") or ROWS,
            form.one("measured"),
            form.every("key"),
            form.one("filtered"),
            form.one("comparison") or "eq",
            form.one("value"),
        )


def clicks(face: PublicFace, clicked: Clicked, *, opened: bool) -> Clicks:
    """List what can be clicked of a policy, with what was."""
    tables = _private(face)
    numeric = {place: _options(place, table, _adds_up, (clicked.measured,)) for place, table in tables.items()}
    names = {place: table.name for place, table in tables.items()}
    unit = face.unit.name
    offered = {ROWS: "number of rows", UNITS: f"number of each {unit} once", **{each: each for each in _FUNCTIONS}}
    if not any(table.id for table in tables.values()):
        del offered[UNITS]
    return Clicks(
        tuple(Option(place, name, place == clicked.table) for place, name in names.items()),
        tuple(Option(value, title, value == clicked.measure) for value, title in offered.items()),
        {names[place]: each for place, each in numeric.items()},
        {names[place]: _options(place, each, _tells_apart, clicked.keys) for place, each in tables.items()},
        {names[place]: _options(place, each, _any, (clicked.filtered,)) for place, each in tables.items()},
        tuple(Option(value, sign, value == clicked.comparison) for value, sign in _COMPARED.items()),
        clicked.value,
        opened,
    )


def written_sql(face: PublicFace, clicked: Clicked) -> str:
    """Write the question that was clicked together."""
    tables = _private(face)
    if clicked.table not in tables:
        raise InvalidParameter("table", clicked.table, "one of the tables of this policy")
    table = tables[clicked.table]
    keys = [quoted(_column(clicked.table, table, each, "for each").name) for each in clicked.keys]
    selected = [*keys, _measure(clicked, table)]
    lines = [f"SELECT {', '.join(selected)}", f"FROM {quoted(table.name)}"]
    if clicked.filtered:
        lines.append(f"WHERE {_condition(clicked, _column(clicked.table, table, clicked.filtered, 'only where'))}")
    if keys:
        lines.append(f"GROUP BY {', '.join(keys)}")
    return "\n".join(lines)


def _private(face: PublicFace) -> Mapping[str, PublicTable]:
    return {str(place): table for place, table in enumerate(face.tables) if not table.public}


def _options(place: str, table: PublicTable, fits: object, chosen: Iterable[str]) -> tuple[Option, ...]:
    known = set(chosen)
    return tuple(
        Option(value, column.name, value in known)
        for index, column in enumerate(table.columns)
        if fits(column)  # type: ignore[operator]
        for value in [f"{place}.{index}"]
    )


def _any(column: PublicColumn) -> bool:
    return column.most_items is None


def _adds_up(column: PublicColumn) -> bool:
    return _any(column) and column.domain.type.numeric


def _tells_apart(column: PublicColumn) -> bool:
    return _any(column) and (column.domain.values is not None or column.domain.type in (Type.BOOLEAN, Type.INTEGER))


def _column(place: str, table: PublicTable, chosen: str, field: str) -> PublicColumn:
    for index, column in enumerate(table.columns):
        if chosen == f"{place}.{index}":
            return column
    raise InvalidParameter(field, chosen, f"a column of the table that is asked, {table.name}")


def _measure(clicked: Clicked, table: PublicTable) -> str:
    if clicked.measure == ROWS:
        return "COUNT(*) AS n"
    if clicked.measure == UNITS:
        if not table.id:
            raise InvalidParameter("show", UNITS, f"rows: {table.name} has no column that says whose a row is")
        return f"COUNT(DISTINCT {quoted(table.id)}) AS n"
    if clicked.measure not in _FUNCTIONS:
        raise InvalidParameter("show", clicked.measure, f"one of {', '.join([ROWS, UNITS, *_FUNCTIONS])}")
    column = quoted(_column(clicked.table, table, clicked.measured, "of which column").name)
    return f"{_FUNCTIONS[clicked.measure]}({column}) AS {clicked.measure}"


def _condition(clicked: Clicked, column: PublicColumn) -> str:
    if clicked.comparison not in _COMPARED:
        raise InvalidParameter("comparison", clicked.comparison, f"one of {', '.join(_COMPARED.values())}")
    return f"{quoted(column.name)} {_COMPARED[clicked.comparison]} {_literal(clicked.value, column.domain.type)}"


def _literal(value: str, kind: Type) -> str:
    """Write a value as SQL has it; what is no number is written as a text, which the question then refuses."""
    if kind is Type.BOOLEAN and value.lower() in ("true", "false"):
        return value.upper()
    if kind.numeric and value.removeprefix("-").replace(".", "", 1).isdecimal() and value.isascii():
        return value
    text = "'" + value.replace("'", "''") + "'"
    return _TEMPORAL.get(kind, "") + text


KIND = "questions"
START = AskForm(epsilon="0.1")
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


def typed(form: SentForm) -> AskForm:
    """Read what was typed."""
    return AskForm(form.text("sql"), *(form.one(name) for name in _SENT[1:]))


def _asked(request: Request, caller: Caller, policy: str, form: SentForm, clicked: Clicked) -> Response:
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
    asked: AskForm,
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


def _verdict(counter: Counter, caller: Caller, policy: str, asked: AskForm) -> PriceVerdict:
    """Say what the answer would be like, or why there would be none."""
    if not asked.sql.strip():
        return PriceVerdict(asked)
    try:
        found: Forecast = _free(counter, caller, policy, asked, "error")
    except _ELSEWHERE:
        raise
    except SfumatoError as refused:
        return _refused(asked, refused)
    standing = first(counter.budget(caller, policy))
    return PriceVerdict(
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


def _refused(asked: AskForm, refused: SfumatoError) -> PriceVerdict:
    start = start_of(refused, asked.sql)
    part = underlined(asked.sql, start)
    at = -1 if part is None else len(part.before)
    return PriceVerdict(asked, refusal=refusal_of(refused), underlined=part, start=at)


def _preview(counter: Counter, caller: Caller, policy: str, asked: AskForm) -> Preview:
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


def _if_told(counter: Counter, caller: Caller, policy: str, asked: AskForm, act: str) -> Any:
    try:
        return _free(counter, caller, policy, asked, act)
    except (*_ELSEWHERE, TooManyRequests):
        raise
    except SfumatoError:  # the forecast says why
        return None


def _free(counter: Counter, caller: Caller, policy: str, asked: AskForm, act: str) -> Any:
    if act == "plot":
        drawn = {name: value for name, value in _price(asked).items() if name in ("delta", "confidence")}
        return counter.free(caller, policy, KIND, act, {"sql": asked.sql}, drawn)
    _, spec, price = proposals.read_asked(KIND, json.dumps({"act": act, **_spec(asked)}).encode())
    return counter.free(caller, policy, KIND, act, spec, price)


def _written(asked: AskForm) -> bytes:
    return json.dumps({"kind": KIND, **_spec(asked)}).encode()


def _spec(asked: AskForm) -> Mapping[str, Any]:
    return {"spec": {"sql": asked.sql}, "price": _price(asked)}


def _price(asked: AskForm) -> dict[str, str]:
    """Give the price that was typed; how close an answer is to be comes before an ε."""
    paid = {"within": asked.within} if asked.within else {"epsilon": asked.epsilon or START.epsilon}
    more = {"delta": asked.delta, "confidence": asked.confidence}
    return {**paid, **{name: value for name, value in more.items() if value}}
