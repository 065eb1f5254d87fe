"""Choose which bought synopses a question is put to: all that can answer it, those with the best forecasts first.

What can be told from the ledger's lines is decided by them: which columns a synopsis has, and which of several
purchases of the same marginals have less noise. Bodies are loaded for the rest, and their plans are kept by each
process. A forecast is the half-width of one cell of the columns that the question reads. Lines, plans and forecasts
follow from the policy and from prices, so nothing of this depends on private rows or on noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sfumato.curator.context import Context
from sfumato.errors import LedgerDamaged, Unsupported
from sfumato.ledger import Publication
from sfumato.plan.canonical import digest
from sfumato.plan.limits import Limits
from sfumato.plan.nodes import Query
from sfumato.privacy import codec
from sfumato.privacy.numbers import text as digits
from sfumato.publish.cells.answering import check_columns, columns_read
from sfumato.publish.marginals.measuring import Published, columns_of, expected_width, noise_words
from sfumato.publish.marginals.planning import Plan
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.receipts import Receipt
from sfumato.release.proposal import receipt
from sfumato.release.releasing import Released

_MOST_ASKED = 8
_MOST_SHELVES, _MOST_OUTLINES, _MOST_LOADED = 64, 256, 4

T = TypeVar("T")


def shelf(context: Context, table: str) -> str:
    """Return the text that the plans of all that is published of a table start with, under one policy."""
    return f"synopsis-{digest(context.declared, table)[:32]}-"


def candidates(query: Query, limits: Limits, context: Context) -> tuple[list[Publication], list[str]]:
    """Return the synopses with the best forecasts for a question, the best first, and why others cannot answer."""
    publications = context.account.published(shelf(context, query.plan.table), data=context.engine.identity())
    ranked: list[tuple[tuple[float, float], int, Publication]] = []
    refusals: list[str] = []
    for each in least_noisy(publications):
        try:
            ranked.append((_forecast(each, columns_read(query), limits, context), -each.number, each))
        except (Unsupported, LedgerDamaged) as refusal:
            refusals.append(reason(refusal))
    return [each for _, _, each in sorted(ranked, key=lambda entry: entry[:2])[:_MOST_ASKED]], refusals


def reason(refusal: Unsupported | LedgerDamaged) -> str:
    """Return the rule of a refusal without its code. A lost body hinders no other synopsis, and no purchase."""
    return refusal.rule.removesuffix(f" [{refusal.code}]") if isinstance(refusal, Unsupported) else refusal.rule


# ── what lines tell ────────────────────────────────────────────────────────────────────────────


def least_noisy(publications: Sequence[Publication]) -> tuple[Publication, ...]:
    """Leave out purchases of the same marginals that another has less noise than; newest first.

    Plans of one text differ by the scale of their noise, or by its kind: one with smaller half-widths throughout is
    better for every question. Of those that are equally good, so many stay as are asked.
    """
    if not publications:
        return ()
    # The hash of the last line covers all lines before it.
    return _fronts.of(publications[-1].hash, lambda: _least_noisy(publications))


def _least_noisy(publications: Sequence[Publication]) -> tuple[Publication, ...]:
    fronts: dict[str, list[tuple[Publication, Mapping[str, float]]]] = {}
    for each in reversed(publications):
        widths = {name: float(width) for name, width in each.accuracy.items()}
        front = fronts.setdefault(each.plan, [])
        if not any(_less_noisy(other, widths) for _, other in front):
            front[:] = [entry for entry in front if not _less_noisy(widths, entry[1])]
            front += [(each, widths)] if len(front) < _MOST_ASKED else []
    kept = [each for front in fronts.values() for each, _ in front]
    return tuple(sorted(kept, key=lambda each: -each.number))


def _less_noisy(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    pairs = [(one[name], other[name]) for name in one.keys() & other.keys()]
    return all(first <= second for first, second in pairs) and any(first < second for first, second in pairs)


# ── what bodies tell ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Outline:
    """What a synopsis is of, without its numbers."""

    plan: Plan
    where: str

    def require_rows(self, limits: Limits) -> None:
        """Refuse what counts other rows than the question."""
        if self.where:
            raise Unsupported("some-rows", f"it is of the rows where {self.where}", fix="ask the synopsis itself")
        if self.plan.rows != limits.rows:
            rule = f"it counts {digits(self.plan.rows)} rows of each unit, and the question {limits.rows}"
            raise Unsupported("other-limits", rule, fix="ask the synopsis itself")

    def expected(self, columns: frozenset[str]) -> tuple[float, float]:
        """Return the half-width of a cell of these columns, infinite where they are not together in what was measured;
        and the sum of their own, by which such synopses are compared.
        """
        names = [each.name for each in self.plan.attributes]
        check_columns(names, columns)
        places = tuple(sorted(map(names.index, columns)))
        return expected_width(self.plan, places), math.fsum(expected_width(self.plan, (each,)) for each in places)


@dataclass(frozen=True)
class Loaded:
    """The body of a publication."""

    released: Released[Published]
    synopsis: Synopsis


def _forecast(
    publication: Publication, columns: frozenset[str], limits: Limits, context: Context
) -> tuple[float, float]:
    known = columns_of(publication.accuracy)
    if known:  # an older version wrote no columns: its body tells
        check_columns(known, columns)
    outline = _outlines.of(publication.hash, lambda: _outline(loaded(publication, context)))
    outline.require_rows(limits)
    return outline.expected(columns)


def _outline(found: Loaded) -> Outline:
    return Outline(found.released.value.plan, found.released.value.where)


def loaded(publication: Publication, context: Context) -> Loaded:
    """Load a body; those that were used last are kept, by their lines' hashes."""
    return _bodies.of(publication.hash, lambda: _load(publication, context))


def _load(publication: Publication, context: Context) -> Loaded:
    stored = context.account.read_published(publication)
    value = codec.loads(stored.body, longest=len(stored.body))
    assert isinstance(value, Published)
    found = Released(value, stored.number, stored.time, stored.hash, free=True)
    return Loaded(found, Synopsis(value, receipt_of(found, context)))


def receipt_of(found: Released[Published], context: Context) -> Receipt:
    """Return the receipt of a synopsis for whoever asks now."""
    words = (noise_words(found.value.plan),)
    return receipt(found, found.value.purchase, words, question="", here=context, confidence="0.95")


class _LastUsed(Generic[T]):
    """Values by the hash of a line; of more than ``most``, those that were not used for longest are forgotten.

    A value follows from its line, so threads need no lock: two that miss it at once make the same.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, T] = {}

    def of(self, line_hash: str, make: Callable[[], T]) -> T:
        """Return the value of a line, made where it is not kept."""
        found = self._values.pop(line_hash, None)
        value = make() if found is None else found
        self._values[line_hash] = value
        for oldest in list(self._values)[: -self._most]:
            self._values.pop(oldest, None)
        return value


_fronts: _LastUsed[tuple[Publication, ...]] = _LastUsed(_MOST_SHELVES)
_outlines: _LastUsed[Outline] = _LastUsed(_MOST_OUTLINES)
_bodies: _LastUsed[Loaded] = _LastUsed(_MOST_LOADED)
