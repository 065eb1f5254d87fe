"""Users, tokens, sessions and one-time links are made, found and ended here; every owner's act is written down.

A secret is 256 random bits and is shown once. Kept is its SHA-256, by which it is looked up: whoever reads the file
cannot call with it, and how long a look-up takes tells nothing about a secret that nobody can choose the hash of.

An owner changes people without a server: whoever can read a ledger is the owner of what it is about.
"""

from __future__ import annotations

import base64
import getpass
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

from sfumato.curator.policy_account import LEDGER_NAME
from sfumato.errors import InvalidParameter, LedgerUnavailable, NotSignedIn, Paused
from sfumato.ledger import entries
from sfumato.ledger.stores.server_addresses import is_server_address
from sfumato.mechanisms import bits
from sfumato.privacy import amounts
from sfumato.privacy.amounts import exact_amount, round_down
from sfumato.privacy.numbers import POSITIVE, Number, exact, from_units
from sfumato.server.people.database import PeopleDatabase, beside
from sfumato.server.people.known_people import Act, Caller, Credentials, Login, Role, Token, User

PREFIX = "sfu_"
"""The start of every token, by which those who scan files for lost secrets find one."""
LINK_MINUTES = 15
_TOKEN = "number, user, label, made, expires, most, spent, revoked"
_ACTS = 1000


class PeopleFile:
    """The people file is everything a server knows of its users. It is safe to use from threads and processes.

    ``clock`` tells the seconds since 1970.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> None:
        self.database = PeopleDatabase(path)
        self._clock = clock

    def close(self) -> None:
        self.database.close()

    # ── who calls ──────────────────────────────────────────────────────────────────────────────

    def identify(self, shown: Credentials) -> Caller | None:
        """Find who shows this token or cookie; None for nobody.

        Every wrong secret goes one way: it is hashed, looked up once, and judged by all conditions together.
        """
        by_token = shown.token is not None
        secret = shown.token if by_token else shown.cookie
        digest = _digest(secret or "")
        with self.database.reading() as rows:
            return self._by_token(rows, digest) if by_token else self._by_cookie(rows, digest)

    def _by_token(self, rows: sqlite3.Connection, digest: str) -> Caller | None:
        columns = ", ".join(f"tokens.{name}" for name in _TOKEN.split(", "))
        found = rows.execute(
            f"SELECT users.role, users.disabled, {columns} FROM tokens JOIN users ON users.name = tokens.user"
            " WHERE tokens.hash = ?",
            (digest,),
        ).fetchone()
        if found is None:
            return None
        token = _token(found[2:])
        return None if self._ended(token) or found[1] else Caller(token.user, Role(found[0]), token=token)

    def _by_cookie(self, rows: sqlite3.Connection, digest: str) -> Caller | None:
        found = rows.execute(
            "SELECT users.role, users.disabled, user, expires, form FROM sessions JOIN users ON users.name = user"
            " WHERE hash = ?",
            (digest,),
        ).fetchone()
        if found is None:
            return None
        login = Login(found[2], _time(found[3]), found[4])
        ended = self._now() >= login.expires
        return None if ended or found[1] else Caller(login.user, Role(found[0]), session=login)

    def require_let_in(self, user: str, token: int | None) -> None:
        """Refuse who is disabled by now, or whose token was revoked or has expired, as one who is not known."""
        with self.database.reading() as rows:
            shown = None if token is None else _known_token(rows, token)
            if _known_user(rows, user).disabled or (shown is not None and self._ended(shown)):
                raise NotSignedIn

    def _ended(self, token: Token) -> bool:
        return token.revoked or (token.expires is not None and self._now() >= token.expires)

    # ── users ──────────────────────────────────────────────────────────────────────────────────

    def users(self) -> tuple[User, ...]:
        """List every user, by name."""
        with self.database.reading() as rows:
            return tuple(map(_user, rows.execute("SELECT name, role, made, disabled FROM users ORDER BY name")))

    def user(self, name: str) -> User:
        """Find a user; one who is not there is refused."""
        with self.database.reading() as rows:
            return _known_user(rows, name)

    def add_user(self, name: str, role: Role | str, *, by: str) -> User:
        """Add a user. A name is taken for ever: whoever was disabled keeps theirs, and their history."""
        _require_reachable(entries.name(name, "user"))
        try:
            given = Role(role)
        except ValueError:
            raise InvalidParameter("role", role, f"one of {', '.join(Role)}") from None
        with self.database.writing() as rows:
            if rows.execute("SELECT 1 FROM users WHERE name = ?", (name,)).fetchone():
                fix = "choose another name, or let them in again: sfumato user disable NAME --again"
                raise InvalidParameter("user", name, "a name that no user has or had", fix=fix)
            rows.execute("INSERT INTO users VALUES (?, ?, ?, 0)", (name, given.value, self._micros()))
            self._write(rows, by, "user added", f"{name}, {given.value}")
        return self.user(name)

    def set_disabled(self, name: str, disabled: bool, *, by: str) -> User:
        """Let a user in no more, with all tokens and sessions, or let them in again."""
        with self.database.writing() as rows:
            user = _known_user(rows, name)
            if disabled and _is_last_owner(rows, user):
                fix = "add another owner first, or let one in again"
                raise InvalidParameter("user", name, "somebody else: this is the last owner who is let in", fix=fix)
            rows.execute("UPDATE users SET disabled = ? WHERE name = ?", (int(disabled), name))
            if disabled:
                rows.execute("DELETE FROM sessions WHERE user = ?", (name,))
                rows.execute("DELETE FROM links WHERE user = ?", (name,))
            self._write(rows, by, "user disabled" if disabled else "user enabled", name)
        return self.user(name)

    # ── tokens ─────────────────────────────────────────────────────────────────────────────────

    def new_token(
        self, user: str, *, label: str = "", expires: timedelta | None = None, most: Number | None = None, by: str
    ) -> tuple[Token, str]:
        """Make a token, and give it with its text, which is kept nowhere.

        ``most`` is the sum of the ε of all releases that it may ever pay for.
        """
        secret = PREFIX + _secret()
        limit = None if most is None else amounts.write(round_down(exact_amount(exact(most, "most", POSITIVE))))
        if label:
            entries.name(label, "label")
        if expires is not None and expires <= timedelta(0):
            raise InvalidParameter("expires", expires, "a time to come")
        end = None if expires is None else self._micros() + _micros(expires)
        with self.database.writing() as rows:
            if _known_user(rows, user).disabled:
                raise InvalidParameter("user", user, "a user who is not disabled")
            number = rows.execute(
                "INSERT INTO tokens (hash, user, label, made, expires, most, spent, revoked)"
                " VALUES (?, ?, ?, ?, ?, ?, '0', 0)",
                (_digest(secret), user, label, self._micros(), end, limit),
            ).lastrowid
            said = ", ".join([user, *([label] if label else [])])
            self._write(rows, by, "token made", f"{number}, {said}")
            assert number is not None
            return _known_token(rows, number), secret

    def tokens(self, user: str | None = None) -> tuple[Token, ...]:
        """List every token, or those of one user, oldest first."""
        where, given = ("", ()) if user is None else (" WHERE user = ?", (user,))
        with self.database.reading() as rows:
            return tuple(map(_token, rows.execute(f"SELECT {_TOKEN} FROM tokens{where} ORDER BY number", given)))

    def token(self, number: int) -> Token:
        """Find a token; one that is not there is refused."""
        with self.database.reading() as rows:
            return _known_token(rows, number)

    def revoke_token(self, number: int, *, by: str) -> Token:
        """End a token, at once and for ever."""
        with self.database.writing() as rows:
            token = _known_token(rows, number)
            rows.execute("UPDATE tokens SET revoked = 1 WHERE number = ?", (number,))
            self._write(rows, by, "token revoked", f"{number}, {token.user}")
        return self.token(number)

    # ── browsers ───────────────────────────────────────────────────────────────────────────────

    def new_link(self, user: str, *, by: str) -> str:
        """Make the secret of a link that signs a user in once, soon."""
        secret = _secret()
        with self.database.writing() as rows:
            if _known_user(rows, user).disabled:
                raise InvalidParameter("user", user, "a user who is not disabled")
            end = self._micros() + _micros(timedelta(minutes=LINK_MINUTES))
            rows.execute("DELETE FROM links WHERE expires <= ?", (self._micros(),))
            rows.execute("INSERT INTO links VALUES (?, ?, ?)", (_digest(secret), user, end))
            self._write(rows, by, "link made", user)
        return secret

    def sign_in(self, link: str, lasts: timedelta) -> str | None:
        """Use a one-time link up, and give the cookie of a new session; None for a link that is no more."""
        cookie, form, now = _secret(), _secret(), self._micros()
        with self.database.writing() as rows:
            rows.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
            found = rows.execute(
                "DELETE FROM links WHERE hash = ? RETURNING user, expires", (_digest(link),)
            ).fetchone()
            if found is None or found[1] <= now or _known_user(rows, found[0]).disabled:
                return None
            rows.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?)", (_digest(cookie), found[0], now + _micros(lasts), form)
            )
        return cookie

    def sign_out(self, cookie: str) -> None:
        """End a session."""
        with self.database.writing() as rows:
            rows.execute("DELETE FROM sessions WHERE hash = ?", (_digest(cookie),))

    # ── what owners did ────────────────────────────────────────────────────────────────────────

    def record(self, by: str, act: str, about: str) -> None:
        """Write an owner's act down, for ever."""
        with self.database.writing() as rows:
            self._write(rows, by, act, about)

    def acts(self, after: int = 0, limit: int = _ACTS) -> tuple[Act, ...]:
        """List acts in order, those after a number."""
        with self.database.reading() as rows:
            found = rows.execute(
                "SELECT number, time, by, act, about FROM acts WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
            )
            return tuple(Act(number, _time(at), by, act, about) for number, at, by, act, about in found)

    def pause(self, policy: str, paused: bool, *, by: str) -> None:
        """Let a policy answer nothing new, or let it answer again: in every process."""
        with self.database.writing() as rows:
            rows.execute("DELETE FROM paused WHERE policy = ?", (policy,))
            if paused:
                rows.execute("INSERT INTO paused VALUES (?)", (policy,))
            self._write(rows, by, "paused" if paused else "resumed", policy)

    def paused(self) -> frozenset[str]:
        """Name the policies that answer nothing new."""
        with self.database.reading() as rows:
            return frozenset(name for (name,) in rows.execute("SELECT policy FROM paused"))

    def require_open(self, policy: str) -> None:
        """Refuse what is asked anew of a policy that is paused."""
        if policy in self.paused():
            raise Paused(policy)

    def _write(self, rows: sqlite3.Connection, by: str, act: str, about: str) -> None:
        rows.execute("INSERT INTO acts (time, by, act, about) VALUES (?, ?, ?, ?)", (self._micros(), by, act, about))

    def _micros(self) -> int:
        return int(self._clock() * 1e6)

    def _now(self) -> datetime:
        return _time(self._micros())


def _secret() -> str:
    """Draw 256 bits, written in letters that need no quoting."""
    return base64.urlsafe_b64encode(bits.integer(256).to_bytes(32, "big")).rstrip(b"=").decode()


def _digest(secret: str) -> str:
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)


def _micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _user(row: tuple[str, str, int, int]) -> User:
    return User(row[0], Role(row[1]), _time(row[2]), bool(row[3]))


def _require_reachable(name: str) -> None:
    """Refuse a name that no address can hold: addresses end at a slash, and dots alone are taken out of them."""
    if "/" in name or "\\" in name or not name.strip("."):
        raise InvalidParameter("user", name, "a name without slashes, and of more than dots: it stands in addresses")


def _known_user(rows: sqlite3.Connection, name: str) -> User:
    found = rows.execute("SELECT name, role, made, disabled FROM users WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise InvalidParameter("user", name, "a user of this server", fix="add them: sfumato user add")
    return _user(found)


def _is_last_owner(rows: sqlite3.Connection, user: User) -> bool:
    if user.role is not Role.OWNER or user.disabled:
        return False
    others = "SELECT 1 FROM users WHERE role = ? AND NOT disabled AND name <> ?"
    return rows.execute(others, (Role.OWNER.value, user.name)).fetchone() is None


def _token(row: tuple[int, str, str, int, int | None, str | None, str, int]) -> Token:
    number, user, label, made, expires, most, spent, revoked = row
    return Token(
        number,
        user,
        label,
        _time(made),
        None if expires is None else _time(expires),
        None if most is None else from_units(amounts.read(most)),
        from_units(amounts.read(spent)) if spent else Fraction(0),
        bool(revoked),
    )


def _known_token(rows: sqlite3.Connection, number: int) -> Token:
    found = rows.execute(f"SELECT {_TOKEN} FROM tokens WHERE number = ?", (number,)).fetchone()
    if found is None:
        raise InvalidParameter("token", number, "the number of a token", fix="list them: sfumato token list")
    return _token(found)


@contextmanager
def people_of(ledger: str | os.PathLike[str] | None = None) -> Iterator[PeopleFile]:
    """Open the people file beside a ledger, or beside that of this folder, where there is one or a policy."""
    path = Path(LEDGER_NAME if ledger is None or is_server_address(ledger) else ledger)
    if not path.exists() and not any(path.parent.glob("*.toml")):
        raise LedgerUnavailable(
            "the users of a server are kept beside its ledger, and here is neither a ledger nor a policy",
            place=str(path),
            fix="run this in the folder of the policy, or name its ledger with --ledger",
        )
    people = PeopleFile(beside(path))
    try:
        yield people
    finally:
        people.close()


def who_runs_this() -> str:
    """Name who acts at the keyboard, as the acts are written down."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return f"user {os.getuid()} (command line)"
