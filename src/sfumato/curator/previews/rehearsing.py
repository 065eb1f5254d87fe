"""A rehearsal gives an answer of the right shape whose numbers are invented, from the policy alone.

It is the release itself, over invented rows and from an account of its own that is forgotten with it. No private source
is opened, the ledger is neither read nor written, and so what comes back is drawn from the same law whatever the data
are: it needs no charge (a constant mechanism is 0-differentially private). Everything that shows it says that it was
rehearsed, since its receipt does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sfumato.curator.context import Context
from sfumato.errors import InvalidParameter
from sfumato.ledger import Ledger
from sfumato.policy import Policy, Table
from sfumato.release.releasing import quietly

P = TypeVar("P")
T = TypeVar("T")


def rehearsed(proposal: P, here: Context, release: Callable[[P], T]) -> T:
    """Release what is proposed over invented rows; ``release`` is handed the same proposal, put there."""
    with rehearsal(here) as invented:
        return release(moved(proposal, invented))


@contextmanager
def rehearsal(here: Context) -> Iterator[Context]:
    """Make surroundings of which nothing is real but the policy and its public tables."""
    engine, policy = here.invented.of(here.policy), here.policy
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "scratch") as ledger:
        account = ledger.account(
            policy.account_name, unit=policy.unit, budget=policy.account_budget, per=policy.per or ""
        )
        yield Context(policy, engine, account, quietly, "invented", here.seconds, here.analyst, rehearsed=True)


def moved(proposal: P, here: Context) -> P:
    """Put a proposal, and those that it is made of, into other surroundings."""
    found: Any = _moved(proposal, here)
    return found


def policy_of(proposal: object) -> Policy | None:
    """Return the policy under which something was proposed; None for what is no proposal of a curator."""
    here = getattr(proposal, "_context", None)
    return here.policy if isinstance(here, Context) else None


def proposed_again(proposal: P, here: Context) -> P:
    """Make the same proposal in other surroundings, where the same is declared of every table: what a proposal says of
    sensitivity follows from what was declared where it was made.
    """
    policy = policy_of(proposal)
    if policy is None:
        raise InvalidParameter("proposal", proposal, "a proposal of a curator, such as curator.sql(…)")
    if _promised(policy) != _promised(here.policy):
        fix = "make the proposal to this curator itself"
        raise InvalidParameter("proposal", proposal, "one that was made under the same declarations", fix=fix)
    return moved(proposal, here)


def _promised(policy: Policy) -> list[object]:
    """List what is declared, but for where the rows are and what may be spent."""
    told = [each.name for each in fields(Table) if each.name not in ("source", "relation", "row_ceiling")]
    tables = {name: [getattr(each, field) for field in told] for name, each in policy.tables.items()}
    return [policy.unit, policy.neighbours, policy.per, tables]


def _moved(value: Any, here: Context) -> Any:
    if isinstance(value, Mapping):
        return {name: _moved(each, here) for name, each in value.items()}
    if not is_dataclass(value) or isinstance(value, type) or not hasattr(value, "_context"):
        return value
    own = {each.name: _moved(getattr(value, each.name), here) for each in fields(value) if each.init}
    return replace(value, **{**own, "_context": here})
