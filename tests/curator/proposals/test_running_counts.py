"""Running totals: what is shown, what it costs, how wrong it is, and what is refused."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from covering_cases import covering
from engine.refilling import refill
from safety.worlds import question
from sfumato.curator import RunningForecast
from sfumato.curator.proposals.running_counts import propose_running_totals
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import InvalidParameter, Overspent, Unsupported
from sfumato.mechanisms.factorisations import MAX_PERIODS
from sfumato.plan.readings.combining import FactoredTotals
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.privacy.numbers import format_number
from sfumato.release.running_totals import RunningAnswer

FIRST, LAST = dt.date(2024, 1, 1), dt.date(2024, 1, 20)
COLUMNS: dict[str, Any] = {
    "day": {"type": "date", "bounds": [FIRST.isoformat(), LAST.isoformat()]},
    "region": {"values": ["north", "south"]},
    "cost": {"type": "real", "bounds": [-5, 10], "grid": "0.5"},
    "step": {"type": "integer", "bounds": [1, 7]},
    "diagnosis": {"type": "text"},
}
VISITS = "SELECT day, COUNT(*) AS visits FROM visits GROUP BY day"


def frame(count: int = 300) -> pd.DataFrame:
    index = np.arange(count)
    return pd.DataFrame(
        {
            "who": index // 2,
            "day": [FIRST + dt.timedelta(days=int(each)) for each in index * 7 % 20],
            "region": np.where(index % 3 == 0, "north", "south"),
            "cost": (index % 30) / 2 - 5,
            "step": index % 7 + 1,
            "diagnosis": "d",
        }
    )


def policy(data: pd.DataFrame | None = None, **more: Any) -> sf.Policy:
    given = {"neighbours": "add-remove", "every_row": False, "rows": 2, "per_group": 1, "budget": (20, "1e-6")} | more
    owner: dict[str, Any] = {"id": "row"}
    if not given["every_row"]:
        owner = {"id": "who", "max_rows": given["rows"], "max_rows_per_group": given["per_group"]}
    table = sf.Table("visits", frame() if data is None else data, given.get("columns", COLUMNS), **owner)
    unit = sf.PrivacyUnit("person", every_row=given["every_row"])
    budget = sf.Budget(*given["budget"], neighbours=given["neighbours"])
    return sf.Policy(unit, budget, {"visits": table}, size=200)


def curator(folder: Path, **more: Any) -> sf.Curator:
    folder.mkdir(exist_ok=True)
    return sf.Curator(policy(**more), folder / "visits.ledger")


@pytest.fixture
def clinic(tmp_path: Path) -> Any:
    with curator(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def uncharged(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A curator that refuses, and is charged nothing."""
    with curator(tmp_path_factory.mktemp("clinic")) as found:
        yield found


def charges(made: sf.Curator) -> int:
    return sum(line.kind == "charge" for line in made.history())


SERIES: dict[str, tuple[list[str], str | None]] = {
    VISITS: (["day"], None),
    "SELECT COUNT(*) AS n, day, region FROM visits WHERE cost >= 0 GROUP BY region, day": (["region", "day"], None),
    "SELECT step, SUM(cost) AS total FROM visits GROUP BY step ORDER BY step": (["step"], "cost"),
    "SELECT DATE_TRUNC('week', day) AS week, COUNT(cost) AS n FROM visits GROUP BY week": (["week"], None),
    "SELECT step, day, COUNT(*) AS n FROM visits GROUP BY day, step": (["step", "day"], None),
}
"""Questions with the keys that they group by, the period last, and the column that is added up."""


@covering({"text": [*SERIES], "price": [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-7"}, {"rho": "0.05"}]})
def test_without_noise_they_are_the_running_totals(
    text: str, price: Any, clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, what = SERIES[text]
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    found = clinic.running(text).release(**price)
    rows = frame()
    rows["week"] = [each - dt.timedelta(days=each.weekday()) for each in rows["day"]]
    rows = rows[rows["cost"] >= 0] if "WHERE" in text else rows
    (numbers,) = found.intervals
    assert found.period == keys[-1]
    assert set(found.keys) == set(keys)
    for row, interval in zip(found.to_pandas(ranges=False).to_dict("records"), found.intervals[numbers], strict=True):
        before = rows[rows[keys[-1]] <= row[keys[-1]]]
        for key in keys[:-1]:
            before = before[before[key] == row[key]]
        expected = before[what].sum() if what else len(before)
        assert row[numbers] == pytest.approx(expected, abs=1e-5)
        assert interval[0] < expected < interval[1]
    assert len(found.rows) == {"day": 20, "step": 7, "week": 3}[keys[-1]] * {"region": 2, "step": 7}.get(
        keys[0] if len(keys) > 1 else "", 1
    )
    assert charges(clinic) == 1


_COSTS = "SELECT day, SUM(cost) AS c FROM visits GROUP BY day"


@pytest.mark.parametrize(
    ("relation", "text"),
    [
        pytest.param("add-remove", VISITS, id="count-add-remove"),
        pytest.param("replace", _COSTS, id="sum-replace"),
        pytest.param("replace", VISITS, marks=pytest.mark.long, id="count-replace"),
        pytest.param("add-remove", _COSTS, marks=pytest.mark.long, id="sum-add-remove"),
    ],
)
def test_no_unit_moves_what_is_measured_further_than_is_charged(relation: str, text: str) -> None:
    """Tables in which one person has up to one row more than count, whatever the days and values; both relations."""
    three = {**COLUMNS, "day": {"type": "date", "bounds": ["2024-01-01", "2024-01-03"]}}
    rows = [*itertools.product((0, 2), (-5.0, 10.0))] if "SUM" in text else [*itertools.product(range(3), (1.0,))]
    worlds = [each for count in range(4) for each in itertools.combinations_with_replacement(rows, count)]
    first = DuckDB(declared := policy(frame(1), columns=three, neighbours=relation))
    asked = question(first, declared, text)
    proposal = propose_running_totals(asked._context, asked)
    readings: dict[Any, FactoredTotals] = {
        (family, way.reading.bounded.strategy, way.factorisation): way.reading
        for family in (sf.Laplace, sf.Gaussian)
        for way in proposal._factored_strategies(family)  # type: ignore[type-abstract]
    }
    exact: dict[Any, dict[Any, Any]] = {name: {} for name in readings}
    for world in worlds:
        people = [(0, 0, 0.5), (0, 2, 1.0), *((1, day, cost) for day, cost in world)]
        table = frame(len(people)).assign(
            who=[who for who, _, _ in people],
            day=[FIRST + dt.timedelta(days=day) for _, day, _ in people],
            cost=[cost for _, _, cost in people],
        )
        refill(first, policy(table, columns=three, neighbours=relation))
        read = {
            each.strategy: first.read(GroupTotals(each, proposal._groups_in_series_order), 7)
            for each in asked.bounding_options
        }
        for name, reading in readings.items():
            exact[name][world] = reading.extract(read[reading.bounded.strategy])
    first.close()
    assert len(readings) > 8
    for name, found in exact.items():
        said, values = readings[name].sensitivity, np.array([*found.values()])
        pairs = [values - found[()]] if relation == "add-remove" else [values - each for each in values]
        for change in pairs:
            assert np.abs(change).sum(axis=1).max() <= said.l1
            assert (change.astype(object) ** 2).sum(axis=1).max() <= said.squares
            assert np.abs(change).max() <= said.linf


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": "0.05"}], ids=str)
def test_ranges_hold_as_often_as_they_say(tmp_path: Path, price: Any) -> None:
    """Each by itself, and all together: a sound range fails this with probability below 1e-6."""
    with curator(tmp_path, budget=(10**6, "1e-6")) as made:
        proposal = made.running(VISITS)
        draw = proposal._strategy_at(_price(price), None)
        (measurement,) = draw.batch.measurements
        noise, many = draw.noise, 4000
        drawn = measurement.mechanism.apply(np.zeros((many, len(noise.factorisation.weights)), np.int64))
        errors = np.abs(drawn @ noise.factorisation.decoder.T) * float(noise.unit_value)
        outside = (errors > noise.widths("0.9")).mean(axis=0)
        assert outside.max() <= 0.1 + 6 * (0.09 / many) ** 0.5
        assert outside.max() >= 0.1 - 0.03  # and is not much wider than that
        assert (errors > noise.widths("0.9", 20)).any(axis=1).mean() <= 0.1 + 5.2 * (0.09 / many) ** 0.5


def _price(given: Any) -> Any:
    from sfumato.release.prices import Price

    return Price(**given)


def _verdict(proposal: Any, divided: int) -> sf.audit.Verdict:
    """An attacker who knows all but one person, who has a row on the first day, looks at all running totals; the noise
    is so many times smaller than it should be.
    """
    draw = proposal._strategy_at(_price({"epsilon": 1}), None)
    (measurement,) = draw.batch.measurements
    decoder, noise = draw.noise.factorisation.decoder, sf.Laplace(measurement.mechanism.scale / divided)
    weights = measurement.reading.weights
    moved, size = weights[:, 0], float(noise.scale)  # type: ignore[arg-type]

    def world(exact: Any) -> Any:
        def sample(count: int) -> Any:
            running = noise.apply(np.tile(exact, (count, 1))) @ decoder.T
            blocks = np.diff(running, axis=1, prepend=0) @ weights.T  # as far as the running totals tell them
            return (np.abs(blocks) - np.abs(blocks - moved)).sum(axis=1) / size

        return sample

    return sf.audit.falsify((world(np.zeros_like(moved)), world(moved)), sf.Guarantee(1), 200_000, "0.999999")


@pytest.mark.long
def test_samples_do_not_refute_the_promise_and_refute_noise_for_a_release_of_each_block(tmp_path: Path) -> None:
    """The broken twin adds noise as if every row were in one block alone: it is in one of each size."""
    with curator(tmp_path, every_row=True) as made:
        proposal = made.running(VISITS)
        draw = proposal._strategy_at(_price({"epsilon": 1}), None)
        levels = int(draw.batch.measurements[0].sensitivity.l1) // 2**draw.noise.factorisation.bits
        assert levels == 2
        assert _verdict(proposal, 1).holds
        assert not _verdict(proposal, levels).holds


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-7"}, {"rho": "0.05"}], ids=str)
def test_what_is_charged_keeps_the_price(clinic: sf.Curator, price: Any) -> None:
    for family in (None, sf.Gaussian) if "delta" in price else (None,):
        draw = clinic.running(VISITS)._strategy_at(_price(price), family)
        assert draw.price.is_satisfied_by(draw.batch.curve)
    less = clinic.running(VISITS)._strategy_at(
        _price({k: v if k == "delta" else float(v) / 2 for k, v in price.items()}), None
    )
    assert less.noise.widths().max() > draw.noise.widths().max()


def test_the_error_is_known_before_and_prices_reach_it(clinic: sf.Curator) -> None:
    proposal = clinic.running(VISITS)
    said = proposal.error(epsilon=1)
    assert len(said.widths) == 20
    assert said.worst == max(said.widths)
    assert said[FIRST] == said.widths[0] < said.worst
    assert said.accepted
    assert not said.stored
    assert RunningForecast.from_json(said.to_json()) == said
    assert "in the worst of 20 periods" in str(said)
    assert proposal.error(epsilon=1, joint=True).worst > said.worst
    assert not proposal.error(epsilon=100).accepted
    with pytest.raises(InvalidParameter, match="period"):
        said[dt.date(2023, 1, 1)]
    for delta in (0, "1e-7"):
        price = proposal.price(within=40, delta=delta)
        assert proposal.error(epsilon=price, delta=delta).worst <= 40
        assert proposal.error(epsilon=0.98 * price, delta=delta).worst > 40
    with pytest.raises(InvalidParameter, match="whole"):
        proposal.price(within="0.5")
    explained = str(proposal.explain(epsilon=1))
    assert "20 periods" in explained
    assert f"±{format_number(said.worst)} in the worst" in explained
    assert "at ε = 1:" in str(proposal.explain())
    assert charges(clinic) == 0


def test_they_are_bought_once_shown_again_and_read_back(clinic: sf.Curator) -> None:
    proposal = clinic.running(VISITS)
    found = proposal.release(epsilon=1)
    assert isinstance(found, RunningAnswer)
    assert RunningAnswer.from_json(found.to_json()) == found
    assert found.receipt.guarantee == "ε = 1"
    assert "least squares" in found.receipt.mechanisms[0] or "each period" in found.receipt.mechanisms[0]
    again = clinic.running("SELECT day AS d, COUNT(*) FROM visits GROUP BY day").release(
        epsilon="0.5", confidence="0.5"
    )
    assert again.receipt.free
    assert [row[1] for row in again.rows] == [row[1] for row in found.rows]
    assert again.intervals[again.columns[1]][3][1] < found.intervals["visits"][3][1]
    assert proposal.error(epsilon="0.5").stored
    assert not proposal.release(epsilon="0.5", fresh=True).receipt.free
    assert charges(clinic) == 2
    plain: Any = clinic.sql(VISITS)
    assert plain.identity != proposal.identity
    assert not plain.release(epsilon=1).receipt.free  # counts of single days are another release
    assert not json.loads(found.to_json())["receipt"]["free"]
    assert list(found.to_pandas().columns) == ["day", "visits", "visits_low", "visits_high"]
    assert found.to_csv().splitlines()[0] == "day,visits,visits_low,visits_high"
    assert "protects" in repr(found)


def test_one_period_is_the_plain_count_and_the_builder_asks_too(tmp_path: Path) -> None:
    with curator(tmp_path) as made:
        one = made.running("SELECT day, COUNT(*) AS n FROM visits WHERE day = DATE '2024-01-05' GROUP BY day")
        assert len(one.periods) == 1
        plain: Any = made.sql("SELECT COUNT(*) AS n FROM visits WHERE day = DATE '2024-01-05'")
        assert one.error(epsilon=1).worst == pytest.approx(plain.error(epsilon=1)["n"], rel=0.2)
        built: Any = made.table("visits").group_by("day").agg(visits=sf.count())
        assert made.running(built).identity == made.running(VISITS).identity
        assert made.running(VISITS).limit(rows=1).error(epsilon=1).worst < made.running(VISITS).error(epsilon=1).worst


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_units_with_more_rows_and_replaced_ones_have_more_noise(tmp_path: Path, neighbours: str) -> None:
    found = []
    for rows, per_group in ((1, 1), (3, 1), (3, 3)):
        with curator(tmp_path / f"{rows}{per_group}", rows=rows, per_group=per_group, neighbours=neighbours) as made:
            found.append(made.running(VISITS).error(rho="0.05").worst - 0.5)
    assert found[0] < found[1] < found[2] == pytest.approx(3 * found[0], rel=0.05)
    if neighbours == "replace":
        with curator(tmp_path / "added", rows=1) as made:
            added = made.running(VISITS).error(rho="0.05").worst - 0.5
        assert found[0] == pytest.approx(2**0.5 * added, rel=1e-3)


def test_an_account_without_enough_refuses_and_nothing_is_read(tmp_path: Path) -> None:
    with curator(tmp_path, budget=("0.5",)) as made:
        with pytest.raises(Overspent):
            made.running(VISITS).release(epsilon=1)
        assert charges(made) == 0


def test_gaussian_noise_keeps_out_while_the_pure_currency_is_open_unless_it_halves_the_error(tmp_path: Path) -> None:
    with curator(tmp_path) as made:
        proposal = made.running(VISITS)
        assert "Laplace" in str(proposal.explain(epsilon="0.1", delta="1e-7"))
        assert "Gaussian" in str(proposal.explain(epsilon=1, delta="1e-7", mechanism=sf.Gaussian))
        assert "Gaussian" in str(proposal.explain(rho="0.05"))
        for mechanism, price in ((sf.Gaussian, {"epsilon": 1}), (sf.Laplace, {"rho": 1}), (int, {"epsilon": 1})):
            with pytest.raises(InvalidParameter, match="mechanism"):
                proposal.error(mechanism=mechanism, **price)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT COUNT(*) AS n FROM visits", "no-period-key"),
        ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", "no-period-key"),
        ("SELECT day, DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY day, m", "two-period-keys"),
        ("SELECT step, step + 1 AS next, COUNT(*) AS n FROM visits GROUP BY step, next", "two-period-keys"),
        ("SELECT day, AVG(cost) AS c FROM visits GROUP BY day", "running-measure"),
        ("SELECT day, COUNT(DISTINCT who) AS c FROM visits GROUP BY day", "running-measure"),
        ("SELECT day, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY day", "running-columns"),
        ("SELECT day FROM visits GROUP BY day", "running-columns"),
        ("SELECT day, diagnosis, COUNT(*) AS n FROM visits GROUP BY day, diagnosis", "unknown-periods"),
        ("SELECT COUNT(*) AS n FROM visits GROUP BY day", "running-keys"),
        ("SELECT day, COUNT(*) * 2 AS n FROM visits GROUP BY day", "running-shape"),
        ("SELECT day, COUNT(*) AS n FROM visits GROUP BY day HAVING COUNT(*) > 5", "running-shape"),
        ("SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY n", "running-shape"),
        ("SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY day LIMIT 3", "running-shape"),
        ("SELECT day, region, COUNT(*) AS n FROM visits GROUP BY ROLLUP (day, region)", "running-shape"),
        ("SELECT MAX(n) AS m FROM (SELECT day, COUNT(*) AS n FROM visits GROUP BY day) AS q", "running-shape"),
        ("SHOW TABLES", "running-listing"),
    ],
)
def test_what_has_no_running_totals_is_refused_with_a_fix(uncharged: sf.Curator, text: str, code: str) -> None:
    with pytest.raises(Unsupported) as refused:
        uncharged.running(text)
    assert refused.value.code == code
    assert refused.value.fix
    assert charges(uncharged) == 0


def test_very_many_periods_are_refused_and_a_few_thousand_days_by_weeks_are_not(tmp_path: Path) -> None:
    ages = {**COLUMNS, "day": {"type": "date", "bounds": ["1750-01-01", "2023-12-31"]}}
    with curator(tmp_path, columns=ages) as made:
        with pytest.raises(Unsupported, match=f"at most {MAX_PERIODS:,} periods; this question has 100,076") as refused:
            made.running(VISITS)
        assert "weeks or months" in refused.value.fix
        weekly = made.running(
            "SELECT DATE_TRUNC('week', day) AS week, COUNT(*) AS n FROM visits "
            "WHERE day >= DATE '2010-01-01' GROUP BY week"
        )
        assert MAX_PERIODS > len(weekly.periods) > 700


def test_pictures_are_lines_with_bands(clinic: sf.Curator, tmp_path: Path) -> None:
    one = clinic.running(VISITS).release(epsilon=1)
    drawn = one.to_altair().to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["area", "line"]
    assert drawn["layer"][0]["encoding"]["x"]["type"] == "temporal"
    several = clinic.running("SELECT region, step, COUNT(*) AS n FROM visits GROUP BY region, step").release(epsilon=1)
    assert one.plot().svg.count("<polygon") == 1
    drawn = several.to_altair().to_dict()
    assert drawn["layer"][0]["encoding"]["x"]["type"] == "quantitative"
    several.plot(str(tmp_path / "lines.svg"))
    assert (tmp_path / "lines.svg").read_text().startswith("<svg")


def test_a_question_of_another_curator_is_refused(tmp_path: Path) -> None:
    """Under another policy one unit may change less: every row is one there, and here a person has many."""
    crowd = frame().assign(who=1)
    (tmp_path / "crowd").mkdir()
    with sf.Curator(policy(crowd), tmp_path / "crowd" / "l") as made, curator(tmp_path / "r", every_row=True) as other:
        foreign = other.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day")
        with pytest.raises(sf.InvalidParameter, match="a question made by this curator"):
            made.running(foreign)  # type: ignore[arg-type]


def test_who_asks_for_running_totals_pays(tmp_path: Path) -> None:
    with sf.Curator(replace(policy(), analysts={"ana": "0.1"}), tmp_path / "l") as made:
        asked = made.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day")
        with pytest.raises(Overspent, match="share"):
            made.as_analyst("ana").running(asked).release(epsilon=3)  # type: ignore[arg-type]
        made.running(asked).release(epsilon=3)  # type: ignore[arg-type]


def test_a_receipt_says_whether_all_ranges_hold_at_once(clinic: sf.Curator) -> None:
    alone, all_of_them = (clinic.running(VISITS).release(epsilon=1, joint=joint) for joint in (False, True))
    assert "each covers the noise" in str(alone.receipt)
    assert "all together cover the noise" in str(all_of_them.receipt)


def test_times_of_a_data_frame_are_grouped_by_day(tmp_path: Path) -> None:
    """pandas stores days as times: the refusal says how to name the days."""
    frame = pd.DataFrame({"who": [1, 2], "day": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    bounds = {"day": ["2024-01-01", "2024-01-05"]}
    terms: dict[str, Any] = {"unit": "who", "max_rows": 1, "epsilon": 1, "account": "a"}
    with sf.protect(frame, bounds=bounds, ledger=tmp_path / "ledger.db", **terms) as curator:
        with pytest.raises(Unsupported, match="day is a time") as refused:
            curator.running("SELECT day, COUNT(*) AS n FROM data GROUP BY day")
        assert "CAST(day AS DATE) AS day" in refused.value.fix
        by_day = curator.running("SELECT CAST(day AS DATE) AS day, COUNT(*) AS n FROM data GROUP BY 1")
        assert by_day.error(epsilon=1)
