"""A synopsis: the noisy blocks that were published of a table, and every marginal that follows from them.

It answers questions without data, curator or ledger, any number of times, and nothing is charged. Marginals and
questions within what was measured are unbiased, with exact ranges; everything else is bounded (``answering``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.html_fragments import table
from sfumato.plan.sql.parameters import Parameters
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact, format_exact
from sfumato.publish.cells import answering
from sfumato.publish.cells.cell_values import describe_cell
from sfumato.publish.files import synopsis_files
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import (
    Attribute,
    Attributes,
    Cell,
    DecidedCells,
    ListedCell,
    RangeCell,
    infer_dependency,
    summarize_columns,
)
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.estimating import (
    BlockEstimates,
    ConsistentMarginals,
    MeasuredBlock,
    MeasuredMarginal,
    Zeros,
    least_squares,
    make_consistent,
)
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.measuring import CombinedReleases, PublishedMarginals, measured_shapes
from sfumato.publish.marginals.planning import NoisePlan
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import MEASURED, Answer
from sfumato.release.answers.answer_pictures import caption_lines, mark_notes
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.answers.stacked_answers import unused_name
from sfumato.release.prices import Price

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from sfumato.ledger import Anchor
    from sfumato.publish.marginals.charge_verification import SynopsisVerification

_MAX_ADDITIONS = 2 * 10**9
"""The most additions that the search for consistent marginals may take."""
_MAX_JSON_CHARACTERS = 1 << 30
"""The most characters of a synopsis's JSON text."""
_IMPLICATION_MISS = 1e-9
"""The probability that noise makes some pair of columns imply what one does not decide of the other."""


@codec.serialisable("synopsis")
@dataclass(frozen=True, eq=False)
class Synopsis:
    """What was measured of a table, from which marginals and answers are computed without a further charge."""

    published: PublishedMarginals = field(repr=False)
    receipt: Receipt = field(repr=False)
    earlier: tuple[Synopsis, ...] = field(default=(), repr=False)
    """Earlier releases of the same table that this one was added to, the first one first."""

    def __post_init__(self) -> None:
        for name, kind in (("published", PublishedMarginals), ("receipt", Receipt)):
            if not isinstance(getattr(self, name), kind):
                given = ValueWords(f"an object of type {type(getattr(self, name)).__name__}")
                fix = "use sf.synopsis(path), which loads the .sfu file with its receipt"
                raise InvalidParameter(name, given, f"a {kind.__name__} value", fix=fix)
        if type(self.earlier) is not tuple or not all(isinstance(release, Synopsis) for release in self.earlier):
            raise InvalidParameter("earlier", ValueWords(f"a {type(self.earlier).__name__}"), "a tuple of synopses")

    @cached_property
    def _combined_releases(self) -> CombinedReleases:
        return CombinedReleases.from_releases([release.published for release in (*self.earlier, self)])

    @property
    def attributes(self) -> Attributes:
        return self._combined_releases.attributes

    @property
    def plan(self) -> NoisePlan:
        return self.published.plan

    @property
    def table(self) -> str:
        return self.published.table

    @property
    def columns(self) -> tuple[str, ...]:
        """The published columns, in the order of the policy."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def is_preview(self) -> bool:
        """Whether the synopsis was invented from the policy alone: nothing was read, charged or recorded."""
        return self.receipt.is_preview

    @property
    def guarantee(self) -> Price:
        """The guarantee of this release by itself: ε, (ε, δ) or ρ."""
        return self.published.price_or_plan_cost

    @property
    def releases(self) -> tuple[Synopsis, ...]:
        """The releases that the synopsis combines, each as a synopsis of its own."""
        return (*self.earlier, Synopsis(self.published, self.receipt))

    @property
    def blocks(self) -> tuple[MeasuredBlock, ...]:
        return self._combined_releases.blocks

    @property
    def marginals(self) -> tuple[MeasuredMarginal, ...]:
        return self.published.laplace_marginals

    @cached_property
    def estimates(self) -> BlockEstimates:
        """The estimates from all that was measured."""
        return least_squares(self.attributes, self.blocks, self.marginals)

    @property
    def sets(self) -> tuple[AttributeSet, ...]:
        """The marginals that were requested, each once."""
        return self._combined_releases.requested_sets

    @cached_property
    def _synopsis_estimates(self) -> SynopsisEstimates:
        return SynopsisEstimates(
            self.estimates, self._combined_releases.measured_sets, self._first_release_precisions()
        )

    def _first_release_precisions(self) -> dict[block_algebra.Block, float] | None:
        """Return a precision for every block that was fixed before any noise was drawn: that of the first release,
        or of its total for blocks that it lacks. None if there is only one release.
        """
        if not self.earlier:
            return None
        first_variances = self.earlier[0].plan.block_variances
        return {block: 1 / first_variances.get(block, first_variances[()]) for block in self.estimates.parts}

    @cached_property
    def face(self) -> answering.QueryableTable:
        """What questions in SQL see of the synopsis."""
        return self._queryable_with(replace(self._synopsis_estimates, declared_zeros=lambda: self._zeros))

    def _queryable_with(self, estimates: SynopsisEstimates) -> answering.QueryableTable:
        face_fields = (
            self.table,
            self.attributes,
            self._combined_releases.domains,
            estimates,
            self.receipt,
            self.published.where,
        )
        return answering.QueryableTable(*face_fields)

    # ── questions ──────────────────────────────────────────────────────────────────────────────

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL from what was published: free, and any number of times.

        Each number states its basis: measured, or bounded. ``together`` makes all ranges hold at once.
        """
        return answering.answer_sql(self.face, question, parameters, confidence=confidence, together=together)

    def marginal(
        self,
        columns: Sequence[str],
        *,
        consistent: bool = True,
        confidence: Number = DEFAULT_CONFIDENCE,
        together: bool = False,
    ) -> Answer:
        """Return the counts of all cells of some columns: unbiased, and beside them, if ``consistent``, the nearest
        counts that a table could have: none below zero, and all marginals in agreement.
        """
        requested = column_indices(columns, self.columns)
        attribute_set = tuple(sorted(requested))
        if not self._synopsis_estimates.covers(attribute_set):
            published = "; ".join(
                " and ".join(self.attributes[p].name for p in measured_set)
                for measured_set in self._synopsis_estimates.sets[:3]
            )
            fix = f"choose columns of one of these sets: {published}; for others use SQL, which answers with bounds"
            raise InvalidParameter(
                "columns", list(columns), "chosen from columns that were published together", fix=fix
            )
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        values, noise = self._synopsis_estimates.totals_and_errors(
            np.ones((1,) * len(attribute_set)), attribute_set, attribute_set, attribute_set
        )
        widths = np.broadcast_to(noise.width(1 - float(confidence_level), values.size if together else 1), values.shape)
        consistent_counts = self._consistent.marginal(attribute_set) if consistent else None
        answer = self._marginal_answer(requested, (values, widths), consistent_counts, confidence_level)
        return replace(answer, receipt=replace(answer.receipt, joint=together))

    def _marginal_answer(
        self,
        requested: Sequence[int],
        counts_and_widths: tuple[Floats, Floats],
        consistent_counts: Floats | None,
        confidence: Any,
    ) -> Answer:
        """Lay counts out as rows, in the order in which the columns were named."""
        attribute_set, attributes = (
            sorted(requested),
            [self.attributes[attribute_index] for attribute_index in requested],
        )
        order = tuple(attribute_set.index(attribute_index) for attribute_index in requested)
        count, width = (array.transpose(order).ravel() for array in counts_and_widths)
        ranges = {"count": tuple(zip((count - width).tolist(), (count + width).tolist(), strict=True))}
        numbers = {"count": count.tolist()}
        if consistent_counts is not None:
            numbers["consistent"] = consistent_counts.transpose(order).ravel().tolist()
            ends = np.maximum(count - width, 0.0).tolist(), (np.maximum(count, 0.0) + width).tolist()
            ranges["consistent"] = tuple(zip(*ends, strict=True))
        names = [attribute.name for attribute in attributes]
        kinds, keys = [key_type(attribute) for attribute in attributes], cell_keys(attributes)
        output_names = {name: unused_name(name, names) for name in numbers}
        rows = tuple((*key, *cells) for key, cells in zip(keys, zip(*numbers.values(), strict=True), strict=True))
        receipt = _free_receipt(self.receipt, f"the marginal of {' and '.join(names)}", format_exact(confidence))
        return Answer(
            (*names, *output_names.values()),
            (*kinds, *(Type.REAL for _ in numbers)),
            rows,
            {output_names[name]: ranges[name] for name in numbers},
            tuple(names),
            receipt,
            (),
            basis={output_names["count"]: (MEASURED,) * len(rows)},
        )

    @cached_property
    def _consistent(self) -> ConsistentMarginals:
        """The nearest marginals that a table could have; computed in fewer rounds if they are large."""
        sets = self._synopsis_estimates.sets
        cells = sum(
            int(np.prod([self.attributes[p].size for p in measured_set], dtype=np.float64)) for measured_set in sets
        )
        rounds = max(50, min(5_000, _MAX_ADDITIONS // (16 * max(1, cells))))
        zeros = {
            attribute_set: cells
            for attribute_set, cells in self._zeros.items()
            if self._synopsis_estimates.covers(attribute_set)
        }
        return make_consistent(self.estimates, sets, zeros, rounds)

    @cached_property
    def _zeros(self) -> Zeros:
        """The cells that no row is in by the policy, whether they were measured together or not."""
        zeros = self._declared_zeros()
        for deciding, decided in dict.fromkeys(
            pair for release in self.releases for pair in release.published.face.implies
        ):
            pair = column_indices([deciding, decided], self.columns)
            attribute_set = tuple(sorted(pair))
            if self._synopsis_estimates.covers(attribute_set):
                impossible = self._decided_cells(pair, zeros.get(attribute_set)).impossible.transpose(np.argsort(pair))
                zeros[attribute_set] = zeros.get(attribute_set, False) | impossible
        return zeros

    def _decided_cells(self, pair: Sequence[int], zeros: Any) -> DecidedCells:
        """Return what the first column of a pair decides of the second, from the counts of both."""
        attribute_set = tuple(sorted(pair))
        counts, noise = self._synopsis_estimates.totals_and_errors(
            np.ones((1, 1)), attribute_set, attribute_set, attribute_set
        )
        widths = np.broadcast_to(noise.width(_IMPLICATION_MISS, counts.size), counts.shape)
        order = np.argsort(pair)
        zeros = np.zeros(counts.shape, bool) if zeros is None else zeros
        counts, widths, zeros = (array.transpose(order) for array in (counts, widths, zeros))
        return infer_dependency(counts, self.attributes[pair[0]], widths=widths, impossible=zeros)

    def _declared_zeros(self) -> dict[AttributeSet, Any]:
        """Return the cells that the policy declares impossible."""
        zeros: dict[AttributeSet, Any] = {}
        face = self._queryable_with(self._synopsis_estimates)
        for declared in dict.fromkeys(rule for release in self.releases for rule in release.published.face.impossible):
            try:
                attribute_set, cells = answering.certain_cells(face, declared)
            except Unsupported:  # the condition names a column that was not published
                continue
            if attribute_set:
                zeros[attribute_set] = zeros.get(attribute_set, False) | cells
        return zeros

    def attribute_indices(self, columns: Sequence[str]) -> AttributeSet:
        """Return the indices of columns among those that were measured, in increasing order."""
        return tuple(sorted(column_indices(columns, self.columns)))

    # ── as other things ────────────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """Serialize all that was published, and the receipt, as JSON text."""
        return codec.dumps(_without_salt(self))

    @classmethod
    def from_json(cls, source: str) -> Synopsis:
        """Parse the text that ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source, longest=_MAX_JSON_CHARACTERS)

    def to_arrow(self) -> pyarrow.Table:
        """Return all requested marginals as one table: the marginal, the cell, its count and the range of the count.
        A column that a marginal does not have is null in its rows.
        """
        import pyarrow

        tables = []
        for attribute_set in self.sets:
            names = [self.attributes[attribute_index].name for attribute_index in attribute_set]
            cells = self.marginal(names, consistent=False).to_arrow()
            marginal_names = pyarrow.array([" × ".join(names)] * cells.num_rows, pyarrow.string())
            tables.append(cells.add_column(0, unused_name("marginal", self.columns), marginal_names))
        combined = pyarrow.concat_tables(tables, promote_options="default")
        keys = [name for name in self.columns if name in combined.column_names]
        counts = [name for name in combined.column_names[1:] if name not in keys]
        return combined.select([combined.column_names[0], *keys, *counts])

    def to_pandas(self) -> pandas.DataFrame:
        """Return all requested marginals as one data frame: the marginal, the cell, its count and the range of the
        count.
        """
        frames = []
        for attribute_set in self.sets:
            names = [self.attributes[attribute_index].name for attribute_index in attribute_set]
            frame = self.marginal(names, consistent=False).to_pandas()
            frame.insert(0, "marginal", " × ".join(names))
            frames.append(frame)
        import pandas

        return pandas.concat(frames, ignore_index=True)

    def plot(self, path: str | None = None) -> Picture:
        """Plot the counts of each column with their ranges; with a path (.svg, .png, .html) the picture is saved
        too.
        """
        column_names = [
            name
            for attribute_index, name in enumerate(self.columns)
            if self._synopsis_estimates.covers((attribute_index,))
        ]
        answers = [self.marginal([name], consistent=False) for name in column_names]
        charts = [answer.chart_data(answer.columns[-1]) for answer in answers]
        return save_if_path(
            draw_panels(charts, "Counts of each column", caption_lines(self.receipt), mark_notes(charts)), path
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, which ``sf.synopsis(path)`` reads without data, curator or ledger."""
        if self.earlier:
            fix = "save each of synopsis.releases, and add them again after reading"
            rule = "a single release, because a file refers to one line of a ledger"
            raise InvalidParameter("synopsis", ValueWords("a sum of several releases"), rule, fix=fix)
        synopsis_files.save(self.published, self.receipt, path)

    def verify(self, ledger: Anchor | str | os.PathLike[str] | None = None) -> SynopsisVerification:
        """Verify charge and guarantee from the plan alone, and the ledger line in an export or an anchor of the
        ledger.
        """
        from sfumato.publish.marginals.charge_verification import verify

        return verify([(release.published, release.receipt) for release in self.releases], ledger)

    def __add__(self, other: object) -> Synopsis:
        """Combine two synopses of one table by precision; ranges hold however the second was chosen."""
        if not isinstance(other, Synopsis):
            return NotImplemented
        releases = [*self.releases, *other.releases]
        for release in releases[1:]:
            _require_combinable(releases[0], release)
        if len({release.receipt.line for release in releases}) != len(releases):
            rule = "the synopsis of another release, because adding a release to itself adds no information"
            raise InvalidParameter(
                "other", ValueWords("the same release"), rule, fix="add a synopsis from another line of the ledger"
            )
        ordered = sorted(releases, key=lambda release: release.receipt.line)
        CombinedReleases.from_releases([release.published for release in ordered])
        return Synopsis(ordered[-1].published, ordered[-1].receipt, tuple(ordered[:-1]))

    def __repr__(self) -> str:
        """Summarize what was published, and the guarantee."""
        return "\n".join(f"{name:<9}  {text}" for name, text in self._summary_rows)

    def _repr_html_(self) -> str:
        return table((), self._summary_rows)

    @property
    def _summary_rows(self) -> list[tuple[str, str]]:
        cells = sum(math.prod(shape) for release in self.releases for shape in measured_shapes(release.plan))
        where = f", where {self.published.where}" if self.published.where else ""
        marked = [f"{release.guarantee}{PREVIEW_MARK if release.is_preview else ''}" for release in self.releases]
        return [
            ("synopsis", f"{self.table}{where}"),
            ("columns", summarize_columns(self.attributes)),
            ("marginals", f"{len(self.sets):,}, from {cells:,} noisy numbers"),
            *(("promise", guarantee) for guarantee in marked),
        ]


def _without_salt(synopsis: Synopsis) -> Synopsis:
    published = replace(synopsis.published, purchase=synopsis.published.purchase.without_salt)
    return Synopsis(published, synopsis.receipt, tuple(map(_without_salt, synopsis.earlier)))


def _require_combinable(first: Synopsis, second: Synopsis) -> None:
    """Refuse to add what is not about the same rows, or cannot be bounded together."""
    facts: dict[str, Callable[[Synopsis], Any]] = {
        "table": lambda synopsis: (synopsis.table.lower(), synopsis.published.where),
        "account": lambda synopsis: (
            synopsis.published.face.account,
            synopsis.receipt.unit,
            synopsis.receipt.neighbours,
        ),
        "data version": lambda synopsis: synopsis.receipt.data,
        "weights of rows": lambda synopsis: (synopsis.plan.rows, synopsis.plan.unit_value),
    }
    for name, fact in facts.items():
        if fact(first) != fact(second):
            raise InvalidParameter(
                "other",
                ValueWords(f"one that differs in its {name}"),
                f"a synopsis with the same {name}",
                fix="query each synopsis separately",
            )
    if first.plan.marginals or second.plan.marginals:
        rule = "a synopsis with Gaussian noise, because no ranges are known for sums of synopses with Laplace noise"
        raise InvalidParameter("other", ValueWords("Laplace noise"), rule, fix="query each synopsis separately")


def column_indices(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return the indices of named columns, in the order of the names; refuses unknown and repeated names."""
    index_by_name = {column.lower(): index for index, column in enumerate(columns)}
    is_list = isinstance(names, Sequence) and not isinstance(names, (str, bytes))
    if not is_list or not names or not all(isinstance(name, str) for name in names):
        raise InvalidParameter("columns", names, 'a list of names such as ["sex", "age"]')
    for name in names:
        if name.lower() not in index_by_name:
            matches = get_close_matches(name, columns, 1)
            fix = f"did you mean {matches[0]}?" if matches else ""
            raise InvalidParameter("columns", name, f"a list of names from {', '.join(columns)}", fix=fix)
    indices = [index_by_name[name.lower()] for name in names]
    if len(set(indices)) != len(indices):
        raise InvalidParameter("columns", list(names), "a list of different names")
    return indices


def key_type(attribute: Attribute) -> Type:
    return Type.TEXT if any(isinstance(cell, RangeCell) for cell in attribute.cells) else attribute.type


def cell_keys(attributes: Sequence[Attribute]) -> list[tuple[Any, ...]]:
    """Return the keys of every cell of a marginal: values, bins in words, and NULL for missing values."""
    labels = [
        [*(_cell_key(cell, key_type(attribute)) for cell in attribute.cells[:-1]), None] for attribute in attributes
    ]
    grid = np.indices([len(cell_labels) for cell_labels in labels]).reshape(len(labels), -1)
    return list(
        zip(
            *(
                [cell_labels[k] for k in cell_indices]
                for cell_labels, cell_indices in zip(labels, grid.tolist(), strict=True)
            ),
            strict=True,
        )
    )


def _cell_key(cell: Cell, sql_type: Type) -> Any:
    if not isinstance(cell, ListedCell) or sql_type is Type.TEXT:
        return describe_cell(cell)
    return float(cell.value) if sql_type is Type.REAL else cell.value  # type: ignore[arg-type]


def _free_receipt(receipt: Receipt, question: str, confidence: str) -> Receipt:
    return replace(receipt, question=question, free=True, confidence=confidence)
