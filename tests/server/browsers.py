"""A real browser for tests: Chromium, which says everything that a page was refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from server.pages.signed_in import sign_in
from server.running_server import RunningServer

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "there is no Chromium here: apt-get install chromium"
_PATIENCE = 120_000
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(event.violatedDirective + " " + event.blockedURI + " " + event.sample);
});
"""


@dataclass
class Chromium:
    """A running browser, and its windows that nobody uses: a second visit to one takes half the time."""

    browser: Any
    idle: dict[str, list[Any]] = field(default_factory=dict)

    @contextmanager
    def window(self, options: dict[str, Any]) -> Iterator[Any]:
        """Lend a page of a context with these options, and clear its cookies afterwards."""
        idle = self.idle.setdefault(str(options), [])
        page = idle.pop() if idle else self._new_page(options)
        yield page
        page.context.clear_cookies()
        page.goto("about:blank")
        idle.append(page)

    def _new_page(self, options: dict[str, Any]) -> Any:
        context = self.browser.new_context(**options)
        context.set_default_timeout(_PATIENCE)
        context.add_init_script(_WATCH)
        return context.new_page()


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start Chromium; where there is none the test is skipped, and the summary says so (``conftest``)."""
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_PATIENCE)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield Chromium(browser)
        finally:
            browser.close()


@dataclass
class Visit:
    """Somebody at a browser, and everything that the browser complained about."""

    page: Any
    served: RunningServer
    complaints: list[str] = field(default_factory=list)

    def sign_in(self, user: str) -> None:
        """Open a one-time link, and press its button."""
        link = self.served.counter.people.new_link(user, by="tests")
        self.page.goto(f"{self.served.url}/login/{link}")
        self.page.get_by_role("button", name="Sign in").click()

    def start_session(self, user: str) -> None:
        """Give the browser the cookie of a new session, without showing it the two pages of signing in."""
        client = sign_in(self.served, user).client
        client.close()
        cookies = [{"name": each.name, "value": each.value, "url": self.served.url} for each in client.cookies.jar]
        self.page.context.add_cookies(cookies)

    def open(self, path: str) -> Any:
        return self.page.goto(self.served.url + path)

    def refused(self) -> list[str]:
        """Give what the browser refused to do for the page that is shown, and what it complained about before."""
        return [*self.complaints, *self.page.evaluate("window.violations || []")]


def _complained(there: Visit, said: Any) -> None:
    """Keep what the browser complains about; that a page is a refusal is none of that."""
    if said.type == "error" and "server responded with a status of 4" not in said.text:
        there.complaints.append(said.text)


@contextmanager
def visit(browser: Chromium, served: RunningServer, **options: Any) -> Iterator[Visit]:
    """Open a window without cookies; whatever is complained about is collected."""
    with browser.window(options) as page:
        found = Visit(page, served)
        listeners = {
            "pageerror": lambda error: found.complaints.append(f"error: {error}"),
            "dialog": lambda dialog: (found.complaints.append("a dialog"), dialog.dismiss()),
            "console": lambda said: _complained(found, said),
        }
        for event, listener in listeners.items():
            page.on(event, listener)
        try:
            yield found
        finally:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
