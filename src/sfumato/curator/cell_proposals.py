"""Propose how the texts of a column are to be read: its type, and the cell rules that its writing needs. PRIVATE.

A proposal is the choice of one declaration from a fixed family (types, date formats, decimal and thousands
separators, currencies, words for truths), by how many of the sampled cells each reads. Cells that look missing
(``USUAL_NULLS``) do not count.

A proposal is *certain*, and may be written unseen (``--yes``), if

- at least 95 % of the cells fit, and a proposal with rules has at least 20 cells;
- no comparable declaration that fits at least half of the cells reads one differently, unless the chosen one fits at
  least 20 cells and 5 % of the cells more, or half of them;
- the rarer of two words for truths is in at least 20 cells and 5 % of them;
- no century is guessed.

A declaration is preferred to an earlier one that fits 95 % only if it fits at least 20 cells and 1 % of the cells more.
So what is written shows how at least 20 cells are written, or half of a column that has fewer than 40; it has no noise,
and a single row decides it where these counts are at a threshold. That 95 % fit is such a threshold: of 20 cells, two
that do not fit leave the column a text. Everything else (ambiguous days and months, markers of missing cells, spellings
of listed values) is decided by fewer rows, so that only the owner who sees it can confirm it.

Name the cell rules that would read the cells a column loses, from the texts of those cells. PRIVATE.

They are proposed as those of a new policy are (``cell_proposals``), for the type that the column declares. The owner,
who sees the texts anyway, decides.

Exact figures about rows that help an owner choose limits and bounds while a policy is drafted. PRIVATE.

They are shown to the owner who allowed the rows to be read, and stored nowhere. A limit or bound is proposed from a
fixed ladder of round numbers and becomes part of the policy only when the owner confirms it: chosen by exact figures,
it tells something of the rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import date
from decimal import Decimal
from itertools import islice
from pathlib import Path
from string import ascii_letters, digits
from typing import Any

from sfumato.engine.inspecting import TriedDeclarations, count_file_cells_outside, open_inspector, sample_texts
from sfumato.errors import InvalidPolicy, SfumatoError
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.policy.cell_rules import CASES, CellRules, upper
from sfumato.policy.toml_files import toml_value
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.quick_dataclass import dataclass

_MIN_ROW_SHARE = 0.99
"""The share of rows that a proposed limit keeps at least."""
_SHARES_BEYOND = (0.1, 0.01, 0.0)
"""The shares of cells that may be beyond the bounds that are shown, half of them on each side."""
_PROPOSED_SHARE_BEYOND = 0.01
_ROUND_NUMBERS = tuple(Decimal(digit).scaleb(power) for power in range(-3, 13) for digit in (1, 2, 5))
_ROUND_YEARS = range(1900, 2105, 5)
Bound = Decimal | date


@dataclass(frozen=True)
class RowSharesWithinLimits:
    """The share of a table's rows that each limit per unit keeps. PRIVATE."""

    share_by_row_limit: Mapping[int, float]

    @property
    def proposed_limit(self) -> int | None:
        """The smallest limit of the ladder that keeps nearly all rows; None if the largest does not."""
        return next((limit for limit, share in self.share_by_row_limit.items() if share >= _MIN_ROW_SHARE), None)


@dataclass(frozen=True)
class BoundsChoice:
    """Round bounds of a column, and the share of its cells beyond them. PRIVATE."""

    low: Bound
    high: Bound
    share_beyond: float

    @property
    def text(self) -> str:
        """The bounds as an owner types them."""
        return f"{_format_bound(self.low)} {_format_bound(self.high)}"


@dataclass(frozen=True)
class BoundsFigures:
    """Round bounds from tight to wide, of which one is proposed. PRIVATE."""

    choices: tuple[BoundsChoice, ...]
    proposed: BoundsChoice


def row_shares_within_limits(tables: Mapping[str, Table], unit: PrivacyUnit) -> dict[str, RowSharesWithinLimits]:
    """Count what limits per unit keep of each private table with units of several rows; {} if a file cannot be read.

    PRIVATE.
    """
    with suppress(SfumatoError), open_inspector(Policy(unit, Budget(1), dict(tables))) as inspector:
        inspections = {name: inspector.inspect(name) for name, table in tables.items() if not table.every_row}
        return {
            name: RowSharesWithinLimits({limit: 1 - lost for limit, lost in inspection.lost_by_row_limit.items()})
            for name, inspection in inspections.items()
            if inspection.units
        }
    return {}


@dataclass(frozen=True)
class UnreadCells:
    """How many cells of a column are not missing, and how many of them a declaration cannot read. PRIVATE."""

    cells: int
    unread: int


def count_unread_cells(table: Table, column: str) -> UnreadCells | None:
    """Count the cells of a column that become missing; None if the file cannot be read. PRIVATE."""
    with suppress(SfumatoError), open_inspector(_single_table_policy(table)) as inspector:
        inspection = inspector.inspect(table.name)
        cost = inspection.columns[column]
        return UnreadCells(round(inspection.rows * (1 - cost.missing)), round(inspection.rows * cost.nulled))
    return None


def _single_table_policy(table: Table) -> Policy:
    return Policy(PrivacyUnit("row", every_row=True), Budget(1), {table.name: table})


def propose_bounds(table: Table, column: str) -> BoundsFigures | None:
    """Propose round bounds of a column of numbers or dates; None if it has no cell or no round number fits. PRIVATE."""
    kind = table.columns[column].type
    ladder = _candidate_round_bounds(kind)
    with suppress(SfumatoError):
        cells, below, above = count_file_cells_outside(
            _single_table_policy(table), table.name, column, [_sql_literal(value) for value in ladder]
        )
        choices = {share: _tightest_bounds(ladder, cells, below, above, share / 2) for share in _SHARES_BEYOND if cells}
        proposed = choices.get(_PROPOSED_SHARE_BEYOND)
        if proposed is not None:
            return BoundsFigures(tuple(dict.fromkeys(choice for choice in choices.values() if choice)), proposed)
    return None


def _candidate_round_bounds(sql_type: Type) -> list[Bound]:
    if sql_type.temporal:
        return [date(year, 1, 1) for year in _ROUND_YEARS]
    numbers = [number for number in _ROUND_NUMBERS if sql_type is Type.REAL or number == number.to_integral_value()]
    return [*(-number for number in reversed(numbers)), Decimal(0), *numbers]


def _tightest_bounds(
    ladder: Sequence[Bound], cells: int, below: Sequence[int], above: Sequence[int], max_share_beyond: float
) -> BoundsChoice | None:
    """Return the tightest bounds of the ladder with at most this share of cells beyond each end."""
    lows = [index for index, count in enumerate(below) if count <= max_share_beyond * cells]
    highs = [index for index, count in enumerate(above) if count <= max_share_beyond * cells]
    if not lows or not highs:
        return None
    low, high = lows[-1], highs[0]
    if low == high:  # nearly all cells have one value, which is on the ladder
        high = min(high + 1, len(ladder) - 1)
        low = high - 1
    low, high = _extend_bounds_to_zero(ladder, low, high)
    return BoundsChoice(ladder[low], ladder[high], (below[low] + above[high]) / cells)


def _extend_bounds_to_zero(ladder: Sequence[Bound], low: int, high: int) -> tuple[int, int]:
    """Begin bounds of numbers at 0 unless that doubles their width: the noise of a sum grows with the larger end."""
    low_end, high_end = ladder[low], ladder[high]
    if isinstance(low_end, date) or isinstance(high_end, date):
        return low, high
    zero = ladder.index(Decimal(0))
    if zero < low and 2 * low_end < high_end:
        return zero, high
    return (low, zero) if high < zero and 2 * high_end > low_end else (low, high)


def _sql_literal(value: Bound) -> str:
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) else _format_bound(value)


def _format_bound(value: Bound) -> str:
    return value.isoformat() if isinstance(value, date) else f"{value:f}"


USUAL_NULLS = ("NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan", "\\N", "?", "-", "--", ".", "")
"""Texts that mostly stand for a missing cell."""
_MIN_SHARE = 0.95
"""The share of cells that a proposed declaration reads at least."""
_MIN_CELLS = 20
"""The fewest cells that make a cell rule certain."""
_MIN_DECIDING = 20
"""The fewest cells that decide between two declarations, or show that a word for a truth is used."""
_MIN_DECIDING_SHARE = 0.05
_MIN_RIVAL_SHARE = 0.5
"""The share of cells that a declaration fits if it casts doubt on another one."""
_MIN_OTHER_ROWS = 3
"""The fewest rows below a line that is taken for a second line of names."""
_TIE = 0.01
"""A declaration that reads at most this share more than an earlier one of the family is not preferred to it."""
_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%B %d %Y", "%B %d, %Y", "%b %d %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%d. %B %Y"),
    *("%a, %d %b %Y", "%Y%m%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%y"),
)
_ISO_DAY = "%Y-%m-%d"
_DIRECTIVES = dict.fromkeys(map(ord, "%YymdbB"))
"""The characters of a format that are not separators."""
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
_SEPARATORS = ((",", ""), (",", "."), (",", " "), ("", ","), ("", " "), ("", "'"), ("", "’"))
"""Decimal and thousands separators; "" is the point, or none."""
_CURRENCIES = ("€", "$", "£", "¥", "₹", "zł", "kr", "CHF", "EUR", "USD", "GBP", "R$")
_TRUTHS = (
    *(("Y", "N"), ("Yes", "No"), ("J", "N"), ("Ja", "Nein"), ("O", "N"), ("Oui", "Non"), ("S", "N"), ("Sí", "No")),
    *(("Sim", "Não"), ("T", "F"), ("V", "F"), ("Vrai", "Faux"), ("Wahr", "Falsch")),
)


@dataclass(frozen=True)
class ProposalThresholds:
    """How many cells a proposal needs."""

    min_share: float
    """The share of cells that it reads at least."""
    min_deciding_cells: int
    """The fewest cells that decide between two declarations."""


UNSEEN = ProposalThresholds(_MIN_SHARE, _MIN_DECIDING)
"""For a proposal that may be written though nobody saw it."""
SEEN = ProposalThresholds(0.5, 1)
"""For a proposal that the owner only reads: the best one, if it reads half of the cells."""


@dataclass(frozen=True)
class CellFormat:
    """A type and the cell rules with which texts are read."""

    type: Type
    rules: CellRules = field(default_factory=CellRules)

    @property
    def declaration(self) -> dict[str, Any]:
        return {"type": self.type.value, **self.rules.keys}

    @property
    def guesses_century(self) -> bool:
        return any("%y" in text for text in self.rules.format)

    def allows_decimal(self, decimal: str) -> bool:
        """Return whether numbers may be read so where the owner gave the decimal separator; a point is the default."""
        has_separators = bool(self.rules.decimal or self.rules.thousands)
        return decimal == "." or not has_separators or self.rules.decimal == decimal

    def is_comparable(self, other: CellFormat) -> bool:
        """Return whether values of both can be compared: two numbers, or two times."""
        return (self.type.numeric and other.type.numeric) or (self.type.temporal and other.type.temporal)


@dataclass(frozen=True)
class CellProposal:
    """A format that nearly all sampled texts of a column fit. PRIVATE until it is certain or confirmed."""

    format: CellFormat
    is_certain: bool
    """Whether it may be written without the owner's confirmation."""
    rivals: tuple[CellFormat, ...] = ()
    """Formats that read some cells differently, and that too few cells decide against."""
    examples: tuple[tuple[str, Any], ...] = ()
    """A few texts with what they are read as."""


def propose_formats(
    sampled: Mapping[str, Sequence[str | None]], *, decimal: str = ".", nulls: Collection[str] = ()
) -> dict[str, CellProposal]:
    """Propose a format for each column of sampled texts that are not just texts; ``decimal`` "," and ``nulls`` are
    known from the owner.

    PRIVATE: it reads rows.
    """
    markers = {*USUAL_NULLS, *nulls}
    samples = {name: _without_markers(_count_texts(texts), markers) for name, texts in sampled.items()}
    return propose_formats_for_texts(samples, decimal)


def frequent_texts_among_numbers(
    sampled: Mapping[str, Sequence[str | None]], nulls: Collection[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return, for each column that is one of numbers but for a few frequent texts, those texts. PRIVATE."""
    texts_by_column = {}
    for name, cells in sampled.items():
        texts = _without_markers(_count_texts(cells), {*USUAL_NULLS, *nulls})
        others = {text: count for text, count in texts.items() if not _NUMBER.fullmatch(text.strip())}
        is_mostly_numbers = sum(others.values()) <= (1 - _MIN_NUMBERS) * sum(texts.values())
        is_plain = all(count >= _MIN_CELLS and "," not in text for text, count in others.items())
        if 0 < len(others) <= _MAX_STOPPING and is_mostly_numbers and is_plain:
            texts_by_column[name] = tuple(sorted(others))
    return texts_by_column


_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")
_MIN_NUMBERS = 0.8
"""The share of numbers from which on other texts are taken for missing cells."""
_MAX_STOPPING = 3


def propose_formats_for_texts(
    samples: Mapping[str, Mapping[str, int]],
    decimal: str = ".",
    *,
    required_type: Type | None = None,
    thresholds: ProposalThresholds = UNSEEN,
) -> dict[str, CellProposal]:
    """Propose a format, of one type if it is known, for the counted texts of each column that are not just texts.

    PRIVATE.
    """
    candidates = {
        name: [
            cell_format
            for cell_format in _dates_as_timestamps_if_required(
                _candidate_formats(texts, thresholds.min_share), required_type
            )
            if cell_format.allows_decimal(decimal) and required_type in (None, cell_format.type)
        ]
        for name, texts in samples.items()
        if texts
    }
    columns = {
        name: (samples[name], [cell_format.declaration for cell_format in cell_formats])
        for name, cell_formats in candidates.items()
        if cell_formats
    }
    if not columns:
        return {}
    with TriedDeclarations(columns) as trials:
        proposals = {
            name: _choose_format(trials, name, samples[name], candidates[name], decimal, thresholds) for name in columns
        }
    return {name: proposal for name, proposal in proposals.items() if proposal is not None}


@dataclass(frozen=True)
class MissingMarkers:
    """The markers of missing cells among sampled cells. PRIVATE."""

    count_by_marker: Mapping[str, int]
    """The cells of each marker, the most frequent first."""
    sampled_cells: int
    """The number of sampled cells that are there."""


def count_missing_markers(source: Path, relation: str | None, columns: Sequence[str]) -> MissingMarkers:
    """Count the markers of missing cells among the sampled texts of columns. PRIVATE."""
    counts: Counter[str] = Counter()
    for texts in sample_texts(source, relation, columns).values():
        counts.update(text.strip(" ") for text in texts if text is not None)
    return MissingMarkers(
        {marker: count for marker, count in counts.most_common() if marker in USUAL_NULLS}, counts.total()
    )


def propose_trim_and_case(
    source: Path, relation: str | None, column: str, values: Sequence[str]
) -> CellProposal | None:
    """Propose to trim texts, or to turn their letters, where that makes more of them listed values. PRIVATE."""
    return propose_trim_and_case_for_texts(
        _count_texts(sample_texts(source, relation, [column]).get(column, [])), values
    )


def propose_trim_and_case_for_texts(texts: Mapping[str, int], values: Sequence[str]) -> CellProposal | None:
    """Propose to trim counted texts, or to turn their letters, where more of them become listed values. PRIVATE."""
    readable_cells = {
        rules: sum(texts[text] for text in texts if rules.fold(text) in folded)
        for rules, folded in _trim_and_case_rules_with_folded_values(values)
    }
    as_stored = sum(texts.get(value, 0) for value in values)
    best = max(readable_cells.values(), default=0)
    if best <= as_stored:
        return None
    chosen = next(rules for rules, readable in readable_cells.items() if readable >= best - _TIE * sum(texts.values()))
    targets = {chosen.fold(value): value for value in values}
    turned = [
        (text, targets[chosen.fold(text)]) for text in texts if text not in values and chosen.fold(text) in targets
    ]
    return CellProposal(CellFormat(Type.TEXT, chosen), is_certain=False, examples=tuple(turned[:3]))


def _trim_and_case_rules_with_folded_values(values: Sequence[str]) -> list[tuple[CellRules, set[str]]]:
    """List the rules that may turn texts into listed values, each with the listed values as it turns them."""
    case = "upper" if all(value == upper(value) for value in values) else "lower"
    turned = {value: CASES[case](value) for value in values}
    trims = [CellRules(trim=True)] if all(value == value.strip(" ") for value in values) else []
    cases: list[CellRules] = []
    mapped = tuple((source, value) for value, source in turned.items() if source != value)
    if len(set(turned.values())) == len(values) and not {source for source, _ in mapped} & set(values):
        cases = [CellRules(trim=trim, case=case, map=mapped) for trim in (False, True)[: 1 + len(trims)]]
    return [(rules, {rules.fold(value) for value in values}) for rules in (*trims, *cases)]


def refuse_second_header(sampled: Mapping[str, Sequence[str | None]], original: Path) -> None:
    """Refuse a text file whose first row, that of its sampled texts, is a second line of column names. PRIVATE.

    Such a row has words and no digit in the columns, two or more, in which all but a few other cells have a digit.
    """
    numeric = [
        texts for texts in sampled.values() if _share_containing_any(_count_texts(texts[1:]), digits) >= _MIN_SHARE
    ]
    first_row = [texts[0] or "" for texts in numeric if len(texts) > _MIN_OTHER_ROWS]
    words = [text for text in first_row if text.strip() not in USUAL_NULLS]
    if len(words) >= 2 and not set(digits) & set("".join(first_row)):
        raise InvalidPolicy(
            "a text file must begin with one line of column names, but the second line of this one "
            "looks like names too",
            place=f"{original}, line 2",
            fix="delete one of the two lines; if the second is data, use --no-read-rows and give the column types",
        )


def _count_texts(texts: Iterable[str | None]) -> Counter[str]:
    return Counter(text for text in texts if text is not None)


def _without_markers(texts: Mapping[str, int], markers: Collection[str]) -> dict[str, int]:
    return {text: count for text, count in texts.items() if text.strip(" ") not in markers}


def _choose_format(
    trials: TriedDeclarations,
    name: str,
    texts: Mapping[str, int],
    candidate_formats: Sequence[CellFormat],
    decimal: str,
    thresholds: ProposalThresholds,
) -> CellProposal | None:
    """Choose the first of the formats that fit nearly as many cells as the best one; of rivals, the best one."""
    cells = sum(texts.values())
    readable_cells = trials.count_read_cells(name)
    if max(readable_cells) < _MIN_SHARE * cells:
        several_formats = _propose_several_formats(
            texts, dict(zip(candidate_formats, readable_cells, strict=True)), thresholds
        )
        if several_formats is not None or max(readable_cells) < thresholds.min_share * cells:
            return several_formats
    first = _index_of_first_fitting_format(readable_cells, cells, thresholds)
    others = [
        index
        for index, cell_format in enumerate(candidate_formats)
        if index != first
        and cell_format.is_comparable(candidate_formats[first])
        and _is_close_rival(readable_cells[index], readable_cells[first], cells, thresholds)
    ]
    conflicts = zip(others, trials.count_conflicts(name, first, others), strict=True)
    chosen, *rivals = sorted(
        [first, *(index for index, conflict in conflicts if conflict)], key=lambda index: -readable_cells[index]
    )
    cell_format = candidate_formats[chosen]
    is_known = cell_format.rules == CellRules() or (
        cell_format.rules.decimal == decimal and not cell_format.rules.currency
    )
    has_enough_cells = (cells >= _MIN_CELLS or is_known) and _has_enough_of_both_booleans(cell_format, texts)
    is_certain = has_enough_cells and not rivals and not cell_format.guesses_century
    return CellProposal(
        cell_format,
        is_certain,
        tuple(candidate_formats[index] for index in rivals),
        _first_readable_examples(texts, trials.read_values(name, chosen)),
    )


def _index_of_first_fitting_format(readable_cells: Sequence[int], cells: int, thresholds: ProposalThresholds) -> int:
    """Return the first format that fits most cells, and of which no other one fits many more."""
    few = max(thresholds.min_deciding_cells, _TIE * cells)
    return next(
        index
        for index, readable in enumerate(readable_cells)
        if readable >= thresholds.min_share * cells and max(readable_cells) - readable < few
    )


def _is_close_rival(readable: int, chosen_readable: int, cells: int, thresholds: ProposalThresholds) -> bool:
    """Return whether too few cells decide for a chosen format against one that fits so many."""
    few = max(thresholds.min_deciding_cells, _MIN_DECIDING_SHARE * cells)
    return readable >= _MIN_RIVAL_SHARE * cells and chosen_readable - readable < few


def _has_enough_of_both_booleans(cell_format: CellFormat, texts: Mapping[str, int]) -> bool:
    """Return whether both words for truths that a format declares, if any, are in many cells."""
    few = max(_MIN_DECIDING, _MIN_DECIDING_SHARE * sum(texts.values()))
    declared = [words for words in (cell_format.rules.true, cell_format.rules.false) if words]
    counts = [sum(count for text, count in texts.items() if text.strip(" ") in words) for words in declared]
    return all(count >= few for count in counts)


def _first_readable_examples(texts: Iterable[str], values: Iterable[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(islice((pair for pair in zip(texts, values, strict=True) if pair[1] is not None), 3))


def _propose_several_formats(
    texts: Mapping[str, int], readable_cells: Mapping[CellFormat, int], thresholds: ProposalThresholds
) -> CellProposal | None:
    """Propose several formats of dates, of which each reads some cells and none all; never certain.

    Two orders of the same separators are two formats of one cell, so only the one that reads more is taken.
    """
    cells = sum(texts.values())
    counts = {
        (cell_format.rules.format or (_ISO_DAY,))[0]: readable
        for cell_format, readable in readable_cells.items()
        if cell_format.type is Type.DATE
    }
    formats: dict[str, str] = {}
    for text in sorted(
        (text for text in counts if counts[text] > (1 - _MIN_SHARE) * cells), key=lambda text: -counts[text]
    ):
        formats.setdefault(text.translate(_DIRECTIVES), text)
    if len(formats) < 2:
        return None
    cell_format = CellFormat(Type.DATE, CellRules(format=tuple(formats.values())))
    with TriedDeclarations({"": (texts, [cell_format.declaration])}) as trials:
        if trials.count_read_cells("")[0] < thresholds.min_share * cells:
            return None
        return CellProposal(
            cell_format, is_certain=False, examples=_first_readable_examples(texts, trials.read_values("", 0))
        )


def _candidate_formats(texts: Mapping[str, int], min_share: float) -> list[CellFormat]:
    """List the formats of the family that are possible for most cells, by the characters they need."""
    has_digits = _share_containing_any(texts, digits) >= min_share
    return [
        *(_number_formats(texts) if has_digits else ()),
        *(_time_formats(texts) if has_digits else ()),
        *_boolean_formats(texts),
    ]


def _dates_as_timestamps_if_required(
    cell_formats: Sequence[CellFormat], required_type: Type | None
) -> list[CellFormat]:
    """Return the formats; those of days as timestamps if the column has that type: a day is its midnight."""
    if required_type is not Type.TIMESTAMP:
        return list(cell_formats)
    return [
        CellFormat(required_type, cell_format.rules) if cell_format.type is Type.DATE else cell_format
        for cell_format in cell_formats
    ]


def _share_containing_any(texts: Mapping[str, int], parts: Iterable[str]) -> float:
    """Return the share of cells that contain one of the parts."""
    sought = tuple(parts)
    containing = sum(count for text, count in texts.items() if any(part in text for part in sought))
    return containing / max(1, sum(texts.values()))


def _number_formats(texts: Mapping[str, int]) -> list[CellFormat]:
    """List the formats of numbers; a text that begins with 0 and another digit is a code."""
    codes = sum(count for text, count in texts.items() if text[:1] == "0" and text[1:2].isdigit())
    is_code = codes > (1 - _MIN_SHARE) * sum(texts.values())
    cell_formats = [] if is_code else [CellFormat(Type.INTEGER), CellFormat(Type.REAL)]
    currencies = [sign for sign in _CURRENCIES if _share_containing_any(texts, [sign]) >= 0.5]
    for decimal, thousands in (("", ""), *_SEPARATORS):
        characters = [*decimal, *thousands, *("\u00a0\u202f" if thousands == " " else "")]
        is_used = _share_containing_any(texts, characters) > _TIE
        for currency in currencies or [""] * is_used:
            rules = CellRules(decimal=decimal, thousands=thousands, currency=currency)
            cell_formats += [CellFormat(Type.INTEGER, rules), CellFormat(Type.REAL, rules)]
    return cell_formats


def _time_formats(texts: Mapping[str, int]) -> list[CellFormat]:
    """List the formats of dates and times whose separators, names and clocks most cells have."""
    separators = {letter for letter in "./-, " if _share_containing_any(texts, [letter]) >= 0.5}
    has_names = _share_containing_any(texts, ascii_letters) >= 0.5
    colons = Counter[int]()
    for text, count in texts.items():
        colons[text.count(":")] += count
    days = [day for day in _DAYS if separators.issuperset(set(day) & set("./-, "))]
    days = [day for day in days if has_names or "%b" not in day.lower()]
    clocks = [clock for clock in _CLOCKS if clock.count(":") == colons.most_common(1)[0][0]]
    times = [f"{day} {clock}" for day in days for clock in clocks if has_names or "%p" not in clock]
    kind = Type.TIMESTAMP if clocks else Type.DATE
    rules = [CellRules(format=(text,)) for text in (times if clocks else days)]
    return [
        CellFormat(Type.DATE),
        CellFormat(Type.TIMESTAMP),
        *(CellFormat(kind, format_rules) for format_rules in rules),
    ]


def _boolean_formats(texts: Mapping[str, int]) -> list[CellFormat]:
    """List the formats of truths of which both words are in some cells, with their usual letter cases."""
    cells = sum(texts.values())
    counts: Counter[str] = Counter()
    for text, count in texts.items():
        counts[text.strip(" ").casefold()] += count
    pairs = [
        (true, false)
        for true, false in _TRUTHS
        if min(counts[true.casefold()], counts[false.casefold()]) >= _MIN_DECIDING_SHARE * cells
    ]
    rules = [CellRules(true=_letter_cases(true), false=_letter_cases(false)) for true, false in pairs]
    rules = [CellRules()] * bool(counts["true"] or counts["false"]) + rules
    return [CellFormat(Type.BOOLEAN, format_rules) for format_rules in rules]


def _letter_cases(word: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((word, word.upper(), word.lower())))


@dataclass(frozen=True)
class SuggestedCellRules:
    """The keys to add to a column, as a policy writes them. PRIVATE."""

    nulls_toml: str = ""
    """The key that counts cells as missing."""
    readings_toml: tuple[str, ...] = ()
    """The keys that read most lost cells; if several, the owner has to know which are right."""

    def __bool__(self) -> bool:
        return bool(self.nulls_toml or self.readings_toml)

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.nulls_toml, " or ".join(self.readings_toml)]))


def suggest_cell_rules(domain: Domain, lost_texts: Mapping[str, int], declared: CellRules) -> SuggestedCellRules:
    """Return the keys to add to a column so that most of its lost cells are read.

    ``lost_texts`` counts the texts of the cells that the column reads as NULL, and those of ``USUAL_NULLS``.
    """
    declared_texts = {*map(str, domain.values or ()), *(declared.nulls or ())}
    nulls = [
        word
        for word in USUAL_NULLS
        if word not in declared_texts and any(text.strip(" ") == word for text in lost_texts)
    ]
    others = {text: count for text, count in lost_texts.items() if text.strip(" ") not in USUAL_NULLS}
    proposal = _propose_format_or_folding(domain, others) if others and not _has_reading_rules(declared) else None
    cell_formats = (
        []
        if proposal is None
        else [_keys_toml(cell_format.rules) for cell_format in (proposal.format, *proposal.rivals)]
    )
    return SuggestedCellRules(
        f"nulls = {toml_value((*(declared.nulls or ()), *nulls))}" if nulls else "",
        tuple(dict.fromkeys(filter(None, cell_formats))),
    )


def _propose_format_or_folding(domain: Domain, texts: Mapping[str, int]) -> CellProposal | None:
    if domain.type is not Type.TEXT:
        return propose_formats_for_texts({"": texts}, required_type=domain.type, thresholds=SEEN).get("")
    return propose_trim_and_case_for_texts(texts, [str(value) for value in domain.values or ()])


def _has_reading_rules(rules: CellRules) -> bool:
    """Return whether rules on how cells are written are declared: the owner chose their form."""
    return bool(rules.keys.keys() - {"nulls", "possible"})


def _keys_toml(rules: CellRules) -> str:
    return ", ".join(f"{key} = {toml_value(value)}" for key, value in rules.keys.items())
