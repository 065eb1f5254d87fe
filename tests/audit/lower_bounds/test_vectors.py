"""Outputs of many columns are looked at together: what no column shows alone is seen, and sound twins pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit.lower_bounds.events import (
    LabelView,
    fit_discriminant,
    fit_trees,
    row_view,
    select_column,
    value_view,
)

Sampler = Callable[[int], Any]
SAMPLES = 40_000
CLAIM = sf.Guarantee(1)
SURE = "0.999999"


_seeded = [np.random.default_rng(7)]


@pytest.fixture(autouse=True)
def _the_same_every_time() -> None:
    _seeded[0] = np.random.default_rng(7)


def _noise(count: int, columns: int, scale: float = 4) -> Any:
    """Whole numbers, rounded after the noise is added: private as the noise is."""
    return np.rint(_seeded[0].laplace(scale=scale, size=(count, columns))).astype(np.int64)


def _two_sums_with_one_noise(x: int) -> Sampler:
    """A mean: a sum of sevens and a count share one noise, so that seven counts less the sum is exact."""

    def run(n: int) -> Any:
        z = _noise(n, 1, 40)[:, 0]
        return np.stack([50 + 7 * z, 20 + x + z, _noise(n, 1)[:, 0]], axis=1)

    return run


def _two_sums(x: int) -> Sampler:
    return lambda n: np.stack([50 + 7 * _noise(n, 1)[:, 0], 20 + x + _noise(n, 1)[:, 0], _noise(n, 1)[:, 0]], axis=1)


def _permuted(x: int) -> Sampler:
    """Two more numbers have the noises of the first two, in an order that is drawn: only the sum of all tells."""

    def run(n: int) -> Any:
        z = _noise(n, 2, 40)
        swap = _noise(n, 1)[:, 0] > 0
        return np.column_stack([z[:, 0] + x, z[:, 1], np.where(swap[:, None], z[:, ::-1], z)])

    return run


def _four_noises(x: int) -> Sampler:
    return lambda n: _noise(n, 4) + np.array([x, 0, 0, 0])


def _a_corner(x: int) -> Sampler:
    """One world never reaches the corner where three columns are large, which no two of them show."""

    def run(n: int) -> Any:
        z = _noise(n, 3, 10)
        corner = (z > 4).all(axis=1)
        z[corner] *= -1 if x else 1
        return z

    return run


def _no_corner(x: int) -> Sampler:
    return lambda n: _noise(n, 3, 10) + np.array([x, x, 0])


TWINS = {
    "two sums with one noise": (_two_sums_with_one_noise, _two_sums),
    "the same noises in another order": (_permuted, _four_noises),
    "a corner that one world never reaches": (_a_corner, _no_corner),
}


@pytest.mark.parametrize("name", TWINS)
def test_what_columns_show_together_is_seen(name: str) -> None:
    """A sound twin is refuted with probability at most 1e-6."""
    broken, sound = TWINS[name]
    caught = sf.audit.falsify((broken(0), broken(1)), CLAIM, SAMPLES)
    assert not caught.holds, str(caught)
    passed = sf.audit.falsify((sound(0), sound(1)), CLAIM, SAMPLES, SURE)
    assert passed.holds, str(passed)


@pytest.mark.parametrize("name", TWINS)
def test_no_column_shows_it_alone(name: str) -> None:
    """What is seen is seen in the joint law: each column for itself proves nothing against the claim."""
    broken, _ = TWINS[name]
    for column in range(3):
        worlds = [lambda n, x=x, c=column: broken(x)(n)[:, c] for x in (0, 1)]
        assert sf.audit.falsify(worlds, CLAIM, SAMPLES, SURE).holds


def test_a_bit_that_only_the_whole_row_tells() -> None:
    """Six coins whose number of heads is even, or odd: every five of them are fair."""

    def coins(x: int) -> Sampler:
        def run(n: int) -> Any:
            rows = np.random.default_rng(n + x).integers(0, 2, (n, 6))
            rows[:, 5] = (rows[:, :5].sum(axis=1) + x) % 2
            return rows

        return run

    caught = sf.audit.falsify((coins(0), coins(1)), CLAIM, 10_000)
    assert not caught.holds
    assert "the whole row" in caught.event


@pytest.mark.parametrize("odd", [np.nan, np.inf, pytest.param(-np.inf, marks=pytest.mark.long)])
def test_what_is_no_number_is_an_output_like_any_other(odd: float) -> None:
    def world(x: int) -> Sampler:
        def run(n: int) -> Any:
            values = _noise(n, 2).astype(float)
            values[: n * 9 // 10] = values[: n * 9 // 10] + np.random.default_rng(x).random((n * 9 // 10, 2))
            values[:: 10 if x else n, 1] = odd
            return values

        return run

    assert not sf.audit.falsify((world(0), world(1)), CLAIM, SAMPLES).holds
    assert sf.audit.falsify((world(1), world(1)), CLAIM, SAMPLES, SURE).holds


def test_a_value_among_many_others_has_a_label_of_its_own() -> None:
    rng = np.random.default_rng(3)
    values = np.where(rng.random(5000) < 0.3, 0.5, rng.random(5000))[:, None]
    view = value_view("the value", lambda outputs: select_column(0, outputs), values, values)
    labels = view.label(np.array([[0.5], [np.nextafter(0.5, 1)], [np.nextafter(0.5, 0)]]))
    assert len(set(labels.tolist())) == 3


def test_whole_rows_are_labelled_by_all_their_columns() -> None:
    rows = np.array([[0, 1], [1, 0], [1, 1], [2, 2]])
    view = row_view(rows[:3], rows[:3])
    labels = view.label(rows)
    assert len(set(labels.tolist())) == 4
    assert labels[3] == view.size - 1


def test_a_line_is_found_where_noises_cancel_out() -> None:
    worlds = [_two_sums_with_one_noise(x)(2000) for x in (0, 1)]
    line = fit_discriminant(worlds[0], worlds[1])
    scores = [line.scores(_two_sums_with_one_noise(x)(2000)) for x in (0, 1)]
    assert scores[0].min() > scores[1].max()


def test_trees_find_a_corner_and_add_up_to_odds() -> None:
    worlds = [_a_corner(x)(20_000) for x in (0, 1)]
    trees = fit_trees([lambda rows, i=i: rows[:, i] for i in range(3)], worlds[0], worlds[1])
    inside, outside = trees.scores(np.array([[9, 9, 9], [9, 9, -9]]))
    assert inside > 1.5
    assert abs(outside) < 0.5


def test_a_constant_output_is_no_reason_to_stop() -> None:
    same = (lambda n: np.zeros((n, 3)),) * 2
    assert sf.audit.falsify(same, sf.Guarantee(0), 1000, SURE).lower_bound == 0
    wide = (lambda n: np.full((n, 16), 1.7e308), lambda n: np.full((n, 16), -1.7e308))
    assert not sf.audit.falsify(wide, CLAIM, 1000).holds
    one = (lambda n: np.full(n, 1.7e308), lambda n: np.full(n, -1.7e308))
    assert sf.audit.falsify(one, CLAIM, 1000).plot().svg


def test_the_joint_law_of_sound_noise_is_nearly_tight() -> None:
    """All columns move, each a third of the whole: only together do they come near to ε, and never beyond."""
    verdict = sf.audit.falsify(sf.Laplace(3), CLAIM, 100_000, inputs=((0, 0, 0), (1, 1, 1)))
    assert verdict.lower_bound > 0.75
    assert sf.audit.falsify(sf.Laplace(3), CLAIM, 20_000, SURE, inputs=((0, 0, 0), (1, 1, 1))).holds


def test_views_count_every_output_once() -> None:
    rows = _noise(500, 2)
    for view in (row_view(rows, rows), value_view("a column", lambda outputs: outputs[:, 0], rows, rows)):
        assert isinstance(view, LabelView)
        assert view.counts(rows + 1).sum() == 500
