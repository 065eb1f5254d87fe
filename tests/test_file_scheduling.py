"""The scheduler of the test suite hands out every test once, whole files together, also after a worker has died."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from file_scheduling import SPARK, FileScheduling

_FILES = {"tests/a.py": 4, f"{SPARK}b.py": 2, f"{SPARK}c.py": 3, "tests/d.py": 1, "tests/e.py": 5, "tests/f.py": 3}
_TESTS = [f"{file}::test_{number}" for file, count in _FILES.items() for number in range(count)]


class _Worker:
    """A worker that runs nothing: it keeps what it was sent."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="worker")
        self.waiting: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.waiting += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def _started(config: pytest.Config, workers: list[_Worker]) -> Any:
    scheduling: Any = FileScheduling(config)
    scheduling.numnodes = len(workers)
    for worker in workers:
        scheduling.add_node(worker)
    for worker in workers:
        scheduling.add_node_collection(worker, _TESTS)
    scheduling.schedule()
    return scheduling


def _run_next(scheduling: Any, worker: _Worker) -> int:
    scheduling.mark_test_complete(worker, done := worker.waiting.pop(0))
    return done


@pytest.fixture
def scheduling_config(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> pytest.Config:
    for option, value in {"tx": ["2*popen"], "loadscopereorder": False}.items():
        monkeypatch.setattr(pytestconfig.option, option, value, raising=False)
    return pytestconfig


def test_every_test_runs_once_and_a_file_at_one_worker(scheduling_config: pytest.Config) -> None:
    workers = [_Worker(), _Worker()]
    scheduling = _started(scheduling_config, workers)
    ran: list[list[int]] = [[], []]
    while not scheduling.tests_finished or any(worker.waiting for worker in workers):
        for worker, done in zip(workers, ran, strict=True):
            if worker.waiting:
                done.append(_run_next(scheduling, worker))
    assert sorted(ran[0] + ran[1]) == list(range(len(_TESTS)))
    assert not scheduling.has_pending
    assert all(worker.shutting_down for worker in workers)
    scopes = [
        {SPARK if _TESTS[item].startswith(SPARK) else _TESTS[item].split("::")[0] for item in done} for done in ran
    ]
    assert scopes[0].isdisjoint(scopes[1])
    assert all(done == sorted(done) for done in ran)


def test_what_a_dead_worker_left_is_run_by_another(scheduling_config: pytest.Config) -> None:
    dead, alive = _Worker(), _Worker()
    scheduling = _started(scheduling_config, [dead, alive])
    ran = [_run_next(scheduling, dead)]
    crashed = scheduling.remove_node(dead)
    assert crashed == _TESTS[dead.waiting[0]]
    while alive.waiting:
        ran.append(_run_next(scheduling, alive))
    assert sorted(ran) == list(range(len(_TESTS)))
    assert scheduling.tests_finished
