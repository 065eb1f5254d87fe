"""A pytest plugin that runs each mutant in a forked child of a process that has collected every test.

Only tests that ran the changed block are run, one of each test function first, the short ones first. A test that fails
kills the mutant if it passes without the change and fails once more with it. A mutant whose changed statement no test
reached is neither killed nor survived; one that has used up its CPU seconds is not decided.

A mutant *hangs* under which two tests are ended that pass without it: each had computed for eight times what it was
recorded to take, and three seconds more, or had waited far longer than it does. The suite notices such a mutant, whose
tests run into their limit of time; PIT and mutmut count it as detected by stricter limits (1.25 t + 4 s) and similar
ones. A test that the cap ended before its own limit, or that fails without the change too, says nothing.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import shutil
import signal
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from mutation.records import KILLED, Killers, Records, fingerprint, function_name
from mutation.replacing import LiveFunctions, NotReplaceable, Overlay, install_builtins
from mutation.rules import Site, sites

_MEMORY = 8 << 30
_MOST_HUNG = 2
"""Tests that may use up their seconds until a mutant is left: each costs some."""


@dataclass(frozen=True)
class Result:
    mutant: str
    outcome: str
    """killed, survived, undecided, hung, unreached or unfit."""
    test: str = ""
    tests: int = 0
    seconds: float = 0.0
    """Of CPU, in all children."""
    files: tuple[str, ...] = ()
    """The files of the tests that did not kill it; none for what was killed."""
    sources: str = ""
    """A hash of what decided it: the mutated module and ``files``."""


@dataclass(frozen=True)
class Run:
    """What one child reported."""

    stopped: str = ""
    """The test that failed, or that was ended."""
    timed_out: bool = False
    reached: bool = False
    unfit: bool = False


class Runner:
    def __init__(self, session: pytest.Session, records: Records, folder: Path) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._first_readable_examples: dict[str, list[str]] = defaultdict(list)
        for test in self._items:
            self._first_readable_examples[function_name(test)].append(test)
        self._session, self._request_records = session, records
        _import_late(records.imported)
        self._functions, self._overlay = LiveFunctions(), Overlay(folder)
        self._functions.forget_cached()  # no test runs in this process, so that its children begin with empty caches
        self._folder = folder
        self._green: dict[str, bool] = {}
        self._killers = Killers(records.results())
        self._spent = 0.0

    def judge(self, site: Site, cap: float) -> Result:
        """Run a mutant's tests until one kills it, or ``cap`` seconds of CPU are spent."""
        name, begin, tests = str(site.mutant), self._spent, self._covering(site)
        reached, hung, remaining = False, 0, tests
        outcome, killer = "", ""
        while remaining and not outcome:
            run = self._fork(site, remaining, cap - (self._spent - begin))
            reached |= run.reached
            if run.unfit:
                outcome = "unfit"
            elif not run.stopped:
                break
            elif not run.timed_out and self._confirms(site, run.stopped, remaining, cap):
                outcome, killer = "killed", run.stopped
                self._killers.add(name, killer)
            else:
                hung += run.timed_out and self._is_far_from_its_limit(run.stopped, cap)
                remaining = remaining[remaining.index(run.stopped) + 1 :]
                outcome = "undecided" if self._spent - begin >= cap else "hung" if hung == _MOST_HUNG else ""
        if not outcome:
            outcome = "undecided" if hung else "survived" if reached else "unreached"
        files = () if outcome in KILLED else sorted({test.partition("::")[0] for test in tests})
        return Result(name, outcome, killer, len(tests), round(self._spent - begin, 2), tuple(files))

    def _covering(self, site: Site) -> list[str]:
        ranked = self._request_records.covering(site, self._first_readable_examples, self._killers)
        return [test for test in ranked if test in self._items and self._green.get(test, True)]

    def _confirms(self, site: Site, test: str, tests: Sequence[str], cap: float) -> bool:
        """Return whether a failure is the mutant's: it is not there without the change, and is there again with it."""
        if self._is_green(test, cap) and self._fork(site, [test], cap).stopped:
            return True
        # the ledgers that all tests wrote are computed again after the last one, which is then the one that fails
        ran = tests[: tests.index(test) + 1]
        is_last = len(tests) > 1 and test == tests[-1]
        return is_last and not self._fork(None, ran, cap).stopped and self._fork(site, ran, cap).stopped == test

    def _is_far_from_its_limit(self, test: str, cap: float) -> bool:
        """Return whether a test that was ended passes without the change, in a small part of the time it was given."""
        return _own_limit(self._request_records.seconds(test)) <= cap and self._is_green(test, cap)

    def _is_green(self, test: str, cap: float) -> bool:
        if test not in self._green:
            self._green[test] = not self._fork(None, [test], cap).stopped
        return self._green[test]

    def _fork(self, site: Site | None, tests: Sequence[str], cap: float) -> Run:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                self._run_child(site, tests, cap, writer)
            except BaseException as error:  # the parent reads that it ended early
                os.write(writer, f"broke {error!r}\n".encode())
            os._exit(0)
        os.close(writer)
        try:
            run = self._watch(reader, tests)
        finally:
            os.close(reader)
            status, seconds = _end(child)
            self._spent += seconds
            if site is not None:
                self._overlay.restore(site)
        ended = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        return replace(run, timed_out=run.timed_out or ended)

    def _run_child(self, site: Site | None, tests: Sequence[str], cap: float, writer: int) -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

        def say(text: str) -> None:
            os.write(writer, f"{text}\n".encode())

        reached: list[bool] = []
        install_builtins(lambda: None if reached else (reached.append(True), say("reached"))[0])
        if site is not None:
            try:
                self._functions.replace(site)
            except NotReplaceable:
                say("unfit")
                return
            self._overlay.install(site)
        _new_base_folder(self._session.config, self._folder)
        reports = _Reports()
        self._session.config.pluginmanager.register(reports)
        items = [self._items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            say(f"start {item.nodeid}")
            _limit_cpu(self._request_records.seconds(item.nodeid), cap)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if reports.failed:
                say(f"failed {item.nodeid}")
                return
        say("passed")

    def _watch(self, reader: int, tests: Sequence[str]) -> Run:
        current, reached, text = tests[0], False, ""
        limit = self._limit(current)
        while True:
            ready, _, _ = select.select([reader], [], [], max(0.0, limit - time.monotonic()))
            received = os.read(reader, 65536).decode() if ready else ""
            text += received
            *lines, text = text.split("\n")
            for line in lines:
                word, _, test = line.partition(" ")
                reached |= word == "reached"
                if word == "start":
                    current, limit = test, self._limit(test)
                elif word in ("unfit", "broke"):  # it does not fit its function, or failed outside a test
                    return Run(unfit=True)
                elif word in ("failed", "passed"):
                    return Run(test, reached=reached)
            if not ready:
                return Run(current, timed_out=True, reached=reached)
            if not received:  # it died
                return Run(current, reached=reached)

    def _limit(self, test: str) -> float:
        """A test that waits hangs if it takes far longer than it did, on a machine that may be busy; one that computes
        is ended by :func:`_limit_cpu`.
        """
        return time.monotonic() + 45 + 30 * self._request_records.seconds(test)


def _own_limit(recorded: float) -> float:
    """Return the CPU seconds that a test may take which took so many when it was recorded."""
    return 3 + 8 * recorded


def _limit_cpu(recorded: float, cap: float) -> None:
    """End this process when it has computed for far longer than the next test took, or for ``cap`` seconds."""
    limit = math.ceil(min(time.process_time() + _own_limit(recorded), max(cap, 1)))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _import_late(modules: Iterable[str]) -> None:
    """Import once what every child would import anew."""
    for module in sorted(modules):
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            import_module(module)


class _Reports:
    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed


def _new_base_folder(config: pytest.Config, folder: Path) -> None:
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = Path(tempfile.mkdtemp(dir=folder))


def _end(child: int) -> tuple[int, float]:
    """Kill a child with its group; return how it ended and its CPU seconds."""
    for kill in (os.killpg, os.kill):  # its group is its own only once it has begun
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return status, usage.ru_utime + usage.ru_stime


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", help="a file with the names of mutants to run, one a line")
    parser.addoption("--part", default="0/1", help="which of several processes this is")
    parser.addoption("--records", help="the folder of what was recorded, to which results are added")
    parser.addoption("--again", action="store_true", help="run mutants that survived once more")
    parser.addoption("--cap", type=float, default=20.0, help="CPU seconds for one mutant")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Let a property fail at its first counterexample: the search for the shortest takes seconds."""
    phases = (Phase.explicit, Phase.generate, Phase.target)
    settings.register_profile("mutation", settings.get_profile("suite"), phases=phases, report_multiple_bugs=False)
    settings.load_profile("mutation")


def pytest_runtestloop(session: pytest.Session) -> bool:
    options = session.config.option
    part, parts = map(int, options.part.split("/"))
    records = Records(Path(options.records))
    wanted = Path(options.mutants).read_text(encoding="utf-8").splitlines()[part::parts]
    done = records.finished(killed_only=options.again)
    modules = {f"sfumato.{name.partition(':')[0]}" for name in wanted}
    chosen = set(wanted) - done
    by_name = {name: site for module in modules for site in sites(module) if (name := str(site.mutant)) in chosen}
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(session, records, Path(folder))
        with open(records.folder / f"results.{part}.jsonl", "a", encoding="utf-8") as results:
            for name in wanted:
                if name in by_name:
                    result = runner.judge(by_name[name], options.cap)
                    decided = fingerprint(name, result.files)
                    results.write(json.dumps(asdict(replace(result, sources=decided)), ensure_ascii=False) + "\n")
                    results.flush()
                    _empty(Path(folder))
    return True


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "src":
            shutil.rmtree(path, ignore_errors=True)
