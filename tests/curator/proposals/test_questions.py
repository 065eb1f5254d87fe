"""A question's whole life: understood, priced, asked, answered, found again, refused."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato as sf

POLICY = """
[unit]
name = "visitor"
budget = { epsilon = 3.0, delta = 1e-6 }

[tables.visits]
source = "visits.csv"
id = "visitor"
max_rows = 5
max_groups = 4

[tables.visits.columns]
day = { type = "integer", bounds = [1, 7] }
minutes = { type = "integer", bounds = [0, 120] }
euros = { type = "real", bounds = [0, 60], grid = 0.5 }
note = { type = "text" }

[tables.days]
source = "days.csv"
public = true

[analysts.ana]
share = 0.5
"""


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        f"{visitor},{1 + (visitor * 7 + k) % 7},{20 + visitor % 50},{visitor % 40}.5,x"
        for visitor in range(400)
        for k in range(1 + visitor % 6)
    ]
    (tmp_path / "visits.csv").write_text("\n".join(["visitor,day,minutes,euros,note", *rows]) + "\n")
    days = [f"{day},{name}" for day, name in enumerate(DAYS, 1)]
    (tmp_path / "days.csv").write_text("\n".join(["day,name", *days]) + "\n")
    (tmp_path / "shop.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def shop(folder: Path) -> Iterator[sf.Curator]:
    with sf.open(folder / "shop.toml") as curator:
        yield curator


def lines(curator: sf.Curator) -> list[str]:
    return [line.kind for line in curator.ledger.lines()]


def test_everything_but_release_is_free(shop: sf.Curator) -> None:
    before = lines(shop)
    ask = shop.sql("SELECT day, COUNT(*) AS visits, AVG(minutes) AS minutes FROM visits GROUP BY day")
    assert "reweight" in str(ask.explain(epsilon=1))
    assert json.loads(ask.explain().to_json())["operators"]
    assert "<table>" in ask.explain()._repr_html_()
    forecast = ask.error(epsilon=1)
    assert isinstance(forecast["visits"], float)
    assert set(forecast["minutes"]) == {100, 1000, 10_000}  # type: ignore[arg-type]
    price = ask.price({"visits": 20})
    assert ask.error(epsilon=price)["visits"] <= 20  # type: ignore[operator]
    assert ask.error(epsilon=price * 0.99)["visits"] > 20  # type: ignore[operator]
    assert lines(shop) == before


def test_an_answer_has_every_group_its_ranges_and_a_receipt(shop: sf.Curator) -> None:
    ask = shop.sql(
        "SELECT day, COUNT(*) AS visits, SUM(euros) / COUNT(*) AS spend FROM visits WHERE minutes > 10 GROUP BY day"
    )
    answer = ask.release(epsilon=1)
    assert answer.columns == ("day", "visits", "spend")
    assert answer.column("day") == [1, 2, 3, 4, 5, 6, 7]
    for visits, (low, high) in zip(answer.column("visits"), answer.intervals["visits"], strict=True):
        assert isinstance(visits, int)
        assert low <= visits <= high
    receipt = answer.receipt
    assert receipt.unit == "all rows of one visitor"
    assert receipt.guarantee == "ε = 1"
    assert receipt.line == 4
    assert shop.ledger.verify()
    assert sf.loads(receipt.to_json()) == receipt
    assert lines(shop) == ["account-open", "source", "charge", "answer"]
    assert shop.budget.remaining["pure"] == 2


def test_functions_of_keys_are_evaluated_on_the_keys(shop: sf.Curator) -> None:
    plain = shop.sql("SELECT name, COUNT(*) AS n FROM visits JOIN days USING (day) GROUP BY name").release(epsilon=1)
    ask = shop.sql(
        "SELECT UPPER(name) AS upper, name || '!' AS loud, LENGTH(name) * COUNT(*) AS n, "
        "CAST(LENGTH(name) AS VARCHAR) AS letters, GREATEST(name, 'Sat') AS late, "
        "CASE WHEN LEFT(name, 1) = 'S' THEN 'weekend' ELSE 'week' END AS part FROM visits JOIN days USING (day) "
        "GROUP BY name HAVING LOWER(name) <> 'sun' "
        "ORDER BY RIGHT(name, 2) LIMIT 5"
    )
    assert "UPPER(days.name)" in str(ask.explain(epsilon=1))
    assert ask.error(epsilon=1).columns == {}  # of the numbers, as many letters as a name has
    answer = ask.release(epsilon=1)
    assert answer.receipt.free
    assert answer.columns == ("upper", "loud", "n", "letters", "late", "part")
    assert answer.column("upper") == ["SAT", "WED", "THU", "MON", "FRI"]
    assert answer.column("loud") == ["Sat!", "Wed!", "Thu!", "Mon!", "Fri!"]
    assert answer.column("part") == ["weekend", "week", "week", "week", "week"]
    assert answer.column("late") == ["Sat", "Wed", "Thu", "Sat", "Sat"]
    assert answer.column("letters") == ["3"] * 5
    counts = dict(zip(plain.column("name"), plain.column("n"), strict=True))
    assert answer.column("n") == [3 * counts[name[:3]] for name in answer.column("loud")]
    assert answer.keys == ("upper", "loud", "letters", "late", "part")


def test_functions_of_several_keys_and_of_missing_ones(shop: sf.Curator) -> None:
    ask = shop.sql(
        "SELECT CONCAT(band, '/', CAST(day AS VARCHAR)) AS both, band || '?' AS asked, COUNT(*) AS n FROM "
        "(SELECT day, CASE WHEN minutes > 30 THEN 'long' END AS band FROM visits) GROUP BY day, band"
    )
    answer = ask.release(epsilon=1)
    assert answer.column("both")[:3] == ["long/1", "/1", "long/2"]
    assert answer.column("asked")[:3] == ["long?", None, "long?"]
    with pytest.raises(sf.Unsupported, match="finish-function"):
        shop.sql("SELECT UPPER(CASE WHEN COUNT(*) > 5 THEN 'a' ELSE 'b' END) FROM visits")


def test_the_same_question_is_answered_once(shop: sf.Curator) -> None:
    first = shop.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(epsilon=1)
    again = shop.sql("select v.day, count(*) as total from visits v group by 1 order by total desc").release(
        epsilon="0.5"
    )
    assert again.receipt.free
    assert sorted(again.column("total")) == sorted(first.column("n"))
    assert lines(shop) == ["account-open", "source", "charge", "answer"]
    better = shop.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(epsilon="1.5")
    assert not better.receipt.free
    fresh = shop.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(epsilon="0.1", fresh=True)
    assert not fresh.receipt.free


def test_other_limits_are_another_question(shop: sf.Curator) -> None:
    ask = shop.sql("SELECT COUNT(*) FROM visits")
    ask.release(epsilon=1)
    assert not ask.limit(rows=2).release(epsilon="0.1").receipt.free
    with pytest.raises(sf.InvalidParameter, match="can only lower the policy's limits"):
        ask.limit(rows=6)


def test_a_request_id_returns_its_answer(shop: sf.Curator) -> None:
    ask = shop.sql("SELECT COUNT(*) AS n FROM visits")
    first = ask.release(epsilon="0.1", request_id="monday")
    assert ask.release(epsilon=2, request_id="monday").rows == first.rows
    with pytest.raises(sf.RequestDiffers):
        shop.sql("SELECT COUNT(*) AS n FROM visits WHERE day = 1").release(epsilon="0.1", request_id="monday")


def test_an_overspend_is_refused_and_costs_nothing(shop: sf.Curator) -> None:
    before = lines(shop)
    with pytest.raises(sf.Overspent) as refusal:
        shop.sql("SELECT COUNT(*) FROM visits").release(epsilon="3.5")
    assert refusal.value.largest == 3
    assert lines(shop) == before


def test_accuracy_first(shop: sf.Curator) -> None:
    ask = shop.sql("SELECT COUNT(*) AS n FROM visits")
    answer = ask.release(within={"n": 30})
    (low, high), (n,) = answer.intervals["n"][0] or (0, 0), answer.rows[0]
    assert high - low <= 61
    assert low <= n <= high
    with pytest.raises(sf.InvalidParameter, match="columns of numbers"):
        ask.release(within={"m": 30})
    with pytest.raises(sf.InvalidParameter, match="size"):
        shop.sql("SELECT AVG(minutes) AS m FROM visits GROUP BY day").price({"m": 3})


def test_a_public_table_is_joined_by_its_keys(shop: sf.Curator) -> None:
    answer = shop.sql("SELECT name, COUNT(*) AS n FROM visits JOIN days USING (day) GROUP BY name").release(epsilon=1)
    assert sorted(answer.column("name")) == sorted(DAYS)


def test_analysts_pay_from_their_share(shop: sf.Curator) -> None:
    ana = shop.as_analyst("ana")
    ana.sql("SELECT COUNT(*) FROM visits").release(epsilon="1.5")
    with pytest.raises(sf.Overspent):
        ana.sql("SELECT COUNT(*) FROM visits WHERE day = 1").release(epsilon="0.1")
    shop.sql("SELECT COUNT(*) FROM visits WHERE day = 1").release(epsilon="0.1")
    assert [line.analyst for line in shop.ledger.lines(analyst="ana")][:1] == ["ana"]
    with pytest.raises(sf.InvalidParameter, match="analyst"):
        shop.as_analyst("bob")


def test_weak_promises_warn(folder: Path) -> None:
    (folder / "shop.toml").write_text(POLICY.replace("epsilon = 3.0", "epsilon = 30.0"))
    with sf.open(folder / "shop.toml") as curator:
        ask = curator.sql("SELECT COUNT(*) FROM visits")
        with pytest.warns(sf.WeakPrivacy, match="ε = 6"):
            ask.release(epsilon=6)


def test_exports(shop: sf.Curator, tmp_path: Path) -> None:
    answer = shop.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(epsilon=1)
    assert answer.to_pandas()["day"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert answer.to_polars()["n"].to_list() == answer.column("n")
    assert answer.to_arrow().column_names == ["day", "n", "n_low", "n_high"]
    assert json.loads(answer.to_json())["receipt"]["line"] == 4
    assert answer.to_csv().splitlines()[0] == "day,n,n_low,n_high"
    assert "<table>" in answer._repr_html_()
    assert all(value >= 0 for value in answer.nonnegative().column("n"))
    with pytest.raises(ValueError, match=r"\.svg"):
        answer.plot(str(tmp_path / "picture.gif"))


def test_numbers_are_near_the_truth(shop: sf.Curator) -> None:
    """At ε = 1 each of 35 intervals misses with probability 5 %; all noise lies within ln(35·10⁶) scales of 0."""
    answer = shop.sql("SELECT COUNT(*) AS n, AVG(minutes) AS m, COUNT(DISTINCT visitor) AS v FROM visits").release(
        epsilon=2
    )
    n, m, v = answer.rows[0]
    reach = math.log(3e6) * 5 * 3 / 2
    assert abs(n - 1333) < reach + 70  # six rows of one visitor count as five
    assert abs(v - 400) < math.log(3e6) * 3 / 2
    assert abs(m - 43) < 15


def test_threads_share_one_curator(shop: sf.Curator) -> None:
    done: list[sf.Answer | Exception] = []

    def ask(day: int) -> None:
        try:
            done.append(shop.sql(f"SELECT COUNT(*) FROM visits WHERE day = {day}").release(epsilon="0.5"))
        except sf.Overspent as refusal:
            done.append(refusal)

    threads = [threading.Thread(target=ask, args=(day,)) for day in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, sf.Answer) for each in done) == 6
    assert shop.ledger.verify()


def test_a_policy_in_memory(tmp_path: Path) -> None:
    import pyarrow

    table = sf.Table(
        "people", pyarrow.table({"age": [30, 40, None]}), {"age": sf.Domain("integer", bounds=(0, 110))}, id="row"
    )
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(1), {"people": table})
    with pytest.raises(sf.InvalidParameter, match="ledger"):
        sf.Curator(policy)
    with sf.Curator(policy, ledger=tmp_path / "people.ledger") as curator:
        assert curator.sql("SELECT COUNT(age) AS n FROM people").release(epsilon=1).columns == ("n",)


def test_a_budget_outlives_its_process(folder: Path) -> None:
    with sf.open(folder / "shop.toml") as curator:
        curator.sql("SELECT COUNT(*) FROM visits").release(epsilon=2)
    with sf.open(folder / "shop.toml") as curator:
        assert curator.budget.remaining["pure"] == 1
        assert curator.sql("SELECT COUNT(*) FROM visits").release(epsilon=2).receipt.free
    (folder / "shop.toml").write_text(POLICY.replace("epsilon = 3.0", "epsilon = 30.0"))
    with pytest.raises(sf.AccountDiffers):
        sf.open(folder / "shop.toml")


def test_a_copy_of_a_policy_meets_the_same_sources(folder: Path) -> None:
    """One budget for the same people, whatever their policy is called."""
    with sf.open(folder / "shop.toml") as curator:
        curator.sql("SELECT COUNT(*) FROM visits").release(epsilon=3)
    (folder / "other.toml").write_text(POLICY)
    with pytest.raises(sf.SourceTaken, match="shop"):
        sf.open(folder / "other.toml")
    (folder / "again.csv").write_bytes((folder / "visits.csv").read_bytes())
    (folder / "third.toml").write_text(POLICY.replace("visits.csv", "again.csv"))
    with pytest.raises(sf.SourceTaken, match="shop"):
        sf.open(folder / "third.toml")
