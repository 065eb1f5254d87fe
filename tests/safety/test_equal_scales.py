"""No two released numbers share one noise, also where both noises have the same scale.

Two columns that share a noise show their difference exactly, however wide that noise is: ``COUNT_IF(d = 0)`` beside
``COUNT_IF(d <= 1)``. Here every exact number is 0 or known, so a release shows its noises, and the noises are very
wide. If the likeliest value of a law has probability p, one draw equals another or its negative with probability ≤ 2p,
and k draws equal k others, or their negatives, with probability ≤ 2pᵏ. ``shared`` adds this up over all pairs and
refuses to judge above 5e-7, so that is the most false alarms of each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from safety.test_joint import bought
from sfumato.curator.curators import Curator
from sfumato.ledger import Charged, spending
from sfumato.release import measurement
from sfumato.release.prices import Price

Noise = Iterable[int]
Terms = dict[str, Any]

_MISS = 5e-7
_WORDS = ("ash", "elm", "oak", "yew")
_HOLDERS = 3_000
_COLUMNS: dict[str, dict[str, Any]] = {
    "code": {"type": "integer", "values": [1, 2, 3]},
    "shop": {"type": "integer", "values": [1, 2, 3]},
    "day": {"type": "integer", "bounds": [1, 6]},
    "sex": {"values": ["f", "m"]},
    "kind": {"type": "integer", "values": [0, 1, 2]},
    "cost": {"type": "integer", "bounds": [-1, 1]},
    "wide": {"type": "integer", "bounds": [-(10**11), 10**11]},
    "free": {"type": "integer"},
    "word": {"type": "text"},
}


def likeliest(mechanisms: Iterable[Any]) -> float:
    """The probability of 0 under the narrowest of these laws: Laplace's is (1 − q)/(1 + q), with q = e^{−1/b}."""
    return max(
        math.tanh(1 / (2 * size)) if isinstance(each, sf.Laplace) else 1 / (size * math.sqrt(2 * math.pi))
        for each in mechanisms
        for size in (float(min(each.sizes)),)
    )


def shared(vectors: Sequence[Noise], chance: float) -> bool:
    """Whether two of these noises, or vectors of noises, are equal or opposite."""
    rows = np.array([list(each) for each in vectors], np.int64)
    pairs = len(rows) * (len(rows) - 1) / 2
    assert 0 < pairs * 2 * chance ** rows.shape[1] <= _MISS, "equal by accident: ask for wider noise"
    return len({max(tuple(row), tuple(-row)) for row in rows}) < len(rows)


@pytest.fixture(scope="module", params=["every row", "units"])
def empty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    with _opened(tmp_path_factory, {}, units=request.param == "units") as found:
        yield found


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    with _opened(tmp_path_factory, {}, units=False) as found:
        yield found


@pytest.fixture(scope="module")
def woods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    """Every word is held often enough to be shown, by rows whose values are all 0."""
    rows = len(_WORDS) * _HOLDERS
    stored = {"word": list(_WORDS) * _HOLDERS, "kind": [0] * rows, "wide": [0] * rows, "code": [1] * rows}
    with _opened(tmp_path_factory, stored, units=False) as found:
        yield found


def _opened(folder: pytest.TempPathFactory, stored: dict[str, list[Any]], *, units: bool) -> Curator:
    rows = max(map(len, stored.values()), default=0)
    types = {name: pa.string() if name in ("word", "sex") else pa.int64() for name in ("who", *_COLUMNS)}
    cells = {name: pa.array(stored.get(name, [None] * rows), kind) for name, kind in types.items()}
    limits: dict[str, Any] = {"id": "who", "max_rows": 4, "max_groups": 2} if units else {"id": "row"}
    table = sf.Table("people", pa.table(cells), _COLUMNS, **limits)
    unit = sf.PrivacyUnit("person", every_row=not units)
    policy = sf.Policy(unit, sf.Budget(10**6, "0.1"), {"people": table}, allow_large_delta=True)
    return Curator(policy, folder.mktemp("equal") / "ledger")


# ── questions ──────────────────────────────────────────────────────────────────────────────────

MEASURES = (
    "COUNT_IF(kind = 0), COUNT_IF(kind <= 1)",
    "COUNT_IF(kind >= 1), COUNT_IF(kind <= 1), COUNT(cost)",
    "SUM(cost), SUM(cost) FILTER (WHERE kind = 0), SUM(-cost)",
    "AVG(cost), AVG(cost) FILTER (WHERE kind = 0)",
    "COUNT(DISTINCT kind), COUNT(DISTINCT code), COUNT(DISTINCT shop)",
    "COUNT(*), COUNT(*) FILTER (WHERE kind = 0), COUNT(cost)",
)
GROUPS = (("", ""), ("code,", " GROUP BY code"))
FAMILIES: dict[str, tuple[Terms, ...]] = {
    "Laplace": tuple({"epsilon": f"1e-{k}", "mechanism": sf.Laplace} for k in (11, 10, 9, 5, 4, 3)),
    "Gaussian": tuple({"rho": f"1e-{k}", "mechanism": sf.Gaussian} for k in (22, 20, 18, 10, 8, 6)),
}
"""From the least to the most: the first at which the noise can be drawn is the widest."""


def widest(curator: Curator, text: str, prices: Sequence[Terms]) -> tuple[Any, tuple[Any, ...]]:
    """The noises of a release at the least price, and their mechanisms: a row for each group."""
    for price in prices:
        try:
            return bought(curator, curator.sql(text), **price)
        except sf.InvalidParameter:
            continue
    raise AssertionError(text)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("measures", MEASURES)
def test_measures_and_groups_of_one_scale_have_noises_of_their_own(empty: Curator, measures: str, family: str) -> None:
    for keys, grouped in GROUPS:
        noise, mechanisms = widest(empty, f"SELECT {keys} {measures} FROM people{grouped}", FAMILIES[family])
        sizes = [each.sizes for each in mechanisms]
        assert len(set(sizes)) < len(sizes), "no two columns have one scale"
        assert not shared([[cell] for cell in noise.ravel()], likeliest(mechanisms))


@pytest.mark.parametrize("price", [{"mechanism": sf.Laplace}, {"mechanism": sf.Gaussian}], ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("keys", ["word", "word, code"])
def test_found_groups_have_noises_of_their_own(woods: Curator, keys: str, price: Terms) -> None:
    """Sums are wide enough to be compared one by one. Counts are narrow: of them whole columns are compared."""
    own = "COUNT_IF(kind = 0), COUNT_IF(kind <= 1), SUM(wide), SUM(wide) FILTER (WHERE kind = 0)"
    ask = woods.sql(f"SELECT {keys}, {own} FROM people GROUP BY {keys}")
    noise, mechanisms = bought(woods, ask, epsilon="0.1", delta="1e-6", **price)
    assert len(noise) == len(_WORDS) * (1 if keys == "word" else 3)
    assert not shared([[cell] for cell in noise[:, 2:].ravel()], likeliest(mechanisms[2:]))
    held = np.resize([_HOLDERS] if keys == "word" else [_HOLDERS, 0, 0], len(noise))
    assert not shared(list(noise[:, :2].T - held), likeliest(mechanisms[:2]))


# ── every other kind of release ────────────────────────────────────────────────────────────────


def _cells(parts: Iterable[Any]) -> list[Noise]:
    return [[int(cell)] for part in parts for cell in np.ravel(part.values)]


def workload(curator: Curator) -> list[Noise]:
    asked = [f"SELECT code, COUNT(*) AS n FROM people WHERE kind = {kind} GROUP BY code" for kind in (0, 1)]
    answers = curator.workload([*asked, "SELECT COUNT(*) AS n FROM people", asked[0]]).release(epsilon="1e-10")
    assert answers[0].rows == answers[3].rows, "one question, asked twice, is bought once"
    return [[int(row[-1])] for answer in answers[:3] for row in answer.rows]


def histogram(curator: Curator) -> list[Noise]:
    return _cells(curator.histogram("people", ["code", "shop"]).release(epsilon="1e-10").published.laplace_marginals)


def marginals(curator: Curator) -> list[Noise]:
    sets = [["code"], ["shop"], ["kind"]]
    return _cells(curator.marginals("people", sets).release(epsilon="1e-10").published.laplace_marginals)


def synopsis(curator: Curator) -> list[Noise]:
    sets = [["code", "kind"], ["shop"]]
    return _cells(curator.marginals("people", sets).release(rho="1e-20").published.gaussian_blocks)


def rounds_of_weights(curator: Curator) -> list[Noise]:
    model = curator.mwem("people", ["code", "shop"], [["code"], ["shop"]], rounds=4).release(rho="1e-14")
    return _both_ways([list(map(int, each.counts)) for each in model.rounds])


def _synthesis(method: str, ways: int) -> Callable[[Curator], list[Noise]]:
    """Choices keep the price from being so small that single cells could be compared."""

    def made(curator: Curator) -> list[Noise]:
        proposal = curator.synthesize("people", method, ways, columns=["code", "shop", "kind"])
        parts = [np.ravel(each.values) for each in proposal.release(rho="1e-16").released.measured]
        return _both_ways([part[:4].tolist() for part in parts if part.size > 1][:4])

    return made


def _both_ways(parts: list[list[int]]) -> list[Noise]:
    """Four parts of four cells each, and what stands at one place in all of them."""
    assert np.shape(parts) == (4, 4)
    return [*parts, *zip(*parts, strict=True)]


def running_totals(curator: Curator) -> list[Noise]:
    """The matrix is square, so the noises are found again from the totals."""
    ask = curator.running("SELECT sex, day, COUNT(*) AS n FROM people GROUP BY sex, day")
    ask.release(rho="1e-14")  # for the ledger to say what is run
    draw = ask._best_draw(Price(rho="1e-14"), sf.Gaussian)
    totals = np.reshape(draw.draw_from(np.zeros((len(draw.groups), 1), np.int64)).totals, (2, -1))
    decoder = draw.noise.factorisation.decoder * float(draw.noise.unit_value)
    return [[round(noise)] for noise in np.linalg.solve(decoder, totals.T).ravel()]


def steps_of_bounds(curator: Curator) -> list[Noise]:
    found = curator.bounds("people", "free").release(epsilon="1e-11").steps
    return [[count] for count in (*found.counts, found.inside, found.outside)]


def degrees(curator: Curator) -> list[Noise]:
    found = curator.degrees("people", ["code", "shop"], 5).release(epsilon="1e-10")
    return [[count] for count in found.counts]


KINDS: dict[str, Callable[[Curator], list[Noise]]] = {
    "workload": workload,
    "histogram": histogram,
    "marginals": marginals,
    "synopsis": synopsis,
    "multiplicative weights": rounds_of_weights,
    "mst": _synthesis("mst", 2),
    "aim": _synthesis("aim", 2),
    "running totals": running_totals,
    "bounds": steps_of_bounds,
    "degrees": degrees,
}


def _run(curator: Curator, since: int) -> list[Any]:
    """The additive noises that the ledger says were run."""
    lines = [line for line in curator.ledger.lines() if line.number > since]
    parts = chain.from_iterable(spending.read_parts(line.parts) for line in lines)
    return [part.mechanism for part in parts if isinstance(part, Charged) and part.sensitivity is not None]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_of_release_have_noises_of_their_own(rows: Curator, kind: str) -> None:
    since = max((line.number for line in rows.ledger.lines()), default=0)
    noise = KINDS[kind](rows)
    assert not shared(noise, likeliest(_run(rows, since)))


# ── broken twins ───────────────────────────────────────────────────────────────────────────────


def test_a_noise_that_is_kept_for_the_next_is_caught(empty: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[Any, Any] = {}
    noisy = measurement.add_noise

    def keeping(mechanism: Any, exact: Any) -> Any:
        return exact + kept.setdefault((mechanism, exact.shape), noisy(mechanism, 0 * exact))

    monkeypatch.setattr(measurement, "add_noise", keeping)
    for measures in MEASURES[:3]:
        noise, mechanisms = widest(empty, f"SELECT {measures} FROM people", FAMILIES["Laplace"])
        assert shared([[cell] for cell in noise.ravel()], likeliest(mechanisms))
