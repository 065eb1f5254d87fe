"""Scores of candidates: what one unit moves, what is charged, that ranges hold, which tables are taken and refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from engine.refilling import refill
from publish.test_mwem import RELATIONS, Row, pairs, people, policy_of, worlds
from sfumato.curator.context import Context
from sfumato.curator.proposals.scores import ScoreProposal, propose_score
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.mechanisms import Laplace
from sfumato.plan.readings.cell_rows import CellCounts, CodedRows
from sfumato.privacy import codec
from sfumato.publish.scoring import CandidateScore, ScoreRelease, SetDistance, candidate_digest
from sfumato.release.prices import Price
from sfumato.release.running_work import ignore_progress

CANDIDATE = pa.table({"sex": ["f", "m", "m", None], "age": [1, 4, 8, 2], "smokes": [False, False, True, None]})
ONE_CELL = pa.table({"sex": ["f"], "age": [1], "smokes": [False]})
NARROW = Laplace("0.001")
"""Noise that is 0, but for one draw in e^1000."""


def proposed(policy: sf.Policy, candidate: Any = CANDIDATE, **more: Any) -> tuple[ScoreProposal, DuckDB]:
    engine = DuckDB(policy)
    return proposed_to(engine, candidate, **more), engine


def proposed_to(engine: DuckDB, candidate: Any, **more: Any) -> ScoreProposal:
    context = Context(engine.sources.policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
    return propose_score(context, engine.catalog(), candidate, None, more.pop("k", 2), **more)


def exact(rows: list[Row], candidate: Any = CANDIDATE, price: Price | None = None, **more: Any) -> tuple[Any, Any]:
    """The draw at a price, and what is read before noise."""
    own = {name: more.pop(name) for name in ("units", "relation") if name in more}
    found, engine = proposed(policy_of(rows, **own), candidate, **more)
    with closing(engine):
        draw = found._strategy_at(price or Price(2))
        return draw, engine.read(draw.view.reading, 3)


@contextmanager
def curator(tmp_path: Path, rows: list[Row], **more: Any) -> Iterator[sf.Curator]:
    with sf.Curator(policy_of(rows, **more), tmp_path / "people.ledger") as opened:
        yield opened


def value(view: SetDistance, rows: CodedRows) -> int:
    return int(view.extract(rows)[0])


# ── the theorem ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_unit_moves_the_distance_within_its_bound(relation: str, units: bool) -> None:
    """On neighbours, exactly, at every number of rows that the candidate may stand for; some neighbours attain it."""
    policies = [policy_of(each, units=units, relation=relation) for each in worlds(relation, units)]
    with closing(DuckDB(policies[0])) as engine:
        draws = {
            worst: [
                proposed_to(engine, each, worst=worst, total=1)._strategy_at(Price(2)) for each in (CANDIDATE, ONE_CELL)
            ]
            for worst in (False, True)
        }
        (reading,) = {each.view.reading for both in draws.values() for each in both}
        read = [refill(engine, each).read(reading, 3) for each in policies]
    for both in draws.values():
        assert max(_furthest(each, read, relation) for each in both) == 1


def _furthest(draw: ScoreRelease, read: list[CodedRows], relation: str) -> Fraction:
    """Return how far neighbours move the distance, of what it is charged for; no further than that."""
    furthest = Fraction(0)
    for total in (1, 5, 9, 10, 100, 10_000):
        view = replace(draw.view, total=total * draw.unit_value.denominator)
        most = view.sensitivity.total
        for one, other in pairs(relation, [value(view, rows) for rows in read]):
            moved = abs(one - other)
            assert moved <= most
            furthest = max(furthest, Fraction(moved, most))
    return furthest


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_half_of_the_mean_moves_by_half_of_what_a_unit_has(relation: str, units: bool) -> None:
    draw, _ = exact(worlds(relation, units)[0], units=units, relation=relation)
    step = draw.unit_value / (2 * draw.view.grid * len(draw.view.sets))
    most = 3 if units else 1
    assert draw.view.sensitivity.total * step == (Fraction(most, 2) if relation == "add-remove" else most)
    assert draw.view.sensitivity.neighbours.value == relation


def test_a_candidate_scaled_by_the_exact_number_of_rows_breaks_the_bound() -> None:
    """The twin whose c is from the exact n moves nearly twice as far as is charged: it is caught on two tables."""
    rows = [(who, "m", 8, True) for who in range(30)] + [(who, "f", 1, False) for who in range(30, 40)]
    more = [*rows, (99, "f", 1, False)]
    elsewhere = pa.table({"sex": ["m"], "age": [8], "smokes": [True]})
    found = [exact(each, elsewhere, total=1) for each in (rows, more)]
    own = [replace(found[0][0].view, total=40), replace(found[0][0].view, total=41)]
    moved = abs(value(own[0], found[0][1]) - value(own[1], found[1][1]))
    assert moved == 2 * own[0].sensitivity.total
    fixed = abs(value(own[0], found[0][1]) - value(own[0], found[1][1]))
    assert fixed <= own[0].sensitivity.total


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_exact_law_of_both_numbers_loses_no_more_than_the_price(relation: str) -> None:
    """Both densities by their formulas, at all outputs near the truth; with half of the sensitivity the loss is more.

    P(n̂, d) = L(n̂ − n)·L(d − f(n̂)) with L(x) ∝ e^{−|x|/b}: the loss is the sum of two differences of distances.
    """
    price, candidate = Price("0.5"), ONE_CELL
    policies = [policy_of(each, relation=relation) for each in worlds(relation, units=False)]
    with closing(DuckDB(policies[0])) as engine:
        draw = proposed_to(engine, candidate)._strategy_at(price)
        found = [refill(engine, each).read(draw.view.reading, 3) for each in policies]
    assert (draw.rows_noise is None) is (relation == "replace")  # replace makes the number of rows public
    assert _largest_loss(draw, relation, found) <= Fraction(1, 2)
    halved = replace(draw, noise=Laplace(draw.noise.scale / 2))
    assert _largest_loss(halved, relation, found) > Fraction(1, 2)


def _largest_loss(draw: ScoreRelease, relation: str, found: list[CodedRows]) -> Fraction:
    worst = Fraction(0)
    for one, other in pairs(relation, found):
        for total in range(-3, 20) if draw.rows_noise is not None else [draw.view.total]:
            view = replace(draw.view, total=max(1, total))
            first, second = value(view, one), value(view, other)
            loss = Fraction(0)
            if draw.rows_noise is not None:
                counts = [int(CellCounts(view.reading, ()).extract(each)[0]) for each in (one, other)]
                loss += Fraction(abs(total - counts[1]) - abs(total - counts[0])) / draw.rows_noise.scale
            ends = [loss + Fraction(abs(at - second) - abs(at - first)) / draw.noise.scale for at in (first, second)]
            worst = max(worst, *map(abs, ends))
    return worst


@pytest.mark.parametrize("price", [{"epsilon": "0.3"}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "0.05"}])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_charge_is_the_price_and_no_more(tmp_path: Path, relation: str, price: dict[str, Any]) -> None:
    with curator(tmp_path, people(1, 30), relation=relation) as opened:
        ask = opened.score(CANDIDATE, k=2)
        batch = ask._strategy_at(Price(**price)).batch
        assert Price(**price).is_satisfied_by(batch.curve)
        ask.release(**price)
        if list(price) == ["epsilon"]:
            parts = [each.sensitivity.total / each.mechanism.scale for each in batch.measurements]
            assert sum(parts) == Fraction(3, 10)
            assert opened.ledger.account(opened.name).spent["pure"] == Fraction(3, 10)


def test_the_distance_is_taken_at_the_number_of_rows_that_was_drawn() -> None:
    """Without noise on the distance it shows which number of rows it was measured at: never the exact one."""
    draw, rows = exact(people(2, 50))
    draw = replace(draw, noise=NARROW, rows_noise=Laplace(20))
    drawn = [draw.draw(lambda _: rows) for _ in range(40)]
    for each in drawn:
        assert each.distance == value(replace(draw.view, total=max(1, each.total)), rows)
    assert len({each.total for each in drawn}) > 5


@pytest.mark.parametrize("where", [None, "age > 3"])
def test_a_condition_makes_the_number_of_rows_private(where: str | None) -> None:
    """Who replaces a row may replace one that counts by one that does not."""
    draw, _ = exact(people(2, 50), relation="replace", where=where)
    assert (draw.rows_noise is None) == (where is None)


def test_the_distance_has_noise() -> None:
    draw, rows = exact(people(2, 50), total=50)
    found = {draw.draw(lambda _: rows).distance for _ in range(40)}
    assert len(found) > 30


# ── the numbers ────────────────────────────────────────────────────────────────────────────────


def nist(private: np.ndarray, candidate: np.ndarray, k: int) -> float:
    """NIST's k-marginal score over all sets: (2 − mean L1 distance of shares)·500, as SDNist 2 writes it."""
    found = []
    for places in itertools.combinations(range(private.shape[1]), k):
        shares = []
        for table in (private, candidate):
            cells, counts = np.unique(table[:, places], axis=0, return_counts=True)
            shares.append({tuple(cell): count / len(table) for cell, count in zip(cells, counts, strict=True)})
        found.append(sum(abs(shares[0].get(cell, 0) - shares[1].get(cell, 0)) for cell in shares[0] | shares[1]))
    return (2 - float(np.mean(found))) * 500


def codes(rows: list[Row]) -> np.ndarray:
    return np.array(
        [("fm".index(sex), 0 if age < 3 else 1 if age < 5 else 2, int(smokes)) for _, sex, age, smokes in rows]
    )


def table_of(rows: list[Row]) -> pa.Table:
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(("sex", "age", "smokes"), 1)})


@pytest.mark.parametrize("k", [1, 2, 3])
def test_without_noise_it_is_nists_score(k: int) -> None:
    private, other = people(3, 200), people(4, 70)
    draw, rows = exact(private, table_of(other), total=200, k=k)
    found = replace(draw, noise=NARROW).draw(lambda _: rows)
    assert found.score == pytest.approx(nist(codes(private), codes(other), k), abs=1e-3)
    low, high = found.interval()
    assert low <= nist(codes(private), codes(other), k) <= high
    worst = exact(private, table_of(other), total=200, k=k, worst=True)[0]
    assert replace(worst, noise=NARROW).draw(lambda _: rows).score <= found.score


def test_the_vector_that_was_computed_by_hand() -> None:
    """One column: shares 3/4, 1/4 against 1/2, 1/2 differ by 1/4 in total variation, so the score is 750."""
    private = [(0, "f", 1, False), (1, "f", 1, False), (2, "f", 1, False), (3, "m", 1, False)]
    candidate = pa.table({"sex": ["f", "m"]})
    draw, rows = exact(private, candidate, total=4, k=1, columns=["sex"])
    assert replace(draw, noise=NARROW).draw(lambda _: rows).score == 750


@pytest.mark.parametrize(
    ("units", "worst"),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.long),
        pytest.param(True, False, marks=pytest.mark.long),
    ],
)
def test_both_ranges_hold(units: bool, worst: bool) -> None:
    """Of 400 draws at 80 % confidence at least 265 hold: fewer happen with probability below 1e-9 if 80 % do."""
    private = [(who % 60, *row[1:]) for who, row in enumerate(people(5, 150))]
    draw, rows = exact(private, table_of(people(6, 90)), Price(1), units=units, worst=worst)
    count = int(CellCounts(draw.view.reading, ()).extract(rows)[0])
    precise = replace(draw, noise=NARROW)
    truth = _at(precise, rows, count).score
    own = theirs = 0
    for _ in range(400):
        found = draw.draw(lambda _: rows)
        low, high = found.interval("0.8")
        own += low <= _at(precise, rows, max(found.total, 1024 if units else 1)).score <= high
        low, high = found.nist_interval("0.8")
        theirs += low <= truth <= high
    assert min(own, theirs) >= 265


@pytest.mark.parametrize("worst", [False, True])
def test_a_number_of_rows_that_is_not_the_exact_one_widens_the_range_of_the_exact_score(worst: bool) -> None:
    """A caller's number, such as that of a synthetic table, is near the truth at best."""
    with closing(DuckDB(policy_of(people(3, 60)))) as engine:
        rows = engine.read(proposed_to(engine, CANDIDATE)._strategy_at(Price(2)).view.reading, 3)
        for assumed in (1, 30, 55, 60, 70, 200):
            draw = replace(
                proposed_to(engine, CANDIDATE, worst=worst, total=assumed)._strategy_at(Price(2)), noise=NARROW
            )
            low, high = draw.draw(lambda _: rows).nist_interval()
            assert low <= _at(draw, rows, 60).score <= high, assumed


def test_a_number_of_rows_that_is_public_by_the_policy_is_the_exact_one() -> None:
    draw, rows = exact(people(3, 100), relation="replace")
    found = replace(draw, noise=NARROW).draw(lambda _: rows)
    assert (found.rows, found.rows_noise, found.assumed) == (100, None, False)
    assert found.nist_interval() == found.interval()


def test_a_distance_needs_rows_and_sets_of_columns() -> None:
    draw, rows = exact(people(1, 9))
    none = CodedRows(rows.sizes, rows.codes, np.zeros_like(rows.totals))
    for changes in ({"sets": ()}, {"candidate": none}, {"candidate": replace(none, sizes=rows.sizes[1:])}):
        with pytest.raises(sf.InvalidParameter) as refusal:
            replace(draw.view, **changes)
        assert refusal.value.parameter == "candidate"


def _at(draw: ScoreRelease, rows: CodedRows, total: int) -> CandidateScore:
    known = replace(draw, rows_noise=None, view=replace(draw.view, total=total))
    return known.draw(lambda _: rows)


def test_fifty_thousand_rows_are_scored_within_three_points_at_a_hundredth() -> None:
    found, engine = proposed(policy_of(people(1, 5)), total=50_000)
    engine.close()
    assert found.error(epsilon="0.01") <= 3
    assert found.price("3.001") <= 0.01
    bought, engine = proposed(policy_of(people(1, 5)))
    engine.close()
    assert bought.error(epsilon="0.01", rows=50_000) == pytest.approx(1.5 * found.error(epsilon="0.01"), rel=1e-3)


def test_numbers_near_the_ends_are_added_up_exactly() -> None:
    draw, rows = exact(people(1, 5), total=1)
    huge = CodedRows(rows.sizes, rows.codes, np.full(rows.totals.shape, 1 << 61, np.int64))
    assert value(draw.view, huge) == 1 << 62
    assert value(replace(draw.view, total=1 << 62), rows) == 1 << 62
    turn = CodedRows(rows.sizes, rows.codes, np.full(rows.totals.shape, (1 << 64) // draw.view.grid, np.int64))
    assert draw.view.grid > 8
    assert value(draw.view, turn) == 1 << 62  # in 64 bits these counts are 0 steps


# ── candidates ─────────────────────────────────────────────────────────────────────────────────


def test_equal_rows_in_another_order_and_other_types_are_the_same_candidate(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smokes": [True, False], "age": [8, 1], "sex": ["m", "f"], "more": [1, 2]})
    texts = pa.table({"sex": ["f", "m"], "age": ["1", "8.0"], "smokes": ["false", "true"]})
    reals = pa.table({"sex": ["f", "m"], "age": [1.0, 8.0], "smokes": [0, 1]})
    csv, parquet = tmp_path / "rows.csv", tmp_path / "rows.parquet"
    frame.to_csv(csv, index=False)
    frame.to_parquet(parquet)
    found = set()
    for each in (frame, texts, reals, csv, str(parquet), frame.iloc[::-1]):
        ask, engine = proposed(policy_of(people(1, 5)), each)
        engine.close()
        found.add(candidate_digest(ask._candidate))
        assert ask.candidate_rows == 2
    assert len(found) == 1


def test_a_score_is_stored_for_its_candidate_alone(tmp_path: Path) -> None:
    with curator(tmp_path, people(1, 40)) as opened:
        first = opened.score(CANDIDATE, k=2).release(epsilon=1)
        again = opened.score(CANDIDATE.take([3, 1, 0, 2]), k=2).release(epsilon=1)
        assert again.receipt.free
        assert again == first
        assert codec.loads(first.to_json()) == first
        assert not opened.score(ONE_CELL, k=2).release(epsilon=1).receipt.free
        assert not opened.score(pa.concat_tables([CANDIDATE, ONE_CELL]), k=2).release(epsilon=1).receipt.free
        assert not opened.score(CANDIDATE, k=2, worst=True).release(epsilon=1).receipt.free
        assert not opened.score(CANDIDATE, k=2, total=40).release(epsilon=1).receipt.free
        assert not opened.score(CANDIDATE, k=2, where="age > 3").release(epsilon=1).receipt.free
        assert not opened.score(CANDIDATE, k=2).release(epsilon=1, fresh=True).receipt.free


def test_the_private_file_is_no_candidate(tmp_path: Path) -> None:
    """Its number of rows and a hash of them would be told for free, under any name that the file has."""
    source = tmp_path / "people.parquet"
    table_of(people(1, 30)).to_pandas().to_parquet(source)
    (tmp_path / "other.parquet").symlink_to(source)
    (tmp_path / "third.data").hardlink_to(source)
    own = sf.Table("people", source, {"sex": {"values": ["f", "m"]}, "smokes": {"type": "boolean"}}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(5), {"people": own})
    with sf.Curator(policy, tmp_path / "people.ledger") as opened:
        for name in (source, tmp_path / "other.parquet", str(tmp_path / "*.parquet"), tmp_path / "third.data"):
            with pytest.raises(sf.InvalidParameter, match="a public table"):
                opened.score(name, k=2)


def test_it_says_what_it_is(tmp_path: Path) -> None:
    with curator(tmp_path, people(1, 40)) as opened:
        ask = opened.score(CANDIDATE, "people", k=2)
        said = str(ask.explain(epsilon="0.5"))
        assert "one unit changes it by at most 0.5 rows" in said
        assert "3 marginals" in repr(ask)
        found = ask.release(epsilon="0.5")
        assert "mean of 3 2-way marginals of 3 columns" in repr(found)
        assert "with the exact number of rows, which stays private" in str(found)
        assert 0 <= found.total_variation <= 1
        assert "exact number" not in str(opened.score(CANDIDATE, k=2, total=40).release(epsilon="0.5"))


def test_neighbours_are_told_the_same_before_anything_is_spent(tmp_path: Path) -> None:
    said = set()
    for place, rows in enumerate(worlds("add-remove", units=True)):
        (tmp_path / str(place)).mkdir()
        with curator(tmp_path / str(place), rows, units=True) as opened:
            ask = opened.score(CANDIDATE, k=2)
            said.add((ask.question, ask.identity, str(ask.explain(epsilon=1)), ask.error(epsilon=1), ask.price(30)))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (CANDIDATE.drop_columns(["age"]), "the source has no column 'age'"),
        (CANDIDATE.slice(0, 0), "a table with at least one row"),
        ("nowhere.csv", "an existing file"),
        (__file__, "files with this extension cannot be read"),
        (17, "a table needs a source"),
    ],
)
def test_a_candidate_that_cannot_be_read_is_refused_for_free(tmp_path: Path, candidate: Any, words: str) -> None:
    with curator(tmp_path, people(1, 10)) as opened:
        with pytest.raises(sf.SfumatoError, match=words) as refused:
            opened.score(candidate, k=2)
        assert "candidate" in refused.value.place
        assert [each.kind for each in opened.history()].count("charge") == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"k": 4}, "a whole number from 1 to 3"),
        ({"k": 0}, '"k" must be'),
        ({"worst": 1}, '"worst" must be True or False'),
        ({"columns": ["sex", "nobody"]}, "no declared column of people is called nobody"),
        ({"table": "others"}, "others"),
        ({"total": 0}, "total must be"),
        ({"where": "salary > 3"}, "salary"),
    ],
)
def test_what_cannot_be_scored_is_refused_for_free(tmp_path: Path, asked: dict[str, Any], words: str) -> None:
    with curator(tmp_path, people(1, 10)) as opened, pytest.raises(sf.SfumatoError, match=words):
        opened.score(CANDIDATE, **{"k": 2, **asked})


def test_a_price_whose_noise_cannot_be_drawn_is_refused_for_free(tmp_path: Path) -> None:
    with curator(tmp_path, people(1, 10)) as opened:
        with pytest.raises(sf.SfumatoError, match="noise"):
            opened.score(CANDIDATE, k=2).release(epsilon="1e-13")
        assert [each.kind for each in opened.history()].count("charge") == 0


def test_too_many_marginals_are_refused_before_they_are_counted(tmp_path: Path) -> None:
    names = [f"c{place}" for place in range(60)]
    rows = pa.table({name: [True, False] for name in names})
    own = sf.Table("wide", rows, {name: {"type": "boolean"} for name in names}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(5), {"wide": own})
    with sf.Curator(policy, tmp_path / "wide.ledger") as opened:
        with pytest.raises(sf.Unsupported, match="at most 20,000 marginals"):
            opened.score(rows, k=3)
        assert len(opened.score(rows, k=2).sets) == math.comb(60, 2)


@pytest.mark.parametrize("rows", [[], [(1, None, None, None)] * 5], ids=["empty", "all missing"])
def test_private_tables_of_any_content_are_scored(tmp_path: Path, rows: list[Row]) -> None:
    with curator(tmp_path, rows, units=True) as opened:
        found = opened.score(CANDIDATE, k=3).release(epsilon=1)
        assert 0 <= found.score <= 1000
