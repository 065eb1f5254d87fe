"""Dry charges: what a release would charge and read, found without charging and without reading a row.

A release runs up to its charge over an engine that binds nothing and reads nothing, on an account whose condition
raises instead of charging. What would be charged is therefore exactly what the release itself computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sfumato.curator.context import Context
from sfumato.engine.protocols import DataIdentity, Engine, OpenReading
from sfumato.ledger.accounts.approvals import RequestUse
from sfumato.ledger.approval_requests import ProposedCharge
from sfumato.ledger.spending import read_cost
from sfumato.ledger.transaction import Transaction
from sfumato.mechanisms import bits
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.readings.total_readings import DiscoveredTotals, PlanReading
from sfumato.plan.relevant_policy import read_columns
from sfumato.policy import InMemory, Source, SparkFrame
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    pass

E = TypeVar("E")


@dataclass(frozen=True)
class DryCharge:
    """What a release would charge, and what it would read."""

    charge: ProposedCharge
    epsilon: Fraction | None
    """The ε that it counts with; None where no ε bounds it."""
    delta: Fraction | None
    """The δ at which that ε holds, for Gaussian noise; None for an ε of its own."""
    tables: frozenset[str] | None
    """The tables that it reads, and those that give their rows an owner; None if they are chosen later."""
    discovers_groups: bool | None
    """Whether groups are discovered in the data; None if that is chosen later."""
    measures: frozenset[str] | None
    """What is read of the rows (``ReadMeasure``); None if it is chosen later."""


def dry_charge(context: Context, release: Callable[[Context, str], object]) -> DryCharge | None:
    """Return what a release would charge; None if nothing: it is stored, or free.

    ``release`` proposes and releases in a context, under a request id.
    """
    recorder = _ReadingRecorder()
    account = context.account.limited(None).conditioned(recorder)
    dry_context = replace(context, engine=_ReadingRecordingEngine(context.engine, recorder), account=account)
    try:
        release(dry_context, f"dry-{bits.random_bits(128):032x}")
    except _ChargeReached as charged:
        return recorder.dry_charge(charged, context)
    return None


def policy_hash(context: Context) -> str:
    """Hash the whole policy: its declarations, its sources, its budget, its analysts and its approval rules."""
    policy = context.declared_policy
    shares = sorted((name, share) for name, share in policy.analysts.items())
    rules = (
        [] if policy.approval is None else sorted((key, str(value)) for key, value in policy.approval.declared.items())
    )
    tables = sorted(policy.tables.items())
    sources = [(name, *_source_declaration(table.source), table.row_ceiling) for name, table in tables]
    return digest(context.policy_version, policy.budget, policy.size, shares, rules, sources)


def _source_declaration(source: Source) -> tuple[str, ...]:
    """Return a source as it is declared; rows in memory have no declaration, and their contents are not hashed."""
    if isinstance(source, InMemory | SparkFrame):
        return (repr(source),)
    return (
        type(source).__name__,
        *(f"{source_field.name}={getattr(source, source_field.name)}" for source_field in fields(source)),
    )


class _ChargeReached(Exception):
    """The release has come to its charge."""

    def __init__(self, charge: ProposedCharge, epsilon: Fraction | None) -> None:
        super().__init__()
        self.charge = charge
        self.epsilon = epsilon


@dataclass
class _ReadingRecorder:
    """Records the readings that a release binds, and refuses its charge."""

    readings: list[PlanReading[Any]] = field(default_factory=list)

    def require(self, transaction: Transaction, charge: ProposedCharge, epsilon: Fraction | None) -> RequestUse | None:  # noqa: ARG002
        raise _ChargeReached(charge, epsilon)

    def dry_charge(self, charged: _ChargeReached, context: Context) -> DryCharge:
        is_pure = read_cost(charged.charge.cost).pure is not None
        delta = None if is_pure or charged.epsilon is None else context.account.terms_in_force.budget.delta
        if not self.readings:
            return DryCharge(charged.charge, charged.epsilon, delta, None, None, None)
        policy = context.declared_policy
        tables = frozenset(name for reading in self.readings for name in read_columns(reading, policy))
        discovers = any(isinstance(reading, DiscoveredTotals) for reading in self.readings)
        measures = frozenset(measure.value for reading in self.readings for measure in reading.measures_to_read)
        return DryCharge(charged.charge, charged.epsilon, delta, tables, discovers, measures)


class _ReadingRecordingEngine:
    """An engine that records what is bound, and never reads."""

    def __init__(self, engine: Engine, recorder: _ReadingRecorder) -> None:
        self._engine = engine
        self._recorder = recorder

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        self._recorder.readings += readings
        return self

    def read(self, reading: PlanReading[E], key: int) -> E:  # noqa: ARG002
        raise RuntimeError("a dry run reads no rows")

    def interrupt(self, token: int | None = None) -> None:
        """Do nothing: nothing is read."""

    @property
    def matches_values(self) -> bool:
        return self._engine.matches_values

    def catalog(self) -> Catalog:
        return self._engine.catalog()

    def values(self, world: Any) -> Any:
        return self._engine.values(world)

    def open_snapshot(self) -> Self:
        return self

    def identity(self) -> str:
        return self._engine.identity()

    def check_files(self) -> None:
        self._engine.check_files()

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        return self._engine.data(public=public)

    def close(self) -> None:
        """Do nothing: the engine belongs to the curator."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
