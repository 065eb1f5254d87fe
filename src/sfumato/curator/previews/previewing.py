"""Preview a release: an answer of the right shape with invented numbers, from the policy alone.

It is the release itself, over invented rows and a temporary account. No private source is opened and the ledger is
neither read nor written, so the result has the same distribution whatever the data are: it needs no charge (a constant
mechanism is 0-differentially private). Its receipt marks it as a preview, and so does everything that shows it.

The rows that stand for an answer in forecasts: they follow from the question and its groups, whatever the price.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sfumato.curator.context import Context
from sfumato.errors import InvalidParameter
from sfumato.ledger import Ledger
from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.noisy_rows import Finish
from sfumato.policy import Policy, Table
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.key_functions import AnswerRows, answer_rows, extract_key_functions, one_row_per_set
from sfumato.release.running_work import ignore_progress


@dataclass(frozen=True)
class ForecastRows:
    """Rows that are evaluated with hypothetical groups, and what they stand for."""

    query: Query
    """The question with functions of keys as further keys; where rows are not combined, without what selects them."""
    rows: AnswerRows
    groups: int
    """The number of groups that the rows sum."""
    candidates: int | None
    """The number of rows that they stand for; None: themselves."""
    largest_sum: int
    """The largest number of groups behind one number."""


def forecast_rows(query: Query, groups: Sequence[GroupValues], max_groups: int) -> ForecastRows | None:
    """Return the rows that stand for an answer. None where rows are combined by windows or an outer SELECT and groups
    are discovered: half-widths then depend on how many are shown.

    One group is enough, or one for each grouping set, unless rows are combined.
    """
    sets, is_rowwise, width = query.finish.sets, not (query.finish.windows or query.outer), len(query.plan.keys)
    if not is_rowwise and max_groups > len(groups):
        return None
    rows = one_row_per_set(sets, groups, width) if is_rowwise else answer_rows(sets, groups, width)
    row_count = len(answer_rows(sets, groups, width).keys) if sets else max_groups
    rewritten, parts = extract_key_functions(
        replace(query, finish=Finish(query.finish.outputs)) if is_rowwise else query
    )
    extended = replace(rows, keys=[(*key, *(None,) * len(parts)) for key in rows.keys], width=width + len(parts))
    if not is_rowwise:
        return ForecastRows(rewritten, extended, len(groups), None, 1 + len(rows.keys))
    return ForecastRows(
        rewritten, extended, int(rows.groups.max(initial=0)) + 1, row_count, int(rows.groups_per_row.max())
    )


P = TypeVar("P")
T = TypeVar("T")


def preview_release(proposal: P, context: Context, release: Callable[[P], T]) -> T:
    """Release a proposal over invented rows; ``release`` receives the proposal moved to the invented context."""
    with preview_context(context) as invented:
        return release(with_context(proposal, invented))


@contextmanager
def preview_context(context: Context) -> Iterator[Context]:
    """Yield a context in which only the policy and its public tables are real."""
    engine, policy = context.preview_engine.engine_for(context.policy), context.policy
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "scratch") as ledger:
        account = ledger.account(
            policy.account_name, unit=policy.unit, budget=policy.account_budget, per=policy.per or ""
        )
        yield Context(
            policy, engine, account, ignore_progress, "invented", context.seconds, context.analyst, is_preview=True
        )


def with_context(proposal: P, context: Context) -> P:
    """Return a proposal, and those it is composed of, with another context."""
    copy: Any = _with_context_throughout(proposal, context)
    return copy


def proposal_policy(proposal: object) -> Policy | None:
    """Return the policy of a proposal; None for anything else."""
    context = getattr(proposal, "_context", None)
    return context.policy if isinstance(context, Context) else None


def rebind_proposal(proposal: P, context: Context) -> P:
    """Return the proposal in another context, whose policy must have the same declarations of every table.

    A proposal's sensitivity follows from the declarations under which it was made.
    """
    policy = proposal_policy(proposal)
    if policy is None:
        rule = "the result of a curator's method, such as curator.sql(…)"
        raise InvalidParameter("proposal", proposal, rule, fix="pass curator.sql(…) or another method's result")
    if _declarations_without_sources(policy) != _declarations_without_sources(context.policy):
        fix = "make the proposal with this curator"
        raise InvalidParameter(
            "proposal",
            proposal,
            "made with a policy that declares the same unit, tables and columns as this curator's",
            fix=fix,
        )
    return with_context(proposal, context)


def _declarations_without_sources(policy: Policy) -> list[object]:
    """List the declarations of a policy, without the location of rows and the budget."""
    field_names = [field.name for field in fields(Table) if field.name not in ("source", "relation", "row_ceiling")]
    tables = {name: [getattr(table, field) for field in field_names] for name, table in policy.tables.items()}
    return [policy.unit, policy.neighbours, policy.per, tables]


def _with_context_throughout(value: Any, context: Context) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_context_throughout(member, context) for name, member in value.items()}
    if not is_dataclass(value) or isinstance(value, type) or not hasattr(value, "_context"):
        return value
    members = {
        field.name: _with_context_throughout(getattr(value, field.name), context)
        for field in fields(value)
        if field.init
    }
    return replace(value, **{**members, "_context": context})
