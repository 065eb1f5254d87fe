"""Users, tokens, sessions and links: made, found, ended, and every act written down for ever."""

from __future__ import annotations

import re
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from click.testing import CliRunner

from server.small_server import COUNT, open_server
from sfumato.cli import main
from sfumato.errors import InvalidParameter, LedgerUnavailable
from sfumato.ledger import Ledger
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.server.people.database import people_file_path
from sfumato.server.people.people_file import PeopleFile, ProvenToken
from sfumato.server.people.users import Caller, Credentials, Role
from sfumato.server.releases.running_releases import ReleaseKey, RunningReleases, StoredRelease


class Clock:
    """A clock that is set by hand."""

    seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def people(tmp_path: Path, clock: Clock) -> Iterator[PeopleFile]:
    found = PeopleFile(tmp_path / "sfumato.ledger.people", clock)
    found.add_user("ana", "analyst", by="olga")
    yield found
    found.close()


def by_token(people: PeopleFile, text: str) -> Caller | None:
    return people.authenticate(Credentials(token=text))


def by_cookie(people: PeopleFile, text: str) -> Caller | None:
    return people.authenticate(Credentials(cookie=text))


def test_only_its_owner_reads_the_file(people: PeopleFile) -> None:
    for name in ("", "-wal", "-shm"):
        path = Path(f"{people.database.path}{name}")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_is_256_bits_shown_once_and_kept_as_a_hash(people: PeopleFile) -> None:
    token, text = people.new_token("ana", label="tableau", expires=timedelta(days=90), most="0.5", by="olga")
    assert re.fullmatch(r"sfu_[\w-]{43}", text)
    assert (token.user, token.label, token.most, token.spent) == ("ana", "tableau", Fraction(1, 2), 0)
    people.close()
    for path in people.database.path.parent.iterdir():
        assert text.encode() not in path.read_bytes()
    assert text != people.new_token("ana", by="olga")[1]


def test_a_token_finds_its_user_until_it_ends(people: PeopleFile, clock: Clock) -> None:
    token, text = people.new_token("ana", expires=timedelta(days=1), by="olga")
    found = by_token(people, text)
    assert found is not None
    assert (found.user, found.role, found.token) == ("ana", Role.ANALYST, token)
    assert by_cookie(people, text) is None
    clock.seconds += 86_400 - 1
    assert by_token(people, text) is not None
    clock.seconds += 1
    assert by_token(people, text) is None


def test_a_token_ends_when_it_is_revoked_or_its_user_disabled(people: PeopleFile) -> None:
    token, text = people.new_token("ana", by="olga")
    people.set_disabled("ana", True, by="olga")
    assert by_token(people, text) is None
    with pytest.raises(InvalidParameter):
        people.new_token("ana", by="olga")
    people.set_disabled("ana", False, by="olga")
    assert by_token(people, text) is not None
    people.revoke_token(token.number, by="olga")
    assert by_token(people, text) is None
    assert people.token(token.number).revoked


@pytest.mark.parametrize("text", ["", "sfu_", "x" * 100_000, "\ud800", "' OR 1=1 --", "\0"])
def test_nobody_is_known_by_another_text(people: PeopleFile, text: str) -> None:
    people.new_token("ana", by="olga")
    assert by_token(people, text) is None
    assert by_cookie(people, text) is None


def test_every_wrong_secret_is_looked_up_alike(people: PeopleFile) -> None:
    """The same statements run for a token that never was, one that ended, and one of a disabled user."""
    token, ended = people.new_token("ana", by="olga")
    people.revoke_token(token.number, by="olga")
    people.add_user("ben", "analyst", by="olga")
    _, disabled = people.new_token("ben", by="olga")
    people.set_disabled("ben", True, by="olga")
    ran: list[list[str]] = []
    for text in ("sfu_never", ended, disabled):
        statements: list[str] = []
        with people.database.read_transaction() as rows:
            connection = rows
        connection.set_trace_callback(statements.append)
        assert by_token(people, text) is None
        connection.set_trace_callback(None)
        ran.append([re.sub(r"'[0-9a-f]{64}'", "?", each) for each in statements])
    assert ran[0] == ran[1] == ran[2]


def test_a_proven_token_is_unchanged_until_the_file_or_its_time_changes(people: PeopleFile, clock: Clock) -> None:
    """Changes of this and of another process are noticed, also those of other tokens; and its end."""
    token, _ = people.new_token("ana", expires=timedelta(days=1), by="olga")

    def prove() -> ProvenToken:
        return ProvenToken(token, people.database.change_counters_or_none())

    proven = prove()
    assert people.is_proof_current(proven)
    assert not people.is_proof_current(None)
    assert not people.is_proof_current(ProvenToken(token, None))
    people.new_token("ana", by="olga")
    assert not people.is_proof_current(proven)
    proven = prove()
    with closing(PeopleFile(people.database.path)) as others:
        others.revoke_token(token.number, by="olga")
        assert not people.is_proof_current(proven)
    proven = prove()
    people.close()  # another connection counts anew
    assert not people.is_proof_current(proven)
    proven = prove()
    clock.seconds += 86_400
    assert not people.is_proof_current(proven)
    with people.database.read_transaction(), ThreadPoolExecutor(1) as threads:  # in use: not known, and not waited for
        assert threads.submit(people.database.change_counters_or_none).result(10) is None


def test_a_link_signs_in_once_and_soon(people: PeopleFile, clock: Clock) -> None:
    link = people.new_link("ana", by="olga")
    cookie = people.sign_in(link, timedelta(hours=12))
    assert cookie is not None
    assert people.sign_in(link, timedelta(hours=12)) is None
    found = by_cookie(people, cookie)
    assert found is not None
    assert found.session is not None
    assert len(found.session.form_token) == 43
    clock.seconds += 12 * 3600
    assert by_cookie(people, cookie) is None
    late = people.new_link("ana", by="olga")
    clock.seconds += 15 * 60
    assert people.sign_in(late, timedelta(hours=12)) is None


def test_whoever_is_disabled_is_signed_out_and_not_let_in(people: PeopleFile) -> None:
    cookie = people.sign_in(people.new_link("ana", by="olga"), timedelta(hours=1))
    link = people.new_link("ana", by="olga")
    assert cookie is not None
    people.set_disabled("ana", True, by="olga")
    assert by_cookie(people, cookie) is None
    assert people.sign_in(link, timedelta(hours=1)) is None
    people.set_disabled("ana", False, by="olga")
    assert by_cookie(people, cookie) is None
    with pytest.raises(InvalidParameter):
        people.new_link("nobody", by="olga")


def test_signing_out_ends_a_session(people: PeopleFile) -> None:
    cookie = people.sign_in(people.new_link("ana", by="olga"), timedelta(hours=1))
    assert cookie is not None
    people.sign_out(cookie)
    assert by_cookie(people, cookie) is None


def test_acts_are_written_down_and_never_changed(people: PeopleFile) -> None:
    token, text = people.new_token("ana", label="tableau", by="olga")
    people.revoke_token(token.number, by="olga")
    people.pause("clinic", True, by="olga")
    assert people.paused_policies() == {"clinic"}
    people.pause("clinic", False, by="olga")
    assert people.paused_policies() == frozenset()
    acts = people.acts()
    assert [each.act for each in acts] == ["user added", "token made", "token revoked", "paused", "resumed"]
    assert {each.by for each in acts} == {"olga"}
    assert text not in str(acts)
    assert people.acts(after=acts[2].number, limit=1) == acts[3:4]
    for statement in ("DELETE FROM acts", "UPDATE acts SET by = 'ana'"):
        with pytest.raises(sqlite3.IntegrityError), people.database.write_transaction() as rows:
            rows.execute(statement)
    assert people.acts() == acts


@pytest.mark.parametrize("name", ["", " ana", "a\nb", "x" * 201, "ana", "../x", "a/b", "a\\b", ".", "..", "..."])
def test_a_name_is_short_printable_and_free(people: PeopleFile, name: str) -> None:
    with pytest.raises(InvalidParameter):
        people.add_user(name, "analyst", by="olga")
    assert len(people.users()) == 1


def test_who_had_a_name_before_is_let_in_again_by_the_command_that_is_named(people: PeopleFile) -> None:
    with pytest.raises(InvalidParameter) as refused:
        people.add_user("ana", "analyst", by="olga")
    command = refused.value.fix.split("`")[1].removeprefix("sfumato ")
    group, act, _ = command.split()
    assert act == "enable"
    assert act in main.get_command(None, group).list_commands(None)  # type: ignore[arg-type, union-attr, attr-defined]


def test_roles_limits_and_times_are_checked(people: PeopleFile) -> None:
    with pytest.raises(InvalidParameter):
        people.add_user("eve", "admin", by="olga")
    for most in (0, -1, "nan"):
        with pytest.raises(InvalidParameter):
            people.new_token("ana", most=most, by="olga")
    with pytest.raises(InvalidParameter):
        people.new_token("ana", expires=timedelta(0), by="olga")
    with pytest.raises(InvalidParameter):
        people.revoke_token(99, by="olga")
    assert people.tokens() == ()


def test_another_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailable):
        PeopleFile(path)
    assert path.read_bytes() == before


def test_whoever_is_not_known_takes_one_way_to_that(people: PeopleFile, clock: Clock) -> None:
    """The same statements for every secret that lets nobody in, and the same lines of code for those never given out.

    So how long it takes tells no more than that: whether a user is there has no part in it.
    """
    right = people.new_token("ana", by="olga")[1]
    ended, revoked = people.new_token("ana", by="olga")
    people.revoke_token(ended.number, by="olga")
    expired = people.new_token("ana", expires=timedelta(seconds=1), by="olga")[1]
    people.add_user("dora", "analyst", by="olga")
    disabled = people.new_token("dora", by="olga")[1]
    people.set_disabled("dora", True, by="olga")
    clock.seconds += 10
    never = [right[:-1] + ("A" if right[-1] != "A" else "B"), "sfu_" + "x" * 43, "ana", "nobody", ""]
    for identify in (by_token, by_cookie):
        assert len({_lines(identify, people, each) for each in never}) == 1
    assert len({_statements(people, each) for each in (*never, revoked, expired, disabled)}) == 1


def _statements(people: PeopleFile, secret: str) -> tuple[str, ...]:
    """Say what is asked of the file for a secret that lets nobody in, with the hash covered."""
    seen: list[str] = []
    with people.database.read_transaction() as rows:
        rows.set_trace_callback(seen.append)
    assert by_token(people, secret) is None
    with people.database.read_transaction() as rows:
        rows.set_trace_callback(None)
    assert seen
    return tuple(re.sub("'[0-9a-f]{64}'", "#", each) for each in seen)


def _lines(call: Callable[..., object], *given: object) -> tuple[tuple[str, int], ...]:
    """List the lines of ours that a call runs."""
    seen: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if "sfumato" not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen.append((frame.f_code.co_qualname, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert call(*given) is None
    finally:
        sys.settrace(before)
    assert seen
    return tuple(seen)


def test_a_backup_of_a_ledger_has_its_people(tmp_path: Path) -> None:
    small = open_server(tmp_path)
    first = small.with_token("ana", most=1)
    small.counter.release(first, "clinic", "questions", COUNT, {"epsilon": "0.25"}, "r1")
    small.counter.sign_in(small.people.new_link("ana", by="olga"))
    ledger = small.served.ledger_path
    Path(tmp_path / "copies").mkdir()
    copy = tmp_path / "copies" / "sfumato.ledger"
    with small.people.database.write_transaction() as rows:  # answered after the ledger was copied
        rows.execute("INSERT INTO answers VALUES ('ana', 'clinic', 'later', 10000, 'questions', '{}', '{}', 'hash')")
        rows.execute("INSERT INTO texts VALUES ('hash', 'what was answered')")
    done = CliRunner().invoke(main, ["ledger", "backup", str(ledger), str(copy)])
    assert done.exit_code == 0, done.output
    again = PeopleFile(people_file_path(copy))
    assert again.users() == small.people.users()
    assert again.tokens() == small.people.tokens()
    assert again.tokens()[0].spent == Fraction(1, 4)
    assert again.acts() == small.people.acts()
    with again.database.read_transaction() as rows:
        kept = {table: rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("answers", "sessions")}
        assert rows.execute("SELECT request FROM answers JOIN texts ON hash = answer").fetchall() == [("r1",)]
        assert rows.execute("SELECT count(*) FROM texts").fetchone() == (1,)
    assert kept == {"answers": 1, "sessions": 0}
    assert stat.S_IMODE(people_file_path(copy).stat().st_mode) == 0o600
    again.close()
    assert CliRunner().invoke(main, ["ledger", "backup", str(ledger), str(copy)]).exit_code != 0  # it is there
    small.close()


def test_a_file_of_the_version_before_is_made_one_of_this(tmp_path: Path) -> None:
    path, kept = tmp_path / "people", StoredRelease(7, "questions", "{}", "{}", "an answer")
    PeopleFile(path).close()
    with closing(sqlite3.connect(path)) as rows:
        rows.execute("DROP TABLE texts")
        rows.execute("DROP TABLE secrets")
        rows.execute("ALTER TABLE answers DROP COLUMN answer")
        for column in ("scram", "price"):
            rows.execute(f"ALTER TABLE tokens DROP COLUMN {column}")
        rows.execute("INSERT INTO answers VALUES ('ana', 'clinic', 'old', 6, 'questions', '{}', '{}')")
        rows.execute("PRAGMA user_version = 1")
        rows.commit()
    for _ in range(2):
        with closing(PeopleFile(path)) as people:
            running = RunningReleases(people.database, 2)
            assert running.stored_release(ReleaseKey("clinic", "ana", "old")) == StoredRelease(
                6, "questions", "{}", "{}"
            )
            running.store_copy(ReleaseKey("clinic", "ana", "new"), kept)
            assert running.stored_release(ReleaseKey("clinic", "ana", "new")) == kept


def test_a_ledger_without_people_is_backed_up_without(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "sfumato.ledger") as opened:
        opened.account("clinic", unit=PrivacyUnit("patient"), budget=Budget(1))
    copy = tmp_path / "copy.ledger"
    assert CliRunner().invoke(main, ["ledger", "backup", str(tmp_path / "sfumato.ledger"), str(copy)]).exit_code == 0
    assert copy.exists()
    assert not people_file_path(copy).exists()


def test_the_last_owner_is_not_shut_out(tmp_path: Path) -> None:
    with closing(PeopleFile(tmp_path / "people")) as people:
        for name in ("one", "two"):
            people.add_user(name, "owner", by="tests")
        people.add_user("ana", "analyst", by="tests")
        people.set_disabled("one", True, by="two")
        for _ in range(2):
            with pytest.raises(InvalidParameter, match="the last enabled owner"):
                people.set_disabled("two", True, by="one")
        people.set_disabled("one", True, by="two")  # who is disabled already may be again
        people.set_disabled("ana", True, by="two")
        people.set_disabled("one", False, by="two")
        assert people.set_disabled("two", True, by="one").disabled


def test_a_clock_that_is_set_back_revives_what_time_ended_and_nothing_that_a_person_ended(
    people: PeopleFile, clock: Clock
) -> None:
    """What ``docs/reference/threats.md`` says of the machine's clock: it is trusted."""
    people.add_user("ben", "analyst", by="olga")
    _, expiring = people.new_token("ana", expires=timedelta(days=1), by="olga")
    revoked, revoked_text = people.new_token("ana", expires=timedelta(days=1), by="olga")
    _, disabled = people.new_token("ben", by="olga")
    used, unused = (people.new_link("ana", by="olga") for _ in range(2))
    cookie, other = (
        people.sign_in(used, timedelta(hours=1)),
        people.sign_in(people.new_link("ana", by="olga"), timedelta(hours=1)),
    )
    assert cookie is not None
    assert other is not None
    people.sign_out(other)
    people.revoke_token(revoked.number, by="olga")
    people.set_disabled("ben", True, by="olga")
    clock.seconds += 2 * 86_400
    assert people.authenticate(Credentials(token=expiring)) is None
    assert people.authenticate(Credentials(cookie=cookie)) is None
    clock.seconds -= 2 * 86_400
    assert people.authenticate(Credentials(token=expiring)) is not None
    assert people.authenticate(Credentials(cookie=cookie)) is not None
    for ended in (Credentials(token=revoked_text), Credentials(token=disabled), Credentials(cookie=other)):
        assert people.authenticate(ended) is None
    assert people.sign_in(used, timedelta(hours=1)) is None
    assert people.sign_in(unused, timedelta(hours=1)) is not None
