"""A refusal tells whoever asks about their call, and only the owner about the server's own files.

Where a ledger lies, and which file cannot be read, is for whoever runs the server: owners are told, and for calls of
others it is printed where the server runs. Which refusals are kept so is decided by their kind and by the form of their
place, never by what is on the disk, so nobody can test a guess of a path.
"""

from __future__ import annotations

import os
import sys

from sfumato.errors import LedgerBehind, LedgerDamaged, LedgerInDoubt, LedgerUnavailable, SfumatoError
from sfumato.server.people.known_people import Role

_FIX = "try again later; if it stays so, ask the owner, who is told why"


def told(error: BaseException, role: Role | None) -> BaseException:
    """Give what is told of an error to somebody in a role, or to nobody that is known."""
    if role is Role.OWNER or not isinstance(error, SfumatoError):
        return error
    if isinstance(error, (LedgerDamaged, LedgerBehind)) and role is Role.AUDITOR:
        return error  # that is what auditors look for, and it names lines
    if isinstance(error, LedgerInDoubt):
        # It is about the call: whoever asked must know that it may be charged, and how to ask again for nothing.
        return LedgerInDoubt(error.first, error.last, error.request_id, place="the server")
    if isinstance(error, LedgerUnavailable):
        print(f"{type(error).__name__}: {error.rule} ({error.place})", file=sys.stderr, flush=True)  # noqa: T201
        return LedgerUnavailable("the server's files cannot be used now", place="the server", fix=_FIX)
    if type(error) is SfumatoError or error.place.startswith(os.sep):
        return SfumatoError("the server cannot do this now", place="the server", fix=_FIX)
    return error
