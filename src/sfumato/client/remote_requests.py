"""Requests for approval at a server: filed and released by analysts, decided by owners."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from sfumato.client.remote_proposals import (
    PolicyConnection,
    RemoteProposal,
    new_request_id,
    require_sendable_id,
    warn_if_weak,
)
from sfumato.client.wire_values import decode, encode_named
from sfumato.errors import InvalidParameter
from sfumato.ledger.approval_requests import parse_last_day
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator.request_views import RequestView


class RemoteRequests:
    """The requests of one policy that the user of the token may see."""

    def __init__(self, policy_connection: PolicyConnection) -> None:
        self._policy_connection = policy_connection

    def file(self, proposal: Any, *arguments: Any, purpose: str, days: int | None = None, **price: Any) -> RequestView:
        """File a request for a release, with the arguments that ``proposal.release`` would take. Free.

        The same request that is still open is returned, not filed twice.
        """
        if not isinstance(proposal, RemoteProposal):
            rule = "a proposal of this curator, such as curator.sql(…)"
            raise InvalidParameter("proposal", proposal, rule)
        body = {"release": proposal.release_body(*arguments, **price), **encode_named(purpose=purpose, days=days)}
        return self._send(body, repeatable=True)

    def list(self) -> tuple[RequestView, ...]:
        """List requests, newest first: analysts see their own, owners and auditors all."""
        address = self._policy_connection
        views: tuple[RequestView, ...] = decode(address.wire.get("policies", address.policy, "requests"))["requests"]
        return views

    def show(self, number: int) -> RequestView:
        """Return one request, with what is left after it and what it can reveal about one person."""
        address = self._policy_connection
        view: RequestView = decode(address.wire.get("policies", address.policy, "requests", str(number)))
        return view

    def approve(self, number: int, reason: str = "") -> RequestView:
        """Approve a request of somebody else. For owners."""
        return self._send({"reason": reason}, str(number), "approve")

    def refuse(self, number: int, reason: str) -> RequestView:
        """Refuse a request of somebody else, or take back an approval that was not yet used. For owners."""
        return self._send({"reason": reason}, str(number), "refuse")

    def withdraw(self, number: int, reason: str = "") -> RequestView:
        """Withdraw an own request."""
        return self._send({"reason": reason}, str(number), "withdraw")

    def release(self, number: int, *, request_id: str | None = None) -> Any:
        """Release what was approved, exactly as it was filed; it is charged before the first row is read."""
        key = new_request_id() if request_id is None else require_sendable_id(request_id)
        address = self._policy_connection
        path = ("policies", address.policy, "requests", str(number), "release")
        answer = decode(address.wire.send("POST", path, {}, request_id=key)["result"])
        warn_if_weak(answer)
        return answer

    def publish(self, lines: Sequence[int], *, purpose: str) -> RequestView:
        """Mark own answers for publication, by their ledger lines; an owner approves and signs a bundle of them."""
        address, body = self._policy_connection, encode_named(lines=lines, purpose=purpose)
        view: RequestView = decode(address.wire.send("POST", ("policies", address.policy, "reviews"), body))
        return view

    def grant(
        self,
        user: str,
        *,
        epsilon: Number,
        purpose: str,
        days: int | None = None,
        until: date | str | None = None,
        tables: Sequence[str] = (),
        kinds: Sequence[str] = (),
        measures: Sequence[str] = (),
    ) -> RequestView:
        """Approve releases of a user in advance: up to this ε in all, of these tables, kinds and measures. For owners.

        It is good for so many ``days``, or ``until`` the end of a day in UTC, such as "2027-06-30".
        ``measures=["count"]`` approves counts only; the others are "sum", "rank", "distinct" and "frequent".
        """
        address = self._policy_connection
        limits = {"tables": tables, "kinds": kinds, "measures": measures}
        last_day = None if until is None else parse_last_day(until).isoformat()
        body = encode_named(user=user, epsilon=epsilon, days=days, until=last_day, purpose=purpose, **limits)
        view: RequestView = decode(address.wire.send("POST", ("policies", address.policy, "grants"), body))
        return view

    def _send(self, body: dict[str, Any], *parts: str, repeatable: bool = False) -> RequestView:
        address = self._policy_connection
        path = ("policies", address.policy, "requests", *parts)
        view: RequestView = decode(address.wire.send("POST", path, body, repeatable=repeatable))
        return view

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.list())) or "no requests"
