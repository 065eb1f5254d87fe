"""These routes are for auditors, and for the owner: the whole ledger, whether it holds, and what to keep elsewhere."""

from __future__ import annotations

import tempfile
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sfumato.ledger import Anchor
from sfumato.ledger.proofs.exporting import Record
from sfumato.privacy import codec
from sfumato.server.people.known_people import Caller
from sfumato.server.requests.answer_forms import json_response
from sfumato.server.requests.calls import (
    AUDITOR,
    JSON,
    OWNER,
    Parameter,
    RestOperation,
    counter_of,
    identified,
    in_thread,
)
from sfumato.server.requests.told_values import LedgerCheck

_FORMS = {"json": JSON, "csv": "text/csv", "arrow": "application/vnd.apache.arrow.file"}


async def verify(request: Request) -> Response:
    caller = await identified(request)
    found = await in_thread(counter_of(request).verify, caller)
    return json_response(LedgerCheck.of(found))


async def export(request: Request) -> Response:
    """Give every line."""
    return await exported(request, await identified(request), request.query_params.get("form", "json"))


async def exported(request: Request, caller: Caller, form: str) -> Response:
    """Give every line in a form; it is written to a file of ours first, which is removed when it is sent."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "ledger")
    try:
        await in_thread(counter_of(request).export, caller, form, path)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, media_type=_FORMS[form], background=BackgroundTask(folder.cleanup))


async def anchor(request: Request) -> Response:
    caller = await identified(request)
    return Response(codec.dumps(await in_thread(counter_of(request).anchor, caller)), media_type=JSON)


_ROLES = (OWNER, AUDITOR)
_FORM = Parameter("form", "query", "How it is written.", {"enum": list(_FORMS), "default": "json"})
OPERATIONS = (
    RestOperation(
        "verify",
        "GET",
        "/v1/ledger/verify",
        "Whether every line is as it was written.",
        verify,
        _ROLES,
        told={200: LedgerCheck},
    ),
    RestOperation(
        "export",
        "GET",
        "/v1/ledger/export",
        "Every line.",
        export,
        _ROLES,
        parameters=(_FORM,),
        answers=tuple(_FORMS.values()),
        told={200: list[Record]},
    ),
    RestOperation(
        "anchor",
        "GET",
        "/v1/ledger/anchor",
        "Head and totals, to be kept elsewhere.",
        anchor,
        _ROLES,
        told={200: Anchor},
    ),
)
