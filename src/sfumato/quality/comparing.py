"""A comparison of a synthetic table with the real one is made and shown here. NOT FOR PUBLICATION."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.engine.opening import PairedTables, paired_tables, tables, whole_table
from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError
from sfumato.policy import Policy, Table, Type, read
from sfumato.privacy.numbers import whole
from sfumato.publish.marginals.attributes import Attribute, attribute_of, coded_names
from sfumato.publish.scoring import coded_candidate
from sfumato.publish.synopsis import cell_keys
from sfumato.quality.distances import Coded, Set, associations, correlations, distances, summed_up
from sfumato.quality.learning import learning, propensity
from sfumato.quality.nearest_rows import nearest_rows
from sfumato.quality.page import HEADING, ComparedColumn, Matrix, QualityFigures, body, page, told
from sfumato.quality.paired_columns import PairedColumn, paired_columns

MOST_BINS = 1_000


@dataclass(frozen=True, repr=False)
class Comparison(QualityFigures):
    """A comparison says how far a synthetic table is from the real one. Every number in it is exact and PRIVATE."""

    def to_json(self) -> str:
        """Write everything as JSON text, under the heading that it is not for publication."""
        found = {"heading": HEADING, "score": self.score, "propensity_ratio": self.propensity.ratio}
        return json.dumps(found | asdict(self), ensure_ascii=False, allow_nan=False)

    def html(self) -> str:
        """Write everything as one HTML page with pictures, which needs nothing else."""
        return page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file that only its owner may read."""
        save_private(self.html(), path)

    def __str__(self) -> str:
        return "\n".join([HEADING, "", *(f"{name:<22} {words}" for name, words in told(self)), "", HEADING])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return body(self)


def save_private(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file beside its place, for its owner's eyes (mode 0600), and rename it."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        partial.replace(target)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SfumatoError(
            f"the page cannot be written ({reason})",
            place=str(target),
            fix="name a file in a folder that is there, and can be written to",
        ) from None
    finally:
        partial.unlink(missing_ok=True)


# ── making it ──────────────────────────────────────────────────────────────────────────────────


def compare(
    real: Any,
    synthetic: Any,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    bins: int = 20,
    target: str | None = None,
) -> Comparison:
    """Compare a synthetic table with the real one, exactly: NOT FOR PUBLICATION.

    Both are paths (CSV, Parquet) or tables in memory. Cells are those of a ``policy``'s table, or else values and
    ``bins`` quantiles of the real table. With ``target`` that column is predicted from the others, which needs the
    extra ``quality``.
    """
    most = whole(bins, "bins", at_least=2)
    if most > MOST_BINS:
        raise InvalidParameter("bins", bins, f"a whole number from 2 to {MOST_BINS:,}")
    declared = None if policy is None else _declared(policy, table)
    real, synthetic = _source(real, declared), _source(synthetic, None)
    found = paired_tables(real, synthetic)
    if declared is None and table is not None:
        raise InvalidParameter("table", table, "left out, or given beside a policy", fix="name the policy too")
    kept = _kept(found, columns, declared)
    paired = paired_columns(kept, most)
    for own, called in zip(kept.tables, ("real", "synthetic"), strict=True):
        if not own.num_rows:
            fix = f"give a {called} table that has rows"
            raise InvalidParameter(f"the {called} table", "no rows", "a table with at least one row", fix=fix)
    coded = _own_cells(paired) if declared is None else _policy_cells(declared, (real, synthetic), kept)
    return _compared(found, paired, coded, _said(declared, most), target)


def _source(source: Any, declared: Table | None) -> Any:
    """Give a path as one; of a database file read the table that the policy names, or the only one that it has."""
    if not isinstance(source, (str, os.PathLike)):
        return source
    path = Path(source)
    if path.suffix.lower() not in (".duckdb", ".db") or not path.is_file():
        return path
    names = tables(path)
    own = None if declared is None else declared.relation
    name = own if own is not None else names[0] if len(names) == 1 else None
    if name is None:
        raise InvalidPolicy(
            "a database file may hold several tables, so the one that is meant is named",
            place=str(path),
            fix=f"give the policy that names one of {', '.join(names[:10])}, or write that table as Parquet",
        )
    return whole_table(path, name)


def _declared(policy: Policy | str | os.PathLike[str], table: str | None) -> Table:
    found = policy if isinstance(policy, Policy) else read(Path(policy))
    names = [name for name, each in found.tables.items() if not each.public]
    name = names[0] if table is None and len(names) == 1 else table
    if name not in names:
        raise InvalidParameter("table", table, f"a private table of the policy: {', '.join(names)}")
    return found.tables[name]


def _kept(found: PairedTables, columns: Sequence[str] | None, table: Table | None) -> PairedTables:
    """Keep the columns that are asked for, or that the policy gives cells, of those that both tables have."""
    known = {name.lower(): name for name in found.kinds}
    wanted = list(found.kinds) if table is None else [each for each in coded_names(table) if each.lower() in known]
    if columns is not None:
        named = [columns] if isinstance(columns, str) else list(columns)
        lacking = [each for each in named if str(each).lower() not in {name.lower() for name in wanted}]
        if lacking or not named:
            raise InvalidParameter("columns", lacking or columns, f"among those of both tables: {', '.join(wanted)}")
        wanted = list(dict.fromkeys(str(each) for each in named))
    if not wanted:
        rule = "one that gives cells to columns which both tables have"
        raise InvalidParameter("policy", table.name if table else None, rule, fix="add values or bins in the policy")
    order = list(found.kinds)
    true = [known[each.lower()] for each in wanted]
    places = [order.index(each) for each in true]
    first, second = (each.select(places) for each in found.tables)
    return PairedTables({each: found.kinds[each] for each in true}, (first, second), found.left_out)


Cells = tuple[tuple[str, ...], tuple[tuple[str, ...], ...], Coded, Coded]
"""The names of columns, the labels of their cells, and the rows of both tables in them."""


def _own_cells(columns: Sequence[PairedColumn]) -> Cells:
    sizes = tuple(each.size for each in columns)
    own = [Coded(sizes, tuple(each.codes[table] for each in columns)) for table in (0, 1)]
    return tuple(each.name for each in columns), tuple(each.labels for each in columns), own[0], own[1]


def _policy_cells(table: Table, sources: tuple[Any, Any], kept: PairedTables) -> Cells:
    """Put the rows of both tables into the cells of a policy, as its own rows are."""
    known = {name.lower(): name for name in table.columns}
    names = [known[each.lower()] for each in kept.kinds]
    rows = [
        coded_candidate(source, table, names, called)
        for source, called in zip(sources, ("real table", "synthetic table"), strict=True)
    ]
    own = [Coded(each.sizes, tuple(map(_wide, each.codes)), each.totals.astype(np.float64)) for each in rows]
    attributes = [attribute_of(name, table.columns[name], table.codings.get(name)) for name in names]
    return tuple(names), tuple(map(_labels, attributes)), own[0], own[1]


def _wide(codes: Any) -> Any:
    return codes.astype(np.int64)


def _labels(attribute: Attribute) -> tuple[str, ...]:
    return tuple("missing or not listed" if key is None else str(key) for (key,) in cell_keys([attribute]))


def _said(table: Table | None, bins: int) -> str:
    if table is None:
        return f"values of the real table, and {bins} quantiles of columns that have more"
    return f"those that the policy gives {table.name}"


def _compared(
    tables: PairedTables, paired: tuple[PairedColumn, ...], cells: Cells, said: str, target: str | None
) -> Comparison:
    names, labels, real, synthetic = cells
    learned = None if target is None else learning(paired, target)  # first: what is missing for it is told at once
    every = {ways: distances(real, synthetic, ways) for ways in range(1, min(3, len(names)) + 1)}
    numbers = [each for each in paired if each.numbers is not None]
    kinds = [each.kind for each in paired]
    return Comparison(
        tables.tables[0].num_rows,
        tables.tables[1].num_rows,
        tuple(_column(place, names, kinds, labels, cells, every[1]) for place in range(len(names))),
        tables.left_out,
        said,
        tuple(summed_up(each, names, ways) for ways, each in every.items()),
        _matrix(len(names), every),
        (_rows(associations(real)), _rows(associations(synthetic))),
        tuple(each.name for each in numbers),
        (_rows(correlations(numbers, 0)), _rows(correlations(numbers, 1))),
        propensity(paired),
        nearest_rows(paired),
        learned,
    )


def _column(
    place: int,
    names: Sequence[str],
    kinds: Sequence[Type],
    labels: Sequence[tuple[str, ...]],
    cells: Cells,
    found: dict[Set, float],
) -> ComparedColumn:
    *_, real, synthetic = cells
    shares = [np.bincount(each.codes[place], each.totals, each.sizes[place]) / each.rows for each in (real, synthetic)]
    told = [tuple(float(share) for share in own) for own in shares]
    return ComparedColumn(names[place], kinds[place].value, labels[place], told[0], told[1], found[(place,)])


def _matrix(columns: int, every: dict[int, dict[Set, float]]) -> Matrix:
    found = np.diag([every[1][(place,)] for place in range(columns)])
    for (one, other), each in every.get(2, {}).items():
        found[one, other] = found[other, one] = each
    return _rows(found)


def _rows(matrix: Any) -> Matrix:
    return tuple(tuple(float(each) for each in row) for row in matrix)
