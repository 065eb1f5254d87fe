"""A server's settings are read from ``server.toml`` and checked like a policy: a key that nobody reads is refused."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import InvalidParameter, InvalidPolicy, InvalidSettings
from sfumato.policy.domains import check_keys
from sfumato.privacy.numbers import Range, exact, whole

_MOST_BYTES = 1 << 20
_SECONDS = Range("a number of seconds from 0.001 to 3600", exact("0.001", "answer_after"), exact(3600, "answer_after"))
_UNIX = "unix:"
_LONG = ("session_hours", "drain_seconds")


@dataclass(frozen=True)
class ServerSettings:
    """Settings say where a server listens, how much of it one person may use, and when it answers."""

    listen: str = "127.0.0.1:8765"
    """An address and a port, or ``unix:`` and a path."""
    public_url: str = ""
    """What people type, where a proxy stands in front."""
    certificate: str = ""
    certificate_key: str = ""
    proxies: tuple[str, ...] = ()
    """Addresses whose word about callers' own addresses is taken; without a certificate nobody else is answered, where
    other machines reach the server."""
    processes: int = 1
    answer_after: float = 1.0
    """The seconds after which a release answers, and never before: no less than any reading takes, so that the time
    tells nothing of rows."""
    free_per_second: int = 20
    releases_at_once: int = 2
    """Of one user, in all processes."""
    queue: int = 64
    """Releases that wait for their turn, in each process."""
    body_bytes: int = 65536
    session_hours: int = 12
    drain_seconds: int = 660
    """What was charged has so long to end when the server stops: more than one question may take."""
    log: str = ""
    """The file that the activity log is appended to; empty for the standard error."""

    def __post_init__(self) -> None:
        for name in ("listen", "public_url", "certificate", "certificate_key", "log"):
            _text(name, getattr(self, name))
        for name in ("processes", "free_per_second", "releases_at_once", "queue", "body_bytes", *_LONG):
            object.__setattr__(self, name, _placed(name, lambda: whole(getattr(self, name), name, at_least=1)))  # noqa: B023
        seconds = _placed("answer_after", lambda: exact(self.answer_after, "answer_after", _SECONDS))
        object.__setattr__(self, "answer_after", float(seconds))
        object.__setattr__(self, "proxies", _addresses(self.proxies))
        _check_address(self.listen)
        _check_url(self.public_url)
        if bool(self.certificate) != bool(self.certificate_key):
            raise InvalidSettings(
                "a certificate and its key are given together",
                place="certificate_key" if self.certificate else "certificate",
                fix="name both files, or neither",
            )
        self._require_safe_address()

    @property
    def local(self) -> bool:
        """Tell whether it listens where only this machine reaches it."""
        if self.listen.startswith(_UNIX):
            return True
        return ipaddress.ip_address(_host(self.listen)).is_loopback

    @property
    def secure(self) -> bool:
        """Tell whether people reach it by https."""
        return bool(self.certificate) or self.public_url.startswith("https://")

    @property
    def behind_proxies(self) -> bool:
        """Tell whether other machines reach it in no safe way but by its proxies."""
        return not self.local and not self.certificate

    def _require_safe_address(self) -> None:
        """Refuse tokens in the clear: another address than this machine's needs TLS, here or at a named proxy."""
        behind = self.public_url.startswith("https://") and bool(self.proxies)
        if self.behind_proxies and not behind:
            raise InvalidSettings(
                "a server is reached from other machines with a certificate, or by an https proxy that is named",
                place="listen",
                fix="listen on 127.0.0.1 or unix:…; or give certificate and certificate_key; or public_url with https "
                "and proxies",
            )


def read_settings(path: str | os.PathLike[str]) -> ServerSettings:
    """Read the settings in a TOML file; paths in it are relative to it."""
    file = Path(path)
    try:
        with file.open("rb") as opened:
            written = opened.read(_MOST_BYTES + 1)
    except OSError:
        fix = "name a file that is there and can be read"
        raise InvalidSettings("the settings file cannot be read", place=str(file), fix=fix) from None
    if len(written) > _MOST_BYTES:
        raise InvalidSettings("settings have at most 1 MiB", place=str(file), fix="name the right file")
    return settings_of(_parsed(written, str(file)), file.parent)


def settings_of(written: Mapping[str, Any], folder: Path) -> ServerSettings:
    """Make settings of keys and values; files are found in a folder."""
    try:
        check_keys(written, [field.name for field in fields(ServerSettings)], "")
    except InvalidPolicy as refused:
        raise InvalidSettings(refused.rule, place=refused.place, fix=refused.fix) from None
    given = dict(written)
    for name in ("certificate", "certificate_key", "log"):
        if given.get(name):
            _text(name, given[name])
            given[name] = str(folder / given[name])
    return ServerSettings(**given)


def _parsed(written: bytes, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(written.decode("utf-8-sig"), parse_float=Decimal)
    except tomllib.TOMLDecodeError as refused:
        rule = f"this is not TOML: {refused}"
    except (ValueError, ArithmeticError, RecursionError):
        rule = "this is not TOML in UTF-8"
    raise InvalidSettings(rule, place=place, fix="correct the file")


def _placed(name: str, make: Any) -> Any:
    try:
        return make()
    except InvalidParameter as refused:
        rule, fix = refused.rule, refused.fix
    raise InvalidSettings(rule, place=name, fix=fix)


def _text(name: str, value: object) -> None:
    if not isinstance(value, str) or "\0" in value:
        raise InvalidSettings(f"{name} is a text", place=name, fix=f'write {name} = "…"')


def _addresses(given: Any) -> tuple[str, ...]:
    try:
        if isinstance(given, str):
            raise ValueError
        return tuple(str(ipaddress.ip_network(each)) for each in given)
    except (TypeError, ValueError):
        rule = "proxies are a list of addresses or networks"
        raise InvalidSettings(rule, place="proxies", fix='write proxies = ["10.0.0.2"]') from None


def _host(listen: str) -> str:
    return listen.rpartition(":")[0].strip("[]")


def _check_address(listen: str) -> None:
    if listen.startswith(_UNIX) and len(listen) > len(_UNIX):
        return
    host, _, port = listen.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
        if port.isascii() and port.isdigit() and int(port) < 65536:
            return
    except ValueError:
        pass
    raise InvalidSettings(
        "a server listens on an address and a port, or on a socket file",
        place="listen",
        fix='write listen = "127.0.0.1:8765", "[::1]:8765" or "unix:/run/sfumato.sock"',
    )


def _check_url(url: str) -> None:
    if not url:
        return
    found = urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname or found.query or found.fragment:
        rule, fix = "public_url is the address that people type", 'write public_url = "https://sfumato.example.org"'
        raise InvalidSettings(rule, place="public_url", fix=fix)
