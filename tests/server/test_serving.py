"""The command serves from processes of its own, and ends as it is told to: what was charged is answered."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter as Tally
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

import sfumato as sf
from server.certificates import write_certificate
from server.forked_servers import ForkedServer, forked_server
from server.running_server import COUNT, NO_TLS, running_server
from server.test_many_clients import clinic
from sfumato.cli import main
from sfumato.errors import InvalidSettings
from sfumato.server.connections import admitted_peers
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.serving import ProcessSettings, _ensure_owner_and_create_link, _run_worker
from sfumato.server.settings import ServerSettings
from sfumato.server.worker_processes import open_channel

BOUGHT = {"kind": "questions", "spec": {"sql": COUNT}, "price": {"epsilon": "0.01"}}


class Command:
    """``sfumato serve`` in a process of its own."""

    def __init__(self, policy: Path, *options: str, settings: str = "answer_after = 0.5\n") -> None:
        folder = policy.parent.parent
        (folder / "server.toml").write_text(f'{settings}log = "activity.jsonl"\n')
        self.log = folder / "activity.jsonl"
        people = ProcessSettings((policy,), None, ServerSettings()).people
        with closing(PeopleFile(people)) as opened:
            opened.add_user("ana", "analyst", by="tests")
            self.token = opened.new_token("ana", by="tests")[1]
            opened.add_user("olga", "owner", by="tests")
            self.owner = opened.new_token("olga", by="tests")[1]
        command = [sys.executable, "-m", "sfumato", "serve", str(policy), "--settings", str(folder / "server.toml")]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.process.stdout.readline()  # how to stop it
        found = re.search(r"(\S+)/login/(\S+)$", line.strip())
        if found is None:
            self.process.kill()
            raise AssertionError(line + "".join(self.process.communicate()))
        self.url, self.link = found[1], found[2]

    def client(self, token: str = "") -> httpx.Client:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=NO_TLS)

    def end(self, how: int = signal.SIGTERM) -> tuple[int, str]:
        """Tell it to stop; give its exit code and what it said."""
        self.process.send_signal(how)
        out, said = self.process.communicate(timeout=60)
        return self.process.returncode, out + said


@contextmanager
def command(policy: Path, *options: str, **more: Any) -> Iterator[Command]:
    made = Command(policy, *options, **more)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            os.killpg(made.process.pid, signal.SIGKILL)
            made.process.communicate()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sf.example(tmp_path / "flights")


def buy(client: httpx.Client, key: str) -> httpx.Response:
    return client.post("/v1/policies/flights/releases", json=BOUGHT, headers={"Idempotency-Key": key})


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_what_was_charged_is_answered_before_it_ends(policy: Path, how: int) -> None:
    with (
        command(policy, "--listen", "127.0.0.1:0", settings="answer_after = 1.0\n") as served,
        served.client() as client,
        ThreadPoolExecutor() as threads,
    ):
        answer = threads.submit(buy, client, "last")
        while not _is_charged(served, "last"):
            time.sleep(0.05)
        shown = _shown_to_others(served.process.pid)
        assert "serve" in shown
        assert served.token not in shown
        assert served.link not in shown
        code, said = served.end(how)
        assert answer.result().status_code == 200
    assert (code, "Traceback" in said) == (0, False)
    assert served.token not in said + served.log.read_text()
    assert "SELECT" not in served.log.read_text()
    with sf.open(policy) as curator:
        assert sum(line.kind == "charge" for line in curator.history()) == 1


def _shown_to_others(process: int) -> str:
    """Read what the list of processes shows of one and of those that it started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    places = [Path(f"/proc/{each}/{name}") for each in (process, *children) for name in ("cmdline", "environ", "comm")]
    return "\n".join(each.read_text(errors="replace") for each in places)


def test_told_to_stop_it_takes_no_new_work_and_ends_what_was_charged(tmp_path: Path) -> None:
    """Nobody waits for the answer any more: it is stored all the same."""
    policy = clinic(tmp_path, "3", ["ana"])
    with forked_server([policy], ["ana"], answer_after=2.0) as served:
        with closing(served.connect()) as kept:
            assert served.call("ana", "GET", "/readyz", over=kept).status == 200
            kept.auto_open = 0  # nobody listens at the socket after that, and it is this test's own
            sent = {"kind": "questions", "spec": {"sql": VISITS}, "price": {"epsilon": "0.1"}}
            gone = {"Idempotency-Key": "gone", "Prefer": "respond-async"}
            assert served.call("ana", "POST", "/v1/policies/clinic/releases", sent, gone).status == 202
            while not _charged(served, "gone"):
                time.sleep(0.02)
            for each in served.running:
                os.kill(each.pid or 0, signal.SIGTERM)
            with suppress(OSError, HTTPException):  # it says that it stops, and hangs up
                while served.call("ana", "GET", "/readyz", over=kept).status == 200:
                    time.sleep(0.01)
                assert served.buy("ana", "clinic", "late", VISITS, kept, epsilon="0.2").status == 503
        assert served.stop() == [0]
    with sf.Ledger.open(served.ledger) as ledger:
        kinds = [line.kind for line in ledger]
    assert (kinds.count("charge"), kinds.count("answer")) == (1, 1)


VISITS = "SELECT COUNT(*) AS n FROM visits"


def _charged(served: ForkedServer, key: str) -> bool:
    """Tell whether a release is charged, or over."""
    said = served.call("ana", "GET", f"/v1/policies/clinic/releases?key={key}")
    return said.status == 200 and said.json()["phase"] in ("charged", "done")


def _is_charged(served: Command, key: str) -> bool:
    with served.client() as other:
        told = other.get("/v1/policies/flights/releases", params={"key": key})
    return told.status_code == 200 and told.json()["phase"] == "charged"


def test_several_processes_answer_and_one_that_is_killed_comes_back(policy: Path) -> None:
    with command(policy, "--listen", "127.0.0.1:0", "--processes", "2") as served:
        deadline = time.monotonic() + 300
        seen = Tally(_process(served) for _ in range(8))
        assert list(seen.values()) == [4, 4]  # in turn
        with ThreadPoolExecutor(8) as threads, served.client() as client:
            answers = list(threads.map(lambda _: buy(client, "same"), range(8)))
        assert {each.status_code for each in answers} == {200}
        assert len({each.json()["line"] for each in answers}) == 1
        os.kill(int(min(seen)), signal.SIGKILL)
        new = set(seen)
        while len(new) < 3 and time.monotonic() < deadline:
            new.add(_process(served))
        assert len(new) == 3
        assert served.end() == (0, "")
    with sf.open(policy) as curator:
        assert sum(line.kind == "charge" for line in curator.history()) == 1


@pytest.mark.long
def test_a_process_that_was_stopped_does_not_keep_the_server_from_ending(policy: Path) -> None:
    """What was answered is stored, and the ledger holds, whoever is killed."""
    settled = "answer_after = 0.1\ndrain_seconds = 1\n"
    with command(policy, "--listen", "127.0.0.1:0", "--processes", "2", settings=settled) as served:
        with served.client() as client:
            line = buy(client, "before").json()["line"]
        stopped = int(_process(served))
        os.kill(stopped, signal.SIGSTOP)
        code, said = served.end()
    assert code == 1
    assert f"process {stopped} did not end within 6 seconds and was killed" in said
    assert not _alive(stopped)
    with sf.open(policy) as curator:
        assert curator.ledger.verify().holds
        assert [each.number for each in curator.history() if each.kind == "charge"]
        assert line in [each.number for each in curator.history()]


def _process(served: Command) -> str:
    """Give the number of the process that happens to answer."""
    for _ in range(100):
        try:
            with served.client(served.owner) as client:
                answer = client.get("/metrics")
            if answer.status_code == 200:
                found = re.search(r'process="(\d+)"', answer.text)
                assert found
                return found[1]
            assert answer.status_code == 429  # whoever looks again and again is told to wait
        except httpx.HTTPError:  # killed while it answered
            pass
        time.sleep(0.05)
    raise AssertionError("nobody answers")


@pytest.mark.long
def test_processes_end_when_the_one_that_spawned_them_is_killed(policy: Path) -> None:
    with command(policy, "--listen", "127.0.0.1:0", "--processes", "2") as served:
        spawned = int(_process(served))
        served.process.kill()
        served.process.communicate()
        deadline = time.monotonic() + 300
        while _alive(spawned) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not _alive(spawned)


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_it_speaks_tls_with_a_certificate(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    own = {"certificate": str(tmp_path / "own.pem"), "certificate_key": str(tmp_path / "own.key")}
    with running_server(tmp_path, **own) as served:
        assert served.url.startswith("https://127.0.0.1:")
        answer = served.call("ana", "GET", "/v1/policies")
        assert answer.json() == {"policies": ["flights"]}
        assert answer.headers["strict-transport-security"] == "max-age=31536000"


def _raw(port: int, sent: bytes) -> bytes:
    """Send something by a connection of this machine, and give all that is told until it ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("at", "proxies", "answered"),
    [
        ("0.0.0.0:0", ["10.9.9.9"], False),
        ("0.0.0.0:0", ["10.9.9.9", "127.0.0.0/8"], True),
        ("[::]:0", ["10.9.9.9"], False),
        ("[::]:0", ["127.0.0.1"], True),
        ("127.0.0.1:0", ["10.9.9.9"], True),
    ],
)
def test_past_its_proxies_a_server_without_a_certificate_answers_nobody(
    tmp_path: Path, at: str, proxies: list[str], answered: bool
) -> None:
    own = {"public_url": "https://numbers.example.org", "proxies": proxies}
    try:
        with running_server(tmp_path, at=at, **own) as served:
            port = served.server.servers[0].sockets[0].getsockname()[1]
            shown = f"Authorization: Bearer {served.tokens['ana']}\r\nConnection: close\r\n"
            told = _raw(port, f"GET /v1/policies HTTP/1.1\r\nHost: numbers.example.org\r\n{shown}\r\n".encode())
            nonsense = _raw(port, b"GET /healthz HTTP/1.1\r\nHost: x")[:12] if not answered else b""
    except InvalidSettings:
        pytest.skip("this machine has no IPv6")
    head, _, body = told.partition(b"\r\n\r\n")
    if answered:
        assert head.startswith(b"HTTP/1.1 200 ")
        return
    assert head.startswith(b"HTTP/1.1 403 ")
    assert nonsense == b"HTTP/1.1 403"  # it is said before the head of a request is read
    assert b"content-type: application/problem+json" in head
    said = json.loads(body)
    assert (said["status"], said["place"]) == (403, "the connection")
    assert "https://numbers.example.org" in said["fix"]
    assert not served.log.exists() or "ana" not in served.log.read_text()  # no token was looked up


def test_who_is_answered_is_decided_by_where_a_connection_comes_from() -> None:
    peers = admitted_peers(ServerSettings(listen="10.0.0.5:1", public_url="https://x.example", proxies=("10.0.0.2",)))
    assert peers is not None
    assert peers.admits(("10.0.0.2", 5))
    assert peers.admits(("::ffff:10.0.0.2", 5, 0, 0))
    assert not any(
        peers.admits(each) for each in (("10.0.0.3", 5), ("::1", 5, 0, 0), ("fe80::1%lo", 5, 0, 1), "", None)
    )
    assert (
        admitted_peers(ServerSettings(listen="unix:/x", public_url="https://x.example", proxies=("10.0.0.2",))) is None
    )


def test_where_no_owner_is_let_in_another_is_made(tmp_path: Path) -> None:
    given = ProcessSettings((sf.example(tmp_path / "flights"),), None, ServerSettings())
    with closing(PeopleFile(given.people)) as people:
        names = []
        for _ in range(3):
            assert _ensure_owner_and_create_link(given, "http://x").startswith("http://x/login/")
            names.append({each.name for each in people.users()})
            with people.database.write_transaction() as rows:
                rows.execute("UPDATE users SET disabled = 1")
    assert names == [{"owner"}, {"owner", "owner-2"}, {"owner", "owner-2", "owner-3"}]


def test_a_process_that_cannot_start_says_why_without_a_traceback(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ProcessSettings((policy,), None, ServerSettings())
    policy.write_text("nonsense = [")
    here, there = open_channel()
    with here, there, pytest.raises(SystemExit) as ended:
        _run_worker(given, there, None)  # type: ignore[arg-type]
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "place:" in said
    assert "Traceback" not in said


def test_a_short_reply_does_not_wait_for_the_one_before_to_be_confirmed(tmp_path: Path) -> None:
    """Nagle's delay would cost 40 ms of every reply on a connection that is kept."""
    with running_server(tmp_path) as served:
        served.call(None, "GET", "/healthz")
        (connection,) = served.server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_what_cannot_be_served_is_refused(policy: Path, tmp_path: Path) -> None:
    for options, said in [
        (["--listen", "0.0.0.0:0"], "certificate"),
        (["--listen", f"unix:{policy}"], "there is a file that is not a socket"),
        (["--processes", "0"], "x>=1"),
        (["--settings", str(tmp_path / "none.toml")], "cannot be read"),
    ]:
        ended = CliRunner().invoke(main, ["serve", str(policy), *options])
        assert ended.exit_code in (1, 2), ended.output
        assert said in ended.output
