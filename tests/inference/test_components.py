"""Principal components of noisy moments: exact without noise, and angles that hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from inference.rows import curator, people
from inference.test_linear import exact_moments, noisy
from sfumato.errors import SfumatoError
from sfumato.inference.components import ComponentsAnswer, ComponentsFit, components_design
from sfumato.inference.moments import MomentEstimates
from sfumato.policy import Domain, Type

DOMAINS = {"x": Domain(Type.INTEGER, (0, 10)), "w": Domain(Type.INTEGER, (-5, 5)), "y": Domain(Type.INTEGER, (0, 100))}
NAMES = ["x", "w", "y"]


def rows(count: int = 3000) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    x = random.integers(0, 11, count)
    w = np.clip(np.round(x / 2 - 3 + random.normal(0, 1, count)), -5, 5)
    return {"x": x, "w": w, "y": random.integers(30, 71, count)}


def angle(first: np.ndarray, second: np.ndarray) -> float:
    return math.degrees(math.acos(min(1.0, abs(float(first @ second)))))


def test_without_noise_they_are_those_of_the_rows() -> None:
    data, design = rows(), components_design(NAMES, DOMAINS, 4096)
    moments = exact_moments(design, data)
    fit = ComponentsFit(design, MomentEstimates(moments, 1e-9 * np.eye(len(moments))))
    middle, half = np.array([5, 0, 50]), np.array([5, 5, 50]) * 4096 / np.array([4090, 4090, 4000])
    scaled = (np.array([data[name] for name in NAMES]).T - middle) / half
    values, vectors = np.linalg.eigh(np.cov(scaled.T, bias=True))
    assert fit.variances == pytest.approx(values[::-1], rel=1e-6)
    for index in range(3):
        assert angle(fit.loadings[:, index], vectors[:, 2 - index]) < 1e-3
    assert max(fit.angles(0.95)) < 1e-3


def test_the_noise_of_the_covariance_is_its_derivative() -> None:
    """By central differences of C in the direction of each noise, the count's included."""
    data, design = rows(), components_design(NAMES, DOMAINS, 4096)
    moments, step = exact_moments(design, data), 0.1
    fit = ComponentsFit(design, MomentEstimates(moments, np.eye(len(moments))))
    for direction, change in zip(np.eye(len(moments)), fit._noise_directions, strict=True):
        above, below = (
            ComponentsFit(design, MomentEstimates(moments + sign * step * direction, np.eye(len(moments)))).covariance
            for sign in (1, -1)
        )
        assert np.abs(change).max() > 1e-5
        assert change == pytest.approx((above - below) / (2 * step), abs=1e-10)


def misses(believed: float, draws: int = 60) -> tuple[int, int]:
    """Count draws in which a variance, or an angle, is further off than it says."""
    data, design, random = rows(), components_design(NAMES, DOMAINS, 4096), np.random.default_rng(5)
    moments = exact_moments(design, data)
    truth = ComponentsFit(design, MomentEstimates(moments, np.eye(len(moments))))
    variance_misses = angle_misses = 0
    for _ in range(draws):
        estimates = noisy(design, moments, 10.0, random)
        fit = ComponentsFit(design, MomentEstimates(estimates.values, believed * estimates.factor))
        error = fit.covariance_error(0.95)
        variance_misses += bool(np.abs(fit.variances - truth.variances).max() > error)
        turned = [angle(fit.loadings[:, index], truth.loadings[:, index]) for index in range(3)]
        angle_misses += bool((np.array(turned) > np.array(fit.angles(0.95))).any())
    return variance_misses, angle_misses


def test_variances_and_angles_hold_and_a_broken_twin_is_caught() -> None:
    most = 0.05 * 60 + math.sqrt(60 * math.log(1e7) / 2)
    assert max(misses(1.0)) <= most
    assert max(misses(0.1)) > most


def test_a_release_shows_and_reads_back(tmp_path: Path) -> None:
    with curator(people(2000), tmp_path) as made:
        proposal = made.components(["age", "cost", "hours"], "people", where="arm <> 'c'")
        answer = proposal.release(epsilon=2, delta="1e-6")
        assert ComponentsAnswer.from_json(answer.to_json()) == answer
        assert answer.columns == tuple(column.name for column in proposal.columns)
        assert answer.column("component") == [1, 2, 3]
        assert sum(answer.column("share")) == pytest.approx(1)
        assert "scaled to" in str(answer)
        assert proposal.error(proposal.price("0.01"), delta="1e-6") <= 0.01
        assert "components" in str(proposal.explain())
        assert proposal.release(epsilon=2, delta="1e-6").receipt.free
        assert proposal.preview(epsilon=1, delta="1e-6").is_preview


@pytest.mark.parametrize("columns", [["age"], "age", ["age", "Age"], ["age", "sex"], ["age", "free"], ["age", "no"]])
def test_what_has_no_components_is_refused(columns: list[str], tmp_path: Path) -> None:
    with curator(people(20), tmp_path) as made, pytest.raises(SfumatoError) as refused:
        made.components(columns, "people")
    assert refused.value.fix
