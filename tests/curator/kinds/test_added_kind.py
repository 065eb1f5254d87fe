"""A kind of release is one file: with no other line it is priced, sold, stored, shown and asked in every skin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "use_added_kind.py"), str(tmp_path_factory.mktemp("added"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_its_file_is_short() -> None:
    assert len((HERE / "added" / "tallies.py").read_text().splitlines()) <= 80


def test_it_is_priced_released_charged_and_found_again(told: dict[str, Any]) -> None:
    assert told["price"] == told["remote price"] > 0
    assert [row[0] for row in told["local"]] == ["north", "south"]
    assert told["spent"] == told["spent at last"] == 1
    assert told["remote"] == told["local"]


def test_it_refuses_in_its_own_words(told: dict[str, Any]) -> None:
    assert "declared values: north, south" in told["refused"]


def test_the_command_line_has_it(told: dict[str, Any]) -> None:
    assert told["listed"]
    assert "--count [rows|units]" in told["help"]
    for _, number in told["local"]:
        assert str(number) in told["command"]


def test_rest_and_the_page_have_it(told: dict[str, Any]) -> None:
    assert told["rest"]
    assert told["form"] == ["text", "text", "list", "choice", "text", "number", "number"]
    assert told["sent"] == {
        "spec": {"table": "visits", "column": "region", "values": ["north", "south"], "count": "rows"},
        "price": {},
    }
