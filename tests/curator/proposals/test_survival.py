"""Survival curves: what is measured, charged and found again; what is refused; what is shown."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.curator.kinds.survival import SurvivalSpec
from sfumato.curator.proposals.survival import MAX_PERIODS, SurvivalColumns, _declared_periods
from sfumato.errors import InvalidParameter, Overspent, Unsupported
from sfumato.inference.survival import SurvivalCurves
from sfumato.policy import Domain, Type

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
COLUMNS: dict[str, Any] = {
    "months": {"type": "integer", "bounds": [0, 11]},
    "years": {"type": "real", "bounds": [0, 1]},
    "died": {"type": "boolean"},
    "status": {"values": ["alive", "dead", "it's unknown"]},
    "arm": {"values": ["old", "new"]},
    "ward": {"type": "text"},
    "free": {"type": "integer"},
    "place": {"values": [f"place {number}" for number in range(41)]},
}


def patients(count: int = 800) -> pd.DataFrame:
    generator, index = np.random.default_rng(5), np.arange(count)
    months, died = generator.integers(0, 12, count), generator.random(count) < 0.6
    return pd.DataFrame(
        {
            "who": index,
            "months": months,
            "years": months / 11,
            "died": died,
            "status": np.where(died, "dead", "alive"),
            "arm": np.where(index % 2, "old", "new"),
            "ward": "w",
            "free": months,
            "place": "place 3",
        }
    )


def open_clinic(
    folder: Path, data: pd.DataFrame | None = None, *, neighbours: str = "add-remove", rows: int = 1, epsilon: int = 100
) -> sf.Curator:
    table = sf.Table("patients", patients() if data is None else data, COLUMNS, id="who", max_rows=rows)
    budget = sf.Budget(epsilon, "1e-6", neighbours=neighbours)
    return sf.Curator(sf.Policy(sf.PrivacyUnit("patient"), budget, {"patients": table}, size=800), folder / "ledger")


@pytest.fixture
def clinic(tmp_path: Path) -> Any:
    with open_clinic(tmp_path) as curator:
        yield curator


@pytest.fixture(scope="module")
def uncharged(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A curator that refuses, and is charged nothing."""
    with open_clinic(tmp_path_factory.mktemp("clinic")) as curator:
        yield curator


def test_cells_are_the_counts_of_the_rows_with_noise(clinic: sf.Curator) -> None:
    """At ε = 50 discrete noise is almost surely 0 within 1, so the curve is that of the rows."""
    curves = clinic.survival("patients", time="months", event="died", by="arm").release(epsilon=50)
    rows = patients()
    for group, events, censored in zip(curves.groups, curves.events, curves.censored, strict=True):
        own = rows[rows.arm == group]
        for month in range(12):
            died = own[own.months == month].died
            assert events[month] == pytest.approx(died.sum(), abs=0.6)
            assert censored[month] == pytest.approx((~died).sum(), abs=0.6)
    assert curves.groups == ("old", "new")
    assert curves.times == tuple(map(float, range(12)))
    assert curves.life_table("old").at_risk[0] == pytest.approx(400, abs=3)


@pytest.mark.parametrize(("neighbours", "change"), [("add-remove", 1), ("replace", 2)])
def test_a_unit_is_in_one_cell_whatever_the_number_of_periods(tmp_path: Path, neighbours: str, change: int) -> None:
    """Δ₁ = 1, or 2 where a unit is replaced: so the scale at ε is Δ₁/ε, and the charge is ε."""
    with open_clinic(tmp_path, neighbours=neighbours) as clinic:
        proposal = clinic.survival("patients", time="months", event="died", by="arm")
        curves = proposal.release(epsilon="0.5")
        assert curves.count_noise_law.size * curves.count_noise_law.unit == pytest.approx(2 * change)
        assert clinic.budget.largest_pure() == Fraction(199, 2)


def test_curves_are_charged_once_and_found_again(clinic: sf.Curator) -> None:
    proposal = clinic.survival("patients", time="months", event="died")
    bought = proposal.release(epsilon=1)
    assert bought.receipt is not None
    assert not bought.receipt.free
    again = proposal.release(epsilon="0.5")
    assert again.receipt is not None
    assert again.receipt.free
    assert again.events == bought.events
    assert again.log_rank is None
    as_counts = clinic.sql(proposal.question.text).release(epsilon=1)
    assert as_counts.receipt.free
    assert sum(as_counts.column("n")) == pytest.approx(bought.life_table().at_risk[0], abs=13)
    assert clinic.budget.largest(sf.Laplace) == 99


def test_an_overspent_account_refuses(tmp_path: Path) -> None:
    with open_clinic(tmp_path, epsilon=1) as clinic, pytest.raises(Overspent):
        clinic.survival("patients", time="months", event="died").release(epsilon=2)


def test_json_reads_back_and_is_checked(clinic: sf.Curator) -> None:
    curves = clinic.survival("patients", time="months", event="died", by="arm").release(epsilon=1, confidence="0.9")
    assert SurvivalCurves.from_json(curves.to_json()) == curves
    assert str(SurvivalCurves.from_json(curves.to_json())) == str(curves)
    assert hash(curves) == hash(SurvivalCurves.from_json(curves.to_json()))
    with pytest.raises(InvalidParameter):
        SurvivalCurves.from_json(curves.to_json().replace('"groups":["old","new"]', '"groups":["old"]'))
    with pytest.raises(InvalidParameter, match="one of old, new"):
        curves.median("all")


def test_everything_is_shown(clinic: sf.Curator, tmp_path: Path) -> None:
    curves = clinic.survival("patients", time="months", event="died", by="arm").release(epsilon=5)
    text = str(curves)
    for words in ("at risk", "median months, old", "log-rank: χ²", "censored in a period", "90 %", "old"):
        assert (words in text) is (words != "90 %")
    frame = curves.to_pandas()
    assert list(frame.columns[:6]) == ["arm", "time", "at_risk", "events", "censored", "survival"]
    assert (frame.band_low <= frame.low + 1e-9).all()
    assert ((frame.noise_low <= frame.survival) & (frame.survival <= frame.noise_high)).mean() > 0.9
    assert (frame.hazard_low <= frame.cumulative_hazard + 1e-9).all()
    assert ((frame.at_risk_low < frame.at_risk) & (frame.at_risk < frame.at_risk_high)).all()
    assert f"{frame.at_risk[0]:,.0f} ± {frame.at_risk_high[0] - frame.at_risk[0]:,.0f}" in text
    assert frame.attrs["sfumato"]["guarantee"] == "ε = 5"
    picture = curves.plot(str(tmp_path / "curves.svg"))
    assert (tmp_path / "curves.svg").read_text() == picture.svg
    for words in ("at risk", "months until died", "old"):
        assert words in picture.svg
    assert "<svg" in curves._repr_html_()
    assert curves.log_rank is not None
    assert curves.log_rank.p_value > 0.01


def test_a_sampled_answer_is_not_tested(clinic: sf.Curator) -> None:
    question = clinic.sql("SELECT arm, died, COUNT(*) AS n FROM patients GROUP BY arm, died")
    with pytest.raises(Unsupported, match="an answer over a sample cannot be tested"):
        question.release(epsilon=1, sample="0.5").test("independence")


def test_free_calls(clinic: sf.Curator) -> None:
    proposal = clinic.survival(
        "patients", time="years", event="status", by="arm", event_is="it's unknown", every="0.25"
    )
    assert proposal.periods.ends == (0.25, 0.5, 0.75, 1.0)
    assert "2 curves of 4 periods" in str(proposal.explain(1))
    assert proposal.price(4) > 0
    assert proposal.error(1)["n"] > 0
    preview = proposal.preview(1)
    assert preview.is_preview
    assert "invented" in str(preview)
    assert [column.name for column in proposal.columns] == ["arm", "period", "happened", "n"]
    assert ".release() spends" in repr(proposal)
    assert clinic.propose(SurvivalSpec("patients", "months", "died")).groups == (None,)


def test_whole_numbers_are_put_into_periods(clinic: sf.Curator) -> None:
    proposal = clinic.survival("patients", time="months", event="died", every=5)
    assert (proposal.periods.starts, proposal.periods.ends) == ((0.0, 5.0, 10.0), (4.0, 9.0, 11.0))
    curves = proposal.release(epsilon=50)
    rows = patients()
    assert curves.events[0] == pytest.approx(
        [rows[(rows.months // 5 == period) & rows.died].shape[0] for period in range(3)], abs=0.6
    )


def test_a_period_need_not_divide_the_range(clinic: sf.Curator) -> None:
    proposal = clinic.survival("patients", time="years", event="died", every="3/7")
    curves, rows = proposal.release(epsilon=50), patients()
    assert proposal.periods.ends == (3 / 7, 6 / 7, 1.0)
    counted = [rows[(rows.years * 7 // 3 == period) & rows.died].shape[0] for period in range(3)]
    assert curves.events[0] == pytest.approx(counted, abs=0.6)


def test_cells_that_the_condition_rules_out_are_zero(clinic: sf.Curator) -> None:
    curves = clinic.survival("patients", time="months", event="died", where="months >= 3").release(epsilon=50)
    assert curves.events[0][:3] == (0.0, 0.0, 0.0)
    assert curves.events[0][3] > 10


@pytest.mark.parametrize(
    "data", [patients(0), patients(1), patients().assign(died=True, months=11), patients().assign(months=None)]
)
def test_every_charged_release_answers(tmp_path: Path, data: pd.DataFrame) -> None:
    data = data.astype({"months": "Int64"})
    with open_clinic(tmp_path, data) as clinic:
        curves = clinic.survival("patients", time="months", event="died", by="arm").release(epsilon=1)
        assert str(curves)
        assert curves.plot().svg
        assert SurvivalCurves.from_json(curves.to_json()) == curves


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"table": "nobody"}, "no table named 'nobody'"),
        ({"time": "hours"}, "one of the columns"),
        ({"time": "free"}, "declared bounds"),
        ({"time": "arm"}, "declared bounds"),
        ({"event": "months"}, "boolean column, or one with declared values"),
        ({"event": "status"}, "one of 'alive', 'dead'"),
        ({"event": "status", "event_is": "gone"}, "one of 'alive', 'dead'"),
        ({"event_is": "true"}, "boolean column, or one with declared values"),
        ({"by": "ward"}, "declared values, since each value gets a curve"),
        ({"by": "none"}, "one of the columns"),
        ({"by": "place"}, "at most 40 values"),
        ({"every": 0}, "every"),
        ({"every": "0.5"}, "a whole number"),
        ({"time": "years", "every": "0.001"}, f"at most {MAX_PERIODS} periods"),
        ({"where": "months >"}, "SQL"),
        ({"where": "1 = 1) OR (1 = 1"}, "SQL"),
        ({"by": "died"}, "a column other than"),
    ],
)
def test_bad_input_is_refused_before_any_charge(uncharged: sf.Curator, changed: dict[str, Any], rule: str) -> None:
    asked = {"table": "patients", "time": "months", "event": "died"} | changed
    with pytest.raises((InvalidParameter, Unsupported), match=rule):
        uncharged.survival(**asked)
    assert uncharged.budget.largest(sf.Laplace) == 100


def test_times_of_one_value_are_one_period() -> None:
    for domain in (Domain(Type.REAL, bounds=(0.5, 0.5)), Domain(Type.INTEGER, bounds=(3, 3))):
        periods = _declared_periods(SurvivalColumns("time", "died"), domain)
        assert domain.bounds is not None
        assert periods.count == 1
        assert periods.starts == periods.ends == (domain.bounds[0],)


def test_several_rows_of_a_unit_are_refused(tmp_path: Path) -> None:
    with open_clinic(tmp_path, rows=2) as clinic, pytest.raises(Unsupported, match="max_rows = 1"):
        clinic.survival("patients", time="months", event="died")
