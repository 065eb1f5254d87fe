from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.engine.inspecting import shared_inspection


@pytest.fixture(scope="module", autouse=True)
def _inspections_share_one_engine() -> Iterator[None]:
    """Each look at a file has a database of its own there, as within one ``sfumato init``."""
    with shared_inspection():
        yield


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The bundled example in a folder of its own, nothing asked yet."""
    return sf.example(tmp_path / "flights")
