"""When Laplace noise is kept although Gaussian noise is narrower."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.release import pricing


@pytest.mark.parametrize("gain", [1.99, 2.01])
@pytest.mark.parametrize("afforded", [("laplace", "gaussian"), ("laplace",), ("gaussian",), ()])
@pytest.mark.parametrize("remaining", [("pure",), ("renyi",), None])
@pytest.mark.parametrize("offered", [True, False])
def test_gaussian_noise_must_halve_every_error_where_an_account_is_open_to_pure_charges(
    monkeypatch: pytest.MonkeyPatch,
    gain: float,
    afforded: tuple[str, ...],
    remaining: tuple[str, ...] | None,
    offered: bool,
) -> None:
    """Two scales: the gain is the geometric mean of both."""
    monkeypatch.setattr(pricing, "_sum_log_half_widths", lambda release: release.log)
    monkeypatch.setattr(pricing, "replace", lambda release, reason: (release, reason))
    laplace = SimpleNamespace(pure=True, curve="laplace", log=2 * math.log(gain), reason="narrow")
    gaussian: Any = SimpleNamespace(pure=False, curve="gaussian", log=0.0, noisy_scales=(1, 2))
    account: Any = None
    if remaining is not None:
        account = SimpleNamespace(remaining=dict.fromkeys(remaining, 1), affords=lambda curve: curve in afforded)
    candidates: Any = [gaussian, laplace] if offered else [gaussian]
    found: Any = pricing._prefer_pure(candidates, gaussian, account)
    keeps = offered and remaining == ("pure",) and "laplace" in afforded
    if not keeps or ("gaussian" in afforded and gain >= 2):
        assert found is gaussian
        return
    kept, reason = found
    assert kept is laplace
    assert reason.startswith(f"narrow; Gaussian noise would have {1 / gain:.2g} times the error, but ")
