"""Forty hostile texts, wherever a text of others is shown: no script runs, and the browser had nothing to refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from server.browsers import Chromium, Visit, chromium, visit
from server.pages import test_approval_pages as approval_pages
from server.pages.signed_in import sign_in
from server.running_server import RunningServer, running_server

governed = approval_pages.governed

RUN = "window.ran=1"
TEXTS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror={RUN}>',
    f"'><img src=x onerror={RUN}>",
    f'" onmouseover="{RUN}" autofocus onfocus="{RUN}',
    f"' onfocus='{RUN}' autofocus='",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"</pre></code><script>{RUN}</script>",
    f"</option></select><script>{RUN}</script>",
    f"</style><script>{RUN}</script>",
    f"<style>@import '/{RUN}'</style>",
    "<style>*{display:none}</style>",
    '<p style="position:fixed;inset:0">over all</p>',
    f"<iframe srcdoc='<script>parent.{RUN[7:]}</script>'></iframe>",
    f"<iframe src=javascript:{RUN}></iframe>",
    f"<a href=javascript:{RUN}>here</a>",
    f"javascript:{RUN}",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "<form action=//evil.example/><button>go</button>",
    "<input name=token value=stolen>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<object data=//evil.example/></object>",
    f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<math><mtext></mtext><script>{RUN}</script></math>",
    f"<template><script>{RUN}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<!--<img src=x onerror={RUN}>-->",
    f"]]><script>{RUN}</script>",
    "{{ 7 * 7 }}{% raw %}",
    "{{ frame.token }}",
    "&lt;script&gt;&#60;b&#62;",
    "&quot; onclick=&quot;x",
    "‮txt.exe﻿​",
    "%3Cscript%3E%00${7*7}`x`",
)


def test_there_are_forty_of_them() -> None:
    assert len(set(TEXTS)) == 40


def write_policy(folder: Path) -> Path:
    """Write a policy whose tables, columns and values have these names."""
    names = {f"c{place} {text}": text for place, text in enumerate(TEXTS[:12])}
    rows = {"who": [f"w{place}" for place in range(80)], "what": [TEXTS[place % 40] for place in range(80)]}
    rows |= {name: list(range(80)) for name in names}
    parquet.write_table(pyarrow.table(rows), folder / "rows.parquet")
    table = json.dumps(f"t {TEXTS[3]}", ensure_ascii=False)
    lines = [
        "[unit]",
        f"name = {json.dumps(TEXTS[2])}",
        "budget = { epsilon = 3.0 }",
        f"[tables.{table}]",
        'source = "rows.parquet"',
        'id = "who"',
        "max_rows = 1",
        f"[tables.{table}.columns]",
        f"what = {{ values = [{', '.join(json.dumps(each, ensure_ascii=False) for each in TEXTS)}] }}",
        *(f'{json.dumps(name, ensure_ascii=False)} = {{ type = "integer", bounds = [0, 80] }}' for name in names),
        "[analysts.ana]",
        "share = 0.5",
        f"[analysts.{json.dumps(TEXTS[1])}]",
        "share = 0.2",
    ]
    path = folder / "a <img src=x onerror=window.ran=1> & 'b'.toml"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("hostile")
    with running_server(folder, policy=write_policy(folder), free_per_second=1000, answer_after=0.1) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


def nothing_ran(there: Visit) -> None:
    there.page.wait_for_timeout(20)
    made = "iframe, object, base, video, body [style], [onerror], input[value=stolen], a[href^=javascript]"
    assert there.page.evaluate(f"[window.ran, document.querySelectorAll('{made}').length]") == [None, 0]
    assert there.page.url.startswith(there.served.url)
    assert not there.refused()


def test_no_hostile_text_is_obeyed_on_any_page(browser: Chromium, served: RunningServer) -> None:
    from playwright.sync_api import expect

    (name,) = served.counter.served.names
    table = '"' + f"t {TEXTS[3]}".replace('"', '""') + '"'
    with visit(browser, served) as there:
        page = there.page
        there.start_session("ana")
        there.open("/")
        nothing_ran(there)
        page.get_by_role("link", name=name).click()
        nothing_ran(there)
        page.get_by_text("Build a question").click()
        page.get_by_role("checkbox").first.check()
        page.get_by_role("button", name="Write the SQL").click()
        nothing_ran(there)
        counted = ", ".join('COUNT(*) AS "' + text.replace('"', '""') + '"' for text in TEXTS[:38])
        questions = (
            f"SELECT what, COUNT(*) AS n FROM {table} GROUP BY what",
            f"SELECT {counted} FROM {table}",
        )
        for sql in questions:
            page.get_by_label("Question in SQL").fill(sql)
            expect(page.get_by_role("button", name="Spend ε = 0.1")).to_be_visible()
            expect(page.get_by_role("region", name="Preview: invented numbers")).to_be_visible()
            nothing_ran(there)
            page.get_by_role("button", name="Spend ε = 0.1").click()
            page.wait_for_url("**/answers/*")
            nothing_ran(there)
            place = page.url
            page.goto(f"{place}.svg")
            nothing_ran(there)
            page.go_back()
            page.get_by_role("link", name="Ask", exact=True).click()
        for sql in ("\n".join(TEXTS), f"SELECT COUNT(*) FROM {TEXTS[0]}", "SELECT '" + "' '".join(TEXTS[:20])):
            page.get_by_label("Question in SQL").fill(sql)
            expect(page.get_by_role("alert")).to_be_visible()
            nothing_ran(there)
            page.get_by_role("button", name="Forecast").click()
            expect(page.get_by_role("alert")).to_be_visible()
            nothing_ran(there)
        for each in ("Budget", "History", "Data"):
            page.get_by_role("link", name=each, exact=True).click()
            nothing_ran(there)
            assert len(page.content()) < 60_000


def test_no_hostile_name_of_people_is_obeyed(browser: Chromium, served: RunningServer) -> None:
    (name,) = served.counter.served.names
    people = served.counter.people
    for text in TEXTS:
        if text.isprintable():
            with people.database.write_transaction() as rows:  # some of them hold a slash, and could not be added now
                rows.execute("INSERT INTO users VALUES (?, 'analyst', 0, 0)", (text,))
            people.new_token(text, label=text, by=text)
    with visit(browser, served) as there:
        there.start_session("olga")
        there.open("/")
        there.page.get_by_role("link", name=name).click()
        for each in ("People", "Budget", "Ledger"):
            there.page.get_by_role("link", name=each, exact=True).click()
            nothing_ran(there)
        there.page.get_by_role("link", name="People", exact=True).click()
        there.page.get_by_role("textbox", name="Name").fill(f"x{TEXTS[2]}")
        there.page.get_by_role("button", name="Add a user").click()
        there.page.get_by_role("button", name=f"New link for {TEXTS[3]}").click()
        nothing_ran(there)
        there.page.get_by_role("textbox", name="Label").fill(TEXTS[5] * 20)
        there.page.get_by_role("button", name="Create a token").click()
        nothing_ran(there)


@pytest.mark.parametrize("turn", [0, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2))])
def test_no_hostile_address_is_obeyed(browser: Chromium, served: RunningServer, turn: int) -> None:
    """A script, an element and an attribute in turn: every kind of address has one of them in each run."""
    from urllib.parse import quote

    texts = (TEXTS[0], TEXTS[3], TEXTS[5])
    with visit(browser, served) as there:
        there.start_session("ana")
        for place, path in enumerate(("/p/{}/ask", "/login/{}", "/p/{}/answers/1", "/static/{}", "/{}")):
            there.open(path.format(quote(texts[(place + turn) % len(texts)], safe="")))
            nothing_ran(there)


def test_hostile_texts_on_the_pages_of_approvals(browser: Chromium, governed: RunningServer) -> None:
    """On a telephone, with a list that is not empty: no text widens a page, runs, or looks like a part of it."""
    ana, width = sign_in(governed, "ana"), 390
    asked = {"sql": "SELECT COUNT(*) AS n FROM flights", "epsilon": "0.2", "do": "file", "request": "k"}
    filed = ana.post(f"{approval_pages.POLICY}/answers", {**asked, "purpose": approval_pages.HOSTILE})
    place = filed.headers["location"]
    ana.client.close()
    with visit(browser, governed, viewport={"width": width, "height": 844}) as there:
        for path in (f"{approval_pages.POLICY}/approvals", place, f"{approval_pages.POLICY}/history"):
            approval_pages.as_user(there, "olga", path)
            approval_pages.require_fitting(there, width)
            assert there.page.locator("script").filter(has_text="alert").count() == 0
        text = there.page.content()
        assert "\u202e" not in text
        there.open(place)
        assert "\u202e" not in there.page.content()
        assert "{{ 7 * 7 }}" in there.page.inner_text("main")
