"""Render one answer as a web page: question, numbers with intervals, picture, price and the attacker's possible gain.

A question can name a person, and so can the names that it gives to columns and groups. Both are on the page only on
request; otherwise columns and groups are numbered.

Answers are also written to files here, in the format of the file's extension.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from inspect import cleandoc
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from sfumato.error_facts import join_with_or
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.plots.frame import Interval, framed_picture
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import Picture
from sfumato.policy import Type
from sfumato.privacy import Guarantee, Neighbours, Reading, reading
from sfumato.privacy.numbers import Number, exact, format_percent
from sfumato.release.answers.receipts import Receipt
from sfumato.release.answers.web_pages import (
    HtmlPage,
    bullet_list,
    escape_html,
    fact_boxes,
    figure,
    paragraph,
    preformatted_block,
    table,
)

_FEW_ROWS, _MAX_ROWS = 12, 1000
"""The most rows shown without a fold, and the most rows of a page."""
_PRIORS = ("0.001", "0.01", "0.1", "0.5")
_RARE = "1e-9"
_PLOTTED_PRIORS = tuple(
    Fraction(per_mille, 1000) for per_mille in (2, 5, *range(10, 100, 10), *range(100, 1000, 20), 990, 998)
)
_PURE = re.compile(r"ε = (\d+(?:\.\d+)?(?:e-?\d+)?)(?:, δ = (\d+(?:\.\d+)?(?:e-?\d+)?))?")
_CONCEALED_CAVEAT = "limits or bounds of the policy can change this number, and ± does not cover that"
QUESTION_HIDDEN = "The question is not shown, and its columns and groups have numbers instead of names."


class PageAnswer(Protocol):
    """The fields of an answer that a page reads."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def types(self) -> tuple[Type, ...]: ...

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]: ...

    @property
    def intervals(self) -> Mapping[str, tuple[Interval, ...]]: ...

    @property
    def receipt(self) -> Receipt: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    @property
    def possible(self) -> Mapping[str, tuple[float, float]]: ...

    @property
    def ranks(self) -> Mapping[str, float]: ...

    @property
    def basis(self) -> Mapping[str, tuple[str, ...]] | None: ...

    @property
    def sampling(self) -> Mapping[str, tuple[float | None, ...]] | None: ...

    @property
    def caveats(self) -> Mapping[str, str] | None: ...

    def column(self, name: str) -> list[Any]: ...

    def cells(self, most: int | None = None) -> list[list[str]]: ...

    def ranked(self) -> list[str]: ...

    def plot(self) -> Picture: ...


A = TypeVar("A", bound=PageAnswer)


def noisy_numbers_only(answer: A) -> A:
    """Return the noisy numbers and intervals alone, without any name, key, text or constant from the question."""
    noisy_columns = [name for name in answer.columns if name in answer.intervals and not _has_no_noise(answer, name)]
    names = {name: f"number {number}" for number, name in enumerate(noisy_columns, 1)}
    has_groups = len(answer.rows) > 1
    columns = [[f"group {row}" for row in range(1, len(answer.rows) + 1)]] if has_groups else []
    columns += [answer.column(name) for name in noisy_columns]
    types: tuple[Type, ...] = tuple(answer.types[answer.columns.index(name)] for name in noisy_columns)
    return replace(
        answer,
        columns=(*(["group"] if has_groups else []), *names.values()),
        types=(*([Type.TEXT] if has_groups else []), *types),
        rows=tuple(zip(*columns, strict=True)) if columns else ((),) * len(answer.rows),
        intervals=_keep_and_rename_columns(names, answer.intervals),
        keys=("group",) if has_groups else (),
        receipt=replace(answer.receipt, question="", bounds=(), mechanisms=(), share="", periods=""),
        warnings=(),
        possible=_keep_and_rename_columns(names, answer.possible),
        ranks=_keep_and_rename_columns(names, answer.ranks),
        basis=None if answer.basis is None else _keep_and_rename_columns(names, answer.basis),
        chosen={},
        caveats=dict.fromkeys(_keep_and_rename_columns(names, answer.caveats or {}), _CONCEALED_CAVEAT),
        sampling=None if answer.sampling is None else _keep_and_rename_columns(names, answer.sampling),
        buckets=(),
    )


def _has_no_noise(answer: PageAnswer, name: str) -> bool:
    """Return whether a column is exact: then its numbers may be constants of the question."""
    return all(interval is None or interval[0] == interval[1] for interval in answer.intervals[name])


def _keep_and_rename_columns(names: dict[str, str], by_column: Any) -> dict[str, Any]:
    return {names[name]: entry for name, entry in by_column.items() if name in names}


def answer_page(answer: PageAnswer, *, questions: bool) -> HtmlPage:
    """Render the page of one answer."""
    visible_answer = answer if questions else noisy_numbers_only(answer)
    receipt = visible_answer.receipt
    header = fact_boxes(
        [
            (receipt.unit, "protected"),
            (receipt.guarantee or "nothing", "cost of this answer"),
            (receipt.account, "budget for all answers together"),
        ]
    )
    question = preformatted_block(cleandoc(receipt.question)) if questions else paragraph(QUESTION_HIDDEN, "quiet")
    answer_html = "".join(render_answer_sections(visible_answer))
    sections = [
        f"<h1>{escape_html(_page_title(receipt))}</h1>{header}"
        f"<h2>What was asked, and the answer</h2>{question}{answer_html}",
        f"<h2>Who is protected</h2>{render_protection(receipt.unit, receipt.neighbours)}",
        *render_attacker_gain(receipt),
        f"<h2>The receipt</h2>{preformatted_block(_receipt_text(receipt))}",
        f"<footer>{escape_html(receipt.software)}</footer>",
    ]
    return HtmlPage(_page_title(receipt), "\n".join(sections))


def _page_title(receipt: Receipt) -> str:
    return f"A private answer of {receipt.time[:10]}"


def _receipt_text(receipt: Receipt) -> str:
    """Format the receipt, without the lines of hidden fields."""
    hidden_line = r"(noise|bounds)\b.*" if not receipt.mechanisms else r"noise\s*"
    return "\n".join(line for line in str(receipt).splitlines() if not re.fullmatch(hidden_line, line))


def render_answer_sections(answer: PageAnswer) -> Iterator[str]:
    """Render the numbers with intervals, the picture, and the notes needed to read them."""
    receipt = answer.receipt
    rows = table(answer.columns, answer.cells(_MAX_ROWS), [name in answer.intervals for name in answer.columns])
    if len(answer.rows) <= _FEW_ROWS:
        yield rows
    if answer.intervals and answer.rows:
        yield figure(answer.plot())
    if len(answer.rows) > _FEW_ROWS:
        prefix = "" if len(answer.rows) <= _MAX_ROWS else f"the first {_MAX_ROWS:,} of "
        yield f"<details><summary>{escape_html(f'Show {prefix}{len(answer.rows):,} rows')}</summary>{rows}</details>"
    if receipt.confidence:
        claim = (
            "All ranges together contain their exact numbers"
            if receipt.joint
            else "Each range contains the exact number"
        )
        yield paragraph(
            f"{claim} with {format_percent(receipt.confidence)} confidence. An exact number leaves out rows beyond the "
            f"limits per unit ({receipt.limits}), and the part of a value outside its bounds.",
            "quiet",
        )
    yield "".join(paragraph(note, "quiet") for note in (*answer.ranked(), *answer.warnings))


def render_protection(unit: str, neighbours: str) -> str:
    """Describe who is protected, and what that means."""
    if neighbours == Neighbours.REPLACE.value:
        change = "had been replaced by any others. The total number of units is public"
    else:
        change = "had never been in the data"
    return paragraph(
        f"This protects {unit}. Whatever is published here would have come out almost the same if {unit} {change}. "
        "“Almost” is measured by ε (epsilon) and δ (delta): the probability of any outcome is at most e^ε times what "
        "it would have been, plus δ. The smaller both are, the less anybody can learn about one of them."
    ) + paragraph(
        "What is true of the population as a whole is not protected: it can be learned whether or not one of "
        "them is in the data, and may then be assumed about each of them.",
    )


def render_attacker_gain(receipt: Receipt) -> Iterator[str]:
    """Render what an attacker could gain from one answer alone, where its guarantee is ε or (ε, δ)."""
    match = _PURE.fullmatch(receipt.guarantee)
    if match:
        promise = Guarantee(match[1], match[2] or 0)
        belief_changes = render_belief_changes(promise, receipt.neighbours, "this answer")
        yield f"<h2>What an attacker could gain at most</h2>{belief_changes}"


def render_belief_changes(guarantee: Guarantee, neighbours: str, publication: str) -> str:
    """Render how far anyone's belief about one unit can move: a table, a text and a picture."""
    read = reading(guarantee, _RARE, neighbours=neighbours)
    beliefs = _log_odds_rise_by_fact(read)
    rows = [
        (format_percent(prior), *(_percent_rounded_up(_posterior_rounded_up(prior, odds)) for odds in beliefs.values()))
        for prior in _PRIORS
    ]
    head = ["believed before", *(f"{name}, at most" for name in beliefs)]
    this = f"Except with probability {read.delta:.2g}, this" if read.delta else "This"
    return (
        paragraph(
            f"Suppose somebody sees {publication}, knows everything about everybody else, and has any "
            "amount of time and "
            "computers. They have a guess about one of those who are protected, and believe it to some degree. Then "
            "their belief can grow to at most this:"
        )
        + table(head, rows, [True] * len(head))
        + figure(_plot_beliefs(guarantee, neighbours, beliefs), "The dotted line is no change at all.")
        + paragraph(
            f"{this} holds even if they know everybody else's rows, and however they compute (short of breaking "
            "AES-256). A test for whether one of them is there, which "
            f"is wrong {format_percent(str(read.false_positive_rate))} of the time when they are not, "
            "finds them at most "
            f"{_percent_rounded_up(read.true_positive_rate)} of the time when they are."
        )
    )


def _log_odds_rise_by_fact(read: Reading) -> dict[str, float]:
    """Return the largest rise of the log-odds of a guess, for each kind of guess.

    It is the same for every prior. It is computed from a tiny prior, which keeps many digits, and it is rounded up as
    readings are.
    """
    odds = read.attribute / (1 - read.attribute) if read.attribute < 1 else math.inf
    rise = math.log(odds) - math.log(float(read.prior) / (1 - float(read.prior)))
    value = {"has a certain value": rise}
    return value if read.membership is None else {"is in the data": read.epsilon, **value}


def _posterior_rounded_up(prior: Number, log_odds_rise: float) -> float:
    """Return the posterior belief, rounded up by more than floating-point errors."""
    before = float(exact(prior, "prior"))
    return min(1.0, (1 + 1e-9) / (1 + (1 - before) / before * math.exp(-log_odds_rise)))


def _percent_rounded_up(share: float) -> str:
    """Format a fraction in per cent, rounded up."""
    return f"{min(100.0, math.ceil(share * 1000) / 10):.1f} %"


def _plot_beliefs(guarantee: Guarantee, neighbours: str, beliefs: Mapping[str, float]) -> Picture:
    """Draw the posterior against the prior belief."""
    priors = (0.0, *(100 * float(prior) for prior in _PLOTTED_PRIORS), 100.0)
    lines = [
        PlottedLine(
            name, priors, (0.0, *(100 * _posterior_rounded_up(prior, odds) for prior in _PLOTTED_PRIORS), 100.0)
        )
        for name, odds in beliefs.items()
    ]
    lines.append(PlottedLine("no change", priors, priors))
    plot_panel = LineAxes(
        "believed afterwards at most, in per cent", "believed before, in per cent", y_range=(0.0, 100.0)
    )
    delta = f", δ = {float(guarantee.delta):.3g}" if guarantee.delta else ""
    return framed_picture(
        line_chart(lines, plot_panel, 280.0), "", [f"ε = {float(guarantee.epsilon):.4g}{delta}", neighbours]
    )


def render_limitations() -> str:
    """Render what a report does not guarantee."""
    return bullet_list(
        [
            "This guarantee does not cover what people tell others, or what other data reveal about them.",
            "The data owner sees the data as they are. The guarantee covers what was released through this account; it "
            "holds if the owner declared truthfully to whom each row belongs, and opened no second account.",
            "Ranges cover the noise that was added, not errors in the data.",
        ]
    )


ENDINGS = (".csv", ".json", ".parquet")


class Writable(Protocol):
    """An answer that can be written in each file format."""

    def to_arrow(self) -> Any: ...
    def to_json(self) -> str: ...
    def to_csv(self, *, separator: str = ",") -> str: ...


def checked_answer_path(path: str | os.PathLike[str], *, excel: bool = False) -> Path:
    """Refuse a file that an answer cannot be written to, before the answer is bought."""
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        endings = join_with_or(ENDINGS)
        fix = f"for example, write to {file.stem}.csv"
        raise InvalidParameter("path", str(path), f"a file that ends in {endings}", fix=fix)
    if excel and file.suffix.lower() != ".csv":
        raise InvalidParameter(
            "path",
            file.name,
            "a file that ends in .csv if it is meant for a spreadsheet",
            fix=f"write to {file.stem}.csv",
        )
    if not file.absolute().parent.is_dir():
        raise InvalidParameter(
            "path", str(path), "a file in an existing folder", fix=f"make the folder {file.parent} first"
        )
    return file


def save_answer(answer: Writable, path: str | os.PathLike[str], *, excel: bool = False, separator: str = ",") -> None:
    """Write an answer as .csv, .json or .parquet. ``excel`` marks the text as UTF-8 so that spreadsheets show every
    letter; where they expect semicolons, ``separator=";"`` writes these, and decimal commas.
    """
    file = checked_answer_path(path, excel=excel)
    try:
        if file.suffix.lower() == ".parquet":
            from pyarrow import parquet

            parquet.write_table(answer.to_arrow(), file)
        elif file.suffix.lower() == ".json":
            file.write_text(answer.to_json(), encoding="utf-8")
        else:
            written = answer.to_csv(separator=separator)
            text = written.replace("\n", "\r\n") if excel else written
            file.write_bytes(text.encode("utf-8-sig" if excel else "utf-8"))
    except OSError as refused:
        reason = os.strerror(refused.errno or 0)
        raise SfumatoError(
            f"the answer cannot be written to this file ({reason})",
            place=str(file),
            fix="name a file in an existing folder that you can write to, on a disk with free space",
        ) from None
