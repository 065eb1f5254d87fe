"""When a statement spends and when not, what a session keeps, and what each error says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from server.postgres.raw_client import (
    SYNC,
    bind,
    describe,
    errors_in,
    execute,
    fields_of,
    kinds_in,
    parse,
    query,
    raw_connection,
    rows_in,
    signed_in,
)
from server.postgres.wire_server import WireServer, wire_server
from sfumato.cli import main
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.postgres.statement_texts import MAX_RULES, RefusalCounts

_SERIAL = iter(range(10**9))


def fresh_question() -> str:
    """Return a question that nobody has asked."""
    return f"SELECT region, COUNT(*) AS n FROM visits WHERE cost < {next(_SERIAL) / 7 + 1:.4f} GROUP BY region"


def error_of(messages: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return next(fields_of(each) for each in messages if each[0] == b"E")


def test_a_question_without_a_price_spends_nothing_and_says_how_to_set_one(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire) as client:
        told = error_of(client.ask(query("SELECT COUNT(*) FROM visits")))
    assert told["C"] == "22023"
    assert "SET sfumato.epsilon" in told["H"]
    assert wire.charges() == before


def test_describing_never_spends(wire: WireServer) -> None:
    """100 statements are parsed, described, bound and described again, with a price set; none is executed."""
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01", sfumato__ranges="on") as client:
        for number in range(100):
            sql = fresh_question()
            messages = client.ask(parse(sql) + describe("S") + bind() + describe("P") + SYNC)
            assert kinds_in(messages) == b"1tT2TZ", number
            assert b"n_low\0" in messages[2][1]
    assert wire.charges() == before


def test_fifty_syncs_of_dashboards_spend_nothing(wire: WireServer) -> None:
    """What Superset, Metabase, Power BI and DBeaver send when they connect and list tables, with a price set; and what
    they scan by themselves, without one.
    """
    captured = map(json.loads, CAPTURED.read_text().splitlines())
    sent = [each["sql"] for each in captured if each["client"] in DASHBOARDS and not each["parameters"]]
    before, answered = wire.charges(), 0
    for number in range(50):
        with signed_in(wire, sfumato__epsilon="0.01") as client:
            answered += errors_in(client.ask(query(sent[number % len(sent)]))) == []
            assert errors_in(client.ask(query(f"SELECT * FROM visits LIMIT {number + 1}"))) == ["0A000"]
    with signed_in(wire) as client:
        for scan in SCANS:
            assert errors_in(client.ask(query(scan))) in (["22023"], ["0A000"]), scan
    assert len(sent) > 20
    assert answered > 30  # the others name tables of the policy for which they were captured
    assert wire.charges() == before


DASHBOARDS = ("superset", "metabase", "powerbi", "dbeaver")
CAPTURED = Path(__file__).parent / "catalog" / "statements.jsonl"
SCANS = (
    "SELECT * FROM visits",
    'SELECT "public"."visits"."age" FROM "public"."visits" LIMIT 10000',
    "SELECT MIN(age), MAX(age) FROM visits",
    "SELECT age FROM visits GROUP BY age ORDER BY age LIMIT 5000",
    "SELECT COUNT(*) FROM visits",
)


def test_a_portal_spends_once_however_often_it_is_executed(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01", sfumato__fresh="on") as client:
        client.ask(query("BEGIN"))
        sent = parse(fresh_question()) + bind("p") + execute("p", 1) + execute("p", 1) + execute("p", 5) + execute("p")
        messages = client.ask(sent + SYNC)
        assert kinds_in([each for each in messages if each[0] != b"N"]) == b"12DsDsCCZ"
        assert [row[0] for row in rows_in(messages)] == [b"north", b"south"]
    assert wire.charges() == before + 1


def test_two_questions_in_one_text_are_refused_before_either_is_asked(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01") as client:
        told = error_of(client.ask(query(f"BEGIN; {fresh_question()}; {fresh_question()}")))
        assert told["C"] == "0A000"
        assert wire.charges() == before
        messages = client.ask(query(f"SET application_name = 'x'; {fresh_question()}; SELECT 1;;"))
        assert errors_in(messages) == []
    assert wire.charges() == before + 1


def test_two_cursors_fetched_in_one_text_are_refused_before_either_is_asked(wire: WireServer) -> None:
    """A cursor that was asked before is no question, nor is the second fetch of one."""
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01") as client:
        client.ask(query(f"BEGIN; DECLARE a CURSOR WITH HOLD FOR {fresh_question()}"))
        client.ask(query(f"DECLARE b CURSOR WITH HOLD FOR {fresh_question()}; COMMIT"))
        for text in (
            "FETCH 1 FROM a; FETCH 1 FROM b",
            "MOVE 1 FROM a; FETCH 1 FROM b",
            f"FETCH 1 FROM a; {fresh_question()}",
            f"FETCH 1 FROM a; CLOSE a; DECLARE a CURSOR WITH HOLD FOR {fresh_question()}",
            f"CLOSE a; DECLARE a CURSOR WITH HOLD FOR {fresh_question()}; FETCH 1 FROM b",
        ):
            told = error_of(client.ask(query(text)))
            assert (told["C"], told["M"]) == ("0A000", "one query string contains more than one question")
        assert wire.charges() == before
        assert errors_in(client.ask(query("FETCH 1 FROM a; FETCH 1 FROM a"))) == []
        assert errors_in(client.ask(query("FETCH 1 FROM a; FETCH 1 FROM b"))) == []
    assert wire.charges() == before + 2


def test_a_price_stays_with_its_connection_and_its_transaction(wire: WireServer) -> None:
    with signed_in(wire) as first, signed_in(wire) as second:
        first.ask(query("BEGIN; SET sfumato.epsilon = '0.01'"))
        assert errors_in(second.ask(query(fresh_question()))) == ["22023"]
        assert rows_in(first.ask(query("SHOW sfumato.epsilon"))) == [[b"0.01"]]
        first.ask(query("ROLLBACK"))
        assert rows_in(first.ask(query("SHOW sfumato.epsilon"))) == [[b""]]
        assert errors_in(first.ask(query(fresh_question()))) == ["22023"]
        first.ask(query("BEGIN; SET LOCAL sfumato.epsilon = '0.01'; COMMIT"))
        assert errors_in(first.ask(query(fresh_question()))) == ["22023"]
        first.ask(query("SET sfumato.epsilon = '0.01'; DISCARD ALL"))
        assert errors_in(first.ask(query(fresh_question()))) == ["22023"]
    with signed_in(wire) as third:
        assert errors_in(third.ask(query(fresh_question()))) == ["22023"]


def test_rolling_back_refunds_nothing_and_says_so(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01") as client:
        client.ask(query("BEGIN"))
        client.ask(query(fresh_question()))
        notices = [fields_of(each)["M"] for each in client.ask(query("ROLLBACK")) if each[0] == b"N"]
        assert notices == ["questions asked in this transaction stay charged: their answers have been released"]
        assert kinds_in(client.ask(query("BEGIN; ROLLBACK"))) == b"CCZ"
    assert wire.charges() == before + 1


def test_a_stored_answer_is_free_and_the_notice_is_the_receipt(wire: WireServer) -> None:
    question = fresh_question()
    with signed_in(wire, sfumato__epsilon="0.01") as client, signed_in(wire, "ben", sfumato__epsilon="0.01") as other:
        bought = client.ask(query(question))
        before = wire.charges()
        again, others = client.ask(query(question)), other.ask(query(question))
    assert wire.charges() == before
    assert rows_in(bought) == rows_in(again) == rows_in(others)
    lines = next(fields_of(each)["M"].splitlines() for each in bought if each[0] == b"N")
    assert [line.split("  ")[0] for line in lines] == ["protects", "this answer", "the account"]
    assert lines[1] == "this answer  ε = 0.01"
    told = [fields_of(each)["M"] for each in others if each[0] == b"N"]
    assert "bought before: free" in told[0]
    assert "ana" not in "".join(told)


def test_a_comment_prices_one_statement(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire) as client:
        assert errors_in(client.ask(query(f"/* sfumato epsilon=0.01 */ {fresh_question()}"))) == []
        assert errors_in(client.ask(query(f"/* sfumato within='n=900' */ {fresh_question()}"))) == []
        assert errors_in(client.ask(query(f"COPY (/* sfumato epsilon=0.01 */ {fresh_question()}) TO STDOUT"))) == []
        assert errors_in(client.ask(query(f"COPY (/* sfumato epsilom=1 */ {fresh_question()}) TO STDOUT"))) == ["42704"]
        assert errors_in(client.ask(query(fresh_question()))) == ["22023"]
        assert errors_in(client.ask(query(f"/* sfumato epsilom=0.01 */ {fresh_question()}"))) == ["42704"]
        assert errors_in(client.ask(query(f"/* sfumato epsilon=-1 */ {fresh_question()}"))) == ["22023"]
    assert wire.charges() == before + 3


def test_a_connection_can_cap_what_it_spends(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01", sfumato__most="0.025") as client:
        kept = fresh_question()
        assert [errors_in(client.ask(query(each))) for each in (kept, fresh_question())] == [[], []]
        told = error_of(client.ask(query(fresh_question())))
        assert (told["C"], "sfumato.most" in told["D"]) == ("53400", True)
        assert errors_in(client.ask(query(kept))) == []
    assert wire.charges() == before + 2


def test_a_token_can_have_its_own_price(wire: WireServer) -> None:
    """For tools that can set nothing: the owner's price is the connection's, and RESET returns to it."""
    _, secret = wire.counter.people.new_token("ana", price="epsilon=0.01 confidence=0.9", by="tests")
    before = wire.charges()
    with raw_connection(wire) as client:
        assert client.sign_in("ana", secret)[-1][0] == b"Z"
        assert errors_in(client.ask(query(fresh_question()))) == []
        client.ask(query("SET sfumato.epsilon = '5'; DISCARD ALL"))
        assert rows_in(client.ask(query("SHOW sfumato.epsilon"))) == [[b"0.01"]]
    assert wire.charges() == before + 1


@pytest.mark.parametrize("price", ["epsilon=much", "confidence=0.9", "epsilon", "price=1", "epsilon=1 'x"])
def test_a_token_is_not_made_with_a_price_that_no_question_could_have(tmp_path: Path, price: str) -> None:
    with closing(PeopleFile(tmp_path / "sfumato.ledger.people")) as people:
        people.add_user("ana", "analyst", by="tests")
    (tmp_path / "sfumato.ledger").touch()
    arguments = ["token", "new", "ana", "--price", price, "--ledger", str(tmp_path / "sfumato.ledger")]
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 2
    assert "price" in told.output


def test_explaining_is_free_and_analyzing_is_refused(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.1") as client:
        explained = b"\n".join(row[0] or b"" for row in rows_in(client.ask(query(f"EXPLAIN {fresh_question()}"))))
        assert b"Laplace" in explained
        assert "n ±".encode() in explained
        for refused in ("ANALYZE", "(ANALYZE, BUFFERS)", "(FORMAT JSON)"):
            assert errors_in(client.ask(query(f"EXPLAIN {refused} {fresh_question()}"))) == ["0A000"]
    assert wire.charges() == before


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("INSERT INTO visits VALUES (1)", "25006"),
        ("COPY visits FROM STDIN", "25006"),
        ("COPY (SELECT COUNT(*) FROM visits) TO '/etc/passwd'", "42501"),
        ("SELECT * FROM visits", "0A000"),
        ("SELECT age FROM visits LIMIT 10", "0A000"),
        ("SELECT COUNT(*) FROM nobody", "42P01"),
        ("SELECT SUM(nothing) FROM visits", "42703"),
        ("SELEC 1", "42601"),
        ("SELECT 'open", "42601"),
        ("SELECT COUNT(*) FROM visits WHERE", "42601"),
        ("SET sfumato.epsilon = 'much'", "22023"),
        ("SET sfumato.confidence = 2", "22023"),
        ("SET sfumato.delta = 1", "22023"),
        ("SET sfumato.delta = 'defaults'", "22023"),
        ("SET sfumato.fresh = maybe", "22023"),
        ("SET sfumato.within = 'n=,=3'", "22023"),
        ("SET sfumato.price = '1'", "42704"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SHOW nothing", "42704"),
        ("SELECT * FROM sfumato.budget WHERE left > 1", "0A000"),
        ("SELECT * FROM sfumato.secrets", "42P01"),
        ("FETCH 1 FROM nowhere", "34000"),
        ("DECLARE c CURSOR FOR SELECT COUNT(*) FROM visits", "25P01"),
        ("SAVEPOINT a", "25P01"),
        ("PREPARE p AS SELECT 1", "0A000"),
        ("SET ROLE olga", "42501"),
        ("SELECT COUNT(*) FROM visits " + "-- x\n" * 20_000, "54000"),
    ],
)
def test_what_is_refused_has_a_code_a_fix_and_no_price(wire: WireServer, sql: str, code: str) -> None:
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01") as client:
        messages = client.ask(query(sql))
        told = error_of(messages)
        assert told["C"] == code
        assert told["M"]
        assert told["H"]
        assert rows_in(client.ask(query("SELECT 1"))) == [[b"1"]]
    assert wire.charges() == before


def test_a_refused_confidence_shows_the_default_one(wire: WireServer) -> None:
    with signed_in(wire) as client:
        refused = error_of(client.ask(query("SET sfumato.confidence = 2")))
        assert refused["H"] == f"Write SET sfumato.confidence = '{DEFAULT_CONFIDENCE}'."


def test_a_quoted_word_accepts_the_offered_delta_and_the_keyword_resets(wire: WireServer) -> None:
    with signed_in(wire) as client:
        assert errors_in(client.ask(query("SET sfumato.delta = 'default'"))) == []
        assert rows_in(client.ask(query("SHOW sfumato.delta"))) == [[b"default"]]
        assert errors_in(client.ask(query("SET sfumato.delta TO DEFAULT"))) == []
        assert rows_in(client.ask(query("SHOW sfumato.delta"))) == [[b""]]


def test_the_position_of_a_refusal_is_in_the_clients_own_text(wire: WireServer) -> None:
    sql = "SELECT 1; /* sfumato epsilon=1 */\n  SELECT COUNT(*) FROM visits WHERE nothing > 1"
    with signed_in(wire) as client:
        told = error_of(client.ask(query(sql)))
    assert sql[int(told["P"]) - 1 :].startswith("nothing")


def test_a_failed_transaction_ignores_everything_but_its_end(wire: WireServer) -> None:
    with signed_in(wire, sfumato__epsilon="0.01") as client:
        assert client.ask(query("BEGIN; SELECT nothing()"))[-1][1] == b"E"
        assert errors_in(client.ask(query("SELECT 1"))) == ["25P02"]
        assert client.ask(query("COMMIT"))[0][1] == b"ROLLBACK\0"
        client.ask(query("BEGIN; SAVEPOINT a; SELECT nothing()"))
        assert client.ask(query("ROLLBACK TO a"))[-1][1] == b"T"
        assert errors_in(client.ask(query("SELECT 1; COMMIT"))) == []


def test_cursors_ask_at_the_first_fetch_and_only_then(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire, sfumato__epsilon="0.01", sfumato__fresh="on") as client:
        client.ask(query(f"BEGIN; DECLARE c CURSOR FOR {fresh_question()}"))
        assert kinds_in(client.ask(describe("P", "c") + SYNC)) == b"TZ"
        assert wire.charges() == before
        first = client.ask(query("FETCH FORWARD 1 FROM c"))
        rest = client.ask(query("FETCH ALL FROM c"))
        assert [row[0] for row in rows_in(first) + rows_in(rest)] == [b"north", b"south"]
        assert errors_in(client.ask(query("FETCH BACKWARD 1 FROM c"))) == ["0A000"]
        client.ask(query("ROLLBACK"))
        assert errors_in(client.ask(query("FETCH 1 FROM c"))) == ["34000"]
    assert wire.charges() == before + 1


def test_settings_of_the_session_are_told_when_they_change(wire: WireServer) -> None:
    with signed_in(wire) as client:
        messages = client.ask(query("SET TIME ZONE 'UTC'; SET application_name TO 'tile'; SHOW application_name"))
        told = [body.split(b"\0")[:2] for kind, body in messages if kind == b"S"]
        assert told == [[b"TimeZone", b"UTC"], [b"application_name", b"tile"]]
        assert rows_in(messages) == [[b"tile"]]
        assert len(rows_in(client.ask(query("SHOW ALL")))) > 20


def test_budget_history_and_columns_are_free_tables(wire: WireServer) -> None:
    before = wire.charges()
    with signed_in(wire) as client, signed_in(wire, "ben", sfumato__epsilon="0.01") as other:
        asked = fresh_question()
        other.ask(query(asked))
        own = rows_in(client.ask(query("SELECT question FROM sfumato.history")))
        assert asked.encode() not in [row[0] for row in own]
        assert [asked.encode()] in rows_in(other.ask(query("SELECT question FROM sfumato.history")))
        currencies = rows_in(client.ask(query('SELECT currency, "left" FROM "clinic"."sfumato".budget LIMIT 1')))
        assert currencies[0][0] == b"pure"
        assert [b"visits", b"age"] in rows_in(client.ask(query("SELECT table_name, column_name FROM sfumato.columns")))
    assert wire.charges() == before + 1


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ('SELECT sfumato.budget.period, sfumato.budget."left" \nFROM sfumato.budget', "period left"),
        ('SELECT "b"."currency" AS "Currency", b.spent paid FROM "sfumato"."budget" AS "b" LIMIT 2', "Currency paid"),
        ("SELECT budget.*, period FROM sfumato.budget LIMIT 1", "period currency allowed spent left period"),
        ("TABLE sfumato.budget", "period currency allowed spent left"),
        ("SELECT nothing.period FROM sfumato.budget", ""),
        ("SELECT period + 1 FROM sfumato.budget", ""),
        ("SELECT * period FROM sfumato.budget", ""),
        ("SELECT . * FROM sfumato.budget", ""),
        ("SELECT period, FROM sfumato.budget", ""),
        ("SELECT COUNT(*) FROM sfumato.budget", ""),
        ("SELECT period FROM sfumato.budget AS b, visits", ""),
    ],
)
def test_columns_of_the_free_tables_may_be_qualified_and_renamed(wire: WireServer, sql: str, names: str) -> None:
    """As SQLAlchemy and Metabase write them; what is more than that is refused, never guessed."""
    with signed_in(wire) as client:
        messages = client.ask(parse(sql) + bind() + describe("P") + execute() + SYNC)
        described = [body for kind, body in messages if kind == b"T"]
        if names:
            assert errors_in(messages) == []
            assert [name for name in names.split() if name.encode() + b"\0" not in described[0]] == []
            assert {len(row) for row in rows_in(messages)} == {len(names.split())}
        else:
            assert errors_in(messages) == ["0A000"]


def test_receipts_are_a_free_table_of_one_s_own_answers(wire: WireServer) -> None:
    with signed_in(wire, sfumato__epsilon="0.01") as client, signed_in(wire, "ben") as other:
        asked = fresh_question()
        bought = client.ask(query(asked))
        told = next(fields_of(each)["M"] for each in bought if each[0] == b"N")
        before = wire.charges()
        question, cost, receipt = rows_in(client.ask(query("SELECT question, cost, receipt FROM sfumato.receipts")))[0]
        assert (question, cost) == (asked.encode(), "ε = 0.01".encode())
        assert receipt is not None
        assert receipt.decode().splitlines()[0] == told.splitlines()[0]
        others = other.ask(query("SELECT question FROM sfumato.receipts"))
        assert errors_in(others) == []
        assert [asked.encode()] not in rows_in(others)
    assert wire.charges() == before


def test_what_is_not_known_is_counted_for_its_user_and_the_owner(wire: WireServer) -> None:
    """Whatever is 0A000: of questions, of the catalog and of the session; nothing else, and nobody else's."""
    people = wire.counter.people
    name = f"curious-{next(_SERIAL)}"
    people.add_user(name, "owner", by="tests")
    asked = ("SELECT * FROM visits", "SELECT pg_sleep(1) FROM pg_class", "PREPARE p AS SELECT 1")
    with raw_connection(wire) as client, signed_in(wire) as other:
        client.sign_in(name, people.new_token(name, by="tests")[1])
        for _ in range(2):
            for sql in asked:
                assert errors_in(client.ask(query(sql))) == ["0A000"]
        assert errors_in(client.ask(query("SELEC 1"))) == ["42601"]
        rows = rows_in(client.ask(query("SELECT user_name, count, rule FROM sfumato.refusals")))
        own = {rule: count for user, count, rule in rows if user == name.encode()}
        assert sorted(own.values()) == [b"2"] * 3  # type: ignore[type-var]
        assert any(b"pg_sleep" in (rule or b"") for rule in own)
        other.ask(query("SELECT * FROM visits"))
        others = rows_in(other.ask(query("SELECT user_name FROM sfumato.refusals")))
        assert {row[0] for row in others} == {b"ana"}


def test_refusals_are_counted_within_bounds() -> None:
    counts = RefusalCounts()
    for number in range(2 * MAX_RULES):
        counts.count("ana", f"rule {number}")
        counts.count(f"user {number}", "rule")
    assert len(counts.rows("ana")) == MAX_RULES
    assert len(counts.rows(None)) == 2 * MAX_RULES - 1


def test_nobody_asks_who_may_not(wire: WireServer) -> None:
    with signed_in(wire, "otto", sfumato__epsilon="0.01") as auditor:
        assert errors_in(auditor.ask(query(fresh_question()))) == ["42501"]
        assert rows_in(auditor.ask(query("SELECT kind FROM sfumato.history LIMIT 1")))


@pytest.mark.parametrize("process", ["this", "another"])
def test_a_revoked_token_ends_what_it_opened(wire: WireServer, process: str) -> None:
    """At once, whichever process revokes it: a connection to the same file stands for another process."""
    token, secret = wire.counter.people.new_token("ana", by="tests")
    others = PeopleFile(wire.counter.people.database.path)
    with raw_connection(wire) as client, closing(others):
        client.sign_in("ana", secret)
        for _ in range(3):
            assert errors_in(client.ask(query("SELECT 1"))) == []
        (wire.counter.people if process == "this" else others).revoke_token(token.number, by="tests")
        assert errors_in(client.ask(query("SELECT 1"))) == ["28000"]
        assert errors_in(client.ask(query("SELECT * FROM sfumato.budget"))) == ["28000"]


@pytest.mark.parametrize(
    "sent",
    [
        query("SHOW timezone"),
        query("SET application_name = 'x'"),
        query("BEGIN"),
        query(""),
        query("SELECT relname FROM pg_class LIMIT 1"),
        parse("SELECT 1") + SYNC,
        parse("SHOW timezone") + SYNC,
        describe("S", "before") + SYNC,
        bind("", "before") + execute() + SYNC,
    ],
)
def test_who_was_disabled_since_learns_nothing_more(wire: WireServer, sent: bytes) -> None:
    people = wire.counter.people
    name = f"gone-{next(_SERIAL)}"
    people.add_user(name, "owner", by="tests")
    with raw_connection(wire) as client:
        client.sign_in(name, people.new_token(name, by="tests")[1])
        assert errors_in(client.ask(parse("SHOW timezone", "before") + SYNC + sent)) == []
        client.read_until(b"Z")
        people.set_disabled(name, True, by="tests")
        messages = client.ask(sent)
        assert errors_in(messages) == ["28000"]
        assert kinds_in(messages) == b"EZ"


def test_an_unforeseen_failure_is_one_fixed_text(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own text could quote a row: neither the client nor the operator sees it."""

    def fail(*_: object) -> None:
        raise RuntimeError("row 42 of patient Smith")

    with signed_in(wire, sfumato__epsilon="0.01") as client:
        monkeypatch.setattr("sfumato.server.gateway.delay_doublings", fail)
        told = error_of(client.ask(query(fresh_question())))
        monkeypatch.undo()
        assert rows_in(client.ask(query("SELECT 1"))) == [[b"1"]]
    assert told == {
        "S": "ERROR", "V": "ERROR", "C": "XX000", "M": "the server could not finish this request", "D": "the server",
        "H": "Ask again: if the question was charged, its stored answer is free.",
    }  # fmt: skip


def run_at_once(count: int, work: Callable[[int], list[str]]) -> list[list[str]]:
    barrier = threading.Barrier(count)

    def start(number: int) -> list[str]:
        barrier.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def test_many_connections_spend_exactly_what_there_is(tmp_path: Path, long: bool) -> None:
    """A share of ε = 1 pays for ⌊1 / 0.3⌋ = 3 of many different questions asked at once, and once for equal ones; there
    are three for each that is released at once, or in the long run eight.
    """
    many = 64 if long else 24
    with wire_server(tmp_path, epsilon="2", answer_after=0.001, releases_at_once=8, queue=256) as wire:

        def ask(number: int) -> list[str]:
            with signed_in(wire, sfumato__epsilon="0.3") as client:
                return errors_in(client.ask(query(f"SELECT COUNT(*) AS n FROM visits WHERE cost < {number + 1}.5")))

        assert sorted(run_at_once(many, ask)) == [[]] * 3 + [["53400"]] * (many - 3)
        assert wire.charges() == 3

        def ask_same(_: int) -> list[str]:
            with signed_in(wire, "ben", sfumato__epsilon="0.3") as client:
                return errors_in(client.ask(query("SELECT COUNT(*) AS n FROM visits WHERE age < 50")))

        assert run_at_once(8, ask_same) == [[]] * 8
        assert wire.charges() == 4


def test_the_published_database_answers_from_what_was_bought_for_nothing(tmp_path: Path) -> None:
    with wire_server(tmp_path) as wire:
        question = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
        with signed_in(wire, database="clinic_published") as client:
            told = error_of(client.ask(query(question)))
            assert told["C"] == "0A000"
            assert told["H"]
        wire.counter.served.curator("clinic").marginals("visits", [["region"]]).release(epsilon=1)
        before = wire.charges()
        with signed_in(wire, database="clinic_published", sfumato__epsilon="1") as client:
            for _ in range(3):
                messages = client.ask(parse(question) + bind() + describe("P") + execute() + SYNC)
                assert errors_in(messages) == []
                (description,) = (body for kind, body in messages if kind == b"T")
                assert b"n_low\0" in description
                assert [len(row) for row in rows_in(messages)] == [4, 4]
        assert wire.charges() == before
