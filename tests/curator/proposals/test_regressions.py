"""Regressions through the curator: the table of the exact rows without noise, what is charged, shown and refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from inference.rows import curator, least_squares, people
from sfumato.curator.kinds.regressions import RegressionSpec
from sfumato.curator.proposals.regressions import RegressionForecast
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.inference.regression_answers import RegressionAnswer
from sfumato.privacy import codec

FORMULA = "hours ~ age + cost + C(sex, F) + C(arm, a) + age:sex"
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def exact_coefficients(frame: pd.DataFrame) -> np.ndarray:
    used = frame.dropna(subset=["age", "sex"])
    male, ones = used["sex"] == "M", np.ones(len(used))
    columns = [ones, used["age"], used["cost"], male, used["arm"] == "b", used["arm"] == "c", used["age"] * male]
    return least_squares(columns, used["hours"])


def test_without_noise_it_is_the_regression_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real values are rounded to 1/2048 of half their range, which moves coefficients by less than 1e-3."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    frame = people(800)
    with curator(frame, tmp_path) as made:
        answer = made.regress(FORMULA, "people").release(**PRICE)
        terms = ["intercept", "age", "cost", "sex[M]", "arm[b]", "arm[c]", "age:sex[M]"]
        assert answer.column("term") == terms
        assert answer.column("coefficient") == pytest.approx(exact_coefficients(frame).tolist(), rel=2e-3, abs=2e-3)
        assert answer.rows_used == pytest.approx(len(frame.dropna(subset=["age", "sex"])))
        assert answer.references == ("sex[F]", "arm[a]")
        every_arm = made.regress("hours ~ 0 + arm", "people").release(**PRICE)
        assert every_arm.references == ()
        restricted = made.regress("hours ~ age", "people", where="arm = 'b'").release(**PRICE)
        used = frame[(frame["arm"] == "b") & frame["age"].notna()]
        assert restricted.column("coefficient") == pytest.approx(
            least_squares([np.ones(len(used)), used["age"]], used["hours"]).tolist(), rel=1e-9
        )
        built = made.table("people").where("arm = 'b'").regress("hours ~ age")
        assert built.identity == made.regress("hours ~ age", "people", where="arm = 'b'").identity
        assert built.release(**PRICE).receipt.free
        assert made.regress(target="hours", on=["age"], table="people", where="arm = 'b'").identity == built.identity


def test_it_is_charged_once_and_found_again(tmp_path: Path) -> None:
    with curator(people(4000), tmp_path) as made:
        proposal = made.regress(FORMULA, "people")
        assert not proposal.error(**PRICE).stored
        first = proposal.release(**PRICE)
        assert not first.receipt.free
        assert proposal.error(**PRICE).stored
        again = proposal.release(**PRICE, confidence="0.5")
        assert again.receipt.free
        assert again.column("coefficient") == first.column("coefficient")
        (low, high), (inner_low, inner_high) = first.intervals["coefficient"][2], again.intervals["coefficient"][2]
        assert low < inner_low < inner_high < high
        other = made.regress(FORMULA.replace("(sex, F)", "(sex, M)"), "people")
        assert other.release(**PRICE).receipt.free  # the same moments: another reference is only computed
        assert not proposal.release(epsilon=4, delta="1e-6").receipt.free


def test_the_answer_reads_back_and_shows_itself(tmp_path: Path) -> None:
    with curator(people(600), tmp_path) as made:
        proposal = made.propose(RegressionSpec("people", FORMULA))
        answer = proposal.release(epsilon=5, delta="1e-6")
        assert RegressionAnswer.from_json(answer.to_json()) == answer
        assert [column.name for column in proposal.columns] == list(answer.columns)
        text = str(answer)
        assert "hours ~ age + cost + sex + arm + age:sex; " in text
        assert "reference: sex[F], arm[a]" in text
        assert "errors of equal variance" in text
        frame = answer.to_pandas()
        assert {"coefficient_low", "coefficient_high", "coefficient_sampling", "low", "high", "p"} <= {*frame.columns}
        assert (frame["low"] <= frame["coefficient_low"]).all()
        assert answer["age"] == answer.coefficients["age"]
        with pytest.raises(SfumatoError, match="one of intercept"):
            answer["nothing"]
        assert "age:sex[M]" in answer.plot().svg
        assert "intercept" not in answer.plot().svg  # beside it no slope would be seen
        assert "R²" in answer._repr_html_()
        forecast = proposal.error(epsilon=5, delta="1e-6")
        assert RegressionForecast.from_json(forecast.to_json()) == forecast
        widths = [high - low for low, high in answer.intervals["coefficient"]]
        ratios = np.array(widths) / 2 / np.array(forecast.widths)
        assert (ratios > 0.2).all()
        assert (ratios < 5).all()
        preview = proposal.preview(epsilon=5)  # a free call assumes the δ that a release must name
        assert preview.is_preview
        assert preview.columns == answer.columns


def test_a_price_gives_the_forecast_width(tmp_path: Path) -> None:
    with curator(people(100), tmp_path) as made:
        proposal = made.regress("hours ~ age + cost", "people")
        epsilon = proposal.price({"age": "0.5"}, delta="1e-6")
        assert proposal.error(epsilon, delta="1e-6")["age"] <= 0.5
        assert proposal.error(epsilon * 0.99, delta="1e-6")["age"] > 0.5
        assert "Frobenius" in str(proposal.explain())
        with pytest.raises(SfumatoError, match="a mapping from terms \\(intercept, age, cost\\) to half-widths"):
            proposal.price({"sex": 1})


def test_a_forecast_uses_moments_that_were_released_before(tmp_path: Path) -> None:
    """Ages are close together: noise moves their coefficient further than for ages all over their range."""
    frame = people(12_000).assign(age=lambda rows: 40 + rows.index % 20)
    with curator(frame, tmp_path) as made:
        proposal = made.regress("hours ~ age + cost", "people")
        assumed = proposal.error(epsilon=1, delta="1e-6")
        assert "spread evenly over their declared ranges" in assumed.assumed
        spent = made.budget.spent
        proposal.release(epsilon="0.05", delta="1e-6")  # too noisy to forecast from
        assert proposal.error(epsilon=1, delta="1e-6").widths == assumed.widths
        proposal.release(epsilon=2, delta="1e-6")
        charged = made.budget.spent
        assert charged != spent
        forecast = proposal.error(epsilon=5, delta="1e-6")
        answer = proposal.release(epsilon=5, delta="1e-6")
        assert forecast.assumed == "for the moments that were released before"
        width = (answer.intervals["coefficient"][1][1] - answer.intervals["coefficient"][1][0]) / 2
        assert forecast["age"] == pytest.approx(width, rel=0.3)
        assert (
            forecast["age"]
            > 2 * made.regress("hours ~ age + cost", "people", where="age < 90").error(5, delta="1e-6")["age"]
        )
        robust = made.regress("hours ~ age + cost", "people", robust=True).error(epsilon=5, delta="1e-6")
        assert robust.assumed == forecast.assumed
        assert (
            made.regress("hours ~ age + cost", "people", where="cost > 1").error(epsilon=5).assumed == assumed.assumed
        )


def test_with_several_rows_per_unit_only_the_noise_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    frame = people(600)
    frame["who"] = frame.index // 3
    with curator(frame, tmp_path, max_rows=3) as made:
        proposal = made.regress(FORMULA, "people")
        answer = proposal.release(**PRICE)
        assert proposal.moments.rows_per_unit == 3
        assert answer.sampling is None
        assert set(answer.column("p")) == {None}
        assert "correlate" in str(answer)
        assert answer.column("coefficient") == pytest.approx(exact_coefficients(frame).tolist(), rel=5e-3, abs=5e-3)
        single = made.regress(FORMULA, "people", rows=1)
        assert single.moments.rows_per_unit == 1
        assert single.release(**PRICE).rows_used < frame["who"].nunique() + 0.5
        changes = [float(each.moments.sensitivity.l2) / each.design.scale**2 for each in (single, proposal)]
        assert changes[1] == pytest.approx(3 * changes[0], rel=0.03)


@pytest.fixture(scope="module")
def uncharged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    """A curator that refuses, and is charged nothing."""
    with curator(people(20), tmp_path_factory.mktemp("people")) as made:
        yield made


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hours ~ free", "people"), "declared bounds"),
        (("hours ~ note", "people"), "declared values"),
        (("hours ~ fixed", "people"), "a column with several possible values"),
        (("sex ~ age", "people"), "column of numbers"),
        (("hours ~ nothing", "people"), "one of"),
        (("hours ~ age + hours", "people"), "without its target hours"),
        (("hours ~ age + center(age)", "people"), "are the same column"),
        (("hours ~ age:sex", "people"), "as a term of its own, because it contains"),
        (("hours ~ age + age:sex", "people"), r"write age \* sex"),
        (("hours ~ C(sex, X)", "people"), "declared value of sex: F, M"),
        (("hours ~ sex + sex^2", "people"), "without the square of sex"),
        (("hours ~ C(age) + age", "people"), "are the same column"),
        (("hours ~ center(sex)", "people"), "is a category"),
        (("hours ~ C(age) * arm", "people"), "at most 120 terms"),
        (("hours ~ age", "nobody"), "nobody"),
        (("hours ~ age", None), "private table"),
        ((None, "people"), "formula"),
        (("hours ~ C(hours_of_day", "people"), "formula"),
    ],
)
def test_what_cannot_be_told_is_refused_beforehand(
    arguments: tuple[Any, ...], message: str, uncharged: sf.Curator
) -> None:
    with pytest.raises(SfumatoError, match=message) as refused:
        uncharged.regress(*arguments)
    assert refused.value.fix


def test_a_price_without_a_delta_is_refused(tmp_path: Path) -> None:
    with curator(people(20), tmp_path) as made:
        proposal = made.regress("hours ~ age", "people")
        with pytest.raises(SfumatoError, match="δ"):
            proposal.release(epsilon=1)
        with pytest.raises(SfumatoError, match="where"):
            made.regress("hours ~ age", "people", where="nothing > 1")
        with pytest.raises(SfumatoError, match="too large to draw"):
            proposal.release(epsilon="0.0001", delta="1e-6")
        with pytest.raises(SfumatoError, match="names of columns"):
            made.regress(target="hours", on=[3], table="people")  # type: ignore[list-item]
        for incomplete in ({"on": ["age"]}, {"target": "hours"}, {"target": "hours", "on": "age"}, {}):
            with pytest.raises(InvalidParameter, match="given, unless target and on are given instead"):
                made.regress(table="people", **incomplete)  # type: ignore[arg-type]
        assert repr(proposal).startswith("<REGRESS hours ~ age FROM people")
        with pytest.raises(SfumatoError, match="left out"):
            made.regress("hours ~ age", "people", target="hours")
        assert proposal.release(rho="0.1").receipt.guarantee == "ρ = 0.1"


@pytest.mark.parametrize("rows", ["none", "one value", "collinear", "missing"])
def test_every_charged_release_answers(rows: str, tmp_path: Path) -> None:
    frame = people(60)
    if rows == "none":
        frame = frame[:0]
    elif rows == "one value":
        frame = pd.DataFrame([frame.iloc[0]] * 40)
    elif rows == "collinear":
        frame["cost"] = (frame["age"] - 18) / 62 * 5
    else:
        frame["age"] = np.nan
    with curator(frame.reset_index(drop=True), tmp_path) as made:
        answer = made.regress("hours ~ age + cost + sex + retired", "people").release(**PRICE)
        assert len(answer.rows) == 5
        assert answer.unbounded or answer.warnings


def test_warnings_name_what_noise_hides(tmp_path: Path) -> None:
    frame = people(400)
    frame["cost"] = (frame["age"].fillna(40) - 18) / 62 * 5
    with curator(frame, tmp_path) as made:
        answer = made.regress("hours ~ age + cost", "people").release(epsilon=5, delta="1e-6")
        assert any("at this price" in warning for warning in answer.warnings)
        assert {"age", "cost"} <= {*answer.unbounded} or any("distinguished" in warning for warning in answer.warnings)


def test_a_written_answer_and_its_moments_have_stable_tags() -> None:
    assert codec.kind_of_class(RegressionAnswer) == "regression-answer/1"
    assert codec.kind_of_class(RegressionForecast) == "regression-forecast/1"


@pytest.mark.parametrize("size", [None, 500])
def test_forecasts_assume_the_rows_of_the_policy_or_ten_thousand(tmp_path: Path, size: int | None) -> None:
    with curator(people(40), tmp_path) as made:
        proposal = made.regress("hours ~ age", "people")
        declared = replace(proposal._context, policy=replace(proposal._context.policy, size=size))
        assert replace(proposal, _context=declared).assumed_rows == (10_000 if size is None else size)
