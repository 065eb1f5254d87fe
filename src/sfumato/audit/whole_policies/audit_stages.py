"""A stage is a policy that is set up to be audited: invented tables, opened by engines and by curators of their own.

The engines read exact totals, which they may: nobody is in these tables. The curators answer as the owner's would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.audit.asked_questions.compared_outcomes import Ask, put
from sfumato.audit.asked_questions.replayed_totals import Recorded, record
from sfumato.audit.asked_questions.sampling_processes import throw_away
from sfumato.audit.invented_tables.neighbouring_tables import NeighbouringTables, neighbours_of
from sfumato.curator import Curator, Question
from sfumato.engine.opening import open_engine
from sfumato.engine.seam import Engine
from sfumato.plan.catalog import Catalog
from sfumato.policy import Policy
from sfumato.privacy import Guarantee
from sfumato.release.parts.question_parts import NamedNoise
from sfumato.release.preparing import Prepared
from sfumato.release.prices import Price
from sfumato.release.requests import Request

EPSILON = Fraction(1)
"""What every question is asked for."""


@dataclass(frozen=True)
class Paid:
    """This is a price, as a release is called for."""

    claim: Guarantee
    gaussian: bool = False

    @property
    def keywords(self) -> dict[str, Any]:
        delta = {"delta": self.claim.delta} if self.claim.delta else {}
        named = {"mechanism": "gaussian"} if self.gaussian else {}
        return {"epsilon": self.claim.epsilon, **delta, **named, "fresh": True}

    def __str__(self) -> str:
        return f"{Price(self.claim.epsilon, self.claim.delta)}{', Gaussian noise' if self.gaussian else ''}"


@dataclass(frozen=True)
class Stage:
    """This holds everything that is open while one policy is audited."""

    tables: NeighbouringTables
    engines: Mapping[str, Engine]
    """What reads each population, by its name."""
    curators: Mapping[str, Curator]

    @property
    def catalog(self) -> Catalog:
        return self.engines[""].catalog()

    @property
    def policy(self) -> Policy:
        return self.tables.policy

    def question(self, asked: str | Ask) -> Any:
        """Understand a question, as it is understood whoever is in the tables."""
        return put(asked, self.curators[""])

    def paid(self, question: Any, *, gaussian: bool = False) -> Paid:
        """Choose the price of a question: with a small part of the policy's δ where it needs one."""
        needs = gaussian or (isinstance(question, Question) and bool(question.found))
        return Paid(Guarantee(EPSILON, self.policy.budget.delta / 1000 if needs else 0), gaussian)

    def recorded(self, question: Question, paid: Paid) -> tuple[Recorded, ...]:
        """Read what a release of a question is made on in every population."""
        return record(question, prepared(question, paid), self.engines)


def prepared(question: Question, paid: Paid) -> Prepared:
    """Prepare a release at a price, from the policy alone."""
    noise: NamedNoise | None = "gaussian" if paid.gaussian else None
    return question.prepared(Request(paid.claim.epsilon, paid.claim.delta, mechanism=noise))


@contextmanager
def set_up(policy: Policy, *, texts: bool = False) -> Iterator[Stage]:
    """Invent the tables of a policy and open them all."""
    tables = neighbours_of(policy, texts=texts)
    with ExitStack() as stack:
        engines = dict(_engines(tables, stack))
        curators = {each.name: stack.enter_context(throw_away(tables.opened(each))) for each in tables.populations}
        yield Stage(tables, engines, curators)


@contextmanager
def read_by(stage: Stage, policy: Policy) -> Iterator[Stage]:
    """Let another policy read the same tables: one with a fault in it, beside which the stage's own stands."""
    other = replace(stage.tables, policy=policy)
    with ExitStack() as stack:
        engines = dict(_engines(other, stack))
        curator = stack.enter_context(throw_away(other.opened(other.others)))
        yield Stage(other, engines, {"": curator})


def _engines(tables: NeighbouringTables, stack: ExitStack) -> Iterator[tuple[str, Engine]]:
    for each in tables.populations:
        engine = open_engine(tables.opened(each), None, 1)
        stack.callback(engine.close)
        yield each.name, engine
