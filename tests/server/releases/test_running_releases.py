"""Releases under way in all processes: so many of one user, and none of a process that has ended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sfumato.ledger import processes
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.releases.running_releases import Phase, Request, RunningReleases


def test_what_a_killed_process_left_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot, space, number, _ = processes.this_process().split(" ")
    with closing(PeopleFile(tmp_path / "sfumato.ledger.people")) as people:
        running = RunningReleases(people.database, 2)
        with monkeypatch.context() as patch:
            patch.setattr(processes, "this_process", lambda: f"{boot} {space} {number} 1")  # one that started before
            assert [running.begin(Request("clinic", "ana", key)) for key in ("a", "b")] == [True, True]
            running.charged(Request("clinic", "ana", "b"))
        assert running.phase(Request("clinic", "ana", "b")) is None  # nobody is told to wait for what never comes
        assert running.begin(Request("clinic", "ana", "a"))  # the same request, too
        assert running.begin(Request("clinic", "ana", "c"))
        assert not running.begin(Request("clinic", "ana", "d"))  # two are under way here
        assert running.phase(Request("clinic", "ana", "b")) is None
        assert running.phase(Request("clinic", "ana", "a")) is Phase.QUEUED
