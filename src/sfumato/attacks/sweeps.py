"""A sweep is an attack at many sizes of one thing, such as the noise or the number of questions, drawn as lines."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from sfumato import notebook_html
from sfumato.attacks.ceilings import percent_up
from sfumato.attacks.finding_pictures import lines_of
from sfumato.errors import InvalidParameter
from sfumato.plots.frame import framed
from sfumato.plots.lines import Line, Panel, panel
from sfumato.plots.picture import Picture, saved
from sfumato.plots.scales import LogScale
from sfumato.privacy import codec

CEILING = "ceiling"
"""What the course of theory's most is called."""


@codec.value("attack-course")
@dataclass(frozen=True)
class Course:
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
    courses: tuple[Course, ...]
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
        fitting = isinstance(self.courses, tuple) and self.courses and all(type(x) is Course for x in self.courses)
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
        lines = [Line(each.name, self.at, each.shares, said=self._said(each)) for each in self.courses]
        marked = ((self.mark, self.marked),) if self.mark is not None else ()
        lowest = min(0.4, *(share for each in self.courses for share in each.shares))
        of = Panel("", self.across, x=LogScale, ends=(lowest, 1.0), marked=marked)
        title = f"{self.attack[:1].upper()}{self.attack[1:]}: share of guesses that are right"
        return saved(framed(panel(lines, of, 320), title, notes=lines_of(self.words)), path)

    def _said(self, course: Course) -> tuple[str, ...]:
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
