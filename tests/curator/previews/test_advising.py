"""Advice: which limit or bound makes the error, by the forecasts of the tighter questions themselves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest

import sfumato as sf
from sfumato.curator.previews.advising import Advice, Tip, round_number_limits

COLUMNS = {
    "ward": {"values": ["A", "B", "C"]},
    "cost": {"type": "integer", "bounds": (0, 1000)},
    "debt": {"type": "integer", "bounds": (-800, 100)},
    "year": {"type": "integer", "bounds": (1990, 2020)},
}


def curator(folder: Path, rows: int = 0, *, neighbours: str = "add-remove", **limits: int) -> sf.Curator:
    held = {
        "who": list(range(rows)),
        "ward": ["A"] * rows,
        "cost": [7] * rows,
        "debt": [0] * rows,
        "year": [2000] * rows,
    }
    types = [("who", pyarrow.int64()), ("ward", pyarrow.string())]
    schema = pyarrow.schema([*types, *((name, pyarrow.int64()) for name in ("cost", "debt", "year"))])
    table = sf.Table("visits", pyarrow.table(held, schema=schema), COLUMNS, id="who", **(limits or {"max_rows": 20}))
    budget = sf.Budget(100, "1e-6", neighbours=sf.Neighbours(neighbours))
    policy = sf.Policy(sf.PrivacyUnit("patient"), budget, {"visits": table}, size=100)
    return sf.Curator(policy, folder / f"{rows}.ledger")


@pytest.fixture
def visits(tmp_path: Path) -> Iterator[sf.Curator]:
    with curator(tmp_path) as made:
        yield made


COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("question", "change"),
    [
        (COUNT, {"rows": 5}),
        ("SELECT SUM(cost) AS total FROM visits", {"rows": 5}),
        ("SELECT AVG(cost) AS mean FROM visits", {"rows": 5}),
        ("SELECT ward, COUNT(*) AS n, SUM(cost) AS total FROM visits GROUP BY ward", {"rows": 5}),
    ],
)
def test_what_is_advised_is_what_the_tighter_question_is_told(
    tmp_path: Path, neighbours: str, question: str, change: dict[str, int]
) -> None:
    with curator(tmp_path, neighbours=neighbours) as made:
        ask = made.sql(question)
        tip = ask.advise(epsilon="0.5").tips[0]
        assert tip.change == ".limit(rows=5)"
        for limited, width in ((ask, tip.now), (ask.limit(**change), tip.then)):  # type: ignore[union-attr]
            assert width.split(" in a group of")[0] in str(limited.error(epsilon="0.5"))


def test_a_limit_of_twenty_makes_95_per_cent(visits: sf.Curator) -> None:
    said = str(visits.sql("SELECT SUM(cost) AS total FROM visits").advise(epsilon=1).tips[0])
    assert (
        said
        == "max_rows 20 causes 95 % of this error; .limit(rows=5) gives ±14,980 instead of ±59,920: 4 times less error"
    )


def test_the_line_stands_in_the_explanation_as_text_html_and_json(visits: sf.Curator) -> None:
    ask = visits.sql(COUNT)
    told = ask.explain(epsilon=1)
    assert told.advice == str(ask.advise(epsilon=1).tips[0])
    assert f"\nadvice   {told.advice}\n" in str(told)
    assert told.advice in told._repr_html_()
    assert sf.curator.Explanation.from_json(told.to_json()) == told


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        ("SUM(cost)", "SUM(LEAST(cost, 500))"),
        ("SUM(debt)", "SUM(GREATEST(debt, -400))"),
        ("AVG(cost)", "AVG(LEAST(cost, 500))"),
    ],
)
def test_a_bound_that_is_advised_can_be_written_so(visits: sf.Curator, asked: str, change: str) -> None:
    ask = visits.sql(f"SELECT {asked} AS x FROM visits")
    tip = next(each for each in ask.advise(epsilon=1).tips if each.change == change)
    written = visits.sql(f"SELECT {change} AS x FROM visits").error(epsilon=1)
    assert tip.then in str(written)


@pytest.mark.parametrize(
    ("asked", "cause", "change"),
    [
        ("SUM(cost) AS x FROM visits WHERE cost < 300", "the upper bound 299 of cost", "SUM(LEAST(cost, 140))"),
        ("AVG(cost) AS x FROM visits WHERE cost >= 600", "the upper bound 1,000 of cost", "AVG(LEAST(cost, 800))"),
        ("SUM(debt) AS x FROM visits WHERE debt > -50", "the upper bound 100 of debt", "SUM(LEAST(debt, 50))"),
        (
            "SUM(cost) FILTER (WHERE cost <= 100) AS x FROM visits",
            "the upper bound 100 of cost",
            "SUM(LEAST(cost, 50)) FILTER (WHERE cost <= 100)",
        ),
    ],
)
def test_an_advised_bound_narrows_what_the_conditions_leave(
    visits: sf.Curator, asked: str, cause: str, change: str
) -> None:
    tip = next(each for each in visits.sql(f"SELECT {asked}").advise(epsilon=1).tips if "bound" in each.cause)
    assert tip.cause.startswith(cause)
    assert change.startswith(tip.change)
    written = asked.replace(asked.split(" AS ")[0], change)
    assert tip.then in str(visits.sql(f"SELECT {written}").error(epsilon=1))


def test_a_bound_is_not_moved_out_of_the_range(visits: sf.Curator) -> None:
    """Half of 2020 is no year: a sum of years has no bound to narrow."""
    tips = visits.sql("SELECT SUM(year) AS x FROM visits").advise().tips
    assert [each.change for each in tips] == [".limit(rows=5)"]


def test_a_value_that_has_no_name_to_write_gets_no_bound(visits: sf.Curator) -> None:
    per_unit = "SELECT AVG(n) AS x FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who)"
    for text in (per_unit, "SELECT SUM(LEAST(cost, 9)) AS x FROM visits", "SELECT SUM(cost * 2) AS x FROM visits"):
        assert not [each for each in visits.sql(text).advise().tips if "bound" in each.cause]


def test_groups_are_advised_where_they_decide(tmp_path: Path) -> None:
    with curator(tmp_path, max_rows=100, max_groups=8) as made:
        tips = made.sql("SELECT ward, COUNT(DISTINCT who) AS n FROM visits GROUP BY ward").advise().tips
    assert [str(each).split(" gives")[0] for each in tips] == [
        "3 groups share the rows; leaving out ward",
        "max_groups 8 causes 63 % of this error; .limit(groups=2)",
    ]


def tip_for(made: sf.Curator, text: str, change: str) -> Tip:
    return next(each for each in made.sql(text).advise(epsilon=1).tips if each.change == change)  # type: ignore[union-attr]


def test_fewer_groups_hold_larger_numbers_beside_the_same_noise(visits: sf.Curator) -> None:
    tip = tip_for(visits, COUNT, "leaving out ward")
    coarse = visits.sql("SELECT COUNT(*) AS n FROM visits").error(epsilon=1)
    assert tip.then == f"the same ±{round(coarse['n'] + 0.5)}, on groups 3 times larger"  # type: ignore[operator]
    assert str(tip).endswith(f"leaving out ward gives {tip.then}")
    fine = visits.sql(COUNT).error(epsilon=1)
    assert tip.factor == pytest.approx(3 * fine["n"] / coarse["n"], rel=0.05)  # type: ignore[operator]
    assert tip.gain.endswith("times less error relative to the number")


def test_larger_groups_help_a_mean_only_as_far_as_they_are_forecast(visits: sf.Curator) -> None:
    """Three wards together are not ten times as large as one: the next size that is forecast."""
    text = "SELECT ward, AVG(cost) AS x FROM visits GROUP BY ward"
    assert "leaving out ward" not in [each.change for each in visits.sql(text).advise(epsilon=5).tips]
    wide = "SELECT ward, year, AVG(cost) AS x FROM visits GROUP BY ward, year"
    tip = tip_for(visits, wide, "leaving out year")
    per_ward = visits.sql(text).error(epsilon=1)["x"]
    assert tip.then.startswith(f"±{per_ward[10_000]:.4g}, on groups 31 times larger")  # type: ignore[index]


def test_people_instead_of_rows_are_advised_with_their_factor(visits: sf.Curator) -> None:
    tip = tip_for(visits, "SELECT COUNT(*) AS n FROM visits", "COUNT(DISTINCT who)")
    people = visits.sql("SELECT COUNT(DISTINCT who) AS n FROM visits").error(epsilon=1)
    assert tip.then in str(people)
    assert tip.factor == pytest.approx(20, rel=0.2)


def test_columns_that_share_the_price_are_advised_alone_or_as_a_synopsis(visits: sf.Curator) -> None:
    both = "SELECT SUM(cost) AS c, SUM(debt) AS d FROM visits"
    alone = visits.sql("SELECT SUM(cost) AS c FROM visits").error(epsilon=1)
    assert tip_for(visits, both, "asking for c alone").then in str(alone)
    pivot = ", ".join(f"COUNT(*) FILTER (WHERE ward = '{ward}') AS n{ward}" for ward in "ABC")
    tip = tip_for(visits, f"SELECT COUNT(*) AS n, {pivot} FROM visits", 'curator.histogram("visits", ["ward"])')
    assert tip.then in str(visits.sql(COUNT).error(epsilon=1))


@pytest.mark.parametrize(
    ("text", "epsilon", "is_swamped"),
    [
        ("SELECT ward, STDDEV(cost) AS s FROM visits GROUP BY ward", "0.1", True),
        ("SELECT REGR_SLOPE(cost, year) AS slope FROM visits", "0.1", True),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "0.1", True),  # 100 patients in three wards
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "60", False),
        ("SELECT AVG(cost) AS x FROM visits", "60", False),
    ],
)
def test_a_forecast_that_noise_swamps_says_what_helps_most(
    visits: sf.Curator, text: str, epsilon: str, is_swamped: bool
) -> None:
    forecast = visits.sql(text).error(epsilon=epsilon)
    assert bool(forecast.advice) is is_swamped
    if is_swamped:
        assert "would be mostly noise: " in forecast.advice
        assert forecast.advice in str(forecast)
        assert forecast.advice in forecast._repr_html_() or "&" in forecast._repr_html_()
        factors = [each.factor for each in visits.sql(text).advise(epsilon=epsilon).tips]
        best = next(each for each in visits.sql(text).advise(epsilon=epsilon).tips if str(each) in forecast.advice)
        assert best.factor == max(factors)


def test_advice_beside_a_repeated_release_is_that_of_its_own_terms(tmp_path: Path) -> None:
    """The last advice of a question is kept: an answer at another price or confidence has another."""
    with curator(tmp_path) as made:
        ask, seen = made.sql(COUNT), set()
        for terms in ({"epsilon": "0.01"}, {"epsilon": "0.02"}, {"epsilon": "0.02", "confidence": "0.99"}):
            for _ in range(2):
                repeated = ask.release(**terms, fresh=True).advice.partition("; ")[2]  # type: ignore[arg-type, union-attr]
                assert repeated == str(max(ask.advise(**terms).tips, key=lambda tip: tip.factor))  # type: ignore[arg-type, union-attr]
            seen.add(repeated)
        assert len(seen) == 3


def test_an_answer_that_is_mostly_noise_says_so_from_released_numbers_alone(tmp_path: Path) -> None:
    with curator(tmp_path, 30) as made:
        noisy = made.sql(COUNT).release(epsilon="0.01")  # type: ignore[union-attr]
        counted = sum(flag for flag in noisy.noisy_numbers().values())
        assert counted >= 2
        assert noisy.advice.startswith(f"n: ± exceeds half of the number in {counted} of 3; ")
        assert noisy.advice in noisy.ranked()
        assert sf.Answer.from_json(noisy.to_json()).advice == noisy.advice
        clear = made.sql("SELECT COUNT(DISTINCT who) AS n FROM visits").release(epsilon=5)  # type: ignore[union-attr]
        assert clear.advice == ""
        again = replace(
            noisy, rows=tuple((ward, 10**6) for ward, _ in noisy.rows), intervals={"n": ((1e6, 1e6 + 1),) * 3}
        )
        assert again.noisy_numbers() == {"n": 0}
        unknown = replace(again, rows=tuple((ward, None) for ward, _ in noisy.rows), intervals={"n": (None,) * 3})
        assert unknown.noisy_numbers() == {"n": 3}


def test_advice_beside_an_answer_is_looked_for_when_it_is_read(tmp_path: Path) -> None:
    """Whoever reads numbers alone does not wait for it; it stays with what is made of the answer, and is written before
    the question is forgotten.
    """
    with curator(tmp_path, 30) as made:
        noisy = made.sql(COUNT).release(epsilon="0.01")  # type: ignore[union-attr]
        flagged, kept = noisy.flagged(), noisy.nonnegative()
        assert not any("advice" in vars(each) for each in (noisy, flagged, kept))
        kept.forget_question()
        assert vars(kept)["advice"].startswith("n: ± exceeds half of the number in ")
        assert noisy.changed(advice="").advice == ""
        with ThreadPoolExecutor(4) as threads:
            assert set(threads.map(lambda _: noisy.advice, range(8))) == {kept.advice}
    assert flagged.advice == kept.advice  # the curator is closed: a forecast needs no rows
    assert sf.Answer.from_json(flagged.to_json()) == flagged


def test_a_bought_share_that_is_large_leads_to_private_bounds_and_limits(tmp_path: Path) -> None:
    """Nothing is advised before the counts are bought; afterwards it costs nothing to say."""
    rows = {"who": [*range(400)] * 3, "cost": [5000] * 1200}
    schema = {"cost": {"type": "integer", "bounds": (0, 1000)}}
    table = sf.Table("visits", pyarrow.table(rows), schema, id="who", max_rows=2)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(3), {"visits": table})
    with sf.Curator(policy, tmp_path / "bought.ledger") as made:
        ask = made.sql("SELECT AVG(cost) AS x FROM visits")
        assert not [each for each in ask.advise(epsilon=1).tips if each.change.startswith("curator.")]
        ask.clipped().release(epsilon=2)  # type: ignore[union-attr]
        spent = made.budget.spent["pure"]
        changes = [each.change for each in ask.advise(epsilon=1).tips]
        assert changes[:2] == ['curator.limits("visits")', 'curator.bounds("visits", "cost")']
        assert made.budget.spent["pure"] == spent


def test_limits_of_a_question_are_called_by_their_own_name(visits: sf.Curator) -> None:
    tips = visits.sql(COUNT).limit(rows=8).advise().tips
    assert str(tips[0]).startswith(".limit(rows=8) causes 8")


def test_errors_in_rows_are_told_in_rows(visits: sf.Curator) -> None:
    tip = visits.sql("SELECT MEDIAN(cost) AS middle FROM visits").advise().tips[0]
    assert tip.now.endswith(" rows")
    assert "±" not in str(tip)


def test_nothing_is_advised_where_nothing_helps(tmp_path: Path) -> None:
    with curator(tmp_path, max_rows=1) as made:
        for text in ("SELECT COUNT(*) AS n FROM visits", "SELECT DISTINCT ward FROM visits", "SHOW TABLES"):
            advice = made.sql(text).advise()
            assert advice.tips == ()
            assert "fewer columns would help" in str(advice)
        assert made.sql("SELECT COUNT(*) AS n FROM visits").explain().advice == ""


def test_advice_is_free_and_knows_no_data(tmp_path: Path) -> None:
    said = set()
    for rows in (0, 50):
        with curator(tmp_path, rows) as made:
            said.add(str(made.sql(COUNT).advise(epsilon=1, delta="1e-9")))
            assert made.budget.remaining["pure"] == 100
    assert len(said) == 1


@pytest.mark.parametrize("price", [{}, {"rho": "0.1"}, {"within": 50}, {"epsilon": 1, "mechanism": "laplace"}])
def test_every_price_is_understood(visits: sf.Curator, price: dict[str, object]) -> None:
    assert visits.sql(COUNT).advise(**price).tips  # type: ignore[arg-type]


def test_advice_is_read_back(visits: sf.Curator) -> None:
    advice = visits.sql(COUNT).advise()
    assert Advice.from_json(advice.to_json()) == advice
    assert "max_rows 20" in advice._repr_html_()
    with pytest.raises(sf.InvalidParameter):
        Advice("q", "ε = 1", ("a tip",))  # type: ignore[arg-type]


def test_the_ladder() -> None:
    assert [round_number_limits(most) for most in (1, 4, 100)] == [(1,), (1, 2), (1, 2, 5, 10, 20, 50, 100)]
