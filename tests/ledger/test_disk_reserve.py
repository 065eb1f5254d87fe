"""The disk's reserve: an answer that was paid for is written on a disk that has filled up since."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.ledger.local_files import RESERVE_BYTES, DiskReserve
from small_disks import SmallDisk, small_disk

BODIES = ["small", "x" * 60_000, "y" * (3 << 20)]
"""Inside the ledger, nearly the largest inside it, and a file beside it."""


@pytest.mark.parametrize("body", BODIES, ids=["small", "page", "file"])
def test_an_answer_is_written_after_the_disk_filled_up(tmp_path: Path, body: str) -> None:
    with small_disk(tmp_path / "disk", 12) as disk:
        ledger, clinic = _open(disk)
        reserve = DiskReserve(disk.folder / "ledger")
        ledger.use_reserve(reserve)
        reserve.hold()
        line = clinic.charge(pure())
        disk.fill()
        answer = clinic.answer(line, f'"{body}"', {})
        assert ledger.body(answer) == f'"{body}"'
        assert not reserve.path.exists()
        assert ledger.verify().holds
        ledger.close()


def test_without_a_reserve_the_answer_is_lost(tmp_path: Path) -> None:
    """The broken twin: what the reserve is for."""
    with small_disk(tmp_path / "disk", 12) as disk:
        ledger, clinic = _open(disk)
        line = clinic.charge(pure())
        disk.fill()
        with pytest.raises(sf.LedgerUnavailable):
            clinic.answer(line, f'"{BODIES[2]}"', {})
        ledger.close()


def test_nothing_is_charged_while_the_space_cannot_be_held(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 12) as disk:
        reserve = DiskReserve(disk.folder / "ledger")
        disk.fill()
        for _ in range(2):
            with pytest.raises(sf.LedgerUnavailable, match="nothing was charged"):
                reserve.hold()
            assert not reserve.path.exists()
        disk.empty()
        reserve.hold()
        assert reserve.path.stat().st_size == RESERVE_BYTES
        assert reserve.path.stat().st_mode & 0o777 == 0o600
        disk.fill()  # the reserve is held, and a charge would not fit beside it
        with pytest.raises(sf.LedgerUnavailable, match="nothing was charged"):
            reserve.hold()
        assert reserve.path.exists()
        assert reserve.free()
        assert not reserve.free()


def test_a_reserve_cut_short_is_held_again(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path / "ledger")
    reserve.path.write_bytes(b"x")
    reserve.hold()
    assert reserve.path.stat().st_blocks * 512 >= RESERVE_BYTES


def _open(disk: SmallDisk) -> tuple[sf.Ledger, sf.Account]:
    ledger = sf.Ledger.open(disk.folder / "ledger")
    return ledger, account(ledger)
