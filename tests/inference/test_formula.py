"""Formulas: what is parsed, and what is refused with its place."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.errors import InvalidParameter
from sfumato.inference.formula import Factor, Formula, formula_of_columns, parse_formula

AGE, SEX = Factor("age"), Factor("sex")


@pytest.mark.parametrize(
    ("text", "terms", "has_intercept"),
    [
        ("hours ~ age", [(AGE,)], True),
        ("hours~age+sex", [(AGE,), (SEX,)], True),
        ("hours ~ age + sex - 1", [(AGE,), (SEX,)], False),
        ("hours ~ 0 + age", [(AGE,)], False),
        ("hours ~ 1 + age", [(AGE,)], True),
        ("hours ~ 1", [], True),
        ("hours ~ age + age^2", [(AGE,), (AGE, AGE)], True),
        ("hours ~ age + age**2", [(AGE,), (AGE, AGE)], True),
        ("hours ~ age * sex", [(AGE,), (SEX,), (AGE, SEX)], True),
        ("hours ~ age * sex + age", [(AGE,), (SEX,), (AGE, SEX)], True),
        ("hours ~ age + sex + sex:age", [(AGE,), (SEX,), (SEX, AGE)], True),
        ("hours ~ C(age)", [(Factor("age", is_category=True),)], True),
        ("hours ~ C(sex, 'it''s')", [(Factor("sex", is_category=True, reference="it's"),)], True),
        ("hours ~ C(sex, M)", [(Factor("sex", is_category=True, reference="M"),)], True),
        ("hours ~ center(age)", [(Factor("age", is_centred=True),)], True),
        ("hours ~ center(age, -2.5)", [(Factor("age", is_centred=True, centre=Fraction(-5, 2)),)], True),
        ("hours ~ `body mass` + C", [(Factor("body mass"),), (Factor("C"),)], True),
    ],
)
def test_it_is_parsed(text: str, terms: list[tuple[Factor, ...]], has_intercept: bool) -> None:
    assert parse_formula(text) == Formula("hours", tuple(terms), has_intercept)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hours",
        "~ age",
        "hours ~",
        "hours ~ age +",
        "hours ~ age sex",
        "hours ~ age ^ 3",
        "hours ~ age; DROP TABLE people",
        "hours ~ log(age)",
        "hours ~ a:b:c",
        "hours ~ a*b*c",
        "hours ~ age^2:sex",
        "hours ~ age - sex",
        "hours ~ C(sex",
        "hours ~ C(sex, )",
        "hours ~ center(age, x)",
        "hours ~ 0",
        "hours ~ age + age",
        "hours ~ sex:age + age:sex",
        None,
        "a ~ " + "b + " * 4000 + "c",
    ],
)
def test_it_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="formula"):
        parse_formula(text)


def test_columns_make_a_formula() -> None:
    assert formula_of_columns("hours", ["age", "sex"]) == parse_formula("hours ~ age + sex")
    assert parse_formula("hours ~ age * sex - 1").text == "hours ~ 0 + age + sex + age:sex"
