"""One answer is told as a web page: what was asked, the numbers with their ranges and a picture, the price, and what
an attacker could gain from it at most.

A question can name a person, and so can the names that it gives to columns and groups. Both are on the page only where
they are asked for; otherwise columns and groups are numbered.

An answer is written to a file: its ending says how.
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

from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.plots.frame import framed
from sfumato.plots.lines import Panel, PlottedLine, panel
from sfumato.plots.picture import Picture
from sfumato.plots.scales import Interval
from sfumato.policy import Type
from sfumato.privacy import Guarantee, Neighbours, Reading, reading
from sfumato.privacy.numbers import Number, exact, percent
from sfumato.release.answers.receipts import Receipt
from sfumato.release.answers.web_pages import HtmlPage, block, escaped, facts, figure, listed, paragraph, table

_FEW, _ROWS = 12, 1000
"""Rows that are seen at once, and rows that are on a page at most."""
_PRIORS = ("0.001", "0.01", "0.1", "0.5")
_RARE = "1e-9"
_DRAWN = tuple(Fraction(each, 1000) for each in (2, 5, *range(10, 100, 10), *range(100, 1000, 20), 990, 998))
_PURE = re.compile(r"ε = (\d+(?:\.\d+)?(?:e-?\d+)?)(?:, δ = (\d+(?:\.\d+)?(?:e-?\d+)?))?")
NOT_SHOWN = "The text of the question is not shown, and what it calls its columns and groups is numbered."


class PageAnswer(Protocol):
    """What a page reads of an answer."""

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

    def column(self, name: str) -> list[Any]: ...

    def cells(self, most: int | None = None) -> list[list[str]]: ...

    def ranked(self) -> list[str]: ...

    def plot(self) -> Picture: ...


A = TypeVar("A", bound=PageAnswer)


def concealed(answer: A) -> A:
    """Return the noisy numbers and their ranges alone: every name, key, word and constant that a question could have
    typed is left out.
    """
    kept = [name for name in answer.columns if name in answer.intervals and not _typed(answer, name)]
    names = {name: f"number {place}" for place, name in enumerate(kept, 1)}
    several = len(answer.rows) > 1
    columns = [[f"group {row}" for row in range(1, len(answer.rows) + 1)]] if several else []
    columns += [answer.column(name) for name in kept]
    kinds: tuple[Type, ...] = tuple(answer.types[answer.columns.index(name)] for name in kept)
    return replace(
        answer,
        columns=(*(["group"] if several else []), *names.values()),
        types=(*([Type.TEXT] if several else []), *kinds),
        rows=tuple(zip(*columns, strict=True)) if columns else ((),) * len(answer.rows),
        intervals=_named(names, answer.intervals),
        keys=("group",) if several else (),
        receipt=replace(answer.receipt, question="", bounds=(), mechanisms=(), share="", periods=""),
        warnings=(),
        possible=_named(names, answer.possible),
        ranks=_named(names, answer.ranks),
        basis=None if answer.basis is None else _named(names, answer.basis),
        chosen={},
        sampling=None if answer.sampling is None else _named(names, answer.sampling),
    )


def _typed(answer: PageAnswer, name: str) -> bool:
    """Return whether a column has no noise: then its numbers may stand in the question."""
    return all(each is None or each[0] == each[1] for each in answer.intervals[name])


def _named(names: dict[str, str], found: Any) -> dict[str, Any]:
    return {names[name]: each for name, each in found.items() if name in names}


def answer_page(answer: PageAnswer, *, questions: bool) -> HtmlPage:
    """Write the page of one answer."""
    shown = answer if questions else concealed(answer)
    receipt = shown.receipt
    head = facts(
        [
            (receipt.unit, "is protected"),
            (receipt.guarantee or "nothing", "is what this answer cost"),
            (receipt.account, "is allowed for everything together"),
        ]
    )
    asked = block(cleandoc(receipt.question)) if questions else paragraph(NOT_SHOWN, "quiet")
    inner = "".join(answer_parts(shown))
    sections = [
        f"<h1>{escaped(_title(receipt))}</h1>{head}<h2>What was asked, and the answer</h2>{asked}{inner}",
        f"<h2>Who is protected</h2>{protected(receipt.unit, receipt.neighbours)}",
        *gained(receipt),
        f"<h2>The receipt</h2>{block(_paper(receipt))}",
        f"<footer>{escaped(receipt.software)}</footer>",
    ]
    return HtmlPage(_title(receipt), "\n".join(sections))


def _title(receipt: Receipt) -> str:
    return f"A private answer of {receipt.time[:10]}"


def _paper(receipt: Receipt) -> str:
    """Write the receipt, without the lines of what is not shown."""
    left_out = r"(noise|bounds)\b.*" if not receipt.mechanisms else r"noise\s*"
    return "\n".join(line for line in str(receipt).splitlines() if not re.fullmatch(left_out, line))


def answer_parts(answer: PageAnswer) -> Iterator[str]:
    """Write the numbers of an answer with their ranges, the picture, and what has to be known to read them."""
    receipt = answer.receipt
    rows = table(answer.columns, answer.cells(_ROWS), [name in answer.intervals for name in answer.columns])
    if len(answer.rows) <= _FEW:
        yield rows
    if answer.intervals and answer.rows:
        yield figure(answer.plot())
    if len(answer.rows) > _FEW:
        many = "" if len(answer.rows) <= _ROWS else f"the first {_ROWS:,} of "
        yield f"<details><summary>{escaped(f'Show {many}{len(answer.rows):,} rows')}</summary>{rows}</details>"
    if receipt.confidence:
        held = "All ranges together hold" if receipt.joint else "Each range holds the exact number"
        yield paragraph(
            f"{held} with {percent(receipt.confidence)} confidence. They are for the noise alone: what is beyond the "
            f"limits of one unit ({receipt.limits}) or was clamped is left out of the exact number as well.",
            "quiet",
        )
    yield "".join(paragraph(each, "quiet") for each in (*answer.ranked(), *answer.warnings))


def protected(unit: str, neighbours: str) -> str:
    """Describe who is protected, and what that means, in words."""
    if neighbours == Neighbours.REPLACE.value:
        change = "had been replaced by any others. How many units there are in all is public"
    else:
        change = "had never been in the data"
    return paragraph(
        f"This protects {unit}. Whatever is published here would have come out almost the same if {unit} {change}. "
        "“Almost” is measured by ε (epsilon), and by δ (delta), the chance that is set aside for the promise to fail: "
        "the smaller both are, the less anybody can learn about one of them."
    ) + paragraph(
        "What is true of the population as a whole is not protected: it can be learned whether or not one of them is "
        "in the data, and may then be believed of each.",
    )


def gained(receipt: Receipt) -> Iterator[str]:
    """Return what an attacker could gain from one answer alone, where its promise is an ε or an ε with a δ."""
    found = _PURE.fullmatch(receipt.guarantee)
    if found:
        promise = Guarantee(found[1], found[2] or 0)
        yield f"<h2>What an attacker could gain at most</h2>{attacker(promise, receipt.neighbours, 'this answer')}"


def attacker(promise: Guarantee, neighbours: str, what: str) -> str:
    """Describe how far anyone's belief about one unit can move, as a table, in words and as a picture."""
    read = reading(promise, _RARE, neighbours=neighbours)
    beliefs = _beliefs(read)
    rows = [(percent(prior), *(_up(_after(prior, odds)) for odds in beliefs.values())) for prior in _PRIORS]
    head = ["believed before", *(f"{name}, at most" for name in beliefs)]
    sure = f"Except with probability {read.delta:.2g}, this" if read.delta else "This"
    return (
        paragraph(
            f"Suppose somebody sees {what}, knows everything about everybody else, and has any amount of time and "
            "computers. They have a guess about one of those who are protected, and believe it to some degree. Then "
            "their belief can grow to at most this:"
        )
        + table(head, rows, [True] * len(head))
        + figure(_beliefs_drawn(promise, neighbours, beliefs), "Dotted would be no change at all.")
        + paragraph(
            f"{sure} holds whatever they know and however they compute. A test for whether one of them is there, which "
            f"is wrong {percent(str(read.false_positive_rate))} of the time when they are not, finds them at most "
            f"{_up(read.true_positive_rate)} of the time when they are."
        )
    )


def _beliefs(read: Reading) -> dict[str, float]:
    """Find by how much the log-odds of a guess can rise, for each kind of guess.

    They are the same for every belief before. Found from a guess that is hardly believed, they are known to many
    digits, and since a reading is rounded up they are, too.
    """
    odds = read.attribute / (1 - read.attribute) if read.attribute < 1 else math.inf
    rise = math.log(odds) - math.log(float(read.prior) / (1 - float(read.prior)))
    value = {"has a certain value": rise}
    return value if read.membership is None else {"is in the data": read.epsilon, **value}


def _after(prior: Number, odds: float) -> float:
    """Compute the belief afterwards, rounded up far beyond what rounding loses."""
    before = float(exact(prior, "prior"))
    return min(1.0, (1 + 1e-9) / (1 + (1 - before) / before * math.exp(-odds)))


def _up(share: float) -> str:
    """Write a share in per cent, rounded up."""
    return f"{min(100.0, math.ceil(share * 1000) / 10):.1f} %"


def _beliefs_drawn(promise: Guarantee, neighbours: str, beliefs: Mapping[str, float]) -> Picture:
    """Draw the belief afterwards against the belief before."""
    at = (0.0, *(100 * float(prior) for prior in _DRAWN), 100.0)
    lines = [
        PlottedLine(name, at, (0.0, *(100 * _after(prior, odds) for prior in _DRAWN), 100.0))
        for name, odds in beliefs.items()
    ]
    lines.append(PlottedLine("no change", at, at))
    of = Panel("believed afterwards at most, in per cent", "believed before, in per cent", ends=(0.0, 100.0))
    delta = f", δ = {float(promise.delta):.3g}" if promise.delta else ""
    return framed(panel(lines, of, 280.0), "", [f"ε = {float(promise.epsilon):.4g}{delta}", neighbours])


def limits_of_it() -> str:
    """Describe what a report does not promise, whoever reads it."""
    return listed(
        [
            "What people tell others, or what other data about them tell, is outside of this promise.",
            "The owner of the data sees them as they are. The promise is about what left their hands through this "
            "account, and holds if they declared truthfully whose each row is and opened no second account.",
            "Ranges are for the noise that was added. Errors in the data themselves are not in them.",
        ]
    )


ENDINGS = (".csv", ".json", ".parquet")


class Writable(Protocol):
    """Whatever can be written in each of the forms."""

    def to_arrow(self) -> Any: ...
    def to_json(self) -> str: ...
    def to_csv(self, *, separator: str = ",") -> str: ...


def check_file(path: str | os.PathLike[str], *, excel: bool = False) -> Path:
    """Refuse a file that an answer cannot be written to, before the answer is bought."""
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise InvalidParameter("path", str(path), f"a file that ends in {', '.join(ENDINGS)}")
    if excel and file.suffix.lower() != ".csv":
        raise InvalidParameter("path", str(path), "a .csv file, when it is to be opened by a spreadsheet")
    if not file.absolute().parent.is_dir():
        raise InvalidParameter("path", str(path), "a file in a folder that exists")
    return file


def save(answer: Writable, path: str | os.PathLike[str], *, excel: bool = False, separator: str = ",") -> None:
    """Write an answer as .csv, .json or .parquet. ``excel`` marks the text as UTF-8 so that spreadsheets show every
    letter; where they expect semicolons, ``separator=";"`` writes these, and decimal commas.
    """
    file = check_file(path, excel=excel)
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
            f"the answer cannot be written there ({reason})", place=str(file), fix="choose another file"
        ) from None
