"""What drawing rows takes, and how much of the error of a synthetic table is chance of the draw.

.venv/bin/python bench/sampling.py [--model adult.sfu --data adult_encoded.csv]

Without a model, one of 15 columns is made up. With one and the rows it was made of, the mean total variation of all
marginals of three columns is told: of the model itself, and of n and 4n drawn rows.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from timing import cpu_seconds, row

import sfumato as sf
from sfumato.policy import Domain, Type
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell, RangeCell
from sfumato.publish.sampling import ColumnSampler, SampledRows, sample_codes

SIZES = (10, 8, 16, 7, 15, 6, 5, 2, 42, 20, 20, 20, 2, 9, 30)
ROWS = 10**6


@dataclass(frozen=True)
class Law:
    """A clique of a made-up model."""

    new: tuple[int, ...]
    given: tuple[int, ...]
    table: Any


def time_of_rows() -> None:
    """The time of a million rows of 15 columns: their cells, and the cells as typed columns, a third of them bins."""
    draw = np.random.default_rng(1)
    laws = []
    for place in range(len(SIZES)):
        given = tuple(range(max(0, place - 2), place))
        laws.append(Law((place,), given, draw.gamma(0.3, size=[SIZES[each] for each in (*given, place)])))
    codes = sample_codes(laws, ROWS, len(SIZES))
    columns = [_column(place, size) for place, size in enumerate(SIZES)]
    cells = cpu_seconds(lambda: sample_codes(laws, ROWS, len(SIZES)), 3)
    types = cpu_seconds(lambda: SampledRows.from_codes(columns, codes).to_arrow(), 3)
    row("cells of 1e6 rows × 15 columns", cells)
    row("the same as typed columns", types)
    row("in all", cells + types, note="≤ 2 s")


def _column(place: int, size: int) -> ColumnSampler:
    if place % 3 == 0:
        bins = tuple(RangeCell(100 * each, 100 * each + 100) for each in range(size - 1))
        return ColumnSampler.for_attribute(
            Attribute(f"c{place}", Type.INTEGER, (*bins, OtherCell())), Domain(Type.INTEGER)
        )
    listed = tuple(ListedCell(f"value {each}") for each in range(size - 1))
    return ColumnSampler.for_attribute(Attribute(f"c{place}", Type.TEXT, (*listed, OtherCell())), Domain(Type.TEXT))


def error_of_rows(model: Path, data: Path) -> None:
    """Total variation of three columns, mean over all sets: the model's, and that of rows."""
    made, frame = sf.synopsis(model), pd.read_csv(data)
    assert isinstance(made, sf.Synthetic)
    names, sizes = list(made.columns), made.model.sizes
    codes = np.stack([_places(made.attributes[place], frame[name]) for place, name in enumerate(names)], axis=1)
    sets = list(itertools.combinations(range(len(names)), 3))
    truth = [_shares(codes, each, sizes) for each in sets]
    modelled = [each.ravel() / each.sum() for each in made.model.marginals(sets)]
    print(f"model       {_mean_distance(truth, modelled):.4f}")
    for times in (1, 4):
        rows = sample_codes(made.model.conditionals(), times * len(codes), len(names))
        print(f"{times} × n rows  {_mean_distance(truth, [_shares(rows, each, sizes) for each in sets]):.4f}")


def _places(attribute: Attribute, values: Any) -> Any:
    known = {each.value: place for place, each in enumerate(attribute.cells) if isinstance(each, ListedCell)}
    return values.map(known).fillna(attribute.size - 1).astype(int).to_numpy()


def _shares(codes: Any, places: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    shape = [sizes[place] for place in places]
    flat = np.ravel_multi_index(tuple(codes[:, place] for place in places), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))) / len(codes)


def _mean_distance(one: list[Any], other: list[Any]) -> float:
    return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(one, other, strict=True)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    asked = parser.parse_args()
    time_of_rows()
    if asked.model and asked.data:
        error_of_rows(asked.model, asked.data)
