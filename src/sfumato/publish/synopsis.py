"""A synopsis is what was published of a table: noisy blocks, and every marginal that follows from them.

It answers questions for ever, without data, curator or ledger; nothing is charged. Marginals and questions within what
was measured are unbiased, with exact ranges; everything else is bounded (``answering``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.sql.parameters import Parameters
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, saved
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, text
from sfumato.publish.cells import answering
from sfumato.publish.files import synopsis_files
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attribute, Attributes, Cell, ListedCell, RangeCell
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.consistency import Consistent, Zeros, consistent
from sfumato.publish.marginals.estimating import Estimates, MeasuredBlock, MeasuredMarginal, least_squares
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.implied import ImpliedCells, implied
from sfumato.publish.marginals.measuring import Published, Several, shapes_of
from sfumato.publish.marginals.planning import Plan
from sfumato.release.answers.answer import MEASURED, Answer
from sfumato.release.answers.answer_pictures import foot, notes
from sfumato.release.answers.receipts import INVENTED, Receipt
from sfumato.release.answers.stacked_answers import free
from sfumato.release.prices import Price

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from sfumato.ledger import Anchor
    from sfumato.publish.marginals.verifying import SynopsisVerification

_MOST_STEPS = 2 * 10**9
"""Additions that looking for consistent marginals may take."""
_LONGEST = 1 << 30
"""Letters of a synopsis's JSON text."""
_MISS = 1e-9
"""The chance that noise makes any pair of columns say what one does not decide of the other."""


@codec.value("synopsis")
@dataclass(frozen=True, eq=False)
class Synopsis:
    """This holds what was measured, from which marginals and answers are made without a further charge."""

    published: Published = field(repr=False)
    receipt: Receipt = field(repr=False)
    earlier: tuple[Synopsis, ...] = field(default=(), repr=False)
    """Others of the same table that it was added to, the first one first."""

    def __post_init__(self) -> None:
        if not isinstance(self.published, Published) or not isinstance(self.receipt, Receipt):
            raise InvalidParameter("published", type(self.published).__name__, "what was published, with its receipt")
        if type(self.earlier) is not tuple or not all(isinstance(each, Synopsis) for each in self.earlier):
            raise InvalidParameter("earlier", type(self.earlier).__name__, "a list of synopses")

    @cached_property
    def _several(self) -> Several:
        return Several.of([each.published for each in (*self.earlier, self)])

    @property
    def attributes(self) -> Attributes:
        return self._several.attributes

    @property
    def plan(self) -> Plan:
        return self.published.plan

    @property
    def table(self) -> str:
        return self.published.table

    @property
    def columns(self) -> tuple[str, ...]:
        """List the published columns, in the order of the policy."""
        return tuple(each.name for each in self.attributes)

    @property
    def rehearsed(self) -> bool:
        """Tell whether it was invented from the policy alone: nothing was read, charged or written down."""
        return self.receipt.rehearsed

    @property
    def guarantee(self) -> Price:
        """Say what was promised for this release by itself: ε, (ε, δ) or ρ."""
        return self.published.promise

    @property
    def releases(self) -> tuple[Synopsis, ...]:
        """List the releases it is made of, each a synopsis of its own."""
        return (*self.earlier, Synopsis(self.published, self.receipt))

    @property
    def blocks(self) -> tuple[MeasuredBlock, ...]:
        return self._several.blocks

    @property
    def marginals(self) -> tuple[MeasuredMarginal, ...]:
        return self.published.marginals

    @cached_property
    def estimates(self) -> Estimates:
        """Combine all that was measured."""
        return least_squares(self.attributes, self.blocks, self.marginals)

    @property
    def sets(self) -> tuple[Set, ...]:
        """List the marginals that were asked for, each once."""
        return self._several.asked

    @cached_property
    def _known(self) -> SynopsisEstimates:
        return SynopsisEstimates(self.estimates, self._several.measured, self._etas())

    def _etas(self) -> dict[block_algebra.Block, float] | None:
        """Give a precision for every block that was fixed before any noise was known: that of the first release, which
        was planned beforehand, and for blocks that it has not, that of its total. None where there is one release.
        """
        if not self.earlier:
            return None
        first = self.earlier[0].plan.block_variances
        return {block: 1 / first.get(block, first[()]) for block in self.estimates.parts}

    @cached_property
    def face(self) -> answering.Face:
        """Give what questions in SQL see of it."""
        return self._face(replace(self._known, zeros=lambda: self._zeros))

    def _face(self, known: SynopsisEstimates) -> answering.Face:
        own = self.table, self.attributes, self._several.domains, known, self.receipt, self.published.where
        return answering.Face(*own)

    # ── questions ──────────────────────────────────────────────────────────────────────────────

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = "0.95",
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL from what was published: free, and as often as you like.

        Each number says its basis: measured, or bounded. ``together`` makes all ranges hold at once.
        """
        return answering.ask(self.face, question, parameters, confidence=confidence, together=together)

    def marginal(
        self,
        columns: Sequence[str],
        *,
        consistent: bool = True,
        confidence: Number = "0.95",
        together: bool = False,
    ) -> Answer:
        """Give the counts of all cells of some columns: unbiased, and beside them, unless not wanted, the nearest
        counts that a table could have, none below zero and all marginals in agreement.
        """
        asked = self._named(columns)
        places = tuple(sorted(asked))
        if not self._known.covers(places):
            published = "; ".join(" and ".join(self.attributes[p].name for p in each) for each in self._known.sets[:3])
            fix = f"ask in SQL, which is answered with bounds; published are {published}"
            raise InvalidParameter("columns", list(columns), "columns that were published together", fix=fix)
        sure = exact(confidence, "confidence", CONFIDENCE)
        values, noise = self._known.totals(np.ones((1,) * len(places)), places, places, places)
        widths = np.broadcast_to(noise.width(1 - float(sure), values.size if together else 1), values.shape)
        near = self._consistent.marginal(places) if consistent else None
        found = self._marginal(asked, (values, widths), near, sure)
        return replace(found, receipt=replace(found.receipt, joint=together))

    def _marginal(
        self, asked: Sequence[int], found: tuple[Floats, Floats], near: Floats | None, confidence: Any
    ) -> Answer:
        """Lay out counts as rows, in the order in which the columns were named."""
        places, own = sorted(asked), [self.attributes[place] for place in asked]
        order = tuple(places.index(place) for place in asked)
        count, width = (each.transpose(order).ravel() for each in found)
        ranges = {"count": tuple(zip((count - width).tolist(), (count + width).tolist(), strict=True))}
        numbers = {"count": count.tolist()}
        if near is not None:
            numbers["consistent"] = near.transpose(order).ravel().tolist()
            ends = np.maximum(count - width, 0.0).tolist(), (np.maximum(count, 0.0) + width).tolist()
            ranges["consistent"] = tuple(zip(*ends, strict=True))
        names, kinds, keys = [each.name for each in own], [key_type(each) for each in own], cell_keys(own)
        called = {each: free(each, names) for each in numbers}
        rows = tuple((*key, *cells) for key, cells in zip(keys, zip(*numbers.values(), strict=True), strict=True))
        receipt = _free_receipt(self.receipt, f"the marginal of {' and '.join(names)}", text(confidence))
        return Answer(
            (*names, *called.values()),
            (*kinds, *(Type.REAL for _ in numbers)),
            rows,
            {called[each]: ranges[each] for each in numbers},
            tuple(names),
            receipt,
            (),
            basis={called["count"]: (MEASURED,) * len(rows)},
        )

    @cached_property
    def _consistent(self) -> Consistent:
        """Find the nearest marginals that a table could have; in fewer rounds where they are large."""
        sets = self._known.sets
        cells = sum(int(np.prod([self.attributes[p].size for p in each], dtype=np.float64)) for each in sets)
        rounds = max(50, min(5_000, _MOST_STEPS // (16 * max(1, cells))))
        zeros = {places: cells for places, cells in self._zeros.items() if self._known.covers(places)}
        return consistent(self.estimates, sets, zeros, rounds)

    @cached_property
    def _zeros(self) -> Zeros:
        """Find the cells that no row is in by what the policy says, whether they were measured together or not."""
        found = self._declared_zeros()
        for deciding, decided in dict.fromkeys(pair for one in self.releases for pair in one.published.face.implies):
            pair = self._named([deciding, decided])
            places = tuple(sorted(pair))
            if self._known.covers(places):
                own = self._implied(pair, found.get(places)).impossible.transpose(np.argsort(pair))
                found[places] = found.get(places, False) | own
        return found

    def _implied(self, pair: Sequence[int], zeros: Any) -> ImpliedCells:
        """Find what the first column of a pair decides of the second, from the counts of both."""
        places = tuple(sorted(pair))
        counts, noise = self._known.totals(np.ones((1, 1)), places, places, places)
        widths = np.broadcast_to(noise.width(_MISS, counts.size), counts.shape)
        order, none = np.argsort(pair), np.zeros(counts.shape, bool)
        counts, widths, zeros = (each.transpose(order) for each in (counts, widths, none if zeros is None else zeros))
        return implied(counts, self.attributes[pair[0]], widths=widths, impossible=zeros)

    def _declared_zeros(self) -> dict[Set, Any]:
        """Find the cells that the policy declares impossible."""
        found: dict[Set, Any] = {}
        face = self._face(self._known)
        for each in dict.fromkeys(rule for one in self.releases for rule in one.published.face.impossible):
            try:
                places, cells = answering.surely(face, each)
            except Unsupported:  # it names a column that was not published
                continue
            if places:
                found[places] = found.get(places, False) | cells
        return found

    def _named(self, columns: Sequence[str]) -> list[int]:
        """Find the places of columns, in the order in which they are named."""
        known = {name.lower(): place for place, name in enumerate(self.columns)}
        listed = isinstance(columns, Sequence) and not isinstance(columns, (str, bytes))
        if not listed or not columns or not all(isinstance(each, str) for each in columns):
            raise InvalidParameter("columns", columns, 'a list of names such as ["sex", "age"]')
        for each in columns:
            if each.lower() not in known:
                near = get_close_matches(each, self.columns, 1)
                fix = f"did you mean {near[0]}?" if near else ""
                raise InvalidParameter("columns", each, f"names among {', '.join(self.columns)}", fix=fix)
        found = [known[each.lower()] for each in columns]
        if len(set(found)) != len(found):
            raise InvalidParameter("columns", list(columns), "names of which none stands twice")
        return found

    def places(self, columns: Sequence[str]) -> Set:
        """Find the places of columns among those that were measured, rising."""
        return tuple(sorted(self._named(columns)))

    # ── as other things ────────────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """Write all that was published, and the receipt, as JSON text."""
        return codec.dumps(_without_salt(self))

    @classmethod
    def from_json(cls, source: str) -> Synopsis:
        """Read back what ``to_json`` wrote: a synopsis that says the same. Any other text is refused."""
        return codec.loads_as(cls, source, longest=_LONGEST)

    def to_arrow(self) -> pyarrow.Table:
        """Give all marginals that were asked for as one table: which, the cell, its count and the range of it. A column
        that a marginal is not about is missing in its rows.
        """
        import pyarrow

        tables = []
        for places in self.sets:
            names = [self.attributes[place].name for place in places]
            cells = self.marginal(names, consistent=False).to_arrow()
            which = pyarrow.array([" × ".join(names)] * cells.num_rows, pyarrow.string())
            tables.append(cells.add_column(0, free("marginal", self.columns), which))
        found = pyarrow.concat_tables(tables, promote_options="default")
        keys = [name for name in self.columns if name in found.column_names]
        counts = [name for name in found.column_names[1:] if name not in keys]
        return found.select([found.column_names[0], *keys, *counts])

    def to_pandas(self) -> pandas.DataFrame:
        """Give all marginals that were asked for as one data frame: which, the cell, its count and the range of it."""
        frames = []
        for places in self.sets:
            names = [self.attributes[place].name for place in places]
            frame = self.marginal(names, consistent=False).to_pandas()
            frame.insert(0, "marginal", " × ".join(names))
            frames.append(frame)
        import pandas

        return pandas.concat(frames, ignore_index=True)

    def plot(self, path: str | None = None) -> Picture:
        """Draw the counts of each column with their ranges; with a path (.svg, .png, .html) the picture is saved,
        too.
        """
        single = [name for place, name in enumerate(self.columns) if self._known.covers((place,))]
        charts = [self.marginal([name], consistent=False) for name in single]
        drawn = [each.chart_data(each.columns[-1]) for each in charts]
        return saved(draw_panels(drawn, "Counts of each column", foot(self.receipt), notes(drawn)), path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, from which ``sf.synopsis(path)`` reads it without data, curator or ledger."""
        if self.earlier:
            fix = "save each of synopsis.releases, and add them where they are read"
            rule = "one release: a file has one line of a ledger"
            raise InvalidParameter("synopsis", "a sum of several", rule, fix=fix)
        synopsis_files.save(self.published, self.receipt, path)

    def verify(self, ledger: Anchor | str | os.PathLike[str] | None = None) -> SynopsisVerification:
        """Check charge and promise from the plan alone, and the line in an export or an anchor of the ledger."""
        from sfumato.publish.marginals.verifying import verify

        return verify([(each.published, each.receipt) for each in self.releases], ledger)

    def __add__(self, other: object) -> Synopsis:
        """Combine two synopses of one table by precision; ranges hold however the second was chosen."""
        if not isinstance(other, Synopsis):
            return NotImplemented
        parts = [*self.releases, *other.releases]
        for each in parts[1:]:
            _check_same(parts[0], each)
        if len({each.receipt.line for each in parts}) != len(parts):
            rule = "another release: adding one to itself says nothing more"
            raise InvalidParameter("other", "the same release", rule, fix="add what another release gave")
        ordered = sorted(parts, key=lambda each: each.receipt.line)
        Several.of([each.published for each in ordered])
        return Synopsis(ordered[-1].published, ordered[-1].receipt, tuple(ordered[:-1]))

    def __repr__(self) -> str:
        """Say in a few lines what was published, and what was promised."""
        cells = sum(math.prod(shape) for each in self.releases for shape in shapes_of(each.plan))
        where = f", where {self.published.where}" if self.published.where else ""
        lines = [
            f"synopsis   {self.table}{where}",
            f"columns    {', '.join(f'{each.name} ({each.size - 1} + missing)' for each in self.attributes)}",
            f"marginals  {len(self.sets):,}, from {cells:,} noisy numbers",
            *(f"promise    {each.guarantee}{INVENTED if each.rehearsed else ''}" for each in self.releases),
        ]
        return "\n".join(lines)


def _without_salt(found: Synopsis) -> Synopsis:
    shown = replace(found.published, purchase=found.published.purchase.public)
    return Synopsis(shown, found.receipt, tuple(map(_without_salt, found.earlier)))


def _check_same(one: Synopsis, other: Synopsis) -> None:
    """Refuse to add what is not about the same rows, or cannot be bounded together."""
    facts: dict[str, Callable[[Synopsis], Any]] = {
        "table": lambda each: (each.table.lower(), each.published.where),
        "account": lambda each: (each.published.face.account, each.receipt.unit, each.receipt.neighbours),
        "data version": lambda each: each.receipt.data,
        "weights of rows": lambda each: (each.plan.rows, each.plan.unit_value),
    }
    for name, fact in facts.items():
        if fact(one) != fact(other):
            raise InvalidParameter("other", name, f"a synopsis with the same {name}", fix="ask each by itself")
    if one.plan.marginals or other.plan.marginals:
        rule = "one with Gaussian noise: that of Laplace has no bound that holds however the second was chosen"
        raise InvalidParameter("other", "Laplace noise", rule, fix="ask each by itself")


def key_type(attribute: Attribute) -> Type:
    return Type.TEXT if any(isinstance(each, RangeCell) for each in attribute.cells) else attribute.type


def cell_keys(attributes: Sequence[Attribute]) -> list[tuple[Any, ...]]:
    """Name every cell of a marginal: by its values, its bins in words, and NULL for what is missing."""
    labels = [[*(_label(cell, key_type(each)) for cell in each.cells[:-1]), None] for each in attributes]
    grid = np.indices([len(each) for each in labels]).reshape(len(labels), -1)
    return list(
        zip(*([own[k] for k in places] for own, places in zip(labels, grid.tolist(), strict=True)), strict=True)
    )


def _label(cell: Cell, kind: Type) -> Any:
    if not isinstance(cell, ListedCell) or kind is Type.TEXT:
        return answering.cell_name(cell)
    return float(cell.value) if kind is Type.REAL else cell.value  # type: ignore[arg-type]


def _free_receipt(receipt: Receipt, question: str, confidence: str) -> Receipt:
    return replace(receipt, question=question, free=True, confidence=confidence)
