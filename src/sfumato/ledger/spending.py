"""The arithmetic of spent and held amounts that every line obeys, written once for charging and for verifying.

A tab's line records what the tab still holds after it. Then every line, whatever its kind, does the same two things:
spent grows by its cost, and held changes by what its tab holds after it less what it held before. Sums of amounts are
exact, or rounded up (``privacy.amounts``, where it is proved that no total is below the true sum).

A charge pays for every mechanism that is run, on values with a known sensitivity.

A line keeps these parts with their tags, so that its cost can be recomputed from the line alone: no curve is stated
beside the mechanism it belongs to. A release whose mechanism is not ours is a bare ``Curve``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.protocols import Additive, Interactive, SelectionMechanism, is_additive
from sfumato.privacy import Cost, Curve, Sensitivity, amounts, codec, compose
from sfumato.privacy.amounts import Amount
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, exact_integer
from sfumato.quick_dataclass import dataclass

MAX_ROUNDINGS_PER_LINE = 2
"""The maximum number of sums that one line rounds up, each by less than a unit: spent and held. Adding both is another
rounding.
"""
NO_COST = Cost(0, None, 0)


def write_cost(cost: Cost) -> str:
    return f"{_write_amount(cost.pure)} {_write_amount(cost.renyi)} {_write_amount(cost.failure)}"


@lru_cache(maxsize=1024)
def read_cost(text: str) -> Cost:
    pure, renyi, failure = text.split(" ")
    return Cost(_read_amount(pure), _read_units(renyi), amounts.parse_amount(failure))


def _write_amount(amount: Amount | None) -> str:
    return "-" if amount is None else str(amount) if type(amount) is int else amounts.format_amount(amount)


def _read_amount(text: str) -> Amount | None:
    return None if text == "-" else amounts.parse_amount(text)


def _read_units(text: str) -> int | None:
    return None if text == "-" else int(text)


class Spending(NamedTuple):
    """Spent amounts, and the sum of what open tabs hold, in units of 1e-30.

    A hold without a bound in the pure currency cannot be subtracted from a sum: ``unbounded`` counts these.
    """

    pure: Amount | None = 0
    renyi: int | None = None
    failure: Amount = 0
    held_pure: Amount = 0
    held_renyi: int | None = None
    held_failure: Amount = 0
    unbounded: int = 0

    def after(self, cost: Cost, before: Cost = NO_COST, left: Cost = NO_COST) -> Spending:
        """Return the totals after a line of this cost on a tab that held ``before`` and now holds ``left``."""
        if before is left and cost is NO_COST:
            return self
        pure = None if self.pure is None or cost.pure is None else amounts.add_rounded_up(self.pure, cost.pure)
        if before is left:
            spent = (
                pure,
                _add_units_or_none(self.renyi, cost.renyi),
                amounts.add_rounded_up(self.failure, cost.failure),
            )
            return tuple.__new__(Spending, spent + self[3:])  # called a million times in a verification
        held = (self.held_renyi or 0) + (left.renyi or 0) - (before.renyi or 0)
        return Spending(
            pure,
            _add_units_or_none(self.renyi, cost.renyi),
            amounts.add_rounded_up(self.failure, cost.failure),
            amounts.add_rounded_up(self.held_pure - (before.pure or 0), left.pure or 0),
            None if self.held_renyi is None and left.renyi is None else held,
            amounts.add_rounded_up(self.held_failure - before.failure, left.failure),
            self.unbounded + (left.pure is None) - (before.pure is None),
        )

    @property
    def spent(self) -> Cost:
        return Cost(self.pure, self.renyi, self.failure)

    @property
    def held(self) -> Cost:
        return Cost(None if self.unbounded else self.held_pure, self.held_renyi, self.held_failure)

    @property
    def total(self) -> Cost:
        """Spent plus held: admission is decided on this."""
        spent = self.spent
        holds_nothing = not (self.held_pure or self.held_renyi or self.held_failure or self.unbounded)
        return spent if holds_nothing and not spent.is_zero else spent + self.held

    def __str__(self) -> str:
        if Fraction in map(type, self):
            return " ".join(map(_write_amount, self))
        pure, renyi, failure, held_pure, held_renyi, held_failure, unbounded = self
        spent = f"{'-' if pure is None else pure} {'-' if renyi is None else renyi} {failure}"
        return f"{spent} {held_pure} {'-' if held_renyi is None else held_renyi} {held_failure} {unbounded}"


class RunningTotals:
    """Totals that follow line after line, with their written form: what ``Spending.after`` and its text are.

    Replaying a million lines is mostly this. Where all amounts are whole units and no tab moves, which is nearly
    always, integers are added and the text of what is held stays; every other line goes through ``Spending``.
    """

    __slots__ = ("_held", "_held_text", "_spent", "text")

    def __init__(self, spending: Spending) -> None:
        self._replace_spending(spending)

    def _replace_spending(self, spending: Spending) -> None:
        self._spent: tuple[Any, Any, Any] = spending[:3]
        self._held = spending[3:]
        self.text = str(spending)
        self._held_text = self.text.split(" ", 3)[3]

    def add_line(self, cost: Cost, before: Cost = NO_COST, left: Cost = NO_COST) -> str:
        """Add a line of this cost on a tab that held ``before`` and now holds ``left``; return the totals after it."""
        if before is left and cost is NO_COST:
            return self.text
        pure, renyi, failure = self._spent
        try:
            pure, renyi, failure = pure + cost.pure, renyi + cost.renyi, failure + cost.failure
            is_plain = before is left and type(pure) is type(failure) is int
        except TypeError:  # a currency that is unbounded or unstated
            is_plain = False
        if is_plain:
            self._spent = pure, renyi, failure
            self.text = f"{pure} {renyi} {failure} {self._held_text}"
        else:
            self._replace_spending(Spending(*self._spent, *self._held).after(cost, before, left))  # type: ignore[arg-type]
        return self.text


def _add_units_or_none(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


@lru_cache(maxsize=64)
def read_totals(text: str) -> Spending:
    if not text:
        return Spending()
    pure, renyi, failure, held_pure, held_renyi, held_failure, unbounded = text.split(" ")
    return Spending(
        _read_amount(pure),
        _read_units(renyi),
        amounts.parse_amount(failure),
        amounts.parse_amount(held_pure),
        _read_units(held_renyi),
        amounts.parse_amount(held_failure),
        int(unbounded),
    )


@codec.serialisable("charged")
@dataclass(frozen=True)
class Charged:
    """A mechanism run ``times`` times, with fresh noise, on values that one unit changes by at most ``sensitivity``.

    A release of thousands of equal measurements stays one part with a count. Only additive noise takes a sensitivity: a
    selection or an interactive mechanism has its own.

    >>> from sfumato.mechanisms import Laplace
    >>> Charged(Laplace(10), 1).curve.epsilon(0)
    0.1
    """

    mechanism: Additive | SelectionMechanism | Interactive
    sensitivity: Sensitivity | None = None
    times: int = 1

    def __init__(
        self, mechanism: Additive | SelectionMechanism | Interactive, sensitivity: Any = None, times: int = 1
    ) -> None:
        additive = is_additive(mechanism)
        if isinstance(mechanism, type) or not (additive or isinstance(mechanism, (SelectionMechanism, Interactive))):
            rule = "an additive, selection or interactive mechanism"
            raise InvalidParameter("mechanism", mechanism, rule, fix="pass an object, such as sf.Laplace(2)")
        if additive is (sensitivity is None):
            rule, fix = "given for additive noise", "give a sensitivity, such as 1"
            if sensitivity is not None:
                rule, fix = "left out, because only additive noise needs a sensitivity", "leave out sensitivity"
            raise InvalidParameter("sensitivity", sensitivity, rule, fix=fix)
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "sensitivity", None if sensitivity is None else Sensitivity.of(sensitivity))
        object.__setattr__(self, "times", exact_integer(times, "times", at_least=1))

    @cached_property
    def curve(self) -> Curve:
        """The privacy curve of all its runs."""
        sensitivities = () if self.sensitivity is None else (self.sensitivity,)
        once = self.mechanism.curve(*sensitivities)
        return once if self.times == 1 else compose([(once, self.times)])

    @cached_property
    def written(self) -> str:
        """Return the tagged JSON value that a line keeps."""
        return codec.dumps(self)


@codec.serialisable("sampled-charge")
@dataclass(frozen=True)
class SampledCharge:
    """Additive noise on totals of one secret Poisson sample of the units, each of which is in it with probability
    ``rate``.

    Theorem. Run on all units, what is charged here has the curve c of its noises. Run on the sample it has
    c.subsampled(rate), under either relation of neighbours (``privacy.subsampled_losses``). Under replace that needs c
    to bound the presence of a unit, too: it does, because a sensitivity under replace bounds v − w for all that two
    units can contribute, and w may be 0 (``plan.bounding``). A smaller rate costs no more: a sample of q′ < q is a
    sample of q′/q of one of q. ∎
    """

    charges: tuple[Charged, ...]
    rate: Fraction

    def __init__(self, charges: Iterable[Charged], rate: Number) -> None:
        noises = tuple(charges) if isinstance(charges, Iterable) else ()
        if not noises or not all(isinstance(noise, Charged) and noise.sensitivity is not None for noise in noises):
            rule = "charges of additive noise, each with its sensitivity"
            raise InvalidParameter("charges", charges, rule, fix="pass Charged(sf.Laplace(2), 1) for each noise")
        object.__setattr__(self, "charges", noises)
        object.__setattr__(self, "rate", exact(rate, "rate", INSIDE_UNIT))

    @cached_property
    def curve(self) -> Curve:
        """The privacy curve of all noises on one sample."""
        return compose(charge.curve for charge in self.charges).subsampled(self.rate, bounds_presence=True)

    @cached_property
    def written(self) -> str:
        """Return the tagged JSON value that a line keeps."""
        return codec.dumps(self)


Part = Charged | SampledCharge | Curve


def merge_equal_parts(parts: Iterable[Charged]) -> tuple[Charged, ...]:
    """Merge equal parts, in the order in which they first occur."""
    counts: dict[Charged, int] = {}
    for part in parts:
        single = replace(part, times=1)
        counts[single] = counts.get(single, 0) + part.times
    return tuple(replace(part, times=times) for part, times in counts.items())


def checked_parts(value: object) -> tuple[Part, ...]:
    """Check the parts of an entry: one, or several that form one release."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not parts or not all(isinstance(part, Part) for part in parts):
        fix = "pass Charged(mechanism, sensitivity) for each mechanism, or its Curve"
        raise InvalidParameter("parts", value, "one or more Charged or Curve values", fix=fix)
    return parts


def compose_parts(parts: Iterable[Part]) -> Curve:
    """Compose the curves of all parts: they are one release."""
    curves = [part if isinstance(part, Curve) else part.curve for part in parts]
    return curves[0] if len(curves) == 1 else compose(curves)


def write_parts(parts: Iterable[Part]) -> str:
    """Return the parts as a line stores them: a JSON list of tagged values."""
    return f"[{','.join(codec.dumps(part) if isinstance(part, Curve) else part.written for part in parts)}]"


def read_parts(text: str) -> tuple[Part, ...]:
    """Parse the parts of a line; none where it has none."""
    values = json.loads(text or "[]")
    return checked_parts([codec.loads(json.dumps(value)) for value in values]) if values else ()
