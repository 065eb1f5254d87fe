"""The proxies' examples, in real nginx and Caddy with TLS, before a real server on a socket file."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import sfumato as sf
from ledger.in_databases import Place
from postgres_server import PostgresServer
from server.running_server import COUNT, RunningServer, running_server

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "numbers.example.org"
BOUGHT = {"kind": "questions", "spec": {"sql": COUNT}, "price": {"epsilon": "0.01"}}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a certificate for the example's name, with its key beside it."""
    folder, key = tmp_path_factory.mktemp("certificate"), ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)]), dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "own.pem").write_bytes(signed.public_bytes(pem))
    (folder / "own.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return folder / "own.pem"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def nginx(folder: Path, certificate: Path, socket_file: Path) -> tuple[list[str], int]:
    """Write the example with this test's paths inside the smallest nginx.conf."""
    port = free_port()
    text = (DEPLOY / "nginx.conf").read_text()
    for old, new in (
        ("/run/sfumato/sfumato.sock", str(socket_file)),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        (f"/etc/ssl/{NAME}.pem", str(certificate)),
        (f"/etc/ssl/private/{NAME}.key", str(certificate.with_suffix(".key"))),
    ):
        assert old in text
        text = text.replace(old, new)
    spare = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user}pid {folder}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n{spare}{text}}}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"], port


def caddy(folder: Path, certificate: Path, socket_file: Path) -> tuple[list[str], int]:
    """Write the example with this test's paths, a port of its own and this certificate."""
    port = free_port()
    text = (DEPLOY / "Caddyfile").read_text()
    for old, new in (
        ("unix//run/sfumato/sfumato.sock", f"unix/{socket_file}"),
        (
            f"{NAME} {{",
            f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {certificate} {certificate.with_suffix('.key')}",
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")], port


@contextmanager
def proxied(
    make: Callable[[Path, Path, Path], tuple[list[str], int]], folder: Path, certificate: Path, served: RunningServer
) -> Iterator[httpx.Client]:
    """Run a proxy before a server, and give a client that trusts its certificate."""
    assert served.socket is not None
    command, port = make(folder, certificate, Path(served.socket))
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, **environment})
    transport = httpx.HTTPTransport(verify=ssl.create_default_context(cafile=str(certificate)))
    headers = {"Authorization": f"Bearer {served.tokens['ana']}", "Host": NAME}
    base = f"https://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=base, transport=transport, headers=headers, timeout=60) as client:
            _wait_until_it_answers(client, process, folder / "log")
            yield client
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_it_answers(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            client.get("/readyz", extensions={"sni_hostname": NAME})
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text())


@pytest.mark.parametrize("make", [nginx, caddy], ids=lambda make: make.__name__)
def test_an_analyst_asks_through_the_example(
    make: Callable[[Path, Path, Path], tuple[list[str], int]], tmp_path: Path, certificate: Path
) -> None:
    if shutil.which(make.__name__, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip(f"{make.__name__} is not installed")
    spare = tmp_path / "proxy"
    spare.mkdir()
    sni = {"sni_hostname": NAME}
    with (
        running_server(
            tmp_path, at=f"unix:{tmp_path}/s.sock", public_url=f"https://{NAME}", answer_after=1.0
        ) as served,
        proxied(make, spare, certificate, served) as client,
    ):
        assert client.get("/readyz", extensions=sni).status_code == 200
        nobody = client.get("/v1/policies", headers={"Authorization": "Bearer no"}, extensions=sni)
        assert nobody.status_code == 401
        answers = [
            client.post(
                "/v1/policies/flights/releases", json=BOUGHT, headers={"Idempotency-Key": "one"}, extensions=sni
            )
            for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert [answer.json()["free"] for answer in answers] == [False, True]
        assert answers[0].json()["line"] == answers[1].json()["line"]
        long = client.post("/v1/policies/flights/releases", content=b"x" * 70_000, extensions=sni)
        assert long.status_code == 413
        assert client.get("/v1/policies%2Fflights", extensions=sni).status_code == 404
        other = client.get("/v1/policies", headers={"Host": "other.example"}, extensions=sni)
        assert "flights" not in other.text
    assert served.tokens["ana"] not in (spare / "log").read_text()


def test_two_servers_behind_one_proxy_spend_one_budget(
    postgres: PostgresServer, tmp_path: Path, certificate: Path
) -> None:
    """Two servers on one machine share users, and a ledger in PostgreSQL: together they sell what the share allows."""
    if shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip("nginx is not installed")
    policy = sf.example(tmp_path / "flights")
    policy.write_text(f'ledger = "{Place.make(postgres).address}"\n{policy.read_text()}')
    folders = [tmp_path / name for name in ("proxy", "one", "two")]
    for folder in folders:
        folder.mkdir()

    def both(folder: Path, certificate: Path, socket_file: Path) -> tuple[list[str], int]:
        command, port = nginx(folder, certificate, socket_file)
        text, server = (folder / "nginx.conf").read_text(), f"server unix:{socket_file};"
        assert server in text
        (folder / "nginx.conf").write_text(text.replace(server, f"{server} server unix:{tmp_path}/two/s.sock;"))
        return command, port

    terms = {"policy": policy, "public_url": f"https://{NAME}", "answer_after": 0.25}
    with (
        running_server(folders[1], at=f"unix:{folders[1]}/s.sock", **terms) as one,
        running_server(folders[2], at=f"unix:{folders[2]}/s.sock", **terms) as two,
        proxied(both, folders[0], certificate, one) as client,
    ):
        price = {"epsilon": "0.4", "fresh": True}
        statuses = [
            client.post(
                "/v1/policies/flights/releases",
                json={**BOUGHT, "price": price},
                headers={"Idempotency-Key": f"key{number}"},
                extensions={"sni_hostname": NAME},
            ).status_code
            for number in range(6)
        ]
        assert sorted(statuses) == [200] * 3 + [402] * 3, statuses  # ana's share of ε = 3 is a half
        assert one.spent() == two.spent() == 3
    assert all(b"release" in server.log.read_bytes() for server in (one, two))


def test_the_health_check_reads_readiness_from_the_socket_file(tmp_path: Path) -> None:
    check = [sys.executable, str(DEPLOY / "ready.py"), f"{tmp_path}/s.sock"]
    with running_server(tmp_path, at=f"unix:{tmp_path}/s.sock", public_url=f"https://{NAME}"):
        assert subprocess.run(check, check=False).returncode == 0
    stopped = subprocess.run(check, check=False, capture_output=True, text=True)
    assert (stopped.returncode, "Traceback" in stopped.stderr) == (1, False)
