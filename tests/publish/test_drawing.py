"""Rows drawn from a model: their law, how evenly they are spread, and what is never drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.errors import InvalidParameter
from sfumato.publish import sampling
from sfumato.publish.sampling import sample_codes

RARE = 1e-7


@dataclass(frozen=True)
class Law:
    new: tuple[int, ...]
    given: tuple[int, ...]
    table: Any


RNG = np.random.default_rng(7)
JOINT = RNG.gamma(0.5, size=(3, 4, 5)) * (RNG.random((3, 4, 5)) > 0.2)
CHAIN = [Law((1,), (), JOINT.sum((0, 2))), Law((0, 2), (1,), JOINT.transpose(1, 0, 2))]


def counts(codes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.bincount(np.ravel_multi_index(tuple(codes.T), shape), minlength=int(np.prod(shape))).reshape(shape)


def test_rows_are_spread_evenly_within_their_parents() -> None:
    rows = 10_000
    found = counts(sample_codes(CHAIN, rows, 3), JOINT.shape)
    parents = found.sum((0, 2))
    wanted = JOINT / JOINT.sum((0, 2))[None, :, None] * parents[None, :, None]
    assert found.sum() == rows
    assert np.abs(parents - rows * JOINT.sum((0, 2)) / JOINT.sum()).max() < 2  # an end of a cell cuts two strata
    assert np.abs(found - wanted).max() < 2
    assert not found[JOINT == 0].any()


@pytest.mark.parametrize("rows", [1, 7, pytest.param(2, marks=pytest.mark.long)])
def test_a_row_by_itself_follows_the_law(rows: int, long: bool) -> None:
    draws = 5_000 if long else 2_000
    single = np.concatenate([sample_codes(CHAIN, rows, 3)[:1] for _ in range(draws)])
    found, wanted = counts(single, JOINT.shape), draws * JOINT / JOINT.sum()
    likely = wanted > 5
    score = ((found - wanted)[likely] ** 2 / wanted[likely]).sum()
    assert score < chi2.isf(RARE, likely.sum())
    assert not found[JOINT == 0].any()


def test_the_order_of_rows_says_nothing() -> None:
    law = [Law((0,), (), np.ones(2)), Law((1,), (), np.ones(2))]
    found = sample_codes(law, 40_000, 2)
    for column in (found[:, 0], found[:, 1]):
        beside = (column[1:] == column[:-1]).mean()
        assert abs(beside - 0.5) < 6 * 0.5 / 200
        assert abs(column[:20_000].mean() - 0.5) < 6 * 0.5 / 141


def test_columns_that_the_model_does_not_link_are_not_linked() -> None:
    """The strata of one clique say nothing of those of another: no pattern is planted."""
    law = [Law((0,), (), np.ones(20)), Law((1,), (0,), np.ones((20, 20))), Law((2,), (0,), np.ones((20, 20)))]
    found = counts(sample_codes(law, 80_000, 3)[:, 1:], (20, 20))
    score = ((found - 200.0) ** 2 / 200).sum()
    assert chi2.ppf(RARE, 361) < score < chi2.isf(RARE, 400)


@pytest.mark.parametrize("rows", [0, 1, 5, 1000, sampling.MAX_AT_ONCE + 3])
def test_any_number_of_rows_can_be_drawn(rows: int) -> None:
    found = sample_codes(CHAIN, rows, 3)
    assert found.shape == (rows, 3)
    assert rows < 5 or not counts(found, JOINT.shape)[JOINT == 0].any()


def test_weights_of_any_size_are_weights() -> None:
    for size in (1e-300, 1.0, 1e300):
        law = [
            Law((0,), (), np.array([1.0, 1e-12, 3.0]) * size),
            Law((1,), (0,), np.array([[1, 1], [0, 1], [1, 0]]) * size),
        ]
        found = counts(sample_codes(law, 4000, 2), (3, 2))
        assert abs(found[0].sum() - 1000) <= 1
        assert found[2].tolist() == [found[2].sum(), 0]


def test_large_tables_with_few_rows_keep_to_their_parents() -> None:
    table = np.zeros((3000, 40, 7))
    table[np.arange(3000), np.arange(3000) % 40, np.arange(3000) % 7] = 1
    law = [Law((0,), (), np.ones(3000)), Law((1, 2), (0,), table)]
    found = sample_codes(law, 500, 3)
    assert (found[:, 1] == found[:, 0] % 40).all()
    assert (found[:, 2] == found[:, 0] % 7).all()


def test_a_parent_without_a_law_takes_that_of_all() -> None:
    law = [Law((0,), (), np.ones(2)), Law((1,), (0,), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 3.0]]))]
    found = counts(sample_codes(law, 400, 2), (2, 3))
    assert found[0].tolist() == found[1].tolist() == [0, 50, 150]


def test_columns_of_one_cell_are_drawn() -> None:
    law = [Law((0, 1), (), np.ones((1, 1))), Law((2,), (0, 1), np.ones((1, 1, 2)))]
    assert sample_codes(law, 10, 3).sum() == 5


@pytest.mark.parametrize(
    "table", [np.zeros(3), np.array([1.0, -1.0]), np.array([np.nan]), np.array([np.inf]), np.ones(0)]
)
def test_what_is_no_law_is_refused(table: Any) -> None:
    with pytest.raises(InvalidParameter):
        sample_codes([Law((0,), (), table)], 3, 1)
