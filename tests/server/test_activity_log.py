"""The activity log is JSON lines with six facts, in a file that only its owner reads."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from sfumato.server.activity_log import ActivityLog


def test_a_call_is_one_line_of_six_facts(tmp_path: Path) -> None:
    path = tmp_path / "calls.log"
    for number in range(2):
        log = ActivityLog(str(path))
        log.write(user="a\nna", route="release", status=200, line=number, price="ε = 0.3")
        log.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [list(each) for each in lines] == [["time", "user", "route", "status", "line", "price"]] * 2
    assert [each["line"] for each in lines] == [0, 1]
    assert lines[0]["user"] == "a\nna"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_file_it_is_written_to_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    log = ActivityLog()
    log.write(user="ana", route="budget", status=404)
    log.close()
    assert json.loads(capsys.readouterr().err)["status"] == 404
