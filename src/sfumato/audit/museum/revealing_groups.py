"""Room 5: groups whose presence, absence or order reveals a person."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Mechanism, Outputs, Room
from sfumato.privacy import Guarantee, Neighbours

_WITHHELD = -1000
_DELTA = 0.0134
"""At this δ a threshold of 5 is just sufficient: P(1 + Y ≥ 5) = 0.01339."""
_CLAIM = Guarantee(1, "0.0134")


def _threshold(scale: float, delta: float = _DELTA) -> int:
    """Return the least τ with P(1 + Y ≥ τ) ≤ δ: q^(τ−1)/(1 + q) for noise Y with this scale, q = e^(−1/scale)."""
    return 1 + math.ceil(-scale * math.log(delta * (1 + math.exp(-1 / scale))))


def _threshold_count(noise: Noise, count: int, runs: int, threshold: float, scale: float = 1) -> Outputs:
    """Show the noisy count of a key if it reaches the threshold; a key without rows is never shown."""
    if not count:
        return np.full(runs, _WITHHELD)
    noisy = count + noise.laplace(scale, runs)
    return np.where(noisy >= threshold, noisy, _WITHHELD)


def _keys_above(threshold: float) -> Mechanism:
    return lambda noise, count, runs: _threshold_count(noise, count, runs, threshold)


def _threshold_rows(noise: Noise, rows: int, runs: int) -> Outputs:
    return _threshold_count(noise, rows, runs, _threshold(1))


def _threshold_holders(noise: Noise, rows: int, runs: int) -> Outputs:
    return _threshold_count(noise, min(rows, 1), runs, _threshold(1))


def _count_shown_keys(delta: float) -> Mechanism:
    """Return how many of one person's five unique keys are shown."""

    def run(noise: Noise, keys: int, runs: int) -> Outputs:
        is_shown = 1 + noise.laplace(5, runs, 5) >= _threshold(5, delta)
        return np.asarray(is_shown[:, :keys].sum(axis=1))

    return run


def _suppress_by_exact_count(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray(count + noise.laplace(1, runs)) if count >= 5 else np.full(runs, _WITHHELD)


def _suppress_by_noisy_count(noise: Noise, count: int, runs: int) -> Outputs:
    noisy = count + noise.laplace(1, runs)
    return np.where(noisy >= 5, noisy, _WITHHELD)


def _skip_empty_cells(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray(count + noise.laplace(1, runs)) if count else np.zeros(runs, np.int64)


def _order_by_exact_count(noise: Noise, counts: Sequence[int], runs: int) -> Outputs:
    """Sort two groups by their exact counts; return which comes first beside both noisy counts."""
    return np.stack([np.full(runs, int(np.argmax(counts))), *(np.array(counts) + noise.laplace(1, runs, 2)).T], axis=1)


def _order_by_noisy_count(noise: Noise, counts: Sequence[int], runs: int) -> Outputs:
    noisy = np.array(counts) + noise.laplace(1, runs, 2)
    return np.stack([noisy.argmax(axis=1), *noisy.T], axis=1)


_DECLARED_EDGE = 100


def _histogram_with_edge(noise: Noise, values: Sequence[int], runs: int, last: int) -> Outputs:
    """Show the last edge of two bins and their noisy counts."""
    upper = sum(value > last / 2 for value in values)
    counts = np.array([len(values) - upper, upper]) + noise.laplace(1, runs, 2)
    return np.stack([np.full(runs, last), *counts.T], axis=1)


ROOM = Room(
    "Groups that give away",
    "Which groups are shown is an answer too, and so is their order.",
    (
        Exhibit(
            "Keys without noise",
            wrong="Counts of all groups are noisy, and the list of groups is exact. A group with a single person "
            "reveals that they are in the data: a rare diagnosis, a search that nobody else typed.",
            mended="A group is shown where its noisy count reaches a threshold that one person passes with "
            "probability δ.",
            seen="Whether the group is shown.",
            source="Korolova, Kenthapadi, Mishra & Ntoulas 2009, Releasing search queries and clicks privately",
            inputs=(0, 1),
            worlds="a key that nobody holds, and one person",
            claim=_CLAIM,
            broken=_keys_above(-math.inf),
            correct=_keys_above(_threshold(1)),
        ),
        Exhibit(
            "Empty cells left empty",
            wrong="Only cells with a row get noise, so that the table stays sparse. A cell that shows exactly 0 is "
            "empty, and any other has somebody in it.",
            mended="Every possible cell gets noise.",
            seen="Exactly 0 every time, or not.",
            source="Balcer & Vadhan 2018, Differential privacy on finite computers (histograms over large domains)",
            inputs=(0, 1),
            worlds="a cell without anybody, and with one person",
            broken=_skip_empty_cells,
            correct=lambda noise, count, runs: count + noise.laplace(1, runs),
        ),
        Exhibit(
            "A threshold off by one",
            wrong="The threshold is τ − 1 instead of τ, or 'above' means 'at least'. A person alone in a group is "
            "shown with probability e^ε·δ instead of δ.",
            mended="The threshold is the least τ with P(1 + noise ≥ τ) ≤ δ.",
            seen="The group is shown in more than δ of the runs.",
            source="opendp issue 2922 (a threshold off by one)",
            inputs=(0, 1),
            worlds="a key that nobody holds, and one person",
            claim=_CLAIM,
            samples=30_000,
            broken=_keys_above(_threshold(1) - 1),
            correct=_keys_above(_threshold(1)),
        ),
        Exhibit(
            "Rows counted where people should be",
            wrong="The threshold is compared with the number of rows. One person with six rows passes it alone.",
            mended="It is compared with the number of people who hold the key.",
            seen="The group is shown half of the time.",
            source="Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo & Gipson 2020, Differentially private SQL with "
            "bounded user contribution (τ-thresholding)",
            inputs=(0, 6),
            worlds="a key without rows, and with six of one person",
            claim=_CLAIM,
            broken=_threshold_rows,
            correct=_threshold_holders,
        ),
        Exhibit(
            "δ for each key instead of all",
            wrong="A person may hold five keys alone. Each is shown with probability δ, so one of them is shown with "
            "nearly 5δ.",
            mended="The five share δ: 1 − (1 − p)⁵ ≤ δ.",
            seen="Any of the five keys is shown.",
            source="Desfontaines, Voss, Gipson & Mandayam 2022, Differentially private partition selection",
            inputs=(0, 5),
            worlds="no key, and five that one person alone holds",
            claim=_CLAIM,
            samples=15_000,
            broken=_count_shown_keys(_DELTA),
            correct=_count_shown_keys(1 - (1 - _DELTA) ** (1 / 5)),
        ),
        Exhibit(
            "Small groups hidden by their exact size",
            wrong="Groups of fewer than five are hidden, as in official statistics, and noise is added to the others. "
            "Whether a group is hidden depends on its exact count.",
            mended="A noisy count that is small is hidden: that depends on the noisy count alone.",
            seen="Whether the group is hidden.",
            source="Desfontaines, Voss, Gipson & Mandayam 2022, Differentially private partition selection (why "
            "thresholds are noisy)",
            inputs=(4, 5),
            worlds="a group of four, and of five",
            broken=_suppress_by_exact_count,
            correct=_suppress_by_noisy_count,
        ),
        Exhibit(
            "Rows in their true order",
            wrong="The counts are noisy, and the rows of the answer are sorted by the exact ones, or left as the "
            "engine found them.",
            mended="Rows are sorted by what was released.",
            seen="Which row comes first.",
            source="Kifer, Messing, Roth, Thakurta & Zhang 2020, Guidelines for implementing and auditing "
            "differentially private systems (what leaks beside the number)",
            inputs=((5, 5), (5, 6)),
            worlds="two groups of five, and one of them with six",
            broken=_order_by_exact_count,
            correct=_order_by_noisy_count,
        ),
        Exhibit(
            "Edges of bins from the data",
            wrong="A histogram spans from the least to the largest value found. The last edge is somebody's value, "
            "printed exactly. Tools for synthetic tables do this with whole domains.",
            mended="The edges are declared.",
            seen="The last edge.",
            source="smartnoise issue 473 (bin edges of MWEM); Stadler, Oprisanu & Troncoso 2022, Synthetic data: "
            "anonymisation groundhog day",
            inputs=((10, 20, 30), (10, 20, 90)),
            worlds="three values, of which the largest is replaced",
            claim=Guarantee(2),
            neighbours=Neighbours.REPLACE,
            broken=lambda noise, values, runs: _histogram_with_edge(noise, values, runs, max(values)),
            correct=lambda noise, values, runs: _histogram_with_edge(noise, values, runs, _DECLARED_EDGE),
        ),
    ),
)
