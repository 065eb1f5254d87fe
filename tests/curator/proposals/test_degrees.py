"""Histograms of degrees: what an edge moves, over all small graphs, and what a release costs and shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.curator import Degrees
from sfumato.plan.bounding import for_neighbours

GRAPHS = Path(__file__).parent.parent.parent / "data" / "graphs"
NODES = ["a", "b", "c"]
EDGES = list(combinations_with_replacement(range(3), 2))
"""Every edge between three nodes, to a node itself too."""


def curator(edges: pd.DataFrame, nodes: list[object], folder: Path, neighbours: str = "add-remove") -> sf.Curator:
    ends = {"source": {"values": nodes}, "target": {"values": nodes}}
    table = sf.Table("ties", edges, ends, id="row")
    unit = sf.PrivacyUnit("tie", every_row=True)
    policy = sf.Policy(unit, sf.Budget(10, neighbours=neighbours), {"ties": table}, size=100)
    return sf.Curator(policy, folder / "ties.ledger")


def frame(edges: list[tuple[int, int]]) -> pd.DataFrame:
    names = [(NODES[a], NODES[b]) for a, b in edges]
    return pd.DataFrame(names, columns=["source", "target"], dtype=object).astype(str)


@pytest.mark.parametrize("ends", [("source", "target"), ("target",)])
def test_the_sensitivity_holds_and_is_reached_on_every_small_graph(ends: tuple[str, ...], tmp_path: Path) -> None:
    """All multigraphs of up to three edges on three nodes; whoever is added, removed or exchanged."""
    with curator(frame([(0, 1)]), list(NODES), tmp_path) as made:
        proposal = made.degrees("ties", ends, most=3)
        reading, groups = proposal.reading, proposal.nodes
        assert reading.sensitivity.l1 == 2 * len(ends)
        replaced = for_neighbours(reading.bounded, sf.Neighbours.REPLACE)
        twice = type(reading)(type(reading.totals)(replaced), reading.max_size)
        assert twice.sensitivity.l1 == 2 * min(2 * len(ends), len(NODES))  # there are no more nodes to move

        def histogram(edges: tuple[tuple[int, int], ...]) -> np.ndarray:
            """The degrees reckoned here: an edge counts at each of its ends."""
            places = [slice(0, 2)] if len(ends) == 2 else [slice(1, 2)]
            found = Counter(NODES[node] for edge in edges for place in places for node in edge[place])
            return reading.extract(np.array([[found[str(group[0])]] for group in groups], np.int64))

        graphs = [edges for size in range(3) for edges in combinations_with_replacement(EDGES, size)]
        added = exchanged = one_place = 0
        for edges in graphs:
            grown = [histogram((*edges, edge)) for edge in EDGES]
            moved = [np.abs(each - histogram(edges)) for each in grown]
            added, one_place = (
                max(added, *(each.sum() for each in moved)),
                max(one_place, *(each.max() for each in moved)),
            )
            exchanged = max(exchanged, *(np.abs(a - b).sum() for a, b in product(grown, grown)))
        assert added <= reading.sensitivity.l1
        assert added == 2 * len(ends)
        assert one_place <= reading.sensitivity.linf
        assert added <= exchanged <= twice.sensitivity.l1


@pytest.mark.parametrize("name", ["karate", "florentine"])
def test_without_noise_it_is_the_histogram(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    edges = pd.read_csv(GRAPHS / f"{name}.edges.csv")
    nodes = sorted({*edges["source"], *edges["target"]})
    degrees = Counter(Counter([*edges["source"], *edges["target"]]).values())
    with curator(edges, [*nodes, "nobody"] if name == "florentine" else nodes, tmp_path) as made:
        found = made.degrees("ties", ("source", "target")).release(epsilon=1)
        degrees[0] += name == "florentine"
        assert list(found.counts) == [degrees[d] for d in range(len(found.counts))]
        assert sum(found.counts) == len(nodes) + (name == "florentine")
        capped = made.degrees("ties", ["source", "target"], most=3).release(epsilon=1)
        assert capped.counts[3] == sum(n for d, n in degrees.items() if d >= 3)
        arriving = made.degrees("ties", "target").release(epsilon=1)
        exactly = edges["target"].value_counts()
        assert arriving.counts[1] == (exactly == 1).sum()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_release_is_charged_and_found_again(neighbours: str, tmp_path: Path) -> None:
    edges = pd.read_csv(GRAPHS / "karate.edges.csv")
    with curator(edges, list(range(34)), tmp_path, neighbours) as made:
        proposal = made.degrees("ties", ("source", "target"), most=20)
        moved = 4 if neighbours == "add-remove" else 8
        assert f"at most {moved} in total" in str(proposal.explain(1))
        assert "one row (one tie)" in str(proposal.explain(1))
        assert proposal.price(proposal.error(2)) <= 2
        assert made.budget.remaining["pure"] == 10  # all that was free
        found = proposal.release(epsilon=2)
        assert made.budget.remaining["pure"] == 8
        assert proposal.release(epsilon=2) == found  # bought already
        assert proposal.release(epsilon=1) == found  # and as accurate
        assert made.budget.remaining["pure"] == 8
        stored = sf.loads(next(line for line in made.ledger if line.kind == "answer").body)
        assert stored.purchase.salt
        assert replace(stored, purchase=stored.purchase.without_salt) == found  # nobody is shown the salt of the line
        assert Degrees.from_json(found.to_json()) == found
        assert found.receipt is not None
        assert (found.receipt.guarantee, found.receipt.neighbours) == ("ε = 2", neighbours)
        assert found.noise is not None
        assert found.receipt.mechanisms == (found.noise.words(),)
        assert min(found.nonnegative().counts) >= 0
        assert len(found.counts) == 21
        other = made.degrees("ties", ("source", "target"), most=19)
        assert len(other.release(epsilon=1).counts) == 20  # another histogram
        assert proposal._context.policy is made.policy


def test_what_is_no_table_of_edges_is_refused(tmp_path: Path) -> None:
    edges = pd.DataFrame({"who": [1], "source": ["a"], "target": ["b"]})
    ends = {"source": {"values": NODES}, "target": {"type": "text"}}
    owned = sf.Table("ties", edges, ends, id="who", max_rows=2)
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(1), {"ties": owned})
    with (
        sf.Curator(policy, tmp_path / "a.ledger") as made,
        pytest.raises(sf.InvalidParameter, match="one edge in each row and every row as a unit"),
    ):
        made.degrees("ties", "source")
    rows = sf.Table("ties", edges, ends, id="row")
    policy = sf.Policy(sf.PrivacyUnit("tie", every_row=True), sf.Budget(1), {"ties": rows})
    with sf.Curator(policy, tmp_path / "b.ledger") as made:
        for wrong in ("nowhere", ("source", "source"), (), ("source", "target", "who")):
            with pytest.raises(sf.InvalidParameter, match="columns of ties"):
                made.degrees("ties", wrong)
        with pytest.raises(sf.Unsupported, match="values"):
            made.degrees("ties", "target")
        with pytest.raises(sf.InvalidParameter, match="most"):
            made.degrees("ties", "source", most=0)
