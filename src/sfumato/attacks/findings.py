"""Findings: the success of an attack on each kind of answers, beside blind guessing and the theoretical ceiling.

Findings are plotted as bars. A sweep is an attack at many values of one parameter, such as the noise or the number of
questions, plotted as lines.

Many runs of an attack are released together: one table holds the people of all runs, and one question groups by run.
Nobody is in two runs, so each run is released at the whole price (parallel composition, McSherry 2009), over the full
path from SQL to noise, with a temporary ledger. Only simulated people are read.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import html_fragments
from sfumato.attacks.ceilings import epsilon_lower_bound, format_percent_up, max_correct
from sfumato.errors import InvalidParameter, WeakPrivacy
from sfumato.plots.frame import (
    INNER_WIDTH,
    SMALL_FONT,
    X_AXIS_HEIGHT,
    Drawing,
    LinearScale,
    LogScale,
    framed_picture,
    x_axis,
)
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import BAR, QUIET, SAMPLE, Picture, box, label, path, save_if_path, text_width, vertical_step
from sfumato.policy import Domain, InMemory, Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit, codec
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator import Curator


_ROW_HEIGHT = 34.0
_BAR_HEIGHT = 18.0

Bar = tuple[str, float, float, float | None]
"""The kind of answers, the share of correct guesses, the share for blind guessing, and the ceiling."""


def plot_findings(title: str, bars: Sequence[Bar], footnotes: Sequence[str] = ()) -> Picture:
    """Plot one bar per kind of answers, from 0 to 100 % correct guesses."""
    heading = f"{title[:1].upper()}{title[1:]}: share of guesses that are right"
    return framed_picture(_draw_bars(bars), heading, notes=(_LEGEND, *wrap_lines(footnotes)))


def wrap_lines(texts: Sequence[str]) -> list[str]:
    """Wrap every text to the width of the plot."""
    return [line for text in texts for line in textwrap.wrap(text, _LINE_LENGTH)]


_LEGEND = "Grey line: guessing without any answer. Red line: the ceiling by theory, which only luck exceeds."
_LINE_LENGTH = 115


def _draw_bars(bars: Sequence[Bar]) -> Drawing:
    left = min(max(text_width(name) for name, *_ in bars), 0.36 * INNER_WIDTH) + 10
    scale = LinearScale(0.0, 1.0, left, INNER_WIDTH - 60)
    bottom_y = len(bars) * _ROW_HEIGHT + 4
    elements = list(x_axis(scale, 0.0, bottom_y))
    for index, (name, success, chance, ceiling) in enumerate(bars):
        y = index * _ROW_HEIGHT + (_ROW_HEIGHT - _BAR_HEIGHT) / 2
        tooltip = f"{name}: {100 * success:.1f} % right"
        elements.append(label(left - 10, y + 13, name, anchor="end", max_width=left - 10))
        elements.append(box(left, y, scale(success) - left, _BAR_HEIGHT, BAR, tooltip_text=tooltip))
        elements.append(
            path([vertical_step(scale(chance), y - 4, y + _BAR_HEIGHT + 4)], QUIET, 2, ' stroke-dasharray="3 2"')
        )
        if ceiling is not None:
            elements.append(path([vertical_step(scale(ceiling), y - 6, y + _BAR_HEIGHT + 6)], SAMPLE, 3))
        elements.append(label(INNER_WIDTH, y + 13, f"{100 * success:.1f} %", anchor="end", size=SMALL_FONT, fill=QUIET))
    return Drawing(tuple(elements), INNER_WIDTH, bottom_y + X_AXIS_HEIGHT)


ALARM = "1e-6"
HALF_ALARM = "5e-7"
"""The probability that a finding on sound answers exceeds the ceiling by chance."""


@codec.serialisable("attack-finding")
@dataclass(frozen=True)
class Finding:
    """The success of an attack on one kind of answers."""

    attack: str
    """The name of the attack."""
    answers: str
    """A description of the answers: "exact", "private, ε = 1"."""
    right: int
    """The number of correct guesses."""
    trials: int
    """The number of guesses."""
    chance: float
    """The share of correct guesses without any answer."""
    ceiling: float | None = None
    """The largest share that theory allows; None if the answers have no guarantee."""
    questions: int = 0
    """The number of answers that the attack used."""
    note: str = ""
    """A further remark, as a sentence."""
    coins: bool = True
    """Whether every guess is about a fair coin known only through the answers: only then is one half blind guessing,
    and only then do correct guesses prove an ε."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if not self.trials > 0 or not 0 <= self.right <= self.trials or self.questions < 0:
            raise InvalidParameter("right", self.right, f"a whole number from 0 to {self.trials}, the number of trials")
        object.__setattr__(self, "chance", _checked_share(self.chance, "chance"))
        if self.ceiling is not None:
            object.__setattr__(self, "ceiling", _checked_share(self.ceiling, "ceiling"))

    @property
    def success(self) -> float:
        """Return the share of correct guesses."""
        return self.right / self.trials

    @property
    def holds(self) -> bool:
        """Return whether the ceiling held; True without a ceiling.

        For sound answers this fails with probability at most 10⁻⁶. If guesses are not about coins, the ceiling is
        itself estimated from other guesses; the estimate and this test then share that probability.
        """
        alarm = ALARM if self.coins else HALF_ALARM
        return self.ceiling is None or self.right <= max_correct(self.trials, self.ceiling, alarm)

    @property
    def epsilon_lower_bound(self) -> float:
        """Return the lower bound on ε that the correct guesses prove, except with probability 10⁻⁶; 0 if the guesses
        are not about uniform bits.
        """
        return epsilon_lower_bound(self.right, self.trials, ALARM) if self.coins and self.chance == 0.5 else 0.0

    def __str__(self) -> str:
        bound = "no ceiling" if self.ceiling is None else f"at most {format_percent_up(self.ceiling)} by theory"
        verdict = "" if self.holds else ": THE CEILING DID NOT HOLD"
        return (
            f"{self.attack} on {self.answers} answers: {_format_percent(self.success)} right of {self.trials} "
            f"(blind guesses {_format_percent(self.chance)}, {bound}){verdict}"
        )

    def to_json(self) -> str:
        """Serialise to JSON, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Finding:
        """Parse the output of ``to_json``; any other text is refused."""
        return codec.loads_as(cls, source)

    def _repr_html_(self) -> str:
        return Findings(self.attack, (self,))._repr_html_()


@codec.serialisable("attack-findings")
@dataclass(frozen=True)
class Findings:
    """One attack on several kinds of answers."""

    attack: str
    listed: tuple[Finding, ...]
    words: tuple[str, ...] = ()
    """What the attack does and what follows, as sentences."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if (
            not isinstance(self.listed, tuple)
            or not self.listed
            or not all(type(entry) is Finding for entry in self.listed)
        ):
            raise InvalidParameter("listed", self.listed, "a tuple of one or more findings")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)

    def __getitem__(self, answers: str) -> Finding:
        """Return the finding on one kind of answers, by its description or the start of it."""
        for finding in self.listed:
            if finding.answers.startswith(answers):
                return finding
        kinds = [finding.answers for finding in self.listed]
        raise _unknown_name_error("answers", answers, kinds, ", or the start of one")

    @property
    def holds(self) -> bool:
        """Return whether every ceiling held."""
        return all(finding.holds for finding in self.listed)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Plot the share of correct guesses on each kind of answers, with blind guessing and ceilings marked."""
        bars = [(finding.answers, finding.success, finding.chance, finding.ceiling) for finding in self.listed]
        return save_if_path(plot_findings(self.attack, bars, self.words), path)

    def __str__(self) -> str:
        rows = [_HEADER, *(_finding_cells(finding) for finding in self.listed)]
        widths = [max(len(row[index]) for row in rows) for index in range(len(_HEADER))]
        lines = [
            "  ".join(
                (cell.ljust if index == 0 else cell.rjust)(widths[index]) for index, cell in enumerate(row)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.attack, *(f"  {line}" for line in lines), *self.words])

    def to_json(self) -> str:
        """Serialise to JSON, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Findings:
        """Parse the output of ``to_json``; any other text is refused."""
        return codec.loads_as(cls, source)

    def _repr_html_(self) -> str:
        table = html_fragments.table(
            _HEADER, [_finding_cells(finding) for finding in self.listed], _HEADER[1:], self.attack
        )
        return table + html_fragments.paragraphs(self.words)


_HEADER = ("answers", "questions", "right", "of", "share", "blind", "ceiling")


def _finding_cells(finding: Finding) -> tuple[str, ...]:
    ceiling = (
        "none" if finding.ceiling is None else format_percent_up(finding.ceiling) + ("" if finding.holds else " BROKEN")
    )
    share, blind = _format_percent(finding.success), _format_percent(finding.chance)
    return finding.answers, f"{finding.questions:,}", f"{finding.right:,}", f"{finding.trials:,}", share, blind, ceiling


def _format_percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _unknown_name_error(parameter: str, name: object, names: Sequence[str], also: str = "") -> InvalidParameter:
    """Return the refusal of a name that is none of these."""
    allowed = f"one of {', '.join(map(repr, names))}{also}"
    return InvalidParameter(parameter, name, allowed, fix=f"for example, set {parameter} to {names[0]!r}")


def _checked_share(number_or_text: Any, name: str) -> float:
    number = codec.parse_float(number_or_text, name)
    if not 0 <= number <= 1:
        raise InvalidParameter(name, number_or_text, "a number from 0 to 1")
    return number


CEILING = "ceiling"
"""The name of the theoretical ceiling's curve."""


@codec.serialisable("attack-course")
@dataclass(frozen=True)
class SuccessCurve:
    """The share of correct guesses at each parameter value, under one name."""

    name: str
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "shares", _checked_numbers(self.shares, "shares"))
        if not all(0 <= share <= 1 for share in self.shares):
            raise InvalidParameter("shares", self.shares, "a tuple of numbers from 0 to 1")

    def format_share(self, share: float) -> str:
        """Format a share in percent; a ceiling is rounded up."""
        return format_percent_up(share) if self.name == CEILING else f"{100 * share:.1f} %"


@codec.serialisable("attack-sweep")
@dataclass(frozen=True)
class Sweep:
    """Several success curves over the same parameter values."""

    attack: str
    across: str
    """The name of the varied parameter."""
    at: tuple[float, ...]
    """Its values, positive and increasing."""
    courses: tuple[SuccessCurve, ...]
    mark: float | None = None
    """A parameter value to mark in the plot, labelled ``marked``."""
    marked: str = ""
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "at", _checked_numbers(self.at, "at"))
        if not self.at or self.at[0] <= 0 or any(a >= b for a, b in zip(self.at, self.at[1:], strict=False)):
            raise InvalidParameter("at", self.at, "a tuple of increasing numbers above 0")
        if self.mark is not None:
            object.__setattr__(self, "mark", codec.parse_float(self.mark, "mark"))
        courses_valid = (
            isinstance(self.courses, tuple)
            and self.courses
            and all(type(curve) is SuccessCurve for curve in self.courses)
        )
        if not courses_valid or any(len(curve.shares) != len(self.at) for curve in self.courses):
            raise InvalidParameter(
                "courses",
                self.courses,
                f'a tuple of success curves, each with one share for each number in "at": {len(self.at)}',
            )

    def __getitem__(self, name: str) -> tuple[float, ...]:
        """Return the shares of one curve by its name."""
        for curve in self.courses:
            if curve.name == name:
                return curve.shares
        raise _unknown_name_error("name", name, [curve.name for curve in self.courses])

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Plot every curve as a line over a logarithmic axis."""
        lines = [
            PlottedLine(curve.name, self.at, curve.shares, tooltips=self._point_labels(curve)) for curve in self.courses
        ]
        marked = ((self.mark, self.marked),) if self.mark is not None else ()
        lowest = min(0.4, *(share for curve in self.courses for share in curve.shares))
        axes = LineAxes("", self.across, x=LogScale, y_range=(lowest, 1.0), marks=marked)
        title = f"{self.attack[:1].upper()}{self.attack[1:]}: share of guesses that are right"
        return save_if_path(framed_picture(line_chart(lines, axes, 320), title, notes=wrap_lines(self.words)), path)

    def _point_labels(self, curve: SuccessCurve) -> tuple[str, ...]:
        return tuple(
            f"{curve.name} at {size:g}: {curve.format_share(share)}"
            for size, share in zip(self.at, curve.shares, strict=True)
        )

    def _table_rows(self) -> list[list[str]]:
        columns = [[f"{size:g}" for size in self.at]]
        columns += [[curve.format_share(share) for share in curve.shares] for curve in self.courses]
        return [list(row) for row in zip(*columns, strict=True)]

    def __str__(self) -> str:
        rows = [self._header, *self._table_rows()]
        widths = [max(len(row[index]) for row in rows) for index in range(len(self._header))]
        lines = ["  ".join(cell.rjust(widths[index]) for index, cell in enumerate(row)) for row in rows]
        mark_note = [f"marked: {self.mark:g}, {self.marked}"] if self.mark is not None else []
        return "\n".join([self.attack, *(f"  {line}" for line in lines), *mark_note, *self.words])

    @property
    def _header(self) -> list[str]:
        return [self.across, *(curve.name for curve in self.courses)]

    def to_json(self) -> str:
        """Serialise to JSON, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Sweep:
        """Parse the output of ``to_json``; any other text is refused."""
        return codec.loads_as(cls, source)

    def _repr_html_(self) -> str:
        table = html_fragments.table(self._header, self._table_rows(), self._header, self.attack)
        return table + html_fragments.paragraphs(self.words)


def _checked_numbers(numbers: Any, name: str) -> tuple[float, ...]:
    if not isinstance(numbers, tuple):
        raise InvalidParameter(name, numbers, "a tuple of numbers")
    return tuple(codec.parse_float(number, name) for number in numbers)


TABLE = "people"
_MEMORY_FOLDER = "/dev/shm"
"""Linux's in-memory folder: a temporary ledger need not wait for a disk at each charge."""


@contextmanager
def temporary_curator(policy: Policy) -> Iterator[Curator]:
    """Open a curator with a temporary ledger, which is removed on exit.

    Warnings about a large ε are suppressed, and any δ is allowed: attacks run at any price on purpose.
    """
    from sfumato.curator import Curator

    with (
        tempfile.TemporaryDirectory(prefix="sfumato-", dir=_shared_memory_folder()) as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", WeakPrivacy)
        with Curator(replace(policy, allow_large_delta=True), Path(folder) / "scratch", threads=1) as curator:
            yield curator


def _shared_memory_folder() -> str | None:
    return _MEMORY_FOLDER if os.path.isdir(_MEMORY_FOLDER) and os.access(_MEMORY_FOLDER, os.W_OK) else None


def simulated_policy(
    columns: Mapping[str, tuple[Any, Domain]],
    epsilon: Number,
    delta: Number = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Policy:
    """Return a policy over one table of simulated people, a row each, with this budget."""
    import pyarrow

    rows = pyarrow.table({name: values for name, (values, _) in columns.items()})
    declared = {name: domain for name, (_, domain) in columns.items()}
    table = Table(TABLE, InMemory(rows), declared, id="row")
    budget = Budget(epsilon, delta, neighbours=neighbours)
    size = rows.num_rows if neighbours is Neighbours.REPLACE else None  # public under replace neighbours
    unit = PrivacyUnit("person", every_row=True)
    return Policy(unit, budget, {TABLE: table}, account="invented people", size=size)
