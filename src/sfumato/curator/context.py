"""The context that all questions of one curator share: policy, engine, account, time limit, analyst.

The engine over a policy's invented rows is opened on first use and kept with the curator. Those rows are deterministic
and nobody's, so all previews share it; each preview has an account of its own, from which no answer is reused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from sfumato.caching import cached_property
from sfumato.errors import Unsupported
from sfumato.quick_dataclass import dataclass
from sfumato.release.running_work import RunningWork

if TYPE_CHECKING:
    from sfumato.engine.protocols import Engine
    from sfumato.ledger import Account
    from sfumato.plan.canonical import PlanKey
    from sfumato.policy import Policy, Table
    from sfumato.privacy import Budget, Curve
    from sfumato.release.running_work import Progress


class PreviewEngine:
    """An engine over invented rows, opened once for all views of a curator. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def engine_for(self, policy: Policy) -> Engine:
        """Return the engine over the invented rows of the curator's policy."""
        from sfumato.engine.opening import open_engine, with_invented_rows

        with self._lock:
            if self._engine is None:
                self._engine = open_engine(with_invented_rows(policy))
            return self._engine

    def close(self) -> None:
        """Close the engine; the next use opens it again."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()
            self._engine = None


@dataclass(frozen=True)
class Context:
    """Policy, engine, account and analyst of a question.

    It holds the engine, which reads exact totals: no public attribute may expose it.
    """

    policy: Policy
    engine: Engine
    account: Account
    progress: Progress
    version: str
    """The version of the data, as shown to readers."""
    seconds: float | None = None
    """The time limit of reading, in seconds."""
    analyst: str | None = None
    is_preview: bool = False
    """Whether rows and account are invented (``previewing``); answers are marked so."""
    running_work: RunningWork = field(default_factory=RunningWork, repr=False, compare=False)
    """The running releases, counted over all views of one curator."""
    preview_engine: PreviewEngine = field(default_factory=PreviewEngine, repr=False, compare=False)
    """The engine that previews read, shared by all views of one curator."""
    reported_policy: Policy | None = None
    """The policy whose version is reported, where the opened one has empty tables instead of its own."""

    @cached_property
    def policy_version(self) -> str:
        """The policy's version: a hash of all its declarations."""
        from sfumato.plan.canonical import digest
        from sfumato.plan.relevant_policy import newer_field_declarations

        policy = self.declared_policy
        ids: list[object] = [] if policy.id_type is None else [policy.id_type.value]
        ids += [] if policy.per is None else [["per", policy.per]]
        later = newer_field_declarations(policy)
        declarations = [*map(_table_declarations, policy.tables.values()), *ids, *([["later", later]] if later else [])]
        return digest(policy.unit, declarations)

    @cached_property
    def synopsis_prefixes(self) -> dict[str, PlanKey]:
        """The prefixes of the plans of what was published, by table (``bought_synopses``)."""
        return {}

    @property
    def declared_policy(self) -> Policy:
        """The policy as its owner wrote it."""
        return self.reported_policy or self.policy

    def plan_key(self, plan: object, make_hash: Callable[[object], str], *, reads_cells: bool = False) -> PlanKey:
        """Return the key of a release: ``make_hash`` hashes what is released with the declarations that it depends on.

        Formerly it was hashed with the version of the whole policy.
        """
        from sfumato.plan.canonical import PlanKey
        from sfumato.plan.relevant_policy import declarations_for_plan

        relevant = declarations_for_plan(plan, self.declared_policy, reads_cells=reads_cells)
        return PlanKey(make_hash(relevant), make_hash(self.policy_version))

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets that must afford a release: the account's, and the analyst's share."""
        return self.account.budgets(self.analyst)

    def remaining_after_text(self, curve: Curve, budgets: Sequence[Budget] = ()) -> str:
        """Describe what would remain of the account, or of the analyst's share, after a release; the budgets as they
        were when they accepted it, or as they are now.
        """
        *others, payer_budget = (budget.charge(curve) for budget in budgets or self.budgets)
        return payer_budget.remaining_words_with(*others)

    def epsilon_total_warnings(self, *curves: Curve | None) -> tuple[str, ...]:
        """Return the warning that a release with these curves makes the plain ε total unavailable, if it does.

        None stands for a curve of Gaussian noise.
        """
        from sfumato.privacy.amounts import gaussian_warning

        if all(curve is not None and curve.max_divergence is not None for curve in curves):
            return ()
        budgets = self.budgets
        accepted = all(budget.affords(curve) for curve in curves if curve is not None for budget in budgets)
        warning = gaussian_warning(budgets[-1].remaining) if accepted else ""
        return (warning,) if warning else ()

    def require_one_account(self, request_phrase: str) -> None:
        """Refuse, before quoting a price, what needs one account where every period has its own."""
        per = self.policy.per
        if per is not None:
            rule = f"every {per} has an account of its own here, but {request_phrase} must be charged to one account"
            fix = f"ask single questions, or use a policy without per = {per!r}, so that there is one account"
            raise Unsupported("period-tab", rule, place=f"account {self.account.name!r}", fix=fix)


def _table_declarations(table: Table) -> list[object]:
    limits = [
        _id_declaration(table),
        table.relation,
        table.max_rows,
        table.max_groups,
        table.max_rows_per_group,
        table.public,
    ]
    lists = [[name, column_list.items, column_list.max_items] for name, column_list in table.lists.items()]
    return [
        table.name,
        limits,
        [*([name, domain] for name, domain in table.columns.items()), *lists],
        *_coding_declarations(table),
    ]


def _coding_declarations(table: Table) -> list[object]:
    """List the declarations about cells; a table without any keeps the version it had before they existed."""
    bins = [[name, coding.starts, coding.end] for name, coding in table.codings.items()]
    levels = [
        [name, level.parts, level.name, level.labels]
        for name, coding in table.codings.items()
        for level in coding.levels
    ]
    spikes = [[name, coding.spikes] for name, coding in table.codings.items() if coding.spikes]
    declarations = [bins, levels, table.impossible, [list(implication) for implication in table.implies.items()]]
    return [*declarations, *([spikes] if spikes else [])] if any(declarations) else []


def _id_declaration(table: Table) -> object:
    """Return how rows map to units; tables without a path or period keep the version they had before these existed."""
    from sfumato.policy import Via

    unit_id = str(table.id) if isinstance(table.id, Via) else table.id
    return unit_id if table.period is None else [unit_id, table.period]
