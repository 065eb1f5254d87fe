"""Server addresses, and the file of saved tokens.

A token is sent to https addresses, Unix sockets and loopback addresses alone. ``sfumato login`` saves it in a file that
only its owner can read, with the path of a certificate file if one was given, and ``connect`` reads it from there.
"""

from __future__ import annotations

import ipaddress
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import UNREADABLE

_UNIX_PREFIX = "unix:"
_FIX = 'write "https://host", "unix:/path/to/socket", or "http://127.0.0.1:8765" for a server on this machine'


@dataclass(frozen=True)
class Address:
    """The address of a server: the base URL, or the path of its Unix socket."""

    base: str
    """The base URL of all paths."""
    socket: str | None = None
    local: bool = False
    """Whether requests stay on this machine."""

    @property
    def label(self) -> str:
        return self.base if self.socket is None else f"{_UNIX_PREFIX}{self.socket}"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse an address; refuse one over which others could read the token."""
        if not isinstance(url, str) or not url.isprintable():
            raise InvalidParameter("url", url, "the address of a server", fix=_FIX)
        if url.startswith(_UNIX_PREFIX):
            path = url.removeprefix(_UNIX_PREFIX)
            if not path:
                fix = 'add the path, as in "unix:/path/to/socket"'
                raise InvalidParameter("url", url, '"unix:" followed by the path of a socket', fix=fix)
            return cls("http://server", path, local=True)
        return _parse_http_url(url)


def _parse_http_url(url: str) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise InvalidParameter(
            "url", url, "an http, https or unix address without user name, password or query", fix=_FIX
        )
    local = _is_loopback(host)
    if parts.scheme == "http" and not local:
        rule = "an https address, because plain http would send the token unencrypted"
        raise InvalidParameter("url", url, rule, fix=_FIX)
    bracketed = f"[{host}]" if ":" in host else host
    host_and_port = bracketed if port is None else f"{bracketed}:{port}"
    return Address(f"{parts.scheme}://{host_and_port}{parts.path.rstrip('/')}", local=local)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


VARIABLE = "SFUMATO_TOKEN"
"""The environment variable that takes precedence over the file."""


def tokens_path() -> Path:
    """Return the path of the token file, in the user's configuration folder."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "sfumato", "tokens.json")


@dataclass(frozen=True)
class ServerCredentials:
    """The saved token of a server, and the certificate file by which the server is verified, if one was given."""

    token: str
    certificate: str | None = None


def saved_token(address: Address) -> str | None:
    """Return the token for a server: from the environment, or else from the file."""
    return os.environ.get(VARIABLE) or (
        credentials.token if (credentials := _read_credentials(tokens_path()).get(address.label)) else None
    )


def saved_certificate(address: Address) -> str | None:
    """Return the certificate file saved with the token for a server."""
    credentials = _read_credentials(tokens_path()).get(address.label)
    return None if credentials is None else credentials.certificate


def save_token(address: Address, token: str | None, certificate: str | None = None) -> Path:
    """Save the token for a server, or delete it if None; return the path of the file."""
    path = tokens_path()
    entries = {name: credentials for name, credentials in _read_credentials(path).items() if name != address.label}
    if token is not None:
        entries[address.label] = ServerCredentials(token, None if certificate is None else os.path.abspath(certificate))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({name: _encode_credentials(credentials) for name, credentials in entries.items()}, file, indent=1)
    os.replace(unfinished, path)
    return path


def _encode_credentials(credentials: ServerCredentials) -> str | dict[str, str]:
    return credentials.token if credentials.certificate is None else asdict(credentials)


def _read_credentials(path: Path) -> Mapping[str, ServerCredentials]:
    """Read the token file; refuse one that other users can read, because its tokens are no longer secret."""
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                rule = "the token file can be read by other users"
                raise SfumatoError(
                    rule,
                    place=str(path),
                    fix=f"run chmod 600 {path}, and ask for new tokens, since these may have been read",
                )
            content = json.load(file)
    except FileNotFoundError:
        return {}
    except UNREADABLE:
        content = None
    entries = (
        {name: _parse_credentials(entry) for name, entry in content.items()}
        if isinstance(content, dict)
        else {"": None}
    )
    if None in entries.values():
        rule = "the token file is damaged: it must map server addresses to tokens"
        raise SfumatoError(rule, place=str(path), fix="remove this file and run sfumato login again")
    return {name: credentials for name, credentials in entries.items() if credentials is not None}


def _parse_credentials(entry: Any) -> ServerCredentials | None:
    """Parse the entry of one server: a token, or a token with a certificate path; None for anything else."""
    if isinstance(entry, str):
        return ServerCredentials(entry)
    has_both_fields = isinstance(entry, dict) and entry.keys() == {"token", "certificate"}
    return (
        ServerCredentials(**entry)
        if has_both_fields and all(isinstance(text, str) for text in entry.values())
        else None
    )
