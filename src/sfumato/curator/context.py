"""All questions of one curator share a context: policy, engine, account, time limit, who asks.

The engine over the invented rows of a policy is opened when it is first wanted, and kept with the curator.

The rows are the same every time and nobody's, so every rehearsal may read them there: each still has an account of its
own, from which nothing is found again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sfumato.caching import cached_property
from sfumato.engine.opening import open_engine, with_invented_rows
from sfumato.engine.seam import Engine
from sfumato.errors import Unsupported
from sfumato.ledger import Account
from sfumato.plan.canonical import digest
from sfumato.policy import Policy, Table, Via
from sfumato.privacy import Budget, Curve
from sfumato.privacy.budget_words import closing
from sfumato.release.proposal import RunningWork
from sfumato.release.releasing import Progress


class InventedEngine:
    """This opens the engine once, for all views of one curator. Safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: Engine | None = None

    def of(self, policy: Policy) -> Engine:
        """Give the engine over the invented rows of the curator's policy."""
        with self._lock:
            if self._opened is None:
                self._opened = open_engine(with_invented_rows(policy))
            return self._opened

    def close(self) -> None:
        """Close the engine; it is opened again where it is wanted again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None


@dataclass(frozen=True)
class Context:
    """A context says whose data, where they live, who pays and who asks.

    It holds the engine, which reads exact totals: no public attribute hands it out.
    """

    policy: Policy
    engine: Engine
    account: Account
    progress: Progress
    version: str
    """Of the data, as readers are told."""
    seconds: float | None = None
    """How long reading may take before it is stopped."""
    analyst: str | None = None
    rehearsed: bool = False
    """Whether rows and account are invented (``rehearsing``): answers say so."""
    work: RunningWork = field(default_factory=RunningWork, repr=False, compare=False)
    """What runs now: every view of one curator counts it together."""
    invented: InventedEngine = field(default_factory=InventedEngine, repr=False, compare=False)
    """What rehearsals read, of all views of one curator."""
    told: Policy | None = None
    """The policy whose version is told, where the one that is opened has tables without rows in the place of its
    own."""

    @cached_property
    def declared(self) -> str:
        """Give the policy's version: the hash of everything declared in it."""
        policy = self.told or self.policy
        ids = [] if policy.id_type is None else [policy.id_type.value]
        ids += [] if policy.per is None else [["per", policy.per]]
        return digest(policy.unit, [_declared(table) for table in policy.tables.values()] + ids)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """Give the budgets that must afford a release: the account's, and the analyst's share of it."""
        return self.account.budgets(self.analyst)

    def closing(self, *curves: Curve | None) -> tuple[str, ...]:
        """Say what a release ends that has one of these curves, or Gaussian noise where it is None; mostly nothing."""
        if all(each is not None and each.max_divergence is not None for each in curves):
            return ()
        budgets = self.budgets
        accepted = all(budget.affords(each) for each in curves if each is not None for budget in budgets)
        said = closing(budgets[-1].remaining) if accepted else ""
        return (said,) if said else ()

    def require_one_account(self, what: str) -> None:
        """Refuse what is charged to one account where every period has its own, before its price is told."""
        per = self.policy.per
        if per is not None:
            rule = f"{what} holds its price in one account, and here every {per} has its own"
            fix = f"ask single questions, or keep one account for all: leave per = {per!r} out of a new policy"
            raise Unsupported("period-tab", rule, place=f"account {self.account.name!r}", fix=fix)


def _declared(table: Table) -> list[object]:
    limits = [_owner(table), table.relation, table.max_rows, table.max_groups, table.max_rows_per_group, table.public]
    lists = [[name, each.items, each.most_items] for name, each in table.lists.items()]
    return [table.name, limits, [*([name, domain] for name, domain in table.columns.items()), *lists], *_cells(table)]


def _cells(table: Table) -> list[object]:
    """Say what is declared of cells; a table that declares nothing of them has the same version as before."""
    bins = [[name, each.starts, each.end] for name, each in table.codings.items()]
    levels = [
        [name, level.parts, level.name, level.labels] for name, each in table.codings.items() for level in each.levels
    ]
    spikes = [[name, each.spikes] for name, each in table.codings.items() if each.spikes]
    told = [bins, levels, table.impossible, [list(each) for each in table.implies.items()]]
    return [*told, *([spikes] if spikes else [])] if any(told) else []


def _owner(table: Table) -> object:
    """Say whose a table's rows are; what was declared before there were paths and periods has the same version as
    before.
    """
    owner = str(table.id) if isinstance(table.id, Via) else table.id
    return owner if table.period is None else [owner, table.period]
