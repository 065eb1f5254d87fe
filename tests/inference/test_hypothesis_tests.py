"""Tests of bought answers: what each needs, what is refused, and that nothing is charged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sfumato as sf
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.hypothesis_tests import HypothesisTest, TestOptions, run_test
from sfumato.inference.noise_laws import SeededDraws
from sfumato.inference.power import Power
from sfumato.inference.released_numbers import ReleasedNumbers
from sfumato.release.measured import group_estimator, noisy_measurements, scales_of_all_parts
from sfumato.release.requests import PriceRequest

COLUMNS: dict[str, Any] = {
    "arm": {"values": ["old", "new"]},
    "dose": {"type": "integer", "bounds": [1, 4]},
    "cured": {"type": "boolean"},
    "weight": {"type": "real", "bounds": [0, 100]},
    "age": {"type": "integer", "bounds": [0, 100]},
    "ward": {"type": "text"},
}
BY_ARM = "SELECT arm, cured, COUNT(*) AS n FROM patients GROUP BY arm, cured"
MANY = "SELECT age, CAST(weight AS INTEGER) AS w, COUNT(*) AS n FROM patients GROUP BY 1, 2"
SPREAD = "SELECT arm, AVG(weight) AS m, VARIANCE(weight) AS v FROM patients GROUP BY arm"
SHARES = {"1": "0.1", "2": "0.2", "3": "0.3", "4": "0.4"}
WEIGHTS = "SELECT dose, AVG(weight) AS mean FROM patients GROUP BY dose"


def patients() -> pd.DataFrame:
    generator, count = np.random.default_rng(8), 3000
    arm, dose = generator.integers(0, 2, count), generator.integers(1, 5, count)
    age = generator.uniform(20, 80, count)
    return pd.DataFrame(
        {
            "who": np.arange(count),
            "arm": np.array(["old", "new"])[arm],
            "dose": dose,
            "cured": generator.random(count) < 0.4 + 0.2 * arm,
            "weight": np.clip(generator.normal(50 + 4 * dose, 10), 0, 100),
            "age": age.astype(int),
            "ward": "w",
        }
    )


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Any:
    table = sf.Table("patients", patients(), COLUMNS, id="who", max_rows=2)
    unit, budget = sf.PrivacyUnit("patient"), sf.Budget(100, "1e-5")
    with sf.Curator(sf.Policy(unit, budget, {"patients": table}), tmp_path_factory.mktemp("c") / "ledger") as curator:
        yield curator


def ask(clinic: sf.Curator, text: str, rows: int = 1, **price: Any) -> sf.Answer:
    question = clinic.sql(text)
    return question.limit(rows=rows).release(**({"epsilon": 2} | price))


@pytest.mark.parametrize(
    ("text", "test", "options", "is_found"),
    [
        (BY_ARM, "independence", {}, True),
        (BY_ARM, "difference", {}, True),
        (BY_ARM, "difference", {"outcome": "false"}, True),
        (BY_ARM, "anova", {}, True),
        ("SELECT dose, cured, COUNT(*) AS n FROM patients GROUP BY dose, cured", "trend", {}, False),
        ("SELECT dose, COUNT(*) AS n FROM patients GROUP BY dose", "fit", {}, False),
        ("SELECT dose, COUNT(*) AS n FROM patients GROUP BY dose", "fit", {"shares": SHARES}, True),
        (WEIGHTS, "anova", {}, True),
        (WEIGHTS, "trend", {"scores": [1, 2, 4, 8]}, True),
        (SPREAD, "difference", {"column": "m"}, False),
        ("SELECT CORR(weight, dose) AS r FROM patients", "correlation", {}, True),
        ("SELECT CORR(weight, age) AS r FROM patients", "correlation", {"column": "r"}, False),
        ("SELECT dose, AVG(age) AS a, COUNT(*) AS n FROM patients GROUP BY dose", "fit", {"shares": SHARES}, True),
        (BY_ARM.replace("AS n", "AS n, COUNT(*) FILTER (WHERE age > 50) AS f"), "difference", {"column": "n"}, True),
        ("SELECT COUNT(*) AS n FROM patients WHERE arm = 'old'", "share", {"of": 3000}, False),
        ("SELECT COUNT(*) AS n FROM patients WHERE arm = 'old'", "share", {"of": 3000, "equals": "0.4"}, True),
    ],
)  # fmt: skip
def test_differences_are_found_for_free(
    clinic: sf.Curator, text: str, test: str, options: dict[str, Any], is_found: bool
) -> None:
    answer = ask(clinic, text)
    left = clinic.budget.largest_pure()
    result = answer.test(test, **options)
    assert clinic.budget.largest_pure() == left
    assert result.p_value < 0.01 or not is_found
    assert result.test == test
    assert result.receipt == answer.receipt
    assert HypothesisTest.from_json(result.to_json()) == result == answer.test(test, **options)
    assert result.p_text in str(result)
    assert "<table>" in result._repr_html_()
    assert ("simulated" in str(result)) is (test != "share")


@pytest.mark.parametrize(
    ("beside", "noises"),
    [("", 1), (", AVG(age) AS a", 3), (", COUNT(*) FILTER (WHERE age > 50) AS f", 2), (", COUNT(age) AS f", 2)],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_count_beside_others_has_the_law_of_its_noises(
    clinic: sf.Curator, beside: str, noises: int, mechanism: str
) -> None:
    """As many noises of one law, in units of rows: cells are the column, and a range of it is theirs."""
    price: dict[str, Any] = {"rho": "0.01"} if mechanism == "gaussian" else {"epsilon": "0.5"}
    question = clinic.sql(f"SELECT dose, COUNT(*) AS n{beside} FROM patients GROUP BY dose").limit(rows=1)
    prepared = question.price_release(PriceRequest(mechanism=mechanism, **price))
    totals = 700 + np.arange(4 * sum(scale.columns for scale in scales_of_all_parts(prepared))).reshape(4, -1) * 10**6
    measured = noisy_measurements(prepared, question.shared_parts.requests, totals, question.groups, "")
    cells, law = ReleasedNumbers.from_measurements(question.query, measured, 1).counts_and_noise_law("n")
    shown = group_estimator(measured, "0.95")(1)[0]
    assert law.noises == noises
    assert np.round(cells).tolist() == shown.value.tolist()
    simulated = law.draw(SeededDraws("law"), 100_000)
    assert np.var(simulated) == pytest.approx(law.variance, rel=0.05)
    assert np.quantile(np.abs(simulated), 0.95) == pytest.approx((shown.high - shown.low)[0] / 2, rel=0.05)


def test_a_count_among_several_must_be_named(clinic: sf.Curator) -> None:
    """And the share of a count with several noises is asked for alone."""
    answer = ask(clinic, "SELECT dose, COUNT(*) AS n, COUNT(age) AS f FROM patients GROUP BY dose")
    with pytest.raises(InvalidParameter, match="name one of n, f"):
        answer.test("fit")
    assert 0 <= answer.test("fit", column="n").p_value <= 1
    summed = ask(clinic, "SELECT COUNT(*) AS n, AVG(age) AS a FROM patients WHERE arm = 'old'")
    with pytest.raises(Unsupported, match="a count to which noise was added once"):
        summed.test("share", of=3000)


def test_a_difference_has_a_range(clinic: sf.Curator) -> None:
    result = ask(clinic, BY_ARM).test("difference")
    assert result.low < 0.2 < result.high
    assert result.estimate == pytest.approx(0.2, abs=0.06)
    other = ask(clinic, BY_ARM).test("difference", outcome="false")
    assert other.estimate == pytest.approx(-result.estimate)
    means = ask(clinic, SPREAD).test("difference")
    assert means.low < 0.3 < means.high


def test_gaussian_noise_is_simulated_as_such(clinic: sf.Curator) -> None:
    answer = ask(clinic, BY_ARM, epsilon=1, delta="1e-6", mechanism="gaussian", fresh=True)
    assert answer.test("independence").p_value < 0.01


def test_changed_answers_are_tested_on_what_was_released(clinic: sf.Curator) -> None:
    answer = ask(clinic, BY_ARM)
    assert answer.nonnegative().flagged().test("independence") == answer.test("independence")


@pytest.mark.parametrize(
    ("cells", "is_estimated", "small", "is_untestable"),
    [
        ([-40, 10, 20, -30], False, 0, True),
        ([0, 0, 0, 0], False, 0, True),
        ([2, 1, -1, 4], False, 2, False),
        ([-60, -40, 900, 1100], False, 1, False),
        ([300, 300, 350, 350], False, 0, False),
        ([900, 1100, 1600, 1400], True, 0, False),
    ],
)
def test_lost_groups_are_said(
    clinic: sf.Curator, cells: list[int], is_estimated: bool, small: int, is_untestable: bool
) -> None:
    """Of these noisy counts of two arms, no difference is told where one is below four deviations of its noise."""
    question = clinic.sql(BY_ARM).limit(rows=1)
    prepared = question.price_release(PriceRequest(epsilon="0.01"))
    (scale,) = scales_of_all_parts(prepared)
    totals = np.array([[round(count / scale.unit_value)] for count in cells])
    measured = noisy_measurements(prepared, question.shared_parts.requests, totals, question.groups, "")
    result = run_test("difference", ReleasedNumbers.from_measurements(question.query, measured, 1), TestOptions())
    assert (result.estimate is not None) is is_estimated
    assert any("not positive" in note for note in result.notes) is is_untestable
    rough = [note for note in result.notes if "expected counts are below 5" in note]
    assert [note.split()[0] for note in rough] == ([str(small)] if small else [])


@pytest.mark.parametrize(
    ("text", "test", "options", "rule"),
    [
        (BY_ARM, "chi", {}, "one of independence"),
        (BY_ARM, "independence", {"colum": 1}, "option must be one of column, outcome"),
        (BY_ARM, "independence", {"column": "arm"}, "COUNT"),
        (BY_ARM, "fit", {}, "counts by one key"),
        (BY_ARM, "difference", {"outcome": "maybe"}, "one of false, true"),
        (f"{BY_ARM} HAVING COUNT(*) > 3", "independence", {}, "HAVING and LIMIT"),
        (f"{BY_ARM} ORDER BY n LIMIT 2", "independence", {}, "HAVING and LIMIT"),
        ("SELECT cured, dose, COUNT(*) AS n FROM patients GROUP BY cured, dose", "difference", {}, "two values"),
        (WEIGHTS, "difference", {}, "two values"),
        (WEIGHTS, "independence", {}, "counts by two keys"),
        (WEIGHTS, "trend", {"scores": [1, 1, 1, 1]}, "not all equal"),
        (WEIGHTS, "correlation", {}, "without groups"),
        ("SELECT dose, COUNT(*) AS n FROM patients GROUP BY dose", "fit", {"shares": [0.5, 0.5]}, "add up to 1"),
        ("SELECT dose, COUNT(*) AS n FROM patients GROUP BY dose", "fit", {"shares": [0.5, 0.5, 0.5, -0.5]}, "add up"),
        ("SELECT dose, COUNT(*) AS n FROM patients GROUP BY dose", "anova", {}, "AVG"),
        ("SELECT age, cured, dose, COUNT(*) AS n FROM patients GROUP BY age, cured, dose", "fit", {}, "by one key"),
        (MANY, "independence", {}, "at most 500"),
        ("SELECT COUNT(*) AS n FROM patients", "share", {}, "public number"),
        ("SELECT COUNT(*) AS n FROM patients", "share", {"of": 10, "equals": 1}, "above 0 and below 1"),
        ("SELECT dose, MEDIAN(weight) AS m FROM patients GROUP BY dose", "anova", {}, "AVG"),
        ("SELECT arm, COUNT(*) AS n FROM patients GROUP BY ROLLUP (arm)", "fit", {}, "plain counts"),
    ],
)  # fmt: skip
def test_what_cannot_be_tested_is_refused(
    clinic: sf.Curator, text: str, test: str, options: dict[str, Any], rule: str
) -> None:
    with pytest.raises((InvalidParameter, Unsupported), match=rule):
        ask(clinic, text).test(test, **options)


def test_several_rows_of_a_unit_are_no_independent_rows(clinic: sf.Curator) -> None:
    with pytest.raises(Unsupported, match=r"limit\(rows=1\)"):
        ask(clinic, BY_ARM, rows=2).test("independence")


def test_groups_that_were_found_in_the_data_are_not_tested(clinic: sf.Curator) -> None:
    answer = ask(clinic, "SELECT ward, COUNT(*) AS n FROM patients GROUP BY ward", delta="1e-6")
    with pytest.raises(Unsupported, match="found in the data"):
        answer.test("fit")


def test_an_answer_from_a_file_does_not_know_its_noise(clinic: sf.Curator) -> None:
    answer = ask(clinic, BY_ARM)
    with pytest.raises(InvalidParameter, match="ask its question again"):
        sf.Answer.from_json(answer.to_json()).test("independence")
    answer.forget_question()
    with pytest.raises(InvalidParameter, match="ask its question again"):
        answer.test("independence")


def test_a_result_is_checked_when_it_is_read() -> None:
    result = HypothesisTest("fit", "equal shares", 1.0, 0.5)
    with pytest.raises(InvalidParameter):
        HypothesisTest.from_json(result.to_json().replace("0.5", "1.5"))
    assert HypothesisTest("fit", "equal shares", 90.0, 0.001, 999).p_text == "p < 0.002"


def test_a_test_is_bought_with_its_answer_and_is_free_afterwards(clinic: sf.Curator) -> None:
    text = "SELECT arm, dose, COUNT(*) AS n FROM patients GROUP BY arm, dose"
    question = clinic.sql(text).limit(rows=1)
    proposal = clinic.test("independence", question)
    lines = len(list(clinic.history()))
    result = proposal.release(epsilon=1)
    assert len(list(clinic.history())) > lines
    lines = len(list(clinic.history()))
    assert result.receipt is not None
    assert not result.receipt.free
    again = proposal.release(epsilon="0.5")
    assert again.receipt is not None
    assert again.receipt.free
    assert again.p_value == question.release(epsilon=1).test("independence").p_value == result.p_value
    assert len(list(clinic.history())) == lines
    assert "at ε = 1" in str(proposal.explain(1))
    assert proposal.error(1)["n"] > 0
    assert proposal.price(10) > 0
    assert proposal.preview(1).is_preview
    assert [column.name for column in proposal.columns] == ["arm", "dose", "n"]
    assert ".power()" in repr(proposal)


@pytest.mark.parametrize(
    ("test", "text", "options", "rule"),
    [
        ("independence", "SELECT arm, COUNT(*) AS n FROM patients GROUP BY arm", {}, "counts by two keys"),
        ("independence", f"{BY_ARM} HAVING COUNT(*) > 5", {}, "HAVING and LIMIT"),
        ("fit", "SELECT ward, COUNT(*) AS n FROM patients GROUP BY ward", {}, "found in the data"),
        ("fit", "SELECT arm, COUNT(*) AS n FROM patients GROUP BY arm", {"shares": ["0.7", "0.7"]}, "add up to 1"),
        ("none", BY_ARM, {}, "one of independence"),
        ("independence", "SELECT arm, dose, SUM(weight) AS n FROM patients GROUP BY arm, dose", {}, "COUNT"),
        ("fit", "SELECT arm, COUNT(DISTINCT dose) AS n FROM patients GROUP BY arm", {}, "COUNT"),
        ("fit", "SELECT arm, 2 * COUNT(*) AS n FROM patients GROUP BY arm", {}, "COUNT"),
    ],
)
def test_what_cannot_be_tested_is_refused_before_it_is_bought(
    clinic: sf.Curator, test: Any, text: str, options: dict[str, Any], rule: str
) -> None:
    with pytest.raises((InvalidParameter, Unsupported), match=rule):
        clinic.test(test, clinic.sql(text).limit(rows=1), **options)
    with pytest.raises(Unsupported, match="2 rows of the same unit"):
        clinic.test("independence", BY_ARM)


def test_a_question_of_several_selects_is_not_tested(clinic: sf.Curator) -> None:
    one = "SELECT arm, COUNT(*) AS n FROM patients GROUP BY arm"
    with pytest.raises(Unsupported, match="plain counts"):
        clinic.test("fit", f"{one} UNION ALL {one}")
    with pytest.raises(Unsupported, match="single SELECT"):
        clinic.test("fit", 3)  # type: ignore[arg-type]


def test_power_is_told_before_paying(clinic: sf.Curator) -> None:
    proposal, left = clinic.test("difference", clinic.sql(BY_ARM).limit(rows=1)), clinic.budget.largest_pure()
    weak = proposal.power("0.05", sizes=300, shares=["0.3", "0.45"])
    strong = proposal.power(2, sizes=[300, 300], shares=["0.3", "0.45"])
    # of two shares without noise: δ/√(2·p(1−p)/n) = 3.8 standard errors, found 97 % of the time
    assert float(weak) < 0.4 < 0.9 < float(strong) <= 1
    assert Power.from_json(strong.to_json()) == strong
    assert str(strong).startswith("at ε = 2, a test of shares of 0.3 and 0.45 in groups of 300 rejects")
    assert float(proposal.power(2, sizes=300, shares=["0.3", "0.3"])) < 0.12
    means = clinic.test("trend", clinic.sql(WEIGHTS).limit(rows=1))
    assert float(means.power(2, sizes=400, means=[50, 55, 60, 65], deviation=10)) > 0.9
    assert clinic.budget.largest_pure() == left


@pytest.mark.parametrize(
    ("assumed", "rule"),
    [
        ({"sizes": 300, "shares": ["0.3"]}, "each of 2 groups"),
        ({"sizes": [1, 2, 3], "shares": ["0.3", "0.4"]}, "each of 2 groups"),
        ({"sizes": 300, "shares": ["0.3", "1.4"]}, "from 0 to 1 for each group"),
        ({"sizes": -3, "shares": ["0.3", "0.4"]}, "positive"),
        ({"sizes": 300}, "deviation"),
        ({"sizes": 300, "means": [1, 2], "deviation": 3}, "this question counts an outcome"),
        ({"sizes": 300, "shares": ["0.3", "0.4"], "level": 0}, "level"),
    ],
)
def test_bad_assumptions_are_refused(clinic: sf.Curator, assumed: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidParameter, match=rule):
        clinic.test("difference", clinic.sql(BY_ARM).limit(rows=1)).power(1, **assumed)


DOSES = "SELECT dose, COUNT(*) AS n FROM patients GROUP BY dose"
OLD = "SELECT COUNT(*) AS n FROM patients WHERE arm = 'old'"


def test_power_over_counts_is_that_of_the_tests_without_noise_and_less_with_it(clinic: sf.Curator, long: bool) -> None:
    """Its simulated tables are always the same ones."""
    cases = [
        (clinic.test("fit", clinic.sql(DOSES).limit(rows=1)), {"counts": [390, 390, 310, 310]}, {"counts": [350] * 4}),
        (
            clinic.test("independence", clinic.sql(BY_ARM).limit(rows=1)),
            {"counts": [290, 230, 230, 290]},
            {"counts": [260] * 4},
        ),
        (clinic.test("share", clinic.sql(OLD).limit(rows=1), of=3000), {"shares": ["0.53"]}, {"shares": ["0.5"]}),
    ]
    squares = ((3, 4 * 40**2 / 350), (1, 4 * 30**2 / 260), (1, 3000 * 0.03**2 / 0.25))  # the noncentral parts of χ²
    ideal = [stats.ncx2.sf(stats.chi2.isf(0.05, freedom), freedom, size) for freedom, size in squares]
    for (proposal, assumed, null), expected in zip(cases, ideal, strict=True):
        strong, weak = proposal.power(50, **assumed), proposal.power("0.02", **assumed)
        assert abs(float(strong) - expected) < 0.05, (str(strong), expected)
        assert float(weak) < 0.7 * float(strong)
        for price in ("0.02", 1) if long else ("0.02",):
            assert 0.02 <= float(proposal.power(price, **null)) <= 0.085
        assert Power.from_json(strong.to_json()) == strong
        with pytest.raises(InvalidParameter):
            proposal.power(1)
        with pytest.raises(InvalidParameter):
            proposal.power(1, **{name: [*values, 7] for name, values in assumed.items()})
    assert str(cases[2][0].power(1, shares=["0.53"])).startswith("at ε = 1, a test of a share of 0.53 of 3,000 rejects")
    for proposal, assumed, _ in cases[:2]:
        with pytest.raises(InvalidParameter, match=r"level must be at least 0\.005"):
            proposal.power(1, **assumed, level="0.001")
