"""What users of pandas and SQL type from habit is a step of the builder, or is refused with the step to type."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

import sfumato as sf
from sfumato.curator import proposals
from sfumato.curator.tables import GroupedView, TableView


@pytest.fixture(scope="module")
def flights() -> Iterator[sf.Curator]:
    with sf.open(sf.example()) as curator:
        yield curator


SAME: list[tuple[Callable[[TableView], Any], Callable[[TableView], Any]]] = [
    (lambda rows: rows.filter("delay > 15").size(), lambda rows: rows.where("delay > 15").agg(count=sf.count())),
    (lambda rows: rows.query("delay == 15").count(), lambda rows: rows.where("delay = 15").agg(count=sf.count())),
    (
        lambda rows: rows.assign(hours="delay / 60.0").mean("hours"),
        lambda rows: rows.derive(hours="delay / 60.0").agg(hours=sf.mean("hours")),
    ),
    (
        lambda rows: rows.groupby(["origin", "carrier"]).mean("delay", "distance"),
        lambda rows: rows.group_by("origin", "carrier").agg(delay=sf.avg("delay"), distance=sf.avg("distance")),
    ),
    (
        lambda rows: rows.groupby("origin")["delay"].sum(),
        lambda rows: rows.group_by("origin").agg(delay=sf.sum("delay")),
    ),
    (
        lambda rows: rows.groupby("origin")[["delay", "distance"]].max(),
        lambda rows: rows.group_by("origin").agg(delay=sf.maximum("delay"), distance=sf.max("distance")),
    ),
    (lambda rows: rows["delay"].median(), lambda rows: rows.agg(delay=sf.median("delay"))),
    (lambda rows: rows[["delay"]].min(), lambda rows: rows.agg(delay=sf.min("delay"))),
    (lambda rows: rows.std("delay"), lambda rows: rows.agg(delay=sf.std("delay"))),
    (lambda rows: rows.var("delay"), lambda rows: rows.agg(delay=sf.var("delay"))),
    (lambda rows: rows.nunique("tailnum"), lambda rows: rows.agg(tailnum=sf.nunique("tailnum"))),
    (lambda rows: rows.count("delay"), lambda rows: rows.agg(delay=sf.count("delay"))),
    (lambda rows: rows.mean('"delay"'), lambda rows: rows.agg(delay=sf.mean("delay"))),
    (
        lambda rows: rows.value_counts("origin").head(),
        lambda rows: rows.group_by("origin").agg(count=sf.count()).order_by("count DESC").head(5),
    ),
    (
        lambda rows: rows["origin"].value_counts(),
        lambda rows: rows.group_by("origin").agg(count=sf.count()).order_by("count DESC"),
    ),
]


@pytest.mark.parametrize(("habit", "steps"), SAME)
def test_a_habit_is_the_builders_own_step(
    habit: Callable[[TableView], Any], steps: Callable[[TableView], Any], flights: sf.Curator
) -> None:
    typed, built = habit(flights.table("flights")), steps(flights.table("flights"))
    assert typed.text == built.text
    assert typed.identity == built.identity


REFUSED: list[tuple[Callable[[TableView], Any], str]] = [
    (lambda rows: rows.head(), "call describe() for the columns"),
    (lambda rows: rows.tail(3), "the rows of a private table are never shown"),
    (lambda rows: rows.to_pandas(), "the rows of a private table are never shown"),
    (lambda rows: rows.sort_values("delay"), "aggregate first"),
    (lambda rows: rows.merge("airlines"), "did you mean join("),
    (lambda rows: rows.mutate(hours="delay"), "did you mean derive("),
    (lambda rows: rows.delay, 'did you mean ["delay"]?'),
    (lambda rows: rows.group_by("origin").delay, 'did you mean ["delay"]?'),
    (lambda rows: rows.value_count("origin"), "did you mean value_counts?"),
    (lambda rows: rows.mean(), '.mean("delay", "distance")'),
    (lambda rows: rows.group_by("origin").mean(), '.mean("delay", "distance")'),
    (lambda rows: rows.mean("delay / 60"), "derive(hours="),
    (lambda rows: rows.mean(3), '.mean("delay", "distance")'),
    (lambda rows: rows.filter(rows["delay"] == "x"), '.filter("delay > 15")'),
    (lambda rows: rows.assign(hours=lambda frame: frame), 'assign(hours="delay / 60.0")'),
    (lambda rows: rows[3], 'where("delay > 15")'),
    (lambda rows: list(rows.group_by("origin")), 'where("delay > 15")'),
    (lambda rows: rows.value_counts(), 'value_counts("origin")'),
    (lambda rows: rows.count().filter("count > 5"), 'did you mean having("n > 100")?'),
    (lambda rows: rows.count().to_pandas(), "release(epsilon=0.5)"),
    (lambda rows: rows["delay"].plot(), "it has agg, count"),
    (lambda rows: rows.group_by("origin")["dely"].mean(), "did you mean delay?"),
]


@pytest.mark.parametrize(("habit", "said"), REFUSED)
def test_what_cannot_work_is_told_what_does(habit: Callable[[TableView], Any], said: str, flights: sf.Curator) -> None:
    with pytest.raises((sf.SfumatoError, AttributeError)) as refused:
        habit(flights.table("flights"))
    assert said in str(refused.value)


def test_a_question_in_sql_names_the_clause(flights: sf.Curator) -> None:
    question = flights.sql("SELECT COUNT(*) AS n FROM flights")
    for name, said in (("having", "HAVING in the SQL"), ("head", "LIMIT 10"), ("relese", "did you mean release?")):
        assert not hasattr(question, name)
        with pytest.raises(AttributeError, match=said):
            getattr(question, name)


def test_names_of_sql_and_pandas_are_the_same_functions() -> None:
    pairs = (("avg", "mean"), ("min", "minimum"), ("max", "maximum"), ("std", "stddev"), ("nunique", "count_distinct"))
    assert all(getattr(sf, other) is getattr(sf, own) for other, own in pairs)
    assert {"avg", "min", "max"}.isdisjoint(sf.__all__)  # a star import keeps the built-in functions
    with pytest.raises(AttributeError, match=r"did you mean median\?"):
        _ = sf.mediam  # type: ignore[attr-defined]


def test_a_column_stays_a_text(flights: sf.Curator) -> None:
    column = flights.table("flights")["delay"]
    assert isinstance(column, str)
    assert (column, copy.copy(column), json.loads(json.dumps(column))) == ("delay", "delay", "delay")
    assert pickle.loads(pickle.dumps(str(column))) == "delay"
    assert isinstance(flights.table("flights").group_by("origin"), GroupedView)


def test_a_bare_number_is_the_price_in_epsilon(flights: sf.Curator) -> None:
    question, before = flights.sql("SELECT COUNT(*) AS n FROM flights"), flights.budget.spent["pure"] or 0
    assert question.error(0.5) == question.error(epsilon=0.5)
    assert question.release(0.5).receipt.guarantee == "ε = 0.5"
    assert flights.budget.spent["pure"] == before + Fraction(1, 2)
    assert flights.sql("SHOW TABLES").release(0.5).columns == ("table", "kind", "about")


def test_every_proposal_takes_a_bare_price() -> None:
    """The first argument of what asks, forecasts or explains is ε, in every kind of proposal."""
    classes = {
        value
        for module in map(inspect.getmodule, _proposal_functions())
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith(proposals.__name__) and "release" in vars(value)
    }
    assert len(classes) > 8
    for proposal in classes:
        first, second = list(inspect.signature(proposal.release).parameters.values())[:2]
        assert (first.name, second.name) == ("self", "epsilon"), proposal
        assert second.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, proposal


def _proposal_functions() -> Iterator[Any]:
    import pkgutil
    from importlib import import_module

    for found in pkgutil.iter_modules(proposals.__path__):
        module = import_module(f"{proposals.__name__}.{found.name}")
        yield from (value for value in vars(module).values() if inspect.isfunction(value) or inspect.isclass(value))


def test_a_data_frame_carries_ranges_and_the_terms_of_the_answer(flights: sf.Curator) -> None:
    answer = flights.sql("SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin").release(0.5)
    frame = answer.to_pandas()
    assert list(frame) == ["origin", "n", "n_low", "n_high"]
    terms = frame.attrs["sfumato"]
    assert terms["guarantee"] == "ε = 0.5"
    assert terms["unit"] == answer.receipt.unit
    assert (terms["confidence"], terms["joint"]) == ("0.95", False)
    assert (terms["line"], terms["hash"]) == (answer.receipt.line, answer.receipt.hash)
    assert "preview" not in terms
    assert json.loads(json.dumps(frame.attrs)) == frame.attrs  # pandas writes them into Parquet as JSON
    assert frame[frame.n > 0].attrs == frame.attrs


def test_a_data_frame_of_a_preview_says_so(flights: sf.Curator) -> None:
    preview = flights.sql("SELECT COUNT(*) AS n FROM flights").preview()
    assert "invented" in preview.to_pandas().attrs["sfumato"]["preview"]
