"""Crashes: killed at every write and sync, killed at random, and a disk that forgets whatever was not synced.

A killed process leaves the page cache intact, so killing alone would not notice a missing sync: the trace of system
calls is therefore also replayed onto an imaginary disk that keeps only what was synced.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure, script
from sfumato.release import releasing
from sfumato.release.measured import DeclaredGroupsRelease
from sfumato.release.prices import Price
from sfumato.release.pricing import price_release

SYSTEM_CALLS = {
    "pwrite": ("pwrite64",),
    "write": ("write",),
    "sync": ("fsync", "fdatasync"),
    "truncate": ("truncate", "ftruncate"),
    "unlink": ("unlink", "unlinkat"),
    "rename": ("rename", "renameat", "renameat2"),
    "mkdir": ("mkdir", "mkdirat"),
    "link": ("link", "linkat"),
}
"""System calls that change a disk, by family: which of one family a C library makes differs by processor."""

STRACE = shutil.which("strace")
traced = pytest.mark.skipif(STRACE is None, reason="strace is not installed: fault points at system calls NOT tested")

CHARGE_AND_ANSWER = """
import os, sys, sfumato as sf
from ledger.small_accounts import account, pure
ledger = sf.Ledger.open(sys.argv[1])
clinic = account(ledger)
question = clinic.ask(pure("0.1", plan="p", data="v", request_id="r"), {})
assert question.begin() is None
os.write(1, b"charged\\n")
clinic.answer(question.line, '"body"', {})
os.write(1, b"shown\\n")
if sys.argv[2] == "close":
    ledger.close()
os._exit(0)
"""

LARGE_ANSWER = CHARGE_AND_ANSWER.replace("'\"body\"'", "'x' * 100_000")

FORKING = """
import os, sys, tempfile
import ledger.small_accounts
code, folder = sys.argv[1:]
names = os.open(folder, os.O_RDONLY)
file, path = tempfile.mkstemp(dir=folder)
gone = os.path.join(folder, "gone")

def fails(change, *given, **more):
    try:
        change(*given, **more)
    except OSError:
        pass

IDLE = {
    "pwrite64": lambda: os.pwrite(file, b"", 0),
    "write": lambda: os.write(file, b""),
    "fsync": lambda: os.fsync(file),
    "fdatasync": lambda: os.fdatasync(file),
    "truncate": lambda: os.truncate(path, 0),
    "ftruncate": lambda: os.ftruncate(file, 0),
    "unlink": lambda: fails(os.unlink, gone),
    "unlinkat": lambda: fails(os.unlink, "gone", dir_fd=names),
    "rename": lambda: fails(os.rename, gone, gone),
    "renameat": lambda: fails(os.rename, "gone", "gone", src_dir_fd=names, dst_dir_fd=names),
    "renameat2": lambda: fails(os.rename, "gone", "gone", src_dir_fd=names, dst_dir_fd=names),
    "mkdir": lambda: fails(os.mkdir, folder),
    "mkdirat": lambda: fails(os.mkdir, folder),
}
sys.argv = ["-c", os.path.join(folder, "whole.db"), "close"]
exec(code.replace("os._exit(0)", ""))
for line in sys.stdin:
    call, idle, ledger_path, output = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 1)
        for _ in range(int(idle)):
            IDLE[call]()
        sys.argv = ["-c", ledger_path, "close"]
        exec(code)
    sys.stderr.write(f"{os.waitpid(child, 0)[1]}\\n")
"""
"""Runs some code in a forked child for each line that it reads; once before, so that all that it imports is there. All
children are killed at one number of calls, which strace counts in each by itself: idle calls come before.
"""


def check(path: Path, output: str) -> None:
    """What must hold after any crash: whatever was said is on disk, nothing is answered that was not charged."""
    with sf.Ledger.open(path) as ledger:
        assert ledger.verify().holds
        kinds = [line.kind for line in ledger]
        assert kinds in (
            [],
            ["account-open"],
            ["account-open", "charge"],
            ["account-open", "charge", "answer"],
        )
        assert "charged" not in output or "charge" in kinds
        assert "shown" not in output or "answer" in kinds
        clinic = account(ledger)
        stored = clinic.requested("r", plan="p")
        assert (stored is not None) is ("answer" in kinds)
        again = clinic.ask(pure("0.1", plan="p", data="v", request_id="r"), {})
        if kinds[-1:] == ["charge"]:  # a payer that died is not waited for, and its request is not charged again
            with pytest.raises(sf.Unanswered):
                again.begin(0)
            assert clinic.spent["pure"] == Fraction(1, 10)
        else:
            assert (again.begin(0) is not None) is ("answer" in kinds)
        assert ("stopped" in {line.kind for line in ledger}) is (kinds[-1:] == ["charge"])
        assert ledger.verify().holds


def system_calls(*families: str) -> str:
    """The families' calls as strace takes them; "?" stands before one that this processor may not have."""
    return ",".join(f"?{call}" for family in families for call in SYSTEM_CALLS[family])


def fault_points(code: str, path: Path, families: Sequence[str], folder: Path) -> Counter[str]:
    """Count the calls of some families that one run makes."""
    log = folder / "count"
    wrap = (str(STRACE), "-f", "-qq", "-o", str(log), "-e", f"trace={system_calls(*families)}")
    script(code, path, "close", wrap=wrap)
    calls = Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))
    for each in families:
        missing = f"no call of the family {each!r} was made: fault points there are NOT tested on this machine"
        assert not calls.keys().isdisjoint(SYSTEM_CALLS[each]), missing
    return calls


Killed = dict[str, dict[int, tuple[Path, str]]]
"""By system call, and by which of them was the last: a ledger, and what was said before."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, long: bool) -> Callable[..., Killed]:
    """Runs some code until each call of some families in turn, once for all tests."""
    return cache(
        lambda code, *families: _killed_everywhere(code, families, tmp_path_factory.mktemp("killed"), long=long)
    )


CHANGING = tuple(each for each in SYSTEM_CALLS if each != "link")


@traced
@pytest.mark.parametrize("family", CHANGING)
def test_killed_at_every_system_call_that_changes_a_disk(family: str, killed: Callable[..., Killed]) -> None:
    """Before the n-th call for every n; after it is before the next. By default for every second n, about ten at
    most, and the last, into an account that is open.
    """
    assert _checked(killed(CHARGE_AND_ANSWER, *CHANGING), family)


LARGE = ("write", "sync", "rename", "mkdir")


@traced
@pytest.mark.parametrize("family", LARGE)
def test_killed_at_every_such_call_while_a_large_answer_is_written(family: str, killed: Callable[..., Killed]) -> None:
    """The file is there before its line: no line ever refers to an answer that is not on disk."""
    assert _checked(killed(LARGE_ANSWER, *LARGE), family) > 1


def _checked(killed: Killed, family: str) -> int:
    """Return at how many calls of a family a process was killed, after each of which its ledger is whole."""
    found = [each for call in SYSTEM_CALLS[family] for each in killed.get(call, {}).values()]
    for path, said in found:
        check(path, said)
    return len(found)


BACKUP = CHARGE_AND_ANSWER.replace("if sys.argv[2]", "ledger.backup(sys.argv[1] + '.copy')\nif sys.argv[2]")


@traced
def test_killed_before_a_backup_gets_its_name(tmp_path: Path) -> None:
    """A copy is linked under its name when it is whole: before that there is none, and the ledger is as it was."""
    _prepare(tmp_path / "count.db")
    calls = fault_points(BACKUP, tmp_path / "count.db", ["link"], tmp_path)
    assert (tmp_path / "count.db.copy").exists()
    assert sum(calls.values()) == 1
    (call,) = calls
    path = tmp_path / "ledger.db"
    _prepare(path)
    wrap = (
        str(STRACE),
        "-f",
        "-qq",
        "-o",
        os.devnull,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:signal=KILL:when=1",
    )
    done = script(BACKUP, path, "close", wrap=wrap, check=False)
    assert done.returncode != 0
    assert not Path(f"{path}.copy").exists()
    check(path, done.stdout)


def _killed_everywhere(code: str, families: Sequence[str], folder: Path, *, long: bool) -> Killed:
    first, count = folder / "first.db", folder / "count.db"
    _prepare(first)
    if not long:
        shutil.copy(first, count)
    paths: dict[tuple[str, int], Path] = {}
    calls = fault_points(code, count, families, folder)
    for call, many in calls.items():
        for point in range(1, many + 1) if long else sorted({*range(1, many + 1, max(2, many // 10)), many}):
            path = paths[call, point] = folder / f"{call}-{point}" / "ledger.db"
            path.parent.mkdir()
            if not long:
                shutil.copy(first, path)
    found: Killed = defaultdict(dict)
    for (call, point), said in _killed_at(paths, calls, code, folder).items():
        found[call][point] = paths[call, point], said
    return dict(found)


def _killed_at(
    paths: dict[tuple[str, int], Path], calls: Counter[str], code: str, folder: Path
) -> dict[tuple[str, int], str]:
    """Return what the code said until it was killed before the n-th call, for each such place, on its own ledger."""
    outputs = {where: path.with_name("output") for where, path in paths.items()}
    last = {call: many + 100 for call, many in calls.items()}  # the process that forks makes fewer
    asked = (f"{call}\t{last[call] - point}\t{path}\t{outputs[call, point]}\n" for (call, point), path in paths.items())
    injected = (part for call in calls for part in ("-e", f"inject={call}:signal=KILL:when={last[call]}"))
    wrap = (str(STRACE), "-f", "-qq", "-o", os.devnull, "-e", f"trace={','.join(calls)}", *injected)
    done = script(FORKING, code, folder, wrap=wrap, given="".join(asked))
    assert done.stderr.split() == [str(int(signal.SIGKILL))] * len(paths), done.stderr
    return {where: output.read_text() for where, output in outputs.items()}


ON_DISK = re.compile(
    r'(write|pwrite64|fsync|fdatasync)\(\d+<[^>]*ledger\.db(-wal|\.answers)([^>]*)>|"(shown)\\n"|(rename)(?:at2?)?\('
)


@traced
def test_a_large_answer_is_synced_before_its_line_and_shown_after(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    traced_calls = system_calls("pwrite", "write", "sync", "rename")
    wrap = (str(STRACE), "-f", "-qq", "-y", "-o", str(trace), "-e", f"trace={traced_calls}")
    script(LARGE_ANSWER, tmp_path / "ledger.db", "die", wrap=wrap)
    said = trace.read_text()
    calls = [found.groups() for found in ON_DISK.finditer(said[said.index('"charged') :])]
    kinds = ["".join(each or "" for each in (call[0], call[1] and call[1][1:], call[3], call[4])) for call in calls]
    order = [kind for index, kind in enumerate(kinds) if kind not in kinds[:index] or kind.startswith("fsync")]
    assert order == ["writeanswers", "fsyncanswers", "rename", "fsyncanswers", "pwrite64wal", *order[5:]]
    assert kinds.index("shown") > max(index for index, kind in enumerate(kinds) if kind.endswith("wal"))


def _prepare(path: Path) -> None:
    with sf.Ledger.open(path) as ledger:
        account(ledger)
    path.with_name(f"{path.name}.anchor").unlink()


# ── a disk that forgets ────────────────────────────────────────────────────────────────────────────


@dataclass
class Disk:
    """Files as they would be found after the power failed: only synced writes, only synced names."""

    synced: dict[str, bytes] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    _now: dict[str, bytearray] = field(default_factory=dict)

    def write(self, path: str, data: bytes, offset: int) -> None:
        file = self._now.setdefault(path, bytearray(self.synced.get(path, b"")))
        file.extend(b"\0" * (offset + len(data) - len(file)))
        file[offset : offset + len(data)] = data

    def sync(self, path: str) -> None:
        if Path(path).is_dir():
            self.named |= {name for name in {*self._now, *self.synced} if os.path.dirname(name) == path}
        else:
            self.synced[path] = bytes(self._now.get(path, bytearray(self.synced.get(path, b""))))

    def files(self) -> dict[str, bytes]:
        return {path: data for path, data in self.synced.items() if path in self.named}


LINE = re.compile(r'\d+ +(pwrite64|write|fsync|fdatasync)\(\d+<([^>]*)>(?:, "((?:\\x..)*)", \d+(?:, (\d+))?)?\)')


def replay(trace: Path, disk: Disk) -> Iterator[str]:
    """Every call in turn, applied to the disk; yields what has been said so far."""
    said = ""
    for text in trace.read_text().splitlines():
        found = LINE.match(text)
        if not found:
            continue
        call, written, data, offset = found.groups()
        path = _plain(written).decode()
        if call == "write":
            said += _plain(data).decode(errors="replace") if "pipe" in path else ""
        elif call == "pwrite64":
            disk.write(path, _plain(data), int(offset))
        else:
            disk.sync(path)
        yield said


def _plain(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


@traced
def test_what_was_said_survives_a_disk_that_forgets_unsynced_writes(tmp_path: Path) -> None:
    _survives(CHARGE_AND_ANSWER, tmp_path)


@traced
def test_a_ledger_that_does_not_sync_is_caught(tmp_path: Path) -> None:
    careless = 'ledger._guarded.store._connection.execute("PRAGMA synchronous = NORMAL")'
    with pytest.raises(AssertionError):
        _survives(CHARGE_AND_ANSWER.replace("question = ", f"{careless}\nquestion = "), tmp_path)


def _survives(code: str, tmp_path: Path) -> None:
    path, after = tmp_path / "ledger.db", tmp_path / "after"
    _prepare(path)
    disk = Disk({str(path): path.read_bytes()}, {str(path)})
    trace = tmp_path / "trace"
    wrap = (str(STRACE), "-f", "-qq", "-y", "-xx", "-s", "100000", "-o", str(trace))
    wrap += ("-e", "trace=pwrite64,write,fsync,fdatasync")
    script(code, path, "die", wrap=wrap)
    seen = set()
    for said in replay(trace, disk):
        files = disk.files()
        state = (said, hash(tuple(files.items())))
        if state in seen:
            continue
        seen.add(state)
        shutil.rmtree(after, ignore_errors=True)
        after.mkdir()
        for name, data in files.items():
            (after / os.path.basename(name)).write_bytes(data)
        check(after / "ledger.db", said)
    assert len({said for said, _ in seen}) == 3  # nothing, charged, shown


SYNCED = """
import os, sys, threading, sfumato as sf
from ledger.small_accounts import account, pure
ledger = sf.Ledger.open(sys.argv[1])
clinic = account(ledger)
def charge():
    os.write(1, b"begin\\n")
    clinic.charge(pure("0.001"))
    os.write(1, b"done\\n")
charge()
thread = threading.Thread(target=charge); thread.start(); thread.join()
child = os.fork()
if child == 0:
    charge()
    os._exit(0)
os.waitpid(child, 0)
charge()
other = account(sf.Ledger.open(sys.argv[1]))
ledger, clinic = None, other
charge()
tab = clinic.open_tab(pure("0.1"))
os.write(1, b"begin\\n"); line = tab.step(pure("0.01")); os.write(1, b"done\\n")
os.write(1, b"begin\\n"); clinic.answer(line, "1", {}); os.write(1, b"done\\n")
os.write(1, b"begin\\n"); tab.stop(); os.write(1, b"done\\n")
"""


@traced
def test_every_connection_syncs_before_a_charge_returns(tmp_path: Path) -> None:
    """On first use, in a thread, in a forked child, after it, on a second connection; and for steps and answers."""
    trace = tmp_path / "trace"
    wrap = (str(STRACE), "-f", "-qq", "-y", "-o", str(trace), "-e", "trace=pwrite64,write,fsync,fdatasync")
    script(SYNCED, tmp_path / "ledger.db", wrap=wrap)
    rounds = re.findall(r'"begin\\n".*?"done\\n"', trace.read_text(), re.S)
    assert len(rounds) == 8
    for text in rounds:
        calls = re.findall(r"(pwrite64|fsync|fdatasync)\(\d+<[^>]*ledger\.db-wal>", text)
        assert "pwrite64" in calls
        assert calls[-1] in {"fsync", "fdatasync"}, calls


# ── kill -9 at any time ────────────────────────────────────────────────────────────────────────────

FORK = multiprocessing.get_context("fork")


def _charge_for_ever(path: Path, output: int) -> None:
    clinic = account(sf.Ledger.open(path), sf.Budget(10**6))
    os.write(output, b"ready\n")
    while True:
        line = clinic.charge(pure("0.01"))
        os.write(output, b"c%d\n" % line.number)
        answer = clinic.answer(line, str(line.number), {})
        os.write(output, b"a%d\n" % answer.number)


def test_killed_at_random(tmp_path: Path, long: bool) -> None:
    path, generator = tmp_path / "ledger.db", random.Random(5)
    unanswered = 0
    for turn in range(300 if long else 8):
        said = _killed(path, generator.uniform(0, 0.05))
        with sf.Ledger.open(path) as ledger:
            assert ledger.verify().holds, turn
            lines = {line.number: line for line in ledger}
            for word in said:
                assert lines[int(word[1:])].kind == {"c": "charge", "a": "answer"}[word[0]]
            charges = {number for number, line in lines.items() if line.kind == "charge"}
            now = len(charges - {line.about for line in lines.values()})
            assert now - unanswered in {0, 1}
            unanswered = now


def _killed(path: Path, patience: float) -> list[str]:
    read, write = os.pipe()
    child = FORK.Process(target=_charge_for_ever, args=(path, write))
    child.start()
    os.close(write)
    with open(read) as output:
        assert output.readline() == "ready\n"
        time.sleep(patience)
        child.kill()
        said = output.read().split("\n")
    child.join()
    assert child.exitcode == -signal.SIGKILL
    return [word for word in said[:-1] if word]


class Interrupted(Exception):
    """Raised by a signal, anywhere."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a signal may strike a finaliser too
def test_interrupted_anywhere_a_charge_is_made_or_not_and_the_next_one_works(tmp_path: Path, long: bool) -> None:
    """A signal's exception may strike between any two instructions: no transaction stays open, no line is half."""

    def strike(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, strike)
    gc.disable()  # what others have hung on the collector is not what is tested
    generator, done, interrupted, told = random.Random(7), 0, 0, 0
    try:
        with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
            clinic = account(ledger, sf.Budget(10**6))
            for _ in range(3000 if long else 300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, generator.uniform(0.00002, 0.004))
                    try:
                        clinic.charge(pure("1"))
                        done += 1
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupted:
                    interrupted += 1
                except sf.Unanswered:
                    told += 1
            charges = sum(line.kind == "charge" for line in ledger)
            assert interrupted > 0
            assert done + told <= charges <= done + told + interrupted
            clinic.charge(pure("1"))
            assert ledger.verify().holds
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)


# ── an interruption at every line of the code ──────────────────────────────────────────────────────


def interrupt(call: Callable[[], object], at: int, *places: str, event: str = "line") -> str:
    """What comes of a call that Ctrl-C strikes before its line number ``at`` in these files, or its instruction
    ("opcode"); "done" when it is over.
    """
    left, wanted = [at], event

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if not any(place in frame.f_code.co_filename for place in places):
            return None
        frame.f_trace_opcodes = wanted == "opcode"
        if event == wanted:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return "interrupted"
    except sf.Unanswered:
        return "told"
    finally:
        sys.settrace(before)
    return "done" if left[0] > 0 else "answered"


@pytest.mark.parametrize("what", ["charge", "tab", "step"])
def test_who_is_interrupted_after_the_commit_is_told_that_it_stands(tmp_path: Path, what: str, long: bool) -> None:
    """Before every line in turn (by default before every third of a tab and of a step, which share most lines with a
    charge): a bare interruption has spent nothing, and whoever spent is told so.
    """
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger, sf.Budget(10**6))
        tab = clinic.open_tab(pure("1000"))
        call = {"charge": clinic.charge, "tab": clinic.open_tab, "step": tab.step}[what]
        outcomes = []
        for at in range(1, 2000, 1 if long or what == "charge" else 3):
            before = ledger.anchor().number
            outcomes.append(interrupt(lambda: call(pure("0.1")), at, "sfumato/ledger/", "contextlib.py"))
            made = ledger.anchor().number - before
            assert made == (0 if outcomes[-1] == "interrupted" else 1), (at, outcomes[-1])
            if outcomes[-1] == "done":
                break
        assert outcomes[-1] == "done"
        assert outcomes.count("interrupted") > 50
        assert outcomes.count("told") > 5
        assert ledger.verify().holds


def test_a_release_that_is_interrupted_anywhere_says_whether_it_was_charged(tmp_path: Path, long: bool) -> None:
    (tmp_path / "visits.csv").write_text("patient,cost\n1,2\n3,4\n")
    unit = sf.PrivacyUnit("patient")
    cost = {"type": "integer", "bounds": [0, 9]}
    table = sf.Table("visits", tmp_path / "visits.csv", {"cost": cost}, id="patient", max_rows=2)
    policy = sf.Policy(unit, sf.Budget(10**6), {"visits": table})
    with sf.Curator(policy, tmp_path / "ledger.db") as clinic:
        question, setting = clinic.sql("SELECT COUNT(*) AS n FROM visits"), clinic._context
        prepared = price_release(question.bounding_options, Price(1))
        asked = releasing.ReleaseRequest("count", question.identity, setting.engine.identity())
        kind = DeclaredGroupsRelease(prepared, question.shared_parts.requests, question.groups, setting.version)
        outcomes = []
        for at in range(1, 5000, 1 if long else 11):

            def call() -> object:
                return releasing.release(kind, asked, payer=setting.account, engine=setting.engine, fresh=True)

            before = [line.kind for line in clinic.ledger]
            outcomes.append(interrupt(call, at, "sfumato/ledger/", "release/releasing.py", "contextlib.py"))
            made = [line.kind for line in clinic.ledger][len(before) :]
            assert made in {
                "interrupted": ([], ["charge", "answer"]),  # asked again it is free
                "told": (["charge", "stopped"], ["charge", "answer"]),
            }.get(outcomes[-1], (["charge", "answer"],)), (at, outcomes[-1])
            if outcomes[-1] == "done":
                break
        assert outcomes[-1] == "done"
        assert outcomes.count("told") > 10
        assert clinic.ledger._guarded.unrecorded_stops == {}
        assert clinic.ledger.verify().holds
