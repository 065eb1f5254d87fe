"""The account of a policy: the location of its ledger, its standing, its history and its amendments.

None of it needs the data, so none of it opens them. Where every period has an account of its own, a question is
restricted to the periods that it reads, and these pay.

Dry charges: what a release would charge and read, found without charging and without reading a row.

A release runs up to its charge over an engine that binds nothing and reads nothing, on an account whose condition
raises instead of charging. What would be charged is therefore exactly what the release itself computes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field, fields, replace
from fractions import Fraction
from itertools import accumulate
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from sfumato.curator.context import Context
from sfumato.curator.weak_policies import has_unpermitted_delta, require_permitted_delta, warn_if_weak_policy
from sfumato.engine.protocols import DataIdentity, Engine, OpenReading
from sfumato.errors import AccountDiffers, InvalidParameter, SourceTaken, WeakLedger
from sfumato.ledger import Ledger, PeriodAccounts
from sfumato.ledger.accounts.approvals import RequestUse
from sfumato.ledger.approval_requests import ProposedCharge
from sfumato.ledger.spending import read_cost
from sfumato.ledger.stores.server_addresses import is_same_ledger, is_server_address
from sfumato.ledger.transaction import Transaction
from sfumato.mechanisms import bits
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.readings.total_readings import DiscoveredTotals, PlanReading
from sfumato.plan.relevant_policy import read_columns
from sfumato.policy import InMemory, Policy, Source, SparkFrame
from sfumato.policy.toml_files import read
from sfumato.privacy import Budget, Guarantee
from sfumato.privacy.numbers import Number, format_number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.previews.explaining import PlanStep
    from sfumato.curator.standings import PeriodStandings, Standing
    from sfumato.ledger import Account, Line
    from sfumato.plan.nodes import Aggregate
    from sfumato.privacy.pictures import SpendingPoint
    from sfumato.privacy.precedents import Precedents

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


PathOrText = str | os.PathLike[str]
LEDGER_NAME = "sfumato.ledger"
"""One ledger for all policies of a folder, so that a renamed copy of a policy is charged for the same sources."""


def read_policy(policy: Policy | PathOrText) -> Policy:
    """Return the policy, or read it from a file; its impossible conditions are checked as SQL."""
    parsed = policy if isinstance(policy, Policy) else read(Path(policy))
    for table in parsed.tables.values():
        if table.impossible:
            from sfumato.plan.sql.fragments import (
                impossible_row_conditions,  # most policies need no parser to be opened
            )

            impossible_row_conditions(table)
    return parsed


def ledger_address(policy: Policy, ledger: PathOrText | None = None) -> Path | str:
    """Return the path or database address of the ledger: the given one, the policy's, or the one beside its file.

    Warns if the given one differs from the policy's: two ledgers are two budgets.
    """
    if policy.ledger is not None and ledger is not None and not is_same_ledger(policy.ledger, ledger):
        warnings.warn(
            "The ledger given is not the one that the policy names, and with two ledgers the budget could "
            "be spent twice. Use the policy's ledger, or name this one in the policy.",
            WeakLedger,
            stacklevel=2,
        )
    return _resolve_ledger_address(policy, ledger)


def _resolve_ledger_address(policy: Policy, ledger: PathOrText | None) -> Path | str:
    address = policy.ledger if ledger is None else ledger
    if address is not None:
        return address if isinstance(address, str) and is_server_address(address) else Path(address)
    if policy.path is None:
        raise InvalidParameter(
            "ledger",
            None,
            "a path, because this policy was not read from a file",
            fix="write Curator(policy, ledger='clinic.ledger')",
        )
    return policy.path.parent / LEDGER_NAME


def users_path(policy: Policy, ledger: PathOrText | None = None) -> Path:
    """Return the path beside which a server stores its user accounts, always on this machine."""
    address = _resolve_ledger_address(policy, ledger)
    if isinstance(address, Path):
        return address
    return Path(LEDGER_NAME) if policy.path is None else policy.path.parent / LEDGER_NAME


def ledger_may_exist(address: Path | str) -> bool:
    """Return whether a ledger may exist: a missing file does not; for a database only its server knows."""
    return isinstance(address, str) or address.exists()


def standing(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Standing | PeriodStandings:
    """Return the standing of a policy's account, or of an analyst's share. No data are opened, nothing is written.

    Where every period has an account of its own, it holds one for each.
    """
    parsed = read_policy(policy)
    with _existing_account(parsed, ledger) as account:
        return compute_standings(parsed, account, analyst)


def precedents_of(policy: Policy | PathOrText, ledger: PathOrText | None = None, prior: Number = "0.01") -> Precedents:
    """Compare the account's guarantee for one unit with real deployments, with the spent part marked."""
    from sfumato.curator.standings import Standing
    from sfumato.privacy.precedents import precedents

    parsed = read_policy(policy)
    budget = parsed.budget
    current = standing(parsed, ledger)
    spent = current.spent["pure"] if isinstance(current, Standing) else None
    return precedents(
        Guarantee(budget.epsilon, budget.delta),
        prior,
        neighbours=parsed.neighbours,
        marks={f"spent so far: ε = {format_number(float(spent))}": float(spent)} if spent else {},
        protects=str(parsed.unit),
    )


def compute_standings(policy: Policy, account: Account | None, analyst: str | None) -> Standing | PeriodStandings:
    """Compute the standing of the account, or of the account of each period."""
    from sfumato.curator.standings import PeriodStandings
    from sfumato.release.answers.receipts import describe_period_guarantee

    if policy.per is None:
        return compute_standing(policy, account, analyst)
    period_accounts = account if isinstance(account, PeriodAccounts) else None
    periods = () if period_accounts is None else period_accounts.opened
    standings = tuple(
        compute_standing(policy, period_accounts and period_accounts.for_periods((period,)), analyst)
        for period in periods
    )
    return PeriodStandings(
        policy.per,
        describe_period_guarantee(policy),
        compute_standing(policy, period_accounts, analyst),
        periods,
        standings,
    )


def policy_budget(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Budget:
    """Return the budget of a policy's account, or of an analyst's share, with its history. No data are opened.

    Where every period has an account of its own, it is the budget of a period that was not yet queried.
    """
    from sfumato.privacy.pictures import History

    parsed = read_policy(policy)
    with _existing_account(parsed, ledger) as account:
        budget = _account_and_share_budgets(parsed, account, analyst)[-1]
    return budget.with_history(History(lambda: cumulative_spending(history(parsed, ledger, analyst=analyst), analyst)))


def cumulative_spending(lines: Iterable[Line], analyst: str | None) -> list[SpendingPoint]:
    """List the charges to an account, or to an analyst's share, with their times and running totals."""
    from sfumato.privacy.pictures import SpendingPoint

    charged_lines = [line for line in lines if not line.cost.is_zero]
    if analyst is None:
        return [SpendingPoint(line.time, line.spent.amounts) for line in charged_lines]
    totals = accumulate((line.cost for line in charged_lines), add)
    return [SpendingPoint(line.time, total.amounts) for line, total in zip(charged_lines, totals, strict=True)]


def require_analyst(policy: Policy, name: str) -> None:
    """Refuse a name that is not one of the policy's analysts."""
    if name not in policy.analysts:
        suggestion = f"name one of {', '.join(policy.analysts)}, or " if policy.analysts else ""
        fix = f"{suggestion}add [analysts.<name>] to the policy"
        raise InvalidParameter("analyst", name, "one of the analysts in the policy", fix=fix)


def compute_standing(policy: Policy, account: Account | None, analyst: str | None) -> Standing:
    """Compute the standing of an account, which is None before the policy's first question."""
    from sfumato.curator.standings import Standing

    return Standing.of(*_account_and_share_budgets(policy, account, analyst))


def _account_and_share_budgets(policy: Policy, account: Account | None, analyst: str | None) -> list[Budget]:
    """List the account's budget, followed by that of an analyst's share."""
    account_budget = policy.account_budget if account is None else account.budget
    if analyst is None:
        return [account_budget]
    require_analyst(policy, analyst)
    analyst_account = None if account is None else account.analyst(analyst)
    declared_share = policy.account_budget.share(policy.analysts[analyst])
    return [
        account_budget,
        declared_share if analyst_account is None or analyst_account.share is None else analyst_account.budget,
    ]


def history(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Iterator[Line]:
    """List the lines of a policy's account, oldest first. No data are opened."""
    parsed = read_policy(policy)
    address = ledger_address(parsed, ledger)
    if ledger_may_exist(address):
        with Ledger.open(address) as open_ledger:
            yield from account_lines(open_ledger, parsed, analyst)


def account_lines(ledger: Ledger, policy: Policy, analyst: str | None, after: int = 0) -> Iterator[Line]:
    """List the lines of a policy's account, and of its periods, after this number."""
    account_names = _names_if_period_accounts(ledger, policy)
    if account_names is None:
        return ledger.lines(account=policy.account_name, analyst=analyst, after=after)
    return (line for line in ledger.lines(analyst=analyst, after=after) if line.account in account_names)


def latest_account_lines(ledger: Ledger, policy: Policy, analyst: str | None, before: int = 0) -> Iterator[Line]:
    """List the same lines backwards, from the last one or from before this number if it is not 0."""
    account_names = _names_if_period_accounts(ledger, policy)
    if account_names is None:
        return ledger.latest(account=policy.account_name, analyst=analyst, before=before)
    return (line for line in ledger.latest(analyst=analyst, before=before) if line.account in account_names)


def _names_if_period_accounts(ledger: Ledger, policy: Policy) -> frozenset[str] | None:
    """Return the names of a policy's account and of its periods' accounts; None if there are no periods."""
    name = policy.account_name
    if policy.per is None or name not in ledger.accounts:
        return None
    account = ledger.account(name)
    periods = account.opened if isinstance(account, PeriodAccounts) else ()
    return frozenset({name, *(f"{name} {period}" for period in periods)})


def amend(policy: Policy | PathOrText, *, reason: str, ledger: PathOrText | None = None) -> Line:
    """Replace the account's budget by the policy's, with a reason that the ledger keeps. The unit cannot change."""
    parsed = read_policy(policy)
    with _existing_account(parsed, ledger) as account:
        if account is None:
            raise InvalidParameter(
                "policy",
                parsed.account_name,
                "a policy whose account is open already",
                fix="change the budget in the policy file: the first question then opens the account with that budget",
            )
        return amend_account(account, parsed, reason)


def amend_account(account: Account, policy: Policy, reason: str) -> Line:
    """Replace this account's budget by a policy's; another unit or other neighbours are refused."""
    if account.unit != policy.unit or account.budget.neighbours is not policy.neighbours:
        raise AccountDiffers(
            f"this account protects {account.unit} under {account.budget.neighbours.value} neighbours, and only its "
            "budget can be changed",
            place="unit",
            fix="declare the same unit and neighbours in the policy, or start a new policy with its own account",
        )
    if account.per != (policy.per or ""):
        raise AccountDiffers(
            "accounts that are open cannot be merged or split, and this ledger has "
            + (f"one for each {account.per}" if account.per else "one for all periods"),
            place="unit.budget.per",
            fix=f'write per = "{account.per}"' if account.per else "remove per",
        )
    require_permitted_delta(policy, account.budget)
    new_budget = policy.account_budget
    warn_if_weak_policy(policy)
    return account.amend(reason=reason, epsilon=new_budget.epsilon, delta=new_budget.delta, reserve=new_budget.reserve)


def open_account(ledger: Ledger, policy: Policy) -> Account:
    """Open a policy's account, on first use with its budget; a large δ that it does not allow is refused then."""
    name = policy.account_name
    if has_unpermitted_delta(policy):
        require_permitted_delta(policy, ledger.account(name).budget if name in ledger.accounts else None)
    return ledger.account(name, unit=policy.unit, budget=policy.account_budget, per=policy.per or "")


def require_permitted_delta_of_file(policy: Policy) -> None:
    """Refuse a large δ that neither the policy allows nor its account already has. No data are opened."""
    if has_unpermitted_delta(policy):
        with _existing_account(policy, None) as account:
            require_permitted_delta(policy, None if account is None else account.budget)


def refuse_data_with_account(data: PathOrText) -> None:
    """Refuse a data file that belongs to an account of the ledger beside it: only its policy may spend its budget."""
    path = Path(data)
    ledger_path = path.parent / LEDGER_NAME
    if not ledger_path.exists():
        return
    with Ledger.open(ledger_path) as open_ledger:
        for name in open_ledger.accounts:
            if any(source.path == str(path.resolve()) for source in open_ledger.account(name).sources):
                raise SourceTaken(
                    f"this file belongs to the account {name!r}, so it can only be read through the policy of "
                    "that account",
                    place=str(path),
                    fix=f"pass the policy instead of the file, such as {name}.toml, and name the table and the column",
                )


@contextmanager
def _existing_account(policy: Policy, ledger: PathOrText | None) -> Iterator[Account | None]:
    """Yield the account, or None before its first question."""
    address = ledger_address(policy, ledger)
    if not ledger_may_exist(address):
        yield None
        return
    with Ledger.open(address) as open_ledger:
        is_open = policy.account_name in open_ledger.accounts
        yield open_ledger.account(policy.account_name) if is_open else None


def restrict_to_periods(plan: Aggregate, context: Context) -> tuple[Aggregate, Context]:
    """Restrict a plan to the periods that it can read, and return the context whose accounts pay for them.

    Both depend on the question and the policy only. With one account for all periods, both are returned unchanged.
    """
    from sfumato.plan import account_periods

    policy = context.policy
    if policy.per is None:
        return plan, context
    periods = account_periods.charged_periods(plan, policy)
    account = cast("PeriodAccounts", context.account).for_periods(account_periods.period_names(periods, policy.per))
    return account_periods.restrict_to_periods(plan, policy, periods), replace(context, account=account)


def explain_period_charges(context: Context) -> tuple[PlanStep, ...]:
    """Explain which accounts a release charges, and their guarantee, if there are several."""
    from sfumato.curator.previews.explaining import PlanStep
    from sfumato.plan import account_periods
    from sfumato.plan.descriptions import count_with_noun
    from sfumato.release.answers.receipts import describe_period_guarantee

    policy, account = context.policy, context.account
    if policy.per is None or not account.periods:
        return ()
    accounts_text = f"the whole price in {count_with_noun(len(account.periods), 'account')}: "
    periods_text = account_periods.describe_periods(account.periods, policy.per)
    return (
        PlanStep(
            "charge",
            accounts_text + periods_text,
            f"one for each {policy.per}; guarantee: {describe_period_guarantee(policy)}",
        ),
    )


def price_and_accounts_phrase(price: object, context: Context) -> str:
    """Format a price, with the paying accounts if there are several; these may include future periods."""
    from sfumato.plan import account_periods
    from sfumato.plan.descriptions import count_with_noun

    per, periods = context.policy.per, context.account.periods
    if per is None or not periods:
        return str(price)
    periods_text = account_periods.describe_periods(periods, per)
    if len(periods) == 1:
        return f"{price} in the account of {periods_text}"
    return f"{price} in each of {count_with_noun(len(periods), 'account')}: {periods_text}"
