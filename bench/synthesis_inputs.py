"""The tables that syntheses are measured on, as whole numbers below the sizes of their columns."""

from __future__ import annotations

import itertools
import json
import math
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.quick_dataclass import dataclass

MOST_CELLS = 10_000
SIZES = (2, 3, 4, 5, 8, 10, 16, 30)


@dataclass(frozen=True, eq=False)
class LearningTable:
    """Rows with their domain, and what is learned from them: which rows have one of these cells of the target."""

    rows: pd.DataFrame
    domain: dict[str, int]
    target: str
    positive: int
    explaining: tuple[str, ...]
    """Columns with ordered cells, of which a linear regression explains the target."""


def adult(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    domain = json.loads((folder / "adult_encoded_domain.json").read_text())
    return pd.read_csv(folder / "adult_encoded.csv")[list(domain)], domain


def nist(path: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    """Code the excerpt: ages by 5 years, densities in 9 bins, incomes by 50 points of the poverty line."""
    raw = pd.read_csv(path, dtype=str)
    codes = {}
    for name in raw.columns:
        if name in ("INDP", "PINCP", "PWGTP", "WGTP"):
            continue
        texts = raw[name].fillna("N")
        if name == "AGEP":
            texts = (pd.to_numeric(texts) // 5).clip(0, 19).astype(int).astype(str)
        elif name == "DENSITY":
            ends = [-1, 150, 500, 1000, 2000, 3000, 5000, 8000, 15000, 1e9]
            texts = pd.cut(pd.to_numeric(texts), ends, labels=False).astype(str)
        elif name == "POVPIP":
            texts = texts.map(lambda each: each if each in ("N", "501") else str(int(float(each)) // 50))
        elif name in ("NOC", "NPF"):
            texts = texts.map(lambda each: each if each == "N" else str(min(int(float(each)), 8)))
        codes[name] = _ordered_codes(texts)
    rows = pd.DataFrame(codes)
    return rows, {name: int(rows[name].max()) + 1 for name in rows}


def _ordered_codes(texts: pd.Series) -> pd.Series:
    """Code texts in the order of their numbers; those that are no number come first."""

    def order(text: str) -> tuple[float, str]:
        try:
            return float(text), text
        except ValueError:
            return -math.inf, text

    return pd.Categorical(texts, sorted(set(texts), key=order)).codes


def wide(columns: int, rows: int, part: int = 0) -> tuple[pd.DataFrame, dict[str, int]]:
    """Invent a table, the same in every run: in half of the rows a column follows from the one before it."""
    draw = np.random.default_rng((41, part))
    domain = {f"c{place}": SIZES[place % len(SIZES)] for place in range(columns)}
    codes: dict[str, np.ndarray] = {}
    previous = np.zeros(rows)
    for name, size in domain.items():
        alone = np.minimum(draw.random(rows), draw.random(rows))
        previous = np.where(draw.random(rows) < 0.5, previous, alone)
        codes[name] = (previous * size).astype(np.int8)
    return pd.DataFrame(codes), domain


_ROWS_PER_PART = 50_000


def write_wide(path: Path, columns: int, rows: int) -> dict[str, int]:
    """Write an invented table to a Parquet file part by part, so that it is never in memory; return its domain."""
    domain: dict[str, int] = {}
    with ExitStack() as stack:
        writer = None
        for part, start in enumerate(range(0, rows, _ROWS_PER_PART)):
            codes, domain = wide(columns, min(_ROWS_PER_PART, rows - start), part)
            table = pa.Table.from_pandas(codes, preserve_index=False)
            writer = writer or stack.enter_context(pq.ParquetWriter(path, table.schema))
            writer.write_table(table)
    return domain


def distinct_sets(domain: dict[str, int], count: int = 3) -> list[tuple[str, ...]]:
    """Return all sets of so many columns with at most 10,000 cells."""
    chosen = itertools.combinations(domain, count)
    return [each for each in chosen if math.prod(domain[name] for name in each) <= MOST_CELLS]


def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four fifths to learn from, and the rest, the same in every run."""
    kept = rows.sample(frac=0.8, random_state=0)
    return kept, rows.drop(kept.index)
