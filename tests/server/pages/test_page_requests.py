"""Pages as a browser asks for them: who sees which, what is refused, and what a browser is told to allow."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

import sfumato as sf
from forked_commands import forked_command
from server.pages.signed_in import SignedIn, fields, sign_in
from server.running_server import BY_ORIGIN, COUNT, NO_TLS, RunningServer, running_server, write_club
from sfumato.server.pages import account_pages, released_pages
from sfumato.server.pages.page_routes import PAGES
from sfumato.server.pages.released_pages import page_kinds
from sfumato.server.pages.rendering import RULES

POLICY = "/p/flights"
INLINE = re.compile(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:|https?://(?!www\.w3)")
"""What no page has: scripts and styles inside it, and addresses elsewhere."""
PRICE = {"sql": COUNT, "epsilon": "0.01", "delta": "", "within": "", "confidence": ""}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("served"), free_per_second=1000, answer_after=0.1) as running:
        yield running


@pytest.fixture(scope="module")
def people(served: RunningServer) -> Iterator[dict[str, SignedIn]]:
    found = {name: sign_in(served, name) for name in ("olga", "ana", "ben", "audrey", "eve")}
    yield found
    for each in found.values():
        each.client.close()


# ── signing in ─────────────────────────────────────────────────────────────────────────────────


def test_a_link_signs_in_once_and_looking_at_it_uses_nothing_up(served: RunningServer) -> None:
    link = f"/login/{served.counter.people.new_link('ana', by='tests')}"
    with httpx.Client(base_url=served.url, verify=NO_TLS) as client:
        for _ in range(3):
            assert "Sign in" in client.get(link).text
            assert not client.cookies
        assert client.post(link, data={"sign": "in"}).status_code == 403  # nobody says where it comes from
        first = client.post(link, data={"sign": "in"}, headers={"Origin": served.url})
        cookie = first.headers["set-cookie"]
        assert first.status_code == 303
        assert first.headers["location"] == "/"
        assert {"HttpOnly", "SameSite=strict", "Max-Age=43200", "Path=/"} <= set(cookie.split("; "))
        assert cookie.startswith(f"sfumato-{urlsplit(served.url).port}=")  # browsers send cookies to every port
        assert client.get("/").status_code == 200
        again = client.post(link, data={"sign": "in"}, headers={"Origin": served.url})
        assert again.status_code == 401
        assert "set-cookie" not in again.headers


def test_the_link_that_is_printed_lets_the_owner_in(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with Path(os.devnull).open("r+") as nothing:
        streams = [nothing.fileno(), writer, nothing.fileno()]
        serving = ("serve", sf.example(tmp_path / "flights"), "--listen", "127.0.0.1:0")
        server = forked_command(*serving, streams=streams)
    os.close(writer)
    try:
        with os.fdopen(reader) as said:
            printed = said.readline().split()[-1]
            with httpx.Client(base_url=printed.partition("/login/")[0], timeout=120, verify=NO_TLS) as client:
                assert "Sign in" in client.get(printed).text
                client.post(printed, data={"sign": "in"}, headers={"Origin": str(client.base_url).rstrip("/")})
                page = client.get("/p/flights/people")
                assert page.status_code == 200
                assert "Add a user" in page.text
    finally:
        server.terminate()
        server.join(60)
    assert server.exitcode == 0


def test_signing_out_ends_the_session_in_every_window(served: RunningServer) -> None:
    ana = sign_in(served, "ana")
    cookie = dict(ana.client.cookies)
    ana.client.close()
    with httpx.Client(base_url=served.url, cookies=cookie, verify=NO_TLS) as other:
        token = fields(other.get("/").text)["token"]
        assert other.post("/logout", data={"token": token}, headers={"Origin": served.url}).status_code == 200
    with httpx.Client(base_url=served.url, cookies=cookie, verify=NO_TLS) as later:
        assert later.get("/").status_code == 401
        assert later.get(f"{POLICY}/ask").status_code == 401


def test_a_token_opens_no_page_and_a_cookie_no_interface(served: RunningServer, people: dict[str, SignedIn]) -> None:
    assert served.call("ana", "GET", f"{POLICY}/ask").status_code == 401
    assert people["ana"].get("/v1/policies").status_code == 401


def test_over_https_the_cookie_is_held_to_https_and_the_origin_is_the_public_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("https")
    with running_server(folder, at=f"unix:{folder}/s", public_url="https://sfumato.example.org:443/") as served:
        link = f"/login/{served.counter.people.new_link('ana', by='tests')}"
        with served.client() as client:
            assert client.post(link, data={"sign": "in"}, headers={"Origin": served.url}).status_code == 403
            answer = client.post(link, data={"sign": "in"}, headers={"Origin": "https://sfumato.example.org"})
            assert answer.status_code == 303
            assert answer.headers["set-cookie"].startswith("__Host-sfumato=")
            assert {"Secure", "HttpOnly", "SameSite=strict"} <= set(answer.headers["set-cookie"].split("; "))
            assert "max-age" in answer.headers["strict-transport-security"]


# ── who sees what ──────────────────────────────────────────────────────────────────────────────

SEEN = {
    "/": {"olga", "ana", "audrey", "eve"},
    f"{POLICY}/ask": {"olga", "ana"},
    f"{POLICY}/budget": {"olga", "ana", "audrey"},
    f"{POLICY}/budget.svg": {"olga", "ana", "audrey"},
    f"{POLICY}/history": {"olga", "ana", "audrey"},
    f"{POLICY}/data": {"olga", "ana", "audrey"},
    f"{POLICY}/people": {"olga", "audrey"},
    f"{POLICY}/ledger": {"olga", "audrey"},
    f"{POLICY}/ledger/anchor.json": {"olga", "audrey"},
    f"{POLICY}/ledger/ledger.csv": {"olga", "audrey"},
}


@pytest.mark.parametrize("path", SEEN)
def test_every_role_sees_its_own_pages_and_no_other(
    served: RunningServer, people: dict[str, SignedIn], path: str
) -> None:
    assert httpx.get(served.url + path, verify=NO_TLS).status_code == 401
    for user in ("olga", "ana", "audrey", "eve"):
        status = people[user].get(path).status_code
        elsewhere = 404 if user == "eve" and "/ledger/" not in path else 403
        assert status == (200 if user in SEEN[path] else elsewhere), (user, path, status)


def test_every_page_has_rules_that_let_nothing_in(people: dict[str, SignedIn]) -> None:
    olga = people["olga"]
    pages = [olga.get(path) for path in SEEN if "." not in path]
    pages.append(olga.post(f"{POLICY}/ask", {"sql": BY_ORIGIN, "epsilon": "0.1", "do": "forecast"}))
    pages.append(olga.post(f"{POLICY}/ask", {"sql": "SELEC 1", "epsilon": "0.1", "do": "forecast"}))
    pages += [olga.get("/p/nobody/ask"), olga.client.get("/nowhere", headers={"Accept": "text/html"})]
    for page in pages:
        assert page.headers["content-type"] == "text/html; charset=utf-8", page.url
        assert page.headers["content-security-policy"] == RULES
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["x-frame-options"] == "DENY"
        assert "content-encoding" not in page.headers  # it holds a form token beside what was asked
        assert not INLINE.search(page.text.replace(olga.origin, ""))
        assert len(page.content) < 60_000
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', pages[0].text)
    shared = [olga.get(each) for each in set(files)]
    assert len(shared) == 3
    assert all("immutable" in each.headers["cache-control"] for each in shared)
    assert (
        len(max(pages, key=lambda page: len(page.content)).content) + sum(len(each.content) for each in shared) < 60_000
    )


# ── what other sites send ──────────────────────────────────────────────────────────────────────

SENT: dict[str, dict[str, str]] = {
    "/logout": {"sign": "out"},
    f"{POLICY}/ask": {"sql": COUNT, "do": "forecast"},
    f"{POLICY}/forecast": {"sql": COUNT},
    f"{POLICY}/preview": {"sql": COUNT},
    f"{POLICY}/answers": {**PRICE, "request": "from-elsewhere"},
    f"{POLICY}/kinds/bounds": {"table": "flights", "column": "distance", "epsilon": "0.01", "do": "buy"},
    f"{POLICY}/budget": {"do": "pause"},
    f"{POLICY}/people": {"do": "add", "user": "mallory", "role": "owner"},
    f"{POLICY}/approvals": {"do": "grant", "user": "ana", "epsilon": "1", "days": "9", "purpose": "none"},
    f"{POLICY}/approvals/7": {"do": "approve"},
}


def test_pages_keep_the_names_that_metrics_and_logs_know() -> None:
    names = (
        "show_home show_sign_in sign_in sign_out show_ask ask forecast preview buy show_kind ask_kind wait show_answer"
        " download_answer show_budget change_account draw_budget show_history show_data show_requests file_request"
        " show_request decide_request show_people change_people show_ledger download_anchor download_ledger"
    )
    assert [name for name, *_ in PAGES] == names.split()


def test_every_form_is_among_those_that_are_sent_from_elsewhere() -> None:
    posted = {
        path.replace("{policy}", "flights").replace("{kind}", "bounds").replace("{request:number}", "7")
        for _, method, path, _ in PAGES
        if method == "POST"
    }
    assert posted - {"/login/{link}"} == set(SENT)


@pytest.mark.parametrize("path", SENT)
def test_a_form_of_another_site_is_refused_and_nothing_happens(
    served: RunningServer, people: dict[str, SignedIn], path: str
) -> None:
    olga, foreign = people["olga"], people["ana"].token()
    before = served.spent(), len(served.counter.people.acts()), served.counter.people.paused_policies()
    mine, sent = olga.token(), SENT[path]
    answers = [
        olga.post(path, sent, Origin="https://evil.example"),
        olga.post(path, sent, Origin="null"),
        olga.post(path, sent, Origin=None),
        olga.post(path, sent, Origin=served.url + ".evil.example"),
        olga.post(path, sent | {"token": ""}),
        olga.post(path, sent | {"token": foreign}),
        olga.post(path, sent | {"token": mine[:-1]}),
        olga.client.post(path, data=sent, headers={"Origin": served.url}),
        olga.client.post(path, json=sent | {"token": mine}, headers={"Origin": served.url}),
    ]
    assert [each.status_code for each in answers] == [403] * 8 + [400]
    assert (served.spent(), len(served.counter.people.acts()), served.counter.people.paused_policies()) == before
    assert olga.get("/").status_code == 200  # and is signed in still


# ── buying ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_forecast_is_what_is_bought_and_one_form_pays_once(
    served: RunningServer, people: dict[str, SignedIn]
) -> None:
    ana, before = people["ana"], served.spent()
    question = {**PRICE, "sql": "SELECT COUNT(*) AS once FROM flights"}
    page = ana.post(f"{POLICY}/ask", {**question, "do": "forecast"}).text
    assert "Spend ε = 0.01" in page
    assert "left after this answer" in page
    assert "±29,9" in page
    form = fields(page[page.index('class="spend"') :])
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: ana.post(f"{POLICY}/answers", form), range(4)))
    assert {each.status_code for each in answers} == {303}
    (place,) = {each.headers["location"] for each in answers}
    assert served.spent() == before + 1
    shown = ana.get(place).text
    assert "ε = 0.01" in shown
    assert "Receipt" in shown
    assert "once" in shown
    files = {form: ana.get(f"{place}.{form}") for form in ("csv", "json", "svg", "arrow")}
    assert all(each.status_code == 200 for each in files.values())
    assert ana.get(f"{place}.exe").status_code == 404
    assert people["ben"].get(place).status_code == 404
    assert people["eve"].get(place).status_code == 404
    assert people["audrey"].get(place).status_code == people["olga"].get(place).status_code == 200
    assert place in ana.get(f"{POLICY}/history").text
    assert place not in people["ben"].get(f"{POLICY}/history").text
    again = ana.post(f"{POLICY}/ask", {**question, "do": "forecast"}).text
    assert "bought before" in again
    assert "Show the answer, free" in again
    assert served.spent() == before + 1


def test_a_form_that_is_changed_under_its_name_is_refused(served: RunningServer, people: dict[str, SignedIn]) -> None:
    ana, form = people["ana"], {**PRICE, "sql": "SELECT COUNT(*) AS renamed FROM flights", "request": "one-name"}
    assert ana.post(f"{POLICY}/answers", form).status_code == 303
    before = served.spent()
    assert ana.post(f"{POLICY}/answers", form | {"epsilon": "0.02"}).status_code == 409
    assert ana.post(f"{POLICY}/answers", form | {"request": ""}).status_code == 400
    assert served.spent() == before


def test_a_question_that_is_refused_is_shown_again_with_its_place(
    served: RunningServer, people: dict[str, SignedIn]
) -> None:
    ana, before = people["ana"], served.spent()
    wrong = "SELECT COUNT(*) AS n\nFROM flihgts"
    page = ana.post(f"{POLICY}/ask", {**PRICE, "sql": wrong, "do": "forecast"}).text
    assert "<mark>flihgts</mark>" in page
    assert "did you mean flights?" in page
    assert "Spend" not in page
    bought = ana.post(f"{POLICY}/answers", {**PRICE, "sql": wrong, "request": "wrong"})
    assert bought.status_code == 422
    assert "<mark>flihgts</mark>" in bought.text
    dear = ana.post(f"{POLICY}/ask", {**PRICE, "epsilon": "2", "do": "forecast"}).text
    assert "does not allow this" in dear
    assert "Spend ε" not in dear
    forced = ana.post(f"{POLICY}/answers", {**PRICE, "epsilon": "2", "request": "dear"})
    assert forced.status_code == 402
    assert "cannot afford" in forced.text
    for price in ("-1", "nan", "1e400", "0", "x" * 500):
        assert "refused" in ana.post(f"{POLICY}/ask", {**PRICE, "epsilon": price, "do": "forecast"}).text
    assert served.spent() == before


def test_an_answer_that_takes_long_is_waited_for_on_a_page(
    people: dict[str, SignedIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released_pages, "_WAIT_SECONDS", 0.001)
    ana = people["ana"]
    sent = {**PRICE, "epsilon": "0.02", "request": "slow"}
    place = ana.post(f"{POLICY}/answers", sent).headers["location"]
    assert place == f"{POLICY}/requests/slow"
    page = ana.get(place)
    while page.status_code == 200:
        assert page.headers["refresh"] == "2"
        page = ana.get(place)
    assert page.status_code == 303
    assert "/answers/" in page.headers["location"]
    assert people["ben"].get(place).status_code == 404


def test_what_was_not_bought_is_shown_on_the_page_that_waits_for_it(people: dict[str, SignedIn]) -> None:
    sent = {**PRICE, "sql": "SELECT DISTINCT origin FROM flights", "request": "not-bought"}
    assert "EWR" in people["ana"].post(f"{POLICY}/answers", sent).text
    page = people["ana"].get(f"{POLICY}/requests/not-bought")
    assert (page.status_code, "refresh" in page.headers, "EWR" in page.text) == (200, False, True)


def test_the_page_says_how_what_it_does_not_sell_is_bought(served: RunningServer, people: dict[str, SignedIn]) -> None:
    page = html.unescape(people["ana"].get("/p/flights/ask").text)
    assert "This page asks one question at a time. These other releases have their own forms" in page
    assert all(f"{POLICY}/kinds/{name}" in page for name in page_kinds())
    assert f"sfumato login {served.url}" in page
    ((url, policy),) = re.findall(r"^curator = sf\.connect\('(.*)', '(.*)'\)$", page, re.MULTILINE)
    (named,) = re.findall(r"^# then curator(.*):$", page, re.MULTILINE)
    with sf.connect(url, policy, token=served.tokens["ana"]) as curator:
        names = re.findall(r"\.(\w+)", named)
        assert len(names) == 7
        assert all(callable(getattr(curator, name)) for name in names)


def test_a_kind_is_explained_in_its_form_bought_once_and_refused_there(
    served: RunningServer, people: dict[str, SignedIn]
) -> None:
    place, before = f"{POLICY}/kinds/bounds", served.spent()
    form = people["ana"].get(place).text
    assert all(f'name="{name}"' in form for name in ("table", "column", "cover", "epsilon", "confidence"))
    sent = {"table": "flights", "column": "distance", "cover": "0.9", "epsilon": "0.011", "do": "explain"}
    explained = people["ana"].post(place, sent).text
    assert "Spend ε = 0.011" in explained
    assert served.spent() == before
    spending = fields(explained.partition('class="spend"')[2])  # what was explained, whatever is typed afterwards
    assert {name: spending[name] for name in ("table", "column", "cover", "epsilon")} == {
        name: sent[name] for name in ("table", "column", "cover", "epsilon")
    }
    bought = [people["ana"].post(place, {**spending, "do": "buy"}) for _ in range(2)]
    assert bought[0].status_code == 303
    assert bought[0].headers["location"] == bought[1].headers["location"]
    assert "bounds = [" in people["ana"].get(bought[0].headers["location"]).text
    assert served.spent() == before + 1
    refused = people["ana"].post(place, {**sent, "column": "carrier"})
    assert (refused.status_code, "a column of numbers or dates" in refused.text) == (400, True)
    assert people["ana"].get(f"{POLICY}/kinds/limits").status_code == 404
    assert people["audrey"].get(place).status_code == 403


def test_what_the_policy_tells_is_shown_for_nothing(served: RunningServer, people: dict[str, SignedIn]) -> None:
    before = served.spent()
    sent = {**PRICE, "sql": "DESCRIBE flights", "request": "listing"}
    assert "Show it, free" in people["ana"].post(f"{POLICY}/ask", {**sent, "do": "forecast"}).text
    page = people["ana"].post(f"{POLICY}/answers", sent)
    assert page.status_code == 200
    assert "distance" in page.text
    assert served.spent() == before


def test_a_paused_policy_says_so_and_sells_nothing(served: RunningServer, people: dict[str, SignedIn]) -> None:
    olga, ana, before = people["olga"], people["ana"], served.spent()
    assert ana.post(f"{POLICY}/budget", {"do": "pause"}).status_code == 403
    assert olga.post(f"{POLICY}/budget", {"do": "pause"}).status_code == 303
    try:
        assert "has paused" in ana.get(f"{POLICY}/ask").text
        asked = {**PRICE, "sql": "SELECT COUNT(*) AS n FROM flights WHERE month = 7", "request": "paused"}
        assert ana.post(f"{POLICY}/answers", asked).status_code == 503
    finally:
        assert olga.post(f"{POLICY}/budget", {"do": "resume"}).status_code == 303
    assert served.spent() == before
    assert "has paused" not in ana.get(f"{POLICY}/ask").text


# ── owners ─────────────────────────────────────────────────────────────────────────────────────


def test_an_owner_gives_and_ends_what_lets_people_in(served: RunningServer, people: dict[str, SignedIn]) -> None:
    olga = people["olga"]

    def do(**sent: str) -> Any:
        return olga.post(f"{POLICY}/people", sent)

    assert do(do="add", user="zoe", role="auditor").status_code == 303
    assert do(do="add", user="zoe", role="auditor").status_code == 400
    link = re.search(r"/login/([\w-]+)", do(do="link", user="zoe").text)
    assert link
    assert served.counter.people.sign_in(link[1], timedelta(hours=1))
    made = do(do="token", user="zoe", label="tableau", days="90", most="0.5")
    text = re.search(r"sfu_[\w-]+", made.text)
    assert text
    assert served.counter.people.tokens("zoe")[0].most is not None
    assert text[0] not in olga.get(f"{POLICY}/people").text
    number = str(served.counter.people.tokens("zoe")[0].number)
    assert do(do="revoke", number=number).status_code == 303
    assert served.counter.people.tokens("zoe")[0].revoked
    assert do(do="disable", user="zoe").status_code == 303
    assert served.counter.people.user("zoe").disabled
    assert do(do="enable", user="zoe").status_code == 303
    assert not served.counter.people.user("zoe").disabled
    for wrong in ({"do": "disable", "user": "olga"}, {"do": "revoke", "number": "x"}, {"do": "??"}, {}):
        assert do(**wrong).status_code == 400
    assert people["audrey"].post(f"{POLICY}/people", {"do": "add", "user": "x", "role": "owner"}).status_code == 403
    served.counter.people.new_token("zoe", expires=timedelta(microseconds=1), by="tests")
    page = olga.get(f"{POLICY}/people").text
    assert "<td>expired</td>" in page
    assert page.index("user enabled") < page.index("user added")  # the newest act first
    assert "zoe" in people["audrey"].get(f"{POLICY}/people").text  # among what owners did


def test_the_owner_alone_is_warned_of_a_weak_budget_on_its_page_alone(tmp_path: Path) -> None:
    words = "ε = 30 for life is weak privacy"
    with running_server(tmp_path, policy=write_club(tmp_path)) as served:
        olga, ana = sign_in(served, "olga"), sign_in(served, "ana")
        with closing(olga.client), closing(ana.client):
            assert words in olga.get("/p/club/budget").text
            for who, page in ((ana, "budget"), (ana, "ask"), (olga, "ask"), (olga, "data")):
                shown = who.get(f"/p/club/{page}")
                assert shown.status_code == 200
                assert words not in shown.text


def test_a_ledger_is_verified_and_the_budget_amended(people: dict[str, SignedIn]) -> None:
    assert "all as they were written" in people["audrey"].get(f"{POLICY}/ledger?verify=yes").text
    refused = people["olga"].post(f"{POLICY}/budget", {"do": "amend", "reason": ""})
    assert refused.status_code == 400
    assert "What to do" in refused.text
    assert people["audrey"].post(f"{POLICY}/budget", {"do": "amend", "reason": "why"}).status_code == 403


def test_no_question_and_no_secret_is_logged_or_in_an_address(
    served: RunningServer, people: dict[str, SignedIn]
) -> None:
    sent = {**PRICE, "sql": "SELECT COUNT(*) AS n FROM flights WHERE origin = 'NAMELESS'", "request": "unlogged"}
    answer = people["ana"].post(f"{POLICY}/answers", sent)
    assert "NAMELESS" not in answer.headers.get("location", "")
    log = served.log.read_text()
    cookie = next(iter(people["ana"].client.cookies.values()))
    assert "NAMELESS" not in log
    assert cookie not in log
    assert people["ana"].token() not in log


# ── a δ that nobody typed ──────────────────────────────────────────────────────────────────────

WARDS = """
[unit]
name = "patient"
budget = { epsilon = 3, delta = 1e-6 }

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 1
[tables.visits.columns]
ward = { type = "text" }

[analysts.ana]
share = 0.5
"""


def test_the_button_buys_at_the_delta_that_the_forecast_states(tmp_path: Path) -> None:
    """The price of found groups shows a δ, and pressing the button accepts it; the field for the next one is empty."""
    (tmp_path / "visits.csv").write_text("patient,ward\n" + "".join(f"p{n},{'AB'[n % 2]}\n" for n in range(400)))
    policy = tmp_path / "flights.toml"
    policy.write_text(WARDS)
    by_ward = {**PRICE, "sql": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "epsilon": "1"}
    with running_server(tmp_path, policy=policy, answer_after=0.1) as served:
        ana = sign_in(served, "ana")
        page = ana.post(f"{POLICY}/ask", {**by_ward, "do": "forecast"}).text
        typed, _, button = page.partition('class="spend"')
        assert "Spend ε = 1, δ = 1e-09" in button
        assert fields(button)["delta"] == "1e-9"
        assert fields(typed)["delta"] == ""
        assert 'placeholder="1e-9"' in typed
        sent = {name: each for name, each in fields(button).items() if name != "token"}
        assert ana.post(f"{POLICY}/answers", sent).status_code == 303
        refused = ana.post(f"{POLICY}/answers", {**by_ward, "sql": by_ward["sql"] + " ORDER BY n", "request": "x" * 20})
        assert "finding them in the data needs an ε and a δ" in refused.text  # a form without it spends none
        ana.client.close()


@pytest.mark.parametrize(
    ("delta", "measured"), [("0", "by ε: all answers together keep ε = 3,"), ("1e-6", "by ε and δ:")]
)
def test_the_promise_does_not_call_delta_the_probability_of_an_exception(
    tmp_path: Path, delta: str, measured: str
) -> None:
    """That of a loss above ε may be larger than δ (``privacy.reading``), so no page says "except with probability"."""
    rows = sf.Table("visits", pa.table({"age": [1]}), {"age": sf.Domain("integer", bounds=(0, 9))}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(3, delta), {"visits": rows})
    with sf.Curator(policy, tmp_path / "a.ledger") as clinic:
        text = " ".join(account_pages.promise_sentences(policy.public_face(), clinic.budget))
    assert measured in text
    assert ("δ = 1e-06" in text) is (delta != "0")
    assert "except" not in text
