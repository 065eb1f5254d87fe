"""Connecting: where a token goes, what is imported, what is sent again, and what is said when nobody answers."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from cli.running import run
from client.curators import served_policy, serving
from sfumato.client import RemoteCurator, wire
from sfumato.client.remote_proposals import RemoteProposal
from sfumato.client.wire import Address
from sfumato.errors import NotSignedIn, ServerUnavailable, TooManyRequests
from sfumato.server.requests import proposals, specs

COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with serving(served_policy(tmp_path_factory.mktemp("policy"))) as found:
        yield found


# ── where ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://127.0.0.1.example.org",
        "http://10.0.0.1:8765",
        "http://0.0.0.0:1",
        "http://localhost.example.org",
        "ftp://127.0.0.1",
        "https://",
        "https://me:secret@example.org",
        "https://example.org/?token=x",
        "https://example.org:x",
        "unix:",
        "example.org",
        "https://exa\nmple.org",
        "",
        None,
    ],
)
def test_an_address_over_which_others_could_read_the_token_is_refused(url: Any) -> None:
    with pytest.raises(sf.InvalidParameter) as refused:
        sf.connect(url, token="secret")
    assert refused.value.place == "url"


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://example.org", "https://example.org"),
        ("https://example.org:8443/clinic/", "https://example.org:8443/clinic"),
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765"),
        ("http://[::1]:8765", "http://[::1]:8765"),
        ("http://localhost:1/", "http://localhost:1"),
    ],
)
def test_addresses_are_read(url: str, base: str) -> None:
    assert Address.parse(url).base == base


def test_certificates_are_verified() -> None:
    import ssl

    found = wire._tls_verification(Address.parse("https://example.org"), None)
    assert isinstance(found, ssl.SSLContext)
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)
    with pytest.raises(sf.InvalidParameter):
        wire._tls_verification(Address.parse("https://example.org"), "/nowhere.pem")


def test_a_server_whose_certificate_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    certificate, key = _own_certificate(tmp_path)
    policy = served_policy(tmp_path)
    with serving(policy, certificate=str(certificate), certificate_key=str(key)) as (where, token):
        assert where.startswith("https://")
        with pytest.raises(
            ServerUnavailable, match=r"certificate of the server is not trusted \(self.signed certificate\)"
        ):
            sf.connect(where, token=token)
        with sf.connect(where, token=token, certificate=certificate) as curator:
            assert curator.name == "clinic"
    (tmp_path / "plain").mkdir()
    plainly = serving(served_policy(tmp_path / "plain"))
    with plainly as (plain, token), pytest.raises(ServerUnavailable, match="TLS: the handshake failed"):
        sf.connect(plain.replace("http:", "https:"), token=token)


def test_the_certificate_that_login_was_given_is_kept_beside_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv("SFUMATO_TOKEN", raising=False)
    certificate, key = _own_certificate(tmp_path)
    monkeypatch.chdir(certificate.parent)
    policy = served_policy(tmp_path)
    with serving(policy, certificate=str(certificate), certificate_key=str(key)) as (where, token):
        done = run("login", where, "--certificate", certificate.name, given=f"{token}\n")
        assert done.exit_code == 0, done.output
        monkeypatch.chdir("/")
        for asked in (("budget", "clinic"), ("history", "clinic"), ("query", "clinic", COUNT, "--explain")):
            done = run(*asked, "--server", where)
            assert done.exit_code == 0, done.output
        with sf.connect(where) as curator:
            assert curator.name == "clinic"
        assert run("login", "http://127.0.0.1:1", "--forget").exit_code == 0  # what is kept for others stays as it is
        with sf.connect(where) as curator:
            assert curator.name == "clinic"


@pytest.mark.parametrize(
    "written",
    ['["x"]', '{"https://x": 1}', '{"https://x": {"token": "t"}}', '{"https://x": {"token": 1, "certificate": "c"}}'],
)
def test_a_file_of_tokens_that_holds_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SFUMATO_TOKEN", raising=False)
    path = tmp_path / "sfumato" / "tokens.json"
    path.parent.mkdir()
    path.write_text(written)
    path.chmod(0o600)
    with pytest.raises(sf.SfumatoError, match="the token file is damaged"):
        sf.connect("https://x")


def test_a_socket_is_called_too(tmp_path: Path) -> None:
    served = serving(served_policy(tmp_path), at=f"unix:{tmp_path}/s")
    with served as (where, token), sf.connect(where, token=token) as curator:
        assert curator.sql(COUNT).price(within=50) > 0


# ── who ────────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_token_is_refused_as_the_server_says(at: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    for token in ("wrong", None):
        with pytest.raises(NotSignedIn):
            sf.connect(at[0], token=token)
    with pytest.raises(sf.InvalidParameter) as refused:
        sf.connect(at[0], token="line\nbreak")
    assert "break" not in str(refused.value)


def test_a_policy_is_chosen_by_its_name(at: tuple[str, str]) -> None:
    with sf.connect(at[0], "clinic", token=at[1]) as curator:
        assert curator.policy.share is not None
    with pytest.raises(sf.InvalidParameter, match="one of the policies on the server: clinic"):
        sf.connect(at[0], "school", token=at[1])


def test_a_token_is_kept_for_its_owner_alone(
    at: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = wire.save_token(Address.parse(at[0]), at[1])
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    wire.save_token(Address.parse("https://example.org"), "other")
    with sf.connect(at[0]) as curator:
        assert curator.name == "clinic"
    path.chmod(0o644)
    with pytest.raises(sf.SfumatoError, match="the token file can be read by other users"):
        sf.connect(at[0])
    path.chmod(0o600)
    wire.save_token(Address.parse(at[0]), None)
    assert json.loads(path.read_text()) == {"https://example.org": "other"}
    monkeypatch.setenv("SFUMATO_TOKEN", at[1])
    with sf.connect(at[0]) as curator:
        assert curator.name == "clinic"
    path.write_text("[]")
    monkeypatch.delenv("SFUMATO_TOKEN")
    with pytest.raises(sf.SfumatoError, match="it must map server addresses to tokens"):
        sf.connect(at[0])


# ── what is imported ───────────────────────────────────────────────────────────────────────────

ASKING = """
import sys
import sfumato as sf

with sf.connect(sys.argv[1], token=sys.argv[2]) as curator:
    question = curator.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region")
    question.explain(epsilon=1), question.error(epsilon=1), question.advise(), question.plot(), question.preview()
    answer = question.release(epsilon="0.5")
    print(answer, answer.to_csv(), answer.plot().svg[:4])
    print(curator.table("visits").group_by("region").agg(n=sf.count()).price(within=9))
    print(curator.workload([question]).error(epsilon=1), curator.bounds("visits", "cost").explain(1))
    print(curator.bounds("visits", "cost").preview(1), curator.auction("visits", "cost", prices=[1]).preview(1))
    print(curator.budget, curator.standing(), list(curator.history()), curator.tables, curator.policy)
    print(curator.sql("SHOW TABLES"))
print(*sorted({each.split(".")[0] for each in sys.modules}), file=sys.stderr)
"""


def test_no_engine_and_no_parser_is_imported(at: tuple[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKING, *at],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    modules = set(done.stderr.split())
    assert "httpx" in modules
    assert not {"rich", "pygments"} & modules  # httpx's command line, which takes as long as the rest
    assert not modules & {"duckdb", "sqlglot", "pyarrow", "pandas", "starlette", "msgspec", "altair"}


# ── what is sent again ─────────────────────────────────────────────────────────────────────────


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes] | None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Answer one request after the other with these; None hangs up."""
    waiting, seen = list(answers), []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            seen.append({"path": self.path, "headers": dict(self.headers), "body": self.rfile.read(length)})
            answer = waiting.pop(0) if waiting else None
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


ONE = (200, {}, b'{"policies": ["clinic"]}')
ABOUT = (200, {}, b'{"act": "propose", "result": {"text": "q", "columns": [], "warnings": [], "free": false}}')
BUSY_ERROR = TooManyRequests("one user asks at most 20 questions a second", 0)
BUSY = (429, {"Content-Type": "application/problem+json"}, sf.errors.to_json(BUSY_ERROR).encode())


def test_what_was_lost_is_sent_again_under_the_same_request_id(at: tuple[str, str]) -> None:
    with sf.connect(at[0], token=at[1]) as real:
        answer = real.sql(COUNT).release(epsilon="0.1")
    bought = json.dumps({"line": 1, "free": False, "result": json.loads(answer.to_json())}).encode()
    answers = answering(None, ONE, ABOUT, None, BUSY, (200, {}, bought))
    with answers as (where, seen), sf.connect(where, token="x") as curator:
        assert curator.sql(COUNT).release(epsilon=1).rows == answer.rows
    releases = [each for each in seen if each["path"].endswith("/releases")]
    keys = {each["headers"]["Idempotency-Key"] for each in releases}
    assert (len(releases), len(keys), len({each["body"] for each in releases})) == (3, 1, 1)
    assert len(keys.pop()) == 32


@pytest.mark.parametrize("status", [502, 503, 504])
def test_what_a_proxy_lost_is_sent_again_to_the_next_server(status: int) -> None:
    lost = (status, {"Content-Type": "text/html"}, b"<html><h1>Bad Gateway</h1></html>")
    with answering(lost, ONE, ABOUT) as (where, seen), sf.connect(where, token="x") as curator:
        assert curator.sql(COUNT).text == "q"
    assert [each["path"] for each in seen][:2] == ["/v1/policies"] * 2
    with answering(ONE, lost) as (where, seen), sf.connect(where, token="x") as curator:
        with pytest.raises(ServerUnavailable, match=f"HTTP status {status}.*may have carried out the request"):
            curator.amend(reason="less")
        assert len(seen) == 2  # it may have been done


ONCE: dict[str, Callable[[RemoteCurator], object]] = {
    "/v1/policies/clinic/grants": lambda to: to.requests.grant("ana", epsilon="0.5", days=7, purpose="drafts"),
    "/v1/policies/clinic/reviews": lambda to: to.requests.publish([3], purpose="the report"),
    "/v1/policies/clinic/requests/7/approve": lambda to: to.requests.approve(7),
    "/v1/policies/clinic/amend": lambda to: to.amend(reason="less"),
    "/v1/tokens": lambda to: to.server.new_token("ana"),
    "/v1/links": lambda to: to.server.login_link("ana"),
    "/v1/users": lambda to: to.server.add_user("ben"),
}


@pytest.mark.parametrize("path", ONCE)
def test_what_would_be_done_twice_is_sent_once(path: str) -> None:
    with answering(ONE, BUSY, None, None) as (where, seen), sf.connect(where, token="x") as curator:
        with pytest.raises(ServerUnavailable, match="may have carried out the request") as refused:
            ONCE[path](curator)
        assert [each["path"] for each in seen[1:]] == [path, path]  # the busy server did nothing
    assert "check whether the request was carried out" in refused.value.fix


def test_who_gets_no_answer_is_told_the_request_id() -> None:
    with answering(ONE, ABOUT) as (where, _), sf.connect(where, token="x") as curator:
        asked = curator.sql(COUNT)
        with pytest.raises(ServerUnavailable) as refused:
            asked.release(epsilon=1, request_id="mine")
    assert refused.value.request_id == "mine"
    assert "request_id='mine'" in refused.value.fix
    with pytest.raises(ServerUnavailable):
        sf.connect(where, token="x", timeout=1)


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"Content-Type": "text/html"}, b"<html>"),
        (200, {}, b"[]"),
        (200, {}, b"{"),
        (302, {"Location": "https://example.org/"}, b"{}"),
        (404, {}, b"{}"),
    ],
)
def test_what_is_no_server_of_ours_is_said_to_be_none(answer: tuple[int, dict[str, str], bytes]) -> None:
    with (
        answering(answer) as (where, seen),
        pytest.raises(ServerUnavailable, match="there is no Sfumato server at this address"),
    ):
        sf.connect(where, token="x")
    assert len(seen) == 1


def test_an_unknown_kind_and_a_broken_problem_are_refused() -> None:
    strange = (200, {}, b'{"act": "propose", "result": {"kind": "os.system/1"}}')
    asked = answering(ONE, strange)
    with asked as (where, _), sf.connect(where, token="x") as curator, pytest.raises(ServerUnavailable, match="know"):
        curator.sql(COUNT)
    broken = (400, {"Content-Type": "application/problem+json"}, b'{"facts": 3}')
    with answering(broken) as (where, _), pytest.raises(sf.SfumatoError):
        sf.connect(where, token="x")


# ── what travels ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", proposals.KINDS)
@pytest.mark.parametrize("method", ["explain", "error", "price", "rehearse", "release"])
def test_values_without_a_name_are_those_that_python_takes(kind: str, method: str) -> None:
    import inspect

    offered = getattr(proposals.KINDS[kind].proposal_class, method, None)
    if offered is None:
        return
    placed = [
        each.name for each in inspect.signature(offered).parameters.values() if each.kind == each.POSITIONAL_OR_KEYWORD
    ]
    given = tuple(str(place) for place, _ in enumerate(placed[1:], 1))
    proposal = RemoteProposal(None, kind, {}, {})  # type: ignore[arg-type]
    assert list(proposal._terms_by_name(method, given, {})) == [name.removesuffix("_") for name in placed[1:]]


def test_every_act_of_the_interface_is_a_method() -> None:
    from sfumato.client.remote_proposals import RemoteQuestion, RemoteTest

    # what is stored is looked for by the methods of answers
    assert set(specs.ACTS) - {"propose", "stored"} <= {*dir(RemoteQuestion), *dir(RemoteTest)}


def test_what_stays_with_the_data_is_refused_plainly(at: tuple[str, str]) -> None:
    with sf.connect(at[0], token=at[1]) as curator:
        for call in (
            lambda: curator.online("visits", ["region"]),
            lambda: curator.above(5),
            lambda: curator.limits("visits"),
            lambda: curator.score("candidate.csv"),
        ):
            with pytest.raises(sf.Unsupported) as refused:
                call()
            assert refused.value.code == "not-at-a-server"
        with pytest.raises(sf.InvalidParameter, match="seconds"):
            curator.sql(COUNT).release(epsilon=1, seconds=3)
        with pytest.raises(sf.InvalidParameter, match="request_id"):
            curator.sql(COUNT).release(epsilon=1, request_id="é")
        with pytest.raises(TypeError):
            curator.sql(COUNT).error(1, epsilon=2)
        with pytest.raises(sf.InvalidParameter, match="questions"):
            curator.workload([curator.sql(f"{COUNT} WHERE age > $1", [3])])


def test_questions_of_a_file_are_one_workload(at: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "questions.sql"
    file.write_text(f"{COUNT};\n-- and\n{COUNT} WHERE age > 3;")
    with sf.connect(at[0], token=at[1]) as curator:
        assert set(curator.workload(file).columns) == {"q1", "q2"}
        with pytest.raises(sf.InvalidParameter):
            curator.workload(tmp_path / "missing.sql")


def test_threads_share_one_connection(at: tuple[str, str]) -> None:
    with sf.connect(at[0], token=at[1]) as curator:
        asked, found = curator.sql(COUNT), []
        threads = [threading.Thread(target=lambda: found.append(asked.error(epsilon=1))) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len(found) == 8
    assert len(set(map(str, found))) == 1


def test_without_httpx_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(sf.SfumatoError, match="not installed") as refused:
        sf.connect("http://127.0.0.1:1", token="x")
    assert "sfumato[client]" in refused.value.fix


def _own_certificate(folder: Path) -> tuple[Path, Path]:
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return certificate, secret
