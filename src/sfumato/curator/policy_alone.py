"""A policy alone is asked what questions would cost: over empty tables, with an account that nobody has spent from.

Prices and errors follow from the policy, so they are what the curator of the data would tell; and since no source is
opened, nothing about anybody can be in them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sfumato.curator.context import Context
from sfumato.curator.proposals.questions import Question
from sfumato.engine.empty_sources import without_data
from sfumato.engine.opening import open_engine
from sfumato.ledger import Ledger
from sfumato.plan.catalog import Catalog
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy
from sfumato.release.releasing import quietly


@dataclass(frozen=True)
class PolicyAlone:
    """This understands questions to a policy, whose prices and errors can be asked for; a release is of no data."""

    context: Context
    catalog: Catalog

    def question(self, text: str) -> Question:
        """Understand a question in SQL."""
        query = parse(text, self.catalog)
        return Question(self.context, text, query, query.plan.limits)


@contextmanager
def policy_alone(policy: Policy) -> Iterator[PolicyAlone]:
    """Open a policy without opening its sources or its ledger."""
    empty = without_data(policy)
    engine = open_engine(empty)
    try:
        with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "empty") as ledger:
            name, budget, per = policy.account_name, empty.account_budget, empty.per or ""
            account = ledger.account(name, unit=empty.unit, budget=budget, per=per)
            yield PolicyAlone(Context(empty, engine, account, quietly, "no version"), engine.catalog())
    finally:
        engine.close()
