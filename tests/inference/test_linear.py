"""Least squares on noisy moments: exact without noise, and intervals that cover what they say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sfumato.inference.design import Design, regression_design
from sfumato.inference.formula import parse_formula
from sfumato.inference.linear import CoefficientTest, LinearFit
from sfumato.inference.moments import MomentEstimates
from sfumato.policy import Domain, Type

DOMAINS = {
    "x": Domain(Type.INTEGER, (0, 10)),
    "w": Domain(Type.INTEGER, (-5, 5)),
    "y": Domain(Type.INTEGER, (0, 100)),
    "c": Domain(Type.TEXT, values=("a", "b", "rare")),
}


def rows(count: int, rare: int, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    x, w = random.integers(0, 11, count), random.integers(-5, 6, count)
    c = np.where(np.arange(count) < rare, "rare", random.choice(["a", "b"], count))
    y = np.clip(np.round(30 + 2 * x - w + 8 * (c == "b") + random.normal(0, 10, count)), 0, 100)
    return {"x": x, "w": w, "y": y, "c": c}


def exact_moments(design: Design, data: dict[str, np.ndarray]) -> np.ndarray:
    """Reckon the moments apart from the engine, in units in which an indicator is 1."""
    single = {
        column.factors: (data[column.factors[0]] - float(column.middle)) / float(column.slope)
        for column in design.columns
        if len(column.factors) == 1
    }
    coordinates = []
    for coordinate in design.coordinates:
        values = np.ones(len(data["y"]))
        if coordinate.column is not None:
            for factor in design.columns[coordinate.column].factors:
                values = values * single[(factor,)]
        for category, value in coordinate.levels:
            values = values * (data[design.categories[category].column] == design.categories[category].values[value])
        coordinates.append(values)
    gram = np.array(coordinates) @ np.array(coordinates).T
    moments = np.zeros(len(design.gram_entry_count_by_moment))
    moments[design.gram_index[design.gram_index >= 0]] = gram[design.gram_index >= 0]
    return moments


def noisy(design: Design, exact: np.ndarray, deviation: float, random: np.random.Generator) -> MomentEstimates:
    """Add Gaussian noise of this deviation on sums of squares, as released, and estimate."""
    deviations = deviation / np.sqrt(np.array(list(design.gram_entry_count_by_moment.values())))
    constraints = design.constraints * deviations
    values = exact / deviations + random.standard_normal(len(exact))
    _, singular, basis = np.linalg.svd(constraints, full_matrices=True)
    free = basis[int((singular > 1e-9).sum()) :].T
    return MomentEstimates(deviations * (free @ (free.T @ values)), deviations[:, None] * free)


@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        ("y ~ x + w", lambda d: [d["x"] ** 0, d["x"], d["w"]]),
        ("y ~ x + w - 1", lambda d: [d["x"], d["w"]]),
        ("y ~ center(x, 4) + c", lambda d: [d["x"] ** 0, d["x"] - 4, d["c"] == "b", d["c"] == "rare"]),
        ("y ~ center(x) * w", lambda d: [d["x"] ** 0, d["x"] - 5, d["w"], (d["x"] - 5) * d["w"]]),
        ("y ~ x + x^2", lambda d: [d["x"] ** 0, d["x"], d["x"] ** 2]),
        (
            "y ~ x * C(c, a)",
            lambda d: [
                d["x"] ** 0,
                d["x"],
                d["c"] == "b",
                d["c"] == "rare",
                d["x"] * (d["c"] == "b"),
                d["x"] * (d["c"] == "rare"),
            ],
        ),
        ("y ~ 0 + c + x", lambda d: [d["c"] == "a", d["c"] == "b", d["c"] == "rare", d["x"]]),
    ],
)
def test_without_noise_it_is_the_plain_regression(formula: str, columns: object) -> None:
    data = rows(400, 60)
    parsed = parse_formula(formula.replace("+ c", "+ C(c, a)"))
    design = regression_design(parsed, DOMAINS, 4096)
    exact = exact_moments(design, data)
    fit = LinearFit(design, MomentEstimates(exact, 1e-7 * np.eye(len(exact))), one_row_per_unit=True)
    matrix = np.array([np.asarray(column, float) for column in columns(data)]).T  # type: ignore[operator]
    solution, residual = np.linalg.lstsq(matrix, data["y"], rcond=None)[:2]
    table = fit.coefficients(0.95)
    assert [each.value for each in table] == pytest.approx(solution.tolist(), rel=1e-6, abs=1e-9)
    deviations = np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix)) * residual[0] / (400 - matrix.shape[1]))
    sampling = [each.sampling or 0.0 for each in table]
    assert sampling == pytest.approx((1.959964 * deviations).tolist(), rel=1e-5)
    z = [each.z or 0.0 for each in table]
    assert z == pytest.approx((solution / deviations).tolist(), rel=1e-4)
    if "-" not in formula and "0" not in formula:
        total = ((data["y"] - data["y"].mean()) ** 2).sum()
        assert fit.r_squared(0.95)[0] == pytest.approx(1 - residual[0] / total, rel=1e-6)


def test_the_range_of_r_squared_has_the_confidence_asked_for_and_is_endless_where_the_total_may_be_noise() -> None:
    data, design = rows(2000, 20), regression_design(parse_formula("y ~ x + w"), DOMAINS, 4096)
    exact = exact_moments(design, data)
    fit = LinearFit(design, noisy(design, exact, 1.0, np.random.default_rng(3)), True)
    (value, low, high), (_, lowest, highest) = fit.r_squared(0.8), fit.r_squared(0.95)
    assert 0 < lowest < low < value < high < highest < 1
    assert (value - lowest) / (value - low) == pytest.approx(1.959964 / 1.281552, rel=1e-5)
    lost = LinearFit(design, noisy(design, exact, 2000.0, np.random.default_rng(3)), True)
    assert lost.r_squared(0.95)[1:] == (0.0, 1.0)


@pytest.mark.parametrize("squares_off", [0.0, -2.0])
def test_the_errors_variance_is_raised_by_one_deviation_of_its_noise(squares_off: float) -> None:
    """Residuals by plain least squares on the rows, and the deviation from the noise of each moment; noise that makes
    the residual squares negative leaves the deviation alone.
    """
    data, design = rows(300, 0), regression_design(parse_formula("y ~ x + w"), DOMAINS, 4096)
    exact, index = exact_moments(design, data), design.gram_index
    deviations = 40 / np.sqrt(np.array(list(design.gram_entry_count_by_moment.values())))
    matrix = np.array([np.ones(300), data["x"], data["w"]], float).T
    solution, residual = np.linalg.lstsq(matrix, data["y"], rcond=None)[:2]
    slopes = [float(column.slope) for column in design.columns]
    middles = [float(column.middle) for column in design.columns]
    order = [column.factors[0] for column in design.columns]
    by_name = dict(zip(["x", "w"], solution[1:], strict=True)) | {"y": -1.0}
    weights = [solution[0] + sum(by_name[name] * middle for name, middle in zip(order, middles, strict=True))]
    weights += [by_name[order[each.column]] * slopes[each.column] for each in design.coordinates[1:]]  # type: ignore[index]
    scaled = np.array(weights) / slopes[order.index("y")]
    by_moment = [float((np.outer(scaled, scaled) * (index == moment)).sum()) for moment in range(len(exact))]
    squares = residual[0] / slopes[order.index("y")] ** 2
    deviation = math.hypot(*(np.array(by_moment) * deviations))
    assert deviation > squares / 2
    moved = exact + np.eye(len(exact))[index[-1, -1]] * squares_off * squares
    fit = LinearFit(design, MomentEstimates(moved, np.diag(deviations)), one_row_per_unit=True)
    expected = (max(0.0, squares + squares_off * squares) + deviation) / (300 - 3)
    assert fit.error_variance == pytest.approx(expected, rel=1e-6)


def covered(deviation: float, draws: int, rare: int, *, believed: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Count, for each coefficient, the draws whose interval misses the table's own, and the unbounded ones."""
    data, design = rows(2000, rare), regression_design(parse_formula("y ~ x + w + C(c, a)"), DOMAINS, 4096)
    exact, random = exact_moments(design, data), np.random.default_rng(7)
    truth = LinearFit(design, MomentEstimates(exact, 1e-9 * np.eye(len(exact))), True).coefficients(0.95)
    missed, unbounded = np.zeros(len(truth)), np.zeros(len(truth))
    for _ in range(draws):
        estimates = noisy(design, exact, deviation, random)
        estimates = replace(estimates, factor=estimates.factor * believed)
        for index, (each, true) in enumerate(zip(_noise_intervals(estimates, design), truth, strict=True)):
            missed[index] += not each[0] <= true.value <= each[1]
            unbounded[index] += not all(map(math.isfinite, each))
    return missed, unbounded


def _noise_intervals(estimates: MomentEstimates, design: Design) -> list[tuple[float, float]]:
    return [each.noise for each in LinearFit(design, estimates, one_row_per_unit=False).coefficients(0.95)]


def limit(draws: int) -> float:
    """The most misses of 95 % intervals: by Hoeffding's bound exceeded with probability 1e-7."""
    return 0.05 * draws + math.sqrt(draws * math.log(1e7) / 2)


def test_intervals_cover_and_a_broken_twin_is_caught() -> None:
    """5 % misses of 60 draws, with noise that would be half as large in the twin's belief: 33 % misses."""
    missed, unbounded = covered(20.0, 60, 600)
    assert (missed <= limit(60)).all()
    assert not unbounded.any()
    missed, _ = covered(20.0, 60, 600, believed=0.25)
    assert missed.max() > limit(60)


def test_a_coefficient_that_noise_hides_has_no_ends() -> None:
    """Five rows of a value under noise of 60: nothing can be told of it, and the other coefficients still are."""
    missed, unbounded = covered(60.0, 30, 5)
    assert (missed <= limit(30)).all()
    assert unbounded[-1] >= 20
    assert unbounded[1:4].max() < unbounded[-1] / 2


@pytest.mark.long
@pytest.mark.parametrize(("deviation", "rare"), [(5.0, 600), (20.0, 600), (60.0, 600), (20.0, 20), (60.0, 60)])
def test_intervals_cover_at_every_strength(deviation: float, rare: int) -> None:
    draws = 1000
    missed, _ = covered(deviation, draws, rare)
    assert (missed <= 0.05 * draws + 5 * math.sqrt(draws * 0.05 * 0.95)).all()


def test_the_ends_of_an_interval_are_where_the_test_rejects() -> None:
    data, design = rows(500, 60), regression_design(parse_formula("y ~ x + w + C(c, a)"), DOMAINS, 4096)
    fit = LinearFit(design, noisy(design, exact_moments(design, data), 10.0, np.random.default_rng(2)), True)
    for sampling in (fit.sampling_variance, lambda _: 0.0):
        test = CoefficientTest(fit._score_matrix, fit._score_noise_matrices, sampling, fit.estimate)
        for index in range(len(fit.estimate)):
            low, high = test.unrejected_interval(index, 1.96)
            assert test.z(index, low) == pytest.approx(1.96, rel=1e-6)
            assert test.z(index, high) == pytest.approx(-1.96, rel=1e-6)


def test_the_variance_of_a_score_is_that_of_its_noise() -> None:
    """a + 2bs + cs² is vᵀV(θ)v where the coefficient is s above its estimate, on the path of the others."""
    data, design = rows(500, 60), regression_design(parse_formula("y ~ x + w + C(c, a)"), DOMAINS, 4096)
    fit = LinearFit(design, noisy(design, exact_moments(design, data), 10.0, np.random.default_rng(2)), True)
    test = CoefficientTest(fit._score_matrix, fit._score_noise_matrices, fit.sampling_variance, fit.estimate)
    for index, shift in [(0, 0.3), (2, -0.5), (4, 1.0)]:
        point = np.append(fit.estimate + shift * test._coefficient_path(index), 1.0)
        noises = fit._score_noise_matrices @ point
        direction = test.inverse[index]
        expected = direction @ (noises.T @ noises + fit._sampling_covariance) @ direction
        a, b, c = test.variance_polynomial(index)
        assert a + 2 * b * shift + c * shift**2 == pytest.approx(expected)
        assert direction @ (fit._score_matrix @ point) == pytest.approx(shift)


def test_the_noise_of_the_score_is_that_of_its_moments() -> None:
    """A change of one moment moves the released score by what the covariance says it may."""
    data, design = rows(300, 60), regression_design(parse_formula("y ~ x * C(c, a)"), DOMAINS, 4096)
    exact = exact_moments(design, data)
    fit = LinearFit(design, MomentEstimates(exact, np.eye(len(exact))), True)
    point = np.append(fit.estimate, 1.0)
    for index in range(len(exact)):
        moved = exact.copy()
        moved[index] += 1
        changed = LinearFit(design, MomentEstimates(moved, np.eye(len(exact))), True)
        assert changed._score_matrix @ point - fit._score_matrix @ point == pytest.approx(
            fit._score_noise_matrices[index] @ point, abs=1e-9
        )


@pytest.mark.parametrize("totals", ["zero", "negative", "huge", "random"])
def test_every_release_has_a_table(totals: str) -> None:
    """Whatever the noise leaves: no rows, negative squares, or numbers without any pattern."""
    design = regression_design(parse_formula("y ~ x + w + c + x^2"), DOMAINS, 4096)
    size = len(design.gram_entry_count_by_moment)
    values = {
        "zero": np.zeros(size),
        "negative": np.full(size, -1000.0),
        "huge": np.full(size, 1e12),
        "random": np.random.default_rng(0).normal(0, 100, size),
    }[totals]
    fit = LinearFit(design, noisy(design, values, 50.0, np.random.default_rng(3)), True)
    table = fit.coefficients(0.95)
    assert len(table) == 6
    assert all(math.isfinite(each.value) for each in table)
    assert all(each.noise[0] <= each.value <= each.noise[1] for each in table)
    assert 0 <= fit.r_squared(0.95)[1] <= fit.r_squared(0.95)[2] <= 1
