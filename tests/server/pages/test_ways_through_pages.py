"""Every role's whole way through the pages, in a real browser, with its scripts and without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.browsers import Chromium, Visit, chromium, visit
from server.running_server import RunningServer, running_server

WITH, WITHOUT = pytest.param(True, id="scripts"), pytest.param(False, id="no scripts")
LONG_WITH, LONG_WITHOUT = (pytest.param(*each.values, id=each.id, marks=pytest.mark.long) for each in (WITH, WITHOUT))
"""Without scripts a page sends plain forms, which ``test_page_requests`` sends too; buying twice is tried in both."""
BY_ORIGIN = "SELECT origin, COUNT(*) AS flights\nFROM flights\nGROUP BY origin"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("served"), free_per_second=1000, answer_after=0.1) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


def forecast(there: Visit, sql: str, epsilon: str, scripts: bool) -> Any:
    """Type a question; without scripts, press the button, too."""
    there.page.get_by_label("Question in SQL").fill(sql)
    there.page.get_by_label("Price ε").fill(epsilon)
    if not scripts:
        there.page.get_by_role("button", name="Forecast").click()
    return there.page.get_by_role("region", name="Forecast free")


@pytest.mark.parametrize("scripts", [WITH, LONG_WITHOUT])
def test_an_analyst_asks_and_comes_back_to_the_answer(browser: Chromium, served: RunningServer, scripts: bool) -> None:
    from playwright.sync_api import expect

    before, epsilon = served.spent(), "0.03" if scripts else "0.04"
    with visit(browser, served, java_script_enabled=scripts) as there:
        page = there.page
        there.sign_in("ana")
        page.get_by_role("link", name="flights").click()
        expect(page.get_by_role("link", name="People")).to_have_count(0)
        told = forecast(there, BY_ORIGIN.replace("FROM", "FORM"), epsilon, scripts)
        expect(told.get_by_role("alert")).to_contain_text("did you mean FROM instead of FORM?")
        told = forecast(there, BY_ORIGIN.replace("COUNT(*)", "COUNT(*), AVG(dealy)"), epsilon, scripts)
        expect(told.get_by_role("alert")).to_contain_text("did you mean delay?")
        expect(told.locator("mark")).to_have_text("dealy")
        expect(page.locator("#under mark")).to_have_text("dealy")
        expect(page.get_by_role("button", name="Spend")).to_have_count(0)
        told = forecast(there, BY_ORIGIN, epsilon, scripts)
        expect(told.get_by_role("row", name="flights")).to_contain_text("±")
        expect(told).to_contain_text("left after this answer")
        expect(page.get_by_role("region", name="Preview: invented numbers")).to_contain_text("JFK")
        expect(page.locator("#preview svg[role=img]")).to_be_visible()
        page.get_by_text("Explanation").click()
        expect(page.get_by_text("protects all rows of one plane, add-remove")).to_be_visible()
        page.get_by_role("button", name=f"Spend ε = {epsilon}").click()
        page.wait_for_url("**/answers/*")
        place = page.url
        expect(page.get_by_role("row", name="JFK")).to_contain_text("±")
        assert page.locator("figure img").evaluate("image => image.complete && image.naturalWidth > 0")
        expect(page.get_by_text("left of the share of ana for ordinary answers")).to_be_visible()
        with page.expect_download() as taken:
            page.get_by_role("link", name="CSV").click()
        assert "JFK" in taken.value.path().read_text()
        page.get_by_role("link", name="History").click()
        page.get_by_role("link", name=re.compile("^Answer ")).first.click()
        assert page.url == place
        page.get_by_role("link", name="Budget").click()
        expect(page.get_by_role("heading", name="Share of ana")).to_be_visible()
        expect(page.get_by_role("heading", name="For the owner")).to_have_count(0)
        page.get_by_role("link", name="Data").click()
        expect(page.get_by_text("Every answer would have come out almost the same")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        assert not there.refused()
        page.goto(place)
        expect(page.get_by_role("heading", name="Please sign in")).to_be_visible()
    assert served.spent() == before + 1


@pytest.mark.parametrize("scripts", [WITH, LONG_WITHOUT])
def test_clicks_write_a_question_that_can_be_seen(browser: Chromium, served: RunningServer, scripts: bool) -> None:
    from playwright.sync_api import expect

    with visit(browser, served, java_script_enabled=scripts) as there:
        page = there.page
        there.start_session("ana")
        there.open("/p/flights/ask")
        page.get_by_text("Build a question").click()
        page.get_by_role("combobox", name="Measure").select_option("average")
        page.get_by_role("combobox", name="Column").select_option(label="delay")
        page.get_by_role("checkbox", name="origin").check()
        page.get_by_role("combobox", name="Where").select_option(label="day")
        page.get_by_role("combobox", name="Comparison").select_option(label=">=")
        page.get_by_role("textbox", name="Value").fill("2013-07-01")
        page.get_by_role("button", name="Write the SQL").click()
        written = "SELECT origin, AVG(delay) AS average\nFROM flights\nWHERE day >= DATE '2013-07-01'\nGROUP BY origin"
        expect(page.get_by_label("Question in SQL")).to_have_value(written)
        expect(page.get_by_role("button", name="Spend ε = 0.1")).to_be_visible()
        page.get_by_text("Example questions").click()
        page.get_by_role("button", name="how many rows there are").click()
        expect(page.get_by_label("Question in SQL")).to_have_value("SELECT COUNT(*) AS n FROM flights")
        assert not there.refused()


@pytest.mark.parametrize("scripts", [WITH, LONG_WITHOUT])
def test_a_regression_is_bought_from_its_form(browser: Chromium, served: RunningServer, scripts: bool) -> None:
    from playwright.sync_api import expect

    before, epsilon = served.spent(), "0.11" if scripts else "0.12"
    with visit(browser, served, java_script_enabled=scripts) as there:
        page = there.page
        there.start_session("olga")
        there.open("/p/flights/kinds/regress")
        page.locator("input[name=table]").fill("flights")
        page.locator("input[name=formula]").fill("delay ~ distance + weather")
        page.locator("input[name=epsilon]").fill(epsilon)
        page.locator("input[name=delta]").fill("1e-7")
        page.get_by_role("button", name="Explain, free").click()
        expect(page.get_by_role("alert")).to_contain_text("weather")
        page.locator("input[name=formula]").fill("delay ~ distance")
        page.get_by_role("button", name="Explain, free").click()
        assert served.spent() == before
        page.get_by_role("button", name="Spend").click()
        page.wait_for_url("**/answers/*")
        expect(page.get_by_role("row", name="distance")).to_contain_text("±")
        assert page.locator("figure img").evaluate("image => image.complete && image.naturalWidth > 0")
        assert not there.refused()
    assert served.spent() == before + 1


@pytest.mark.parametrize("scripts", [WITH, WITHOUT])
def test_a_double_click_pays_once(browser: Chromium, served: RunningServer, scripts: bool) -> None:
    from playwright.sync_api import expect

    before, epsilon = served.spent(), "0.05" if scripts else "0.06"
    with visit(browser, served, java_script_enabled=scripts) as there:
        there.start_session("ben")
        there.open("/p/flights/ask")
        forecast(there, "SELECT COUNT(*) AS n FROM flights", epsilon, scripts)
        there.page.get_by_role("button", name=f"Spend ε = {epsilon}").dblclick(delay=5)
        expect(there.page).to_have_url(re.compile("/answers/"))
        assert not there.refused()
    assert served.spent() == before + 1


@pytest.mark.parametrize("scripts", [WITH, LONG_WITHOUT])
def test_an_owner_lets_people_in_and_pauses(browser: Chromium, served: RunningServer, scripts: bool) -> None:
    from playwright.sync_api import expect

    name = "kim" if scripts else "lee"
    with visit(browser, served, java_script_enabled=scripts) as there, visit(browser, served) as guest:
        page = there.page
        there.start_session("olga")
        there.open("/p/flights/people")
        page.get_by_role("textbox", name="Name").fill(name)
        page.get_by_role("combobox", name="Role").select_option("auditor")
        page.get_by_role("button", name="Add a user").click()
        page.get_by_role("button", name=f"New link for {name}").click()
        guest.page.goto(page.locator(".secret").inner_text())
        guest.page.get_by_role("button", name="Sign in").click()
        expect(guest.page.get_by_text(name)).to_be_visible()
        page.get_by_role("combobox", name="User").select_option(name)
        page.get_by_label("Limit on ε").fill("0.5")
        page.get_by_role("button", name="Create a token").click()
        expect(page.locator(".secret")).to_have_text(re.compile("^sfu_"))
        page.get_by_role("button", name=f"Disable {name}").click()
        guest.page.reload()
        expect(guest.page.get_by_role("heading", name="Please sign in")).to_be_visible()
        page.get_by_role("link", name="Budget").click()
        expect(page.get_by_role("heading", name="Share of ben")).to_be_visible()
        page.get_by_role("button", name="Pause this policy").click()
        expect(page.get_by_text("The owner has paused this policy")).to_be_visible()
        page.get_by_role("button", name="Resume this policy").click()
        expect(page.get_by_role("button", name="Pause this policy")).to_be_visible()
        assert not there.refused()


@pytest.mark.parametrize("scripts", [LONG_WITH, WITHOUT])
def test_an_auditor_sees_everything_and_asks_nothing(browser: Chromium, served: RunningServer, scripts: bool) -> None:
    from playwright.sync_api import expect

    with visit(browser, served, java_script_enabled=scripts) as there:
        page = there.page
        there.start_session("audrey")
        there.open("/")
        page.get_by_role("link", name="flights").click()
        expect(page.get_by_role("heading", name="Account")).to_be_visible()
        expect(page.get_by_role("link", name="Ask")).to_have_count(0)
        page.get_by_role("link", name="History").click()
        expect(page.get_by_text("account opened")).to_be_visible()
        page.get_by_role("link", name="People").click()
        expect(page.get_by_role("heading", name="Owner actions")).to_be_visible()
        expect(page.get_by_role("button", name="Add a user")).to_have_count(0)
        page.get_by_role("link", name="Ledger").click()
        page.get_by_role("button", name="Verify every line").click()
        expect(page.get_by_role("status")).to_contain_text("all as they were written")
        with page.expect_download() as taken:
            page.get_by_role("link", name="JSON").click()
        assert "account-open" in taken.value.path().read_text()
        assert not there.refused()
        assert there.open("/p/flights/ask").status == 403


@pytest.mark.parametrize("wide", [360, pytest.param(1280, marks=pytest.mark.long)])
def test_no_page_is_wider_than_its_window_and_the_keyboard_reaches_all(
    browser: Chromium, served: RunningServer, wide: int
) -> None:
    with visit(browser, served, viewport={"width": wide, "height": 740}) as there:
        there.start_session("olga")
        for name in ("ask", "budget", "history", "data", "approvals", "people", "ledger"):
            there.open(f"/p/flights/{name}")
            assert there.page.evaluate("document.documentElement.scrollWidth") <= wide
            there.page.keyboard.press("Tab")
            assert there.page.evaluate("document.activeElement.textContent") == "Skip to the content"
            controls = "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button')]"
            is_unnamed = "e => !(e.labels && e.labels.length) && e.textContent.trim() === ''"
            assert there.page.evaluate(f"{controls}.filter({is_unnamed}).map(e => e.outerHTML)") == []
            assert there.page.evaluate("document.querySelectorAll('main, header, h1').length") == 3
        assert not there.refused()


LONG = """
[unit]
name = "patient"
budget = { epsilon = 9 }

[tables.admissions]
source = "admissions.csv"
id = "patient"
max_rows = 200
[tables.admissions.columns]
region = { values = ["north", "south"] }
patient_id = { type = "integer", bounds = [0, 100000] }
costs = { type = "real", bounds = [0, 1000000] }

[analysts.ana]
share = 1
"""
CUT = "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
SCROLLED = "[...document.querySelectorAll('#preview .picture')].filter(e => e.scrollWidth > e.clientWidth)"
BROKEN = """
[...document.querySelectorAll('.wide th, button.insert')].flatMap(cell => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  while (walk.nextNode()) {
    for (const word of walk.currentNode.data.matchAll(/[^_\\s]+/g)) {
      const range = document.createRange();
      range.setStart(walk.currentNode, word.index);
      range.setEnd(walk.currentNode, word.index + word[0].length);
      if (range.getClientRects().length > 1) broken.push(word[0]);
    }
  }
  return broken;
})
"""


@pytest.mark.parametrize("wide", [360, pytest.param(1280, marks=pytest.mark.long)])
def test_no_number_is_cut_and_no_word_is_broken(browser: Chromium, tmp_path: Path, wide: int) -> None:
    (tmp_path / "flights.toml").write_text(LONG)
    (tmp_path / "admissions.csv").write_text("patient,region,patient_id,costs\np1,north,1,5.5\n")
    sql = "SELECT region, COUNT(*) AS n, SUM(costs) AS sum_of_costs FROM admissions GROUP BY region"
    with (
        running_server(tmp_path, policy=tmp_path / "flights.toml", free_per_second=1000, answer_after=0.01) as served,
        visit(browser, served, viewport={"width": wide, "height": 740}) as there,
    ):
        served.counter.people.new_token("ana", label="dashboards", most="0.5", by="tests")
        line = served.buy("ana", "long", sql, price={"epsilon": "0.125"}).json()["line"]
        there.start_session("ana")
        there.open("/p/flights/ask")
        forecast(there, sql, "0.125", scripts=False)
        there.page.wait_for_selector("#preview .picture svg")
        assert there.page.evaluate(SCROLLED) == []
        for place in ("", f"answers/{line}", "data"):
            there.open(f"/p/flights/{place}") if place else there.page.wait_for_selector("#forecast .wide")
            assert there.page.evaluate(CUT) == []
            assert there.page.evaluate(BROKEN) == []
        there.page.context.clear_cookies()
        there.start_session("olga")
        there.open("/p/flights/people")
        assert there.page.evaluate(CUT) == []
        tokens = there.page.get_by_role("region", name="Tokens").inner_text()
        assert ("0.125" in tokens, "0 of 0.5" in tokens, "dashboards" in tokens) == (True, True, True)
