"""The museum has nine rooms, and every exhibit has a name of its own."""

from __future__ import annotations

from sfumato.audit.museum import (
    broken_arithmetic,
    leaking_accounts,
    local_reports,
    shown_keys,
    side_channels,
    sparse_vectors,
    too_little_noise,
    wrong_choices,
    wrong_sensitivities,
)
from sfumato.audit.museum.exhibits import Exhibit, Room

ROOMS: tuple[Room, ...] = (
    too_little_noise.ROOM,
    wrong_sensitivities.ROOM,
    sparse_vectors.ROOM,
    wrong_choices.ROOM,
    shown_keys.ROOM,
    leaking_accounts.ROOM,
    local_reports.ROOM,
    broken_arithmetic.ROOM,
    side_channels.ROOM,
)
EXHIBITS: tuple[Exhibit, ...] = tuple(exhibit for room in ROOMS for exhibit in room.exhibits)
