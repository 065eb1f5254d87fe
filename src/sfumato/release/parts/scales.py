"""Scales: how stored noisy integers are decoded, now or years later; they are stored with the numbers.

The keys of an answer's groups are stored in the same place: every value once, and an index per group.

The scale of totals that were read from a secret Poisson sample of the units.

A total of the sample, S = Σ bᵤaᵤ over independent bᵤ ~ Bernoulli(q), estimates T = Σ aᵤ by S/q. One unit adds at most
A ≥ aᵤ ≥ 0: at most its limits let it add.

Theorem. With n = T/A, P(S ≥ s) ≤ exp(−n·KL(s/T ‖ q)) for s ≥ qT, and P(S ≤ s) is at most that for s ≤ qT, where KL is
the divergence of two coins. *Proof.* f(a) = ln(1 − q + q·e^{λa}) is convex with f(0) = 0, so Σ f(aᵤ/A) ≤ n·f(1) for
every real λ: the cumulants of S/A are at most those of a binomial number of n units, and so is the Chernoff bound. ∎

So with probability 1 − β the total T is one for which n·KL(s/T ‖ q) ≤ ln(2/β). The range takes the worst s within the
noise, which misses with half of the allowed probability, and sampling with the other half. It reads the noisy total,
the limit A and the rate; nothing in it is exact.

The largest such n decides: it is at least as far from s/q as the least one. *Proof.* d(n) = n·KL(s/n ‖ q) is least at
n = s/q, and d'' = s/(n(n − s)) falls, so d(s/q + x) ≤ d(s/q − x). The distance of the largest n grows with s, since
dn/ds = 1 + ln(q/x)/ln((1 − x)/(1 − q)) at x = s/n < q, where the numerator is at least (q − x)/q and the denominator
at most (q − x)/(1 − q). So the upper end of the noise's range gives more than its lower end would, and where that is
below 0, the estimate itself is below the noise. ∎
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property, once_per_instance
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import FrequentValues, Quantiles
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Width
from sfumato.plan.nodes import GroupValues
from sfumato.policy import Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import INSIDE_UNIT, NONNEGATIVE, Number, exact, format_number
from sfumato.quick_dataclass import dataclass

_PARSERS: dict[Type, Any] = {
    Type.REAL: lambda written: exact(written, "key"),
    Type.DATE: dt.date.fromisoformat,
    Type.TIMESTAMP: dt.datetime.fromisoformat,
}
"""Parsers of the types that are stored as text; other types are stored as they are."""


@codec.serialisable("key-column")
@dataclass(frozen=True)
class KeyColumn:
    """The distinct values of one key, in order of first appearance among the groups; None is NULL."""

    value_type: Type
    values: tuple[Value | None, ...]

    def __init__(self, value_type: Type | str, values: Sequence[Any]) -> None:
        column_type = Type.of(value_type)
        parse = _PARSERS.get(column_type)
        parsed = values if parse is None else [parse(value) if isinstance(value, str) else value for value in values]
        object.__setattr__(self, "value_type", column_type)
        object.__setattr__(self, "values", tuple(parsed))


@codec.serialisable("group-keys")
@dataclass(frozen=True)
class GroupKeys:
    """The keys of all groups in order: all combinations of the values, or those that ``codes`` list."""

    columns: tuple[KeyColumn, ...]
    codes: tuple[tuple[int, ...], ...] = ()
    """For each column, the index of each group's value; empty where the groups are all combinations in order."""
    count: int = 1
    """The number of groups where there is no key: one in every real answer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "codes", tuple(map(tuple, self.codes)))
        if self.codes and len(self.codes) != len(self.columns):
            raise InvalidParameter(
                "codes",
                ValueWords(f"{len(self.codes)} lists"),
                f"a list with a list of codes for each of the {len(self.columns)} columns",
            )

    @classmethod
    def encode(cls, groups: Sequence[GroupValues], types: Sequence[Type]) -> GroupKeys:
        """Encode the keys of these groups, in their order."""
        if not types:
            return cls((), count=len(groups))
        key_lists = [list(map(operator.itemgetter(index), groups)) for index in range(len(types))]
        distinct = [tuple(dict.fromkeys(column)) for column in key_lists]
        columns = tuple(KeyColumn(key_type, values) for key_type, values in zip(types, distinct, strict=True))
        if math.prod(map(len, distinct)) == len(groups) and all(map(operator.eq, groups, itertools.product(*distinct))):
            return cls(columns)
        value_codes = [{value: index for index, value in enumerate(values)} for values in distinct]
        codes = [
            tuple(map(code_of.__getitem__, column)) for code_of, column in zip(value_codes, key_lists, strict=True)
        ]
        return cls(columns, tuple(codes))

    @property
    def groups(self) -> tuple[GroupValues, ...]:
        """The key of every group."""
        values = [column.values for column in self.columns]
        if not self.codes:
            return tuple(itertools.product(*values)) * self.count
        key_columns = (
            map(column_values.__getitem__, codes) for column_values, codes in zip(values, self.codes, strict=True)
        )
        return tuple(zip(*key_columns, strict=True))


ONE_GROUP = GroupKeys(())
"""The keys of an answer without keys."""


class ConstantWidthScale(ABC):
    """A scale whose half-width is that of every number."""

    @abstractmethod
    def width(self, confidence: Number, parts: int) -> float: ...

    def widths(self, totals: Floats, confidence: Number, parts: int) -> Width:  # noqa: ARG002
        return self.width(confidence, parts)


class NoiseScale(Protocol):
    """The value of one integer of a measurement, and its distance from the exact value."""

    @property
    def unit_value(self) -> Fraction:
        """The value of one integer step."""
        ...

    @property
    def columns(self) -> int:
        """Count the numbers of each group."""
        ...

    @property
    def labels(self) -> Sequence[Any] | None:
        """The values that the numbers index; None where they are numbers."""
        ...

    def width(self, confidence: Number, parts: int) -> float:
        """Return the half-width that covers ``parts`` numbers simultaneously with this confidence."""
        ...

    def widths(self, totals: Floats, confidence: Number, parts: int) -> Width:
        """Return the half-width of each of these numbers, ``parts`` of which are covered simultaneously."""
        ...

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:
        """Return the half-width that covers ``parts`` sums of ``terms`` numbers each."""
        ...

    def rank(self, confidence: Number) -> float | None:
        """Bound the rank error of a selected number; None where nothing is selected by rank."""
        ...

    def words(self) -> str:
        """Describe the mechanism."""
        ...


_MAX_CACHED_WIDTHS = 64
"""The number of half-widths that a scale keeps: confidences are the caller's to choose."""


@codec.serialisable("noisy-scale", encoded_once=True)
@dataclass(frozen=True)
class NoisyScale(ConstantWidthScale):
    """The scale of totals with additive noise."""

    unit_value: Fraction
    mechanism: Additive
    columns: int = 1
    rounding: Fraction = Fraction(0)
    """The largest rounding error of the total before noise."""
    labels: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))
        object.__setattr__(self, "rounding", exact(self.rounding, "rounding"))

    def half_width(self, confidence: Number, parts: int) -> Fraction:
        """Bound noise and rounding together: of one price once, however often it is compared and shown."""
        level = confidence if type(confidence) is Fraction else exact(confidence, "confidence")
        cached_widths, key = self._cached_half_widths, (level, parts)
        half_width = cached_widths.get(key)
        if half_width is None:
            half_width = self.mechanism.error(confidence, parts) * self.unit_value + self.rounding
            if len(cached_widths) >= _MAX_CACHED_WIDTHS:
                cached_widths.clear()  # another thread may do so too: nothing is read back
            cached_widths[key] = half_width
        return half_width

    @cached_property
    def _cached_half_widths(self) -> dict[tuple[Fraction, int], Fraction]:
        """By the confidence and the number of ranges that hold at once."""
        return {}

    def width(self, confidence: Number, parts: int) -> float:
        return float(self.half_width(confidence, parts))

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:
        return float(self.mechanism.sum_error(terms, confidence, parts) * self.unit_value + terms * self.rounding)

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    @once_per_instance
    def words(self) -> str:
        return self.mechanism.words(self.unit_value)


@codec.serialisable("named-scale")
@dataclass(frozen=True)
class FrequentValueScale(ConstantWidthScale):
    """The scale of selected frequent values: numbers index the candidate values."""

    values: KeyColumn
    mechanism: FrequentValues
    columns: int = 1

    @property
    def unit_value(self) -> Fraction:
        return Fraction(1)

    @property
    def labels(self) -> Sequence[Any]:
        return self.values.values

    def selection_note(self, confidence: Number) -> str:
        """Describe how good a selection is."""
        return self.mechanism.promise(len(self.labels), confidence)

    def width(self, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return 0.0

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return 0.0

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    def words(self) -> str:
        return self.mechanism.words()


@codec.serialisable("chosen-scale")
@dataclass(frozen=True)
class QuantileScale(ConstantWidthScale):
    """The scale of numbers selected by rank, and perhaps two interval ends for each.

    Their distance from the exact value is not known otherwise.
    """

    unit_value: Fraction
    mechanism: Quantiles
    probability: Fraction
    ends: Quantiles | None = None
    """The mechanism that selected the lower end of a bought interval; the upper end is selected as its mirror image."""
    labels: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))
        object.__setattr__(self, "probability", exact(self.probability, "probability"))

    @property
    def columns(self) -> int:
        return 1 if self.ends is None else 3

    def width(self, confidence: Number, parts: int) -> float:
        """Return 0 where the exact value lies within the selected ends with this confidence, else infinity."""
        end_mechanism = self.ends if self.probability not in (0, 1) else self.mechanism
        is_covered = end_mechanism is not None and abs(end_mechanism.offset) >= end_mechanism.safety_offset_rows(
            confidence, parts
        )
        return 0.0 if is_covered else float("inf")

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return float("inf")

    def rank(self, confidence: Number) -> float:
        """Bound how many rows lie between the number and its exact quantile."""
        index = self.mechanism.probabilities.index(self.probability)
        return float(abs(self.mechanism.offset) + math.ceil(self.mechanism.errors(confidence)[index]))

    def words(self) -> str:
        if self.ends is None:
            return self.mechanism.words()
        return (
            f"{self.mechanism.words()}, and an interval around each, ε {format_number(float(2 * self.ends.epsilon), 6)}"
        )


_BISECTIONS = 80


@codec.serialisable("sampled-scale")
@dataclass(frozen=True)
class SampledScale:
    """The scale of totals of a sample with additive noise: as estimates of the totals of all units."""

    noise: NoisyScale
    """The scale of the sample's own totals."""
    rate: Fraction
    unit_limit: Fraction
    """The most that one unit adds to a total, in the units of its measure."""
    labels: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", exact(self.rate, "rate", INSIDE_UNIT))
        object.__setattr__(self, "unit_limit", exact(self.unit_limit, "unit_limit", NONNEGATIVE))

    @property
    def unit_value(self) -> Fraction:
        return self.noise.unit_value / self.rate

    @property
    def mechanism(self) -> Additive:
        return self.noise.mechanism

    @property
    def columns(self) -> int:
        return self.noise.columns

    def half_width(self, confidence: Number, parts: int) -> Fraction:
        """Bound the noise and rounding of an estimate, without the sampling."""
        return self.noise.half_width(confidence, parts) / self.rate

    def width(self, confidence: Number, parts: int) -> float:
        return float(self.half_width(confidence, parts))

    def widths(self, totals: Floats, confidence: Number, parts: int) -> Floats:
        """Bound noise and sampling together, for each of these estimates."""
        level, rate = exact(confidence, "confidence"), float(self.rate)
        noise = float(self.noise.half_width((1 + level) / 2, parts))
        exponent = math.log(4 * parts / float(1 - level))
        limit = float(self.unit_limit)
        largest = _largest_total(np.maximum(totals * rate + noise, 0.0) / limit, rate, exponent) * limit
        return (largest - totals) * (1 + 1e-9)

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return math.inf

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    def words(self) -> str:
        return self.mechanism.words(self.unit_value)


def _largest_total(sampled: Floats, rate: float, exponent: float) -> Floats:
    """Return a bound of the largest n with n·KL(s/n ‖ q) ≤ exponent, by bisection from s/q, where it is 0, and a bound
    that follows from n·KL ≥ (qn − s)²/2qn.
    """
    inside = sampled / rate
    beyond = (sampled + exponent + np.sqrt(exponent * (exponent + 2 * sampled))) / rate
    for _ in range(_BISECTIONS):
        middle = (inside + beyond) / 2
        is_inside = _binomial_divergence(sampled, middle, rate) <= exponent
        inside, beyond = np.where(is_inside, middle, inside), np.where(is_inside, beyond, middle)
    return beyond


def _binomial_divergence(sampled: Floats, total: Floats, rate: float) -> Floats:
    """Compute n·KL(s/n ‖ q) = s·ln(s/qn) + (n − s)·ln((n − s)/((1 − q)n)), where 0·ln 0 = 0."""
    rest = np.maximum(total - sampled, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(sampled > 0, sampled * np.log(sampled / (rate * total)), 0.0)
        second = np.where(rest > 0, rest * np.log(rest / ((1 - rate) * total)), 0.0)
    return first + second
