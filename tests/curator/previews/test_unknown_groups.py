"""Questions by columns whose values nobody declared, as users meet them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from covering_cases import covering
from sfumato.release import discovered_groups

PLACES = ("Rome", "Bonn", "Zürich", None)
BY_CITY = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
PRICE: dict[str, Any] = {"epsilon": 4, "delta": "1e-8"}


def _policy(*, every_row: bool = False, relation: str = "add-remove", delta: str = "1e-6", cities: bool = True) -> Any:
    rows = [(who, PLACES[(who + k) % 4], "fm"[who % 2], who % 60) for who in range(1200) for k in range(1 + who % 3)]
    rows += [(5000 + who, f"village {who}", "f", 30) for who in range(40)]
    held = pa.table(dict(zip(("who", "city", "sex", "age"), map(list, zip(*rows, strict=True)), strict=True)))
    columns = {
        "city": sf.Domain("text", nullable=True),
        "sex": sf.Domain("text", values=("f", "m")),
        "age": sf.Domain("integer", bounds=(0, 99)),
    }
    limits = {"id": "row"} if every_row else {"id": "who", "max_rows": 3, "max_groups": 2}
    tables = {"visits": sf.Table("visits", held, columns, **limits)}  # type: ignore[arg-type]
    if cities:
        listed = pa.table({"city": ["Rome", "Bonn", "Oslo"], "land": ["it", "de", "no"]})
        tables["cities"] = sf.Table("cities", listed, {}, public=True)
    size = {"size": 1240} if relation == "replace" else {}
    unit = sf.PrivacyUnit("visit" if every_row else "visitor", every_row=every_row)
    return sf.Policy(unit, sf.Budget(10**4, delta, neighbours=relation), tables, **size)  # type: ignore[arg-type]


Open = Callable[..., sf.Curator]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    made: list[sf.Curator] = []

    def open_curator(**how: Any) -> sf.Curator:
        made.append(sf.Curator(_policy(**how), tmp_path / f"{len(made)}.ledger"))
        return made[-1]

    yield open_curator
    for each in made:
        each.close()


def test_a_public_table_joined_by_the_name_lists_the_groups(opened: Open) -> None:
    """USING makes both columns one: no value is looked for, in SQL and in Python, and no δ is needed."""
    curator = opened()
    listed = curator.sql("SELECT cities.city, COUNT(*) AS n FROM visits JOIN cities USING (city) GROUP BY cities.city")
    plain = [
        curator.sql("SELECT city, COUNT(*) AS n FROM visits JOIN cities USING (city) GROUP BY city"),
        curator.sql("SELECT CITY, COUNT(*) AS n FROM cities JOIN visits USING (City) GROUP BY ALL"),
        curator.sql("SELECT city, COUNT(*) AS n FROM (SELECT * FROM visits JOIN cities USING (city)) GROUP BY city"),
        curator.table("visits").join("cities", on="city").group_by("city").agg(n=sf.count()),
    ]
    assert {each.identity for each in plain} == {listed.identity}
    assert [row[0] for row in plain[0].release(epsilon=1).rows] == ["Bonn", "Oslo", "Rome"]
    for text in (
        "SELECT city, COUNT(*) AS n FROM visits LEFT JOIN cities USING (city) GROUP BY city",
        "SELECT visits.city, COUNT(*) AS n FROM visits JOIN cities USING (city) GROUP BY visits.city",
    ):
        with pytest.raises(sf.Unsupported, match="needs an ε and a δ"):
            curator.sql(text).release(epsilon=1)


@covering({"relation": ["add-remove", "replace"], "every_row": [False, True]})
def test_large_groups_are_shown_by_value_and_lonely_ones_are_not(opened: Open, every_row: bool, relation: str) -> None:
    curator = opened(every_row=every_row, relation=relation)
    answer = curator.sql(BY_CITY).release(**PRICE)
    assert answer.column("city") == ["Bonn", "Rome", "Zürich", None]
    assert all(
        low <= value <= high for value, (low, high) in zip(answer.column("n"), answer.intervals["n"], strict=True)
    )  # type: ignore[misc]
    assert answer.keys == ("city",)
    assert re.search(r"a group of \d+ units is shown with 95 % probability", answer.warnings[-1])
    assert "keys of at least" in answer.receipt.mechanisms[0]
    assert sf.Answer.from_json(answer.to_json()) == answer
    distinct = curator.sql("SELECT DISTINCT city FROM visits").release(**PRICE)
    assert distinct.rows == (("Bonn",), ("Rome",), ("Zürich",), (None,))


def test_declared_keys_beside_them_have_all_their_values(opened: Open) -> None:
    curator = opened()
    answer = curator.sql("SELECT sex, city, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY sex, city").release(
        **PRICE
    )
    shown = sorted({row[1] for row in answer.rows if row[1] is not None})
    assert [row[:2] for row in answer.rows] == [(sex, city) for sex in "fm" for city in [*shown, None]]
    turned = curator.sql("SELECT city, sex, COUNT(*) AS n FROM visits GROUP BY city, sex").release(**PRICE)
    assert [row[:2] for row in turned.rows] == [(city, sex) for city in [*shown, None] for sex in "fm"]


def test_what_is_done_with_noisy_numbers_works_on_what_is_shown(opened: Open) -> None:
    curator = opened()
    text = "SELECT city, SUM(age) / COUNT(*) AS mean FROM visits GROUP BY city HAVING COUNT(*) > 5 ORDER BY mean DESC"
    answer = curator.sql(text).release(**PRICE)
    assert answer.column("mean") == sorted(answer.column("mean"), reverse=True)
    assert len(curator.sql(f"{text} LIMIT 2").release(**PRICE).rows) == 2
    alone, joint = (curator.sql(BY_CITY).release(**PRICE, joint=each) for each in (False, True))
    assert joint.receipt.free
    wide, narrow = (each.intervals["n"][0][1] - each.intervals["n"][0][0] for each in (joint, alone))  # type: ignore[index]
    assert narrow < wide < 3 * narrow  # for the four groups shown, not for as many as there might be


def test_nothing_kept_is_an_empty_answer_with_a_note(opened: Open) -> None:
    curator = opened()
    for text in (
        "SELECT city, COUNT(*) AS n, AVG(age) AS age FROM visits WHERE city LIKE 'village%' GROUP BY city",
        "SELECT city, sex, COUNT(*) AS n FROM visits WHERE age > 98 GROUP BY city, sex HAVING COUNT(*) > 3 ORDER BY n",
        "SELECT DISTINCT city FROM visits WHERE city LIKE 'v%' ORDER BY city LIMIT 5",
    ):
        answer = curator.sql(text).release(**PRICE)
        assert answer.rows == ()
        assert "No group has enough units to be shown." in answer.warnings
        assert "No group" in repr(answer)
        assert answer.to_csv().count("\n") == 1
        assert answer.to_arrow().num_rows == 0
        assert sf.Answer.from_json(answer.to_json()) == answer
        assert curator.sql(text).release(**PRICE).receipt.free


def test_as_many_keys_are_shown_as_an_answer_has(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first by value; a release does not fail because of how many there are."""
    monkeypatch.setattr(discovered_groups, "MAX_GROUPS", 4)
    curator = opened()
    answer = curator.sql("SELECT sex, city, COUNT(*) AS n FROM visits GROUP BY sex, city").release(**PRICE)
    assert [row[:2] for row in answer.rows] == [(sex, city) for sex in "fm" for city in ("Bonn", "Rome")]
    assert any("at most 4 groups" in each for each in answer.warnings)
    assert "at most 4 groups" in str(curator.sql("SELECT city, COUNT(*) FROM visits GROUP BY city").explain(**PRICE))


def test_a_stored_answer_is_as_good_only_if_it_shows_groups_as_small(opened: Open) -> None:
    curator = opened()
    ask = curator.sql(BY_CITY)
    first = ask.release(**PRICE)
    assert ask.release(epsilon=2, delta="1e-8").receipt.free
    assert ask.release(**PRICE).rows == first.rows
    looser = ask.release(epsilon=4, delta="3e-8")  # the same noise, a lower threshold: it was not bought before
    assert not looser.receipt.free
    assert not ask.release(**PRICE, fresh=True).receipt.free
    assert not ask.limit(groups=1).release(**PRICE).receipt.free


def test_a_price_or_an_account_without_a_delta_is_refused_with_a_fix_that_works(opened: Open) -> None:
    curator, pure, plain = opened(), opened(delta="0"), opened(cities=False)
    for spent, calls in (({"epsilon": 1}, ["release"]), ({"rho": "0.1"}, ["release", "explain", "error"])):
        for call in calls:
            with pytest.raises(sf.Unsupported) as refusal:
                getattr(curator.sql(BY_CITY), call)(**spent)
            assert refusal.value.code == "unknown-keys"
            assert "join the public table cities and group by cities.city" in refusal.value.fix
            assert "needs no δ" in refusal.value.fix
    assert curator.sql(BY_CITY).price(10) == curator.sql(BY_CITY).price(10, delta="1e-9")  # the δ that is offered
    with pytest.raises(sf.Unsupported, match="an account without a δ"):
        pure.sql(BY_CITY).release(**PRICE)
    with pytest.raises(sf.Unsupported) as refusal:
        plain.sql(BY_CITY).release(epsilon=1)
    assert "join a public table that lists them" in refusal.value.fix
    assert [line.kind for line in pure.ledger if line.kind == "charge"] == []
    joined = (
        "SELECT cities.city, COUNT(*) AS n FROM visits JOIN cities ON visits.city = cities.city GROUP BY cities.city"
    )
    assert pure.sql(joined).release(epsilon=1).column("city") == ["Bonn", "Oslo", "Rome"]
    assert curator.sql(BY_CITY).release(epsilon=1, delta="1e-9").keys == ("city",)


def test_explain_says_the_shares_and_how_large_a_group_must_be(opened: Open) -> None:
    curator = opened()
    ask = curator.sql("SELECT city, COUNT(*) AS n, SUM(age) AS age FROM visits GROUP BY city")
    said = str(ask.explain(**PRICE))
    size = re.search(r"a group of (\d+) units is shown with 95 % probability", said)
    assert size is not None
    threshold = ask.price_release(sf.release.requests.PriceRequest(**PRICE)).selection
    assert threshold is not None
    assert threshold.chance(int(size[1])) >= 0.95 > threshold.chance(int(size[1]) - 1)
    assert "for 1/3 of ε and all of δ" in said
    assert "to need no δ, join the public table cities" in said
    assert "half of δ" in str(ask.explain(**PRICE, mechanism=sf.Gaussian))
    assert "for all of ε and all of δ" in str(curator.sql("SELECT DISTINCT city FROM visits").explain(**PRICE))
    assert ask.explain().price == "ε = 1, δ = 1e-09"
    assert sf.Explanation.from_json(ask.explain().to_json()) == ask.explain()


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_who_asks_is_told_before_spending_which_groups_will_not_show(opened: Open, relation: str) -> None:
    """From the policy alone: every size that is told is where the threshold's own law says it is."""
    ask = opened(relation=relation).sql(BY_CITY)
    threshold = ask.price_release(sf.release.requests.PriceRequest(**PRICE)).selection
    alone = ask.limit(groups=1).price_release(sf.release.requests.PriceRequest(**PRICE)).selection
    assert threshold is not None
    assert alone is not None
    for said in (ask.error(**PRICE).warnings, ask.explain(**PRICE).warnings):
        told = " ".join(said)
        least = re.search(r"A group of fewer than (\d+) units is shown in fewer than 1 of 20 answers\.", told)
        lower = re.search(
            r", or with \.limit\(groups=1\), which nearly always shows groups of (\d+) units or more\.", told
        )
        assert least
        assert lower
        assert threshold.chance(int(least[1]) - 1) < 0.05 <= threshold.chance(int(least[1]))
        assert alone.chance(int(lower[1]) - 1) < 0.95 <= alone.chance(int(lower[1]))
        assert int(lower[1]) < int(threshold.error())
        assert "An answer that shows no group is charged as well." in told
        assert "units in total" not in told  # 1,240 are enough for one
    one = " ".join(ask.limit(groups=1).error(**PRICE).warnings)
    assert "Smaller groups are shown with a larger ε or δ." in one
    declared = opened(relation=relation).sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")
    assert "group of fewer" not in " ".join(
        (*declared.error(epsilon=1).warnings, *declared.explain(epsilon=1).warnings)
    )


@pytest.mark.parametrize(("epsilon", "said"), [("0.05", True), ("1", False)])
def test_a_table_that_is_smaller_than_a_group_must_be_is_told(opened: Open, epsilon: str, said: bool) -> None:
    """How many units there are is public where one is replaced: 1,240 here."""
    warnings = opened(relation="replace").sql(BY_CITY).error(epsilon=epsilon, delta="1e-8").warnings
    words = "The policy declares 1,240 units in total, so there may be no group to show."
    assert (words in " ".join(warnings)) is said


def test_an_answer_that_was_bought_is_not_warned_of(opened: Open) -> None:
    """It shows what it shows, and costs nothing."""
    ask = opened().sql(BY_CITY)
    ask.release(**PRICE)
    assert "is charged as well" not in " ".join(ask.error(**PRICE).warnings)
    assert "is charged as well" in " ".join(ask.error(**PRICE, fresh=True).warnings)


def test_what_is_promised_names_the_delta_that_found_the_groups(opened: Open) -> None:
    curator = opened()
    for text in (BY_CITY, "SELECT DISTINCT city FROM visits"):
        ask = curator.sql(text)
        assert ask.explain(**PRICE).price == "ε = 4, δ = 1e-08"
        assert ask.release(**PRICE).receipt.guarantee == "ε = 4, δ = 1e-08"
    declared = curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")
    assert declared.release(**PRICE).receipt.guarantee == "ε = 4"


def test_one_group_of_each_unit_is_shown_surely_from_a_size_on(opened: Open) -> None:
    said = str(opened().sql(BY_CITY).limit(groups=1).explain(**PRICE))
    sure = re.search(r"keys of at least (\d+) units, and smaller ones with some probability", said)
    likely = re.search(r"a group of (\d+) units is shown with 95 % probability", said)
    assert sure is not None
    assert likely is not None
    assert int(likely[1]) < int(sure[1])


def test_forecasts_and_prices(opened: Open) -> None:
    curator = opened()
    ask = curator.sql(BY_CITY)
    forecast = ask.error(**PRICE)
    assert forecast.accepted
    assert "is shown with 95 % probability" in str(forecast)
    answer = ask.release(**PRICE)
    low, high = answer.intervals["n"][0]  # type: ignore[misc]
    assert forecast["n"] == pytest.approx((high - low) / 2)
    price = ask.price({"n": 20}, delta="1e-8")
    assert ask.error(epsilon=price, delta="1e-8")["n"] <= 20  # type: ignore[operator]
    assert ask.error(epsilon=price * 0.98, delta="1e-8")["n"] > 20  # type: ignore[operator]
    assert curator.sql(BY_CITY).release(within={"n": 20}, delta="1e-8").keys == ("city",)
    picked = curator.sql(f"{BY_CITY} ORDER BY n DESC LIMIT 2")
    assert picked.error(**PRICE)["n"] > forecast["n"]  # type: ignore[operator]


def test_a_charge_is_what_explain_said(opened: Open) -> None:
    curator = opened()
    before = curator.budget.remaining
    curator.sql(BY_CITY).release(**PRICE)
    after = curator.budget.remaining
    assert before["failure"] - after["failure"] == sf.privacy.numbers.exact("1e-8", "δ")
    assert before["pure"] - after["pure"] == 4
    charges = [line for line in curator.ledger if line.kind == "charge"]
    assert len(charges) == 1  # keys and numbers are one release


def test_rows_that_a_join_multiplies_are_counted_with_their_weight(tmp_path: Path) -> None:
    """A row that meets two public rows is in two groups: its unit can hold two keys, or one of them twice."""
    policy = _policy(every_row=True)
    twice = sf.Table("twice", pa.table({"sex": ["f", "m", "f", "m"], "half": [1, 1, 2, 2]}), {}, public=True)
    both = sf.Policy(policy.unit, policy.budget, {**policy.tables, "twice": twice})
    text = "SELECT visits.city, COUNT(*) AS n FROM visits JOIN twice ON visits.sex = twice.sex GROUP BY visits.city"
    with sf.Curator(both, tmp_path / "twice.ledger") as joined:
        ask = joined.sql(text)
        threshold = ask.price_release(sf.release.requests.PriceRequest(**PRICE)).selection
        assert threshold == sf.KeyThreshold(2, "1e-8", 2, weighted=True)
        assert ask.release(**PRICE).column("city") == ["Bonn", "Rome", "Zürich", None]


def test_a_receipt_tells_the_delta_that_finding_groups_took(opened: Open) -> None:
    """Beside Laplace noise too, which needs none: what names keys of the data is never bounded by an ε alone."""
    answer = opened().sql(BY_CITY).release(**PRICE, mechanism=sf.Laplace)
    assert answer.receipt is not None
    assert answer.receipt.guarantee == "ε = 4, δ = 1e-08"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT SUM(n) AS s FROM ({BY_CITY})",
        f"SELECT COUNT(*) AS cities, MIN(n) AS least FROM ({BY_CITY})",
        "SELECT city, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS s FROM visits GROUP BY city",
        BY_CITY,
    ],
)
def test_numbers_over_found_groups_say_that_they_leave_out_the_others(opened: Open, text: str) -> None:
    """The range of a sum is one of the groups that are shown: the villages' visits are not in it."""
    question = opened().sql(text)
    for said in (question.release(**PRICE).warnings, question.error(**PRICE).warnings):
        assert any("cover only the groups that are shown" in each for each in said) is (text != BY_CITY)


def test_long_texts_are_not_found_and_the_fix_is_followed(tmp_path: Path) -> None:
    """Whatever rows hold, what reaches the choice of groups is bounded before the charge."""
    held = pa.table({"who": list(range(400)), "note": ["x" * 3000] * 400})
    for length, refused in ((1000, False), (1001, True), (10_000, True)):
        columns = {"note": sf.Domain("text", max_length=length)}
        policy = sf.Policy(
            sf.PrivacyUnit("visitor"),
            sf.Budget(100, "1e-6"),
            {"visits": sf.Table("visits", held, columns, id="who", max_rows=1)},
        )
        with sf.Curator(policy, tmp_path / f"{length}.ledger") as curator:
            asked = curator.sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note")
            if not refused:
                assert asked.release(**PRICE).rows[0][0] == "x" * 1000
                continue
            before = len(list(curator.history()))
            with pytest.raises(sf.Unsupported, match='at most 1,000 characters, and "note" may have more') as error:
                asked.release(**PRICE)
            assert len(list(curator.history())) == before
            fixed = re.search(r"LEFT\(note, 1000\)", str(error.value))
            assert fixed
            again = curator.sql(f"SELECT {fixed.group()} AS note, COUNT(*) AS n FROM visits GROUP BY 1")
            assert again.release(**PRICE).rows[0][0] == "x" * 1000
