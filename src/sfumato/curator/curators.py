"""The facade: open a policy, ask, see what is left."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Self

from sfumato.curator.questions import Question
from sfumato.curator.setting import Setting
from sfumato.engine.duckdb import DuckDB
from sfumato.errors import InvalidParameter
from sfumato.ledger import Ledger
from sfumato.plan.bounding import Limits
from sfumato.plan.sql import parse
from sfumato.policy import Policy
from sfumato.policy.reading import read
from sfumato.privacy import Budget
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.release.door import Progress, quietly


class Curator:
    """A trusted curator for one population. Safe to use from threads; closes its files when done.

    Whoever holds one in their own process is the owner: the same process can read the same files. ``seconds`` and
    ``memory`` (such as "4GB") are what one question may take; beyond the memory it works on disk.
    """

    def __init__(
        self,
        policy: Policy | str | os.PathLike[str],
        ledger: Ledger | str | os.PathLike[str] | None = None,
        *,
        seconds: Number | None = None,
        memory: str | None = None,
        progress: Progress = quietly,
    ) -> None:
        self.policy = policy if isinstance(policy, Policy) else read(Path(policy))
        allowed = None if seconds is None else float(exact(seconds, "seconds", POSITIVE))
        progress("opening")
        engine = DuckDB(self.policy, memory)
        self._owns_ledger = not isinstance(ledger, Ledger)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger.open(self._ledger_path(ledger))
        account = self.ledger.account(self.name, unit=self.policy.unit, budget=self.policy.budget)
        self._setting = Setting(self.policy, engine, account, progress, allowed)
        self._catalog = engine.catalog()

    @property
    def name(self) -> str:
        """The account's: that of the policy's file."""
        return self.policy.path.stem if self.policy.path is not None else self.policy.unit.name

    @property
    def budget(self) -> Budget:
        """What may be spent and what has been."""
        return self._setting.account.budget

    def sql(self, question: str) -> Question:
        """A question in SQL, understood and priced but not asked. Free."""
        query = parse(question, self._catalog)
        return Question(self._setting, question, query, Limits.of(self.policy.tables[query.plan.table]))

    def as_analyst(self, name: str) -> Curator:
        """The same curator, asking and paying under an analyst's name."""
        if name not in self.policy.analysts:
            raise InvalidParameter("name", name, "an analyst of the policy", fix="add [analysts.<name>] to the policy")
        self._setting.account.analyst(name, share=self.policy.analysts[name])
        view = object.__new__(Curator)
        view.__dict__.update(self.__dict__)
        view._setting = replace(self._setting, analyst=name)
        return view

    def _ledger_path(self, ledger: str | os.PathLike[str] | None) -> Path:
        if ledger is not None:
            return Path(ledger)
        if self.policy.path is None:
            raise InvalidParameter(
                "ledger",
                None,
                "a path: this policy was not read from a file",
                fix="Curator(policy, ledger='clinic.ledger')",
            )
        return self.policy.path.with_suffix(".ledger")

    def close(self) -> None:
        self._setting.engine.close()
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
