from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.small_server import SmallServer, open_server


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallServer]:
    found = open_server(tmp_path)
    yield found
    found.close()
