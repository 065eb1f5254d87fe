"""One run is audited with canaries: whoever sees what was released guesses which of them were among the rows.

*Theorem* (Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", Theorem 5.2 and Corollary 5.4).
Let M take m bits to an output and be (ε, δ)-DP for any two lists of bits that differ in one place: bit i says whether
canary i is among the rows (add-remove), or which of two units stands in its place (replace). Let the bits be fair
coins, independent of each other and of all randomness of M. Let guesses be any function of the output that says "in",
"out" or nothing of each canary, and says something of at most r of them, r being fixed beforehand. Then, for every v,

    P(at least v guesses are right) ≤ P(W ≥ v) + 2·m·δ·max over i = 1 … m of P(v > W ≥ v − i)/i,

where W is binomial with r trials of chance e^ε/(1 + e^ε).

So an ε at which this is at most β for the v that was seen is refuted, except with probability β. The bound grows with
ε: with s = 2mδ/i, a term of the maximum together with P(W ≥ v) is the mean of a function of W that is 0 below v − i,
s below v and 1 from there on, which rises while s ≤ 1; where s > 1, P(W ≥ v) is counted s times, so that it rises
again, and the bound only becomes larger. So all smaller ε are refuted with it, and the largest that is refuted is a
lower bound. Several numbers of guesses may be tried, each with its part of β.

The theorem needs no property of the rows, of the canaries or of who guesses: poor guesses only prove less. It does need
each coin to be tossed afresh, and one run: the release is made exactly once.

Canaries are invented units that are put among invented rows of a policy's table, each by a coin.

Nothing is read of the policy's own sources, and nothing is charged to its account: its schema alone says what rows may
look like, and a release runs in the policy's own curator over them, on a ledger that is thrown away. Under add-remove a
canary is there or is not; under replace another unit stands in its place, so that the number of units stays.
"""

from __future__ import annotations

import math
import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato import notebook_html
from sfumato.audit.lower_bounds.events import ToldLaws
from sfumato.audit.lower_bounds.verdicts import CONFIDENCES, draw_laws, sure
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.plots.picture import Picture, saved
from sfumato.policy import InMemory, Policy, Type
from sfumato.policy.dummies import dummies
from sfumato.privacy import Guarantee, Neighbours, codec
from sfumato.privacy.numbers import Number, exact, whole

if TYPE_CHECKING:
    import pyarrow

    from sfumato.curator.curators import Curator


Present = NDArray[np.bool_]
Release = Callable[[Present], Any]
"""It releases once, with those canaries among the rows that are said to be, and gives a score for each canary: the
larger, the surer that it was among them.
"""

_MOST_CANARIES = 1_000_000
_FURTHEST = 60.0
_ROUNDING = 1 + 1e-6
"""More than all that logarithms of factorials may be wrong by."""
_CELLS = 24


@codec.value("one-run")
@dataclass(frozen=True)
class OneRun:
    """An audit of one run says how many guesses about canaries were right, and what that proves."""

    lower_bound: float
    """ε is at least this, with the stated confidence."""
    claim: Guarantee
    confidence: float
    canaries: int
    guesses: int
    """How many guesses were made, of those numbers of guesses that were tried, where most is proven."""
    right: int
    tried: int = 1
    """How many numbers of guesses share what the confidence leaves."""
    laws: ToldLaws | None = None
    """How scores are spread among the canaries that were left out and those that were in, for a picture."""

    def __post_init__(self) -> None:
        for name in ("lower_bound", "confidence"):
            object.__setattr__(self, name, codec.real(getattr(self, name), name))
        Guarantee.of(self.claim, "claim")
        codec.check_fields(self)
        counts = 0 <= self.right <= self.guesses <= self.canaries and self.tried > 0
        drawn = self.laws is None or isinstance(self.laws, ToldLaws)
        if not (counts and drawn and self.lower_bound >= 0 and 0 < self.confidence < 1):
            rule = "a bound ≥ 0, a confidence inside (0, 1), and no more right guesses than guesses, nor than canaries"
            raise InvalidParameter("audit", (self.right, self.guesses, self.canaries), rule)

    @property
    def holds(self) -> bool:
        """Tell whether the claim survives: this run does not refute it."""
        return self.lower_bound <= float(self.claim.epsilon)

    @property
    def detectable(self) -> float:
        """Find the largest ε that as many guesses could have proven, had all of them been right."""
        miss = (1 - self.confidence) / self.tried
        return proven_epsilon(self.canaries, self.guesses, self.guesses, float(self.claim.delta), miss)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw how scores are spread among canaries that were left out and those that were in; also to a file."""
        if self.laws is None:
            raise InvalidParameter("audit", self.guesses, "one with scores to draw")
        names = ("left out", "among the rows")
        return saved(draw_laws(self.laws, f"{self.claim} {self._outcome}", [str(self)], names), path)

    def to_json(self) -> str:
        """Write the audit as JSON text, which ``from_json`` reads back."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> OneRun:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    @property
    def _outcome(self) -> str:
        return "is not refuted" if self.holds else "IS REFUTED"

    def __str__(self) -> str:
        return (
            f"{self.claim} {self._outcome} by one run: ε ≥ {self.lower_bound:.4f} with confidence "
            f"{sure(self.confidence)}, from {self.right:,} right guesses of {self.guesses:,} about "
            f"{self.canaries:,} canaries"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("proven", f"ε ≥ {self.lower_bound:.4f}, with confidence {sure(self.confidence)}"),
            ("guesses", f"{self.right:,} of {self.guesses:,} were right, about {self.canaries:,} canaries"),
            ("power", f"all of them right would have proven ε ≥ {self.detectable:.4g}"),
        ]
        title = notebook_html.paragraph(f"{self.claim} {self._outcome}", strong=True)
        return title + notebook_html.table((), rows) + ("" if self.laws is None else self.plot().svg)


def one_run(
    release: Release,
    claim: Guarantee,
    canaries: int,
    *,
    guesses: int | Sequence[int] | None = None,
    confidence: Number = "0.99",
) -> OneRun:
    """Audit one run: toss a coin for each canary, release once, guess from the scores, and bound ε from below.

    A guess is "in" where the score lies above the middle between two heaps of scores, else "out". Without ``guesses``
    all canaries are guessed at, and then a quarter and a sixteenth, those with the most telling scores; the three share
    what the confidence leaves.
    """
    promise = Guarantee.of(claim, "claim")
    level = exact(confidence, "confidence", CONFIDENCES)
    many = whole(canaries, "canaries", at_least=1)
    if many > _MOST_CANARIES:
        raise InvalidParameter("canaries", canaries, f"at most {_MOST_CANARIES:,}")
    numbers = _numbers(guesses, many)
    miss = float(1 - level) / len(numbers)
    _check_power(many, max(numbers), promise, miss)
    present = bits.all_below(2, many).astype(bool)
    scores = _scores(release(present.copy()), many)
    found = [
        (proven_epsilon(many, r, right, float(promise.delta), miss), r, right)
        for r, right in _right(scores, present, numbers)
    ]
    bound, made, right = max(found)
    return OneRun(bound, promise, float(level), many, made, right, len(numbers), _laws(scores, present))


def _numbers(guesses: int | Sequence[int] | None, canaries: int) -> list[int]:
    """Read how many guesses are made: numbers that are fixed before anything is released."""
    if guesses is None:
        return sorted({canaries, max(1, canaries // 4), max(1, canaries // 16)})
    given = list(guesses) if isinstance(guesses, Sequence) else [guesses]
    found = sorted({whole(each, "guesses", at_least=1) for each in given})
    if not found or found[-1] > canaries:
        raise InvalidParameter("guesses", guesses, f"numbers from 1 to {canaries}, how many canaries there are")
    return found


def _check_power(canaries: int, guesses: int, promise: Guarantee, miss: float) -> None:
    """Refuse an audit that could refute nothing, were every guess right, and say how many canaries could."""
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    if chance_of_guessing(canaries, guesses, guesses, epsilon, delta) <= miss:
        return
    least = next((n for n in _growing(canaries) if chance_of_guessing(n, n, n, epsilon, delta) <= miss), None)
    if least is None:
        rule = f"an ε and a δ that {_MOST_CANARIES:,} canaries could refute"
        raise InvalidParameter("claim", promise, rule, fix="audit many runs with falsify, or a smaller claim")
    rule = f"more: these could not refute {promise}, were every guess right; {least:,}, all guessed at, could"
    raise InvalidParameter("canaries", canaries, rule)


def _growing(start: int) -> list[int]:
    """List numbers of canaries, each half as large again as the one before."""
    found = [start]
    while (following := found[-1] + max(1, found[-1] // 2)) <= _MOST_CANARIES:
        found.append(following)
    return found


def _scores(given: Any, canaries: int) -> NDArray[np.float64]:
    try:
        scores = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        scores = np.empty(0)
    if scores.shape != (canaries,) or np.isnan(scores).any():
        raise InvalidParameter("release", scores.shape, f"a function that gives {canaries} scores, one for each canary")
    return scores


def _right(scores: NDArray[np.float64], present: Present, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Count the right guesses, of which those are made first whose scores lie furthest from the middle; among equal
    scores the place decides, which no coin knows of.
    """
    finite = np.clip(scores, -1e15, 1e15)
    middle = _middle(finite)
    right = (finite > middle) == present
    order = np.argsort(-np.abs(finite - middle), kind="stable")
    return [(r, int(np.count_nonzero(right[order[:r]]))) for r in numbers]


def _middle(scores: NDArray[np.float64]) -> float:
    """Find a number between two heaps of scores, from the scores alone."""
    middle = float(scores.mean())
    for _ in range(5):
        above, below = scores[scores > middle], scores[scores <= middle]
        if not above.size or not below.size:
            break
        middle = float(np.median(above) + np.median(below)) / 2
    return middle


def chance_of_guessing(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Bound the probability that so many guesses are right about a release that is (ε, δ)-DP, by the theorem."""
    if right == 0:
        return 1.0
    likely = np.exp(_log_binomial(guesses, epsilon))
    tail = float(likely[right:].sum())
    if delta == 0:
        return min(1.0, tail * _ROUNDING)
    places = np.arange(1, right + 1)
    shares = 2 * canaries * delta / places
    below = np.cumsum(likely[:right][::-1])  # P(v > W ≥ v − i) for i = 1, 2, …
    return min(1.0, float((np.maximum(1.0, shares) * tail + shares * below).max()) * _ROUNDING)


def _log_binomial(trials: int, epsilon: float) -> NDArray[np.float64]:
    """Compute ln P(W = k) for all k, where each trial succeeds with odds e^ε."""
    k, factorials = np.arange(trials + 1), _log_factorials(trials)
    failed = epsilon + math.log1p(math.exp(-epsilon))  # −ln(1 − e^ε/(1 + e^ε))
    return factorials[-1] - factorials - factorials[::-1] + k * epsilon - trials * failed


@lru_cache(maxsize=8)
def _log_factorials(most: int) -> NDArray[np.float64]:
    """Compute ln k! for all k up to the largest, each for itself: sums of logarithms would gather errors."""
    return np.array([math.lgamma(k + 1) for k in range(most + 1)])


def proven_epsilon(canaries: int, guesses: int, right: int, delta: float, miss: float) -> float:
    """Find the largest ε, rounded down, at which so many right guesses have probability at most ``miss``."""
    if chance_of_guessing(canaries, guesses, right, 0.0, delta) > miss:
        return 0.0
    low, high = 0.0, _FURTHEST
    for _ in range(40):
        middle = (low + high) / 2
        fits = chance_of_guessing(canaries, guesses, right, middle, delta) <= miss
        low, high = (middle, high) if fits else (low, middle)
    return low


def _laws(scores: NDArray[np.float64], present: Present) -> ToldLaws | None:
    """Spread the scores of both kinds of canaries over equal cells, those above the middle being guessed to be in."""
    finite = np.clip(scores, -1e15, 1e15)
    low, high = float(finite.min()), float(finite.max())
    if low == high or present.all() or not present.any():
        return None
    edges = np.linspace(low, high, _CELLS + 1)
    cells = np.minimum(np.searchsorted(edges, finite, side="right") - 1, _CELLS - 1)
    shares = [np.bincount(cells[side], minlength=_CELLS) / np.count_nonzero(side) for side in (~present, present)]
    inside = edges[:-1] >= _middle(finite)
    left_out, among = (tuple(map(float, each)) for each in shares)
    return ToldLaws("the score of a canary", left_out, among, tuple(map(bool, inside)), tuple(map(float, edges)))


_MOST = 5_000
_RIDGE = 0.1
_NULL = object()
"""What stands for a missing value among keys that are compared."""


@dataclass(frozen=True)
class Planted:
    """A policy is held over invented rows, beside canaries of one row and one unit each."""

    policy: Policy
    table: str
    columns: tuple[str, ...]
    """Those that canaries are looked for by."""
    rows: pyarrow.Table
    canaries: pyarrow.Table
    others: pyarrow.Table | None
    """Under replace, who stands in the place of each canary that is not there."""

    @property
    def count(self) -> int:
        """Say how many canaries there are."""
        return int(self.canaries.num_rows)

    def holding(self, present: Present) -> Policy:
        """Give the policy over the invented rows and the canaries that are present."""
        import pyarrow

        parts = [self.rows, self.canaries.filter(pyarrow.array(present))]
        if self.others is not None:
            parts.append(self.others.filter(pyarrow.array(~present)))
        table = replace(self.policy.tables[self.table], source=InMemory(pyarrow.concat_tables(parts)), relation=None)
        return replace(self.policy, tables={**self.policy.tables, self.table: table})

    def release(self, ask: Callable[[Curator], Any]) -> Release:
        """Give a function that lets a curator over these rows release once, and scores each canary by what came out.

        ``ask`` releases marginals or a synthetic table of the planted table, and returns them.
        """
        from sfumato.curator.curators import Curator

        def run(present: Present) -> NDArray[np.float64]:
            with (
                tempfile.TemporaryDirectory(prefix="sfumato-") as folder,
                Curator(self.holding(present), Path(folder) / "canaries.ledger") as curator,
            ):
                return self.scores(ask(curator))

        return run

    def scores(self, released: Any) -> NDArray[np.float64]:
        """Estimate from what was released whether each canary is among the rows: 1 where it seems to be, else 0.

        Rows are counted by every two columns, as the released marginals or model say. What a cell holds beyond the
        rows that are known to be there is the sum of the canaries in it, and least squares find who they are.
        """
        seen = [name for name in self.columns if name in released.columns]
        if not seen:
            rule = f"marginals or a synthetic table of {self.table}, with one of its columns {', '.join(self.columns)}"
            raise InvalidParameter("ask", tuple(released.columns), rule)
        square, right = _RIDGE * np.eye(self.count), np.full(self.count, _RIDGE / 2)
        for columns in combinations(seen, min(2, len(seen))):
            shown = _counted(released, self.table, columns)
            moved, excess = self._equations(shown, columns)
            square += moved.T @ moved
            right += moved.T @ excess
        return np.linalg.solve(square, right)

    def _equations(self, shown: _Shown, columns: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Say of each cell which canaries are counted in it, and how many rows it holds beyond those that are known."""
        own, known = (_cells(each.select(columns), shown) for each in (self.canaries, self.rows))
        others = [] if self.others is None else _cells(self.others.select(columns), shown)
        place = {cell: row for row, cell in enumerate(dict.fromkeys([*shown.counts, *own, *known, *others]))}
        excess = np.array([shown.counts.get(cell, 0.0) for cell in place])
        moved = np.zeros((len(place), self.count))
        np.subtract.at(excess, [place[cell] for cell in [*known, *others]], 1.0)
        moved[[place[cell] for cell in own], np.arange(self.count)] += 1.0
        if others:  # whoever stands in a canary's place leaves when it comes
            moved[[place[cell] for cell in others], np.arange(self.count)] -= 1.0
        return moved, excess


def plant(
    policy: Policy, table: str, canaries: int = 200, *, rows: int = 200, columns: Sequence[str] | None = None
) -> Planted:
    """Make invented rows for a policy's table, and canaries to put among them; no source of the policy is opened."""
    own = policy.tables.get(table) if isinstance(table, str) else None
    if own is None or own.public:
        raise InvalidParameter("table", table, "the name of a private table of the policy")
    if not (own.every_row or isinstance(own.id, str)):
        raise InvalidParameter("table", table, "a table that has the id of a unit in its rows, or whose rows are units")
    many, base = whole(canaries, "canaries", at_least=1), whole(rows, "rows", at_least=1)
    if many > _MOST or base > _MOST:
        raise InvalidParameter("canaries", canaries, f"at most {_MOST:,} canaries and rows")
    seen = tuple(columns if columns is not None else (name for name in own.columns if name != own.id))
    if not seen or not set(seen) <= set(own.columns):
        raise InvalidParameter("columns", columns, "names of declared columns of the table")
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    private = {name: each for name, each in policy.tables.items() if not each.public}
    made = dummies(private, base + 2 * many, ids)
    tables = {
        name: replace(each, source=InMemory(made[name]), relation=None) if name in made else each
        for name, each in policy.tables.items()
    }
    invented = _with_ids(made[table], own, base)
    others = invented.slice(base + many, many) if policy.budget.neighbours is Neighbours.REPLACE else None
    held = replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)
    return Planted(held, table, seen, invented.slice(0, base), invented.slice(base, many), others)


def _with_ids(made: pyarrow.Table, table: Any, base: int) -> pyarrow.Table:
    """Give every canary, and everybody who may stand in its place, an id of its own."""
    import pyarrow

    if table.every_row or table.id not in made.column_names:
        return made
    column = made.column_names.index(table.id)
    kind = made.schema.field(column).type
    fresh = pyarrow.array(np.arange(made.num_rows - base) + 1 + made.num_rows).cast(kind)
    kept = made.column(column).slice(0, base).combine_chunks()
    return made.set_column(column, table.id, pyarrow.concat_arrays([kept, fresh]))


@dataclass(frozen=True)
class _Shown:
    """This is what was released of some columns: a count for each cell, and where the cells of numbers begin."""

    counts: dict[tuple[Any, ...], float]
    starts: tuple[list[Any], ...]
    """For each column its keys in order, where all are numbers; else none."""


def _counted(released: Any, table: str, columns: Sequence[str]) -> _Shown:
    listed = ", ".join(f'"{name}"' for name in columns)
    answer = released.sql(f'SELECT {listed}, COUNT(*) AS n FROM "{table}" GROUP BY {listed}')
    counts = {tuple(map(_key, row[:-1])): float(row[-1]) for row in answer.rows}
    keys = [sorted({row[i] for row in counts if _is_number(row[i])}) for i in range(len(columns))]
    return _Shown(counts, tuple(keys))


def _key(value: Any) -> Any:
    return _NULL if value is None else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cells(rows: pyarrow.Table, shown: _Shown) -> list[tuple[Any, ...]]:
    """Find the cell of each row: a number lies in the cell that begins at it or next below."""
    columns = [
        [_begins(value, starts) for value in column.to_pylist()]
        for column, starts in zip(rows.columns, shown.starts, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _begins(value: Any, starts: list[Any]) -> Any:
    if not _is_number(value) or not starts:
        return _key(value)
    return starts[max(0, bisect_right(starts, value) - 1)]
