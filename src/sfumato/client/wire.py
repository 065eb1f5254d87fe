"""A wire carries calls to a server and back: refusals become the errors they were, and what is lost is sent again.

Whatever is sent again is either free or has a request id, under which a server makes a release once, however often it
is sent.
"""

from __future__ import annotations

import json
import math
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from sfumato import errors
from sfumato.client.addresses import Address
from sfumato.errors import InvalidParameter, ServerUnavailable, SfumatoError, TooManyRequests, installing
from sfumato.untrusted import UNFORESEEN
from sfumato.version import __version__

_PROBLEM = "application/problem+json"
_TRIES = 4
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_LONGEST_READ = 3600.0
"""Seconds for which a release is waited for before it is asked for again: the server bounds how long it reads."""
_POLL = 0.5
_COMMAND = "httpx._main"


def _httpx() -> Any:
    """Import httpx, but not its command line: what that needs takes longer to import than all the rest, and httpx does
    without it where it is not there.
    """
    unknown = not {"httpx", _COMMAND} & sys.modules.keys()
    if unknown:
        sys.modules[_COMMAND] = None  # type: ignore[assignment]
    try:
        import httpx
    except ImportError:
        raise SfumatoError(
            "a server is called through httpx, which is not installed", place="sf.connect", fix=installing("client")
        ) from None
    finally:
        if unknown:
            sys.modules.pop(_COMMAND, None)
    return httpx


class Wire:
    """A wire is open until it is closed, and may be used from several threads."""

    def __init__(self, address: Address, token: str | None, *, timeout: float, certificate: str | None) -> None:
        httpx = _httpx()
        self.address = address
        self._timeout = timeout
        self._lost: tuple[type[Exception], ...] = (httpx.TransportError,)
        self._client = httpx.Client(
            base_url=address.base,
            headers=_headers(token),
            timeout=timeout,
            transport=None if address.socket is None else httpx.HTTPTransport(uds=address.socket),
            verify=_verified(address, certificate),
            trust_env=not address.local,  # a proxy has no part in what stays on this machine
            follow_redirects=False,  # a token goes to the address that was named
        )

    def get(self, *parts: str, **query: str | int) -> Any:
        """Ask for what is there."""
        return self._answered("GET", _path(parts), params=query)

    def tell(self, policy: str, kind: str, act: str, spec: Mapping[str, Any], price: Mapping[str, Any]) -> Any:
        """Ask what is free of a proposal."""
        sent = {"act": act, "spec": spec, "price": price}
        return self._answered("POST", _path(("policies", policy, "proposals", kind)), content=_written(sent))["result"]

    def release(
        self, policy: str, sent: Mapping[str, Any], request_id: str, progress: Callable[[str], None] | None
    ) -> Any:
        """Ask for a release, under an id by which it is bought once; its phases are asked for beside it.

        The answer comes with the call itself: what is fetched later is shown as bought before, which it then was.
        """
        path = _path(("policies", policy, "releases"))
        with _Watching(self, path, request_id, progress):
            found = self._answered(
                "POST",
                path,
                content=_written(sent),
                headers={"Idempotency-Key": request_id},
                timeout=_patient(self._timeout),
                request_id=request_id,
            )
        return found["result"]

    def phase(self, path: str, request_id: str) -> str | None:
        """Ask how far a release is; None where that cannot be told now."""
        try:
            answer = self._client.get(path, params={"key": request_id})
            return str(answer.json()["phase"]) if answer.status_code == 200 else None
        except self._lost:
            return None
        except UNFORESEEN:
            return None

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _answered(self, method: str, path: str, *, request_id: str | None = None, **more: Any) -> Any:
        """Ask until there is an answer: what was lost on the way is sent again, and a busy server is waited for."""
        until = time.monotonic() + self._timeout
        for tried in range(_TRIES):
            wait = _FIRST_WAIT * 2**tried
            try:
                return self._read(self._client.request(method, path, **more), request_id)
            except TooManyRequests as refused:
                wait = min(float(refused.retry_after), _LONGEST_WAIT)
                if tried == _TRIES - 1 or time.monotonic() + wait > until:
                    raise
            except self._lost as error:
                if tried == _TRIES - 1 or time.monotonic() + wait > until:
                    rule = f"the server does not answer ({_words(error)})"
                    raise ServerUnavailable(rule, place=self.address.words, request_id=request_id) from None
            time.sleep(wait)
        raise AssertionError("the last try ends in an answer or an error")

    def _read(self, answer: Any, request_id: str | None) -> Any:
        media = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media == _PROBLEM:
            raise errors.from_json(answer.text)
        try:
            found = json.loads(answer.text) if answer.status_code == 200 and media == "application/json" else None
        except UNFORESEEN:
            found = None
        if not isinstance(found, dict):
            rule = f"what answers at this address is no server of ours (status {answer.status_code})"
            raise ServerUnavailable(rule, place=self.address.words, request_id=request_id)
        return found


class _Watching:
    """While a release is waited for, its phases are told to whoever wants to know: queued, charged, done."""

    def __init__(self, wire: Wire, path: str, request_id: str, progress: Callable[[str], None] | None) -> None:
        self._wire = wire
        self._asked = path, request_id
        self._progress = progress
        self._over = threading.Event()
        self._told = ""
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._progress is not None:
            self._tell("queued")
            self._thread.start()

    def __exit__(self, failed: object, *_: object) -> None:
        if self._progress is not None:
            self._over.set()
            self._thread.join()
            if failed is None:
                self._tell("done")

    def _watch(self) -> None:
        while not self._over.wait(_POLL):
            phase = self._wire.phase(*self._asked)
            if phase is not None and phase != "done":
                self._tell(phase)

    def _tell(self, phase: str) -> None:
        if phase != self._told and self._progress is not None:
            self._told = phase
            self._progress(phase)


def _headers(token: str | None) -> dict[str, str]:
    if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable() and token.strip()):
        raise InvalidParameter("token", "…", "the text that the owner gave you")  # what was given may be a secret
    shown = {} if token is None else {"Authorization": f"Bearer {token.strip()}"}
    return {**shown, "User-Agent": f"sfumato/{__version__}", "Content-Type": "application/json"}


def _verified(address: Address, certificate: str | None) -> ssl.SSLContext | bool:
    """Say by which certificates a server is known: the system's, or the one that is named; it always is."""
    if not address.base.startswith("https:"):
        return False  # nothing is encrypted on the way to this machine itself
    try:
        return ssl.create_default_context(cafile=certificate)
    except (OSError, ssl.SSLError):
        raise InvalidParameter("certificate", certificate, "a file of certificates in PEM") from None


def _patient(timeout: float) -> Any:
    import httpx

    return httpx.Timeout(timeout, read=_LONGEST_READ)


def _path(parts: tuple[str, ...]) -> str:
    return "/v1/" + "/".join(quote(each, safe="") for each in parts)


def _written(sent: Mapping[str, Any]) -> bytes:
    return json.dumps(sent, allow_nan=False).encode()


def _words(error: BaseException) -> str:
    """Say in what way a server was not reached: a certificate that nobody vouches for is named as such."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS: its certificate is not trusted, {cause.verify_message}; name one that is with certificate"
        if isinstance(cause, ssl.SSLError):
            return "TLS: it does not speak it, or not as here"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def seconds(value: object, name: str) -> float:
    """Read a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidParameter(name, value, "a number of seconds above 0")
    return float(value)
