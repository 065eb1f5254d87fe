"""Where a ledger lives and what may go wrong there: permissions, full and read-only disks, locks, versions."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure, script
from sfumato.ledger import local_files
from sfumato.ledger.stores.sqlite import APPLICATION, LAST_UNSUPPORTED_SCHEMA, MIGRATIONS


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    old = os.umask(0)
    try:
        with sf.Ledger.open(path) as ledger:
            account(ledger).charge(pure())
            for name in os.listdir(tmp_path):
                assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    finally:
        os.umask(old)
    os.chmod(path, 0o644)
    with sf.Ledger.open(path) as ledger:
        account(ledger).charge(pure())
        for name in os.listdir(tmp_path):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name


def test_it_is_a_write_ahead_log_with_full_syncs(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        connection = ledger._guarded.store._connection
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_second_ledger_on_the_same_file_does_not_drop_the_locks_of_the_first(tmp_path: Path) -> None:
    """POSIX drops all of a process's locks on a file when it closes any handle of it: we must not open one aside."""
    path = tmp_path / "ledger.db"
    first = sf.Ledger.open(path)
    account(first)
    with first._guarded.store.writing():
        sf.Ledger.open(path).close()
        code = """
import sys, sfumato as sf
from ledger.small_accounts import account, pure
account(sf.Ledger.open(sys.argv[1], timeout="0.2")).charge(pure())
"""
        done = script(code, path, check=False)
    assert "LedgerUnavailable" in done.stderr
    assert "locked by another process" in done.stderr
    first.close()


def test_a_locked_ledger_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path, timeout="0.1") as ledger:
        clinic = account(ledger)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(sf.LedgerUnavailable, match="locked"):
                clinic.charge(pure())
            assert clinic.remaining == {"pure": 1}  # reading goes on
            other.execute("ROLLBACK")
        clinic.charge(pure())


def test_a_newer_ledger_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    sf.Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA user_version = {LAST_UNSUPPORTED_SCHEMA + len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(sf.LedgerUnavailable, match="newer Sfumato"):
        sf.Ledger.open(path)
    assert path.read_bytes() == before


def test_an_older_ledger_is_migrated_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        account(ledger).charge(pure())
    module = "sfumato.ledger.stores.sqlite.MIGRATIONS"
    monkeypatch.setattr(module, (*MIGRATIONS, ("CREATE TABLE notes (a)", "CREATE TABLE notes (a)")))
    with pytest.raises(sf.LedgerUnavailable):
        sf.Ledger.open(path)
    monkeypatch.setattr(module, MIGRATIONS)
    with sf.Ledger.open(path) as ledger:
        assert ledger.verify().holds
    monkeypatch.setattr(module, (*MIGRATIONS, ("CREATE TABLE notes (a)",)))
    with sf.Ledger.open(path) as ledger:
        account(ledger).charge(pure())
        assert ledger.verify().holds
    monkeypatch.setattr(module, MIGRATIONS)
    with pytest.raises(sf.LedgerUnavailable, match="newer"):
        sf.Ledger.open(path)


def test_a_file_that_is_not_a_ledger_is_left_alone(tmp_path: Path) -> None:
    text, database = tmp_path / "text", tmp_path / "database"
    text.write_text("not a database, but long enough to be read as one" * 100)
    with closing(sqlite3.connect(database)) as raw:
        raw.execute("CREATE TABLE people (name)")
    older = tmp_path / "older"
    sf.Ledger.open(older).close()
    with closing(sqlite3.connect(older)) as raw:
        raw.execute("PRAGMA user_version = 1")
    for path in (text, database, older):
        os.chmod(path, 0o664)
        before, look = path.read_bytes(), os.stat(path)
        with pytest.raises(sf.LedgerUnavailable):
            sf.Ledger.open(path)
        assert path.read_bytes() == before
        now = os.stat(path)
        assert (now.st_mode, now.st_mtime_ns, now.st_ctime_ns) == (look.st_mode, look.st_mtime_ns, look.st_ctime_ns)
    empty = tmp_path / "empty"
    empty.touch()
    with sf.Ledger.open(empty) as ledger:
        account(ledger).charge(pure())
    with closing(sqlite3.connect(empty)) as raw:
        assert raw.execute("PRAGMA application_id").fetchone() == (APPLICATION,)


@pytest.mark.parametrize("path", ["", "missing/ledger.db", ".", "a\0b", None, 7])
def test_paths_that_cannot_be_a_ledger(tmp_path: Path, path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((sf.InvalidParameter, sf.LedgerUnavailable)):
        sf.Ledger.open(path)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    ledger = sf.Ledger.open(tmp_path / "ledger.db")
    clinic = account(ledger)
    ledger.close()
    ledger.close()
    with pytest.raises(sf.LedgerUnavailable, match="closed"):
        clinic.charge(pure())


def test_a_file_replaced_while_open_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = sf.Ledger.open(path)
    clinic = account(ledger)
    os.rename(path, tmp_path / "moved.db")
    with pytest.raises(sf.LedgerUnavailable, match="moved or replaced"):
        clinic.charge(pure())
    path.write_bytes((tmp_path / "moved.db").read_bytes())
    with pytest.raises(sf.LedgerUnavailable, match="moved or replaced"):
        clinic.charge(pure())
    assert len(os.listdir(tmp_path)) >= 2
    os.replace(tmp_path / "moved.db", path)
    clinic.charge(pure())
    ledger.close()


FULL = """
import os, resource, signal, sys, sfumato as sf
from ledger.small_accounts import account, pure
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = sf.Ledger.open(sys.argv[1])
clinic = account(ledger, sf.Budget(10**6))
clinic.charge(pure("1"))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
done = 1
try:
    while True:
        line = clinic.charge(pure("1", question="x" * 5000))
        done += 1
except sf.LedgerUnavailable as error:
    print("refused", done)
for _ in range(3):
    try:
        clinic.charge(pure("1", question="x" * 5000))
        sys.exit("charged on a full disk")
    except sf.LedgerUnavailable as error:
        assert "disk" in str(error), error
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
clinic.charge(pure("1"))
assert clinic.spent["pure"] == done + 1
assert ledger.verify().holds, ledger.verify()
print("whole", done)
"""


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """The system refuses to let files grow, as a full disk would; then there is room again."""
    done = script(FULL, tmp_path / "ledger.db")
    assert "refused" in done.stdout
    assert "whole" in done.stdout


READ_ONLY = """
import os, sys, sfumato as sf
from ledger.small_accounts import account, pure
sf.Ledger
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    account(sf.Ledger.open(sys.argv[1])).charge(pure())
except sf.LedgerUnavailable as error:
    print(error)
"""


def test_a_ledger_that_cannot_be_written_is_a_clear_refusal() -> None:
    """In a folder of its own that others may enter: as root, the test becomes somebody else."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "ledger.db"
        with sf.Ledger.open(path) as ledger:
            account(ledger)
        before = path.read_bytes()
        for each in (path, Path(f"{path}.anchor")):
            os.chmod(each, 0o444)
        os.chmod(folder, 0o555)
        done = script(READ_ONLY, path)
        assert "fix:" in done.stdout
        assert "writable" in done.stdout
        assert path.read_bytes() == before
        os.chmod(folder, 0o755)


MOUNTS = """\
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:40 / /srv/share rw,relatime shared:20 - nfs4 server:/export rw,vers=4.2
41 40 253:1 / /srv/share/local rw - xfs /dev/vdb rw
42 22 0:41 / /home/ana/with\\040space rw - cifs //server/home rw
43 22 0:42 / /mnt/ssh rw - fuse.sshfs ana@host: rw
44 22 0:43 / /tmp rw - tmpfs tmpfs rw
45 44 0:44 / /tmp rw - 9p share rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "refused"),
    [
        ("/var/lib/ledger.db", "ext4", False),
        ("/srv/share/ledger.db", "nfs4", True),
        ("/srv/shared.db", "ext4", False),
        ("/srv/share/local/ledger.db", "xfs", False),
        ("/home/ana/with space/ledger.db", "cifs", True),
        ("/mnt/ssh/a/b.db", "fuse.sshfs", True),
        ("/tmp/ledger.db", "9p", True),
    ],
)
def test_network_file_systems_are_refused(
    tmp_path: Path, path: str, kind: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(local_files, "MOUNTS", tmp_path / "mounts")
    assert local_files.filesystem_type(Path(path), MOUNTS) == kind
    if refused:
        with pytest.raises(sf.LedgerUnavailable, match="network file system"):
            local_files.require_local_filesystem(Path(path))
    else:
        local_files.require_local_filesystem(Path(path))


def test_opening_on_a_network_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    (tmp_path / "mounts").write_text(f"40 22 0:40 / {folder} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr(local_files, "MOUNTS", tmp_path / "mounts")
    with pytest.raises(sf.LedgerUnavailable, match="network"):
        sf.Ledger.open(folder / "ledger.db")
    assert os.listdir(folder) == []
