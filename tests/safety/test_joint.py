"""All numbers of a release, and those of two releases, have noise of their own: their joint law is the product.

One release with very many groups is very many draws of everything that is drawn for one group, so the joint law of
the two sums of a mean, of a count and of a sum is seen whole, through the real path (text, plan, price, ledger, engine,
noise), as it is written down. The table is empty: what is written down is the noise itself. An audit that looks at one
number at a time, or supposes that they are independent, cannot see what is looked for here.

False alarms. *Signs*: given its size, each noise is as often positive as negative, so products of signs at one distance
are independent and fair, and |Σ| > √(2n·ln(2/β)) has probability ≤ β (Hoeffding 1963); β is shared over all distances
and all pairs of columns. *Tables*: Pearson's χ² of nine cells of about equal chance, at the point that it exceeds with
probability 1e-9, which leaves three digits for what the limit law is wrong by. Together below 1e-6 for each test here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

import sfumato as sf
from mechanisms.recorded import recorded
from safety.worlds import World
from sfumato.curator.curators import Curator
from sfumato.curator.proposals.questions import Question
from sfumato.privacy import codec
from sfumato.release import measurement

GROUPS = 4_000
_COLUMNS = {
    "code": {"type": "integer", "bounds": [1, GROUPS]},
    "age": {"type": "integer", "bounds": [-2, 10]},
    "cost": {"type": "real", "bounds": [0, 4], "grid": "1"},
}
_STORED = {"who": pa.int64(), "code": pa.int64(), "age": pa.int64(), "cost": pa.float64()}
GROUPED = "SELECT code, AVG(cost), COUNT(*) FILTER (WHERE age > 3), SUM(age) FROM people GROUP BY code"
PLAIN = "SELECT AVG(cost), COUNT(*) FILTER (WHERE age > 3), SUM(age) FROM people"
NAMES = ("above", "below", "count", "sum")
"""The coordinates of either question: a mean is measured as two sums."""
SCALARS = 70
"""So many releases of single numbers: where two columns have one noise, all signs but those of a noise of 0 agree, and
58 suffice to be seen.
"""
_MISS = 1e-7
_TABLE_MISS = 1e-9

Noise = NDArray[np.int64]
"""A row for each draw, a column for each coordinate."""


@pytest.fixture(scope="module", params=["every row", "units"])
def curator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    world = World(request.param == "units", (5, 3, 2), _COLUMNS, _STORED, {}, ())
    with Curator(world.policy([]), tmp_path_factory.mktemp("joint") / "joint.ledger") as opened:
        yield opened


def bought(curator: Curator, question: Question, **price: Any) -> tuple[Noise, tuple[Any, ...]]:
    """What one release wrote down: its noise, and the mechanism of each column."""
    answer = question.release(fresh=True, **price)
    lines = curator.ledger.lines(since=datetime.fromisoformat(answer.receipt.time))
    line = next(each for each in lines if each.number == answer.receipt.line)
    body = curator.ledger._guarded.store.bodies.read(line.file) if line.file else line.body
    assert body is not None
    measured = codec.loads(body, longest=len(body))
    kinds = tuple(scale.mechanism for scale in measured.scales for _ in range(scale.columns))
    return np.array(measured.columns, np.int64).T, kinds


def twice(curator: Curator, **price: Any) -> tuple[Noise, tuple[Any, ...]]:
    """Two releases of the grouped question side by side."""
    question = curator.sql(GROUPED)
    (first, kinds), (second, _) = (bought(curator, question, **price) for _ in range(2))
    return np.hstack([first, second]), kinds * 2


# ── what is looked for ─────────────────────────────────────────────────────────────────────────


def suspicions(noise: Noise, kinds: tuple[Any, ...]) -> set[str]:
    """Which of the tests, each named for what it compares, do not believe in independence."""
    found = set()
    if _repeats(noise.ravel()) or _repeats(noise.T.ravel()):
        found.add("distances")
    for i, j in combinations(range(noise.shape[1]), 2):
        pair = f"{_name(i)} and {_name(j)}"
        fair = math.sqrt(2 * len(noise) * math.log(noise.shape[1] ** 2 / _MISS))
        if abs(int((np.sign(noise[:, i]) * np.sign(noise[:, j])).sum())) > fair:
            found.add(f"signs of {pair}")
        if len(noise) >= GROUPS and _dependent(noise[:, [i, j]], (kinds[i], kinds[j])):
            found.add(f"table of {pair}")
    return found


def _name(column: int) -> str:
    return f"{NAMES[column % 4]} {column // 4 + 1}"


def _repeats(sequence: Noise) -> bool:
    """Whether signs at some distance agree, or differ, too often."""
    signs, n = np.sign(sequence).astype(np.float64), len(sequence)
    size = 1 << (2 * n).bit_length()
    wave = np.fft.rfft(signs, size)
    sums = np.fft.irfft(wave * wave.conj(), size)[1:n].round()
    limits = np.sqrt(2 * np.arange(n - 1, 0, -1) * math.log(2 * n / _MISS))
    return bool((np.abs(sums) > limits).any())


def _dependent(pair: Noise, kinds: tuple[Any, Any]) -> bool:
    """Nine cells, each coordinate in its lower, middle or upper third, against the product of the stated laws."""
    cuts = [_third(kind) for kind in kinds]
    cells = [np.sign(column) * (np.abs(column) >= cut) + 1 for column, (cut, _) in zip(pair.T, cuts, strict=True)]
    seen = np.bincount(3 * cells[0] + cells[1], minlength=9)
    chances = np.outer(*([tail, 1 - 2 * tail, tail] for _, tail in cuts)).ravel()
    return _refuted(seen, chances)


def _refuted(seen: NDArray[Any], chances: NDArray[Any]) -> bool:
    wanted = seen.sum() * chances
    assert wanted.min() > 50
    return bool(((seen - wanted) ** 2 / wanted).sum() > chi2.isf(_TABLE_MISS, len(seen) - 1))


def _third(kind: Any) -> tuple[int, float]:
    """A t with P(X ≥ t) near a third, and that chance, reckoned from the law."""
    size = float(kind.scale if isinstance(kind, sf.Laplace) else kind.sigma)
    cut = max(1, round(0.41 * size))
    if isinstance(kind, sf.Laplace):
        return cut, math.exp(-cut / size) / (1 + math.exp(-1 / size))
    if size > 1000:
        return cut, math.erfc((cut - 0.5) / (size * math.sqrt(2))) / 2
    weights = np.exp(-((np.arange(-40 * cut, 40 * cut + 1) / size) ** 2) / 2)
    return cut, float(weights[: 39 * cut + 1].sum() / weights.sum())


def rotated(noise: Noise, kind: Any) -> bool:
    """Whether a + b and a − b of a mean's two sums refuse the law they have when a and b are independent: sign by sign
    and near or far, against all pairs of outcomes enumerated."""
    x = np.arange(-1000, 1001)
    size = float(kind.scale if isinstance(kind, sf.Laplace) else kind.sigma)
    weights = np.exp(-np.abs(x) / size) if isinstance(kind, sf.Laplace) else np.exp(-((x / size) ** 2) / 2)
    law = np.outer(weights, weights).ravel() / weights.sum() ** 2
    cut = round(0.6 * size)

    def cells(a: Any, b: Any) -> Any:
        rising, falling = (np.sign(each) * (np.abs(each) >= cut) + 1 for each in (a + b, a - b))
        return 3 * rising + falling

    chances = np.bincount(cells(*(each.ravel() for each in np.meshgrid(x, x))), law, 9)
    return _refuted(np.bincount(cells(noise[:, 0], noise[:, 1]), minlength=9), chances)


PRICES: dict[str, dict[str, Any]] = {
    "Laplace": {"epsilon": 1, "mechanism": sf.Laplace},
    "Gaussian": {"rho": "0.1", "mechanism": sf.Gaussian},
}


@pytest.mark.parametrize("price", PRICES)
def test_everything_that_is_drawn_is_drawn_for_itself(curator: Curator, price: str) -> None:
    """Both sums of a mean, all measures, all groups, two releases."""
    noise, kinds = twice(curator, **PRICES[price])
    assert suspicions(noise, kinds) == set()
    if curator.policy.unit.every_row:  # whole steps: few enough outcomes to enumerate
        assert not rotated(noise, kinds[0])


@pytest.mark.parametrize("curator", ["every row", pytest.param("units", marks=pytest.mark.long)], indirect=True)
def test_releases_of_single_numbers_are_drawn_for_themselves(curator: Curator) -> None:
    noise, kinds = _scalars(curator)
    assert suspicions(noise, kinds) == set()
    assert len(np.unique(noise, axis=0)) > 0.9 * SCALARS


def _scalars(curator: Curator) -> tuple[Noise, tuple[Any, ...]]:
    question = curator.sql(PLAIN)
    found = [bought(curator, question, epsilon="0.1", mechanism=sf.Laplace) for _ in range(SCALARS)]
    return np.vstack([noise for noise, _ in found]), found[0][1]


# ── broken twins ───────────────────────────────────────────────────────────────────────────────

Draw = Callable[[Any, Any], list[list[int]]]


def _one_for_both(draw: Draw) -> Draw:
    """A mean's two sums get the same noise."""
    return lambda mechanism, columns: draw(mechanism, columns[:1]) * len(columns)


def _opposite(draw: Draw) -> Draw:
    """A mean's count is exact: what is added to one sum is taken from the other."""

    def drawn(mechanism: Any, columns: Any) -> list[list[int]]:
        (first,) = draw(mechanism, columns[:1])
        return [first, *([-each for each in first] for _ in columns[1:])]

    return drawn


def _one_for_all_groups(draw: Draw) -> Draw:
    return lambda mechanism, columns: [draw(mechanism, [column[:1]])[0] * len(column) for column in columns]


def _one_in_two_groups(draw: Draw) -> Draw:
    """Half as many draws as there are groups, each used twice, far apart."""

    def drawn(mechanism: Any, columns: Any) -> list[list[int]]:
        half = [column[: (len(column) + 1) // 2] for column in columns]
        return [(each * 2)[: len(column)] for each, column in zip(draw(mechanism, half), columns, strict=True)]

    return drawn


def _same_bits(times: int) -> Callable[[Draw], Draw]:
    """So many calls in a row have bits of their own; then they come again."""
    chosen, calls = [os.urandom(1 << 19) for _ in range(times)], iter(range(10**9))

    def twin(draw: Draw) -> Draw:
        def drawn(mechanism: Any, columns: Any) -> list[list[int]]:
            with recorded(chosen[next(calls) % times]):
                return draw(mechanism, columns)

        return drawn

    return twin


@contextmanager
def _broken(twin: Callable[[Draw], Draw]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        noisy = measurement.add_noise
        broken = twin(lambda mechanism, columns: noisy(mechanism, np.array(columns).T).T.tolist())
        patch.setattr(
            measurement, "add_noise", lambda mechanism, exact: np.array(broken(mechanism, exact.T.tolist())).T
        )
        yield


@pytest.mark.parametrize("price", PRICES)
def test_a_mean_with_one_noise_for_both_sums_is_caught(curator: Curator, price: str) -> None:
    for twin in (_one_for_both, _opposite):
        with _broken(twin):
            noise, kinds = twice(curator, **PRICES[price])
        pairs = [f"above {k} and below {k}" for k in (1, 2)]
        assert suspicions(noise, kinds) >= {f"{test} of {pair}" for test in ("signs", "table") for pair in pairs}
        if curator.policy.unit.every_row:
            assert rotated(noise, kinds[0])


def test_noise_shared_by_groups_is_caught(curator: Curator) -> None:
    for twin in (_one_for_all_groups, _one_in_two_groups):
        with _broken(twin):
            assert "distances" in suspicions(*twice(curator, **PRICES["Laplace"]))


def test_bits_shared_by_measures_or_by_releases_are_caught(curator: Curator) -> None:
    with _broken(_same_bits(1)):
        assert "table of count 1 and sum 1" in suspicions(*twice(curator, **PRICES["Laplace"]))
    with _broken(_same_bits(3)):
        found = suspicions(*twice(curator, **PRICES["Laplace"]))
    assert found >= {f"table of {name} 1 and {name} 2" for name in NAMES}


@pytest.mark.parametrize("curator", ["every row", pytest.param("units", marks=pytest.mark.long)], indirect=True)
def test_noise_shared_by_single_numbers_is_caught(curator: Curator) -> None:
    with _broken(_one_for_both):
        assert "signs of above 1 and below 1" in suspicions(*_scalars(curator))
    with _broken(_same_bits(3)):
        assert "distances" in suspicions(*_scalars(curator))
