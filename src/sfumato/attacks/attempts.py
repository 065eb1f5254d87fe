"""An attempt is one thing that was guessed about an invented target, from exact answers and from those of a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.attacks.ceilings import most_right
from sfumato.attacks.findings import Finding


@dataclass(frozen=True)
class Attempt:
    """An attempt is one thing that was guessed, from exact answers and from the policy's."""

    where: str
    """The table that was asked about, and the column whose value was guessed, if there was one."""
    guessed: str
    """What was guessed, in words."""
    paid: str
    """What was spent on it: all of an account, in one of its currencies."""
    question: str
    """The SQL that was asked."""
    exact: Finding
    private: Finding

    @property
    def most(self) -> float:
        """Give the largest share of right guesses that theory allows."""
        return 1.0 if self.private.ceiling is None else self.private.ceiling

    @property
    def powerless(self) -> bool:
        """Tell whether so few guesses could not have passed the ceiling, even if all had been right."""
        return most_right(self.private.trials, self.most) == self.private.trials


def power_words(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Name the attempts whose right guesses could not have refuted the promise; nothing where all could have."""
    without = [each.private.answers for each in attempts if each.powerless]
    if not without:
        return ()
    return (
        f"In {len(without)} of {len(attempts)} attempts so few guesses could not have refuted the promise, even if all "
        f"had been right: {'; '.join(without)}. Whether the software keeps it is what an audit looks for.",
    )


def undeclared_words(undeclared: Sequence[str]) -> tuple[str, ...]:
    """Name the columns that cannot be attacked."""
    if not undeclared:
        return ()
    return (f"Not tried, since no two values and no range are declared, or they hold lists: {', '.join(undeclared)}.",)
