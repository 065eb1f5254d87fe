from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.postgres.wire_server import WireServer, wire_server


@pytest.fixture(scope="package")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireServer]:
    """A server shared by the tests of this package: each asks questions of its own."""
    folder: Path = tmp_path_factory.mktemp("wire")
    with wire_server(folder) as found:
        yield found
