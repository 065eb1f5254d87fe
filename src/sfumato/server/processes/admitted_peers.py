"""Only its proxies are answered by a server for which they speak TLS: a token that comes past them is in the clear.

Which machine a connection comes from is known before anything is read of it. Whoever comes from another one is told by
which address to come, and nothing that they sent is looked at.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from sfumato.errors import InvalidRequest
from sfumato.server.requests.problems import problem
from sfumato.server.settings import Settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class AdmittedPeers:
    """These are the machines whose connections are answered, and what every other one is told."""

    networks: tuple[Network, ...]
    refusal: bytes

    def admits(self, peer: object) -> bool:
        """Tell whether what an event loop calls the other end of a connection is one of them."""
        if not isinstance(peer, tuple) or not peer:
            return False
        found = ipaddress.ip_address(peer[0])
        address = getattr(found, "ipv4_mapped", None) or found
        return any(address in each for each in self.networks)


def admitted_peers(settings: Settings) -> AdmittedPeers | None:
    """Name the proxies of a server that other machines reach and that has no certificate; None admits everybody."""
    if not settings.behind_proxies:
        return None
    refusal = InvalidRequest(
        "without a certificate a server answers its proxies alone: nothing else comes to it but in the clear",
        place="the connection",
        fix=f"open {settings.public_url}; as the owner, name the proxy in proxies, or give a certificate",
    )
    return AdmittedPeers(tuple(map(ipaddress.ip_network, settings.proxies)), _written(refusal))


def _written(refusal: InvalidRequest) -> bytes:
    """Write a refusal as the whole reply of a connection, which ends with it."""
    answer = problem(refusal, 403)
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 403 Forbidden\r\n" + headers + b"connection: close\r\n\r\n" + bytes(answer.body)
