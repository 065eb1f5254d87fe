"""Rules are mechanisms over an environment: they lead from everybody's report to a law over outcomes.

ε here is for replace neighbours, because a misreport replaces a report: a selection priced add-remove counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, cast

from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment
from sfumato.games.laws import Law, law_of, stated
from sfumato.mechanisms import Exponential, NoisyMax, PermuteAndFlip
from sfumato.mechanisms.selection import Scored
from sfumato.privacy import Curve, Neighbours
from sfumato.privacy.numbers import Number

Choice = Exponential | PermuteAndFlip | NoisyMax


class Rule(Protocol):
    """A rule is what the truthfulness of a mechanism is decided from."""

    @property
    def environment(self) -> Environment: ...

    @property
    def curve(self) -> Curve | None:
        """Give the curve of what the outcome leaks about one report, under replace neighbours; None when nothing is
        promised.
        """

    @property
    def anonymous(self) -> bool:
        """Tell whether exchanging the reports of two players changes nothing for the others."""

    def law(self, reports: tuple[int, ...]) -> Law: ...

    def value(self, law: Law, player: int, truth: int, report: int, /) -> Fraction:
        """Give the expected utility of a player of type ``truth`` that said ``report``, when the law is this."""

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        """Say what theory promises: no member of a coalition of so many gains or loses more by misreporting."""


@dataclass(frozen=True)
class Welfare:
    """The outcome is selected by the welfare that the reports promise; reactions are free.

    One player's utilities lie in [0, 1], so it moves every outcome's welfare by at most 1, whether it joins (all up:
    monotone) or changes its report.
    """

    environment: Environment
    selection: Choice

    def __post_init__(self) -> None:
        if not isinstance(self.environment, Environment):
            raise InvalidParameter("environment", self.environment, "an Environment")
        if not isinstance(self.selection, Choice) or self.selection.grid != self.selection.derived_grid:
            raise InvalidParameter("mechanism", self.selection, "Exponential or PermuteAndFlip, without a grid")
        replaced = self.selection.neighbours is Neighbours.REPLACE
        moves = self.environment.spread if replaced else _largest(self.environment)
        if self.selection.sensitivity < moves:
            raise InvalidParameter(
                "sensitivity", self.selection.sensitivity, f"at least {float(moves):.6g}, what one player moves"
            )
        law_of(self.whole, [0, 1])  # refuses a selection without an exact law before anybody reports

    @property
    def curve(self) -> Curve:
        return self.selection.curve().for_neighbours(Neighbours.REPLACE)

    @property
    def anonymous(self) -> bool:
        return self.environment.symmetric

    @property
    def whole(self) -> Choice:
        """Give the selection of welfare in whole units of the environment, in which it is exact."""
        return self.selection.in_parts(self.environment.scale)

    def law(self, reports: tuple[int, ...]) -> Law:
        return law_of(self.whole, self.environment.totals(reports))

    def value(self, law: Law, player: int, truth: int, _: int, /) -> Fraction:
        return law.mean(self.environment.best(player)[truth]) / self.environment.scale

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        return (variation(self.curve, coalition),) * 2

    def release(self, reports: Any) -> int:
        """Draw the outcome: its number in the environment's order."""
        return self.whole.choose(self.environment.totals(reports))


@dataclass(frozen=True)
class Stated:
    """A stated rule is any finite mechanism, as a function from the tuple of reports to exact probabilities of the
    outcomes.
    """

    environment: Environment
    probabilities: Callable[[tuple[int, ...]], Iterable[Number]]
    curve: Curve | None = None
    anonymous: bool = False

    def __post_init__(self) -> None:
        if self.curve is not None:
            if not isinstance(self.curve, Curve):
                raise InvalidParameter("curve", self.curve, "a Curve, or nothing")
            object.__setattr__(self, "curve", self.curve.for_neighbours(Neighbours.REPLACE))

    def law(self, reports: tuple[int, ...]) -> Law:
        return stated(self.probabilities(reports), len(self.environment.outcomes))

    def value(self, law: Law, player: int, truth: int, _: int, /) -> Fraction:
        return law.mean(self.environment.best(player)[truth]) / self.environment.scale

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        return (Fraction(1) if self.curve is None else variation(self.curve, coalition),) * 2


def variation(curve: Curve, units: int) -> Fraction:
    """Give the largest total variation when so many reports are replaced: the curve's δ(0), rounded up."""
    return min(Fraction(1), Fraction(curve.group(units).delta(0)))


def rule_of(mechanism: Any, environment: Environment) -> Rule:
    """A selection chooses by welfare; a function states its own law; a rule stays what it is."""
    if not isinstance(environment, Environment):
        raise InvalidParameter("game", environment, "an Environment")
    if isinstance(mechanism, Scored):  # any: one without an exact law is refused there
        return Welfare(environment, cast("Choice", mechanism))
    if hasattr(mechanism, "law") and hasattr(mechanism, "value"):
        if mechanism.environment != environment:
            raise InvalidParameter("game", environment, "the environment that the mechanism was made for")
        found: Rule = mechanism
        return found
    if callable(mechanism) and not isinstance(mechanism, type):
        return Stated(environment, mechanism)
    raise InvalidParameter("mechanism", mechanism, "a selection, a rule, or a function from reports to probabilities")


def _largest(environment: Environment) -> Fraction:
    players = range(1 if environment.symmetric else environment.players)
    return Fraction(max(max(row) for i in players for row in environment.best(i)), environment.scale)
