"""The address of a server is https, a Unix socket, or plain http on this very machine: a token is sent to it.

Tokens are kept in one file that its owner alone can read: ``sfumato login`` writes it, ``connect`` reads it.

Beside a token stands the file of certificates by which its server is known, where one was named.
"""

from __future__ import annotations

import ipaddress
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.untrusted import UNREADABLE

_SOCKET = "unix:"
_FIX = 'write "https://host", "unix:/path/to/socket", or "http://127.0.0.1:8765" for a server on this machine'


@dataclass(frozen=True)
class Address:
    """An address says where a server is called, and how it is named to people."""

    base: str
    """What every path is put behind."""
    socket: str | None = None
    local: bool = False
    """Whether what is sent never leaves this machine."""

    @property
    def words(self) -> str:
        return self.base if self.socket is None else f"{_SOCKET}{self.socket}"

    @classmethod
    def of(cls, url: str) -> Address:
        """Read an address; one over which others could read the token is refused."""
        if not isinstance(url, str) or not url.isprintable():
            raise InvalidParameter("url", url, "the address of a server", fix=_FIX)
        if url.startswith(_SOCKET):
            path = url.removeprefix(_SOCKET)
            if not path:
                raise InvalidParameter("url", url, "a socket with its path", fix=_FIX)
            return cls("http://server", path, local=True)
        return _over_network(url)


def _over_network(url: str) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise InvalidParameter("url", url, "an address without a name, a password or a query in it", fix=_FIX)
    local = _is_loopback(host)
    if parts.scheme == "http" and not local:
        rule = "https: over plain http everybody on the way could read the token"
        raise InvalidParameter("url", url, rule, fix=_FIX)
    shown = f"[{host}]" if ":" in host else host
    where = shown if port is None else f"{shown}:{port}"
    return Address(f"{parts.scheme}://{where}{parts.path.rstrip('/')}", local=local)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


VARIABLE = "SFUMATO_TOKEN"
"""The environment variable that is taken before the file."""


def tokens_path() -> Path:
    """Give the path of the file: in the folder that the system keeps settings in."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "sfumato", "tokens.json")


@dataclass(frozen=True)
class ServerCredentials:
    """This is kept for a server: the token, and the file of certificates by which it is known, if one was named."""

    token: str
    certificate: str | None = None


def kept_token(address: Address) -> str | None:
    """Find the token for a server: in the environment, or else in the file."""
    return os.environ.get(VARIABLE) or (kept.token if (kept := _read(tokens_path()).get(address.words)) else None)


def kept_certificate(address: Address) -> str | None:
    """Find the file of certificates that was named with the token for a server."""
    kept = _read(tokens_path()).get(address.words)
    return None if kept is None else kept.certificate


def keep_token(address: Address, token: str | None, certificate: str | None = None) -> Path:
    """Keep the token for a server, or none any more, and give the path of the file."""
    path = tokens_path()
    known = {name: each for name, each in _read(path).items() if name != address.words}
    if token is not None:
        known[address.words] = ServerCredentials(token, None if certificate is None else os.path.abspath(certificate))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({name: _plain(each) for name, each in known.items()}, file, indent=1)
    os.replace(unfinished, path)
    return path


def _plain(kept: ServerCredentials) -> str | dict[str, str]:
    return kept.token if kept.certificate is None else asdict(kept)


def _read(path: Path) -> Mapping[str, ServerCredentials]:
    """Read the file; one that others can read is refused, since what it holds is no secret any more."""
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                rule = "the file that keeps tokens is readable by its owner alone"
                raise SfumatoError(rule, place=str(path), fix=f"revoke them, and run chmod 600 {path}")
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except UNREADABLE:
        found = None
    kept = {name: _kept(each) for name, each in found.items()} if isinstance(found, dict) else {"": None}
    if None in kept.values():
        rule = "the file that keeps tokens holds texts by the address of a server"
        raise SfumatoError(rule, place=str(path), fix="remove it, and log in again")
    return {name: each for name, each in kept.items() if each is not None}


def _kept(written: Any) -> ServerCredentials | None:
    """Read what is kept for one server: a token, or a token and a path; None for anything else."""
    if isinstance(written, str):
        return ServerCredentials(written)
    right = isinstance(written, dict) and written.keys() == {"token", "certificate"}
    return ServerCredentials(**written) if right and all(isinstance(each, str) for each in written.values()) else None
