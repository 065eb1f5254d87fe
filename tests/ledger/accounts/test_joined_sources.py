"""The same data never get a second budget by being called something else."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from ledger.small_accounts import account
from sfumato.engine.sources import inspected_tables
from sfumato.engine.sources.inspected_tables import identify_file

COLUMNS = {"age": {"type": "integer", "bounds": (0, 9)}}


@pytest.fixture
def ledger(tmp_path: Path):
    with sf.Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text("patient,cost\n1,20\n")
    os.utime(path, (10**9, 10**9))
    return path


def test_the_same_path_or_content_is_refused_by_another_account(ledger: sf.Ledger, visits: Path) -> None:
    clinic, other = account(ledger), account(ledger, name="other")
    source = clinic.join(identify_file(visits))
    plain = {identify_file(visits).fingerprint(), sha256(visits.read_bytes()).hexdigest()}
    assert source.fingerprint not in plain  # a plain hash would test guesses
    copy, link = visits.with_name("copy.csv"), visits.with_name("link.csv")
    copy.write_bytes(visits.read_bytes())
    link.symlink_to(visits)
    for same in (visits, copy, link, str(visits.parent / "." / "visits.csv")):
        with pytest.raises(sf.SourceTaken, match="'clinic'"):
            other.join(identify_file(same))
    assert [line.account for line in ledger if line.kind == "source"] == ["clinic"]
    clinic.join(identify_file(copy))  # more of the same people's data


def test_changed_content_stays_in_the_account(ledger: sf.Ledger, visits: Path) -> None:
    clinic, other = account(ledger), account(ledger, name="other")
    old = clinic.join(identify_file(visits))
    visits.write_text("patient,cost\n1,20\n2,30\n")
    with pytest.raises(sf.SourceTaken):
        other.join(identify_file(visits))
    new = clinic.join(identify_file(visits))
    assert new.fingerprint != old.fingerprint
    assert [source.fingerprint for source in clinic.sources] == [old.fingerprint, new.fingerprint]
    moved = visits.with_name("moved.csv")
    os.rename(visits, moved)
    with pytest.raises(sf.SourceTaken):
        other.join(identify_file(moved))


def test_a_hard_link_is_the_same_file_however_fresh_it_is(ledger: sf.Ledger, visits: Path) -> None:
    """Linked and changed at once: neither path nor content tells, and no time has passed."""
    clinic, other = account(ledger), account(ledger, name="other")
    visits.write_text("patient,cost\n1,30\n")
    clinic.join(identify_file(visits))
    link = visits.with_name("link.csv")
    os.link(visits, link)
    with open(link, "a") as file:
        file.write("2,40\n")
    with pytest.raises(sf.SourceTaken, match="'clinic'"):
        other.join(identify_file(link))
    with pytest.raises(sf.SourceTaken, match="'clinic'"):
        other.join(link, fingerprint="of the owner's making")
    visits.unlink()
    with pytest.raises(sf.SourceTaken, match="'clinic'"):
        other.join(identify_file(link))


def test_an_inode_that_was_given_to_another_file_is_not_the_same_file(ledger: sf.Ledger, tmp_path: Path) -> None:
    clinic, other = account(ledger), account(ledger, name="other")
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("first")
    clinic.join(identify_file(one))
    os.rename(one, two)
    one.write_text("second")  # the account's file is another one now, and the old one holds other data
    two.write_text("other people")
    joined = clinic.join(identify_file(one)), other.join(identify_file(two))
    assert clinic.sources[-1] == joined[0]
    assert other.sources == (joined[1],)


def test_no_file_of_an_account_is_declared_public(ledger: sf.Ledger, visits: Path) -> None:
    clinic = account(ledger)
    clinic.join(identify_file(visits))
    clinic.join("memory://1", fingerprint="a table's own")
    copy, link, days = (visits.with_name(name) for name in ("copy.csv", "link.csv", "days.csv"))
    copy.write_bytes(visits.read_bytes())
    os.link(visits, link)
    for source, seal in ((visits, None), (copy, None), (link, None), ("memory://2", "a table's own")):
        with pytest.raises(sf.SourceTaken, match="the account 'clinic' protects"):
            ledger.require_public(source if seal else identify_file(source), fingerprint=seal)
    days.write_text("x" * len(visits.read_bytes()))
    ledger.require_public(identify_file(days))
    ledger.require_public("memory://2", fingerprint="another")
    days.write_text("")
    ledger.require_public(identify_file(days))


@pytest.mark.parametrize("ages", [[], [40]])
def test_no_version_tells_whether_two_tables_in_memory_are_equal(tmp_path: Path, ages: list[int]) -> None:
    """A receipt names the version: two tables that one person makes equal were one version, others two."""
    told = []
    for name, other in (("equal", ages), ("different", [40, 41, 42])):
        held = {"visits": pa.array(ages, pa.int64()), "claims": pa.array(other, pa.int64())}
        tables = {
            each: sf.Table(each, pa.table({"who": rows, "age": rows}), COLUMNS, id="who", max_rows=1)
            for each, rows in held.items()
        }
        policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(1), tables)
        for _ in range(2):  # opened again, nothing has changed
            with sf.Curator(policy, tmp_path / f"{name}{len(ages)}.ledger") as curator:
                told.append(curator.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon="0.1").receipt.data)
    assert len(set(told)) == 1


def test_a_private_table_in_memory_is_not_public_under_another_name(tmp_path: Path) -> None:
    rows = pa.table({"who": [1, 2, 3], "age": [4, 5, 6]})
    tables = {"visits": sf.Table("visits", rows, COLUMNS, id="who", max_rows=1)}
    tables["days"] = sf.Table("days", rows, public=True)
    with pytest.raises(sf.SourceTaken):
        sf.Curator(sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(1), tables), tmp_path / "a.ledger")


def test_public_files_of_another_size_are_not_read(
    ledger: sf.Ledger, visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account(ledger).join(identify_file(visits))
    monkeypatch.setattr(inspected_tables, "_digest", lambda _: pytest.fail("read"))
    visits.with_name("days.csv").write_text("day\n1\n")
    ledger.require_public(identify_file(visits.with_name("days.csv")))


POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = 1 }}
[tables.visits]
source = "{private}"
id = "patient"
max_rows = 2
[tables.visits.columns]
cost = {{ type = "integer", bounds = [0, 100] }}
[tables.days]
source = "{public}"
public = true
"""


def test_a_policy_cannot_declare_public_what_it_or_another_protects(tmp_path: Path) -> None:
    for name in ("visits", "copy", "days"):
        (tmp_path / f"{name}.csv").write_text("patient,cost\n1,20\n" if name != "days" else "day\n1\n")
    (tmp_path / "own.csv").write_text("patient,cost\n7,8\n9,10\n")
    for name, private, public in (
        ("same", "visits.csv", "visits.csv"),
        ("same", "visits.csv", "copy.csv"),
        ("other", "own.csv", "copy.csv"),
    ):
        (tmp_path / f"{name}.toml").write_text(POLICY.format(private=private, public=public))
        with pytest.raises(sf.SourceTaken, match="the account 'same' protects"):
            sf.open(tmp_path / f"{name}.toml")
    (tmp_path / "other.toml").write_text(POLICY.format(private="own.csv", public="days.csv"))
    sf.open(tmp_path / "other.toml").close()


DATABASE = POLICY.replace('"{private}"', '"{file}"\nrelation = "{private}"').replace(
    '"{public}"', '"{other}"\nrelation = "{public}"'
)


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE visits AS SELECT 1 AS patient, 20 AS cost; CREATE TABLE days AS SELECT 1 AS day")
        database.execute("CREATE VIEW seen AS SELECT * FROM visits; CREATE VIEW plain AS SELECT * FROM days")
        database.execute("CREATE SCHEMA ward; CREATE TABLE ward.visits AS SELECT 3 AS patient, 4 AS cost")
    os.utime(path, (1_700_000_000, 1_700_000_000))  # a new file is described again when it has settled
    return path


def _opened(name: str, clinic: Path, *, private: str, public: str, other: str = "clinic.duckdb") -> None:
    policy = clinic.with_name(f"{name}.toml")
    policy.write_text(DATABASE.format(file=clinic.name, private=private, public=public, other=other))
    sf.open(policy, clinic.with_name("ledger.db")).close()


def test_one_database_holds_a_private_and_a_public_table(clinic: Path) -> None:
    """It was refused: whole files were compared."""
    for _ in range(2):
        _opened("a", clinic, private="visits", public="days")
    with sf.Ledger.open(clinic.with_name("ledger.db")) as ledger:
        assert [line.kind for line in ledger].count("source") == 1
        assert "visits" not in "".join(line.detail or "" for line in ledger if line.kind == "source")


@pytest.mark.parametrize("public", ["visits", "VISITS", "main.visits", "Main.Visits", "seen", "plain"])
def test_the_same_table_of_a_database_is_not_private_and_public(clinic: Path, public: str) -> None:
    """However it is spelt; and a view may read any table of its database."""
    with pytest.raises(sf.SourceTaken, match="the account 'a' protects"):
        _opened("a", clinic, private="visits", public=public)


@pytest.mark.parametrize(("private", "public"), [("seen", "days"), ("visits", "visits")])
def test_a_database_is_known_by_another_policy_too(clinic: Path, private: str, public: str) -> None:
    """A private view protects all of its file; a copy of the file has the same tables."""
    other = clinic.with_name("other.duckdb")
    with duckdb.connect(str(other)) as database:
        database.execute("CREATE TABLE t AS SELECT 7 AS patient, 8 AS cost")
    with suppress(sf.SourceTaken):
        _opened("a", clinic, private=private, public="days")
    copy = clinic.with_name("copy.duckdb")
    shutil.copy(clinic, copy)
    for name in (clinic.name, copy.name):
        with pytest.raises(sf.SourceTaken, match="the account 'a' protects"):
            _opened("b", other, private="t", public=public, other=name)


def test_a_table_of_another_schema_or_copy_is_another_table(clinic: Path) -> None:
    _opened("a", clinic, private="visits", public="ward.visits")
    shutil.copy(clinic, clinic.with_name("copy.duckdb"))
    _opened("a", clinic, private="visits", public="days", other="copy.duckdb")
    with sf.Ledger.open(clinic.with_name("ledger.db")) as ledger:
        assert [line.kind for line in ledger].count("source") == 1


def test_two_accounts_do_not_share_a_database(clinic: Path) -> None:
    """The same people may be in all of its tables, and would have two budgets."""
    _opened("a", clinic, private="visits", public="days")
    with pytest.raises(sf.SourceTaken, match="belong to the account 'a'"):
        _opened("b", clinic, private="ward.visits", public="days")


def test_a_file_that_looks_the_same_is_not_read_again(
    ledger: sf.Ledger, visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing tells a file's age but the clock, so the clock is moved on instead of waiting two seconds."""
    clinic = account(ledger)
    reads: list[int] = []
    digest = inspected_tables._digest
    monkeypatch.setattr(inspected_tables, "_digest", lambda blocks: (reads.append(1), digest(blocks))[1])
    clinic.join(identify_file(visits))
    clinic.join(identify_file(visits))  # touched a moment ago: its times may not show another change
    assert len(reads) == 2
    later = inspected_tables.time.time_ns() + 10**10
    monkeypatch.setattr(inspected_tables.time, "time_ns", lambda: later)
    first = clinic.join(identify_file(visits))
    assert clinic.join(identify_file(visits)) == first
    assert len(reads) == 3
    monkeypatch.undo()
    monkeypatch.setattr(inspected_tables, "_digest", lambda blocks: (reads.append(1), digest(blocks))[1])
    os.utime(visits, (10**9, 10**9))
    visits.write_text(visits.read_text().replace("20", "99"))
    os.utime(visits, (10**9, 10**9))  # the same size and modification time: the change time tells
    assert clinic.join(identify_file(visits)).fingerprint != first.fingerprint
    assert len(reads) == 4


def test_joining_again_adds_no_line(ledger: sf.Ledger, visits: Path) -> None:
    clinic = account(ledger)
    for _ in range(3):
        clinic.join(identify_file(visits))
    assert [line.kind for line in ledger] == ["account-open", "source"]


def test_charging_never_reads_the_data(ledger: sf.Ledger, visits: Path) -> None:
    clinic = account(ledger)
    clinic.join(identify_file(visits))
    visits.unlink()
    line = clinic.charge(sf.Entry(sf.Curve.pure("0.1"), plan="p", data="v"))
    clinic.answer(line, "1", {})
    assert clinic.stored(plan="p", data="v") is not None


def test_other_addresses_have_a_fingerprint_of_the_owners_making(ledger: sf.Ledger) -> None:
    clinic, other = account(ledger), account(ledger, name="other")
    address = "postgresql://db.example/clinic#visits"
    clinic.join(address, fingerprint="ab12")
    for source, seal in ((address, None), (address, "cd34"), ("postgresql://elsewhere/x#y", "ab12")):
        with pytest.raises(sf.SourceTaken):
            other.join(source, fingerprint=seal)
    assert "ef56" not in repr(other.join("postgresql://elsewhere/x#y", fingerprint="ef56"))
    assert ledger.verify().holds


def test_empty_files_are_about_nobody(ledger: sf.Ledger, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").touch()
        account(ledger, name=name).join(identify_file(tmp_path / f"{name}.csv"))
        assert len(account(ledger, name=name).sources) == 1  # neither is refused for the other's sake


@pytest.mark.parametrize("source", ["", "a\0b", None, 3, b"bytes", "missing.csv", "/"])
def test_sources_that_cannot_be_read_are_refused(ledger: sf.Ledger, source: object) -> None:
    with pytest.raises((sf.InvalidParameter, sf.LedgerUnavailable)):
        account(ledger).join(source)  # type: ignore[arg-type]
    assert len(list(ledger)) == 1


def test_a_bare_path_is_refused_since_the_ledger_opens_no_data(ledger: sf.Ledger, visits: Path) -> None:
    with pytest.raises(sf.InvalidParameter, match="a description of a file"):
        account(ledger).join(visits)
    assert len(list(ledger)) == 1


def test_data_that_change_after_they_were_identified_are_not_joined(ledger: sf.Ledger, visits: Path) -> None:
    data = identify_file(visits)
    visits.write_text("patient,cost\n1,20\n2,30\n")
    with pytest.raises(sf.LedgerUnavailable, match="changed while they were read"):
        account(ledger).join(data)
    assert len(list(ledger)) == 1
