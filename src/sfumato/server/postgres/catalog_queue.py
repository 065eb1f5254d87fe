"""Turns for catalog statements: a few threads of their own, so that questions never wait behind them.

A user runs one catalog statement at a time, as the user's engine does, and all users together run ``WORKERS``. Who has
to wait is bounded in number and in time; beyond that a statement is refused with 53000. A cancelled statement leaves
the queue; one that runs already has its engine ended, and the next one starts another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import TypeVar

from sfumato.errors import TooManyRequests
from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres.statements import SqlRefusal

WORKERS = 4
MAX_WAITING, MAX_WAITING_PER_USER = 100, 20
WAIT_SECONDS = 20.0
_INTERRUPT_SECONDS = 0.05
"""How often the engine of a cancelled statement is ended: the statement may not have reached it before."""
_T = TypeVar("_T")


@dataclass
class _UserTurns:
    """The statements of one user that run or wait."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    count: int = 0


@dataclass
class _StatementState:
    """One statement in the queue."""

    is_running: bool = False


class CatalogQueue:
    """The catalog statements of one event loop."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._threads = ThreadPoolExecutor(workers, "catalog")
        self._workers = asyncio.Semaphore(workers)
        self._users: dict[str, _UserTurns] = {}

    async def run(
        self, user: str, call: Callable[[], _T], interrupt: Callable[[], None], cancelled: asyncio.Event
    ) -> _T:
        """Run a blocking call when it is the user's turn.

        ``interrupt`` is called from the event loop if the event is set while the call runs, until the call returns.

        Raises: TooManyRequests: Too many wait. SqlRefusal: It was cancelled.
        """
        self._require_room(user)
        statement = _StatementState()
        running = asyncio.ensure_future(self._take_turn(user, call, statement))
        cancelling = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({running, cancelling}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            await _interrupt_and_wait(running, statement, interrupt)
        finally:
            cancelling.cancel()
            running.cancel()
        raise SqlRefusal(
            "57014", "canceling statement due to user request", hint="Send it again if it is still needed."
        )

    def _require_room(self, user: str) -> None:
        waiting_of_user = self._users.get(user, _UserTurns()).count
        waiting = sum(turns.count for turns in self._users.values())
        if waiting_of_user >= MAX_WAITING_PER_USER or waiting >= MAX_WAITING:
            raise _too_many_refusal()

    async def _take_turn(self, user: str, call: Callable[[], _T], statement: _StatementState) -> _T:
        turns = self._users.setdefault(user, _UserTurns())
        turns.count += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS) as waiting, turns.turn, self._workers:
                waiting.reschedule(None)
                statement.is_running = True
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except TimeoutError:
            raise _too_many_refusal() from None
        finally:
            turns.count -= 1
            if not turns.count:
                del self._users[user]

    def close(self) -> None:
        """Accept no more; calls that run end by their own limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _interrupt_and_wait(
    running: asyncio.Future[_T], statement: _StatementState, interrupt: Callable[[], None]
) -> None:
    """End a statement: its turn lasts until its thread has returned."""
    while not running.done():
        if statement.is_running:
            interrupt()
        else:
            running.cancel()
        await asyncio.wait({running}, timeout=_INTERRUPT_SECONDS)
    if not running.cancelled():
        running.exception()  # it failed because it was interrupted: nobody needs to know


def _too_many_refusal() -> TooManyRequests:
    return TooManyRequests("too many catalog statements are waiting, of this user or of all users", 5)
