"""Find the answer that a release would be given for free; nothing is charged on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.errors import Unsupported
from sfumato.mechanisms import bits
from sfumato.server.people.token_spending_limits import AnswerNotStored
from sfumato.server.releases.flights import FlightResult


def find_stored(proposal: Any, price: Mapping[str, Any], request_id: str) -> FlightResult | None:
    """Return the stored answer of a proposal that may spend nothing; None if it would have to be bought."""
    identity = {} if price.get("free") else {"request_id": request_id}  # what a synopsis answers is no request
    try:
        return FlightResult.from_answer(proposal.release(**price, **identity, progress=_refuse_charge))
    except AnswerNotStored:
        return None


def require_stored(stored_result: FlightResult | None) -> Any:
    """Return a stored answer; refuse where there is none."""
    if stored_result is None:
        rule = "no answer to this is stored that is at least as accurate"
        raise Unsupported("not-stored", rule, fix="release the answer instead, which is charged")
    return stored_result.answer


def new_request_id() -> str:
    """Return an id that no other request has."""
    return f"{bits.random_bits(128):032x}"


def _refuse_charge(phase: str) -> None:  # noqa: ARG001
    raise AnswerNotStored
