"""Questions put together in Python are ordinary questions: the same plan, price and stored answer as in SQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

import sfumato as sf

Build = Callable[[sf.Curator], sf.Question]

PAIRS: list[tuple[Build, str]] = [
    (lambda flights: flights.table("flights").agg(n=sf.count()), "SELECT COUNT(*) AS n FROM flights"),
    (
        lambda flights: (
            flights.table("flights")
            .where("day >= DATE '2013-07-01'")
            .derive(late="delay > 15")
            .join("airlines", on="carrier")
            .group_by("name", "late")
            .agg(n=sf.count(), far=sf.mean("distance"))
            .having("n > 100")
            .order_by("n DESC")
            .head(3)
        ),
        "SELECT name, delay > 15 AS late, COUNT(*) AS n, AVG(distance) AS far "
        "FROM flights JOIN airlines USING (carrier) WHERE day >= DATE '2013-07-01' "
        "GROUP BY name, late HAVING n > 100 ORDER BY n DESC LIMIT 3",
    ),
    (
        lambda flights: (
            flights.table("FLIGHTS", alias="f")
            .left_join("airlines", on="f.carrier = airlines.carrier")
            .group_by("origin", month="DATE_TRUNC('month', day)")
            .agg(planes=sf.count_distinct("tailnum"), n=sf.count())
            .select("origin", "month", share="planes / n")
        ),
        "SELECT f.origin, DATE_TRUNC('month', f.day) AS month, COUNT(DISTINCT tailnum) / COUNT(*) AS share "
        "FROM flights f LEFT JOIN airlines a ON f.carrier = a.carrier GROUP BY 1, 2",
    ),
]


@pytest.fixture
def flights() -> Iterator[sf.Curator]:
    with sf.open(sf.example()) as curator:
        yield curator


@pytest.mark.parametrize(("build", "text"), PAIRS, ids=lambda each: each[:60] if isinstance(each, str) else "")
def test_plan_price_and_stored_answer_are_those_of_the_text(build: Build, text: str, flights: sf.Curator) -> None:
    built, written = build(flights), flights.sql(text)
    assert isinstance(built, sf.Question)
    assert built.query == written.query
    assert built.identity == written.identity
    assert built.error(epsilon=1) == written.error(epsilon=1)
    assert built.explain().operators == written.explain().operators
    assert flights.sql(built.text).identity == built.identity
    bought = written.release(epsilon=1)
    again = built.release(epsilon=1)
    assert again.receipt.free
    assert again.rows == bought.rows
    assert again.receipt.question == built.text


def test_limits_stay_when_more_is_added(flights: sf.Curator) -> None:
    counts = flights.table("flights").group_by("origin").agg(n=sf.count())
    tighter = counts.limit(rows=5).having("n > 10")
    assert tighter.limits.rows == 5
    assert tighter.identity == flights.sql("SELECT origin, COUNT(*) FROM flights GROUP BY 1").limit(rows=5).identity
    assert counts.limits.rows == 100


def test_groups_of_which_nothing_is_asked_are_the_declared_values(flights: sf.Curator) -> None:
    origins = flights.table("flights").group_by("origin")
    before = flights.budget.spent
    for ask in (origins.agg(), origins.agg(n=sf.count()).select("origin")):
        assert ask.text == "SELECT origin FROM flights GROUP BY origin"
        assert ask.release(epsilon=1).rows == flights.sql(ask.text).release(epsilon=1).rows
        assert ask.order_by("origin DESC").release().rows == (("LGA",), ("JFK",), ("EWR",))
        assert "group by origin" in repr(ask)
    assert flights.budget.spent == before


def test_everything_is_frozen_and_a_step_is_a_new_view(flights: sf.Curator) -> None:
    view = flights.table("flights")
    assert view.where("delay > 5") == flights.table("flights").where("delay > 5") != view
    with pytest.raises(dataclasses.FrozenInstanceError):
        view._rows = view.where("delay > 5")._rows  # type: ignore[misc]
    question = view.agg(n=sf.count())
    with pytest.raises(dataclasses.FrozenInstanceError):
        question.text = "SELECT 1"  # type: ignore[misc]


def test_a_view_shows_its_steps_and_its_columns(flights: sf.Curator) -> None:
    view = flights.table("flights").where("delay > 5").derive(hours="delay / 60.0").join("airlines", on="carrier")
    assert repr(view).splitlines() == [
        "flights",
        "  where delay > 5",
        "  derive hours = delay / 60.0",
        "  join airlines on carrier",
        "  columns",
        "    day       date from 2013-06-01 to 2013-08-31",
        "    origin    text, one of 3 values",
        "    carrier   text, one of 16 values",
        "    delay     integer from -30 to 180",
        "    distance  integer from 0 to 5000",
        "    hours     real from -0.5 to 3",
        "    name      text, one of 16 values",
    ]
    grouped = view.group_by("name")
    assert repr(grouped).splitlines()[-1] == "  group by name"
    assert repr(grouped.agg(n=sf.count(), hours=sf.mean("hours", where="distance > 100"))).splitlines() == [
        "flights",
        "  where delay > 5",
        "  derive hours = delay / 60.0",
        "  join airlines on carrier",
        "  group by name",
        "  measure n = count(), hours = mean(hours, where distance > 100)",
        "  .explain() .error() .price() .advise() .limit() are free, .release() spends",
    ]


def test_columns_complete_by_tab(flights: sf.Curator) -> None:
    view = flights.table("flights").derive(**{"how far": "distance", "order": "delay"})
    names = ["day", "origin", "carrier", "delay", "distance", "how far", "order"]
    assert list(view.columns) == view._ipython_key_completions_() == view.columns._ipython_key_completions_() == names
    assert len(view.columns) == 7
    assert sorted(dir(view.columns)) == ["carrier", "day", "delay", "distance", "order", "origin"]
    assert view.columns.delay == view["delay"] == "delay"
    assert view["how far"] == '"how far"'
    asked = view.group_by("origin").agg(far=sf.mean(view["how far"]), late=sf.mean(view.columns.order))
    wanted = flights.sql("SELECT origin, AVG(distance) AS far, AVG(delay) AS late FROM flights GROUP BY origin")
    assert asked.identity == wanted.identity
    with pytest.raises(AttributeError, match="no column is called dely"):
        _ = view.columns.dely
    with pytest.raises(KeyError):
        view["tailnum"]


def test_refusals_name_the_step(flights: sf.Curator) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        flights.table("flights").where("dely > 5")
    assert str(refusal.value) == (
        "the policy declares no column named 'dely' [unknown-column]\n"
        '  place: the step "where dely > 5"\n  fix:   did you mean delay?'
    )


def test_an_analyst_builds_questions_too(flights: sf.Curator) -> None:
    counts = flights.as_analyst("ana").table("flights").agg(n=sf.count())
    counts.release(epsilon=1)
    assert [line.analyst for line in flights.history("ana")][:1] == ["ana"]


def test_a_name_with_spaces_is_told_its_quotes(flights: sf.Curator) -> None:
    with pytest.raises(sf.Unsupported) as refused:
        flights.table("flights").group_by("delay minutes")
    assert "put names with spaces in double quotes" in refused.value.fix
