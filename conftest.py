"""Markdown and docstring examples are tests; ``--long`` runs the full figures, ``--quick`` what an edit breaks first.

A test that passed passes again: outside the long run, the noise of every test is drawn from bytes that its name
decides. So what is tested before a change is sent is what is tested after it. ``--draws`` decides other bytes for all
of them, to find a test that few draws pass; a test of the source itself is marked ``entropy``.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
_MORE_EXAMPLES: set[object] = set()
sys.path.insert(0, str(Path(__file__).parent / "tests"))  # tests share helpers: ``from privacy.families import …``


_ROOT = Path(__file__).parent
_NOT_QUICK = frozenset(
    _ROOT / path
    for path in (
        *("docs", "README.md", "CONTRIBUTING.md", "tests/cli", "tests/client", "tests/docs", "tests/server"),
        *("tests/engine/postgres", "tests/engine/spark", "tests/engines", "tests/mutants", "tests/mutation"),
        "tests/test_pages.py",
    )
)
"""What starts servers, browsers, databases or other processes, or runs whole pages."""
_SERVER_FIXTURES = frozenset({"postgres", "sessions"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the full figures instead of small seeded counts")
    parser.addoption("--quick", action="store_true", help="run one example of each fast test, without servers")
    parser.addoption("--draws", default="", help="a name for other bytes to draw the noise of every test from")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        from worker_events import send_only_what_is_shown

        send_only_what_is_shown(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Let Python look for garbage neither while tests are collected, which are none, nor among them afterwards."""
    gc.disable()
    try:
        for module in _modules_imported_first(session.config):
            with suppress(Exception, pytest.skip.Exception):  # pytest imports it again, and reports this
                importlib.import_module(module)
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # Python's own 700 spend a twentieth of the run on looking for cycles


def _modules_imported_first(config: pytest.Config) -> list[str]:
    """Return this worker's share of the test modules: once one worker has rewritten the assertions of a module, and
    compiled it, the others read that. If all began with the same module, each would do so with all of them.
    """
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or "PYTEST_XDIST_WORKER" not in os.environ:
        return []
    number, workers = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    root = _ROOT / "tests"
    paths = [path for path in sorted(root.rglob("test_*.py")) if not pytest_ignore_collect(path, config)]
    names = [path.relative_to(root).with_suffix("").parts for path in paths if path.parent == root or _in_package(path)]
    return [".".join(name) for name in names[number % workers :: workers]]


def _in_package(path: Path) -> bool:
    return (path.parent / "__init__.py").exists()


def pytest_unconfigure() -> None:
    """Let Python find everything when it ends: else libraries say that something of theirs leaked."""
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    within = (collection_path, *collection_path.parents)
    return True if config.getoption("--quick") and not _NOT_QUICK.isdisjoint(within) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        for item in items:
            _draw_more_examples(item)
        return
    chosen = [item for item in items if item.get_closest_marker("long") is None]
    if config.getoption("--quick"):
        chosen = _quick(chosen)
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def _draw_more_examples(item: pytest.Item) -> None:
    """Let a property that is tested on few examples by default be tested on four times as many."""
    function = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    if getattr(function, "is_hypothesis_test", False) and function not in _MORE_EXAMPLES:
        _MORE_EXAMPLES.add(function)
        usual = function._hypothesis_internal_use_settings  # noqa: SLF001 (a decorator would need to know of --long)
        function._hypothesis_internal_use_settings = settings(usual, max_examples=4 * usual.max_examples)  # noqa: SLF001


def _quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first example of each function, without those that are slow or need a server."""
    slow = {line for line in (_ROOT / "tests" / "slow.txt").read_text().splitlines() if not line.startswith("#")}
    first: dict[str, pytest.Item] = {}
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name not in slow and _SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            first.setdefault(name, item)
    return list(first.values())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Decide what this thread draws by the name of the test, fixtures included; threads and processes that the test
    starts draw from the system's entropy.
    """
    if item.config.getoption("--long") or item.get_closest_marker("entropy") is not None:
        return (yield)
    from mechanisms.recorded import keyed

    with keyed(f"{item.config.getoption('--draws')} {item.nodeid}"):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are processors: tests that wait for a server or another process leave theirs idle."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where a file goes to one worker, in an order of our own."""
    if config.getoption("dist") != "loadfile":
        return None
    from file_scheduling import FileScheduling

    return FileScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, in red, how many tests were skipped for which reason, from all workers."""
    reasons = Counter(_skip_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    for reason, tests in sorted(reasons.items()):
        terminalreporter.write_line(f"NOT TESTED: {tests} skipped: {reason}", red=True, bold=True)


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    where = report.longrepr
    return where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)


@pytest.fixture(scope="session", autouse=True)
def _state_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a user remembers of ledgers in databases is neither found by tests nor added to."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))


markdown = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"], excludes=["tests/**"])
docstrings = Sybil(parsers=[DocTestParser()], patterns=["*.py"], path="src")
_collect_file = (markdown + docstrings).pytest()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the examples of a page or a module; a module without any is not parsed."""
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text(encoding="utf-8"):
        return None
    return _collect_file(file_path, parent)
