from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The bundled example in a folder of its own, nothing asked yet."""
    return sf.example(tmp_path / "flights")
