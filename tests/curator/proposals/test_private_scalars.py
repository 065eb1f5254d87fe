"""Rows compared with a released number: values as DuckDB computes them, one tab, one answer, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from cli.running import run
from sfumato.curator.proposals import private_scalars
from sfumato.curator.proposals.private_scalars import ScalarQuestion
from sfumato.engine.duckdb.driver import StatementReader
from sfumato.errors import RequestDiffers
from sfumato.ledger import entries
from sfumato.plan.released_values import value_in_domain
from sfumato.plan.values.expressions import Literal
from sfumato.policy import Domain
from sfumato.privacy import codec
from sfumato.release.requests import PriceRequest

POLICY = """
[unit]
name = "patient"
neighbours = "add-remove"
budget = { epsilon = 1e9, delta = 1e-5 }
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 5
[tables.visits.columns]
day = { type = "date", bounds = ["2024-01-01", "2024-12-31"] }
ward = { values = ["a", "b"] }
drug = { type = "text" }
cost = { type = "integer", bounds = [0, 100] }
debt = { type = "real", bounds = [-10, 10] }
"""
ABOVE = "SELECT ward, COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits) GROUP BY ward ORDER BY ward"
PER_UNIT = "(SELECT who, SUM(cost) AS spent FROM visits GROUP BY who)"
SAME = [
    ABOVE,
    "SELECT SUM(cost) AS s FROM visits WHERE debt > 0 AND"
    " cost >= 0.5 * (SELECT AVG(cost) FROM visits WHERE ward = 'a')",
    "SELECT SUM(ABS(cost - (SELECT AVG(cost) FROM visits))) AS s FROM visits",
    "SELECT COUNT(*) FILTER (WHERE debt < (SELECT AVG(debt) FROM visits)) AS low, COUNT(*) AS n FROM visits",
    "SELECT CASE WHEN cost > (SELECT AVG(cost) FROM visits) THEN 'above' ELSE 'below' END AS k, COUNT(*) AS n"
    " FROM visits GROUP BY k ORDER BY k",
    "WITH m AS (SELECT AVG(cost) AS c FROM visits) SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT c FROM m)",
    f"SELECT COUNT(*) AS n FROM {PER_UNIT} WHERE spent > (SELECT AVG(spent) FROM {PER_UNIT})",
    "SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = v.who AND"
    " w.cost > (SELECT AVG(cost) FROM visits)) AND cost < (SELECT AVG(cost) FROM visits)",
    "SELECT COUNT(*) AS n FROM (SELECT cost - (SELECT AVG(cost) FROM visits) AS x FROM visits)"
    " WHERE x BETWEEN -20 AND 20",
    "SELECT COUNT(*) AS n FROM visits WHERE ABS(cost - (SELECT AVG(cost) FROM visits)) <"
    " (SELECT STDDEV(cost) FROM visits)",
]


@pytest.fixture(scope="module")
def visits() -> pd.DataFrame:
    random = np.random.default_rng(3)
    many = 900
    return pd.DataFrame(
        {
            "who": np.arange(many) // 3,
            "day": [dt.date(2024, 1, 1) + dt.timedelta(int(day)) for day in random.integers(0, 300, many)],
            "ward": random.choice(["a", "b"], many),
            "drug": random.choice(["x", "y"], many),
            "cost": random.integers(0, 101, many),
            "debt": np.round(random.uniform(-10, 10, many), 2),
        }
    )


def _open(folder: Path, rows: pd.DataFrame, policy: str = POLICY) -> sf.Curator:
    rows.to_csv(folder / "visits.csv", index=False)
    (folder / "policy.toml").write_text(policy)
    return sf.Curator(folder / "policy.toml")


@pytest.fixture(scope="module")
def clinic(visits: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with _open(tmp_path_factory.mktemp("clinic"), visits) as opened:
        yield opened


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
@pytest.mark.parametrize("text", SAME)
def test_without_noise_it_is_what_duckdb_computes(clinic: sf.Curator, visits: pd.DataFrame, text: str) -> None:
    answer = clinic.sql(text).release(epsilon=1e7)
    with duckdb.connect() as rows:
        raw = rows.register("visits", visits).sql(text).fetchall()
    assert len(answer.rows) == len(raw) > 0
    for released, exact in zip(answer.rows, raw, strict=True):
        assert [cell for cell in released if isinstance(cell, str)] == [cell for cell in exact if isinstance(cell, str)]
        numbers = [[cell for cell in row if not isinstance(cell, str)] for row in (released, exact)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-3, abs=1)
    assert isinstance(clinic.sql(text), ScalarQuestion)


def test_a_selected_day_is_a_day(clinic: sf.Curator) -> None:
    asked = clinic.sql("SELECT COUNT(*) AS n FROM visits WHERE day > (SELECT MAX(day) FROM visits) - INTERVAL 30 DAY")
    answer = asked.release(epsilon=5)
    assert 0 < answer.rows[0][0] < 300
    assert "(SELECT MAX(day) FROM visits) as 2024-" in answer.warnings[0]


def test_the_tab_spends_all_steps_once(clinic: sf.Curator) -> None:
    asked: Any = clinic.sql(ABOVE)
    before = clinic.budget.spent
    answer = asked.release(epsilon=2, request_id="once")
    prepared = asked.price_release(PriceRequest(2))
    account = clinic._context.account
    costs = [account.cost(curve) for curve in prepared.curves]
    spent = {name: amount - before[name] for name, amount in clinic.budget.spent.items()}
    assert spent == {name: costs[0].amounts[name] + costs[1].amounts[name] for name in spent}  # type: ignore[operator]
    assert answer.receipt.guarantee == "ε = 2"
    assert len(answer.receipt.mechanisms) == 2
    after = clinic.budget.spent
    again = asked.release(epsilon=2, request_id="once")
    wider = asked.release(epsilon=2, request_id="once", confidence="0.99", joint=True)
    assert again.rows == wider.rows == answer.rows
    assert again.receipt.free
    assert wider.receipt.free
    assert clinic.budget.spent == after
    width = [high - low for low, high in answer.intervals["n"]]  # type: ignore[misc]
    wide = [high - low for low, high in wider.intervals["n"]]  # type: ignore[misc]
    assert max(width) < min(wide)
    assert wider.receipt.joint
    assert wider.receipt.confidence == "0.99"
    assert sf.Answer.from_json(answer.to_json()) == answer
    with pytest.raises(RequestDiffers):
        clinic.sql(ABOVE.replace("AVG", "MEDIAN")).release(epsilon=2, request_id="once")
    assert asked.release(epsilon=2).rows != answer.rows or clinic.budget.spent != after


def test_the_number_shown_is_the_one_that_rows_are_compared_with(
    clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Any] = []
    substitute = private_scalars.with_released_values

    def recorded(part: Any, values: Any) -> Any:
        used.append(tuple(values))
        return substitute(part, values)

    monkeypatch.setattr(private_scalars, "with_released_values", recorded)
    asked = clinic.sql(ABOVE)
    shown = [asked.release(epsilon=0.2, request_id=f"shown {number}", confidence=0.5) for number in range(3)]
    shown += [asked.release(epsilon=0.2, request_id="shown 0", confidence=0.9)]
    numbers = [values[0] for values in used if values[0] not in (0, 100, None)]
    assert len(set(numbers)) == len(numbers) == 3
    for number, answer in zip([*numbers, numbers[0]], shown, strict=True):
        (note,) = (line for line in answer.warnings if "(SELECT AVG(cost) FROM visits)" in line)
        told = float(note.split("(SELECT AVG(cost) FROM visits) as ")[1].split(" ±")[0])
        assert told == pytest.approx(float(number), abs=0.5)
        assert "± of the answer treats the released number as exact" in note


def test_a_forecast_says_what_the_answer_will(clinic: sf.Curator) -> None:
    asked: Any = clinic.sql(ABOVE)
    forecast = asked.error(epsilon=1)
    answer = asked.release(epsilon=1)
    for low, high in answer.intervals["n"]:
        assert (high - low) / 2 <= forecast["n"]
    assert any("Released first: (SELECT AVG(cost) FROM visits) for ε = 0.25" in line for line in forecast.warnings)
    assert "ε = 1" in forecast.price
    least = asked.price(within={"n": 40})
    assert asked.error(epsilon=least)["n"] <= 40 < asked.error(epsilon=0.98 * least)["n"]
    bought = asked.release(within={"n": 40})
    assert all(high - low <= 80 for low, high in bought.intervals["n"])
    text = str(asked.explain(epsilon=1))
    assert text.index("(SELECT AVG(cost) FROM visits)") < text.index("then")
    assert "for ε = 0.75" in text
    assert asked.preview(epsilon=1).is_preview
    assert asked.limit(rows=1).error(epsilon=1)["n"] < forecast["n"]
    assert asked.limit(rows=1).identity != asked.identity
    assert str(asked.plot())
    assert asked.advise(epsilon=1)


def test_an_error_between_the_steps_spends_the_whole_hold(
    visits: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _open(tmp_path, visits) as made:
        asked: Any = made.sql(ABOVE)

        def fail(*_: Any) -> Any:
            raise OSError("the process is killed here")

        monkeypatch.setattr(ScalarQuestion, "_released_values", fail)
        with pytest.raises(OSError, match="killed here"):
            asked.release(epsilon=3, request_id="died")
        assert float(made.budget.spent["pure"]) == pytest.approx(3)
        monkeypatch.undo()
        with pytest.raises(sf.SfumatoError):
            asked.release(epsilon=3, request_id="died")
        assert float(made.budget.spent["pure"]) == pytest.approx(3)


@pytest.mark.parametrize("rows", ["none", "one", "missing", "extreme"])
def test_every_charged_release_answers(rows: str, visits: pd.DataFrame, tmp_path: Path) -> None:
    frame = {
        "none": visits[:0],
        "one": visits[:1],
        "missing": visits.assign(cost=math.nan),
        "extreme": visits.assign(cost=10**9),
    }[rows]
    with _open(tmp_path, frame) as made:
        answer = made.sql(
            "SELECT COUNT(*) AS n, SUM(cost - (SELECT AVG(cost) FROM visits)) AS s FROM visits"
            " WHERE cost >= (SELECT MEDIAN(cost) FROM visits) OR cost > (SELECT COUNT(*) FROM visits)"
        ).release(epsilon="0.001")
        assert len(answer.rows) == 1
        assert float(made.budget.spent["pure"]) == pytest.approx(0.001)


def test_groups_that_are_found_take_the_delta(clinic: sf.Curator) -> None:
    asked = clinic.sql(ABOVE.replace("ward", "drug"))
    with pytest.raises(sf.Unsupported, match="not declared"):
        asked.release(epsilon=1)
    answer = asked.release(epsilon=5, delta="default", request_id="found")
    assert {drug for drug, _ in answer.rows} == {"x", "y"}
    assert answer.receipt.guarantee == "ε = 5, δ = 1e-09"
    assert "No δ was given" in str(asked.error(epsilon=5))


def test_released_numbers_are_clamped_to_what_is_declared() -> None:
    age, real = Domain("integer", bounds=(0, 9)), Domain("real", bounds=(-1, "2.5"))
    assert [value_in_domain(value, age) for value in (-3, 4.6, 1e300, None)] == [0, 5, 9, None]
    assert [value_in_domain(value, real) for value in (-3.0, 0.1, 7.0)] == [-1, Fraction("0.1"), Fraction("2.5")]
    assert value_in_domain(1e300, Domain("integer")) == 2**62
    assert value_in_domain(-1e300, Domain("real")) == -(2**500)
    assert value_in_domain(1e-300, Domain("real")) == 0
    day = Domain("date", bounds=("2024-01-01", "2024-02-01"))
    assert value_in_domain(dt.date(2025, 1, 1), day) == dt.date(2024, 2, 1)


INNER = "SELECT AVG(cost) FROM visits"
REFUSED: dict[str, Any] = {
    "clipped": lambda made: made.sql(ABOVE).clipped(),
    "sample": lambda made: made.sql(ABOVE).release(epsilon=1, sample="10 %"),
    "free": lambda made: made.sql(ABOVE).release(free=True),
    "sample of": lambda made: made.sql(ABOVE).release(epsilon=1, sample_of=500),
    "workload": lambda made: made.workload([ABOVE]),
    "test": lambda made: made.test(ABOVE, "chi-squared"),
    "builder": lambda made: made.table("visits").where(f"cost > ({INNER})").count().release(epsilon=1),
    "running": lambda made: made.running(f"SELECT day, COUNT(*) AS n FROM visits WHERE cost > ({INNER}) GROUP BY day"),
    "two at once": lambda made: made.sql(ABOVE.replace("COUNT(*)", f"COUNT(*) / ({INNER})")),
    "nested": lambda made: made.sql(ABOVE.replace("FROM visits)", f"FROM visits WHERE cost > ({INNER}))")),
}


@pytest.mark.parametrize("way", REFUSED)
def test_what_is_made_of_one_release_refuses_it_before_it_is_charged(clinic: sf.Curator, way: str) -> None:
    before = clinic.budget.spent
    with pytest.raises(sf.SfumatoError) as refused:
        REFUSED[way](clinic)
    assert refused.value.fix
    if INNER in str(refused.value.fix):
        assert clinic.sql(INNER).error(epsilon=1)
    assert clinic.budget.spent == before


def test_too_many_numbers_are_refused(visits: pd.DataFrame, tmp_path: Path) -> None:
    many = " AND ".join(f"cost > (SELECT AVG(cost) FROM visits WHERE cost > {least})" for least in range(10))
    with _open(tmp_path, visits) as made, pytest.raises(sf.Unsupported, match="at most 9 results of subqueries"):
        made.sql(f"SELECT COUNT(*) FROM visits WHERE {many}")


def test_the_shell_asks_it_too(visits: pd.DataFrame, tmp_path: Path) -> None:
    _open(tmp_path, visits).close()
    asked = run("query", tmp_path / "policy.toml", ABOVE, "--epsilon", "2")
    assert "Released first: (SELECT AVG(cost) FROM visits) as " in asked.output


TABLES = """
[tables.people]
source = "people.csv"
id = "who"
max_rows = 1
[tables.people.columns]
income = { type = "integer", bounds = [0, 1000] }
[tables.bills]
source = "bills.csv"
id = "who"
max_rows = 1
[tables.bills.columns]
paid = { type = "integer", bounds = [0, 1000] }
"""
TWO = (
    "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT COUNT(*) FROM visits)"
    " AND cost > (SELECT AVG(income) FROM people)"
)
THREE = f"{TWO} AND cost > (SELECT MEDIAN(paid) FROM bills)"


@pytest.fixture
def three_tables(visits: pd.DataFrame, tmp_path: Path) -> Iterator[sf.Curator]:
    for table, column in (("people", "income"), ("bills", "paid")):
        pd.DataFrame({"who": range(50), column: range(50)}).to_csv(tmp_path / f"{table}.csv", index=False)
    with _open(tmp_path, visits[:30], POLICY + TABLES) as made:
        yield made


@pytest.mark.parametrize(
    ("text", "tables", "measures"),
    [
        (TWO, {"visits", "people"}, {"count", "sum"}),
        (THREE, {"visits", "people", "bills"}, {"count", "sum", "rank"}),
        (ABOVE.replace("AVG(cost) FROM visits", "AVG(income) FROM people"), {"visits", "people"}, {"count", "sum"}),
        (ABOVE.replace("COUNT(*)", "SUM(cost)").replace("AVG", "MEDIAN"), {"visits"}, {"sum", "rank"}),
    ],
    ids=["two numbers", "three numbers", "one of another table", "one of another measure"],
)
def test_a_dry_charge_has_what_every_step_reads(
    three_tables: sf.Curator, text: str, tables: set[str], measures: set[str]
) -> None:
    dry = three_tables.dry_charge(lambda to, key: to.sql(text).release(epsilon=1, request_id=key))
    assert dry is not None
    assert (dry.tables, dry.measures) == (tables, measures)


def _literals(part: Any) -> list[Any]:
    """The literals of a reading, in the order in which it has them."""
    if isinstance(part, Literal):
        return [part.value]
    members: Any = ()
    if isinstance(part, tuple):
        members = part
    elif is_dataclass(part) and not isinstance(part, (type, Domain)):
        members = [getattr(part, each.name) for each in fields(part)]
    return [value for member in members for value in _literals(member)]


UNBOUND: dict[str, Callable[[Any], bool]] = {
    "the second number": lambda reading: "income" in repr(reading),
    "the third number": lambda reading: "paid" in repr(reading),
    "all at the lower end": lambda reading: _literals(reading) == [-(2**62), 0, 0],
    "all at the upper end": lambda reading: _literals(reading) == [2**62, 1000, 1000],
    "one at the lower end": lambda reading: _literals(reading) == [2**62, 0, 1000],
    "one at the upper end": lambda reading: _literals(reading) == [-(2**62), 0, 1000],
    "none there": lambda reading: _literals(reading) == [None, None, None],
}


def test_a_step_that_cannot_be_bound_is_refused_before_the_first_is_charged(
    three_tables: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = StatementReader._check
    before, head = three_tables.budget.spent, three_tables.ledger.head
    for unbound, is_unbound in UNBOUND.items():

        def refuse(reader: Any, reading: Any, is_unbound: Callable[[Any], bool] = is_unbound) -> None:
            if is_unbound(reading):
                raise sf.Unsupported("unbound", "the engine does not take this", fix="ask for something else")
            check(reader, reading)

        with monkeypatch.context() as refusing:
            refusing.setattr(StatementReader, "_check", refuse)
            with pytest.raises(sf.Unsupported, match="does not take this"):
                three_tables.sql(THREE).release(epsilon=1)
        assert (three_tables.budget.spent, three_tables.ledger.head) == (before, head), unbound
    assert three_tables.sql(THREE).release(epsilon=1).rows


def test_an_answer_too_large_to_store_is_refused_before_the_first_step_is_charged(
    clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Any = clinic.sql(ABOVE.replace("COUNT(*) AS n", "COUNT(*) AS n, SUM(cost) AS s, SUM(debt) AS d"))
    prepared = asked.price_release(PriceRequest(1))
    steps = *asked._value_releases(prepared), asked._outer_release(prepared, [None])
    first, main = (len(codec.dumps(step.result_at_extreme_totals())) for step in steps)
    assert first < main
    monkeypatch.setattr(entries, "MAX_BODY_LENGTH", main - 1)
    before, head = clinic.budget.spent, clinic.ledger.head
    with pytest.raises(sf.Unsupported, match="too large to store"):
        asked.release(epsilon=1)
    assert (clinic.budget.spent, clinic.ledger.head) == (before, head)


BLIND = Path(__file__).parents[3] / "bench/blind_questions.json"
BLIND_TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "flights": ("tailnum", {name: {"type": "integer", "bounds": [0, 9]} for name in ("distance", "arr_delay")}),
    "people": (
        "person_id",
        {name: {"type": "integer", "bounds": [0, 9]} for name in ("age", "educ", "married", "income", "puma")},
    ),
}


@pytest.mark.parametrize("number", [34, 64, 65, 80])
def test_a_question_of_outsiders_is_answered_or_told_one_that_is(number: int, tmp_path: Path) -> None:
    """What they typed without the reference: a fix is a statement that is released as it stands."""
    (asked,) = (each for each in json.loads(BLIND.read_text(encoding="utf-8")) if each["id"] == number)
    column_id, columns = BLIND_TABLES[asked["table"]]
    rows = pd.DataFrame({column_id: [f"u{row}" for row in range(30)], **{name: np.arange(30) % 10 for name in columns}})
    table = sf.Table(asked["table"], rows, columns, id=column_id, max_rows=2, max_groups=2)
    policy = sf.Policy(sf.PrivacyUnit("unit"), sf.Budget(100, "1e-6"), {asked["table"]: table})
    with sf.Curator(policy, ledger=tmp_path / "blind.ledger") as made:
        text = asked["sql"]
        if number != 64:
            with pytest.raises(sf.Unsupported) as refused:
                made.sql(text)
            assert "…" not in refused.value.fix
            text = refused.value.fix.partition(": ")[2]
        assert len(made.sql(text).release(epsilon=1).rows) == {34: 4, 64: 10, 65: 5, 80: 1}[number]
