"""What ``delta="default"`` accepts: the δ that is offered now, or the one behind a stored answer, which is free."""

from __future__ import annotations

from typing import Any

from sfumato.curator.context import Context
from sfumato.privacy.numbers import ACCEPT_DEFAULT
from sfumato.release.proposal import ReleaseCall, is_stored
from sfumato.release.requests import PriceRequest, RequestedSeries


def with_offered_delta(question: Any, context: Context, request: PriceRequest, call: ReleaseCall) -> PriceRequest:
    """Return the request with the δ that a question offers; once none is left, only a stored answer is still offered
    one, which is not spent.
    """
    offered = request.accept_delta(question.default_delta)
    if request.delta != ACCEPT_DEFAULT or question.default_delta or not question.discovered_keys:
        return offered
    assumed = request.accept_delta(question.assumed_delta)
    if RequestedSeries(context, question.text, question.plan_key, call).find_stored() is not None:
        return assumed
    release = None if call.fresh else question.release_strategy(question.price_release(assumed))
    return offered if release is None or not is_stored(release, question.plan_key, context) else assumed
