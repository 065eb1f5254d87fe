"""Somebody listens at the address of a server, or nobody does: that is seen at the sockets, and not in words."""

from __future__ import annotations

import errno
import os
import socket
from typing import NamedTuple

from psycopg import pq

_PORT = "5432"
_LONGEST = 107
"""Bytes of the longest name of a socket; libpq connects to none with a longer one."""
_NOBODY = {
    errno.ECONNREFUSED,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.EHOSTDOWN,
    errno.ENETUNREACH,
    errno.EADDRNOTAVAIL,
    errno.EAFNOSUPPORT,
}
"""With these the system says that no connection can be made; with any other, somebody may be there."""
_UNKNOWN = {socket.EAI_NONAME, socket.EAI_NODATA}
"""With these the system says that a name is unknown, and not that nobody could be asked."""


class Listener(NamedTuple):
    """This is one place at which a server may listen: a folder with its socket, or one address of one host."""

    host: str
    hostaddr: str
    port: str


def listeners(conninfo: str, timeout: float) -> tuple[str, list[Listener]]:
    """Give the name of the database that the driver would ask for, and the places at which somebody listens, or may.

    The hosts are those that libpq takes from the address, the environment and the service together. Nobody listens
    where a connection is refused or not made in time, where there is no such socket, and where the name of the host
    is unknown.
    """
    database, places = _tried(conninfo)
    return database, [one for place in places for one in _resolved(place) if _may_listen(one, timeout)]


def _tried(conninfo: str) -> tuple[str, list[Listener]]:
    """Ask libpq what it makes of all that it is told: it begins to connect, and is stopped."""
    begun = pq.PGconn.connect_start(conninfo.encode())
    try:
        known = {option.keyword.decode(): os.fsdecode(option.val or b"") for option in begun.info}
        database = os.fsdecode(begun.db)
    finally:
        begun.finish()
    hosts, addresses, ports = (known[name].split(",") for name in ("host", "hostaddr", "port"))
    count = len(addresses if known["hostaddr"] else hosts)
    hosts, addresses = (given if any(given) else [""] * count for given in (hosts, addresses))
    ports = ports * count if len(ports) == 1 else ports
    return database, [Listener(*each) for each in zip(hosts, addresses, ports, strict=True)]


def _resolved(place: Listener) -> list[Listener]:
    """Give one place for each address of a host, and none for a host whose name is unknown."""
    host, hostaddr, port = place.host, place.hostaddr, place.port or _PORT
    if hostaddr:
        return [Listener(host, hostaddr, port)]
    if not host:
        return [Listener(_default_folder(), "", port)]
    if host.startswith(("/", "@")):
        return [Listener(host, "", port)]
    try:
        found = socket.getaddrinfo(host, int(port), proto=socket.IPPROTO_TCP, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [] if error.errno in _UNKNOWN else [Listener(host, "", port)]
    return [Listener(host, str(each[4][0]), port) for each in found]


def _default_folder() -> str:
    begun = pq.PGconn.connect_start(b"host='' hostaddr=''")
    try:
        return os.fsdecode(begun.host)
    finally:
        begun.finish()


def _may_listen(place: Listener, timeout: float) -> bool:
    try:
        if place.hostaddr:
            socket.create_connection((place.hostaddr, int(place.port)), timeout).close()
        elif place.host.startswith(("/", "@")):
            return _has_socket(f"{place.host}/.s.PGSQL.{place.port}", timeout)
    except TimeoutError:
        return False
    except OSError as error:
        return error.errno not in _NOBODY
    return True


def _has_socket(name: str, timeout: float) -> bool:
    path = os.fsencode(name)
    if len(path) > _LONGEST:
        return False
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(timeout)
        one.connect(b"\0" + path[1:] if name.startswith("@") else path)
    return True
