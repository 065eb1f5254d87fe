"""A driver that may hold fewer rows than plans allow is refused when its session is opened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.engine.spark.sessions import LEAST_RESULT, require_large_results
from sfumato.errors import InvalidPolicy


def _session(settings: dict[str, str]) -> Any:
    """What a session says of its settings; a real one lets nobody change this one."""
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, otherwise: settings.get(name, otherwise)))


@pytest.mark.parametrize("size", [None, "0", "512m", "1g", "2GB", str(LEAST_RESULT), "1t"])
def test_enough_is_accepted(size: str | None) -> None:
    require_large_results(_session({} if size is None else {"spark.driver.maxResultSize": size}), "here")


@pytest.mark.parametrize("size", ["1", "511m", "100MB", str(LEAST_RESULT - 1), "-1", "much"])
def test_less_than_plans_allow_is_refused(size: str) -> None:
    with pytest.raises(InvalidPolicy, match="maxResultSize"):
        require_large_results(_session({"spark.driver.maxResultSize": size}), "here")
