from __future__ import annotations

from pathlib import Path

import pytest

from reports.accounts import asked
from sfumato.reports import SigningKey


@pytest.fixture(scope="package")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An account that was asked; nothing more is asked of it."""
    return asked(tmp_path_factory.mktemp("quietfolder") / "flights")


@pytest.fixture(scope="package")
def key() -> SigningKey:
    return SigningKey.new()
