"""The power of a test before it is paid for: how often it would find an assumed difference at this price's noise.

Tables are simulated under the alternative, noise included, and each is tested as a released one would be. Nothing of
the data is used: sizes and effects are what the analyst assumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.inference import score_tests
from sfumato.inference.noise_laws import NoiseLaw
from sfumato.inference.score_tests import GroupSums, ScoreTest
from sfumato.inference.seeded_draws import SeededDraws
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, Number, exact, format_number, format_percent
from sfumato.quick_dataclass import dataclass

TABLES = 400
_NULL_DRAWS = 199


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
        return f"at {self.price} {self.assumed} are found {share} of the time (p ≤ {format_number(self.level)})"

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
                raise InvalidParameter("shares", shares, "between 0 and 1")
            return cls(_require_positive(_parse_numbers(sizes, "sizes", count), "sizes"), effects)
        if deviation is None:
            raise InvalidParameter("deviation", None, "the standard deviation of the values, with means")
        spread = float(exact(deviation, "deviation", POSITIVE))
        return cls(
            _require_positive(_parse_numbers(sizes, "sizes", count), "sizes"),
            _parse_numbers(means, "means", count),
            spread,
        )

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
        (share,) = _parse_numbers(shares, "shares", 1).tolist()
        if not 0 <= share <= 1:
            raise InvalidParameter("shares", shares, "between 0 and 1")
        return cls(of, share, float(exact(equals, "equals")))

    def __str__(self) -> str:
        return f"counts of a share of {format_number(self.share)} of {self.of:,}"

    def count_rejections(self, law: NoiseLaw, level: float) -> int:
        """Count the simulated noisy counts whose p-value for both sides is at most the level."""
        draws = SeededDraws("power", str(self))
        counts = score_tests.draw_binomial(draws, self.of, self.share, TABLES) + law.draw(draws, TABLES)
        pairs = zip(counts.tolist(), draws.uniforms(TABLES).tolist(), strict=True)
        smaller = (min(score_tests.share_p_values(count, self.of, self.equals, law, each)) for count, each in pairs)
        return sum(2 * p_value <= level for p_value in smaller)


def _parse_numbers(given: Sequence[Number] | Number | None, name: str, count: int) -> Floats:
    listed = [given] * count if isinstance(given, (int, float, str)) else list(given or ())  # type: ignore[arg-type]
    if len(listed) != count:
        raise InvalidParameter(name, given, f"a number for each of {count} groups")
    return np.array([float(exact(number, name)) for number in listed])


def _require_positive(numbers: Floats, name: str) -> Floats:
    if numbers.min() <= 0:
        raise InvalidParameter(name, numbers.tolist(), "positive")
    return numbers
