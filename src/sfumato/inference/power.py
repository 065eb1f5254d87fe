"""The power of a test before it is paid for: how often it would find an assumed difference at this price's noise.

Tables are simulated under the alternative, noise included, and each is tested as a released one would be. Nothing of
the data is used: sizes and effects are what the analyst assumes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference import score_tests
from sfumato.inference.noise_laws import NoiseLaw, SeededDraws
from sfumato.inference.released_numbers import PairTotals
from sfumato.inference.score_tests import GroupSums, ScoreTest
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_number, format_percent
from sfumato.quick_dataclass import dataclass

TABLES = 400
_NULL_DRAWS = 199
_MAX_GROUPS = 100
"""A power is free, so a server computes as many as an analyst asks for: with 100 groups each takes seconds."""
_MAX_DRAWN_ROWS = 1000
"""Of more assumed pairs, so many are drawn for each table, and the totals' deviations from their means scaled up."""
_NORMAL_NODES = np.arange(-256, 257) / 32
"""Points at which normal numbers are integrated by the trapezoid rule, from −8 to 8."""
_MAX_ROWS = 10**12
_NUMBER_PER_COLUMN = "a number for each of the two columns, in the order of CORR(y, x)"


@codec.serialisable("power")
@dataclass(frozen=True)
class Power:
    """The share of simulated tables in which a test finds an assumed difference."""

    price: str
    found: int
    tables: int
    level: float
    """The largest p-value that counts as found."""
    assumed: str
    """The assumed sizes and effects in words."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "level", codec.parse_float(self.level, "level"))

    def __float__(self) -> float:
        return self.found / self.tables

    def __str__(self) -> str:
        share = format_percent(round(float(self), 2))
        return (
            f"at {self.price}, a test of {self.assumed} rejects {share} of the time (p ≤ {format_number(self.level)})"
        )

    __repr__ = __str__

    def to_json(self) -> str:
        """Write the power as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Power:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


@dataclass(frozen=True, eq=False)
class AssumedGroups:
    """What an analyst assumes of the groups: their sizes, and their shares of an outcome or their means."""

    sizes: Floats
    effects: Floats
    deviation: float | None = None
    """The standard deviation of the values; None for shares."""

    @classmethod
    def parse(
        cls,
        count: int,
        sizes: Sequence[Number] | Number,
        shares: Sequence[Number] | None,
        means: Sequence[Number] | None,
        deviation: Number | None,
    ) -> AssumedGroups:
        """Parse the assumptions about so many groups: shares, or else means with a deviation."""
        if shares is not None:
            effects = _parse_numbers(shares, "shares", count)
            if effects.min() < 0 or effects.max() > 1:
                raise InvalidParameter(
                    "shares", shares, "a number from 0 to 1 for each group", fix="write for example shares=[0.2, 0.3]"
                )
            return cls(_require_positive(_parse_numbers(sizes, "sizes", count), "sizes"), effects)
        if deviation is None:
            raise InvalidParameter(
                "deviation",
                None,
                "given together with means, as the standard deviation of the values",
                fix="write for example means=[10, 12], deviation=5",
            )
        spread = float(exact(deviation, "deviation", POSITIVE))
        return cls(
            _require_positive(_parse_numbers(sizes, "sizes", count), "sizes"),
            _parse_numbers(means, "means", count),
            spread,
        )

    def require_possible(self, like: GroupSums) -> None:
        """Refuse means that no values within the bounds of ``like`` have, and deviations that none with these means
        have: above √((mean − low)·(high − mean)) (Bhatia & Davis 2000).
        """
        if self.deviation is None:
            return
        above_low = self.effects - like.low
        if above_low.min() < 0 or above_low.max() > like.width:
            raise InvalidParameter(
                "means",
                self.effects.tolist(),
                "within the bounds of the column",
                fix="give means between the bounds that the policy declares",
            )
        most = float(np.sqrt(above_low * (like.width - above_low)).min())
        if self.deviation > most * (1 + 1e-9):
            rule = f"at most {format_number(most)}, the largest standard deviation within the bounds of the column"
            raise InvalidParameter("deviation", self.deviation, rule)

    def __str__(self) -> str:
        effects = " and ".join(format_number(effect) for effect in self.effects.tolist())
        sizes = " and ".join(dict.fromkeys(format_number(size, 6) for size in self.sizes.tolist()))
        return f"{'shares' if self.deviation is None else 'means'} of {effects} in groups of {sizes}"

    def simulate_sums(self, draws: SeededDraws, like: GroupSums) -> GroupSums:
        """Simulate the released sums of one table, with the noise and the range of ``like``."""
        noise = like.law.draw(draws, 2, len(self.sizes))
        if self.deviation is None:
            means = np.stack([self.sizes * self.effects, self.sizes * (1 - self.effects)])
            above, below = draws.poisson(means, 1)[0] + noise
            return replace(like, above=above, below=below)
        rows = draws.poisson(self.sizes, 1)[0]
        spread = np.sqrt(rows) * self.deviation * draws.normals(len(rows))
        totals = rows * (self.effects - like.low) + spread
        variances = None if like.variances is None else np.full(len(rows), self.deviation**2)
        below = like.width * rows - totals + noise[1]
        return replace(like, above=totals + noise[0], below=below, variances=variances)


def count_rejections(assumed: AssumedGroups, sums: GroupSums, contrast: Floats | None, level: float) -> int:
    """Count the simulated tables in which the test of equal means finds a difference."""
    _require_simulable(level, len(assumed.sizes))
    draws = SeededDraws("power", str(assumed))  # the same tables at every price
    tests = (score_tests.equal_means(assumed.simulate_sums(draws, sums), contrast, _NULL_DRAWS) for _ in range(TABLES))
    return sum(test.p_value <= level for test in tests)


@dataclass(frozen=True, eq=False)
class AssumedCounts:
    """The number of rows that an analyst expects in each cell of a table of counts."""

    cells: Floats

    @classmethod
    def parse(cls, shape: Sequence[int], counts: Sequence[Number] | None) -> AssumedCounts:
        """Parse a number for each cell, in the order of the answer's groups."""
        cells = _require_positive(_parse_numbers(counts, "counts", math.prod(shape)), "counts")
        return cls(cells.reshape(shape))

    def __str__(self) -> str:
        return f"counts of {' and '.join(format_number(cell, 6) for cell in self.cells.ravel().tolist())}"

    def count_rejections(self, test: Callable[[Floats, NoiseLaw, int], ScoreTest], law: NoiseLaw, level: float) -> int:
        """Count the simulated tables, with the noise, that a test rejects."""
        _require_simulable(level, self.cells.size)
        draws = SeededDraws("power", str(self))
        tables = draws.poisson(self.cells, TABLES) + law.draw(draws, TABLES, *self.cells.shape)
        return sum(test(table, law, _NULL_DRAWS).p_value <= level for table in tables)


@dataclass(frozen=True)
class AssumedShare:
    """The share of a public number of units that an analyst expects, and that of the null."""

    of: int
    share: float
    equals: float

    @classmethod
    def parse(cls, of: int, equals: Number, shares: Sequence[Number] | None) -> AssumedShare:
        (share,) = _parse_numbers(shares, "shares", 1, "one number").tolist()
        if not 0 <= share <= 1:
            raise InvalidParameter("shares", shares, "one share from 0 to 1", fix="for example, set shares to 0.5")
        return cls(of, share, float(exact(equals, "equals")))

    def __str__(self) -> str:
        return f"a share of {format_number(self.share)} of {self.of:,}"

    def count_rejections(self, law: NoiseLaw, level: float) -> int:
        """Count the simulated noisy counts whose p-value for both sides is at most the level.

        P(Y < y) + (1 − U)·P(Y = y) rises with y, and for equal y as U falls; the other side falls. So a few of the
        sorted counts tell for all of them.
        """
        draws = SeededDraws("power", str(self))
        counts = score_tests.draw_binomial(draws, self.of, self.share, TABLES) + law.draw(draws, TABLES)
        pairs = sorted(zip(counts.tolist(), (-draws.uniforms(TABLES)).tolist(), strict=True))

        @cache
        def p_values(index: int) -> tuple[float, float]:
            count, negative_uniform = pairs[index]
            return score_tests.share_p_values(count, self.of, self.equals, law, -negative_uniform)

        fewer = bisect_right(range(TABLES), level, key=lambda index: 2 * p_values(index)[1])
        others = bisect_left(range(TABLES), -level, key=lambda index: -2 * p_values(index)[0])
        return min(TABLES, fewer + TABLES - others)


@dataclass(frozen=True, eq=False)
class AssumedPairs:
    """What an analyst assumes of two columns, in the order of CORR(y, x): normal values with this correlation, which
    are clipped to the declared bounds as a release clips them, but not rounded to whole numbers.

    Rows are drawn, and their totals added up: up to 1,000 rows this is the exact law. Of n > m = 1,000 rows the totals
    are n·μ + √(n/m)·(S − m·μ), with S those of m drawn rows and μ the mean of one, integrated: they have the mean and
    the covariance of n rows, and are about as normal as those of m.
    """

    rows: int
    correlation: float
    means: Floats
    deviations: Floats

    @classmethod
    def parse(
        cls,
        pairs: PairTotals,
        rows: Sequence[Number] | Number | None,
        correlation: Number | None,
        means: Sequence[Number] | None,
        deviation: Sequence[Number] | Number | None,
    ) -> AssumedPairs:
        """Parse the assumptions about the columns of an answer; means out of their bounds are refused."""
        if isinstance(rows, (list, tuple)):
            rule = "one whole number for a correlation, the number of all rows"
            raise InvalidParameter("sizes", rows, rule, fix="for example, set sizes to 1000")
        count = exact_integer(rows, "sizes", at_least=2)  # type: ignore[arg-type]  # another sequence is refused
        if count > _MAX_ROWS:
            raise InvalidParameter("sizes", rows, f"at most {_MAX_ROWS:,}")
        if correlation is None or abs(exact(correlation, "correlation")) > 1:
            raise InvalidParameter("correlation", correlation, "from −1 to 1", fix="write for example correlation=0.3")
        parsed = _parse_numbers(means, "means", 2, _NUMBER_PER_COLUMN)
        for mean, axis in zip(parsed.tolist(), (pairs.y, pairs.x), strict=True):
            if not axis.low <= mean <= axis.high:
                raise InvalidParameter(
                    "means",
                    means,
                    "within the bounds of the columns, in the order of CORR(y, x)",
                    fix="give means between the bounds that the policy declares, y first",
                )
        deviations = _require_positive(_parse_numbers(deviation, "deviation", 2, _NUMBER_PER_COLUMN), "deviation")
        return cls(count, float(exact(correlation, "correlation")), parsed, deviations)

    def __str__(self) -> str:
        means, deviations = (
            " and ".join(format_number(number) for number in numbers.tolist())
            for numbers in (self.means, self.deviations)
        )
        return (
            f"correlations of {format_number(self.correlation)} in {self.rows:,} rows with means of {means} and "
            f"deviations of {deviations}"
        )

    def _totals_of_rows(self, first: Floats, second: Floats, pairs: PairTotals) -> Iterator[Floats]:
        """Yield what rows add to each of the seven totals, from two independent standard normal numbers of each."""
        both = first, self.correlation * first + math.sqrt(1 - self.correlation**2) * second
        y, x = (
            np.clip(mean + deviation * normals, float(axis.low), float(axis.high))
            for mean, deviation, normals, axis in zip(
                self.means, self.deviations, both, (pairs.y, pairs.x), strict=True
            )
        )
        for values, axis in ((x, pairs.x), (y, pairs.y)):
            yield values - float(axis.low)
            yield float(axis.high) - values
        x, y = x - float(pairs.x.middle), y - float(pairs.y.middle)
        yield from (x**2, y**2, x * y)

    def mean_row(self, pairs: PairTotals) -> Floats:
        """Return what a row adds to each total on average."""
        density = np.exp(-(_NORMAL_NODES**2) / 2)
        weights = np.outer(density, density) / density.sum() ** 2
        means = [
            float((weights * numbers).sum())
            for numbers in self._totals_of_rows(_NORMAL_NODES[:, None], _NORMAL_NODES[None, :], pairs)
        ]
        return np.array(means)

    def simulate(self, draws: SeededDraws, pairs: PairTotals) -> Iterator[PairTotals]:
        """Yield the released totals of each table, with the noise and the ranges of ``pairs``."""
        noises = np.stack([law.draw(draws, TABLES) for law in pairs.laws], axis=1)
        drawn, mean = min(self.rows, _MAX_DRAWN_ROWS), self.mean_row(pairs)
        for noise in noises:
            first, second = draws.normals(2, drawn)
            rows = self._totals_of_rows(first, second, pairs)
            deviations = np.array([float(numbers.sum()) for numbers in rows]) - drawn * mean
            totals = self.rows * mean + math.sqrt(self.rows / drawn) * deviations
            yield replace(pairs, totals=totals + noise)

    def count_rejections(self, pairs: PairTotals, level: float) -> int:
        """Count the simulated tables in which the test finds a correlation."""
        _require_simulable(level)
        tables = self.simulate(SeededDraws("power", str(self)), pairs)
        return sum(score_tests.correlation(table.sums, _NULL_DRAWS).p_value <= level for table in tables)


def _require_simulable(level: float, groups: int = 1) -> None:
    """Refuse a level that no p-value of a simulated null can reach, and tables that take minutes to simulate."""
    if groups > _MAX_GROUPS:
        rule = f"power can be simulated for at most {_MAX_GROUPS} groups; this answer has {groups:,}"
        raise Unsupported("test-of-many-groups", rule, fix="group by a column with fewer values, or by coarser values")
    if level < 1 / (_NULL_DRAWS + 1):
        rule = f"at least {1 / (_NULL_DRAWS + 1):g}, because each test is simulated {_NULL_DRAWS} times"
        raise InvalidParameter("level", level, rule)


def _parse_numbers(
    given: Sequence[Number] | Number | None, name: str, count: int, rule: str = "a number for each of {} groups"
) -> Floats:
    numbers: list[Number] = []
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        numbers = [given] * count
    elif given is not None:
        numbers = list(given)
    if len(numbers) != count:
        raise InvalidParameter(name, given, rule.format(count))
    return np.array([float(exact(number, name)) for number in numbers])


def _require_positive(numbers: Floats, name: str) -> Floats:
    if numbers.min() <= 0:
        raise InvalidParameter(name, numbers.tolist(), "positive")
    return numbers
