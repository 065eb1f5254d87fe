"""A record notices what moved and forgives the last bits of floats."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from claims import recorded
from claims.recorded import check_claims


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.delenv("RECORD_CLAIMS", raising=False)
    (tmp_path / "mine.json").write_text(json.dumps({"scale": 2.5, "cost": "1/3", "shape": [1, 2]}))


def test_equal_claims_pass() -> None:
    check_claims("mine", {"scale": 2.5 * (1 + 1e-15), "cost": Fraction(1, 3), "shape": (1, 2)})


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"scale": 2.5 * (1 - 1e-11), "cost": Fraction(1, 3), "shape": (1, 2)}, "scale.*FELL"),
        ({"scale": 2.5, "cost": Fraction(1, 2), "shape": (1, 2)}, "cost.*rose"),
        ({"scale": 2.5, "cost": Fraction(1, 3), "shape": (1, 2, 3)}, "shape"),
        ({"scale": 2.5, "cost": Fraction(1, 3)}, "shape.*absent"),
        ({"scale": 2.5, "cost": Fraction(1, 3), "shape": (1, 2), "other": True}, "other: absent"),
    ],
)
def test_changed_claims_are_named(claims: dict[str, recorded.Claim], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_claims("mine", claims)
