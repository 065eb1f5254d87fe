"""Two ``sfumato serve`` commands behind one nginx, with one ledger in PostgreSQL: together they spend one budget."""

from __future__ import annotations

import os
import time
from collections import Counter as Tally
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.running_proxies import NAME, SNI, nginx, proxy_client, require_program, running_proxy
from forked_commands import forked_command
from ledger.in_databases import Place
from postgres_server import PostgresServer
from server.small_server import POLICY
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.serving import ProcessSettings
from sfumato.server.settings import ServerSettings

PRICE = Fraction(1, 4)
SHARES = {"ana": Fraction(1, 2), "ben": Fraction(1, 4), "cleo": Fraction(1, 4)}
PEOPLE = {**dict.fromkeys(SHARES, "analyst"), "olga": "owner", "oda": "owner"}
EPSILON = 6
SETTINGS = f"""
public_url = "https://{NAME}"
answer_after = 0.05
free_per_second = 1000
releases_at_once = 12
"""
_SECONDS = 120


@dataclass
class ServeCommand:
    """``sfumato serve`` in an operating-system process of its own, on a socket file."""

    policy: Path
    folder: Path
    process: BaseProcess | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "s.sock"

    @property
    def log(self) -> Path:
        return self.folder / "activity.jsonl"

    def start(self) -> None:
        """Start the command, and wait until it is ready."""
        settings = self.folder / "server.toml"
        settings.write_text(f'{SETTINGS}listen = "unix:{self.socket}"\nlog = "{self.log}"\n')
        said = self.folder / "said"
        with Path(os.devnull).open() as nothing, said.open("wb") as output:
            streams = [nothing.fileno(), output.fileno(), output.fileno()]
            self.process = forked_command("serve", self.policy, "--settings", settings, streams=streams)
        end = time.monotonic() + _SECONDS
        while "Owner login" not in said.read_text():  # said once it listens
            assert self.process.is_alive(), said.read_text()
            assert time.monotonic() < end
            time.sleep(0.02)

    def client(self, token: str) -> httpx.Client:
        """Return a client of this server alone, past the proxy."""
        headers = {"Authorization": f"Bearer {token}"}
        transport = httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(base_url="http://server", headers=headers, transport=transport, timeout=_SECONDS)

    def kill(self) -> None:
        """Kill it −9, as a failing machine would."""
        assert self.process is not None
        self.process.kill()
        self.process.join(_SECONDS)


@dataclass
class Pair:
    """Two servers, the proxy before them, and the ledger that they share."""

    servers: tuple[ServeCommand, ServeCommand]
    place: Place
    tokens: dict[str, str]
    clients: dict[str, httpx.Client]
    """Everybody's connections to the proxy."""

    def call(self, user: str, method: str, path: str, key: str = "", sent: Any = None) -> httpx.Response:
        """Call the proxy, which asks one of the servers, as a user."""
        headers = {"Idempotency-Key": key} if key else {}
        return self.clients[user].request(
            method, f"/v1/policies/clinic/{path}", json=sent, headers=headers, extensions=SNI
        )

    def buy(self, user: str, key: str, number: int, **price: Any) -> httpx.Response:
        return self.call(user, "POST", "releases", key, release(number, **price))

    def insist(self, key: str, price: Fraction) -> httpx.Response:
        """Buy as cleo, and send it again under its key while the proxy finds no server that answers."""
        end = time.monotonic() + _SECONDS
        while (reply := self.buy("cleo", key, 9, epsilon=str(price), fresh=True)).status_code in (502, 504):
            assert time.monotonic() < end
            time.sleep(0.05)
        return reply

    def charges(self) -> int:
        """Count the charges, in a ledger whose every line is verified."""
        with self.place.open() as ledger:
            assert ledger.verify().holds
            return sum(line.kind == "charge" for line in ledger.lines())

    def left(self, user: str) -> Fraction:
        budget = self.call(user, "GET", "budget").json()["left"]
        return Fraction(str(budget["pure"]))


def release(number: int, **price: Any) -> dict[str, Any]:
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {number}"
    return {"kind": "questions", "spec": {"sql": sql}, "price": {"epsilon": str(PRICE), **price}}


def write_policy(folder: Path, address: str) -> Path:
    """Write a policy whose ledger is in a database; what costs more than 0.3 needs an approval."""
    rows = [f"p{number // 2},{('north', 'south')[number % 2]},{number}" for number in range(80)]
    (folder / "visits.csv").write_text("\n".join(["patient,region,age", *rows]) + "\n")
    shares = "".join(f"[analysts.{name}]\nshare = {float(share)}\n" for name, share in SHARES.items())
    path = folder / "clinic.toml"
    text = POLICY.format(epsilon=EPSILON, table="visits")
    path.write_text(f'ledger = "{address}"\n{text}{shares}\n[approval]\nabove = 0.3\n')
    return path


def add_people(policy: Path) -> dict[str, str]:
    """Add people of every role to the file that both servers read; return their tokens."""
    with closing(PeopleFile(ProcessSettings((policy,), None, ServerSettings()).people)) as people:
        for name, role in PEOPLE.items():
            people.add_user(name, role, by="tests")
        return {name: people.new_token(name, by="tests")[1] for name in PEOPLE}


@contextmanager
def running_pair(folder: Path, postgres: PostgresServer, certificate: Path) -> Iterator[Pair]:
    require_program("nginx")
    place = Place.make(postgres)
    policy = write_policy(folder, place.address)
    folders = [folder / name for name in ("one", "two", "proxy")]
    for each in folders:
        each.mkdir()
    one, two = (ServeCommand(policy, each) for each in folders[:2])
    tokens = add_people(policy)
    with ExitStack() as running:
        for server in (one, two):
            server.start()
            running.callback(server.kill)
        command = nginx(folders[2], certificate, one.socket, two.socket)
        base = running.enter_context(running_proxy(*command, folders[2], certificate))
        clients = {
            name: running.enter_context(proxy_client(base, certificate, token)) for name, token in tokens.items()
        }
        yield Pair((one, two), place, tokens, clients)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, certificate: Path) -> Iterator[Pair]:
    with running_pair(tmp_path_factory.mktemp("pair"), postgres, certificate) as running:
        yield running


def test_a_stored_answer_is_free_at_the_other(pair: Pair) -> None:
    before = pair.charges()
    bought = []
    for turn, server in enumerate(pair.servers):
        with server.client(pair.tokens["ana"]) as client:
            headers = {"Idempotency-Key": f"stored {turn}".replace(" ", "-")}
            bought.append(client.post("/v1/policies/clinic/releases", json=release(1), headers=headers).json())
    assert [each["free"] for each in bought] == [False, True]
    assert bought[0]["line"] == bought[1]["line"]
    assert bought[0]["result"]["rows"] == bought[1]["result"]["rows"]
    assert pair.charges() == before + 1


def test_approvals_and_releases_that_race_spend_once(pair: Pair) -> None:
    """Two owners approve at once, and four releases of what they approved race; each at either server."""
    before = pair.charges()
    dear = release(2, epsilon="0.5", fresh=True)
    assert pair.call("ben", "POST", "releases", "early", dear).status_code == 403
    filed = pair.call("ben", "POST", "requests", sent={"release": dear, "purpose": "the annual report"})
    number = filed.json()["number"]

    def approve(name: str) -> int:
        return pair.call(name, "POST", f"requests/{number}/approve", sent={"reason": ""}).status_code

    def use(turn: int) -> int:
        return pair.call("ben", "POST", f"requests/{number}/release", f"use-{turn}").status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(approve, ("olga", "oda"))) == [200, 409]
        statuses = Tally(pool.map(use, range(4)))
    assert statuses == {200: 1, 403: 3}, statuses
    assert pair.call("ben", "GET", f"requests/{number}").json()["state"] == "released"
    assert pair.charges() == before + 1
    assert pair.left("ben") == 1


def test_releases_that_race_spend_exactly_the_share(pair: Pair) -> None:
    before, affordable = pair.charges(), int(pair.left("ana") / PRICE)
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda turn: pair.buy("ana", f"race-{turn}", turn, fresh=True), range(affordable + 5)))
    statuses = Tally(reply.status_code for reply in replies)
    assert statuses == {200: affordable, 402: 5}
    assert len({reply.json()["line"] for reply in replies if reply.status_code == 200}) == affordable
    assert (pair.charges() - before, pair.left("ana")) == (affordable, 0)
    assert all(b'"release"' in server.log.read_bytes() for server in pair.servers)


def test_one_is_killed_and_the_other_continues(pair: Pair, long: bool) -> None:
    """Each round kills one of them −9 in the middle of four releases; every request is charged once at most."""
    rounds, price = 5 if long else 1, Fraction(1, 20)
    answered: dict[str, dict[str, Any]] = {}
    before = pair.charges()
    for turn in range(rounds):
        keys = [f"kill-{turn}-{number}" for number in range(4)]
        with ThreadPoolExecutor(4) as pool:
            earlier = pair.charges()
            waiting = {key: pool.submit(pair.insist, key, price) for key in keys}
            _wait_for_a_charge(pair, earlier)
            pair.servers[turn % 2].kill()
            replies = {key: each.result() for key, each in waiting.items()}
        assert {reply.status_code for reply in replies.values()} <= {200, 503}  # 503: charged by the one that died
        answered |= {key: reply.json() for key, reply in replies.items() if reply.status_code == 200}
        later = pair.insist(f"later-{turn}", price)
        assert (later.status_code, later.json()["free"]) == (200, False)
        pair.servers[turn % 2].start()
    charged = pair.charges() - before
    assert len(answered) + rounds <= charged <= 5 * rounds
    assert pair.left("cleo") == EPSILON * SHARES["cleo"] - charged * price  # every charge counts, answered or not
    for key, reply in answered.items():  # what was answered is given again, by either
        again = pair.insist(key, price).json()
        assert (again["line"], again["result"]["rows"]) == (reply["line"], reply["result"]["rows"])
    assert pair.charges() - before == charged


def _wait_for_a_charge(pair: Pair, before: int) -> None:
    end = time.monotonic() + _SECONDS
    while pair.charges() == before:
        assert time.monotonic() < end
        time.sleep(0.01)
