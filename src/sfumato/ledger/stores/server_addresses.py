"""The address of a ledger in a database, postgresql://host/db, without a password."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from sfumato.errors import InvalidParameter, LedgerUnavailable, ValueWords
from sfumato.quick_dataclass import dataclass

SCHEMA = "sfumato"
"""The default schema of a ledger."""
_PREFIXES = ("postgresql://", "postgres://")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_RESERVED_WORDS = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate
collation column concurrently constraint create cross current_catalog current_date current_role current_schema
current_time current_timestamp current_user default deferrable desc distinct do else end except false fetch
for foreign freeze from full grant group having ilike in initially inner intersect into is isnull join lateral
leading left like limit localtime localtimestamp natural not notnull null offset on only or order outer
overlaps placing primary public references returning right select session_user similar some symmetric
system_user table tablesample then to trailing true union unique user using variadic verbose when where window
with none
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
"""Words that the server parses differently when they are not quoted."""
_SECRET = {"password", "sslpassword", "passfile"}


def is_server_address(address: object) -> bool:
    """Return whether this names a database, not a file."""
    return isinstance(address, str) and address.startswith(_PREFIXES)


def is_same_ledger(one: object, other: object) -> bool:
    """Return whether two addresses name one ledger in one database, by whatever role and options."""
    if not is_server_address(one) or not is_server_address(other):
        return one == other
    return _ledger_identity_parts(str(one)) == _ledger_identity_parts(str(other))


def _ledger_identity_parts(address: str) -> tuple[str, ...]:
    """Return the parts of an address that decide which ledger it names."""
    server_address = ServerAddress.parse(address)
    parts = urlsplit(server_address.url)
    options = dict(_parse_query_string(parts.query))
    deciding = ("host", "hostaddr", "port", "dbname", "service")
    return (
        parts.netloc.rpartition("@")[2],
        parts.path,
        server_address.schema,
        *(options.get(name, "") for name in deciding),
    )


@dataclass(frozen=True)
class ServerAddress:
    """The address of one ledger in a database: the connection URL and the schema."""

    url: str
    """As it was given, without the schema; it holds no secret."""
    schema: str

    @classmethod
    def parse(cls, address: str, schema: str | None = None) -> ServerAddress:
        """Parse an address; the schema may be in it (postgresql://host/db?schema=sfumato) or passed separately."""
        try:
            parts = urlsplit(address)
            has_password = parts.password is not None
            pairs = _parse_query_string(parts.query, strict=bool(parts.query))
        except ValueError:
            rule, fix = "an address such as postgresql://host/db", "write the address as postgresql://host/db"
            raise InvalidParameter("ledger", "…", rule, fix=fix) from None
        if has_password or any(name in _SECRET for name, _ in pairs):
            raise InvalidParameter(
                "ledger",
                ValueWords("an address with a password"),
                "an address without a password: a password would be visible in the policy and in the list of processes",
                fix="put the password in the environment (PGPASSWORD), a password file (~/.pgpass) or a service",
            )
        schemas = [value for name, value in pairs if name == "schema"]
        rest = urlencode([pair for pair in pairs if pair[0] != "schema"], quote_via=quote)
        url = address.partition("?")[0] + (f"?{rest}" if rest else "")
        return cls(url, checked_identifier(_single_schema(schemas, schema), "schema"))

    @property
    def with_schema(self) -> str:
        """The address with its schema, as it can be opened again."""
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={self.schema}"

    def options(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return additional connection options. Over a network the server's certificate is verified."""
        parts = urlsplit(self.url)
        url_options = dict(_parse_query_string(parts.query))
        hosts = url_options.get("host") or _hosts_without_ports(parts.netloc) or environment.get("PGHOST", "")
        addresses = url_options.get("hostaddr") or environment.get("PGHOSTADDR", "")
        has_service = (
            "service" in url_options or "PGSERVICE" in environment
        )  # a service may name a host and its address
        ssl_mode = url_options.get("sslmode") or environment.get("PGSSLMODE") or "verify-full"
        if not has_service and all(map(_is_local_host, [*hosts.split(","), *addresses.split(",")])):
            return {}
        if ssl_mode != "verify-full":
            raise LedgerUnavailable(
                "over a network the certificate of the ledger's server must be verified: sslmode=verify-full",
                place="sslmode",
                fix="leave sslmode out, and add sslrootcert=FILE, where FILE holds the CA certificate of the server",
            )
        return {"sslmode": ssl_mode}


def _single_schema(in_address: list[str], schema: str | None) -> str:
    schemas = {*in_address, *([] if schema is None else [schema])}
    if len(schemas) > 1:
        raise InvalidParameter(
            "schema",
            schema,
            "the same in the address and as a parameter",
            fix="remove one of the two schemas",
        )
    return schemas.pop() if schemas else SCHEMA


def checked_identifier(name: object, what: str) -> str:
    """Check the name of a schema or a role: valid without quotes, and not one of the server's own."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("pg_") or name in _RESERVED:
        raise InvalidParameter(
            what,
            name,
            "a name of up to 63 lower-case letters, digits and _, not public, pg_… or an SQL keyword",
            fix="write a name such as sfumato",
        )
    return name


def _parse_query_string(query: str, *, strict: bool = False) -> list[tuple[str, str]]:
    """Parse a query string as the driver does, where + is a plain plus."""
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=strict)


def _hosts_without_ports(location: str) -> str:
    """Return the hosts of an address, which may name several, without their ports."""
    hosts = unquote(location.rpartition("@")[2]).split(",")
    return ",".join(re.sub(r":\d*$", "", host).strip("[]") for host in hosts)


def _is_local_host(host: str) -> bool:
    """Return whether a host is this machine: a socket, or a loopback address."""
    if host.startswith(("/", "@")) or host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
