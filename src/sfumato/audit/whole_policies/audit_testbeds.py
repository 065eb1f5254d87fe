"""An audit testbed: the generated tables of a policy, opened by engines and by curators.

The engines read exact totals, which is safe because the rows are generated. The curators answer as the owner's would.

The noise of one release is also drawn repeatedly over the same exact totals. The totals of two neighbouring tables are
read once, and the measurements of the priced release draw on them, so many draws are cheap and slightly too narrow
noise is detected. Each draw is reduced to its likelihood ratio, the most powerful statistic for an attacker who knows
both tables (Neyman & Pearson 1933).

Detect numbers of one release that share a noise draw: their difference would be exact.

The price of a release assumes independent noise. Here one release is drawn several times over the same exact totals,
through the whole path of a real release after its rows are read, and the totals are subtracted. If p is the
probability of the likeliest value of the narrowest noise, two independent draws are equal in all n repetitions, or
opposite in all of them, with probability at most 2pⁿ. So n is chosen such that the false-alarm probability over all
pairs stays below the allowed one (union bound). All pairs of numbers are compared, whether or not a generated unit
changes them differently, so the choice of neighbours hides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.asked_questions.neighbouring_outcomes import Ask, Pair, RecordedTotals, make_proposal, record_totals
from sfumato.audit.asked_questions.release_sampling import temporary_curator
from sfumato.audit.generated_tables import NeighbouringTables, neighbours_of
from sfumato.audit.lower_bounds.falsifying import falsify, required_samples
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.curator import Curator, Question
from sfumato.engine.opening import open_engine
from sfumato.engine.protocols import Engine
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.catalog import Catalog
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.policy import Policy
from sfumato.privacy import Guarantee
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Measurement
from sfumato.release.parts.shares import NamedNoise
from sfumato.release.prices import Price
from sfumato.release.pricing import PricedRelease
from sfumato.release.releasing import Read
from sfumato.release.requests import PriceRequest

EPSILON = Fraction(1)
"""The ε of every release."""


@dataclass(frozen=True)
class AuditPrice:
    """A price, as arguments of ``release``."""

    claim: Guarantee
    gaussian: bool = False

    @property
    def release_arguments(self) -> dict[str, Any]:
        delta = {"delta": self.claim.delta} if self.claim.delta else {}
        mechanism = {"mechanism": "gaussian"} if self.gaussian else {}
        return {"epsilon": self.claim.epsilon, **delta, **mechanism, "fresh": True}

    def __str__(self) -> str:
        return f"{Price(self.claim.epsilon, self.claim.delta)}{', Gaussian noise' if self.gaussian else ''}"


@dataclass(frozen=True)
class AuditTestbed:
    """The open engines and curators of one policy's audit."""

    tables: NeighbouringTables
    engines: Mapping[str, Engine]
    """The engine of each population, by its name."""
    curators: Mapping[str, Curator]

    @property
    def catalog(self) -> Catalog:
        return self.engines[""].catalog()

    @property
    def policy(self) -> Policy:
        return self.tables.policy

    def question(self, query: str | Ask) -> Any:
        """Make a query at the curator of the ordinary units."""
        return make_proposal(query, self.curators[""])

    def price_for(self, question: Any, *, gaussian: bool = False) -> AuditPrice:
        """Return the price of a query, with a small part of the policy's δ if it needs one."""
        needs_delta = gaussian or (isinstance(question, Question) and bool(question.discovered_keys))
        return AuditPrice(Guarantee(EPSILON, self.policy.budget.delta / 1000 if needs_delta else 0), gaussian)

    def record_totals(self, question: Question, price: AuditPrice) -> tuple[RecordedTotals, ...]:
        """Read the exact input of a query's measurements in every population."""
        return record_totals(question, price_release(question, price), self.engines)


def price_release(question: Question, price: AuditPrice) -> PricedRelease:
    """Price a release from the policy alone."""
    noise: NamedNoise | None = "gaussian" if price.gaussian else None
    return question.price_release(PriceRequest(price.claim.epsilon, price.claim.delta, mechanism=noise))


@contextmanager
def open_testbed(policy: Policy, *, texts: bool = False) -> Iterator[AuditTestbed]:
    """Generate the tables of a policy and open them all."""
    tables = neighbours_of(policy, texts=texts)
    with ExitStack() as stack:
        engines = dict(_open_engines(tables, stack))
        curators = {
            population.name: stack.enter_context(temporary_curator(tables.policy_over(population)))
            for population in tables.populations
        }
        yield AuditTestbed(tables, engines, curators)


@contextmanager
def reopen_under(testbed: AuditTestbed, policy: Policy) -> Iterator[AuditTestbed]:
    """Open the same tables under another policy, one with an injected fault."""
    other = replace(testbed.tables, policy=policy)
    with ExitStack() as stack:
        engines = dict(_open_engines(other, stack))
        curator = stack.enter_context(temporary_curator(other.policy_over(other.ordinary_population)))
        yield AuditTestbed(other, engines, {"": curator})


def _open_engines(tables: NeighbouringTables, stack: ExitStack) -> Iterator[tuple[str, Engine]]:
    for population in tables.populations:
        engine = open_engine(tables.policy_over(population), None, 1)
        stack.callback(engine.close)
        yield population.name, engine


_MAX_DRAWN_CELLS = 4_000_000
"""The most numbers drawn at once."""
_SINGLE_COLUMNS = 4
"""Numbers tested individually and in pairs: those that one unit changes most, and least."""
Draw = Callable[[Measurement, NDArray[np.int64]], NDArray[Any]]
"""Draws noisy totals: a row for each group of each release."""


def refute_by_draws(
    recorded: Sequence[RecordedTotals],
    pair: Pair,
    claim: Guarantee,
    samples: int,
    confidence: Fraction,
    draw: Draw | None = None,
) -> tuple[Verdict, int] | None:
    """Try to refute a claim by drawing noise on the totals of two worlds; return the verdict and the number of draws.

    Returns None if nothing is noisy, or if there are too many numbers to draw often enough. ``draw`` replaces the
    measurement's own draw to inject a fault.
    """
    noisy = [entry for entry in recorded if isinstance(entry.measurement.mechanism, Additive)]
    cells = sum(entry.exact[pair[0].name].size for entry in noisy)
    draw_count = min(samples, _MAX_DRAWN_CELLS // max(1, cells))
    if not cells or draw_count < required_samples(claim, confidence):
        return None
    draw_totals = draw or (lambda measurement, exact: measurement.draw(exact))

    def world(side: int) -> Callable[[int], NDArray[np.float64]]:
        def sample(count: int) -> NDArray[np.float64]:
            draws = [_draw_measurement(entry, pair, side, count, draw_totals) for entry in noisy]
            total_ratio = sum(ratio for ratio, _ in draws)
            return np.column_stack([total_ratio, *(single for _, single in draws)])[:, : _SINGLE_COLUMNS + 1]

        return sample

    return falsify((world(0), world(1)), claim, draw_count, confidence), draw_count


def _draw_measurement(
    recorded: RecordedTotals, pair: Pair, side: int, count: int, draw: Draw
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw ``count`` times in one world; return each draw's log-likelihood ratio of the second world to the first, and
    the numbers tested individually.
    """
    mechanism: Additive = recorded.measurement.mechanism
    worlds = [recorded.exact[population.name] for population in pair]
    a, b = (totals.ravel().astype(np.float64) for totals in worlds)
    noisy_totals = draw(recorded.measurement, np.tile(worlds[side], (count, 1))).reshape(count, -1).astype(np.float64)
    scale = float(mechanism.sizes[0]) * float(mechanism.grid or 1)
    if mechanism.order == 1:
        ratio = (np.abs(noisy_totals - a) - np.abs(noisy_totals - b)).sum(axis=1) / scale
    else:
        ratio = ((noisy_totals - (a + b) / 2) * (b - a)).sum(axis=1) / scale**2
    by_change = np.argsort(-np.abs(a - b), kind="stable")
    single_columns = np.concatenate(
        [by_change[: _SINGLE_COLUMNS // 2], by_change[_SINGLE_COLUMNS // 2 :][-(_SINGLE_COLUMNS // 2) :]]
    )
    return ratio, noisy_totals[:, single_columns]


E = TypeVar("E")
Noise = NDArray[np.int64]
"""A row per group, a column per number of a group."""
NoiseFault = Callable[[Noise, Sequence[Additive]], Noise]
"""Injects a fault: maps the noise of one release and the mechanism of each column to faulty noise."""
_SAMPLING_KEY = 7
_MAX_DRAWS = 2_000


@dataclass(frozen=True)
class NoiseComparison:
    """The comparison of all noise values of one release over repeated draws."""

    numbers: int
    draws: int
    shared: tuple[tuple[int, int], ...]
    """Index pairs of numbers with equal noise in every draw, counted group by group."""

    @property
    def holds(self) -> bool:
        return not self.shared

    def __str__(self) -> str:
        if self.holds:
            return f"no two of {self.numbers:,} numbers share their noise"
        first, second = self.shared[0]
        return (
            f"numbers {first + 1:,} and {second + 1:,} of {self.numbers:,} share their noise in all {self.draws} draws"
        )


def compare_noise(
    question: Question,
    prepared: PricedRelease,
    engine: Engine,
    error_probability: Fraction,
    fault: NoiseFault | None = None,
) -> NoiseComparison | None:
    """Draw a release until any two independent noise values agree every time with probability at most
    ``error_probability``.

    Returns None if fewer than two numbers are noisy, if groups are discovered in the data, or if the noise is so narrow
    that it would need too many draws. ``fault`` injects one.
    """
    if question.discovered_keys:
        return None
    kind, read = question.release_strategy(prepared), _cached_reader(engine)
    columns = list(column_mechanisms(prepared))
    mechanisms = [mechanism for mechanism in columns if mechanism is not None]
    numbers = len(question.groups) * len(mechanisms)
    draws = _required_draws(mechanisms, numbers, error_probability)
    if draws is None:
        return None
    exact, is_noisy = (
        _exact_columns(question, prepared, read),
        np.array([mechanism is not None for mechanism in columns]),
    )
    drawn_noise = [(np.array(kind.draw(read).columns, np.int64).T - exact)[:, is_noisy] for _ in range(draws)]
    compared = drawn_noise if fault is None else [fault(noise, mechanisms) for noise in drawn_noise]
    return NoiseComparison(
        numbers, draws, tuple(_equal_or_opposite_rows(np.array([noise.ravel() for noise in compared]).T))
    )


def _cached_reader(engine: Engine) -> Read:
    """Read the exact totals of generated rows once per reading, so that draws differ in their noise alone."""
    cache: dict[Any, Any] = {}

    def read(reading: PlanReading[E]) -> E:
        if reading not in cache:
            cache[reading] = engine.read(reading, _SAMPLING_KEY)
        totals: E = cache[reading]
        return totals

    return read


def column_mechanisms(prepared: PricedRelease) -> Iterator[Additive | None]:
    """Yield the mechanism of each drawn column; None for selections."""
    for part, measurements in zip(prepared.parts, prepared.measurements, strict=True):
        if all(measurement.sensitivity is not None for measurement in measurements):
            for index, scale in enumerate(part.scales(measurements)):
                yield from [measurements[part.share_index(index)].mechanism] * scale.columns
        else:
            yield from [None] * sum(scale.columns for scale in part.scales(measurements))


def _exact_columns(question: Question, prepared: PricedRelease, read: Read) -> Noise:
    """Return the exact numbers that noise is added to, column by column; zeros for selections."""
    columns = []
    for part, measurements in zip(prepared.parts, prepared.measurements, strict=True):
        totals: Any = read(part.reading(question.groups)) if measurements else None
        if all(measurement.sensitivity is not None for measurement in measurements):
            columns += [
                measurement.reading.extract(totals).reshape(len(question.groups), -1) for measurement in measurements
            ]
        else:
            width = sum(scale.columns for scale in part.scales(measurements))
            columns.append(np.zeros((len(question.groups), width), np.int64))
    return np.hstack(columns)


def _required_draws(mechanisms: Sequence[Additive], numbers: int, miss: Fraction) -> int | None:
    """Return the least n with (pairs)·2pⁿ ≤ miss."""
    if numbers < 2:
        return None
    probability = max(_likeliest_value_probability_bound(mechanism) for mechanism in mechanisms)
    if probability >= 1:  # rounds to 1: the noise is almost always 0
        return None
    pairs = numbers * (numbers - 1) // 2
    draws = math.ceil(
        (math.log(2 * pairs) - math.log(miss.numerator) + math.log(miss.denominator)) / -math.log(probability)
    )
    return draws if draws <= _MAX_DRAWS else None


def _likeliest_value_probability_bound(mechanism: Additive) -> float:
    """Bound the probability of 0, the likeliest noise value.

    Laplace: (1 − q)/(1 + q) with q = e^{−1/b}. Gaussian: 1/Σe^{−x²/2σ²}, where the sum is at least its three middle
    terms, and at least σ√2π (Poisson summation).
    """
    scale = float(min(mechanism.sizes))
    if mechanism.order == 1:
        return math.tanh(1 / (2 * scale))
    return 1 / max(scale * math.sqrt(2 * math.pi), 1 + 2 * math.exp(-1 / (2 * scale**2)))


def _equal_or_opposite_rows(noise: Noise) -> Iterator[tuple[int, int]]:
    """Yield each row that equals an earlier one or its negation; zero rows equal each other."""
    first_index: dict[bytes, int] = {}
    for index, row in enumerate(noise):
        leading = row[np.flatnonzero(row)[:1]]
        normalized = (row * (np.sign(leading[0]) if leading.size else 1)).tobytes()
        if normalized in first_index:
            yield first_index[normalized], index
        first_index.setdefault(normalized, index)
