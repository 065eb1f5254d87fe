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
    recording = {"scale": 2.50123456789012, "cost": "1/3", "shape": [1, 2], "text": "±1.00012345678 of 7"}
    (tmp_path / "mine.json").write_text(json.dumps(recording))


CLAIMS: dict[str, recorded.Claim] = {
    "scale": 2.50123456789012 * (1 + 1e-15),
    "cost": Fraction(1, 3),
    "shape": (1, 2),
    "text": "±1.00012345679 of 7",
}


def test_equal_claims_pass() -> None:
    check_claims("mine", CLAIMS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale": 2.50123456789012 * (1 - 1e-11)}, "scale.*FELL"),
        ({"cost": Fraction(1, 2)}, "cost.*rose"),
        ({"shape": (1, 2, 3)}, "shape"),
        ({"other": True}, "other: absent"),
        ({"text": "±1.00012355678 of 7"}, "text"),
        ({"text": "±1.00012345678 of 8"}, "text"),
    ],
)
def test_changed_claims_are_named(changed: dict[str, recorded.Claim], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_claims("mine", CLAIMS | changed)


def test_a_claim_that_is_gone_is_named() -> None:
    with pytest.raises(AssertionError, match=r"shape.*absent"):
        check_claims("mine", {name: claim for name, claim in CLAIMS.items() if name != "shape"})


def test_numbers_of_few_digits_may_be_rounded_the_other_way() -> None:
    assert recorded.is_same(0.1234567891, 0.1234567892)
    assert not recorded.is_same(0.1234567891, 0.1234567899)
    assert not recorded.is_same(0.12345678912345, 0.12345678922345)
