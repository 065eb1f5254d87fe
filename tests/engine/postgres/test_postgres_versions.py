"""What holds on the PostgreSQL that tests use holds on every other version that is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from postgres_server import Installation, installations

TESTS = Path(__file__).parent.parent.parent
OWN = (
    "engine/postgres/test_postgres.py",
    "engine/postgres/test_postgres_hostile_sources.py",
    "engine/postgres/test_postgres_meanings.py",
    "engine/postgres/test_postgres_readings.py",
    "engine/postgres/test_postgres_sessions.py",
)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("installation", installations()[1:], ids=lambda each: f"PostgreSQL {each.version}")
def test_every_version_that_is_found(installation: Installation, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}"]
    chosen = {**os.environ, "SFUMATO_POSTGRES": str(installation.folder)}
    done = subprocess.run(
        [*command, *(str(TESTS / each) for each in OWN)],
        env=chosen,
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
