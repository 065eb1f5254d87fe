"""A ledger in PostgreSQL: the same lines as in a file, rights, refusals, tampering, and moving house."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sfumato as sf
from ledger.in_databases import SPENDER, Place
from ledger.small_accounts import BEHIND, NEVER_AGAIN, account, pure, script
from ledger.test_chain import _make_busy
from postgres_server import PostgresServer
from sfumato.errors import WeakLedger
from sfumato.ledger.moving import copy_ledger
from sfumato.ledger.sealed_rows import COLUMNS, Row
from sfumato.ledger.stores import postgres_schema
from sfumato.ledger.stores.opening import make_ledger
from sfumato.ledger.stores.postgres_connections import PostgresSession, refusal_for_error
from sfumato.ledger.stores.server_addresses import ServerAddress
from sfumato.ledger.transaction import Transaction
from sfumato.mechanisms import bits

pytestmark = pytest.mark.filterwarnings(BEHIND)

BIG = json.dumps(["é" * 50] * 2000, ensure_ascii=False)


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place.make(postgres)


@pytest.fixture
def busy(place: Place, tmp_path: Path) -> Place:
    """A ledger with a line of every kind, moved from a file."""
    _make_busy(tmp_path / "busy.db")
    copy_ledger(tmp_path / "busy.db", place.owner)
    return place


# ── the same lines ─────────────────────────────────────────────────────────────────────────────


def history(ledger: sf.Ledger, operations: int) -> list[str]:
    """Charges, refusals, answers, tabs, corrections and amendments in an order that a seed decides; how each ended."""
    generator, ended, lines, tabs = random.Random(11), [], [], []
    clinic = account(ledger, sf.Budget(3, "1e-6"))
    other = account(ledger, sf.Budget(1), "other")
    clinic.analyst("ana", share="0.4")

    def charge() -> None:
        name = generator.choice([None, "ana", "bob"])
        curve = generator.choice([sf.Curve.pure("0.02"), sf.Curve.gaussian(90), sf.Curve.pure("0.3")])
        lines.append(clinic.charge(sf.Entry(curve, f"q{turn}", f"p{turn % 9}", "v", name, f"r{turn}")))

    def ask() -> None:
        question = clinic.ask(pure("0.01", plan=f"p{turn % 9}", data="v", request_id=f"r{turn % 40}"), {"n": 1})
        if question.begin(0) is None:
            generator.choice([question.stop, lambda: clinic.answer(question.line, f"{turn}", {"n": 1})])()

    def answer() -> None:
        clinic.answer(lines.pop(), generator.choice(["1", BIG]), {"n": generator.randrange(1, 9)})

    def step() -> None:
        tab = generator.choice(tabs)
        generator.choice([lambda: tab.step(pure("0.01")), tab.stop, tab.forfeit])()

    menu: list[Callable[[], object]] = [charge, charge, ask, answer, step]
    menu += [lambda: tabs.append(clinic.open_tab(pure("0.05", analyst=generator.choice([None, "ana"]))))]
    menu += [lambda: other.charge(pure("0.01")), lambda: clinic.correct(sf.Curve.pure("0.001"), reason="later")]
    menu += [lambda: clinic.amend(epsilon=3 + Fraction(turn, 500), reason="agreed")]
    for turn in range(operations):  # noqa: B007 - the menu knows it
        try:
            generator.choice(menu)()
            ended.append("done")
        except (
            sf.Overspent,
            sf.TabClosed,
            sf.AlreadyAnswered,
            sf.Unanswered,
            IndexError,
            sf.InvalidParameter,
        ) as error:
            ended.append(type(error).__name__)
        except sf.RequestDiffers:
            ended.append("RequestDiffers")
    return ended


def test_one_history_gives_the_same_lines_and_hashes_on_both(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that is random, and the clock, is the same in both: then so is every line to its hash."""
    ended, lines = [], []
    for kind in ("SQLite", "PostgreSQL"):
        monkeypatch.setattr(bits, "random_bits", lambda _: 7)
        ledger = sf.Ledger.open(tmp_path / "a") if kind == "SQLite" else Place.make(postgres).open()
        salts, clock = random.Random(3), iter(range(10**15, 10**16))
        monkeypatch.setattr(bits, "random_bits", lambda size, salts=salts: salts.getrandbits(size))
        rows = type(_rows(ledger))
        monkeypatch.setattr(rows, "now", lambda _, clock=clock: next(clock))
        with ledger:
            ended.append(history(ledger, 500))
            assert ledger.verify().holds
            lines.append(list(ledger))
    assert ended[0] == ended[1]
    assert {"Overspent", "done", "AlreadyAnswered", "TabClosed"} <= set(ended[0]) | {"AlreadyAnswered"}
    assert len(lines[0]) > 300
    assert lines[0] == lines[1]


def _rows(ledger: sf.Ledger) -> object:
    with ledger._guarded.store.reading() as rows:
        return rows


def test_a_charge_takes_four_round_trips(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a share, an anchor, and another account in between; whatever is in the ledger."""
    trips = []
    with place.open() as ledger:
        account(ledger).charge(pure("0.01"))
    for name in ("run", "run_all", "send"):
        plain = getattr(PostgresSession, name)

        def counted(
            self: PostgresSession, *given: object, plain: Any = plain, name: str = name, **named: object
        ) -> object:
            trips.append(name)
            return plain(self, *given, **named)

        monkeypatch.setattr(PostgresSession, name, counted)
    with place.open() as ledger:
        clinic, other = account(ledger), account(ledger, name="other")
        clinic.analyst("ana", share="0.5")
        for _ in range(3):
            other.charge(pure("0.01"))
            trips.clear()
            clinic.charge(pure("0.01", analyst="ana"))
            assert len(trips) <= 4, trips


def test_every_way_of_finding_a_line_uses_an_index(place: Place) -> None:
    """Of twenty thousand lines no statement of a charge, a question or a tab reads more than a few."""
    with place.open() as ledger:
        clinic = account(ledger, sf.Budget(100, "1e-6"))
        account(ledger, name="other").charge(pure())
        cost = clinic.cost(sf.Curve.pure("1e-9"))
        with ledger._guarded.store.writing() as rows:
            transaction = Transaction(rows, ledger._guarded.keyed_hash.origin)
            for turn in range(20_000):
                columns = {"analyst": f"analyst {turn % 7}", "plan": f"{turn:x}", "data": "v"}
                transaction.append("charge", "clinic", columns, cost=cost)
        for analysed in (False, True):
            if analysed:
                place.edit("ANALYZE lines")
            for equal in (
                {"account": "other"},
                {"account": "clinic", "analyst": "analyst 3"},
                {"account": "clinic", "analyst": "nobody"},
                {"tab": 9},
                {"about": 9},
                {"kind": "answer", "account": "clinic", "plan": "7", "data": "v"},
                {"kind": "answer", "account": "clinic", "analyst": "ana", "request": "r"},
                {"kind": "account-open"},
                {"number": 77},
            ):
                assert _touched(ledger, equal) <= 20, (analysed, equal)


def _touched(ledger: sf.Ledger, equal: dict[str, str | int]) -> int:
    """How many rows a selection looks at, as the server counts them."""
    with ledger._guarded.store.reading() as rows:
        texts: list[tuple[str, tuple[object, ...]]] = []
        plain = rows.run
        rows.run = lambda text, values=None: texts.append((text, values)) or []
        rows.select(equal, newest=True, limit=1)
        ((text, values),) = texts
        plan = plain(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values)[0][0][0]["Plan"]

    def looked_at(node: dict[str, object]) -> int:
        own = int(node["Actual Rows"]) + int(node.get("Rows Removed by Filter", 0))  # type: ignore[call-overload]
        return own + sum(looked_at(each) for each in node.get("Plans", []))  # type: ignore[attr-defined]

    return looked_at(plan)


def test_the_clock_is_the_servers(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1)
    with place.open() as ledger:
        line = account(ledger).charge(pure())
        ((now,),) = place.edit("SELECT extract(epoch FROM clock_timestamp())")
        assert abs(line.time.timestamp() - float(now)) < 600
        assert abs(ledger._guarded.store.now() / 1e6 - float(now)) < 600


def test_a_payer_on_another_machine_is_not_taken_for_dead(place: Place) -> None:
    """Its boot is another one: on a file that means that it is gone, on a server nothing."""
    with place.open() as ledger:
        clinic = account(ledger)
        question = clinic.ask(pure("0.1", plan="p", data="v", request_id="r"), {})
        assert question.begin() is None
        place.edit("UPDATE under_way SET payer = 'another-boot pid:[1] 5 7'")
        with pytest.raises(sf.AnswerPending):
            clinic.ask(pure("0.1", plan="p", data="v"), {}).begin(0)
        assert [line.kind for line in ledger] == ["account-open", "charge"]
        clinic.answer(question.line, "1", {})


# ── large answers ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("harm", ["missing", "changed"])
def test_a_large_answer_is_in_the_database_and_is_lost_alone(place: Place, harm: str) -> None:
    with place.open() as ledger:
        clinic = account(ledger)
        for plan, body in (("big", BIG), ("same", BIG), ("small", "1")):
            clinic.answer(clinic.charge(pure("0.01", plan=plan, data="v")), body, {"n": 1})
        assert clinic.stored(plan="big", data="v").body == BIG
        assert place.edit("SELECT count(*) FROM bodies") == [(1,)]
        assert ledger.verify().holds
        if harm == "missing":
            place.edit("DELETE FROM bodies")
        else:
            check = postgres_schema.CONSTRAINTS["bodies", "named_by_content"]
            place.edit(
                "ALTER TABLE bodies DROP CONSTRAINT named_by_content",
                "UPDATE bodies SET content = 'x'",
                f"ALTER TABLE bodies ADD CONSTRAINT named_by_content {check} NOT VALID",
                "UPDATE pg_constraint SET convalidated = true WHERE conname = 'named_by_content'",
            )
        found = ledger.verify()
        assert (found.holds, found.answers) == (False, (3, 5))
        with pytest.raises(sf.LedgerDamaged):
            clinic.stored(plan="big", data="v")
        assert clinic.stored(plan="small", data="v").body == "1"
        line = clinic.charge(pure("0.01"))
        if harm == "missing":
            clinic.answer(line, BIG, {})
            assert clinic.stored(plan="big", data="v").body == BIG
        else:
            with pytest.raises(sf.LedgerUnavailable, match="different content"):
                clinic.answer(line, BIG, {})


# ── tampering ──────────────────────────────────────────────────────────────────────────────────


def test_each_column_is_covered(busy: Place) -> None:
    """Every line is put back after its edit was named."""
    before = busy.rows()[19]
    for column in COLUMNS:
        kept = getattr(before, column)
        value = "77777" if isinstance(kept, int) else "'x'"
        busy.edit(f'UPDATE lines SET "{column}" = {value} WHERE number = 20')
        with busy.open() as ledger:
            report = ledger.verify()
            assert (report.holds, report.bad) == (False, 21 if column == "number" else 20), column
            with pytest.raises(sf.LedgerDamaged):
                ledger.account("clinic").charge(pure("0.001"))
        where = "number = 77777" if column == "number" else "number = 20"
        back = kept if isinstance(kept, int) else f"$s${kept}$s$"
        busy.edit(f'UPDATE lines SET "{column}" = {back} WHERE {where}')
    with busy.open() as ledger:
        assert ledger.verify().holds


@pytest.mark.parametrize(
    ("statement", "bad"),
    [
        ("DELETE FROM lines WHERE number = 20", 21),
        ("DELETE FROM lines WHERE number = 1", 2),
        ("UPDATE lines SET number = -number WHERE number IN (20, 21)", -21),
        ("DROP INDEX by_account", None),
        pytest.param("DROP INDEX by_plan", None, marks=pytest.mark.long),
        ("CREATE INDEX more ON lines (time)", None),
        ("CREATE TABLE extra (a int)", None),
        ("CREATE VIEW extra AS SELECT 1", None),
        ("CREATE FUNCTION forget() RETURNS int LANGUAGE sql AS 'SELECT 1'", None),
        ("CREATE RULE forget AS ON INSERT TO lines DO INSTEAD NOTHING", None),
        ("CREATE TABLE child () INHERITS (lines)", None),
        ("ALTER TABLE lines ENABLE ROW LEVEL SECURITY", None),
        ("CREATE POLICY none ON lines USING (false)", None),
        ("ALTER TABLE lines SET UNLOGGED", None),
        ("ALTER TABLE lines ALTER COLUMN cost DROP NOT NULL", None),
        ("ALTER TABLE lines ALTER COLUMN cost SET DEFAULT '0 0 0'", None),
        ('ALTER TABLE lines ALTER COLUMN cost TYPE text COLLATE "und-x-icu"', None),
        ("ALTER TABLE lines ALTER COLUMN time TYPE numeric", None),
        ("ALTER TABLE lines DROP CONSTRAINT one_chain", None),
        ("ALTER TABLE lines ADD COLUMN more text", None),
        ("CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'", None),
        ("CREATE TRIGGER forget BEFORE INSERT ON lines FOR EACH ROW EXECUTE FUNCTION refuse()", None),
    ],
)
def test_lines_and_shapes_that_were_changed_are_named(busy: Place, statement: str, bad: int | None) -> None:
    with suppress(psycopg.errors.UndefinedObject):  # a server without that collation
        busy.edit(statement)
        with busy.open() as ledger:
            report = ledger.verify()
            assert (report.holds, report.bad) == (False, bad)
            with pytest.raises((sf.LedgerUnavailable, sf.InvalidParameter)):  # the account may not even be seen
                ledger.account("other").charge(pure("0.001"))


def test_a_key_that_was_changed_is_noticed_at_opening(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another key nothing is recognised: known sources would get a second budget."""
    monkeypatch.setattr("sfumato.ledger.proofs.verification_runs.CHECKPOINT", 2)
    with place.open() as ledger:
        for _ in range(3):
            account(ledger).charge(pure())
    place.edit(f"UPDATE book SET key = '{'ab' * 32}'")
    with place.open() as ledger:
        with pytest.raises(sf.LedgerDamaged, match="the one in the ledger's header"):
            account(ledger).charge(pure())
        assert ledger.verify().bad == 1


@pytest.mark.parametrize("how", ["DISABLE", "ENABLE", "ENABLE REPLICA"])
def test_triggers_that_are_not_always_on_are_named(busy: Place, how: str) -> None:
    busy.server.execute(f"ALTER TABLE {busy.schema}.lines {how} TRIGGER kept")
    with busy.open() as ledger:
        assert ledger.verify().why == "its schema was changed"
        with pytest.raises(sf.LedgerDamaged):
            ledger.account("other").charge(pure("0.001"))


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row._replace(cost="0 0 0"),
        lambda row: row._replace(totals="0 0 0 0 - 0 0"),
        lambda row: row._replace(own="0 0 0 0 - 0 0"),
        lambda row: row._replace(share="1"),
        lambda row: row._replace(cost="nonsense"),
        pytest.param(lambda row: row._replace(cost="-5 0 0"), marks=pytest.mark.long),
    ],
)
def test_a_chain_resealed_to_its_end_still_has_to_add_up(busy: Place, change: Callable[[Row], Row]) -> None:
    first = next(row.number for row in busy.rows() if row.kind == "charge" and row.account == "clinic")
    busy.reseal(first, change)
    with busy.open() as ledger:
        assert ledger.verify().bad == first


def test_a_line_resealed_alone_breaks_the_next(busy: Place) -> None:
    for change in ({"question": "another"}, {"cost": "0 0 0"}):
        busy.reseal(20, lambda row, change=change: row._replace(**change), until=20)
        with busy.open() as ledger:
            assert ledger.verify().bad in {20, 21}


def test_a_charge_that_a_resealed_line_answers_again_is_named(busy: Place) -> None:
    answer = next(row.number for row in busy.rows() if row.kind == "answer" and row.number > 30)
    busy.reseal(answer, lambda row: row._replace(about=6))
    with busy.open() as ledger:
        assert ledger.verify().bad == answer


def test_the_first_of_many_changed_lines_is_named_and_a_new_one_stops_charging_at_once(
    busy: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening verifies from the last checkpoint; older damage is verify's to find."""
    monkeypatch.setattr("sfumato.ledger.proofs.verification_runs.CHECKPOINT", 10)
    kept = {row.number: row.question for row in busy.rows()}
    last = max(kept)
    busy.edit("UPDATE lines SET question = 'x' WHERE number = 7")
    with busy.open() as ledger:
        ledger.account("other").charge(pure("0.001"))
        assert ledger.verify().bad == 7
        with pytest.raises(sf.LedgerDamaged):
            ledger.account("other").charge(pure("0.001"))
    busy.edit(f"UPDATE lines SET question = '{kept[7]}' WHERE number = 7")
    for number in (last + 1, last, 42, 41, 28, 27, 15, 14, 13, 2, 1):
        busy.edit(f"UPDATE lines SET question = 'x' WHERE number >= {number}")
        with busy.open() as ledger:
            if number >= last:
                with pytest.raises(sf.LedgerDamaged) as refusal:
                    ledger.account("other").charge(pure("0.001"))
                assert refusal.value.number >= last
            assert ledger.verify().bad == number


@pytest.mark.parametrize("amcheck", [True, False])
def test_an_index_that_lacks_a_line_is_found(busy: Place, amcheck: bool) -> None:
    """The index was told not to take new lines for a while: a charge found through it would be missing."""
    if amcheck:
        try:
            busy.server.execute(
                "CREATE EXTENSION IF NOT EXISTS amcheck",
                f"GRANT EXECUTE ON FUNCTION bt_index_check(regclass, boolean) TO {SPENDER}",
            )
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("PostgreSQL has no amcheck here: its own check of indexes NOT tested")
    index = f"'{busy.schema}.by_account'::regclass"
    with busy.open() as ledger:
        assert ledger.verify().holds
        busy.edit(f"UPDATE pg_index SET indisready = false WHERE indexrelid = {index}")
        ledger.close()
    with sf.Ledger.open(busy.address) as ledger:
        ledger._guarded.damage = None  # what is seen at opening: not what is tested
        ledger.account("other").charge(pure("0.001"))
        busy.edit(f"UPDATE pg_index SET indisready = true WHERE indexrelid = {index}")
        report = ledger.verify()
        assert not report.holds
        assert "indexes" in report.why
    if amcheck:
        busy.server.execute("DROP EXTENSION amcheck")


def test_lines_that_vanished_are_known_to_whoever_wrote_or_anchored_them(place: Place) -> None:
    with place.open() as ledger:
        clinic = account(ledger)
        clinic.charge(pure("0.1"))
        clinic.charge(pure("0.4"))
        place.edit("DELETE FROM lines WHERE number = 3")
        with pytest.raises(sf.LedgerBehind):
            clinic.charge(pure("0.1"))
    with place.open() as ledger:  # closing the other one has forgotten nothing
        with pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
        ledger.acknowledge(reason="restored")
        assert account(ledger).remaining == {"pure": Fraction(5, 10)}
        account(ledger).charge(pure("0.1"))
    place.edit("DELETE FROM lines WHERE number = 4")
    with place.open() as ledger:
        with pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
        ledger.acknowledge(reason="restored")
        assert account(ledger).remaining == {"pure": Fraction(4, 10)}


def test_closing_never_puts_an_older_anchor_in_the_place_of_a_newer(place: Place) -> None:
    """One process saw line 3, which a failover forgot; another, which never saw it, closes after it."""
    one, other = place.open(), place.open()
    account(one).charge(pure("0.1"))
    account(other)
    other._guarded.wrote = True  # as though it had written the account
    account(one).charge(pure("0.4"))
    one.close()
    place.edit("DELETE FROM lines WHERE number = 3")
    other.close()
    with place.open() as ledger, pytest.raises(sf.LedgerBehind):
        account(ledger).charge(pure("0.1"))


def test_another_ledger_at_the_same_address_is_behind(place: Place) -> None:
    with place.open() as ledger:
        account(ledger).charge(pure("0.5"))
    place.server.execute(f"DROP SCHEMA {place.schema} CASCADE")
    make_ledger(place.owner, spender=SPENDER)
    with place.open() as ledger, pytest.raises(sf.LedgerBehind):
        account(ledger)
    with place.open() as ledger:
        place.server.execute(f"DROP SCHEMA {place.schema} CASCADE")
        make_ledger(place.owner, spender=SPENDER)
        with pytest.raises(sf.LedgerUnavailable, match="a different ledger"):
            ledger.acknowledge(reason="x")


# ── rights ─────────────────────────────────────────────────────────────────────────────────────


def test_a_spender_can_add_lines_and_nothing_else(busy: Place) -> None:
    with psycopg.connect(busy.server.address(user=SPENDER), autocommit=True) as raw:
        raw.execute(f"SET search_path = {busy.schema}")
        for statement in (
            "UPDATE lines SET cost = '0 0 0'",
            "DELETE FROM lines",
            "TRUNCATE lines",
            "DROP TABLE lines",
            "ALTER TABLE lines DISABLE TRIGGER kept",
            "UPDATE book SET key = ''",
            "UPDATE book SET held = true",
            "DELETE FROM book",
            "INSERT INTO book SELECT * FROM book",
            "UPDATE bodies SET content = ''",
            "DELETE FROM bodies",
            "UPDATE under_way SET payer = ''",
            "CREATE TABLE more (a int)",
            "SET session_replication_role = replica",
        ):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
                raw.execute(statement)


def test_not_even_the_owner_changes_lines_by_accident(busy: Place) -> None:
    for statement in ("UPDATE {}.lines SET cost = ''", "DELETE FROM {}.lines", "TRUNCATE {}.lines", "TRUNCATE {}.book"):
        for before in ("SELECT 1", "SET session_replication_role = replica"):
            with pytest.raises(psycopg.errors.RaiseException):
                busy.server.execute(before, statement.format(busy.schema))


def test_who_could_change_lines_is_told_so(place: Place) -> None:
    with (
        pytest.warns(WeakLedger, match="connect as a role made with `sfumato ledger init --spender`"),
        sf.Ledger.open(place.owner) as ledger,
    ):
        account(ledger).charge(pure())


# ── refusals ───────────────────────────────────────────────────────────────────────────────────


def test_who_owns_a_table_could_change_lines_too(place: Place) -> None:
    place.server.execute(f"GRANT CREATE ON SCHEMA {place.schema} TO {SPENDER}")
    place.server.execute(f"ALTER TABLE {place.schema}.under_way OWNER TO {SPENDER}")
    with pytest.warns(WeakLedger, match="or of a table in it"):
        place.open().close()


def test_a_folder_for_anchors_that_cannot_be_written_is_warned_of(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file" / "state"))
    with pytest.warns(WeakLedger, match="cannot be written"):
        place.open().close()


def test_why_no_connection_was_made_is_told_apart(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a password was asked for and given: the words decide, and not that there was one."""
    monkeypatch.setenv("PGPASSWORD", "given")
    for said, told in (
        ('FATAL: password authentication failed for user "x"', "refused this user's login"),
        ("FATAL: no pg_hba.conf entry for host", "refused this user's login"),
        ('FATAL: database "x" does not exist', "no such database"),
        ("FATAL: sorry, too many clients already", "no free connection"),
        ("SSL error: certificate verify failed", "certificate of the ledger's server could not be verified"),
        ("server closed the connection unexpectedly", "cannot be reached"),
    ):
        assert told in str(refusal_for_error(psycopg.OperationalError(said), "here"))
    with pytest.raises(sf.LedgerUnavailable, match="no such database"):
        sf.Ledger.open(place.server.address("missing"))


def test_where_there_is_no_ledger_the_fix_is_said(place: Place, tmp_path: Path) -> None:
    server = place.server
    server.execute(
        "CREATE SCHEMA IF NOT EXISTS foreign_schema", "CREATE TABLE IF NOT EXISTS foreign_schema.book (a int)"
    )
    server.execute("CREATE SCHEMA IF NOT EXISTS used_schema", "CREATE TABLE IF NOT EXISTS used_schema.people (a int)")
    server.execute("DROP ROLE IF EXISTS nobody_special", "CREATE ROLE nobody_special LOGIN")
    refused = {
        f"postgresql:///postgres?host={tmp_path}": "cannot be reached",
        "postgresql://127.0.0.1:1/postgres": "cannot be reached",
        server.address("no_such_database"): "no such database",
        server.address(user="no_such_role"): "no such database or role",
        server.address(user=SPENDER, schema="missing"): "no ledger in schema 'missing'",
        server.address(user=SPENDER, schema="foreign_schema"): "rights|not there",
        server.address(user="nobody_special", schema=place.schema): "rights of a spender",
    }
    for address, words in refused.items():
        with pytest.raises(sf.LedgerUnavailable, match=words) as refusal:
            sf.Ledger.open(address, timeout=1)
        assert refusal.value.fix
    for schema in ("foreign_schema", "used_schema"):
        with pytest.raises(sf.LedgerUnavailable):
            make_ledger(server.address(schema=schema))
    assert server.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'used_schema'::regnamespace") == [(1,)]
    with pytest.raises(sf.LedgerUnavailable):
        make_ledger(server.address(user=SPENDER, schema="not_allowed"))


def test_a_wrong_password_is_a_clear_refusal(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    server = place.server
    hba = server.data / "pg_hba.conf"
    kept = hba.read_text()
    server.execute("DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'right'")
    hba.write_text(f"local all locked scram-sha-256\n{kept}")
    server.execute("SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")
    try:
        for password in ("wrong", ""):
            monkeypatch.setenv("PGPASSWORD", password)
            with pytest.raises(sf.LedgerUnavailable, match="refused this user's login") as refusal:
                sf.Ledger.open(server.address(user="locked", schema=place.schema))
            assert "wrong" not in str(refusal.value)
    finally:
        hba.write_text(kept)
        server.execute("SELECT pg_reload_conf()")


def test_a_newer_schema_is_refused_and_not_touched(place: Place) -> None:
    place.edit("UPDATE book SET version = 2")
    for attempt in (place.open, lambda: make_ledger(place.owner, spender=SPENDER)):
        with pytest.raises(sf.LedgerUnavailable, match="newer Sfumato"):
            attempt()
    assert place.edit("SELECT version FROM book") == [(2,)]


def test_an_older_schema_is_migrated_by_its_owner_whole_or_not_at_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.open() as ledger:
        account(ledger).charge(pure())
        twice = ("CREATE TABLE {}.notes (a int)",) * 2
        first = postgres_schema.MIGRATIONS[0]
        for added in (twice, twice[:1]):
            more = tuple(text.format(place.schema) for text in added)
            monkeypatch.setattr(postgres_schema, "MIGRATIONS", (first, lambda _, more=more: more))
            with pytest.raises(sf.LedgerUnavailable, match="older Sfumato"):
                place.open()
            if added is twice:
                with pytest.raises(sf.LedgerUnavailable):
                    make_ledger(place.owner)
                assert place.edit("SELECT version FROM book") == [(1,)]
            else:
                make_ledger(place.owner)
        assert place.edit("SELECT version FROM book") == [(2,)]
        with pytest.raises(sf.LedgerUnavailable, match="a different ledger"):
            account(ledger).charge(pure())


def test_a_lock_that_is_not_had_in_time(place: Place) -> None:
    with place.open(timeout="0.2") as ledger, psycopg.connect(place.server.address()) as other:
        clinic = account(ledger)
        other.execute(f"SELECT * FROM {place.schema}.book FOR UPDATE")
        with pytest.raises(sf.LedgerUnavailable, match="locked by another process"):
            clinic.charge(pure())
        assert clinic.remaining == {"pure": 1}  # reading goes on
        other.rollback()
        clinic.charge(pure())


def test_a_server_that_promises_too_little_is_refused(place: Place) -> None:
    server = place.server
    server.execute(
        "DROP DATABASE IF EXISTS latin", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'"
    )
    with pytest.raises(sf.LedgerUnavailable, match="UTF8"):
        sf.Ledger.open(server.address("latin", schema=place.schema))
    server.execute(f"ALTER ROLE {SPENDER} SET default_transaction_read_only = on")
    try:
        with pytest.raises(sf.LedgerUnavailable, match="default_transaction_read_only"):
            place.open()
    finally:
        server.execute(f"ALTER ROLE {SPENDER} RESET default_transaction_read_only")


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_text_that_the_database_cannot_hold_is_not_written(place: Place, text: str) -> None:
    with place.open() as ledger:
        clinic = account(ledger)
        with pytest.raises(sf.InvalidParameter):
            clinic.charge(pure(question=text))
        with pytest.raises(sf.LedgerUnavailable, match="cannot store a text"), ledger._guarded.writing() as transaction:
            transaction.append("charge", "clinic", {"question": text})
        clinic.charge(pure())
        assert ledger.verify().lines == 2


def test_what_the_driver_says_is_not_repeated() -> None:
    for kind in (psycopg.errors.DiskFull, psycopg.errors.UniqueViolation, psycopg.errors.UndefinedFunction):
        said = str(refusal_for_error(kind("Key (question)=(secret) exists"), "here"))
        assert "secret" not in said
    assert "disk is full" in str(refusal_for_error(psycopg.errors.DiskFull("x"), "here"))
    assert isinstance(refusal_for_error(psycopg.errors.IndexCorrupted("x"), "here"), sf.LedgerDamaged)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:hunter2@host/db",
        "postgresql://host/db?password=hunter2",
        "postgresql://h/d?sslpassword=hunter2",
    ],
)
def test_an_address_with_a_password_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(sf.InvalidParameter) as refused:
        sf.Ledger.open(address)
    assert "hunter2" not in str(refused.value) + json.dumps(refused.value.facts)
    assert "PGPASSWORD" in refused.value.fix


@pytest.mark.parametrize(
    ("address", "environment", "options"),
    [
        ("postgresql://db.example/x", {}, {"sslmode": "verify-full"}),
        ("postgresql://a.example,b.example/x", {}, {"sslmode": "verify-full"}),
        ("postgresql://localhost,b.example/x", {}, {"sslmode": "verify-full"}),
        ("postgresql://db.example:5433/x?sslmode=verify-full", {}, {"sslmode": "verify-full"}),
        ("postgresql:///x?service=clinic", {}, {"sslmode": "verify-full"}),
        ("postgresql:///x", {"PGHOST": "db.example"}, {"sslmode": "verify-full"}),
        ("postgresql://localhost/x", {"PGHOSTADDR": "10.0.0.7"}, {"sslmode": "verify-full"}),
        ("postgresql://localhost/x", {"PGHOSTADDR": "127.0.0.1"}, {}),
        ("postgresql://localhost/x?service=clinic", {}, {"sslmode": "verify-full"}),
        ("postgresql://localhost/x", {"PGSERVICE": "clinic"}, {"sslmode": "verify-full"}),
        ("postgresql://localhost/x?sslmode=disable", {"PGSERVICE": "clinic"}, None),
        ("postgresql://db.example/x?hostaddr=127.0.0.1,&sslmode=disable", {}, None),
        ("postgresql:///x?host=/run/postgresql", {}, {}),
        ("postgresql://localhost/x", {}, {}),
        ("postgresql://127.0.0.1:5433/x", {}, {}),
        ("postgresql://[::1]:5433/x", {}, {}),
        ("postgresql://db.example/x?sslmode=require", {}, None),
        ("postgresql://db.example/x", {"PGSSLMODE": "prefer"}, None),
        ("postgresql://localhost/x?hostaddr=10.0.0.7&sslmode=disable", {}, None),
    ],
)
def test_over_a_network_the_server_proves_who_it_is(
    address: str, environment: dict[str, str], options: dict[str, str] | None
) -> None:
    if options is None:
        with pytest.raises(sf.LedgerUnavailable, match="verify-full"):
            ServerAddress.parse(address).options(environment)
    else:
        assert ServerAddress.parse(address).options(environment) == options


@pytest.mark.parametrize("schema", ["", "a b", "public", "user", "table", "pg_x", 'x"; DROP', "A", "a" * 64, "é"])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    with pytest.raises(sf.InvalidParameter, match="schema"):
        sf.Ledger.open("postgresql:///x", schema=schema)
    with pytest.raises(sf.InvalidParameter, match="schema"):
        sf.Ledger.open("postgresql:///x?schema=one", schema="two")


def test_spaces_and_pluses_of_an_address_reach_the_driver() -> None:
    address = ServerAddress.parse("postgresql:///x?application_name=two%20words&options=a+b&schema=one")
    found = psycopg.conninfo.conninfo_to_dict(address.url)
    assert (found["application_name"], found["options"], address.schema) == ("two words", "a+b", "one")


@pytest.mark.parametrize("name", ["host=db dbname=x", "mysql://db/x", "service=clinic", "postgresql:/ /x://"])
def test_what_looks_like_an_address_is_not_made_a_file(name: str) -> None:
    with pytest.raises(sf.InvalidParameter, match="address of a database"):
        sf.Ledger.open(name)


# ── moving house ───────────────────────────────────────────────────────────────────────────────


def test_there_and_back_every_line_is_the_same(place: Place, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    _make_busy(first)
    with sf.Ledger.open(first) as ledger:
        clinic = ledger.account("clinic")
        clinic.answer(clinic.charge(pure("0.001", plan="big", data="v")), BIG, {})
        waiting = clinic.ask(pure("0.001", plan="w", data="v", request_id="waiting"), {})
        assert waiting.begin() is None
        lines, head = list(ledger), ledger.head
    assert copy_ledger(first, place.owner) == head
    with place.open() as ledger:
        assert (list(ledger), ledger.head) == (lines, head)
        assert ledger.verify().holds
        assert ledger.account("clinic").stored(plan="big", data="v").body == BIG
        with pytest.raises(sf.AnswerPending):  # it was charged before, and is not charged again
            ledger.account("clinic").ask(pure("0.001", plan="w", data="v", request_id="waiting"), {}).begin(0)
        ledger.account("clinic").charge(pure("0.001"))
        ledger.backup(tmp_path / "backup")
        head, lines = ledger.head, list(ledger)
    with pytest.raises(sf.LedgerUnavailable, match="only the owner"):
        copy_ledger(place.address, second)
    assert copy_ledger(place.owner, second) == head
    for path in (second, tmp_path / "backup"):
        with sf.Ledger.open(path) as ledger:
            assert list(ledger) == lines
            assert ledger.verify().holds
            assert ledger.account("clinic").stored(plan="big", data="v").body == BIG
            ledger.account("clinic").charge(pure("0.001"))
    for sealed in (first, place.address):
        with sf.Ledger.open(sealed) as ledger:
            assert ledger.verify().holds
            assert [line.kind for line in ledger][-1] == "moved"
            for write in (
                lambda: ledger.account("clinic").charge(pure("0.001")),
                lambda: account(ledger, name="new"),
                lambda: ledger.account("clinic").correct(sf.Curve.pure(1), reason="x"),
            ):
                with pytest.raises(sf.LedgerUnavailable, match="was moved to"):
                    write()


def test_a_ledger_moves_into_an_empty_one_and_once(place: Place, postgres: PostgresServer, tmp_path: Path) -> None:
    source, other = tmp_path / "source", Place.make(postgres)
    _make_busy(source)
    with other.open() as ledger:
        account(ledger)
    before = source.read_bytes()
    with pytest.raises(sf.LedgerUnavailable, match="into an empty one"):
        copy_ledger(source, other.owner)
    with pytest.raises(sf.LedgerUnavailable, match="only the owner"):
        copy_ledger(source, place.address)
    with pytest.raises(sf.LedgerUnavailable, match="never overwrites"):
        copy_ledger(source, tmp_path / "busy") if (tmp_path / "busy").write_text("x") else None
    with sf.Ledger.open(source) as ledger:
        assert [line.kind for line in ledger][-1] != "moved"
    assert len(before) > 0
    copy_ledger(source, place.owner)
    with pytest.raises(sf.LedgerUnavailable, match="was moved to"):
        copy_ledger(source, tmp_path / "twice")
    copy_ledger(source, place.owner)  # finished already: nothing happens
    with place.open() as ledger:
        ledger.account("clinic").charge(pure("0.001"))
    with pytest.raises(sf.LedgerUnavailable, match="into an empty one"):
        copy_ledger(source, place.owner)
    assert not (tmp_path / "twice").exists()


@pytest.mark.parametrize("to", ["a file", "a database"])
def test_a_target_that_is_lost_is_filled_again_only_by_who_accepts_the_loss(
    place: Place, tmp_path: Path, to: str
) -> None:
    """What was charged there is forgotten with it: the same command, run again, would give the budget back."""
    source, target = tmp_path / "source", tmp_path / "target" if to == "a file" else place.owner
    _make_busy(source)
    copy_ledger(source, target)
    with place.open() if to == "a database" else sf.Ledger.open(target) as ledger:
        ledger.account("clinic").charge(pure("0.001"))
    if to == "a file":
        Path(target).unlink()
    else:
        place.server.execute(f"DROP SCHEMA {place.schema} CASCADE")
        make_ledger(place.owner, spender=SPENDER)
    with pytest.raises(sf.LedgerUnavailable, match="moved before, and the ledger it was moved to is lost"):
        copy_ledger(source, target)
    last = copy_ledger(source, target, accept_loss=True)
    with place.open() if to == "a database" else sf.Ledger.open(target) as ledger:
        *_, line = ledger
        assert (line.number, line.hash) == ledger.head == last
        assert line.kind == "acknowledge"
        assert "charges which were made here are forgotten" in line.question
        ledger.account("clinic").charge(pure("0.001"))  # what the anchor knew is in the totals
        assert ledger.verify().holds


@pytest.mark.parametrize("kept_in", ["SQLite", "PostgreSQL"])
def test_a_backup_is_moved_with_an_anchor_that_it_holds_or_by_who_accepts_the_loss(
    place: Place, tmp_path: Path, kept_in: str
) -> None:
    with place.open() if kept_in == "PostgreSQL" else sf.Ledger.open(tmp_path / "a") as ledger:
        account(ledger).charge(pure("0.1"))
        ledger.backup(tmp_path / "backup")
        ledger.anchor().save(tmp_path / "then")
        account(ledger).charge(pure("0.4"))
        ledger.anchor().save(tmp_path / "now")
    if kept_in == "PostgreSQL":
        for anchor in (None, tmp_path / "then"):
            with pytest.raises(sf.LedgerUnavailable, match="this backup or export lacks line 3, which this user"):
                copy_ledger(tmp_path / "backup", tmp_path / "b", anchor=anchor)
        shutil.rmtree(tmp_path / "state")  # a user who knows nothing of it
    with pytest.raises(sf.LedgerUnavailable, match="may lack the newest charges"):
        copy_ledger(tmp_path / "backup", tmp_path / "b")
    with pytest.raises(sf.LedgerDamaged, match="it differs from its anchor"):
        copy_ledger(tmp_path / "backup", tmp_path / "b", anchor=tmp_path / "now")
    with sf.Ledger.open(tmp_path / "backup") as ledger:
        ledger.backup(tmp_path / "again")
    with pytest.warns(
        WeakLedger, match=f"this backup was made from is not sealed: {NEVER_AGAIN}"
    ):  # it lives, unsealed
        copy_ledger(tmp_path / "backup", tmp_path / "b", anchor=tmp_path / "then")
    with pytest.warns(WeakLedger, match=f"this backup was made from is not sealed: {NEVER_AGAIN}"):
        copy_ledger(tmp_path / "again", tmp_path / "c", accept_loss=True)
    copy_ledger(tmp_path / "c", tmp_path / "d")  # which is a ledger, and no backup: nobody is warned


def test_a_ledger_is_not_copied_into_itself(place: Place, tmp_path: Path) -> None:
    _make_busy(tmp_path / "a")
    with pytest.raises(sf.LedgerUnavailable, match="into itself"):
        copy_ledger(tmp_path / "a", str(tmp_path / "." / "a"))
    copy_ledger(tmp_path / "a", place.owner)
    with pytest.raises(sf.LedgerUnavailable, match="into itself"):
        copy_ledger(place.owner, f"{place.owner}&connect_timeout=9")


DYING = """
import os, sys
from sfumato.ledger import moving
from sfumato.ledger.stores import postgres, sqlite as copies
def die(*_, **__):
    os._exit(9)
if sys.argv[3] == "sealed":
    copies._link_without_overwriting = die
    postgres.PostgresRows.finish = lambda rows, _: die() if rows.appended else None
else:
    moving._require_same_lines = die
moving.copy_ledger(*sys.argv[1:3])
"""


@pytest.mark.parametrize("when", ["before", "sealed"])
@pytest.mark.parametrize("to", ["a file", "a database"])
def test_a_move_that_dies_leaves_one_ledger_that_can_be_charged(
    place: Place, tmp_path: Path, when: str, to: str
) -> None:
    """Before the old one is sealed it goes on; after, nothing can be charged until the same move is finished."""
    source, target = tmp_path / "source", tmp_path / "target" if to == "a file" else place.owner
    _make_busy(source)
    assert script(DYING, source, target, when, check=False).returncode == 9
    with sf.Ledger.open(source) as ledger:
        sealed = [line.kind for line in ledger][-1] == "moved"
        assert sealed is (when == "sealed")
        if sealed:
            with pytest.raises(sf.LedgerUnavailable, match="was moved to"):
                ledger.account("clinic").charge(pure("0.001"))
    if to == "a database":
        with place.open() as ledger:
            assert ledger.head == (0, "")
    else:
        assert not Path(target).exists()
    copy_ledger(source, target)
    with place.open() if to == "a database" else sf.Ledger.open(target) as ledger:
        ledger.account("clinic").charge(pure("0.001"))
        assert ledger.verify().holds


def test_an_export_is_not_copied_and_nothing_follows_a_seal(place: Place, tmp_path: Path) -> None:
    _make_busy(tmp_path / "a")
    with sf.Ledger.open(tmp_path / "a") as ledger:
        ledger.export("json", tmp_path / "lines.json")
    with pytest.raises(sf.InvalidParameter, match="lacks the key"):
        copy_ledger(tmp_path / "lines.json", place.owner)
    with pytest.raises(sf.LedgerUnavailable, match="no ledger to copy"):
        copy_ledger(tmp_path / "missing", place.owner)
    with pytest.raises(sf.LedgerUnavailable, match="an empty ledger"):
        copy_ledger(place.address, tmp_path / "other")
    copy_ledger(tmp_path / "a", tmp_path / "b")
    with sf.Ledger.open(tmp_path / "a") as ledger, ledger._guarded.store.writing() as rows:
        Transaction(rows, ledger._guarded.keyed_hash.origin).append("charge", "clinic", {})
    with sf.Ledger.open(tmp_path / "a") as ledger:
        assert "sealed the ledger" in ledger.verify().why
    with closing(sqlite3.connect(tmp_path / "b")) as raw:
        assert raw.execute("SELECT count(*) FROM lines WHERE kind = 'moved'").fetchone() == (0,)
