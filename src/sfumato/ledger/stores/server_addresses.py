"""A ledger in a database is named by an address, postgresql://host/db, without a password."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from sfumato.errors import InvalidParameter, LedgerUnavailable

SCHEMA = "sfumato"
"""The schema of a ledger for which none is named."""
_PREFIXES = ("postgresql://", "postgres://")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_WORDS = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate
collation column concurrently constraint create cross current_catalog current_date current_role current_schema
current_time current_timestamp current_user default deferrable desc distinct do else end except false fetch
for foreign freeze from full grant group having ilike in initially inner intersect into is isnull join lateral
leading left like limit localtime localtimestamp natural not notnull null offset on only or order outer
overlaps placing primary public references returning right select session_user similar some symmetric
system_user table tablesample then to trailing true union unique user using variadic verbose when where window
with none
"""
_RESERVED = frozenset(_WORDS.split())
"""Words that the server understands otherwise where they are not quoted."""
_SECRET = {"password", "sslpassword", "passfile"}


def is_server_address(address: object) -> bool:
    """Tell whether this names a database, and not a file."""
    return isinstance(address, str) and address.startswith(_PREFIXES)


def is_same_ledger(one: object, other: object) -> bool:
    """Tell whether two addresses name one ledger in one database, by whatever role and options."""
    if not is_server_address(one) or not is_server_address(other):
        return one == other
    return _named(str(one)) == _named(str(other))


def _named(address: str) -> tuple[str, ...]:
    """Give what decides which ledger an address names."""
    found = ServerAddress.of(address)
    parts = urlsplit(found.url)
    given = dict(_pairs(parts.query))
    deciding = ("host", "hostaddr", "port", "dbname", "service")
    return (parts.netloc.rpartition("@")[2], parts.path, found.schema, *(given.get(name, "") for name in deciding))


@dataclass(frozen=True)
class ServerAddress:
    """This is the address of one ledger in a database: what the driver is told, and the schema."""

    url: str
    """It is as it was given, without the schema: it holds no secret."""
    schema: str

    @classmethod
    def of(cls, address: str, schema: str | None = None) -> ServerAddress:
        """Take an address apart; the schema may stand in it (postgresql://host/db?schema=sfumato) or beside it."""
        try:
            parts = urlsplit(address)
            secret = parts.password is not None
            pairs = _pairs(parts.query, strict=bool(parts.query))
        except ValueError:
            raise InvalidParameter("ledger", "…", "an address such as postgresql://host/db") from None
        if secret or any(name in _SECRET for name, _ in pairs):
            raise InvalidParameter(
                "ledger",
                "one with a password",
                "an address without a password: it is read by whoever reads the policy or the list of processes",
                fix="put the password into the environment (PGPASSWORD), a password file (~/.pgpass) or a service",
            )
        named = [value for name, value in pairs if name == "schema"]
        rest = urlencode([pair for pair in pairs if pair[0] != "schema"], quote_via=quote)
        url = address.partition("?")[0] + (f"?{rest}" if rest else "")
        return cls(url, role_or_schema(_one(named, schema), "schema"))

    @property
    def whole(self) -> str:
        """Write it with its schema, as it can be opened again."""
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={self.schema}"

    def options(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Say how the driver connects beside what the address says. Over a network the server proves who it is."""
        parts = urlsplit(self.url)
        given = dict(_pairs(parts.query))
        hosts = given.get("host") or _hosts(parts.netloc) or environment.get("PGHOST", "")
        addresses = given.get("hostaddr") or environment.get("PGHOSTADDR", "")
        has_service = "service" in given or "PGSERVICE" in environment  # which may name a host, and how to reach it
        asked = given.get("sslmode") or environment.get("PGSSLMODE") or "verify-full"
        if not has_service and all(map(_is_here, [*hosts.split(","), *addresses.split(",")])):
            return {}
        if asked != "verify-full":
            raise LedgerUnavailable(
                "over a network the ledger's server proves who it is: sslmode=verify-full",
                place="sslmode",
                fix="leave sslmode out, and name the certificate that vouches for the server: sslrootcert=…",
            )
        return {"sslmode": asked}


def _one(named: list[str], schema: str | None) -> str:
    known = {*named, *([] if schema is None else [schema])}
    if len(known) > 1:
        raise InvalidParameter("schema", schema, "named once: in the address or beside it")
    return known.pop() if known else SCHEMA


def role_or_schema(name: object, what: str) -> str:
    """Check the name of a schema or a role: one that is written without quotes, and is none of the server's own."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("pg_") or name in _RESERVED:
        raise InvalidParameter(
            what, name, "small letters, digits and _, up to 63, other than public, pg_… and the words of SQL"
        )
    return name


def _pairs(query: str, *, strict: bool = False) -> list[tuple[str, str]]:
    """Take a query apart as the driver does, to which a plus is a plus."""
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=strict)


def _hosts(location: str) -> str:
    """List the hosts of an address, which may name several, without their ports."""
    places = unquote(location.rpartition("@")[2]).split(",")
    return ",".join(re.sub(r":\d*$", "", place).strip("[]") for place in places)


def _is_here(host: str) -> bool:
    """Tell whether a host is this machine: a socket, or a loop."""
    if host.startswith(("/", "@")) or host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
