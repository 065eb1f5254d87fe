"""A charge pays for every mechanism that is run, on values of which it is known how much one unit changes them.

A line keeps these parts with their tags, so that what it cost can be computed again from the line alone: nobody states
a curve beside the mechanism it belongs to. A release whose mechanism is not ours is a bare ``Curve``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.protocols import Additive, Interactive, Selection
from sfumato.privacy import Curve, Sensitivity, codec, compose
from sfumato.privacy.numbers import whole


@codec.value("charged")
@dataclass(frozen=True)
class Charged:
    """A mechanism is run on values which one unit changes by at most this, so many times with fresh noise.

    A release of thousands of equal measurements is kept as what it is: one part, and how often it is run. Only additive
    noise is told the sensitivity: a selection or an interactive mechanism states its own.

    >>> from sfumato.mechanisms import Laplace
    >>> Charged(Laplace(10), 1).curve.epsilon(0)
    0.1
    """

    mechanism: Additive | Selection | Interactive
    sensitivity: Sensitivity | None = None
    times: int = 1

    def __init__(self, mechanism: Additive | Selection | Interactive, sensitivity: Any = None, times: int = 1) -> None:
        if not isinstance(mechanism, (Additive, Selection, Interactive)):
            raise InvalidParameter("mechanism", mechanism, "a mechanism: additive, a selection or interactive")
        if isinstance(mechanism, Additive) is (sensitivity is None):
            rule = "given with additive noise, and left out with a mechanism that states its own"
            raise InvalidParameter("sensitivity", sensitivity, rule)
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "sensitivity", None if sensitivity is None else Sensitivity.of(sensitivity))
        object.__setattr__(self, "times", whole(times, "times", at_least=1))

    @cached_property
    def curve(self) -> Curve:
        """Give the curve of what running it so many times leaks."""
        additive = isinstance(self.mechanism, Additive)
        once = self.mechanism.curve(self.sensitivity or 0) if additive else self.mechanism.curve()  # type: ignore[call-arg]
        return once if self.times == 1 else compose([(once, self.times)])


Part = Charged | Curve


def gathered(parts: Iterable[Charged]) -> tuple[Charged, ...]:
    """Put equal parts together, in the order in which they first occur."""
    counted: dict[Charged, int] = {}
    for part in parts:
        once = replace(part, times=1)
        counted[once] = counted.get(once, 0) + part.times
    return tuple(replace(part, times=times) for part, times in counted.items())


def checked(value: object) -> tuple[Part, ...]:
    """Check the parts of an entry: one, or several that are one release."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not parts or not all(isinstance(part, (Charged, Curve)) for part in parts):
        fix = "give what is run: Charged(mechanism, sensitivity), or the Curve of what it leaks"
        raise InvalidParameter("parts", value, "a Charged or a Curve, or several of them", fix=fix)
    return parts


def curve(parts: Iterable[Part]) -> Curve:
    """Compose what all parts together leak: they are one release."""
    found = [part.curve if isinstance(part, Charged) else part for part in parts]
    return found[0] if len(found) == 1 else compose(found)


def write(parts: Iterable[Part]) -> str:
    """Write the parts as a line keeps them: a JSON list of tagged values."""
    return f"[{','.join(codec.dumps(part) for part in parts)}]"


def read(text: str) -> tuple[Part, ...]:
    """Read the parts of a line; none where it keeps none."""
    found = json.loads(text or "[]")
    return checked([codec.loads(json.dumps(each)) for each in found]) if found else ()
