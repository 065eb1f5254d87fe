"""A server's settings, read from ``server.toml`` and validated like a policy: unknown keys are refused."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import InvalidParameter, InvalidPolicy, InvalidSettings
from sfumato.policy.domains import check_keys
from sfumato.privacy.numbers import Range, exact, exact_integer
from sfumato.quick_dataclass import dataclass

_MAX_BYTES = 1 << 20
_SECONDS = Range("a number of seconds from 0.001 to 3600", exact("0.001", "answer_after"), exact(3600, "answer_after"))
_UNIX_PREFIX = "unix:"
_DURATIONS = ("session_hours", "drain_seconds")


@dataclass(frozen=True)
class ServerSettings:
    """Where a server listens, how much of it one user may take, and when it answers."""

    listen: str = "127.0.0.1:8765"
    """``host:port``, or ``unix:`` and the path of a socket."""
    postgres: str = ""
    """Where PostgreSQL clients connect, written like ``listen``; empty for nowhere."""
    public_url: str = ""
    """The address that people type into a browser, if a proxy stands in front."""
    certificate: str = ""
    certificate_key: str = ""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of trusted proxies, whose X-Forwarded-For is believed. A server without a certificate that
    other machines can reach answers these alone."""
    processes: int = 1
    answer_after: float = 1.0
    """Seconds from the charge to the answer of a release, at the earliest. It should be longer than any query takes, so
    that the response time reveals nothing about rows."""
    free_per_second: int = 20
    releases_at_once: int = 2
    """Per user, over all processes."""
    queue: int = 64
    """Releases that may wait for their turn, per process."""
    body_bytes: int = 65536
    session_hours: int = 12
    drain_seconds: int = 660
    """Time for charged releases to finish when the server stops: more than one query may take."""
    log: str = ""
    """The file of the activity log; empty for standard error."""

    def __post_init__(self) -> None:
        for name in ("listen", "postgres", "public_url", "certificate", "certificate_key", "log"):
            _require_text(name, getattr(self, name))
        for name in ("processes", "free_per_second", "releases_at_once", "queue", "body_bytes", *_DURATIONS):
            check = partial(exact_integer, getattr(self, name), name, at_least=1)
            object.__setattr__(self, name, _naming_setting(name, check))
        seconds = _naming_setting("answer_after", lambda: exact(self.answer_after, "answer_after", _SECONDS))
        object.__setattr__(self, "answer_after", float(seconds))
        object.__setattr__(self, "proxies", _parse_networks(self.proxies))
        _require_valid_address(self.listen)
        _require_valid_url(self.public_url)
        if bool(self.certificate) != bool(self.certificate_key):
            raise InvalidSettings(
                "certificate and certificate_key must be set together",
                place="certificate_key" if self.certificate else "certificate",
                fix="set both, or neither",
            )
        self._require_safe_address()
        if self.postgres:
            self._require_possible_postgres()

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return is_local_address(self.listen)

    def accepts_host(self, host: str, listener: tuple[str, int | None] | None) -> bool:
        """Return whether a Host header names this server: ``public_url``, the listening address or this machine.

        ``listener`` is the address and port that accepted the connection. Without a ``public_url``, a server that other
        machines reach does not know its names and accepts every host; so do sockets, and proxies choose what they send.
        """
        if listener is None or listener[1] is None or (not self.local and (not self.public_url or self.proxies)):
            return True
        names = ("localhost", "127.0.0.1", "[::1]", self.listen.rpartition(":")[0])
        hosts = {f"{name}:{listener[1]}" for name in names}
        return host.lower() in (hosts | {urlsplit(self.public_url).netloc.lower()} if self.public_url else hosts)

    @property
    def secure(self) -> bool:
        """Whether people connect by https."""
        return bool(self.certificate) or self.public_url.startswith("https://")

    @property
    def is_behind_proxy(self) -> bool:
        """Whether other machines can connect and TLS ends at a proxy."""
        return not self.local and not self.certificate

    def _require_safe_address(self) -> None:
        """Refuse to receive tokens in clear text: any address but loopback needs TLS, here or at a listed proxy."""
        has_tls_proxy = self.public_url.startswith("https://") and bool(self.proxies)
        if self.is_behind_proxy and not has_tls_proxy:
            raise InvalidSettings(
                "an address that other machines reach needs TLS: a certificate, or an https proxy listed in proxies",
                place="listen",
                fix="listen on 127.0.0.1 or unix:…; or set certificate and certificate_key; or set public_url to an "
                "https address and list the proxy in proxies",
            )

    def _require_possible_postgres(self) -> None:
        """Refuse an address for PostgreSQL clients that others could listen to, and several processes: a client cancels
        a statement on a connection of its own, which has to reach the same process.
        """
        _require_valid_address(self.postgres, "postgres", 5433)
        if not is_local_address(self.postgres) and not self.certificate:
            raise InvalidSettings(
                "PostgreSQL clients on other machines need TLS from this server: no proxy can provide it for them",
                place="postgres",
                fix="set certificate and certificate_key, or listen on 127.0.0.1 or unix:…",
            )
        if self.processes > 1:
            raise InvalidSettings(
                "PostgreSQL clients can only be served by one process", place="postgres", fix="set processes to 1"
            )


def is_local_address(listen: str) -> bool:
    """Return whether only this machine can connect to an address."""
    return listen.startswith(_UNIX_PREFIX) or ipaddress.ip_address(_host_of(listen)).is_loopback


def read_settings(path: str | os.PathLike[str]) -> ServerSettings:
    """Read settings from a TOML file; relative paths in it are relative to its folder.

    Raises: InvalidSettings: The file cannot be read, is no TOML, or holds an unknown key or a bad value.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError:
        fix = "check the path and the permissions of the file"
        raise InvalidSettings("the settings file cannot be read", place=str(file), fix=fix) from None
    if len(content) > _MAX_BYTES:
        raise InvalidSettings(
            "this file has more than 1 MiB, too much for a settings file",
            place=str(file),
            fix="check the path: it must name the TOML file with the settings of the server",
        )
    return build_settings(_parse_toml(content, str(file)), file.parent)


def build_settings(written: Mapping[str, Any], folder: Path) -> ServerSettings:
    """Build settings from keys and values; file names are relative to ``folder``."""
    try:
        check_keys(written, [field.name for field in fields(ServerSettings)], "")
    except InvalidPolicy as error:
        raise InvalidSettings(error.rule, place=error.place, fix=error.fix) from None
    values = dict(written)
    for name in ("certificate", "certificate_key", "log"):
        if values.get(name):
            _require_text(name, values[name])
            values[name] = str(folder / values[name])
    return ServerSettings(**values)


def _parse_toml(content: bytes, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"), parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        rule = f"the file is not valid TOML: {error}"
    except (ValueError, ArithmeticError, RecursionError):
        rule = "the file is not valid TOML in UTF-8"
    raise InvalidSettings(rule, place=place, fix="correct the file")


def _naming_setting(name: str, parse: Any) -> Any:
    try:
        return parse()
    except InvalidParameter as error:
        rule, fix = error.rule, error.fix
    raise InvalidSettings(rule, place=name, fix=fix)


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or "\0" in value:
        raise InvalidSettings(f"{name} must be a string", place=name, fix=f"write the value of {name} in quotes")


def _parse_networks(networks: Any) -> tuple[str, ...]:
    try:
        if isinstance(networks, str):
            raise ValueError
        return tuple(str(ipaddress.ip_network(network)) for network in networks)
    except (TypeError, ValueError):
        rule = "proxies must be a list of IP addresses or networks"
        raise InvalidSettings(rule, place="proxies", fix='write proxies = ["10.0.0.2"]') from None


def _host_of(listen: str) -> str:
    return listen.rpartition(":")[0].strip("[]")


def _require_valid_address(listen: str, name: str = "listen", example_port: int = 8765) -> None:
    if listen.startswith(_UNIX_PREFIX) and len(listen) > len(_UNIX_PREFIX):
        return
    host, _, port = listen.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
        if port.isascii() and port.isdigit() and int(port) < 65536:
            return
    except ValueError:
        pass
    raise InvalidSettings(
        f"{name} must be an IP address and a port, or the path of a socket",
        place=name,
        fix=f'write {name} = "127.0.0.1:{example_port}", "[::1]:{example_port}" or "unix:/run/sfumato.sock"',
    )


def _require_valid_url(url: str) -> None:
    if not url:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        rule, fix = "public_url must be an http or https address", 'write public_url = "https://sfumato.example.org"'
        raise InvalidSettings(rule, place="public_url", fix=fix)
