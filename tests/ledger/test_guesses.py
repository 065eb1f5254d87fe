"""Whoever sees what leaves a ledger cannot tell whether their guess of the private table is right.

Two neighbouring files go through the same life; everything that leaves is compared, and a guesser who knows the whole
table and all hash functions looks for a hash of their guess. The same guesser finds it when key and salts are known.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.ipc as ipc
import pytest
from click.testing import CliRunner

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.cli import main
from sfumato.engine.duckdb import files
from sfumato.engine.sources.inspected_tables import identify_file
from sfumato.ledger.entries import checked_microseconds
from sfumato.ledger.local_files import anchor_folder
from sfumato.ledger.sealed_rows import KeyedHash, Row
from sfumato.ledger.spending import NO_COST, Spending, write_cost
from sfumato.ledger.stores.opening import make_ledger
from sfumato.mechanisms import bits
from sfumato.release import measurement

if TYPE_CHECKING:
    from ledger.in_databases import Place

POLICY = """
[unit]
name = "patient"
budget = { epsilon = 1 }
[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
cost = { type = "integer", bounds = [0, 100] }
"""
HERE = "patient,cost\n" + "".join(f"{patient},{patient % 90}\n" for patient in range(50))
CHANGED = HERE.replace("\n7,7\n", "\n7,8\n")
ABSENT = HERE.replace("\n7,7\n", "\n")
HEX = re.compile(r"[0-9a-f]{16,}")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?(\+00:00)?)?")


@pytest.fixture(autouse=True)
def answers_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was charged for may leave; here it is the same whatever was read."""
    monkeypatch.setattr(measurement, "add_noise", lambda _, exact: 0 * exact + 5)


@pytest.fixture(params=["a file", pytest.param("a database", marks=pytest.mark.long)])
def database(request: pytest.FixtureRequest) -> Place | None:
    """Where the ledger is kept, unless that is a file beside the policy."""
    if request.param == "a file":
        return None
    from ledger.in_databases import Place

    return Place.make(request.getfixturevalue("postgres"))


def begun(folder: Path, database: Place | None) -> str:
    """A policy, and the address of its ledger, of which nothing is there and nobody knows anything."""
    folder.mkdir(exist_ok=True)
    if database is None:
        (folder / "clinic.toml").write_text(POLICY)
        return str(folder / "sfumato.ledger")
    database.drop()
    make_ledger(database.owner, spender="spender")
    shutil.rmtree(anchor_folder(), ignore_errors=True)
    (folder / "clinic.toml").write_text(f'ledger = "{database.address}"\n{POLICY}')
    return database.address


def life(folder: Path, database: Place | None, *versions: str) -> dict[str, str]:
    """Everything that leaves, after questions about one version of the file after another."""
    ledger, left = begun(folder, database), {}
    for turn, version in enumerate(versions):
        (folder / "visits.csv").write_text(version)
        with sf.open(folder / "clinic.toml") as clinic:
            for text in ("SELECT COUNT(*) AS n FROM visits", "SELECT SUM(cost) AS s FROM visits"):
                receipt = clinic.sql(text).release(epsilon="0.1").receipt
                left[f"receipt {turn} {text}"] = f"{receipt} {receipt.to_json()}"
            other = clinic.ledger.account("other", unit=sf.PrivacyUnit("patient"), budget=sf.Budget(1))
            left[f"errors {turn}"] = "".join(errors(clinic, other, folder))
            left[f"anchor {turn}"] = sf.privacy.codec.dumps(clinic.ledger.anchor())
            for form in ("json", "csv", "arrow"):
                clinic.ledger.export(form, folder / f"{turn}.{form}")
            left[f"json {turn}"] = (folder / f"{turn}.json").read_text()
            left[f"csv {turn}"] = (folder / f"{turn}.csv").read_text()
            with ipc.open_file(folder / f"{turn}.arrow") as table:
                left[f"arrow {turn}"] = json.dumps(table.read_all().to_pylist())
            left[f"objects {turn}"] = repr((clinic, [vars(each) for each in clinic.ledger], clinic.ledger.verify()))
    policy = str(folder / "clinic.toml")
    kept = [Path(f"{ledger}.anchor")] if database is None else sorted(anchor_folder().iterdir())
    left["anchors that are kept"] = "".join(path.read_text() for path in kept)
    for command in (
        ["history", policy],
        ["history", policy, "--json"],
        ["check", policy, "--public"],
        ["budget", policy],
        ["ledger", "verify", ledger],
    ):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, (command, done.output)
        left[" ".join(command[:1] + command[2:])] = done.output
    for path in folder.iterdir():
        if path.name not in {"visits.csv", "clinic.toml"}:
            path.unlink()
    return left


def errors(clinic: sf.Curator, other: sf.Account, folder: Path) -> Iterator[str]:
    for refused in (
        lambda: other.join(identify_file(folder / "visits.csv")),
        lambda: clinic.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=2, fresh=True),
        lambda: clinic.ledger.require_public(identify_file(folder / "visits.csv")),
        lambda: clinic._context.account.amend(epsilon="0.01", reason="less"),
    ):
        with pytest.raises(sf.SfumatoError) as refusal:
            refused()
        yield f"{refusal.value} {refusal.value.__dict__}"


def neutral(text: str) -> str:
    """Hashes by the order in which they first appear, and no times: all that two honest runs have in common."""
    numbers, names = count(), {}

    def name(match: re.Match[str]) -> str:
        if match[0] not in names:
            names[match[0]] = f"<{next(numbers)}>"
        return names[match[0]]

    return HEX.sub(name, TIME.sub("<time>", re.sub(r"datetime\.datetime\([^)]*\)", "<time>", text)))


@pytest.mark.parametrize("neighbour", [CHANGED, ABSENT])
def test_nothing_that_leaves_tells_neighbouring_files_apart(
    tmp_path: Path, database: Place | None, neighbour: str
) -> None:
    begin = (HERE + "60,1\n", neighbour + "60,1\n")
    one, other = (life(tmp_path / "same", database, first, HERE) for first in begin)
    assert {name: neutral(text) for name, text in one.items()} == {name: neutral(text) for name, text in other.items()}
    assert "version 2" in one["receipt 1 SELECT COUNT(*) AS n FROM visits"]


def test_nothing_tells_whether_an_old_content_came_back(tmp_path: Path, database: Place | None) -> None:
    one, other = (life(tmp_path / "same", database, HERE, CHANGED, last) for last in (HERE, ABSENT))
    assert {name: neutral(text) for name, text in one.items()} == {name: neutral(text) for name, text in other.items()}


def guessed(left: dict[str, str], folder: Path, keyed: KeyedHash) -> set[str]:
    """What a guesser who knows the whole file, its times and its place finds of it in what leaves."""
    path = folder / "visits.csv"
    data, found = path.read_bytes(), os.stat(path)
    stamps = ((str(path), found.st_size, found.st_mtime_ns, found.st_ino),)
    content = hashlib.blake2b(len(data).to_bytes(8, "big") + data, digest_size=32).hexdigest()
    plain = {hashlib.new(name, data).hexdigest() for name in ("sha256", "sha1", "md5", "blake2b", "sha3_256")}
    plain |= {content, files.digest({"visits": stamps}, {})}
    kinds = ("content", "data", "size", "file", "look")
    keyed_hashes = {keyed(kind, value) for kind in kinds for value in (*plain, str(len(data)), data.decode())}
    facts = {"size": str(found.st_size), "time": str(found.st_mtime_ns), "change": str(found.st_ctime_ns)}
    text = "\n".join(left.values())
    hits = {"hash" for value in plain | keyed_hashes if value in text or value[:16] in text}
    hits |= {name for name, value in facts.items() if re.search(rf"(?<!\d){value}(?!\d)", HEX.sub("", text))}
    return hits | {"seal" for record in json.loads(left["json 0"]) if _opening(record, "0" * 32) == record["hash"]}


def _opening(record: dict[str, object], salt: str) -> str:
    """The seal of a line that opened an account, rebuilt from its export."""
    if record["number"] != 1:
        return ""
    at = checked_microseconds(datetime.fromisoformat(str(record["time"])), "time")
    texts = {name: str(record[name] or "") for name in ("kind", "account", "detail", "previous")}
    row = Row(number=1, time=at, terms=1, cost=write_cost(NO_COST), totals=str(Spending()), salt=salt)
    return row._replace(**texts).compute_seal()


def test_a_guess_of_the_file_is_found_in_nothing_that_leaves(tmp_path: Path, database: Place | None) -> None:
    left = life(tmp_path / "same", database, HERE)
    assert guessed(left, tmp_path / "same", KeyedHash(bytes(32))) == set()


def test_the_guesser_succeeds_where_key_and_salts_are_known(
    tmp_path: Path, database: Place | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bits, "random_bits", lambda _: 0)
    left = life(tmp_path / "same", database, HERE)
    assert guessed(left, tmp_path / "same", KeyedHash(bytes(32))) == {"hash", "seal"}


def test_the_key_and_the_salts_stay_in_the_ledger(tmp_path: Path) -> None:
    folder = tmp_path / "same"
    folder.mkdir()
    with sf.Ledger.open(folder / "one.db") as ledger:
        account(ledger).charge(pure(plan="p", data="v"))
        ledger.export("json", folder / "lines.json")
        seen = (folder / "lines.json").read_text() + sf.privacy.codec.dumps(ledger.anchor())
        seen += repr([vars(each) for each in ledger]) + repr(ledger.__dict__) + repr(ledger._guarded.keyed_hash)
    with closing(sqlite3.connect(folder / "one.db")) as raw:
        ((key,),) = raw.execute("SELECT key FROM header")
        salts = [salt for (salt,) in raw.execute("SELECT salt FROM lines")]
    assert len(key) == 64
    assert len({*salts}) == 2
    assert all(len(salt) == 32 for salt in salts)
    assert not any(secret in seen for secret in (key, *salts, bytes.fromhex(key).decode(errors="replace")))


def test_two_ledgers_have_two_keys_and_one_has_the_same_for_life(tmp_path: Path) -> None:
    tags = []
    for name in ("one", "two", "one"):
        with sf.Ledger.open(tmp_path / f"{name}.db") as ledger:
            tags.append(account(ledger).charge(pure(data="v")).data)
    assert tags[0] == tags[2] != tags[1]
    assert "v" not in tags


def test_a_key_that_was_changed_is_noticed_at_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another key nothing is recognised: known sources would get a second budget."""
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        for _ in range(3):
            account(ledger).charge(pure())
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        ((key,),) = raw.execute("SELECT key FROM header")
        with pytest.raises(sqlite3.IntegrityError):
            raw.execute("UPDATE header SET key = 'ab'")
        with pytest.raises(sqlite3.IntegrityError):
            raw.execute("DELETE FROM header")
    data = path.read_bytes()
    assert data.count(key.encode()) == 1
    path.write_bytes(data.replace(key.encode(), b"ab" * 32))
    monkeypatch.setattr("sfumato.ledger.proofs.verification_runs.CHECKPOINT", 2)
    with sf.Ledger.open(path) as ledger:
        with pytest.raises(sf.LedgerDamaged, match="the one in the ledger's header"):
            account(ledger).charge(pure())
        assert ledger.verify().bad == 1


def test_an_older_ledger_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    sf.Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 1")
    before = path.read_bytes()
    with pytest.raises(sf.LedgerUnavailable, match="older Sfumato"):
        sf.Ledger.open(path)
    assert path.read_bytes() == before


def test_versions_count_changes(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic, seen = account(ledger), []
        for text in ("a", "a", "b", "a", "a", "c"):
            path.write_text(text)
            clinic.join(identify_file(path))
            seen.append(clinic.version)
        assert seen == [1, 1, 2, 3, 3, 4]
        later = (datetime.now().astimezone() + timedelta(seconds=-100)).timestamp()
        os.utime(path, (later, later))
        clinic.join(identify_file(path))  # touched, not changed
        assert clinic.version == 4
