"""What every question of one curator shares."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.engine.seam import Engine
from sfumato.ledger import Account
from sfumato.policy import Policy
from sfumato.release.door import Progress


@dataclass(frozen=True)
class Setting:
    """Whose data, where they live, who pays, who asks."""

    policy: Policy
    engine: Engine
    account: Account
    progress: Progress
    seconds: float | None = None
    """How long reading may take before it is stopped."""
    analyst: str | None = None
