"""The page that asks questions: typed in SQL or built from form choices, forecast for free, bought with one button.

The forecast's button sits in a form of its own that holds the question, the price and the request id, so what is bought
is exactly what was forecast. Form choices become SQL that can be seen and edited.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.curator import Explanation, Forecast
from sfumato.curator.previews.explaining import format_offered_delta
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
from sfumato.plan.quoting import quoted
from sfumato.policy import Type
from sfumato.policy.public_faces import PublicColumn, PublicFace, PublicTable
from sfumato.privacy.numbers import format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.server.approvals import RequestedRelease
from sfumato.server.gateway import Gateway
from sfumato.server.pages.page_contexts import (
    AskForm,
    AskPage,
    BuilderOptions,
    ExplainedStep,
    Preview,
    PriceVerdict,
    SelectOption,
    WaitingPage,
)
from sfumato.server.pages.released_pages import file_and_redirect, page_kinds, release_and_redirect, uncharged_page
from sfumato.server.pages.rendering import (
    SentForm,
    authenticate_visitor,
    authenticated_form,
    budget_bars,
    mark_word_from,
    page_path,
    refusal_message,
    refused_character_index,
    render_page,
    server_origin,
    standing_or_fresh_period,
    table_contexts,
    text_table,
)
from sfumato.server.people.users import Caller, Role
from sfumato.server.releases.running_releases import Phase
from sfumato.server.requests import proposals
from sfumato.server.requests.calls import request_gateway, run_in_thread

ROWS, UNITS = "rows", "units"
_CURVE_WIDTH = 420
"""The width of the curve of errors in pixels: its letters are still read where a phone shows it smaller."""
_FUNCTIONS = {"average": "AVG", "sum": "SUM", "median": "MEDIAN"}
_COMPARISON_SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LITERAL_PREFIXES = {Type.DATE: "DATE ", Type.TIMESTAMP: "TIMESTAMP "}


@dataclass(frozen=True)
class BuilderChoices:
    """The choices of the question builder: tables and columns by their positions in the policy."""

    table: str = "0"
    measure: str = ROWS
    measured: str = ""
    keys: tuple[str, ...] = ()
    filtered: str = ""
    comparison: str = "eq"
    value: str = ""

    @classmethod
    def from_form(cls, form: SentForm) -> BuilderChoices:
        """Read the choices from a form."""
        return cls(
            form.value("table") or "0",
            form.value("measure") or ROWS,
            form.value("measured"),
            form.values("key"),
            form.value("filtered"),
            form.value("comparison") or "eq",
            form.value("value"),
        )


def builder_options(face: PublicFace, clicked: BuilderChoices, *, opened: bool) -> BuilderOptions:
    """List the options of the question builder, with the current choices marked."""
    private_tables = _private_tables(face)
    numeric_columns = {
        index: _column_options(index, table, _is_numeric, (clicked.measured,))
        for index, table in private_tables.items()
    }
    names = {index: table.name for index, table in private_tables.items()}
    unit = face.unit.name
    measures = {
        ROWS: "number of rows",
        UNITS: f"number of units (each {unit} counts once)",
        **{function: function for function in _FUNCTIONS},
    }
    if not any(table.id for table in private_tables.values()):
        del measures[UNITS]
    return BuilderOptions(
        tuple(SelectOption(index, name, index == clicked.table) for index, name in names.items()),
        tuple(SelectOption(value, title, value == clicked.measure) for value, title in measures.items()),
        {names[index]: columns for index, columns in numeric_columns.items()},
        {
            names[index]: _column_options(index, table, _is_groupable, clicked.keys)
            for index, table in private_tables.items()
        },
        {
            names[index]: _column_options(index, table, _is_single_valued, (clicked.filtered,))
            for index, table in private_tables.items()
        },
        tuple(SelectOption(value, sign, value == clicked.comparison) for value, sign in _COMPARISON_SIGNS.items()),
        clicked.value,
        opened,
    )


def build_sql(face: PublicFace, clicked: BuilderChoices) -> str:
    """Write the question that the choices describe."""
    private_tables = _private_tables(face)
    if clicked.table not in private_tables:
        raise InvalidParameter(
            "table", clicked.table, "one of the tables of this policy", fix="reload the page, and choose a table"
        )
    table = private_tables[clicked.table]
    keys = [quoted(_require_chosen_column(clicked.table, table, key, "group by").name) for key in clicked.keys]
    selected = [*keys, _measure_sql(clicked, table)]
    lines = [f"SELECT {', '.join(selected)}", f"FROM {quoted(table.name)}"]
    if clicked.filtered:
        lines.append(
            f"WHERE {_condition_sql(clicked, _require_chosen_column(clicked.table, table, clicked.filtered, 'where'))}"
        )
    if keys:
        lines.append(f"GROUP BY {', '.join(keys)}")
    return "\n".join(lines)


def _private_tables(face: PublicFace) -> Mapping[str, PublicTable]:
    return {str(index): table for index, table in enumerate(face.tables) if not table.public}


def _column_options(
    table_index: str, table: PublicTable, is_offered: object, chosen: Iterable[str]
) -> tuple[SelectOption, ...]:
    chosen_values = set(chosen)
    return tuple(
        SelectOption(value, column.name, value in chosen_values)
        for index, column in enumerate(table.columns)
        if is_offered(column)  # type: ignore[operator]
        for value in [f"{table_index}.{index}"]
    )


def _is_single_valued(column: PublicColumn) -> bool:
    return column.most_items is None


def _is_numeric(column: PublicColumn) -> bool:
    return _is_single_valued(column) and column.domain.type.numeric


def _is_groupable(column: PublicColumn) -> bool:
    return _is_single_valued(column) and (
        column.domain.values is not None or column.domain.type in (Type.BOOLEAN, Type.INTEGER)
    )


def _require_chosen_column(table_index: str, table: PublicTable, chosen: str, field: str) -> PublicColumn:
    for index, column in enumerate(table.columns):
        if chosen == f"{table_index}.{index}":
            return column
    raise InvalidParameter(
        field,
        chosen,
        f"a column of the table {table.name}",
        fix=f"reload the page, and choose a column of {table.name}",
    )


def _measure_sql(clicked: BuilderChoices, table: PublicTable) -> str:
    if clicked.measure == ROWS:
        return "COUNT(*) AS n"
    if clicked.measure == UNITS:
        if not table.id:
            raise InvalidParameter(
                "measure",
                UNITS,
                f"the number of rows, because {table.name} has no id column to count units by",
                fix="choose the number of rows",
            )
        return f"COUNT(DISTINCT {quoted(table.id)}) AS n"
    if clicked.measure not in _FUNCTIONS:
        raise InvalidParameter("measure", clicked.measure, f"one of {', '.join([ROWS, UNITS, *_FUNCTIONS])}")
    column = quoted(_require_chosen_column(clicked.table, table, clicked.measured, "column").name)
    return f"{_FUNCTIONS[clicked.measure]}({column}) AS {clicked.measure}"


def _condition_sql(clicked: BuilderChoices, column: PublicColumn) -> str:
    if clicked.comparison not in _COMPARISON_SIGNS:
        raise InvalidParameter("comparison", clicked.comparison, f"one of {', '.join(_COMPARISON_SIGNS.values())}")
    literal = _literal_sql(clicked.value, column.domain.type)
    return f"{quoted(column.name)} {_COMPARISON_SIGNS[clicked.comparison]} {literal}"


def _literal_sql(value: str, sql_type: Type) -> str:
    """Write a value as an SQL literal; a value that is no number becomes a string, which the question then refuses."""
    if sql_type is Type.BOOLEAN and value.lower() in ("true", "false"):
        return value.upper()
    if sql_type.numeric and value.removeprefix("-").replace(".", "", 1).isdecimal() and value.isascii():
        return value
    quoted_value = "'" + value.replace("'", "''") + "'"
    return _LITERAL_PREFIXES.get(sql_type, "") + quoted_value


KIND = "questions"
START = AskForm(epsilon="0.1")
_PAGE_ERRORS = (NotAllowed, NotSignedIn, NotThere, Unanswered)
"""Errors that are not about the question, and get a page of their own."""
_FIELDS = ("sql", "epsilon", "delta", "within", "confidence")


async def show_ask(request: Request) -> Response:
    """Show the page with no question yet."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    return await run_in_thread(_render_page, request, caller, policy, START, BuilderChoices(), opened=False)


async def fill_in_question(request: Request) -> Response:
    """Build SQL from the choices, copy an example question, or forecast, depending on the button."""
    caller, form = await authenticated_form(request)
    policy, clicked = request.path_params["policy"], BuilderChoices.from_form(form)
    return await run_in_thread(_fill_in_question, request, caller, policy, form, clicked)


async def forecast(request: Request) -> Response:
    """Return the forecast alone, for the script of an open page."""
    caller, form = await authenticated_form(request)
    policy = request.path_params["policy"]
    verdict = await run_in_thread(_forecast_verdict, request_gateway(request), caller, policy, parse_ask_form(form))
    return render_page(request, "forecast_part.html", verdict, title="Forecast", caller=caller, policy=policy)


async def preview(request: Request) -> Response:
    """Return explanation, error curve and preview, for the script of an open page."""
    caller, form = await authenticated_form(request)
    policy = request.path_params["policy"]
    context = await run_in_thread(_build_preview, request_gateway(request), caller, policy, parse_ask_form(form))
    return render_page(request, "preview_part.html", context, title="Preview", caller=caller, policy=policy)


async def buy(request: Request) -> Response:
    """Release what was forecast: once, however often the button is pressed."""
    caller, form = await authenticated_form(request)
    policy, entered = request.path_params["policy"], parse_ask_form(form)
    try:
        if form.value("do") == "file":
            return await file_and_redirect(request, caller, policy, _release_body(entered), form.value("purpose"))
        return await release_and_redirect(request, caller, policy, _release_body(entered), form.value("request"))
    except _PAGE_ERRORS:
        raise
    except SfumatoError as error:
        return await run_in_thread(
            _render_page, request, caller, policy, entered, BuilderChoices(), opened=False, error=error
        )


async def wait_for_answer(request: Request) -> Response:
    """Show the phase of a release, refreshing until it redirects to the answer."""
    caller, policy = await authenticate_visitor(request), request.path_params["policy"]
    progress = await run_in_thread(request_gateway(request).progress, caller, policy, request.path_params["request"])
    if progress.line:
        return RedirectResponse(page_path(policy, "answers", progress.line), 303)
    if progress.phase is Phase.DONE:  # nothing was bought, so there is no ledger line
        answer = await run_in_thread(
            request_gateway(request).answer_of_request, caller, policy, request.path_params["request"]
        )
        return await run_in_thread(uncharged_page, request, caller, policy, answer)
    page = render_page(
        request, "waiting.html", WaitingPage(progress.phase.value), title="In progress", caller=caller, policy=policy
    )
    page.headers["Refresh"] = "2"
    return page


def parse_ask_form(form: SentForm) -> AskForm:
    """Read the question and the price from a form."""
    return AskForm(form.text("sql"), *(form.value(name) for name in _FIELDS[1:]))


def _fill_in_question(
    request: Request, caller: Caller, policy: str, form: SentForm, clicked: BuilderChoices
) -> Response:
    entered, action = parse_ask_form(form), form.value("do")
    if action == "write":
        try:
            face = request_gateway(request).policy(caller, policy)
            entered = replace(entered, sql=build_sql(face, clicked))
        except _PAGE_ERRORS:
            raise
        except SfumatoError as error:
            return _render_page(request, caller, policy, entered, clicked, opened=True, error=error)
    if action.startswith("copy "):
        entered = replace(
            entered, sql=_example_sql(request_gateway(request), caller, policy, action.removeprefix("copy "))
        )
    return _render_page(request, caller, policy, entered, clicked, opened=action == "write")


def _example_sql(gateway: Gateway, caller: Caller, policy: str, position: str) -> str:
    questions = [question.sql for table in gateway.tables(caller, policy).values() for question in table.questions]
    if not position.isdecimal() or not position.isascii() or int(position) >= len(questions):
        raise InvalidRequest(
            "this example question no longer exists", place="the form", fix="reload the page, and choose another"
        )
    return questions[int(position)]


def _render_page(
    request: Request,
    caller: Caller,
    policy: str,
    entered: AskForm,
    clicked: BuilderChoices,
    *,
    opened: bool,
    error: SfumatoError | None = None,
) -> Response:
    gateway = request_gateway(request)
    caller.require("asking", Role.OWNER, Role.ANALYST)
    face, standing = gateway.policy(caller, policy), standing_or_fresh_period(gateway.budget(caller, policy))
    verdict = _forecast_verdict(gateway, caller, policy, entered) if entered.sql.strip() else None
    if error is not None:
        verdict = _refusal_verdict(entered, error)
    preview_context = (
        _build_preview(gateway, caller, policy, entered) if verdict is not None and verdict.refusal is None else None
    )
    page = AskPage(
        entered,
        builder_options(face, clicked, opened=opened),
        table_contexts(gateway.tables(caller, policy), questions=True),
        budget_bars(standing),
        standing.ordinary,
        server_origin(request),
        f"curator = sf.connect({server_origin(request)!r}, {policy!r})",
        tuple((name, kind.summary) for name, kind in page_kinds().items()),
        verdict,
        preview_context,
    )
    return render_page(
        request,
        "ask.html",
        page,
        title="Ask",
        caller=caller,
        policy=policy,
        paused=gateway.is_paused(caller, policy),
        status=200 if error is None else outcome(error).http_status,
    )


def _forecast_verdict(gateway: Gateway, caller: Caller, policy: str, entered: AskForm) -> PriceVerdict:
    """Forecast the answer, or explain why it would be refused."""
    if not entered.sql.strip():
        return PriceVerdict(entered)
    try:
        error_forecast: Forecast = _free_call(gateway, caller, policy, entered, "error")
    except _PAGE_ERRORS:
        raise
    except SfumatoError as error:
        return _refusal_verdict(entered, error)
    standing = standing_or_fresh_period(gateway.budget(caller, policy))
    # the button buys at the δ that the forecast states; the field stays empty, so that the next question has none
    assumed_delta = (
        format_offered_delta(error_forecast.assumed_delta) if error_forecast.assumed_delta else entered.delta
    )
    bought = replace(entered, delta=assumed_delta)
    return PriceVerdict(
        bought,
        error_forecast.price,
        tuple(error_forecast.rows()),
        format_percent(error_forecast.confidence),
        error_forecast.left,
        standing.ordinary,
        standing.details()[0],
        error_forecast.accepted,
        error_forecast.stored,
        error_forecast.accepted and not error_forecast.left,  # measures nothing, so it costs nothing
        error_forecast.free,
        (*error_forecast.caveat_lines(), *error_forecast.warnings, *filter(None, [error_forecast.advice])),
        error_forecast.counted,
        f"page-{bits.random_bits(128):032x}",
        _approval_reason(gateway, caller, policy, bought) if error_forecast.accepted else "",
    )


def _approval_reason(gateway: Gateway, caller: Caller, policy: str, entered: AskForm) -> str:
    """Say why this would wait for an owner's approval; whatever else is wrong with it is shown by the forecast."""
    try:
        release = RequestedRelease(*proposals.decode_kind_spec_and_price(_release_body(entered)))
        return gateway.requests.approval_reason(caller, policy, release)
    except _PAGE_ERRORS:
        raise
    except SfumatoError:
        return ""


def _refusal_verdict(entered: AskForm, error: SfumatoError) -> PriceVerdict:
    start = refused_character_index(error, entered.sql)
    split_text = mark_word_from(entered.sql, start)
    start_index = -1 if split_text is None else len(split_text.before)
    return PriceVerdict(entered, refusal=refusal_message(error), underlined=split_text, start=start_index)


def _build_preview(gateway: Gateway, caller: Caller, policy: str, entered: AskForm) -> Preview:
    """Collect the free parts that take a little longer; parts that cannot be computed are left out."""
    if not entered.sql.strip():
        return Preview()
    explanation: Explanation | None = _free_answer_or_none(gateway, caller, policy, entered, "explain")
    # a curve over found groups takes seconds: it is drawn for a δ that was typed, not for one that is assumed
    is_delta_assumed = explanation is not None and "δ" in explanation.price and not entered.delta
    picture = None if is_delta_assumed else _free_answer_or_none(gateway, caller, policy, entered, "plot")
    invented = _free_answer_or_none(gateway, caller, policy, entered, "preview")
    steps = (
        ()
        if explanation is None
        else tuple(ExplainedStep(operator.name, operator.what, operator.effect) for operator in explanation.operators)
    )
    return Preview(
        steps,
        "" if explanation is None else explanation.reason,
        "" if explanation is None else explanation.advice,
        None if picture is None else Markup(picture.without_style()),
        None if invented is None else text_table(invented),
    )


def _free_answer_or_none(gateway: Gateway, caller: Caller, policy: str, entered: AskForm, act: str) -> Any:
    try:
        return _free_call(gateway, caller, policy, entered, act)
    except (*_PAGE_ERRORS, TooManyRequests):
        raise
    except SfumatoError:  # the forecast shows the reason
        return None


def _free_call(gateway: Gateway, caller: Caller, policy: str, entered: AskForm, act: str) -> Any:
    if act == "plot":
        plot_terms = {
            name: value for name, value in _entered_price_terms(entered).items() if name in ("delta", "confidence")
        }
        return gateway.call_free(caller, policy, KIND, act, {"sql": entered.sql}, plot_terms | {"width": _CURVE_WIDTH})
    _, spec, price = proposals.decode_act_spec_and_price(
        KIND, json.dumps({"act": act, **_spec_and_price_body(entered)}).encode()
    )
    return gateway.call_free(caller, policy, KIND, act, spec, price)


def _release_body(entered: AskForm) -> bytes:
    return json.dumps({"kind": KIND, **_spec_and_price_body(entered)}).encode()


def _spec_and_price_body(entered: AskForm) -> Mapping[str, Any]:
    return {"spec": {"sql": entered.sql}, "price": _entered_price_terms(entered)}


def _entered_price_terms(entered: AskForm) -> dict[str, str]:
    """Return the price that was typed; a target width takes precedence over ε."""
    main_term = {"within": entered.within} if entered.within else {"epsilon": entered.epsilon or START.epsilon}
    optional_terms = {"delta": entered.delta, "confidence": entered.confidence}
    return {**main_term, **{name: value for name, value in optional_terms.items() if value}}
