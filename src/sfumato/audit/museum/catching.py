"""A catch is the proof, from samples, that an exhibit is broken and that its correct twin is not.

The museum has nine rooms, and every exhibit has a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from sfumato import notebook_html
from sfumato.audit.lower_bounds.falsifying import falsify
from sfumato.audit.museum import (
    broken_arithmetic,
    leaking_accounts,
    local_reports,
    shown_keys,
    side_channels,
    sparse_vectors,
    too_little_noise,
    wrong_choices,
    wrong_sensitivities,
)
from sfumato.audit.museum.exhibits import DemonstrationNoise, Exhibit, Mechanism, Outputs, Room
from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import Number, whole

if TYPE_CHECKING:
    from sfumato.audit.lower_bounds.verdicts import Verdict


ROOMS: tuple[Room, ...] = (
    too_little_noise.ROOM,
    wrong_sensitivities.ROOM,
    sparse_vectors.ROOM,
    wrong_choices.ROOM,
    shown_keys.ROOM,
    leaking_accounts.ROOM,
    local_reports.ROOM,
    broken_arithmetic.ROOM,
    side_channels.ROOM,
)
EXHIBITS: tuple[Exhibit, ...] = tuple(exhibit for room in ROOMS for exhibit in room.exhibits)


_COLUMNS = ("exhibit", "claimed ε", "proven ε", "of its twin", "")
_CONFIDENCE = "0.999999"


@dataclass(frozen=True)
class Catch:
    """A catch holds what samples prove of a broken mechanism, and of its correct twin.

    Each verdict alone is wrong with probability at most 1 − confidence, which is one in a million unless told
    otherwise: so often is a correct mechanism called broken.
    """

    exhibit: Exhibit
    broken: Verdict
    correct: Verdict

    @property
    def caught(self) -> bool:
        """Tell whether the samples refute what the broken mechanism claims."""
        return not self.broken.holds

    @property
    def passes(self) -> bool:
        """Tell whether the claim of the correct twin survives."""
        return self.correct.holds

    @property
    def words(self) -> str:
        """Say in a few words how it ended."""
        return ("caught" if self.caught else "NOT CAUGHT") + ("" if self.passes else ", AND ITS TWIN IS REFUTED")

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """Write it as a row of the tour's table."""
        claimed = f"{float(self.exhibit.claim.epsilon):.4g}"
        proven, of_twin = (f"{each.lower_bound:.2f}" for each in (self.broken, self.correct))
        return self.exhibit.name, claimed, proven, of_twin, self.words

    def __str__(self) -> str:
        return f"{self.exhibit.name}: {self.words}.\n  broken   {self.broken}\n  correct  {self.correct}"

    __repr__ = __str__


@dataclass(frozen=True)
class Tour:
    """A tour is the catch of every exhibit, as a table."""

    catches: tuple[Catch, ...]

    @property
    def holds(self) -> bool:
        """Tell whether every broken mechanism was caught, and every correct twin was not."""
        return all(each.caught and each.passes for each in self.catches)

    def __str__(self) -> str:
        rows = [_COLUMNS, *(each.row for each in self.catches)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        return "\n".join(_aligned(row, widths) for row in rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return notebook_html.table(_COLUMNS, (each.row for each in self.catches), numeric=_COLUMNS[1:4])


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    """Write a row with its name on the left and its figures on the right."""
    name, *figures, words = row
    cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(figures, widths[1:-1], strict=True))]
    return "  ".join([*cells, words]).rstrip()


def catch(exhibit: Exhibit | str, samples: int | None = None, confidence: Number = _CONFIDENCE, seed: int = 1) -> Catch:
    """Find out whether samples prove an exhibit broken, and do not prove it of its correct twin.

    The exhibit is given by its name or as a value. ``samples`` is how many runs each of two neighbouring worlds
    gets; as many as the exhibit asks for, unless given.

    >>> catch("Half the noise").caught
    True
    """
    shown = _named(exhibit) if isinstance(exhibit, str) else exhibit
    if not isinstance(shown, Exhibit):
        raise InvalidParameter("exhibit", exhibit, "an Exhibit, or the name of one")
    runs = shown.samples if samples is None else samples
    start = whole(seed, "seed", at_least=0)
    verdicts = (
        falsify(_worlds(mechanism, shown, f"{twin} {start}"), shown.claim, runs, confidence)
        for twin, mechanism in (("broken", shown.broken), ("correct", shown.correct))
    )
    return Catch(shown, *verdicts)


def tour(samples: int | None = None, confidence: Number = _CONFIDENCE, seed: int = 1) -> Tour:
    """Find out the same of every exhibit of the museum."""
    return Tour(tuple(catch(exhibit, samples, confidence, seed) for exhibit in EXHIBITS))


def _named(name: str) -> Exhibit:
    known = {exhibit.name: exhibit for exhibit in EXHIBITS}
    if name in known:
        return known[name]
    nearest = get_close_matches(name, known, 1)
    fix = f"say {nearest[0]!r}" if nearest else "list the names with [each.name for each in audit.museum.EXHIBITS]"
    raise InvalidParameter("exhibit", name, "the name of an exhibit of the museum", fix=fix)


def _worlds(mechanism: Mechanism, exhibit: Exhibit, label: str) -> list[Callable[[int], Outputs]]:
    """Run a mechanism on both inputs, with noise of its own in each world."""

    def world(place: int, given: Any) -> Callable[[int], Outputs]:
        return lambda count: mechanism(DemonstrationNoise.of(exhibit.name, label, place), given, count)

    return [world(place, given) for place, given in zip((0, 1), exhibit.inputs, strict=True)]
