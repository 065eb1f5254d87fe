"""Create, find and end users, tokens, sessions and one-time login links; every act of an owner is recorded.

A secret is 256 random bits and is shown once. Its SHA-256 is stored and looked up: whoever reads the file cannot call
with it, and the time of a look-up reveals nothing, since nobody can choose a secret with a given hash. A token's SCRAM
verifier is stored beside it: PostgreSQL clients prove that they know the token without sending it.

The command line uses this file directly, without a server: whoever can read a ledger is its owner.
"""

from __future__ import annotations

import base64
import getpass
import hmac
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.policy_account import LEDGER_NAME, users_path
from sfumato.errors import InvalidParameter, LedgerUnavailable, NotSignedIn, Paused, ValueWords
from sfumato.ledger import entries
from sfumato.ledger.approval_requests import IsOwner, count_everyone_as_owner
from sfumato.ledger.stores.server_addresses import is_server_address
from sfumato.mechanisms import bits
from sfumato.policy import Policy
from sfumato.privacy import amounts
from sfumato.privacy.amounts import exact_amount, round_down_if_long
from sfumato.privacy.numbers import POSITIVE, Number, amount_from_units, exact
from sfumato.quick_dataclass import dataclass
from sfumato.server.people.database import PeopleDatabase, people_file_path
from sfumato.server.people.scram import ScramVerifier
from sfumato.server.people.users import Act, BrowserSession, Caller, Credentials, Role, Token, User

PREFIX = "sfu_"
"""The prefix of every token, by which secret scanners recognize one."""
LINK_MINUTES = 15
_TOKEN_COLUMNS = "number, user, label, made, expires, most, spent, revoked"
_TOKEN_WITH_USER = (
    f"SELECT users.role, users.disabled, {', '.join(f'tokens.{name}' for name in _TOKEN_COLUMNS.split(', '))}"
    " FROM tokens JOIN users ON users.name = tokens.user"
)
_SELECT_SALT_SECRET = "SELECT value FROM secrets WHERE name = 'salt'"
_SALT_BYTES = 16
_MAX_ACTS = 1000
_ENABLE_FIX = "enable the user first, on the page People or with `sfumato user enable NAME`"


@dataclass(frozen=True)
class ProvenToken:
    """A token that worked, and the ``change_count`` of the file before it was looked up; None if that was not known."""

    token: Token
    change_count: tuple[int, int, int] | None


class PeopleFile:
    """The users, tokens and sessions of a server. Safe to use from threads and processes."""

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> None:
        self.database = PeopleDatabase(path)
        self._clock = clock

    @cached_property
    def id(self) -> str:
        """A random text that tells this file and its backups from the people file of every other server."""
        with self.database.read_transaction() as transaction:
            stored = transaction.execute("SELECT value FROM secrets WHERE name = 'id'").fetchone()
        if stored is not None:
            return str(stored[0])
        with self.database.write_transaction() as transaction:
            return _read_or_create_secret(transaction, "id")

    def close(self) -> None:
        self.database.close()

    # ── authentication ─────────────────────────────────────────────────────────────────────────

    def authenticate(self, credentials: Credentials) -> Caller | None:
        """Authenticate a token or a cookie; return None if it is invalid.

        Every wrong secret takes the same path: hashed, looked up once, and checked against all conditions together.
        """
        by_token = credentials.token is not None
        secret = credentials.token if by_token else credentials.cookie
        digest = _sha256_hex(secret or "")
        with self.database.read_transaction() as transaction:
            return (
                self._caller_by_token(transaction, digest) if by_token else self._caller_by_cookie(transaction, digest)
            )

    def _caller_by_token(self, transaction: sqlite3.Connection, digest: str) -> Caller | None:
        row = transaction.execute(f"{_TOKEN_WITH_USER} WHERE tokens.hash = ?", (digest,)).fetchone()
        return self._caller_if_token_valid(row)

    def _caller_if_token_valid(self, row: tuple[Any, ...] | None) -> Caller | None:
        """Return the caller of a token with its user's role, unless the token has ended or its user is disabled."""
        if row is None:
            return None
        token = _token_from_row(row[2:])
        return None if self._has_ended(token) or row[1] else Caller(token.user, Role(row[0]), token=token)

    def caller_of_token(self, number: int) -> Caller | None:
        """Return the caller of a token that has been proven before; None once it no longer works."""
        with self.database.read_transaction() as transaction:
            return self._caller_if_token_valid(
                transaction.execute(f"{_TOKEN_WITH_USER} WHERE number = ?", (number,)).fetchone()
            )

    def is_proof_current(self, proven: ProvenToken | None) -> bool:
        """Return whether a token surely works as it did when it was proven: the file is the same, and the token's time
        is not over. Never waits; False if that cannot be told at once.
        """
        if proven is None or proven.change_count is None or proven.token.end_reason(self._now()):
            return False
        return proven.change_count == self.database.change_counters_or_none()

    def scram_salt(self, user: str) -> bytes:
        """Return the salt of a user's SCRAM verifiers: derived from the name in the same way whether or not such a user
        exists.
        """
        with self.database.read_transaction() as transaction:
            secret = transaction.execute(_SELECT_SALT_SECRET).fetchone()
        if secret is None:
            with self.database.write_transaction() as transaction:
                return _user_salt(_read_or_create_secret(transaction, "salt"), user)
        return _user_salt(secret[0], user)

    def scram_verifiers(self, user: str) -> dict[int, ScramVerifier]:
        """Return the SCRAM verifiers of a user's valid tokens by token number; tokens of earlier versions have none."""
        with self.database.read_transaction() as transaction:
            stored = transaction.execute(
                "SELECT number, scram FROM tokens WHERE user = ? AND scram <> ''", (user,)
            ).fetchall()
            return {
                number: ScramVerifier.from_text(text)
                for number, text in stored
                if not self._has_ended(_require_token(transaction, number))
            }

    def _caller_by_cookie(self, transaction: sqlite3.Connection, digest: str) -> Caller | None:
        row = transaction.execute(
            "SELECT users.role, users.disabled, user, expires, form FROM sessions JOIN users ON users.name = user"
            " WHERE hash = ?",
            (digest,),
        ).fetchone()
        if row is None:
            return None
        login = BrowserSession(row[2], _from_micros(row[3]), row[4])
        expired = self._now() >= login.expires
        return None if expired or row[1] else Caller(login.user, Role(row[0]), session=login)

    def require_enabled(self, user: str, token_number: int | None) -> None:
        """Raise ``NotSignedIn`` if the user has been disabled, or the token revoked or expired, since the call
        began.
        """
        with self.database.read_transaction() as transaction:
            token_used = None if token_number is None else _require_token(transaction, token_number)
            if _require_user(transaction, user).disabled or (token_used is not None and self._has_ended(token_used)):
                raise NotSignedIn

    def is_enabled(self, user: str) -> bool:
        """Return whether there is an enabled user of this name."""
        return any(candidate.name == user and not candidate.disabled for candidate in self.users())

    def is_owner(self, user: str) -> bool:
        """Return whether there is an enabled owner of this name."""
        with self.database.read_transaction() as transaction:
            row = transaction.execute("SELECT role, disabled FROM users WHERE name = ?", (user,)).fetchone()
        return row is not None and row[0] == Role.OWNER.value and not row[1]

    def _has_ended(self, token: Token) -> bool:
        return bool(token.end_reason(self._now()))

    # ── users ──────────────────────────────────────────────────────────────────────────────────

    def users(self) -> tuple[User, ...]:
        """List all users by name."""
        with self.database.read_transaction() as transaction:
            return tuple(
                map(_user_from_row, transaction.execute("SELECT name, role, made, disabled FROM users ORDER BY name"))
            )

    def user(self, name: str) -> User:
        """Return a user; refuse an unknown name."""
        with self.database.read_transaction() as transaction:
            return _require_user(transaction, name)

    def add_user(self, name: str, role: Role | str, *, by: str) -> User:
        """Add a user. A name is never reused: a disabled user keeps theirs, with its history."""
        _require_url_safe(entries.checked_name(name, "user"))
        try:
            parsed_role = Role(role)
        except ValueError:
            raise InvalidParameter("role", role, f"one of {', '.join(Role)}") from None
        with self.database.write_transaction() as transaction:
            if transaction.execute("SELECT 1 FROM users WHERE name = ?", (name,)).fetchone():
                fix = "choose another name, or enable a disabled user again with `sfumato user enable NAME`"
                raise InvalidParameter("user", name, "a name that was never used on this server", fix=fix)
            transaction.execute("INSERT INTO users VALUES (?, ?, ?, 0)", (name, parsed_role.value, self._now_micros()))
            self._record_act(transaction, by, "user added", f"{name}, {parsed_role.value}")
        return self.user(name)

    def set_disabled(self, name: str, disabled: bool, *, by: str) -> User:
        """Disable a user and end their sessions, or enable them again."""
        with self.database.write_transaction() as transaction:
            user = _require_user(transaction, name)
            if disabled and _is_last_owner(transaction, user):
                fix = "add or enable another owner first"
                raise InvalidParameter(
                    "user", name, "somebody else, because the last enabled owner cannot be disabled", fix=fix
                )
            transaction.execute("UPDATE users SET disabled = ? WHERE name = ?", (int(disabled), name))
            if disabled:
                transaction.execute("DELETE FROM sessions WHERE user = ?", (name,))
                transaction.execute("DELETE FROM links WHERE user = ?", (name,))
            self._record_act(transaction, by, "user disabled" if disabled else "user enabled", name)
        return self.user(name)

    # ── tokens ─────────────────────────────────────────────────────────────────────────────────

    def new_token(
        self,
        user: str,
        *,
        label: str = "",
        expires: timedelta | None = None,
        most: Number | None = None,
        price: str = "",
        by: str,
    ) -> tuple[Token, str]:
        """Create a token and return it with its secret text, which is stored nowhere.

        It may have a limit on the ε of all releases that it ever pays for, and a price for questions of PostgreSQL
        clients that set none.
        """
        secret = PREFIX + _new_secret()
        limit = (
            None
            if most is None
            else amounts.format_amount(round_down_if_long(exact_amount(exact(most, "most", POSITIVE))))
        )
        if label:
            entries.checked_name(label, "label")
        if expires is not None and expires <= timedelta(0):
            rule, fix = "a duration of more than 0 days", "for example, let the token expire after 90 days"
            raise InvalidParameter("expires", ValueWords(f"{expires.days} days"), rule, fix=fix)
        expires_at = None if expires is None else self._now_micros() + _span_micros(expires)
        with self.database.write_transaction() as transaction:
            if _require_user(transaction, user).disabled:
                raise InvalidParameter("user", user, "an enabled user", fix=_ENABLE_FIX)
            verifier = ScramVerifier.from_password(
                secret, _user_salt(_read_or_create_secret(transaction, "salt"), user)
            ).to_text()
            number = transaction.execute(
                "INSERT INTO tokens (hash, user, label, made, expires, most, spent, revoked, scram, price)"
                " VALUES (?, ?, ?, ?, ?, ?, '0', 0, ?, ?)",
                (_sha256_hex(secret), user, label, self._now_micros(), expires_at, limit, verifier, price),
            ).lastrowid
            description = ", ".join([user, *([label] if label else [])])
            self._record_act(transaction, by, "token made", f"{number}, {description}")
            assert number is not None
            return _require_token(transaction, number), secret

    def tokens(self, user: str | None = None) -> tuple[Token, ...]:
        """List all tokens, or those of one user, oldest first."""
        where, arguments = ("", ()) if user is None else (" WHERE user = ?", (user,))
        with self.database.read_transaction() as transaction:
            return tuple(
                map(
                    _token_from_row,
                    transaction.execute(f"SELECT {_TOKEN_COLUMNS} FROM tokens{where} ORDER BY number", arguments),
                )
            )

    def token(self, number: int) -> Token:
        """Return a token; refuse an unknown number."""
        with self.database.read_transaction() as transaction:
            return _require_token(transaction, number)

    def token_price(self, number: int) -> str:
        """Return a token's own price for questions of PostgreSQL clients; empty for none."""
        with self.database.read_transaction() as transaction:
            (price,) = transaction.execute("SELECT price FROM tokens WHERE number = ?", (number,)).fetchone()
        return str(price)

    def revoke_token(self, number: int, *, by: str) -> Token:
        """Revoke a token, at once and permanently."""
        with self.database.write_transaction() as transaction:
            token = _require_token(transaction, number)
            transaction.execute("UPDATE tokens SET revoked = 1 WHERE number = ?", (number,))
            self._record_act(transaction, by, "token revoked", f"{number}, {token.user}")
        return self.token(number)

    # ── browser sessions ───────────────────────────────────────────────────────────────────────

    def new_link(self, user: str, *, by: str) -> str:
        """Create the secret of a login link that works once, for 15 minutes."""
        secret = _new_secret()
        with self.database.write_transaction() as transaction:
            if _require_user(transaction, user).disabled:
                raise InvalidParameter("user", user, "an enabled user", fix=_ENABLE_FIX)
            expires_at = self._now_micros() + _span_micros(timedelta(minutes=LINK_MINUTES))
            transaction.execute("DELETE FROM links WHERE expires <= ?", (self._now_micros(),))
            transaction.execute("INSERT INTO links VALUES (?, ?, ?)", (_sha256_hex(secret), user, expires_at))
            self._record_act(transaction, by, "link made", user)
        return secret

    def sign_in(self, link: str, lasts: timedelta) -> str | None:
        """Consume a one-time link and return the cookie of a new session; None if the link is invalid, used or
        expired.
        """
        cookie, form_token, now = _new_secret(), _new_secret(), self._now_micros()
        with self.database.write_transaction() as transaction:
            transaction.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
            link_row = transaction.execute(
                "DELETE FROM links WHERE hash = ? RETURNING user, expires", (_sha256_hex(link),)
            ).fetchone()
            if link_row is None or link_row[1] <= now or _require_user(transaction, link_row[0]).disabled:
                return None
            transaction.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?)",
                (_sha256_hex(cookie), link_row[0], now + _span_micros(lasts), form_token),
            )
        return cookie

    def sign_out(self, cookie: str) -> None:
        """End a session."""
        with self.database.write_transaction() as transaction:
            transaction.execute("DELETE FROM sessions WHERE hash = ?", (_sha256_hex(cookie),))

    # ── acts of owners ─────────────────────────────────────────────────────────────────────────

    def record(self, by: str, act: str, about: str) -> None:
        """Record an act of an owner."""
        with self.database.write_transaction() as transaction:
            self._record_act(transaction, by, act, about)

    def acts(self, after: int = 0, limit: int = _MAX_ACTS) -> tuple[Act, ...]:
        """List acts after a number, in order."""
        return self._select_acts("number > ? ORDER BY number", after, limit)

    def latest_acts(self, before: int, limit: int) -> tuple[Act, ...]:
        """List acts before a number, the newest first."""
        return self._select_acts("number < ? ORDER BY number DESC", before, limit)

    def _select_acts(self, condition: str, number: int, limit: int) -> tuple[Act, ...]:
        query = f"SELECT number, time, by, act, about FROM acts WHERE {condition} LIMIT ?"
        with self.database.read_transaction() as transaction:
            return tuple(
                Act(number, _from_micros(micros), by, act, about)
                for number, micros, by, act, about in transaction.execute(query, (number, limit))
            )

    def pause(self, policy: str, paused: bool, *, by: str) -> None:
        """Pause new releases on a policy, in every process, or resume them."""
        with self.database.write_transaction() as transaction:
            transaction.execute("DELETE FROM paused WHERE policy = ?", (policy,))
            if paused:
                transaction.execute("INSERT INTO paused VALUES (?)", (policy,))
            self._record_act(transaction, by, "paused" if paused else "resumed", policy)

    def paused_policies(self) -> frozenset[str]:
        """Return the names of paused policies."""
        with self.database.read_transaction() as transaction:
            return frozenset(name for (name,) in transaction.execute("SELECT policy FROM paused"))

    def require_not_paused(self, policy: str) -> None:
        """Raise ``Paused`` if a policy is paused."""
        if policy in self.paused_policies():
            raise Paused(policy)

    def _record_act(self, transaction: sqlite3.Connection, by: str, act: str, about: str) -> None:
        transaction.execute(
            "INSERT INTO acts (time, by, act, about) VALUES (?, ?, ?, ?)", (self._now_micros(), by, act, about)
        )

    def _now_micros(self) -> int:
        return int(self._clock() * 1e6)

    def _now(self) -> datetime:
        return _from_micros(self._now_micros())


def _new_secret() -> str:
    """Draw 256 random bits, encoded in URL-safe base64."""
    return base64.urlsafe_b64encode(bits.random_bits(256).to_bytes(32, "big")).rstrip(b"=").decode()


def _sha256_hex(secret: str) -> str:
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _read_or_create_secret(transaction: sqlite3.Connection, name: str) -> str:
    """Return the secret of this name, such as the one that salts are derived from; draw it first if there is none."""
    transaction.execute("INSERT OR IGNORE INTO secrets VALUES (?, ?)", (name, _new_secret()))
    (secret,) = transaction.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()
    return str(secret)


def _user_salt(secret: str, user: str) -> bytes:
    return hmac.digest(secret.encode(), user.encode(errors="surrogatepass"), "sha256")[:_SALT_BYTES]


def _from_micros(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)


def _span_micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _user_from_row(row: tuple[str, str, int, int]) -> User:
    return User(row[0], Role(row[1]), _from_micros(row[2]), bool(row[3]))


def _require_url_safe(name: str) -> None:
    """Refuse a user name that cannot stand in a URL path: slashes end a segment, and dot segments are removed."""
    if "/" in name or "\\" in name or not name.strip("."):
        raise InvalidParameter(
            "user",
            name,
            "a name that fits into a web address: without slashes, and not only dots",
            fix="write a name such as ana",
        )


def _require_user(transaction: sqlite3.Connection, name: str) -> User:
    row = transaction.execute("SELECT name, role, made, disabled FROM users WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise InvalidParameter("user", name, "a user of this server", fix="add the user with `sfumato user add`")
    return _user_from_row(row)


def _is_last_owner(transaction: sqlite3.Connection, user: User) -> bool:
    if user.role is not Role.OWNER or user.disabled:
        return False
    others = "SELECT 1 FROM users WHERE role = ? AND NOT disabled AND name <> ?"
    return transaction.execute(others, (Role.OWNER.value, user.name)).fetchone() is None


def _token_from_row(row: tuple[int, str, str, int, int | None, str | None, str, int]) -> Token:
    number, user, label, created, expires, limit, spent, revoked = row
    return Token(
        number,
        user,
        label,
        _from_micros(created),
        None if expires is None else _from_micros(expires),
        None if limit is None else amount_from_units(amounts.parse_amount(limit)),
        amount_from_units(amounts.parse_amount(spent)) if spent else Fraction(0),
        bool(revoked),
    )


def _require_token(transaction: sqlite3.Connection, number: int) -> Token:
    row = transaction.execute(f"SELECT {_TOKEN_COLUMNS} FROM tokens WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise InvalidParameter(
            "token", number, "the number of an existing token", fix="list the tokens with `sfumato token list`"
        )
    return _token_from_row(row)


@contextmanager
def open_people_file(ledger: str | os.PathLike[str] | None = None) -> Iterator[PeopleFile]:
    """Open the people file beside a ledger, or beside the one of the current folder."""
    path = Path(LEDGER_NAME if ledger is None or is_server_address(ledger) else ledger)
    if not path.exists() and not any(path.parent.glob("*.toml")):
        raise LedgerUnavailable(
            "users are stored beside the ledger of the server, but this folder has no ledger and no policy",
            place=str(path),
            fix="run this in the folder of the policy, or pass its ledger with --ledger",
        )
    people = PeopleFile(people_file_path(path))
    try:
        yield people
    finally:
        people.close()


@contextmanager
def open_owner_check(policy: Policy, ledger: str | os.PathLike[str] | None = None) -> Iterator[tuple[IsOwner, str]]:
    """Yield who is an enabled owner of the server on a policy's ledger, and the id of its people file; everybody, of
    every server, where no server has users here.
    """
    path = people_file_path(users_path(policy, ledger))
    if not path.exists():
        yield count_everyone_as_owner, ""
        return
    people = PeopleFile(path)
    try:
        yield people.is_owner, people.id
    finally:
        people.close()


def command_line_user() -> str:
    """Return the operating system's user name, as it is recorded with acts from the command line."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return f"user {os.getuid()} (command line)"
