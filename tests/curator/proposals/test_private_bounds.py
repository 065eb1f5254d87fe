"""Bounds found privately: what one unit moves, over all small worlds; what a release finds, costs and refuses."""

from __future__ import annotations

import datetime as dt
import math
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from engine.refilling import refill
from mechanisms.recorded import seeded
from sfumato.curator import Bounds, BoundsProposal
from sfumato.curator.step_counts import StepSearch
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.release.measurement import Measurement

NAN = float("nan")
UNITS = ((), (3.0,), (700.0,), (NAN,), (3.0, 3.0, 3.0, 700.0), (None, float("inf"), 3.0), (0.0, -3.0, 700.0, 2e-5))
"""What one unit may have, its limit of 3 rows and one more among it."""
RELATIONS = ("add-remove", "replace")
FEW_STEPS = {"cost": {"type": "real", "bounds": ("0.5", 1000)}}


def policy_of(
    rows: pd.DataFrame,
    columns: dict[str, Any] | None = None,
    neighbours: str = "add-remove",
    budget: Any = 10,
    unit: str = "who",
) -> sf.Policy:
    every = unit == "row"
    limit = {} if every else {"max_rows": 3}
    table = sf.Table("visits", rows, columns or {"cost": {"type": "real"}}, id=unit, **limit)
    people = sf.PrivacyUnit("patient", every_row=every)
    return sf.Policy(people, sf.Budget(budget, neighbours=neighbours), {"visits": table}, size=1000)


def curator(rows: pd.DataFrame, folder: Path, *declared: Any, **more: Any) -> sf.Curator:
    return sf.Curator(policy_of(rows, *declared, **more), folder / f"{len(list(folder.iterdir()))}.ledger")


def frame(*units: tuple[Any, ...]) -> pd.DataFrame:
    cells = [(who, cost) for who, own in enumerate(units) for cost in own]
    return pd.DataFrame(cells, columns=["who", "cost"]).astype({"who": "int64", "cost": "float64"})


def totals(made: sf.Curator, key: int = 7) -> np.ndarray:
    draw = made.bounds("visits", "cost")._strategy_at(1)
    return made._context.engine.read(draw.reading, key)


def people(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"who": np.arange(len(values)), "cost": values})


@pytest.mark.parametrize("relation", RELATIONS)
def test_one_unit_moves_no_more_than_is_claimed_in_any_small_world(relation: str, tmp_path: Path) -> None:
    """Every pair of units of every kind, with a third added or exchanged; and every range that could be chosen."""
    with curator(frame((3.0,)), tmp_path, FEW_STEPS, relation) as made:
        draw = made.bounds("visits", "cost")._strategy_at(1)
    steps, split = draw.search.measurements
    read: dict[tuple[Any, ...], np.ndarray] = {}
    with closing(DuckDB(policy_of(frame((3.0,)), FEW_STEPS, relation))) as engine:
        for units in combinations_with_replacement(UNITS, 2):
            refill(engine, policy_of(frame(*units), FEW_STEPS, relation))
            read[units] = engine.read(draw.reading, 7)
    pairs = [
        (read[min(a, (a[1], a[0]), key=_known(read))], read[min(b, (b[1], b[0]), key=_known(read))])
        for first, second, third in product(UNITS, repeat=3)
        for a, b in [((first, second), (first, third))]
        if relation == "replace" or not second or not third
    ]
    moved = max(int(np.abs(a - b).sum()) for a, b in pairs)
    assert moved == steps.sensitivity.l1 == (1 if relation == "add-remove" else 2)
    most = 0
    for a, b in pairs:
        ends = [0, *np.flatnonzero((a + b)[:, 0]).tolist(), len(a)]
        for low, high in combinations_with_replacement(ends, 2):
            chosen = np.arange(len(a))
            inside = (chosen >= low) & (chosen < high)
            most = max(
                most,
                int(
                    np.abs(
                        split.reading.sum_inside_and_outside(a[:, 0], inside)
                        - split.reading.sum_inside_and_outside(b[:, 0], inside)
                    ).sum()
                ),
            )
    assert most == split.sensitivity.l1 == (1 if relation == "add-remove" else 2)


def _known(read: dict[tuple[Any, ...], np.ndarray]) -> Any:
    return lambda units: units not in read


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_outcome_is_more_than_e_to_the_epsilon_likelier(relation: str, tmp_path: Path) -> None:
    """The law of the whole release over a ladder of three steps, exactly: counts, what they choose, and its two
    numbers.

    Discrete Laplace noise has P(x) ∝ e^{−|x|/b}, so the logarithm of a ratio is a sum of distances over scales.
    """
    epsilon = Fraction(2)
    with curator(frame((1.0,)), tmp_path, {"cost": {"type": "integer", "bounds": (0, 2)}}, relation) as made:
        search = made.bounds("visits", "cost", cover="0.5")._strategy_at(epsilon).search
    worlds = [np.array(each) for each in product(range(3), repeat=3)]
    scales = [Fraction(each.mechanism.scale) for each in search.measurements]
    pairs = [each for each in product(worlds, repeat=2) if _neighbours(*each, relation)]
    spans = set()
    worst = Fraction(0)
    for noisy in product((-9, 1, 15), repeat=3):
        span = search._select_span(np.array(noisy))
        spans.add(span)
        inside = search._inside_mask(*(span or (None, None)))
        for first, second in pairs:
            halves = [search.inside_outside.reading.sum_inside_and_outside(world, inside) for world in (first, second)]
            loss = _loss(noisy, first, second) / scales[0]
            worst = max(worst, *(loss + _loss(two, *halves) / scales[1] for two in product((-5, 6), repeat=2)))
    assert worst == epsilon
    assert len(spans) > 4


def _neighbours(first: np.ndarray, second: np.ndarray, relation: str) -> bool:
    moved = np.abs(first - second).sum()
    return moved <= 1 if relation == "add-remove" else (moved == 2 and first.sum() == second.sum()) or moved <= 1


def _loss(seen: Any, first: np.ndarray, second: np.ndarray) -> int:
    return int((np.abs(np.array(seen) - second) - np.abs(np.array(seen) - first)).sum())


def test_what_is_drawn_is_the_counts_and_the_two_numbers_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, np.ndarray]] = []

    def recorded(mechanism: Any, exact: np.ndarray) -> np.ndarray:
        asked.append((mechanism, exact.copy()))
        return np.roll(exact, 1) if len(asked) == 1 else exact + 1

    monkeypatch.setattr("sfumato.release.measurement.add_noise", recorded)
    with curator(frame(*[(3.0,)] * 300, *[(700.0,)] * 300), tmp_path) as made:
        proposal = made.bounds("visits", "cost")
        exact = totals(made)
        found = proposal._strategy_at(1).search.draw(exact)
        assert [each.scale for each, _ in asked] == [Fraction(5, 4), Fraction(5)]
        assert np.array_equal(asked[0][1].reshape(-1), exact[:, 0])
        assert found.span is not None
        assert proposal.ladder.bounds_of(found.span) == (
            5,
            2000,
        )  # the noisy counts are one step higher: they alone decide
        assert asked[1][1].tolist() == [300, 300]
        assert (found.inside, found.outside) == (301, 301)


@pytest.mark.long
@pytest.mark.parametrize("relation", ["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def test_samples_do_not_refute_the_promise_and_do_refute_a_third_of_the_noise(relation: str, tmp_path: Path) -> None:
    """A unit that is alone on its step, added or exchanged for one elsewhere, seen through the likelihood ratio."""
    worlds = [[(1.0,)], [(1.0,), (2.0,)]] if relation == "add-remove" else [[(1.0,), (0.0,)], [(1.0,), (2.0,)]]
    read = []
    for units in worlds:
        columns = {"cost": {"type": "integer", "bounds": (0, 2)}}
        with curator(frame(*units), tmp_path, columns, relation) as made:
            search, exact = made.bounds("visits", "cost")._strategy_at(2).search, totals(made)
            read.append(exact)
    claim = sf.Guarantee(2)
    assert sf.audit.falsify([_sampler(search, each, read) for each in read], claim, 1_500, "0.999999").holds
    steps, split = search.measurements
    twin = replace(search, steps=_weaker(steps), split=_weaker(split))
    verdict = sf.audit.falsify([_sampler(twin, each, read) for each in read], claim, 1_500, "0.999999")
    assert not verdict.holds, str(verdict)


def _weaker(measurement: Measurement) -> Measurement:
    return replace(measurement, mechanism=sf.Laplace(measurement.mechanism.scale / 3))


def _sampler(search: StepSearch, exact: np.ndarray, worlds: list[np.ndarray]) -> Any:
    first, second = (world[:, 0] for world in worlds)

    def sample(count: int) -> np.ndarray:
        return np.array([_ratio(search, search.draw(exact), first, second) for _ in range(count)])

    return sample


def _ratio(search: StepSearch, drawn: Any, first: np.ndarray, second: np.ndarray) -> float:
    inside = search._inside_mask(drawn.first, drawn.last)
    halves = [search.inside_outside.reading.sum_inside_and_outside(world, inside) for world in (first, second)]
    loss = _loss(drawn.counts, first, second) / drawn.noise.scale
    return float(loss + _loss((drawn.inside, drawn.outside), *halves) / drawn.counter.scale)


def test_rows_beyond_every_limit_are_one_unit_still(tmp_path: Path) -> None:
    """Whatever the secret key is, a unit with a row on each of many steps is on one of them."""
    many = tuple(float(10**power) for power in range(12))
    kept = set()
    with curator(frame((3.0,), many), tmp_path) as made:
        reading = made.bounds("visits", "cost")._strategy_at(1).reading
        for key in range(6):
            exact = made._context.engine.read(reading, key)[:, 0]
            assert exact.sum() == 2
            kept.add(int(np.flatnonzero(exact)[-1]))
    assert len(kept) > 1


VALUES: dict[str, tuple[Any, tuple[float, float], tuple[float, float]]] = {
    "lognormal": (lambda random, n: random.lognormal(3, 1, n), (0.1, 5), (100, 2000)),
    "pareto": (lambda random, n: random.pareto(1.1, n) + 1, (0.1, 1), (10, 2000)),
    "normal": (lambda random, n: random.normal(0, 1, n), (-20, -1), (1, 20)),
    "one value": (lambda _, n: np.full(n, 50.0), (5, 20), (50, 200)),
    "zeros and more": (lambda random, n: random.exponential(100, n) * (random.random(n) < 0.5), (-1, 0), (200, 2000)),
    "two far apart": (lambda random, n: np.where(random.random(n) < 0.6, 3.0, 1e6), (0.5, 2), (1e6, 1e7)),
}


@pytest.mark.parametrize(
    ("name", "many"),
    [
        *((name, 1000) for name in VALUES),
        *(pytest.param(name, 100_000, marks=() if name == "pareto" else pytest.mark.long) for name in VALUES),
    ],
)
@seeded(6)
def test_the_range_is_about_that_of_the_values(name: str, many: int, tmp_path: Path) -> None:
    """At ε = 0.1: in twelve draws the median of each end, and of the share covered, is as good as the docs say."""
    made, lows, highs = VALUES[name]
    values = made(np.random.default_rng(5), many)
    with curator(people(values), tmp_path) as opened:
        draw, exact = opened.bounds("visits", "cost")._strategy_at("0.1"), totals(opened)
    spans = [draw.search.draw(exact).span for _ in range(12)]
    ends = np.array([[float(end) for end in draw.ladder.bounds_of(span)] for span in spans if span is not None])  # type: ignore[arg-type]
    assert len(ends) == 12
    low, high = np.median(ends, axis=0)
    assert lows[0] <= low <= lows[1], (low, high)
    assert highs[0] <= high <= highs[1], (low, high)
    share = np.median([((values >= low) & (values <= high)).mean() for low, high in ends])
    assert share >= (0.93 if many == 1000 else 0.985)


def test_half_of_what_need_not_be_covered_is_left_out_at_either_end(tmp_path: Path) -> None:
    """Of 1,100 values 3 in 110 are small and 8 in 110 large; at ε = 1000 noise moves no count by more than one."""
    values = np.array([1e-3] * 30 + [3.0] * 990 + [1e6] * 80)
    with curator(people(values), tmp_path, budget=10**4) as opened:
        exact = totals(opened)
        for cover, holds in (("0.99", (1e-3, 1e6)), ("0.94", (3.0, 1e6)), ("0.9", (3.0, 1e6)), ("0.8", (3.0, 3.0))):
            draw = opened.bounds("visits", "cost", cover=cover)._strategy_at(1000)
            span = draw.search.draw(exact).span
            assert span is not None
            low, high = map(float, draw.ladder.bounds_of(span))  # type: ignore[arg-type]
            assert low <= holds[0] < 10 * max(low, 1e-4)
            assert high / 10 < holds[1] <= high


def test_the_numbers_inside_and_outside_are_as_close_as_is_said(tmp_path: Path) -> None:
    """Of 400 releases at 95 %, more than 60 misses would have a probability below 1e-6."""
    values = np.random.default_rng(5).lognormal(3, 1, 2000)
    with curator(people(values), tmp_path) as opened:
        search, exact = opened.bounds("visits", "cost")._strategy_at("0.5").search, totals(opened)
    missed = 0
    for each in (search.draw(exact) for _ in range(400)):
        inside = exact[each.first : each.last + 1, 0].sum()  # type: ignore[operator]
        low, high = each.covered_share_range("0.95")
        missed += not low <= Fraction(int(inside), 2000) <= high
    assert missed <= 60


@pytest.mark.parametrize("cells", [[], [NAN] * 50, [5.0] * 3])
@seeded(7)
def test_too_few_values_are_said_to_be_too_few(cells: list[Any], tmp_path: Path) -> None:
    values = people(np.array(cells, float)).astype({"who": "int64", "cost": "float64"})
    with curator(values, tmp_path) as made:
        found = made.bounds("visits", "cost").release(epsilon="0.1")
        assert (found.low, found.high, found.bounds, found.toml) == (None, None, None, "")
        assert "no bounds were found for cost" in found.words()
        assert "none found" in repr(found)
        assert Bounds.from_json(found.to_json()) == found
        assert made.budget.remaining["pure"] == Fraction("9.9")  # that nothing was found was paid for


def test_cells_that_are_no_numbers_are_passed_over(tmp_path: Path) -> None:
    """Infinities and NaN beside numbers, and text in a column of numbers."""
    data = tmp_path / "visits.csv"
    cells = ["50"] * 400 + ["NaN", "inf", "-inf", "", "many", "1e999"] * 100
    data.write_text("who,cost\n" + "\n".join(f"{who},{cell}" for who, cell in enumerate(cells)) + "\n")
    table = sf.Table("visits", data, {"cost": {"type": "real"}}, id="who", max_rows=3)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(10), {"visits": table})
    with sf.Curator(policy, tmp_path / "a.ledger") as made:
        exact = totals(made)[:, 0]
        assert exact.sum() == exact[np.flatnonzero(exact)].tolist()[0] + exact[[0, -1]].sum()
        assert exact.max() == 400


@pytest.mark.parametrize("relation", ["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def test_a_release_is_charged_and_found_again(relation: str, tmp_path: Path) -> None:
    values = np.random.default_rng(5).lognormal(3, 1, 4000)
    with curator(people(values), tmp_path, neighbours=relation) as made:
        proposal = made.bounds("visits", "cost")
        assert isinstance(proposal, BoundsProposal)
        said = str(proposal.explain("0.5"))
        assert f"all rows of one patient, {relation}" in said
        assert f"every step with {proposal.error('0.5'):,} or more values" in said
        assert f"±{proposal.count_half_width('0.5'):,} with 95 % confidence" in said
        assert proposal.error(proposal.price(40)) <= 40 < proposal.error(proposal.price(40) * 0.95)
        assert made.budget.remaining["pure"] == 10  # all that was free
        found = proposal.release(epsilon="0.5")
        assert "so with 95 % confidence at least" in found.words()
        assert made.budget.remaining["pure"] == Fraction("9.5")
        assert proposal.release(epsilon="0.5") == found
        assert proposal.release(epsilon="0.2") == found  # bought already, and better
        assert made.budget.remaining["pure"] == Fraction("9.5")
        written = sf.loads(next(line for line in made.ledger if line.kind == "answer").body)
        assert replace(written, purchase=written.purchase.without_salt) == found  # its salt stays in the ledger
        assert Bounds.from_json(found.to_json()) == found
        assert found.receipt is not None
        assert (found.receipt.guarantee, found.receipt.neighbours) == ("ε = 0.5", relation)
        made.bounds("visits", "cost", cover="0.9").release(epsilon="0.5")  # another search
        assert made.budget.remaining["pure"] == 9


def test_an_account_with_delta_is_charged_in_both_currencies(tmp_path: Path) -> None:
    table = sf.Table("visits", people(np.full(500, 50.0)), {"cost": {"type": "real"}}, id="who", max_rows=3)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(3, "1e-6"), {"visits": table})
    with sf.Curator(policy, tmp_path / "a.ledger") as made:
        before = made.budget.remaining
        made.bounds("visits", "cost").release(epsilon="0.1")
        after = made.budget.remaining
        assert before["pure"] - after["pure"] == Fraction("0.1")
        assert 0 < before["renyi"] - after["renyi"] < Fraction("0.1")
        assert before["failure"] == after["failure"]


@pytest.mark.parametrize("kind", ["date", "timestamp", "integer"])
def test_dates_and_whole_numbers_have_bounds_of_their_own_type(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    days = [dt.datetime(2021, 3, 1) + dt.timedelta(days=day) for day in range(600)]
    cells: list[Any] = (
        list(range(600)) if kind == "integer" else [each if kind == "timestamp" else each.date() for each in days]
    )
    with curator(people(cells), tmp_path, {"cost": {"type": kind}}) as made:
        found = made.bounds("visits", "cost").release(epsilon=2)
        expected = {
            "integer": "bounds = [2, 1000]",
            "date": "bounds = [2021-01-01, 2022-12-31]",
            "timestamp": "bounds = [2021-01-01T00:00:00, 2023-01-01T00:00:00]",
        }
        if kind == "integer":
            assert found.toml in (
                "bounds = [0, 1000]",
                "bounds = [1, 1000]",
                "bounds = [2, 1000]",
                "bounds = [5, 1000]",
            )
        else:
            assert found.toml == expected[kind]
        assert Bounds.from_json(found.to_json()) == found
        declared = {"cost": {"type": kind, "bounds": found.bounds}}
        with curator(people(cells), tmp_path, declared, budget=1) as bounded:
            assert bounded.policy.tables["visits"].columns["cost"].bounds == found.bounds


def test_rows_that_are_units_all_count(tmp_path: Path) -> None:
    with curator(pd.DataFrame({"cost": [3.0] * 7 + [NAN]}), tmp_path, unit="row") as made:
        assert totals(made).sum() == 7
        assert "every row counts" in str(made.bounds("visits", "cost").explain(1))


def test_what_has_no_bounds_to_find_is_refused(tmp_path: Path) -> None:
    columns = {
        "cost": {"type": "real"},
        "name": {"type": "text"},
        "paid": {"type": "boolean"},
        "score": {"values": [1, 2, 3]},
        "narrow": {"type": "real", "bounds": (3, 4)},
        "who": {"type": "integer"},
    }
    cells = {"cost": [1.0], "name": ["a"], "paid": [True], "score": [1], "narrow": [3.5], "who": [1]}
    public = sf.Table("wards", pd.DataFrame({"beds": [3]}), public=True)
    table = sf.Table("visits", pd.DataFrame(cells), columns, id="who", max_rows=2)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(3), {"visits": table, "wards": public})
    refused = {
        ("visits", "name"): "a text has no bounds",
        ("visits", "paid"): "a boolean has no bounds",
        ("visits", "score"): "without listed values",
        ("visits", "narrow"): "wide enough for a search",
        ("visits", "who"): "a column other than the unit's id, which has no bounds",
        ("visits", "nothing"): "one of the columns declared in visits",
        ("wards", "beds"): "one of the private tables",
        ("nowhere", "cost"): "one of the private tables: visits",
    }
    with sf.Curator(policy, tmp_path / "a.ledger") as made:
        for (where, column), rule in refused.items():
            with pytest.raises(sf.InvalidParameter, match=rule):
                made.bounds(where, column)
        for cover in (0, 1, "1.5", -1, "nan"):
            with pytest.raises(sf.InvalidParameter, match="cover"):
                made.bounds("visits", "cost", cover=cover)
        for epsilon in (0, -1, "inf"):
            with pytest.raises(sf.InvalidParameter, match="epsilon"):
                made.bounds("visits", "cost").release(epsilon=epsilon)
        with pytest.raises(sf.InvalidParameter, match="confidence"):
            made.bounds("visits", "cost").release(epsilon=1, confidence=2)
        with pytest.raises(sf.Overspent):
            made.bounds("visits", "cost").release(epsilon=4)
        assert made.budget.remaining["pure"] == 3


def test_the_steps_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    """The same statement, the same ladder and the same price for every table; errors fall as the price rises."""
    found = []
    for values in ([1.0], [1e9, -1e9, NAN]):
        with curator(people(values), tmp_path) as made:
            proposal = made.bounds("visits", "cost")
            found.append((proposal.ladder, proposal.identity, proposal.error("0.1")))
            errors = [proposal.error(epsilon) for epsilon in ("0.05", "0.1", "0.5", "2")]
            assert all(a > b for a, b in pairwise(errors))
    assert found[0] == found[1]
    assert math.isclose(found[0][2], 169, abs_tol=5)
