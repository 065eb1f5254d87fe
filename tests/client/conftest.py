from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.curators import Curators, both, served_policy


@pytest.fixture(scope="module")
def curators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curators]:
    """A curator with an account of its own: in this process (``open``), or at a server in another thread."""
    with both(request.param, served_policy(tmp_path_factory.mktemp("policy"))) as found:
        yield found
