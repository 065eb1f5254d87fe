"""What every question of one curator shares."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.caching import cached_property
from sfumato.engine.seam import Engine
from sfumato.ledger import Account
from sfumato.plan.canonical import digest
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget
from sfumato.release.releasing import Progress


@dataclass(frozen=True)
class Setting:
    """Whose data, where they live, who pays, who asks."""

    policy: Policy
    engine: Engine
    account: Account
    progress: Progress
    version: str
    """Of the data, as readers are told."""
    seconds: float | None = None
    """How long reading may take before it is stopped."""
    analyst: str | None = None

    @cached_property
    def declared(self) -> str:
        """The policy's version: the hash of everything declared in it."""
        return digest(self.policy.unit, [_declared(table) for table in self.policy.tables.values()])

    @property
    def purses(self) -> tuple[Budget, ...]:
        """What must afford a release: the account, and the analyst's share of it."""
        shared = () if self.analyst is None else (self.account.analyst(self.analyst).budget,)
        return (self.account.budget, *shared)


def _declared(table: Table) -> list[object]:
    limits = [table.id, table.relation, table.max_rows, table.max_groups, table.max_rows_per_group, table.public]
    return [table.name, limits, [[name, domain] for name, domain in table.columns.items()]]
