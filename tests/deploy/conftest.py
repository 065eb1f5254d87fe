from __future__ import annotations

from pathlib import Path

import pytest

from deploy.running_proxies import write_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("certificate"))
