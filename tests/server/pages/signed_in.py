"""A browser without a screen: it keeps its cookie, reads forms and sends them as a page would."""

from __future__ import annotations

from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx

from server.running_server import NO_TLS, RunningServer


@dataclass
class SignedIn:
    """Somebody who is signed in, by a session of their own."""

    client: httpx.Client
    served: RunningServer
    origin: str

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def token(self) -> str:
        """Find the token that forms of this session hold."""
        return fields(self.get("/").text)["token"]

    def post(self, path: str, sent: dict[str, Any], **headers: str | None) -> httpx.Response:
        """Send a form as its page does; a header that is None is left out."""
        given = {"Origin": self.origin, **{name.replace("_", "-"): each for name, each in headers.items()}}
        shown = {name: each for name, each in given.items() if each is not None}
        return self.client.post(path, data={"token": self.token(), **sent}, headers=shown)


def sign_in(served: RunningServer, user: str, origin: str | None = None) -> SignedIn:
    """Sign in by a one-time link."""
    client = httpx.Client(base_url=served.url, timeout=120, verify=NO_TLS)
    found = SignedIn(client, served, origin or served.url)
    link = served.counter.people.new_link(user, by="tests")
    answer = client.post(f"/login/{link}", data={"sign": "in"}, headers={"Origin": found.origin})
    assert answer.status_code == 303, answer.text
    return found


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("name"):
            self.found[str(given["name"])] = unescape(given.get("value") or "")


def fields(page: str) -> dict[str, str]:
    """Read every field of a page that has a value; of those with one name, the last."""
    parser = _Fields()
    parser.feed(page)
    return parser.found
