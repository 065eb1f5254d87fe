"""An attempt is one thing that was guessed about an invented target, from exact answers and from those of a policy."""

from __future__ import annotations

from dataclasses import dataclass

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
