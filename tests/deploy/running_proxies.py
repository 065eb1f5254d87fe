"""Real proxies for tests: the examples of ``deploy/`` with a test's own paths, ports and certificate."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import socket
import ssl
import subprocess
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

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "numbers.example.org"
SNI = {"sni_hostname": NAME}
MakeProxy = Callable[..., tuple[list[str], int]]
"""Writes a proxy's files into a folder, for a certificate and servers' sockets; returns its command and port."""


def write_certificate(folder: Path) -> Path:
    """Write a certificate for the example's name, with its key beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
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


def require_program(name: str) -> None:
    """Skip the test where a proxy is not installed."""
    if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip(f"{name} is not installed")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def nginx(folder: Path, certificate: Path, *socket_files: Path) -> tuple[list[str], int]:
    """Write the example with this test's paths, before one server or several, inside the smallest nginx.conf."""
    port = free_port()
    text = (DEPLOY / "nginx.conf").read_text()
    for old, new in (
        (
            "    server unix:/run/sfumato/sfumato.sock;\n",
            "".join(f"    server unix:{socket_file};\n" for socket_file in socket_files),
        ),
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


def caddy(folder: Path, certificate: Path, *socket_files: Path) -> tuple[list[str], int]:
    """Write the example with this test's paths, a port of its own and this certificate."""
    port = free_port()
    text = (DEPLOY / "Caddyfile").read_text()
    for old, new in (
        ("unix//run/sfumato/sfumato.sock", " ".join(f"unix/{socket_file}" for socket_file in socket_files)),
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
def running_proxy(command: list[str], port: int, folder: Path, certificate: Path) -> Iterator[str]:
    """Run a proxy until the end of the block; give its address."""
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, **environment})
    base = f"https://127.0.0.1:{port}"
    try:
        with proxy_client(base, certificate, "none") as client:
            _wait_until_it_answers(client, process, folder / "log")
        yield base
    finally:
        process.terminate()
        process.wait(30)


def proxy_client(base: str, certificate: Path, token: str) -> httpx.Client:
    """Return a client that trusts a proxy's certificate."""
    transport = httpx.HTTPTransport(verify=ssl.create_default_context(cafile=str(certificate)))
    headers = {"Authorization": f"Bearer {token}", "Host": NAME}
    return httpx.Client(base_url=base, transport=transport, headers=headers, timeout=60)


def _wait_until_it_answers(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            client.get("/readyz", extensions=SNI)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text())
