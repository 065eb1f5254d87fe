"""Regressions from published marginals: unbiased sums of cells, the law of their noise, and what has no such law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from inference.rows import least_squares
from inference.test_coverage import most_misses
from sfumato.errors import InvalidParameter, SfumatoError, Unsupported
from sfumato.inference.published_moments import Factors, product_totals
from sfumato.inference.regression_answers import RegressionAnswer
from sfumato.policy import Type
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.marginals.blocks import block_shape, blocks_within
from sfumato.publish.marginals.estimating import MeasuredBlock, least_squares as block_estimates

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
COLUMNS: dict[str, dict[str, Any]] = {
    "grade": {"type": "integer", "values": list(range(6))},
    "score": {"type": "integer", "values": list(range(9))},
    "sex": {"values": ["F", "M"]},
    "age": {"type": "integer", "bounds": [0, 99], "bins": 10},
    "site": {"type": "integer", "bounds": [1, 3], "bins": 3},
}
NEVER_MISSING = ("grade IS NULL", "score IS NULL")
PRICE: dict[str, Any] = {"epsilon": 8, "delta": "1e-6"}


def pupils(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"who": np.arange(rows) // 2, "grade": random.integers(0, 6, rows)})
    frame["sex"], frame["age"] = random.choice(["F", "M"], rows), random.integers(0, 99, rows)
    frame["site"] = random.integers(1, 4, rows)
    frame["score"] = (1 + 0.8 * frame["grade"] + (frame["sex"] == "M") + random.normal(0, 1, rows)).round().clip(0, 8)
    frame.loc[frame.index % 7 == 2, "sex"] = None
    return frame.astype({"score": int})


def school(
    folder: Path, *, rows: int = 4000, impossible: tuple[str, ...] = NEVER_MISSING, max_rows: int | None = None
) -> sf.Curator:
    """Return a curator over pupils of whom every row, or every ``who``, is a unit."""
    is_row = max_rows is None
    key = "row" if is_row else "who"
    table = sf.Table("pupils", pupils(rows), COLUMNS, id=key, impossible=impossible, max_rows=max_rows)
    unit = sf.PrivacyUnit("pupil", every_row=is_row)
    return sf.Curator(sf.Policy(unit, sf.Budget(10_000, "1e-5"), {"pupils": table}), folder / "school.ledger")


def attribute(name: str, size: int, levels: tuple[tuple[int, ...], ...] = ()) -> Attribute:
    return Attribute(name, Type.INTEGER, (*map(ListedCell, range(size - 1)), OtherCell()), levels)


ATTRIBUTES = (
    attribute("a", 3),
    attribute("b", 6, ((0, 0, 0, 1, 1, 2),)),  # parents with 3, 2 and 1 children: rounded weights
    attribute("c", 2),
)


def measured_blocks(sets: tuple[tuple[int, ...], ...]) -> list[MeasuredBlock]:
    """Return all blocks of some marginals, measured of no rows with different deviations."""
    blocks = sorted({block for places in sets for block in blocks_within(places, ATTRIBUTES)})
    return [
        MeasuredBlock(block, np.zeros(block_shape(block, ATTRIBUTES), np.int64), Fraction(5 + index))
        for index, block in enumerate(blocks)
    ]


def random_products(sets: tuple[tuple[int, ...], ...]) -> list[Factors]:
    random = np.random.default_rng(1)
    return [
        {place: random.normal(size=ATTRIBUTES[place].size) for place in places}
        for places in (*sets, (), (1,), *(each[:1] for each in sets), sets[0])
    ]


@pytest.mark.parametrize("sets", [((0, 1), (1, 2)), ((0, 1, 2),)])
def test_the_noise_of_products_is_that_of_every_measured_number(sets: tuple[tuple[int, ...], ...]) -> None:
    """Totals are linear in the measured numbers: each is moved by one step, and its noise is independent."""
    blocks, products = measured_blocks(sets), random_products(sets)
    covariance = np.zeros((len(products), len(products)))
    for index, measured in enumerate(blocks):
        for entry in np.ndindex(measured.values.shape):
            moved = measured.values.copy()
            moved[entry] = 1
            changed = [*blocks[:index], replace(measured, values=moved), *blocks[index + 1 :]]
            totals, _ = product_totals(block_estimates(ATTRIBUTES, changed), products)
            covariance += np.outer(totals, totals) * float(measured.deviation) ** 2
    _, factor = product_totals(block_estimates(ATTRIBUTES, blocks), products)
    assert factor @ factor.T == pytest.approx(covariance, rel=1e-9, abs=1e-9 * covariance.max())


def test_products_are_the_weighted_cells_of_the_marginals() -> None:
    random, sets = np.random.default_rng(2), ((0, 1), (1, 2))
    blocks = [
        replace(each, values=random.integers(-99, 99, each.values.shape), deviation=Fraction(1))
        for each in measured_blocks(sets)
    ]
    estimates, products = block_estimates(ATTRIBUTES, blocks), random_products(sets)
    totals, _ = product_totals(estimates, products)
    for factors, total in zip(products, totals, strict=True):
        places = tuple(sorted(factors))
        cells, _ = estimates.marginal_and_variances(places)
        weights = np.ones(())
        for place in places:
            weights = np.multiply.outer(weights, factors[place])
        assert total == pytest.approx(float((weights * cells).sum()))


def exact_coefficients(frame: pd.DataFrame, names: tuple[str, ...]) -> np.ndarray:
    numbers = {name: (frame[name] == "M" if name == "sex" else frame[name]) for name in names}
    return least_squares([np.ones(len(frame)), *numbers.values()], frame["score"])


@pytest.mark.parametrize(
    ("formula", "names", "together"),
    [
        ("score ~ grade + C(sex, F)", ("grade", "sex"), True),
        ("score ~ grade + site", ("grade", "site"), True),
        ("score ~ grade", ("grade",), False),
    ],
)
def test_intervals_hold_the_regression_of_complete_rows(
    formula: str, names: tuple[str, ...], together: bool, tmp_path: Path
) -> None:
    """At a confidence of 1 − 1e-7, and narrow beside the coefficients; a cell of one value is a value."""
    with school(tmp_path) as made:
        sets = [("score", *names)] if together else 2
        synopsis = made.marginals("pupils", sets).release(**PRICE)
        answer = sf.regress(formula, synopsis, confidence="0.9999999")
    complete = pupils(4000).dropna(subset=[*names])
    exact = exact_coefficients(complete, names)
    for (low, high), coefficient in zip(answer.intervals["coefficient"], exact, strict=True):
        assert low <= coefficient <= high
        assert high - low < 1.5
    assert answer.rows_used == pytest.approx(len(complete), abs=100)
    assert answer.receipt.free
    assert answer.sampling is not None
    assert RegressionAnswer.from_json(answer.to_json()) == answer
    assert "what was published of pupils" in answer.receipt.question


@pytest.mark.parametrize(("draws", "believed"), [(40, 1.0), (40, 0.02)])
def test_intervals_cover_and_a_broken_twin_is_caught(draws: int, believed: float, tmp_path: Path) -> None:
    exact, missed = exact_coefficients(pupils(1000), ("grade",)), np.zeros(2, int)
    with school(tmp_path, rows=1000) as made:
        proposal = made.marginals("pupils", [("grade", "score"), ("grade", "sex")])
        for _ in range(draws):
            answer = sf.regress("score ~ grade", proposal.release(epsilon=1, delta="1e-6", fresh=True))
            pairs = zip(answer.intervals["coefficient"], answer.column("coefficient"), exact, strict=True)
            missed += [not (low - x) * believed <= y - x <= (high - x) * believed for (low, high), x, y in pairs]
    assert bool(missed.max() <= most_misses(draws)) is (believed == 1)


def test_rows_of_one_unit_have_no_sampling_error(tmp_path: Path) -> None:
    """Nor where all of a unit's rows together weigh as much as one."""
    with school(tmp_path, max_rows=2) as made:
        for limit in (None, 1):
            synopsis = made.marginals("pupils", [("grade", "score")], rows=limit).release(**PRICE)
            assert synopsis.plan.rows == (limit or 2)
            assert sf.regress("score ~ grade", synopsis).sampling is None


def test_what_no_interval_holds_is_said(tmp_path: Path) -> None:
    """Conditions of the synopsis, rows beyond its limits and undeclared values, as a question of it says them."""
    undeclared = [f"rows with an undeclared value of {name} do not count" for name in ("grade", "score")]
    with school(tmp_path, max_rows=2) as made:
        limited = made.marginals("pupils", [("grade", "score")], rows=1).release(**PRICE)
        limits = limited.receipt.limits
        beyond = f"rows beyond the limits ({limits}) count less or not at all; ± does not cover these effects"
        assert limits
        assert sf.regress("score ~ grade", limited).warnings[1:] == (beyond, *undeclared)
    (tmp_path / "rows").mkdir()
    with school(tmp_path / "rows") as made:
        young = made.marginals("pupils", [("grade", "score")], where="age < 20").release(**PRICE)
        condition = "the synopsis covers only the rows where age < 20"
        assert sf.regress("score ~ grade", young).warnings[1:] == (condition, *undeclared)


def test_what_has_no_known_law_or_no_single_values_is_refused(tmp_path: Path) -> None:
    with school(tmp_path) as made:
        pairs = made.marginals("pupils", 2).release(**PRICE)
        pure = made.marginals("pupils", [("grade", "score")]).release(epsilon=1)
        later = made.marginals("pupils", [("score", "sex")]).release(epsilon=1, delta="1e-6")
        cases: list[tuple[str, Any, str]] = [
            ("score ~ grade", "pairs.sfu", "an object that sf.synopsis"),
            ("score ~ grade", pure, "Gaussian noise"),
            ("score ~ grade", pairs + later, "a single release"),
            ("score ~ grade + age", made.marginals("pupils", [("grade", "score", "age")]).release(**PRICE), "several"),
            ("score ~ sex", made.marginals("pupils", [("sex", "grade"), ("score",)]).release(**PRICE), "missing value"),
            ("score ~ grade + sex", pairs, "missing value"),
            ("score ~ grade + nowhere", pairs, "one of"),
            ("sex ~ grade", pairs, "category"),
            ("score ~ grade +", pairs, "formula"),
        ]
        for formula, synopsis, words in cases:
            with pytest.raises(SfumatoError, match=words):
                sf.regress(formula, synopsis)
        with pytest.raises(InvalidParameter, match="confidence"):
            sf.regress("score ~ grade", pairs, confidence=2)


def test_products_of_three_columns_need_them_together(tmp_path: Path) -> None:
    impossible = (*NEVER_MISSING, "site IS NULL")
    with school(tmp_path, impossible=impossible) as made:
        pairs = made.marginals("pupils", 2).release(**PRICE)
        assert sf.regress("score ~ grade + site", pairs).unbounded == ()
        with pytest.raises(Unsupported, match="grade, score, site were not published together"):
            sf.regress("score ~ grade * site", pairs)


def test_every_published_table_is_answered(tmp_path: Path) -> None:
    """Of few rows, noise may hide every coefficient."""
    with school(tmp_path, rows=3) as made:
        synopsis = made.marginals("pupils", [("grade", "score", "sex")]).release(epsilon="0.1", delta="1e-6")
        for formula, confidence in product(("score ~ grade + sex", "score ~ C(grade) * sex"), ("0.5", "0.999")):
            assert len(sf.regress(formula, synopsis, confidence=confidence).rows) in (3, 12)
