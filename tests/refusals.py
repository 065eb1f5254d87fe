"""What every test of hostile parameters asserts."""

from __future__ import annotations

from typing import Any

import pytest

import sfumato as sf


def assert_refused(call: Any, rule: str = "") -> sf.InvalidParameter:
    """Assert that the call raises ``InvalidParameter`` with this text in its rule; return the refusal."""
    with pytest.raises(sf.InvalidParameter) as refusal:
        call()
    assert refusal.value.rule
    assert rule in refusal.value.rule
    return refusal.value
