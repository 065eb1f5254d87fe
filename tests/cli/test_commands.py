"""The commands together: help, imports, progress, the tour."""

from __future__ import annotations

import os
import pty
import re
import resource
import stat
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow.parquet
import pytest

import sfumato as sf
from cli.running import run
from forked_commands import forked_command
from sfumato.cli import SHORT_HELP, main
from sfumato.cli.commands.demo import TOUR_STEPS, WIDTH
from sfumato.cli.common.output import ProgressPrinter, slow_progress
from sfumato.data import FILES

ROOT = Path(__file__).parent.parent.parent
COMMANDS = [
    ["demo"],
    ["init"],
    ["check"],
    ["query"],
    ["budget"],
    ["budget", "amend"],
    ["history"],
    ["ledger"],
    ["auction"],
    ["degrees"],
    ["above"],
    ["bounds"],
    ["limits"],
    ["ask"],
    ["synopsis"],
]
COMMANDS += [["synopsis", verb] for verb in ("show", "verify", "marginal")]
COMMANDS += [["ledger", verb] for verb in ("verify", "export", "backup")]


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_help_is_enough(command: list[str]) -> None:
    for flag in ("-h", "--help"):
        done = run(*command, flag)
        assert done.exit_code == 0
        assert "Usage:" in done.output
    if command != ["demo"]:
        assert "Exit codes:" in done.output
    if len(command) == 1:
        assert f"sfumato {command[0]}" in done.output.split("Example")[1]


def test_help_lists_every_command_as_it_describes_itself_and_imports_none() -> None:
    context = click.Context(main)
    shown = {name: main.get_command(context, name).get_short_help_str() for name in SHORT_HELP}  # type: ignore[union-attr]
    assert shown == SHORT_HELP
    listing = (
        "import sys; from click.testing import CliRunner; from sfumato.cli import main;"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0;"
        "print(*[name for name in sys.modules if name.startswith(('sfumato.cli.commands.', 'sqlglot', 'duckdb'))])"
    )
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert not done.stdout.strip()


def test_every_command_is_listed_with_what_it_does() -> None:
    listed = run("--help").output.split("Commands:")[1].split("Exit codes")[0]
    lines = [line.split(maxsplit=1) for line in listed.strip().splitlines()]
    assert {"demo", "query", "budget", "history", "ledger"} <= {name for name, _ in lines}
    assert not any(words.endswith("...") for _, words in lines)
    assert run("--version").output.startswith("sfumato, version ")
    assert run("nonsense").exit_code == 2


_IMPORTS = """
import sys
from sfumato.cli import main

policy, file = sys.argv[1:]
plots_and_frames = {"pandas", "polars", "altair", "scipy", "rich"}
for arguments, heavy in [
    (["query", "--help"], plots_and_frames | {"duckdb", "sqlglot", "pyarrow"}),
    (["ask", file, "SELECT COUNT(*) FROM people", "--json"], plots_and_frames | {"duckdb"}),
    (["query", policy, "SELECT COUNT(*) FROM flights", "--epsilon", "0.1", "--json"], plots_and_frames),
]:
    main(arguments, standalone_mode=False)
    print("imported:", *sorted({name.split(".")[0] for name in sys.modules} & heavy))
"""
"""Three commands in the order of what they need, and what else they imported."""


def test_no_command_imports_more_than_it_needs(tmp_path: Path) -> None:
    """A help no engine, parser or table; a question to a file no database; a question neither plots nor frames."""
    given = (sf.example(tmp_path / "x"), Path(__file__).parent.parent / "publish/people.sfu")
    done = subprocess.run([sys.executable, "-c", _IMPORTS, *given], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.startswith("imported:")] == ["imported:"] * 3


# ── progress ───────────────────────────────────────────────────────────────────────────────────


def test_phases_are_said_late_and_only_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def phases() -> str:
        with ProgressPrinter(patience=0.05) as say:
            say("opening")
            if sys.stderr.isatty():
                say._timer.join(60)
            else:
                time.sleep(0.2)
            say("reading")
        return capsys.readouterr().err

    assert phases() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert re.sub(r"\x1b\[\d+m", "", phases()).split() == ["…", "opening", "…", "reading"]
    with ProgressPrinter(patience=60) as say:
        say("opening")
    assert capsys.readouterr().err == ""


def test_a_verification_is_told_without_a_thread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its processes are forked, which a second thread forbids."""
    slow_progress(0)("unseen")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    threads = threading.active_count()
    tell, patient = slow_progress(0), slow_progress(60)
    for phase in ("first", "second, within the same second"):
        tell(phase)
        patient(phase)
    assert threading.active_count() == threads
    assert re.sub(r"\x1b\[\d+m", "", capsys.readouterr().err) == "… first\n"


# ── the tour ───────────────────────────────────────────────────────────────────────────────────


def _demo(**options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sfumato", "demo"]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def _parts(output: str) -> list[str]:
    return re.split(r"\n(?=\d\. |Where to go next)", output)


@dataclass(frozen=True)
class Tour:
    done: subprocess.CompletedProcess[str]
    seconds: float
    """Of a processor, whatever else is running."""
    left_behind: list[Path]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    folder = tmp_path_factory.mktemp("tour")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = _demo(cwd=folder, env={**os.environ, "TMPDIR": str(folder)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Tour(done, after.ru_utime - before.ru_utime, list(folder.iterdir()))


@dataclass(frozen=True)
class KeptTour:
    folder: Path
    exit_code: int
    output: str


@pytest.fixture(scope="module")
def kept_tour(tmp_path_factory: pytest.TempPathFactory) -> KeptTour:
    """A second tour, with other noise."""
    folder = tmp_path_factory.mktemp("kept_tour") / "kept"
    done = run("demo", "--keep", folder)
    return KeptTour(folder, done.exit_code, done.stdout)


def test_the_tour_tells_its_story_in_time(tour: Tour) -> None:
    done = tour.done
    assert tour.seconds < 30, "the task of the tour is to be short"
    assert (done.returncode, done.stderr) == (0, "")
    parts = _parts(done.stdout)[1:]
    assert len(parts) == len(TOUR_STEPS) + 1
    asking, answer, again, overspent, exact, attack, after = parts
    assert "flights ±" in asking
    assert "ε = 3 of 3" in asking
    assert answer.count("┼") == 8
    assert "ε = 2 of 3" in answer
    assert "True" in again
    assert "ε = 2 of 3" in again
    assert "Overspent" in overspent
    assert "it needs ε = 2.5, and ε = 2 of 3 is left for ordinary answers, which is 0.5 too little" in " ".join(
        overspent.split()
    )
    assert "154 minutes" in exact
    assert "EXACT" in exact
    assert "ε = 1 of 3" in attack
    assert "sfumato query" in after
    assert max(map(len, done.stdout.splitlines())) <= WIDTH
    assert tour.left_behind == []


def _exact_numbers() -> set[str]:
    """Counts and totals that only someone who reads the rows can know."""
    rows = pyarrow.parquet.read_table(sf.example().with_name("flights.parquet")).to_pandas()
    day = rows[rows["day"].astype(str) == "2013-08-28"]
    found = [len(rows), rows["tailnum"].nunique(), rows["delay"].sum(), day["delay"].sum()]
    found += [day[day["carrier"] != "OO"]["delay"].sum(), *rows["carrier"].value_counts()]
    return {f"{int(number):,}" for number in found if number > 1000}


def test_the_tour_shows_exact_numbers_only_where_it_says_so(tour: Tour, kept_tour: KeptTour) -> None:
    """A noisy number may equal an exact one by chance, so only what does not change between two runs is looked at."""
    exact = _exact_numbers()
    first, second = (_parts(output)[1:] for output in (tour.done.stdout, kept_tour.output))
    for number, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        told = set(re.findall(r"[\d,]*\d", one)) & set(re.findall(r"[\d,]*\d", other))
        if number == 5:
            assert len(told & exact) == 2
            assert "THESE TWO NUMBERS ARE EXACT" in one
        else:
            assert not told & exact, number


def test_the_tour_keeps_its_files_when_asked_and_overwrites_nothing(kept_tour: KeptTour) -> None:
    kept = kept_tour.folder
    assert kept_tour.exit_code == 0
    assert {*FILES, "sfumato.ledger"} <= {path.name for path in kept.iterdir()}
    assert run("budget", kept / "flights.toml").stdout.startswith("budget left for ordinary answers: ε = 1 of 3\n")
    again = run("demo", "--keep", kept)
    assert again.exit_code == 1
    assert "File exists" in again.stderr


def test_the_tour_runs_in_a_terminal_without_being_typed_at(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = forked_command("demo", streams=[theirs] * 3, folder=tmp_path, terminal=True)
    os.close(theirs)
    seen = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    process.join(60)
    assert process.exitcode == 0
    assert b"Where to go next" in seen


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_the_tour_runs_as_a_plain_user_who_may_write_nowhere_else() -> None:
    """Python may be installed below root's own folder: the user may enter every folder, but write into none of them."""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if any(_closed_to_others(start) for start in (Path(sys.prefix), Path(sys.base_prefix), ROOT)):
        command += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
            pytest.skip("Python is in a folder that is closed to others, and this root cannot open it to one of them")
    code = "import os, sys; assert os.getuid() == 65534; from sfumato.cli import main; main(['demo'])"
    with tempfile.TemporaryDirectory() as mine:
        os.chmod(mine, 0o777)
        environment = {**os.environ, "TMPDIR": mine, "HOME": "/nonexistent"}
        command += [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
    assert done.returncode == 0, done.stderr


def _closed_to_others(folder: Path) -> bool:
    return not all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))


# ── the example ────────────────────────────────────────────────────────────────────────────────


def test_the_example_is_small_and_says_where_it_comes_from() -> None:
    folder = Path(sf.__file__).parent / "data"
    assert sum((folder / name).stat().st_size for name in FILES) < 400_000
    assert "CC0" in (folder / "ORIGIN.md").read_text()


def test_the_example_is_tracked_so_that_wheels_hold_it() -> None:
    """The build back end packs what is under src/sfumato and not ignored by git."""
    found = subprocess.run(
        ["git", "ls-files", "src/sfumato/data"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {Path(name).name for name in found} == {
        *FILES,
        "__init__.py",
        "deployments.csv",
        "DEPLOYMENTS.md",
    }
