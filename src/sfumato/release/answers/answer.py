"""Answers: noisy rows with the confidence interval of each number, and the receipt.

Answers to several questions can be stacked into one table for other programs.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from importlib import import_module
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from sfumato.caching import LazyText, once_per_instance, replace_keeping_lazy
from sfumato.errors import InvalidParameter, SfumatoError, ValueWords, shorten
from sfumato.extras import install_command
from sfumato.html_fragments import collapsed, paragraphs, preformatted, table
from sfumato.plan.caveats import contains_warning, without_coverage_note
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Column, Reference, Result
from sfumato.plots.answers import Buckets, GroupColumn, draw_answer
from sfumato.plots.frame import ChartData, Interval
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers import answer_columns
from sfumato.release.answers.answer_columns import (
    are_typed_or_null,
    basis_columns,
    cell_values,
    interval_end_columns,
    interval_list,
    suffixed_columns,
    typed_column,
)
from sfumato.release.answers.answer_pages import save_answer
from sfumato.release.answers.answer_pictures import (
    HALF,
    MARK,
    BucketKey,
    altair_bar_chart,
    bucket_keys,
    caption_lines,
    is_too_noisy,
    key_column,
    mark_notes,
    parse_buckets,
    parse_noise_limit,
    too_noisy_mark_note,
    wrap_notes,
)
from sfumato.release.answers.formatting import (
    draw_text_bars,
    format_bounds_and_estimate,
    format_for_file,
    format_half_width,
    format_with_ends,
    format_with_half_width,
    round_outward,
    separator_format,
)
from sfumato.release.answers.receipts import PREVIEW_NOTE, Receipt
from sfumato.release.noisy_rows.finishing import FinishedRows
from sfumato.release.noisy_rows.noisy_columns import ExactColumn, NumberColumn
from sfumato.release.noisy_rows.window_functions import RANK_NOTE
from sfumato.untrusted import escape_for_spreadsheet, escape_unprintable

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from sfumato.release.answers.web_pages import HtmlPage


_MAX_PRINTED_ROWS = 40
_MAX_JSON_LENGTH = 1 << 30
"""The most characters of an answer's JSON text; the largest answer has fewer."""
_TOO_SMALL_TEXT = "too small to tell"
MEASURED, BOUNDED, HYPOTHESIS, BOUGHT, UNVERIFIED = BASES = (
    "measured",
    "bounded",
    "hypothesis",
    "bought now",
    "unverified",
)
_MODEL_BASES = (BOUNDED, HYPOTHESIS, UNVERIFIED)
"""Bases whose interval is not centred at the number, which comes from a model."""


@codec.serialisable("answer")
@dataclass(frozen=True)
class Answer:
    """Noisy rows as released; an interval covers the exact number after contribution limits and clamping."""

    columns: tuple[str, ...]
    types: tuple[Type, ...]
    """The type of each column: integer, real, text, boolean, date or timestamp."""
    rows: tuple[tuple[Any, ...], ...]
    intervals: Mapping[str, tuple[Interval, ...]] = field(metadata=codec.MAPPING)
    """For every column of numbers: (low, high) for each row, at the receipt's confidence."""
    keys: tuple[str, ...]
    """The columns that are group keys."""
    receipt: Receipt
    warnings: tuple[str, ...]
    """What the answer may miss because it is not declared, and why its price is a weak guarantee where it is."""
    possible: Mapping[str, tuple[float, float]] = field(default_factory=dict, metadata=codec.MAPPING)
    """For a column of means, the range of possible values, whatever the data."""
    ranks: Mapping[str, float] = field(default_factory=dict, metadata=codec.MAPPING)
    """For a column of quantiles, the rank error: the most rows between a number and the exact quantile."""
    basis: Mapping[str, tuple[str, ...]] | None = field(default=None, metadata=codec.MAPPING)
    """For an answer from a synopsis, the basis of each number: measured, or bounded with a model's number inside."""
    chosen: Mapping[str, str] = field(default_factory=dict, metadata=codec.MAPPING)
    """For a column of selected values, a note on how good the selection is."""
    sampling: Mapping[str, tuple[float | None, ...]] | None = field(default=None, metadata=codec.MAPPING)
    """Where the rows are a sample, the approximate sampling error of each number (``answer_columns``)."""
    above: str = ""
    """Numbers are marked as too noisy where their interval extends further than this fraction of them; empty marks
    none."""
    buckets: tuple[BucketKey, ...] = ()
    """The key columns of WIDTH_BUCKET, each with the low end, the high end and the number of its buckets."""
    caveats: Mapping[str, str] | None = field(default=None, metadata=codec.MAPPING)
    """For a column that limits, bounds or undeclared values can move, a line that names them: no ± covers this."""
    advice: str = cast("str", LazyText())
    """Where half of a column's numbers are too noisy to rely on, the change of the question that helps most."""

    def __post_init__(self) -> None:
        """Validate every field, and restore the types of values read from JSON."""
        codec.check_simple_fields(self)
        _require(len(set(self.columns)) == len(self.columns), "columns", self.columns, "a list of different names")
        _require(set(self.keys) <= set(self.columns), "keys", self.keys, "a list of names of the answer's columns")
        _require(isinstance(self.receipt, Receipt), "receipt", self.receipt, "a Receipt, such as answer.receipt")
        types = tuple(map(Type.of, self.types))
        _require(len(types) == len(self.columns), "types", self.types, "a list with one type for each column")
        object.__setattr__(self, "types", types)
        object.__setattr__(self, "rows", _typed_rows(self.columns, types, self.rows))
        object.__setattr__(self, "intervals", self._parse_intervals())
        object.__setattr__(self, "possible", self._parse_possible())
        object.__setattr__(self, "ranks", self._parse_ranks())
        object.__setattr__(self, "basis", self._parse_basis())
        object.__setattr__(self, "chosen", self._parse_column_notes("chosen"))
        object.__setattr__(self, "caveats", self._parse_column_notes("caveats") if self.caveats else None)
        object.__setattr__(self, "sampling", self._parse_sampling())
        if self.above:
            parse_noise_limit(self.above)
        object.__setattr__(self, "buckets", parse_buckets(self.buckets, self.keys))
        weak_reasons = tuple(reason for reason in self.receipt.weak if reason not in self.warnings)
        object.__setattr__(self, "warnings", (*weak_reasons, *self.warnings))

    @property
    def is_preview(self) -> bool:
        """Whether the numbers are invented from the policy alone: nothing was read, charged or stored."""
        return self.receipt.is_preview

    def _parse_sampling(self) -> dict[str, tuple[float | None, ...]] | None:
        if self.sampling is None:
            return None
        names_columns = isinstance(self.sampling, Mapping) and set(self.sampling) <= set(self.intervals)
        _require(names_columns, "sampling", self.sampling, "a mapping from columns with intervals to half-widths")
        for widths in self.sampling.values():
            is_per_row = isinstance(widths, (tuple, list)) and len(widths) == len(self.rows)
            _require(is_per_row, "sampling", widths, "a half-width for each row, or null")
        return {
            name: tuple(None if width is None else codec.parse_float(width, "sampling") for width in widths)
            for name, widths in self.sampling.items()
        }

    def _parse_column_notes(self, field_name: str) -> dict[str, str]:
        column_notes = getattr(self, field_name)
        names_columns = isinstance(column_notes, Mapping) and set(column_notes) <= set(self.columns)
        is_valid = names_columns and set(map(type, column_notes.values())) <= {str}
        _require(is_valid, field_name, column_notes, "a mapping from column names to texts")
        return dict(column_notes)

    def _parse_ranks(self) -> dict[str, float]:
        names_columns = isinstance(self.ranks, Mapping) and set(self.ranks) <= set(self.columns)
        _require(names_columns, "ranks", self.ranks, "a mapping from column names to numbers of rows")
        return {name: codec.parse_float(rows, "ranks") for name, rows in self.ranks.items()}

    def _parse_basis(self) -> dict[str, tuple[str, ...]] | None:
        if self.basis is None:
            return None
        names_columns = isinstance(self.basis, Mapping) and set(self.basis) <= set(self.intervals)
        _require(names_columns, "basis", self.basis, "a basis for each row by column name, for columns with intervals")
        for words in self.basis.values():
            is_valid = isinstance(words, (tuple, list)) and len(words) == len(self.rows) and set(words) <= set(BASES)
            _require(is_valid, "basis", words, f"for each row one of {', '.join(BASES)}")
        return {name: tuple(words) for name, words in self.basis.items()}

    def _parse_intervals(self) -> dict[str, tuple[Interval, ...]]:
        numeric_columns = {
            name for name, column_type in zip(self.columns, self.types, strict=True) if column_type.numeric
        }
        names_columns = isinstance(self.intervals, Mapping) and set(self.intervals) <= numeric_columns
        _require(names_columns, "intervals", self.intervals, "intervals by column name, for numeric columns")
        parsed = {name: _parse_interval_list(ranges) for name, ranges in self.intervals.items()}
        is_per_row = all(len(ranges) == len(self.rows) for ranges in parsed.values())
        _require(is_per_row, "intervals", self.intervals, "one interval for each row")
        return parsed

    def _parse_possible(self) -> dict[str, tuple[float, float]]:
        names_columns = isinstance(self.possible, Mapping) and set(self.possible) <= set(self.intervals)
        _require(names_columns, "possible", self.possible, "ranges by column name, for columns with intervals")
        return {name: _parse_interval(ends) for name, ends in self.possible.items()}

    def column(self, name: str) -> list[Any]:
        """Return the cells of one column, in the order of the rows."""
        if name not in self.columns:
            close_matches = get_close_matches(str(name), self.columns, 1)
            allowed = "one of the answer's columns: " + ", ".join(self.columns)
            raise InvalidParameter(
                "column", name, allowed, fix=f"did you mean {close_matches[0]}?" if close_matches else ""
            )
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def cells(self, most: int | None = None) -> list[list[str]]:
        """Return the rows as text: each number with ± its half-width and only its significant digits."""
        return [
            [self._format_cell(name, index, value) for name, value in zip(self.columns, row, strict=True)]
            for index, row in enumerate(self.rows[:most])
        ]

    def _format_cell(self, name: str, index: int, value: Any) -> str:
        text = self._format_number(name, index, value)
        sampling_width = self.sampling[name][index] if self.sampling and name in self.sampling else None
        text += "" if sampling_width is None or value is None else f" (sampling ± {format_half_width(sampling_width)})"
        flagged = self.above and name in self.intervals and self._is_too_noisy(name, index, value, Fraction(self.above))
        return f"{text} {MARK}" if flagged else text

    def _is_too_noisy(self, name: str, index: int, value: Any, above: Fraction) -> bool:
        return is_too_noisy(value, self.intervals[name][index], above)

    def with_clipped(self, propose: Callable[[], Any]) -> Answer:
        """Attach what proposes to count what was cut; an answer that is read from a file has none."""
        object.__setattr__(self, "_propose_clipped", propose)
        return self

    def clipped(self) -> Any:
        """Propose to count what limits and bounds cut from this answer (``Question.clipped``). Free."""
        propose = self.__dict__.get("_propose_clipped")
        if propose is None:
            rule = "as release() returned it: clipped() cannot count for an answer that was changed or read from a file"
            saved = ValueWords(f"a changed or saved answer to {shorten(self.receipt.question)}")
            raise InvalidParameter("answer", saved, rule, fix="use curator.sql(…).clipped() instead")
        return propose()

    def with_tests(self, run: Callable[..., Any] | None) -> Answer:
        """Attach what runs a test on the noisy totals behind the answer; one that is read from a file has none."""
        if run is not None:
            object.__setattr__(self, "_run_test", run)
        return self

    @property
    def run_test(self) -> Callable[..., Any] | None:
        """What was attached by ``with_tests``."""
        return self.__dict__.get("_run_test")

    def test(self, test: str, column: str | None = None, **options: Any) -> Any:
        """Test a hypothesis on the noisy numbers: independence, fit, difference, anova, trend, correlation or share.
        Free: it is post-processing, and the p-value accounts for the noise (``inference.hypothesis_tests``).
        """
        if self.run_test is None:
            rule = "as release() returned it: an answer read from a file lacks the distribution of its noise"
            saved = ValueWords(f"a saved answer to {shorten(self.receipt.question)}")
            raise InvalidParameter("answer", saved, rule, fix="ask its question again (free), or use curator.test(…)")
        return self.run_test(test, column=column, **options)

    def forget_question(self) -> None:
        """Write the advice and let go of the question, as an answer that is read from a file has none."""
        self.advice  # noqa: B018
        self.__dict__.pop("_propose_clipped", None)
        self.__dict__.pop("_run_test", None)

    def changed(self, **changes: Any) -> Answer:
        """Return the answer with other fields; it still proposes to count what was cut, and can be tested."""
        changed = replace_keeping_lazy("advice", self, changes).with_tests(self.run_test)
        propose = self.__dict__.get("_propose_clipped")
        return changed if propose is None else changed.with_clipped(propose)

    def noisy_numbers(self) -> dict[str, int]:
        """Count the numbers of each noisy column that are too noisy to rely on, or have no range at all."""
        noisy: dict[str, int] = {}
        for name, intervals in self.intervals.items():
            if any(interval is None or interval[0] < interval[1] for interval in intervals):
                flags = zip(self.column(name), self._too_noisy_flags(name), intervals, strict=True)
                noisy[name] = sum(flag or value is None or interval is None for value, flag, interval in flags)
        return noisy

    def flagged(self, above: Number = HALF) -> Answer:
        """Flag numbers with an interval wider to one side than this fraction of them; pictures mark them anyway."""
        return self.changed(above=parse_noise_limit(above))

    def _format_number(self, name: str, index: int, value: Any) -> str:
        interval = self.intervals[name][index] if name in self.intervals else None
        format_digits = separator_format(self.possible.get(name))
        if interval is not None and self._rests_on_model(name, index):
            return format_bounds_and_estimate(value, interval, format_digits)
        is_uninformative = self._is_uninformative(name, index)
        if name not in self.ranks:
            return _TOO_SMALL_TEXT if is_uninformative else format_with_half_width(value, interval, format_digits)
        return format_with_ends(value, None if is_uninformative else interval, format_digits)

    def _rests_on_model(self, name: str, index: int) -> bool:
        return self.basis is not None and name in self.basis and self.basis[name][index] in _MODEL_BASES

    def _is_uninformative(self, name: str, index: int) -> bool:
        """Return whether a mean belongs to a group so small that its interval is the whole possible range."""
        if name not in self.possible:
            return False
        interval, (low, high) = self.intervals[name][index], self.possible[name]
        return interval is None or (interval[0] <= low and interval[1] >= high)

    def nonnegative(self) -> Answer:
        """Clip every number at zero: free post-processing, and no longer unbiased.

        The interval moves up with a clipped number, so that it reaches as far above it as the noise may.
        """
        numeric_columns = {self.columns.index(name) for name in self.intervals}
        rows = tuple(
            tuple(
                max(0, cell) if index in numeric_columns and cell is not None else cell
                for index, cell in enumerate(row)
            )
            for row in self.rows
        )
        clipped_intervals = {
            name: tuple(map(_clip_at_zero, self.column(name), ranges)) for name, ranges in self.intervals.items()
        }
        return self.changed(rows=rows, intervals=clipped_intervals)

    def with_sampling_error(self, query: Query, rows: int, share: Fraction, confidence: Number) -> Answer:
        """Add the sampling errors of a sample of this share of the population, of at most ``rows`` rows per group and
        unit.
        """
        values = {name: self.column(name) for name in self.intervals}
        widths = answer_columns.sampling_half_widths(
            query, values, self.intervals, max_rows_per_unit=rows, sampled_share=share, confidence=confidence
        )
        return self.changed(sampling=widths)

    def to_arrow(self, *, ranges: bool = True) -> pyarrow.Table:
        """Return a pyarrow table, with two more columns for the interval of each number.

        Arrow types follow the columns' types, not the cells: integers have 64 bits, or are decimals where one is wider.
        """
        import pyarrow

        column_types = dict(zip(self.columns, self.types, strict=True))
        columns = self._export_columns(ranges)
        basis_types = dict.fromkeys(basis_columns(self.columns, self.basis), Type.TEXT)
        column_types = basis_types | column_types
        arrow_table = pyarrow.table(
            {name: _arrow_array(column_types.get(name, Type.REAL), cells) for name, cells in columns.items()}
        )
        return arrow_table.replace_schema_metadata({"sfumato": PREVIEW_NOTE}) if self.is_preview else arrow_table

    def to_pandas(self, *, ranges: bool = True) -> pandas.DataFrame:
        """Return the same as ``to_arrow``, as a pandas data frame, with the terms of the answer in its ``attrs``."""
        frame = _import_library("pandas").DataFrame(self._export_columns(ranges))
        facts = {"caveats": self.caveat_lines(), "warnings": list(self.warnings)}
        frame.attrs["sfumato"] = {**self.receipt.terms(), **facts}
        return frame

    def to_polars(self, *, ranges: bool = True) -> polars.DataFrame:
        """Return the same as ``to_arrow``, as a Polars data frame."""
        return _import_library("polars").DataFrame(self._export_columns(ranges))

    def _export_columns(self, ranges: bool) -> dict[str, list[Any]]:
        """Return every column by name, with the columns of interval ends."""
        value_columns = {name: self.column(name) for name in self.columns}
        if not ranges:
            return value_columns
        extra_columns = interval_end_columns(self.columns, self.intervals) | basis_columns(self.columns, self.basis)
        return value_columns | extra_columns | suffixed_columns(self.columns, "sampling", self.sampling or {})

    def to_json(self) -> str:
        """Serialize rows, types, intervals and receipt as JSON: dates in ISO 8601, an infinite end as "Infinity"."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Answer:
        """Parse what ``to_json`` wrote, into an equal answer. Any other text is refused."""
        return codec.loads_as(cls, source, longest=_MAX_JSON_LENGTH)

    def save(self, path: str | os.PathLike[str], *, excel: bool = False, separator: str = ",") -> None:
        """Write a .csv, .json or .parquet file.

        ``excel`` writes CSV that spreadsheets read; use ``separator=";"`` where they expect decimal commas.
        """
        save_answer(self, path, excel=excel, separator=separator)

    def to_csv(self, *, separator: str = ",") -> str:
        """Return the rows as CSV, with two more columns for the interval of each number, rounded outward.

        Text that a spreadsheet would evaluate starts with an apostrophe. ``separator=";"`` writes decimal commas.
        """
        if separator not in (",", ";", "\t"):
            raise InvalidParameter("separator", separator, "a comma, a semicolon or a tab", fix='write separator=";"')
        rounded_intervals = {
            name: tuple(interval and round_outward(interval) for interval in intervals)
            for name, intervals in self.intervals.items()
        }
        extra_columns: dict[str, list[Any]] = {
            **interval_end_columns(self.columns, rounded_intervals),
            **basis_columns(self.columns, self.basis),
        }
        extra_columns |= suffixed_columns(self.columns, "sampling", self.sampling or {})
        columns = [
            [_csv_cell(value, name not in self.intervals) for value in self.column(name)] for name in self.columns
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n", delimiter=separator)
        writer.writerow([escape_for_spreadsheet(name) for name in (*self.columns, *extra_columns)])
        columns += [[_csv_cell(end, as_text=True) for end in cells] for cells in extra_columns.values()]
        if separator == ";":
            is_numeric = [*(kind.numeric for kind in self.types), *(True for _ in extra_columns)]
            columns = [
                [str(value).replace(".", ",") for value in column] if is_number else column
                for column, is_number in zip(columns, is_numeric, strict=True)
            ]
        writer.writerows(zip(*columns, strict=True))
        return f"# {PREVIEW_NOTE}\n{out.getvalue()}" if self.is_preview else out.getvalue()

    def bars(self, column: str, width: int = 50) -> str:
        """Draw text bars with their intervals."""
        chart = draw_text_bars(self.chart_data(column), width)
        return f"{PREVIEW_NOTE}\n{chart}" if self.is_preview else chart

    def plot(self, path: str | None = None) -> Picture:
        """Draw the answer: bars for few groups, lines with bands for dates and ordered keys, a heat map for two keys.

        Bins are drawn as a histogram. The picture shows itself in a notebook; with a path (.svg, .png, .html) it is
        also saved.
        """
        charts = self._chart_data_of_numeric_columns()
        return save_if_path(
            draw_answer(
                charts,
                self._chart_keys(),
                caption_lines(self.receipt),
                [*mark_notes(charts, self.above), *self._describe_ranks(), *wrap_notes(self.caveat_lines())],
            ),
            path,
        )

    def report(self, path: str | os.PathLike[str] | None = None, *, questions: bool = False) -> HtmlPage:
        """Render the answer as one self-contained web page; with a path (.html) it is also saved.

        It states who is protected, the numbers with intervals and a picture, the price, and an attacker's largest gain.
        The question and its column and group names are on the page only with ``questions``: they may name a person.
        """
        from sfumato.release.answers.answer_pages import answer_page

        page = answer_page(self, questions=questions)
        if path is not None:
            page.save(path)
        return page

    def to_altair(self) -> Any:
        """Return bars with their intervals as an Altair chart."""
        return altair_bar_chart(self._chart_data_of_numeric_columns())

    def _chart_data_of_numeric_columns(self) -> list[ChartData]:
        return [self.chart_data(name) for name in self.columns if name in self.intervals]

    def _chart_keys(self) -> list[GroupColumn]:
        buckets = {name: Buckets(low, high, count) for name, low, high, count in self.buckets}
        names = [name for name in self.columns if name in self.keys]
        return [key_column(name, self.column(name), buckets.get(name)) for name in names]

    def chart_data(self, column: str) -> ChartData:
        """Return one numeric column as chart data."""
        if column not in self.intervals:
            raise InvalidParameter("column", column, "one of the numeric columns: " + ", ".join(self.intervals))
        column_index, text_cells = self.columns.index(column), self.cells()
        key_indices = [self.columns.index(key) for key in self.keys]
        return ChartData(
            f"{escape_unprintable(column)} (preview)" if self.is_preview else escape_unprintable(column),
            " · ".join(map(escape_unprintable, self.keys)),
            tuple(" · ".join(row[index] for index in key_indices) or "all" for row in text_cells),
            tuple(self.column(column)),
            self._chart_intervals(column),
            tuple(row[column_index] for row in text_cells),
            self._too_noisy_flags(column),
            (self.sampling or {}).get(column, ()),
        )

    def _chart_intervals(self, column: str) -> tuple[Interval, ...]:
        """Return the intervals to draw: a quantile known by its rank alone has none, as in the table."""
        intervals = self.intervals[column]
        if column not in self.ranks:
            return intervals
        return tuple(
            None if self._is_uninformative(column, row) else interval for row, interval in enumerate(intervals)
        )

    def _too_noisy_flags(self, column: str) -> tuple[bool, ...]:
        above = Fraction(self.above) if self.above else HALF
        return tuple(self._is_too_noisy(column, row, value, above) for row, value in enumerate(self.column(column)))

    def __repr__(self) -> str:
        unsaid = (warning for warning in self.warnings if warning not in self.receipt.weak)  # the receipt says those
        return "\n".join([format_as_table(self), "", *(f"warning: {warning}" for warning in unsaid), str(self.receipt)])

    def _describe_ranks(self) -> list[str]:
        confidence = f"with {format_percent(self.receipt.confidence)} confidence"
        return [
            f"{escape_unprintable(name)}: within {rows:,.0f} rows of its rank {confidence}"
            for name, rows in self.ranks.items()
        ]

    def short_receipt(self) -> str:
        """Return the receipt's essential lines; what limits do is said beside the numbers."""
        return self.receipt.short(limits=not self.caveats)

    def caveat_lines(self) -> list[str]:
        """Return what can move the numbers and is not in their ±; columns that share a line are named together."""
        names_by_line: dict[str, list[str]] = {}
        for name, line in (self.caveats or {}).items():
            names_by_line.setdefault(line, []).append(escape_unprintable(name))
        return [f"{', '.join(names)}: {escape_unprintable(line)}" for line, names in names_by_line.items()]

    def ranked(self) -> list[str]:
        """Describe what can move the numbers, the rank error of quantiles, the quality of selected values, and what
        marks mean.
        """
        selection_notes = (
            f"{escape_unprintable(name)}: {escape_unprintable(note)}" for name, note in self.chosen.items()
        )
        sampling_notes = [answer_columns.CAVEAT] if self.sampling else []
        has_marks = self.above and any(any(self._too_noisy_flags(name)) for name in self.intervals)
        mark_notes = [too_noisy_mark_note(Fraction(self.above))] if has_marks else []
        return [
            *([PREVIEW_NOTE] if self.is_preview else []),
            *self.caveat_lines(),
            *self._describe_ranks(),
            *selection_notes,
            *sampling_notes,
            *mark_notes,
            *([escape_unprintable(self.advice)] if self.advice else []),
        ]

    def _repr_html_(self) -> str:
        rows = table(self.columns, self.cells(_MAX_PRINTED_ROWS), self.intervals)
        note_paragraphs = paragraphs((*_hidden_rows_note(self), *self.ranked(), *self.warnings))
        return (
            rows
            + note_paragraphs
            + preformatted(self.short_receipt())
            + collapsed("receipt", preformatted(str(self.receipt)))
        )


def build_answer(
    query: Query,
    finished: FinishedRows,
    receipt: Receipt,
    warnings: tuple[str, ...] = (),
    ranks: Mapping[str, float] = MappingProxyType({}),
    chosen: Mapping[str, str] = MappingProxyType({}),
    caveats: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    """Build the answer of finished noisy rows, with rank errors, notes on selected values and caveats by column."""
    names = tuple(output.name for output in query.outputs)
    types = tuple(output.expression.domain.type for output in query.outputs)
    columns, intervals, keys = [], {}, []
    for output, column in zip(query.outputs, finished.columns, strict=True):
        columns.append(cell_values(column, finished.shown, output.expression.domain.type))
        if isinstance(column, NumberColumn) and column.is_noisy_rank:
            chosen = {**chosen, output.name: RANK_NOTE}
        elif isinstance(column, NumberColumn):
            intervals[output.name] = interval_list(column, finished.shown)
        elif isinstance(column, ExactColumn) and not column.chosen_by_noise:
            keys.append(output.name)
    rows = tuple(zip(*columns, strict=True))
    noisy = [name for name in caveats if name in {*intervals, *chosen, *ranks}]
    noisy_caveats = {
        name: caveats[name] if name in intervals else without_coverage_note(caveats[name]) for name in noisy
    }
    unsaid = tuple(warning for warning in warnings if not contains_warning(noisy_caveats.values(), warning))
    facts = names, types, rows, intervals, tuple(keys), receipt, unsaid, possible_ranges(query), ranks
    return Answer(*facts, chosen=chosen, buckets=tuple(bucket_keys(query)), caveats=noisy_caveats)


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise InvalidParameter(name, value, allowed)


def _typed_rows(names: tuple[str, ...], types: tuple[Type, ...], rows: Any) -> tuple[tuple[Any, ...], ...]:
    """Convert cells to their columns' types; rows are returned unchanged where they have them already."""
    _require(type(rows) is tuple and set(map(type, rows)) <= {tuple}, "rows", rows, "a list of lists of cells")
    _require(set(map(len, rows)) <= {len(names)}, "rows", rows, "a list of rows, each with one cell for each column")
    if all(are_typed_or_null(map(itemgetter(index), rows), kind) for index, kind in enumerate(types)):
        return rows
    typed_columns = [typed_column(*column) for column in zip(zip(*rows, strict=True), types, names, strict=True)]
    return tuple(zip(*typed_columns, strict=True))


def _parse_interval_list(intervals: Any) -> tuple[Interval, ...]:
    """Parse intervals; they are returned unchanged where both ends are floats already, checked without a loop."""
    if type(intervals) is not tuple or not set(map(type, intervals)) <= {tuple, type(None)}:
        raise InvalidParameter("intervals", intervals, "a list of [low, high], with null where there is no number")
    pairs = [interval for interval in intervals if interval is not None]
    ends = list(chain.from_iterable(pairs))
    if set(map(len, pairs)) <= {2} and set(map(type, ends)) <= {float} and not any(map(math.isnan, ends)):
        return intervals
    return tuple(None if interval is None else _parse_interval(interval) for interval in intervals)


def _parse_interval(interval: Any) -> tuple[float, float]:
    if type(interval) is not tuple or len(interval) != 2:
        raise InvalidParameter("intervals", interval, "pairs [low, high], or null where there is no number")
    return codec.parse_float(interval[0], "low"), codec.parse_float(interval[1], "high")


def _arrow_array(column_type: Type, cells: list[Any]) -> pyarrow.Array:
    import pyarrow

    if column_type is Type.INTEGER and any(cell is not None and not -(2**63) <= cell < 2**63 for cell in cells):
        return pyarrow.array([None if cell is None else Decimal(cell) for cell in cells], pyarrow.decimal256(76, 0))
    arrow_types = {
        Type.INTEGER: pyarrow.int64(),
        Type.REAL: pyarrow.float64(),
        Type.TEXT: pyarrow.string(),
        Type.BOOLEAN: pyarrow.bool_(),
        Type.DATE: pyarrow.date32(),
        Type.TIMESTAMP: pyarrow.timestamp("us"),
    }
    return pyarrow.array(cells, arrow_types[column_type])


@once_per_instance
def possible_ranges(query: Query) -> dict[str, tuple[float, float]]:
    """Return the bounds of every output column that is a bounded measure and nothing else."""
    if query.outer:
        return {}
    measure_bounds: dict[Reference, tuple[Fraction, Fraction] | None] = {
        Result(index): measure.possible_range for index, measure in enumerate(query.plan.measures)
    }
    columns = ((output.name, output.expression) for output in query.outputs if isinstance(output.expression, Column))
    ends = ((name, measure_bounds.get(column.reference)) for name, column in columns)
    return {name: (float(end[0]), float(end[1])) for name, end in ends if end is not None and end[0] < end[1]}


def _clip_at_zero(value: Any, interval: Interval) -> Interval:
    """Clip an interval at zero; its upper end moves up with a negative number, so coverage is no lower."""
    if interval is None:
        return None
    low, high = interval
    return max(0.0, low), max(0.0, high - min(0, value or 0))


def _import_library(name: str) -> Any:
    """Import an optional data frame library."""
    try:
        return import_module(name)
    except ImportError:
        raise SfumatoError(f"{name} is not installed", place=f"Answer.to_{name}", fix=install_command(name)) from None


def _csv_cell(value: Any, as_text: bool) -> Any:
    """Format a cell of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, str):
        return escape_for_spreadsheet(value)
    return format_for_file(value) if as_text or not isinstance(value, (int, float)) else value


def format_as_table(answer: Answer) -> str:
    """Format the rows in aligned columns, each number with ± its half-width; quantile rank errors below."""
    lines = [[escape_unprintable(name) for name in answer.columns], *answer.cells(_MAX_PRINTED_ROWS)]
    is_numeric = [name in answer.intervals for name in answer.columns]
    widths = [max(len(line[index]) for line in lines) for index in range(len(answer.columns))]
    text_lines = [
        "  ".join(
            cell.rjust(width) if align_right else cell.ljust(width)
            for cell, width, align_right in zip(line, widths, is_numeric, strict=True)
        ).rstrip()
        for line in lines
    ]
    rule = "  ".join("─" * width for width in widths)
    return "\n".join([text_lines[0], rule, *text_lines[1:], *_hidden_rows_note(answer), *answer.ranked()])


def _hidden_rows_note(answer: Answer) -> list[str]:
    return [f"… {len(answer.rows) - _MAX_PRINTED_ROWS:,} more rows"] if len(answer.rows) > _MAX_PRINTED_ROWS else []
