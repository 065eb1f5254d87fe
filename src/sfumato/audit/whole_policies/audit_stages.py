"""A stage is a policy that is set up to be audited: invented tables, opened by engines and by curators of their own.

The engines read exact totals, which they may: nobody is in these tables. The curators answer as the owner's would.

The noise of one release is drawn again and again over the same exact totals, as if it had been bought that often.

The totals of two neighbouring tables are read once, exactly, and the measurements of the prepared release draw on them.
So very many releases cost little, and a law that is a little too narrow is seen. An attacker who knows both tables
looks at each release through its likelihood ratio, which tells most (Neyman & Pearson 1933); so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.asked_questions.asked_worlds import throw_away
from sfumato.audit.asked_questions.compared_outcomes import Ask, put
from sfumato.audit.asked_questions.replayed_totals import Pair, Recorded, record
from sfumato.audit.invented_tables import NeighbouringTables, neighbours_of
from sfumato.audit.lower_bounds.falsifying import falsify, least_samples
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.curator import Curator, Question
from sfumato.engine.opening import open_engine
from sfumato.engine.seam import Engine
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.catalog import Catalog
from sfumato.policy import Policy
from sfumato.privacy import Guarantee
from sfumato.release.measurement import Measurement
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
class AuditStage:
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
def set_up(policy: Policy, *, texts: bool = False) -> Iterator[AuditStage]:
    """Invent the tables of a policy and open them all."""
    tables = neighbours_of(policy, texts=texts)
    with ExitStack() as stack:
        engines = dict(_engines(tables, stack))
        curators = {each.name: stack.enter_context(throw_away(tables.opened(each))) for each in tables.populations}
        yield AuditStage(tables, engines, curators)


@contextmanager
def read_by(stage: AuditStage, policy: Policy) -> Iterator[AuditStage]:
    """Let another policy read the same tables: one with a fault in it, beside which the stage's own stands."""
    other = replace(stage.tables, policy=policy)
    with ExitStack() as stack:
        engines = dict(_engines(other, stack))
        curator = stack.enter_context(throw_away(other.opened(other.others)))
        yield AuditStage(other, engines, {"": curator})


def _engines(tables: NeighbouringTables, stack: ExitStack) -> Iterator[tuple[str, Engine]]:
    for each in tables.populations:
        engine = open_engine(tables.opened(each), None, 1)
        stack.callback(engine.close)
        yield each.name, engine


_CELLS = 4_000_000
"""Numbers that are drawn at once."""
_SINGLE = 4
"""Numbers that are looked at by themselves, and beside each other: those that one unit moves most, and the least."""

Draw = Callable[[Measurement, NDArray[np.int64]], NDArray[Any]]
"""What draws on totals: a row for each group of each release."""


def drawn_again(
    recorded: Sequence[Recorded],
    pair: Pair,
    claim: Guarantee,
    samples: int,
    confidence: Fraction,
    draw: Draw | None = None,
) -> tuple[Verdict, int] | None:
    """Try to refute a claim by noise that is drawn on the totals of two worlds, and say how often it was drawn; None
    where there is no noise, or too many numbers to draw it often. ``draw`` draws otherwise than the measurement does,
    where a fault is planted.
    """
    noised = [each for each in recorded if isinstance(each.measurement.mechanism, Additive)]
    cells = sum(each.exact[pair[0].name].size for each in noised)
    many = min(samples, _CELLS // max(1, cells))
    if not cells or many < least_samples(claim, confidence):
        return None
    drawing = draw or (lambda measurement, exact: measurement.draw(exact))

    def world(side: int) -> Callable[[int], NDArray[np.float64]]:
        def drawn(count: int) -> NDArray[np.float64]:
            found = [_drawn(each, pair, side, count, drawing) for each in noised]
            together = sum(ratio for ratio, _ in found)
            return np.column_stack([together, *(single for _, single in found)])[:, : _SINGLE + 1]

        return drawn

    return falsify((world(0), world(1)), claim, many, confidence), many


def _drawn(
    recorded: Recorded, pair: Pair, side: int, count: int, draw: Draw
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw so many times in one world. Give the logarithm of how much likelier each draw is in the second world than
    in the first, and the numbers that are looked at by themselves.
    """
    mechanism: Additive = recorded.measurement.mechanism
    worlds = [recorded.exact[each.name] for each in pair]
    a, b = (each.ravel().astype(np.float64) for each in worlds)
    drawn = draw(recorded.measurement, np.tile(worlds[side], (count, 1))).reshape(count, -1).astype(np.float64)
    size = float(mechanism.sizes[0]) * float(mechanism.grid or 1)
    if mechanism.order == 1:
        ratio = (np.abs(drawn - a) - np.abs(drawn - b)).sum(axis=1) / size
    else:
        ratio = ((drawn - (a + b) / 2) * (b - a)).sum(axis=1) / size**2
    order = np.argsort(-np.abs(a - b), kind="stable")
    looked = np.concatenate([order[: _SINGLE // 2], order[_SINGLE // 2 :][-(_SINGLE // 2) :]])
    return ratio, drawn[:, looked]
