"""Pages of requests for approval: filed from a forecast, decided by an owner, released by its requester."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from server.browsers import Chromium, Visit, chromium, visit
from server.pages.signed_in import SignedIn, fields, sign_in
from server.running_server import RunningServer, running_server

POLICY = "/p/flights"
TODAY = datetime.now(UTC).date()
QUESTION = {"sql": "SELECT COUNT(*) AS n FROM flights WHERE distance > 300", "epsilon": "0.2"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("approvals"), free_per_second=1000) as running:
        policy = running.folder / "flights" / "flights.toml"
        policy.write_text(f"{policy.read_text()}\n[approval]\nabove = 0.1\n")
        yield running


@pytest.fixture(scope="module")
def people(served: RunningServer) -> Iterator[dict[str, SignedIn]]:
    signed_in = {name: sign_in(served, name) for name in ("olga", "ana", "ben", "audrey")}
    yield signed_in
    for each in signed_in.values():
        each.client.close()


def filed(ana: SignedIn, question: dict[str, str] = QUESTION, purpose: str = "the <b>yearly</b> report") -> str:
    forecast = ana.post(f"{POLICY}/ask", {**question, "do": "forecast"}).text
    assert "Request approval" in forecast
    assert "its ε of 0.2 is above the policy&#39;s limit of 0.1" in forecast
    sent = ana.post(f"{POLICY}/answers", {**question, "do": "file", "purpose": purpose, "request": "k"})
    assert sent.status_code == 303, sent.text
    return str(sent.headers["location"])


def test_a_request_on_the_pages(people: dict[str, SignedIn]) -> None:
    ana, olga = people["ana"], people["olga"]
    place = filed(ana)
    own = ana.get(place).text
    assert "the &lt;b&gt;yearly&lt;/b&gt; report" in own
    assert "Withdraw" in own
    assert "Approve<" not in own
    listed = olga.get(f"{POLICY}/approvals").text
    assert "Grant a share" in listed
    assert f'href="{place}"' in listed
    page = olga.get(place).text
    for shown in (
        "not covered by the privacy guarantee",
        "left after this release",
        "a belief of 1 % becomes at most",
        "stored answer",
        "Approve",
    ):
        assert shown in page
    refused = olga.post(place, {"do": "refuse", "reason": ""})
    assert refused.status_code == 400
    assert "the ledger keeps it permanently" in refused.text
    assert olga.post(place, {"do": "approve", "reason": ""}).status_code == 303
    approved = ana.get(place).text
    assert "Release it" in approved
    released = ana.post(place, {"do": "release", "request": fields(approved)["request"]})
    assert "/answers/" in released.headers["location"]
    assert "released" in ana.get(place).text
    line = released.headers["location"].rpartition("/")[2]
    assert "Mark for publication" in ana.get(released.headers["location"]).text
    marked = ana.post(f"{POLICY}/approvals", {"do": "publish", "line": line, "purpose": "a journal"})
    assert f"lines {line}" in olga.get(marked.headers["location"]).text
    assert ana.post(f"{POLICY}/approvals", {"do": "publish", "line": "1", "purpose": "x"}).status_code == 400
    assert "approval requested" in olga.get(f"{POLICY}/history").text


def test_whoever_has_approved_is_not_asked_again(governed: RunningServer) -> None:
    signed_in = {name: sign_in(governed, name) for name in ("ana", "olga", "oda")}
    asked = {**QUESTION, "do": "file", "purpose": "a chart", "request": "k"}
    place = signed_in["ana"].post(f"{POLICY}/answers", asked).headers["location"]
    assert "nobody yet (0 of 2 needed)" in signed_in["olga"].get(place).text
    assert signed_in["olga"].post(place, {"do": "approve", "reason": ""}).status_code == 303
    for name, offered in (("olga", False), ("oda", True)):
        page = signed_in[name].get(place).text
        assert ("olga (1 of 2 needed)" in page, 'value="approve"' in page, "Refuse" in page) == (True, offered, True)
    for each in signed_in.values():
        each.client.close()


def test_who_sees_which_page(people: dict[str, SignedIn]) -> None:
    place = filed(people["ana"], {**QUESTION, "sql": f"{QUESTION['sql']} AND distance < 900"})
    assert people["ben"].get(place).status_code == 404
    assert "No requests yet" in people["ben"].get(f"{POLICY}/approvals").text
    seen = people["audrey"].get(place)
    assert (seen.status_code, "Decide" in seen.text) == (200, False)
    assert people["audrey"].post(place, {"do": "approve"}).status_code == 403
    assert people["ana"].post(place, {"do": "approve"}).status_code == 403
    assert people["ana"].post(place, {"do": "withdraw"}).status_code == 303
    assert people["olga"].post(place, {"do": "approve"}).status_code == 409
    assert people["olga"].post(place, {"do": "nothing"}).status_code == 400
    assert people["ana"].get(f"{POLICY}/approvals/999999").status_code == 404


def test_a_share_on_the_pages(people: dict[str, SignedIn]) -> None:
    olga, terms = people["olga"], {"user": "ana", "epsilon": "0.3", "days": "7", "purpose": "drafts", "do": "grant"}
    granted = olga.post(
        f"{POLICY}/approvals", {**terms, "tables": "flights", "kinds": "questions, marginals", "measures": "count"}
    )
    shown = olga.get(granted.headers["location"]).text
    assert "up to ε = 0.3" in shown
    assert "counts only" in shown
    listed = olga.get(f"{POLICY}/approvals").text
    assert "ε = 0 of 0.3 used" in listed
    assert "<b>approved</b><span>share</span>" in listed
    for wrong in (
        {"days": "x"},
        {"epsilon": "-1"},
        {"tables": "nothing"},
        {"measures": "counts"},
        {"purpose": " "},
        {"user": "olga"},
        {"days": ""},
        {"until": str(TODAY)},
        {"days": "", "until": str(TODAY - timedelta(days=2))},
        {"days": "", "until": "30.6.2027"},
    ):
        assert olga.post(f"{POLICY}/approvals", {**terms, **wrong}).status_code == 400
    assert people["ana"].post(f"{POLICY}/approvals", terms).status_code == 403
    dated = olga.post(f"{POLICY}/approvals", {**terms, "days": "", "until": str(TODAY + timedelta(days=9))})
    assert f"{TODAY + timedelta(days=10)} 00:00 UTC" in olga.get(dated.headers["location"]).text


def test_other_kinds_are_requested_from_their_form(people: dict[str, SignedIn]) -> None:
    ana, form = people["ana"], {"table": "flights", "column": "distance", "epsilon": "0.2"}
    page = ana.post(f"{POLICY}/kinds/bounds", {**form, "do": "explain"}).text
    assert "Request approval" in page or "Spend" in page
    sent = ana.post(f"{POLICY}/kinds/bounds", {**form, "do": "file", "purpose": "bounds"})
    assert sent.status_code == 303, sent.text


HOSTILE = "<script>alert(1)</script> \u202egnp.exe {{ 7 * 7 }} " + "W" * 120 + "' OR 1=1 --"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose policy wants two owners to approve every release."""
    with running_server(tmp_path_factory.mktemp("governed"), free_per_second=1000) as running:
        policy = running.folder / "flights" / "flights.toml"
        policy.write_text(f"{policy.read_text()}\n[approval]\napprovals = 2\n")
        running.counter.people.add_user("oda", "owner", by="olga")
        yield running


def require_fitting(there: Visit, width: int) -> None:
    """Check that the page is no wider than the window, and that nothing of a text was run."""
    assert there.page.evaluate("document.documentElement.scrollWidth") <= width, there.page.url
    assert there.refused() == []


def as_user(there: Visit, user: str, path: str) -> None:
    there.page.context.clear_cookies()
    there.start_session(user)
    there.open(path)


def file_in_browser(there: Visit, sql: str, purpose: str) -> str:
    as_user(there, "ana", f"{POLICY}/ask")
    there.page.locator("textarea[name=sql]").fill(sql)
    there.page.locator("input[name=epsilon]").first.fill("0.2")
    there.page.get_by_label("What the answer is for").fill(purpose)
    there.page.get_by_role("button", name="Request approval").click()
    there.page.wait_for_url("**/approvals/*")
    return str(there.page.url.removeprefix(there.served.url))


def press(there: Visit, user: str, place: str, button: str, state: str, width: int, reason: str = "") -> None:
    """Press a button of a request, and wait for the state that it leads to."""
    as_user(there, user, place)
    require_fitting(there, width)
    if reason:
        there.page.get_by_label("Reason").fill(reason)
    there.page.get_by_role("button", name=button).click()
    there.page.get_by_role("heading", name=re.compile(state)).wait_for()
    require_fitting(there, width)


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_the_whole_flow_in_a_browser(browser: Chromium, governed: RunningServer, width: int) -> None:
    """Two approvers: approved, taken back, refused, withdrawn, released, reviewed; and a share that is granted."""
    question, grants = f"SELECT COUNT(*) AS n FROM flights WHERE distance > {width}", f"{POLICY}/approvals"
    with visit(browser, governed, viewport={"width": width, "height": 844}) as there:
        place = file_in_browser(there, question, HOSTILE)
        press(there, "olga", place, "Approve", "filed", width)
        assert there.page.get_by_role("button", name="Approve").count() == 0  # once is enough
        press(there, "oda", place, "Approve", "approved", width)
        press(there, "olga", place, "Take back", "refused", width, "the report is late")
        press(there, "olga", file_in_browser(there, question, "a chart"), "Refuse", "refused", width, "too fine")
        press(there, "ana", file_in_browser(there, question, "a chart"), "Withdraw", "withdrawn", width)
        place = file_in_browser(there, question, "a chart")
        press(there, "olga", place, "Approve", "filed", width)
        press(there, "oda", place, "Approve", "approved", width)
        press(there, "ana", place, "Release it", "Answer ", width)
        there.page.get_by_text("Publish", exact=True).click()
        there.page.get_by_label("Where it will be published").fill("a journal")
        there.page.get_by_role("button", name="Mark for publication").click()
        there.page.wait_for_url("**/approvals/*")
        review = there.page.url.removeprefix(governed.url)
        press(there, "olga", review, "Approve", "filed", width)
        press(there, "oda", review, "Approve", "approved", width)
        as_user(there, "olga", grants)
        require_fitting(there, width)
        there.page.get_by_label("User").select_option("ana")
        there.page.get_by_label("Total ε").fill("0.1")
        there.page.get_by_label("or until the end of").fill(str(TODAY + timedelta(days=30)))
        there.page.get_by_label("Purpose").fill("drafts")
        there.page.get_by_role("button", name="Grant a share").click()
        there.page.wait_for_url("**/approvals/*")
        require_fitting(there, width)
        press(there, "oda", there.page.url.removeprefix(governed.url), "Approve", "approved", width)
        for user in ("ana", "olga"):
            as_user(there, user, grants)
            require_fitting(there, width)
