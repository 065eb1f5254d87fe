"""A policy alone tells the prices and errors that its curator tells, and opens nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.describing import open_without_data
from sfumato.engine.public_tables import policy_over_empty_tables

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM flights",
    "SELECT carrier, COUNT(*) AS n, SUM(distance) AS miles FROM flights GROUP BY carrier",
    "SELECT AVG(delay) AS late FROM flights WHERE origin = 'JFK'",
    "SELECT DATE_TRUNC('week', day) AS week, MEDIAN(delay) AS d FROM flights GROUP BY DATE_TRUNC('week', day)",
)


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}, {"rho": "0.1"}])
def test_errors_are_those_of_the_curator(tmp_path: Path, price: dict[str, object]) -> None:
    with sf.open(sf.example(tmp_path / "flights")) as made, open_without_data(made.policy) as alone:
        for text in QUESTIONS:
            assert alone.question(text).error(**price) == made.sql(text).error(**price)  # type: ignore[arg-type]


def test_no_row_is_in_it(tmp_path: Path) -> None:
    policy = sf.policy.read(sf.example(tmp_path / "flights"))
    empty = policy_over_empty_tables(policy)
    assert list(empty.tables) == ["flights"]  # the other declares no columns: they are known from its rows alone
    assert empty.tables["flights"].source.table.num_rows == 0
    with open_without_data(policy) as alone:
        assert alone.question(QUESTIONS[0]).release(epsilon=1).receipt.account == "ε = 3, δ = 1e-06"
    assert not (tmp_path / "flights" / "sfumato.ledger").exists()
