from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.small_server import BOTH, SmallServer, open_server


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallServer]:
    found = open_server(tmp_path)
    yield found
    found.close()


@pytest.fixture
def two_policies(tmp_path: Path) -> Iterator[SmallServer]:
    """The same with a second policy, which names ben alone."""
    found = open_server(tmp_path, BOTH)
    yield found
    found.close()
