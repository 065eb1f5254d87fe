"""What a review of the whole path once found: each a way to learn, or to be told, something false."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import sfumato as sf
from covering_cases import covering
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.release.measured import accuracy_for_reuse
from sfumato.release.requests import PriceRequest

PEOPLE = {
    "name": sf.Domain("text"),
    "x": sf.Domain("real", bounds=(0, 1)),
    "p": sf.Domain("integer", bounds=(0, 10**9)),
}


def curator(folder: Path, rows: list[dict[str, object]], *, neighbours: str = "add-remove") -> sf.Curator:
    schema = pyarrow.schema([("name", pyarrow.string()), ("x", pyarrow.float64()), ("p", pyarrow.int64())])
    table = sf.Table("people", pyarrow.Table.from_pylist(rows, schema=schema), PEOPLE, id="row")
    budget = sf.Budget(100, "1e-3", neighbours=neighbours)
    policy = sf.Policy(
        sf.PrivacyUnit("person", every_row=True), budget, {"people": table}, size=10, allow_large_delta=True
    )
    return sf.Curator(policy, folder / f"{len(list(folder.iterdir()))}.ledger")


BOB = {"name": "Bob", "x": 0.5, "p": 5}


OFFSETS = (
    "x + 1e13",
    "x - 1e299",
    "SQRT(x) - 1e13",
    "-x - 1e14",
    "x * 0 + 1e25",
    "p + 4611686017427387000",
    "x / 1e30 + 1e20",
)


@covering({"value": OFFSETS, "aggregate": ["AVG", "SUM"]})
def test_no_offset_makes_a_question_fail_where_somebody_is(tmp_path: Path, value: str, aggregate: str) -> None:
    """A mean is counted from the low end of its range: an offset as large as the analyst likes overflows nothing."""
    outcomes = []
    for rows in ([BOB], []):
        with curator(tmp_path, rows) as made:
            try:
                question = made.sql(f"SELECT {aggregate}({value}) AS m FROM people WHERE name = 'Bob'")
                question.release(epsilon=1)
                outcomes.append("answered")
                for bounded in question.bounding_options:
                    (found,) = made._context.engine.read(GroupTotals(bounded, question.groups), 1).tolist()
                    (measure,) = bounded.measures
                    assert sum(map(abs, found)) <= measure.sensitivity.l1
            except (sf.Unsupported, sf.InvalidParameter) as refusal:
                outcomes.append(str(refusal))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] == "answered" or "Unanswered" not in outcomes[0]


def test_a_receipt_says_nothing_about_the_rows(tmp_path: Path) -> None:
    """A hash of the data would tell which of two tables it was, at any price."""
    receipts = []
    for x in (0.0, 1.0):
        with curator(tmp_path, [{**BOB, "x": x}]) as made:
            receipts.append(made.sql("SELECT COUNT(*) FROM people").release(epsilon="0.01").receipt)
    first, second = ({**receipt.__dict__, "hash": "", "time": ""} for receipt in receipts)
    assert first == second


def test_a_stored_answer_is_labelled_as_it_was_bought(tmp_path: Path) -> None:
    with curator(tmp_path, [BOB]) as made:
        ask = made.sql("SELECT COUNT(*) AS n FROM people")
        bought = ask.release(epsilon=2, delta="1e-6", mechanism=sf.Gaussian)
        found = ask.release(epsilon="0.1")
        assert found.receipt.free
        assert found.receipt.guarantee == bought.receipt.guarantee
        assert found.receipt.mechanisms == bought.receipt.mechanisms
        assert found.receipt.hash == bought.receipt.hash


def test_what_is_forecast_is_what_is_released(tmp_path: Path) -> None:
    with curator(tmp_path, [BOB] * 500) as made:
        ask = made.sql("SELECT COUNT(*) AS n, SUM(p) AS s FROM people HAVING COUNT(*) > -1000")
        forecast, answer = ask.error(epsilon=1), ask.release(epsilon=1)
        for name in ("n", "s"):
            low, high = answer.intervals[name][0] or (0, 0)
            assert (high - low) / 2 == pytest.approx(forecast[name], rel=1e-6)
        one = made.sql("SELECT COUNT(*) AS n FROM people")
        wide = one.release(within={"n": 20}, delta="1e-6", mechanism=sf.Gaussian)
        low, high = wide.intervals["n"][0] or (0, 0)
        assert 15 < (high - low) / 2 <= 20


def test_replacing_one_person_moves_one_count_by_one(tmp_path: Path) -> None:
    with curator(tmp_path, [BOB], neighbours="replace") as made:
        (only,) = made.sql("SELECT COUNT(*) FROM people WHERE x > 0.5").bounding_options
        assert only.measures[0].sensitivity.l1 == 1


def test_a_price_in_rho_does_not_close_the_pure_currency_unasked(tmp_path: Path) -> None:
    with curator(tmp_path, [BOB]) as made:
        made.sql("SELECT COUNT(*) FROM people").release(rho="0.02")
        assert "pure" in made.budget.remaining


def test_two_names_for_one_real_are_refused() -> None:
    with pytest.raises(sf.InvalidParameter, match="without repeated values"):
        sf.Domain("real", values=("0.33333333333333331", "1/3"))


@pytest.mark.parametrize("clause", ["LIMIT 50 PERCENT", "LIMIT 10%"])
def test_a_limit_in_percent_is_refused(tmp_path: Path, clause: str) -> None:
    with curator(tmp_path, [BOB]) as made, pytest.raises(sf.Unsupported, match="LIMIT"):
        made.sql(f"SELECT x > 0.5 AS big, COUNT(*) AS n FROM people GROUP BY 1 {clause}")


def test_a_number_without_a_range_is_not_shown_as_exact(tmp_path: Path) -> None:
    with curator(tmp_path, [BOB]) as made:
        answer = made.sql("SELECT COUNT(*) % 7 AS m FROM people").release(epsilon="0.1")
        assert answer.cells()[0][0].endswith("± ∞")


def test_a_mean_lies_in_its_own_range(tmp_path: Path) -> None:
    with curator(tmp_path, [{**BOB, "x": 1.0}] * 30) as made:
        for _ in range(20):
            answer = made.sql("SELECT AVG(x) AS a FROM people").release(epsilon="0.2", fresh=True)
            low, high = answer.intervals["a"][0] or (0, 1)
            assert answer.rows[0][0] is None or 0 <= low <= answer.rows[0][0] <= high <= 1


def test_a_time_limit_that_is_over_at_once_is_refused_for_free(tmp_path: Path) -> None:
    rows = pyarrow.table({"x": [0.5] * 1000})
    table = sf.Table("people", rows, {"x": PEOPLE["x"]}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(10), {"people": table})
    with sf.Curator(policy, tmp_path / "a.ledger", seconds="1e-9") as made:
        with pytest.raises(sf.Unsupported, match="takes too long to plan"):
            made.sql("SELECT COUNT(*) FROM people").release(epsilon=1)
        assert made.budget.remaining["pure"] == 10
    with sf.Curator(policy, tmp_path / "a.ledger", seconds="1e12") as made:
        made.sql("SELECT COUNT(*) FROM people").release(epsilon=1)


def test_prices_of_means_and_of_what_has_no_finite_error(tmp_path: Path) -> None:
    with curator(tmp_path, [BOB] * 10) as made:
        mean = made.sql("SELECT AVG(x) AS a FROM people")
        assert mean.error(within={"a": "0.2"})["a"] <= 0.2  # type: ignore[operator]
        with pytest.raises(sf.InvalidParameter, match="error has no bound"):
            made.sql("SELECT COUNT(*) % 7 AS m FROM people").price({"m": 1})
        for wrong in ("Gaussian", sf.Laplace(2), sf.RandomizedResponse):
            with pytest.raises(sf.InvalidParameter, match="mechanism"):
                mean.release(epsilon=1, mechanism=wrong)  # type: ignore[arg-type]


def test_names_that_shadow_and_names_that_do_not_exist(tmp_path: Path) -> None:
    with curator(tmp_path, [BOB]) as made:
        made.sql("SELECT x > 0.5 AS big, SUM(p) AS p FROM people GROUP BY 1 HAVING SUM(p) > 10 ORDER BY SUM(p)")
        with pytest.raises(sf.Unsupported) as refusal:
            made.sql("SELECT COUNT(*) AS n FROM people AS v WHERE people.x > 0.5")
        assert refusal.value.code == "unknown-alias"
        with pytest.raises(sf.Unsupported) as refusal:
            made.sql("SELECT CAST(COUNT(*) AS VARCHAR) AS n FROM people")
        assert refusal.value.code == "finish-cast"


def test_the_largest_answers_are_found_again(tmp_path: Path) -> None:
    """A hundred thousand groups: more text than a value from outside may have."""
    columns = {"a": sf.Domain("integer", bounds=(0, 99_999)), "b": sf.Domain("integer", bounds=(0, 2**62))}
    rows = pyarrow.table({"a": [1, 2], "b": [3, 4], "who": [1, 2]})
    table = sf.Table("people", rows, columns, id="who", max_rows=3)
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(10), {"people": table})
    with sf.Curator(policy, tmp_path / "a.ledger") as made:
        ask = made.sql("SELECT a, AVG(b) AS m, AVG(b + 1) AS o FROM people GROUP BY a")
        bought, found = ask.release(epsilon=1), ask.release(epsilon=1)
        assert found.receipt.free
        assert found.rows == bought.rows
    assert max(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) > 1 << 22


def test_a_range_that_was_bought_to_hold_less_often_is_not_as_good(tmp_path: Path) -> None:
    """It would be found again, and shown as all that there can be: nobody could buy a better one."""
    rows: list[dict[str, object]] = [{"name": "Bob", "x": index / 5000, "p": 5} for index in range(5000)]
    with curator(tmp_path, rows) as opened:
        asked = opened.sql("SELECT MEDIAN(x) AS m, MIN(x) AS least FROM people")

        def bought(confidence: str, **other: object) -> tuple[float, bool]:
            before = len(list(opened.ledger))
            found = asked.release(epsilon=2, confidence=confidence, **other)  # type: ignore[union-attr, arg-type]
            ((low, high),) = found.intervals["m"]
            return high - low, len(list(opened.ledger)) > before

        assert bought("0.9", range="value")[1]
        width, paid = bought("0.999", range="value")
        assert paid
        assert width < 0.5
        assert not bought("0.99", range="value")[1]


def test_a_choice_is_compared_with_the_same_choice(tmp_path: Path) -> None:
    """With ranges there are more choices: a strong end of a range does not make a weak least value good enough."""
    with curator(tmp_path, [BOB]) as opened:
        asked = opened.sql("SELECT MEDIAN(x) AS m, MIN(x) AS least FROM people")

        def names(**request: object) -> set[str]:
            prepared = asked.price_release(PriceRequest(epsilon=1, **request))  # type: ignore[union-attr, arg-type]
            return set(accuracy_for_reuse(prepared))

        assert names() == {"quantiles 0", "least 0"}
        assert names(range="value") == {"quantiles 0", "below 0", "above 0", "least 0", "missed 0"}


def test_ranks_beside_ties_are_not_promised_without_a_word(tmp_path: Path) -> None:
    """Of 10,000 rows 6,000 are 0, and so is the median: the third quartile is then found 1,000 rows from its rank."""
    said = "If k rows share the value of one quantile of x"
    with curator(tmp_path, [BOB]) as opened:
        for asked, told in (
            ("QUANTILE_CONT(x, [0.25, 0.5, 0.75]) AS q", True),
            ("MEDIAN(x) AS half, QUANTILE_DISC(x, 0.9) AS p90", True),
            ("MEDIAN(x) AS half, MEDIAN(p) AS other, MAX(x) AS most", False),
            ("MEDIAN(x) AS half, QUANTILE_CONT(x, 0.9) FILTER (WHERE p > 3) AS p90", False),
        ):
            found = opened.sql(f"SELECT {asked} FROM people")
            assert any(said in each for each in found.warnings) is told  # type: ignore[union-attr]
