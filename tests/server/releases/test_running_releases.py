"""Releases under way in all processes: so many of one user, and none of a process that has ended."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.ledger import local_files
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.releases.running_releases import (
    MAX_TEXTS_PER_LINE,
    Phase,
    ReleaseKey,
    RunningReleases,
    StoredRelease,
)


def test_what_a_killed_process_left_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot, space, number, _ = local_files.current_process_name().split(" ")
    with closing(PeopleFile(tmp_path / "sfumato.ledger.people")) as people:
        running = RunningReleases(people.database, 2)
        with monkeypatch.context() as patch:
            patch.setattr(
                local_files, "current_process_name", lambda: f"{boot} {space} {number} 1"
            )  # one that started before
            assert [running.begin_if_user_has_slot(ReleaseKey("clinic", "ana", key)) for key in ("a", "b")] == [
                True,
                True,
            ]
            running.mark_charged(ReleaseKey("clinic", "ana", "b"))
        assert running.phase(ReleaseKey("clinic", "ana", "b")) is None  # nobody is told to wait for what never comes
        assert running.begin_if_user_has_slot(ReleaseKey("clinic", "ana", "a"))  # the same request, too
        assert running.begin_if_user_has_slot(ReleaseKey("clinic", "ana", "c"))
        assert not running.begin_if_user_has_slot(ReleaseKey("clinic", "ana", "d"))  # two are under way here
        assert running.phase(ReleaseKey("clinic", "ana", "b")) is None
        assert running.phase(ReleaseKey("clinic", "ana", "a")) is Phase.QUEUED


def test_many_ids_of_one_answer_keep_its_text_once(tmp_path: Path) -> None:
    kept = StoredRelease(3, "questions", "{}", "{}", "an answer " * 50_000)
    with closing(PeopleFile(tmp_path / "people")) as people:
        running = RunningReleases(people.database, 2)
        for number in range(20):
            running.store_copy(ReleaseKey("clinic", "ana", f"r{number}"), kept)
        running.finish(ReleaseKey("clinic", "ben", "r"), kept, 0)
        running.store_copy(
            ReleaseKey("clinic", "ana", "r0"), StoredRelease(4, "questions", "{}", "{}", "other")
        )  # an id has one answer
        running.store_copy(ReleaseKey("clinic", "ana", "old"), StoredRelease(5, "questions", "{}", "{}"))
        for user, request in (("ana", "r0"), ("ana", "r19"), ("ben", "r")):
            assert running.stored_release(ReleaseKey("clinic", user, request)) == kept
        assert running.stored_on_line("clinic", 3, "ben") == (ReleaseKey("clinic", "ben", "r"), kept)
        assert running.stored_on_line("clinic", 3, None) == (ReleaseKey("clinic", "ana", "r0"), kept)
        assert running.stored_release(ReleaseKey("clinic", "ana", "old")) == StoredRelease(5, "questions", "{}", "{}")
        with people.database.read_transaction() as rows:
            assert rows.execute("SELECT text FROM texts").fetchall() == [(kept.answer,)]
    assert sum(each.stat().st_size for each in tmp_path.glob("people*")) < 2 * len(kept.answer)


def test_many_texts_of_one_line_take_so_much_room_and_no_more(tmp_path: Path) -> None:
    def told(number: int, line: int = 3) -> StoredRelease:
        return StoredRelease(line, "questions", f"{{{number}}}", "{}", f"{line}: answer {number}")

    with closing(PeopleFile(tmp_path / "people")) as people:
        running = RunningReleases(people.database, 2)
        running.finish(ReleaseKey("clinic", "ben", "bought"), told(100), 0)
        for number in range(MAX_TEXTS_PER_LINE + 1):
            running.store_copy(ReleaseKey("clinic", "ana", f"r{number}"), told(number))
            running.store_copy(ReleaseKey("clinic", "ana", f"s{number}"), told(number, line=4))
        running.store_copy(ReleaseKey("clinic", "ana", "same"), told(100))  # a text that is there takes no room
        running.store_copy(ReleaseKey("clinic", "ben", "r"), told(MAX_TEXTS_PER_LINE))  # others have room of their own
        running.finish(ReleaseKey("clinic", "ana", "paid"), told(200), 0)  # what is paid for is always kept
        assert running.stored_release(ReleaseKey("clinic", "ana", f"r{MAX_TEXTS_PER_LINE - 1}")) == told(
            MAX_TEXTS_PER_LINE - 1
        )
        beyond = running.stored_release(ReleaseKey("clinic", "ana", f"s{MAX_TEXTS_PER_LINE}"))
        assert beyond == replace(told(MAX_TEXTS_PER_LINE, line=4), answer="")
        assert running.stored_release(ReleaseKey("clinic", "ana", "same")) == told(100)
        assert running.stored_release(ReleaseKey("clinic", "ben", "r")) == told(MAX_TEXTS_PER_LINE)
        assert running.stored_release(ReleaseKey("clinic", "ana", "paid")) == told(200)
        with people.database.read_transaction() as rows:
            assert rows.execute("SELECT count(*) FROM texts").fetchone() == (2 * MAX_TEXTS_PER_LINE + 3,)


def test_what_has_landed_here_is_taken_over_and_what_runs_elsewhere_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, new = (ReleaseKey("clinic", "ana", key) for key in ("a", "b", "c"))
    with closing(PeopleFile(tmp_path / "people")) as people:
        running = RunningReleases(people.database, 2)
        assert running.begin_if_user_has_slot(one)
        with monkeypatch.context() as patch:
            patch.setattr(local_files, "is_process_alive", lambda _: True)
            patch.setattr(local_files, "current_process_name", lambda: "another that lives on")
            assert running.begin_if_user_has_slot(other)
            assert not running.begin_if_user_has_slot(one, [one])
        monkeypatch.setattr(local_files, "is_process_alive", lambda _: True)
        assert not running.begin_if_user_has_slot(one)
        assert not running.begin_if_user_has_slot(other, [other])
        assert running.begin_if_user_has_slot(one, [one])  # the same id
        assert not running.begin_if_user_has_slot(new)
        assert running.begin_if_user_has_slot(new, [one])
        assert running.phase(one) is None
