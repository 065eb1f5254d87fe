"""Precedents: real deployments of differential privacy, to compare a guarantee with.

Two values of ε compare only for the same privacy unit. Where the unit is a person for one day, a year of days may cost
that person 365 times as much (composition). So every ε is listed with the unit that it protects.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.data import SCOPES, Deployment, deployments
from sfumato.html_fragments import paragraph, paragraphs, table
from sfumato.privacy import codec
from sfumato.privacy.amounts import format_guarantee
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, float_above, format_exact, format_number
from sfumato.privacy.reading import Reading, posterior, reading
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture

_DEFAULT_DELTA = Fraction(1, 10**6)
"""The δ at which a ρ is converted to an ε, where the guarantee itself has none."""
_CAVEAT = (
    "The same ε is a weaker promise where it protects one person in one period, or one record, than where it "
    "protects all data of one person: periods and records add up."
)
COLUMNS = ("", "ε", "δ", "belief", "protects", "deployment")
_MAX_NAME_LENGTH = 60
"""Letters of a deployment's name in the table."""


@dataclass(frozen=True)
class Precedent:
    """A deployment whose guarantee is stated as an ε and a δ, with what it means for one person."""

    deployment: Deployment
    promise: Guarantee
    belief: float
    """The most that can be believed afterwards that a person is in the data."""

    @property
    def words(self) -> tuple[str, ...]:
        """The deployment as a row of the table."""
        deployment = self.deployment
        converted = "" if deployment.epsilon is not None else f" (ρ = {format_exact(deployment.rho or Fraction(0))})"
        delta = "a formula" if deployment.note else _format_three_digits(self.promise.delta) + converted
        belief = "" if deployment.note else _percent_rounded_up(self.belief)
        return (
            "",
            _format_three_digits(self.promise.epsilon),
            delta,
            belief,
            _unit_phrase(deployment),
            _short_name(deployment),
        )


@dataclass(frozen=True)
class Precedents:
    """A guarantee beside those of real deployments: as text, as a table, as a picture."""

    promise: Guarantee
    reading: Reading
    stated: tuple[Precedent, ...]
    """Those that say how much they promise, the smallest ε first."""
    unstated: tuple[Deployment, ...]
    marks: Mapping[str, float] = field(default_factory=dict)
    """Other ε that a picture shows beside the promise, such as what is spent of it."""
    protects: str = "the unit that you declare"
    """The unit of the promise, in words."""

    @property
    def smaller(self) -> tuple[Precedent, ...]:
        """The deployments that promise a smaller ε: more privacy, where the unit is the same."""
        return tuple(precedent for precedent in self.stated if precedent.promise.epsilon < self.promise.epsilon)

    @property
    def larger(self) -> tuple[Precedent, ...]:
        """The deployments that promise a larger ε: less privacy, where the unit is the same."""
        return tuple(precedent for precedent in self.stated if precedent.promise.epsilon > self.promise.epsilon)

    @property
    def lines(self) -> list[str]:
        """The meaning of the guarantee for one person, and how many deployments promise more or less, in words."""
        persons = [
            sum(precedent.deployment.scope == "person" for precedent in side) for side in (self.smaller, self.larger)
        ]
        return [
            f"The promise {format_guarantee(self.promise.epsilon, self.promise.delta)} protects {self.protects}.",
            *str(self.reading).splitlines(),
            deployment_comparison_sentence(self.promise),
            f"Among those that protect all data of one person, the ε is smaller in {persons[0]} and larger in "
            f"{persons[1]}.",
            _CAVEAT,
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row of text for every deployment, with the guarantee itself among them; those that state no ε come
        last.
        """
        belief = posterior_belief(self.promise, Fraction(self.reading.prior))
        promise_texts = _format_three_digits(self.promise.epsilon), _format_three_digits(self.promise.delta)
        promise_row = ("→", *promise_texts, _percent_rounded_up(belief), self.protects, "this promise")
        unstated_rows = [
            ("", "not stated", "", "", _unit_phrase(deployment), _short_name(deployment))
            for deployment in self.unstated
        ]
        not_larger = [precedent for precedent in self.stated if precedent.promise.epsilon <= self.promise.epsilon]
        return [
            *(precedent.words for precedent in not_larger),
            promise_row,
            *(precedent.words for precedent in self.larger),
            *unstated_rows,
        ]

    @property
    def caption(self) -> str:
        """The caption of the table: what its beliefs mean, and why the guarantee's differs from the one above, if it
        does.
        """
        prior = _percent_rounded_up(self.reading.prior)
        meaning = (
            f"belief: how far a belief of {prior} that a unit is in the data can grow, except with probability 10 · δ."
        )
        read_belief, belief = (
            self.reading.membership,
            posterior_belief(self.promise, Fraction(self.reading.prior)),
        )
        if read_belief is None:
            return f"{meaning} For this promise, the belief is about a value of the unit: who is in the data is public."
        if _percent_rounded_up(read_belief) == _percent_rounded_up(belief):
            return meaning
        return (
            f"{meaning} For this promise, the text above states {_percent_rounded_up(read_belief)}, except with "
            f"probability {self.reading.delta:.3g}, and this table {_percent_rounded_up(belief)}, except with "
            f"probability {float(10 * self.promise.delta):.3g}: the rarer the exception, the larger the belief."
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the guarantee among the deployments; with a path (.svg, .png, .html) the picture is saved, too."""
        from sfumato.plots.picture import save_if_path
        from sfumato.privacy.pictures import PlottedPrecedent, draw_precedents  # most promises are never drawn

        dots = [
            PlottedPrecedent(
                f"{precedent.deployment.curator} {precedent.deployment.year}: {precedent.deployment.name}",
                float(precedent.promise.epsilon),
                precedent.deployment.scope,
            )
            for precedent in self.stated
        ]
        guarantee_lines = {
            f"this promise: ε = {format_exact(self.promise.epsilon)}": float(self.promise.epsilon),
            **self.marks,
        }
        return save_if_path(draw_precedents(dots, guarantee_lines, SCOPES, len(self.unstated)), path)

    def to_json(self) -> str:
        """Return the reading and all deployments as JSON text; exact numbers are strings."""
        document = {
            "epsilon": format_exact(self.promise.epsilon),
            "delta": format_exact(self.promise.delta),
            "reading": json.loads(codec.dumps(self.reading)),
            "smaller": len(self.smaller),
            "larger": len(self.larger),
            "deployments": [_deployment_fields(precedent.deployment, precedent.promise) for precedent in self.stated]
            + [_deployment_fields(deployment, None) for deployment in self.unstated],
        }
        return json.dumps(document, ensure_ascii=False)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *others = self.lines
        deployment_table = table(COLUMNS, self.rows(), ("ε", "δ", "belief"), self.caption)
        return paragraph(first, strong=True) + paragraphs(others) + deployment_table + self.plot().svg


def precedents(
    promise: Guarantee,
    prior: Number = "0.01",
    *,
    neighbours: Neighbours | str | None = None,
    marks: Mapping[str, float] | None = None,
    protects: str = "the unit that you declare",
) -> Precedents:
    """Read a guarantee for one person, beside those of real deployments. A ρ is converted to an ε at the guarantee's
    own δ, or at one in a million where it has none.

    >>> found = precedents(Guarantee(1, "1e-6"))
    >>> len(found.smaller), len(found.larger), len(found.unstated)
    (5, 28, 6)
    """
    guarantee = Guarantee.of(promise, "promise")
    converted = [
        Precedent(deployment, promise, posterior_belief(promise, prior))
        for deployment, promise in _stated_guarantees(guarantee.delta or _DEFAULT_DELTA)
    ]
    stated = tuple(sorted(converted, key=lambda precedent: (precedent.promise.epsilon, precedent.deployment.name)))
    unstated = tuple(deployment for deployment in deployments() if not deployment.is_stated)
    return Precedents(
        guarantee, reading(guarantee, prior, neighbours=neighbours), stated, unstated, dict(marks or {}), protects
    )


def deployment_comparison_sentence(guarantee: Guarantee) -> str:
    """Describe how many real deployments promise a smaller and a larger ε."""
    epsilons = [stated.epsilon for _, stated in _stated_guarantees(guarantee.delta or _DEFAULT_DELTA)]
    smaller = sum(epsilon < guarantee.epsilon for epsilon in epsilons)
    larger = sum(epsilon > guarantee.epsilon for epsilon in epsilons)
    return (
        f"Of {len(deployments())} real deployments, {len(epsilons)} state their promise: {smaller} with an ε below "
        f"{format_exact(guarantee.epsilon)}, {larger} with an ε above it."
    )


@lru_cache(maxsize=64)
def _stated_guarantees(delta: Fraction) -> tuple[tuple[Deployment, Guarantee], ...]:
    """Return the deployments that state a guarantee; a ρ is converted to an ε at this δ."""
    return tuple(
        (deployment, _stated_guarantee(deployment, delta)) for deployment in deployments() if deployment.is_stated
    )


def _stated_guarantee(deployment: Deployment, delta: Fraction) -> Guarantee:
    if deployment.epsilon is not None:
        return Guarantee(deployment.epsilon, deployment.delta or 0)
    return Guarantee(Curve.concentrated(deployment.rho or 0).epsilon(delta), delta)


def posterior_belief(guarantee: Guarantee, prior: Number) -> float:
    """Bound what a belief that one person is in the data becomes, except with probability ten times δ.

    With a bare (ε, δ) the loss is at most ε + h except with probability δ/(1 − e^{−h}) (``reading``), which is 10·δ for
    h = −ln(1 − 1/10). Without a δ there is no exception, and no h.
    """
    slack = -math.log1p(-0.1) if guarantee.delta else 0.0
    return posterior(float(exact(prior, "prior", INSIDE_UNIT)), float_above(guarantee.epsilon) + slack)


def belief_sentence(guarantee: Guarantee, neighbours: Neighbours) -> str:
    """Describe what a belief of 1 % about one unit becomes at most; where membership is public, about a value."""
    prior = Fraction(1, 100)
    guess = "in a value of one unit" if neighbours is Neighbours.REPLACE else "that one unit is in the data"
    exception = f", except with probability {min(1.0, float(10 * guarantee.delta)):.3g}" if guarantee.delta else ""
    return f"a belief of 1 % {guess} may grow to {_percent_rounded_up(posterior_belief(guarantee, prior))}{exception}"


def _unit_phrase(deployment: Deployment) -> str:
    local = ", on each device" if deployment.model == "Local" else ""
    return SCOPES[deployment.scope] + local


def _short_name(deployment: Deployment) -> str:
    name = deployment.name
    short = name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1].rstrip()}…"
    return f"{short} ({deployment.curator}, {deployment.year})"


def _deployment_fields(deployment: Deployment, promise: Guarantee | None) -> dict[str, object]:
    return {
        "name": deployment.name,
        "curator": deployment.curator,
        "year": deployment.year,
        "unit": deployment.unit,
        "scope": deployment.scope,
        "model": deployment.model,
        "rho": None if deployment.rho is None else format_exact(deployment.rho),
        "epsilon": None if promise is None else format_exact(promise.epsilon),
        "delta": None if promise is None else format_exact(promise.delta),
        "slug": deployment.slug,
    }


def _format_three_digits(amount: Fraction) -> str:
    return format_number(float(amount), 3) if amount else "0"


def _percent_rounded_up(share: Number) -> str:
    """Format a share as a percentage, rounded up: it is a bound."""
    tenths = math.ceil(1000 * exact(share, "share"))
    return f"{tenths / 10:.1f} %" if tenths < 1000 else "above 99.9 %"
