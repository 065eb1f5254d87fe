"""A finding says how far an attack came on one kind of answers, beside blind guessing and beside theory's ceiling.

Findings are drawn as bars: the share of right guesses on each kind of answers, what blind guessing reaches, and
theory's ceiling.

A sweep is an attack at many sizes of one thing, such as the noise or the number of questions, drawn as lines.

Many runs of an attack are asked side by side: one table holds the people of all of them, and one question groups by
run.

Nobody is in two runs, so what a unit can change lies within its own: each run is released at the whole price (parallel
composition, McSherry 2009), by the real path from SQL to noise, with a ledger that is thrown away. No data but invented
people are read.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import notebook_html
from sfumato.attacks.ceilings import least_proven, most_right, percent_up
from sfumato.errors import InvalidParameter, WeakPrivacy
from sfumato.plots.frame import BELOW, INSIDE, SMALL, Drawing, bottom, framed
from sfumato.plots.lines import Panel, PlottedLine, panel
from sfumato.plots.marks import BAR, QUIET, SAMPLE, box, label, path, upright, width
from sfumato.plots.picture import Picture, saved
from sfumato.plots.scales import LinearScale, LogScale
from sfumato.policy import Domain, InMemory, Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit, codec
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator import Curator


_STEP = 34.0
_TALL = 18.0

Bar = tuple[str, float, float, float | None]
"""The kind of answers, the share of right guesses, that of blind ones, and the ceiling."""


def draw_findings(title: str, bars: Sequence[Bar], foot: Sequence[str] = ()) -> Picture:
    """Draw one bar for each kind of answers, from nothing to all guesses right."""
    above = f"{title[:1].upper()}{title[1:]}: share of guesses that are right"
    return framed(_bars(bars), above, notes=(_KEY, *lines_of(foot)))


def lines_of(texts: Sequence[str]) -> list[str]:
    """Cut every text between words, so that each line has the room it takes."""
    return [line for each in texts for line in textwrap.wrap(each, _LETTERS)]


_KEY = "Grey line: guessing without any answer. Red line: the most that theory allows, but for luck."
_LETTERS = 115


def _bars(bars: Sequence[Bar]) -> Drawing:
    left = min(max(width(name) for name, *_ in bars), 0.36 * INSIDE) + 10
    scale = LinearScale(0.0, 1.0, left, INSIDE - 60)
    foot = len(bars) * _STEP + 4
    parts = list(bottom(scale, 0.0, foot))
    for place, (name, success, chance, ceiling) in enumerate(bars):
        y = place * _STEP + (_STEP - _TALL) / 2
        told = f"{name}: {100 * success:.1f} % right"
        parts.append(label(left - 10, y + 13, name, anchor="end", room=left - 10))
        parts.append(box(left, y, scale(success) - left, _TALL, BAR, say=told))
        parts.append(path([upright(scale(chance), y - 4, y + _TALL + 4)], QUIET, 2, ' stroke-dasharray="3 2"'))
        if ceiling is not None:
            parts.append(path([upright(scale(ceiling), y - 6, y + _TALL + 6)], SAMPLE, 3))
        parts.append(label(INSIDE, y + 13, f"{100 * success:.1f} %", anchor="end", size=SMALL, fill=QUIET))
    return Drawing(tuple(parts), INSIDE, foot + BELOW)


ALARM = "1e-6"
HALF_ALARM = "5e-7"
"""How often a finding on answers that keep their promise may pass the ceiling by chance."""


@codec.value("attack-finding")
@dataclass(frozen=True)
class Finding:
    """A finding is what an attack reached on one kind of answers."""

    attack: str
    """The name of the attack."""
    answers: str
    """What the answers were like, in words: "exact", "private, ε = 1"."""
    right: int
    """How many guesses were right."""
    trials: int
    """How many guesses were made."""
    chance: float
    """The share of right guesses without any answer."""
    ceiling: float | None = None
    """The largest share that theory allows; None where the answers promise nothing."""
    questions: int = 0
    """How many answers the attack used."""
    note: str = ""
    """What else is to be said, as a sentence."""
    coins: bool = True
    """Whether every guess is about a coin of which the guesser knows nothing but the answers: only then a share of a
    half is blind, and right guesses prove an ε."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if not self.trials > 0 or not 0 <= self.right <= self.trials or self.questions < 0:
            raise InvalidParameter("right", (self.right, self.trials), "a number of right guesses among some")
        object.__setattr__(self, "chance", _share(self.chance, "chance"))
        if self.ceiling is not None:
            object.__setattr__(self, "ceiling", _share(self.ceiling, "ceiling"))

    @property
    def success(self) -> float:
        """Compute the share of guesses that were right."""
        return self.right / self.trials

    @property
    def holds(self) -> bool:
        """Tell whether the ceiling held: where it is true, this fails once in a million times. Without a ceiling there
        is nothing to hold. Where guesses are not about coins, the ceiling follows from other guesses, which may be
        misleading by chance: they have one half of that chance, and these the other.
        """
        alarm = ALARM if self.coins else HALF_ALARM
        return self.ceiling is None or self.right <= most_right(self.trials, self.ceiling, alarm)

    @property
    def least_epsilon(self) -> float:
        """Find the ε that so many right guesses of uniform bits prove, except once in a million times; 0 where the
        guesses are not about uniform bits.
        """
        return least_proven(self.right, self.trials, ALARM) if self.coins and self.chance == 0.5 else 0.0

    def __str__(self) -> str:
        bound = "no ceiling" if self.ceiling is None else f"at most {percent_up(self.ceiling)} by theory"
        held = "" if self.holds else ": THE CEILING DID NOT HOLD"
        return (
            f"{self.attack} on {self.answers} answers: {_percent(self.success)} right of {self.trials} "
            f"(blind guesses {_percent(self.chance)}, {bound}){held}"
        )

    def to_json(self) -> str:
        """Write the finding as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Finding:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def _repr_html_(self) -> str:
        return Findings(self.attack, (self,))._repr_html_()


@codec.value("attack-findings")
@dataclass(frozen=True)
class Findings:
    """Findings are one attack on several kinds of answers, side by side."""

    attack: str
    listed: tuple[Finding, ...]
    words: tuple[str, ...] = ()
    """What the attack does and what follows, in sentences."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if not isinstance(self.listed, tuple) or not self.listed or not all(type(x) is Finding for x in self.listed):
            raise InvalidParameter("listed", self.listed, "at least one finding")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)

    def __getitem__(self, answers: str) -> Finding:
        """Find what was reached on one kind of answers, by its words or how they begin."""
        for each in self.listed:
            if each.answers.startswith(answers):
                return each
        raise InvalidParameter("answers", answers, "one of " + ", ".join(each.answers for each in self.listed))

    @property
    def holds(self) -> bool:
        """Tell whether every ceiling held."""
        return all(each.holds for each in self.listed)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the share of right guesses on each kind of answers, with blind guessing and the ceilings marked."""
        bars = [(each.answers, each.success, each.chance, each.ceiling) for each in self.listed]
        return saved(draw_findings(self.attack, bars, self.words), path)

    def __str__(self) -> str:
        rows = [_HEAD, *(_cells(each) for each in self.listed)]
        wide = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
        lines = [
            "  ".join(
                (cell.ljust if place == 0 else cell.rjust)(wide[place]) for place, cell in enumerate(row)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.attack, *(f"  {line}" for line in lines), *self.words])

    def to_json(self) -> str:
        """Write the findings as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Findings:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def _repr_html_(self) -> str:
        table = notebook_html.table(_HEAD, [_cells(each) for each in self.listed], _HEAD[1:], self.attack)
        return table + notebook_html.paragraphs(self.words)


_HEAD = ("answers", "questions", "right", "of", "share", "blind", "ceiling")


def _cells(each: Finding) -> tuple[str, ...]:
    ceiling = "none" if each.ceiling is None else percent_up(each.ceiling) + ("" if each.holds else " BROKEN")
    share, blind = _percent(each.success), _percent(each.chance)
    return each.answers, f"{each.questions:,}", f"{each.right:,}", f"{each.trials:,}", share, blind, ceiling


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _share(found: Any, name: str) -> float:
    number = codec.real(found, name)
    if not 0 <= number <= 1:
        raise InvalidParameter(name, found, "a share between 0 and 1")
    return number


CEILING = "ceiling"
"""What the course of theory's most is called."""


@codec.value("attack-course")
@dataclass(frozen=True)
class SuccessCurve:
    """A course is the share of right guesses at each size, under one name."""

    name: str
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "shares", _numbers(self.shares, "shares"))
        if not all(0 <= share <= 1 for share in self.shares):
            raise InvalidParameter("shares", self.shares, "shares between 0 and 1")

    def shown(self, share: float) -> str:
        """Write one of its shares as percent: a ceiling is rounded up."""
        return percent_up(share) if self.name == CEILING else f"{100 * share:.1f} %"


@codec.value("attack-sweep")
@dataclass(frozen=True)
class Sweep:
    """A sweep holds several courses along the same sizes."""

    attack: str
    across: str
    """What grows from left to right, in words."""
    at: tuple[float, ...]
    """Its sizes, each above 0 and growing."""
    courses: tuple[SuccessCurve, ...]
    mark: float | None = None
    """A size that is marked, and ``marked`` says as what."""
    marked: str = ""
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "at", _numbers(self.at, "at"))
        if not self.at or self.at[0] <= 0 or any(a >= b for a, b in zip(self.at, self.at[1:], strict=False)):
            raise InvalidParameter("at", self.at, "numbers above 0 that grow")
        if self.mark is not None:
            object.__setattr__(self, "mark", codec.real(self.mark, "mark"))
        fitting = (
            isinstance(self.courses, tuple) and self.courses and all(type(x) is SuccessCurve for x in self.courses)
        )
        if not fitting or any(len(each.shares) != len(self.at) for each in self.courses):
            raise InvalidParameter("courses", self.courses, f"courses of {len(self.at)} shares")

    def __getitem__(self, name: str) -> tuple[float, ...]:
        """Give the shares of one course by its name."""
        for each in self.courses:
            if each.name == name:
                return each.shares
        raise InvalidParameter("name", name, "one of " + ", ".join(each.name for each in self.courses))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw every course as a line, sizes along a scale of powers of ten."""
        lines = [PlottedLine(each.name, self.at, each.shares, said=self._said(each)) for each in self.courses]
        marked = ((self.mark, self.marked),) if self.mark is not None else ()
        lowest = min(0.4, *(share for each in self.courses for share in each.shares))
        of = Panel("", self.across, x=LogScale, ends=(lowest, 1.0), marked=marked)
        title = f"{self.attack[:1].upper()}{self.attack[1:]}: share of guesses that are right"
        return saved(framed(panel(lines, of, 320), title, notes=lines_of(self.words)), path)

    def _said(self, course: SuccessCurve) -> tuple[str, ...]:
        return tuple(
            f"{course.name} at {size:g}: {course.shown(share)}"
            for size, share in zip(self.at, course.shares, strict=True)
        )

    def _rows(self) -> list[list[str]]:
        columns = [[f"{size:g}" for size in self.at]]
        columns += [[each.shown(share) for share in each.shares] for each in self.courses]
        return [list(row) for row in zip(*columns, strict=True)]

    def __str__(self) -> str:
        rows = [self._head, *self._rows()]
        wide = [max(len(row[place]) for row in rows) for place in range(len(self._head))]
        lines = ["  ".join(cell.rjust(wide[place]) for place, cell in enumerate(row)) for row in rows]
        noted = [f"marked: {self.mark:g}, {self.marked}"] if self.mark is not None else []
        return "\n".join([self.attack, *(f"  {line}" for line in lines), *noted, *self.words])

    @property
    def _head(self) -> list[str]:
        return [self.across, *(each.name for each in self.courses)]

    def to_json(self) -> str:
        """Write the sweep as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Sweep:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def _repr_html_(self) -> str:
        table = notebook_html.table(self._head, self._rows(), self._head, self.attack)
        return table + notebook_html.paragraphs(self.words)


def _numbers(found: Any, name: str) -> tuple[float, ...]:
    if not isinstance(found, tuple):
        raise InvalidParameter(name, found, "a tuple of numbers")
    return tuple(codec.real(each, name) for each in found)


TABLE = "people"
_MEMORY = "/dev/shm"
"""Where Linux keeps files in memory: what is thrown away need not reach a disk, which is waited for at each charge."""


@contextmanager
def thrown_away(policy: Policy) -> Iterator[Curator]:
    """Open a curator whose ledger is in a folder of its own, which is removed with everything that was spent.

    Attacks are made at whatever price an owner would promise, and a warning that it is high would be said to nobody.
    """
    from sfumato.curator import Curator

    with tempfile.TemporaryDirectory(prefix="sfumato-", dir=_in_memory()) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacy)
        with Curator(policy, Path(folder) / "scratch", threads=1) as curator:
            yield curator


def _in_memory() -> str | None:
    return _MEMORY if os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK) else None


def invented(
    columns: Mapping[str, tuple[Any, Domain]],
    epsilon: Number,
    delta: Number = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Policy:
    """Declare a table of invented people, a row each: values and domain of every column, and what may be spent."""
    import pyarrow

    rows = pyarrow.table({name: values for name, (values, _) in columns.items()})
    declared = {name: domain for name, (_, domain) in columns.items()}
    table = Table(TABLE, InMemory(rows), declared, id="row")
    budget = Budget(epsilon, delta, neighbours=neighbours)
    size = rows.num_rows if neighbours is Neighbours.REPLACE else None  # then everybody knows it
    unit = PrivacyUnit("person", every_row=True)
    return Policy(unit, budget, {TABLE: table}, account="invented people", size=size)
