"""Audit one run with canaries: an adversary guesses from the release which canaries were among the rows.

*Theorem* (Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", Theorem 5.2 and Corollary 5.4).
Let M take m bits to an output and be (ε, δ)-DP for any two lists of bits that differ in one place: bit i says whether
canary i is among the rows (add-remove), or which of two units stands in its place (replace). Let the bits be fair
coins, independent of each other and of all randomness of M. Let guesses be any function of the output that says "in",
"out" or nothing of each canary, and says something of at most r of them, r being fixed beforehand. Then, for every v,

    P(at least v guesses are right) ≤ P(W ≥ v) + 2·m·δ·max over i = 1 … m of P(v > W ≥ v − i)/i,

where W is binomial with r trials of chance e^ε/(1 + e^ε).

So an ε at which this is at most β for the observed v is refuted, except with probability β. The bound is monotone in
ε: with s = 2mδ/i, a term of the maximum together with P(W ≥ v) is the mean of a function of W that is 0 below v − i,
s below v and 1 from there on, which is non-decreasing while s ≤ 1; where s > 1, P(W ≥ v) is counted s times, which
restores monotonicity and only makes the bound larger. So all smaller ε are refuted too, and the largest refuted ε is a
lower bound. Several numbers of guesses may be tried, each with its share of β.

The theorem assumes nothing about the rows, the canaries or the adversary: poor guesses only weaken the bound. It needs
independent fair coins and a single run: the release is made exactly once.

Canaries are generated units, each placed among the generated rows of a policy's table by a fair coin. The policy's own
sources are not read and its account is not charged: rows are generated from the schema alone, and the release runs in
a curator of the same policy over them, on a temporary ledger. Under add-remove a canary is present or absent; under
replace another unit takes its place, so the number of units is fixed.
"""

from __future__ import annotations

import math
import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato import html_fragments
from sfumato.audit.lower_bounds.events import OutputShares
from sfumato.audit.lower_bounds.verdicts import CONFIDENCES, format_confidence, plot_shares
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import InMemory, Policy, Type
from sfumato.policy.dummies import invent_tables
from sfumato.privacy import Guarantee, Neighbours, codec
from sfumato.privacy.numbers import Number, exact, exact_integer
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow

    from sfumato.curator.curators import Curator


Present = NDArray[np.bool_]
Release = Callable[[Present], Any]
"""Release once with the marked canaries among the rows; return a score per canary, larger where it seems present."""

_MAX_CANARIES = 1_000_000
_MAX_EPSILON = 60.0
_ROUNDING_MARGIN = 1 + 1e-6
"""Exceeds the rounding error of the log-factorials."""
_PLOT_CELLS = 24


@codec.serialisable("one-run")
@dataclass(frozen=True)
class OneRun:
    """The outcome of a one-run audit: the correct guesses about canaries and the lower bound they prove."""

    lower_bound: float
    """ε is at least this, with the stated confidence."""
    claim: Guarantee
    confidence: float
    canaries: int
    guesses: int
    """The number of guesses, of those tried, that gives the largest lower bound."""
    right: int
    tried: int = 1
    """How many numbers of guesses were tried; they share the error probability."""
    laws: OutputShares | None = None
    """The score distributions of absent and present canaries, for the plot."""

    def __post_init__(self) -> None:
        for name in ("lower_bound", "confidence"):
            object.__setattr__(self, name, codec.parse_float(getattr(self, name), name))
        Guarantee.of(self.claim, "claim")
        codec.check_simple_fields(self)
        laws_valid = self.laws is None or isinstance(self.laws, OutputShares)
        for name, is_valid, rule in (
            ("lower_bound", self.lower_bound >= 0, "a number ≥ 0"),
            ("confidence", 0 < self.confidence < 1, "a number above 0 and below 1"),
            ("canaries", self.canaries >= 0, "a whole number ≥ 0"),
            (
                "guesses",
                0 <= self.guesses <= self.canaries,
                f"a whole number from 0 to {self.canaries}, the number of canaries",
            ),
            (
                "right",
                0 <= self.right <= self.guesses,
                f"a whole number from 0 to {self.guesses}, the number of guesses",
            ),
            ("tried", self.tried > 0, "a whole number ≥ 1"),
            ("laws", laws_valid, "OutputShares, or left out"),
        ):
            if not is_valid:
                raise InvalidParameter(name, getattr(self, name), rule)

    @property
    def holds(self) -> bool:
        """Return whether this run fails to refute the claim."""
        return self.lower_bound <= float(self.claim.epsilon)

    @property
    def detectable(self) -> float:
        """Return the lower bound on ε if every guess had been correct."""
        error_share = (1 - self.confidence) / self.tried
        return epsilon_lower_bound(self.canaries, self.guesses, self.guesses, float(self.claim.delta), error_share)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Plot the scores of absent and present canaries; also write it to ``path`` if given."""
        if self.laws is None:
            raise InvalidParameter(
                "audit",
                ValueWords("one without them"),
                "the result of a run that kept its scores",
                fix="plot the result of audit.one_run, which keeps the scores",
            )
        names = ("absent", "present")
        return save_if_path(plot_shares(self.laws, f"{self.claim} {self._outcome}", [str(self)], names), path)

    def to_json(self) -> str:
        """Serialise to JSON; ``from_json`` reads it back."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> OneRun:
        """Parse the output of ``to_json``; any other text is refused."""
        return codec.loads_as(cls, source)

    @property
    def _outcome(self) -> str:
        return "is not refuted" if self.holds else "IS REFUTED"

    def __str__(self) -> str:
        return (
            f"{self.claim} {self._outcome} by one run: ε ≥ {self.lower_bound:.4f} with confidence "
            f"{format_confidence(self.confidence)}, from {self.right:,} correct guesses of {self.guesses:,} about "
            f"{self.canaries:,} canaries"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("proven bound", f"ε ≥ {self.lower_bound:.4f}, with confidence {format_confidence(self.confidence)}"),
            ("guesses", f"{self.right:,} of {self.guesses:,} were correct, about {self.canaries:,} canaries"),
            ("power", f"if all were correct, ε ≥ {self.detectable:.4g} would have been proven"),
        ]
        title = html_fragments.paragraph(f"{self.claim} {self._outcome}", strong=True)
        return title + html_fragments.table((), rows) + ("" if self.laws is None else self.plot().svg)


def one_run(
    release: Release,
    claim: Guarantee,
    canaries: int,
    *,
    guesses: int | Sequence[int] | None = None,
    confidence: Number = "0.99",
) -> OneRun:
    """Audit one run: toss a fair coin per canary, release once, guess from the scores, and bound ε from below.

    A guess is "in" if the score is above the midpoint between two clusters of scores, else "out". By default, all
    canaries, the quarter and the sixteenth with the most extreme scores are guessed; the three attempts share the error
    probability.
    """
    promise = Guarantee.of(claim, "claim")
    level = exact(confidence, "confidence", CONFIDENCES)
    canary_count = exact_integer(canaries, "canaries", at_least=1)
    if canary_count > _MAX_CANARIES:
        raise InvalidParameter("canaries", canaries, f"at most {_MAX_CANARIES:,}")
    guess_counts = _guess_counts(guesses, canary_count)
    error_share = float(1 - level) / len(guess_counts)
    _require_power(canary_count, max(guess_counts), promise, error_share)
    present = bits.random_array_below(2, canary_count).astype(bool)
    scores = _checked_scores(release(present.copy()), canary_count)
    outcomes = [
        (
            epsilon_lower_bound(canary_count, guess_count, correct, float(promise.delta), error_share),
            guess_count,
            correct,
        )
        for guess_count, correct in _count_correct_guesses(scores, present, guess_counts)
    ]
    bound, guess_count, correct = max(outcomes)
    return OneRun(
        bound,
        promise,
        float(level),
        canary_count,
        guess_count,
        correct,
        len(guess_counts),
        _binned_scores(scores, present),
    )


def _guess_counts(guesses: int | Sequence[int] | None, canaries: int) -> list[int]:
    """Return the numbers of guesses to try, fixed before the release."""
    if guesses is None:
        return sorted({canaries, max(1, canaries // 4), max(1, canaries // 16)})
    requested = list(guesses) if isinstance(guesses, Sequence) else [guesses]
    counts = sorted({exact_integer(count, "guesses", at_least=1) for count in requested})
    if not counts or counts[-1] > canaries:
        raise InvalidParameter(
            "guesses",
            guesses,
            f"a list of whole numbers from 1 to {canaries:,}, the number of canaries",
            fix=f"for example, write guesses=[{canaries}]",
        )
    return counts


def _require_power(canaries: int, guesses: int, guarantee: Guarantee, error_share: float) -> None:
    """Refuse an audit that could refute nothing even with every guess correct, and state how many canaries could."""
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    if guessing_tail_bound(canaries, guesses, guesses, epsilon, delta) <= error_share:
        return
    enough = next(
        (n for n in _growing_canary_counts(canaries) if guessing_tail_bound(n, n, n, epsilon, delta) <= error_share),
        None,
    )
    if enough is None:
        rule = f"a guarantee that an audit with {_MAX_CANARIES:,} canaries could refute"
        raise InvalidParameter(
            "claim", guarantee, rule, fix="audit a claim with a smaller ε or δ, or use many runs, with audit.falsify(…)"
        )
    rule = f"enough to refute {guarantee}, for example {enough:,}"
    raise InvalidParameter("canaries", canaries, rule, fix=f"write canaries={enough}, and guess all of them")


def _growing_canary_counts(start: int) -> list[int]:
    """Return numbers of canaries from ``start``, each half as large again as the last."""
    sizes = [start]
    while (next_size := sizes[-1] + max(1, sizes[-1] // 2)) <= _MAX_CANARIES:
        sizes.append(next_size)
    return sizes


def _checked_scores(returned: Any, canaries: int) -> NDArray[np.float64]:
    try:
        scores = np.asarray(returned, np.float64)
    except (TypeError, ValueError):
        scores = np.empty(0)
    if scores.shape != (canaries,) or np.isnan(scores).any():
        raise InvalidParameter(
            "release",
            ValueWords(f"an array of shape {scores.shape}" if scores.shape != (canaries,) else "scores with NaN"),
            f"a function that returns {canaries:,} numbers, one for each canary",
            fix=f"for example, return np.zeros({canaries})",
        )
    return scores


def _count_correct_guesses(
    scores: NDArray[np.float64], present: Present, guess_counts: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (guesses, correct guesses) for each number, guessing first where scores are furthest from the midpoint.

    Ties are broken by position, which is independent of the coins.
    """
    finite = np.clip(scores, -1e15, 1e15)
    midpoint = _cluster_midpoint(finite)
    correct = (finite > midpoint) == present
    order = np.argsort(-np.abs(finite - midpoint), kind="stable")
    return [(guess_count, int(np.count_nonzero(correct[order[:guess_count]]))) for guess_count in guess_counts]


def _cluster_midpoint(scores: NDArray[np.float64]) -> float:
    """Return a threshold between two clusters of scores, from the scores alone."""
    midpoint = float(scores.mean())
    for _ in range(5):
        above, below = scores[scores > midpoint], scores[scores <= midpoint]
        if not above.size or not below.size:
            break
        midpoint = float(np.median(above) + np.median(below)) / 2
    return midpoint


def guessing_tail_bound(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Bound the probability of ``right`` correct guesses about an (ε, δ)-DP release, by the theorem above."""
    if right == 0:
        return 1.0
    probabilities = np.exp(_log_binomial_probabilities(guesses, epsilon))
    tail = float(probabilities[right:].sum())
    if delta == 0:
        return min(1.0, tail * _ROUNDING_MARGIN)
    offsets = np.arange(1, right + 1)
    shares = 2 * canaries * delta / offsets
    below = np.cumsum(probabilities[:right][::-1])  # P(v > W ≥ v − i) for i = 1, 2, …
    return min(1.0, float((np.maximum(1.0, shares) * tail + shares * below).max()) * _ROUNDING_MARGIN)


def _log_binomial_probabilities(trials: int, epsilon: float) -> NDArray[np.float64]:
    """Return ln P(W = k) for all k, where each trial succeeds with odds e^ε."""
    k, factorials = np.arange(trials + 1), _log_factorials(trials)
    log_total = epsilon + math.log1p(math.exp(-epsilon))  # −ln(1 − e^ε/(1 + e^ε))
    return factorials[-1] - factorials - factorials[::-1] + k * epsilon - trials * log_total


@lru_cache(maxsize=8)
def _log_factorials(largest: int) -> NDArray[np.float64]:
    """Return ln k! for all k up to ``largest``, each from lgamma: a running sum would accumulate rounding errors."""
    return np.array([math.lgamma(k + 1) for k in range(largest + 1)])


def epsilon_lower_bound(canaries: int, guesses: int, right: int, delta: float, error_probability: float) -> float:
    """Return the largest ε, rounded down, at which ``right`` correct guesses have at most this
    ``error_probability``.
    """
    if guessing_tail_bound(canaries, guesses, right, 0.0, delta) > error_probability:
        return 0.0
    low, high = 0.0, _MAX_EPSILON
    for _ in range(40):
        midpoint = (low + high) / 2
        refuted = guessing_tail_bound(canaries, guesses, right, midpoint, delta) <= error_probability
        low, high = (midpoint, high) if refuted else (low, midpoint)
    return low


def _binned_scores(scores: NDArray[np.float64], present: Present) -> OutputShares | None:
    """Bin the scores of absent and present canaries; cells above the midpoint are guessed present."""
    finite = np.clip(scores, -1e15, 1e15)
    low, high = float(finite.min()), float(finite.max())
    if low == high or present.all() or not present.any():
        return None
    edges = np.linspace(low, high, _PLOT_CELLS + 1)
    cells = np.minimum(np.searchsorted(edges, finite, side="right") - 1, _PLOT_CELLS - 1)
    shares = [np.bincount(cells[side], minlength=_PLOT_CELLS) / np.count_nonzero(side) for side in (~present, present)]
    inside = edges[:-1] >= _cluster_midpoint(finite)
    absent_shares, present_shares = (tuple(map(float, side_shares)) for side_shares in shares)
    return OutputShares(
        "the score of a canary", absent_shares, present_shares, tuple(map(bool, inside)), tuple(map(float, edges))
    )


_MAX_ROWS = 5_000
_RIDGE = 0.1
_NULL_KEY = object()
"""Replaces NULL among group keys, so that they compare equal."""


@dataclass(frozen=True)
class Planted:
    """A policy over generated rows, with canaries of one row and one unit each."""

    policy: Policy
    table: str
    columns: tuple[str, ...]
    """The columns that canaries are scored by."""
    rows: pyarrow.Table
    canaries: pyarrow.Table
    replacements: pyarrow.Table | None
    """Under replace, the unit that takes the place of each absent canary."""

    @property
    def count(self) -> int:
        """Return the number of canaries."""
        return int(self.canaries.num_rows)

    def policy_with(self, present_canaries: Present) -> Policy:
        """Return the policy over the generated rows and the canaries that are present."""
        import pyarrow

        parts = [self.rows, self.canaries.filter(pyarrow.array(present_canaries))]
        if self.replacements is not None:
            parts.append(self.replacements.filter(pyarrow.array(~present_canaries)))
        table = replace(self.policy.tables[self.table], source=InMemory(pyarrow.concat_tables(parts)), relation=None)
        return replace(self.policy, tables={**self.policy.tables, self.table: table}, allow_large_delta=True)

    def release(self, ask: Callable[[Curator], Any]) -> Release:
        """Return a function for ``one_run`` that releases once with a curator over these rows and scores each canary.

        ``ask`` releases marginals or a synthetic table of the planted table, and returns them.
        """
        from sfumato.curator.curators import Curator

        def run(present: Present) -> NDArray[np.float64]:
            with (
                tempfile.TemporaryDirectory(prefix="sfumato-") as folder,
                Curator(self.policy_with(present), Path(folder) / "canaries.ledger") as curator,
            ):
                return self.scores(ask(curator))

        return run

    def scores(self, released: Any) -> NDArray[np.float64]:
        """Estimate from the release whether each canary is present: near 1 if it seems to be, near 0 if not.

        Rows are counted by every pair of columns from the released marginals or model. The excess of a cell over the
        known rows is the number of present canaries in it; ridge regression solves for the canaries.
        """
        scored_columns = [name for name in self.columns if name in released.columns]
        if not scored_columns:
            names = ", ".join(self.columns)
            rule = f"a request for marginals or a synthetic table of {self.table} with at least one of {names}"
            fix = f'for example, release curator.marginals("{self.table}", [["{self.columns[0]}"]])'
            raise InvalidParameter("ask", tuple(released.columns), rule, fix=fix)
        gram, target = _RIDGE * np.eye(self.count), np.full(self.count, _RIDGE / 2)
        for columns in combinations(scored_columns, min(2, len(scored_columns))):
            released_counts = _released_counts(released, self.table, columns)
            membership, excess = self._membership_and_excess_by_cell(released_counts, columns)
            gram += membership.T @ membership
            target += membership.T @ excess
        return np.linalg.solve(gram, target)

    def _membership_and_excess_by_cell(
        self, released_counts: _ReleasedCounts, columns: Sequence[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return, per cell, which canaries are counted in it and its excess over the known rows."""
        canary_cells, base_cells = (
            _row_cells(rows.select(columns), released_counts) for rows in (self.canaries, self.rows)
        )
        replacement_cells = (
            [] if self.replacements is None else _row_cells(self.replacements.select(columns), released_counts)
        )
        cell_index = {
            cell: index
            for index, cell in enumerate(
                dict.fromkeys([*released_counts.counts, *canary_cells, *base_cells, *replacement_cells])
            )
        }
        excess = np.array([released_counts.counts.get(cell, 0.0) for cell in cell_index])
        membership = np.zeros((len(cell_index), self.count))
        np.subtract.at(excess, [cell_index[cell] for cell in [*base_cells, *replacement_cells]], 1.0)
        membership[[cell_index[cell] for cell in canary_cells], np.arange(self.count)] += 1.0
        if replacement_cells:  # the replacement is absent when the canary is present
            membership[[cell_index[cell] for cell in replacement_cells], np.arange(self.count)] -= 1.0
        return membership, excess


def plant(
    policy: Policy, table: str, canaries: int = 200, *, rows: int = 200, columns: Sequence[str] | None = None
) -> Planted:
    """Generate rows for a policy's table and canaries to place among them; no source is read."""
    schema = policy.tables.get(table) if isinstance(table, str) else None
    if schema is None or schema.public:
        names = ", ".join(name for name, declared in policy.tables.items() if not declared.public)
        raise InvalidParameter("table", table, f"one of the private tables: {names}")
    if not (schema.every_row or isinstance(schema.id, str)):
        raise InvalidParameter(
            "table",
            table,
            "one with the unit's id as a column, or with every row as a unit",
            fix="choose another table, since this one finds its units through a join",
        )
    canary_count, base_rows = exact_integer(canaries, "canaries", at_least=1), exact_integer(rows, "rows", at_least=1)
    if canary_count > _MAX_ROWS or base_rows > _MAX_ROWS:
        raise InvalidParameter(
            "canaries" if canary_count > _MAX_ROWS else "rows", max(canary_count, base_rows), f"at most {_MAX_ROWS:,}"
        )
    scored_columns = tuple(columns if columns is not None else (name for name in schema.columns if name != schema.id))
    if not scored_columns or not set(scored_columns) <= set(schema.columns):
        fix = "choose from " + ", ".join(schema.columns)
        raise InvalidParameter("columns", columns, f"a list of declared columns of {table}", fix=fix)
    id_type = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    private = {name: entry for name, entry in policy.tables.items() if not entry.public}
    generated = invent_tables(private, base_rows + 2 * canary_count, id_type)
    tables = {
        name: replace(entry, source=InMemory(generated[name]), relation=None) if name in generated else entry
        for name, entry in policy.tables.items()
    }
    invented = _assign_ids(generated[table], schema, base_rows)
    others = (
        invented.slice(base_rows + canary_count, canary_count)
        if policy.budget.neighbours is Neighbours.REPLACE
        else None
    )
    planted_policy = replace(policy, tables=tables, id_type=id_type, path=None, account=policy.account_name)
    return Planted(
        planted_policy,
        table,
        scored_columns,
        invented.slice(0, base_rows),
        invented.slice(base_rows, canary_count),
        others,
    )


def _assign_ids(generated: pyarrow.Table, table: Any, base_rows: int) -> pyarrow.Table:
    """Assign a distinct id to every canary and every replacement."""
    import pyarrow

    if table.every_row or table.id not in generated.column_names:
        return generated
    column = generated.column_names.index(table.id)
    id_type = generated.schema.field(column).type
    fresh = pyarrow.array(np.arange(generated.num_rows - base_rows) + 1 + generated.num_rows).cast(id_type)
    base_ids = generated.column(column).slice(0, base_rows).combine_chunks()
    return generated.set_column(column, table.id, pyarrow.concat_arrays([base_ids, fresh]))


@dataclass(frozen=True)
class _ReleasedCounts:
    """The released count of each cell over some columns, and the start of each numeric cell."""

    counts: dict[tuple[Any, ...], float]
    starts: tuple[list[Any], ...]
    """The sorted numeric keys of each column; empty if it has none."""


def _released_counts(released: Any, table: str, columns: Sequence[str]) -> _ReleasedCounts:
    column_list = ", ".join(f'"{name}"' for name in columns)
    answer = released.sql(f'SELECT {column_list}, COUNT(*) AS n FROM "{table}" GROUP BY {column_list}')
    counts = {tuple(map(_group_key, row[:-1])): float(row[-1]) for row in answer.rows}
    keys = [sorted({row[i] for row in counts if _is_number(row[i])}) for i in range(len(columns))]
    return _ReleasedCounts(counts, tuple(keys))


def _group_key(value: Any) -> Any:
    return _NULL_KEY if value is None else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _row_cells(rows: pyarrow.Table, released_counts: _ReleasedCounts) -> list[tuple[Any, ...]]:
    """Return the cell of each row: a number belongs to the cell that starts at or next below it."""
    columns = [
        [_cell_start(value, starts) for value in column.to_pylist()]
        for column, starts in zip(rows.columns, released_counts.starts, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _cell_start(value: Any, starts: list[Any]) -> Any:
    if not _is_number(value) or not starts:
        return _group_key(value)
    return starts[max(0, bisect_right(starts, value) - 1)]
