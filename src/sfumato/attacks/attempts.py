"""An attempt is one thing that was guessed about an invented target, from exact answers and from those of a policy."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.attacks.findings import Finding


@dataclass(frozen=True)
class Attempt:
    """An attempt is one thing that was guessed, from exact answers and from the policy's."""

    guessed: str
    """What was guessed, in words."""
    question: str
    """The SQL that was asked."""
    exact: Finding
    private: Finding
