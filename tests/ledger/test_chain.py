"""The chain: any edit is named, an end that was cut off is known to the anchor, copies and exports are whole."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from functools import cache
from pathlib import Path

import pyarrow.ipc as ipc
import pytest

import sfumato as sf
from ledger.small_accounts import BEHIND, account, pure, script
from sfumato.engine.sources.inspected_tables import identify_file
from sfumato.ledger.proofs.verification_runs import CHECKPOINT
from sfumato.ledger.sealed_rows import COLUMNS, Row
from sfumato.ledger.stores.sqlite import MIGRATIONS
from sfumato.untrusted import escape_for_spreadsheet

pytestmark = pytest.mark.filterwarnings(BEHIND)


@cache
def _busy(folder: Path) -> bytes:
    path = folder / "busy.db"
    _make_busy(path)
    return path.read_bytes()


@pytest.fixture
def busy_ledger(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Writes a ledger with a line of every kind, closed, without an anchor beside it."""
    data = _busy(tmp_path_factory.getbasetemp())
    return lambda path: path.write_bytes(data) and None


def _make_busy(path: Path) -> None:
    with sf.Ledger.open(path) as ledger:
        clinic, other = account(ledger, sf.Budget(3, "1e-6")), account(ledger, sf.Budget(2), "other")
        clinic.analyst("ana", share="0.5")
        (path.parent / "data.csv").write_text("a,b\n")
        clinic.join(identify_file(path.parent / "data.csv"))
        for turn in range(12):
            noise = sf.Laplace(scale=100 + turn)
            entry = sf.Entry(sf.Charged(noise, 1), f"question {turn}", f"p{turn % 3}", "v", "ana", f"r{turn}")
            clinic.answer(clinic.charge(entry), json.dumps({"n": turn}), {"n": 5 + turn})
            other.charge(pure("0.01"))
        with clinic.open_tab(pure("0.5", analyst="ana")) as tab:
            tab.step(pure("0.2"))
        other.open_tab(pure("0.25"))
        clinic.correct(sf.Curve.pure("0.001"), reason="found later")
        clinic.amend(epsilon=4, reason="agreed")
    Path(f"{path}.anchor").unlink()


def everything(path: Path) -> object:
    """All that can be read back, through every way of finding it."""
    with sf.Ledger.open(path) as ledger:
        found: list[object] = [list(ledger), ledger.accounts]
        for name in ("clinic", "other"):
            one = ledger.account(name)
            found += [one.budget, one.spent, one.sources, one.open_tabs(), one.analyst("ana")]
            found += [list(ledger.lines(account=name)), list(ledger.lines(account=name, analyst="ana"))]
            found += [one.stored(plan=f"p{turn}", data="v") for turn in range(3)]
            found += [one.requested(f"r{turn}", analyst="ana") for turn in range(12)]
        return found


def test_a_whole_ledger_verifies(tmp_path: Path, busy_ledger: Callable[[Path], None]) -> None:
    busy_ledger(tmp_path / "a")
    with sf.Ledger.open(tmp_path / "a") as ledger:
        report = ledger.verify()
        kinds = {line.kind for line in ledger}
    assert report.holds
    assert "lines, all as they were written" in str(report)
    assert kinds >= {"account-open", "charge", "answer", "correction", "tab-open", "step", "tab-close", "amend"}


def damage(data: bytearray, generator: random.Random) -> None:
    """One change somewhere: a bit, a byte, a stretch of zeros, two stretches exchanged, an end cut off."""
    kind, at = generator.randrange(10), generator.randrange(len(data))
    while not data[at] and generator.random() < 0.9:  # mostly where something is written
        at = generator.randrange(len(data))
    if kind < 5:
        data[at] ^= 1 << generator.randrange(8)
    elif kind < 7:
        data[at] = generator.randrange(256)
    elif kind == 7:
        data[at : at + 16] = bytes(len(data[at : at + 16]))
    elif kind == 8:
        page, other = (generator.randrange(len(data) // 4096) * 4096 for _ in range(2))
        data[page : page + 4096], data[other : other + 4096] = data[other : other + 4096], data[page : page + 4096]
    else:
        del data[at:]


def test_nothing_read_back_is_changed_without_verify_saying_so(
    tmp_path: Path, long: bool, busy_ledger: Callable[[Path], None]
) -> None:
    """Most changes fall into lines; some into indexes, the schema, unused bytes. None may pass silently."""
    original, generator = tmp_path / "original", random.Random(20)
    busy_ledger(original)
    wanted, data = everything(original), original.read_bytes()
    noticed = harmless = 0
    for turn in range(200 if long else 60):
        path = tmp_path / f"{turn}.db"
        changed = bytearray(data)
        damage(changed, generator)
        path.write_bytes(changed)
        if _notices(path):
            noticed += 1
        else:
            assert everything(path) == wanted, turn
            harmless += 1
    assert noticed > 20
    assert noticed + harmless == (200 if long else 60)


def _notices(path: Path) -> bool:
    try:
        with sf.Ledger.open(path) as ledger:
            return not ledger.verify().holds
    except sf.LedgerUnavailable:
        return True


def edit(path: Path, *statements: str) -> None:
    """Change lines behind the ledger's back, its triggers out of the way and put back again."""
    triggers = [text for text in MIGRATIONS[0] if "TRIGGER no_" in text]
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for name in ("no_update", "no_delete"):
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(statement)
        for text in triggers:
            raw.execute(text)


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_is_covered(tmp_path: Path, column: str, busy_ledger: Callable[[Path], None]) -> None:
    path = tmp_path / "a"
    busy_ledger(path)
    value = 77777 if isinstance(getattr(Row(), column), int) else "'x'"
    edit(path, f"UPDATE lines SET {column} = {value} WHERE number = 20")
    with sf.Ledger.open(path) as ledger:
        report = ledger.verify()
        assert (report.holds, report.bad) == (False, 21 if column == "number" else 20)
        with pytest.raises(sf.LedgerDamaged):
            ledger.account("clinic").charge(pure("0.001"))


@pytest.mark.parametrize(
    ("statement", "bad"),
    [
        ("DELETE FROM lines WHERE number = 20", 21),
        ("DELETE FROM lines WHERE number = 1", 2),
        ("UPDATE lines SET number = -number WHERE number IN (20, 21)", -21),
        ("DROP INDEX by_account", None),
        ("DROP INDEX by_plan", None),
        ("CREATE TABLE extra (a)", None),
        ("CREATE TRIGGER forget AFTER INSERT ON lines BEGIN UPDATE lines SET cost = '0 0 0'; END", None),
    ],
)
def test_lines_and_indexes_that_are_missing_or_moved_are_named(
    tmp_path: Path, statement: str, bad: int | None, busy_ledger: Callable[[Path], None]
) -> None:
    path = tmp_path / "a"
    busy_ledger(path)
    edit(path, statement)
    with sf.Ledger.open(path) as ledger:
        with pytest.raises(sf.LedgerDamaged):
            ledger.account("other").charge(pure("0.001"))
        report = ledger.verify()
        assert (report.holds, report.bad) == (False, bad)
        assert str(report).startswith("the ledger is damaged" if bad is None else f"line {bad} is damaged")


def resealed(path: Path, first: int, change: Callable[[Row], Row], *, until: int | None = None) -> None:
    """What a careful forger does: change a line and recompute the hashes from there on."""
    with closing(sqlite3.connect(path)) as raw:
        rows = [Row._make(values) for values in raw.execute("SELECT * FROM lines ORDER BY number")]
    previous = None
    updates = []
    for row in rows[first - 1 : until]:
        new = change(row) if row.number == first else row
        new = new._replace(previous=previous or new.previous)
        new = new._replace(hash=new.compute_seal())
        previous = new.hash
        updates.append(
            "UPDATE lines SET "
            + ", ".join(
                f"{name} = '{getattr(new, name)}'" for name in ("cost", "totals", "own", "previous", "hash", "share")
            )
            + f" WHERE number = {new.number}"
        )
    edit(path, *updates)


def test_a_line_resealed_alone_breaks_the_next(tmp_path: Path, busy_ledger: Callable[[Path], None]) -> None:
    path = tmp_path / "a"
    busy_ledger(path)
    resealed(path, 20, lambda row: row._replace(question="another"), until=20)
    resealed(path, 20, lambda row: row._replace(cost="0 0 0"), until=20)
    with sf.Ledger.open(path) as ledger:
        assert ledger.verify().bad in {20, 21}


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row._replace(cost="0 0 0"),
        lambda row: row._replace(totals="0 0 0 0 - 0 0"),
        lambda row: row._replace(own="0 0 0 0 - 0 0"),
        lambda row: row._replace(share="1"),
        lambda row: row._replace(cost="nonsense"),
        lambda row: row._replace(cost="-5 0 0"),
    ],
)
def test_a_chain_resealed_to_its_end_still_has_to_add_up(
    tmp_path: Path, change: Callable[[Row], Row], busy_ledger: Callable[[Path], None]
) -> None:
    path = tmp_path / "a"
    busy_ledger(path)
    with sf.Ledger.open(path) as ledger:
        first = next(line.number for line in ledger if line.kind == "charge" and line.account == "clinic")
    resealed(path, first, change)
    with sf.Ledger.open(path) as ledger:
        assert ledger.verify().bad == first


def test_opening_verifies_from_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_ledger: Callable[[Path], None]
) -> None:
    """Damage since it stops charging at once; older damage is verify's to find."""
    monkeypatch.setattr("sfumato.ledger.proofs.verification_runs.CHECKPOINT", 10)
    path = tmp_path / "a"
    busy_ledger(path)
    with sf.Ledger.open(path) as ledger:
        last = ledger.anchor().number
        ledger.account("clinic").charge(pure("0.001", analyst="ana"))
        assert ledger.verify().holds
    Path(f"{path}.anchor").unlink()
    old, recent = tmp_path / "old", tmp_path / "recent"
    shutil.copy(path, old)
    shutil.copy(path, recent)
    edit(recent, f"UPDATE lines SET question = 'x' WHERE number = {last}")
    edit(old, "UPDATE lines SET question = 'x' WHERE number = 7")
    with sf.Ledger.open(recent) as ledger, pytest.raises(sf.LedgerDamaged) as refusal:
        ledger.account("other").charge(pure("0.001"))
    assert refusal.value.number == last
    with sf.Ledger.open(old) as ledger:
        ledger.account("other").charge(pure("0.001"))
        assert ledger.verify().bad == 7
        with pytest.raises(sf.LedgerDamaged):
            ledger.account("other").charge(pure("0.001"))
    assert CHECKPOINT == 1000


IN_PARTS = """
import sys, sfumato as sf
from sfumato.ledger.proofs import verification_runs
verification_runs.LINES_PER_PART = 10
verification_runs.os.sched_getaffinity = lambda _: range(4)
for path in sys.argv[1:]:
    found = sf.Ledger.open(path).verify()
    print(found.lines, found.bad)
"""


def test_many_lines_are_verified_in_parts_and_the_first_fault_is_named(
    tmp_path: Path, busy_ledger: Callable[[Path], None]
) -> None:
    """Four processes, each a stretch; also across the seams, where answers, tabs and shares reach back."""
    path = tmp_path / "a"
    busy_ledger(path)
    with sf.Ledger.open(path) as ledger:
        last = ledger.anchor().number
    numbers = (1, 2, 13, 14, 15, 27, 28, 41, 42, last)
    copies = [tmp_path / f"{number}" for number in numbers]
    for number, copy in zip(numbers, copies, strict=True):
        shutil.copy(path, copy)
        edit(copy, f"UPDATE lines SET question = 'x' WHERE number >= {number}")
    with sf.Ledger.open(path) as ledger:
        answer = next(line.number for line in ledger.lines() if line.kind == "answer" and line.number > 30)
    twice = tmp_path / "twice"
    shutil.copy(path, twice)
    resealed(twice, answer, lambda row: row._replace(about=6))
    found = [text.split() for text in script(IN_PARTS, path, twice, *copies).stdout.splitlines()]
    assert found[0] == [f"{last}", "None"]
    assert found[1][1] == f"{answer}"
    assert [bad for _, bad in found[2:]] == [f"{number}" for number in numbers]


def test_lines_cannot_be_changed_through_sqlite_by_accident(
    tmp_path: Path, busy_ledger: Callable[[Path], None]
) -> None:
    busy_ledger(tmp_path / "a")
    with closing(sqlite3.connect(tmp_path / "a")) as raw:
        for statement in ("UPDATE lines SET cost = '0 0 0'", "DELETE FROM lines", "INSERT INTO lines DEFAULT VALUES"):
            with pytest.raises(sqlite3.IntegrityError):
                raw.execute(statement)


# ── anchors ────────────────────────────────────────────────────────────────────────────────────────


def test_a_ledger_behind_the_anchor_beside_it_refuses_until_acknowledged(tmp_path: Path) -> None:
    path, old = tmp_path / "ledger.db", tmp_path / "old.db"
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        clinic.charge(pure("0.2"))
        ledger.backup(old)
        clinic.charge(pure("0.5"))
        clinic.open_tab(pure("0.1"))  # its process ends with the hold open
    shutil.copy(old, path)
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        for write in (
            lambda: clinic.charge(pure("0.1")),
            lambda: clinic.open_tab(pure("0.1")),
            lambda: account(ledger, name="new"),
            lambda: clinic.correct(sf.Curve.pure(1), reason="x"),
        ):
            with pytest.raises(sf.LedgerBehind, match="acknowledge"):
                write()
        assert ledger.verify().bad == 4
        with pytest.raises(sf.InvalidParameter, match="reason"):
            ledger.acknowledge(reason="")
        (line,) = ledger.acknowledge(reason="restored after the fire")
        assert (line.kind, line.question) == ("acknowledge", "restored after the fire")
        assert clinic.remaining == {"pure": Fraction(1, 5)}  # 0.2 + 0.5 spent, 0.1 held: all of it counts
        clinic.charge(pure("0.2"))
        assert ledger.verify().holds
    with sf.Ledger.open(path) as ledger:
        assert account(ledger).remaining == {"pure": 0}
        assert ledger.acknowledge(ledger.anchor(), reason="nothing to accept") == ()


def test_an_anchor_kept_elsewhere_knows_a_rewritten_ledger(tmp_path: Path) -> None:
    path, kept = tmp_path / "ledger.db", tmp_path / "kept.json"
    with sf.Ledger.open(path) as ledger:
        account(ledger).charge(pure("0.8"))
        ledger.anchor().save(kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for name in ("ledger.db", "ledger.db.anchor"):
        (tmp_path / name).unlink()
    with sf.Ledger.open(path) as ledger:
        account(ledger).charge(pure("0.1"))
    with sf.Ledger.open(path, anchor=kept) as ledger:
        with pytest.raises(sf.LedgerBehind):
            account(ledger).charge(pure("0.1"))
        ledger.acknowledge(reason="the disk was lost")
        assert account(ledger).remaining == {"pure": Fraction(1, 10)}  # both histories were spent
    with sf.Ledger.open(path, anchor=sf.Anchor.load(kept)) as ledger:
        account(ledger).charge(pure("0.1"))


def test_an_anchor_reopens_accounts_that_were_lost(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        account(ledger, sf.Budget(1, "1e-6")).charge(sf.Entry(sf.Curve.gaussian(20)))
        before = account(ledger, sf.Budget(1, "1e-6")).budget
    path.unlink()
    with sf.Ledger.open(path) as ledger:
        with pytest.raises(sf.LedgerBehind):
            account(ledger)
        ledger.acknowledge(reason="deleted by mistake")
        assert ledger.account("clinic").budget == before
        assert ledger.verify().holds


def test_a_process_notices_when_its_own_lines_vanish(tmp_path: Path) -> None:
    """Even without an anchor file, and even when the file keeps its place on the disk."""
    path = tmp_path / "ledger.db"
    ledger = sf.Ledger.open(path)
    clinic = account(ledger)
    clinic.charge(pure())
    edit(path, "DELETE FROM lines WHERE number = 2")
    with pytest.raises(sf.LedgerBehind):
        clinic.charge(pure())
    ledger.close()


BAD_ANCHORS = [
    '{"version":1,"type":"Anchor","number":-1,"hash":"x"}',
    '{"version":1,"type":"Anchor","number":3,"hash":"' + "a" * 64 + '","accounts":[]}',
    '{"version":1,"type":"Anchor","number":3,"hash":"' + "a" * 64 + '","accounts":[3]}',
    '{"version":1,"type":"Anchor","number":3,"hash":"' + "a" * 64 + '","accounts":7}',
]


def test_a_bad_anchor_file_is_a_clear_refusal(tmp_path: Path) -> None:
    for text in ("", "{}", "nonsense", sf.dumps(sf.Budget(1)), *BAD_ANCHORS):
        (tmp_path / "a.anchor").write_text(text)
        with pytest.raises(sf.LedgerUnavailable, match=r"anchor, .* cannot be read"):
            sf.Ledger.open(tmp_path / "a")
    with pytest.raises(sf.LedgerUnavailable):
        sf.Ledger.open(tmp_path / "b", anchor=tmp_path / "missing")


def test_an_anchor_has_one_json_form(tmp_path: Path, busy_ledger: Callable[[Path], None]) -> None:
    busy_ledger(tmp_path / "a")
    with sf.Ledger.open(tmp_path / "a") as ledger:
        anchor = ledger.anchor()
    assert sf.loads(sf.dumps(anchor)) == anchor
    assert [known.name for known in anchor.accounts] == ["clinic", "other"]


# ── copies ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_is_whole_private_and_never_overwrites(tmp_path: Path, busy_ledger: Callable[[Path], None]) -> None:
    busy_ledger(tmp_path / "a")
    with sf.Ledger.open(tmp_path / "a") as ledger:
        ledger.backup(tmp_path / "copy")
        with pytest.raises(sf.LedgerUnavailable, match="never overwrites"):
            ledger.backup(tmp_path / "copy")
        with pytest.raises(sf.LedgerUnavailable, match="folder"):
            ledger.backup(tmp_path / "missing" / "copy")
        lines = list(ledger)
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["a", "copy"]
    with sf.Ledger.open(tmp_path / "copy") as copy:
        assert list(copy) == lines
        assert copy.verify().holds
        copy.account("clinic").charge(pure("0.001"))


def test_exports_say_the_same_in_every_form(tmp_path: Path, busy_ledger: Callable[[Path], None]) -> None:
    busy_ledger(tmp_path / "a")
    with sf.Ledger.open(tmp_path / "a") as ledger:
        account(ledger, sf.Budget(2), "other").charge(pure("0.01", question='=HYPERLINK("http://x")', analyst="@bob"))
        for form in ("json", "csv"):
            ledger.export(form, tmp_path / form)
            assert stat.S_IMODE((tmp_path / form).stat().st_mode) == 0o600
            with pytest.raises(sf.LedgerUnavailable):
                ledger.export(form, tmp_path / form)
        with pytest.raises(sf.InvalidParameter, match="arrow, csv, json"):
            ledger.export("xml", tmp_path / "xml")
        lines = list(ledger)
    found = json.loads((tmp_path / "json").read_text())
    assert [each["hash"] for each in found] == [line.hash for line in lines]
    assert Fraction(found[-1]["cost_pure"]) == Fraction(1, 100)
    with open(tmp_path / "csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["hash"] for row in rows] == [line.hash for line in lines]
    assert rows[-1]["question"] == '\'=HYPERLINK("http://x")'
    assert rows[-1]["analyst"] == "'@bob"
    assert found[-1]["question"] == '=HYPERLINK("http://x")'


@pytest.mark.parametrize(
    "question", ["=1+1", "+1", "-1", "@x", "\t=1+1", "\r=1", "\x1b[31mred", "a\u202eb", "one\ntwo"]
)
def test_exported_tables_hold_texts_as_answers_do(
    tmp_path: Path, busy_ledger: Callable[[Path], None], question: str
) -> None:
    """Escapes of a terminal and hidden letters were written as they are; answers defuse them."""
    busy_ledger(tmp_path / "a")
    with sf.Ledger.open(tmp_path / "a") as ledger:
        account(ledger, sf.Budget(2), "other").charge(pure("0.01", question=question))
        ledger.export("csv", tmp_path / "csv")
    with open(tmp_path / "csv", newline="") as file:
        cell = list(csv.DictReader(file))[-1]["question"]
    assert cell == escape_for_spreadsheet(question)
    assert cell.isprintable()
    assert not cell.startswith(("=", "+", "-", "@"))


def test_export_to_arrow(tmp_path: Path, busy_ledger: Callable[[Path], None]) -> None:
    busy_ledger(tmp_path / "a")
    with sf.Ledger.open(tmp_path / "a") as ledger:
        ledger.export("arrow", tmp_path / "arrow")
        ledger.export("json", tmp_path / "json")
    with ipc.open_file(tmp_path / "arrow") as reader:
        assert reader.read_all().to_pylist() == json.loads((tmp_path / "json").read_text())
