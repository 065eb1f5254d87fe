"""What a session may compare: exactly one count or sum that is measured itself, under the least sensitivity."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.proposals.sessions import compared_total
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.plan.limits import Strategy

COLUMNS = {
    "cost": {"type": "real", "bounds": [-100, 5000], "grid": "0.01"},
    "age": {"type": "integer", "bounds": [0, 110]},
    "kind": {"values": ["a", "b"]},
}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = pa.table({"who": [1], "cost": [1.0], "age": [3], "kind": ["a"]})
    table = sf.Table("visits", source, COLUMNS, id="who", max_rows=9, max_groups=3, max_rows_per_group=4)
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(9, "1e-6"), {"visits": table})
    with sf.Curator(policy, tmp_path_factory.mktemp("clinic") / "visits.ledger") as opened:
        yield opened


@pytest.mark.parametrize(
    "what",
    ["COUNT(*)", "COUNT(DISTINCT who)", "SUM(age)", "SUM(cost)", "COUNT(*) FILTER (WHERE age > 3)", "SUM(age) AS s"],
)
def test_one_total_is_compared_under_the_least_change_of_a_unit(clinic: sf.Curator, what: str) -> None:
    for where in ("", " WHERE age > 50 AND cost > 1000"):
        question: Any = clinic.sql(f"SELECT {what} FROM visits{where}")
        total = compared_total(question, Fraction(1))
        allowed = [plan for plan in question.bounding_options if plan.strategy is not Strategy.CLIP_L2]
        assert total.bounded in allowed
        changes = [plan.measures[0].sensitivity.linf * plan.measures[0].unit_value for plan in allowed]
        assert changes[allowed.index(total.bounded)] == min(changes)


def fake(linf: int, unit: Fraction, order: int | None, strategy: str = "s") -> Any:
    measure = SimpleNamespace(sensitivity=SimpleNamespace(linf=linf), unit_value=unit)
    return SimpleNamespace(measures=[measure], strategy=SimpleNamespace(norm_order=order, value=strategy))


def test_the_change_is_compared_in_the_values_own_unit(clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.curator.proposals.sessions.SteppedTotal", lambda bounded, grid: (bounded, grid))
    question: Any = clinic.sql("SELECT SUM(cost) FROM visits")
    options = [
        fake(1, Fraction(50), None),
        fake(300, Fraction(1, 100), 1),
        fake(4, Fraction(1), 1),
        fake(1, Fraction(1, 100), 2),
        fake(1000, Fraction(1, 200), None),
    ]
    asked: Any = SimpleNamespace(query=question.query, shared_parts=question.shared_parts, bounding_options=options)
    assert compared_total(asked, Fraction(7)) == (options[1], Fraction(7))
    asked.bounding_options = [fake(1, Fraction(1), 2, "clip-l2")]
    with pytest.raises(InvalidParameter, match="Laplace") as refusal:
        compared_total(asked, Fraction(1))
    assert refusal.value.parameter == "strategy"


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT COUNT(*), SUM(age) FROM visits",
        "SELECT COUNT(*) AS a, COUNT(*) AS b FROM visits",
        "SELECT kind, COUNT(*) FROM visits GROUP BY kind",
        "SELECT COUNT(*) FROM visits GROUP BY kind",
        "SELECT COUNT(*) * 2 FROM visits",
        "SELECT -COUNT(*) FROM visits",
        "SELECT 3 FROM visits GROUP BY kind",
        "SELECT AVG(cost) FROM visits",
        "SELECT VARIANCE(cost) FROM visits",
        "SELECT CORR(cost, age) FROM visits",
        "SELECT MEDIAN(age) FROM visits",
        "SELECT COUNT(DISTINCT age) FROM visits",
        "SELECT COUNT(*) FROM visits HAVING COUNT(*) > 5",
        "SELECT COUNT(*) FROM visits LIMIT 1",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) ORDER BY n LIMIT 1",
        "SELECT n + 1 FROM (SELECT COUNT(*) AS n FROM visits)",
        "SELECT SUM(n) FROM (SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind)",
        "SELECT MAX(n) FROM (SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind)",
    ],
)
def test_nothing_is_computed_from_noisy_numbers(clinic: sf.Curator, asked: str) -> None:
    question: Any = clinic.sql(asked)
    with pytest.raises(SfumatoError, match="one count or one sum"):
        compared_total(question, Fraction(1))
