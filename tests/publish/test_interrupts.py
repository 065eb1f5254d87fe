"""Publishing is stopped at each of its phases, by Ctrl-C and by kill −9: what was charged stays, nothing is half
written, and what was written down is found again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.publish.files import sealed_files
from sfumato.release.running_work import ignore_progress

POLICY = """
[unit]
name = "person"
budget = { epsilon = 9.0, delta = 1e-6 }
[tables.people]
source = "people.csv"
id = "who"
max_rows = 2
[tables.people.columns]
sex = { values = ["f", "m"] }
age = { type = "integer", bounds = [0, 110], bins = [0, 18, 30, 65, 110] }
"""
BEFORE, BETWEEN, AFTER = ("checking", "charging"), ("reading", "adding noise", "writing down"), ("syncing", "renaming")
PHASES = [*((each, 0, 0) for each in BEFORE), *((each, 1, 0) for each in BETWEEN), *((each, 1, 1) for each in AFTER)]
"""Each phase, with how many charges and answers there are when it begins; the last two write the file."""
KILLED = ("charging", "reading", "syncing")
"""Killed there by default: once with each number of charges and answers. Every phase is interrupted."""
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["sfumato", "duckdb", "pyarrow.parquet", "publish.test_interrupts"])


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("who,sex,age\n1,f,17\n1,f,18\n2,m,40\n3,x,\n")
    (tmp_path / "clinic.toml").write_text(POLICY)
    return tmp_path / "clinic.toml"


def kinds(curator: sf.Curator) -> tuple[int, int]:
    found = Counter(line.kind for line in curator.history())
    return found["charge"], found["answer"]


def _checked(policy: Path, charges: int, answers: int) -> None:
    """What was charged is there, nothing stands under the name of the file, and what was answered is found again."""
    file = policy.with_name("people.sfu")
    assert not file.exists()
    with sf.open(policy) as curator:
        assert kinds(curator) == (charges, answers)
        made = curator.marginals("people", 2).release(epsilon=1, delta="1e-9")
        assert kinds(curator) == (charges + (not answers), 1)
    assert made.receipt.free is bool(answers)
    made.save(file)
    assert sf.synopsis(file).verify()


def _publish_until_killed(policy: Path, phase: str) -> None:
    """Publish in this process, which kills itself when the phase begins."""

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with sf.open(policy) as curator:
        asked = curator.marginals("people", 2)
        made = asked.release(epsilon=1, delta="1e-9", progress=lambda name: die() if name == phase else None)
        owner, name = (os, "fsync") if phase == "syncing" else (Path, "replace")
        setattr(owner, name, die)
        made.save(policy.with_name("people.sfu"))


@pytest.mark.parametrize(
    ("phase", "charges", "answers"),
    [pytest.param(*each, marks=() if each[0] in KILLED else pytest.mark.long) for each in PHASES],
)
def test_a_killed_process_leaves_its_charge_and_nothing_half_written(
    policy: Path, phase: str, charges: int, answers: int
) -> None:
    killed = _FORKED.Process(target=_publish_until_killed, args=(policy, phase))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    _checked(policy, charges, answers)


@pytest.mark.parametrize(("phase", "charges", "answers"), PHASES)
def test_an_interrupt_leaves_its_charge_and_nothing_half_written(
    policy: Path, phase: str, charges: int, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def published() -> None:
        with sf.open(policy) as curator:
            told = {phase: stop}
            asked = curator.marginals("people", 2)
            made = asked.release(epsilon=1, delta="1e-9", progress=lambda name: told.get(name, ignore_progress)(name))
            with monkeypatch.context() as broken:
                owner, name = (os, "fsync") if phase == "syncing" else (sealed_files.Path, "replace")
                broken.setattr(owner, name, stop)
                made.save(policy.with_name("people.sfu"))

    expected = sf.Unanswered if (charges, answers) == (1, 0) else KeyboardInterrupt
    with pytest.raises(expected):
        published()
    assert not list(policy.parent.glob("*.partial"))
    assert not list(policy.parent.glob(".*.partial"))
    _checked(policy, charges, answers)
