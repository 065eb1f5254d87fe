"""Tests of bought answers: what each needs, what is refused, and that nothing is charged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.hypothesis_tests import HypothesisTest

COLUMNS: dict[str, Any] = {
    "arm": {"values": ["old", "new"]},
    "dose": {"type": "integer", "bounds": [1, 4]},
    "cured": {"type": "boolean"},
    "weight": {"type": "real", "bounds": [0, 100]},
    "age": {"type": "integer", "bounds": [0, 100]},
    "ward": {"type": "text"},
}
BY_ARM = "SELECT arm, cured, COUNT(*) AS n FROM patients GROUP BY arm, cured"
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


def test_lost_groups_are_said(clinic: sf.Curator) -> None:
    result = ask(
        clinic,
        "SELECT arm, cured, COUNT(*) AS n FROM patients WHERE age = 0 AND dose = 1 GROUP BY arm, cured",
        epsilon="0.01",
    ).test("difference")
    assert result.p_value > 0.001
    assert result.estimate is None
    assert any("below 5" in note or "not positive" in note for note in result.notes)


@pytest.mark.parametrize(
    ("text", "test", "options", "rule"),
    [
        (BY_ARM, "chi", {}, "one of independence"),
        (BY_ARM, "independence", {"colum": 1}, "left out"),
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
        ("SELECT COUNT(*) AS n FROM patients", "share", {}, "public number"),
        ("SELECT COUNT(*) AS n FROM patients", "share", {"of": 10, "equals": 1}, "between 0 and 1"),
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
