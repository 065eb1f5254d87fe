"""Precedents are real deployments beside which a promise is read: what others promised, to whom, and what that means.

An ε by itself does not compare two promises: it is about a unit. Where the unit is a person for one day, a year of days
may cost that person 365 times as much (composition). So every ε stands beside what it protects.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.data.deployments import SCOPES, Deployment, deployments
from sfumato.notebook_html import paragraph, paragraphs, table
from sfumato.privacy import codec
from sfumato.privacy.budget_words import promised
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, float_above, shown, text
from sfumato.privacy.reading import Reading, posterior, reading

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture

_USUAL_DELTA = Fraction(1, 10**6)
"""The δ at which a ρ is told as an ε, where the promise itself has none."""
_CAVEAT = (
    "The same ε is a weaker promise where it protects one person in one period, or one record, than where it "
    "protects all of one person: periods and records add up."
)
COLUMNS = ("", "ε", "δ", "belief", "protects", "deployment")
_LONGEST = 60
"""Letters of a deployment's name in the table."""


@dataclass(frozen=True)
class Precedent:
    """A precedent is a deployment whose promise is told as an ε and a δ, with what it means for one person."""

    deployment: Deployment
    promise: Guarantee
    belief: float
    """The most that can be believed afterwards that a person is in the data."""

    @property
    def words(self) -> tuple[str, ...]:
        """Write it as a line of the table."""
        of = self.deployment
        converted = "" if of.epsilon is not None else f" (ρ = {text(of.rho or Fraction(0))})"
        delta = "a formula" if of.note else _amount(self.promise.delta) + converted
        belief = "" if of.note else _percent(self.belief)
        return "", _amount(self.promise.epsilon), delta, belief, _protected(of), _named(of)


@dataclass(frozen=True)
class Precedents:
    """Precedents show a promise beside what others promised: as text, as a table, as a picture."""

    promise: Guarantee
    reading: Reading
    stated: tuple[Precedent, ...]
    """Those that say how much they promise, the smallest ε first."""
    unstated: tuple[Deployment, ...]
    marks: Mapping[str, float] = field(default_factory=dict)
    """Other ε that a picture shows beside the promise, such as what is spent of it."""
    protects: str = "whom you say"
    """The unit of the promise, in words."""

    @property
    def smaller(self) -> tuple[Precedent, ...]:
        """List the deployments that promise a smaller ε: more privacy, where the unit is the same."""
        return tuple(each for each in self.stated if each.promise.epsilon < self.promise.epsilon)

    @property
    def larger(self) -> tuple[Precedent, ...]:
        """List the deployments that promise a larger ε: less privacy, where the unit is the same."""
        return tuple(each for each in self.stated if each.promise.epsilon > self.promise.epsilon)

    @property
    def lines(self) -> list[str]:
        """Say in words what the promise means for one person, and how many others promise more or less."""
        known, every = len(self.stated), len(self.stated) + len(self.unstated)
        of_persons = [sum(each.deployment.scope == "person" for each in some) for some in (self.smaller, self.larger)]
        return [
            f"The promise {promised(self.promise.epsilon, self.promise.delta)} protects {self.protects}.",
            *str(self.reading).splitlines(),
            f"Of {every} real deployments {known} state what they promise: the ε is smaller than "
            f"{text(self.promise.epsilon)} in {len(self.smaller)} of them, larger in {len(self.larger)}.",
            f"Of those that protect all of one person, it is smaller in {of_persons[0]}, larger in {of_persons[1]}.",
            _CAVEAT,
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """Write every deployment as a line of text, the promise itself among them, and below those that state no ε."""
        belief = believed(self.promise, Fraction(self.reading.prior))
        promised = _amount(self.promise.epsilon), _amount(self.promise.delta)
        own = ("→", *promised, _percent(belief), self.protects, "this promise")
        silent = [("", "not stated", "", "", _protected(each), _named(each)) for each in self.unstated]
        first = [each for each in self.stated if each.promise.epsilon <= self.promise.epsilon]
        return [*(each.words for each in first), own, *(each.words for each in self.larger), *silent]

    @property
    def caption(self) -> str:
        """Say what the beliefs of the table are, and why the promise has another one above, where it has."""
        before, after = _percent(self.reading.prior), "becomes at most, except with probability 10 · δ"
        found = f"belief: what one of {before} that a unit is in the data {after}."
        told, listed = self.reading.membership, believed(self.promise, Fraction(self.reading.prior))
        if told is None:
            return f"{found} Of this promise it is about a value of theirs: who is in the data is public."
        if _percent(told) == _percent(listed):
            return found
        apart = f"{_percent(told)} above, which holds except with probability {self.reading.delta:.3g}"
        return f"{found} For this promise it is {apart}, and {_percent(listed)} here, except with probability " + (
            f"{float(10 * self.promise.delta):.3g}: the rarer the exception, the larger the belief."
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw where the promise stands among the others; with a path (.svg, .png, .html) the picture is saved, too."""
        from sfumato.plots.picture import saved
        from sfumato.privacy.pictures import Dot, draw_precedents  # most promises are never drawn

        dots = [
            Dot(
                f"{each.deployment.curator} {each.deployment.year}: {each.deployment.name}",
                float(each.promise.epsilon),
                each.deployment.scope,
            )
            for each in self.stated
        ]
        own = {f"this promise: ε = {text(self.promise.epsilon)}": float(self.promise.epsilon), **self.marks}
        return saved(draw_precedents(dots, own, SCOPES, len(self.unstated)), path)

    def to_json(self) -> str:
        """Write the reading and all deployments as JSON text; exact numbers are strings."""
        told = {
            "epsilon": text(self.promise.epsilon),
            "delta": text(self.promise.delta),
            "reading": json.loads(codec.dumps(self.reading)),
            "smaller": len(self.smaller),
            "larger": len(self.larger),
            "deployments": [_told(each.deployment, each.promise) for each in self.stated]
            + [_told(each, None) for each in self.unstated],
        }
        return json.dumps(told, ensure_ascii=False)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *others = self.lines
        listed = table(COLUMNS, self.rows(), ("ε", "δ", "belief"), self.caption)
        return paragraph(first, strong=True) + paragraphs(others) + listed + self.plot().svg


def precedents(
    promise: Guarantee,
    prior: Number = "0.01",
    *,
    neighbours: Neighbours | str | None = None,
    marks: Mapping[str, float] | None = None,
    protects: str = "whom you say",
) -> Precedents:
    """Read a promise for one person, beside what real deployments promise. A ρ is told as the ε that it gives at the
    promise's own δ, or at one in a million where it has none.

    >>> found = precedents(Guarantee(1, "1e-6"))
    >>> len(found.smaller), len(found.larger), len(found.unstated)
    (5, 28, 6)
    """
    own = Guarantee.of(promise, "promise")
    known = [_precedent(each, own.delta or _USUAL_DELTA, prior) for each in deployments() if each.is_stated]
    stated = tuple(sorted(known, key=lambda each: (each.promise.epsilon, each.deployment.name)))
    silent = tuple(each for each in deployments() if not each.is_stated)
    return Precedents(own, reading(own, prior, neighbours=neighbours), stated, silent, dict(marks or {}), protects)


def _precedent(deployment: Deployment, delta: Fraction, prior: Number) -> Precedent:
    if deployment.epsilon is not None:
        promise = Guarantee(deployment.epsilon, deployment.delta or 0)
    else:
        promise = Guarantee(Curve.concentrated(deployment.rho or 0).epsilon(delta), delta)
    return Precedent(deployment, promise, believed(promise, prior))


def believed(promise: Guarantee, prior: Number) -> float:
    """Bound what a belief that one person is in the data becomes, except with probability ten times δ.

    With a bare (ε, δ) the loss is at most ε + h except with probability δ/(1 − e^{−h}) (``reading``), which is 10·δ for
    h = −ln(1 − 1/10). Without a δ there is no exception, and no h.
    """
    slack = -math.log1p(-0.1) if promise.delta else 0.0
    return posterior(float(exact(prior, "prior", INSIDE_UNIT)), float_above(promise.epsilon) + slack)


def _protected(deployment: Deployment) -> str:
    local = ", on each device" if deployment.model == "Local" else ""
    return SCOPES[deployment.scope] + local


def _named(deployment: Deployment) -> str:
    name = deployment.name
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1].rstrip()}…"
    return f"{short} ({deployment.curator}, {deployment.year})"


def _told(deployment: Deployment, promise: Guarantee | None) -> dict[str, object]:
    return {
        "name": deployment.name,
        "curator": deployment.curator,
        "year": deployment.year,
        "unit": deployment.unit,
        "scope": deployment.scope,
        "model": deployment.model,
        "rho": None if deployment.rho is None else text(deployment.rho),
        "epsilon": None if promise is None else text(promise.epsilon),
        "delta": None if promise is None else text(promise.delta),
        "slug": deployment.slug,
    }


def _amount(amount: Fraction) -> str:
    return shown(float(amount), 3) if amount else "0"


def _percent(share: Number) -> str:
    """Write a share in per cent, rounded up: it is a bound."""
    tenths = math.ceil(1000 * exact(share, "share"))
    return f"{tenths / 10:.1f} %" if tenths < 1000 else "above 99.9 %"
