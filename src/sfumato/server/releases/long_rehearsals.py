"""A rehearsal is free, and so it must not take a server's time from everybody else; nor must finding a price.

Most rehearse on a few hundred invented rows. A synthesis runs all of its rounds, on as many rows as are named, which
may take minutes. How long is forecast from the policy and the price alone, before any row is invented. A model that is
fitted in rounds counts as a free question for each of them, and a price that is found for a width, which is tried at
many prices, as one for each column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sfumato.curator.proposals.mwem import MwemProposal
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.errors import Unsupported

LONGEST = 10.0
"""The seconds that a rehearsal may be expected to take here."""


def more_for_a_price(proposal: Any, price: Mapping[str, Any]) -> int:
    """Say as how many free questions more than others one counts that finds the price of a width: by its columns."""
    return len(proposal.columns) - 1 if price.get("within") is not None else 0


def questions_more(proposal: Any, price: Mapping[str, Any], per_second: float) -> int:
    """Say as how many free questions more than others a rehearsal counts: those that could be asked while it runs. One
    that is expected to take too long is refused.
    """
    if isinstance(proposal, MwemProposal):
        return proposal.rounds
    if not isinstance(proposal, SynthesisProposal):
        return 0
    seconds = proposal.forecast(**price).seconds
    if seconds > LONGEST:
        raise Unsupported(
            "long-rehearsal",
            f"a rehearsal takes at most {LONGEST:g} s at a server, and this one is expected to take {seconds:.3g} s",
            fix="rehearse fewer rows (rows=1000), fewer columns or smaller sets of them; or, as the owner, without the "
            "server",
        )
    return math.ceil(seconds * per_second)
