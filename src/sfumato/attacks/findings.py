"""A finding says how far an attack came on one kind of answers, beside blind guessing and beside theory's ceiling."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato import notebook_html
from sfumato.attacks.ceilings import least_proven, most_right, percent_up
from sfumato.attacks.finding_pictures import draw_findings
from sfumato.errors import InvalidParameter
from sfumato.plots.picture import Picture, saved
from sfumato.privacy import codec

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
