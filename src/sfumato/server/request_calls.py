"""The calls of a gateway about requests for approval: roles and logging; the desk does the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sfumato.curator.request_views import RequestView
from sfumato.errors import InvalidParameter
from sfumato.quick_dataclass import dataclass
from sfumato.server.approvals import ApprovalService, RequestedRelease, ShareTerms
from sfumato.server.people.users import Caller, Role
from sfumato.server.releases.flights import Flight
from sfumato.server.releases.running_releases import request_cost_in_questions

_ROUTE = "requests"
_ASKING = (Role.OWNER, Role.ANALYST)


class CallLogger(Protocol):
    """Logs a call that is restricted to some roles."""

    def __call__(self, caller: Caller, route: str, *roles: Role) -> AbstractContextManager[None]: ...


@dataclass(frozen=True)
class RequestCalls:
    """Requests for approval as callers may use them. Thread-safe."""

    desk: ApprovalService
    logged_as: CallLogger
    require_visible: Callable[[Caller, str], None]
    """Raises ``NotThere`` for a policy that the caller may not see."""
    count: Callable[[str, int], None]
    """Counts a call against the rate limit of a user."""
    start: Callable[[Caller, str, RequestedRelease, str], Flight]
    is_user: Callable[[str], bool]
    """Whether somebody of this name is enabled."""

    def file(
        self, caller: Caller, name: str, release: RequestedRelease, purpose: str, days: int | None = None
    ) -> RequestView:
        """File a request for a release that needs approval."""
        with self.logged_as(caller, _ROUTE, *_ASKING):
            self.count(caller.user, request_cost_in_questions("preview", release.spec))
            return self.desk.file(caller, name, release, purpose, days)

    def approval_reason(self, caller: Caller, name: str, release: RequestedRelease) -> str:
        """Return why a release would wait for an approval now; empty if it would not."""
        with self.logged_as(caller, _ROUTE, *_ASKING):
            return self.desk.approval_reason(caller, name, release)

    def list(self, caller: Caller, name: str) -> tuple[RequestView, ...]:
        """List the requests that the caller may see, newest first: analysts see their own."""
        with self.logged_as(caller, _ROUTE, *Role):
            self.require_visible(caller, name)
            return self.desk.list(caller, name)

    def show(self, caller: Caller, name: str, number: int) -> RequestView:
        with self.logged_as(caller, _ROUTE, *Role):
            self.require_visible(caller, name)
            return self.desk.show(caller, name, number)

    def approve(self, caller: Caller, name: str, number: int, reason: str = "") -> RequestView:
        """Approve a request of somebody else."""
        with self.logged_as(caller, _ROUTE, Role.OWNER):
            return self.desk.approve(caller, name, number, reason)

    def refuse(self, caller: Caller, name: str, number: int, reason: str) -> RequestView:
        """Refuse a request of somebody else, or take back an approval that was not yet used."""
        with self.logged_as(caller, _ROUTE, Role.OWNER):
            return self.desk.refuse(caller, name, number, reason)

    def preapprove_releases(self, caller: Caller, name: str, share: ShareTerms) -> RequestView:
        """Grant a share of releases that need no further request."""
        with self.logged_as(caller, _ROUTE, Role.OWNER):
            if not self.is_user(share.user):
                raise InvalidParameter(
                    "user",
                    share.user,
                    "an enabled user of this server",
                    fix="check the name, or enable the user again with `sfumato user enable NAME`",
                )
            return self.desk.preapprove_releases(caller, name, share)

    def request_publication(self, caller: Caller, name: str, lines: Sequence[int], purpose: str) -> RequestView:
        """Request that your own answers be published."""
        with self.logged_as(caller, _ROUTE, *_ASKING):
            self.count(caller.user, 1 + len(lines))
            return self.desk.request_publication(caller, name, lines, purpose)

    def withdraw(self, caller: Caller, name: str, number: int, reason: str = "") -> RequestView:
        """Withdraw your own request."""
        with self.logged_as(caller, _ROUTE, *_ASKING):
            self.require_visible(caller, name)
            return self.desk.withdraw(caller, name, number, reason)

    def release(self, caller: Caller, name: str, number: int, request_id: str) -> Flight:
        """Start the release of an own request, exactly as it was filed."""
        with self.logged_as(caller, _ROUTE, *_ASKING):
            self.require_visible(caller, name)
            return self.start(caller, name, self.desk.approved_release(caller, name, number), request_id)
