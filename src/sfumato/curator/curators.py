"""The facade: open a policy, ask, see what is left."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from sfumato.curator.bookkeeping import account_name, ledger_path
from sfumato.curator.questions import Question
from sfumato.curator.setting import Setting
from sfumato.engine.duckdb import DuckDB
from sfumato.errors import InvalidParameter
from sfumato.ledger import Ledger
from sfumato.plan.limits import Limits
from sfumato.plan.sql import parse
from sfumato.policy import Policy
from sfumato.policy.reading import read
from sfumato.privacy import Budget
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.release.releasing import Progress, quietly

SECONDS = 600
"""What one question may take unless it is said otherwise: nobody's question stops the others for ever."""


class Curator:
    """A trusted curator for one population. Safe to use from threads; closes its files when done.

    Whoever holds one in their own process is the owner: the same process can read the same files. ``seconds`` and
    ``memory`` (such as "4GB") are what one question may take, checking and reading each; None is no limit of time, and
    beyond the memory it works on disk.
    """

    def __init__(
        self,
        policy: Policy | str | os.PathLike[str],
        ledger: Ledger | str | os.PathLike[str] | None = None,
        *,
        seconds: Number | None = SECONDS,
        memory: str | None = None,
        progress: Progress = quietly,
    ) -> None:
        self.policy = policy if isinstance(policy, Policy) else read(Path(policy))
        allowed = None if seconds is None else min(float(exact(seconds, "seconds", POSITIVE)), threading.TIMEOUT_MAX)
        progress("opening")
        with ExitStack() as opened:  # what was opened is closed again when something else cannot be
            engine = DuckDB(self.policy, memory)
            opened.callback(engine.close)
            self._owns_ledger = not isinstance(ledger, Ledger)
            self.ledger = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger_path(self.policy, ledger))
            if self._owns_ledger:
                opened.callback(self.ledger.close)
            account = self.ledger.account(self.name, unit=self.policy.unit, budget=self.policy.budget)
            for address, fingerprint in engine.addresses():
                account.join(address, fingerprint=fingerprint)
            for name, table in self.policy.tables.items():
                for address, fingerprint in engine.sources.addresses(name) if table.public else ():
                    self.ledger.require_public(address, fingerprint=fingerprint)
            self.setting = Setting(self.policy, engine, account, progress, f"version {account.version}", allowed)
            self._catalog = engine.catalog()
            opened.pop_all()

    @property
    def name(self) -> str:
        """The account's: that of the policy's file."""
        return account_name(self.policy)

    @property
    def budget(self) -> Budget:
        """What may be spent and what has been: of the account, or of the share of the analyst who asks."""
        return self.setting.purses[-1]

    def sql(self, question: str) -> Question:
        """A question in SQL, understood and priced but not asked. Free."""
        query = parse(question, self._catalog)
        return Question(self.setting, question, query, Limits.of(self.policy.tables[query.plan.table]))

    def as_analyst(self, name: str) -> Curator:
        """The same curator, asking and paying under an analyst's name, within the share the policy gives them."""
        if name not in self.policy.analysts:
            raise InvalidParameter("name", name, "an analyst of the policy", fix="add [analysts.<name>] to the policy")
        self.setting.account.analyst(name, share=self.policy.analysts[name])
        view = object.__new__(Curator)
        view.__dict__.update(self.__dict__)
        view.setting = replace(self.setting, analyst=name)
        return view

    def close(self) -> None:
        self.setting.engine.close()
        if self._owns_ledger:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        tables = ", ".join(self.policy.tables)
        return f"<Curator of {self.name}: {tables}; {self.budget!r}>"


def open(policy: str | os.PathLike[str], ledger: str | os.PathLike[str] | None = None) -> Curator:
    """A curator for a policy file, with its ledger beside it."""
    return Curator(policy, ledger)
