"""The address of a server is https, a Unix socket, or plain http on this very machine: a token is sent to it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from sfumato.errors import InvalidParameter

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
