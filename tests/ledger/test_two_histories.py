"""Two names, two copies, two anchors: what was spent in either is spent."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import BEHIND
from sfumato.engine.sources.inspected_tables import identify_file

pytestmark = pytest.mark.filterwarnings(BEHIND)

UNIT, BUDGET = sf.PrivacyUnit("person"), sf.Budget(1)


def spend(path: Path, amount: str, **options: object) -> None:
    with sf.Ledger.open(path, **options) as ledger:  # type: ignore[arg-type]
        ledger.account("clinic", unit=UNIT, budget=BUDGET).charge(sf.Entry(sf.Curve.pure(amount)))


def test_a_file_with_a_second_name_is_refused(tmp_path: Path) -> None:
    """SQLite keeps the log under the file's name: through two names the same budget would be spent twice."""
    first, second = tmp_path / "a.ledger", tmp_path / "b.ledger"
    spend(first, "0.1")
    with sf.Ledger.open(first) as ledger:
        os.link(first, second)
        with pytest.raises(sf.LedgerUnavailable, match="a single name"):
            ledger.account("clinic").charge(sf.Entry(sf.Curve.pure("0.1")))
        with pytest.raises(sf.LedgerUnavailable, match="a single name"):
            sf.Ledger.open(second)
        second.unlink()
        ledger.account("clinic").charge(sf.Entry(sf.Curve.pure("0.1")))


def test_what_was_spent_in_both_histories_counts(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.ledger", tmp_path / "copy"
    spend(path, "0.1")
    shutil.copy(path, copy)
    spend(path, "0.4")
    with sf.Ledger.open(path) as ledger:
        kept = ledger.anchor()
    shutil.copy(copy, path)
    for left in ("-wal", "-shm", ".anchor"):
        Path(f"{path}{left}").unlink(missing_ok=True)
    spend(path, "0.3")  # nobody knew of the anchor
    with sf.Ledger.open(path, anchor=kept) as ledger:
        account = ledger.account("clinic")
        with pytest.raises(sf.LedgerBehind):
            account.charge(sf.Entry(sf.Curve.pure("0.1")))
        ledger.acknowledge(reason="restored from a copy, and used")
        assert account.remaining["pure"] == Fraction(2, 10)  # 0.1 once, 0.4 and 0.3
        assert ledger.verify().holds


def test_a_plain_restore_is_raised_to_the_anchor_and_no_further(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.ledger", tmp_path / "copy"
    spend(path, "0.1")
    shutil.copy(path, copy)
    spend(path, "0.4")
    shutil.copy(copy, path)
    with sf.Ledger.open(path) as ledger:
        ledger.acknowledge(reason="restored")
        assert ledger.account("clinic").remaining["pure"] == Fraction(5, 10)


def test_an_older_anchor_does_not_hide_the_newer_beside_the_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.ledger", tmp_path / "copy"
    spend(path, "0.1")
    with sf.Ledger.open(path) as ledger:
        old = ledger.anchor()
    shutil.copy(path, copy)
    spend(path, "0.9")
    shutil.copy(copy, path)
    with pytest.raises(sf.LedgerBehind):
        spend(path, "0.9", anchor=old)
    with pytest.raises(sf.LedgerBehind):
        spend(path, "0.1")


def test_closing_a_ledger_that_was_rolled_back_forgets_nothing(tmp_path: Path) -> None:
    """The file keeps its name and its place on the disk, so it is still open to whoever wrote the lost line."""
    path = tmp_path / "a.ledger"
    with sf.Ledger.open(path) as ledger:
        account = ledger.account("clinic", unit=UNIT, budget=BUDGET)
        account.charge(sf.Entry(sf.Curve.pure("0.1")))
        account.charge(sf.Entry(sf.Curve.pure("0.4")))
        with closing(sqlite3.connect(path)) as file:
            (trigger,) = file.execute("SELECT sql FROM sqlite_schema WHERE name = 'no_delete'").fetchone()
            for statement in ("DROP TRIGGER no_delete", "DELETE FROM lines WHERE number = 3", trigger):
                file.execute(statement)
            file.commit()
    with pytest.raises(sf.LedgerBehind):
        spend(path, "0.1")
    with sf.Ledger.open(path) as ledger:
        ledger.acknowledge(reason="restored")
        assert ledger.account("clinic").remaining["pure"] == Fraction(5, 10)


def edit(path: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Do what a failover does to a file that others have open."""
    with closing(sqlite3.connect(path)) as file:
        (trigger,) = file.execute("SELECT sql FROM sqlite_schema WHERE name = 'no_delete'").fetchone()
        file.execute("DROP TRIGGER no_delete")
        for statement in statements:
            file.execute(*statement)
        file.execute(trigger)
        file.commit()


def lose(after: int) -> tuple[str, tuple[object, ...]]:
    return "DELETE FROM lines WHERE number > ?", (after,)


def two_accounts(path: Path) -> None:
    """Four lines: two accounts, and 0.1 of each."""
    with sf.Ledger.open(path) as ledger:
        for name in ("clinic", "other"):
            ledger.account(name, unit=UNIT, budget=BUDGET).charge(sf.Entry(sf.Curve.pure("0.1")))


def left(path: Path) -> list[Fraction | None]:
    with sf.Ledger.open(path) as ledger:
        assert ledger.verify().holds
        return [ledger.account(name).remaining["pure"] for name in ("clinic", "other")]


def test_who_closes_after_a_loss_leaves_the_anchor_that_knows_other_accounts(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    two_accounts(path)
    one = sf.Ledger.open(path)
    with sf.Ledger.open(path) as two:
        two.account("other").charge(sf.Entry(sf.Curve.pure("0.5")))
    one.account("clinic").charge(sf.Entry(sf.Curve.pure("0.2")))
    edit(path, lose(4))
    one.close()
    with sf.Ledger.open(path) as ledger:
        ledger.acknowledge(reason="restored")
        assert ledger.verify().holds
    assert left(path) == [Fraction(7, 10), Fraction(4, 10)]
    assert left(path) == [Fraction(7, 10), Fraction(4, 10)]  # what was acknowledged is, also for who opens it again


def test_an_anchor_that_knows_less_of_a_lost_line_does_not_speak_for_one_that_knows_more(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    two_accounts(path)
    with sf.Ledger.open(path) as ledger:
        ledger.account("other").charge(sf.Entry(sf.Curve.pure("0.5")))
        ledger.account("clinic").charge(sf.Entry(sf.Curve.pure("0.2")))
        whole = ledger.anchor()
    part = replace(whole, accounts=whole.accounts[:1])
    edit(path, lose(4))
    Path(f"{path}.anchor").unlink()
    with sf.Ledger.open(path) as ledger:
        ledger.acknowledge(part, reason="restored")
    assert left(path) == [Fraction(7, 10), Fraction(9, 10)]
    with sf.Ledger.open(path, anchor=whole) as ledger:
        with pytest.raises(sf.LedgerBehind):
            ledger.account("clinic").charge(sf.Entry(sf.Curve.pure("0.1")))
        ledger.acknowledge(reason="restored")
        ledger.account("clinic").charge(sf.Entry(sf.Curve.pure("0.1")))
    assert left(path) == [Fraction(6, 10), Fraction(4, 10)]


def test_who_acknowledges_an_anchor_acknowledges_its_own_lost_lines(tmp_path: Path) -> None:
    """The line that says so is the last that it wrote: after it nobody would ask for the lost ones."""
    path = tmp_path / "a.ledger"
    two_accounts(path)
    with sf.Ledger.open(path) as ledger:
        ledger.account("clinic").charge(sf.Entry(sf.Curve.pure("0.2")))
        with sf.Ledger.open(path) as other:
            other.account("other").charge(sf.Entry(sf.Curve.pure("0.5")))
            whole = other.anchor()
        Path(f"{path}.anchor").unlink()
        edit(path, lose(4))
        ledger.acknowledge(replace(whole, accounts=whole.accounts[1:]), reason="restored")
    assert left(path) == [Fraction(7, 10), Fraction(4, 10)]


def test_a_line_of_another_history_is_not_before_those_that_were_written_after_its_loss(tmp_path: Path) -> None:
    """Who opened the ledger at line 3 writes after its loss. Line 3 comes back, and what was written then is lost."""
    path = tmp_path / "a.ledger"
    spend(path, "0.1")
    spend(path, "0.5")
    Path(f"{path}.anchor").unlink()
    ledger = sf.Ledger.open(path)
    with closing(sqlite3.connect(path)) as file:
        row = file.execute("SELECT * FROM lines WHERE number = 3").fetchone()
    edit(path, lose(2))
    ledger.account("clinic").charge(sf.Entry(sf.Curve.pure("0.3")))
    edit(path, lose(2), (f"INSERT INTO lines VALUES ({', '.join('?' * len(row))})", row))
    ledger.close()
    with sf.Ledger.open(path) as ledger:
        ledger.acknowledge(reason="the first one runs again")
        assert ledger.verify().holds
        assert ledger.account("clinic").remaining["pure"] == Fraction(1, 10)


def test_what_was_written_under_terms_that_another_has_amended_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    spend(path, "0.1")
    ledger = sf.Ledger.open(path)
    account = ledger.account("clinic")
    with sf.Ledger.open(path) as owner:
        owner.account("clinic").amend(reason="more", epsilon=2)
    account.correct(sf.Curve.pure("0.5"), reason="it was more")
    edit(path, lose(3))
    ledger.close()
    with sf.Ledger.open(path) as ledger:
        ledger.acknowledge(reason="restored")
        assert ledger.account("clinic").remaining["pure"] == Fraction(14, 10)


def test_the_reserve_is_fixed_once_something_is_spent(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "a.ledger") as ledger:
        account = ledger.account("clinic", unit=UNIT, budget=sf.Budget(1, "1e-6"))
        account.amend(reason="before anything was asked", reserve="5e-7")
        account.charge(sf.Entry(sf.Curve.pure("0.1")))
        with pytest.raises(sf.InvalidParameter, match="reserve"):
            account.amend(reason="later", reserve="1e-7")
        account.amend(reason="more of both", delta="2e-6")


def test_one_file_under_other_addresses_is_one_source(tmp_path: Path) -> None:
    data, link = tmp_path / "t.csv", tmp_path / "t2.csv"
    data.write_text("a\n1\n")
    os.link(data, link)
    os.utime(data, (1, 1))
    with sf.Ledger.open(tmp_path / "a.ledger") as ledger:
        ledger.account("one", unit=UNIT, budget=BUDGET).join(identify_file(data))
        other = ledger.account("two", unit=UNIT, budget=BUDGET)
        for address in (f"file://{data}", str(link)):
            with pytest.raises(sf.SourceTaken):
                other.join(identify_file(address))
