"""Graphical models on record: trees, sums of tables, messages, and models fitted in a fixed number of rounds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from claims.flattening import claims_of, outcome
from claims.recorded import Claim, check_claims
from sfumato.publish.graph import fitting, models, trees
from sfumato.publish.graph.fitting import Observation, fit_model
from sfumato.publish.graph.models import (
    CliqueMerging,
    GraphicalModel,
    LogFactor,
    Potential,
    PropagationSchedule,
    _components,
    _connecting_cliques,
)
from sfumato.publish.graph.trees import JunctionTree

SIZES = (2, 3, 4, 2, 5, 3, 2)
FORESTS: dict[str, list[tuple[int, ...]]] = {
    "none": [],
    "pairs": [(0, 1), (2, 3)],
    "chain": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)],
    "ring": [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)],
    "two rings": [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (2, 5)],
    "star": [(2, 0), (2, 1), (2, 3), (2, 4)],
    "triples": [(0, 1, 2), (2, 3, 4), (4, 5, 6), (1, 2)],
    "within": [(0, 1, 2), (0, 1), (1,), (5, 6)],
    "turned": [(2, 0, 1), (4, 2, 0), (1,), (5,)],
    "grid": [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)],
}


def numbers(places: tuple[int, ...], turn: int = 0) -> np.ndarray:
    shape = tuple(SIZES[place] for place in places)
    return ((np.arange(int(np.prod(shape))) * 7 + 3 * turn) % 11).astype(float).reshape(shape)


@pytest.mark.parametrize("name", FORESTS)
def test_trees(name: str) -> None:
    sets = FORESTS[name]
    tree = JunctionTree.for_sets(sets, SIZES)
    found: dict[str, Claim] = claims_of("tree", tree) | {"cells": tree.cell_count(SIZES)}
    found |= {"predicted": trees.predicted_cells(sets, SIZES), "bytes": trees.predicted_bytes(sets, SIZES)}
    found |= claims_of("holding", [tree.clique_index_with(each) for each in ((0,), (0, 1), (2, 5), (3, 4), (6, 0))])
    found |= claims_of("components", _components(tree))
    for held in ({0}, {0, 4}, {1, 6}, {0, 2, 5}):
        for cliques in _components(tree):
            found |= claims_of(f"between {sorted(held)} {cliques}", _connecting_cliques(tree, cliques, held))
    check_claims(f"graph/tree_{name.replace(' ', '_')}", found)


def test_sets_as_bits() -> None:
    found: dict[str, Claim] = {}
    for each in ((), (0,), (3, 1), (6, 2, 0)):
        mask = trees.bit_mask(each)
        found |= {f"mask {each}": mask} | claims_of(f"places {each}", trees.attributes_in_mask(mask))
    for given in ((0, 6), (0, 7), (-1,), (0, 0), 5, [2], (True,)):
        found |= claims_of(f"checked {given}", outcome(lambda: trees.parse_attribute_indices(given, 7)))
    for sizes in ((), (3,), (3, 4)):
        found |= {f"bytes {sizes}": trees.predicted_bytes([], sizes)}
        found |= {f"cells {sizes}": trees.predicted_cells([], sizes)}
    check_claims("graph/bits", found)


def test_sums_and_products_of_tables() -> None:
    found: dict[str, Claim] = {}
    sizes = (2, 3, 20, 1, 4)
    whole = np.arange(2 * 3 * 20 * 4, dtype=float) % 13
    for places in ((0, 1, 4, 2), (3, 0, 1, 4, 2)):
        table = whole.reshape([sizes[place] for place in places])
        for count in range(len(places) + 1):
            for kept in itertools.combinations(places, count):
                found |= claims_of(f"sum {places} {kept}", trees.sum_to_attributes(table, places, kept).reshape(-1)[:8])
                made = trees._sum_steps(table.shape, places, kept)
                found |= claims_of(f"shape {places} {kept}", (made[1], sorted(each[1] for each in made[0])))
    left, right = np.arange(24.0).reshape(2, 3, 4) % 5, np.arange(240.0).reshape(3, 4, 20) % 7
    for kept in ((0,), (1,), (0, 2), (0, 1, 2), (0, 4, 2), (1, 4), ()):
        made = trees.multiply_and_sum(left, (0, 1, 4), right, (1, 4, 2), kept, sizes)
        found |= claims_of(f"joined {kept}", made.reshape(-1)[:9])
    found |= claims_of(
        "laid out", [trees.canonical_order(each, sizes) for each in ((2, 1, 0), (4, 3), (0, 1, 2, 3, 4))]
    )
    found |= claims_of("arranged", trees.transpose_to(left, (0, 1, 4), (4, 0, 1)).reshape(-1))
    found |= claims_of("divided", trees.divide_or_zero(np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.0, -1.0])))
    check_claims("graph/tables", found)


@pytest.mark.parametrize("name", FORESTS)
def test_models(name: str) -> None:
    sets = FORESTS[name]
    own = [Potential(each, numbers(each, turn) / 5) for turn, each in enumerate(sets)]
    if name == "ring":
        own.append(Potential((0, 1), np.where(numbers((0, 1)) > 8, -np.inf, 0.0)))
    if name == "triples":
        own[0] = Potential(sets[0], numbers(sets[0]) * 100)  # beyond what numbers of 64 bits hold
    model = GraphicalModel.from_potentials(SIZES, own, 1000.0)
    found: dict[str, Claim] = {}
    for index, belief in enumerate(model.beliefs):
        found |= claims_of(f"clique {index}", belief.reshape(-1)[:12])
    asked = [(0,), (6,), (1, 0), (0, 4), (5, 1), (0, 2, 5), (6, 3, 0), (), (2, 3)]
    for places, each in zip(asked, model.marginals(asked), strict=True):
        found |= claims_of(f"marginal {places}", each.reshape(-1)[:12])
        found |= claims_of(f"sum {places}", float(each.sum()))
    for index, each in enumerate(model.conditionals()):
        found |= claims_of(f"conditional {index}", (each.new, each.given, each.table.shape))
    cut = model.conditioned_on_zeros([((0,), np.array([True, False]))])
    found |= claims_of("cut", cut.marginal((0, 1)))
    check_claims(f"graph/model_{name.replace(' ', '_')}", found)


def test_messages() -> None:
    found: dict[str, Claim] = {}
    rings = [(0, 1), (1, 2), (0, 2)], [(0, 1), (1, 2), (2, 3), (0, 3)]
    for sets in (*rings, [(0,), (1,), (2,), (3,)], [(0, 1, 2), (1,)]):
        top = trees.canonical_order({place for each in sets for place in each}, SIZES)
        laid = [trees.canonical_order(each, SIZES) for each in sets]
        merging = CliqueMerging.for_sets(top, laid, SIZES)
        found |= claims_of(f"{sets} parts", merging.parts)
        found |= claims_of(f"{sets} above", {str(key): each for key, each in merging.union_by_set.items()})
        terms = [(each, numbers(each, turn) + 1) for turn, each in enumerate(laid)]
        products = merging.multiply_into_parts(terms)
        found |= claims_of(f"{sets} whole", float(merging.multiply_out(products).sum()))
        added = {str(key): each.reshape(-1)[:6] for key, each in merging.sums_by_set(products).items()}
        found |= claims_of(f"{sets} sums", added)
        for each in laid:
            found |= claims_of(f"{sets} to {each}", merging.sum_to(products, each).reshape(-1)[:6])
        merging.rescale(products, laid[0], numbers(laid[0]) / 2)
        found |= claims_of(f"{sets} rescaled", float(merging.multiply_out(products).sum()))
    for logs in (np.array([0.0, -3.0]), np.array([5.0, -np.inf, 2.0]), np.array([-np.inf])):
        made = LogFactor.from_logs((0,), logs)
        found |= claims_of(f"scaled {logs.tolist()}", None if made is None else (made.logs, made.depth))
    tree = JunctionTree.for_sets([(0, 1), (1, 2)], SIZES)
    found |= claims_of("homes", [models._smallest_clique_with(each, tree, SIZES) for each in ((0,), (1,), (1, 2))])
    found |= claims_of("no home", outcome(lambda: models._smallest_clique_with((0, 2), tree, SIZES)))
    nothing = [np.full((2, 3), -np.inf)]
    found |= claims_of(
        "nothing", outcome(lambda: PropagationSchedule(tree, SIZES, [(0, 1)]).potential_counts(nothing, 1.0))
    )
    check_claims("graph/messages", found)


def observed(sets: list[tuple[int, ...]]) -> list[Observation]:
    return [Observation(each, 3 * numbers(each, turn), 1.5 + turn) for turn, each in enumerate(sets)]


@pytest.mark.parametrize("name", ["pairs", "chain", "ring", "triples", "within", "turned"])
def test_fits(name: str) -> None:
    sets = FORESTS[name]
    found: dict[str, Claim] = {}
    zeros = [((0, 1), numbers((0, 1)) > 8)]
    for rounds in (0, 1, 2, 4):
        empty = Observation((6,), np.array([0.2, 300.0]), 4.0)
        made = fit_model([*observed(sets), *observed(sets[:1]), empty], SIZES, 120.0, zeros=zeros, max_rounds=rounds)
        found |= claims_of(f"{rounds} empty", made.marginal((6,)))
        for each in sets[:3]:
            found |= claims_of(f"{rounds} {each}", made.marginal(each).reshape(-1)[:8])
        again = fit_model(observed([(0,), (4, 2, 0), (3, 2)]), SIZES, 90.0, start=made, max_rounds=1)
        found |= claims_of(f"{rounds} again", again.marginal((2, 3)).reshape(-1))
    check_claims(f"graph/fit_{name}", found)


@pytest.mark.parametrize("name", ["pairs", "ring", "turned"])
def test_where_fits_end(name: str) -> None:
    """The last bits decide after which step it ends: such counts are recorded to a tenth of a row."""
    found: dict[str, Claim] = {}
    near = fit_model(observed(FORESTS[name]), SIZES, 120.0, tolerance=1e-5)
    for each in FORESTS[name][:3]:
        found |= {f"{each}": tuple(round(float(one), 1) + 0.0 for one in near.marginal(each).reshape(-1)[:8])}
    check_claims(f"graph/fit_end_{name}", found)


def test_what_is_fitted_is_checked() -> None:
    found: dict[str, Claim] = {}
    one = np.ones(2)
    tried: dict[str, Any] = {
        "total": lambda: fit_model((), SIZES, np.inf),
        "small": lambda: fit_model((), SIZES, -5.0).total,
        "shape": lambda: fit_model([Observation((1,), one, 1.0)], SIZES, 1.0),
        "value": lambda: fit_model([Observation((0,), one * np.nan, 1.0)], SIZES, 1.0),
        "deviation": lambda: fit_model([Observation((0,), one, 0.0)], SIZES, 1.0),
        "infinite": lambda: fit_model([Observation((0,), one, np.inf)], SIZES, 1.0),
        "zeros": lambda: fit_model((), SIZES, 1.0, zeros=[((0,), np.ones(3, bool))]),
        "all zero": lambda: fitting.require_some_possible_cell([((0,), np.ones(2, bool))], SIZES),
        "some zero": lambda: fitting.require_some_possible_cell([((0,), np.array([True, False]))], SIZES),
        "model": lambda: GraphicalModel.from_potentials(SIZES, (), 0.0),
    }
    for name, run in tried.items():
        found |= claims_of(name, outcome(run))
    losses = [100.0, 50.0, 49.9, 49.8, 49.7, 49.6, 49.5]
    for count, tolerance in itertools.product((3, 5, 6, 7), (1e-4, 2e-3, 0.3)):
        found |= {f"settled {count} {tolerance}": fitting._has_settled(losses[:count], tolerance)}
    check_claims("graph/checked", found)
