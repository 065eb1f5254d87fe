"""A long text costs time in proportion to its length, and other connections are served meanwhile."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, SupportsIndex, cast

import numpy as np
import pytest

from sfumato.policy import Type
from sfumato.server.postgres import statement_texts, statements
from sfumato.server.postgres.lexing import MAX_TOKENS, SqlToken, StatementText, tokenize
from sfumato.server.postgres.listening import MESSAGES_PER_TURN, ClientConnection, ConnectionEnded, PostgresServer
from sfumato.server.postgres.sessions import Reply
from sfumato.server.postgres.statement_texts import MAX_PARAMETERS, parameter_oids, split_text
from sfumato.server.postgres.statements import SqlRefusal, classify_statement, parse_price_comment


class CountedTokens(tuple[SqlToken, ...]):
    """Tokens that count how many of them were read or copied, in slices of slices as well."""

    visits = 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = CountedTokens(super().__getitem__(index))
            CountedTokens.visits += len(part)
            return part
        CountedTokens.visits += 1
        return super().__getitem__(cast(SupportsIndex, index))

    def __iter__(self) -> Iterator[SqlToken]:
        for token in super().__iter__():
            CountedTokens.visits += 1
            yield token


def visits(sql: str, use: Callable[[CountedTokens], object]) -> int:
    tokens = CountedTokens(tokenize(sql))
    CountedTokens.visits = 0
    with suppress(SqlRefusal):
        use(tokens)
    return CountedTokens.visits


@pytest.mark.parametrize(
    "pattern",
    [
        ("SET ", "x.", "y = 1"),
        ("SHOW ", "x.", "y"),
        ("DECLARE c ", "no ", "CURSOR FOR SELECT 1"),
        ("ROLLBACK ", "work ", ""),
        ("EXPLAIN ", "verbose ", "SELECT 1"),
        ("FETCH ", "forward ", "ALL FROM c"),
        ("COPY (SELECT 1) TO STDOUT ", "with ", "CSV"),
        ("COPY (", "(", "SELECT 1"),
        ("DEALLOCATE ", "prepare ", "x"),
    ],
    ids=lambda pattern: pattern[0].strip(),
)
def test_a_statement_is_classified_in_linear_time(pattern: tuple[str, str, str]) -> None:
    head, repeated, tail = pattern
    for count in (1_000, 8_000):
        sql = head + repeated * count + tail
        seen = visits(sql, lambda tokens, sql=sql: classify_statement(StatementText(sql, tokens, 0)))  # type: ignore[misc]
        assert seen <= 10 * len(tokenize(sql))


def test_types_of_parameters_are_inferred_once_each() -> None:
    """The search before a parameter is bounded, and is not repeated where the same parameter stands again."""
    types = {"age": Type.INTEGER}
    repeated = "SELECT age IN (" + "$1, " * 4_000 + "$1)"
    assert visits(repeated, lambda tokens: parameter_oids(tokens, (), types)) <= 5 * 8_010
    different = "SELECT age IN (" + ", ".join(f"${number}" for number in range(1, MAX_PARAMETERS + 1)) + ")"
    assert visits(different, lambda tokens: parameter_oids(tokens, (), types)) <= 2 * 110 * MAX_PARAMETERS


def test_a_price_comment_is_read_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[int] = []

    class CountedPattern:
        def match(self, text: str, position: int) -> object:
            found = pattern.match(text, position)
            matched.append(0 if found is None else found.end() - position)
            return found

    pattern = statements._COMMENT_TERM
    monkeypatch.setattr(statements, "_COMMENT_TERM", CountedPattern())
    assert parse_price_comment(" a=1 ,\n b='2 3' " + " " * 60_000) == {"a": "1", "b": "2 3"}
    assert len(matched) == 2
    with pytest.raises(SqlRefusal, match="cannot be read"):
        parse_price_comment(" " * 60_000 + "!")  # quadratic, it would take minutes


@pytest.mark.parametrize("sql", ["SET " + "x." * 30_000, "SELECT 1; SELECT " + "1+" * 3_000 + "1"])
def test_a_statement_has_a_limit_of_tokens(sql: str) -> None:
    with pytest.raises(SqlRefusal, match="at most 5,000 words and symbols") as refused:
        split_text(sql)
    assert refused.value.sqlstate == "54001"
    assert refused.value.hint


def test_the_limit_of_tokens_is_one_statement_s() -> None:
    longest = "SELECT 1" + "+1" * (MAX_TOKENS // 2 - 1)
    assert [len(text.tokens) for text in split_text(f"{longest};{longest}")] == [MAX_TOKENS, MAX_TOKENS]


@pytest.mark.parametrize("sql", ["SELEC 2", "SELECT 1;\n  SELEC 2", "SELECT 1; ; -- one\n SELEC 2; SELECT 3"])
def test_a_refusal_points_into_the_whole_text(sql: str) -> None:
    with pytest.raises(SqlRefusal) as refused:
        asyncio.run(statement_texts.classify_text(sql))
    assert refused.value.position == sql.index("SELEC 2") + 1


def test_a_name_has_four_parts() -> None:
    with pytest.raises(SqlRefusal, match="SET needs a setting"):
        classify_statement(split_text("SET a.b.c.d.e = 1")[0])


def test_a_long_text_is_split_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def record_thread(text: StatementText) -> statements.Statement:
        threads.append(threading.current_thread())
        return classify_statement(text)

    monkeypatch.setattr(statement_texts, "classify_statement", record_thread)
    for sql in ("SELECT 1", "SELECT 1" + " " * 10_000):
        asyncio.run(statement_texts.classify_text(sql))
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


def test_messages_that_arrived_together_leave_room_for_others() -> None:
    """A client that sends many messages at once does not keep the event loop until the last of them."""
    handled: list[int] = []

    async def converse() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data((b"H" + struct.pack("!i", 4)) * 50)
        reader.feed_eof()
        writer = SimpleNamespace(transport=SimpleNamespace(abort=reader.feed_eof))
        connection = ClientConnection(reader, cast(asyncio.StreamWriter, writer), lambda: asyncio.sleep(0))
        server = PostgresServer(cast(Any, None), cast(Any, None), lambda: asyncio.sleep(0))
        waiting = asyncio.create_task(other())
        with suppress(ConnectionEnded):
            await server._handle_messages(cast(Any, SimpleNamespace(connection=connection)), cast(Any, Session()))
        waiting.cancel()

    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(len(handled))
            await asyncio.sleep(0)

    class Session:
        async def handle_frame(self, *_: object) -> Reply:
            handled.append(1)
            return Reply.LATER

    asyncio.run(converse())
    assert len(handled) == 50
    assert max(np.diff([*turns, 50])) == MESSAGES_PER_TURN
