"""What a statement asks of the session: a setting, a transaction, a cursor, a COPY, an explanation, or rows.

A statement is classified by its first words alone; nothing is run. What cannot be done here is ``SqlRefusal``, with the
SQLSTATE that PostgreSQL has for it. The SQL of a question is not looked into: ``plan.sql`` parses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres.lexing import SqlToken, StatementText, TokenKind, dotted_name_and_rest, skip_words


class SqlRefusal(Exception):
    """A statement that is not possible here, as the client is told."""

    def __init__(self, sqlstate: str, message: str, *, hint: str = "", detail: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.hint = hint
        self.detail = detail
        self.position = position
        """From 1, in letters of the client's text; 0 for none."""


@dataclass(frozen=True)
class SetSetting:
    """SET: a setting's new value, None for its default; ``local`` to the transaction or not."""

    name: str
    value: str | None
    local: bool = False


@dataclass(frozen=True)
class ResetSetting:
    """RESET: one setting, or all."""

    name: str | None


@dataclass(frozen=True)
class ShowSetting:
    name: str


@dataclass(frozen=True)
class TransactionCommand:
    """BEGIN, COMMIT, ROLLBACK or one of a savepoint, with the tag that completes it."""

    action: Literal["begin", "commit", "rollback", "savepoint", "release", "rollback to"]
    tag: str


@dataclass(frozen=True)
class Discard:
    """DISCARD ALL, PLANS, SEQUENCES or TEMP."""

    everything: bool
    tag: str


@dataclass(frozen=True)
class Deallocate:
    """Forget a prepared statement, or all."""

    name: str | None


@dataclass(frozen=True)
class DeclareCursor:
    """DECLARE: a cursor over a statement's rows, which ``holds`` beyond its transaction or not."""

    name: str
    rows: RowsStatement
    holds: bool = False


@dataclass(frozen=True)
class FetchCursor:
    """FETCH, or MOVE, which shows no rows: so many forward, None for all."""

    name: str
    count: int | None
    shows: bool = True


@dataclass(frozen=True)
class CloseCursor:
    """Close a cursor, or all."""

    name: str | None


@dataclass(frozen=True)
class CopyFormat:
    """How the rows of a COPY are written."""

    format: Literal["text", "csv", "binary"] = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'


@dataclass(frozen=True)
class CopyOut:
    """COPY (…) TO STDOUT."""

    rows: RowsStatement
    format: CopyFormat


@dataclass(frozen=True)
class Explain:
    rows: RowsStatement


@dataclass(frozen=True)
class NoEffect:
    """A statement that is accepted and does nothing here."""

    tag: str


@dataclass(frozen=True)
class RowsStatement:
    """A statement that returns rows: a question, or one about the catalog. With its own price, from a leading
    comment.
    """

    sql: str
    price: Mapping[str, str]
    offset: int = 0
    """Where ``sql`` begins in the client's text."""


Statement = (
    SetSetting
    | ResetSetting
    | ShowSetting
    | TransactionCommand
    | Discard
    | Deallocate
    | DeclareCursor
    | FetchCursor
    | CloseCursor
    | CopyOut
    | Explain
    | NoEffect
    | RowsStatement
)

_ROW_WORDS = ("select", "with", "values", "table", "from", "describe", "summarize", "pivot")
_WRITE_WORDS = (
    "insert", "update", "delete", "merge", "create", "drop", "alter", "truncate", "grant", "revoke", "comment",
    "import", "refresh", "reindex", "cluster", "vacuum", "analyze", "analyse", "call", "do", "lock", "reassign",
    "security", "load", "checkpoint", "notify", "replace", "attach", "detach", "install",
)  # fmt: skip
_READ_HINT = "Send a SELECT, such as SELECT COUNT(*) FROM a table that \\dt lists."


def classify_statement(text: StatementText) -> Statement:
    """Return what a statement asks for; raise ``SqlRefusal`` for what is not possible here."""
    first = text.tokens[0]
    if first.is_word(*_ROW_WORDS) or first.is_symbol("("):
        return _rows_statement(text, 0, len(text.sql))
    word = first.value.lower() if first.kind is TokenKind.WORD else ""
    if word in _WRITE_WORDS:
        raise SqlRefusal("25006", f"cannot execute {word.upper()}: this server only answers questions", hint=_READ_HINT)
    parse = _PARSERS.get(word)
    if parse is None:
        raise SqlRefusal(
            "42601", f"syntax error at or near {first.value[:40]!r}", hint=_READ_HINT, position=first.start + 1
        )
    return parse(text)


def _rows_statement(text: StatementText, start: int, stop: int) -> RowsStatement:
    """Return the statement between two positions, with the price of a comment before it or before all."""
    index = next(index for index, token in enumerate(text.tokens) if token.start >= start)
    first = text.tokens[index].start
    comment = _PRICE_COMMENT.match(text.sql, text.tokens[index - 1].end if index else 0)
    comment = comment if comment is not None and comment.end() <= first else _PRICE_COMMENT.match(text.sql)
    price = {} if comment is None else parse_price_comment(comment[1])
    return RowsStatement(text.sql[first:stop].rstrip(), price, text.offset + first)


_PRICE_COMMENT = re.compile(r"\s*/\*\+?\s*sfumato\b([^*]*)\*/", re.IGNORECASE)
# Possessive: blanks before a term that cannot be read are passed over once.
_COMMENT_TERM = re.compile(r"\s*+,?+\s*+([a-z_]+)\s*=\s*(?:'([^']*)'|([^\s,']+))\s*", re.IGNORECASE)


def parse_price_comment(comment: str) -> dict[str, str]:
    """Parse the terms of ``/* sfumato epsilon=0.1 within='visits=50, cost=3' */``."""
    terms: dict[str, str] = {}
    position = 0
    stop = len(comment.rstrip())
    while position < stop:
        match = _COMMENT_TERM.match(comment, position)
        if match is None:
            raise SqlRefusal(
                "22023",
                "the price in the comment cannot be read",
                hint="Write /* sfumato epsilon=0.1 */ before the question.",
            )
        terms[match[1].lower()] = match[3] if match[2] is None else match[2]
        position = match.end()
    return terms


# ── settings ───────────────────────────────────────────────────────────────────────────────────


def _parse_set(text: StatementText) -> Statement:
    tokens = text.tokens[1:]
    local = bool(tokens) and tokens[0].is_word("local")
    if tokens and tokens[0].is_word("local", "session") and len(tokens) > 1 and not tokens[1].is_word("authorization"):
        tokens = tokens[1:]
    if tokens and tokens[0].is_word("transaction", "characteristics", "constraints"):
        return NoEffect("SET")
    if tokens and tokens[0].is_word("time"):
        return SetSetting("timezone", _assigned_value_or_default(text, tokens[2:]), local)
    if tokens and tokens[0].is_word("names"):
        return SetSetting("client_encoding", _assigned_value_or_default(text, tokens[1:]), local)
    if tokens and tokens[0].is_word("role", "session", "authorization"):
        raise SqlRefusal("42501", "the user of a connection cannot be changed", hint="Connect as another user instead.")
    parts, rest = dotted_name_and_rest(tokens)
    if not parts or not rest or not (rest[0].is_symbol("=") or rest[0].is_word("to")):
        raise SqlRefusal("42601", "SET needs a setting and a value", hint="Write SET sfumato.epsilon = '0.1'.")
    return SetSetting(".".join(parts).lower(), _assigned_value_or_default(text, rest[1:]), local)


def _assigned_value_or_default(text: StatementText, tokens: Sequence[SqlToken]) -> str | None:
    if not tokens:
        raise SqlRefusal("42601", "SET needs a value", hint="Write SET sfumato.epsilon = '0.1'.")
    if len(tokens) == 1:
        return None if tokens[0].is_word("default") else tokens[0].value
    if all(token.is_symbol(",") for token in tokens[1::2]):
        return ", ".join(token.value for token in tokens[::2])
    return text.sql[tokens[0].start : tokens[-1].end]


def _parse_reset(text: StatementText) -> Statement:
    parts, _ = dotted_name_and_rest(text.tokens[1:])
    if not parts:
        raise SqlRefusal("42601", "RESET needs a setting", hint="Write RESET sfumato.epsilon, or RESET ALL.")
    return ResetSetting(None if parts == ["all"] else ".".join(parts).lower())


def _parse_show(text: StatementText) -> Statement:
    tokens = text.tokens[1:]
    if tokens and tokens[0].is_word("tables"):
        return _rows_statement(text, 0, len(text.sql))
    if tokens and tokens[0].is_word("transaction"):
        return ShowSetting("transaction_isolation")
    if tokens and tokens[0].is_word("time"):
        return ShowSetting("timezone")
    parts, _ = dotted_name_and_rest(tokens)
    if not parts:
        raise SqlRefusal("42601", "SHOW needs a setting", hint="Write SHOW sfumato.epsilon, or SHOW ALL.")
    return ShowSetting(".".join(parts).lower())


# ── transactions ───────────────────────────────────────────────────────────────────────────────


def _parse_begin(text: StatementText) -> Statement:
    tag = "BEGIN" if text.tokens[0].is_word("begin") else "START TRANSACTION"
    return TransactionCommand("begin", tag)


def _parse_commit(_: StatementText) -> Statement:
    return TransactionCommand("commit", "COMMIT")


def _parse_rollback(text: StatementText) -> Statement:
    rest = skip_words(text.tokens[1:], "work", "transaction")
    if rest and rest[0].is_word("to"):
        return TransactionCommand("rollback to", "ROLLBACK")
    return TransactionCommand("rollback", "ROLLBACK")


def _parse_discard(text: StatementText) -> Statement:
    what = text.tokens[1].value.upper() if len(text.tokens) > 1 else ""
    if what not in ("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"):
        raise SqlRefusal("42601", "DISCARD needs a target", hint="Write DISCARD ALL.")
    return Discard(what == "ALL", f"DISCARD {what}")


def _parse_deallocate(text: StatementText) -> Statement:
    parts, _ = dotted_name_and_rest(skip_words(text.tokens[1:], "prepare"))
    if not parts:
        raise SqlRefusal("42601", "DEALLOCATE needs a prepared statement", hint="Write DEALLOCATE ALL.")
    return Deallocate(None if parts == ["all"] else parts[0])


# ── cursors ────────────────────────────────────────────────────────────────────────────────────


def _parse_declare(text: StatementText) -> Statement:
    parts, options = dotted_name_and_rest(text.tokens[1:])
    rest = skip_words(
        options, "binary", "asensitive", "insensitive", "no", "scroll", "cursor", "with", "without", "hold"
    )
    if not parts or len(rest) < 2 or not rest[0].is_word("for"):
        raise SqlRefusal("42601", "DECLARE needs a cursor and a SELECT", hint="Write DECLARE c CURSOR FOR SELECT …")
    words = [token.value.lower() for token in options[: len(options) - len(rest)]]
    if "binary" in words:
        raise SqlRefusal(
            "0A000",
            "cursors return text, not binary values",
            hint="Leave out BINARY, or ask for binary results in Bind.",
        )
    _require_query_start(rest[1])
    holds = "hold" in words and "without" not in words
    return DeclareCursor(parts[0], _rows_statement(text, rest[1].start, len(text.sql)), holds)


def _parse_fetch(text: StatementText) -> Statement:
    shows = text.tokens[0].is_word("fetch")
    tokens = text.tokens[1:]
    source = next((index for index, token in enumerate(tokens) if token.is_word("from", "in")), -1)
    name_tokens = tokens[source + 1 :] if source >= 0 else tokens[-1:]
    direction = tokens[:source] if source >= 0 else tokens[:-1]
    parts, rest = dotted_name_and_rest(name_tokens)
    if not parts or rest:
        raise SqlRefusal("42601", "FETCH needs a cursor", hint="Write FETCH 100 FROM c.")
    return FetchCursor(parts[0], _fetch_count(direction), shows)


def _fetch_count(direction: Sequence[SqlToken]) -> int | None:
    """Return how many rows a direction asks for: None for all. Only forward: rows are not kept once sent."""
    tokens = skip_words(direction, "forward") if len(direction) > 1 else direction
    if not tokens or (len(tokens) == 1 and tokens[0].is_word("next", "forward")):
        return 1
    if len(tokens) == 1 and tokens[0].is_word("all"):
        return None
    if len(tokens) == 1 and tokens[0].kind is TokenKind.NUMBER and re.fullmatch(r"[0-9]{1,9}", tokens[0].value):
        return int(tokens[0].value)
    raise SqlRefusal("0A000", "a cursor only moves forward", hint="Write FETCH 100 FROM c, or FETCH ALL FROM c.")


def _parse_close(text: StatementText) -> Statement:
    parts, _ = dotted_name_and_rest(text.tokens[1:])
    if not parts:
        raise SqlRefusal("42601", "CLOSE needs a cursor", hint="Write CLOSE c, or CLOSE ALL.")
    return CloseCursor(None if parts == ["all"] else parts[0])


# ── COPY and EXPLAIN ───────────────────────────────────────────────────────────────────────────


def _parse_copy(text: StatementText) -> Statement:
    tokens = text.tokens
    if len(tokens) > 1 and tokens[1].is_symbol("("):
        end = _closing_parenthesis(tokens, 1)
        _require_query_start(tokens[2])
        rows, rest = _rows_statement(text, tokens[2].start, tokens[end].start), tokens[end + 1 :]
    else:
        parts, after_name = dotted_name_and_rest(tokens[1:])
        rest = tuple(after_name)
        name = ".".join(always_quoted(part) for part in parts)
        rows = RowsStatement(f"SELECT * FROM {name}", {}, text.offset)
    if not rest or not rest[0].is_word("to"):
        raise SqlRefusal("25006", "cannot execute COPY FROM: this server only answers questions", hint=_READ_HINT)
    if len(rest) < 2 or not rest[1].is_word("stdout"):
        raise SqlRefusal(
            "42501", "COPY writes to the client only", hint="Write COPY (SELECT …) TO STDOUT; in psql, \\copy."
        )
    return CopyOut(rows, _parse_copy_format(skip_words(rest[2:], "with")))


def always_quoted(name: str) -> str:
    """Quote a name, also one that needs no quotes."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _closing_parenthesis(tokens: Sequence[SqlToken], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        depth += tokens[index].is_symbol("(") - tokens[index].is_symbol(")")
        if depth == 0 and index > opening + 1:
            return index
    raise SqlRefusal("42601", "a parenthesis is not closed", hint="Write COPY (SELECT …) TO STDOUT.")


def _parse_copy_format(tokens: Sequence[SqlToken]) -> CopyFormat:
    """Parse the options of a COPY, in parentheses or in the old form: ``CSV HEADER``."""
    words = [token for token in tokens if not (token.is_symbol("(") or token.is_symbol(")") or token.is_symbol(","))]
    options: dict[str, str] = {}
    index = 0
    while index < len(words):
        name = words[index].value.lower()
        following = words[index + 1] if index + 1 < len(words) else None
        if name in ("csv", "binary", "text"):
            options["format"] = name
        elif name == "format" and following is not None:
            options["format"] = following.value.lower()
            index += 1
        elif name == "header":
            takes_value = following is not None and following.is_word("true", "false", "on", "off")
            options["header"] = following.value.lower() if following is not None and takes_value else "on"
            index += takes_value
        elif name in ("delimiter", "null", "quote", "encoding") and following is not None:
            index += following.is_word("as")
            options[name] = words[min(index + 1, len(words) - 1)].value
            index += 1
        else:
            raise SqlRefusal("0A000", f"the COPY option {name[:40]!r} is not supported", hint=_COPY_HINT)
        index += 1
    return _build_copy_format(options)


_COPY_HINT = "Use FORMAT, HEADER, DELIMITER, NULL or QUOTE."


def _build_copy_format(options: Mapping[str, str]) -> CopyFormat:
    name = options.get("format", "text")
    if name not in ("text", "csv", "binary"):
        raise SqlRefusal("22023", f"the COPY format {name[:40]!r} is not supported", hint="Use text, csv or binary.")
    if options.get("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise SqlRefusal("0A000", "COPY sends text as UTF-8 only", hint="Leave out ENCODING.")
    defaults = CopyFormat("csv", ",", "") if name == "csv" else CopyFormat()
    delimiter, quote = options.get("delimiter", defaults.delimiter), options.get("quote", defaults.quote)
    if len(delimiter) != 1 or len(quote) != 1 or delimiter in "\r\n\\" or quote in "\r\n":
        raise SqlRefusal("22023", "DELIMITER and QUOTE of COPY must be one character each", hint="Write DELIMITER ','.")
    header = options.get("header", "off") in ("on", "true")
    null = options.get("null", defaults.null)
    if "\r" in null or "\n" in null:
        raise SqlRefusal("22023", "the NULL text of COPY cannot contain a line break", hint="Leave out NULL.")
    kind: Literal["text", "csv", "binary"] = "csv" if name == "csv" else "binary" if name == "binary" else "text"
    return CopyFormat(kind, delimiter, null, header and kind != "binary", quote)


def _parse_explain(text: StatementText) -> Statement:
    tokens: Sequence[SqlToken] = text.tokens[1:]
    options: Sequence[SqlToken] = ()
    if tokens and tokens[0].is_symbol("(") and len(tokens) > 1 and not tokens[1].is_word(*_ROW_WORDS):
        end = _closing_parenthesis(tokens, 0)
        options, tokens = tokens[1:end], tokens[end + 1 :]
    else:
        rest = skip_words(tokens, "analyze", "analyse", "verbose")
        options, tokens = tokens[: len(tokens) - len(rest)], rest
    if any(token.is_word("analyze", "analyse") for token in options):
        raise SqlRefusal(
            "0A000", "EXPLAIN ANALYZE would run the question, and charge for it", hint="Use EXPLAIN, which is free."
        )
    if any(token.is_word("json", "xml", "yaml") for token in options):
        raise SqlRefusal("0A000", "EXPLAIN returns plain text only", hint="Use EXPLAIN without FORMAT.")
    if not tokens:
        raise SqlRefusal("42601", "EXPLAIN needs a question", hint="Write EXPLAIN SELECT …")
    _require_query_start(tokens[0])
    return Explain(_rows_statement(text, tokens[0].start, len(text.sql)))


def _require_query_start(token: SqlToken) -> None:
    if not token.is_word(*_ROW_WORDS) and not token.is_symbol("("):
        raise SqlRefusal(
            "25006",
            "this server answers questions (SELECT) and executes nothing else",
            hint=_READ_HINT,
            position=token.start + 1,
        )


def _no_effect_parser(tag: str) -> Callable[[StatementText], Statement]:
    return lambda _: NoEffect(tag)


def _refuse_prepare(_: StatementText) -> Statement:
    raise SqlRefusal("0A000", "the statements PREPARE and EXECUTE are not supported", hint="Send the question itself.")


_PARSERS: Mapping[str, Callable[[StatementText], Statement]] = {
    "set": _parse_set,
    "reset": _parse_reset,
    "show": _parse_show,
    "begin": _parse_begin,
    "start": _parse_begin,
    "commit": _parse_commit,
    "end": _parse_commit,
    "rollback": _parse_rollback,
    "abort": _parse_rollback,
    "savepoint": lambda _: TransactionCommand("savepoint", "SAVEPOINT"),
    "release": lambda _: TransactionCommand("release", "RELEASE"),
    "discard": _parse_discard,
    "deallocate": _parse_deallocate,
    "declare": _parse_declare,
    "fetch": _parse_fetch,
    "move": _parse_fetch,
    "close": _parse_close,
    "copy": _parse_copy,
    "explain": _parse_explain,
    "listen": _no_effect_parser("LISTEN"),
    "unlisten": _no_effect_parser("UNLISTEN"),
    "prepare": _refuse_prepare,
    "execute": _refuse_prepare,
}
