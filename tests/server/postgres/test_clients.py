"""Real clients, each in its own way: psql, psycopg, asyncpg and pg8000. A missing one is skipped aloud."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import os
import pty
import select
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from server.postgres.raw_client import errors_in, fields_of, query, raw_connection, rows_in, signed_in
from server.postgres.test_sessions import fresh_question
from server.postgres.wire_server import WireServer, psql_programs, wire_server
from server.running_server import NO_TLS

GROUPED = "SELECT region, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age > {} AND day >= {} GROUP BY region"
DAY = dt.date(2024, 2, 1)
needs_psql = pytest.mark.skipif(
    not shutil.which("psql"), reason="psql is NOT tested: apt-get install postgresql-client"
)


def client_library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is NOT tested: pip install {name}")


@needs_psql
def test_psql_asks_explains_and_copies(wire: WireServer, tmp_path: Path) -> None:
    target = tmp_path / "visits.csv"
    question = "SELECT region, COUNT(*) AS n FROM visits WHERE age < 90 GROUP BY region"
    shown = wire.psql(
        question,
        "SET sfumato.epsilon = '0.05'",
        f"EXPLAIN {question}",
        f"\\copy ({question}) TO '{target}' WITH (FORMAT csv, HEADER)",
        question,
        "SELECT nothing(1)",
        "\\conninfo",
    )
    assert "ERROR:  22023: this question has no price" in shown
    assert "NOTICE:  00000: protects" in shown
    assert "bought before: free" in shown
    assert "LINE 1: SELECT nothing(1)\n               ^" in shown
    header, *rows = target.read_text().splitlines()
    assert header == "region,n"
    assert all(row.replace(",", "|") in shown for row in rows)
    assert [row.partition(",")[0] for row in rows] == ["north", "south"]


@needs_psql
@pytest.mark.parametrize("program", psql_programs())
def test_psql_describes_tables_for_nothing(wire: WireServer, program: str) -> None:
    before = wire.charges()
    shown = wire.psql(
        "\\d visits", "\\dt+", "\\l", "\\dn", "\\du", "\\df", "SELECT * FROM clinic.public.visits", program=program
    )
    assert "day|date" in shown
    assert "public|visits|table" in shown
    assert "ERROR" not in shown.partition("0A000")[0].rpartition("\n")[0]
    assert "ERROR:  0A000: " in shown  # rows are never shown
    assert wire.charges() == before


@needs_psql
@pytest.mark.parametrize("program", psql_programs())
def test_psql_describes_a_result_and_repeats_a_statement(wire: WireServer, tmp_path: Path, program: str) -> None:
    """\\gdesc asks for columns alone; \\watch asks again, and is answered from the stored answer."""
    script = tmp_path / "script.sql"
    question = fresh_question()
    before = wire.charges()
    script.write_text(f"SET sfumato.epsilon = '0.05';\n{question} \\gdesc\n")
    described = wire.psql(f"\\i {script}", program=program)
    assert "region|text" in described
    assert "n|bigint" in described
    assert wire.charges() == before
    twice = f"{question} \\g\n{question} \\g\n" if program == "psql" else f"{question} \\watch i=0.01 c=2\n"
    script.write_text(f"SET sfumato.epsilon = '0.05';\nSET statement_timeout = 0;\n{twice}")
    assert wire.psql(f"\\i {script}", program=program).count("north|") == 2
    assert wire.charges() == before + 1


@needs_psql
def test_psql_completes_names_for_nothing(wire: WireServer) -> None:
    """The Tab key, pressed in a terminal."""
    before = wire.charges()
    address = f"host={wire.host} port={wire.port} user=ana dbname=clinic"
    settings = {"PGPASSWORD": wire.tokens["ana"], "TERM": "dumb", "PSQLRC": "/dev/null"}
    terminal, child = pty.openpty()
    ran = subprocess.Popen(["psql", "-X", address], stdin=child, stdout=child, stderr=child, env=os.environ | settings)
    try:
        os.close(child)
        read_until(terminal, b"clinic=> ")
        os.write(terminal, b"SELECT COUNT(*) FROM vis\t")
        read_until(terminal, b"FROM visits ")
        os.write(terminal, b"WHERE reg\t")
        read_until(terminal, b"WHERE region ")
    finally:
        ran.kill()
        ran.wait()
        os.close(terminal)
    assert wire.charges() == before


def read_until(terminal: int, text: bytes) -> None:
    shown = b""
    while text not in shown:
        assert select.select([terminal], [], [], 60)[0], shown
        shown += os.read(terminal, 4096)


@needs_psql
def test_psql_on_a_socket_file(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with wire_server(tmp_path, at=f"unix:{tmp_path}/s/.s.PGSQL.5432") as served:
        served.host = str(tmp_path / "s")
        assert "1\n(1 row)" in served.psql("SELECT 1")


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_in_text_and_in_binary(wire: WireServer, binary: bool) -> None:
    psycopg = client_library("psycopg")
    with psycopg.connect(**wire.keywords(), options="-c sfumato.epsilon=0.05 -c sfumato.ranges=on") as connection:
        cursor = connection.cursor(binary=binary)
        cursor.execute(GROUPED.format("%s", "%s"), (17, DAY))
        assert [column.name for column in cursor.description] == [
            "region", "n", "cost", "n_low", "n_high", "cost_low", "cost_high",
        ]  # fmt: skip
        rows = cursor.fetchall()
        before = wire.charges()
        same = connection.cursor().execute(GROUPED.format(17, "DATE '2024-02-01'")).fetchall()
        assert rows == same
        assert wire.charges() == before
        assert all(low < n < high for _, n, _, low, high, *_ in rows)
        assert [type(cell) for cell in rows[0][:3]] == [str, int, float]


def test_psycopg_with_named_cursors_pipelines_and_copy(wire: WireServer) -> None:
    psycopg = client_library("psycopg")
    question = fresh_question()
    with psycopg.connect(**wire.keywords(), options="-c sfumato.epsilon=0.05") as connection:
        with connection.cursor("dashboard") as cursor:
            cursor.execute(question)
            rows = [*cursor.fetchmany(1), *cursor.fetchall()]
        for form in ("text", "binary"):
            with connection.cursor().copy(f"COPY ({question}) TO STDOUT (FORMAT {form})") as copy:
                copy.set_types(["text", "int8"])
                assert list(copy.rows()) == rows
        with connection.pipeline():
            cursors = [connection.execute(question) for _ in range(3)]
            assert [each.fetchall() for each in cursors] == [rows] * 3
        with pytest.raises(psycopg.errors.FeatureNotSupported) as told:
            connection.execute("SELECT * FROM visits")
        assert told.value.diag.message_hint
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR


def test_asyncpg_describes_statements_first_and_sends_settings_at_the_start(wire: WireServer) -> None:
    asyncpg = client_library("asyncpg")
    keywords = wire.keywords()
    keywords["database"] = keywords.pop("dbname")

    async def ask() -> tuple[list[Any], list[Any], bytes]:
        connection = await asyncpg.connect(**keywords, server_settings={"sfumato.epsilon": "0.05"})
        rows = await connection.fetch(GROUPED.format("$1", "$2"), 17, DAY)
        text_rows = await connection.fetch("SELECT COUNT(*) AS n FROM visits WHERE region IN ($1, $2)", "north", "east")
        assert isinstance(text_rows[0]["n"], int)
        async with connection.transaction():
            streamed = [row async for row in connection.cursor(GROUPED.format("$1", "$2"), 17, DAY, prefetch=1)]
        copied = io.BytesIO()
        await connection.copy_from_query(GROUPED.format(17, "DATE '2024-02-01'"), output=copied, format="csv")
        await connection.reset()
        assert await connection.fetchval("SHOW application_name") == ""
        await connection.close()
        return rows, streamed, copied.getvalue()

    rows, streamed, copied = asyncio.run(ask())
    assert rows == streamed
    assert [line.split(b",")[1] for line in copied.splitlines()] == [str(row["n"]).encode() for row in rows]


def test_pg8000_with_parameters(wire: WireServer) -> None:
    client_library("pg8000")
    from pg8000.dbapi import connect

    keywords = wire.keywords()
    keywords["database"] = keywords.pop("dbname")
    connection = connect(**keywords)
    cursor = connection.cursor()
    cursor.execute("SET sfumato.epsilon = '0.05'")
    cursor.execute(GROUPED.format("%s", "%s"), (17, DAY))
    assert [row[0] for row in cursor.fetchall()] == ["north", "south"]
    connection.rollback()
    connection.close()


@pytest.fixture(scope="module")
def slow_wire(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server that answers three seconds after the charge: long enough to cancel."""
    with wire_server(tmp_path_factory.mktemp("slow"), answer_after=3.0, releases_at_once=1) as found:
        yield found


def cancel(server: WireServer, key: bytes) -> None:
    """Send a cancel request, as drivers do, on a connection of its own."""
    with raw_connection(server) as client:
        client.send(struct.pack("!ii", len(key) + 8, 80877102) + key)
        assert client.connection.recv(10) == b""


def test_a_cancelled_statement_is_told_and_stored_if_it_was_charged(slow_wire: WireServer) -> None:
    """The first is charged and then cancelled: its answer is stored, so asking again is free. The second waits for its
    turn and is cancelled before it: it is never charged.
    """
    first, second = fresh_question(), fresh_question()
    with raw_connection(slow_wire) as one, raw_connection(slow_wire) as two:
        keys = {}
        for client in (one, two):
            messages = client.sign_in("ana", slow_wire.tokens["ana"], sfumato__epsilon="0.05")
            (keys[id(client)],) = (body for kind, body in messages if kind == b"K")
        one.send(query(first))
        wait_until(lambda: slow_wire.charges() == 1)
        two.send(query(second))
        wait_until(lambda: slow_wire.counter._flights._turns._waiting == 1)
        cancel(slow_wire, keys[id(one)][:4] + keys[id(two)][4:])  # a wrong key does nothing
        for client in (two, one):
            cancel(slow_wire, keys[id(client)])
            assert errors_in(client.read_until(b"Z")) == ["57014"]
        assert errors_in(one.ask(query(first))) == []
        turns = slow_wire.counter._flights._turns
        wait_until(lambda: not turns._waiting and not turns._running)  # the second has had its turn
    assert slow_wire.charges() == 1


def wait_until(holds: Any) -> None:
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < 60
        time.sleep(0.01)


def test_the_same_question_by_wire_rest_and_python_is_one_answer(wire: WireServer) -> None:
    """What one has bought, the others get for nothing: one account, one store, one price."""
    import httpx

    question = fresh_question()
    port = wire.server.servers[0].sockets[0].getsockname()[1]
    headers = {"Authorization": f"Bearer {wire.tokens['ana']}", "Idempotency-Key": "by-rest"}
    sent = {"kind": "questions", "spec": {"sql": question}, "price": {"epsilon": "0.05"}}
    url = f"http://127.0.0.1:{port}/v1/policies/clinic/releases"
    bought = httpx.post(url, headers=headers, json=sent, timeout=60, verify=NO_TLS).json()
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.05") as client:
        messages = client.ask(query(question))
    shown = [[cell.decode() if cell else None for cell in row] for row in rows_in(messages)]
    assert shown == [[str(cell) for cell in row] for row in bought["result"]["rows"]]
    assert wire.charges() == before
    receipt = next(fields_of(each)["M"] for each in messages if each[0] == b"N")
    assert "bought before: free" in receipt
    here = wire.counter.served.curator("clinic").as_analyst("ana").sql(question).release(epsilon="0.05")
    assert here.receipt.free
    assert [[str(cell) for cell in row] for row in here.rows] == shown
    assert wire.charges() == before
