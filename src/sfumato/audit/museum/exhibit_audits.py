"""Audit exhibits: refute the broken mechanism's claim from samples while its correct twin passes."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from sfumato import html_fragments
from sfumato.audit.lower_bounds.falsifying import falsify
from sfumato.audit.museum import (
    broken_arithmetic,
    leaking_accounts,
    local_reports,
    revealing_groups,
    side_channels,
    sparse_vectors,
    too_little_noise,
    wrong_selections,
    wrong_sensitivities,
)
from sfumato.audit.museum.exhibits import DemonstrationNoise, Exhibit, Mechanism, Outputs, Room
from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import Number, exact_integer
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.audit.lower_bounds.verdicts import Verdict


ROOMS: tuple[Room, ...] = (
    too_little_noise.ROOM,
    wrong_sensitivities.ROOM,
    sparse_vectors.ROOM,
    wrong_selections.ROOM,
    revealing_groups.ROOM,
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
    """The audit verdicts of a broken mechanism and of its correct twin.

    A correct mechanism is refuted with probability at most 1 − confidence, by default one in a million per verdict.
    """

    exhibit: Exhibit
    broken: Verdict
    correct: Verdict

    @property
    def caught(self) -> bool:
        """Return whether the samples refute the broken mechanism's claim."""
        return not self.broken.holds

    @property
    def passes(self) -> bool:
        """Return whether the samples fail to refute the correct twin's claim."""
        return self.correct.holds

    @property
    def words(self) -> str:
        """Return the outcome in a few words."""
        return ("caught" if self.caught else "NOT CAUGHT") + ("" if self.passes else ", AND ITS TWIN IS REFUTED")

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """Return the row of the tour's table."""
        claimed = f"{float(self.exhibit.claim.epsilon):.4g}"
        proven, twin_proven = (f"{verdict.lower_bound:.2f}" for verdict in (self.broken, self.correct))
        return self.exhibit.name, claimed, proven, twin_proven, self.words

    def __str__(self) -> str:
        return f"{self.exhibit.name}: {self.words}.\n  broken   {self.broken}\n  correct  {self.correct}"

    __repr__ = __str__


@dataclass(frozen=True)
class Tour:
    """The catches of all exhibits, as a table."""

    catches: tuple[Catch, ...]

    @property
    def holds(self) -> bool:
        """Return whether every broken mechanism was caught and every correct twin passed."""
        return all(audit.caught and audit.passes for audit in self.catches)

    def __str__(self) -> str:
        rows = [_COLUMNS, *(audit.row for audit in self.catches)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        return "\n".join(_align_row(row, widths) for row in rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_fragments.table(_COLUMNS, (audit.row for audit in self.catches), numeric=_COLUMNS[1:4])


def _align_row(row: tuple[str, ...], widths: list[int]) -> str:
    """Align a row: the name to the left, figures to the right."""
    name, *figures, words = row
    cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(figures, widths[1:-1], strict=True))]
    return "  ".join([*cells, words]).rstrip()


def catch(exhibit: Exhibit | str, samples: int | None = None, confidence: Number = _CONFIDENCE, seed: int = 1) -> Catch:
    """Audit an exhibit: samples should refute the broken mechanism and not its correct twin.

    ``exhibit`` is an Exhibit or its name. ``samples`` is the number of runs per world, by default the exhibit's own.

    >>> catch("Half the noise").caught
    True
    """
    chosen = _find_exhibit(exhibit) if isinstance(exhibit, str) else exhibit
    if not isinstance(chosen, Exhibit):
        fix = 'for example, pass "Half the noise"'
        raise InvalidParameter("exhibit", exhibit, "an Exhibit, or the name of one", fix=fix)
    runs = chosen.samples if samples is None else samples
    checked_seed = exact_integer(seed, "seed", at_least=0)
    verdicts = (
        falsify(_samplers_of(mechanism, chosen, f"{variant} {checked_seed}"), chosen.claim, runs, confidence)
        for variant, mechanism in (("broken", chosen.broken), ("correct", chosen.correct))
    )
    return Catch(chosen, *verdicts)


def tour(samples: int | None = None, confidence: Number = _CONFIDENCE, seed: int = 1) -> Tour:
    """Audit every exhibit of the museum."""
    return Tour(tuple(catch(exhibit, samples, confidence, seed) for exhibit in EXHIBITS))


def _find_exhibit(name: str) -> Exhibit:
    by_name = {exhibit.name: exhibit for exhibit in EXHIBITS}
    if name in by_name:
        return by_name[name]
    nearest = get_close_matches(name, by_name, 1)
    fix = (
        f"did you mean {nearest[0]!r}?"
        if nearest
        else "list the names: [exhibit.name for exhibit in audit.museum.EXHIBITS]"
    )
    raise InvalidParameter("exhibit", name, "the name of an exhibit in the museum", fix=fix)


def _samplers_of(mechanism: Mechanism, exhibit: Exhibit, label: str) -> list[Callable[[int], Outputs]]:
    """Return a sampler of a mechanism per world, each with its own noise."""

    def sampler(index: int, world_input: Any) -> Callable[[int], Outputs]:
        return lambda count: mechanism(DemonstrationNoise.from_labels(exhibit.name, label, index), world_input, count)

    return [sampler(index, world_input) for index, world_input in zip((0, 1), exhibit.inputs, strict=True)]
