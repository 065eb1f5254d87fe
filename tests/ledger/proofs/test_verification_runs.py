"""Verification in parts: joints are compared, an interrupted run is resumed, and no forged checkpoint is believed."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import BEHIND, account, pure, script
from ledger.test_chain import edit
from sfumato.ledger import local_files
from sfumato.ledger.proofs import verification_runs
from sfumato.ledger.proofs.verification_runs import ForkedWorkers, VerificationCheckpoint, verify_part
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import NO_COST, RunningTotals, Spending
from sfumato.ledger.stores.store import Store
from sfumato.privacy import Cost

pytestmark = pytest.mark.filterwarnings(BEHIND)
LINES = 20


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of twenty lines, which is verified in four parts by one process."""
    monkeypatch.setattr(verification_runs, "LINES_PER_PART", 5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1))
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        for _ in range(LINES - 1):
            clinic.charge(pure("0.01", analyst="ana"))
    Path(f"{path}.anchor").unlink()
    return path


def read_rows(path: Path) -> list[Row]:
    with sf.Ledger.open(path) as ledger, ledger._guarded.reading() as transaction:
        return transaction.page({})


def replace_rows(path: Path, *rows: Row) -> None:
    edit(
        path,
        *(
            f"UPDATE lines SET time = {row.time}, salt = '{row.salt}', kind = '{row.kind}', detail = '{row.detail}', "
            f"cost = '{row.cost}', totals = '{row.totals}', own = '{row.own}', previous = '{row.previous}', "
            f"hash = '{row.hash}' WHERE number = {row.number}"
            for row in rows
        ),
    )


def reseal(rows: list[Row]) -> list[Row]:
    """Link each row to the one before and seal it, as a forger does; the first keeps its predecessor."""
    sealed_rows: list[Row] = []
    for row in rows:
        previous = sealed_rows[-1].hash if sealed_rows else row.previous
        sealed_rows.append(row._replace(previous=previous).sealed())
    return sealed_rows


def verify(path: Path, *, resume: bool = False) -> sf.ledger.Verification:
    with sf.Ledger.open(path) as ledger:
        return ledger.verify(resume=resume)


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (lambda rows: [rows[9]._replace(salt="0" * 32).sealed()], "does not follow"),
        (lambda rows: reseal([rows[10]._replace(previous=""), *rows[11:]]), "does not follow"),
        (lambda rows: reseal([rows[9]._replace(time=rows[10].time + 1), *rows[10:]]), "older"),
        (
            lambda rows: reseal(
                [
                    rows[9]._replace(
                        kind="moved", detail='{"moved": "x"}', cost="0 - 0", totals=rows[8].totals, own=rows[8].own
                    ),
                    *rows[10:],
                ]
            ),
            "sealed the ledger",
        ),
    ],
    ids=["another line", "no line", "a later line", "the last line of a moved ledger"],
)
def test_a_part_that_follows_another_line_is_named(
    path: Path, forge: Callable[[list[Row]], list[Row]], why: str
) -> None:
    """Each part is right by itself: only their joint shows that they do not belong together."""
    replace_rows(path, *forge(read_rows(path)))
    with sf.Ledger.open(path) as ledger:
        store = ledger._guarded.store
        assert verify_part(store, 5, 10).holds
        found = ledger.verify()
    assert found.bad == 11
    assert why in found.why


@pytest.mark.parametrize("place", [10, 12], ids=["first of a part", "inside a part"])
@pytest.mark.parametrize("column", ["totals", "own"])
def test_totals_are_compared_across_parts(path: Path, place: int, column: str) -> None:
    """A forger who seals everything anew has to forget a charge somewhere: at the first line of a part, too."""
    rows = read_rows(path)
    forged = rows[place]._replace(**{column: getattr(rows[place - 1], column)})
    replace_rows(path, *reseal([forged, *rows[place + 1 :]]))
    assert verify(path).bad == place + 1


def interrupt_after(lines: int) -> Callable[[str], None]:
    def progress(phase: str) -> None:
        if phase == f"checking lines: {lines} of {LINES}":
            raise KeyboardInterrupt

    return progress


def interrupted(path: Path) -> None:
    """Verify ten lines, until Ctrl-C."""
    with sf.Ledger.open(path) as ledger, pytest.raises(KeyboardInterrupt):
        ledger.verify(progress=interrupt_after(15))


def parts_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note after which line each part begins that is verified from now on."""
    starts: list[int] = []
    original = verification_runs.verify_part

    def noted(store: Store, after: int, until: int, *, files: bool = True) -> verification_runs.VerifiedPart:
        if files:  # opening the ledger reads the newest lines without their files
            starts.append(after)
        return original(store, after, until, files=files)

    monkeypatch.setattr(verification_runs, "verify_part", noted)
    return starts


def test_an_interrupted_run_is_resumed_and_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path)
    starts = parts_read(monkeypatch)
    found = verify(path, resume=True)
    assert starts == [10, 15]
    assert (found.holds, found.lines, found.resumed_lines) == (True, LINES, 10)
    assert "10 of them read by the interrupted run of 20" in str(found)
    starts.clear()
    again = verify(path, resume=True)  # it was finished: nothing is left to resume
    assert starts == [0, 5, 10, 15]
    assert (again.holds, again.resumed_since) == (True, None)
    assert "interrupted" not in str(again)


def test_a_run_that_is_not_resumed_reads_everything(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path)
    edit(path, "UPDATE lines SET question = 'x' WHERE number = 3")
    starts = parts_read(monkeypatch)
    assert verify(path).bad == 3
    assert starts == [0]


def forged_checkpoint(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Verify ten lines of an unchanged copy as another user, with a key of their own; return what that leaves."""
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "attacker"))
        interrupted(path)
        return next(local_files.verification_folder().glob("*.json"))


def test_a_checkpoint_without_the_seal_of_this_user_is_not_believed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = forged_checkpoint(path, tmp_path, monkeypatch)
    interrupted(path)  # this user has a key, too
    edit(path, "UPDATE lines SET question = 'x' WHERE number = 3")
    shutil.copy(forged, local_files.verification_folder() / forged.name)
    assert verify(path, resume=True).bad == 3


def test_a_key_that_others_can_read_or_write_seals_nothing(path: Path) -> None:
    interrupted(path)
    key = local_files.verification_folder() / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    for mode in (0o644, 0o620):
        key.chmod(mode)
        assert not local_files.is_private_file(key)
        with sf.Ledger.open(path) as ledger:
            assert VerificationCheckpoint.for_store(ledger._guarded.store).load() == ()
    key.chmod(0o600)
    key.parent.chmod(0o770)
    assert not local_files.is_private_file(key)


@pytest.mark.parametrize("text", ["", "x", "x\n[]", "\ud800"])
def test_a_damaged_checkpoint_is_no_checkpoint(path: Path, text: str) -> None:
    interrupted(path)
    with sf.Ledger.open(path) as ledger:
        checkpoint = VerificationCheckpoint.for_store(ledger._guarded.store)
        assert len(checkpoint.load()) == 2
        checkpoint.path.write_bytes(text.encode(errors="surrogatepass"))
        assert checkpoint.load() == ()


def test_a_checkpoint_belongs_to_one_ledger(path: Path, tmp_path: Path) -> None:
    """Another ledger in its place, whose lines are as many, is read whole."""
    interrupted(path)
    path.rename(tmp_path / "aside.db")
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        for _ in range(LINES - 1):
            clinic.charge(pure("0.01", analyst="ana"))
        assert ledger.verify(resume=True).resumed_lines == 0


def test_a_history_that_was_sealed_anew_is_read_again(path: Path) -> None:
    interrupted(path)
    rows = read_rows(path)
    replace_rows(path, *reseal([rows[7]._replace(salt="0" * 32), *rows[8:]]))
    found = verify(path, resume=True)
    assert (found.holds, found.resumed_lines) == (True, 5)


def test_a_part_whose_process_dies_is_verified_by_the_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    monkeypatch.setattr("threading.active_count", lambda: 1)
    taken: list[bytes] = []
    monkeypatch.setattr(ForkedWorkers, "start", lambda _self, queue, _work: taken.append(os.read(queue, 6)))
    edit(path, "UPDATE lines SET question = 'x' WHERE number = 8")
    assert verify(path).bad == 8
    assert [len(tasks) for tasks in taken] == [6]  # the store, and the parts from lines 1 and 6


def test_few_lines_start_no_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification_runs, "LINES_PER_PART", LINES)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was started"))
    assert verify(path).holds


def test_the_phases_of_a_verification_are_told(path: Path) -> None:
    phases: list[str] = []
    with sf.Ledger.open(path) as ledger:
        ledger.verify(progress=phases.append)
    counts = [f"checking lines: {done} of {LINES}" for done in range(0, LINES + 1, 5)]
    assert phases == [*counts, "checking pages and indexes"]


def _cost(generator: random.Random) -> Cost:
    kinds = [0, generator.randrange(10**31), Fraction(10**30, generator.choice([3, 7, 10**9]))]
    pure_loss = None if generator.random() < 0.05 else generator.choice(kinds)
    renyi = None if generator.random() < 0.1 else generator.randrange(10**31)
    return Cost(pure_loss, renyi, generator.choice(kinds))


def test_running_totals_are_what_spending_says() -> None:
    """Whole units, fractions, unbounded currencies and tabs in any order: the same text after every line."""
    generator = random.Random(7)
    for _ in range(40):
        spending = Spending()
        totals = RunningTotals(spending)
        held = NO_COST
        for _ in range(30):
            cost = NO_COST if generator.random() < 0.3 else _cost(generator)
            before, after = held, _cost(generator) if generator.random() < 0.2 else held
            spending, held = spending.after(cost, before, after), after
            assert totals.add_line(cost, before, after) == totals.text == str(spending)


IN_TWO_PROCESSES = """
import os, sys, sfumato as sf
from sfumato.ledger.proofs import verification_runs
verification_runs.LINES_PER_PART = 2
os.sched_getaffinity = lambda _: range(3)

def interrupt(phase):
    if not phase.startswith("checking lines: 0 of"):
        raise KeyboardInterrupt

with sf.Ledger.open(sys.argv[1]) as ledger:
    try:
        ledger.verify(progress=interrupt)
    except KeyboardInterrupt:
        print("interrupted")
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no process is left")
    print(ledger.verify())
"""


def test_an_interrupted_run_leaves_no_process(path: Path) -> None:
    printed = script(IN_TWO_PROCESSES, path).stdout.splitlines()
    assert printed == ["interrupted", "no process is left", f"{LINES} lines, all as they were written"]
