"""A pytest plugin that runs each mutant in a forked child of a process that has collected every test.

Only tests that ran the changed block are run, one of each test function first, the short ones first. A test that fails
kills the mutant if it passes without the change and fails once more with it. A mutant whose changed statement no test
reached is neither killed nor survived.
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
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mutation.records import Records
from mutation.replacing import LiveFunctions, NotReplaceable, Overlay, install_builtins
from mutation.rules import Site, sites

_MEMORY = 8 << 30


@dataclass(frozen=True)
class Result:
    mutant: str
    outcome: str
    """killed, hung, survived, unreached or unfit."""
    test: str = ""
    tests: int = 0
    seconds: float = 0.0
    """Of CPU, by the tests' recorded times."""
    sources: str = ""
    """A hash of what decided it: the mutated module for what was killed, everything for the rest."""


@dataclass(frozen=True)
class Run:
    """What one child reported."""

    failed: str = ""
    hung: str = ""
    reached: bool = False
    unfit: bool = False


class Runner:
    def __init__(self, session: pytest.Session, records: Records, folder: Path) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._session, self._records = session, records
        self._functions, self._overlay = LiveFunctions(), Overlay(folder)
        self._folder = folder
        self._green: dict[str, bool] = {}
        self._killers: Counter[str] = Counter()

    def judge(self, site: Site, cap: float) -> Result:
        """Run a mutant's tests until one kills it, or their recorded times reach ``cap`` seconds."""
        name = str(site.mutant)
        tests = self._chosen(site, cap)
        run, spent, reached = Run(), 0.0, False
        remaining = list(tests)
        while remaining:
            run = self._fork(site, remaining)
            reached |= run.reached
            if run.unfit:
                return Result(name, "unfit")
            stopped = run.failed or run.hung
            if not stopped:
                break
            index = remaining.index(stopped)
            if self._is_green(stopped) and self._stops_again(site, stopped):
                self._killers[_function_name(stopped)] += 1
                spent = sum(map(self._records.seconds, tests[: len(tests) - len(remaining) + index + 1]))
                return Result(name, "hung" if run.hung else "killed", stopped, len(tests), round(spent, 2))
            remaining = remaining[index + 1 :]
        spent = sum(map(self._records.seconds, tests))
        return Result(name, "survived" if reached else "unreached", "", len(tests), round(spent, 2))

    def _chosen(self, site: Site, cap: float) -> list[str]:
        ranked = self._records.covering(site, self._killers)
        chosen, spent = [], 0.0
        for test in ranked:
            if test in self._items and self._green.get(test, True):
                spent += self._records.seconds(test)
                if chosen and spent > cap:
                    break
                chosen.append(test)
        return chosen

    def _is_green(self, test: str) -> bool:
        if test not in self._green:
            run = self._fork(None, [test])
            self._green[test] = not (run.failed or run.hung)
        return self._green[test]

    def _stops_again(self, site: Site, test: str) -> bool:
        again = self._fork(site, [test])
        return bool(again.failed or again.hung)

    def _fork(self, site: Site | None, tests: Sequence[str]) -> Run:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                self._run_child(site, tests, writer)
            except BaseException as error:  # the parent reads that it ended early
                os.write(writer, f"broke {error!r}\n".encode())
            os._exit(0)
        os.close(writer)
        try:
            return self._watch(reader, tests)
        finally:
            os.close(reader)
            _end(child)
            if site is not None:
                self._overlay.restore(site)

    def _run_child(self, site: Site | None, tests: Sequence[str], writer: int) -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

        def say(text: str) -> None:
            os.write(writer, f"{text}\n".encode())

        reached: list[bool] = []
        install_builtins(lambda: None if reached else (reached.append(True), say("reached"))[0])
        self._functions.forget_cached()
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
            _limit_cpu(self._records.seconds(item.nodeid))
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
                    return Run(failed=test, reached=reached)
            if not ready:
                return Run(hung=current, reached=reached)
            if not received:  # it died, or broke outside a test
                return Run(failed=current, reached=reached)

    def _limit(self, test: str) -> float:
        """A test that waits hangs if it takes far longer than it did, on a machine that may be busy; one that computes
        is ended by :func:`_limit_cpu`.
        """
        return time.monotonic() + 45 + 30 * self._records.seconds(test)


def _limit_cpu(recorded: float) -> None:
    """End this process when it has computed for far longer than the next test took."""
    limit = math.ceil(time.process_time() + 4 + 10 * recorded)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


class _Reports:
    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed


def _new_base_folder(config: pytest.Config, folder: Path) -> None:
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = Path(tempfile.mkdtemp(dir=folder))


def _end(child: int) -> None:
    for kill in (os.killpg, os.kill):  # its group is its own only once it has begun
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _function_name(test: str) -> str:
    return test.partition("[")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", help="a file with the names of mutants to run, one a line")
    parser.addoption("--part", default="0/1", help="which of several processes this is")
    parser.addoption("--records", help="the folder of what was recorded, to which results are added")
    parser.addoption("--again", action="store_true", help="run mutants that survived once more")
    parser.addoption("--cap", type=float, default=20.0, help="seconds of tests for one mutant")


def pytest_runtestloop(session: pytest.Session) -> bool:
    options = session.config.option
    part, parts = map(int, options.part.split("/"))
    records = Records(Path(options.records))
    wanted = Path(options.mutants).read_text(encoding="utf-8").splitlines()[part::parts]
    done = records.finished(killed_only=options.again)
    modules = {f"sfumato.{name.partition(':')[0]}" for name in wanted}
    by_name = {str(site.mutant): site for module in modules for site in sites(module)}
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(session, records, Path(folder))
        with open(records.folder / f"results.{part}.jsonl", "a", encoding="utf-8") as results:
            for name in wanted:
                if name in by_name and name not in done:
                    result = runner.judge(by_name[name], options.cap)
                    decided = records.fingerprint(name, result.outcome)
                    results.write(json.dumps(asdict(replace(result, sources=decided)), ensure_ascii=False) + "\n")
                    results.flush()
                    _empty(Path(folder))
    return True


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "src":
            shutil.rmtree(path, ignore_errors=True)
