"""Every kind of release draws each of its numbers for itself: nothing is shared by groups, cells, rounds or questions.

As in ``test_joint``: tables are empty, or so few of their numbers are not zero that these are left out, so what is
released is the noise itself, or a choice among equals. Each is as often on one side of its middle as on the other,
whatever else was drawn, and ``repeats`` looks for a distance at which sides agree, or differ, too often. Each call is a
false alarm with probability ≤ 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from safety.test_joint import _repeats as repeats
from sfumato.release.prices import Price
from sfumato.release.requests import PriceRequest

CODES = 1_000
_DAYS = 300
COLUMNS = {
    "code": {"type": "integer", "values": list(range(1, CODES + 1))},
    "shop": {"type": "integer", "values": list(range(1, CODES + 1))},
    "day": {"type": "integer", "bounds": [1, _DAYS]},
    "side": {"type": "integer", "values": [1, 2]},
    "kind": {"type": "integer", "values": [1, 2, 3, 4, 5, 6]},
    "cost": {"type": "integer", "bounds": [-500, 500]},
    "free": {"type": "integer"},
}
SIDES = [*[(1, 1)] * 20_000, *[(2, 2)] * 20_000]
"""Two cells that two columns by themselves do not tell: a session buys what it would guess wrongly."""


def opened(tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[int, int]]) -> sf.Curator:
    stored = {"code": [code for code, _ in cells], "side": [side for _, side in cells]}
    more = {name: [None] * len(cells) for name in COLUMNS if name not in stored}
    source = pa.table({name: pa.array(values, pa.int64()) for name, values in (stored | more).items()})
    policy = sf.Policy(
        sf.PrivacyUnit("person", every_row=True),
        sf.Budget(10**6, "0.1"),
        {"people": sf.Table("people", source, COLUMNS, id="row")},
        allow_large_delta=True,
    )
    return sf.Curator(policy, tmp_path_factory.mktemp("apart") / "ledger")


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with opened(tmp_path_factory, []) as found:
        yield found


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with opened(tmp_path_factory, SIDES) as found:
        yield found


def column(answer: Any, place: int) -> list[float]:
    return [float(row[place]) for row in answer.rows]


def different_values(curator: sf.Curator) -> list[float]:
    ask = curator.sql("SELECT code, COUNT(DISTINCT kind), COUNT(DISTINCT cost) FROM people GROUP BY code")
    found = ask.release(epsilon="0.1")
    return [*column(found, 1), *column(found, 2)]


def frequent_values(curator: sf.Curator) -> list[float]:
    found = curator.sql("SELECT code, MODE(kind), MODE(kind) FILTER (WHERE cost > 0) FROM people GROUP BY code")
    answer = found.release(epsilon=1)
    return [each - 3.5 for place in (1, 2) for each in column(answer, place)]


def quantiles(curator: sf.Curator) -> list[float]:
    own = "MEDIAN(cost), MEDIAN(cost + day), MEDIAN(cost) FILTER (WHERE kind = 1)"
    answer = curator.sql(f"SELECT code, {own} FROM people GROUP BY code").release(epsilon=1)
    middles = (0, (1 + _DAYS) / 2, 0)
    return [each - middle for place, middle in enumerate(middles, 1) for each in column(answer, place)]


def moments(curator: sf.Curator) -> list[float]:
    """The sums of squares and of products have no rounding of their own: they are read as they were drawn."""
    own = "COVAR_POP(cost, day), VAR_POP(cost), VAR_POP(cost) FILTER (WHERE kind = 1)"
    ask = curator.sql(f"SELECT code, {own} FROM people GROUP BY code")
    prepared = ask.price_release_at(Price(1), PriceRequest(1))
    exact = np.zeros((CODES, sum(each.coordinates for each in prepared.bounded.measures)), np.int64)
    return np.asarray(prepared.totals.draw(prepared.measurements[0], exact), np.float64).T.ravel().tolist()


def workloads(curator: sf.Curator) -> list[float]:
    asked = [f"SELECT code, COUNT(*) AS n FROM people WHERE kind = {kind} GROUP BY code" for kind in (1, 2)]
    answers = curator.workload(asked).release(epsilon="0.1")
    return [each for answer in answers for each in column(answer, 1)]


def synopses(curator: sf.Curator) -> list[float]:
    """Two of the blocks have one shape: those of codes and of shops."""
    found = curator.marginals("people", [["code", "side"], ["shop"], ["kind", "side"]]).release(rho="0.001")
    return [float(each) for block in found.published.gaussian_blocks for each in block.values.ravel()]


def pure_synopses(curator: sf.Curator) -> list[float]:
    found = curator.marginals("people", [["code"], ["shop"], ["kind", "side"]]).release(epsilon="0.1")
    return [float(each) for part in found.published.laplace_marginals for each in part.values.ravel()]


def running_totals(curator: sf.Curator) -> list[float]:
    """The matrix is square, so the noises are found again from the totals."""
    ask = curator.running("SELECT day, COUNT(*) AS n FROM people GROUP BY day")
    draw, found = ask._best_draw(Price(rho="0.001"), sf.Gaussian), []
    weights = draw.noise.factorisation.weights.astype(np.float64)
    assert weights.shape == (_DAYS, _DAYS)
    for _ in range(4):
        measured = draw.draw_from(np.zeros((_DAYS, 1), np.int64))
        found += (weights @ np.diff(measured.totals, prepend=0.0)).round().tolist()
    return found


def models(curator: sf.Curator) -> list[float]:
    model = curator.mwem("people", ["code", "side"], [["code"], ["code", "side"]], rounds=3).release(epsilon="0.1")
    return [each for found in model.rounds for each in found.counts]


def synthetic_tables(curator: sf.Curator) -> list[float]:
    """Two of the marginals have one shape; empty cells have noise as others have."""
    found = curator.synthesize("people", "independent", 1, columns=["code", "shop", "kind"]).release(rho="0.001")
    return [float(each) for part in found.released.measured for each in part.values.ravel()]


def pure_synthetic_tables(curator: sf.Curator) -> list[float]:
    found = curator.synthesize("people", "independent", 1, columns=["code", "shop", "kind"]).release(epsilon="0.1")
    return [float(each) for part in found.released.measured for each in part.values.ravel()]


def bounds(curator: sf.Curator) -> list[float]:
    found = [curator.bounds("people", "free").release(epsilon="0.1", fresh=True) for _ in range(12)]
    return [float(each) for one in found for each in one.steps.counts]


KINDS: dict[str, Callable[[sf.Curator], list[float]]] = {
    each.__name__: each
    for each in (
        different_values,
        frequent_values,
        quantiles,
        moments,
        workloads,
        synopses,
        pure_synopses,
        running_totals,
        models,
        synthetic_tables,
        pure_synthetic_tables,
        bounds,
    )
}


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_drawn_for_itself(empty: sf.Curator, kind: str) -> None:
    noise = np.array(KINDS[kind](empty))
    assert noise.size > 1000
    assert len(np.unique(np.sign(noise[noise != 0]))) == 2
    assert not repeats(noise)


@pytest.mark.parametrize("measure", ["COUNT(*)", "SUM(side)"])
def test_every_number_that_a_session_buys_is_drawn_for_itself(sides: sf.Curator, measure: str) -> None:
    found: list[float] = []
    with sides.online("people", ["code", "side"], ways=1, rounds=2).release(rho="0.01") as session:
        for _ in range(2):
            answer = session.sql(f"SELECT code, side, {measure} AS n FROM people GROUP BY code, side")
            if answer.basis is None or "bought now" not in answer.basis["n"]:
                continue  # the second time it is close
            found += [float(row[2]) for row in answer.rows if row[0] not in (1, 2)]
    noise = np.array(found)
    assert noise.size > 1000
    assert not repeats(noise)
