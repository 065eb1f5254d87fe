"""Small rules of linked tables and of their prices and forecasts, each beside what it says, worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from sfumato.curator.proposals import linked_tables
from sfumato.curator.proposals.linked_table_selects import _ancestor_columns_and_joins
from sfumato.curator.proposals.linked_tables import LinkedTablesProposal, _column_count, _marginal_width
from sfumato.errors import InvalidParameter
from sfumato.policy.policies import Via
from sfumato.privacy import Curve
from sfumato.publish.links import TableLink
from sfumato.publish.synthesis.forecasting import SynthesisForecast
from sfumato.release.prices import Price


def link(parent: str, child: str, of_parent: str, of_child: str, linked: str = "", **rest: Any) -> TableLink:
    own = (tuple(of_parent.split()), tuple(of_child.split()), tuple(linked.split()))
    return TableLink(parent, child, "key", "key", "who", 1, 4, *own, **rest)


LINKS = (
    link("people", "stays", "sex age town", "ward cost", "age", previous_columns=("ward",), order="cost"),
    link("stays", "tests", "ward cost", "kind", "ward", inherited_columns=("people.age", "number of stays")),
    link("stays", "meals", "ward cost", "a b c d", "ward cost"),
    link("tests", "doses", "kind", "gram", "kind", inherited_columns=("stays.ward", "people.age")),
)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("people", 3 + 1),  # its own, and the number of stays
        ("stays", 2 + (1 + 1 + 1) + 2),  # its own; siblings, an age, the previous ward; numbers of tests and meals
        ("tests", 1 + (1 + 1 + 2) + 1),
        ("meals", 4 + (1 + 2)),
        ("doses", 1 + (1 + 1 + 2)),
    ],
)
def test_columns_of_the_model_of_a_linked_table(table: str, columns: int) -> None:
    assert _column_count(LINKS, table) == columns
    widths = {ways: _marginal_width(ways, columns) for ways in (1, 2, columns, columns + 1, 99)}
    assert widths == {1: 1, 2: 2, columns: columns, columns + 1: columns, 99: columns}


@pytest.mark.parametrize("ways", [0, -1, "1.5", None])
def test_a_marginal_has_at_least_one_column(ways: Any) -> None:
    with pytest.raises(InvalidParameter, match="ways must be a whole number ≥ 1"):
        _marginal_width(ways, 3)


def test_given_columns_are_read_from_each_table_above_by_its_own_join() -> None:
    """Every join is between neighbours of the tree; a table above gives only the columns that the link names."""
    ways = {"tests": Via("stays", "stay", "id"), "doses": Via("tests", "test", "number")}
    pairs = {
        child: SimpleNamespace(
            parent=SimpleNamespace(name=parent), parent_unit=f"u{parent}", child_unit=f"v{child}", via=ways.get(child)
        )
        for parent, child in (("people", "stays"), ("stays", "tests"), ("tests", "doses"))
    }
    linked: Any = SimpleNamespace(pair_above=lambda table: pairs.get(table.name))
    found = {}
    for table in pairs:
        own = next(each for each in LINKS if each.child == table)
        found[table] = _ancestor_columns_and_joins(linked, LINKS, pairs[table], own)  # type: ignore[arg-type]
    to_people = "JOIN people AS {} ON {}.upeople = {}.vstays"
    to_stays = "JOIN stays AS {} ON {}.ustays = {}.vtests AND {}.id = {}.stay"
    assert found == {
        "stays": (['p.age AS "people.age"'], [to_people.format("p", "p", "c")]),
        "tests": (
            ['p.ward AS "stays.ward"', 'pp.age AS "people.age"'],
            [to_stays.format("p", "p", "c", "p", "c"), to_people.format("pp", "pp", "p")],
        ),
        "doses": (
            ['p.kind AS "tests.kind"', 'pp.ward AS "stays.ward"', 'ppp.age AS "people.age"'],
            [
                "JOIN tests AS p ON p.utests = c.vdoses AND p.number = c.test",
                to_stays.format("pp", "pp", "p", "pp", "p"),
                to_people.format("ppp", "ppp", "pp"),
            ],
        ),
    }


class Part:
    """A table's model whose counts have a half-width of ``factor`` over its share of ε, or over twice that of ρ."""

    def __init__(self, factor: int) -> None:
        self.factor, self.levels = factor, set[Fraction]()

    @staticmethod
    def setting(price: Price) -> Price:
        return price

    def first_counts_half_width(self, price: Price, level: Fraction) -> Fraction:
        self.levels.add(level)
        if price.rho is not None:
            return self.factor / (2 * price.rho)
        assert price.epsilon is not None
        return self.factor / price.epsilon


@pytest.mark.parametrize(
    ("within", "amount"),
    [
        (8, 4),  # halves of 2: the wider of both is 16 / 2, which is allowed
        ("7.9", Fraction(32 * 10, 79)),
        (128, Fraction(1, 4)),
    ],
)
def test_the_price_of_linked_tables_is_that_of_the_widest_counts(within: Any, amount: Any) -> None:
    """The ε of a pure price; of one with δ the ε that the least ρ proves."""
    neighbours = sf.Neighbours.REPLACE
    context = SimpleNamespace(policy=SimpleNamespace(neighbours=neighbours))
    parts = {"people": Part(3), "stays": Part(16)}
    proposal: Any = LinkedTablesProposal(context, LINKS[:1], parts)  # type: ignore[arg-type]
    pure = proposal.price(within, confidence="0.9")
    assert amount <= pure <= float(amount) * (1 + 2e-3)
    assert {level for part in parts.values() for level in part.levels} == {Fraction(9, 10)}
    expected = [
        Curve.concentrated(rho).epsilon("1e-6")
        for rho in (Fraction(amount) / 2, Fraction(amount) / 2 * (1 + Fraction(1, 2**13)))
    ]
    with_delta = proposal.price(within, delta="1e-6")
    assert expected[0] <= with_delta <= expected[1] * (1 + 1e-3)
    if amount == 4:
        assert pure == 4.0  # and not the next number of four digits


def forecast_of(seconds: float, memory: int, rounds: int, cells: int) -> SynthesisForecast:
    return SynthesisForecast(seconds, memory, rounds, cells, 7, "ε = 1", True)


def test_a_forecast_of_linked_tables_adds_time_and_takes_the_largest_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model is in memory at a time. By default for as many rows as the policy has units, or 10,000."""
    parts = {"a": forecast_of(1.5, 10, 3, 100), "b": forecast_of(2.0, 40, 4, 200), "c": forecast_of(0.25, 30, 5, 400)}
    asked: list[Any] = []

    def forecast(table: str, *arguments: Any, accepted: bool) -> SynthesisForecast:
        asked.append((*arguments, accepted))
        return parts[table]

    monkeypatch.setattr(linked_tables, "forecast", forecast)
    states = {table: SimpleNamespace(setting=table) for table in parts}
    monkeypatch.setattr(LinkedTablesProposal, "_start_state", lambda *_: SimpleNamespace(states=states))
    affordable = [True, True]
    budgets = [SimpleNamespace(affords=lambda _, index=index: affordable[index]) for index in range(2)]
    policy = SimpleNamespace(neighbours=sf.Neighbours.REPLACE, size=7)
    context: Any = SimpleNamespace(policy=policy, budgets=budgets)
    proposal = LinkedTablesProposal(context, LINKS[:2], dict.fromkeys(parts))  # type: ignore[arg-type]
    total = proposal.forecast(1)
    assert total == SynthesisForecast(3.75, 40, 12, 700, 7, "ε = 1", True)
    assert asked == [("aim", 7, "ε = 1", True)] * 3
    policy.size = None
    proposal.forecast(1)
    proposal.forecast(1, rows=1)
    affordable[1] = False
    proposal.forecast(1, rows=99)
    assert asked[3::3] == [("aim", 10_000, "ε = 1", True), ("aim", 1, "ε = 1", True), ("aim", 99, "ε = 1", False)]
    with pytest.raises(InvalidParameter, match="rows must be a whole number ≥ 1"):
        proposal.forecast(1, rows=0)
