"""A stored answer says this of itself, so that it can be shown years later with a receipt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.plan import words
from sfumato.privacy import codec
from sfumato.release.prices import Price, weak_words

if TYPE_CHECKING:
    from sfumato.plan.bounding import Bounded


@codec.value("purchase")
@dataclass(frozen=True)
class Purchase:
    """A purchase is the terms on which an answer was bought: whoever reads it later gets this promise, not the one they
    asked for.
    """

    price: str = ""
    strategy: str = ""
    """How a unit's part was limited when it was measured."""
    limits: str = ""
    bounds: tuple[str, ...] = ()
    data: str = ""
    """The version of the data, as readers are told."""
    weak: tuple[str, ...] = ()
    """Why the price promises little, in words: it is told with the answer, whoever reads it."""
    salt: str = ""
    """A random number: the hash of the line that holds this is printed in receipts, and must not let a guess be
    tested."""

    @property
    def public(self) -> Purchase:
        """Give the same without its salt, as it is shown: who knew the salt could test guesses of what else the line
        says against its hash.
        """
        return replace(self, salt="")


NOT_BOUGHT = Purchase()
"""The terms of what was never bought, such as a forecast."""


def purchase(bounded: Sequence[Bounded], price: Price, version: str) -> Purchase:
    """State the terms of a release that is made now, of what is measured under these boundings."""
    from sfumato.mechanisms import bits  # whoever reads a purchase draws nothing

    used = [each for each in bounded if each.measures]
    known = (words.bounds(scaled) for each in used for scaled in each.measures)
    return Purchase(
        str(price),
        _listed(each.strategy.value for each in used),
        _listed(words.enforced(each) for each in used),
        tuple(dict.fromkeys(each for each in known if each is not None)),
        version,
        weak_words(price),
        f"{bits.integer(128):032x}",
    )


def _listed(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
