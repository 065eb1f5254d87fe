"""The settings of one connection: PostgreSQL's own, which change nothing here, and ``sfumato.…``, which set the price.

Settings belong to one session object and to nobody else. As in PostgreSQL, a rolled-back transaction restores those it
changed, and SET LOCAL lasts until the end of its transaction.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import ACCEPT_DEFAULT, BELOW_ONE, CONFIDENCE, DEFAULT_CONFIDENCE, POSITIVE, Range, exact
from sfumato.server.postgres.statements import SqlRefusal, parse_price_comment

PREFIX = "sfumato."
NO_PRICE_HINT = (
    "Set one first, for example SET sfumato.epsilon = '0.1', or SET sfumato.within = '50' for an error of at most ±50. "
    "EXPLAIN forecasts the error at a price, free."
)
_SWITCH = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}


def _number_parser(name: str, allowed: Range = POSITIVE) -> Callable[[str], str]:
    def parse(value: str) -> str:
        exact(value.strip(), name, allowed)
        return value.strip()

    return parse


def _switch_parser(name: str) -> Callable[[str], bool]:
    def parse(value: str) -> bool:
        if value.strip().lower() not in _SWITCH:
            raise InvalidParameter(name, value, "on or off")
        return _SWITCH[value.strip().lower()]

    return parse


def _parse_within(value: str) -> str | dict[str, str]:
    """Parse ``50``, or ``visits=50, cost=3``."""
    if "=" not in value:
        return _number_parser("within")(value)
    goals = (goal.partition("=") for goal in value.split(","))
    return {name.strip().strip('"'): _number_parser("within")(width) for name, _, width in goals}


def _parse_mechanism(value: str) -> str:
    if value.strip().lower() not in ("laplace", "gaussian"):
        raise InvalidParameter("mechanism", value, "laplace or gaussian")
    return value.strip().lower()


def _parse_delta(value: str) -> str:
    """Parse a δ, or the word that accepts the one which a question offers to find groups."""
    return ACCEPT_DEFAULT if value.strip().lower() == ACCEPT_DEFAULT else _number_parser("delta", BELOW_ONE)(value)


PRICE_TERMS: Mapping[str, Callable[[str], Any]] = {
    "epsilon": _number_parser("epsilon"),
    "delta": _parse_delta,
    "rho": _number_parser("rho"),
    "within": _parse_within,
    "confidence": _number_parser("confidence", CONFIDENCE),
    "mechanism": _parse_mechanism,
    "fresh": _switch_parser("fresh"),
}
"""The terms of a price that can be set, and how each is read."""
_OTHER_TERMS: Mapping[str, Callable[[str], Any]] = {"most": _number_parser("most"), "ranges": _switch_parser("ranges")}
_EXAMPLES = {
    "delta": "1e-6",
    "within": "50",
    "confidence": DEFAULT_CONFIDENCE,
    "mechanism": "laplace",
    "fresh": "on",
    "ranges": "on",
}
"""By term, a value that can be written; 0.1 for the others."""
_AMOUNTS = ("epsilon", "rho", "within")
"""A price needs one of these."""

_FIXED = {
    "client_encoding": ("UTF8", ("utf8", "utf-8", "unicode", "'utf8'")),
    "standard_conforming_strings": ("on", ("on", "true", "1")),
    "transaction_read_only": ("on", ("on", "true", "1")),
    "default_transaction_read_only": ("on", ("on", "true", "1")),
}
"""Settings with one possible value."""
_DEFAULTS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "enable_parallel_hash": "off",
    "extra_float_digits": "1",
    "geqo": "on",
    "idle_in_transaction_session_timeout": "0",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "lock_timeout": "0",
    "max_identifier_length": "63",
    "row_security": "on",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "ssl_renegotiation_limit": "0",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronize_seqscans": "on",
    "timezone": "Etc/UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}
_READ_ONLY = ("in_hot_standby", "integer_datetimes", "is_superuser", "max_identifier_length", "server_encoding")
REPORTED = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "integer_datetimes": "integer_datetimes",
    "intervalstyle": "IntervalStyle",
    "is_superuser": "is_superuser",
    "search_path": "search_path",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}
"""Settings whose value clients are told at the start and when it changes, as they spell them."""
_MAX_VALUE_LENGTH = 2000


class SessionSettings:
    """The settings of one connection."""

    def __init__(self, user: str, server_version: str, startup: Mapping[str, str], price: Mapping[str, str]) -> None:
        """Start with the options of the start-up message; ``price`` is the token's own, if it has one."""
        major, minor = map(int, server_version.split("."))
        session_defaults = {"session_authorization": user, "server_version": server_version}
        session_defaults["server_version_num"] = str(10_000 * major + minor)
        session_defaults |= {f"{PREFIX}{name}": value for name, value in price.items()}
        self._defaults = _DEFAULTS | session_defaults
        self._values = dict(self._defaults)
        for name, value in startup.items():
            self._values[name.lower()] = self._validated_value(name.lower(), value)
        self._defaults = dict(self._values)  # RESET returns to what the connection was opened with
        self._before_transaction: dict[str, str] | None = None
        self._local: dict[str, str | None] = {}

    def show(self, name: str) -> str:
        name = name.lower()
        if name not in self._values:
            if name in _setting_names():
                return ""
            raise _unknown_setting_refusal(name)
        return self._values[name]

    def items(self) -> list[tuple[str, str]]:
        return sorted(self._values.items())

    def set(self, name: str, value: str | None, *, local: bool = False) -> None:
        """Set a value; None is the default."""
        before = self._values.get(name)
        if value is None:
            self.reset(name)
        else:
            self._values[name] = self._validated_value(name, value)
        if local and self._before_transaction is not None:
            self._local.setdefault(name, before)

    def reset(self, name: str | None) -> None:
        """Return one setting to the connection's first value, or all."""
        if name is None:
            self._values = dict(self._defaults)
            return
        self.show(name)
        if name in self._defaults:
            self._values[name] = self._defaults[name]
        else:
            self._values.pop(name, None)

    # ── transactions ───────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        self._before_transaction = dict(self._values)

    def commit(self) -> None:
        for name, value in self._local.items():
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value
        self._local, self._before_transaction = {}, None

    def roll_back(self) -> None:
        if self._before_transaction is not None:
            self._values = self._before_transaction
        self._local, self._before_transaction = {}, None

    # ── the price ──────────────────────────────────────────────────────────────────────────────

    @property
    def ranges(self) -> bool:
        return _switch_parser("ranges")(self._values.get(f"{PREFIX}ranges", "off"))

    @property
    def most(self) -> str | None:
        """The most ε that this connection may spend."""
        return self._values.get(f"{PREFIX}most")

    def price(self, comment: Mapping[str, str]) -> dict[str, Any]:
        """Return the price of a statement: its comment's terms replace the connection's amount; empty for none."""
        for name, value in comment.items():
            if name not in PRICE_TERMS:
                raise _unknown_setting_refusal(f"{PREFIX}{name}")
            self._validated_value(f"{PREFIX}{name}", value)
        written = {name: self._values[key] for name in PRICE_TERMS if (key := f"{PREFIX}{name}") in self._values}
        if any(name in comment for name in _AMOUNTS):
            written = {name: value for name, value in written.items() if name not in _AMOUNTS}
        return {name: PRICE_TERMS[name](value) for name, value in {**written, **comment}.items()}

    def _validated_value(self, name: str, value: str) -> str:
        if len(value) > _MAX_VALUE_LENGTH or "\0" in value:
            raise SqlRefusal("22023", f"the value of {name[:60]} is too long", hint="Set a shorter value.")
        if name.startswith(PREFIX):
            return _validated_term(name, value)
        if name not in self._defaults:
            raise _unknown_setting_refusal(name)
        if name in _READ_ONLY or name in ("server_version", "server_version_num", "session_authorization"):
            raise SqlRefusal("55P02", f"{name} cannot be changed", hint="Leave it out.")
        if name in _FIXED and value.strip().strip("'\"").lower() not in _FIXED[name][1]:
            only = _FIXED[name][0]
            raise SqlRefusal(
                "22023", f"{name} is always {only} on this server", hint=f"Leave it out, or set it to {only}."
            )
        return _FIXED[name][0] if name in _FIXED else value


def parse_token_price(text: str) -> dict[str, str]:
    """Parse a token's own price, such as ``epsilon=0.1``; refuse one that no question could have."""
    terms = parse_price_comment(text)
    for name, value in terms.items():
        _validated_term(f"{PREFIX}{name}", value)
    if terms and not has_amount(terms):
        raise SqlRefusal("22023", "a price needs an amount", hint="Write epsilon=0.1, within=50 or rho=0.01.")
    return terms


def has_amount(price: Mapping[str, Any]) -> bool:
    """Return whether a price says how much to spend or how accurate to be."""
    return any(name in price for name in _AMOUNTS)


def _setting_names() -> set[str]:
    return {f"{PREFIX}{name}" for name in (*PRICE_TERMS, *_OTHER_TERMS)}


def _validated_term(name: str, value: str) -> str:
    parse = {**PRICE_TERMS, **_OTHER_TERMS}.get(name.removeprefix(PREFIX))
    if parse is None:
        raise _unknown_setting_refusal(name)
    try:
        parse(value)
    except InvalidParameter as error:
        example = _EXAMPLES.get(name.removeprefix(PREFIX), "0.1")
        raise SqlRefusal("22023", f"{PREFIX}{error.rule}", hint=f"Write SET {name} = '{example}'.") from None
    return value


def _unknown_setting_refusal(name: str) -> SqlRefusal:
    close = difflib.get_close_matches(name[:60], [*_setting_names(), *_DEFAULTS], n=1)
    hint = (
        f"Did you mean {close[0]}?" if close else "The price is set by sfumato.epsilon, sfumato.within or sfumato.rho."
    )
    return SqlRefusal("42704", f'unrecognized configuration parameter "{name[:60]}"', hint=hint)
