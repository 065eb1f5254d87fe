"""Routes for auditors and owners: verify, export and anchor the ledger."""

from __future__ import annotations

import tempfile
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sfumato.ledger import Anchor
from sfumato.ledger.proofs.exporting import Record
from sfumato.privacy import codec
from sfumato.server.people.users import Caller
from sfumato.server.requests.answer_encodings import json_response
from sfumato.server.requests.calls import (
    AUDITOR,
    JSON,
    OWNER,
    Parameter,
    RestOperation,
    authenticate,
    request_gateway,
    run_in_thread,
)
from sfumato.server.requests.responses import LedgerCheck

_FORMS = {"json": JSON, "csv": "text/csv", "arrow": "application/vnd.apache.arrow.file"}


async def verify(request: Request) -> Response:
    caller = await authenticate(request)
    verification = await run_in_thread(request_gateway(request).verify, caller)
    return json_response(LedgerCheck.of(verification))


async def export(request: Request) -> Response:
    """Export every ledger line."""
    return await export_response(request, await authenticate(request), request.query_params.get("form", "json"))


async def export_response(request: Request, caller: Caller, form: str) -> Response:
    """Return every ledger line in this format, from a temporary file that is removed when it is sent."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "ledger")
    try:
        await run_in_thread(request_gateway(request).export, caller, form, path)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, media_type=_FORMS[form], background=BackgroundTask(folder.cleanup))


async def anchor(request: Request) -> Response:
    caller = await authenticate(request)
    return Response(codec.dumps(await run_in_thread(request_gateway(request).anchor, caller)), media_type=JSON)


_ROLES = (OWNER, AUDITOR)
_FORM = Parameter("form", "query", "The file format.", {"enum": list(_FORMS), "default": "json"})
OPERATIONS = (
    RestOperation(
        "verify",
        "GET",
        "/v1/ledger/verify",
        "Verify every line of the ledger.",
        verify,
        _ROLES,
        responses={200: LedgerCheck},
    ),
    RestOperation(
        "export",
        "GET",
        "/v1/ledger/export",
        "Export every line of the ledger.",
        export,
        _ROLES,
        parameters=(_FORM,),
        media_types=tuple(_FORMS.values()),
        responses={200: list[Record]},
    ),
    RestOperation(
        "anchor",
        "GET",
        "/v1/ledger/anchor",
        "The ledger's head and totals, to be kept elsewhere.",
        anchor,
        _ROLES,
        responses={200: Anchor},
    ),
)
