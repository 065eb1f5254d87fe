"""Values given beside a question: the same plan as with the literal written in, whatever the value holds."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from plan.described import CATALOG
from sfumato.plan.canonical import digest
from sfumato.plan.sql.statements import parse
from sfumato.plan.sql.text import LONGEST, text_with_parameters

ASKED = "SELECT region, COUNT(*) AS n FROM visits WHERE {} GROUP BY region"


def same(text: str, values: Any, literal: str) -> None:
    """A question with values is the one with literals, and is shown so."""
    plan = parse(ASKED.format(text), CATALOG, values)
    assert plan == parse(ASKED.format(literal), CATALOG)
    assert digest(plan) == digest(parse(ASKED.format(literal), CATALOG))
    assert parse(text_with_parameters(ASKED.format(text), values), CATALOG) == plan


@pytest.mark.parametrize(
    ("text", "values", "literal"),
    [
        ("age > ?", [40], "age > 40"),
        ("age > $1 AND ward = ?", [40, "Rome"], "age > 40 AND ward = 'Rome'"),
        ("age BETWEEN $2 AND $1", (40, 20), "age BETWEEN 20 AND 40"),
        ("age > $least AND age < $least + 5", {"least": -4}, "age > -4 AND age < -4 + 5"),
        ("age > :least AND ward=:ward", {"least": 4, "ward": "x"}, "age > 4 AND ward = 'x'"),
        ("age IN (:a, :b,:c)", {"a": 1, "b": 2, "c": 3}, "age IN (1, 2, 3)"),
        ("age > -?", [-4], "age > -(-4)"),
        ("age > ? /* ? */", [4], "age > 4 /* ? */"),
        ("ward <> '$1 ? :x' AND age > $1", [4], "ward <> '$1 ? :x' AND age > 4"),
        ("cost > ?", [0.1], "cost > 0.1"),
        ("cost > ?", [Decimal("1e3")], "cost > 1e3"),
        ("cost > ?", [Decimal("0.10")], "cost > 0.10"),
        ("cost > ?", [Fraction(-1, 8)], "cost > -0.125"),
        ("cost > ?", [np.float64(2.5)], "cost > 2.5"),
        ("age > ?", [np.int64(3)], "age > 3"),
        ("urgent = ?", [True], "urgent = TRUE"),
        ("ward IS DISTINCT FROM ?", [None], "ward IS DISTINCT FROM NULL"),
        ("day > ?", [dt.date(2024, 2, 29)], "day > DATE '2024-02-29'"),
        ("day > ?", ["2024-02-29"], "day > '2024-02-29'"),
        ("at < ?", [dt.datetime(2024, 1, 1, 5, 6, 7, 8)], "at < TIMESTAMP '2024-01-01 05:06:07.000008'"),
        ("STRFTIME(day, :date) = :größe", {"date": "%Y", "größe": "ü"}, "STRFTIME(day, '%Y') = 'ü'"),
        (
            "age::INT > $1 AND day = CAST($2 AS DATE)",
            [1, "2024-02-02"],
            "age::INT > 1 AND day = CAST('2024-02-02' AS DATE)",
        ),
    ],
)
def test_the_question_is_the_one_with_the_literal_written_in(text: str, values: Any, literal: str) -> None:
    same(text, values, literal)


@settings(deadline=None, max_examples=25)
@given(st.text(max_size=40).filter(lambda text: "\0" not in text))
def test_no_text_is_obeyed(value: str) -> None:
    quoted = value.replace("'", "''")
    same("ward = $1 AND age > 5", [value], f"ward = '{quoted}' AND age > 5")


@pytest.mark.parametrize(
    "value", ["' OR 1 = 1 --", "'; DROP TABLE visits; --", "$1", "?", ":x", "\\'", "\u202e", "a\nb", "/* */", '"']
)
def test_hostile_texts_are_texts(value: str) -> None:
    quoted = value.replace("'", "''")
    same("ward IN (?, 'x')", [value], f"ward IN ('{quoted}', 'x')")


@pytest.mark.parametrize(
    ("text", "values", "named"),
    [
        ("age > ?", None, r"\$1"),
        ("age > ?", [], r"\$1"),
        ("age > ? AND cost > ?", [1], r"\$2"),
        ("age > :least", {"last": 1}, r"\$least"),
        ("age > ?", [1, 2], r"no parameter \$2"),
        ("age > 1", [1], r"no parameter \$1"),
        ("age > :a", {"a": 1, "b\x1b[31m": 1}, r"no parameter \$b\\x1b"),
        ("age > :a", {"a": [1, 2]}, r"value of \$a"),
        ("age > :a", {"a": b"1"}, r"value of \$a"),
        ("age > :a", {"a": math.nan}, r"value of \$a"),
        ("age > :a", {"a": math.inf}, r"value of \$a"),
        ("age > :a", {"a": 10**400}, r"value of \$a"),
        ("age > :a", {"a": -Fraction(10**400, 3)}, r"value of \$a"),
        ("age > :a", {"a": Decimal("sNaN")}, r"value of \$a"),
        ("age > :a", {"a": Decimal("1e400")}, r"value of \$a"),
        ("age > :a", {"a": Decimal("NaN")}, r"value of \$a"),
        ("age > :a", {"a": Fraction(1, 3)}, r"value of \$a"),
        ("age > :a", {"a": object()}, r"value of \$a"),
        ("age > :a", {"a": np.array([1, 2])}, r"value of \$a"),
        ("ward = :a", {"a": "\0"}, r"value of \$a"),
        ("ward = :a", {"a": "\ud800"}, r"value of \$a"),
        ("at > :a", {"a": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}, r"value of \$a"),
        ("age > ?", 40, "a list, or a dict"),
        ("age > ?", "40", "a list, or a dict"),
    ],
)
def test_missing_surplus_and_bad_values_are_refused_by_name(text: str, values: Any, named: str) -> None:
    with pytest.raises(sf.Unsupported, match=named) as refused:
        parse(ASKED.format(text), CATALOG, values)
    assert refused.value.code == "parameter"


@pytest.mark.parametrize(
    ("text", "values", "code"),
    [
        ("age > ?", ["x"], "type-mismatch"),
        ("ward = ?", [5], "type-mismatch"),
        ("day > ?", ["soon"], "date-literal"),
        ("age > ?", [2**70], "literal"),
        ("ward = ?", ["x" * 20_000], "literal"),
        ("ward LIKE ?", [5], "literal-needed"),
    ],
)
def test_values_have_types_as_literals_do(text: str, values: Any, code: str) -> None:
    with pytest.raises(sf.Unsupported) as refused:
        parse(ASKED.format(text), CATALOG, values)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM $1",
        "SELECT COUNT(*) FROM visits AS $1",
        "SELECT COUNT(*) AS $1 FROM visits",
        "SELECT COUNT(*) FROM visits WHERE $1(age) > 3",
        "SELECT COUNT(*) FROM visits WHERE visits.$1 > 3",
        "SELECT COUNT(*) FROM visits JOIN hospitals USING ($1)",
    ],
)
def test_a_value_is_no_name(text: str) -> None:
    with pytest.raises(sf.Unsupported):
        parse(text, CATALOG, ["visits"])


def test_a_limit_may_be_a_value() -> None:
    asked = "SELECT region, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n LIMIT :n OFFSET :skip"
    assert parse(asked, CATALOG, {"n": 2, "skip": 1}).finish.limit == 2
    with pytest.raises(sf.Unsupported, match="limit"):
        parse(asked, CATALOG, {"n": "2", "skip": 1})


def test_values_count_for_the_length_of_a_question() -> None:
    asked = "SELECT COUNT(*) FROM visits WHERE ward IN (" + ", ".join(["?"] * 10) + ")"
    with pytest.raises(sf.Unsupported, match="too-long"):
        text_with_parameters(asked, ["x" * (LONGEST // 9)] * 10)
