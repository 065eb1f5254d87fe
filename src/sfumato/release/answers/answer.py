"""An answer holds noisy rows, the range of each number, and the receipt.

Answers to several questions are put below each other, as one: a table that other programs read.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from importlib import import_module
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, SfumatoError, installing
from sfumato.notebook_html import folded, paragraphs, preformatted, table
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Column, Reference, Result
from sfumato.plots.answers import GroupColumn, draw
from sfumato.plots.picture import Picture, saved
from sfumato.plots.scales import ChartData, Interval
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, percent
from sfumato.release.answers import sampling_errors
from sfumato.release.answers.answer_columns import is_typed, typed_column
from sfumato.release.answers.answer_pages import save
from sfumato.release.answers.answer_pictures import (
    HALF,
    MARK,
    bar_chart,
    explained,
    foot,
    keyed,
    notes,
    threshold,
    too_noisy,
)
from sfumato.release.answers.formatting import bars, between, bounded, cell, outward, pointed, short_width, stored
from sfumato.release.answers.receipts import REHEARSED, Receipt
from sfumato.release.noisy_rows.finishing import Finished
from sfumato.release.noisy_rows.noisy_columns import Keys, Numbers, TruthColumn
from sfumato.untrusted import defused, printable

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from sfumato.release.answers.web_pages import HtmlPage


_SHOWN = 40
_LONGEST = 1 << 30
"""Letters of an answer's JSON text: more than the largest answer has."""
_SMALL = "too small to tell"
MEASURED, BOUNDED, HYPOTHESIS, BOUGHT, UNVERIFIED = BASES = (
    "measured",
    "bounded",
    "hypothesis",
    "bought now",
    "unverified",
)
_BETWEEN = (BOUNDED, HYPOTHESIS, UNVERIFIED)
"""Of such numbers the range is not around the number, which is a model's."""


@codec.value("answer")
@dataclass(frozen=True)
class Answer:
    """An answer holds noisy rows as they were released; a range holds the exact number, after limits and clamping."""

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
    """What the answer may miss because nobody declared it, and why its price promises little where it does."""
    possible: Mapping[str, tuple[float, float]] = field(default_factory=dict, metadata=codec.MAPPING)
    """For a column of means, the range it lies in whatever the data hold."""
    ranks: Mapping[str, float] = field(default_factory=dict, metadata=codec.MAPPING)
    """For a column of quantiles, how many rows lie at most between a number and what it stands for."""
    basis: Mapping[str, tuple[str, ...]] | None = field(default=None, metadata=codec.MAPPING)
    """Where a synopsis answers, what each number rests on: measured, or bounded, with a model's number inside."""
    chosen: Mapping[str, str] = field(default_factory=dict, metadata=codec.MAPPING)
    """For a column of values that were chosen, how good the choice is, in words."""
    sampling: Mapping[str, tuple[float | None, ...]] | None = field(default=None, metadata=codec.MAPPING)
    """Where the rows are a sample, how far each number may be off for that, about (``sampling_errors``)."""
    above: str = ""
    """A number is marked as too noisy where its range reaches further than this part of it; empty marks none."""

    def __post_init__(self) -> None:
        """Everything is what it says, and what was read from JSON has its types again."""
        codec.check_fields(self)
        _require(len(set(self.columns)) == len(self.columns), "columns", self.columns, "names that differ")
        _require(set(self.keys) <= set(self.columns), "keys", self.keys, "names of columns")
        _require(isinstance(self.receipt, Receipt), "receipt", self.receipt, "a receipt")
        kinds = tuple(map(Type.of, self.types))
        _require(len(kinds) == len(self.columns), "types", self.types, "one for each column")
        object.__setattr__(self, "types", kinds)
        object.__setattr__(self, "rows", _typed_rows(self.columns, kinds, self.rows))
        object.__setattr__(self, "intervals", self._read_intervals())
        object.__setattr__(self, "possible", self._read_possible())
        object.__setattr__(self, "ranks", self._read_ranks())
        object.__setattr__(self, "basis", self._read_basis())
        known = isinstance(self.chosen, Mapping) and set(self.chosen) <= set(self.columns)
        told = known and set(map(type, self.chosen.values())) <= {str}
        _require(told, "chosen", self.chosen, "sentences by the names of columns")
        object.__setattr__(self, "chosen", dict(self.chosen))
        object.__setattr__(self, "sampling", self._read_sampling())
        if self.above:
            threshold(self.above)
        said = tuple(each for each in self.receipt.weak if each not in self.warnings)
        object.__setattr__(self, "warnings", (*said, *self.warnings))

    @property
    def rehearsed(self) -> bool:
        """Return whether its numbers are invented, from the policy alone: nothing was read, charged or written down."""
        return self.receipt.rehearsed

    def _read_sampling(self) -> dict[str, tuple[float | None, ...]] | None:
        if self.sampling is None:
            return None
        known = isinstance(self.sampling, Mapping) and set(self.sampling) <= set(self.intervals)
        _require(known, "sampling", self.sampling, "half-widths by the names of columns with intervals")
        for each in self.sampling.values():
            fits = isinstance(each, (tuple, list)) and len(each) == len(self.rows)
            _require(fits, "sampling", each, "a half-width for each row, or null")
        return {
            name: tuple(None if one is None else codec.real(one, "sampling") for one in each)
            for name, each in self.sampling.items()
        }

    def _read_ranks(self) -> dict[str, float]:
        known = isinstance(self.ranks, Mapping) and set(self.ranks) <= set(self.columns)
        _require(known, "ranks", self.ranks, "numbers of rows by the names of columns")
        return {name: codec.real(rows, "ranks") for name, rows in self.ranks.items()}

    def _read_basis(self) -> dict[str, tuple[str, ...]] | None:
        if self.basis is None:
            return None
        known = isinstance(self.basis, Mapping) and set(self.basis) <= set(self.intervals)
        _require(known, "basis", self.basis, "words by the names of columns with intervals")
        for each in self.basis.values():
            stated = isinstance(each, (tuple, list)) and len(each) == len(self.rows) and set(each) <= set(BASES)
            _require(stated, "basis", each, f"for each row one of {', '.join(BASES)}")
        return {name: tuple(each) for name, each in self.basis.items()}

    def _read_intervals(self) -> dict[str, tuple[Interval, ...]]:
        numeric = {name for name, kind in zip(self.columns, self.types, strict=True) if kind.numeric}
        known = isinstance(self.intervals, Mapping) and set(self.intervals) <= numeric
        _require(known, "intervals", self.intervals, "ranges by the names of columns of numbers")
        found = {name: _intervals(ranges) for name, ranges in self.intervals.items()}
        whole = all(len(ranges) == len(self.rows) for ranges in found.values())
        _require(whole, "intervals", self.intervals, "one range for each row")
        return found

    def _read_possible(self) -> dict[str, tuple[float, float]]:
        known = isinstance(self.possible, Mapping) and set(self.possible) <= set(self.intervals)
        _require(known, "possible", self.possible, "ranges by the names of columns with intervals")
        return {name: _pair(ends) for name, ends in self.possible.items()}

    def column(self, name: str) -> list[Any]:
        """Return the cells of one column, in the order of the rows."""
        if name not in self.columns:
            near = get_close_matches(str(name), self.columns, 1)
            known = "a column of the answer: " + ", ".join(self.columns)
            raise InvalidParameter("column", name, known, fix=f"did you mean {near[0]}?" if near else "")
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def cells(self, most: int | None = None) -> list[list[str]]:
        """Return the rows as text, each number with ± its half-width and no more digits than that leaves meaningful."""
        return [
            [self._cell(name, index, value) for name, value in zip(self.columns, row, strict=True)]
            for index, row in enumerate(self.rows[:most])
        ]

    def _cell(self, name: str, index: int, value: Any) -> str:
        shown = self._number(name, index, value)
        sampled = self.sampling[name][index] if self.sampling and name in self.sampling else None
        shown += "" if sampled is None or value is None else f" (sampling ± {short_width(sampled)})"
        marked = self.above and name in self.intervals and self._is_noisy(name, index, value, Fraction(self.above))
        return f"{shown} {MARK}" if marked else shown

    def _is_noisy(self, name: str, index: int, value: Any, above: Fraction) -> bool:
        return too_noisy(value, self.intervals[name][index], above)

    def flagged(self, above: Number = HALF) -> Answer:
        """Mark every number whose range reaches further to one side than this part of it: too noisy to print.

        Half of the number is the usual limit: of 100 ± 51 it is passed. Pictures mark such numbers in any case.
        """
        return replace(self, above=threshold(above))

    def _number(self, name: str, index: int, value: Any) -> str:
        interval, point = (
            self.intervals[name][index] if name in self.intervals else None,
            pointed(self.possible.get(name)),
        )
        if interval is not None and self._is_bounded(name, index):
            return bounded(value, interval, point)
        if name not in self.ranks:
            return _SMALL if self._tells_nothing(name, index) else cell(value, interval, point)
        return between(value, None if self._tells_nothing(name, index) else interval, point)

    def _is_bounded(self, name: str, index: int) -> bool:
        return self.basis is not None and name in self.basis and self.basis[name][index] in _BETWEEN

    def _tells_nothing(self, name: str, index: int) -> bool:
        """Return whether a mean is of a group so small that its range is all that is possible."""
        if name not in self.possible:
            return False
        interval, (low, high) = self.intervals[name][index], self.possible[name]
        return interval is None or (interval[0] <= low and interval[1] >= high)

    def nonnegative(self) -> Answer:
        """Show every number below zero as zero: this is free, and no longer unbiased. Its range moves up with it, so
        that it stays as far above as noise may be.
        """
        numeric = {self.columns.index(name) for name in self.intervals}
        rows = tuple(
            tuple(max(0, cell) if index in numeric and cell is not None else cell for index, cell in enumerate(row))
            for row in self.rows
        )
        cut = {name: tuple(map(_at_least_zero, self.column(name), ranges)) for name, ranges in self.intervals.items()}
        return replace(self, rows=rows, intervals=cut)

    def to_arrow(self, *, ranges: bool = True) -> pyarrow.Table:
        """Return a table with a column for each column, and two more for the range of each number.

        Types are those of the columns, whatever the cells are: whole numbers have 64 bits, or are decimals where one of
        them is larger.
        """
        import pyarrow

        kinds = dict(zip(self.columns, self.types, strict=True))
        columns = self._columns(ranges)
        stated = dict.fromkeys(_stated(self.columns, self.basis), Type.TEXT)
        kinds = stated | kinds
        made = pyarrow.table({name: _arrow(kinds.get(name, Type.REAL), cells) for name, cells in columns.items()})
        return made.replace_schema_metadata({"sfumato": REHEARSED}) if self.rehearsed else made

    def to_pandas(self, *, ranges: bool = True) -> pandas.DataFrame:
        """Return the same as ``to_arrow``, as a data frame."""
        frame = _frames("pandas").DataFrame(self._columns(ranges))
        if self.rehearsed:
            frame.attrs["sfumato"] = REHEARSED
        return frame

    def to_polars(self, *, ranges: bool = True) -> polars.DataFrame:
        """Return the same as ``to_arrow``, as a data frame."""
        return _frames("polars").DataFrame(self._columns(ranges))

    def _columns(self, ranges: bool) -> dict[str, list[Any]]:
        """Return every column by its name, and the ends of ranges."""
        found = {name: self.column(name) for name in self.columns}
        if not ranges:
            return found
        more = _ends(self.columns, self.intervals) | _stated(self.columns, self.basis)
        return found | more | _named(self.columns, "sampling", self.sampling or {})

    def to_json(self) -> str:
        """Write rows, types, ranges and receipt as one text: dates as in ISO 8601, an infinite end as "Infinity"."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Answer:
        """Read back what ``to_json`` wrote: an equal answer, with dates that are dates. Any other text is refused."""
        return codec.loads_as(cls, source, longest=_LONGEST)

    def save(self, path: str | os.PathLike[str], *, excel: bool = False, separator: str = ",") -> None:
        """Write a file that ends in .csv, .json or .parquet; ``excel`` makes a CSV file one that spreadsheets read,
        with ``separator=";"`` where they expect decimal commas.
        """
        save(self, path, excel=excel, separator=separator)

    def to_csv(self, *, separator: str = ",") -> str:
        """Write rows, with two columns more for the range of each number, of no more digits than it means. Texts that a
        spreadsheet would compute begin with an apostrophe. With ``separator=";"`` numbers have decimal commas.
        """
        if separator not in (",", ";", "\t"):
            raise InvalidParameter("separator", separator, "a comma, a semicolon or a tab")
        short = {name: tuple(each and outward(each) for each in found) for name, found in self.intervals.items()}
        ends: dict[str, list[Any]] = {**_ends(self.columns, short), **_stated(self.columns, self.basis)}
        ends |= _named(self.columns, "sampling", self.sampling or {})
        columns = [
            [_written(value, name not in self.intervals) for value in self.column(name)] for name in self.columns
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n", delimiter=separator)
        writer.writerow([defused(name) for name in (*self.columns, *ends)])
        columns += [[_written(end, is_key=True) for end in found] for found in ends.values()]
        if separator == ";":
            numeric = [*(kind.numeric for kind in self.types), *(True for _ in ends)]
            columns = [
                [str(value).replace(".", ",") for value in column] if number else column
                for column, number in zip(columns, numeric, strict=True)
            ]
        writer.writerows(zip(*columns, strict=True))
        return f"# {REHEARSED}\n{out.getvalue()}" if self.rehearsed else out.getvalue()

    def bars(self, column: str, width: int = 50) -> str:
        """Draw bars with their ranges, in text."""
        drawn = bars(self.chart_data(column), width)
        return f"{REHEARSED}\n{drawn}" if self.rehearsed else drawn

    def plot(self, path: str | None = None) -> Picture:
        """Draw the answer: bars for a few groups, lines with bands for dates and ordered keys, a heat map for two keys,
        a histogram for bins. The picture shows itself in a notebook; with a path (.svg, .png, .html) it is saved, too.
        """
        charts = self._charts()
        return saved(
            draw(charts, self._drawn_keys(), foot(self.receipt), [*notes(charts, self.above), *self._rank_words()]),
            path,
        )

    def report(self, path: str | os.PathLike[str] | None = None, *, questions: bool = False) -> HtmlPage:
        """Tell the answer as one web page that needs nothing else: who is protected, numbers with ranges and a picture,
        the price, and what an attacker could gain at most. With a path (.html) it is saved, too.

        The question and the names that it gives are on the page only with ``questions``: they may name a person.
        """
        from sfumato.release.answers.answer_pages import answer_page

        page = answer_page(self, questions=questions)
        if path is not None:
            page.save(path)
        return page

    def to_altair(self) -> Any:
        """Return bars with their ranges as an Altair chart, to go on drawing with."""
        return bar_chart(self._charts())

    def _charts(self) -> list[ChartData]:
        return [self.chart_data(name) for name in self.columns if name in self.intervals]

    def _drawn_keys(self) -> list[GroupColumn]:
        return [keyed(name, self.column(name)) for name in self.columns if name in self.keys]

    def chart_data(self, column: str) -> ChartData:
        """Return one column of numbers as it is drawn."""
        if column not in self.intervals:
            raise InvalidParameter("column", column, "a column of numbers: " + ", ".join(self.intervals))
        place, cells = self.columns.index(column), self.cells()
        keys = [self.columns.index(key) for key in self.keys]
        return ChartData(
            f"{printable(column)} (rehearsed)" if self.rehearsed else printable(column),
            " · ".join(map(printable, self.keys)),
            tuple(" · ".join(row[key] for key in keys) or "all" for row in cells),
            tuple(self.column(column)),
            self._drawn_ranges(column),
            tuple(row[place] for row in cells),
            self._noisy(column),
            (self.sampling or {}).get(column, ()),
        )

    def _drawn_ranges(self, column: str) -> tuple[Interval, ...]:
        """Return the ranges that are drawn: a quantile whose rank alone is known has none, as in the table."""
        ranges = self.intervals[column]
        if column not in self.ranks:
            return ranges
        return tuple(None if self._tells_nothing(column, row) else each for row, each in enumerate(ranges))

    def _noisy(self, column: str) -> tuple[bool, ...]:
        above = Fraction(self.above) if self.above else HALF
        return tuple(self._is_noisy(column, row, value, above) for row, value in enumerate(self.column(column)))

    def __repr__(self) -> str:
        said = [f"warning: {each}" for each in self.warnings if each not in self.receipt.weak]  # the receipt says those
        return "\n".join([as_table(self), "", *said, str(self.receipt)])

    def _rank_words(self) -> list[str]:
        sure = f"with {percent(self.receipt.confidence)} confidence"
        return [f"{printable(name)}: within {rows:,.0f} rows of its rank {sure}" for name, rows in self.ranks.items()]

    def ranked(self) -> list[str]:
        """Describe of every column of quantiles how many rows off it may be, of chosen values how good the choice is, and
        what marks mean.
        """
        chosen = (f"{printable(name)}: {printable(said)}" for name, said in self.chosen.items())
        sampled = [sampling_errors.CAVEAT] if self.sampling else []
        marked = [explained(Fraction(self.above))] if self.above else []
        return [*([REHEARSED] if self.rehearsed else []), *self._rank_words(), *chosen, *sampled, *marked]

    def _repr_html_(self) -> str:
        rows = table(self.columns, self.cells(_SHOWN), self.intervals)
        noted = paragraphs((*_more_rows(self), *self.ranked(), *self.warnings))
        return rows + noted + preformatted(self.receipt.short()) + folded("receipt", preformatted(str(self.receipt)))


def answer(query: Query, finished: Finished, receipt: Receipt, warnings: tuple[str, ...] = ()) -> Answer:
    names = tuple(output.name for output in query.outputs)
    types = tuple(output.expression.domain.type for output in query.outputs)
    columns, intervals, keys = [], {}, []
    for output, made in zip(query.outputs, finished.columns, strict=True):
        columns.append(_values(made, finished.shown, output.expression.domain.type))
        if isinstance(made, Numbers):
            intervals[output.name] = _ranges(made, finished.shown)
        elif isinstance(made, Keys) and not made.decided:
            keys.append(output.name)
    rows = tuple(zip(*columns, strict=True))
    return Answer(names, types, rows, intervals, tuple(keys), receipt, warnings, _possible(query))


def _require(holds: bool, name: str, found: object, allowed: str) -> None:
    if not holds:
        raise InvalidParameter(name, found, allowed)


def _typed_rows(names: tuple[str, ...], kinds: tuple[Type, ...], rows: Any) -> tuple[tuple[Any, ...], ...]:
    """Keep the rows where every cell has its column's type already, which is the case unless they were read."""
    _require(type(rows) is tuple and set(map(type, rows)) <= {tuple}, "rows", rows, "a list of lists")
    _require(set(map(len, rows)) <= {len(names)}, "rows", rows, "lists with a cell for each column")
    if all(is_typed(map(itemgetter(index), rows), kind) for index, kind in enumerate(kinds)):
        return rows
    typed = [typed_column(*each) for each in zip(zip(*rows, strict=True), kinds, names, strict=True)]
    return tuple(zip(*typed, strict=True))


def _intervals(found: Any) -> tuple[Interval, ...]:
    """Keep the ranges where both ends of each are numbers already: many of them are looked at without a loop."""
    if type(found) is not tuple or not set(map(type, found)) <= {tuple, type(None)}:
        raise InvalidParameter("intervals", found, "a list of [low, high], or null where there is no number")
    pairs = [each for each in found if each is not None]
    ends = list(chain.from_iterable(pairs))
    if set(map(len, pairs)) <= {2} and set(map(type, ends)) <= {float} and not any(map(math.isnan, ends)):
        return found
    return tuple(None if each is None else _pair(each) for each in found)


def _pair(found: Any) -> tuple[float, float]:
    if type(found) is not tuple or len(found) != 2:
        raise InvalidParameter("intervals", found, "[low, high], or null where there is no number")
    return codec.real(found[0], "low"), codec.real(found[1], "high")


def _arrow(kind: Type, cells: list[Any]) -> pyarrow.Array:
    import pyarrow

    if kind is Type.INTEGER and any(cell is not None and not -(2**63) <= cell < 2**63 for cell in cells):
        return pyarrow.array([None if cell is None else Decimal(cell) for cell in cells], pyarrow.decimal256(76, 0))
    stored = {
        Type.INTEGER: pyarrow.int64(),
        Type.REAL: pyarrow.float64(),
        Type.TEXT: pyarrow.string(),
        Type.BOOLEAN: pyarrow.bool_(),
        Type.DATE: pyarrow.date32(),
        Type.TIMESTAMP: pyarrow.timestamp("us"),
    }
    return pyarrow.array(cells, stored[kind])


def _possible(query: Query) -> dict[str, tuple[float, float]]:
    """Return the bounds of every column that is a result and nothing else, where the result has bounds."""
    if query.outer:
        return {}
    known: dict[Reference, tuple[Fraction, Fraction] | None] = {
        Result(index): each.possible for index, each in enumerate(query.plan.measures)
    }
    columns = ((each.name, each.expression) for each in query.outputs if isinstance(each.expression, Column))
    ends = ((name, known.get(column.reference)) for name, column in columns)
    return {name: (float(end[0]), float(end[1])) for name, end in ends if end is not None and end[0] < end[1]}


def _values(made: Numbers | TruthColumn | Keys, shown: NDArray[np.intp], kind: Type) -> list[Any]:
    if isinstance(made, Keys):
        values = made.value[shown].tolist()
        return [None if value is None else float(value) for value in values] if kind is Type.REAL else values
    if isinstance(made, TruthColumn):
        return [bool(true) if known else None for true, known in zip(made.true[shown], made.known[shown], strict=True)]
    numbers = made.value[shown]
    missing = np.isnan(numbers)
    values = (
        [round(value) for value in numbers[~missing].tolist()] if kind is Type.INTEGER else numbers[~missing].tolist()
    )
    return _with_nulls(values, missing)


def _at_least_zero(value: Any, interval: Interval) -> Interval:
    """Cut a range at zero; the upper end moves up with a number below it, and holds the exact one no less often."""
    if interval is None:
        return None
    low, high = interval
    return max(0.0, low), max(0.0, high - min(0, value or 0))


def _ranges(made: Numbers, shown: NDArray[np.intp]) -> tuple[Interval, ...]:
    missing = np.isnan(made.value[shown])
    low, high = (each[shown][~missing] for each in (made.low, made.high))
    ends = zip(
        np.where(np.isnan(low), -np.inf, low).tolist(),  # an end that cannot be computed is as far as can be
        np.where(np.isnan(high), np.inf, high).tolist(),
        strict=True,
    )
    return tuple(_with_nulls(list(ends), missing))


def _with_nulls(values: list[Any], missing: NDArray[np.bool_]) -> list[Any]:
    """Return the values of what is not missing, and None elsewhere."""
    if not missing.any():
        return values
    known = iter(values)
    return [None if gone else next(known) for gone in missing]


def _ends(columns: tuple[str, ...], intervals: Mapping[str, tuple[Interval, ...]]) -> dict[str, list[float | None]]:
    """Write the ends of ranges as columns under names that no column has."""
    found: dict[str, list[float | None]] = {}
    for name in (each for each in columns if each in intervals):
        for place, end in enumerate(("low", "high")):
            called = f"{name}_{end}"
            while called in columns or called in found:
                called += "_"
            found[called] = [None if each is None else each[place] for each in intervals[name]]
    return found


def _stated(columns: tuple[str, ...], basis: Mapping[str, tuple[str, ...]] | None) -> dict[str, list[Any]]:
    """Write what numbers rest on as columns under names that no column has."""
    return {} if basis is None else _named(columns, "basis", basis)


def _named(columns: tuple[str, ...], what: str, by_column: Mapping[str, tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Write what is said of each number of some columns as columns under names that no column has."""
    found: dict[str, list[Any]] = {}
    for name in (each for each in columns if each in by_column):
        called = f"{name}_{what}"
        while called in columns or called in found:
            called += "_"
        found[called] = list(by_column[name])
    return found


def _frames(name: str) -> Any:
    """Import a library of data frames, which is an extra."""
    try:
        return import_module(name)
    except ImportError:
        raise SfumatoError(f"{name} is not installed", place=f"Answer.to_{name}", fix=installing(name)) from None


def _written(value: Any, is_key: bool) -> Any:
    """Write a cell of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, str):
        return defused(value)
    return stored(value) if is_key or not isinstance(value, (int, float)) else value


def as_table(made: Answer) -> str:
    """Print the rows in aligned columns, each number with ± its half-width; below them how far quantiles may be off."""
    lines = [[printable(name) for name in made.columns], *made.cells(_SHOWN)]
    numeric = [name in made.intervals for name in made.columns]
    widths = [max(len(line[index]) for line in lines) for index in range(len(made.columns))]
    shown = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]
    rule = "  ".join("─" * width for width in widths)
    return "\n".join([shown[0], rule, *shown[1:], *_more_rows(made), *made.ranked()])


def _more_rows(made: Answer) -> list[str]:
    """Describe how many rows are not shown."""
    return [f"… {len(made.rows) - _SHOWN:,} more rows"] if len(made.rows) > _SHOWN else []


MOST_CELLS = 1_000_000
"""Cells of one table, present or missing, that answers are put into: each column of each question may be its own."""


def stacked(names: Sequence[str], answers: Sequence[Answer], receipt: Receipt, warnings: tuple[str, ...]) -> Answer:
    """Put answers below each other, with the name of its question in every row. Columns of one name are one column
    where their types are equal; what a question does not ask is missing in its rows.
    """
    called = _called(names, answers)
    types = {
        column: kind
        for each, own in zip(answers, called, strict=True)
        for column, kind in zip(own.values(), each.types, strict=True)
    }
    cells = len(types) * sum(len(each.rows) for each in answers)
    if cells > MOST_CELLS:
        fix = "name columns of the same meaning alike, or take the answers one by one"
        raise InvalidParameter("answers", f"{cells:,} cells", f"at most {MOST_CELLS:,} cells as one table", fix=fix)
    first = free("question", types)
    rows = []
    intervals: dict[str, list[Interval]] = {column: [] for column in _of(answers, called, "intervals")}
    for name, each, own in zip(names, answers, called, strict=True):
        for place, row in enumerate(each.rows):
            given = dict(zip(own.values(), row, strict=True))
            rows.append((name, *(given.get(column) for column in types)))
            ranges = {own[column]: found[place] for column, found in each.intervals.items()}
            for column, found in intervals.items():
                found.append(ranges.get(column))
    return Answer(
        (first, *types),
        (Type.TEXT, *types.values()),
        tuple(rows),
        {column: tuple(found) for column, found in intervals.items()},
        (first, *_of(answers, called, "keys")),
        receipt,
        warnings,
        _merged(answers, called, "possible"),
        _merged(answers, called, "ranks"),
    )


def free(name: str, taken: Iterable[str]) -> str:
    """Return a name that none of these has."""
    while name in taken:
        name += "_"
    return name


def _called(names: Sequence[str], answers: Sequence[Answer]) -> list[dict[str, str]]:
    """Return how each column of each answer is called beside the others: also by its question, where they differ."""
    known = {column for each in answers for column in each.columns}
    alike = {column for column in known if _is_one(column, answers)}
    found = []
    for name, each in zip(names, answers, strict=True):
        own = {column: column if column in alike else free(f"{name}: {column}", known) for column in each.columns}
        known |= set(own.values())
        found.append(own)
    return found


def _is_one(column: str, answers: Sequence[Answer]) -> bool:
    """Return whether a column means the same wherever it is: of one type, and a number at the same rank, if at any."""
    kinds = {
        (each.types[each.columns.index(column)], each.ranks.get(column), each.possible.get(column))
        for each in answers
        if column in each.columns
    }
    return len(kinds) == 1


def _merged(answers: Sequence[Answer], called: Sequence[Mapping[str, str]], what: str) -> dict[str, Any]:
    """Return what answers say of their columns, under the names that these have here."""
    return {
        own[column]: said
        for each, own in zip(answers, called, strict=True)
        for column, said in getattr(each, what).items()
    }


def _of(answers: Sequence[Answer], called: Sequence[Mapping[str, str]], what: str) -> list[str]:
    """List the columns that are keys of some answer, or have ranges there, once each."""
    found = (own[column] for each, own in zip(answers, called, strict=True) for column in getattr(each, what))
    return list(dict.fromkeys(found))
